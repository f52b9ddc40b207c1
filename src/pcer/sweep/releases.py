"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pcer.attacks import (
    CHECKING,
    BudgetScores,
    CheckedCoins,
    CoinDraws,
    ExposedSetting,
    PooledAttacks,
    RunAttacks,
    check_with_coins,
    coin_panel,
    draw_coins,
    pooled_attacks_of,
    pooled_notes,
    run_attacks_of,
    weaker_notes,
)
from pcer.data.dataset import ProtectedAttribute, Split
from pcer.metrics import BoolArray, IntArray
from pcer.release.build import (
    CELLS,
    Counted,
    CountedRun,
    ReleaseFacts,
    RunKey,
    build_release,
    source_state,
)
from pcer.release.columns import SPLITS
from pcer.release.disclosure import allowed_groups
from pcer.release.format import Bound, Exposure, PooledExposure, Release
from pcer.release.panel import Panel
from pcer.store.processes import Task, run_tasks
from pcer.sweep.receipts import EXACT_NOTE, group_bounds
from pcer.sweep.sweep import Sweep
from pcer.train import Budget, Predictions
from pcer.train.accounting import joint_epsilon
from pcer.train.config import Adjacency

ADJACENCY_NOTES = {
    Adjacency.ZERO_OUT: (
        "Every epsilon compares training with a record to training with a gradient of zero in its "
        "place; the number of training records counts as public."
    ),
    Adjacency.ADD_OR_REMOVE: (
        "Every epsilon compares training with a record to training without it; sample rate, steps "
        "and divisor were fixed without looking at the number of training records."
    ),
}
"""What the budgets of a release mean, for every report."""

ModelTable = tuple[IntArray, dict[str, dict[str, Exposure]]]
"""Of one model: counts (split, group, cell), and what attacks found by group and proxy."""


class Attacked(NamedTuple):
    """What the models of one budget give one attribute's release."""

    tables: list[ModelTable]
    """By seed."""
    pooled: list[PooledExposure]
    setting: ExposedSetting
    """Who is behind them, which never leaves the trainer."""


