"""The release file: all that a trainer hands to an auditor.

A release holds, for every model (a budget and a seed), every group and both splits, a
confusion table; or, in the rates-only form, accuracies and positive rates. Nothing in
it is about one person. ``docs/format.md`` describes it in one page; ``pcer schema
release`` prints its schema.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, TypeVar

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from pcer import files
from pcer.errors import InputError, alike, confusable
from pcer.files import MAX_BYTES, Record
from pcer.metrics import NO_DP

FORMAT: Final = "pcer-release"
# Versions 1 and 2 are read as they are: every field that a later version added is
# optional.
VERSION: Final = 3

Made = TypeVar("Made")
Outcome = Literal["benefit", "harm"]
SplitKind = Literal["random", "other"]
StratifiedBy = Literal["label", "group", "both", "nothing"]

Count = Annotated[int, Field(ge=0, le=10**15)]
Rate = Annotated[float, Field(ge=0, le=1)]
_LINE = r"\x00-\x1f\x7f-\x9f"
_UNSEEN = r"\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
# One line of text with something to see: a name ends up in terminals and reports.
_NAME = rf"^[^{_LINE}]*[^{_LINE}{_UNSEEN}][^{_LINE}]*$"
Name = Annotated[str, Field(max_length=200, pattern=_NAME)]
LONGEST_PHRASE = 80  # characters of what stands within a sentence
Phrase = Annotated[str, Field(max_length=LONGEST_PHRASE, pattern=_NAME)]
Note = Annotated[str, Field(max_length=2_000, pattern=rf"^[^{_LINE}]*$")]
Epsilon = Annotated[float, Field(gt=0)]
Cost = Annotated[float, Field(ge=-1e15, le=1e15)]  # can be squared twice
CostError = Annotated[float, Field(ge=0, le=1e15)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]

HINTS = {
    **dict.fromkeys(("dataset", "attribute"), "give a printable name"),
    "epsilon": "write null for a model without differential privacy",
    "seed": "number the models with whole numbers from -2^63 to 2^63 - 1",
    "split": "write a name or a whole number, or leave it out",
    "positive_label": "write a text, a number, true or false, or leave it out",
    **dict.fromkeys(
        ("tp", "fp", "tn", "fn", "n"), "counts are whole numbers from 0 to 10^15"
    ),
    "notes": "each note is one line of printable text",
    "groups": "name at least two groups, and give every run a table for each",
}
# By list of rows about a setting, the fields that identify a row besides setting and
# groups.
ROW_KEYS = {
    "pooled_exposure": ("proxy",),
    "placebo": ("proxy",),
    "bounds": ("kind", "label"),
}


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

    @property
    def accuracy(self) -> float:
        """Share that is predicted right."""
        return (self.tp + self.tn) / self.n

    @property
    def positive_rate(self) -> float:
        """Share that is predicted positive."""
        return (self.tp + self.fp) / self.n


class TrainRates(Record):
    """Rates-only form of the training split. Without ``n`` nothing can be detected.

    Without ``accuracy`` the table holds the number of people only (version 2).
    """

    accuracy: Rate | None = None
    n: Count | None = None


class TestRates(Record):
    """Rates-only form of the test split. Without ``n`` nothing can be detected."""

    __test__ = False  # not a test class, despite its name

    accuracy: Rate | None = None
    positive_rate: Rate | None = None
    n: Count | None = None


class Exposure(Record):
    """What one attack measured on one group of one model. Signed; 0 means chance."""

    value: Cost
    standard_error: CostError | None = None
    n_members: Count | None = None
    n_nonmembers: Count | None = None
    n_excluded: Count | None = None


def _form(value: Any) -> str:
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "rates" if Confusion.model_fields.keys().isdisjoint(fields) else "counts"


_Counts = Annotated[Confusion, Tag("counts")]
TrainTable = Annotated[
    _Counts | Annotated[TrainRates, Tag("rates")], Discriminator(_form)
]
TestTable = Annotated[
    _Counts | Annotated[TestRates, Tag("rates")], Discriminator(_form)
]


class GroupTables(Record):
    """One group of one model: both splits, and what attacks found.

    Where an attack's exposure is given, what the splits hold may be left out (version
    3).
    """

    train: TrainTable = Field(default_factory=TrainRates)
    test: TestTable = Field(default_factory=TestRates)
    exposure: dict[Name, Exposure] = Field(default_factory=dict)


class Run(Record):
    """One trained model.

    Its model or training rule (a name) and its epsilon are its setting.
    """

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
    """The made-up-groups check of one setting, attack and pair: how far an alarm can be trusted.

    Draws are placebo groups of the same sizes, audited like the real ones; p-values are
    those of the real groups among permutations, of everybody or among people with the
    same label, adjusted over settings and attacks.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    proxy: Name
    groups: Annotated[list[Name], Field(min_length=2, max_length=2)]
    n_draws: Count
    n_shown: Count | None = None  # what versions before 3 call n_ratio
    n_double: Count  # of the draws: alarms of a double disadvantage
    p_value: Rate | None = None
    p_value_within_labels: Rate | None = None
    n_permutations: Count | None = None  # within labels perhaps fewer
    n_exposure: Count | None = (
        None  # draws with different exposures, the larger one detected
    )
    n_ratio: Count | None = None  # draws with different ratios
    n_any: Count | None = (
        None  # draws with either, by this proxy in any setting and pair
    )
    exposure_p_value: Rate | None = None
    exposure_p_value_within_labels: Rate | None = None
    n_exact: Count | None = (
        None  # draws also attacked exactly; others are taken to first order
    )
    exact_difference: CostError | None = None  # root mean square difference, in errors


