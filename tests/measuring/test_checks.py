"""Declarations against counts: what is found, word for word, and how often."""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.measuring.checks import (
    CHECKS,
    Check,
    Contradiction,
    DeclarationFinding,
    adjusted_over_checks,
    check_release,
)
from pcer.measuring.checks.arrays import LEVEL, Finding, ReleaseArrays
from pcer.measuring.checks.logic import missing_numbers, not_whole
from pcer.measuring.exact import Strata
from pcer.measuring.hypergeometric import lower_tails
from pcer.release import Release, parse_release, read_release
from tests.worlds.lies import LIES, Tree, fitted_release, honest, n_accused, told
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
    splits_of_pairs,
    table,
)

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden" / "findings.txt"
OURS = sorted(
    [*ROOT.glob("studies/paper/*.release.json"), *ROOT.glob("examples/*.release.json")]
)
RELEASES = ROOT / "tests" / "releases"
TOTAL = np.array([[3000, 2000], [700, 300]])
QUICK = pcer.Plan(resamples=1, null_draws=1)
STRATA = ("label", "group", "both")
WORLD = World(
    sizes=(4000, 900),
    label_shares=(0.4, 0.3),
    right=[(0.8, 0.7)] * 2,
    gaps=(0.0, 0.0),
    n_seeds=4,
    budgets=(1.0, None),
)


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed or 1)


def cut(
    n_splits: int = 3, *, strata: str = "nothing", seed: int = 1, **fields: object
) -> Drawn:
    """Random splits of one data set, and what is said of them."""
    generator = rng(seed)
    trained = [draw_split(TOTAL, 4200, strata, generator) for _ in range(n_splits)]
    return drawn(TOTAL, trained, **fields)


def findings(of: Drawn | Release | Tree) -> list[DeclarationFinding]:
    if isinstance(of, Drawn):
        of = of.release()
    return check_release(
        of if isinstance(of, Release) else parse_release(of, file="told")
    )


def declaring(release: Release, **training: object) -> Release:
    """The same release with more said about its training."""
    data = json.loads(release.to_json())
    return parse_release(
        data | {"training": data["training"] | training}, file="declaring"
    )


# Every sentence, in a golden file; what is true has none


def spent(config: Tree, by_accountant: dict[str, float]) -> Tree:
    tree = told("more spent than promised", rng(2))
    tree["training"]["config"] = config
    for run in tree["runs"]:
        if run["epsilon"] is not None:
            run["epsilon_by_accountant"] = by_accountant
    return tree


def copied_sure_of(*parts: str) -> Tree:
    """One model under all seeds that says the same of everybody in these parts."""
    tree = told("one model under all seeds", rng(2, 1))
    for tables, part in itertools.product(
        (run["groups"] for run in tree["runs"]), parts
    ):
        for cells in (group[part] for group in tables.values()):
            cells |= {"tn": cells["tn"] + cells["fp"], "fp": 0}
            cells |= {"fn": cells["tp"] + cells["fn"], "tp": 0}
    return tree


def spread(*deviations: int) -> Release:
    """Two groups of 10,000, half trained on, 80 % right; hits deviate by 20."""
    splits = drawn(np.full((2, 2), 5_000), [np.full((2, 2), 2_500)] * len(deviations))
    release = replace(splits, stratified_by="both").release()
    for run, more in zip(release.runs, deviations, strict=True):
        for name, tables in list(run.groups.items()):
            hits = np.array([2_000, 2_000 + (more if name == "g1" else 0)])
            parts = {"train": hits, "test": 4_000 - hits}
            cells = {
                part: table(np.full(2, 2_500), right) for part, right in parts.items()
            }
            run.groups[name] = tables.model_copy(update=cells)
    return release


def by_person(release: Release) -> Release:
    units = {"unit_of_split": "person", "effective_units": {"g0": 1000.0, "g1": 500.0}}
    return release.model_copy(
        update={"training": release.training.model_copy(update=units)}
    )


def some_without_group() -> Release:
    release = cut(stratified_by="label").release()
    some = release.subject.model_copy(update={"n_missing_group": 5})
    return release.model_copy(update={"subject": some})


