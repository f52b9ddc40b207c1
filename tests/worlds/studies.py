"""Small studies with a known truth: simulated releases of the paper's six configurations."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pcer.release.file import Release, parse_release
from pcer_studies import BUDGETS, CONFIGURATIONS, Configuration, Study
from tests.worlds.releases import World, simulate

SHIPPED = Path(__file__).parents[2] / "studies" / "paper"
ON_DISK = tuple(None if budget == np.inf else budget for budget in BUDGETS)
PER_RUN = ("attack_advantage", "auc_advantage")
POOLED = ("paired_gap", "paired_confidence", "lira_advantage")
ERROR = 0.001


@cache
def shipped_study() -> Study:
    """The study of the repository, which keeps its audits; no test may change it."""
    return Study.read(SHIPPED)


def write_study(
    folder: Path,
    *,
    n_seeds: int = 4,
    configurations: Iterable[Configuration] = CONFIGURATIONS,
) -> Path:
    """Write the releases; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in configurations:
        text = simulated(one, n_seeds=n_seeds).to_json()
        (folder / one.file_name).write_text(text, encoding="utf-8")
    return folder


def study_of(folder: Path, *trees: dict[str, Any]) -> Study:
    """The study of these releases, as plain objects."""
    for tree in trees:
        name = (
            f"{tree['subject']['dataset']}.{tree['subject']['attribute']}.release.json"
        )
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")
    return Study.read(folder)


def tree_of(one: Configuration, *, n_seeds: int = 3) -> dict[str, Any]:
    """A simulated release as plain objects."""
    return dict(json.loads(simulated(one, n_seeds=n_seeds).to_json()))


def tree_of_rates(one: Configuration, *, sizes: bool) -> dict[str, Any]:
    """The same with rates in place of counts: labels are unknown, sizes perhaps."""
    tree = tree_of(one)
    for cell in (cell for run in tree["runs"] for cell in run["groups"].values()):
        for split, counts in (("train", cell["train"]), ("test", cell["test"])):
            n = sum(counts.values())
            rates = {"accuracy": (counts["tp"] + counts["tn"]) / n}
            if split == "test":
                rates["positive_rate"] = (counts["tp"] + counts["fp"]) / n
            cell[split] = rates | ({"n": n} if sizes else {})
    return tree


def simulated(one: Configuration, *, n_seeds: int = 4) -> Release:
    """A release of one configuration; group 1 is memorised, group 0 is not."""
    rng = np.random.default_rng(CONFIGURATIONS.index(one))

    def per_run(group: int) -> dict[str, Any]:
        return {
            "value": float(rng.normal(0.002 + 0.01 * group, 0.003)),
            "standard_error": 0.003,
        }

    def pooled(group: int) -> dict[str, Any]:
        value = float(rng.normal(0.001 + 0.01 * group, 0.001))
        return {
            "value": value,
            "standard_error": 0.001,
            "n_records": 1_500,
            "n_excluded": 0,
        }

    truth, attacks = (
        Truth(gaps=(0, 0.03), n_seeds=n_seeds),
        (*POOLED, "lira_offline_advantage"),
    )
    return _release(one, truth, rng, per_run, pooled, attacks)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is planted; per group."""

    gaps: tuple[float, float] = (0.0, 0.0)
    exposure: tuple[float, float] = (
        0.0,
        0.0,
    )  # what other costs measure, with an error of 0.001
    label_shares: tuple[float, float] = (0.45, 0.25)  # positive rates follow them
    n_seeds: int = 8  # each with a split of its own
    rng: int = 100  # which luck of the splits; a fair test errs for one in twenty


def planted(one: Configuration, truth: Truth) -> Release:
    """A release of one configuration with this truth."""

    def measured(group: int) -> dict[str, Any]:
        return {"value": truth.exposure[group], "standard_error": ERROR}

    rng = np.random.default_rng([truth.rng, CONFIGURATIONS.index(one)])
    return _release(one, truth, rng, measured, measured, POOLED)


def all_planted(
    folder: Path, truth: Truth, configurations: Iterable[Configuration] = CONFIGURATIONS
) -> Study:
    """Every configuration with the same truth."""
    for one in configurations:
        (folder / one.file_name).write_text(
            planted(one, truth).to_json(), encoding="utf-8"
        )
    return Study.read(folder)


def _release(
    one: Configuration,
    truth: Truth,
    rng: np.random.Generator,
    per_run: Callable[[int], dict[str, Any]],
    pooled: Callable[[int], dict[str, Any]],
    attacks: tuple[str, ...],
) -> Release:
    """The simulated counts under the configuration's names, with exposures by group."""
    world = World(
        sizes=(3_000, 1_500),
        label_shares=truth.label_shares,
        right=[(0.85, 0.7)] * 2,
        gaps=truth.gaps,
        n_seeds=truth.n_seeds,
        budgets=ON_DISK,
        outcome=one.outcome,
    )
    tree = json.loads(simulate(world, rng).to_json())
    tree["subject"] |= {
        "dataset": one.dataset,
        "attribute": one.attribute,
        "n_records": 4_500,
    }
    tree["subject"]["groups"] = list(one.groups)
    for run in tree["runs"]:
        run["groups"] = {
            name: {
                **run["groups"][f"g{g}"],
                "exposure": {p: per_run(g) for p in PER_RUN},
            }
            for g, name in enumerate(one.groups)
        }
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": name, "attack": attack, **pooled(g)}
        for epsilon in ON_DISK
        for g, name in enumerate(one.groups)
        for attack in attacks
    ]
    return parse_release(tree, file="simulated")
