"""Counts from people of known kinds, who are drawn anew and split at random, again and again.

A kind has a label, a probability to be classified right by a model that was not trained
on the person, and one, never lower, by a model that was: the difference is what is
memorised. People of one kind are exchangeable, so that numbers per kind are enough.
From a ``Population`` many plain releases are drawn at once, from a ``NullWorld`` one of
any shape, and what that one says is true.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.measuring.exposure import Measured, measure_panel
from pcer.measuring.plan import Plan
from pcer.metrics import Counts
from pcer.release import Release
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel
from pcer.release.records import Outcome, StratifiedBy
from tests.worlds.releases import panel_of, runs_of, written
from tests.worlds.splits import kish

BUDGETS = (math.inf, 10.0, 5.0, 1.0, 0.5, 0.1)

People = list[tuple[float, ...]]
"""(share, right out of training, right in it) of those of one label."""


def memorising(exposure: float, accuracy: float, *, spread: float = 1.0) -> People:
    """People of some accuracy out of training, who are remembered alike in every group.

    A spread of 1: everybody is right, wrong, or wrong until trained on; of 0: all are
    alike.
    """
    certain = [(accuracy, 1, 1), (exposure, 0, 1), (1 - accuracy - exposure, 0, 0)]
    parts = [(spread * share, *rest) for share, *rest in certain]
    return [
        row
        for row in (*parts, (1 - spread, accuracy, accuracy + exposure))
        if row[0] > 0
    ]


# Many releases of one population


@dataclass(frozen=True, kw_only=True)
class Population:
    """Kinds of people; the four lists have one entry per kind."""

    share: Sequence[float]
    label: Sequence[int]
    right_out: Sequence[float]
    right_in: Sequence[float]

    @property
    def exposure(self) -> float:
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


def certain(exposure: float, *, accuracy: float = 0.7) -> Population:
    """Everybody is always right, always wrong, or wrong until trained on: the widest spread."""
    return _by_label(memorising(exposure, accuracy))


def certain_positives(exposure: float, *, accuracy: float = 0.7) -> Population:
    """The same, and only people of positive label are memorised: they lack the benefit."""
    never = max(0.0, 1 - accuracy - exposure)
    return Population(
        share=[exposure, 0.5 - exposure, 0.5 - never, never],
        label=[1, 1, 0, 0],
        right_out=[0, 1, 1, 0],
        right_in=[1, 1, 1, 0],
    )


def soft(exposure: float) -> Population:
    """Nobody is certain: the doubtful half carries nearly all of the memorisation."""
    return _by_label(
        [(0.5, 0.95, 0.95 + exposure / 10), (0.5, 0.6, 0.6 + 1.9 * exposure)]
    )


def _by_label(people: People) -> Population:
    rows = [
        (part * share, y, *right)
        for y, part in enumerate((0.6, 0.4))
        for share, *right in people
    ]
    share, label, right_out, right_in = zip(*rows, strict=True)
    return Population(share=share, label=label, right_out=right_out, right_in=right_in)


def draw_people(
    population: Population, sizes: Sequence[int], n_releases: int, rng
) -> np.ndarray:
    """People of each kind in each group, drawn anew for every release, (release, group, kind)."""
    share = np.array(population.share)
    return rng.multinomial(np.tile(sizes, (n_releases, 1)), share / share.sum())


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
    everybody = np.broadcast_to(
        people[:, None], (n_releases, n_splits, n_groups, n_kinds)
    )
    cells = everybody.reshape(n_releases, n_splits, -1)
    left, wanted = (
        cells.sum(axis=-1),
        np.rint(train_share * cells.sum(axis=-1)).astype(int),
    )
    drawn = np.zeros_like(cells)
    for k in range(
        cells.shape[-1]
    ):  # without replacement, one (group, kind) after the other
        left = left - cells[..., k]
        drawn[..., k] = rng.hypergeometric(cells[..., k], left, wanted)
        wanted = wanted - drawn[..., k]
    trained = drawn.reshape(everybody.shape)
    parts = (trained, population.right_in), (everybody - trained, population.right_out)
    return Tables(
        *(_counted(n, rng.binomial(n, right), population.label) for n, right in parts)
    )


def _counted(n: np.ndarray, right: np.ndarray, label: Sequence[int]) -> Counts:
    """Tables of arrays whose last axis is the kind."""
    yes = np.array(label, dtype=bool)
    cells = (right, yes), (n - right, ~yes), (right, ~yes), (n - right, yes)
    return Counts(
        *(one[..., where].sum(axis=-1).astype(np.float64) for one, where in cells)
    )


def count_records(
    inside: np.ndarray,
    right: np.ndarray,
    label: np.ndarray,
    code: np.ndarray,
    n_groups: int,
) -> Counts:
    """(1, split, group) of records that are inside each split's part."""
    cells = []
    for is_right, is_positive in (
        (True, True),
        (False, False),
        (True, False),
        (False, True),
    ):
        chosen = inside & (right == is_right) & (label == is_positive)
        cells.append(
            np.stack([np.bincount(code[row], minlength=n_groups) for row in chosen])
        )
    return Counts(*(cell[None].astype(float) for cell in cells))


def measured(tables: Tables) -> Measured:
    """All groups of all releases as one setting of an audit: group g of release r is r G + g."""
    train, test = (
        Counts(*(np.moveaxis(part, 1, 0).reshape(part.shape[1], -1) for part in one))
        for one in tables
    )
    return measure_panel(panel_of(train, test, epsilon=np.inf), Plan(), GAP.name)


# One release of any shape


class Kind(NamedTuple):
    """People alike: label, chance to be right out of and in training, records of each."""

    label: int
    right_out: float
    right_in: float
    n_records: int = 1