def sizes_alone(stratified_by: str | None) -> Tree:
    tree = json.loads((RELEASES / "rates.release.json").read_text())
    tree["training"] |= {"split_kind": "random", "stratified_by": stratified_by}
    for tables in (run["groups"] for run in tree["runs"]):
        for name, n, m in zip(tables, (7000, 700), (3000, 500), strict=True):
            tables[name] |= {"train": {"n": n}, "test": {"n": m}}
    tree["subject"].pop("n_records", None)
    return tree


def rates(accuracy: float | None = None) -> Tree:
    tree = json.loads((RELEASES / "rates.release.json").read_text())
    if accuracy is not None:
        first = tree["runs"][0]["groups"][tree["subject"]["groups"][0]]
        first["train"]["accuracy"] = accuracy
    return tree


def one_accuracy_hidden() -> Tree:
    tree = json.loads(
        declaring(simulate(WORLD, rng(9)), stratified_by="label").to_json()
    )
    tables = tree["runs"][0]["groups"]["g1"]
    tables |= {part: {"n": sum(tables[part].values())} for part in ("train", "test")}
    return tree


def placebos(**fields: float) -> Release:
    release = read_release(RELEASES / "forest.release.json")
    row = next(row for row in release.placebo if row.attack == "lira_advantage")
    rows = [*release.placebo[:1], row.model_copy(update=fields)]
    return release.model_copy(update={"placebo": rows})


def again(once: Drawn, n: int, **fields: object) -> Drawn:
    """Splits under n names each."""
    parts = {part: getattr(once, part).repeat(n, axis=0) for part in ("train", "test")}
    return replace(once, **parts, **fields)


FOLDS = draw_folds(TOTAL, 5, "nothing", rng(8))
BALANCED = drawn(TOTAL, [np.rint(0.7 * TOTAL)] * 5)
ROUNDED_TWICE = np.rint(0.7 * TOTAL) + np.array(
    [[3, -3], [-3, 3]]
)  # finer strata add roundings
DRIFT = drifting_splits(rng(), rate=0.3, drift=0.3, n_splits=2)
LABELS_DRIFT = Drawn(
    train=np.array([[[3500.0, 3500.0], [4900.0, 2100.0]]]),
    test=np.array([[[1500.0, 1500.0], [1950.0, 1050.0]]]),
    names=["2019"],
)
GROUP_DRIFT = drawn(
    np.array([[5000, 5000], [600, 600]]), [np.array([[3500, 3500], [350, 350]])]
)
WEAK_DRIFT = drifting_splits(rng(7), rate=0.4, drift=0.02, n_splits=1)
BOTH = {"pld": 2.667, "rdp": 2.9}
TRUE_CASES: dict[str, Callable[[], Drawn | Release | Tree]] = {
    "random splits": cut,
    "balanced by both as it says": lambda: replace(BALANCED, stratified_by="both"),
    "balanced on finer strata": lambda: drawn(
        TOTAL, [ROUNDED_TWICE], stratified_by="both"
    ),
    "folds": lambda: drawn(TOTAL, FOLDS),
    "folds, twice": lambda: drawn(TOTAL, [*FOLDS, *FOLDS]),
    "names that are no series": lambda: cut(2, names=["a1", "b3"]),
    "drift in a split that is not said to be random": lambda: replace(
        DRIFT, more={"split_kind": "other"}
    ),
    "a drift that one split cannot show": lambda: WEAK_DRIFT,
    "units with their number": lambda: cut(effective_units=np.array([2500.0, 500.0])),
    "rates of whole people": rates,
    "models that say the same of everybody": lambda: copied_sure_of("train", "test"),
    "a wide spread of people's records": lambda: by_person(spread(80, -80, 1)),
    "a spread that records can have": lambda: spread(20, -20, 1),
    "a spread where the mean is plain": lambda: spread(400, 480, 440),
    "a hidden accuracy": one_accuracy_hidden,
    "labels that people without a group balance": some_without_group,
    "placebo groups just near enough": lambda: placebos(
        n_exact=20, exact_difference=0.5
    ),
    "too few exact placebo groups": lambda: placebos(n_exact=4, exact_difference=2),
    "no exact placebo groups": placebos,
} | {
    f"balanced by {by}": lambda by=by: cut(strata=by, seed=2, stratified_by=by)
    for by in STRATA
}
FALSE_CASES: dict[str, Callable[[], Drawn | Release | Tree]] = {
    **{name: lambda name=name: told(name, rng(2, 1)) for name in LIES},
    "one model, the same of everybody in test": lambda: copied_sure_of("test"),
    "spent by the accountant named": lambda: spent({"accountant": "pld"}, BOTH),
    "spent by the kindest accountant": lambda: spent({}, {"rdp": 3.0, "prv": 2.6}),
    "spent by the only accountant": lambda: spent({"accountant": "pld"}, {"rdp": 3.0}),
    "a gap in a series": lambda: cut(2, names=["s1", "s3"]),
    "a gap in numbers": lambda: cut(2, names=[0, 2]),
    "one split under three names": lambda: again(cut(1), 3),
    "balanced by both, nothing said": lambda: BALANCED,
    "one name for two splits": lambda: cut(names=["a", "b", "a"]),
    "no names": lambda: cut(names=[None] * 3),
    "a weak drift under twenty names": lambda: again(WEAK_DRIFT, 20),
    "drift": lambda: DRIFT,
    "one name in a split that is not random": lambda: replace(
        DRIFT, more={"split_kind": "other"}, names=["a", "a"]
    ),
    "drift of labels": lambda: LABELS_DRIFT,
    "a group mostly in one part": lambda: GROUP_DRIFT,
    **{
        f"not balanced by {by}": lambda by=by: cut(5, stratified_by=by) for by in STRATA
    },
    "balance not mentioned": lambda: cut(5, strata="label", seed=5),
    "balance denied": lambda: cut(5, strata="label", seed=5, stratified_by="nothing"),
    **{
        f"sizes, said {by}": lambda by=by: sizes_alone(by)
        for by in (None, "nothing", *STRATA[:2])
    },
    "units without a number": lambda: cut(more={"unit_of_split": "person"}),
    "units with one number": lambda: cut(
        more={"unit_of_split": "person", "effective_units": {"g0": 2500.0}}
    ),
    "more units than records": lambda: cut(effective_units=np.array([2500.0, 1001.0])),
    "a rate of no whole people": lambda: rates(0.77777),
    "a wide spread": lambda: spread(80, -80, 1),
    "placebo groups far away": lambda: placebos(n_exact=20, exact_difference=1.26),
}


