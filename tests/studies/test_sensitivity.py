"""What the paper leaves open: values in, one page out; and the readings of Adult."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pcer.data import load, split
from pcer.data.benchmarks import FOLDER_VARIABLE
from pcer.errors import InputError
from pcer_studies.protocol import configuration
from pcer_studies.sensitivity import analysis, readings
from pcer_studies.sensitivity.analysis import paired_difference
from pcer_studies.sensitivity.observed import Observed, observe, observed_of
from pcer_studies.sensitivity.page import to_page
from pcer_studies.sensitivity.readings import (
    READINGS,
    Indicators,
    load_reading,
    missing_files,
)
from pcer_studies.sensitivity.records import Sensitivity, read_sensitivity
from pcer_studies.sensitivity.variants import ADULT, COMPAS, variant
from tests.worlds.studies import SHIPPED, simulated


@pytest.fixture(scope="module")
def found() -> Sensitivity:
    return read_sensitivity(SHIPPED / "sensitivity.json")


def observed(found: Sensitivity, *names: str) -> list[Observed]:
    """What was trained of these variants, or of all."""
    return [one for one in observed_of(found) if not names or one.variant.name in names]


def analyse(trained: list[Observed], **fields) -> Sensitivity:
    return analysis.analyse(
        trained, made_with=[{"pcer": "0", "device": "cpu"}], **fields
    )


def test_the_shipped_page_follows_from_the_shipped_file(found):
    """And a reading whose distance is unknown is not the nearest."""
    assert to_page(found) == (SHIPPED / "sensitivity.md").read_text(encoding="utf-8")
    skipped = [(one.name, one.reason) for one in found.skipped]
    again = analysis.analyse(
        observed(found), made_with=found.made_with, skipped=skipped
    )
    assert again.to_json() == (SHIPPED / "sensitivity.json").read_text(encoding="utf-8")
    first, *others = found.results
    unknown = [first.model_copy(update={"distance": None}), *others]
    page = to_page(found.model_copy(update={"results": unknown}))
    table = page.partition("### Readings by distance\n")[2].partition("\n###")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert rows[-1].startswith("| named columns (pcer) | 19 | – |")


def test_the_closest_reading_is_computed(found):
    """Where pcer's own reading gives the numbers of the closest, it is that."""
    assert variant(found.closest.name).contradicts
    assert not variant(found.closest_uncontradicted.name).contradicts
    own, closest = observed(found, ADULT, found.closest.name)
    again = analyse([replace(own, rows=closest.rows), replace(closest, rows=own.rows)])
    assert again.closest.name == again.closest_uncontradicted.name == ADULT
    assert again.result(ADULT).distance == found.result(found.closest.name).distance


def test_paired_differences_are_those_of_a_paired_t_test_by_seed(found):
    rng = np.random.default_rng(3)
    a = rng.normal(0.3, 1, 12)
    b = rng.normal(0, 1, 12)
    ours = paired_difference((a - b).tolist())
    assert ours.difference == pytest.approx(np.mean(a - b), rel=1e-5)
    assert ours.standard_error == pytest.approx(stats.sem(a - b), rel=1e-5)
    assert ours.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-5)
    assert paired_difference([0.0] * 6).p_value == 1.0
    assert paired_difference([0.5] * 6).p_value == 0.0
    assert paired_difference([0.5, 0.5]).p_value is None  # too few seeds


def test_seeds_are_paired_by_number_and_not_by_place(found):
    base, other = observed(found, COMPAS, "compas-prv")
    seeds = (1, 3, 4, 5, 2)
    (row,) = other.rows
    fewer = tuple(replace(s, values=s.values[:5]) for s in row.series)
    splits = {seed: other.splits[seed] for seed in seeds}
    got = analyse(
        [base, replace(other, splits=splits, rows=(replace(row, series=fewer),))]
    )
    theirs = next(row for row in base.rows if row.epsilon == 0.1).series[0].values
    expected = np.mean(
        [fewer[0].values[i] - theirs[seed] for i, seed in enumerate(seeds)]
    )
    number = got.result("compas-prv").rows[0].numbers[0]
    assert number.paired.difference == pytest.approx(expected, rel=1e-4)


