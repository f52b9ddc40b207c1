"""The auditor's verbs: ``pcer audit``, ``verify``, ``schema`` and ``version``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import typer

from pcer import auditing, report
from pcer._version import __version__
from pcer.auditing.audit import judge_tested, run_tests
from pcer.auditing.file import Audit, parse_plan
from pcer.auditing.plan import Benefit, Plan, Policy
from pcer.auditing.tests import Tested
from pcer.auditing.verdict import FailOn
from pcer.cli import parts
from pcer.cli.parts import ALLOW_LARGE, Files, Given, Outputs, optional, place
from pcer.errors import InputError
from pcer.files import as_shown, canonical_json, many_objects, read_regular, read_text
from pcer.release.format import LIMITS, Release, read_release, release_schema
from pcer.report.page import read_payload
from pcer.report.table import wrapped
from pcer.report.tables import subject_name
from pcer.report.text import full_parts, overview_part, short_parts

# Defaults of the options; making a plan here would slow the start of every verb.
PLAN = {name: field.default for name, field in Plan.model_fields.items()}
FLOORS = ",".join(f"{floor:g}" for floor in PLAN["floors"])
MORE = "Every table, the account and the paper's numbers: pcer audit --full."
# What verify says, by whether the file is a report.
AGREES = {
    False: "every number agrees with a fresh computation from the release.",
    True: "every byte agrees with a fresh report from the release in it.",
}
FAIL_ON_HELP = "Exit with 1 if any budget of any release has it; repeatable: " + ", ".join(FailOn)
# What makes the schema of each format.
SCHEMAS = {
    "release": release_schema,
    "audit": auditing.audit_schema,
    "comparison": auditing.Changes.file_schema,
    "outlook": auditing.Outlook.file_schema,
}


def _planned(name: str, help: str, *names: str) -> Any:
    """An option that fills a field of the plan."""
    return optional(help, *names, default=PLAN[name])


def audit(
    releases: list[Path] = typer.Argument(
        metavar="RELEASE|FOLDER...", help="Release files, or folders of *.release.json."
    ),
    json_path: Given = place("Audit file; several: an array.", "--json"),
    markdown: Given = place("Tables and account."),
    latex: Given = place("booktabs tables."),
    junit: Given = place("JUnit XML for CI."),
    html: Given = place("One self-contained page."),
    figures: Given = optional("Every chart as SVG, PNG and PDF.", metavar="DIR"),
    fail_on: list[FailOn] | None = optional(FAIL_ON_HELP, metavar="VERDICT"),
    benefit: Benefit = _planned("benefit", "What a group receives."),
    cost: str = _planned("cost", "What it pays: a cost in the release, or the sharpest of them."),
    floor: float = _planned("floor", "Smallest cost that counts."),
    floors: str = optional("Grid of Algorithm 1, comma-separated.", default=FLOORS),
    resamples: int = _planned("resamples", "Bootstrap resamples."),
    reference_group: Given = _planned(
        "reference_group", "Group that others are compared with.", "--reference"
    ),
    margin: float | None = _planned("margin", "Difference of costs that counts as equal."),
    rng: int = _planned("rng", "Seed of bootstrap and null draws."),
    family: Files = optional("Judge together with this release; repeatable.", metavar="RELEASE"),
    policy_file: Path | None = optional(
        "What is tolerated: docs/reports.md.", "--policy", metavar="FILE"
    ),
    strict: bool = optional("Shorthand for strict = true in a policy.", "--strict", default=False),
    full: bool = optional(
        "Print everything: every table, the whole account.", "--full", default=False
    ),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Audit released statistics: print what was found, for whom, and how sure it is."""
    plan, files = _plan(locals()), _release_files(releases)
    places = {"json": json_path, "markdown": markdown, "latex": latex, "junit": junit}
    outputs = Outputs(files, **places, html=html, figures=figures)
    wanted = [choice.value for choice in fail_on or []]
    with many_objects():
        audits, read, beside = audit_all(files, plan, allow_large or [], family or [])
        outputs.write(renderers(audits, read, beside, wanted))
    if not outputs.uses_stdout:
        print_audits(audits, full=full)
        outputs.print_places()
    _exit_if_met(audits, wanted)


