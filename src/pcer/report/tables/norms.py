"""How is it told which setting each norm of fairness prefers? One table.

Called by the paper's view, the page and ``found.norms()``. To add a number of a norm: a
line in ``_number``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer import wording
from pcer.auditing.record import Audit
from pcer.paper.norms import Norm, NormNumber
from pcer.report.table import Table
from pcer.report.tables.background import amount_text, titled_table
from pcer.wording import say

RATIOS = ("compensation", "worst_ratio")  # in units that nothing else has
BY_ATTACK = ("attack_apart", "worst_exposure")


def norms_table(audit: Audit, norms: Sequence[Norm]) -> Table:
    """A row for every setting, a column for every norm; last what each prefers."""
    heads = ["setting"]
    columns = [[setting.name.short for setting in audit.settings]]
    for norm in norms:
        heads.append(f"{norm.name}:\n{norm.measure}")
        columns.append([_cell(audit, norm.key, number) for number in norm.numbers])
    rows = [*zip(*columns, strict=True)]
    rows.append((say("norm", "prefers"), *map(_preference, norms)))
    weight = "helps" if audit.subject.prediction_is == "benefit" else "harms"
    reasons = _reasons(norms)
    return titled_table(audit, "norms", heads, rows, 1, weight=weight, reasons=reasons)


def _cell(audit: Audit, key: str, number: NormNumber) -> str:
    value = _number(audit, key, number.value)
    if number.interval is None:
        return value
    low, high = (_number(audit, key, end) for end in number.interval)
    return f"{value}\n[{low}, {high}]"


def _number(audit: Audit, key: str, value: float | None) -> str:
    if value is None:
        return wording.NOTHING
    if key in RATIOS:
        return wording.signed(value) if key == "compensation" else f"{value:.3g}"
    if key in BY_ATTACK:
        return amount_text(audit.attack_kind.scale, value, 1)
    return wording.decimals(100 * value, 1)


def _preference(norm: Norm) -> str:
    if norm.answer == "prefers":
        return norm.settings[0].short
    return say("norm", norm.answer, n=len(norm.settings))


def _reasons(norms: Sequence[Norm]) -> str:
    """Why norms prefer nothing: each reason once, with what it is about."""
    by_reason: dict[str, list[str]] = {}
    for norm in norms:
        if norm.why is not None:
            by_reason.setdefault(norm.why, []).append(norm.measure)
    sentences = []
    for why, measures in by_reason.items():
        about = wording.capital(wording.listed(measures))
        sentences.append(f" {about}: {why}.")
    return "".join(sentences)
