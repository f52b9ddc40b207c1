"""White-box canaries: what an attacker who sees every step finds, beside what was accounted.

A canary is a record whose gradient has a direction of its own, at the whole, half and a tenth of
the clip norm. The attacker knows all else and sees, at every step, the noisy sum of gradients in
that direction; the likelihood ratio over all steps is the best there is to guess by. Two runs:

* the mechanism alone: a coin for joining the step, noise, and nothing else;
* the engine: canaries among training records of a linear model, trained by the compiled step under
  the rule "held", with its own norms, batches and noise; what was accounted is what it counted.

Printed for each norm: the receipt (a bound), the realised epsilon, the 95 % lower bound of epsilon
from counted guesses (Clopper-Pearson; the threshold comes from half of the guesses) and by Gaussian
privacy from the AUC, and the Gaussian parameter mu as found and as accounted. Bars: no lower bound
above the receipt, and mu within 10 % of what was accounted.

    .venv/bin/python benchmarks/canaries.py [models] [draws]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import mannwhitneyu

from pcer.metrics import FloatArray
from pcer.train import Model, Terms, TrainConfig, TrainingData, fold, mu_of
from pcer.train.cpu import CpuDevice, CpuStep
from pcer.train.engine import assemble, one_thread
from pcer.train.rules import N_BINS

SHARES = {"whole": 1.0, "half": 0.5, "tenth": 0.1}
"""Norms in units of the clip norm."""
CANARIES = {"whole": 40, "half": 80, "tenth": 600}
"""In one model; half of each are trained on. Weak ones need more."""
NOISE, RATE, N_STEPS, DELTA = 2.0, 0.1, 1_000, 1e-5
CLIP, N_TRAIN = 100.0, 1_000
SLACK = 0.999
"""How far below the edge of its bin a norm lies, so that rounding up costs nothing."""
TOLERANCE = 0.1
BLOCK = 20
"""Models that are trained together."""


class Scores(NamedTuple):
    """Likelihood ratios of canaries that were trained on, and of those that were not."""

    inside: FloatArray
    outside: FloatArray


def log_ratio(seen: FloatArray, share: float) -> FloatArray:
    """Of "joins with this norm" to "does not", over all steps (last axis), in units of the clip."""
    exponent = (2 * seen * share - share**2) / (2 * NOISE**2)
    return np.log1p(RATE * np.expm1(exponent)).sum(axis=-1)


def simulated(share: float, n: int, rng: np.random.Generator) -> Scores:
    """The mechanism alone."""

    def draw(size: int, here: float) -> FloatArray:
        joins = rng.random((size, N_STEPS)) < RATE
        return log_ratio(here * joins + NOISE * rng.standard_normal((size, N_STEPS)), share)

    lots = [min(2_000, n - done) for done in range(0, n, 2_000)]
    return Scores(*(np.concatenate([draw(k, here) for k in lots]) for here in (share, 0.0)))


def canary_data(seeds: range) -> TrainingData:
    """Canaries with a feature each, and fillers without any, whose gradient is in the bias only."""
    shares = np.concatenate([np.full(n, SHARES[name]) for name, n in CANARIES.items()])
    norms = np.where(shares == 1, 10 * CLIP, shares * SLACK * CLIP)  # the whole is clipped to it
    n_fillers = N_TRAIN - len(shares) // 2
    features = np.zeros((len(shares) + n_fillers, len(shares)), dtype=np.float32)
    np.fill_diagonal(features, np.sqrt((2 * norms) ** 2 - 1))  # the gradient is (x, 1)/2 at p = 1/2
    labels = np.concatenate([np.ones(len(shares)), np.arange(n_fillers) % 2])
    fillers = np.arange(len(shares), len(features))
    return TrainingData.of(
        features, labels, {s: np.concatenate([chosen(s), fillers]) for s in seeds}
    )


def chosen(seed: int) -> FloatArray:
    """Half of the canaries of each norm."""
    rng = np.random.default_rng([seed, 1])
    starts = np.cumsum([0, *CANARIES.values()])
    picks = [
        rng.permutation(n)[: n // 2] + a for n, a in zip(CANARIES.values(), starts, strict=False)
    ]
    return np.sort(np.concatenate(picks))


def trained(seeds: range) -> Iterator[tuple[dict[str, Scores], FloatArray, Terms]]:
    """For every model its scores, and what its canaries' steps were folded into."""
    data = canary_data(seeds)
    config = TrainConfig(
        hidden=(),
        epochs=round(N_STEPS * RATE),
        expected_batch=round(N_TRAIN * RATE),
        learning_rate=1e-8,  # weights hardly move, so p stays 1/2 and norms stay as they are
        momentum=0.0,
        clip_norm=CLIP,
        standardise=False,
        split="given",
        receipts="held",
    )
    models = [Model(seed, 1.0, NOISE) for seed in seeds]
    with torch.no_grad(), one_thread():
        fleet = assemble(data, models, config, device=CpuDevice(), secret=b"")
        fleet.start.weights.zero_()
        seen = noisy_sums(fleet, sum(CANARIES.values()), config.learning_rate)
        sampling = config.sampling(data.n_train)
    assert (sampling.sample_rate, sampling.n_steps) == (RATE, N_STEPS)
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    for index, seed in enumerate(seeds):
        steps = fleet.watch.steps_per_bin(index)
        kept = fold(steps, noise_multiplier=NOISE, sampling_rate=RATE, dp_delta=DELTA)
        mine = chosen(seed)  # canaries come first among the rows of a split
        yield scores_of(seen[index], mine), kept[: len(mine)], terms


