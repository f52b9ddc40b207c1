"""The trainer's verbs: ``pcer train`` and ``pcer demo``."""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pcer._version import __version__
from pcer.errors import InputError, OutputError
from pcer.release import Outcome

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable
    from pcer.sweep import Sweep
    from pcer.train import EngineFlags

Made = TypeVar("Made")

NEEDED = ("torch", "dp_accounting", "joblib", "opacus", "pyarrow", "sklearn")
PAPER_BUDGETS = "none,0.1,0.5,1,5,10"


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    example = "pcer train compas --attribute race --budgets none,0.5,5 --seeds 20 -o out"
    app.command(epilog=f"Example: {example}")(train)


def train(
    source: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Dataset, or your table.")],
    attribute: Annotated[list[str], typer.Option(help="Protected attribute; repeatable.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the releases.")],
    budgets: Annotated[str, typer.Option(help="Epsilons; none is no privacy.")] = PAPER_BUDGETS,
    seeds: Annotated[int, typer.Option(min=1, help="Splits, and models per budget.")] = 50,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 25,
    batch: Annotated[int, typer.Option(help="Expected batch size.")] = 256,
    learning_rate: Annotated[float, typer.Option(help="Of SGD.")] = 0.05,
    clip_norm: Annotated[float, typer.Option(help="Largest norm of one gradient.")] = 1.0,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers.")] = "64,32",
    dp_delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta)-DP.")] = 1e-5,
    accountant: Annotated[
        Literal["pld", "prv", "rdp"], typer.Option(help="Who calibrates the noise.")
    ] = "pld",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    jobs: Annotated[
        int | None, typer.Option(help="Processes; default: cores. Changes only the speed.")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(help="Models that step together. Changes only the speed.")
    ] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="This machine, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Ray head, HOST:PORT or auto; default: a Ray node on this machine."),
    ] = None,
    keep_scores: Annotated[
        bool, typer.Option(help="Keep every model's score of every record, for attacks.")
    ] = False,
    secret_file: Annotated[
        Path | None, typer.Option(help="Secret behind the noise; own tables get a new one.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Own table: column to predict.")] = None,
    positive: Annotated[str | None, typer.Option(help="Own table: its positive value.")] = None,
    outcome: Annotated[
        Outcome | None, typer.Option(help="Own table: what a positive is for the person.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Own table: column to leave out; repeatable.")
    ] = None,
) -> None:
    """Train budgets x seeds and write one release per attribute; killed, it resumes."""
    require_training()
    from pcer.sweep import Sweep, run_sweep
    from pcer.train import Accountant, Engine, EngineFlags, TrainConfig, parse_budgets

    flags = _checked(
        lambda: EngineFlags(
            device=device,
            block_size=block_size,
            jobs=jobs,
            engine=Engine(engine),
            address=address,
        )
    )
    config = _checked(
        lambda: TrainConfig(
            hidden=_layers(hidden),
            epochs=epochs,
            expected_batch=batch,
            learning_rate=learning_rate,
            clip_norm=clip_norm,
            dp_delta=dp_delta,
            accountant=Accountant(accountant),
        )
    )
    own = _Own(label, positive, outcome, tuple(attribute), tuple(drop or ()))
    sweep = Sweep(
        dataset=own.load(source),
        attributes=tuple(attribute),
        budgets=parse_budgets(budgets),
        seeds=tuple(range(seeds)),
        config=config,
        secret=_secret(secret_file, own.is_private(source), out),
    )
    with progress_bar("Training") as advance, _logged(sweep, flags, out):
        paths = run_sweep(
            sweep, out, flags=flags, keep_scores=keep_scores, on_progress=advance, on_note=_tell
        )
    for path in paths.values():
        typer.echo(f"wrote {path}")
    typer.echo(f"next: pcer audit {out}")


