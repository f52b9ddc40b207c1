"""What is a release, and how is one found, read within limits, and written?

A release is all that a trainer hands to an auditor. It holds, for every model (a budget
and a seed), every group and both splits, a confusion table, or accuracies and positive
rates. Nothing in it is about one person. Every verb that takes a release comes here,
with a file, a folder, or a release that is already read. ``build`` makes releases,
``panel`` gives their numbers as arrays. ``docs/format.md`` describes the file in one
page; ``pcer schema release`` prints its schema.

To add a field: a line in its record in ``records`` (optional, so that older files can
be read), one in ``docs/format.md``, a hint in HINTS where a bad value needs one, and
what must hold between fields in the checks below.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, model_validator

from pcer import files
from pcer.display import Shown
from pcer.errors import InputError
from pcer.files import MAX_BYTES
from pcer.release.beside import check_subgroups, check_tail
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.records import (
    AccuracyLoss,
    Bound,
    Confusion,
    Copies,
    Disclosed,
    GroupTables,
    Name,
    Note,
    Placebo,
    PooledExposure,
    Provenance,
    Run,
    SubgroupSearch,
    Subject,
    TailRow,
    TestRates,
    Training,
    TrainingNoise,
    TrainRates,
    check_names,
    refuse,
)
from pcer.release.updates import People, Updates

FORMAT: Final = "pcer-release"
# The first that is kept: later versions read it, and give no field another meaning.
VERSION: Final = 4
Made = TypeVar("Made")
OfSetting = (
    PooledExposure | Placebo | Bound | TailRow | TrainingNoise | Copies | AccuracyLoss
)
# By list of rows about a setting, the fields that identify a row besides setting and
# groups.
ROW_KEYS = {
    "pooled_exposure": ("attack",),
    "placebo": ("attack",),
    "bounds": ("kind", "label"),
    "tail": (),
    "copies": ("part",),
    "accuracy_loss": (),
}
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a release may hold before an auditor must allow it by name."""

    n_bytes: int = MAX_BYTES
    n_values: int = files.MAX_VALUES  # numbers, texts, lists and objects
    n_groups: int = 200
    n_rows: int = 10_000  # settings times groups times attacks (the gap is one)


LIMITS: Final = Limits()
WRITE_AGAIN: Final = "write it again with this version"  # instead of reading older ones


class Release(Shown):
    """Per-group statistics of a family of models. Checked whole when made.

    Guarantees: every run has exactly the groups of the subject, none empty; no (model,
    epsilon, seed) twice; runs of one split agree on its sizes.
    """

    format: Literal["pcer-release"] = FORMAT
    version: Literal[4] = VERSION
    subject: Subject
    training: Training = Field(default_factory=Training)
    runs: Annotated[list[Run], Field(min_length=1)]
    pooled_exposure: list[PooledExposure] = Field(default_factory=list)
    not_computed: dict[Name, Note] = Field(default_factory=dict)
    placebo: list[Placebo] = Field(default_factory=list)
    bounds: list[Bound] = Field(default_factory=list)
    training_noise: list[TrainingNoise] = Field(default_factory=list)
    tail: list[TailRow] = Field(default_factory=list)
    subgroups: list[SubgroupSearch] = Field(default_factory=list)
    copies: list[Copies] = Field(default_factory=list)
    accuracy_loss: list[AccuracyLoss] = Field(default_factory=list)
    disclosure: Disclosed | None = None
    provenance: Provenance = Field(default_factory=Provenance)

    @model_validator(mode="after")
    def _is_consistent(self) -> Release:
        _check_runs(self)
        _check_splits(self)
        _check_rows(self)
        _check_training_noise(self)
        check_tail(self.tail, self.subject.groups)
        check_subgroups(self.subgroups, _settings(self))
        models = sorted({run.model for run in self.runs if run.model is not None})
        check_names(models, "the names in runs[].model", field="runs[].model")
        check_names(sorted(_attacks(self)), "names of attacks", field="attack")
        return self

    @property
    def title(self) -> str:
        """Dataset, attribute and how many models."""
        n = len(self.runs)
        models = "1 model" if n == 1 else f"{n:,} models"
        return f"{self.subject.dataset} ({self.subject.attribute}), {models}"

    @property
    def not_written(self) -> dict[str, str]:
        """Attributes that have no release beside this one, with the reason."""
        return {} if self.disclosure is None else self.disclosure.not_written

    @property
    def sha256(self) -> str:
        """Digest of the release as ``write_release`` writes it; computed once."""
        return self.kept(_digest)

    def kept(self, make: Callable[[Release], Made]) -> Made:
        """The result of ``make`` for this release, computed once and not copied."""
        results: dict[Any, Made] = self.__dict__.setdefault("_kept", {})
        if make not in results:
            results[make] = make(self)
        return results[make]

    def to_tree(self) -> dict[str, Any]:
        """The release as plain objects, in the order of the format, absent ones out."""
        tree: dict[str, Any] = _plain(self)
        for run in tree["runs"]:
            run["groups"] = {name: run["groups"][name] for name in self.subject.groups}
        return tree

    def to_json(self) -> str:
        """The release as canonical text: same release, same bytes."""
        with files.many_objects():
            return files.canonical_json(self.to_tree())

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the release; ``*.release.json`` is found where a folder is named."""
        write_release(self, path, replace=replace)

    def with_people(self, people: People) -> Release:
        """The release, which knows whom it counts; nothing that is written says so."""
        self.__dict__["_people"] = people
        return self

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Release:
        """A copy with other fields, without cached results."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_kept", None)
        return copy


