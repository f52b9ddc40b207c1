"""How does one HTML page show audits, and carry all that they were made from?

``to_report`` writes it for ``pcer audit --html`` and ``Audit.save_html``; ``pcer
verify`` reads with ``read_payload`` what it carries. Same input, same bytes; it needs
no network, and its policy lets nothing but its own script run. To add a part: a value
in ``_section`` (of a release) or ``_setting_view`` (of one of its settings), and its
place in ``templates/report.html``. ``to_choice_page`` is a recommendation's.
"""

from __future__ import annotations

import base64
import bz2
import hashlib
import html
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, NamedTuple

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.record import AUDIT_AGAIN, Audit, SettingResult, parse_plan
from pcer.auditing.sentences.telling import answers_of
from pcer.deciding.recommend import Recommendation
from pcer.errors import InputError, escaped, printable
from pcer.files import MAX_BYTES, as_shown, parse_json, require_format
from pcer.measuring.plan import Plan
from pcer.release.file import Release, parse_release
from pcer.release.panel import carried_attacks, panels
from pcer.report import views
from pcer.report.formats.html import to_html
from pcer.report.pictures.answers import drawing_svg, row_drawing
from pcer.report.pictures.decisions import choice_svg
from pcer.report.pictures.floors import floors_svg
from pcer.report.pictures.looks import (
    PALETTE,
    Drawn,
    drawn_groups,
    environment,
    look,
)
from pcer.report.table import Table, isolated, template
from pcer.report.tables import background, finding
from pcer.report.tables.decisions import choice_table, choice_view
from pcer.report.tables.settings import MOST_SETTINGS, settings_table

FORMAT: Final = "pcer-report"
VERSION: Final = 5
GENERATOR = f"pcer {__version__}"
SCRIPT: Final = '<script type="application/json" id="pcer-report">'
# Figures that stand in the open; all others stand in detail.
N_BESIDE_POINTS = 2  # both attacks: the picture shows one
N_BESIDE_BARS = 1  # they show the row's others
N_BESIDE_TABLE = 1  # the paper's numbers, below
BOTH_ROW = 3  # of the six; a "yes" needs no more than by what
MOST_PAPER_ROWS = 12  # of the paper's numbers that stand there unfolded


# The page


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
    carried = [packed(release.to_tree()) for release in (*releases, *family)]
    payload = {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.model_dump(),
        "releases": carried[: len(releases)],
        "family": carried[len(releases) :],
    }
    audits = as_shown([*audits])
    releases = as_shown([*releases])
    sections = []
    for number, pair in enumerate(zip(audits, releases, strict=True), start=1):
        sections.append(_section(number, *pair))

    script = template("report.js")
    script_digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment().get_template("report.html")
    filled = page.render(
        title=_title(audits),
        description=_description(audits),
        sections=sections,
        level=2 if len(audits) > 1 else 1,
        in_page=to_html,
        plan=_plan_table(plan),
        plan_digest=audits[0].plan_sha256,
        provenance=_provenance_table(audits, releases),
        glossary=glossary(),
        generator=GENERATOR,
        palette=PALETTE,
        css=template("report.css"),
        script=script,
        script_hash=f"'sha256-{script_digest}'",
        payload=script_json(payload),
    )
    return f"{filled}\n"


def _title(audits: Sequence[Audit]) -> str:
    """What tabs and previews of links show: the headline, of several how many."""
    if len(audits) == 1:
        return audits[0].headline
    return f"Exposure and outcomes: {len(audits)} releases"


def _description(audits: Sequence[Audit]) -> str:
    """What previews of links show below the title."""
    if len(audits) > 1:
        return " ".join(f"{audit.title}: {audit.headline}" for audit in audits)
    rows = sentences.of(audits[0], audits[0].told).rows
    answers = " ".join(f"{row.question} {row.answer}." for row in rows)
    return f"{background.subject_name(audits[0])}. {answers}"


