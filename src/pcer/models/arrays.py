"""From a table of predictions to a release: for any model, in any dataframe library.

Columns may be numpy arrays, lists, or Series of pandas, polars or pyarrow (through narwhals).
One table can hold many models: give ``epsilon`` and ``seed`` as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.models.labels import disclosure_rule_of, is_named, positive_of
from pcer.models.reference import beyond, reference_columns, reference_notes
from pcer.release.build import (
    Counted,
    Entries,
    ReleaseFacts,
    RunKey,
    build_release,
    count_entries,
    published_splits,
    regrouped,
    regrouping_of,
    split_digest,
)
from pcer.release.columns import (
    CROSSING,
    SPLITS,
    Coded,
    attribute_views,
    column_of,
    cross,
    named_columns,
    numbers_of,
    recode,
    require_splits,
    required_column,
    seeds_of,
    spread,
    text_of,
    values_of,
)
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.format import Outcome, Release, SplitKind, Training


def release_from_predictions(
    y_true: Any,
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    split: Any,
    split_kind: SplitKind,
    dataset: str,
    outcome: Outcome,
    y_score: Any = None,
    threshold: float = 0.5,
    positive_label: str | int | float | bool | None = None,
    attribute: str | None = None,
    groups: Sequence[Any] | None = None,
    epsilon: Any = None,
    seed: Any = 0,
    split_id: Any = None,
    record_id: Any = None,
    reference: Any = None,
    dp_delta: float | None = None,
    training: Training | None = None,
    notes: Sequence[str] = (),
    public_data: bool = False,
    least_people: int = LEAST_PEOPLE,
    small_groups: Literal["join", "withhold"] = "join",
    certain_cells: bool = True,
    secret: bytes = b"",
) -> Release:
    """Count predictions into a release; with ``record_id`` also attack the models behind them.

    The same counts and costs as ``pcer release`` from a table with these columns.

    Args:
        y_true: labels; of more than two, ``positive_label`` names the positive one.
        y_pred: predicted labels; or leave it out and give ``y_score``.
        sensitive_features: the group of each record; several named columns (a dataframe or a
            dict) are crossed, as in fairlearn.
        split: "train" or "test" for each record; or a boolean mask of those trained on.
        split_kind: "random" if the split was drawn at random, else "other". Must be said,
            because every test of the audit rests on it.
        dataset: a name for the data.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        y_score: probabilities in [0, 1] of the positive label; or a column for each label, named
            by it (a data frame) or in sorted order, as ``predict_proba`` gives them.
        threshold: positive from this probability on; used with ``y_score`` only.
        positive_label: which label is positive; needed unless labels are 0 and 1.
        attribute: name of the protected attribute; taken from named columns if not given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's sign);
            sorted names by default. Records of other groups are counted as left out.
        epsilon: one number or a column; None, NaN or infinity is a model without DP.
        seed: one whole number or a column of them; floats only below 2^53, where they are exact.
        split_id: one name or a column: which runs used the same split.
        record_id: names a record in every model: each is then compared with itself, which gives
            the sharper costs, and the split's id is derived from who is in training. All models
            of a budget must have scored the same records.
        reference: for one model that cannot be retrained: the same records' scores by models that
            never saw any of them, in training or otherwise, such as ones trained by you on other
            people. As ``y_score``, a column for each reference model (array, data frame, dict).
            Each record is then held against them, which gives ``reference_advantage``. Whether
            they really never saw the records nobody can check.
        dp_delta: the delta of every model with a budget.
        training: what else is known of the training; its ``split_kind`` is replaced.
        notes: sentences to travel with the release.
        public_data: whether anybody may have the records; then groups of any size are released.
        least_people: of one group, label and part; a group with fewer is joined or withheld.
        small_groups: "join" small groups into one, or "withhold" them.
        certain_cells: release cells that tell someone's membership with certainty, and count
            them; False coarsens those tables, at a loss of power that a note states.
        secret: 16 to 64 bytes that key the splits' names where ``record_id`` gives them; without
            one the splits of private records are numbered.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> release = release_from_predictions(
    ...     [1, 0, 1, 0], [1, 1, 0, 0], sensitive_features=["a", "b", "a", "b"],
    ...     split=["train", "train", "test", "test"], split_kind="random",
    ...     dataset="toy", attribute="letter", outcome="benefit", public_data=True,
    ... )
    >>> release.runs[0].groups["a"].train.n
    1
    """
    references = reference_columns(reference)
    facts = ReleaseFacts(
        dataset=dataset,
        outcome=outcome,
        split_kind=split_kind,
        positive_label=positive_label,
        groups=groups,
        dp_delta=dp_delta,
        notes=[*notes, *reference_notes(references)],
        disclosure=disclosure_rule_of(public_data, least_people, small_groups, certain_cells),
        secret=secret,
        **_told(training),
    )
    columns = named_columns(sensitive_features, attribute)
    answers = _answers(y_true, y_pred, y_score, threshold, positive_label)
    truth = answers.truth
    table = _Table(
        truth=truth,
        guess=answers.guess,
        logits=answers.logits,
        split=_split(split),
        group=cross([column_of(values, name) for name, values in columns.items()]),
        runs=_runs(len(truth), epsilon, seed, split_id, record_id),
        reference=None if references is None else beyond(references, answers.logits, truth),
    )
    if references is not None:
        table = table.with_records()
    table.check_lengths()
    return _release(table, CROSSING.join(columns) if attribute is None else attribute, facts)


def releases_from_predictions(
    y_true: Any, y_pred: Any = None, *, sensitive_features: Any, **options: Any
) -> dict[str, Release]:
    """One release per protected attribute and, if there are several, one for their crossing.

    Takes what ``release_from_predictions`` takes, with ``sensitive_features`` as named columns.
    """
    columns = named_columns(sensitive_features, None)
    named = list(columns.items())
    return {
        name: release_from_predictions(
            y_true, y_pred, sensitive_features=dict(named[i] for i in view), **options
        )
        for name, view in attribute_views(list(columns)).items()
    }


@dataclass(frozen=True)
class _RunColumn:
    """Which run each record belongs to, and what each run is."""

    codes: IntArray
    keys: list[RunKey]
    split_ids: IntArray | None
    split_names: list[str]
    records: Coded | None


@dataclass(frozen=True)
class _Table:
    truth: BoolArray
    guess: BoolArray
    logits: FloatArray | None
    split: IntArray
    group: Coded
    runs: _RunColumn
    reference: FloatArray | None = None

    def with_records(self) -> _Table:
        """The table with every row as a record of its own, where one model has no ids."""
        if self.runs.records is not None:
            return self
        if len(self.runs.keys) > 1:
            raise InputError(
                "reference with several models in one table needs record_id, so that each record "
                "is held against itself."
            )
        rows = required_column(np.arange(len(self.truth)), name="record_id")
        return replace(self, runs=replace(self.runs, records=rows))

    def check_lengths(self) -> None:
        """Refuse columns of different length."""
        lengths = {
            "y_true": len(self.truth),
            "y_pred": len(self.guess),
            "split": len(self.split),
            "sensitive_features": len(self.group.codes),
            "epsilon and seed": len(self.runs.codes),
        }
        if self.runs.split_ids is not None:
            lengths["split_id"] = len(self.runs.split_ids)
        if self.runs.records is not None:
            lengths["record_id"] = len(self.runs.records.codes)
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
            raise InputError(f"All columns must have one length, but they have: {told}.")
        if not len(self.truth):
            raise InputError("The table is empty; give at least one record per group and split.")


def _told(training: Training | None) -> dict[str, Any]:
    """What is known of the training, but for the split's kind, which has to be said."""
    known = {} if training is None else dict(training)
    return {name: value for name, value in known.items() if name != "split_kind"}


