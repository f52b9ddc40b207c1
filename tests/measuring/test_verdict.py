"""One list of verdicts: what is derived from it, and words for every verdict."""

from pathlib import Path

from pcer.auditing.record import Audit, strongest
from pcer.measuring.plan import (
    GRID_VERDICTS,
    GUARDED,
    RENAMED,
    SETTING_VERDICTS,
    Verdict,
)

ROOT = Path(__file__).parents[2]
FLAGS = ("outcomes_differ", "wrongly_differs", "floor_sensitive")


def test_every_list_of_verdicts_is_the_one_list():
    """A disparity is read without a label only where an exposure was seen."""
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    tree = Audit.file_schema()
    words = ", ".join(verdict.words for verdict in SETTING_VERDICTS)
    assert f"in the order *{words}*" in page
    assert tree["properties"]["verdict"]["enum"] == list(SETTING_VERDICTS)
    grid = tree["$defs"]["Algorithm1"]["properties"]["verdict"]["anyOf"][0]["enum"]
    assert grid == list(GRID_VERDICTS)
    assert [verdict.is_alarm for verdict in SETTING_VERDICTS] == [True] * 3 + [
        False
    ] * 5
    assert set(RENAMED.values()) < set(GUARDED) == {*SETTING_VERDICTS, *FLAGS}


def test_the_strongest_stands_and_equality_is_what_all_must_have():
    equal = Verdict.EQUAL_WITHIN_MARGIN
    for k, verdict in enumerate(SETTING_VERDICTS):
        assert strongest([equal, verdict, equal]) is verdict
        assert verdict is equal or strongest(reversed(SETTING_VERDICTS[k:])) is verdict


def test_every_verdict_has_words_of_its_own():
    words = {verdict.words for verdict in SETTING_VERDICTS}
    assert len(words) == len(SETTING_VERDICTS)
