"""How does one HTML page show audits, and carry all that they were made from?

``to_report`` writes the page for ``pcer audit --html`` and ``Audit.save_html``, and
``read_payload`` reads back what it carries for ``pcer verify``. ``to_choice_page``
writes the smaller page of a recommendation.

Same input, same bytes. The page needs no network: script, style, pictures and the
releases are in it, and its content security policy lets nothing else run. Every
sentence is the audit's; ``templates/report.html`` says what stands where.

To add a part to the page: a field of ``Section`` (of one release) or ``SettingView``
(of one of its settings), and its place in the template.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NamedTuple

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.record import AUDIT_AGAIN, Audit, BudgetResult, parse_plan
from pcer.auditing.sentences.cards import Card
from pcer.deciding.recommend import Recommendation
from pcer.errors import InputError, escaped, printable
from pcer.files import as_shown, parse_json, require_format
from pcer.measuring.plan import BUDGET_VERDICTS, Plan
from pcer.release.file import Release, parse_release
from pcer.release.panel import carried_costs, panels
from pcer.report import views
from pcer.report.formats.html import to_html
from pcer.report.packed import pack, unpack
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
# Classes of cells by their text.
BADGES = {verdict.words: f"badge {verdict.severity}" for verdict in BUDGET_VERDICTS}
# Widths of the picture; a page shows the one that fits.
SIZES = {"wide": WIDE, "narrow": NARROW}

SettingKey = tuple[str, float]  # model and epsilon, which sort as settings are read


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """A group in a setting's cards: its outcome rate and exposure, and how it is drawn.

    ``share`` is the length of the rate's bar in percent.
    """

    name: str
    rate: str
    share: float
    exposure: str
    is_clear: bool
    colour: str
    shape: str


@dataclass(frozen=True, kw_only=True)
class SettingView:
    """The finding in one setting: headline, badge, what would change it, three cards.

    ``groups`` are listed by axis, each in that card's order; ``n_more`` are not drawn.
    """

    number: int
    is_first: bool
    budget: BudgetResult
    label: str
    title: str
    subject: list[str]
    badge: str
    change: str
    cards: Sequence[Card]
    unit: str
    groups: dict[str, list[GroupView]]
    n_more: int


@dataclass(frozen=True, kw_only=True)
class Section:
    """All that the page shows of one release: the finding, its reasons, an appendix.

    The finding stands there once for each setting, and one of them is shown. ``plain``
    makes names safe in a sentence; ``marking`` also explains each term, as HTML, where
    the section first uses it.
    """

    id: str
    title: str
    audit: Audit
    plain: Callable[[str], str]
    marking: Callable[[str], str]
    views: list[SettingView]
    pictures: dict[str, str]
    floors: str
    numbers: Table
    paper: Table
    evidence: str
    is_folded: bool
    trust: list[str]
    next: list[str]
    facts: list[str]
    tables: dict[str, list[Table]]


class Cell(NamedTuple):
    """A release in a setting: both answers, and whether its headline is about it."""

    budget: BudgetResult
    answers: list[str]
    is_strongest: bool


@dataclass(frozen=True)
class Matrix:
    """All releases by setting; ``settings`` are keys of ``rows`` and their names."""

    counted: str
    settings: list[tuple[SettingKey, str]]
    rows: list[dict[SettingKey, Cell]]


class Payload(NamedTuple):
    """What a page carries, and is made from."""

    plan: Plan
    releases: list[Release]
    family: list[Release]


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
    payload = _payload(plan, releases, family)

    audits = as_shown([*audits])
    releases = as_shown([*releases])
    has_several = len(audits) > 1
    script = template("report.js")
    page = environment().get_template("report.html")
    filled = page.render(
        title=_title(audits),
        matrix=_matrix(audits) if has_several else None,
        sections=_sections(audits, releases),
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
        script_hash=f"'sha256-{_base64_digest(script)}'",
        payload=script_json(payload),
    )
    return f"{filled}\n"


def _payload(
    plan: Plan, releases: Sequence[Release], family: Sequence[Release]
) -> dict[str, Any]:
    """What the page carries, in the order of the file format."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.model_dump(),
        "releases": _packed(releases),
        "family": _packed(family),
    }


