"""Two releases: what is matched, errors of changes by loops, alarms by draws."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.deciding.compare import ChangeVerdict
from pcer.measuring.exposure import Exposed
from pcer.measuring.release_changes import (
    BothExposed,
    Contrast,
    Rows,
    group_rows,
    pair_rows,
    size_rows,
)
from pcer.measuring.training_variance import two_part_p
from pcer.measuring.variances import people_part
from pcer.release.file import Release
from tests.deciding.changed import WORLD, edited
from tests.pages import many_groups, with_models
from tests.worlds.two_models import TwoModels, draw_both

ROOT = Path(__file__).parents[2]


def test_a_planted_worsening_is_found_named_and_the_other_way_round_improved(
    both, changes
):
    (setting,) = changes.settings
    assert (changes.verdict, setting.n_paired) == (ChangeVerdict.WORSE, 10)
    verdicts = ["cannot_be_told", "worse", "worse", "cannot_be_told"]
    assert [row.verdict.value for row in setting.rows] == verdicts
    audits = [
        pcer.audit(release, attack="overfitting_gap").settings[0] for release in both
    ]
    for row in setting.groups:
        old, new = (audit.groups[row.groups[0]].exposure.value for audit in audits)
        assert [row.old, row.new, row.change] == pytest.approx([old, new, new - old])
        assert row.change <= row.most
    assert changes.old.release_sha256 == both[0].sha256
    assert changes.new.title == both[1].title
    back = pcer.compare(both[1], both[0])
    same = pcer.compare(both[0], both[0])
    assert (back.verdict, same.verdict) == (
        ChangeVerdict.IMPROVED,
        ChangeVerdict.SAME_RELEASE,
    )
    for found, start, part in (
        (changes, "Worse: exposure of g1 rose", "difference between g0 and g1 grew"),
        (back, "Improved: exposure of g1 fell", "difference between g0 and g1 shrank"),
        (same, "Same release", "nothing changed"),
    ):
        assert found.headline.startswith(start)
        assert part in found.headline
    assert all(
        row.change == 0 and row.p_worse == 1 and row.most > 0
        for row in same.settings[0].rows
    )


def give_fewer(tree, n: int) -> None:
    """In every split n fewer of g1 are positive of either label: as often right."""
    for run in tree["runs"]:
        test = run["groups"]["g1"]["test"]
        for cell, change in (("tp", -n), ("fn", n), ("fp", -n), ("tn", n)):
            test[cell] += change


def gaps_by_split(release: Release) -> tuple[list[float], list[float], float]:
    """d_s and D_s, first minus second group, and the share that is trained on."""
    tested, everybody = [], []
    n_trained = n_all = 0
    for run in release.runs:
        rates = []
        for tables in run.groups.values():
            train, test = tables.train, tables.test
            n = train.n + test.n
            positive = train.tp + train.fp + test.tp + test.fp
            rates.append((test.positive_rate, positive / n))
            n_trained += train.n
            n_all += n
        tested.append(rates[0][0] - rates[1][0])
        everybody.append(rates[0][1] - rates[1][1])
    return tested, everybody, n_trained / n_all


def slow_training_variance(tested, everybody, share) -> float:
    spread = np.var(everybody, ddof=1)
    together = spread - np.cov(tested, everybody)[0, 1]
    return share / (1 - share) * spread + 2 * max(together, 0.0)


def slow_people_variance(release: Release, rates) -> float:
    """V_now of the difference of one release's rates."""
    closed = people = 0.0
    for g, rate in enumerate(rates):
        n = WORLD.people[g]
        n_tested = np.mean([run.groups[f"g{g}"].test.n for run in release.runs])
        closed += binomial(
            rate, 1 / (1 / n + (1 / n_tested - 1 / n) / len(release.runs))
        )
        people += binomial(rate, n)
    tested, _, _ = gaps_by_split(release)
    return max(closed, people + np.var(tested, ddof=1) / len(tested))


def shared_people_variance(old: Release, rates, way: int) -> float:
    """The most that one group's people in both releases add, to a change or a sum."""
    total = 0.0
    for g in (0, 1):
        n = WORLD.people[g]
        n_tested = np.mean([run.groups[f"g{g}"].test.n for run in old.runs])
        n_worth = 1 / (1 / n + (1 / n_tested - 1 / n) / len(old.runs))
        s, t = (rate[g] for rate in rates)
        against = math.sqrt(s * t / ((1 - s) * (1 - t)))
        correlation = min(1.0, against) if way < 0 else 1.0
        both = binomial(s, n_worth) * binomial(t, n_worth)
        total += 2 * correlation * math.sqrt(both)
    return total


