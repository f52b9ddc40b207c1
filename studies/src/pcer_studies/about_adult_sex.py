"""Claims about Adult, sex (Table S3)."""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing import signed
from pcer_studies.judgement import Claim, Reply
from pcer_studies.protocol import BUDGETS, NO_DP
from pcer_studies.published import text_figure
from pcer_studies.rules import (
    ADULT_SEX,
    FLAT,
    PRIVATE,
    best_words,
    beyond_zero,
    budget_words,
    costs_resolved,
    disparity_shown,
    extreme,
    gap_words,
    is_flat,
    parity_of,
    printed,
    range_words,
    rate_words,
    sharper_disparity,
    sharper_exposure,
    size_of,
)
from pcer_studies.views import View

NEARLY_EQUAL = 1.5
"""Gaps whose ratio is below this count as nearly equal."""
RATE_TOLERANCE = 0.02


def _rates(view: View) -> Reply:
    values = [[view.rate(ADULT_SEX, e, g) for e in BUDGETS] for g in (0, 1)]
    expected = [
        [printed(f"adult_rate_{name}_{end}") for end in ("low", "high")]
        for name in ("male", "female")
    ]
    inside = all(
        low - RATE_TOLERANCE <= min(found) and max(found) <= high + RATE_TOLERANCE
        for found, (low, high) in zip(values, expected, strict=True)
    )
    figure = ", ".join(
        f"{name} {range_words([100 * v for v in found], lambda v: f'{v:.0f}')} %"
        for name, found in zip(ADULT_SEX.groups, values, strict=True)
    )
    return Reply(figure, inside, "Judged: whether ours are within 2 points of the printed ranges.")


def _printed_rates(view: View) -> Reply:
    low = printed("adult_rate_male_low") - printed("adult_rate_female_high")
    high = printed("adult_rate_male_high") - printed("adult_rate_female_low")
    gaps = [view.parity(ADULT_SEX, e) for e in BUDGETS]
    return Reply(
        "Male 25 to 26 %, Female 5 to 7 %",
        low - RATE_TOLERANCE <= min(gaps) and max(gaps) <= high + RATE_TOLERANCE,
        f"Differences of {low:.2f} to {high:.2f} agree with the printed DP gaps "
        f"({range_words(gaps, rate_words)}).",
    )


def _large_and_stable(view: View) -> Reply:
    gaps = [view.parity(ADULT_SEX, e) for e in BUDGETS]
    return Reply(
        range_words(gaps, rate_words),
        is_flat(gaps),
        f"Judged: within {100 * FLAT:g} % of the largest.",
    )


def _printed_range(view: View) -> Reply:
    low, high = (printed(f"adult_sex_parity_gap_{end}") for end in ("low", "high"))
    gaps = [view.parity(ADULT_SEX, e) for e in BUDGETS]
    least = extreme(parity_of(ADULT_SEX), view, min)
    return Reply(
        f"{low:.3f} to {high:.3f}",
        (min(gaps), max(gaps)) == (low, high),
        f"Table S3 has {range_words(gaps, rate_words)}, the smallest at {budget_words(least)}.",
    )


def _nearly_equal(view: View) -> Reply:
    gaps = [view.gap(ADULT_SEX, NO_DP, g) for g in (0, 1)]
    refuted = view.costs_differ(ADULT_SEX, NO_DP)
    return Reply(
        f"Male/Female {gap_words(*gaps)}",
        max(gaps) <= NEARLY_EQUAL * min(gaps) and not refuted,
        f"Ratio {max(gaps) / min(gaps):.2f} (below {NEARLY_EQUAL:g} counts as nearly equal); by "
        f"the gaps, equal costs are {'refuted' if refuted else 'not refuted'}.",
    )


def _rises(view: View) -> Reply:
    bare = abs(view.disparity(ADULT_SEX, NO_DP))
    larger = [e for e in PRIVATE if abs(view.disparity(ADULT_SEX, e)) > bare]
    gaps = [
        view.gap(ADULT_SEX, e, g) < view.gap(ADULT_SEX, NO_DP, g) for e in PRIVATE for g in (0, 1)
    ]
    return Reply(
        f"{signed(view.disparity(ADULT_SEX, NO_DP))} at no-DP, "
        f"{range_words([view.disparity(ADULT_SEX, e) for e in PRIVATE], signed)} with privacy",
        len(larger) == len(PRIVATE) and all(gaps),
        f"Larger at {len(larger)} of {len(PRIVATE)} budgets; {sum(gaps)} of {len(gaps)} gaps are "
        "smaller than without privacy.",
    )


