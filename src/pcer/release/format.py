"""The released-statistics file: what a trainer hands to an auditor, and the only bridge.

A release holds, for every model (a budget and a seed), every group and both splits, a confusion
table; or, in the rates-only form, accuracies and positive rates. Nothing in it is about one
person. ``docs/format.md`` describes it in one page; ``pcer schema release`` prints its schema.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from pcer.errors import InputError, alike, confusable
from pcer.files import (
    ALLOW,
    MAX_BYTES,
    MAX_VALUES,
    Record,
    canonical_json,
    first_repeated,
    many_objects,
    parse_record,
    read_json,
    require_format,
    write_files,
)
from pcer.metrics import NO_DP

FORMAT: Final = "pcer-release"
VERSION: Final = 3
"""Versions 1 and 2 are read as they are: every field that a later version added is optional."""

Made = TypeVar("Made")

Outcome = Literal["benefit", "harm"]
SplitKind = Literal["random", "other"]
StratifiedBy = Literal["label", "group", "both", "nothing"]

Count = Annotated[int, Field(ge=0, le=10**15)]
Rate = Annotated[float, Field(ge=0, le=1)]
_LINE = r"\x00-\x1f\x7f-\x9f"
_UNSEEN = r"\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
Name = Annotated[
    str, Field(max_length=200, pattern=rf"^[^{_LINE}]*[^{_LINE}{_UNSEEN}][^{_LINE}]*$")
]
"""One line of text with something to see: a name ends up in terminals and reports."""
Note = Annotated[str, Field(max_length=2_000, pattern=rf"^[^{_LINE}]*$")]
Epsilon = Annotated[float, Field(gt=0)]
Cost = Annotated[float, Field(ge=-1e15, le=1e15)]  # can be squared and squared again
CostError = Annotated[float, Field(ge=0, le=1e15)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]

HINTS = {
    **dict.fromkeys(("dataset", "attribute"), "give a printable name"),
    "epsilon": "write null for a model without differential privacy",
    "seed": "number the models with whole numbers from -2^63 to 2^63 - 1",
    "split": "write a name or a whole number, or leave it out",
    "positive_label": "write a text, a number, true or false, or leave it out",
    **dict.fromkeys(("tp", "fp", "tn", "fn", "n"), "counts are whole numbers from 0 to 10^15"),
    "notes": "each note is one line of printable text",
    "groups": "name at least two groups, and give every run a table for each",
}

Rates = TypeVar("Rates", "TrainRates", "TestRates")


class Confusion(Record):
    """Confusion table of one group in one split."""

    tp: Count
    fp: Count
    tn: Count
    fn: Count

    @property
    def n(self) -> int:
        """Number of records."""
        return self.tp + self.fp + self.tn + self.fn


def _require_size_or_accuracy(table: Rates) -> Rates:
    if table.accuracy is None and table.n is None:
        raise ValueError("must hold tp, fp, tn and fn, or at least accuracy or n")
    return table


class TrainRates(Record):
    """Rates-only form of the training split. Without ``n`` nothing can be resolved.

    Without ``accuracy`` the table says how many people there are and nothing else (version 2).
    """

    accuracy: Rate | None = None
    n: Count | None = None

    _says_something = model_validator(mode="after")(_require_size_or_accuracy)


class TestRates(Record):
    """Rates-only form of the test split. Without ``n`` nothing can be resolved."""

    __test__ = False  # not a test class, whatever its name says to a test runner

    accuracy: Rate | None = None
    positive_rate: Rate | None = None
    n: Count | None = None

    _says_something = model_validator(mode="after")(_require_size_or_accuracy)


class Exposure(Record):
    """What one attack measured on one group of one model. Signed; 0 means chance."""

    value: Cost
    standard_error: CostError | None = None
    n_members: Count | None = None
    n_nonmembers: Count | None = None
    n_excluded: Count | None = None


_FORMS = ("counts", "rates")
_CELLS = frozenset({"tp", "fp", "tn", "fn"})


def _form(value: Any) -> str:
    fields = value if isinstance(value, dict) else vars(value) if hasattr(value, "__dict__") else {}
    return _FORMS[_CELLS.isdisjoint(fields)]


TrainTable = Annotated[
    Annotated[Confusion, Tag(_FORMS[0])] | Annotated[TrainRates, Tag(_FORMS[1])],
    Discriminator(_form),
]
TestTable = Annotated[
    Annotated[Confusion, Tag(_FORMS[0])] | Annotated[TestRates, Tag(_FORMS[1])],
    Discriminator(_form),
]


class GroupTables(Record):
    """One group of one model: both splits, and what attacks found."""

    train: TrainTable
    test: TestTable
    exposure: dict[Name, Exposure] = Field(default_factory=dict)


class Run(Record):
    """One trained model. Its model or training rule (a name) and its epsilon are its setting."""

    model: Name | None = None
    epsilon: Epsilon | None
    epsilon_by_accountant: dict[Name, float] | None = None
    dp_delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    noise_multiplier: Annotated[float, Field(ge=0)] | None = None
    seed: Seed
    split: Name | Seed | None = None
    groups: dict[Name, GroupTables]

    @property
    def budget(self) -> float:
        """The privacy budget; infinite without differential privacy."""
        return NO_DP if self.epsilon is None else self.epsilon


class PooledExposure(Record):
    """An attack's result whose error cannot be combined from single runs (paired, LiRA)."""

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    proxy: Name
    value: Cost
    standard_error: CostError | None = None
    null_error: CostError | None = None
    benefit_covariance: Cost | None = None
    n_records: Count | None = None
    n_excluded: Count | None = None
    separation: Rate | None = None


