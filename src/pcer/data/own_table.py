"""A user's table as a GroupedDataset, with an account of every column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pcer.data.dataset import GroupedDataset, ProtectedAttribute
from pcer.data.readers import Column, Columns, as_array, open_table, require_columns
from pcer.data.task import Category, GroupRule, Number, divide, encode, is_missing
from pcer.errors import InputError, alike, confusable, require_at_least
from pcer.metrics import IntArray
from pcer.release.columns import Coded, column_of
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.records import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

Role = Literal["number", "category", "label", "protected attribute", "left out"]
MISSING_MARKS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_COMMA_NUMBER = r"^\s*[+-]?\d+,\d+\s*$"
MOST_LISTED = 20  # columns used alike that are accounted for one by one
ATTRIBUTES = (
    "sex",
    "gender",
    "race",
    "rac1p",
    "ethnicity",
    "nationality",
    "age_group",
    "group",
)
# Distinct texts per record above which a column counts as a name or an identifier.
NEAR_UNIQUE = 0.5
MISSING_REMARKS = {
    "number": "missing values become the training mean, with an indicator column",
    "category": "missing values are one more category",
}


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """What the columns of a table mean.

    Args:
        label: column that a model is to predict.
        positive: the value of ``label`` that counts as positive; all others are
            negative.
        attributes: columns that divide the people into groups; never used as features.
        outcome: whether being predicted positive helps ("benefit") or harms ("harm").
        categories: columns to treat as categories although they hold numbers, or both.
        drop: columns to leave out.
        max_categories: a column with more different values is refused, not truncated.
        missing: texts that stand for a missing value.
        identifiers: text columns to learn from although nearly every record has its own
            value.
        public: whether the records are public; see ``GroupedDataset``.
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
            raise InputError(
                f"column {self.label!r} cannot be both label and attribute."
            )
        for name in (name for name in self.drop if name in self.texts):
            raise InputError(
                f"column {name!r} cannot be left out and used; take it from drop."
            )

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that are read as text, even where they hold numbers."""
        return (self.label, *self.attributes, *self.categories)


class ColumnAccount(NamedTuple):
    """How one column is used; remarks say why one is left out."""

    column: str
    role: Role
    n_values: int
    n_missing: int
    remark: str = ""


def alike_as_one(
    account: Sequence[ColumnAccount],
) -> Iterator[tuple[ColumnAccount, int]]:
    """Lines with the number of columns they stand for: the first, of many columns used alike."""
    n_alike = Counter((line.role, line.remark) for line in account)
    seen = set[tuple[str, str]]()
    for line in account:
        n = n_alike[key := (line.role, line.remark)]
        if n <= MOST_LISTED or key not in seen:
            yield line, n if n > MOST_LISTED else 1
        seen.add(key)


class TableFault(InputError):
    """What must be fixed before training; its ``columns`` could also be left out."""

    def __init__(self, sentence: str, columns: Sequence[str]) -> None:
        super().__init__(sentence)
        self.columns = columns


class OwnTable(NamedTuple):
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
    | missing category | one more category |
    | a constant column | left out, and named |
    | a column that reveals the label, or an attribute, one to one | left out, and named |

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    content, file = open_table(table)
    names = content.column_names
    require_columns((*plan.texts, *plan.drop, *plan.identifiers), names, file=file)
    fault = ""
    if not all(map(alike, names)):
        fault = "has a column without a visible name; name it in the header"
    elif two := confusable(names):
        fault = f"has columns {two[0]!r} and {two[1]!r}, which read alike; rename one of them"
    elif content.num_rows == 0:
        fault = "has no records; a table needs at least a few per group"
    if fault:
        raise InputError(f"{file} {fault}.")
    columns = {
        column: _typed(content.column(column), column, plan, file)
        for column in names
        if column not in plan.drop
    }
    labelled = np.flatnonzero(~is_missing(columns[plan.label]))
    kept = {column: values[labelled] for column, values in columns.items()}
    coded = {column: column_of(values, column) for column, values in kept.items()}
    account = tuple(_account(kept, coded, plan))
    if faults := dict(_faults(kept, coded, account, plan)):
        droppable = [column for column in faults if column and column not in plan.texts]
        raise TableFault(f"{file}: {'; and '.join(faults.values())}.", droppable)
    attributes = tuple(
        divide(column, GroupRule.of_each(column, coded[column].names), kept)
        for column in plan.attributes
    )
    rules = [
        Number(column)
        if role == "number"
        else Category(column, tuple(coded[column].names))
        for column, role, *_ in account
        if role in MISSING_REMARKS
    ]
    feature_names, features = encode(tuple(rules), kept)
    dataset = GroupedDataset(
        name=name or file.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0],
        features=features,
        feature_names=feature_names,
        labels=np.asarray(kept[plan.label] == plan.positive, dtype=np.int64),
        attributes=attributes,
        outcome=plan.outcome,
        positive_label=f"{plan.label} = {plan.positive}",
        record_ids=labelled,
        notes=tuple(_notes(account, attributes, content.num_rows - labelled.size)),
        public=plan.public,
    )
    return OwnTable(dataset=dataset, account=account)


def guessed(
    table: Any, label: str | None, attributes: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """For questions: likely answers, and the label's values, if few, the likely positive first.

    The label is the last column of two values, an attribute one that is called like
    one.
    """
    content, file = open_table(table)
    require_columns(
        (*filter(None, [label]), *attributes), content.column_names, file=file
    )
    n_values = {
        name: len(content.column(name).unique()) for name in content.column_names
    }
    named = [name for name in n_values if name.lower() in ATTRIBUTES and name != label]
    of_two = [
        name
        for name, n in n_values.items()
        if n == 2 and name not in (*attributes, *named)
    ]
    label = label or (of_two or [*n_values])[-1]
    rest = [name for name in (*named, *of_two, *n_values) if name != label] or [label]
    plan = TablePlan(label=label, positive="", attributes=("",), outcome="benefit")
    column = column_of(_typed(content.column(label), label, plan, file), label)
    n = Counter(
        column.codes.tolist()
    )  # a value of few records may be one person's words
    kept = [value for k, value in enumerate(column.names) if n[k] >= LEAST_PEOPLE][::-1]
    kept = sorted(kept, key=lambda text: text.lower() not in ("1", "true", "yes")) or [
        "VALUE"
    ]
    said = {
        "label": label,
        "positive": kept[0],
        "outcome": "benefit",
        "attributes": rest[0],
    }
    return said, kept if len(column.names) <= TablePlan.max_categories else []


def _typed(column: pa.ChunkedArray, name: str, plan: TablePlan, file: str) -> Column:
    """Numbers (NaN: missing) where every value is one, else text (None: missing)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = (
        column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    )
    if pa.types.is_boolean(kind) and name in plan.texts:
        return as_array(column.cast(pa.string()))
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    ):
        numbers = as_array(column.cast(kind))
        if name not in plan.texts:
            return numbers
        # As a person writes them: 1 for 1.0.
        texts = [
            None if value != value else f"{value:.15g}" for value in numbers.tolist()
        ]
        return np.array(texts, dtype=object)
    if str(kind) not in ("string", "large_string", "string_view"):
        raise InputError(
            f"{file}: column {name!r} holds {kind}, neither numbers nor text; leave it out (drop)."
        )
    text = column.cast(pa.string())
    marks = pa.array(plan.missing, pa.string())
    is_mark = pc.is_in(pc.utf8_trim_whitespace(text), value_set=marks)
    text = pc.if_else(is_mark, pa.scalar(None, pa.string()), text)
    given = text.drop_null()
    are_numbers = (
        len(given) and pc.all(pc.match_substring_regex(given, _NUMBER)).as_py()
    )
    if name in plan.texts or not are_numbers:
        return as_array(text)
    return as_array(pc.cast(pc.utf8_trim_whitespace(text), pa.float64()))


