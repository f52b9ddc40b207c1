"""Where an error says it is: fields, keys and positions in the file, nothing of the validator."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import operator
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pcer.errors import InputError, shown
from pcer.files import field_path
from pcer.release.format import parse_release, release_schema

COUNTS = {"tp": 5, "fp": 5, "tn": 5, "fn": 5}
RATES = {"accuracy": 0.5, "n": 9}
FORMS = {
    "counts": {"train": COUNTS, "test": COUNTS},
    "rates": {"train": RATES, "test": {**RATES, "positive_rate": 0.5}},
}
EXPOSURE = {
    "value": 0.1,
    "standard_error": 0.1,
    "n_members": 3,
    "n_nonmembers": 3,
    "n_excluded": 1,
}


def full_release(form: str) -> dict[str, Any]:
    """A release that has every field of the format."""
    tables = {**FORMS[form], "exposure": {"a proxy": EXPOSURE}}
    tree = {
        "format": "pcer-release",
        "version": 3,
        "subject": {
            "dataset": "d",
            "attribute": "a",
            "groups": ["one", "two"],
            "outcome": "harm",
            "positive_label": "yes",
            "unit_of_privacy": "record",
            "n_records": 40,
            "n_missing_group": 0,
            "notes": ["A note."],
        },
        "training": {
            "mechanism": "m",
            "split_kind": "random",
            "unit_of_split": "person",
            "effective_units": {"one": 10.0},
            "stratified_by": "label",
            "config": {"a setting": {"inner": [1, None]}},
            "joint_privacy": [{"inner": 1.0}],
        },
        "runs": [
            {
                "model": "a model",
                "epsilon": 1.0,
                "epsilon_by_accountant": {"an accountant": 0.5},
                "dp_delta": 0.1,
                "noise_multiplier": 1.0,
                "seed": 0,
                "split": "s",
                "groups": {"one": tables, "two": tables},
            }
        ],
        "pooled_exposure": [
            {
                "model": "a model",
                "epsilon": 1.0,
                "group": "one",
                "proxy": "a proxy",
                "value": 0.1,
                "standard_error": 0.1,
                "null_error": 0.0,
                "benefit_covariance": 0.0,
                "n_records": 3,
                "n_excluded": 1,
                "separation": 0.5,
            }
        ],
        "not_computed": {"another proxy": "one model only"},
        "placebo": [
            {
                "model": "a model",
                "epsilon": 1.0,
                "proxy": "a proxy",
                "groups": ["one", "two"],
                "n_draws": 200,
                "n_shown": 9,
                "n_double": 1,
                "p_value": 0.3,
                "p_value_within_labels": 0.4,
                "n_permutations": 999,
                "n_exposure": 8,
                "exposure_p_value": 0.2,
                "exposure_p_value_within_labels": 0.1,
                "n_exact": 20,
                "exact_difference": 0.1,
            }
        ],
        "bounds": [
            {
                "model": "a model",
                "epsilon": 1.0,
                "group": "one",
                "label": 1,
                "kind": "receipt",
                "mode": "held",
                "accountant": "rdp",
                "mean": 0.5,
                "standard_error": 0.1,
                "quantiles": {"median": 0.4},
                "n_records": 3,
                "nominal": 1.1,
                "allowed_advantage": 0.05,
                "exact": True,
            }
        ],
        "disclosure": {
            "public_data": False,
            "least_people": 10,
            "small_groups": "join",
            "memberships": 0,
            "most_in_one_model": 0,
            "n_coarse_tables": 0,
        },
        "provenance": {
            "pcer_version": "1",
            "source_commit": "c",
            "source_dirty": True,
            "data_digest": "x",
        },
    }
    return json.loads(json.dumps(tree))  # no two places share an object


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside a tree of plain objects."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in parts:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


BAD_VALUES: list[Any] = [
    *(None, True, -1, 2**70, 1.5, math.nan, math.inf, "", "\x00", "word", [], [None], {}, {1}),
    *([[1]], {"str": 1}, {"counts": 1}, {"accuracy": None}, {"a": {"b": {2}}}, {"\x07": 1}, {3: 4}),
]


def schema_fields() -> set[str]:
    schema = release_schema()
    records = [schema, *schema["$defs"].values()]
    return {name for record in records for name in record.get("properties", {})}


@pytest.mark.parametrize("form", FORMS)
def test_a_full_release_has_every_field_of_the_schema(form):
    tree = full_release(form)
    assert parse_release(tree, file="x").to_json()
    named = {part for path in places(tree) for part in path if isinstance(part, str)}
    others = {"accuracy", "positive_rate", "n"} if form == "counts" else set(COUNTS)
    assert schema_fields() - named == others


def sentence_of(tree: Any) -> str:
    """Why a tree is no release; empty if it is one."""
    try:
        parse_release(tree, file="x")
    except InputError as error:
        return str(error)
    return ""


def put(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The tree with another value in one place."""
    changed = copy.deepcopy(tree)
    functools.reduce(operator.getitem, place[:-1], changed)[place[-1]] = value
    return changed


