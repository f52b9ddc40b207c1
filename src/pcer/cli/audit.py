"""How does an auditor ask? ``pcer audit``, ``verify``, ``schema`` and ``version``.

Called by ``cli.app``; ``demo`` renders with it, too. To add a format: a row of
``FORMATS``, which is an option of ``audit``, too, and what it calls in
``report/formats``.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from pcer import auditing, deciding, report
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.audit import judge_tested
from pcer.auditing.record import Audit, parse_plan, result_json
from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli.options import (
    ALLOW_LARGE,
    MOST_COMMON,
    Files,
    Given,
    Texts,
    optional,
    place,
)
from pcer.cli.outputs import ExitCode, Outputs
from pcer.errors import InputError
from pcer.files import as_shown, many_objects, parse_record, read_regular, read_text
from pcer.measuring.plan import GUARDED, Benefit, Plan, Policy
from pcer.measuring.tested import Tested, run_tests
from pcer.release.file import Release, read_releases, release_files, release_schema
from pcer.report.formats.numbers import by_release
from pcer.report.formats.terminal import terminal_parts
from pcer.report.page import read_payload
from pcer.report.pictures.card import read_source
from pcer.report.tables.background import subject_name
from pcer.report.views import View, setting_line, summary_line, summary_table, view_of

# Options that are fields of the plan.
FLAGS = {
    "benefit": "--benefit",
    "attack": "--attack",
    "reference_group": "--reference",
    "exposure_margin": "--exposure-margin",
    "outcome_margin": "--outcome-margin",
    "policy": "--policy",
}
MORE = "More: --full (every figure and table), --paper, --html report.html."
# By how a file's name ends, what verify does with it, and its answer.
PAGES = (".html", ".htm")
PICTURE = ".svg"
NUMBERS_AGREE = "every number agrees with a fresh computation from the release."
PAGE_AGREES = "every byte agrees with a fresh report from the release in it."
PICTURE_AGREES = "every byte agrees with a fresh picture of the release."
FAIL_ON_HELP = (
    f"Exit with 1 if it holds in any setting; repeatable: {', '.join(GUARDED)}"
)
# Functions that make the schemas.
SCHEMAS = {
    "release": release_schema,
    "audit": auditing.Audit.file_schema,
    "comparison": deciding.Changes.file_schema,
    "outlook": deciding.Outlook.file_schema,
    "recommendation": deciding.Recommendation.file_schema,
    "trend": deciding.Trend.file_schema,
}


# Gives the first difference of a file from a fresh one, by file, releases, family and
# the digest of the plan.
Recompute = Callable[[Path, list[Release], list[Release], Given], str | None]


class Audited(NamedTuple):
    """Audits, their releases, and what is asked of their outputs."""

    audits: list[Audit]
    releases: list[Release]
    family: list[Release]  # those that were judged together with them
    statements: Sequence[str] = ()  # of --fail-on
    view: View = "short"
    lines: Sequence[Sequence[str]] = ()  # of each audit, after its headline
    signed: report.Signed = report.Signed()  # date, auditor and addressee


class Format(NamedTuple):
    """A kind of file that ``audit`` writes, at the place that its option names."""

    option: Any  # its help is what ``place`` says
    render: Callable[[Audited], Any]  # text; of a folder, bytes by file name
    is_common: bool = False  # whether help has it among the first options


# By the name of the option.
FORMATS: dict[str, Format] = {
    "html": Format(
        place("The report: one offline HTML file."),
        lambda asked: report.to_report(asked.audits, asked.releases, asked.family),
        is_common=True,
    ),
    "json": Format(
        place("Audit file; several: an array."),
        lambda asked: _json(asked.audits),
        is_common=True,
    ),
    "markdown": Format(
        place("What is printed, as Markdown."), lambda asked: _markdown(asked)
    ),
    "latex": Format(
        place("LaTeX tables (booktabs)."),
        lambda asked: report.to_latex_tables(
            asked.audits, "paper" if asked.view == "paper" else "full"
        ),
    ),
    "junit": Format(
        place("JUnit XML for CI."),
        lambda asked: report.to_junit(asked.audits, asked.statements),
    ),
    "metrics": Format(
        place("Flat numbers for MLflow, DVC, Prometheus; several: by release."),
        lambda asked: result_json(by_release(asked.audits)),
    ),
    "card": Format(
        place("Sections of a Hugging Face model card."),
        lambda asked: _card(asked.audits),
    ),
    "opinion": Format(
        place("The auditor's opinion, as Markdown for a word processor."),
        lambda asked: report.to_opinion(asked.audits, asked.signed),
    ),
    "picture": Format(
        place("One image, as SVG: headline, six answers, digest."),
        lambda asked: _image(asked.audits, "card"),
    ),
    "badge": Format(
        place("Level and sizes in one line, as SVG."),
        lambda asked: _image(asked.audits, "badge"),
    ),
    "figures": Format(
        optional("Every chart as SVG, PNG and PDF.", metavar="DIR"),
        lambda asked: _pictures(asked.audits, asked.releases),
    ),
}


def renderers(asked: Audited) -> dict[str, Callable[[], Any]]:
    """What makes every output of audits, by the name of its option."""
    return {name: partial(kind.render, asked) for name, kind in FORMATS.items()}


def with_formats(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each format, in place of its ``paths``.

    Help lists the first options apart (``MOST_COMMON``): common formats, then the
    verb's own first, then all other formats.
    """
    signature = inspect.signature(verb, eval_str=True)
    releases, *own = signature.parameters.values()
    common: list[inspect.Parameter] = []
    others: list[inspect.Parameter] = []
    for name, kind in FORMATS.items():
        option = inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=kind.option,
            annotation=Given,
        )
        (common if kind.is_common else others).append(option)
    n_first = MOST_COMMON - len(common)
    options = [*common, *own[:n_first], *others, *own[n_first:-1]]
    vars(verb)["__signature__"] = signature.replace(parameters=[releases, *options])
    return verb


