"""Real sweeps for the benchmarks of the attacks: the paper's budgets on a dataset, kept on disk.

    python -m benchmarks.sweeps compas 50

Needs the trainer's half. A sweep is kept as plain arrays in ``benchmarks/results`` and read from
there the next time.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pcer.exposure import BudgetScores

BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, math.inf)
FOLDER = Path(__file__).parent / "results"


def sweep(name: str, n_seeds: int) -> dict[str, np.ndarray]:
    """Logits (budget, seed, record), membership (seed, record), labels, groups by attribute."""
    path = FOLDER / f"sweep-{name}-{n_seeds}.npz"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        np.savez(path, **train(name, n_seeds))
    with np.load(path) as arrays:
        return dict(arrays)


def train(name: str, n_seeds: int) -> dict[str, np.ndarray]:
    from pcer.data import load, split
    from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

    dataset = load(name)
    rows = {seed: split(dataset, seed=seed).train for seed in range(n_seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    start = time.perf_counter()
    found = train_seeds(data, budgets=BUDGETS, config=TrainConfig(), flags=EngineFlags())
    groups = {f"group_{a.name}": a.codes for a in dataset.attributes}
    names = {f"names_{a.name}": np.array(a.group_names) for a in dataset.attributes}
    return {
        "logits": found.logits,
        "member": found.member,
        "labels": dataset.labels,
        "budgets": np.array(BUDGETS),
        "seconds": np.array(time.perf_counter() - start),
        **groups,
        **names,
    }


def attributes(arrays: dict[str, np.ndarray]) -> list[str]:
    return [key.removeprefix("group_") for key in arrays if key.startswith("group_")]


def budget_scores(
    arrays: dict[str, np.ndarray], attribute: str, *, rotate: int = 0
) -> Iterator[tuple[float, BudgetScores]]:
    """Each budget's scores; ``rotate`` k puts the split of seed s + k beside model s."""
    for epsilon, logits in zip(arrays["budgets"].tolist(), arrays["logits"], strict=True):
        yield (
            epsilon,
            BudgetScores(
                logits=logits,
                labels=arrays["labels"],
                member=np.roll(arrays["member"], -rotate, axis=0),
                group=arrays[f"group_{attribute}"],
                group_names=tuple(arrays[f"names_{attribute}"].tolist()),
            ),
        )


if __name__ == "__main__":
    sweep(sys.argv[1], int(sys.argv[2]))
