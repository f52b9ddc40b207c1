"""From predictions to a release: for any model, in any dataframe library.

Columns may be numpy arrays, lists, or Series of pandas, polars or pyarrow (through narwhals).
One table can hold many models: give ``seed`` and the option ``epsilon`` as columns. A file that
fits in memory comes here too, so that the same rows give the same release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.labels import is_named, require_one_length
from pcer.models.options import OF_ESTIMATORS, Options
from pcer.release import build, proxies
from pcer.release import columns as convert
from pcer.release.build import Counted, Entries, ReleaseFacts, RunKey
from pcer.release.columns import CROSSING, SPLITS, Coded
from pcer.release.format import Exposure, Outcome, Release, SplitKind

if TYPE_CHECKING:
    from pcer.attacks import BudgetScores

THRESHOLD = 0.5  # where probabilities are cut, unless the options say otherwise
OWN_ATTACK = proxies.AUC_ADVANTAGE.name  # what the AUC of somebody's own membership score is called


def release_from_predictions(
    y_true: Any,
    y_pred: Any = None,
    *,
    y_score: Any = None,
    sensitive_features: Any,
    split: Any,
    split_kind: SplitKind,
    outcome: Outcome,
    record_id: Any = None,
    seed: Any = 0,
    options: Options | None = None,
) -> Release:
    """Count predictions into a release; with ``record_id`` also attack the models behind them.

    The same counts and costs as ``pcer release`` from a table with these columns.

    Args:
        y_true: labels; of more than two, the option ``positive_label`` names the positive one.
        y_pred: predicted labels; or leave it out and give ``y_score``.
        y_score: probabilities in [0, 1] of the positive label; or a column for each label, named
            by it (a data frame) or in sorted order, as ``predict_proba`` gives them.
        sensitive_features: the group of each record; several named columns (a dataframe or a
            dict) are crossed, as in fairlearn.
        split: "train" or "test" for each record; or a boolean mask of those trained on.
        split_kind: "random" if the split was drawn at random, else "other". Must be said,
            because every test of the audit rests on it.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        record_id: names a record in every model: each is then compared with itself, which gives
            the sharper costs, and the split's id is derived from who is in training. All models
            of a budget must have scored the same records.
        seed: one whole number or a column of them; floats only below 2^53, where they are exact.
        options: names, budgets, disclosure and what else is known; see ``pcer.Options``.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> release = release_from_predictions(
    ...     [1, 0, 1, 0], [1, 1, 0, 0], sensitive_features={"letter": ["a", "b", "a", "b"]},
    ...     split=["train", "train", "test", "test"], split_kind="random", outcome="benefit",
    ...     options=Options(dataset="toy", public_data=True),
    ... )
    >>> release.runs[0].groups["a"].train.n
    1
    """
    options = Options() if options is None else options
    options.refuse(
        OF_ESTIMATORS,
        door="release_from_predictions",
        remedy="it is about fitting, which release_from_estimator does",
    )
    facts = options.facts(outcome, split_kind)
    attributes = convert.named_columns(sensitive_features, options.attribute)
    rows = rows_of(
        y_true,
        y_pred,
        y_score,
        split=split,
        attributes=attributes,
        record_id=record_id,
        seed=seed,
        options=options,
    )
    name = CROSSING.join(attributes) if options.attribute is None else options.attribute
    return releases_of(rows, {name: [*attributes]}, facts, file="predictions")[name]


def releases_from_predictions(
    y_true: Any, y_pred: Any = None, *, sensitive_features: Any, **arguments: Any
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    Takes what ``release_from_predictions`` takes, with ``sensitive_features`` as named columns.
    """
    named = list(convert.named_columns(sensitive_features, None).items())
    return {
        name: release_from_predictions(
            y_true, y_pred, sensitive_features=dict(named[i] for i in view), **arguments
        )
        for name, view in convert.attribute_views([name for name, _ in named]).items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Predictions, checked: arrays of one length."""

    keys: list[RunKey]  # the models; a split's name as it was given, None where it was not
    entries: Entries  # model, part, label and answer of each row, in no group yet
    attributes: Mapping[str, Coded]
    logits: FloatArray | None = None  # of the positive label; None where only answers are known
    record: Coded | None = None  # names the records in all models; None where nothing does
    digests: Sequence[str] = ()  # by model who is in its training part; empty without records
    reference: FloatArray | None = None  # log odds of the true label beyond reference models'
    membership: FloatArray | None = None  # somebody's own attack; NaN where it says nothing
    notes: Sequence[str] = ()


def rows_of(
    y_true: Any,
    y_pred: Any,
    y_score: Any,
    *,
    split: Any,
    attributes: Mapping[str, Any],
    record_id: Any,
    seed: Any,
    options: Options,
) -> Rows:
    """Columns of any kind as checked arrays; arguments as of ``release_from_predictions``."""
    positive, predicted, logits = _answers(y_true, y_pred, y_score, options)
    n = len(positive)
    if not n:
        raise InputError(
            "The table is empty; give at least one record per group and split.", field="y_true"
        )
    columns = {name: convert.column_of(values, name) for name, values in attributes.items()}
    record = None if record_id is None else convert.required_column(record_id, name="record_id")
    named, membership = options.split_id, options.membership_score
    if named is not None:
        named = convert.column_of(convert.spread(named, n), "split_id")
    if membership is not None:
        membership = convert.numbers_of(membership, n, name="membership_score")
    part, (run, keys) = _parts(split), _models_of(options.epsilon, seed, n)
    require_one_length(
        y_true=positive,
        y_pred=predicted,
        split=part,
        sensitive_features=convert.cross([*columns.values()]).codes,
        split_id=named and named.codes,
        record_id=record and record.codes,
        membership_score=membership,
    )
    reference, notes = _beyond_references(options.reference, logits, positive)
    if reference is not None and record is None:
        if len(keys) > 1:
            raise InputError(
                "reference with several models in one table needs record_id, so that each record "
                "is held against itself.",
                field="record_id",
            )
        record = convert.required_column(np.arange(n), name="record_id")
    return Rows(
        keys=keys if named is None else _with_split_names(keys, run, named),
        entries=Entries(
            run=run, split=part, group=np.full(n, -1), positive=positive, predicted=predicted
        ),
        attributes=columns,
        logits=logits,
        record=record,
        digests=[] if record is None else _split_digests(record, run, part, options.secret),
        reference=reference,
        membership=membership,
        notes=notes,
    )


def releases_of(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    facts: ReleaseFacts,
    *,
    file: str,
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """Count, attack and build: a release for each attribute, or several of them crossed.

    Views are, by the name that a release has, the attributes that make up its groups; errors call
    the source ``file``; and ``on_step`` is called with what is done next, after the attacks.
    """
    facts = replace(facts, notes=[*facts.notes, *rows.notes])
    views_of = [_in_groups(rows, own, facts, attribute=name) for name, own in views.items()]
    counted = [counts for _, counts in views_of]
    if rows.record is not None and all(len(counts.groups) > 1 for counts in counted):
        from pcer.attacks import with_costs

        settings, no_coin = _settings(rows, rows.record, views_of)
        without = [] if rows.membership is None else [OWN_ATTACK]
        counted = with_costs(
            counted, settings, facts, no_coin=no_coin, without=without, on_step=on_step
        )
    if rows.membership is not None:
        counted = [
            _with_own_attack(counts, rows.membership, entries)
            for (entries, _), counts in zip(views_of, counted, strict=True)
        ]
    return {own.attribute: build.build_release(facts, own, file=file) for own in counted}


def _in_groups(
    rows: Rows, columns: Sequence[str], facts: ReleaseFacts, *, attribute: str
) -> tuple[Entries, Counted]:
    """The rows in groups that may be released, and their counts."""
    group = convert.cross([rows.attributes[name] for name in columns])
    names = facts.group_names(group.names)
    entries, keys = replace(rows.entries, group=convert.recode(group, names)), rows.keys
    if rows.digests:
        published = build.published_splits(rows.digests, facts)
        keys = [k._replace(split=k.split or s) for k, s in zip(keys, published, strict=True)]
    counted = build.count_entries(entries, keys, attribute=attribute, groups=names)
    if len(names) < 2:
        return entries, counted  # the builder says what is wrong with it
    allowed = build.regrouping_of(facts, counted)
    return replace(entries, group=allowed.apply(entries.group)), build.regrouped(counted, allowed)


def _by_model(run: IntArray) -> list[IntArray]:
    """For each model, where its rows stand."""
    return np.split(np.argsort(run, kind="stable"), np.cumsum(np.bincount(run))[:-1])


def _with_own_attack(counted: Counted, membership: FloatArray, entries: Entries) -> Counted:
    """The counts with the AUC of somebody's own score in every model and group, not ours."""
    from pcer.attacks.ranking import rank
    from pcer.attacks.single import auc_advantage
    from pcer.attacks.sums import Groups

    runs = []
    for run, rows in zip(counted.runs, _by_model(entries.run), strict=True):
        groups = Groups(entries.group[rows], len(counted.groups))
        ranks = rank(membership[rows], entries.split[rows] == 0, [groups])[groups]
        exposure = {name: dict(run.exposure.get(name, {})) for name in counted.groups}
        for g, (costs, auc) in enumerate(
            zip(exposure.values(), map(auc_advantage, ranks), strict=True)
        ):
            n_scored = auc.n_members + auc.n_nonmembers
            if math.isfinite(auc.value):
                costs[OWN_ATTACK] = Exposure(
                    value=auc.value,
                    standard_error=auc.standard_error,
                    n_members=auc.n_members,
                    n_nonmembers=auc.n_nonmembers,
                    n_excluded=int(run.cells[:, g].sum()) - n_scored,
                )
        runs.append(replace(run, exposure=exposure))
    return replace(counted, runs=tuple(runs))


def _settings(
    rows: Rows, record: Coded, views: Sequence[tuple[Entries, Counted]]
) -> tuple[list[list[BudgetScores]], str]:
    """The models of every budget beside each other, by attribute; and why coins cannot be flipped.

    They can be flipped for records only where all budgets are about the same.
    """
    from pcer.attacks import BudgetScores

    whole, settings, scored, no_coin = rows.entries, [], None, ""
    own = _by_model(whole.run)
    for epsilon in dict.fromkeys(key.epsilon for key in rows.keys):
        models = [own[k] for k, key in enumerate(rows.keys) if key.epsilon == epsilon]
        at = _aligned(models, record.codes, epsilon)
        _require_same(whole.positive, at, "y_true")
        for entries, _ in views:
            _require_same(entries.group, at, "sensitive_features")
        ids, predicted = record.codes[at[0]], whole.predicted[at]
        scored = ids if scored is None else scored
        if not np.array_equal(ids, scored):
            no_coin = "the budgets were scored on different records"
        scores = {
            "logits": np.where(predicted, 1.0, -1.0) if rows.logits is None else rows.logits[at],
            "labels": whole.positive[at[0]].astype(np.int64),
            "member": whole.split[at] == 0,
            "predicted": predicted,
            "reference": None if rows.reference is None else rows.reference[at],
            "from_probabilities": rows.logits is not None,
            "has_probabilities": rows.logits is not None,
            "epsilon": math.inf if epsilon is None else epsilon,
        }
        settings.append(
            [
                BudgetScores(group=entries.group[at[0]], group_names=counts.groups, **scores)
                for entries, counts in views
            ]
        )
    return settings, no_coin


def _aligned(models: Sequence[IntArray], record: IntArray, epsilon: float | None) -> IntArray:
    """(model, record) where each record stands, which all models of a budget must have."""
    places = [own[np.argsort(record[own], kind="stable")] for own in models]
    strangers = max(len(np.setxor1d(record[own], record[places[0]])) for own in places)
    if strangers:
        name = "the budget without privacy" if epsilon is None else f"epsilon {epsilon:g}"
        raise InputError(
            f"record_id: every model of a budget must have scored the same records, but models of "
            f"{name} differ in {strangers:,}; leave out records that not all have, or leave "
            "record_id out.",
            field="record_id",
        )
    return np.array(places)


def _require_same(values: npt.NDArray[Any], at: IntArray, name: str) -> None:
    """Raise InputError unless a column says the same of a record in every model."""
    if changed := int((values[at] != values[at[0]]).any(axis=0).sum()):
        raise InputError(
            f"{name} changes from model to model in {changed:,} records of one record_id; it must "
            "say the same of a record everywhere.",
            field=name,
        )


def _with_split_names(keys: Sequence[RunKey], run: IntArray, named: Coded) -> list[RunKey]:
    """The models with their splits' names as given."""
    names = [None, *named.names]
    pairs = np.unique(run * len(names) + named.codes + 1)
    if len(pairs) > len(keys):
        raise InputError(
            "split_id must be one value within a run; give every model its own epsilon and seed.",
            field="split_id",
        )
    own = (names[pair % len(names)] for pair in pairs.tolist())
    return [key._replace(split=name) for key, name in zip(keys, own, strict=True)]


def _split_digests(record: Coded, run: IntArray, part: IntArray, secret: bytes) -> list[str]:
    """By model, what names those in its training part."""
    if len(np.unique(run * len(record.names) + record.codes)) < len(run):
        raise InputError(
            "record_id: a record appears twice in one model; give every model its own epsilon "
            "and seed.",
            field="record_id",
        )
    trained = (record.codes[at[part[at] == 0]] for at in _by_model(run))
    ids = ([record.names[code] for code in codes] for codes in trained)
    return [build.split_digest(own, secret=secret) for own in ids]


def _models_of(epsilon: Any, seed: Any, n: int) -> tuple[IntArray, list[RunKey]]:
    """Which model each of n rows is of, and the models by budget and seed."""
    amounts, seeds = convert.numbers_of(epsilon, n, name="epsilon"), convert.seeds_of(seed, n)
    require_one_length(y_true=np.empty(n), epsilon=amounts, seed=seeds)
    amounts[np.isnan(amounts)] = np.inf
    if (amounts <= 0).any():
        raise InputError(
            "epsilon must be above 0; None means a model without privacy.", field="epsilon"
        )
    budgets, budget = np.unique(amounts, return_inverse=True)
    numbers, number = np.unique(seeds, return_inverse=True)
    used, run = np.unique(budget * len(numbers) + number, return_inverse=True)
    pairs = [divmod(pair, len(numbers)) for pair in used.tolist()]
    named = [None if np.isinf(amount) else float(amount) for amount in budgets]
    return run, [RunKey(named[b], int(numbers[s])) for b, s in pairs]


def _answers(
    y_true: Any, y_pred: Any, y_score: Any, options: Options
) -> tuple[BoolArray, BoolArray, FloatArray | None]:
    """Labels and answers as positive or not; log odds of the positive label where scores are."""
    if (y_pred is None) == (y_score is None):
        raise InputError(
            "Give either y_pred (labels) or y_score (probabilities), not both.", field="y_pred"
        )
    truth = convert.required_column(y_true, name="y_true")
    if y_score is None:
        answers = convert.required_column(y_pred, name="y_pred")
        values = sorted({*truth.names, *answers.names})
        name = convert.positive_name(values, options.positive_label, where="y_true and y_pred")
        return is_named(truth, name), is_named(answers, name), None
    from pcer.attacks import log_odds

    name = convert.positive_name(truth.names, options.positive_label, where="y_true")
    positive = is_named(truth, name)
    threshold = THRESHOLD if options.threshold is None else options.threshold
    columns = _score_columns(y_score, "y_score")
    if None in columns:  # one column alone
        return positive, columns[None] >= threshold, log_odds(columns[None])
    labels = truth.names
    if 0 in columns:  # an array: in scikit-learn's order, numbers by size and texts by letter
        with suppress(TypeError):  # labels of several kinds
            labels = [
                convert.text_of(value)
                for value in np.unique(convert.values_of(y_true, name="y_true")[0]).tolist()
            ]
        if len(columns) == len(labels):
            columns = dict(zip(labels, columns.values(), strict=True))
    if not {name, *labels} <= columns.keys():
        raise InputError(
            f"y_score must have a column for each label ({', '.join(labels[:5])}), named by it or "
            f"in this order; or give the one of {name!r} alone, such as y_score[:, 1].",
            field="y_score",
        )
    require_one_length(y_true=truth.codes, y_score=columns[name])
    logits = log_odds(columns[name])
    if len(columns) > 2:
        of_labels = np.stack([columns[label] for label in truth.names])
        of_truth = log_odds(of_labels[truth.codes, np.arange(len(positive))])
        logits = of_truth * np.where(positive, 1.0, -1.0)
    return positive, columns[name] >= threshold, logits


def _score_columns(scores: Any, argument: str) -> dict[Any, FloatArray]:
    """Probabilities by column: named as in a dict or data frame, numbered as in an array, or None.

    Errors call them by the argument.
    """
    columns: dict[Any, Any] | None = convert.columns_of(scores)
    if columns is None:
        several = getattr(scores, "ndim", 1) == 2
        columns = dict(enumerate(np.asarray(scores).T)) if several else {None: scores}
    found = {}
    for key, values in columns.items():
        name = argument if key is None else f"{argument}[{key!r}]"
        column, missing = convert.values_of(values, name=name)
        with suppress(TypeError, ValueError):
            found[key] = np.where(missing, np.nan, column).astype(np.float64)
        if key not in found or not ((found[key] >= 0) & (found[key] <= 1)).all():
            raise InputError(
                f"{name} must be probabilities in [0, 1] without gaps; apply the sigmoid to "
                "logits, or give predicted labels as y_pred.",
                field=argument,
            )
    return found


def _parts(split: Any) -> IntArray:
    """(row,) 0 for those trained on, 1 for others; from names, or a mask of the former."""
    column = convert.required_column(split, name="split")
    names, of_mask = column.names, {"True": SPLITS[0], "False": SPLITS[1]}
    if set(names) <= set(of_mask):
        names = [of_mask[name] for name in names]
    if unknown := [name for name in names if name not in SPLITS]:
        reason = f"must hold 'train' or 'test', but holds {unknown[0]!r}; recode it."
    elif len(names) < 2:
        reason = f"holds only {names[0]!r}, and the privacy cost needs both; predict the training "
        reason += "records and the test records with the same model."
    else:
        return np.array([SPLITS.index(name) for name in names])[column.codes]
    raise InputError(f"split {reason}", field="split")


def _beyond_references(
    reference: Any, logits: FloatArray | None, positive: BoolArray
) -> tuple[FloatArray | None, list[str]]:
    """(row,) log odds of the true label beyond those of the reference models, and what to say."""
    if reference is None:
        return None, []
    from pcer.attacks import beyond_reference

    scores = _score_columns(reference, "reference")
    if not scores or logits is None:
        raise InputError(
            "reference holds scores against scores: give y_score, not y_pred, and a column for "
            "each reference model.",
            field="reference",
        )
    for column in scores.values():
        require_one_length(y_true=positive, reference=column)
    own = np.where(positive, logits, -logits)
    beyond = beyond_reference(own, np.stack([*scores.values()], axis=1), positive)
    models = "one reference model" if len(scores) == 1 else f"{len(scores)} reference models"
    return beyond, [
        f"reference_advantage holds each record against {models}, which never saw any of these "
        "records, as whoever made this release says; nobody can check that."
    ]
