"""Every claim is judged by its own rule: made-up figures that a laxer rule would take for it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest

from pcer_studies.claims.judgement import ClaimPart, Judgement, by_paper, weigh
from pcer_studies.claims.ledger import CLAIMS
from pcer_studies.claims.rules import COMPAS, above, at_least, best, flat, made, near, r_words, size
from pcer_studies.claims.views import N_DRAWS, OurRun
from pcer_studies.protocol import budget_label

HOLDS, FAILS, NOT_EVIDENCE, UNDECIDED, UNTESTABLE = Judgement
BY_KEY = {claim.key: claim for claim in CLAIMS}


def drawn(value: float, error: float, name: str) -> np.ndarray:
    """(1 + draws,) a number with exactly this error, independent of others."""
    luck = np.random.default_rng(crc32(name.encode())).standard_normal(N_DRAWS)
    return np.array([value, *(value + error * (luck - luck.mean()) / luck.std(ddof=1))])


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

    def interval(self, one, epsilon, floor=0.001):
        """As wide as the error says."""
        values = self.disparity(one, epsilon, floor)
        reach = 1.96 * values[1:].std(ddof=1)
        return values[0] - reach, values[0] + reach

    def base_rate(self, one, epsilon, group):
        """Half of the men, none of the women."""
        return np.full(1 + N_DRAWS, 0.5 - 0.5 * group)

    def group(self, one, epsilon, group, cost="overfitting_gap"):
        """What it would take to see a gap."""
        return SimpleNamespace(detectable_cost=0.01)


def asked(key: str, view: MadeUp, side: str = "run"):
    """What becomes of a claim by made-up figures, put as to our run or as to the paper."""
    claim = BY_KEY[key]
    return by_paper(replace(claim, paper=getattr(claim, side) or claim.rule), view)


def judged(key: str, side: str = "run", **figures) -> Judgement:
    return asked(key, MadeUp(**figures), side).judgement


def by_budget(values, other):
    """Figures by the budget's name, and of all other budgets."""
    return lambda key: values.get(budget_label(key.budgets[0]), other)


def by_group(first, second):
    return lambda key: first if key.group == key.configuration.groups[0] else second


# An interval that must exclude 0 is asked for its interval, not for its sign.


@pytest.mark.parametrize(
    ("key", "sign"), [("T5", 1), ("T10", 1), ("B4", 1), ("C1", -1), ("C16", -1), ("C5", -1)]
)
def test_an_interval_that_holds_0_does_not_exclude_it(key, sign):
    """The sign alone would be as claimed; 30 ± 20 has the interval [−9, 69]."""
    seeds = (40, 3) if key == "C5" else (28, 3.5)
    clear = NOT_EVIDENCE if key == "C16" else HOLDS
    for value, error, expected in ((30, 20, UNDECIDED), (30, 5, clear), (-30, 5, FAILS)):
        disparity = (value * sign, error)
        assert judged(key, pcer_disparity=disparity, n_negative_seeds=seeds) is expected


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
        assert judged(key, overfitting_gap=gaps, **common) is expected
    if key != "N4":
        assert judged(key, evidence=False, overfitting_gap=exact, **common) is NOT_EVIDENCE


# A tolerance many errors wide is no test: every number that fails lay within the claim's.


@pytest.mark.parametrize(
    ("key", "side", "quantity", "far", "printed"),
    [
        ("V1", "run", "attack_auc", (0.509, 0.0001), (0.5013, 0.00001)),
        ("V2", "run", "attack_auc", (0.515, 0.0001), (0.5110, 0.0001)),
        ("B2", "run", "positive_rate", (0.819, 0.345), (0.86, 0.33)),
        ("B2", "paper", "demographic_parity_gap", (0.45, 0.001), (0.53, 0.001)),
        ("B3", "run", "positive_rate", (0.7, 0.1), (0.6, 0.13)),  # labels: 0.5
        ("T11", "run", "positive_rate", (0.255, 0.0889), (0.255, 0.06)),  # to 0.07
        ("T11", "paper", "demographic_parity_gap", (0.229, 0.001), (0.19, 0.001)),
        ("C7", "run", "equalized_odds_gap", (0.26, 0.001), (0.2285, 0.0001)),
    ],
)
def test_only_a_number_that_is_the_printed_one_bears_it_out(key, side, quantity, far, printed):
    for pair, expected in ((far, FAILS), (printed, HOLDS)):
        if quantity == "positive_rate":  # of both groups
            pair = by_group(*((rate, 0.0005) for rate in pair))
        assert judged(key, side, **{quantity: pair}) is expected


def numbers(*pairs):
    """Numbers with these values and errors."""
    return [
        made(f"n{k}", lambda view, k=k, pair=pair: drawn(*pair, f"n{k}"), r_words, COMPAS)
        for k, pair in enumerate(pairs)
    ]


def test_near_has_the_error_of_the_number():
    """1 ± 1 within 1.5 of 1: folded at 1 the error was 0.6, and that was "holds"."""
    (part,) = near(numbers((1, 1)), (1, 1), 1.5)(None).parts
    assert (part.estimate, part.error) == pytest.approx((1.5, 1.0))
    assert weigh([part]) is NOT_EVIDENCE


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
    assert size(drawn(-0.1, 1, "x"))[1:].std(ddof=1) == pytest.approx(1)
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
    view = MadeUp(
        **dict.fromkeys(names, (level, 0)),
        **dict.fromkeys(("pcer_disparity", "pcer_disparity_auc"), (-level, 0)),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        side = asked(key, view)
    assert side.judgement is UNTESTABLE
    assert why in side.why


# The best of several is corrected for several; so many of so many is no count of signs.


def _best_of_equals(rng):
    """One rival of five lies below the named one beyond its error too often."""
    return best(numbers(*((value, 1.0) for value in rng.standard_normal(6))), [0], what="x")


def _flat(rng):
    """The range of six is wider than any one pair's difference."""
    return flat(numbers(*((10 + value, 1.0) for value in rng.standard_normal(6))), 0.1)


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
    assert all(found.count(judgement) / 200 <= 0.05 for judgement in wrong)


@pytest.mark.parametrize("key", ["T16", "T17", "T3", "C14"])
def test_one_rival_of_five_must_be_beyond_its_error_among_five(key):
    """2.2 errors apart is p = .03 of one rival, and .14 of the best of five."""
    named, other = (0.1093, 0.1) if key == "T3" else (0.1, 0.1093)
    rival = "no-DP" if key == "C14" else "0.1"
    sizes = by_budget({"no-DP": (30, 1)}, (90, 1))
    for value, expected in ((named, UNDECIDED), (named + 2 * (named - other), FAILS)):
        parities = by_budget({rival: (value, 0.003)}, (other, 0.003))
        assert judged(key, demographic_parity_gap=parities, pcer_disparity=sizes) is expected


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
