"""The audit against slow twins, its laws, its verdicts and its determinism."""

import json
import math
import os
import re
import subprocess
import sys

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import pcer
from pcer.auditing.record import (
    Audit,
    GroupResult,
    PairResult,
    SettingResult,
    read_audit,
)
from pcer.errors import InputError, PlanError
from pcer.paper.rankings import comparisons
from pcer.paper.records import FloorRow
from pcer.release.file import Release, parse_release
from pcer.report.tables.paper import floors_table
from tests import reference
from tests.auditing.made import attacked, drawn, of_rates, pooled
from tests.strategies import releases

QUICK = pcer.Plan(resamples=50, null_draws=20, attack="overfitting_gap")


@pytest.fixture(scope="module")
def strong() -> Release:
    """Group g1 is memorised more and receives less."""
    return drawn(
        sizes=(10_000, 10_000),
        label_shares=(0.527, 0.2),
        gaps=(0.005, 0.05),
        right=(0.95, 0.6),
        budgets=(1.0, None),
    )


@pytest.fixture(scope="module")
def plain(strong) -> pcer.Audit:
    return pcer.audit(strong, QUICK)


def planned(release: Release, **fields: object) -> pcer.Audit:
    return pcer.audit(release, QUICK.model_copy(update=fields))


def published_by_a_loop(release: Release, setting: SettingResult) -> None:
    for pair in setting.pairs:
        for row in pair.floors:
            one_floor_by_a_loop(release, setting, pair, row)


def one_floor_by_a_loop(
    release: Release, setting: SettingResult, pair: PairResult, row: FloorRow
) -> None:
    slow = reference.disparities(release, setting.epsilon, *pair.groups, row.floor)
    assert row.mean == pytest.approx(reference.mean(slow), rel=1e-9, abs=1e-9)
    assert row.n_positive_seeds == sum(value > 0 for value in slow)
    if len(slow) > 1:
        std = reference.sample_variance(slow) ** 0.5
        assert row.std == pytest.approx(std, rel=1e-6, abs=1e-6)
        assert row.ci is not None
    else:
        assert row.std is row.ci is None


def group_by_a_loop(
    release: Release, epsilon: float | None, name: str, group: GroupResult, tail: float
) -> None:
    exposure, error, luck = reference.exposure_and_error(release, epsilon, name)
    assert group.exposure.value == pytest.approx(exposure, abs=1e-12)
    assert group.exposure.standard_error == pytest.approx(error, abs=1e-12)

    half_width = stats.norm.isf(tail) * error
    low, high = group.exposure.interval
    assert low == pytest.approx(max(-1.0, exposure - half_width))
    assert high >= min(1.0, exposure + half_width) - 1e-12
    assert group.exposure.upper_bound == high
    least = max(exposure, 0) + stats.norm.isf(0.05) * error
    assert group.exposure.upper_bound_pointwise >= min(1.0, least) - 1e-12
    if luck > 1e-12:  # the mean of noise that is clipped at 0
        noise = math.sqrt(luck / (2 * math.pi))
        assert group.noise_level == pytest.approx(noise)


@settings(max_examples=16)
@given(releases())
def test_the_published_part_and_resolution_against_loops(release):
    audit = pcer.audit(release, QUICK)
    groups = []
    p_values = []
    # Of either end, settings x groups together.
    tail = 0.05 / (2 * len(audit.settings) * len(audit.subject.groups))
    for setting in audit.settings:
        published_by_a_loop(release, setting)
        for name, group in setting.groups.items():
            group_by_a_loop(release, setting.epsilon, name, group, tail)
            groups.append(group)
            p_values.append(reference.memorised_p(release, setting.epsilon, name))
    assert [group.p_value_alone for group in groups] == pytest.approx(
        p_values, abs=1e-9
    )
    tested = [p for p in p_values if p is not None]
    adjusted = [group.p_value for group in groups if group.p_value is not None]
    assert adjusted == pytest.approx(reference.holm(tested), abs=1e-9)