def _account(
    columns: Columns, coded: Mapping[str, Coded], plan: TablePlan
) -> Iterator[ColumnAccount]:
    """One line per column, in the order of the table."""
    leaks = [(name, coded[name].codes) for name in (plan.label, *plan.attributes)]
    leaks.append((plan.label, (columns[plan.label] == plan.positive).astype(np.int64)))
    for name, values in columns.items():
        codes = coded[name].codes
        n_missing = int((codes < 0).sum())
        role, remark = _role(name, values, codes, leaks, plan)
        if n_missing and not remark:
            remark = MISSING_REMARKS.get(role, "")
        yield ColumnAccount(name, role, len(coded[name].names), n_missing, remark)


def _role(
    name: str,
    values: Column,
    codes: IntArray,
    leaks: Sequence[tuple[str, IntArray]],
    plan: TablePlan,
) -> tuple[Role, str]:
    """What a column is used as, and why; ``leaks`` are codes that no feature may repeat."""
    if name == plan.label:
        return "label", f"positive is {plan.positive}"
    if name in plan.attributes:
        return "protected attribute", "not used as a feature"
    n_different = len(np.unique(codes))
    if n_different < 2:
        return "left out", "constant"
    for other, leak in leaks:
        n_pairs = len(np.unique(codes * (leak.max() + 2) + leak))
        if n_pairs == n_different == len(np.unique(leak)):
            kind = "the label" if other == plan.label else "the protected attribute"
            return "left out", f"reveals {kind} {other!r} one to one"
    if values.dtype == object:
        return "category", ""
    all_differ = n_different == codes.size and bool((values == np.floor(values)).all())
    return (
        "number",
        "every value is different: drop it if it is an identifier" * all_differ,
    )


