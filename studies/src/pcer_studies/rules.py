"""Questions that many claims share, and how their figures are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pcer.auditing import TIE_TOLERANCE, decimals, pearson, signed
from pcer.release import proxies
from pcer_studies.judgement import LuckTest, Remark, Reply, Support, Test
from pcer_studies.numbers import side
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    NO_DP,
    Configuration,
    budget_label,
    configuration,
)
from pcer_studies.published import NotThere, text_figure
from pcer_studies.results import GAP
from pcer_studies.views import OurRun, Paper, View

COMPAS = configuration("compas", "race")
ADULT_SEX = configuration("adult", "sex")
ADULT_RACE = configuration("adult", "race")
ACS_RACE = configuration("acs", "race")
ACS_SEX = configuration("acs", "sex")
BIOS = configuration("bios", "gender")

PRIVATE = tuple(epsilon for epsilon in BUDGETS if epsilon != NO_DP)
FROM_HALF = (0.5, 1.0, 5.0, 10.0)
FROM_1 = (1.0, 5.0, 10.0)
STRONGEST = 0.1
"""The smallest budget, which the paper calls floor-dominated."""

SHARPER = {
    cost.name: cost.short for cost in (proxies.PAIRED_GAP, proxies.PAIRED_CONFIDENCE, proxies.LIRA)
}
"""Costs of the same sweep that see more than the gap does, as they are called in print."""

FLAT = 0.1
"""Values that differ by less than this share of the largest count as flat."""

ByBudget = Callable[[View, float], float]
"""A number of one configuration, by budget."""
StudySetting = tuple[Configuration, float]
SETTINGS: tuple[StudySetting, ...] = tuple((one, e) for one in CONFIGURATIONS for e in BUDGETS)
CELLS = tuple((one, epsilon, group) for one, epsilon in SETTINGS for group in (0, 1))
"""Every group of every setting."""


def printed(name: str) -> float:
    """A number of the paper's text, by its name.

    >>> printed("sign_agreements")
    32.0
    """
    value = text_figure(name).value
    if value is None:
        raise NotThere(f"{name} is not a number")
    return value


def correlation(points: Sequence[tuple[float, float]]) -> float:
    """Pearson's r; NotThere for fewer than three points, or where one side does not vary.

    >>> correlation([(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)])
    1.0
    """
    r = pearson(list(points))
    if r is None:
        raise NotThere("a correlation needs three points, and variation on both sides")
    return r


def is_flat(values: Sequence[float]) -> bool:
    """Whether values differ by little.

    >>> is_flat((0.224, 0.229)), is_flat((0.127, 0.229))
    (True, False)
    """
    return max(values) - min(values) <= FLAT * max(values)


def both_gaps(view: View, one: Configuration, budgets: Iterable[float]) -> list[list[float]]:
    """The two groups' mean gaps at each budget."""
    return [[view.gap(one, epsilon, group) for group in (0, 1)] for epsilon in budgets]


def budget_words(budgets: Iterable[float]) -> str:
    """Budgets in print.

    >>> budget_words((5.0, 10.0)), budget_words((NO_DP,))
    ('ε 5, 10', 'no-DP')
    """
    names = [budget_label(epsilon) for epsilon in budgets]
    return (
        ("ε " if names and names[0] != "no-DP" else "") + ", ".join(names) if names else "no budget"
    )


def gap_words(*values: float) -> str:
    """Gaps as the paper writes them.

    >>> gap_words(0.0074, 0.0099)
    '.0074/.0099'
    """
    return "/".join(decimals(value, 4).replace("0.", ".", 1) for value in values)


def rate_words(value: float) -> str:
    """A rate or an outcome gap as the paper writes it.

    >>> rate_words(0.127)
    '.127'
    """
    return decimals(value, 3).replace("0.", ".", 1)


def r_words(value: float) -> str:
    """A correlation in print.

    >>> r_words(-0.8)
    '−0.80'
    """
    return f"{value:+.2f}".replace("-", "−")


def row_words(budgets: Sequence[float], values: Sequence[str]) -> str:
    """Values with their budgets: "−155, −169 (ε 1, 5)".

    >>> row_words((1.0, 5.0), ("−155", "−169"))
    '−155, −169 (ε 1, 5)'
    """
    return f"{', '.join(values)} ({budget_words(budgets)})"


