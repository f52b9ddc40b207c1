"""Do intervals of exposures hold for forests, and what does it cost other models?

    python -m benchmarks.forests cells [DRAWS] [SEED] [JOBS]
    python -m benchmarks.forests power [DRAWS] [SEED] [JOBS]

A forest remembers a person the better, the more its neighbours disagree, so that every
training record moves the exposure of others. ``cells`` draws new people in three worlds
(groups apart in every column; groups of unlike noise that live somewhat apart, with
other base rates; mixed groups), trains 20 models on random 70 % of them, and counts how
often intervals hold the mean of the other draws: of single exposures, their upper
bounds, and the difference. ``power`` counts in the planted worlds whom audits name.

Both judge every draw twice: as an audit does, and in brackets without ``reliability``,
as a release without that field. Kept in ``benchmarks/rates/forests.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.worlds.fleets import Fleet, exact_panel, fleet, scores_of

from benchmarks import run_verb, with_numbers
from benchmarks.worlds import planted
from pcer.measuring.choose_attacks import deciding_attacks
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import compare_pairs
from pcer.measuring.plan import Plan
from pcer.release.panel import Panel

RATES = Path(__file__).parent / "rates" / "forests.json"
N_PEOPLE, N_MODELS, SHARE = 800, 20, 0.7
ATTACKS = ("rmia_advantage", "paired_confidence")
TWO_SIDED, ONE_SIDED = 1.959964, 1.644854  # quantiles of intervals and bounds of 95 %
COLUMNS = np.array([1, 0, 1, 0, 1])  # those in which unlike groups live apart

MODELS: dict[str, Callable[[int], Any]] = {
    "forest of 20": lambda seed: RandomForestClassifier(20, random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(20, random_state=seed),
    "15nn": lambda seed: KNeighborsClassifier(15),
    "tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "logistic": lambda seed: LogisticRegression(),
    "boosting": lambda seed: HistGradientBoostingClassifier(
        max_iter=30, random_state=seed
    ),
    "mlp": lambda seed: MLPClassifier(
        (32,), max_iter=60, learning_rate_init=0.01, random_state=seed
    ),
    "forest of 100": lambda seed: RandomForestClassifier(100, random_state=seed),
}
WORLDS = ("apart", "double", "mixed")


class Judged(NamedTuple):
    """One draw by one attack; arrays over the group."""

    value: np.ndarray
    error: np.ndarray  # of the interval of one group
    bound: np.ndarray  # upper
    difference_error: float


def drawn_people(
    world: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and groups."""
    group = np.arange(N_PEOPLE) % 2
    features = rng.normal(size=(N_PEOPLE, 5))
    if world == "double":
        features = features + 1.5 * group[:, None] * COLUMNS
    score = 2 * (features[:, 1] + features[:, 2] * features[:, 3])
    score -= 1.5 * group * (world == "double")
    labels = (rng.random(N_PEOPLE) < 1 / (1 + np.exp(-score))).astype(np.int64)
    if world == "apart":
        return features + 4 * group[:, None], labels, group
    flipped = {"double": 0.15, "mixed": 0.1}[world]
    is_wrong = (group == 1) & (rng.random(N_PEOPLE) < flipped)
    return features, np.where(is_wrong, 1 - labels, labels), group


def drawn_fleet(world: str, model: str, seed: int, draw: int) -> Fleet:
    """New people, and models of random splits of them."""
    rng = np.random.default_rng([seed, draw, *world.encode()])
    features, labels, group = drawn_people(world, rng)
    member = np.zeros((N_MODELS, N_PEOPLE), dtype=bool)
    probability = np.empty(member.shape)
    for s, inside in enumerate(member):
        inside[rng.permutation(N_PEOPLE)[: round(SHARE * N_PEOPLE)]] = True
        fitted = MODELS[model](int(rng.integers(2**31)))
        fitted.fit(features[inside], labels[inside])
        probability[s] = fitted.predict_proba(features)[:, 1]
    return Fleet(probability, member, labels, group)


def without_reliability(panel: Panel) -> Panel:
    """The same release without that field."""
    older = {
        attack: replace(one, reliability=0.0) for attack, one in panel.pooled.items()
    }
    return replace(panel, pooled=older)


