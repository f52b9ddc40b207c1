"""The ledger: every judgement occurs where it should, and contradictions are the printed ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.about_floors import floor_slope
from pcer_studies.claims import CLAIMS, SECTIONS, judge_all, write_claims
from pcer_studies.judgement import Claim, Judgement, Reply, Support, judge
from pcer_studies.published import NotThere
from pcer_studies.rules import (
    ADULT_RACE,
    BIOS,
    COMPAS,
    beyond_zero,
    costs_differ,
    costs_resolved,
    disparity_shown,
    extreme,
    parity_of,
    size_of,
)
from pcer_studies.views import OurRun, Paper
from tests.planted_study import Truth, all_planted

NO_DP = math.inf
HOLDS, FAILS = Judgement.HOLDS, Judgement.FAILS
NOT_EVIDENCE, UNTESTABLE = Judgement.NOT_EVIDENCE, Judgement.UNTESTABLE


@pytest.fixture(scope="module")
def remembered(tmp_path_factory):
    """Group 1 is remembered more and receives less; every cost shows it."""
    folder = tmp_path_factory.mktemp("remembered")
    return all_planted(folder, Truth(gaps=(0.03, 0.08), exposure=(0.01, 0.05)))


@pytest.fixture(scope="module")
def forgotten(tmp_path_factory):
    """Nobody is remembered; only the positive rates differ."""
    folder = tmp_path_factory.mktemp("forgotten")
    return all_planted(folder, Truth(label_shares=(0.8, 0.1), n_seeds=30), [ADULT_RACE, BIOS])


@pytest.fixture(scope="module")
def printed(remembered):
    return Paper.beside(remembered)


def claim(key: str) -> Claim:
    return next(one for one in CLAIMS if one.key == key)


def by_paper(key: str, printed: Paper, study: Study):
    return judge(claim(key), printed, OurRun(study)).paper


def by_run(key: str, study: Study):
    return judge(claim(key), Paper.beside(study), OurRun(study)).run


# What makes a judgement.


def made(test=None, evidence=None, **fields) -> Claim:
    return Claim(key="X1", place="here", words="Something.", test=test, evidence=evidence, **fields)


@pytest.mark.parametrize(
    ("holds", "enough", "expected"),
    [
        (True, None, HOLDS),
        (True, True, HOLDS),
        (True, False, NOT_EVIDENCE),
        (False, True, FAILS),
        (False, None, FAILS),
    ],
)
def test_answer_and_support_make_the_judgement(printed, remembered, holds, enough, expected):
    evidence = None if enough is None else lambda view: Support(enough, "So much.")
    one = made(lambda view: Reply("42", holds, "Because."), evidence)
    judged = judge(one, printed, OurRun(remembered))
    assert judged.paper.judgement is judged.run.judgement is expected
    assert judged.run.figure == "42"
    assert judged.run.why.startswith("Because.")


def test_what_is_not_there_cannot_be_tested(printed, remembered):
    def ask(view):
        raise NotThere("it is not printed")

    judged = judge(made(ask), printed, OurRun(remembered))
    assert judged.paper.judgement is judged.run.judgement is UNTESTABLE
    assert judged.paper.why == "it is not printed"


def test_a_side_can_have_its_own_question_or_none(printed, remembered):
    one = made(paper="no such figure", run=lambda run: Reply("7", True))
    judged = judge(one, printed, OurRun(remembered))
    assert (judged.paper.judgement, judged.paper.why) == (UNTESTABLE, "no such figure")
    assert (judged.run.judgement, judged.run.figure) == (HOLDS, "7")


# Planted truths.


def test_a_disparity_that_is_there_holds(remembered):
    """Bios: positive at every budget, and the audit shows it."""
    side = by_run("B4", remembered)
    assert side.judgement is HOLDS
    assert "The audit shows the disparity at 5 of 5 budgets." in side.why


def test_unequal_costs_that_are_there_hold(remembered):
    assert by_run("B6", remembered).judgement is HOLDS
    judged = judge(claim("B6"), Paper.beside(remembered), OurRun(remembered))
    assert "LiRA: Female at no-DP, 0.1, 0.5, 1, 5, 10" in judged.notes[0]


def test_rates_alone_hold_but_are_no_evidence(forgotten):
    """Nobody is remembered, yet the interval excludes 0: the paper's own rule would be fooled."""
    side = by_run("T5", forgotten)
    assert "The interval lies above 0 at 6 of 6." in side.why
    assert side.judgement is NOT_EVIDENCE
    assert "The audit shows the disparity at 0 of 6 budgets." in side.why


def test_a_disparity_of_the_other_sign_does_not_hold(remembered):
    """COMPAS is planted with the higher rate in group 0, so its disparity is not below 0."""
    assert by_run("C1", remembered).judgement is FAILS


