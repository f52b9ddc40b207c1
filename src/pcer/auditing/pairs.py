"""What does an audit say of two groups in one setting?

``settings`` asks ``pair_result`` for every pair. Numbers come ready from ``judge``
(measuring/judged.py); here they fill records, and what is shown gets its size. The
answers follow from ``Evidence``, which stands after every downgrade.

To add an answer: its record (answers.py), a field of ``PairResult``, and a function
that fills it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pcer.auditing import answers, record
from pcer.measuring.evidence import Evidence, Statement
from pcer.measuring.exposure import Measured
from pcer.measuring.group_differences import PairDifference
from pcer.measuring.judged import Amounts, Judged, JudgedErrors
from pcer.measuring.outcomes import Received
from pcer.measuring.plan import Verdict
from pcer.measuring.sizes import COIN, NEAR_CERTAINTY_FROM, Size, size_of
from pcer.measuring.tested import PlaceboCheck, Tested
from pcer.metrics import FloatArray
from pcer.paper.numbers import interval_or_none
from pcer.paper.records import PublishedPair
from pcer.statistics import SIGNIFICANCE, finite_or_none, percentile_interval


class InSetting(NamedTuple):
    """A release's numbers, seen from one of its settings."""

    tested: Tested
    judged: Judged
    evidence: Evidence  # what holds, after every downgrade
    measured: Measured  # by the attack whose numbers people see
    setting_index: int


def estimate_fields(
    amounts: Amounts, place: tuple[int, int], upper_bounds: FloatArray
) -> dict[str, Any]:
    """Fields of ``Estimate``: a value with its error, interval and bounds."""
    low = finite_or_none(amounts.low[place])
    high = finite_or_none(amounts.high[place])
    return {
        "value": finite_or_none(amounts.value[place]),
        "standard_error": finite_or_none(amounts.error[place]),
        "interval": None if low is None or high is None else (low, high),
        "upper_bound": finite_or_none(upper_bounds[place]),
        "upper_bound_pointwise": finite_or_none(amounts.limit[place]),
    }


class ComparedPair(NamedTuple):
    """Two groups in one setting."""

    here: InSetting
    place: tuple[int, int]  # of the pair in arrays (setting, pair)
    first: int  # position of the reference group
    second: int

    @property
    def group_places(self) -> tuple[int, list[int]]:
        """Where both groups stand in arrays (setting, group)."""
        return self.here.setting_index, [self.first, self.second]

    @property
    def lower_ratio(self) -> int:
        """The group of lower ratio: the second where the cross product is positive."""
        is_second = self.here.evidence.cross.value[self.place] > 0
        return self.second if is_second else self.first

    def name(self, group: int) -> str:
        """A group's name, by its position."""
        return self.here.measured.panel.group_names[group]

    def downgraded(self, statement: Statement) -> str | None:
        """Why a statement does not count although its p-value is small."""
        return self.here.evidence.reasons.get((*self.place, statement))

    def placebo(self, attack: str) -> PlaceboCheck | None:
        """What the release says of made-up groups by an attack."""
        setting_index, pair_index = self.place
        return self.here.tested.placebos.get((setting_index, attack, pair_index))


def pair_result(
    compared: ComparedPair, pooled_ratio: FloatArray | None, published: PublishedPair
) -> record.PairResult:
    """All answers about two groups, beside the paper's numbers.

    ``pooled_ratio`` (draw, group) has the observed ratios first.
    """
    result = record.PairResult(
        verdict=Verdict.INSUFFICIENT_DATA,  # until its statements are known
        exposure=_exposure(compared),
        outcomes=_outcomes(compared),
        wrongly=_wrongly(compared, compared.here.judged.wrongly),
        missed=_wrongly(compared, compared.here.judged.missed),
        double_disadvantage=_double_disadvantage(compared),
        ratio=_ratio(compared),
        equivalence=_equivalence(compared),
        sign_holds_below_floor=_sign_limit(compared),
        pooled=_pooled_disparity(compared, pooled_ratio),
        **dict(published),
    )
    return result.model_copy(update={"verdict": Verdict(result.statements[0])})