@settings(max_examples=6)
@given(releases(), st.randoms(use_true_random=False))
def test_order_of_runs_changes_nothing(release, rng):
    shuffled = list(release.runs)
    rng.shuffle(shuffled)
    other = release.model_copy(update={"runs": shuffled})
    ours, theirs = (pcer.audit(one, QUICK) for one in (release, other))
    digests = {"release_sha256", "family"}
    assert ours.model_dump(exclude=digests) == theirs.model_dump(exclude=digests)


def test_a_budgets_numbers_do_not_depend_on_other_budgets(strong, plain):
    alone = strong.model_copy(
        update={"runs": [run for run in strong.runs if run.epsilon == 1.0]}
    )
    both = plain.settings[0]
    one = pcer.audit(alone, QUICK).settings[0]
    assert both.pairs[0].floors == one.pairs[0].floors
    assert both.pairs[0].pooled.ci == one.pairs[0].pooled.ci
    assert both.groups["g0"].null_gap == one.groups["g0"].null_gap


def with_exposures(release: Release, exposures: tuple[float, float]) -> Release:
    """With an attack on every model, and a paired gap: one number for all seeds."""
    once = attacked(release, "attack_advantage", exposures, 0.001)
    return pooled(once, "paired_gap", exposures, 0.001, epsilons=(1.0, None))


@pytest.mark.parametrize("exposures", [(0.01, 0.04), (-0.01, -0.02)])
def test_an_attack_that_is_one_number_for_all_seeds_has_no_spread_over_them(
    strong, plain, exposures
):
    audit = planned(with_exposures(strong, exposures), attack="paired_gap")
    assert audit.published == plain.published
    for setting in audit.settings:
        (pair,) = setting.pairs
        groups = setting.groups.values()
        ratios = [
            group.benefit.mean / max(exposure, 1e-3)
            for group, exposure in zip(groups, exposures, strict=True)
        ]
        assert pair.pcer_disparity.mean == pytest.approx(ratios[0] - ratios[1])
        assert [group.pcer.mean for group in groups] == pytest.approx(ratios)

        disparities = [pair.pcer_disparity, *pair.floors]
        assert {row.n_positive_seeds for row in disparities} == {None}
        summaries = [*disparities, pair.normalised_disparity, setting.pcer_spread]
        summaries += [group.pcer for group in groups]
        assert {summary.std for summary in summaries} == {None}
        assert {summary.ci for summary in summaries} == {None}
        assert pair.pcer_disparity.sign_test_p is None
        assert None not in [group.benefit.ci for group in groups]
        assert {row.floor_dominated_share for row in pair.floors} <= {0.0, 1.0}
    cell = floors_table(audit).rows[0][2]
    assert re.fullmatch(r"[+−][\d,.]+\n\[no interval\]\n–; \d+%", cell)


def test_swapping_groups_flips_the_signs_and_harm_turns_words_only(strong, plain):
    def told(**fields: object) -> pcer.Audit:
        subject = strong.subject.model_copy(update=fields)
        return pcer.audit(strong.model_copy(update={"subject": subject}), QUICK)

    swapped = told(groups=["g1", "g0"])
    harmful = told(outcome="harm")
    for one, other, harm in zip(
        plain.settings, swapped.settings, harmful.settings, strict=True
    ):
        ours = one.pairs[0]
        theirs = other.pairs[0]
        assert ours.groups == theirs.groups[::-1]
        assert ours.pcer_disparity.mean == pytest.approx(-theirs.pcer_disparity.mean)
        assert ours.ratio.cross_product == pytest.approx(-theirs.ratio.cross_product)
        for name, answer in ours.answers.items():
            assert answer.group == theirs.answers[name].group == "g1"
            p_value = theirs.answers[name].p_value
            assert answer.p_value == pytest.approx(p_value)
        assert one.verdict is other.verdict
        harmed = harm.pairs[0]
        assert ours.pcer_disparity == harmed.pcer_disparity
        assert (ours.ratio, ours.exposure) == (harmed.ratio, harmed.exposure)
        assert ours.outcomes == harmed.outcomes.model_copy(update={"group": "g1"})
        assert harmed.outcomes.group == "g0"
        assert harmed.double_disadvantage.group is None


