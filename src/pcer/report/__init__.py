"""What people see of an audit: tables, pages, charts, and the check that they are true."""

from __future__ import annotations

from pcer.report.changes import change_parts, changes_to_junit
from pcer.report.figures import complete, draw_figures, drawn
from pcer.report.frames import to_frame
from pcer.report.hero import hero_svg
from pcer.report.html import read_payload, to_report
from pcer.report.marks import Spec, legend, series
from pcer.report.notebook import save_page, to_chart, to_notebook, to_plain
from pcer.report.outlooks import OUTLOOK, outlook_parts, outlook_spec
from pcer.report.table import Table, latex_text, markdown_text, to_markdown, to_text, wrapped
from pcer.report.tables import headline
from pcer.report.terminal import (
    NARROWEST,
    WIDTH,
    Part,
    brief_parts,
    full_parts,
    overview_part,
    short_parts,
    to_terminal,
)
from pcer.report.text import to_junit, to_latex_tables, to_markdown_page
from pcer.report.verify import Difference, verify_audit, verify_audits, verify_report

__all__ = [
    "NARROWEST",
    "OUTLOOK",
    "WIDTH",
    "Difference",
    "Part",
    "Spec",
    "Table",
    "brief_parts",
    "change_parts",
    "changes_to_junit",
    "complete",
    "draw_figures",
    "drawn",
    "full_parts",
    "headline",
    "hero_svg",
    "latex_text",
    "legend",
    "markdown_text",
    "outlook_parts",
    "outlook_spec",
    "overview_part",
    "read_payload",
    "save_page",
    "series",
    "short_parts",
    "to_chart",
    "to_frame",
    "to_junit",
    "to_latex_tables",
    "to_markdown",
    "to_markdown_page",
    "to_notebook",
    "to_plain",
    "to_report",
    "to_terminal",
    "to_text",
    "verify_audit",
    "verify_audits",
    "verify_report",
    "wrapped",
]
