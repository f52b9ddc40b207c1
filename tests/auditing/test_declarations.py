"""Declarations against counts: contradictions by hand, true ones left alone, false ones found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pcer.auditing.claims import Claims, PrintedRates, SplitSpread, claims_of, distinct_splits, kish
from pcer.auditing.composition import Composition
from pcer.auditing.declarations import assumed_strata, check_declarations, not_whole
from pcer.auditing.exact import Strata
from pcer.auditing.finding import LEVEL, LEVELS_OF_ONE_SPLIT, LEVELS_OF_SEVERAL, Finding
from pcer.release.format import Release, parse_release, read_release
from tests.worlds.releases import World, simulate
from tests.worlds.splits import (
    claims_about,
    draw_folds,
    draw_split,
    drifting_claims,
    fold_claims,
    person_claims,
    repeated_claims,
    true_claims,
)

ROOT = Path(__file__).parents[2]
OURS = sorted([*ROOT.glob("studies/paper/*.release.json"), *ROOT.glob("examples/*.release.json")])
TOTAL = np.array([[3000, 2000], [700, 300]])


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_claims(n_splits: int = 3, seed: int = 1) -> Claims:
    generator = rng(seed)
    trained = [draw_split(TOTAL, 4200, "nothing", generator) for _ in range(n_splits)]
    return claims_about(TOTAL, trained, generator)


def declaring(release: Release, **training: object) -> Release:
    """The same release with more said about its training."""
    data = json.loads(release.to_json()) | {"version": 2}
    return parse_release(data | {"training": data["training"] | training}, file="declaring")


def found(claims: Claims, check: str) -> list[Finding]:
    return [finding for finding in check_declarations(claims) if finding.check == check]


def capped(claims: Claims) -> bool:
    return any(finding.caps_verdict for finding in check_declarations(claims))


def share(world: Callable[[np.random.Generator], Claims], n: int, seed: int) -> float:
    generator = rng(seed)
    return float(np.mean([capped(world(generator)) for _ in range(n)]))


def test_the_levels_of_all_checks_make_one():
    assert LEVEL == 0.01
    for levels in (LEVELS_OF_ONE_SPLIT, LEVELS_OF_SEVERAL):
        assert sum(levels.values()) == pytest.approx(LEVEL)


def test_true_declarations_leave_nothing_to_say():
    assert check_declarations(random_claims()) == ()


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_pcers_own_releases_contradict_nothing(path):
    release = read_release(path)
    if release.training.stratified_by not in (None, "label"):
        assert check_declarations(claims_of(release)) == ()
        return
    assert check_declarations(claims_of(declaring(release, stratified_by="label"))) == ()
    unsaid = check_declarations(claims_of(declaring(release, stratified_by=None)))
    assert [finding.check for finding in unsaid] == ["stratified_by"]
    assert unsaid[0].remedy == 'declare training.stratified_by "label"'
    assert not unsaid[0].caps_verdict


def test_small_groups_balanced_by_label_may_be_cut_alike():
    release = read_release(ROOT / "studies" / "paper" / "bios.gender.release.json")
    names, cuts = distinct_splits(claims_of(release))
    assert (len(names), len(np.unique(cuts.train, axis=0))) == (50, 44)
    assert assumed_strata(claims_of(release), cuts) == "label"


def test_one_split_under_three_names():
    claims = random_claims(1)
    same = claims_about(TOTAL, [claims.runs.train[0]] * 3, rng())
    (finding,) = check_declarations(same)
    assert finding.caps_verdict
    assert finding.p_value < 1e-8
    assert finding.sentence == (
        "The release names 3 different random splits, but they cut the groups and labels in only "
        "1 way (0 and 1 alike), which has chance "
        f"{finding.p_value:.2g}; give one split one name, or declare training.stratified_by if "
        "groups and labels were balanced."
    )


def test_cells_that_are_balanced_may_be_cut_alike_if_that_is_said():
    cut = np.rint(0.7 * TOTAL)
    unsaid = claims_about(TOTAL, [cut] * 5, rng())
    assert [finding.caps_verdict for finding in found(unsaid, "split_names")] == [True]
    assert check_declarations(replace(unsaid, stratified_by="both")) == ()


def test_one_name_for_two_splits_is_impossible():
    claims = replace(random_claims(), split_names=("a", "b", "a"))
    (finding,) = found(claims, "split_names")
    assert finding.p_value is None
    assert finding.caps_verdict
    assert finding.sentence == (
        "2 runs name split 'a', but they cut the groups in 2 different ways, and one split has "
        "one; give every split a name of its own."
    )


def test_runs_without_names_are_told_that_they_could_count():
    claims = replace(random_claims(), split_names=(None, None, None))
    (finding,) = check_declarations(claims)
    assert (finding.check, finding.caps_verdict) == ("split_names", False)
    assert "runs[].split" in finding.remedy


def test_a_split_that_is_not_said_to_be_random_is_asked_for_logic_alone():
    claims = drifting_claims(rng(), rate=0.3, drift=0.3, n_splits=2)
    assert capped(claims)
    other = replace(claims, random=False)
    assert check_declarations(other) == ()
    assert capped(replace(other, split_names=("a", "a")))


def test_the_drift_of_a_groups_labels_is_named():
    train = np.array([[[3500.0, 3500.0], [4900.0, 2100.0]]])
    test = np.array([[[1500.0, 1500.0], [1950.0, 1050.0]]])
    claims = replace(claims_about(train[0] + test[0], list(train), rng()), split_names=("2019",))
    (finding,) = check_declarations(claims)
    assert finding.check == "label_mix"
    assert finding.sentence.startswith(
        "The split is said to be random, but 30.0 % of the training records of group 'g1' have a "
        "positive label in split '2019' and 35.0 % of its test records, which has chance "
    )
    # 50 points of 1,000 expected in 7,000 of 10,000: two groups are tested.
    exact = stats.hypergeom(10_000, 3150, 7000)
    assert finding.p_value == pytest.approx(2 * (exact.cdf(2100) + exact.sf(2309)), rel=1e-6)


def test_a_group_that_is_mostly_in_one_part_is_named():
    train = np.array([[[3500, 3500], [350, 350]]])
    total = np.array([[5000, 5000], [600, 600]])
    claims = claims_about(total, list(train), rng())
    (finding,) = check_declarations(claims)
    assert finding.check == "group_mix"
    assert "group 'g0' is 90.9 % of the training records in split 0 and 85.7 % of the test" in (
        finding.found
    )


@pytest.mark.parametrize("strata", ["label", "group", "both"])
def test_what_is_declared_balanced_must_be(strata):
    claims = replace(random_claims(5), stratified_by=strata)
    (finding,) = found(claims, "stratified_by")
    assert finding.caps_verdict
    assert finding.p_value is None
    assert "which rounding cannot" in finding.found
    generator = rng(2)
    true = [draw_split(TOTAL, 4199, strata, generator) for _ in range(3)]
    assert check_declarations(claims_about(TOTAL, true, generator, stratified_by=strata)) == ()


def test_strata_finer_than_the_declared_ones_only_add_roundings():
    cut = np.rint(0.7 * TOTAL) + np.array([[3, -3], [-3, 3]])
    claims = claims_about(TOTAL, [cut], rng(), stratified_by="both")
    assert check_declarations(claims) == ()


def test_people_without_a_group_unbalance_the_labels_of_the_others():
    claims = replace(random_claims(), stratified_by="label")
    assert found(claims, "stratified_by")
    assert not found(replace(claims, is_complete=False), "stratified_by")


def test_balance_that_is_denied_caps_and_balance_that_is_not_mentioned_does_not():
    generator = rng(5)
    cuts = [draw_split(TOTAL, 4200, "label", generator) for _ in range(5)]
    for said, caps in ((None, False), ("nothing", True)):
        (finding,) = check_declarations(claims_about(TOTAL, cuts, generator, stratified_by=said))
        assert (finding.check, finding.caps_verdict) == ("stratified_by", caps)
        assert "all 5 are balanced by label to the last record" in finding.found


def test_a_unit_that_is_no_record_needs_its_effective_number():
    claims = replace(random_claims(), unit_of_split="person")
    (finding,) = check_declarations(claims)
    assert (finding.check, finding.caps_verdict) == ("unit_of_split", True)
    assert "training.effective_units" in finding.remedy
    assert check_declarations(replace(claims, effective_units=np.array([2500.0, 500.0]))) == ()
    (finding,) = check_declarations(replace(claims, effective_units=np.array([2500.0, 1001.0])))
    assert finding.sentence == (
        "Group 'g1' is said to be worth 1,001 units (person), but it has only 1,000 records; give "
        "Kish's effective number, (Σm)²/Σm² over units of m records."
    )


def test_kish_counts_units_by_their_weight():
    assert kish(np.ones(7)) == 7
    assert kish(np.full(7, 3.0)) == 7
    assert kish(np.array([8.0, 1.0, 1.0])) == pytest.approx(100 / 66)


def test_clumps_widen_every_null():
    claims = replace(
        random_claims(), unit_of_split="person", effective_units=np.array([2500.0, 1000.0])
    )
    assert claims.inflation.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("value", "n", "whole"),
    [
        (2 / 3, 3, True),
        (0.667, 3, True),
        (0.666, 3, False),
        (0.67, 3, True),
        (0.7, 3, True),
        (0.6, 3, False),
        (float(np.float32(2 / 3)), 3, True),
        (0.8531, 1000, False),
        (0.853, 1000, True),
        (85.3 / 100, 1000, True),
        (0.85, 10**6, True),
        (0.850001, 10**6, True),
        (0.8500005, 10**6, False),
        (1.0, 7, True),
        (0.0, 7, True),
        (np.nan, 7, True),
        (0.123, np.nan, True),
    ],
)
def test_a_rate_of_n_people_is_a_whole_number_within_rounding(value, n, whole):
    assert bool(not_whole(np.array([value]), np.array([float(n)]))[0]) is not whole


@pytest.mark.parametrize("decimals", [2, 3, 4, 6, 15])
def test_no_rounded_share_is_accused(decimals):
    generator = rng(decimals)
    n = generator.integers(1, 5000, 20_000).astype(float)
    value = np.round(generator.binomial(n.astype(int), 0.8) / n, decimals)
    assert not not_whole(value, n).any()


def test_averages_are_not_shares_of_people():
    rates = PrintedRates(
        setting="no-DP",
        what="test accuracy",
        value=np.array([[0.82, 0.7833], [0.81, 0.79]]),
        n=np.full((2, 2), 100.0),
    )
    (finding,) = check_declarations(replace(random_claims(2), rates=(rates,)))
    assert finding.caps_verdict
    assert finding.sentence == (
        "At no-DP the test accuracy of group 'g1' is 0.7833 of 100 records, but that is 78.33 "
        "records, no whole number within rounding (so for 1 of 4 such rates); give every run its "
        "own rates, and the number of records they are of."
    )


def spread_of(excess: list[int]) -> SplitSpread:
    """Two groups of 10,000, half of them trained on, 80 % right; the first one varies too."""
    shape = (1, len(excess), 2)
    hits = np.full(shape, 4000.0)
    hits[0, :, 0] += np.resize([15, -12, 3], len(excess))
    hits[0, :, 1] += excess
    parts = (np.full(shape, n) for n in (10_000.0, 5_000.0, 8_000.0))
    return SplitSpread(setting="ε = 1", strata=Strata(*parts, hits))


def test_a_spread_that_records_cannot_have_is_a_contradiction():
    # The hits have a deviation of 20.
    claims = replace(random_claims(), spreads=(spread_of([20, -20, 0]),))
    assert check_declarations(claims) == ()
    claims = replace(claims, spreads=(spread_of([100, -100, 0]),))
    (finding,) = check_declarations(claims)
    assert (finding.check, finding.caps_verdict) == ("dispersion", True)
    assert finding.p_value == pytest.approx(2 * stats.chi2.sf(2 * 100**2 / 400, 2), rel=0.05)
    assert "at ε = 1 the accuracy difference of group 'g1' varies more over 3 splits" in (
        finding.found
    )
    clumped = replace(claims, unit_of_split="person", effective_units=np.array([1000.0, 200.0]))
    assert check_declarations(clumped) == ()


def test_models_that_plainly_memorise_may_do_so_unequally():
    claims = replace(random_claims(), spreads=(spread_of([400, 500, 600]),))
    assert check_declarations(claims) == ()


def test_repeated_names_do_not_count_as_evidence_of_anything_else():
    claims = drifting_claims(rng(7), rate=0.4, drift=0.02, n_splits=1)
    assert not check_declarations(claims)
    runs = Composition(
        train=claims.runs.train.repeat(20, axis=0), test=claims.runs.test.repeat(20, axis=0)
    )
    sizes = Composition(
        train=claims.sizes.train.repeat(20, axis=0), test=claims.sizes.test.repeat(20, axis=0)
    )
    again = replace(claims, runs=runs, sizes=sizes, split_names=tuple(range(20)))
    assert [finding.check for finding in check_declarations(again)] == ["split_names"]


def test_second_set_of_the_same_folds_is_found():
    folds = draw_folds(TOTAL, 5, "nothing", rng(8))
    assert check_declarations(claims_about(TOTAL, folds, rng())) == ()
    (finding,) = check_declarations(claims_about(TOTAL, [*folds, *folds], rng()))
    assert finding.check == "split_names"


WORLD = World(
    sizes=(4000, 900),
    label_shares=(0.4, 0.3),
    right=[(0.8, 0.7)] * 2,
    gaps=(0.0, 0.0),
    n_seeds=4,
    budgets=(1.0, None),
)


def test_claims_of_a_release():
    release = simulate(WORLD, rng(9))
    claims = claims_of(
        declaring(
            release,
            stratified_by="label",
            unit_of_split="person",
            effective_units={"g1": 300.0, "g0": 2000.0},
        )
    )
    assert claims.stratified_by == "label"
    assert claims.random
    assert claims.split_names == tuple(f"split {seed}" for seed in range(4)) * 2
    assert claims.records.tolist() == [4000, 900]
    assert claims.effective_units.tolist() == [2000, 300]
    assert claims.inflation.tolist() == [2, 3]
    assert [spread.setting for spread in claims.spreads] == ["ε = 1", "no-DP"]
    assert not claims.is_complete
    first = release.runs[0].groups["g1"].train
    assert claims.runs.train[0, 1].tolist() == [first.tn + first.fp, first.tp + first.fn]
    names, cuts = distinct_splits(claims)
    assert (len(names), cuts.train.shape) == (4, (4, 2, 2))
    assert check_declarations(claims_of(declaring(release, stratified_by="label"))) == ()


def test_effective_numbers_are_given_for_all_groups_or_not_at_all():
    release = simulate(WORLD, rng(9))
    claims = claims_of(declaring(release, unit_of_split="person", effective_units={"g0": 2000.0}))
    assert claims.effective_units is None


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_first_seed_of_a_split_speaks_for_it(seeds):
    world = replace(WORLD, n_seeds=seeds, one_split=True)
    claims = claims_of(simulate(world, rng(10)))
    assert [spread.strata.hits.shape for spread in claims.spreads] == [(2, 1, 2)] * 2
    assert distinct_splits(claims)[0] == ("only",)


def test_a_run_that_hides_a_groups_accuracy_is_left_out_of_the_spread():
    release = declaring(simulate(WORLD, rng(9)), stratified_by="label")
    data = json.loads(release.to_json())
    tables = data["runs"][0]["groups"]["g1"]
    for part in ("train", "test"):
        tables[part] = {"n": sum(tables[part].values())}
    claims = claims_of(parse_release(data, file="coarse"))
    assert [spread.strata.hits.shape[1] for spread in claims.spreads] == [3, 4]
    assert all(np.isfinite(part).all() for spread in claims.spreads for part in spread.strata)
    assert check_declarations(claims) == ()


def test_rates_with_sizes_are_checked_by_group_and_for_whole_numbers():
    data = json.loads((ROOT / "tests" / "releases" / "rates.release.json").read_text())
    claims = claims_of(parse_release(data, file="rates"))
    assert claims.runs is None
    assert {rates.what for rates in claims.rates} == {
        "training accuracy",
        "test accuracy",
        "positive rate",
    }
    assert not distinct_splits(claims)[1].has_labels
    assert check_declarations(claims) == ()
    data["runs"][0]["groups"][data["subject"]["groups"][0]]["train"]["accuracy"] = 0.77777
    broken = check_declarations(claims_of(parse_release(data, file="rates")))
    assert [finding.check for finding in broken] == ["whole_numbers"]


def test_without_labels_the_groups_are_checked_whatever_they_were_balanced_on():
    sizes = Composition(train=np.array([[[7000.0], [700.0]]]), test=np.array([[[3000.0], [500.0]]]))
    claims = replace(random_claims(1), runs=None, sizes=sizes, spreads=())
    for said in (None, "nothing", "label"):
        (finding,) = check_declarations(replace(claims, stratified_by=said))
        assert finding.check == "group_mix"
    (finding,) = check_declarations(replace(claims, stratified_by="group"))
    assert finding.check == "stratified_by"


def test_memorising_alone_spreads_no_wider_than_is_allowed():
    world = replace(WORLD, gaps=(0.15, 0.05), n_seeds=20, budgets=(None,))
    generator = rng(11)
    accused = [
        capped(claims_of(declaring(simulate(world, generator), stratified_by="label")))
        for _ in range(50)
    ]
    assert sum(accused) <= 2


def test_labels_that_some_run_of_a_split_gives_are_enough():
    claims = random_claims(2)
    train = np.concatenate([claims.runs.train, claims.runs.train])
    test = np.concatenate([claims.runs.test, claims.runs.test])
    train[0, 1] = np.nan
    sizes = Composition(train=np.nansum(train, axis=2)[..., None], test=test.sum(axis=2)[..., None])
    both = replace(
        claims,
        split_names=(0, 1, 0, 1),
        runs=Composition(train=train, test=test),
        sizes=replace(sizes, train=claims.sizes.train[[0, 1, 0, 1]]),
    )
    assert distinct_splits(both)[1].train.tolist() == claims.runs.train.tolist()
    train[2, 1] = np.nan
    assert distinct_splits(both)[1].train.tolist() == claims.sizes.train.tolist()
    assert check_declarations(both) == ()


# What the issue asks for, in simulated releases. ``benchmarks/alarms.py`` has more of each.

N_TRUE = 250
TRUE = {
    "random": lambda g: true_claims(g, "nothing", declared=True),
    "random, nothing said": lambda g: true_claims(g, "nothing", declared=False),
    "by label": lambda g: true_claims(g, "label", declared=True),
    "by label, nothing said": lambda g: true_claims(g, "label", declared=False),
    "by group": lambda g: true_claims(g, "group", declared=True),
    "by both": lambda g: true_claims(g, "both", declared=True),
    "folds": lambda g: fold_claims(g, "nothing", declared=True),
    "by person": lambda g: person_claims(g, declared=True, n_splits=3),
}


def test_true_declarations_are_accused_in_at_most_one_of_a_hundred():
    accused = [share(world, N_TRUE, seed) for seed, world in enumerate(TRUE.values())]
    n = N_TRUE * len(TRUE)
    test = stats.binomtest(round(N_TRUE * sum(accused)), n, LEVEL, alternative="greater")
    assert n == 2000
    assert test.pvalue > 0.01, dict(zip(TRUE, accused, strict=True))
    for name, one in zip(TRUE, accused, strict=True):
        assert stats.binomtest(round(N_TRUE * one), N_TRUE, LEVEL, alternative="greater").pvalue > (
            0.01 / len(TRUE)
        ), name


@pytest.mark.parametrize(
    ("strata", "n_names"), [("nothing", 2), ("label", 2), ("label", 3), ("nothing", 20)]
)
def test_one_split_under_several_names_is_found(strata, n_names):
    world = lambda g: repeated_claims(g, strata, n_names=n_names)  # noqa: E731
    assert share(world, 200, 30) >= 0.95


@pytest.mark.parametrize(
    ("rate", "n_splits", "n"), [(0.2, 1, 200), (0.475, 1, 800), (0.475, 2, 200), (0.35, 10, 100)]
)
def test_a_drift_of_five_points_in_one_group_is_found(rate, n_splits, n):
    world = lambda g: drifting_claims(g, rate=rate, drift=0.05, n_splits=n_splits)  # noqa: E731
    assert share(world, n, 31) >= 0.95


def test_clumps_that_nobody_mentions_are_found():
    world = lambda g: person_claims(g, declared=False, n_splits=10)  # noqa: E731
    assert share(world, 100, 33) >= 0.95


def with_placebo(**fields: object) -> Claims:
    release = read_release(ROOT / "tests" / "releases" / "version-2.release.json")
    row = next(row for row in release.placebo if row.proxy == "lira_advantage")
    rows = [*release.placebo[:1], row.model_copy(update=fields)]
    return claims_of(release.model_copy(update={"version": 3, "placebo": rows}))


def test_made_up_groups_far_from_the_exact_attack_are_a_finding():
    (finding,) = found(with_placebo(n_exact=20, exact_difference=1.26), "placebo_exact")
    assert not finding.caps_verdict
    assert finding.p_value is None
    assert finding.sentence == (
        "At no-DP made-up groups were put through a quick form of LiRA, but where 20 of them met "
        "the attack itself, their differences were 1.3 standard errors away on "
        "average, and 0.5 is allowed (so for 1 of 1 such checks); hold alarms about exposure by "
        "this attack against paired confidence."
    )


@pytest.mark.parametrize(
    "fields", [{}, {"n_exact": 20, "exact_difference": 0.5}, {"n_exact": 4, "exact_difference": 2}]
)
def test_made_up_groups_near_the_exact_attack_are_none(fields):
    """Nor are they where the file does not say, or too few were attacked."""
    assert found(with_placebo(**fields), "placebo_exact") == []
