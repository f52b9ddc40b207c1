"""Claims about Bias in Bios (Table 3)."""

from __future__ import annotations

from pcer.auditing import bounds, signed
from pcer_studies.judgement import Claim, Reply
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP, SEEDS
from pcer_studies.published import NotThere
from pcer_studies.rules import (
    ADULT_SEX,
    BIOS,
    FROM_1,
    FROM_HALF,
    STRONGEST,
    beyond_zero,
    budget_words,
    costs_differ,
    costs_resolved,
    disparity_shown,
    extreme,
    gap_words,
    parity_of,
    printed,
    range_words,
    rate_words,
    row_words,
    sharper_disparity,
    sharper_double,
    size_of,
)
from pcer_studies.views import OurRun, Paper, View

RATE_TOLERANCE = 0.05
NEAR_CHANCE = 0.6
BASE_TOLERANCE = 0.25
"""How far the rate gap may be from the gap of base rates, in proportion, to reflect it."""


def _large_gap(view: View) -> Reply:
    later, from_1 = ([view.parity(BIOS, e) for e in budgets] for budgets in (FROM_HALF, FROM_1))
    return Reply(
        row_words(FROM_HALF, [rate_words(value) for value in later]),
        min(later) > 0.48 and min(from_1) > 0.5,
    )


def _rates(view: View) -> Reply:
    rates = [view.rate(BIOS, NO_DP, g) for g in (0, 1)]
    near = [
        abs(rate - told) <= RATE_TOLERANCE
        for rate, told in zip(rates, _printed_rates(), strict=True)
    ]
    return Reply(
        f"Male {100 * rates[0]:.0f} %, Female {100 * rates[1]:.0f} % (no-DP)",
        all(near),
        "Judged: within 5 points of the printed rates." if isinstance(view, OurRun) else "",
    )


def _printed_rates() -> list[float]:
    return [printed(f"bios_rate_{name}") for name in ("male", "female")]


def _inherited(run: OurRun) -> Reply:
    panel = run.panel(BIOS, NO_DP)
    if panel.test is None:
        raise NotThere("our release of Bios has no labels")
    base = ((panel.test.tp + panel.test.fn) / panel.n_test).mean(axis=0)
    difference, rate = float(base[0] - base[1]), run.rate(BIOS, NO_DP, 0) - run.rate(BIOS, NO_DP, 1)
    return Reply(
        f"professors among men and women differ by {difference:.3f}, predictions by {rate:.3f} "
        "(no-DP)",
        abs(rate / difference - 1) <= BASE_TOLERANCE,
        f"Judged: within {100 * BASE_TOLERANCE:g} % of each other.",
    )


def _tightest(view: View) -> Reply:
    widths = {
        (one, e): view.interval(one, e)[1] - view.interval(one, e)[0]
        for one in CONFIGURATIONS
        for e in BUDGETS
    }
    least = min(widths, key=lambda key: widths[key])
    mean, interval = view.disparity(BIOS, NO_DP), view.interval(BIOS, NO_DP)
    return Reply(
        f"{signed(mean)} {bounds(interval)}",
        least == (BIOS, NO_DP),
        f"Width {widths[BIOS, NO_DP]:.3g}; the tightest of {len(widths)} is {least[0].name} at "
        f"{budget_words((least[1],))} with {widths[least]:.3g}.",
    )


def _women_pay_more(view: View) -> Reply:
    gaps = [view.gap(BIOS, NO_DP, g) for g in (0, 1)]
    rates = [view.rate(BIOS, NO_DP, g) for g in (0, 1)]
    return Reply(
        f"gaps {gap_words(*gaps)}, rates {rate_words(rates[0])}/{rate_words(rates[1])} (men/women)",
        gaps[1] > gaps[0] and rates[1] < rates[0],
    )


def _every_seed(view: View) -> Reply:
    n = _n_positive_without_privacy(view)
    return Reply(f"{n}/{view.n_seeds} positive at no-DP", n == view.n_seeds)


def _n_positive_without_privacy(view: View) -> int:
    if isinstance(view, Paper):
        return int(printed("bios_positive_seeds_no-DP"))
    return view.n_positive(BIOS, NO_DP)


def _uninformative(view: View) -> Reply:
    accuracy, interval = view.accuracy(BIOS, STRONGEST), view.interval(BIOS, STRONGEST)
    return Reply(
        f"accuracy {rate_words(accuracy)}; {signed(view.disparity(BIOS, STRONGEST))} "
        f"{bounds(interval)}",
        accuracy < NEAR_CHANCE and side(interval) == 0,
    )


def _falls_from_half(view: View) -> Reply:
    values = [view.disparity(BIOS, e) for e in FROM_HALF]
    return Reply(
        row_words(FROM_HALF, [signed(value) for value in values]),
        values == sorted(values, reverse=True),
        "Judged: whether it falls from budget to budget.",
    )


def _seeds_agree(view: View) -> Reply:
    known = FROM_HALF if isinstance(view, OurRun) else (1.0,)
    counts = [view.n_positive(BIOS, e) for e in known]
    least = printed("bios_positive_seeds_low")
    share = least / len(SEEDS)
    return Reply(
        f"{', '.join(map(str, counts))} of {view.n_seeds} ({budget_words(known)})",
        min(counts) >= share * view.n_seeds,
        f"Judged: at least {100 * share:.0f} % of the seeds.",
    )


def _survives(view: View) -> Reply:
    known = FROM_HALF if isinstance(view, OurRun) else (1.0,)
    values = [view.disparity(BIOS, e, 1e-2) for e in known]
    gaps = [view.gap(BIOS, e, g) for e in known for g in (0, 1)]
    below = max(gaps) < 1e-2
    return Reply(
        f"{row_words(known, [signed(value) for value in values])} at floor 0.01",
        min(values) > 0,
        "The gaps are below that floor, so it is the rate difference divided by it."
        if below
        else f"The gaps there are {range_words(gaps, gap_words)}.",
    )