def slow_variances(releases, rates, way: int, *, is_same: bool) -> tuple[float, float]:
    """V_now and V_train of the new difference plus ``way`` times the old one."""
    old, new = releases
    people = sum(
        slow_people_variance(release, of_release)
        for release, of_release in zip(releases, rates, strict=True)
    )
    *before, share = gaps_by_split(old)
    *after, _ = gaps_by_split(new)
    if not is_same:
        apart = [slow_training_variance(*each, share) for each in (before, after)]
        return people, sum(apart)
    people += shared_people_variance(old, rates, way)
    both = [
        np.array(one) + way * np.array(other)
        for one, other in zip(after, before, strict=True)
    ]
    return people, slow_training_variance(*both, share)


def test_an_outcome_gap_that_grows_is_worse_and_its_error_is_the_slow_one(both):
    """Rates of the same people: worst case, that the new model gives it to others."""
    old = both[0]
    new = edited(both[0], lambda tree: give_fewer(tree, 20))
    other = edited(new, lambda tree: tree.update(provenance={}))
    for later, is_same in ((new, True), (other, False)):
        ((row,),) = (setting.outcomes for setting in pcer.compare(old, later).settings)
        settings = [pcer.audit(each).settings[0] for each in (old, later)]
        rates = [[at.groups[g].benefit.mean for g in ("g0", "g1")] for at in settings]
        gaps = [a - b for a, b in rates]
        change = abs(gaps[1]) - abs(gaps[0])
        assert [row.old, row.new, row.change] == pytest.approx([*gaps, change])

        p_values = []
        for way in (-1, 1):
            people, training = slow_variances((old, later), rates, way, is_same=is_same)
            value = np.array(gaps[1] + way * gaps[0])
            p = two_part_p(value, people, training, degrees_of_freedom=9)
            p_values.append(float(p))
            if way == -1:
                assert row.standard_error**2 == pytest.approx(people + training)
                # As many fewer in every split: training moves nothing of that.
                assert (training < 1e-4 * people) == is_same
        assert row.p_worse_alone == pytest.approx(max(p_values))
    found = pcer.compare(old, other)
    assert (row.axis, row.verdict, found.verdict) == ("outcomes", "worse", "worse")
    assert found.headline.startswith(
        "Worse: the outcome gap between g0 and g1 grew from"
    )


def test_holm_and_upper_bounds_count_every_setting_group_and_pair(both, changes):
    rows = changes.settings[0].rows
    alone = sorted((row.p_worse_alone, row.p_worse) for row in rows)
    steps = [p * (len(alone) - k) for k, (p, _) in enumerate(alone)]
    assert [p for _, p in alone] == pytest.approx(
        np.minimum(1, np.maximum.accumulate(steps))
    )
    twice = pcer.compare(*both, settings=["none", "none=none"])
    for one, two in zip(changes.settings[0].rows, twice.settings[1].rows, strict=True):
        assert two.p_worse_alone == one.p_worse_alone
        assert two.p_worse > one.p_worse or one.p_worse == 1
        assert two.most > one.most


def shift_names_of_splits(tree):
    names = [run["split"] for run in tree["runs"]]
    for run, name in zip(tree["runs"], [*names[1:], names[0]], strict=True):
        run["split"] = name


@pytest.mark.parametrize(
    ("edit", "same_people"),
    [
        (lambda tree: tree.update(provenance={}), False),
        (lambda tree: tree.update(provenance={"data_digest": "sha256:other"}), False),
        (shift_names_of_splits, True),
    ],
)
def test_splits_are_paired_only_where_data_names_and_sizes_are_the_same(
    both, changes, edit, same_people
):
    apart = pcer.compare(both[0], edited(both[1], edit))
    assert (apart.settings[0].n_paired, apart.same_people) == (None, same_people)
    pairs = zip(apart.settings[0].groups, changes.settings[0].groups, strict=True)
    assert all(one.standard_error > two.standard_error for one, two in pairs)


