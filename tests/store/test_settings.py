"""The settings of a folder: the same again, or a sentence; also after an upgrade."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from pcer.errors import InputError
from pcer.store import (
    finished_blocks,
    require_same_settings,
    resume_folder,
    save_block,
    settings_digest,
)
from pcer.store import settings as settings_module

SETTINGS = {"epochs": 3, "hidden": [4, 2], "digest": None}


def keep(folder, settings, added=()):
    return resume_folder(folder, settings, added=dict(added), n_columns=2)


def save(folder, settings, seed=0, added=()):
    digest = settings_digest(settings, added=dict(added))
    values = np.full((1, 2), seed, dtype=np.float32)
    save_block(folder, [("1.0", seed)], values, made_with={}, settings=digest)


def test_a_new_folder_keeps_its_settings_and_takes_only_these(tmp_path):
    keep(tmp_path, SETTINGS)
    assert json.loads((tmp_path / "settings.json").read_text()) == SETTINGS
    keep(tmp_path, SETTINGS)
    with pytest.raises(InputError, match="was made with epochs 3, but 4 is asked for; choose"):
        keep(tmp_path, {**SETTINGS, "epochs": 4})
    assert json.loads((tmp_path / "settings.json").read_text()) == SETTINGS


def test_a_setting_that_is_younger_than_the_folder_stands_for_what_was_done_before(tmp_path):
    keep(tmp_path, SETTINGS)
    added = {"dropout": 0.0}
    keep(tmp_path, {**SETTINGS, "dropout": 0.0}, added)
    with pytest.raises(InputError, match=r"was made with dropout 0\.0, but 0\.5 is asked for"):
        keep(tmp_path, {**SETTINGS, "dropout": 0.5}, added)
    with pytest.raises(InputError, match=r"does not say with which dropout it was made, and 0\.0"):
        keep(tmp_path, {**SETTINGS, "dropout": 0.0})


def test_a_folder_that_says_so_itself_is_believed(tmp_path):
    keep(tmp_path, {**SETTINGS, "dropout": 0.5}, {"dropout": 0.0})
    keep(tmp_path, {**SETTINGS, "dropout": 0.5}, {"dropout": 0.0})


def test_a_setting_that_is_gone_is_told(tmp_path):
    sentence = (
        r"was made with warmup 5, a setting that this version of pcer does not have; go on with "
        "the version that began it, or choose another folder"
    )
    with pytest.raises(InputError, match=sentence):
        require_same_settings({**SETTINGS, "warmup": 5}, SETTINGS, added={}, where=tmp_path)
    with pytest.raises(InputError, match="was made with warmup None"):
        require_same_settings({**SETTINGS, "warmup": None}, SETTINGS, added={}, where=tmp_path)


def test_what_was_added_for_others_is_not_asked_of_these(tmp_path):
    require_same_settings(SETTINGS, SETTINGS, added={"dropout": 0.0}, where=tmp_path)


def left(folder):
    """Seeds of the blocks that count."""
    return sorted(block.keys[0][1] for block in finished_blocks(folder))


@pytest.mark.parametrize("text", [None, "[]", "", "\0\0\0", '{"epochs": 3'])
def test_where_the_settings_are_lost_the_blocks_decide(tmp_path, text):
    """Also against the settings that are asked for."""
    keep(tmp_path, SETTINGS)
    save(tmp_path, SETTINGS, seed=0)
    save(tmp_path, {**SETTINGS, "epochs": 25}, seed=1)
    path = tmp_path / "settings.json"
    path.unlink() if text is None else path.write_text(text)
    (sentence,) = keep(tmp_path, SETTINGS)
    assert "(made with other settings)" in sentence
    assert left(tmp_path) == [0]
    assert json.loads(path.read_text()) == SETTINGS
    assert keep(tmp_path, SETTINGS) == []


def test_a_damaged_settings_file_does_not_speak_against_sealed_blocks(tmp_path):
    keep(tmp_path, SETTINGS)
    path = tmp_path / "settings.json"
    path.write_text(path.read_text().replace('"epochs": 3', '"epochs": 7'))
    with pytest.raises(InputError, match="was made with epochs 7, but 3 is asked for"):
        keep(tmp_path, SETTINGS)
    save(tmp_path, SETTINGS)
    assert keep(tmp_path, SETTINGS) == []
    assert left(tmp_path) == [0]
    assert json.loads(path.read_text()) == SETTINGS


def test_the_settings_are_written_when_the_blocks_are_checked_and_not_before(tmp_path, monkeypatch):
    """Killed between the two, a folder must not vouch for blocks that nobody checked."""

    def killed(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(settings_module, "check_blocks", killed)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path, SETTINGS)
    assert list(tmp_path.iterdir()) == []


def test_a_digest_is_the_same_after_an_upgrade_that_changed_nothing(tmp_path):
    added = {"dropout": 0.0}
    save(tmp_path, SETTINGS)
    assert keep(tmp_path, {**SETTINGS, "dropout": 0.0}, added) == []
    assert left(tmp_path) == [0]
    later = settings_digest({**SETTINGS, "dropout": 0.5}, added=added)
    assert later != settings_digest(SETTINGS, added=added)


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_the_settings_are_for_their_owner(tmp_path):
    keep(tmp_path, SETTINGS)
    assert (tmp_path / "settings.json").stat().st_mode & 0o777 == 0o600
