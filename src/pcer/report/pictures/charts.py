"""Which charts has an audit by name, and how are pictures shown and saved?

``Audit.plot``, ``Outlook.plot``, ``--figures`` and the study call this file. A chart
says what is drawn in the numbers of its axes; ``panels`` places it. To add a chart: a
function of an audit and its release that returns a ``Chart`` (None where there is
nothing to draw), and a row of ``CHARTS``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pcer.auditing.record import Audit
from pcer.errors import InputError, not_installed
from pcer.files import as_shown, write_files
from pcer.release.attack_kinds import AttackKind
from pcer.release.file import Release
from pcer.report.pictures import looks, panels
from pcer.report.pictures.looks import COLOUR_OF
from pcer.report.tables import background
from pcer.report.tables.background import PairRow
from pcer.report.tables.finding import AttackEstimate, attack_estimates
from pcer.wording import bounds, signed

LONGEST_NAME = 60
FORMATS = ("svg", "png", "pdf")
PNG_SCALE = 2.0  # pixels of the PNG for one of the picture
# Attributes only: in a text every quotation mark is escaped.
ROLE = re.compile(r'="var\(--[a-z0-9-]+, (#[0-9a-f]+)\)"')
STYLE = re.compile(r"<style>.*?</style>\n")
WHITE = '<rect width="100%" height="100%" fill="#fff"/>\n'

FIGURE1_NOTE = (
    "Hollow: no evidence, within what it would be if nothing were memorised. "
    "Shaded: floor-dominated in most seeds. Lines: {level} intervals."
)
ZERO_DASH = "3 3"
ATTACKS_HEIGHT = 110
# How far apart the marks of a setting stand, as shares of its room.
MARK_STEP = 0.4
MOST_SPREAD = 0.7
ROOM_FOR_TWO = 16  # marks that fit beside each other where two panels stand in a row


def settings_axis(audit: Audit) -> panels.NameAxis:
    """Settings side by side in ascending order, no-DP last."""
    has_models = any(setting.model is not None for setting in audit.settings)
    title = "model and privacy budget ε" if has_models else "privacy budget ε"
    labels = background.setting_labels(audit)
    return panels.NameAxis(title, tuple(looks.short_name(label) for label in labels))


# The paper's Figure 1


class Series(NamedTuple):
    """One of the three curves; its colour is none of the first groups'."""

    name: str
    colour: str
    shape: str
    is_right: bool


PARITY = Series("DP-Gap (left)", COLOUR_OF["series-5"], looks.CIRCLE, is_right=False)
DISPARITY = Series("Δ PCER (right)", COLOUR_OF["series-4"], looks.SQUARE, is_right=True)
NULL = Series(
    "if nothing memorised (right)", COLOUR_OF["muted"], looks.DIAMOND, is_right=True
)
SERIES = (PARITY, DISPARITY, NULL)


def figure1(audit: Audit, release: Release) -> panels.Chart:
    """The paper's Figure 1: parity gap and Δ PCER by the gap, a panel for each pair."""
    rows = list(background.pair_rows(audit))
    drawn = []
    for pair in audit.settings[0].pairs[: background.MOST_PAIRS]:
        of_pair = [row for row in rows if row.pair.groups == pair.groups]
        drawn.append(_pair_panel(audit, of_pair))
    keys = [panels.Key(one.name, one.colour, one.shape, dash="") for one in SERIES]
    note = FIGURE1_NOTE.format(level=f"{100 * audit.plan.confidence_level:g}%")
    return panels.Chart("Parity gap and Δ PCER in every setting", drawn, keys, note)


