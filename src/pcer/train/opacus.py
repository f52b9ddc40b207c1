"""How is a ``torch.nn.Module`` of the user's own trained privately?

It is tried on made-up records, then trained through Opacus. Batches, budgets,
normalisation and results are those of the engine; only the per-record gradients come
from Opacus, which knows most layers. Models train one after another.

Opacus rejects layers that it knows to mix records. Trials on made-up records find the
others: whether a record's logit or gradient depends on the rest of the batch, whether
the module keeps something of the records, and whether per-record gradients add up to
the total.

``run`` and sweeps call ``require_private`` before the first model, and ``run`` calls
``train_module`` for every model. To add a trial: a generator of faults, in ``_faults``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pcer.errors import InputError, clipped
from pcer.train.config import ReceiptMode, Sampling, TrainConfig
from pcer.train.engine import EXTRA_COLUMNS, one_thread, record_table
from pcer.train.fleet import Float32Array, Model, TrainingData, require_sound
from pcer.train.modules import (
    LONGEST_FAULT,
    ModuleFactory,
    are_equal,
    failing_as,
    logits_of,
    name_of,
    seeded,
    seeded_module,
)
from pcer.train.rules import DpSgd
from pcer.train.schedule import Drawer, Widths
from pcer.train.streams import Purpose, first_words

N_PROBES = 6  # made-up records of the smallest batch
MORE_CALLS = 10  # of a trial, beyond those of two epochs
STEP = 0.01  # of trial steps, large enough to change every logit
TOLERANCE = 1e-3  # of float32 sums, relative to the largest; faults are far larger

# Clip norm without privacy: above any gradient, and finite, since Opacus multiplies it
# by the noise multiplier 0.
UNBOUNDED_CLIP = 1e30
CHUNK = 4096  # records predicted at a time


@dataclass(frozen=True)
class Trial:
    """Modules of a factory, and the made-up records that they are tried on."""

    name: str  # of the factory, in sentences
    fresh: Callable[[], nn.Module]  # makes a module of seed 0
    module: nn.Module  # one of them, made before any trial
    twin: nn.Module  # a second one
    first: Tensor  # (record, feature)
    others: Tensor  # every other row is the same there, and the rest are far away
    sizes: tuple[int, ...]  # of batches: the smallest, an expected one, the largest
    calls: tuple[int, ...]  # sizes of the batches of two epochs and some more


def require_private(
    factory: ModuleFactory, shape: tuple[int, int], config: TrainConfig
) -> None:
    """Raise InputError unless a factory's modules can be trained privately.

    ``shape`` is that of all features, (record, feature).
    """
    name = name_of(factory)
    _require_dp_sgd(name, config)
    n_records, n_features = shape
    sizes, calls = _batch_sizes(config.sampling(n_records))
    first, others = _made_up_records(max(CHUNK, *sizes), n_features)
    fresh = partial(seeded_module, factory, n_features, 0)
    with (
        one_thread(),
        failing_as(f"{name} fails on made-up records of {n_features} features"),
    ):
        trial = Trial(name, fresh, fresh(), fresh(), first, others, sizes, calls)
        for fault in _faults(trial):
            raise InputError(f"{name} {fault}.")


def _require_dp_sgd(name: str, config: TrainConfig) -> None:
    """Raise InputError for settings that need more than Opacus gives."""
    # Other rules and receipts need norms of all training records, or bounds of single
    # ones.
    if config.rule == DpSgd.name and config.receipts is ReceiptMode.NONE:
        return
    raise InputError(
        f"{name} is trained through Opacus, which clips all records at one norm and "
        f"sees the norms of a batch only, but rule {config.rule!r} and receipts "
        f"{str(config.receipts)!r} were given; use rule 'dp-sgd' and receipts 'none'."
    )


def _batch_sizes(sampling: Sampling) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of batches to try, and the sizes of a trial's calls in their order."""
    expected = max(1, sampling.n_train // sampling.steps_per_epoch)
    sizes = (N_PROBES, expected, Widths.of(sampling).full)
    n_calls = 2 * sampling.steps_per_epoch + MORE_CALLS
    return sizes, tuple(islice(cycle(sizes), n_calls))


def _made_up_records(n_records: int, n_features: int) -> tuple[Tensor, Tensor]:
    """Two tables (record, feature) that share every other row."""
    generator = torch.Generator().manual_seed(0)
    first, others = torch.randn(2, n_records, n_features, generator=generator)
    others.mul_(2).add_(3)
    others[::2] = first[::2]
    return first, others


def _faults(trial: Trial) -> Iterator[str]:
    """What is wrong with a factory's modules, as ends of sentences."""
    yield from _what_is_not_fresh(trial.module, trial.twin)
    yield from _layers_that_mix(trial.module)
    yield from _what_is_kept(trial)
    yield from _what_depends_on_others(trial)
    smallest, _, largest = trial.sizes
    for n_records in (smallest, largest):
        yield from _gradients_of_nobody(trial, n_records)


def _what_is_not_fresh(module: nn.Module, twin: nn.Module) -> Iterator[str]:
    """Each call must make new weights, and one seed always the same."""
    if {id(p) for p in module.parameters()} & {id(p) for p in twin.parameters()}:
        yield "returns the same weights again; make a fresh module in every call"
    first = module.state_dict()
    second = twin.state_dict()
    has_same_names = first.keys() == second.keys()
    if not has_same_names or not all(are_equal(first[k], second[k]) for k in first):
        yield (
            "gives other weights for the same torch seed, so nothing could be "
            "repeated; draw initial weights only through torch"
        )


def _layers_that_mix(module: nn.Module) -> Iterator[str]:
    """Layers that are known to mix records, by their names."""
    from opacus import GradSampleModule
    from opacus.validators import ModuleValidator

    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            name = repr(path) if path else "of all"
            yield (
                f"cannot be trained with per-record gradients: its layer {name} "
                f"({type(layer).__name__}) mixes the records of a batch; use "
                "nn.GroupNorm there, or opacus.validators.ModuleValidator.fix"
            )
    for problem in (
        *ModuleValidator.validate(module),
        *GradSampleModule.validate(module),
    ):
        fault = clipped(str(problem).rstrip(". "), LONGEST_FAULT)
        yield (
            f"cannot be trained with per-record gradients ({fault}); replace that "
            "layer, for example by opacus.validators.ModuleValidator.fix"
        )


def _what_is_kept(trial: Trial) -> Iterator[str]:
    """Two copies that see different records and take the same steps must end equal."""
    # Different steps would also change what is computed from weights, which the noise
    # hides. One copy runs before the other sees anything, as they might share state.
    end = _end_of_steps(trial, trial.first)
    end_of_others = _end_of_steps(trial, trial.others)
    for name, value in end.items():
        if name not in end_of_others or not are_equal(value, end_of_others[name]):
            yield (
                "cannot be trained privately: it keeps something of the records it "
                f"sees, without noise (see its {name}); leave that out "
                "(track_running_stats=False)"
            )


def _end_of_steps(trial: Trial, records: Tensor) -> dict[str, Tensor]:
    """Weights, buffers and logits of a fresh copy after steps on some records.

    The steps are random and do not depend on the records, and the logits are those of
    ``trial.first``.
    """
    module = trial.fresh()
    generator = torch.Generator().manual_seed(0)
    with seeded(0):
        for size in trial.calls:
            logits = logits_of(module, records[:size], name=trial.name)
            logits.square().sum().backward()  # type: ignore[no-untyped-call]
            for p in module.parameters():
                drawn = torch.randn(p.shape, generator=generator)
                p.data += p.requires_grad * STEP * drawn
    end = {name: value.clone() for name, value in module.state_dict().items()}

    probes = trial.first[: max(trial.calls)]
    with seeded(0), torch.no_grad():
        end["training"] = logits_of(module, probes)
        end["prediction"] = logits_of(module.eval(), probes)
    return end


def _what_depends_on_others(trial: Trial) -> Iterator[str]:
    """A record's logit must not depend on others, in training and in predictions."""
    module = trial.module
    twin = trial.twin
    for predicts in (False, True):
        if predicts:
            module = module.eval()
            twin = twin.eval()
        for n_records in (*trial.sizes, CHUNK):
            if _depends_on_others(module, twin, trial, n_records):
                yield (
                    "cannot be trained privately: a record's logit depends on others "
                    "in its batch; compute nothing over the first axis (use "
                    "nn.GroupNorm as a norm)"
                )


def _depends_on_others(
    module: nn.Module, twin: nn.Module, trial: Trial, n_records: int
) -> bool:
    """Whether the records that two batches share have different logits there."""
    first = trial.first[:n_records]
    others = trial.others[:n_records]
    few = trial.first[:N_PROBES]

    def logits(batch: Tensor, twins_batch: Tensor, twins_seed: int = 0) -> list[Tensor]:
        with torch.no_grad():
            with seeded(0):
                one = logits_of(module, batch)
            with seeded(twins_seed):
                return [one, logits_of(twin, twins_batch)]

    in_first, in_others = logits(first, others)
    if not _are_close(in_first[::2], in_others[::2]):
        return True
    is_deterministic = are_equal(*logits(first, first, twins_seed=1))
    if not is_deterministic:
        return False
    in_first, in_few = logits(first, few)
    return not _are_close(in_first[:N_PROBES], in_few[:n_records])


def _gradients_of_nobody(trial: Trial, n_records: int) -> Iterator[str]:
    """Opacus' per-record gradients must be independent and add up to torch's."""
    parameters = _with_gradients(trial.fresh(), trial.first[:n_records])
    beside = _with_gradients(trial.fresh(), trial.others[:n_records])
    for (name, p), (_, p_beside) in zip(parameters, beside, strict=True):
        if not _are_of_records(p, p_beside, n_records):
            yield (
                "cannot be trained privately: Opacus has no per-record gradients of "
                f"{name}; use every weight only in its own layer, or freeze it "
                "(requires_grad=False)"
            )


def _with_gradients(module: nn.Module, batch: Tensor) -> list[tuple[str, Any]]:
    """Parameters by name, with the gradients of a batch and those of its records."""
    from opacus import GradSampleModule

    hooked = GradSampleModule(module, loss_reduction="sum")
    with _without_remarks(), seeded(0):
        logits_of(hooked, batch).square().sum().backward()  # type: ignore[no-untyped-call]
    return list(module.named_parameters())


def _are_of_records(p: Any, beside: Any, n_records: int) -> bool:
    """Whether a parameter's per-record gradients are just that, beside other records.

    A frozen parameter needs none.
    """
    single = getattr(p, "grad_sample", None)
    if p.grad is None or not isinstance(single, Tensor) or len(single) != n_records:
        return not p.requires_grad
    adds_up = not p.requires_grad or _are_close(single.sum(dim=0), p.grad)
    is_independent = _are_close(single[::2], beside.grad_sample[::2])
    return adds_up and is_independent


def _are_close(tensor: Tensor, expected: Tensor) -> bool:
    largest = max(1.0, float(expected.nan_to_num().abs().max()))
    atol = TOLERANCE * largest
    return torch.allclose(tensor, expected, rtol=TOLERANCE, atol=atol, equal_nan=True)


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Silence torch's warning that inputs need no gradient."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Full backward hook", category=UserWarning
        )
        yield


