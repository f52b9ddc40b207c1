"""A small study with a known truth: simulated releases of the paper's six configurations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pcer.files import canonical_json
from pcer.release.format import Release, parse_release
from pcer_studies import Study
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, Configuration
from tests.simulate import World, simulate

PROXIES = ("paired_gap", "paired_confidence", "lira_advantage", "lira_offline_advantage")
ON_DISK = tuple(None if budget == np.inf else budget for budget in BUDGETS)

SHIPPED = Path(__file__).parents[1] / "studies" / "paper"


@cache
def shipped_study() -> Study:
    """The study of the repository, which keeps its audits; no test may change it."""
    return Study.read(SHIPPED)


def write_study(
    folder: Path,
    *,
    n_seeds: int = 4,
    configurations: Iterable[Configuration] = CONFIGURATIONS,
    settings: dict[str, Any] | None = None,
) -> Path:
    """Write the releases, and ``study.json`` where settings are given; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in configurations:
        text = simulated(one, n_seeds=n_seeds).to_json()
        (folder / one.file_name).write_text(text, encoding="utf-8")
    if settings is not None:
        (folder / "study.json").write_text(canonical_json(settings), encoding="utf-8")
    return folder


def simulated(one: Configuration, *, n_seeds: int = 4, gaps: tuple[float, float] = (0, 0.03)):
    """A release of one configuration; group 1 is memorised, group 0 is not."""
    rng = np.random.default_rng(CONFIGURATIONS.index(one))
    world = World(
        sizes=(3_000, 1_500),
        label_shares=[0.45, 0.25],
        right=[(0.85, 0.7)] * 2,
        gaps=gaps,
        n_seeds=n_seeds,
        budgets=ON_DISK,
        outcome=one.outcome,
    )
    tree = json.loads(simulate(world, rng).to_json())
    tree["subject"] |= {"dataset": one.dataset, "attribute": one.attribute, "n_records": 4_500}
    tree["subject"]["groups"] = list(one.groups)
    for run in tree["runs"]:
        cells = [run["groups"][f"g{g}"] for g in range(2)]
        run["groups"] = {
            name: {**cell, "exposure": _exposure(g, rng)}
            for g, (name, cell) in enumerate(zip(one.groups, cells, strict=True))
        }
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": name, "proxy": proxy, **_pooled(g, rng)}
        for epsilon in ON_DISK
        for g, name in enumerate(one.groups)
        for proxy in PROXIES
    ]
    return _parsed(tree)


def _exposure(g: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        proxy: {"value": float(rng.normal(0.002 + 0.01 * g, 0.003)), "standard_error": 0.003}
        for proxy in ("attack_advantage", "auc_advantage")
    }


def _pooled(g: int, rng: np.random.Generator) -> dict[str, Any]:
    return {
        "value": float(rng.normal(0.001 + 0.01 * g, 0.001)),
        "standard_error": 0.001,
        "n_records": 1_500,
        "n_excluded": 0,
    }


def _parsed(tree: dict[str, Any]) -> Release:
    return parse_release(tree, file="simulated")