def _packed(releases: Sequence[Release]) -> list[Any]:
    return [pack(release.to_tree()) for release in releases]


def _base64_digest(script: str) -> str:
    """SHA-256 as a content security policy writes it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _title(audits: Sequence[Audit]) -> str:
    if len(audits) > 1:
        return f"Exposure and outcomes: {len(audits)} releases"
    return audits[0].title


def _sections(audits: Sequence[Audit], releases: Sequence[Release]) -> list[Section]:
    sections = []
    pairs = zip(audits, releases, strict=True)
    for number, (audit, release) in enumerate(pairs, start=1):
        sections.append(_section(number, audit, release))
    return sections


def _section(number: int, audit: Audit, release: Release) -> Section:
    plain = partial(background.isolate_names, audit=audit)
    explained_terms: set[str] = set()  # each only where it first stands

    def marking(line: str) -> str:
        return explained(plain(line), explained_terms)

    tables = _tables(audit, release)
    # The paper's numbers stand in the open, its other tables in the appendix.
    paper, *tables["As published"] = tables["As published"]
    # What the main setting's finding says already does not stand below it again.
    main = sentences.of(audit, audit.told)
    return Section(
        id=f"release-{number}",
        title=plain(background.subject_name(audit)),
        audit=audit,
        plain=plain,
        marking=marking,
        views=_setting_views(audit),
        pictures={
            size: finding_svg(audit, width=width) for size, width in SIZES.items()
        },
        floors=floors_svg(audit),
        numbers=finding.numbers_table(audit),
        paper=paper,
        evidence=main.evidence,
        is_folded=len(paper.rows) > MOST_PAPER_ROWS,
        trust=[audit.choice, *_without(audit.trust, main.how_sure.sentences)],
        next=_without(audit.next_steps, main.advice),
        facts=background.facts(audit),
        tables=tables,
    )


def _tables(audit: Audit, release: Release) -> dict[str, list[Table]]:
    """All tables by heading; of a release with attacks what each of them finds."""
    tables = views.table_groups(audit)
    if carried_costs(panels(release)):
        tables["Every attack"].insert(1, attacks.estimates_table(audit, release))
    return tables


def _setting_views(audit: Audit) -> list[SettingView]:
    """Every setting's finding, in the order in which people read settings."""
    settings = background.least_private_first(audit)
    return [_setting_view(audit, setting) for setting in settings]


def _without(lines: Sequence[str], said: Sequence[str]) -> list[str]:
    """Lines that do not stand elsewhere already."""
    return [line for line in lines if line not in said]


def _setting_view(audit: Audit, setting: BudgetResult) -> SettingView:
    groups = {}
    for name in drawn_groups(audit, setting):
        groups[name] = _group_view(audit, setting, name)
    said = sentences.of(audit, setting)
    return SettingView(
        number=audit.budgets.index(setting),
        is_first=setting is audit.told,
        budget=setting,
        label=background.short_name_of(setting),
        title=isolated(said.title),
        subject=[isolated(part) for part in said.subject],
        badge=said.badge,
        change=" ".join(said.advice),
        cards=(said.exposure, said.outcomes, said.how_sure),
        unit=audit.proxy.scale.counted.format(label=audit.proxy.label),
        groups={
            "exposure": _in_order(groups, said.exposure_order),
            "outcomes": _in_order(groups, said.outcomes_order),
        },
        n_more=len(setting.groups) - len(groups),
    )


def _in_order(groups: dict[str, GroupView], names: Sequence[str]) -> list[GroupView]:
    return [groups[name] for name in names if name in groups]


def _group_view(audit: Audit, setting: BudgetResult, name: str) -> GroupView:
    group = setting.groups[name]
    rate = group.benefit.mean
    return GroupView(
        name=isolated(name),
        rate=wording.NOTHING if rate is None else wording.of_100(rate)[0],
        share=0.0 if rate is None else 100 * rate,
        exposure=exposure_words(audit.proxy, group),
        is_clear=group.is_clear,
        **look(audit, name),
    )


