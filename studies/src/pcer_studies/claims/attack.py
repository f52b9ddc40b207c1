"""What does the paper claim of the direct attack and the gap (Tables S5, S6)?

Read by ``ledger``. To add a claim: an entry of ATTACK_CLAIMS or AGREEMENT_CLAIMS, and
its words in ``claims.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pcer.metrics import FloatArray
from pcer.paper.rankings import agreement
from pcer.release import attack_kinds
from pcer.wording import signed
from pcer_studies.claims.evidence import all_detected
from pcer_studies.claims.judgement import (
    Claim,
    ClaimPart,
    ClaimQuestion,
    Reply,
    Support,
)
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.quantities import (
    CELLS,
    FROM_HALF,
    GROUPS,
    SETTINGS,
    ClaimNumber,
    NumberPair,
    StudyCell,
    StudySetting,
    computed,
    correlation,
    extreme,
    gap_of,
    half_digit,
    number_at,
    printed,
    size,
)
from pcer_studies.claims.rules import (
    above,
    as_printed,
    at_least,
    correlated,
    larger,
    together,
)
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import gap_words, r_words, threshold
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP, Configuration
from pcer_studies.published import published_figures
from pcer_studies.results import AUC

LIRA = attack_kinds.LIRA.name
ABOVE_GAPS = 1e-2
"""A floor of which the paper prints a disparity in every configuration."""
LEAST_DISPARITY = 1e-9
"""A disparity below this is taken for this where one divides by it."""
NO_LIRA_IN_PRINT = "the paper runs no LiRA"

# The attack's advantage, group by group.


def _advantage(configuration: Configuration, epsilon: float, group: int) -> ClaimNumber:
    return number_at(
        configuration,
        epsilon,
        lambda view: view.advantage(configuration, epsilon, group),
        gap_words,
        f", {configuration.groups[group]}",
    )


def _mean_advantage(view: View) -> FloatArray:
    advantages = [view.advantage(*cell) for cell in CELLS]
    return np.asarray(np.mean(advantages, axis=0))


def _mean_exposure(attack: str, name: str) -> ClaimNumber:
    """The mean over all groups of what an attack finds."""

    def draws(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        exposures = [view.measured(*cell, attack) for cell in CELLS]
        return np.asarray(np.mean(exposures, axis=0))

    return computed(name, draws, gap_words, *CONFIGURATIONS)


def _median_steadiness(quantity: str, name: str) -> ClaimNumber:
    """The median over all groups of an exposure over its deviation over seeds."""
    numbers = [_steadiness(quantity, cell) for cell in CELLS]

    def draws(view: View) -> FloatArray:
        return np.median([number.draws(view) for number in numbers], axis=0)

    return computed(name, draws, r_words, *CONFIGURATIONS)


def _steadiness(quantity: str, cell: StudyCell) -> ClaimNumber:
    def draws(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        return view.steadiness(*cell, quantity)

    return computed(cell.configuration.name, draws, r_words, cell.configuration)


def _stronger_attacks(run: OurRun) -> str:
    """In how many groups LiRA finds more than the gap, in a sentence."""
    n_exceeding = 0
    n_refuting = 0
    for configuration in CONFIGURATIONS:
        for attack in agreement(run.audit(configuration)):
            if attack.attack == LIRA and attack.exceeding:
                n_exceeding += attack.exceeding[0]
                n_refuting += attack.exceeding[1]
    return (
        f"LiRA's advantage exceeds the gap in {n_exceeding} of {len(CELLS)} groups, in "
        f"{n_refuting} beyond the errors of both."
    )


def _enough_shadows(view: View) -> Reply:
    """Exact: LiRA was run with fewer models than hundreds."""
    assert isinstance(view, OurRun)
    view.measured(*CELLS[0], LIRA)  # NotThere where the study carries no LiRA
    margin = np.array([view.n_seeds - threshold("hundreds")])
    return Reply(
        f"LiRA from the {view.n_seeds} models of each budget, none trained for it",
        (ClaimPart("models − 100", margin, signed, ()),),
        "A sweep of seeds, such as the paper's, holds its own shadow models.",
    )


# The disparity by the gap and by the attack, setting by setting.


def _by_gap(setting: StudySetting) -> ClaimNumber:
    return number_at(*setting, lambda view: view.gap_disparity(*setting), signed)


def _by_attack(setting: StudySetting) -> ClaimNumber:
    return number_at(*setting, lambda view: view.attack_disparity(*setting), signed)


def _agree(setting: StudySetting) -> ClaimNumber:
    """The attack's disparity, signed by the gap's, draw by draw."""

    def draws(view: View) -> FloatArray:
        by_attack = view.attack_disparity(*setting)
        return by_attack * np.sign(view.gap_disparity(*setting))

    return number_at(*setting, draws, signed)


def _understated(setting: StudySetting) -> ClaimNumber:
    """By how much the attack's disparity is the larger."""

    def draws(view: View) -> FloatArray:
        by_attack = size(view.attack_disparity(*setting))
        return by_attack - size(view.gap_disparity(*setting))

    return number_at(*setting, draws, signed)