class Placebo(Record):
    """What coin-flip attributes and permuted group labels gave: how far an alarm can be trusted.

    Attributes:
        model: with ``epsilon``, the setting.
        epsilon: of the setting.
        proxy: the cost.
        groups: the pair.
        n_draws: attributes drawn by coin flips, of the same sizes, and audited like the real one.
        n_shown: of those, how many alarmed as a disparity.
        n_double: how many alarmed as a double disadvantage.
        p_value: of the real attribute among permutations of the group labels, adjusted over
            settings and costs.
        p_value_within_labels: the same, permuted among people of one label.
        n_permutations: how many there were; within labels perhaps fewer.
        n_exposure: of the draws, in how many exposures differed and that of the more exposed group
            was detected.
        exposure_p_value: as ``p_value``, of the difference of exposures.
        exposure_p_value_within_labels: the same, permuted among people of one label.
        n_exact: draws that were also attacked exactly, where the others are taken to first order.
        exact_difference: root mean square, over those, of how far the two are apart: differences
            of exposures, each over its error.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    proxy: Name
    groups: Annotated[list[Name], Field(min_length=2, max_length=2)]
    n_draws: Count
    n_shown: Count
    n_double: Count
    p_value: Rate | None = None
    p_value_within_labels: Rate | None = None
    n_permutations: Count | None = None
    n_exposure: Count | None = None
    exposure_p_value: Rate | None = None
    exposure_p_value_within_labels: Rate | None = None
    n_exact: Count | None = None
    exact_difference: CostError | None = None


class Bound(Record):
    """What the training itself says about the privacy that one group's people spent.

    Attributes:
        model: with ``epsilon``, the setting.
        epsilon: of the setting, as promised.
        group: whose.
        label: only people of this label; None for all.
        kind: the bound of each person (receipt), or the least epsilon over orders (realised),
            which describes and bounds nothing.
        mode: where the norms of gradients come from; "refreshed" ones are an estimate.
        accountant: of ``mean``, ``quantiles`` and ``nominal``.
        mean: epsilon, over people and models.
        standard_error: of the mean, over people and seeds.
        quantiles: by their share, such as "0.5".
        n_records: people.
        nominal: the promise by the same accountant.
        allowed_advantage: AUC minus 1/2 of an attacker who sees every step, by Gaussian privacy; an
            estimate, on the scale of attacks.
        exact: whether no noise was added to these statistics of training records.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    label: Annotated[int, Field(ge=0, le=1)] | None = None
    kind: Literal["receipt", "realised"]
    mode: Literal["exact", "refreshed", "held"]
    accountant: Name
    mean: Annotated[float, Field(ge=0)]
    standard_error: Annotated[float, Field(ge=0)] | None = None
    quantiles: dict[Name, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    n_records: Count | None = None
    nominal: Annotated[float, Field(ge=0)] | None = None
    allowed_advantage: Annotated[float, Field(ge=0, le=0.5)] | None = None
    exact: bool | None = None


class Disclosure(Record):
    """What the file gives away about single people, and which rule it was written by.

    Attributes:
        public_data: whether the records are public, so that exact cells tell nothing new.
        least_people: fewest people of one group, label and part that the writer allowed.
        small_groups: what became of smaller groups.
        memberships: how many the tables tell with certainty to someone who knows the prediction;
            a person counts once for each model.
        most_in_one_model: people of the model that tells most.
        n_coarse_tables: tables that show less than all cells, so that they tell no membership.
    """

    public_data: bool = False
    least_people: Count | None = None
    small_groups: Literal["join", "withhold"] | None = None
    memberships: Count | None = None
    most_in_one_model: Count | None = None
    n_coarse_tables: Count | None = None


class Subject(Record):
    """What was trained on, and about whom."""

    dataset: Name
    attribute: Name
    groups: Annotated[list[Name], Field(min_length=2)]
    outcome: Outcome
    positive_label: str | Seed | float | bool | None = None
    unit_of_privacy: Name | None = None
    n_records: Count | None = None
    n_missing_group: Count | None = None
    notes: list[Note] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Subject:
        twice = first_repeated(self.groups)
        if twice is not None:
            raise ValueError(f"groups must be distinct, but {twice!r} appears twice")
        _check_names("groups", self.groups)
        return self


class Training(Record):
    """How the models were trained, as far as the trainer says."""

    mechanism: Name = "unknown"
    split_kind: SplitKind | None = None
    unit_of_split: Name | None = None
    effective_units: dict[Name, Annotated[float, Field(gt=0)]] | None = None
    stratified_by: StratifiedBy | None = None
    config: dict[str, JsonValue] | None = None
    joint_privacy: JsonValue | None = None


class Provenance(Record):
    """Where the file came from."""

    pcer_version: Name | None = None
    source_commit: Name | None = None
    source_dirty: bool | None = None
    data_digest: Name | None = None


class Shown(Record):
    """A record with a face: small HTML in notebooks, a few lines elsewhere, one line in a list.

    What draws it lies in a room below, which this room must not know; the package knows both.
    """

    drawings: ClassVar[Callable[[], Any]]
    """Loads what draws, when the first record is looked at."""

    @staticmethod
    def drawn_by(load: Callable[[], Any]) -> None:
        """Say how to load what draws, once for all such records."""
        Shown.drawings = load

    @property
    def title(self) -> str:
        """What it is, in few words; they are other people's."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        return Shown.drawings().to_plain(self)

    def _repr_html_(self) -> str:
        return Shown.drawings().to_notebook(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": str(self)}


class Release(Shown):
    """Per-group statistics of a family of models. Checked whole when made.

    Guarantees: every run has exactly the groups of the subject, none empty; no (model, epsilon,
    seed) twice; runs of one split agree on its sizes; a file of an older version has no newer
    field.
    """

    format: Literal["pcer-release"] = FORMAT
    version: Literal[1, 2, 3] = VERSION
    subject: Subject
    training: Training = Field(default_factory=Training)
    runs: Annotated[list[Run], Field(min_length=1)]
    pooled_exposure: list[PooledExposure] = Field(default_factory=list)
    not_computed: dict[Name, Note] = Field(default_factory=dict)
    placebo: list[Placebo] = Field(default_factory=list)
    bounds: list[Bound] = Field(default_factory=list)
    disclosure: Disclosure | None = None
    provenance: Provenance = Field(default_factory=Provenance)

    @model_validator(mode="after")
    def _is_consistent(self) -> Release:
        _check_version(self)
        _check_runs(self)
        _check_splits(self)
        _check_keyed(self)
        models = {run.model for run in self.runs if run.model is not None}
        _check_names("the names in runs[].model", sorted(models))
        _check_names("names of costs", _proxies(self))
        return self

    @property
    def title(self) -> str:
        """Dataset, attribute and how many models."""
        n = len(self.runs)
        models = f"{n:,} model{'s' if n > 1 else ''}"
        return f"{self.subject.dataset} ({self.subject.attribute}), {models}"

    @property
    def has_counts(self) -> bool:
        """Whether the release carries confusion tables (True) or only rates."""
        tables = (
            t for run in self.runs for one in run.groups.values() for t in (one.train, one.test)
        )
        return any(isinstance(table, Confusion) for table in tables)

    @property
    def sha256(self) -> str:
        """Digest of the release in the form that ``write_release`` gives it; made once."""
        return self.kept(_digest)

    def kept(self, make: Callable[[Release], Made]) -> Made:
        """What ``make`` makes of this release: made once, and left behind by copies."""
        if make not in self._kept:
            self._kept[make] = make(self)
        made: Made = self._kept[make]
        return made

    @cached_property
    def _kept(self) -> dict[Callable[[Release], Any], Any]:
        return {}

    def to_tree(self) -> dict[str, Any]:
        """The release as plain objects, in the order of the format; absent fields are left out."""
        tree: dict[str, Any] = plain(self)
        for run in tree["runs"]:
            run["groups"] = {name: run["groups"][name] for name in self.subject.groups}
        return tree

    def to_json(self) -> str:
        """The release as canonical text: same release, same bytes."""
        with many_objects():
            return canonical_json(self.to_tree())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Release:
        """A copy with other fields, without what was made of the old ones."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_kept", None)
        return copy


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one release may hold before an auditor is asked whether it is meant to be so large.

    Attributes:
        n_bytes: of the file.
        n_values: numbers, texts, lists and objects in it.
        n_runs: trained models.
        n_settings: distinct pairs of model and epsilon.
        n_groups: groups.
        n_tables: runs times groups.
        n_rows: settings times groups.
        n_exposures: what attacks found: values of a cost of one group in one run.
        n_costs: names of costs besides the gap.
        n_notes: notes.
    """

    n_bytes: int = MAX_BYTES
    n_values: int = MAX_VALUES
    n_runs: int = 20_000
    n_settings: int = 500
    n_groups: int = 200
    n_tables: int = 12_000
    n_rows: int = 400
    n_exposures: int = 100_000
    n_costs: int = 50
    n_notes: int = 200


LIMITS: Final = Limits()


def require_within(limits: Limits, data: Mapping[str, Any], file: str) -> None:
    """Raise InputError where a file, not checked yet, holds more than anybody would audit."""
    runs, subject = _listed(data, "runs"), data.get("subject")
    n_groups, n_settings = len(_listed(subject, "groups")), len({_setting(run) for run in runs})
    sizes = {
        "runs": (len(runs), limits.n_runs),
        "settings": (n_settings, limits.n_settings),
        "groups": (n_groups, limits.n_groups),
        "tables (runs times groups)": (len(runs) * n_groups, limits.n_tables),
        "rows (settings times groups)": (n_settings * n_groups, limits.n_rows),
        "exposures (of runs and groups)": (_n_exposures(runs), limits.n_exposures),
        "costs": (_n_costs(data, runs, limits), limits.n_costs),
        "notes": (len(_listed(subject, "notes")), limits.n_notes),
    }
    for what, (found, limit) in sizes.items():
        if found > limit:
            raise InputError(
                f"{file} holds {found:,} {what}, more than the {limit:,} that are read by default; "
                f"{ALLOW}, or divide it."
            )


def _listed(record: Any, field: str) -> list[Any]:
    """A list in what may be a record."""
    found = record.get(field) if isinstance(record, dict) else None
    return found if isinstance(found, list) else []


def _n_costs(data: Mapping[str, Any], runs: list[Any], limits: Limits) -> int:
    """Names of costs in what may be a release; counted until there are too many."""
    rows = (*_listed(data, "pooled_exposure"), *_listed(data, "placebo"))
    found = {row["proxy"] for row in rows if isinstance(row, dict) and _is_text(row.get("proxy"))}
    for run in runs:
        groups = run.get("groups") if isinstance(run, dict) else None
        for group in groups.values() if isinstance(groups, dict) else ():
            exposure = group.get("exposure") if isinstance(group, dict) else None
            if isinstance(exposure, dict):
                found |= exposure.keys()
        if len(found) > limits.n_costs:
            break
    return len(found)


def _n_exposures(runs: list[Any]) -> int:
    """Entries under ``exposure`` in what may be runs."""
    return sum(
        len(exposure)
        for run in runs
        if isinstance(run, dict) and isinstance(run.get("groups"), dict)
        for group in run["groups"].values()
        if isinstance(group, dict) and isinstance(exposure := group.get("exposure"), dict)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _setting(run: Any) -> tuple[str | None, float | None]:
    """Model and epsilon of what may be a run; all nonsense counts as one."""
    model, epsilon = (run.get("model"), run.get("epsilon")) if isinstance(run, dict) else (0, "")
    return (
        model if isinstance(model, str) else None,
        epsilon if isinstance(epsilon, int | float) else None,
    )


LEAVES = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Plain objects, without the absent fields of records.

    A field is absent if it is null or empty; but a null ``epsilon`` says "no differential
    privacy". Only fields of records are left out, never a key of a mapping: groups, proxies and
    the trainer's own settings may be called anything, and a null in the settings is a value.
    """
    if type(value) in LEAVES:
        return value
    if isinstance(value, Record):
        return _present(value)
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def _present(record: Record) -> dict[str, Any]:
    """A record's fields, without the absent ones; in one turn, as files hold many of them."""
    found = {}
    for name, part in record.__dict__.items():
        if name.startswith("_"):  # kept beside the fields, and not one of them
            continue
        if type(part) in LEAVES:
            if part is not None or name == "epsilon":
                found[name] = part
        elif (inside := plain(part)) not in ([], {}):
            found[name] = inside
    return found


