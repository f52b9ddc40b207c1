"""Recomputation finds any change of any digit, and names it."""

from __future__ import annotations

import json
import re

import pytest

import pcer
from pcer.release.format import parse_release
from pcer.report.verify import first_difference, verify_audit, verify_audits
from tests.conftest import make_plain_release

QUICK = pcer.Plan(resamples=40, null_draws=10)


@pytest.fixture(scope="module")
def case():
    """A release and its audit file as text."""
    release = parse_release(make_plain_release(), file="x")
    return release, pcer.audit(release, QUICK).to_json()


def test_an_audit_verifies(case):
    release, text = case
    assert verify_audit(json.loads(text), [release]) is None


def test_every_changed_digit_is_found(case):
    """Change each digit of each number in turn; no edit may pass."""
    release, text = case
    recomputed = pcer.audit(release, QUICK).model_dump()
    numbers = list(re.finditer(r"(?<![\w\"])-?\d[\d.e+-]*", text))
    assert len(numbers) > 300
    checked = 0
    for match in numbers:
        for at in range(match.start(), match.end()):
            if not text[at].isdigit():
                continue
            digit = str((int(text[at]) + 1) % 10)
            try:
                edited = json.loads(text[:at] + digit + text[at + 1 :])
            except json.JSONDecodeError:
                continue  # a leading zero: not JSON any more, refused on reading
            if edited == json.loads(text):
                continue  # -0.0 and the like: the same number in another spelling
            if edited["plan"] != json.loads(text)["plan"]:
                continue  # the next test
            found = first_difference(edited, recomputed, path="")
            assert found is not None, text[match.start() - 30 : match.end()]
            checked += 1
    assert checked > 2_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("floor", 0.002),
        ("floors", [0.0001, 0.001, 0.01, 0.2]),
        ("confidence_level", 0.9),
        ("resamples", 41),
        ("null_draws", 11),
        ("rng", 1),
        ("benefit", "precision"),
        ("reference_group", "Other"),
    ],
)
def test_a_changed_plan_is_found(case, field, value):
    release, text = case
    edited = json.loads(text)
    edited["plan"][field] = value
    assert verify_audit(edited, [release]).path == "plan_sha256"


DIGITS = 0.0123456789012345
"""More of them than results are written with."""


@pytest.mark.parametrize(
    "named",
    [
        {"margin": DIGITS},
        {"policy": pcer.Policy(largest_difference=DIGITS)},
        {"policy": pcer.Policy(largest_exposure=2.0**63)},
        {"floors": [DIGITS / 10, DIGITS], "floor": DIGITS},
    ],
)
def test_a_plans_numbers_are_written_as_given(case, named):
    """Rounded like results, they would be another plan's, with another digest."""
    release, _ = case
    plan = QUICK.model_copy(update=named)
    text = pcer.audit(release, plan).to_json()
    assert verify_audit(json.loads(text), [release]) is None
    assert verify_audits([json.loads(text)], [release], plan_sha256=plan.sha256) is None
    near = json.loads(text.replace("0.0123456789012345", "0.0123456789012346"))
    if near != json.loads(text):
        assert verify_audit(near, [release]).path == "plan_sha256"


def test_changed_words_are_found(case):
    release, text = case
    edited = json.loads(text)
    edited["verdict"] = "no_disparity_shown" if edited["verdict"] != "no_disparity_shown" else "x"
    assert verify_audit(edited, [release]).path == "verdict"
    edited = json.loads(text)
    edited["budgets"][0]["advice"] += " Trust us."
    assert verify_audit(edited, [release]).path == "budgets[0].advice"


def test_added_and_removed_fields_are_found(case):
    release, text = case
    edited = json.loads(text)
    edited["budgets"][0]["note"] = "fine"
    assert "note" in verify_audit(edited, [release]).path
    edited = json.loads(text)
    del edited["budgets"][0]["pcer_spread"]
    assert verify_audit(edited, [release]).path == "budgets[0].pcer_spread"
    edited = json.loads(text)
    edited["budgets"].pop()
    assert verify_audit(edited, [release]).path == "budgets"


def test_another_release_is_found(case):
    release, text = case
    other = release.model_copy(update={"runs": release.runs[:-1]})
    assert verify_audit(json.loads(text), [other]).path == "release_sha256"


def test_another_machines_last_bit_is_forgiven():
    """Half of the twelfth digit either way, and not more."""
    assert first_difference(0.123456789012, 0.1234567890125, path="x") is None
    assert first_difference(0.123456789013, 0.1234567890125, path="x") is None
    assert first_difference(0.123456789014, 0.1234567890125, path="x") is not None
    assert first_difference(0.1234567890125, 0.1234567890125, path="x") is not None