@dataclass(frozen=True, kw_only=True)
class NullWorld:
    """What to draw from.

    ``shares`` are (group, kind); settings share splits, as budgets do.
    """

    sizes: Sequence[int]
    kinds: Sequence[Kind]
    shares: np.ndarray
    n_splits: int = 1
    n_settings: int = 1
    train_share: float = 0.7
    stratified_by: StratifiedBy = "nothing"
    n_folds: int | None = None
    outcome: Outcome = "benefit"
    are_twins: bool = False  # whether every group holds the same people


@dataclass(frozen=True, kw_only=True)
class NullRelease:
    """Confusion tables, arrays (setting, split, group), and what is said beside them."""

    train: Counts
    test: Counts
    outcome: Outcome = "benefit"
    stratified_by: StratifiedBy | None = None
    effective_units: np.ndarray | None = (
        None  # (group,) where records were split by person
    )

    @property
    def is_usable(self) -> bool:
        """Whether every group has records in both parts of every split."""
        return bool((self.train.n > 0).all() and (self.test.n > 0).all())

    @property
    def group_names(self) -> tuple[str, ...]:
        """From g0 on."""
        return tuple(f"g{g}" for g in range(self.train.n.shape[-1]))

    @property
    def variance_inflation(self) -> np.ndarray | None:
        """(group,) by how much clumps multiply variances; None where there are none."""
        if self.effective_units is None:
            return None
        return np.maximum(
            1.0, (self.train.n + self.test.n)[0, 0] / self.effective_units
        )

    def panels(self) -> tuple[Panel, ...]:
        """As an audit sees it, in the order of its settings."""
        both = self.train, self.test
        return tuple(
            panel_of(
                *(Counts(*(cell[k] for cell in part)) for part in both),
                epsilon=BUDGETS[k],
            )
            for k in reversed(range(len(self.train.n)))
        )

    def release(self, *, data_digest: str | None = None) -> Release:
        """As a file holds it."""
        names, units = self.group_names, self.effective_units
        said: dict[str, object] = {"stratified_by": self.stratified_by}
        if units is not None:
            named = dict(zip(names, units.tolist(), strict=True))
            said |= {"unit_of_split": "person", "effective_units": named}
        runs = runs_of(self.train, self.test, (None, *BUDGETS[1:]))
        about = {"outcome": self.outcome, "provenance": {"data_digest": data_digest}}
        return written(runs, names, training=said, **about)


def world_of(
    sizes: Sequence[int], base_rates: Sequence[float], people: People, **fields: object
) -> NullWorld:
    """Groups that differ in size and in their share of positive labels, and in nothing else."""
    kinds = [Kind(label, out, into) for label in (0, 1) for _, out, into in people]
    shares = [
        [rate * share for rate in (1 - base, base) for share, _, _ in people]
        for base in base_rates
    ]
    return NullWorld(sizes=sizes, kinds=kinds, shares=np.array(shares), **fields)  # type: ignore[arg-type]


def draw_null(world: NullWorld, rng: np.random.Generator) -> NullRelease:
    """Draw people and splits anew until every group has records in every part."""
    shares = world.shares / world.shares.sum(axis=1, keepdims=True)
    mean = shares @ [kind.n_records for kind in world.kinds]
    persons = np.maximum(2, np.rint(np.array(world.sizes) / mean)).astype(int)
    while (
        True
    ):  # (group, kind) persons, as many as give each group about its number of records
        people = rng.multinomial(persons, shares)
        if world.are_twins:
            people = np.tile(people[0], (len(persons), 1))
        drawn = _classified(world, people, _trained(world, people, rng), rng)
        if drawn.is_usable:
            return drawn


def _trained(
    world: NullWorld, people: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(split, group, kind) persons that are trained on, drawn within each stratum."""
    trained = np.zeros((world.n_splits, *people.shape), dtype=int)
    group = np.arange(len(world.sizes))[:, None] * np.ones(len(world.kinds), dtype=int)
    label = np.array([kind.label for kind in world.kinds]) + 0 * group
    parts = {
        "nothing": 0 * group,
        "label": label,
        "group": group,
        "both": 2 * group + label,
    }
    strata = parts[world.stratified_by]
    for inside in (strata == stratum for stratum in np.unique(strata)):
        cells = people[inside]
        if world.n_folds is None:
            n_train = round(world.train_share * cells.sum())
            trained[:, inside] = rng.multivariate_hypergeometric(
                cells, n_train, world.n_splits
            )
            continue
        for split in range(
            world.n_splits
        ):  # each cross-validation deals everybody out once
            folds_left = world.n_folds - split % world.n_folds
            if folds_left == world.n_folds:
                left = cells
            tested = rng.multivariate_hypergeometric(
                left, round(left.sum() / folds_left)
            )
            trained[split, inside], left = cells - tested, left - tested
    return trained


def _classified(
    world: NullWorld, people: np.ndarray, trained: np.ndarray, rng: np.random.Generator
) -> NullRelease:
    """What each setting's models say; a person's records are right or wrong together."""
    label, right_out, right_in, records = map(np.array, zip(*world.kinds, strict=True))
    tables, units = [], None
    for n, chance in ((trained, right_in), (people - trained, right_out)):
        right = (
            rng.binomial(n, chance, size=(world.n_settings, *trained.shape)) * records
        )
        tables.append(_counted(n * records, right, label))
    if records.max() > 1:
        units = np.array(
            [kish(np.repeat(records, row).astype(float)) for row in people]
        )
    return NullRelease(
        train=tables[0],
        test=tables[1],
        outcome=world.outcome,
        stratified_by=world.stratified_by,
        effective_units=units,
    )
