"""The ledger: judgements follow from numbers and errors.

Nothing is refuted within an error.
"""

import math
from dataclasses import replace
from itertools import chain
from zlib import crc32

import numpy as np
import pytest

from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.claims import judgement, rules
from pcer_studies.claims.judgement import Claim, ClaimPart, Side, by_paper, judge, weigh
from pcer_studies.claims.ledger import CLAIMS, judge_all, write_claims
from pcer_studies.claims.noise import published_gaps
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.paper_view import Paper
from pcer_studies.claims.quantities import (
    ACS_RACE,
    BIOS,
    COMPAS,
    ClaimNumber,
    computed,
    correlation,
    gap_of,
    size,
)
from pcer_studies.claims.rules import above, at_least, best, near
from pcer_studies.claims.views import N_DRAWS
from pcer_studies.claims.wording import r_words
from pcer_studies.numbers import our_number, study_seeds
from pcer_studies.protocol import NO_DP
from pcer_studies.published import NotThere, key_at
from tests.worlds import studies
from tests.worlds.studies import Truth, all_planted, tree_of, tree_of_rates

HOLDS, FAILS, NOT_EVIDENCE, UNDECIDED, UNTESTABLE = judgement.Judgement
BY_KEY = {claim.key: claim for claim in CLAIMS}
ACS_WHITE = (ACS_RACE, 1.0, "White")


@pytest.fixture(scope="module")
def printed(remembered) -> Paper:
    return Paper.beside(remembered)


def drawn(value: float, error: float, name: str = "x") -> np.ndarray:
    """(1 + draws,) a number with exactly this error, independent of others."""
    luck = np.random.default_rng(crc32(name.encode())).standard_normal(N_DRAWS)
    return np.array([value, *(value + error * (luck - luck.mean()) / luck.std(ddof=1))])


def part(
    estimate: float, error: float, is_zero: bool = False, about=(COMPAS,)
) -> ClaimPart:
    return ClaimPart("x", drawn(estimate, error), r_words, about, is_zero)


def number(name: str, value: float, error: float) -> ClaimNumber:
    return computed(name, lambda view: drawn(value, error, name), r_words, COMPAS)


def numbers(*pairs: tuple[float, float]) -> list[ClaimNumber]:
    """Numbers with these values and errors."""
    return [number(f"n{place}", *pair) for place, pair in enumerate(pairs)]


def exact(*values: float) -> list[ClaimNumber]:
    return numbers(*((value, 0.0) for value in values))


def test_a_part_has_the_error_of_its_draws_and_of_those_it_was_picked_from():
    two_errors_from_0 = part(1.0, 0.5)
    assert two_errors_from_0.error == pytest.approx(0.5)
    assert two_errors_from_0.p_value == pytest.approx(0.0455, abs=1e-4)
    seen_from = (1.95996 + 0.84) * 0.5
    assert two_errors_from_0.seen_from(1) == pytest.approx(seen_from, rel=1e-4)
    assert part(0.7, 0.0).p_value == 0.0
    assert part(0.0, 0.0).p_value == 1.0
    alone = part(2.2, 1)
    assert alone.is_borne_out
    assert not replace(alone, n_tries=5).is_borne_out
    assert replace(alone, n_tries=5).seen_from(1) == alone.seen_from(5)
    assert not part(0, 1, is_zero=True).is_borne_out


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(3, 1), (2.5, 1)], HOLDS),
        ([(3, 1), (1.5, 1)], NOT_EVIDENCE),  # as claimed, one of them within its error
        ([(3, 1), (-1.5, 1)], UNDECIDED),  # not as claimed, but within its error
        ([(3, 1), (-2.1, 1)], UNDECIDED),  # refutes alone, not among two
        ([(3, 1), (-3, 1)], FAILS),
        ([(-2.1, 1)], FAILS),
        ([(-0.001, 0)], FAILS),  # exact
        ([(-1.5, 1, True), (1.5, 1, True)], NOT_EVIDENCE),  # should be 0, and may be
        ([(-3, 1, True)], FAILS),
        ([(2.1, 1, True), (0, 1, True)], UNDECIDED),
    ],
)
def test_parts_make_the_judgement(pairs, expected):
    assert weigh([part(*number) for number in pairs]) is expected


