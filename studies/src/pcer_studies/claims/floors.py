"""What does the paper claim about the floor (Table S1), and make of it?

Read by ``ledger``. To add a claim: an entry of FLOOR_CLAIMS, and its words in
``claims.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import signed
from pcer_studies.claims.evidence import all_detected
from pcer_studies.claims.judgement import Claim, ClaimQuestion, Support
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import (
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    FROM_HALF,
    GROUPS,
    STRONGEST,
    ClaimNumber,
    StudySetting,
    cells_of,
    computed,
    disparity_of,
    gap_of,
    number_at,
    printed,
    size,
)
from pcer_studies.claims.rules import (
    above,
    best,
    both_signs,
    flat,
    larger,
    near,
    together,
)
from pcer_studies.claims.views import View, exactly
from pcer_studies.claims.wording import budget_words, gap_words, r_words, threshold
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DEFAULT_FLOOR,
    FLOORS,
    NO_DP,
    Configuration,
)
from pcer_studies.published import NotThere

SELECTED = (
    StudySetting(COMPAS, 5.0),
    StudySetting(ADULT_RACE, 1.0),
    StudySetting(BIOS, 1.0),
)
"""The settings that Table S1 holds against ε = 0.1."""
HIGH = 1e-2
"""The floor at which the paper repeats its rankings."""
LEAST_DISPARITY = 1e-12
"""A draw below this is taken for this where its logarithm is needed."""


def floor_slope(disparities: Sequence[FloatArray]) -> FloatArray:
    """How steeply the size of a disparity falls with the floor; -1 is all floor.

    The least-squares slope Σ dx dy / Σ dx², where x is the logarithm of the floor, y
    that of |disparity|, and dx and dy the distances from their means over floors.

    Args:
        disparities: (floor,) of (1 + draws,) one for each of FLOORS.

    Returns:
        (1 + draws,)

    Raises:
        NotThere: a disparity is 0, which has no logarithm.

    >>> powers_of_ten = [np.array([-value]) for value in (1000.0, 100.0, 10.0, 1.0)]
    >>> round(float(floor_slope(powers_of_ten)[0]), 6)
    -1.0
    """
    if not all(disparity[0] for disparity in disparities):
        raise NotThere("a disparity of 0 has no slope over floors")
    x = np.array([math.log(floor) for floor in FLOORS])
    y = np.log(np.maximum(np.abs(disparities), LEAST_DISPARITY))
    dx = x - x.mean()
    dy = y - y.mean(axis=0)
    return np.asarray((dx[:, None] * dy).sum(axis=0) / (dx * dx).sum())


def _slope(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """The slope of a setting's disparity over floors."""

    def draws(view: View) -> FloatArray:
        disparities = [
            view.disparity(configuration, epsilon, floor) for floor in FLOORS
        ]
        return floor_slope(disparities)

    name = f"slope of {configuration.name}, {budget_words((epsilon,))}"
    return computed(name, draws, r_words, configuration)


def _below(
    configuration: Configuration,
    epsilon: float,
    group: int,
    floor: float = DEFAULT_FLOOR,
) -> ClaimNumber:
    """How far a gap lies below a floor."""
    return number_at(
        configuration,
        epsilon,
        lambda view: floor - view.gap(configuration, epsilon, group),
        gap_words,
        f", {configuration.groups[group]}: {floor:g} − gap",
    )