def _release(table: _Table, attribute: str, facts: ReleaseFacts) -> Release:
    names, runs = facts.group_names(table.group.names), table.runs
    entries = Entries(
        run=runs.codes,
        split=table.split,
        group=recode(table.group, names),
        positive=table.truth,
        predicted=table.guess,
    )
    names_of_splits = [_split_name(table, run, facts.secret) for run in range(len(runs.keys))]
    if runs.records is not None:
        names_of_splits = [*published_splits([str(name) for name in names_of_splits], facts)]
    keys = [k._replace(split=s) for k, s in zip(runs.keys, names_of_splits, strict=True)]
    counted = count_entries(entries, keys, attribute=attribute, groups=names)
    if runs.records is not None and len(names) > 1:
        counted = _attacked(table, entries, facts, counted, runs.records)
    return build_release(facts, counted, file="predictions")


def _attacked(
    table: _Table, entries: Entries, facts: ReleaseFacts, counted: Counted, records: Coded
) -> Counted:
    """The counts with what attacks find in the groups that may be released."""
    from pcer.attacks import with_costs
    from pcer.models.records import RecordRows, no_coin, settings_of

    allowed = regrouping_of(facts, counted)
    entries = replace(entries, group=allowed.apply(entries.group))
    rows = RecordRows(
        entries=entries, record=records.codes, logits=table.logits, reference=table.reference
    )
    counted = regrouped(counted, allowed)
    settings = [[scores] for scores in settings_of(counted, rows)]
    (counted,) = with_costs([counted], settings, facts, no_coin=no_coin(counted, rows))
    return counted


