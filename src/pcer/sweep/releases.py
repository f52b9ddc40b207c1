"""How do the scores of a sweep become its releases?

``pcer.sweep.run`` asks ``allowed_attributes`` before it trains, and ``build_releases``
afterwards, which counts, attacks, and states privacy spent and provenance. To add a
fact that is stated: a field of ``ReleaseFacts``, filled in ``_facts``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pcer.attacks import SettingScores, add_exposures, answered_by, count_models
from pcer.attacks.exposure_rows import PLACEBO
from pcer.attacks.placebo import TaskRunner
from pcer.measuring.outcomes import noise_of_repeats
from pcer.metrics import NO_DP, Counts, FloatArray
from pcer.release import build
from pcer.release.build import CELLS, Counted, ReleaseFacts
from pcer.release.columns import SPLITS
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.joint import guarded
from pcer.release.population import Attribute, recorded
from pcer.release.records import Bound, TrainingNoise
from pcer.release.small_groups import Allowed, Model, allowed_groups
from pcer.store.processes import run_tasks
from pcer.sweep.receipts import EXACT_NOTE, group_bounds
from pcer.sweep.sweep import Sweep
from pcer.train import Budget, Predictions, TrainConfig
from pcer.train.accounting import joint_epsilon
from pcer.train.config import Adjacency

# What an epsilon means, for every report.
ADJACENCY_NOTES = {
    Adjacency.ZERO_OUT: (
        "Every epsilon compares training with a record to training with a gradient of "
        "zero in its place; the number of training records counts as public."
    ),
    Adjacency.ADD_OR_REMOVE: (
        "Every epsilon compares training with a record to training without it; sample "
        "rate, steps and divisor were fixed without looking at the number of training "
        "records."
    ),
}
JOINT_MEANING = (
    "An upper bound (RDP composition) for a record that is in every training set. "
    "Models without privacy, the exact counts in this file, the standardisation and "
    "the choice of settings are outside it."
)

NOISE_DIGITS = 3  # of covariances in a release

Scores = Mapping[str | None, Predictions]  # by configuration; None for a single one
PrivateModel = tuple[float, TrainConfig]  # its noise multiplier and its settings


class Trained(NamedTuple):
    """What a sweep has trained."""

    scores: Scores  # of the release's models
    repeats: Scores  # of further trainings of the first seed's split


def allowed_attributes(sweep: Sweep) -> Allowed:
    """Groups that may be released, by attribute; known before anything is trained."""
    dataset = sweep.dataset
    disclosure = _disclosure(sweep)
    attributes = []
    for name in sweep.attributes:
        own = dataset.attribute(name)
        attributes.append(recorded(name, own.group_names, own.codes, own.declared))
    everybody = np.arange(dataset.n_records)
    positive = dataset.labels == 1
    models = (
        Model(everybody, np.isin(everybody, split.test).astype(np.int64), positive)
        for split in sweep.splits.values()
    )
    return allowed_groups(disclosure, attributes, models, are_apart=True)


def build_releases(
    sweep: Sweep,
    trained: Trained,
    allowed: Allowed,
    notes: Sequence[str] = (),
    n_processes: int = 1,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """One release per protected attribute, in the groups that are allowed.

    Args:
        sweep: what was trained.
        trained: scores of all models, and of repeated trainings.
        allowed: the attributes, with the groups that may be released.
        notes: what readers must know besides the notes of the dataset.
        n_processes: how many attacks run at a time; the bytes are the same.
        on_step: called with the name of each step after the attacks.
    """
    scores = trained.scores
    facts = replace(_facts(sweep, scores, notes), not_written=allowed.not_written)
    # Processes, since small arrays keep threads waiting for the lock.
    run = partial(run_tasks, n_processes=n_processes, in_order=True)
    attacked = _attacked(sweep, scores, allowed.attributes, facts, run, on_step)
    releases = {}
    for attribute, counts in zip(allowed.attributes, attacked, strict=True):
        private = _with_privacy(sweep, scores, attribute, counts)
        noise = _training_noise(sweep, trained, attribute)
        whole = replace(private, training_noise=noise)
        release = build.build_release(facts, whole, file=facts.dataset)
        releases[counts.attribute] = release
    return releases


def _attacked(
    sweep: Sweep,
    scores: Scores,
    attributes: Sequence[Attribute],
    facts: ReleaseFacts,
    run: TaskRunner,
    on_step: Callable[[str], None],
) -> list[Counted]:
    """Counts and exposures of all models, by attribute."""
    settings = _settings(sweep, scores, attributes)
    models = [(seed, sweep.splits[seed].id) for seed in sweep.seeds]
    counted = []
    for attribute, *views in zip(attributes, *settings, strict=True):
        counts = count_models(attribute, views, models)
        # Its own notes are replaced: the dataset's count records without a group.
        own_notes = [attribute.note] if attribute.note else []
        counted.append(replace(counts, notes=own_notes))
    counted = guarded(counted, attributes, answered_by(settings), facts.disclosure)
    return add_exposures(counted, settings, facts, run=run, on_step=on_step)


def _training_noise(
    sweep: Sweep, trained: Trained, attribute: Attribute
) -> list[TrainingNoise]:
    """How rates vary over all trainings of the first seed's split, by setting."""
    rows: list[TrainingNoise] = []
    if not sweep.repeat_seeds:
        return rows
    for name, repeats in trained.repeats.items():
        first = trained.scores[name].at(slice(1))
        member = np.concatenate([first.member, repeats.member])
        seeds = (*first.seeds, *repeats.seeds)
        models = [(seed, "") for seed in seeds]
        for index, budget in enumerate(repeats.budgets):
            logits = np.concatenate([first.logits[index], repeats.logits[index]])
            view = SettingScores(
                logits=logits,
                labels=sweep.dataset.labels,
                member=member,
                group=attribute.codes,
                group_names=attribute.groups,
                epsilon=budget.epsilon,
                model=name,
            )
            counted = count_models(attribute, [view], models)
            rows += _noise_rows(counted)
    return rows