def _pair_panel(audit: Audit, rows: list[PairRow]) -> panels.Panel:
    """One pair of groups, of which ``rows`` has the numbers in every setting."""
    across = settings_axis(audit)
    marks: dict[Series, list[panels.Mark]] = {}
    for series, shift in zip(SERIES, panels.beside(len(SERIES)), strict=True):
        marks[series] = _series_marks(series, rows, across.labels, shift)
    left = panels.extent(marks[PARITY])
    right = panels.extent([*marks[DISPARITY], *marks[NULL]])
    first, second = (looks.short_name(name) for name in rows[0].pair.groups)
    return panels.Panel(
        across=across,
        up=panels.number_axis(PARITY.name, left, colour=PARITY.colour),
        right=panels.number_axis(DISPARITY.name, right, colour=DISPARITY.colour),
        title=f"{first} − {second}",
        shades=_floored(audit, rows),
        rules=[
            panels.Rule(y=0, colour=DISPARITY.colour, dash=ZERO_DASH, is_right=True)
        ],
        curves=[panels.joined(of_series) for of_series in marks.values() if of_series],
        marks=[*marks[PARITY], *marks[DISPARITY], *marks[NULL]],
        has_grid=False,
    )


def _series_marks(
    series: Series, rows: list[PairRow], settings: Sequence[str], shift: float
) -> list[panels.Mark]:
    marks = []
    for place, row in enumerate(rows):
        mean, ends, is_filled = _point(series, row)
        if mean is None:
            continue
        name = series.name.rpartition(" (")[0]
        mark = panels.Mark(
            x=place + shift,
            y=mean,
            colour=series.colour,
            shape=series.shape,
            ends=ends,
            is_filled=is_filled,
            is_right=series.is_right,
            title=f"{settings[place]}, {name}: {signed(mean)} {bounds(ends)}",
        )
        marks.append(mark)
    return marks


def _point(
    series: Series, row: PairRow
) -> tuple[float | None, panels.Ends | None, bool]:
    """A curve's number in one setting, its interval, and whether its mark is filled."""
    if series is PARITY:
        gap = row.setting.demographic_parity_gap
        return gap.mean, gap.ci, True
    disparity = row.published.pcer_disparity
    if series is DISPARITY:
        return disparity.mean, disparity.ci, disparity.is_beyond_null is True
    return disparity.null_mean, disparity.null_interval, False


def _floored(audit: Audit, rows: list[PairRow]) -> list[panels.Shade]:
    """Settings whose gaps are below the plan's floor in most seeds."""
    shades = []
    for place, row in enumerate(rows):
        for floor in row.published.floors:
            share = floor.floor_dominated_share or 0.0
            if floor.floor == audit.plan.floor and share > 0.5:
                shades.append(panels.Shade(x=(place - 0.5, place + 0.5)))
    return shades


# Exposure by every attack


def every_attack(audit: Audit, release: Release) -> panels.Chart | None:
    """Exposure with intervals, a panel for every attack that the release carries."""
    by_attack: dict[AttackKind, list[AttackEstimate]] = {}
    for estimate in attack_estimates(audit, release):
        by_attack.setdefault(estimate.attack, []).append(estimate)
    if not by_attack:
        return None
    names = [audit.subject.groups[place] for place in background.shown_groups(audit)]
    spread = min(MARK_STEP * (len(names) - 1), MOST_SPREAD)
    shifts = dict(zip(names, panels.beside(len(names), spread), strict=True))
    keys = []
    for name in names:
        keys.append(panels.Key(looks.short_name(name), **looks.look(audit, name)))
    n_marks = len(names) * len(audit.settings)
    return panels.Chart(
        "Exposure by every attack",
        [_attack_panel(audit, *item, shifts) for item in by_attack.items()],
        keys,
        f"Lines: {100 * audit.plan.confidence_level:g}% intervals.",
        columns=2 if len(by_attack) > 1 and n_marks <= ROOM_FOR_TWO else 1,
        height=ATTACKS_HEIGHT,
    )


def _attack_panel(
    audit: Audit,
    attack: AttackKind,
    estimates: list[AttackEstimate],
    shifts: dict[str, float],
) -> panels.Panel:
    """One attack in every setting; ``shifts`` place groups beside each other there."""
    settings = background.setting_labels(audit)
    marks = []
    for estimate in estimates:
        if estimate.value is None:
            continue
        ends = None
        if estimate.interval is not None:
            low, high = estimate.interval
            ends = (attack.scale.written(low), attack.scale.written(high))
        subject = f"{estimate.setting}, {looks.short_name(estimate.group)}"
        mark = panels.Mark(
            x=settings.index(estimate.setting) + shifts[estimate.group],
            y=attack.scale.written(estimate.value),
            ends=ends,
            title=f"{subject}: {looks.exposure_amount(attack, estimate.value)}",
            **looks.look(audit, estimate.group),
        )
        marks.append(mark)
    title = attack.scale.column.replace("\n", " ")
    chance = attack.scale.written(0.0)
    return panels.Panel(
        across=settings_axis(audit),
        up=panels.number_axis(title, panels.extent(marks), base=chance),
        title=attack.label,
        rules=[panels.Rule(y=chance)],
        marks=marks,
    )


