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
from functools import cache, partial
from typing import Any, Final, NamedTuple

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.record import AUDIT_AGAIN, Audit, SettingResult, parse_plan
from pcer.deciding.recommend import Recommendation
from pcer.errors import InputError, escaped, printable
from pcer.files import MAX_BYTES, as_shown, parse_json, require_format
from pcer.measuring.plan import SETTING_VERDICTS, Plan
from pcer.release.file import Release, parse_release
from pcer.release.panel import carried_attacks, panels
from pcer.report import views
from pcer.report.formats.html import to_html
from pcer.report.pictures.decisions import choice_svg
from pcer.report.pictures.finding import exposure_words, finding_svg, floors_svg
from pcer.report.pictures.looks import (
    NARROW,
    PALETTE,
    WIDE,
    Drawn,
    drawn_groups,
    environment,
    look,
)
from pcer.report.table import Table, isolated, template
from pcer.report.tables import background, finding
from pcer.report.tables.decisions import choice_table, choice_view

FORMAT: Final = "pcer-report"
VERSION: Final = 5
GENERATOR = f"pcer {__version__}"
SCRIPT: Final = '<script type="application/json" id="pcer-report">'
MOST_PAPER_ROWS = 6  # of the paper's numbers that stand there unfolded
# Classes of cells by their text.
BADGES = {verdict.words: f"badge {verdict.severity}" for verdict in SETTING_VERDICTS}
# Widths of the picture; a page shows the one that fits.
SIZES = {"wide": WIDE, "narrow": NARROW}


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
    title = audits[0].title
    has_several = len(audits) > 1
    if has_several:
        title = f"Exposure and outcomes: {len(audits)} releases"
    sections = []
    for number, pair in enumerate(zip(audits, releases, strict=True), start=1):
        sections.append(_section(number, *pair))

    script = template("report.js")
    script_digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment().get_template("report.html")
    filled = page.render(
        title=title,
        matrix=_matrix(audits) if has_several else None,
        sections=sections,
        level=2 if has_several else 1,
        in_page=partial(to_html, marks=BADGES),
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


def _section(number: int, audit: Audit, release: Release) -> Drawn:
    """What the page shows of one release: the finding, its reasons, an appendix."""
    plain = partial(background.isolate_names, audit=audit)
    explained_terms: set[str] = set()  # each is explained only where it first stands

    def marking(line: str) -> str:
        return explained(plain(line), explained_terms)

    said = {setting.name: sentences.of(audit, setting) for setting in audit.settings}
    # What the main setting's finding says already does not stand below it again.
    main = said[audit.told.name]
    trust = [line for line in audit.trust if line not in main.how_sure.sentences]
    next_steps = [line for line in audit.next_steps if line not in main.advice]

    tables = views.table_groups(audit)
    if carried_attacks(panels(release)):
        estimates = finding.estimates_table(audit, release)
        tables["Every attack"].insert(1, estimates)
    # The paper's numbers stand in the open, its other tables in the appendix.
    paper, *tables["As published"] = tables["As published"]
    setting_views = []
    for setting in background.least_private_first(audit):
        setting_views.append(_setting_view(audit, setting, said[setting.name]))
    return {
        "id": f"release-{number}",
        "title": plain(background.subject_name(audit)),
        "audit": audit,
        "plain": plain,
        "marking": marking,
        "views": setting_views,
        "pictures": {
            size: finding_svg(audit, width=width) for size, width in SIZES.items()
        },
        "floors": floors_svg(audit),
        "numbers": finding.numbers_table(audit),
        "paper": paper,
        "evidence": main.evidence,
        "is_folded": len(paper.rows) > MOST_PAPER_ROWS,
        "trust": [audit.choice, *trust],
        "next": next_steps,
        "facts": background.facts(audit),
        "tables": tables,
    }


def _setting_view(
    audit: Audit, setting: SettingResult, said: sentences.Sentences
) -> Drawn:
    """The finding in one setting; groups are in the order of each card."""
    groups = {}
    for name in drawn_groups(audit, setting):
        groups[name] = _group_view(audit, setting, name)
    orders = {"exposure": said.exposure_order, "outcomes": said.outcomes_order}
    in_order = {}
    for axis, names in orders.items():
        in_order[axis] = [groups[name] for name in names if name in groups]
    return {
        "number": audit.settings.index(setting),
        "is_first": setting is audit.told,
        "setting": setting,
        "label": setting.name.short,
        "title": isolated(said.title),
        "subject": [isolated(part) for part in said.subject],
        "badge": said.badge,
        "change": " ".join(said.advice),
        "cards": (said.exposure, said.outcomes, said.how_sure),
        "unit": audit.attack_kind.scale.counted.format(label=audit.attack_kind.label),
        "groups": in_order,
        "n_more": len(setting.groups) - len(groups),
    }


def _group_view(audit: Audit, setting: SettingResult, name: str) -> Drawn:
    """A group's outcome rate, also as a bar's length in percent, and its exposure."""
    group = setting.groups[name]
    rate = group.benefit.mean
    return {
        "name": isolated(name),
        "rate": wording.NOTHING if rate is None else wording.of_100(rate)[0],
        "share": 0.0 if rate is None else 100 * rate,
        "exposure": exposure_words(audit.attack_kind, group),
        "is_clear": group.is_clear,
        **look(audit, name),
    }


def _matrix(audits: Sequence[Audit]) -> Drawn:
    names: dict[tuple[str, float], str] = {}  # by model and epsilon, in reading order
    rows = []
    for audit in audits:
        cells = {}
        labels = background.setting_labels(audit)
        for setting, label in zip(audit.settings, labels, strict=True):
            key = (setting.model or "", -setting.budget)
            names[key] = label
            if setting.model is None:  # a model's name says what the label is about
                is_private = setting.epsilon is not None
                names[key] = f"ε = {label}" if is_private else "without privacy"
            said = sentences.of(audit, setting)
            answers = [said.exposure.answer, said.outcomes.answer]
            cells[key] = {
                "setting": setting,
                "answers": [background.isolate_names(one, audit) for one in answers],
                "is_strongest": setting is audit.told,
            }
        rows.append(cells)

    verdicts = [audit.verdict for audit in audits]
    counts = []
    for verdict in SETTING_VERDICTS:
        if verdict in verdicts:
            counts.append(f"{verdicts.count(verdict)} {verdict.words}")
    return {
        "counted": f"Of {len(audits)} releases: {wording.listed(counts)}.",
        "settings": sorted(names.items()),
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
