"""From an estimator to a release: what is in it, and what alone decides it."""

import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.attacks import (
    SettingScores,
    attack_models,
    draw_coins,
    exposure_rows,
    log_odds,
)
from pcer.errors import InputError
from tests.models.worlds import STATE, Ignorant, LookupTable, release, world

pytestmark = pytest.mark.usefixtures("few_permutations")
X, Y, SEX = world()
ROW = np.arange(len(Y))


def by_hand(estimator, data, n_splits):
    """Models fitted in a loop: log odds, answers, members by split and record."""
    X, y, _ = data
    rows = []
    answers = []
    member = []
    for split in range(n_splits):
        seed = np.random.SeedSequence(STATE, spawn_key=(1, split))
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(y))
        inside = np.ones(len(y), dtype=bool)
        inside[order[: math.ceil(0.3 * len(y))]] = False
        fitted = estimator.fit(X[inside], y[inside])
        chance = fitted.predict_proba(X)
        rows.append(
            log_odds(chance[np.arange(len(y)), y]).astype(np.float32) * (2 * y - 1)
        )
        answers.append(fitted.predict(X) == 1)
        member.append(inside)
    return np.array(rows, dtype=np.float32), np.array(answers), np.array(member)


THRESHOLD = FixedThresholdClassifier(
    DecisionTreeClassifier(max_depth=4, random_state=3), threshold=0.3
)


@pytest.mark.parametrize("estimator", [GaussianNB(), THRESHOLD])
def test_counts_and_exposures_are_those_of_a_loop(estimator):
    found = release(estimator, n_splits=9)
    logits, answers, member = by_hand(estimator, world(), 9)
    for run, answer, inside in zip(found.runs, answers, member, strict=True):
        for name, tables in run.groups.items():
            for table, part in ((tables.train, inside), (tables.test, ~inside)):
                cells = {"tp": 0, "fp": 0, "tn": 0, "fn": 0}
                for r in np.flatnonzero((name == SEX) & part):
                    cells[
                        ("t" if answer[r] == Y[r] else "f")
                        + ("p" if answer[r] else "n")
                    ] += 1
                assert table.model_dump() == cells
    scores = SettingScores(
        logits=logits,
        labels=Y,
        member=member,
        group=(SEX == "m").astype(int),
        group_names=("f", "m"),
        predicted=answers,
        from_probabilities=True,
    )
    coins, _ = draw_coins([scores])
    (wanted,) = attack_models([scores], [coins])
    carried = {(row.group, row.attack): row for row in found.pooled_exposure}
    assert len(carried) == len(wanted.rows)
    for row in wanted.rows:
        ours = carried[row.group, row.attack]
        assert ours.value == pytest.approx(row.value, abs=1e-12)
        assert ours.standard_error == pytest.approx(row.standard_error, abs=1e-12)
    few = "it needs at least 16 different splits, and there are 9"
    assert found.not_computed == {"tail": few}
    assert found.placebo == exposure_rows.check_with_coins(
        [scores], [wanted], coins, outcome="benefit"
    )


def test_three_lines_from_a_pipeline_to_a_planted_memorisation():
    X, y, sex = world(1_000)
    noisy = np.where(
        sex == "f", np.random.default_rng(1).integers(0, 2, len(y)), X[:, 0] > 0
    )
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
    made = pcer.release_from_estimator(
        model,
        X,
        noisy.astype(int),
        sensitive_features={"sex": sex},
        outcome="harm",
        progress=False,
    )
    found = pcer.audit(made, pcer.Plan(attack="paired_confidence")).settings[0]
    assert found.groups["f"].detected
    assert found.groups["f"].exposure.value > 0.3
    assert found.pairs[0].exposure.group == "f"


def attacks_of(made):
    return {row.attack for row in made.pooled_exposure}


def test_without_probabilities_there_are_paired_gaps_alone():
    found = release(LookupTable(probabilities=False), n_splits=9)
    assert attacks_of(found) == {"paired_gap"}
    for row in found.pooled_exposure:
        share = Y[
            row.group == SEX
        ].mean()  # right about all in training, else about those with 0
        assert row.value == pytest.approx(share, abs=0.02)
    assert "predict_proba" in found.not_computed["lira_advantage"]
    assert found.runs[0].groups["f"].exposure == {}
    for model in (SVC(), LinearSVC()):
        assert attacks_of(release(model, n_splits=2)) == {"paired_gap"}
    for n_splits in (1, 3):  # the release says which attacks need more
        found = release(GaussianNB(), n_splits=n_splits)
        assert str(n_splits) in found.not_computed["lira_advantage"]
        assert ("paired_gap" in found.not_computed) == (n_splits == 1)


