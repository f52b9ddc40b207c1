"""How often does an audit cry wolf, and does it hear a real one? Simulated releases.

Prints, for each kind of world, how often a release raises an alarm under pcer's rule and under
the naive one ("the bootstrap interval of some disparity excludes zero"), and the power bars.

    python -m benchmarks.false_alarms [releases] [seed]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from tests.simulate import World, null_world, simulate

import pcer

PLAN = pcer.Plan(resamples=1_000, null_draws=1)
SIX = (0.1, 0.5, 1.0, 5.0, 10.0, None)
CHUNK = 25

EQUAL = World(
    sizes=(39_000, 6_500),
    label_shares=(0.25, 0.25),
    right=[(0.9, 0.6)] * 2,
    gaps=(0.02, 0.02),
    n_seeds=50,
)
PAIR = {"sizes": (10_000, 10_000), "label_shares": (0.4, 0.4), "right": [(0.8, 0.8)] * 2}
POWER = {
    "gap .005 against 0, 50 seeds: resolved": World(
        **PAIR, gaps=(0.005, 0.0), n_seeds=50, budgets=SIX
    ),
    "gap .03 against 0, 1 seed: resolved": World(**PAIR, gaps=(0.03, 0.0), n_seeds=1, budgets=SIX),
    "gaps .005 and .03, rates .34 and .16, 10 seeds: shown": World(
        sizes=(10_000, 10_000),
        label_shares=(0.527, 0.2),
        right=[(0.95, 0.6)] * 2,
        gaps=(0.005, 0.03),
        n_seeds=10,
        budgets=SIX,
    ),
}


def naive(audit: pcer.Audit) -> bool:
    intervals = [pair.pcer_disparity.ci for b in audit.budgets for pair in b.pairs]
    return any(ci is not None and not ci[0] <= 0 <= ci[1] for ci in intervals)


def alarms(kind: str, seed: int) -> list[tuple[bool, bool, bool, bool]]:
    """(disparity, double disadvantage, naive, has intervals) for a chunk of releases."""
    rng = np.random.default_rng([seed, len(kind)])
    rows = []
    for _ in range(CHUNK):
        world = EQUAL if kind == "equal ratio" else null_world(rng, one_split=kind == "one split")
        audit = pcer.audit(simulate(world, rng), PLAN)
        found = audit.outcomes()
        shown, double = "disparity_shown" in found, "double_disadvantage" in found
        rows.append((shown, double, naive(audit), world.n_seeds > 1))
    return rows


def power(name: str, seed: int) -> list[bool]:
    rng = np.random.default_rng([seed, len(name)])
    hits = []
    for _ in range(CHUNK):
        for budget in pcer.audit(simulate(POWER[name], rng), PLAN).budgets:
            shown = budget.verdict is pcer.Verdict.DISPARITY_SHOWN
            hits.append(shown if "shown" in name else budget.groups["g0"].resolved)
    return hits


def spread(pool: ProcessPoolExecutor, job: Callable, name: str, n: int, seed: int) -> Iterator:
    chunks = range(seed * 1_000, seed * 1_000 + math.ceil(n / CHUNK))
    for rows in pool.map(job, [name] * len(chunks), chunks):
        yield from rows


def main(n: int = 2_000, seed: int = 1) -> None:
    results: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(2) as pool:
        print(f"{'world':<58} {'releases':>8} {'disparity':>10} {'double':>8} {'naive':>8}")
        for kind in ("nothing memorised", "one split", "equal ratio"):
            count = n if kind != "equal ratio" else n // 4
            rows = np.array(list(spread(pool, alarms, kind, count, seed)))
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
                f"{rates['double_disadvantage']:>8.2%} {rows[many, 2].mean():>8.1%}"
            )
        for name in POWER:
            hits = list(spread(pool, power, name, n // 10, seed))
            results[name] = {"budgets": len(hits), "share": float(np.mean(hits))}
            print(f"{name:<58} {len(hits) // len(SIX):>8} {np.mean(hits):>10.1%}")
    out = Path(__file__).parent / "results" / "false_alarms.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
