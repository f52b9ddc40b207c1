"""How does the command line run the study? The verb ``pcer reproduce``.

``pcer`` finds ``register`` by an entry point of the package. The verb only reads its
options: ``run`` trains, ``sensitivity.run`` trains what the paper leaves open, and
``tables.folder`` makes every file. To add an option: an argument of the verb, handed to
one of these.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pcer.cli.app import Verb
from pcer.cli.options import TRAINING, from_options, require_packages
from pcer.cli.outputs import Display, log_run, note, say, working
from pcer.errors import InputError
from pcer.files import write_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pcer.train import EngineFlags
    from pcer_studies.run import Progress, StudyPlan


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    example = "pcer reproduce --dataset compas --seeds 10 -o compas-study"
    app.command(epilog=f"Example: {example}", cls=Verb)(reproduce)


def reproduce(
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="adult, compas, acs, bios, or adult-closest, a second reading; "
            "repeatable. Default: all five."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the study.")
    ] = Path("pcer-study"),
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds 0 to N-1. Default: 50, as the paper; --sensitivity: 50 of "
            "COMPAS, 10 of Adult.",
        ),
    ] = None,
    receipts: Annotated[
        Literal["none", "exact", "refreshed"],
        typer.Option(help="How what each group spends is counted; changes no model."),
    ] = "refreshed",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: cores.")
    ] = None,
    report: Annotated[
        bool,
        typer.Option(help="Write report.html, one page of all audits (megabytes)."),
    ] = True,
    tables_only: Annotated[
        bool,
        typer.Option(
            "--tables-only", help="Train nothing: write all files from the releases."
        ),
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Instead: train what the paper leaves open, in several readings.",
        ),
    ] = False,
) -> None:
    """Run the paper's whole study and compare its published figures.

    Interrupted runs resume.
    """
    if sensitivity:
        _sensitivity(out, bool(dataset) or tables_only, seeds, device, jobs)
        return
    if tables_only and dataset:
        raise InputError(
            "--tables-only takes every release in the folder; leave --dataset out."
        )
    if not tables_only:
        plan = _plan(tuple(dict.fromkeys(dataset or ())), seeds or 50, receipts)
        _train(out, plan, _flags(device, jobs))
    _write_files(out, report=report)


def _plan(datasets: tuple[str, ...], seeds: int, receipts: str) -> StudyPlan:
    """What the options ask for; datasets in the paper's order."""
    require_packages(TRAINING)
    from pcer.train import ReceiptMode, TrainConfig
    from pcer_studies import protocol
    from pcer_studies.run import StudyPlan

    known = tuple(name for name in protocol.SWEEPS if name in datasets)
    unknown = tuple(name for name in datasets if name not in protocol.SWEEPS)
    return StudyPlan(
        datasets=(*known, *unknown) or protocol.SWEEPS,
        named=bool(datasets),
        n_seeds=seeds,
        config=TrainConfig(**protocol.TRAINING, receipts=ReceiptMode(receipts)),
    )


def _train(out: Path, plan: StudyPlan, flags: EngineFlags) -> None:
    from pcer_studies.run import require_ready, train_study

    require_ready(plan, out)
    with Display("models", kept_in=out) as display:
        train_study(plan, out, flags=flags, on_progress=_teller(display), on_note=note)
    log_run(out, f"reproduce {' '.join(plan.datasets)}", display, flags)


def _sensitivity(
    out: Path, narrowed: bool, seeds: int | None, device: str, jobs: int | None
) -> None:
    """Train what the paper leaves open in several readings, and compare them."""
    if narrowed:
        raise InputError(
            "--sensitivity trains its own variants of Adult and COMPAS; leave "
            "--dataset and --tables-only out."
        )
    require_packages(TRAINING)
    from pcer_studies.sensitivity.run import run_sensitivity

    flags = _flags(device, jobs)
    with Display("models", kept_in=out) as display:
        sensitivity, _ = run_sensitivity(
            out, flags=flags, n_seeds=seeds, on_progress=_teller(display)
        )
    log_run(out, "reproduce --sensitivity", display, flags)
    for skipped in sensitivity.skipped:
        note(f"not trained: {skipped.reason}")
    for name in ("sensitivity.json", "sensitivity.md"):
        say(f"wrote {out / name}")


def _flags(device: str, jobs: int | None) -> EngineFlags:
    from pcer.train import EngineFlags

    return from_options(EngineFlags, {"device": device, "jobs": jobs})


def _write_files(out: Path, *, report: bool) -> None:
    """Audit the releases and write everything that follows from them."""
    from pcer_studies.results import Study
    from pcer_studies.tables.folder import study_files

    study = Study.read(out)
    with working("Auditing, and writing tables, figure and report"):
        files = study_files(study, report=report)
        write_files({out / name: content for name, content in files.items()})
    for name in files:
        say(f"wrote {out / name}")
    say(f"start with {out / 'README.md'}")


def _teller(display: Display) -> Callable[[Progress], None]:
    return lambda now: display.tell(
        now.what, done=now.done, total=now.total, found=now.found
    )
