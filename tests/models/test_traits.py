"""``subgroups`` of the functions that make releases: columns, names, refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.errors import InputError
from pcer.models.traits import traits_of
from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

PUBLIC = {"public_data": True}


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x", "y", "z"])
    frame["sex"] = rng.integers(0, 2, n)
    frame["band"] = rng.integers(0, 3, n)
    labels = (frame["x"] + rng.normal(size=n) > 0).astype(int)
    return frame, labels


def release(subgroups, **more):
    frame, labels = people()
    return pcer.release_from_estimator(
        DecisionTreeClassifier(random_state=0),
        frame,
        labels,
        sensitive_features="sex",
        outcome="harm",
        n_splits=3,
        random_state=0,
        progress=False,
        disclosure=PUBLIC,
        subgroups=subgroups,
        **more,
    )


def test_names_of_columns_and_columns_by_name_are_the_same_search():
    frame, _ = people()
    by_name = release(["sex", "band"])
    given = release({"sex": frame["sex"], "band": frame["band"]})
    assert by_name.subgroups == given.subgroups
    about = [search.about for search in by_name.subgroups]
    assert about == ["exposure", "outcomes", "wrongly"]
    assert by_name.subgroups[0].attributes == ["sex", "band"]
    frame_of = frame.groupby(["sex", "band"]).size()
    n_crossings = int((frame_of >= 100).sum())
    assert by_name.subgroups[0].n_candidates == 2 + 3 + n_crossings


def test_without_subgroups_nothing_is_searched_and_all_else_is_the_same():
    plain = release(None)
    assert plain.subgroups == []
    searched = release(["sex"])
    assert searched.model_copy(update={"subgroups": []}).to_json() == plain.to_json()


def scored():
    """Three models of the same people, a row each record and model."""
    frame, labels = people()
    rows = []
    for seed in range(3):
        parts = np.where(np.random.default_rng(seed).random(600) < 0.5, "train", "test")
        trained = parts == "train"
        tree = DecisionTreeClassifier(random_state=0)
        tree.fit(frame[trained], labels[trained])
        score = tree.predict_proba(frame)[:, 1]
        row = frame.assign(y=labels, score=score, split=parts, seed=seed)
        rows.append(row.assign(record=np.arange(600)))
    return pd.concat(rows, ignore_index=True)


def test_training_functions_and_predictions_search_too():
    frame, labels = people()
    table = scored()
    arguments = {
        "y_true": table["y"],
        "y_score": table["score"],
        "sensitive_features": {"sex": table["sex"]},
        "split": table["split"],
        "split_kind": "random",
        "outcome": "harm",
        "seed": table["seed"],
        "subgroups": {"sex": table["sex"], "band": table["band"]},
        "disclosure": PUBLIC,
    }
    made = pcer.release_from_predictions(record_id=table["record"], **arguments)
    assert len(made.subgroups) == 3
    with pytest.raises(InputError, match="subgroups needs record_id"):
        pcer.release_from_predictions(**arguments)

    columns = PredictionColumns(
        attributes=("sex",),
        y_true="y",
        y_pred=None,
        y_score="score",
        record_id="record",
        subgroups=("sex", "band"),
    )
    facts = ReleaseFacts(
        dataset="made up",
        outcome="harm",
        split_kind="random",
        disclosure=pcer.Disclosure(**PUBLIC),
    )
    (of_table,) = releases_from_table(table, columns, facts).values()
    assert of_table.subgroups == made.subgroups

    def train(X, y, seed):
        return DecisionTreeClassifier(random_state=0).fit(X, y)

    by_function = pcer.release_from_training(
        train,
        frame,
        labels,
        sensitive_features="sex",
        outcome="harm",
        n_splits=3,
        random_state=0,
        progress=False,
        disclosure=PUBLIC,
        subgroups="band",
    )
    assert by_function.subgroups[0].attributes == ["band"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["colour"], "names 'colour', which is no column here"),
        ([], "names 0 attributes"),
        (["x"], "600 different values, more than 30; give bands"),
        ({"short": [1, 2]}, "'short' has 2 values for 600 records"),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        release(given)
    assert caught.value.field == "subgroups"


def test_missing_values_are_a_value():
    traits = traits_of({"band": ["a", None, "b"]}, 3)
    assert traits["band"].tolist() == ["a", "not recorded", "b"]