def _no_reversal(view: View) -> Reply:
    parity, size = (extreme(v, view, min) for v in (parity_of(ADULT_SEX), size_of(ADULT_SEX)))
    return Reply(
        best_words(ADULT_SEX, view),
        not set(parity).isdisjoint(size),
        "sec:summary speaks of a reversal on Adult (sex) which Bios mirrors.",
    )


def _best_parity(view: View) -> Reply:
    best = extreme(parity_of(ADULT_SEX), view, min)
    text, table = (
        text_figure(key).printed for key in ("adult_sex_best_parity_text", "adult_sex_best_parity")
    )
    return Reply(
        f"{rate_words(view.parity(ADULT_SEX, best[0]))} at {budget_words(best)}",
        best == (NO_DP,),
        f"Table S2 says {table}, sec:adult-sex says ε = {text}.",
    )


def _same_direction(view: View) -> Reply:
    return _follows_rates(view, [_rate_difference(view, e) for e in BUDGETS])


def _printed_direction(view: View) -> Reply:
    difference = printed("adult_rate_male_low") - printed("adult_rate_female_high")
    return _follows_rates(view, [difference] * len(BUDGETS))


def _follows_rates(view: View, rates: Sequence[float]) -> Reply:
    same = [view.disparity(ADULT_SEX, e) * rate > 0 for e, rate in zip(BUDGETS, rates, strict=True)]
    return Reply(
        f"disparity and rate difference have one sign at {sum(same)} of {len(same)} budgets",
        all(same),
        "The paper draws this conclusion itself.",
    )


def _rate_difference(view: View, epsilon: float) -> float:
    return view.rate(ADULT_SEX, epsilon, 0) - view.rate(ADULT_SEX, epsilon, 1)


_SEX = "sec:adult-sex (Table S3)"


CLAIMS = (
    Claim(
        key="T10",
        place=f"Results; {_SEX}; sec:summary",
        words="Sex: the disparity is above 0 at every budget, its interval excluding 0.",
        test=beyond_zero(ADULT_SEX, BUDGETS, sign=1),
        evidence=disparity_shown(ADULT_SEX, BUDGETS),
        about=(ADULT_SEX,),
        also=sharper_disparity(ADULT_SEX, BUDGETS),
    ),
    Claim(
        key="T11",
        place=_SEX,
        words="Sex: 25 to 26 % of men and 5 to 7 % of women are predicted a high income.",
        paper=_printed_rates,
        run=_rates,
        about=(ADULT_SEX,),
    ),
    Claim(
        key="T12",
        place=_SEX,
        words="Sex: the DP gap is large and stable over budgets.",
        test=_large_and_stable,
        about=(ADULT_SEX,),
    ),
    Claim(
        key="T13",
        place="sec:acs",
        words="Sex: the DP gap ranges from 0.184 to 0.188.",
        paper=_printed_range,
        run="a range printed wrongly cannot be held against another run; T12 has ours",
        about=(ADULT_SEX,),
        slip=True,
    ),
    Claim(
        key="T14",
        place=_SEX,
        words="Sex: without privacy the two gaps are nearly equal, so PCER magnifies the rate gap "
        "instead of correcting for unequal cost.",
        test=_nearly_equal,
        about=(ADULT_SEX,),
        also=sharper_exposure(ADULT_SEX),
    ),
    Claim(
        key="T15",
        place=_SEX,
        words="Sex: with privacy the disparity rises because both gaps shrink.",
        test=_rises,
        evidence=costs_resolved(ADULT_SEX, (NO_DP,)),
        about=(ADULT_SEX,),
    ),
    Claim(
        key="T16",
        place=_SEX,
        words="Sex: no ranking reversal, both measures prefer one budget.",
        test=_no_reversal,
        about=(ADULT_SEX,),
    ),
    Claim(
        key="T17",
        place="Table S2",
        words="Sex: the DP gap is smallest without privacy.",
        test=_best_parity,
        about=(ADULT_SEX,),
        slip=True,
    ),
    Claim(
        key="T18",
        place=_SEX,
        words="Sex: PCER says nothing that the DP gap does not: rates drive it.",
        paper=_printed_direction,
        run=_same_direction,
        about=(ADULT_SEX,),
    ),
)