def write_release(
    release: Release, path: str | os.PathLike[str], *, replace: bool = False
) -> None:
    """Write a release: atomically, the same bytes for the same release.

    A private release is not written over another one unless ``replace`` says so. One
    that was made with a secret (``pcer.Disclosure(secret=...)``) is also held against
    others in the folder: those that differ in few people are refused, whatever
    ``replace`` says.

    Raises:
        InputError: what is there already must stay.
    """
    rule = release.disclosure
    if rule is None or rule.public_data:
        files.write_files({path: release.to_json()})
        return
    name = release.subject.attribute
    paths = {name: Path(path)}
    least = rule.least_people or LEAST_PEOPLE
    updates = Updates(paths, least, replaces=replace, consent="replace=True")
    updates.compare(release.__dict__.get("_people", {}))
    updates.require_none({name: release.to_json()})
    updates.keep([name])
    files.write_files({path: release.to_json()})


def release_schema() -> dict[str, Any]:
    """JSON Schema of the release format."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Release.model_json_schema(),
        "title": f"pcer release, version {VERSION}",
        "required": ["format", "version", "subject", "runs"],
    }


def releases_at(given: Any) -> Iterator[Release]:
    """One or several releases as they are, and those of files and folders."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    for one in given if is_list else [given]:
        if isinstance(one, str | PathLike):
            yield from map(read_release, release_files([one]))
        elif isinstance(one, Release):
            yield one
        else:
            raise InputError(
                "give a release, its path, a folder, or a list of these, not this "
                f"{type(one).__name__}; pcer.release_from_estimator(...) makes a "
                "release of an estimator and its data, "
                "pcer.release_from_predictions(...) of predictions.",
                field="release",
            )


def release_at(given: Release | str | PathLike[str]) -> Release:
    """A release as it is, that of a file, or the only one of a folder."""
    if isinstance(given, str | PathLike):
        return read_release(release_file(given))
    if isinstance(given, Release):
        return given
    kind = type(given).__name__
    raise InputError(
        f"give one or two releases, not this {kind}; or paths of their files."
    )


def release_file(path: str | PathLike[str]) -> Path:
    """A file as it is named, or the only release of a folder."""
    paths = release_files([path])
    if len(paths) > 1:
        names = ", ".join(file.name for file in paths)
        raise InputError(f"{path} holds {len(paths)} releases; name one: {names}.")
    return paths[0]


def release_files(paths: Sequence[str | PathLike[str]]) -> list[Path]:
    """Files as they are named, and of folders every ``*.release.json``, in order."""
    found: list[Path] = []
    for path in map(Path, paths):
        if str(path).startswith("{"):
            raise InputError(
                "name the file of a release, not its text; save the text first."
            )
        if not path.is_dir():
            found.append(path)
            continue
        in_folder = sorted(path.glob("*.release.json"))
        if not in_folder:
            raise InputError(
                f"{path} holds no *.release.json; name a release file or its folder."
            )
        found += in_folder
    return found


def read_release(
    path: str | PathLike[str], *, limits: Limits | None = LIMITS
) -> Release:
    """Read and check a ``*.release.json`` file.

    Args:
        path: the file.
        limits: how much it may hold; None allows any size.

    Raises:
        InputError: one sentence with the file, the path to the bad field and the
            remedy.
    """
    n_bytes = None if limits is None else limits.n_bytes
    n_values = None if limits is None else limits.n_values
    with files.many_objects():
        text = files.read_text(path, max_bytes=n_bytes)
        file = os.fspath(path)
        _require_no_output(file)
        data = files.parse_json(text, file=file, max_values=n_values)
        _require_no_audit(data, file)
        return parse_release(data, file=file, limits=limits)


def _require_no_output(file: str) -> None:
    """Raise InputError for what an audit wrote, which is often given back to it."""
    ending = Path(file).suffix.lower()
    if ending in (".html", ".htm"):
        raise InputError(
            f"{file} is a report; name the release that it was made of "
            f"(*.release.json), or check the report: pcer verify {shlex.quote(file)}."
        )
    if ending in (".md", ".txt", ".docx", ".pdf", ".xml", ".tex"):
        raise InputError(
            f"{file} is a text for people; name the release that it was made of "
            "(*.release.json)."
        )


