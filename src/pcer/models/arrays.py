"""From predictions to a release: for any model, in any dataframe library.

Columns may be numpy arrays, lists, or Series of pandas, polars or pyarrow (through
narwhals). One table can hold many models: give ``seed`` and the option ``epsilon`` as
columns. A file that fits in memory comes here too, so that the same rows give the same
release.
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
from pcer.files import canonical_json
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.labels import is_named, require_one_length
from pcer.models.options import Options
from pcer.release import attack_kinds, build
from pcer.release import columns as convert
from pcer.release.build import Counted, Entries, ReleaseFacts, RunKey
from pcer.release.columns import CROSSING, SPLITS, Coded
from pcer.release.file import Release
from pcer.release.records import Outcome, SplitKind
from pcer.release.small_groups import (
    Allowed,
    Attribute,
    Model,
    allowed_groups,
    attribute_of,
)

if TYPE_CHECKING:
    from pcer.attacks import BudgetScores

THRESHOLD = 0.5  # default threshold of probabilities


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

    Gives the same counts and attacks as ``pcer release`` from a table with these
    columns.

    Args:
        y_true: labels; of more than two, the option ``positive_label`` names the
            positive one.
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
        record_id: names a record in every model: each is then compared with itself,
            which allows stronger attacks, and the split's name is derived from who is
            in training. All models of a setting must have scored the same records.
        seed: one whole number or a column of them; floats only below 2^53, where they
            are exact.
        options: names, budgets, disclosure and more; see ``pcer.Options``.

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
    options = Options.of(options)
    columns = convert.named_columns(sensitive_features, options.attribute)
    name = CROSSING.join(columns) if options.attribute is None else options.attribute
    answers = (y_true, y_pred, y_score)
    facts = options.facts(outcome, split_kind)
    rows = rows_of(
        answers, split, columns, record_id=record_id, seed=seed, options=options
    )
    return releases_of(rows, {name: [*columns]}, facts, file="predictions")[name]


def releases_from_predictions(
    y_true: Any,
    y_pred: Any = None,
    *,
    y_score: Any = None,
    sensitive_features: Any,
    attributes: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    split: Any,
    split_kind: SplitKind,
    outcome: Outcome,
    record_id: Any = None,
    seed: Any = 0,
    options: Options | None = None,
) -> dict[str, Release]:
    """One release per protected attribute; none of them, alone or together, is about few people.

    Takes what ``release_from_predictions`` takes, with ``sensitive_features`` as named
    columns. ``attributes`` are those wanted, the most important first, and crossings
    such as ``"sex & race"``, or the columns of each by name; by default every column
    alone. One that would reveal few people beside those before it is left out, and
    ``disclosure.not_written`` of the others says why.
    """
    options = Options.of(options)
    columns = convert.named_columns(sensitive_features, None)
    views = [*columns] if attributes is None else attributes
    if not isinstance(views, Mapping):
        views = convert.attribute_views(views, columns)
    for name in (part for own in views.values() for part in own if part not in columns):
        raise InputError(
            f"attributes name {name!r}, which is no column of sensitive_features.",
            field="attributes",
        )
    answers = (y_true, y_pred, y_score)
    facts = options.facts(outcome, split_kind)
    rows = rows_of(
        answers, split, columns, record_id=record_id, seed=seed, options=options
    )
    return releases_of(rows, views, facts, file="predictions")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Predictions, checked: arrays of one length."""

    keys: list[
        RunKey
    ]  # the models; a split's name as it was given, None where it was not
    entries: Entries  # model, part, label and answer of each row
    attributes: Mapping[str, Coded]
    logits: FloatArray | None = (
        None  # of the positive label; None where only answers are known
    )
    record: Coded | None = None  # names the records in all models; None where not given
    reference: FloatArray | None = (
        None  # log odds of the true label beyond reference models'
    )
    membership: FloatArray | None = None  # a user's attack scores; NaN where missing
    attack: str = ""  # its name in the release
    notes: Sequence[str] = ()

    def digest(self, facts: ReleaseFacts) -> str | None:
        """A digest of the people behind the rows, whatever their groups: keyed, or of public data.

        It covers records and labels; without record ids, how often each model gave
        which answer.
        """
        if self.record is not None:
            names = zip(
                self.record.codes.tolist(), self.entries.positive.tolist(), strict=True
            )
            content: Any = sorted(
                {(self.record.names[code], label) for code, label in names}
            )
        else:
            everybody = Attribute("", ("",), np.zeros_like(self.entries.run))
            counted = build.count_entries(self.entries, self.keys, everybody)
            content = sorted(
                (str(run.key[:2]), run.cells.tolist()) for run in counted.runs
            )
        return build.data_digest(canonical_json(content).encode(), facts)


