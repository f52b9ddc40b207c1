"""Sweeps that another version began: they go on, or a sentence says why not."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pcer.data import split
from pcer.errors import InputError
from pcer.store import sealed
from pcer.sweep import run as sweep_module
from pcer.sweep.run import Sweep, is_finished, run_sweep
from pcer.train import TrainConfig, TrainingData, train_seeds
from pcer.train.config import ADDED_SETTINGS
from pcer.train.devices import installed_versions
from tests.commands import config, run
from tests.sweep.test_run import CONFIG, FLAGS, tiny, tiny_dataset

OLD_SETTINGS = {
    "dataset": "tiny",
    "data_digest": tiny_dataset().digest,
    "secret_digest": "ae5230049ae23fb81e8b19867df306822d3afc2bc8838291a355fa7352d2ceaa",
    "hidden": [4],
    "epochs": 1,
    "expected_batch": 50,
    "learning_rate": 0.05,
    "momentum": 0.9,
    "clip_norm": 1.0,
    "dp_delta": 1e-05,
    "accountant": "rdp",
    "standardise": True,
    "split": "random 70/30 within each label",
}
"""``settings.json`` of the tiny sweep as pcer wrote it before it noted versions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tomorrow(TrainConfig):
    """A later version's settings, with one more."""

    dropout: float = 0.0


@pytest.fixture
def upgraded(monkeypatch) -> None:
    """A version that has the new setting, and says what stood for it before."""
    monkeypatch.setitem(ADDED_SETTINGS, "dropout", 0.0)


def later(**changes: object) -> Sweep:
    return tiny(config=Tomorrow(**{**dataclasses.asdict(CONFIG), **changes}))  # type: ignore[arg-type]


def write_old_folder(folder: Path, **settings: object) -> None:
    """A sweep that was killed after two models, file by file as it was written then."""
    work = folder / "tiny.scores"
    work.mkdir(parents=True)
    (work / "settings.json").write_text(json.dumps({**OLD_SETTINGS, **settings}, indent=1))
    dataset = tiny_dataset()
    rows = {0: split(dataset, seed=0).train}
    data = TrainingData.of(dataset.features, dataset.labels, rows)
    found = train_seeds(data, budgets=(1.0, math.inf), config=CONFIG, flags=FLAGS)
    np.save(work / "block-0123456789abcdef.npy", found.logits[:, 0])
    names = {"models": [["0x1.0000000000000p+0", 0], ["inf", 0]]}
    (work / "block-0123456789abcdef.json").write_text(json.dumps(names))


@pytest.mark.usefixtures("upgraded")
def test_an_old_folder_goes_on_although_a_setting_was_added(tmp_path):
    write_old_folder(tmp_path)
    done: list[int] = []
    told: list[str] = []
    paths = run_sweep(
        later(),
        tmp_path,
        flags=FLAGS,
        on_progress=lambda n, total: done.append(n),
        on_note=told.append,
    )
    assert done[0] == 2
    assert "1 block is from before blocks carried digests, and taken as found" in told[0]
    assert "2 by versions that were not noted, 6 by dp-accounting " in told[1]
    fresh = run_sweep(later(), tmp_path / "fresh", flags=FLAGS)
    for name, path in paths.items():
        runs, expected = (json.loads(p.read_text())["runs"] for p in (path, fresh[name]))
        assert runs == expected


@pytest.mark.usefixtures("upgraded")
def test_an_old_folder_refuses_another_value_of_the_new_setting(tmp_path):
    write_old_folder(tmp_path)
    with pytest.raises(InputError, match=r"scores was made with dropout 0\.0, but 0\.5 is asked"):
        run_sweep(later(dropout=0.5), tmp_path, flags=FLAGS)


def test_an_old_folder_refuses_a_setting_of_which_nobody_said_what_stood_for_it(tmp_path):
    write_old_folder(tmp_path)
    with pytest.raises(InputError, match="does not say with which dropout it was made"):
        run_sweep(later(), tmp_path, flags=FLAGS)


def test_a_folder_with_a_setting_that_is_gone_is_refused_by_name(tmp_path):
    write_old_folder(tmp_path, warmup=5)
    sentence = "was made with warmup 5, a setting that this version of pcer does not have"
    with pytest.raises(InputError, match=sentence):
        run_sweep(tiny(), tmp_path, flags=FLAGS)


@pytest.mark.usefixtures("upgraded")
def test_an_old_release_is_finished_although_a_setting_was_added(tmp_path, monkeypatch):
    paths = run_sweep(tiny(), tmp_path, flags=FLAGS)
    before = {name: path.read_bytes() for name, path in paths.items()}
    assert is_finished(later(), tmp_path)
    with pytest.raises(InputError, match=r"release\.json was made with dropout 0\.0, but 0\.5"):
        is_finished(later(dropout=0.5), tmp_path)
    monkeypatch.setattr(sweep_module, "run_blocks", None)
    run_sweep(later(), tmp_path, flags=FLAGS)
    assert {name: path.read_bytes() for name, path in paths.items()} == before


