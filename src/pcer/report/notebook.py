"""What Python users see: small HTML in a notebook, plain text, charts, the page, data frames.

The HTML styles nothing but itself: every style is an attribute of its element, and colours are the
notebook's own, so that light and dark both work. Names are other people's: all text is escaped.
"""

from __future__ import annotations

import html
import importlib.util
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pcer.auditing.compare_words import Changes
from pcer.auditing.file import Audit
from pcer.auditing.planner import Outlook
from pcer.auditing.words import NOTHING, budget_name, number_range
from pcer.errors import InputError, clipped
from pcer.files import write_files
from pcer.release.format import Release
from pcer.release.panel import carried_costs, panels
from pcer.release.proxies import proxy_named
from pcer.report.changes import change_parts, change_table
from pcer.report.outlooks import outlook_parts, outlook_tables
from pcer.report.page import to_report
from pcer.report.pictures import finding_svg
from pcer.report.table import Table, isolated, to_html, to_text, wrapped
from pcer.report.tables import MOST_ROWS, finding_table, isolate_names
from pcer.report.text import WIDTH, brief_parts, finding

MOST_TEXT = 4_000  # characters of a sentence; names of others may be long, and many
# What a frame can be made with; the first that is installed, unless another is named.
BACKENDS = ("pandas", "polars", "pyarrow")


def to_notebook(shown: Audit | Changes | Outlook | Release) -> str:
    """Small HTML: for an audit headline, picture and table, for a release what is in it."""
    if isinstance(shown, Audit):
        title, headline, sure = (isolate_names(text, shown) for text in finding(shown))
        table = finding_table(shown, most_rows=MOST_ROWS)
        return _box(title, [headline], [table], picture=finding_svg(shown), last=sure)
    if isinstance(shown, Outlook):
        return _box(shown.title, shown.sentences, outlook_tables(shown))
    if isinstance(shown, Changes):
        return _box(shown.title, [shown.headline, *shown.account], [change_table(shown)])
    return _box(shown.title, _release_facts(shown), [release_table(shown)])


def to_plain(shown: Audit | Changes | Outlook | Release) -> str:
    """What a notebook shows, as lines of text."""
    if isinstance(shown, Release):
        lines = "\n".join(wrapped(line, WIDTH) for line in (shown.title, *_release_facts(shown)))
        return f"{lines}\n\n{to_text(release_table(shown), WIDTH)}"
    parts: Any = {Audit: brief_parts, Outlook: outlook_parts, Changes: change_parts}
    return "\n\n".join(map(str, parts[type(shown)](shown, WIDTH)))


def to_chart(audit: Audit | Outlook, name: str) -> Any:
    """One chart as an Altair chart, with its rows in it."""
    from pcer.report import figures

    if isinstance(audit, Outlook):
        return figures.spec_chart(figures.outlook_spec(audit))
    spec = figures.chart_spec(audit, _sources(audit)[0], name)
    if spec is None:
        raise InputError(f"this audit has nothing to draw for {name!r}: no exposure is known.")
    return figures.spec_chart(spec)


def save_page(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the page of one audit, with everything that it was judged together with."""
    release, family = _sources(audit)
    write_files({path: to_report([audit], [release], family)})


def _sources(audit: Audit) -> tuple[Release, list[Release]]:
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


def _release_facts(release: Release) -> list[str]:
    settings = panels(release)
    budgets = {budget_name(run.epsilon): run.budget for run in release.runs}
    splits = number_range(sorted({panel.n_splits for panel in settings}))
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
    names, settings = release.subject.groups, panels(release)
    means = np.array(
        [[v.mean(axis=0) for v in (s.n_train, s.n_test, s.positive_rate)] for s in settings]
    )
    rows = []
    for g, name in enumerate(names[:MOST_ROWS]):
        *sizes, rates = (values[np.isfinite(values)] for values in means[:, :, g].T)
        counts = (f"{round(float(n.mean())):,}" if n.size else NOTHING for n in sizes)
        ends = [round(100 * float(end(rates))) for end in (np.min, np.max) if rates.size]
        # Least and most over the settings.
        rows.append((name, *counts, " to ".join(map(str, dict.fromkeys(ends))) or NOTHING))
    more = len(names) - MOST_ROWS
    return Table(
        "Groups",
        ("group", "people in\ntraining", "people in\ntest", "predicted\npositive,\nof 100"),
        tuple(rows),
        note=f"{more} further groups." if more > 0 else "",
    )


def _box(
    title: str, lines: Iterable[str], tables: Iterable[Table], *, picture: str = "", last: str = ""
) -> str:
    def paragraph(text: str, mark: str = "{}") -> str:
        text = html.escape(isolated(clipped(text, MOST_TEXT)))
        return f'<p style="margin:.3em 0">{mark.format(text)}</p>' if text else ""

    head = paragraph(title, "<strong>{}</strong>")
    parts = [head, *map(paragraph, lines), picture, *map(to_html, tables), paragraph(last)]
    inside = "\n".join(part for part in parts if part)
    return f'<div class="pcer" style="max-width:44em;line-height:1.4">\n{inside}\n</div>'


FRAMES = ("groups", "pairs", "settings", "costs")
Fields = dict[str, Any]


def to_frame(audit: Audit, what: str = "groups", backend: str | None = None) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}.")
    installed = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
    wanted: Any = backend or next(iter(installed), "pandas, polars or pyarrow")
    if wanted not in installed:
        raise InputError(
            f"to_frame needs {wanted} as backend, which is not installed or not one of "
            f"{', '.join(BACKENDS)}; install one, or read the same numbers with to_tree().",
            field="backend",
        )
    rows = [dict(_flat("", row)) for row in _frame_rows(audit, what)]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return nw.from_dict(columns, backend=wanted).to_native()


def _frame_rows(audit: Audit, what: str) -> Iterator[Fields]:
    if what == "costs":
        yield from (story.model_dump() for story in audit.costs)
        return
    for budget in audit.budgets:
        at = {"model": budget.model, "epsilon": budget.budget}
        if what == "groups":
            for name, group in budget.groups.items():
                yield at | {"group": name} | group.model_dump()
        elif what == "pairs":
            for pair in budget.pairs:
                names = dict(zip(("first", "second"), pair.groups, strict=True))
                yield at | names | pair.model_dump(exclude=LEFT_OUT)
        else:
            rest = budget.model_dump(exclude={"model", "epsilon", "groups", "pairs"})
            yield at | {"worse_off": budget.worse_off} | rest | {"verdict": budget.verdict.value}


# Fields of a pair that have their own columns, or whose columns the frame has already.
LEFT_OUT: Any = {"groups": True, "floors": True, "exposure_answer": {"placebo"}}
# Records that not every row has; a frame has their columns where one row does.
OPTIONAL = {"null_gap", "allowed", "equivalence", "coin_flips"}


def _flat(prefix: str, fields: Fields) -> Iterator[tuple[str, Any]]:
    """Nested fields under joined names, intervals as two numbers, lists of names as text."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if value is None and key in OPTIONAL:
            continue
        if isinstance(value, dict):
            yield from _flat(f"{name}_", value)
        elif key.endswith(("interval", "ci")):
            low, high = value or (None, None)
            yield from ((f"{name}_low", low), (f"{name}_high", high))
        else:
            yield name, ", ".join(value) if isinstance(value, list) else value