def read_release(path: str | os.PathLike[str], *, limits: Limits | None = LIMITS) -> Release:
    """Read and check a ``*.release.json`` file: a regular file, and not too large to be answered.

    Args:
        path: the file.
        limits: how much it may hold; None allows any size.

    Raises:
        InputError: one sentence with the file, the path to the bad field and the remedy.
    """
    n_bytes, n_values = (limits.n_bytes, limits.n_values) if limits else (None, None)
    with many_objects():
        data = read_json(path, max_bytes=n_bytes, max_values=n_values)
        return parse_release(data, file=os.fspath(path), limits=limits)


def parse_release(data: Any, *, file: str, limits: Limits | None = LIMITS) -> Release:
    """Check plain objects against the format; ``file`` is the name that errors mention."""
    require_format(data, file=file, name=FORMAT, version=VERSION)
    if limits:
        require_within(limits, data, file)
    return parse_record(Release, data, file=file, hints=HINTS)


def write_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Write a release: atomically, the same bytes for the same release."""
    write_files({path: release.to_json()})


def release_schema() -> dict[str, Any]:
    """JSON Schema of the release format."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Release.model_json_schema(),
        "title": f"pcer release, version {VERSION}",
        "required": ["format", "version", "subject", "runs"],
    }


def _digest(release: Release) -> str:
    return hashlib.sha256(release.to_json().encode()).hexdigest()