def test_a_planted_disparity_is_shown(plain):
    pair = plain.settings[0].pairs[0]
    assert plain.verdict is pair.verdict is pcer.Verdict.DOUBLE_DISADVANTAGE
    assert plain.told.epsilon is None  # of two settings alike the less private one
    assert plain.headline == plain.told.headline != ""
    assert [answer.group for answer in pair.answers.values()] == ["g1"] * 4
    assert pair.exposure.answer == pair.ratio.answer == "differs"
    assert pair.outcomes.answer == "differ"
    assert pair.ratio.driven_by == "both"
    assert pair.pooled.disparity > 0
    assert pair.sign_holds_below_floor is None
    assert plain.statements()["double_disadvantage"] == [0, 1, "overfitting_gap"]
    assert all(claim.refuted for claim in comparisons(plain)[0].equal_gap_claims)


def test_sign_limit_where_the_group_of_lower_ratio_has_the_higher_rate():
    release = drawn(
        (20_000, 20_000), (0.2, 0.3), (0.004, 0.08), right=(0.9, 0.7), rng=1
    )
    setting = pcer.audit(release, QUICK).settings[0]
    (pair,) = setting.pairs
    groups = [setting.groups[name] for name in ("g0", "g1")]
    assert (pair.ratio.group, pair.ratio.driven_by) == ("g1", "exposure")
    rates = [group.benefit.mean for group in groups]
    exposures = [group.exposure.value for group in groups]
    assert rates[1] > rates[0]
    limit = exposures[1] * rates[0] / rates[1]
    assert pair.sign_holds_below_floor == pytest.approx(limit)

    def disparity(floor: float) -> float:
        return rates[0] / max(exposures[0], floor) - rates[1] / max(exposures[1], floor)

    assert disparity(0.98 * limit) > 0 > disparity(1.02 * limit)


def test_floor_above_every_exposure_repeats_demographic_parity():
    said = {
        "right": (0.9, 0.8),
        "n_seeds": 5,
        "budgets": (0.1, 1.0, 5.0, None),
        "rng": 2,
    }
    audit = pcer.audit(drawn((3_000, 3_000), (0.5, 0.3), (0, 0), **said), QUICK)
    found = audit.published[0].algorithm1
    row = found.equitable_budget[-1]
    *_, parity, _ = comparisons(audit)[0].rankings
    assert row.floor == 0.1
    assert row.repeats_demographic_parity
    assert row.budgets == parity.best
    assert 0.1 not in found.informative_floors
    for setting in audit.settings:
        floored = setting.pairs[0].floors[-1]
        difference = (
            setting.groups["g0"].positive_rate.mean
            - setting.groups["g1"].positive_rate.mean
        )
        assert floored.floor_dominated_share == 1.0
        assert floored.mean == pytest.approx(difference / 0.1, rel=1e-9)


def paper(n: int | None, **said: object) -> Release:
    """The paper's COMPAS table at two budgets, as rates."""
    groups = ("Other", "African-American")
    rates = (0.30, 0.53)
    published = {None: ((0.0074, 0.0099), rates), 5.0: ((0.0065, 0.0065), rates)}
    sizes = None if n is None else (n, n)
    return of_rates(published, groups, n=sizes, accuracy=0.68, outcome="harm", **said)


def test_rates_without_sizes_are_insufficient():
    release = attacked(paper(None), "auc_advantage", (0.1, 0.1), 0.01)
    audit = pcer.audit(paper(None), QUICK)
    attack = planned(release, attack="auc_advantage")
    assert audit.verdict is attack.verdict is pcer.Verdict.INSUFFICIENT_DATA
    setting = audit.settings[0]
    reason = "group sizes (n) are not in the release"
    assert setting.reason == attack.told.reason == reason
    assert setting.groups["Other"].p_value is setting.pairs[0].ratio.p_value is None
    assert setting.pairs[0].pcer_disparity.mean == pytest.approx(
        0.30 / 0.0065 - 0.53 / 0.0065
    )
    assert setting.equalized_odds_gap.mean is None
    (pair,) = setting.pairs
    assert pair.exposure.answer == pair.ratio.answer == "cannot_tell"
    assert pair.outcomes.answer == "cannot_tell"


