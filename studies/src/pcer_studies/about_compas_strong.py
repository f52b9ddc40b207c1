"""Claims about COMPAS at the strongest privacy, epsilon 0.1 (Table 1)."""

from __future__ import annotations

from pcer.auditing import bounds, p_value, signed
from pcer.statistics import SIGNIFICANCE, sign_test
from pcer_studies.judgement import Claim, Reply
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS
from pcer_studies.rules import (
    COMPAS,
    STRONGEST,
    both_gaps,
    budget_words,
    extreme,
    gap_words,
    parity_of,
    printed,
    range_words,
    rate_words,
)
from pcer_studies.views import OurRun, View

FAR_BELOW = 0.5
"""A gap below this share of a floor is far below it."""


def _parity_best_at_strongest(view: View) -> Reply:
    best = extreme(parity_of(COMPAS), view, min)
    figure = f"{rate_words(view.parity(COMPAS, best[0]))} at {budget_words(best)}"
    return Reply(figure, best == (STRONGEST,))


def _printed_sign_test(view: View) -> Reply:
    negative = int(printed("compas_negative_seeds_0.1"))
    p = sign_test(view.n_seeds - negative, negative)
    told = printed("compas_sign_test_p_0.1")
    return Reply(
        f"{negative}/{view.n_seeds} negative, p = {told:g}",
        round(p, 2) == told,
        f"The exact two-sided sign test of {negative} among {view.n_seeds} gives p = {p:.2f}. "
        "What follows from it (no consistent sign) is the same.",
    )


def _own_sign_test(run: OurRun) -> Reply:
    negative, positive = (ask(COMPAS, STRONGEST) for ask in (run.n_negative, run.n_positive))
    p = sign_test(positive, negative)
    return Reply(
        f"{negative}/{run.n_seeds} negative, p: {p_value(p)}",
        p > SIGNIFICANCE,
        "Judged: whether the signs are those of a fair coin.",
    )


def _tests_disagree(view: View) -> Reply:
    interval = view.interval(COMPAS, STRONGEST)
    signs = view.n_positive(COMPAS, STRONGEST), view.n_negative(COMPAS, STRONGEST)
    p = sign_test(*signs)
    return Reply(
        f"{signed(view.disparity(COMPAS, STRONGEST))} {bounds(interval)}; sign test p: "
        f"{p_value(p)}",
        side(interval) != 0 and p > SIGNIFICANCE,
    )


def _small_denominator(view: View) -> Reply:
    here = both_gaps(view, COMPAS, (STRONGEST,))[0]
    others = both_gaps(view, COMPAS, [e for e in BUDGETS if e != STRONGEST])
    larger = sum(here[g] > max(pair[g] for pair in others) for g in (0, 1))
    smaller = sum(here[g] < min(pair[g] for pair in others) for g in (0, 1))
    return Reply(
        f"gaps at 0.1: {gap_words(*here)}; elsewhere "
        f"{range_words([v for pair in others for v in pair], gap_words)}",
        smaller == len(here),
        f"At 0.1 the gap is the smallest of all budgets for {smaller} of 2 groups and the largest "
        f"for {larger}.",
    )


def _steadier_signs(view: View) -> Reply:
    negative = [view.n_negative(COMPAS, STRONGEST, floor) for floor in (1e-3, 1e-2, 1e-1)]
    return Reply(
        f"{', '.join(map(str, negative))} of {view.n_seeds} negative (floors 0.001, 0.01, 0.1)",
        negative == sorted(negative) and negative[0] < negative[-1],
    )


def _far_below(view: View) -> Reply:
    gaps = both_gaps(view, COMPAS, (STRONGEST,))[0]
    above = [floor for floor in (1e-2, 1e-1) if max(gaps) >= FAR_BELOW * floor]
    return Reply(
        f"gaps {gap_words(*gaps)} against floors 0.01 and 0.1",
        not above,
        f"Not both are below half of the floor {' and of '.join(f'{f:g}' for f in above)}."
        if above
        else "Both are below half of either floor.",
    )


_RESULTS = "Results, COMPAS: Race"


CLAIMS = (
    Claim(
        key="C14",
        place=f"{_RESULTS}; Table S2",
        words="The DP gap is smallest at ε = 0.1.",
        test=_parity_best_at_strongest,
        about=(COMPAS,),
    ),
    Claim(
        key="C15",
        place=_RESULTS,
        words="At ε = 0.1 the seeds' signs are those of a fair coin: 28 of 50, p = 0.82.",
        paper=_printed_sign_test,
        run=_own_sign_test,
        about=(COMPAS,),
        slip=True,
    ),
    Claim(
        key="C16",
        place=_RESULTS,
        words="At ε = 0.1 the interval of the mean excludes 0 although the signs do not.",
        test=_tests_disagree,
        about=(COMPAS,),
    ),
    Claim(
        key="C17",
        place=_RESULTS,
        words="The reason is a denominator near zero at this budget.",
        test=_small_denominator,
        about=(COMPAS,),
    ),
    Claim(
        key="C18",
        place=f"{_RESULTS}; Table S1",
        words="At ε = 0.1 a higher floor makes the sign more consistent.",
        test=_steadier_signs,
        about=(COMPAS,),
    ),
    Claim(
        key="C19",
        place=_RESULTS,
        words="It does so because the gaps are far below those floors (0.01 and 0.1).",
        test=_far_below,
        about=(COMPAS,),
    ),
)