def _faults(
    columns: Columns,
    coded: Mapping[str, Coded],
    account: Sequence[ColumnAccount],
    plan: TablePlan,
) -> Iterator[tuple[str, str]]:
    """Everything that must be fixed before training, by column: at most one fault for each."""
    most = plan.max_categories
    nouns = {"label": "label", "protected attribute": "attribute"}
    for name, role, n, n_missing, _ in account:
        values = columns[name]
        column = coded[name]
        n_known = len(values) - n_missing
        is_text = values.dtype == object
        learnt = column.names if is_text and name not in plan.texts else []
        numbers = [code for code, text in enumerate(learnt) if re.match(_NUMBER, text)]
        n_numbers = int(np.isin(column.codes, numbers).sum())
        if role == "label" and not 2 <= n <= most:
            fault = f"must have two values, or up to {most}, not {n:,}; join values, as at a limit"
        elif role == "label" and plan.positive not in column.names:
            fault = f"never has the value {plan.positive!r}; name as positive one of its {n}"
        elif role == "protected attribute" and n < 2:
            fault = "has one group only; an audit compares at least two"
        elif role == "protected attribute" and n > most:
            fault = f"has {n:,} different values, more than {most}; join them into groups first, "
            fault += "or raise max_categories"
        elif not is_text and np.isinf(values).any():
            fault = "holds infinite numbers; make them missing"
        elif learnt and all(re.match(_COMMA_NUMBER, text) for text in learnt):
            fault = "holds numbers with decimal commas; write them with points"
        elif n_numbers:
            fault = f"mixes {n_numbers:,} numbers and {n_known - n_numbers:,} other values; name "
            fault += "what stands for a missing value (missing), take all of them as categories "
            fault += "(categories), or leave the column out (drop)"
        elif role != "category":
            continue
        elif name not in plan.identifiers and n > NEAR_UNIQUE * n_known:
            fault = f"has {n:,} different texts in {n_known:,} records, so it names people rather "
            fault += "than describes them; leave it out (drop), or insist on it (identifiers)"
        elif n > most:
            fault = f"has {n:,} categories, more than {most}; leave it out (drop), join values, or "
            fault += "raise max_categories"
        else:
            continue
        yield name, f"{nouns.get(role, 'column')} {name!r} {fault}"
    if not any(line.role in MISSING_REMARKS for line in account):
        left_out = [
            f"{x.column!r} is {x.remark}" for x in account if x.role == "left out"
        ]
        reason = (
            ", ".join(left_out[:5]) or "the label and the attributes are not features"
        )
        yield "", f"there is no column left to learn from; {reason}"


def _notes(
    account: Sequence[ColumnAccount],
    attributes: Sequence[ProtectedAttribute],
    n_unlabelled: int,
) -> Iterator[str]:
    if n_unlabelled:
        yield f"{n_unlabelled:,} records without a label are left out."
    trained = "they are trained on but belong to no group"
    for attribute in attributes:
        if attribute.n_missing:
            yield f"{attribute.n_missing:,} records have no {attribute.name}; {trained}."
    for line, n in alike_as_one(account):
        if line.role != "left out" and not (
            line.n_missing and line.role in MISSING_REMARKS
        ):
            continue
        one = f"Column {line.column!r}{' is left out' * (line.role == 'left out')}"
        many = f"{n:,} columns{' are left out' * (line.role == 'left out')}"
        missing = f" {line.n_missing:,}" if line.role != "left out" and n == 1 else ""
        yield f"{one if n == 1 else many}:{missing} {line.remark}."