def _matrix(audits: Sequence[Audit]) -> Matrix:
    """Both answers of every release in every setting, and a count of the verdicts."""
    names: dict[SettingKey, str] = {}
    rows = []
    for audit in audits:
        cells = {}
        labels = background.setting_labels(audit)
        for setting, label in zip(audit.budgets, labels, strict=True):
            key = (setting.model or "", -setting.budget)
            names[key] = _head_of(setting, label)
            cells[key] = _cell(audit, setting)
        rows.append(cells)
    settings = [(key, names[key]) for key in sorted(names)]
    return Matrix(_counted_verdicts(audits), settings, rows)


def _head_of(setting: BudgetResult, label: str) -> str:
    """A setting at the head of its column; a model's name says what it is about."""
    if setting.model is not None:
        return label
    return "without privacy" if setting.epsilon is None else f"ε = {label}"


def _cell(audit: Audit, setting: BudgetResult) -> Cell:
    said = sentences.of(audit, setting)
    answers = [
        background.isolate_names(card.answer, audit)
        for card in (said.exposure, said.outcomes)
    ]
    return Cell(setting, answers, is_strongest=setting is audit.told)


def _counted_verdicts(audits: Sequence[Audit]) -> str:
    """How many releases have each verdict, in the order of verdicts."""
    verdicts = [audit.verdict for audit in audits]
    counts = []
    for verdict in BUDGET_VERDICTS:
        if verdict in verdicts:
            counts.append(f"{verdicts.count(verdict)} {verdict.words}")
    return f"Of {len(audits)} releases: {wording.listed(counts)}."


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
    """Text as escaped HTML, each term marked where it first stands.

    The ids of terms that are marked go into ``seen``, and those in it are not marked.
    """
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
        before = html.escape(text[end : match.start()])
        term = html.escape(match[0])
        mark = f'<dfn tabindex="0" aria-describedby="{id}">{term}</dfn>'
        parts += [before, mark]
        end = match.end()
    return "".join([*parts, html.escape(text[end:])])


def read_payload(text: str, *, file: str) -> Payload:
    """The plan and the releases that a page carries."""
    place = f"{file}: pcer-report"
    data = _payload_object(text, file=file, place=place)
    plan = parse_plan(data.get("plan"), file=f"{file}: plan")
    try:
        releases = unpack(data.get("releases"))
        family = unpack(data.get("family"))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise InputError(
            f"{file}: a release in it is damaged; write the page again."
        ) from None
    are_lists = isinstance(releases, list) and isinstance(family, list)
    if not are_lists or not releases:
        raise InputError(f"{place} must hold lists of releases; write it again.")
    return Payload(
        plan,
        _parse_releases(releases, f"{file}: releases"),
        _parse_releases(family, f"{file}: family"),
    )


def _payload_object(text: str, *, file: str, place: str) -> dict[str, Any]:
    """The JSON in a page's script element, of our format and version."""
    start = '<script type="application/json" id="pcer-report">'
    if text.count(start) != 1:
        raise InputError(
            f"{file} is not a report of pcer: it carries no release to check."
        )
    content, _, _ = text.partition(start)[2].partition("</script>")
    data = parse_json(content, file=place)
    require_format(data, file=place, name=FORMAT, version=VERSION, if_older=AUDIT_AGAIN)
    unknown = sorted(set(data) - {"format", "version", *Payload._fields})
    if unknown:
        raise InputError(
            f"{place} holds {unknown[0]!r}, which {GENERATOR} does not write; verify "
            "the page with the version that wrote it, or write it again."
        )
    payload: dict[str, Any] = data
    return payload


def _parse_releases(trees: Sequence[Any], place: str) -> list[Release]:
    releases = []
    for index, tree in enumerate(trees):
        releases.append(parse_release(tree, file=f"{place}[{index}]"))
    return releases


def script_json(tree: Any) -> str:
    """JSON that is safe in a script element: no character of it can end the element."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, escaped(character))
    return printable(text)


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