def add_noise(X):
    return X + np.random.normal(size=X.shape)  # noqa: NPY002 (an estimator of the old kind)


def test_only_the_random_state_decides():
    forest = RandomForestClassifier(n_estimators=5, max_depth=4)
    first = release(forest)
    assert release(forest).to_json() == first.to_json()
    assert release(forest, random_state=STATE + 1).to_json() != first.to_json()
    assert release(forest, n_splits=5).runs[:3] == first.runs
    assert not hasattr(forest, "classes_")  # it is not touched
    assert forest.random_state is None
    fixed = release(DecisionTreeClassifier(max_features=1, random_state=5)).runs
    assert fixed != release(DecisionTreeClassifier(max_features=1)).runs
    noisy = make_pipeline(FunctionTransformer(add_noise), GaussianNB())
    np.random.seed(1)  # noqa: NPY002 (that is what it is about)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    first = release(noisy)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert release(noisy).to_json() == first.to_json()


def test_splits_and_settings_tell_nothing_about_people():
    found = release(GaussianNB())
    assert [run.split for run in found.runs] == ["split 1", "split 2", "split 3"]
    assert found.training.split_kind == "random"
    assert found.training.stratified_by == "nothing"
    assert "random_state" not in found.training.config
    assert found.provenance.data_digest is None
    public = release(GaussianNB(), public_data=True, random_state=None)
    assert public.training.config["random_state"] == 0
    assert public.provenance.data_digest.startswith("sha256:")
    keyed = release(GaussianNB(), secret=bytes(range(16))).provenance.data_digest
    assert keyed.startswith("hmac-sha256:")
    hot = OneHotEncoder(categories=[["plumber", "judge"]], handle_unknown="ignore")
    model = make_pipeline(
        make_column_transformer((hot, [0]), (StandardScaler(), [1])),
        LogisticRegression(C=0.5),
    )
    jobs = pd.DataFrame(
        {"job": np.where(X[:, 0] > 0, "plumber", "judge"), "age": X[:, 1]}
    )
    text = release(model, (jobs, Y, SEX)).to_json()
    assert "plumber" not in text
    assert '"logisticregression__C": 0.5' in text


def test_features_of_every_kind():
    frame = pd.DataFrame(X, columns=list("abcd"))
    plain = release(GaussianNB())
    for data in (
        (frame, pd.Series(Y), pd.Series(SEX)),
        (pl.from_pandas(frame), pl.Series(Y), pl.Series(SEX)),
    ):
        assert release(GaussianNB(), data).to_json() == plain.to_json()
    listed = make_pipeline(FunctionTransformer(np.asarray), GaussianNB())
    assert release(listed, (X.tolist(), Y, SEX)).runs == plain.runs
    for kind in (sp.csr_matrix, sp.coo_matrix, sp.csr_array):
        found = release(LogisticRegression(), (kind(X), Y, SEX), n_splits=2)
        assert "paired_confidence" in attacks_of(found)


def skorch_net():
    skorch = pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, X):
            return torch.softmax(self.layer(X), dim=-1)

    return skorch.NeuralNetClassifier(Module, max_epochs=2, verbose=0, train_split=None)


