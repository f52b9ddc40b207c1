"""Claims about Adult, race (Table S4)."""

from __future__ import annotations

from pcer.auditing import decimals, signed
from pcer_studies.judgement import Claim, Reply
from pcer_studies.protocol import BUDGETS, NO_DP
from pcer_studies.rules import (
    ADULT_RACE,
    PRIVATE,
    best_words,
    beyond_zero,
    both_gaps,
    budget_words,
    costs_differ,
    costs_resolved,
    disparity_shown,
    extreme,
    gap_words,
    odds_of,
    parity_of,
    range_words,
    ranking_resolved,
    rate_words,
    row_words,
    sharper_disparity,
    sharper_exposure,
    size_of,
)
from pcer_studies.views import View


def _reversal(view: View) -> Reply:
    parity, size = (extreme(v, view, min) for v in (parity_of(ADULT_RACE), size_of(ADULT_RACE)))
    holds = size == (NO_DP,) and NO_DP not in parity
    return Reply(best_words(ADULT_RACE, view), holds)


def _best_is_worst(view: View) -> Reply:
    best = extreme(parity_of(ADULT_RACE), view, min)
    worst = extreme(size_of(ADULT_RACE), view, max)
    return Reply(
        f"smallest DP gap at {budget_words(best)}; largest disparity "
        f"{signed(view.disparity(ADULT_RACE, worst[0]))} at {budget_words(worst)}",
        not set(best).isdisjoint(worst),
        f"At {budget_words(best)} the disparity is "
        f"{range_words([view.disparity(ADULT_RACE, e) for e in best], signed)}.",
    )


def _worst_parity(view: View) -> Reply:
    worst = extreme(parity_of(ADULT_RACE), view, max)
    return Reply(
        f"largest DP gap {rate_words(view.parity(ADULT_RACE, worst[0]))} at {budget_words(worst)}",
        worst == (NO_DP,),
        f"At no-DP it is {rate_words(view.parity(ADULT_RACE, NO_DP))}.",
    )


def _best_odds(view: View) -> Reply:
    best = extreme(odds_of(ADULT_RACE), view, min)
    figure = f"smallest {rate_words(view.odds(ADULT_RACE, best[0]))} at {budget_words(best)}"
    return Reply(figure, set(best) <= {5.0, 10.0})


def _more_memorised(view: View) -> Reply:
    gaps = [view.gap(ADULT_RACE, NO_DP, g) for g in (0, 1)]
    excess = [gap - view.noise_level(ADULT_RACE, NO_DP, g) for g, gap in enumerate(gaps)]
    return Reply(
        f"White/Non-White {gap_words(*gaps)}",
        gaps[1] > gaps[0],
        f"The smaller group has the larger noise level; taken off, {gap_words(*excess)} are left.",
    )


def _converge(view: View) -> Reply:
    pairs = {e: both_gaps(view, ADULT_RACE, (e,))[0] for e in BUDGETS}
    shrink = all(pairs[e][g] < pairs[NO_DP][g] for e in PRIVATE for g in (0, 1))
    apart = {e: abs(first - second) for e, (first, second) in pairs.items()}
    wider = [e for e in PRIVATE if apart[e] >= apart[NO_DP]]
    return Reply(
        f"differences {row_words(PRIVATE, [gap_words(apart[e]) for e in PRIVATE])}; no-DP "
        f"{gap_words(apart[NO_DP])}",
        shrink and not wider,
        f"Both gaps {'shrink' if shrink else 'do not both shrink'} at every budget; the difference "
        f"is {'smaller at every one' if not wider else f'not smaller at {budget_words(wider)}'}.",
    )


def _falls_more(view: View) -> Reply:
    falls = {
        e: [1 - view.gap(ADULT_RACE, e, g) / view.gap(ADULT_RACE, NO_DP, g) for g in (0, 1)]
        for e in PRIVATE
    }
    n = sum(second > first for first, second in falls.values())
    ranges = [
        range_words([100 * fall[g] for fall in falls.values()], lambda v: decimals(v, 0))
        for g in (0, 1)
    ]
    return Reply(
        f"White {ranges[0]} %, Non-White {ranges[1]} %",
        n == len(falls),
        f"The Non-White gap falls by the larger share at {n} of {len(falls)} budgets.",
    )


def _evenest_without_privacy(view: View) -> Reply:
    pairs = {e: both_gaps(view, ADULT_RACE, (e,))[0] for e in BUDGETS}
    apart = {e: abs(first - second) for e, (first, second) in pairs.items()}
    ratio = {e: max(pair) / min(pair) for e, pair in pairs.items()}
    best = [[e for e in BUDGETS if v[e] == min(v.values())] for v in (apart, ratio)]
    return Reply(
        f"difference smallest at {budget_words(best[0])}, ratio nearest 1 at "
        f"{budget_words(best[1])}",
        best == [[NO_DP], [NO_DP]],
        "The appendix explains the same reversal by a Non-White gap that is meaningfully larger "
        "without privacy (T6).",
    )


_RACE = "sec:adult-race (Table S4)"


CLAIMS = (
    Claim(
        key="T1",
        place=f"Abstract; Introduction; Figure 1a; Results; {_RACE}; Table S2; Discussion",
        words="Race, ranking reversal: the DP gap is smallest with privacy (ε = 5 and 10), the "
        "disparity without.",
        test=_reversal,
        evidence=ranking_resolved(ADULT_RACE),
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T2",
        place="Abstract",
        words="Race: the budget that is best by outcome gaps is the worst by disparity.",
        test=_best_is_worst,
        evidence=ranking_resolved(ADULT_RACE),
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T3",
        place=_RACE,
        words="Race: the DP gap is largest without privacy.",
        test=_worst_parity,
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T4",
        place="Discussion",
        words="Race: the equalized odds gap, too, is smallest at ε = 5 or 10.",
        test=_best_odds,
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T5",
        place=f"Results; {_RACE}; sec:summary",
        words="Race: the disparity is above 0 at every budget, its interval excluding 0.",
        test=beyond_zero(ADULT_RACE, BUDGETS, sign=1),
        evidence=disparity_shown(ADULT_RACE, BUDGETS),
        about=(ADULT_RACE,),
        also=sharper_disparity(ADULT_RACE, BUDGETS),
    ),
    Claim(
        key="T6",
        place=_RACE,
        words="Race: without privacy the Non-White gap is meaningfully larger than the White one.",
        test=_more_memorised,
        evidence=costs_differ(ADULT_RACE, (NO_DP,)),
        about=(ADULT_RACE,),
        also=sharper_exposure(ADULT_RACE),
    ),
    Claim(
        key="T7",
        place=_RACE,
        words="Race: with privacy both gaps shrink and converge.",
        test=_converge,
        evidence=costs_resolved(ADULT_RACE, (NO_DP,)),
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T8",
        place=_RACE,
        words="Race: the Non-White gap falls proportionally more, which enlarges the disparity.",
        test=_falls_more,
        evidence=costs_resolved(ADULT_RACE, (NO_DP,)),
        about=(ADULT_RACE,),
    ),
    Claim(
        key="T9",
        place="Discussion",
        words="Race: overfitting is distributed more evenly between the groups without privacy.",
        test=_evenest_without_privacy,
        evidence=costs_resolved(ADULT_RACE, BUDGETS),
        about=(ADULT_RACE,),
    ),
)
