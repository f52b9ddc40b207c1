"""How are releases found, and read within limits?

Every verb that takes a release comes here: with a file, a folder, or a release that is
already read. A file is parsed, held against the format's version and the limits, and
only then made into records, whose hints for bad fields are in HINTS.

To add a hint for a field: a row of HINTS. To add a limit: a field of ``Limits`` and a
row of ``_sizes``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

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
        data = files.parse_json(text, file=file, max_values=n_values)
        return parse_release(data, file=file, limits=limits)


def parse_release(data: Any, *, file: str, limits: Limits | None = LIMITS) -> Release:
    """Check plain objects against the format; errors call them ``file``."""
    files.require_format(data, file=file, name=FORMAT, version=VERSION)
    if limits is not None:
        _require_within(limits, data, file)
    return files.parse_record(Release, data, file=file, hints=HINTS)


class Size(NamedTuple):
    """How much of something a file holds."""

    limit: str  # the field of ``Limits``
    n: int
    what: str


def _require_within(limits: Limits, data: Any, file: str) -> None:
    """Raise InputError where a file exceeds the limits.

    Counted on plain objects, before records or errors take far more memory.
    """
    for size in _sizes(data):
        limit = getattr(limits, size.limit)
        if size.n > limit:
            raise InputError(
                f"{file} holds {size.n:,} {size.what}, more than the {limit:,} that "
                f"are read by default; {files.ALLOW}, or divide it.",
                field=size.limit,
            )


def _sizes(data: Any) -> list[Size]:
    """What a file holds, whatever is wrong with it; see ``Limits``."""
    runs = _part(data, "runs", list)
    subject = _part(data, "subject", dict)
    n_groups = len(_part(subject, "groups", list))
    n_notes = len(_part(subject, "notes", list))

    n_tables = 0
    n_exposures = 0
    attacks: set[str] = set()
    settings = set()
    for run in runs:
        settings.add((_part(run, "model", str), _part(run, "epsilon", int, float)))
        for table in _part(run, "groups", dict).values():
            exposure = _part(table, "exposure", dict)
            n_tables += 1
            n_exposures += len(exposure)
            attacks.update(exposure)
    for name in ROW_KEYS:
        for row in _part(data, name, list):
            n_exposures += 1
            attacks.add(_part(row, "proxy", str))
    attacks.discard("")

    return [
        Size("n_runs", len(runs), "runs"),
        Size("n_settings", len(settings), "settings"),
        Size("n_groups", n_groups, "groups"),
        Size("n_tables", n_tables, "tables (runs times groups)"),
        Size("n_rows", len(settings) * n_groups, "rows (settings times groups)"),
        Size("n_exposures", n_exposures, "exposures (of groups)"),
        Size("n_costs", len(attacks), "costs"),
        Size("n_notes", n_notes, "notes"),
    ]


def _part(tree: Any, name: str, *kinds: type) -> Any:
    """A part of plain objects if it is of such a kind; else an empty one."""
    part = tree.get(name) if isinstance(tree, dict) else None
    return part if isinstance(part, kinds) else kinds[0]()


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