def _median_ratio(view: View) -> FloatArray:
    """The attack's disparity over the gap's, in the median over settings, minus 1."""
    ratios = []
    for setting in SETTINGS:
        by_gap = np.abs(view.gap_disparity(*setting))
        by_attack = np.abs(view.attack_disparity(*setting))
        ratios.append(by_attack / np.maximum(by_gap, LEAST_DISPARITY))
    return np.asarray(np.median(ratios, axis=0) - 1)


def _printed_agreements(view: View) -> Reply:
    """Exact: how often the printed signs agree."""
    n_agreeing = sum(_agree(setting).value(view) > 0 for setting in SETTINGS)
    what = "settings with one sign"
    margin = np.array([n_agreeing - printed("sign_agreements") + 0.5])
    part = ClaimPart(what, margin, signed, CONFIGURATIONS)
    return Reply(f"{what}: {n_agreeing} of {len(SETTINGS)}", (part,))


def _reliable(view: View) -> Reply:
    """From ε = 0.5, the attack agrees with intervals that exclude 0, in sign."""
    numbers = []
    for setting in SETTINGS:
        is_asked = setting.epsilon in (*FROM_HALF, NO_DP)
        if is_asked and side(view.interval(*setting)) != 0:
            numbers.append(_agree(setting))
    return above(numbers)(view)


def _with_p(question: ClaimQuestion, points: Sequence[NumberPair]) -> ClaimQuestion:
    """The same question; its reply says the p-value of r, and what that is worth."""

    def ask(view: View) -> Reply:
        from scipy.special import stdtr

        reply = question(view)
        r = float(correlation(points, view)[0])
        n = len(points)
        t = r * math.sqrt((n - 2) / (1 - r**2))
        p = 2 * float(stdtr(n - 2, -abs(t)))
        caution = (
            f"p = {p:.0e} for r = 0 over {n} points, as if they were independent; "
            "points of one dataset share splits and people, so that this p is too "
            "small."
        )
        return replace(reply, why=f"{reply.why} {caution}".strip())

    return ask


def _r_of(points: Sequence[NumberPair]) -> ClaimNumber:
    return computed(
        "r of the cells",
        lambda view: correlation(points, view),
        r_words,
        *CONFIGURATIONS,
    )


# Whether agreement is more than the rates that both disparities have on top.


def _better_than_rates(view: View) -> Support:
    """Does the gap foretell the attack's sign better than the rates alone do?"""
    agree = np.sum([_agree(setting).draws(view) > 0 for setting in SETTINGS], axis=0)
    rates_agree = []
    for setting in SETTINGS:
        sign = _rate_sign(view, setting.configuration)
        rates_agree.append(view.attack_disparity(*setting) * sign > 0)
    by_rates = np.sum(rates_agree, axis=0)
    return Support(
        _is_beyond(agree - by_rates),
        "Both disparities have the same rates on top. The sign of the rate difference "
        "alone, without any exposure, is the attack's in "
        f"{by_rates[0]}/{len(SETTINGS)}.",
    )


def _rate_sign(view: View, configuration: Configuration) -> float:
    """Sign of the rate difference: which group receives more positive predictions.

    The paper does not print rates; a disparity at a floor above the gaps has their
    sign.
    """
    if isinstance(view, OurRun):
        first, second = (view.rate(configuration, NO_DP, group) for group in GROUPS)
        return math.copysign(1.0, float(first[0]) - float(second[0]))
    figures = published_figures(
        configuration=configuration, quantity="pcer_disparity", floor=ABOVE_GAPS
    )
    values = [figure.value for figure in figures if figure.value is not None]
    return math.copysign(1.0, values[0])


