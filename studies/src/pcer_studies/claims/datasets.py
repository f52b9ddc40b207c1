"""Claims about each dataset: Adult (Tables S4 and S3), COMPAS (Table 1), ACS (2), Bios (3).

Our draw of ACS records is not the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import sign_test
from pcer.wording import signed
from pcer_studies.claims.evidence import (
    costs_differ,
    costs_resolved,
    ratio_differs,
    sharper_disparity,
    sharper_double,
    sharper_exposure,
)
from pcer_studies.claims.floors import HIGH, at_high_floor
from pcer_studies.claims.judgement import Claim, ClaimPart, ClaimQuestion, Reply
from pcer_studies.claims.rules import (
    ACS_RACE,
    ACS_SEX,
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    FROM_HALF,
    INFORMATIVE,
    PRIVATE,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    above,
    as_printed,
    at,
    at_least,
    best,
    both_signs,
    budget_words,
    correlated,
    disparity_of,
    excludes_0,
    extreme,
    flat,
    gap_of,
    gap_words,
    half_digit,
    larger,
    made,
    near,
    negative_share,
    none_apart,
    odds_of,
    parity_of,
    printed,
    r_words,
    rate_of,
    rate_words,
    size,
    size_of,
    threshold,
    together,
)
from pcer_studies.claims.views import OurRun, Paper, View, exactly, known
from pcer_studies.protocol import BUDGETS, NO_DP, SEEDS, Configuration
from pcer_studies.published import key_at, text_figure


def places(budgets: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Where some budgets stand among others."""
    return [budgets.index(e) for e in wanted]


def best_parity(
    one: Configuration, wanted: Sequence[float], *, largest: bool = False
) -> ClaimQuestion:
    """The DP gap is smallest (largest) at these budgets."""
    return best(
        [parity_of(one, e) for e in BUDGETS],
        places(BUDGETS, wanted),
        largest=largest,
        what="DP gap",
    )


def best_size(
    one: Configuration, wanted: Sequence[float], *, largest: bool = False
) -> ClaimQuestion:
    """The disparity is smallest (largest) at these budgets, of those that the paper ranks."""
    return best(
        [size_of(one, e) for e in INFORMATIVE],
        places(INFORMATIVE, wanted),
        largest=largest,
        what="disparity, without ε = 0.1",
    )


def apart(one: Configuration, epsilon: float) -> ClaimNumber:
    """How far the two gaps are apart."""
    return at(
        one,
        epsilon,
        lambda view: size(view.gap(one, epsilon, 0) - view.gap(one, epsilon, 1)),
        gap_words,
    )


def _apart(epsilon: float) -> ClaimNumber:
    return replace(
        apart(ADULT_RACE, epsilon), name=f"{budget_words((epsilon,))}, apart"
    )


def _ratio(epsilon: float) -> ClaimNumber:
    """The larger gap over the smaller."""

    def ask(view: View) -> FloatArray:
        pair = [view.gap(ADULT_RACE, epsilon, g) for g in (0, 1)]
        small, large = sorted(pair, key=lambda gap: float(gap[0]))
        return np.asarray(large / np.maximum(small, 1e-9))

    return made(f"{budget_words((epsilon,))}, ratio", ask, r_words, ADULT_RACE)


def _fall(epsilon: float, group: int) -> ClaimNumber:
    """By which share a gap falls with privacy."""
    return made(
        f"{budget_words((epsilon,))}, {ADULT_RACE.groups[group]} falls by",
        lambda v: (
            1 - v.gap(ADULT_RACE, epsilon, group) / v.gap(ADULT_RACE, NO_DP, group)
        ),
        rate_words,
        ADULT_RACE,
    )


def shrinks(
    one: Configuration, budgets: Sequence[float]
) -> list[tuple[ClaimNumber, ClaimNumber]]:
    """Pairs that say that both gaps are larger without privacy."""
    return [(gap_of(one, NO_DP, g), gap_of(one, e, g)) for e in budgets for g in (0, 1)]


