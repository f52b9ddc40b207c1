"""Sweeps on Ray: the same bytes, whoever dies; nobody else gets in; nothing is left."""

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from pcer.errors import InputError, PcerError
from pcer.train import EngineFlags, TrainConfig, TrainingData
from pcer.train import ray as ray_path
from pcer.train.fleet import Model
from pcer.train.run import run_blocks
from tests.train_cases import make_data

ROOT = Path(__file__).parents[2]
CONFIG = TrainConfig(
    epochs=2, expected_batch=20, hidden=(4,), accountant="rdp", split="given"
)
SECRET = b"the secret that no log may hold"
BLOCKS = [[Model(seed, 1.0, 1.0), Model(seed, 2.0, 0.5)] for seed in range(6)]


def data(missing: float = 0.5) -> TrainingData:
    features = np.random.default_rng(0).normal(size=(200, 3))
    features[0, 0] = missing
    return make_data(n=200, seeds=range(6), features=features, allow_missing=True)


def flags(**changes: object) -> EngineFlags:
    return EngineFlags(**{"engine": "ray", "block_size": 2, **changes})  # type: ignore[arg-type]


def trained(**changes: object) -> dict[tuple[Model, ...], bytes]:
    """The logits of every block, on Ray unless said otherwise."""
    configs = [
        dataclasses.replace(CONFIG, hidden=(4,) * (k % 3)) for k in range(len(BLOCKS))
    ]
    results = run_blocks(
        data(), BLOCKS, config=configs, flags=flags(**changes), secret=SECRET
    )
    return {result.models: result.logits.tobytes() for result in results}


def faulty(folder: Path, n_deaths: int) -> Callable[..., object]:
    """The task, but its process is killed when it has trained the block of seed 3."""
    train = ray_path.train_task

    def task(work: object, block: tuple[Model, ...], config: TrainConfig) -> object:
        result = train(work, block, config)
        deaths = len(list(folder.glob("death-*")))
        if block[0].seed == 3 and deaths < n_deaths:
            (folder / f"death-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return task


# Puts something else in a place of the module.
replaced = partial(patch.object, ray_path)


@contextmanager
def node_with_a_gpu() -> Iterator[None]:
    """A node of pcer's own that claims to have a GPU, so that tasks for one start."""
    options = ray_path._node_options

    @contextmanager
    def claiming(*arguments: object) -> Iterator[dict[str, object]]:
        with options(*arguments) as plain:
            yield {**plain, "num_gpus": 1}

    with replaced("_node_options", claiming), ray_path._connected(flags(jobs=2)):
        yield


def refuse(
    sentence: str, kind: type[PcerError] = InputError, **changes: object
) -> None:
    with pytest.raises(kind, match=re.escape(sentence)) as error:
        trained(**changes)
    assert error.type is kind


def main(folder: Path) -> None:
    """In a process of its own: to import Ray is to set it up for the whole process."""
    expected = trained(engine="local", jobs=1)
    with node_with_a_gpu():
        import ray

        assert trained() == expected
        with replaced("train_task", faulty(folder, 1)):
            assert trained() == expected
        assert len(list(folder.glob("death-*"))) == 1
        with replaced("MAX_RETRIES", 1), replaced("train_task", faulty(folder, 9)):
            refuse("given up after 2 attempts (WorkerCrashedError", PcerError)
        config = TrainConfig(
            epochs=1, expected_batch=20, standardise=False, split="given"
        )
        with pytest.raises(
            InputError, match=r"need config\.standardise, which fills them in\."
        ):
            list(run_blocks(data(np.nan), BLOCKS, config=config, flags=flags()))
        if not torch.cuda.is_available():
            refuse("no CUDA device can be used here", device="cuda")
        with replaced("_slots", lambda flags: 0):
            refuse("no node of the Ray cluster offers a GPU", device="cuda")
        others = {**ray_path.installed_versions(ray_path.ARITHMETIC), "pcer": "0.0.0"}
        with replaced("installed_versions", lambda names: others):
            refuse("was started with pcer 0.0.0; install the same version")
        results = run_blocks(data(), BLOCKS, config=CONFIG, flags=flags())
        next(results)
        results.close()  # the others are left behind
        assert ray.is_initialized()
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        texts = [file.read_bytes() for file in logs.rglob("*") if file.is_file()]
        assert texts
        for form in (SECRET, SECRET.hex().encode(), repr(SECRET).encode()):
            assert not any(form in text for text in texts)
        assert "secret" not in repr(ray_path.Work(data(), SECRET, "cpu", {}))
    assert not ray.is_initialized()


@pytest.mark.slow
def test_tasks_die_are_refused_and_wait_their_turn(tmp_path):
    """Beside a token of our own, and in a folder with a short path, as sockets need."""
    (tmp_path / "token").write_text("a token of the tests, and of nobody else")
    place = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_")
    }
    paths = f"{ROOT}:{ROOT / 'src'}"
    place |= {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"), "PYTHONPATH": paths}
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as short:
        done = subprocess.run(
            [sys.executable, "-m", "tests.train.test_ray", tmp_path],
            env={**place, "TMPDIR": short},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert os.listdir(short) == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:1",
        "ray://127.0.0.1:1",
        "nobody.invalid:6379",
        "head",
        "head:port",
        "head:99999",
    ],
)
def test_an_address_where_nobody_is(address):
    began = time.monotonic()
    with pytest.raises(InputError, match=address):
        ray_path.require_ray(EngineFlags(engine="ray", address=address))
    assert time.monotonic() - began < 2 * ray_path.KNOCK_SECONDS


