"""Planted truth, many times: what is found without privacy, and what epsilon 0.1 leaves.

    python -m benchmarks.planted_truth draws 16    draws of the data, each with 24 seeds
    python -m benchmarks.planted_truth sets 100    one draw, so many sets of 24 seeds at 0.1
    python -m benchmarks.planted_truth trace 1200  one draw, so many seeds at 0.1, all together

The data are those of ``tests/sweep/test_planted_truth.py``. "draws" counts, for each cost, the
draws in which the shuffled group is resolved and the more exposed one without privacy, and those
in which any group is resolved at epsilon 0.1. "sets" gives the mean and spread of value over
error, with the true splits and with fresh ones, and the share above 1.96.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from tests.sweep.test_planted_truth import COSTS, N_SEEDS, audited, planted, trained

from benchmarks.sweeps import splits_of
from pcer.attacks.exposure import BudgetScores, pooled_exposures
from pcer.data import split
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

EPSILON = 0.1
DRAW = {"sets": 3, "trace": 7}
"""Which draw of the data each part looks at."""


def draws(n: int) -> None:
    right, alarms = dict.fromkeys(COSTS, 0), dict.fromkeys(COSTS, 0)
    for draw in range(n):
        with tempfile.TemporaryDirectory() as folder:
            release = trained(planted(draw), Path(folder))
        for cost in COSTS:
            found = audited(release, cost)
            kept, shuffled = found[None]["kept"], found[None]["shuffled"]
            is_found = kept.resolved and shuffled.resolved
            right[cost] += is_found and shuffled.cost.value > kept.cost.value
            alarms[cost] += any(group.resolved for group in found[EPSILON].values())
    for cost in COSTS:
        print(f"{cost:24} found {right[cost]:3} of {n}, at 0.1 {alarms[cost]:3} of {n}")


def models(part: str, n_seeds: int) -> dict[str, np.ndarray]:
    dataset = planted(DRAW[part])
    rows = {seed: split(dataset, seed=seed).train for seed in range(n_seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows)
    flags = EngineFlags()
    found = train_seeds(data, budgets=(EPSILON,), config=TrainConfig(), flags=flags)
    return {
        "logits": found.logits[0],
        "member": found.member,
        "labels": dataset.labels,
        "group": dataset.attribute("g").codes,
    }


def exposures(arrays: dict[str, np.ndarray], rows: slice, kind: str):
    scores = BudgetScores(
        logits=arrays["logits"][rows],
        labels=arrays["labels"],
        member=splits_of(arrays, rows, kind, 5),
        group=arrays["group"],
        group_names=("kept", "shuffled"),
    )
    return pooled_exposures(scores, epsilon=EPSILON)


def sets(n: int) -> None:
    arrays = models("sets", n * N_SEEDS)
    for kind in ("true", "fresh"):
        found: dict[tuple[str, str], list[float]] = {}
        for first in range(0, n * N_SEEDS, N_SEEDS):
            for row in exposures(arrays, slice(first, first + N_SEEDS), kind):
                z = row.value / row.standard_error
                found.setdefault((row.group, row.proxy), []).append(z)
        for (group, proxy), values in found.items():
            z = np.array(values)
            print(
                f"{kind:6}{group:9} {proxy:24} {z.mean():+.2f} +- {z.std(ddof=1):.2f}, "
                f"above 1.96: {(z > 1.96).mean():.2f}"
            )


def trace(n: int) -> None:
    for row in exposures(models("trace", n), slice(0, n), "true"):
        print(f"{row.group:9} {row.proxy:24} {row.value:+.4f} +- {row.standard_error:.4f}")


def main() -> None:
    parts = {"draws": draws, "sets": sets, "trace": trace}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=parts)
    parser.add_argument("n", type=int)
    options = parser.parse_args()
    parts[options.part](options.n)


if __name__ == "__main__":
    main()
