"""Blocks on disk: whole or absent, and read back as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pcer.errors import InputError, OutputError
from pcer.store import blocks, finished_blocks, load_block, save_array, save_block

KEYS = [("1.0", 0), ("inf", 7)]
VALUES = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.25]], dtype=np.float32)
MADE_WITH = {"numpy": "2.4.0", "torch": "2.13.0"}


def save(folder: Path, keys: list[tuple[str, int]], values: np.ndarray) -> None:
    save_block(folder, keys, values, made_with=MADE_WITH)


def test_a_block_is_read_as_it_was_written(tmp_path):
    save(tmp_path, KEYS, VALUES)
    (block,) = finished_blocks(tmp_path)
    assert block.keys == KEYS
    assert block.made_with == MADE_WITH
    assert np.array_equal(load_block(block, 3), VALUES)


def test_other_rows_are_another_block_and_the_same_rows_are_the_same(tmp_path):
    save(tmp_path, KEYS, VALUES)
    save(tmp_path, KEYS, VALUES + 1)
    save(tmp_path, KEYS[:1], VALUES[:1])
    found = {tuple(block.keys): load_block(block, 3) for block in finished_blocks(tmp_path)}
    assert set(found) == {tuple(KEYS), tuple(KEYS[:1])}
    assert np.array_equal(found[tuple(KEYS)], VALUES + 1)


def test_an_array_without_its_names_does_not_count(tmp_path, monkeypatch):
    def killed(texts):
        raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "write_files", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, KEYS, VALUES)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]
    assert list(finished_blocks(tmp_path)) == []


def test_a_damaged_or_foreign_array_is_refused(tmp_path):
    save(tmp_path, KEYS, VALUES)
    (block,) = finished_blocks(tmp_path)
    path, more = block.array, block._replace(keys=[*KEYS, ("2.0", 0)])
    for other, n_columns in ((block, 4), (more, 3)):
        with pytest.raises(InputError, match=r"must hold \d rows of \d numbers .* \(2, 3\)"):
            load_block(other, n_columns)
    save_array(path, VALUES.astype(np.float64))
    with pytest.raises(InputError, match=r"float64.*; remove its folder and run again"):
        load_block(block, 3)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="cannot be read; remove its folder and run again"):
        load_block(block, 3)
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")  # a pickle is never loaded
    with pytest.raises(InputError, match="cannot be read"):
        load_block(block, 3)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"models": 3}', '{"models": [["1.0"]]}', '{"models": [], "made_with": [1]}'],
)
def test_names_that_cannot_be_read_are_refused(tmp_path, text):
    (tmp_path / "block-0.json").write_text(text)
    with pytest.raises(InputError, match=r"block-0\.json does not name the rows of a block; rem"):
        list(finished_blocks(tmp_path))


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OutputError, match=r"gone/a\.npy cannot be written \(No such file"):
        save_array(tmp_path / "gone" / "a.npy", VALUES)
    assert list(tmp_path.iterdir()) == []


def test_a_block_from_before_versions_were_noted_is_read(tmp_path):
    save_array(tmp_path / "block-0.npy", VALUES)
    (tmp_path / "block-0.json").write_text('{"models": [["1.0", 0], ["inf", 7]]}')
    (block,) = finished_blocks(tmp_path)
    assert block.made_with is None
    assert np.array_equal(load_block(block, 3), VALUES)


def test_the_files_are_plain(tmp_path):
    """What is on disk is a contract with folders that an older version began."""
    save(tmp_path, KEYS, VALUES)
    (names,) = tmp_path.glob("*.json")
    record = {"models": [["1.0", 0], ["inf", 7]], "made_with": MADE_WITH}
    assert json.loads(names.read_text()) == record
    assert np.array_equal(np.load(names.with_suffix(".npy"), allow_pickle=False), VALUES)
