"""The seventh row: what an audit makes of ``tail``, in numbers, words and dots."""

import json
import re
from itertools import product

import pytest

import pcer
from pcer.auditing import sentences
from pcer.auditing.tails import tails_of
from pcer.release.file import parse_release
from pcer.release.records import TailRow
from pcer.report import to_markdown_page, to_report
from pcer.report.formats.terminal import terminal_text
from pcer.report.pictures.answers import pictures_svg
from pcer.report.views import view_of
from pcer.statistics import holm
from tests.commands import SAMPLES
from tests.pages import ROOT

FOREST = json.loads((SAMPLES / "forest.release.json").read_text())
FIRST, SECOND = FOREST["subject"]["groups"][:2]
QUESTION = "Whom does an attacker spot almost surely?"


def row(group, picked=None, right=None, **more):
    numbers = {}
    if picked is not None:
        numbers = {"picked": picked, "picked_error": 0.02, "by_chance": 0.006}
        numbers |= {"right": right, "right_error": 0.02}
    place = {"epsilon": None, "group": group, "n_models": 16, "threshold": 0.9}
    return place | numbers | more


def audit_of(*rows):
    """The audit of a release with these rows of ``tail``."""
    setting = {name: FOREST["runs"][0].get(name) for name in ("model", "epsilon")}
    tail = [{**one, **setting} for one in rows]
    return pcer.audit(parse_release({**FOREST, "tail": tail}, file="x"))


def beside(p_value, **more):
    return {"against": FIRST, "p_value": p_value, **more}


def seventh(audit):
    (found,) = (
        row for row in sentences.of(audit, audit.told).rows if row.question == QUESTION
    )
    return found


def differing(**more):
    return audit_of(
        row(FIRST, 0.24, 0.92),
        row(SECOND, 0.44, 0.94, **beside(0.004, p_value_within_labels=0.3), **more),
    )


def test_a_release_without_rows_has_six_questions():
    audit = audit_of()
    assert audit.told.tail is None
    assert len(sentences.of(audit, audit.told).rows) == 6


def test_the_row_stands_before_the_last_and_below_the_mean():
    rows = [row.question for row in sentences.of(differing(), differing().told).rows]
    assert rows[5] == QUESTION
    assert len(rows) == 7
    assert rows[1] == "Is one group easier to spot?"
    assert rows[-1] == "How far can this be trusted?"


def test_the_group_with_more_people_is_named_first_with_both_numbers():
    found = seventh(differing())
    assert found.answer == f"44 of 100 people ({SECOND}), 24 ({FIRST}); more: {SECOND}"
    first, second, chance, test, *_ = found.figures
    assert first.startswith(f"Of 100 people ({SECOND}) an attacker singles out 44")
    assert first.endswith("the attacker picks the right one 94 times of 100.")
    assert second == f"Of 100 people ({FIRST}) 24; right 92 times of 100."
    assert "at most 0.6 of 100" in chance
    assert "(p = .004)" in test
    assert "with the same true outcome no difference is shown (p = .300)" in test
    assert not found.is_alarm


def test_it_changes_no_verdict_and_no_headline():
    plain, with_tail = audit_of(), differing()
    for name in ("verdict", "headline", "account", "next_steps", "trust"):
        assert getattr(plain, name) == getattr(with_tail, name)
    assert plain.statements() == with_tail.statements()


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        (
            [row(FIRST), row(SECOND)],
            "Nobody is shown to be: too few are singled out",
        ),
        (
            [row(FIRST, 0.01, 0.52), row(SECOND, 0.01, 0.5)],
            "Nobody is shown to be",
        ),
        ([row(FIRST, 0.995, 0.99), row(SECOND)], f"99 or more of 100 people ({FIRST})"),
        (
            [row(FIRST, 0.06, 0.9), row(SECOND, 0.07, 0.9, **beside(0.4))],
            f"7.0 of 100 people ({SECOND}), 6.0 ({FIRST}); no difference shown",
        ),
    ],
)
def test_every_answer(rows, answer):
    assert seventh(audit_of(*rows)).answer == answer


def test_many_made_up_groups_withdraw_a_difference():
    audit = differing(n_draws=200, n_alarms=30)
    assert audit.told.tail.pairs[0].answer == "no_difference_shown"
    assert any("30 of 200" in line for line in seventh(audit).figures)
    assert differing(n_draws=200, n_alarms=10).told.tail.pairs[0].downgraded is None


def test_differences_are_one_family_over_settings_and_pairs():
    settings = [{"model": None, "epsilon": epsilon} for epsilon in (1.0, 2.0, None)]
    p_values = [0.03, 0.004, 0.2]
    runs = []
    tail = []
    for setting, p_value in zip(settings, p_values, strict=True):
        runs += [{**run, **setting} for run in FOREST["runs"]]
        tail.append({**row(FIRST, 0.2, 0.9), **setting})
        tail.append({**row(SECOND, 0.3, 0.9, **beside(p_value)), **setting})
    tree = {**FOREST, "runs": runs, "tail": tail}
    tree = {k: v for k, v in tree.items() if k not in ("pooled_exposure", "placebo")}
    found = tails_of(parse_release(tree, file="x"))
    adjusted = [answer.pairs[0].p_value for answer in found.values()]
    assert adjusted == pytest.approx(holm(p_values).tolist())


def test_screens_keep_their_length_and_the_page_has_the_dots():
    audit = differing()
    screen = terminal_text(view_of(audit))
    assert QUESTION in screen
    assert screen.count("\n") < 32
    full = terminal_text(view_of(audit, "full"))
    assert "enters no verdict" in full
    markdown = to_markdown_page([audit])
    assert QUESTION in markdown
    page = to_report([audit], audit.sources)
    assert page.count(QUESTION) >= 1
    svg = pictures_svg(audit)
    assert f"{SECOND}: 44 of 100 people singled out" in svg


def test_dots_are_a_hundred():
    svg = pictures_svg(differing())
    paths = re.findall(r'<path d="((?:M-?\d+ \d+a[13] [13][^M"]*)+)"', svg)
    assert [path.count("M") for path in paths] == [44, 56, 24, 76]


def test_a_page_folds_the_figures_of_nobody():
    audit = audit_of(row(FIRST), row(SECOND))
    page = to_report([audit], audit.sources)
    first_screen, _, detail = page.partition('<details class="detail">')
    assert "too few are singled out" in first_screen
    assert "enters no verdict" not in first_screen
    assert "enters no verdict" in detail


def test_six_answers_have_the_room_where_a_screen_is_full():
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    epsilons = {run.epsilon for run in release.runs}
    rows = []
    for epsilon, group in product(epsilons, release.subject.groups):
        rows.append(TailRow(**row(group, 0.2, 0.9) | {"epsilon": epsilon}))
    audit = pcer.audit(release.model_copy(update={"tail": rows}))
    lines = terminal_text(view_of(audit)).split("\n")
    assert len(lines) <= 32
    said = " ".join(line.strip() for line in lines)
    for one in sentences.of(audit, audit.told).rows:
        assert (one.question in said) == (one.question != QUESTION)
    assert QUESTION in terminal_text(view_of(audit, "full"))
