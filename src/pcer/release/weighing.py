"""Rates of weighted people, from their records; see ``weighted``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pcer.metrics import BoolArray, FloatArray
from pcer.release.build import Entries, RunKey
from pcer.release.columns import SPLITS
from pcer.release.weighted import WeightedRates


class _Weighed(NamedTuple):
    """One group in one part of one model."""

    positive_rate: float
    accuracy: float
    effective_n: float


def weighted_rates(
    entries: Entries, keys: Sequence[RunKey], groups: Sequence[str], weight: FloatArray
) -> list[WeightedRates]:
    """A row for every setting and group, settings in the order in which they first occur.

    Args:
        entries: one record each, in the groups that are released.
        keys: the models that ``entries.run`` points into.
        groups: the names that ``entries.group`` points into.
        weight: (record,) how much each counts, above 0.
    """
    settings: dict[tuple[str | None, float | None], list[int]] = {}
    for run, key in enumerate(keys):
        settings.setdefault((key.model, key.epsilon), []).append(run)
    return [
        _row(entries, setting, runs, (g, name), weight)
        for setting, runs in settings.items()
        for g, name in enumerate(groups)
    ]


def _row(
    entries: Entries,
    setting: tuple[str | None, float | None],
    runs: Sequence[int],
    group: tuple[int, str],
    weight: FloatArray,
) -> WeightedRates:
    of_group = entries.group == group[0]
    train, test = (
        [
            _part(entries, of_group & (entries.run == run) & (entries.split == part), weight)
            for run in runs
        ]
        for part in range(len(SPLITS))
    )
    return WeightedRates(
        model=setting[0],
        epsilon=setting[1],
        group=group[1],
        positive_rate=_mean([part.positive_rate for part in test]),
        train_accuracy=_mean([part.accuracy for part in train]),
        test_accuracy=_mean([part.accuracy for part in test]),
        effective_n_train=min(part.effective_n for part in train),
        effective_n_test=min(part.effective_n for part in test),
    )


def _part(entries: Entries, rows: BoolArray, weight: FloatArray) -> _Weighed:
    counted = weight[rows]
    total = counted.sum()
    right = entries.predicted[rows] == entries.positive[rows]
    return _Weighed(
        positive_rate=_share(counted[entries.predicted[rows]].sum(), total),
        accuracy=_share(counted[right].sum(), total),
        effective_n=max(1.0, float(total**2 / (counted**2).sum())),
    )


def _share(part: float, total: float) -> float:
    return min(float(part / total), 1.0)  # sums in another order may differ in the last digit


def _mean(rates: Sequence[float]) -> float:
    return min(float(np.mean(rates)), 1.0)
