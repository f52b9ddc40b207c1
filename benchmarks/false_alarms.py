"""How often does an audit cry wolf, and does it hear a real one? Simulated releases.

    python -m benchmarks.false_alarms [releases] [seed]

First, for worlds without any disparity, how often a whole audit raises an alarm, beside the naive
rule ("the bootstrap interval of some disparity excludes zero"). ``benchmarks/nulls.py`` has many
more kinds of such worlds.

Then power: of two groups of 10,000 with accuracy .8, split 70/30, the first is remembered. How
often is it resolved, how often does the exact Mantel-Haenszel test say so that is computed here
from binomial coefficients, how often do the two differ, and how often is a disparity or a double
disadvantage shown: that question is about people like these, and harder.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import gammaln
from scipy.stats import hypergeom
from tests.simulate import World, null_world, simulate
from tests.simulate_nulls import Kind, NullRelease, NullWorld, draw_null

import pcer
from benchmarks.nulls import evidence_of
from pcer.statistics import SIGNIFICANCE, holm

PLAN = pcer.Plan(resamples=1_000, null_draws=1)
KINDS = ("nothing memorised", "one split", "equal ratio")
EQUAL = World(
    sizes=(39_000, 6_500),
    label_shares=(0.25, 0.25),
    right=[(0.9, 0.6)] * 2,
    gaps=(0.02, 0.02),
    n_seeds=50,
)
POWER = ((0.03, 1), (0.005, 50))
"""Planted exposure, and splits."""


def naive(audit: pcer.Audit) -> bool:
    intervals = [pair.pcer_disparity.ci for b in audit.budgets for pair in b.pairs]
    return any(ci is not None and not ci[0] <= 0 <= ci[1] for ci in intervals)


def alarms(kind: str, n: int, seed: int) -> Iterator[tuple[bool, bool, bool, bool]]:
    """(disparity, double disadvantage, naive, has intervals) of each release."""
    rng = np.random.default_rng([seed, len(kind)])
    for _ in range(n):
        world = EQUAL if kind == "equal ratio" else null_world(rng, one_split=kind == "one split")
        audit = pcer.audit(simulate(world, rng), PLAN)
        found = audit.outcomes()
        shown, double = "disparity_shown" in found, "double_disadvantage" in found
        yield shown, double, naive(audit), world.n_seeds > 1


def planted(cost: float, n_splits: int, n_settings: int) -> NullWorld:
    """Of the fifth that is wrong, each is right so often when trained on; only in one group."""
    kinds = [Kind(y, *right) for y in (0, 1) for right in ((1, 1), (0, cost / 0.2), (0, 0))]
    shares = [[0.8, 0.2, 0.0], [0.8, 0.0, 0.2]]
    mixed = [[0.6 * one for one in row] + [0.4 * one for one in row] for row in shares]
    return NullWorld(
        sizes=(10_000, 10_000),
        kinds=kinds,
        shares=np.array(mixed),
        n_splits=n_splits,
        n_settings=n_settings,
    )


def exact_resolved(drawn: NullRelease) -> np.ndarray:
    """(setting, group) by the exact test and Holm, settings in the order of an audit."""
    n_settings, _, n_groups = drawn.train.n.shape
    p = [[exact_p(drawn, k, g) for g in range(n_groups)] for k in reversed(range(n_settings))]
    return holm(np.array(p)) <= SIGNIFICANCE


def exact_p(drawn: NullRelease, k: int, g: int) -> float:
    """P(U >= u): U is a sum of hypergeometric counts, one for each split and label."""
    train, test = ([part[k, :, g].astype(int) for part in one] for one in (drawn.train, drawn.test))
    (tp, fp, tn, fn), (test_tp, test_fp, test_tn, test_fn) = train, test
    hits, trained = np.concatenate([tp, tn]), np.concatenate([tp + fn, tn + fp])
    right = hits + np.concatenate([test_tp, test_tn])
    total = trained + np.concatenate([test_tp + test_fn, test_tn + test_fp])
    width = math.ceil(10 * hypergeom.std(total, right, trained).max() + 10)
    start = np.floor(hypergeom.mean(total, right, trained)).astype(int) - width
    counts = start[:, None] + np.arange(2 * width + 1)
    mass = _mass(counts, *(part[:, None] for part in (total, right, trained)))
    n = 2 ** math.ceil(math.log2(mass.size))
    whole = np.fft.irfft(np.fft.rfft(mass, n, axis=1).prod(axis=0), n)
    return float(whole[max(0, int(hits.sum() - start.sum())) :].sum())


def _mass(k: np.ndarray, total: np.ndarray, right: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Hypergeometric probabilities by binomial coefficients, 0 where there can be no such count."""
    ways = (right, k), (total - right, trained - k)
    possible = np.logical_and.reduce([(m >= 0) & (m <= n) for n, m in ways])
    logs = [
        gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1) for n, m in (*ways, (total, trained))
    ]
    return np.where(possible, np.exp(logs[0] + logs[1] - logs[2]), 0.0)


def power(cost: float, n_splits: int, n_settings: int, n: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, n_splits, n_settings])
    rows = []
    for _ in range(n):
        drawn = draw_null(planted(cost, n_splits, n_settings), rng)
        found, exact = evidence_of(drawn, PLAN), exact_resolved(drawn)
        alarm = found.shown | (found.double >= 0)
        rows.append(
            (
                found.resolved[:, 0].mean(),
                exact[:, 0].mean(),
                (found.resolved != exact).any(),
                found.shown.mean(),
                alarm.mean(),
                alarm.any(),
            )
        )
    names = ("resolved", "exact", "differ", "shown", "alarm", "alarm_in_any_setting")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def main(n: int = 2_000, seed: int = 1) -> None:
    results: dict[str, dict[str, float]] = {}
    print(f"{'world':<58} {'releases':>8} {'disparity':>10} {'double':>8} {'naive':>8}")
    for kind in KINDS:
        rows = np.array(list(alarms(kind, n if kind != "equal ratio" else n // 4, seed)))
        many = rows[:, 3]
        rates = {
            "releases": len(rows),
            "disparity_shown": rows[:, 0].mean(),
            "double_disadvantage": rows[:, 1].mean(),
            "naive_of_those_with_intervals": rows[many, 2].mean(),
        }
        results[kind] = {key: float(value) for key, value in rates.items()}
        print(
            f"{kind:<58} {len(rows):>8} {rates['disparity_shown']:>10.2%} "
            f"{rates['double_disadvantage']:>8.2%} {rows[many, 2].mean():>8.1%}",
            flush=True,
        )
    for (cost, n_splits), n_settings in product(POWER, (1, 6)):
        name = f"{cost} in one of two groups, {n_splits} splits, {n_settings} settings"
        results[name] = found = power(cost, n_splits, n_settings, n // 2, seed)
        told = ", ".join(f"{key} {value:.1%}" for key, value in found.items())
        print(f"{name}: {told}", flush=True)
    out = Path(__file__).parent / "results" / "false_alarms.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