def test_somebody_who_is_not_ray(monkeypatch):
    monkeypatch.setattr(ray_path, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        flags = EngineFlags(engine="ray", address=address)
        ray_path.require_ray(flags)
        with (
            pytest.raises(
                InputError, match=f"at {address} cannot be used: no answer .* within 1"
            ),
            ray_path._connected(flags),
        ):
            pass


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "print('Could not find any running Ray instance.'); exit(1)",
            "cannot be used: Could not",
        ),
        (
            "import sys; sys.exit('RPC error: Unauthenticated: ...')",
            "does not accept our token",
        ),
        ("import os; os.abort()", "it did not answer as Ray does"),
    ],
)
def test_a_cluster_that_does_not_let_us_in(monkeypatch, said, sentence):
    monkeypatch.setattr(ray_path, "_TRIAL", said)
    with pytest.raises(InputError, match=sentence):
        ray_path._require_entry("auto")


def test_the_folder_of_a_node_is_its_owners_and_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with ray_path._node_options(EngineFlags(engine="ray")) as options:
        (folder,) = tmp_path.iterdir()
        assert Path(options["_temp_dir"]).parent == folder
        modes = [path.stat().st_mode & 0o777 for path in (folder, folder / "token")]
        assert modes == [0o700, 0o600]
        assert os.environ["RAY_AUTH_TOKEN_PATH"] == str(folder / "token")
    assert list(tmp_path.iterdir()) == []
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ


def test_ray_does_not_answer_signals_for_us():
    """Neither after its start nor, where it raises SystemExit, during it."""
    seen: list[int] = []

    def ours(number: int, frame: object) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGTERM, ours)
    try:
        with ray_path._our_signals():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is ours
        with pytest.raises(SystemExit), ray_path._our_signals():
            sys.exit(15)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_where_something_is_not_installed_a_sentence_says_what_to_install(monkeypatch):
    error = ray_path._failure(ModuleNotFoundError("No module named 'torch'"))
    assert isinstance(error, InputError)
    assert "no module 'torch'" in str(error)
    monkeypatch.setattr(ray_path, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"\.\[ray\]"):
        ray_path.require_ray(EngineFlags(engine="ray"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
