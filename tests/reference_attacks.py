"""Slow, obvious twins of the attacks: loops over models, records and pairs, one at a time."""

from __future__ import annotations

import math
import statistics

import numpy as np


def auc(score, member) -> float:
    """Pairs won, ties counting half."""
    inside = [s for s, m in zip(score, member, strict=True) if m]
    outside = [s for s, m in zip(score, member, strict=True) if not m]
    won = sum((a > b) + 0.5 * (a == b) for a in inside for b in outside)
    return won / (len(inside) * len(outside))


def delong_error(score, member) -> float:
    """Textbook form: variances of the placements of both sides."""
    inside = [s for s, m in zip(score, member, strict=True) if m]
    outside = [s for s, m in zip(score, member, strict=True) if not m]
    v10 = [sum((a > b) + 0.5 * (a == b) for b in outside) / len(outside) for a in inside]
    v01 = [sum((a > b) + 0.5 * (a == b) for a in inside) / len(inside) for b in outside]
    variance = statistics.variance(v10) / len(inside) + statistics.variance(v01) / len(outside)
    return math.sqrt(variance)


def clustered_error(scores, member) -> float:
    """Each record's placements, centred and divided by its side's size, summed over models."""
    n_models, n_records = scores.shape
    per_record = [0.0] * n_records
    for s in range(n_models):
        known = [r for r in range(n_records) if np.isfinite(scores[s, r])]
        inside = [r for r in known if member[s, r]]
        outside = [r for r in known if not member[s, r]]
        value = auc(scores[s, known], member[s, known])
        for r in inside:
            place = sum(beats(scores[s, r], scores[s, q]) for q in outside) / len(outside)
            per_record[r] += (place - value) / len(inside) / n_models
        for r in outside:
            place = sum(beats(scores[s, q], scores[s, r]) for q in inside) / len(inside)
            per_record[r] += (place - value) / len(outside) / n_models
    used = int(np.isfinite(scores).any(axis=0).sum())
    return math.sqrt(sum(x * x for x in per_record) * used / (used - 1))


def paired(values, member) -> tuple[float, float, int]:
    """Mean difference, its error, and how many records were always in or always out."""
    differences, excluded = [], 0
    for r in range(values.shape[1]):
        inside = [float(v) for v, m in zip(values[:, r], member[:, r], strict=True) if m]
        outside = [float(v) for v, m in zip(values[:, r], member[:, r], strict=True) if not m]
        if not inside or not outside:
            excluded += 1
            continue
        differences.append(statistics.fmean(inside) - statistics.fmean(outside))
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return statistics.fmean(differences), error, excluded


def others(values, member, target: int, record: int) -> tuple[list[float], list[float]]:
    """What the other models say about a record: those that trained on it, those that did not."""
    rest = [s for s in range(len(values)) if s != target]
    inside = [float(values[s, record]) for s in rest if member[s, record]]
    outside = [float(values[s, record]) for s in rest if not member[s, record]]
    return inside, outside


def plain_lira(values, member):
    """Log density of the in Gaussian minus that of the out Gaussian."""
    return _each(values, member, _plain, least=2)


def fixed_lira(values, member):
    """The plain ratio with one variance for all records, from deviations of each from its mean."""
    scores = np.full(values.shape, np.nan)
    for t in range(len(values)):
        pairs = [others(values, member, t, r) for r in range(values.shape[1])]
        spread_in, spread_out = (_common([pair[side] for pair in pairs]) for side in (0, 1))
        for r, (inside, outside) in enumerate(pairs):
            if inside and outside:
                x = float(values[t, r])
                near_in = (x - statistics.fmean(inside)) ** 2 / spread_in + math.log(spread_in)
                near_out = (x - statistics.fmean(outside)) ** 2 / spread_out + math.log(spread_out)
                scores[t, r] = (near_out - near_in) / 2
    return scores


def _common(samples) -> float:
    squares = sum((v - statistics.fmean(one)) ** 2 for one in samples for v in one)
    return squares / sum(max(len(one) - 1, 0) for one in samples)


def offline_lira(values, member):
    def score(x, _inside, outside):
        return (x - statistics.fmean(outside)) / statistics.stdev(outside)

    return _each(values, member, score, least_in=0, least=2)


def rmia(values, member):
    def score(x, inside, outside):
        return x / ((statistics.fmean(inside) + statistics.fmean(outside)) / 2)

    return _each(values, member, score, least=1)


def shrunk_lira(values, member):
    """The likelihood ratio with a prior on the difference, record by record."""
    scores = np.full(values.shape, np.nan)
    for t in range(len(values)):
        surplus = []
        for r in range(values.shape[1]):
            inside, outside = others(values, member, t, r)
            if inside and outside:
                _, d, noise, freedom = _pooled(inside, outside)
                surplus.append(d * d - noise * freedom / (freedom - 2))
        size = math.sqrt(max(0.0, statistics.fmean(surplus)))
        for r in range(values.shape[1]):
            inside, outside = others(values, member, t, r)
            if inside and outside:
                scores[t, r] = _shrunk(float(values[t, r]), inside, outside, size)
    return scores


def _shrunk(x, inside, outside, size) -> float:
    """Normal prior (mean and spread ``size``) times normal data gives the posterior difference."""
    deviation, d, noise, _ = _pooled(inside, outside)
    if size > 0:
        precision = 1 / noise + 1 / size**2
        difference = (d / noise + size / size**2) / precision
        weight = difference / size
    else:
        difference, weight = 0.0, 1.0
    n_in, n_out = len(inside), len(outside)
    # Least squares for the out mean, given the difference: all others, brought to "out".
    brought = [v - difference * deviation for v in inside] + list(outside)
    mean_out = sum(brought) / (n_in + n_out)
    mean_in = mean_out + difference * deviation
    return weight * (x - (mean_in + mean_out) / 2) / deviation


def _pooled(inside, outside) -> tuple[float, float, float, int]:
    """Common deviation, standardised difference, its noise, degrees of freedom."""
    centre_in, centre_out = statistics.fmean(inside), statistics.fmean(outside)
    squares = sum((v - centre_in) ** 2 for v in inside)
    squares += sum((v - centre_out) ** 2 for v in outside)
    freedom = len(inside) + len(outside) - 2
    deviation = math.sqrt(squares / freedom)
    noise = 1 / len(inside) + 1 / len(outside)
    return deviation, (centre_in - centre_out) / deviation, noise, freedom


def _plain(x, inside, outside) -> float:
    def log_density(sample):
        mean, variance = statistics.fmean(sample), statistics.variance(sample)
        return -0.5 * math.log(variance) - (x - mean) ** 2 / (2 * variance)

    return log_density(inside) - log_density(outside)


def _each(values, member, score, *, least, least_in=None):
    scores = np.full(values.shape, np.nan)
    for t in range(values.shape[0]):
        for r in range(values.shape[1]):
            inside, outside = others(values, member, t, r)
            if len(inside) >= (least if least_in is None else least_in) and len(outside) >= least:
                scores[t, r] = score(float(values[t, r]), inside, outside)
    return scores


def beats(a, b) -> float:
    return float(a > b) + 0.5 * float(a == b)
