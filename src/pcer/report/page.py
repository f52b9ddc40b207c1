"""One self-contained HTML page from audits and their releases, and back.

Same input, same bytes. The page needs no network: script, style, pictures and the
releases are in it, and its content security policy lets nothing else run. Every
sentence is the audit's.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from pcer import wording
from pcer._version import __version__
from pcer.auditing.record import AUDIT_AGAIN, Audit, BudgetResult, parse_plan
from pcer.auditing.sentences import advice, certainty, headline, telling
from pcer.auditing.sentences import cards as cards_module
from pcer.deciding.recommend import Recommendation
from pcer.errors import InputError, shown, spelt
from pcer.files import MAX_VALUES, as_shown, parse_json, require_format
from pcer.measuring.plan import Plan
from pcer.measuring.verdict import BUDGET_VERDICTS
from pcer.release.file import Release
from pcer.release.panel import carried_costs, panels
from pcer.release.reading import parse_release
from pcer.report import views as views_module
from pcer.report.formats.html import to_html
from pcer.report.pictures.axis import (
    NARROW,
    PALETTE,
    WIDE,
    drawn_groups,
    environment,
    look,
)
from pcer.report.pictures.choice import choice_svg
from pcer.report.pictures.exposure import exposure_words, finding_svg
from pcer.report.pictures.floors import floors_svg
from pcer.report.table import Table, isolated, template
from pcer.report.tables import attacks, background, finding
from pcer.report.tables.decisions import choice_table, choice_view

FORMAT: Final = "pcer-report"
VERSION: Final = 4
GENERATOR = f"pcer {__version__}"
MOST_PAPER_ROWS = 12  # of the paper's numbers that stand there unfolded
BADGES = {
    verdict.words: f"badge {verdict.severity}" for verdict in BUDGET_VERDICTS
}  # of cells
SIZES = {
    "wide": WIDE,
    "narrow": NARROW,
}  # of the picture; a page shows the one that fits


def to_report(
    audits: Sequence[Audit], releases: Sequence[Release], family: Sequence[Release] = ()
) -> str:
    """Render the page: the same text for the same audits and releases.

    Args:
        audits: of one plan, in the order of the page.
        releases: what each of them audited.
        family: further releases that were judged together with them.
    """
    if len({audit.plan_sha256 for audit in audits}) != 1:
        raise ValueError(
            "audits must be one or more of a single plan; write a page for each plan."
        )
    plan = audits[0].plan
    payload = {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.model_dump(),
        "releases": [pack(release.to_tree()) for release in releases],
        "family": [pack(release.to_tree()) for release in family],
    }
    audits = as_shown([*audits])
    releases = as_shown([*releases])
    pairs = enumerate(zip(audits, releases, strict=True), start=1)
    title = audits[0].title
    several = len(audits) > 1
    script = template("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rows = tuple(
        (name.replace("_", " "), _plain(v)) for name, v in plan.model_dump().items()
    )
    plan_table = Table("Plan: fixed before looking", ("setting", "value"), rows, 2)
    page = environment().get_template("report.html")
    filled = page.render(
        title=f"Exposure and outcomes: {len(audits)} releases" if several else title,
        matrix=_matrix(audits) if several else {},
        sections=[_section(audit, release, k) for k, (audit, release) in pairs],
        level=2 if several else 1,
        in_page=partial(to_html, marks=BADGES),
        plan=plan_table,
        plan_digest=audits[0].plan_sha256,
        provenance=_provenance_table(audits, releases),
        glossary=glossary(),
        generator=GENERATOR,
        palette=PALETTE,
        css=template("report.css"),
        script=script,
        script_hash=f"'sha256-{digest}'",
        payload=script_json(payload),
    )
    return f"{filled}\n"


def _section(audit: Audit, release: Release, number: int) -> dict[str, Any]:
    """Everything that the page shows of one release: the finding, what is behind it, an appendix.

    The finding stands there once for each setting, and one of them is shown.
    """
    marked: set[str] = set()  # terms are explained where they first stand

    def plain(line: str) -> str:
        return background.isolate_names(line, audit)

    def marking(line: str) -> str:
        return explained(plain(line), marked)

    groups = views_module.table_groups(audit)
    if carried_costs(panels(release)):
        groups["Every attack"].insert(1, attacks.estimates_table(audit, release))
    paper, *groups["As published"] = groups["As published"]
    views = [_view(audit, each) for each in audit.budgets]
    sure = {*views[audit.telling]["cards"][-1].sentences}
    said = {*advice.what_would_change(audit, audit.told)}
    return {
        "id": f"release-{number}",
        "title": plain(background.subject_name(audit)),
        "audit": audit,
        "plain": plain,
        "marking": marking,
        "views": [
            views[audit.budgets.index(each)]
            for each in background.least_private_first(audit)
        ],
        "pictures": {
            size: finding_svg(audit, width=width) for size, width in SIZES.items()
        },
        "floors": floors_svg(audit),
        "numbers": finding.numbers_table(audit),
        "paper": paper,
        "evidence": certainty.paper_words(audit),
        "is_folded": len(paper.rows) > MOST_PAPER_ROWS,
        "trust": [audit.choice, *(line for line in audit.trust if line not in sure)],
        "next": [line for line in audit.next_steps if line not in said],
        "facts": background.facts(audit),
        "tables": groups,
    }


def _view(audit: Audit, budget: BudgetResult) -> dict[str, Any]:
    """The finding in one setting: header, headline, badge, what would change it, three cards."""
    groups = {}
    for name in drawn_groups(audit, budget):
        group = budget.groups[name]
        rate = group.benefit.mean
        groups[name] = {
            "name": isolated(name),
            "rate": wording.NOTHING if rate is None else wording.of_100(rate)[0],
            "share": 100 * (rate or 0.0),
            "exposure": exposure_words(audit.proxy, group),
            "is_clear": group.is_clear,
            **look(audit, name),
        }
    makers = (
        cards_module.exposure_card,
        cards_module.outcomes_card,
        cards_module.how_sure_card,
    )
    return {
        "number": audit.budgets.index(budget),
        "is_first": budget is audit.told,
        "budget": budget,
        "label": wording.short_setting(budget.model, budget.epsilon),
        "title": isolated(telling.setting_title(budget)),
        "subject": [isolated(part) for part in telling.subject_line(audit, budget)],
        "badge": headline.badge(audit, budget),
        "change": " ".join(advice.what_would_change(audit, budget)),
        "cards": [make(audit, budget) for make in makers],
        "unit": audit.proxy.scale.counted.format(label=audit.proxy.label),
        "groups": {
            axis: [
                groups[name]
                for name in telling.in_order(budget, axis)
                if name in groups
            ]
            for axis in ("exposure", "outcomes")
        },
        "n_more": len(budget.groups) - len(groups),
    }


def _matrix(audits: Sequence[Audit]) -> dict[str, Any]:
    """Both answers of every release in every setting, and how many releases have each verdict."""
    verdicts = [audit.verdict for audit in audits]
    counts = [(verdict, verdicts.count(verdict)) for verdict in BUDGET_VERDICTS]
    counted = wording.listed(
        [f"{count} {verdict.words}" for verdict, count in counts if count]
    )
    names: dict[tuple[str, float], str] = {}
    rows = []
    for audit in audits:
        cells: dict[tuple[str, float], dict[str, Any]] = {}
        for budget, label in zip(
            audit.budgets, background.setting_labels(audit), strict=True
        ):
            key = (budget.model or "", -budget.budget)
            is_bare = budget.model is None
            bare = "without privacy" if budget.epsilon is None else f"ε = {label}"
            names[key] = bare if is_bare else label
            cards = (cards_module.exposure_card, cards_module.outcomes_card)
            answers = [
                background.isolate_names(make(audit, budget).answer, audit)
                for make in cards
            ]
            is_strongest = budget is audit.told
            cells[key] = {
                "budget": budget,
                "answers": answers,
                "is_strongest": is_strongest,
            }
        rows.append(cells)
    settings = [(key, names[key]) for key in sorted(names)]
    return {
        "counted": f"Of {len(audits)} releases: {counted}.",
        "settings": settings,
        "rows": rows,
    }


def _provenance_table(audits: Sequence[Audit], releases: Sequence[Release]) -> Table:
    """Digests, and where each release says it comes from."""
    rows = []
    for audit, release in zip(audits, releases, strict=True):
        origin = release.provenance
        commit = _plain(origin.source_commit) + " (with changes)" * bool(
            origin.source_dirty
        )
        name = background.subject_name(audit)
        mechanism = release.training.mechanism
        found = (_plain(origin.pcer_version), commit, _plain(origin.data_digest))
        rows.append((name, audit.release_sha256, mechanism, *found))
    columns = (
        "release",
        "SHA-256",
        "mechanism",
        "pcer",
        "source commit",
        "data digest",
    )
    return Table("Releases", columns, tuple(rows), 6)


def _plain(value: Any) -> str:
    if value is None:
        return wording.NOTHING
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, dict):
        entries = [
            f"{k.replace('_', ' ')} {_plain(v)}"
            for k, v in value.items()
            if v or v == 0
        ]
        return "; ".join(entries)
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def glossary() -> dict[str, dict[str, str]]:
    """By the id of its entry every term: its name, the words it stands under, its meaning."""
    terms: list[dict[str, str]] = tomllib.loads(template("glossary.toml"))["term"]
    return {
        re.sub(r"[^a-z]+", "-", f"term-{t['name'].lower()}").strip("-"): t
        for t in terms
    }


def explained(text: str, seen: set[str]) -> str:
    """Text as escaped HTML, each term marked where it first stands and added to ``seen``."""
    # The name of the group that matched is the id of its term.
    ids = {id.replace("-", "_"): id for id in glossary()}
    terms = (
        rf"(?P<{group}>\b{glossary()[id]['words']}\b)" for group, id in ids.items()
    )
    parts = []
    end = 0
    for match in re.finditer("|".join(terms), text):
        id = ids[str(match.lastgroup)]
        if id in seen:
            continue
        seen.add(id)
        mark = (
            f'<dfn tabindex="0" aria-describedby="{id}">{html.escape(match[0])}</dfn>'
        )
        parts += [html.escape(text[end : match.start()]), mark]
        end = match.end()
    return "".join([*parts, html.escape(text[end:])])


class Payload(NamedTuple):
    """What a page carries, and is made from."""

    plan: Plan
    releases: list[Release]
    family: list[Release]


def read_payload(text: str, *, file: str) -> Payload:
    """The plan and the releases that a page carries."""
    start, end = '<script type="application/json" id="pcer-report">', "</script>"
    if text.count(start) != 1:
        raise InputError(
            f"{file} is not a report of pcer: it carries no release to check."
        )
    place = f"{file}: pcer-report"
    data = parse_json(text.partition(start)[2].partition(end)[0], file=place)
    require_format(data, file=place, name=FORMAT, version=VERSION, if_older=AUDIT_AGAIN)
    if unknown := sorted(set(data) - {"format", "version", *Payload._fields}):
        raise InputError(
            f"{place} holds {unknown[0]!r}, which {GENERATOR} does not write; verify the page with "
            "the version that wrote it, or write it again."
        )
    plan = parse_plan(data.get("plan"), file=f"{file}: plan")
    try:
        held = {key: unpack(data.get(key)) for key in ("releases", "family")}
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InputError(
            f"{file}: a release in it is damaged; write the page again."
        ) from None
    if not held["releases"] or not all(
        isinstance(trees, list) for trees in held.values()
    ):
        raise InputError(f"{place} must hold lists of releases; write it again.")
    releases, family = (
        [
            parse_release(tree, file=f"{file}: {key}[{k}]")
            for k, tree in enumerate(trees)
        ]
        for key, trees in held.items()
    )
    return Payload(plan, releases, family)


def script_json(tree: Any) -> str:
    """JSON that is safe inside a script element: no character of it can end the element."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, spelt(character))
    return shown(text)


