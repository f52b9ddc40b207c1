"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pcer._version import __version__
from pcer.attacks import (
    LEAST_MODELS,
    BudgetScores,
    EpsilonBound,
    alarm_notes,
    epsilon_bounds_of,
    pooled_exposures_of,
    pooled_notes,
    run_exposures_of,
    weigh,
)
from pcer.data import GroupedDataset, ProtectedAttribute, Split
from pcer.release import (
    Confusion,
    Exposure,
    GroupTables,
    PooledExposure,
    Provenance,
    Release,
    Run,
    Subject,
    Training,
)
from pcer.train import Budget, Predictions, TrainConfig, joint_epsilon

BoolArray = npt.NDArray[np.bool_]

Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""What to call, and with what."""


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


class Attacked(NamedTuple):
    """What the models of one budget give one attribute's release."""

    tables: list[dict[str, GroupTables]]
    """By seed: counts and exposures by group."""
    pooled: list[PooledExposure]
    bounds: list[EpsilonBound]


def build_releases(
    sweep: Trained,
    scores: Predictions,
    splits: Mapping[int, Split],
    *,
    notes: Sequence[str] = (),
    n_processes: int = 1,
) -> dict[str, Release]:
    """One release per protected attribute; deterministic for the sweep and the source.

    Args:
        sweep: what was trained.
        scores: what the models say.
        splits: who was trained on, by seed.
        notes: for the reader, beside the dataset's own.
        n_processes: how many attacks run at the same time; the result is the same bytes.
    """
    origin = _training(sweep, scores), _provenance(sweep.dataset)
    attacked = attack_models(sweep, scores, n_processes=n_processes)
    return {
        name: _release(sweep, sweep.dataset.attribute(name), scores, splits, origin, budgets, notes)
        for name, budgets in zip(sweep.attributes, attacked, strict=True)
    }


def _release(
    sweep: Trained,
    attribute: ProtectedAttribute,
    scores: Predictions,
    splits: Mapping[int, Split],
    origin: tuple[Training, Provenance],
    attacked: Sequence[Attacked],
    notes: Sequence[str],
) -> Release:
    dataset = sweep.dataset
    runs = [
        _run(scores, b, s, splits[seed].id, sweep.config, groups)
        for b, one in enumerate(attacked)
        for s, (seed, groups) in enumerate(zip(scores.seeds, one.tables, strict=True))
    ]
    alarms = alarm_notes(weigh([bound for one in attacked for bound in one.bounds]))
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
            notes=[*dataset.notes, *notes, *pooled_notes(len(scores.seeds)), *alarms],
        ),
        training=origin[0],
        runs=runs,
        pooled_exposure=[row for one in attacked for row in one.pooled],
        provenance=origin[1],
    )


def attack_models(
    sweep: Trained, scores: Predictions, *, n_processes: int = 1
) -> list[list[Attacked]]:
    """For every attribute and budget what the attacks found.

    Args:
        sweep: what was trained.
        scores: what the models say.
        n_processes: how many attacks run at the same time.
    """
    views = [_views(sweep, scores, b) for b in range(len(scores.budgets))]
    budgets = [(one, budget.epsilon) for one, budget in zip(views, scores.budgets, strict=True)]
    delta = sweep.config.dp_delta
    bounded = len(scores.seeds) >= LEAST_MODELS
    tasks: list[Task] = [
        *((_pooled, (one, epsilon)) for one, epsilon in budgets),  # the longest first
        *((_tables, (one,)) for one in views),
        *((_bounds, (one, epsilon, delta)) for one, epsilon in budgets if bounded),
    ]
    found = _run_all(tasks, n_processes)
    pooled, tables, bounds = (
        found[k : k + len(views)] for k in range(0, 3 * len(views), len(views))
    )
    bounds = bounds or [[[] for _ in one] for one in views]
    parts = [[*map(Attacked, *of_budget)] for of_budget in zip(tables, pooled, bounds, strict=True)]
    return [list(attribute) for attribute in zip(*parts, strict=True)]


