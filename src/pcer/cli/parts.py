"""What the verbs share: options and run files as settings, places to write to, a display, a log."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import Field, create_model
from rich import progress as bars
from rich.console import Console
from rich.status import Status
from rich.text import Text

from pcer._version import __version__
from pcer.cli.process import KEPT, require_stdout
from pcer.errors import InputError, OutputError, PcerError, not_installed, shown
from pcer.files import Record, make_folder, parse_record, read_text, write_files
from pcer.release.disclosure import DisclosureRule
from pcer.report.table import Table
from pcer.report.text import NARROWEST, WIDTH, Part, table_part

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from pcer.train import EngineFlags

    Settings = TypeVar("Settings", bound=DataclassInstance)

# Exit codes: passed; audited and --fail-on met, or verify differs; input cannot be used.
PASSED, MET, UNUSABLE = range(3)
STDOUT, FIGURES = "-", "figures"
SPEED_SECONDS = 600.0  # speed is that of the last so many seconds
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
    "disclosure": {**dict.fromkeys(("public_data", "certain_cells"), bool), "least_people": int},
}
TABLE_OF = {key: table for table, keys in KEYS.items() for key in keys}


def optional(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option as its argument's default: one that need not be given."""
    return typer.Option(default, *names, help=help, **more)


def required(help: str, *names: str, **more: Any) -> Any:
    """An option as its argument's default: one that must be given."""
    return optional(help, *names, default=..., **more)


def place(what: str, *names: str) -> Any:
    """An option that names a file to write, or stdout."""
    return optional(f"{what} - is stdout.", *names, metavar="PATH")


Given = str | None
Texts = list[str] | None
Files = list[Path] | None
ALLOW_LARGE = optional("Read this release however large it is; repeatable.", metavar="FILE")