def test_rates_with_sizes_can_be_detected_and_a_double_disadvantage_needs_no_floor():
    small, large = (pcer.audit(paper(n), QUICK) for n in (10_000, 3_000_000))
    assert small.verdict is pcer.Verdict.NONE_DETECTED
    assert large.verdict is pcer.Verdict.DOUBLE_DISADVANTAGE
    assert large.told.pairs[0].double_disadvantage.group == "African-American"
    floored = {
        b.epsilon: b.verdict for b in planned(paper(3_000_000), floor=0.05).settings
    }
    assert floored[5.0] is pcer.Verdict.FLOOR_DOMINATED
    assert floored[None] is pcer.Verdict.DOUBLE_DISADVANTAGE


@pytest.mark.parametrize("kind", ["other", None])
def test_without_a_random_split_outcomes_are_told_and_nothing_else(kind):
    audit = pcer.audit(paper(3_000_000, split_kind=kind), QUICK)
    setting = audit.settings[0]
    group = setting.groups["Other"]
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    assert "split was random" in setting.reason
    assert group.exposure.value is not None
    assert group.p_value is None
    assert not any(group.detected for group in setting.groups.values())
    (pair,) = setting.pairs
    assert (pair.outcomes.answer, pair.outcomes.group) == ("differ", "African-American")
    assert pair.exposure.answer == pair.ratio.answer == "cannot_tell"
    assert pair.double_disadvantage.group is None
    assert audit.published[0].settings[0].pairs[0].pcer_disparity.is_beyond_null is None
    assert set(audit.statements()) == {
        "insufficient_data",
        "outcomes_differ",
        "floor_sensitive",
    }


def test_many_groups_are_compared_with_the_largest():
    release = drawn(
        sizes=(2_000, 9_000, 3_000),
        label_shares=(0.5, 0.3, 0.4),
        gaps=(0, 0, 0),
        right=(0.9, 0.8),
        n_seeds=3,
        rng=3,
    )
    setting = pcer.audit(release, QUICK).settings[0]
    assert [pair.groups for pair in setting.pairs] == [("g1", "g0"), ("g1", "g2")]
    chosen = planned(release, reference_group="g2").settings[0]
    assert [pair.groups for pair in chosen.pairs] == [("g2", "g0"), ("g2", "g1")]
    apart = max(abs(pair.pcer_disparity.mean) for pair in setting.pairs)
    assert setting.pcer_spread.mean >= apart - 1e-9


@pytest.mark.parametrize(
    ("attack", "n", "people"),
    [
        ("attack_advantage", 10, reference.rate_variance(0.08, 10_000) / 4),
        ("paired_gap", 1, 0.0),
    ],
)
def test_other_attacks_come_with_the_release(strong, attack, n, people):
    setting = planned(with_exposures(strong, (0.02, 0.04)), attack=attack).settings[0]
    group = setting.groups["g1"]
    rates = [one.positive_rate.mean for one in setting.groups.values()]
    error = np.sqrt(reference.exposure_variance([0.04] * n, 0.001**2, people))
    assert (group.exposure.value, group.exposure.standard_error) == pytest.approx(
        (0.04, error)
    )
    assert group.detected
    assert group.null_gap.mean < group.overfitting_gap.mean
    disparity = setting.pairs[0].pcer_disparity.mean
    assert disparity == pytest.approx(rates[0] / 0.02 - rates[1] / 0.04)


