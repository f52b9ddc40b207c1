"""The auditor's verbs: ``pcer audit``, ``verify``, ``schema`` and ``version``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal

import typer

from pcer import auditing, deciding, report
from pcer._version import __version__
from pcer.auditing.audit import judge_tested, run_tests
from pcer.auditing.record import Audit, parse_plan, result_json
from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli import progress
from pcer.cli.options import ALLOW_LARGE, Files, Given, Texts, optional, place
from pcer.cli.outputs import Outputs
from pcer.errors import InputError
from pcer.files import as_shown, many_objects, parse_record, read_regular, read_text
from pcer.measuring.evidence import Tested
from pcer.measuring.plan import Benefit, Plan, Policy
from pcer.measuring.verdict import GUARDED
from pcer.release.file import Release, release_schema
from pcer.release.reading import LIMITS, read_release, release_files
from pcer.report.formats.metrics import by_release
from pcer.report.page import read_payload
from pcer.report.tables.background import subject_name
from pcer.report.views import View, setting_line, summary_line, summary_table, view_of

# Defaults of the options; making a plan here would slow the start of every verb.
PLAN = {name: field.default for name, field in Plan.model_fields.items()}
FLOORS = ",".join(f"{floor:g}" for floor in PLAN["floors"])
MORE = "More: --full (every table), --paper (the paper's view), --html report.html."
# Answers of verify, by whether the file is a report.
AGREES = {
    False: "every number agrees with a fresh computation from the release.",
    True: "every byte agrees with a fresh report from the release in it.",
}
FAIL_ON_HELP = (
    f"Exit with 1 if it holds in any setting; repeatable: {', '.join(GUARDED)}"
)
# Functions that make the schemas.
SCHEMAS = {
    "release": release_schema,
    "audit": auditing.audit_schema,
    "comparison": deciding.Changes.file_schema,
    "outlook": deciding.Outlook.file_schema,
    "recommendation": deciding.Recommendation.file_schema,
    "trend": deciding.Trend.file_schema,
}


def _planned(name: str, help: str, *names: str) -> Any:
    """An option that fills a field of the plan."""
    return optional(help, *names, default=PLAN[name])


def audit(
    releases: list[Path] = typer.Argument(
        metavar="RELEASE|FOLDER...", help="Release files, or folders of *.release.json."
    ),
    html: Given = place("The report: one offline HTML file."),
    json_path: Given = place("Audit file; several: an array.", "--json"),
    full: bool = optional(
        "Everything: every table, the account.", "--full", default=False
    ),
    fail_on: Texts = optional(FAIL_ON_HELP, metavar="STATEMENT"),
    policy_file: Path | None = optional(
        "Limits that the audit must keep: docs/reports.md.", "--policy", metavar="FILE"
    ),
    markdown: Given = place("What is printed, as Markdown."),
    latex: Given = place("LaTeX tables (booktabs)."),
    junit: Given = place("JUnit XML for CI."),
    metrics: Given = place(
        "Flat numbers for MLflow, DVC, Prometheus; several: by release."
    ),
    card: Given = place("Sections of a Hugging Face model card."),
    opinion: Given = place("The auditor's opinion, as Markdown for a word processor."),
    figures: Given = optional("Every chart as SVG, PNG and PDF.", metavar="DIR"),
    settings: Texts = optional(
        "Print this setting's answers, too, such as 0.5; repeatable.",
        "--setting",
        metavar="NAME",
    ),
    benefit: Benefit = _planned("benefit", "Outcome that counts as a benefit."),
    cost: str = _planned(
        "cost", "One attack in the release; or sharpest: the strongest two."
    ),
    floor: float = _planned("floor", "Smallest exposure that counts in a ratio."),
    floors: str = optional("Grid of Algorithm 1, comma-separated.", default=FLOORS),
    resamples: int = _planned("resamples", "Bootstrap resamples."),
    reference_group: Given = _planned(
        "reference_group", "Group that others are compared with.", "--reference"
    ),
    margin: float | None = _planned(
        "margin", "Difference of exposures that counts as equal."
    ),
    rng: int = _planned("rng", "Seed of bootstrap and null draws."),
    family: Files = optional(
        "Judge together with this release; repeatable.", metavar="RELEASE"
    ),
    strict: bool = optional(
        "Shorthand for strict = true in a policy.", "--strict", default=False
    ),
    summary: bool = optional("Print one line, for chats.", "--summary", default=False),
    paper: bool = optional(
        "The paper's view alone, by its gap.", "--paper", default=False
    ),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Audit a release: who is easier to recognise, who is worse served, and how sure."""
    plan = _plan(locals())
    view = _view(locals())
    files = release_files(releases)
    places = {"json": json_path, "markdown": markdown, "latex": latex, "junit": junit}
    places |= {"html": html, "opinion": opinion, "metrics": metrics, "card": card}
    outputs = Outputs(files, **places, figures=figures)
    wanted = parse_record(
        Policy, {"fail_on": fail_on or []}, file="the options"
    ).fail_on
    with many_objects():
        audits, read, beside = audit_all(files, plan, allow_large or [], family or [])
        also = [
            [setting_line(each, name) for name in settings or []] for each in audits
        ]
        outputs.write(renderers(audits, read, beside, wanted, view, also))
    if not outputs.uses_stdout:
        print_audits(audits, view, also)
        outputs.print_places()
    _exit_if_met(audits, wanted)