def test_groups_in_another_order_are_matched_by_name(both, changes):
    turned = edited(both[1], lambda tree: tree["subject"].update(groups=["g1", "g0"]))
    assert pcer.compare(both[0], turned).settings == changes.settings


def rename_group(tree):
    tree["subject"]["groups"] = ["g0", "g2"]
    for run in tree["runs"]:
        run["groups"]["g2"] = run["groups"].pop("g1")


def the_same_tables_in_every_split(tree):
    for run in tree["runs"]:
        run["groups"] = tree["runs"][0]["groups"]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            lambda tree: tree["subject"].update(attribute="age"),
            "their attribute .* group.* age",
        ),
        (lambda tree: tree["subject"].update(outcome="harm"), "their outcome .* harm"),
        (
            lambda tree: tree["training"].update(split_kind="other"),
            "new .*training.split_kind",
        ),
        (the_same_tables_in_every_split, "the counts of the new release contradict"),
        (rename_group, "their groups .* g0 and g1.* g0 and g2"),
    ],
)
def test_what_cannot_be_compared_is_refused(both, edit, sentence):
    with pytest.raises(pcer.InputError, match=sentence):
        pcer.compare(both[0], edited(both[1], edit))
    with pytest.raises(pcer.InputError, match="two releases, not this dict"):
        pcer.compare(both[0], {})


def test_attacks_by_shadow_models_need_as_many_splits():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    assert pcer.compare(release, release).attack == "rmia_advantage"
    fewer = edited(release, lambda tree: tree.update(runs=tree["runs"][:12]))
    assert pcer.compare(release, fewer).attack == "paired_confidence"
    with pytest.raises(pcer.PlanError, match="more splits make a stronger attack"):
        pcer.compare(release, fewer, attack="lira_advantage")


def test_settings_are_matched_by_model_and_budget(both):
    old = with_models(many_groups(["a", "b"]), ["forest", "logistic"])
    new = with_models(many_groups(["a", "b"]), ["forest"])
    found = pcer.compare(old, new)
    assert [one.name for one in found.settings] == ["forest, ε = 1", "forest, no-DP"]
    assert found.left_out == ["old: logistic, 1", "old: logistic, no-DP"]
    for text in ("logistic, none=forest, none", "logistic, no-DP = forest, no-DP"):
        (chosen,) = pcer.compare(old, new, settings=text).settings
        assert chosen.name == "logistic, no-DP → forest, no-DP"
    assert len(pcer.compare(old, new, settings=["forest, 1"]).settings) == 1
    with pytest.raises(pcer.InputError, match="'tree' is not in both releases"):
        pcer.compare(old, new, settings="tree")
    with pytest.raises(pcer.InputError, match="no setting is in both releases"):
        pcer.compare(old, with_models(many_groups(["a", "b"]), ["tree"]))
    (only,) = pcer.compare(both[0], with_models(both[1], ["new net"])).settings
    assert only.name == "no-DP → new net, no-DP"


def test_what_it_writes_holds_its_schema(changes):
    tree = json.loads(changes.to_json())
    jsonschema.Draft202012Validator(pcer.Changes.file_schema()).validate(tree)
    assert tree == changes.to_tree()
    published = json.loads(
        (ROOT / "docs" / "schemas" / "comparison.schema.json").read_text()
    )
    assert published == pcer.Changes.file_schema()


def test_models_trained_on_another_share_are_mentioned():
    def turn(tree):
        for run in tree["runs"]:
            for tables in run["groups"].values():
                tables["train"], tables["test"] = tables["test"], tables["train"]

    old, new = draw_both(
        replace(WORLD, old=(0.0, 0.0), new=(0.0, 0.0)), np.random.default_rng(4)
    )
    found = pcer.compare(old, edited(new, turn))
    assert any(
        "trained on 70 of 100 records and the new ones on 30" in x
        for x in found.account
    )


# LiRA and RMIA, split by split


@pytest.fixture(scope="module")
def by_lira() -> tuple[Release, Release]:
    return draw_both(replace(WORLD, attack="lira_advantage"), np.random.default_rng(6))


def without_runs(tree, n=None):
    for run in tree["runs"][:n]:
        for table in run["groups"].values():
            del table["exposure"]


