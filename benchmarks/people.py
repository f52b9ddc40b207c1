"""Do the intervals of pooled costs hold for people like these? Records drawn anew each time.

    python -m benchmarks.people                          all worlds, 2, 5 and 20 models, 300 draws
    python -m benchmarks.people trees --models 8 --draws 1000 --records 2000 --jobs 2

Every draw takes new records from a population, trains new models on random splits of them and
makes all pooled costs of both groups. The truth is the mean over all draws. Worlds:

    made up   scores of a record's own level, a model's mood and memory; some models remember more
    ridge     least squares on 100 features, of which 10 tell the label; half of the people noisier
    trees     decision trees on records of Adult, groups by sex
    forests   15 trees each, grown to the end

Printed are the shares of 95 % intervals that hold the truth: of each group's cost with the error of
records alone, with the models' luck, and as an audit prints it; of the difference between groups
with the first two, and of R_i c_j - R_j c_i with the error that the audit gives it; and how wide
the printed intervals are beside what would have held 95 % (median over draws). 300 draws tell 95 %
from 92.5 or 97.5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tests.simulate_sweep import splits

from pcer.attacks.groups import BudgetScores, Views, pooled_attacks, single_model_attacks
from pcer.attacks.single import log_odds
from pcer.auditing.measure import MUTUAL

COVERED, MIN_PROBABILITY = 1.96, 0.01
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Row = tuple[float, float, float, float, float, float]
"""Of one group: cost, its error, that of records alone, covariance, benefit, its variance."""


def made_up(rng: np.random.Generator, n: int, n_models: int, luck: float = 0.2) -> Drawn:
    labels, group = (rng.random(n) < 0.4).astype(np.int64), rng.integers(0, 2, n)
    member = splits(labels, n_models, rng)
    level = rng.normal(0.5, 1.5, n) + rng.normal(0, 0.5, (n_models, 2))[:, labels]
    memory = 0.5 * rng.gamma(1.0, size=n) * (1 + group) * member
    memory = memory * np.exp(luck * rng.normal(size=(n_models, 1)))
    return (
        (level + rng.normal(size=member.shape) + memory) * (2 * labels - 1),
        labels,
        member,
        group,
    )


def ridge(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    features, group = rng.normal(size=(n, 100)), rng.integers(0, 2, n)
    noise = (1 + group) * rng.normal(size=n)
    labels = (0.5 * features[:, :10].sum(axis=1) + noise > 0).astype(np.int64)
    member = splits(labels, n_models, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        own, target = features[row], 2.0 * labels[row] - 1
        weights = np.linalg.solve(own.T @ own + 5 * np.eye(100), own.T @ target)
        logits[s] = 3 * features @ weights
    return logits, labels, member, group


def trees(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    from sklearn.tree import DecisionTreeClassifier

    return _fitted(rng, n, n_models, lambda: DecisionTreeClassifier(min_samples_leaf=5))


def forests(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    from sklearn.ensemble import RandomForestClassifier

    return _fitted(rng, n, n_models, lambda: RandomForestClassifier(15))


def _fitted(rng: np.random.Generator, n: int, n_models: int, make: Callable[[], object]) -> Drawn:
    features, labels, group = _adult()
    rows = rng.choice(len(labels), n, replace=False)
    features, labels, group = features[rows], labels[rows], group[rows]
    member = splits(labels, n_models, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        model = make().set_params(random_state=int(rng.integers(2**31)))
        chance = model.fit(features[row], labels[row]).predict_proba(features)[:, 1]
        logits[s] = log_odds(np.clip(chance, MIN_PROBABILITY, 1 - MIN_PROBABILITY))
    return logits, labels, member, group


@cache
def _adult() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from pcer.data import load

    dataset = load("adult")
    return dataset.features, dataset.labels, dataset.attribute("sex").codes


WORLDS = {"made up": made_up, "ridge": ridge, "trees": trees, "forests": forests}


def measure(world: str, n: int, n_models: int, seed: int) -> dict[str, list[Row]]:
    """By cost, what one draw says of both groups."""
    drawn = WORLDS[world](np.random.default_rng([seed, n, n_models]), n, n_models)
    logits, labels, member, group = drawn
    scores = BudgetScores(
        logits=logits, labels=labels, member=member, group=group, group_names=("a", "b")
    )
    views = Views([scores])
    one, two = single_model_attacks(views)[0].pooled, pooled_attacks(views)[0]
    rows: dict[str, list[Row]] = {}
    for k in range(2):
        inside = group == k
        benefit, size = float(one.benefit[inside].mean()), int(inside.sum())
        held_out = float((~member[:, inside]).sum(axis=1).mean())
        spread = 1 / size + (1 / held_out - 1 / size) / n_models
        for cost, found in {**one.groups[k], **two.groups[k]}.items():
            row = found.value, found.standard_error, found.null_error, found.benefit_covariance
            rows.setdefault(cost, []).append((*row, benefit, benefit * (1 - benefit) * spread))
    return rows


def told(rows: np.ndarray) -> dict[str, float]:
    """Coverage of one cost; ``rows`` are (draw, group, what a row holds)."""
    value, error, alone, covariance, benefit, spread = np.moveaxis(rows, -1, 0)
    c, r, v = value.T, benefit.T, error.T**2
    cross = r[0] * c[1] - r[1] * c[0]
    variance = r[0] ** 2 * v[1] + r[1] ** 2 * v[0]
    variance += c[1] ** 2 * spread[:, 0] + c[0] ** 2 * spread[:, 1]
    variance -= 2 * c[1] * r[1] * covariance[:, 0] + 2 * r[0] * c[0] * covariance[:, 1]
    printed = np.maximum(error, math.sqrt(MUTUAL) * alone)
    needed = np.quantile(np.abs(value - value.mean(axis=0)), 0.95, axis=0) / COVERED
    return {
        "a": float(c[0].mean()),
        "b": float(c[1].mean()),
        "records alone": covered(value, alone),
        "with models": covered(value, error),
        "printed": covered(value, printed),
        "width": float(np.median(printed / needed)),
        "difference, records alone": covered(c[0] - c[1], np.hypot(*alone.T)),
        "difference": covered(c[0] - c[1], np.sqrt(v.sum(axis=0))),
        "cross product": covered(cross, np.sqrt(variance)),
    }


def covered(value: np.ndarray, error: np.ndarray) -> float:
    return float((np.abs(value - value.mean(axis=0)) <= COVERED * error).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="*", help=f"of {', '.join(WORLDS)}; default: all")
    parser.add_argument("--models", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    results = {}
    for world in options.worlds or WORLDS:
        for n_models in options.models:
            start, n = time.perf_counter(), options.records
            with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
                several = repeat(world), repeat(n), repeat(n_models), range(options.draws)
                found = list(pool.map(measure, *several, chunksize=4))
            seconds = time.perf_counter() - start
            print(
                f"{world}, {n} records, {n_models} models: {options.draws} draws, {seconds:.0f} s"
            )
            for cost in found[0]:
                one = told(np.array([draw[cost] for draw in found]))
                results[f"{world} {n} {n_models} {cost}"] = one
                told_of = [(k, f"{x:.2f}" if k == "width" else f"{x:.1%}") for k, x in one.items()]
                cells = "  ".join(f"{name} {share}" for name, share in told_of[2:])
                print(f"  {cost:<24}{one['a']:+.3f} {one['b']:+.3f}  {cells}", flush=True)
    out = Path(__file__).parent / "results" / "people.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
