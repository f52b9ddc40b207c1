"""Claims about COMPAS (Table 1 and what the paper makes of it)."""

from __future__ import annotations

from pcer.auditing import bounds, p_value, signed
from pcer.statistics import SIGNIFICANCE, sign_test
from pcer_studies.judgement import Claim, Reply
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP
from pcer_studies.published import NotThere, text_figure
from pcer_studies.rules import (
    COMPAS,
    FROM_1,
    FROM_HALF,
    PRIVATE,
    best_words,
    beyond_zero,
    both_gaps,
    budget_words,
    correlation,
    costs_differ,
    disparity_shown,
    extreme,
    gap_words,
    is_flat,
    printed,
    r_words,
    range_words,
    rate_words,
    row_words,
    sharper_disparity,
    sharper_double,
    size_of,
)
from pcer_studies.views import OurRun, Paper, View, known

CLOSELY = 0.9
"""A correlation from which one number tracks another closely."""
ABOUT_TOLERANCE = 0.2
"""How far from "approximately" a value may lie, in proportion."""


def _more_exposed(view: View) -> Reply:
    gaps = both_gaps(view, COMPAS, FROM_1)
    n = sum(second > first for first, second in gaps)
    return Reply(
        f"gaps {row_words(FROM_1, [gap_words(*pair) for pair in gaps])}; DP gap "
        f"{range_words([view.parity(COMPAS, e) for e in FROM_1], rate_words)}",
        n == len(gaps),
        f"The gap of African-Americans is the larger at {n} of {len(gaps)} budgets from ε = 1.",
    )


def _flat_parity(view: View) -> Reply:
    values = [view.parity(COMPAS, e) for e in PRIVATE]
    later = [view.parity(COMPAS, e) for e in FROM_HALF]
    return Reply(
        range_words(values, rate_words),
        is_flat(values),
        f"From ε = 0.5 on it is {'flat' if is_flat(later) else 'not flat either'} "
        f"({range_words(later, rate_words)}); at 0.1 it is {rate_words(values[0])}.",
    )


def _masked(view: View) -> Reply:
    seen = [e for e in FROM_1 if view.parity(COMPAS, e) > 2 * view.parity_std(COMPAS, e)]
    return Reply(
        f"DP gap {range_words([view.parity(COMPAS, e) for e in FROM_1], rate_words)}",
        not seen,
        f"The DP gap is more than twice its standard deviation at {len(seen)} of {len(FROM_1)} "
        "budgets. It is the outcome half of the disadvantage, and cannot show the exposure half.",
    )


def _signs_agree(view: View) -> Reply:
    known = [e for e in FROM_HALF if _has_signs(view, e)]
    p = [sign_test(view.n_positive(COMPAS, e), view.n_negative(COMPAS, e)) for e in known]
    agree = [
        (side(view.interval(COMPAS, e)) != 0) == (value <= SIGNIFICANCE)
        for e, value in zip(known, p, strict=True)
    ]
    return Reply(
        f"sign test p: {', '.join(p_value(value) for value in p)} ({budget_words(known)})",
        bool(agree) and all(agree),
        "" if len(known) == len(FROM_HALF) else "Seed counts of other budgets are not printed.",
    )


def _has_signs(view: View, epsilon: float) -> bool:
    try:
        view.n_positive(COMPAS, epsilon)
    except NotThere:
        return False
    return True


def _extreme_by_small_gaps(view: View) -> Reply:
    half, one = both_gaps(view, COMPAS, (0.5, 1.0))
    largest = extreme(size_of(COMPAS), view, max)
    smaller = sum(half[g] < one[g] for g in (0, 1))
    return Reply(
        f"largest at {budget_words(largest)}; gaps {gap_words(*half)} at 0.5, {gap_words(*one)} "
        "at 1",
        largest == (0.5,) and smaller == len(half),
        f"The gap at 0.5 is below that at 1 for {smaller} of 2 groups.",
    )


