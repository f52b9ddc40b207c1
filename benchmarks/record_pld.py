"""The tighter epsilon of some records, by privacy loss distributions: an estimate.

It takes the norms of a record as fixed before training, which they are not: they depend on what
earlier steps gave. So it describes how loose the Renyi numbers are, and bounds nothing.

dp-accounting gives the distribution of one step for every bin, rounded against us. The distribution
of all steps of a record is a product of powers of their characteristic functions: a row of a matrix
product, and one inverse Fourier transform.

Printed for made-up records of one norm each: the Renyi epsilon, this estimate, and what
dp-accounting composes from the same steps, which the estimate must not be below.

    .venv/bin/python benchmarks/record_pld.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from pcer.metrics import FloatArray
from pcer.train.fleet import StepCounts
from pcer.train.renyi import epsilon_of, step_costs
from pcer.train.rules import N_BINS

MOST_RECORDS = 1_000
"""Records that this is done for, at most."""

INTERVAL = 1e-4
"""Grid of privacy losses."""

TAIL = 1e-13
"""Chance of a loss outside of the window; above it counts as an infinite loss."""

ROUNDING = 1e-16
"""Error of a Fourier transform for each point; together they count as an infinite loss."""

SLOPES = np.geomspace(1e-2, 1e2, 41)
"""Exponents that are tried in Chernoff's bound; a poor one only makes the window wider."""

LOT_ENTRIES = 4_000_000
"""Complex numbers that are held at once, besides the table."""


class _StepLoss(NamedTuple):
    """The privacy loss of one step: chances of multiples of the interval from a first one on."""

    first: int
    chance: FloatArray
    infinite: float

    @property
    def losses(self) -> FloatArray:
        return np.asarray(INTERVAL * (self.first + np.arange(len(self.chance))), dtype=np.float64)


def estimate_by_pld(
    steps_per_bin: StepCounts, *, noise_multiplier: float, sampling_rate: float, dp_delta: float
) -> FloatArray:
    """(record,) epsilon at delta of each record as if its norms had been fixed beforehand.

    Never below what dp-accounting composes from the same steps.

    Args:
        steps_per_bin: as for ``fold``; at most 1,000 records.
        noise_multiplier: standard deviation of the noise in units of the clip norm.
        sampling_rate: chance of a record to join a step.
        dp_delta: of the epsilon.
    """
    if len(steps_per_bin) > MOST_RECORDS:
        raise ValueError(
            f"steps_per_bin must hold at most {MOST_RECORDS} records, but holds "
            f"{len(steps_per_bin)}; sample some."
        )
    used = np.flatnonzero(steps_per_bin[:, 1:].any(axis=0)) + 1
    if not len(used):
        return np.zeros(len(steps_per_bin))
    steps = steps_per_bin[:, used].astype(np.float64)
    noise = noise_multiplier * N_BINS / used
    both = [_step_losses(float(own), sampling_rate) for own in noise]
    sides = zip(*both, strict=True)
    return np.maximum(*(_one_side(steps, list(side), dp_delta) for side in sides))


def main() -> None:
    noise, rate, n_steps, delta = 4.654, 1 / 17, 425, 1e-5  # COMPAS at epsilon 1
    bins = np.array([200, 150, 100, 50, 20])
    steps = np.zeros((len(bins), N_BINS + 1), dtype=np.uint16)
    steps[np.arange(len(bins)), bins] = n_steps
    divergence = steps @ step_costs(noise, rate)
    renyi = epsilon_of(divergence, dp_delta=delta)
    ours = estimate_by_pld(steps, noise_multiplier=noise, sampling_rate=rate, dp_delta=delta)
    print(f"{'norm / clip':>12} {'Renyi':>8} {'estimate':>9} {'dp-accounting':>14}")
    for position, *row in zip(bins, renyi, ours, strict=True):
        theirs = _composed(noise * N_BINS / position, rate, n_steps, delta)
        assert row[1] >= theirs
        print(f"{position / N_BINS:12.3f} {row[0]:8.4f} {row[1]:9.5f} {theirs:14.5f}")


def _composed(noise: float, rate: float, n_steps: int, dp_delta: float) -> float:
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant

    step = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise))
    accountant = PLDAccountant(value_discretization_interval=INTERVAL)
    composed = accountant.compose(dpa.SelfComposedDpEvent(step, n_steps))
    return float(composed.get_epsilon(dp_delta))


