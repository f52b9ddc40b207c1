"""Shared by the verbs: options and run files as settings, outputs, a progress display, a log."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import Field, create_model
from rich import progress as bars
from rich.console import Console
from rich.status import Status
from rich.table import Column
from rich.text import Text

from pcer._version import __version__
from pcer.auditing.verdict import BUDGET_VERDICTS
from pcer.cli.process import KEPT, require_stdout
from pcer.errors import InputError, OutputError, PcerError, not_installed, shown
from pcer.files import Record, make_folder, parse_record, read_toml, write_files
from pcer.release.disclosure import DisclosureRule
from pcer.report.table import Table, wrapped
from pcer.report.text import NARROWEST, WIDTH, Lines, terminal_parts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from pcer.train import EngineFlags

    Settings = TypeVar("Settings", bound=DataclassInstance)

# Exit codes: passed; audited and --fail-on met, or verify differs; input cannot be
# used.
PASSED, MET, UNUSABLE = range(3)
STDOUT, FIGURES = "-", "figures"
COUNTED = (
    52  # columns of a progress line besides what it is doing: bar, count, unit, times
)
SPEED_SECONDS = 600.0  # window of the speed estimate
COLOURS = {
    "red": "bold red",
    "amber": "yellow",
    "blue": "blue",
    "grey": "dim",
}  # of verdicts
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


def disclosure_rule(options: Mapping[str, Any]) -> DisclosureRule:
    """What the options let a release reveal about few people, or about one."""
    return from_options(DisclosureRule, options, public=bool(options["public_data"]))


def say(sentence: str, *, err: bool = False) -> None:
    """Print one line, with names made safe to display."""
    typer.echo(shown(sentence), err=err)


QUIET = ContextVar("QUIET", default=False)  # no progress and no notes: --quiet


def note(sentence: str, *, err: bool = True, wraps: bool = False) -> None:
    """Print one line, or wrap it, on stderr unless it is a hint, where notes are wanted."""
    lines = wrapped(sentence, columns()).split("\n") if wraps else [sentence]
    for line in () if QUIET.get() else lines:
        say(line, err=err)


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
        taken = {
            path.resolve(): "would overwrite a release; choose another"
            for path in inputs
        }
        for name, path in self.paths.items():
            if path == STDOUT and name == FIGURES:
                raise OutputError(
                    "--figures needs a folder; stdout can hold one file only."
                )
            if (ending := Path(path).suffix.lower()) in (".docx", ".pdf"):
                raise OutputError(
                    f"--{name} writes no {ending}; convert a *.md or an *.html file."
                )
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
            give(
                files
                | {
                    str(Path(folder or "", name)): data
                    for name, data in pictures.items()
                }
            )

    def give(self, view: Iterable[Lines | Table], **render: Callable[[], Any]) -> None:
        """Write, and where nothing goes to stdout show what was found, and where the files are."""
        self.write(render)
        if not self.uses_stdout:
            show(view)
            self.print_places()

    def print_places(self) -> None:
        """Print where the report and the figures are."""
        for name, what in (
            ("html", "Report"),
            ("opinion", "Opinion"),
            (FIGURES, "Figures"),
        ):
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def drawing(name: str, *of: Any) -> dict[str, bytes]:
    """Call a function of ``pcer.report.figures``, which is slow to import."""
    return dict(getattr(importlib.import_module("pcer.report.figures"), name)(*of))


def give(contents: Mapping[str, str | bytes]) -> None:
    """Write all files or none, by path; stdout gets at most one, as UTF-8."""
    if STDOUT in contents:
        require_stdout()
    write_files({path: content for path, content in contents.items() if path != STDOUT})
    if content := contents.get(STDOUT):
        typer.echo(content.encode() if isinstance(content, str) else content, nl=False)


@contextmanager
def folder_for(path: str | None, *, parents: bool = False) -> Iterator[None]:
    """A folder to write into, if any; a new one is removed after a failure."""
    is_new = path is not None and make_folder(path, parents=parents)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                Path(str(path)).rmdir()
        raise


def columns() -> int:
    """Width of output: that of the terminal, or ``COLUMNS``, at most 80."""
    return max(NARROWEST, min(WIDTH, Console().width))


def show(shown: Iterable[Lines | Table], *, stderr: bool = False) -> None:
    """Print as wide as there is room, titles in bold, an empty line after each."""
    console = Console(stderr=stderr)
    for title, body in terminal_parts(shown, columns()):
        console.print(Text(title, style="bold"), soft_wrap=True)
        text = Text(f"{body}\n" if body else "")
        for verdict in BUDGET_VERDICTS:
            text.highlight_words([f"[{verdict.value}]"], COLOURS[verdict.severity])
        console.print(text, soft_wrap=True)


def working(what: str) -> Status:
    """A status line on stderr during work that cannot be counted."""
    return Console(stderr=True, quiet=QUIET.get()).status(what)


class Display(bars.Progress):
    """A progress line on stderr: ``done`` of ``total``.

    ``found`` of them existed before; None until that is known. A stopped command says
    what ``kept_in`` keeps; a ``lasting`` line stays on the screen.
    """

    def __init__(
        self,
        unit: str,
        *,
        kept_in: Path | None = None,
        lasting: bool = True,
        console: Console | None = None,
    ) -> None:
        console = console or Console(stderr=True, quiet=QUIET.get())
        doing = Column(no_wrap=True, max_width=max(8, console.width - COUNTED))
        super().__init__(
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False, table_column=doing),
            bars.BarColumn(bar_width=None),  # as wide as there is room
            bars.MofNCompleteColumn(table_column=Column(no_wrap=True)),
            bars.TextColumn(unit),
            bars.TimeElapsedColumn(table_column=Column(no_wrap=True)),
            bars.TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            bars.TextColumn("left"),
            console=console,
            speed_estimate_period=SPEED_SECONDS,
            transient=not lasting,
            redirect_stdout=False,
            disable=not lasting and not console.is_terminal,
        )
        self.done = self.total = 0
        self.found: int | None = None
        self._kept_in = kept_in
        self._task = self.add_task("starting", total=None)

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

    def tell(
        self, doing: str, *, done: int, total: int, found: int | None = None
    ) -> None:
        """Show the current work and how much of it is done."""
        self.done = done
        self.total = total
        self.found = found
        self.update(self._task, description=shown(doing), completed=done, total=total)

    def counter(
        self, name: str, *, doing: str = "training"
    ) -> Callable[[int, int], None]:
        """A callback for (models done, models in all); the first call is what was found."""

        def count(done: int, total: int) -> None:
            what = doing if done < total else "attacking and counting"
            found = done if self.found is None else self.found
            self.tell(f"{what} {name}", done=done, total=total, found=found)

        return count

    def step(self, name: str) -> Callable[[str], None]:
        """A callback for the steps after the models are trained and attacked."""
        return lambda doing: self.update(
            self._task, description=shown(f"{doing} {name}")
        )

    def kept(self) -> str:
        """What the folder keeps; empty where there is no folder."""
        which = (
            "finished models"
            if self.found is None
            else f"{self.done} of {self.total} models"
        )
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
