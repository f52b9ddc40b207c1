"""Anyone's own table as a GroupedDataset, with an account of what was done to every column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pcer.data.dataset import GroupedDataset, ProtectedAttribute
from pcer.data.infer import MISSING_MARKS, typed
from pcer.data.table_file import open_table, require_columns
from pcer.data.task import (
    Category,
    Column,
    Columns,
    FeatureRule,
    GroupRule,
    Number,
    divide,
    encode,
    is_missing,
)
from pcer.errors import InputError, alike, confusable, require_at_least
from pcer.release import Outcome

Role = Literal["number", "category", "label", "protected attribute", "left out"]

DEFAULT_MAX_CATEGORIES = 50
NEAR_UNIQUE = 0.5
"""Different texts per record above which a column is taken for a name or an identifier."""


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What the columns of a table mean.

    Args:
        label: column that a model is to predict; exactly two values.
        positive: the value of ``label`` that counts as positive.
        attributes: columns that divide the people into groups; never used as features.
        outcome: whether being predicted positive helps ("benefit") or harms ("harm").
        categories: columns to treat as categories although they hold numbers, or both.
        drop: columns to leave out.
        max_categories: a column with more different values is refused, not truncated.
        missing: texts that stand for a missing value.
        identifiers: text columns to learn from although nearly every record has its own value.
        public: whether anybody may have the records; see ``GroupedDataset``.
    """

    label: str
    positive: str
    attributes: tuple[str, ...]
    outcome: Outcome
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    max_categories: int = DEFAULT_MAX_CATEGORIES
    missing: tuple[str, ...] = MISSING_MARKS
    identifiers: tuple[str, ...] = ()
    public: bool = False

    def __post_init__(self) -> None:
        require_at_least(2, max_categories=self.max_categories)
        if not self.attributes:
            raise InputError("name at least one column in attributes.")
        if self.label in self.attributes:
            raise InputError(f"column {self.label!r} cannot be both label and attribute.")
        for name in self.drop:
            if name in self.texts:
                raise InputError(f"column {name!r} cannot be left out and used; take it from drop.")

    @property
    def texts(self) -> tuple[str, ...]:
        """Every column that is text, even where it holds numbers."""
        return (self.label, *self.attributes, *self.categories)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the plan names."""
        return (*self.texts, *self.drop, *self.identifiers)


@dataclass(frozen=True, kw_only=True)
class ColumnAccount:
    """What became of one column."""

    column: str
    role: Role
    n_values: int
    n_missing: int
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """A table ready for training, and the account of its columns, to be shown to its owner."""

    dataset: GroupedDataset
    account: tuple[ColumnAccount, ...]


def read_table(table: Any, plan: TablePlan, *, name: str | None = None) -> OwnTable:
    """Read a CSV or Parquet file, or a data frame, as the plan says.

    | in the table | becomes |
    |---|---|
    | no label | the record is left out, and a note says how many |
    | no protected attribute | the record is trained on, and counted in no group |
    | missing number | stays missing (the training mean once standardised), and an indicator |
    | missing category | a category of its own |
    | a constant column | left out, and named |
    | a column that tells the label, or an attribute, one to one | left out, and named |

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    content, file = open_table(table)
    require_columns(plan.columns, content.column_names, file=file)
    _require_telling_names(content.column_names, file)
    if content.num_rows == 0:
        raise InputError(f"{file} has no records; a table needs at least a few per group.")
    columns = {
        column: typed(
            content.column(column),
            as_text=column in plan.texts,
            missing=plan.missing,
            where=f"{file}: column {column!r}",
        )
        for column in content.column_names
        if column not in plan.drop
    }
    return _assemble(columns, plan, file=file, name=name or _short_name(file))


def _require_telling_names(columns: Sequence[str], file: str) -> None:
    """Raise InputError unless a reader can see every column's name, and tell it from the others."""
    if not all(map(alike, columns)):
        raise InputError(f"{file} has a column whose name shows nothing; name it in the header.")
    if two := confusable(columns):
        raise InputError(
            f"{file} has columns {two[0]!r} and {two[1]!r}, which read alike; rename one of them."
        )


def _assemble(columns: Columns, plan: TablePlan, *, file: str, name: str) -> OwnTable:
    labelled = np.flatnonzero(~is_missing(columns[plan.label]))
    kept = {column: values[labelled] for column, values in columns.items()}
    labels = _labels(kept[plan.label], plan, file)
    attributes = tuple(_attribute(kept[one], one, plan, file) for one in plan.attributes)
    account = tuple(_describe(kept, plan, labels, file))
    rules = tuple(_rule(line, kept) for line in account if line.role in ("number", "category"))
    if not rules:
        raise InputError(f"{file} has no column left to learn from; {_left_out(account)}.")
    feature_names, features = encode(rules, kept)
    dataset = GroupedDataset(
        name=name,
        features=features,
        feature_names=feature_names,
        labels=labels,
        attributes=attributes,
        outcome=plan.outcome,
        positive_label=f"{plan.label} = {plan.positive}",
        record_ids=labelled,
        notes=tuple(_notes(account, attributes, len(columns[plan.label]) - labelled.size)),
        public=plan.public,
    )
    return OwnTable(dataset=dataset, account=account)


