"""The run file of ``pcer train --config run.toml``: settings that few runs need."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pcer.errors import InputError
from pcer.files import read_text

TABLES: Mapping[str, Mapping[str, Any]] = {
    "train": {
        "dp_delta": float,
        "accountant": str,
        "adjacency": str,
        "sample_rate": float,
        "n_steps": int,
        "divisor": int,
        "refresh_every": int,
        "budget_per_person": float,
        "settings": dict,
    },
    "engine": {
        "jobs": int,
        "block_size": int,
        "engine": str,
        "address": str,
        "keep_scores": bool,
    },
    "table": {
        "drop": list,
        "categories": list,
        "missing": list,
        "max_categories": int,
        "identifiers": list,
    },
    "disclosure": {
        "public_data": bool,
        "least_people": int,
        "small_groups": ("join", "withhold"),
        "certain_cells": bool,
    },
}
"""Keys of each table with what their values are; ``docs/training.md`` says what they mean."""
WORDS = {
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    list: "a list of texts",
    dict: "a table, [train.settings]",
}
TABLE_OF = {key: table for table, keys in TABLES.items() for key in keys}


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a run file by key, None where it does not give one.

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    values: dict[str, Any] = dict.fromkeys(TABLE_OF)
    if path is None:
        return values
    try:
        tables = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}; see docs/training.md.") from None
    for table, content in tables.items():
        if table not in TABLES or not isinstance(content, dict):
            known = ", ".join(f"[{name}]" for name in TABLES)
            raise InputError(f"{path} has no use for {table!r}; its tables are {known}.")
        for key, value in content.items():
            values[key] = _checked(table, key, value, where=f"{path} [{table}]")
    return values


@contextmanager
def file_named(options: Mapping[str, Any]) -> Iterator[None]:
    """Put the run file and its table before an error about a value of the file."""
    try:
        yield
    except InputError as error:
        for key, table in TABLE_OF.items():
            if options[key] is not None and re.search(rf"\b{key}\b", str(error)):
                raise InputError(f"{options['config']} [{table}]: {error}") from None
        raise


def spelling(name: str, options: Mapping[str, Any]) -> str:
    """A setting as its user gave it: an option, or a key of the run file."""
    if name in TABLE_OF:
        return f"{options['config']} [{TABLE_OF[name]}]: {name}"
    return "--batch" if name == "expected_batch" else f"--{name.replace('_', '-')}"


def _checked(table: str, key: str, value: Any, *, where: str) -> Any:
    if key not in TABLES[table]:
        raise InputError(f"{where}: there is no key {key!r}; known are {', '.join(TABLES[table])}.")
    kind = TABLES[table][key]
    if isinstance(kind, tuple):
        is_right, wanted = value in kind, " or ".join(map(repr, kind))
    else:
        is_right, wanted = _fits(value, kind), WORDS[kind]
    if not is_right:
        raise InputError(f"{where}: {key} must be {wanted}, but {value!r} was given.")
    return float(value) if kind is float else value


def _fits(value: Any, kind: type) -> bool:
    if isinstance(value, bool):  # Python counts true and false among the whole numbers
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    if kind is list:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    return isinstance(value, kind)
