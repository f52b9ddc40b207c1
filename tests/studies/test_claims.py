"""The ledger: judgements follow from numbers and errors, and nothing is refuted within an error."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.claims.evidence import costs_differ
from pcer_studies.claims.judgement import (
    Claim,
    ClaimPart,
    Judgement,
    Reply,
    Side,
    Support,
    both_readings,
    judge,
    weigh,
)
from pcer_studies.claims.ledger import CLAIMS, judge_all, write_claims
from pcer_studies.claims.rules import (
    ADULT_SEX,
    BIOS,
    COMPAS,
    above,
    at_least,
    best,
    correlated,
    excludes_0,
    flat,
    gap_of,
    larger,
    made,
    near,
    none_apart,
    r_words,
    threshold,
    threshold_meanings,
)
from pcer_studies.claims.views import N_DRAWS, OurRun, Paper
from pcer_studies.numbers import our_number, study_seeds
from pcer_studies.published import NotThere, key_at
from tests.worlds.studies import Truth, all_planted, planted, shipped_study

NO_DP = math.inf
HOLDS, FAILS, UNDECIDED = Judgement.HOLDS, Judgement.FAILS, Judgement.UNDECIDED
NOT_EVIDENCE, UNTESTABLE = Judgement.NOT_EVIDENCE, Judgement.UNTESTABLE


@pytest.fixture(scope="module")
def printed(remembered):
    return Paper.beside(remembered)


def claim(key: str) -> Claim:
    return next(one for one in CLAIMS if one.key == key)


def by_paper(key: str, printed: Paper, study: Study) -> Side:
    return judge(claim(key), printed, OurRun(study)).paper


def by_run(key: str, study: Study) -> Side:
    return judge(claim(key), Paper.beside(study), OurRun(study)).run


# What parts say together.


def part(estimate: float, error: float, *, about=(COMPAS,), is_zero: bool = False) -> ClaimPart:
    """A number with exactly this error."""
    if error == 0:
        return ClaimPart("x", np.array([estimate]), r_words, about, is_zero)
    spread = np.tile([-1.0, 1.0], 500) * error * math.sqrt(999 / 1000)
    return ClaimPart("x", np.array([estimate, *(estimate + spread)]), r_words, about, is_zero)


def test_a_part_has_the_error_of_its_draws():
    assert part(1.0, 0.5).error == pytest.approx(0.5)
    assert part(1.0, 0.5).p_value == pytest.approx(0.0455, abs=1e-4)  # two errors from 0
    assert part(1.0, 0.5).seen_from(1) == pytest.approx((1.95996 + 0.84) * 0.5, rel=1e-4)
    assert part(0.7, 0.0).p_value == 0.0
    assert part(0.0, 0.0).p_value == 1.0


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([(3, 1), (2.5, 1)], HOLDS),
        ([(3, 1), (1.5, 1)], NOT_EVIDENCE),  # as claimed, one of them within its error
        ([(3, 1), (-1.5, 1)], UNDECIDED),  # not as claimed, but within its error
        ([(3, 1), (-2.1, 1)], UNDECIDED),  # alone it would refute; among two it does not
        ([(3, 1), (-3, 1)], FAILS),
        ([(-2.1, 1)], FAILS),
        ([(-0.001, 0)], FAILS),  # exact
        ([(-1.5, 1, True), (1.5, 1, True)], NOT_EVIDENCE),  # should be 0, and may be
        ([(-3, 1, True)], FAILS),
        ([(2.1, 1, True), (0, 1, True)], UNDECIDED),
    ],
)
def test_parts_make_the_judgement(numbers, expected):
    parts = [part(*number[:2], is_zero=len(number) > 2) for number in numbers]
    assert weigh(parts) is expected


def asked(*parts: ClaimPart, **fields) -> Claim:
    about = tuple(dict.fromkeys(one for p in parts for one in p.about))
    reply = Reply("42", tuple(parts), "Because.")
    return Claim(
        key="X1", place="here", words="So.", rule=lambda view: reply, about=about, **fields
    )


@pytest.mark.parametrize(("enough", "expected"), [(True, HOLDS), (False, NOT_EVIDENCE)])
def test_a_claim_about_costs_needs_evidence(printed, remembered, enough, expected):
    one = asked(part(3, 1), evidence=lambda view: Support(enough, "So much."))
    judged = judge(one, printed, OurRun(remembered))
    assert judged.paper.judgement is judged.run.judgement is expected
    assert judged.run.figure == "42"
    assert judged.run.why == "Because. So much."


def test_only_the_papers_own_records_refute(printed, remembered):
    run = OurRun(remembered)
    both = judge(asked(part(-3, 1, about=(BIOS,))), printed, run)
    assert both.paper.judgement is FAILS
    assert both.run.judgement is UNTESTABLE
    assert "4,500 records, the paper's 37,900" in both.run.why
    assert "On ours: does not hold." in both.run.why
    assert judge(asked(part(3, 1, about=(BIOS,))), printed, run).run.judgement is HOLDS
    mixed = asked(part(-3, 1, about=(BIOS,)), part(3, 1))
    assert judge(mixed, printed, run).run.judgement is UNTESTABLE
    mixed = asked(part(3, 1, about=(BIOS,)), part(-3, 1))
    assert judge(mixed, printed, run).run.judgement is FAILS


def test_a_claim_about_adult_is_refuted_only_by_both_readings():
    fails = Side(FAILS, "", "", part(-3, 1), 1, by_reading=True)
    holds = Side(HOLDS, "", "", part(3, 1), 1)
    assert [one.judgement for one in both_readings(fails, fails)] == [FAILS, FAILS]
    ours, second = both_readings(fails, holds)
    assert (ours.judgement, second.judgement) == (UNTESTABLE, HOLDS)
    ours, second = both_readings(holds, fails)
    assert (ours.judgement, second.judgement) == (HOLDS, UNTESTABLE)
    assert both_readings(fails, None)[0].judgement is UNTESTABLE


@pytest.mark.slow
def test_the_second_reading_is_heard_where_it_is_there(printed, remembered, tmp_path):
    for one in CONFIGURATIONS:
        (tmp_path / one.file_name).write_text(
            remembered.release(one.dataset, one.attribute).to_json()
        )
    truth = Truth(gaps=(0.14, 0.07), label_shares=(0.25, 0.45), n_seeds=12)
    other = planted(ADULT_SEX, truth)
    text = other.to_json().replace('"adult"', '"adult-closest"')
    (tmp_path / "adult-closest.sex.release.json").write_text(text)
    study = Study.read(tmp_path)
    assert study.closest is not None
    assert study.closest.release("adult", "sex").subject.dataset == "adult-closest"
    assert study.closest.release("compas", "race") is study.release("compas", "race")
    judged = {one.claim.key: one for rows in judge_all(study).values() for one in rows}
    assert judged["C1"].closest is None
    assert judged["T10"].run.judgement is HOLDS
    assert judged["T10"].closest.judgement is UNTESTABLE
    assert "in another reading it is not refuted" in judged["T10"].closest.why


def test_what_is_not_there_cannot_be_tested(printed, remembered):
    def ask(view):
        raise NotThere("it is not printed")

    one = Claim(key="X1", place="here", words="So.", rule=ask)
    judged = judge(one, printed, OurRun(remembered))
    assert judged.paper.judgement is judged.run.judgement is UNTESTABLE
    assert judged.paper.why == "it is not printed"


# Numbers and their errors.


def test_a_number_of_our_run_errs_by_its_seeds(remembered):
    """Slow twin: the deviation over seeds by its own formula, over the root of their number."""
    run = OurRun(remembered)
    drawn = run.disparity(COMPAS, 1.0)
    values = study_seeds(remembered, COMPAS, 1.0, "pcer_disparity")
    assert drawn.shape == (1 + N_DRAWS,)
    assert drawn[0] == pytest.approx(values.mean())
    n = len(values)
    expected = math.sqrt(sum((v - values.mean()) ** 2 for v in values) / n / n)
    assert drawn[1:].std() == pytest.approx(expected, rel=0.1)
    assert run.spread(COMPAS, 1.0)[0] == pytest.approx(values.std(ddof=1))


def test_a_difference_of_budgets_is_taken_seed_by_seed(remembered):
    """Budgets share their splits, so that what splits add falls out of a difference."""
    run = OurRun(remembered)
    (found,) = larger([(gap_of(COMPAS, 1.0, 1), gap_of(COMPAS, 5.0, 1))])(run).parts
    first, second = (
        study_seeds(remembered, COMPAS, e, "overfitting_gap", group="African-American")
        for e in (1.0, 5.0)
    )
    paired = first - second
    assert found.estimate == pytest.approx(paired.mean())
    assert found.error == pytest.approx(paired.std() / math.sqrt(len(paired)), rel=0.1)


def test_a_printed_number_errs_by_what_is_printed_beside_it(printed):
    gap = printed.gap(COMPAS, NO_DP, 0)  # .0074 with a deviation of .010 over 50 seeds
    assert gap[0] == 0.0074
    by_hand = math.hypot(0.010 / math.sqrt(50), 0.00005 / math.sqrt(3))
    assert gap[1:].std() == pytest.approx(by_hand, rel=0.1)
    disparity = printed.disparity(COMPAS, 5.0)  # −169 [−230, −106]
    by_hand = math.hypot((230 - 106) / 3.92, 0.5 / math.sqrt(3))
    assert disparity[1:].std() == pytest.approx(by_hand, rel=0.1)
    seeds = printed.n_positive(COMPAS, 5.0)
    share = (seeds[0] + 2) / 54
    assert seeds[1:].std() == pytest.approx(math.sqrt(50 * share * (1 - share)), rel=0.1)


def test_without_a_printed_error_ours_stands_for_it(remembered, printed):
    key = key_at(COMPAS, 1.0, "attack_auc", group="Other")
    assert printed.number(key).std is None
    ours = our_number(remembered, key).standard_error
    found = printed.advantage(COMPAS, 1.0, 0)[1:].std()
    assert found == pytest.approx(math.hypot(ours, 0.0005 / math.sqrt(3)), rel=0.1)


# The nine rules, on numbers that are known.


def known_number(*values: float) -> list:
    """Numbers without any error."""
    return [
        made(f"n{k}", lambda view, v=v: np.full(1 + N_DRAWS, v), r_words, COMPAS)
        for k, v in enumerate(values)
    ]


def margins(question, view=None) -> list[float]:
    return [round(p.estimate, 9) for p in question(view).parts]


def test_the_nine_rules_by_hand():
    a, b, c = known_number(1.0, 4.0, 2.0)
    assert margins(above([a, b], 3.0)) == [-2.0, 1.0]
    assert margins(above([a, b], 3.0, sign=-1)) == [2.0, -1.0]
    assert margins(larger([(b, a), (a, c)])) == [3.0, -1.0]
    assert margins(excludes_0([a, b])) == [1.0, 4.0]
    assert margins(best([a, b, c], [0], what="x")) == [3.0, 1.0]  # 4 − 1, 2 − 1
    assert margins(best([a, b, c], [0, 2], largest=True, what="x")) == [-2.0]  # 2 − 4
    assert margins(flat([b, c], 0.6)) == [0.4]  # 0.6 x 4 − (4 − 2)
    assert margins(near([a, b], (1.5, 3.5), 0.75)) == [0.25, 0.25]
    assert margins(near([a], (0.5, 3.5), 0.75)) == [1.25]  # inside, and how far from the limit
    asked = [above([n]) for n in (a, b, *known_number(-1.0))]
    assert margins(at_least(asked, 3, what="x")) == [-1.0]
    assert at_least(asked, 2, what="x")(None).figure == "x: 2 of 3"
    points = list(zip(known_number(1.0, 2.0, 3.0), known_number(3.0, 2.0, 1.0), strict=True))
    assert margins(correlated(points, -0.5, sign=-1, what="x")) == [0.5]
    (nought,) = none_apart(known_number(0.0))(None).parts
    assert nought.is_zero
    assert nought.is_as_claimed


def test_thresholds_are_in_the_data_file_and_all_are_used():
    source = Path(__file__).parents[2] / "studies" / "src" / "pcer_studies"
    text = "".join(path.read_text(encoding="utf-8") for path in (source / "claims").glob("*.py"))
    for name, (_, meaning) in threshold_meanings().items():
        assert f'threshold("{name}")' in text, name
        assert meaning
    with pytest.raises(KeyError):
        threshold("no such word")


# Planted truths.


def test_a_disparity_that_is_there_holds(remembered):
    """Bios: positive at every budget, and the audit shows it."""
    side = by_run("B4", remembered)
    assert side.judgement is HOLDS
    assert "The audit shows the disparity at 5 of 5 budgets." in side.why


def test_unequal_costs_that_are_there_hold(remembered):
    judged = judge(claim("B6"), Paper.beside(remembered), OurRun(remembered))
    assert judged.run.judgement is HOLDS
    assert "LiRA: Female at no-DP, 0.1, 0.5, 1, 5, 10" in judged.notes[0]


def test_a_gap_that_lira_contradicts_is_no_evidence_of_who_pays_more(tmp_path):
    """The gap says women, LiRA says men: nobody is said to pay more."""
    truth = Truth(gaps=(0.03, 0.08), exposure=(0.05, 0.01))
    study = all_planted(tmp_path, truth, [BIOS])
    support = costs_differ(BIOS, (NO_DP,))(OurRun(study))
    assert not support.enough
    assert "LiRA has the other sign at no-DP" in support.why
    assert by_run("B6", study).judgement is UNTESTABLE
    assert "as claimed, but no evidence" in by_run("B6", study).why


def test_rates_alone_hold_but_are_no_evidence(forgotten):
    """Nobody is remembered, yet the disparity is far from 0: the paper's rule would be fooled."""
    side = by_run("T5", forgotten)
    assert "6 of 6 intervals lie above 0." in side.why
    assert side.judgement is NOT_EVIDENCE
    assert "The audit shows the disparity at 0 of 6 budgets." in side.why


