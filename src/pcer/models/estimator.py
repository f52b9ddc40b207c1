"""From any estimator to a release: fit a fresh clone on many splits, attack, count.

Anything with scikit-learn's protocol will do: pipelines, searches, XGBoost, LightGBM,
skorch. Only the release leaves; scores of single records stay in memory or in a store
that only their owner can read.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pcer.attacks import BudgetScores, count_models, with_costs
from pcer.errors import InputError, door, not_installed, require_at_least
from pcer.metrics import DEFAULT_SPLITS, BoolArray
from pcer.models import fits
from pcer.models.fits import Answers, Candidate, OnProgress, Records
from pcer.models.labels import require_one_index, require_one_length
from pcer.models.options import Options, option_remedies
from pcer.models.splits import given_splits, random_splits, state_of
from pcer.release import columns as convert
from pcer.release.build import ReleaseFacts, build_release, data_digest
from pcer.release.columns import SPLITS
from pcer.release.file import Release
from pcer.release.records import Outcome
from pcer.release.small_groups import Allowed, Attribute, Model, allowed_groups


@door(option_remedies)
def release_from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    outcome: Outcome,
    positive_label: str | int | float | bool | None = None,
    n_splits: int = DEFAULT_SPLITS,
    random_state: int | None = None,
    progress: bool | OnProgress = True,
    options: Options | None = None,
) -> Release:
    """Fit an estimator on many random splits and release outcomes and exposure of each group.

    The release carries every attack that the splits allow: the gap, paired attacks,
    AUC, and from 8 splits on LiRA and RMIA. ``not_computed`` says why one is missing.
    It depends on the arguments and the random state, not on ``n_jobs`` or
    interruptions.

    Args:
        estimator: anything that scikit-learn can clone, fitted or not; or several by
            name, which become the models of one release.
        X: features of all records: numpy, pandas, polars, sparse, or what the estimator
            takes.
        y: labels.
        sensitive_features: the group of each record; several named columns are crossed.
            If X is a data frame: also the name of one of its columns, or a list of
            names. The model still sees them, unless ``options.drop_sensitive``.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        positive_label: which label is positive; needed unless labels are 0 and 1, or
            booleans. There may be more than two labels: the others are then negative.
        n_splits: how many splits, drawn independently.
        random_state: of splits and estimators. None: 0 for public data, else from
            ``options.secret``, or drawn and kept in ``options.store``. Anyone who knows
            it can
            solve for people's groups and labels: for private data a small number is
            refused.
        progress: show a bar on stderr; or a function of (models done, models in all).
        options: splits, people, budgets, store, disclosure and more; see
            ``pcer.Options``.

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
    for module, package in (("sklearn", "scikit-learn"), ("joblib", "joblib")):
        if importlib.util.find_spec(module) is None:
            raise not_installed(package, extra="sklearn", needed_by="fitting")
    options = Options.of(options)
    X, features = _named_features(X, sensitive_features, options)
    require_one_index(
        X=X, y=y, sensitive_features=features, person_id=options.person_id
    )
    attribute = options.attribute_of(features)
    made = releases_from_estimator(
        estimator,
        X,
        y,
        attributes=[attribute],
        outcome=outcome,
        positive_label=positive_label,
        n_splits=n_splits,
        random_state=random_state,
        progress=progress,
        options=options,
    )
    return made[attribute.name]


def _named_features(X: Any, features: Any, options: Options) -> tuple[Any, Any]:
    """X, perhaps without them, and the columns of it that the features name; or both as given."""
    import narwhals as nw

    names = [features] if isinstance(features, str) else features
    columns = dict[str, Any]()
    if nw.dependencies.is_into_dataframe(X):
        columns = convert.columns_of(X) or {}
    is_list = (
        bool(columns) and isinstance(features, list | tuple) and len(features) != len(X)
    )
    if not is_list and not isinstance(features, str):
        if options.drop_sensitive:
            rule = "drop_sensitive needs names of columns of X as sensitive_features"
            raise InputError(
                f"{rule}; give these, or leave it out.", field="drop_sensitive"
            )
        return X, features
    for name in (name for name in names if name not in columns):
        has = (
            f"X has {', '.join([*columns][:10])}"
            if columns
            else "X has no columns with names"
        )
        raise InputError(
            f"sensitive_features names {name!r}, but {has}; name a column of a data frame X, or "
            "give the group of each record.",
            field="sensitive_features",
        )
    if options.drop_sensitive:
        X = nw.from_native(X, eager_only=True).drop(names).to_native()
    return X, {name: columns[name] for name in names}