@pytest.mark.parametrize(
    ("of_bios", "of_compas", "expected"),
    [
        # Of Bios the records are others, and only the paper's own refute.
        (-3, None, UNTESTABLE),
        (3, None, HOLDS),
        (-3, 3, UNTESTABLE),
        (3, -3, FAILS),
    ],
)
def test_only_the_papers_own_records_refute(
    printed, remembered, of_bios, of_compas, expected
):
    values = {BIOS: of_bios, COMPAS: of_compas}
    about = tuple(one for one, value in values.items() if value is not None)
    parts = tuple(part(values[one], 1, about=(one,)) for one in about)
    claim = Claim("X1", rule=lambda view: judgement.Reply("42", parts), about=about)
    judged = judge(claim, printed, OurRun(remembered))
    assert judged.run.judgement is expected
    assert judged.paper.judgement is (HOLDS if expected is HOLDS else FAILS)
    if of_bios == -3:
        assert "4,500 records, the paper's 37,900" in judged.run.why
        assert "On ours: does not hold." in judged.run.why


@pytest.mark.parametrize(
    ("is_enough", "expected"), [(True, HOLDS), (False, NOT_EVIDENCE)]
)
def test_a_claim_about_exposure_needs_evidence(
    printed, remembered, is_enough, expected
):
    claim = Claim(
        "X1",
        rule=lambda view: judgement.Reply("42", (part(3, 1),), "Because."),
        about=(COMPAS,),
        evidence=lambda view: judgement.Support(is_enough, "So much."),
    )
    judged = judge(claim, printed, OurRun(remembered))
    for side in judged.sides:
        assert side.judgement is expected
        assert side.figure == "42"
        assert side.why == "Because. So much."


def test_a_claim_about_missing_numbers_cannot_be_tested(printed, remembered):
    def rule(view):
        raise NotThere("it is not printed")

    judged = judge(Claim("X1", rule=rule), printed, OurRun(remembered))
    assert judged.run.judgement is UNTESTABLE
    assert judged.paper.why == "it is not printed"


def test_a_claim_about_adult_is_refuted_only_by_both_readings():
    fails = Side(FAILS, "", "", part(-3, 1), 1, by_reading=True)
    holds = Side(HOLDS, "", "", part(3, 1), 1)
    for pair, expected in (
        ((fails, fails), (FAILS, FAILS)),
        ((fails, holds), (UNTESTABLE, HOLDS)),
        ((holds, fails), (HOLDS, UNTESTABLE)),
        ((fails, None), (UNTESTABLE, None)),
    ):
        sides = judgement.both_readings(*pair)
        assert tuple(side and side.judgement for side in sides) == expected


def test_a_number_of_our_run_errs_by_its_seeds(remembered):
    run = OurRun(remembered)
    values = study_seeds(remembered, COMPAS, 1.0, "pcer_disparity")
    disparity = run.disparity(COMPAS, 1.0)
    assert disparity.shape == (1 + N_DRAWS,)
    assert disparity[0] == pytest.approx(values.mean())
    n = len(values)
    error = math.sqrt(sum((value - values.mean()) ** 2 for value in values) / n / n)
    assert disparity[1:].std() == pytest.approx(error, rel=0.1)
    assert run.spread(COMPAS, 1.0)[0] == pytest.approx(values.std(ddof=1))


def test_a_difference_of_budgets_errs_by_its_differences_seed_by_seed(remembered):
    """Budgets share their splits."""
    first, second = (
        study_seeds(remembered, COMPAS, e, "overfitting_gap", group="African-American")
        for e in (1.0, 5.0)
    )
    differences = first - second
    pair = (gap_of(COMPAS, 1.0, 1), gap_of(COMPAS, 5.0, 1))
    (found,) = rules.larger([pair])(OurRun(remembered)).parts
    error = differences.std() / math.sqrt(len(differences))
    assert found.estimate == pytest.approx(differences.mean())
    assert found.error == pytest.approx(error, rel=0.1)


def assert_errs_by(draws: np.ndarray, error: float, half_digit: float) -> None:
    """Its error is that of sampling and of rounding."""
    by_hand = math.hypot(error, half_digit / math.sqrt(3))
    assert draws[1:].std() == pytest.approx(by_hand, rel=0.1)


