"""What people see of an audit: tables, pages, charts, and the check that they are true."""

from __future__ import annotations

from pcer.report.notebook import save_page, to_chart, to_frame, to_notebook, to_plain
from pcer.report.page import to_report
from pcer.report.pictures import finding_svg
from pcer.report.text import to_junit, to_latex_tables, to_markdown_page
from pcer.report.verify import verify_audits, verify_report

__all__ = [
    "finding_svg",
    "save_page",
    "to_chart",
    "to_frame",
    "to_junit",
    "to_latex_tables",
    "to_markdown_page",
    "to_notebook",
    "to_plain",
    "to_report",
    "verify_audits",
    "verify_report",
]