def _check_version(release: Release) -> None:
    """A file that says it is of an older version holds what that version knew."""
    coins = ("n_exposure", "exposure_p_value", "exposure_p_value_within_labels")
    for name in (*coins, "n_exact", "exact_difference") if release.version < 3 else ():
        if any(getattr(row, name) is not None for row in release.placebo):
            raise ValueError(f"placebo[].{name} is a field of version 3, and the file says older")
    rows = release.pooled_exposure
    if release.version < 3 and any(row.separation is not None for row in rows):
        raise ValueError(
            "pooled_exposure[].separation is a field of version 3, and the file says older"
        )
    if release.version > 1:
        return
    newer = {
        "not_computed": release.not_computed,
        "placebo": release.placebo,
        "bounds": release.bounds,
        "disclosure": release.disclosure,
        "training.unit_of_split": release.training.unit_of_split,
        "training.effective_units": release.training.effective_units,
        "training.stratified_by": release.training.stratified_by,
        "runs[].model": [run for run in release.runs if run.model is not None],
    } | {
        f"pooled_exposure[].{name}": [row for row in rows if getattr(row, name) is not None]
        for name in ("model", "benefit_covariance", "null_error")
    }
    for name, value in newer.items():
        if value:
            raise ValueError(f"{name} is a field of version 2, and the file says version 1")
    counts = isinstance(_any_group(release.runs[0]).train, Confusion)
    for index, run in enumerate(release.runs):
        _check_one_form(run, index, counts=counts)