def test_a_disparity_of_the_other_sign_does_not_hold(remembered):
    """COMPAS is planted with the higher rate in group 0, so its disparity is not below 0."""
    side = by_run("C1", remembered)
    assert side.judgement is FAILS
    assert side.decisive.estimate + 1.96 * side.decisive.error < 0


def test_a_configuration_that_was_not_run_cannot_be_tested(forgotten):
    side = by_run("T10", forgotten)
    assert side.judgement is UNTESTABLE
    assert side.why == "the study has no Adult (sex)"


def test_double_disadvantage_planted_on_compas(tmp_path):
    """Where group 1 has more harm and the higher cost, the claim holds, by every cost."""
    truth = Truth(gaps=(0.0, 0.06), exposure=(0.0, 0.05), label_shares=(0.2, 0.6))
    study = all_planted(tmp_path, truth, [COMPAS])
    judged = judge(claim("C2"), Paper.beside(study), OurRun(study))
    assert judged.run.judgement is HOLDS
    assert "gap: African-American at no-DP, 0.1, 0.5, 1, 5, 10" in judged.notes[0]


def test_a_study_of_one_seed_is_judged_too(tmp_path):
    side = by_run("C1", all_planted(tmp_path, Truth(n_seeds=1), [COMPAS]))
    assert side.judgement is UNTESTABLE
    assert "one seed" in side.why