def nearly_equal(one: Configuration, epsilon: float) -> ClaimQuestion:
    """The two gaps differ by less than the word allows."""
    return flat(
        [gap_of(one, epsilon, g) for g in (0, 1)], 1 - 1 / threshold("nearly_equal")
    )


def _printed_range(name: str) -> tuple[float, float]:
    return printed(f"{name}_low"), printed(f"{name}_high")


def _rates(group: int) -> ClaimQuestion:
    """The paper says "approximately"."""
    low, high = _printed_range(f"adult_rate_{ADULT_SEX.groups[group].lower()}")
    ends = (low * (1 - threshold("about")), high * (1 + threshold("about")))
    return near([rate_of(ADULT_SEX, e, group) for e in BUDGETS], ends, 0.0)


def _printed_rates() -> ClaimQuestion:
    """The printed rates agree with the printed DP gaps, to their last digits."""
    men, women = (_printed_range(f"adult_rate_{name}") for name in ("male", "female"))
    ends = (men[0] - women[1], men[1] - women[0])
    rounding = half_digit("adult_rate_male_low") + half_digit("adult_rate_female_low")
    return near([parity_of(ADULT_SEX, e) for e in BUDGETS], ends, rounding)


def _ends(numbers: Sequence[ClaimNumber], what: str, name: str) -> ClaimQuestion:
    """The printed ends of a range are those of the table."""
    ends = ("low", "high")
    found = [
        as_printed(extreme(numbers, end, what), f"{name}_{end}", exact=True)
        for end in ends
    ]
    return together(*found)


def _with_rates(epsilon: float) -> ClaimNumber:
    """The disparity, signed by the difference of rates."""

    def ask(view: View) -> FloatArray:
        rates = view.rate(ADULT_SEX, epsilon, 0) - view.rate(ADULT_SEX, epsilon, 1)
        return np.asarray(view.disparity(ADULT_SEX, epsilon) * np.sign(rates))

    return made(
        budget_words((epsilon,)), ask, disparity_of(ADULT_SEX, epsilon).write, ADULT_SEX
    )


_EQUAL = [nearly_equal(ADULT_SEX, e) for e in BUDGETS]
_PARITIES = [parity_of(ADULT_SEX, e) for e in BUDGETS]

_race_claim = partial(Claim, about=(ADULT_RACE,))

RACE_CLAIMS = (
    _race_claim(
        "T1",
        together(best_parity(ADULT_RACE, (5.0, 10.0)), best_size(ADULT_RACE, (NO_DP,))),
        evidence=costs_resolved(ADULT_RACE, (5.0, 10.0, NO_DP)),
    ),
    _race_claim(
        "T2",
        together(
            best_parity(ADULT_RACE, (5.0, 10.0)),
            best_size(ADULT_RACE, (5.0, 10.0), largest=True),
        ),
        evidence=costs_resolved(ADULT_RACE, (5.0, 10.0)),
    ),
    _race_claim("T3", best_parity(ADULT_RACE, (NO_DP,), largest=True)),
    _race_claim(
        "T4",
        best(
            [odds_of(ADULT_RACE, e) for e in BUDGETS],
            places(BUDGETS, (5.0, 10.0)),
            what="equalized odds gap",
        ),
    ),
    _race_claim(
        "T5",
        excludes_0([disparity_of(ADULT_RACE, e) for e in BUDGETS]),
        evidence=ratio_differs(ADULT_RACE, BUDGETS),
        also=sharper_disparity(ADULT_RACE, BUDGETS),
    ),
    _race_claim(
        "T6",
        larger([(gap_of(ADULT_RACE, NO_DP, 1), gap_of(ADULT_RACE, NO_DP, 0))]),
        evidence=costs_differ(ADULT_RACE, (NO_DP,)),
        also=sharper_exposure(ADULT_RACE),
    ),
    _race_claim(
        "T7",
        together(
            larger(shrinks(ADULT_RACE, PRIVATE)),
            larger([(_apart(NO_DP), _apart(e)) for e in PRIVATE]),
        ),
        evidence=costs_resolved(ADULT_RACE, (NO_DP,)),
    ),
    _race_claim(
        "T8",
        larger([(_fall(e, 1), _fall(e, 0)) for e in PRIVATE]),
        evidence=costs_resolved(ADULT_RACE, (NO_DP,)),
    ),
    _race_claim(
        "T9",
        together(
            best(
                [_apart(e) for e in BUDGETS],
                places(BUDGETS, (NO_DP,)),
                what="difference of gaps",
            ),
            best(
                [_ratio(e) for e in BUDGETS],
                places(BUDGETS, (NO_DP,)),
                what="ratio of gaps",
            ),
        ),
        evidence=costs_resolved(ADULT_RACE, BUDGETS),
    ),
)