def _check_one_form(run: Run, index: int, *, counts: bool) -> None:
    for name, tables in run.groups.items():
        for split, table in (("train", tables.train), ("test", tables.test)):
            if isinstance(table, Confusion) != counts:
                path = f"runs[{index}].groups.{name}.{split}"
                raise ValueError(f"{path}: all tables must be counts, or all rates")
            for field in () if counts else ("accuracy", "positive_rate"):
                if getattr(table, field, 0) is None:
                    path = f"runs[{index}].groups.{name}.{split}"
                    raise ValueError(f"{path}: {field} is missing")


def _check_runs(release: Release) -> None:
    seen: dict[tuple[str | None, float, int], int] = {}
    names = dict.fromkeys(release.subject.groups)
    for index, run in enumerate(release.runs):
        _check_groups(run, index, names)
        first = seen.setdefault((run.model, run.budget, run.seed), index)
        if first != index:
            model = f"model {run.model!r}, " if run.model is not None else ""
            raise ValueError(
                f"runs[{first}] and runs[{index}] both have {model}epsilon {run.epsilon} and seed "
                f"{run.seed}; give every model of a budget its own seed"
            )


def _check_groups(run: Run, index: int, groups: Mapping[str, None]) -> None:
    for name in groups:
        if name not in run.groups:
            raise ValueError(f"runs[{index}].groups: group {name!r} is missing")
    for name, tables in run.groups.items():
        if name not in groups:
            raise ValueError(
                f"runs[{index}].groups.{name}: group {name!r} is not one of subject.groups"
            )
        for split, table in (("train", tables.train), ("test", tables.test)):
            if table.n == 0:
                raise ValueError(
                    f"runs[{index}].groups.{name}.{split}: the group is empty; leave the group out "
                    "of the release or choose a split that holds some of its records"
                )


