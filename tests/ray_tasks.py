"""A driver that runs tasks on a Ray node of its own with faults in them, and prints what happened.

``python -m tests.ray_tasks FOLDER`` prints one JSON object; ``tests/train/test_ray.py`` reads it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from pcer.errors import PcerError
from pcer.train import EngineFlags, TrainConfig, TrainingData
from pcer.train import ray as path
from pcer.train.fleet import Model
from pcer.train.run import run_blocks

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
CONFIG = TrainConfig(epochs=2, expected_batch=20, hidden=(4,), accountant="rdp", split="given")
SECRET = b"the secret that no log may hold"
BLOCKS = [[Model(seed, epsilon, 1.0 / epsilon) for epsilon in (1.0, 2.0)] for seed in range(6)]


def data(missing: float = 0.5) -> TrainingData:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    features[0, 0] = missing
    splits = {seed: rng.permutation(200)[:140] for seed in range(6)}
    return TrainingData.of(features, features[:, 1] > 0, splits, allow_missing=True)


def flags(**changes: object) -> EngineFlags:
    return EngineFlags(**{"engine": "ray", "block_size": 2, **changes})  # type: ignore[arg-type]


def trained(**changes: object) -> dict[tuple[Model, ...], bytes]:
    """The logits of every block, on Ray unless said otherwise."""
    results = run_blocks(data(), BLOCKS, config=CONFIG, flags=flags(**changes), secret=SECRET)
    return {result.models: result.logits.tobytes() for result in results}


def faulty(n_deaths: int) -> Callable[..., object]:
    """The task, but its process is killed when it has trained the block of seed 3."""
    train, folder = path.train_task, FOLDER

    def task(work: object, block: tuple[Model, ...]) -> object:
        result = train(work, block)
        deaths = len(list(folder.glob("death-*")))
        if block[0].seed == 3 and deaths < n_deaths:
            (folder / f"death-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return task


replaced = partial(patch.object, path)  # puts something else in a place of the module


@contextmanager
def node_with_a_gpu() -> Iterator[None]:
    """A node of pcer's own that claims to have a GPU, so that tasks for one are started."""
    options = path._node_options

    @contextmanager
    def claiming(*arguments: object) -> Iterator[dict[str, object]]:
        with options(*arguments) as given:
            yield {**given, "num_gpus": 1}

    with replaced("_node_options", claiming), path._connected(flags(jobs=2)):
        yield


def refusal(work: Callable[[], object]) -> list[str]:
    """The kind of error and its sentence."""
    try:
        work()
    except PcerError as error:
        return [type(error).__name__, str(error)]
    return ["none", ""]


def without_standardising() -> object:
    config = TrainConfig(epochs=1, expected_batch=20, standardise=False, split="given")
    return list(run_blocks(data(np.nan), BLOCKS, config=config, flags=flags()))


def main() -> None:
    expected, found = trained(engine="local", jobs=1), {}
    with node_with_a_gpu():
        import ray

        found["same"] = trained() == expected
        with replaced("train_task", faulty(1)):
            found["same_after_a_death"] = trained() == expected
        found["deaths"] = len(list(FOLDER.glob("death-*")))
        with replaced("MAX_RETRIES", 1), replaced("train_task", faulty(9)):
            found["given_up"] = refusal(trained)
        found["missing"] = refusal(without_standardising)
        found["false_gpu"] = refusal(lambda: trained(device="cuda"))
        with replaced("_slots", lambda flags: 0):
            found["no_gpu"] = refusal(lambda: trained(device="cuda"))
        others = (("pcer", "0.0.0"), *path._versions()[1:])
        with replaced("_versions", lambda: others):
            found["versions"] = refusal(trained)
        results = run_blocks(data(), BLOCKS, config=CONFIG, flags=flags())
        next(results)
        results.close()  # the others are left behind
        found["still_connected"] = ray.is_initialized()
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        files = [file for file in logs.rglob("*") if file.is_file()]
        found["logs"] = len(files)
        found["logs_with_secret"] = [f.name for f in files if _tells(f.read_bytes(), SECRET)]
        found["work"] = repr(path.Work(data(), SECRET, CONFIG, "cpu", ()))
    found["closed"] = not ray.is_initialized()
    print(json.dumps(found))


def _tells(text: bytes, secret: bytes) -> bool:
    return any(form in text for form in (secret, secret.hex().encode(), repr(secret).encode()))


if __name__ == "__main__":
    main()
