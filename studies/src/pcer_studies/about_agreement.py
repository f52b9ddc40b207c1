"""Claims about how far gap and attack agree (sec:mia-validation, Tables S5 and S6)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pcer.auditing import decimals, pearson
from pcer_studies.judgement import Claim, Reply, Support
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP, Configuration
from pcer_studies.published import NotThere, published_figures
from pcer_studies.rules import (
    ACS_RACE,
    ACS_SEX,
    BIOS,
    CELLS,
    FROM_HALF,
    SETTINGS,
    STRONGEST,
    StudySetting,
    budget_words,
    correlation,
    printed,
)
from pcer_studies.views import OurRun, Paper, View

STRONG = 0.7
"""A correlation above this is a strong one."""
PRINTED_R = 0.02
"""How far r of rounded cells may be from the printed one."""
ABOVE_GAPS = 1e-2
"""A floor of which the paper prints a disparity in every configuration."""


def _disparities(view: View, setting: StudySetting) -> tuple[float, float]:
    """By the gap and by the attack."""
    return view.gap_disparity(*setting), view.attack_disparity(*setting)


def _agree(view: View, setting: StudySetting) -> bool:
    by_gap, by_attack = _disparities(view, setting)
    return by_gap * by_attack > 0


def _rate_sign(view: View, one: Configuration) -> float:
    """Sign of the rate difference: which group receives more positive predictions.

    The paper does not print rates; a disparity at a floor above the gaps has their sign.
    """
    if isinstance(view, OurRun):
        rates = [view.rate(one, NO_DP, g) for g in (0, 1)]
        return math.copysign(1.0, rates[0] - rates[1])
    figures = published_figures(configuration=one, quantity="pcer_disparity", floor=ABOVE_GAPS)
    values = [figure.value for figure in figures if figure.value is not None]
    return math.copysign(1.0, values[0])


def _costs_correlate(view: View) -> Reply:
    points = [(view.gap(*cell), view.advantage(*cell)) for cell in CELLS]
    r = correlation(points)
    kept = [p for p, (one, e, _) in zip(points, CELLS, strict=True) if (one, e) != (BIOS, NO_DP)]
    return Reply(
        f"r = {r:.3f}",
        _correlation_holds(view, "gap_advantage_correlation", r),
        f"Without the two groups of Bios at no-DP: {decimals(pearson(kept), 2)}.",
    )


def _correlation_holds(view: View, key: str, r: float) -> bool:
    if isinstance(view, Paper):
        return abs(r - printed(key)) <= PRINTED_R
    return r >= STRONG


def _both_real(view: View) -> Support:
    n = sum(view.stands_out(*cell) for cell in CELLS)
    return Support(
        n > len(CELLS) / 2,
        f"{n} of the {len(CELLS)} gaps are more than split luck; gap and attack also share the "
        "luck of their splits.",
    )


def _signs(view: View) -> Reply:
    agree = [setting for setting in SETTINGS if _agree(view, setting)]
    late = [setting for setting in SETTINGS if setting[1] != STRONGEST]
    n_late = sum(setting in agree for setting in late)
    least = printed("sign_agreements")
    return Reply(
        f"{len(agree)}/{len(SETTINGS)}; {n_late}/{len(late)} without ε = 0.1",
        len(agree) >= least,
        "Judged: at least as many." if isinstance(view, OurRun) else "",
    )


def _better_than_rates(view: View) -> Support:
    """Does the gap foretell the attack's sign better than the rates alone, without any cost?"""
    agree = sum(_agree(view, setting) for setting in SETTINGS)
    alone = sum(
        view.attack_disparity(*setting) * _rate_sign(view, setting[0]) > 0 for setting in SETTINGS
    )
    return Support(
        agree > alone,
        "Both disparities have the same rates on top. The sign of the rate difference alone, "
        f"without any privacy cost, is the attack's in {alone}/{len(SETTINGS)}.",
    )


def _disagreements(view: View) -> Reply:
    apart = [setting for setting in SETTINGS if not _agree(view, setting)]
    elsewhere = [(one, e) for one, e in apart if one not in (ACS_RACE, ACS_SEX)]
    return Reply(
        f"{len(apart) - len(elsewhere)} of {len(apart)} on ACS",
        not elsewhere,
        "Elsewhere: "
        + ", ".join(f"{one.name} at {budget_words((e,))}" for one, e in elsewhere)
        + "."
        if elsewhere
        else "",
    )


