"""How does a user's table become a dataset, and what happens to each column?

``pcer train TABLE`` calls ``read_table``, whose account of the columns it shows, and
``guessed`` where it has to ask what the columns mean. To add a rule of what a column
is: a case of ``_role``, and its words in ``_account``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pcer.data.dataset import HELD_OUT, GroupedDataset, ProtectedAttribute
from pcer.data.readers import Column, Columns, as_array, open_table, require_columns
from pcer.data.task import (
    Category,
    FeatureRule,
    GroupRule,
    Number,
    divide,
    encode,
    is_missing,
)
from pcer.errors import InputError, confusable, normalised, require_at_least
from pcer.metrics import IntArray
from pcer.release.columns import Coded, column_of
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.population import NOT_RECORDED, Missing, are_enough
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
POSITIVE_WORDS = ("1", "true", "yes")  # values of a label that are likely positive
# Distinct texts per record above which a column counts as a name or an identifier.
NEAR_UNIQUE = 0.5
MOST_NAMED = 5  # columns left out that an error names
NOUNS = {"label": "label", "protected attribute": "attribute"}  # others are columns
MISSING_REMARKS = {  # of the roles that are features
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
        missing_group: what becomes of people without a value of an attribute:
            "leave_out", or "group", one of their own.
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
    missing_group: Missing = "leave_out"
    public: bool = False

    def __post_init__(self) -> None:
        require_at_least(2, max_categories=self.max_categories)
        if not self.attributes:
            raise InputError("name at least one column in attributes.")
        if self.label in self.attributes:
            raise InputError(
                f"column {self.label!r} cannot be both label and attribute."
            )
        for name in self.drop:
            if name in self.texts:
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
    """Lines of the account, each with the number of columns that it stands for.

    Of more than ``MOST_LISTED`` columns used alike, the first stands for all.
    """
    n_alike = Counter((line.role, line.remark) for line in account)
    listed = set[tuple[str, str]]()
    for line in account:
        use = (line.role, line.remark)
        if n_alike[use] <= MOST_LISTED:
            yield line, 1
        elif use not in listed:
            listed.add(use)
            yield line, n_alike[use]


class TableFault(InputError):
    """What must be fixed before training; its ``columns`` could also be left out."""

    def __init__(self, sentence: str, columns: Sequence[str]) -> None:
        super().__init__(sentence)
        self.columns = columns


class OwnTable(NamedTuple):
    """A table ready for training, and an account of its columns for its owner."""

    dataset: GroupedDataset
    account: tuple[ColumnAccount, ...]


class Labelled(NamedTuple):
    """The records of a table that have a label."""

    ids: IntArray  # their positions in the table
    columns: Columns
    coded: Mapping[str, Coded]
    account: tuple[ColumnAccount, ...]


class Guess(NamedTuple):
    """Likely answers to questions about a table."""

    answers: dict[str, str]  # by field of ``TablePlan``
    values: list[str]  # of the label, the likely positive first; none if many


def read_table(table: Any, plan: TablePlan, *, name: str | None = None) -> OwnTable:
    """Read a CSV or Parquet file, or a data frame, as the plan says.

    | in the table | becomes |
    |---|---|
    | no label | the record is left out, and a note says how many |
    | no protected attribute | the record is trained on, and counted in no group |
    | missing number | an indicator; stays missing until standardised (training mean) |
    | missing category | one more category |
    | a constant column | left out, and named |
    | one that reveals the label or an attribute one to one | left out, and named |

    Raises:
        InputError: one sentence with the file, the column and the remedy.
    """
    content, file = open_table(table)
    named = (*plan.texts, *plan.drop, *plan.identifiers)
    require_columns(named, content.column_names, file=file)
    _require_usable(content, file)
    records = _labelled(content, plan, file)
    faults = dict(_faults(records, plan))
    if faults:
        droppable = [column for column in faults if column and column not in plan.texts]
        raise TableFault(f"{file}: {'; and '.join(faults.values())}.", droppable)
    attributes = tuple(_divided(column, records, plan) for column in plan.attributes)
    rules: list[FeatureRule] = []
    for line in records.account:
        if line.role == "number":
            rules.append(Number(line.column))
        elif line.role == "category":
            names = tuple(records.coded[line.column].names)
            rules.append(Category(line.column, names))
    feature_names, features = encode(tuple(rules), records.columns)
    n_unlabelled = content.num_rows - records.ids.size
    is_positive = records.columns[plan.label] == plan.positive
    dataset = GroupedDataset(
        name=name or file.replace("\\", "/").rsplit("/", 1)[-1].split(".")[0],
        features=features,
        feature_names=feature_names,
        labels=np.asarray(is_positive, dtype=np.int64),
        attributes=attributes,
        outcome=plan.outcome,
        positive_label=f"{plan.label} = {plan.positive}",
        record_ids=records.ids,
        notes=tuple(_notes(records.account, n_unlabelled)),
        public=plan.public,
    )
    return OwnTable(dataset=dataset, account=records.account)


def _divided(column: str, records: Labelled, plan: TablePlan) -> ProtectedAttribute:
    """The groups of a column; people without a value are one, if enough, or in none."""
    rule = GroupRule.of_each(column, records.coded[column].names)
    attribute = divide(column, rule, records.columns)
    positive = records.columns[plan.label] == plan.positive
    is_group = are_enough(positive[attribute.codes < 0], LEAST_PEOPLE, HELD_OUT)
    if plan.missing_group == "leave_out" or not (is_group or plan.public):
        return attribute
    n_groups = len(attribute.group_names)
    return ProtectedAttribute(
        name=column,
        group_names=(*attribute.group_names, NOT_RECORDED),
        codes=np.where(attribute.codes < 0, n_groups, attribute.codes),
        declared=frozenset({NOT_RECORDED}),
    )


def _require_usable(content: pa.Table, file: str) -> None:
    """Raise InputError unless there are records, and names that differ visibly."""
    names = content.column_names
    if not all(normalised(name) for name in names):
        raise InputError(
            f"{file} has a column without a visible name; name it in the header."
        )
    two = confusable(names)
    if two is not None:
        raise InputError(
            f"{file} has columns {two[0]!r} and {two[1]!r}, which read alike; rename "
            "one of them."
        )
    if content.num_rows == 0:
        raise InputError(
            f"{file} has no records; a table needs at least a few per group."
        )


def _labelled(content: pa.Table, plan: TablePlan, file: str) -> Labelled:
    """The records that have a label, and how each of their columns is used."""
    columns: dict[str, Column] = {}
    for name in content.column_names:
        if name not in plan.drop:
            columns[name] = _typed(content.column(name), name, plan, file)
    ids = np.flatnonzero(~is_missing(columns[plan.label]))
    kept = {name: values[ids] for name, values in columns.items()}
    coded = {name: column_of(values, name) for name, values in kept.items()}
    return Labelled(ids, kept, coded, tuple(_account(kept, coded, plan)))


def guessed(table: Any, label: str | None, attributes: Sequence[str]) -> Guess:
    """What the columns of a table may mean, where its owner has not said it.

    The label is the last column of two values, an attribute one that is called like
    one.
    """
    content, file = open_table(table)
    named = [label, *attributes] if label else attributes
    require_columns(named, content.column_names, file=file)
    n_values = {
        name: len(content.column(name).unique()) for name in content.column_names
    }
    label, attribute = _likely_columns(n_values, label, attributes)
    # Read as its owner's plan would have it: as text.
    plan = TablePlan(label=label, positive="", attributes=("",), outcome="benefit")
    column = column_of(_typed(content.column(label), label, plan, file), label)
    values = _likely_positive_first(column) or ["VALUE"]
    answers = {
        "label": label,
        "positive": values[0],
        "outcome": "benefit",
        "attributes": attribute,
    }
    has_few = len(column.names) <= TablePlan.max_categories
    return Guess(answers, values if has_few else [])


def _likely_columns(
    n_values: Mapping[str, int], label: str | None, attributes: Sequence[str]
) -> tuple[str, str]:
    """A label and an attribute, from the columns' numbers of values."""
    called_so = [
        name for name in n_values if name.lower() in ATTRIBUTES and name != label
    ]
    of_two = [
        name
        for name, n in n_values.items()
        if n == 2 and name not in (*attributes, *called_so)
    ]
    label = label or (of_two or [*n_values])[-1]
    for name in (*called_so, *of_two, *n_values):
        if name != label:
            return label, name
    return label, label


