"""One self-contained HTML page from audits and their releases.

Same input, same bytes. The page needs no network: scripts, styles, charts and the releases are
in it, and its content security policy lets nothing else run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pcer._version import __version__
from pcer.auditing import (
    BUDGET_VERDICTS,
    Audit,
    BudgetResult,
    Plan,
    Verdict,
    listed,
    parse_plan,
    signed,
)
from pcer.errors import InputError, shown, spelt
from pcer.files import as_shown, parse_json, require_format
from pcer.release import Release, parse_release
from pcer.report.glossary import GLOSSARY
from pcer.report.marks import PALETTE, config
from pcer.report.packing import pack, unpack
from pcer.report.page import Section, plan_table, provenance_table, section
from pcer.report.rows import audit_floors, budget_labels, shown_pairs, slider_floors
from pcer.report.story import story_tree, with_isolated_names
from pcer.report.table import Table, to_html
from pcer.report.tables import headline

if TYPE_CHECKING:
    import jinja2

FORMAT: Final = "pcer-report"
VERSION: Final = 3
GENERATOR = f"pcer {__version__}"
PAYLOAD = {"format", "version", "plan", "releases", "family"}
"""What a page carries, by name."""
LIMITS = (
    "The gap is a blunt proxy: attacks stronger than it can find more. A bound of attack advantage "
    "by the gap is claimed in the literature and does not hold in general.",
    "LiRA and RMIA are about an attacker who knows everybody that may have been trained on. One "
    "who knows only people like them has a smaller lead over guessing: with 70 % in training not "
    "less than about half of it.",
    "Seeds of one dataset differ by how records were split and how training went; they are not a "
    "new population. Budgets share splits, so agreement across budgets is not replication.",
    "Where positive predictions harm, a higher cost lowers the ratio, so the disparity alone "
    "cannot show double disadvantage; it is tested on its own. Lower exposure does not "
    "compensate fewer positives.",
    "Exact training accuracies, and preprocessing fitted on training data, are themselves a "
    "release outside the training epsilon.",
    "Positive rates reflect base rates as well as the model. Nothing here says why a difference "
    "exists, and no ratio makes a model fair.",
)
METHOD = (
    "Two questions, two errors. Is anything memorised about these records? An exact test: if "
    "nothing was, which of a group's records were trained on is chance, given their label. Do the "
    "groups differ? That is about people like these: split error, the luck of who is in the data, "
    "and the error of what the groups receive are all counted.",
    "PCER is benefit divided by max(cost, floor), per group; the disparity is the first group's "
    "minus the second's. Where every cost is below the floor the ratio only repeats the positive "
    "rates. Ratios are compared without a floor, by cross products.",
    "Every p-value is adjusted by Holm's method over all settings and groups, or settings and "
    "pairs, of the release; releases of the same records are judged together.",
)
QUESTIONS = (
    ("Resolved, p of a cost", "these records", "Is anything memorised?"),
    (
        "Intervals, upper limits, differences, verdicts",
        "people like these",
        "How exposed is a group, and do groups differ?",
    ),
    ("As published: means over seeds", "these records, these seeds", "What the paper reports"),
)
"""Which numbers answer which question."""


def to_report(
    audits: Sequence[Audit], releases: Sequence[Release], family: Sequence[Release] = ()
) -> str:
    """Render the page: the same text for the same audits and releases.

    Args:
        audits: of one plan, in the order of the page.
        releases: what each of them audited.
        family: further releases that were judged together with them.
    """
    if len({one.plan_sha256 for one in audits}) != 1:
        raise ValueError("audits must be one or more of a single plan; write a page for each plan.")
    plan, payload = audits[0].plan, _payload(audits[0].plan, releases, family)
    audits, releases = as_shown([*audits]), as_shown([*releases])
    pairs = zip(audits, releases, strict=True)
    others = family if len(audits) == 1 else None
    sections = [section(one, release, k, others) for k, (one, release) in enumerate(pairs, start=1)]
    floors = slider_floors(plan)
    bundle, script = _bundle(), _resource("report.js")
    page = _environment().get_template("report.html")
    return page.render(
        title=_title(audits),
        overall=_overall(audits),
        matrix=_matrix(audits),
        sections=sections,
        level=2 if len(sections) > 1 else 1,
        floor=f"{plan.floor:g}",
        floors=floors,
        floor_index=floors.index(plan.floor),
        audited=", ".join(f"{floor:g}" for floor in audit_floors(plan)),
        plan=plan_table(audits[0]),
        plan_digest=audits[0].plan_sha256,
        provenance=provenance_table(audits, releases),
        limits=LIMITS,
        method=METHOD,
        questions=QUESTIONS,
        glossary=GLOSSARY,
        generator=GENERATOR,
        palette=PALETTE,
        css=_safe(_resource("report.css")),
        script=_safe(script),
        bundle=_safe(bundle),
        script_hashes=[_safe(_csp_hash(text)) for text in (bundle, script)],
        settings=_safe(script_json(_settings(plan, floors))),
        payload=_safe(script_json(payload)),
    )


class Payload(NamedTuple):
    """What a page carries, and is made from."""

    plan: Plan
    releases: list[Release]
    family: list[Release]


def read_payload(text: str, *, file: str) -> Payload:
    """The plan and the releases that a page carries."""
    start, end = '<script type="application/json" id="pcer-report">', "</script>"
    if text.count(start) != 1:
        raise InputError(f"{file} is not a report of pcer: it carries no release to check.")
    data = parse_json(text.partition(start)[2].partition(end)[0], file=f"{file}: pcer-report")
    require_format(data, file=f"{file}: pcer-report", name=FORMAT, version=VERSION)
    if unknown := sorted(set(data) - PAYLOAD):
        raise InputError(
            f"{file}: pcer-report holds {unknown[0]!r}, which {GENERATOR} does not write; verify "
            "the page with the version that wrote it, or write it again."
        )
    plan = parse_plan(data.get("plan"), file=f"{file}: plan")
    found, family = (_unpacked(data.get(key), file) for key in ("releases", "family"))
    if not isinstance(found, list) or not found or not isinstance(family, list):
        raise InputError(f"{file}: pcer-report must hold lists of releases; write it again.")
    return Payload(
        plan, _releases(found, f"{file}: releases"), _releases(family, f"{file}: family")
    )


def _unpacked(found: Any, file: str) -> Any:
    try:
        return unpack(found)
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InputError(f"{file}: a release in it is damaged; write the page again.") from None


def _releases(found: list[Any], place: str) -> list[Release]:
    return [parse_release(one, file=f"{place}[{index}]") for index, one in enumerate(found)]


def script_json(tree: Any) -> str:
    r"""JSON that is safe inside a script element: no character of it can end the element.

    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, spelt(character))
    return shown(text)


