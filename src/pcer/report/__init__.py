"""What people see of an audit: tables, pages, charts, and the check that they are true."""

from __future__ import annotations

# Names after "as" are no part of the front: other rooms and the study still take them from here.
from pcer.report.changes import change_parts as change_parts
from pcer.report.changes import changes_to_junit as changes_to_junit
from pcer.report.figures import Spec as Spec
from pcer.report.figures import complete as complete
from pcer.report.figures import draw_figures
from pcer.report.figures import drawn as drawn
from pcer.report.figures import legend as legend
from pcer.report.figures import series as series
from pcer.report.notebook import save_page, to_chart, to_frame, to_notebook, to_plain
from pcer.report.outlooks import OUTLOOK as OUTLOOK
from pcer.report.outlooks import outlook_parts as outlook_parts
from pcer.report.outlooks import outlook_spec as outlook_spec
from pcer.report.page import read_payload as read_payload
from pcer.report.page import to_report
from pcer.report.pictures import finding_svg
from pcer.report.table import Table as Table
from pcer.report.table import latex_text as latex_text
from pcer.report.table import markdown_text as markdown_text
from pcer.report.table import to_markdown as to_markdown
from pcer.report.table import to_text as to_text
from pcer.report.table import wrapped as wrapped
from pcer.report.terminal import NARROWEST as NARROWEST
from pcer.report.terminal import WIDTH as WIDTH
from pcer.report.terminal import Part as Part
from pcer.report.terminal import brief_parts as brief_parts
from pcer.report.terminal import full_parts as full_parts
from pcer.report.terminal import overview_part as overview_part
from pcer.report.terminal import short_parts as short_parts
from pcer.report.terminal import to_terminal
from pcer.report.text import to_junit, to_latex_tables, to_markdown_page
from pcer.report.verify import Difference as Difference
from pcer.report.verify import verify_audits, verify_report

__all__ = [
    "draw_figures",
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
    "to_terminal",
    "verify_audits",
    "verify_report",
]