class Records(NamedTuple):
    """All records as one model is trained on them, on the device that trains it."""

    features: Tensor  # (record, feature), standardised for the model's split
    labels: Tensor  # (record,)
    train_rows: Tensor  # (training record,)


def train_module(
    factory: ModuleFactory,
    data: TrainingData,
    model: Model,
    config: TrainConfig,
    *,
    secret: bytes = b"",
    device: str = "cpu",
) -> Float32Array:
    """Train one module and give its logits (record,) on all records.

    They depend on the model's streams and its split only.
    """
    records = _records(data, model, config, device)
    sampling = config.sampling(data.n_train)
    with (
        one_thread(),
        failing_as(_start_of_fault(model), quoted=False),
        _without_remarks(),
    ):
        n_features = data.features.shape[1]
        initial_seed = torch_seed(model, Purpose.INITIAL, secret)
        module = seeded_module(factory, n_features, initial_seed).to(device)
        optimizer = private_optimizer(module, model, config, sampling, secret)
        with seeded(torch_seed(model, Purpose.LAYERS, secret)):
            _train(module, optimizer, records, batch_rows(model, sampling, secret))
            with torch.no_grad():
                chunks = torch.split(records.features, CHUNK)
                parts = [logits_of(module, chunk) for chunk in chunks]
    logits: Float32Array = torch.cat(parts).cpu().numpy().astype(np.float32)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def _records(
    data: TrainingData, model: Model, config: TrainConfig, device: str
) -> Records:
    """The records of a model's split."""
    from pcer.train.cpu import CpuDevice

    n_features = data.features.shape[1]
    table = record_table(data, [model.seed], config, CpuDevice())[:-1].to(device)
    return Records(
        features=table[:, :n_features].contiguous(),
        labels=table[:, n_features + EXTRA_COLUMNS - 1],
        train_rows=torch.from_numpy(data.train_rows[model.seed]).to(device),
    )