def _printed_odds(view: View) -> Reply:
    low, high = printed("compas_odds_gap_low"), printed("compas_odds_gap_high")
    odds = [view.odds(COMPAS, e) for e in FROM_1]
    parity = [view.parity(COMPAS, e) for e in FROM_1]
    same = (min(parity), max(parity)) == (low, high)
    return Reply(
        f"{rate_words(low)} to {rate_words(high)}",
        (min(odds), max(odds)) == (low, high),
        f"Table 1 has {range_words(odds, rate_words)} for the equalized odds gap"
        + ("; the range given is that of the DP gap's column." if same else "."),
    )


def _flat_odds(run: OurRun) -> Reply:
    odds = [run.odds(COMPAS, e) for e in FROM_1]
    return Reply(range_words(odds, rate_words), is_flat(odds), "Judged: whether it is flat.")


def _odds_follow_parity(view: View) -> Reply:
    r = correlation([(view.parity(COMPAS, e), view.odds(COMPAS, e)) for e in BUDGETS])
    return Reply(f"r = {r_words(r)} over budgets", r >= CLOSELY)


def _not_reduced(view: View) -> Reply:
    sizes = [view.disparity(COMPAS, e) for e in FROM_1]
    level = sum(sizes) / len(sizes)
    about = printed("compas_disparity_about") if isinstance(view, Paper) else level
    bare = view.disparity(COMPAS, NO_DP)
    near = all(abs(size / about - 1) <= ABOUT_TOLERANCE for size in sizes)
    stronger = all(abs(size) >= abs(bare) for size in sizes)
    return Reply(
        f"{row_words(FROM_1, [signed(s) for s in sizes])}; no-DP {signed(bare)}",
        near and stronger,
        f"{'All' if near else 'Not all'} within {100 * ABOUT_TOLERANCE:g} % of {signed(about)}; "
        f"{'none' if stronger else 'some'} closer to 0 than without privacy.",
    )


def _floor_robust(view: View) -> Reply:
    means = [view.disparity(COMPAS, 5.0, floor) for floor in (1e-3, 1e-2)]
    std = view.disparity_std(COMPAS, 5.0, 1e-2)
    return Reply(
        f"{signed(means[1])} ± {std:.1f} at floor 0.01, ε = 5",
        means[0] * means[1] > 0,
        "The sign is that at 0.001." if means[0] * means[1] > 0 else "The sign turns.",
    )


def _printed_interval(view: View) -> Reply:
    text = known(text_figure("compas_disparity_5").ci, "the interval in the text", COMPAS)
    table = view.interval(COMPAS, 5.0)
    return Reply(
        f"{bounds(text)} in the text",
        text == table,
        f"Table 1 has {bounds(table)}: a slip of one unit, nothing depends on it.",
    )


def _most_robust(view: View) -> Reply:
    ratios = {
        (one, epsilon): _sureness(view.disparity(one, epsilon), view.interval(one, epsilon))
        for one in CONFIGURATIONS
        for epsilon in BUDGETS
    }
    ours = max(ratios[COMPAS, epsilon] for epsilon in FROM_1)
    best = max(ratios, key=lambda key: ratios[key])
    n = sum(ratio > ours for ratio in ratios.values())
    return Reply(
        f"{ours:.1f} half-widths from 0 at most",
        n == 0,
        f"{n} of {len(ratios)} settings are farther from 0 in half-widths of their interval, "
        f"farthest {best[0].name} at {budget_words((best[1],))} with {ratios[best]:.1f}.",
    )


def _sureness(mean: float, interval: tuple[float, float]) -> float:
    """How many half-widths of its interval a mean lies from 0."""
    width = interval[1] - interval[0]
    return abs(mean) / (width / 2) if width else float("inf")


def _no_best(view: View) -> Reply:
    best = extreme(size_of(COMPAS), view, min)
    return Reply(
        best_words(COMPAS, view),
        len(best) > 1,
        f"Judged by the rule of Algorithm 1: smallest mean at floor 0.001, {len(best)} budget"
        f"{'s tie' if len(best) > 1 else ''}.",
    )