def _payload(plan: Plan, releases: Sequence[Release], family: Sequence[Release]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.model_dump(),
        "releases": [pack(release.to_tree()) for release in releases],
        "family": [pack(release.to_tree()) for release in family],
    }


def _settings(plan: Plan, floors: list[float]) -> dict[str, Any]:
    return {
        "look": config(),
        "floors": floors,
        "start": floors.index(plan.floor),
        "audited": audit_floors(plan),
    }


def _drawing(part: Section) -> str:
    """A section's rows and chart specifications, for the page's script."""
    drawn = [*part.appendix.charts, *part.appendix.floor_charts]
    tree = {
        "datasets": part.rows,
        "pairs": shown_pairs(part.audit),
        "charts": {chart.name: chart.spec for chart in drawn},
        "rows": {chart.name: chart.rows for chart in drawn},
        "story": story_tree(part.screens),
    }
    return _safe(script_json(tree))


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pcer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "table": _table,
        "isolate": with_isolated_names,
        "signed": signed,
        "drawing": _drawing,
        "html": _safe,
    }
    return environment


def _table(table: Table, id: str) -> str:
    marks = {verdict.words: f"badge {verdict.value}" for verdict in BUDGET_VERDICTS}
    return _safe(to_html(table, id=id, marks=marks))


def _safe(text: str) -> str:
    """Mark text as HTML that needs no escaping: our own, or escaped already."""
    import markupsafe

    return markupsafe.Markup(text)


def _resource(name: str) -> str:
    return resources.files("pcer.report").joinpath("templates", name).read_text(encoding="utf-8")


def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, as the package keeps it.

    Making it anew takes seconds, and another vl-convert would give another page.
    """
    packed = resources.files("pcer.report").joinpath("templates", "vega.js.gz").read_bytes()
    return gzip.decompress(packed).decode()


def _csp_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _title(audits: Sequence[Audit]) -> str:
    if len(audits) > 1:
        return f"Privacy cost and benefit: {len(audits)} releases"
    return headline(audits[0])


def _overall(audits: Sequence[Audit]) -> str:
    """How many releases have each verdict, strongest first."""
    verdicts: list[Verdict] = [one.verdict for one in audits]
    counts = [(verdict, verdicts.count(verdict)) for verdict in BUDGET_VERDICTS]
    told = listed([f"{count} {verdict.words}" for verdict, count in counts if count])
    return f"Of {len(audits)} releases: {told}."


def _matrix(audits: Sequence[Audit]) -> dict[str, Any]:
    """Releases by budgets, each with its verdict."""
    named = {setting: label for one in audits for setting, label in _labelled(one)}
    settings = sorted(named)
    rows = []
    for number, one in enumerate(audits, start=1):
        found: dict[_Key, Verdict] = {_key(budget): budget.verdict for budget in one.budgets}
        rows.append(
            {
                "id": f"release-{number}",
                "dataset": one.subject.dataset,
                "attribute": one.subject.attribute,
                "verdict": one.verdict,
                "worse_off": ", ".join(one.worse_off),
                "cells": [found.get(setting) for setting in settings],
            }
        )
    return {"budgets": [named[setting] for setting in settings], "rows": rows}


_Key = tuple[str, float]
"""A setting as it is sorted: its model and its budget."""


def _key(budget: BudgetResult) -> _Key:
    return budget.model or "", budget.budget


def _labelled(audit: Audit) -> list[tuple[_Key, str]]:
    labels = zip(audit.budgets, budget_labels(audit), strict=True)
    return [
        (_key(one), f"ε = {label}" if one.model is None and one.epsilon is not None else label)
        for one, label in labels
    ]
