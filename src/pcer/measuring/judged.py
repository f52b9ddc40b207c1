"""What stands of all tests, and how large is it?

``judge`` withdraws alarms that something else explains and adds the amounts that an
audit prints, as arrays: a ``Judged``. Called by ``audit`` for what ``run_tests`` made;
policies take the same ends of intervals by ``printed_tails``.

An alarm is downgraded where something that has nothing to do with the groups would have
raised it too: made-up or permuted groups, other attributes of the same records, the
floor. Its p-value stays, so that anyone can recompute it. Each statement is held
against its own check only. To add a reason: a line in ``_refutations``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from pcer.measuring import choose_attacks
from pcer.measuring.evidence import Evidence, Statement
from pcer.measuring.exposure import Measured
from pcer.measuring.group_differences import PairDifference
from pcer.measuring.sizes import tail_of
from pcer.measuring.tested import Tested
from pcer.measuring.variances import bonferroni_z
from pcer.measuring.wrongly import Wrongly
from pcer.metrics import BoolArray, FloatArray
from pcer.release.attack_kinds import AttackKind, attack_kind
from pcer.statistics import (
    EXPOSURE_SHARE,
    POWER_QUANTILE,
    SIGNIFICANCE,
    detectable,
)
from pcer.wording import p_words

# Made-up groups raise too many alarms where alarms of 5 % would do so with at most this
# chance: from 19 of 200 on.
TOO_MANY = 0.01
TOGETHER = (
    "within chance when judged together with the other attributes of the same records"
)


class Amounts(NamedTuple):
    """Exposures (setting, group) or differences (setting, pair); NaN: not known.

    The interval holds together with those of all such amounts of the audit
    (``tail_of``); it is known where value and error are, the error not being 0.
    """

    value: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    limit: FloatArray  # at the plan's level, of this amount alone
    detectable: FloatArray  # the smallest that 80% of such releases detect, or show

    @property
    def farther_end(self) -> FloatArray:
        """The end of the interval that is farther from 0: what the data allow."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


class FamilyP(NamedTuple):
    """Smallest p-values of a release, adjusted over releases of the same records."""

    exposure: float  # and of ratios
    outcomes: float
    wrongly: float
    missed: float


class PrintedTails(NamedTuple):
    """The chance with which either end of one interval may fail, by its family."""

    exposure: float  # of one group: settings x groups
    exposure_difference: float  # settings x pairs x attacks that decide
    outcomes: float  # settings x pairs, and so the next
    wrongly: float
    missed: float


def printed_tails(
    tested: Tested, confidence_level: float | None = None
) -> PrintedTails:
    """Tails of all printed intervals; by default at the plan's confidence level."""
    level = (
        tested.plan.confidence_level if confidence_level is None else confidence_level
    )
    n_groups = len(tested.panels) * len(tested.panels[0].group_names)
    main = tested.tests[tested.attack].pairs
    of_attacks = [tested.tests[attack].pairs.exposure for attack in tested.attacks]
    n_differences = sum(n_compared(difference) for difference in of_attacks)
    return PrintedTails(
        exposure=tail_of(level, n_groups),
        exposure_difference=tail_of(level, n_differences, share=EXPOSURE_SHARE),
        outcomes=tail_of(level, n_compared(main.benefit)),
        wrongly=tail_of(level, n_compared(tested.wrongly.difference)),
        missed=tail_of(level, n_compared(tested.missed.difference)),
    )


class JudgedErrors(NamedTuple):
    """One error rate of all settings and pairs."""

    tests: Wrongly
    differences: Amounts
    differ: BoolArray  # (setting, pair)
    reason: str | None  # why no difference counts


class Judged(NamedTuple):
    """All that an audit says in numbers, besides those of the paper."""

    evidence: Evidence  # of the deciding attacks, without alarms that are refuted
    by_attack: Mapping[str, Evidence]  # the same of each carried attack alone
    exposures: Amounts  # by the attack whose numbers people see, as all below
    # (setting, group) the mean of max(0, noise) of one split: its "gap" by chance
    noise_level: FloatArray
    # First minus second group, by each attack that decides.
    exposure_differences: Mapping[str, Amounts]
    outcome_differences: Amounts
    wrongly: JudgedErrors
    missed: JudgedErrors
    below_floor: BoolArray  # (setting, pair) both exposures are
    # Possible and absent, each with the release's reason.
    stronger_attacks: Sequence[tuple[AttackKind, str | None]]


