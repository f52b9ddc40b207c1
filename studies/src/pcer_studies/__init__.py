"""The study: the paper's protocol, its published figures, and ours beside them.

The walk: ``protocol`` (what is trained), ``run`` (training into a folder), ``results``
(the folder read and audited), ``published`` (the paper's figures, each with its key),
``model_values`` (of every single model), ``agreement`` (over all configurations),
``numbers`` (our number under a key). Then ``tables`` for ``pcer reproduce``, ``claims``
for the pages, ``sensitivity`` for what the paper leaves open. What trains (``run`` and
``sensitivity.run``) belongs to the trainer's half, the rest to the auditor's.
"""

from __future__ import annotations

from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, Configuration
from pcer_studies.published import FigureKey, PrintedFigure, published_figures
from pcer_studies.results import Study

__all__ = [
    "BUDGETS",
    "CONFIGURATIONS",
    "Configuration",
    "FigureKey",
    "PrintedFigure",
    "Study",
    "published_figures",
]