class Bound(Record):
    """Privacy that one group's people spent in training, as epsilon.

    A ``receipt`` is a bound; ``realised``, the least epsilon over orders, is none. The
    mode says where norms of gradients come from: "refreshed" is an estimate. A
    ``promise`` is what a rule that treats groups differently keeps for everyone of a
    group, as ``mean``; it needs no norms.
    """

    model: Name | None = None
    epsilon: Epsilon | None  # of the setting, as promised
    group: Name
    label: Annotated[int, Field(ge=0, le=1)] | None = None  # only people of it
    kind: Literal["receipt", "realised", "promise"]
    mode: Literal["exact", "refreshed", "held"]
    accountant: Name
    mean: CostError  # over people and models
    standard_error: CostError | None = None
    quantiles: dict[Name, CostError] = Field(default_factory=dict)
    n_records: Count | None = None
    nominal: CostError | None = None  # the promise by the same accountant
    # AUC minus 1/2 of an attacker who sees every step, by Gaussian privacy: an estimate
    allowed_advantage: Annotated[float, Field(ge=0, le=0.5)] | None = None
    exact: bool | None = (
        None  # no noise was added to these statistics of training records
    )


class Disclosure(Record):
    """What the file reveals about single people, and which rule it was written by.

    Memberships are those that the tables reveal with certainty to someone who knows the
    prediction; a person counts once for each model. Coarse tables reveal none.
    Attributes that were asked for and not written are listed with the reason.
    """

    public_data: bool = False
    least_people: Count | None = None
    small_groups: Literal["join", "withhold"] | None = None
    memberships: Count | None = None
    most_in_one_model: Count | None = None
    n_coarse_tables: Count | None = None
    not_written: dict[Name, Note] = Field(default_factory=dict)