def words(finding: DeclarationFinding) -> str:
    caps = "caps" if finding.caps_verdict else "noted"
    both = (finding.p_value, finding.p_value_alone)
    p = "logic" if finding.p_value is None else "p {:.3g}, alone {:.3g}".format(*both)
    return f"{finding.check} ({caps}, {p}): {finding.sentence}"


def test_what_is_true_is_not_accused_and_what_is_false_is_told_as_it_is_kept():
    for k in range(3):
        assert (
            findings(honest(rng(1, k)))
            == findings(honest(rng(1, k), strata="both"))
            == []
        )
    for name, case in TRUE_CASES.items():
        assert findings(case()) == [], name
    lines = []
    for name, case in FALSE_CASES.items():
        lines += [f"# {name}", *map(words, findings(case())), ""]
    text = "\n".join(lines)
    if os.environ.get("PCER_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


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


# Chances, and how they are shared


def test_the_shares_of_all_checks_make_one():
    for k in (0, 1):
        assert sum(
            check.shares[k] for check in CHECKS if check.shares
        ) == pytest.approx(1)


def test_holm_over_checks_by_hand():
    def row(name: str, p: float | None, share: float) -> Contradiction:
        return Contradiction(Check(name, lambda _: ()), Finding("a", p), share)

    rows = [
        row("group_mix", 1e-5, 0.02),
        row("totals", None, 1),
        row("label_mix", 1e-6, 0.4),
    ]
    # 1e-6 / .4 comes first; what is left for the second is .6 of the level.
    second, logic, first = adjusted_over_checks(rows)
    assert (first, second) == (
        pytest.approx(1e-6 / 0.4),
        pytest.approx(1e-5 / 0.02 * 0.6),
    )
    assert logic is None


def test_chances_of_a_draw_are_hypergeometric():
    (finding,) = findings(LABELS_DRIFT)
    # Either side of what is expected in 7,000 of 10,000; two groups are tested.
    both = 2 * 2 * stats.hypergeom(10_000, 3150, 7000).cdf(2100)
    assert finding.p_value_alone == pytest.approx(both, rel=1e-4)
    strata = Strata(*(np.full((1, 1, 1), float(n)) for n in (100, 70, 80, 50)))
    (p,), (clumped,) = (lower_tails(strata, np.array([n])) for n in (1.0, 4.0))
    exact = stats.hypergeom(100, 80, 70)
    assert p == pytest.approx(exact.cdf(50), rel=1e-6)
    assert clumped == pytest.approx(
        stats.norm.cdf((50.5 - 56) / (2 * exact.std())), rel=1e-6
    )


def test_clumps_inflate_by_records_per_unit_if_their_number_is_known():
    assert (
        FALSE_CASES["units with one number"]()
        .release()
        .kept(ReleaseArrays)
        .variance_inflation
        is None
    )
    known = TRUE_CASES["units with their number"]().release()
    assert known.kept(ReleaseArrays).variance_inflation.tolist() == [2, 2]


def test_people_who_have_both_labels_may_be_cut_alike():
    """Groups alone vary: twenty splits of 300 people often are, without any lie."""
    assert n_capped(partial(splits_of_pairs, n_people=300, n_splits=20), 25, 4) <= 1


def test_one_split_of_whole_people_under_many_names_is_found():
    made = splits_of_pairs(rng(2), n_people=300, n_splits=1)
    names = [np.repeat(part, 12, axis=0) for part in (made.train, made.test)]
    again = replace(made, train=names[0], test=names[1])
    assert "split_names" in {found.check for found in findings(again)}


def test_a_series_has_at_least_half_of_its_numbers():
    given = ([3, 1, 4], [0, 3], [0, 4], [0])
    assert [missing_numbers(numbers) for numbers in given] == [[2], [1, 2], [], []]


@pytest.mark.parametrize(
    ("value", "n", "whole"),
    [
        (2 / 3, 3, True),
        (0.667, 3, True),
        (0.666, 3, False),
        (0.6, 3, False),
        (0.3, 7, True),
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
    assert not any(
        not_whole(np.round(value, decimals), n).any() for decimals in (2, 4, 15)
    )


# Through an audit


def test_a_finding_of_chance_carries_both_p_values_and_caps_the_verdict():
    audit = pcer.audit(
        parse_release(told("parts exchanged", rng(2, 1)), file="x"), QUICK
    )
    (found,) = [one for one in audit.declarations if one.check == "below_zero"]
    assert found.p_value_alone < found.p_value <= LEVEL
    assert found.sentence in audit.trust
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA


def test_invented_settings_dilute_nothing_unseen():
    tree = honest(rng(1, 1))
    null = [run for run in tree["runs"] if run["epsilon"] is None]
    strong = [{**run, "model": "real"} for run in null]
    invented = [{**run, "model": f"made {k}"} for k in range(60) for run in null[:1]]
    tree |= {"runs": strong + invented, "pooled_exposure": []}
    audit = pcer.audit(parse_release(tree, file="x"), QUICK)
    real = next(one for one in audit.settings if one.model == "real")
    for group in real.groups.values():
        assert group.p_value_alone < group.p_value or group.p_value == 1e-12


@pytest.mark.parametrize(
    ("field", "value"), [("standard_error", 1e300), ("value", -1e300)]
)
def test_exposures_that_no_computer_can_square_are_refused(field, value):
    tree = honest(rng(1))
    tree["pooled_exposure"][0][field] = value
    with pytest.raises(pcer.InputError):
        parse_release(tree, file="x")
    tree["pooled_exposure"][0][field] = value / 1e286
    pcer.audit(parse_release(tree, file="x"), QUICK)


# How often: true declarations are accused in at most one of a hundred, false ones are
# found

N_TRUE = 250
TRUE = {name: world for name, world in HONEST.items() if name != "folds by label"} | {
    "by person": lambda g: splits_by_person(g, declared=True, n_splits=3),
    "people with both labels": lambda g: splits_of_pairs(g, n_people=300, n_splits=20),
}
FALSE = {
    "two names": lambda g: repeated_split(g, "nothing", n_names=2),
    "two names by label": lambda g: repeated_split(g, "label", n_names=2),
    "twenty names": lambda g: repeated_split(g, "nothing", n_names=20),
    "drift from .2": lambda g: drifting_splits(g, rate=0.2, drift=0.05, n_splits=1),
    "drift from .475, two splits": lambda g: drifting_splits(
        g, rate=0.475, drift=0.05, n_splits=2
    ),
    "clumps": lambda g: splits_by_person(g, declared=False, n_splits=10),
}


def n_capped(world: Callable[[np.random.Generator], Drawn], n: int, seed: int) -> int:
    generator = rng(seed)
    made = []
    while len(made) < n:
        drawn_cuts = world(generator)
        if drawn_cuts.is_usable:
            made.append(drawn_cuts)
    capped = [any(found.caps_verdict for found in findings(one)) for one in made]
    return sum(capped)


def n_found(name: str, n: int) -> int:
    """In how many of n forgeries the lie is found by the check that is meant to."""
    checks = {LIES[name][1]}
    if "table under" in name:
        checks.add("split_names")
    n_told = 0
    for k in range(n):
        told_by = {one.check for one in findings(told(name, rng(2, k)))}
        n_told += not checks.isdisjoint(told_by)
    return n_told


def rarely(n_accused: int, n: int, p: float = 0.01) -> bool:
    return bool(stats.binomtest(n_accused, n, LEVEL, alternative="greater").pvalue > p)


@pytest.mark.parametrize(
    ("n", "least"), [(3, 2), pytest.param(200, 190, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_found(name, n, least):
    assert n_found(name, n) >= least


@pytest.mark.parametrize(
    ("n", "least"), [(10, 9), pytest.param(200, 190, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", FALSE)
def test_false_declarations_are_found(name, n, least):
    assert n_capped(FALSE[name], n, 30) >= least


@pytest.mark.slow
def test_true_declarations_are_accused_in_at_most_one_of_a_hundred():
    accused = {
        name: n_capped(world, N_TRUE, k) for k, (name, world) in enumerate(TRUE.items())
    }
    assert rarely(sum(accused.values()), N_TRUE * len(TRUE)), accused
    assert all(rarely(n, N_TRUE, 0.01 / len(TRUE)) for n in accused.values()), accused
    of_honest = [findings(honest(rng(3, k))) for k in range(300)]
    assert rarely(sum(map(bool, of_honest)), 300)


@pytest.mark.parametrize(
    ("n", "most"), [(2, 0), pytest.param(200, 6, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("n_splits", [1, 2, 3, 5, 8])
def test_honest_estimators_are_accused_in_at_most_one_of_a_hundred(n_splits, n, most):
    assert n_accused(n_splits, n) <= most


@pytest.mark.slow
def test_memorising_alone_spreads_no_wider_than_is_allowed():
    world = replace(WORLD, gaps=(0.15, 0.05), n_seeds=20, budgets=(None,))
    generator = rng(11)
    accused = [
        findings(declaring(simulate(world, generator), stratified_by="label"))
        for _ in range(50)
    ]
    assert sum(map(bool, accused)) <= 2


@pytest.mark.slow
def test_an_honest_lira_of_eight_models_may_be_weaker_than_the_plain_attack():
    """Leaves of pure noise: LiRA has nothing to calibrate, and only adds noise."""
    generator = rng(5)
    x = generator.normal(size=(9_000, 4))
    group, y = generator.integers(0, 2, (2, 9_000))
    model = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    release = fitted_release(model, x, y, group=group, n_splits=8, draw=1)
    rows = {(row.attack, row.group): row for row in release.pooled_exposure}
    for name in ("a", "b"):
        lira = rows["lira_advantage", name]
        plain = rows["auc_advantage", name]
        error = np.hypot(lira.standard_error, plain.standard_error)
        assert lira.value - plain.value < -3 * error
    assert findings(release) == []
