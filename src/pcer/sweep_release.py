"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.data.dataset import GroupedDataset, ProtectedAttribute, Split
from pcer.empirical_epsilon import alarm_notes, weigh
from pcer.exposure import (
    BudgetScores,
    epsilon_bounds,
    pooled_exposures,
    pooled_notes,
    run_exposures,
)
from pcer.lira import LEAST_MODELS
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
    attacked = [_budget_scores(dataset, attribute, scores, b) for b in range(len(scores.budgets))]
    runs = [
        _run(scores, b, s, splits[seed].id, sweep.config, groups)
        for b, one in enumerate(attacked)
        for s, (seed, groups) in enumerate(zip(scores.seeds, _tables(one), strict=True))
    ]
    pooled = [
        row
        for budget, one in zip(scores.budgets, attacked, strict=True)
        for row in pooled_exposures(one, epsilon=budget.epsilon)
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
            notes=[*dataset.notes, *_attack_notes(sweep, scores, attacked)],
        ),
        training=training,
        runs=runs,
        pooled_exposure=pooled,
        provenance=provenance,
    )


def _budget_scores(
    dataset: GroupedDataset, attribute: ProtectedAttribute, scores: Scores, b: int
) -> BudgetScores:
    return BudgetScores(
        logits=scores.logits[b],
        labels=dataset.labels,
        member=scores.member,
        group=attribute.codes,
        group_names=attribute.group_names,
    )


def _attack_notes(sweep: Trained, scores: Scores, attacked: list[BudgetScores]) -> list[str]:
    """What was not run, and the alarm where an attack did better than the budget allows."""
    if len(scores.seeds) < LEAST_MODELS:
        return pooled_notes(len(scores.seeds))
    bounds = [
        bound
        for budget, one in zip(scores.budgets, attacked, strict=True)
        for bound in epsilon_bounds(one, epsilon=budget.epsilon, dp_delta=sweep.config.dp_delta)
    ]
    return alarm_notes(weigh(bounds))


def _run(
    scores: Scores,
    b: int,
    s: int,
    split_id: str,
    config: TrainConfig,
    groups: dict[str, GroupTables],
) -> Run:
    budget = scores.budgets[b]
    private = not math.isinf(budget.epsilon)
    return Run(
        epsilon=budget.epsilon if private else None,
        epsilon_by_accountant=dict(budget.epsilon_by_accountant) or None,
        dp_delta=config.dp_delta if private else None,
        noise_multiplier=budget.noise_multiplier if private else None,
        seed=scores.seeds[s],
        split=split_id,
        groups=groups,
    )


def _tables(scores: BudgetScores) -> Iterator[dict[str, GroupTables]]:
    """For every seed, counts and exposures by group."""
    for s, exposure in enumerate(run_exposures(scores)):
        cells = _count(scores, s)
        yield {
            name: GroupTables(
                train=_confusion(cells[1, g]),
                test=_confusion(cells[0, g]),
                exposure=exposure[name],
            )
            for g, name in enumerate(scores.group_names)
        }


def _count(scores: BudgetScores, s: int) -> npt.NDArray[np.int64]:
    """(member, group, cell) counts; a probability of 1/2 or more predicts positive."""
    n_groups = len(scores.group_names)
    known = scores.group >= 0
    cell = scores.labels * 2 + (scores.logits[s] >= 0)
    index = (scores.member[s] * n_groups + scores.group) * 4 + cell
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
    commit, dirty = source_state()
    return Provenance(
        pcer_version=__version__,
        source_commit=commit,
        source_dirty=dirty,
        data_digest=f"sha256:{dataset.digest}",
    )


def source_state() -> tuple[str | None, bool | None]:
    """Commit of the source tree pcer runs from, and whether the package was changed since."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no", "--", ".") if commit else None
    return commit, None if status is None else bool(status)


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
