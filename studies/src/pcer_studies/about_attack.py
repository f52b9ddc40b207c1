"""Claims about the direct attack itself (sec:mia-validation)."""

from __future__ import annotations

import statistics

from pcer.release import proxies
from pcer_studies.judgement import Claim, Reply
from pcer_studies.protocol import CONFIGURATIONS
from pcer_studies.results import AUC, GAP
from pcer_studies.rules import BIOS, CELLS, budget_words, gap_words, printed
from pcer_studies.views import OurRun, Paper, View, known

WEAK = 0.01
"""A mean advantage below this is hardly better than guessing."""
LIRA = proxies.LIRA.name
HUNDREDS = 100
OF_CELL, OF_MEAN = 0.0005, 0.0001
"""What rounding to three decimals can do to one AUC, and to the mean of 72."""


def _weak(view: View) -> Reply:
    values = [view.advantage(*cell) for cell in CELLS]
    mean = statistics.fmean(values)
    others = statistics.fmean(view.advantage(*cell) for cell in CELLS if cell[0] != BIOS)
    return Reply(
        f"mean AUC − ½ = {mean:.4f}",
        _borne_out(view, mean, printed("advantage_mean"), limit=WEAK, rounding=OF_MEAN),
        f"Without Bios: {others:.4f}."
        + (" Judged: below 0.01." if isinstance(view, OurRun) else ""),
    )


def _borne_out(view: View, value: float, told: float, *, limit: float, rounding: float) -> bool:
    """The paper: the printed figure follows from its cells. Our run: it is below the limit."""
    return abs(value - told) <= rounding if isinstance(view, Paper) else value < limit


def _largest(view: View) -> Reply:
    values = {cell: view.advantage(*cell) for cell in CELLS}
    one, e, g = max(values, key=lambda cell: values[cell])
    value = values[one, e, g]
    return Reply(
        f"largest {value:.4f}: {one.name}, {one.groups[g]}, {budget_words((e,))}",
        _borne_out(view, value, printed("advantage_largest"), limit=2 * WEAK, rounding=OF_CELL),
        "Judged: below 0.02." if isinstance(view, OurRun) else "",
    )


def _bounded(view: View) -> Reply:
    gaps = [view.gap(*cell) for cell in CELLS]
    advantages = [view.advantage(*cell) for cell in CELLS]
    above = sum(a > g for g, a in zip(gaps, advantages, strict=True))
    means = statistics.fmean(advantages), statistics.fmean(gaps)
    return Reply(
        f"mean {means[0]:.4f} against a mean gap of {means[1]:.4f}",
        means[0] < means[1] and above == 0,
        f"The advantage exceeds the gap in {above} of {len(CELLS)} groups.",
    )


def _stronger_attacks(run: OurRun) -> str:
    exceeding, refuting = 0, 0
    for one in CONFIGURATIONS:
        agreement = run.audit(one).agreement
        for proxy in agreement.proxies if agreement else ():
            if proxy.proxy == LIRA and proxy.bound:
                exceeding += proxy.bound.n_cells_exceeding
                refuting += proxy.bound.n_cells_refuting
    return (
        f"LiRA's advantage exceeds the gap in {exceeding} of {len(CELLS)} groups, in {refuting} "
        "beyond the errors of both."
    )


def _less_noisy(run: OurRun) -> Reply:
    by_gap, by_attack = (_resolved(run, cost) for cost in (GAP, AUC))
    z = [_sureness(run, cost) for cost in (GAP, AUC)]
    return Reply(
        f"resolved: gap {by_gap}, attack {by_attack} of {len(CELLS)}",
        by_gap > by_attack and z[0] > z[1],
        f"Median of cost over its error: gap {z[0]:.1f}, attack {z[1]:.1f}.",
    )


def _resolved(run: OurRun, cost: str) -> int:
    return sum(run.group(one, e, g, cost).resolved for one, e, g in CELLS)


def _sureness(run: OurRun, cost: str) -> float:
    found = [(run.group(one, e, g, cost).cost, one) for one, e, g in CELLS]
    return statistics.median(
        known(of.value, f"the {cost}", one) / known(of.standard_error, f"the error of {cost}", one)
        for of, one in found
    )


def _lira_sees_more(run: OurRun) -> Reply:
    means = [_mean_cost(run, cost) for cost in (AUC, LIRA)]
    counts = [_resolved(run, cost) for cost in (AUC, LIRA)]
    return Reply(
        f"mean advantage {gap_words(*means)} (threshold/LiRA)",
        means[1] > means[0] and counts[1] > counts[0],
        f"Resolved: threshold {counts[0]}, LiRA {counts[1]} of {len(CELLS)} groups.",
    )


def _mean_cost(run: OurRun, cost: str) -> float:
    return statistics.fmean(
        known(run.group(one, e, g, cost).cost.value, f"the {cost}", one) for one, e, g in CELLS
    )


def _needs_hundreds(run: OurRun) -> Reply:
    _resolved(run, LIRA)
    return Reply(
        f"LiRA from the {run.n_seeds} models of each budget, none trained for it",
        run.n_seeds >= HUNDREDS,
        "A sweep of seeds, such as the paper's, holds its own shadow models.",
    )


_MIA = "sec:mia-validation"


CLAIMS = (
    Claim(
        key="V1",
        place=f"{_MIA}; Discussion",
        words="The threshold attack is hardly better than guessing: mean advantage 0.0013.",
        test=_weak,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="V2",
        place=_MIA,
        words="Its largest advantage is 0.0118.",
        test=_largest,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="V3",
        place=f"Proposition 1; {_MIA}",
        words="The gap bounds the attack's advantage with room to spare.",
        test=_bounded,
        caveat="The proof is for accuracy; the paper claims no bound of the AUC or of LiRA.",
        about=CONFIGURATIONS,
        also=_stronger_attacks,
    ),
    Claim(
        key="V4",
        place=f"{_MIA}; Discussion",
        words="The gap is the more stable measure, the attack too close to chance to divide by.",
        paper="no errors of the AUC are printed",
        run=_less_noisy,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="V5",
        place=f"{_MIA}; Limitations",
        words="Threshold attacks are weak beside calibrated ones such as LiRA, which could tighten "
        "the estimates.",
        paper="the paper runs no LiRA",
        run=_lira_sees_more,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="V6",
        place="Introduction (practical significance); Background",
        words="LiRA needs hundreds of shadow models to be trained.",
        paper="the paper runs no LiRA",
        run=_needs_hundreds,
        about=CONFIGURATIONS,
    ),
)