def range_words(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Smallest to largest, or the one value that all share.

    >>> range_words((0.228, 0.229), rate_words)
    '.228 to .229'
    """
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def extreme(
    value: ByBudget, view: View, pick: Callable[[Iterable[float]], float]
) -> tuple[float, ...]:
    """Budgets of the smallest (``min``) or largest (``max``) value, ties included."""
    values = {epsilon: value(view, epsilon) for epsilon in BUDGETS}
    best = pick(values.values())
    slack = TIE_TOLERANCE * max(abs(one) for one in values.values())
    return tuple(epsilon for epsilon, one in values.items() if abs(one - best) <= slack)


def parity_of(one: Configuration) -> ByBudget:
    """Its demographic parity gap, by budget."""
    return lambda view, epsilon: view.parity(one, epsilon)


def odds_of(one: Configuration) -> ByBudget:
    """Its equalized odds gap, by budget."""
    return lambda view, epsilon: view.odds(one, epsilon)


def size_of(one: Configuration) -> ByBudget:
    """The size of its disparity at the default floor, by budget."""
    return lambda view, epsilon: abs(view.disparity(one, epsilon))


def best_words(one: Configuration, view: View) -> str:
    """Which budget each of the two measures would choose."""
    parity, size = (extreme(value, view, min) for value in (parity_of(one), size_of(one)))
    return (
        f"smallest DP gap {rate_words(view.parity(one, parity[0]))} at {budget_words(parity)}; "
        f"smallest disparity {signed(view.disparity(one, size[0]))} at {budget_words(size)}"
    )


def beyond_zero(one: Configuration, budgets: Sequence[float], *, sign: int) -> Test:
    """Mean disparities of one sign whose intervals exclude 0."""

    def ask(view: View) -> Reply:
        means = [view.disparity(one, epsilon) for epsilon in budgets]
        sides = [side(view.interval(one, epsilon)) for epsilon in budgets]
        n = sum(found == sign for found in sides)
        word = "above" if sign > 0 else "below"
        return Reply(
            row_words(budgets, [signed(mean) for mean in means]),
            n == len(budgets),
            f"The interval lies {word} 0 at {n} of {len(budgets)}.",
        )

    return ask


def disparity_shown(one: Configuration, budgets: Sequence[float]) -> LuckTest:
    """Evidence of a disparity: at every budget it is more than split luck."""

    def ask(view: View) -> Support:
        found = [epsilon for epsilon in budgets if view.disparity_is_evidence(one, epsilon)]
        where = f"at {len(found)} of {len(budgets)} budgets"
        if isinstance(view, Paper):
            why = f"The gap of the group with the lower ratio stands out from split luck {where}."
        else:
            why = f"The audit shows the disparity {where}."
        return Support(len(found) == len(budgets), why)

    return ask


def costs_resolved(one: Configuration, budgets: Sequence[float]) -> LuckTest:
    """Evidence for a comparison of gaps: every gap in it is more than split luck."""
    return all_resolved([(one, epsilon, group) for epsilon in budgets for group in (0, 1)])


def all_resolved(cells: Sequence[tuple[Configuration, float, int]]) -> LuckTest:
    """Evidence that rests on gaps: each of them is more than split luck."""

    def ask(view: View) -> Support:
        n = sum(view.stands_out(*cell) for cell in cells)
        verb = "stand out from split luck" if isinstance(view, Paper) else "are resolved"
        return Support(n == len(cells), f"{n} of the {len(cells)} gaps it rests on {verb}.")

    return ask


def ranking_resolved(one: Configuration) -> LuckTest:
    """Evidence for a ranking: every gap at the budgets that the two measures choose."""

    def ask(view: View) -> Support:
        chosen = {*extreme(parity_of(one), view, min), *extreme(size_of(one), view, min)}
        return costs_resolved(one, sorted(chosen))(view)

    return ask


def costs_differ(one: Configuration, budgets: Sequence[float]) -> LuckTest:
    """Evidence that one group bears more: equal costs are refuted at every budget."""

    def ask(view: View) -> Support:
        n = sum(view.costs_differ(one, epsilon) for epsilon in budgets)
        told = (
            "Noise levels taken off, the gaps differ"
            if isinstance(view, Paper)
            else ("The audit finds the costs unequal, in this direction,")
        )
        return Support(n == len(budgets), f"{told} at {n} of {len(budgets)} budgets.")

    return ask


def more_exposed(run: OurRun, one: Configuration, cost: str) -> dict[str, list[float]]:
    """By group: the budgets at which the audit with this cost finds it the more exposed."""
    found: dict[str, list[float]] = {name: [] for name in one.groups}
    for claim in run.audit(one, cost).comparisons[0].equal_gap_claims:
        if claim.refuted:
            epsilon = NO_DP if claim.epsilon is None else claim.epsilon
            found[claim.groups[0 if claim.cost_difference > 0 else 1]].append(epsilon)
    return found


def sharper_exposure(one: Configuration) -> Remark:
    """Who is the more exposed by sharper costs, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in SHARPER.items():
            found = more_exposed(run, one, cost)
            said = [
                f"{group} at {budget_words(budgets)}" for group, budgets in found.items() if budgets
            ]
            parts.append(f"{name}: {' and '.join(said) or 'neither at any budget'}")
        return f"More exposed by sharper costs: {'; '.join(parts)}."

    return tell


def sharper_disparity(one: Configuration, budgets: Sequence[float]) -> Remark:
    """At how many budgets sharper costs show a disparity, and for whom, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in SHARPER.items():
            lower = [run.pair(one, epsilon, cost).lower_ratio for epsilon in budgets]
            counts = [
                f"{lower.count(group)} (lower ratio: {group})"
                for group in one.groups
                if group in lower
            ]
            parts.append(f"{name} {' and '.join(counts) or 'none'}")
        return f"Shown by sharper costs, of {len(budgets)} budgets: {'; '.join(parts)}."

    return tell


def sharper_double(one: Configuration) -> Remark:
    """Where sharper costs show a double disadvantage, in a sentence."""

    def tell(run: OurRun) -> str:
        parts = []
        for cost, name in (*{GAP: "gap"}.items(), *SHARPER.items()):
            found: dict[str, list[float]] = {}
            for epsilon in BUDGETS:
                for group in run.budget(one, epsilon, cost).double_disadvantage:
                    found.setdefault(group, []).append(epsilon)
            said = [f"{group} at {budget_words(where)}" for group, where in found.items()]
            parts.append(f"{name}: {' and '.join(said) or 'nowhere'}")
        return f"Double disadvantage by the audit: {'; '.join(parts)}."

    return tell
