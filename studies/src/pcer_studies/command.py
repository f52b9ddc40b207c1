"""The verb of the study: ``pcer reproduce``."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

from pcer._version import __version__
from pcer.cli import require_training
from pcer.errors import InputError, OutputError
from pcer.files import write_files
from pcer_studies.memory import peak_memory

if TYPE_CHECKING:
    from pcer.train import EngineFlags
    from pcer_studies.run import Progress as Standing

LOG = "run.log"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    example = "pcer reproduce --dataset compas --seeds 10 -o compas-study"
    app.command(epilog=f"Example: {example}")(reproduce)


def reproduce(
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="adult, compas, acs or bios; repeatable. Default: all four."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study.")] = Path(
        "pcer-study"
    ),
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds 0 to N-1. Default: 50, as the paper; --sensitivity: 50 of COMPAS, 10 of "
            "Adult.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: cores.")] = None,
    report: Annotated[
        bool, typer.Option(help="Write report.html, one page of all audits (megabytes).")
    ] = True,
    tables_only: Annotated[
        bool,
        typer.Option("--tables-only", help="Train nothing: write all files from the releases."),
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Instead: train what the paper leaves open, in several readings."
        ),
    ] = False,
) -> None:
    """Run the paper's whole study and put its published figures beside ours; killed, it resumes."""
    if sensitivity:
        _sensitivity(out, bool(dataset) or tables_only, seeds, device, jobs)
        return
    if tables_only and dataset:
        raise InputError("--tables-only takes every release in the folder; leave --dataset out.")
    if not tables_only:
        _train(out, tuple(dict.fromkeys(dataset or ())), seeds or 50, device, jobs)
    _write_files(out, report=report)


def _train(out: Path, datasets: tuple[str, ...], seeds: int, device: str, jobs: int | None) -> None:
    require_training()
    from pcer_studies.protocol import DATASETS
    from pcer_studies.run import StudyPlan, require_ready, train_study

    flags = _flags(device, jobs)
    wanted = tuple(name for name in DATASETS if name in datasets)
    unknown = tuple(name for name in datasets if name not in DATASETS)
    plan = StudyPlan(datasets=(*wanted, *unknown) or DATASETS, named=bool(datasets), n_seeds=seeds)
    require_ready(plan, out)
    meter = _Meter()
    with _display(meter) as tell:
        ended = train_study(plan, out, flags=flags, on_progress=tell)
    _log(out, plan.datasets, ended, flags, meter)


def _sensitivity(
    out: Path, narrowed: bool, seeds: int | None, device: str, jobs: int | None
) -> None:
    """Train the variants of what the paper leaves open, and write how much they matter."""
    if narrowed:
        raise InputError(
            "--sensitivity trains its own variants of Adult and COMPAS; leave --dataset and "
            "--tables-only out."
        )
    require_training()
    from pcer_studies.sensitivity_run import run_sensitivity

    flags, meter = _flags(device, jobs), _Meter()
    with _display(meter) as tell:
        found, ended = run_sensitivity(out, flags=flags, n_seeds=seeds, on_progress=tell)
    _log(out, ("--sensitivity",), ended, flags, meter)
    for one in found.skipped:
        typer.echo(f"not trained: {one.reason}", err=True)
    for name in ("sensitivity.json", "sensitivity.md"):
        typer.echo(f"wrote {out / name}")


def _flags(device: str, jobs: int | None) -> EngineFlags:
    from pcer.train import EngineFlags

    try:
        return EngineFlags(device=device, jobs=jobs)
    except ValueError as error:
        raise InputError(str(error)) from None


def _write_files(out: Path, *, report: bool) -> None:
    """Audit the releases and write everything that follows from them."""
    from pcer_studies.files import study_files
    from pcer_studies.results import Study

    study = Study.read(out)
    with Console(stderr=True).status("Auditing, and writing tables, figure and report"):
        files = study_files(study, report=report)
        write_files({out / name: content for name, content in files.items()})
    for name in files:
        typer.echo(f"wrote {out / name}")
    typer.echo(f"start with {out / 'README.md'}")


@contextmanager
def _display(meter: _Meter) -> Iterator[Callable[[Standing], None]]:
    """One line for the whole study: models done, rate, time spent and left."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("models, {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]} left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("starting", total=None, rate="", left="?")
        clock = _Clock()

        def tell(now: Standing) -> None:
            meter.look(now.what)
            rate, left = clock.read(now)
            shown.update(
                task,
                description=now.what,
                completed=now.done,
                total=now.total,
                rate=rate,
                left=left,
            )

        yield tell
        meter.look("end")


class _Meter:
    """Seconds of each kind of work, and the largest memory seen."""

    def __init__(self) -> None:
        self.memory = 0.0
        self.seconds: dict[str, float] = {}
        self._what, self._since = "", time.monotonic()

    def look(self, what: str) -> None:
        """Note that from now on this is done; the dataset, the last word, does not count."""
        now = time.monotonic()
        if self._what:
            self.seconds[self._what] = self.seconds.get(self._what, 0.0) + now - self._since
        self._what, self._since = what.rpartition(" ")[0] or what, now
        self.memory = max(self.memory, peak_memory())

    def __str__(self) -> str:
        parts = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.seconds.items())
        return f"{sum(self.seconds.values()):.1f} s ({parts})"


class _Clock:
    """Rate and time left, from the models that this run trained itself."""

    def __init__(self) -> None:
        self.began: float | None = None

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    def read(self, now: Standing) -> tuple[str, str]:
        """As text; a question mark until a model is trained."""
        if now.work is None:
            return "", "?"
        at = self.now()
        self.began = at if self.began is None else self.began
        spent, own = at - self.began, now.done - now.found
        if not own or not now.work or not spent:
            return "", "?"
        return f"{own / spent:.1f} a second", _minutes(spent * (1 / now.work - 1))


def _minutes(seconds: float) -> str:
    """Whole minutes and seconds.

    >>> _minutes(125.2)
    '2:05'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _log(
    out: Path,
    datasets: tuple[str, ...],
    ended: Standing,
    flags: EngineFlags,
    meter: _Meter,
) -> None:
    """Time, memory and machine go here, never into a result."""
    import torch

    from pcer_studies.run import processor

    line = (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}Z reproduce "
        f"{' '.join(datasets)}: {ended.total} models, {ended.found} of them found trained, in "
        f"{meter}; memory at most {meter.memory:,.0f} MiB over all "
        f"processes; {flags.device}, {flags.n_processes} processes, {processor()}, "
        f"{os.cpu_count()} cores, {platform.machine()}, python {platform.python_version()}, "
        f"torch {torch.__version__}, pcer {__version__}\n"
    )
    try:
        with (out / LOG).open("a", encoding="utf-8") as stream:
            stream.write(line)
    except OSError as error:
        raise OutputError(
            f"{out / LOG} cannot be written ({error.strerror}); make room and run it again."
        ) from None
