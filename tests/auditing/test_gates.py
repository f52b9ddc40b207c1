"""No edit that leaves something out turns a red release green without a word."""

import json
from typing import Any

import numpy as np
import pytest
import scipy

import pcer
from pcer.measuring.checks import check_release
from pcer.release.file import parse_release
from tests.worlds.edits import (
    RED,
    accusations,
    edited,
    edits_of,
    faults,
    red_text,
    simulated,
)
from tests.worlds.releases import World, simulate

Tree = dict[str, Any]
# Exposure of either group, by every attack over several models.
FOUND = {
    "paired_gap": (0.01, 0.04),
    "paired_confidence": (0.01, 0.04),
    "lira_advantage": (0.02, 0.07),
    "rmia_advantage": (0.02, 0.07),
}
ERROR = 0.006  # of each, over all models
ERROR_OF_ONE = 0.0115  # by one model: what chance gives with 2,100 members of 3,000
FINDINGS = ["double_disadvantage", "exposure_differs", "ratio_differs"]


def world(gaps: tuple[float, float]) -> Tree:
    """Ten splits of two groups that are alike, but for how much is memorised."""
    drawn = World(
        sizes=(3_000, 3_000),
        label_shares=(0.4, 0.4),
        right=[(0.8, 0.7)] * 2,
        gaps=gaps,
        n_seeds=10,
    )
    tree = json.loads(simulate(drawn, np.random.default_rng(2)).to_json())
    tree["subject"] |= {"n_records": 6_000, "n_missing_group": 0}
    tree["training"]["stratified_by"] = "label"
    return tree


def red() -> Tree:
    """Group g1 is easier to spot: only attacks over several models show it."""
    tree = world((0.0, 0.0))
    tree["pooled_exposure"] = []
    for attack, values in FOUND.items():
        for group, value in zip(("g0", "g1"), values, strict=True):
            row = {"epsilon": None, "group": group, "attack": attack, "value": value}
            row |= {"standard_error": ERROR, "n_records": 3_000}
            tree["pooled_exposure"].append(row)
    return tree


def red_by_single_models() -> Tree:
    """The same, and every model has the exposures, too."""
    tree = red()
    for run in tree["runs"]:
        for row in tree["pooled_exposure"]:
            exposure = run["groups"][row["group"]].setdefault("exposure", {})
            single = {"value": row["value"], "standard_error": ERROR_OF_ONE}
            exposure[row["attack"]] = single
    return tree


def audit(tree: Tree, policy: Tree | None = None) -> pcer.Audit:
    limits = None if policy is None else pcer.Policy(**policy)
    plan = pcer.Plan(resamples=20, null_draws=20, policy=limits)
    return pcer.audit(parse_release(tree, file="x"), plan)


def broken(tree: Tree, **policy: Any) -> set[str]:
    """The rules that are broken under strictness."""
    return {one.rule for one in audit(tree, {"strict": True, **policy}).broken_rules}


def test_the_releases_are_red_and_lack_nothing():
    for tree in (red(), red_by_single_models()):
        assert audit(tree).stronger_attack is None
        assert broken(tree) == set()
        assert broken(tree, fail_on=FINDINGS) == {"fail_on"}


def test_deleting_what_single_models_say_too_hides_nothing():
    tree = red_by_single_models()
    del tree["pooled_exposure"]
    assert broken(tree, fail_on=FINDINGS) == {"fail_on"}


def test_strictness_breaks_where_stronger_attacks_are_deleted():
    tree = red()
    del tree["pooled_exposure"]
    assert audit(tree).stronger_attack == "rmia_advantage"
    assert broken(tree, fail_on=FINDINGS) != set()


def test_strictness_breaks_where_an_attack_has_fewer_records_than_the_counts():
    tree = red()
    for row in tree["pooled_exposure"]:
        row["n_records"] = 49
    assert broken(tree, fail_on=FINDINGS) != set()


