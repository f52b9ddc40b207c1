"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pcer.attacks import BudgetScores, count_models, with_costs
from pcer.attacks.exposure_rows import PLACEBO
from pcer.data.dataset import Split
from pcer.metrics import NO_DP
from pcer.release import build
from pcer.release.build import ReleaseFacts
from pcer.release.file import Release
from pcer.release.small_groups import Allowed, Attribute, Model, allowed_groups
from pcer.store.processes import run_tasks
from pcer.sweep.receipts import EXACT_NOTE, group_bounds
from pcer.sweep.sweep import Sweep
from pcer.train import Predictions
from pcer.train.accounting import joint_epsilon
from pcer.train.config import Adjacency

# What an epsilon means, for every report.
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
JOINT_MEANING = (
    "An upper bound (RDP composition) for a record that is in every training set. Models without "
    "privacy, the exact counts in this file, the standardisation and the choice of settings are "
    "outside it."
)


def allowed_attributes(sweep: Sweep, splits: Mapping[int, Split]) -> Allowed:
    """Groups that may be released, by attribute; known before anything is trained."""
    dataset = sweep.dataset
    attributes = [
        Attribute(a.name, a.group_names, a.codes)
        for a in map(dataset.attribute, sweep.attributes)
    ]
    everybody = np.arange(dataset.n_records)
    positive = dataset.labels == 1
    models = (
        Model(everybody, np.isin(everybody, part.test).astype(np.int64), positive)
        for part in splits.values()
    )
    rule = replace(sweep.disclosure, public=dataset.public)
    return allowed_groups(rule, attributes, models)


def build_releases(
    sweep: Sweep,
    scores: Mapping[str | None, Predictions],
    splits: Mapping[int, Split],
    allowed: Allowed,
    notes: Sequence[str] = (),
    n_processes: int = 1,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute; the same bytes however many attacks run in parallel."""
    facts = replace(_facts(sweep, scores, notes), not_written=allowed.not_written)
    settings = [
        [
            BudgetScores(
                logits=logits,
                labels=sweep.dataset.labels,
                member=found.member,
                group=own.codes,
                group_names=own.groups,
                epsilon=budget.epsilon,
                model=name,
            )
            for own in allowed.attributes
        ]
        for name, found in scores.items()
        for budget, logits in zip(found.budgets, found.logits, strict=True)
    ]
    models = [(seed, splits[seed].id) for seed in sweep.seeds]
    counted = [  # the dataset's notes count records without a group
        replace(count_models(own, views, models), notes=[own.note] if own.note else [])
        for own, views in zip(
            allowed.attributes, zip(*settings, strict=True), strict=True
        )
    ]
    # Processes, since small arrays keep threads waiting for the lock.
    run = partial(run_tasks, n_processes=n_processes, in_order=True)
    budgets = [
        b for found in scores.values() for b in found.budgets for _ in sweep.seeds
    ]
    releases = {}
    attacked = with_costs(counted, settings, facts, run=run, on_step=on_step)
    for counts, attribute in zip(attacked, allowed.attributes, strict=True):
        bounds = [
            row
            for name, found in scores.items()
            for row in group_bounds(sweep, found, attribute, name)
        ]
        whole = replace(
            counts,
            runs=tuple(
                replace(
                    run,
                    noise_multiplier=budget.noise_multiplier or None,
                    epsilon_by_accountant=budget.epsilon_by_accountant,
                )
                for run, budget in zip(counts.runs, budgets, strict=True)
            ),
            bounds=bounds,
            notes=[
                *counts.notes,
                *([EXACT_NOTE] if any(row.exact for row in bounds) else []),
            ],
            # a note says which attacks need more seeds
            not_computed={k: v for k, v in counts.not_computed.items() if k == PLACEBO},
        )
        releases[counts.attribute] = build.build_release(
            facts, whole, file=facts.dataset
        )
    return releases


def _facts(
    sweep: Sweep, scores: Mapping[str | None, Predictions], notes: Sequence[str]
) -> ReleaseFacts:
    dataset = sweep.dataset
    meaning = [ADJACENCY_NOTES[sweep.config.adjacency]]
    private = [
        (budget.noise_multiplier, sweep.configurations[name].config)
        for name, found in scores.items()
        for budget in found.budgets
        if budget.epsilon != NO_DP
    ]
    all_private = private * len(sweep.seeds)
    (first, *_) = scores.values()
    n_train = int(first.member[0].sum())
    samplings = {
        n: own.config.sampling(n_train) for n, own in sweep.configurations.items()
    }
    rules = dict.fromkeys(config.rule.partition(":")[0] for _, config in private)
    return ReleaseFacts(
        dataset=dataset.name,
        outcome=dataset.outcome,
        people=dataset.people,
        positive_means=dataset.positive_means,
        split_kind="random",
        stratified_by="label",
        disclosure=replace(sweep.disclosure, public=dataset.public),
        positive_label=dataset.positive_label,
        unit_of_privacy="record",
        mechanism=" and ".join(rules) or "sgd",
        config=sweep.release_config,
        # epsilon of releasing every model, for a record in all training sets
        joint_privacy={
            "private_models": len(all_private),
            "models_without_privacy": sweep.n_models - len(all_private),
            "epsilon_of_the_private_models": joint_epsilon(
                all_private, n_train=n_train
            ),
            "dp_delta": sweep.config.dp_delta,
            "trainings": {  # by model, for whoever adds up the cost
                name or "": {"sample_rate": own.sample_rate, "n_steps": own.n_steps}
                for name, own in samplings.items()
            },
            "adjacency": str(sweep.config.adjacency),
            "meaning": JOINT_MEANING,
        },
        dp_delta=sweep.config.dp_delta,
        data_digest=dataset.published_digest(sweep.secret),
        source=build.source_state(),
        notes=(*dataset.notes, *notes, *(meaning if private else ())),
    )
