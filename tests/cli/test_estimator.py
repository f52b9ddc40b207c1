"""``pcer train --estimator`` as a user meets it."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import pcer
from pcer.cli.estimator import NETWORKS_ONLY
from pcer.cli.train import train
from pcer.data import load

FOREST = ("--estimator", "sklearn.tree:DecisionTreeClassifier", "--set", "max_depth=4")


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    age = rng.integers(18, 80, n).astype(float)
    age[:7] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "job": rng.choice(["cook", "clerk", "smith"], n),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["x", "z"], n),
            "approved": rng.choice(["yes", "no"], n),
        }
    )
    frame.to_csv(tmp_path / "loans.csv", index=False)
    return tmp_path / "loans.csv"


ALIKE = {
    *("source", "attributes", "out", "seeds", "jobs", "keep_scores", "estimator", "settings"),
    *("secret_file", "label", "positive", "outcome", "drop", "categories", "missing"),
    *("max_categories", "identifiers", "public_data", "least_people", "small_groups"),
    *("certain_cells", "budgets", "module"),
}
"""Options that networks and estimators share; budgets and module have sentences of their own."""


def test_every_option_is_heeded_or_refused():
    said = inspect.signature(train).parameters
    assert set(said) - ALIKE == set(NETWORKS_ONLY)


OWN = ("--label", "approved", "--positive", "yes", "--outcome", "benefit", "--jobs", "1")


def test_an_own_table_gets_a_release_per_attribute(run, people, tmp_path):
    attributes = ("--attribute", "sex", "--attribute", "race")
    code, out, err = run(
        "train", people, *OWN, *attributes, *FOREST, "--seeds", "4", "-o", tmp_path / "out"
    )
    assert code == 0, err
    assert f"next: pcer audit {tmp_path / 'out'}" in out
    found = {
        name: pcer.read_release(tmp_path / "out" / f"loans.{name}.release.json")
        for name in ("sex", "race")
    }
    for name, one in found.items():
        assert one.subject.attribute == name
        assert len(one.runs) == 4
        assert one.disclosure.public_data is False
        assert one.provenance.data_digest.startswith("hmac-sha256:")
        model = one.training.config["models"]["Pipeline"]
        assert model["decisiontreeclassifier__max_depth"] == 4
        assert "random_state" not in one.training.config
    assert found["sex"].provenance.data_digest == found["race"].provenance.data_digest
    assert not (tmp_path / "out" / "loans.scores").exists()
    assert "cook" not in (tmp_path / "out" / "loans.sex.release.json").read_text()
    code, _, err = run("train", people, *OWN, *attributes, *FOREST, "-o", tmp_path / "out")
    assert code == 2
    assert "is there already; remove it, or choose another folder" in err


def test_a_benchmark_gives_what_python_gives(run, tmp_path):
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    said = ("compas", "--attribute", "race", *FOREST, "--seeds", "2", "--jobs", "1")
    code, _, err = run("train", *said, "--keep-scores", "-o", tmp_path)
    assert code == 0, err
    compas = load("compas")
    race = compas.attribute("race")
    made = pcer.release_from_estimator(
        make_pipeline(
            SimpleImputer(keep_empty_features=True),
            StandardScaler(),
            DecisionTreeClassifier(max_depth=4),
        ),
        np.array(compas.features),
        np.array(compas.labels),
        sensitive_features={"race": np.array(race.group_names)[race.codes]},
        groups=race.group_names,
        n_splits=2,
        outcome="harm",
        positive_label=1,
        dataset="compas",
        notes=compas.notes,
        public_data=True,
        progress=False,
    )
    assert (tmp_path / "compas.race.release.json").read_text() == made.to_json()
    assert len(list((tmp_path / "compas.scores").glob("block-*.npy"))) == 2


def test_an_estimator_of_ones_own_folder(run, people, tmp_path, monkeypatch):
    (tmp_path / "mine_for_pcer.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n"
        "def make(smoothing=1e-9):\n    return GaussianNB(var_smoothing=smoothing)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, _, err = run(
        *("train", people, *OWN, "--attribute", "sex", "--seeds", "2", "-o", "out"),
        *("--estimator", "mine_for_pcer:make", "--set", "smoothing=0.5"),
    )
    assert code == 0, err
    one = pcer.read_release(tmp_path / "out" / "loans.sex.release.json")
    assert one.training.config["models"]["Pipeline"]["gaussiannb__var_smoothing"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--estimator", "RandomForest"), "must be package.module:Name"),
        (("--estimator", "nowhere.at.all:X"), "nowhere.at.all cannot be imported"),
        (("--estimator", "sklearn.tree:Oak"), "sklearn.tree has no Oak"),
        ((*FOREST, "--set", "depth=3"), "DecisionTreeClassifier does not take this"),
        ((*FOREST, "--set", "3"), "--set must be name=value"),
        ((*FOREST, "--epochs", "3"), "--epochs is about pcer's own networks"),
        ((*FOREST, "--budgets", "1"), "--budgets is about pcer's own networks"),
        (("--set", "a=1"), "name one with --estimator"),
        ((*FOREST, "--attribute", "hair"), "hair"),
        (("--estimator", "sklearn.linear_model:LinearRegression"), "is a regressor"),
    ],
)
def test_what_cannot_be_gets_one_sentence(run, people, tmp_path, arguments, message):
    code, out, err = run(
        "train", people, *OWN, "--attribute", "sex", *arguments, "-o", tmp_path / "out"
    )
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""
