"""Every test of an audit, made over all budgets at once so that Holm sees the whole family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcer.auditing.measure import Measured, Pair, SplitMeans, at_least_sample_variance
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import Outcome
from pcer.statistics import SIGNIFICANCE, holm, two_sided_p, upper_p


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Holm-adjusted p-values and what follows from them; NaN where a test cannot be made.

    Arrays are (budget, group) or (budget, pair); of one budget the first axis is dropped.
    """

    cost_p: FloatArray
    resolved: BoolArray
    n_tests: int
    cross: FloatArray
    cross_error: FloatArray
    cross_p: FloatArray
    shown: BoolArray
    claim: FloatArray
    claim_error: FloatArray
    claim_p: FloatArray
    double_p: FloatArray
    double: IntArray
    """Index of the doubly disadvantaged group, -1 for none."""

    def of_budget(self, k: int) -> Evidence:
        """The part that concerns one budget."""
        return Evidence(
            **{name: value if name == "n_tests" else value[k] for name, value in vars(self).items()}
        )


def make_tests(
    measured: Sequence[Measured], pairs: tuple[Pair, ...], *, outcome: Outcome, random: bool
) -> Evidence:
    """Make every test of the audit, over all budgets at once.

    Without a random split no test has a meaning: estimates stay, p-values are NaN.
    """
    n_groups = len(measured[0].panel.group_names)
    raw = [_raw_tests(one, pairs, n_groups) for one in measured]
    parts = {name: np.stack([row[name] for row in raw]) for name in raw[0]}
    unusable = np.nan if not random else 1.0
    cost_p = holm(parts["cost_p"] * unusable)
    cross_p, claim_p = holm(parts["cross_p"] * unusable), holm(parts["claim_p"] * unusable)
    double_p = holm(np.maximum(parts["claim_p"], parts["rate_p"]) * unusable)
    resolved = cost_p <= SIGNIFICANCE
    return Evidence(
        cost_p=cost_p,
        resolved=resolved,
        n_tests=int(np.isfinite(parts["cost_p"]).sum()),
        cross=parts["cross"],
        cross_error=parts["cross_error"],
        cross_p=cross_p,
        shown=_shown(parts["cross"], cross_p, resolved, pairs),
        claim=parts["claim"],
        claim_error=parts["claim_error"],
        claim_p=claim_p,
        double_p=double_p,
        double=_double(parts, double_p, resolved, pairs, outcome=outcome),
    )


def _raw_tests(one: Measured, pairs: tuple[Pair, ...], n_groups: int) -> dict[str, FloatArray]:
    """Unadjusted tests of one budget."""
    names = ("cross", "cross_error", "claim", "claim_error", "rate")
    if one.means is None or one.estimate is None:
        nothing = np.full(len(pairs), np.nan)
        keys = (*names, "cross_p", "claim_p", "rate_p")
        return {"cost_p": np.full(n_groups, np.nan), **dict.fromkeys(keys, nothing)}
    cost, error = one.estimate.value, one.estimate.standard_error
    rate = one.means.benefit.mean(axis=0)
    rate_variance = rate * (1 - rate) / one.n_benefit
    first, second = np.array(pairs).T
    cross, cross_error = np.array([cross_product(one.means, i, j) for i, j in pairs]).T
    claim, claim_error = cost[second] - cost[first], np.hypot(error[first], error[second])
    difference = rate[second] - rate[first]
    rate_error = np.sqrt(rate_variance[first] + rate_variance[second])
    return {
        "cost_p": upper_p(cost, error),
        "cross": cross,
        "cross_error": cross_error,
        "cross_p": two_sided_p(cross, cross_error),
        "claim": claim,
        "claim_error": claim_error,
        "claim_p": two_sided_p(claim, claim_error),
        "rate": difference,
        "rate_p": two_sided_p(difference, rate_error),
    }


def _shown(
    cross: FloatArray, cross_p: FloatArray, resolved: BoolArray, pairs: tuple[Pair, ...]
) -> BoolArray:
    """Disparity is shown where L differs from 0 and the group of lower ratio is resolved."""
    first, second = np.array(pairs).T
    worse_resolved = np.where(cross > 0, resolved[:, second], resolved[:, first])
    return np.asarray((cross_p <= SIGNIFICANCE) & worse_resolved)


def _double(
    parts: dict[str, FloatArray],
    double_p: FloatArray,
    resolved: BoolArray,
    pairs: tuple[Pair, ...],
    *,
    outcome: Outcome,
) -> IntArray:
    """Which group of each pair has both the higher cost and the worse rate, beyond chance."""
    first, second = np.array(pairs).T
    worse_rate = parts["rate"] if outcome == "harm" else -parts["rate"]
    significant = double_p <= SIGNIFICANCE
    on_second = significant & (parts["claim"] > 0) & (worse_rate > 0) & resolved[:, second]
    on_first = significant & (parts["claim"] < 0) & (worse_rate < 0) & resolved[:, first]
    return np.where(on_second, second, np.where(on_first, first, -1))


def cross_product(means: SplitMeans, i: int, j: int) -> tuple[float, float]:
    """L = R_i c_j - R_j c_i and its standard error. Positive: group j has the lower ratio.

    Cross-multiplied, so that without memorisation both products are 0 whatever the rates.
    """
    benefit, cost = means.benefit.mean(axis=0), means.cost.mean(axis=0)
    per_split = means.benefit[:, i] * means.cost[:, j] - means.benefit[:, j] * means.cost[:, i]
    closed = benefit[i] ** 2 * means.variance[j] + benefit[j] ** 2 * means.variance[i]
    variance = at_least_sample_variance(closed, per_split)
    value = benefit[i] * cost[j] - benefit[j] * cost[i]
    return float(value), float(np.sqrt(variance / len(per_split)))
