"""The ledger: judgements follow from numbers and errors, and nothing is refuted within an error."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.claims import judgement, rules
from pcer_studies.claims.judgement import Claim, ClaimPart, Side, by_paper, judge, weigh
from pcer_studies.claims.ledger import CLAIMS, judge_all, write_claims
from pcer_studies.claims.noise import published_gaps
from pcer_studies.claims.rules import BIOS, COMPAS, above, at_least, best, made, near, r_words
from pcer_studies.claims.views import N_DRAWS, OurRun, Paper
from pcer_studies.numbers import our_number, study_seeds
from pcer_studies.protocol import NO_DP
from pcer_studies.published import NotThere, key_at
from tests.worlds import studies
from tests.worlds.studies import Truth, all_planted, tree_of, tree_of_rates

HOLDS, FAILS, NOT_EVIDENCE, UNDECIDED, UNTESTABLE = judgement.Judgement
BY_KEY = {claim.key: claim for claim in CLAIMS}
ACS_WHITE = (rules.ACS_RACE, 1.0, "White")


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
    ("pairs", "expected"),
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
def test_parts_make_the_judgement(pairs, expected):
    parts = [part(*number[:2], is_zero=len(number) > 2) for number in pairs]
    assert weigh(parts) is expected


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
    text = studies.planted(rules.ADULT_SEX, truth).to_json().replace('"adult"', '"adult-closest"')
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
    gaps = published_gaps(remembered)
    (unprinted,) = [g for g in gaps if (g.configuration, g.epsilon, g.group) == ACS_WHITE]
    assert gap[0] == 0.0074
    for drawn, error, half_digit in (
        (gap, 0.010 / math.sqrt(50), 0.00005),  # .0074, a deviation of .010 over 50 seeds
        (printed.disparity(COMPAS, 5.0), (230 - 106) / 3.92, 0.5),  # −169 [−230, −106]
        (seeds, math.sqrt(50 * share * (1 - share)), 0.0),
        (printed.gap(rules.ACS_RACE, 1.0, 0), unprinted.error, 0.00005),  # by its noise level
        (printed.advantage(COMPAS, 1.0, 0), our_number(remembered, key).standard_error, 0.0005),
    ):
        by_hand = math.hypot(error, half_digit / math.sqrt(3))
        assert drawn[1:].std() == pytest.approx(by_hand, rel=0.1)


# The nine rules, on numbers that are known.


def drawn(value: float, error: float, name: str) -> np.ndarray:
    """(1 + draws,) a number with exactly this error, independent of others."""
    luck = np.random.default_rng(crc32(name.encode())).standard_normal(N_DRAWS)
    return np.array([value, *(value + error * (luck - luck.mean()) / luck.std(ddof=1))])


def numbers(*pairs: tuple[float, float]) -> list:
    """Numbers with these values and errors."""
    return [
        made(f"n{k}", lambda view, k=k, pair=pair: drawn(*pair, f"n{k}"), r_words, COMPAS)
        for k, pair in enumerate(pairs)
    ]


def known_number(*values: float) -> list:
    """Numbers without any error."""
    return numbers(*((value, 0.0) for value in values))


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
        (at_least(asked, 3, what="x"), [-1.0]),
        (rules.correlated(points, -0.5, sign=-1, what="x"), [0.5]),
    ):
        assert [round(p.estimate, 9) for p in question(None).parts] == margins
    assert at_least(asked, 2, what="x")(None).figure == "x: 2 of 3"
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


# Claims by made-up figures that a laxer rule would take for it.


class MadeUp(OurRun):
    """A run with these figures: of a quantity (value, error), or a function of the key.

    Evidence is there for everything or for nothing, and of costs only the gap.
    """

    n_seeds = 50
    carries = staticmethod(lambda one, cost: False)

    def __init__(self, evidence=True, **figures):
        self.figures = figures
        self.stands_out = self.disparity_is_evidence = self.costs_differ = lambda *where: evidence

    def drawn(self, key):
        """As made up."""
        found = self.figures[key.quantity]
        return drawn(*(found(key) if callable(found) else found), repr(key))

    def base_rate(self, one, epsilon, group):
        """Half of the men, none of the women."""
        return np.full(1 + N_DRAWS, 0.5 - 0.5 * group)


def judged(key: str, **figures) -> Side:
    """What becomes of a claim by made-up figures, put as to our run."""
    claim = BY_KEY[key]
    return by_paper(replace(claim, paper=claim.run or claim.rule), MadeUp(**figures))


def by_group(first, second):
    return lambda key: first if key.group == key.configuration.groups[0] else second


# Not rejecting is no "holds".


@pytest.mark.parametrize("key", ["N4", "T14", "T18"])
def test_gaps_are_equal_only_if_their_errors_are_small(key):
    """A difference that cannot be told from 0 was "similar"; now it must be below a limit."""
    common = {"pcer_disparity": (60, 5), "positive_rate": by_group((0.25, 0.001), (0.06, 0.001))}
    exact = by_group((0.004, 0.0001), (0.0039, 0.0001))
    for gaps, expected in (
        (by_group((0.004, 0.003), (0.0039, 0.003)), NOT_EVIDENCE),
        (exact, HOLDS),
        (by_group((0.002, 0.0001), (0.004, 0.0001)), FAILS),
    ):
        assert judged(key, overfitting_gap=gaps, **common).judgement is expected
    if key != "N4":
        found = judged(key, evidence=False, overfitting_gap=exact, **common)
        assert found.judgement is NOT_EVIDENCE


@pytest.mark.parametrize(("rates", "expected"), [((0.7, 0.1), FAILS), ((0.6, 0.13), HOLDS)])
def test_predictions_differ_by_no_more_than_labels(rates, expected):
    """Labels differ by a half."""
    figures = by_group(*((rate, 0.0005) for rate in rates))
    assert judged("B3", positive_rate=figures).judgement is expected


def test_a_rule_has_the_error_of_its_numbers():
    """Folded at 1, the error of 1 ± 1 was 0.6, and within 1.5 of 1 was "holds"."""
    (part,) = near(numbers((1, 1)), (1, 1), 1.5)(None).parts
    assert (part.estimate, part.error) == pytest.approx((1.5, 1.0))
    others = [(0.1093, 0.003)] * 5
    for question, expected in (
        (near(numbers((1, 1)), (1, 1), 1.5), NOT_EVIDENCE),
        (rules.excludes_0(numbers((30, 20))), UNDECIDED),  # [−9, 69], though the sign is right
        (rules.excludes_0(numbers((30, 5))), HOLDS),
        (rules.excludes_0(numbers((-30, 5))), FAILS),
        (best(numbers((0.1093, 0.003), (0.1, 0.003), *others), [0], what="x"), UNDECIDED),
        (best(numbers((0.1093, 0.003), (0.0814, 0.003), *others), [0], what="x"), FAILS),
        (best(numbers((0.0, 1.0), (3.0, 1.0)), [0], what="x"), HOLDS),  # intervals overlap
    ):
        assert weigh(question(None).parts) is expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("F11", [1.0]),
        ("A6", [100 * math.sqrt(2)]),
        ("T7", [0.001 * math.sqrt(2), 0.002]),
        ("T9", [0.002]),
    ],
)
def test_a_size_has_the_error_of_the_number(key, expected):
    """Draws that were folded at 0 gave 0.6 of the error where a number is about 0."""
    assert rules.size(drawn(-0.1, 1, "x"))[1:].std(ddof=1) == pytest.approx(1)
    view = MadeUp(
        pcer_disparity=(1, 100),
        pcer_disparity_auc=(1, 100),
        demographic_parity_gap=(0.1, 0),
        overfitting_gap=by_group((0.01, 0.001), (0.0101, 0.001)),
    )
    for part in BY_KEY[key].rule(view).parts:
        if "ratio" not in part.name:
            assert any(math.isclose(part.error, error, rel_tol=0.1) for error in expected)


@pytest.mark.parametrize(
    ("key", "level", "why"),
    [
        *((key, 0.25, "correlation") for key in ("C13", "G3", "A1", "A4")),
        ("F3", 0.0, "a disparity of 0 has no slope over floors"),
        ("T8", 0.0, "it divides by a figure that is 0"),
    ],
)
def test_a_claim_about_an_undefined_number_cannot_be_tested(key, level, why):
    """Nothing varies over budgets, or every mean is 0."""
    names = ("overfitting_gap", "attack_auc", "demographic_parity_gap", "equalized_odds_gap")
    figures = dict.fromkeys(names, (level, 0))
    figures |= dict.fromkeys(("pcer_disparity", "pcer_disparity_auc"), (-level, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        side = judged(key, **figures)
    assert side.judgement is UNTESTABLE
    assert why in side.why


# The best of several is corrected for several; so many of so many is no count of signs.


def _best_of_equals(rng):
    """One rival of five lies below the named one beyond its error too often."""
    return best(numbers(*((value, 1.0) for value in rng.standard_normal(6))), [0], what="x")


def _flat(rng):
    """The range of six is wider than any one pair's difference."""
    return rules.flat(numbers(*((10 + value, 1.0) for value in rng.standard_normal(6))), 0.1)


