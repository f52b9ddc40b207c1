"""What splits are drawn, what a release claims of them, and that the claim holds."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import model_selection as folds
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.errors import InputError
from pcer.models.splits import random_splits
from tests.models.worlds import Ignorant, release, world
from tests.worlds.splits import kish

pytestmark = pytest.mark.usefixtures("few_permutations")


def test_people_are_kept_together():
    persons = np.array([0, 0, 1, 1, 1, 2, 3, 3, 4, 4])
    splits = random_splits(50, 10, persons, test_size=0.4, random_state=0)
    for train in splits.train:
        outside = np.setdiff1d(np.arange(10), train)
        assert not set(persons[train]) & set(persons[outside])
        assert len(set(persons[outside])) == 2
    assert splits.unit == "person"


QUICK = pcer.Plan(resamples=2, null_draws=2)
KINDS = {
    "shuffle": (folds.ShuffleSplit(3, test_size=0.3), "nothing"),
    "stratified": (folds.StratifiedShuffleSplit(3, test_size=0.3), "label"),
    "folds": (folds.KFold(3, shuffle=True), "nothing"),
    "stratified folds": (folds.StratifiedKFold(3, shuffle=True), "label"),
    "repeated folds": (folds.RepeatedKFold(n_splits=3, n_repeats=2), "nothing"),
    "repeated stratified": (
        folds.RepeatedStratifiedKFold(n_splits=3, n_repeats=2),
        "label",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_claimed_of_a_splitter(kind):
    cv, stratified_by = KINDS[kind]
    found = release(GaussianNB(), cv=cv)
    claimed = (found.training.split_kind, found.training.stratified_by)
    assert claimed == ("random", stratified_by)
    assert found.training.unit_of_split is None
    noted = [note for note in found.subject.notes if "Cross-validation" in note]
    assert bool(noted) == type(cv).__name__.endswith("KFold")
    n_folds = "3 folds, drawn 2 times" if kind.startswith("repeated") else "3 folds"
    folded = f"Cross-validation: {n_folds}. The"
    assert all(note.startswith(folded) for note in noted)
    assert release(GaussianNB(), cv=cv).to_json() == found.to_json()
    assert (
        pcer.audit(found, QUICK).declarations == []
    )  # the counts do not contradict it


def test_the_splits_are_the_splitters_own():
    X, y, sex = world()
    cv = folds.StratifiedKFold(3, shuffle=True, random_state=4)
    found = release(GaussianNB(), cv=cv, public_data=True)
    for run, (train, _) in zip(found.runs, cv.split(X, y), strict=True):
        assert run.groups["f"].train.n == int((sex[train] == "f").sum())
    moving = folds.ShuffleSplit(3, test_size=0.3, random_state=np.random.RandomState(3))
    once, again = (release(GaussianNB(), cv=moving, public_data=True) for _ in range(2))
    assert once.runs == again.runs
    found = release(
        GaussianNB(), cv=folds.ShuffleSplit(2, train_size=0.5, test_size=0.2)
    )
    tables = found.runs[0].groups.values()
    assert sum(table.train.n for table in tables) == 300
    # records in neither part count as held out
    assert sum(table.test.n for table in tables) == 300
    assert "Up to 180 records are in neither part" in " ".join(found.subject.notes)


def test_one_set_of_folds_has_paired_exposures_but_no_shadow_models():
    found = release(GaussianNB(), cv=folds.KFold(9, shuffle=True), public_data=True)
    assert "paired_confidence" in {row.attack for row in found.pooled_exposure}
    assert "enough others held out" in found.not_computed["lira_advantage"]
    twice = release(GaussianNB(), cv=folds.RepeatedKFold(n_splits=5, n_repeats=3))
    assert "lira_advantage" in {row.attack for row in twice.pooled_exposure}


PEOPLE = np.arange(600) // 3


@pytest.mark.parametrize(
    "cv",
    [
        None,
        folds.GroupShuffleSplit(3, test_size=0.3),
        folds.GroupKFold(3, shuffle=True),
    ],
)
def test_splits_of_people_are_said_to_be_and_counted_by_person(cv):
    found = release(GaussianNB(), cv=cv, person_id=PEOPLE)
    assert (found.training.split_kind, found.training.unit_of_split) == (
        "random",
        "person",
    )
    assert pcer.audit(found, QUICK).declarations == []
    sex = world()[2]
    for name in ("f", "m"):
        sizes = np.unique(PEOPLE[sex == name], return_counts=True)[1].astype(float)
        assert found.training.effective_units[name] == round(kish(sizes))


def groups_of(made, attack):
    return (
        pcer.audit(made, QUICK.model_copy(update={"attack": attack})).settings[0].groups
    )


def test_copies_of_a_record_add_nothing_to_what_is_known():
    few = tuple(np.repeat(one, 20, axis=0) for one in world(60))
    persons = np.repeat(np.arange(60), 20)
    with pytest.raises(InputError, match="fewer than 10 people"):
        release(GaussianNB(), few, person_id=persons)
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    once = world(300)
    thrice = tuple(np.repeat(x, 3, axis=0) for x in once)
    options = {"n_splits": 9, "public_data": True}
    single = release(model, once, person_id=np.arange(300), **options)
    several = release(model, thrice, person_id=np.repeat(np.arange(300), 3), **options)
    assert single.training.effective_units == several.training.effective_units
    for attack in ("overfitting_gap", "paired_confidence"):
        one, many = (groups_of(made, attack) for made in (single, several))
        for name in ("f", "m"):
            assert many[name].exposure.value == pytest.approx(
                one[name].exposure.value, abs=1e-9
            )
            # what copies share looks like luck of the models too, and is added, not
            # lost
            ratio = (
                many[name].exposure.standard_error / one[name].exposure.standard_error
            )
            assert 0.97 < ratio < 2, attack


def test_splitters_that_cannot_be_used_get_one_sentence():
    own = type("KFold", (folds.KFold,), {})  # a subclass may do anything
    for cv, person_id, field in (
        *(
            (cv, None, "cv")
            for cv in (
                5,
                folds.KFold(3),
                own(3, shuffle=True),
                folds.TimeSeriesSplit(3),
            )
        ),
        (
            folds.KFold(3, shuffle=True, random_state=0),
            None,
            "cv",
        ),  # anybody can draw them
        (folds.StratifiedGroupKFold(3, shuffle=True), PEOPLE, "cv"),
        (folds.GroupKFold(3), PEOPLE, "cv"),
        (folds.KFold(3, shuffle=True), PEOPLE, "person_id"),
        (folds.GroupKFold(3, shuffle=True), None, "person_id"),
    ):
        with pytest.raises(InputError) as caught:
            release(Ignorant(habit="raise"), cv=cv, person_id=person_id)
        assert caught.value.field == field


NULLS = {
    "random": (None, None),
    "people": (None, PEOPLE[:240]),
    "folds": (folds.KFold(8, shuffle=True), None),
    "stratified folds": (folds.StratifiedKFold(8, shuffle=True), None),
    "repeated folds": (folds.RepeatedKFold(n_splits=4, n_repeats=2), None),
    "folds of people": (folds.GroupKFold(4, shuffle=True), PEOPLE[:240]),
}
ATTACKS = ("overfitting_gap", "paired_gap", "paired_confidence")


@pytest.mark.slow
@pytest.mark.parametrize("kind", NULLS)
def test_nothing_is_found_where_nothing_can_be(kind):
    """Chance exceeds so many alarms at a level of 5 % in one of 1,000 tests at most."""
    cv, person_id = NULLS[kind]
    alarms = dict.fromkeys(ATTACKS, 0)
    for seed in range(60):
        data = world(240, seed=seed)
        if person_id is not None:  # a person's records are alike, so that clumps matter
            data = tuple(one[person_id] for one in data)
        options = {"cv": cv, "person_id": person_id, "n_splits": 8, "public_data": True}
        made = release(Ignorant(), data, random_state=seed, **options)
        for attack in ATTACKS:
            alarms[attack] += any(
                group.detected for group in groups_of(made, attack).values()
            )
    assert max(alarms.values()) <= binom.ppf(0.999, 60, 0.05), alarms
