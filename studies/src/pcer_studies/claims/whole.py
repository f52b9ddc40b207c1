"""What does the paper claim about the whole, from introduction to conclusion?

Read by ``ledger``. To add a claim: an entry of WHOLE_CLAIMS, and its words in
``claims.toml``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import signed
from pcer_studies.claims.compas import half_widths_from_0
from pcer_studies.claims.evidence import ratio_differs, unequal_in_most
from pcer_studies.claims.judgement import (
    Claim,
    ClaimPart,
    ClaimQuestion,
    Reply,
    Support,
)
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.quantities import (
    ADULT_SEX,
    COMPAS,
    FROM_1,
    FROM_HALF,
    GROUPS,
    INFORMATIVE,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    computed,
    disparity_of,
    disparity_size,
    gap_difference,
    number_at,
    odds_of,
    parity_of,
)
from pcer_studies.claims.questions import best_parity
from pcer_studies.claims.rules import (
    above,
    at_least,
    correlated,
    excludes_0,
    larger,
    together,
)
from pcer_studies.claims.views import View, known
from pcer_studies.claims.wording import budget_words, gap_words, threshold
from pcer_studies.protocol import (
    ACS_STATED,
    ACS_TASK,
    BUDGETS,
    CONFIGURATIONS,
    PAPER_RECORDS,
    Configuration,
)

BENEFIT = tuple(one for one in CONFIGURATIONS if one.outcome == "benefit")
SWEEP_POINTS = {
    "private budgets": (5, len(BUDGETS) - 1),
    "from ε = 1, with no-DP": (4, len(FROM_1) + 1),
}
"""Points of a correlation over budgets: as the paper says, and as its sweep has."""
ABOUT_RECORDS = 500
"""Records by which a number given in thousands may be off."""
ONE_UNIT = 0.5
"""Whole numbers that differ by less are the same."""
HALF = len(CONFIGURATIONS) // 2 + 1


def _chooses_another(configuration: Configuration) -> ClaimQuestion:
    """Intervals exclude 0, and neither measure's best budget is the other's."""

    def ask(view: View) -> Reply:
        parts = _rivals(configuration, view)
        for epsilon in FROM_1:
            disparity = disparity_of(configuration, epsilon)
            sign = 1 if disparity.value(view) > 0 else -1
            parts += excludes_0([disparity], sign=sign)(view).parts
        return Reply(configuration.name, tuple(parts))

    return ask


def _rivals(configuration: Configuration, view: View) -> list[ClaimPart]:
    """The best budget by disparity against the best of the others by DP gap.

    By each measure its own choice is the better one. Where the rival is not ranked by
    disparity, only the DP gap is asked.
    """
    chosen = min(
        INFORMATIVE,
        key=lambda epsilon: disparity_size(configuration, epsilon).value(view),
    )
    others = [epsilon for epsilon in BUDGETS if epsilon != chosen]
    rival = min(
        others, key=lambda epsilon: parity_of(configuration, epsilon).value(view)
    )

    parity = (parity_of(configuration, chosen), parity_of(configuration, rival))
    by_parity = larger([parity])(view).parts
    parts = [replace(part, n_tries=len(others)) for part in by_parity]
    if rival in INFORMATIVE:
        sizes = (
            disparity_size(configuration, rival),
            disparity_size(configuration, chosen),
        )
        by_size = larger([sizes])(view).parts
        parts += [replace(part, n_tries=len(INFORMATIVE) - 1) for part in by_size]
    return parts


def _some_beyond_chance(view: View) -> Support:
    """Where the measures choose differently, is the disparity more than chance?"""
    different = []
    for configuration in CONFIGURATIONS:
        parts = _chooses_another(configuration)(view).parts
        if all(part.is_as_claimed for part in parts):
            different.append(configuration)
    shown = [
        configuration.name
        for configuration in different
        if ratio_differs(configuration, FROM_1)(view).is_enough
    ]
    names = ", ".join(shown) or "no"
    return Support(
        bool(shown), f"Shown at all of ε = 1, 5 and 10 where they differ: {names}."
    )


def _lower_ratio_pays_more(configuration: Configuration, epsilon: float) -> ClaimNumber:
    """The gap of the group with the lower ratio, minus the other's.

    Which group that is follows the disparity, draw by draw.
    """

    def draws(view: View) -> FloatArray:
        first, second = (view.gap(configuration, epsilon, group) for group in GROUPS)
        sign = np.sign(view.disparity(configuration, epsilon))
        return np.asarray((second - first) * sign)

    return number_at(configuration, epsilon, draws, gap_words)


def _excess_gap(epsilon: float) -> ClaimNumber:
    """By how much the gap of African-Americans is the larger."""

    def draws(view: View) -> FloatArray:
        return view.gap(COMPAS, epsilon, 1) - view.gap(COMPAS, epsilon, 0)

    return computed(f"excess gap, {budget_words((epsilon,))}", draws, gap_words, COMPAS)


def _records(configuration: Configuration) -> ClaimQuestion:
    """The number of records is the paper's, exactly."""

    def ask(view: View) -> Reply:
        assert isinstance(view, OurRun)
        n_records = view.release(configuration).subject.n_records
        n = float(known(n_records, "the number of records", configuration))
        margin = np.array([ONE_UNIT - abs(n - PAPER_RECORDS[configuration.dataset])])
        part = ClaimPart(configuration.title, margin, signed, (configuration,))
        return Reply(f"{configuration.title} {n:,.0f}", (part,))

    return ask


