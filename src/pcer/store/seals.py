"""Digests by which a change is noticed: of a file, of a record, of settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "sha256"
"""The field of a record that holds the digest of all others."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def record_digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of plain JSON objects, whatever the order of their names.

    >>> record_digest({"a": 1, "b": (2, 3)}) == record_digest({"b": [2, 3], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its own digest."""
    return {**record, SEAL: record_digest(record)}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether a record carries a digest, and is as it was when it got it."""
    rest = {name: value for name, value in record.items() if name != SEAL}
    return record.get(SEAL) == record_digest(rest)
