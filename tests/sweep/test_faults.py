"""What a disk, a copy or a hand does to a sweep's folder: found, trained again, the same bytes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pcer.errors import InputError
from pcer.sweep.run import run_sweep
from pcer.train import Accountant, TrainConfig
from tests.sweep.test_run import FLAGS, tiny

PAGE = 512
"""Bytes that a disk loses at a time."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A finished sweep with its three blocks; copy it before you damage it."""
    folder = tmp_path_factory.mktemp("kept")
    run_sweep(tiny(), folder, flags=FLAGS, keep_scores=True)
    return folder


@pytest.fixture(scope="module")
def whole(kept) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in kept.glob("*.release.json")}


@pytest.fixture
def folder(kept, tmp_path) -> Path:
    """The same sweep, killed before its releases were written."""
    shutil.copytree(kept, tmp_path / "out")
    for path in (tmp_path / "out").glob("*.release.json"):
        path.unlink()
    return tmp_path / "out"


def resume(folder: Path, whole: dict[str, bytes]) -> tuple[int, list[str]]:
    """Run the sweep again to the bytes it must have; gives what it found trained, and told."""
    done: list[int] = []
    told: list[str] = []
    paths = run_sweep(
        tiny(), folder, flags=FLAGS, on_progress=lambda n, _: done.append(n), on_note=told.append
    )
    assert {path.name: path.read_bytes() for path in paths.values()} == whole
    return done[0], told


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted((folder / "tiny.scores").glob(f"block-*{suffix}"))


def flip(path: Path, place: float) -> None:
    """One bit, at a share of the file."""
    content = bytearray(path.read_bytes())
    bit = int(place * 8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def zero(path: Path, place: float) -> None:
    """A page of the file."""
    content = bytearray(path.read_bytes())
    start = int(place * len(content)) // PAGE * PAGE
    end = min(start + PAGE, len(content))
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def truncate(path: Path, place: float) -> None:
    path.write_bytes(path.read_bytes()[: int(place * path.stat().st_size)])


PLACES = {
    "npy": [(damage, ".npy", k / 7) for damage in (flip, zero) for k in range(7)],
    "json": [(flip, ".json", k / 7) for k in range(7)],
    "cut": [(truncate, suffix, 0.6) for suffix in (".npy", ".json")],
}


@pytest.mark.parametrize(
    ("damage", "suffix", "place"), [case for cases in PLACES.values() for case in cases]
)
def test_a_damaged_block_is_found_and_trained_again(folder, whole, damage, suffix, place):
    path = files(folder, suffix)[1]
    damage(path, place)
    found, told = resume(folder, whole)
    assert found in (5, 6)  # blocks of 3, 3 and 2 models
    assert len(told) == 1
    assert f"{path.stem} (damaged)" in told[0]


def test_a_sweep_that_nothing_happened_to_tells_nothing(folder, whole):
    assert resume(folder, whole) == (8, [])


def test_swapped_arrays_are_found(folder, whole):
    first, second, _ = files(folder, ".npy")
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    found, (told,) = resume(folder, whole)
    assert found in (2, 3)
    assert told.count("(damaged)") == 2


def test_a_block_of_another_sweep_is_found(folder, whole, tmp_path):
    """With its record, as a copy into the wrong folder brings it."""
    other = tiny(secret=b"0123456789abcdef")
    run_sweep(other, tmp_path / "other", flags=FLAGS, keep_scores=True)
    mine, foreign = files(folder, ".npy")[0], files(tmp_path / "other", ".npy")[0]
    assert mine.name == foreign.name
    assert mine.read_bytes() != foreign.read_bytes()
    for suffix in (".npy", ".json"):
        shutil.copy(foreign.with_suffix(suffix), mine.with_suffix(suffix))
    found, (told,) = resume(folder, whole)
    assert found < 8
    assert f"{mine.stem} (made with other settings)" in told


def longer() -> TrainConfig:
    return TrainConfig(epochs=25, expected_batch=50, hidden=(4,), accountant=Accountant.RDP)


def lose(path: Path) -> None:
    path.unlink()


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("lost", [lose, blank])
def test_lost_settings_let_25_epochs_not_pass_for_1(tmp_path, whole, lost):
    run_sweep(tiny(config=longer()), tmp_path, flags=FLAGS, keep_scores=True)
    for path in tmp_path.glob("*.release.json"):
        path.unlink()
    lost(tmp_path / "tiny.scores" / "settings.json")
    found, (told,) = resume(tmp_path, whole)
    assert found == 0
    assert told.count("(made with other settings)") == 3


@pytest.mark.parametrize("lost", [lose, blank])
def test_lost_settings_cost_no_block_that_is_sound(folder, whole, lost):
    lost(folder / "tiny.scores" / "settings.json")
    assert resume(folder, whole) == (8, [])


def test_old_blocks_are_taken_once_told_and_sealed(folder, whole):
    for path in files(folder, ".json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({name: record[name] for name in ("models", "made_with")}))
    told: list[str] = []
    run_sweep(tiny(), folder, flags=FLAGS, keep_scores=True, on_note=told.append)
    assert len(told) == 1
    assert "3 blocks are from before blocks carried digests, and taken as found" in told[0]
    flip(files(folder, ".npy")[0], 0.5)
    for path in folder.glob("*.release.json"):
        path.unlink()
    _, (again,) = resume(folder, whole)
    assert "(damaged)" in again


def test_a_block_that_is_damaged_while_others_train_is_not_read(folder):
    """After the check at the start: the sweep ends in a sentence, and the next one heals it."""

    def damage(done: int, total: int) -> None:
        flip(files(folder, ".npy")[0], 0.5)

    with pytest.raises(InputError, match="is not as it was written; run again, and it is made"):
        run_sweep(tiny(), folder, flags=FLAGS, on_progress=damage)
    assert not list(folder.glob("*.release.json"))


MODES: dict[str, Callable[[Path], int]] = {
    "folder": lambda work: work.stat().st_mode & 0o777,
    "files": lambda work: max(path.stat().st_mode & 0o777 for path in work.iterdir()),
}


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_scores_are_for_their_owner_and_releases_for_all(tmp_path):
    before = os.umask(0o022)
    try:
        paths = run_sweep(tiny(), tmp_path, flags=FLAGS, keep_scores=True)
        work = tmp_path / "tiny.scores"
        assert {name: mode(work) for name, mode in MODES.items()} == {
            "folder": 0o700,
            "files": 0o600,
        }
        assert {path.stat().st_mode & 0o777 for path in paths.values()} == {0o644}
        for path in (work, *work.iterdir()):
            path.chmod(0o755)
        run_sweep(tiny(), tmp_path, flags=FLAGS, keep_scores=True)
        assert MODES["folder"](work) == 0o700
        assert MODES["files"](work) == 0o600
    finally:
        os.umask(before)
    assert np.load(work / "membership.npy", allow_pickle=False).shape == (4, 300)