def _difference(compared: ComparedPair, amounts: Amounts) -> answers.Difference:
    return answers.Difference(
        **estimate_fields(amounts, compared.place, amounts.farther_end),
        detectable=finite_or_none(amounts.detectable[compared.place]),
    )


def _exposure(compared: ComparedPair) -> answers.ExposureAnswer:
    """Who is easier to spot?"""
    tested = compared.here.tested
    evidence = compared.here.evidence
    place = compared.place
    p_value = evidence.exposure.p_value[place]
    attack = tested.attacks[evidence.decided_by[place]]

    is_tested = np.isfinite(p_value) and tested.contradiction is None
    group_p = evidence.detection_p_alone[compared.group_places]
    differs = bool(evidence.exposures_differ[place])
    answer: answers.AboutExposure = "cannot_tell"
    if differs:
        answer = "differs"
    elif is_tested and np.isfinite(group_p).any():
        is_detected = evidence.detected[compared.group_places].any()
        answer = "no_difference_shown" if is_detected else "none_detected"

    group = int(evidence.more_exposed[place])
    by_attack = [_by_attack(compared, name) for name in tested.attacks]
    by_attack.sort(key=lambda found: found.attack != attack)
    amounts = compared.here.judged.exposure_differences[tested.attack]
    return answers.ExposureAnswer(
        answer=answer,
        group=compared.name(group) if differs else None,
        size=_exposure_size(compared, amounts) if differs else None,
        by_attack=by_attack,
        difference=_difference(compared, amounts),
        p_value=finite_or_none(p_value),
        p_value_alone=finite_or_none(evidence.exposure.p_alone[place]),
        contradicted=bool(evidence.contradicted[place]),
        downgraded=compared.downgraded("exposure"),
        placebo=compared.placebo(attack),
    )


def _by_attack(compared: ComparedPair, attack: str) -> answers.AttackDifference:
    """What one of the deciding attacks says of both groups."""
    here = compared.here
    exposed = here.tested.measured[attack][here.setting_index].exposed
    exposures: list[float | None] = [None, None]
    if exposed is not None:
        _, groups = compared.group_places
        exposures = [finite_or_none(value) for value in exposed.value[groups]]
    index = here.tested.attacks.index(attack)
    check = compared.placebo(attack)
    return answers.AttackDifference(
        attack=attack,
        exposures=(exposures[0], exposures[1]),
        difference=_difference(compared, here.judged.exposure_differences[attack]),
        p_value=finite_or_none(here.evidence.p_by_attack[index, *compared.place]),
        shown=bool(here.evidence.agree[index, *compared.place]),
        p_value_within_labels=None if check is None else check.exposure_p_within_labels,
    )


def _exposure_size(compared: ComparedPair, amounts: Amounts) -> Size:
    """The size of a difference that is shown, in points of an attacker's success."""
    here = compared.here
    points = here.measured.attack_kind.scale.per_success or math.nan
    values = here.judged.exposures.value[compared.group_places]
    if (COIN + points * values > NEAR_CERTAINTY_FROM).all():
        return Size.NEAR_CERTAINTY
    is_first = here.evidence.more_exposed[compared.place] == compared.first
    low, high = _towards(amounts, compared.place, is_first=is_first)
    margin = here.tested.plan.exposure_margin
    return size_of(points * low, points * high, margin=margin)


def _towards(
    amounts: Amounts, place: tuple[int, int], *, is_first: bool
) -> tuple[float, float]:
    """An interval of first minus second, or of second minus first."""
    low = float(amounts.low[place])
    high = float(amounts.high[place])
    return (low, high) if is_first else (-high, -low)


