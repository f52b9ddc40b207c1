"""Training of any ``torch.nn.Module``, one model after another, through Opacus.

Batches, budgets, normalisation and results are those of the engine; only the per-record gradients
come from Opacus, which knows most layers. Use it for models the engine does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn

from pcer.errors import InputError
from pcer.train.accounting import calibrate
from pcer.train.config import ReceiptMode, Sampling, TrainConfig
from pcer.train.cpu import CpuDevice
from pcer.train.engine import EXTRA_COLUMNS, one_thread, record_table
from pcer.train.fleet import (
    BlockResult,
    Float32Array,
    Model,
    Predictions,
    TrainingData,
    gather_predictions,
    plan_models,
    require_sound,
)
from pcer.train.modules import (
    ModuleFactory,
    failing_as,
    logits_of,
    require_known_layers,
    require_private,
    seeded,
    seeded_module,
    without_remarks,
)
from pcer.train.rules import DpSgd
from pcer.train.schedule import sampled_positions
from pcer.train.streams import Purpose

UNBOUNDED_CLIP = 1e30
"""Clip norm without privacy: above any gradient, and finite, since Opacus multiplies it by the
noise multiplier 0."""

CHUNK = 4096  # records predicted at a time


def train_modules(
    factory: ModuleFactory,
    data: TrainingData,
    *,
    budgets: Sequence[float],
    config: TrainConfig | None = None,
    secret: bytes = b"",
) -> Predictions:
    """Train one module per budget and seed with Opacus, and predict every record.

    Args:
        factory: called with the number of features for every model. Its random initial weights
            are drawn from the model's own stream; ``config.hidden`` is not used.
        data: records, labels and the split of each seed.
        budgets: epsilons, ``NO_DP`` for training without privacy.
        config: what can change a number.
        secret: as in ``train_seeds``.
    """
    config = config or TrainConfig()
    require_plain(config)
    require_private(factory, data.features.shape[1], name="The module")
    calibrated = [calibrate(e, n_train=data.n_train, config=config) for e in budgets]

    def results() -> Iterator[BlockResult]:
        for model in plan_models(calibrated, data.seeds):
            logits = train_module(factory, data, model, config, secret=secret)
            yield BlockResult((model,), logits[None])

    return gather_predictions(results(), budgets=calibrated, seeds=data.seeds, member=data.member)


def train_module(
    factory: ModuleFactory,
    data: TrainingData,
    model: Model,
    config: TrainConfig,
    *,
    secret: bytes = b"",
) -> Float32Array:
    """Train one module and give its logits (record,) on all records.

    They depend on the model's streams and its split alone: layers that draw, such as dropout, draw
    from a stream of the model's own, too.
    """
    require_plain(config)
    table = record_table(data, [model.seed], config, CpuDevice())[:-1]
    n = data.features.shape[1]
    features, labels = table[:, :n].contiguous(), table[:, n + EXTRA_COLUMNS - 1]
    sampling = config.sampling(data.n_train)
    train = torch.from_numpy(data.train_rows[model.seed])
    budget = f"epsilon {model.epsilon:g}" if model.is_private else "no privacy"
    where = f"The module fails in the training of seed {model.seed} with {budget}"
    with one_thread(), failing_as(where, quoted=False):
        module = make_module(factory, n, model, secret)
        optimizer = private_optimizer(module, model, config, sampling, secret)
        batches = (train[rows] for rows in batch_rows(model, sampling, secret))
        with seeded(_torch_seed(model, Purpose.LAYERS, secret)):
            fit_module(module, optimizer, features, labels, batches)
            logits = predict_module(module, features)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def require_plain(config: TrainConfig) -> None:
    """Refuse what needs norms of all training records, or bounds of single ones."""
    if config.rule != DpSgd.name or config.receipts is not ReceiptMode.NONE:
        raise InputError(
            f"rule {config.rule!r} cannot be trained through Opacus with receipts "
            f"{str(config.receipts)!r}: it clips all records at one norm and sees the norms of a "
            "batch only; train the network of the engine (train_seeds), or use rule 'dp-sgd' and "
            "receipts 'none'."
        )


def make_module(factory: ModuleFactory, n_features: int, model: Model, secret: bytes) -> nn.Module:
    """A fresh module with initial weights from the model's stream, checked by Opacus."""
    seed = _torch_seed(model, Purpose.INITIAL, secret)
    module = seeded_module(factory, n_features, seed, name="The module")
    require_known_layers(module)
    return module


def _torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    return int(model.stream(purpose, secret).random_raw()) >> 1


def batch_rows(model: Model, sampling: Sampling, secret: bytes) -> Iterator[Tensor]:
    """The Poisson batches of a model, as positions in its training split; some may be empty."""
    positions = sampled_positions(model.seed, model.epsilon, sampling, secret)
    ends = np.searchsorted(positions, np.arange(1, sampling.n_steps) * sampling.n_train)
    for part in np.split(positions, ends):
        yield torch.from_numpy(part % sampling.n_train)


def fit_module(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    labels: Tensor,
    batches: Iterable[Tensor],
) -> None:
    """Train the module in place, one step per batch of row numbers.

    An empty batch is a step of noise alone, and the module is not asked.
    """
    hooked = GradSampleModule(module, loss_reduction="sum")
    with without_remarks():
        for rows in batches:
            optimizer.zero_grad()
            if len(rows):
                logits = logits_of(hooked, features[rows])
                loss = nn.functional.binary_cross_entropy_with_logits(
                    logits, labels[rows], reduction="sum"
                )
                loss.backward()  # type: ignore[no-untyped-call]
            else:
                for p in module.parameters():
                    if p.requires_grad:  # the gradients of no records, where Opacus keeps them
                        p.grad_sample = torch.zeros(0, *p.shape)  # type: ignore[attr-defined]
            optimizer.step()
    hooked.to_standard_module()


class StreamedNoise(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
    """Opacus' optimizer with noise from a stream whose key has 128 bits.

    A generator of torch is seeded with 32 bits on a CPU, whatever the seed: two models would share
    their noise now and then, and who knows all but one record could try all seeds.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, bits: np.random.Philox, **settings: Any):
        super().__init__(optimizer, **settings)
        self._normal = np.random.Generator(bits)

    def add_noise(self) -> None:
        """To every clipped sum, as Opacus does it."""
        std = self.noise_multiplier * self.max_grad_norm
        for p in self.params:
            p.grad = p.summed_grad.view_as(p)
            if self.noise_multiplier:
                drawn = torch.from_numpy(std * self._normal.standard_normal(p.shape))
                p.grad = p.grad + drawn.to(p.dtype)


def private_optimizer(
    module: nn.Module, model: Model, config: TrainConfig, sampling: Sampling, secret: bytes
) -> torch.optim.Optimizer:
    """SGD that clips, adds noise from the model's stream and divides by the expected batch."""
    sgd = torch.optim.SGD(module.parameters(), config.learning_rate, config.momentum)
    return StreamedNoise(
        sgd,
        model.stream(Purpose.NOISE, secret),
        noise_multiplier=model.noise_multiplier,
        max_grad_norm=config.clip_norm if model.is_private else UNBOUNDED_CLIP,
        expected_batch_size=sampling.expected_batch,
        loss_reduction="mean",
    )


def predict_module(module: nn.Module, features: Tensor) -> Float32Array:
    """Logits (record,) on all records."""
    module.eval()
    with torch.no_grad():
        parts = [logits_of(module, part) for part in torch.split(features, CHUNK)]
    logits: Float32Array = torch.cat(parts).numpy().astype(np.float32)
    return logits
