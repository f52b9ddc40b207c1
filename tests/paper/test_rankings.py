"""The paper's view: rankings by hand, attacks beside the gap, Proposition 1."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.files import as_shown
from pcer.paper.rankings import agreement, comparisons, smallest, spread
from pcer.release.file import parse_release
from tests import reference
from tests.auditing.made import attacked, drawn, of_rates, pooled

QUICK = pcer.Plan(resamples=50, null_draws=20)
BUDGETS = (0.5, 1.0, 5.0, None)


@pytest.fixture(scope="module")
def unexposed():
    return drawn(
        (4_000, 3_000),
        (0.5, 0.3),
        (0.01, 0.03),
        right=(0.9, 0.7),
        n_seeds=4,
        budgets=BUDGETS,
    )


@pytest.fixture(scope="module")
def exposed(unexposed):
    """Random exposures: one per run, one pooled that two budgets lack."""
    rng = np.random.default_rng(1)
    tree = json.loads(unexposed.to_json())
    for tables in (tables for run in tree["runs"] for tables in run["groups"].values()):
        found = {"value": float(rng.normal(0.02, 0.02)), "standard_error": 0.004}
        tables["exposure"] = {"attack_advantage": found}
    made = parse_release(tree, file="exposed")
    return pooled(made, "paired_gap", (0.01, 0.02), 0.001, epsilons=(5.0, None))


@pytest.fixture(scope="module")
def audited(exposed):
    return pcer.audit(exposed, QUICK)


def accuracy_gap(tables):
    return max(0.0, reference.accuracy(tables.train) - reference.accuracy(tables.test))


def advantage(tables):
    return tables.exposure["attack_advantage"].value


def mean_of(release, epsilon, group, value):
    return np.mean(
        [value(run.groups[group]) for run in release.runs if run.epsilon == epsilon]
    )


def mean_disparity(release, epsilon, exposure):
    def ratio(tables):
        return (
            (tables.test.tp + tables.test.fp)
            / tables.test.n
            / max(exposure(tables), 1e-3)
        )

    first, second = (
        mean_of(release, epsilon, group, ratio) for group in release.subject.groups
    )
    return first - second


def test_attacks_agree_as_plain_loops_over_cells_say(exposed, audited):
    row, pooled = agreement(audited)
    assert (row.attack, pooled.attack) == ("attack_advantage", "paired_gap")
    cells = list(itertools.product(BUDGETS, exposed.subject.groups))
    gaps = np.array([mean_of(exposed, e, g, accuracy_gap) for e, g in cells])
    exposures = np.array([mean_of(exposed, e, g, advantage) for e, g in cells])
    assert row.correlation == pytest.approx(np.corrcoef(gaps, exposures)[0, 1])
    ours = np.array([mean_disparity(exposed, e, accuracy_gap) for e in BUDGETS])
    theirs = np.array([mean_disparity(exposed, e, advantage) for e in BUDGETS])
    assert row.n_settings == 4
    assert row.n_same_sign == (ours * theirs > 0).sum()
    assert row.n_larger_disparity == (np.abs(theirs) >= np.abs(ours)).sum()
    assert row.disparity_correlation == pytest.approx(np.corrcoef(ours, theirs)[0, 1])
    assert row.exceeding[::2] == ((exposures > gaps).sum(), 8)
    # A pooled attack has no disparity over seeds, and is no advantage.
    assert pooled.n_settings == pooled.n_same_sign == pooled.n_larger_disparity == 0
    assert pooled.disparity_correlation is pooled.exceeding is None


def test_an_attack_on_every_run_is_divided_by_seed_by_seed_where_it_is_pooled_too(
    exposed, audited
):
    both = pooled(exposed, "attack_advantage", (0.01, 0.02), 0.001, epsilons=BUDGETS)
    row, alone = (agreement(one)[0] for one in (pcer.audit(both, QUICK), audited))
    assert (row.n_settings, row.n_same_sign) == (alone.n_settings, alone.n_same_sign)
    assert row.disparity_correlation == alone.disparity_correlation
    (pair,) = pcer.audit(both, QUICK, attack="attack_advantage").settings[0].pairs
    assert pair.pcer_disparity.mean == pytest.approx(
        mean_disparity(both, 0.5, advantage)
    )
    assert pair.pcer_disparity.ci is not None


def test_neither_the_audits_attack_nor_the_order_of_groups_changes_a_count(
    exposed, unexposed, audited
):
    assert agreement(pcer.audit(unexposed, QUICK)) == []
    plain = agreement(audited)
    assert plain == agreement(pcer.audit(exposed, QUICK, attack="overfitting_gap"))
    subject = exposed.subject.model_copy(
        update={"groups": exposed.subject.groups[::-1]}
    )
    swapped = agreement(
        pcer.audit(exposed.model_copy(update={"subject": subject}), QUICK)
    )
    names = ("n_same_sign", "n_larger_disparity", "exceeding")
    for ours, theirs in zip(plain, swapped, strict=True):
        assert all(getattr(ours, name) == getattr(theirs, name) for name in names)


@pytest.mark.parametrize(("value", "exceeding"), [(0.5, (8, 8, 8)), (-0.1, (0, 0, 8))])
def test_proposition_1_is_measured_and_can_be_refuted(unexposed, value, exceeding):
    """Right about everyone, confident on members only: gap 0 and advantage 1/2."""
    tree = json.loads(unexposed.to_json())
    for tables in (tables for run in tree["runs"] for tables in run["groups"].values()):
        for split in ("train", "test"):
            cells = tables[split]
            right = {"tp": cells["tp"] + cells["fn"], "tn": cells["tn"] + cells["fp"]}
            tables[split] = right | {"fp": 0, "fn": 0}
    certain = parse_release(tree, file="counterexample")
    certain = attacked(certain, "attack_advantage", (value, value), 0.001)
    (row,) = agreement(pcer.audit(certain, QUICK))
    assert row.exceeding == exceeding


def compared_by(rates):
    """Groups of gaps .01 and .02, and these rates by budget."""
    release = of_rates(
        {e: ((0.01, 0.02), pair) for e, pair in rates.items()}, n=(700, 300)
    )
    (found,) = comparisons(pcer.audit(release, QUICK))
    return found


def test_rankings_directions_and_correlations_by_hand():
    """Disparities: 30-25=5, 40-22.5=17.5, 20-25=-5, 10-20=-10."""
    rates = {
        0.5: (0.30, 0.50),
        1.0: (0.40, 0.45),
        5.0: (0.20, 0.50),
        None: (0.10, 0.40),
    }
    compared = compared_by(rates)
    assert compared.rankings == [
        ("pcer_disparity", [0.5, 5.0, None, 1.0], [0.5, 5.0]),
        ("pcer_disparity_null", [], []),
        ("demographic_parity_gap", [1.0, 0.5, 5.0, None], [1.0]),
        ("equalized_odds_gap", [], []),
    ]
    disagree = {"pcer_disparity_null": None, "equalized_odds_gap": None}
    assert compared.ranking_disagreement == disagree | {"demographic_parity_gap": True}
    assert [epsilon for epsilon, _ in compared.opposite] == [0.5, 1.0]
    few = {epsilon: rates[epsilon] for epsilon in (0.5, 1.0)}
    assert compared_by(few).correlations == {
        ("a", "b"): [("private budgets", None, 2), ("ε ≥ 1 and no DP", None, 1)]
    }


def test_correlations_are_over_private_budgets_over_all_and_from_epsilon_1():
    rates = {
        0.5: (0.30, 0.50),
        1.0: (0.40, 0.45),
        5.0: (0.20, 0.50),
        None: (0.10, 0.40),
    }
    disparity = [5, 17.5, -5, -10]
    rate = [-0.2, -0.05, -0.3, -0.3]
    points = {
        "private budgets": slice(3),
        "all budgets": slice(4),
        "ε ≥ 1 and no DP": slice(1, 4),
    }
    (found,) = compared_by(rates).correlations.values()
    assert [correlation.over for correlation in found] == [*points]
    for correlation in found:
        chosen = points[correlation.over]
        expected = stats.pearsonr(disparity[chosen], rate[chosen]).statistic
        assert correlation.r == pytest.approx(expected, abs=1e-9)
        assert correlation.n_points == len(disparity[chosen])


def test_the_spread_of_three_groups_and_budgets_without_a_value():
    assert spread([5.0, -2.0]) == np.ptp([10.0, 5.0, 12.0])
    assert spread([5.0, None]) is None
    assert smallest([0.5, 1.0, None], [None, 2.0, 2.0]) == [1.0, None]
    assert smallest([0.5], [None]) == []


def test_attacks_are_put_beside_the_gap_whatever_groups_are_called(exposed):
    """A terminal spells names as they can be shown, and the plan's reference too."""
    tree = json.loads(exposed.to_json().replace('"g1"', '"g\\u200b"'))
    hidden = tree["subject"]["groups"][1]
    plan = QUICK.model_copy(update={"reference_group": hidden})
    audit = pcer.audit(parse_release(tree, file="release"), plan)
    assert as_shown(audit).plan.reference_group != hidden
    assert agreement(as_shown(audit)) == agreement(audit)
