"""How do predictions of any model, in any dataframe library, become a release?

One table can hold many models: give ``seed`` and ``epsilon`` as columns. ``rows`` reads
and checks the columns; ``pcer.tables`` comes to ``releases_of``, too, so that the same
rows give the same release. To add an argument of predictions: a column as ``rows``
says, and the argument in both functions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import FloatArray, IntArray
from pcer.models import same_people
from pcer.models.about import About, facts_of
from pcer.models.rows import THRESHOLD, Predictions, Rows, rows_of
from pcer.models.splits import NO_COIN, PERSON, are_divided, effective_people
from pcer.models.traits import traits_of
from pcer.models.updates import people_of
from pcer.release import attack_kinds, build, joint
from pcer.release import columns as convert
from pcer.release.build import Counted, ReleaseFacts, RunKey
from pcer.release.columns import CROSSING, Coded
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.population import (
    NOT_RECORDED,
    Attribute,
    Missing,
    attribute_of,
    of_one_population,
)
from pcer.release.records import Outcome, SplitKind
from pcer.release.small_groups import Allowed, Model, allowed_groups

if TYPE_CHECKING:
    from pcer.attacks import SettingScores

IN_BOTH_PARTS = (
    "Some people have records in training and in test: errors take their records as "
    "independent, and are too small."
)
BY_DATABASE = (
    "the table was counted by its database, without scores; give fewer rows, or "
    "record_id"
)
NO_WEIGHTS = (
    "a release counts people; weights would make counts of nobody. Audit the sample "
    "and say so (about=pcer.About(notes=[...])), without sample_weight."
)


def release_from_predictions(  # noqa: PLR0913 # a front door
    y_true: Any,
    y_pred: Any = None,
    *,
    y_score: Any = None,
    sensitive_features: Any,
    split: Any,
    split_kind: SplitKind,
    outcome: Outcome,
    seed: Any = None,
    split_id: Any = None,
    record_id: Any = None,
    person_id: Any = None,
    subgroups: Any = None,
    sample_weight: None = None,
    positive_label: str | int | float | bool | None = None,
    threshold: float = THRESHOLD,
    reference: Any = None,
    membership_score: Any = None,
    epsilon: Any = None,
    dp_delta: float | None = None,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> Release:
    """Count predictions into a release; with ``record_id`` also attack the models.

    Gives the same counts and attacks as ``pcer release`` from a table with these
    columns.

    Args:
        y_true: labels.
        y_pred: predicted labels; or leave it out and give ``y_score``.
        y_score: probabilities in [0, 1] of the positive label; or a column for each
            label, named by it (a data frame) or in sorted order, as ``predict_proba``
            gives them.
        sensitive_features: the group of each record; several named columns (a dataframe
            or a dict) are crossed, as in fairlearn.
        split: "train" or "test" for each record; or a boolean mask of those trained on.
        split_kind: "random" if the split was drawn at random, else "other". Required,
            because every test of exposure rests on it.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        seed: one whole number or a column of them, of several models; floats only below
            2^53, where they are exact.
        split_id: one name or a column: which models used the same split.
        record_id: names a record in every model: each is then compared with itself,
            which allows stronger attacks, and the split's name is derived from who is
            in training. All models of a setting must have scored the same records.
        person_id: who has the record, where people have several: groups are then
            counted in people, and errors are those of so many.
        subgroups: attributes (columns by name, or names of ``sensitive_features``)
            whose combinations of up to two values are searched for the subgroup that is
            hit hardest; at most one is named. Needs ``record_id``.
        sample_weight: refused, since a release counts people.
        positive_label: which label is positive; needed unless labels are 0 and 1, or
            booleans. There may be more than two labels: the others are then negative.
        threshold: positive from this ``y_score`` on.
        reference: of one model that cannot be retrained: a column of scores for each
            reference model, trained on other people only, which cannot be checked.
            Gives ``reference_advantage``.
        membership_score: a column of your attack's scores, higher for likely members,
            missing where it has none; its AUC is released beside ours, by the column's
            name, and with ``record_id`` gets the same tests.
        epsilon: the privacy budget, one number or a column; None, NaN or infinity is a
            model without differential privacy.
        dp_delta: the delta of every model with a budget.
        about: what the release is about, in readers' words.
        disclosure: what may leave; by default what is safe for private records.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> release = release_from_predictions(
    ...     [1, 0, 1, 0],
    ...     [1, 1, 0, 0],
    ...     sensitive_features={"letter": ["a", "b", "a", "b"]},
    ...     split=["train", "train", "test", "test"],
    ...     split_kind="random",
    ...     outcome="benefit",
    ...     about=About(dataset="toy"),
    ...     disclosure=Disclosure(public_data=True),
    ... )
    >>> release.runs[0].groups["a"].train.n
    1
    """
    about = About.of(about)
    columns = convert.named_columns(sensitive_features, about.attribute)
    name = CROSSING.join(columns) if about.attribute is None else about.attribute
    releases = releases_from_predictions(
        y_true,
        y_pred,
        y_score=y_score,
        sensitive_features=columns,
        attributes={name: [*columns]},
        split=split,
        split_kind=split_kind,
        outcome=outcome,
        seed=seed,
        split_id=split_id,
        record_id=record_id,
        person_id=person_id,
        subgroups=subgroups,
        sample_weight=sample_weight,
        positive_label=positive_label,
        threshold=threshold,
        reference=reference,
        membership_score=membership_score,
        epsilon=epsilon,
        dp_delta=dp_delta,
        about=about,
        disclosure=disclosure,
    )
    return releases[name]


def releases_from_predictions(  # noqa: PLR0913 # a front door
    y_true: Any,
    y_pred: Any = None,
    *,
    y_score: Any = None,
    sensitive_features: Any,
    attributes: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    split: Any,
    split_kind: SplitKind,
    outcome: Outcome,
    seed: Any = None,
    split_id: Any = None,
    record_id: Any = None,
    person_id: Any = None,
    subgroups: Any = None,
    sample_weight: None = None,
    positive_label: str | int | float | bool | None = None,
    threshold: float = THRESHOLD,
    reference: Any = None,
    membership_score: Any = None,
    epsilon: Any = None,
    dp_delta: float | None = None,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> dict[str, Release]:
    """One release per protected attribute; none is about few people, even together.

    Takes what ``release_from_predictions`` takes, with ``sensitive_features`` as named
    columns. ``attributes`` are those wanted, the most important first, and crossings
    such as ``"sex & race"``, or the columns of each by name; by default every column
    alone. One that would reveal few people beside those before it is left out, and
    ``disclosure.not_written`` of the others says why.
    """
    if sample_weight is not None:
        raise InputError(NO_WEIGHTS, field="sample_weight")
    facts = facts_of(
        about,
        disclosure,
        outcome=outcome,
        split_kind=split_kind,
        positive_label=positive_label,
        dp_delta=dp_delta,
    )
    given = Predictions(
        y_true=y_true,
        y_pred=y_pred,
        y_score=y_score,
        split=split,
        seed=seed,
        epsilon=epsilon,
        split_id=split_id,
        record_id=record_id,
        person_id=person_id,
        reference=reference,
        membership_score=membership_score,
        positive_label=positive_label,
        threshold=threshold,
    )
    columns = convert.named_columns(sensitive_features, None)
    views = [*columns] if attributes is None else attributes
    if not isinstance(views, Mapping):
        views = convert.attribute_views(views, columns)
    for name in chain(*views.values()):
        if name not in columns:
            raise InputError(
                f"attributes name {name!r}, which is no column of sensitive_features.",
                field="attributes",
            )
    rows = rows_of(given, columns)
    rows = with_traits(rows, subgroups, columns)
    releases = releases_of(rows, views, facts, file="predictions")
    rule = facts.disclosure
    if not rule.secret or rule.public_data:
        return releases
    people = people_of(rows, views, rule.secret)
    return {
        name: release.with_people({name: people[name]})
        for name, release in releases.items()
    }


def with_traits(rows: Rows, subgroups: Any, columns: Mapping[str, Any]) -> Rows:
    """Rows with the attributes whose subgroups are searched."""
    if subgroups is not None and rows.record is None:
        raise InputError(
            "subgroups needs record_id, so that each record is compared with itself.",
            field="subgroups",
        )
    traits = traits_of(subgroups, len(rows.entries.run), columns)
    return replace(rows, traits=traits)


def releases_of(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    facts: ReleaseFacts,
    *,
    file: str,
    beside: Sequence[Release] = (),
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """Count, attack and build: a release for each view, by its name.

    A view names the attributes that it crosses. Existing releases of the same people,
    ``beside``, take precedence; errors name the ``file``.
    """
    facts = replace(
        facts,
        notes=[*facts.notes, *rows.notes],
        data_digest=facts.data_digest or rows.digest(facts),
    )
    keys = rows.keys
    if rows.record is not None:
        keys = _with_derived_names(rows, rows.record, facts)
    allowed = _allowed(rows, views, facts, beside)
    attributes = allowed.attributes
    facts = replace(facts, not_written=allowed.not_written)
    counted = _counted(rows, keys, allowed, facts)
    has_groups = all(len(attribute.groups) > 1 for attribute in attributes)
    if rows.record is not None and has_groups:
        from pcer.attacks import add_exposures

        settings = _settings(rows, rows.record, attributes)
        counted = add_exposures(
            counted,
            settings.scores,
            facts,
            no_coin=settings.no_coin,
            on_step=on_step,
        )
    elif has_groups and (rows.membership is not None or rows.logits is not None):
        counted = [
            _attacked_alone(counts, rows, attribute)
            for attribute, counts in zip(attributes, counted, strict=True)
        ]
    releases = {}
    for attribute, counts in zip(attributes, counted, strict=True):
        own_facts = _with_people(facts, rows, attribute)
        release = build.build_release(own_facts, counts, file=file)
        releases[counts.attribute] = release
    return releases if facts.data_digest else _as_family(releases)


def _as_family(releases: dict[str, Release]) -> dict[str, Release]:
    """Releases of the same people that say so, by a digest of what all of them hold."""
    if len(releases) < 2:
        return releases
    whole = "".join(release.to_json() for release in releases.values())
    digest = f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"
    family = {}
    for name, release in releases.items():
        provenance = release.provenance.model_copy(update={"made_with": digest})
        family[name] = release.model_copy(update={"provenance": provenance})
    return family


def _with_people(facts: ReleaseFacts, rows: Rows, attribute: Attribute) -> ReleaseFacts:
    """The facts; where people have records, who was divided, and how many they are."""
    if rows.persons is None:
        return facts
    models = _by_model(rows.entries.run)
    for places in models:
        if not are_divided(rows.persons[places], rows.entries.split[places]):
            return replace(facts, notes=[*facts.notes, IN_BOTH_PARTS])
    first, *_ = models
    units = effective_people(attribute.at(first), rows.persons[first])
    return replace(facts, unit_of_split=PERSON, effective_units=units)


def _counted(
    rows: Rows, keys: Sequence[RunKey], allowed: Allowed, facts: ReleaseFacts
) -> list[Counted]:
    """The counts by attribute, if neither two models nor all give anybody away."""
    attributes = [*allowed.beside, *allowed.attributes]
    counted = [
        build.count_entries(rows.entries, keys, attribute) for attribute in attributes
    ]
    rule = facts.disclosure
    if not rule.public_data:
        same_people.require_no_few(rows, attributes, rule.least_people)
    n_beside = len(allowed.beside)
    aligned = same_people.aligned(rows, attributes)
    if aligned is not None and not rule.public_data:
        warning = same_people.known_draw(aligned.answered.part)
        counted = [replace(own, notes=[*own.notes, *warning]) for own in counted]
    if aligned is not None:
        return joint.guarded(
            counted, aligned.attributes, aligned.answered, rule, n_beside=n_beside
        )
    if not rule.public_data:
        same_people.require_few_models(rows, attributes)
    return counted[n_beside:]


def _with_derived_names(rows: Rows, record: Coded, facts: ReleaseFacts) -> list[RunKey]:
    """The models; a split without a name gets one from its training records."""
    model_of_row = rows.entries.run
    pairs = model_of_row * len(record.names) + record.codes
    if len(np.unique(pairs)) < len(pairs):
        raise InputError(
            "record_id: a record appears twice in one model; give every model a "
            "different epsilon or seed.",
            field="record_id",
        )
    trained = []
    for places in _by_model(model_of_row):
        inside = places[rows.entries.split[places] == 0]
        trained.append([record.names[code] for code in record.codes[inside]])
    names = build.split_names(trained, facts)
    return [
        key._replace(split=key.split or name)
        for key, name in zip(rows.keys, names, strict=True)
    ]


def _allowed(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    facts: ReleaseFacts,
    beside: Sequence[Release],
) -> Allowed:
    """The views in groups that may be released."""
    attributes = []
    for release in beside:
        names = [release.subject.attribute, *other_attributes(release)]
        its_views = convert.attribute_views(names, rows.attributes)
        missing: Missing = "leave_out"
        if NOT_RECORDED in release.subject.groups:
            missing = "group"
        existing = _attributes(rows, its_views, missing=missing)
        attributes.append(of_one_population(existing)[0])
    attributes += _attributes(rows, views, facts.groups, facts.missing)
    models = _models(rows, attributes)
    return allowed_groups(
        facts.disclosure, attributes, models, beside, names=facts.group_names
    )


def other_attributes(release: Release) -> list[str]:
    """Other attributes of a release's command: who lacks one is in no table of it."""
    subject = release.subject
    named = dict.fromkeys(row.attribute for row in subject.left_out)
    return [name for name in named if name != subject.attribute]


