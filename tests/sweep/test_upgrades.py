"""Sweeps that another version began: they go on, or a sentence says why not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from pcer.errors import InputError
from pcer.sweep import Sweep, is_finished, run_sweep
from pcer.sweep import run as sweep_module
from pcer.sweep.run import version_note
from pcer.train import TrainConfig
from pcer.train.config import ADDED_SETTINGS
from pcer.train.devices import installed_versions
from tests.sweep.test_run import CONFIG, FLAGS, begin, contents, tiny


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


def test_a_folder_or_release_refuses_a_setting_that_only_one_version_has(tmp_path, monkeypatch):
    begin(tmp_path / "old", 1)
    with pytest.raises(InputError, match="made with dropout that it does not name"):
        run_sweep(later(), tmp_path / "old", flags=FLAGS)
    with monkeypatch.context() as patch:
        patch.setitem(ADDED_SETTINGS, "dropout", 0.0)
        run_sweep(later(), tmp_path / "new", flags=FLAGS, keep_scores=True)
    sentence = "was made with dropout 0.0, but this version of pcer has no such setting"
    with pytest.raises(InputError, match=rf"release\.json {sentence}"):
        run_sweep(tiny(), tmp_path / "new", flags=FLAGS)
    for path in (tmp_path / "new").glob("*.release.json"):
        path.unlink()
    settings = tmp_path / "new" / "tiny.scores" / "settings.json"
    for path in settings.parent.glob("block-*"):
        path.unlink()
    with pytest.raises(InputError, match=rf"scores {sentence}"):
        run_sweep(tiny(), tmp_path / "new", flags=FLAGS)


@pytest.mark.usefixtures("upgraded")
def test_a_folder_and_its_releases_go_on_although_a_setting_was_added(tmp_path, monkeypatch):
    begin(tmp_path, 2)
    done: list[int] = []
    with pytest.raises(InputError, match=r"scores was made with dropout 0\.0, but 0\.5 is asked"):
        run_sweep(later(dropout=0.5), tmp_path, flags=FLAGS)
    run_sweep(later(), tmp_path, flags=FLAGS, on_progress=lambda n, total: done.append(n))
    assert done[0] == 5
    before = contents(tmp_path)
    assert is_finished(later(), tmp_path)
    with pytest.raises(InputError, match=r"release\.json was made with dropout 0\.0, but 0\.5"):
        is_finished(later(dropout=0.5), tmp_path)
    monkeypatch.setattr(sweep_module, "run_blocks", None)
    run_sweep(later(), tmp_path, flags=FLAGS)
    assert contents(tmp_path) == before


def notes(paths: dict[str, Path]) -> list[list[str]]:
    return [json.loads(path.read_text())["subject"]["notes"] for path in paths.values()]


def upgrade(monkeypatch, **versions: str) -> None:
    """From now on other versions are installed."""
    now = {**installed_versions(), **versions}
    monkeypatch.setattr(sweep_module, "installed_versions", lambda: now)


def test_an_upgrade_between_two_parts_is_told_and_written_into_the_release(tmp_path, monkeypatch):
    begin(tmp_path, 1)
    before = installed_versions()
    upgrade(monkeypatch, pcer="99.1", torch="99.2")
    said: list[str] = []
    paths = run_sweep(tiny(), tmp_path, flags=FLAGS, on_note=said.append)
    (sentence,) = said
    old = f"pcer {before['pcer']} and torch {before['torch']}"
    assert f"write this release: 2 by {old}; trained by one" in sentence
    assert all(sentence in found for found in notes(paths))
    assert [found.index(sentence) for found in notes(paths)] == [1, 1]  # after the dataset's own


def test_models_that_are_not_of_this_sweep_are_not_named(tmp_path, monkeypatch):
    sweep = tiny(seeds=(0, 1), attributes=("sex",))
    run_sweep(tiny(seeds=(2, 3)), tmp_path, flags=FLAGS, keep_scores=True)
    for path in tmp_path.glob("*.release.json"):
        path.unlink()
    upgrade(monkeypatch, numba="99.0")
    said: list[str] = []
    paths = run_sweep(sweep, tmp_path, flags=FLAGS, keep_scores=True, on_note=said.append)
    assert said == []
    assert not any("versions" in note for found in notes(paths) for note in found)


def test_versions_are_counted_by_what_differs_from_today_s():
    now = {"numpy": "2.4.0", "pcer": "0.2.0", "torch": "2.13.0"}
    old, less = {**now, "pcer": "0.1.0", "torch": "2.12.0"}, {"numpy": "2.4.0", "pcer": "0.2.0"}
    assert version_note([now, dict(reversed(now.items()))], now) == []
    (sentence,) = version_note([old, now, less, old], now)
    parts = "release: 2 by pcer 0.1.0 and torch 2.12.0, 1 by torch (not noted); trained"
    assert parts in sentence
