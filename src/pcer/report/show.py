"""How do results show themselves in Python, by their type?

``pcer.display`` calls this file: small HTML for notebooks (escaped, in its colours),
lines of text, pictures, the page. To let a new kind of result show itself: a row of
``DISPLAYS``.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pcer import wording
from pcer.auditing.record import Audit
from pcer.auditing.sentences.rows import Row
from pcer.deciding.compare import Changes
from pcer.deciding.planner import Outlook
from pcer.deciding.recommend import Recommendation
from pcer.deciding.trend import Trend
from pcer.display import Shown
from pcer.errors import InputError, clipped
from pcer.files import as_shown, write_files
from pcer.metrics import FloatArray
from pcer.paper.norms import Norm, norms
from pcer.release.attack_kinds import ATTACK_KINDS, GAP, attack_kind
from pcer.release.disclosure import WARNING
from pcer.release.file import Release
from pcer.release.panel import Panel, carried_attacks, panels
from pcer.report.formats.html import to_html
from pcer.report.formats.latex import to_latex_tables
from pcer.report.formats.terminal import terminal_text
from pcer.report.page import to_report
from pcer.report.pictures.answers import pictures_svg
from pcer.report.pictures.card import picture_of
from pcer.report.pictures.charts import Picture, chart_picture
from pcer.report.pictures.decisions import choice_svg, outlook_svg, versions_svg
from pcer.report.pictures.looks import PALETTE, environment
from pcer.report.table import Lines, Part, Six, Table, isolated
from pcer.report.tables import disclosed
from pcer.report.tables.background import isolate_names
from pcer.report.tables.decisions import (
    change_view,
    choice_view,
    outlook_view,
    trend_view,
)
from pcer.report.tables.finding import MOST_ROWS
from pcer.report.tables.norms import norms_table
from pcer.report.views import view_of

MOST_TEXT = 4_000  # characters of a sentence; names of others may be long, and many

View = list[Part]


class Display(NamedTuple):
    """What a type of result shows, and a picture, which stands after the first part."""

    view: Callable[[Any], View]
    picture: Callable[[Any], str] | None = None


def to_notebook(shown: Shown) -> str:
    """Small HTML: what a terminal shows, and a picture where there is one."""
    display = _display_of(shown)
    first, *rest = display.view(shown)
    pictures = [] if display.picture is None else [display.picture(shown)]
    isolate = isolated
    if isinstance(shown, Audit):
        isolate = partial(isolate_names, audit=shown)
    return _box([first, *pictures, *rest], isolate)


def to_plain(shown: Shown) -> str:
    """What a notebook shows, as lines of text."""
    return terminal_text(_display_of(shown).view(shown))


def _display_of(shown: Shown) -> Display:
    kinds = [kind for kind in type(shown).__mro__ if kind in DISPLAYS]
    return DISPLAYS[kinds[0]]


def _box(parts: Iterable[Part | str], isolate: Callable[[str], str] = isolated) -> str:
    """Sentences, tables and pictures (as text) below each other, names isolated."""
    written = []
    for part in parts:
        if isinstance(part, Lines):
            if part.title:
                title = _safe_html(part.title, isolate)
                written.append(_paragraph(f"<strong>{title}</strong>"))
            for sentence in part.sentences:
                written.append(_paragraph(_safe_html(sentence, isolate)))
        elif isinstance(part, Six):
            written += [_row(row, isolate) for row in part.rows]
        elif isinstance(part, Table):
            written.append(to_html(part))
        else:
            written.append(part)
    inside = "\n".join(written)
    return (
        f'<div class="pcer" style="max-width:44em;line-height:1.4">\n{inside}\n</div>'
    )


def _row(row: Row, isolate: Callable[[str], str]) -> str:
    """A question, its answer in bold, and its figures."""
    question = _safe_html(row.question, isolate)
    answer = _safe_html(row.answer, isolate)
    figures = _safe_html(" ".join(row.figures), isolate)
    return _paragraph(f"{question} <strong>{answer}.</strong> {figures}")


def _safe_html(text: str, isolate: Callable[[str], str]) -> str:
    return html.escape(isolate(clipped(text, MOST_TEXT)))


def _paragraph(inside: str) -> str:
    return f'<p style="margin:.3em 0">{inside}</p>'


def trend_page(trend: Trend) -> str:
    """One offline HTML file: what a notebook shows of a trend."""
    page = environment().get_template("trend.html")
    body = to_notebook(trend)
    filled = page.render(trend=as_shown(trend), palette=PALETTE, body=body)
    return f"{filled}\n"


class PaperView:
    """The paper's view of an audit, which displays and prints itself."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    def __repr__(self) -> str:
        return f"<PaperView: {self.audit.title}>"

    def __str__(self) -> str:
        return terminal_text(view_of(as_shown(self.audit), "paper"))

    def _repr_html_(self) -> str:
        audit = as_shown(self.audit)
        return _box(view_of(audit, "paper"), partial(isolate_names, audit=audit))

    def to_latex(self) -> str:
        """Its tables as LaTeX."""
        return to_latex_tables([self.audit], "paper")