def _shared_rates(view: View) -> Support:
    """Do the disparities correlate within a configuration, not only between them?"""
    within = [
        correlation(_points_of(configuration), view) for configuration in CONFIGURATIONS
    ]
    median = np.median(within, axis=0)
    r = [float(draws[0]) for draws in within]
    return Support(
        _is_beyond(median - threshold("strong")),
        "Between configurations the shared rates make them agree. Within a "
        f"configuration, over budgets, r is {median[0]:.2f} ± "
        f"{median[1:].std(ddof=1):.2f} in the median ({min(r):.2f} to {max(r):.2f}).",
    )


def _points_of(configuration: Configuration) -> list[NumberPair]:
    """The two disparities of a configuration, budget by budget."""
    settings = [StudySetting(configuration, epsilon) for epsilon in BUDGETS]
    return [(_by_gap(setting), _by_attack(setting)) for setting in settings]


def _is_beyond(draws: FloatArray) -> bool:
    """Whether a number lies above 0 beyond its error."""
    return ClaimPart("", draws, r_words, ()).is_borne_out


_MEAN = computed("mean AUC − ½", _mean_advantage, gap_words, *CONFIGURATIONS)
_ADVANTAGES = [_advantage(*cell) for cell in CELLS]
_LARGEST = extreme(_ADVANTAGES, "high", "AUC − ½")
_GAP_AND_ADVANTAGE = [(gap_of(*cell), _advantage(*cell)) for cell in CELLS]
_BOTH_DISPARITIES = [(_by_gap(setting), _by_attack(setting)) for setting in SETTINGS]
_AGREE = [above([_agree(setting)]) for setting in SETTINGS]
_UNDERSTATED = [_understated(setting) for setting in SETTINGS]
_EACH_UNDERSTATED = [above([number]) for number in _UNDERSTATED]
_WITHOUT_ACS = tuple(one for one in CONFIGURATIONS if one.dataset != "acs")
_AGREE_WITHOUT_ACS = [
    _agree(setting) for setting in SETTINGS if setting.configuration in _WITHOUT_ACS
]

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
            _ADVANTAGES,
            printed("advantage_largest") + half_digit("advantage_largest"),
            sign=-1,
        ),
    ),
    _claim("V3", larger(_GAP_AND_ADVANTAGE), also=_stronger_attacks),
    _claim(
        "V4",
        paper="no errors of the AUC are printed",
        run=larger(
            [
                (
                    _median_steadiness(
                        "overfitting_gap", "median of gap over its deviation"
                    ),
                    _median_steadiness(
                        "auc_advantage", "median of advantage over its deviation"
                    ),
                )
            ]
        ),
    ),
    _claim(
        "V5",
        paper=NO_LIRA_IN_PRINT,
        run=larger(
            [
                (
                    _mean_exposure(LIRA, "LiRA, mean"),
                    _mean_exposure(AUC, "threshold, mean"),
                )
            ]
        ),
    ),
    Claim("V6", paper=NO_LIRA_IN_PRINT, run=_enough_shadows),
)

AGREEMENT_CLAIMS = (
    _claim(
        "A1",
        paper=_with_p(
            as_printed(
                _r_of(_GAP_AND_ADVANTAGE),
                "gap_advantage_correlation",
                threshold("printed_r"),
                exact=True,
            ),
            _GAP_AND_ADVANTAGE,
        ),
        run=_with_p(
            correlated(_GAP_AND_ADVANTAGE, threshold("strong"), what="over 72 groups"),
            _GAP_AND_ADVANTAGE,
        ),
        evidence=all_detected(CELLS, share=0.5),
    ),
    _claim(
        "A2",
        paper=_printed_agreements,
        run=at_least(
            _AGREE, int(printed("sign_agreements")), what="settings with one sign"
        ),
        evidence=_better_than_rates,
    ),
    Claim("A3", above(_AGREE_WITHOUT_ACS), about=_WITHOUT_ACS),
    _claim(
        "A4",
        paper=_with_p(
            as_printed(_r_of(_BOTH_DISPARITIES), "disparity_correlation", exact=True),
            _BOTH_DISPARITIES,
        ),
        run=_with_p(
            correlated(_BOTH_DISPARITIES, threshold("strong"), what="over 36 settings"),
            _BOTH_DISPARITIES,
        ),
        evidence=_shared_rates,
    ),
    _claim(
        "A5",
        together(
            at_least(
                _EACH_UNDERSTATED,
                len(SETTINGS) // 2 + 1,
                what="settings in which the attack's is the larger",
            ),
            above(
                [computed("median ratio − 1", _median_ratio, r_words, *CONFIGURATIONS)]
            ),
        ),
    ),
    _claim("A6", above(_UNDERSTATED)),
    _claim("A7", _reliable, evidence=_better_than_rates),
)
