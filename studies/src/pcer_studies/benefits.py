"""What is Delta PCER where the benefit is the true positive rate, or precision?

The paper names this as its first limitation: the positive rate mixes what people are
with what the model does. ``python -m pcer_studies.benefits studies/paper studies/docs``
reads the study of the first folder and writes ``benefits.md`` into the second. To add a
benefit: a row of ``BENEFITS``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pcer
from pcer.files import write_files
from pcer.measuring.plan import Plan
from pcer.paper.records import Disparity
from pcer.report.formats.markdown import to_markdown
from pcer.report.table import Table
from pcer.wording import listed, short_budget, signed
from pcer_studies.protocol import Configuration
from pcer_studies.results import GAP, Study

PAGE = "benefits.md"
BENEFITS = {
    "positive_rate": "positive rate",
    "true_positive_rate": "TPR",
    "precision": "precision",
}
INTRODUCTION = (
    "The paper says that its benefit, the positive rate, mixes what people are with "
    "what the model does, and names precision by group as a measure that would not "
    '("Measurement limitations"). Here Δ PCER is computed with the true positive rate '
    "(among those who qualify) and with precision (among those predicted positive) in "
    "place of the rate, by the gap, seed by seed; in brackets the 95% bootstrap "
    "interval of the mean over seeds, as in the paper's tables. Higher precision is "
    "good for people whatever a positive prediction is, so that the sign means the "
    "same in every row of it. A calibration-adjusted benefit is out of scope: from one "
    "group's counts it is the group's base rate ([method](../../docs/method.md))."
)
END = (
    "An interval without 0 is no evidence of a privacy difference: it is one of the "
    "mean over these seeds, and a gap near its noise level makes any benefit a large "
    "ratio ([findings](findings.md)).\n\nMade with `python -m pcer_studies.benefits "
    "studies/paper studies/docs`; a test makes the page again."
)


def main(arguments: Sequence[str]) -> int:
    """Write the page: from the first folder into the second."""
    source, target = map(Path, arguments)
    write_files({target / PAGE: benefits_page(Study.read(source))})
    return 0


def benefits_page(study: Study) -> str:
    """The page; the same study gives the same bytes."""
    rows = []
    sentences = []
    for configuration in study.configurations:
        found = disparities(study, configuration)
        rows += _rows(configuration, found)
        sentences.append(_account(configuration, found))
    heads = ("data", "ε", *BENEFITS.values())
    table = Table("Δ PCER by three benefits", heads, tuple(rows), 2)
    parts = ["# Δ PCER by other benefits", INTRODUCTION, "\n".join(sentences)]
    parts += [to_markdown(table).strip("\n").removeprefix("#"), END]
    return "\n\n".join(parts) + "\n"


Found = dict[str, dict[float | None, Disparity]]  # by benefit and epsilon


def disparities(study: Study, configuration: Configuration) -> Found:
    """Delta PCER by the gap, of every budget and benefit."""
    release = study.release(*configuration.key)
    found: Found = {}
    for benefit in BENEFITS:
        audit = pcer.audit(release, Plan(attack=GAP, benefit=benefit))
        (published,) = audit.published
        found[benefit] = {
            setting.epsilon: setting.pairs[0].pcer_disparity
            for setting in published.settings
        }
    return found


def _rows(configuration: Configuration, found: Found) -> list[tuple[str, ...]]:
    rows = []
    for epsilon in found["positive_rate"]:
        cells = [_cell(found[benefit][epsilon]) for benefit in BENEFITS]
        rows.append((configuration.name, short_budget(epsilon), *cells))
    return rows


def _cell(disparity: Disparity) -> str:
    if disparity.mean is None or disparity.ci is None:
        return "–"
    low, high = map(signed, disparity.ci)
    return f"{signed(disparity.mean)} [{low}, {high}]"


def _account(configuration: Configuration, found: Found) -> str:
    """At which budgets the interval excludes 0, by each benefit."""
    parts = []
    for benefit, name in BENEFITS.items():
        budgets = [
            short_budget(epsilon)
            for epsilon, disparity in found[benefit].items()
            if disparity.ci is not None and not disparity.ci[0] <= 0 <= disparity.ci[1]
        ]
        parts.append(f"{name}: {listed(budgets) or 'nowhere'}")
    return f"- **{configuration.name}**, interval without 0 by {'; by '.join(parts)}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
