"""Claims about the direct attack, and how far it agrees with the gap (Tables S5 and S6)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from pcer.metrics import FloatArray
from pcer.paper.comparisons import agreement
from pcer.release import attack_kinds
from pcer.wording import signed
from pcer_studies.claims.evidence import all_resolved
from pcer_studies.claims.judgement import Claim, ClaimPart, Reply, Support
from pcer_studies.claims.rules import (
    ACS_RACE,
    ACS_SEX,
    CELLS,
    FROM_HALF,
    SETTINGS,
    ClaimNumber,
    StudySetting,
    above,
    as_printed,
    at,
    at_least,
    correlated,
    correlation,
    extreme,
    gap_of,
    gap_words,
    half_digit,
    larger,
    made,
    printed,
    r_words,
    size,
    threshold,
)
from pcer_studies.claims.rules import together as all_of
from pcer_studies.claims.views import OurRun, View
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP, Configuration
from pcer_studies.published import published_figures
from pcer_studies.results import AUC

LIRA = attack_kinds.LIRA.name
ABOVE_GAPS = 1e-2
"""A floor of which the paper prints a disparity in every configuration."""


def _advantage(one: Configuration, epsilon: float, group: int) -> ClaimNumber:
    name = f", {one.groups[group]}"
    return at(
        one, epsilon, lambda view: view.advantage(one, epsilon, group), gap_words, name
    )


def _mean_advantage(view: View) -> FloatArray:
    return np.asarray(np.mean([view.advantage(*cell) for cell in CELLS], axis=0))


_MEAN = made("mean AUC − ½", _mean_advantage, gap_words, *CONFIGURATIONS)
_LARGEST = extreme([_advantage(*cell) for cell in CELLS], "high", "AUC − ½")


def _sureness(quantity: str, cell: tuple[Configuration, float, int]) -> ClaimNumber:
    """A cost over its spread over seeds."""
    one, epsilon, group = cell

    def ask(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        return view.steadiness(one, epsilon, group, quantity)

    return made(one.name, ask, r_words, one)


def _median(quantity: str, name: str) -> ClaimNumber:
    numbers = [_sureness(quantity, cell) for cell in CELLS]
    return made(
        name,
        lambda view: np.median([n.of(view) for n in numbers], axis=0),
        r_words,
        *CONFIGURATIONS,
    )


def _mean_cost(cost: str, name: str) -> ClaimNumber:
    def ask(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        return np.asarray(
            np.mean([view.measured(*cell, cost) for cell in CELLS], axis=0)
        )

    return made(name, ask, gap_words, *CONFIGURATIONS)


def _stronger_attacks(run: OurRun) -> str:
    exceeding, refuting = 0, 0
    for one in CONFIGURATIONS:
        for attack in agreement(run.audit(one)):
            if attack.proxy == LIRA and attack.exceeding:
                exceeding += attack.exceeding[0]
                refuting += attack.exceeding[1]
    return (
        f"LiRA's advantage exceeds the gap in {exceeding} of {len(CELLS)} groups, in {refuting} "
        "beyond the errors of both."
    )


def _enough_shadows(view: View) -> Reply:
    """Exact: LiRA was run with fewer models than hundreds."""
    assert isinstance(view, OurRun)
    view.measured(*CELLS[0], LIRA)
    return Reply(
        f"LiRA from the {view.n_seeds} models of each budget, none trained for it",
        (
            ClaimPart(
                "models − 100",
                np.array([view.n_seeds - threshold("hundreds")]),
                signed,
                (),
            ),
        ),
        "A sweep of seeds, such as the paper's, holds its own shadow models.",
    )


def _both(setting: StudySetting) -> tuple[ClaimNumber, ClaimNumber]:
    """The disparity by the gap and by the attack."""
    by_gap = at(*setting, lambda view: view.gap_disparity(*setting), signed)
    return by_gap, at(*setting, lambda view: view.attack_disparity(*setting), signed)


def _agree(setting: StudySetting) -> ClaimNumber:
    """The attack's disparity, signed by the gap's, draw by draw."""
    return at(
        *setting,
        lambda v: v.attack_disparity(*setting) * np.sign(v.gap_disparity(*setting)),
        signed,
    )


def _printed_agreements(view: View) -> Reply:
    """Exact: how often the printed signs agree."""
    n = sum(float(_agree(setting).of(view)[0]) > 0 for setting in SETTINGS)
    what = "settings with one sign"
    margin = np.array([n - printed("sign_agreements") + 0.5])
    return Reply(
        f"{what}: {n} of {len(SETTINGS)}",
        (ClaimPart(what, margin, signed, CONFIGURATIONS),),
    )


def _understated(setting: StudySetting) -> ClaimNumber:
    """By how much the attack's disparity is the larger."""
    return at(
        *setting,
        lambda v: size(v.attack_disparity(*setting)) - size(v.gap_disparity(*setting)),
        signed,
    )


def _median_ratio(view: View) -> FloatArray:
    ratios = []
    for setting in SETTINGS:
        by_gap = np.abs(view.gap_disparity(*setting))
        ratios.append(
            np.abs(view.attack_disparity(*setting)) / np.maximum(by_gap, 1e-9)
        )
    return np.asarray(np.median(ratios, axis=0) - 1)


