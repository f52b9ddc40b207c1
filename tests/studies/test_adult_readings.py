"""Other readings of Adult: same records, labels and splits; other features."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from pcer.data import load, split
from pcer.data.fetch import FOLDER_VARIABLE
from pcer.errors import InputError
from pcer_studies.sensitivity import readings
from pcer_studies.sensitivity.readings import READINGS, Indicators, load_reading, missing_files

N_FEATURES = {
    "adult-named": 19,
    "adult-education-indicators": 34,
    "adult-occupation-number": 6,
    "adult-plain-indicators": 19,
    "adult-protected-inside": 25,
    "adult-all-indicators": 98,
    "adult-all-numbers": 12,
    "adult-all-numbers-no-capital": 10,
    "adult-all-numbers-no-capital-protected": 12,
}


@pytest.fixture(scope="module")
def folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    place = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not any((place / f"adult.data{end}").is_file() for end in ("", ".gz")):
        pytest.skip(f"{FOLDER_VARIABLE} names no folder with UCI's Adult files")
    return place


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_changes_features_and_nothing_else(name, request):
    """The first is pcer's own, and changes nothing."""
    place = request.getfixturevalue("folder") if READINGS[name].whole else None
    dataset, ours = load_reading(name, folder=place), load("adult")
    assert dataset.name == name
    assert dataset.features.shape == (46_033, N_FEATURES[name])
    np.testing.assert_array_equal(dataset.record_ids, ours.record_ids)
    np.testing.assert_array_equal(dataset.labels, ours.labels)
    for attribute in ("sex", "race"):
        codes = [one.attribute(attribute).codes for one in (dataset, ours)]
        np.testing.assert_array_equal(*codes)
    assert split(dataset, seed=7).id == split(ours, seed=7).id
    assert (dataset.digest == ours.digest) is (name == next(iter(READINGS)) == "adult-named")


def test_the_bundled_columns_are_those_of_the_whole_table(folder):
    whole = readings.read_whole(folder=folder)
    assert {len(values) for values in whole.values()} == {48_842}
    for name, values in readings._bundled().items():
        np.testing.assert_array_equal(whole[name], values)


def test_a_column_becomes_positions_in_alphabetical_order_or_indicators():
    """One indicator per value, and one for two."""
    four = np.array(["b", "?", "c", "b"], dtype=object)
    names, values = readings.Positions("x").encode({"x": four})
    assert names == ("x",)
    assert values[:, 0].tolist() == [1, 0, 2, 1]
    three = np.array(["b", "a", "c"], dtype=object)
    names, values = Indicators("x").encode({"x": three})
    assert names == ("x=a", "x=b", "x=c")
    assert values.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    names, values = Indicators("x").encode({"x": three[:2]})
    assert names == ("x=a",)
    assert values.tolist() == [[0], [1]]


def test_plain_indicators_are_0_and_1_beside_standardised_numbers():
    dataset = load_reading("adult-plain-indicators")
    for name, column in zip(dataset.feature_names, dataset.features.T, strict=True):
        if "=" in name:
            assert set(np.unique(column)) == {0, 1}
        else:
            assert abs(column.mean(dtype=np.float64)) < 1e-4
            assert abs(column.std(dtype=np.float64) - 1) < 1e-4


def test_what_is_missing_or_altered_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert missing_files("adult-named") is None
    said = str(missing_files("adult-all-numbers"))
    assert said.startswith("adult-all-numbers needs columns that the package does not carry; put ")
    assert "adult.data and adult.test" in said
    assert "PCER_DATA" in said
    with pytest.raises(InputError, match=r"put UCI's adult\.data and adult\.test"):
        load_reading("adult-all-numbers")
    for name, _ in readings.WHOLE:
        (tmp_path / name).write_text("39, State-gov, 77516\n")
    with pytest.raises(InputError, match=r"adult\.data is not the file that UCI publishes"):
        readings.read_whole(folder=tmp_path)


@pytest.mark.slow
def test_plain_and_packed_files_are_the_same(folder, tmp_path):
    for name, _ in readings.WHOLE:
        packed = (folder / f"{name}.gz").read_bytes()
        (tmp_path / name).write_bytes(gzip.decompress(packed))
    assert missing_files("adult-all-numbers", folder=tmp_path) is None
    plain = load_reading("adult-all-numbers", folder=tmp_path)
    assert plain.digest == load_reading("adult-all-numbers", folder=folder).digest