def build_releases(
    sweep: Sweep,
    scores: Predictions,
    splits: Mapping[int, Split],
    *,
    notes: Sequence[str] = (),
    n_processes: int = 1,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute; deterministic for the sweep and the source.

    Args:
        sweep: what was trained.
        scores: what the models say.
        splits: who was trained on, by seed.
        notes: for the reader, beside the dataset's own.
        n_processes: how many attacks run at the same time; the result is the same bytes.
        on_step: called with what is done next, after the attacks.
    """
    facts = _facts(sweep, scores, notes)
    allowed = [_allowed(facts, sweep, name, scores) for name in sweep.attributes]
    attributes = [attribute for attribute, _ in allowed]
    views = [_views(sweep, attributes, scores, b) for b in range(len(scores.budgets))]
    draws = [draw_coins(of_attribute) for of_attribute in zip(*views, strict=True)]
    attacked = attack_models(sweep, scores, views, draws=draws, n_processes=n_processes)
    on_step(CHECKING)
    flips = _check(facts, attacked, draws, n_processes=n_processes)
    labels = sweep.dataset.labels
    bounds = [group_bounds(scores, sweep.config, one, labels) for one in attributes]
    told = [
        _Beside(a[1], rows, coins) for a, rows, coins in zip(allowed, bounds, flips, strict=True)
    ]
    return {
        attribute.name: _release(facts, attribute, scores, splits, budgets, beside)
        for attribute, budgets, beside in zip(attributes, attacked, told, strict=True)
    }


class _Beside(NamedTuple):
    """What stands beside the attacks in one attribute's release."""

    note: str
    bounds: list[Bound]
    coins: CheckedCoins


def _check(
    facts: ReleaseFacts,
    attacked: Sequence[Sequence[Attacked]],
    draws: Sequence[CoinDraws],
    *,
    n_processes: int,
) -> list[CheckedCoins]:
    """For every attribute, coin flips through the audit."""

    def run(tasks: Sequence[Task]) -> Iterator[Any]:
        return run_tasks(tasks, n_processes=n_processes, in_order=True)

    return [
        check_with_coins(
            [one.setting for one in budgets], outcome=facts.outcome, draws=own, run=run
        )
        for budgets, own in zip(attacked, draws, strict=True)
    ]


def _allowed(
    facts: ReleaseFacts, sweep: Sweep, name: str, scores: Predictions
) -> tuple[ProtectedAttribute, str]:
    """An attribute's groups as they may be released, joined before any attack; and a note."""
    attribute = sweep.dataset.attribute(name)
    people = _people(attribute, sweep.dataset.labels, scores.member)
    found = allowed_groups(facts.disclosure, people, attribute.group_names, attribute=name)
    codes = found.apply(attribute.codes)
    return replace(attribute, group_names=found.names, codes=codes), found.note


def _people(attribute: ProtectedAttribute, labels: IntArray, member: BoolArray) -> IntArray:
    """(seed, split, group, label) numbers of records."""
    n_groups, known = len(attribute.group_names), attribute.codes >= 0
    cell = 2 * attribute.codes[known] + labels[known]
    parts = [[cell[inside], cell[~inside]] for inside in member[:, known]]
    counts = [[np.bincount(part, minlength=2 * n_groups) for part in both] for both in parts]
    return np.array(counts, dtype=np.int64).reshape(len(member), len(SPLITS), n_groups, 2)


def _facts(sweep: Sweep, scores: Predictions, notes: Sequence[str]) -> ReleaseFacts:
    dataset, private = sweep.dataset, [b for b in scores.budgets if not math.isinf(b.epsilon)]
    meaning = [ADJACENCY_NOTES[sweep.config.adjacency]] if private else []
    return ReleaseFacts(
        dataset=dataset.name,
        outcome=dataset.outcome,
        split_kind="random",
        stratified_by="label",
        disclosure=replace(sweep.disclosure, public=dataset.public),
        positive_label=dataset.positive_label,
        unit_of_privacy="record",
        mechanism=sweep.config.rule if private else "sgd",
        config=sweep.release_config,
        joint_privacy=_joint_privacy(sweep, scores, private),
        dp_delta=sweep.config.dp_delta,
        data_digest=dataset.published_digest(sweep.secret),
        source=source_state(),
        notes=(*dataset.notes, *notes, *meaning),
    )


def _release(
    facts: ReleaseFacts,
    attribute: ProtectedAttribute,
    scores: Predictions,
    splits: Mapping[int, Split],
    attacked: Sequence[Attacked],
    told: _Beside,
) -> Release:
    runs = tuple(
        _run(budget, seed, splits[seed].id, table)
        for budget, one in zip(scores.budgets, attacked, strict=True)
        for seed, table in zip(scores.seeds, one.tables, strict=True)
    )
    counted = Counted(
        attribute=attribute.name,
        groups=attribute.group_names,
        runs=runs,
        n_records=len(attribute.codes),
        n_missing_group=attribute.n_missing,
        placebo=told.coins.rows,
        pooled=[row for one in attacked for row in one.pooled],
        bounds=told.bounds,
        not_computed=told.coins.not_computed,
        notes=[
            *([told.note] if told.note else []),
            *pooled_notes(len(scores.seeds)),
            *weaker_notes([one.setting for one in attacked]),
            *([EXACT_NOTE] if told.bounds else []),
        ],
    )
    return build_release(facts, counted, file=facts.dataset)


def attack_models(
    sweep: Sweep,
    scores: Predictions,
    views: Sequence[Sequence[BudgetScores]] | None = None,
    *,
    draws: Sequence[CoinDraws] = (),
    n_processes: int = 1,
) -> list[list[Attacked]]:
    """For every attribute and budget what the attacks found.

    Args:
        sweep: what was trained.
        scores: what the models say.
        views: for every budget its models beside the groups that may be released; those of the
            dataset if None.
        draws: for every attribute, coin flips to be attacked together with it.
        n_processes: how many attacks run at the same time.
    """
    if views is None:
        attributes = [sweep.dataset.attribute(name) for name in sweep.attributes]
        views = [_views(sweep, attributes, scores, b) for b in range(len(scores.budgets))]
    draws = draws or [CoinDraws(None)] * len(views[0])
    budgets = [(one, budget.epsilon) for one, budget in zip(views, scores.budgets, strict=True)]
    tasks: list[Task] = [
        *((_pooled, (one, epsilon, draws)) for one, epsilon in budgets),  # the longest first
        *((_single, (one, epsilon, draws)) for one, epsilon in budgets),
    ]
    # Processes, since small arrays keep threads waiting for the lock.
    found = list(run_tasks(tasks, n_processes=n_processes, in_order=True))
    pooled, single = found[: len(views)], found[len(views) :]
    parts = [
        [*map(_attacked, one, *of_budget)]
        for one, *of_budget in zip(views, single, pooled, strict=True)
    ]
    return [list(attribute) for attribute in zip(*parts, strict=True)]


def _attacked(scores: BudgetScores, single: _Single, pooled: PooledAttacks) -> Attacked:
    exposure = single.attacks.records.exposure | pooled.records.exposure
    panel = single.panel
    if panel is not None:
        panel = replace(panel, pooled=single.attacks.coins | pooled.coins)
    return Attacked(
        tables=list(zip(single.counts, single.attacks.runs, strict=True)),
        pooled=[*single.attacks.rows, *pooled.rows],
        setting=ExposedSetting(
            epsilon=single.epsilon,
            scores=scores,
            exposure={name: x for name, x in exposure.items() if np.isfinite(x).any()},
            benefit=pooled.records.benefit,
            panel=panel,
            exact=pooled.exact,
        ),
    )


def _views(
    sweep: Sweep, attributes: Sequence[ProtectedAttribute], scores: Predictions, b: int
) -> list[BudgetScores]:
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
        for attribute in attributes
    ]


