"""The run file of ``pcer train --config run.toml``: settings that few runs need."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pcer.errors import InputError
from pcer.files import Record, parse_record, read_text


class TrainKeys(Record):
    """``[train]``; ``docs/training.md`` says what every key means."""

    dp_delta: float | None = None
    accountant: str | None = None
    adjacency: str | None = None
    sample_rate: float | None = None
    n_steps: int | None = None
    divisor: int | None = None
    refresh_every: int | None = None
    budget_per_person: float | None = None
    settings: dict[str, Any] | None = None


class EngineKeys(Record):
    """``[engine]``."""

    jobs: int | None = None
    block_size: int | None = None
    engine: str | None = None
    address: str | None = None
    keep_scores: bool | None = None


class TableKeys(Record):
    """``[table]``."""

    drop: list[str] | None = None
    categories: list[str] | None = None
    missing: list[str] | None = None
    max_categories: int | None = None
    identifiers: list[str] | None = None


class DisclosureKeys(Record):
    """``[disclosure]``."""

    public_data: bool | None = None
    least_people: int | None = None
    small_groups: Literal["join", "withhold"] | None = None
    certain_cells: bool | None = None


class RunFile(Record):
    """All tables of a run file."""

    train: TrainKeys = Field(default_factory=TrainKeys)
    engine: EngineKeys = Field(default_factory=EngineKeys)
    table: TableKeys = Field(default_factory=TableKeys)
    disclosure: DisclosureKeys = Field(default_factory=DisclosureKeys)


KEYS: dict[str, Any] = {name: field.annotation for name, field in RunFile.model_fields.items()}
TABLE_OF = {key: name for name, kind in KEYS.items() for key in kind.model_fields}
"""The table that a key stands in."""


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a run file by key, None where it does not give one.

    Raises:
        InputError: one sentence with the file, the key and the remedy.
    """
    try:
        tree = {} if path is None else tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}; see docs/training.md.") from None
    found = parse_record(RunFile, tree, file=str(path))
    return {key: value for _, table in found for key, value in table}


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
