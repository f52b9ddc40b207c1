"""Declarations against counts: contradictions by hand, true ones left alone, false ones found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.auditing.checks import (
    CHECKS,
    LEVEL,
    Check,
    Finding,
    adjusted_over_checks,
    check_release,
    missing_numbers,
    not_whole,
    variance_inflation,
)
from pcer.auditing.exact import Strata
from pcer.auditing.file import DeclarationFinding
from pcer.auditing.hypergeometric import lower_tails
from pcer.release import Release, parse_release, read_release
from tests.worlds.honest import n_accused
from tests.worlds.lies import LIES, Tree, honest, told
from tests.worlds.releases import World, simulate
from tests.worlds.splits import (
    HONEST,
    Drawn,
    draw_folds,
    draw_split,
    drawn,
    drifting_splits,
    repeated_split,
    splits_by_person,
    table,
)

ROOT = Path(__file__).parents[2]
OURS = sorted([*ROOT.glob("studies/paper/*.release.json"), *ROOT.glob("examples/*.release.json")])
TOTAL = np.array([[3000, 2000], [700, 300]])
QUICK = pcer.Plan(resamples=1, null_draws=1)


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed or 1)


def random_splits(n_splits: int = 3, **fields: object) -> Drawn:
    generator = rng()
    trained = [draw_split(TOTAL, 4200, "nothing", generator) for _ in range(n_splits)]
    return drawn(TOTAL, trained, **fields)


def findings(of: Drawn | Release | Tree) -> list[DeclarationFinding]:
    if isinstance(of, Drawn):
        of = of.release()
    return check_release(of if isinstance(of, Release) else parse_release(of, file="told"))


def names(of: Drawn | Release | Tree) -> list[tuple[str, bool]]:
    return [(one.check, one.caps_verdict) for one in findings(of)]


def declaring(release: Release, **training: object) -> Release:
    """The same release with more said about its training."""
    data = json.loads(release.to_json()) | {"version": 2}
    return parse_release(data | {"training": data["training"] | training}, file="declaring")


# Chance that is shared


def test_the_shares_of_all_checks_make_one():
    for k in (0, 1):
        assert sum(check.shares[k] for check in CHECKS if check.shares) == pytest.approx(1)


def test_holm_over_checks_by_hand():
    def row(name: str, p: float | None, share: float) -> tuple[Check, Finding, float]:
        return Check(name, lambda _: ()), Finding("a", "b", "c", p), share

    rows = [row("group_mix", 1e-5, 0.02), row("totals", None, 1), row("label_mix", 1e-6, 0.4)]
    # 1e-6 / .4 comes first; what is left for the second is .6 of the level.
    second, logic, first = adjusted_over_checks(rows)
    assert (first, second) == (pytest.approx(1e-6 / 0.4), pytest.approx(1e-5 / 0.02 * 0.6))
    assert logic is None


def test_a_finding_of_chance_carries_both_p_values_and_caps_the_verdict():
    audit = pcer.audit(parse_release(told("parts exchanged", rng(2, 1)), file="x"), QUICK)
    (found,) = [one for one in audit.declarations if one.check == "below_zero"]
    assert found.p_value_alone < found.p_value <= LEVEL
    assert found.sentence in audit.trust
    assert audit.verdict is pcer.Verdict.NOT_RESOLVED


# True releases


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_pcers_own_releases_contradict_nothing(path):
    release = read_release(path)
    if release.training.stratified_by not in (None, "label"):
        assert findings(release) == []
        return
    assert findings(declaring(release, stratified_by="label")) == []
    (unsaid,) = findings(declaring(release, stratified_by=None))
    assert (unsaid.check, unsaid.caps_verdict) == ("stratified_by", False)
    assert unsaid.sentence.endswith('declare training.stratified_by "label".')


def test_honest_releases_are_not_accused():
    assert findings(random_splits()) == []
    for k in range(3):
        assert findings(honest(rng(1, k))) == findings(honest(rng(1, k), strata="both")) == []
    assert [n_accused(n_splits, 2) for n_splits in (1, 2, 3)] == [0, 0, 0]


# Lies, each of a stated size


def n_found(name: str, n: int) -> int:
    """In how many of n forgeries the lie is found by the check that is meant to."""
    checks = {LIES[name][1], "split_names"} if "table under" in name else {LIES[name][1]}
    return sum(
        any(one.check in checks for one in findings(told(name, rng(2, k)))) for k in range(n)
    )


@pytest.mark.parametrize(("n", "least"), [(3, 2), pytest.param(200, 190, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(name, n, least):
    assert n_found(name, n) >= least


@pytest.mark.parametrize(
    ("config", "spent", "says"),
    [
        ({"accountant": "pld"}, {"pld": 2.667, "rdp": 2.9}, "(pld) the training spent 2.667"),
        ({}, {"rdp": 3.0, "prv": 2.6}, "(prv) the training spent 2.6"),
        ({"accountant": "pld"}, {"rdp": 3.0}, "(rdp) the training spent 3"),
    ],
)
def test_what_was_spent_is_named_with_its_accountant(config, spent, says):
    tree = told("more spent than promised", rng(2))
    tree["training"]["config"] = config
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run["epsilon_by_accountant"] = spent
    (found,) = findings(tree)
    assert f"by its own accountant {says}" in found.sentence


@pytest.mark.parametrize(
    ("names", "missing"), [(["s1", "s3"], True), (["a1", "b3"], False), ([0, 2], True)]
)
def test_series_and_their_gaps(names, missing):
    assert missing_numbers([3, 1, 4]) == [2]
    assert missing_numbers([0]) == missing_numbers([0, 10**12]) == []
    found = findings(random_splits(2, names=names))
    assert [one.check for one in found] == (["missing_runs"] if missing else [])


# Names of splits


def test_one_split_under_three_names():
    cut = random_splits(1).train[0]
    (finding,) = findings(drawn(TOTAL, [cut] * 3))
    assert finding.caps_verdict
    assert finding.p_value_alone < 1e-8
    assert finding.sentence == (
        "The release names 3 different random splits, but they cut the groups and labels in only "
        "1 way (0 and 1 alike), which has chance "
        f"{finding.p_value_alone:.2g}; give one split one name, or declare training.stratified_by "
        "if groups and labels were balanced."
    )


def test_cells_that_are_balanced_may_be_cut_alike_if_that_is_said():
    unsaid = drawn(TOTAL, [np.rint(0.7 * TOTAL)] * 5)
    assert ("split_names", True) in names(unsaid)
    assert findings(replace(unsaid, stratified_by="both")) == []


@pytest.mark.parametrize(
    ("split_names", "caps", "says"),
    [
        (["a", "b", "a"], True, "2 runs name split 'a', but they cut the groups in 2 different"),
        ([None] * 3, False, "3 runs name no split and count as one, but they cut the groups in 3"),
    ],
)
def test_one_name_for_two_splits_is_impossible_and_none_is_told_to_count(split_names, caps, says):
    (finding,) = findings(random_splits(names=split_names))
    assert (finding.check, finding.p_value, finding.caps_verdict) == ("split_names", None, caps)
    assert says in finding.sentence


def test_repeated_names_do_not_count_as_evidence_of_anything_else():
    once = drifting_splits(rng(7), rate=0.4, drift=0.02, n_splits=1)
    assert not findings(once)
    again = replace(once, train=once.train.repeat(20, axis=0), test=once.test.repeat(20, axis=0))
    assert names(again) == [("split_names", True)]


def test_folds_follow_from_each_other():
    parts = draw_folds(TOTAL, 5, "nothing", rng(8))
    assert findings(drawn(TOTAL, parts)) == findings(drawn(TOTAL, [*parts, *parts])) == []


# Balance and the mix of labels and groups


def test_a_split_that_is_not_said_to_be_random_is_asked_for_logic_alone():
    drift = drifting_splits(rng(), rate=0.3, drift=0.3, n_splits=2)
    assert findings(drift)
    other = replace(drift, more={"split_kind": "other"})
    assert findings(other) == []
    assert names(replace(other, names=["a", "a"])) == [("split_names", True)]


def test_the_drift_of_a_groups_labels_is_named():
    train = np.array([[[3500.0, 3500.0], [4900.0, 2100.0]]])
    test = np.array([[[1500.0, 1500.0], [1950.0, 1050.0]]])
    (finding,) = findings(Drawn(train=train, test=test, names=["2019"]))
    assert finding.check == "label_mix"
    assert finding.sentence.startswith(
        "The split is said to be random, but 30.0 % of the training records of group 'g1' have a "
        "positive label in split '2019' and 35.0 % of its test records, which has chance "
    )
    # Either side of what is expected in 7,000 of 10,000; two groups are tested.
    both = 2 * 2 * stats.hypergeom(10_000, 3150, 7000).cdf(2100)
    assert finding.p_value_alone == pytest.approx(both, rel=1e-4)


def test_a_group_that_is_mostly_in_one_part_is_named():
    total, cut = np.array([[5000, 5000], [600, 600]]), np.array([[3500, 3500], [350, 350]])
    (finding,) = findings(drawn(total, [cut]))
    assert finding.check == "group_mix"
    says = "group 'g0' is 90.9 % of the training records in split 0 and 85.7 % of the test"
    assert says in finding.sentence


@pytest.mark.parametrize("strata", ["label", "group", "both"])
def test_what_is_declared_balanced_must_be(strata):
    (finding,) = [
        one for one in findings(random_splits(5, stratified_by=strata)) if one.p_value is None
    ]
    assert (finding.check, finding.caps_verdict) == ("stratified_by", True)
    assert "which rounding cannot" in finding.sentence
    generator = rng(2)
    true = [draw_split(TOTAL, 4199, strata, generator) for _ in range(3)]
    assert findings(drawn(TOTAL, true, stratified_by=strata)) == []
    finer = np.rint(0.7 * TOTAL) + np.array([[3, -3], [-3, 3]])  # finer strata add roundings
    assert findings(drawn(TOTAL, [finer], stratified_by="both")) == []


def test_people_without_a_group_unbalance_the_labels_of_the_others():
    release = random_splits(stratified_by="label").release()
    some = release.subject.model_copy(update={"n_missing_group": 5})
    for of, is_found in ((release, True), (release.model_copy(update={"subject": some}), False)):
        assert ("stratified_by" in {one.check for one in findings(of)}) is is_found


@pytest.mark.parametrize(("said", "caps"), [(None, False), ("nothing", True)])
def test_balance_that_is_denied_caps_and_balance_that_is_not_mentioned_does_not(said, caps):
    generator = rng(5)
    cuts = [draw_split(TOTAL, 4200, "label", generator) for _ in range(5)]
    (finding,) = findings(drawn(TOTAL, cuts, stratified_by=said))
    assert (finding.check, finding.caps_verdict) == ("stratified_by", caps)
    assert "all 5 are balanced by label to the last record" in finding.sentence


def test_without_labels_the_groups_are_checked_whatever_they_were_balanced_on():
    tree = json.loads((ROOT / "tests" / "releases" / "rates.release.json").read_text())
    first, second = tree["subject"]["groups"]
    for run in tree["runs"]:
        for name, n, m in ((first, 7000, 3000), (second, 700, 500)):
            tables = run["groups"][name]
            tables["train"], tables["test"] = {"n": n}, {"n": m}
    tree["subject"].pop("n_records", None)
    for said in (None, "nothing", "label"):
        tree["training"] |= {"split_kind": "random", "stratified_by": said}
        assert {"group_mix"} <= {one.check for one in findings(tree | {"version": 2})}
    tree["training"]["stratified_by"] = "group"
    assert "group_mix" not in {one.check for one in findings(tree | {"version": 2})}


# Units that are not records


def test_a_unit_that_is_no_record_needs_its_effective_number():
    for said in ({}, {"effective_units": {"g0": 2500.0}}):
        by_person = random_splits(more={"unit_of_split": "person"} | said)
        assert names(by_person) == [("unit_of_split", True)]
        assert variance_inflation(by_person.release()) is None
    known = random_splits(effective_units=np.array([2500.0, 500.0]))
    assert findings(known) == []
    assert variance_inflation(known.release()).tolist() == [2, 2]
    (finding,) = findings(random_splits(effective_units=np.array([2500.0, 1001.0])))
    assert "Group 'g1' is said to be worth 1,001 units (person), but it has only 1,000" in (
        finding.sentence
    )


# Rates of whole people


@pytest.mark.parametrize(
    ("value", "n", "whole"),
    [
        (2 / 3, 3, True),
        (0.667, 3, True),
        (0.666, 3, False),
        (0.6, 3, False),
        (float(np.float32(2 / 3)), 3, True),
        (0.8531, 1000, False),
        (85.3 / 100, 1000, True),
        (0.850001, 10**6, True),
        (0.8500005, 10**6, False),
        (1.0, 7, True),
        (np.nan, 7, True),
        (0.123, np.nan, True),
    ],
)
def test_a_rate_of_n_people_is_a_whole_number_within_rounding(value, n, whole):
    assert bool(not_whole(np.array([value]), np.array([float(n)]))[0]) is not whole


def test_no_rounded_share_is_accused():
    generator = rng(4)
    n = generator.integers(1, 5000, 20_000).astype(float)
    value = generator.binomial(n.astype(int), 0.8) / n
    assert not any(not_whole(np.round(value, decimals), n).any() for decimals in (2, 4, 15))


def test_averages_are_not_shares_of_people():
    data = json.loads((ROOT / "tests" / "releases" / "rates.release.json").read_text())
    assert findings(data) == []
    data["runs"][0]["groups"][data["subject"]["groups"][0]]["train"]["accuracy"] = 0.77777
    (finding,) = findings(data)
    assert (finding.check, finding.caps_verdict) == ("whole_numbers", True)
    assert "no whole number within rounding (so for 1 of " in finding.sentence


# Spreads of accuracies


def spread(deviations: list[int]) -> Release:
    """Two groups of 10,000, half of them trained on, 80 % right; hits have a deviation of 20."""
    splits = drawn(np.full((2, 2), 5_000), [np.full((2, 2), 2_500)] * len(deviations))
    release = replace(splits, stratified_by="both").release()
    for run, more in zip(release.runs, deviations, strict=True):
        for name, tables in list(run.groups.items()):
            hits = np.array([2_000, 2_000 + (more if name == "g1" else 0)])
            parts = {"train": hits, "test": 4_000 - hits}
            cells = {part: table(np.full(2, 2_500), right) for part, right in parts.items()}
            run.groups[name] = tables.model_copy(update=cells)
    return release


def test_a_spread_that_records_cannot_have_is_a_contradiction():
    assert ("dispersion", True) not in names(spread([20, -20, 1]))
    wide = spread([80, -80, 1])
    (finding,) = [one for one in findings(wide) if one.check == "dispersion"]
    assert "at no-DP the accuracy difference of group 'g1' varies more over 3 splits" in (
        finding.sentence
    )
    units = {"unit_of_split": "person", "effective_units": {"g0": 1000.0, "g1": 500.0}}
    clumped = wide.model_copy(update={"training": wide.training.model_copy(update=units)})
    assert findings(clumped) == []
    assert findings(spread([400, 480, 440])) == []  # a plain mean: they memorise unequally


def test_a_lower_tail_is_hypergeometric():
    strata = Strata(*(np.full((1, 1, 1), float(n)) for n in (100, 70, 80, 50)))
    (p,), (clumped,) = (lower_tails(strata, np.array([n])) for n in (1.0, 4.0))
    exact = stats.hypergeom(100, 80, 70)
    assert p == pytest.approx(exact.cdf(50), rel=1e-6)
    assert clumped == pytest.approx(stats.norm.cdf((50.5 - 56) / (2 * exact.std())), rel=1e-6)


WORLD = World(
    sizes=(4000, 900),
    label_shares=(0.4, 0.3),
    right=[(0.8, 0.7)] * 2,
    gaps=(0.0, 0.0),
    n_seeds=4,
    budgets=(1.0, None),
)


def test_a_run_that_hides_a_groups_accuracy_is_left_out_of_the_spread():
    release = declaring(simulate(WORLD, rng(9)), stratified_by="label")
    data = json.loads(release.to_json())
    tables = data["runs"][0]["groups"]["g1"]
    for part in ("train", "test"):
        tables[part] = {"n": sum(tables[part].values())}
    assert findings(data) == []


def test_invented_settings_dilute_nothing_unseen():
    tree = honest(rng(1, 1))
    null = [run for run in tree["runs"] if run["epsilon"] is None]
    strong = [{**run, "model": "real"} for run in null]
    invented = [{**run, "model": f"made {k}"} for k in range(60) for run in null[:1]]
    tree |= {"runs": strong + invented, "pooled_exposure": []}
    audit = pcer.audit(parse_release(tree, file="x"), QUICK)
    real = next(one for one in audit.budgets if one.model == "real")
    for group in real.groups.values():
        assert group.p_value_alone < group.p_value or group.p_value == 1e-12


def test_costs_that_no_computer_can_square_are_refused():
    for field, value in (("standard_error", 1e300), ("value", -1e300)):
        tree = honest(rng(1))
        tree["pooled_exposure"][0][field] = value
        with pytest.raises(pcer.InputError):
            parse_release(tree, file="x")
        tree["pooled_exposure"][0][field] = value / 1e286
        pcer.audit(parse_release(tree, file="x"), QUICK)


# Placebo groups


@pytest.mark.parametrize(
    ("fields", "is_far"),
    [
        ({"n_exact": 20, "exact_difference": 1.26}, True),
        ({"n_exact": 20, "exact_difference": 0.5}, False),
        ({"n_exact": 4, "exact_difference": 2}, False),
        ({}, False),
    ],
)
def test_placebo_groups_far_from_the_exact_attack_are_a_finding(fields, is_far):
    release = read_release(ROOT / "tests" / "releases" / "version-2.release.json")
    row = next(row for row in release.placebo if row.proxy == "lira_advantage")
    rows = [*release.placebo[:1], row.model_copy(update=fields)]
    found = names(release.model_copy(update={"version": 3, "placebo": rows}))
    assert (("placebo_exact", False) in found) is is_far


# How often: true declarations are accused in at most one of a hundred, false ones are found

N_TRUE = 250
TRUE = {name: world for name, world in HONEST.items() if name != "folds by label"} | {
    "by person": lambda g: splits_by_person(g, declared=True, n_splits=3)
}


def n_capped(world: Callable[[np.random.Generator], Drawn], n: int, seed: int) -> int:
    generator, made = rng(seed), []
    while len(made) < n:
        made += [one for one in [world(generator)] if one.is_usable]
    return sum(any(found.caps_verdict for found in findings(one)) for one in made)


def rarely(n_accused: int, n: int, p: float = 0.01) -> bool:
    return bool(stats.binomtest(n_accused, n, LEVEL, alternative="greater").pvalue > p)


@pytest.mark.slow
def test_true_declarations_are_accused_in_at_most_one_of_a_hundred():
    accused = {name: n_capped(world, N_TRUE, k) for k, (name, world) in enumerate(TRUE.items())}
    assert rarely(sum(accused.values()), N_TRUE * len(TRUE)), accused
    assert all(rarely(n, N_TRUE, 0.01 / len(TRUE)) for n in accused.values()), accused
    assert rarely(sum(bool(findings(honest(rng(3, k)))) for k in range(300)), 300)


@pytest.mark.slow
@pytest.mark.parametrize("n_splits", [1, 2, 3, 5])
def test_honest_estimators_are_accused_in_at_most_one_of_a_hundred(n_splits):
    assert rarely(n_accused(n_splits, 200), 200)


@pytest.mark.slow
def test_memorising_alone_spreads_no_wider_than_is_allowed():
    world, generator = replace(WORLD, gaps=(0.15, 0.05), n_seeds=20, budgets=(None,)), rng(11)
    accused = [
        findings(declaring(simulate(world, generator), stratified_by="label")) for _ in range(50)
    ]
    assert sum(map(bool, accused)) <= 2


FALSE = {
    "two names": lambda g: repeated_split(g, "nothing", n_names=2),
    "two names by label": lambda g: repeated_split(g, "label", n_names=2),
    "twenty names": lambda g: repeated_split(g, "nothing", n_names=20),
    "drift from .2": lambda g: drifting_splits(g, rate=0.2, drift=0.05, n_splits=1),
    "drift from .475, two splits": lambda g: drifting_splits(g, rate=0.475, drift=0.05, n_splits=2),
    "clumps": lambda g: splits_by_person(g, declared=False, n_splits=10),
}


@pytest.mark.parametrize(("n", "least"), [(10, 9), pytest.param(200, 190, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FALSE)
def test_false_declarations_are_found(name, n, least):
    assert n_capped(FALSE[name], n, 30) >= least
