"""Verdicts on worlds whose answer is known: what caps them, what they say, and what they do not."""

import json

import pytest

import pcer
from pcer.auditing.algorithm1 import comparisons
from pcer.release import Release, parse_release
from tests import reference
from tests.auditing.made import attacked, changed, drawn, pooled
from tests.worlds.releases import written

QUICK = pcer.Plan(resamples=20, null_draws=5)
ALARMS = (pcer.Verdict.DOUBLE_DISADVANTAGE, pcer.Verdict.DISPARITY_SHOWN)


@pytest.fixture(scope="module")
def unequal() -> Release:
    """Group g1 is memorised more and receives less."""
    return drawn((10_000, 10_000), (0.527, 0.2), (0.005, 0.05), right=(0.95, 0.6))


@pytest.fixture(scope="module")
def alike() -> Release:
    return drawn((4_000, 4_000), (0.4, 0.4), (0.02, 0.02), n_seeds=4, rng=1)


def with_placebo(release: Release, **row: object) -> pcer.Audit:
    """The audit of a release that says this of placebo groups."""
    about = {"epsilon": None, "proxy": "overfitting_gap", "groups": ["g0", "g1"], "n_draws": 200}
    counts = {"n_shown": 9, "n_double": 4, "p_value": 0.001}
    return pcer.audit(changed(release, placebo=[{**about, **counts, **row}]), QUICK)


def one_run(**groups: object) -> pcer.Audit:
    run = {"epsilon": None, "seed": 0, "split": "s", "groups": groups}
    return pcer.audit(written([run], [*groups]), QUICK)