class Subject(Record):
    """What was trained on, and about whom."""

    dataset: Name
    attribute: Name
    groups: Annotated[list[Name], Field(min_length=2)]
    outcome: Outcome
    people: Phrase | None = None  # a plural noun: "defendants"
    positive_means: Phrase | None = (
        None  # of people: "are predicted to be charged again"
    )
    positive_label: str | Seed | float | bool | None = None
    unit_of_privacy: Name | None = None
    n_records: Count | None = None
    n_missing_group: Count | None = None
    notes: list[Note] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Subject:
        for name, n in Counter(self.groups).items():
            if n > 1:
                _refuse(
                    "subject.groups",
                    f"groups must be distinct, but {name!r} appears twice",
                )
        _check_names(self.groups, "groups", field="subject.groups")
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
    """A record that displays itself: HTML in notebooks, a few lines of text, one line in a list.

    The code that draws it is in the report room, which this room must not import.
    """

    # Loads the code that draws when the first record is displayed; set by the package.
    drawings: ClassVar[Callable[[], Any]]

    @property
    @abstractmethod
    def title(self) -> str:
        """What the record is about, in a few words."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        return str(Shown.drawings().to_plain(self))

    def _repr_html_(self) -> str:
        return str(Shown.drawings().to_notebook(self))

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": str(self)}


class Release(Shown):
    """Per-group statistics of a family of models. Checked whole when made.

    Guarantees: every run has exactly the groups of the subject, none empty; no (model,
    epsilon, seed) twice; runs of one split agree on its sizes.
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
        _check_runs(self)
        _check_splits(self)
        _check_rows(self)
        models = sorted({run.model for run in self.runs if run.model is not None})
        _check_names(models, "the names in runs[].model", field="runs[].model")
        exposures = (
            group.exposure for run in self.runs for group in run.groups.values()
        )
        pooled = {row.proxy for row in self.pooled_exposure}
        costs = pooled.union((row.proxy for row in self.placebo), *exposures)
        _check_names(sorted(costs), "names of costs", field="proxy")
        return self

    @property
    def title(self) -> str:
        """Dataset, attribute and how many models."""
        n = len(self.runs)
        models = f"{n:,} model{'s' if n > 1 else ''}"
        return f"{self.subject.dataset} ({self.subject.attribute}), {models}"

    @property
    def not_written(self) -> dict[str, str]:
        """Attributes that have no release beside this one, with the reason."""
        return {} if self.disclosure is None else self.disclosure.not_written

    @property
    def sha256(self) -> str:
        """Digest of the release in the form that ``write_release`` gives it; made once."""
        return self.kept(_digest)

    def kept(self, make: Callable[[Release], Made]) -> Made:
        """The result of ``make`` for this release, computed once and not copied."""
        made: dict[Any, Made] = self.__dict__.setdefault("_kept", {})
        if make not in made:
            made[make] = make(self)
        return made[make]

    def to_tree(self) -> dict[str, Any]:
        """The release as plain objects, in the order of the format; absent fields are left out."""
        tree: dict[str, Any] = _plain(self)
        for run in tree["runs"]:
            run["groups"] = {name: run["groups"][name] for name in self.subject.groups}
        return tree

    def to_json(self) -> str:
        """The release as canonical text: same release, same bytes."""
        with files.many_objects():
            return files.canonical_json(self.to_tree())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release, as ``write_release`` does; ``*.release.json`` is found in folders."""
        write_release(self, path)

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Release:
        """A copy with other fields, without cached results."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_kept", None)
        return copy


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a release may hold before an auditor must allow it by name.

    Values are numbers, texts, lists and objects; settings are distinct pairs of model
    and epsilon, tables runs times groups, rows settings times groups, exposures values
    of an attack on one group (per run or pooled; placebos and bounds count too), and
    costs the attacks besides the gap.
    """

    n_bytes: int = MAX_BYTES
    n_values: int = files.MAX_VALUES
    n_runs: int = 20_000
    n_settings: int = 500
    n_groups: int = 200
    n_tables: int = 12_000
    n_rows: int = 400
    n_exposures: int = 100_000
    n_costs: int = 50
    n_notes: int = 200


LIMITS: Final = Limits()


def read_release(
    path: str | os.PathLike[str], *, limits: Limits | None = LIMITS
) -> Release:
    """Read and check a ``*.release.json`` file.

    Args:
        path: the file.
        limits: how much it may hold; None allows any size.

    Raises:
        InputError: one sentence with the file, the path to the bad field and the
            remedy.
    """
    n_bytes, n_values = (limits.n_bytes, limits.n_values) if limits else (None, None)
    with files.many_objects():
        text = files.read_text(path, max_bytes=n_bytes)
        file = os.fspath(path)
        data = files.parse_json(text, file=file, max_values=n_values)
        return parse_release(data, file=file, limits=limits)


def release_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Files as they are named, and of folders every ``*.release.json``, in order."""
    found = list[Path]()
    for path in map(Path, paths):
        if str(path).startswith("{"):
            raise InputError(
                "name the file of a release, not its text; save the text first."
            )
        own = sorted(path.glob("*.release.json")) if path.is_dir() else [path]
        if not own:
            raise InputError(
                f"{path} holds no *.release.json; name a release file or its folder."
            )
        found += own
    return found


