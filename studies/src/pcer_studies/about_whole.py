"""Claims about the whole: introduction, method, set-up, discussion, limitations, conclusion."""

from __future__ import annotations

from dataclasses import replace

from pcer_studies.judgement import Claim, Reply, Support
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP, PAPER_RECORDS, Configuration
from pcer_studies.published import NotThere, key_at
from pcer_studies.rules import (
    ACS_RACE,
    ADULT_RACE,
    ADULT_SEX,
    BIOS,
    COMPAS,
    FROM_1,
    STRONGEST,
    budget_words,
    correlation,
    disparity_shown,
    extreme,
    gap_words,
    parity_of,
    r_words,
    range_words,
    size_of,
)
from pcer_studies.views import OurRun, Paper, View, known

TOGETHER = 0.5
"""A correlation above this counts as moving together."""
BENEFIT = tuple(one for one in CONFIGURATIONS if one.outcome == "benefit")
FULL_SWEEP, LATE_SWEEP = 5, 4
"""Points that the paper says its correlations over budgets have."""


def _divergent(view: View) -> list[Configuration]:
    """Configurations whose two measures choose other budgets, intervals excluding 0 from 1."""
    return [
        one
        for one in CONFIGURATIONS
        if set(extreme(parity_of(one), view, min)).isdisjoint(extreme(size_of(one), view, min))
        and all(side(view.interval(one, e)) != 0 for e in FROM_1)
    ]


def _diverges(view: View) -> Reply:
    found = _divergent(view)
    names = ", ".join(one.name for one in found)
    return Reply(f"{len(found)} of {len(CONFIGURATIONS)}: {names or 'none'}", bool(found))


def _diverges_beyond_luck(view: View) -> Support:
    sure = [one.name for one in _divergent(view) if disparity_shown(one, FROM_1)(view).enough]
    return Support(
        bool(sure), f"More than split luck at all of ε = 1, 5 and 10: {', '.join(sure) or 'none'}."
    )


def _diverges_at_every_floor(view: View) -> Reply:
    known, same = [], []
    for one in _divergent(view):
        best = _best_at_high_floor(view, one)
        if best is not None:
            known.append(one)
            same += [one] if set(best) & set(extreme(size_of(one), view, min)) else []
    words = ", ".join(f"{one.name}: {'the same' if one in same else 'another'}" for one in known)
    return Reply(
        f"best budget at floor 0.01 ({words or 'none to ask'})",
        bool(known) and len(same) == len(known),
        "Only Adult (race) is printed at floor 0.01 for several budgets."
        if isinstance(view, Paper)
        else "",
    )


def _best_at_high_floor(view: View, one: Configuration) -> tuple[float, ...] | None:
    """Budgets of smallest disparity at floor 0.01, where enough of them are known."""
    values = {}
    for epsilon in BUDGETS:
        try:
            values[epsilon] = abs(view.disparity(one, epsilon, 1e-2))
        except NotThere:
            continue
    if NO_DP not in values or len(values) < 2:
        return None
    return tuple(e for e, value in values.items() if value == min(values.values()))


def _lower_ratio_pays_more(view: View) -> Reply:
    settings = [(one, e) for one in BENEFIT for e in BUDGETS]
    n = 0
    for one, e in settings:
        lower = 1 if view.disparity(one, e) > 0 else 0
        n += view.gap(one, e, lower) > view.gap(one, e, 1 - lower)
    return Reply(
        f"{n} of {len(settings)} settings",
        n == len(settings),
        "Where a positive prediction helps: the group with the lower ratio has the larger gap.",
    )


def _gaps_are_unequal(view: View) -> Reply:
    settings = [(one, e) for one in CONFIGURATIONS for e in BUDGETS]
    n = sum(view.gap(one, e, 0) != view.gap(one, e, 1) for one, e in settings)
    return Reply(f"unequal in {n} of {len(settings)}", 2 * n > len(settings))


def _unequal_beyond_luck(view: View) -> Support:
    settings = [(one, e) for one in CONFIGURATIONS for e in BUDGETS]
    n = sum(view.costs_differ(one, e) for one, e in settings)
    return Support(2 * n > len(settings), f"Beyond split luck in {n} of {len(settings)}.")


def _disparity_sees_exposure(view: View) -> Reply:
    points = [
        (view.gap(COMPAS, e, 1) - view.gap(COMPAS, e, 0), view.disparity(COMPAS, e))
        for e in BUDGETS
    ]
    r = correlation(points)
    return Reply(
        f"COMPAS over budgets: r = {r_words(r)} of disparity and excess gap of African-Americans",
        r < 0,
        "A disadvantage that the disparity detects would make it more negative where their gap "
        "is larger. A larger cost lowers the ratio, so for a harm it hides the group that bears "
        "both.",
    )


def _same_records(run: OurRun) -> Reply:
    found = {one.title: _n_records(run, one) for one in (ADULT_SEX, COMPAS)}
    wanted = {one.title: PAPER_RECORDS[one.dataset] for one in (ADULT_SEX, COMPAS)}
    return Reply(", ".join(f"{k} {v:,.0f}" for k, v in found.items()), found == wanted)