def _outcomes(compared: ComparedPair) -> answers.OutcomesAnswer:
    """Who gets what is good for people less often?

    Test counts suffice, however the records were split.
    """
    tested = compared.here.tested
    evidence = compared.here.evidence
    place = compared.place

    answer: answers.AboutOutcomes = "no_difference_shown"
    differs = bool(evidence.benefits_differ[place])
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(evidence.benefit.p_value[place]):
        rates = compared.here.measured.benefit[:, compared.group_places[1]]
        answer = "cannot_tell" if np.isfinite(rates).all() else "not_given"
    elif differs:
        answer = "differ"

    check = compared.placebo(tested.attack)
    is_harm = tested.plan.outcome_of(tested.release.subject.prediction_is) == "harm"
    of_rate = ComparedRate(
        compared,
        evidence.benefit,
        compared.here.judged.outcome_differences,
        compared.here.measured.received,
        more_is_worse=is_harm,
    )
    return answers.OutcomesAnswer(
        **of_rate.fields(differs=differs),
        answer=answer,
        n_made_up=None if check is None else check.n_outcomes,
        n_draws=None if check is None else check.n_draws,
        downgraded=compared.downgraded("outcomes"),
    )


def _wrongly(compared: ComparedPair, errors: JudgedErrors) -> answers.WronglyAnswer:
    """Is one of two groups judged wrongly more often, by one of both errors?"""
    tested = compared.here.tested
    place = compared.place
    p_value = errors.tests.difference.p_value[place]

    answer: answers.AboutErrors = "no_difference_shown"
    differs = bool(errors.differ[place])
    received = errors.tests.received[compared.here.setting_index]
    if tested.contradiction is not None:
        answer = "cannot_tell"
    elif np.isnan(received.value).any():
        answer = "not_given"
    elif np.isnan(p_value):
        answer = "too_few"
    elif differs:
        answer = "differ"

    of_rate = ComparedRate(
        compared,
        errors.tests.difference,
        errors.differences,
        received,
        more_is_worse=True,
    )
    # Made-up groups are tried with the error that harms alone.
    is_harmful = errors.tests.kind is tested.wrongly.kind
    check = compared.placebo(tested.attack) if is_harmful else None
    is_withdrawn = p_value <= SIGNIFICANCE and not differs
    return answers.WronglyAnswer(
        **of_rate.fields(differs=differs),
        answer=answer,
        error=errors.tests.kind.name,
        n_made_up=None if check is None else check.n_wrongly,
        n_draws=None if check is None else check.n_draws,
        permutation_p=None if check is None else check.wrongly_p,
        downgraded=errors.reason if is_withdrawn else None,
    )


class ComparedRate(NamedTuple):
    """A rate of two groups in one setting, and its errors."""

    compared: ComparedPair
    tests: PairDifference
    amounts: Amounts
    received: Received
    more_is_worse: bool

    def fields(self, *, differs: bool) -> dict[str, Any]:
        """What every ``RateAnswer`` has, but for its answer."""
        compared = self.compared
        place = compared.place
        training = self.received.training
        second_has_more = self.tests.value[place] > 0
        is_second = second_has_more == self.more_is_worse
        worse = compared.second if is_second else compared.first
        return {
            "group": compared.name(worse) if differs else None,
            "size": self._size() if differs else None,
            "difference": _difference(compared, self.amounts),
            "about": self.received.estimand,
            "lack": self.received.lack,
            "people_variance": finite_or_none(self.tests.variance_now[place]),
            "training_variance": finite_or_none(self.tests.variance_train[place]),
            "degrees_of_freedom": getattr(training, "degrees_of_freedom", None),
            "is_noise_known": getattr(training, "is_noise_known", None),
            "p_value": finite_or_none(self.tests.p_value[place]),
            "p_value_alone": finite_or_none(self.tests.p_alone[place]),
        }

    def _size(self) -> Size:
        """The size of a difference that is shown, in points of 100."""
        place = self.compared.place
        is_first = bool(self.tests.value[place] < 0)
        low, high = _towards(self.amounts, place, is_first=is_first)
        margin = self.compared.here.tested.plan.outcome_margin
        return size_of(100 * low, 100 * high, margin=margin)


def _double_disadvantage(compared: ComparedPair) -> answers.DoubleDisadvantage:
    """Who is both easier to spot and gets the worse predictions?"""
    evidence = compared.here.evidence
    place = compared.place
    group = int(evidence.double_disadvantage[place])
    return answers.DoubleDisadvantage(
        group=compared.name(group) if group >= 0 else None,
        p_value=finite_or_none(evidence.double_p[place]),
        p_value_alone=finite_or_none(evidence.double_p_alone[place]),
        downgraded=compared.downgraded("double"),
    )