def _require_no_audit(data: Any, file: str) -> None:
    if isinstance(data, dict) and data.get("format") == "pcer-audit":
        raise InputError(
            f"{file} is an audit; name the release that it was made of "
            "(*.release.json), or check the audit beside it: pcer verify "
            f"{shlex.quote(file)} RELEASE.",
            field="format",
        )


def parse_release(data: Any, *, file: str, limits: Limits | None = LIMITS) -> Release:
    """Check plain objects against the format; errors call them ``file``."""
    files.require_format(
        data, file=file, name=FORMAT, version=VERSION, if_older=WRITE_AGAIN
    )
    if limits is not None:
        # Before records, or errors about them, take far more memory.
        n_groups = len(_part(_part(data, "subject", dict), "groups", list))
        n_rows = n_groups * _rows_of_a_group(data)
        _require_at_most(limits.n_groups, n_groups, "groups", "n_groups", file)
        what = "rows (settings times groups times attacks)"
        _require_at_most(limits.n_rows, n_rows, what, "n_rows", file)
    return files.parse_record(Release, data, file=file, hints=HINTS)


def _require_at_most(limit: int, n: int, what: str, field: str, file: str) -> None:
    if n > limit:
        raise InputError(
            f"{file} holds {n:,} {what}, more than the {limit:,} that are read by "
            f"default; {files.ALLOW}, or divide it.",
            field=field,
        )


def _rows_of_a_group(data: Any) -> int:
    """Settings times attacks of plain objects, whatever is wrong with them."""
    settings = set()
    attacks = {""}  # for the gap, which comes from counts
    for run in _part(data, "runs", list):
        settings.add((_part(run, "model", str), _part(run, "epsilon", int, float)))
        for table in _part(run, "groups", dict).values():
            attacks.update(_part(table, "exposure", dict))
    for name in ("pooled_exposure", "placebo"):
        for row in _part(data, name, list):
            attacks.add(_part(row, "attack", str))
    return len(settings) * len(attacks)


def _part(tree: Any, name: str, *kinds: type) -> Any:
    """A part of plain objects if it is of such a kind; else an empty one."""
    part = tree.get(name) if isinstance(tree, dict) else None
    return part if isinstance(part, kinds) else kinds[0]()


