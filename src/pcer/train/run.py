"""Blocks of models through an engine: here, in processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np

from pcer.errors import InputError
from pcer.models import folder_first
from pcer.store.processes import Task, run_tasks
from pcer.train import fleet
from pcer.train.accounting import calibrate
from pcer.train.config import Engine, EngineFlags, TrainConfig
from pcer.train.devices import choose_device, require_device
from pcer.train.engine import train_block
from pcer.train.fleet import BlockResult, Model, Predictions, TrainingData, gather_predictions
from pcer.train.opacus import ModuleFactory, NamedModule, name_of, require_private, train_module


def train_seeds(
    data: TrainingData,
    *,
    budgets: Sequence[float],
    config: TrainConfig | None = None,
    flags: EngineFlags | None = None,
    secret: bytes = b"",
    module: ModuleFactory | None = None,
) -> Predictions:
    """Train one model per budget and seed (Part I of Algorithm 1) and predict every record.

    A model depends on its seed, its budget, its split, the config and the secret only: alone or
    among others, on one core or many, it is the same bit for bit on one type of CPU.

    Args:
        data: records, labels and the split of each seed.
        budgets: epsilons, ``NO_DP`` for training without privacy.
        config: what can change a number.
        flags: what can change only the speed.
        secret: up to 64 bytes mixed into every stream. Without one the models can be reproduced
            by anyone who knows the seeds, and so can the noise: fine for public data, no
            protection for private data.
        module: called with the number of features, it makes a fresh ``torch.nn.Module`` in place of
            the network of ``config.hidden``, which Opacus then trains; its random initial weights
            are drawn from the model's own stream.
    """
    config, flags = config or TrainConfig(), flags or EngineFlags()
    if module is not None:
        require_private(module, data.features.shape[1], config)
    calibrated = [calibrate(e, n_train=data.n_train, config=config) for e in budgets]
    models = fleet.plan_models(calibrated, data.seeds)
    size = 1 if module is not None else flags.models_per_block(len(models))
    blocks = fleet.cut_blocks(models, block_size=size)
    results = run_blocks(data, blocks, config=config, flags=flags, secret=secret, module=module)
    return gather_predictions(results, budgets=calibrated, seeds=data.seeds, member=data.member)


def run_blocks(
    data: TrainingData,
    blocks: Sequence[Sequence[Model]],
    *,
    config: TrainConfig,
    flags: EngineFlags,
    secret: bytes = b"",
    module: ModuleFactory | None = None,
) -> Generator[BlockResult, None, None]:
    """Train blocks and give each one's result as soon as it is there, in any order.

    ``module`` makes the models, for Opacus to train; None is pcer's own network.
    """
    require_engine(flags, module)
    if flags.engine is Engine.RAY:
        from pcer.train.ray import train_on_ray

        yield from train_on_ray(data, blocks, config=config, flags=flags, secret=secret)
        return
    tasks: list[Task] = [
        (_train_task, (data.only({m.seed for m in block}), block, config, flags, secret, module))
        for block in map(tuple, blocks)
    ]
    yield from run_tasks(tasks, n_processes=flags.n_processes)


def prepare(flags: EngineFlags) -> None:
    """Compile what training on the CPU of this machine needs, if that was never done here.

    Processes that train find the machine code then, instead of each compiling it again.
    """
    if flags.engine is Engine.LOCAL and flags.device == "cpu":
        from pcer.train.cpu import compile_kernels

        compile_kernels()


def require_engine(flags: EngineFlags, module: ModuleFactory | None = None) -> None:
    """Raise InputError unless the device can be used here, or the Ray cluster be reached."""
    if module is not None and (flags.engine is Engine.RAY or flags.device != "cpu"):
        raise InputError(
            f"{name_of(module)} is imported from a folder of this machine and trained on its "
            "cores; use engine 'local' and device 'cpu'."
        )
    if flags.engine is Engine.RAY:
        from pcer.train.ray import require_ray

        require_ray(flags)
    else:
        require_device(flags.device)


def _train_task(
    data: TrainingData,
    block: tuple[Model, ...],
    config: TrainConfig,
    flags: EngineFlags,
    secret: bytes,
    module: ModuleFactory | None,
) -> BlockResult:
    """Train one block in this process."""
    if module is None:
        return train_block(data, block, config, device=choose_device(flags.device), secret=secret)
    with folder_first(module.folder if isinstance(module, NamedModule) else Path.cwd()):
        logits = [train_module(module, data, m, config, secret=secret) for m in block]
    return BlockResult(block, np.stack(logits))