def test_a_printed_number_errs_by_what_is_printed_beside_it(printed):
    # .0074, a deviation of .010 over 50 seeds
    gap = printed.gap(COMPAS, NO_DP, 0)
    assert gap[0] == 0.0074
    assert_errs_by(gap, 0.010 / math.sqrt(50), 0.00005)
    # −169 [−230, −106]
    assert_errs_by(printed.disparity(COMPAS, 5.0), (230 - 106) / 3.92, 0.5)
    # a number of 50 seeds
    n_seeds = printed.n_positive(COMPAS, 5.0)
    share = (n_seeds[0] + 2) / 54
    assert_errs_by(n_seeds, math.sqrt(50 * share * (1 - share)), 0.0)


def test_a_number_without_a_printed_error_errs_by_its_noise_level_or_by_ours(
    printed, remembered
):
    gaps = {
        (gap.configuration, gap.epsilon, gap.group): gap
        for gap in published_gaps(remembered)
    }
    assert_errs_by(printed.gap(ACS_RACE, 1.0, 0), gaps[ACS_WHITE].error, 0.00005)

    key = key_at(COMPAS, 1.0, "attack_auc", group="Other")
    assert printed.number(key).std is None
    by_our_run = our_number(remembered, key).standard_error
    assert_errs_by(printed.advantage(COMPAS, 1.0, 0), by_our_run, 0.0005)


def test_the_nine_rules_by_hand():
    a, b, c = exact(1.0, 4.0, 2.0)
    asked = [above([number]) for number in (a, b, *exact(-1.0))]
    points = list(zip(exact(1.0, 2.0, 3.0), exact(3.0, 2.0, 1.0), strict=True))
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
        parts = question(None).parts
        assert [round(part.estimate, 9) for part in parts] == margins
    assert at_least(asked, 2, what="x")(None).figure == "x: 2 of 3"
    (zero,) = rules.none_apart(exact(0.0))(None).parts
    assert zero.is_zero
    assert zero.is_as_claimed


def test_a_correlation_needs_three_points_that_vary():
    points = list(zip(exact(1.0, 2.0, 3.0), exact(3.0, 2.0, 1.0), strict=True))
    flat = list(zip(exact(1.0, 1.0, 1.0), exact(2.0, 3.0, 5.0), strict=True))
    for few in (flat, points[:2], []):
        with pytest.raises(NotThere, match="correlation"):
            correlation(few, None)


class MadeUp(OurRun):
    """A run with these figures: of a quantity (value, error), or a function of the key.

    Evidence is there for everything or for nothing, and of attacks only the gap.
    """

    n_seeds = 50

    def __init__(self, evidence=True, **figures):
        self.figures = figures
        self.evidence = evidence

    def drawn(self, key):
        """As made up."""
        figure = self.figures[key.quantity]
        if callable(figure):
            figure = figure(key)
        return drawn(*figure, repr(key))

    def base_rate(self, configuration, epsilon, group):
        """Half of the men, none of the women."""
        return np.full(1 + N_DRAWS, 0.5 - 0.5 * group)

    def carries(self, configuration, attack):
        """Only the gap."""
        return False

    def stands_out(self, configuration, epsilon, group):
        """As made up."""
        return self.evidence

    def disparity_is_evidence(self, configuration, epsilon):
        """As made up."""
        return self.evidence

    def exposures_differ(self, configuration, epsilon):
        """As made up."""
        return self.evidence


def judged(key: str, **figures) -> Side:
    """What becomes of a claim by made-up figures, put as to our run."""
    claim = BY_KEY[key]
    return by_paper(replace(claim, paper=claim.run or claim.rule), MadeUp(**figures))


def by_group(first, second):
    return lambda key: first if key.group == key.configuration.groups[0] else second


