"""What does the paper claim about Bias in Bios (Table 3)?

Read by ``ledger``. To add a claim: an entry of BIOS_CLAIMS, and its words in
``claims.toml``.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from pcer.metrics import FloatArray
from pcer_studies.claims.evidence import (
    exposures_detected,
    exposures_differ,
    ratio_differs,
    sharper_disparity,
    sharper_double,
)
from pcer_studies.claims.floors import HIGH
from pcer_studies.claims.judgement import Claim, ClaimQuestion
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import (
    ADULT_SEX,
    BIOS,
    FROM_1,
    FROM_HALF,
    GROUPS,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    computed,
    disparities,
    disparity_of,
    gap_of,
    half_digit,
    number_at,
    parity_of,
    printed,
    rate_of,
)
from pcer_studies.claims.questions import (
    best_disparity,
    best_parity,
    larger_without_privacy,
)
from pcer_studies.claims.rules import (
    above,
    as_printed,
    best,
    excludes_0,
    larger,
    near,
    none_apart,
    together,
)
from pcer_studies.claims.views import View, exactly
from pcer_studies.claims.wording import budget_words, r_words, rate_words, threshold
from pcer_studies.numbers import INTERVAL_WIDTH
from pcer_studies.protocol import NO_DP, SEEDS, Configuration

FROM_HALF_AND_NO_DP = (NO_DP, *FROM_HALF)
PRINTED_RATES = ("bios_rate_male", "bios_rate_female")
LEAST_SHARE = printed("bios_positive_seeds_low") / len(SEEDS)
"""The smallest share of positive seeds that the paper names."""
EVERY_SEED = 1 - 1 / (2 * len(SEEDS))
"""A share above which it is every seed."""


def _parity_beyond(epsilon: float, word: str) -> ClaimNumber:
    """How far the DP gap exceeds the threshold that stands for a word."""
    bound = threshold(word)
    return computed(
        f"{budget_words((epsilon,))}: DP gap − {bound:g}",
        lambda view: view.parity(BIOS, epsilon) - bound,
        rate_words,
        BIOS,
    )


def _printed_rate_gap() -> ClaimQuestion:
    """The printed DP gap is the difference of the printed rates."""
    men, women = map(printed, PRINTED_RATES)
    difference = men - women
    rounding = sum(map(half_digit, PRINTED_RATES))
    return near([parity_of(BIOS, NO_DP)], (difference, difference), rounding)


def _rate_as_printed(group: int) -> ClaimQuestion:
    """A group's rate without privacy is the printed one."""
    return as_printed(rate_of(BIOS, NO_DP, group), PRINTED_RATES[group])


def _reflected(view: View) -> FloatArray:
    """Difference of predictions over difference of labels."""
    assert isinstance(view, OurRun)
    labels = view.base_rate(BIOS, NO_DP, 0) - view.base_rate(BIOS, NO_DP, 1)
    predictions = view.rate(BIOS, NO_DP, 0) - view.rate(BIOS, NO_DP, 1)
    return np.asarray(predictions / labels)


