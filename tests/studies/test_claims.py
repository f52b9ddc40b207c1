"""The ledger: judgements follow from numbers and errors, and nothing is refuted within an error."""

import math
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.claims import judgement, rules
from pcer_studies.claims.judgement import Claim, ClaimPart, Side, by_paper, judge, weigh
from pcer_studies.claims.ledger import CLAIMS, judge_all, write_claims
from pcer_studies.claims.noise import published_gaps
from pcer_studies.claims.rules import (
    BIOS,
    COMPAS,
    above,
    at_least,
    best,
    made,
    near,
    r_words,
)
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


def drawn(value: float, error: float, name: str = "x") -> np.ndarray:
    """(1 + draws,) a number with exactly this error, independent of others."""
    luck = np.random.default_rng(crc32(name.encode())).standard_normal(N_DRAWS)
    return np.array([value, *(value + error * (luck - luck.mean()) / luck.std(ddof=1))])


def part(
    estimate: float, error: float, is_zero: bool = False, about=(COMPAS,)
) -> ClaimPart:
    return ClaimPart("x", drawn(estimate, error), r_words, about, is_zero)


def numbers(*pairs: tuple[float, float]) -> list:
    """Numbers with these values and errors."""
    return [
        made(
            f"n{k}", lambda view, k=k, pair=pair: drawn(*pair, f"n{k}"), r_words, COMPAS
        )
        for k, pair in enumerate(pairs)
    ]


def exact(*values: float) -> list:
    return numbers(*((value, 0.0) for value in values))


def test_a_part_has_the_error_of_its_draws_and_of_those_it_was_picked_from():
    assert part(1.0, 0.5).error == pytest.approx(0.5)
    assert part(1.0, 0.5).p_value == pytest.approx(
        0.0455, abs=1e-4
    )  # two errors from 0
    assert part(1.0, 0.5).seen_from(1) == pytest.approx(
        (1.95996 + 0.84) * 0.5, rel=1e-4
    )
    assert [part(value, 0.0).p_value for value in (0.7, 0.0)] == [0.0, 1.0]
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
        (
            [(3, 1), (-2.1, 1)],
            UNDECIDED,
        ),  # alone it would refute; among two it does not
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
    ("of_bios", "of_compas", "enough", "expected"),
    [
        *(
            (None, 3, True, HOLDS),
            (None, 3, False, NOT_EVIDENCE),
        ),  # about costs: needs evidence
        *(
            (-3, None, True, UNTESTABLE),
            (3, None, True, HOLDS),
        ),  # only the paper's own records
        *(
            (-3, 3, True, UNTESTABLE),
            (3, -3, True, FAILS),
        ),  # refute, and COMPAS has them
        (None, None, True, UNTESTABLE),
    ],
)
def test_a_claim_is_judged(printed, remembered, of_bios, of_compas, enough, expected):
    pairs = ((of_bios, BIOS), (of_compas, COMPAS))
    parts = tuple(part(value, 1, about=(one,)) for value, one in pairs if value)

    def rule(view):
        if not parts:
            raise NotThere("it is not printed")
        return judgement.Reply("42", parts, "Because.")

    about = tuple(one for value, one in pairs if value)
    evidence = None if of_bios else lambda view: judgement.Support(enough, "So much.")
    found = judge(
        Claim("X1", rule=rule, about=about, evidence=evidence),
        printed,
        OurRun(remembered),
    )
    assert found.run.judgement is expected
    if not parts:
        assert found.paper.why == "it is not printed"
    elif of_bios is None:
        assert (found.run.figure, found.run.why) == ("42", "Because. So much.")
        assert found.paper.judgement is expected
    else:
        assert found.paper.judgement is (HOLDS if expected is HOLDS else FAILS)
    if of_bios == -3:
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


def test_a_number_of_our_run_errs_by_its_seeds(remembered):
    """And a difference of budgets seed by seed: they share their splits."""
    run = OurRun(remembered)
    values = study_seeds(remembered, COMPAS, 1.0, "pcer_disparity")
    found = run.disparity(COMPAS, 1.0)
    assert found.shape == (1 + N_DRAWS,)
    assert found[0] == pytest.approx(values.mean())
    n = len(values)
    expected = math.sqrt(sum((v - values.mean()) ** 2 for v in values) / n / n)
    assert found[1:].std() == pytest.approx(expected, rel=0.1)
    assert run.spread(COMPAS, 1.0)[0] == pytest.approx(values.std(ddof=1))
    pair = tuple(rules.gap_of(COMPAS, epsilon, 1) for epsilon in (1.0, 5.0))
    (of_pair,) = rules.larger([pair])(run).parts
    first, second = (
        study_seeds(remembered, COMPAS, e, "overfitting_gap", group="African-American")
        for e in (1.0, 5.0)
    )
    assert of_pair.estimate == pytest.approx((first - second).mean())
    assert of_pair.error == pytest.approx(
        (first - second).std() / math.sqrt(n), rel=0.1
    )


