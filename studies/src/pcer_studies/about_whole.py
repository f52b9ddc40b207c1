"""Claims about the whole: introduction, method, set-up, discussion, limitations, conclusion."""

from __future__ import annotations

import numpy as np

from pcer.auditing import signed
from pcer.metrics import FloatArray
from pcer_studies.judgement import Claim, ClaimPart, ClaimQuestion, Reply, Support
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, PAPER_RECORDS, Configuration
from pcer_studies.rules import (
    ACS_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    INFORMATIVE,
    SETTINGS,
    STRONGEST,
    ClaimNumber,
    above,
    at_least,
    budget_words,
    correlated,
    correlation,
    disparity_of,
    disparity_shown,
    gap_words,
    made,
    odds_of,
    parity_of,
    r_words,
    rate_words,
    size_of,
    together,
    unequal_in_most,
)
from pcer_studies.thresholds import threshold
from pcer_studies.views import OurRun, Paper, View, known

BENEFIT = tuple(one for one in CONFIGURATIONS if one.outcome == "benefit")
SWEEP_POINTS = {"all budgets": (5, len(BUDGETS)), "from ε = 1": (4, len(FROM_1) + 1)}
"""Points of a correlation over budgets: as the paper says, and as its sweep has them."""


def _chooses_another(one: Configuration) -> ClaimNumber:
    """Above 0 where the budget of smallest disparity has a larger DP gap than another."""

    def ask(view: View) -> FloatArray:
        sizes = np.array([size_of(one, e).of(view) for e in INFORMATIVE])
        parity = {e: view.parity(one, e) for e in BUDGETS}
        chosen = INFORMATIVE[int(sizes[:, 0].argmin())]
        margin = parity[chosen] - np.min([parity[e] for e in BUDGETS if e != chosen], axis=0)
        signs = [view.disparity(one, e) for e in FROM_1]
        sure = np.min([np.abs(s[0]) - 1.96 * s[1:].std() for s in signs])
        return margin if sure > 0 else np.full_like(margin, -1.0)

    return made(one.name, ask, rate_words, one)


def _some_beyond_chance(view: View) -> Support:
    apart = [one for one in CONFIGURATIONS if float(_chooses_another(one).of(view)[0]) > 0]
    sure = [one.name for one in apart if disparity_shown(one, FROM_1)(view).enough]
    return Support(
        bool(sure), f"Shown at all of ε = 1, 5 and 10 where they differ: {', '.join(sure) or 'no'}."
    )


def _lower_ratio_pays_more(one: Configuration, epsilon: float) -> ClaimNumber:
    """The gap of the group with the lower ratio, minus the other's."""

    def ask(view: View) -> FloatArray:
        lower = 1 if view.disparity(one, epsilon)[0] > 0 else 0
        return view.gap(one, epsilon, lower) - view.gap(one, epsilon, 1 - lower)

    return made(f"{one.name}, {budget_words((epsilon,))}", ask, gap_words, one)


def _unequal(one: Configuration, epsilon: float) -> ClaimNumber:
    return made(
        f"{one.name}, {budget_words((epsilon,))}",
        lambda view: np.abs(view.gap(one, epsilon, 0) - view.gap(one, epsilon, 1)),
        gap_words,
        one,
    )


def _excess_gap(epsilon: float) -> ClaimNumber:
    return made(
        f"excess gap, {budget_words((epsilon,))}",
        lambda view: view.gap(COMPAS, epsilon, 1) - view.gap(COMPAS, epsilon, 0),
        gap_words,
        COMPAS,
    )


def _records(one: Configuration) -> ClaimQuestion:
    """The number of records is the paper's, exactly."""

    def ask(view: View) -> Reply:
        assert isinstance(view, OurRun)
        n = view.release(one).subject.n_records
        found = float(known(n, "the number of records", one))
        off = abs(found - PAPER_RECORDS[one.dataset])
        return Reply(
            f"{one.title} {found:,.0f}",
            (ClaimPart(one.title, np.array([0.5 - off]), signed, (one,)),),
        )

    return ask


def _points(view: View) -> Reply:
    """Exact: how many settings the sweep has."""
    parts = [
        ClaimPart(name, np.array([0.5 - abs(told - there)]), signed, CONFIGURATIONS)
        for name, (told, there) in SWEEP_POINTS.items()
    ]
    figure = "; ".join(f"{k}: {told} said, {n} there" for k, (told, n) in SWEEP_POINTS.items())
    return Reply(figure, tuple(parts), "The correlations are not printed.")


def _moves_together(one: Configuration) -> ClaimNumber:
    """Correlation over budgets of DP gap and equalized odds gap, minus the threshold."""
    points = [(parity_of(one, e), odds_of(one, e)) for e in BUDGETS]
    return made(
        one.name, lambda view: correlation(points, view) - threshold("together"), r_words, one
    )