# Names of our own, and how they begin; a name of the tree that begins so gets it once
# more.
FORMS, ROWS, OURS = "pcer:forms", "pcer:rows", "pcer:"


def pack(tree: Any) -> Any:
    """Write the form of objects in a list once, then rows of their leaves, as plain JSON.

    A release says the same names for every model; packed it takes a third of the room.

    >>> pack([{"a": 1}, {"a": 2}])
    {'pcer:forms': [{'a': 0}], 'pcer:rows': [[0, 1], [0, 2]]}
    """
    if isinstance(tree, dict):
        return {
            OURS + key if key.startswith(OURS) else key: pack(v)
            for key, v in tree.items()
        }
    if not isinstance(tree, list):
        return tree
    if len(tree) < 2 or not all(isinstance(item, dict) for item in tree):
        return [pack(item) for item in tree]
    forms: dict[str, int] = {}
    rows = []
    for item in tree:
        leaves: list[Any] = []
        form = json.dumps(_form(item, leaves))
        rows.append([forms.setdefault(form, len(forms)), *leaves])
    return {FORMS: [json.loads(form) for form in forms], ROWS: rows}


def _form(tree: Any, leaves: list[Any]) -> Any:
    """The form of a tree, 0 for every leaf; the leaves go to the list, and lists are leaves."""
    if isinstance(tree, dict) and tree:
        return {key: _form(value, leaves) for key, value in tree.items()}
    leaves.append(tree)
    return 0