def _attributes(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    wanted: Sequence[Any] | None = None,
    missing: Missing = "leave_out",
) -> list[Attribute]:
    attributes = []
    for name, parts in views.items():
        columns = [rows.attributes[part] for part in parts]
        attributes.append(attribute_of(name, columns, wanted, missing))
    return attributes


def _models(rows: Rows, attributes: Sequence[Attribute]) -> Iterator[Model]:
    """Parts and labels of each model's rows; of alike rows of a person one."""
    entries = rows.entries
    for everybody in _by_model(entries.run):
        places = everybody
        if rows.persons is not None:
            kind = [rows.persons, entries.split, entries.positive]
            kind += [attribute.codes for attribute in attributes]
            alike = np.stack([column[everybody] for column in kind])
            places = everybody[np.unique(alike, axis=1, return_index=True)[1]]
        n = None if entries.n is None else entries.n[places]
        yield Model(places, entries.split[places], entries.positive[places], n)


def _by_model(model_of_row: IntArray) -> list[IntArray]:
    """For each model, where its rows stand."""
    order = np.argsort(model_of_row, kind="stable")
    return np.split(order, np.cumsum(np.bincount(model_of_row))[:-1])


def _attacked_alone(counted: Counted, rows: Rows, attribute: Attribute) -> Counted:
    """The counts with attacks on each model alone; its records have no names."""
    from pcer.attacks import attack_models

    if rows.entries.n is not None:
        reason = {attack_kinds.AUC_ADVANTAGE.name: BY_DATABASE}
        return replace(counted, not_computed=reason)
    runs = []
    for run, places in zip(counted.runs, _by_model(rows.entries.run), strict=True):
        scores = _scores(rows, places[None], run.key.epsilon, [attribute])
        (attacked,) = attack_models(scores)
        runs.append(replace(run, exposure=attacked.runs[0]))
    return replace(counted, runs=tuple(runs))