def judged(panel: Panel) -> list[Judged]:
    """What an audit makes of each attack."""
    found = []
    for attack in ATTACKS:
        one = measure_panel(panel, Plan(), attack)
        assert one.exposed is not None
        exposed = one.exposed
        compared = compare_pairs(one, ((0, 1),)).exposure
        found.append(
            Judged(
                value=exposed.value,
                error=np.sqrt(exposed.interval_variance),
                bound=exposed.limit(z=ONE_SIDED),
                difference_error=float(compared.error[0]),
            )
        )
    return found


def both_ways(
    world: str, model: str, seed: int, draw: int
) -> tuple[list[Judged], list[Judged]]:
    """One draw, with and without what ``reliability`` adds."""
    made = drawn_fleet(world, model, seed, draw)
    panel = exact_panel(scores_of(made), made.group[None])
    return judged(panel), judged(without_reliability(panel))


def counted(draws: list[Judged]) -> dict[str, float | int]:
    """How many intervals hold the mean of the other draws, and how wide they are."""
    value = np.array([one.value for one in draws])
    error = np.array([one.error for one in draws])
    bound = np.array([one.bound for one in draws])
    n = len(draws)
    truth = (value.sum(axis=0) - value) / (n - 1)
    difference = value[:, 1] - value[:, 0] - (truth[:, 1] - truth[:, 0])
    of_difference = np.array([one.difference_error for one in draws])
    return {
        "exposures": int((np.abs(value - truth) <= TWO_SIDED * error).sum()),
        "bounds": int((truth <= bound).sum()),
        "differences": int((np.abs(difference) <= TWO_SIDED * of_difference).sum()),
        "width": round(float(error.mean()), 5),
    }


def in_parallel(task: Callable[[int], Any], n_draws: int, n_jobs: int) -> list[Any]:
    """The draws of one cell, in order."""
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(task, range(n_draws)))


def keep(part: str, found: dict[str, Any]) -> None:
    """Write one verb's counts beside those of the other."""
    kept = json.loads(RATES.read_text()) if RATES.exists() else {}
    RATES.parent.mkdir(exist_ok=True)
    RATES.write_text(json.dumps({**kept, part: found}, indent=1) + "\n")


def cells(n_draws: int = 200, seed: int = 1, n_jobs: int = 2) -> None:
    """Count intervals that hold, by world, model and attack."""
    found: dict[str, Any] = {"command": f"cells {n_draws} {seed}", "draws": n_draws}
    print(f"{n_draws} draws; without reliability in brackets")
    for world in WORLDS:
        for model in MODELS:
            draws = in_parallel(partial(both_ways, world, model, seed), n_draws, n_jobs)
            for k, attack in enumerate(ATTACKS):
                now, before = (
                    counted([one[way][k] for one in draws]) for way in (0, 1)
                )
                found[f"{world}, {model}, {attack}"] = {"now": now, "before": before}
                told = [f"{key} {now[key]} ({before[key]})" for key in now]
                print(f"{world:7}{model:14}{attack:18}" + "  ".join(told), flush=True)
    keep("cells", found)


def named(world: str, seed: int, draw: int) -> tuple[bool, bool]:
    """Whether an audit names the exposed group, with and without ``reliability``."""
    chosen = planted.WORLDS[world]
    rng = np.random.default_rng([seed, draw, *world.encode()])
    drawn = chosen.draw(rng)
    made = fleet(planted.MODELS[chosen.model], drawn, planted.N_SPLITS, rng)
    panel = exact_panel(scores_of(made), drawn.group[None])
    answers = []
    for one in (panel, without_reliability(panel)):
        attacks = deciding_attacks([one], Plan())
        evidence = planted.evidence_of(one, attacks, outcome=chosen.outcome)
        is_right = evidence.more_exposed[0, 0] == chosen.more_exposed
        answers.append(bool(evidence.exposures_differ[0, 0] and is_right))
    return answers[0], answers[1]


def power(n_draws: int = 200, seed: int = 1, n_jobs: int = 2) -> None:
    """Count audits that name the more exposed group, by planted world."""
    found: dict[str, Any] = {"command": f"power {n_draws} {seed}", "draws": n_draws}
    for world, chosen in planted.WORLDS.items():
        if chosen.more_exposed is None:
            continue
        draws = in_parallel(partial(named, world, seed), n_draws, n_jobs)
        now, before = (sum(one[way] for one in draws) for way in (0, 1))
        found[world] = {"now": now, "before": before}
        print(f"{world:52}{now:4} ({before})", flush=True)
    keep("power", found)


if __name__ == "__main__":
    run_verb({"cells": with_numbers(cells), "power": with_numbers(power)})