def people_by_loops(tree, group: str) -> float:
    """What one group's people add to the variance, without other errors of records."""
    of_runs = [
        run["groups"][group]["exposure"]["lira_advantage"] for run in tree["runs"]
    ]
    (row,) = (row for row in tree["pooled_exposure"] if row["group"] == group)
    n = len(of_runs)
    of_one = sum(run["standard_error"] ** 2 for run in of_runs) / len(of_runs)
    return max(row["null_error"] ** 2 - of_one / n, 0.0) / (1 - 1 / n)


def mutual_by_hand(tree, group: str) -> float:
    """What training records change about each other: 1 + 3 r^3, at least 2."""
    (row,) = (row for row in tree["pooled_exposure"] if row["group"] == group)
    return max(2.0, 1 + 3 * row["reliability"] ** 3)


def lira_by_run(tree, group: str) -> list[float]:
    rows = [run["groups"][group]["exposure"] for run in tree["runs"]]
    return [row["lira_advantage"]["value"] for row in rows]


def variance_by_loops(trees, group: str) -> float:
    """For the change of one group's exposure: the spread over splits, and people."""
    runs = [lira_by_run(tree, group) for tree in trees]
    changes = [new - old for old, new in zip(*runs, strict=True)]
    change = sum(changes) / 10
    of_splits = sum((one - change) ** 2 for one in changes) / 9 / 10
    old, new = (sum(values) / 10 for values in runs)
    s, t = (max(x, (old + new) / 2, 0.0) / 0.5 for x in (old, new))
    people = [people_by_loops(tree, group) for tree in trees]
    factors = [mutual_by_hand(tree, group) for tree in trees]
    apart = [tree["pooled_exposure"][0]["separation"] for tree in trees]
    p, q = (
        (1 + x + (factor - 2) * x**2) * own
        for factor, x, own in zip(factors, apart, people, strict=True)
    )
    others = 2 * min(1.0, math.sqrt(s * t / ((1 - s) * (1 - t)))) * math.sqrt(p * q)
    alone = sum(
        factor * own for factor, own in zip(factors, people, strict=True)
    )  # as in the interval of one group
    return of_splits + max(p + q + others, alone)


def test_lira_is_paired_on_the_same_splits_and_its_errors_are_the_slow_ones(by_lira):
    found = pcer.compare(*by_lira)
    (setting,) = found.settings
    assert (found.attack, setting.n_paired) == ("lira_advantage", 10)
    assert found.verdict == "worse"
    assert "share 10 splits, which are compared one by one" in " ".join(found.account)
    trees = [json.loads(release.to_json()) for release in by_lira]
    audits = [
        pcer.audit(release, attack="lira_advantage").settings[0] for release in by_lira
    ]
    (apart,) = pcer.compare(by_lira[0], edited(by_lira[1], without_runs)).settings
    added = {row.groups[0]: row.standard_error for row in apart.groups}
    for row in setting.groups:
        (name,) = row.groups
        variance = variance_by_loops(trees, name)
        assert row.standard_error**2 == pytest.approx(variance, rel=1e-9)
        assert row.standard_error < added[name]
        exposures = [at.groups[name].exposure.value for at in audits]
        assert [row.old, row.new] == pytest.approx(exposures)


@pytest.mark.parametrize(
    "edit",
    [
        without_runs,
        lambda tree: without_runs(tree, 1),
        lambda tree: tree["pooled_exposure"][0].update(value=0.2),
        lambda tree: [row.pop("null_error") for row in tree["pooled_exposure"]],
        shift_names_of_splits,
    ],
)
def test_lira_without_a_usable_value_of_every_split_is_not_paired(by_lira, edit):
    (setting,) = pcer.compare(by_lira[0], edited(by_lira[1], edit)).settings
    assert setting.n_paired is None


def test_settings_that_are_not_paired_are_counted(by_lira):
    """And as many models make an attack as strong, not as many splits."""

    def twice(tree, *, by_run):
        more = json.loads(json.dumps(tree))
        if not by_run:
            without_runs(more)
        for row in (*more["runs"], *more["pooled_exposure"]):
            row["model"] = "second"
        for row in (*tree["runs"], *tree["pooled_exposure"]):
            row["model"] = "first"
        tree["runs"] += more["runs"]
        tree["pooled_exposure"] += more["pooled_exposure"]

    old = edited(by_lira[0], lambda tree: twice(tree, by_run=True))
    new = edited(by_lira[1], lambda tree: twice(tree, by_run=False))
    found = pcer.compare(old, new)
    assert [each.n_paired for each in found.settings] == [10, None]
    assert "That is so in 1 of 2 settings" in " ".join(found.account)

    def again(tree):
        tree["runs"] += [run | {"seed": run["seed"] + 10} for run in tree["runs"]]

    assert (
        pcer.compare(by_lira[0], edited(by_lira[1], again)).attack == "overfitting_gap"
    )