_RESULTS = "Results, COMPAS: Race"


CLAIMS = (
    Claim(
        key="C1",
        place="Introduction; Figure 1b; Results, COMPAS (Table 1); Table S2",
        words="The disparity is below 0 at every budget from ε = 0.5 (the introduction: from 1), "
        "its interval excluding 0.",
        test=beyond_zero(COMPAS, FROM_HALF, sign=-1),
        evidence=disparity_shown(COMPAS, FROM_HALF),
        about=(COMPAS,),
        also=sharper_disparity(COMPAS, FROM_HALF),
    ),
    Claim(
        key="C2",
        place="Abstract; Introduction; Figure 1b; Results, COMPAS; Conclusion",
        words="Double disadvantage: African-Americans are the more exposed group and receive more "
        "harmful predictions, persistently.",
        test=_more_exposed,
        evidence=costs_differ(COMPAS, FROM_1),
        caveat="The remark on proxies says that a larger gap only suggests a larger exposure.",
        about=(COMPAS,),
        also=sharper_double(COMPAS),
    ),
    Claim(
        key="C3",
        place="Introduction; Figure 1b",
        words="The DP gap is nearly flat over all budgets with privacy.",
        test=_flat_parity,
        about=(COMPAS,),
    ),
    Claim(
        key="C4",
        place="Abstract; Introduction; Conclusion",
        words="The DP gap misses the double disadvantage entirely.",
        test=_masked,
        about=(COMPAS,),
    ),
    Claim(
        key="C5",
        place=_RESULTS,
        words="From ε = 0.5 the interval of the mean and the signs of the seeds agree.",
        test=_signs_agree,
        about=(COMPAS,),
    ),
    Claim(
        key="C6",
        place=_RESULTS,
        words="The disparity is most extreme at ε = 0.5, because the gaps are smaller there than "
        "at 1.",
        test=_extreme_by_small_gaps,
        about=(COMPAS,),
    ),
    Claim(
        key="C7",
        place=_RESULTS,
        words="The equalized odds gap is nearly flat from ε = 1: 0.228 to 0.229.",
        paper=_printed_odds,
        run=_flat_odds,
        about=(COMPAS,),
        slip=True,
    ),
    Claim(
        key="C8",
        place=_RESULTS,
        words="The disparity stays at one level from ε = 1 (near −160); noise does not reduce it.",
        test=_not_reduced,
        evidence=disparity_shown(COMPAS, FROM_1),
        about=(COMPAS,),
    ),
    Claim(
        key="C9",
        place=f"{_RESULTS}; Table S1",
        words="The finding survives a floor of 0.01.",
        test=_floor_robust,
        evidence=disparity_shown(COMPAS, (5.0,)),
        about=(COMPAS,),
    ),
    Claim(
        key="C10",
        place=_RESULTS,
        words="At ε = 5 the interval is [−229, −106].",
        paper=_printed_interval,
        run="an interval of another run need not have these ends; C1 asks what matters",
        about=(COMPAS,),
        slip=True,
    ),
    Claim(
        key="C11",
        place="sec:summary",
        words="From ε = 1 this is the statistically most robust finding of the study.",
        test=_most_robust,
        evidence=disparity_shown(COMPAS, FROM_1),
        about=(COMPAS,),
    ),
    Claim(
        key="C12",
        place="Table S2",
        words="PCER singles out no best budget, whereas the DP gap prefers ε = 0.1.",
        test=_no_best,
        caveat="The paper leaves ε = 0.1 out as floor-dominated.",
        about=(COMPAS,),
    ),
    Claim(
        key="C13",
        place=_RESULTS,
        words="The equalized odds gap tracks the DP gap closely.",
        test=_odds_follow_parity,
        about=(COMPAS,),
    ),
)