def _check_splits(release: Release) -> None:
    """Runs that name one split must agree on how many records, of which label, it holds."""
    first: dict[tuple[str | int, str, int], tuple[int, tuple[int | None, ...]]] = {}
    for index, run in enumerate(release.runs):
        if run.split is None:
            continue
        for name in release.subject.groups:
            for found in _sizes(run.groups[name]):
                key = (run.split, name, len(found))
                other, before = first.setdefault(key, (index, found))
                if before != found:
                    raise ValueError(
                        f"runs[{other}] and runs[{index}] both name split {run.split!r}, but group "
                        f"{name!r} has other sizes or labels in them; name splits apart"
                    )


def _check_keyed(release: Release) -> None:
    """Rows about a setting: of settings and groups that there are, and each once."""
    settings = {(run.model, run.epsilon) for run in release.runs}
    groups = frozenset(release.subject.groups)
    for field in ("pooled_exposure", "placebo", "bounds"):
        seen: set[tuple[object, ...]] = set()
        for index, row in enumerate(getattr(release, field)):
            path, key = f"{field}[{index}]", _row_key(row)
            for group in row.groups if isinstance(row, Placebo) else [row.group]:
                if group not in groups:
                    raise ValueError(f"{path}.group: {group!r} is not a group")
            if (row.model, row.epsilon) not in settings:
                model = f"model {row.model!r} and " if row.model is not None else ""
                raise ValueError(f"{path}.epsilon: no run has {model}{row.epsilon}")
            if key in seen:
                raise ValueError(f"{path}: {_told(key)} appears twice")
            seen.add(key)


def _row_key(row: PooledExposure | Placebo | Bound) -> tuple[object, ...]:
    if isinstance(row, Placebo):
        return (row.model, row.epsilon, *row.groups, row.proxy)
    if isinstance(row, Bound):
        return (row.model, row.epsilon, row.group, row.kind, row.label)
    return (row.model, row.epsilon, row.group, row.proxy)


def _told(key: tuple[object, ...]) -> tuple[object, ...]:
    return key if key[0] is not None else key[1:]


def _sizes(tables: GroupTables) -> Iterator[tuple[int | None, ...]]:
    """By part, and by part and label where both are counts."""
    train, test = tables.train, tables.test
    yield (train.n, test.n)
    if isinstance(train, Confusion) and isinstance(test, Confusion):
        yield tuple(n for part in (train, test) for n in (part.tp + part.fn, part.tn + part.fp))


def _any_group(run: Run) -> GroupTables:
    if not run.groups:
        raise ValueError("runs[0].groups: must hold every group of subject.groups")
    return next(iter(run.groups.values()))


def _proxies(release: Release) -> list[str]:
    found = {one for run in release.runs for group in run.groups.values() for one in group.exposure}
    pooled = {row.proxy for row in release.pooled_exposure}
    return sorted(found | pooled | {row.proxy for row in release.placebo})


def _check_names(what: str, names: list[str]) -> None:
    """Names that a reader can see, and tell from each other."""
    blank = next((name for name in names if not alike(name)), None)
    if blank is not None:
        raise ValueError(f"{what}: {blank!r} shows nothing; give it a name that can be seen")
    if two := confusable(names):
        raise ValueError(f"{what}: {two[0]!r} and {two[1]!r} read alike; name them apart")