def _four_of_eight(rng):
    """4 of 8 are true, 4 are nothing: "at least 5" may hold in 5 %."""
    nothing = ((value, 1.0) for value in rng.standard_normal(4))
    return at_least([above([n]) for n in numbers(*[(9.0, 1.0)] * 4, *nothing)], 5, what="x")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "seed", "wrong"),
    [(_best_of_equals, 3, (FAILS, HOLDS)), (_flat, 4, (FAILS,)), (_four_of_eight, 5, (HOLDS,))],
)
def test_a_rule_errs_in_one_of_twenty_studies(question, seed, wrong):
    rng = np.random.default_rng(seed)
    found = [weigh(question(rng)(None).parts) for _ in range(200)]
    assert all(found.count(kind) / 200 <= 0.05 for kind in wrong)


def test_so_many_of_so_many_is_no_count_of_signs():
    """All 36 above 0, each within its error: the count was far above 19 and its error small."""
    unsure = [above([n]) for n in numbers(*[(1.0, 1.0)] * 36)]
    sure = [above([n]) for n in numbers(*[(4.0, 1.0)] * 19, *[(-9.0, 1.0)] * 17)]
    for questions, least, expected in (
        (unsure, 19, NOT_EVIDENCE),
        (sure, 19, HOLDS),
        (sure, 20, FAILS),
    ):
        assert weigh(at_least(questions, least, what="x")(None).parts) is expected
    assert at_least(sure, 20, what="x")(None).parts[0].n_tries == 20


def test_a_part_picked_from_many_says_so():
    part = ClaimPart("x", drawn(2.2, 1, "x"), r_words, (COMPAS,))
    assert part.is_borne_out
    assert not replace(part, n_tries=5).is_borne_out
    assert replace(part, n_tries=5).seen_from(1) == part.seen_from(5)
    assert not replace(part, margin=drawn(0, 1, "x"), is_zero=True).is_borne_out


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
