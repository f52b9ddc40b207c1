"""Blocks on disk: whole or absent, and read back as they were written."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from pcer.errors import InputError, OutputError
from pcer.store import (
    blocks,
    file_digest,
    finished_blocks,
    load_block,
    load_second,
    save_array,
    save_block,
)
from pcer.store.blocks import check_blocks, has_block_of

KEYS = [("1.0", 0), ("inf", 7)]
VALUES = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.25]], dtype=np.float32)
MADE_WITH = {"numpy": "2.4.0", "torch": "2.13.0"}
OURS, OTHERS = "a" * 64, "b" * 64
"""Digests of settings."""


def save(
    folder: Path, keys: list[tuple[str, int]], values: np.ndarray, settings: str = OURS
) -> None:
    save_block(folder, keys, values, made_with=MADE_WITH, settings=settings)


def check(folder: Path, *, has_settings: bool = True) -> list[str]:
    return check_blocks(folder, settings=OURS, has_settings=has_settings, n_columns=3)


def write_unsealed(folder: Path) -> None:
    """A block as it was written before blocks were sealed."""
    np.save(folder / "block-0.npy", VALUES)
    (folder / "block-0.json").write_text('{"models": [["1.0", 0], ["inf", 7]]}')


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
    def killed(texts, **how):
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
    unsealed = block._replace(array_digest=None)
    save_array(path, VALUES.astype(np.float64))
    with pytest.raises(InputError, match=r"float64.*; run again, and it is made anew"):
        load_block(unsealed, 3)
    with pytest.raises(InputError, match="is not as it was written; run again, and it is made"):
        load_block(block, 3)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="cannot be read; run again, and it is made anew"):
        load_block(unsealed, 3)
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")  # a pickle is never loaded
    with pytest.raises(InputError, match="cannot be read"):
        load_block(unsealed, 3)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_every_single_flipped_bit_is_found(tmp_path, suffix):
    """All bits of the record, and as many of the array: header, numbers, versions, digests."""
    save(tmp_path, KEYS, VALUES)
    (path,) = tmp_path.glob(f"block-*{suffix}")
    content = path.read_bytes()
    (block,) = finished_blocks(tmp_path)
    for bit in range(8 * len(content)):
        path.write_bytes(flipped(content, bit))
        assert blocks._fault(path.with_suffix(".json"), OURS, True, (3, None)) is not None, bit
    path.write_bytes(content)
    assert list(finished_blocks(tmp_path)) == [block]
    assert check(tmp_path) == []


PEOPLE = np.array([[1.5, 0.25], [np.inf, np.inf]], dtype=np.float32)


def save_both(folder: Path) -> None:
    save_block(folder, KEYS, VALUES, made_with=MADE_WITH, settings=OURS, second=PEOPLE)


def check_both(folder: Path) -> list[str]:
    return check_blocks(folder, settings=OURS, has_settings=True, n_columns=3, n_second=2)


def test_a_second_array_is_read_as_it_was_written_and_nobody_elses(tmp_path):
    save_both(tmp_path)
    (block,) = finished_blocks(tmp_path)
    assert np.array_equal(load_block(block, 3), VALUES)
    assert load_second(block, 2).tobytes() == PEOPLE.tobytes()
    assert block.second.stat().st_mode & 0o777 == 0o600
    assert block.second_digest == file_digest(block.second)
    assert check_both(tmp_path) == []
    assert check(tmp_path) == []  # who needs none may find one


def test_every_flipped_bit_of_a_second_array_is_found(tmp_path):
    save_both(tmp_path)
    (block,) = finished_blocks(tmp_path)
    content = block.second.read_bytes()
    for bit in range(8 * len(content)):
        block.second.write_bytes(flipped(content, bit))
        fault = blocks._fault(block.array.with_suffix(".json"), OURS, True, (3, 2))
        assert fault is not None, bit
    assert "(damaged)" in check_both(tmp_path)[0]
    assert list(tmp_path.iterdir()) == []


def test_a_block_whose_second_array_is_lost_or_was_never_made_does_not_count(tmp_path):
    save_both(tmp_path)
    (block,) = finished_blocks(tmp_path)
    block.second.unlink()
    with pytest.raises(InputError, match=r"second\.npy is not as it was written; run again"):
        load_second(block, 2)
    assert "(damaged)" in check_both(tmp_path)[0]
    save(tmp_path, KEYS, VALUES)
    (block,) = finished_blocks(tmp_path)
    with pytest.raises(InputError, match="has no second array beside it; run again"):
        load_second(block, 2)
    assert "(damaged)" in check_both(tmp_path)[0]
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_does_not_count_is_removed_and_told(tmp_path):
    for seed in range(4):
        save(tmp_path, [("1.0", seed)], VALUES[:1] + seed, OTHERS if seed == 3 else OURS)
    found = {block.keys[0][1]: block.array for block in finished_blocks(tmp_path)}
    first, second = found[0].read_bytes(), found[1].read_bytes()
    found[0].write_bytes(second)
    found[1].write_bytes(first)
    (sentence,) = check(tmp_path)
    assert sentence.startswith(f"{tmp_path}: what these blocks held is made again, as they are not")
    assert sentence.count("(damaged)") == 2
    assert f"{found[3].stem} (made with other settings)" in sentence
    assert [block.keys for block in finished_blocks(tmp_path)] == [[("1.0", 2)]]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".npy"]
    assert check(tmp_path) == []


def test_a_sentence_names_few_of_many_blocks(tmp_path):
    for seed in range(5):
        save(tmp_path, [("1.0", seed)], VALUES[:1], OTHERS)
    (sentence,) = check(tmp_path)
    assert sentence.count("made with other settings") == 3
    assert sentence.endswith(" and 2 more.")


def test_a_block_without_its_array_does_not_count(tmp_path):
    save(tmp_path, KEYS, VALUES)
    for path in tmp_path.glob("*.npy"):
        path.unlink()
    assert "(damaged)" in check(tmp_path)[0]
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_of_an_array_is_swept_up(tmp_path):
    (tmp_path / ".block-0.npy.77.tmp").write_bytes(b"half")
    (tmp_path / ".block-0.77.tmp").write_bytes(b"as older versions named it")
    assert check(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_unsealed_block_is_taken_once_told_and_sealed(tmp_path):
    write_unsealed(tmp_path)
    assert check(tmp_path) == [
        f"{tmp_path}: 1 block is from before blocks carried digests, and taken as found; from now "
        "on a change is noticed."
    ]
    (block,) = finished_blocks(tmp_path)
    assert block.settings == OURS
    assert block.made_with is None
    assert block.array_digest == file_digest(block.array)
    assert check(tmp_path) == []
    block.array.write_bytes(flipped(block.array.read_bytes(), 1100))
    assert "block-0 (damaged)" in check(tmp_path)[0]


def test_an_unsealed_block_whose_settings_are_lost_does_not_count(tmp_path):
    write_unsealed(tmp_path)
    (sentence,) = check(tmp_path, has_settings=False)
    assert "block-0 (made with settings that are lost)" in sentence
    assert list(tmp_path.iterdir()) == []


def test_only_a_sealed_record_vouches_for_settings(tmp_path):
    assert not has_block_of(tmp_path, OURS)
    save(tmp_path, KEYS, VALUES, OTHERS)
    assert has_block_of(tmp_path, OTHERS)
    assert not has_block_of(tmp_path, OURS)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace(OTHERS, OURS))
    assert not has_block_of(tmp_path, OURS)


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_nobody_else_can_read_a_block_not_even_while_it_is_written(tmp_path, monkeypatch):
    modes, replace = [], Path.replace

    def watched(path, target):
        modes.append(path.stat().st_mode & 0o777)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    before = os.umask(0)
    try:
        save(tmp_path, KEYS, VALUES)
    finally:
        os.umask(before)
    assert modes == [0o600]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"models": 3}', '{"models": [["1.0"]]}', '{"models": [], "made_with": [1]}'],
)
def test_names_that_cannot_be_read_are_refused(tmp_path, text):
    (tmp_path / "block-0.json").write_text(text)
    with pytest.raises(InputError, match=r"block-0\.json does not name the rows of a block; run"):
        list(finished_blocks(tmp_path))


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(OutputError, match=r"gone/a\.npy cannot be written \(No such file"):
        save_array(tmp_path / "gone" / "a.npy", VALUES)
    assert list(tmp_path.iterdir()) == []


def test_an_array_that_is_stopped_amid_its_writing_leaves_nothing(tmp_path, monkeypatch):
    def stopped(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        save_array(tmp_path / "a.npy", VALUES)
    assert list(tmp_path.iterdir()) == []


def test_a_block_from_before_versions_were_noted_is_read(tmp_path):
    write_unsealed(tmp_path)
    (block,) = finished_blocks(tmp_path)
    assert block.made_with is None
    assert np.array_equal(load_block(block, 3), VALUES)


def test_the_files_are_plain(tmp_path):
    """What is on disk is a contract with folders that an older version began."""
    save(tmp_path, KEYS, VALUES)
    (names,) = tmp_path.glob("*.json")
    record = json.loads(names.read_text())
    digest = record.pop("sha256")
    assert record == {
        "models": [["1.0", 0], ["inf", 7]],
        "made_with": MADE_WITH,
        "settings": OURS,
        "array_sha256": hashlib.sha256(names.with_suffix(".npy").read_bytes()).hexdigest(),
    }
    text = json.dumps(record, sort_keys=True)
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    assert np.array_equal(np.load(names.with_suffix(".npy"), allow_pickle=False), VALUES)