_sex_claim = partial(Claim, about=(ADULT_SEX,))

SEX_CLAIMS = (
    _sex_claim(
        "T10",
        excludes_0([disparity_of(ADULT_SEX, e) for e in BUDGETS]),
        evidence=ratio_differs(ADULT_SEX, BUDGETS),
        also=sharper_disparity(ADULT_SEX, BUDGETS),
    ),
    _sex_claim("T11", paper=_printed_rates(), run=together(_rates(0), _rates(1))),
    _sex_claim(
        "T12", flat([parity_of(ADULT_SEX, e) for e in BUDGETS], threshold("flat"))
    ),
    _sex_claim(
        "T13",
        paper=_ends(_PARITIES, "DP gap", "adult_sex_parity_gap"),
        run="a range printed wrongly cannot be held against another run; T12 has ours",
    ),
    _sex_claim(
        "T14",
        nearly_equal(ADULT_SEX, NO_DP),
        evidence=costs_resolved(ADULT_SEX, (NO_DP,)),
        also=sharper_exposure(ADULT_SEX),
    ),
    _sex_claim(
        "T15",
        together(
            larger(
                [(size_of(ADULT_SEX, e), size_of(ADULT_SEX, NO_DP)) for e in PRIVATE]
            ),
            larger(shrinks(ADULT_SEX, PRIVATE)),
        ),
        evidence=costs_resolved(ADULT_SEX, (NO_DP,)),
    ),
    _sex_claim(
        "T16",
        at_least(
            [
                together(best_size(ADULT_SEX, (e,)), best_parity(ADULT_SEX, (e,)))
                for e in INFORMATIVE
            ],
            1,
            what="budgets that both prefer",
        ),
    ),
    _sex_claim("T17", best_parity(ADULT_SEX, (NO_DP,))),
    _sex_claim(
        "T18",
        paper=together(above([disparity_of(ADULT_SEX, e) for e in BUDGETS]), *_EQUAL),
        run=together(above([_with_rates(e) for e in BUDGETS]), *_EQUAL),
        evidence=costs_resolved(ADULT_SEX, BUDGETS),
        also=sharper_exposure(ADULT_SEX),
    ),
)


# COMPAS.


_ODDS = [odds_of(COMPAS, e) for e in FROM_1]


def _seen(epsilon: float) -> ClaimNumber:
    """How far the DP gap is below so many of its standard deviations over seeds."""
    return made(
        budget_words((epsilon,)),
        lambda v: (
            threshold("seen_spreads")
            * v.spread(COMPAS, epsilon, "demographic_parity_gap")
            - v.parity(COMPAS, epsilon)
        ),
        rate_words,
        COMPAS,
    )


def sureness(one: Configuration, epsilon: float) -> ClaimNumber:
    """How many half-widths of its interval a mean disparity lies from 0."""

    def ask(view: View) -> FloatArray:
        width = 1.96 * view.spread(one, epsilon) / math.sqrt(view.n_seeds)
        return np.asarray(
            np.abs(view.disparity(one, epsilon)) / np.maximum(width, 1e-9)
        )

    return at(one, epsilon, ask, r_words)


def _printed_interval(view: View) -> Reply:
    text = known(
        text_figure("compas_disparity_5").ci, "the interval in the text", COMPAS
    )
    assert isinstance(view, Paper)
    table = known(
        view.number(key_at(COMPAS, 5.0, "pcer_disparity")).ci,
        "the interval in the table",
        COMPAS,
    )
    parts = [
        ClaimPart(name, np.array([0.5 - abs(a - b)]), signed, (COMPAS,))
        for name, a, b in zip(("lower end", "upper end"), text, table, strict=True)
    ]
    return Reply(
        f"text {text[0]:+.0f} to {text[1]:+.0f}, Table 1 {table[0]:+.0f} to {table[1]:+.0f}",
        tuple(parts),
        "A slip of one unit, nothing depends on it.",
    )


