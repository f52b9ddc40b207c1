"""From simulated counts to the tests of an audit, for many releases at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.auditing.exact import strata_of_counts
from pcer.auditing.people import (
    OneSide,
    at_least_spread,
    benefit_variance,
    cost_in_tests,
    cost_variance,
    covariance_over_splits,
    cross_product,
    cross_variance,
    people_covariance,
    people_part,
    pooled_cost,
    rate_covariance,
    rate_variance,
    record_variance,
)
from pcer.metrics import Counts, accuracy, positive_rate
from pcer.statistics import two_sided_p
from tests.simulate_people import Tables


class Weighed(NamedTuple):
    """Arrays (release, group); p-values (release,) of the first two groups, NaN for one group."""

    cost: np.ndarray
    cost_variance: np.ndarray
    split_variance: np.ndarray
    """What splits alone would cause: too small for people like these."""
    benefit: np.ndarray
    benefit_variance: np.ndarray
    cost_p: np.ndarray
    benefit_p: np.ndarray
    cross_p: np.ndarray


def weigh(tables: Tables) -> Weighed:
    """Every estimate, error and p-value, the positive rate being the benefit."""
    train, test = (Counts(*(np.moveaxis(part, 1, 0) for part in one)) for one in tables)
    strata, scale = strata_of_counts(train, test), 1 / train.n + 1 / test.n
    per_split = strata.excess.sum(axis=0) * scale
    luck = (strata.variance.sum(axis=0) * scale**2).mean(axis=0)
    records = record_variance(accuracy(train), accuracy(test), train.n, test.n).mean(axis=0)
    one_split, n = np.maximum(luck, records), (train.n + test.n)[0]
    n_test, n_splits = test.n.mean(axis=0), len(per_split)
    cost, rates = per_split.mean(axis=0), positive_rate(test)
    benefit = rates.mean(axis=0)
    of_benefit = benefit_variance(benefit, n=n, n_test=n_test, n_splits=n_splits)
    nothing = np.full(len(cost), np.nan)
    found = Weighed(
        cost=cost,
        cost_variance=cost_variance(per_split, one_split=one_split, people=people_part(cost, n)),
        split_variance=luck / n_splits,
        benefit=benefit,
        benefit_variance=of_benefit,
        cost_p=nothing,
        benefit_p=nothing,
        cross_p=nothing,
    )
    if cost.shape[1] < 2:
        return found
    tested = cost_in_tests(cost, pooled_cost(*cost.T, *n.T)[:, None])
    people = people_part(tested, n)
    of_cost = cost_variance(per_split, one_split=one_split, people=people)
    shared = people_covariance(benefit, cost, n)
    covariance = covariance_over_splits(
        rate_covariance(test).mean(axis=0), shared, n_splits=n_splits
    )
    whole = _sides(benefit, cost, of_benefit, of_cost, covariance)
    lasting = _sides(benefit, cost, rate_variance(benefit, n), people, shared)
    products = rates[..., 0] * per_split[..., 1] - rates[..., 1] * per_split[..., 0]
    variance = at_least_spread(cross_variance(*whole), products, cross_variance(*lasting))
    return found._replace(
        cost_p=two_sided_p(cost[:, 1] - cost[:, 0], np.sqrt(of_cost.sum(axis=1))),
        benefit_p=two_sided_p(benefit[:, 1] - benefit[:, 0], np.sqrt(of_benefit.sum(axis=1))),
        cross_p=two_sided_p(cross_product(*whole), np.sqrt(variance)),
    )


def _sides(*columns: np.ndarray) -> tuple[OneSide, OneSide]:
    return OneSide(*(column[:, 0] for column in columns)), OneSide(
        *(column[:, 1] for column in columns)
    )
