"""What of one person's privacy can be told: thresholds, epsilon, and an alarm?

    python -m benchmarks.personal pld              by privacy loss distributions
    python -m benchmarks.personal alarm compas:50  does an attack beat epsilon?

No release has any of this. ``benchmarks.fleet_bias --rates`` uses the own thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import fftconvolve
from scipy.stats import binom, t

from benchmarks import lira, parser_of, run_verb
from benchmarks.lira import all_others, blocks
from pcer.attacks.scorers import variance_of
from pcer.attacks.single import true_label_logit
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.statistics import SIGNIFICANCE, holm
from pcer.train import TrainConfig
from pcer.train.receipts import epsilon_of, step_costs
from pcer.train.rules import N_BINS

LEAST_OUT = 3
"""Models without a person for a threshold; with any one left out, two remain."""

GUESSED_SHARE = 0.05
"""Share of records guessed "in", and as many "out": the clearest ones.

Fixed before looking.
"""

LARGEST_EPSILON = 30.0
"""Odds of 10^13: no number of guesses tells larger bounds apart."""

STEPS = 30
"""Halvings of the search for the bound."""

MOST_RECORDS = 1_000
"""Records whose privacy loss distribution is worked out, at most."""

INTERVAL = 1e-4
"""Grid of privacy losses."""

TAIL = 1e-13
"""Chance of a loss outside of the window; above it counts as an infinite loss."""

ROUNDING = 1e-16
"""Error of a Fourier transform for each point; together they are an infinite loss."""

SLOPES = np.geomspace(1e-2, 1e2, 41)
"""Exponents that are tried in Chernoff's bound; a poor one widens the window."""

LOT_ENTRIES = 4_000_000
"""Complex numbers that are held at once, besides the table."""


class PersonalAlarms(NamedTuple):
    """Whom an attacker names who sets each person's own threshold.

    Attributes:
        raised: (model, record) share of the thresholds at which the model's score names
            the record as a member: 0 or 1 for a model without the record, which meets
            only that of the others.
        known: (record,) whether enough models were without it; no other is ever named.
    """

    raised: FloatArray
    known: BoolArray


def personal_alarms(
    scaled_logit: FloatArray, member: BoolArray, *, fpr: float
) -> PersonalAlarms:
    """Name a record if models without it score so high with chance ``fpr`` only.

    One threshold for a whole group lets most false alarms fall on the few people whose
    scores are high anyway. Here each person is measured against the models that did not
    have the person. Every such model in turn is left out, and the others set a
    threshold that it should exceed with the rate that was asked for: under a Gaussian
    its distance from their mean, in deviations, is Student's. Models that had the
    person meet the same thresholds, so that at chance both are named equally often,
    whatever the distribution.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        fpr: every record's own rate of false alarms, between 0 and 1.
    """
    raised = np.zeros(member.shape)
    n_out = (~member).sum(axis=0)
    for block, values, inside in blocks(scaled_logit, member):
        others = all_others(values, inside)
        n = np.maximum(others.n_out, LEAST_OUT - 1)
        spread = np.sqrt(variance_of(others.squares_out, others.n_out) * (1 + 1 / n))
        thresholds = others.mean_out + t.isf(fpr, n - 1) * spread
        shares = np.zeros(values.shape)
        for threshold, had in zip(thresholds, inside, strict=True):
            shares += (values > threshold) & ~had
        shares /= np.maximum((~inside).sum(axis=0), 1)
        raised[:, block] = np.where(inside, shares, values > thresholds)
    known = n_out >= LEAST_OUT
    return PersonalAlarms(raised * known, known)


class Guesses(NamedTuple):
    """Guesses of in and out over all audited models, and how many were right."""

    n_in: int
    n_out: int
    n_right: int
    n_candidates: int


