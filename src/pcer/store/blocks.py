"""Finished blocks of work in a folder: each is an array and the names of its rows.

A block may have a second array, with a row for each name too; both are sealed alike.

A block is written whole or not at all, so a killed job finds what is finished and does only what
is missing. It carries the digests of its array, of its own record and of the settings that made
it: what a disk, a copy or a hand has changed does not count. What the numbers mean is the job's
own matter. Rows are about persons, so all files are their owner's only.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcer.errors import InputError, OutputError
from pcer.files import canonical_json, read_json, write_files
from pcer.store.seals import file_digest, is_sealed, sealed

Key: TypeAlias = tuple[str, int]
"""The name of one row: a setting and a seed."""

ANEW = "run again, and it is made anew"
"""What the owner of a damaged block can do."""

MOST_NAMED = 3
"""Blocks that a sentence names."""

UNSEALED = {"models", "made_with"}
"""Fields of a block from before blocks were sealed."""


class StoredBlock(NamedTuple):
    """A finished block: the names of its rows, where they lie, and what made them."""

    keys: list[Key]
    array: Path
    made_with: dict[str, str] | None
    """Versions by package; None where the folder is older than that note."""
    settings: str | None
    """Digest of the settings; None where the folder is older than seals, as for the next."""
    array_digest: str | None
    second_digest: str | None = None
    """Of the second array; None where the block has none."""

    @property
    def second(self) -> Path:
        """Where the second array lies, if there is one."""
        return _second(self.array)


def save_block(
    folder: Path,
    keys: Sequence[Key],
    values: np.ndarray[Any, Any],
    *,
    made_with: Mapping[str, str],
    settings: str,
    second: np.ndarray[Any, Any] | None = None,
) -> None:
    """Values first, then the small file that makes them count.

    Args:
        folder: where.
        keys: the names of the rows.
        values: a row each.
        made_with: versions by package.
        settings: digest of the settings that made them.
        second: another array with a row each.
    """
    array = folder / f"block-{hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]}.npy"
    digest = save_array(array, values)
    record = {
        "models": keys,
        "made_with": dict(made_with),
        "settings": settings,
        "array_sha256": digest,
    }
    if second is not None:
        record["second_sha256"] = save_array(_second(array), second)
    _write_record(array, record)


def finished_blocks(folder: Path) -> Iterator[StoredBlock]:
    """Every finished block of a folder.

    Raises:
        InputError: one is not as it was written; ``check_blocks`` removes such a block.
    """
    for path in _records(folder):
        yield _block(path)


def check_blocks(
    folder: Path,
    *,
    settings: str,
    has_settings: bool,
    n_columns: int,
    n_second: int | None = None,
) -> list[str]:
    """Remove every block that is not what these settings wrote; gives sentences for the reader.

    Blocks from before blocks were sealed are taken as they are, and sealed, if the folder itself
    says that it was made with these settings.

    Args:
        folder: whose owner the caller is.
        settings: digest of the settings that are asked for.
        has_settings: whether the folder was found to name the same settings.
        n_columns: of every block.
        n_second: columns of the second array of every block; None where they need none.
    """
    for path in folder.glob(".*.tmp"):  # what a kill left of an array
        path.unlink(missing_ok=True)
    faults: dict[str, str] = {}
    n_sealed = 0
    for path in _records(folder):
        fault = _fault(path, settings, has_settings, (n_columns, n_second))
        if fault is not None:
            faults[path.stem] = fault
            _remove(path)
        elif _block(path).settings is None:
            _seal(path, settings)
            n_sealed += 1
    return [*_told_of_faults(folder, faults), *_told_of_sealed(folder, n_sealed)]


def has_block_of(folder: Path, settings: str) -> bool:
    """Whether some block says, under its seal, that these settings made it."""
    for path in _records(folder):
        with suppress(InputError):
            if _block(path).settings == settings:
                return True
    return False


def load_block(block: StoredBlock, n_columns: int) -> np.ndarray[Any, Any]:
    """The array of a block, float32 with so many columns, as it was written."""
    return _load(block.array, block.array_digest, (len(block.keys), n_columns))


def load_second(block: StoredBlock, n_columns: int) -> np.ndarray[Any, Any]:
    """The second array of a block, likewise; InputError where it has none."""
    if block.second_digest is None:
        raise InputError(f"{block.array} has no second array beside it; {ANEW}.")
    return _load(block.second, block.second_digest, (len(block.keys), n_columns))


def _load(path: Path, digest: str | None, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    if digest is not None and digest != _digest_or_none(path):
        raise InputError(f"{path} is not as it was written; {ANEW}.")
    try:
        found: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # numpy raises whatever its parser of a header meets
        raise InputError(f"{path} cannot be read; {ANEW}.") from None
    if found.shape != shape or found.dtype != np.float32:
        raise InputError(
            f"{path} must hold {shape[0]} rows of {shape[1]} numbers (float32), but has shape "
            f"{found.shape} ({found.dtype}); {ANEW}."
        )
    return found


def save_array(path: Path, values: np.ndarray[Any, Any]) -> str:
    """Write an array whole or not at all, for its owner only; gives the digest of the file."""
    content = io.BytesIO()  # numpy's own write to a file does not say why it failed
    np.save(content, values, allow_pickle=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content.getbuffer())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror}); make room and run again: what is "
            "finished is kept."
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return hashlib.sha256(content.getbuffer()).hexdigest()


def _second(path: Path) -> Path:
    return path.with_suffix(".second.npy")


def _digest_or_none(path: Path) -> str | None:
    try:
        return file_digest(path)
    except OSError:
        return None


def _records(folder: Path) -> list[Path]:
    return sorted(folder.glob("block-*.json"))


def _write_record(array: Path, record: Mapping[str, Any]) -> None:
    write_files({array.with_suffix(".json"): canonical_json(sealed(record))}, private=True)


def _block(path: Path) -> StoredBlock:
    record = read_json(path)
    try:
        keys = [(str(setting), int(seed)) for setting, seed in record["models"]]
        made = record.get("made_with")
        made_with = None if made is None else {str(k): str(v) for k, v in made.items()}
        is_old = set(record) <= UNSEALED
        names = ("settings", "array_sha256")
        digests = [None, None] if is_old else [record[name] for name in names]
        digests.append(record.get("second_sha256"))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{path} does not name the rows of a block; {ANEW}.") from None
    if not is_old and not is_sealed(record):
        raise InputError(f"{path} is not as it was written; {ANEW}.")
    return StoredBlock(keys, path.with_suffix(".npy"), made_with, *digests)


def _fault(
    path: Path, settings: str, has_settings: bool, n_columns: tuple[int, int | None]
) -> str | None:
    """Why a block does not count; None if it does."""
    try:
        block = _block(path)
        load_block(block, n_columns[0])
        if n_columns[1] is not None and block.settings in (None, settings):
            load_second(block, n_columns[1])
    except InputError:
        return "damaged"
    if block.settings is None:
        return None if has_settings else "made with settings that are lost"
    return None if block.settings == settings else "made with other settings"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
        path.with_suffix(".npy").unlink(missing_ok=True)
        _second(path).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be removed ({error.strerror}), and it is not as it was written; "
            "remove it and run again."
        ) from None


def _seal(path: Path, settings: str) -> None:
    record, array = read_json(path), path.with_suffix(".npy")
    digests = {"settings": settings, "array_sha256": file_digest(array)}
    _write_record(array, {**record, **digests})


def _told_of_faults(folder: Path, faults: Mapping[str, str]) -> list[str]:
    if not faults:
        return []
    named = [f"{name} ({fault})" for name, fault in list(faults.items())[:MOST_NAMED]]
    more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
    return [
        f"{folder}: what these blocks held is made again, as they are not what the same settings "
        f"wrote: {', '.join(named)}{more}."
    ]


def _told_of_sealed(folder: Path, n_sealed: int) -> list[str]:
    if not n_sealed:
        return []
    blocks = "1 block is" if n_sealed == 1 else f"{n_sealed} blocks are"
    return [
        f"{folder}: {blocks} from before blocks carried digests, and taken as found; from now on "
        "a change is noticed."
    ]