def _noise_rows(counted: Counted) -> list[TrainingNoise]:
    """Rows of one setting: covariances between groups over its trainings.

    Rounded, so that they say next to nothing of one person.
    """
    cells = np.array([run.cells for run in counted.runs], dtype=np.float64)
    train, test = (
        Counts(**dict(zip(CELLS, np.moveaxis(cells[:, part], -1, 0), strict=True)))
        for part in range(len(SPLITS))
    )
    key = counted.runs[0].key
    rows = []
    for rate, spread in noise_of_repeats(train, test).items():
        row = TrainingNoise(
            model=key.model,
            epsilon=key.epsilon,
            rate=rate,
            degrees_of_freedom=spread.degrees_of_freedom,
            everybody=_rounded(spread.everybody),
            crossed=_rounded(spread.crossed),
        )
        rows.append(row)
    return rows


def _rounded(covariances: FloatArray) -> list[list[float]]:
    rounded = np.vectorize(lambda number: float(f"{number:.{NOISE_DIGITS}g}"))
    rows: list[list[float]] = rounded(covariances).tolist()
    return rows


def _settings(
    sweep: Sweep, scores: Scores, attributes: Sequence[Attribute]
) -> list[list[SettingScores]]:
    """What attacks take: by setting and attribute."""
    settings = []
    for name, predictions in scores.items():
        for budget, logits in zip(predictions.budgets, predictions.logits, strict=True):
            views = [
                SettingScores(
                    logits=logits,
                    labels=sweep.dataset.labels,
                    member=predictions.member,
                    group=attribute.codes,
                    group_names=attribute.groups,
                    epsilon=budget.epsilon,
                    model=name,
                )
                for attribute in attributes
            ]
            settings.append(views)
    return settings


