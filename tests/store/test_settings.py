"""The settings of a folder: the same again, or a sentence; also after an upgrade."""

from __future__ import annotations

import json

import pytest

from pcer.errors import InputError
from pcer.store import keep_settings, require_same_settings

SETTINGS = {"epochs": 3, "hidden": [4, 2], "digest": None}


def test_a_new_folder_keeps_its_settings_and_takes_only_these(tmp_path):
    keep_settings(tmp_path, SETTINGS, added={})
    assert json.loads((tmp_path / "settings.json").read_text()) == SETTINGS
    keep_settings(tmp_path, SETTINGS, added={})
    with pytest.raises(InputError, match="was made with epochs 3, but 4 is asked for; choose"):
        keep_settings(tmp_path, {**SETTINGS, "epochs": 4}, added={})
    assert json.loads((tmp_path / "settings.json").read_text()) == SETTINGS


def test_a_setting_that_is_younger_than_the_folder_stands_for_what_was_done_before(tmp_path):
    keep_settings(tmp_path, SETTINGS, added={})
    added = {"dropout": 0.0}
    keep_settings(tmp_path, {**SETTINGS, "dropout": 0.0}, added=added)
    with pytest.raises(InputError, match=r"was made with dropout 0\.0, but 0\.5 is asked for"):
        keep_settings(tmp_path, {**SETTINGS, "dropout": 0.5}, added=added)
    with pytest.raises(InputError, match=r"does not say with which dropout it was made, and 0\.0"):
        keep_settings(tmp_path, {**SETTINGS, "dropout": 0.0}, added={})


def test_a_folder_that_says_so_itself_is_believed(tmp_path):
    keep_settings(tmp_path, {**SETTINGS, "dropout": 0.5}, added={"dropout": 0.0})
    keep_settings(tmp_path, {**SETTINGS, "dropout": 0.5}, added={"dropout": 0.0})


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


def test_a_file_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text("[]")
    with pytest.raises(InputError, match=r"settings\.json must be an object; remove its folder"):
        keep_settings(tmp_path, SETTINGS, added={})
