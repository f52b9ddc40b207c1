"""``pcer release``, killed at any moment: a whole file or none, then the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands import alive, descendants, require_gone

CODES = {signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}


def write_scored(path: Path) -> Path:
    """Predictions of 100,000 people by ten models."""
    rng = np.random.default_rng(3)
    n = 100_000
    columns = {name: rng.integers(0, 2, n) for name in ("y_true", "y_pred")}
    columns["sex"] = rng.choice(["f", "m"], n)
    columns["split"] = np.where(rng.random(n) < 0.7, "train", "test")
    columns["seed"] = np.arange(n) % 10
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def start(table: Path, out: Path) -> subprocess.Popen[bytes]:
    said = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random")
    return subprocess.Popen(
        [sys.executable, "-m", "pcer", "release", str(table), *said, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUTF8": "1"},
    )


def whole(table: Path, out: Path) -> dict[str, bytes]:
    running = start(table, out)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    return {path.name: path.read_bytes() for path in out.glob("*.release.json")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("number", CODES)
def test_a_killed_release_leaves_a_whole_file_or_none(number, tmp_path):
    """While Python starts and ends, the system's own handler answers: minus the number."""
    table = write_scored(tmp_path / "scored.csv")
    began = time.monotonic()
    expected = whole(table, tmp_path / "unharmed")
    seconds = time.monotonic() - began
    for share in (0.3, 0.6, 0.8, 0.9, 0.95):
        out = tmp_path / f"killed-{share}"
        running = start(table, out)
        time.sleep(share * seconds)
        company = descendants(running.pid)
        running.send_signal(number)
        said, _ = running.communicate()
        require_gone(lambda company=company: alive(company))
        assert running.returncode in (0, CODES[number], -number), said
        assert b"Traceback" not in said
        for path in out.glob("*.release.json"):
            assert path.read_bytes() == expected[path.name]
        if running.returncode == CODES[signal.SIGTERM]:
            assert not out.exists() or not any(out.iterdir())
            assert whole(table, out) == expected
