"""Releases of every shape that the format allows, to be put through a whole audit.

Not a picture of the world: shapes are drawn so that every verdict, every cap and every missing
number occurs often. Counts come from random splits in which some groups are remembered.
"""

from __future__ import annotations

import json
from itertools import combinations, product
from typing import Any

import numpy as np

from pcer import Plan
from pcer.release.format import Release, parse_release
from tests.pages import renamed
from tests.worlds.releases import World, simulate

GROUPS = ("women", "men", "under 30", "over 60", "newcomers", "the rest")
MODELS = ("forest", "linear", "tree")
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, None)
POOLED = ("lira_advantage", "paired_confidence", "paired_gap", "rmia_advantage", "their_attack")
SOMETIMES = {"benefit_covariance": 0.0, "null_error": 0.01, "separation": 0.5}

Tree = dict[str, Any]


def any_release(
    rng: np.random.Generator, *, data_digest: str | None = None
) -> tuple[Release, Plan]:
    """Draw a release and a plan that it can be audited by."""
    names = list(GROUPS[: int(rng.choice([2, 2, 2, 2, 3, 3, 6]))])
    few, many = [(30, 80), (100, 600), (2_000, 9_000), (20_000, 60_000)][int(rng.integers(4))]
    sizes = rng.integers(few, many, len(names)).tolist()
    n_models = int(rng.choice([1, 1, 1, 2, 3]))
    models = MODELS[:n_models] if n_models > 1 or rng.random() < 0.3 else (None,)
    n_budgets = int(rng.choice([1, 1, 1, 2, 2, 6] if n_models == 1 else [1, 1, 2]))
    kept = sorted(rng.choice(len(BUDGETS), n_budgets, replace=False).tolist())
    shape = {"sizes": sizes, "budgets": [BUDGETS[k] for k in kept]}
    shape |= {
        "n_seeds": int(rng.choice([1, 2, 3, 5])),
        "reseed": _same if rng.random() < 0.1 else None,
    }
    tree, runs = Tree(), list[Tree]()
    for model in models:
        tree = json.loads(renamed(_simulated(shape, rng), names).to_json())
        runs += [run | {"model": model, "split": f"{model} {run['split']}"} for run in tree["runs"]]
    tree |= {"version": 3, "runs": runs, "provenance": {"data_digest": data_digest}}
    tree["subject"] |= {
        "attribute": str(rng.choice(["sex", "age", "origin"])),
        "outcome": str(rng.choice(["benefit", "harm"])),
        "n_missing_group": int(rng.choice([0, 17])),
    }
    tree["training"] = _training(dict(zip(names, sizes, strict=True)), rng)
    form = _formed(tree, rng)
    settings = [{"model": m, "epsilon": epsilon} for m in models for epsilon in shape["budgets"]]
    _add_costs(tree, settings, rng)
    _add_placebo(tree, settings, rng)
    return parse_release(tree, file="any"), _plan(rng, form)


def _same(world: World, trained: np.ndarray, right: np.ndarray, rng: Any) -> np.ndarray:
    """What another seed of one split gets right: the same, but for whom it remembers."""
    return right


def _simulated(shape: Tree, rng: np.random.Generator) -> Tree:
    """One model, right about some and remembering some; settings share their splits."""
    n = len(shape["sizes"])
    right = rng.choice([0.6, 0.8, 0.95, 1.0], n, p=[0.35, 0.35, 0.2, 0.1])
    remembered = float(rng.choice([0.0, 0.02, 0.3, 1.0])) * rng.choice([0.0, 0.2, 1.0], n)
    world = World(
        **shape,
        label_shares=rng.uniform(0.1, 0.6, n),
        right=[(r, r) for r in right.tolist()],
        gaps=((1 - right) * remembered).tolist(),
    )
    found: Tree = json.loads(simulate(world, rng).to_json())
    return found


def _training(sizes: dict[str, int], rng: np.random.Generator) -> Tree:
    """True and false words about the splits."""
    said: Tree = {"split_kind": [*["random"] * 8, "other", None][int(rng.integers(10))]}
    if rng.random() < 0.15:
        units = {name: size * float(rng.uniform(0.3, 1.0)) for name, size in sizes.items()}
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
    rates: Tree = {"n": n, "accuracy": (cells["tp"] + cells["tn"]) / n}
    if part == "test" and form != "no benefit":
        rates["positive_rate"] = (cells["tp"] + cells["fp"]) / n
    left = {"some coarse": {"n"}, "no sizes": rates.keys() - {"n"}}
    return {name: rates[name] for name in left.get(form, rates)}


def _add_costs(tree: Tree, settings: list[Tree], rng: np.random.Generator) -> None:
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
        base = rng.choice([0.0, 0.01, 0.1], len(GROUPS))
        kept = settings[: None if rng.random() < 0.8 else 1]
        for setting, (g, name) in product(kept, enumerate(tree["subject"]["groups"])):
            row = {"group": name, "proxy": proxy, "standard_error": error}
            row["value"] = float(rng.normal(base[g], error or 0.02))
            row |= {key: value if rng.random() < 0.5 else None for key, value in SOMETIMES.items()}
            tree["pooled_exposure"].append(setting | row)


def _add_placebo(tree: Tree, settings: list[Tree], rng: np.random.Generator) -> None:
    """Coin flips that say nothing against an alarm, or much."""
    tree["placebo"] = []
    if rng.random() < 0.5:
        return
    speaks = bool(rng.random() < 0.5)

    def either(often: Any, otherwise: Any, chance: float, *, always: bool = False) -> Any:
        return often if (speaks or always) and rng.random() < chance else otherwise

    costs = {row["proxy"] for row in tree["pooled_exposure"]} | {"overfitting_gap"}
    pairs = [[*pair] for pair in combinations(tree["subject"]["groups"], 2)]
    tree["placebo"] += [
        {
            **setting,
            "proxy": proxy,
            "groups": pair,
            "n_draws": 200,
            **{"n_shown": either(40, 9, 0.5), "n_double": either(40, 2, 0.5)},
            **{"n_exposure": either(40, 9, 0.3), "n_permutations": 9_999},
            **{"p_value": either(0.3, 0.001, 0.3), "exposure_p_value": either(0.3, 0.001, 0.3)},
            "exposure_p_value_within_labels": either(0.3, 0.001, 0.5, always=True),
        }
        for setting in settings
        for proxy in sorted(costs)
        for pair in pairs
    ]


def _plan(rng: np.random.Generator, form: str) -> Plan:
    benefits = ["positive_rate", "true_positive_rate", "precision"]
    return Plan(
        resamples=1,
        null_draws=1,
        floor=float(rng.choice([0.001, 0.001, 0.05])),
        margin=[None, None, 0.02, 0.2][int(rng.integers(4))],
        benefit=benefits[int(rng.choice([0, 0, 1, 2]))] if form == "counts" else benefits[0],
        cost=str(rng.choice(["sharpest", "sharpest", "overfitting_gap"])),
    )
