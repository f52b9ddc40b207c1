"""How does a synthetic table become a release? Make it from halves, score real people.

``release_from_synthesizer`` calls a maker on many random halves of the people;
``release_from_synthetic`` takes one finished table, with people who were held out.
Only the release leaves. To add a statistic of a table: a column of ``fits.Answers``
(``makers``), and its rows in ``_released``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.attacks import SettingScores, add_exposures, answered_by, count_models
from pcer.attacks.accuracy_loss import accuracy_losses
from pcer.attacks.synthetic import (
    Space,
    copied_rows,
    one_table_residual,
    table_columns,
)
from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.models.about import About, facts_of
from pcer.models.estimator import require_everybody, with_training
from pcer.models.features import named_features, require_index
from pcer.models.fits import (
    Answers,
    OnProgress,
    Records,
    Running,
    fit_all,
    require_installed,
)
from pcer.models.makers import REAL, Make, RealTable, Task, makers_of
from pcer.models.signals import OF_ANSWERS, copies_of, membership_of, release_of_one
from pcer.models.splits import (
    NO_COIN,
    SCORED_STREAM,
    SplitPlan,
    Splits,
    effective_people,
    splits_of,
    state_of,
    stream,
)
from pcer.models.training import Candidate, budget_of
from pcer.release import attack_kinds
from pcer.release import columns as convert
from pcer.release.build import Counted, ReleaseFacts, build_release
from pcer.release.columns import Coded, require_one_length
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.joint import guarded
from pcer.release.population import (
    NOBODY,
    NOT_RECORDED,
    Attribute,
    is_outside,
    named_attribute,
    without_unrecorded,
)
from pcer.release.records import AccuracyLoss, Outcome, SplitKind
from pcer.release.small_groups import Model, allowed_groups
from pcer.statistics import finite_or_none

N_TABLES = 16
HALF = 0.5
MOST_SCORED = 50_000  # of more people a random part is scored
N_SCORED = 20_000
ONE_TABLE = (
    "One finished table: the distance of real records to it, beyond what distances "
    "between real people let expect; who was held out is the trainer's word."
)


def release_from_synthesizer(  # noqa: PLR0913 # a front door
    make: Make | Mapping[Any, Make],
    X: Any,
    *,
    sensitive_features: Any,
    n_splits: int = N_TABLES,
    test_size: float = HALF,
    target: str | None = None,
    outcome: Outcome | None = None,
    positive_label: str | int | float | bool | None = None,
    model: Any = None,
    person_id: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | OnProgress = True,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> Release:
    """Make synthetic tables of many random halves: whose records shine through?

    For every split a table is made from one half of the people, and all real people
    are scored: how much denser is the table at their record than other real people
    are? People in the half are compared with those out of it by RMIA and LiRA, and each
    person with themselves over the splits by own AUC. The release is about tables that
    are made of as many people.

    Args:
        make: called as ``make(real_part, seed)``; returns a table with the columns of X
            (pandas, polars, arrow or numpy). Several by name become the settings of one
            release; a name that is a number is the privacy budget of that maker.
        X: all real records, a table: pandas, polars, arrow or numpy.
        sensitive_features: the group of each record; several named columns are crossed.
            If X is a data frame: also the name of one of its columns, or a list of
            names.
        n_splits: how many splits, drawn independently.
        test_size: share of the people that no table of a split is made from.
        target: a column of X that ``model`` is to predict: then the release also says
            who is worse served by a model that was trained on the table.
        outcome: whether a positive prediction of the target is a "benefit" or a "harm".
        positive_label: which value of the target is positive; needed unless they are 0
            and 1, or booleans.
        model: an estimator; it is trained on each table, and on the real half itself
            (the setting "real").
        person_id: who has the record, where people have several: they are kept
            together.
        random_state: of splits and makers, as for ``release_from_estimator``.
        n_jobs: how many tables are made at once, as for joblib.
        store: folder that keeps what was found of every finished table; the same call
            resumes there.
        progress: show a bar on stderr; or a function of (tables done, tables in all).
        about: what the release is about, in readers' words.
        disclosure: what may leave; by default what is safe for private records.

    Raises:
        InputError: one sentence that names the argument or the split, and the remedy.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> release = release_from_synthesizer(
    ...     lambda part, seed: part + 0.1, X, n_splits=2,
    ...     sensitive_features={"side": np.where(X[:, 0] > 0, "left", "right")},
    ... )
    >>> sorted({row.attack for row in release.pooled_exposure})
    ['auc_advantage', 'own_auc_advantage']
    """
    require_installed()
    plan = SplitPlan(n_splits=n_splits, test_size=test_size, random_state=random_state)
    running = Running(
        n_jobs=n_jobs, store=None if store is None else Path(store), progress=progress
    )
    X, features = named_features(X, sensitive_features, drop_sensitive=False)
    require_index(X=X, sensitive_features=features, person_id=person_id)
    _require_task(target=target, outcome=outcome, model=model)
    facts = facts_of(
        about,
        disclosure,
        outcome=outcome,
        split_kind="random",
        positive_label=positive_label,
    )
    facts = replace(facts, published="synthetic_table")
    attribute = named_attribute(
        features, About.of(about).attribute, facts.groups, facts.missing
    )
    records = _records(X, attribute, target, positive_label, person_id)
    task = None
    if target is not None:
        task = Task(model=model, target=target, positive=records.positive)
    people = People(X, records, attribute, task)
    return _released(make, people, plan, running, facts)


def release_from_synthetic(  # noqa: PLR0913 # a front door
    synthetic: Any,
    X: Any,
    *,
    member: Any,
    split_kind: SplitKind,
    sensitive_features: Any,
    person_id: Any = None,
    epsilon: float | None = None,
    dp_delta: float | None = None,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> Release:
    """Compare one finished synthetic table with its people, and with others like them.

    For every real person: how close are the nearest synthetic rows, beyond what the
    nearest real people let expect? The AUC minus 1/2 of that within a group is
    ``auc_advantage``. No outcomes are released.

    Args:
        synthetic: the table, with the columns of X: pandas, polars, arrow or numpy.
        X: real records, of people whom the table was made from and of others.
        member: True or 1 for each record that the table was made from. Some must not
            be: distance alone names the people who live closest together.
        split_kind: "random" if those were drawn at random, else "other".
        sensitive_features: the group of each record; several named columns are crossed.
            If X is a data frame: also the name of one of its columns, or a list of
            names.
        person_id: who has the record, where people have several: errors are then
            clustered.
        epsilon: the privacy budget of the table; None or infinity without one.
        dp_delta: the delta of that budget.
        about: what the release is about, in readers' words.
        disclosure: what may leave; by default what is safe for private records.

    Raises:
        InputError: one sentence that names the argument and the remedy.
    """
    X, features = named_features(X, sensitive_features, drop_sensitive=False)
    require_index(X=X, sensitive_features=features, person_id=person_id, member=member)
    inside = _with_held_out(member)
    about = About.of(about)
    facts = facts_of(
        about, disclosure, outcome=None, split_kind=split_kind, dp_delta=dp_delta
    )
    attribute = named_attribute(features, about.attribute, facts.groups, facts.missing)
    records = _records(X, attribute, None, None, person_id)
    require_one_length(X=X, member=inside)
    scored = _scored(attribute, 0)
    people = Space.from_people(X)
    real = people.encode(X, "X")[scored]
    table = people.encode(synthetic)
    signal = one_table_residual(real, table)
    attribute = attribute.at(scored)
    setting = SettingScores(
        logits=signal[None],
        labels=np.ones(len(signal), dtype=np.int64),
        member=inside[scored][None],
        group=attribute.codes,
        group_names=attribute.groups,
        predicted=np.zeros((1, len(signal)), dtype=bool),
        of_tables=True,
        epsilon=budget_of(epsilon),
    )
    notes = [ONE_TABLE, *_note_of_scored(len(inside), len(scored))]
    facts = replace(facts, published="synthetic_table", notes=[*facts.notes, *notes])
    return release_of_one(
        setting,
        attribute,
        None if records.persons is None else records.persons[scored],
        facts,
        file="the synthetic table",
        copied=copied_rows(real, table),
    )


def _with_held_out(member: Any) -> BoolArray:
    """Who the table was made from; refused where nobody was held out."""
    held_out = "some people must have been held out of the table, and member must say"
    why = "distance alone names the people who live closest together"
    refusal = InputError(
        f"{held_out} who (False): {why}; without them, give what makes the table to "
        "release_from_synthesizer.",
        field="member",
    )
    if member is None:
        raise refusal
    column = convert.required_column(member, name="member")
    if column.names in (["True"], ["1"]):
        raise refusal
    return membership_of(member)


def _require_task(*, target: Any, outcome: Any, model: Any) -> None:
    """Raise InputError unless all or none of what a model needs is given."""
    given = {"target": target, "outcome": outcome, "model": model}
    absent = [name for name, value in given.items() if value is None]
    if 0 < len(absent) < len(given):
        raise InputError(
            f"to see who is served, give target, outcome and model; {absent[0]} is "
            "missing.",
            field=absent[0],
        )


def _records(
    X: Any,
    attribute: Attribute,
    target: str | None,
    positive_label: object,
    person_id: Any,
) -> Records:
    """The real people; without a target all have one label."""
    columns = table_columns(X, "X")
    if not hasattr(X, "shape"):
        raise InputError(
            "X must be a table of pandas, polars, arrow or numpy, not a dict.",
            field="X",
        )
    persons = None
    if person_id is not None:
        persons = convert.required_column(person_id, name="person_id").codes
    require_one_length(X=X, sensitive_features=attribute.codes, person_id=persons)
    n = len(attribute.codes)
    classes = Coded(["all"], np.zeros(n, dtype=np.int64))
    positive = "all"
    if target is not None and target not in columns:
        raise InputError(
            f"target names {target!r}, which is no column of X.", field="target"
        )
    if target is not None:
        classes = convert.required_column(columns[target], name=target)
        n_of_label = np.bincount(classes.codes)
        positive = convert.positive_name(
            classes.names, positive_label, where=target, n=n_of_label
        )
    return Records(
        X=X,
        y=classes.codes,
        classes=classes,
        positive=positive,
        is_positive=convert.is_named(classes, positive),
        persons=persons,
    )


class People(NamedTuple):
    """Everybody whom a table may be made from."""

    X: Any
    records: Records
    attribute: Attribute
    task: Task | None


def _released(
    make: Any,
    people: People,
    plan: SplitPlan,
    running: Running,
    facts: ReleaseFacts,
) -> Release:
    """Draw splits, make tables, score people, attack and count."""
    records = people.records
    attribute = _settled(people, plan, facts)
    random_state = state_of(plan.random_state, facts.disclosure, running.store)
    splits = splits_of(
        plan,
        records.classes.codes,
        records.persons,
        random_state,
        is_public=facts.disclosure.public_data,
        is_apart=is_outside([attribute]),
    )
    scored = _scored(attribute, random_state)
    real = RealTable.of(people.X, scored, people.task)
    candidates = makers_of(make, real)
    facts = with_training(facts, candidates, records, splits, random_state)
    facts = _with_notes(facts, splits, n_people=len(records.y), n_scored=len(scored))
    everybody = people._replace(attribute=attribute)
    member = splits.members(len(records.y))
    audited = _Scored.of(everybody, member, scored, facts)
    facts = replace(facts, not_written=audited.not_written)

    answers = fit_all(candidates, records, splits, random_state, running)
    of_scored = [_at(one, scored) for one in answers]
    counted = _counted(audited, candidates, of_scored, facts)
    if audited.persons is not None:
        units = effective_people(audited.attribute, audited.persons)
        facts = replace(facts, effective_units=units)
    return build_release(facts, counted, file=facts.dataset)


def _settled(people: People, plan: SplitPlan, facts: ReleaseFacts) -> Attribute:
    """The attribute; too few people without a value are no group, before any split."""
    rule = facts.disclosure
    attribute = people.attribute
    if NOT_RECORDED not in attribute.groups or rule.public_data:
        return attribute
    place = attribute.groups.index(NOT_RECORDED)
    is_positive = people.records.is_positive[attribute.codes == place]
    counts = [len(is_positive)]
    if people.task is not None:
        counts = [int(is_positive.sum()), int((~is_positive).sum())]
    if min(counts) * min(plan.test_size, 1 - plan.test_size) >= rule.least_people:
        return attribute
    return without_unrecorded(attribute)


def _scored(attribute: Attribute, random_state: int) -> IntArray:
    """Rows of those who are scored: all, or of very many a random part."""
    n = len(attribute.codes)
    if n <= MOST_SCORED:
        return np.arange(n)
    known = np.flatnonzero(attribute.codes != NOBODY)
    order = stream(random_state, SCORED_STREAM, 0).permutation(known)
    return np.sort(order[:N_SCORED])


def _at(answers: Answers, scored: IntArray) -> Answers:
    """(split, scored record) the answers of those who are scored."""
    return Answers(
        of_truth=answers.of_truth[:, scored],
        predicted=answers.predicted[:, scored],
        spent=answers.spent,
        copied=answers.copied[:, scored],
    )


def _with_notes(
    facts: ReleaseFacts, splits: Splits, *, n_people: int, n_scored: int
) -> ReleaseFacts:
    """Facts of how tables were made, and of whom."""
    sizes = [len(rows) for rows in splits.train]
    notes = [
        f"Every table was made from about {round(sum(sizes) / len(sizes)):,} of "
        f"{n_people:,} records; a table made from all of them was not audited.",
        *_note_of_scored(n_people, n_scored),
    ]
    config = dict(facts.config or {})
    config.pop("threshold", None)
    return replace(
        facts, config=config, mechanism="unknown", notes=[*facts.notes, *notes]
    )


def _note_of_scored(n_people: int, n_scored: int) -> list[str]:
    if n_scored == n_people:
        return []
    return [f"Of {n_people:,} records a random {n_scored:,} were scored."]


class _Scored(NamedTuple):
    """Those who are scored, in groups that may be released."""

    attribute: Attribute
    member: BoolArray  # (split, record) whether the table was made from it
    is_positive: BoolArray
    persons: IntArray | None
    has_task: bool
    not_written: Mapping[str, str]

    @classmethod
    def of(
        cls,
        people: People,
        member: BoolArray,
        scored: IntArray,
        facts: ReleaseFacts,
    ) -> _Scored:
        """Join or leave out groups that are too small."""
        records = people.records
        has_task = people.task is not None
        member = member[:, scored]
        attribute = people.attribute.at(scored)
        is_positive = records.is_positive[scored]
        persons = None if records.persons is None else records.persons[scored]
        owners = np.arange(len(scored)) if persons is None else persons
        kinds = np.stack([owners, is_positive, attribute.codes])
        rows = np.unique(kinds, axis=1, return_index=True)[1]
        models = [_model(rows, inside, is_positive, has_task) for inside in member]
        allowed = allowed_groups(
            facts.disclosure,
            [attribute],
            models,
            names=facts.group_names,
            are_apart=True,
        )
        (attribute,) = allowed.attributes
        require_everybody(attribute, member)
        return cls(
            attribute, member, is_positive, persons, has_task, allowed.not_written
        )


def _model(
    rows: IntArray, inside: BoolArray, is_positive: BoolArray, has_task: bool
) -> Model:
    """Whom a table counts; without labels everybody counts with either."""
    part = np.where(inside[rows], 0, 1)
    if has_task:
        return Model(rows, part, is_positive[rows])
    either = np.repeat([True, False], len(rows))
    return Model(np.tile(rows, 2), np.tile(part, 2), either)


def _counted(
    people: _Scored,
    candidates: Sequence[Candidate],
    answers: Sequence[Answers],
    facts: ReleaseFacts,
) -> Counted:
    """Counts, exposures, copies and losses of every setting."""
    attribute = people.attribute
    settings = []
    for candidate, answer in zip(candidates, answers, strict=True):
        settings.append([_scores(people, candidate, answer)])
    models = [(split, f"split {split + 1}") for split in range(len(people.member))]
    counted = count_models(attribute, [view for (view,) in settings], models)
    counted = replace(counted, only_sizes=not people.has_task)
    if people.has_task:
        (counted,) = guarded(
            [counted], [attribute], answered_by(settings), facts.disclosure
        )
    (counted,) = add_exposures(
        [counted],
        settings,
        facts,
        no_coin="" if people.persons is None else NO_COIN,
        without=[attack_kinds.GAP.name],
    )
    copies = []
    for (view,), answer in zip(settings, answers, strict=True):
        if view.has_probabilities:
            copies += copies_of(view, answer.copied, facts.disclosure)
    counted = replace(counted, copies=copies)
    if people.has_task:
        losses = _losses(people, candidates, answers)
        return replace(counted, accuracy_loss=losses)
    no_answers = dict.fromkeys(OF_ANSWERS)
    no_benefit = {"benefit_covariance": None}
    pooled = [row.model_copy(update=no_benefit) for row in counted.pooled]
    placebo = [row.model_copy(update=no_answers) for row in counted.placebo]
    return replace(counted, pooled=pooled, placebo=placebo)


def _scores(people: _Scored, candidate: Candidate, answers: Answers) -> SettingScores:
    """One setting's tables; that of the real half has predictions alone."""
    is_positive = people.is_positive
    return SettingScores(
        logits=np.where(is_positive, answers.of_truth, -answers.of_truth),
        labels=is_positive.astype(np.int64),
        member=people.member,
        group=people.attribute.codes,
        group_names=people.attribute.groups,
        predicted=answers.predicted,
        has_probabilities=candidate.model != REAL or not people.has_task,
        of_tables=True,
        epsilon=candidate.epsilon,
        model=candidate.model,
    )


def _released_epsilon(candidate: Candidate) -> float | None:
    return None if math.isinf(candidate.epsilon) else candidate.epsilon


def _losses(
    people: _Scored, candidates: Sequence[Candidate], answers: Sequence[Answers]
) -> list[AccuracyLoss]:
    """By how much a model is less often right if it is trained on the tables."""
    right = [answer.predicted == people.is_positive for answer in answers]
    rows = []
    for candidate, of_table in zip(candidates[:-1], right[:-1], strict=True):
        losses = accuracy_losses(of_table, right[-1], people.member)
        for k, group in enumerate(people.attribute.groups):
            value, error, n = losses.of_group(people.attribute.codes == k)
            rows.append(
                AccuracyLoss(
                    model=candidate.model,
                    epsilon=_released_epsilon(candidate),
                    group=group,
                    value=value,
                    standard_error=finite_or_none(error),
                    n_records=n,
                )
            )
    return rows
