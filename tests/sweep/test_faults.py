"""What a disk, a copy or a hand does to a sweep's folder: found, trained again, the same bytes."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from pcer.errors import InputError
from pcer.sweep import run_sweep
from tests.sweep.test_run import CONFIG, FLAGS, contents, tiny


@pytest.fixture
def folder(kept, tmp_path) -> Path:
    """The same sweep, killed before its releases were written."""
    shutil.copytree(kept, tmp_path / "out", ignore=shutil.ignore_patterns("*.release.json"))
    return tmp_path / "out"


def resume(folder: Path, whole: dict[str, bytes]) -> tuple[int, list[str]]:
    """Run the sweep again to the bytes it must have; gives what it found trained, and its notes."""
    done: list[int] = []
    notes: list[str] = []
    run_sweep(
        tiny(), folder, flags=FLAGS, on_progress=lambda n, _: done.append(n), on_note=notes.append
    )
    assert contents(folder) == whole
    return done[0], notes


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted((folder / "tiny.scores").glob(f"block-*{suffix}"))


def flip(path: Path, place: float) -> None:
    """One bit, at a share of the file."""
    content = bytearray(path.read_bytes())
    bit = int(place * 8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.mark.parametrize(("suffix", "place"), [(".npy", 0.9), (".json", 0.5)])
def test_a_damaged_block_is_found_and_trained_again(folder, whole, suffix, place):
    path = files(folder, suffix)[1]
    flip(path, place)
    n_trained, (note,) = resume(folder, whole)
    assert n_trained in (5, 6)  # blocks of 3, 3 and 2 models
    assert f"{path.stem} (damaged)" in note


def test_lost_settings_let_25_epochs_not_pass_for_1(tmp_path, whole):
    longer = dataclasses.replace(CONFIG, epochs=25)
    run_sweep(tiny(config=longer), tmp_path, flags=FLAGS, keep_scores=True)
    for path in (*tmp_path.glob("*.release.json"), tmp_path / "tiny.scores" / "settings.json"):
        path.unlink()
    n_trained, (note,) = resume(tmp_path, whole)
    assert n_trained == 0
    assert note.count("(made with other settings)") == 3


def test_a_block_that_is_damaged_while_others_train_is_not_read(folder):
    """After the check at the start: the sweep ends in a sentence, and the next one heals it."""

    def damage(done: int, total: int) -> None:
        flip(files(folder, ".npy")[0], 0.5)

    with pytest.raises(InputError, match="is not as it was written; run again, and it is made"):
        run_sweep(tiny(), folder, flags=FLAGS, on_progress=damage)
    assert not list(folder.glob("*.release.json"))


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_scores_are_for_their_owner_and_releases_for_all(folder):
    work, before = folder / "tiny.scores", os.umask(0o022)
    work.chmod(0o755)
    try:
        paths = run_sweep(tiny(), folder, flags=FLAGS, keep_scores=True)
    finally:
        os.umask(before)
    assert work.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in paths.values()} == {0o644}
