"""Claims about the floor: Table S1, and what the paper makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import signed
from pcer_studies.claims.evidence import all_resolved
from pcer_studies.claims.judgement import Claim, ClaimQuestion, Support
from pcer_studies.claims.rules import (
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    FROM_HALF,
    STRONGEST,
    ClaimNumber,
    above,
    at,
    best,
    both_signs,
    budget_words,
    disparity_of,
    flat,
    gap_of,
    gap_words,
    larger,
    made,
    near,
    printed,
    r_words,
    size,
    threshold,
    together,
)
from pcer_studies.claims.views import Paper, View, exactly
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DEFAULT_FLOOR,
    FLOORS,
    NO_DP,
    Configuration,
)
from pcer_studies.published import NotThere

SELECTED = ((COMPAS, 5.0), (ADULT_RACE, 1.0), (BIOS, 1.0))
"""The budgets that Table S1 holds against ε = 0.1."""
HIGH = 1e-2
"""The floor at which the paper repeats its rankings."""


def floor_slope(values: Sequence[FloatArray]) -> FloatArray:
    """Least-squares slope of log |disparity| against log floor; -1 is all floor.

    NotThere where a disparity is 0, which has no logarithm.

    >>> round(float(floor_slope([np.array([-v]) for v in (1000.0, 100.0, 10.0, 1.0)])[0]), 6)
    -1.0
    """
    if not all(value[0] for value in values):
        raise NotThere("a disparity of 0 has no slope over floors")
    x = np.array([math.log(floor) for floor in FLOORS])
    y = np.log(np.maximum(np.abs(values), 1e-12))
    x = x - x.mean()
    return np.asarray((x[:, None] * (y - y.mean(axis=0))).sum(axis=0) / (x * x).sum())


def _slope(one: Configuration, epsilon: float) -> ClaimNumber:
    return made(
        f"slope of {one.name}, {budget_words((epsilon,))}",
        lambda view: floor_slope(
            [view.disparity(one, epsilon, floor) for floor in FLOORS]
        ),
        r_words,
        one,
    )


def _below(
    one: Configuration, epsilon: float, group: int, floor: float = DEFAULT_FLOOR
) -> ClaimNumber:
    """How far a gap lies below a floor."""
    name = f", {one.groups[group]}: {floor:g} − gap"
    return at(
        one,
        epsilon,
        lambda view: floor - view.gap(one, epsilon, group),
        gap_words,
        name,
    )


def _over(one: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """How far a gap lies above the default floor."""
    name = f", {one.groups[group]}: gap − {DEFAULT_FLOOR:g}"
    of = gap_of(one, epsilon, group).of
    return at(one, epsilon, lambda view: of(view) - DEFAULT_FLOOR, gap_words, name)


def _steady(one: Configuration, epsilon: float, floor: float) -> ClaimNumber:
    """A disparity, signed by the one at the default floor."""

    def ask(view: View) -> FloatArray:
        sign = np.sign(view.disparity(one, epsilon)[0])
        return np.asarray(view.disparity(one, epsilon, floor) * sign)

    return at(one, epsilon, ask, signed, f", floor {floor:g}")


def _genuine(view: View) -> Support:
    shown = [(one, e) for one, e in SELECTED if view.disparity_is_evidence(one, e)]
    who = (
        "the gap of the lower-ratio group stands out"
        if isinstance(view, Paper)
        else "shown"
    )
    return Support(
        len(shown) == len(SELECTED),
        f"A stable sign says nothing about the gaps: above them it is the sign of the rate "
        f"difference (Proposition 2). By the test of the gaps: {who} in {len(shown)} of "
        f"{len(SELECTED)}.",
    )


def at_high_floor(one: Configuration, epsilon: float, end: str = "low") -> ClaimNumber:
    """A disparity at floor 0.01; of several budgets the paper prints the ends of the range."""

    def ask(view: View) -> FloatArray:
        if isinstance(view, Paper):
            return exactly(printed(f"{one.dataset}_{one.attribute}_floor_0.01_{end}"))
        return view.disparity(one, epsilon, HIGH)

    return at(one, epsilon, ask, signed, ", floor 0.01")


def _positive_share(one: Configuration, epsilon: float, text: str) -> ClaimNumber:
    """Share of seeds that are positive at floor 0.01; the paper prints the least over budgets."""

    def ask(view: View) -> FloatArray:
        if isinstance(view, Paper):
            return exactly(printed(text) / view.n_seeds)
        return view.n_positive(one, epsilon, HIGH) / view.n_seeds

    return at(one, epsilon, ask, r_words, ", floor 0.01, positive seeds")


def _every_seed(
    one: Configuration, budgets: Sequence[float], text: str
) -> ClaimQuestion:
    return near([_positive_share(one, e, text) for e in budgets], (1.0, 1.0), 0.01)


def _mirrored(one: Configuration) -> ClaimNumber:
    """Disparity times floor over DP gap at the strongest privacy."""
    return made(
        one.name,
        lambda v: (
            size(v.disparity(one, STRONGEST)) * DEFAULT_FLOOR / v.parity(one, STRONGEST)
        ),
        r_words,
        one,
    )


_SEX = [at_high_floor(ADULT_SEX, e) for e in BUDGETS]
_SEX_ENDS = [
    made(
        f"{ADULT_SEX.name}, floor 0.01, {word}",
        at_high_floor(ADULT_SEX, 1.0, end).of,
        signed,
        ADULT_SEX,
    )
    for word, end in (("smallest", "low"), ("largest", "high"))
]
"""The paper says that these are all six."""
_SEX_SEEDS = _every_seed(ADULT_SEX, BUDGETS, "adult_sex_floor_0.01_positive_seeds")
_STD = [
    made(
        f"std of {ADULT_RACE.name}, {budget_words((e,))}, floor 0.01",
        lambda view, e=e: view.spread(ADULT_RACE, e, floor=HIGH),  # type: ignore[misc]
        r_words,
        ADULT_RACE,
    )
    for e in (STRONGEST, 1.0)
]

CLAIMS = (
    Claim(
        "F1",
        above([_below(one, STRONGEST, g) for one in CONFIGURATIONS for g in (0, 1)]),
        about=CONFIGURATIONS,
    ),
    Claim(
        "F2",
        larger(
            [
                (gap_of(one, NO_DP, g), gap_of(one, STRONGEST, g))
                for one in CONFIGURATIONS
                for g in (0, 1)
            ]
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "F3",
        near([_slope(COMPAS, STRONGEST)], (-1.0, -1.0), threshold("slope")),
        about=(COMPAS,),
    ),
    Claim(
        "F4",
        larger([(_slope(one, e), _slope(one, STRONGEST)) for one, e in SELECTED]),
        about=(COMPAS, ADULT_RACE, BIOS),
    ),
    Claim(
        "F5",
        both_signs([disparity_of(COMPAS, STRONGEST, floor) for floor in FLOORS]),
        about=(COMPAS,),
    ),
    Claim(
        "F6",
        above([_steady(one, e, floor) for one, e in SELECTED for floor in FLOORS]),
        evidence=_genuine,
        about=(COMPAS, ADULT_RACE, BIOS),
    ),
    Claim(
        "F7",
        best(
            [
                disparity_of(ADULT_RACE, NO_DP, HIGH),
                *(at_high_floor(ADULT_RACE, e, "high") for e in FROM_HALF),
            ],
            [0],
            what="disparity",
        ),
        about=(ADULT_RACE,),
    ),
    Claim(
        "F8",
        together(
            above([disparity_of(ADULT_RACE, STRONGEST, HIGH)]),
            larger([(_STD[0], _STD[1])]),
        ),
        about=(ADULT_RACE,),
    ),
    Claim(
        "F9",
        together(
            above([_below(BIOS, e, g, HIGH) for e in FROM_1 for g in (0, 1)]),
            _every_seed(BIOS, FROM_1, "bios_positive_seeds_floor_0.01"),
        ),
        about=(BIOS,),
    ),
    Claim(
        "F10",
        paper=together(
            above(_SEX_ENDS), flat(_SEX_ENDS, threshold("flat")), _SEX_SEEDS
        ),
        run=together(above(_SEX), flat(_SEX, threshold("flat")), _SEX_SEEDS),
        about=(ADULT_SEX,),
    ),
    Claim(
        "F11",
        near(
            [_mirrored(one) for one in CONFIGURATIONS], (1.0, 1.0), threshold("mirror")
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "F12",
        above(
            [_over(one, e, g) for one in CONFIGURATIONS for e in FROM_1 for g in (0, 1)]
        ),
        evidence=all_resolved(
            [(one, e, g) for one in CONFIGURATIONS for e in FROM_1 for g in (0, 1)]
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "F13", above([_below(COMPAS, STRONGEST, g) for g in (0, 1)]), about=(COMPAS,)
    ),
)
