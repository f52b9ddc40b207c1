"""Claims about the whole: introduction, method, set-up, discussion, limitations, conclusion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import signed
from pcer_studies.claims.datasets import apart, best_parity
from pcer_studies.claims.evidence import ratio_differs, unequal_in_most
from pcer_studies.claims.judgement import (
    Claim,
    ClaimPart,
    ClaimQuestion,
    Reply,
    Support,
)
from pcer_studies.claims.rules import (
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
    at,
    at_least,
    budget_words,
    correlated,
    disparity_of,
    excludes_0,
    gap_words,
    larger,
    made,
    odds_of,
    parity_of,
    size_of,
    threshold,
    together,
)
from pcer_studies.claims.views import OurRun, Paper, View, exactly, known
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, PAPER_RECORDS, Configuration

BENEFIT = tuple(one for one in CONFIGURATIONS if one.outcome == "benefit")
SWEEP_POINTS = {"all budgets": (5, len(BUDGETS)), "from ε = 1": (4, len(FROM_1) + 1)}
"""Points of a correlation over budgets: as the paper says, and as its sweep has them."""


def _chooses_another(one: Configuration) -> ClaimQuestion:
    """Intervals exclude 0, and neither measure's best budget is the other's."""

    def ask(view: View) -> Reply:
        chosen = min(INFORMATIVE, key=lambda e: float(size_of(one, e).of(view)[0]))
        others = [e for e in BUDGETS if e != chosen]
        rival = min(others, key=lambda e: float(view.parity(one, e)[0]))
        by_parity = larger([(parity_of(one, chosen), parity_of(one, rival))])(
            view
        ).parts
        parts = [replace(part, n_tries=len(others)) for part in by_parity]
        if rival in INFORMATIVE:
            by_size = larger([(size_of(one, rival), size_of(one, chosen))])(view).parts
            parts += [replace(part, n_tries=len(INFORMATIVE) - 1) for part in by_size]
        for epsilon in FROM_1:
            sign = 1 if view.disparity(one, epsilon)[0] > 0 else -1
            parts += excludes_0([disparity_of(one, epsilon)], sign=sign)(view).parts
        return Reply(one.name, tuple(parts))

    return ask


def _some_beyond_chance(view: View) -> Support:
    apart = [
        one
        for one in CONFIGURATIONS
        if all(part.is_as_claimed for part in _chooses_another(one)(view).parts)
    ]
    sure = [one.name for one in apart if ratio_differs(one, FROM_1)(view).enough]
    return Support(
        bool(sure),
        f"Shown at all of ε = 1, 5 and 10 where they differ: {', '.join(sure) or 'no'}.",
    )


def _lower_ratio_pays_more(one: Configuration, epsilon: float) -> ClaimNumber:
    """The gap of the group with the lower ratio, minus the other's; which that is, draw by draw."""

    def ask(view: View) -> FloatArray:
        gaps = view.gap(one, epsilon, 1) - view.gap(one, epsilon, 0)
        return np.asarray(gaps * np.sign(view.disparity(one, epsilon)))

    return at(one, epsilon, ask, gap_words)


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
    figure = "; ".join(
        f"{k}: {told} said, {n} there" for k, (told, n) in SWEEP_POINTS.items()
    )
    return Reply(figure, tuple(parts), "The correlations are not printed.")


def _moves_together(one: Configuration) -> ClaimQuestion:
    """DP gap and equalized odds gap correlate over budgets."""
    points = [(parity_of(one, e), odds_of(one, e)) for e in BUDGETS]
    return correlated(points, threshold("together"), what=f"{one.name}, over budgets")


def _would_be_seen(epsilon: float, group: int) -> ClaimNumber:
    """The published gap minus the cost that 4 of 5 such studies would resolve.

    Exact: the question is about a gap of this size, not about whether that is the true
    one.
    """

    def ask(view: View) -> FloatArray:
        assert isinstance(view, OurRun)
        limit = view.group(COMPAS, epsilon, group).detectable_cost
        gap = float(Paper(()).gap(COMPAS, epsilon, group)[0])
        return exactly(gap - known(limit, "the detectable cost", COMPAS))

    name = f"{budget_words((epsilon,))}, {COMPAS.groups[group]}"
    return made(name, ask, gap_words, COMPAS)


HALF = len(CONFIGURATIONS) // 2 + 1

CLAIMS = (
    Claim(
        "G1",
        at_least(
            [_chooses_another(one) for one in CONFIGURATIONS],
            1,
            what="configurations in which they choose differently",
        ),
        evidence=_some_beyond_chance,
        about=CONFIGURATIONS,
    ),
    Claim(
        "G3",
        correlated(
            [(_excess_gap(e), disparity_of(COMPAS, e)) for e in BUDGETS],
            0.0,
            sign=-1,
            what="COMPAS over budgets, excess gap and disparity",
        ),
        about=(COMPAS,),
    ),
    Claim(
        "G4",
        above([_lower_ratio_pays_more(one, e) for one in BENEFIT for e in BUDGETS]),
        about=BENEFIT,
    ),
    Claim(
        "G5",
        at_least(
            [above([apart(*setting)]) for setting in SETTINGS],
            len(SETTINGS) // 2 + 1,
            what="settings with unequal gaps",
        ),
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
        paper="the counts rest on files that the paper does not print",
        run="our copies are samples of both sources",
        about=(ACS_RACE, BIOS),
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
        "G10",
        at_least(
            [best_parity(one, (STRONGEST,)) for one in CONFIGURATIONS],
            HALF,
            what="configurations whose DP gap is smallest at ε = 0.1",
        ),
        about=CONFIGURATIONS,
    ),
    Claim(
        "G11",
        paper="no error of a gap beyond chance is printed",
        run=above([_would_be_seen(e, g) for e in FROM_1 for g in (0, 1)]),
        about=(COMPAS,),
    ),
    Claim(
        "G12",
        paper="no times are printed",
        run="times are not part of a study's releases",
    ),
)
