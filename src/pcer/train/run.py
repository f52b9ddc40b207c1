"""How are many models trained? Their blocks go through an engine.

It trains them in this process, in processes of this machine, or on a Ray cluster.
``train_seeds`` is for users; sweeps cut blocks themselves and call ``run_blocks``,
after ``require_engine`` and ``prepare``. To add an engine: a case of ``run_blocks`` and
of ``require_engine``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pcer.errors import InputError
from pcer.models import folder_first
from pcer.store.processes import Task, run_tasks
from pcer.train import fleet
from pcer.train.config import Engine, EngineFlags, TrainConfig
from pcer.train.devices import choose_device
from pcer.train.engine import train_block
from pcer.train.fleet import (
    BlockResult,
    Model,
    Predictions,
    TrainingData,
    gather_predictions,
)
from pcer.train.opacus import (
    ModuleFactory,
    NamedModule,
    module_digest,
    name_of,
    require_private,
    train_module,
)


def train_seeds(
    data: TrainingData,
    *,
    budgets: Sequence[float],
    config: TrainConfig | None = None,
    flags: EngineFlags | None = None,
    secret: bytes = b"",
    module: ModuleFactory | None = None,
) -> Predictions:
    """Train one model per budget and seed, and predict every record.

    This is Part I of Algorithm 1. A model depends only on its seed, budget, split,
    records, the config and the secret: alone or among others, on one core or many, it
    is the same bit for bit on one type of CPU.

    Args:
        data: records, labels and the split of each seed.
        budgets: epsilons, ``NO_DP`` for training without privacy.
        config: what can change a number.
        flags: what can change only the speed.
        secret: up to 64 bytes mixed into every stream. Without one the models can be
            reproduced by anyone who knows the seeds, and so can the noise: fine for
            public data, no protection for private data. Other settings or records have
            other streams.
        module: called with the number of features, it makes a fresh
            ``torch.nn.Module``, which Opacus trains in place of the network of
            ``config.hidden``; its random initial weights come from the model's stream.
    """
    config = TrainConfig() if config is None else config
    flags = EngineFlags() if flags is None else flags
    if module is not None:
        require_private(module, data.features.shape, config)
    config.training_rule.shares(data.groups)  # refuses groups that are not there
    calibrated = fleet.calibrated(budgets, data, config, module=module)
    digests = {}
    if secret:
        of_module = ""
        if module is not None:
            of_module = module_digest(module, data.features.shape[1])
        digests = fleet.stream_digests(data, config, module=of_module)
    models = fleet.plan_models(calibrated, data.seeds, digests)
    size = 1 if module is not None else flags.models_per_block(len(models))
    blocks = fleet.cut_blocks(models, block_size=size)
    results = run_blocks(
        data, blocks, config=config, flags=flags, secret=secret, module=module
    )
    return gather_predictions(
        results, budgets=calibrated, seeds=data.seeds, member=data.member
    )


def run_blocks(
    data: TrainingData,
    blocks: Sequence[Sequence[Model]],
    *,
    config: TrainConfig | Sequence[TrainConfig],
    flags: EngineFlags,
    secret: bytes = b"",
    module: ModuleFactory | None = None,
) -> Generator[BlockResult, None, None]:
    """Train blocks, each by its config, and yield results in any order."""
    require_engine(flags, module)
    configs = [config] * len(blocks) if isinstance(config, TrainConfig) else config
    if flags.engine is Engine.RAY:
        from pcer.train.ray import train_on_ray

        yield from train_on_ray(data, blocks, configs, flags=flags, secret=secret)
        return
    tasks: list[Task] = []
    for block, own_config in zip(blocks, configs, strict=True):
        splits = data.only({model.seed for model in block})
        arguments = (splits, tuple(block), own_config, flags, secret, module)
        tasks.append((_train_task, arguments))
    yield from run_tasks(tasks, n_processes=flags.n_processes)


def prepare(flags: EngineFlags) -> None:
    """Compile for the CPU of this machine, once for all worker processes."""
    if flags.engine is Engine.LOCAL and flags.device == "cpu":
        from pcer.train.cpu import compile_kernels

        compile_kernels()


def require_engine(flags: EngineFlags, module: ModuleFactory | None = None) -> None:
    """Raise InputError unless the device or the Ray cluster can be used from here."""
    if flags.engine is not Engine.RAY:
        choose_device(flags.device)
        return
    if module is not None:
        raise InputError(
            f"{name_of(module)} is imported from a folder of this machine; use engine "
            "'local'."
        )
    from pcer.train.ray import require_ray

    require_ray(flags)


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
        device = choose_device(flags.device)
        return train_block(data, block, config, device=device, secret=secret)

    folder = module.folder if isinstance(module, NamedModule) else Path.cwd()
    train = partial(train_module, module, data, secret=secret, device=flags.device)
    with folder_first(folder):
        logits = [train(model=model, config=config) for model in block]
    return BlockResult(block, np.stack(logits))
