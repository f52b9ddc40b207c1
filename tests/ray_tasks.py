"""A driver that runs tasks on a Ray node of its own with faults in them, and prints what happened.

``python -m tests.ray_tasks FOLDER`` prints one JSON object; ``test_train_ray.py`` reads it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pcer.errors import PcerError
from pcer.train import NO_DP, EngineFlags, Model, TrainConfig, TrainingData, run_blocks, train_seeds
from pcer.train import ray_path as path

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
    """The logits of every block on Ray."""
    results = run_blocks(data(), BLOCKS, config=CONFIG, flags=flags(**changes), secret=SECRET)
    return {result.models: result.logits.tobytes() for result in results}


def local() -> dict[tuple[Model, ...], bytes]:
    """The logits of every block in this process."""
    here = EngineFlags(jobs=1)
    results = run_blocks(data(), BLOCKS, config=CONFIG, flags=here, secret=SECRET)
    return {result.models: result.logits.tobytes() for result in results}


def with_task(task: Callable[..., object], work: Callable[[], object]) -> object:
    """Do something while another function is the task."""
    before = path.train_task
    path.train_task = task
    try:
        return work()
    finally:
        path.train_task = before


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


def most_in_flight(**changes: object) -> int:
    """The largest number of tasks that were out at the same time."""
    import ray

    wait, seen = ray.wait, []

    def counted(running: list[object], **options: object) -> object:
        seen.append(len(running))
        return wait(running, **options)

    ray.wait = counted
    try:
        trained(**changes)
    finally:
        ray.wait = wait
    return max(seen)


def refusal(work: Callable[[], object]) -> list[str]:
    """The kind of error and its sentence."""
    try:
        work()
    except PcerError as error:
        return [type(error).__name__, str(error)]
    return ["none", ""]


def first_only() -> int:
    """Take one result and leave the others behind."""
    results = run_blocks(data(), BLOCKS, config=CONFIG, flags=flags())
    next(results)
    results.close()
    return 1


def without_standardising() -> object:
    config = TrainConfig(epochs=1, expected_batch=20, standardise=False, split="given")
    return list(run_blocks(data(np.nan), BLOCKS, config=config, flags=flags()))


def other_versions() -> list[str]:
    versions = path._versions
    path._versions = lambda: (("pcer", "0.0.0"), *versions()[1:])
    try:
        return refusal(trained)
    finally:
        path._versions = versions


def seeds_alike() -> bool:
    both = [
        train_seeds(data(), budgets=(NO_DP,), config=CONFIG, flags=each)
        for each in (flags(), EngineFlags(jobs=1))
    ]
    return bool((both[0].logits == both[1].logits).all())


def main() -> None:
    expected, found = local(), {}
    with path._connected(flags(jobs=2), 1):
        import ray

        found["same"] = trained() == expected
        found["same_after_a_death"] = with_task(faulty(1), trained) == expected
        found["deaths"] = len(list(FOLDER.glob("death-*")))
        found["seeds_alike"] = seeds_alike()
        path.MAX_RETRIES = 1
        found["given_up"] = with_task(faulty(9), lambda: refusal(trained))
        found["missing"] = refusal(without_standardising)
        found["no_gpu"] = refusal(lambda: trained(device="cuda"))
        found["versions"] = other_versions()
        found["most_in_flight"] = [most_in_flight(jobs=jobs) for jobs in (1, 3, None)]
        found["first_only"] = first_only()
        found["still_connected"] = ray.is_initialized()
        logs = Path(ray._private.worker._global_node.get_logs_dir_path())
        found["logs"] = len(list(logs.rglob("*.log")))
        found["logs_with_secret"] = [
            file.name
            for file in logs.rglob("*")
            if file.is_file() and _tells(file.read_bytes(), SECRET)
        ]
        found["work"] = repr(path.Work(data(), SECRET, CONFIG, "cpu", ()))
    found["closed"] = not ray.is_initialized()
    print(json.dumps(found))


def _tells(text: bytes, secret: bytes) -> bool:
    return any(form in text for form in (secret, secret.hex().encode(), repr(secret).encode()))


if __name__ == "__main__":
    main()
