"""Honest releases of ten splits, and lies told about them, each of a stated size.

The honest release has two groups of 1,500 to 6,000 records, a private setting and one without
privacy, attacks with their errors, and a promise that its own noise keeps. A lie changes one thing.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.worlds.releases import World, simulate

N_SPLITS = 10
EPSILON, NOISE, DELTA = 2.54, 1.0, 1e-5
LABELS = {0: ("tn", "fp"), 1: ("tp", "fn")}
"""Right and wrong cell of each label."""

Tree = dict[str, Any]
Lie = Callable[[Tree, np.random.Generator], None]


def honest(rng: np.random.Generator, *, strata: str = "label") -> Tree:
    """A true release as plain objects: balanced by label, or by both (then cut alike each time)."""
    sizes = [int(n) for n in rng.integers(1_500, 6_000, 2)]
    world = World(
        sizes=sizes,
        label_shares=rng.uniform(0.25, 0.6, 2).tolist(),
        right=[(float(rng.uniform(0.7, 0.9)), float(rng.uniform(0.6, 0.85)))] * 2,
        gaps=(0.03, 0.06),
        n_seeds=N_SPLITS,
        budgets=(EPSILON, None),
    )
    tree = json.loads(simulate(world, rng).to_json())
    if strata == "both":
        _cut_alike(tree, world, rng)
    tree["version"] = 2
    tree["subject"] |= {"n_records": sum(sizes), "n_missing_group": 0}
    tree["training"] |= {
        "mechanism": "dp-sgd",
        "stratified_by": strata,
        "config": {"accountant": "pld"},
    }
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run |= {"noise_multiplier": NOISE, "dp_delta": DELTA}
            run["epsilon_by_accountant"] = {"pld": 2.5317, "rdp": 2.9}
        for tables in run["groups"].values():
            tables["exposure"] = {"auc_advantage": _auc(tables, 0.05, rng)}
    tree["pooled_exposure"] = [
        _paired(epsilon, f"g{g}", n, 0.05)
        for epsilon in (EPSILON, None)
        for g, n in enumerate(sizes)
    ]
    return tree


def _cut_alike(tree: Tree, world: World, rng: np.random.Generator) -> None:
    """Tables of splits that put the same share of every group and label into training."""
    for run in tree["runs"]:
        for g, tables in enumerate(run["groups"].values()):
            for label, (hit, miss) in LABELS.items():
                total = sum(tables[part][cell] for part in tables for cell in (hit, miss))
                n_train = round(0.7 * total)
                for part, n in (("train", n_train), ("test", total - n_train)):
                    gain = world.gaps[g] if part == "train" else 0.0
                    right = int(rng.binomial(n, world.right[g][label] + gain))
                    tables[part] |= {hit: right, miss: n - right}


def _auc(tables: Tree, value: float, rng: np.random.Generator) -> Tree:
    n, m = (sum(tables[part].values()) for part in ("train", "test"))
    error = math.sqrt((n + m + 1) / (12 * n * m))
    return {
        "value": float(rng.normal(value, error)),
        "standard_error": error * float(rng.uniform(0.9, 1.1)),
        "n_members": n,
        "n_nonmembers": m,
    }


def _paired(epsilon: float | None, group: str, n: int, value: float) -> Tree:
    """As uneven as people can be: memory of one is certain, of others none."""
    error = math.sqrt(value * (1 - value) / n)
    row = {"epsilon": epsilon, "group": group, "proxy": "paired_gap", "value": value}
    return row | {"standard_error": error, "n_records": n}


def _of_seed(tree: Tree, seed: int) -> list[Tree]:
    """Runs of one split: the format refuses two that differ in their labels."""
    return [run for run in tree["runs"] if run["seed"] == seed]


def totals_change(tree: Tree, rng: np.random.Generator) -> None:
    """In one split 1 % of a group's negative test records count as positive."""
    runs = _of_seed(tree, int(rng.integers(N_SPLITS)))
    moved = sum(runs[0]["groups"]["g0"]["test"].values()) // 100
    for table in (run["groups"]["g0"]["test"] for run in runs):
        table["tn"], table["fn"] = table["tn"] - moved, table["fn"] + moved


def more_records_than_tables(tree: Tree, rng: np.random.Generator) -> None:
    """5 % of the records are in no table."""
    tree["subject"]["n_records"] = round(tree["subject"]["n_records"] * 1.05)


def fewer_records_than_tables(tree: Tree, rng: np.random.Generator) -> None:
    """The tables hold 5 % more records than there are."""
    tree["subject"]["n_records"] = round(tree["subject"]["n_records"] / 1.05)


