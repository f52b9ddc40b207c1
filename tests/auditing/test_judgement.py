"""Verdicts on worlds whose answer is known: what caps them, and what they say."""

import copy
import json

import pytest

import pcer
from pcer.auditing import sentences
from pcer.paper.rankings import comparisons
from pcer.release import Release, parse_release
from pcer.wording import p_words
from tests import reference
from tests.auditing.made import attacked, changed, drawn, pooled
from tests.worlds.releases import written

QUICK = pcer.Plan(resamples=20, null_draws=5)
DOUBLE, EXPOSURE, RATIO, NO_DIFFERENCE = list(pcer.Verdict)[:4]


@pytest.fixture(scope="module")
def unequal() -> Release:
    """Group g1 is memorised more and receives less."""
    return drawn((10_000, 10_000), (0.527, 0.2), (0.005, 0.05), right=(0.95, 0.6))


@pytest.fixture(scope="module")
def alike() -> Release:
    return drawn((4_000, 4_000), (0.4, 0.4), (0.02, 0.02), n_seeds=4, rng=1)


def with_placebo(release: Release, **row: object) -> pcer.Audit:
    """The audit of a release that says this of placebo groups."""
    about = {
        "epsilon": None,
        "attack": "overfitting_gap",
        "groups": ["g0", "g1"],
        "n_draws": 200,
    }
    counts = {"n_ratio": 9, "n_double": 4, "n_any": 12, "p_value": 0.001}
    return pcer.audit(changed(release, placebo=[{**about, **counts, **row}]), QUICK)


def one_run(**groups: object) -> pcer.Audit:
    run = {"epsilon": None, "seed": 0, "split": "s", "groups": groups}
    return pcer.audit(written([run], [*groups]), QUICK)


