"""The release format: what is accepted, what is refused and how, and its bytes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

import pcer
from pcer.errors import InputError, OutputError
from pcer.files import read_json, write_files
from pcer.release.format import parse_release, read_release, release_schema, write_release
from tests.strategies import releases

SAMPLES = Path(__file__).parents[1] / "releases"

BAD_FILES = {
    "not-json.release.json": "not complete JSON",
    "truncated.release.json": "not complete JSON",
    "nan.release.json": "holds NaN",
    "future.release.json": "version 99 .* upgrade pcer",
    "negative-count.release.json": r"runs\[0\]\.groups\.b\.test\.fn: .* but is -1",
    "fractional-count.release.json": r"runs\[0\]\.groups\.b\.test\.fn: .* but is 1\.5",
    "forty-digits.release.json": r"runs\[0\]\.groups\.b\.test\.fn: .* counts are whole numbers",
    "group-missing.release.json": r"runs\[1\]\.groups: group 'b' is missing",
    "empty-group.release.json": r"runs\[0\]\.groups\.b\.test: the group is empty",
    "duplicate-run.release.json": r"runs\[0\] and runs\[1\] both have epsilon 1\.0 and seed 0",
    "unknown-field.release.json": r"runs\[0\]\.colour: is not a field",
    "epsilon-negative.release.json": r"runs\[0\]\.epsilon: .* write null",
    "epsilon-word.release.json": r"runs\[0\]\.epsilon: .* write null",
    "key-twice.release.json": "'seed' appears twice",
    "utf-16.release.json": "not UTF-8",
    "control-character.release.json": r"subject\.dataset",
    "split-sizes.release.json": "both name split 's', but group 'a'",
}


@pytest.mark.parametrize(("name", "message"), BAD_FILES.items())
def test_bad_files_get_one_clear_sentence(name, message):
    with pytest.raises(InputError, match=message) as caught:
        read_release(SAMPLES / name)
    text = str(caught.value)
    assert name in text
    assert "\n" not in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    "name", ["counts.release.json", "rates.release.json", "by-hand.release.json"]
)
def test_version_1_files_stay_readable(name):
    release = read_release(SAMPLES / name)
    assert release.version == 1
    assert pcer.audit(release).release_sha256 == release.sha256


def test_version_2_files_stay_readable():
    """A small forest, with placebos and permutations, as 0.2.0.dev0 wrote it."""
    path = SAMPLES / "version-2.release.json"
    release = read_release(path)
    assert release.version == 2
    assert release.to_json() == path.read_text()
    assert release.placebo[0].p_value == 0.1669
    assert pcer.audit(release).release_sha256 == release.sha256


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ("placebo", "n_exposure"),
        ("placebo", "exposure_p_value"),
        ("placebo", "exposure_p_value_within_labels"),
        ("placebo", "n_exact"),
        ("placebo", "exact_difference"),
        ("pooled_exposure", "separation"),
    ],
)
def test_fields_of_version_3_need_it(rows, field):
    tree = json.loads((SAMPLES / "version-2.release.json").read_text())
    tree[rows][0][field] = 1
    with pytest.raises(InputError, match=rf"{rows}\[\]\.{field} is a field of version 3"):
        parse_release(tree, file="older")
    first, *others = getattr(parse_release({**tree, "version": 3}, file="newer"), rows)
    assert getattr(first, field) == 1
    assert all(getattr(row, field) is None for row in others)


def test_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "deep.release.json"
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="nested too deeply"):
        read_release(path)


def test_large_files_are_refused_before_parsing(tmp_path):
    path = tmp_path / "large.release.json"
    path.write_bytes(b"[")
    with path.open("r+b") as stream:
        stream.truncate(64_000_001)
    with pytest.raises(InputError, match="64,000,001 bytes"):
        read_release(path)
    with pytest.raises(InputError, match="not complete JSON"):
        read_release(path, limits=None)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_release(tmp_path / "none.release.json")


def test_a_byte_order_mark_is_harmless(tmp_path, plain_release):
    path = tmp_path / "bom.release.json"
    path.write_text(json.dumps(plain_release), encoding="utf-8-sig")
    assert read_release(path).subject.dataset == "compas"


@given(releases())
def test_round_trip(release):
    again = parse_release(json.loads(release.to_json()), file="again")
    assert again == release
    assert again.to_json() == release.to_json()
    assert again.sha256 == release.sha256


def test_group_order_in_a_run_does_not_change_the_bytes(plain_release):
    release = parse_release(plain_release, file="x")
    for run in plain_release["runs"]:
        run["groups"] = dict(reversed(run["groups"].items()))
    assert parse_release(plain_release, file="x").sha256 == release.sha256


def test_the_trainers_settings_are_kept_to_the_letter(plain_release):
    config = {"momentum": None, "layers": [], "note": {}}
    plain_release["training"]["config"] = config
    release = parse_release(plain_release, file="x")
    assert json.loads(release.to_json())["training"]["config"] == config


FIELD_NAMES = [
    *("config", "joint_privacy", "epsilon", "groups", "exposure", "train", "test", "runs", "notes"),
    *("seed", "split", "subject", "provenance", "standard_error", "n", "format", "version"),
]


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_a_group_or_a_proxy_may_be_named_like_a_field(plain_release, name):
    """The bytes are those of another name, but for the name."""

    def written(group: str, proxy: str) -> str:
        tree = copy.deepcopy(plain_release)
        tree["subject"]["groups"][0] = group
        row = {"epsilon": 1.0, "group": group, "proxy": proxy, "value": 0.1}
        tree["pooled_exposure"] = [row]
        for run in tree["runs"]:
            run["epsilon_by_accountant"] = {proxy: 0.5}
            run["groups"][group] = {**run["groups"].pop("Other"), "exposure": {proxy: {"value": 0}}}
        release = parse_release(tree, file="x")
        again = parse_release(json.loads(release.to_json()), file="again")
        assert again == release
        return release.to_json()

    neutral = written("a group", "a proxy")
    assert "null" not in neutral.replace('"epsilon": null', "")
    expected = neutral.replace('"a group"', f'"{name}"')
    assert written(name, "a proxy") == expected
    assert written(name, name) == expected.replace('"a proxy"', f'"{name}"')


def test_writing_is_atomic(tmp_path, plain_release):
    release = parse_release(plain_release, file="x")
    path = tmp_path / "a.release.json"
    write_release(release, path)
    first = path.read_bytes()
    with pytest.raises(OutputError, match=r"missing.* cannot be written"):
        write_files({path: "half", tmp_path / "missing" / "b": "other"})
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["a.release.json"]


def test_a_folder_is_no_place_to_write(tmp_path):
    with pytest.raises(OutputError, match="it is a folder"):
        write_files({tmp_path: "text"})


def test_schema_accepts_what_we_write_and_refuses_what_we_refuse(plain_release):
    schema = release_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    written = json.loads(parse_release(plain_release, file="x").to_json())
    validator.validate(written)
    for name in ("unknown-field", "negative-count", "epsilon-word", "future"):
        assert not validator.is_valid(read_json(SAMPLES / f"{name}.release.json")), name
    for name in ("counts", "rates", "by-hand"):
        validator.validate(read_json(SAMPLES / f"{name}.release.json"))


def test_published_schemas_are_current():
    folder = Path(__file__).parents[2] / "docs" / "schemas"
    assert json.loads((folder / "release.schema.json").read_text()) == release_schema()


def change(tree: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    place: Any = tree
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("subject", "groups"), ["Other"], "at least 2"),
        (("subject", "groups"), ["Other", "Other"], "appears twice"),
        (("subject", "groups"), ["Other", "Nobody"], "'Nobody' is missing"),
        (("subject", "outcome"), "good", "'benefit' or 'harm'"),
        (("version",), "1", "whole number"),
        (("version",), True, "whole number"),
        (("format",), "pcer-audit", "pcer-release"),
        (("runs",), [], "runs"),
        (("runs", 0, "seed"), 1.5, "seed"),
        (("runs", 0, "dp_delta"), 2.0, "dp_delta"),
        (("runs", 0, "groups", "Other", "train"), {"accuracy": 0.5}, "all tables must be counts"),
        (("runs", 0, "groups", "Other", "train"), 5, "train"),
        (("training", "split_kind"), "stratified", "split_kind"),
        (("pooled_exposure",), [{"epsilon": 7.0, "group": "Other", "proxy": "p", "value": 0}], "7"),
        (("pooled_exposure",), [{"epsilon": 1.0, "group": "X", "proxy": "p", "value": 0}], "'X'"),
    ],
)
def test_what_does_not_fit_together_is_named(plain_release, path, value, message):
    with pytest.raises(InputError, match=message):
        parse_release(change(plain_release, *path, value=value), file="x")


def test_pooled_exposure_stands_once(plain_release):
    row = {"epsilon": None, "group": "Other", "proxy": "paired_gap", "value": 0.1}
    with pytest.raises(InputError, match="appears twice"):
        parse_release(change(plain_release, "pooled_exposure", value=[row, row]), file="x")