def _disparities_correlate(view: View) -> Reply:
    r = correlation([_disparities(view, setting) for setting in SETTINGS])
    return Reply(f"r = {r:.3f}", _correlation_holds(view, "disparity_correlation", r))


def _shared_rates(view: View) -> Support:
    """Over configurations both follow the rate difference; within each they need not."""
    within = [
        correlation([_disparities(view, (one, e)) for e in BUDGETS]) for one in CONFIGURATIONS
    ]
    median = statistics.median(within)
    return Support(
        median >= STRONG,
        "Between configurations the shared rates make them agree. Within a configuration, over "
        f"budgets, r is {median:.2f} in the median ({min(within):.2f} to {max(within):.2f}).",
    )


def _understates(view: View) -> Reply:
    sizes = _sizes(view)
    larger, ties = (sum(test) for test in zip(*((b > a, b == a) for a, b in sizes), strict=True))
    ratios = [by_attack / by_gap for by_gap, by_attack in sizes if by_gap]
    if not ratios:
        raise NotThere("every disparity by the gap is 0, and none can be divided by")
    ratio = statistics.median(ratios)
    tied = f", {ties} tied as printed" if ties else ""
    share = f"{100 * larger / len(sizes):.0f} %{tied}"
    return Reply(
        f"{larger}/{len(sizes)} ({share}), median ratio {ratio:.2f}",
        2 * larger > len(sizes) and ratio > 1,
        "Judged: in more than half, and the median above 1.",
    )


def _always_understates(view: View) -> Reply:
    sizes = _sizes(view)
    smaller = sum(by_attack < by_gap for by_gap, by_attack in sizes)
    return Reply(
        f"{smaller}/{len(sizes)} exceptions",
        smaller == 0,
        "Even where each cost is bounded, two bounds do not order two ratios.",
    )


def _sizes(view: View) -> list[tuple[float, float]]:
    pairs = (_disparities(view, setting) for setting in SETTINGS)
    return [(abs(by_gap), abs(by_attack)) for by_gap, by_attack in pairs]


def _reliable_where_robust(view: View) -> Reply:
    robust = _robust(view)
    agree = sum(_agree(view, setting) for setting in robust)
    return Reply(
        f"{agree}/{len(robust)} settings whose interval excludes 0",
        bool(robust) and agree == len(robust),
    )


def _robust(view: View) -> Sequence[StudySetting]:
    later = (*FROM_HALF, NO_DP)
    return [(one, e) for one, e in SETTINGS if e in later and side(view.interval(one, e)) != 0]


_MIA = "sec:mia-validation"
_TABLES = f"{_MIA}; Tables S5 and S6"


CLAIMS = (
    Claim(
        key="A1",
        place=_TABLES,
        words="Gap and advantage correlate over the 72 groups: r = 0.828.",
        test=_costs_correlate,
        evidence=_both_real,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A2",
        place=f"{_TABLES}; Conclusion",
        words="The two disparities agree in sign in 32 of 36 settings, 26 of 30 without ε = 0.1.",
        test=_signs,
        evidence=_better_than_rates,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A3",
        place=f"{_TABLES}; Conclusion",
        words="All disagreements are on ACS.",
        test=_disagreements,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A4",
        place=f"{_TABLES}; Conclusion",
        words="The two disparities correlate over the 36 settings: r = 0.935.",
        test=_disparities_correlate,
        evidence=_shared_rates,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A5",
        place=f"{_TABLES}; Limitations",
        words="The proxy generally understates the attack's disparity: in 69 %, median ratio 1.25.",
        test=_understates,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A6",
        place="Remark on the lower bound (rem:conservative); Limitations",
        words="It understates always, so that any inequity found is genuine.",
        test=_always_understates,
        caveat=f"{_MIA} reports the exceptions itself.",
        about=CONFIGURATIONS,
    ),
    Claim(
        key="A7",
        place="sec:mia-full",
        words="The proxy's direction is reliable wherever the other checks call it robust.",
        test=_reliable_where_robust,
        evidence=_better_than_rates,
        about=CONFIGURATIONS,
    ),
)