def require_packages(names: Iterable[str], extra: str = "train", by: str = "this verb") -> None:
    """Raise InputError, with the command to type, unless the packages of an extra are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise not_installed(name, extra=extra, needed_by=by)


@contextmanager
def about(files: object) -> Iterator[None]:
    """Put the name of what is worked on before what is refused of it."""
    try:
        yield
    except PcerError as error:
        raise type(error)(f"{files}: {error}", field=error.field) from None


def parse_list(text: str, number: Callable[[str], Any], *, option: str, what: str) -> list[Any]:
    """Numbers with commas between, as one option gives them."""
    try:
        return [number(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise InputError(f"{option} must be {what}, not {text!r}.") from None


def _record(name: str, fields: dict[str, Any]) -> Any:
    return create_model(name, __base__=Record, **fields)


RUN_TABLES = {
    table: _record(table, {key: (kind | None, None) for key, kind in keys.items()})
    for table, keys in KEYS.items()
}
RunFile = _record(
    "RunFile", {t: (kind, Field(default_factory=kind)) for t, kind in RUN_TABLES.items()}
)


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
    return from_options(DisclosureRule, options, public=bool(options["public_data"]))


def say(sentence: str) -> None:
    """Print one line, with what other people wrote as it can be shown."""
    typer.echo(shown(sentence))


def note(sentence: str) -> None:
    """Print one line on stderr, in the way of ``say``."""
    typer.echo(shown(sentence), err=True)


class Outputs:
    """Where results go, by option: files that are written together, and at most one on stdout.

    Refuses to write two results to one place, over an input, or to a closed stdout.
    """

    def __init__(self, inputs: Iterable[Path] = (), **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}
        self.uses_stdout = STDOUT in self.paths.values()
        if self.uses_stdout:
            require_stdout()
        if FIGURES in self.paths:
            require_packages(("altair", "vl_convert"), FIGURES, by="--figures")
        taken = {path.resolve(): "would overwrite a release; choose another" for path in inputs}
        for name, path in self.paths.items():
            if path == STDOUT and name == FIGURES:
                raise OutputError("--figures needs a folder; stdout can hold one file only.")
            place = Path(path) if path == STDOUT else Path(path).resolve()
            if place in taken:
                raise OutputError(f"--{name} {path} {taken[place]}.")
            taken[place] = "is given twice; choose two places"

    def write(self, render: Mapping[str, Callable[[], Any]]) -> None:
        """Render what is asked for, then write all or nothing; figures are contents by name."""
        folder = self.paths.get(FIGURES)
        with folder_for(folder):
            with working("Rendering"):
                made = {name: render[name]() for name in self.paths}
            pictures = made.pop(FIGURES, {})
            files = {self.paths[name]: content for name, content in made.items()}
            give(files | {str(Path(folder or "", name)): data for name, data in pictures.items()})

    def print_places(self) -> None:
        """Name what a person would open next."""
        for name, what in (("html", "Report"), (FIGURES, "Figures")):
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def drawing(name: str, *of: Any) -> dict[str, bytes]:
    """What a function of ``pcer.report.figures``, which is slow to import, draws."""
    return dict(getattr(importlib.import_module("pcer.report.figures"), name)(*of))


def give(contents: Mapping[str, str | bytes]) -> None:
    """Write all files or none, by path; what goes to stdout stands there alone, as UTF-8."""
    if STDOUT in contents:
        require_stdout()
    write_files({path: content for path, content in contents.items() if path != STDOUT})
    if content := contents.get(STDOUT):
        typer.echo(content.encode() if isinstance(content, str) else content, nl=False)


@contextmanager
def folder_for(path: str | None, *, parents: bool = False) -> Iterator[None]:
    """A folder to write into, where one is wanted; a new one does not outlive a failure."""
    is_new = path is not None and make_folder(path, parents=parents)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                Path(str(path)).rmdir()
        raise


def columns() -> int:
    """How wide to write: as wide as the terminal, or ``COLUMNS``, but never wider than 80."""
    return max(NARROWEST, min(WIDTH, Console().width))


def show(parts: Iterable[Part], *, stderr: bool = False) -> None:
    """Print what fits already, titles in bold, an empty line after each part."""
    console = Console(stderr=stderr)
    for part in parts:
        console.print(Text(part.title, style="bold"), soft_wrap=True)
        console.print(Text(f"{part.body}\n" if part.body else ""), soft_wrap=True)


def show_table(table: Table, *, stderr: bool = False) -> None:
    """Print a table as wide as there is room."""
    show([table_part(table, columns())], stderr=stderr)


def working(what: str) -> Status:
    """A line on stderr while something takes seconds and nothing can be counted."""
    return Console(stderr=True).status(what)


class Display(bars.Progress):
    """A line on stderr while something is counted: of ``total`` so many are ``done``.

    ``found`` of them were there before; None until that is known. Whoever stops us is told what
    ``kept_in`` keeps; a ``lasting`` line stays to be read.
    """

    def __init__(
        self,
        unit: str,
        *,
        kept_in: Path | None = None,
        lasting: bool = True,
        console: Console | None = None,
    ) -> None:
        console = console or Console(stderr=True)
        super().__init__(
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn(unit),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(compact=True),
            bars.TextColumn("left"),
            console=console,
            speed_estimate_period=SPEED_SECONDS,
            transient=not lasting,
            redirect_stdout=False,
            disable=not lasting and not console.is_terminal,
        )
        self.done = self.total = 0
        self.found: int | None = None
        self._kept_in, self._task = kept_in, self.add_task("starting", total=None)

    def __enter__(self) -> Display:
        KEPT.append(self.kept)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        KEPT.pop()
        super().__exit__(*error)

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return self.tasks[0].elapsed or 0.0

    def tell(self, doing: str, *, done: int, total: int, found: int | None = None) -> None:
        """Show what is being done, and how much of it is done."""
        self.done, self.total, self.found = done, total, found
        self.update(self._task, description=shown(doing), completed=done, total=total)

    def counter(self, name: str, *, doing: str = "training") -> Callable[[int, int], None]:
        """What a sweep calls with (models done, models in all); first with what it found."""

        def count(done: int, total: int) -> None:
            what = doing if done < total else "attacking and counting"
            found = done if self.found is None else self.found
            self.tell(f"{what} {name}", done=done, total=total, found=found)

        return count

    def step(self, name: str) -> Callable[[str], None]:
        """What a sweep calls with what it does after its models are trained and attacked."""
        return lambda doing: self.update(self._task, description=shown(f"{doing} {name}"))

    def kept(self) -> str:
        """What the folder keeps of the work; empty where there is no folder."""
        which = "finished models" if self.found is None else f"{self.done} of {self.total} models"
        return f"{which} are kept in {self._kept_in}" if self._kept_in else ""


def log_run(folder: Path, what: str, state: Display, flags: EngineFlags) -> None:
    """Add a line to ``run.log``, the only file with a clock, if it can be written."""
    import torch

    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - state.seconds))
    line = (
        f"{when} {what}: {state.total} models, {state.found or 0} of them found trained, in "
        f"{state.seconds:.1f} s; {flags.engine}, {flags.device}, {flags.n_processes} processes, "
        f"python {platform.python_version()}, torch {torch.__version__}, pcer {__version__}\n"
    )
    with suppress(OSError), (folder / "run.log").open("a", encoding="utf-8") as stream:
        stream.write(line)
