"""The command line: each verb parses, calls one function and prints."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import track
from rich.text import Text

from pcer._version import __version__
from pcer.auditing import Audit, Benefit, FailOn, Plan, audit_schema, parse_plan, read_audit
from pcer.auditing import audit as run_audit
from pcer.cli import tables as cli_data
from pcer.cli import train as cli_train
from pcer.cli.plugins import VerbGroup
from pcer.errors import InputError, OutputError, PcerError
from pcer.files import MAX_BYTES, canonical_json, make_folder, write_files
from pcer.release import Release, read_release, release_schema
from pcer.report import (
    draw_figures,
    to_junit,
    to_latex_tables,
    to_markdown_page,
    to_report,
    to_rich,
    verify_report,
)
from pcer.report import tables as summary
from pcer.report import verify_audit as find_difference

WIDTH = 100
SHARPER = "paired_confidence"
"""The cost that the demo shows beside the gap: free in every sweep."""
STDOUT = "-"
FIGURES = "figures"
PASSED, MET, UNUSABLE = range(3)
"""Exit codes: passed; audited and --fail-on met, or verify differs; input cannot be used."""

FAIL_ON_HELP = "Exit with 1 if any budget of any release has it; repeatable: " + ", ".join(FailOn)

app = typer.Typer(
    name="pcer",
    cls=VerbGroup,
    help="Audit who pays for privacy: benefit and privacy cost per group, and whether the data "
    "can tell.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command(epilog="Example: pcer audit compas.release.json --json - --fail-on disparity_shown")
def audit(
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE|FOLDER...", help="Release files, or folders of *.release.json."
        ),
    ],
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="PATH", help="Audit file; several: an array. - is stdout."),
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="PATH", help="Tables and account. - is stdout.")
    ] = None,
    latex: Annotated[
        str | None, typer.Option(metavar="PATH", help="booktabs tables. - is stdout.")
    ] = None,
    junit: Annotated[
        str | None, typer.Option(metavar="PATH", help="JUnit XML for CI. - is stdout.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="PATH", help="One self-contained page. - is stdout.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="Every chart as SVG, PNG and PDF.")
    ] = None,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(metavar="VERDICT", help=FAIL_ON_HELP),
    ] = None,
    benefit: Annotated[Benefit, typer.Option(help="What a group receives.")] = "positive_rate",
    cost: Annotated[
        str, typer.Option(help="What it pays: overfitting_gap, or a proxy in the release.")
    ] = "overfitting_gap",
    floor: Annotated[float, typer.Option(help="Smallest cost that counts.")] = 0.001,
    floors: Annotated[
        str, typer.Option(help="Grid of Algorithm 1, comma-separated.")
    ] = "0.0001,0.001,0.01,0.1",
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = 5_000,
    reference: Annotated[
        str | None, typer.Option(help="Group that others are compared with.")
    ] = None,
    rng: Annotated[int, typer.Option(help="Seed of bootstrap and null draws.")] = 0,
    allow_large: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Read this file even if over 64 MB; repeatable."),
    ] = None,
) -> None:
    """Audit released statistics: print the verdict, the tables and the account."""
    plan = _plan(benefit, cost, floor, floors, resamples, reference, rng)
    files = _release_files(releases)
    outputs = _Outputs(
        json=json_path, markdown=markdown, latex=latex, junit=junit, html=html, figures=figures
    )
    outputs.check(files)
    done = _audit_all(files, plan, allow_large or [])
    wanted = [choice.value for choice in fail_on or []]
    outputs.write(done, wanted)
    if not outputs.uses_stdout:
        _print_audits(done.audits)
        _print_places(outputs)
    _exit_if_met(done.audits, wanted)


@app.command(epilog="Example: pcer verify compas.audit.json compas.release.json")
def verify(
    audit_file: Annotated[
        Path, typer.Argument(metavar="AUDIT|REPORT.html", help="Written by pcer audit.")
    ],
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RELEASE]...", help="What it audited; a report carries it."),
    ] = None,
) -> None:
    """Recompute an audit from its release; exit 1 and name the first number that differs."""
    if audit_file.suffix in (".html", ".htm"):
        _verify_page(audit_file, releases or [])
    elif releases:
        _verify_audit(audit_file, releases)
    else:
        raise InputError(f"{audit_file} needs the release that it audited; name it after the file.")


def _verify_page(page: Path, releases: list[Path]) -> None:
    difference = verify_report(page, [read_release(path) for path in _release_files(releases)])
    if difference:
        typer.echo(f"{page} differs {difference}.")
        raise typer.Exit(MET)
    typer.echo(f"{page}: every byte agrees with a fresh report from the release in it.")


def _verify_audit(audit_file: Path, releases: list[Path]) -> None:
    found = read_audit(audit_file)
    known = [read_release(path) for path in _release_files(releases)]
    for index, one in enumerate(found):
        difference = find_difference(one, known)
        if difference:
            place = f"[{index}]." if len(found) > 1 else ""
            typer.echo(f"{audit_file} differs at {place}{difference}.")
            raise typer.Exit(MET)
    typer.echo(f"{audit_file}: every number agrees with a fresh computation from the release.")


@app.command(epilog="Example: pcer schema release > release.schema.json")
def schema(
    which: Annotated[Literal["release", "audit"], typer.Argument(help="The file format.")],
) -> None:
    """Print the JSON Schema of a file format."""
    tree = release_schema() if which == "release" else audit_schema()
    typer.echo(json.dumps(tree, indent=2, ensure_ascii=False))


@app.command(epilog="Example: pcer version")
def version() -> None:
    """Print the version."""
    typer.echo(f"pcer {__version__}")


cli_data.register(app)
cli_train.register(app)


@app.command(epilog="Example: pcer demo -o pcer-demo")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "pcer-demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Splits, and models per budget.")] = 50,
) -> None:
    """Train and audit COMPAS here: six budgets, real DP-SGD, bundled data."""
    paths = cli_train.train_demo(out, seeds)
    done = _audit_all(paths, Plan(), [])
    outputs = _Outputs(json=str(out / "compas.audit.json"), html=str(out / "report.html"))
    outputs.write(done, [])
    _print_audits(done.audits)
    _print_sharper(done.releases[0], paths[0])
    typer.echo(f"Release: {paths[0]}")
    _print_places(outputs)


def main() -> None:
    """Run the command line; anything pcer refuses is one sentence and exit code 2."""
    try:
        app()
    except PcerError as error:
        typer.echo(f"pcer: {error}", err=True)
        sys.exit(UNUSABLE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(PASSED)


class _Outputs:
    """Where results go: files that are written together, and at most one on stdout."""

    def __init__(self, **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}

    @property
    def uses_stdout(self) -> bool:
        """Whether stdout must hold nothing but one result."""
        return STDOUT in self.paths.values()

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse to write two results to one place, or over an input."""
        given = self.paths.values()
        targets = [path if path == STDOUT else str(Path(path).resolve()) for path in given]
        for name, target in zip(self.paths, targets, strict=True):
            if targets.count(target) > 1:
                raise OutputError(f"--{name} {self.paths[name]} is given twice; choose two places.")
            if name == FIGURES and target == STDOUT:
                raise OutputError("--figures needs a folder; stdout can hold one file only.")
            if target in {str(path.resolve()) for path in inputs}:
                raise OutputError(f"--{name} {target} would overwrite a release; choose another.")

    def write(self, done: _Done, wanted: list[str]) -> None:
        """Render everything, then write everything or nothing."""
        texts = {name: _render(name, done, wanted) for name in self.paths if name != FIGURES}
        files: dict[str | os.PathLike[str], str | bytes] = {
            self.paths[name]: text for name, text in texts.items() if self.paths[name] != STDOUT
        }
        with _folder(self.paths.get(FIGURES)) as folder:
            drawn = draw_figures(done.audits, done.releases) if folder else {}
            write_files({**files, **{Path(folder, n): data for n, data in drawn.items()}})
        for name, text in texts.items():
            if self.paths[name] == STDOUT:
                typer.echo(text, nl=False)


