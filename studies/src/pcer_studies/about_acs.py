"""Claims about ACS Income (Table 2). Our draw of records is not the paper's."""

from __future__ import annotations

import numpy as np

from pcer.auditing import signed
from pcer.metrics import FloatArray
from pcer_studies.about_adult import nearly_equal
from pcer_studies.about_floors import at_high_floor
from pcer_studies.evidence import disparity_shown, sharper_disparity
from pcer_studies.judgement import Claim, ClaimPart, Reply
from pcer_studies.protocol import BUDGETS, Configuration
from pcer_studies.rules import (
    ACS_RACE,
    ACS_SEX,
    ADULT_RACE,
    ADULT_SEX,
    FROM_1,
    ClaimNumber,
    above,
    both_signs,
    budget_words,
    disparity_of,
    gap_words,
    made,
    none_apart,
    rate_words,
    together,
)
from pcer_studies.thresholds import threshold
from pcer_studies.views import View

PRINTED_RANGES = ((0.004, 0.007), (0.003, 0.006))
"""The ranges of the White and the Non-White gap in the text (sec:acs)."""
_ALL = [disparity_of(one, e) for one in (ACS_RACE, ACS_SEX) for e in BUDGETS]


def _printed_ranges(view: View) -> Reply:
    """Exact: the ranges of the text against those of the table, rounded alike."""
    parts, told = [], []
    for group, ends in enumerate(PRINTED_RANGES):
        gaps = [float(view.gap(ACS_RACE, e, group)[0]) for e in BUDGETS]
        found = round(min(gaps), 3), round(max(gaps), 3)
        told.append(f"{ACS_RACE.groups[group]} {gap_words(min(gaps))} to {gap_words(max(gaps))}")
        parts += [
            ClaimPart(
                f"{ACS_RACE.groups[group]}, {end}",
                np.array([0.0005 - abs(a - b)]),
                gap_words,
                (ACS_RACE,),
            )
            for end, a, b in zip(("low", "high"), ends, found, strict=True)
        ]
    return Reply(f"Table 2: {', '.join(told)}", tuple(parts))


def _smaller(epsilon: float) -> ClaimNumber:
    """How far the DP gap is below a share of that on Adult."""
    return made(
        f"{budget_words((epsilon,))}: two thirds of Adult's, less ACS's",
        lambda view: (
            threshold("much_smaller") * view.parity(ADULT_SEX, epsilon)
            - view.parity(ACS_SEX, epsilon)
        ),
        rate_words,
        ACS_SEX,
        ADULT_SEX,
    )


def _like_adult(one: Configuration, other: Configuration, epsilon: float) -> ClaimNumber:
    """The disparity, signed by that of Adult."""

    def ask(view: View) -> FloatArray:
        sign = np.sign(view.disparity(other, epsilon))
        return np.asarray(view.disparity(one, epsilon) * sign)

    return made(f"{one.name}, {budget_words((epsilon,))}", ask, signed, one)


_CAVEAT = "The paper itself draws no finding from ACS."

CLAIMS = (
    Claim(
        key="N1",
        place="sec:acs (Table 2); sec:summary",
        words="All intervals of the disparity hold 0, for race and for sex: there is no robust "
        "finding on ACS at any budget.",
        rule=none_apart(_ALL),
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
        rule=both_signs([disparity_of(ACS_RACE, e) for e in BUDGETS]),
        about=(ACS_RACE,),
    ),
    Claim(
        key="N4",
        place="sec:acs, race",
        words="Race: the gaps are small and similar, 0.004 to 0.007 and 0.003 to 0.006.",
        paper=_printed_ranges,
        run=together(*(nearly_equal(ACS_RACE, e) for e in BUDGETS)),
        about=(ACS_RACE,),
        slip=True,
    ),
    Claim(
        key="N5",
        place="sec:acs, race; Table S2",
        words="Race: at floor 0.01 the direction is positive at every budget.",
        rule=above([at_high_floor(ACS_RACE, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_RACE, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_RACE,),
    ),
    Claim(
        key="N6",
        place="sec:acs, sex (Table 2)",
        words="Sex: the disparity is positive at every budget.",
        rule=above([disparity_of(ACS_SEX, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_SEX,),
    ),
    Claim(
        key="N7",
        place="sec:acs, sex",
        words="Sex: at floor 0.01 the direction is positive at every budget.",
        rule=above([at_high_floor(ACS_SEX, e) for e in BUDGETS]),
        evidence=disparity_shown(ACS_SEX, BUDGETS),
        caveat=_CAVEAT,
        about=(ACS_SEX,),
    ),
    Claim(
        key="N8",
        place="sec:acs, sex",
        words="Sex: the DP gap is much smaller than on Adult.",
        rule=above([_smaller(e) for e in BUDGETS]),
        about=(ACS_SEX, ADULT_SEX),
    ),
    Claim(
        key="N9",
        place="sec:acs",
        words="ACS is a larger replication of the patterns of Adult: the disparities have the "
        "sign of Adult's, from ε = 1.",
        rule=above(
            [
                _like_adult(one, other, e)
                for one, other in ((ACS_RACE, ADULT_RACE), (ACS_SEX, ADULT_SEX))
                for e in FROM_1
            ]
        ),
        caveat=_CAVEAT,
        about=(ACS_RACE, ACS_SEX),
    ),
)
