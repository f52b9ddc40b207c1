"""What the paper leaves open: values in, judged numbers and one page out; readings of Adult."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pcer.data import load, split
from pcer.data.fetch import FOLDER_VARIABLE
from pcer.errors import InputError
from pcer_studies.protocol import NO_DP, configuration
from pcer_studies.published import figures_at, key_at
from pcer_studies.sensitivity import analysis, readings
from pcer_studies.sensitivity.analysis import Observed, Sensitivity, paired_difference
from pcer_studies.sensitivity.page import to_page
from pcer_studies.sensitivity.readings import READINGS, Indicators, load_reading, missing_files
from pcer_studies.sensitivity.variants import ADULT, COMPAS, VARIANTS, Variant, variant
from tests.worlds.studies import SHIPPED, simulated

N_SEEDS = 6
WHOLE_MODEL = ("accuracy", "demographic_parity_gap", "equalized_odds_gap", "pcer_disparity")
PER_GROUP = ("overfitting_gap", "positive_rate")
CLOSE = "adult-all-numbers-no-capital-protected"


def invented(one: Variant, *, away: float) -> Observed:
    """A variant whose means are ``away`` published deviations off the paper's."""
    rng = np.random.default_rng(sum(one.name.encode()))

    def series(attribute: str, epsilon: float, quantity: str, group: str | None):
        key = key_at(configuration(one.dataset, attribute), epsilon, quantity, group=group)
        mean, spread = 0.2, 0.01
        for cell in figures_at(key)[:1]:
            mean, spread = cell.value + away * cell.std, cell.std / 5
        drawn = rng.normal(0, spread, N_SEEDS)
        values = tuple(float(v) for v in mean + drawn - drawn.mean())
        return analysis.Series(quantity=quantity, group=group, values=values)

    def row(attribute: str, epsilon: float):
        groups = configuration(one.dataset, attribute).groups
        wanted = [(quantity, None) for quantity in WHOLE_MODEL]
        wanted += [(quantity, group) for group in groups for quantity in PER_GROUP]
        trained, is_private = 0.08 if one.name.endswith("opacus") else epsilon, epsilon != NO_DP
        return analysis.ObservedRow(
            attribute=attribute,
            epsilon=epsilon,
            trained_epsilon=trained,
            noise_multiplier=37.4 if is_private else None,
            epsilon_spent=trained if is_private else None,
            series=tuple(series(attribute, epsilon, *what) for what in wanted),
        )

    rows = tuple(row(attribute, e) for attribute in one.attributes for e in one.budgets)
    splits = {seed: f"split {seed}" for seed in range(N_SEEDS)}
    return Observed(variant=one, n_features=19, splits=splits, rows=rows)


def analyse(observed: list[Observed], **fields) -> Sensitivity:
    return analysis.analyse(observed, made_with=[{"pcer": "0", "device": "cpu"}], **fields)


def everything(close: str = CLOSE, near: float = 0.0, far: float = 2.0) -> list[Observed]:
    """All variants: one on the paper's means, or near them, the others deviations off."""
    return [invented(one, away=near if one.name == close else far) for one in VARIANTS]


@pytest.fixture(scope="module")
def found() -> Sensitivity:
    return analyse(everything())


def test_the_closest_reading_is_computed(found):
    assert found.closest.name == CLOSE
    assert found.closest.share_of_resamples == 1.0
    assert not variant(found.closest_uncontradicted.name).contradicts
    again = analyse(everything(ADULT, 1.0, 3.0))
    assert again.closest.name == again.closest_uncontradicted.name == ADULT


def test_paired_differences_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    ours = paired_difference((a - b).tolist())
    assert ours.difference == pytest.approx(np.mean(a - b), rel=1e-5)
    assert ours.standard_error == pytest.approx(stats.sem(a - b), rel=1e-5)
    assert ours.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-5)
    for ties, p in (([0.0] * 6, 1.0), ([0.5] * 6, 0.0), ([0.5, 0.5], None)):  # too few seeds
        assert paired_difference(ties).p_value == p


def test_seeds_are_matched_by_number_not_by_place():
    ours, base = (invented(variant(name), away=0) for name in ("compas-prv", COMPAS))
    rows = (
        replace(r, series=tuple(replace(s, values=s.values[1:]) for s in r.series))
        for r in ours.rows
    )
    splits = {seed: f"split {seed}" for seed in (1, 3, 4, 5, 2)}
    fewer = replace(ours, splits=splits, rows=tuple(rows))
    got = analyse([base, fewer]).result("compas-prv").rows[0].numbers[0].paired.difference
    theirs = next(row for row in base.rows if row.epsilon == 0.1).series[0].values
    mine = fewer.rows[0].series[0].values
    expected = np.mean([mine[i] - theirs[seed] for i, seed in enumerate(splits)])
    assert got == pytest.approx(expected, rel=1e-4)


def test_other_splits_and_other_streams_are_said(found):
    assert found.result("compas-outside").same_streams
    assert not found.result("compas-opacus").same_streams
    assert all(one.same_splits for one in found.results if one.baseline)
    broken = [
        replace(one, splits=dict.fromkeys(one.splits, "other")) if one.variant.baseline else one
        for one in everything()
    ]
    again = analyse(broken)
    assert not any(one.same_splits for one in again.results if one.baseline)
    assert "They are not those of the baseline in adult-education-indicators" in to_page(again)


def test_what_does_not_fit_is_refused(found, tmp_path):
    with pytest.raises(InputError, match="compas-prv needs compas-inside; train it as well"):
        analyse([invented(variant("compas-prv"), away=0)])
    release = simulated(configuration("compas", "race"), n_seeds=1)
    with pytest.raises(InputError, match="compas-prv must have 1 budgets, not 6"):
        analysis.observe(variant("compas-prv"), {"race": release}, n_features=7)
    path, named, short = tmp_path / "sensitivity.json", found.model_dump(), found.model_dump()
    named["results"][0]["name"] = "adult-guess"
    del short["results"][0]["rows"][0]["numbers"][0]["mean"]
    for tree, said in (
        (named, "there is no variant 'adult-guess'"),
        (short, r"results\[0\].rows\[0\].numbers\[0\].mean"),
        ({"format": "pcer-release", "version": 1}, "pcer-sensitivity"),
    ):
        path.write_text(json.dumps(tree))
        with pytest.raises(InputError, match=said):
            analysis.read_sensitivity(path)


def test_the_shipped_page_follows_from_the_shipped_file():
    """And a reading whose distance is unknown is not the nearest."""
    found = analysis.read_sensitivity(SHIPPED / "sensitivity.json")
    assert to_page(found) == (SHIPPED / "sensitivity.md").read_text(encoding="utf-8")
    skipped = [(one.name, one.reason) for one in found.skipped]
    again = analysis.analyse(
        analysis.observed_of(found), made_with=found.made_with, skipped=skipped
    )
    assert again.to_json() == (SHIPPED / "sensitivity.json").read_text(encoding="utf-8")
    first, *others = found.results
    unknown = [first.model_copy(update={"distance": None}), *others]
    page = to_page(found.model_copy(update={"results": unknown}))
    table = page.partition("### Readings by distance\n")[2].partition("\n###")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert rows[-1].startswith("| named columns (pcer) | 19 | – |")


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
    shipped = analysis.read_sensitivity(SHIPPED / "sensitivity.json").result(name)
    assert dataset.features.shape == (46_033, shipped.n_features)
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