def table_under_two_splits(tree: Tree, rng: np.random.Generator) -> None:
    """The tables of one split stand under a second one."""
    first, second = rng.choice(N_SPLITS, 2, replace=False)
    for one, other in zip(_of_seed(tree, first), _of_seed(tree, second), strict=True):
        other["groups"] = copy.deepcopy(one["groups"])


def model_under_all_seeds(tree: Tree, rng: np.random.Generator) -> None:
    """One split, one model of each setting, ten seeds."""
    first = {run["epsilon"]: run for run in _of_seed(tree, 0)}
    for run in tree["runs"]:
        run["split"] = "only"
        run["groups"] = copy.deepcopy(first[run["epsilon"]]["groups"])


def setting_copied(tree: Tree, rng: np.random.Generator) -> None:
    """What the private models gave stands under "no privacy"."""
    private = {run["seed"]: run for run in tree["runs"] if run["epsilon"] is not None}
    for run in tree["runs"]:
        run["groups"] = copy.deepcopy(private[run["seed"]]["groups"])


def parts_exchanged(tree: Tree, rng: np.random.Generator) -> None:
    """Who was right in training stands under test: costs of 3 and 6 points become -3 and -6."""
    for run in tree["runs"]:
        for tables in run["groups"].values():
            for hit, miss in LABELS.values():
                rate = {
                    part: tables[part][hit] / max(1, tables[part][hit] + tables[part][miss])
                    for part in ("train", "test")
                }
                for part, other in (("train", "test"), ("test", "train")):
                    n = tables[part][hit] + tables[part][miss]
                    right = round(n * rate[other])
                    tables[part] |= {hit: right, miss: n - right}


def runs_dropped(tree: Tree, rng: np.random.Generator) -> None:
    """Two of ten seeds are missing everywhere."""
    gone = set(rng.choice(np.arange(1, N_SPLITS - 1), 2, replace=False).tolist())
    tree["runs"] = [run for run in tree["runs"] if run["seed"] not in gone]


def last_runs_dropped(tree: Tree, rng: np.random.Generator) -> None:
    """The last three runs without privacy are missing."""
    tree["runs"] = [
        run for run in tree["runs"] if run["epsilon"] is not None or run["seed"] < N_SPLITS - 3
    ]


def noise_of_nothing(tree: Tree, rng: np.random.Generator) -> None:
    """An epsilon with noise 0."""
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run["noise_multiplier"] = 0.0


def more_is_spent(tree: Tree, rng: np.random.Generator) -> None:
    """The accountant that the config names says 5 % more than the promise."""
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run["epsilon_by_accountant"]["pld"] = 1.05 * EPSILON


def delta_too_large(tree: Tree, rng: np.random.Generator) -> None:
    """A delta of one in a thousand, for thousands of people."""
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run["dp_delta"] = 1e-3


def no_mechanism(tree: Tree, rng: np.random.Generator) -> None:
    """An epsilon without a mechanism."""
    tree["training"]["mechanism"] = "none"


LIES: dict[str, tuple[Lie, str, str]] = {
    "totals change between runs": (totals_change, "totals", "label"),
    "more records than tables": (more_records_than_tables, "totals", "label"),
    "fewer records than tables": (fewer_records_than_tables, "totals", "label"),
    "a table under two splits": (table_under_two_splits, "same_tables", "label"),
    "the same, cut alike": (table_under_two_splits, "same_tables", "both"),
    "one model under all seeds": (model_under_all_seeds, "same_tables", "label"),
    "a setting copied": (setting_copied, "same_tables", "label"),
    "parts exchanged": (parts_exchanged, "below_zero", "label"),
    "runs dropped": (runs_dropped, "missing_runs", "label"),
    "last runs dropped": (last_runs_dropped, "missing_runs", "label"),
    "epsilon with noise 0": (noise_of_nothing, "epsilon", "label"),
    "more spent than promised": (more_is_spent, "epsilon", "label"),
    "delta above 1/n": (delta_too_large, "epsilon", "label"),
    "epsilon without a mechanism": (no_mechanism, "epsilon", "label"),
}
"""By name: the lie, the check that finds it, and what the honest splits were balanced on."""


def told(name: str, rng: np.random.Generator) -> Tree:
    """An honest release with one lie in it."""
    lie, _, strata = LIES[name]
    tree = honest(rng, strata=strata)
    lie(tree, rng)
    return tree
