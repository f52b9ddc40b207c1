"""Sweeps with receipts: bounds in the release, a private file, the same bytes however killed."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pcer
from pcer.cli.app import app
from pcer.data import split
from pcer.sweep import person_receipts
from pcer.sweep.receipts import ARRAY, INDEX, read_receipts
from pcer.sweep.run import Sweep, is_finished, run_sweep
from pcer.train import calibrate
from pcer.train.receipts import Terms
from tests import commands
from tests.sweep.test_run import CONFIG, FLAGS, KILLER, N, tiny


def accounted(mode: str = "held", **changes) -> Sweep:
    config = dataclasses.replace(CONFIG, epochs=2, receipts=mode)
    return tiny(**{"config": config, **changes})


def contents(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("*.release.json"), *(folder / "tiny.receipts").iterdir()]
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run_sweep(accounted(), folder, flags=FLAGS)
    return folder


def test_a_release_has_the_bounds_of_every_private_setting_group_and_label(whole):
    release = pcer.read_release(whole / "tiny.sex.release.json")
    keys = [(b.epsilon, b.group, b.label, b.kind) for b in release.bounds]
    assert len(keys) == len(set(keys)) == 2 * 3 * 2
    assert {b.epsilon for b in release.bounds} == {1.0}  # none without privacy
    assert all(b.mode == "held" and b.accountant == "rdp" and b.exact for b in release.bounds)
    assert all(0 < b.mean <= b.nominal for b in release.bounds)
    spent = {k: next(b for b in release.bounds if b.kind == k) for k in ("realised", "receipt")}
    assert spent["realised"].mean < spent["receipt"].mean
    assert 0 < spent["realised"].allowed_advantage < 0.5
    assert any("bounds hold exact statistics" in note for note in release.subject.notes)


def test_bounds_are_those_of_the_kept_receipts(whole):
    release, sweep = pcer.read_release(whole / "tiny.sex.release.json"), accounted()
    index, kept = read_receipts(whole / "tiny.receipts")
    (setting,) = index.settings
    budget = calibrate(1.0, n_train=211, config=sweep.config)
    sampling = sweep.config.sampling(211)
    terms = Terms(budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, 1e-5)
    assert setting.ladder == terms.ladder.tolist()
    assert kept.shape == (1, 4, N)
    member = ~np.isnan(kept[0])
    for row, seed in zip(member, sweep.seeds, strict=True):
        assert np.flatnonzero(row).tolist() == sorted(split(sweep.dataset, seed=seed).train)
    chosen = sweep.dataset.attribute("sex").codes == 0
    for kind, values in (("realised", terms.realised(kept)), ("receipt", terms.receipt(kept))):
        (bound,) = (b for b in release.bounds if (b.group, b.label, b.kind) == ("f", None, kind))
        assert bound.mean == pytest.approx(np.nanmean(values[0][:, chosen]))
        assert bound.n_records == int((member.any(axis=0) & chosen).sum())


def test_receipts_are_their_owners_and_no_scores_are_left(whole):
    place = whole / "tiny.receipts"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert {path.name for path in place.iterdir()} == {ARRAY, INDEX}
    assert not (whole / "tiny.scores").exists()


@pytest.mark.parametrize(("stage", "block"), [("between", 1), ("release", 0)])
def test_a_killed_sweep_resumes_to_the_same_receipts(tmp_path, whole, stage, block):
    script, folder = tmp_path / "killer.py", tmp_path / "out"
    ours = "from tests.sweep.test_accounted import accounted\n"
    script.write_text(ours + KILLER.replace("tiny()", "accounted()"))
    killed = subprocess.run(
        [sys.executable, script, stage, str(block), folder],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    run_sweep(accounted(), folder, flags=FLAGS)
    assert contents(folder) == contents(whole)


def test_a_sweep_that_lost_its_receipts_is_not_finished(tmp_path, whole):
    run_sweep(accounted(), tmp_path, flags=FLAGS)
    assert is_finished(accounted(), tmp_path)
    (tmp_path / "tiny.receipts" / INDEX).unlink()
    assert not is_finished(accounted(), tmp_path)
    run_sweep(accounted(), tmp_path, flags=FLAGS)
    assert contents(tmp_path) == contents(whole)


def test_more_seeds_give_more_receipts(tmp_path, whole):
    run_sweep(accounted(seeds=(0, 1)), tmp_path, flags=FLAGS)
    assert not is_finished(accounted(), tmp_path)
    run_sweep(accounted(), tmp_path, flags=FLAGS)
    assert contents(tmp_path) == contents(whole)


def test_a_person_reads_what_their_record_spent(whole):
    index, (row,) = person_receipts(whole, "10")
    assert (index.mode, index.standardised) == ("held", True)
    assert index.has_models_without_privacy
    n_models = sum(0 in split(accounted().dataset, seed=seed).train for seed in range(4))
    assert len(row.receipt) == n_models > 0
    assert (row.realised <= row.receipt).all()
    assert (row.receipt <= row.nominal).all()


def test_exact_and_held_counts_never_exceed_the_promise(tmp_path):
    """``exact`` changes no model: the tables are those of a sweep without receipts."""
    run_sweep(accounted("exact"), tmp_path / "exact", flags=FLAGS)
    plain = accounted("none")
    run_sweep(plain, tmp_path / "plain", flags=FLAGS)
    ours, theirs = (
        pcer.read_release(tmp_path / name / "tiny.sex.release.json") for name in ("exact", "plain")
    )
    assert [run.groups for run in ours.runs] == [run.groups for run in theirs.runs]
    assert not theirs.bounds
    assert all(b.mean <= b.nominal for b in ours.bounds)


def test_without_private_models_there_is_nothing_to_account(tmp_path):
    run_sweep(accounted(budgets=(math.inf,)), tmp_path, flags=FLAGS)
    assert is_finished(accounted(budgets=(math.inf,)), tmp_path)
    index, rows = person_receipts(tmp_path, "10")
    assert index.has_models_without_privacy
    assert list(rows) == []


ONE_JOB = commands.config(engine={"jobs": 1})


def test_the_whole_way_on_the_command_line(tmp_path):
    rng, table = np.random.default_rng(0), tmp_path / "loans.csv"
    lines = [
        f"{rng.normal():.3f},{'fm'[k % 2]},{'yes' if rng.random() < 0.5 else 'no'}"
        for k in range(300)
    ]
    table.write_text("\n".join(["income,sex,paid", *lines]) + "\n")
    train = f"train {table} --attribute sex --label paid --positive yes --outcome benefit"
    train += f" --budgets 2 --seeds 2 --epochs 1 --batch 20 --receipts held -o {tmp_path}"
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = CliRunner().invoke(app, [*train.split(), "--hidden", "4", *ONE_JOB], env=environment)
    assert done.exit_code == 0, done.exception
    assert f"pcer receipt {tmp_path} --record ID" in done.output
    index, _ = read_receipts(tmp_path / "loans.receipts")
    shown = CliRunner().invoke(
        app, ["receipt", str(tmp_path), "--record", str(index.record_ids[0])]
    )
    assert shown.exit_code == 0, shown.exception
    (release,) = tmp_path.glob("*.release.json")
    assert pcer.read_release(release).bounds


def test_the_filter_keeps_everybody_within_the_budget(tmp_path):
    config = dataclasses.replace(CONFIG, epochs=4, receipts="held", budget_per_person=0.4)
    sweep = accounted(config=config, budgets=(1.0,), seeds=(0,))
    run_sweep(sweep, tmp_path, flags=FLAGS)
    index, kept = read_receipts(tmp_path / "tiny.receipts")
    budget = calibrate(1.0, n_train=211, config=config)
    sampling = config.sampling(211)
    terms = Terms(budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, 1e-5)
    realised = terms.realised(kept)[~np.isnan(kept)]
    assert (realised <= 0.4 * (1 + 1e-5)).all()
    assert realised.max() > 0.3  # and somebody met it
    assert index.settings[0].ladder[-1] > 0.9