OTHERS = {
    "skorch": skorch_net,
    "xgboost": lambda: pytest.importorskip("xgboost").XGBClassifier(
        n_estimators=3, n_jobs=1
    ),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=3, n_jobs=1, verbose=-1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("package", OTHERS)
def test_other_packages_work_unchanged(package):
    data = (X.astype(np.float32), Y.astype(np.int64), SEX)
    found = release(OTHERS[package](), data, n_splits=2)
    assert "paired_confidence" in attacks_of(found)
    pytest.importorskip("torch").manual_seed(1)  # nothing follows from it
    assert release(OTHERS[package](), data, n_splits=2).to_json() == found.to_json()
    assert (
        found.training.config["versions"][package] == sys.modules[package].__version__
    )


def test_several_labels_of_which_one_is_positive():
    codes = np.digitize(X[:, 0], [-0.5, 0.5])
    three = np.array(["bad", "fair", "good"])[codes]
    found = release(GaussianNB(), (X, three, SEX), positive_label="good")
    inside = by_hand(GaussianNB(), world(), 3)[2][2]
    women = SEX == "f"
    model = GaussianNB().fit(X[inside], three[inside])
    guess = model.predict(X) == "good"
    truth = model.predict_proba(X)[ROW, codes]
    test = found.runs[2].groups["f"]
    assert test.test.tp == int((guess & (three == "good"))[women & ~inside].sum())
    beaten = truth[women & inside][:, None] - truth[women & ~inside][None]
    auc = ((beaten > 0) + (beaten == 0) / 2).mean() - 0.5
    assert test.exposure["auc_advantage"].value == pytest.approx(
        auc, abs=1e-6
    )  # kept as float32
    few = np.where(ROW < 9, "rare", "good")
    for labels, positive, words in (
        (three, None, "contains 3 different labels"),
        (three, "best", "3 different labels, not 'best'"),
        (few, None, "contains 2 different labels"),  # that of fewer people is not named
        (
            np.where(codes, 1, -1),
            None,
            "contains '-1' and '1'; pass positive_label='1' or '-1'",
        ),
    ):
        with pytest.raises(InputError, match=words):
            release(GaussianNB(), (X, labels, SEX), positive_label=positive)


def test_several_estimators_and_budgets_are_settings_of_one_release():
    found = release(
        {"bayes": GaussianNB(), "svm": SVC()}, epsilon={"bayes": 2, "svm": None}
    )
    assert [(run.model, run.epsilon, run.split) for run in found.runs[::2]] == [
        ("bayes", 2.0, "split 1"),
        ("bayes", 2.0, "split 3"),
        ("svm", None, "split 2"),
    ]
    alone = release(GaussianNB())
    tables = [run.groups for run in found.runs[:3]]
    assert tables == [run.groups for run in alone.runs]
    assert {row.model for row in found.pooled_exposure} == {"bayes", "svm"}
    assert found.not_computed["auc_advantage"].startswith("svm: ")
    found = release({"a": Ignorant()}, budgets={"epsilon": [0.5, None]}, dp_delta=1e-5)
    settings = [(run.model, run.epsilon, run.dp_delta) for run in found.runs[::3]]
    assert settings == [("a", 0.5, 1e-5), ("a", None, None)]
    assert {row.epsilon for row in found.pooled_exposure} == {0.5, None}


def test_one_store_serves_every_attribute_and_the_groups_are_crossed(tmp_path):
    age = np.where(X[:, 1] > 0, "old", "young")
    fitted = []
    options = {"store": tmp_path / "s", "attribute": None, "least_people": 5}
    release(GaussianNB(), (X, Y, {"sex": SEX}), **options)
    options["progress"] = lambda done, total: fitted.append((done, total))
    found = release(GaussianNB(), (X, Y, {"sex": SEX, "age": age}), **options)
    assert fitted == [(3, 3)]
    assert found.subject.attribute == "sex & age"
    assert found.subject.groups == ["f & old", "f & young", "m & old", "m & young"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"estimator": GaussianNB}, "estimator"),
        ({"estimator": object()}, "estimator"),
        ({"estimator": FrozenEstimator(GaussianNB())}, "estimator"),
        ({"estimator": LinearRegression()}, "estimator"),
        ({"estimator": {}}, "estimator"),
        ({"estimator": {"a": GaussianNB()}, "epsilon": {"b": 1}}, "epsilon"),
        ({"epsilon": 0}, "epsilon"),
        ({"budgets": {"epsilon": [1]}}, "budgets"),
        ({"estimator": Ignorant(), "budgets": {"epsilon": [1, 1]}}, "budgets"),
        (
            {"estimator": Ignorant(), "budgets": {"epsilon": [1]}, "epsilon": 1},
            "budgets",
        ),
        ({"test_size": 1.0}, "test_size"),
        ({"test_size": 0.9999}, "test_size"),
        ({"n_splits": 0}, "n_splits"),
        *(
            ({"random_state": small}, "random_state")
            for small in (-1, 0, 2**64 - 1, 0.5)
        ),
        ({"secret": b"correct horse battery staple"}, "secret"),
        ({"sensitive_features": ["f"] * 600}, "sensitive_features"),
        ({"sensitive_features": ["f", "m"]}, "sensitive_features"),
        ({"person_id": [1]}, "person_id"),
        ({"sensitive_features": "sex"}, "sensitive_features"),
        ({"drop_sensitive": True}, "drop_sensitive"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(changes, field):
    given = {"estimator": GaussianNB(), **changes}
    with pytest.raises(InputError) as caught:
        release(given.pop("estimator"), **given)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, [None, *Y[1:]], SEX), "y is missing in 1 records"),
        ((X, np.ones(len(Y)), SEX), "y holds one label only"),
        ((X[:1], Y[:1], SEX[:1]), "nothing to split: give at least two records"),
        ((X[:2], [0, 1], SEX[:2]), "split 1: everybody in the training part"),
        (
            (X, (ROW == 0).astype(int), SEX),
            r"split \d+: everybody in the training part",
        ),
        ((X, Y, np.where(ROW == 7, "d", SEX)), r"split 1: group 'd' has nobody in the"),
        (
            (pd.DataFrame(X), Y, pd.Series(SEX).sample(frac=1, random_state=0)),
            "and X have different",
        ),
        (
            (pd.DataFrame(X, index=0 * ROW), Y, pd.Series(SEX)),
            r"sensitive_features.reset_index\(",
        ),
    ],
)
def test_records_that_cannot_be_used_are_named_before_anything_is_fitted(data, words):
    with pytest.raises(InputError, match=words):
        release(Ignorant(habit="raise"), data, public_data=True, n_splits=20)