def test_attacks_that_are_not_calibrated_are_not_paired():
    """By splits alone a loss attack's AUC misses what records change in each other."""
    world = replace(WORLD, attack="auc_advantage")
    (setting,) = pcer.compare(*draw_both(world, np.random.default_rng(6))).settings
    assert setting.n_paired is None


def test_an_audit_takes_one_number_of_lira_over_all_splits(by_lira):
    releases = (by_lira[1], edited(by_lira[1], without_runs))
    plan = pcer.Plan(resamples=9)
    one, other = (pcer.audit(x, plan).to_json().replace(x.sha256, "") for x in releases)
    assert one == other
    bare = edited(
        by_lira[1], lambda tree: tree.pop("pooled_exposure")
    )  # as others' files may be
    found, whole = (
        pcer.audit(x, attack="lira_advantage").settings[0] for x in (bare, releases[0])
    )
    for name, group in found.groups.items():
        assert group.exposure.value == pytest.approx(whole.groups[name].exposure.value)


@pytest.mark.slow
@pytest.mark.parametrize("remembered", ["same", "anew", "others"])
def test_lira_of_two_models_alike_alarms_seldom(remembered):
    """At a true 5 % more than 12 of 120 come in less than 1 %."""
    world = TwoModels(
        people=(300, 500),
        old=(0.06,) * 2,
        new=(0.06,) * 2,
        remembered=remembered,
        n_splits=10,
    )
    world = replace(world, attack="lira_advantage")
    n_alarms = 0
    for draw in range(120):
        both = draw_both(world, np.random.default_rng([8, draw]))
        with suppress(pcer.InputError):  # one in a hundred looks too unbalanced
            n_alarms += pcer.compare(*both).verdict is ChangeVerdict.WORSE
    assert n_alarms <= 12


# Errors of changes


RNG = np.random.default_rng(5)
OLD = RNG.normal((0.05, 0.02), 0.01, (10, 2))
NEW = OLD + RNG.normal((0.03, 0.0), 0.004, (10, 2))
PEOPLE = (400.0, 900.0)


def exposed(per_split, of_records=np.nan) -> Exposed:
    n = np.array(PEOPLE)
    return Exposed(
        per_split=np.array(per_split, dtype=float),
        null_variance=np.full(2, 1e-4),
        one_split=np.array([4e-4, 2e-4]),
        n=n,
        n_test=n * 0.3,
        people=people_part,
        covariance=np.full(2, np.nan),
        is_counted=True,
        of_records=np.full(2, of_records),
        mutual=np.full(2, 2.0),
    )


def two(*, same_people=True, paired=True, of_records=np.nan) -> BothExposed:
    old, new = (exposed(values, of_records) for values in (OLD, NEW))
    return BothExposed(old, new, same_people=same_people, largest=1.0, is_paired=paired)


def pair_of(exposures: BothExposed) -> Rows:
    return pair_rows(exposures.only(np.array([[0], [1]])), tail=0.05)


def binomial(exposure: float, n: float) -> float:
    """Variance of a share of n people, two added on either side."""
    share = (max(exposure, 0.0) * n + 2) / (n + 4)
    return share * (1 - share) / n


