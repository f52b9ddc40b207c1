"""What the verbs share: options, packages, places to write to, one progress display, one log."""

from __future__ import annotations

import importlib.util
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.status import Status
from rich.text import Text
from typer.core import TyperCommand

from pcer._version import __version__
from pcer.cli.machine import peak_memory, processor
from pcer.cli.stop import keeping
from pcer.cli.streams import require_stdout
from pcer.errors import InputError, not_installed, shown
from pcer.files import make_folder, write_files
from pcer.release import DisclosureRule, SmallGroups
from pcer.report import NARROWEST, WIDTH, Part, Table, to_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from pcer.train import EngineFlags

    Settings = TypeVar("Settings", bound=DataclassInstance)

PASSED, MET, UNUSABLE = range(3)
"""Exit codes: passed; audited and --fail-on met, or verify differs; input cannot be used."""
STDOUT = "-"
LOG = "run.log"

DRAWING = ("altair", "vl_convert")
TABLES = ("duckdb", "ibis", "pooch", "pyarrow")
TRAINING = ("torch", "dp_accounting", "joblib", "opacus", "pyarrow", "sklearn")


def require_packages(
    names: tuple[str, ...], *, extra: str = "train", needed_by: str = "this verb"
) -> None:
    """Raise InputError, with the command to type, unless the packages of an extra are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise not_installed(name, extra=extra, needed_by=needed_by)


def from_options(kind: type[Settings], said: Mapping[str, Any], **named: Any) -> Settings:
    """Settings made of the options called like their fields; an option not given leaves a default.

    Args:
        kind: a dataclass that checks itself.
        said: options by name, None where not given.
        named: fields that need another form than their option's.
    """
    given = {one.name: said[one.name] for one in fields(kind) if said.get(one.name) is not None}
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    try:
        return kind(**{**plain, **named})
    except ValueError as error:
        raise InputError(str(error)) from None


def disclosure_rule(said: Mapping[str, Any]) -> DisclosureRule:
    """What the options let out about few people, or about one."""
    return DisclosureRule(
        public=said["public_data"],
        least_people=said["least_people"],
        small_groups=SmallGroups(said["small_groups"]),
        certain_cells=said["certain_cells"],
    )


PublicData = Annotated[
    bool,
    typer.Option(
        "--public-data", help="Anybody may have the records: exact tables of groups of any size."
    ),
]
LeastPeople = Annotated[
    int,
    typer.Option(min=1, help="Of one group, label and part; smaller groups are not released."),
]
SmallGroupsRule = Annotated[
    Literal["join", "withhold"], typer.Option(help="What becomes of groups with fewer people.")
]
CertainCells = Annotated[
    bool,
    typer.Option(help="Release cells that tell someone's membership with certainty, or coarsen."),
]
"""Options of every verb that writes releases."""


def with_defaults(load: Callable[[], Iterable[type[DataclassInstance]]]) -> type[TyperCommand]:
    """A kind of verb whose help shows the defaults of settings that are slow to import.

    Args:
        load: imports and gives the settings, when help is asked for.
    """

    class Verb(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            known = {one.name: one.default for kind in load() for one in fields(kind)}
            for option in self.params:
                default = known.get(str(option.name), MISSING)
                option.default = option.default if default is MISSING else default
            super().format_help(ctx, formatter)

    return Verb


def parse_list(text: str, number: Callable[[str], Any], *, option: str, what: str) -> list[Any]:
    """Numbers with commas between, as one option gives them."""
    try:
        return [number(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise InputError(f"{option} must be {what}, not {text!r}.") from None


def say(sentence: str, *, err: bool = False) -> None:
    """Print one line, with what other people wrote as it can be shown."""
    typer.echo(shown(sentence), err=err)


def give(contents: Mapping[str, str | bytes]) -> None:
    """Write all files or none, by path; what goes to stdout stands there alone, as UTF-8."""
    if STDOUT in contents:
        require_stdout()
    write_files({path: content for path, content in contents.items() if path != STDOUT})
    if STDOUT in contents:
        content = contents[STDOUT]
        typer.echo(content.encode() if isinstance(content, str) else content, nl=False)


@contextmanager
def folder_for(path: str | None, *, parents: bool = False) -> Iterator[str]:
    """A folder to write into; a new one does not outlive a failure.

    Args:
        path: the folder; None where none is wanted.
        parents: whether to make the folders above it, too.
    """
    if path is None:
        yield ""
        return
    new = make_folder(path, parents=parents)
    try:
        yield path
    except BaseException:
        if new:
            with suppress(OSError):
                Path(path).rmdir()
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
    title, _, body = to_text(table, columns()).partition("\n")
    show([Part(title, body)], stderr=stderr)


def working(what: str) -> Status:
    """A line on stderr while something takes seconds and nothing can be counted."""
    return Console(stderr=True).status(what)


@contextmanager
def display(
    unit: str,
    *,
    kept_in: Path | None = None,
    lasting: bool = True,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Display]:
    """A line on stderr while something is counted: how many, how fast, how long yet.

    Args:
        unit: what is counted.
        kept_in: folder that keeps what is done, for who stops us.
        lasting: whether its last state stays to be read.
        console: where; stderr.
        clock: seconds since some fixed moment.
    """
    console = console or Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit + "{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]} left"),
    )
    hidden = not lasting and not console.is_terminal
    with Progress(
        *columns, console=console, transient=not lasting, redirect_stdout=False, disable=hidden
    ) as progress:
        shown = Display(progress, clock)
        with keeping(lambda: shown.kept(kept_in)):
            yield shown
        shown.end()


class Display:
    """Where a long command stands, and how many seconds each kind of its work took.

    Attributes:
        done: what is done, now or before.
        found: of it, what was there before.
        total: what there is to do.
        seconds: by kind of work.
        memory: MiB, the largest seen; None where the system does not tell.
    """

    def __init__(self, progress: Progress, clock: Callable[[], float]) -> None:
        self.began = time.time()
        self.done = self.found = self.total = 0
        self.seconds: dict[str, float] = {}
        self.memory = peak_memory()
        self._progress, self._clock = progress, clock
        self._task = progress.add_task("starting", total=None, rate="", left="?")
        self._what, self._since = "", 0.0
        self._first: float | None = None

    def tell(
        self,
        what: str,
        of: str = "",
        *,
        done: int,
        total: int,
        found: int = 0,
        work: float | None = None,
    ) -> None:
        """Say where it stands.

        Args:
            what: kind of work; its seconds are added up.
            of: what is worked on.
            done: what is done, now or before.
            total: what there is to do.
            found: of what is done, what was there before.
            work: share of this run's own work that is done; None at first.
        """
        now = self._clock()
        self._look(what, now)
        self.done, self.found, self.total = done, found, total
        rate, left = self._speed(work, now)
        self._progress.update(
            self._task,
            description=shown(f"{what} {of}".strip()),
            completed=done,
            total=total,
            rate=rate,
            left=left,
        )

    def sweep(self, name: str, total: int) -> Callable[[int, int], None]:
        """What a sweep calls with (models done, models in all); its first call says what it found.

        Args:
            name: of the data.
            total: models that the sweep is to have.
        """
        self.tell("calibrating", name, done=0, total=total)
        found: int | None = None

        def tell(done: int, total: int) -> None:
            nonlocal found
            found = done if found is None else found
            doing = "training" if done < total else "attacking and counting"
            work = (done - found) / (total - found) if total > found else 1.0
            self.tell(doing, name, done=done, total=total, found=found, work=work)

        return tell

    def step(self, name: str) -> Callable[[str], None]:
        """What a sweep calls with what it does after its models are trained and attacked.

        Args:
            name: of the data.
        """

        def tell(doing: str) -> None:
            self.tell(doing, name, done=self.done, total=self.total, found=self.found, work=1.0)

        return tell

    def kept(self, folder: Path | None) -> str:
        """What a folder keeps of it; nothing where there is no folder."""
        if folder is None:
            return ""
        is_counted = self._first is not None  # what was there before is known then
        which = f"{self.done} of {self.total} models" if is_counted else "finished models"
        return f"{which} are kept in {folder}"

    def end(self) -> None:
        """Close the last kind of work."""
        self._look("", self._clock())

    def __str__(self) -> str:
        parts = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.seconds.items())
        return f"{sum(self.seconds.values()):.1f} s ({parts})"

    def _look(self, what: str, now: float) -> None:
        """Note that from now on this is done."""
        if self._what:
            self.seconds[self._what] = self.seconds.get(self._what, 0.0) + now - self._since
        self._what, self._since = what, now
        self.memory = max(filter(None, (self.memory, peak_memory())), default=None)

    def _speed(self, work: float | None, now: float) -> tuple[str, str]:
        """Rate and time left, from what this run did itself; a question mark until it did some."""
        if work is None:
            return "", "?"
        self._first = now if self._first is None else self._first
        spent, own = now - self._first, self.done - self.found
        if not own or not work or not spent:
            return "", "?"
        return f", {own / spent:.1f} a second", _minutes(spent * (1 / work - 1))


def _minutes(seconds: float) -> str:
    """Whole minutes and seconds.

    >>> _minutes(125.2)
    '2:05'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def log_run(folder: Path, what: str, shown: Display, flags: EngineFlags) -> None:
    """Add a line to ``run.log``: time, memory and machine go there, never into a result.

    Where it cannot be written a sentence says so; what was trained is there all the same.
    """
    try:
        with (folder / LOG).open("a", encoding="utf-8") as stream:
            stream.write(f"{_when(shown.began)} {what}: {_work(shown)}; {_machine(flags)}\n")
    except OSError as error:
        say(
            f"pcer: {folder / LOG} cannot be written ({error.strerror}), so time and machine are "
            "not noted; the results are complete.",
            err=True,
        )


def _when(seconds: float) -> str:
    """A moment in UTC.

    >>> _when(0)
    '1970-01-01T00:00:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _work(shown: Display) -> str:
    done = f"{shown.total} models, {shown.found} of them found trained, in {shown}"
    if shown.memory is None:
        return done
    return f"{done}; memory at most {shown.memory:,.0f} MiB over all processes"


def _machine(flags: EngineFlags) -> str:
    import torch

    return (
        f"{flags.engine}, {flags.device}, {flags.n_processes} processes, {processor()}, "
        f"{os.cpu_count()} cores, {platform.machine()}, python {platform.python_version()}, "
        f"torch {torch.__version__}, pcer {__version__}"
    )