def _width(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """Of the interval of the mean disparity."""

    def draws(view: View) -> FloatArray:
        spread = view.spread(configuration, epsilon)
        return np.asarray(INTERVAL_WIDTH * spread / np.sqrt(view.n_seeds))

    return number_at(configuration, epsilon, draws, r_words)


def _positive(epsilon: float, share: float) -> ClaimNumber:
    """Share of positive seeds beyond a share; the paper prints counts in its text."""

    def draws(view: View) -> FloatArray:
        if isinstance(view, Paper) and epsilon == NO_DP:
            return exactly(printed("bios_positive_seeds_no-DP") / view.n_seeds - share)
        return view.n_positive(BIOS, epsilon) / view.n_seeds - share

    name = f"{budget_words((epsilon,))}: positive seeds − {share:.2f}"
    return computed(name, draws, r_words, BIOS)


def _room_to_chance(view: View) -> FloatArray:
    """How far the accuracy at the strongest privacy lies below what is near chance."""
    return threshold("near_chance") - view.accuracy(BIOS, STRONGEST)


_BEYOND_LARGE = [_parity_beyond(epsilon, "large_gap") for epsilon in FROM_HALF]
_BEYOND_LARGER = [_parity_beyond(epsilon, "larger_gap") for epsilon in FROM_1]
_WIDTHS = [_width(*setting) for setting in SETTINGS]
_POSITIVE = [_positive(epsilon, LEAST_SHARE - 0.01) for epsilon in FROM_HALF]
_FALLING = [*pairwise(disparities(BIOS, FROM_HALF))]
_LARGER_DISPARITIES = [
    (disparity_of(BIOS, epsilon), disparity_of(BIOS, NO_DP)) for epsilon in FROM_HALF
]
_OF_BIOS_AND_ADULT = [
    *disparities(BIOS, FROM_HALF_AND_NO_DP),
    *disparities(ADULT_SEX, FROM_HALF_AND_NO_DP),
]

_bios_claim = partial(Claim, about=(BIOS,))

BIOS_CLAIMS = (
    _bios_claim("B1", above(_BEYOND_LARGE + _BEYOND_LARGER)),
    _bios_claim(
        "B2",
        paper=_printed_rate_gap(),
        run=together(*map(_rate_as_printed, GROUPS)),
    ),
    _bios_claim(
        "B3",
        paper="base rates of the two groups are not printed",
        run=above(
            [computed("predictions differ, over labels", _reflected, r_words, BIOS)],
            1.0,
            sign=-1,
        ),
    ),
    _bios_claim(
        "B4",
        excludes_0(disparities(BIOS, FROM_HALF_AND_NO_DP)),
        evidence=ratio_differs(BIOS, FROM_HALF_AND_NO_DP),
        also=sharper_disparity(BIOS, FROM_HALF_AND_NO_DP),
    ),
    _bios_claim(
        "B5",
        best(_WIDTHS, [SETTINGS.index((BIOS, NO_DP))], what="width of the interval"),
        evidence=ratio_differs(BIOS, (NO_DP,)),
    ),
    _bios_claim(
        "B6",
        together(
            larger([(gap_of(BIOS, NO_DP, 1), gap_of(BIOS, NO_DP, 0))]),
            larger([(rate_of(BIOS, NO_DP, 0), rate_of(BIOS, NO_DP, 1))]),
        ),
        evidence=exposures_differ(BIOS, (NO_DP,)),
        also=sharper_double(BIOS),
    ),
    _bios_claim("B7", above([_positive(NO_DP, EVERY_SEED)])),
    _bios_claim(
        "B8",
        together(
            above([computed("0.6 − accuracy", _room_to_chance, rate_words, BIOS)]),
            none_apart([disparity_of(BIOS, STRONGEST)]),
        ),
    ),
    _bios_claim("B9", larger(_FALLING), evidence=exposures_detected(BIOS, FROM_HALF)),
    _bios_claim("B10", above(_POSITIVE)),
    _bios_claim(
        "B11",
        above(disparities(BIOS, FROM_HALF, HIGH)),
        evidence=ratio_differs(BIOS, FROM_HALF),
    ),
    Claim(
        "B12",
        above(_OF_BIOS_AND_ADULT),
        evidence=ratio_differs(BIOS, FROM_HALF_AND_NO_DP, ADULT_SEX),
        about=(BIOS, ADULT_SEX),
    ),
    _bios_claim(
        "B13",
        together(
            larger(larger_without_privacy(BIOS, FROM_HALF)),
            larger(_LARGER_DISPARITIES),
        ),
        evidence=exposures_detected(BIOS, (NO_DP,)),
    ),
    _bios_claim(
        "B14",
        together(best_parity(BIOS, (STRONGEST,)), best_disparity(BIOS, (NO_DP,))),
        evidence=exposures_detected(BIOS, (NO_DP,)),
    ),
)
