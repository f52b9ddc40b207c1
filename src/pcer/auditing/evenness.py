"""Numbers that vary too little: sizes over splits, accuracies over splits, tables that repeat.

Who invents sizes writes the expected ones, or those with a little jitter; who invents results
copies them. A random split does neither: its counts are off by chance, each time anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pcer.auditing.composition import (
    ROUNDING,
    Composition,
    chance_of_repeats,
    deviation,
    first_alike,
)
from pcer.auditing.exact import Strata, memorised
from pcer.metrics import FloatArray
from pcer.release.format import StratifiedBy

LEAST_SHARE = 0.5
"""Of the smaller of two variances: an honest spread over splits is not expected to be less."""
LEAST_DEVIATION = 2.0
"""Of a count in one split: below it, whole numbers are often equal by chance."""


class Margin(NamedTuple):
    """A number that random splits leave to chance, and the chance that it varies so little."""

    group: int
    label: int | None
    chance: float


def even_margins(composition: Composition, strata: StratifiedBy) -> list[Margin]:
    """Every number that random splits leave to chance, with how even it is over splits.

    A number that is always the expected one but for rounding is left out: a stratified split
    gives that, and another check asks whether it was declared.
    """
    return [
        Margin(group, label, chance)
        for group, label, cells in _margins(composition, strata)
        if (chance := _chance(*cells)) is not None
    ]


def _margins(
    cuts: Composition, strata: StratifiedBy
) -> Iterator[tuple[int, int | None, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]]:
    """Group, label, and (drawn, good, sampled, total), each over splits."""
    train, total = cuts.train, cuts.total
    n_groups = train.shape[1]
    groups = range(1 if n_groups == 2 else n_groups)
    by_group, all_groups = train.sum(axis=2), total.sum(axis=2)
    if strata == "nothing":
        drawn, n = by_group.sum(axis=1), all_groups.sum(axis=1)
        for g in groups:
            yield g, None, (by_group[:, g], all_groups[:, g], drawn, n)
    if cuts.has_labels and strata in ("nothing", "group"):
        for g in range(n_groups):
            yield g, 1, (train[:, g, 1], total[:, g, 1], by_group[:, g], all_groups[:, g])
    if cuts.has_labels and strata == "label":
        for g in groups:
            for y in (0, 1):
                drawn, n = train[:, :, y].sum(axis=1), total[:, :, y].sum(axis=1)
                yield g, y, (train[:, g, y], total[:, g, y], drawn, n)


def _chance(
    drawn: FloatArray, good: FloatArray, sampled: FloatArray, total: FloatArray
) -> float | None:
    """Of so small a sum of squared deviations, half a record added to each; None if rounded.

    A whole number and a half more lies further out than the number spread evenly about it, so
    that the chi-square of normal deviations errs towards no contradiction.
    """
    from scipy.special import gammainc

    miss = np.abs(drawn - sampled * good / np.maximum(total, 1))
    spread = np.array([deviation(*row) for row in zip(total, good, sampled, strict=True)])
    free = spread >= LEAST_DEVIATION
    if (miss <= ROUNDING).all() or not free.any():
        return None
    squares = (((miss[free] + 0.5) / spread[free]) ** 2).sum()
    return float(gammainc(free.sum() / 2, squares / 2))


def table_cuts(strata: Strata) -> Composition:
    """Who was right and wrong, in training and out of it: (split, label and group, wrong or right).

    Two splits with the same of these have the same confusion tables.
    """
    total, trained, correct, hits = (_by_split(part) for part in strata)
    train = np.stack([trained - hits, hits], axis=2)
    return Composition(train=train, test=np.stack([total - correct, correct], axis=2) - train)


def chance_of_same_tables(cuts: Composition, *, inflation: FloatArray) -> float:
    """Chance that different random splits give so many equal confusion tables; at most about this.

    A model that is the same in all splits has the most equal ones: given its right and wrong
    records, those in training are hypergeometric within each label and group.
    """
    n_labels = cuts.train.shape[1] // len(inflation)
    return chance_of_repeats(cuts, "group", inflation=np.tile(inflation, n_labels))


def first_two_alike(cuts: Composition) -> tuple[int, int] | None:
    """The first two splits with equal tables; None where no two are equal."""
    found = enumerate(first_alike(cuts))
    return next(((first, k) for k, first in found if first != k), None)


def steady_chances(strata: Strata) -> FloatArray:
    """Chance (group,) that accuracy differences vary so little over splits; NaN where untold.

    Their variance is at least half of the smaller of two: that of a model that is the same in all
    splits, and that of a model which is right about all it was trained on and about the same
    others whenever they are tested. The sum of squares about the mean is then at least that
    multiple of a chi-square, but for models that are adjusted to the split.
    """
    from scipy.special import gammainc

    n_splits = strata.total.shape[1]
    if n_splits < 3:
        return np.full(strata.total.shape[2], np.nan)
    rest = strata.total - strata.trained
    scale = _inverse(strata.trained.sum(axis=0)) + _inverse(rest.sum(axis=0))
    x, counted = strata.excess.sum(axis=0) * scale, strata.variance.sum(axis=0)
    least = LEAST_SHARE * np.minimum(counted * scale**2, _variance_out(strata, rest, scale))
    squares = ((x - x.mean(axis=0)) ** 2).sum(axis=0)
    known = (counted.min(axis=0) >= LEAST_DEVIATION**2) & (least.mean(axis=0) > 0)
    ratio = np.divide(squares, least.mean(axis=0), out=np.ones(len(known)), where=known)
    return np.where(known, gammainc((n_splits - 1) / 2, ratio / 2), np.nan)


def below_chances(strata: Strata, *, inflation: FloatArray) -> FloatArray:
    """Chance (group,) of so low an accuracy in training if nothing was memorised; NaN if untold.

    Memory only raises it, so the lower tail of the Mantel-Haenszel test needs no more than a
    random split. Records that fall together widen it: there the normal stands in.
    """
    from scipy.special import ndtr

    mirrored = Strata(
        total=strata.total,
        trained=strata.total - strata.trained,
        correct=strata.correct,
        hits=strata.correct - strata.hits,
    )
    found = memorised(mirrored)
    deviations = np.sqrt(found.variance * inflation)
    z = np.divide(found.excess, deviations, out=np.zeros(len(deviations)), where=deviations > 0)
    clumped = np.where(found.variance > 0, ndtr(-z), np.nan)
    return np.where(inflation > 1, clumped, found.p_value)


def _variance_out(strata: Strata, rest: FloatArray, scale: FloatArray) -> FloatArray:
    """(split, group) variance of the differences where only who is tested varies."""
    weight = strata.trained * rest * _inverse(strata.total) * scale
    right = (strata.correct - strata.hits) * _inverse(rest)
    one = right * (1 - right) * _inverse(rest) * strata.trained * _inverse(strata.total - 1)
    return np.asarray((weight**2 * one).sum(axis=0))


def _by_split(part: FloatArray) -> FloatArray:
    """(label, split, group) as (split, label and group)."""
    return np.asarray(np.moveaxis(part, 1, 0).reshape(part.shape[1], -1))


def _inverse(n: FloatArray) -> FloatArray:
    return np.divide(1.0, n, out=np.zeros(n.shape), where=n > 0)
