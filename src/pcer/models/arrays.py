"""From a table of predictions to a release: for any model, in any dataframe library.

Columns may be numpy arrays, lists, or Series of pandas, polars or pyarrow (through narwhals).
One table can hold many models: give ``epsilon`` and ``seed`` as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, IntArray
from pcer.models.labels import disclosure_rule_of, is_named
from pcer.release import (
    CROSSING,
    LEAST_PEOPLE,
    SPLITS,
    Coded,
    Entries,
    Outcome,
    Release,
    ReleaseFacts,
    RunKey,
    SplitKind,
    Training,
    attribute_views,
    build_release,
    column_of,
    count_entries,
    cross,
    named_columns,
    numbers_of,
    positive_name,
    published_splits,
    recode,
    require_splits,
    required_column,
    seeds_of,
    split_digest,
    spread,
    values_of,
)


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
    dp_delta: float | None = None,
    training: Training | None = None,
    notes: Sequence[str] = (),
    public_data: bool = False,
    least_people: int = LEAST_PEOPLE,
    small_groups: Literal["join", "withhold"] = "join",
    certain_cells: bool = True,
    secret: bytes = b"",
) -> Release:
    """Count predictions into a release.

    Args:
        y_true: labels with two values.
        y_pred: predicted labels; or leave it out and give ``y_score``.
        sensitive_features: the group of each record; several named columns (a dataframe or a
            dict) are crossed, as in fairlearn.
        split: "train" or "test" for each record.
        split_kind: "random" if the split was drawn at random, else "other". Must be said,
            because every test of the audit rests on it.
        dataset: a name for the data.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        y_score: probabilities in [0, 1]; positive from ``threshold`` on.
        threshold: used with ``y_score`` only.
        positive_label: which label is positive; needed unless labels are 0 and 1.
        attribute: name of the protected attribute; taken from named columns if not given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's sign);
            sorted names by default. Records of other groups are counted as left out.
        epsilon: one number or a column; None, NaN or infinity is a model without DP.
        seed: one whole number or a column of them; floats only below 2^53, where they are exact.
        split_id: one name or a column: which runs used the same split.
        record_id: one column; the split's id is then derived from who is in training.
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
    facts = ReleaseFacts(
        dataset=dataset,
        outcome=outcome,
        split_kind=split_kind,
        positive_label=positive_label,
        groups=groups,
        dp_delta=dp_delta,
        notes=notes,
        disclosure=disclosure_rule_of(public_data, least_people, small_groups, certain_cells),
        secret=secret,
        **_told(training),
    )
    columns = named_columns(sensitive_features, attribute)
    truth, guess = _labels(y_true, y_pred, y_score, threshold, positive_label)
    table = _Table(
        truth=truth,
        guess=guess,
        split=_split(split),
        group=cross([column_of(values, name) for name, values in columns.items()]),
        runs=_runs(len(truth), epsilon, seed, split_id, record_id),
    )
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
    split: IntArray
    group: Coded
    runs: _RunColumn

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
    return build_release(facts, counted, file="predictions")


def _split_name(table: _Table, run: int, secret: bytes) -> str | None:
    """The split's name as given, or a digest of who is in its training part."""
    rows, runs, key = table.runs.codes == run, table.runs, table.runs.keys[run]
    if runs.records is not None:
        ids = runs.records.codes[rows]
        if len(np.unique(ids)) < len(ids):
            raise InputError(
                f"record_id: a record stands twice in the run with epsilon {key.epsilon} "
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


def _labels(
    y_true: Any, y_pred: Any, y_score: Any, threshold: float, positive: Any
) -> tuple[BoolArray, BoolArray]:
    if (y_pred is None) == (y_score is None):
        raise InputError("Give either y_pred (labels) or y_score (probabilities), not both.")
    truth = required_column(y_true, name="y_true")
    guess = truth if y_pred is None else required_column(y_pred, name="y_pred")
    values = sorted({*truth.names, *guess.names})
    name = positive_name(values, positive, where="y_true and y_pred")
    scored = None if y_score is None else _scores(y_score, threshold)
    return is_named(truth, name), is_named(guess, name) if scored is None else scored


def _scores(y_score: Any, threshold: float) -> BoolArray:
    values, missing = values_of(y_score, name="y_score")
    try:
        scores = values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("y_score must hold numbers; give predicted labels as y_pred.") from None
    if missing.any() or not ((scores >= 0) & (scores <= 1)).all():
        raise InputError(
            "y_score must be probabilities in [0, 1] without gaps; apply the sigmoid to logits, or "
            "give predicted labels as y_pred."
        )
    return np.asarray(scores >= threshold)


def _split(split: Any) -> IntArray:
    column = required_column(split, name="split")
    require_splits(column.names, where="split")
    return np.array([SPLITS.index(name) for name in column.names])[column.codes]