def test_a_printed_number_errs_by_what_is_printed_beside_it(printed, remembered):
    """And where nothing is, by our own error."""
    key = key_at(COMPAS, 1.0, "attack_auc", group="Other")
    assert printed.number(key).std is None
    seeds = printed.n_positive(COMPAS, 5.0)
    share = (seeds[0] + 2) / 54
    gap = printed.gap(COMPAS, NO_DP, 0)
    gaps = published_gaps(remembered)
    (unprinted,) = [
        g for g in gaps if (g.configuration, g.epsilon, g.group) == ACS_WHITE
    ]
    assert gap[0] == 0.0074
    for found, error, half_digit in (
        (
            gap,
            0.010 / math.sqrt(50),
            0.00005,
        ),  # .0074, a deviation of .010 over 50 seeds
        (printed.disparity(COMPAS, 5.0), (230 - 106) / 3.92, 0.5),  # −169 [−230, −106]
        (seeds, math.sqrt(50 * share * (1 - share)), 0.0),
        (
            printed.gap(rules.ACS_RACE, 1.0, 0),
            unprinted.error,
            0.00005,
        ),  # by its noise level
        (
            printed.advantage(COMPAS, 1.0, 0),
            our_number(remembered, key).standard_error,
            0.0005,
        ),
    ):
        by_hand = math.hypot(error, half_digit / math.sqrt(3))
        assert found[1:].std() == pytest.approx(by_hand, rel=0.1)


def test_the_nine_rules_by_hand():
    a, b, c = exact(1.0, 4.0, 2.0)
    asked = [above([n]) for n in (a, b, *exact(-1.0))]
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
        assert [round(p.estimate, 9) for p in question(None).parts] == margins
    assert at_least(asked, 2, what="x")(None).figure == "x: 2 of 3"
    (nought,) = rules.none_apart(exact(0.0))(None).parts
    assert nought.is_zero
    assert nought.is_as_claimed
    flat = list(zip(exact(1.0, 1.0, 1.0), exact(2.0, 3.0, 5.0), strict=True))
    for few in (flat, points[:2], []):
        with pytest.raises(NotThere, match="correlation"):
            rules.correlation(few, None)


class MadeUp(OurRun):
    """A run with these figures: of a quantity (value, error), or a function of the key.

    Evidence is there for everything or for nothing, and of costs only the gap.
    """

    n_seeds = 50
    carries = staticmethod(lambda one, cost: False)

    def __init__(self, evidence=True, **figures):
        self.figures = figures
        self.stands_out = self.disparity_is_evidence = self.costs_differ = (
            lambda *where: evidence
        )

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


@pytest.mark.parametrize("key", ["N4", "T14", "T18"])
def test_gaps_are_equal_only_if_their_errors_are_small(key):
    """A difference that cannot be told from 0 was "similar"; now it must be below a limit."""
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
        found = judged(key, evidence=evidence, overfitting_gap=gaps, **common)
        assert found.judgement is expected
    for rates, expected in (
        ((0.7, 0.1), FAILS),
        ((0.6, 0.13), HOLDS),
    ):  # labels: by a half
        figures = by_group(*((rate, 0.0005) for rate in rates))
        assert judged("B3", positive_rate=figures).judgement is expected