def _likely_positive_first(column: Coded) -> list[str]:
    """Values of a label, but for rare ones, which may be one person's words."""
    n_records = Counter(column.codes.tolist())
    common = [
        value
        for code, value in enumerate(column.names)
        if n_records[code] >= LEAST_PEOPLE
    ]
    common.reverse()
    return sorted(common, key=lambda value: value.lower() not in POSITIVE_WORDS)


def _typed(column: pa.ChunkedArray, name: str, plan: TablePlan, file: str) -> Column:
    """Numbers (NaN: missing) where every value is one, else text (None: missing)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_boolean = pa.types.is_boolean(kind)
    if is_boolean and name in plan.texts:
        return as_array(column.cast(pa.string()))
    if is_boolean or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = as_array(column.cast(kind))
        if name not in plan.texts:
            return numbers
        # As a person writes them: 1 for 1.0.
        texts = [None if math.isnan(x) else f"{x:.15g}" for x in numbers.tolist()]
        return np.array(texts, dtype=object)
    if str(kind) not in ("string", "large_string", "string_view"):
        raise InputError(
            f"{file}: column {name!r} holds {kind}, neither numbers nor text; leave "
            "it out (drop)."
        )
    text = column.cast(pa.string())
    marks = pa.array(plan.missing, pa.string())
    is_mark = pc.is_in(pc.utf8_trim_whitespace(text), value_set=marks)
    text = pc.if_else(is_mark, pa.scalar(None, pa.string()), text)
    if name in plan.texts or not _are_numbers(text.drop_null()):
        return as_array(text)
    return as_array(pc.cast(pc.utf8_trim_whitespace(text), pa.float64()))


def _are_numbers(known: pa.ChunkedArray) -> bool:
    """Whether there are values, and all of them can be read as numbers."""
    import pyarrow.compute as pc

    if len(known) == 0:
        return False
    return bool(pc.all(pc.match_substring_regex(known, _NUMBER)).as_py())


def _account(
    columns: Columns, coded: Mapping[str, Coded], plan: TablePlan
) -> Iterator[ColumnAccount]:
    """One line per column, in the order of the table."""
    is_positive = columns[plan.label] == plan.positive
    leaks = [(name, coded[name].codes) for name in (plan.label, *plan.attributes)]
    leaks.append((plan.label, is_positive.astype(np.int64)))
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
    """What a column is used as, and why.

    ``leaks`` are codes that no feature may repeat, and the columns that they are of.
    """
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
    if n_different == codes.size and (values == np.floor(values)).all():
        return "number", "every value is different: drop it if it is an identifier"
    return "number", ""


def _faults(records: Labelled, plan: TablePlan) -> Iterator[tuple[str, str]]:
    """What must be fixed before training: columns, each with its first fault."""
    for line in records.account:
        name = line.column
        fault = _fault(line, records.columns[name], records.coded[name], plan)
        if fault is not None:
            yield name, f"{NOUNS.get(line.role, 'column')} {name!r} {fault}"
    if any(line.role in MISSING_REMARKS for line in records.account):
        return
    left_out = [
        f"{line.column!r} is {line.remark}"
        for line in records.account
        if line.role == "left out"
    ]
    reason = "the label and the attributes are not features"
    if left_out:
        reason = ", ".join(left_out[:MOST_NAMED])
    yield "", f"there is no column left to learn from; {reason}"


def _fault(
    line: ColumnAccount, values: Column, column: Coded, plan: TablePlan
) -> str | None:
    """What must be fixed in one column; None if nothing."""
    n_values = line.n_values
    most = plan.max_categories
    if line.role == "label":
        if not 2 <= n_values <= most:
            return (
                f"must have two values, or up to {most}, not {n_values:,}; join "
                "values, as at a limit"
            )
        if plan.positive not in column.names:
            return (
                f"never has the value {plan.positive!r}; name as positive one of its "
                f"{n_values}"
            )
        return None
    if line.role == "protected attribute":
        if n_values < 2:
            return "has one group only; an audit compares at least two"
        if n_values > most:
            return (
                f"has {n_values:,} different values, more than {most}; join them into "
                "groups first, or raise max_categories"
            )
        return None
    return _feature_fault(line, values, column, plan)


def _feature_fault(
    line: ColumnAccount, values: Column, column: Coded, plan: TablePlan
) -> str | None:
    """A fault of a column that is a feature or left out."""
    if values.dtype != object:
        return (
            "holds infinite numbers; make them missing"
            if np.isinf(values).any()
            else None
        )
    n_known = len(values) - line.n_missing
    if line.column not in plan.texts and column.names:
        if all(re.match(_COMMA_NUMBER, text) for text in column.names):
            return "holds numbers with decimal commas; write them with points"
        is_number = [bool(re.match(_NUMBER, text)) for text in column.names]
        n_numbers = int(np.isin(column.codes, np.flatnonzero(is_number)).sum())
        if n_numbers > 0:
            return (
                f"mixes {n_numbers:,} numbers and {n_known - n_numbers:,} other "
                "values; name what stands for a missing value (missing), take all of "
                "them as categories (categories), or leave the column out (drop)"
            )
    if line.role != "category":
        return None
    names_people = line.n_values > NEAR_UNIQUE * n_known
    if names_people and line.column not in plan.identifiers:
        return (
            f"has {line.n_values:,} different texts in {n_known:,} records, so it "
            "names people rather than describes them; leave it out (drop), or insist "
            "on it (identifiers)"
        )
    if line.n_values > plan.max_categories:
        return (
            f"has {line.n_values:,} categories, more than {plan.max_categories}; leave "
            "it out (drop), join values, or raise max_categories"
        )
    return None


def _notes(account: Sequence[ColumnAccount], n_unlabelled: int) -> Iterator[str]:
    """What readers of a release must know of the records and columns."""
    if n_unlabelled:
        yield f"{n_unlabelled:,} records without a label are left out."
    for line, n_columns in alike_as_one(account):
        is_one = n_columns == 1
        columns = f"Column {line.column!r}" if is_one else f"{n_columns:,} columns"
        if line.role == "left out":
            verb = "is" if is_one else "are"
            yield f"{columns} {verb} left out: {line.remark}."
        elif line.n_missing and line.role in MISSING_REMARKS:
            n_missing = f"{line.n_missing:,} " if is_one else ""
            yield f"{columns}: {n_missing}{line.remark}."
