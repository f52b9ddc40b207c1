"""A choice among settings for people: sentences, a table, one chart, a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pcer.auditing.recommend import (
    ACCURACY,
    EXPOSURE,
    SPENT,
    Checked,
    Recommendation,
    largest,
)
from pcer.auditing.words import NOTHING, decimals, say, templates
from pcer.files import as_shown
from pcer.report.pictures import (
    CIRCLE,
    LIGHT,
    PALETTE,
    SQUARE,
    UP,
    environment,
    round_step,
)
from pcer.report.table import Table, isolated, template, to_html
from pcer.report.text import Lines
from pcer.statistics import interval_quantile

# Shape and colour of each list: colour is not needed.
LOOKS = {
    "holds": (CIRCLE, "series-0"),
    "open": (SQUARE, "series-4"),
    "breaks": (UP, "series-1"),
}
LEFT, WIDTH, GAP, TOP, HEIGHT = (
    46,
    300,
    40,
    70,
    250,
)  # of a panel of the chart, in pixels


def choice_view(found: Recommendation) -> list[Lines | Table]:
    """The choice, every setting with its numbers, why each is in its list, and the price."""
    found = as_shown(found)
    why = [
        f"{k}. {s.name}: {s.answer}. {s.sentence}"
        for k, s in enumerate(found.settings, 1)
    ]
    return [
        Lines(found.title, [found.headline, *found.account]),
        choice_table(found),
        Lines("Why", why),
        Lines("The price of choosing", found.price.sentences),
    ]


def choice_table(found: Recommendation) -> Table:
    """One row for every setting, in the order of the files."""
    rows = []
    for k, setting in enumerate(found.settings, 1):
        exposed = largest(setting.numbers, EXPOSURE, found.cost)
        spent = largest(setting.numbers, SPENT)
        both = map(_both, (setting.numbers[-1], exposed))
        amounts = [" ± ".join(decimals(x, 1) for x in each) for each in both]
        most = NOTHING if exposed is None else decimals(exposed.upper, 1)
        own = NOTHING
        if spent is not None:  # a promise has no error
            own = "≤ " * (not spent.standard_error) + decimals(spent.value, 2)
        row = (f"{k}. {setting.name}", setting.answer, *amounts, most)
        rows.append((*row, decimals(setting.allowed, 1), own))
    heads = (
        "accuracy",
        "exposure\nfound",
        "at\nmost",
        "exposure\nallowed",
        "epsilon\nspent",
    )
    note = say("recommend", "note")
    return Table(
        "Settings", ("setting", "limits", *heads), tuple(rows), n_labels=2, note=note
    )


def _both(found: Checked | None) -> list[float]:
    """Value and error; nothing where unknown."""
    return [] if found is None else [found.value or 0.0, found.standard_error or 0.0]


class Axis(NamedTuple):
    """From values to pixels."""

    low: float
    high: float
    start: float
    length: float

    @classmethod
    def of(cls, values: Sequence[float], start: float, length: float) -> Axis:
        """An axis that holds all values."""
        low = min(values)
        high = max(values)
        spare = 0.06 * (high - low) or 0.5
        return cls(low - spare, high + spare, start, length)

    def at(self, value: float) -> float:
        """Where a value lies."""
        return round(
            self.start + self.length * (value - self.low) / (self.high - self.low), 1
        )

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """A few round numbers with their places."""
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [(self.at(k * step), f"{k * step:g}") for k in range(first, last + 1)]


def choice_svg(found: Recommendation) -> str:
    """Accuracy against exposure found, and against exposure allowed where receipts say it."""
    z = interval_quantile(0.95)
    kinds = dict[str, list[dict[str, Any]]]()
    for k, setting in enumerate(found.settings, 1):
        shape, colour = LOOKS[setting.answer]
        mark = {
            "number": k,
            "name": f"{isolated(setting.name)}, {setting.answer}",
            "shape": shape,
        }
        mark |= {
            "y": _both(setting.numbers[-1]),
            "colour": f"var(--{colour}, {LIGHT[colour]})",
        }
        if exposed := _both(largest(setting.numbers, EXPOSURE, found.cost)):
            kinds.setdefault("found", []).append(mark | {"x": exposed})
        if setting.allowed is not None:
            kinds.setdefault("allowed", []).append(mark | {"x": [setting.allowed, 0.0]})
    limits = {"found": found.limits.get(EXPOSURE), "y": found.limits.get(ACCURACY)}
    wide = WIDTH if len(kinds) > 1 else 2 * WIDTH + GAP

    def axis(
        marks: Sequence[dict[str, Any]], way: str, *place: float, limit: float | None
    ) -> Axis:
        ends = [m[way][0] + side * z * m[way][1] for m in marks for side in (-1, 1)]
        return Axis.of([*ends, *([] if limit is None else [limit])], *place)

    panels = [
        (
            kind,
            axis(own, "x", LEFT + k * (wide + GAP), wide, limit=limits.get(kind)),
            own,
        )
        for k, (kind, own) in enumerate(kinds.items())
    ]
    every = [mark for own in kinds.values() for mark in own]
    picture = environment().get_template("choice.svg")
    return picture.render(
        panels=panels,
        up=axis(every, "y", TOP + HEIGHT, -HEIGHT, limit=limits["y"])
        if every
        else None,
        limits=limits,
        z=z,
        keys=[
            (name, shape, f"var(--{c}, {LIGHT[c]})")
            for name, (shape, c) in LOOKS.items()
        ],
        size=(wide, HEIGHT, TOP),
        width=LEFT + 2 * (WIDTH + GAP),
        words=templates()["recommend"],
    )


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