def _rate_sign(view: View, one: Configuration) -> float:
    """Sign of the rate difference: which group receives more positive predictions.

    The paper does not print rates; a disparity at a floor above the gaps has their
    sign.
    """
    if isinstance(view, OurRun):
        rates = [float(view.rate(one, NO_DP, g)[0]) for g in (0, 1)]
        return math.copysign(1.0, rates[0] - rates[1])
    figures = published_figures(
        configuration=one, quantity="pcer_disparity", floor=ABOVE_GAPS
    )
    values = [figure.value for figure in figures if figure.value is not None]
    return math.copysign(1.0, values[0])


def _better_than_rates(view: View) -> Support:
    """Does the gap foretell the attack's sign better than the rates alone, beyond its error?"""
    agree = np.sum([_agree(setting).of(view) > 0 for setting in SETTINGS], axis=0)
    alone = np.sum(
        [view.attack_disparity(*s) * _rate_sign(view, s[0]) > 0 for s in SETTINGS],
        axis=0,
    )
    return Support(
        _is_beyond(agree - alone),
        "Both disparities have the same rates on top. The sign of the rate difference alone, "
        f"without any exposure, is the attack's in {alone[0]}/{len(SETTINGS)}.",
    )


def _is_beyond(drawn: FloatArray) -> bool:
    """Whether a number lies above 0 beyond its error."""
    return ClaimPart("", drawn, r_words, ()).is_borne_out


def _shared_rates(view: View) -> Support:
    """Over configurations both follow the rate difference; within each they need not."""
    within = [
        correlation([_both((one, e)) for e in BUDGETS], view) for one in CONFIGURATIONS
    ]
    r = [float(one[0]) for one in within]
    median = np.median(within, axis=0)
    return Support(
        _is_beyond(median - threshold("strong")),
        "Between configurations the shared rates make them agree. Within a configuration, over "
        f"budgets, r is {median[0]:.2f} ± {median[1:].std(ddof=1):.2f} in the median "
        f"({min(r):.2f} to {max(r):.2f}).",
    )


def _reliable(view: View) -> Reply:
    """Where an interval excludes 0 from ε = 0.5, the attack's disparity has its sign."""
    budgets = (*FROM_HALF, NO_DP)
    robust = [s for s in SETTINGS if s[1] in budgets and side(view.interval(*s))]
    return above([_agree(setting) for setting in robust])(view)


def _r_of(points: list[tuple[ClaimNumber, ClaimNumber]]) -> ClaimNumber:
    return made(
        "r of the cells", lambda v: correlation(points, v), r_words, *CONFIGURATIONS
    )


_COSTS = [(gap_of(*cell), _advantage(*cell)) for cell in CELLS]
_BOTH = [_both(setting) for setting in SETTINGS]

_claim = partial(Claim, about=CONFIGURATIONS)

ATTACK_CLAIMS = (
    _claim(
        "V1",
        paper=as_printed(
            _MEAN, "advantage_mean", threshold("mean_rounding"), exact=True
        ),
        run=as_printed(_MEAN, "advantage_mean"),
    ),
    _claim(
        "V2",
        paper=as_printed(
            _LARGEST, "advantage_largest", threshold("cell_rounding"), exact=True
        ),
        run=above(
            [_advantage(*cell) for cell in CELLS],
            printed("advantage_largest") + half_digit("advantage_largest"),
            sign=-1,
        ),
    ),
    _claim("V3", larger(_COSTS), also=_stronger_attacks),
    _claim(
        "V4",
        paper="no errors of the AUC are printed",
        run=larger(
            [
                (
                    _median("overfitting_gap", "median of gap over its deviation"),
                    _median("auc_advantage", "median of advantage over its deviation"),
                )
            ]
        ),
    ),
    _claim(
        "V5",
        paper="the paper runs no LiRA",
        run=larger(
            [(_mean_cost(LIRA, "LiRA, mean"), _mean_cost(AUC, "threshold, mean"))]
        ),
    ),
    Claim("V6", paper="the paper runs no LiRA", run=_enough_shadows),
)

AGREEMENT_CLAIMS = (
    _claim(
        "A1",
        paper=as_printed(
            _r_of(_COSTS),
            "gap_advantage_correlation",
            threshold("printed_r"),
            exact=True,
        ),
        run=correlated(_COSTS, threshold("strong"), what="over 72 groups"),
        evidence=all_resolved(CELLS, share=0.5),
    ),
    _claim(
        "A2",
        paper=_printed_agreements,
        run=at_least(
            [above([_agree(setting)]) for setting in SETTINGS],
            int(printed("sign_agreements")),
            what="settings with one sign",
        ),
        evidence=_better_than_rates,
    ),
    Claim(
        "A3",
        above([_agree(s) for s in SETTINGS if s[0] not in (ACS_RACE, ACS_SEX)]),
        about=tuple(one for one in CONFIGURATIONS if one.dataset != "acs"),
    ),
    _claim(
        "A4",
        paper=as_printed(_r_of(_BOTH), "disparity_correlation", exact=True),
        run=correlated(_BOTH, threshold("strong"), what="over 36 settings"),
        evidence=_shared_rates,
    ),
    _claim(
        "A5",
        all_of(
            at_least(
                [above([_understated(setting)]) for setting in SETTINGS],
                len(SETTINGS) // 2 + 1,
                what="settings in which the attack's is the larger",
            ),
            above([made("median ratio − 1", _median_ratio, r_words, *CONFIGURATIONS)]),
        ),
    ),
    _claim("A6", above([_understated(setting) for setting in SETTINGS])),
    _claim("A7", _reliable, evidence=_better_than_rates),
)