def _step_losses(noise: float, rate: float) -> tuple[_StepLoss, _StepLoss]:
    """Of a step with this noise, with the record above and below, by dp-accounting."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    both = from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=INTERVAL
    )
    above, below = (one.to_dense_pmf() for one in (both._pmf_remove, both._pmf_add))
    return _of_pmf(above), _of_pmf(below)


def _of_pmf(pmf: object) -> _StepLoss:
    """dp-accounting has no other way to them than these names."""
    first, chance, infinite = (
        getattr(pmf, name) for name in ("_lower_loss", "_probs", "_infinity_mass")
    )
    return _StepLoss(int(first), np.asarray(chance, dtype=np.float64), float(infinite))


def _one_side(steps: FloatArray, bins: list[_StepLoss], dp_delta: float) -> FloatArray:
    first, size = _window(steps, bins)
    table = np.array([_log_transform(one, size) for one in bins])
    lost = -np.expm1(steps @ np.log1p([-one.infinite for one in bins]))
    infinite = lost + 2 * TAIL + ROUNDING * size
    epsilon = np.empty(len(steps))
    for part in _lots(len(steps), size):
        chance = irfft(np.exp(steps[part] @ table), size, axis=1)
        chance = np.maximum(np.roll(chance, -(first % size), axis=1), 0)
        epsilon[part] = _epsilon(chance, first, infinite[part], dp_delta)
    return epsilon


def _lots(n_records: int, size: int) -> list[slice]:
    lot = max(1, LOT_ENTRIES // size)
    return [slice(at, at + lot) for at in range(0, n_records, lot)]


def _window(steps: FloatArray, bins: list[_StepLoss]) -> tuple[int, int]:
    """First loss and number of losses, in intervals, beyond which nobody's loss lies (Chernoff)."""
    upper, lower = np.full(len(steps), np.inf), np.full(len(steps), -np.inf)
    for slope in SLOPES:
        above, below = (
            steps @ [_log_moment(one, sign * slope) for one in bins] for sign in (1, -1)
        )
        upper = np.minimum(upper, (above - math.log(TAIL)) / slope)
        lower = np.maximum(lower, -(below - math.log(TAIL)) / slope)
    first = math.floor(lower.min() / INTERVAL)
    return first, next_fast_len(math.ceil(upper.max() / INTERVAL) - first + 1, real=True)


def _log_moment(one: _StepLoss, slope: float) -> float:
    """Logarithm of E[exp(slope x loss)] of a finite loss."""
    exponent = slope * one.losses
    most = exponent.max()
    return float(most + math.log(np.dot(np.exp(exponent - most), one.chance)))


def _log_transform(one: _StepLoss, size: int) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """Logarithm of the Fourier transform of a step's losses, wrapped into a window of this size."""
    place = (one.first + np.arange(len(one.chance))) % size
    with np.errstate(divide="ignore"):  # where it is 0 its logarithm is minus infinity, as wanted
        return np.asarray(np.log(rfft(np.bincount(place, one.chance, size)).astype(np.complex128)))


def _epsilon(chance: FloatArray, first: int, infinite: FloatArray, dp_delta: float) -> FloatArray:
    """(record,) least epsilon whose hockey-stick divergence is at most delta.

    Going down from the largest loss, the mass above minus e^loss times the mass that the other
    world has there is the delta of that loss; epsilon lies where it first exceeds the target.
    """
    losses = INTERVAL * (first + np.arange(chance.shape[1]))
    shift = losses.max()  # keeps exponentials in range
    above = infinite[:, None] + _sums_above(chance)
    other = _sums_above(chance * np.exp(shift - losses))
    delta = above - np.exp(losses - shift) * other
    exceeds = delta > dp_delta
    last = exceeds.shape[1] - 1 - exceeds[:, ::-1].argmax(axis=1)  # the largest loss that exceeds
    rows = np.arange(len(chance))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = shift + np.log((above[rows, last] - dp_delta) / other[rows, last])
    found = np.where(exceeds.any(axis=1), found, 0.0)
    return np.where(infinite > dp_delta, np.inf, np.maximum(found, 0.0))


def _sums_above(values: FloatArray) -> FloatArray:
    """Sum of what stands strictly behind each place."""
    sums = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.concatenate([sums[:, 1:], np.zeros((len(values), 1))], axis=1))


if __name__ == "__main__":
    main()
