"""What does a table of predictions say row by row, once it is checked?

``arrays`` calls ``rows_of`` for columns in memory, ``pcer.tables`` for files and
databases. Both count the result with ``arrays.releases_of``.

To add a column: a field of ``Predictions``, a line in ``rows_of`` that checks it, and a
field of ``Rows`` that holds the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.errors import InputError
from pcer.files import canonical_json
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import attack_kinds, build
from pcer.release import columns as convert
from pcer.release.build import Entries, ReleaseFacts, RunKey
from pcer.release.columns import SPLITS, Coded, is_named, require_one_length
from pcer.release.population import Attribute

THRESHOLD = 0.5  # default threshold of probabilities


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Columns of predictions as a user gives them, of any dataframe library."""

    y_true: Any
    y_pred: Any  # labels; None where there are scores
    y_score: Any  # probabilities; None where there are labels
    split: Any
    seed: Any = None  # one for all rows, or a column; so the next two
    epsilon: Any = None
    split_id: Any = None
    record_id: Any = None
    person_id: Any = None
    reference: Any = None  # a column of scores for each reference model
    membership_score: Any = None
    positive_label: str | int | float | bool | None = None
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        is_number = isinstance(self.threshold, int | float)
        if not is_number or not 0 <= self.threshold <= 1:
            raise InputError(
                f"threshold must be a probability, not {self.threshold!r}.",
                field="threshold",
            )