def _pooled(
    views: Sequence[BudgetScores], epsilon: float, draws: Sequence[CoinDraws]
) -> list[PooledAttacks]:
    return pooled_attacks_of(views, epsilon=epsilon, coins=[one.divisions for one in draws])


def _run(budget: Budget, seed: int, split_id: str, table: ModelTable) -> CountedRun:
    private = not math.isinf(budget.epsilon)
    return CountedRun(
        key=RunKey(budget.epsilon if private else None, seed, split_id),
        cells=table[0],
        exposure=table[1],
        noise_multiplier=budget.noise_multiplier if private else None,
        epsilon_by_accountant=budget.epsilon_by_accountant,
    )


class _Single(NamedTuple):
    """What single models tell about one attribute: counts (seed, split, group, cell), attacks."""

    epsilon: float
    counts: IntArray
    attacks: RunAttacks
    panel: Panel | None


def _single(
    views: Sequence[BudgetScores], epsilon: float, draws: Sequence[CoinDraws]
) -> list[_Single]:
    """For every attribute."""
    coins = [one.divisions for one in draws]
    attacks = run_attacks_of(views, epsilon=epsilon, coins=coins)
    return [
        _Single(
            epsilon,
            _counts(one),
            found,
            None if own is None else coin_panel(one, own, {}, epsilon=epsilon),
        )
        for one, found, own in zip(views, attacks, coins, strict=True)
    ]


def _counts(scores: BudgetScores) -> IntArray:
    """(seed, split, group, cell) counts; a probability of 1/2 or more predicts positive."""
    n_seeds, n_groups = len(scores.member), len(scores.group_names)
    chosen = {
        (g, label): (scores.group == g) & (scores.labels == label)
        for g in range(n_groups)
        for label in (0, 1)
    }
    cells = np.empty((n_seeds, len(SPLITS), n_groups, 2, 2), dtype=np.int64)
    for s, (logits, member) in enumerate(zip(scores.logits, scores.member, strict=True)):
        predicted = logits >= 0
        for (g, label), mask in chosen.items():
            cells[s, :, g, label] = _two_by_two(member, predicted, mask)
    return cells.reshape(n_seeds, len(SPLITS), n_groups, len(CELLS))


def _two_by_two(member: BoolArray, predicted: BoolArray, mask: BoolArray) -> list[list[int]]:
    """Counts by split (as in ``SPLITS``) and prediction among the masked records."""
    inside, positive = member & mask, predicted & mask
    both, n_inside, n_positive, n = (
        int(np.count_nonzero(part)) for part in (inside & positive, inside, positive, mask)
    )
    return [[n_inside - both, both], [n - n_inside - n_positive + both, n_positive - both]]


def _joint_privacy(sweep: Sweep, scores: Predictions, private: list[Budget]) -> dict[str, Any]:
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
        "adjacency": str(sweep.config.adjacency),
        "meaning": (
            "An upper bound (RDP composition) for a record that is in every training set. Models "
            "without privacy, the exact counts in this file, the standardisation and the choice of "
            "settings are outside it."
        ),
    }
