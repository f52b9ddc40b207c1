"""Claims about Adult: race (Table S4) and sex (Table S3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pcer.metrics import FloatArray
from pcer_studies.claims.evidence import (
    costs_differ,
    costs_resolved,
    disparity_shown,
    sharper_disparity,
    sharper_exposure,
)
from pcer_studies.claims.judgement import Claim, ClaimQuestion
from pcer_studies.claims.rules import (
    ADULT_RACE,
    ADULT_SEX,
    INFORMATIVE,
    PRIVATE,
    ClaimNumber,
    above,
    at_least,
    best,
    budget_words,
    disparity_of,
    excludes_0,
    flat,
    gap_of,
    gap_words,
    half_digit,
    larger,
    made,
    near,
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
from pcer_studies.claims.views import View
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration


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
    return made(
        f"{budget_words((epsilon,))}, apart",
        lambda view: size(view.gap(one, epsilon, 0) - view.gap(one, epsilon, 1)),
        gap_words,
        one,
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
        lambda v: 1 - v.gap(ADULT_RACE, epsilon, group) / v.gap(ADULT_RACE, NO_DP, group),
        rate_words,
        ADULT_RACE,
    )


def shrinks(one: Configuration, budgets: Sequence[float]) -> list[tuple[ClaimNumber, ClaimNumber]]:
    """Pairs that say that both gaps are larger without privacy."""
    return [(gap_of(one, NO_DP, g), gap_of(one, e, g)) for e in budgets for g in (0, 1)]


def nearly_equal(one: Configuration, epsilon: float) -> ClaimQuestion:
    """The two gaps differ by less than the word allows."""
    return flat([gap_of(one, epsilon, g) for g in (0, 1)], 1 - 1 / threshold("nearly_equal"))


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


def _parity_end(pick: str) -> ClaimNumber:
    """The smallest or largest printed DP gap."""
    choose = np.min if pick == "low" else np.max
    return made(
        "smallest DP gap" if pick == "low" else "largest DP gap",
        lambda view: choose([view.parity(ADULT_SEX, e) for e in BUDGETS], axis=0),
        rate_words,
        ADULT_SEX,
    )


def _as_printed(pick: str) -> ClaimQuestion:
    told = printed(f"adult_sex_parity_gap_{pick}")
    return near(
        [_parity_end(pick)], (told, told), half_digit(f"adult_sex_parity_gap_{pick}"), exact=True
    )


def _with_rates(epsilon: float) -> ClaimNumber:
    """The disparity, signed by the difference of rates."""

    def ask(view: View) -> FloatArray:
        rates = view.rate(ADULT_SEX, epsilon, 0) - view.rate(ADULT_SEX, epsilon, 1)
        return np.asarray(view.disparity(ADULT_SEX, epsilon) * np.sign(rates))

    return made(budget_words((epsilon,)), ask, disparity_of(ADULT_SEX, epsilon).write, ADULT_SEX)


_RACE, _SEX = "sec:adult-race (Table S4)", "sec:adult-sex (Table S3)"
_EQUAL = [nearly_equal(ADULT_SEX, e) for e in BUDGETS]

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
            best_parity(ADULT_RACE, (5.0, 10.0)), best_size(ADULT_RACE, (5.0, 10.0), largest=True)
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
        evidence=disparity_shown(ADULT_RACE, BUDGETS),
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
            larger([(apart(ADULT_RACE, NO_DP), apart(ADULT_RACE, e)) for e in PRIVATE]),
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
                [apart(ADULT_RACE, e) for e in BUDGETS],
                places(BUDGETS, (NO_DP,)),
                what="difference of gaps",
            ),
            best([_ratio(e) for e in BUDGETS], places(BUDGETS, (NO_DP,)), what="ratio of gaps"),
        ),
        evidence=costs_resolved(ADULT_RACE, BUDGETS),
    ),
)

_sex_claim = partial(Claim, about=(ADULT_SEX,))

SEX_CLAIMS = (
    _sex_claim(
        "T10",
        excludes_0([disparity_of(ADULT_SEX, e) for e in BUDGETS]),
        evidence=disparity_shown(ADULT_SEX, BUDGETS),
        also=sharper_disparity(ADULT_SEX, BUDGETS),
    ),
    _sex_claim("T11", paper=_printed_rates(), run=together(_rates(0), _rates(1))),
    _sex_claim("T12", flat([parity_of(ADULT_SEX, e) for e in BUDGETS], threshold("flat"))),
    _sex_claim(
        "T13",
        paper=together(_as_printed("low"), _as_printed("high")),
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
            larger([(size_of(ADULT_SEX, e), size_of(ADULT_SEX, NO_DP)) for e in PRIVATE]),
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