def test_other_splits_and_other_streams_are_said(found):
    assert found.result("compas-outside").same_streams
    assert not found.result("compas-opacus").same_streams
    assert all(one.same_splits for one in found.results if one.baseline)
    broken = [
        replace(one, splits=dict.fromkeys(one.splits, "other"))
        if one.variant.baseline
        else one
        for one in observed(found)
    ]
    again = analyse(broken)
    assert not any(one.same_splits for one in again.results if one.baseline)
    assert (
        "They are not those of the baseline in adult-education-indicators"
        in to_page(again)
    )


def test_what_does_not_fit_is_refused(found, tmp_path):
    with pytest.raises(
        InputError, match="compas-prv needs compas-inside; train it as well"
    ):
        analyse(observed(found, "compas-prv"))
    release = simulated(configuration("compas", "race"), n_seeds=1)
    with pytest.raises(InputError, match="compas-prv must have 1 budgets, not 6"):
        observe(variant("compas-prv"), {"race": release}, n_features=7)
    path = tmp_path / "sensitivity.json"
    named = found.model_dump()
    short = found.model_dump()
    named["results"][0]["name"] = "adult-guess"
    del short["results"][0]["rows"][0]["numbers"][0]["mean"]
    for tree, said in (
        (named, "there is no variant 'adult-guess'"),
        (short, r"results\[0\].rows\[0\].numbers\[0\].mean"),
        ({"format": "pcer-release", "version": 1}, "pcer-sensitivity"),
    ):
        path.write_text(json.dumps(tree))
        with pytest.raises(InputError, match=said):
            read_sensitivity(path)


@pytest.fixture(scope="module")
def folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    place = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not any((place / f"adult.data{end}").is_file() for end in ("", ".gz")):
        pytest.skip(f"{FOLDER_VARIABLE} names no folder with UCI's Adult files")
    return place


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_changes_features_and_nothing_else(name, found, request):
    """The first is pcer's own, and changes nothing."""
    place = request.getfixturevalue("folder") if READINGS[name].whole else None
    dataset = load_reading(name, folder=place)
    ours = load("adult")
    assert dataset.name == name
    assert dataset.features.shape == (46_033, found.result(name).n_features)
    np.testing.assert_array_equal(dataset.record_ids, ours.record_ids)
    np.testing.assert_array_equal(dataset.labels, ours.labels)
    for attribute in ("sex", "race"):
        codes = [one.attribute(attribute).codes for one in (dataset, ours)]
        np.testing.assert_array_equal(*codes)
    assert split(dataset, seed=7).id == split(ours, seed=7).id
    assert (dataset.digest == ours.digest) is (
        name == next(iter(READINGS)) == "adult-named"
    )


def test_the_bundled_columns_are_those_of_the_whole_table(folder):
    whole = readings.read_whole(folder=folder)
    assert {len(values) for values in whole.values()} == {48_842}
    for name, values in readings.bundled_columns().items():
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


def test_what_is_missing_or_altered_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert missing_files("adult-named") is None
    said = str(missing_files("adult-all-numbers"))
    assert said.startswith(
        "adult-all-numbers needs columns that the package does not carry; put "
    )
    assert "adult.data and adult.test" in said
    assert "PCER_DATA" in said
    with pytest.raises(InputError, match=r"put UCI's adult\.data and adult\.test"):
        load_reading("adult-all-numbers")
    for name, _ in readings.WHOLE:
        (tmp_path / name).write_text("39, State-gov, 77516\n")
    with pytest.raises(
        InputError, match=r"adult\.data is not the file that UCI publishes"
    ):
        readings.read_whole(folder=tmp_path)