def _points(_: View) -> Reply:
    """Exact: how many settings the sweep has."""
    figures = []
    parts = []
    for name, (n_said, n_there) in SWEEP_POINTS.items():
        figures.append(f"{name}: {n_said} said, {n_there} there")
        margin = np.array([ONE_UNIT - abs(n_said - n_there)])
        parts.append(ClaimPart(name, margin, signed, CONFIGURATIONS))
    return Reply("; ".join(figures), tuple(parts), "The correlations are not printed.")


def _moves_together(configuration: Configuration) -> ClaimQuestion:
    """DP gap and equalized odds gap correlate over budgets."""
    points = [(parity_of(configuration, e), odds_of(configuration, e)) for e in BUDGETS]
    what = f"{configuration.name}, over budgets"
    return correlated(points, threshold("together"), what=what)


def _task_records(_: View) -> Reply:
    """Exact: how many records the task has in the three states."""
    margin = np.array([float(ABOUT_RECORDS - abs(ACS_STATED - ACS_TASK))])
    part = ClaimPart("records of ACSIncome", margin, signed, ())
    figure = f"said {ACS_STATED:,}; ACSIncome has {ACS_TASK:,}"
    return Reply(figure, (part,), "All persons in the states' files may be so many.")


_CHOOSE_DIFFERENTLY = [
    _chooses_another(configuration) for configuration in CONFIGURATIONS
]
_EXCESS_AND_DISPARITY = [
    (_excess_gap(epsilon), disparity_of(COMPAS, epsilon)) for epsilon in BUDGETS
]
_PAYS_MORE = [
    _lower_ratio_pays_more(*setting)
    for setting in SETTINGS
    if setting.configuration in BENEFIT
]
_UNEQUAL = [above([gap_difference(*setting)]) for setting in SETTINGS]
_MOVE_TOGETHER = [_moves_together(configuration) for configuration in CONFIGURATIONS]
_MOVE_TOGETHER_IN_PRINT = [
    _moves_together(one) for one in CONFIGURATIONS if one.dataset != "acs"
]
_BEST_AT_STRONGEST = [
    best_parity(configuration, (STRONGEST,)) for configuration in CONFIGURATIONS
]
_PRECISIONS = [half_widths_from_0(COMPAS, epsilon) for epsilon in FROM_HALF]

WHOLE_CLAIMS = (
    Claim(
        "G1",
        at_least(
            _CHOOSE_DIFFERENTLY,
            1,
            what="configurations in which they choose differently",
        ),
        evidence=_some_beyond_chance,
        about=CONFIGURATIONS,
    ),
    Claim(
        "G3",
        correlated(
            _EXCESS_AND_DISPARITY,
            0.0,
            sign=-1,
            what="COMPAS over budgets, excess gap and disparity",
        ),
        about=(COMPAS,),
    ),
    Claim("G4", above(_PAYS_MORE), about=BENEFIT),
    Claim(
        "G5",
        at_least(_UNEQUAL, len(SETTINGS) // 2 + 1, what="settings with unequal gaps"),
        evidence=unequal_in_most,
        about=CONFIGURATIONS,
    ),
    Claim(
        "G6",
        paper="records are counted in the data, not in the printed figures",
        run=together(_records(ADULT_SEX), _records(COMPAS)),
        about=(ADULT_SEX, COMPAS),
    ),
    Claim(
        "G7",
        paper=_task_records,
        run="how many records a task has is no matter of a run",
    ),
    Claim(
        "G8",
        paper=_points,
        run="how many points there are is no matter of a run",
        about=CONFIGURATIONS,
    ),
    Claim(
        "G9",
        at_least(
            _MOVE_TOGETHER, HALF, what="configurations with r above 0.5 over budgets"
        ),
        paper=at_least(
            _MOVE_TOGETHER_IN_PRINT,
            3,
            what="of the four with both gaps printed, r above 0.5 over budgets",
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "G10",
        at_least(
            _BEST_AT_STRONGEST,
            HALF,
            what="configurations whose DP gap is smallest at ε = 0.1",
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "G11",
        above(_PRECISIONS, 1.0),
        about=(COMPAS,),
    ),
    Claim(
        "G12",
        paper="no times are printed",
        run="times are not part of a study's releases",
    ),
)