def verify(
    audit_file: Path = typer.Argument(
        metavar="AUDIT|REPORT.html", help="Written by pcer audit."
    ),
    releases: Files = typer.Argument(
        None, metavar="[RELEASE]...", help="What it audited; a report carries it."
    ),
    family: Files = optional(
        "Judged together with them; repeatable.", metavar="RELEASE"
    ),
    plan_sha256: Given = optional("Digest that the plan must have.", metavar="DIGEST"),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Recompute an audit and report the first difference (exit 1)."""
    is_page = _is_page(audit_file)
    if not is_page and not releases:
        raise InputError(
            f"{audit_file} needs the release that it audited; name it after the file."
        )
    if plan_sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", plan_sha256):
        what = "--plan-sha256 takes the 64 hexadecimal digits of a plan"
        raise InputError(f"{what}, not {plan_sha256!r}.")
    named, beside = (
        read_releases(release_files(files or []), allow_large or [])
        for files in (releases, family)
    )
    if difference := _difference(
        audit_file, named, beside, plan_sha256, is_page=is_page
    ):
        progress.say(f"{audit_file} differs {difference}.")
        raise typer.Exit(outputs_module.MET)
    progress.say(f"{audit_file}: {AGREES[is_page]}")


def _is_page(file: Path) -> bool:
    """Whether a file is a report by its name; otherwise it must be an audit."""
    is_page = (ending := file.suffix.lower()) in (".html", ".htm")
    if not is_page and ending != ".json":  # a browser would show an unchecked page
        raise InputError(
            f"{file} must be called *.json, or *.html for a report; rename it."
        )
    if file.name.lower().endswith(".release.json"):
        raise InputError(
            f"{file} is a release; name its report or audit: pcer verify report.html."
        )
    return is_page


def schema(
    which: Literal[
        "release", "audit", "comparison", "outlook", "recommendation", "trend"
    ] = typer.Argument(help="The file format."),
) -> None:
    """Print the JSON Schema of a file format."""
    outputs_module.give(
        {
            outputs_module.STDOUT: json.dumps(
                SCHEMAS[which](), indent=2, ensure_ascii=False
            )
            + "\n"
        }
    )


def version() -> None:
    """Print the version."""
    typer.echo(f"pcer {__version__}")


def audit_all(
    files: list[Path],
    plan: Plan,
    allow_large: Sequence[Path] = (),
    family: Sequence[Path] = (),
) -> tuple[list[Audit], list[Release], list[Release]]:
    """Audits, releases, family; all files are read first, so that a bad one fails early."""
    paths = [*files, *family]
    total = len(files)
    releases = read_releases(paths, allow_large)
    tested: list[Tested] = []
    audits: list[Audit] = []
    with progress.Display("releases", lasting=False) as state:
        for path, release in zip(paths, releases, strict=True):
            state.tell(f"testing {path.name}", done=len(tested), total=len(paths))
            with options_module.about(path):
                tested.append(run_tests(release, plan))
        for path, audited in zip(
            files, judge_tested(tested[:total], tested[total:]), strict=True
        ):
            audits.append(audited)
            state.tell(f"auditing {path.name}", done=len(audits), total=total)
    return audits, releases[:total], releases[total:]


def read_releases(files: Sequence[Path], allow_large: Sequence[Path]) -> list[Release]:
    """Releases, each within the limits unless it is allowed by name."""
    large = {path.resolve() for path in allow_large}
    return [
        read_release(path, limits=None if path.resolve() in large else LIMITS)
        for path in files
    ]


def renderers(
    audits: list[Audit],
    releases: list[Release],
    family: list[Release],
    wanted: Sequence[str] = (),
    view: View = "short",
    also: Sequence[Sequence[str]] = (),
) -> dict[str, Callable[[], Any]]:
    """What makes the content of every output of an audit, by its option."""
    return {
        "json": lambda: result_json(
            audits[0].to_tree()
            if len(audits) == 1
            else [audit.to_tree() for audit in audits]
        ),
        "markdown": lambda: report.to_markdown_page(
            audits, "brief" if view == "short" else view, also
        ),
        "latex": lambda: report.to_latex_tables(
            audits, "paper" if view == "paper" else "full"
        ),
        "junit": lambda: report.to_junit(audits, wanted),
        "html": lambda: report.to_report(audits, releases, family),
        "metrics": lambda: result_json(by_release(audits)),
        "card": lambda: import_module("pcer.integrations.card").to_card(*audits),
        "opinion": lambda: report.to_opinion(audits),
        "figures": lambda: outputs_module.drawing("draw_figures", audits, releases),
    }


def print_audits(
    audits: Sequence[Audit], view: View = "short", also: Sequence[Sequence[str]] = ()
) -> None:
    """A view of each audit, with lines ``also``; a table of several; or a summary of each."""
    audits = as_shown([*audits])
    for audited, more in zip(audits, also or repeat(()), strict=False):
        if view == "summary":
            typer.echo(" ".join([summary_line(audited), *more]))
        else:
            progress.show(view_of(audited, view, more))
    if len(audits) > 1 and view in ("short", "full"):
        progress.show([summary_table(audits)])
    if view == "short":
        progress.note(MORE, err=False, wraps=True)


def _view(options: Mapping[str, Any]) -> View:
    """The view that is asked for."""
    views: tuple[View, ...] = ("summary", "paper", "full")
    view, *more = [view for view in views if options[view]] or ["short"]
    if more:
        raise InputError(
            "--summary, --paper and --full exclude each other; choose one."
        )
    return view


def _plan(options: Mapping[str, Any]) -> Plan:
    """The plan of the options that are called like its fields."""
    numbers = "numbers with commas between"
    grid = options_module.parse_list(
        options["floors"], float, option="--floors", what=numbers
    )
    file = options["policy_file"]
    policy = None if file is None else auditing.read_policy(file)
    if options["strict"]:
        policy = (policy or Policy()).model_copy(update={"strict": True})
    fields = {name: options[name] for name in Plan.model_fields if name in options}
    plan = parse_plan({**fields, "floors": grid}, file="the options")
    return plan.model_copy(update={"policy": policy})


def _difference(
    file: Path,
    named: list[Release],
    family: list[Release],
    digest: Given,
    *,
    is_page: bool,
) -> str | None:
    """Print digests for comparison, then recompute."""
    if is_page:
        plan, *carried = read_payload(read_text(file), file=str(file))
        plans = [plan]
        releases = [*chain(*carried)]
        verified = partial(report.verify_report, file)
    else:
        trees = auditing.read_audit(file)
        plans = [parse_plan(tree.get("plan"), file=f"{file}: plan") for tree in trees]
        releases = named + family
        verified = partial(report.verify_audits, trees)
    progress.say(f"SHA-256 {hashlib.sha256(read_regular(file)).hexdigest()}  {file}")
    for release in releases:
        progress.say(f"SHA-256 {release.sha256}  {release.title}")
    for plan_digest in dict.fromkeys(plan.sha256 for plan in plans):
        progress.say(f"SHA-256 {plan_digest}  the plan")
    with many_objects(), progress.working("Recomputing"):
        return verified(named, family=family, plan_sha256=digest)


def _exit_if_met(audits: list[Audit], wanted: list[str]) -> None:
    named = [(subject_name(audited), audited) for audited in audits]
    met = [
        f"{name}: {asked}"
        for name, a in named
        for asked in wanted
        if asked in a.statements()
    ]
    notes = ["--fail-on is met: " + "; ".join(met) + "."] if met else []
    notes += [
        f"policy, {name}: {rule.sentence}"
        for name, a in named
        for rule in a.broken_rules
    ]
    for note in notes:
        progress.note(f"pcer: {note}")
    if notes:
        raise typer.Exit(outputs_module.MET)