class MembershipScore(NamedTuple):
    """A user's attack: its name in the release, and its scores."""

    attack: str
    values: FloatArray  # NaN where missing


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Predictions, checked: arrays of one length."""

    # the models; a split's name as it was given, None where it was not
    keys: list[RunKey]
    entries: Entries  # model, part, label and answer of each row
    attributes: Mapping[str, Coded]
    # log odds of the positive label; None where only answers are known
    logits: FloatArray | None = None
    record: Coded | None = None  # names the records in all models; None if not given
    persons: IntArray | None = None  # who has the record, from 0; None if not given
    # log odds of the true label beyond reference models'
    reference: FloatArray | None = None
    membership: MembershipScore | None = None
    # values of attributes by name, whose subgroups are searched
    traits: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def digest(self, facts: ReleaseFacts) -> str | None:
        """A digest of the people behind the rows: keyed, or of public data.

        It covers records and labels, but no groups; without record ids it covers how
        often each model gave which answer.
        """
        if self.record is None:
            everybody = Attribute("", ("",), np.zeros_like(self.entries.run))
            runs = build.count_entries(self.entries, self.keys, everybody).runs
            content = [(str(run.key[:2]), run.cells.tolist()) for run in runs]
        else:
            names = [self.record.names[code] for code in self.record.codes.tolist()]
            labels = self.entries.positive.tolist()
            content = list(set(zip(names, labels, strict=True)))
        content.sort()
        return build.data_digest(canonical_json(content).encode(), facts)


class Answers(NamedTuple):
    """What labels and answers say of each row."""

    positive: BoolArray  # whether the label is the positive one
    predicted: BoolArray  # whether the model's answer is
    logits: FloatArray | None  # log odds of the positive label, where there are scores


def rows_of(given: Predictions, sensitive_features: Mapping[str, Any]) -> Rows:
    """Columns of any kind as checked arrays."""
    answers = _answers(given)
    n_rows = len(answers.positive)
    attributes = {
        name: convert.column_of(values, name)
        for name, values in sensitive_features.items()
    }
    record = None
    if given.record_id is not None:
        record = convert.required_column(given.record_id, name="record_id")
    persons = None
    if given.person_id is not None:
        persons = convert.required_column(given.person_id, name="person_id").codes
    split_name = None
    if given.split_id is not None:
        column = convert.spread(given.split_id, n_rows)
        split_name = convert.column_of(column, "split_id")
    membership = None
    if given.membership_score is not None:
        membership = _membership_score(given.membership_score, n_rows)
    parts = _parts(given.split)
    model_of_row, keys = _models_of(given.epsilon, given.seed, n_rows)
    require_one_length(
        y_true=answers.positive,
        y_pred=answers.predicted,
        split=parts,
        sensitive_features=convert.cross([*attributes.values()]).codes,
        split_id=_codes(split_name),
        record_id=_codes(record),
        person_id=persons,
        membership_score=None if membership is None else membership.values,
    )
    if split_name is not None:
        keys = _with_split_names(keys, model_of_row, split_name)
    rows = Rows(
        keys=keys,
        entries=Entries(
            run=model_of_row,
            split=parts,
            positive=answers.positive,
            predicted=answers.predicted,
        ),
        attributes=attributes,
        logits=answers.logits,
        record=record,
        persons=persons,
        membership=membership,
    )
    return rows if given.reference is None else _beside(given.reference, rows)


def _codes(column: Coded | None) -> IntArray | None:
    return None if column is None else column.codes


def _answers(given: Predictions) -> Answers:
    if (given.y_pred is None) == (given.y_score is None):
        raise InputError(
            "Give either y_pred (labels) or y_score (probabilities).", field="y_pred"
        )
    truth = convert.required_column(given.y_true, name="y_true")
    if given.y_score is None:
        answers = _answers_by_label(truth, given)
    else:
        answers = _answers_by_score(truth, given)
    if not len(answers.positive):
        raise InputError(
            "The table is empty; give records of each group and part.", field="y_true"
        )
    return answers


def _answers_by_label(truth: Coded, given: Predictions) -> Answers:
    answers = convert.required_column(given.y_pred, name="y_pred")
    if {*truth.names} <= {"0", "1"} and {*answers.names} <= {"False", "True"}:
        as_digit = {"False": "0", "True": "1"}
        answers = Coded([as_digit[name] for name in answers.names], answers.codes)
    labels = sorted({*truth.names, *answers.names})
    n = np.bincount(truth.codes) if labels == truth.names else ()
    where = "y_true and y_pred"
    name = convert.positive_name(labels, given.positive_label, where=where, n=n)
    return Answers(is_named(truth, name), is_named(answers, name), None)


def _answers_by_score(truth: Coded, given: Predictions) -> Answers:
    """Positive from the threshold on; of many labels, all but one are negative.

    The log odds are those of the true label's probability: turned round where that
    label is a negative one.
    """
    from pcer.attacks import log_odds

    n = np.bincount(truth.codes)
    name = convert.positive_name(truth.names, given.positive_label, where="y_true", n=n)
    positive = is_named(truth, name)
    columns = _score_columns(given.y_score, "y_score")
    if None in columns:  # one column alone
        score = columns[None]
        return Answers(positive, score >= given.threshold, log_odds(score))

    by_label = _by_label(columns, truth, given.y_true, positive_name=name)
    score = by_label[name]
    require_one_length(y_true=truth.codes, y_score=score)
    logits = log_odds(score)
    if len(by_label) > 2:
        of_labels = np.stack([by_label[label] for label in truth.names])
        of_truth = log_odds(of_labels[truth.codes, np.arange(len(positive))])
        logits = of_truth * np.where(positive, 1.0, -1.0)
    return Answers(positive, score >= given.threshold, logits)


def _by_label(
    columns: dict[Any, FloatArray], truth: Coded, y_true: Any, *, positive_name: str
) -> dict[Any, FloatArray]:
    """Columns of scores by label; refused where a label has none."""
    labels = truth.names
    if 0 in columns:  # an array, whose columns have numbers
        labels = _in_sklearn_order(y_true, truth)
        if len(columns) == len(labels):
            columns = dict(zip(labels, columns.values(), strict=True))
    if not {positive_name, *labels} <= columns.keys():
        raise InputError(
            f"y_score must have a column for each of the {len(labels)} labels, named "
            "by it or in sorted order; or give the one of "
            f"{positive_name!r} alone, such as y_score[:, 1].",
            field="y_score",
        )
    return columns


def _in_sklearn_order(y_true: Any, truth: Coded) -> list[str]:
    """Labels as ``predict_proba`` orders them: numbers by size, texts by letter."""
    values, _ = convert.values_of(y_true, name="y_true")
    with suppress(TypeError):  # labels of several kinds
        return [convert.text_of(value) for value in np.unique(values).tolist()]
    return truth.names


def _score_columns(scores: Any, argument: str) -> dict[Any, FloatArray]:
    """Probabilities by column: named in a frame, numbered in an array, else None."""
    columns: dict[Any, Any] | None = convert.columns_of(scores)
    if columns is None and getattr(scores, "ndim", 1) == 2:
        columns = dict(enumerate(np.asarray(scores).T))
    elif columns is None:
        columns = {None: scores}
    checked = {}
    for key, values in columns.items():
        name = argument if key is None else f"{argument}[{key!r}]"
        column, missing = convert.values_of(values, name=name)
        with suppress(TypeError, ValueError):
            checked[key] = np.where(missing, np.nan, column).astype(np.float64)
        if key not in checked or not ((checked[key] >= 0) & (checked[key] <= 1)).all():
            raise InputError(
                f"{name} must be probabilities in [0, 1] without gaps; apply the "
                "sigmoid to logits, or give predicted labels as y_pred.",
                field=argument,
            )
    return checked


def _membership_score(scores: Any, n_rows: int) -> MembershipScore:
    """A user's attack; a name that is none of ours gets an ending that says so."""
    named = convert.columns_of(scores)
    if not named:
        named = {getattr(scores, "name", None) or "membership_score": scores}
    ((attack, column),) = named.items()
    if attack not in attack_kinds.ATTACK_KINDS:
        attack = f"{attack}{attack_kinds.OWN}"
    values = convert.numbers_of(column, n_rows, name="membership_score")
    return MembershipScore(attack, values)


