"""Where do results go, how is work shown, and with which exit code does a verb end?

Used by every verb, and by the study's. Results are written together or not at all, and
at most one goes to standard output; progress and notes go to stderr. Everything that is
printed goes through here, so that names from files are safe to display and ``--quiet``
is heeded.

To add an output: an option of the verb that names a place, and what renders it.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import progress as bars
from rich.console import Console
from rich.status import Status
from rich.table import Column
from rich.text import Text

from pcer._version import __version__
from pcer.auditing.sentences.rows import Row
from pcer.cli.options import require_packages
from pcer.errors import OutputError, printable
from pcer.files import make_folder, write_files
from pcer.report.formats.terminal import NARROWEST, WIDTH, terminal_parts, wrapped
from pcer.report.table import Part

if TYPE_CHECKING:
    from pcer.train import EngineFlags

STDOUT = "-"
IMAGES = ("picture", "badge")  # options that write one SVG
FIGURES = "figures"  # the option that names a folder, for several pictures
# What is printed of the places that are written, by option.
PLACES = {"html": "Report", "opinion": "Opinion", FIGURES: "Figures"}
# Columns of a progress line besides what it is doing: bar, count, unit, times.
COUNTED = 52
SPEED_SECONDS = 600.0  # window of the speed estimate
QUIET = ContextVar("QUIET", default=False)  # no progress and no notes: --quiet
# What running commands keep, in words for a stopped command; the innermost last.
KEPT: list[Callable[[], str]] = []


class ExitCode(IntEnum):
    """What a script learns from a verb that ended by itself."""

    PASSED = 0
    FINDING = 1  # --fail-on or a policy is met, a model is worse, verify differs, ...
    UNUSABLE = 2  # what was given cannot be used


class Outputs:
    """Where results go, by option.

    Files are written together, and at most one result goes to stdout. Refuses to write
    two results to one place, over an input, or to a closed stdout.
    """

    def __init__(self, inputs: Iterable[Path] = (), **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}
        self.uses_stdout = STDOUT in self.paths.values()
        if self.uses_stdout:
            require_stdout()
        if FIGURES in self.paths:
            require_packages(("vl_convert",), FIGURES, by="--figures")
        taken = {
            path.resolve(): "would overwrite a release; choose another"
            for path in inputs
        }
        for name, path in self.paths.items():
            _require_kind(name, path)
            place = Path(path) if path == STDOUT else Path(path).resolve()
            if place in taken:
                raise OutputError(f"--{name} {path} {taken[place]}.")
            taken[place] = "is given twice; choose two places"

    def write(self, render: Mapping[str, Callable[[], Any]]) -> None:
        """Render what is asked for, then write all or nothing."""
        folder = self.paths.get(FIGURES)
        with folder_for(folder):
            with working("Rendering"):
                rendered = {name: render[name]() for name in self.paths}
            pictures = rendered.pop(FIGURES, {})
            files = {self.paths[name]: text for name, text in rendered.items()}
            for file_name, picture in pictures.items():
                files[str(Path(folder or "", file_name))] = picture
            give(files)

    def give(self, view: Iterable[Part], **render: Callable[[], Any]) -> None:
        """Write; where nothing goes to stdout, show the result and the places, too."""
        self.write(render)
        if not self.uses_stdout:
            show(view)
            self.print_places()

    def print_places(self) -> None:
        """Print where the report and the figures are."""
        for name, what in PLACES.items():
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def _require_kind(name: str, path: str) -> None:
    """Raise OutputError where an option cannot write to such a place."""
    if path == STDOUT and name == FIGURES:
        raise OutputError("--figures needs a folder; stdout can hold one file only.")
    ending = Path(path).suffix.lower()
    if name in IMAGES and path != STDOUT and ending != ".svg":
        raise OutputError(f"--{name} writes an SVG; name it *.svg.")
    if ending in (".docx", ".pdf"):
        raise OutputError(
            f"--{name} writes no {ending}; convert a *.md or an *.html file."
        )


def require_stdout() -> None:
    """Raise OutputError where standard output was closed before we began."""
    if sys.__stdout__ is None:
        raise OutputError("standard output is closed; name a file instead of -.")


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


# What is shown


def say(sentence: str, *, err: bool = False) -> None:
    """Print one line, with names made safe to display."""
    typer.echo(printable(sentence), err=err)


def note(sentence: str, *, err: bool = True, wraps: bool = False) -> None:
    """Print one line unless notes are unwanted; hints go to stdout, not to stderr."""
    if QUIET.get():
        return
    lines = wrapped(sentence, columns()).split("\n") if wraps else [sentence]
    for line in lines:
        say(line, err=err)


def columns() -> int:
    """Width of output: that of the terminal, or ``COLUMNS``, at most 80."""
    return max(NARROWEST, min(WIDTH, Console().width))


def show(shown: Iterable[Part], *, stderr: bool = False) -> None:
    """Print as wide as there is room."""
    print_parts([*terminal_parts(shown, columns())], stderr=stderr)


def print_parts(
    parts: Iterable[tuple[str, str]],
    *,
    stderr: bool = False,
    rows: Sequence[Row] = (),
    after: str = "\n",
) -> None:
    """Print titles and answers in bold, alarms in colour; after each body a line."""
    console = Console(stderr=stderr)
    for title, body in parts:
        console.print(Text(title, style="bold"), soft_wrap=True)
        text = Text(f"{body}{after}" if body else "")
        for row in rows:
            text.highlight_regex(_answer_pattern(row))
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
        self.update(
            self._task, description=printable(doing), completed=done, total=total
        )

    def counter(
        self, name: str, *, doing: str = "training"
    ) -> Callable[[int, int], None]:
        """A callback for (models done, in all); the first call has those found."""

        def count(done: int, total: int) -> None:
            work = doing if done < total else "attacking and counting"
            found = done if self.found is None else self.found
            self.tell(f"{work} {name}", done=done, total=total, found=found)

        return count

    def step(self, name: str) -> Callable[[str], None]:
        """A callback for the steps after the models are trained and attacked."""
        return lambda doing: self.update(
            self._task, description=printable(f"{doing} {name}")
        )

    def kept(self) -> str:
        """What the folder keeps; empty where there is no folder."""
        if self._kept_in is None:
            return ""
        if self.found is None:
            return f"finished models are kept in {self._kept_in}"
        return f"{self.done} of {self.total} models are kept in {self._kept_in}"


def log_run(folder: Path, what: str, state: Display, flags: EngineFlags) -> None:
    """Add a line to ``run.log``, the only file with a clock, if it can be written."""
    import torch

    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - state.seconds))
    models = f"{state.total} models, {state.found or 0} of them found trained"
    engine = f"{flags.engine}, {flags.device}, {flags.n_processes} processes"
    versions = (
        f"python {platform.python_version()}, torch {torch.__version__}, "
        f"pcer {__version__}"
    )
    line = f"{when} {what}: {models}, in {state.seconds:.1f} s; {engine}, {versions}\n"
    with suppress(OSError), (folder / "run.log").open("a", encoding="utf-8") as stream:
        stream.write(line)


def _answer_pattern(row: Row) -> str:
    """Where a row's answer stands, over lines; its groups are named by their styles."""
    question = _over_lines(row.question)
    answer = _over_lines(f"{row.answer}.")
    if row.is_alarm:
        answer = f"(?P<red>{answer})"
    return rf"{question}\s+(?P<bold>{answer})"


def _over_lines(text: str) -> str:
    return r"\s+".join(map(re.escape, text.split()))