# The paper against itself, by hand.


CONTRADICTIONS = {
    "C3": "ε 0.1 .127",
    "C7": "smallest equalized odds gap in Table 1 .239",
    "C10": "text -229 to -106, Table 1 -230 to -106",
    "C15": "28/50 negative, p = 0.82",
    "F1": "12 numbers",
    "F13": "0.001 − gap −.0099",
    "F7": "floor 0.01 +9.6; Adult (race), no-DP, floor 0.01 +11",
    "T13": "smallest DP gap .180",
    "N4": "Table 2: White .0032 to .0065",
}
"""Claims that the paper's own figures contradict beyond their errors, with its figures."""


@pytest.mark.parametrize("key", CONTRADICTIONS)
def test_the_paper_contradicts_itself(key, printed, remembered):
    side = by_paper(key, printed, remembered)
    assert side.judgement is FAILS
    assert CONTRADICTIONS[key] in side.figure


# What is shipped.


@pytest.fixture(scope="module")
def shipped() -> list:
    return [one for rows in judge_all(shipped_study()).values() for one in rows]


@pytest.mark.slow
def test_nothing_is_refuted_within_its_error(shipped):
    """The bar of the ledger: every "does not hold" lies beyond its error, among all its parts."""
    for one in shipped:
        for side in one.sides:
            if side.judgement is FAILS:
                found = side.decisive
                reach = found.seen_from(side.n_parts) - 0.84 * found.error
                off = abs(found.estimate) if found.is_zero else -found.estimate
                assert off > 0, one.claim.key
                assert off >= reach * (1 - 1e-9), one.claim.key


# The page.


def test_claims_are_named_once_and_placed():
    assert len({one.key for one in CLAIMS}) == len(CLAIMS) >= 60
    for one in CLAIMS:
        assert one.place
        assert one.words.endswith(".")
        assert one.rule or (one.paper and one.run)


def test_a_study_in_part_gives_a_page(forgotten):
    page = write_claims(forgotten)
    assert "the study has no Bios (gender)" in page
    assert "2 configurations (4 of the paper's are missing)" in page


def test_the_page_says_with_what_the_study_was_made(tmp_path):
    study = all_planted(tmp_path, Truth(n_seeds=2), [COMPAS])
    made_with = {"pcer": "9.9", "source_commit": "f" * 40, "source_dirty": True, "torch": "2.0|1"}
    settings = {"datasets": {"compas": {"made_with": [made_with]}}}
    page = write_claims(Study(Path(tmp_path), study.releases, settings))
    assert "pcer 9.9, commit ffffffffffff, with changes not committed, torch 2.0\\|1" in page
