"""Honest releases of ten splits, and lies told about them, each of a stated size.

The honest release has two groups of 1,500 to 6,000 records, a private setting and one
without privacy, an attack with its errors, and a promise that its own noise keeps. A
lie changes one thing.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pcer import About, Disclosure, Release, release_from_estimator
from pcer.measuring.checks import check_release
from tests.worlds.releases import World, simulate

N_SPLITS = 10
EPSILON = 2.54
PARTS = ("train", "test")
LABELS = {0: ("tn", "fp"), 1: ("tp", "fn")}
"""Right and wrong cell of each label."""

Tree = dict[str, Any]
Lie = Callable[[Tree, np.random.Generator], object]


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
    tree["subject"] |= {"n_records": sum(sizes), "n_missing_group": 0}
    said = {"mechanism": "dp-sgd", "config": {"accountant": "pld", "sample_rate": 0.01}}
    tree["training"] |= {"stratified_by": strata, **said}
    spent = {"pld": 2.5317, "rdp": 2.9}
    _promise(tree, noise_multiplier=1.0, dp_delta=1e-5, epsilon_by_accountant=spent)
    # As uneven as people can be: memory of one is certain, of others none.
    value = {"attack": "paired_gap", "value": 0.05}
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": f"g{g}", **value}
        | {"standard_error": math.sqrt(0.05 * 0.95 / n), "n_records": n}
        for epsilon in (EPSILON, None)
        for g, n in enumerate(sizes)
    ]
    absent = ("rmia_advantage", "lira_advantage", "paired_confidence")
    tree["not_computed"] = dict.fromkeys(absent, "no scores were kept")
    return tree


def _cells(tree: Tree) -> Iterator[tuple[int, Tree, int, str, str]]:
    """Of every run, group and label: the group, its tables, the label, its right and wrong cell."""
    for run in tree["runs"]:
        for g, tables in enumerate(run["groups"].values()):
            for label, (hit, miss) in LABELS.items():
                yield g, tables, label, hit, miss


def _cut_alike(tree: Tree, world: World, rng: np.random.Generator) -> None:
    """Tables of splits that put the same share of every group and label into training."""
    for g, tables, label, hit, miss in _cells(tree):
        total = sum(tables[part][cell] for part in PARTS for cell in (hit, miss))
        n_train = round(0.7 * total)
        for part, n, gain in (
            ("train", n_train, world.gaps[g]),
            ("test", total - n_train, 0.0),
        ):
            right = int(rng.binomial(n, world.right[g][label] + gain))
            tables[part] |= {hit: right, miss: n - right}


def _of_seed(tree: Tree, seed: int) -> list[Tree]:
    """Runs of one split: the format refuses two that differ in their labels."""
    return [run for run in tree["runs"] if run["seed"] == seed]


def _promise(tree: Tree, **fields: object) -> None:
    """Every run that has an epsilon says something else of it."""
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run |= fields


def _count(tree: Tree, factor: float) -> None:
    tree["subject"]["n_records"] = round(factor * tree["subject"]["n_records"])


def _copied(
    tree: Tree, source: Callable[[Tree], tuple[float | None, int]], **fields: str
) -> None:
    """Every run has the tables of another: of the epsilon and the seed that ``source`` names."""
    groups = {
        (run["epsilon"], run["seed"]): run["groups"]
        for run in copy.deepcopy(tree["runs"])
    }
    for run in tree["runs"]:
        run |= {"groups": copy.deepcopy(groups[source(run)]), **fields}


def _totals_change(tree: Tree, rng: np.random.Generator) -> None:
    """In one split 1 % of a group's negative test records count as positive."""
    runs = _of_seed(tree, int(rng.integers(N_SPLITS)))
    moved = sum(runs[0]["groups"]["g0"]["test"].values()) // 100
    for table in (run["groups"]["g0"]["test"] for run in runs):
        table["tn"], table["fn"] = table["tn"] - moved, table["fn"] + moved


def _table_under_two_splits(tree: Tree, rng: np.random.Generator) -> None:
    """The tables of one split stand under a second one."""
    first, second = rng.choice(N_SPLITS, 2, replace=False).tolist()
    _copied(
        tree,
        lambda run: (run["epsilon"], first if run["seed"] == second else run["seed"]),
    )


def _parts_exchanged(tree: Tree, rng: np.random.Generator) -> None:
    """Who was right in training stands under test: costs of 3 and 6 points become -3 and -6."""
    for _, tables, _, hit, miss in _cells(tree):
        n = {part: tables[part][hit] + tables[part][miss] for part in PARTS}
        rate = {part: tables[part][hit] / max(1, n[part]) for part in PARTS}
        for part, other in (PARTS, PARTS[::-1]):
            right = round(n[part] * rate[other])
            tables[part] |= {hit: right, miss: n[part] - right}


def _runs_dropped(tree: Tree, rng: np.random.Generator) -> None:
    """Two of ten seeds are missing everywhere."""
    gone = set(rng.choice(np.arange(1, N_SPLITS - 1), 2, replace=False).tolist())
    tree["runs"] = [run for run in tree["runs"] if run["seed"] not in gone]


