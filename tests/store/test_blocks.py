"""Blocks on disk: whole or absent, of the settings asked for, in an owned folder."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pcer.errors import InputError, OutputError
from pcer.store import blocks

KEYS = [("1.0", 0), ("inf", 7)]
VALUES = np.array([[0.5, -1.0, 2.0], [3.0, 0.0, -0.25]], dtype=np.float32)
PEOPLE = np.array([[1.5, 0.25], [np.inf, np.inf]], dtype=np.float32)
MADE_WITH = {"numpy": "2.4.0", "torch": "2.13.0"}
SETTINGS = {"epochs": 3, "hidden": [4, 2], "digest": None}
OTHERS = {**SETTINGS, "epochs": 25}


def save(
    folder: Path, keys=KEYS, values=VALUES, settings=SETTINGS, second=None
) -> None:
    digest = blocks.record_digest(settings)
    blocks.save_block(
        folder, keys, values, made_with=MADE_WITH, settings=digest, second=second
    )


def resume(folder: Path, settings=SETTINGS, n_second=None) -> list[str]:
    return blocks.resume_folder(folder, settings, n_columns=3, n_second=n_second)


def seeds(folder: Path) -> list[int]:
    found = []
    for block in blocks.finished_blocks(folder):
        found += [seed for _, seed in block.keys]
    return sorted(found)


def test_a_folder_that_is_a_link_is_refused_and_left_as_it_is(tmp_path):
    (other := tmp_path / "other").mkdir(mode=0o755)
    (link := tmp_path / "link").symlink_to(other)
    with pytest.raises(OutputError, match="is a link"):
        blocks.make_private(link)
    assert other.stat().st_mode & 0o777 == 0o755


def test_a_block_is_read_as_it_was_written_and_replaced_by_the_same_rows(tmp_path):
    """What is on disk is a contract with folders that an older version began."""
    save(tmp_path, second=PEOPLE)
    (block,) = blocks.finished_blocks(tmp_path)
    assert (block.keys, block.made_with) == (KEYS, MADE_WITH)
    assert np.array_equal(blocks.load_block(block, 3), VALUES)
    (names,) = tmp_path.glob("*.json")
    record = json.loads(names.read_text())
    digest = record.pop("sha256")
    both = {
        "array": names.with_suffix(".npy"),
        "second": names.with_suffix(".second.npy"),
    }
    assert record == {
        "models": [["1.0", 0], ["inf", 7]],
        "made_with": MADE_WITH,
        "settings": blocks.record_digest(SETTINGS),
        **{
            f"{k}_sha256": hashlib.sha256(p.read_bytes()).hexdigest()
            for k, p in both.items()
        },
    }
    assert (
        digest
        == hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    )
    assert np.array_equal(np.load(both["array"], allow_pickle=False), VALUES)
    assert np.load(both["second"], allow_pickle=False).tobytes() == PEOPLE.tobytes()
    save(tmp_path, values=VALUES + 1)
    save(tmp_path, KEYS[:1], VALUES[:1])
    found = {
        tuple(block.keys): blocks.load_block(block, 3)
        for block in blocks.finished_blocks(tmp_path)
    }
    assert set(found) == {tuple(KEYS), tuple(KEYS[:1])}
    assert np.array_equal(found[tuple(KEYS)], VALUES + 1)


def stop(*arguments, **more):
    raise KeyboardInterrupt


def test_an_array_without_its_names_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "canonical_json", stop)  # of the names
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]
    assert list(blocks.finished_blocks(tmp_path)) == []


@pytest.mark.parametrize("suffix", [".npy", ".json", ".second.npy"])
def test_every_single_flipped_bit_is_found(tmp_path, suffix):
    """Every 7th bit of the record and both arrays: header, numbers, digests."""
    save(tmp_path, second=PEOPLE)
    path = next(tmp_path.glob("*.json")).with_suffix(suffix)
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 7):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(InputError):
            [
                (blocks.load_block(b, 3), blocks.load_block(b, 2, is_second=True))
                for b in blocks.finished_blocks(tmp_path)
            ]
    assert "(damaged)" in resume(tmp_path, n_second=2)[0]
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_an_array_of_another_shape_or_kind_is_refused(tmp_path):
    save(tmp_path)
    (block,) = blocks.finished_blocks(tmp_path)
    for other, n_columns in ((block, 4), (block._replace(keys=[*KEYS, ("2.0", 0)]), 3)):
        with pytest.raises(
            InputError, match=r"must hold \d rows of \d numbers .* \(2, 3\)"
        ):
            blocks.load_block(other, n_columns)
    digest = blocks.save_array(block.array, VALUES.astype(np.float64))
    with pytest.raises(InputError, match=r"float64.*; run again to make it again"):
        blocks.load_block(block._replace(array_digest=digest), 3)
    pickle = b"cos\nsystem\n(S'true'\ntR."  # never loaded
    block.array.write_bytes(pickle)
    with pytest.raises(InputError):
        blocks.load_block(
            block._replace(array_digest=hashlib.sha256(pickle).hexdigest()), 3
        )


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"models": 3}', '{"models": [["1.0", 0]]}']
)
def test_a_record_of_another_form_does_not_count(tmp_path, text):
    """Also one from before records carried digests."""
    (tmp_path / "block-0.json").write_text(text)
    np.save(tmp_path / "block-0.npy", VALUES[:1])
    with pytest.raises(
        InputError, match=r"block-0\.json is not as it was written; run again"
    ):
        list(blocks.finished_blocks(tmp_path))
    assert "block-0 (damaged)" in resume(tmp_path)[0]
    assert list(blocks.finished_blocks(tmp_path)) == []


def test_blocks_that_do_not_count_are_removed_and_told(tmp_path):
    """Swapped, lost and missing second arrays, and other settings; a few by name."""
    for seed in range(6):
        save(
            tmp_path,
            [("1.0", seed)],
            VALUES[:1] + seed,
            OTHERS if seed == 3 else SETTINGS,
        )
    arrays = {
        block.keys[0][1]: block.array for block in blocks.finished_blocks(tmp_path)
    }
    contents = [arrays[0].read_bytes(), arrays[1].read_bytes()]
    arrays[0].write_bytes(contents[1])
    arrays[1].write_bytes(contents[0])
    arrays[4].unlink()
    (tmp_path / ".block-0.npy.77").write_bytes(b"what a kill left")
    (sentence,) = resume(tmp_path)
    assert sentence.startswith(f"{tmp_path}: these blocks are made again, as they are")
    assert (
        sentence.count("(damaged)") + sentence.count("(made with other settings)") == 3
    )
    assert sentence.endswith(" and 1 more.")
    assert seeds(tmp_path) == [2, 5]
    assert len(list(tmp_path.iterdir())) == 5
    assert resume(tmp_path) == []
    assert "(damaged)" in resume(tmp_path, n_second=2)[0]
    assert seeds(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_nobody_else_can_read_a_block_not_even_while_it_is_written(
    tmp_path, monkeypatch
):
    modes = []
    replace = os.replace

    def watched(path, target):
        modes.append(Path(path).stat().st_mode & 0o777)
        return replace(path, target)

    monkeypatch.setattr(os, "replace", watched)
    before = os.umask(0)
    try:
        save(tmp_path, second=PEOPLE)
        resume(tmp_path)
    finally:
        os.umask(before)
    assert set(modes) == {0o600}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_what_cannot_be_written_or_is_stopped_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(
        OutputError, match=r"gone/a\.npy cannot be written .* finished blocks are"
    ):
        blocks.save_array(tmp_path / "gone" / "a.npy", VALUES)

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        blocks.save_array(tmp_path / "a.npy", VALUES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", [None, "[]", "", "\0\0\0", '{"epochs": 3', '{"epochs": 7}']
)
def test_where_the_settings_are_lost_or_damaged_the_sealed_blocks_decide(
    tmp_path, text
):
    resume(tmp_path)
    path = tmp_path / "settings.json"
    save(tmp_path)
    save(tmp_path, [("1.0", 1)], VALUES[:1], OTHERS)
    path.unlink() if text is None else path.write_text(text)
    (sentence,) = resume(tmp_path)
    assert "(made with other settings)" in sentence
    assert seeds(tmp_path) == [0, 7]
    assert json.loads(path.read_text()) == SETTINGS


def test_a_setting_that_only_one_version_has_is_refused(tmp_path):
    later = {**SETTINGS, "dropout": 0.0}
    sentence = "was made with dropout"
    resume(tmp_path)
    with pytest.raises(InputError, match=f"{sentence} not given, but 0.0 is asked"):
        resume(tmp_path, later)
    other = tmp_path / "other"
    other.mkdir()
    resume(other, later)
    with pytest.raises(
        InputError, match=rf"{sentence} 0\.0, but this version of pcer has no such"
    ):
        resume(other)


def test_only_a_sealed_record_vouches_for_settings(tmp_path):
    resume(tmp_path, OTHERS)
    save(tmp_path, settings=OTHERS)
    (path,) = tmp_path.glob("block-*.json")
    digests = [blocks.record_digest(one) for one in (OTHERS, SETTINGS)]
    path.write_text(path.read_text().replace(*digests))
    with pytest.raises(InputError, match="was made with epochs 25, but 3 is asked for"):
        resume(tmp_path)


def test_the_settings_are_written_when_the_blocks_are_checked_and_not_before(
    tmp_path, monkeypatch
):
    """Killed between the two, a folder must not vouch for blocks nobody checked."""
    save(tmp_path)
    monkeypatch.setattr(blocks, "load_block", stop)
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path)
    assert not (tmp_path / "settings.json").exists()


OWNER = """
from pathlib import Path
from pcer.store.blocks import owned
with owned(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.readline()
"""


def start(folder: Path, before: str) -> subprocess.Popen[str]:
    """A process that owns a folder until it is told something, or is refused it."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys\n{before}\n{OWNER}", str(folder)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("before", ["", "sys.modules['fcntl'] = None"])
def test_a_second_process_is_refused_until_the_first_is_done_or_killed(
    tmp_path, before
):
    """With the system's locks, and where Python has none."""
    folder = tmp_path / "new" / "folder"
    first = start(folder, before)
    assert first.stdout.readline() == "owned\n", first.communicate()[1]
    said, error = start(folder, before).communicate()
    assert said == ""
    assert f"InputError: {folder} is in use by another process; wait for it" in error
    assert first.communicate("done\n") == ("", "")  # and filelock has nothing to remark
    assert first.returncode == 0
    second = start(folder, before)
    assert second.stdout.readline() == "owned\n", second.communicate()[1]
    second.kill()
    second.communicate()
    assert second.returncode == -signal.SIGKILL
    assert start(folder, before).communicate("done\n") == ("owned\n", "")


def test_an_owner_that_fails_gives_the_folder_back_and_may_remove_it(tmp_path):
    folder = tmp_path / "work"
    with pytest.raises(KeyError), blocks.owned(folder):
        raise KeyError
    with (
        blocks.owned(folder),
        pytest.raises(InputError, match="in use"),
        blocks.owned(folder),
    ):
        pass
    with blocks.owned(folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert list(tmp_path.iterdir()) == []
    with blocks.owned(folder):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    sentence = (
        r"file/below cannot be made \(.*\); choose a folder that you may write to"
    )
    with (
        pytest.raises(OutputError, match=sentence),
        blocks.owned(tmp_path / "file" / "below"),
    ):
        pass


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_nobody_else_can_look_into_the_folder_also_one_that_was_open(
    tmp_path, monkeypatch
):
    folder = tmp_path / "above" / "work"
    mask = os.umask(0o022)
    try:
        with blocks.owned(folder):
            pass
    finally:
        os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o755
    folder.chmod(0o755)
    with blocks.owned(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / ".lock").stat().st_mode & 0o777 == 0o600

    def unknown(*arguments, **more):
        raise PermissionError("no modes here")

    monkeypatch.setattr(Path, "chmod", unknown)
    with blocks.owned(tmp_path):  # a system without modes breaks nothing
        pass