def _run_all(tasks: Sequence[Task], n_processes: int) -> list[Any]:
    """The results, in order. Processes, since small arrays keep threads waiting for the lock."""
    if n_processes == 1:
        return [function(*arguments) for function, arguments in tasks]
    from joblib import Parallel, delayed

    pool = Parallel(n_processes, max_nbytes=None, batch_size=1)
    found: list[Any] = pool(delayed(function)(*arguments) for function, arguments in tasks)
    return found


def _views(sweep: Trained, scores: Predictions, b: int) -> list[BudgetScores]:
    """The models of a budget beside every attribute; all share the same arrays."""
    logits = scores.logits[b]
    return [
        BudgetScores(
            logits=logits,
            labels=sweep.dataset.labels,
            member=scores.member,
            group=attribute.codes,
            group_names=attribute.group_names,
        )
        for attribute in map(sweep.dataset.attribute, sweep.attributes)
    ]


def _pooled(views: Sequence[BudgetScores], epsilon: float) -> list[list[PooledExposure]]:
    return pooled_exposures_of(views, epsilon=epsilon)


def _bounds(
    views: Sequence[BudgetScores], epsilon: float, dp_delta: float
) -> list[list[EpsilonBound]]:
    return epsilon_bounds_of(views, epsilon=epsilon, dp_delta=dp_delta)


def _run(
    scores: Predictions,
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


def _tables(views: Sequence[BudgetScores]) -> list[list[dict[str, GroupTables]]]:
    """For every attribute and seed, counts and exposures by group."""
    found = run_exposures_of(views)
    return [
        [_tables_of(one.group_names, *both) for both in zip(_counts(one), models, strict=True)]
        for one, models in zip(views, found, strict=True)
    ]


def _tables_of(
    names: tuple[str, ...],
    cells: npt.NDArray[np.int64],
    exposure: dict[str, dict[str, Exposure]],
) -> dict[str, GroupTables]:
    return {
        name: GroupTables(
            train=_confusion(*counts[1]), test=_confusion(*counts[0]), exposure=exposure[name]
        )
        for name, counts in zip(names, cells.tolist(), strict=True)
    }


def _counts(scores: BudgetScores) -> npt.NDArray[np.int64]:
    """(seed, group, member, cell) counts; a probability of 1/2 or more predicts positive."""
    n_seeds, n_groups = len(scores.member), len(scores.group_names)
    chosen = {
        (g, label): (scores.group == g) & (scores.labels == label)
        for g in range(n_groups)
        for label in (0, 1)
    }
    cells = np.empty((n_seeds, n_groups, 2, 2, 2), dtype=np.int64)
    for s, (logits, member) in enumerate(zip(scores.logits, scores.member, strict=True)):
        predicted = logits >= 0
        for (g, label), mask in chosen.items():
            cells[s, g, :, label] = _two_by_two(member, predicted, mask)
    return cells.reshape(n_seeds, n_groups, 2, 4)


def _two_by_two(member: BoolArray, predicted: BoolArray, mask: BoolArray) -> list[list[int]]:
    """Counts by membership and prediction among the masked records."""
    inside, positive = member & mask, predicted & mask
    both, n_inside, n_positive, n = (
        int(np.count_nonzero(part)) for part in (inside & positive, inside, positive, mask)
    )
    return [[n - n_inside - n_positive + both, n_positive - both], [n_inside - both, both]]


def _confusion(tn: int, fp: int, fn: int, tp: int) -> Confusion:
    return Confusion(tp=tp, fp=fp, tn=tn, fn=fn)


def _training(sweep: Trained, scores: Predictions) -> Training:
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


def _joint_privacy(sweep: Trained, scores: Predictions, private: list[Budget]) -> dict[str, Any]:
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
    here = Path(__file__).parents[1]
    if "site-packages" in here.parts:
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