def right(n: int, *, wrong: int = 0) -> dict[str, int]:
    return {"tp": n // 2, "fp": 0, "tn": n - n // 2 - wrong, "fn": wrong}


def test_one_error_in_the_test_part_is_no_finding():
    """Of 100 people one was classified wrong, and he was in the test part: chance 1 in 10."""
    lucky = {"train": right(90), "test": {"tp": 4, "fp": 1, "tn": 5, "fn": 0}}
    audit = one_run(lucky=lucky, plain={"train": right(90, wrong=1), "test": right(10, wrong=1)})
    assert audit.budgets[0].groups["lucky"].p_value_alone == pytest.approx(0.1, abs=0.03)
    assert audit.verdict is pcer.Verdict.NOT_RESOLVED


def test_data_that_can_show_nothing_are_insufficient_and_told_with_the_limit_that_they_give():
    alone, perfect = dict.fromkeys(("train", "test"), right(1)), {"train": right(7_000)}
    for table, least, most in ((alone, 0.5, 1.0), (perfect | {"test": right(3_000)}, 99e-5, 0.01)):
        audit = one_run(a=table, b=table)
        assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
        assert "nobody was classified wrong, or everybody was" in audit.headline
        group = audit.budgets[0].groups["a"]
        assert group.detectable_cost is group.noise_level is None
        assert least < group.cost.upper_limit <= most
    assert "in no group does training on people make the model right for more" in audit.headline


def test_no_interval_and_no_limit_of_rates_is_beyond_what_they_can_be():
    tiny = {"train": right(4, wrong=1), "test": right(3, wrong=1)}
    audit = one_run(a=tiny, b=tiny)
    (pair,), groups = audit.budgets[0].pairs, audit.budgets[0].groups.values()
    for found in (pair.exposure, pair.benefit, *(group.cost for group in groups)):
        low, high = found.interval
        assert -1 <= low <= high <= 1
        assert max(found.upper_limit, found.upper_limit_together) <= 1
    assert "e+02" not in said(audit)


def said(audit: pcer.Audit) -> str:
    return " ".join([audit.headline, *audit.account, *audit.trust, *audit.next_steps])


def claims(audit):
    """Whom an audit calls more exposed, anywhere."""
    named = {pair.more_exposed for budget in audit.budgets for pair in budget.pairs}
    named |= {name for cost in audit.costs if cost.is_main for name in cost.more_exposed}
    return (named - {None}) | ({"words"} if "more exposed" in said(audit) else set())


DOUBLE, DISPARITY = ALARMS
NO_ALARM = pcer.Verdict.NO_DISPARITY_SHOWN
MANY = {"n_shown": 19, "n_double": 19}
PERMUTED = "randomly drawn groups differ as much (permutation p = "
PLACEBOS = [
    # what the release says, the verdict, whom it calls more exposed, a sentence
    ({}, DOUBLE, {"g1"}, "200 made-up groups raised this alarm 4 times (a sound test: up to"),
    ({"n_shown": 18, "n_double": 18}, DOUBLE, {"g1"}, "raised this alarm 18 times"),
    ({**MANY, "n_exposure": 19}, NO_ALARM, set(), "19 of 200 made-up groups raise this alarm, too"),
    ({"n_double": 19}, DISPARITY, {"g1"}, "200 made-up groups raised this alarm 9 times"),
    ({"n_exposure": 19}, DISPARITY, set(), "the predictions drive it"),  # double rests on it
    ({**MANY, "n_exposure": 7}, NO_ALARM, {"g1", "words"}, "found exposures to differ 7 times"),
    ({"p_value": 0.06, "exposure_p_value": 0.07}, NO_ALARM, set(), f"{PERMUTED}0.07)"),
    # in a harm task a true double disadvantage may leave the ratios equal
    ({"p_value": 0.61, "exposure_p_value": 0.0025}, DOUBLE, {"g1"}, "It is not shown that any"),
    ({"p_value": 0.0025, "exposure_p_value": 0.61}, DISPARITY, set(), "the predictions drive it"),
    ({"exposure_p_value_within_labels": 0.33}, DOUBLE, {"g1"}, "g0 and g1 is shown (p = 0.33)"),
    ({"exposure_p_value_within_labels": 0.01}, DOUBLE, {"g1"}, "also differ among people with"),
]


@pytest.mark.parametrize(("row", "verdict", "exposed", "sentence"), PLACEBOS)
def test_each_statement_is_downgraded_by_its_own_placebos_only(
    unequal, row, verdict, exposed, sentence
):
    audit = with_placebo(unequal, **row)
    (pair,) = audit.told.pairs
    assert audit.verdict is verdict
    assert audit.worse_off == (["g1"] if verdict in ALARMS else [])
    assert claims(audit) == exposed
    assert sentence in said(audit)
    assert ("raised this alarm" in said(audit)) == (verdict in ALARMS)
    assert audit.told.double_disadvantage == (["g1"] if verdict is DOUBLE else [])
    assert pair.disparity_shown == (row.get("p_value", 0) < 0.05 and row.get("n_shown", 0) < 19)
    assert (pair.driven_by == "benefits") == (verdict is DISPARITY and not exposed)
    assert pair.better_off == "g0"  # no placebo is about benefits
    taken_back = verdict is not DOUBLE or not pair.disparity_shown
    assert (pair.capped is not None) == taken_back
    answer = pair.exposure_answer
    assert (answer.answer == "differs") == (answer.downgraded is None) == bool(exposed)
    if row.get("exposure_p_value", 0) > 0.05:
        assert answer.downgraded == f"{PERMUTED}{row['exposure_p_value']})"


def test_double_disadvantage_needs_no_floor_and_a_release_without_placebos_says_so(unequal):
    audit = pcer.audit(unequal, QUICK.model_copy(update={"floor": 0.5}))
    assert (audit.verdict, audit.worse_off) == (DOUBLE, ["g1"])
    assert "one group bears both a higher cost and fewer positive predictions (g1)" in said(audit)
    assert "lacks the made-up-groups check" in said(audit)


def attribute(release: Release, name: str, digest: str | None) -> Release:
    subject = {**release.subject.model_dump(mode="json"), "attribute": name}
    return changed(release, subject=subject, provenance={"data_digest": digest})


@pytest.fixture(scope="module")
def weak() -> Release:
    """An alarm that just passes alone: its smallest p-value is .026."""
    return drawn((4_000, 4_000), (0.4, 0.4), (0.01, 0.042), n_seeds=4, rng=27)


def family(found: Release, other: Release) -> list[Release]:
    return [attribute(found, "sex", "d"), *(attribute(other, f"x{k}", "d") for k in range(4))]


def test_attributes_of_the_same_records_are_judged_together(weak, alike):
    releases = family(weak, alike)
    together, alone = pcer.audit(releases, QUICK), [pcer.audit(one, QUICK) for one in releases]
    first, pairs = together[0], [one.budgets[0].pairs[0] for one in alone]
    assert (alone[0].verdict in ALARMS, first.verdict) == (True, NO_ALARM)
    assert "judged together with the other attributes" in first.headline
    assert first.family == sorted(one.sha256 for one in releases)
    by_hand = reference.holm([min(p.cross_product.p_value, p.exposure.p_value) for p in pairs])
    assert [one.family_p for one in together] == pytest.approx(by_hand)
    assert first.budgets[0].pairs[0].cross_product == pairs[0].cross_product
    assert claims(first) == set()
    apart = [releases[0], attribute(alike, "x", "e"), attribute(alike, "y", None)]
    assert pcer.audit(apart, QUICK)[0].family_p is None
    named = pcer.audit(apart[0], QUICK, family=releases[1:])
    assert named.to_tree() == first.to_tree()


def test_costs_beside_the_main_one_are_judged_together_as_well(weak, alike):
    """An attack that finds nobody is measured as well, and is the sharper cost."""
    releases = family(*(attacked(one, "auc_advantage", (0, 0), 0.01) for one in (weak, alike)))
    for audit, lower in (
        (pcer.audit(releases[0], QUICK), ["g1"]),
        (pcer.audit(releases, QUICK)[0], []),
    ):
        assert audit.cost == "auc_advantage"
        (gap,) = [cost for cost in audit.costs if not cost.is_main]
        assert (gap.cost, gap.lower_ratio) == ("overfitting_gap", lower)
        assert bool(gap.more_exposed) == bool(lower)


def test_a_margin_makes_equality_a_verdict():
    release = drawn((30_000, 30_000), (0.4, 0.4), (0.02, 0.02), rng=3)
    plans = [QUICK.model_copy(update={"margin": margin}) for margin in (0.02, 1e-3, None)]
    wide, narrow, without = (pcer.audit(release, plan) for plan in plans)
    assert (wide.verdict, narrow.verdict) == (pcer.Verdict.EQUAL_WITHIN_MARGIN, NO_ALARM)
    assert "equal within 2 hundredths" in wide.headline
    assert without.budgets[0].pairs[0].equivalence is None


def test_settings_are_models_and_budgets(unequal):
    runs = json.loads(unequal.to_json())["runs"]
    models = [{**run, "model": name} for name in ("forest", "net") for run in runs]
    audit = pcer.audit(changed(unequal, runs=models), QUICK)
    for rows in (audit.budgets, audit.published, comparisons(audit)):
        assert [one.model for one in rows] == ["forest", "net"]
    assert "In forest without differential privacy" in audit.headline
    alone = pcer.audit(unequal, QUICK)
    one, other = alone.budgets[0].groups["g1"], audit.budgets[1].groups["g1"]
    assert one.cost.value == other.cost.value
    assert one.p_value_alone == other.p_value_alone


def test_the_sharpest_cost_is_the_default(unequal):
    audit = pcer.audit(unequal, QUICK)
    assert audit.cost == "overfitting_gap"
    assert "splits enough for RMIA" in audit.choice
    lira = pooled(unequal, "lira_advantage", (0.01, 0.03), 0.002)
    sharper = pcer.audit(pooled(lira, "paired_gap", (0.01, 0.03), 0.002), QUICK)
    assert sharper.cost == "lira_advantage"
    assert [one.cost for one in sharper.costs if one.is_main] == ["lira_advantage"]
    assert {one.cost for one in sharper.costs[1:]} == {"overfitting_gap", "paired_gap"}
    assert sharper.published == audit.published
    assert pcer.audit(lira, QUICK, cost="overfitting_gap").cost == "overfitting_gap"
    excused = changed(unequal, not_computed={"rmia_advantage": "no scores were kept"})
    choice = pcer.audit(excused, QUICK).choice
    assert "RMIA was not computed: no scores were kept." in choice
    assert "splits enough for LiRA" in choice


def test_a_small_group_is_too_few_to_tell(unequal):
    lira = pooled(unequal, "lira_advantage", (0.01, 0.03), 0.002, n_records=5_000)
    tree = json.loads(lira.to_json())
    tree["pooled_exposure"][0]["n_records"] = 49
    audit = pcer.audit(parse_release(tree, file="few"), QUICK)
    group = audit.budgets[0].groups["g0"]
    assert (audit.cost, group.too_few, group.p_value) == ("lira_advantage", True, None)
    assert audit.verdict not in ALARMS
    assert "Too few people" in said(audit)


def test_a_contradicted_declaration_caps_the_verdict(unequal):
    first = json.loads(unequal.to_json())["runs"][0]
    runs = [{**first, "seed": k, "split": f"s{k}"} for k in range(5)]
    audit = pcer.audit(changed(unequal, runs=runs), QUICK)
    assert audit.verdict is pcer.Verdict.NOT_RESOLVED
    assert [one.check for one in audit.declarations if one.caps_verdict] == ["split_names"]
    assert audit.headline.startswith("Nothing can be concluded from this release")


def test_clumps_of_records_widen_every_error(unequal):
    units = {"unit_of_split": "person", "effective_units": {"g0": 2_500.0, "g1": 2_500.0}}
    declared = changed(unequal, training={"split_kind": "random", **units})
    plain, clumped = (pcer.audit(one, QUICK).budgets[0] for one in (unequal, declared))
    for one, other in zip(plain.groups.values(), clumped.groups.values(), strict=True):
        assert other.cost.standard_error > 1.4 * one.cost.standard_error
        assert other.p_value_alone >= one.p_value_alone
    errors = [one.pairs[0].benefit.standard_error for one in (plain, clumped)]
    assert errors[1] == pytest.approx(2 * errors[0], rel=0.01)


def test_benefits_that_are_not_given_leave_the_costs(unequal):
    tree = json.loads(unequal.to_json())
    for tables in (tables for run in tree["runs"] for tables in run["groups"].values()):
        for part, cells in tables.items():
            n = sum(cells.values())
            tables[part] = {"n": n, "accuracy": (cells["tp"] + cells["tn"]) / n}
    audit = pcer.audit(parse_release({**tree, "version": 2}, file="no benefit"), QUICK)
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    assert "what the groups receive is not given" in audit.headline
    assert audit.budgets[0].groups["g1"].resolved
    assert "makes the model right for about 5 (g1) more people in 100" in audit.account[1]
    assert audit.budgets[0].pairs[0].benefit.value is None
    assert audit.budgets[0].pairs[0].exposure.p_value < 0.05


def with_receipts(release: Release, means: tuple[float, float] = (3.0, 4.0)) -> Release:
    said = {"kind": "receipt", "mode": "held", "accountant": "rdp", "n_records": 10_000}
    said |= {"standard_error": 0.01, "nominal": 5.4, "allowed_advantage": 0.2, "epsilon": 5.0}
    rows = [
        {**said, "group": name, "mean": mean, **label}
        for name, mean in zip(("g0", "g1"), means, strict=True)
        for label in ({}, {"label": 1})
    ]
    tree = json.loads(release.to_json())
    return changed(release, runs=[{**run, "epsilon": 5.0} for run in tree["runs"]], bounds=rows)


def test_what_training_spent_is_a_cost_like_any_other_and_never_the_default(unequal):
    release = with_receipts(unequal)
    audit = pcer.audit(release, QUICK)
    assert audit.cost == "overfitting_gap"
    spent = next(one for one in audit.costs if one.cost == "spent_epsilon")
    assert (spent.more_exposed, spent.n_resolved) == (["g1"], 2)
    bound = audit.budgets[0].groups["g1"].allowed
    assert (bound.spent, bound.nominal, bound.advantage) == (4.0, 5.4, 0.2)
    assert bound.by_label == {"1": 4.0}
    assert "training spent on average an epsilon of 3 (g0) and 4 (g1)" in said(audit)
    assert "about 70.0 (g0) and 70.0 (g1) right guesses in 100" in said(audit)
    (named,) = pcer.audit(release, QUICK, cost="spent_epsilon").budgets
    assert named.pairs[0].exposure.value == pytest.approx(-1.0)
    assert named.groups["g0"].pcer.mean == pytest.approx(named.groups["g0"].benefit.mean / 3.0)


def test_a_cost_with_a_floor_of_its_own_has_one_floor_in_a_row(unequal):
    release = with_receipts(unequal, means=(0.002, 0.004))
    (budget,) = pcer.audit(release, QUICK, cost="spent_epsilon").budgets
    first, second = (group.benefit.mean for group in budget.groups.values())
    (pair,) = budget.pairs
    assert pair.pcer_disparity.mean == pytest.approx((first - second) / 0.01)
    assert pair.pooled.disparity == pytest.approx((first - second) / 0.01, rel=0.02)
