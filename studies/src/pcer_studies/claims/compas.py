"""What does the paper claim about COMPAS (Table 1, Figure 1b), and strong privacy?

Read by ``ledger``. To add a claim: an entry of COMPAS_CLAIMS or STRONG_CLAIMS, and its
words in ``claims.toml``.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np

from pcer.metrics import FloatArray
from pcer.statistics import sign_test
from pcer.wording import signed
from pcer_studies.claims.evidence import (
    exposures_differ,
    ratio_differs,
    sharper_disparity,
    sharper_double,
)
from pcer_studies.claims.judgement import Claim, ClaimPart, ClaimQuestion, Reply
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import (
    COMPAS,
    FROM_1,
    FROM_HALF,
    GROUPS,
    PRIVATE,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    computed,
    disparities,
    disparity_of,
    disparity_size,
    gap_of,
    half_digit,
    negative_share,
    number_at,
    odds_gaps,
    odds_of,
    parities,
    parity_of,
    printed,
)
from pcer_studies.claims.questions import (
    best_disparity,
    best_parity,
    ends_as_printed,
    places,
    printed_range,
)
from pcer_studies.claims.rules import (
    above,
    best,
    correlated,
    excludes_0,
    flat,
    larger,
    near,
    none_apart,
    together,
)
from pcer_studies.claims.views import View, known
from pcer_studies.claims.wording import (
    gap_words,
    r_words,
    threshold,
)
from pcer_studies.numbers import INTERVAL_WIDTH
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration
from pcer_studies.published import key_at, text_figure

LEAST_WIDTH = 1e-9
"""A half-width below this is taken for this where one divides by it."""
BY_DEFINITION = "it is true by definition and not a number"
ONE_UNIT = 0.5
"""Numbers without decimals that differ by less are the same."""


def half_widths_from_0(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """How many half-widths of its interval a mean disparity lies from 0."""

    def draws(view: View) -> FloatArray:
        spread = view.spread(configuration, epsilon)
        half_width = INTERVAL_WIDTH / 2 * spread / math.sqrt(view.n_seeds)
        disparity = np.abs(view.disparity(configuration, epsilon))
        return np.asarray(disparity / np.maximum(half_width, LEAST_WIDTH))

    return number_at(configuration, epsilon, draws, r_words)


def _printed_interval(view: View) -> Reply:
    """Exact: an interval of the text against that of Table 1."""
    assert isinstance(view, Paper)
    text = known(
        text_figure("compas_disparity_5").ci, "the interval in the text", COMPAS
    )
    figure = view.number(key_at(COMPAS, 5.0, "pcer_disparity"))
    table = known(figure.ci, "the interval in the table", COMPAS)
    parts = []
    for name, in_text, in_table in zip(
        ("lower end", "upper end"), text, table, strict=True
    ):
        margin = np.array([ONE_UNIT - abs(in_text - in_table)])
        parts.append(ClaimPart(name, margin, signed, (COMPAS,)))
    return Reply(
        f"text {text[0]:+.0f} to {text[1]:+.0f}, "
        f"Table 1 {table[0]:+.0f} to {table[1]:+.0f}",
        tuple(parts),
        "A slip of one unit, nothing depends on it.",
    )


def _printed_sign_test(view: View) -> Reply:
    """Exact: the printed p-value against the one that the printed counts give."""
    n_negative = int(printed("compas_negative_seeds_0.1"))
    printed_p = printed("compas_sign_test_p_0.1")
    p = sign_test(view.n_seeds - n_negative, n_negative)
    margin = np.array([0.005 - abs(p - printed_p)])
    return Reply(
        f"{n_negative}/{view.n_seeds} negative, p = {printed_p:g}",
        (ClaimPart("p", margin, r_words, (COMPAS,)),),
        f"The exact two-sided sign test gives p = {p:.2f}. What follows from it (no "
        "consistent sign) is the same.",
    )


def _below_floor(group: int, floor: float) -> ClaimNumber:
    """How far the gap at the strongest privacy lies below what is far below a floor."""
    share = threshold("far_below")
    return computed(
        f"{COMPAS.groups[group]} below {share * floor:g}",
        lambda view: share * floor - view.gap(COMPAS, STRONGEST, group),
        gap_words,
        COMPAS,
    )


def _negatives(floor: float) -> ClaimNumber:
    """Seeds whose disparity at the strongest privacy is below 0."""
    return computed(
        f"negative seeds, floor {floor:g}",
        lambda view: view.n_negative(COMPAS, STRONGEST, floor),
        lambda n: f"{n:.0f}",
        COMPAS,
    )


def _smallest_at_strongest(group: int) -> ClaimQuestion:
    """A group's gap is smallest at the strongest privacy."""
    gaps = [gap_of(COMPAS, epsilon, group) for epsilon in BUDGETS]
    what = f"gap, {COMPAS.groups[group]}"
    return best(gaps, places(BUDGETS, (STRONGEST,)), what=what)