def test_a_rule_has_the_error_of_its_numbers_and_many_signs_are_no_evidence():
    """Folded at 1, the error of 1 ± 1 was 0.6, and within 1.5 of 1 was "holds"."""
    (found,) = near(numbers((1, 1)), (1, 1), 1.5)(None).parts
    assert (found.estimate, found.error) == pytest.approx((1.5, 1.0))
    assert rules.size(drawn(-0.1, 1))[1:].std(ddof=1) == pytest.approx(
        1
    )  # nor folded at 0
    others = [(0.1093, 0.003)] * 5
    unsure = [above([n]) for n in numbers(*[(1.0, 1.0)] * 36)]  # each within its error
    sure = [above([n]) for n in numbers(*[(4.0, 1.0)] * 19, *[(-9.0, 1.0)] * 17)]
    for question, expected in (
        (near(numbers((1, 1)), (1, 1), 1.5), NOT_EVIDENCE),
        (
            rules.excludes_0(numbers((30, 20))),
            UNDECIDED,
        ),  # [−9, 69], though the sign is right
        (rules.excludes_0(numbers((30, 5))), HOLDS),
        (rules.excludes_0(numbers((-30, 5))), FAILS),
        (
            best(numbers((0.1093, 0.003), (0.1, 0.003), *others), [0], what="x"),
            UNDECIDED,
        ),
        (
            best(numbers((0.1093, 0.003), (0.0814, 0.003), *others), [0], what="x"),
            FAILS,
        ),
        (
            best(numbers((0.0, 1.0), (3.0, 1.0)), [0], what="x"),
            HOLDS,
        ),  # intervals overlap
        (at_least(unsure, 19, what="x"), NOT_EVIDENCE),
        (at_least(sure, 19, what="x"), HOLDS),
        (at_least(sure, 20, what="x"), FAILS),
    ):
        assert weigh(question(None).parts) is expected
    assert at_least(sure, 20, what="x")(None).parts[0].n_tries == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "seed", "wrong"),
    [
        (
            lambda luck: best(numbers(*luck), [0], what="x"),
            3,
            (FAILS, HOLDS),
        ),  # of equals
        (
            lambda luck: rules.flat(numbers(*((10 + v, e) for v, e in luck)), 0.1),
            4,
            (FAILS,),
        ),
        (  # 4 of 8 are true, 4 are nothing: "at least 5" may hold in 5 %
            lambda luck: at_least(
                [above([n]) for n in numbers(*[(9.0, 1.0)] * 4, *luck[:4])], 5, what="x"
            ),
            *(5, (HOLDS,)),
        ),
    ],
)
def test_a_rule_errs_in_one_of_twenty_studies(question, seed, wrong):
    rng = np.random.default_rng(seed)
    lucks = ([(value, 1.0) for value in rng.standard_normal(6)] for _ in range(200))
    found = [weigh(question(luck)(None).parts) for luck in lucks]
    assert all(found.count(kind) / 200 <= 0.05 for kind in wrong)


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
        (
            "remembered",
            "B4",
            HOLDS,
            "The audit finds that the ratio differs at 5 of 5 budgets.",
        ),
        ("remembered", "B6", HOLDS, "LiRA: Female at no-DP, 0.1, 0.5, 1, 5, 10"),
        (
            "remembered",
            "C1",
            FAILS,
            "0 of 4 intervals lie below 0.",
        ),  # more harm in group 0
        ("LiRA against the gap", "B6", UNTESTABLE, "as claimed, but no evidence"),
        ("LiRA against the gap", "B6", UNTESTABLE, "LiRA has the other sign at no-DP"),
        (
            "forgotten",
            "T5",
            NOT_EVIDENCE,
            "6 of 6 intervals lie above 0.",
        ),  # by rates alone
        (
            "forgotten",
            "T5",
            NOT_EVIDENCE,
            "The audit finds that the ratio differs at 0 of 6 budgets.",
        ),
        ("forgotten", "T10", UNTESTABLE, "the study has no Adult (sex)"),
        (
            "double disadvantage",
            "C2",
            HOLDS,
            "gap: African-American at no-DP, 0.1, 0.5, 1, 5, 10",
        ),
        ("one seed", "C1", UNTESTABLE, "one seed"),
        ("no labels", "B3", UNTESTABLE, "labels"),
        ("no sizes", "G11", UNTESTABLE, "detectable"),
        ("no sizes", "C2", UNTESTABLE, "COMPAS (race)"),
        ("no number of records", "G6", UNTESTABLE, "records"),
        *((0.25, key, UNTESTABLE, "correlation") for key in ("C13", "G3", "A1", "A4")),
        (0.0, "F3", UNTESTABLE, "a disparity of 0 has no slope over floors"),
        (0.0, "T8", UNTESTABLE, "it divides by a figure that is 0"),
    ],
)
def test_a_planted_truth_is_judged(truths, truth, key, expected, said):
    if isinstance(truth, float):  # nothing varies over budgets
        names = (
            "overfitting_gap",
            "attack_auc",
            "demographic_parity_gap",
            "equalized_odds_gap",
        )
        figures = dict.fromkeys(names, (truth, 0))
        figures |= dict.fromkeys(("pcer_disparity", "pcer_disparity_auc"), (-truth, 0))
        with np.errstate(invalid="ignore", divide="ignore"):
            run, notes = judged(key, **figures), []
    else:
        found = judge(BY_KEY[key], Paper.beside(truths[truth]), OurRun(truths[truth]))
        run, notes = found.run, found.notes
    assert run.judgement is expected
    assert said in " ".join([run.why, *notes])
    if expected is FAILS:
        assert run.decisive.estimate + 1.96 * run.decisive.error < 0


@pytest.mark.slow
def test_nothing_that_is_shipped_is_refuted_within_its_error():
    """The bar of the ledger: every "does not hold" lies beyond its error, among all its parts."""
    rows = [one for rows in judge_all(studies.shipped_study()).values() for one in rows]
    for claim, side in ((one.claim, side) for one in rows for side in one.sides):
        if side.judgement is FAILS:
            found = side.decisive
            reach = found.seen_from(side.n_parts) - 0.84 * found.error
            off = abs(found.estimate) if found.is_zero else -found.estimate
            assert off > 0, claim.key
            assert off >= reach * (1 - 1e-9), claim.key


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
    assert (
        "pcer 9.9, commit ffffffffffff, with changes not committed, torch 2.0\\|1"
        in page
    )
