"""How are releases found, read within limits, and written?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pcer import files
from pcer.errors import InputError
from pcer.files import MAX_BYTES
from pcer.release.file import FORMAT, ROW_KEYS, VERSION, Release

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


def releases_at(given: Any) -> Iterator[Release]:
    """One or several releases as they are, and those of files and folders."""
    for each in (
        given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    ):
        if isinstance(each, str | PathLike):
            yield from map(read_release, release_files([each]))
            continue
        if not isinstance(each, Release):
            raise InputError(
                f"give a release, its path, a folder, or a list of these, not this "
                f"{type(each).__name__}; pcer.release_from_estimator(...) makes a release of an "
                "estimator and its data, pcer.release_from_predictions(...) of predictions.",
                field="release",
            )
        yield each


def release_file(path: str | PathLike[str]) -> Path:
    """A file as it is named, or the only release of a folder."""
    first, *more = release_files([path])
    if more:
        names = ", ".join(file.name for file in (first, *more))
        raise InputError(f"{path} holds {1 + len(more)} releases; name one: {names}.")
    return first


def release_at(given: Release | str | PathLike[str]) -> Release:
    """A release as it is, that of a file, or the only one of a folder."""
    if isinstance(given, str | PathLike):
        return read_release(release_file(given))
    if not isinstance(given, Release):
        kind = type(given).__name__
        raise InputError(
            f"give one or two releases, not this {kind}; or paths of their files."
        )
    return given
