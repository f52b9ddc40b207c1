"""What could be shown: the front says what the planner says, and refuses in a sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import pcer
from pcer.auditing import outlook_schema
from pcer.auditing.outlook import SPLIT_GRID
from pcer.auditing.planner import (
    POWER,
    CountsError,
    Design,
    DifferenceBetween,
    ExposureOf,
    people_for,
    smallest,
    splits_for,
)
from pcer.release import parse_release
from tests.pages import many_groups, mixed_release
from tests.simulate import World, simulate
from tests.simulate_power import audited_shares

ROOT = Path(__file__).parents[2]
SIZES = {"women": 1_200, "men": 3_400}
FOREST = ROOT / "examples" / "compas-forest.release.json"


def design(*, n_splits=20, people=(1_200.0, 3_400.0), accuracy=(0.8, 0.8)) -> Design:
    return Design(
        group_names=("women", "men"),
        people=np.array(people),
        n_splits=n_splits,
        n_cost_tests=2,
        n_pair_tests=1,
        error=CountsError(accuracy=np.array(accuracy), train_share=0.7),
    )


def hardest(study: Design, base: float = 0.0) -> float:
    """The smallest difference that shows in both directions: by trying a grid of amounts."""
    for amount in np.arange(0.0005, 0.3, 0.0005):
        both = [
            DifferenceBetween(lower=i, higher=j, base=base).power(study, amount)
            for i, j in ((0, 1), (1, 0))
        ]
        if min(both) >= POWER:
            return float(amount)
    return math.nan


def test_from_sizes_it_is_the_planners_answer():
    found = pcer.detectable(SIZES, n_splits=20)
    study = design()
    for g, one in enumerate(found.groups):
        assert one.smallest == smallest(study, ExposureOf(group=g))
        assert one.limit == 0.0
        assert one.accuracy == 0.8
    (pair,) = found.pairs
    assert pair.groups == ("women", "men")
    assert pair.smallest == pytest.approx(hardest(study), abs=0.0005)
    endless = hardest(replace(study, n_splits=math.inf))
    assert pair.limit == pytest.approx(endless, abs=0.0005)


def test_a_target_asks_for_splits_and_people():
    found = pcer.detectable(SIZES, target=0.01)
    study = design()
    for g, one in enumerate(found.groups):
        question = ExposureOf(group=g)
        assert one.splits_for_target == splits_for(study, question, 0.01)
        assert one.people_for_target == people_for(study, question, 0.01)[g]
    women, men = found.pairs[0].people_for_target
    assert men / women == pytest.approx(3_400 / 1_200, rel=1e-3)
    enough, fewer = (
        hardest(replace(study, people=np.array([women, men]) * share)) for share in (1.0, 0.9)
    )
    assert enough <= 0.0101 < fewer
    assert any("1 in 100" in sentence for sentence in found.sentences)
    assert pcer.detectable(SIZES).groups[0].splits_for_target is None


def test_the_curves_fall_and_go_through_the_present():
    found = pcer.detectable(SIZES, n_splits=30)
    assert [one.n_splits for one in found.over_splits] == sorted({*SPLIT_GRID, 30})
    for curve in (found.over_splits, found.over_people):
        for name in SIZES:
            amounts = [one.exposure[name] for one in curve]
            assert amounts == sorted(amounts, reverse=True)
        amounts = [one.difference[0] for one in curve]
        assert amounts == sorted(amounts, reverse=True)
    now = [one for one in found.over_splits if one.n_splits == 30]
    now += [one for one in found.over_people if one.growth == 1]
    for point in now:
        assert point.exposure == {one.group: one.smallest for one in found.groups}
        assert point.difference == [found.pairs[0].smallest]


def test_more_settings_ask_for_more():
    one, six = (pcer.detectable(SIZES, n_settings=n) for n in (1, 6))
    assert six.groups[0].smallest > one.groups[0].smallest
    assert six.pairs[0].smallest > one.pairs[0].smallest
    harder = pcer.detectable(SIZES, exposure=0.05)
    assert harder.pairs[0].smallest > one.pairs[0].smallest
    assert harder.pairs[0].base == 0.05
    assert harder.groups == one.groups


def test_several_groups_are_compared_with_the_largest():
    found = pcer.detectable(
        {"a": 500, "b": 3_000, "c": 900}, accuracy={"a": 0.7, "b": 0.8, "c": 0.9}
    )
    assert [one.groups for one in found.pairs] == [("b", "a"), ("b", "c")]
    assert [one.accuracy for one in found.groups] == [0.7, 0.8, 0.9]


def test_an_earlier_release_brings_its_own_numbers():
    release = mixed_release()
    found = pcer.detectable(release, cost="gap", setting="no-DP")
    assert found.release_sha256 == release.sha256
    assert found.subject == "Loans (sex)"
    assert (found.n_splits, found.n_settings, found.setting) == (6, 6, "no-DP")
    assert [round(one.n_people) for one in found.groups] == [6_000, 3_000]
    audit = pcer.audit(release, cost="overfitting_gap")
    costs = [one.cost.value for one in audit.budgets[-1].groups.values()]
    assert found.pairs[0].base == pytest.approx(min(costs))
    fewer = pcer.detectable(release, cost="gap", setting="no-DP", n_splits=3)
    assert fewer.groups[0].smallest > found.groups[0].smallest
    # The audit's own formula for what would be resolved, of the same counts and family.
    told = [one.detectable_cost for one in audit.budgets[-1].groups.values()]
    assert [one.smallest for one in found.groups] == pytest.approx(told, rel=0.1)


def test_a_release_is_planned_by_the_cost_that_its_audit_rests_on():
    release = pcer.read_release(FOREST)
    found = pcer.detectable(release)
    assert found.cost == pcer.audit(release).cost == "rmia_advantage"
    errors = [one.cost.standard_error for one in pcer.audit(release).budgets[0].groups.values()]
    assert all(one.smallest < 4 * error for one, error in zip(found.groups, errors, strict=True))
    assert pcer.detectable(release, cost="paired_gap").cost == "paired_gap"


@pytest.mark.parametrize("cost", ["lira_advantage", "paired_gap", "paired_confidence"])
def test_an_attack_is_planned_with_the_errors_of_its_audit(cost):
    release = pcer.read_release(FOREST)
    found, audit = pcer.detectable(release, cost=cost), pcer.audit(release, cost=cost)
    (budget,) = audit.budgets
    assert found.pairs[0].smallest == pytest.approx(budget.pairs[0].exposure.detectable, rel=1e-3)
    told = [group.detectable_cost for group in budget.groups.values()]
    assert [one.smallest for one in found.groups] == pytest.approx(told, rel=1e-3)


def test_an_audits_advice_is_the_planners_answer():
    """One question of one release has one answer, whichever asks it."""
    world = World(
        sizes=(3_000, 2_000),
        label_shares=(0.4, 0.4),
        right=[(0.8, 0.7)] * 2,
        gaps=(0.04, 0.04),
        n_seeds=5,
        budgets=(1.0, None),
    )
    tree = json.loads(simulate(world, np.random.default_rng(3)).to_json())
    tree["pooled_exposure"] = [
        {"epsilon": e, "group": g, "proxy": "paired_gap", "value": 0.04, "standard_error": 0.003}
        for e in (1.0, None)
        for g in ("g0", "g1")
    ]
    alike = parse_release(tree, file="alike")
    audit = pcer.audit(alike, cost="paired_gap")
    assert audit.verdict is pcer.Verdict.NO_DISPARITY_SHOWN
    assert audit.next_steps[1] == pcer.detectable(alike, cost="paired_gap").sentences[1]


def test_what_it_writes_holds_its_schema():
    validator = jsonschema.Draft202012Validator(outlook_schema())
    for one in (
        pcer.detectable(SIZES, target=0.005),
        pcer.detectable(mixed_release()),
        pcer.detectable({"a": 20, "b": 20}, accuracy=0.99, n_splits=1, target=0.001),
    ):
        tree = json.loads(one.to_json())
        validator.validate(tree)
        assert tree == one.to_tree()
        assert one.to_json() == one.model_copy().to_json()
    published = json.loads((ROOT / "docs" / "schemas" / "outlook.schema.json").read_text())
    assert published == outlook_schema()


def test_where_nothing_can_be_shown_it_says_so():
    found = pcer.detectable({"a": 20, "b": 20}, accuracy=0.99, n_splits=1)
    assert [one.smallest for one in found.groups] == [None, None]
    assert found.pairs[0].smallest is None
    assert all("Not even" in sentence for sentence in found.sentences)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"of": {"a": 100}}, "at least two groups"),
        ({"of": [1, 2]}, "groups must say how many people each has"),
        ({"of": {"a": 100, "b": 0}}, "group 'b' must have a whole number of people, at least 4"),
        ({"of": {"a": 100, "b": 2.5}}, "group 'b' must have a whole number"),
        ({"of": {"a": 100, "b": True}}, "group 'b' must have a whole number"),
        ({"of": SIZES, "accuracy": 1.0}, "accuracy of women must be a number between 0 and 1"),
        ({"of": SIZES, "accuracy": {"women": 0.8}}, "one for each of women, men"),
        ({"of": SIZES, "test_size": 0.0}, "test_size must be a number between 0 and 1"),
        ({"of": SIZES, "n_splits": 0}, "n_splits must be a whole number of at least 1"),
        ({"of": SIZES, "n_settings": 1.5}, "n_settings must be a whole number"),
        ({"of": SIZES, "target": math.nan}, "target must be a number between 0 and 1"),
        ({"of": SIZES, "exposure": 1.0}, "exposure must be a number between 0 and 1"),
        ({"of": SIZES, "cost": "lira_advantage"}, "give a release of a few splits"),
        ({"of": SIZES, "setting": "no-DP"}, "sizes have none"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence):
    given = dict(arguments)
    with pytest.raises(pcer.InputError, match=sentence.replace("(", r"\(")) as caught:
        pcer.detectable(given.pop("of"), **given)
    assert "\n" not in str(caught.value)


def test_bad_input_about_a_release_is_one_sentence():
    release = many_groups(["a", "b"])
    with pytest.raises(pcer.InputError, match=r"has no setting 'ε = 7'; it has ε = 1, no-DP"):
        pcer.detectable(release, setting="ε = 7")
    with pytest.raises(pcer.InputError, match="its own accuracies"):
        pcer.detectable(release, accuracy=0.8)
    with pytest.raises(pcer.PlanError, match="'lira_advantage' is not in this release"):
        pcer.detectable(release, cost="lira_advantage")
    training = release.training.model_copy(update={"split_kind": "other"})
    with pytest.raises(pcer.InputError, match="does not say that its splits are random"):
        pcer.detectable(release.model_copy(update={"training": training}))


def test_an_audit_shows_the_difference_as_often_as_planned():
    """Counts through the audit's measurements and tests; benchmarks/planner.py has 20 worlds."""
    study = replace(
        design(people=(700.0, 2_500.0), n_splits=5),
        error=CountsError(
            accuracy=np.array([[0.85, 0.7]] * 2),
            train_share=0.7,
            label_share=np.array([[0.6, 0.4]] * 2),
        ),
    )
    question = DifferenceBetween(lower=0, higher=1)
    cost = smallest(study, question)
    found, _ = audited_shares(study, (0.0, cost), n=600, rng=np.random.default_rng(3))
    assert abs(found - POWER) <= 0.05 + 2.6 * math.sqrt(0.16 / 600)


def test_the_table_of_worlds_keeps_the_bar():
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if " / " in line]
    rows = [row for row in rows if len(row) == 9]
    assert len(rows) == 20
    misses = [abs(int(row[k]) - int(row[k + 1])) for row in rows for k in (4, 7) if row[k] != "–"]
    assert len(misses) == 39
    assert max(misses) <= 5
