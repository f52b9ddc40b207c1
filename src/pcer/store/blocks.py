"""Finished blocks of work in a folder: each is an array and the names of its rows.

A block is written whole or not at all, so a killed job finds what is finished and does only what
is missing. What the numbers mean is the job's own matter.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pcer.errors import InputError, OutputError
from pcer.files import canonical_json, read_json, write_files

Key: TypeAlias = tuple[str, int]
"""The name of one row: a setting and a seed."""


class StoredBlock(NamedTuple):
    """A finished block: the names of its rows, where they lie, and what made them."""

    keys: list[Key]
    array: Path
    made_with: dict[str, str] | None
    """Versions by package; None where the folder is older than that note."""


def save_block(
    folder: Path,
    keys: Sequence[Key],
    values: np.ndarray[Any, Any],
    *,
    made_with: Mapping[str, str],
) -> None:
    """Values first, then the small file that makes them count."""
    name = "block-" + hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]
    save_array(folder / f"{name}.npy", values)
    record = {"models": keys, "made_with": dict(made_with)}
    write_files({folder / f"{name}.json": canonical_json(record)})


def finished_blocks(folder: Path) -> Iterator[StoredBlock]:
    """Every finished block of a folder."""
    for path in sorted(folder.glob("block-*.json")):
        yield _block(read_json(path), path)


def _block(record: Any, path: Path) -> StoredBlock:
    try:
        keys = [(str(setting), int(seed)) for setting, seed in record["models"]]
        made = record.get("made_with")
        made_with = None if made is None else {str(k): str(v) for k, v in made.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} does not name the rows of a block; remove its folder and run again."
        ) from None
    return StoredBlock(keys, path.with_suffix(".npy"), made_with)


def load_block(block: StoredBlock, n_columns: int) -> np.ndarray[Any, Any]:
    """The array of a block, float32 with so many columns."""
    path, shape = block.array, (len(block.keys), n_columns)
    try:
        found: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read; remove its folder and run again.") from None
    if found.shape != shape or found.dtype != np.float32:
        raise InputError(
            f"{path} must hold {shape[0]} rows of {n_columns} numbers (float32), but has shape "
            f"{found.shape} ({found.dtype}); remove its folder and run again."
        )
    return found


def save_array(path: Path, values: np.ndarray[Any, Any]) -> None:
    """Write an array whole or not at all."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp")
    try:
        content = io.BytesIO()  # numpy's own write to a file does not say why it failed
        np.save(content, values, allow_pickle=False)
        with temporary.open("wb") as stream:
            stream.write(content.getbuffer())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(
            f"{path} cannot be written ({error.strerror}); make room and run again: what is "
            "finished is kept."
        ) from None