def _over(configuration: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """How far a gap lies above the default floor."""
    gap = gap_of(configuration, epsilon, group)
    return number_at(
        configuration,
        epsilon,
        lambda view: gap.draws(view) - DEFAULT_FLOOR,
        gap_words,
        f", {configuration.groups[group]}: gap − {DEFAULT_FLOOR:g}",
    )


def _steady(configuration: Configuration, epsilon: float, floor: float) -> ClaimNumber:
    """A disparity, signed by the one at the default floor."""

    def draws(view: View) -> FloatArray:
        sign = np.sign(view.disparity(configuration, epsilon)[0])
        return np.asarray(view.disparity(configuration, epsilon, floor) * sign)

    return number_at(configuration, epsilon, draws, signed, f", floor {floor:g}")


def _steady_over_floors() -> list[ClaimNumber]:
    numbers = []
    for setting, floor in product(SELECTED, FLOORS):
        numbers.append(_steady(setting.configuration, setting.epsilon, floor))
    return numbers


def _genuine(view: View) -> Support:
    """Evidence that the selected disparities are more than rates divided by a floor."""
    n_shown = sum(view.disparity_is_evidence(*setting) for setting in SELECTED)
    finding = "shown"
    if isinstance(view, Paper):
        finding = "the gap of the lower-ratio group stands out"
    return Support(
        n_shown == len(SELECTED),
        "A stable sign says nothing about the gaps: above them it is the sign of the "
        "rate difference (Proposition 2). By the test of the gaps: "
        f"{finding} in {n_shown} of {len(SELECTED)}.",
    )


def at_high_floor(
    configuration: Configuration, epsilon: float, end: str = "low"
) -> ClaimNumber:
    """A disparity at floor 0.01.

    Of several budgets the paper prints the ends of the range, ``low`` and ``high``.
    """

    def draws(view: View) -> FloatArray:
        if isinstance(view, Paper):
            key = f"{configuration.dataset}_{configuration.attribute}"
            return exactly(printed(f"{key}_floor_0.01_{end}"))
        return view.disparity(configuration, epsilon, HIGH)

    return number_at(configuration, epsilon, draws, signed, ", floor 0.01")


def _positive_share(
    configuration: Configuration, epsilon: float, key: str
) -> ClaimNumber:
    """Share of seeds that are positive at floor 0.01.

    The paper prints the least number over budgets, under this key.
    """

    def draws(view: View) -> FloatArray:
        if isinstance(view, Paper):
            return exactly(printed(key) / view.n_seeds)
        return view.n_positive(configuration, epsilon, HIGH) / view.n_seeds

    suffix = ", floor 0.01, positive seeds"
    return number_at(configuration, epsilon, draws, r_words, suffix)


def _every_seed(
    configuration: Configuration, budgets: Sequence[float], key: str
) -> ClaimQuestion:
    """The disparity is positive in every seed at floor 0.01."""
    shares = [_positive_share(configuration, epsilon, key) for epsilon in budgets]
    return near(shares, (1.0, 1.0), 0.01)


def _mirrored(configuration: Configuration) -> ClaimNumber:
    """Disparity times floor over DP gap at the strongest privacy."""

    def draws(view: View) -> FloatArray:
        disparity = size(view.disparity(configuration, STRONGEST))
        return disparity * DEFAULT_FLOOR / view.parity(configuration, STRONGEST)

    return computed(configuration.name, draws, r_words, configuration)


def _spread(epsilon: float) -> ClaimNumber:
    """The deviation of a disparity over seeds, at floor 0.01."""
    return computed(
        f"std of {ADULT_RACE.name}, {budget_words((epsilon,))}, floor 0.01",
        lambda view: view.spread(ADULT_RACE, epsilon, floor=HIGH),
        r_words,
        ADULT_RACE,
    )


def _sex_end(word: str, end: str) -> ClaimNumber:
    """An end of the range that the paper prints, as it says of all budgets."""
    name = f"{ADULT_SEX.name}, floor 0.01, {word}"
    return computed(name, at_high_floor(ADULT_SEX, 1.0, end).draws, signed, ADULT_SEX)


_STRONGEST_CELLS = cells_of(CONFIGURATIONS, (STRONGEST,))
_BELOW_AT_STRONGEST = [_below(*cell) for cell in _STRONGEST_CELLS]
_CELLS_FROM_1 = cells_of(CONFIGURATIONS, FROM_1)
_FALLING_GAPS = [
    (gap_of(configuration, NO_DP, group), gap_of(configuration, STRONGEST, group))
    for configuration, _, group in _STRONGEST_CELLS
]
_STEEPER_AT_STRONGEST = [
    (_slope(configuration, epsilon), _slope(configuration, STRONGEST))
    for configuration, epsilon in SELECTED
]
_COMPAS_OVER_FLOORS = [disparity_of(COMPAS, STRONGEST, floor) for floor in FLOORS]
_RACE = [
    disparity_of(ADULT_RACE, NO_DP, HIGH),
    *(at_high_floor(ADULT_RACE, epsilon, "high") for epsilon in FROM_HALF),
]
_BIOS_BELOW_HIGH = [_below(*cell, HIGH) for cell in cells_of([BIOS], FROM_1)]
_OVER_FROM_1 = [_over(*cell) for cell in _CELLS_FROM_1]
_COMPAS_BELOW = [_below(COMPAS, STRONGEST, group) for group in GROUPS]
_SEX = [at_high_floor(ADULT_SEX, epsilon) for epsilon in BUDGETS]
_SEX_ENDS = [_sex_end("smallest", "low"), _sex_end("largest", "high")]
_SEX_SEEDS = _every_seed(ADULT_SEX, BUDGETS, "adult_sex_floor_0.01_positive_seeds")

FLOOR_CLAIMS = (
    Claim("F1", above(_BELOW_AT_STRONGEST), about=CONFIGURATIONS),
    Claim("F2", larger(_FALLING_GAPS), about=CONFIGURATIONS),
    Claim(
        "F3",
        near([_slope(COMPAS, STRONGEST)], (-1.0, -1.0), threshold("slope")),
        about=(COMPAS,),
    ),
    Claim("F4", larger(_STEEPER_AT_STRONGEST), about=(COMPAS, ADULT_RACE, BIOS)),
    Claim("F5", both_signs(_COMPAS_OVER_FLOORS), about=(COMPAS,)),
    Claim(
        "F6",
        above(_steady_over_floors()),
        evidence=_genuine,
        about=(COMPAS, ADULT_RACE, BIOS),
    ),
    Claim("F7", best(_RACE, [0], what="disparity"), about=(ADULT_RACE,)),
    Claim(
        "F8",
        together(
            above([disparity_of(ADULT_RACE, STRONGEST, HIGH)]),
            larger([(_spread(STRONGEST), _spread(1.0))]),
        ),
        about=(ADULT_RACE,),
    ),
    Claim(
        "F9",
        together(
            above(_BIOS_BELOW_HIGH),
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
        near([*map(_mirrored, CONFIGURATIONS)], (1.0, 1.0), threshold("mirror")),
        about=CONFIGURATIONS,
    ),
    Claim(
        "F12",
        above(_OVER_FROM_1),
        evidence=all_detected(_CELLS_FROM_1),
        about=CONFIGURATIONS,
    ),
    Claim("F13", above(_COMPAS_BELOW), about=(COMPAS,)),
)
