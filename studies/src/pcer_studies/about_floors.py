"""Claims about the floor: Table S1, and what the paper makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pcer.auditing import decimals, signed
from pcer_studies.judgement import Claim, Reply, Support
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DEFAULT_FLOOR,
    FLOORS,
    NO_DP,
    Configuration,
)
from pcer_studies.published import NotThere
from pcer_studies.rules import (
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    FROM_HALF,
    STRONGEST,
    all_resolved,
    both_gaps,
    budget_words,
    extreme,
    gap_words,
    is_flat,
    printed,
    range_words,
    size_of,
)
from pcer_studies.views import OurRun, Paper, View

SELECTED = ((COMPAS, 5.0), (ADULT_RACE, 1.0), (BIOS, 1.0))
"""The budgets that Table S1 holds against ε = 0.1."""
NEAR_MINUS_ONE = 0.15
"""A slope this close to -1 is "ten times the floor, a tenth of the disparity"."""
MIRROR_TOLERANCE = 0.1
"""How close to the DP gap a floored disparity must be to mirror it, in proportion."""


def floor_slope(values: Sequence[float]) -> float:
    """Least-squares slope of log |disparity| against log floor; -1 is all floor.

    NotThere where a disparity is 0, which has no logarithm.

    >>> round(floor_slope((-1000.0, -100.0, -10.0, -1.0)), 6)
    -1.0
    """
    if not all(values):
        raise NotThere("a disparity of 0 has no slope over floors")
    x = [math.log(floor) for floor in FLOORS]
    y = [math.log(abs(value)) for value in values]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    cross = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return cross / sum((a - x_mean) ** 2 for a in x)


def _over_floors(view: View, one: Configuration, epsilon: float) -> list[float]:
    return [view.disparity(one, epsilon, floor) for floor in FLOORS]


def _below_the_floor(view: View) -> Reply:
    gaps = [view.gap(one, STRONGEST, g) for one in CONFIGURATIONS for g in (0, 1)]
    below = sum(gap < DEFAULT_FLOOR for gap in gaps)
    shares = _floored_shares(view)
    return Reply(
        f"mean gaps {range_words(gaps, gap_words)} at ε = 0.1; floor 0.001",
        below == len(gaps),
        f"{below} of {len(gaps)} mean gaps are below the floor.{shares}",
    )


def _floored_shares(view: View) -> str:
    if not isinstance(view, OurRun):
        return ""
    shares = [view.floored_share(one, STRONGEST) for one in CONFIGURATIONS]
    told = range_words([100 * share for share in shares], lambda share: f"{share:.0f}")
    return f" Both gaps of a seed are below it in {told} % of seeds."


def _gaps_fall(view: View) -> Reply:
    cells = [(one, g) for one in CONFIGURATIONS for g in (0, 1)]
    rise = [
        f"{one.name} {one.groups[g]} {gap_words(view.gap(one, NO_DP, g))} to "
        f"{gap_words(view.gap(one, STRONGEST, g))}"
        for one, g in cells
        if view.gap(one, STRONGEST, g) >= view.gap(one, NO_DP, g)
    ]
    return Reply(
        f"smaller at ε = 0.1 than without privacy for {len(cells) - len(rise)} of {len(cells)} "
        "groups",
        not rise,
        f"Larger: {'; '.join(rise)}." if rise else "",
    )


def _scales(view: View) -> Reply:
    values = _over_floors(view, COMPAS, STRONGEST)
    slope = floor_slope(values)
    return Reply(
        f"{', '.join(signed(v) for v in values)}: slope {decimals(slope, 2)}",
        abs(slope + 1) <= NEAR_MINUS_ONE,
        f"A slope of −1 would be exactly ten times; within {NEAR_MINUS_ONE:g} counts.",
    )


def _flatter(view: View) -> Reply:
    slopes = [
        (
            one,
            floor_slope(_over_floors(view, one, epsilon)),
            floor_slope(_over_floors(view, one, STRONGEST)),
        )
        for one, epsilon in SELECTED
    ]
    steep = [
        one.name
        for one, later, first in slopes
        if later <= first or abs(later + 1) <= NEAR_MINUS_ONE
    ]
    return Reply(
        "; ".join(
            f"{one.name} {decimals(later, 2)} against {decimals(first, 2)} at 0.1"
            for one, later, first in slopes
        ),
        not steep,
        f"Steeper than at 0.1, or within {NEAR_MINUS_ONE:g} of −1: {', '.join(steep)}."
        if steep
        else "",
    )


def _turns_at_strongest(view: View) -> Reply:
    values = _over_floors(view, COMPAS, STRONGEST)
    seeds = [[view.n_positive(COMPAS, e, f) for f in FLOORS] for e in (STRONGEST, 5.0)]
    turns = min(values) < 0 < max(values)
    counts = [", ".join(map(str, row)) for row in seeds]
    return Reply(
        f"means {', '.join(signed(v) for v in values)}; positive seeds {counts[0]}",
        turns,
        f"The mean's sign {'turns' if turns else 'is the same at every floor'}. Positive seeds at "
        f"ε = 5, which is called stable: {counts[1]}.",
    )


def _stable_later(view: View) -> Reply:
    signs = [
        (one, epsilon, {value > 0 for value in _over_floors(view, one, epsilon)})
        for one, epsilon in SELECTED
    ]
    turning = [f"{one.name} at {budget_words((e,))}" for one, e, sign in signs if len(sign) > 1]
    return Reply(
        f"one sign over all floors in {len(signs) - len(turning)} of {len(signs)} (COMPAS at 5, "
        "Adult race and Bios at 1)",
        not turning,
        f"It turns: {', '.join(turning)}." if turning else "",
    )


def _genuine(view: View) -> Support:
    shown = [(one, e) for one, e in SELECTED if view.disparity_is_evidence(one, e)]
    who = "the gap of the lower-ratio group stands out" if isinstance(view, Paper) else "shown"
    return Support(
        len(shown) == len(SELECTED),
        f"A stable sign says nothing about the gaps: above them it is the sign of the rate "
        f"difference (Proposition 2). By the test of the gaps: {who} in {len(shown)} of "
        f"{len(SELECTED)}.",
    )


def _reversal_survives(view: View) -> Reply:
    bare = view.disparity(ADULT_RACE, NO_DP, 1e-2)
    others = _at_high_floor(view)
    smaller = sum(value < bare for value in others)
    best = extreme(size_of(ADULT_RACE), view, min)
    return Reply(
        f"at floor 0.01: no-DP {signed(bare)}, from ε = 0.5 {range_words(others, signed)}",
        best == (NO_DP,) and smaller == 0,
        f"At floor 0.001 the smallest disparity is at {budget_words(best)}. At 0.01 the one at "
        f"no-DP is {'the smallest' if smaller == 0 else 'not the smallest'}"
        + (": the order is the other way round." if smaller == len(others) else "."),
    )


def _at_high_floor(view: View) -> list[float]:
    """Adult race at floor 0.01 from ε = 0.5; the paper prints the ends of the range."""
    if isinstance(view, Paper):
        keys = ("adult_race_floor_0.01_low", "adult_race_floor_0.01_high")
        return [printed(key) for key in keys]
    return [view.disparity(ADULT_RACE, e, 1e-2) for e in FROM_HALF]


def _less_stable(view: View) -> Reply:
    here, later = (view.disparity_std(ADULT_RACE, e, 1e-2) for e in (STRONGEST, 1.0))
    mean = view.disparity(ADULT_RACE, STRONGEST, 1e-2)
    return Reply(
        f"{signed(mean)} ± {here:.1f} at 0.1 against ± {later:.1f} at 1 (floor 0.01)",
        mean > 0 and here > later,
    )


def _direction_only(view: View) -> Reply:
    gaps = [view.gap(BIOS, e, g) for e in FROM_1 for g in (0, 1)]
    known = FROM_1 if isinstance(view, OurRun) else (1.0,)
    positive = [view.n_positive(BIOS, e, 1e-2) for e in known]
    return Reply(
        f"gaps {range_words(gaps, gap_words)}; positive seeds {', '.join(map(str, positive))} of "
        f"{view.n_seeds}",
        max(gaps) < 1e-2 and min(positive) == view.n_seeds,
        "All gaps are below 0.01." if max(gaps) < 1e-2 else "Not all gaps are below 0.01.",
    )


def _flat_at_high_floor(view: View) -> Reply:
    values = _adult_sex_high(view)
    positive = _least_positive(view)
    gaps = [gap for pair in both_gaps(view, ADULT_SEX, BUDGETS) for gap in pair]
    return Reply(
        f"{range_words(values, signed)} at floor 0.01; at least {positive}/{view.n_seeds} positive",
        min(values) > 0 and is_flat(values) and positive == view.n_seeds,
        "All mean gaps are below that floor, so this is the rate difference, as the paper says."
        if max(gaps) < 1e-2
        else f"The mean gaps are {range_words(gaps, gap_words)}.",
    )


def _least_positive(view: View) -> int:
    if isinstance(view, Paper):
        return int(printed("adult_sex_floor_0.01_positive_seeds"))
    return min(view.n_positive(ADULT_SEX, e, 1e-2) for e in BUDGETS)


def _adult_sex_high(view: View) -> list[float]:
    if isinstance(view, Paper):
        keys = ("adult_sex_floor_0.01_low", "adult_sex_floor_0.01_high")
        return [printed(key) for key in keys]
    return [view.disparity(ADULT_SEX, e, 1e-2) for e in BUDGETS]


def _mirrors(view: View) -> Reply:
    ratios = [
        abs(view.disparity(one, STRONGEST)) * DEFAULT_FLOOR / view.parity(one, STRONGEST)
        for one in CONFIGURATIONS
    ]
    n = sum(abs(ratio - 1) <= MIRROR_TOLERANCE for ratio in ratios)
    return Reply(
        "disparity × floor is "
        f"{range_words([100 * r for r in ratios], lambda r: f'{r:.0f}')} % of the DP gap",
        n == len(ratios),
        f"Within {100 * MIRROR_TOLERANCE:g} % of it in {n} of {len(ratios)} configurations.",
    )


def _above_the_floor(view: View) -> Reply:
    gaps = [view.gap(one, e, g) for one in CONFIGURATIONS for e in FROM_1 for g in (0, 1)]
    above = sum(gap > DEFAULT_FLOOR for gap in gaps)
    return Reply(
        f"mean gaps {range_words(gaps, gap_words)} from ε = 1",
        above == len(gaps),
        f"{above} of {len(gaps)} mean gaps are above the floor of 0.001.",
    )


def _artefact(view: View) -> Reply:
    gaps = [view.gap(COMPAS, STRONGEST, g) for g in (0, 1)]
    share = (
        f" Both gaps are below it in {100 * view.floored_share(COMPAS, STRONGEST):.0f} % of seeds."
        if isinstance(view, OurRun)
        else ""
    )
    return Reply(
        f"gaps {gap_words(*gaps)}, floor 0.001",
        max(gaps) < DEFAULT_FLOOR,
        f"The mean gaps are {min(gaps) / DEFAULT_FLOOR:.0f} times the floor and more.{share}"
        if min(gaps) >= DEFAULT_FLOOR
        else share.strip(),
    )


_FLOORS = "sec:floor-sensitivity (Table S1)"

CLAIMS = (
    Claim(
        key="F1",
        place="Abstract; remark on strong privacy (rem:floor); Conclusion",
        words="At ε = 0.1 both groups' gaps are at or below the floor, in every configuration.",
        test=_below_the_floor,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="F2",
        place="Abstract; rem:floor; Conclusion",
        words="Strong noise takes the gaps towards zero: they are smaller at ε = 0.1 than without "
        "privacy.",
        test=_gaps_fall,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="F3",
        place=f"{_FLOORS}; Results, Floor-Constant Sensitivity",
        words="On COMPAS at ε = 0.1 ten times the floor gives about a tenth of the disparity.",
        test=_scales,
        about=(COMPAS,),
    ),
    Claim(
        key="F4",
        place=_FLOORS,
        words="At ε = 1 and above it does not: the disparity depends less on the floor there.",
        test=_flatter,
        about=(COMPAS, ADULT_RACE, BIOS),
    ),
    Claim(
        key="F5",
        place=f"{_FLOORS}; Results, Floor-Constant Sensitivity",
        words="On COMPAS at ε = 0.1 the direction depends on the floor.",
        test=_turns_at_strongest,
        about=(COMPAS,),
    ),
    Claim(
        key="F6",
        place=f"{_FLOORS}; Results; Introduction (contributions)",
        words="At ε = 1 and above the direction is the same at every floor, which shows a genuine "
        "difference between the groups' gaps.",
        test=_stable_later,
        evidence=_genuine,
        about=(COMPAS, ADULT_RACE, BIOS),
    ),
    Claim(
        key="F7",
        place=f"Results; {_FLOORS}; sec:adult-race; sec:summary; Table S4",
        words="The ranking reversal on Adult (race) survives a floor of 0.01.",
        test=_reversal_survives,
        about=(ADULT_RACE,),
    ),
    Claim(
        key="F8",
        place="sec:adult-race",
        words="Adult (race) at ε = 0.1 is positive but less stable at floor 0.01.",
        test=_less_stable,
        about=(ADULT_RACE,),
    ),
    Claim(
        key="F9",
        place="Tables S1 and S2; sec:summary",
        words="Bios from ε = 1: all seeds are positive at floor 0.01, though the gaps are below "
        "it.",
        test=_direction_only,
        caveat="The paper calls this floor-dominated and the direction only.",
        about=(BIOS,),
    ),
    Claim(
        key="F10",
        place="sec:adult-sex; sec:summary",
        words="Adult (sex) at floor 0.01: positive in all seeds and flat over budgets.",
        test=_flat_at_high_floor,
        about=(ADULT_SEX,),
    ),
    Claim(
        key="F11",
        place="sec:summary; Discussion; Conclusion",
        words="At ε = 0.1 the disparity is only the DP gap divided by the floor.",
        test=_mirrors,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="F12",
        place="sec:summary; Discussion; Conclusion",
        words="At ε = 1, 5 and 10 the gaps are above the floor, so that PCER is informative there.",
        test=_above_the_floor,
        evidence=all_resolved(
            [(one, e, g) for one in CONFIGURATIONS for e in FROM_1 for g in (0, 1)]
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        key="F13",
        place="Conclusion",
        words="The unstable direction on COMPAS at ε = 0.1 is exactly the floor artefact.",
        test=_artefact,
        about=(COMPAS,),
    ),
)
