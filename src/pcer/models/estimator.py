"""How does an estimator become a release? Fit clones on splits, attack, count.

Anything with scikit-learn's protocol will do: pipelines, XGBoost, LightGBM, skorch; and
any function that trains. Only the release leaves; scores of single records stay in
memory or in a store of their owner's. ``pcer train --estimator`` comes here. To add a
question about the model: an argument of both doors, handed on in ``plan``, ``About``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pcer.attacks import SettingScores, add_exposures, answered_by, count_models
from pcer.errors import InputError
from pcer.metrics import DEFAULT_SPLITS, BoolArray
from pcer.models.about import About, facts_of
from pcer.models.features import named_features, require_index
from pcer.models.fits import (
    Answers,
    OnProgress,
    Records,
    Running,
    fit_all,
    require_installed,
)
from pcer.models.splits import (
    TEST_SIZE,
    SplitPlan,
    Splits,
    effective_people,
    splits_of,
    state_of,
)
from pcer.models.training import (
    Candidate,
    Train,
    candidates_of,
    described,
    rounded_up,
    trainers_of,
    versions,
)
from pcer.models.traits import traits_of
from pcer.models.updates import people_of_records
from pcer.release import columns as convert
from pcer.release.build import ReleaseFacts, build_release, data_digest
from pcer.release.columns import SPLITS, require_one_length
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.release.joint import guarded
from pcer.release.population import (
    NOT_RECORDED,
    Attribute,
    are_enough,
    is_outside,
    named_attribute,
    without_unrecorded,
)
from pcer.release.records import Outcome
from pcer.release.small_groups import Allowed, Model, allowed_groups

CERTAIN = 36.0  # log odds beyond it are of a probability that is 0 or 1 in 64 bits
NO_COIN = (
    "people may have several records, and made-up groups are drawn record by record"
)


def release_from_estimator(  # noqa: PLR0913 # a front door
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    outcome: Outcome,
    n_splits: int = DEFAULT_SPLITS,
    positive_label: str | int | float | bool | None = None,
    test_size: float = TEST_SIZE,
    cv: Any = None,
    person_id: Any = None,
    subgroups: Any = None,
    drop_sensitive: bool = False,
    budgets: Mapping[str, Sequence[float | None]] | None = None,
    epsilon: Any = None,
    dp_delta: float | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | OnProgress = True,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
) -> Release:
    """Fit an estimator on many random splits: outcomes and exposure of each group.

    The release carries every attack that the splits allow: the gap, paired attacks,
    AUC, and from 8 splits on LiRA and RMIA. ``not_computed`` says why one is missing.
    It depends on arguments and random state, not on ``n_jobs`` or interruptions.

    Args:
        estimator: anything that scikit-learn can clone, fitted or not; or several by
            name, which become the models of one release.
        X: features of all records: numpy, pandas, polars, sparse, or what the estimator
            takes.
        y: labels.
        sensitive_features: the group of each record; several named columns are crossed.
            If X is a data frame: also the name of one of its columns, or a list of
            names. The model still sees them, unless ``drop_sensitive``.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        n_splits: how many splits, drawn independently.
        positive_label: which label is positive; needed unless labels are 0 and 1, or
            booleans. There may be more than two labels: the others are then negative.
        test_size: share of the records, or people, that a split holds out.
        cv: a random splitter of scikit-learn instead of independent splits.
        person_id: who has the record, where people have several: they are kept
            together.
        subgroups: attributes (names of columns of X, or columns by name): which
            combination of two values is hit hardest? At most one is named.
        drop_sensitive: leave columns that ``sensitive_features`` names out of X.
        budgets: the name of the parameter that carries epsilon, and the values it
            takes: ``{"epsilon": [0.5, 1, None]}``; None is a model without privacy
            (infinity).
        epsilon: the privacy budget, one number or a dict by the estimator's name; None
            or infinity is a model without differential privacy.
        dp_delta: the delta of every model with a budget.
        random_state: of splits and estimators. None: 0 for public data, else from
            ``disclosure.secret``, or drawn and kept in ``store``. Anyone who knows it
            can solve for people's groups and labels: for private data a small number is
            refused.
        n_jobs: how many are fitted at once, as for joblib; ``joblib.parallel_config``
            works, too.
        store: folder that keeps every finished split; the same call resumes there.
        progress: show a bar on stderr; or a function of (models done, models in all).
        about: what the release is about, in readers' words.
        disclosure: what may leave; by default what is safe for private records.

    Raises:
        InputError: one sentence that names the argument or the split, and the remedy.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> release = release_from_estimator(
    ...     LogisticRegression(), X, X[:, 0] > 0, n_splits=2, outcome="benefit",
    ...     sensitive_features={"side": np.where(X[:, 1] > 0, "left", "right")},
    ... )
    >>> [run.split for run in release.runs], release.subject.groups
    (['split 1', 'split 2'], ['left', 'right'])
    """
    require_installed()
    plan = SplitPlan(
        n_splits=n_splits, test_size=test_size, cv=cv, random_state=random_state
    )
    running = Running(
        n_jobs=n_jobs, store=None if store is None else Path(store), progress=progress
    )
    candidates = candidates_of(estimator, epsilon, budgets)
    all_features = X
    X, features = named_features(X, sensitive_features, drop_sensitive=drop_sensitive)
    require_index(X=X, y=y, sensitive_features=features, person_id=person_id)
    facts = facts_of(
        about,
        disclosure,
        outcome=outcome,
        split_kind="random",
        positive_label=positive_label,
        dp_delta=dp_delta,
    )
    attribute = named_attribute(
        features, About.of(about).attribute, facts.groups, facts.missing
    )
    records = records_of(X, y, attribute, positive_label, person_id)
    traits = traits_of(subgroups, len(records.y), all_features, features)
    records = replace(records, traits=traits)
    releases = releases_from_estimator(
        candidates, records, [attribute], plan, running, facts
    )
    rule = facts.disclosure
    release = releases[attribute.name]
    if not rule.secret or rule.public_data:
        return release
    people = people_of_records(X, records.is_positive, [attribute], rule.secret)
    return release.with_people(people)


def release_from_training(  # noqa: PLR0913 # a front door
    train: Train | Mapping[str, Train],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    outcome: Outcome,
    n_splits: int = DEFAULT_SPLITS,
    positive_label: str | int | float | bool | None = None,
    test_size: float = TEST_SIZE,
    cv: Any = None,
    person_id: Any = None,
    subgroups: Any = None,
    drop_sensitive: bool = False,
    epsilon: Any = None,
    dp_delta: float | None = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | OnProgress = True,
    about: About | Mapping[str, Any] | None = None,
    disclosure: Disclosure | Mapping[str, Any] | None = None,
    version: str | int | float | None = None,
) -> Release:
    """Train by your own function on many random splits: Opacus, Keras, a service.

    The arguments that are not named here are those of ``release_from_estimator``. One
    model is trained after another unless ``n_jobs`` is set.

    Args:
        train: called as ``train(X_train, y_train, seed)``; returns what has
            ``predict_proba``, or a function of records to probabilities: of the
            positive label, or a column for each label in sorted order. Several by name
            become the models of one release.
        X: features of all records.
        y: labels.
        sensitive_features: the group of each record.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        epsilon: the budget; or a function that gives what the model that ``train``
            returned has spent: the largest then counts, rounded up to two digits, and
            ``training.config`` has all. Of several functions a dict by name.
        store: folder that keeps every finished model; it needs a ``version``.
        version: what you call the present state of the function, since nobody sees
            whether it has changed: change it with the function.

    Raises:
        InputError: one sentence that names the argument or the split, and the remedy.
    """
    if store is not None and version is None:
        raise InputError(
            "a store needs the version of your function, which only you know: "
            "store=..., version=1; change it when the function changes.",
            field="version",
        )
    return release_from_estimator(
        trainers_of(train, epsilon, version),
        X,
        y,
        sensitive_features=sensitive_features,
        outcome=outcome,
        n_splits=n_splits,
        positive_label=positive_label,
        test_size=test_size,
        cv=cv,
        person_id=person_id,
        subgroups=subgroups,
        drop_sensitive=drop_sensitive,
        epsilon=epsilon,
        dp_delta=dp_delta,
        random_state=random_state,
        n_jobs=n_jobs,
        store=store,
        progress=progress,
        about=about,
        disclosure=disclosure,
    )


def records_of(
    X: Any, y: Any, attribute: Attribute, positive_label: object, person_id: Any
) -> Records:
    """What estimators are fitted to, checked."""
    if isinstance(y, list | tuple) or hasattr(y, "to_pylist"):  # the latter is pyarrow
        y = np.asarray(y)
    classes = convert.required_column(y, name="y")
    labels, _ = convert.values_of(y, name="y")
    persons = None
    if person_id is not None:
        persons = convert.required_column(person_id, name="person_id").codes
    require_one_length(
        X=X, y=labels, sensitive_features=attribute.codes, person_id=persons
    )
    if len(labels) < 2:
        raise InputError(
            "There is nothing to split: give at least two records.", field="y"
        )
    if len(classes.names) < 2:
        raise InputError(
            "y holds one label only, and a classifier needs two or more.", field="y"
        )
    n_of_label = np.bincount(classes.codes)
    positive = convert.positive_name(
        classes.names, positive_label, where="y", n=n_of_label
    )
    return Records(
        X=X,
        y=y if hasattr(y, "detach") else labels,  # a tensor stays one
        classes=classes,
        positive=positive,
        is_positive=convert.is_named(classes, positive),
        persons=persons,
    )


def releases_from_estimator(
    candidates: Sequence[Candidate],
    records: Records,
    attributes: Sequence[Attribute],
    plan: SplitPlan,
    running: Running,
    facts: ReleaseFacts,
) -> dict[str, Release]:
    """Draw splits, fit, attack and count: a release for each attribute allowed."""
    attributes = [
        _with_enough(attribute, records, plan, facts) for attribute in attributes
    ]
    random_state = state_of(plan.random_state, facts.disclosure, running.store)
    splits = splits_of(
        plan,
        records.classes.codes,
        records.persons,
        random_state,
        is_public=facts.disclosure.public_data,
        is_apart=is_outside(attributes),
    )
    member = splits.members(len(records.y))
    _require_both_labels(records.is_positive, member)
    allowed = _allowed(attributes, records, member, facts)
    facts = replace(facts, not_written=allowed.not_written)
    facts = with_training(facts, candidates, records, splits, random_state)
    answers = fit_all(candidates, records, splits, random_state, running)
    candidates, facts = _with_answers(candidates, answers, facts)
    return _releases(facts, records, candidates, member, allowed.attributes, answers)


def _with_enough(
    attribute: Attribute, records: Records, plan: SplitPlan, facts: ReleaseFacts
) -> Attribute:
    """The attribute; too few people without a value are no group, before any split."""
    rule = facts.disclosure
    if NOT_RECORDED not in attribute.groups or rule.public_data:
        return attribute
    place = attribute.groups.index(NOT_RECORDED)
    positive = records.is_positive[attribute.codes == place]
    if are_enough(positive, rule.least_people, plan.test_size):
        return attribute
    return without_unrecorded(attribute)


def _require_both_labels(positive: BoolArray, member: BoolArray) -> None:
    """Raise InputError where everybody who is trained on has one label."""
    for number, inside in enumerate(member, start=1):
        n_positive = int(positive[inside].sum())
        if n_positive in (0, int(inside.sum())):
            which = "negative" if n_positive == 0 else "positive"
            raise InputError(
                f"split {number}: everybody in the training part has a {which} label, "
                "and a classifier needs both; balance the splits with "
                "cv=StratifiedShuffleSplit(n_splits=20, test_size=0.3).",
                field="cv",
            )


def _allowed(
    attributes: Sequence[Attribute],
    records: Records,
    member: BoolArray,
    facts: ReleaseFacts,
) -> Allowed:
    """The groups that may be released, each with somebody in both parts."""
    for attribute in attributes:
        if len(attribute.groups) < 2:
            raise InputError(
                f"attribute {attribute.name!r} has {len(attribute.groups)} group; an "
                "audit needs at least two.",
                field="sensitive_features",
            )
    # One with several records of one label and the same groups counts once.
    positive = records.is_positive
    rows = np.arange(len(positive))
    if records.persons is not None:
        kinds = np.stack([records.persons, positive, *(a.codes for a in attributes)])
        rows = np.unique(kinds, axis=1, return_index=True)[1]
    models = (
        Model(rows, np.where(inside[rows], 0, 1), positive[rows]) for inside in member
    )
    allowed = allowed_groups(
        facts.disclosure,
        attributes,
        models,
        names=facts.group_names,
        are_apart=True,
    )
    for attribute in allowed.attributes:
        require_everybody(attribute, member)
    return allowed


def require_everybody(attribute: Attribute, member: BoolArray) -> None:
    """Raise InputError where a group has nobody in a part: of public data none join."""
    n_groups = len(attribute.groups)
    for number, inside in enumerate(member, start=1):
        for part, chosen in zip(SPLITS, (inside, ~inside), strict=True):
            people = np.bincount(1 + attribute.codes[chosen], minlength=1 + n_groups)
            absent = np.flatnonzero(people[1:] == 0)
            if absent.size:
                raise InputError(
                    f"split {number}: group {attribute.groups[absent[0]]!r} has nobody "
                    f"in the {part} part; join it with another group, leave it out "
                    "with about=pcer.About(groups=[...]), or change test_size.",
                    field="groups",
                )


def with_training(
    facts: ReleaseFacts,
    candidates: Sequence[Candidate],
    records: Records,
    splits: Splits,
    random_state: int,
) -> ReleaseFacts:
    """What is known of splits and models before anything is fitted."""
    import joblib

    disclosure = facts.disclosure
    config = {
        **splits.config,
        "threshold": "the estimator's own",
        "models": described(candidates),
        "versions": versions(candidates),
    }
    if disclosure.public_data:  # of private records it would reveal who was in a split
        config["random_state"] = random_state
    digest = None
    if disclosure.public_data or disclosure.secret:
        content = joblib.hash((records.X, records.y), hash_name="sha1")
        digest = data_digest(str(content).encode(), facts)
    is_bare = all(math.isinf(candidate.epsilon) for candidate in candidates)
    return replace(
        facts,
        splits="public" if disclosure.public_data else "secret",
        stratified_by=splits.stratified_by,
        unit_of_split=splits.unit,
        mechanism="none" if is_bare else "unknown",
        config=config,
        notes=[*facts.notes, *splits.notes],
        data_digest=digest,
    )


def _with_answers(
    candidates: Sequence[Candidate], answers: Sequence[Answers], facts: ReleaseFacts
) -> tuple[list[Candidate], ReleaseFacts]:
    """Settings and facts with what models spent, and a note of those that are certain.

    Of what models of a setting spent the largest counts, rounded up to two digits.
    """
    settings = []
    spent_by_name = {}
    notes = [*facts.notes]
    for candidate, answer in zip(candidates, answers, strict=True):
        setting = candidate
        spent = answer.spent.tolist()
        if not np.isnan(spent).any():  # what models say of themselves
            spent_by_name[candidate.name] = [x if x < math.inf else None for x in spent]
            setting = candidate._replace(epsilon=rounded_up(max(spent), 2))
        settings.append(setting)
        least_sure = abs(answer.of_truth).min()
        if setting.has_probabilities and least_sure > CERTAIN:
            notes.append(
                f"Every probability of {setting.name} is 0 or 1: attacks by "
                "confidence see its answers alone."
            )
    config = dict(facts.config or {})
    if spent_by_name:
        config["epsilon_of_models"] = spent_by_name
    return settings, replace(facts, config=config, notes=notes)


def _releases(
    facts: ReleaseFacts,
    records: Records,
    candidates: Sequence[Candidate],
    member: BoolArray,
    attributes: Sequence[Attribute],
    answers: Sequence[Answers],
) -> dict[str, Release]:
    """Counts and exposures of every setting, in a release for each attribute."""
    settings = [
        _scores(candidate, answer, records, member, attributes)
        for candidate, answer in zip(candidates, answers, strict=True)
    ]
    # Names of splits tell of no row.
    models = [(split, f"split {split + 1}") for split in range(len(member))]
    counted = []
    for attribute, *scores in zip(attributes, *settings, strict=True):
        counted.append(count_models(attribute, scores, models))
    answered = answered_by(settings)._replace(persons=records.persons)
    counted = guarded(counted, attributes, answered, facts.disclosure)
    no_coin = "" if records.persons is None else NO_COIN
    counted = add_exposures(counted, settings, facts, no_coin=no_coin)
    releases = {}
    for attribute, counts in zip(attributes, counted, strict=True):
        if records.persons is not None:
            units = effective_people(attribute, records.persons)
            facts = replace(facts, effective_units=units)
        releases[attribute.name] = build_release(facts, counts, file=facts.dataset)
    return releases


def _scores(
    candidate: Candidate,
    answers: Answers,
    records: Records,
    member: BoolArray,
    attributes: Sequence[Attribute],
) -> list[SettingScores]:
    """One setting's models, by attribute."""
    positive = records.is_positive
    logits = np.where(positive, answers.of_truth, -answers.of_truth)
    labels = positive.astype(np.int64)
    return [
        SettingScores(
            logits=logits,
            labels=labels,
            member=member,
            group=attribute.codes,
            group_names=attribute.groups,
            predicted=answers.predicted,
            from_probabilities=candidate.has_probabilities,
            has_probabilities=candidate.has_probabilities,
            epsilon=candidate.epsilon,
            model=candidate.model,
            person=records.persons,
            traits=records.traits,
        )
        for attribute in attributes
    ]
