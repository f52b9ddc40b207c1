"""How often does a norm prefer a setting where there is nothing to prefer?

    python -m benchmarks.norms null [DRAWS] [SEED]

Each draw has new people and 20 random splits of 70 % for each of two settings. Where
groups are drawn at random, two different learners are equally far from equality, equal
exposure and compensation: 0. Where groups live apart, one learner under two names,
with other splits and seeds, is equally bad for the worst-off group. Printed for every
norm: in how many draws it prefers one of both. Kept in ``benchmarks/rates/norms.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from tests.worlds.releases import written

import pcer
from benchmarks import run_verb, with_numbers
from benchmarks.mirror import (
    APART,
    MODELS,
    MOST_SPLITS,
    People,
    drawn_people,
    drawn_split,
)
from pcer.paper.norms import MEASURES
from pcer.release.file import Release

RATES = Path(__file__).parent / "rates" / "norms.json"
PLAN = pcer.Plan(resamples=20, null_draws=200)
DIFFERENT = (("logistic", "15nn"), ("tree", "logistic"), ("15nn", "tree"))
SAME = (("logistic", "logistic"), ("15nn", "15nn"), ("tree", "tree"))
WORLDS = {"made-up groups": (0.0, DIFFERENT), "one learner": (APART, SAME)}
OF_MAXIMIN = "worst_"


def drawn_release(
    learners: tuple[str, str], people: People, rng: np.random.Generator
) -> Release:
    """Counts of both learners, each on its own splits, as two settings."""
    runs = []
    for name, learner in zip(("first", "second"), learners, strict=True):
        for seed in range(MOST_SPLITS):
            trained = drawn_split(people.labels, rng)
            fitted = MODELS[learner](int(rng.integers(2**31)))
            fitted.fit(people.features[trained], people.labels[trained])
            groups = counted(people, trained, fitted.predict(people.features))
            run = {"model": name, "epsilon": None, "seed": seed, "groups": groups}
            runs.append({**run, "split": f"{name} {seed}"})
    training = {"split_kind": "random", "stratified_by": "label"}
    return written(runs, ("a", "b"), outcome="benefit", training=training)


def counted(
    people: People, trained: np.ndarray, predicted: np.ndarray
) -> dict[str, Any]:
    """Confusion tables by group and part."""
    groups = {}
    for number, name in enumerate(("a", "b")):
        parts = {}
        for part, inside in (("train", trained), ("test", ~trained)):
            rows = inside & (people.group == number)
            says, is_so = predicted[rows] == 1, people.labels[rows] == 1
            cells = {"tp": says & is_so, "fp": says & ~is_so}
            cells |= {"tn": ~says & ~is_so, "fn": ~says & is_so}
            parts[part] = {cell: int(found.sum()) for cell, found in cells.items()}
        groups[name] = parts
    return groups


def preferences(release: Release) -> list[str]:
    """Which norms prefer one of the settings."""
    found = pcer.audit(release, PLAN).norms()
    return [norm.key for norm in found if norm.answer == "prefers"]


def null(n_draws: int = 400, seed: int = 1) -> None:
    """Count preferences where there is nothing to prefer."""
    counts: Counter[str] = Counter()
    for world, (apart, learners) in WORLDS.items():
        rng = np.random.default_rng([seed, *world.encode()])
        chosen = cycle(learners)
        for _ in range(n_draws):
            people = drawn_people(rng, apart=apart)
            found = preferences(drawn_release(next(chosen), people, rng))
            is_maximin = world == "one learner"
            counts.update(
                key for key in found if key.startswith(OF_MAXIMIN) == is_maximin
            )
    kept: dict[str, Any] = {"command": f"null {n_draws} {seed}", "draws": n_draws}
    keys = [measure.key for measure in MEASURES if measure.key != "attack_apart"]
    kept["prefers"] = {key: counts[key] for key in keys}
    for key in keys:
        print(f"{key:15} prefers one in {counts[key]:3} of {n_draws}")
    RATES.parent.mkdir(exist_ok=True)
    RATES.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    run_verb({"null": with_numbers(null)})