def _ratio(compared: ComparedPair) -> answers.RatioAnswer:
    """Whose ratio of outcome to exposure is lower, and what makes it so?"""
    tested = compared.here.tested
    cross = compared.here.evidence.cross
    place = compared.place

    answer: answers.AboutRatio = "no_difference_shown"
    differs = bool(compared.here.evidence.ratios_differ[place])
    if np.isnan(cross.p_value[place]) or tested.contradiction is not None:
        answer = "cannot_tell"
    elif compared.here.judged.below_floor[place]:
        answer = "floor_dominated"
    elif differs:
        answer = "differs"

    return answers.RatioAnswer(
        answer=answer,
        group=compared.name(compared.lower_ratio) if differs else None,
        attack=tested.attack,
        driven_by=_driver(compared) if differs else None,
        cross_product=finite_or_none(cross.value[place]),
        standard_error=finite_or_none(cross.error[place]),
        p_value=finite_or_none(cross.p_value[place]),
        p_value_alone=finite_or_none(cross.p_alone[place]),
        downgraded=compared.downgraded("ratio"),
        placebo=compared.placebo(tested.attack),
    )


def _driver(compared: ComparedPair) -> answers.Driver:
    """Which difference makes the ratio of a group the lower one.

    A difference that is shown lowers this ratio (1) or raises it (-1), and then the
    other one must be what lowers it; one that is not shown counts 0.
    """
    evidence = compared.here.evidence
    place = compared.place
    lower = compared.lower_ratio

    by_outcomes = 0
    if evidence.benefits_differ[place]:
        second_has_fewer = evidence.benefit.value[place] < 0
        fewer = compared.second if second_has_fewer else compared.first
        by_outcomes = 1 if fewer == lower else -1
    by_exposure = 0
    if evidence.exposures_differ[place]:
        by_exposure = 1 if evidence.more_exposed[place] == lower else -1

    if by_outcomes > by_exposure:
        return "outcomes"
    if by_exposure > by_outcomes:
        return "exposure"
    return "both" if by_outcomes == 1 else "together"


def _equivalence(compared: ComparedPair) -> record.Equivalence | None:
    """Are the exposures equal within the plan's margin? None without a margin."""
    tested = compared.here.tested
    equal_within = tested.plan.equal_within
    if equal_within is None:
        return None
    p_value = compared.here.evidence.equal_p[compared.place]
    is_shown = bool(p_value <= SIGNIFICANCE) and tested.contradiction is None
    return record.Equivalence(
        equal_within=equal_within, p_value=finite_or_none(p_value), shown=is_shown
    )


def _sign_limit(compared: ComparedPair) -> float | None:
    """The floor above which the disparity has the other sign; None where it keeps it.

    With rates R and exposures c, of the group with the lower ratio (l) and the higher
    (h), the ratios are equal at the floor c_l R_h / R_l. That is above c_h, so that the
    sign turns, where R_l > R_h: the group with the lower ratio has the higher rate.
    """
    here = compared.here
    exposed = here.measured.exposed
    lower = compared.lower_ratio
    higher = compared.first if lower == compared.second else compared.second
    rate = here.measured.received.value
    if exposed is None or not here.evidence.detected[here.setting_index, lower]:
        return None
    if not rate[lower] > rate[higher]:
        return None
    return float(exposed.value[lower] * rate[higher] / rate[lower])


def _pooled_disparity(
    compared: ComparedPair, ratio: FloatArray | None
) -> record.PooledDisparity:
    """First minus second of pooled ratios, with an interval over their draws."""
    here = compared.here
    both = bool(here.evidence.detected[compared.group_places].all())
    if ratio is None:
        return record.PooledDisparity(disparity=None, ci=None, exposures_detected=both)
    disparity = ratio[:, compared.first] - ratio[:, compared.second]
    interval = None
    if len(disparity) > 1:
        level = here.tested.plan.confidence_level
        ends = percentile_interval(disparity[1:], confidence_level=level)
        interval = interval_or_none(ends)
    return record.PooledDisparity(
        disparity=finite_or_none(disparity[0]), ci=interval, exposures_detected=both
    )