def _like_adult_sex(view: View) -> Reply:
    budgets = (NO_DP, *FROM_HALF)
    same = [
        e for e in budgets if side(view.interval(BIOS, e)) == side(view.interval(ADULT_SEX, e)) == 1
    ]
    return Reply(
        f"both above 0, intervals excluding it, at {len(same)} of {len(budgets)}",
        len(same) == len(budgets),
    )


def _amplified(view: View) -> Reply:
    gaps = [[view.gap(BIOS, e, g) for e in FROM_HALF] for g in (0, 1)]
    bare = [view.gap(BIOS, NO_DP, g) for g in (0, 1)]
    smaller = all(max(row) < gap for row, gap in zip(gaps, bare, strict=True))
    larger = all(view.disparity(BIOS, e) > view.disparity(BIOS, NO_DP) for e in FROM_HALF)
    return Reply(
        f"gaps {gap_words(*bare)} at no-DP, {range_words(gaps[0] + gaps[1], gap_words)} with "
        "privacy",
        smaller and larger,
        f"Every gap is {'smaller' if smaller else 'not smaller'} with privacy from ε = 0.5; every "
        f"disparity is {'larger' if larger else 'not larger'}.",
    )


def _reversal(view: View) -> Reply:
    parity, size = extreme(parity_of(BIOS), view, min), extreme(size_of(BIOS), view, min)
    return Reply(
        f"smallest DP gap at {budget_words(parity)}, smallest disparity at {budget_words(size)}",
        parity == (STRONGEST,) and size == (NO_DP,),
    )


_BIOS = "sec:bios (Table 3)"

CLAIMS = (
    Claim(
        key="B1",
        place=_BIOS,
        words="The DP gap exceeds 0.48 from ε = 0.5 and 0.5 from ε = 1.",
        test=_large_gap,
        about=(BIOS,),
    ),
    Claim(
        key="B2",
        place=_BIOS,
        words="86 % of men and 33 % of women are predicted to be professors.",
        test=_rates,
        about=(BIOS,),
    ),
    Claim(
        key="B3",
        place=_BIOS,
        words="This gap is inherited from the occupations, not made by the model.",
        paper="base rates of the two groups are not printed",
        run=_inherited,
        about=(BIOS,),
    ),
    Claim(
        key="B4",
        place=f"{_BIOS}; sec:summary; Table S2",
        words="The disparity is above 0 without privacy and from ε = 0.5, its interval "
        "excluding 0.",
        test=beyond_zero(BIOS, (NO_DP, *FROM_HALF), sign=1),
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF)),
        about=(BIOS,),
        also=sharper_disparity(BIOS, (NO_DP, *FROM_HALF)),
    ),
    Claim(
        key="B5",
        place=f"{_BIOS}; sec:summary",
        words="Without privacy it has the tightest interval of the study.",
        test=_tightest,
        evidence=disparity_shown(BIOS, (NO_DP,)),
        about=CONFIGURATIONS,
    ),
    Claim(
        key="B6",
        place=_BIOS,
        words="Without privacy women are memorised more and receive less: the inequity is there "
        "before any noise.",
        test=_women_pay_more,
        evidence=costs_differ(BIOS, (NO_DP,)),
        about=(BIOS,),
        also=sharper_double(BIOS),
    ),
    Claim(
        key="B7",
        place=_BIOS,
        words="Without privacy every seed is positive.",
        test=_every_seed,
        about=(BIOS,),
    ),
    Claim(
        key="B8",
        place=_BIOS,
        words="At ε = 0.1 the model is near chance and the disparity says nothing.",
        test=_uninformative,
        about=(BIOS,),
    ),
    Claim(
        key="B9",
        place=_BIOS,
        words="With privacy the disparity peaks at ε = 0.5 and falls from there.",
        test=_falls_from_half,
        evidence=costs_resolved(BIOS, FROM_HALF),
        about=(BIOS,),
    ),
    Claim(
        key="B10",
        place=_BIOS,
        words="From ε = 0.5 at least 43 of 50 seeds are positive.",
        test=_seeds_agree,
        about=(BIOS,),
    ),
    Claim(
        key="B11",
        place=f"{_BIOS}; Table S1",
        words="The direction survives a floor of 0.01.",
        test=_survives,
        evidence=disparity_shown(BIOS, FROM_HALF),
        caveat="Table S2 calls it direction only from ε = 1, the gaps being below that floor.",
        about=(BIOS,),
    ),
    Claim(
        key="B12",
        place=f"{_BIOS}; sec:summary",
        words="Bios repeats the pattern of Adult (sex) in text.",
        test=_like_adult_sex,
        evidence=disparity_shown(BIOS, (NO_DP, *FROM_HALF)),
        about=(BIOS, ADULT_SEX),
    ),
    Claim(
        key="B13",
        place=_BIOS,
        words="Noise compresses the gaps and thereby amplifies the disparity.",
        test=_amplified,
        evidence=costs_resolved(BIOS, (NO_DP,)),
        about=(BIOS,),
    ),
    Claim(
        key="B14",
        place="sec:summary; Table S2",
        words="Ranking reversal: the DP gap is smallest at ε = 0.1, the disparity without privacy.",
        test=_reversal,
        evidence=costs_resolved(BIOS, (NO_DP, STRONGEST)),
        caveat="The paper calls ε = 0.1 floor-dominated.",
        about=(BIOS,),
    ),
)
