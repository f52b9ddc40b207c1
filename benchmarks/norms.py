"""How often does a norm prefer a setting where there is nothing to prefer?

    python -m benchmarks.norms null [DRAWS] [SEED]
    python -m benchmarks.norms attacks [DRAWS] [SEED]

Each draw of ``null`` has new people and 20 random splits of 70 % for each of two
settings. Where groups are drawn at random, two different learners are equally far from
equality, equal exposure by the gap, and compensation: 0. Where groups live apart, one
learner under two names, with other splits and seeds, is equally bad for the worst-off
group. ``attacks`` counts the norms of exposure by the attack whose numbers people see:
groups drawn at random, two learners for equal exposure, one learner under two names for
the worst-off group. Printed for every norm: in how many draws it prefers one of both.
Kept in ``benchmarks/rates/norms.json``.
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
BY_ATTACK = ("attack_apart", "worst_exposure")


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


def attacked_release(learners: tuple[str, str], people: People, seed: int) -> Release:
    """Both learners on the same splits, with every attack."""
    named = zip(("first", "second"), learners, strict=True)
    return pcer.release_from_estimator(
        {name: MODELS[learner](seed) for name, learner in named},
        people.features,
        people.labels,
        sensitive_features={"group": np.array(["a", "b"])[people.group]},
        outcome="benefit",
        n_splits=MOST_SPLITS,
        random_state=seed,
        progress=False,
        about=pcer.About(dataset="made-up people"),
        disclosure=pcer.Disclosure(public_data=True),
    )


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
    keys = [measure.key for measure in MEASURES if measure.key != "attack_apart"]
    keep("null", {key: counts[key] for key in keys}, n_draws, seed)


def attacks(n_draws: int = 400, seed: int = 1) -> None:
    """Count preferences by an attack where there is nothing to prefer."""
    counts: Counter[str] = Counter()
    for key, learners in zip(BY_ATTACK, (DIFFERENT, SAME), strict=True):
        rng = np.random.default_rng([seed, *key.encode()])
        chosen = cycle(learners)
        for _ in range(n_draws):
            people = drawn_people(rng, apart=0.0)
            release = attacked_release(next(chosen), people, int(rng.integers(2**31)))
            counts[key] += key in preferences(release)
    keep("attacks", {key: counts[key] for key in BY_ATTACK}, n_draws, seed)


def keep(verb: str, prefers: dict[str, int], n_draws: int, seed: int) -> None:
    """Print one verb's counts and write them beside the other's."""
    for key, count in prefers.items():
        print(f"{key:15} prefers one in {count:3} of {n_draws}")
    kept = json.loads(RATES.read_text()) if RATES.exists() else {}
    command = f"{verb} {n_draws} {seed}"
    kept[verb] = {"command": command, "draws": n_draws, "prefers": prefers}
    RATES.parent.mkdir(exist_ok=True)
    RATES.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    run_verb({"null": with_numbers(null), "attacks": with_numbers(attacks)})
