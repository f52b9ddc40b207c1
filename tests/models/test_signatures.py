"""What the front doors take: names, order, kinds and defaults, as Python shows them."""

import inspect

import pytest

import pcer

EMPTY = inspect.Parameter.empty
ESTIMATORS = {
    "sensitive_features": EMPTY,
    "outcome": EMPTY,
    "n_splits": 20,
    "positive_label": None,
    "test_size": 0.3,
    "cv": None,
    "person_id": None,
    "subgroups": None,
    "drop_sensitive": False,
    "budgets": None,
    "epsilon": None,
    "dp_delta": None,
    "random_state": None,
    "n_jobs": None,
    "store": None,
    "progress": True,
    "about": None,
    "disclosure": None,
}
PREDICTIONS = {
    "y_score": None,
    "sensitive_features": EMPTY,
    "split": EMPTY,
    "split_kind": EMPTY,
    "outcome": EMPTY,
    "seed": None,
    "split_id": None,
    "record_id": None,
    "person_id": None,
    "subgroups": None,
    "sample_weight": None,
    "positive_label": None,
    "threshold": 0.5,
    "reference": None,
    "membership_score": None,
    "epsilon": None,
    "dp_delta": None,
    "about": None,
    "disclosure": None,
}
SIGNALS = {
    "kind": EMPTY,
    "sensitive_features": EMPTY,
    "member": EMPTY,
    "split_kind": EMPTY,
    "person_id": None,
    "epsilon": None,
    "dp_delta": None,
    "about": None,
    "disclosure": None,
}
SYNTHESIZERS = {
    "sensitive_features": EMPTY,
    "n_splits": 16,
    "test_size": 0.5,
    "target": None,
    "outcome": None,
    "positive_label": None,
    "model": None,
    "person_id": None,
    "random_state": None,
    "n_jobs": None,
    "store": None,
    "progress": True,
    "about": None,
    "disclosure": None,
}
SYNTHETIC = {
    "member": EMPTY,
    "split_kind": EMPTY,
    "sensitive_features": EMPTY,
    "person_id": None,
    "epsilon": None,
    "dp_delta": None,
    "about": None,
    "disclosure": None,
}
TRAINING = {name: ESTIMATORS[name] for name in ESTIMATORS if name != "budgets"}
TRAINING["version"] = None
# By function: what may stand without a name, and what needs one.
FUNCTIONS = {
    "release_from_estimator": (("estimator", "X", "y"), ESTIMATORS),
    "release_from_predictions": (("y_true", "y_pred"), PREDICTIONS),
    "release_from_signals": (("signal", "reference_signal"), SIGNALS),
    "release_from_synthesizer": (("make", "X"), SYNTHESIZERS),
    "release_from_synthetic": (("synthetic", "X"), SYNTHETIC),
    "release_from_training": (("train", "X", "y"), TRAINING),
}
ABOUT = {
    "dataset": "records",
    "attribute": None,
    "groups": None,
    "group_names": None,
    "missing": "leave_out",
    "people": None,
    "positive_means": None,
    "model": None,
    "membership_means": None,
    "notes": (),
}
DISCLOSURE = {
    "public_data": False,
    "least_people": 10,
    "certain_cells": True,
    "joint": "refuse",
    "secret": b"",
}


def named_only(function):
    """The parameters that need a name, in their order, with defaults."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_belongs_to_the_call_and_two_records(name):
    function = getattr(pcer, name)
    placed, named = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    assert [*parameters] == [*placed, *named]
    assert all(
        parameters[one].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        for one in placed
    )
    assert named_only(function) == [*named.items()]


def test_releases_from_predictions_take_attributes_besides():
    one = inspect.signature(pcer.release_from_predictions).parameters
    several = inspect.signature(pcer.releases_from_predictions).parameters
    assert [name for name in several if name != "attributes"] == [*one]
    assert all(several[name] == one[name] for name in one)
    assert several["attributes"].default is None
    assert several["attributes"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("record", "fields"), [(pcer.About, ABOUT), (pcer.Disclosure, DISCLOSURE)]
)
def test_records_take_names_only_and_cannot_be_changed(record, fields):
    shown = named_only(record)
    assert [name for name, _ in shown] == [*inspect.signature(record).parameters]
    made = record()
    assert {name: getattr(made, name) for name, _ in shown} == fields
    with pytest.raises(AttributeError):
        setattr(made, next(iter(fields)), None)


def test_a_dict_is_as_good_as_a_record():
    given = {
        "sensitive_features": {"letter": ["a", "b"] * 2},
        "split": [True, True, False, False],
        "split_kind": "random",
        "outcome": "benefit",
    }
    labels = [1, 0, 1, 0]
    by_record = pcer.release_from_predictions(
        labels,
        labels,
        **given,
        about=pcer.About(dataset="toy"),
        disclosure=pcer.Disclosure(public_data=True),
    )
    by_dict = pcer.release_from_predictions(
        labels,
        labels,
        **given,
        about={"dataset": "toy"},
        disclosure={"public_data": True},
    )
    assert by_dict == by_record
    with pytest.raises(TypeError, match="least"):
        pcer.release_from_predictions(labels, labels, **given, disclosure={"least": 5})


def test_the_package_lists_what_it_offers():
    assert dir(pcer) == pcer.__all__
