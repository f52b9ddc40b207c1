"""From the scores of a sweep to its releases: counts, attacks, privacy spent, provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pcer.attacks import BudgetScores, with_costs
from pcer.attacks.costs import PLACEBO
from pcer.data.dataset import ProtectedAttribute, Split
from pcer.metrics import NO_DP
from pcer.release import build
from pcer.release.build import Counted, Entries, ReleaseFacts, RunKey, count_entries
from pcer.release.columns import SPLITS
from pcer.release.format import Release
from pcer.store.processes import run_tasks
from pcer.sweep.receipts import EXACT_NOTE, group_bounds
from pcer.sweep.sweep import Sweep
from pcer.train import Predictions
from pcer.train.accounting import joint_epsilon
from pcer.train.config import Adjacency

# What the budgets of a release mean, for every report.
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
    counted, attributes = [], []
    for name in sweep.attributes:
        plain, attribute = _counted(sweep, name, scores, splits), sweep.dataset.attribute(name)
        allowed = build.regrouping_of(facts, plain)  # groups are joined before any attack
        counted.append(build.regrouped(plain, allowed))
        codes = allowed.apply(attribute.codes)
        attributes.append(replace(attribute, group_names=allowed.names, codes=codes))
    settings = [_settings(sweep, attributes, scores, b) for b in range(len(scores.budgets))]
    # Processes, since small arrays keep threads waiting for the lock.
    run = partial(run_tasks, n_processes=n_processes, in_order=True)
    releases = {}
    attacked = with_costs(counted, settings, facts, run=run, on_step=on_step)
    for counts, attribute in zip(attacked, attributes, strict=True):
        bounds = group_bounds(scores, sweep.config, attribute, sweep.dataset.labels)
        whole = replace(
            counts,
            bounds=bounds,
            notes=[*counts.notes, *([EXACT_NOTE] if bounds else [])],
            # a note says which attacks need more seeds
            not_computed={k: v for k, v in counts.not_computed.items() if k == PLACEBO},
        )
        releases[counts.attribute] = build.build_release(facts, whole, file=facts.dataset)
    return releases


def _counted(sweep: Sweep, name: str, scores: Predictions, splits: Mapping[int, Split]) -> Counted:
    """Counts of every model, one at a time for memory; log odds from 0 on predict positive."""
    attribute, positive = sweep.dataset.attribute(name), sweep.dataset.labels == 1
    runs = []
    for budget, logits in zip(scores.budgets, scores.logits, strict=True):
        is_private = budget.epsilon != NO_DP
        for seed, member, own in zip(scores.seeds, scores.member, logits, strict=True):
            entries = Entries(
                run=np.zeros_like(attribute.codes),
                split=np.where(member, SPLITS.index("train"), SPLITS.index("test")),
                group=attribute.codes,
                positive=positive,
                predicted=own >= 0,
            )
            key = RunKey(budget.epsilon if is_private else None, seed, splits[seed].id)
            model = count_entries(entries, [key], attribute=name, groups=attribute.group_names)
            runs.append(
                replace(
                    model.runs[0],
                    noise_multiplier=budget.noise_multiplier if is_private else None,
                    epsilon_by_accountant=budget.epsilon_by_accountant,
                )
            )
    # The dataset's own notes tell who is left out.
    return replace(model, runs=tuple(runs), notes=())


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


def _facts(sweep: Sweep, scores: Predictions, notes: Sequence[str]) -> ReleaseFacts:
    dataset, private = sweep.dataset, [b for b in scores.budgets if b.epsilon != NO_DP]
    n_seeds, meaning = len(scores.seeds), [ADJACENCY_NOTES[sweep.config.adjacency]]
    noises = [budget.noise_multiplier for budget in private] * n_seeds
    n_train = int(scores.member[0].sum())
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
        joint_privacy={  # what releasing every model costs a person who is in all training sets
            "private_models": len(noises),
            "models_without_privacy": (len(scores.budgets) - len(private)) * n_seeds,
            "epsilon_of_the_private_models": joint_epsilon(
                noises, n_train=n_train, config=sweep.config
            ),
            "dp_delta": sweep.config.dp_delta,
            "adjacency": str(sweep.config.adjacency),
            "meaning": JOINT_MEANING,
        },
        dp_delta=sweep.config.dp_delta,
        data_digest=dataset.published_digest(sweep.secret),
        source=build.source_state(),
        notes=(*dataset.notes, *notes, *(meaning if private else ())),
    )
