"""What does the paper claim about Adult: race (Table S4) and sex (Table S3)?

Read by ``ledger``. To add a claim: an entry of RACE_CLAIMS or SEX_CLAIMS, and its words
in ``claims.toml``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from pcer.metrics import FloatArray
from pcer_studies.claims.evidence import (
    exposures_detected,
    exposures_differ,
    ratio_differs,
    sharper_disparity,
    sharper_exposure,
)
from pcer_studies.claims.judgement import Claim, ClaimQuestion
from pcer_studies.claims.quantities import (
    ADULT_RACE,
    ADULT_SEX,
    GROUPS,
    INFORMATIVE,
    PRIVATE,
    ClaimNumber,
    computed,
    disparities,
    disparity_of,
    disparity_size,
    gap_difference,
    gap_of,
    half_digit,
    odds_gaps,
    parities,
    rate_of,
)
from pcer_studies.claims.questions import (
    best_disparity,
    best_parity,
    ends_as_printed,
    larger_without_privacy,
    nearly_equal,
    places,
    printed_range,
)
from pcer_studies.claims.rules import (
    above,
    at_least,
    best,
    excludes_0,
    flat,
    larger,
    near,
    together,
)
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import budget_words, r_words, rate_words, threshold
from pcer_studies.protocol import BUDGETS, NO_DP

LEAST_GAP = 1e-9
"""A gap below this is taken for this where one divides by it."""


def _difference(epsilon: float) -> ClaimNumber:
    """How far the two gaps are apart."""
    name = f"{budget_words((epsilon,))}, apart"
    return replace(gap_difference(ADULT_RACE, epsilon), name=name)


def _ratio(epsilon: float) -> ClaimNumber:
    """The larger gap over the smaller."""

    def draws(view: View) -> FloatArray:
        pair = [view.gap(ADULT_RACE, epsilon, group) for group in GROUPS]
        small, large = sorted(pair, key=lambda gap: float(gap[0]))
        return np.asarray(large / np.maximum(small, LEAST_GAP))

    return computed(f"{budget_words((epsilon,))}, ratio", draws, r_words, ADULT_RACE)


def _fall(epsilon: float, group: int) -> ClaimNumber:
    """By which share a gap falls with privacy."""

    def draws(view: View) -> FloatArray:
        private = view.gap(ADULT_RACE, epsilon, group)
        return 1 - private / view.gap(ADULT_RACE, NO_DP, group)

    name = f"{budget_words((epsilon,))}, {ADULT_RACE.groups[group]} falls by"
    return computed(name, draws, rate_words, ADULT_RACE)


def _rates_as_printed(group: int) -> ClaimQuestion:
    """A group's rates lie in the printed range; the paper says "approximately"."""
    low, high = printed_range(f"adult_rate_{ADULT_SEX.groups[group].lower()}")
    ends = (low * (1 - threshold("about")), high * (1 + threshold("about")))
    rates = [rate_of(ADULT_SEX, epsilon, group) for epsilon in BUDGETS]
    return near(rates, ends, 0.0)


def _printed_rates() -> ClaimQuestion:
    """The printed rates agree with the printed DP gaps, to their last digits."""
    men = printed_range("adult_rate_male")
    women = printed_range("adult_rate_female")
    ends = (men[0] - women[1], men[1] - women[0])
    rounding = half_digit("adult_rate_male_low") + half_digit("adult_rate_female_low")
    return near(parities(ADULT_SEX, BUDGETS), ends, rounding)


def _both_best(epsilon: float) -> ClaimQuestion:
    """Disparity and DP gap are smallest at this budget."""
    return together(
        best_disparity(ADULT_SEX, (epsilon,)), best_parity(ADULT_SEX, (epsilon,))
    )


def _with_rates(epsilon: float) -> ClaimNumber:
    """The disparity, signed by the difference of rates."""

    def draws(view: View) -> FloatArray:
        rates = view.rate(ADULT_SEX, epsilon, 0) - view.rate(ADULT_SEX, epsilon, 1)
        return np.asarray(view.disparity(ADULT_SEX, epsilon) * np.sign(rates))

    write = disparity_of(ADULT_SEX, epsilon).write
    return computed(budget_words((epsilon,)), draws, write, ADULT_SEX)


_NO_DP_PLACE = places(BUDGETS, (NO_DP,))
_DIFFERENCES = [_difference(epsilon) for epsilon in BUDGETS]
_RATIOS = [_ratio(epsilon) for epsilon in BUDGETS]
_SHRINKING_DIFFERENCES = [(_difference(NO_DP), _difference(e)) for e in PRIVATE]
_FALLS = [(_fall(epsilon, 1), _fall(epsilon, 0)) for epsilon in PRIVATE]