def test_few_people_are_joined_and_no_coin_is_flipped_where_it_would_say_nothing():
    joined = release(GaussianNB(), (X, Y, np.where(ROW == 7, "d", SEX)))
    assert joined.subject.groups == ["m", "f + 1 small group"]
    names = {"d": "In My Words", "f": "Women", "m": "Men"}
    named = release(
        GaussianNB(), (X, Y, np.where(ROW == 7, "d", SEX)), group_names=names
    )
    assert named.subject.groups == [
        "Men",
        "In My Words and Women, joined: too small alone",
    ]
    with pytest.raises(InputError, match="fewer than 10 people"):
        release(Ignorant(habit="raise"), (X, Y, np.where(ROW < 9, "f", "m")))
    several = release(GaussianNB(), person_id=range(600))
    assert "people may have several" in several.not_computed["placebo"]


FAULTS = {
    "raise": r'"could not convert .*" \(RuntimeError, traceback above\); fix it',
    "nan": "predict_proba gave 10 values that are not between 0 and 1",
    "column": r"predict_proba gave shape \(600, 1\) for 600 records and 2 classes",
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_fault_names_the_split_and_finished_ones_are_kept(how, tmp_path):
    member = by_hand(GaussianNB(), world(), 7)[
        2
    ]  # trained on before split 7, held out in it
    marked = X[np.flatnonzero(member[:-1].all(axis=0) & ~member[-1])[0], 0]
    with pytest.raises(
        InputError, match=f"Ignorant failed in split 7: {FAULTS[how]}"
    ) as caught:
        release(Ignorant(habit=how, marked=marked), n_splits=12, store=tmp_path / "s")
    assert f"finished models are kept in {tmp_path / 's'} (6)." in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(list((tmp_path / "s").glob("block-*.npy"))) == 6
    if how == "raise":
        assert "could not convert" in str(caught.value.__cause__)


def test_progress_is_told(capsys):
    seen = []
    release(GaussianNB(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]
    release(GaussianNB(), progress=True)
    assert capsys.readouterr() == ("", "")  # nobody looks: no terminal


def test_an_estimator_that_decides_against_its_own_probabilities_is_taken_at_its_word():
    made = (release(Ignorant(habit=habit), n_splits=2) for habit in ("contradict", ""))
    test, other = (found.runs[0].groups["f"] for found in made)
    assert (test.test.tp, test.test.tn) == (other.test.fn, other.test.fp)
    assert test.exposure == other.exposure