@pytest.mark.usefixtures("upgraded")
def test_a_release_with_a_setting_that_is_gone_is_refused_by_name(tmp_path):
    run_sweep(later(), tmp_path, flags=FLAGS)
    sentence = r"release\.json was made with dropout 0\.0, a setting that this version .* not have"
    with pytest.raises(InputError, match=sentence):
        is_finished(tiny(), tmp_path)


def notes(paths: dict[str, Path]) -> list[list[str]]:
    return [json.loads(path.read_text())["subject"]["notes"] for path in paths.values()]


def begin(folder: Path, n_blocks: int) -> None:
    """A sweep that this version began and that was stopped after some blocks of three models."""
    saved = 0

    def stop(done: int, total: int) -> None:
        nonlocal saved
        saved += 1
        if saved > n_blocks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(), folder, flags=FLAGS, on_progress=stop)


def upgrade(monkeypatch, **versions: str) -> None:
    """From now on other versions are installed."""
    now = {**installed_versions(), **versions}
    monkeypatch.setattr(sweep_module, "installed_versions", lambda: now)


def test_an_upgrade_between_two_parts_is_told_and_written_into_the_release(tmp_path, monkeypatch):
    begin(tmp_path, 1)
    before = installed_versions()
    upgrade(monkeypatch, pcer="99.1", torch="99.2")
    told: list[str] = []
    paths = run_sweep(tiny(), tmp_path, flags=FLAGS, on_note=told.append)
    (sentence,) = told
    old = f"pcer {before['pcer']} and torch {before['torch']}"
    assert f": 2 by {old}, 6 by pcer 99.1 and torch 99.2; trained by one" in sentence
    assert all(sentence in found for found in notes(paths))
    assert [found.index(sentence) for found in notes(paths)] == [1, 1]  # after the dataset's own


def test_the_same_versions_write_the_same_bytes_as_an_uninterrupted_sweep(tmp_path):
    begin(tmp_path / "parts", 2)
    told: list[str] = []
    parts = run_sweep(tiny(), tmp_path / "parts", flags=FLAGS, on_note=told.append)
    whole = run_sweep(tiny(), tmp_path / "whole", flags=FLAGS, on_note=told.append)
    assert told == []
    assert [p.read_bytes() for p in parts.values()] == [p.read_bytes() for p in whole.values()]


def test_models_that_are_not_of_this_sweep_are_not_told_of(tmp_path, monkeypatch):
    sweep = tiny(seeds=(0, 1), attributes=("sex",))
    run_sweep(tiny(seeds=(2, 3)), tmp_path, flags=FLAGS, keep_scores=True)
    for path in tmp_path.glob("*.release.json"):
        path.unlink()
    upgrade(monkeypatch, numba="99.0")
    told: list[str] = []
    paths = run_sweep(sweep, tmp_path, flags=FLAGS, keep_scores=True, on_note=told.append)
    assert told == []
    assert not any("versions" in note for found in notes(paths) for note in found)


def test_every_block_notes_what_trained_it(tmp_path):
    run_sweep(tiny(), tmp_path, flags=FLAGS, keep_scores=True)
    blocks = list((tmp_path / "tiny.scores").glob("block-*.json"))
    assert len(blocks) == 3
    for path in blocks:
        made_with = json.loads(path.read_text())["made_with"]
        assert made_with == installed_versions()
        assert {"pcer", "numba", "numpy", "torch"} <= set(made_with)


def test_the_command_says_so_on_stderr(tmp_path):
    arguments = ["train", "compas", "--attribute", "race", "--budgets", "none", "--seeds", "2"]
    quick = ["--epochs", "1", "--hidden", "4", "--batch", "1000", "-o", tmp_path]
    more = config(engine={"block_size": 1, "jobs": 1, "keep_scores": True})
    done = run(*arguments, *quick, *more)
    assert done.returncode == 0, done.stderr
    assert "Not all models" not in done.stderr
    first, second = sorted((tmp_path / "compas.scores").glob("block-*.json"))
    record = json.loads(first.read_text())
    del record["sha256"]
    record["made_with"]["torch"] = "1.0.0"
    first.write_text(json.dumps(sealed(record)))
    second.unlink()
    again = run(*arguments, *quick, *more)
    assert again.returncode == 0, again.stderr
    assert "release: 1 by torch 1.0.0, 1 by torch " in " ".join(again.stderr.split())
    assert "Not all models" not in again.stdout