def releases_from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    attributes: Sequence[Attribute],
    outcome: Outcome,
    positive_label: str | int | float | bool | None,
    n_splits: int,
    random_state: int | None,
    progress: bool | OnProgress,
    options: Options,
) -> dict[str, Release]:
    """A release for each attribute that can have one; arguments of ``release_from_estimator``."""
    options.require_taken("release_from_estimator")
    require_at_least(1, n_splits=n_splits)
    candidates = fits.candidates_of(estimator, options.epsilon, options.budgets)
    records = _records(X, y, attributes, positive_label, options)
    random_state = state_of(random_state, options)
    if options.cv is None:
        splits = random_splits(
            n_splits, len(records.y), records.persons, options.test_size, random_state
        )
    else:
        splits = given_splits(
            options, records.classes.codes, records.persons, random_state
        )
    config = {
        **splits.config,
        "threshold": "the estimator's own",
        "models": fits.described(candidates),
        "versions": fits.versions(candidates),
        # that of private records would reveal who was in which split
        **({"random_state": random_state} if options.public_data else {}),
    }
    member = splits.members(len(records.y))
    allowed = _allowed(attributes, records, options, member)
    facts = options.facts(
        outcome,
        "random",
        stratified_by=splits.stratified_by,
        unit_of_split=splits.unit,
        positive_label=positive_label,
        mechanism="none"
        if all(math.isinf(c.epsilon) for c in candidates)
        else "unknown",
        config=config,
        notes=[*options.notes, *splits.notes],
        not_written=allowed.not_written,
    )
    if options.public_data or options.secret:
        import joblib

        content = str(joblib.hash((records.X, records.y), hash_name="sha1")).encode()
        facts = replace(facts, data_digest=data_digest(content, facts))
    with _shown(progress) as on_progress:
        answers = fits.fit_all(
            candidates, records, splits, random_state, options, on_progress
        )
    spent = {
        c.name: each.tolist() for c, (*_, each) in zip(candidates, answers, strict=True)
    }
    if told := {name: own for name, own in spent.items() if not np.isnan(own).any()}:
        largest = {name: fits.rounded_up(max(own), 2) for name, own in told.items()}
        candidates = [
            c._replace(epsilon=largest.get(c.name, c.epsilon)) for c in candidates
        ]
        every = {
            name: [x if x < math.inf else None for x in own]
            for name, own in told.items()
        }
        facts = replace(facts, config={**config, "epsilon_of_models": every})
    scored = zip(candidates, answers, strict=True)
    sure = [
        c.name
        for c, (a, *_) in scored
        if c.has_probabilities and abs(a).min() > fits.CERTAIN
    ]
    facts = replace(facts, notes=[*facts.notes, *map(fits.ALL_CERTAIN.format, sure)])
    return _releases(facts, records, candidates, member, allowed.attributes, answers)


def _records(
    X: Any, y: Any, attributes: Sequence[Attribute], positive: object, options: Options
) -> Records:
    y = (
        np.asarray(y) if isinstance(y, list | tuple) or hasattr(y, "to_pylist") else y
    )  # pyarrow
    classes = convert.required_column(y, name="y")
    (labels, _) = convert.values_of(y, name="y")
    persons = None
    if options.person_id is not None:
        persons = convert.required_column(options.person_id, name="person_id").codes
    codes = attributes[0].codes
    require_one_length(X=X, y=labels, sensitive_features=codes, person_id=persons)
    if len(labels) < 2:
        raise InputError(
            "There is nothing to split: give at least two records.", field="y"
        )
    if len(classes.names) < 2:
        raise InputError(
            "y holds one label only, and a classifier needs two or more.", field="y"
        )
    return Records(
        X=X,
        y=y if hasattr(y, "detach") else labels,  # a tensor stays one
        classes=classes,
        positive=convert.positive_name(
            classes.names, positive, where="y", n=np.bincount(classes.codes)
        ),
        persons=persons,
    )