def rows_of(
    answers: tuple[Any, Any, Any],
    split: Any,
    attributes: Mapping[str, Any],
    *,
    record_id: Any,
    seed: Any,
    options: Options,
) -> Rows:
    """Columns of any kind as checked arrays; answers are ``y_true``, ``y_pred`` and ``y_score``."""
    options.require_taken("release_from_predictions")
    positive, predicted, logits = _answers(*answers, options)
    n = len(positive)
    if not n:
        raise InputError(
            "The table is empty; give records of each group and part.", field="y_true"
        )
    columns = {
        name: convert.column_of(values, name) for name, values in attributes.items()
    }
    record = (
        None
        if record_id is None
        else convert.required_column(record_id, name="record_id")
    )
    named = options.split_id
    membership = options.membership_score
    attack = ""
    if named is not None:
        named = convert.column_of(convert.spread(named, n), "split_id")
    if membership is not None:
        own = getattr(membership, "name", None) or "membership_score"
        ((attack, membership),) = (
            convert.columns_of(membership) or {own: membership}
        ).items()
        attack = (
            attack if attack in attack_kinds.PROXIES else f"{attack}{attack_kinds.OWN}"
        )
        membership = convert.numbers_of(membership, n, name="membership_score")
    part = _parts(split)
    (run, keys) = _models_of(options.epsilon, seed, n)
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
                "is compared with itself.",
                field="record_id",
            )
        record = convert.required_column(np.arange(n), name="record_id")
    return Rows(
        keys=keys if named is None else _with_split_names(keys, run, named),
        entries=Entries(run=run, split=part, positive=positive, predicted=predicted),
        attributes=columns,
        logits=logits,
        record=record,
        reference=reference,
        membership=membership,
        attack=attack,
        notes=notes,
    )


def releases_of(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    facts: ReleaseFacts,
    *,
    file: str,
    beside: Sequence[Release] = (),
    on_step: Callable[[str], None] = lambda doing: None,
) -> dict[str, Release]:
    """Count, attack and build: a release for each view, named by the attributes that it crosses.

    Existing releases of the same people, ``beside``, take precedence; errors name the
    ``file``.
    """
    facts = replace(
        facts,
        notes=[*facts.notes, *rows.notes],
        data_digest=facts.data_digest or rows.digest(facts),
    )
    keys = rows.keys
    if rows.record is not None:
        names = _split_names(rows, rows.record, facts)
        keys = [
            k._replace(split=k.split or s) for k, s in zip(keys, names, strict=True)
        ]
    allowed = _allowed(rows, views, facts, beside)
    facts = replace(facts, not_written=allowed.not_written)
    counted = [
        build.count_entries(rows.entries, keys, own) for own in allowed.attributes
    ]
    if rows.record is not None and all(
        len(own.groups) > 1 for own in allowed.attributes
    ):
        from pcer.attacks import with_costs

        settings, no_coin = _settings(rows, rows.record, allowed.attributes)
        counted = with_costs(
            counted,
            settings,
            facts,
            no_coin=no_coin,
            without=[rows.attack],
            on_step=on_step,
        )
    if rows.membership is not None:
        counted = [
            _with_own_attack(counts, rows, rows.membership, own.codes)
            for own, counts in zip(allowed.attributes, counted, strict=True)
        ]
    return {
        own.attribute: build.build_release(facts, own, file=file) for own in counted
    }


def _allowed(
    rows: Rows,
    views: Mapping[str, Sequence[str]],
    facts: ReleaseFacts,
    beside: Sequence[Release],
) -> Allowed:
    """The views in groups that may be released."""
    names = [release.subject.attribute for release in beside]
    there = [convert.attribute_views([name], rows.attributes) for name in names]
    attributes = [
        attribute_of(name, [rows.attributes[column] for column in own], wanted)
        for view, wanted in (*((view, None) for view in there), (views, facts.groups))
        for name, own in view.items()
    ]
    whole = rows.entries
    models = (
        Model(
            at,
            whole.split[at],
            whole.positive[at],
            None if whole.n is None else whole.n[at],
        )
        for at in _by_model(whole.run)
    )
    return allowed_groups(
        facts.disclosure, attributes, models, beside, names=facts.group_names
    )