def judge(
    tested: Tested,
    family_p: FamilyP | None,
    family_p_by_attack: Mapping[str, FamilyP | None],
) -> Judged:
    """Downgrade alarms, and compute what is printed beside them.

    ``family_p`` is of the release's strongest comparisons among all releases of the
    same records; None for one release.
    """
    evidence = tested.evidence[tested.attacks]
    return Judged(
        evidence=_downgraded(tested, tested.attacks, family_p),
        by_attack={
            attack: _downgraded(tested, (attack,), p)
            for attack, p in family_p_by_attack.items()
        },
        exposures=_exposures(tested, evidence),
        noise_level=_noise_level(tested),
        exposure_differences=_exposure_differences(tested),
        outcome_differences=_differences(
            evidence.benefit, _Tails.of(tested, "outcomes"), largest=1.0
        ),
        wrongly=_judged_errors(tested, "wrongly", family_p),
        missed=_judged_errors(tested, "missed", family_p),
        below_floor=_below_floor(tested, tested.attack),
        stronger_attacks=choose_attacks.stronger_attacks(
            tested.panels, tested.plan, tested.attacks, tested.release.not_computed
        ),
    )


def _judged_errors(
    tested: Tested, name: Literal["wrongly", "missed"], family_p: FamilyP | None
) -> JudgedErrors:
    """One of both errors, which are fields of ``Tested`` and of ``FamilyP``."""
    tests: Wrongly = getattr(tested, name)
    reason = None if family_p is None else _family_refutation(getattr(family_p, name))
    may_count = tested.contradiction is None and reason is None
    return JudgedErrors(
        tests=tests,
        differences=_differences(
            tests.difference, _Tails.of(tested, name), largest=1.0
        ),
        differ=(tests.difference.p_value <= SIGNIFICANCE) & may_count,
        reason=reason,
    )


def _main_settings(tested: Tested) -> Sequence[Measured]:
    return tested.measured[tested.attack]


def _below_floor(tested: Tested, attack: str) -> BoolArray:
    """(setting, pair) whether both exposures are."""
    by_setting = tested.measured[attack]
    return np.stack([measured.below_floor(tested.pairs) for measured in by_setting])


# Alarms that something else explains


def _downgraded(
    tested: Tested, attacks: tuple[str, ...], family_p: FamilyP | None
) -> Evidence:
    """The evidence of some attacks, of which people see the first one's numbers."""
    evidence = tested.evidence[attacks]
    together = [_family_refutation(p) for p in family_p or FamilyP(0.0, 0.0, 0.0, 0.0)]
    stands: dict[Statement, BoolArray] = {
        "exposure": evidence.exposures_differ.copy(),
        "outcomes": evidence.benefits_differ.copy(),
        "ratio": evidence.ratios_differ.copy(),
        "double": evidence.double_disadvantage >= 0,
    }
    reasons = dict[tuple[int, int, Statement], str]()
    for setting, pair in np.argwhere(np.any([*stands.values()], axis=0)).tolist():
        held = [statement for statement in stands if stands[statement][setting, pair]]
        refuted = _refutations(tested, attacks, (setting, pair), held, together)
        for statement, reason in refuted.items():
            stands[statement][setting, pair] = False
            reasons[setting, pair, statement] = reason
    return replace(
        evidence,
        exposures_differ=stands["exposure"],
        benefits_differ=stands["outcomes"],
        ratios_differ=stands["ratio"] & ~_below_floor(tested, attacks[0]),
        double_disadvantage=np.where(
            stands["double"], evidence.double_disadvantage, -1
        ),
        reasons=reasons,
    )


def _refutations(
    tested: Tested,
    attacks: tuple[str, ...],
    place: tuple[int, int],
    held: Sequence[Statement],
    together: Sequence[str | None],
) -> dict[Statement, str]:
    """Why statements that held of a setting's pair do not count; of some of them.

    ``together`` is what the family says of exposures and ratios, and of outcomes. A
    strict policy believes no made-up groups.
    """
    setting, pair = place
    policy = tested.plan.policy
    exposure = ratio = None
    if policy is None or not policy.strict:
        decided_by = attacks[tested.evidence[attacks].decided_by[place]]
        exposure = tested.placebos.get((setting, decided_by, pair))
        ratio = tested.placebos.get((setting, attacks[0], pair))

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

    first_reasons = dict[Statement, str]()
    for statement in held:
        known = [reason for reason in against[statement] if reason is not None]
        if known:
            first_reasons[statement] = known[0]
    return first_reasons


def _family_refutation(p: float) -> str | None:
    return None if p <= SIGNIFICANCE else f"{TOGETHER} ({p_words(p)})"


