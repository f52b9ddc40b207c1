"""How is finished work kept, so that an interrupted job resumes?

Sweeps (``pcer.sweep.run``) and fits (``pcer.models``) keep blocks in a folder with one
owner. A block is an array and the names of its rows, perhaps with a second array,
written whole or not at all. It carries digests of its arrays, its record and its
settings: a block that was changed, or made with other settings, does not count. Rows
are about persons, so all files are readable by their owner only. To add what a block
keeps: a field of ``StoredBlock``, written by ``save_block``.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcer.errors import InputError, OutputError, refused_as
from pcer.files import canonical_json, read_json, write_files

Key: TypeAlias = tuple[str, int]  # the name of one row: a setting and a seed
Settings: TypeAlias = Mapping[str, Any]  # names and plain JSON values

LOCK = ".lock"
OWNERS_FOLDER = 0o700
OWNERS_FILE = 0o600
SETTINGS = "settings.json"
SEAL = "sha256"  # the field of a record that holds the digest of all others
ANEW = "run again to make it again"
REMOVE = "remove it and run again"
MOST_NAMED = 3  # faulty blocks that a sentence names


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter, or close one to all others."""
    if folder.is_symlink():
        raise OutputError(
            f"{folder} is a link; remove it, or name the folder that it leads to."
        )
    with refused_as(
        f"{folder} cannot be made", "choose a folder that you may write to"
    ):
        folder.mkdir(parents=True, exist_ok=True, mode=OWNERS_FOLDER)
    with suppress(OSError):  # systems without modes ignore them
        folder.chmod(OWNERS_FOLDER)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system frees however the process ends."""
    # A file system without locks gets a file with the owner's process number instead,
    # which does not count once that process is gone.
    make_private(folder)
    with warnings.catch_warnings():  # filelock warns on systems without locks
        warnings.filterwarnings(
            "ignore", message=".*soft ?file ?lock", category=UserWarning
        )
        from filelock import FileLock, Timeout

        lock = FileLock(folder / LOCK, timeout=0, mode=OWNERS_FILE)
        with refused_as(f"{folder} cannot be written to", "choose another folder"):
            try:
                lock.acquire()
            except Timeout:  # also an OSError
                raise InputError(
                    f"{folder} is in use by another process; wait for it, or choose "
                    "another folder."
                ) from None
    try:
        yield
    finally:
        lock.release()


class StoredBlock(NamedTuple):
    """A finished block: the names of its rows, its file, and what made it."""

    keys: list[Key]
    array: Path
    made_with: dict[str, str]  # versions by package
    settings: str  # digest, as the next two
    array_digest: str
    second_digest: str | None  # None where there is no second array


def save_block(
    folder: Path,
    keys: Sequence[Key],
    values: np.ndarray[Any, Any],
    *,
    made_with: Mapping[str, str],
    settings: str,
    second: np.ndarray[Any, Any] | None = None,
) -> None:
    """Write arrays, a row for each key, then the small file that makes them count."""
    name = hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]
    array = folder / f"block-{name}.npy"
    record = {
        "models": keys,
        "made_with": dict(made_with),
        "settings": settings,
        "array_sha256": save_array(array, values),
    }
    if second is not None:
        record["second_sha256"] = save_array(_second_path(array), second)
    content = canonical_json(sealed(record))
    write_files({array.with_suffix(".json"): content}, private=True)


def finished_blocks(folder: Path) -> Iterator[StoredBlock]:
    """The finished blocks of a folder; InputError if one is not as it was written."""
    return map(_read_block, _block_paths(folder))


def load_block(
    block: StoredBlock, n_columns: int, *, is_second: bool = False
) -> np.ndarray[Any, Any]:
    """An array of a block: float32, a row for each key; InputError if it is another."""
    path = _second_path(block.array) if is_second else block.array
    digest = block.second_digest if is_second else block.array_digest
    try:
        if file_digest(path) != digest:
            raise ValueError
        values: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # numpy's header parser may raise anything
        raise InputError(f"{path} is not as it was written; {ANEW}.") from None
    if values.shape != (len(block.keys), n_columns) or values.dtype != np.float32:
        raise InputError(
            f"{path} must hold {len(block.keys)} rows of {n_columns} numbers "
            f"(float32), but has shape {values.shape} ({values.dtype}); {ANEW}."
        )
    return values


def save_array(path: Path, values: np.ndarray[Any, Any]) -> str:
    """Write an array whole or not at all, for its owner only; returns its digest."""
    content = io.BytesIO()
    np.save(content, values, allow_pickle=False)
    try:
        write_files({path: content.getvalue()}, private=True)
    except OutputError as error:
        raise OutputError(
            f"{str(error)[:-1]}; or free space and run again: finished blocks are kept."
        ) from None
    return hashlib.sha256(content.getbuffer()).hexdigest()


def resume_folder(
    folder: Path,
    settings: Settings,
    *,
    n_columns: int,
    n_second: int | None = None,
) -> list[str]:
    """Begin or resume in a folder that the caller owns; says which blocks it removed.

    Where its settings file is lost, damaged or contradicted by a block of these
    settings, the blocks' own digests decide. ``n_second`` are the columns of each
    second array, None where there is none. InputError if the folder was begun with
    other settings.
    """
    digest = record_digest(settings)
    for path in folder.glob(".block-*"):  # left by a killed process
        path.unlink(missing_ok=True)
    faults: dict[Path, str] = {}
    paths = _block_paths(folder)
    for path in paths:
        fault = _fault(path, digest, n_columns, n_second)
        if fault is not None:
            faults[path] = fault
    if len(faults) == len(paths):  # no block has these settings
        before = None
        with suppress(InputError):
            before = read_json(folder / SETTINGS)
        if isinstance(before, dict):
            require_same_settings(before, settings, where=folder)
    for path in faults:
        fault = f"{path} is not as it was written, and cannot be removed"
        with refused_as(fault, REMOVE):
            for file in (path, path.with_suffix(".npy"), _second_path(path)):
                file.unlink(missing_ok=True)
    write_files({folder / SETTINGS: canonical_json(settings)}, private=True)
    return [_removed(folder, faults)] if faults else []


def _removed(folder: Path, faults: Mapping[Path, str]) -> str:
    """For readers: which blocks were removed, and why."""
    named = [f"{path.stem} ({fault})" for path, fault in faults.items()]
    listed = ", ".join(named[:MOST_NAMED])
    if len(named) > MOST_NAMED:
        listed += f" and {len(named) - MOST_NAMED} more"
    return (
        f"{folder}: these blocks are made again, as they are damaged or of other "
        f"settings: {listed}."
    )


def require_same_settings(before: Settings, settings: Settings, *, where: Path) -> None:
    """Raise InputError, naming the first difference, unless both settings agree."""
    for name in (*settings, *before):
        if name in settings and name in before and before[name] == settings[name]:
            continue
        past = repr(before[name]) if name in before else "not given"
        asked = "this version of pcer has no such setting"
        if name in settings:
            asked = f"{settings[name]!r} is asked for"
        raise InputError(
            f"{where} was made with {name} {past}, but {asked}; choose another "
            "folder, remove it, or continue with the version of pcer that began it."
        )


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def record_digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of plain JSON objects, whatever the order of their names."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its digest."""
    return {**record, SEAL: record_digest(record)}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether a record carries a digest and still matches it."""
    rest = {name: value for name, value in record.items() if name != SEAL}
    return record.get(SEAL) == record_digest(rest)


def _second_path(path: Path) -> Path:
    return path.with_suffix(".second.npy")


def _block_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("block-*.json"))


def _read_block(path: Path) -> StoredBlock:
    record = read_json(path)
    try:
        if is_sealed(record):
            return StoredBlock(
                keys=[(str(setting), int(seed)) for setting, seed in record["models"]],
                array=path.with_suffix(".npy"),
                made_with=dict(record["made_with"]),
                settings=record["settings"],
                array_digest=record["array_sha256"],
                second_digest=record.get("second_sha256"),
            )
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # it may hold any JSON
    raise InputError(f"{path} is not as it was written; {ANEW}.")


def _fault(
    path: Path, settings: str, n_columns: int, n_second: int | None
) -> str | None:
    """Why the block of a record does not count; None if it does."""
    try:
        block = _read_block(path)
        if block.settings != settings:
            return "made with other settings"
        load_block(block, n_columns)
        if n_second is not None:
            load_block(block, n_second, is_second=True)
    except InputError:
        return "damaged"
    return None