def _parts(split: Any) -> IntArray:
    """(row,) 0 for those trained on, 1 for others."""
    column = convert.required_column(split, name="split")
    names = column.names
    of_mask = {"True": SPLITS[0], "False": SPLITS[1]}
    if set(names) <= set(of_mask):
        names = [of_mask[name] for name in names]
    unknown = [name for name in names if name not in SPLITS]
    if unknown:
        raise InputError(
            f"split must be 'train' or 'test', not {len(unknown)} others; recode it, "
            "or give a mask.",
            field="split",
        )
    if len(names) < 2:
        raise InputError(
            f"split holds only {names[0]!r}, and exposure needs both; predict the "
            "training records and the test records with the same model.",
            field="split",
        )
    return np.array([SPLITS.index(name) for name in names])[column.codes]


def _models_of(epsilon: Any, seed: Any, n_rows: int) -> tuple[IntArray, list[RunKey]]:
    """Which model each row is of, and the models by budget and seed."""
    budgets = convert.numbers_of(epsilon, n_rows, name="epsilon")
    seeds = convert.seeds_of(0 if seed is None else seed, n_rows)
    require_one_length(y_true=np.empty(n_rows), epsilon=budgets, seed=seeds)
    budgets[np.isnan(budgets)] = np.inf
    if (budgets <= 0).any():
        raise InputError(
            "epsilon must be above 0; None means without privacy.", field="epsilon"
        )
    # A pair as one whole number: sorting pairs takes twenty times as long.
    used_budgets, budget_of_row = np.unique(budgets, return_inverse=True)
    used_seeds, seed_of_row = np.unique(seeds, return_inverse=True)
    pair_of_row = budget_of_row * len(used_seeds) + seed_of_row
    pairs, model_of_row = np.unique(pair_of_row, return_inverse=True)
    keys = []
    for pair in pairs.tolist():
        budget = float(used_budgets[pair // len(used_seeds)])
        model_seed = int(used_seeds[pair % len(used_seeds)])
        keys.append(RunKey(None if np.isinf(budget) else budget, model_seed))
    return model_of_row, keys


def _with_split_names(
    keys: Sequence[RunKey], model_of_row: IntArray, split_name: Coded
) -> list[RunKey]:
    """The models with their splits' names as given; None where one has none."""
    names = [None, *split_name.names]
    pairs = np.unique(model_of_row * len(names) + split_name.codes + 1)
    if len(pairs) > len(keys):
        raise InputError(
            "split_id must be one value per model; give every model a different "
            "epsilon or seed.",
            field="split_id",
        )
    named = []
    for key, pair in zip(keys, pairs.tolist(), strict=True):
        named.append(key._replace(split=names[pair % len(names)]))
    return named


def _beside(reference: Any, rows: Rows) -> Rows:
    """Rows with what one model knows of each beyond its reference models."""
    from pcer.attacks import beyond_reference

    scores = _score_columns(reference, "reference")
    if not scores or rows.logits is None:
        raise InputError(
            "reference needs scores: give y_score instead of y_pred, and a column for "
            "each reference model.",
            field="reference",
        )
    positive = rows.entries.positive
    for column in scores.values():
        require_one_length(y_true=positive, reference=column)
    of_truth = np.where(positive, rows.logits, -rows.logits)
    by_reference = np.stack([*scores.values()], axis=1)
    record = rows.record
    if record is None and len(rows.keys) > 1:
        raise InputError(
            "reference with several models in one table needs record_id, so that each "
            "record is compared with itself.",
            field="record_id",
        )
    if record is None:
        record = convert.required_column(np.arange(len(positive)), name="record_id")
    models = "one reference model"
    if len(scores) > 1:
        models = f"{len(scores)} reference models"
    note = (
        f"reference_advantage compares each record with {models}, which never saw any "
        "of these records, as the trainer says; this cannot be checked."
    )
    return replace(
        rows,
        record=record,
        reference=beyond_reference(of_truth, by_reference, positive),
        notes=[note],
    )
