"""The study: the paper's protocol, its published figures, and ours beside them.

Everything here but ``run`` belongs to the auditor's half: it reads releases and never trains.
"""

from __future__ import annotations

from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, Configuration
from pcer_studies.published import Cell, TextFigure, published_cells, text_figures
from pcer_studies.results import Study

__all__ = [
    "BUDGETS",
    "CONFIGURATIONS",
    "Cell",
    "Configuration",
    "Study",
    "TextFigure",
    "published_cells",
    "text_figures",
]
