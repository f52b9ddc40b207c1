"""Few people without a recorded group cost nobody a group, and no count is false.

Who leaves the tables, and why, is said where a release is made.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import model_selection as folds
from sklearn.naive_bayes import GaussianNB

import pcer
from pcer.data import GroupedDataset, ProtectedAttribute, split
from pcer.errors import InputError
from pcer.models.splits import SplitPlan, splits_of
from pcer.report.tables.disclosed import leaving
from tests.commands import passed

RACES = {"White": 3_509, "Black": 994, "Asian": 402, "Native": 95}
QUICK = pcer.Plan(resamples=2, null_draws=2)
JOINED = "Asian + 1 small group"  # 497 people, where nobody's race is unknown


def people(n_unknown: int = 0) -> pd.DataFrame:
    """5,000 people; the race of so many is unknown, of one Asian among them."""
    rng = np.random.default_rng(1)
    race = np.repeat(list(RACES), list(RACES.values())).astype(object)
    race[: max(n_unknown - 1, 0)] = None
    race[4_600 : 4_600 + min(n_unknown, 1)] = None
    n = len(race)
    label = rng.random(n) < 0.2
    answer = label ^ (rng.random(n) >= 0.8)
    columns = {"y_true": label.astype(int), "y_pred": answer.astype(int), "race": race}
    sex = rng.choice(["f", "m"], n)
    part = np.where(rng.random(n) < 0.7, "train", "test")
    return pd.DataFrame({**columns, "sex": sex, "split": part})


def releases(n_unknown: int = 0, **about: object) -> dict[str, pcer.Release]:
    """A release by race and one by sex, of the same people."""
    return of(people(n_unknown), ["race"] if about else ["race", "sex"], **about)


def of(table: pd.DataFrame, attributes: list[str], **about: object) -> dict:
    """Releases of a table of people."""
    return pcer.releases_from_predictions(
        table["y_true"],
        table["y_pred"],
        sensitive_features=table[["race", "sex"]],
        attributes=attributes,
        split=table["split"],
        split_kind="random",
        outcome="benefit",
        about={"dataset": "people", **about},
    )


def n_in_tables(release: pcer.Release) -> int:
    (run,) = release.runs
    return sum(tables.train.n + tables.test.n for tables in run.groups.values())


def test_where_nobody_is_unknown_the_only_small_group_is_joined():
    release = releases()["race"]
    assert release.subject.groups == ["Black", "White", JOINED]
    assert n_in_tables(release) == 5_000


def test_few_people_of_unknown_race_cost_nobody_a_group():
    release = releases(26)["race"]
    assert release.subject.groups == ["Black", "White", JOINED]
    assert n_in_tables(release) == 4_974


@pytest.mark.parametrize("n_unknown", [26, 257])
def test_no_more_people_are_said_to_lack_a_group_than_do(n_unknown):
    release = releases(n_unknown)["race"]
    assert release.subject.n_missing_group == n_unknown
    audit = pcer.audit(release, pcer.Plan(resamples=2, null_draws=2))
    for told in (str(release), str(audit)):
        assert f"{n_unknown} have no recorded race" in told


def test_tables_of_one_command_are_about_the_same_people():
    found = releases(26)
    assert n_in_tables(found["sex"]) == n_in_tables(found["race"])


def test_tables_of_public_data_hold_everybody_who_has_the_attribute():
    table = people(26)
    found = pcer.releases_from_predictions(
        table["y_true"],
        table["y_pred"],
        sensitive_features=table[["race", "sex"]],
        split=table["split"],
        split_kind="random",
        outcome="benefit",
        disclosure={"public_data": True},
    )
    assert n_in_tables(found["race"]) == 4_974
    assert n_in_tables(found["sex"]) == 5_000


def test_joined_groups_keep_names_that_were_declared():
    release = releases(groups=list(RACES))["race"]
    assert any("Asian and Native" in name for name in release.subject.groups)


def recorded_in_training(dataset: GroupedDataset, seed: int) -> tuple[int, int]:
    """Training records of either label that have a group: what a release adds up to."""
    train = split(dataset, seed=seed).train
    recorded = dataset.attributes[0].codes[train] >= 0
    n_negative, n_positive = np.bincount(dataset.labels[train][recorded], minlength=2)
    return int(n_negative), int(n_positive)


def test_totals_of_training_say_nothing_of_one_person_who_is_in_no_table():
    codes = np.arange(200) % 2
    codes[17] = -1
    dataset = GroupedDataset(
        name="people",
        features=np.zeros((200, 1)),
        feature_names=("age",),
        labels=np.arange(200) // 2 % 2,
        attributes=(
            ProtectedAttribute(name="sex", group_names=("f", "m"), codes=codes),
        ),
        outcome="benefit",
        positive_label="yes",
        record_ids=np.arange(200),
    )
    totals = {recorded_in_training(dataset, seed) for seed in range(12)}
    assert len(totals) == 1


@pytest.mark.parametrize("n_apart", [1, 2, 5, 40])
def test_those_in_no_table_are_divided_whatever_their_labels(n_apart):
    rng = np.random.default_rng(n_apart)
    codes = np.where(np.arange(300) < n_apart, -1, np.arange(300) % 2)
    dataset = GroupedDataset(
        name="people",
        features=np.zeros((300, 1)),
        feature_names=("age",),
        labels=rng.integers(0, 2, 300),
        attributes=(
            ProtectedAttribute(name="sex", group_names=("f", "m"), codes=codes),
            ProtectedAttribute(
                name="race", group_names=("a", "b"), codes=np.arange(300) // 2 % 2
            ),
        ),
        outcome="benefit",
        positive_label="yes",
        record_ids=np.arange(300),
    )
    n_trained = set[int]()
    trained = np.zeros(300)
    for secret in (b"a" * 16, b"b" * 16, b"c" * 16, b"d" * 16, b"e" * 16):
        sizes = set[int]()
        for seed in range(20):
            train = split(dataset, seed=seed, secret=secret).train
            sizes.add(len(train))
            n_trained.add(int((train < n_apart).sum()))
            trained[train] += 1
        assert len(sizes) == 1  # the engine's models train on equally many
    if n_apart == 1:
        assert n_trained == {0, 1}
    else:
        assert n_trained == {max(1, (7 * n_apart + 5) // 10)}
        assert 0 < trained[:n_apart].min() <= trained[:n_apart].max() < 100
    by_race = split(dataset, seed=3, attributes=["race"])
    everybody = dataset.attributes[1:]
    alone = split(replace(dataset, attributes=everybody), seed=3)
    assert by_race.train.tolist() == alone.train.tolist()
    public = replace(dataset, public=True)
    assert split(public, seed=3).train.tolist() == alone.train.tolist()


@pytest.mark.parametrize("cv", [None, folds.ShuffleSplit(200, test_size=0.3)])
def test_splits_of_estimators_toss_a_coin_for_those_in_no_table(cv):
    plan = SplitPlan(n_splits=200, cv=cv)
    classes = np.arange(100) % 2
    is_apart = np.isin(np.arange(100), (3, 50, 51))
    persons = np.arange(100) // 2  # 50 and 51 are one person; 2 is in a table
    for owners in (None, persons) if cv is None else (None,):
        drawn = splits_of(
            plan, classes, owners, 2**70, is_public=False, is_apart=is_apart
        )
        member = drawn.members(100)
        coins = [50, 51] if owners is not None else [3, 50, 51]
        inside = np.setdiff1d(np.arange(100), coins)
        assert len(set(member[:, inside].sum(axis=1))) == 1
        assert np.abs(member[:, coins].mean(axis=0) - 0.7).max() < 0.15
        if owners is not None:
            assert (member[:, ::2] == member[:, 1::2]).all()
        nobody = splits_of(plan, classes, owners, 2**70, is_public=False)
        public = splits_of(
            plan, classes, owners, 2**70, is_public=True, is_apart=is_apart
        )
        same = zip(nobody.train, public.train, strict=True)
        assert all(np.array_equal(one, other) for one, other in same)
        assert nobody.identity == public.identity != drawn.identity


def split_exactly(table: pd.DataFrame, strata: list[np.ndarray]) -> pd.DataFrame:
    """The table; of each stratum exactly 70% train."""
    rng = np.random.default_rng(5)
    for stratum in strata:
        rows = rng.permutation(np.flatnonzero(stratum))
        n_train = round(0.7 * len(rows))
        table.loc[rows[:n_train], "split"] = "train"
        table.loc[rows[n_train:], "split"] = "test"
    return table


def test_an_exact_split_of_each_label_tells_of_those_in_no_table():
    table = people(26)
    is_positive = table["y_true"].to_numpy() == 1
    release = of(split_exactly(table, [is_positive, ~is_positive]), ["race"])["race"]
    assert release.subject.groups == ["Asian", "Black", "White"]  # one hides the 26
    reasons = [(row.why, row.n_people) for row in release.subject.left_out]
    assert reasons == [("missing", 26), ("too_few", 95)]
    n_shown = n_in_tables(release)
    assert release.subject.n_missing_group == 5_000 - n_shown
    for told in (str(release), str(pcer.audit(release, QUICK))):
        told = told.replace("\n", " ")
        assert "26 have no recorded race; 95 are in groups too small to show" in told
    assert f"{n_shown:,} people" in str(pcer.audit(release, QUICK))


@pytest.mark.parametrize(("n_unknown", "is_told"), [(26, False), (1, True)])
def test_an_exact_size_tells_only_where_hardly_anybody_is_in_one_part(
    n_unknown, is_told
):
    table = split_exactly(people(n_unknown), [np.full(5_000, True)])
    release = of(table, ["race"])["race"]
    assert (JOINED in release.subject.groups) is not is_told


def test_the_missing_are_a_group_where_they_are_enough():
    groups = releases(257, missing="group")["race"].subject.groups
    assert groups == ["Black", "White", "not recorded", JOINED]
    few = releases(5, missing="group")["race"]
    assert few.subject.groups == ["Black", "White", JOINED]
    assert few.subject.left_out[0].n_people == 5


@pytest.mark.parametrize(("n_unknown", "is_group"), [(20, False), (200, True)])
def test_estimators_settle_before_any_split_who_is_a_group(n_unknown, is_group):
    rng = np.random.default_rng(8)
    race = rng.choice(["a", "b"], 900).astype(object)
    race[rng.permutation(900)[:n_unknown]] = None
    label = rng.integers(0, 2, 900)
    release = pcer.release_from_estimator(
        GaussianNB(),
        label[:, None] + rng.normal(size=(900, 1)),
        label,
        sensitive_features={"race": race},
        outcome="benefit",
        n_splits=2,
        progress=False,
        about={"missing": "group"},
    )
    assert ("not recorded" in release.subject.groups) is is_group
    assert release.subject.groups[:2] == ["a", "b"]
    n_left_out = [row.n_people for row in release.subject.left_out]
    assert n_left_out == ([] if is_group else [n_unknown])


def test_other_values_and_other_attributes_have_their_own_words():
    table = people(26)
    table.loc[100:149, "sex"] = None
    found = of(table, ["race", "sex"])
    assert "Left out: 26 have no recorded race; 50 more have no recorded sex." in str(
        found["race"]
    )
    some = of(table, ["race"], groups=["White", "Black"])["race"]
    assert "26 have no recorded race; 496 more are of a race that" in str(some)
    assert n_in_tables(some) + some.subject.n_missing_group == 5_000


# What leaves is said where it leaves


def test_a_printed_release_says_who_was_joined_and_how_many_they_are():
    told = str(releases()["race"])
    assert "joined" in told
    assert "497" in told


def test_the_verb_says_who_was_joined_and_how_many_they_are(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    said = ("--attribute", "race", "--outcome", "benefit", "--split-kind", "random")
    done = passed("release", tmp_path / "people.csv", *said, "--out", tmp_path / "out")
    assert "joined" in done.stderr
    assert "497" in done.stderr


def small(*, is_scored: bool = False, **given: object) -> pcer.Release:
    """400 people in one random split; the model is hardly ever wrong in training."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 400)
    in_training = rng.random(400) < 0.7
    is_wrong = rng.random(400) < np.where(in_training, 0.004, 0.3)
    answer = np.where(is_wrong, 1 - label, label)
    score = np.abs(answer - rng.uniform(0, 0.4, 400))
    return pcer.release_from_predictions(
        label,
        **{"y_score": score} if is_scored else {"y_pred": answer},
        sensitive_features={"sex": rng.choice(["f", "m"], 400)},
        split=in_training,
        split_kind="random",
        outcome="benefit",
        **given,
    )


