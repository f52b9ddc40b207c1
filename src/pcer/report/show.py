"""How do results show themselves in a notebook, by type?"""

from __future__ import annotations

import html
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from pcer.auditing.record import Audit
from pcer.deciding.compare import Changes
from pcer.deciding.planner import Outlook
from pcer.deciding.recommend import Recommendation
from pcer.deciding.trend import Trend
from pcer.display import Shown
from pcer.errors import InputError, clipped
from pcer.files import as_shown, write_files
from pcer.release.attack_kinds import proxy_named
from pcer.release.file import Release
from pcer.release.panel import carried_costs, panels
from pcer.report.formats.html import to_html
from pcer.report.formats.latex import to_latex_tables
from pcer.report.formats.terminal import terminal_text
from pcer.report.page import to_report
from pcer.report.pictures import charts
from pcer.report.pictures.axis import PALETTE, environment
from pcer.report.pictures.choice import choice_svg
from pcer.report.pictures.exposure import finding_svg
from pcer.report.pictures.picture import Picture
from pcer.report.table import Lines, Table, isolated
from pcer.report.tables.background import isolate_names
from pcer.report.tables.decisions import (
    change_view,
    choice_view,
    outlook_view,
    trend_view,
)
from pcer.report.tables.finding import MOST_ROWS
from pcer.report.views import view_of
from pcer.wording import NOTHING, budget_name, number_range, say

MOST_TEXT = 4_000  # characters of a sentence; names of others may be long, and many
# What a frame can be made with; the first that is installed, unless another is named.
BACKENDS = ("pandas", "polars", "pyarrow")


def to_notebook(shown: Shown) -> str:
    """Small HTML: for an audit what a terminal shows and a picture, for a release what is in it."""
    if isinstance(shown, Audit):
        first, *rest = view_of(shown)
        return _box(
            [first, finding_svg(shown), *rest], partial(isolate_names, audit=shown)
        )
    if isinstance(shown, Trend):
        first, *rest = trend_view(shown)
        return _box(
            [first, finding_svg(shown.versions[-1], versions=shown.settings), *rest]
        )
    first, *rest = _view(shown)
    picture = [choice_svg(as_shown(shown))] if isinstance(shown, Recommendation) else []
    return _box([first, *picture, *rest])


def trend_page(trend: Trend) -> str:
    """One offline HTML file: what a notebook shows of a trend."""
    page = environment().get_template("trend.html")
    return (
        page.render(trend=as_shown(trend), palette=PALETTE, body=to_notebook(trend))
        + "\n"
    )


def to_plain(shown: Shown) -> str:
    """What a notebook shows, as lines of text."""
    return terminal_text(_view(shown))


def _view(shown: Shown) -> list[Lines | Table]:
    views: Any = {
        Audit: view_of,
        Changes: change_view,
        Outlook: outlook_view,
        Trend: trend_view,
    }
    views[Recommendation] = choice_view
    return list(views.get(type(shown), release_view)(shown))


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


def to_chart(audit: Audit | Outlook, name: str | None) -> Picture:
    """The finding's picture, one chart by its name, or an outlook's curve."""
    if isinstance(audit, Outlook):
        return charts.outlook_picture(audit)
    if name is None:
        return charts.finding_picture(audit)
    return charts.chart_picture(audit, _sources(audit)[0], name)


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
        raise InputError(
            "this audit is of another release than the one that it was given."
        )
    return release, family


def release_view(release: Release) -> list[Lines | Table]:
    """What is in a release, without a finding."""
    settings = panels(release)
    budgets = {budget_name(run.epsilon): run.budget for run in release.runs}
    splits = number_range(sorted({panel.n_splits for panel in settings}))
    gap = ["overfitting_gap"] * any(
        np.isfinite(s.test_accuracy).any() for s in settings
    )
    costs = [proxy_named(name).short for name in (*gap, *carried_costs(settings))]
    kind = release.training.split_kind
    facts = [
        f"Settings: {', '.join(sorted(budgets, key=budgets.__getitem__))}. Splits per setting: "
        f"{splits}, {kind or 'not said to be random'}.",
        f"Attacks: {', '.join(costs)}.",
        "Statistics of groups, without a finding; see pcer.audit(release).",
    ]
    if n := release.subject.n_missing_group:
        facts.insert(2, say("how_sure", "missing", n=f"{n:,}"))
    return [Lines(release.title, facts), release_table(release)]


