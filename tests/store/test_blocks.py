"""Blocks on disk: whole or absent, and read back as they were written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pcer.errors import InputError, OutputError
from pcer.store import blocks, finished_blocks, load_block, save_array, save_block

KEYS = [("1.0", 0), ("inf", 7)]
VALUES = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.25]], dtype=np.float32)


def test_a_block_is_read_as_it_was_written(tmp_path):
    save_block(tmp_path, KEYS, VALUES)
    ((keys, path),) = finished_blocks(tmp_path)
    assert keys == KEYS
    assert np.array_equal(load_block(path, 2, 3), VALUES)


def test_other_rows_are_another_block_and_the_same_rows_are_the_same(tmp_path):
    save_block(tmp_path, KEYS, VALUES)
    save_block(tmp_path, KEYS, VALUES + 1)
    save_block(tmp_path, KEYS[:1], VALUES[:1])
    found = {
        tuple(keys): load_block(path, len(keys), 3) for keys, path in finished_blocks(tmp_path)
    }
    assert set(found) == {tuple(KEYS), tuple(KEYS[:1])}
    assert np.array_equal(found[tuple(KEYS)], VALUES + 1)


def test_an_array_without_its_names_does_not_count(tmp_path, monkeypatch):
    def killed(texts):
        raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "write_files", killed)
    with pytest.raises(KeyboardInterrupt):
        save_block(tmp_path, KEYS, VALUES)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]
    assert list(finished_blocks(tmp_path)) == []


def test_a_damaged_or_foreign_array_is_refused(tmp_path):
    save_block(tmp_path, KEYS, VALUES)
    ((_, path),) = finished_blocks(tmp_path)
    for shape in ((2, 4), (3, 3)):
        with pytest.raises(InputError, match=r"must hold \d rows of \d numbers .* \(2, 3\)"):
            load_block(path, *shape)
    save_array(path, VALUES.astype(np.float64))
    with pytest.raises(InputError, match=r"float64.*; remove its folder and run again"):
        load_block(path, 2, 3)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="cannot be read; remove its folder and run again"):
        load_block(path, 2, 3)
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")  # a pickle is never loaded
    with pytest.raises(InputError, match="cannot be read"):
        load_block(path, 2, 3)


@pytest.mark.parametrize("text", ["[]", "{}", '{"models": 3}', '{"models": [["1.0"]]}'])
def test_names_that_cannot_be_read_are_refused(tmp_path, text):
    (tmp_path / "block-0.json").write_text(text)
    with pytest.raises(InputError, match=r"block-0\.json does not name the rows of a block; rem"):
        list(finished_blocks(tmp_path))


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OutputError, match=r"gone/a\.npy cannot be written \(No such file"):
        save_array(tmp_path / "gone" / "a.npy", VALUES)
    assert list(tmp_path.iterdir()) == []


def test_the_files_are_plain(tmp_path):
    """What is on disk is a contract with folders that an older version began."""
    save_block(tmp_path, KEYS, VALUES)
    (names,) = tmp_path.glob("*.json")
    assert json.loads(names.read_text())["models"] == [["1.0", 0], ["inf", 7]]
    assert np.array_equal(np.load(names.with_suffix(".npy"), allow_pickle=False), VALUES)