def _start_of_fault(model: Model) -> str:
    """The beginning of a sentence about a training that fails."""
    budget = f"epsilon {model.epsilon:g}" if model.is_private else "no privacy"
    return f"The module fails in the training of seed {model.seed} with {budget}"


def _train(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    records: Records,
    batches: Iterator[Tensor],
) -> None:
    """Take a step for every batch, and leave the module in prediction mode."""
    from opacus import GradSampleModule

    hooked = GradSampleModule(module, loss_reduction="sum")
    for batch in batches:
        rows = records.train_rows[batch.to(records.train_rows.device)]
        _step(hooked, optimizer, records.features[rows], records.labels[rows])
    hooked.to_standard_module().eval()


def _step(
    hooked: nn.Module,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    labels: Tensor,
) -> None:
    """One step; an empty batch gives noise only, without calling the module."""
    optimizer.zero_grad()
    if len(features) > 0:
        logits = logits_of(hooked, features)
        loss = nn.functional.binary_cross_entropy_with_logits
        loss(logits, labels, reduction="sum").backward()  # type: ignore[no-untyped-call]
    else:
        for p in hooked.parameters():
            if p.requires_grad:  # the gradients of no records, where Opacus keeps them
                p.grad_sample = p.new_zeros(0, *p.shape)  # type: ignore[attr-defined]
    optimizer.step()


def torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    """Seed of a torch generator for one purpose of a model."""
    return int(model.stream(purpose, secret).random_raw()) >> 1


def batch_rows(model: Model, sampling: Sampling, secret: bytes) -> Iterator[Tensor]:
    """The Poisson batches of a model, as positions in its training split.

    Some may be empty.
    """
    rows = torch.empty(sampling.n_steps, Widths.of(sampling).full, dtype=torch.int32)
    everybody = torch.arange(sampling.n_train, dtype=torch.int32)
    words = first_words(model.stream(Purpose.SAMPLING, secret))
    sizes = Drawer(sampling, rows.device).fill(rows, words, everybody)
    for row, size in zip(rows, sizes.tolist(), strict=True):
        yield row[:size].long()


def private_optimizer(
    module: nn.Module,
    model: Model,
    config: TrainConfig,
    sampling: Sampling,
    secret: bytes,
) -> torch.optim.Optimizer:
    """SGD that clips, adds noise from the model's stream and divides.

    The divisor is the expected batch.
    """
    # Opacus' optimizer with other noise: a torch generator on a CPU uses only 32 bits
    # of its seed, so two models would sometimes share their noise, and somebody who
    # knows all but one record could try all seeds. The key of a stream has 128 bits.
    from opacus.optimizers import DPOptimizer

    normal = np.random.Generator(model.stream(Purpose.NOISE, secret))

    class StreamedNoise(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
        def add_noise(self) -> None:
            std = self.noise_multiplier * self.max_grad_norm
            for p in self.params:
                p.grad = p.summed_grad.view_as(p)
                if self.noise_multiplier:
                    drawn = torch.from_numpy(std * normal.standard_normal(p.shape))
                    p.grad = p.grad + drawn.to(p)

    return StreamedNoise(
        torch.optim.SGD(module.parameters(), config.learning_rate, config.momentum),
        noise_multiplier=model.noise_multiplier,
        max_grad_norm=config.clip_norm if model.is_private else UNBOUNDED_CLIP,
        expected_batch_size=sampling.expected_batch,
        loss_reduction="mean",
    )