def test_a_printed_release_says_how_many_memberships_are_certain():
    release = small()
    assert release.disclosure.memberships > 0
    assert f"{release.disclosure.memberships} " in str(release)
    assert "certain" in str(release)


def test_predictions_say_whose_records_they_are():
    release = small(person_id=np.arange(400))
    assert release.training.unit_of_split == "person"


def test_survey_weights_are_refused_in_a_sentence():
    with pytest.raises(InputError, match="a release counts people"):
        small(sample_weight=np.full(400, 2.5))


def test_a_printed_release_says_why_an_attack_is_not_there():
    release = small(is_scored=True, record_id=np.arange(400))
    assert release.not_computed
    for reason in release.not_computed.values():
        assert reason in str(release).replace("\n", " ")


def test_without_certain_cells_it_is_said_which_rule_emptied_an_attack():
    names = {"is_scored": True, "record_id": np.arange(400)}
    exact = small(**names)
    coarse = small(**names, disclosure={"certain_cells": False})
    assert "auc_advantage" in exact.runs[0].groups["f"].exposure
    assert coarse.runs[0].groups["f"].exposure == {}
    assert "certain_cells" in coarse.not_computed["auc_advantage"]


def test_scores_and_one_random_split_give_an_auc():
    (run,) = small(is_scored=True).runs
    assert "auc_advantage" in run.groups["f"].exposure


