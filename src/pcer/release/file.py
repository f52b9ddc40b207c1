"""."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, model_validator

from pcer import files
from pcer.display import Shown
from pcer.release.records import (
    Bound,
    Confusion,
    Disclosed,
    Name,
    Note,
    Placebo,
    PooledExposure,
    Provenance,
    Run,
    Subject,
    Training,
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
        exposures = (
            group.exposure for run in self.runs for group in run.groups.values()
        )
        pooled = {row.proxy for row in self.pooled_exposure}
        costs = pooled.union((row.proxy for row in self.placebo), *exposures)
        check_names(sorted(costs), "names of costs", field="proxy")
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


def check_runs(release: Release) -> None:
    """Every run has every group, none empty, and a seed that no other run of its setting has."""
    seen: dict[tuple[str | None, float, int], int] = {}
    groups = dict.fromkeys(release.subject.groups)
    attacked = {(row.model, row.epsilon, row.group) for row in release.pooled_exposure}
    for index, run in enumerate(release.runs):
        path = f"runs[{index}].groups"
        for name in {**groups, **run.groups}:
            if name not in run.groups:
                refuse(path, f"{path}: group {name!r} is missing")
            if name not in groups:
                path += f".{name}"
                refuse(path, f"{path}: group {name!r} is not one of subject.groups")
            may_be_bare = (
                run.groups[name].exposure or (run.model, run.epsilon, name) in attacked
            )
            for part in ("train", "test"):
                table = getattr(run.groups[name], part)
                place = f"{path}.{name}.{part}"
                is_bare = table.n is None and table.accuracy is None
                if is_bare and not (may_be_bare and release.version > 2):
                    least = "must hold tp, fp, tn and fn, or at least accuracy or n"
                    refuse(
                        place, f"{place}: {least}, where no attack's exposure is given"
                    )
                if table.n == 0:
                    empty = "the group is empty; leave the group out of the release or choose a "
                    refuse(
                        place, f"{place}: {empty}split that holds some of its records"
                    )
        first = seen.setdefault((run.model, run.budget, run.seed), index)
        if first != index:
            model = f"model {run.model!r}, " if run.model is not None else ""
            same = f"{model}epsilon {run.epsilon} and seed {run.seed}"
            both = f"runs[{first}] and runs[{index}] both have {same}"
            refuse(
                f"runs[{index}].seed",
                f"{both}; give every model of a budget its own seed",
            )


def check_splits(release: Release) -> None:
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
                    refuse(f"runs[{index}].split", f"{both}, but {but}")


def check_rows(release: Release) -> None:
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
                    refuse(f"{path}.group", f"{path}.group: {group!r} is not a group")
            if (row.model, row.epsilon) not in settings:
                named = f"model {row.model!r} and " if model else ""
                refuse(
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
                refuse(path, f"{path}: {key} appears twice")
            seen.add(key)
