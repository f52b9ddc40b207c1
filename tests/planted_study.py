"""Studies with a known truth: how much each group is remembered, and by which costs it shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pcer.release.format import Release, parse_release
from pcer_studies import BUDGETS, CONFIGURATIONS, Configuration, Study
from tests.simulate import World, simulate

ERROR = 0.001
PER_RUN = ("attack_advantage", "auc_advantage")
POOLED = ("paired_gap", "paired_confidence", "lira_advantage")
ON_DISK = tuple(None if budget == np.inf else budget for budget in BUDGETS)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is planted; per group.

    Attributes:
        gaps: memorised overfitting gaps.
        exposure: what every other cost measures, exactly, with a standard error of 0.001.
        label_shares: positive labels; positive rates follow them.
        n_seeds: seeds, each with a split of its own.
        rng: which luck of the splits; a fair test errs for one in twenty.
    """

    gaps: tuple[float, float] = (0.0, 0.0)
    exposure: tuple[float, float] = (0.0, 0.0)
    label_shares: tuple[float, float] = (0.45, 0.25)
    n_seeds: int = 8
    rng: int = 100


def planted(one: Configuration, truth: Truth) -> Release:
    """A release of one configuration with this truth."""
    world = World(
        sizes=(3_000, 1_500),
        label_shares=truth.label_shares,
        right=[(0.85, 0.7)] * 2,
        gaps=truth.gaps,
        n_seeds=truth.n_seeds,
        budgets=ON_DISK,
        outcome=one.outcome,
    )
    rng = np.random.default_rng([truth.rng, CONFIGURATIONS.index(one)])
    tree = json.loads(simulate(world, rng).to_json())
    tree["subject"] |= {"dataset": one.dataset, "attribute": one.attribute, "n_records": 4_500}
    tree["subject"]["groups"] = list(one.groups)
    for run in tree["runs"]:
        run["groups"] = {
            name: {**run["groups"][f"g{g}"], "exposure": _exposure(truth.exposure[g])}
            for g, name in enumerate(one.groups)
        }
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": name, "proxy": proxy, **_measured(truth.exposure[g])}
        for epsilon in ON_DISK
        for g, name in enumerate(one.groups)
        for proxy in POOLED
    ]
    return parse_release(tree, file="planted")


def planted_study(folder: Path, releases: Mapping[Configuration, Release]) -> Study:
    """The study that holds these releases."""
    for one, release in releases.items():
        (folder / one.file_name).write_text(release.to_json(), encoding="utf-8")
    return Study.read(folder)


def all_planted(
    folder: Path, truth: Truth, configurations: Iterable[Configuration] = CONFIGURATIONS
) -> Study:
    """Every configuration with the same truth."""
    return planted_study(folder, {one: planted(one, truth) for one in configurations})


def _exposure(value: float) -> dict[str, Any]:
    return {proxy: _measured(value) for proxy in PER_RUN}


def _measured(value: float) -> dict[str, float]:
    return {"value": value, "standard_error": ERROR}