def _split_name(table: _Table, run: int, secret: bytes) -> str | None:
    """The split's name as given, or a digest of who is in its training part."""
    rows, runs, key = table.runs.codes == run, table.runs, table.runs.keys[run]
    if runs.records is not None:
        ids = runs.records.codes[rows]
        if len(np.unique(ids)) < len(ids):
            raise InputError(
                f"record_id: a record appears twice in the run with epsilon {key.epsilon} "
                f"and seed {key.seed}; give every model its own epsilon and seed."
            )
        trained = np.unique(runs.records.codes[rows & (table.split == 0)])
        return split_digest((runs.records.names[code] for code in trained), secret=secret)
    if runs.split_ids is None:
        return None
    used = np.unique(runs.split_ids[rows])
    if len(used) > 1:
        raise InputError(
            f"split_id must be one value within a run, but the run with seed {key.seed} "
            f"has {len(used)}."
        )
    return runs.split_names[int(used[0])]


def _runs(n: int, epsilon: Any, seed: Any, split_id: Any, record_id: Any) -> _RunColumn:
    budgets = numbers_of(epsilon, n, name="epsilon")
    budgets[np.isnan(budgets)] = np.inf
    if (budgets <= 0).any():
        raise InputError("epsilon must be above 0; None means a model without privacy.")
    seeds = seeds_of(seed, n)
    if len(budgets) != len(seeds):
        raise InputError(f"epsilon has {len(budgets):,} rows and seed has {len(seeds):,}.")
    known_budgets, budget = np.unique(budgets, return_inverse=True)
    known_seeds, position = np.unique(seeds, return_inverse=True)
    used, codes = np.unique(budget * len(known_seeds) + position, return_inverse=True)
    pairs = [divmod(pair, len(known_seeds)) for pair in used.tolist()]
    splits = None if split_id is None else required_column(spread(split_id, n), name="split_id")
    return _RunColumn(
        codes=codes,
        keys=[RunKey(_budget(known_budgets[b]), int(known_seeds[s])) for b, s in pairs],
        split_ids=None if splits is None else splits.codes,
        split_names=[] if splits is None else splits.names,
        records=None if record_id is None else required_column(record_id, name="record_id"),
    )


def _budget(epsilon: np.float64) -> float | None:
    return None if np.isinf(epsilon) else float(epsilon)


class _Answers(NamedTuple):
    """Labels and answers as positive or not; log odds of the positive label where scores are."""

    truth: BoolArray
    guess: BoolArray
    logits: FloatArray | None = None