def test_a_plan_that_does_not_fit_is_refused(strong):
    for release, change, message in (
        (strong, {"attack": "lira_advantage"}, "it carries overfitting_gap"),
        (strong, {"reference_group": "nobody"}, "its groups are"),
        (paper(10), {"benefit": "precision"}, "needs confusion counts"),
    ):
        with pytest.raises(PlanError, match=message):
            planned(release, **change)
    for bad in (
        {"floor": 0.0},
        {"floors": []},
        {"resamples": 0},
        {"rng": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            pcer.Plan(**bad)
    with pytest.raises(TypeError, match="colour"):
        pcer.Plan(colour=1)
    assert pcer.Plan(floors=[0.1, 0.001, 0.1]).floors == [0.001, 0.1]


@pytest.mark.parametrize("given", [[], [1], object()])
def test_what_is_no_release_is_one_sentence(given):
    with pytest.raises(InputError) as caught:
        pcer.audit(given)
    assert caught.value.field == "release"


def test_releases_are_read_where_they_lie(strong, tmp_path):
    first, second = (tmp_path / f"{name}.release.json" for name in "ab")
    strong.save(first)
    other = strong.model_copy(update={"provenance": strong.provenance.model_copy()})
    other.save(second)
    found = pcer.audit(strong, QUICK)
    assert pcer.audit(str(first), QUICK).to_json() == found.to_json()
    for several in (tmp_path, [first, strong], [tmp_path]):
        assert [one.headline for one in pcer.audit(several, QUICK)] == [
            found.headline
        ] * 2
    assert len(pcer.audit(strong, QUICK, family=[second]).family) == len(found.family)
    for absent in (tmp_path / "c.release.json", tmp_path.parent / "none"):
        with pytest.raises(InputError, match="cannot be read"):
            pcer.audit(absent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no \*.release.json"):
        pcer.audit(tmp_path / "empty")


def test_a_benefit_is_its_cell_among_those_it_is_a_share_of(strong):
    tables = [run.groups["g0"].test for run in strong.runs if run.epsilon == 1.0]
    for benefit, cell, beside in (
        ("true_positive_rate", "tp", "fn"),
        ("precision", "tp", "fp"),
        ("false_positive_rate", "fp", "tn"),
        ("false_negative_rate", "fn", "tp"),
    ):
        found = planned(strong, benefit=benefit).settings[0].groups["g0"].benefit.mean
        expected = []
        for table in tables:
            n = getattr(table, cell)
            expected.append(n / (n + getattr(table, beside)))
        assert found == pytest.approx(np.mean(expected))


def test_an_undefined_benefit_is_null_and_leaves_exposures_told(plain_release):
    plain_release["runs"][0]["groups"]["Other"]["test"] = {
        "tp": 0,
        "fp": 0,
        "tn": 70,
        "fn": 20,
    }
    plain_release["runs"][0]["split"] = "its own"
    for run in plain_release["runs"]:  # no model is equally right in three splits
        moved = (0, -4, 5)[run["seed"]]
        table = run["groups"]["African-American"]["train"]
        table["tp"] += moved
        table["fn"] -= moved
    audit = planned(parse_release(plain_release, file="x"), benefit="precision")
    private, no_dp = audit.settings
    assert private.pairs[0].outcomes.answer != "not_given"
    assert no_dp.groups["Other"].benefit.mean is None
    (pair,) = no_dp.pairs
    assert pair.pcer_disparity.mean is None
    assert pair.outcomes.answer == "not_given"
    assert pair.ratio.answer == "cannot_tell"
    assert pair.exposure.answer in ("no_difference_shown", "none_detected")


def test_without_split_ids_all_runs_are_one_split(strong, plain):
    runs = [run.model_copy(update={"split": None}) for run in strong.runs]
    audit = pcer.audit(strong.model_copy(update={"runs": runs}), QUICK)
    assert {setting.n_splits for setting in audit.settings} == {1}
    for one, other in zip(audit.settings, plain.settings, strict=True):
        assert (
            one.groups["g1"].exposure.standard_error
            > other.groups["g1"].exposure.standard_error
        )


@pytest.mark.parametrize("rng", [0, 1])
def test_null_picture_covers_a_null_release(rng):
    plan = pcer.Plan(resamples=50, null_draws=400)
    release = drawn(
        sizes=(4_000, 1_000),
        label_shares=(0.4, 0.4),
        gaps=(0, 0),
        right=(0.85, 0.7),
        n_seeds=20,
        rng=rng,
    )
    setting = pcer.audit(release, plan).settings[0]
    for group in setting.groups.values():
        low, high = group.null_gap.interval
        assert low <= group.overfitting_gap.mean <= high
        assert group.null_gap.mean == pytest.approx(group.noise_level, rel=0.2)
        # max(0, z) has a standard deviation of .5838
        error = group.noise_level * math.sqrt(2 * math.pi) * 0.5838 / math.sqrt(20)
        assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.2)
    pair = setting.pairs[0].pcer_disparity
    assert pair.null_interval[0] <= pair.mean <= pair.null_interval[1]
    assert pair.is_beyond_null is False


def test_the_papers_number_beside_its_null():
    """Beyond it where something is memorised; wider where more is compared."""
    plan = pcer.Plan(resamples=50, null_draws=4_000)
    strong = drawn((10_000, 10_000), (0.6, 0.2), (0.05, 0.05), budgets=(1.0, None))
    both = pcer.audit(strong, plan).published[0].settings
    assert [one.pairs[0].pcer_disparity.is_beyond_null for one in both] == [True, True]
    runs = [run for run in strong.runs if run.epsilon == 1.0]
    for kept, is_beyond in ((runs, True), (runs[:1], None)):
        audit = pcer.audit(strong.model_copy(update={"runs": kept}), plan)
        (alone,) = audit.published[0].settings
        found = alone.pairs[0].pcer_disparity
        assert found.is_beyond_null is is_beyond
        assert (found.null_interval is None) == (is_beyond is None)
        if is_beyond:
            wide = np.ptp(both[0].pairs[0].pcer_disparity.null_interval)
            narrow = np.ptp(found.null_interval)
            # 97.5 % beside 95 %
            assert wide / narrow == pytest.approx(2.241 / 1.96, rel=0.1)


def test_what_was_true_and_who_was_wrongly_told(strong, plain):
    tables = [run.groups["g0"].test for run in strong.runs if run.epsilon == 1.0]
    group = plain.settings[0].groups["g0"]
    bare = pcer.audit(paper(500), QUICK).settings[0].groups
    for name, above, rest in (
        ("true_rate", ("tp", "fn"), ("fp", "tn")),
        ("true_positive_rate", ("tp",), ("fn",)),
        ("false_positive_rate", ("fp",), ("tn",)),
    ):
        rates = []
        for table in tables:
            n_above = sum(getattr(table, cell) for cell in above)
            n_rest = sum(getattr(table, cell) for cell in rest)
            rates.append(n_above / (n_above + n_rest))
        assert getattr(group, name).mean == pytest.approx(np.mean(rates))
        assert getattr(bare["Other"], name).mean is None


def test_nothing_is_nan_the_schema_holds_and_a_file_holds_it_all(plain, tmp_path):
    pcer.write_audit(plain, tmp_path / "x.audit.json")
    assert read_audit(tmp_path / "x.audit.json") == [json.loads(plain.to_json())]
    validator = jsonschema.Draft202012Validator(Audit.file_schema())
    for audit in (plain, *(pcer.audit(paper(n), QUICK) for n in (None, 500))):
        assert not re.search("NaN|Infinity", audit.to_json())
        validator.validate(json.loads(audit.to_json()))


def test_same_release_and_plan_same_bytes_anywhere(tmp_path, strong):
    path = tmp_path / "a.release.json"
    pcer.write_release(strong, path)
    code = (
        "import sys, pcer; print(pcer.audit(pcer.read_release(sys.argv[1])).to_json())"
    )
    outputs = set()
    for hash_seed, locale, threads in (("0", "C", "1"), ("1", "C.UTF-8", "2")):
        env = {
            "PYTHONHASHSEED": hash_seed,
            "LC_ALL": locale,
            "OPENBLAS_NUM_THREADS": threads,
        }
        command = [sys.executable, "-c", code, str(path)]
        env = {**os.environ, **env, "PYTHONUTF8": "1"}
        outputs.add(
            subprocess.run(command, env=env, capture_output=True, check=True).stdout
        )
    assert len(outputs) == 1


def test_ties_are_reported_as_ties(strong):
    private = [run for run in strong.runs if run.epsilon is None]
    runs = [*private, *(run.model_copy(update={"epsilon": 8.0}) for run in private)]
    audit = pcer.audit(strong.model_copy(update={"runs": runs}), QUICK)
    found = audit.published[0].algorithm1
    assert [row.budgets for row in found.equitable_budget] == [[8.0, None]] * 4
    assert found.verdict is pcer.Verdict.FLOOR_SENSITIVE
