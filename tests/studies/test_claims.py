"""The ledger: judgements follow from numbers and errors, and nothing is refuted within an error."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.claims import judgement, rules
from pcer_studies.claims.judgement import Claim, ClaimPart, Side, judge
from pcer_studies.claims.ledger import CLAIMS, judge_all, write_claims
from pcer_studies.claims.rules import ADULT_SEX, BIOS, COMPAS, above, best, made, near, r_words
from pcer_studies.claims.views import N_DRAWS, OurRun, Paper
from pcer_studies.numbers import our_number, study_seeds
from pcer_studies.protocol import NO_DP
from pcer_studies.published import NotThere, key_at
from tests.worlds import studies
from tests.worlds.studies import Truth, all_planted, tree_of, tree_of_rates

HOLDS, FAILS, NOT_EVIDENCE, UNDECIDED, UNTESTABLE = judgement.Judgement
BY_KEY = {claim.key: claim for claim in CLAIMS}


@pytest.fixture(scope="module")
def printed(remembered) -> Paper:
    return Paper.beside(remembered)


# What parts say together.


def part(estimate: float, error: float, *, about=(COMPAS,), is_zero: bool = False) -> ClaimPart:
    """A number with exactly this error."""
    spread = np.tile([-1.0, 1.0], 500 if error else 0) * error * math.sqrt(999 / 1000)
    return ClaimPart("x", np.array([estimate, *(estimate + spread)]), r_words, about, is_zero)


def test_a_part_has_the_error_of_its_draws():
    assert part(1.0, 0.5).error == pytest.approx(0.5)
    assert part(1.0, 0.5).p_value == pytest.approx(0.0455, abs=1e-4)  # two errors from 0
    assert part(1.0, 0.5).seen_from(1) == pytest.approx((1.95996 + 0.84) * 0.5, rel=1e-4)
    assert [part(value, 0.0).p_value for value in (0.7, 0.0)] == [0.0, 1.0]


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
    assert judgement.weigh(parts) is expected


def asked(*parts: ClaimPart, **fields) -> Claim:
    about = tuple(dict.fromkeys(one for p in parts for one in p.about))
    reply = judgement.Reply("42", parts, "Because.")
    fields = {"rule": lambda view: reply, "about": about} | fields
    return Claim("X1", **fields)


@pytest.mark.parametrize(("enough", "expected"), [(True, HOLDS), (False, NOT_EVIDENCE)])
def test_a_claim_about_costs_needs_evidence(printed, remembered, enough, expected):
    one = asked(part(3, 1), evidence=lambda view: judgement.Support(enough, "So much."))
    judged = judge(one, printed, OurRun(remembered))
    assert judged.paper.judgement is judged.run.judgement is expected
    assert (judged.run.figure, judged.run.why) == ("42", "Because. So much.")


@pytest.mark.parametrize(
    ("of_bios", "of_compas", "expected"),
    [(-3, None, UNTESTABLE), (3, None, HOLDS), (-3, 3, UNTESTABLE), (3, -3, FAILS)],
)
def test_only_the_papers_own_records_refute(printed, remembered, of_bios, of_compas, expected):
    parts = [part(of_bios, 1, about=(BIOS,)), *([part(of_compas, 1)] if of_compas else [])]
    found = judge(asked(*parts), printed, OurRun(remembered))
    assert found.paper.judgement is (HOLDS if expected is HOLDS else FAILS)
    assert found.run.judgement is expected
    if expected is UNTESTABLE:
        assert "4,500 records, the paper's 37,900" in found.run.why
        assert "On ours: does not hold." in found.run.why


def test_a_claim_about_adult_is_refuted_only_by_both_readings():
    fails = Side(FAILS, "", "", part(-3, 1), 1, by_reading=True)
    holds = Side(HOLDS, "", "", part(3, 1), 1)
    for pair, expected in (
        ((fails, fails), (FAILS, FAILS)),
        ((fails, holds), (UNTESTABLE, HOLDS)),
        ((holds, fails), (HOLDS, UNTESTABLE)),
        ((fails, None), (UNTESTABLE, None)),
    ):
        found = judgement.both_readings(*pair)
        assert tuple(side and side.judgement for side in found) == expected


@pytest.mark.slow
def test_the_second_reading_is_heard_where_it_is_there(remembered, tmp_path):
    releases = {one: remembered.release(one.dataset, one.attribute) for one in CONFIGURATIONS}
    truth = Truth(gaps=(0.14, 0.07), label_shares=(0.25, 0.45), n_seeds=12)
    text = studies.planted(ADULT_SEX, truth).to_json().replace('"adult"', '"adult-closest"')
    (tmp_path / "adult-closest.sex.release.json").write_text(text)
    study = studies.planted_study(tmp_path, releases)
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

    judged = judge(asked(rule=ask), printed, OurRun(remembered))
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
    pair = tuple(rules.gap_of(COMPAS, epsilon, 1) for epsilon in (1.0, 5.0))
    (found,) = rules.larger([pair])(OurRun(remembered)).parts
    first, second = (
        study_seeds(remembered, COMPAS, e, "overfitting_gap", group="African-American")
        for e in (1.0, 5.0)
    )
    paired = first - second
    assert found.estimate == pytest.approx(paired.mean())
    assert found.error == pytest.approx(paired.std() / math.sqrt(len(paired)), rel=0.1)


def test_a_printed_number_errs_by_what_is_printed_beside_it(printed, remembered):
    """And where nothing is, by our own error."""
    key = key_at(COMPAS, 1.0, "attack_auc", group="Other")
    assert printed.number(key).std is None
    seeds = printed.n_positive(COMPAS, 5.0)
    share = (seeds[0] + 2) / 54
    gap = printed.gap(COMPAS, NO_DP, 0)
    assert gap[0] == 0.0074
    for drawn, error, half_digit in (
        (gap, 0.010 / math.sqrt(50), 0.00005),  # .0074, a deviation of .010 over 50 seeds
        (printed.disparity(COMPAS, 5.0), (230 - 106) / 3.92, 0.5),  # −169 [−230, −106]
        (seeds, math.sqrt(50 * share * (1 - share)), 0.0),
        (printed.advantage(COMPAS, 1.0, 0), our_number(remembered, key).standard_error, 0.0005),
    ):
        by_hand = math.hypot(error, half_digit / math.sqrt(3))
        assert drawn[1:].std() == pytest.approx(by_hand, rel=0.1)


# The nine rules, on numbers that are known.


def known_number(*values: float) -> list:
    """Numbers without any error."""
    return [
        made(f"n{k}", lambda view, v=v: np.full(1 + N_DRAWS, v), r_words, COMPAS)
        for k, v in enumerate(values)
    ]


def test_the_nine_rules_by_hand():
    a, b, c = known_number(1.0, 4.0, 2.0)
    asked = [above([n]) for n in (a, b, *known_number(-1.0))]
    points = list(zip(known_number(1.0, 2.0, 3.0), known_number(3.0, 2.0, 1.0), strict=True))
    for question, margins in (
        (above([a, b], 3.0), [-2.0, 1.0]),
        (above([a, b], 3.0, sign=-1), [2.0, -1.0]),
        (rules.larger([(b, a), (a, c)]), [3.0, -1.0]),
        (rules.excludes_0([a, b]), [1.0, 4.0]),
        (best([a, b, c], [0], what="x"), [3.0, 1.0]),  # 4 − 1, 2 − 1
        (best([a, b, c], [0, 2], largest=True, what="x"), [-2.0]),  # 2 − 4
        (rules.flat([b, c], 0.6), [0.4]),  # 0.6 x 4 − (4 − 2)
        (near([a, b], (1.5, 3.5), 0.75), [0.25, 0.25]),
        (near([a], (0.5, 3.5), 0.75), [1.25]),  # inside, and how far from the limit
        (rules.at_least(asked, 3, what="x"), [-1.0]),
        (rules.correlated(points, -0.5, sign=-1, what="x"), [0.5]),
    ):
        assert [round(p.estimate, 9) for p in question(None).parts] == margins
    assert rules.at_least(asked, 2, what="x")(None).figure == "x: 2 of 3"
    (nought,) = rules.none_apart(known_number(0.0))(None).parts
    assert nought.is_zero
    assert nought.is_as_claimed


def test_a_correlation_of_what_does_not_vary_is_not_there():
    points = list(zip(known_number(1.0, 2.0, 3.0), known_number(2.0, 4.0, 6.0), strict=True))
    assert rules.correlation(points, None)[0] == pytest.approx(1.0)
    flat = list(zip(known_number(1.0, 1.0, 1.0), known_number(2.0, 3.0, 5.0), strict=True))
    for few in (flat, points[:2], []):
        with pytest.raises(NotThere, match="correlation"):
            rules.correlation(few, None)


def test_thresholds_are_in_the_data_file_and_all_are_used():
    source = Path(rules.__file__).parent.glob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in source)
    for name, (_, meaning) in rules.threshold_meanings().items():
        assert f'threshold("{name}")' in text, name
        assert meaning
    with pytest.raises(KeyError):
        rules.threshold("no such word")


# Planted truths.


@pytest.fixture(scope="module")
def truths(remembered, forgotten, tmp_path_factory) -> dict[str, Study]:
    """Studies by what is planted, or is not known."""

    def only(one, **truth) -> Study:
        return all_planted(tmp_path_factory.mktemp("only"), Truth(**truth), [one])

    def made_of(*trees) -> Study:
        return studies.study_of(tmp_path_factory.mktemp("trees"), *trees)

    uncounted = [tree_of(one, n_seeds=1) for one in CONFIGURATIONS[:3]]
    for tree in uncounted:
        tree["subject"]["n_records"] = None
    both = {"gaps": (0.0, 0.06), "exposure": (0.0, 0.05), "label_shares": (0.2, 0.6)}
    return {
        "remembered": remembered,
        "forgotten": forgotten,
        "LiRA against the gap": only(BIOS, gaps=(0.03, 0.08), exposure=(0.05, 0.01)),
        "double disadvantage": only(COMPAS, **both),
        "one seed": only(COMPAS, n_seeds=1),
        "no labels": made_of(tree_of_rates(BIOS, sizes=True)),
        "no sizes": made_of(tree_of_rates(COMPAS, sizes=False)),
        "no number of records": made_of(*uncounted),
    }


@pytest.mark.parametrize(
    ("truth", "key", "expected", "said"),
    [
        ("remembered", "B4", HOLDS, "The audit shows the disparity at 5 of 5 budgets."),
        ("remembered", "B6", HOLDS, "LiRA: Female at no-DP, 0.1, 0.5, 1, 5, 10"),
        ("remembered", "C1", FAILS, "0 of 4 intervals lie below 0."),  # more harm in group 0
        ("LiRA against the gap", "B6", UNTESTABLE, "as claimed, but no evidence"),
        ("LiRA against the gap", "B6", UNTESTABLE, "LiRA has the other sign at no-DP"),
        ("forgotten", "T5", NOT_EVIDENCE, "6 of 6 intervals lie above 0."),  # by rates alone
        ("forgotten", "T5", NOT_EVIDENCE, "The audit shows the disparity at 0 of 6 budgets."),
        ("forgotten", "T10", UNTESTABLE, "the study has no Adult (sex)"),
        ("double disadvantage", "C2", HOLDS, "gap: African-American at no-DP, 0.1, 0.5, 1, 5, 10"),
        ("one seed", "C1", UNTESTABLE, "one seed"),
        ("no labels", "B3", UNTESTABLE, "labels"),
        ("no sizes", "G11", UNTESTABLE, "detectable"),
        ("no sizes", "C2", UNTESTABLE, "COMPAS (race)"),
        ("no number of records", "G6", UNTESTABLE, "records"),
    ],
)
def test_a_planted_truth_is_judged(truths, truth, key, expected, said):
    judged = judge(BY_KEY[key], Paper.beside(truths[truth]), OurRun(truths[truth]))
    assert judged.run.judgement is expected
    assert said in " ".join([judged.run.why, *judged.notes])
    if expected is FAILS:
        assert judged.run.decisive.estimate + 1.96 * judged.run.decisive.error < 0


@pytest.mark.slow
def test_nothing_that_is_shipped_is_refuted_within_its_error():
    """The bar of the ledger: every "does not hold" lies beyond its error, among all its parts."""
    judged = [one for rows in judge_all(studies.shipped_study()).values() for one in rows]
    for claim, side in ((one.claim, side) for one in judged for side in one.sides):
        if side.judgement is FAILS:
            found = side.decisive
            reach = found.seen_from(side.n_parts) - 0.84 * found.error
            off = abs(found.estimate) if found.is_zero else -found.estimate
            assert off > 0, claim.key
            assert off >= reach * (1 - 1e-9), claim.key


# The page.


def test_claims_are_named_once_and_placed():
    assert len(BY_KEY) == len(CLAIMS) >= 60
    for one in CLAIMS:
        assert one.text.place
        assert one.text.words.endswith(".")
        assert one.rule or (one.paper and one.run)


def test_the_page_says_what_is_missing_and_with_what_the_study_was_made(forgotten):
    made_with = {"pcer": "9.9", "source_commit": "f" * 40, "source_dirty": True, "torch": "2.0|1"}
    settings = {"datasets": {"compas": {"made_with": [made_with]}}}
    page = write_claims(Study(forgotten.folder, forgotten.releases, settings))
    assert "the study has no Bios (gender)" in page
    assert "2 configurations (4 of the paper's are missing)" in page
    assert "pcer 9.9, commit ffffffffffff, with changes not committed, torch 2.0\\|1" in page
