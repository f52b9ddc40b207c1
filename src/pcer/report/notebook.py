"""Audits and releases in a notebook: small HTML that styles nothing but itself; charts; the page.

Every style is an attribute of its element, and colours are the notebook's own, so that nothing
around it changes and light and dark both work. Names are other people's: all text is escaped.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from pcer.auditing import NOTHING, Audit, Changes, Outlook, budget_name, listed, number_range
from pcer.errors import InputError
from pcer.files import write_files
from pcer.release import Release, carried_costs, panels, proxy_named
from pcer.report.changes import change_parts, change_table
from pcer.report.charts import charts
from pcer.report.figures import WIDTH, complete
from pcer.report.hero import hero_svg
from pcer.report.html import to_report
from pcer.report.outlooks import outlook_chart, outlook_parts, outlook_tables
from pcer.report.rows import chart_data, isolated
from pcer.report.table import Table, to_text, wrapped
from pcer.report.terminal import MOST_ROWS, finding, finding_table, to_terminal
from pcer.report.terminal import WIDTH as COLUMNS

MOST_TEXT = 4_000
"""Characters of a sentence; names of others may be long, and many."""


def to_notebook(shown: Audit | Changes | Outlook | Release) -> str:
    """Small HTML: for an audit headline, picture and table, for a release what is in it."""
    if isinstance(shown, Outlook):
        return _told_html(shown.title, shown.sentences, outlook_tables(shown))
    if isinstance(shown, Changes):
        told = [shown.headline, *shown.account]
        return _told_html(shown.title, told, [change_table(shown)])
    return _audit_html(shown) if isinstance(shown, Audit) else _release_html(shown)


def to_plain(shown: Audit | Changes | Outlook | Release) -> str:
    """The same as lines of text."""
    if isinstance(shown, Audit):
        return to_terminal(shown)
    if isinstance(shown, Outlook):
        return "\n\n".join(map(str, outlook_parts(shown, COLUMNS)))
    if isinstance(shown, Changes):
        return "\n\n".join(map(str, change_parts(shown, COLUMNS)))
    told = "\n".join(wrapped(line, COLUMNS) for line in (shown.title, *_release_facts(shown)))
    return f"{told}\n\n{to_text(release_table(shown), COLUMNS)}"


def to_chart(audit: Audit | Outlook, name: str) -> Any:
    """A chart of the page as an Altair chart, with its rows in it."""
    import altair as alt

    if isinstance(audit, Outlook):
        return outlook_chart(audit)
    release, _ = sources_of(audit)
    rows = chart_data(audit, release)
    known = {chart.name: chart.spec for chart in charts(audit, rows)}
    if name not in known:
        raise InputError(f"plot draws {listed(list(known))}, and nothing called {name!r}.")
    spec = {key: value for key, value in known[name].items() if key != "autosize"}
    if spec.get("width") == "container":
        spec["width"] = WIDTH
    whole = complete(spec, rows)
    whole["config"]["legend"].pop("layout", None)  # Vega takes it; Altair's schema does not know it
    return alt.Chart.from_dict(whole)


def save_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page of one audit, with everything that it was judged together with."""
    release, family = sources_of(audit)
    write_files({path: to_report([audit], [release], family)})


def sources_of(audit: Audit) -> tuple[Release, list[Release]]:
    """The release that an audit is of, and those that were judged together with it."""
    if not audit.sources:
        raise InputError(
            "this audit does not hold its release, which charts and pages are made from; make it "
            "with pcer.audit(release), or add it: audit.with_sources(release)."
        )
    release, *family = audit.sources
    if release.sha256 != audit.release_sha256:
        raise InputError("this audit is of another release than the one that it was given.")
    return release, family


def _audit_html(audit: Audit) -> str:
    title, headline, sure = (_sentence(_isolating(text, audit)) for text in finding(audit))
    return _box(
        [
            _paragraph(f"<strong>{title}</strong>"),
            _paragraph(headline),
            hero_svg(audit),
            _table(finding_table(audit, most_rows=MOST_ROWS)),
            _paragraph(sure),
        ]
    )


