"""The documented guard is red on data that can show nothing, and green on data that showed it.

And an audit of the first version is answered with the pcer that can recompute it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.commands import passed, refusal
from tests.release.test_format import CELLS, release_of
from tests.worlds.people import draw_null, memorising, world_of

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "releases"


def documented_guard() -> list[str]:
    """The options of the guard that docs/reports.md prints."""
    text = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    command = next(re.finditer(r"(?:^    .*\\\n)*^    .*--fail-on.*$", text, re.MULTILINE))
    options = re.findall(r"--fail-on \w+", command.group().replace("\\\n", " "))
    return [word for option in options for word in option.split()]


GUARD = documented_guard()
FOUR_ROWS = [[(1, 0, 0, 0), (0, 1, 0, 0)], [(0, 0, 1, 0), (0, 0, 0, 1)]]
ALL_RIGHT = [[(350, 0, 350, 0), (150, 0, 150, 0)]] * 2
"""By group, tp, fp, tn and fn in training and in test."""


def test_the_documented_guard_names_what_shows_nothing():
    verdicts = {"not_resolved", "insufficient_data", "disparity_shown", "double_disadvantage"}
    assert {*GUARD} == {"--fail-on", *verdicts}


@pytest.mark.parametrize("tables", [FOUR_ROWS, ALL_RIGHT], ids=["four rows", "all right"])
def test_it_is_red_where_nothing_can_be_shown(tables, tmp_path):
    path, report = tmp_path / "x.release.json", tmp_path / "x.xml"
    tree = release_of()
    for name, group in zip(tree["subject"]["groups"], tables, strict=True):
        parts = zip(("train", "test"), group, strict=True)
        tree["runs"][0]["groups"][name] = {p: dict(zip(CELLS, t, strict=True)) for p, t in parts}
    path.write_text(json.dumps(tree))
    done = passed("audit", path, "--junit", report, *GUARD, code=1)
    assert re.search("insufficient_data|not_resolved", done.stderr)
    assert 'failures="1"' in report.read_text()


def test_it_is_red_on_the_logistic_example_of_the_readme():
    example = ROOT / "examples" / "compas-logistic.release.json"
    assert "not_resolved" in passed("audit", example, *GUARD, code=1).stderr


def test_it_is_green_where_memory_was_seen_and_nobody_pays_more(tmp_path):
    people = memorising(0.1, 0.8)
    world = world_of([4_000, 4_000], [0.4, 0.4], people, n_splits=5, are_twins=True)
    path = tmp_path / "x.release.json"
    path.write_text(draw_null(world, np.random.default_rng(3)).release().to_json())
    passed("audit", path, *GUARD)


def test_an_audit_of_version_1_is_told_which_pcer_can_recompute_it():
    audit = SAMPLES / "by-hand.version-1.audit.json"
    told = refusal("verify", audit, SAMPLES / "by-hand.release.json")
    assert re.search(r"version 1, which pcer \d+\.\d+\.\d+ wrote and can recompute", told)
    assert audit.name in told
    assert "audit the release again" in told
