"""Which tables tell the tests?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pcer import wording
from pcer.auditing.record import Audit, BudgetResult, GroupResult, PairResult
from pcer.paper.records import PublishedPair
from pcer.release import attack_kinds
from pcer.report.table import SOFT_HYPHEN, Table, pair_name
from pcer.report.tables.background import (
    Column,
    amount_text,
    difference_text,
    short_name_of,
    table_of,
)
from pcer.report.tables.finding import detected_text, exposure_text, interval_head

EVIDENCE = {True: "beyond\nthe null", False: "none", None: wording.NOTHING}
# heads a column of adjusted p-values with those of single tests in brackets
P_BOTH = "p\n(alone)"


def resolution_table(audit: Audit) -> Table:
    """Per setting and group: is its exposure detected? In the units of ``finding_table``."""
    received = wording.templates()[audit.plan.benefit]["head"]
    scale = audit.proxy.scale

    def cost(_: BudgetResult, __: str, group: GroupResult) -> str:
        found = group.cost
        error = (
            ""
            if found.value is None
            else f" ± {amount_text(scale, found.standard_error)}"
        )
        ends = ", ".join(exposure_text(audit, end, 2) for end in found.interval or ())
        return (
            f"{exposure_text(audit, found.value, 2)}{error}\n[{ends or 'no interval'}]"
        )

    columns: list[Column] = [
        ("ε", lambda budget, *_: short_name_of(budget)),
        ("group", lambda _, name, group: name),
        (
            received,
            lambda *at: amount_text(attack_kinds.ACCURACY, at[2].benefit.mean, 1),
        ),
        (
            "gap,\nof 100",
            lambda *at: amount_text(attack_kinds.ACCURACY, at[2].overfitting_gap.mean),
        ),
        (f"{scale.column}\n± error\n{interval_head(audit)}", cost),
        ("noise\nlevel", lambda *at: exposure_text(audit, at[2].noise_level, 2)),
        ("at\nmost", lambda *at: exposure_text(audit, at[2].cost.upper_bound, 2)),
        (
            f"detect{SOFT_HYPHEN}able",
            lambda *at: exposure_text(audit, at[2].detectable_cost, 2),
        ),
        (f"detection,\n{P_BOTH}", lambda *at: _both_p(at[2])),
        ("detected", detected_text),
    ]
    groups = (
        (budget, *group) for budget in audit.budgets for group in budget.groups.items()
    )
    return table_of(audit, "signal", columns, groups, 2, chance=scale.coin)


def table_of_pairs(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    *,
    by_gap: bool = False,
    **values: str,
) -> Table:
    """A row for every setting and pair; beside disparities stands what they are worth.

    That is the setting's verdict, and of the paper's numbers whether they are beyond
    their null. Cells are made of the setting, the pair, and the paper's numbers of the
    pair.
    """
    several = len(audit.subject.groups) > 2
    labels: list[Column] = [("ε", lambda budget, *_: short_name_of(budget))]
    if several:
        labels.append(("groups", lambda _, pair, __: pair_name(pair.groups)))
    if by_gap:
        labels.append(
            ("evidence", lambda *at: EVIDENCE[at[2].pcer_disparity.is_beyond_null])
        )
    elif name != "differences":
        verdict = "verdict of\nthe setting" if several else "verdict"
        labels.append((verdict, lambda budget, *_: budget.verdict.words))
    return table_of(
        audit, name, [*labels, *columns], setting_pairs(audit), len(labels), **values
    )


def setting_pairs(
    audit: Audit,
) -> Iterator[tuple[BudgetResult, PairResult, PublishedPair]]:
    """Every setting with each of its pairs, and the paper's numbers of that pair."""
    published = {
        (m.model, b.epsilon): b.pairs for m in audit.published for b in m.budgets
    }
    for budget in audit.budgets:
        found = published[budget.model, budget.epsilon]
        yield from ((budget, *pairs) for pairs in zip(budget.pairs, found, strict=True))


def pairs_table(audit: Audit) -> Table:
    """Per setting and pair: do the ratios differ, who has the lower one, the pooled estimate."""

    def double(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        double = pair.double_disadvantage
        return f"{double.group or wording.NOTHING}\n{_both_p(double)}"

    def pooled(_: BudgetResult, pair: PairResult, __: PublishedPair) -> str:
        if pair.pooled.disparity is None:
            return wording.NOTHING
        label = "" if pair.pooled.costs_resolved else " (n.d.)"
        return f"{wording.signed(pair.pooled.disparity)}{label}\n{wording.bounds(pair.pooled.ci)}"

    columns: list[Column] = [
        (
            "cross\nproduct",
            lambda _, pair, __: wording.signed(pair.ratio.cross_product),
        ),
        (f"ratio,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.ratio)),
        ("lower\nratio", lambda _, pair, __: pair.ratio.group or wording.NOTHING),
        (f"doubly dis{SOFT_HYPHEN}advantaged,\n{P_BOTH}", double),
        ("pooled\ndisparity", pooled),
        (
            "disparity if\nnothing memorised",
            lambda *at: wording.bounds(at[1].pcer_disparity.null_interval),
        ),
        (
            "sign holds\nbelow floor",
            lambda *at: wording.decimals(at[1].sign_holds_below_floor, 4),
        ),
    ]
    return table_of_pairs(audit, "pairs", columns)


def differences_table(audit: Audit) -> Table:
    """Per setting and pair: by how much exposures and outcomes differ, for people like these."""
    scale = audit.proxy.scale
    rates = attack_kinds.ACCURACY
    received = audit.plan.benefit.replace("_", " ")
    columns: list[Column] = [
        (
            "exposure, first\nminus second",
            lambda _, pair, __: difference_text(scale, pair.exposure.difference),
        ),
        (
            "at most,\neither way",
            lambda _, pair, __: amount_text(
                scale, pair.exposure.difference.upper_bound
            ),
        ),
        (f"exposure,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.exposure)),
        (
            f"{received},\nfirst minus second",
            lambda *at: difference_text(rates, at[1].outcomes.difference),
        ),
        (f"outcomes,\n{P_BOTH}", lambda _, pair, __: _both_p(pair.outcomes)),
        ("driven by", lambda _, pair, __: pair.ratio.driven_by or wording.NOTHING),
    ]
    pairs = audit.budgets[0].pairs
    only = f"{pair_name(pairs[0].groups)}. " if len(pairs) == 1 else ""
    return table_of_pairs(audit, "differences", columns, only=only)


def _both_p(test: Any) -> str:
    return wording.both_p(test.p_value, test.p_value_alone)