def test_paired_changes_are_the_slow_ones():
    found = group_rows(two(), tail=0.025)
    for g in (0, 1):
        changes = [NEW[s, g] - OLD[s, g] for s in range(10)]
        change = sum(changes) / 10
        split_error = sum((one - change) ** 2 for one in changes) / 9 / 10
        old = OLD[:, g].mean()
        new = NEW[:, g].mean()
        s = max(old, (old + new) / 2, 0.0)
        t = max(new, (old + new) / 2, 0.0)
        p = binomial(s, PEOPLE[g])
        q = binomial(t, PEOPLE[g])
        others = 2 * math.sqrt(s * t / ((1 - s) * (1 - t))) * math.sqrt(p * q)
        variance = split_error + p + q + others
        student = stats.t(9 * (variance / split_error) ** 2)
        p_worse = student.sf(change / math.sqrt(variance))
        most = change + student.isf(0.025) * math.sqrt(variance)
        assert found.change[g] == pytest.approx(change, rel=1e-12)
        assert found.standard_error[g] ** 2 == pytest.approx(variance, rel=1e-12)
        assert found.p_worse_alone[g] == pytest.approx(p_worse, rel=1e-9)
        assert found.p_improved_alone[g] == pytest.approx(1 - p_worse, rel=1e-9)
        assert found.most[g] == pytest.approx(max(most, 0.0), rel=1e-9)


def test_without_pairing_the_errors_add_and_are_normal():
    apart = two(same_people=False, paired=False)
    found = group_rows(apart, tail=0.05)
    middle = (OLD.mean(axis=0) + NEW.mean(axis=0)) / 2
    sides = ((apart.old, OLD), (apart.new, NEW))
    added = sum(
        side.variance_at(np.maximum(x.mean(axis=0), middle)) for side, x in sides
    )
    assert found.standard_error**2 == pytest.approx(added, rel=1e-12)
    z = found.change / np.sqrt(added)
    assert found.p_worse_alone == pytest.approx(stats.norm.sf(z), rel=1e-9)
    shared = group_rows(two(paired=False), tail=0.05)
    assert (shared.standard_error > found.standard_error).all()


def test_what_records_change_about_each_other_counts_in_groups_and_not_in_pairs():
    plain = two(paired=False)
    mutual = two(paired=False, of_records=1e-2)
    assert group_rows(mutual, tail=0.05).standard_error ** 2 == pytest.approx(
        np.full(2, 4e-2)
    )
    assert pair_of(mutual).standard_error == pair_of(plain).standard_error


def test_a_pair_takes_what_its_splits_share_only_once():
    # The second group moves with the first in every split, so that their difference is
    # steady.
    shared = RNG.normal(0, 0.05, (10, 1))
    steady = two()
    moved = replace(steady, new=exposed(NEW + shared - shared.mean()))
    after, still = (
        group_rows(one, tail=0.05).standard_error for one in (moved, steady)
    )
    assert (after > 1.2 * still).all()
    found = pair_of(moved)
    before = pair_of(steady)
    assert found.change == pytest.approx(before.change)
    assert found.standard_error == pytest.approx(before.standard_error)


def normal(old, new) -> Rows:
    """Differences with an error of 1: change and sum have a variance of 2."""
    old = np.atleast_1d(old)
    new = np.atleast_1d(new)
    variance = np.full(len(old), 2.0)
    freedom = np.full(len(old), np.inf)
    change, total = (
        Contrast(value, variance, freedom) for value in (new - old, new + old)
    )
    return size_rows(old, new, change, total, tail=0.05)


@pytest.mark.parametrize(
    ("old", "new", "worse", "improved"),
    [
        (0.0, 6.0, True, False),
        (0.0, -6.0, True, False),
        (6.0, 0.0, False, True),
        (6.0, 6.0, False, False),
        (6.0, -6.0, False, False),
        (6.0, -12.0, True, False),
        (-3.0, -9.0, True, False),
        (-9.0, 3.0, False, True),
        (0.0, 0.0, False, False),
    ],
)
def test_a_difference_is_worse_by_its_size_whoever_is_more_exposed(
    old, new, worse, improved
):
    found = normal(old, new)
    assert (found.p_worse_alone[0] <= 0.01) == worse
    assert (found.p_improved_alone[0] <= 0.01) == improved
    assert found.change[0] == abs(new) - abs(old)


@pytest.mark.parametrize("old", [0.0, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_a_difference_of_the_same_size_alarms_seldom_and_its_bound_holds(old, turn):
    rng = np.random.default_rng(7)
    for growth in (0.0, 0.5, 2.0):
        new = turn * (old + growth)
        drawn = normal(*rng.normal([[old], [new]], 1.0, (2, 40_000)))
        assert (drawn.most < growth).mean() <= 0.053
        if growth == 0:
            assert (drawn.p_worse_alone <= 0.05).mean() <= 0.053
            assert (drawn.p_improved_alone <= 0.05).mean() <= 0.053
