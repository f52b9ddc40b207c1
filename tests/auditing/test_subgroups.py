"""The row about subgroups: who is named, and what is said where nobody is."""

import json

import pytest

import pcer
from pcer.auditing import sentences
from pcer.release.file import parse_release
from pcer.report.formats.terminal import terminal_text
from pcer.report.views import view_of
from tests.commands import SAMPLES
from tests.release.test_file import search

FOREST = json.loads((SAMPLES / "forest.release.json").read_text())
PLACE = {name: FOREST["runs"][0].get(name) for name in ("model", "epsilon")}


def audit_of(*searches):
    placed = []
    for one in searches:
        tests = [{**test, **PLACE} for test in one["tests"]]
        worst = one.get("worst") and {**one["worst"], **PLACE}
        placed.append({**one, "tests": tests, "worst": worst})
    return pcer.audit(parse_release({**FOREST, "subgroups": placed}, file="x"))


def row_of(audit):
    rows = sentences.of(audit, audit.told).rows
    (found,) = (row for row in rows if "subgroup" in row.question)
    return found


def with_attack(**changes):
    found = search(**changes)
    for part in (*found["tests"], found["worst"]):
        part["attack"] = "rmia_advantage"
    found["tests"][0]["detectable"] = 0.1
    return found


def test_who_is_easiest_to_spot_is_named_with_the_least_difference():
    found = row_of(audit_of(with_attack(n_candidates=59)))
    assert found.answer == "Easiest to spot: sex = men"
    first, within, *_ = found.figures
    assert first == (
        "Of 59 subgroups, those with sex = men (200 people) are easiest to spot: at "
        "least 14 points of an attacker's success of 100 (RMIA) beyond everybody else."
    )
    assert "with the same true outcome no subgroup is shown (p = .400)" in within


def test_with_nobody_the_power_is_said():
    nobody = {**with_attack(n_candidates=59), "worst": None}
    found = row_of(audit_of(nobody))
    assert found.answer == "None of 59 subgroups stands out"
    assert found.figures[0] == (
        "None of 59 subgroups is shown to be easiest to spot; one of 100 people and 10 "
        "points of an attacker's success of 100 (RMIA) would have been found in 8 of "
        "10 cases."
    )


def test_who_is_not_named_has_a_reason():
    hidden = {**with_attack(withheld="few people"), "worst": None}
    found = row_of(audit_of(hidden))
    assert found.answer == "One stands out and is not named"
    assert "not named: few people" in found.figures[0]


@pytest.mark.parametrize(
    ("about", "words"),
    [("wrongly", "predicted most often"), ("outcomes", "predicted most often")],
)
def test_rates_are_searched_too(about, words):
    found = row_of(audit_of(search(about=about)))
    assert words in found.answer.lower()
    assert "at least 14 points of 100 beyond everybody else" in found.figures[0]


def test_it_enters_no_verdict_and_screens_keep_their_length():
    plain, searched = audit_of(), audit_of(with_attack())
    for name in ("verdict", "headline", "account", "next_steps"):
        assert getattr(plain, name) == getattr(searched, name)
    screen = terminal_text(view_of(searched))
    assert "Which subgroup is hit hardest?" in screen
    assert screen.count("\n") < 32