@contextmanager
def _folder(path: str | None) -> Iterator[str]:
    """A folder to write into; a new one does not outlive a failure."""
    if path is None:
        yield ""
        return
    new = make_folder(path)
    try:
        yield path
    except BaseException:
        if new:
            with suppress(OSError):
                Path(path).rmdir()
        raise


def _render(name: str, done: _Done, wanted: list[str]) -> str:
    audits = done.audits
    if name == "html":
        return to_report(audits, done.releases)
    if name == "json":
        trees: list[Any] = [audit.to_tree() for audit in audits]
        return canonical_json(trees[0] if len(trees) == 1 else trees)
    if name == "junit":
        return to_junit(audits, wanted)
    render = to_markdown_page if name == "markdown" else to_latex_tables
    return render(audits)


def _plan(
    benefit: str,
    cost: str,
    floor: float,
    floors: str,
    resamples: int,
    reference: str | None,
    rng: int,
) -> Plan:
    try:
        grid = [float(part) for part in floors.split(",")]
    except ValueError:
        raise InputError(f"--floors must be numbers with commas between, not {floors!r}.") from None
    options = {
        "benefit": benefit,
        "cost": cost,
        "floor": floor,
        "floors": grid,
        "resamples": resamples,
        "reference_group": reference,
        "rng": rng,
    }
    return parse_plan(options, file="the options")