def train_demo(out: Path, n_seeds: int) -> list[Path]:
    """Train the paper's COMPAS models and write their release."""
    require_training()
    from pcer.data import load
    from pcer.sweep import Sweep, run_sweep
    from pcer.train import EngineFlags, TrainConfig, parse_budgets

    sweep = Sweep(
        dataset=load("compas"),
        attributes=("race",),
        budgets=parse_budgets(PAPER_BUDGETS),
        seeds=tuple(range(n_seeds)),
        config=TrainConfig(),
    )
    flags = EngineFlags()
    with progress_bar("Training") as advance, _logged(sweep, flags, out):
        done = run_sweep(sweep, out, flags=flags, on_progress=advance, on_note=_tell)
        return list(done.values())


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def require_training() -> None:
    """Raise InputError, with the command to type, unless the trainer's packages are installed."""
    for name in NEEDED:
        if find_spec(name) is None:
            raise InputError(
                f"training belongs to the trainer's half, and {name} is not installed; "
                'pip install "pcer[train]".'
            )


class _Rate(ProgressColumn):
    """Models a second, once some are trained."""

    def render(self, task: Task) -> Text:
        """As text."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f} a second" if speed else "")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr: models done, rate, time spent and time left."""
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("models"),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _Own:
    """A person's own table, or one of the benchmarks, by the name given."""

    def __init__(
        self,
        label: str | None,
        positive: str | None,
        outcome: Outcome | None,
        attributes: tuple[str, ...],
        drop: tuple[str, ...],
    ) -> None:
        self.label, self.positive, self.outcome = label, positive, outcome
        self.attributes, self.drop = attributes, drop

    def is_private(self, source: str) -> bool:
        """Whether the records are somebody's own, so that the noise needs a secret."""
        from pcer.data import TASKS

        return source not in TASKS

    def load(self, source: str) -> GroupedDataset:
        """Read the records; an own table's account of columns is shown."""
        from pcer.data import TASKS, TablePlan, load, read_table

        if source in TASKS:
            return load(source)
        if not Path(source).exists():
            raise InputError(
                f"{source} is neither a dataset ({', '.join(TASKS)}) nor a file; check the name."
            )
        for option, value in (("--label", self.label), ("--positive", self.positive)):
            if value is None:
                raise InputError(f"{source}: say with {option} what the model is to predict.")
        if self.outcome is None:
            raise InputError(f"{source}: say with --outcome benefit|harm what a positive means.")
        plan = TablePlan(
            label=str(self.label),
            positive=str(self.positive),
            attributes=self.attributes,
            outcome=self.outcome,
            drop=self.drop,
        )
        own = read_table(source, plan)
        _show_account(own)
        return own.dataset


def _show_account(own: OwnTable) -> None:
    from pcer.cli.tables import account_table
    from pcer.report import to_rich

    Console(stderr=True, width=100).print(to_rich(account_table(own)))


def _secret(file: Path | None, private: bool, out: Path) -> bytes:
    """The secret behind the noise: as given, or for an own table one that is made and kept."""
    if file is None and not private:
        return b""
    path = file or out / "noise.secret"
    if file is None and not path.exists():
        _write_secret(path)
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    if not 16 <= len(secret) <= 64:
        raise InputError(f"{path} must hold 16 to 64 bytes, but holds {len(secret)}.")
    return secret


def _write_secret(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(secrets.token_bytes(32))
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written ({error.strerror}); check the folder."
        ) from None
    typer.echo(
        f"{path}: made a secret for the noise. Keep it from others: who has it can take the noise "
        "out. It is needed to resume; destroy it when done.",
        err=True,
    )


@contextmanager
def _logged(sweep: Sweep, flags: EngineFlags, out: Path) -> Iterator[None]:
    """Time and machine go here, never into a release."""
    import torch

    began = time.time()
    yield
    line = (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(began))}Z {sweep.dataset.name} "
        f"{len(sweep.budgets)}x{len(sweep.seeds)} models in {time.time() - began:.1f} s, "
        f"{flags.engine}, {flags.device}, {platform.machine()}, "
        f"python {platform.python_version()}, torch {torch.__version__}, pcer {__version__}\n"
    )
    with (out / "run.log").open("a", encoding="utf-8") as stream:
        stream.write(line)


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"--hidden must be whole numbers with commas, not {text!r}.") from None


def _checked(make: Callable[[], Made]) -> Made:
    try:
        return make()
    except ValueError as error:
        raise InputError(str(error)) from None
