"""Releases of every shape that the format allows, to be put through a whole audit.

Not a picture of the world: shapes are drawn so that every verdict, every cap and every missing
number occurs often. Counts come from random splits in which some groups are remembered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pcer import Plan
from pcer.release.format import Release, parse_release

GROUPS = ("women", "men", "under 30", "over 60", "newcomers", "the rest")
MODELS = ("forest", "linear", "tree")
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, None)
POOLED = ("lira_advantage", "paired_confidence", "paired_gap", "rmia_advantage", "their_attack")
QUICK = {"resamples": 1, "null_draws": 1}

Tree = dict[str, Any]


class Drawn(NamedTuple):
    """Something to audit."""

    release: Release
    plan: Plan


class _Shape(NamedTuple):
    """What all settings of a release share."""

    groups: list[str]
    settings: list[Tree]
    sizes: np.ndarray
    base_rates: np.ndarray
    right: np.ndarray
    n_splits: int
    n_runs: int  # of each split


def any_release(rng: np.random.Generator, *, data_digest: str | None = None) -> Drawn:
    """Draw a release and a plan that it can be audited by."""
    shape = _shape(rng)
    runs = [
        {**run, **setting}
        for setting in shape.settings
        for run in _runs(shape, _memory(shape, rng), rng)
    ]
    tree: Tree = {
        "format": "pcer-release",
        "version": 3,
        "subject": {
            "dataset": "Loans",
            "attribute": str(rng.choice(["sex", "age", "origin"])),
            "groups": shape.groups,
            "outcome": str(rng.choice(["benefit", "harm"])),
            "n_missing_group": int(rng.choice([0, 17])),
        },
        "training": _training(shape, rng),
        "runs": runs,
        "provenance": {"data_digest": data_digest},
    }
    form = _formed(tree, rng)
    _add_costs(tree, shape, rng)
    _add_placebo(tree, shape, rng)
    return Drawn(parse_release(tree, file="any"), _plan(rng, form))


def _shape(rng: np.random.Generator) -> _Shape:
    n_groups = int(rng.choice([2, 2, 2, 2, 3, 3, 6]))
    n_models = int(rng.choice([1, 1, 1, 2, 3]))
    n_budgets = int(rng.choice([1, 1, 1, 2, 2, 6] if n_models == 1 else [1, 1, 2]))
    few, many = [(8, 40), (100, 600), (2_000, 9_000), (20_000, 60_000)][int(rng.integers(4))]
    kept = sorted(rng.choice(len(BUDGETS), n_budgets, replace=False).tolist())
    named = n_models > 1 or not rng.random() < 0.7
    models = list(MODELS[:n_models]) if named else [None]
    return _Shape(
        groups=list(GROUPS[:n_groups]),
        settings=[{"model": m, "epsilon": BUDGETS[k]} for m in models for k in kept],
        sizes=rng.integers(few, many, n_groups),
        base_rates=rng.uniform(0.1, 0.6, n_groups),
        right=rng.choice([0.6, 0.8, 0.95, 1.0], n_groups, p=[0.35, 0.35, 0.2, 0.1]),
        n_splits=int(rng.choice([1, 2, 3, 5])),
        n_runs=int(rng.choice([1, 1, 1, 2])),
    )


def _memory(shape: _Shape, rng: np.random.Generator) -> np.ndarray:
    """(group,) share of the wrong records that training makes right."""
    most = float(rng.choice([0.0, 0.02, 0.3, 1.0]))
    return most * rng.choice([0.0, 0.2, 1.0], len(shape.groups))


def _runs(shape: _Shape, memory: np.ndarray, rng: np.random.Generator) -> list[Tree]:
    seeds = np.random.default_rng(shape.sizes.tolist())  # settings share their splits
    runs: list[Tree] = []
    for split in range(shape.n_splits):
        members = [_trained(*one, seeds) for one in zip(shape.sizes, shape.base_rates, strict=True)]
        for _ in range(shape.n_runs):
            each = zip(shape.groups, members, shape.right, memory, strict=True)
            tables = {name: _tables(*one, rng) for name, *one in each}
            runs.append({"seed": len(runs), "split": f"split {split}", "groups": tables})
    return runs


def _trained(size: int, base_rate: float, rng: np.random.Generator) -> list[tuple[int, int]]:
    """(trained on, held out) of each label, at least one of each."""
    positive = int(np.clip(round(size * base_rate), 2, size - 2))
    labels = (int(size) - positive, positive)
    drawn = [int(np.clip(rng.binomial(n, 0.7), 1, n - 1)) for n in labels]
    return [(trained, n - trained) for trained, n in zip(drawn, labels, strict=True)]


def _tables(
    members: list[tuple[int, int]], right: float, memory: float, rng: np.random.Generator
) -> Tree:
    cells: Tree = {"train": {}, "test": {}}
    for (hit, miss), sizes in zip((("tn", "fp"), ("tp", "fn")), members, strict=True):
        for part, n in zip(cells, sizes, strict=True):
            correct = int(rng.binomial(n, right))
            if part == "train":
                correct += int(rng.binomial(n - correct, memory))
            cells[part] |= {hit: correct, miss: n - correct}
    return cells


def _training(shape: _Shape, rng: np.random.Generator) -> Tree:
    """True and false words about the splits."""
    said: Tree = {"split_kind": [*["random"] * 8, "other", None][int(rng.integers(10))]}
    if rng.random() < 0.15:
        shrink = rng.uniform(0.3, 1.0, len(shape.groups))
        units = dict(zip(shape.groups, (shape.sizes * shrink).tolist(), strict=True))
        said |= {"unit_of_split": "person", "effective_units": units}
    if rng.random() < 0.1:
        said["stratified_by"] = str(rng.choice(["both", "group"]))  # which it was not
    return said


def _formed(tree: Tree, rng: np.random.Generator) -> str:
    """Turn the counts into what a release shows of them."""
    form = str(rng.choice(["counts", "rates", "no sizes", "some coarse", "no benefit"],
                          p=[0.6, 0.16, 0.08, 0.08, 0.08]))  # fmt: skip
    for run in tree["runs"]:
        for name, tables in run["groups"].items():
            if form == "some coarse" and name != tree["subject"]["groups"][0]:
                continue
            if form != "counts":
                run["groups"][name] = {part: _rates(tables[part], part, form) for part in tables}
    return form


def _rates(cells: Tree, part: str, form: str) -> Tree:
    n = sum(cells.values())
    if form == "some coarse":
        return {"n": n}
    shown: Tree = {"accuracy": (cells["tp"] + cells["tn"]) / n, "n": n}
    if form == "no sizes":
        del shown["n"]
    if part == "test" and form != "no benefit":
        shown["positive_rate"] = (cells["tp"] + cells["fp"]) / n
    return shown


def _add_costs(tree: Tree, shape: _Shape, rng: np.random.Generator) -> None:
    """Attacks on every model, and over all of them; some without an error or for some only."""
    if rng.random() < 0.3:
        for run in tree["runs"]:
            for g, tables in enumerate(run["groups"].values()):
                value = float(rng.normal(0.03 * g, 0.01))
                tables["exposure"] = {"auc_advantage": {"value": value, "standard_error": 0.01}}
    tree["pooled_exposure"] = []
    if rng.random() < 0.6:
        return
    for proxy in POOLED[: int(rng.integers(1, len(POOLED) + 1))]:
        error = None if rng.random() < 0.1 else float(rng.choice([0.002, 0.02]))
        base = rng.choice([0.0, 0.01, 0.1], len(shape.groups))
        kept = shape.settings[: None if rng.random() < 0.8 else 1]
        tree["pooled_exposure"] += [
            {
                **setting,
                "group": name,
                "proxy": proxy,
                "value": float(rng.normal(base[g], error or 0.02)),
                "standard_error": error,
                "benefit_covariance": 0.0 if rng.random() < 0.5 else None,
                "null_error": 0.01 if rng.random() < 0.5 else None,
                "separation": 0.5 if rng.random() < 0.5 else None,
            }
            for setting in kept
            for g, name in enumerate(shape.groups)
        ]


def _add_placebo(tree: Tree, shape: _Shape, rng: np.random.Generator) -> None:
    """Coin flips that say nothing against an alarm, or much."""
    tree["placebo"] = []
    if rng.random() < 0.5:
        return
    speaks = bool(rng.random() < 0.5)
    costs = {row["proxy"] for row in tree["pooled_exposure"]} | {"overfitting_gap"}
    pairs = [[a, b] for k, a in enumerate(shape.groups) for b in shape.groups[k + 1 :]]
    tree["placebo"] += [
        {
            **setting,
            "proxy": proxy,
            "groups": pair,
            "n_draws": 200,
            "n_shown": 40 if speaks and rng.random() < 0.5 else 9,
            "n_double": 40 if speaks and rng.random() < 0.5 else 2,
            "p_value": 0.3 if speaks and rng.random() < 0.3 else 0.001,
            "n_permutations": 9_999,
            "exposure_p_value": 0.3 if speaks and rng.random() < 0.3 else 0.001,
            "exposure_p_value_within_labels": 0.3 if rng.random() < 0.5 else 0.001,
            "n_exposure": 40 if speaks and rng.random() < 0.3 else 9,
        }
        for setting in shape.settings
        for proxy in sorted(costs)
        for pair in pairs
    ]


def _plan(rng: np.random.Generator, form: str) -> Plan:
    benefits = ["positive_rate", "true_positive_rate", "precision"]
    return Plan(
        **QUICK,
        floor=float(rng.choice([0.001, 0.001, 0.05])),
        margin=[None, None, 0.02, 0.2][int(rng.integers(4))],
        benefit=benefits[int(rng.choice([0, 0, 1, 2]))] if form == "counts" else benefits[0],
        cost=str(rng.choice(["sharpest", "sharpest", "overfitting_gap"])),
    )