def test_a_configuration_that_was_not_run_cannot_be_tested(forgotten):
    side = by_run("C1", forgotten)
    assert side.judgement is UNTESTABLE
    assert side.why == "the study has no COMPAS (race)"


def test_double_disadvantage_planted_on_compas(tmp_path):
    """Where group 1 has more harm and the higher cost, the claim holds, by every cost."""
    truth = Truth(gaps=(0.0, 0.06), exposure=(0.0, 0.05), label_shares=(0.2, 0.6))
    study = all_planted(tmp_path, truth, [COMPAS])
    judged = judge(claim("C2"), Paper.beside(study), OurRun(study))
    assert judged.run.judgement is HOLDS
    assert "gap: African-American at no-DP, 0.1, 0.5, 1, 5, 10" in judged.notes[0]


def test_rules_see_what_was_planted(remembered):
    run = OurRun(remembered)
    assert beyond_zero(BIOS, BUDGETS, sign=1)(run).holds
    assert not beyond_zero(BIOS, BUDGETS, sign=-1)(run).holds
    assert disparity_shown(BIOS, BUDGETS)(run).enough
    assert costs_differ(BIOS, BUDGETS)(run).enough
    assert costs_resolved(BIOS, BUDGETS)(run).enough


def test_rules_see_that_nothing_was_planted(forgotten):
    run = OurRun(forgotten)
    assert not any(run.stands_out(BIOS, e, g) for e in BUDGETS for g in (0, 1))
    assert not any(run.costs_differ(BIOS, e) for e in BUDGETS)
    assert not costs_resolved(BIOS, BUDGETS)(run).enough


def test_seeds_on_both_sides_are_counted(forgotten):
    run = OurRun(forgotten)
    for floor in (1e-4, 1e-3, 1e-2, 1e-1):
        positive = run.n_positive(ADULT_RACE, NO_DP, floor)
        negative = run.n_negative(ADULT_RACE, NO_DP, floor)
        assert positive + negative <= run.n_seeds
    assert run.n_positive(ADULT_RACE, NO_DP, 1e-1) == run.n_seeds


def test_a_study_of_one_seed_is_judged_too(tmp_path):
    study = all_planted(tmp_path, Truth(n_seeds=1), [COMPAS])
    side = by_run("C1", study)
    assert side.judgement is UNTESTABLE
    assert "one seed" in side.why


# The paper against itself, by hand.


def test_ties_of_printed_figures_stay_ties(printed):
    assert extreme(parity_of(ADULT_RACE), printed, min) == (5.0, 10.0)
    assert extreme(size_of(ADULT_RACE), printed, min) == (NO_DP,)
    assert extreme(size_of(ADULT_RACE), printed, max) == (0.1,)


def test_slope_of_a_line():
    assert floor_slope((10.0, 10.0, 10.0, 10.0)) == pytest.approx(0.0)
    by_hand = (-1.5 * math.log10(582) - 0.5 * math.log10(64)) / 5
    by_hand += (0.5 * math.log10(8.9) + 1.5 * math.log10(1.3)) / 5
    assert floor_slope((-582, -64, -8.9, -1.3)) == pytest.approx(by_hand)


CONTRADICTIONS = {
    "T2": "largest disparity +84 at ε 0.1",
    "T3": "largest DP gap .106 at ε 0.1",
    "T7": "no-DP .0017",  # and .0022 at 0.1
    "T8": "White 47 to 64 %, Non-White 39 to 48 %",
    "T16": "smallest DP gap .180 at ε 0.5; smallest disparity +61 at no-DP",
    "T17": ".180 at ε 0.5",
    "C2": "gaps .0058/.0068, .0065/.0065, .0063/.0061 (ε 1, 5, 10)",
    "C3": ".127 to .229",
    "C6": "gaps .0063/.0060 at 0.5, .0058/.0068 at 1",
    "C7": ".228 to .229",
    "C10": "[−229, −106] in the text",
    "C15": "28/50 negative, p = 0.82",
    "C17": "gaps at 0.1: .0109/.0127; elsewhere .0058 to .0099",
    "F1": "mean gaps .0016 to .0127 at ε = 0.1",
    "F4": "COMPAS (race) −0.94 against −0.88 at 0.1",
    "F5": "positive seeds 22, 22, 14, 2",
    "F7": "no-DP +11, from ε = 0.5 +9.5 to +9.6",
    "F11": "disparity × floor is 3 to 85 % of the DP gap",
    "A6": "10/36 exceptions",
}
"""Claims that the paper's own figures contradict, with figures read off its tables."""


