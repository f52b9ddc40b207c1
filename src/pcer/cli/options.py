"""How do options of a verb become settings?

Shared by the verbs: kinds of options, texts that hold lists, and run files
(``--config``), whose keys are settings that few runs need.

To add a setting: a field of its settings class, and either an option of the verb that
is called like it or a key of a run file here.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import Field

from pcer.errors import InputError, PcerError, not_installed
from pcer.files import Record, parse_record, read_toml
from pcer.release.disclosure import Disclosure, Joint

# Options that a help page shows first: the first of the verb's function.
MOST_COMMON = 5
TABLES = ("duckdb", "ibis", "pooch", "pyarrow")
TRAINING = ("torch", "dp_accounting", "joblib", "opacus", "pyarrow", "sklearn")


class TrainKeys(Record):
    """Table ``[train]`` of a run file; ``docs/training.md`` explains every key."""

    dp_delta: float | None = None
    learning_rate: float | None = None
    sample_rate: float | None = None
    budget_per_person: float | None = None
    n_steps: int | None = None
    divisor: int | None = None
    refresh_every: int | None = None
    accountant: str | None = None
    adjacency: str | None = None
    settings: dict[str, Any] | None = None


class EngineKeys(Record):
    """Table ``[engine]``."""

    jobs: int | None = None
    block_size: int | None = None
    engine: str | None = None
    address: str | None = None
    keep_scores: bool | None = None


class TableKeys(Record):
    """Table ``[table]``, of a person's own table."""

    drop: list[str] | None = None
    categories: list[str] | None = None
    missing: list[str] | None = None
    identifiers: list[str] | None = None
    max_categories: int | None = None


class DisclosureKeys(Record):
    """Table ``[disclosure]``."""

    public_data: bool | None = None
    certain_cells: bool | None = None
    least_people: int | None = None
    joint: Joint | None = None


class RunFile(Record):
    """A run file: settings that few runs need, by table."""

    train: TrainKeys = Field(default_factory=TrainKeys)
    engine: EngineKeys = Field(default_factory=EngineKeys)
    table: TableKeys = Field(default_factory=TableKeys)
    disclosure: DisclosureKeys = Field(default_factory=DisclosureKeys)


TABLE_OF: dict[str, str] = {
    **dict.fromkeys(TrainKeys.model_fields, "train"),
    **dict.fromkeys(EngineKeys.model_fields, "engine"),
    **dict.fromkeys(TableKeys.model_fields, "table"),
    **dict.fromkeys(DisclosureKeys.model_fields, "disclosure"),
}

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
    """Raise InputError, with the command to type, unless packages are installed."""
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


EXAMPLES_OF_PAIRS = {int: "Women=1200,Men=3400", float: "Women=0.8,Men=0.9"}


def parse_named(text: str | None, kind: type, *, option: str) -> dict[str, Any]:
    """``NAME=VALUE`` with commas between; a name may itself hold an ``=``."""
    values: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        name, _, value = map(str.strip, part.rpartition("="))
        try:
            if not (name and value) or name in values:
                raise ValueError
            values[name] = kind(value)
        except ValueError:
            example = EXAMPLES_OF_PAIRS.get(kind, "1=White,2=Black")
            raise InputError(
                f"{option} must be pairs such as {example}, every group once, but "
                f"{part!r} is not one."
            ) from None
    return values


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
MISSING_HELP = "People without a recorded group: left out, or a group of their own."


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a run file by key, None where it does not give one."""
    tree = {} if path is None else read_toml(path, see="docs/training.md")
    run_file = parse_record(RunFile, tree, file=str(path))
    values: dict[str, Any] = {}
    for _, table in run_file:
        values |= dict(table)
    return values


def spelling(name: str, options: Mapping[str, Any]) -> str:
    """A setting as its user gave it: an option, or a key of the run file."""
    if name in TABLE_OF:
        return f"{options['config']} [{TABLE_OF[name]}]: {name}"
    return "--batch" if name == "expected_batch" else f"--{name.replace('_', '-')}"


def from_options(
    kind: type[Settings], options: Mapping[str, Any], **named: Any
) -> Settings:
    """A settings object from the options that are called like its fields.

    What is None keeps its default. ``named`` are fields that are no options, or that
    replace them. An error about a value of the run file names the file and the table.
    """
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = options.get(field.name)
        if value is not None:
            values[field.name] = tuple(value) if isinstance(value, list) else value
    try:
        return kind(**values | named)
    except ValueError as error:
        place = _place_in_run_file(str(error), options)
        raise InputError(f"{place}{error}") from None


def _place_in_run_file(sentence: str, options: Mapping[str, Any]) -> str:
    """The table of the run file that an error is about; empty if it is about none."""
    file = options.get("config")
    if not file:
        return ""
    for key, table in TABLE_OF.items():
        if options[key] is not None and re.search(rf"\b{key}\b", sentence):
            return f"{file} [{table}]: "
    return ""


def unanswered(
    source: str, faults: Iterable[str], more: Sequence[str], field: str
) -> InputError:
    """All that stands in the way, and the user's command with what would do."""
    sentence = f"{source}: {' '.join(faults)}"
    if more:
        command = shlex.join(["pcer", *sys.argv[1:], *more])
        sentence += f" For example: {command}"
    return InputError(sentence, field=field)


def disclosure_rule(options: Mapping[str, Any], **named: Any) -> Disclosure:
    """What the options let a release reveal about few people, or about one."""
    public_data = bool(options["public_data"])
    return from_options(Disclosure, options, public_data=public_data, **named)