@pytest.mark.parametrize("key", ["N4", "T14", "T18"])
def test_gaps_are_equal_only_if_their_errors_are_small(key):
    """A difference that cannot be told from 0 is not yet "similar"."""
    common = {
        "pcer_disparity": (60, 5),
        "positive_rate": by_group((0.25, 0.001), (0.06, 0.001)),
    }
    near_equal = by_group((0.004, 0.0001), (0.0039, 0.0001))
    for gaps, evidence, expected in (
        (by_group((0.004, 0.003), (0.0039, 0.003)), True, NOT_EVIDENCE),
        (near_equal, True, HOLDS),
        (by_group((0.002, 0.0001), (0.004, 0.0001)), True, FAILS),
        (near_equal, False, HOLDS if key == "N4" else NOT_EVIDENCE),
    ):
        side = judged(key, evidence=evidence, overfitting_gap=gaps, **common)
        assert side.judgement is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(0.7, 0.1, FAILS), (0.6, 0.13, HOLDS)]
)
def test_predictions_that_differ_more_than_labels_reflect_more(first, second, expected):
    """The labels differ by one half."""
    rates = by_group((first, 0.0005), (second, 0.0005))
    assert judged("B3", positive_rate=rates).judgement is expected


def test_a_rule_has_the_error_of_its_numbers():
    """Folded at 1, the error of 1 ± 1 would be 0.6."""
    (room,) = near(numbers((1, 1)), (1, 1), 1.5)(None).parts
    assert (room.estimate, room.error) == pytest.approx((1.5, 1.0))
    assert size(drawn(-0.1, 1))[1:].std(ddof=1) == pytest.approx(1)  # nor folded at 0


OTHERS = [(0.1093, 0.003)] * 5


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (near(numbers((1, 1)), (1, 1), 1.5), NOT_EVIDENCE),
        # [−9, 69], though the sign is right
        (rules.excludes_0(numbers((30, 20))), UNDECIDED),
        (rules.excludes_0(numbers((30, 5))), HOLDS),
        (rules.excludes_0(numbers((-30, 5))), FAILS),
        (
            best(numbers((0.1093, 0.003), (0.1, 0.003), *OTHERS), [0], what="x"),
            UNDECIDED,
        ),
        (
            best(numbers((0.1093, 0.003), (0.0814, 0.003), *OTHERS), [0], what="x"),
            FAILS,
        ),
        # intervals overlap
        (best(numbers((0.0, 1.0), (3.0, 1.0)), [0], what="x"), HOLDS),
    ],
)
def test_a_rule_judges_within_the_error_of_its_numbers(question, expected):
    assert weigh(question(None).parts) is expected


def test_many_signs_are_no_evidence():
    within_error = numbers(*[(1.0, 1.0)] * 36)
    unsure = [above([number]) for number in within_error]
    assert weigh(at_least(unsure, 19, what="x")(None).parts) is NOT_EVIDENCE

    beyond_error = numbers(*[(4.0, 1.0)] * 19, *[(-9.0, 1.0)] * 17)
    sure = [above([number]) for number in beyond_error]
    assert weigh(at_least(sure, 19, what="x")(None).parts) is HOLDS
    parts = at_least(sure, 20, what="x")(None).parts
    assert weigh(parts) is FAILS
    assert parts[0].n_tries == 20


def best_of_equals(luck):
    return best(numbers(*luck), [0], what="x")


def flat_with_luck(luck):
    pairs = ((10 + value, error) for value, error in luck)
    return rules.flat(numbers(*pairs), 0.1)


def five_of_eight_where_four_are_true(luck):
    """The other four are nothing: "at least 5" may hold in 5 %."""
    eight = numbers(*[(9.0, 1.0)] * 4, *luck[:4])
    return at_least([above([number]) for number in eight], 5, what="x")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question_of", "seed", "wrong"),
    [
        (best_of_equals, 3, (FAILS, HOLDS)),
        (flat_with_luck, 4, (FAILS,)),
        (five_of_eight_where_four_are_true, 5, (HOLDS,)),
    ],
)
def test_a_rule_errs_in_one_of_twenty_studies(question_of, seed, wrong):
    rng = np.random.default_rng(seed)
    judgements = []
    for _ in range(200):
        luck = [(value, 1.0) for value in rng.standard_normal(6)]
        judgements.append(weigh(question_of(luck)(None).parts))
    for kind in wrong:
        assert judgements.count(kind) / 200 <= 0.05


