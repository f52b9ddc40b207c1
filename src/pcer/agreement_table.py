"""The agreement between proxies as a table."""

from __future__ import annotations

from pcer.audit_file import Agreement, BoundCheck
from pcer.notation import NOTHING, decimals
from pcer.table import Table


def agreement_table(found: Agreement) -> Table:
    """Each proxy beside the plan's cost."""
    rows = [
        (
            row.proxy.replace("_", " "),
            decimals(row.correlation, 2),
            f"{row.n_same_sign}/{row.n_settings}",
            f"{row.n_larger_disparity}/{row.n_settings}",
            decimals(row.disparity_correlation, 2),
            _bound(row.bound),
        )
        for row in found.proxies
    ]
    return Table(
        f"Do the proxies agree? Each beside {found.baseline.replace('_', ' ')}",
        (
            "proxy",
            "r of\ncosts",
            "same sign of\ndisparity",
            "larger\ndisparity",
            "r of dis-\nparities",
            "exceeds gap\n(beyond error)",
        ),
        tuple(rows),
        n_labels=1,
        note=(
            "Correlations over budgets and groups, counts over budgets and pairs: descriptive, as "
            "they share records. Last column: cells (budget, group) whose advantage is above the "
            "overfitting gap, which Proposition 1 claims never to happen; beyond error in brackets."
        ),
    )


def _bound(bound: BoundCheck | None) -> str:
    if bound is None:
        return NOTHING
    return f"{bound.n_cells_exceeding}/{bound.n_cells} ({bound.n_cells_refuting})"