def _answers(y_true: Any, y_pred: Any, y_score: Any, threshold: float, positive: Any) -> _Answers:
    if (y_pred is None) == (y_score is None):
        raise InputError("Give either y_pred (labels) or y_score (probabilities), not both.")
    truth = required_column(y_true, name="y_true")
    if y_score is not None:
        return _scored(truth, y_true, y_score, threshold, positive)
    guess = required_column(y_pred, name="y_pred")
    values = sorted({*truth.names, *guess.names})
    name = positive_of(values, positive, where="y_true and y_pred")
    return _Answers(is_named(truth, name), is_named(guess, name))


def _scored(truth: Coded, y_true: Any, y_score: Any, threshold: float, positive: Any) -> _Answers:
    from pcer.attacks import log_odds

    name = positive_of(truth.names, positive, where="y_true")
    is_positive = is_named(truth, name)
    if not _has_columns(y_score):
        scores = _probabilities(y_score, "y_score")
        return _Answers(is_positive, scores >= threshold, log_odds(scores))
    columns = _score_columns(y_score, _in_order(truth.names, y_true))
    if name not in columns or not set(truth.names) <= set(columns):
        missing = next(one for one in (name, *truth.names) if one not in columns)
        raise InputError(
            f"y_score has no column for the label {missing!r}; name its columns by the labels, or "
            f"give the one of {name!r} alone, such as y_score[:, 1]."
        )
    if len({len(column) for column in columns.values()} | {len(truth.codes)}) > 1:
        raise InputError("All columns must have one length: y_score has another than y_true.")
    guess = columns[name] >= threshold
    if len(columns) == 2:
        return _Answers(is_positive, guess, log_odds(columns[name]))
    of_truth = np.stack([columns[one] for one in truth.names])[
        truth.codes, np.arange(len(truth.codes))
    ]
    return _Answers(is_positive, guess, log_odds(of_truth) * np.where(is_positive, 1.0, -1.0))


def _has_columns(y_score: Any) -> bool:
    import narwhals as nw

    return nw.dependencies.is_into_dataframe(y_score) or getattr(y_score, "ndim", 1) == 2


def _score_columns(y_score: Any, labels: Sequence[str]) -> dict[str, FloatArray]:
    """Probabilities by label: by the columns' own names, or in the order of the labels."""
    import narwhals as nw

    if nw.dependencies.is_into_dataframe(y_score):
        frame = nw.from_native(y_score, eager_only=True)
        named = {text_of(name): frame[name].to_native() for name in frame.columns}
        return {name: _probabilities(one, f"y_score[{name!r}]") for name, one in named.items()}
    columns = np.asarray(y_score)
    if columns.shape[1] != len(labels):
        raise InputError(
            f"y_score has {columns.shape[1]} columns, and y_true holds {len(labels)} labels "
            f"({', '.join(labels[:5])}); give a column for each in this order, or the positive "
            "one alone, such as y_score[:, 1]."
        )
    return {name: _probabilities(columns[:, k], "y_score") for k, name in enumerate(labels)}


def _in_order(names: Sequence[str], y_true: Any) -> list[str]:
    """Labels as scikit-learn orders them: numbers by size, texts by letter."""
    values, _ = values_of(y_true, name="y_true")
    try:
        return [text_of(value) for value in np.unique(values).tolist()]
    except TypeError:  # labels of several kinds
        return list(names)


def _probabilities(values: Any, name: str) -> FloatArray:
    column, missing = values_of(values, name=name)
    try:
        scores = column.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers; give predicted labels as y_pred.") from None
    if missing.any() or not ((scores >= 0) & (scores <= 1)).all():
        raise InputError(
            f"{name} must be probabilities in [0, 1] without gaps; apply the sigmoid to logits, or "
            "give predicted labels as y_pred."
        )
    return np.asarray(scores)


def _split(split: Any) -> IntArray:
    column = required_column(split, name="split")
    if set(column.names) <= {"False", "True"}:  # a mask of those trained on
        column = Coded([_PARTS[name] for name in column.names], column.codes)
    require_splits(column.names, where="split")
    return np.array([SPLITS.index(name) for name in column.names])[column.codes]


_PARTS = {"True": SPLITS[0], "False": SPLITS[1]}
