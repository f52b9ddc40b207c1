"""What Python users see: small HTML in a notebook, plain text, charts, the page, data frames.

The HTML styles nothing but itself: every style is an attribute of its element, and colours are the
notebook's own, so that light and dark both work. Names are other people's: all text is escaped.
"""

from __future__ import annotations

import html
import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pcer.auditing import NOTHING, Audit, Changes, Outlook, budget_name, number_range
from pcer.errors import InputError
from pcer.files import write_files
from pcer.release.format import Release
from pcer.release.panel import carried_costs, panels
from pcer.release.proxies import proxy_named
from pcer.report.changes import change_parts, change_table
from pcer.report.figures import chart_spec, spec_chart
from pcer.report.outlooks import outlook_parts, outlook_spec, outlook_tables
from pcer.report.page import to_report
from pcer.report.pictures import finding_svg
from pcer.report.table import Table, isolate_names, isolated, to_html, to_text, wrapped
from pcer.report.tables import MOST_ROWS, finding_table
from pcer.report.terminal import WIDTH, finding, to_terminal

MOST_TEXT = 4_000
"""Characters of a sentence; names of others may be long, and many."""
BACKENDS = ("pandas", "polars", "pyarrow")
"""What a frame can be made with; the first that is installed, unless another is named."""


def to_notebook(shown: Audit | Changes | Outlook | Release) -> str:
    """Small HTML: for an audit headline, picture and table, for a release what is in it."""
    if isinstance(shown, Audit):
        subject = shown.subject
        names = [*subject.groups, subject.dataset, subject.attribute]
        title, headline, sure = (isolate_names(text, names) for text in finding(shown))
        table = finding_table(shown, most_rows=MOST_ROWS)
        return _box(title, [headline], finding_svg(shown), [table], [sure])
    if isinstance(shown, Outlook):
        return _box(shown.title, shown.sentences, "", outlook_tables(shown))
    if isinstance(shown, Changes):
        return _box(shown.title, [shown.headline, *shown.account], "", [change_table(shown)])
    return _box(shown.title, _release_facts(shown), "", [release_table(shown)])


def to_plain(shown: Audit | Changes | Outlook | Release) -> str:
    """What a notebook shows, as lines of text."""
    if isinstance(shown, Audit):
        return to_terminal(shown)
    if isinstance(shown, Outlook):
        return "\n\n".join(map(str, outlook_parts(shown, WIDTH)))
    if isinstance(shown, Changes):
        return "\n\n".join(map(str, change_parts(shown, WIDTH)))
    told = "\n".join(wrapped(line, WIDTH) for line in (shown.title, *_release_facts(shown)))
    return f"{told}\n\n{to_text(release_table(shown), WIDTH)}"


def to_chart(audit: Audit | Outlook, name: str) -> Any:
    """One chart as an Altair chart, with its rows in it."""
    if isinstance(audit, Outlook):
        return spec_chart(outlook_spec(audit))
    release, _ = _sources(audit)
    spec = chart_spec(audit, release, name)
    if spec is None:
        raise InputError(f"this audit has nothing to draw for {name!r}: no exposure is known.")
    return spec_chart(spec)


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
    names, settings = release.subject.groups, panels(release)
    train, test, rates = (
        np.stack([values.mean(axis=0) for values in found])
        for found in zip(*((s.n_train, s.n_test, s.positive_rate) for s in settings), strict=True)
    )
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


def _box(
    title: str,
    lines: Iterable[str],
    picture: str,
    tables: Iterable[Table],
    last: Iterable[str] = (),
) -> str:
    def paragraph(text: str) -> str:
        short = text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
        return html.escape(isolated(short))

    def paragraphs(texts: Iterable[str]) -> list[str]:
        return [f'<p style="margin:.3em 0">{paragraph(text)}</p>' for text in texts]

    head = f'<p style="margin:.3em 0"><strong>{paragraph(title)}</strong></p>'
    parts = [head, *paragraphs(lines), picture, *map(to_html, tables), *paragraphs(last)]
    inside = "\n".join(part for part in parts if part)
    return f'<div class="pcer" style="max-width:44em;line-height:1.4">\n{inside}\n</div>'


Fields = dict[str, Any]


def to_frame(audit: Audit, what: str = "groups", backend: str | None = None) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}.")
    rows = [dict(_flat("", row)) for row in FRAMES[what](audit)]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return nw.from_dict(columns, backend=_backend(backend)).to_native()


def _group_fields(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        for name, group in one.groups.items():
            at = {"model": one.model, "epsilon": one.budget, "group": name}
            yield at | group.model_dump()


def _pair_fields(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        for pair in one.pairs:
            first, second = pair.groups
            at = {"model": one.model, "epsilon": one.budget, "first": first, "second": second}
            yield at | pair.model_dump(exclude=LEFT_OUT)


def _setting_fields(audit: Audit) -> Iterator[Fields]:
    for one in audit.budgets:
        rest = one.model_dump(exclude={"model", "epsilon", "groups", "pairs"})
        at = {"model": one.model, "epsilon": one.budget, "worse_off": one.worse_off}
        yield at | rest | {"verdict": one.verdict.value}


def _cost_fields(audit: Audit) -> Iterator[Fields]:
    yield from (story.model_dump() for story in audit.costs)


FRAMES = {
    "groups": _group_fields,
    "pairs": _pair_fields,
    "settings": _setting_fields,
    "costs": _cost_fields,
}
LEFT_OUT: Any = {"groups": True, "floors": True, "exposure_answer": {"placebo"}}
"""Fields of a pair that have their own columns, or whose columns the frame has already."""
OPTIONAL: dict[str, Sequence[str]] = {
    "null_gap": ("mean", "interval"),
    "allowed": ("mode", "accountant", "nominal", "spent", "standard_error", "advantage"),
    "equivalence": ("margin", "p_value", "shown"),
    "coin_flips": (
        "n_draws",
        "n_shown",
        "n_double",
        "n_exposure",
        "permutation_p",
        "permutation_p_within_labels",
        "exposure_p",
        "exposure_p_within_labels",
    ),
}
"""Fields of records that not every row has, so that all frames have the same columns."""


def _flat(prefix: str, fields: Fields) -> Iterator[tuple[str, Any]]:
    """Nested fields under joined names, intervals as two numbers, lists of names as text."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if value is None and key in OPTIONAL:
            value = dict.fromkeys(OPTIONAL[key])
        if isinstance(value, dict):
            yield from _flat(f"{name}_", value)
        elif key.endswith(("interval", "ci")):
            low, high = value or (None, None)
            yield from ((f"{name}_low", low), (f"{name}_high", high))
        else:
            yield name, ", ".join(value) if isinstance(value, list) else value


def _backend(named: str | None) -> Any:
    """The library, named or the first that is installed."""
    if named is not None and named not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, and not {named!r}.")
    found = [one for one in BACKENDS if importlib.util.find_spec(one) is not None]
    wanted = named or next(iter(found), None)
    if wanted not in found:
        raise InputError(
            f"to_frame needs {named or 'pandas, polars or pyarrow'}, which is not installed; "
            "install it, or read the same numbers with to_tree()."
        )
    return wanted
