"""Audited studies with a planted exposure, drawn record by record, to hold the planner to.

A record is right anyway, right only when trained on (memorised), or wrong. A random split decides
who is trained on. The tests are the audit's, written out slowly: the exact Mantel-Haenszel test
for "is anything memorised?", and estimate over error for "do the groups differ?".
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr
from scipy.stats import hypergeom

from pcer.auditing.planner import CountsError, Design

LEVEL = 0.05
CONVOLVED = 10.0
"""Deviation of U up to which the distribution is convolved; the normal is good beyond."""
REACH = 12.0
"""Deviations each side of the mean that are convolved."""


def resolved_share(
    study: Design, group: int, cost: float, *, n: int, rng: np.random.Generator
) -> float:
    """How often an exposure of these very records is resolved, in n studies."""
    kinds = _kinds(study, group, cost)
    return float(np.mean([_resolves(study, kinds, rng) for _ in range(n)]))


def planted(study: Design, group: int, cost: float) -> float:
    """The exposure nearest to ``cost`` that so many people can have."""
    kinds = _kinds(study, group, cost)
    return float(kinds[:, 1].sum() / kinds.sum())


def shown_share(
    study: Design,
    pair: tuple[int, int],
    costs: tuple[float, float],
    *,
    n: int,
    rng: np.random.Generator,
) -> float:
    """How often two exposures are told apart, people drawn anew in each of n studies."""
    return float(np.mean([_shows(study, pair, costs, rng) for _ in range(n)]))


def _error(study: Design) -> CountsError:
    assert isinstance(study.error, CountsError)
    return study.error


def _kinds(study: Design, group: int, cost: float) -> np.ndarray:
    """(label, kind) how many are right anyway, memorised, and wrong: as exactly as can be."""
    return np.rint(study.people[group] * _shares(study, group, cost)).astype(int)


def _shares(study: Design, group: int, cost: float) -> np.ndarray:
    error = _error(study)
    right = np.atleast_1d(error.accuracy[group])
    label = np.ones(1) if error.label_share is None else error.label_share[group]
    memorised = (1 - right) * cost / (label * (1 - right)).sum()
    return label[:, None] * np.stack([right, memorised, 1 - right - memorised], axis=1)


def _split(study: Design, kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(split, label, kind) trained on; balanced by label."""
    n_train = np.rint(_error(study).train_share * kinds.sum(axis=1)).astype(int)
    parts = [
        rng.multivariate_hypergeometric(row, n, size=int(study.n_splits))
        for row, n in zip(kinds, n_train, strict=True)
    ]
    return np.stack(parts, axis=1)


def _resolves(study: Design, kinds: np.ndarray, rng: np.random.Generator) -> bool:
    trained = _split(study, kinds, rng)
    hits = trained[:, :, 0] + trained[:, :, 1]
    correct = kinds[:, 0] + trained[:, :, 1]
    p = mantel_haenszel(
        hits.ravel(),
        np.broadcast_to(kinds.sum(axis=1), hits.shape).ravel(),
        correct.ravel(),
        trained.sum(axis=2).ravel(),
    )
    return bool(p * study.n_cost_tests <= LEVEL)


def mantel_haenszel(
    hits: np.ndarray, total: np.ndarray, correct: np.ndarray, trained: np.ndarray
) -> float:
    """P(U >= u) of a sum of hypergeometrics: convolved, or normal with skewness."""
    each = hypergeom(total, correct, trained)
    mean, variance = each.mean().sum(), each.var().sum()
    if variance > CONVOLVED**2:
        z = (hits.sum() - mean - 0.5) / np.sqrt(variance)
        lean = (total - 2 * correct) * (total - 2 * trained) / (total * (total - 2))
        skewness = (each.var() * lean).sum() / variance**1.5
        return float(ndtr(-(z - skewness / 6 * (z**2 - 1))))
    low, mass = 0, np.ones(1)
    for n, k, t in zip(total, correct, trained, strict=True):
        middle, reach = k * t / n, REACH * np.sqrt(variance) + 1
        first, last = max(0, k + t - n, int(middle - reach)), min(k, t, int(middle + reach))
        support = np.arange(first, last + 1)
        low, mass = low + support[0], np.convolve(mass, hypergeom.pmf(support, n, k, t))
    return float(mass[max(0, hits.sum() - low) :].sum())


def _shows(
    study: Design,
    pair: tuple[int, int],
    costs: tuple[float, float],
    rng: np.random.Generator,
) -> bool:
    parts = [_drawn(study, g, cost, rng) for g, cost in zip(pair, costs, strict=True)]
    cost = [float(differences.mean()) for differences, _ in parts]
    pooled = float(np.average(cost, weights=study.people[list(pair)]))
    variance = sum(
        _tested(study, g, max(own, pooled, 0.0), *part)
        for g, own, part in zip(pair, cost, parts, strict=True)
    )
    z = (cost[1] - cost[0]) / np.sqrt(variance)
    return bool(z > 0 and 2 * ndtr(-z) * study.n_pair_tests <= LEVEL)


def _drawn(
    study: Design, group: int, cost: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Differences of accuracy over splits of freshly drawn people, and max(v, u)."""
    shares = _shares(study, group, cost)
    people = rng.multinomial(int(study.people[group]), shares.ravel()).reshape(shares.shape)
    trained = _split(study, people, rng)
    rest = people - trained
    n, label = people.sum(), people.sum(axis=1)
    share = label / n
    hits, spared = trained[:, :, :2].sum(axis=2), rest[:, :, 0]
    train, test = hits / trained.sum(axis=2), spared / rest.sum(axis=2)
    f = _error(study).train_share
    right = (hits + spared) / label
    v = (share * right * (1 - right)).sum(axis=1).mean() / (n * f * (1 - f))
    u = (share * (train * (1 - train) / f + test * (1 - test) / (1 - f))).sum(axis=1).mean() / n
    return (share * (train - test)).sum(axis=1), float(max(v, u))


def _tested(study: Design, group: int, cost: float, differences: np.ndarray, one: float) -> float:
    """V(c) of the method: the closed form, or the spread over splits, whichever is larger."""
    n_splits, people = len(differences), cost * (1 - cost) / study.people[group]
    closed = one / n_splits + (1 - 1 / n_splits) * people
    if n_splits == 1:
        return float(closed)
    return float(max(closed, differences.var(ddof=1) / n_splits + people))
