"""Counts from a known population: people are drawn anew, then split at random, again and again.

People come in kinds. A kind has a label, a probability to be classified right by a model that was
not trained on the person, and one, never lower, by a model that was: the difference is what is
memorised about each of them. People of one kind are exchangeable, so that numbers per kind are
enough, and drawing a release costs a few hypergeometric numbers whatever its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.auditing.exact import strata_of_counts
from pcer.auditing.variances import (
    at_least_spread,
    benefit_variance,
    cost_in_tests,
    cost_variance,
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


@dataclass(frozen=True, kw_only=True)
class Population:
    """Kinds of people; the four lists have one entry per kind."""

    share: Sequence[float]
    label: Sequence[int]
    right_out: Sequence[float]
    right_in: Sequence[float]

    @property
    def cost(self) -> float:
        """Mean memorisation: what the accuracy difference estimates."""
        return float(np.dot(self.share, np.subtract(self.right_in, self.right_out)))

    @property
    def benefit(self) -> float:
        """Share predicted positive out of training."""
        out = np.array(self.right_out)
        return float(np.dot(self.share, np.where(self.label, out, 1 - out)))


class Tables(NamedTuple):
    """Confusion tables, arrays (release, split, group)."""

    train: Counts
    test: Counts


def certain(cost: float, *, accuracy: float = 0.7, base_rate: float = 0.4) -> Population:
    """Everybody is always right, always wrong, or wrong until trained on: the widest spread."""
    never = max(0.0, 1 - accuracy - cost)
    return _by_label(base_rate, [(accuracy, 1, 1), (cost, 0, 1), (never, 0, 0)])


def certain_positives(cost: float, *, accuracy: float = 0.7) -> Population:
    """The same, and only people of positive label are memorised: they lack the benefit."""
    never = max(0.0, 1 - accuracy - cost)
    return Population(
        share=[cost, 0.5 - cost, 0.5 - never, never],
        label=[1, 1, 0, 0],
        right_out=[0, 1, 1, 0],
        right_in=[1, 1, 1, 0],
    )


def soft(cost: float, *, base_rate: float = 0.4) -> Population:
    """Nobody is certain: the doubtful half carries nearly all of the memorisation."""
    return _by_label(base_rate, [(0.5, 0.95, 0.95 + cost / 10), (0.5, 0.6, 0.6 + 1.9 * cost)])


def _by_label(base_rate: float, kinds: list[tuple[float, float, float]]) -> Population:
    return Population(
        share=[part * share for part in (1 - base_rate, base_rate) for share, _, _ in kinds],
        label=[label for label in (0, 1) for _ in kinds],
        right_out=[out for _, out, _ in kinds] * 2,
        right_in=[into for _, _, into in kinds] * 2,
    )


def draw_people(
    population: Population, sizes: Sequence[int], n_releases: int, rng: np.random.Generator
) -> np.ndarray:
    """People of each kind in each group, drawn anew for every release, (release, group, kind)."""
    share = np.array(population.share)
    return rng.multinomial(np.tile(sizes, (n_releases, 1)), share / share.sum())


def draw_coin_flips(
    population: Population, sizes: Sequence[int], n_releases: int, rng: np.random.Generator
) -> np.ndarray:
    """The same where the people are always the same ones and only their groups are drawn."""
    share = np.array(population.share)
    people = rng.multinomial(sum(sizes), share / share.sum())
    first = rng.multivariate_hypergeometric(people, sizes[0], size=n_releases)
    return np.stack([first, people - first], axis=1)


def draw_tables(
    population: Population,
    people: np.ndarray,
    *,
    n_splits: int,
    rng: np.random.Generator,
    train_share: float = 0.7,
) -> Tables:
    """Split everybody at random ``n_splits`` times, and let each split's model classify them."""
    n_releases, n_groups, n_kinds = people.shape
    shape = (n_releases, n_splits, n_groups, n_kinds)
    everybody = np.broadcast_to(people[:, None], shape)
    trained = _sample(everybody, train_share, rng)
    right_in = rng.binomial(trained, population.right_in)
    right_out = rng.binomial(everybody - trained, population.right_out)
    return Tables(
        train=_tabulate(trained, right_in, population.label),
        test=_tabulate(everybody - trained, right_out, population.label),
    )


def _sample(everybody: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """How many of each (group, kind) are among ``share`` of all, drawn without replacement."""
    cells = everybody.reshape(*everybody.shape[:2], -1)
    left, wanted = cells.sum(axis=-1), np.rint(share * cells.sum(axis=-1)).astype(int)
    drawn = np.zeros_like(cells)
    for k in range(cells.shape[-1]):
        left = left - cells[..., k]
        drawn[..., k] = rng.hypergeometric(cells[..., k], left, wanted)
        wanted = wanted - drawn[..., k]
    return drawn.reshape(everybody.shape)


def _tabulate(n: np.ndarray, right: np.ndarray, label: Sequence[int]) -> Counts:
    positive = np.array(label, dtype=bool)

    def total(cells: np.ndarray, where: np.ndarray) -> np.ndarray:
        return cells[..., where].sum(axis=-1).astype(np.float64)

    return Counts(
        tp=total(right, positive),
        fp=total(n - right, ~positive),
        tn=total(right, ~positive),
        fn=total(n - right, positive),
    )


# From counts to the tests of an audit, for many releases at once.


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
    one_covariance = rate_covariance(test).mean(axis=0)
    covariance = one_covariance / n_splits + (1 - 1 / n_splits) * shared
    whole = (benefit.T, cost.T, of_benefit.T, of_cost.T, covariance.T)
    lasting = (benefit.T, cost.T, rate_variance(benefit, n).T, people.T, shared.T)
    products = rates[..., 0] * per_split[..., 1] - rates[..., 1] * per_split[..., 0]
    variance = at_least_spread(cross_variance(*whole), products, cross_variance(*lasting))
    product = benefit[:, 0] * cost[:, 1] - benefit[:, 1] * cost[:, 0]
    return found._replace(
        cost_p=two_sided_p(cost[:, 1] - cost[:, 0], np.sqrt(of_cost.sum(axis=1))),
        benefit_p=two_sided_p(benefit[:, 1] - benefit[:, 0], np.sqrt(of_benefit.sum(axis=1))),
        cross_p=two_sided_p(product, np.sqrt(variance)),
    )