# By the name of their file, in reading order.
CHARTS: Final[dict[str, Callable[[Audit, Release], panels.Chart | None]]] = {
    "figure1": figure1,
    "attacks": every_attack,
}


# Pictures and their files


class Picture:
    """An SVG that displays itself, and can be saved."""

    def __init__(self, title: str, svg: str, name: str) -> None:
        self.title = title
        self.name = name
        self._svg = svg

    def __repr__(self) -> str:
        return f"<Picture: {self.title}; save('{self.name}.svg') writes it>"

    def _repr_svg_(self) -> str:
        return self._svg

    _repr_html_ = _repr_svg_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as ``*.svg``, ``*.png`` or ``*.pdf``; the last two on white."""
        kind = Path(path).suffix.lower().removeprefix(".")
        if kind not in FORMATS:
            raise InputError(
                f"{os.fspath(path)}: a picture is an SVG, a PNG or a PDF; name it "
                "*.svg, *.png or *.pdf.",
                field="path",
            )
        if kind == "svg":
            write_files({path: self._svg})
        else:
            write_files({path: _converted(printable_svg(self._svg), kind)})


def chart_picture(audit: Audit, release: Release, name: str) -> Picture:
    """A chart by its name."""
    if name not in CHARTS:
        raise InputError(
            f"plot draws {', '.join(CHARTS)}, and nothing called {name!r}."
        )
    chart = CHARTS[name](as_shown(audit), as_shown(release))
    if chart is None:
        raise InputError(
            f"this audit has nothing to draw for {name!r}: no exposure is known."
        )
    return Picture(audit.title, panels.chart_svg(chart), name)


def draw_figures(
    audits: Sequence[Audit], releases: Sequence[Release]
) -> dict[str, bytes]:
    """Every chart of every audit in every format, by file name."""
    files: dict[str, bytes] = {}
    pairs = zip(map(as_shown, audits), map(as_shown, releases), strict=True)
    for number, (audit, release) in enumerate(pairs, start=1):
        stem = file_name(audit)
        if len(audits) > 1:
            stem = f"{number:02d}-{stem}"
        for name, draw in CHARTS.items():
            chart = draw(audit, release)
            if chart is not None:
                files |= files_of(f"{stem}-{name}", panels.chart_svg(chart))
    return files


def file_name(audit: Audit) -> str:
    """Dataset and attribute in letters that any file system takes."""
    words = f"{audit.subject.dataset} {audit.subject.attribute}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:LONGEST_NAME] or "release"


def files_of(stem: str, svg: str) -> dict[str, bytes]:
    """A picture for papers in every format, by file name."""
    plain = printable_svg(svg)
    return {
        f"{stem}.svg": plain.encode(),
        f"{stem}.png": _converted(plain, "png"),
        f"{stem}.pdf": _converted(plain, "pdf"),
    }


def printable_svg(svg: str) -> str:
    """A picture in plain light colours on white, for programs without style sheets.

    >>> printable_svg('<title>a</title><path fill="var(--ink, #1f2933)"/>')
    '<title>a</title><path fill="#1f2933"/>'
    """
    plain = ROLE.sub(r'="\1"', svg)
    plain = plain.replace('="currentColor"', f'="{looks.LIGHT["ink"]}"')
    plain = plain.replace('font-weight="650"', 'font-weight="700"')
    return STYLE.sub(WHITE, plain, count=1)


def _converted(svg: str, kind: str) -> bytes:
    try:
        import vl_convert
    except ImportError:
        raise not_installed(
            "vl-convert", extra="figures", needed_by=f"a picture as {kind.upper()}"
        ) from None
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
