"""How do people see an audit: tables, pages, pictures, files, and the check of both?

The command line and ``pcer.display`` call this room. It reads audits and the sentences
of ``pcer.auditing``, decides nothing, and renders in two steps: ``views`` and
``tables`` describe what is shown, and a file of ``formats`` writes the description.

To add a format: a file in ``formats``, and a row of ``FORMATS`` in ``pcer.cli.audit``
that calls it.
"""

from __future__ import annotations

from pcer.report.formats.junit import to_junit
from pcer.report.formats.latex import to_latex_tables
from pcer.report.formats.markdown import to_markdown_page
from pcer.report.formats.numbers import to_frame, to_metrics
from pcer.report.formats.opinion import Signed, signed_by, to_opinion
from pcer.report.page import to_report
from pcer.report.pictures.card import picture_of
from pcer.report.show import (
    NormsView,
    PaperView,
    save_page,
    to_chart,
    to_notebook,
    to_plain,
)
from pcer.report.verify import verify_audits, verify_picture, verify_report

__all__ = [
    "NormsView",
    "PaperView",
    "Signed",
    "picture_of",
    "save_page",
    "signed_by",
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
    "verify_picture",
    "verify_report",
]