def test_strictness_breaks_where_ten_models_have_a_larger_error_than_one():
    tree = red_by_single_models()
    for row in tree["pooled_exposure"]:
        row["standard_error"] *= 3
    assert broken(tree, fail_on=FINDINGS) != set()


def test_a_required_attack_needs_its_number_over_all_splits():
    tree = red_by_single_models()
    del tree["pooled_exposure"]
    assert "required_attacks" in broken(tree, required_attacks=["lira_advantage"])


def test_units_that_the_counts_speak_against_are_found():
    tree = world((0.0, 0.04))
    assert audit(tree).verdict == "exposure_differs"
    assert audit(tree).declarations == []
    tree["training"]["unit_of_split"] = "household"
    tree["training"]["effective_units"] = {"g0": 300, "g1": 300}
    assert audit(tree).declarations != []


def test_without_strictness_the_screen_begins_with_what_is_absent():
    tree = red()
    del tree["pooled_exposure"]
    first = " ".join(str(audit(tree)).split())[:300]
    assert "less evidence than the splits allow: RMIA is absent" in first


# Numbers over all models, beside those of runs and the counts


def test_one_fault_is_named_for_an_attack_and_true_numbers_have_none():
    assert rows_at_fault(simulated()) == []
    forms = {
        "n_records": (49, "is said to rest on 49 records"),
        "value": (0.3, "the runs' own values have the mean"),
        "null_error": (0.5, "which is a part of it"),
        "standard_error": (0.05, "more than these models allow"),
    }
    for field, (number, said) in forms.items():
        tree = simulated()
        for row in tree["pooled_exposure"]:
            if row["attack"] == "lira_advantage":
                row[field] = number
        (sentence,) = rows_at_fault(tree)
        assert said in sentence
        assert "LiRA" in sentence


def rows_at_fault(tree: Tree) -> list[str]:
    """Sentences of the check of numbers over all models."""
    found = check_release(parse_release(tree, file="x"))
    return [one.sentence for one in found if one.check == "attack_rows"]


def test_the_largest_error_is_that_of_runs_and_models_by_hand():
    """Ten runs of .10 or .14 with errors of .0115: their variance is .0004 * 10 / 9."""
    student = scipy.stats.t.ppf(0.975, 9) / scipy.stats.norm.ppf(0.975)
    allowed = np.sqrt(0.0115**2 + student**2 * 0.0004 / 9)
    for error, n in ((0.999 * allowed, 0), (1.001 * allowed, 1)):
        tree = simulated()
        for seed, run in enumerate(tree["runs"]):
            single = run["groups"]["g1"]["exposure"]["lira_advantage"]
            run["groups"]["g1"]["exposure"]["lira_advantage"] = {
                **single,
                "value": 0.12 + (0.02 if seed % 2 else -0.02),
            }
        for row in tree["pooled_exposure"]:
            if (row["attack"], row["group"]) == ("lira_advantage", "g1"):
                row |= {"value": 0.12, "standard_error": error}
        assert len(rows_at_fault(tree)) == n


# Every field, and honest releases: short forms of ``benchmarks/edits.py``


@pytest.mark.slow
@pytest.mark.parametrize("name", RED)
def test_no_structural_edit_turns_a_red_release_green_without_a_word(name):
    rng = np.random.default_rng(42)
    tree = json.loads(red_text(name))
    every = edits_of(tree)
    for n_edits, times in ((1, 20), (2, 20)):
        for _ in range(times):
            edits = [every[k] for k in rng.choice(len(every), n_edits, replace=False)]
            said = [(".".join(edit.field), edit.name) for edit in edits]
            assert faults(edited(tree, edits)) == [], said


@pytest.mark.slow
def test_honest_releases_are_rarely_accused_or_refused():
    """At most 1.8 % by the bar; three of 40 have a chance of .03 then."""
    accused = [said for said in (accusations(7, k)[1] for k in range(40)) if said]
    assert len(accused) <= 2, accused