class NormsView:
    """Which setting each norm prefers: a list of ``Norm`` that displays itself."""

    def __init__(self, audit: Audit) -> None:
        _sources(audit)
        self.audit = audit
        self.norms = norms(audit)

    def __iter__(self) -> Iterator[Norm]:
        return iter(self.norms)

    def __repr__(self) -> str:
        return f"<NormsView: {self.audit.title}>"

    def __str__(self) -> str:
        return terminal_text([self._table])

    def _repr_html_(self) -> str:
        return _box([self._table], partial(isolate_names, audit=as_shown(self.audit)))

    @property
    def _table(self) -> Table:
        return norms_table(as_shown(self.audit), self.norms)


def to_chart(audit: Audit | Outlook, name: str | None) -> Picture:
    """An audit's card, one of its charts by name, or an outlook's curve."""
    if isinstance(audit, Outlook):
        return Picture(audit.title, outlook_svg(audit), "outlook")
    if name is None:
        return Picture(audit.title, picture_of(audit, "card"), "card")
    return chart_picture(audit, _sources(audit)[0], name)


def save_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page of one audit, with everything that it was judged together with."""
    release, family = _sources(audit)
    write_files({path: to_report([audit], [release], family)})


def _sources(audit: Audit) -> tuple[Release, list[Release]]:
    """The release that an audit is of, and those that were judged together with it."""
    if not audit.sources:
        raise InputError(
            "this audit does not hold its release, which charts and pages are made "
            "from; make it with pcer.audit(release), or add it: "
            "audit.with_sources(release)."
        )
    release, *family = audit.sources
    if release.sha256 != audit.release_sha256:
        raise InputError(
            "this audit is of another release than the one that it was given."
        )
    return release, family


def release_view(release: Release) -> View:
    """What is in a release, without a finding."""
    settings = panels(release)
    budgets = {wording.budget_name(run.epsilon): run.budget for run in release.runs}
    names = ", ".join(sorted(budgets, key=budgets.__getitem__))
    splits = wording.number_range(sorted({panel.n_splits for panel in settings}))
    kind = release.training.split_kind or "not said to be random"
    attacks = carried_attacks(settings)
    if any(np.isfinite(panel.test_accuracy).any() for panel in settings):
        attacks = [GAP.name, *attacks]
    attack_names = ", ".join(attack_kind(name).short for name in attacks)
    facts = [
        f"Settings: {names}. Splits per setting: {splits}, {kind}.",
        f"Attacks: {attack_names}.",
        *disclosed.leaving(release),
        *_absent(release),
        *(note for note in release.subject.notes if note.startswith(WARNING)),
        "Statistics of groups, without a finding; see pcer.audit(release).",
    ]
    return [Lines(release.title, facts), _groups_table(release, settings)]


def _absent(release: Release) -> list[str]:
    """Attacks that the release does not have, each with the reason."""
    lines = []
    for name, reason in release.not_computed.items():
        what = attack_kind(name).short if name in ATTACK_KINDS else name
        lines.append(f"Not computed: {what}, since {reason}.")
    return lines


def _groups_table(release: Release, settings: Sequence[Panel]) -> Table:
    n_train = _mean_by_setting([panel.n_train for panel in settings])
    n_test = _mean_by_setting([panel.n_test for panel in settings])
    rates = _mean_by_setting([panel.positive_rate for panel in settings])
    names = release.subject.groups
    rows = []
    for index, name in enumerate(names[:MOST_ROWS]):
        n_people = (_mean_count(n_train[:, index]), _mean_count(n_test[:, index]))
        rows.append((name, *n_people, _range_of_100(rates[:, index])))
    people = ("people in\ntraining", "people in\ntest")
    heads = ("group", *people, "predicted\npositive,\nof 100")
    n_further = len(names) - MOST_ROWS
    note = f"{n_further} further groups." if n_further > 0 else ""
    return Table("Groups", heads, tuple(rows), note=note)


def _mean_by_setting(numbers: Sequence[FloatArray]) -> FloatArray:
    """Means over models, (setting, group), of a (model, group) array each setting."""
    return np.array([by_model.mean(axis=0) for by_model in numbers])


def _mean_count(counts: FloatArray) -> str:
    known = counts[np.isfinite(counts)]
    return f"{round(float(known.mean())):,}" if known.size else wording.NOTHING


def _range_of_100(rates: FloatArray) -> str:
    known = rates[np.isfinite(rates)]
    if not known.size:
        return wording.NOTHING
    ends = [round(100 * float(end)) for end in (np.min(known), np.max(known))]
    return " to ".join(map(str, dict.fromkeys(ends)))


# What each type of result shows.
DISPLAYS: dict[type[Shown], Display] = {
    Audit: Display(view_of, pictures_svg),
    Changes: Display(change_view),
    Outlook: Display(outlook_view),
    Trend: Display(trend_view, versions_svg),
    Recommendation: Display(choice_view, lambda choice: choice_svg(as_shown(choice))),
    Release: Display(release_view),
}