@contextmanager
def _shown(progress: bool | OnProgress) -> Iterator[OnProgress]:
    """A bar on stderr where somebody may see it; or the caller's own."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    hidden = not progress or not (console.is_terminal or console.is_jupyter)
    with Bar(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("Fitting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _allowed(
    attributes: Sequence[Attribute],
    records: Records,
    options: Options,
    member: BoolArray,
) -> Allowed:
    """The groups that may be released; refuses a split that nothing can be learnt from."""
    positive = records.is_positive
    for number, inside in enumerate(member, start=1):
        n_positive = int(positive[inside].sum())
        if n_positive in (0, int(inside.sum())):
            which = "negative" if n_positive == 0 else "positive"
            raise InputError(
                f"split {number}: everybody in the training part has a {which} label, and a "
                "classifier needs both; balance the splits with "
                "cv=StratifiedShuffleSplit(n_splits=20, test_size=0.3).",
                field="cv",
            )
    for own in attributes:
        if len(own.groups) < 2:
            raise InputError(
                f"attribute {own.name!r} has {len(own.groups)} group; an audit needs at least two.",
                field="sensitive_features",
            )
    # One with several records of one label and the same groups counts once.
    persons = np.arange(len(positive)) if records.persons is None else records.persons
    alike = np.stack([persons, positive, *(own.codes for own in attributes)])
    rows = np.unique(alike, axis=1, return_index=True)[1]
    models = (
        Model(rows, np.where(inside[rows], 0, 1), positive[rows]) for inside in member
    )
    allowed = allowed_groups(
        options.disclosure, attributes, models, names=options.group_names
    )
    for own in allowed.attributes:
        for number, inside in enumerate(
            member, start=1
        ):  # of public records none are joined
            for part, chosen in zip(SPLITS, (inside, ~inside), strict=True):
                for absent in np.setdiff1d(
                    np.arange(len(own.groups)), own.codes[chosen]
                ):
                    raise InputError(
                        f"split {number}: group {own.groups[absent]!r} has nobody in the {part} "
                        "part; join it with another group, leave it out with groups=[...], or "
                        "change test_size.",
                        field="groups",
                    )
    return allowed


def _releases(
    facts: ReleaseFacts,
    records: Records,
    candidates: Sequence[Candidate],
    member: BoolArray,
    attributes: Sequence[Attribute],
    answers: Sequence[Answers],
) -> dict[str, Release]:
    """Counts and costs of every setting, in a release for each attribute."""
    positive = records.is_positive
    labels = records.is_positive.astype(np.int64)
    settings = []
    for candidate, (of_truth, predicted, _) in zip(candidates, answers, strict=True):
        logits = np.where(positive, of_truth, -of_truth)
        settings.append(
            [
                BudgetScores(
                    logits=logits,
                    labels=labels,
                    member=member,
                    group=own.codes,
                    group_names=own.groups,
                    predicted=predicted,
                    from_probabilities=candidate.has_probabilities,
                    has_probabilities=candidate.has_probabilities,
                    epsilon=candidate.epsilon,
                    model=candidate.model,
                )
                for own in attributes
            ]
        )
    models = [
        (split, f"split {split + 1}") for split in range(len(member))
    ]  # tells of no row
    by_attribute = zip(attributes, zip(*settings, strict=True), strict=True)
    counted = [count_models(own, views, models) for own, views in by_attribute]
    releases = {}
    persons = records.persons
    no_coin = ""
    if persons is not None:
        no_coin = "people may have several records, and made-up groups are drawn record by record"
    counted = with_costs(counted, settings, facts, no_coin=no_coin)
    for own, counts in zip(attributes, counted, strict=True):
        if persons is not None:
            several = [
                np.bincount(persons[own.codes == k]) for k in range(len(own.groups))
            ]
            # Kish's effective number of people: (sum m)^2 / sum m^2
            units = [float(m.sum() ** 2 / (m**2).sum()) for m in several]
            facts = replace(
                facts, effective_units=dict(zip(own.groups, units, strict=True))
            )
        releases[own.name] = build_release(facts, counts, file=facts.dataset)
    return releases