def _with_privacy(
    sweep: Sweep, scores: Scores, attribute: Attribute, counts: Counted
) -> Counted:
    """The counts of one attribute, with the privacy that its groups and runs spent."""
    bounds: list[Bound] = []
    budget_of_run: list[Budget] = []
    for name, predictions in scores.items():
        bounds += group_bounds(sweep, predictions, attribute, name)
        for budget in predictions.budgets:
            budget_of_run += [budget] * len(sweep.seeds)
    runs = [
        replace(
            run,
            noise_multiplier=budget.noise_multiplier or None,
            epsilon_by_accountant=budget.epsilon_by_accountant,
        )
        for run, budget in zip(counts.runs, budget_of_run, strict=True)
    ]
    notes = [*counts.notes]
    if any(row.exact for row in bounds):
        notes.append(EXACT_NOTE)
    # A note says which attacks need more seeds.
    reasons = counts.not_computed
    not_computed = {PLACEBO: reasons[PLACEBO]} if PLACEBO in reasons else {}
    return replace(
        counts,
        runs=tuple(runs),
        bounds=bounds,
        notes=notes,
        not_computed=not_computed,
    )


def _facts(sweep: Sweep, scores: Scores, notes: Sequence[str]) -> ReleaseFacts:
    """Facts beside the counts, which are the same for every attribute."""
    dataset = sweep.dataset
    private: list[PrivateModel] = []  # of one seed
    for name, predictions in scores.items():
        config = sweep.configurations[name].config
        for budget in predictions.budgets:
            if budget.epsilon != NO_DP:
                private.append((budget.noise_multiplier, config))
    mechanisms = dict.fromkeys(config.rule.partition(":")[0] for _, config in private)
    meaning = [ADJACENCY_NOTES[sweep.config.adjacency]] if private else []
    return ReleaseFacts(
        dataset=dataset.name,
        outcome=dataset.outcome,
        people=dataset.people,
        positive_means=dataset.positive_means,
        model=dataset.trained and f"A network trained {dataset.trained}",
        membership_means=dataset.membership_means,
        split_kind="random",
        splits="secret" if sweep.secret else "public",
        stratified_by="label",
        disclosure=_disclosure(sweep),
        positive_label=dataset.positive_label,
        unit_of_privacy="record",
        mechanism=" and ".join(mechanisms) or "sgd",
        config=sweep.release_config,
        joint_privacy=_joint_privacy(sweep, private),
        dp_delta=sweep.config.dp_delta,
        data_digest=sweep.data_digest,
        source=build.source_state(),
        notes=(*dataset.notes, *notes, *meaning),
    )


def _joint_privacy(sweep: Sweep, private: Sequence[PrivateModel]) -> dict[str, Any]:
    """Epsilon of releasing every model, for a record that is in all training sets."""
    n_train = sweep.splits[sweep.seeds[0]].train.size
    n_seeds = len(sweep.seeds) + len(sweep.repeat_seeds)
    of_every_seed = [*private] * n_seeds
    trainings = {}  # by model, for whoever adds up the cost
    for name, configuration in sweep.configurations.items():
        sampling = configuration.config.sampling(n_train)
        trainings[name or ""] = {
            "sample_rate": sampling.sample_rate,
            "n_steps": sampling.n_steps,
        }
    return {
        "private_models": len(of_every_seed),
        "models_without_privacy": sweep.n_trained - len(of_every_seed),
        "epsilon_of_the_private_models": joint_epsilon(of_every_seed, n_train=n_train),
        "dp_delta": sweep.config.dp_delta,
        "trainings": trainings,
        "adjacency": str(sweep.config.adjacency),
        "meaning": JOINT_MEANING,
    }


def _disclosure(sweep: Sweep) -> Disclosure:
    """What the sweep's releases may let out, of records that may be public."""
    return replace(sweep.disclosure, public_data=sweep.dataset.public)
