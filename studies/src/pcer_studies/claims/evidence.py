"""Would a model that memorises nothing show the same figures?

Called by the modules of claims: a claim holds only if its evidence says that its
figures are more than chance. The second half says what sharper attacks on the same
models find; ``ledger`` prints it below the claim. To add an attack: a row of SHARPER.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.paper.rankings import comparisons
from pcer.release import attack_kinds
from pcer_studies.claims.judgement import LuckTest, Remark, Support
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import SETTINGS, StudyCell, cells_of
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import budget_words
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration
from pcer_studies.results import GAP

SHARPER = {
    attack.name: attack.short
    for attack in (
        attack_kinds.PAIRED_GAP,
        attack_kinds.PAIRED_CONFIDENCE,
        attack_kinds.LIRA,
    )
}
"""Attacks on the same models that see more than the gap, with their names in print."""
SHARPEST = attack_kinds.LIRA.name
"""The attack whose sign is asked where a claim says who is the more exposed."""


def ratio_differs(
    configuration: Configuration, budgets: Sequence[float], *others: Configuration
) -> LuckTest:
    """Evidence of a disparity: at every budget it is more than chance."""
    settings = []
    for compared in (configuration, *others):
        settings += [(compared, epsilon) for epsilon in budgets]

    def ask(view: View) -> Support:
        n_evident = sum(view.disparity_is_evidence(*setting) for setting in settings)
        unit = "settings" if others else "budgets"
        where = f"at {n_evident} of {len(settings)} {unit}"
        if isinstance(view, Paper):
            why = (
                "The gap of the group with the lower ratio stands out from chance "
                f"{where}."
            )
        else:
            why = f"The audit finds that the ratio differs {where}."
        return Support(n_evident == len(settings), why)

    return ask


def exposures_detected(
    configuration: Configuration, budgets: Sequence[float]
) -> LuckTest:
    """Evidence for a comparison of gaps: every gap in it is more than chance."""
    return all_detected(cells_of([configuration], budgets))


def all_detected(cells: Sequence[StudyCell], *, share: float = 1.0) -> LuckTest:
    """Evidence that rests on gaps: each of them, or a share, is more than chance."""

    def ask(view: View) -> Support:
        n_evident = sum(view.stands_out(*cell) for cell in cells)
        verb = "stand out from chance" if isinstance(view, Paper) else "are detected"
        why = f"{n_evident} of the {len(cells)} gaps it rests on {verb}."
        return Support(n_evident >= share * len(cells), why)

    return ask


def exposures_differ(
    configuration: Configuration, budgets: Sequence[float]
) -> LuckTest:
    """Evidence that one group bears more: equal exposures are refuted at every budget.

    Our run is asked twice: by the gap, and by the sharpest attack, which must not say
    otherwise.
    """

    def ask(view: View) -> Support:
        n_differing = sum(view.exposures_differ(configuration, e) for e in budgets)
        if isinstance(view, Paper):
            finding = "Noise levels taken off, the gaps differ"
        else:
            finding = "The audit finds the exposures unequal, in this direction,"
        why = f"{finding} at {n_differing} of {len(budgets)} budgets."

        against = _budgets_against(view, configuration, budgets)
        if against:
            why += f" LiRA has the other sign at {budget_words(against)}."
        return Support(n_differing == len(budgets) and not against, why)

    return ask


def _budgets_against(
    view: View, configuration: Configuration, budgets: Sequence[float]
) -> list[float]:
    """Budgets at which the sharpest attack has the other group ahead."""
    if not isinstance(view, OurRun) or not view.carries(configuration, SHARPEST):
        return []
    against = []
    for epsilon in budgets:
        gaps = view.gap(configuration, epsilon, 0) - view.gap(configuration, epsilon, 1)
        pair = view.pair(configuration, epsilon, SHARPEST)
        difference = pair.exposure.difference.value
        if difference is not None and difference * float(gaps[0]) < 0:
            against.append(epsilon)
    return against


def unequal_in_most(view: View) -> Support:
    """Evidence that gaps are unequal as a rule: in more than half of all settings."""
    n_unequal = sum(view.exposures_differ(*setting) for setting in SETTINGS)
    why = f"Beyond chance in {n_unequal} of {len(SETTINGS)}."
    return Support(2 * n_unequal > len(SETTINGS), why)


# What sharper attacks say.


def more_exposed(
    run: OurRun, configuration: Configuration, attack: str
) -> dict[str, list[float]]:
    """By group: the budgets at which an attack finds it the more exposed."""
    budgets: dict[str, list[float]] = {name: [] for name in configuration.groups}
    for claim in comparisons(run.audit(configuration, attack))[0].equal_gap_claims:
        if claim.refuted:
            epsilon = NO_DP if claim.epsilon is None else claim.epsilon
            ahead = claim.groups[0 if claim.exposure_difference > 0 else 1]
            budgets[ahead].append(epsilon)
    return budgets


def sharper_exposure(configuration: Configuration) -> Remark:
    """Who is the more exposed by sharper attacks, in a sentence."""

    def tell(run: OurRun) -> str:
        answers = []
        for attack, name in SHARPER.items():
            named = _groups_at(more_exposed(run, configuration, attack))
            answers.append(f"{name}: {named or 'neither at any budget'}")
        return f"Easier to spot by sharper attacks: {'; '.join(answers)}."

    return tell


def sharper_disparity(configuration: Configuration, budgets: Sequence[float]) -> Remark:
    """At how many budgets the ratio differs by sharper attacks, and for whom."""

    def tell(run: OurRun) -> str:
        answers = []
        for attack, name in SHARPER.items():
            pairs = [run.pair(configuration, epsilon, attack) for epsilon in budgets]
            lower = [pair.ratio.group for pair in pairs]
            counts = [
                f"{lower.count(group)} (lower ratio: {group})"
                for group in configuration.groups
                if group in lower
            ]
            answers.append(f"{name} {' and '.join(counts) or 'none'}")
        return (
            f"Ratio differs by sharper attacks, of {len(budgets)} budgets: "
            f"{'; '.join(answers)}."
        )

    return tell


def sharper_double(configuration: Configuration) -> Remark:
    """Where the gap and sharper attacks find a double disadvantage, in a sentence."""
    attacks = {GAP: "gap", **SHARPER}

    def tell(run: OurRun) -> str:
        answers = []
        for attack, name in attacks.items():
            budgets: dict[str, list[float]] = {}
            for epsilon in BUDGETS:
                pair = run.pair(configuration, epsilon, attack)
                group = pair.double_disadvantage.group
                if group:
                    budgets.setdefault(group, []).append(epsilon)
            answers.append(f"{name}: {_groups_at(budgets) or 'nowhere'}")
        return f"Double disadvantage by the audit: {'; '.join(answers)}."

    return tell


def _groups_at(budgets_of: dict[str, list[float]]) -> str:
    """Groups with their budgets, those without one left out."""
    named = [
        f"{group} at {budget_words(budgets)}"
        for group, budgets in budgets_of.items()
        if budgets
    ]
    return " and ".join(named)
