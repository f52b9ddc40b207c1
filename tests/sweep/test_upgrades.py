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
from pcer.sweep import run as sweep_module
from pcer.sweep.run import Sweep, is_finished, run_sweep
from pcer.train import ADDED_SETTINGS, TrainConfig, TrainingData, train_seeds
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
    paths = run_sweep(later(), tmp_path, flags=FLAGS, on_progress=lambda n, total: done.append(n))
    assert done[0] == 2
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
