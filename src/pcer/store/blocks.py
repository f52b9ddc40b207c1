"""Finished blocks of work in a folder: each is an array and the names of its rows.

A block is written whole or not at all, so a killed job finds what is finished and does only what
is missing. What the numbers mean is the job's own matter.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pcer.errors import InputError, OutputError
from pcer.files import canonical_json, read_json, write_files

Key: TypeAlias = tuple[str, int]
"""The name of one row: a setting and a seed."""


def save_block(folder: Path, keys: Sequence[Key], values: np.ndarray[Any, Any]) -> None:
    """Values first, then the small file that makes them count."""
    name = "block-" + hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]
    save_array(folder / f"{name}.npy", values)
    write_files({folder / f"{name}.json": canonical_json({"models": keys})})


def finished_blocks(folder: Path) -> Iterator[tuple[list[Key], Path]]:
    """Keys and array file of every finished block."""
    for path in sorted(folder.glob("block-*.json")):
        yield _keys(read_json(path), path), path.with_suffix(".npy")


def _keys(record: Any, path: Path) -> list[Key]:
    try:
        return [(str(setting), int(seed)) for setting, seed in record["models"]]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} does not name the rows of a block; remove its folder and run again."
        ) from None


def load_block(path: Path, n_rows: int, n_columns: int) -> np.ndarray[Any, Any]:
    """The array of a block, float32 of this shape."""
    try:
        block: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        raise InputError(f"{path} cannot be read; remove its folder and run again.") from None
    if block.shape != (n_rows, n_columns) or block.dtype != np.float32:
        raise InputError(
            f"{path} must hold {n_rows} rows of {n_columns} numbers (float32), but has shape "
            f"{block.shape} ({block.dtype}); remove its folder and run again."
        )
    return block


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
