"""How do options of a verb become settings?"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import Field, create_model

from pcer.errors import InputError, PcerError, not_installed
from pcer.files import Record, parse_record, read_toml
from pcer.release.disclosure import Disclosure

TABLES = ("duckdb", "ibis", "pooch", "pyarrow")
TRAINING = ("torch", "dp_accounting", "joblib", "opacus", "pyarrow", "sklearn")
# The kind of every key by table; ``docs/training.md`` says what each means.
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
    },
}
TABLE_OF = {key: table for table, keys in KEYS.items() for key in keys}

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)


def optional(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option as its argument's default: one that need not be given."""
    return typer.Option(default, *names, help=help, **more)


def place(what: str, *names: str) -> Any:
    """An option that names a file to write, or stdout."""
    return optional(f"{what} - is stdout.", *names, metavar="PATH")


Given = str | None
Texts = list[str] | None
Files = list[Path] | None
ALLOW_LARGE = optional(
    "Read this release however large it is; repeatable.", metavar="FILE"
)


def require_packages(
    names: Iterable[str], extra: str = "train", by: str = "this verb"
) -> None:
    """Raise InputError, with the command to type, unless the packages of an extra are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise not_installed(name, extra=extra, needed_by=by)


@contextmanager
def about(files: object) -> Iterator[None]:
    """Prefix errors with the name of the file or option that they are about."""
    try:
        yield
    except PcerError as error:
        raise type(error)(f"{files}: {error}", field=error.field) from None


def parse_list(
    text: str, number: Callable[[str], Any], *, option: str, what: str
) -> list[Any]:
    """Numbers with commas between, as one option gives them."""
    try:
        return [number(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise InputError(f"{option} must be {what}, not {text!r}.") from None


def parse_named(text: str | None, kind: type, *, option: str) -> dict[str, Any]:
    """``NAME=VALUE`` with commas between; the last = counts, so that names may have one."""
    found: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, _, value = map(str.strip, part.rpartition("="))
        try:
            if not (name and value) or name in found:
                raise ValueError
            found[name] = kind(value)
        except ValueError:
            examples = {int: "Women=1200,Men=3400", float: "Women=0.8,Men=0.9"}
            such = examples.get(kind, "1=White,2=Black")
            raise InputError(
                f"{option} must be pairs such as {such}, every group once, but {part!r} is not one."
            ) from None
    return found


# Options of the verbs that write releases; names of groups become a mapping.
PEOPLE = {"help": "Who they are: defendants.", "metavar": "NOUN"}
POSITIVE_MEANS = {
    "help": "Of them: 'are predicted to be charged again'.",
    "metavar": "VERB",
}
GROUP_NAMES: dict[str, Any] = {
    "help": "Names for readers: 1=White,2=Black.",
    "metavar": "GROUP=NAME,...",
    "callback": lambda text: parse_named(text, str, option="--group-names"),
}
_record: Any = partial(create_model, __base__=Record)
RUN_TABLES = {
    table: _record(table, **{key: (kind | None, None) for key, kind in keys.items()})
    for table, keys in KEYS.items()
}
RunFile = _record(
    "RunFile",
    **{t: (kind, Field(default_factory=kind)) for t, kind in RUN_TABLES.items()},
)


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a run file by key, None where it does not give one."""
    tree = {} if path is None else read_toml(path, see="docs/training.md")
    found = parse_record(RunFile, tree, file=str(path))
    return {key: value for _, table in found for key, value in table}


def spelling(name: str, options: Mapping[str, Any]) -> str:
    """A setting as its user gave it: an option, or a key of the run file."""
    if name in TABLE_OF:
        return f"{options['config']} [{TABLE_OF[name]}]: {name}"
    return "--batch" if name == "expected_batch" else f"--{name.replace('_', '-')}"


def from_options(
    kind: type[Settings], options: Mapping[str, Any], **named: Any
) -> Settings:
    """A settings object from options named like its fields, unless None, and from ``named``."""
    given = {field.name: options.get(field.name) for field in fields(kind)}
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    try:
        return kind(**{name: v for name, v in plain.items() if v is not None} | named)
    except ValueError as error:
        for key, table in TABLE_OF.items() if options.get("config") else ():
            if options[key] is not None and re.search(rf"\b{key}\b", str(error)):
                raise InputError(f"{options['config']} [{table}]: {error}") from None
        raise InputError(str(error)) from None


def unanswered(
    source: str, faults: Iterable[str], more: Sequence[str], field: str
) -> InputError:
    """All that stands in the way, and the user's command with arguments that would do."""
    command = (
        f" For example: {shlex.join(['pcer', *sys.argv[1:], *more])}" if more else ""
    )
    return InputError(f"{source}: {' '.join(faults)}{command}", field=field)


def disclosure_rule(options: Mapping[str, Any], **named: Any) -> Disclosure:
    """What the options let a release reveal about few people, or about one."""
    public_data = bool(options["public_data"])
    return from_options(Disclosure, options, public_data=public_data, **named)
