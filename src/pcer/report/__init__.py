"""What people see of an audit: tables, pages, charts, and the check that they are true."""

from __future__ import annotations

from pcer.report.formats.junit import to_junit
from pcer.report.formats.latex import to_latex_tables
from pcer.report.formats.markdown import to_markdown_page
from pcer.report.formats.metrics import to_metrics
from pcer.report.formats.opinion import to_opinion
from pcer.report.page import to_report
from pcer.report.pictures.exposure import finding_svg
from pcer.report.show import (
    PaperView,
    save_page,
    to_chart,
    to_frame,
    to_notebook,
    to_plain,
)
from pcer.report.verify import verify_audits, verify_report

__all__ = [
    "PaperView",
    "finding_svg",
    "save_page",
    "to_chart",
    "to_frame",
    "to_junit",
    "to_latex_tables",
    "to_markdown_page",
    "to_metrics",
    "to_notebook",
    "to_opinion",
    "to_plain",
    "to_report",
    "verify_audits",
    "verify_report",
]
