"""How are work and notes shown on stderr, and results on stdout?

Used by every verb, and by the study's. Everything that is printed goes through here, so
that names from files are safe to display and ``--quiet`` is heeded.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import progress as bars
from rich.console import Console
from rich.status import Status
from rich.table import Column
from rich.text import Text

from pcer._version import __version__
from pcer.cli.process import KEPT
from pcer.errors import printable
from pcer.measuring.plan import BUDGET_VERDICTS
from pcer.report.formats.terminal import NARROWEST, WIDTH, terminal_parts, wrapped
from pcer.report.table import Lines, Table

if TYPE_CHECKING:
    from pcer.train import EngineFlags

# Columns of a progress line besides what it is doing: bar, count, unit, times.
COUNTED = 52
SPEED_SECONDS = 600.0  # window of the speed estimate
# Of verdicts, by how severe they are.
COLOURS = {"red": "bold red", "amber": "yellow", "blue": "blue", "grey": "dim"}
QUIET = ContextVar("QUIET", default=False)  # no progress and no notes: --quiet


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
        self.update(
            self._task, description=printable(doing), completed=done, total=total
        )

    def counter(
        self, name: str, *, doing: str = "training"
    ) -> Callable[[int, int], None]:
        """A callback for (models done, models in all).

        Its first call says how many were there before.
        """

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