def right(n: int, *, wrong: int = 0) -> dict[str, int]:
    return {"tp": n // 2, "fp": 0, "tn": n - n // 2 - wrong, "fn": wrong}


def test_one_error_in_the_test_part_is_no_finding():
    """Of 100 people one was classified wrong, in the test part: chance 1 in 10."""
    lucky = {"train": right(90), "test": {"tp": 4, "fp": 1, "tn": 5, "fn": 0}}
    audit = one_run(
        lucky=lucky, plain={"train": right(90, wrong=1), "test": right(10, wrong=1)}
    )
    assert audit.settings[0].groups["lucky"].p_value_alone == pytest.approx(
        0.1, abs=0.03
    )
    assert audit.verdict is pcer.Verdict.NONE_DETECTED


def test_data_that_can_show_nothing_are_insufficient_and_their_limit_is_told():
    alone = {"train": right(1), "test": right(1)}
    perfect = {"train": right(7_000), "test": right(3_000)}
    for table, least, most in ((alone, 0.5, 1.0), (perfect, 99e-5, 0.01)):
        audit = one_run(a=table, b=table)
        assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
        assert "nobody was classified wrong, or everybody was" in audit.told.reason
        group = audit.settings[0].groups["a"]
        assert group.detectable is group.noise_level is None
        assert least < group.exposure.upper_bound_pointwise <= most


def test_no_interval_and_no_limit_of_rates_is_beyond_what_they_can_be():
    tiny = {"train": right(4, wrong=1), "test": right(3, wrong=1)}
    audit = one_run(a=tiny, b=tiny)
    (pair,) = audit.settings[0].pairs
    groups = audit.settings[0].groups.values()
    differences = pair.exposure.difference, pair.outcomes.difference
    for found in (*differences, *(group.exposure for group in groups)):
        low, high = found.interval
        assert -1 <= low <= high <= 1
        assert found.upper_bound_pointwise <= found.upper_bound <= 1
    assert "e+02" not in said(audit)


def said(audit: pcer.Audit) -> str:
    return " ".join([audit.headline, *audit.account, *audit.trust, *audit.next_steps])


def holding(audit: pcer.Audit) -> set[str]:
    """The four statements about groups, by their letters."""
    letters = {
        "exposure_differs": "E",
        "outcomes_differ": "O",
        "ratio_differs": "R",
        "double_disadvantage": "D",
    }
    found: set[str] = set()
    for pair in audit.told.pairs:
        found |= {letters[what] for what in pair.statements if what in letters}
    return found


ALIKE = (0.4, 0.4)
APART = (0.55, 0.25)
WORLDS = [
    # shares of positive labels, gaps, outcome, what is true, who is in it, what drives
    # the ratio
    (ALIKE, (0.0, 0.0), "benefit", "", {}, None),
    (ALIKE, (0.04, 0.04), "benefit", "", {}, None),
    (ALIKE, (0.005, 0.06), "benefit", "ER", {"E": "g1", "R": "g1"}, "exposure"),
    (APART, (0.0, 0.0), "benefit", "O", {"O": "g1"}, None),
    (APART, (0.05, 0.05), "benefit", "OR", {"O": "g1", "R": "g1"}, "outcomes"),
    (APART, (0.05, 0.05), "harm", "OR", {"O": "g0", "R": "g1"}, "outcomes"),
    (APART, (0.02, 0.08), "benefit", "EORD", dict.fromkeys("EORD", "g1"), "both"),
    (APART, (0.02, 0.08), "harm", "EOR", {"E": "g1", "O": "g0", "R": "g1"}, "both"),
    # the less exposed group is the worse served: outcomes alone make its ratio the
    # lower one
    (
        APART,
        (0.08, 0.06),
        "benefit",
        "EOR",
        {"E": "g0", "O": "g1", "R": "g1"},
        "outcomes",
    ),
    # doubly disadvantaged, and the ratios may be equal
    (APART, (0.08, 0.046), "harm", "EOD", dict.fromkeys("EOD", "g0"), None),
]


@pytest.mark.parametrize(("shares", "gaps", "outcome", "true", "who", "driver"), WORLDS)
def test_each_statement_is_made_where_it_is_true_and_nowhere_else(
    shares, gaps, outcome, true, who, driver
):
    release = drawn((20_000, 20_000), shares, gaps, right=(0.9, 0.8), outcome=outcome)
    audit = pcer.audit(release, QUICK)
    (pair,) = audit.told.pairs
    assert holding(audit) == set(true)
    answers = {"E": pair.exposure, "O": pair.outcomes, "R": pair.ratio}
    answers["D"] = pair.double_disadvantage
    assert {
        key: one.group for key, one in answers.items() if one.group is not None
    } == who
    assert pair.ratio.driven_by == driver
    first = [
        verdict
        for letter, verdict in zip("DER", pcer.Verdict, strict=False)
        if letter in true
    ]
    nothing = NO_DIFFERENCE if any(gaps) else pcer.Verdict.NONE_DETECTED
    assert audit.verdict is pair.verdict is (first or [nothing])[0]


MANY = {"n_ratio": 19, "n_double": 19}
PERMUTED = "randomly drawn groups differ as much (permutation p = "
PLACEBOS = [
    # what the release says, the verdict, the statements that stand, and why one does
    # not
    ({}, DOUBLE, "EORD", None),
    ({"n_ratio": 18, "n_double": 18, "n_exposure": 18}, DOUBLE, "EORD", None),
    (
        {**MANY, "n_exposure": 19},
        NO_DIFFERENCE,
        "O",
        "19 of 200 made-up groups raise this alarm",
    ),
    ({"n_double": 19}, EXPOSURE, "EOR", "19 of 200 made-up groups raise this alarm"),
    ({"n_exposure": 19}, RATIO, "OR", "19 of 200 made-up groups raise this alarm"),
    (
        {**MANY, "n_exposure": 7},
        EXPOSURE,
        "EO",
        "19 of 200 made-up groups raise this alarm",
    ),
    (
        {"p_value": 0.06, "exposure_p_value": 0.07},
        NO_DIFFERENCE,
        "O",
        f"{PERMUTED}.070)",
    ),
    # in a harm task a true double disadvantage may leave the ratios equal
    ({"p_value": 0.61, "exposure_p_value": 0.0025}, DOUBLE, "EOD", f"{PERMUTED}.610)"),
    ({"p_value": 0.0025, "exposure_p_value": 0.61}, RATIO, "OR", f"{PERMUTED}.610)"),
]


@pytest.mark.parametrize(("row", "verdict", "stands", "reason"), PLACEBOS)
def test_each_statement_is_downgraded_by_its_own_placebos_only(
    unequal, row, verdict, stands, reason
):
    audit = with_placebo(unequal, **row)
    (pair,) = audit.told.pairs
    assert (audit.verdict, holding(audit)) == (verdict, set(stands))
    answers = {"E": pair.exposure, "O": pair.outcomes, "R": pair.ratio}
    answers["D"] = pair.double_disadvantage
    for letter, answer in answers.items():
        assert (
            (answer.group == "g1") == (answer.downgraded is None) == (letter in stands)
        )
    assert (audit.told.reason or "").startswith(reason or "")
    assert (audit.told.reason is None) == (reason is None)
    assert [claim.refuted for claim in comparisons(audit)[0].equal_gap_claims] == [
        "E" in stands
    ]
    assert pair.ratio.placebo == pair.exposure.placebo
    counts = pair.ratio.placebo
    given = {"n_ratio": 9, "n_double": 4, **row}
    assert (counts.n_ratio, counts.n_double, counts.n_any) == (
        given["n_ratio"],
        given["n_double"],
        12,
    )


def test_double_disadvantage_needs_no_floor_and_a_release_without_placebos_says_so(
    unequal,
):
    audit = pcer.audit(unequal, QUICK.model_copy(update={"floor": 0.5}))
    (pair,) = audit.told.pairs
    assert (audit.verdict, pair.double_disadvantage.group) == (DOUBLE, "g1")
    assert (pair.ratio.answer, pair.ratio.downgraded) == ("floor_dominated", None)
    assert pair.exposure.placebo is pair.ratio.placebo is None
    *_, trust = sentences.of(audit, audit.told).rows
    assert trust.answer.startswith("Not checked with made-up groups")


def attribute(release: Release, name: str, digest: str | None) -> Release:
    subject = {**release.subject.model_dump(mode="json"), "attribute": name}
    return changed(release, subject=subject, provenance={"data_digest": digest})


@pytest.fixture(scope="module")
def weak() -> Release:
    """An alarm that just passes alone: its smallest p-value is .026."""
    return drawn((4_000, 4_000), (0.4, 0.4), (0.01, 0.042), n_seeds=4, rng=27)


def family(found: Release, other: Release) -> list[Release]:
    return [
        attribute(found, "sex", "d"),
        *(attribute(other, f"x{k}", "d") for k in range(4)),
    ]


def test_attributes_of_the_same_records_are_judged_together(weak, alike):
    releases = family(weak, alike)
    together = pcer.audit(releases, QUICK)
    alone = [pcer.audit(one, QUICK) for one in releases]
    first = together[0]
    pairs = [one.settings[0].pairs[0] for one in alone]
    assert (alone[0].verdict, first.verdict) == (EXPOSURE, NO_DIFFERENCE)
    assert "judged together with the other attributes" in first.told.reason
    assert first.family == sorted(one.sha256 for one in releases)
    by_hand = reference.holm([min(p.ratio.p_value, p.exposure.p_value) for p in pairs])
    assert [one.family_p for one in together] == pytest.approx(by_hand)
    by_hand = reference.holm([p.outcomes.p_value for p in pairs])
    assert [one.family_p_outcomes for one in together] == pytest.approx(by_hand)
    assert first.settings[0].pairs[0].exposure.p_value == pairs[0].exposure.p_value
    assert holding(first) == set()
    apart = [releases[0], attribute(alike, "x", "e"), attribute(alike, "y", None)]
    assert pcer.audit(apart, QUICK)[0].family_p is None
    named = pcer.audit(apart[0], QUICK, family=releases[1:])
    assert named.to_tree() == first.to_tree()


def test_outcomes_are_a_family_of_their_own(alike):
    """Outcomes that just differ alone do not among five attributes; exposures do."""
    found = drawn(
        sizes=(4_000, 4_000),
        label_shares=(0.4, 0.3),
        gaps=(0.01, 0.08),
        right=(0.9, 0.8),
        n_seeds=4,
        rng=5,
    )
    alone = pcer.audit(found, QUICK)
    together = pcer.audit(family(found, alike), QUICK)[0]
    assert (holding(alone), alone.verdict) == (set("EORD"), DOUBLE)
    assert (holding(together), together.verdict) == (set("ER"), EXPOSURE)
    (pair,) = together.told.pairs
    assert together.family_p < 0.05 < together.family_p_outcomes
    assert pair.outcomes.downgraded == pair.double_disadvantage.downgraded is not None
    assert f"({p_words(together.family_p_outcomes)})" in pair.outcomes.downgraded


def test_attacks_beside_the_main_one_are_judged_together_as_well(weak, alike):
    """An attack that finds nobody is measured as well, and is the sharper one."""
    releases = family(
        *(attacked(one, "auc_advantage", (0, 0), 0.01) for one in (weak, alike))
    )
    for audit, exposed in (
        (pcer.audit(releases[0], QUICK), ["g1"]),
        (pcer.audit(releases, QUICK)[0], []),
    ):
        assert audit.attack == "auc_advantage"
        (gap,) = [story for story in audit.attacks if story.attack != audit.attack]
        assert (gap.attack, gap.more_exposed) == ("overfitting_gap", exposed)


def test_a_ratio_that_differs_lends_its_attack_no_difference_of_exposures(alike):
    """Exposures that just differ by one of many attacks are within chance over all."""
    release = drawn(
        (4_000, 4_000), (0.55, 0.25), (0.05, 0.05), right=(0.9, 0.8), n_seeds=4
    )
    for k in range(8):
        values = (0.05, 0.057) if k == 0 else (0.05, 0.05)
        release = attacked(release, f"attack_{k}", values, 0.002)
    stories = {one.attack: one for one in pcer.audit(release, QUICK).attacks}
    one = stories["attack_0"]
    other = stories["attack_1"]
    assert (one.more_exposed, other.more_exposed) == (["g1"], [])
    assert one.p_value < 0.05 < one.p_value_over_attacks
    assert one.statements == other.statements == ["ratio_differs"]
    assert one.detected_in == [0]


def test_a_strong_difference_lends_a_weak_one_of_its_attack_nothing():
    """An attack finds g1 at one budget, and g0, clearly, at the other."""
    release = drawn(
        (6_000, 6_000), (0.5, 0.3), (0.02, 0.02), budgets=(1.0, None), n_seeds=8
    )
    for attack in ("rmia_advantage", "lira_advantage", "paired_confidence"):
        release = pooled(release, attack, (0.02, 0.02), 0.002, epsilons=(1.0, None))
    release = pooled(release, "paired_gap", (0.05, 0.01), 0.001)
    release = pooled(release, "paired_gap", (0.010, 0.0138), 0.0011, epsilons=(1.0,))
    alone = pcer.audit(release, QUICK, attack="paired_gap")
    assert [setting.pairs[0].exposure.group for setting in alone.settings] == [
        "g1",
        "g0",
    ]
    assert alone.statements()["double_disadvantage"] == [0]
    audit = pcer.audit(release, QUICK)
    (story,) = (one for one in audit.attacks if one.attack == "paired_gap")
    assert (story.more_exposed, story.double_disadvantage) == (["g0"], [])
    assert "double_disadvantage" not in audit.statements()
    assert not any("contradict" in sentence for sentence in audit.trust)


def test_a_margin_makes_equality_a_verdict():
    release = drawn((30_000, 30_000), (0.4, 0.4), (0.02, 0.02), rng=3)
    plans = [
        QUICK.model_copy(update={"equal_within": margin}) for margin in (1, 0.05, None)
    ]
    wide, narrow, without = (pcer.audit(release, plan) for plan in plans)
    assert (wide.verdict, narrow.verdict) == (
        pcer.Verdict.EQUAL_WITHIN_MARGIN,
        NO_DIFFERENCE,
    )
    assert "equal_within_margin" in wide.statements()
    assert without.settings[0].pairs[0].equivalence is None


def test_settings_are_models_and_budgets(unequal):
    runs = json.loads(unequal.to_json())["runs"]
    models = [{**run, "model": "forest"} for run in runs]
    models += [{**run, "model": "net"} for run in runs]
    audit = pcer.audit(changed(unequal, runs=models), QUICK)
    for rows in (audit.settings, audit.published, comparisons(audit)):
        assert [one.model for one in rows] == ["forest", "net"]
    alone = pcer.audit(unequal, QUICK)
    one = alone.settings[0].groups["g1"]
    other = audit.settings[1].groups["g1"]
    assert one.exposure.value == other.exposure.value
    assert one.p_value_alone == other.p_value_alone


def test_the_sharpest_attack_is_the_default(unequal):
    audit = pcer.audit(unequal, QUICK)
    assert audit.attack == "overfitting_gap"
    assert "splits enough for RMIA" in audit.choice
    lira = pooled(unequal, "lira_advantage", (0.01, 0.03), 0.002)
    sharper = pcer.audit(pooled(lira, "paired_gap", (0.01, 0.03), 0.002), QUICK)
    assert sharper.attack == sharper.attacks[0].attack == "lira_advantage"
    assert {one.attack for one in sharper.attacks[1:]} == {
        "overfitting_gap",
        "paired_gap",
    }
    assert sharper.published == audit.published
    assert pcer.audit(lira, QUICK, attack="overfitting_gap").attack == "overfitting_gap"
    excused = changed(unequal, not_computed={"rmia_advantage": "no scores were kept"})
    choice = pcer.audit(excused, QUICK).choice
    assert "RMIA was not computed: no scores were kept." in choice
    assert "splits enough for LiRA" in choice


def test_a_small_group_is_too_few_to_tell(unequal):
    lira = pooled(unequal, "lira_advantage", (0.01, 0.03), 0.002, n_records=5_000)
    tree = json.loads(lira.to_json())
    tree["pooled_exposure"][0]["n_records"] = 49
    audit = pcer.audit(parse_release(tree, file="few"), QUICK)
    group = audit.settings[0].groups["g0"]
    assert (audit.attack, group.too_few, group.p_value) == (
        "lira_advantage",
        True,
        None,
    )
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    assert audit.told.pairs[0].outcomes.answer == "differ"
    assert audit.settings[0].groups["g1"].detected
    assert audit.told.reason == "g0: fewer than 50 records"


def test_a_contradicted_declaration_caps_the_verdict(unequal):
    first = json.loads(unequal.to_json())["runs"][0]
    runs = [{**first, "seed": k, "split": f"s{k}"} for k in range(5)]
    audit = pcer.audit(changed(unequal, runs=runs), QUICK)
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    assert [one.check for one in audit.declarations if one.caps_verdict] == [
        "split_names"
    ]
    (pair,) = audit.told.pairs
    assert {pair.exposure.answer, pair.outcomes.answer, pair.ratio.answer} == {
        "cannot_tell"
    }
    assert set(audit.statements()) - {"floor_sensitive"} == {"insufficient_data"}


def test_clumps_of_records_widen_every_error(unequal):
    units = {
        "unit_of_split": "person",
        "effective_units": {"g0": 2_500.0, "g1": 2_500.0},
    }
    declared = changed(unequal, training={"split_kind": "random", **units})
    plain, clumped = (pcer.audit(one, QUICK).settings[0] for one in (unequal, declared))
    for one, other in zip(plain.groups.values(), clumped.groups.values(), strict=True):
        assert other.exposure.standard_error > 1.4 * one.exposure.standard_error
        assert other.p_value_alone >= one.p_value_alone
    variances = [one.pairs[0].outcomes.people_variance for one in (plain, clumped)]
    assert variances[1] == pytest.approx(4 * variances[0], rel=0.02)


def test_benefits_that_are_not_given_leave_the_exposures(unequal):
    tree = json.loads(unequal.to_json())
    for run in tree["runs"]:
        for tables in run["groups"].values():
            for part, cells in tables.items():
                n = sum(cells.values())
                tables[part] = {"n": n, "accuracy": (cells["tp"] + cells["tn"]) / n}
    audit = pcer.audit(parse_release(tree, file="no benefit"), QUICK)
    assert audit.verdict is EXPOSURE
    (pair,) = audit.told.pairs
    assert (pair.exposure.group, pair.outcomes.answer) == ("g1", "not_given")
    assert (pair.ratio.answer, pair.double_disadvantage.group) == ("cannot_tell", None)
    assert pair.outcomes.difference.value is None


def test_exposures_without_counts_are_told_and_nothing_else(unequal):
    release = pooled(unequal, "lira_advantage", (0.01, 0.03), 0.002)
    release = pooled(release, "paired_gap", (0.01, 0.03), 0.002)
    tree = json.loads(release.to_json())
    tested = copy.deepcopy(tree)
    for run, other in zip(tree["runs"], tested["runs"], strict=True):
        run["groups"] = {name: {} for name in run["groups"]}
        other["groups"] = {
            name: {"test": one["test"]} for name, one in other["groups"].items()
        }
    audit, whole = (
        pcer.audit(one, QUICK) for one in (parse_release(tree, file="x"), release)
    )
    (pair,) = audit.told.pairs
    (other,) = whole.told.pairs
    assert audit.verdict == EXPOSURE
    # There is no ratio here that could share the level.
    assert pair.exposure.p_value <= other.exposure.p_value
    same = {
        "p_value": pair.exposure.p_value,
        "by_attack": pair.exposure.by_attack,
    }
    assert pair.exposure == other.exposure.model_copy(update=same)
    assert (pair.outcomes.answer, pair.ratio.answer) == ("not_given", "cannot_tell")
    assert audit.published[0].settings[0].pairs[0].pcer_disparity.mean is None
    assert audit.declarations == []
    assert {one.attack for one in audit.attacks} == {"lira_advantage", "paired_gap"}
    assert set(audit.statements()) == {"exposure_differs"}
    assert audit.published[0].algorithm1.verdict is None
    assert "gives no counts" in said(audit)
    delta = sentences.of(audit, audit.told).rows[4]
    assert delta.answer.startswith(("Cannot tell: that takes", "Not defined"))

    # For outcomes test counts suffice.
    (served,) = pcer.audit(parse_release(tested, file="x"), QUICK).told.pairs
    assert (served.verdict, served.outcomes.answer) == (DOUBLE, "differ")
    assert served.outcomes.difference.value == other.outcomes.difference.value


def with_receipts(release: Release, means: tuple[float, float] = (3.0, 4.0)) -> Release:
    said = {"kind": "receipt", "mode": "held", "accountant": "rdp", "n_records": 10_000}
    said |= {
        "standard_error": 0.01,
        "nominal": 5.4,
        "allowed_advantage": 0.2,
        "epsilon": 5.0,
    }
    rows = []
    for name, mean in zip(("g0", "g1"), means, strict=True):
        row = {**said, "group": name, "mean": mean}
        rows += [row, {**row, "label": 1}]
    runs = json.loads(release.to_json())["runs"]
    at_five = [{**run, "epsilon": 5.0} for run in runs]
    return changed(release, runs=at_five, bounds=rows)


def test_what_training_spent_is_an_attack_like_any_other_and_never_the_default(unequal):
    release = with_receipts(unequal)
    audit = pcer.audit(release, QUICK)
    assert audit.attack == "overfitting_gap"
    spent = next(one for one in audit.attacks if one.attack == "spent_epsilon")
    assert (spent.more_exposed, spent.n_detected) == (["g1"], 2)
    bound = audit.settings[0].groups["g1"].allowed
    assert (bound.spent, bound.nominal, bound.advantage) == (4.0, 5.4, 0.2)
    (named,) = pcer.audit(release, QUICK, attack="spent_epsilon").settings
    assert named.pairs[0].exposure.difference.value == pytest.approx(-1.0)
    assert named.groups["g0"].pcer.mean == pytest.approx(
        named.groups["g0"].benefit.mean / 3.0
    )


def test_an_attack_with_a_floor_of_its_own_has_one_floor_in_a_row(unequal):
    release = with_receipts(unequal, means=(0.002, 0.004))
    (setting,) = pcer.audit(release, QUICK, attack="spent_epsilon").settings
    first, second = (group.benefit.mean for group in setting.groups.values())
    (pair,) = setting.pairs
    assert pair.pcer_disparity.mean == pytest.approx((first - second) / 0.01)
    assert pair.pooled.disparity == pytest.approx((first - second) / 0.01, rel=0.02)
