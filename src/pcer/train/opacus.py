"""The same training for any ``torch.nn.Module``, one model after another, through Opacus.

Batches, budgets, normalisation and results are those of the engine; only the per-record gradients
come from Opacus, which knows most layers. Use it for models the engine does not have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
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
from pcer.train.rules import DpSgd
from pcer.train.schedule import sampled_positions
from pcer.train.streams import Purpose, stream

ModuleFactory = Callable[[int], nn.Module]
"""Makes a fresh module for a number of features; it gives one logit per record."""

UNBOUNDED_CLIP = 1e30
"""Clip norm without privacy: above any gradient, and finite, since Opacus multiplies it by the
noise multiplier 0."""

CHUNK = 4096
"""Records predicted at a time."""


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
    _require_plain(config)
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
    """Train one module and give its logits (record,) on all records."""
    _require_plain(config)
    table = record_table(data, [model.seed], config, CpuDevice())[:-1]
    n = data.features.shape[1]
    features, labels = table[:, :n].contiguous(), table[:, n + EXTRA_COLUMNS - 1]
    sampling = config.sampling(data.n_train)
    train = torch.from_numpy(data.train_rows[model.seed])
    with one_thread():
        module = make_module(factory, n, model, secret)
        optimizer = private_optimizer(module, model, config, sampling, secret)
        batches = (train[rows] for rows in batch_rows(model, sampling, secret))
        fit_module(module, optimizer, features, labels, batches)
        logits = predict_module(module, features)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def _require_plain(config: TrainConfig) -> None:
    """Refuse what needs norms of all training records, or bounds of single ones."""
    if config.rule != DpSgd.name:
        raise InputError(
            f"rule {config.rule!r} cannot be trained through Opacus, which clips all records at "
            "one norm; train the network of the engine (train_seeds), or use rule 'dp-sgd'."
        )
    if config.receipts is not ReceiptMode.NONE:
        raise InputError(
            f"receipts {str(config.receipts)!r} cannot be counted through Opacus, which sees the "
            "norms of a batch only; train the network of the engine (train_seeds), or set receipts "
            "to 'none'."
        )


def make_module(factory: ModuleFactory, n_features: int, model: Model, secret: bytes) -> nn.Module:
    """A fresh module with initial weights from the model's stream, checked by Opacus."""
    from opacus.validators import ModuleValidator

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_torch_seed(model, Purpose.INITIAL, secret))
        module = factory(n_features)
    if problems := ModuleValidator.validate(module, strict=False):
        raise InputError(
            f"The module cannot be trained with per-record gradients ({problems[0]}); "
            "replace that layer, for example by opacus.validators.ModuleValidator.fix."
        )
    return module


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
    """Train the module in place, one step per batch of row numbers."""
    from opacus import GradSampleModule

    hooked = GradSampleModule(module, loss_reduction="sum")
    with warnings.catch_warnings():  # torch remarks that inputs need no gradient: they do not
        warnings.filterwarnings("ignore", message="Full backward hook", category=UserWarning)
        for rows in batches:
            optimizer.zero_grad()
            _loss(hooked, features[rows], labels[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    hooked.to_standard_module()


def private_optimizer(
    module: nn.Module, model: Model, config: TrainConfig, sampling: Sampling, secret: bytes
) -> torch.optim.Optimizer:
    """SGD that clips, adds noise from the model's stream and divides by the expected batch."""
    from opacus.optimizers import DPOptimizer

    sgd = torch.optim.SGD(module.parameters(), config.learning_rate, config.momentum)
    generator = torch.Generator().manual_seed(_torch_seed(model, Purpose.NOISE, secret))
    return DPOptimizer(  # type: ignore[no-any-return]
        sgd,
        noise_multiplier=model.noise_multiplier,
        max_grad_norm=config.clip_norm if model.is_private else UNBOUNDED_CLIP,
        expected_batch_size=sampling.expected_batch,
        loss_reduction="mean",
        generator=generator,
    )


def predict_module(module: nn.Module, features: Tensor) -> Float32Array:
    """Logits (record,) on all records."""
    module.eval()
    with torch.no_grad():
        parts = [_logits(module, part) for part in torch.split(features, CHUNK)]
    logits: Float32Array = torch.cat(parts).numpy().astype(np.float32)
    return logits


def _loss(module: nn.Module, features: Tensor, labels: Tensor) -> Tensor:
    logits = _logits(module, features)
    return nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")


def _logits(module: nn.Module, features: Tensor) -> Tensor:
    output: Tensor = module(features)
    if output.shape not in ((len(features),), (len(features), 1)):
        raise InputError(
            f"The module must give one logit per record, but gave {tuple(output.shape)} for "
            f"{len(features)} records; end it with nn.Linear(..., 1)."
        )
    return output.reshape(-1)


def _torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    bits = stream(seed=model.seed, epsilon=model.epsilon, purpose=purpose, secret=secret)
    return int(bits.random_raw()) >> 1