def _by_model(run: IntArray) -> list[IntArray]:
    """For each model, where its rows stand."""
    return np.split(np.argsort(run, kind="stable"), np.cumsum(np.bincount(run))[:-1])


def _with_own_attack(
    counted: Counted, table: Rows, membership: FloatArray, group: IntArray
) -> Counted:
    """Add the AUC of the user's membership score in every model and group, by its name."""
    from pcer.attacks.ranking import rank
    from pcer.attacks.single import auc_advantage
    from pcer.attacks.sums import Groups

    runs = []
    entries = table.entries
    for run, rows in zip(counted.runs, _by_model(entries.run), strict=True):
        groups = Groups(group[rows], len(counted.groups))
        ranks = rank(membership[rows], entries.split[rows] == 0, [groups])[groups]
        exposure = dict(run.exposure)
        sizes = run.cells.sum(axis=(0, 2)).tolist()
        for name, n, auc in zip(
            counted.groups, sizes, map(auc_advantage, ranks), strict=True
        ):
            if math.isfinite(auc.value):
                own = auc.exposure(n_excluded=n - auc.n_members - auc.n_nonmembers)
                exposure[name] = {**exposure.get(name, {}), table.attack: own}
        runs.append(replace(run, exposure=exposure))
    return replace(counted, runs=tuple(runs))


def _settings(
    rows: Rows, record: Coded, attributes: Sequence[Attribute]
) -> tuple[list[list[BudgetScores]], str]:
    """The models of every setting, by attribute; and why no placebo groups can be drawn."""
    from pcer.attacks import BudgetScores

    whole = rows.entries
    settings = []
    scored = None
    no_coin = ""
    rows_of_model = _by_model(whole.run)
    for epsilon in dict.fromkeys(key.epsilon for key in rows.keys):
        models = [
            rows_of_model[k]
            for k, key in enumerate(rows.keys)
            if key.epsilon == epsilon
        ]
        at = _aligned(models, record.codes, epsilon)
        _require_same(whole.positive, at, "y_true")
        for attribute in attributes:
            _require_same(attribute.codes, at, "sensitive_features")
        ids = record.codes[at[0]]
        predicted = whole.predicted[at]
        scored = ids if scored is None else scored
        if not np.array_equal(ids, scored):
            no_coin = "the budgets were scored on different records"
        scores = {
            "logits": np.where(predicted, 1.0, -1.0)
            if rows.logits is None
            else rows.logits[at],
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
                BudgetScores(group=own.codes[at[0]], group_names=own.groups, **scores)
                for own in attributes
            ]
        )
    return settings, no_coin


def _aligned(
    models: Sequence[IntArray], record: IntArray, epsilon: float | None
) -> IntArray:
    """(model, record) the row of each record, which all models of a budget must have."""
    places = [own[np.argsort(record[own], kind="stable")] for own in models]
    strangers = max(len(np.setxor1d(record[own], record[places[0]])) for own in places)
    if strangers:
        name = (
            "the budget without privacy" if epsilon is None else f"epsilon {epsilon:g}"
        )
        raise InputError(
            f"record_id: every model of a budget must have scored the same records, but models of "
            f"{name} differ in {strangers:,}; remove records that some models lack, or leave "
            "record_id out.",
            field="record_id",
        )
    return np.array(places)


def _require_same(values: npt.NDArray[Any], at: IntArray, name: str) -> None:
    """Raise InputError unless a column is constant over the models of a record."""
    if changed := int((values[at] != values[at[0]]).any(axis=0).sum()):
        raise InputError(
            f"{name} differs between models in {changed:,} records of one record_id; give every "
            "record one value.",
            field=name,
        )


def _with_split_names(
    keys: Sequence[RunKey], run: IntArray, named: Coded
) -> list[RunKey]:
    """The models with their splits' names as given."""
    names = [None, *named.names]
    pairs = np.unique(run * len(names) + named.codes + 1)
    if len(pairs) > len(keys):
        raise InputError(
            "split_id must be one value per model; give every model a different epsilon or seed.",
            field="split_id",
        )
    own = (names[pair % len(names)] for pair in pairs.tolist())
    return [key._replace(split=name) for key, name in zip(keys, own, strict=True)]