def count_guesses(scaled_logit: FloatArray, member: BoolArray) -> Guesses:
    """Guess one group's records in half of the models, calibrated by the other half.

    The halves are apart because guesses must not depend on the membership they are
    counted against: among models that calibrate each other, right guesses come in
    clusters.
    """
    half = len(member) // 2
    means = []
    squares = np.zeros(member.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        for chosen in (member[:half], ~member[:half]):
            means.append(
                (scaled_logit[:half] * chosen).sum(axis=0) / chosen.sum(axis=0)
            )
            squares += (((scaled_logit[:half] - means[-1]) * chosen) ** 2).sum(axis=0)
        score = (scaled_logit[half:] - (means[0] + means[1]) / 2) / np.sqrt(squares)
    n = n_right = n_candidates = 0
    for row, inside in zip(score, member[half:], strict=True):
        order = np.flatnonzero(np.isfinite(row))
        order = order[np.argsort(row[order], kind="stable")]
        own = int(GUESSED_SHARE * len(order))
        n_right += int(inside[order[len(order) - own :]].sum()) + int(
            (~inside[order[:own]]).sum()
        )
        n = n + own
        n_candidates = n_candidates + len(order)
    return Guesses(n, n, n_right, n_candidates)


def worst_case_p(
    guesses: Guesses, *, epsilon: float, inclusion: float, dp_delta: float
) -> float:
    """Largest chance of at least so many right guesses under (epsilon, delta)-privacy.

    One-run auditing (Steinke, Nasr and Jagielski). A guess "in" is right with odds of
    at most e^epsilon p/(1-p), a guess "out" with at most e^epsilon (1-p)/p. The sum of
    two binomials bounds the pure part; delta adds 2 m delta max_i (f(v - i) - f(v))/i,
    with m candidates, v right guesses and f the pure part's tail (their Appendix D,
    where p is 1/2; that the same term serves for other p is taken over, not proved
    here). Approximate: splits of a fixed size are not quite independent draws.
    """
    if epsilon >= LARGEST_EPSILON or guesses.n_right == 0:
        return 1.0
    odds = np.exp(epsilon) * np.array(
        [inclusion / (1 - inclusion), (1 - inclusion) / inclusion]
    )
    counts = zip((guesses.n_in, guesses.n_out), odds / (1 + odds), strict=True)
    law = fftconvolve(*(binom.pmf(np.arange(n + 1), n, chance) for n, chance in counts))
    tail = np.append(np.minimum(np.cumsum(np.maximum(law, 0.0)[::-1])[::-1], 1.0), 0.0)
    found = tail[guesses.n_right]
    steps = guesses.n_right - np.arange(guesses.n_right)
    rise = ((tail[: guesses.n_right] - found) / steps).max()
    return float(min(1.0, found + 2 * guesses.n_candidates * dp_delta * rise))


def lower_bound(guesses: Guesses, *, inclusion: float, dp_delta: float) -> float:
    """Epsilon below which so many right guesses are implausible (95 %)."""

    def plausible(epsilon: float) -> bool:
        p = worst_case_p(
            guesses, epsilon=epsilon, inclusion=inclusion, dp_delta=dp_delta
        )
        return p > SIGNIFICANCE

    low = 0.0
    high = LARGEST_EPSILON
    if plausible(low):
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if plausible(middle) else (middle, high)
    return low


def alarm(words: Sequence[str]) -> None:
    """Does an attack do better than the claimed epsilon allows? p-values by Holm.

    The bound grows with the number of records, so it is never compared between groups.
    Silence proves nothing.
    """
    parser = parser_of(alarm)
    parser.add_argument("source", help="such as compas:50; see benchmarks.lira")
    arrays = lira.read(parser.parse_args(words).source)
    member = arrays["member"]
    inclusion = float(arrays["member"].mean())
    delta = TrainConfig().dp_delta
    rows = []
    for budget, logits in zip(
        arrays["budgets"].tolist(), arrays["logits"], strict=True
    ):
        logit = true_label_logit(logits, arrays["labels"])
        for name in lira.attributes(arrays):
            for k, group in enumerate(arrays[f"names_{name}"].tolist()):
                own = arrays[f"group_{name}"] == k
                guesses = count_guesses(logit[:, own], member[:, own])
                how = {"inclusion": inclusion, "dp_delta": delta}
                p = math.nan
                if math.isfinite(budget):
                    p = worst_case_p(guesses, epsilon=budget, **how)
                rows.append((budget, name, group, p, lower_bound(guesses, **how)))
    adjusted = holm(np.array([row[3] for row in rows]))
    for (budget, name, group, _, bound), p in zip(rows, adjusted, strict=True):
        broken = "  ALARM" if p <= SIGNIFICANCE else ""
        claim = lira.epsilon_name(budget)
        print(
            f"{claim:>6} {name:<14}{group:<22} at least {bound:.3f}  p {p:.3f}{broken}"
        )


class _StepLoss(NamedTuple):
    """The privacy loss of one step: chances of multiples of the interval."""

    first: int
    chance: FloatArray
    infinite: float

    @property
    def losses(self) -> FloatArray:
        return np.asarray(
            INTERVAL * (self.first + np.arange(len(self.chance))), dtype=np.float64
        )


def estimate_by_pld(
    steps_per_bin: IntArray,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    dp_delta: float,
) -> FloatArray:
    """(record,) epsilon at delta, as if a record's norms had been fixed beforehand.

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


def pld(words: Sequence[str]) -> None:
    """The tighter epsilon of some records, by privacy loss distributions: an estimate.

    It takes the norms of a record as fixed before training, which they are not: they
    depend on what earlier steps gave. So it describes how loose the Renyi numbers are,
    and bounds nothing. dp-accounting gives the distribution of one step for every bin,
    rounded against us. That of all steps of a record is a product of powers of their
    characteristic functions: a row of a matrix product, and one inverse Fourier
    transform.

    Printed for made-up records of one norm each: the Renyi epsilon, this estimate, and
    what dp-accounting composes from the same steps, which the estimate must not be
    below.
    """
    # COMPAS at epsilon 1
    noise = 4.654
    rate = 1 / 17
    n_steps = 425
    delta = 1e-5
    bins = np.array([200, 150, 100, 50, 20])
    steps = np.zeros((len(bins), N_BINS + 1), dtype=np.uint16)
    steps[np.arange(len(bins)), bins] = n_steps
    divergence = steps @ step_costs(noise, rate)
    renyi = epsilon_of(divergence, dp_delta=delta)
    ours = estimate_by_pld(
        steps, noise_multiplier=noise, sampling_rate=rate, dp_delta=delta
    )
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
    """First loss and number of losses, in intervals, that hold all (Chernoff)."""
    upper = np.full(len(steps), np.inf)
    lower = np.full(len(steps), -np.inf)
    for slope in SLOPES:
        above = steps @ [_log_moment(one, slope) for one in bins]
        below = steps @ [_log_moment(one, -slope) for one in bins]
        upper = np.minimum(upper, (above - math.log(TAIL)) / slope)
        lower = np.maximum(lower, -(below - math.log(TAIL)) / slope)
    first = math.floor(lower.min() / INTERVAL)
    return first, next_fast_len(
        math.ceil(upper.max() / INTERVAL) - first + 1, real=True
    )


def _log_moment(one: _StepLoss, slope: float) -> float:
    """Logarithm of E[exp(slope x loss)] of a finite loss."""
    exponent = slope * one.losses
    most = exponent.max()
    return float(most + math.log(np.dot(np.exp(exponent - most), one.chance)))


def _log_transform(
    one: _StepLoss, size: int
) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    """Logarithm of the Fourier transform of a step's losses, wrapped into a window."""
    place = (one.first + np.arange(len(one.chance))) % size
    with np.errstate(
        divide="ignore"
    ):  # where it is 0 its logarithm is minus infinity, as wanted
        return np.asarray(
            np.log(rfft(np.bincount(place, one.chance, size)).astype(np.complex128))
        )


def _epsilon(
    chance: FloatArray, first: int, infinite: FloatArray, dp_delta: float
) -> FloatArray:
    """(record,) least epsilon whose hockey-stick divergence is at most delta.

    Going down from the largest loss, the mass above minus e^loss times the mass that
    the other world has there is the delta of that loss; epsilon lies where it first
    exceeds the target.
    """
    losses = INTERVAL * (first + np.arange(chance.shape[1]))
    shift = losses.max()  # keeps exponentials in range
    above = infinite[:, None] + _sums_above(chance)
    other = _sums_above(chance * np.exp(shift - losses))
    delta = above - np.exp(losses - shift) * other
    exceeds = delta > dp_delta
    last = (
        exceeds.shape[1] - 1 - exceeds[:, ::-1].argmax(axis=1)
    )  # the largest loss that exceeds
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
    run_verb({"pld": pld, "alarm": alarm})
