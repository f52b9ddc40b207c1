"""Rows of fitted models: durable, resumable, the same wherever they are made."""

import hmac
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pcer.errors import InputError
from tests.models.worlds import STATE, Ignorant, release, world

ROOT = Path(__file__).parents[2]
LAMBDA = make_pipeline(FunctionTransformer(lambda X: X), GaussianNB())


def test_the_number_of_processes_changes_nothing():
    for estimator in (LAMBDA, RandomForestClassifier(n_estimators=4)):
        assert release(estimator, n_jobs=2).to_json() == release(estimator).to_json()
    with pytest.raises(
        InputError, match=r"Ignorant failed in split \d+: \".*\" \(\w+Error"
    ):
        release(
            Ignorant(habit="raise"), n_splits=8, n_jobs=2
        )  # the other process ends quietly


def slow_release(store, state=STATE):
    return release(Ignorant(habit="sleep"), n_splits=8, store=store, random_state=state)


def job(code: str, store: Path, *, kill_after: int | None = None, env=None) -> None:
    """Run code in another process, to the end or until a store has so many blocks."""
    code = f"from tests.models.test_fits import *\nstore = {str(store)!r}\n{code}"
    running = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=env, stderr=subprocess.PIPE
    )
    if kill_after is not None:
        while len(list(store.glob("block-*.json"))) < kill_after:
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    told = running.communicate()[1]
    assert kill_after is not None or running.returncode == 0, told


@pytest.mark.slow
@pytest.mark.parametrize("state", [STATE, None])  # None: drawn by the killed call
def test_killed_in_the_middle_the_same_call_gives_the_same_bytes(tmp_path, state):
    job(f"slow_release(store, {state})", tmp_path / "s", kill_after=3)
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("block-*.json")
    }
    assert 3 <= len(before) < 8
    made = slow_release(tmp_path / "s", state)
    assert state is None or made.to_json() == slow_release(None).to_json()
    assert {
        path: path.stat().st_mtime_ns for path in before
    } == before  # nothing made twice


RAY = """
import joblib
from ray.util.joblib import register_ray
register_ray()
with joblib.parallel_config("ray", n_jobs=2):
    made = slow_release(store)
Path(store, "digest").write_text(made.sha256)
"""


@pytest.mark.slow
def test_the_same_through_ray_killed_in_the_middle(tmp_path):
    token = tmp_path / "token"
    token.write_text("a token of the tests, and of nobody else")
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as short:
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RAY_")
        }
        env |= {
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "TMPDIR": short,
        }
        job(RAY, tmp_path / "s", kill_after=2, env=env)
        job(RAY, tmp_path / "s", env=env)
    assert (tmp_path / "s" / "digest").read_text() == slow_release(None).sha256


def test_a_store_is_private_mended_and_takes_more(tmp_path):
    first = release(Ignorant(), store=tmp_path / "s")
    for path in [tmp_path / "s", *(tmp_path / "s").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0, path
    array = sorted((tmp_path / "s").glob("*.npy"))[1]
    array.write_bytes(array.read_bytes()[:-1] + b"x")
    with pytest.warns(UserWarning, match="are made again"):
        again = release(Ignorant(), store=tmp_path / "s")
    assert again.to_json() == first.to_json()
    both = {"a": GaussianNB(), "b": Ignorant()}
    longer = release(both, n_splits=4, store=tmp_path / "s")
    assert len(list((tmp_path / "s").glob("*.npy"))) == 3 + 1 + 4
    assert longer.to_json() == release(both, n_splits=4).to_json()
    with pytest.raises(InputError, match="define lambdas in a module"):
        release(LAMBDA, store=tmp_path / "s")
    for changes, name in (
        ({"data": world(seed=1)}, "records"),
        ({"random_state": STATE + 1}, "random_state"),
        ({"test_size": 0.4}, "test_size"),
        ({"person_id": np.arange(600)}, "records"),
    ):
        with pytest.raises(
            InputError, match=f"was made with {name} .*choose another folder"
        ):
            release(GaussianNB(), store=tmp_path / "s", **changes)


@pytest.mark.usefixtures("few_permutations")
def test_without_a_random_state_splits_are_drawn_and_a_store_or_secret_finds_them_again(
    tmp_path,
):
    def drawn(name, **given):
        return release(
            Ignorant(), random_state=None, store=tmp_path / name, **given
        ).runs

    first = drawn("a")
    kept = tmp_path / "a" / "splits.secret"
    assert first == drawn("a") == drawn("b", secret=kept.read_bytes())
    assert first != drawn("c")
    assert kept.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "b" / "splits.secret").exists()
    keyed = hmac.digest(kept.read_bytes(), b"pcer splits", "sha256")[:16]
    state = int.from_bytes(keyed, "little")
    made = release(Ignorant(), random_state=state)
    assert made.runs == first
    assert (
        str(state)
        not in made.to_json() + (tmp_path / "a" / "settings.json").read_text()
    )
    kept.unlink()
    with pytest.raises(InputError, match="was made with random_state") as caught:
        drawn("a")
    assert str(state) not in str(caught.value)


def first_column(frame):
    return frame[["a"]].to_numpy()


def fit_frame(store):
    X, y, sex = world()
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "z")})
    model = make_pipeline(FunctionTransformer(first_column), GaussianNB())
    release(model, (frame, y, sex), store=store)


@pytest.mark.slow
def test_frames_are_known_again_in_another_process(tmp_path):
    for _ in range(2):
        job("fit_frame(store)", tmp_path / "s")
    assert len(list((tmp_path / "s").glob("*.npy"))) == 3
