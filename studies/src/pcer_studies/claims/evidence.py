"""What makes figures evidence: that a model that memorises nothing would not show them too.

And what sharper attacks on the same models say beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.paper.comparisons import comparisons
from pcer.release import attack_kinds
from pcer_studies.claims.judgement import LuckTest, Remark, Support
from pcer_studies.claims.rules import SETTINGS, budget_words
from pcer_studies.claims.views import OurRun, Paper, View
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration
from pcer_studies.results import GAP

SHARPER = {
    cost.name: cost.short
    for cost in (
        attack_kinds.PAIRED_GAP,
        attack_kinds.PAIRED_CONFIDENCE,
        attack_kinds.LIRA,
    )
}
"""Attacks on the same models that see more than the gap does, as they are called in print."""
SHARPEST = attack_kinds.LIRA.name
"""The attack whose sign is asked where a claim says who is the more exposed."""


def ratio_differs(
    one: Configuration, budgets: Sequence[float], *others: Configuration
) -> LuckTest:
    """Evidence of a disparity: at every budget it is beyond what nothing memorised gives."""
    settings = [(each, epsilon) for each in (one, *others) for epsilon in budgets]

    def ask(view: View) -> Support:
        n = sum(view.disparity_is_evidence(*setting) for setting in settings)
        where = f"at {n} of {len(settings)} {'settings' if others else 'budgets'}"
        if isinstance(view, Paper):
            why = f"The gap of the group with the lower ratio stands out from chance {where}."
        else:
            why = f"The audit finds that the ratio differs {where}."
        return Support(n == len(settings), why)

    return ask


def costs_resolved(one: Configuration, budgets: Sequence[float]) -> LuckTest:
    """Evidence for a comparison of gaps: every gap in it is more than chance."""
    return all_resolved(
        [(one, epsilon, group) for epsilon in budgets for group in (0, 1)]
    )


def all_resolved(
    cells: Sequence[tuple[Configuration, float, int]], *, share: float = 1.0
) -> LuckTest:
    """Evidence that rests on gaps: each of them, or a share, is more than chance."""

    def ask(view: View) -> Support:
        n = sum(view.stands_out(*cell) for cell in cells)
        verb = "stand out from chance" if isinstance(view, Paper) else "are detected"
        return Support(
            n >= share * len(cells), f"{n} of the {len(cells)} gaps it rests on {verb}."
        )

    return ask


def costs_differ(one: Configuration, budgets: Sequence[float]) -> LuckTest:
    """Evidence that one group bears more: equal exposures are refuted at every budget.

    Our run is asked twice: by the gap, and by the sharpest attack, which must not say
    otherwise.
    """

    def ask(view: View) -> Support:
        n = sum(view.costs_differ(one, epsilon) for epsilon in budgets)
        told = (
            "Noise levels taken off, the gaps differ"
            if isinstance(view, Paper)
            else "The audit finds the exposures unequal, in this direction,"
        )
        apart = _sharpest_says_otherwise(view, one, budgets)
        against = f" LiRA has the other sign at {budget_words(apart)}." if apart else ""
        return Support(
            n == len(budgets) and not apart,
            f"{told} at {n} of {len(budgets)} budgets.{against}",
        )

    return ask


def _sharpest_says_otherwise(
    view: View, one: Configuration, budgets: Sequence[float]
) -> list[float]:
    """Budgets at which the sharpest attack has the other group ahead."""
    if not isinstance(view, OurRun) or not view.carries(one, SHARPEST):
        return []
    found = []
    for epsilon in budgets:
        gaps = view.gap(one, epsilon, 0) - view.gap(one, epsilon, 1)
        difference = view.pair(one, epsilon, SHARPEST).exposure.difference.value
        if difference is not None and difference * float(gaps[0]) < 0:
            found.append(epsilon)
    return found


def unequal_in_most(view: View) -> Support:
    """Evidence that gaps are unequal as a rule: in more than half of all settings."""
    n = sum(view.costs_differ(one, e) for one, e in SETTINGS)
    return Support(2 * n > len(SETTINGS), f"Beyond chance in {n} of {len(SETTINGS)}.")


# What sharper attacks say.


def more_exposed(run: OurRun, one: Configuration, cost: str) -> dict[str, list[float]]:
    """By group: the budgets at which the audit by this attack finds it the more exposed."""
    found: dict[str, list[float]] = {name: [] for name in one.groups}
    for claim in comparisons(run.audit(one, cost))[0].equal_gap_claims:
        if claim.refuted:
            epsilon = NO_DP if claim.epsilon is None else claim.epsilon
            found[claim.groups[0 if claim.cost_difference > 0 else 1]].append(epsilon)
    return found


def sharper_exposure(one: Configuration) -> Remark:
    """Who is the more exposed by sharper attacks, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in SHARPER.items():
            found = more_exposed(run, one, cost)
            said = [
                f"{group} at {budget_words(budgets)}"
                for group, budgets in found.items()
                if budgets
            ]
            parts.append(f"{name}: {' and '.join(said) or 'neither at any budget'}")
        return f"Easier to recognise by sharper attacks: {'; '.join(parts)}."

    return tell


def sharper_disparity(one: Configuration, budgets: Sequence[float]) -> Remark:
    """At how many budgets the ratio differs by sharper attacks, and for whom, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in SHARPER.items():
            lower = [run.pair(one, epsilon, cost).ratio.group for epsilon in budgets]
            counts = [
                f"{lower.count(group)} (lower ratio: {group})"
                for group in one.groups
                if group in lower
            ]
            parts.append(f"{name} {' and '.join(counts) or 'none'}")
        return f"Ratio differs by sharper attacks, of {len(budgets)} budgets: {'; '.join(parts)}."

    return tell


def sharper_double(one: Configuration) -> Remark:
    """Where sharper attacks find a double disadvantage, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in (*{GAP: "gap"}.items(), *SHARPER.items()):
            found: dict[str, list[float]] = {}
            for epsilon in BUDGETS:
                if group := run.pair(one, epsilon, cost).double_disadvantage.group:
                    found.setdefault(group, []).append(epsilon)
            said = [
                f"{group} at {budget_words(where)}" for group, where in found.items()
            ]
            parts.append(f"{name}: {' and '.join(said) or 'nowhere'}")
        return f"Double disadvantage by the audit: {'; '.join(parts)}."

    return tell
