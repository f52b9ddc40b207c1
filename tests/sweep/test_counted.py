"""Sweeps that count what each person spends: the same bytes however interrupted."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pcer.errors import InputError
from pcer.sweep.run import Sweep, run_sweep
from pcer.train import Predictions
from tests.sweep.test_run import CONFIG, FLAGS, KILLER, tiny

N_TRAIN = 211


def counted(mode: str = "held") -> Sweep:
    config = dataclasses.replace(CONFIG, epochs=2, receipts=mode)
    return tiny(config=config)


def run(sweep: Sweep, folder: Path, told: list[str] | None = None) -> tuple[dict, bytes]:
    """The releases, and the receipts as bytes."""
    seen: list[Predictions] = []
    note = (lambda sentence: None) if told is None else told.append
    paths = run_sweep(sweep, folder, flags=FLAGS, on_scores=seen.append, on_note=note)
    receipts = seen[0].receipts
    assert receipts is not None
    assert receipts.shape == (2, 4, N_TRAIN)
    assert np.isinf(receipts[1]).all()  # without privacy
    assert np.isfinite(receipts[0]).all()
    return {name: path.read_bytes() for name, path in paths.items()}, receipts.tobytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[dict, bytes]:
    return run(counted(), tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(("stage", "block"), [("after", 1), ("between", 2), ("release", 0)])
def test_a_killed_sweep_resumes_to_the_same_receipts(tmp_path, whole, stage, block):
    script, folder = tmp_path / "killer.py", tmp_path / "out"
    ours = "from tests.sweep.test_counted import counted\n"
    script.write_text(ours + KILLER.replace("tiny()", "counted()"))
    killed = subprocess.run(
        [sys.executable, script, stage, str(block), folder],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not list(folder.glob("*.release.json"))
    told: list[str] = []
    assert run(counted(), folder, told) == whole
    assert told == []


@pytest.mark.parametrize("damage", ["flip", "lose"])
def test_receipts_that_were_damaged_are_made_again(tmp_path, whole, damage):
    run_sweep(counted(), tmp_path, flags=FLAGS, keep_scores=True)
    for path in tmp_path.glob("*.release.json"):
        path.unlink()
    path = sorted((tmp_path / "tiny.scores").glob("block-*.second.npy"))[0]
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content) if damage == "flip" else path.unlink()
    told: list[str] = []
    assert run(counted(), tmp_path, told) == whole
    assert "(damaged)" in told[0]


def test_what_is_kept_of_a_model_is_four_bytes_a_record(tmp_path):
    run_sweep(counted(), tmp_path, flags=FLAGS, keep_scores=True)
    for path in (tmp_path / "tiny.scores").glob("block-*.second.npy"):
        found = np.load(path, allow_pickle=False)
        assert found.nbytes == 4 * N_TRAIN * len(found)


def test_a_sweep_that_counts_otherwise_is_another_sweep(tmp_path):
    run_sweep(counted(), tmp_path, flags=FLAGS, keep_scores=True)
    with pytest.raises(InputError, match="was made with rule 'held', but 'dp-sgd' is asked"):
        run_sweep(counted("refreshed"), tmp_path, flags=FLAGS)