def _digest(release: Release) -> str:
    return hashlib.sha256(release.to_json().encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Plain objects, without fields of records that are null or empty.

    But a null ``epsilon`` says "no differential privacy", and keys of mappings stay:
    groups, attacks and the trainer's own settings may be called anything.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    plain = {}
    for name in type(value).model_fields:
        part = _plain(getattr(value, name))
        if part not in (None, [], {}) or name == "epsilon":
            plain[name] = part
    return plain


def _attacks(release: Release) -> set[str]:
    """Names of all attacks that the file mentions."""
    names = {row.attack for row in release.pooled_exposure}
    names |= {row.attack for row in release.placebo}
    for run in release.runs:
        for group in run.groups.values():
            names |= group.exposure.keys()
    return names


def _check_runs(release: Release) -> None:
    """Every run has every group, none empty, and its own seed within its setting."""
    first_of: dict[tuple[str | None, float, int], int] = {}
    attacked = {(row.model, row.epsilon, row.group) for row in release.pooled_exposure}
    for index, run in enumerate(release.runs):
        path = f"runs[{index}].groups"
        for name in dict.fromkeys((*release.subject.groups, *run.groups)):
            _check_is_there(path, name, run, release.subject.groups)
            tables = run.groups[name]
            is_attacked = (run.model, run.epsilon, name) in attacked
            may_be_bare = is_attacked or bool(tables.exposure)
            _check_table(f"{path}.{name}.train", tables.train, may_be_bare)
            _check_table(f"{path}.{name}.test", tables.test, may_be_bare)

        first = first_of.setdefault((run.model, run.budget, run.seed), index)
        if first != index:
            model = "" if run.model is None else f"model {run.model!r}, "
            same = f"{model}epsilon {run.epsilon} and seed {run.seed}"
            refuse(
                f"runs[{index}].seed",
                f"runs[{first}] and runs[{index}] both have {same}; give every model "
                "of a budget its own seed",
            )


def _check_is_there(path: str, name: str, run: Run, groups: list[str]) -> None:
    """A group of the run is one of the subject, and the other way round."""
    if name not in run.groups:
        refuse(path, f"{path}: group {name!r} is missing")
    if name not in groups:
        place = f"{path}.{name}"
        refuse(place, f"{place}: group {name!r} is not one of subject.groups")


def _check_table(
    path: str, table: Confusion | TrainRates | TestRates, may_be_bare: bool
) -> None:
    """A table is of somebody, and says something, unless an attack's exposure does."""
    is_bare = table.n is None and table.accuracy is None
    if is_bare and not may_be_bare:
        refuse(
            path,
            f"{path}: must hold tp, fp, tn and fn, or at least accuracy or n, where no "
            "attack's exposure is given",
        )
    if table.n == 0:
        refuse(
            path,
            f"{path}: the group is empty; leave the group out of the release or choose "
            "a split that holds some of its records",
        )


def _check_splits(release: Release) -> None:
    """Runs that name one split agree on how many records, of which label, it holds."""
    first_of: dict[tuple[Any, ...], tuple[int, tuple[int | None, ...]]] = {}
    for index, run in enumerate(release.runs):
        if run.split is None:
            continue
        for name, tables in run.groups.items():
            for sizes in _sizes(tables):
                key = (run.split, name, len(sizes))
                first, expected = first_of.setdefault(key, (index, sizes))
                if sizes != expected:
                    refuse(
                        f"runs[{index}].split",
                        f"runs[{first}] and runs[{index}] both name split "
                        f"{run.split!r}, but group {name!r} has other sizes or labels "
                        "in them; name splits apart",
                    )


def _sizes(tables: GroupTables) -> list[tuple[int | None, ...]]:
    """Records of each part; and, where both have counts, of each label in each part."""
    train = tables.train
    test = tables.test
    sizes: list[tuple[int | None, ...]] = [(train.n, test.n)]
    if isinstance(train, Confusion) and isinstance(test, Confusion):
        of_train = (train.tp + train.fn, train.tn + train.fp)
        of_test = (test.tp + test.fn, test.tn + test.fp)
        sizes.append((*of_train, *of_test))
    return sizes


def _check_rows(release: Release) -> None:
    """Rows about a setting: of settings and groups that there are, and each once."""
    settings = _settings(release)
    for field, identifying in ROW_KEYS.items():
        seen: set[tuple[object, ...]] = set()
        for index, row in enumerate(getattr(release, field)):
            path = f"{field}[{index}]"
            groups = _groups_of(row)
            for group in groups:
                if group not in release.subject.groups:
                    refuse(f"{path}.group", f"{path}.group: {group!r} is not a group")
            _check_setting(path, row, settings)
            rest = (row.epsilon, *groups, *(getattr(row, name) for name in identifying))
            key = rest if row.model is None else (row.model, *rest)
            if key in seen:
                refuse(path, f"{path}: {key} appears twice")
            seen.add(key)


def _groups_of(row: PooledExposure | Placebo | Bound | TailRow) -> list[str]:
    """All groups that a row names; its own are among what identifies it."""
    return row.groups if isinstance(row, Placebo) else [row.group]


def _settings(release: Release) -> set[tuple[str | None, float | None]]:
    """Model and epsilon of every setting that has runs."""
    return {(run.model, run.epsilon) for run in release.runs}


def _check_setting(
    path: str,
    row: OfSetting,
    settings: set[tuple[str | None, float | None]],
) -> None:
    """Some run is of the row's setting."""
    if (row.model, row.epsilon) not in settings:
        model = "" if row.model is None else f"model {row.model!r} and "
        place = f"{path}.epsilon"
        refuse(place, f"{place}: no run has {model}{row.epsilon}")


def _check_training_noise(release: Release) -> None:
    """Covariances have a row and a column for every group; each rate stands once."""
    settings = _settings(release)
    n_groups = len(release.subject.groups)
    seen = set()
    for index, row in enumerate(release.training_noise):
        path = f"training_noise[{index}]"
        _check_setting(path, row, settings)
        for field in ("everybody", "crossed"):
            if not _is_symmetric(getattr(row, field), n_groups):
                place = f"{path}.{field}"
                refuse(
                    place,
                    f"{place}: must be a symmetric table of {n_groups} rows and "
                    "columns, one for each group",
                )
        key = (row.model, row.epsilon, row.rate)
        if key in seen:
            refuse(path, f"{path}: {row.rate} of this setting appears twice")
        seen.add(key)


def _is_symmetric(matrix: list[list[float]], size: int) -> bool:
    sizes = {len(matrix), *(len(row) for row in matrix)}
    if sizes != {size}:
        return False
    columns = [list(column) for column in zip(*matrix, strict=True)]
    return columns == matrix


def read_releases(
    files: Sequence[Path], allow_large: Sequence[Path] = ()
) -> list[Release]:
    """Releases, each within the limits unless it is allowed by name."""
    large = {path.resolve() for path in allow_large}
    releases = []
    for path in files:
        limits = None if path.resolve() in large else LIMITS
        releases.append(read_release(path, limits=limits))
    return releases