_ODDS = odds_gaps(COMPAS, FROM_1)
_NEGATIVE_SHARES = [negative_share(COMPAS, epsilon) for epsilon in FROM_HALF]
_LEVEL = printed("compas_disparity_about")
_ABOUT = threshold("about") * abs(_LEVEL)
_FROM_HALF = disparities(COMPAS, FROM_HALF)
_SECOND_AHEAD = [
    (gap_of(COMPAS, epsilon, 1), gap_of(COMPAS, epsilon, 0)) for epsilon in FROM_1
]
_RISES = [(gap_of(COMPAS, 1.0, group), gap_of(COMPAS, 0.5, group)) for group in GROUPS]
_SMALLER_DISPARITIES = [
    (disparity_size(COMPAS, epsilon), disparity_size(COMPAS, NO_DP))
    for epsilon in FROM_1
]
_HALF_WIDTHS = [half_widths_from_0(*setting) for setting in SETTINGS]
_COMPAS_PLACES = [SETTINGS.index((COMPAS, epsilon)) for epsilon in FROM_1]
_PARITY_AND_ODDS = [
    (parity_of(COMPAS, epsilon), odds_of(COMPAS, epsilon)) for epsilon in BUDGETS
]

_compas_claim = partial(Claim, about=(COMPAS,))

COMPAS_CLAIMS = (
    _compas_claim(
        "C1",
        excludes_0(_FROM_HALF, sign=-1),
        evidence=ratio_differs(COMPAS, FROM_HALF),
        also=sharper_disparity(COMPAS, FROM_HALF),
    ),
    _compas_claim(
        "C2",
        together(larger(_SECOND_AHEAD), above(parities(COMPAS, FROM_1))),
        evidence=exposures_differ(COMPAS, FROM_1),
        also=sharper_double(COMPAS),
    ),
    _compas_claim("C3", flat(parities(COMPAS, PRIVATE), threshold("flat"))),
    _compas_claim("C4", paper=BY_DEFINITION, run=BY_DEFINITION),
    _compas_claim(
        "C5",
        together(excludes_0(_FROM_HALF, sign=-1), excludes_0(_NEGATIVE_SHARES)),
    ),
    _compas_claim(
        "C6",
        together(best_disparity(COMPAS, (0.5,), largest=True), larger(_RISES)),
    ),
    _compas_claim(
        "C7",
        paper=ends_as_printed(
            _ODDS, "equalized odds gap in Table 1", "compas_odds_gap"
        ),
        run=together(
            flat(_ODDS, threshold("flat")),
            near(
                _ODDS,
                printed_range("compas_odds_gap"),
                half_digit("compas_odds_gap_low"),
            ),
        ),
    ),
    _compas_claim(
        "C8",
        together(
            near(disparities(COMPAS, FROM_1), (_LEVEL, _LEVEL), _ABOUT),
            larger(_SMALLER_DISPARITIES),
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
            _HALF_WIDTHS,
            _COMPAS_PLACES,
            largest=True,
            what="half-widths of the interval from 0",
        ),
        evidence=ratio_differs(COMPAS, FROM_1),
    ),
    _compas_claim(
        "C13",
        correlated(_PARITY_AND_ODDS, threshold("closely"), what="over budgets"),
    ),
)


_AT_STRONGEST = negative_share(COMPAS, STRONGEST)
_FAR_BELOW_FLOORS = [
    _below_floor(group, floor) for floor, group in product((1e-2, 1e-1), GROUPS)
]

STRONG_CLAIMS = (
    _compas_claim("C14", best_parity(COMPAS, (STRONGEST,))),
    _compas_claim("C15", paper=_printed_sign_test, run=none_apart([_AT_STRONGEST])),
    _compas_claim(
        "C16",
        together(
            excludes_0([disparity_of(COMPAS, STRONGEST)], sign=-1),
            none_apart([_AT_STRONGEST]),
        ),
    ),
    _compas_claim("C17", together(*map(_smallest_at_strongest, GROUPS))),
    _compas_claim("C18", larger([(_negatives(1e-1), _negatives(1e-3))])),
    _compas_claim("C19", above(_FAR_BELOW_FLOORS)),
)