def _printed_sign_test(view: View) -> Reply:
    negative = int(printed("compas_negative_seeds_0.1"))
    p = sign_test(view.n_seeds - negative, negative)
    told = printed("compas_sign_test_p_0.1")
    return Reply(
        f"{negative}/{view.n_seeds} negative, p = {told:g}",
        (ClaimPart("p", np.array([0.005 - abs(p - told)]), r_words, (COMPAS,)),),
        f"The exact two-sided sign test gives p = {p:.2f}. What follows from it (no consistent "
        "sign) is the same.",
    )


def _below_floor(
    epsilon: float, group: int, floor: float, share: float = 1.0
) -> ClaimNumber:
    """How far a gap lies below a share of a floor."""
    return made(
        f"{COMPAS.groups[group]} below {share * floor:g}",
        lambda v: share * floor - v.gap(COMPAS, epsilon, group),
        gap_words,
        COMPAS,
    )


def _negatives(floor: float) -> ClaimNumber:
    return made(
        f"negative seeds, floor {floor:g}",
        lambda v: v.n_negative(COMPAS, STRONGEST, floor),
        lambda n: f"{n:.0f}",
        COMPAS,
    )


_LEVEL = printed("compas_disparity_about")
_ABOUT = threshold("about") * abs(_LEVEL)
_LATER = [disparity_of(COMPAS, e) for e in FROM_HALF]
_AHEAD = [(gap_of(COMPAS, e, 1), gap_of(COMPAS, e, 0)) for e in FROM_1]


_compas_claim = partial(Claim, about=(COMPAS,))

COMPAS_CLAIMS = (
    _compas_claim(
        "C1",
        excludes_0(_LATER, sign=-1),
        evidence=ratio_differs(COMPAS, FROM_HALF),
        also=sharper_disparity(COMPAS, FROM_HALF),
    ),
    _compas_claim(
        "C2",
        together(larger(_AHEAD), above([parity_of(COMPAS, e) for e in FROM_1])),
        evidence=costs_differ(COMPAS, FROM_1),
        also=sharper_double(COMPAS),
    ),
    _compas_claim(
        "C3", flat([parity_of(COMPAS, e) for e in PRIVATE], threshold("flat"))
    ),
    _compas_claim("C4", above([_seen(e) for e in FROM_1])),
    _compas_claim(
        "C5",
        together(
            excludes_0(_LATER, sign=-1),
            excludes_0([negative_share(COMPAS, e) for e in FROM_HALF]),
        ),
    ),
    _compas_claim(
        "C6",
        together(
            best_size(COMPAS, (0.5,), largest=True),
            larger([(gap_of(COMPAS, 1.0, g), gap_of(COMPAS, 0.5, g)) for g in (0, 1)]),
        ),
    ),
    _compas_claim(
        "C7",
        paper=_ends(_ODDS, "equalized odds gap in Table 1", "compas_odds_gap"),
        run=together(
            flat(_ODDS, threshold("flat")),
            near(
                _ODDS,
                _printed_range("compas_odds_gap"),
                half_digit("compas_odds_gap_low"),
            ),
        ),
    ),
    _compas_claim(
        "C8",
        together(
            near([disparity_of(COMPAS, e) for e in FROM_1], (_LEVEL, _LEVEL), _ABOUT),
            larger([(size_of(COMPAS, e), size_of(COMPAS, NO_DP)) for e in FROM_1]),
        ),
        evidence=ratio_differs(COMPAS, FROM_1),
    ),
    _compas_claim(
        "C9",
        above([disparity_of(COMPAS, 5.0, 1e-2)], sign=-1),
        evidence=ratio_differs(COMPAS, (5.0,)),
    ),
    _compas_claim(
        "C10",
        paper=_printed_interval,
        run="an interval of another run need not have these ends; C1 asks what matters",
    ),
    _compas_claim(
        "C11",
        best(
            [sureness(one, e) for one, e in SETTINGS],
            [k for k, (one, e) in enumerate(SETTINGS) if one == COMPAS and e in FROM_1],
            largest=True,
            what="half-widths of the interval from 0",
        ),
        evidence=ratio_differs(COMPAS, FROM_1),
    ),
    _compas_claim(
        "C13",
        correlated(
            [(parity_of(COMPAS, e), odds_of(COMPAS, e)) for e in BUDGETS],
            threshold("closely"),
            what="over budgets",
        ),
    ),
)