def _release_files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.release.json")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path} holds no *.release.json; name a release file or its folder.")
        files += found
    return files


class _Done(NamedTuple):
    """What was audited, and the results, in one order."""

    audits: list[Audit]
    releases: list[Release]


def _audit_all(files: list[Path], plan: Plan, allow_large: list[Path]) -> _Done:
    """Read everything first, so that a bad file costs no waiting."""
    large = {path.resolve() for path in allow_large}
    read: list[Release] = [
        read_release(path, max_bytes=None if path.resolve() in large else MAX_BYTES)
        for path in files
    ]
    console = Console(stderr=True)
    quiet = len(files) == 1 or not console.is_terminal
    steps = track(read, description="Auditing", console=console, transient=True, disable=quiet)
    audits = [_named(path, release, plan) for path, release in zip(files, steps, strict=True)]
    return _Done(audits, read)


def _named(path: Path, release: Release, plan: Plan) -> Audit:
    try:
        return run_audit(release, plan)
    except PcerError as error:
        raise type(error)(f"{path}: {error}") from None


def _print_audits(audits: list[Audit]) -> None:
    console = Console(width=min(WIDTH, Console().width) if sys.stdout.isatty() else WIDTH)
    for one in audits:
        console.rule(Text(summary.subject_name(one)), align="left")
        console.print(Text(f"VERDICT  {one.verdict.words}", style="bold"))
        _print_lines(console, "Advice", summary.advice(one))
        _print_lines(console, "In plain words", one.account)
        _print_lines(console, "What was audited", summary.facts(one))
        console.print()
        for table in summary.tables(one):
            console.print(to_rich(table))
            console.print()
    if len(audits) > 1:
        console.rule()
        console.print(to_rich(summary.summary_table(audits)))


def _print_sharper(release: Release, path: Path) -> None:
    """The same models with a cost that the gap's noise does not hide."""
    sharper = run_audit(release, Plan(cost=SHARPER))
    console = Console(width=WIDTH)
    console.rule(Text("The same models, measured more sharply"), align="left")
    console.print(Text(f"VERDICT  {sharper.verdict.words}  (cost: {SHARPER.replace('_', ' ')})"))
    console.print()
    console.print(to_rich(summary.resolution_table(sharper)))
    console.print(f"\nIn full: pcer audit {path} --cost {SHARPER}\n", markup=False)


def _print_places(outputs: _Outputs) -> None:
    """Name what a person would open next."""
    for name, what in (("html", "Report"), (FIGURES, "Figures")):
        if name in outputs.paths:
            typer.echo(f"{what}: {outputs.paths[name]}")


def _print_lines(console: Console, title: str, lines: list[str]) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))


def _exit_if_met(audits: list[Audit], wanted: list[str]) -> None:
    met = [
        f"{summary.subject_name(one)}: {name}"
        for one in audits
        for name in wanted
        if name in one.outcomes()
    ]
    if met:
        typer.echo("pcer: --fail-on is met: " + "; ".join(met) + ".", err=True)
        raise typer.Exit(MET)