def unpack(tree: Any) -> Any:
    """The tree that was packed; ValueError or LookupError where a row does not fit its form."""
    if isinstance(tree, list):
        return [unpack(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) != {FORMS, ROWS}:
        names = {
            key: key.removeprefix(OURS) if key.startswith(OURS * 2) else key
            for key in tree
        }
        return {names[key]: unpack(value) for key, value in tree.items()}
    sizes = [
        1 + str(form).count(":") for form in tree[FORMS]
    ]  # at least the values of each
    if sum(sizes[row[0]] for row in tree[ROWS]) > MAX_VALUES:
        raise ValueError("unpacked it would hold more values than are read")
    found = []
    for number, *leaves in tree[ROWS]:
        left = leaves[::-1]
        found.append(_filled(tree[FORMS][number], left))
        if left:
            raise ValueError("a row has more leaves than its form")
    return found


def _filled(form: Any, left: list[Any]) -> Any:
    """A form with the leaves that are left, the last first; IndexError where they are too few."""
    if isinstance(form, dict):
        return {key: _filled(value, left) for key, value in form.items()}
    return left.pop()


def to_choice_page(found: Recommendation) -> str:
    """The recommendation as one offline HTML page."""
    shown = as_shown(found)
    page = environment().get_template("choice.html")
    first, _, *rest = choice_view(found)
    parts = {
        "picture": choice_svg(shown),
        "table": to_html(choice_table(shown)),
        "rest": rest,
    }
    return (
        page.render(first=first, palette=PALETTE, css=template("report.css"), **parts)
        + "\n"
    )