def keys_of(tree: Any) -> set[str]:
    """Every key inside, as a path shows it."""
    if not isinstance(tree, dict | list):
        return set()
    parts = {part for path in places(tree) for part in path}
    return {shown(part) for part in parts if isinstance(part, str)}


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_fields_keys_and_positions_and_nothing_else(form):
    """Every bad value in every place: no class, no form, no word of the validator in a path."""
    whole = full_release(form)
    known, n_told = keys_of(whole) | schema_fields(), 0
    for place, bad in itertools.product(places(whole), BAD_VALUES):
        told = sentence_of(put(whole, place, bad))
        found = re.match(r"x: field (.*?): ", told)
        if found is None:  # fine; or the format, the version, or two places that do not fit
            continue
        n_told += 1
        path, where = found[1], field_path(place)
        parts = set(re.sub(r"\[\d+\]", "", path).split("."))
        assert parts <= known | keys_of(bad), (place, bad, told)
        assert path.startswith(where) or where.startswith(path), (place, bad, told)
        assert told.isprintable()
        assert told.endswith(".")
    assert n_told > 500


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_what_is_not_a_field(form):
    whole = full_release(form)
    mappings = {"groups", "exposure", "config", "epsilon_by_accountant"}
    mappings |= {"effective_units", "not_computed", "quantiles"}
    for place in places(whole):
        if isinstance(functools.reduce(operator.getitem, place, whole), dict):
            told = sentence_of(put(whole, (*place, "counts"), 3))
            unknown = f"x: field {field_path((*place, 'counts'))}: is not a field of this format"
            anything_goes = place[-1] in mappings or {"config", "joint_privacy"} & set(place)
            assert told.startswith(unknown) or anything_goes, (place, told)


@pytest.mark.parametrize("form", FORMS)
def test_errors_name_what_is_missing(form):
    whole = full_release(form)
    missing = set()
    for place in places(whole):
        tree = copy.deepcopy(whole)
        del functools.reduce(operator.getitem, place[:-1], tree)[place[-1]]
        if "field required" in (told := sentence_of(tree)):
            assert told.startswith(f"x: field {field_path(place)}: field required")
            missing.add(place[-1])
    cells = set(COUNTS) if form == "counts" else set()
    cells |= {"n_draws", "n_shown", "n_double", "kind", "mode", "accountant", "mean"}
    always = {"dataset", "attribute", "groups", "outcome", "runs", "subject", "epsilon", "seed"}
    assert missing == {*always, *cells, "train", "test", "value", "group", "proxy"}


@pytest.mark.parametrize("name", ["str", "int", "counts", "rates", "constrained-str", "[key]", "n"])
def test_a_group_named_like_a_form_keeps_its_name_in_a_path(name):
    tree = full_release("counts")
    tree["subject"]["groups"][0] = name
    groups = tree["runs"][0]["groups"]
    groups[name] = {**groups.pop("one"), "test": {**COUNTS, "fn": -1}}
    with pytest.raises(InputError) as caught:
        parse_release(tree, file="x")
    assert f"x: field runs[0].groups.{name}.test.fn: " in str(caught.value)
    groups[name] = 3
    with pytest.raises(InputError) as caught:
        parse_release(tree, file="x")
    assert str(caught.value) == f"x: field runs[0].groups.{name}: should be an object, but is 3."


@pytest.mark.parametrize(
    ("place", "bad", "sentence"),
    [
        (("runs", 0, "split"), 1.5, "runs[0].split: should be a valid string, but is 1.5; write"),
        (("subject", "positive_label"), [1], "subject.positive_label: should be a valid string; w"),
        (("runs", 0, "groups", "one", "train"), 3, "runs[0].groups.one.train: should be an object"),
        (
            ("training", "config", "a setting", "inner", 0),
            math.nan,
            "training.config.a setting.inner[0]: should be a finite number, but is nan.",
        ),
        (("runs", 0, "groups", "\x1b[31m"), {}, r"runs[0].groups.\u001b[31m: "),
    ],
)
def test_several_forms_are_told_as_one_field(place, bad, sentence):
    with pytest.raises(InputError) as caught:
        parse_release(put(full_release("counts"), place, bad), file="x")
    assert f"x: field {sentence}" in str(caught.value)
