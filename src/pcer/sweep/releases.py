"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pcer.attacks import BudgetScores, with_costs
from pcer.attacks.costs import PLACEBO
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
from pcer.release.format import Release
from pcer.store.processes import run_tasks
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
    settings = [_settings(sweep, attributes, scores, b) for b in range(len(scores.budgets))]
    counted = [
        _counted(*both, scores, splits, of_budgets)
        for both, of_budgets in zip(allowed, zip(*settings, strict=True), strict=True)
    ]
    # Processes, since small arrays keep threads waiting for the lock.
    run = partial(run_tasks, n_processes=n_processes, in_order=True)
    attacked = with_costs(counted, settings, facts, run=run, on_step=on_step)
    releases = {}
    for one, attribute in zip(attacked, attributes, strict=True):
        rows = group_bounds(scores, sweep.config, attribute, sweep.dataset.labels)
        one = replace(
            one,
            bounds=rows,
            notes=[*one.notes, *([EXACT_NOTE] if rows else [])],
            # a note says which attacks need more seeds
            not_computed={k: v for k, v in one.not_computed.items() if k == PLACEBO},
        )
        releases[one.attribute] = build_release(facts, one, file=facts.dataset)
    return releases


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


def _counted(
    attribute: ProtectedAttribute,
    note: str,
    scores: Predictions,
    splits: Mapping[int, Split],
    settings: Sequence[BudgetScores],
) -> Counted:
    return Counted(
        attribute=attribute.name,
        groups=attribute.group_names,
        runs=tuple(
            _run(budget, seed, splits[seed].id, cells)
            for budget, setting in zip(scores.budgets, settings, strict=True)
            for seed, cells in zip(scores.seeds, _counts(setting), strict=True)
        ),
        n_records=len(attribute.codes),
        n_missing_group=attribute.n_missing,
        notes=[note] if note else [],
    )


def _settings(
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
            epsilon=scores.budgets[b].epsilon,
        )
        for attribute in attributes
    ]


def _run(budget: Budget, seed: int, split_id: str, cells: IntArray) -> CountedRun:
    private = not math.isinf(budget.epsilon)
    return CountedRun(
        key=RunKey(budget.epsilon if private else None, seed, split_id),
        cells=cells,
        noise_multiplier=budget.noise_multiplier if private else None,
        epsilon_by_accountant=budget.epsilon_by_accountant,
    )


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