def _section(number: int, audit: Audit, release: Release) -> Drawn:
    """What the page shows of one release: its first screen, and all else in detail."""
    plain = partial(background.isolate_names, audit=audit)
    explained_terms: set[str] = set()  # each is explained only where it first stands

    def marking(line: str) -> str:
        return explained(plain(line), explained_terms)

    setting_views = []
    for setting in background.least_private_first(audit):
        setting_views.append(_setting_view(audit, setting))
    tables = views.table_groups(audit)
    if carried_attacks(panels(release)):
        estimates = finding.estimates_table(audit, release)
        tables["Every attack"].insert(1, estimates)
    # The paper's numbers stand in the open, its other tables in detail.
    paper = None
    symbols = []
    if tables[views.PUBLISHED]:
        paper, *tables[views.PUBLISHED] = tables[views.PUBLISHED]
        symbols = [paper.note]
        paper = replace(paper, note="")
    told = sentences.of(audit, audit.told)
    return {
        "id": f"release-{number}",
        "title": plain(background.subject_name(audit)),
        "audit": audit,
        "plain": plain,
        "marking": marking,
        "views": setting_views,
        "told": told,
        "marks": [
            {"name": isolated(name), **look(audit, name)}
            for name in drawn_groups(audit, audit.told)
        ],
        "settings": settings_table(audit, most_rows=MOST_SETTINGS, is_brief=True),
        "closing": [_led(line) for line in views.closing_lines(audit, told)],
        "paper": paper,
        "is_folded": paper is not None and len(paper.rows) > MOST_PAPER_ROWS,
        "lists": {
            "Symbols of the paper's numbers": symbols,
            "In plain words": audit.account,
            "What the finding rests on": [*audit.trust, audit.choice],
            "What more would show": audit.next_steps[1:],
            "What was audited": background.facts(audit),
        },
        "floors": "" if paper is None else floors_svg(audit),
        "numbers": finding.numbers_table(audit),
        "tables": tables,
    }


def _led(line: str) -> tuple[str, str]:
    """What leads a closing line, in bold, and the rest; ("", line) where nothing does.

    >>> _led("Next: keep it."), _led("3 people are left out.")
    (('Next:', ' keep it.'), ('', '3 people are left out.'))
    """
    for name in ("next", "you"):
        lead = wording.say(name, "lead", step="", words="").strip()
        if line.startswith(lead):
            return lead, line.removeprefix(lead)
    return "", line


def _setting_view(audit: Audit, setting: SettingResult) -> Drawn:
    """Header, headline and the six rows of one setting, each with its picture."""
    said = sentences.of(audit, setting)
    rows = []
    for place, row in enumerate(said.rows):
        drawing = row_drawing(row, audit)
        picture = "" if drawing is None else drawing_svg(drawing, is_alone=False)
        most = len(row.figures) if row.n_open is None else row.n_open
        if drawing is not None and row.n_open is None:
            most = N_BESIDE_BARS if row.points is None else N_BESIDE_POINTS
        elif place == views.PAPER_ROW:
            most = N_BESIDE_TABLE
        elif place == BOTH_ROW and answers_of(setting).both.answer == "yes":
            most = 1
        told = {
            "first": " ".join(row.figures[:most]),
            "further": " ".join(row.figures[most:]),
        }
        rows.append({"row": row, "picture": picture, **told})
    return {
        "number": audit.settings.index(setting),
        "is_first": setting is audit.told,
        "name": setting.name,
        "title": isolated(said.title),
        "header": [isolated(part) for part in said.header],
        "headline": said.headline,
        "rows": rows,
    }


def _plan_table(plan: Plan) -> Table:
    rows = []
    for name, value in plan.model_dump().items():
        rows.append((name.replace("_", " "), _as_text(value)))
    heads = ("setting", "value")
    return Table("Plan: fixed before looking", heads, tuple(rows), len(heads))


def _provenance_table(audits: Sequence[Audit], releases: Sequence[Release]) -> Table:
    """Digests, and where each release says it comes from."""
    rows = []
    for audit, release in zip(audits, releases, strict=True):
        origin = release.provenance
        commit = _as_text(origin.source_commit)
        if origin.source_dirty:
            commit = f"{commit} (with changes)"
        row = (
            background.subject_name(audit),
            audit.release_sha256,
            release.training.mechanism,
            _as_text(origin.pcer_version),
            commit,
            _as_text(origin.data_digest),
        )
        rows.append(row)
    names = ("release", "SHA-256", "mechanism")
    heads = (*names, "pcer", "source commit", "data digest")
    return Table("Releases", heads, tuple(rows), len(heads))


def _as_text(value: Any) -> str:
    """A value of a plan or a release in a cell, without what an object leaves open."""
    if value is None:
        return wording.NOTHING
    if isinstance(value, list):
        return ", ".join(_as_text(item) for item in value)
    if isinstance(value, dict):
        parts = []
        for key, part in value.items():
            if part or part == 0:
                parts.append(f"{key.replace('_', ' ')} {_as_text(part)}")
        return "; ".join(parts)
    return f"{value:g}" if isinstance(value, float) else str(value)