class Settings(NamedTuple):
    """What attacks need: the scores of every setting's models."""

    scores: list[list[SettingScores]]  # by setting, then by attribute
    no_coin: str  # why no placebo groups can be drawn; empty where they can


def _settings(rows: Rows, record: Coded, attributes: Sequence[Attribute]) -> Settings:
    by_epsilon: dict[float | None, list[IntArray]] = {}
    for key, places in zip(rows.keys, _by_model(rows.entries.run), strict=True):
        by_epsilon.setdefault(key.epsilon, []).append(places)
    scores = []
    scored = []
    for epsilon, models in by_epsilon.items():
        place = _aligned(models, record.codes, epsilon)
        _require_same(rows.entries.positive, place, "y_true")
        for attribute in attributes:
            _require_same(attribute.codes, place, "sensitive_features")
        scored.append(record.codes[place[0]])
        scores.append(_scores(rows, place, epsilon, attributes))
    are_the_same = all(np.array_equal(records, scored[0]) for records in scored)
    no_coin = "" if are_the_same else "the budgets were scored on different records"
    if _have_several(rows):
        no_coin = NO_COIN
    return Settings(scores, no_coin)


def _have_several(rows: Rows) -> bool:
    """Whether somebody has several records in one model."""
    if rows.persons is None:
        return False
    first, *_ = _by_model(rows.entries.run)
    return len(np.unique(rows.persons[first])) < len(first)