def parse_release(data: Any, *, file: str, limits: Limits | None = LIMITS) -> Release:
    """Check plain objects against the format; ``file`` is the name that errors mention."""
    files.require_format(data, file=file, name=FORMAT, version=VERSION)
    if limits:
        _require_within(limits, data, file)
    return files.parse_record(Release, data, file=file, hints=HINTS)


def _require_within(limits: Limits, data: Any, file: str) -> None:
    """Raise InputError where a file exceeds the limits.

    Counted on plain objects, before records or errors take far more memory.
    """
    subject = _part(data, "subject", dict)
    runs = _part(data, "runs", list)
    tables = [table for run in runs for table in _part(run, "groups", dict).values()]
    exposures = [_part(table, "exposure", dict) for table in tables]
    rows = [row for name in ROW_KEYS for row in _part(data, name, list)]
    costs = {_part(row, "proxy", str) for row in rows}.union(*exposures) - {""}
    settings = {
        (_part(run, "model", str), _part(run, "epsilon", int, float)) for run in runs
    }
    n_groups = len(_part(subject, "groups", list))
    sizes = {
        "n_runs": (len(runs), "runs"),
        "n_settings": (len(settings), "settings"),
        "n_groups": (n_groups, "groups"),
        "n_tables": (len(tables), "tables (runs times groups)"),
        "n_rows": (len(settings) * n_groups, "rows (settings times groups)"),
        "n_exposures": (sum(map(len, exposures), len(rows)), "exposures (of groups)"),
        "n_costs": (len(costs), "costs"),
        "n_notes": (len(_part(subject, "notes", list)), "notes"),
    }
    for name, (size, what) in sizes.items():
        limit = getattr(limits, name)
        if size > limit:
            raise InputError(
                f"{file} holds {size:,} {what}, more than the {limit:,} that are read by default; "
                f"{files.ALLOW}, or divide it.",
                field=name,
            )


def _part(tree: Any, name: str, *kinds: type) -> Any:
    """A part of plain objects if it is of such a kind; else an empty one."""
    part = tree.get(name) if isinstance(tree, dict) else None
    return part if isinstance(part, kinds) else kinds[0]()


def require_phrases(**phrases: str | None) -> None:
    """Raise InputError unless each one that is given may stand within a sentence about people."""
    for field, text in phrases.items():
        if text is not None and (
            len(text) > LONGEST_PHRASE or not re.fullmatch(_NAME, text)
        ):
            reason = f"must be one line of at most {LONGEST_PHRASE} characters that can be seen"
            _refuse(field, f"{field} {reason}, not {text!r}.")


def write_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Write a release: atomically, the same bytes for the same release."""
    files.write_files({path: release.to_json()})


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


def _plain(value: Any) -> Any:
    """Plain objects, without the absent fields of records.

    A field is absent if it is null or empty; but a null ``epsilon`` says "no
    differential privacy". Only fields of records are left out, never a key of a
    mapping: groups, proxies and the trainer's own settings may be called anything, and
    a null in the settings is a value.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    parts = ((name, _plain(getattr(value, name))) for name in type(value).model_fields)
    return {
        k: part for k, part in parts if part not in (None, [], {}) or k == "epsilon"
    }


def _refuse(field: str, sentence: str) -> NoReturn:
    raise InputError(sentence, field=field)