def _n_records(run: OurRun, one: Configuration) -> float:
    number = run.number(replace(key_at(one, NO_DP, "n_records"), over="all"))
    return known(number.value, "the number of records", one)


def _points(view: View) -> Reply:
    late = len([e for e in BUDGETS if e >= 1])
    return Reply(
        f"{FULL_SWEEP} and {LATE_SWEEP} points",
        (len(BUDGETS), late) == (FULL_SWEEP, LATE_SWEEP),
        f"The sweep has {len(BUDGETS)} settings, {late} from ε = 1 with no-DP. The correlations "
        "are not printed.",
    )


def _own_correlations(run: OurRun) -> Reply:
    found = [run.audit(one).comparisons[0].correlations[0] for one in CONFIGURATIONS]
    r = [
        known(row.r, "the correlation", one) for row, one in zip(found, CONFIGURATIONS, strict=True)
    ]
    return Reply(
        f"{found[0].n_budgets} and {found[0].n_budgets_from_1} points; r {range_words(r, r_words)}",
        (found[0].n_budgets, found[0].n_budgets_from_1) == (FULL_SWEEP, LATE_SWEEP),
    )


def _move_together(view: View) -> Reply:
    found = {}
    for one in CONFIGURATIONS:
        try:
            found[one] = correlation([(view.parity(one, e), view.odds(one, e)) for e in BUDGETS])
        except NotThere:
            continue
    if not found:
        raise NotThere("no correlation over budgets is defined in any configuration")
    n = sum(r > TOGETHER for r in found.values())
    told = ", ".join(f"{one.name} {r_words(r)}" for one, r in found.items())
    return Reply(
        f"r over budgets: {told}",
        2 * n > len(found),
        f"Above {TOGETHER:g} in {n} of {len(found)}.",
    )


def _compressed(view: View) -> Reply:
    best = {one: extreme(parity_of(one), view, min) for one in CONFIGURATIONS}
    others = [f"{one.name}: {budget_words(b)}" for one, b in best.items() if b != (STRONGEST,)]
    return Reply(
        f"smallest at ε = 0.1 in {len(best) - len(others)} of {len(best)}",
        2 * len(others) < len(best),
        f"Elsewhere smallest at: {'; '.join(others)}." if others else "",
    )


def _precise_enough(run: OurRun) -> Reply:
    limits = [
        known(run.group(COMPAS, e, g).detectable_cost, "the detectable cost", COMPAS)
        for e in FROM_1
        for g in (0, 1)
    ]
    paper = Paper(())
    gaps = [paper.gap(COMPAS, e, g) for e in FROM_1 for g in (0, 1)]
    return Reply(
        f"COMPAS from ε = 1: costs of {range_words(limits, gap_words)} are seen in 4 of 5 such "
        "studies, smaller ones less often",
        all(limit <= gap for limit, gap in zip(limits, gaps, strict=True)),
        f"The published gaps, noise included, are {range_words(gaps, gap_words)}.",
    )


CLAIMS = (
    Claim(
        key="G1",
        place="Introduction (contributions); Conclusion",
        words="At moderate budgets PCER chooses another budget than the DP gap, with intervals "
        "that exclude 0.",
        test=_diverges,
        evidence=_diverges_beyond_luck,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G2",
        place="Introduction (contributions); Conclusion",
        words="These disagreements do not depend on the floor.",
        test=_diverges_at_every_floor,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G3",
        place="Introduction (practical significance)",
        words="PCER detects double disadvantage.",
        test=_disparity_sees_exposure,
        caveat="A remark says that for harms the reading of the sign is specific to the domain.",
        about=(COMPAS,),
    ),
    Claim(
        key="G4",
        place="sec:normative",
        words="The group with the lower ratio bears the higher privacy risk.",
        test=_lower_ratio_pays_more,
        about=BENEFIT,
    ),
    Claim(
        key="G5",
        place="Remark on structural impossibility (rem:impossibility)",
        words="Unequal gaps of the groups are the typical case.",
        test=_gaps_are_unequal,
        evidence=_unequal_beyond_luck,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G6",
        place="Experiments, Datasets",
        words="Adult has 46,033 records after preprocessing and COMPAS 6,172.",
        paper="records are counted in the data, not in the printed figures",
        run=_same_records,
        about=(ADULT_RACE, COMPAS),
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
        run=_own_correlations,
        caveat="The paper calls them descriptive.",
        about=CONFIGURATIONS,
        slip=True,
    ),
    Claim(
        key="G9",
        place="Discussion",
        words="DP gap and equalized odds gap move together in most configurations.",
        test=_move_together,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G10",
        place="Discussion; sec:summary; Table S2",
        words="Heavy noise compresses outcome rates: the DP gap is smallest at ε = 0.1 in most "
        "configurations.",
        test=_compressed,
        about=CONFIGURATIONS,
    ),
    Claim(
        key="G11",
        place="Limitations",
        words="Fifty seeds give reasonable precision, also on COMPAS.",
        paper="no error of a gap beyond split luck is printed",
        run=_precise_enough,
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