@with_formats
def audit(
    releases: list[Path] = typer.Argument(
        metavar="RELEASE|FOLDER...", help="Release files, or folders of *.release.json."
    ),
    full: bool = optional(
        "Everything: every table, the account.", "--full", default=False
    ),
    fail_on: Texts = optional(FAIL_ON_HELP, metavar="STATEMENT"),
    policy_file: Path | None = optional(
        "Limits that the audit must keep: docs/reports.md.", "--policy", metavar="FILE"
    ),
    settings: Texts = optional(
        "Print this setting's answers, too, such as 0.5; repeatable.",
        "--setting",
        metavar="NAME",
    ),
    benefit: Benefit | None = optional("Outcome that counts as a benefit."),
    attack: Given = optional(
        "One attack in the release; or sharpest: the strongest two."
    ),
    reference_group: Given = optional(
        "Group that others are compared with.", "--reference"
    ),
    exposure_margin: float | None = optional(
        "Points of an attacker's success that make a difference clear."
    ),
    outcome_margin: float | None = optional(
        "Points of 100 that make a difference of outcomes or errors clear."
    ),
    plan_file: Path | None = optional(
        "What is fixed before looking: docs/reports.md.", "--plan", metavar="FILE"
    ),
    family: Files = optional(
        "Judge together with this release; repeatable.", metavar="RELEASE"
    ),
    strict: bool = optional(
        "Shorthand for strict = true in a policy.", "--strict", default=False
    ),
    paper: bool = optional(
        "The paper's view alone, by its gap.", "--paper", default=False
    ),
    date: Given = optional("Date of the opinion: 2026-11-19.", metavar="DATE"),
    auditor: Given = optional("Who gives the opinion.", metavar="NAME"),
    addressee: Given = optional("Whom the opinion is for.", "--for", metavar="NAME"),
    allow_large: Files = ALLOW_LARGE,
    **paths: Given,
) -> None:
    """Audit releases: who is easier to spot, who is worse served."""
    asked = {
        "benefit": benefit,
        "attack": attack,
        "reference_group": reference_group,
        "exposure_margin": exposure_margin,
        "outcome_margin": outcome_margin,
        "policy": None if policy_file is None else auditing.read_policy(policy_file),
    }
    plan = _plan(plan_file, asked, is_strict=strict)
    signed = _signed(paths["opinion"], date, auditor, addressee)
    view = _view(paper=paper, full=full)
    statements = _statements(fail_on or [])
    with many_objects():
        files = release_files(releases)
        read = read_releases(files, allow_large or [])
        beside = read_releases(family or [], allow_large or [])
        outputs = Outputs(files, **paths)
        audited = audit_all([*files, *(family or [])], read, plan, beside)
        lines = _setting_lines(audited.audits, settings or [])
        audited = audited._replace(
            statements=statements, view=view, lines=lines, signed=signed
        )
        outputs.write(renderers(audited))
    _show(outputs, audited)
    _exit_if_met(audited.audits, statements)


