"""Slow, obvious twins of the fast code: loops over seeds, groups and records, no arrays."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from scipy import stats

from pcer.release.format import Confusion, Release


def accuracy(table: Confusion) -> float:
    return (table.tp + table.tn) / table.n


def disparities(
    release: Release, epsilon: float | None, i: str, j: str, floor: float
) -> list[float]:
    """The paper's number, seed by seed."""
    out = []
    for run in sorted(release.runs, key=lambda run: run.seed):
        if run.epsilon == epsilon:
            ratios = []
            for name in (i, j):
                tables = run.groups[name]
                gap = max(0.0, accuracy(tables.train) - accuracy(tables.test))
                rate = (tables.test.tp + tables.test.fp) / tables.test.n
                ratios.append(rate / max(gap, floor))
            out.append(ratios[0] - ratios[1])
    return out


def split_luck(train: Confusion, test: Confusion) -> tuple[float, float]:
    """Mean and variance of the accuracy difference, label by label, from scipy's distribution."""
    mean, variance = 0.0, 0.0
    per_label = (
        (train.tp, train.fn, test.tp, test.fn),
        (train.tn, train.fp, test.tn, test.fp),
    )
    for right, wrong, test_right, test_wrong in per_label:
        correct, total = right + test_right, right + wrong + test_right + test_wrong
        if total == 0:
            continue
        with np.errstate(all="ignore"):  # scipy computes a kurtosis too, and divides by 0 in it
            law_mean, law_variance = stats.hypergeom(total, correct, right + wrong).stats("mv")
        # difference = X/n_train - (K - X)/n_test, with X the correct ones that were trained on
        mean += float(law_mean) / train.n - (correct - float(law_mean)) / test.n
        if total > 1:
            variance += float(law_variance) * (1 / train.n + 1 / test.n) ** 2
    return mean, variance


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def sample_variance(values: list[float]) -> float:
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def cost_and_error(release: Release, epsilon: float | None, name: str) -> tuple[float, float]:
    """Cost estimate of a group: runs of one split averaged first."""
    by_split: dict[object, list[tuple[float, float]]] = {}
    for run in release.runs:
        if run.epsilon == epsilon:
            tables = run.groups[name]
            luck, variance = split_luck(tables.train, tables.test)
            x = accuracy(tables.train) - accuracy(tables.test) - luck
            by_split.setdefault(run.split, []).append((x, variance))
    xs = [mean([x for x, _ in rows]) for rows in by_split.values()]
    variance = mean([mean([v for _, v in rows]) for rows in by_split.values()])
    if len(xs) > 1:
        variance = max(variance, sample_variance(xs))
    return mean(xs), math.sqrt(variance / len(xs))


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values straight from the definition: step down, never decreasing."""
    adjusted = []
    for p in p_values:
        smaller_or_equal = sorted(q for q in p_values if q <= p)
        steps = [(len(p_values) - rank) * q for rank, q in enumerate(smaller_or_equal)]
        adjusted.append(min(1.0, max(steps)))
    return adjusted


def exact_law(correct: int, total: int, trained: int) -> dict[int, float]:
    """Distribution of the correct ones among the trained, by listing every split."""
    counts: dict[int, int] = {}
    splits = list(combinations(range(total), trained))
    for split in splits:
        hits = sum(record < correct for record in split)
        counts[hits] = counts.get(hits, 0) + 1
    return {hits: count / len(splits) for hits, count in counts.items()}