def release_table(release: Release) -> Table:
    """The groups of a release: how many people, and what the models predict for them."""
    names = release.subject.groups
    settings = panels(release)
    means = np.array(
        [
            [v.mean(axis=0) for v in (s.n_train, s.n_test, s.positive_rate)]
            for s in settings
        ]
    )
    rows = []
    for g, name in enumerate(names[:MOST_ROWS]):
        *sizes, rates = (values[np.isfinite(values)] for values in means[:, :, g].T)
        counts = (f"{round(float(n.mean())):,}" if n.size else NOTHING for n in sizes)
        ends = [
            round(100 * float(end(rates))) for end in (np.min, np.max) if rates.size
        ]
        # Least and most over the settings.
        rows.append(
            (name, *counts, " to ".join(map(str, dict.fromkeys(ends))) or NOTHING)
        )
    more = len(names) - MOST_ROWS
    return Table(
        "Groups",
        (
            "group",
            "people in\ntraining",
            "people in\ntest",
            "predicted\npositive,\nof 100",
        ),
        tuple(rows),
        note=f"{more} further groups." if more > 0 else "",
    )


def _box(
    shown: Iterable[Lines | Table | str], isolate: Callable[[str], str] = isolated
) -> str:
    """Sentences, tables and pictures below each other; a picture is text already."""

    def paragraph(text: str, mark: str = "{}") -> str:
        text = html.escape(isolate(clipped(text, MOST_TEXT)))
        return f'<p style="margin:.3em 0">{mark.format(text)}</p>'

    parts = []
    for each in shown:
        if isinstance(each, Lines):
            parts += [
                paragraph(each.title, "<strong>{}</strong>"),
                *map(paragraph, each.sentences),
            ]
        else:
            parts.append(to_html(each) if isinstance(each, Table) else each)
    inside = "\n".join(parts)
    return (
        f'<div class="pcer" style="max-width:44em;line-height:1.4">\n{inside}\n</div>'
    )


# By frame the columns that most need.
FRAMES = {
    "groups": "model epsilon group n_train positive_rate_mean cost_value cost_upper_bound "
    "detectable_cost p_value resolved",
    "pairs": "model epsilon first second verdict exposure_answer exposure_difference_value "
    "exposure_p_value outcomes_answer outcomes_difference_value",
    "settings": "model epsilon groups n_splits accuracy_mean demographic_parity_gap_mean "
    "equalized_odds_gap_mean pcer_spread_mean verdict headline",
    "costs": "cost n_cells n_resolved more_exposed lower_ratio double_disadvantage p_value "
    "p_value_over_costs ratio_p_over_costs detected_in",
}
Fields = dict[str, Any]


def to_frame(audit: Audit, what: str, backend: str | None, *, full: bool) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(
            f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}."
        )
    installed = [
        name for name in BACKENDS if importlib.util.find_spec(name) is not None
    ]
    wanted: Any = backend or next(iter(installed), "pandas, polars or pyarrow")
    if wanted not in installed:
        raise InputError(
            f"to_frame needs {wanted} as backend, which is not installed or not one of "
            f"{', '.join(BACKENDS)}; install one, or read the same numbers with to_tree().",
            field="backend",
        )
    rows = [dict(_flat("", row)) for row in _frame_rows(audit, what)]
    names = dict.fromkeys(name for row in rows for name in row)
    few = [] if full else FRAMES[what].split()
    names = {name: None for name in few if name in names} or names
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
            yield (
                at | {"groups": budget.named} | rest | {"verdict": budget.verdict.value}
            )


# Fields of a pair that have their own columns, or whose columns the frame has already.
LEFT_OUT: Any = {"groups": True, "floors": True, "exposure": {"placebo"}}
# Records that not every row has; a frame has their columns where one row does.
OPTIONAL = {"null_gap", "allowed", "equivalence", "placebo"}


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
            yield name, ", ".join(map(str, value)) if isinstance(value, list) else value