def _compressed(one: Configuration) -> ClaimNumber:
    """By how much the DP gap at the strongest privacy is below every other."""
    others = [e for e in BUDGETS if e != STRONGEST]
    return made(
        one.name,
        lambda v: np.min([v.parity(one, e) for e in others], axis=0) - v.parity(one, STRONGEST),
        rate_words,
        one,
    )


def _would_be_seen(epsilon: float, group: int) -> ClaimNumber:
    """The published gap minus the cost that 4 of 5 such studies would resolve."""

    def ask(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        limit = view.group(COMPAS, epsilon, group).detectable_cost
        gap = Paper(()).gap(COMPAS, epsilon, group)
        return gap - known(limit, "the detectable cost", COMPAS)

    name = f"{budget_words((epsilon,))}, {COMPAS.groups[group]}"
    return made(name, ask, gap_words, COMPAS)


HALF = len(CONFIGURATIONS) // 2 + 1

CLAIMS = (
    Claim(
        key="G1",
        place="Introduction (contributions); Conclusion",
        words="At moderate budgets PCER chooses another budget than the DP gap, with intervals "
        "that exclude 0.",
        rule=at_least(
            [_chooses_another(one) for one in CONFIGURATIONS],
            1,
            what="configurations in which they choose differently",
        ),
        evidence=_some_beyond_chance,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G3",
        place="Introduction (practical significance)",
        words="PCER detects double disadvantage: the disparity is more negative where the gap of "
        "African-Americans is larger.",
        rule=correlated(
            [(_excess_gap(e), disparity_of(COMPAS, e)) for e in BUDGETS],
            0.0,
            sign=-1,
            what="COMPAS over budgets, excess gap and disparity",
        ),
        caveat="A remark says that for harms the reading of the sign is specific to the domain. A "
        "larger cost lowers the ratio, so for a harm it hides the group that bears both.",
        about=(COMPAS,),
    ),
    Claim(
        key="G4",
        place="sec:normative",
        words="The group with the lower ratio bears the higher privacy risk.",
        rule=above([_lower_ratio_pays_more(one, e) for one in BENEFIT for e in BUDGETS]),
        about=BENEFIT,
    ),
    Claim(
        key="G5",
        place="Remark on structural impossibility (rem:impossibility)",
        words="Unequal gaps of the groups are the typical case.",
        rule=at_least(
            [_unequal(*setting) for setting in SETTINGS],
            len(SETTINGS) // 2 + 1,
            what="settings with unequal gaps",
            exact=True,
        ),
        evidence=unequal_in_most,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G6",
        place="Experiments, Datasets",
        words="Adult has 46,033 records after preprocessing and COMPAS 6,172.",
        paper="records are counted in the data, not in the printed figures",
        run=together(_records(ADULT_SEX), _records(COMPAS)),
        about=(ADULT_SEX, COMPAS),
    ),
    Claim(
        key="G7",
        place="Experiments, Datasets",
        words="ACS: about 843,000 records of three states; Bios: 37,900 after balancing.",
        paper="the counts rest on files that the paper does not print",
        run="our copies are samples of both sources",
        about=(ACS_RACE, BIOS),
    ),
    Claim(
        key="G8",
        place="Evaluation Criteria; Limitations",
        words="Correlations of disparity and DP gap over budgets rest on 5 points, 4 from ε = 1.",
        paper=_points,
        run="how many points there are is no matter of a run",
        caveat="The paper calls them descriptive.",
        about=CONFIGURATIONS,
        slip=True,
    ),
    Claim(
        key="G9",
        place="Discussion",
        words="DP gap and equalized odds gap move together in most configurations.",
        rule=at_least(
            [_moves_together(one) for one in CONFIGURATIONS],
            HALF,
            what="configurations with r above 0.5 over budgets",
        ),
        paper=at_least(
            [_moves_together(one) for one in CONFIGURATIONS if one.dataset != "acs"],
            3,
            what="of the four with both gaps printed, r above 0.5 over budgets",
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G10",
        place="Discussion; sec:summary; Table S2",
        words="Heavy noise compresses outcome rates: the DP gap is smallest at ε = 0.1 in most "
        "configurations.",
        rule=at_least(
            [_compressed(one) for one in CONFIGURATIONS],
            HALF,
            what="configurations whose DP gap is smallest at ε = 0.1",
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G11",
        place="Limitations",
        words="Fifty seeds give reasonable precision, also on COMPAS: gaps of the published size "
        "would be seen.",
        paper="no error of a gap beyond chance is printed",
        run=above([_would_be_seen(e, g) for e in FROM_1 for g in (0, 1)]),
        about=(COMPAS,),
    ),
    Claim(
        key="G12",
        place="Introduction (practical significance); Discussion",
        words="The audit adds negligible cost to an existing pipeline.",
        paper="no times are printed",
        run="times are not part of a study's releases",
    ),
)