def verify(
    audit_file: Path = typer.Argument(metavar="AUDIT|REPORT.html", help="Written by pcer audit."),
    releases: Files = typer.Argument(
        None, metavar="[RELEASE]...", help="What it audited; a report carries it."
    ),
    family: Files = optional("Judged together with them; repeatable.", metavar="RELEASE"),
    plan_sha256: Given = optional("Digest that the plan must have.", metavar="DIGEST"),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Recompute an audit from its releases, one for each; exit 1 and name what differs first."""
    is_page = audit_file.suffix in (".html", ".htm")
    if not is_page and not releases:
        raise InputError(f"{audit_file} needs the release that it audited; name it after the file.")
    if plan_sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", plan_sha256):
        what = "--plan-sha256 takes the 64 hexadecimal digits of a plan"
        raise InputError(f"{what}, not {plan_sha256!r}.")
    named, beside = (
        read_releases(_release_files(files or []), allow_large or [])
        for files in (releases, family)
    )
    if difference := _difference(audit_file, named, beside, plan_sha256, is_page=is_page):
        parts.say(f"{audit_file} differs {difference}.")
        raise typer.Exit(parts.MET)
    parts.say(f"{audit_file}: {AGREES[is_page]}")


def schema(
    which: Literal["release", "audit", "comparison", "outlook"] = typer.Argument(
        help="The file format."
    ),
) -> None:
    """Print the JSON Schema of a file format."""
    parts.give({parts.STDOUT: json.dumps(SCHEMAS[which](), indent=2, ensure_ascii=False) + "\n"})


def version() -> None:
    """Print the version."""
    typer.echo(f"pcer {__version__}")


def audit_all(
    files: list[Path], plan: Plan, allow_large: Sequence[Path] = (), family: Sequence[Path] = ()
) -> tuple[list[Audit], list[Release], list[Release]]:
    """Audits, releases, family; all is read first, so that a bad file costs no waiting."""
    paths, total = [*files, *family], len(files)
    releases = read_releases(paths, allow_large)
    tested: list[Tested] = []
    audits: list[Audit] = []
    with parts.Display("releases", lasting=False) as state:
        for path, release in zip(paths, releases, strict=True):
            state.tell(f"testing {path.name}", done=len(tested), total=len(paths))
            with parts.about(path):
                tested.append(run_tests(release, plan))
        for path, audited in zip(files, judge_tested(tested[:total], tested[total:]), strict=True):
            audits.append(audited)
            state.tell(f"auditing {path.name}", done=len(audits), total=total)
    return audits, releases[:total], releases[total:]


def read_releases(files: Sequence[Path], allow_large: Sequence[Path]) -> list[Release]:
    """Releases, each within the limits unless it is allowed by name."""
    large = {path.resolve() for path in allow_large}
    return [
        read_release(path, limits=None if path.resolve() in large else LIMITS) for path in files
    ]


def renderers(
    audits: list[Audit], releases: list[Release], family: list[Release], wanted: Sequence[str] = ()
) -> dict[str, Callable[[], Any]]:
    """What makes the content of every output of an audit, by its option."""
    return {
        "json": lambda: canonical_json(
            audits[0].to_tree() if len(audits) == 1 else [audit.to_tree() for audit in audits]
        ),
        "markdown": lambda: report.to_markdown_page(audits),
        "latex": lambda: report.to_latex_tables(audits),
        "junit": lambda: report.to_junit(audits, wanted),
        "html": lambda: report.to_report(audits, releases, family),
        "figures": lambda: parts.drawing("draw_figures", audits, releases),
    }


def print_audits(audits: Sequence[Audit], *, full: bool = False) -> None:
    """The finding of each, one sharp table, how sure and what to do; or everything."""
    width = parts.columns()
    for audited in map(as_shown, audits):
        parts.show((full_parts if full else short_parts)(audited, width))
    if len(audits) > 1:
        parts.show([overview_part(as_shown([*audits]), width)])
    if not full:
        typer.echo(wrapped(MORE, width))


def _plan(options: Mapping[str, Any]) -> Plan:
    """The plan of the options that are called like its fields."""
    numbers = "numbers with commas between"
    grid = parts.parse_list(options["floors"], float, option="--floors", what=numbers)
    file = options["policy_file"]
    policy = None if file is None else auditing.read_policy(file)
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


def _difference(
    file: Path, named: list[Release], family: list[Release], digest: Given, *, is_page: bool
) -> str | None:
    """Print what anybody can compare with what they were told, then recompute."""
    if is_page:
        plan, *carried = read_payload(read_text(file), file=str(file))
        plans, releases, verified = [plan], [*chain(*carried)], partial(report.verify_report, file)
    else:
        trees = auditing.read_audit(file)
        plans = [parse_plan(tree.get("plan"), file=f"{file}: plan") for tree in trees]
        releases, verified = named + family, partial(report.verify_audits, trees)
    parts.say(f"SHA-256 {hashlib.sha256(read_regular(file)).hexdigest()}  {file}")
    for release in releases:
        parts.say(f"SHA-256 {release.sha256}  {release.title}")
    for plan_digest in dict.fromkeys(plan.sha256 for plan in plans):
        parts.say(f"SHA-256 {plan_digest}  the plan")
    with many_objects(), parts.working("Recomputing"):
        return verified(named, family=family, plan_sha256=digest)


def _exit_if_met(audits: list[Audit], wanted: list[str]) -> None:
    named = [(subject_name(audited), audited) for audited in audits]
    met = [f"{name}: {asked}" for name, a in named for asked in wanted if asked in a.outcomes()]
    notes = ["--fail-on is met: " + "; ".join(met) + "."] if met else []
    notes += [f"policy, {name}: {rule.sentence}" for name, a in named for rule in a.broken_rules]
    for note in notes:
        parts.note(f"pcer: {note}")
    if notes:
        raise typer.Exit(parts.MET)
