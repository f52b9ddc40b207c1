"""From the scores of a sweep to its releases: counts, privacy spent, provenance."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.data.dataset import GroupedDataset, ProtectedAttribute, Split
from pcer.release import (
    Confusion,
    GroupTables,
    Provenance,
    Release,
    Run,
    Subject,
    Training,
)
from pcer.train import TrainConfig
from pcer.train.accounting import Budget, joint_epsilon

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What every model of a sweep says about every record.

    Attributes:
        budgets: ascending, with the noise used and the epsilon spent.
        seeds: the seeds.
        logits: (budget, seed, record).
        member: (seed, record), whether the record was trained on.
    """

    budgets: tuple[Budget, ...]
    seeds: tuple[int, ...]
    logits: npt.NDArray[np.float32]
    member: BoolArray


class Trained(Protocol):
    """The part of a sweep that its releases tell about."""

    @property
    def dataset(self) -> GroupedDataset:
        """The records."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes."""

    @property
    def config(self) -> TrainConfig:
        """The training settings."""

    @property
    def secret(self) -> bytes:
        """What was mixed into the streams."""


def build_releases(
    sweep: Trained, scores: Scores, splits: Mapping[int, Split]
) -> dict[str, Release]:
    """One release per protected attribute; deterministic for the sweep and the source."""
    training = _training(sweep, scores)
    provenance = _provenance(sweep.dataset)
    return {
        name: _release(sweep, sweep.dataset.attribute(name), scores, splits, training, provenance)
        for name in sweep.attributes
    }


def _release(
    sweep: Trained,
    attribute: ProtectedAttribute,
    scores: Scores,
    splits: Mapping[int, Split],
    training: Training,
    provenance: Provenance,
) -> Release:
    dataset = sweep.dataset
    runs = [
        _run(dataset, attribute, scores, b, s, splits[seed].id, sweep.config)
        for b in range(len(scores.budgets))
        for s, seed in enumerate(scores.seeds)
    ]
    return Release(
        subject=Subject(
            dataset=dataset.name,
            attribute=attribute.name,
            groups=list(attribute.group_names),
            outcome=dataset.outcome,
            positive_label=dataset.positive_label,
            unit_of_privacy="record",
            n_records=dataset.n_records,
            n_missing_group=attribute.n_missing,
            notes=list(dataset.notes),
        ),
        training=training,
        runs=runs,
        provenance=provenance,
    )


def _run(
    dataset: GroupedDataset,
    attribute: ProtectedAttribute,
    scores: Scores,
    b: int,
    s: int,
    split_id: str,
    config: TrainConfig,
) -> Run:
    budget = scores.budgets[b]
    private = not math.isinf(budget.epsilon)
    cells = _count(dataset.labels, attribute, scores.logits[b, s], scores.member[s])
    return Run(
        epsilon=budget.epsilon if private else None,
        epsilon_by_accountant=dict(budget.epsilon_by_accountant) or None,
        dp_delta=config.dp_delta if private else None,
        noise_multiplier=budget.noise_multiplier if private else None,
        seed=scores.seeds[s],
        split=split_id,
        groups={
            name: GroupTables(train=_confusion(cells[1, g]), test=_confusion(cells[0, g]))
            for g, name in enumerate(attribute.group_names)
        },
    )


def _count(
    labels: npt.NDArray[np.int64],
    attribute: ProtectedAttribute,
    logits: npt.NDArray[np.float32],
    member: BoolArray,
) -> npt.NDArray[np.int64]:
    """(member, group, cell) counts; a probability of 1/2 or more predicts positive."""
    n_groups = len(attribute.group_names)
    known = attribute.codes >= 0
    cell = labels * 2 + (logits >= 0)
    index = (member * n_groups + attribute.codes) * 4 + cell
    counts = np.bincount(index[known], minlength=2 * n_groups * 4)
    return counts.reshape(2, n_groups, 4)


def _confusion(cells: npt.NDArray[np.int64]) -> Confusion:
    tn, fp, fn, tp = (int(count) for count in cells)
    return Confusion(tp=tp, fp=fp, tn=tn, fn=fn)


def _training(sweep: Trained, scores: Scores) -> Training:
    private = [budget for budget in scores.budgets if not math.isinf(budget.epsilon)]
    return Training(
        mechanism="dp-sgd" if private else "sgd",
        split_kind="random",
        config=release_config(sweep),
        joint_privacy=_joint_privacy(sweep, scores, private),
    )


def release_config(sweep: Trained) -> dict[str, Any]:
    """The settings as a release states them: with the features, and whether noise is secret."""
    return {
        **sweep.config.to_dict(),
        "features": list(sweep.dataset.feature_names),
        "noise_from_secret": bool(sweep.secret),
    }


def _joint_privacy(sweep: Trained, scores: Scores, private: list[Budget]) -> dict[str, Any]:
    """What releasing every model of the sweep costs a person who is in all training sets."""
    n_train = int(scores.member[0].sum())
    seeds = len(scores.seeds)
    epsilon = joint_epsilon(
        [b.noise_multiplier for b in private for _ in range(seeds)],
        n_train=n_train,
        config=sweep.config,
    )
    return {
        "private_models": len(private) * seeds,
        "models_without_privacy": (len(scores.budgets) - len(private)) * seeds,
        "epsilon_of_the_private_models": epsilon,
        "dp_delta": sweep.config.dp_delta,
        "meaning": (
            "An upper bound (RDP composition) for a record that is in every training set. Models "
            "without privacy, the exact counts in this file, the standardisation and the choice of "
            "settings are outside it."
        ),
    }


def _provenance(dataset: GroupedDataset) -> Provenance:
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return Provenance(
        pcer_version=__version__,
        source_commit=commit,
        source_dirty=None if status is None else bool(status),
        data_digest=f"sha256:{dataset.digest}",
    )


def _git(*arguments: str) -> str | None:
    """What git says of the source tree pcer runs from; None for an installed package."""
    here = Path(__file__).parent
    if "site-packages" in here.parts:
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