def verify(
    audit_file: Path = typer.Argument(
        metavar="AUDIT|REPORT.html|CARD.svg", help="Written by pcer audit."
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
    recompute, agrees = _checks_of(audit_file)
    if recompute is not _report_recomputed and not releases:
        raise InputError(
            f"{audit_file} needs the release that it audited; name it after the file."
        )
    if plan_sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", plan_sha256):
        what = "--plan-sha256 takes the 64 hexadecimal digits of a plan"
        raise InputError(f"{what}, not {plan_sha256!r}.")
    named = read_releases(release_files(releases or []), allow_large or [])
    beside = read_releases(release_files(family or []), allow_large or [])
    difference = recompute(audit_file, named, beside, plan_sha256)
    if difference:
        outputs_module.say(f"{audit_file} differs {difference}.")
        raise typer.Exit(ExitCode.FINDING)
    outputs_module.say(f"{audit_file}: {agrees}")


def _checks_of(file: Path) -> tuple[Recompute, str]:
    """What recomputes a file, by its name, and what is said where all agrees."""
    if file.name.lower().endswith(".release.json"):
        raise InputError(
            f"{file} is a release; name its report or audit: pcer verify report.html."
        )
    ending = file.suffix.lower()
    if ending in PAGES:
        return _report_recomputed, PAGE_AGREES
    if ending == PICTURE:
        return _picture_recomputed, PICTURE_AGREES
    if ending in (".md", ".docx", ".pdf"):
        raise InputError(
            f"{file} is a text for people, which nothing can recompute; verify the "
            "report (*.html) or the audit (--json) of the same release, and write the "
            "text again."
        )
    if ending != ".json":  # a browser would show an unchecked page
        raise InputError(
            f"{file} must be called *.json, *.html for a report, or *.svg for a "
            "picture; rename it."
        )
    return _audits_recomputed, NUMBERS_AGREE


def schema(
    which: Literal[
        "release", "audit", "comparison", "outlook", "recommendation", "trend"
    ] = typer.Argument(help="The file format."),
) -> None:
    """Print the JSON Schema of a file format."""
    text = json.dumps(SCHEMAS[which](), indent=2, ensure_ascii=False) + "\n"
    outputs_module.give({outputs_module.STDOUT: text})


def version() -> None:
    """Print the version."""
    typer.echo(f"pcer {__version__}")


def audit_all(
    files: Sequence[Path],
    releases: list[Release],
    plan: Plan,
    family: Sequence[Release] = (),
) -> Audited:
    """Audit releases, judged together with their family, whose files come last."""
    tested: list[Tested] = []
    audits: list[Audit] = []
    n_audits = len(releases)
    with outputs_module.Display("releases", lasting=False) as state:
        for path, release in zip(files, [*releases, *family], strict=True):
            state.tell(f"testing {path.name}", done=len(tested), total=len(files))
            with options_module.about(path):
                tested.append(run_tests(release, plan))
        judged = judge_tested(tested[:n_audits], tested[n_audits:])
        for path, audited in zip(files[:n_audits], judged, strict=True):
            audits.append(audited)
            state.tell(f"auditing {path.name}", done=len(audits), total=n_audits)
    return Audited(audits, releases, [*family])


def _json(audits: Sequence[Audit]) -> str:
    """One audit as an object, several as an array."""
    trees = [audit.to_tree() for audit in audits]
    return result_json(trees[0] if len(trees) == 1 else trees)


def _markdown(asked: Audited) -> str:
    return report.to_markdown_page(asked.audits, asked.view, asked.lines)


def _card(audits: Sequence[Audit]) -> str:
    from pcer.integrations.card import to_card  # slow to import

    return to_card(*audits)


def _image(audits: Sequence[Audit], kind: str) -> str:
    if len(audits) > 1:
        raise InputError(
            f"a {kind} shows one release, and {len(audits)} are named; name one."
        )
    return report.picture_of(audits[0], kind)


def _pictures(audits: list[Audit], releases: list[Release]) -> dict[str, bytes]:
    from pcer.report.pictures.charts import draw_figures  # slow to import

    return draw_figures(audits, releases)


def print_audits(
    audits: Sequence[Audit], view: View = "short", also: Sequence[Sequence[str]] = ()
) -> None:
    """A view of each audit, with lines ``also``, and a table of several."""
    audits = as_shown([*audits])
    no_lines: list[Sequence[str]] = [()] * len(audits)
    width = outputs_module.columns()
    after = "\n"
    if len(audits) == 1 and view == "short":
        after = ""  # the hint stands right below
    for audited, lines in zip(audits, also or no_lines, strict=True):
        if view == "summary":
            typer.echo(" ".join([summary_line(audited), *lines]))
        else:
            parts = [*terminal_parts(view_of(audited, view, lines), width)]
            rows = sentences.of(audited, audited.told).rows
            outputs_module.print_parts(parts, rows=rows, after=after)
    if len(audits) > 1 and view in ("short", "full"):
        outputs_module.print_parts([*terminal_parts([summary_table(audits)], width)])
    if view == "short":
        outputs_module.note(MORE, err=False, wraps=True)


def _show(outputs: Outputs, audited: Audited) -> None:
    """Print the audits and where files are, unless stdout holds one of them."""
    if not outputs.uses_stdout:
        print_audits(audited.audits, audited.view, audited.lines)
        outputs.print_places()


def _setting_lines(audits: Sequence[Audit], names: Sequence[str]) -> list[list[str]]:
    """For each audit, the answers of the settings that are asked for by name."""
    lines = []
    for audited in audits:
        lines.append([setting_line(audited, name) for name in names])
    return lines


def _view(*, paper: bool, full: bool) -> View:
    """The view that is asked for; without one, --quiet has a line a release."""
    if paper and full:
        raise InputError("--paper and --full exclude each other; choose one.")
    if paper:
        return "paper"
    if full:
        return "full"
    return "summary" if outputs_module.QUIET.get() else "short"


def _plan(file: Path | None, options: Mapping[str, Any], *, is_strict: bool) -> Plan:
    """The plan of a file and of options, which must not say the same twice."""
    plan = Plan() if file is None else auditing.read_plan(file)
    named = {name: value for name, value in options.items() if value is not None}
    for name in named:
        if name in plan.model_fields_set:
            raise InputError(
                f"{file} and {FLAGS[name]} both give {name}; leave one out.", field=name
            )
    checked = parse_record(Plan, named, file="the options")
    changes = {name: getattr(checked, name) for name in named}
    if is_strict:
        policy = changes.get("policy") or plan.policy or Policy()
        changes["policy"] = policy.model_copy(update={"strict": True})
    return plan.model_copy(update=changes)


def _signed(
    opinion: Given, date: Given, auditor: Given, addressee: Given
) -> report.Signed:
    """Date, auditor and addressee, which only an opinion shows."""
    signed = report.signed_by(date, auditor, addressee)
    if opinion is None and any(signed):
        raise InputError(
            "--date, --auditor and --for stand in an opinion; add --opinion FILE."
        )
    return signed


def _statements(fail_on: list[str]) -> list[str]:
    """The statements of ``--fail-on``, each checked as those of a policy are."""
    return parse_record(Policy, {"fail_on": fail_on}, file="the options").fail_on


def _report_recomputed(
    file: Path, named: list[Release], family: list[Release], digest: Given
) -> str | None:
    """The first difference of a report from a fresh one of the releases in it."""
    plan, *carried = read_payload(read_text(file), file=str(file))
    _say_digests(file, [*chain(*carried)], [plan])
    with many_objects(), outputs_module.working("Recomputing"):
        return report.verify_report(file, named, family=family, plan_sha256=digest)


def _picture_recomputed(
    file: Path, named: list[Release], family: list[Release], digest: Given
) -> str | None:
    """The first difference of a card or a badge from a fresh one of this release."""
    source = read_source(read_text(file), file=str(file))
    _say_digests(file, named + family, [source.plan])
    with many_objects(), outputs_module.working("Recomputing"):
        return report.verify_picture(file, named, family=family, plan_sha256=digest)


def _audits_recomputed(
    file: Path, named: list[Release], family: list[Release], digest: Given
) -> str | None:
    """The first difference of a file of audits from fresh ones of these releases."""
    trees = auditing.read_audit(file)
    plans = [parse_plan(tree.get("plan"), file=f"{file}: plan") for tree in trees]
    _say_digests(file, named + family, plans)
    with many_objects(), outputs_module.working("Recomputing"):
        return report.verify_audits(trees, named, family=family, plan_sha256=digest)


def _say_digests(
    file: Path, releases: Sequence[Release], plans: Sequence[Plan]
) -> None:
    """Print what a reader may compare with digests from elsewhere."""
    outputs_module.say(
        f"SHA-256 {hashlib.sha256(read_regular(file)).hexdigest()}  {file}"
    )
    for release in releases:
        outputs_module.say(f"SHA-256 {release.sha256}  {release.title}")
    for digest in dict.fromkeys(plan.sha256 for plan in plans):
        outputs_module.say(f"SHA-256 {digest}  the plan")


def _exit_if_met(audits: Sequence[Audit], statements: Sequence[str]) -> None:
    """Exit with a finding where a statement holds or a rule of the policy is broken."""
    met = []
    broken = []
    for audited in audits:
        name = subject_name(audited)
        holding = audited.statements() if statements else {}
        for asked in statements:
            if asked in holding:
                met.append(f"--fail-on is met: {name}: {asked}.")
        broken += [f"policy, {name}: {rule.sentence}" for rule in audited.broken_rules]
    notes = [*met, *broken]
    for note in notes:
        outputs_module.say(f"pcer: {note}", err=True)
    if notes:
        raise typer.Exit(ExitCode.FINDING)
