"""Lies that numbers can show: each made by a generator of stated size, and found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.auditing.claims import Claims, SettingClaims, claims_of
from pcer.auditing.composition import Composition
from pcer.auditing.declarations import check_declarations
from pcer.auditing.evenness import below_chances, even_margins, steady_chances
from pcer.auditing.exact import Strata
from pcer.auditing.finding import LEVEL, Finding, adjusted_over_checks
from pcer.auditing.promises import missing_numbers, split_numbers, steps_of
from pcer.auditing.spent import epsilon_of_steps
from pcer.release.format import parse_release
from tests.worlds.honest import n_accused
from tests.worlds.lies import LIES, NOISE, RATE, STEPS, Tree, honest, told
from tests.worlds.splits import claims_about, draw_split

TOTAL = np.array([[3000, 2000], [700, 300]])


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def findings(tree: Tree) -> tuple[Finding, ...]:
    return check_declarations(claims_of(parse_release(tree, file="told")))


def n_found(name: str, n: int) -> int:
    """In how many of n forgeries the lie is found by the check that is meant to."""
    checks = {LIES[name][1], "split_names"} if "table under" in name else {LIES[name][1]}
    return sum(
        any(one.check in checks for one in findings(told(name, rng(2, k)))) for k in range(n)
    )


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(name):
    assert n_found(name, 5) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found_in_95_of_100(name):
    assert n_found(name, 200) >= 190


def test_the_honest_releases_behind_them_are_not_accused():
    for k in range(5):
        assert findings(honest(rng(1, k))) == ()
        assert findings(honest(rng(1, k), strata="both")) == ()


@pytest.mark.slow
def test_honest_releases_are_accused_in_at_most_one_of_a_hundred():
    accused = sum(bool(findings(honest(rng(3, k)))) for k in range(300))
    assert stats.binomtest(accused, 300, LEVEL, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("n_splits", [1, 2, 3, 5])
def test_honest_releases_of_few_splits_are_not_accused(n_splits):
    assert n_accused(n_splits, 4) == 0


@pytest.mark.slow
@pytest.mark.parametrize("n_splits", [1, 2, 3, 5])
def test_honest_releases_of_few_splits_are_accused_in_at_most_one_of_a_hundred(n_splits):
    accused = n_accused(n_splits, 200)
    assert stats.binomtest(accused, 200, LEVEL, alternative="greater").pvalue > 0.01


def test_a_finding_of_chance_carries_both_p_values():
    audit = pcer.audit(
        parse_release(told("accuracies invented", rng(2, 1)), file="x"),
        pcer.Plan(resamples=1, null_draws=1),
    )
    (found,) = [one for one in audit.declarations if one.check == "too_steady"]
    assert found.p_value_alone < found.p_value <= LEVEL
    assert found.caps_verdict
    assert found.sentence in audit.trust
    assert audit.verdict is pcer.Verdict.NOT_RESOLVED


def finding(check: str, p: float | None, level: float | None) -> Finding:
    return Finding(
        check=check,  # type: ignore[arg-type]
        declared="a",
        found="b",
        remedy="c",
        p_value=p,
        level=level,
        caps_verdict=True,
    )


def test_holm_over_checks_by_hand():
    one, two = finding("label_mix", 1e-6, 0.4 * LEVEL), finding("too_even", 1e-5, 0.02 * LEVEL)
    logic = finding("totals", None, None)
    # 1e-6 / .4 comes first; what is left for the second is .6 of the level.
    assert adjusted_over_checks([two, logic, one]) == [
        pytest.approx(1e-5 / 0.02 * 0.6),
        None,
        pytest.approx(1e-6 / 0.4),
    ]


def test_invented_settings_dilute_nothing_unseen():
    tree = honest(rng(1, 1))
    null = [run for run in tree["runs"] if run["epsilon"] is None]
    strong = [{**run, "model": "real"} for run in null]
    invented = [
        {**run, "model": f"invented {k}", "epsilon": None} for k in range(60) for run in null[:1]
    ]
    tree |= {"runs": strong + invented, "pooled_exposure": []}
    audit = pcer.audit(parse_release(tree, file="x"), pcer.Plan(resamples=1, null_draws=1))
    real = next(one for one in audit.budgets if one.model == "real")
    for group in real.groups.values():
        assert group.p_value_alone < group.p_value or group.p_value == 1e-12


# The pieces.


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta", "pld"),
    [
        # dp-accounting 0.6.0: PLDAccountant(value_discretization_interval=1e-4), Poisson-sampled
        # Gaussian steps, self-composed, get_epsilon(delta).
        (13.216, 1 / 137, 3425, 1e-5, 0.09999734918874047),
        (1.0, 1 / 126, 3150, 1e-5, 2.531649411178075),
        (0.6, 1 / 126, 3150, 1e-5, 9.797228604583443),
        (68.877, 1 / 5, 125, 1e-5, 0.09999917191864362),
        (5.0, 1.0, 100, 1e-6, 10.997151494111364),
        (0.5, 0.001, 10_000, 1e-6, 6.346136528209281),
        (0.35, 0.01, 1_000, 1e-6, 48.348889808743756),
        (2.0, 0.05, 20_000, 1e-7, 26.14049212859576),
    ],
)
def test_the_epsilon_of_steps_is_that_of_dp_accounting(noise, rate, steps, delta, pld):
    assert epsilon_of_steps(noise, rate, steps, delta) == pytest.approx(pld, rel=5e-3)


def test_one_gaussian_step_has_its_closed_form():
    epsilon = epsilon_of_steps(2.0, 1.0, 1, 1e-3)
    exact = stats.norm.cdf(0.25 - 2 * epsilon) - math.exp(epsilon) * stats.norm.cdf(
        -0.25 - 2 * epsilon
    )
    assert exact == pytest.approx(1e-3, rel=1e-4)
    assert epsilon_of_steps(0.0, 1.0, 1, 1e-3) == math.inf


def setting(**fields: object) -> SettingClaims:
    known = {
        "name": "ε = 1",
        "model": None,
        "epsilon": 1.0,
        "seeds": (0,),
        "splits": ("a",),
        "cells": np.full((1, 1), np.nan),
        "noise": (NOISE,),
        "dp_delta": (1e-5,),
        "spent": {},
        "n_train": 1000.0,
    }
    return SettingClaims(**(known | fields))  # type: ignore[arg-type]


def claims(**fields: object) -> Claims:
    generator = rng(5)
    made = claims_about(TOTAL, [draw_split(TOTAL, 4200, "nothing", generator)], generator)
    return Claims(**(vars(made) | fields))


def test_steps_follow_from_what_the_trainer_says():
    one = setting()
    said = {"mechanism": "dp-sgd", "config": {"sample_rate": RATE, "n_steps": STEPS}}
    assert steps_of(one, claims(**said)) == (RATE, STEPS)
    said["config"] = {"expected_batch": 256, "epochs": 25}
    assert steps_of(one, claims(**said)) == (1 / 4, 100)
    assert steps_of(one, claims(**said, is_complete=False)) is None
    assert steps_of(one, claims(config=said["config"], mechanism="their own")) is None
    assert steps_of(one, claims(mechanism="dp-sgd", config={"sample_rate": "often"})) is None


def test_series_and_their_gaps():
    assert missing_numbers([3, 1, 4]) == [2]
    assert missing_numbers([0]) == []
    assert missing_numbers([0, 10**12]) == []
    assert split_numbers(["e3264ac4", "ca4df65a"]) == []
    assert split_numbers([0, 2]) == [0, 2]


def test_sizes_that_are_even_by_hand():
    # 70 % of two groups of 1,000 with a deviation of 10.25; each split is off by 2.
    train = np.array([[[702.0], [698.0]], [[698.0], [702.0]], [[702.0], [698.0]]])
    (found,) = even_margins(Composition(train=train, test=1000 - train), "nothing")
    deviation = math.sqrt(1400 * 0.25 * 600 / 1999)
    assert found.chance == pytest.approx(stats.chi2.cdf(3 * (2.5 / deviation) ** 2, 3))


def test_random_sizes_are_rarely_even():
    generator, chances = rng(6), []
    for _ in range(400):
        train = np.stack([draw_split(TOTAL, 4200, "nothing", generator) for _ in range(5)])
        cuts = Composition(train=train.astype(float), test=(TOTAL - train).astype(float))
        chances += [one.chance for one in even_margins(cuts, "nothing")]
    assert stats.binomtest(sum(p < 0.05 for p in chances), len(chances), 0.05).pvalue > 0.001 or (
        np.mean(np.array(chances) < 0.05) < 0.05
    )


def strata_of(total: int, n_train: int, correct: int, hits: list[int]) -> Strata:
    shape = (1, len(hits), 1)
    parts = (np.full(shape, float(n)) for n in (total, n_train, correct))
    return Strata(*parts, np.array(hits, dtype=float).reshape(shape))


def test_a_lower_tail_is_hypergeometric():
    (p,) = below_chances(strata_of(100, 70, 80, [50]), inflation=np.ones(1))
    assert p == pytest.approx(stats.hypergeom(100, 80, 70).cdf(50), rel=1e-6)
    (clumped,) = below_chances(strata_of(100, 70, 80, [50]), inflation=np.array([4.0]))
    spread = math.sqrt(4 * stats.hypergeom(100, 80, 70).var())
    assert clumped == pytest.approx(stats.norm.cdf((50 - 56) / spread), rel=1e-6)


def test_steady_accuracies_by_hand():
    # Both variances of one split; the smaller one, halved, scales the squares about the mean.
    (p,) = steady_chances(strata_of(1000, 500, 800, [400, 401, 399]))
    counted = stats.hypergeom(1000, 800, 500).var()
    scale = 2 / 500
    out = np.mean([(x / 500) * (1 - x / 500) / 500 * 500 / 999 for x in (400, 399, 401)])
    least = 0.5 * min(counted * scale**2, out)
    assert p == pytest.approx(stats.chi2.cdf(2 * scale**2 / least, 2), rel=1e-6)
    assert np.isnan(steady_chances(strata_of(1000, 500, 999, [499, 500, 500]))).all()
    assert np.isnan(steady_chances(strata_of(1000, 500, 800, [400, 401]))).all()


def test_costs_that_no_computer_can_square_are_refused():
    for field, value in (("standard_error", 1e300), ("value", -1e300)):
        tree = honest(rng(1))
        tree["pooled_exposure"][0][field] = value
        with pytest.raises(pcer.InputError, match=rf"pooled_exposure\[0\].{field}"):
            parse_release(tree, file="x")
        tree["pooled_exposure"][0][field] = value / 1e286
        pcer.audit(parse_release(tree, file="x"), pcer.Plan(resamples=1, null_draws=1))
