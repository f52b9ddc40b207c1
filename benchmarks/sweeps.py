"""Real sweeps for the benchmarks of the attacks: the paper's budgets on a dataset.

    python -m benchmarks.sweeps train compas 50       train here, keep arrays in benchmarks/results
    python -m benchmarks.sweeps train compas 450-649  the same with these seeds
    python -m benchmarks.sweeps records compas FILE   labels and groups alone, as a small .npz

Wherever a benchmark asks for a source, it takes ``compas:50`` or ``compas:450-649`` (train it
here, or use what was kept) or a folder ``NAME.scores`` that ``pcer train --keep-scores`` left.
Labels and groups of such a folder come from the dataset, or from the file that ``records`` wrote,
so that the machine that runs the benchmark needs no more than numpy and pcer.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

from pcer.attacks.exposure import BudgetScores

Arrays = dict[str, np.ndarray]

BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, math.inf)
FOLDER = Path(__file__).parent / "results"


def read(source: str, *, records: str | None = None) -> Arrays:
    """Logits (budget, seed, record), membership (seed, record), labels, groups by attribute."""
    name, _, seeds = source.rpartition(":")
    if name and seeds.replace("-", "").isdigit():
        return sweep(name, seeds)
    return kept(Path(source), records=records)


def name_of(source: str) -> str:
    """A short name for files of results."""
    return Path(source).name.removesuffix(".scores").split(":")[0]


def sweep(name: str, seeds: str) -> Arrays:
    """Trained here, or read from where it was kept; ``seeds`` is a number or from-to."""
    path = FOLDER / f"sweep-{name}-{seeds}.npz"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        first, _, last = seeds.rpartition("-")
        wanted = range(int(first), int(last) + 1) if first else range(int(last))
        np.savez(path, **train(name, wanted))
    with np.load(path) as arrays:
        return dict(arrays)


def train(name: str, seeds: range, *, budgets: tuple[float, ...] = BUDGETS) -> Arrays:
    from pcer.data import load, split
    from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

    dataset = load(name)
    rows = {seed: split(dataset, seed=seed).train for seed in seeds}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    start = time.perf_counter()
    found = train_seeds(data, budgets=budgets, config=TrainConfig(), flags=EngineFlags())
    return {
        "logits": found.logits,
        "member": found.member,
        "budgets": np.array(budgets),
        "seeds": np.array(seeds),
        "seconds": np.array(time.perf_counter() - start),
        **records_of(name),
    }


def kept(folder: Path, *, records: str | None = None) -> Arrays:
    """The scores that ``pcer train --keep-scores`` left in a folder; models of all its budgets."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    rows = {seed: row for row, seed in enumerate(index["seeds"])}
    models = [model for block in index["blocks"] for model in block["models"]]
    budgets = sorted({_budget(model) for model in models})
    member = np.load(folder / index["membership"], allow_pickle=False)
    logits = np.full((len(budgets), *member.shape), np.nan, dtype=np.float32)
    for block in index["blocks"]:
        values = np.load(folder / block["scores"], mmap_mode="r", allow_pickle=False)
        for model, row in zip(block["models"], values, strict=True):
            if model["seed"] in rows:
                logits[budgets.index(_budget(model)), rows[model["seed"]]] = row
    if np.isnan(logits).any():
        raise SystemExit(f"{folder} does not hold every budget for every seed; train it again.")
    return {
        "logits": logits,
        "member": member,
        "budgets": np.array(budgets),
        "seeds": np.array(index["seeds"]),
        **_people(folder, records, member.shape[1]),
    }


def records_of(name: str) -> Arrays:
    """Labels, groups and names of groups of a dataset."""
    from pcer.data import load

    dataset = load(name)
    groups = {f"group_{a.name}": a.codes for a in dataset.attributes}
    names = {f"names_{a.name}": np.array(a.group_names) for a in dataset.attributes}
    return {"labels": dataset.labels, **groups, **names}


def attributes(arrays: Arrays) -> list[str]:
    return [key.removeprefix("group_") for key in arrays if key.startswith("group_")]


def splits_of(arrays: Arrays, rows: slice, kind: str, draw: int) -> np.ndarray:
    """Membership (seed, record) of some seeds: "true", or one that tells nothing of the models.

    "rotated" puts the split of seed s + draw beside the model of seed s. "fresh" draws new splits
    within labels, which no model was trained on.
    """
    member = arrays["member"][rows]
    if kind == "rotated":
        return np.roll(member, -draw, axis=0)
    if kind == "fresh":
        rng = np.random.default_rng([rows.start or 0, draw])
        return np.array([_redrawn(row, arrays["labels"], rng) for row in member])
    return member


def false_draws(n_seeds: int, *, rotations: int, fresh: int) -> dict[str, list[int]]:
    """Which rotations and fresh draws to make of so many seeds."""
    steps = np.linspace(1, n_seeds - 1, rotations).astype(int)
    return {"rotated": np.unique(steps).tolist(), "fresh": list(range(fresh))}


def budget_scores(
    arrays: Arrays, attribute: str, member: np.ndarray, *, budget: int
) -> BudgetScores:
    """What an attack on one budget gets to see."""
    return BudgetScores(
        logits=arrays["logits"][budget],
        labels=arrays["labels"],
        member=member,
        group=arrays[f"group_{attribute}"],
        group_names=tuple(arrays[f"names_{attribute}"].tolist()),
    )


def epsilon_name(budget: float) -> str:
    return "no-DP" if math.isinf(budget) else f"{budget:g}"


def _redrawn(row: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drawn = np.empty_like(row)
    for label in (0, 1):
        drawn[labels == label] = rng.permutation(row[labels == label])
    return drawn


def _budget(model: dict[str, float | None]) -> float:
    return math.inf if model["epsilon"] is None else model["epsilon"]


def _people(folder: Path, records: str | None, n_records: int) -> Arrays:
    if records is None:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        people = records_of(settings["dataset"])
    else:
        with np.load(records) as arrays:
            people = dict(arrays)
    if len(people["labels"]) != n_records:
        raise SystemExit(f"{folder} is about {n_records} records, not those of {records}.")
    return people


def main(verb: str, name: str, last: str) -> None:
    if verb == "train":
        sweep(name, last)
    elif verb == "records":
        np.savez_compressed(last, **records_of(name))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