def _labels(values: Column, plan: TablePlan, file: str) -> npt.NDArray[np.int64]:
    found = sorted(set(values))
    if len(found) != 2:
        raise InputError(
            f"{file}: label {plan.label!r} must have two values, but has {len(found):,}; keep the "
            "records of two of them, or join values."
        )
    if plan.positive not in found:
        raise InputError(
            f"{file}: label {plan.label!r} never has the value {plan.positive!r}; positive must "
            f"be {found[0]!r} or {found[1]!r}."
        )
    return np.asarray(values == plan.positive, dtype=np.int64)


def _attribute(values: Column, name: str, plan: TablePlan, file: str) -> ProtectedAttribute:
    found = sorted(set(values[~is_missing(values)]))
    if len(found) < 2:
        raise InputError(
            f"{file}: attribute {name!r} has one group only; an audit compares at least two."
        )
    if len(found) > plan.max_categories:
        raise InputError(
            f"{file}: attribute {name!r} has {len(found):,} different values, more than "
            f"{plan.max_categories}; join them into groups first, or raise max_categories."
        )
    return divide(
        name, GroupRule(name, tuple((value, (value,)) for value in found)), {name: values}
    )


def _describe(
    columns: Columns, plan: TablePlan, labels: npt.NDArray[np.int64], file: str
) -> Iterator[ColumnAccount]:
    """One line per column, in the order of the table."""
    tell_tales = {plan.label: labels, **{one: _codes(columns[one]) for one in plan.attributes}}
    for name, values in columns.items():
        codes = _codes(values)
        role, remark = _role(name, values, codes, tell_tales, plan)
        n_values = len(set(codes[codes >= 0]))
        if role == "category" and name not in plan.identifiers:
            _require_shared_values(name, n_values, int((codes >= 0).sum()), file)
        if role == "category" and n_values > plan.max_categories:
            raise InputError(
                f"{file}: column {name!r} has {n_values:,} categories, more than "
                f"{plan.max_categories}; leave it out (drop), join values, or raise "
                "max_categories."
            )
        n_missing = int((codes < 0).sum())
        remark = remark or _missing_remark(role, n_missing)
        yield ColumnAccount(
            column=name, role=role, n_values=n_values, n_missing=n_missing, remark=remark
        )


def _role(
    name: str,
    values: Column,
    codes: npt.NDArray[np.int64],
    tell_tales: dict[str, npt.NDArray[np.int64]],
    plan: TablePlan,
) -> tuple[Role, str]:
    if name == plan.label:
        return "label", f"positive is {plan.positive}"
    if name in plan.attributes:
        return "protected attribute", "not used as a feature"
    if len(set(codes)) == 1:
        return "left out", "constant"
    for other, other_codes in tell_tales.items():
        if _one_to_one(codes, other_codes):
            kind = "the label" if other == plan.label else "the protected attribute"
            return "left out", f"tells {kind} {other!r} one to one"
    if values.dtype == object:
        return "category", ""
    all_differ = len(set(codes)) == codes.size and bool((values == np.floor(values)).all())
    return "number", "every value is different: drop it if it is an identifier" * all_differ


def _missing_remark(role: Role, n_missing: int) -> str:
    if n_missing == 0:
        return ""
    return {
        "number": "missing values become the training mean, with an indicator column",
        "category": "missing values are a category of their own",
    }.get(role, "")


def _rule(line: ColumnAccount, columns: Columns) -> FeatureRule:
    if line.role == "number":
        return Number(line.column)
    values = columns[line.column]
    return Category(line.column, tuple(sorted(set(values[~is_missing(values)]))))


def _notes(
    account: tuple[ColumnAccount, ...],
    attributes: tuple[ProtectedAttribute, ...],
    n_unlabelled: int,
) -> Iterator[str]:
    if n_unlabelled:
        yield f"{n_unlabelled:,} records without a label are left out."
    for attribute in attributes:
        if attribute.n_missing:
            yield (
                f"{attribute.n_missing:,} records have no {attribute.name}; they are trained on "
                "but belong to no group."
            )
    for line in account:
        if line.role == "left out":
            yield f"Column {line.column!r} is left out: {line.remark}."
        elif line.n_missing and line.role in ("number", "category"):
            yield f"Column {line.column!r}: {line.n_missing:,} {line.remark}."


def _left_out(account: tuple[ColumnAccount, ...]) -> str:
    lines = [f"{line.column!r} is {line.remark}" for line in account if line.role == "left out"]
    return ", ".join(lines[:5]) or "the label and the attributes are not features"


def _codes(values: Column) -> npt.NDArray[np.int64]:
    """Number of each distinct value; -1 where missing."""
    missing = is_missing(values)
    codes = np.full(values.size, -1, dtype=np.int64)
    codes[~missing] = np.unique(values[~missing], return_inverse=True)[1]
    return codes


def _one_to_one(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> bool:
    pairs = len(np.unique(a * (b.max() + 2) + b))
    return pairs == len(np.unique(a)) == len(np.unique(b))


def _require_shared_values(name: str, n_values: int, n_known: int, file: str) -> None:
    """Refuse a text column that names people rather than describes them."""
    if n_values > NEAR_UNIQUE * n_known:
        raise InputError(
            f"{file}: column {name!r} has {n_values:,} different texts in {n_known:,} records, so "
            f"it names people rather than describes them; leave it out (drop), or insist on it by "
            "name (identifiers)."
        )


def _short_name(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0]
