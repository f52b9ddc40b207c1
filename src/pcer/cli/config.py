"""Settings from options, and from the run file of ``pcer train --config run.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, create_model

from pcer.errors import InputError
from pcer.files import Record, parse_record, read_text
from pcer.release.disclosure import DisclosureRule, SmallGroups

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)

KEYS: dict[str, dict[str, Any]] = {
    "train": {
        **dict.fromkeys(("dp_delta", "sample_rate", "budget_per_person"), float),
        **dict.fromkeys(("n_steps", "divisor", "refresh_every"), int),
        **dict.fromkeys(("accountant", "adjacency"), str),
        "settings": dict[str, Any],
    },
    "engine": {
        **dict.fromkeys(("jobs", "block_size"), int),
        **dict.fromkeys(("engine", "address"), str),
        "keep_scores": bool,
    },
    "table": {
        **dict.fromkeys(("drop", "categories", "missing", "identifiers"), list[str]),
        "max_categories": int,
    },
    "disclosure": {
        **dict.fromkeys(("public_data", "certain_cells"), bool),
        "least_people": int,
        "small_groups": Literal["join", "withhold"],
    },
}
"""The kind of every key by table; ``docs/training.md`` says what each means."""
TABLE_OF = {key: table for table, keys in KEYS.items() for key in keys}


def _record(name: str, fields: dict[str, Any]) -> Any:
    return create_model(name, __base__=Record, **fields)


TABLES = {
    table: _record(table, {key: (kind | None, None) for key, kind in keys.items()})
    for table, keys in KEYS.items()
}
RunFile = _record("RunFile", {t: (kind, Field(default_factory=kind)) for t, kind in TABLES.items()})


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


def spelling(name: str, options: Mapping[str, Any]) -> str:
    """A setting as its user gave it: an option, or a key of the run file."""
    if name in TABLE_OF:
        return f"{options['config']} [{TABLE_OF[name]}]: {name}"
    return "--batch" if name == "expected_batch" else f"--{name.replace('_', '-')}"


def from_options(kind: type[Settings], options: Mapping[str, Any], **named: Any) -> Settings:
    """Settings of the options called like their fields, and of ``named`` in another form.

    An option that is not given, None, leaves the field's default. An error about a value of a run
    file names the file and its table.
    """
    given = {field.name: options.get(field.name) for field in fields(kind)}
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    try:
        return kind(**{name: v for name, v in plain.items() if v is not None} | named)
    except ValueError as error:
        for key, table in TABLE_OF.items() if options.get("config") else ():
            if options[key] is not None and re.search(rf"\b{key}\b", str(error)):
                raise InputError(f"{options['config']} [{table}]: {error}") from None
        raise InputError(str(error)) from None


def disclosure_rule(options: Mapping[str, Any]) -> DisclosureRule:
    """What the options let out about few people, or about one."""
    small_groups = SmallGroups(options["small_groups"] or SmallGroups.JOIN)
    public = bool(options["public_data"])
    return from_options(DisclosureRule, options, public=public, small_groups=small_groups)