def _release_html(release: Release) -> str:
    lines = [_paragraph(_sentence(line)) for line in _release_facts(release)]
    title = _paragraph(f"<strong>{_sentence(isolated(release.title))}</strong>")
    return _box([title, *lines, _table(release_table(release))])


def _told_html(title: str, lines: Iterable[str], tables: Iterable[Table]) -> str:
    """A title, sentences and tables."""
    return _box(
        [
            _paragraph(f"<strong>{_sentence(isolated(title))}</strong>"),
            *(_paragraph(_sentence(line)) for line in lines),
            *(_table(table) for table in tables),
        ]
    )


def _release_facts(release: Release) -> list[str]:
    settings = panels(release)
    budgets = {budget_name(run.epsilon): run.budget for run in release.runs}
    splits = number_range(sorted({one.n_splits for one in settings}))
    costs = [proxy_named(name).short for name in ("overfitting_gap", *carried_costs(settings))]
    kind = release.training.split_kind
    return [
        f"Budgets: {', '.join(sorted(budgets, key=budgets.__getitem__))}. Splits per setting: "
        f"{splits}, {kind or 'not said to be random'}.",
        f"Costs that it carries: {', '.join(costs)}.",
        "Statistics of groups, for pcer.audit(release): it has no finding of its own.",
    ]


def release_table(release: Release) -> Table:
    """The groups of a release: how many people, and what the models predict for them."""
    names = release.subject.groups
    settings = panels(release)
    train, test = (
        np.stack([one.mean(axis=0) for one in sizes])
        for sizes in ([s.n_train for s in settings], [s.n_test for s in settings])
    )
    rates = np.stack([one.positive_rate.mean(axis=0) for one in settings])
    rows = [
        (name, _count(train[:, g]), _count(test[:, g]), _span(rates[:, g]))
        for g, name in enumerate(names[:MOST_ROWS])
    ]
    more = len(names) - MOST_ROWS
    return Table(
        "Groups",
        ("group", "people in\ntraining", "people in\ntest", "predicted\npositive,\nof 100"),
        tuple(rows),
        note=f"{more} further groups." if more > 0 else "",
    )


def _count(people: np.ndarray[Any, Any]) -> str:
    known = people[np.isfinite(people)]
    return f"{round(float(known.mean())):,}" if known.size else NOTHING


def _span(rates: np.ndarray[Any, Any]) -> str:
    """Least and most over the settings."""
    known = rates[np.isfinite(rates)]
    if not known.size:
        return NOTHING
    low, high = round(100 * float(known.min())), round(100 * float(known.max()))
    return f"{low}" if low == high else f"{low} to {high}"


def _box(parts: Iterable[str]) -> str:
    inside = "\n".join(parts)
    return f'<div class="pcer" style="max-width:44em;line-height:1.4">\n{inside}\n</div>'


def _paragraph(text: str) -> str:
    return f'<p style="margin:.3em 0">{text}</p>'


def _isolating(text: str, audit: Audit) -> str:
    """A sentence that names which run from right to left do not turn around."""
    subject = audit.subject
    for name in {*subject.groups, subject.dataset, subject.attribute}:
        if isolated(name) != name:
            text = text.replace(name, isolated(name))
    return text


def _sentence(text: str) -> str:
    short = text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
    return html.escape(short)


def _table(table: Table) -> str:
    head = _cells(table.columns, "th", table.n_labels)
    body = "\n".join(f"<tr>{_cells(row, 'td', table.n_labels)}</tr>" for row in table.rows)
    title = f'<caption style="text-align:left">{_sentence(isolated(table.title))}</caption>'
    note = _paragraph(f"<small>{_sentence(table.note)}</small>") if table.note else ""
    return (
        f'<table style="border-collapse:collapse;margin:.8em 0 .2em">{title}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>\n{note}"
    )


def _cells(cells: Iterable[str], kind: str, n_labels: int) -> str:
    return "".join(
        f'<{kind} style="text-align:{"left" if k < n_labels else "right"};padding:.1em .6em;'
        f'vertical-align:bottom">{_lines(cell)}</{kind}>'
        for k, cell in enumerate(cells)
    )


def _lines(cell: str) -> str:
    return html.escape(isolated(cell)).replace("\n", "<br>")