# Its glossary


@cache
def glossary() -> dict[str, dict[str, str]]:
    """By the id of its entry every term: its name, words it stands under, meaning."""
    terms: list[dict[str, str]] = tomllib.loads(template("glossary.toml"))["term"]
    by_id = {}
    for term in terms:
        name = f"term-{term['name'].lower()}"
        by_id[re.sub(r"[^a-z]+", "-", name).strip("-")] = term
    return by_id


def explained(text: str, seen: set[str]) -> str:
    """Text as escaped HTML, with terms marked whose ids are not ``seen`` so far."""
    # A pattern's group cannot have the hyphens of an id in its name.
    id_of_group = {id.replace("-", "_"): id for id in glossary()}
    patterns = [
        rf"(?P<{group}>\b{glossary()[id]['words']}\b)"
        for group, id in id_of_group.items()
    ]
    parts = []
    end = 0
    for match in re.finditer("|".join(patterns), text):
        id = id_of_group[str(match.lastgroup)]
        if id in seen:
            continue
        seen.add(id)
        parts.append(html.escape(text[end : match.start()]))
        term = html.escape(match[0])
        parts.append(f'<dfn tabindex="0" aria-describedby="{id}">{term}</dfn>')
        end = match.end()
    return "".join([*parts, html.escape(text[end:])])


# What it carries


class Payload(NamedTuple):
    """What a page carries, and is made from."""

    plan: Plan
    releases: list[Release]
    family: list[Release]


def packed(tree: Any) -> str:
    """A JSON tree as text; bz2 has the same bytes on every machine, zlib has not."""
    return base64.b64encode(bz2.compress(json.dumps(tree).encode())).decode()


def read_payload(text: str, *, file: str) -> Payload:
    """The plan and the releases that a page carries."""
    if text.count(SCRIPT) != 1:
        raise InputError(
            f"{file} is not a report of pcer: it carries no release to check."
        )
    content, _, _ = text.partition(SCRIPT)[2].partition("</script>")
    place = f"{file}: {FORMAT}"
    data = parse_json(content, file=place)
    require_format(data, file=place, name=FORMAT, version=VERSION, if_older=AUDIT_AGAIN)
    unknown = sorted(set(data) - {"format", "version", *Payload._fields})
    if unknown:
        raise InputError(
            f"{place} holds {unknown[0]!r}, which {GENERATOR} does not write; verify "
            "the page with the version that wrote it, or write it again."
        )
    plan = parse_plan(data.get("plan"), file=f"{file}: plan")
    releases = data.get("releases")
    family = data.get("family")
    are_lists = isinstance(releases, list) and isinstance(family, list)
    if not are_lists or not releases:
        raise InputError(f"{place} must hold lists of releases; write it again.")
    unpacked = _unpacked([*releases, *family], file=file)
    n_releases = len(releases)
    return Payload(plan, unpacked[:n_releases], unpacked[n_releases:])


def _unpacked(texts: Sequence[Any], *, file: str) -> list[Release]:
    """Releases that were packed; together they are as large as one file may be."""
    room = MAX_BYTES
    releases = []
    for index, text in enumerate(texts):
        place = f"{file}: release {index + 1}"
        stream = bz2.BZ2Decompressor()
        try:
            unpacked = stream.decompress(base64.b64decode(text, validate=True), room)
            content = unpacked.decode("ascii")
        except (OSError, ValueError, TypeError):
            raise InputError(f"{place} is damaged; write the page again.") from None
        if not stream.eof:
            raise InputError(
                f"{place} is cut off, or together they have more than the "
                f"{MAX_BYTES:,} bytes that are read; write the page again."
            )
        room -= len(unpacked)
        releases.append(parse_release(parse_json(content, file=place), file=place))
    return releases


def script_json(tree: Any) -> str:
    """JSON that is safe in a script element: no character of it can end the element."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, escaped(character))
    return printable(text)


# The page of a recommendation


def to_choice_page(choice: Recommendation) -> str:
    """The recommendation as one offline HTML page."""
    printable = as_shown(choice)
    # The table stands beside its picture, not among the sentences.
    first, _, *rest = choice_view(choice)
    page = environment().get_template("choice.html")
    filled = page.render(
        first=first,
        picture=choice_svg(printable),
        table=to_html(choice_table(printable)),
        rest=rest,
        palette=PALETTE,
        css=template("report.css"),
    )
    return f"{filled}\n"
