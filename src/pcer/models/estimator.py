"""From any estimator to a release: fitted anew on many splits, attacked, counted.

Anything with scikit-learn's protocol will do: pipelines, searches, XGBoost, LightGBM, skorch. What
leaves is a release; the models' scores of single records stay here, or in a store that only their
owner can read.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.attacks import BudgetScores, with_costs
from pcer.errors import InputError, not_installed, require_at_least
from pcer.metrics import DEFAULT_SPLITS, BoolArray, IntArray
from pcer.models import fits
from pcer.models.fits import Answers, Candidate, OnProgress, Records
from pcer.models.labels import require_one_index, require_one_length
from pcer.models.options import OF_PREDICTIONS, Options
from pcer.models.splits import given_splits, random_splits
from pcer.release import columns as convert
from pcer.release.build import Entries, ReleaseFacts, RunKey, build_release, count_entries
from pcer.release.columns import CROSSING, SPLITS
from pcer.release.disclosure import allowed_groups
from pcer.release.format import Outcome, Release


def release_from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    outcome: Outcome,
    positive_label: str | int | float | bool | None = None,
    n_splits: int = DEFAULT_SPLITS,
    random_state: int = 0,
    progress: bool | OnProgress = True,
    options: Options | None = None,
) -> Release:
    """Fit an estimator on many random splits and release what it gives and takes, group by group.

    The release carries every cost that the splits allow: the gap, paired costs, AUC, and from 8
    splits on LiRA and RMIA. ``not_computed`` says why one is missing. It depends on the arguments
    and ``random_state`` alone, not on ``n_jobs`` nor on how often the call was interrupted.

    Args:
        estimator: anything that scikit-learn can clone, fitted or not; or several by name, which
            become the models of one release.
        X: features of all records: numpy, pandas, polars, sparse, or what the estimator takes.
        y: labels.
        sensitive_features: the group of each record; several named columns are crossed.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        positive_label: which label is positive; needed unless labels are 0 and 1, or booleans.
            There may be more than two labels: the others are then negative.
        n_splits: how many splits, each drawn by itself.
        random_state: of splits and estimators.
        progress: show a bar on stderr; or a function of (models done, models in all).
        options: splits, people, budgets, store, disclosure and more; see ``pcer.Options``.

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
            raise not_installed(package, extra="sklearn", needed_by="release_from_estimator")
    options = Options() if options is None else options
    options.refuse(
        OF_PREDICTIONS,
        door="release_from_estimator",
        remedy="it is about predictions made elsewhere (positive_label is an argument here, and "
        "scikit-learn's FixedThresholdClassifier has a threshold)",
    )
    require_at_least(0, random_state=random_state)
    require_at_least(1, n_splits=n_splits)
    candidates = fits.candidates_of(estimator, options.epsilon, options.budgets)
    require_one_index(X=X, y=y, sensitive_features=sensitive_features, person_id=options.person_id)
    records = _records(X, y, sensitive_features, positive_label, options)
    if options.cv is None:
        splits = random_splits(
            n_splits, len(records.y), records.persons, options.test_size, random_state
        )
    else:
        splits = given_splits(options.cv, records.classes.codes, records.persons, random_state)
    config = {
        **splits.config,
        "threshold": "the estimator's own",
        "models": fits.described(candidates),
        "versions": fits.versions(candidates),
        # the one of private records would tell who was in which split
        **({"random_state": random_state} if options.public_data else {}),
    }
    facts = options.facts(
        outcome,
        "random",
        stratified_by=splits.stratified_by,
        unit_of_split=splits.unit,
        positive_label=positive_label,
        mechanism="none" if all(math.isinf(c.epsilon) for c in candidates) else "unknown",
        config=config,
        data_digest=_digest(records, options),
        notes=[*options.notes, *splits.notes],
    )
    member = splits.members(len(records.y))
    groups = _allowed_groups(records, facts, member)
    if records.persons is not None:
        facts = replace(facts, effective_units=groups.effective_units)
    with _shown(progress) as on_progress:
        answers = fits.fit_all(
            candidates,
            records,
            splits,
            random_state=random_state,
            n_jobs=options.n_jobs,
            store=None if options.store is None else Path(options.store),
            on_progress=on_progress,
        )
    return _release(facts, records, candidates, member, groups, answers)


def _records(X: Any, y: Any, features: Any, positive: object, options: Options) -> Records:
    attributes = convert.named_columns(features, options.attribute)
    group = convert.cross([convert.column_of(values, name) for name, values in attributes.items()])
    classes, (labels, _) = convert.required_column(y, name="y"), convert.values_of(y, name="y")
    persons = None
    if options.person_id is not None:
        persons = convert.required_column(options.person_id, name="person_id").codes
    require_one_length(X=X, y=labels, sensitive_features=group.codes, person_id=persons)
    if len(labels) < 2:
        raise InputError("There is nothing to divide: give at least two records.", field="y")
    if len(classes.names) < 2:
        raise InputError("y holds one label only, and a classifier needs two or more.", field="y")
    return Records(
        X=X,
        y=labels,
        classes=classes,
        positive=convert.positive_name(classes.names, positive, where="y"),
        persons=persons,
        group=group,
        attribute=CROSSING.join(attributes) if options.attribute is None else options.attribute,
    )