def refutation(p_value: float | None, n_alarms: int | None, n_draws: int) -> str | None:
    """Why an alarm does not count by the release's made-up groups; None if it does.

    By the p-value of the real groups among permuted ones; or where so many made-up
    groups, or more, would raise this alarm with a chance below ``TOO_MANY`` if each had
    the 5 % that a test may have.
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


# Amounts with their errors


def _exposures(tested: Tested, evidence: Evidence) -> Amounts:
    """Every group's exposure in every setting."""
    settings = _main_settings(tested)
    level = tested.plan.confidence_level
    tail = printed_tails(tested).exposure
    values = [_value(measured) for measured in settings]
    errors = np.stack([_interval_error(measured) for measured in settings])
    null_variances = [_null_variance(measured) for measured in settings]
    alone = [measured.upper_limit(level=level, n_limits=1) for measured in settings]
    highs = [measured.upper_limit(level=1 - tail, n_limits=1) for measured in settings]
    value = np.stack(values)
    low = value - bonferroni_z(confidence_level=1 - tail) * errors
    return _amounts(
        value,
        errors,
        (low, np.stack(highs)),
        largest=settings[0].attack_kind.scale.largest,
        limit=np.stack(alone),
        smallest=detectable(
            np.sqrt(np.stack(null_variances)),
            n_tests=len(tested.attacks) * evidence.n_detection_tests,
        ),
    )


def _value(measured: Measured) -> FloatArray:
    if measured.exposed is None:
        return np.full(len(measured.has_enough_records), np.nan)
    return measured.exposed.value


def _interval_error(measured: Measured) -> FloatArray:
    """(group,) standard error that an interval of one group takes (``mutual``).

    NaN for groups without enough records, and where no test has an error either.
    """
    exposed = measured.exposed
    if exposed is None:
        return np.full(len(measured.has_enough_records), np.nan)
    is_known = measured.has_enough_records & np.isfinite(exposed.variance)
    return np.where(is_known, np.sqrt(exposed.interval_variance), np.nan)


def _null_variance(measured: Measured) -> FloatArray:
    """(group,) of the mean over splits if nothing was memorised; NaN: not known."""
    exposed = measured.exposed
    if exposed is None:
        return np.full(len(measured.has_enough_records), np.nan)
    is_known = measured.has_enough_records & (exposed.null_variance > 0)
    return np.where(is_known, exposed.null_variance, np.nan)


def _noise_level(tested: Tested) -> FloatArray:
    """(setting, group) sqrt(n V / (2 pi)), the mean of max(0, noise) of one split.

    With V the null variance of the mean over n splits, the noise of one split is normal
    with variance n V.
    """
    levels = []
    for measured in _main_settings(tested):
        n_splits = 1 if measured.exposed is None else measured.exposed.n_splits
        levels.append(np.sqrt(_null_variance(measured) * n_splits / (2 * math.pi)))
    return np.stack(levels)


def _exposure_differences(tested: Tested) -> dict[str, Amounts]:
    """Differences by each attack that decides, tested together."""
    tails = _Tails.of(tested, "exposure_difference")
    amounts = {}
    for attack in tested.attacks:
        largest = max(1.0, attack_kind(attack).scale.largest)
        difference = tested.tests[attack].pairs.exposure
        amounts[attack] = _differences(difference, tails, largest=largest)
    return amounts


def n_compared(difference: PairDifference) -> int:
    """Settings and pairs that have a difference with its error."""
    return int(np.isfinite(difference.value + difference.error).sum())


class _Tails(NamedTuple):
    """Chances with which one end of differences of one family may fail."""

    printed: float
    tested: float
    alone: float

    @classmethod
    def of(cls, tested: Tested, family: str) -> _Tails:
        """Those of a field of ``PrintedTails``."""
        return cls(
            printed=getattr(printed_tails(tested), family),
            tested=getattr(printed_tails(tested, 1 - SIGNIFICANCE), family),
            alone=1 - tested.plan.confidence_level,
        )


def _differences(
    difference: PairDifference, tails: _Tails, *, largest: float
) -> Amounts:
    """First minus second, with what two-sided tests could have shown."""
    value = -difference.value + 0.0  # + 0.0: no negative zero
    error = difference.error
    half_width = difference.half_width(tails.printed)
    alone = difference.half_width(tails.alone)
    threshold = difference.half_width(tails.tested)
    return _amounts(
        value,
        error,
        (value - half_width, value + half_width),
        largest=largest,
        limit=np.minimum(np.abs(value) + alone, largest),
        smallest=threshold + POWER_QUANTILE * error,
    )


def _amounts(
    value: FloatArray,
    error: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    *,
    largest: float,
    limit: FloatArray,
    smallest: FloatArray,
) -> Amounts:
    """With the interval, neither end of which is beyond ``largest``."""
    is_known = np.isfinite(value + error) & (error > 0)
    low, high = ends
    return Amounts(
        value=value,
        error=error,
        low=np.where(is_known, np.maximum(-largest, low), np.nan),
        high=np.where(is_known, np.minimum(largest, high), np.nan),
        limit=np.where(is_known, limit, np.nan),
        detectable=smallest,
    )