_race_claim = partial(Claim, about=(ADULT_RACE,))

RACE_CLAIMS = (
    _race_claim(
        "T1",
        together(
            best_parity(ADULT_RACE, (5.0, 10.0)), best_disparity(ADULT_RACE, (NO_DP,))
        ),
        evidence=exposures_detected(ADULT_RACE, (5.0, 10.0, NO_DP)),
    ),
    _race_claim(
        "T2",
        together(
            best_parity(ADULT_RACE, (5.0, 10.0)),
            best_disparity(ADULT_RACE, (5.0, 10.0), largest=True),
        ),
        evidence=exposures_detected(ADULT_RACE, (5.0, 10.0)),
    ),
    _race_claim("T3", best_parity(ADULT_RACE, (NO_DP,), largest=True)),
    _race_claim(
        "T4",
        best(
            odds_gaps(ADULT_RACE, BUDGETS),
            places(BUDGETS, (5.0, 10.0)),
            what="equalized odds gap",
        ),
    ),
    _race_claim(
        "T5",
        excludes_0(disparities(ADULT_RACE, BUDGETS)),
        evidence=ratio_differs(ADULT_RACE, BUDGETS),
        also=sharper_disparity(ADULT_RACE, BUDGETS),
    ),
    _race_claim(
        "T6",
        larger([(gap_of(ADULT_RACE, NO_DP, 1), gap_of(ADULT_RACE, NO_DP, 0))]),
        evidence=exposures_differ(ADULT_RACE, (NO_DP,)),
        also=sharper_exposure(ADULT_RACE),
    ),
    _race_claim(
        "T7",
        together(
            larger(larger_without_privacy(ADULT_RACE, PRIVATE)),
            larger(_SHRINKING_DIFFERENCES),
        ),
        evidence=exposures_detected(ADULT_RACE, (NO_DP,)),
    ),
    _race_claim(
        "T8",
        larger(_FALLS),
        evidence=exposures_detected(ADULT_RACE, (NO_DP,)),
    ),
    _race_claim(
        "T9",
        together(
            best(_DIFFERENCES, _NO_DP_PLACE, what="difference of gaps"),
            best(_RATIOS, _NO_DP_PLACE, what="ratio of gaps"),
        ),
        evidence=exposures_detected(ADULT_RACE, BUDGETS),
    ),
)


_PARITIES = parities(ADULT_SEX, BUDGETS)
_SMALLER_DISPARITIES = [
    (disparity_size(ADULT_SEX, epsilon), disparity_size(ADULT_SEX, NO_DP))
    for epsilon in PRIVATE
]
_SIGNED_BY_RATES = [_with_rates(epsilon) for epsilon in BUDGETS]
_EQUAL = [nearly_equal(ADULT_SEX, epsilon) for epsilon in BUDGETS]

_sex_claim = partial(Claim, about=(ADULT_SEX,))

SEX_CLAIMS = (
    _sex_claim(
        "T10",
        excludes_0(disparities(ADULT_SEX, BUDGETS)),
        evidence=ratio_differs(ADULT_SEX, BUDGETS),
        also=sharper_disparity(ADULT_SEX, BUDGETS),
    ),
    _sex_claim(
        "T11",
        paper=_printed_rates(),
        run=together(_rates_as_printed(0), _rates_as_printed(1)),
    ),
    _sex_claim("T12", flat(_PARITIES, threshold("flat"))),
    _sex_claim(
        "T13",
        paper=ends_as_printed(_PARITIES, "DP gap", "adult_sex_parity_gap"),
        run="a range printed wrongly cannot be held against another run; T12 has ours",
    ),
    _sex_claim(
        "T14",
        nearly_equal(ADULT_SEX, NO_DP),
        evidence=exposures_detected(ADULT_SEX, (NO_DP,)),
        also=sharper_exposure(ADULT_SEX),
    ),
    _sex_claim(
        "T15",
        together(
            larger(_SMALLER_DISPARITIES),
            larger(larger_without_privacy(ADULT_SEX, PRIVATE)),
        ),
        evidence=exposures_detected(ADULT_SEX, (NO_DP,)),
    ),
    _sex_claim(
        "T16",
        at_least(
            [_both_best(epsilon) for epsilon in INFORMATIVE],
            1,
            what="budgets that both prefer",
        ),
    ),
    _sex_claim("T17", best_parity(ADULT_SEX, (NO_DP,))),
    _sex_claim(
        "T18",
        paper=together(above(disparities(ADULT_SEX, BUDGETS)), *_EQUAL),
        run=together(above(_SIGNED_BY_RATES), *_EQUAL),
        evidence=exposures_detected(ADULT_SEX, BUDGETS),
        also=sharper_exposure(ADULT_SEX),
    ),
)