def _digest(records: Records, options: Options) -> str | None:
    """What names the records in a release: keyed, unless anybody may have them."""
    import joblib

    if not (options.public_data or options.secret):
        return None
    content = str(joblib.hash((records.X, records.y), hash_name="sha1")).encode()
    if not options.secret:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
    return f"hmac-sha256:{hmac.new(options.secret, content, hashlib.sha256).hexdigest()}"


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


class _Groups(NamedTuple):
    """The groups that may be released."""

    names: tuple[str, ...]
    codes: IntArray  # (record,) position in names; -1 for records in none
    effective_units: dict[str, float]  # people these are worth: (sum m)^2 / sum m^2, by Kish
    note: str  # what became of small groups; empty where nothing did


def _allowed_groups(records: Records, facts: ReleaseFacts, member: BoolArray) -> _Groups:
    """The groups that may be released; refuses a split that nothing can be learnt from."""
    positive, names = records.is_positive, facts.group_names(records.group.names)
    for number, inside in enumerate(member, start=1):
        n_positive = int(positive[inside].sum())
        if n_positive in (0, int(inside.sum())):
            which = "negative" if n_positive == 0 else "positive"
            raise InputError(
                f"split {number}: everybody in the training part has a {which} label, and "
                "nothing can be learnt from one label; balance the splits with "
                "cv=StratifiedShuffleSplit(n_splits=20, test_size=0.3).",
                field="cv",
            )
    if len(names) < 2:
        raise InputError(
            f"attribute {records.attribute!r} has {len(names)} group; an audit needs at least two.",
            field="sensitive_features",
        )
    codes = convert.recode(records.group, names)
    persons = np.arange(len(codes)) if records.persons is None else records.persons
    cells, rows = 2 * codes + positive, np.flatnonzero(codes >= 0)
    pairs = persons[rows] * cells.size + cells[rows]
    rows = rows[np.unique(pairs, return_index=True)[1]]  # one with several records counts once
    shape = (len(SPLITS), len(names), 2)
    places = [np.where(inside[rows], 0, 2 * len(names)) + cells[rows] for inside in member]
    counts = [np.bincount(place, minlength=math.prod(shape)).reshape(shape) for place in places]
    allowed = allowed_groups(facts.disclosure, np.array(counts), names, attribute=records.attribute)
    codes = allowed.apply(codes)
    for number, inside in enumerate(member, start=1):  # of public records none are joined
        for part, chosen in zip(SPLITS, (inside, ~inside), strict=True):
            for absent in np.setdiff1d(np.arange(len(allowed.names)), codes[chosen]):
                raise InputError(
                    f"split {number}: group {allowed.names[absent]!r} has nobody in the {part} "
                    "part; join it with another group, leave it out with groups=[...], or change "
                    "test_size.",
                    field="groups",
                )
    several = [np.bincount(persons[codes == k]) for k in range(len(allowed.names))]
    units = [float(m.sum() ** 2 / (m**2).sum()) for m in several]
    return _Groups(allowed.names, codes, dict(zip(allowed.names, units, strict=True)), allowed.note)


def _release(
    facts: ReleaseFacts,
    records: Records,
    candidates: Sequence[Candidate],
    member: BoolArray,
    groups: _Groups,
    answers: Sequence[Answers],
) -> Release:
    """Counts and costs of every setting, in one release."""
    counts, settings = [], []
    for candidate, (of_truth, predicted) in zip(candidates, answers, strict=True):
        scores = BudgetScores(
            logits=np.where(records.is_positive, of_truth, -of_truth),
            labels=records.is_positive.astype(np.int64),
            member=member,
            group=groups.codes,
            group_names=groups.names,
            predicted=predicted,
            from_probabilities=candidate.has_probabilities,
            has_probabilities=candidate.has_probabilities,
            epsilon=candidate.epsilon,
            model=candidate.model,
        )
        settings.append([scores])
        for split, inside in enumerate(member):  # one by one: there may be many
            entries = Entries(
                run=np.zeros(len(inside), dtype=np.int64),
                split=np.where(inside, 0, 1),
                group=groups.codes,
                positive=records.is_positive,
                predicted=predicted[split],
            )
            name = f"split {split + 1}"  # which tells nothing about rows
            key = RunKey(scores.released_epsilon, split, name, candidate.model)
            counts.append(
                count_entries(entries, [key], attribute=records.attribute, groups=groups.names)
            )
    notes = [*counts[0].notes, *filter(None, [groups.note])]
    counted = replace(counts[0], runs=tuple(run for own in counts for run in own.runs), notes=notes)
    no_coin = "people may have several records, and coins are flipped for single ones"
    no_coin = "" if records.persons is None else no_coin
    (counted,) = with_costs([counted], settings, facts, no_coin=no_coin)
    return build_release(facts, counted, file=facts.dataset)
