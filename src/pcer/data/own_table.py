"""Anyone's own table as a GroupedDataset, with an account of what was done to every column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pcer.data.dataset import GroupedDataset, ProtectedAttribute
from pcer.data.readers import Column, Columns, as_array, open_table, require_columns
from pcer.data.task import Category, Encoded, GroupRule, Number, divide, encode, is_missing
from pcer.errors import InputError, alike, confusable, require_at_least
from pcer.metrics import IntArray
from pcer.release.columns import column_of
from pcer.release.format import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

Role = Literal["number", "category", "label", "protected attribute", "left out"]

MISSING_MARKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA_NUMBER = r"^\s*[+-]?\d+,\d+\s*$"
NEAR_UNIQUE = 0.5
"""Different texts per record above which a column is taken for a name or an identifier."""
MISSING_REMARKS = {
    "number": "missing values become the training mean, with an indicator column",
    "category": "missing values are a category of their own",
}


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
    max_categories: int = 50
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


class ColumnAccount(NamedTuple):
    """What became of one column; the model never sees one that is left out, and remarks say why."""

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
    names = content.column_names
    require_columns((*plan.texts, *plan.drop, *plan.identifiers), names, file=file)
    if not all(map(alike, names)):
        raise InputError(f"{file} has a column whose name shows nothing; name it in the header.")
    if two := confusable(names):
        raise InputError(
            f"{file} has columns {two[0]!r} and {two[1]!r}, which read alike; rename one of them."
        )
    if content.num_rows == 0:
        raise InputError(f"{file} has no records; a table needs at least a few per group.")
    columns = {
        column: _typed(content.column(column), column, plan, f"{file}: column {column!r}")
        for column in names
        if column not in plan.drop
    }
    labelled = np.flatnonzero(~is_missing(columns[plan.label]))
    kept = {column: values[labelled] for column, values in columns.items()}
    labels = _labels(kept[plan.label], plan, file)
    attributes = tuple(_attribute(kept[column], column, plan, file) for column in plan.attributes)
    account = tuple(_account(kept, plan, labels, file))
    feature_names, features = _features(kept, account, file)
    dataset = GroupedDataset(
        name=name or file.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0],
        features=features,
        feature_names=feature_names,
        labels=labels,
        attributes=attributes,
        outcome=plan.outcome,
        positive_label=f"{plan.label} = {plan.positive}",
        record_ids=labelled,
        notes=tuple(_notes(account, attributes, content.num_rows - labelled.size)),
        public=plan.public,
    )
    return OwnTable(dataset=dataset, account=account)


def _typed(column: pa.ChunkedArray, name: str, plan: TablePlan, where: str) -> Column:
    """Numbers (NaN: missing) where every value is one, else text (None: missing)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind) and name in plan.texts:
        return as_array(column.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        numbers = _finite(column.cast(kind), where)
        if name not in plan.texts:
            return numbers
        # As a person writes them: 1 for 1.0.
        texts = [None if value != value else f"{value:.15g}" for value in numbers.tolist()]
        return np.array(texts, dtype=object)
    if str(kind) not in ("string", "large_string", "string_view"):
        raise InputError(f"{where} holds {kind}, neither numbers nor text; leave it out (drop).")
    text = column.cast(pa.string())
    marks = pa.array(plan.missing, pa.string())
    is_mark = pc.is_in(pc.utf8_trim_whitespace(text), value_set=marks)
    text = pc.if_else(is_mark, pa.scalar(None, pa.string()), text)
    known = text.drop_null()
    n_numbers = pc.sum(pc.match_substring_regex(known, _NUMBER)).as_py() or 0
    if name in plan.texts or not len(known):
        return as_array(text)
    if n_numbers == len(known):
        return _finite(pc.cast(pc.utf8_trim_whitespace(text), pa.float64()), where)
    if pc.all(pc.match_substring_regex(known, _COMMA_NUMBER)).as_py():
        raise InputError(f"{where} holds numbers with decimal commas; write them with points.")
    if n_numbers:
        raise InputError(
            f"{where} mixes {n_numbers:,} numbers and {len(known) - n_numbers:,} other values; "
            "name what stands for a missing value (missing), take all of them as categories "
            "(categories), or leave the column out (drop)."
        )
    return as_array(text)


def _finite(column: pa.ChunkedArray, where: str) -> Column:
    values = as_array(column)
    if np.isinf(values).any():
        raise InputError(f"{where} holds infinite numbers; make them missing.")
    return values


def _labels(values: Column, plan: TablePlan, file: str) -> IntArray:
    present = sorted(set(values))
    if len(present) != 2:
        raise InputError(
            f"{file}: label {plan.label!r} must have two values, but has {len(present):,}; keep "
            "the records of two of them, or join values."
        )
    if plan.positive not in present:
        raise InputError(
            f"{file}: label {plan.label!r} never has the value {plan.positive!r}; positive must "
            f"be {present[0]!r} or {present[1]!r}."
        )
    return np.asarray(values == plan.positive, dtype=np.int64)


def _attribute(values: Column, name: str, plan: TablePlan, file: str) -> ProtectedAttribute:
    groups = column_of(values, name).names
    if len(groups) < 2:
        raise InputError(
            f"{file}: attribute {name!r} has one group only; an audit compares at least two."
        )
    if len(groups) > plan.max_categories:
        raise InputError(
            f"{file}: attribute {name!r} has {len(groups):,} different values, more than "
            f"{plan.max_categories}; join them into groups first, or raise max_categories."
        )
    return divide(name, GroupRule.of_each(name, groups), {name: values})


def _account(
    columns: Columns, plan: TablePlan, labels: IntArray, file: str
) -> Iterator[ColumnAccount]:
    """One line per column, in the order of the table."""
    coded = {name: column_of(values, name) for name, values in columns.items()}
    leaks = {plan.label: labels, **{name: coded[name].codes for name in plan.attributes}}
    for name, values in columns.items():
        codes, n_values = coded[name].codes, len(coded[name].names)
        n_missing = int((codes < 0).sum())
        role, remark = _role(name, values, codes, leaks, plan)
        if role == "category":
            _require_categories(name, n_values, codes.size - n_missing, plan, file)
        if n_missing and not remark:
            remark = MISSING_REMARKS.get(role, "")
        yield ColumnAccount(name, role, n_values, n_missing, remark)


def _role(
    name: str, values: Column, codes: IntArray, leaks: dict[str, IntArray], plan: TablePlan
) -> tuple[Role, str]:
    """What a column is used as, and why; ``leaks`` are codes that no feature may repeat."""
    if name == plan.label:
        return "label", f"positive is {plan.positive}"
    if name in plan.attributes:
        return "protected attribute", "not used as a feature"
    n_different = len(np.unique(codes))
    if n_different == 1:
        return "left out", "constant"
    for other, told in leaks.items():
        n_pairs = len(np.unique(codes * (told.max() + 2) + told))
        if n_pairs == n_different == len(np.unique(told)):
            kind = "the label" if other == plan.label else "the protected attribute"
            return "left out", f"tells {kind} {other!r} one to one"
    if values.dtype == object:
        return "category", ""
    all_differ = n_different == codes.size and bool((values == np.floor(values)).all())
    return "number", "every value is different: drop it if it is an identifier" * all_differ


def _require_categories(name: str, n_values: int, n_known: int, plan: TablePlan, file: str) -> None:
    """Refuse a text column that names people rather than describes them, or has too many values."""
    if name not in plan.identifiers and n_values > NEAR_UNIQUE * n_known:
        raise InputError(
            f"{file}: column {name!r} has {n_values:,} different texts in {n_known:,} records, so "
            f"it names people rather than describes them; leave it out (drop), or insist on it by "
            "name (identifiers)."
        )
    if n_values > plan.max_categories:
        raise InputError(
            f"{file}: column {name!r} has {n_values:,} categories, more than "
            f"{plan.max_categories}; leave it out (drop), join values, or raise max_categories."
        )


def _features(columns: Columns, account: Sequence[ColumnAccount], file: str) -> Encoded:
    """The columns to learn from, encoded."""
    rules = [
        Number(line.column)
        if line.role == "number"
        else Category(line.column, tuple(column_of(columns[line.column], line.column).names))
        for line in account
        if line.role in MISSING_REMARKS
    ]
    if not rules:
        left_out = [f"{x.column!r} is {x.remark}" for x in account if x.role == "left out"]
        reason = ", ".join(left_out[:5]) or "the label and the attributes are not features"
        raise InputError(f"{file} has no column left to learn from; {reason}.")
    return encode(tuple(rules), columns)


def _notes(
    account: Sequence[ColumnAccount], attributes: Sequence[ProtectedAttribute], n_unlabelled: int
) -> Iterator[str]:
    if n_unlabelled:
        yield f"{n_unlabelled:,} records without a label are left out."
    trained = "they are trained on but belong to no group"
    for attribute in attributes:
        if attribute.n_missing:
            yield f"{attribute.n_missing:,} records have no {attribute.name}; {trained}."
    for line in account:
        if line.role == "left out":
            yield f"Column {line.column!r} is left out: {line.remark}."
        elif line.n_missing and line.role in MISSING_REMARKS:
            yield f"Column {line.column!r}: {line.n_missing:,} {line.remark}."
