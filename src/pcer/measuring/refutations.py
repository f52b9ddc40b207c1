"""Which alarms do made-up groups, the family or the floor refute?

An alarm is downgraded where something that has nothing to do with the groups would have
raised it too: made-up groups, permuted groups, other attributes of the same records,
the floor. Its p-value stays as it is, so that anyone can recompute it.

Each statement is held against its own check only: exposures against permuted exposures,
ratios against permuted ratios. A double disadvantage rests on the difference of
exposures: in a harm task the group with the worse rate and the higher exposure may well
have the same ratio, so the check of ratios says nothing about it.

``downgrade`` is called by the audit; ``alarms`` by ``attacks.placebo`` and the
benchmarks, which count how often made-up groups raise an alarm. To add a reason: a line
in ``_refutations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pcer.measuring.evidence import Evidence, Statement, Tested, decide
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import Measured, measure_panel
from pcer.measuring.pair_tests import (
    AttackTests,
    PairDifference,
    PairTests,
    stacked_tests,
)
from pcer.measuring.plan import Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.panel import Panel
from pcer.release.records import Outcome
from pcer.statistics import SIGNIFICANCE, holm
from pcer.wording import p_words

# Made-up groups raise too many alarms where alarms of 5 % would do so with at most this
# chance: from 19 of 200 on.
TOO_MANY = 0.01
TOGETHER = (
    "within chance when judged together with the other attributes of the same records"
)


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double_disadvantage: IntArray  # the doubly disadvantaged group, -1 for none


class Place(NamedTuple):
    """Where an alarm is: numbers of a setting and a pair."""

    setting: int
    pair: int


def downgrade(
    tested: Tested,
    attacks: tuple[str, ...],
    *,
    family_p: tuple[float, float] | None = None,
) -> Evidence:
    """The evidence of some attacks without the alarms that something else explains.

    Args:
        tested: the release with all its tests.
        attacks: whose evidence it is, the first being the one whose numbers people see.
        family_p: of the release's strongest comparison of exposures or ratios, and of
            benefits, among all releases of the same records; None for one release.
    """
    evidence = tested.evidence[attacks]
    together = [_family_refutation(p) for p in family_p or (0.0, 0.0)]
    stands: dict[Statement, BoolArray] = {
        "exposure": evidence.exposures_differ.copy(),
        "outcomes": evidence.benefits_differ.copy(),
        "ratio": evidence.ratios_differ.copy(),
        "double": evidence.double_disadvantage >= 0,
    }
    reasons = dict[tuple[int, int, Statement], str]()
    for setting, pair in np.argwhere(np.any([*stands.values()], axis=0)).tolist():
        place = Place(setting, pair)
        held = [statement for statement in stands if stands[statement][place]]
        refuted = _refutations(tested, attacks, place, held, together)
        for statement, reason in refuted.items():
            stands[statement][place] = False
            reasons[setting, pair, statement] = reason
        if tested.measured[attacks[0]][setting].is_below_floor(tested.pairs[pair]):
            stands["ratio"][place] = False
    return replace(
        evidence,
        exposures_differ=stands["exposure"],
        benefits_differ=stands["outcomes"],
        ratios_differ=stands["ratio"],
        double_disadvantage=np.where(
            stands["double"], evidence.double_disadvantage, -1
        ),
        reasons=reasons,
    )


def _refutations(
    tested: Tested,
    attacks: tuple[str, ...],
    place: Place,
    held: Sequence[Statement],
    together: Sequence[str | None],
) -> dict[Statement, str]:
    """Why statements that held of a pair do not count; those that stand are left out.

    ``together`` is what the family says of exposures and ratios, and of outcomes. A
    strict policy believes no made-up groups.
    """
    setting, pair = place
    policy = tested.plan.policy
    exposure = ratio = None
    if policy is None or not policy.strict:
        decided_by = tested.evidence[attacks].decided_by[place]
        exposure = tested.placebo(setting, attacks[decided_by], pair)
        ratio = tested.placebo(setting, attacks[0], pair)

    against: dict[Statement, list[str | None]] = {
        "exposure": [together[0]],
        "outcomes": [together[1]],
        "ratio": [together[0]],
        "double": [],
    }
    double = None
    if exposure is not None:
        p = exposure.exposure_p
        n_draws = exposure.n_draws
        against["exposure"].append(refutation(p, exposure.n_exposure, n_draws))
        double = refutation(p, exposure.n_double, n_draws)
    if ratio is not None:
        by_groups = refutation(ratio.ratio_p, ratio.n_ratio, ratio.n_draws)
        against["ratio"].append(by_groups)
    # A double disadvantage stands only where both of its answers do.
    for statement in ("exposure", "outcomes"):
        if statement in held:
            against["double"] += against[statement]
    against["double"].append(double)

    first_reasons = {statement: _first(against[statement]) for statement in held}
    return {name: why for name, why in first_reasons.items() if why is not None}


def _family_refutation(p: float) -> str | None:
    return None if p <= SIGNIFICANCE else f"{TOGETHER} ({p_words(p)})"


def _first(reasons: Sequence[str | None]) -> str | None:
    """The first reason there is."""
    for reason in reasons:
        if reason is not None:
            return reason
    return None


def refutation(p_value: float | None, n_alarms: int | None, n_draws: int) -> str | None:
    """Why an alarm does not count by the release's made-up groups; None if it does.

    Args:
        p_value: of the real groups among permuted ones.
        n_alarms: made-up groups that raise this alarm. Refuted where the chance of so
            many, or more, is below ``TOO_MANY`` if each has the chance of 5 % that a
            test may have.
        n_draws: made-up groups that were tried.
    """
    from scipy.special import bdtrc

    if p_value is not None and p_value > SIGNIFICANCE:
        return f"randomly drawn groups differ as much (permutation {p_words(p_value)})"
    if not n_alarms:
        return None
    chance = float(bdtrc(n_alarms - 1, n_draws, SIGNIFICANCE))
    if chance < TOO_MANY:
        return f"{n_alarms} of {n_draws} made-up groups raise this alarm, too"
    return None


def alarms(  # noqa: PLR0913 # front door of the room
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    plan: Plan,
    *,
    cost: str,
    outcome: Outcome,
    n_families: int = 1,
    variance_inflation: FloatArray | None = None,
) -> Alarms:
    """What audits of many families of pairs would say by one attack: fast.

    Args:
        panels: every setting.
        pairs: of all families, in blocks of equal size.
        plan: as for an audit.
        cost: the attack's name.
        outcome: whether more of the benefit is good or bad for people.
        n_families: how many blocks there are; each is audited alone.
        variance_inflation: (group,) by how much clumps of records multiply a variance.
    """
    outcome = plan.outcome_of(outcome)
    measured = [
        measure_panel(panel, plan, cost, variance_inflation=variance_inflation)
        for panel in panels
    ]
    tests = stacked_tests(measured, pairs)
    shape = tests.cross.value.shape
    raised = Alarms(
        exposures_differ=np.zeros(shape, dtype=np.bool_),
        benefits_differ=np.zeros(shape, dtype=np.bool_),
        ratios_differ=np.zeros(shape, dtype=np.bool_),
        double_disadvantage=np.full(shape, -1),
    )
    n_pairs = len(pairs) // n_families
    starts = range(0, len(pairs), n_pairs)
    families = [slice(start, start + n_pairs) for start in starts]
    for family in families:
        benefit_p = tests.benefit.p_alone[:, family]
        raised.benefits_differ[:, family] = holm(benefit_p) <= SIGNIFICANCE
    for number in np.flatnonzero(_may_alarm(tests, n_families)):
        family = families[number]
        family_pairs = np.array(pairs[family])
        found = _family_alarms(
            measured, _pairs_of(tests, family), family_pairs, outcome
        )
        raised.exposures_differ[:, family] = found.exposures_differ
        raised.ratios_differ[:, family] = found.ratios_differ
        raised.double_disadvantage[:, family] = found.double_disadvantage
    return raised


def _may_alarm(tests: PairTests, n_families: int) -> BoolArray:
    """Families (family,) in which some exposure or ratio passes Bonferroni.

    The others say nothing, so their exact p-values of memorisation, which take long,
    are not needed.
    """
    n_settings = len(tests.cross.value)
    may_alarm = np.zeros(n_families, dtype=np.bool_)
    for kind in (tests.exposure, tests.cross):
        p = kind.p_alone.reshape(n_settings, n_families, -1)
        n_tests = np.maximum(np.isfinite(p).sum(axis=(0, 2)), 1)
        may_alarm |= (p <= (SIGNIFICANCE / n_tests)[:, None]).any(axis=(0, 2))
    return may_alarm


def _pairs_of(tests: PairTests, family: slice) -> PairTests:
    def only(kind: PairDifference) -> PairDifference:
        return PairDifference(*[part[:, family] for part in kind])

    return PairTests(only(tests.exposure), only(tests.benefit), only(tests.cross))


def _family_alarms(
    measured: Sequence[Measured],
    tests: PairTests,
    pairs: IntArray,
    outcome: Outcome,
) -> Alarms:
    """The alarms of one family: only its own groups, (pair, side), are tested."""
    groups, numbers = np.unique(pairs, return_inverse=True)
    memorised_p = np.stack([setting.memorised_p(groups) for setting in measured])
    renumbered = tuple((int(i), int(j)) for i, j in numbers.reshape(-1, 2))
    found = decide([AttackTests(memorised_p, tests)], renumbered, outcome=outcome)
    return Alarms(
        exposures_differ=found.exposures_differ,
        benefits_differ=found.benefits_differ,
        ratios_differ=found.ratios_differ,
        double_disadvantage=np.where(
            found.double_disadvantage >= 0, groups[found.double_disadvantage], -1
        ),
    )
