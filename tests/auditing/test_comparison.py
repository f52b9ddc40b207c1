"""Rankings, ties and correlations on audits whose answer is known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.auditing.comparison import budgets_of_smallest, comparisons, disparity_size
from pcer.release.format import parse_release

PLAN = pcer.Plan(resamples=20, null_draws=5)


def release(rates: dict[float | None, tuple[float, float]], *, outcome: str = "benefit"):
    """Rates-only, one seed per budget: positive rates given, gaps 0.01 and 0.02."""
    runs = [
        {
            "epsilon": epsilon,
            "seed": 0,
            "split": "s",
            "groups": {
                name: {
                    "train": {"accuracy": 0.8 + gap, "n": 700},
                    "test": {"accuracy": 0.8, "positive_rate": rate, "n": 300},
                }
                for name, gap, rate in zip(("a", "b"), (0.01, 0.02), pair, strict=True)
            },
        }
        for epsilon, pair in rates.items()
    ]
    return parse_release(
        {
            "format": "pcer-release",
            "version": 1,
            "subject": {
                "dataset": "d",
                "attribute": "x",
                "groups": ["a", "b"],
                "outcome": outcome,
            },
            "training": {"split_kind": "random"},
            "runs": runs,
        },
        file="x",
    )


RATES = {0.5: (0.30, 0.50), 1.0: (0.40, 0.45), 5.0: (0.20, 0.50), None: (0.10, 0.40)}
"""Disparities: 30-25=5, 40-22.5=17.5, 20-25=-5, 10-20=-10."""


def test_rankings_by_hand():
    compared = comparisons(pcer.audit(release(RATES), PLAN))[0]
    by_name = {row.measure: row for row in compared.rankings}
    assert by_name["pcer_disparity"].budgets == [0.5, 5.0, None, 1.0]
    assert by_name["demographic_parity_gap"].budgets == [1.0, 0.5, 5.0, None]
    assert by_name["pcer_disparity"].best == [0.5, 5.0]
    assert by_name["equalized_odds_gap"].budgets == []
    assert compared.ranking_disagreement == {
        "demographic_parity_gap": True,
        "equalized_odds_gap": None,
    }


def test_directions_by_hand():
    compared = comparisons(pcer.audit(release(RATES), PLAN))[0]
    assert [row.epsilon for row in compared.direction_disagreement] == [0.5, 1.0]


def test_correlation_is_pearsons():
    row = comparisons(pcer.audit(release(RATES), PLAN))[0].correlations[0]
    disparity, rate = [5, 17.5, -5, -10], [-0.2, -0.05, -0.3, -0.3]
    assert row.r == pytest.approx(stats.pearsonr(disparity, rate).statistic, abs=1e-9)
    assert (row.n_budgets, row.n_budgets_from_1) == (4, 3)
    assert row.r_from_1 == pytest.approx(stats.pearsonr(disparity[1:], rate[1:]).statistic)


def test_correlation_of_two_budgets_is_none():
    few = {epsilon: RATES[epsilon] for epsilon in (0.5, 1.0)}
    assert comparisons(pcer.audit(release(few), PLAN))[0].correlations[0].r is None


def test_disparity_size_of_three_groups_is_the_spread_of_means():
    class Pair:
        def __init__(self, mean):
            self.pcer_disparity = type("D", (), {"mean": mean})

    class Budget:
        pairs = (Pair(5.0), Pair(-2.0))

    ratios = np.array([10.0, 5.0, 12.0])
    assert disparity_size(Budget()) == np.ptp(ratios)


def test_budgets_without_a_value_do_not_take_part():
    assert budgets_of_smallest([], lambda budget: 0.0) == []
