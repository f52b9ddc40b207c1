"""Claims about COMPAS (Table 1 and what the paper makes of it)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from pcer.auditing.words import signed
from pcer.metrics import FloatArray
from pcer.statistics import sign_test
from pcer_studies.claims.adult import best_parity, best_size
from pcer_studies.claims.evidence import (
    costs_differ,
    disparity_shown,
    sharper_disparity,
    sharper_double,
)
from pcer_studies.claims.judgement import Claim, ClaimPart, ClaimQuestion, Reply
from pcer_studies.claims.rules import (
    COMPAS,
    FROM_1,
    FROM_HALF,
    PRIVATE,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    above,
    best,
    budget_words,
    correlated,
    disparity_of,
    excludes_0,
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
    rate_words,
    size_of,
    threshold,
    together,
)
from pcer_studies.claims.views import Paper, View, known
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration
from pcer_studies.published import key_at, text_figure

_ODDS = [odds_of(COMPAS, e) for e in FROM_1]


def _seen(epsilon: float) -> ClaimNumber:
    """How far the DP gap is below so many of its standard deviations over seeds."""
    return made(
        budget_words((epsilon,)),
        lambda v: (
            threshold("seen_spreads") * v.spread(COMPAS, epsilon, "demographic_parity_gap")
            - v.parity(COMPAS, epsilon)
        ),
        rate_words,
        COMPAS,
    )


def sureness(one: Configuration, epsilon: float) -> ClaimNumber:
    """How many half-widths of its interval a mean disparity lies from 0."""

    def ask(view: View) -> FloatArray:
        width = 1.96 * view.spread(one, epsilon) / math.sqrt(view.n_seeds)
        return np.asarray(np.abs(view.disparity(one, epsilon)) / np.maximum(width, 1e-9))

    return made(f"{one.name}, {budget_words((epsilon,))}", ask, r_words, one)


def _odds_end(pick: str) -> ClaimQuestion:
    """A printed end of a range, as the table has it."""
    choose = np.min if pick == "low" else np.max
    told = printed(f"compas_odds_gap_{pick}")
    number = made(
        f"{'smallest' if pick == 'low' else 'largest'} equalized odds gap in Table 1",
        lambda view: choose([n.of(view) for n in _ODDS], axis=0),
        rate_words,
        COMPAS,
    )
    return near([number], (told, told), half_digit(f"compas_odds_gap_{pick}"), exact=True)


def _printed_interval(view: View) -> Reply:
    text = known(text_figure("compas_disparity_5").ci, "the interval in the text", COMPAS)
    assert isinstance(view, Paper)
    table = known(
        view.number(key_at(COMPAS, 5.0, "pcer_disparity")).ci, "the interval in the table", COMPAS
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
    p, told = sign_test(view.n_seeds - negative, negative), printed("compas_sign_test_p_0.1")
    return Reply(
        f"{negative}/{view.n_seeds} negative, p = {told:g}",
        (ClaimPart("p", np.array([0.005 - abs(p - told)]), r_words, (COMPAS,)),),
        f"The exact two-sided sign test gives p = {p:.2f}. What follows from it (no consistent "
        "sign) is the same.",
    )


def _below_floor(epsilon: float, group: int, floor: float, share: float = 1.0) -> ClaimNumber:
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


_RESULTS = "Results, COMPAS: Race"
_LEVEL = printed("compas_disparity_about")
_ABOUT = threshold("about") * abs(_LEVEL)
_LATER = [disparity_of(COMPAS, e) for e in FROM_HALF]
_AHEAD = [(gap_of(COMPAS, e, 1), gap_of(COMPAS, e, 0)) for e in FROM_1]


_claim = partial(Claim, about=(COMPAS,))

CLAIMS = (
    _claim(
        "C1",
        excludes_0(_LATER, sign=-1),
        evidence=disparity_shown(COMPAS, FROM_HALF),
        also=sharper_disparity(COMPAS, FROM_HALF),
    ),
    _claim(
        "C2",
        together(larger(_AHEAD), above([parity_of(COMPAS, e) for e in FROM_1])),
        evidence=costs_differ(COMPAS, FROM_1),
        also=sharper_double(COMPAS),
    ),
    _claim("C3", flat([parity_of(COMPAS, e) for e in PRIVATE], threshold("flat"))),
    _claim("C4", above([_seen(e) for e in FROM_1])),
    _claim(
        "C5",
        together(
            excludes_0(_LATER, sign=-1), excludes_0([negative_share(COMPAS, e) for e in FROM_HALF])
        ),
    ),
    _claim(
        "C6",
        together(
            best_size(COMPAS, (0.5,), largest=True),
            larger([(gap_of(COMPAS, 1.0, g), gap_of(COMPAS, 0.5, g)) for g in (0, 1)]),
        ),
    ),
    _claim(
        "C7",
        paper=together(_odds_end("low"), _odds_end("high")),
        run=together(
            flat(_ODDS, threshold("flat")),
            near(
                _ODDS,
                (printed("compas_odds_gap_low"), printed("compas_odds_gap_high")),
                half_digit("compas_odds_gap_low"),
            ),
        ),
    ),
    _claim(
        "C8",
        together(
            near([disparity_of(COMPAS, e) for e in FROM_1], (_LEVEL, _LEVEL), _ABOUT),
            larger([(size_of(COMPAS, e), size_of(COMPAS, NO_DP)) for e in FROM_1]),
        ),
        evidence=disparity_shown(COMPAS, FROM_1),
    ),
    _claim(
        "C9",
        above([disparity_of(COMPAS, 5.0, 1e-2)], sign=-1),
        evidence=disparity_shown(COMPAS, (5.0,)),
    ),
    _claim(
        "C10",
        paper=_printed_interval,
        run="an interval of another run need not have these ends; C1 asks what matters",
    ),
    _claim(
        "C11",
        best(
            [sureness(one, e) for one, e in SETTINGS],
            [k for k, (one, e) in enumerate(SETTINGS) if one == COMPAS and e in FROM_1],
            largest=True,
            what="half-widths of the interval from 0",
        ),
        evidence=disparity_shown(COMPAS, FROM_1),
    ),
    _claim(
        "C13",
        correlated(
            [(parity_of(COMPAS, e), odds_of(COMPAS, e)) for e in BUDGETS],
            threshold("closely"),
            what="over budgets",
        ),
    ),
)

STRONG_CLAIMS = (
    _claim("C14", best_parity(COMPAS, (STRONGEST,))),
    _claim("C15", paper=_printed_sign_test, run=none_apart([negative_share(COMPAS, STRONGEST)])),
    _claim(
        "C16",
        together(
            excludes_0([disparity_of(COMPAS, STRONGEST)], sign=-1),
            none_apart([negative_share(COMPAS, STRONGEST)]),
        ),
    ),
    _claim(
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
    _claim("C18", larger([(_negatives(1e-1), _negatives(1e-3))])),
    _claim(
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
