"""What accounted privacy allows on the scale of attacks: an estimate, by Gaussian privacy.

Many steps of DP-SGD together look like one Gaussian mechanism of parameter mu (Dong, Roth and Su
2022): with everything in sight, "was trained on" and "was not" are two normal laws of one deviation
and a distance of mu deviations. The mu of a record is that of the Gaussian mechanism to which the
same accountant gives the same epsilon at the same delta.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from pcer.metrics import FloatArray
from pcer.train.renyi import ORDERS, epsilon_of

LARGEST_MU = 100.0
N_MU = 20_000
"""Grid on which the accountant is turned around; it is even in log mu."""
LEAST_MU = 1e-6

MOST_QUANTILES = 512
"""Above so many records, neighbours in mu are compared by their means: an error below 1e-4."""


def mu_of(epsilon: FloatArray, *, dp_delta: float) -> FloatArray:
    """Parameter of the Gaussian mechanism that the Renyi accountant gives this epsilon at delta.

    An epsilon of 0 gives 0; NaN stays NaN.
    """
    grid, accounted = _accounted(dp_delta)
    square = np.interp(epsilon, accounted, grid**2)  # epsilon is linear in mu^2 between orders
    return np.where(
        np.asarray(epsilon) > 0, np.sqrt(square), np.where(np.isnan(epsilon), np.nan, 0)
    )


def allowed_advantage(mu: FloatArray) -> float:
    """AUC minus 1/2 that the likelihood ratios of these people, pooled, would give an attacker.

    LiRA's AUC compares different people: the score of one who was trained on, normal with mean
    mu_i^2/2 and variance mu_i^2, and that of another who was not, with mean -mu_j^2/2. The first is
    larger with chance Phi(sqrt(mu_i^2 + mu_j^2)/2); this is its mean over all pairs. An estimate:
    for an attacker who sees every step.

    >>> round(allowed_advantage(np.array([1.0])), 4)  # Phi(sqrt(2)/2) - 1/2
    0.2602
    """
    if not len(mu):
        raise ValueError("mu must hold at least one record.")
    square, weight = _condensed(np.sort(np.asarray(mu, dtype=np.float64) ** 2))
    chance = ndtr(np.sqrt(square[:, None] + square) / 2)
    return float(weight @ chance @ weight) - 0.5


def _condensed(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of neighbours in so many parts of about equal size, and their shares."""
    n_parts = min(len(ordered), MOST_QUANTILES)
    starts = np.arange(n_parts) * len(ordered) // n_parts
    sizes = np.diff(np.append(starts, len(ordered)))
    return np.add.reduceat(ordered, starts) / sizes, sizes / len(ordered)


@lru_cache(maxsize=16)
def _accounted(dp_delta: float) -> tuple[FloatArray, FloatArray]:
    """Parameters, and the epsilon that the accountant gives each; both grow."""
    mu = np.geomspace(LEAST_MU, LARGEST_MU, N_MU)
    epsilon = epsilon_of(mu[:, None] ** 2 * ORDERS / 2, dp_delta=dp_delta)
    return mu, epsilon