def _check_runs(release: Release) -> None:
    """Every run has every group, none empty, and a seed that no other run of its setting has."""
    seen: dict[tuple[str | None, float, int], int] = {}
    groups = dict.fromkeys(release.subject.groups)
    attacked = {(row.model, row.epsilon, row.group) for row in release.pooled_exposure}
    for index, run in enumerate(release.runs):
        path = f"runs[{index}].groups"
        for name in {**groups, **run.groups}:
            if name not in run.groups:
                _refuse(path, f"{path}: group {name!r} is missing")
            if name not in groups:
                path += f".{name}"
                _refuse(path, f"{path}: group {name!r} is not one of subject.groups")
            may_be_bare = (
                run.groups[name].exposure or (run.model, run.epsilon, name) in attacked
            )
            for part in ("train", "test"):
                table = getattr(run.groups[name], part)
                place = f"{path}.{name}.{part}"
                is_bare = table.n is None and table.accuracy is None
                if is_bare and not (may_be_bare and release.version > 2):
                    least = "must hold tp, fp, tn and fn, or at least accuracy or n"
                    _refuse(
                        place, f"{place}: {least}, where no attack's exposure is given"
                    )
                if table.n == 0:
                    empty = "the group is empty; leave the group out of the release or choose a "
                    _refuse(
                        place, f"{place}: {empty}split that holds some of its records"
                    )
        first = seen.setdefault((run.model, run.budget, run.seed), index)
        if first != index:
            model = f"model {run.model!r}, " if run.model is not None else ""
            same = f"{model}epsilon {run.epsilon} and seed {run.seed}"
            both = f"runs[{first}] and runs[{index}] both have {same}"
            _refuse(
                f"runs[{index}].seed",
                f"{both}; give every model of a budget its own seed",
            )


def _check_splits(release: Release) -> None:
    """Runs that name one split must agree on how many records, of which label, it holds."""
    first: dict[tuple[Any, ...], tuple[int, tuple[int | None, ...]]] = {}
    for index, run in enumerate(release.runs):
        for name, tables in run.groups.items() if run.split is not None else ():
            parts = (tables.train, tables.test)
            sizes: list[tuple[int | None, ...]] = [tuple(part.n for part in parts)]
            counts = [part for part in parts if isinstance(part, Confusion)]
            if len(counts) == len(parts):
                sizes.append(
                    tuple(n for c in counts for n in (c.tp + c.fn, c.tn + c.fp))
                )
            for size in sizes:
                other, before = first.setdefault(
                    (run.split, name, len(size)), (index, size)
                )
                if before != size:
                    both = (
                        f"runs[{other}] and runs[{index}] both name split {run.split!r}"
                    )
                    but = f"group {name!r} has other sizes or labels in them; name splits apart"
                    _refuse(f"runs[{index}].split", f"{both}, but {but}")


def _check_rows(release: Release) -> None:
    """Rows about a setting: of settings and groups that there are, and each once."""
    settings = {(run.model, run.epsilon) for run in release.runs}
    for field, names in ROW_KEYS.items():
        seen: set[tuple[object, ...]] = set()
        for index, row in enumerate(getattr(release, field)):
            path = f"{field}[{index}]"
            model = () if row.model is None else (row.model,)
            groups = row.groups if isinstance(row, Placebo) else [row.group]
            for group in groups:
                if group not in release.subject.groups:
                    _refuse(f"{path}.group", f"{path}.group: {group!r} is not a group")
            if (row.model, row.epsilon) not in settings:
                named = f"model {row.model!r} and " if model else ""
                _refuse(
                    f"{path}.epsilon",
                    f"{path}.epsilon: no run has {named}{row.epsilon}",
                )
            key = (
                *model,
                row.epsilon,
                *groups,
                *(getattr(row, name) for name in names),
            )
            if key in seen:
                _refuse(path, f"{path}: {key} appears twice")
            seen.add(key)


def _check_names(names: list[str], what: str, *, field: str) -> None:
    """Names that a reader can see, and tell from each other."""
    for name in names:
        if not alike(name):
            _refuse(
                field,
                f"{what}: {name!r} shows nothing; give it a name that can be seen",
            )
    if two := confusable(names):
        _refuse(field, f"{what}: {two[0]!r} and {two[1]!r} read alike; name them apart")