def _last_runs_dropped(tree: Tree, _: np.random.Generator) -> None:
    """The last three runs without privacy are missing."""
    last = [(None, seed) for seed in range(N_SPLITS - 3, N_SPLITS)]
    tree["runs"] = [
        run for run in tree["runs"] if (run["epsilon"], run["seed"]) not in last
    ]


def _renamed(tree: Tree, epsilon: float) -> None:
    """The private models promise another epsilon."""
    for row in (*tree["runs"], *tree["pooled_exposure"]):
        if row["epsilon"] is not None:
            row |= {"epsilon": epsilon}
            row.pop("epsilon_by_accountant", None)


def _attacked(tree: Tree, **values: float) -> None:
    """Every setting and group has these attacks, each with an error of a hundredth."""
    kept = [row for row in tree["pooled_exposure"] if row["attack"] not in values]
    tree["pooled_exposure"] = kept + [
        {**row, "attack": name, "value": value, "standard_error": 0.01}
        for row in tree["pooled_exposure"]
        for name, value in values.items()
    ]


def _by_household(tree: Tree, _: np.random.Generator) -> None:
    """Splits of so many households that nothing varies too much, and a promise about records."""
    units = dict.fromkeys(tree["subject"]["groups"], 1_400.0)
    tree["training"] |= {"unit_of_split": "household", "effective_units": units}


def _one_split(tree: Tree, _: np.random.Generator) -> None:
    """The attack on one model finds more than its promise allows."""
    tree["runs"] = [run for run in tree["runs"] if run["seed"] == 0]
    _renamed(tree, 0.01)


SPENT = {"pld": 1.05 * EPSILON, "rdp": 2.9}
CUT_ALIKE = "the same, cut alike"
LIES: dict[str, tuple[Lie, str]] = {
    "totals change between runs": (_totals_change, "totals"),
    "more records than tables": (lambda tree, _: _count(tree, 1.05), "totals"),
    "fewer records than tables": (lambda tree, _: _count(tree, 1 / 1.05), "totals"),
    "a table under two splits": (_table_under_two_splits, "same_tables"),
    CUT_ALIKE: (_table_under_two_splits, "same_tables"),
    "one model under all seeds": (
        lambda tree, _: _copied(tree, lambda run: (run["epsilon"], 0), split="only"),
        "same_tables",
    ),
    "a setting copied": (
        lambda tree, _: _copied(tree, lambda run: (EPSILON, run["seed"])),
        "same_tables",
    ),
    "parts exchanged": (_parts_exchanged, "below_zero"),
    "runs dropped": (_runs_dropped, "missing_runs"),
    "last runs dropped": (_last_runs_dropped, "missing_runs"),
    "epsilon with noise 0": (
        lambda tree, _: _promise(tree, noise_multiplier=0.0),
        "epsilon",
    ),
    "next to no noise": (
        lambda tree, _: _promise(tree, noise_multiplier=1e-9),
        "epsilon",
    ),
    "an epsilon of other units": (_by_household, "epsilon"),
    "one split that exceeds its epsilon": (_one_split, "attacks"),
    "more spent than promised": (
        lambda tree, _: _promise(tree, epsilon_by_accountant=dict(SPENT)),
        "epsilon",
    ),
    "delta above 1/n": (lambda tree, _: _promise(tree, dp_delta=1e-3), "epsilon"),
    "a delta of almost 1": (lambda tree, _: _promise(tree, dp_delta=0.999), "epsilon"),
    "an epsilon that attacks exceed": (lambda tree, _: _renamed(tree, 0.01), "attacks"),
    "an attack below a coin": (
        lambda tree, _: _attacked(tree, paired_gap=-0.05),
        "attacks",
    ),
    "LiRA below the plain attack": (
        lambda tree, _: _attacked(tree, auc_advantage=0.2, lira_advantage=0.01),
        "attacks",
    ),
    "epsilon without a mechanism": (
        lambda tree, _: tree["training"].update(mechanism="none"),
        "epsilon",
    ),
}
"""By name: the lie, and the check that finds it."""


def told(name: str, rng: np.random.Generator) -> Tree:
    """An honest release with one lie in it."""
    tree = honest(rng, strata="both" if name == CUT_ALIKE else "label")
    LIES[name][0](tree, rng)
    return tree


# Edits of a release that breaks the documented policy

