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

from pcer.auditing.measure import Measured, measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.tests import PairTests, compare_pairs
from pcer.metrics import Counts
from pcer.release.proxies import GAP
from tests.worlds.releases import panel_of


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


def draw_people(population: Population, sizes: Sequence[int], n_releases: int, rng) -> np.ndarray:
    """People of each kind in each group, drawn anew for every release, (release, group, kind)."""
    share = np.array(population.share)
    return rng.multinomial(np.tile(sizes, (n_releases, 1)), share / share.sum())


def draw_coin_flips(population: Population, sizes: Sequence[int], n_releases, rng) -> np.ndarray:
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

    cells = (right, positive), (n - right, ~positive), (right, ~positive), (n - right, positive)
    return Counts(*(one[..., where].sum(axis=-1).astype(np.float64) for one, where in cells))


# From counts to the tests of an audit, for many releases at once.


def measured(tables: Tables) -> Measured:
    """All groups of all releases as one setting of an audit: group g of release r is r G + g."""
    train, test = (
        Counts(*(np.moveaxis(part, 1, 0).reshape(part.shape[1], -1) for part in one))
        for one in tables
    )
    return measure_panel(panel_of(train, test, epsilon=np.inf), Plan(), GAP.name)


def compared(tables: Tables, second: int = 1) -> PairTests:
    """The audit's tests of the first group against another, in every release."""
    n_releases, _, n_groups = tables.train.n.shape
    pairs = tuple((n_groups * r, n_groups * r + second) for r in range(n_releases))
    return compare_pairs(measured(tables), pairs)
