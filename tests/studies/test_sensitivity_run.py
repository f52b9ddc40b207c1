"""Training what the paper leaves open: resumable, skipping what is not here, the right noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from pcer.cli.app import app
from pcer.data import load, split
from pcer.data.fetch import FOLDER_VARIABLE
from pcer.release.format import read_release
from pcer.train import Accountant, EngineFlags, TrainConfig
from pcer_studies.run import Progress, environment
from pcer_studies.sensitivity.analysis import read_sensitivity
from pcer_studies.sensitivity.run import FOLDER, _dataset, opacus_noise, run_sensitivity
from pcer_studies.sensitivity.variants import COMPAS, variant

QUICK = TrainConfig(hidden=(4,), epochs=1, expected_batch=1_024)
FLAGS = EngineFlags(jobs=1)

pytestmark = pytest.mark.slow  # it trains variants
SMALL = tuple(
    replace(variant(name), budgets=(0.1,))
    for name in (COMPAS, "compas-prv", "compas-opacus", "compas-outside")
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The four COMPAS variants at one budget, and what was told on the way."""
    folder = tmp_path_factory.mktemp("study") / "new"
    told: list[Progress] = []
    found, ended = run_sensitivity(
        folder, flags=FLAGS, n_seeds=2, variants=SMALL, config=QUICK, on_progress=told.append
    )
    return folder, found, ended, told


def run_again(folder, **changes):
    return run_sensitivity(folder, flags=FLAGS, variants=SMALL, config=QUICK, **changes)


def test_every_variant_has_a_folder_of_its_own(trained):
    folder, found, _, _ = trained
    assert sorted(path.name for path in (folder / FOLDER).iterdir()) == sorted(
        one.name for one in SMALL
    )
    assert [one.name for one in found.results] == [one.name for one in SMALL]
    assert read_sensitivity(folder / "sensitivity.json") == found
    assert found.made_with == [environment(FLAGS)]


def test_splits_are_the_same_in_every_variant(trained):
    assert all(one.same_splits for one in trained[1].results if one.baseline)
    expected = [split(load("compas"), seed=seed).id for seed in range(2)]
    assert all(one.splits == expected for one in trained[1].results)


def test_opacus_noise_is_trained_at_the_epsilon_it_spends(trained):
    row = trained[1].result("compas-opacus").rows[0]
    n_train = len(split(load("compas"), seed=0).train)
    assert row.noise_multiplier == opacus_noise(0.1, n_train=n_train, config=QUICK)
    assert row.epsilon == 0.1
    assert row.trained_epsilon == pytest.approx(row.epsilon_spent)
    assert row.trained_epsilon < 0.1
    assert not trained[1].result("compas-opacus").same_streams


def test_more_noise_by_prv_than_by_pld_and_most_by_opacus_own_search(trained):
    by_name = {one.name: one.rows[0].noise_multiplier for one in trained[1].results}
    assert by_name[COMPAS] <= by_name["compas-prv"] < by_name["compas-opacus"]
    release = read_release(trained[0] / FOLDER / "compas-prv" / "compas-prv.race.release.json")
    assert release.training.config["accountant"] == Accountant.PRV


def test_outside_means_standardised_over_all_records_and_not_again(trained):
    outside = _dataset(variant("compas-outside"))
    np.testing.assert_allclose(outside.features.mean(axis=0, dtype=np.float64), 0, atol=1e-4)
    np.testing.assert_allclose(outside.features.std(axis=0, dtype=np.float64), 1, atol=1e-4)
    release = read_release(
        trained[0] / FOLDER / "compas-outside" / "compas-outside.race.release.json"
    )
    assert release.training.config["standardise"] is False


def test_a_second_run_trains_nothing_and_writes_the_same(trained):
    folder, found, _, _ = trained
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    again, ended = run_again(folder, n_seeds=2)
    assert ended.found == ended.total == 8
    assert again == found
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_what_is_not_here_is_skipped_with_its_reason(trained, monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    wanted = (SMALL[0], variant("adult-all-numbers"))
    found, _ = run_sensitivity(trained[0], flags=FLAGS, n_seeds=2, variants=wanted, config=QUICK)
    assert [one.name for one in found.results] == [COMPAS]
    (skipped,) = found.skipped
    assert skipped.name == "adult-all-numbers"
    assert "PCER_DATA" in skipped.reason


def test_the_command_takes_no_dataset(tmp_path):
    done = CliRunner().invoke(
        app, ["reproduce", "--sensitivity", "--dataset", "adult", "-o", str(tmp_path / "x")]
    )
    assert done.exit_code != 0
    assert not (tmp_path / "x").exists()
    assert "--sensitivity trains its own variants" in str(done.exception or done.output)


def test_the_command_trains_tells_and_logs(tmp_path, monkeypatch):
    def quick(folder, **rest):
        return run_sensitivity(folder, **rest, variants=SMALL[:1], config=QUICK)

    monkeypatch.setattr("pcer_studies.sensitivity.run.run_sensitivity", quick)
    command = ["reproduce", "--sensitivity", "--seeds", "1", "--jobs", "1", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'sensitivity.md'}" in done.output
    assert "reproduce --sensitivity: 1 models" in (tmp_path / "run.log").read_text()
