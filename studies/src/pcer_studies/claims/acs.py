"""What does the paper claim about ACS Income (Table 2), on another draw of records?

Read by ``ledger``. To add a claim: an entry of ACS_CLAIMS, and its words in
``claims.toml``.
"""

from __future__ import annotations

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import signed
from pcer_studies.claims.evidence import ratio_differs, sharper_disparity
from pcer_studies.claims.floors import at_high_floor
from pcer_studies.claims.judgement import Claim, ClaimPart, Reply
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.quantities import (
    ACS_RACE,
    ACS_SEX,
    ADULT_RACE,
    ADULT_SEX,
    FROM_1,
    ClaimNumber,
    computed,
    disparities,
    number_at,
)
from pcer_studies.claims.questions import nearly_equal
from pcer_studies.claims.rules import above, both_signs, none_apart, together
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import (
    budget_words,
    gap_words,
    rate_words,
    threshold,
)
from pcer_studies.protocol import BUDGETS, Configuration

PRINTED_RANGES = ((0.004, 0.007), (0.003, 0.006))
"""The ranges of the White and the Non-White gap in the text (sec:acs)."""
HALF_DIGIT = 0.0005
"""What rounding to three decimals can do to an end of these ranges."""


def _printed_ranges(view: View) -> Reply:
    """Exact: the ranges of the text against those of the table, rounded alike."""
    parts = []
    tables = []
    for group, (low, high) in enumerate(PRINTED_RANGES):
        name = ACS_RACE.groups[group]
        gaps = [float(view.gap(ACS_RACE, epsilon, group)[0]) for epsilon in BUDGETS]
        tables.append(f"{name} {gap_words(min(gaps))} to {gap_words(max(gaps))}")
        parts += [
            _as_in_table(f"{name}, low", low, min(gaps)),
            _as_in_table(f"{name}, high", high, max(gaps)),
        ]
    return Reply(f"Table 2: {', '.join(tables)}", tuple(parts))


def _as_in_table(name: str, in_text: float, in_table: float) -> ClaimPart:
    margin = np.array([HALF_DIGIT - abs(in_text - round(in_table, 3))])
    return ClaimPart(name, margin, gap_words, (ACS_RACE,))


def _smaller(epsilon: float) -> ClaimNumber:
    """How far the DP gap is below a share of that on Adult."""

    def draws(view: View) -> FloatArray:
        limit = threshold("much_smaller") * view.parity(ADULT_SEX, epsilon)
        return limit - view.parity(ACS_SEX, epsilon)

    name = f"{budget_words((epsilon,))}: two thirds of Adult's, less ACS's"
    return computed(name, draws, rate_words, ACS_SEX, ADULT_SEX)


def _like_adult(
    acs: Configuration, adult: Configuration, epsilon: float
) -> ClaimNumber:
    """The disparity, signed by that of Adult."""

    def draws(view: View) -> FloatArray:
        sign = np.sign(view.disparity(adult, epsilon))
        return np.asarray(view.disparity(acs, epsilon) * sign)

    return number_at(acs, epsilon, draws, signed)


def _sharper_disparities(run: OurRun) -> str:
    """Where the ratio differs by sharper attacks, for both attributes."""
    race = sharper_disparity(ACS_RACE, BUDGETS)(run)
    sex = sharper_disparity(ACS_SEX, BUDGETS)(run)
    return f"Race: {race} Sex: {sex}"


_DISPARITIES = disparities(ACS_RACE, BUDGETS) + disparities(ACS_SEX, BUDGETS)
_EQUAL = [nearly_equal(ACS_RACE, epsilon) for epsilon in BUDGETS]
_RACE_AT_HIGH_FLOOR = [at_high_floor(ACS_RACE, epsilon) for epsilon in BUDGETS]
_SEX_AT_HIGH_FLOOR = [at_high_floor(ACS_SEX, epsilon) for epsilon in BUDGETS]
_MUCH_SMALLER = [_smaller(epsilon) for epsilon in BUDGETS]
_RACE_LIKE_ADULT = [_like_adult(ACS_RACE, ADULT_RACE, epsilon) for epsilon in FROM_1]
_SEX_LIKE_ADULT = [_like_adult(ACS_SEX, ADULT_SEX, epsilon) for epsilon in FROM_1]

ACS_CLAIMS = (
    Claim(
        "N1",
        none_apart(_DISPARITIES),
        about=(ACS_RACE, ACS_SEX),
        also=_sharper_disparities,
    ),
    Claim("N3", both_signs(disparities(ACS_RACE, BUDGETS)), about=(ACS_RACE,)),
    Claim("N4", paper=_printed_ranges, run=together(*_EQUAL), about=(ACS_RACE,)),
    Claim(
        "N5",
        above(_RACE_AT_HIGH_FLOOR),
        evidence=ratio_differs(ACS_RACE, BUDGETS),
        about=(ACS_RACE,),
    ),
    Claim(
        "N6",
        above(disparities(ACS_SEX, BUDGETS)),
        evidence=ratio_differs(ACS_SEX, BUDGETS),
        about=(ACS_SEX,),
    ),
    Claim(
        "N7",
        above(_SEX_AT_HIGH_FLOOR),
        evidence=ratio_differs(ACS_SEX, BUDGETS),
        about=(ACS_SEX,),
    ),
    Claim("N8", above(_MUCH_SMALLER), about=(ACS_SEX, ADULT_SEX)),
    Claim("N9", above(_RACE_LIKE_ADULT + _SEX_LIKE_ADULT), about=(ACS_RACE, ACS_SEX)),
)