STRONG_CLAIMS = (
    _compas_claim("C14", best_parity(COMPAS, (STRONGEST,))),
    _compas_claim(
        "C15",
        paper=_printed_sign_test,
        run=none_apart([negative_share(COMPAS, STRONGEST)]),
    ),
    _compas_claim(
        "C16",
        together(
            excludes_0([disparity_of(COMPAS, STRONGEST)], sign=-1),
            none_apart([negative_share(COMPAS, STRONGEST)]),
        ),
    ),
    _compas_claim(
        "C17",
        together(
            *(
                best(
                    [gap_of(COMPAS, e, g) for e in BUDGETS],
                    [BUDGETS.index(STRONGEST)],
                    what=f"gap, {COMPAS.groups[g]}",
                )
                for g in (0, 1)
            )
        ),
    ),
    _compas_claim("C18", larger([(_negatives(1e-1), _negatives(1e-3))])),
    _compas_claim(
        "C19",
        above(
            [
                _below_floor(STRONGEST, g, floor, threshold("far_below"))
                for floor in (1e-2, 1e-1)
                for g in (0, 1)
            ]
        ),
    ),
)


# ACS and Bios.


PRINTED_RANGES = ((0.004, 0.007), (0.003, 0.006))
"""The ranges of the White and the Non-White gap in the text (sec:acs)."""
_DISPARITIES = [disparity_of(one, e) for one in (ACS_RACE, ACS_SEX) for e in BUDGETS]


def _printed_ranges(view: View) -> Reply:
    """Exact: the ranges of the text against those of the table, rounded alike."""
    parts = []
    told = []
    for group, ends in enumerate(PRINTED_RANGES):
        gaps = [float(view.gap(ACS_RACE, e, group)[0]) for e in BUDGETS]
        found = round(min(gaps), 3), round(max(gaps), 3)
        told.append(
            f"{ACS_RACE.groups[group]} {gap_words(min(gaps))} to {gap_words(max(gaps))}"
        )
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


