"""Which charts has an audit by name, and what do ``--figures`` and ``plot`` give?

To add a chart: a function of an audit and its release beside this file, which returns a
``Chart`` (or None where there is nothing to draw), and a row of ``CHARTS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from pcer.auditing.record import Audit
from pcer.deciding.planner import Outlook
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.file import Release
from pcer.report.pictures.attacks import costs
from pcer.report.pictures.exposure import finding_svg
from pcer.report.pictures.figure1 import figure1
from pcer.report.pictures.outlook import outlook_chart
from pcer.report.pictures.panels import Chart, chart_svg
from pcer.report.pictures.picture import Picture, files_of

LONGEST_NAME = 60
FINDING = "finding"
OUTLOOK = "outlook"

# By the name of their file, in reading order.
CHARTS: Final[dict[str, Callable[[Audit, Release], Chart | None]]] = {
    "figure1": figure1,
    "costs": costs,
}


def finding_picture(audit: Audit) -> Picture:
    """The page's own picture of an audit: every group's exposure in every setting."""
    return Picture(audit.title, finding_svg(as_shown(audit)), FINDING)


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
    return Picture(audit.title, chart_svg(chart), name)


def outlook_picture(outlook: Outlook) -> Picture:
    """The curve over splits."""
    chart = outlook_chart(as_shown(outlook))
    return Picture(outlook.title, chart_svg(chart), OUTLOOK)


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
                files |= files_of(f"{stem}-{name}", chart_svg(chart))
    return files


def draw_outlook(outlook: Outlook) -> dict[str, bytes]:
    """The curve over splits in every format, by file name."""
    return files_of(OUTLOOK, chart_svg(outlook_chart(as_shown(outlook))))


def file_name(audit: Audit) -> str:
    """Dataset and attribute in letters that any file system takes."""
    words = f"{audit.subject.dataset} {audit.subject.attribute}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:LONGEST_NAME] or "release"
