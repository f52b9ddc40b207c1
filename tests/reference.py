"""Slow, obvious twins of the fast code: loops over seeds, groups and records, no arrays."""

import math
from statistics import fmean as mean
from statistics import variance as sample_variance

import numpy as np
from scipy import stats

from pcer.release.file import Release
from pcer.release.records import Confusion, Run

Stratum = tuple[int, int, int, int]
"""Total, trained, correct, and both trained and correct."""


def by_label(train: Confusion, test: Confusion) -> list[Stratum]:
    """The strata of one split: positive labels, then negative ones."""
    rows = (
        (train.tp, train.fn, test.tp, test.fn),
        (train.tn, train.fp, test.tn, test.fp),
    )
    return [(sum(row), row[0] + row[1], row[0] + row[2], row[0]) for row in rows]


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
    for total, trained, correct, _ in by_label(train, test):
        if total == 0:
            continue
        with np.errstate(
            all="ignore"
        ):  # scipy computes a kurtosis too, and divides by 0 in it
            law_mean, law_variance = stats.hypergeom(total, correct, trained).stats(
                "mv"
            )
        # difference = X/n_train - (K - X)/n_test, with X the correct ones that were
        # trained on
        mean += float(law_mean) / train.n - (correct - float(law_mean)) / test.n
        if total > 1:
            variance += float(law_variance) * (1 / train.n + 1 / test.n) ** 2
    return mean, variance


def exposure_and_error(
    release: Release, epsilon: float | None, name: str
) -> tuple[float, ...]:
    """Cost of a group, runs of one split averaged first, its error, and the luck of one split."""
    by_split: dict[object, list[tuple[float, float, float]]] = {}
    sizes = []
    for run in release.runs:
        if run.epsilon == epsilon:
            train, test = run.groups[name].train, run.groups[name].test
            luck, variance = split_luck(train, test)
            x = accuracy(train) - accuracy(test) - luck
            u = rate_variance(accuracy(train), train.n) + rate_variance(
                accuracy(test), test.n
            )
            by_split.setdefault(run.split, []).append((x, variance, u))
            sizes.append(train.n + test.n)
    xs, vs, us = (
        [mean([row[k] for row in rows]) for rows in by_split.values()] for k in range(3)
    )
    exposure = mean(xs)
    people = rate_variance(exposure, mean(sizes))
    return (
        exposure,
        math.sqrt(exposure_variance(xs, max(mean(vs), mean(us)), people)),
        mean(vs),
    )


def memorised_p(release: Release, epsilon: float | None, name: str) -> float | None:
    """Exact p-value from each split's lowest-numbered seed; None where nothing can vary."""
    first: dict[object, Run] = {}
    for run in sorted(release.runs, key=lambda run: run.seed):
        if run.epsilon == epsilon:
            first.setdefault(run.split, run)
    strata: list[Stratum] = []
    for run in first.values():
        train, test = run.groups[name].train, run.groups[name].test
        strata += by_label(train, test)
    varies = [n for n in strata if 0 < n[1] < n[0] and 0 < n[2] < n[0]]
    return convolved_tail(strata) if varies else None


def holm(p_values: list[float]) -> list[float]:
    """Adjusted p-values straight from the definition: step down, never decreasing."""
    adjusted = []
    for p in p_values:
        smaller_or_equal = sorted(q for q in p_values if q <= p)
        steps = [(len(p_values) - rank) * q for rank, q in enumerate(smaller_or_equal)]
        adjusted.append(min(1.0, max(steps)))
    return adjusted


def convolved_tail(strata: list[Stratum]) -> float:
    """P(U >= u) of summed hypergeometrics from scipy's probabilities, one after the other."""
    law, lowest = np.ones(1), 0
    for total, trained, correct, _ in (stratum for stratum in strata if stratum[0]):
        low, high = max(0, trained + correct - total), min(trained, correct)
        law = np.convolve(
            law, stats.hypergeom.pmf(np.arange(low, high + 1), total, correct, trained)
        )
        lowest += low
    return float(law[sum(hits for *_, hits in strata) - lowest :].sum())


def dispersion(splits: list[list[Stratum]]) -> tuple[float, float]:
    """Statistic and p-value of the spread over splits, split by split."""
    xs, lucks, bounds, fourths = [], [], [], []
    for strata in splits:
        n_train = sum(trained for _, trained, _, _ in strata)
        n_test = sum(total for total, *_ in strata) - n_train
        scale = 1 / n_train + 1 / n_test
        x = luck = bound = 0.0
        for total, trained, correct, hits in strata:
            rest = total - trained
            x += (hits - trained * correct / total) * scale
            luck += stats.hypergeom.var(total, correct, trained) * scale**2
            weight = trained * rest / total * scale
            for right, n in ((hits, trained), (correct - hits, rest)):
                share = right / n
                bound += weight**2 * share * (1 - share) / (n - 1)
        xs.append(x)
        lucks.append(luck)
        bounds.append(bound)
        fourths.append(luck * scale**2)
    s = len(xs)
    statistic = sample_variance(xs) * (s - 1) / max(mean(lucks), mean(bounds))
    spread = 2 * ((1 - 2 / s) * sum(v * v for v in lucks) + mean(lucks) ** 2)
    spread = (spread + (1 - 1 / s) ** 2 * sum(fourths)) / mean(lucks) ** 2
    stretch = spread / (2 * (s - 1))
    return statistic, float(stats.chi2.sf(statistic / stretch, (s - 1) / stretch))


def rate_variance(rate: float, n: float) -> float:
    """Variance of a rate after two people with and two without were added."""
    rate = min(1.0, max(0.0, rate))
    p = (rate * n + 2) / (n + 4)
    return p * (1 - p) / n


def exposure_variance(xs: list[float], one_split: float, people: float) -> float:
    """Split part and people part of a mean over splits: the larger of two forms."""
    s = len(xs)
    closed = one_split / s + (1 - 1 / s) * people
    return closed if s == 1 else max(closed, sample_variance(xs) / s + people)


def cross_variance(first: dict[str, float], second: dict[str, float]) -> float:
    """Gradient of R_i c_j - R_j c_i through the covariance of (R_i, c_i, R_j, c_j)."""
    gradient = [
        second["exposure"],
        -second["benefit"],
        -first["exposure"],
        first["benefit"],
    ]
    matrix = np.zeros((4, 4))
    for k, side in ((0, first), (2, second)):
        matrix[k, k], matrix[k + 1, k + 1] = (
            side["benefit_variance"],
            side["exposure_variance"],
        )
        matrix[k, k + 1] = matrix[k + 1, k] = side["covariance"]
    return float(gradient @ matrix @ gradient)