def test_attributes_of_one_call_are_judged_as_one_family():
    found = releases(26)
    for audit in pcer.audit([*found.values()], QUICK):
        assert len(audit.family) == 2
    strangers = [found["race"], releases(25)["sex"]]
    for audit in pcer.audit(strangers, QUICK):
        assert len(audit.family) == 1


# People, not records


def test_a_group_of_one_person_with_many_records_never_stands_alone():
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(300), 2)
    group = np.where(person % 2 == 0, "f", "m").astype(object)
    group[person < 40] = "r"  # 40 records of one person
    person[person < 40] = 0
    part = rng.random(600) < 0.6  # in both parts
    release = pcer.release_from_signals(
        rng.normal(size=600),
        rng.normal(size=600),
        kind="loss",
        sensitive_features={"group": group},
        member=part,
        split_kind="random",
        person_id=person,
    )
    assert "r" not in release.subject.groups
    assert release.disclosure.joined[0].n_groups == 2


@pytest.mark.parametrize("is_divided", [True, False])
def test_predictions_of_several_records_count_people(is_divided):
    rng = np.random.default_rng(6)
    person = np.repeat(np.arange(200), 3)
    group = np.where(person < 90, "f", "m").astype(object)
    group[:120] = "r"  # 120 records of two people
    person[:120] = np.arange(120) % 2
    label = rng.integers(0, 2, 600)
    in_training = rng.random(600) < 0.5
    if is_divided:
        in_training = (rng.random(200) < 0.5)[person]
    given = {
        "sensitive_features": {"group": group},
        "split": in_training,
        "split_kind": "random",
        "outcome": "benefit",
    }
    by_record = pcer.release_from_predictions(label, label, **given)
    assert "r" in by_record.subject.groups or is_divided
    release = pcer.release_from_predictions(label, label, **given, person_id=person)
    assert "r" not in release.subject.groups
    training = release.training
    if not is_divided:
        assert training.unit_of_split is None
        assert "records in training and in test" in " ".join(release.subject.notes)
        return
    assert training.unit_of_split == "person"
    for name, n in training.effective_units.items():
        rows = release.runs[0].groups[name]
        assert n <= rows.train.n + rows.test.n
    m = np.bincount(person[group == "m"])
    assert training.effective_units["m"] == pytest.approx(m.sum() ** 2 / (m**2).sum())


def test_what_leaves_takes_six_lines_at_most():
    for release in (*releases(26).values(), small(), small(is_scored=True)):
        lines = leaving(release)
        assert 3 <= len(lines) <= 6
        assert all(line in " ".join(str(release).split()) for line in lines)
