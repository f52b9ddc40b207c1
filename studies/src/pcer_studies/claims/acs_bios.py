"""Claims about ACS Income (Table 2). Our draw of records is not the paper's."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from pcer.auditing.words import signed
from pcer.metrics import FloatArray
from pcer_studies.claims.adult import best_parity, best_size, nearly_equal, shrinks
from pcer_studies.claims.evidence import (
    costs_differ,
    costs_resolved,
    disparity_shown,
    sharper_disparity,
    sharper_double,
)
from pcer_studies.claims.floors import HIGH, at_high_floor
from pcer_studies.claims.judgement import Claim, ClaimPart, ClaimQuestion, Reply
from pcer_studies.claims.rules import (
    ACS_RACE,
    ACS_SEX,
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    FROM_1,
    FROM_HALF,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    above,
    best,
    both_signs,
    budget_words,
    disparity_of,
    excludes_0,
    gap_of,
    gap_words,
    half_digit,
    larger,
    made,
    near,
    none_apart,
    parity_of,
    printed,
    r_words,
    rate_of,
    rate_words,
    threshold,
    together,
)
from pcer_studies.claims.views import OurRun, Paper, View, exactly
from pcer_studies.protocol import BUDGETS, NO_DP, SEEDS, Configuration

PRINTED_RANGES = ((0.004, 0.007), (0.003, 0.006))
"""The ranges of the White and the Non-White gap in the text (sec:acs)."""
_DISPARITIES = [disparity_of(one, e) for one in (ACS_RACE, ACS_SEX) for e in BUDGETS]


def _printed_ranges(view: View) -> Reply:
    """Exact: the ranges of the text against those of the table, rounded alike."""
    parts, told = [], []
    for group, ends in enumerate(PRINTED_RANGES):
        gaps = [float(view.gap(ACS_RACE, e, group)[0]) for e in BUDGETS]
        found = round(min(gaps), 3), round(max(gaps), 3)
        told.append(f"{ACS_RACE.groups[group]} {gap_words(min(gaps))} to {gap_words(max(gaps))}")
        parts += [
            ClaimPart(
                f"{ACS_RACE.groups[group]}, {end}",
                np.array([0.0005 - abs(a - b)]),
                gap_words,
                (ACS_RACE,),
            )
            for end, a, b in zip(("low", "high"), ends, found, strict=True)
        ]
    return Reply(f"Table 2: {', '.join(told)}", tuple(parts))


def _smaller(epsilon: float) -> ClaimNumber:
    """How far the DP gap is below a share of that on Adult."""
    return made(
        f"{budget_words((epsilon,))}: two thirds of Adult's, less ACS's",
        lambda view: (
            threshold("much_smaller") * view.parity(ADULT_SEX, epsilon)
            - view.parity(ACS_SEX, epsilon)
        ),
        rate_words,
        ACS_SEX,
        ADULT_SEX,
    )


def _like_adult(one: Configuration, other: Configuration, epsilon: float) -> ClaimNumber:
    """The disparity, signed by that of Adult."""

    def ask(view: View) -> FloatArray:
        sign = np.sign(view.disparity(other, epsilon))
        return np.asarray(view.disparity(one, epsilon) * sign)

    return made(f"{one.name}, {budget_words((epsilon,))}", ask, signed, one)


_CAVEAT = "The paper itself draws no finding from ACS."

ACS_CLAIMS = (
    Claim(
        "N1",
        none_apart(_DISPARITIES),
        about=(ACS_RACE, ACS_SEX),
        also=lambda run: (
            "Race: "
            + sharper_disparity(ACS_RACE, BUDGETS)(run)
            + " Sex: "
            + sharper_disparity(ACS_SEX, BUDGETS)(run)
        ),
    ),
    Claim("N3", both_signs([disparity_of(ACS_RACE, e) for e in BUDGETS]), about=(ACS_RACE,)),
    Claim(
        "N4",
        paper=_printed_ranges,
        run=together(*(nearly_equal(ACS_RACE, e) for e in BUDGETS)),
        about=(ACS_RACE,),
    ),
    Claim(
        "N5",
        above([at_high_floor(ACS_RACE, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_RACE, BUDGETS),
        about=(ACS_RACE,),
    ),
    Claim(
        "N6",
        above([disparity_of(ACS_SEX, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        about=(ACS_SEX,),
    ),
    Claim(
        "N7",
        above([at_high_floor(ACS_SEX, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        about=(ACS_SEX,),
    ),
    Claim("N8", above([_smaller(e) for e in BUDGETS]), about=(ACS_SEX, ADULT_SEX)),
    Claim(
        "N9",
        above(
            [
                _like_adult(one, other, e)
                for one, other in ((ACS_RACE, ADULT_RACE), (ACS_SEX, ADULT_SEX))
                for e in FROM_1
            ]
        ),
        about=(ACS_RACE, ACS_SEX),
    ),
)


def _beyond(epsilon: float, bound: float) -> ClaimNumber:
    return made(
        f"{budget_words((epsilon,))}: DP gap − {bound:g}",
        lambda view: view.parity(BIOS, epsilon) - bound,
        rate_words,
        BIOS,
    )


_RATES = ("bios_rate_male", "bios_rate_female")


def _printed_rates() -> ClaimQuestion:
    """The printed DP gap is the difference of the printed rates."""
    men, women = map(printed, _RATES)
    told, rounding = men - women, sum(map(half_digit, _RATES))
    return near([parity_of(BIOS, NO_DP)], (told, told), rounding)


def _rate(group: int) -> ClaimQuestion:
    """A rate is the printed one, to its last digit."""
    told = printed(_RATES[group])
    return near([rate_of(BIOS, NO_DP, group)], (told, told), half_digit(_RATES[group]))


def _reflected(view: View) -> FloatArray:
    """Difference of predictions over difference of labels."""
    assert isinstance(view, OurRun)
    base = view.base_rate(BIOS, NO_DP, 0) - view.base_rate(BIOS, NO_DP, 1)
    return np.asarray((view.rate(BIOS, NO_DP, 0) - view.rate(BIOS, NO_DP, 1)) / base)


def _width(one: Configuration, epsilon: float) -> ClaimNumber:
    """Of the interval of the mean disparity."""
    return made(
        f"{one.name}, {budget_words((epsilon,))}",
        lambda view: 2 * 1.96 * view.spread(one, epsilon) / np.sqrt(view.n_seeds),
        r_words,
        one,
    )


def _positive(epsilon: float, share: float) -> ClaimNumber:
    """Share of positive seeds beyond a share; the paper prints counts in its text."""

    def ask(view: View) -> FloatArray:
        if isinstance(view, Paper) and epsilon == NO_DP:
            return exactly(printed("bios_positive_seeds_no-DP") / view.n_seeds - share)
        return view.n_positive(BIOS, epsilon) / view.n_seeds - share

    return made(f"{budget_words((epsilon,))}: positive seeds − {share:.2f}", ask, r_words, BIOS)


def _accuracy(view: View) -> FloatArray:
    return threshold("near_chance") - view.accuracy(BIOS, STRONGEST)


_BIOS = "sec:bios (Table 3)"
_LEAST = printed("bios_positive_seeds_low") / len(SEEDS)
_EVERY_SEED = 1 - 1 / (2 * len(SEEDS))
"""A share above which it is every seed."""

_bios_claim = partial(Claim, about=(BIOS,))

BIOS_CLAIMS = (
    _bios_claim(
        "B1",
        above(
            [
                *(_beyond(e, threshold("large_gap")) for e in FROM_HALF),
                *(_beyond(e, threshold("larger_gap")) for e in FROM_1),
            ]
        ),
    ),
    _bios_claim("B2", paper=_printed_rates(), run=together(_rate(0), _rate(1))),
    _bios_claim(
        "B3",
        paper="base rates of the two groups are not printed",
        run=above(
            [made("predictions differ, over labels", _reflected, r_words, BIOS)], 1.0, sign=-1
        ),
    ),
    _bios_claim(
        "B4",
        excludes_0([disparity_of(BIOS, e) for e in (NO_DP, *FROM_HALF)]),
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF)),
        also=sharper_disparity(BIOS, (NO_DP, *FROM_HALF)),
    ),
    _bios_claim(
        "B5",
        best(
            [_width(one, e) for one, e in SETTINGS],
            [SETTINGS.index((BIOS, NO_DP))],
            what="width of the interval",
        ),
        evidence=disparity_shown(BIOS, (NO_DP,)),
    ),
    _bios_claim(
        "B6",
        together(
            larger([(gap_of(BIOS, NO_DP, 1), gap_of(BIOS, NO_DP, 0))]),
            larger([(rate_of(BIOS, NO_DP, 0), rate_of(BIOS, NO_DP, 1))]),
        ),
        evidence=costs_differ(BIOS, (NO_DP,)),
        also=sharper_double(BIOS),
    ),
    _bios_claim("B7", above([_positive(NO_DP, _EVERY_SEED)])),
    _bios_claim(
        "B8",
        together(
            above([made("0.6 − accuracy", _accuracy, rate_words, BIOS)]),
            none_apart([disparity_of(BIOS, STRONGEST)]),
        ),
    ),
    _bios_claim(
        "B9",
        larger([(disparity_of(BIOS, a), disparity_of(BIOS, b)) for a, b in pairwise(FROM_HALF)]),
        evidence=costs_resolved(BIOS, FROM_HALF),
    ),
    _bios_claim("B10", above([_positive(e, _LEAST - 0.01) for e in FROM_HALF])),
    _bios_claim(
        "B11",
        above([disparity_of(BIOS, e, HIGH) for e in FROM_HALF]),
        evidence=disparity_shown(BIOS, FROM_HALF),
    ),
    Claim(
        "B12",
        above([disparity_of(one, e) for one in (BIOS, ADULT_SEX) for e in (NO_DP, *FROM_HALF)]),
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF), ADULT_SEX),
        about=(BIOS, ADULT_SEX),
    ),
    _bios_claim(
        "B13",
        together(
            larger(shrinks(BIOS, FROM_HALF)),
            larger([(disparity_of(BIOS, e), disparity_of(BIOS, NO_DP)) for e in FROM_HALF]),
        ),
        evidence=costs_resolved(BIOS, (NO_DP,)),
    ),
    _bios_claim(
        "B14",
        together(best_parity(BIOS, (STRONGEST,)), best_size(BIOS, (NO_DP,))),
        evidence=costs_resolved(BIOS, (NO_DP,)),
    ),
)