@pytest.fixture(scope="module")
def truths(remembered, forgotten, tmp_path_factory) -> dict[str, Study]:
    """Studies by what is planted, or is not known."""

    def only(configuration, **truth) -> Study:
        folder = tmp_path_factory.mktemp("only")
        return all_planted(folder, Truth(**truth), [configuration])

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
    ("truth", "key", "expected", "sentence"),
    [
        ("remembered", "B4", HOLDS, "that the ratio differs at 5 of 5 budgets."),
        ("remembered", "B6", HOLDS, "LiRA: Female at no-DP, 0.1, 0.5, 1, 5, 10"),
        # more harm in group 0
        ("remembered", "C1", FAILS, "0 of 4 intervals lie below 0."),
        ("LiRA against the gap", "B6", UNTESTABLE, "as claimed, but no evidence"),
        ("LiRA against the gap", "B6", UNTESTABLE, "LiRA has the other sign at no-DP"),
        # by rates alone
        ("forgotten", "T5", NOT_EVIDENCE, "6 of 6 intervals lie above 0."),
        ("forgotten", "T5", NOT_EVIDENCE, "that the ratio differs at 0 of 6 budgets."),
        ("forgotten", "T10", UNTESTABLE, "the study has no Adult (sex)"),
        (
            "double disadvantage",
            "C2",
            HOLDS,
            "gap: African-American at no-DP, 0.1, 0.5, 1, 5, 10",
        ),
        ("one seed", "C1", UNTESTABLE, "one seed"),
        ("no labels", "B3", UNTESTABLE, "labels"),
        ("one seed", "G11", UNTESTABLE, "one seed"),
        ("no sizes", "C2", UNTESTABLE, "COMPAS (race)"),
        ("no number of records", "G6", UNTESTABLE, "records"),
    ],
)
def test_a_planted_truth_is_judged(truths, truth, key, expected, sentence):
    study = truths[truth]
    judged = judge(BY_KEY[key], Paper.beside(study), OurRun(study))
    assert judged.run.judgement is expected
    assert sentence in " ".join([judged.run.why, *judged.notes])
    if expected is FAILS:
        part = judged.run.decisive
        assert part.estimate + 1.96 * part.error < 0


@pytest.mark.parametrize(
    ("value", "key", "sentence"),
    [
        (0.25, "C13", "correlation"),
        (0.25, "G3", "correlation"),
        (0.25, "A1", "correlation"),
        (0.25, "A4", "correlation"),
        (0.0, "F3", "a disparity of 0 has no slope over floors"),
        (0.0, "T8", "it divides by a figure that is 0"),
    ],
)
def test_numbers_that_do_not_vary_over_budgets_decide_nothing(value, key, sentence):
    figures = {
        "overfitting_gap": (value, 0),
        "attack_auc": (value, 0),
        "demographic_parity_gap": (value, 0),
        "equalized_odds_gap": (value, 0),
        "pcer_disparity": (-value, 0),
        "pcer_disparity_auc": (-value, 0),
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        side = judged(key, **figures)
    assert side.judgement is UNTESTABLE
    assert sentence in side.why


@pytest.mark.slow
def test_nothing_that_is_shipped_is_refuted_within_its_error():
    """The bar of the ledger: what does not hold lies beyond its error, of all parts."""
    for entry in chain.from_iterable(judge_all(studies.shipped_study()).values()):
        for side in entry.sides:
            if side.judgement is FAILS:
                part = side.decisive
                error = part.seen_from(side.n_parts) - 0.84 * part.error
                distance = abs(part.estimate) if part.is_zero else -part.estimate
                assert distance > 0, entry.claim.key
                assert distance >= error * (1 - 1e-9), entry.claim.key


def test_the_page_says_what_is_missing_and_with_what_the_study_was_made(forgotten):
    made_with = {
        "pcer": "9.9",
        "source_commit": "f" * 40,
        "source_dirty": True,
        "torch": "2.0|1",
    }
    settings = {"datasets": {"compas": {"made_with": [made_with]}}}
    page = write_claims(Study(forgotten.folder, forgotten.releases, settings))
    assert "the study has no Bios (gender)" in page
    assert "2 configurations (4 of the paper's are missing)" in page
    source = "pcer 9.9, commit ffffffffffff, with changes not committed, torch 2.0\\|1"
    assert source in page