def noisy_sums(fleet: Any, n: int, learning_rate: float) -> FloatArray:
    """(model, canary, step): the noisy sum of gradients in each canary's direction, in clips."""
    loop, sums = CpuStep(fleet), []
    scale = fleet.rule.expected_batch / learning_rate / CLIP
    before = loop.state.weights[:, :n].clone()
    for rows, sizes in zip(fleet.schedule.rows, fleet.schedule.sizes, strict=True):
        loop.advance(rows, sizes)
        now = loop.state.weights[:, :n].clone()
        sums.append(((now - before) * scale).numpy())  # gradients of label 1 point down, steps up
        before = now
    return np.stack(sums, axis=-1).astype(np.float64)


def scores_of(seen: FloatArray, inside: FloatArray) -> dict[str, Scores]:
    found, start = {}, 0
    for name, n in CANARIES.items():
        place = np.arange(start, start + n)
        scores = log_ratio(seen[place], SHARES[name])
        here = np.isin(place, inside)
        found[name], start = Scores(scores[here], scores[~here]), start + n
    return found


def through_engine(n_models: int) -> tuple[dict[str, Scores], dict[str, tuple[float, float]]]:
    """Scores of all models, and for each norm the largest receipt and realised epsilon."""
    parts: dict[str, list[Scores]] = {name: [] for name in SHARES}
    booked: dict[str, list[FloatArray]] = {name: [] for name in SHARES}
    for first in range(0, n_models, BLOCK):
        for scores, kept, terms in trained(range(first, min(first + BLOCK, n_models))):
            ends = np.cumsum([n // 2 for n in CANARIES.values()])
            for name, own in zip(SHARES, np.split(kept, ends[:-1]), strict=True):
                parts[name].append(scores[name])
                booked[name].append(np.array([terms.receipt(own), terms.realised(own)]))
        print(f"  {min(first + BLOCK, n_models)} of {n_models} models", file=sys.stderr, flush=True)
    whole = {name: Scores(*map(np.concatenate, zip(*p, strict=True))) for name, p in parts.items()}
    most = {name: np.concatenate(b, axis=1).max(axis=1) for name, b in booked.items()}
    return whole, {name: (float(a), float(b)) for name, (a, b) in most.items()}


def accounted(share: float) -> tuple[float, float]:
    """Receipt and realised epsilon of a norm that never changes."""
    steps = np.zeros((1, N_BINS + 1), dtype=np.uint16)
    steps[0, round(N_BINS * share)] = N_STEPS
    kept = fold(steps, noise_multiplier=NOISE, sampling_rate=RATE, dp_delta=DELTA)
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    return float(terms.receipt(kept)[0]), float(terms.realised(kept)[0])


def found_mu(scores: Scores) -> tuple[float, float]:
    """Gaussian parameter from the AUC, and its standard error (Hanley and McNeil)."""
    n, m = len(scores.inside), len(scores.outside)
    auc = mannwhitneyu(scores.inside, scores.outside).statistic / (n * m)
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    error = math.sqrt(
        (auc * (1 - auc) + (n - 1) * (one - auc**2) + (m - 1) * (two - auc**2)) / (n * m)
    )
    z = ndtri(auc)
    return math.sqrt(2) * z, math.sqrt(2) * error * math.sqrt(2 * math.pi) * math.exp(z * z / 2)


def gaussian_epsilon(mu: float) -> float:
    """Exact epsilon of a Gaussian mechanism at delta (Balle and Wang 2018), by halving."""
    low, high = 0.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        delta = ndtr(-middle / mu + mu / 2) - math.exp(middle) * ndtr(-middle / mu - mu / 2)
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


def counted_bound(scores: Scores, level: float = 0.05) -> float:
    """Lower bound of epsilon from right and wrong guesses, at a threshold that others chose."""
    learn = Scores(scores.inside[::2], scores.outside[::2])
    test = Scores(scores.inside[1::2], scores.outside[1::2])
    tries = np.quantile(np.concatenate(learn), np.linspace(0.01, 0.99, 99))
    best = max(tries, key=lambda t: _bound_at(learn, float(t), level))
    return max(0.0, _bound_at(test, float(best), level))


def _bound_at(scores: Scores, threshold: float, level: float) -> float:
    """The better of guessing "in" above and "out" below; each of four rates gets its share."""
    hits, n = int((scores.inside > threshold).sum()), len(scores.inside)
    alarms, m = int((scores.outside > threshold).sum()), len(scores.outside)
    sides = ((hits, n, alarms, m), (m - alarms, m, n - hits, n))
    return max(_log_quotient(*side, level / 4) for side in sides)


def _log_quotient(hits: int, n: int, alarms: int, m: int, tail: float) -> float:
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(alarms + 1, m - alarms, 1 - tail)) if alarms < m else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else 0.0


def row(name: str, scores: Scores, receipt: float, realised: float) -> dict[str, float]:
    mu, error = map(float, found_mu(scores))
    own = float(mu_of(np.array([realised]), dp_delta=DELTA)[0])
    found = {
        "guesses": len(scores.inside) + len(scores.outside),
        "receipt": receipt,
        "realised": realised,
        "counted_lower_bound": counted_bound(scores),
        "gaussian_lower_bound": gaussian_epsilon(max(mu - 1.645 * error, 1e-6)),
        "gaussian_epsilon": gaussian_epsilon(max(mu, 1e-6)),
        "mu": mu,
        "mu_error": error,
        "mu_accounted": own,
    }
    lower = max(found["counted_lower_bound"], found["gaussian_lower_bound"])
    found["holds"], found["near"] = lower <= receipt, bool(abs(mu / own - 1) <= TOLERANCE)
    print(
        f"  {name:<6} {found['guesses']:>8,} {receipt:>8.3f} {realised:>8.3f} "
        f"{found['counted_lower_bound']:>8.3f} {found['gaussian_lower_bound']:>8.3f} "
        f"{found['gaussian_epsilon']:>8.3f} {mu:>7.4f} ±{error:.4f} {own:>7.4f} "
        f"{mu / own - 1:>+7.1%}  {'holds' if found['holds'] else 'BROKEN'}, "
        f"{'near' if found['near'] else 'FAR'}",
        flush=True,
    )
    return found


def main(n_models: int = 400, n_draws: int = 100_000) -> None:
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    print(
        f"noise {NOISE:g}, rate {RATE:g}, {N_STEPS:,} steps, delta {DELTA:g}: promised "
        f"{terms.nominal:.3f} by rdp"
    )
    head = (
        "  norm    guesses  receipt realised  counted gaussian estimate      mu            booked"
    )
    results: dict[str, Any] = {"nominal": terms.nominal}
    print(f"the mechanism alone\n{head}")
    rng = np.random.default_rng(0)
    results["mechanism"] = {
        name: row(
            name, simulated(share, n_draws if share < 0.5 else n_draws // 4, rng), *accounted(share)
        )
        for name, share in SHARES.items()
    }
    scores, booked = through_engine(n_models)
    print(f"through the engine, {n_models:,} models\n{head}")
    results["engine"] = {name: row(name, scores[name], *booked[name]) for name in SHARES}
    out = Path(__file__).parent / "results" / "canaries.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
