"""The auditor's verbs: ``pcer audit``, ``verify``, ``schema`` and ``version``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from pcer._version import __version__
from pcer.auditing import (
    Audit,
    Benefit,
    FailOn,
    Plan,
    Policy,
    Tested,
    audit_schema,
    comparison_schema,
    judge_tested,
    outlook_schema,
    parse_plan,
    read_audit,
    read_policy,
    run_tests,
)
from pcer.cli.parts import (
    MET,
    STDOUT,
    columns,
    display,
    folder_for,
    give,
    note,
    parse_list,
    require_packages,
    say,
    show,
    working,
)
from pcer.cli.process import require_stdout
from pcer.errors import InputError, OutputError, PcerError
from pcer.files import as_shown, canonical_json, many_objects, read_regular, read_text
from pcer.release.format import LIMITS, Release, read_release, release_schema
from pcer.report import (
    Difference,
    brief_parts,
    draw_figures,
    full_parts,
    overview_part,
    read_payload,
    short_parts,
    to_junit,
    to_latex_tables,
    to_markdown_page,
    to_report,
    verify_audits,
    verify_report,
    wrapped,
)
from pcer.report import tables as summary

FIGURES = "figures"
PLAN = {name: field.default for name, field in Plan.model_fields.items()}
"""The plan's defaults, to be shown as the options'."""
FLOORS = ",".join(f"{floor:g}" for floor in PLAN["floors"])
MORE = "Every table, the account and the paper's numbers: pcer audit --full."
AUDIT_AGREES = "number agrees with a fresh computation from the release"
PAGE_AGREES = "byte agrees with a fresh report from the release in it"
FAIL_ON_HELP = "Exit with 1 if any budget of any release has it; repeatable: " + ", ".join(FailOn)


SCHEMAS = {
    "release": release_schema,
    "audit": audit_schema,
    "comparison": comparison_schema,
    "outlook": outlook_schema,
}
"""What makes the schema of each format."""

AllowLarge = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Read this release however large it is; repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    example = "pcer audit compas.release.json --json - --fail-on disparity_shown"
    app.command(epilog=f"Example: {example}")(audit)


def register_checks(app: typer.Typer) -> None:
    """Add what checks and describes files."""
    app.command(epilog="Example: pcer verify compas.audit.json compas.release.json")(verify)
    app.command(epilog="Example: pcer schema release > release.schema.json")(schema)
    app.command(epilog="Example: pcer version")(version)


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
    benefit: Annotated[Benefit, typer.Option(help="What a group receives.")] = PLAN["benefit"],
    cost: Annotated[
        str, typer.Option(help="What it pays: a cost in the release, or the sharpest of them.")
    ] = PLAN["cost"],
    floor: Annotated[float, typer.Option(help="Smallest cost that counts.")] = PLAN["floor"],
    floors: Annotated[str, typer.Option(help="Grid of Algorithm 1, comma-separated.")] = FLOORS,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples.")] = PLAN["resamples"],
    reference_group: Annotated[
        str | None, typer.Option("--reference", help="Group that others are compared with.")
    ] = PLAN["reference_group"],
    margin: Annotated[
        float | None, typer.Option(help="Difference of costs that counts as equal.")
    ] = PLAN["margin"],
    rng: Annotated[int, typer.Option(help="Seed of bootstrap and null draws.")] = PLAN["rng"],
    family: Annotated[
        list[Path] | None,
        typer.Option(metavar="RELEASE", help="Judge together with this release; repeatable."),
    ] = None,
    policy_file: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="What is tolerated: docs/policy.md."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Shorthand for strict = true in a policy.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print everything: every table, the whole account.")
    ] = False,
    allow_large: AllowLarge = None,
) -> None:
    """Audit released statistics: print what was found, for whom, and how sure it is."""
    plan, files = _plan(locals()), _release_files(releases)
    outputs = Outputs(
        json=json_path, markdown=markdown, latex=latex, junit=junit, html=html, figures=figures
    )
    outputs.check(files)
    wanted = [choice.value for choice in fail_on or []]
    with many_objects():
        done = audit_all(files, plan, allow_large or [], family or [])
        outputs.write(done, wanted)
    if not outputs.uses_stdout:
        print_audits(done.audits, full=full)
        outputs.print_places()
    _exit_if_met(done.audits, wanted)


def verify(
    audit_file: Annotated[
        Path, typer.Argument(metavar="AUDIT|REPORT.html", help="Written by pcer audit.")
    ],
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RELEASE]...", help="What it audited; a report carries it."),
    ] = None,
    family: Annotated[
        list[Path] | None,
        typer.Option(metavar="RELEASE", help="Judged together with them; repeatable."),
    ] = None,
    plan_sha256: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Digest that the plan must have.")
    ] = None,
    allow_large: AllowLarge = None,
) -> None:
    """Recompute an audit from its releases, one for each; exit 1 and name what differs first."""
    is_page = audit_file.suffix in (".html", ".htm")
    if not is_page and not releases:
        raise InputError(f"{audit_file} needs the release that it audited; name it after the file.")
    known = read_releases(_release_files(releases or []), allow_large or [])
    beside = read_releases(_release_files(family or []), allow_large or [])
    if plan_sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", plan_sha256):
        raise InputError(
            f"--plan-sha256 takes the 64 hexadecimal digits of a plan, not {plan_sha256!r}."
        )
    _print_digests(audit_file, known + beside, is_page=is_page)
    if found := _difference(audit_file, known, is_page, family=beside, plan_sha256=plan_sha256):
        say(f"{audit_file} differs {found}.")
        raise typer.Exit(MET)
    say(f"{audit_file}: every {PAGE_AGREES if is_page else AUDIT_AGREES}.")


def _difference(file: Path, known: list[Release], is_page: bool, **wanted: Any) -> str:
    """What differs first from a fresh computation; nothing where all agrees."""
    with many_objects(), working("Recomputing"):
        if is_page:
            return str(verify_report(file, known, **wanted) or "")
        found = verify_audits(read_audit(file), known, **wanted)
    return f"at {found}" if isinstance(found, Difference) else str(found or "")


def _print_digests(file: Path, named: Sequence[Release], *, is_page: bool) -> None:
    """What anybody can compare with what they were told: the file, its releases, its plans."""
    say(f"SHA-256 {hashlib.sha256(read_regular(file)).hexdigest()}  {file}")
    if is_page:
        plan, carried, family = read_payload(read_text(file), file=str(file))
        plans, releases = [plan.sha256], [*carried, *family]
    else:
        audits = read_audit(file)
        plans = [parse_plan(tree.get("plan"), file=f"{file}: plan").sha256 for tree in audits]
        releases = list(named)
    for release in releases:
        say(f"SHA-256 {release.sha256}  {release.title}")
    for plan_digest in dict.fromkeys(plans):
        say(f"SHA-256 {plan_digest}  the plan")


def schema(
    which: Annotated[
        Literal["release", "audit", "comparison", "outlook"],
        typer.Argument(help="The file format."),
    ],
) -> None:
    """Print the JSON Schema of a file format."""
    tree = SCHEMAS[which]()
    give({STDOUT: json.dumps(tree, indent=2, ensure_ascii=False) + "\n"})


def version() -> None:
    """Print the version."""
    typer.echo(f"pcer {__version__}")


class Audited(NamedTuple):
    """What was audited, and the results, in one order."""

    audits: list[Audit]
    releases: list[Release]
    family: list[Release]


def audit_all(
    files: list[Path],
    plan: Plan,
    allow_large: Sequence[Path] = (),
    family: Sequence[Path] = (),
) -> Audited:
    """Read everything first, so that a bad file costs no waiting; then audit."""
    read = read_releases(files, allow_large)
    others = read_releases(family, allow_large)
    tested: list[Tested] = []
    audits: list[Audit] = []
    with display("releases", lasting=False) as shown:
        total = len(files)
        for path, release in zip([*files, *family], [*read, *others], strict=True):
            work = len(tested) / (total + len(family)) / 2
            shown.tell("testing", path.name, done=0, total=total, work=work)
            tested.append(_tested(path, release, plan))
        for path, one in zip(files, judge_tested(tested[:total], tested[total:]), strict=True):
            audits.append(one)
            n = len(audits)
            shown.tell("auditing", path.name, done=n, total=total, work=0.5 + n / total / 2)
    return Audited(audits, read, others)


def read_releases(files: Sequence[Path], allow_large: Sequence[Path]) -> list[Release]:
    """Releases, each within the limits unless it is allowed by name."""
    large = {path.resolve() for path in allow_large}
    return [
        read_release(path, limits=None if path.resolve() in large else LIMITS) for path in files
    ]


class Outputs:
    """Where results go: files that are written together, and at most one on stdout."""

    def __init__(self, **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}

    @property
    def uses_stdout(self) -> bool:
        """Whether stdout must hold nothing but one result."""
        return STDOUT in self.paths.values()

    def check(self, inputs: Iterable[Path]) -> None:
        """Refuse to write two results to one place, over an input, or to a closed stdout."""
        if self.uses_stdout:
            require_stdout()
        if FIGURES in self.paths:
            require_packages(("altair", "vl_convert"), extra=FIGURES, needed_by="--figures")
        given = self.paths.values()
        targets = [path if path == STDOUT else str(Path(path).resolve()) for path in given]
        for name, target in zip(self.paths, targets, strict=True):
            if targets.count(target) > 1:
                raise OutputError(f"--{name} {self.paths[name]} is given twice; choose two places.")
            if name == FIGURES and target == STDOUT:
                raise OutputError("--figures needs a folder; stdout can hold one file only.")
            if target in {str(path.resolve()) for path in inputs}:
                raise OutputError(f"--{name} {target} would overwrite a release; choose another.")

    def write(self, done: Audited, wanted: list[str]) -> None:
        """Render everything, then write everything or nothing."""
        with folder_for(self.paths.get(FIGURES)) as folder:
            with working("Rendering"):
                files: dict[str, str | bytes] = {
                    path: _render(name, done, wanted)
                    for name, path in self.paths.items()
                    if name != FIGURES
                }
                drawn = draw_figures(done.audits, done.releases) if folder else {}
            give({**files, **{str(Path(folder, name)): data for name, data in drawn.items()}})

    def print_places(self) -> None:
        """Name what a person would open next."""
        for name, what in (("html", "Report"), (FIGURES, "Figures")):
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def print_audits(audits: Sequence[Audit], *, full: bool = False) -> None:
    """The finding of each, one sharp table, how sure and what to do; or everything."""
    for one in map(as_shown, audits):
        show((full_parts if full else short_parts)(one, columns()))
    if len(audits) > 1:
        show([overview_part(as_shown([*audits]), columns())])
    if not full:
        typer.echo(wrapped(MORE, columns()))


def print_briefly(audits: Sequence[Audit]) -> None:
    """The finding of each and its sharp table."""
    for one in map(as_shown, audits):
        show(brief_parts(one, columns()))


def _plan(options: Mapping[str, Any]) -> Plan:
    """The plan of the options that are called like its fields."""
    numbers = "numbers with commas between"
    grid = parse_list(options["floors"], float, option="--floors", what=numbers)
    policy = None if options["policy_file"] is None else read_policy(options["policy_file"])
    if options["strict"]:
        policy = (policy or Policy()).model_copy(update={"strict": True})
    fields = {name: options[name] for name in Plan.model_fields if name in options}
    plan = parse_plan({**fields, "floors": grid}, file="the options")
    return plan.model_copy(update={"policy": policy})


def _release_files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.release.json")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path} holds no *.release.json; name a release file or its folder.")
        files += found
    return files


def _tested(path: Path, release: Release, plan: Plan) -> Tested:
    try:
        return run_tests(release, plan)
    except PcerError as error:
        raise type(error)(f"{path}: {error}") from None


def _render(name: str, done: Audited, wanted: list[str]) -> str:
    audits = done.audits
    if name == "html":
        return to_report(audits, done.releases, done.family)
    if name == "json":
        trees: list[Any] = [audit.to_tree() for audit in audits]
        return canonical_json(trees[0] if len(trees) == 1 else trees)
    if name == "junit":
        return to_junit(audits, wanted)
    render = to_markdown_page if name == "markdown" else to_latex_tables
    return render(audits)


def _exit_if_met(audits: list[Audit], wanted: list[str]) -> None:
    met = [
        f"{summary.subject_name(one)}: {name}"
        for one in audits
        for name in wanted
        if name in one.outcomes()
    ]
    if met:
        note("pcer: --fail-on is met: " + "; ".join(met) + ".")
    for one in audits:
        for rule in one.broken_rules:
            note(f"pcer: policy, {summary.subject_name(one)}: {rule.sentence}")
    if met or any(one.broken_rules for one in audits):
        raise typer.Exit(MET)
