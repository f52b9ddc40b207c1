"""Claims about Bias in Bios (Table 3). Our texts are far fewer than the paper's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pcer.metrics import FloatArray
from pcer_studies.about_adult import best_parity, best_size, shrinks
from pcer_studies.about_floors import HIGH
from pcer_studies.evidence import (
    costs_differ,
    costs_resolved,
    disparity_shown,
    sharper_disparity,
    sharper_double,
)
from pcer_studies.judgement import Claim, ClaimQuestion
from pcer_studies.protocol import NO_DP, SEEDS, Configuration
from pcer_studies.rules import (
    ADULT_SEX,
    BIOS,
    FROM_1,
    FROM_HALF,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    above,
    best,
    budget_words,
    disparity_of,
    excludes_0,
    gap_of,
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
    together,
)
from pcer_studies.thresholds import threshold
from pcer_studies.views import OurRun, Paper, View, exactly


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
_ALL = 1 - 1 / (2 * len(SEEDS))
"""A share above which it is every seed."""

CLAIMS = (
    Claim(
        key="B1",
        place=_BIOS,
        words="The DP gap exceeds 0.48 from ε = 0.5 and 0.5 from ε = 1.",
        rule=above(
            [
                *(_beyond(e, threshold("large_gap")) for e in FROM_HALF),
                *(_beyond(e, threshold("larger_gap")) for e in FROM_1),
            ]
        ),
        about=(BIOS,),
    ),
    Claim(
        key="B2",
        place=_BIOS,
        words="86 % of men and 33 % of women are predicted to be professors.",
        paper=_printed_rates(),
        run=together(_rate(0), _rate(1)),
        about=(BIOS,),
    ),
    Claim(
        key="B3",
        place=_BIOS,
        words="This gap is inherited from the occupations, not made by the model.",
        paper="base rates of the two groups are not printed",
        run=above(
            [made("predictions differ, over labels", _reflected, r_words, BIOS)], 1.0, sign=-1
        ),
        caveat="Asked: whether predictions differ by no more than labels do.",
        about=(BIOS,),
    ),
    Claim(
        key="B4",
        place=f"{_BIOS}; sec:summary; Table S2",
        words="The disparity is above 0 without privacy and from ε = 0.5, its interval "
        "excluding 0.",
        rule=excludes_0([disparity_of(BIOS, e) for e in (NO_DP, *FROM_HALF)]),
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF)),
        about=(BIOS,),
        also=sharper_disparity(BIOS, (NO_DP, *FROM_HALF)),
    ),
    Claim(
        key="B5",
        place=f"{_BIOS}; sec:summary",
        words="Without privacy it has the tightest interval of the study.",
        rule=best(
            [_width(one, e) for one, e in SETTINGS],
            [SETTINGS.index((BIOS, NO_DP))],
            what="width of the interval",
        ),
        evidence=disparity_shown(BIOS, (NO_DP,)),
        about=(BIOS,),
    ),
    Claim(
        key="B6",
        place=_BIOS,
        words="Without privacy women are memorised more and receive less: the inequity is there "
        "before any noise.",
        rule=together(
            larger([(gap_of(BIOS, NO_DP, 1), gap_of(BIOS, NO_DP, 0))]),
            larger([(rate_of(BIOS, NO_DP, 0), rate_of(BIOS, NO_DP, 1))]),
        ),
        evidence=costs_differ(BIOS, (NO_DP,)),
        about=(BIOS,),
        also=sharper_double(BIOS),
    ),
    Claim(
        key="B7",
        place=_BIOS,
        words="Without privacy every seed is positive.",
        rule=above([_positive(NO_DP, _ALL)]),
        about=(BIOS,),
    ),
    Claim(
        key="B8",
        place=_BIOS,
        words="At ε = 0.1 the model is near chance and the disparity says nothing.",
        rule=together(
            above([made("0.6 − accuracy", _accuracy, rate_words, BIOS)]),
            none_apart([disparity_of(BIOS, STRONGEST)]),
        ),
        about=(BIOS,),
    ),
    Claim(
        key="B9",
        place=_BIOS,
        words="With privacy the disparity peaks at ε = 0.5 and falls from there.",
        rule=larger(
            [(disparity_of(BIOS, a), disparity_of(BIOS, b)) for a, b in pairwise(FROM_HALF)]
        ),
        evidence=costs_resolved(BIOS, FROM_HALF),
        about=(BIOS,),
    ),
    Claim(
        key="B10",
        place=_BIOS,
        words="From ε = 0.5 at least 43 of 50 seeds are positive.",
        rule=above([_positive(e, _LEAST - 0.01) for e in FROM_HALF]),
        about=(BIOS,),
    ),
    Claim(
        key="B11",
        place=f"{_BIOS}; Table S1",
        words="The direction survives a floor of 0.01.",
        rule=above([disparity_of(BIOS, e, HIGH) for e in FROM_HALF]),
        evidence=disparity_shown(BIOS, FROM_HALF),
        caveat="Table S2 calls it direction only from ε = 1, the gaps being below that floor.",
        about=(BIOS,),
    ),
    Claim(
        key="B12",
        place=f"{_BIOS}; sec:summary",
        words="Bios repeats the pattern of Adult (sex) in text.",
        rule=above(
            [disparity_of(one, e) for one in (BIOS, ADULT_SEX) for e in (NO_DP, *FROM_HALF)]
        ),
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF), ADULT_SEX),
        about=(BIOS, ADULT_SEX),
    ),
    Claim(
        key="B13",
        place=_BIOS,
        words="Noise compresses the gaps and thereby amplifies the disparity.",
        rule=together(
            larger(shrinks(BIOS, FROM_HALF)),
            larger([(disparity_of(BIOS, e), disparity_of(BIOS, NO_DP)) for e in FROM_HALF]),
        ),
        evidence=costs_resolved(BIOS, (NO_DP,)),
        about=(BIOS,),
    ),
    Claim(
        key="B14",
        place="sec:summary; Table S2",
        words="Ranking reversal: the DP gap is smallest at ε = 0.1, the disparity without privacy.",
        rule=together(best_parity(BIOS, (STRONGEST,)), best_size(BIOS, (NO_DP,))),
        evidence=costs_resolved(BIOS, (NO_DP,)),
        caveat="The paper calls ε = 0.1 floor-dominated, and so does not rank it by disparity.",
        about=(BIOS,),
    ),
)
