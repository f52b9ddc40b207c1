"""Claims about ACS Income (Table 2). Our draw of records is not the paper's."""

from __future__ import annotations

from pcer.auditing import Verdict, signed
from pcer_studies.judgement import Claim, Reply, Test
from pcer_studies.numbers import side
from pcer_studies.protocol import BUDGETS, Configuration
from pcer_studies.published import text_figure
from pcer_studies.rules import (
    ACS_RACE,
    ACS_SEX,
    ADULT_RACE,
    ADULT_SEX,
    FROM_1,
    budget_words,
    disparity_shown,
    gap_words,
    printed,
    range_words,
    rate_words,
    row_words,
    sharper_disparity,
)
from pcer_studies.views import OurRun, View

MUCH_SMALLER = 2 / 3
"""Below this share of another number is much smaller."""
PRINTED_RANGES = ((0.004, 0.007), (0.003, 0.006))
"""The ranges of the White and the Non-White gap in the text (sec:acs)."""


def _all_hold_zero(view: View) -> Reply:
    apart = [
        f"{one.attribute} at {budget_words((e,))}"
        for one in (ACS_RACE, ACS_SEX)
        for e in BUDGETS
        if side(view.interval(one, e)) != 0
    ]
    total = 2 * len(BUDGETS)
    return Reply(
        f"{total - len(apart)} of {total} intervals hold 0",
        not apart,
        f"Not: {', '.join(apart)}." if apart else "",
    )


def _none_robust(run: OurRun) -> Reply:
    shown = [
        f"{one.attribute} at {budget_words((budget.budget,))}"
        for one in (ACS_RACE, ACS_SEX)
        for budget in run.audit(one).budgets
        if budget.verdict is Verdict.DISPARITY_SHOWN
    ]
    return Reply(
        f"the audit shows a disparity at {len(shown)} of {2 * len(BUDGETS)} settings",
        not shown,
        f"Shown: {', '.join(shown)}." if shown else "",
    )


def _alternates(view: View) -> Reply:
    values = [view.disparity(ACS_RACE, e) for e in BUDGETS]
    figure = row_words(BUDGETS, [signed(value) for value in values])
    return Reply(figure, min(values) < 0 < max(values))


def _printed_ranges(view: View) -> Reply:
    found = [[view.gap(ACS_RACE, e, g) for e in BUDGETS] for g in (0, 1)]
    rounded = [(round(min(gaps), 3), round(max(gaps), 3)) for gaps in found]
    return Reply(
        ", ".join(
            f"{name} {low:.3f} to {high:.3f}"
            for name, (low, high) in zip(ACS_RACE.groups, PRINTED_RANGES, strict=True)
        ),
        tuple(rounded) == PRINTED_RANGES,
        f"Table 2 has {' and '.join(range_words(gaps, gap_words) for gaps in found)}.",
    )


def _small_and_similar(run: OurRun) -> Reply:
    found = [[run.gap(ACS_RACE, e, g) for e in BUDGETS] for g in (0, 1)]
    differ = [e for e in BUDGETS if run.costs_differ(ACS_RACE, e)]
    return Reply(
        f"White {range_words(found[0], gap_words)}, Non-White {range_words(found[1], gap_words)}",
        not differ,
        "Judged: whether the two differ beyond split luck at some budget"
        f" ({budget_words(differ)}).",
    )


def _positive(one: Configuration, floor: float) -> Test:
    def ask(view: View) -> Reply:
        values = [view.disparity(one, e, floor) for e in BUDGETS]
        n = sum(value > 0 for value in values)
        return Reply(
            f"{range_words(values, signed)} at floor {floor:g}",
            n == len(values),
            f"Positive at {n} of {len(values)} budgets.",
        )

    return ask


def _printed_positive(one: Configuration) -> Test:
    """The paper prints the ends of the range, not the budgets."""

    def ask(view: View) -> Reply:
        names = [f"{one.dataset}_{one.attribute}_floor_0.01_{end}" for end in ("low", "high")]
        return Reply(
            f"{' to '.join(text_figure(name).printed for name in names)} at floor 0.01",
            all(printed(name) > 0 for name in names),
        )

    return ask


def _smaller_than_adult(view: View) -> Reply:
    ours, theirs = ([view.parity(one, e) for e in BUDGETS] for one in (ACS_SEX, ADULT_SEX))
    return Reply(
        f"{range_words(ours, rate_words)} against {range_words(theirs, rate_words)}",
        max(ours) <= MUCH_SMALLER * min(theirs),
        "Judged: the largest on ACS is below two thirds of the smallest on Adult.",
    )


def _replicates(view: View) -> Reply:
    pairs = ((ACS_RACE, ADULT_RACE), (ACS_SEX, ADULT_SEX))
    same = [
        (one, e)
        for one, other in pairs
        for e in FROM_1
        if side(view.interval(one, e)) == side(view.interval(other, e)) != 0
    ]
    total = len(pairs) * len(FROM_1)
    return Reply(
        f"intervals on the same side of 0 as Adult's at {len(same)} of {total}",
        len(same) == total,
        "From ε = 1, race and sex.",
    )


_CAVEAT = "The paper itself draws no finding from ACS."

CLAIMS = (
    Claim(
        key="N1",
        place="sec:acs (Table 2)",
        words="All intervals of the disparity hold 0, for race and for sex.",
        test=_all_hold_zero,
        about=(ACS_RACE, ACS_SEX),
    ),
    Claim(
        key="N2",
        place="sec:acs (Table 2); sec:summary",
        words="There is no robust finding on ACS at any budget.",
        paper=_all_hold_zero,
        run=_none_robust,
        about=(ACS_RACE, ACS_SEX),
        also=lambda run: (
            "Race: "
            + sharper_disparity(ACS_RACE, BUDGETS)(run)
            + " Sex: "
            + sharper_disparity(ACS_SEX, BUDGETS)(run)
        ),
    ),
    Claim(
        key="N3",
        place="sec:acs, race",
        words="Race: the direction alternates over budgets.",
        test=_alternates,
        about=(ACS_RACE,),
    ),
    Claim(
        key="N4",
        place="sec:acs, race",
        words="Race: the gaps are small and similar, 0.004 to 0.007 and 0.003 to 0.006.",
        paper=_printed_ranges,
        run=_small_and_similar,
        about=(ACS_RACE,),
        slip=True,
    ),
    Claim(
        key="N5",
        place="sec:acs, race; Table S2",
        words="Race: at floor 0.01 the direction is positive at every budget.",
        paper=_printed_positive(ACS_RACE),
        run=_positive(ACS_RACE, 1e-2),
        evidence=disparity_shown(ACS_RACE, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_RACE,),
    ),
    Claim(
        key="N6",
        place="sec:acs, sex (Table 2)",
        words="Sex: the disparity is positive at every budget.",
        test=_positive(ACS_SEX, 1e-3),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_SEX,),
    ),
    Claim(
        key="N7",
        place="sec:acs, sex",
        words="Sex: at floor 0.01 the direction is positive at every budget.",
        paper=_printed_positive(ACS_SEX),
        run=_positive(ACS_SEX, 1e-2),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_SEX,),
    ),
    Claim(
        key="N8",
        place="sec:acs, sex",
        words="Sex: the DP gap is much smaller than on Adult.",
        test=_smaller_than_adult,
        about=(ACS_SEX,),
    ),
    Claim(
        key="N9",
        place="sec:acs",
        words="ACS is a larger replication of the patterns of Adult.",
        test=_replicates,
        caveat=_CAVEAT,
        about=(ACS_RACE, ACS_SEX),
    ),
)