def _scores(
    rows: Rows,
    place: IntArray,
    epsilon: float | None,
    attributes: Sequence[Attribute],
) -> list[SettingScores]:
    """One setting's models, by attribute; ``place`` is (model, record) the row."""
    from pcer.attacks import SettingScores

    entries = rows.entries
    predicted = entries.predicted[place]
    has_scores = rows.logits is not None
    logits = np.where(predicted, 1.0, -1.0)
    if rows.logits is not None:
        logits = rows.logits[place]
    of_any_group: dict[str, Any] = {
        "logits": logits,
        "labels": entries.positive[place[0]].astype(np.int64),
        "member": entries.split[place] == 0,
        "predicted": predicted,
        "reference": None if rows.reference is None else rows.reference[place],
        "from_probabilities": has_scores,
        "has_probabilities": has_scores,
        "own": _own_scores(rows, place),
        "epsilon": math.inf if epsilon is None else epsilon,
        "person": None if rows.persons is None else rows.persons[place[0]],
        "traits": {name: of[place[0]] for name, of in rows.traits.items()},
    }
    scores = []
    for attribute in attributes:
        group = attribute.codes[place[0]]
        scores.append(
            SettingScores(group=group, group_names=attribute.groups, **of_any_group)
        )
    return scores


def _own_scores(rows: Rows, place: IntArray) -> dict[str, FloatArray]:
    own = rows.membership
    return {} if own is None else {own.attack: own.values[place]}


def _aligned(
    models: Sequence[IntArray], record: IntArray, epsilon: float | None
) -> IntArray:
    """(model, record) the row of each record; all models of a budget must have it."""
    places = [rows[np.argsort(record[rows], kind="stable")] for rows in models]
    first = record[places[0]]
    n_strangers = max(len(np.setxor1d(record[rows], first)) for rows in places)
    if n_strangers:
        is_private = epsilon is not None
        budget = f"epsilon {epsilon:g}" if is_private else "the budget without privacy"
        raise InputError(
            "record_id: every model of a budget must have scored the same records, but "
            f"models of {budget} differ in {n_strangers:,}; remove records that some "
            "models lack, or leave record_id out.",
            field="record_id",
        )
    return np.array(places)


def _require_same(values: npt.NDArray[Any], place: IntArray, name: str) -> None:
    """Raise InputError unless a column is constant over the models of a record."""
    is_changed = (values[place] != values[place[0]]).any(axis=0)
    n_changed = int(is_changed.sum())
    if n_changed:
        raise InputError(
            f"{name} differs between models in {n_changed:,} records of one record_id; "
            "give every record one value.",
            field=name,
        )
