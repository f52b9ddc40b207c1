"""What is a release: all that a trainer hands to an auditor?

A release holds, for every model (a budget and a seed), every group and both splits, a
confusion table; or, in the rates-only form, accuracies and positive rates. Nothing in
it is about one person. ``build`` makes releases, ``reading`` reads them, ``panel``
gives their numbers as arrays. ``docs/format.md`` describes the file in one page; ``pcer
schema release`` prints its schema.

To add a field: a line in its record in ``records`` (optional, so that older files can
be read), one in ``docs/format.md``, and what must hold between fields in the checks
below.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from pcer import files
from pcer.display import Shown
from pcer.release.records import (
    Bound,
    Confusion,
    Disclosed,
    GroupTables,
    Name,
    Note,
    Placebo,
    PooledExposure,
    Provenance,
    Run,
    Subject,
    TestRates,
    Training,
    TrainRates,
    check_names,
    refuse,
)

FORMAT: Final = "pcer-release"
# Versions 1 and 2 are read as they are: every field that a later version added is
# optional.
VERSION: Final = 3
Made = TypeVar("Made")
# By list of rows about a setting, the fields that identify a row besides setting and
# groups.
ROW_KEYS = {
    "pooled_exposure": ("proxy",),
    "placebo": ("proxy",),
    "bounds": ("kind", "label"),
}


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
    disclosure: Disclosed | None = None
    provenance: Provenance = Field(default_factory=Provenance)

    @model_validator(mode="after")
    def _is_consistent(self) -> Release:
        check_runs(self)
        check_splits(self)
        check_rows(self)
        models = sorted({run.model for run in self.runs if run.model is not None})
        check_names(models, "the names in runs[].model", field="runs[].model")
        check_names(sorted(_attacks(self)), "names of costs", field="proxy")
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
        """The release as plain objects, in the order of the format.

        Absent fields are left out.
        """
        tree: dict[str, Any] = _plain(self)
        for run in tree["runs"]:
            run["groups"] = {name: run["groups"][name] for name in self.subject.groups}
        return tree

    def to_json(self) -> str:
        """The release as canonical text: same release, same bytes."""
        with files.many_objects():
            return files.canonical_json(self.to_tree())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release, as ``write_release`` does.

        A file called ``*.release.json`` is found where a folder is named.
        """
        write_release(self, path)

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> Release:
        """A copy with other fields, without cached results."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_kept", None)
        return copy


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
    plain = {}
    for name in type(value).model_fields:
        part = _plain(getattr(value, name))
        if part not in (None, [], {}) or name == "epsilon":
            plain[name] = part
    return plain


def _attacks(release: Release) -> set[str]:
    """Names of all attacks that the file mentions."""
    names = {row.proxy for row in release.pooled_exposure}
    names |= {row.proxy for row in release.placebo}
    for run in release.runs:
        for group in run.groups.values():
            names |= group.exposure.keys()
    return names


def check_runs(release: Release) -> None:
    """Every run has every group, none empty, and its own seed within its setting."""
    first_of: dict[tuple[str | None, float, int], int] = {}
    attacked = {(row.model, row.epsilon, row.group) for row in release.pooled_exposure}
    for index, run in enumerate(release.runs):
        path = f"runs[{index}].groups"
        for name in dict.fromkeys((*release.subject.groups, *run.groups)):
            _check_is_there(path, name, run, release.subject.groups)
            tables = run.groups[name]
            is_attacked = (run.model, run.epsilon, name) in attacked
            has_exposure = is_attacked or bool(tables.exposure)
            may_be_bare = has_exposure and release.version > 2
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


class Sizes(NamedTuple):
    """Sizes of one group's parts in one run, to hold against those of its split."""

    run: int  # its position
    numbers: tuple[int | None, ...]


def check_splits(release: Release) -> None:
    """Runs that name one split agree on how many records, of which label, it holds."""
    first_of: dict[tuple[Any, ...], Sizes] = {}
    for index, run in enumerate(release.runs):
        if run.split is None:
            continue
        for name, tables in run.groups.items():
            for numbers in _sizes(tables):
                key = (run.split, name, len(numbers))
                first = first_of.setdefault(key, Sizes(index, numbers))
                if first.numbers != numbers:
                    refuse(
                        f"runs[{index}].split",
                        f"runs[{first.run}] and runs[{index}] both name split "
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


def check_rows(release: Release) -> None:
    """Rows about a setting: of settings and groups that there are, and each once."""
    settings = {(run.model, run.epsilon) for run in release.runs}
    for field, identifying in ROW_KEYS.items():
        seen: set[tuple[object, ...]] = set()
        for index, row in enumerate(getattr(release, field)):
            path = f"{field}[{index}]"
            groups = row.groups if isinstance(row, Placebo) else [row.group]
            for group in groups:
                if group not in release.subject.groups:
                    refuse(f"{path}.group", f"{path}.group: {group!r} is not a group")
            if (row.model, row.epsilon) not in settings:
                model = "" if row.model is None else f"model {row.model!r} and "
                place = f"{path}.epsilon"
                refuse(place, f"{place}: no run has {model}{row.epsilon}")

            rest = (row.epsilon, *groups, *(getattr(row, name) for name in identifying))
            key = rest if row.model is None else (row.model, *rest)
            if key in seen:
                refuse(path, f"{path}: {key} appears twice")
            seen.add(key)