@pytest.mark.parametrize("key", CONTRADICTIONS)
def test_the_paper_contradicts_itself(key, printed, remembered):
    side = by_paper(key, printed, remembered)
    assert side.judgement is FAILS
    assert CONTRADICTIONS[key] in side.figure


def test_what_the_tables_have_instead(printed, remembered):
    assert "p = 0.48" in by_paper("C15", printed, remembered).why
    assert "Table 1 has .239 to .242" in by_paper("C7", printed, remembered).why
    assert "that of the DP gap's column" in by_paper("C7", printed, remembered).why
    assert "the other way round" in by_paper("F7", printed, remembered).why
    assert "at 0 of 5 budgets" in by_paper("T8", printed, remembered).why


SUPPORTED = {
    "T1": "smallest DP gap .091 at ε 5, 10; smallest disparity +30 at no-DP",
    "C1": "−182, −155, −169, −172 (ε 0.5, 1, 5, 10)",
    "C18": "28, 36, 48 of 50 negative",
    "N1": "12 of 12 intervals hold 0",
    "B5": "+22 [+21, +23]",
    "V1": "mean AUC − ½ = 0.0013",
    "A1": "r = 0.824",  # of AUCs with three decimals; the paper has 0.828
    "A2": "32/36; 26/30 without ε = 0.1",
    "A3": "4 of 4 on ACS",
    "A4": "r = 0.935",
    "A5": "25/36 (69 %, 1 tied as printed), median ratio 1.25",
}


@pytest.mark.parametrize("key", SUPPORTED)
def test_the_papers_figures_bear_out(key, printed, remembered):
    side = by_paper(key, printed, remembered)
    assert side.judgement in (HOLDS, NOT_EVIDENCE)
    assert SUPPORTED[key] in side.figure


def test_the_sign_of_the_rates_foretells_the_attack_as_well_as_the_gap(printed, remembered):
    """By hand: on ACS the attack's disparity is below 0 at race no-DP and 0.5 and sex no-DP."""
    side = by_paper("A2", printed, remembered)
    assert side.judgement is NOT_EVIDENCE
    assert "is the attack's in 33/36" in side.why


# The page.


def test_claims_are_named_once_and_placed():
    assert len({one.key for one in CLAIMS}) == len(CLAIMS) >= 60
    for one in CLAIMS:
        assert one.place
        assert one.words.endswith(".")
        assert one.test or (one.paper and one.run)


@pytest.fixture(scope="module")
def ledger(remembered):
    return judge_all(remembered)


@pytest.fixture(scope="module")
def page(remembered):
    return write_claims(remembered)


def test_every_claim_has_both_figures_or_a_reason(ledger):
    for rows in ledger.values():
        for one in rows:
            for side in (one.paper, one.run):
                untestable = side.judgement is UNTESTABLE
                assert side.why if untestable else side.figure, one.claim.key


def test_the_page_has_every_claim_once_and_counts_them(page):
    for one in CLAIMS:
        assert page.count(f"\n| {one.key} | ") == 1
    assert all(f"## {section.title}" in page for section in SECTIONS)
    counted = [one for one in CLAIMS if not one.slip]
    assert f"| {len(counted)} claims |" in page
    rows = [line.split("|")[2:5] for line in page.splitlines() if _is_count(line)]
    totals = [sum(int(cell) for cell in column) for column in zip(*rows, strict=True)]
    assert totals[0] == totals[1] + totals[2] == len(counted)


def _is_count(line: str) -> bool:
    return any(line.startswith(f"| {name.value} | ") for name in Judgement)


def test_a_study_in_part_gives_a_page(forgotten):
    page = write_claims(forgotten)
    assert "the study has no COMPAS" in page
    assert "2 configurations (4 of the paper's are missing)" in page


def test_other_data_are_marked(page):
    assert "† Bios: not the paper's texts" in page
    bios = next(line for line in page.splitlines() if line.startswith("| B4 |"))
    assert "†" in bios
    compas = next(line for line in page.splitlines() if line.startswith("| C1 |"))
    assert "†" not in compas


def test_the_page_says_with_what_the_study_was_made(tmp_path):
    study = all_planted(tmp_path, Truth(n_seeds=2), [COMPAS])
    made_with = {"pcer": "9.9", "source_commit": "f" * 40, "source_dirty": True, "torch": "2.0|1"}
    settings = {"datasets": {"compas": {"made_with": [made_with]}}}
    page = write_claims(Study(Path(tmp_path), study.releases, settings))
    assert "pcer 9.9, commit ffffffffffff, with changes not committed, torch 2.0\\|1" in page


def test_every_configuration_is_about_something():
    about = {part for one in CLAIMS for part in one.about}
    assert about == set(CONFIGURATIONS)