def _like_adult(
    one: Configuration, other: Configuration, epsilon: float
) -> ClaimNumber:
    """The disparity, signed by that of Adult."""

    def ask(view: View) -> FloatArray:
        sign = np.sign(view.disparity(other, epsilon))
        return np.asarray(view.disparity(one, epsilon) * sign)

    return at(one, epsilon, ask, signed)


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
    Claim(
        "N3",
        both_signs([disparity_of(ACS_RACE, e) for e in BUDGETS]),
        about=(ACS_RACE,),
    ),
    Claim(
        "N4",
        paper=_printed_ranges,
        run=together(*(nearly_equal(ACS_RACE, e) for e in BUDGETS)),
        about=(ACS_RACE,),
    ),
    Claim(
        "N5",
        above([at_high_floor(ACS_RACE, e) for e in BUDGETS]),
        evidence=ratio_differs(ACS_RACE, BUDGETS),
        about=(ACS_RACE,),
    ),
    Claim(
        "N6",
        above([disparity_of(ACS_SEX, e) for e in BUDGETS]),
        evidence=ratio_differs(ACS_SEX, BUDGETS),
        about=(ACS_SEX,),
    ),
    Claim(
        "N7",
        above([at_high_floor(ACS_SEX, e) for e in BUDGETS]),
        evidence=ratio_differs(ACS_SEX, BUDGETS),
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


def _printed_rate_gap() -> ClaimQuestion:
    """The printed DP gap is the difference of the printed rates."""
    men, women = map(printed, _RATES)
    told = men - women
    rounding = sum(map(half_digit, _RATES))
    return near([parity_of(BIOS, NO_DP)], (told, told), rounding)


def _reflected(view: View) -> FloatArray:
    """Difference of predictions over difference of labels."""
    assert isinstance(view, OurRun)
    base = view.base_rate(BIOS, NO_DP, 0) - view.base_rate(BIOS, NO_DP, 1)
    return np.asarray((view.rate(BIOS, NO_DP, 0) - view.rate(BIOS, NO_DP, 1)) / base)


def _width(one: Configuration, epsilon: float) -> ClaimNumber:
    """Of the interval of the mean disparity."""
    width = 2 * 1.96
    return at(
        one,
        epsilon,
        lambda v: width * v.spread(one, epsilon) / np.sqrt(v.n_seeds),
        r_words,
    )


def _positive(epsilon: float, share: float) -> ClaimNumber:
    """Share of positive seeds beyond a share; the paper prints counts in its text."""

    def ask(view: View) -> FloatArray:
        if isinstance(view, Paper) and epsilon == NO_DP:
            return exactly(printed("bios_positive_seeds_no-DP") / view.n_seeds - share)
        return view.n_positive(BIOS, epsilon) / view.n_seeds - share

    return made(
        f"{budget_words((epsilon,))}: positive seeds − {share:.2f}", ask, r_words, BIOS
    )


def _accuracy(view: View) -> FloatArray:
    return threshold("near_chance") - view.accuracy(BIOS, STRONGEST)


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
    _bios_claim(
        "B2",
        paper=_printed_rate_gap(),
        run=together(*(as_printed(rate_of(BIOS, NO_DP, g), _RATES[g]) for g in (0, 1))),
    ),
    _bios_claim(
        "B3",
        paper="base rates of the two groups are not printed",
        run=above(
            [made("predictions differ, over labels", _reflected, r_words, BIOS)],
            1.0,
            sign=-1,
        ),
    ),
    _bios_claim(
        "B4",
        excludes_0([disparity_of(BIOS, e) for e in (NO_DP, *FROM_HALF)]),
        evidence=ratio_differs(BIOS, (NO_DP, *FROM_HALF)),
        also=sharper_disparity(BIOS, (NO_DP, *FROM_HALF)),
    ),
    _bios_claim(
        "B5",
        best(
            [_width(one, e) for one, e in SETTINGS],
            [SETTINGS.index((BIOS, NO_DP))],
            what="width of the interval",
        ),
        evidence=ratio_differs(BIOS, (NO_DP,)),
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
        larger(
            [
                (disparity_of(BIOS, a), disparity_of(BIOS, b))
                for a, b in pairwise(FROM_HALF)
            ]
        ),
        evidence=costs_resolved(BIOS, FROM_HALF),
    ),
    _bios_claim("B10", above([_positive(e, _LEAST - 0.01) for e in FROM_HALF])),
    _bios_claim(
        "B11",
        above([disparity_of(BIOS, e, HIGH) for e in FROM_HALF]),
        evidence=ratio_differs(BIOS, FROM_HALF),
    ),
    Claim(
        "B12",
        above(
            [
                disparity_of(one, e)
                for one in (BIOS, ADULT_SEX)
                for e in (NO_DP, *FROM_HALF)
            ]
        ),
        evidence=ratio_differs(BIOS, (NO_DP, *FROM_HALF), ADULT_SEX),
        about=(BIOS, ADULT_SEX),
    ),
    _bios_claim(
        "B13",
        together(
            larger(shrinks(BIOS, FROM_HALF)),
            larger(
                [(disparity_of(BIOS, e), disparity_of(BIOS, NO_DP)) for e in FROM_HALF]
            ),
        ),
        evidence=costs_resolved(BIOS, (NO_DP,)),
    ),
    _bios_claim(
        "B14",
        together(best_parity(BIOS, (STRONGEST,)), best_size(BIOS, (NO_DP,))),
        evidence=costs_resolved(BIOS, (NO_DP,)),
    ),
)
