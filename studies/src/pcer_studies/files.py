"""Every file that a study's releases give: the same folder gives the same bytes."""

from __future__ import annotations

from pcer.report import to_report
from pcer_studies.cells import to_csv, to_page
from pcer_studies.compare import compare
from pcer_studies.figure import figure1
from pcer_studies.readme import to_readme
from pcer_studies.results import Study
from pcer_studies.tables import paper_tables
from pcer_studies.typeset import to_latex_document, to_markdown_tables

REPORT = "report.html"


def study_files(study: Study, *, report: bool = True) -> dict[str, str | bytes]:
    """File contents by name, besides the releases and ``study.json``.

    Args:
        study: what was run.
        report: whether to make the page of all releases, which is large.
    """
    comparisons, tables, figures = compare(study), paper_tables(study), figure1(study)
    files: dict[str, str | bytes] = {
        "README.md": to_readme(study, comparisons),
        "cells.csv": to_csv(comparisons),
        "cells.md": to_page(comparisons),
        "tables.md": to_markdown_tables(tables, figure=bool(figures)),
        "tables.tex": to_latex_document(tables, figure=bool(figures)),
        **figures,
    }
    if report:
        there = [(one.dataset, one.attribute) for one in study.configurations]
        audits = [study.verdicts[key] for key in there]
        files[REPORT] = to_report(audits, [study.release(*key) for key in there])
    return files