def _split_names(rows: Rows, record: Coded, facts: ReleaseFacts) -> list[str]:
    """By model, the name of its split, derived from its training records."""
    run = rows.entries.run
    part = rows.entries.split
    if len(np.unique(run * len(record.names) + record.codes)) < len(run):
        raise InputError(
            "record_id: a record appears twice in one model; give every model a different epsilon "
            "or seed.",
            field="record_id",
        )
    trained = (record.codes[at[part[at] == 0]] for at in _by_model(run))
    return build.split_names(
        ([record.names[code] for code in own] for own in trained), facts
    )


def _models_of(epsilon: Any, seed: Any, n: int) -> tuple[IntArray, list[RunKey]]:
    """Which model each of n rows is of, and the models by budget and seed."""
    amounts = convert.numbers_of(epsilon, n, name="epsilon")
    seeds = convert.seeds_of(seed, n)
    require_one_length(y_true=np.empty(n), epsilon=amounts, seed=seeds)
    amounts[np.isnan(amounts)] = np.inf
    if (amounts <= 0).any():
        raise InputError(
            "epsilon must be above 0; None means without privacy.", field="epsilon"
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
            "Give either y_pred (labels) or y_score (probabilities).", field="y_pred"
        )
    truth = convert.required_column(y_true, name="y_true")
    if y_score is None:
        answers = convert.required_column(y_pred, name="y_pred")
        if {*truth.names} <= {"0", "1"} and {*answers.names} <= {"False", "True"}:
            answers = Coded(
                [str(int(name == "True")) for name in answers.names], answers.codes
            )
        values = sorted({*truth.names, *answers.names})
        where = "y_true and y_pred"
        n = np.bincount(truth.codes) if values == truth.names else ()
        name = convert.positive_name(values, options.positive_label, where=where, n=n)
        return is_named(truth, name), is_named(answers, name), None
    from pcer.attacks import log_odds

    n = np.bincount(truth.codes)
    name = convert.positive_name(
        truth.names, options.positive_label, where="y_true", n=n
    )
    positive = is_named(truth, name)
    threshold = THRESHOLD if options.threshold is None else options.threshold
    columns = _score_columns(y_score, "y_score")
    if None in columns:  # one column alone
        return positive, columns[None] >= threshold, log_odds(columns[None])
    labels = truth.names
    if (
        0 in columns
    ):  # an array: in scikit-learn's order, numbers by size and texts by letter
        with suppress(TypeError):  # labels of several kinds
            labels = [
                convert.text_of(value)
                for value in np.unique(
                    convert.values_of(y_true, name="y_true")[0]
                ).tolist()
            ]
        if len(columns) == len(labels):
            columns = dict(zip(labels, columns.values(), strict=True))
    if not {name, *labels} <= columns.keys():
        raise InputError(
            f"y_score must have a column for each of the {len(labels)} labels, named by it or in "
            f"sorted order; or give the one of {name!r} alone, such as y_score[:, 1].",
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
    """Probabilities by column: named as in a data frame, numbered as in an array, or None."""
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
    names = column.names
    of_mask = {"True": SPLITS[0], "False": SPLITS[1]}
    if set(names) <= set(of_mask):
        names = [of_mask[name] for name in names]
    if unknown := [name for name in names if name not in SPLITS]:
        reason = f"must be 'train' or 'test', not {len(unknown)} others; recode it, or give a mask."
    elif len(names) < 2:
        reason = (
            f"holds only {names[0]!r}, and exposure needs both; predict the training "
        )
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
            "reference needs scores: give y_score instead of y_pred, and a column for each "
            "reference model.",
            field="reference",
        )
    for column in scores.values():
        require_one_length(y_true=positive, reference=column)
    own = np.where(positive, logits, -logits)
    beyond = beyond_reference(own, np.stack([*scores.values()], axis=1), positive)
    models = (
        "one reference model" if len(scores) == 1 else f"{len(scores)} reference models"
    )
    return beyond, [
        f"reference_advantage compares each record with {models}, which never saw any of these "
        "records, as the trainer says; this cannot be checked."
    ]