FOREST = Path(__file__).parents[2] / "examples" / "compas-forest.release.json"
ROWS = ("pooled_exposure", "placebo", "bounds")
ATTACKS = (
    *("attack_advantage", "auc_advantage", "lira_advantage", "lira_offline_advantage"),
    *("paired_confidence", "paired_gap"),
)
P_VALUES = ("p_value", "exposure_p_value", "p_value_within_labels")
Edit = tuple[str, str, tuple[str, ...], float | None]
"""A part of the file, a kind of its rows or all, fields or the rows, and a factor; None deletes."""
EDITS: list[Edit] = [
    *(
        ("pooled_exposure", attack, fields, factor)
        for attack in ATTACKS
        for fields, factor in (
            *((("value",), factor) for factor in (0.01, -1, -100)),
            *(
                (("standard_error", "null_error"), factor)
                for factor in (0.01, 100, None)
            ),
            *((("n_records",), factor) for factor in (0.01, None)),
            ((), None),
        )
    ),
    *(
        ("exposure", attack, ("value",), factor)
        for attack in ATTACKS[:2]
        for factor in (0.01, -1)
    ),
    ("placebo", "", P_VALUES, 1000),
    ("placebo", "", ("n_ratio", "n_double", "n_exposure"), 100),
    *((part, "", (), None) for part in ("placebo", "bounds")),
    *(
        ("bounds", "", ("mean", "nominal", "allowed_advantage"), factor)
        for factor in (0.01, -1)
    ),
    *(
        (part, "", ("tp", "tn", "fp", "fn"), factor)
        for part in PARTS
        for factor in (0.1, 10)
    ),
    *(("subject", "", ("n_records",), factor) for factor in (0.01, 100, None)),
    *(
        ("runs", "", ("noise_multiplier", "dp_delta"), factor)
        for factor in (0.0, 100, None)
    ),
]
"""Numbers of every attack, made-up group, bound, size and promise; scaled, negated, deleted."""


def sold(tree: Tree, epsilon: float, **fields: object) -> Tree:
    """The release of one setting, as of models that were trained with this epsilon."""
    for row in (row for part in ("runs", *ROWS) for row in tree.get(part, [])):
        row["epsilon"] = epsilon
    tree["training"]["mechanism"] = "dp-forest"
    _promise(tree, **fields)
    return tree


def red() -> Tree:
    """A forest that remembers, with made-up groups, sold with receipts for an epsilon of 12.

    Without RMIA, so that the required attack, LiRA, is one of those that decide.
    """
    tree = json.loads(FOREST.read_text())
    for part in ROWS[:2]:
        tree[part] = [row for row in tree[part] if row["attack"] != "rmia_advantage"]
    for tables in (tables for run in tree["runs"] for tables in run["groups"].values()):
        del tables["exposure"]["rmia_advantage"]
    tree["not_computed"] = {"rmia_advantage": "it was not asked for"}
    receipt = {"kind": "receipt", "mode": "held", "accountant": "rdp", "mean": 3.0}
    receipt |= {
        "standard_error": 0.01,
        "n_records": 3000,
        "nominal": 12,
        "allowed_advantage": 0.4,
    }
    tree["bounds"] = [receipt | {"group": name} for name in tree["subject"]["groups"]]
    return sold(tree, 12.0, noise_multiplier=0.5, dp_delta=1e-5)


def edited(*chosen: Edit) -> Tree:
    """The red release after some edits: numbers changed everywhere, a 0 counting as 1."""
    tree = red()
    tables = [tables for run in tree["runs"] for tables in run["groups"].values()]
    for part, kind, fields, factor in chosen:
        if not fields:
            tree[part] = [row for row in tree[part] if kind and row["attack"] != kind]
        rows = tree["runs"] if part == "runs" else [tree["subject"]]
        if part in ROWS:
            rows = [row for row in tree[part] if kind in ("", row.get("attack"))]
        elif part in (*PARTS, "exposure"):
            rows = [own[part][kind] if kind else own[part] for own in tables]
        for row, field in (
            (row, field) for row in rows for field in fields if field in row
        ):
            number = (
                None if factor is None else type(row[field])((row[field] or 1) * factor)
            )
            row[field] = min(number, 0.9) if field in P_VALUES else number
            if number is None:
                del row[field]
    return tree


# Honest releases of a few splits of small models

MODELS = (
    LogisticRegression(),
    DecisionTreeClassifier(max_depth=6, random_state=0),
    KNeighborsClassifier(15),
)


def fitted_release(
    model: ClassifierMixin,
    *data: np.ndarray,
    group: np.ndarray,
    n_splits: int,
    draw: int,
) -> Release:
    """A release of one model of people of two groups, a and b."""
    return release_from_estimator(
        model,
        *data,
        sensitive_features=np.array(["a", "b"])[group],
        outcome="benefit",
        positive_label=1,
        n_splits=n_splits,
        random_state=draw,
        progress=False,
        n_jobs=1,
        about=About(dataset="drawn", attribute="group"),
        disclosure=Disclosure(public_data=True),
    )


def honest_release(n_splits: int, draw: int) -> Release:
    """A release of one of the models, fitted on 200 to 800 people of two groups."""
    rng = np.random.default_rng([24, n_splits, draw])
    people = int(rng.integers(200, 800))
    x, group = rng.normal(size=(people, 4)), rng.integers(0, 2, people)
    y = (x[:, 0] + 0.5 * group + rng.normal(size=people) > 0).astype(int)
    return fitted_release(
        MODELS[draw % 3], x, y, group=group, n_splits=n_splits, draw=draw
    )


def n_accused(n_splits: int, draws: int) -> int:
    """How many of so many honest releases some check accuses."""
    return sum(
        bool(check_release(honest_release(n_splits, draw))) for draw in range(draws)
    )
