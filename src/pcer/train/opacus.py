"""How is a ``torch.nn.Module`` of the user's own made, tried and trained privately?

A factory is any function of the number of features; ``NamedModule`` is one that worker
processes and releases can name. Its modules are tried on made-up records, then trained
through Opacus: batches, budgets, normalisation and results are the engine's, only
per-record gradients come from Opacus, which rejects layers that it knows to mix
records. ``run`` and sweeps call ``require_private`` first, ``run`` calls
``train_module`` for every model, and both note ``module_digest``. To add a trial: a
generator of faults, in ``_faults``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pcer.errors import InputError, PcerError, clipped
from pcer.models import folder_first, object_named
from pcer.store.blocks import file_digest, record_digest
from pcer.train.config import ReceiptMode, Sampling, TrainConfig
from pcer.train.engine import EXTRA_COLUMNS, one_thread, record_table
from pcer.train.fleet import Float32Array, Model, TrainingData, require_sound
from pcer.train.rules import DpSgd
from pcer.train.streams import Drawer, Purpose, Widths, first_words

ModuleFactory = Callable[[int], nn.Module]  # a fresh module for a number of features

LONGEST_FAULT = 300  # characters of an error that is not ours

# Of these packages, blocks note the versions instead of digests of the sources.
SHIPPED = ("torch", "opacus")

N_PROBES = 6  # made-up records of the smallest batch
N_SEEDS = 64  # of the smallest batch: what mixes in one of ten calls is found
FAR = 1e4  # size of records that would change others' logits if these were mixed
MORE_CALLS = 10  # of a trial, beyond those of two epochs
STEP = 0.01  # of trial steps, large enough to change every logit
TOLERANCE = 1e-3  # of float32 sums, relative to the largest; faults are far larger

# Clip norm without privacy: above any gradient, and finite, since Opacus multiplies it
# by the noise multiplier 0.
UNBOUNDED_CLIP = 1e30
CHUNK = 4096  # records predicted at a time


@dataclass(frozen=True, kw_only=True)
class NamedModule:
    """What makes the torch modules of a sweep.

    Attributes:
        name: ``package.module:function``, called with the number of features; it
            returns a fresh ``torch.nn.Module`` that gives one logit per record, or two.
        folder: looked into first for the package.
        settings: further arguments, by name; plain values.
    """

    name: str
    folder: Path = field(default_factory=Path.cwd)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, n_features: int) -> nn.Module:
        """A fresh module for a number of features."""
        with folder_first(self.folder), failing_as(f"{self.name} fails"):
            module: nn.Module = self.function()(n_features, **self.settings)
        return module

    def describe(self, n_features: int) -> dict[str, Any]:
        """What scores depend on; texts of the settings may be private."""
        module = seeded_module(self, n_features, 0)
        weights = [p.numel() for p in module.parameters() if p.requires_grad]
        numbers = {}
        for name, value in self.settings.items():
            is_number = isinstance(value, bool | int | float)
            if is_number and math.isfinite(value):
                numbers[name] = value
        return {
            "module": self.name,
            "module_settings": numbers,
            "module_weights": sum(weights),
            "module_digest": module_digest(self, n_features),
        }

    def function(self) -> Any:
        """What is called: the object of that name."""
        return object_named(self.name, folder=self.folder, example="mymodels:make_net")


def module_digest(factory: ModuleFactory, n_features: int) -> str:
    """Digest of all about a factory's modules but their random weights.

    It covers the arguments, the layers, the sources outside torch and Opacus, and all
    values that two seeds have in common.
    """
    module = seeded_module(factory, n_features, 0)
    reseeded = seeded_module(factory, n_features, 1)
    settings = factory.settings if isinstance(factory, NamedModule) else {}
    content = {
        "layers": str(module),
        "settings": {name: repr(value) for name, value in settings.items()},
        "sources": _source_digests(factory, module),
        "constant": _constant_tensors(module, reseeded),
        # The text of a module does not print all of them.
        "plain": sorted(_plain_values(module) & _plain_values(reseeded)),
    }
    return record_digest(content)


def _source_digests(factory: ModuleFactory, module: nn.Module) -> list[str]:
    function = factory.function() if isinstance(factory, NamedModule) else factory
    digests = set()
    for kind in (function, *map(type, module.modules())):
        package = getattr(kind, "__module__", "").partition(".")[0]
        if package not in SHIPPED:
            digests.add(_source_digest(kind))
    return sorted(digests)


def _source_digest(kind: Any) -> str:
    """Digest of the file, or in a notebook the text, of a function or class; or ""."""
    with suppress(OSError, TypeError):
        path = Path(inspect.getsourcefile(kind) or "")
        if path.is_file():
            return file_digest(path)
        return record_digest({"": inspect.getsource(kind)})
    return ""


def _constant_tensors(module: nn.Module, reseeded: nn.Module) -> dict[str, str]:
    others = reseeded.state_dict()
    digests = {}
    for name, value in module.state_dict().items():
        if name in others and are_equal(value, others[name]):
            digests[name] = sha256(value.numpy().tobytes()).hexdigest()
    return digests


def _plain_values(module: nn.Module) -> set[tuple[int, str, str]]:
    """What layers hold beside weights: position, name, and value as text.

    Sets, whose order may change, and objects that print their address are left out.
    """
    attributes = chain.from_iterable(vars(layer).items() for layer in module.modules())
    values = set()
    for position, (name, value) in enumerate(attributes):
        printable = getattr(value, "__name__", value)
        if name.startswith("_") or type(printable) is set:
            continue
        text = repr(printable)
        if " at 0x" not in text:
            values.add((position, name, text))
    return values


def are_equal(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors have the same shape and values, NaN where the other has."""
    if first.shape != second.shape:
        return False
    return torch.equal(first.nan_to_num(), second.nan_to_num())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generators, one for each device, and restore them afterwards."""
    uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    n_devices = torch.cuda.device_count() if uses_cuda else 0
    with torch.random.fork_rng(devices=range(n_devices)):
        torch.manual_seed(seed)
        yield


@contextmanager
def failing_as(words: str, *, quoted: bool = True) -> Iterator[None]:
    """Turn what a module raises into a sentence; ``quoted`` may show a record."""
    try:
        yield
    except PcerError:
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}" if quoted else type(error).__name__
        raise InputError(
            f"{words} ({clipped(fault, LONGEST_FAULT)}); try it in Python."
        ) from error


def name_of(factory: ModuleFactory) -> str:
    """Its name in sentences."""
    return factory.name if isinstance(factory, NamedModule) else "The module"


def seeded_module(factory: ModuleFactory, n_features: int, seed: int) -> nn.Module:
    """A module with random weights from a seed; torch's generator is left alone."""
    with seeded(seed):
        module = factory(n_features)
    if not isinstance(module, nn.Module):
        kind = type(module).__name__
        raise InputError(
            f"{name_of(factory)} must return a torch.nn.Module, not {kind}."
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError(
            f"{name_of(factory)} returns a module that has no weights to train."
        )
    return module


def logits_of(
    module: nn.Module, features: Tensor, *, name: str = "The module"
) -> Tensor:
    """Log odds of the positive label (record,): one logit, or second less first."""
    output = module(features)
    n = len(features)
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape not in ((n,), (n, 1), (n, 2)):
        raise InputError(
            f"{name} must give one logit per record, or two, but gave {shape} for {n} "
            "records; end it with nn.Linear(..., 1)."
        )
    logits: Tensor = output.reshape(-1)
    if shape == (n, 2):
        logits = output[:, 1] - output[:, 0]
    return logits


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
    """Raise InputError unless modules for such features can be trained privately."""
    name = name_of(factory)
    if config.rule != DpSgd.name or config.receipts is not ReceiptMode.NONE:
        raise InputError(
            f"{name} is trained through Opacus, which clips all records at one norm "
            f"and sees the norms of a batch only, but rule {config.rule!r} and "
            f"receipts {str(config.receipts)!r} were given; use rule 'dp-sgd' and "
            "receipts 'none'."
        )
    n_records, n_features = shape
    with (
        one_thread(),
        failing_as(f"{name} fails on made-up records of {n_features} features"),
    ):
        trial = _trial(factory, n_features, config.sampling(n_records))
        for fault in _faults(trial):
            raise InputError(f"{name} {fault}.")


def _trial(factory: ModuleFactory, n_features: int, sampling: Sampling) -> Trial:
    fresh = partial(seeded_module, factory, n_features, 0)
    expected = max(1, sampling.n_train // sampling.steps_per_epoch)
    sizes = (N_PROBES, expected, Widths.of(sampling).full)
    n_calls = 2 * sampling.steps_per_epoch + MORE_CALLS
    calls = tuple(islice(cycle(sizes), n_calls))

    generator = torch.Generator().manual_seed(0)
    n_records = max(CHUNK, *sizes)
    first, others = torch.randn(2, n_records, n_features, generator=generator)
    others.mul_(2).add_(3)
    others[::2] = first[::2]
    name = name_of(factory)
    return Trial(name, fresh, fresh(), fresh(), first, others, sizes, calls)


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
    for problem in ModuleValidator.validate(module) + GradSampleModule.validate(module):
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
    """Weights, buffers, logits of a fresh copy after random steps on some records."""
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
        for n_records in (*range(2, N_PROBES), *trial.sizes, CHUNK):
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
    few = trial.first[:N_PROBES]

    def logits(
        batch: Tensor, twins_batch: Tensor, seed: int = 0, twins_seed: int = 0
    ) -> list[Tensor]:
        with torch.no_grad():
            with seeded(seed):
                one = logits_of(module, batch)
            with seeded(twins_seed):
                return [one, logits_of(twin, twins_batch)]

    for batch, others in _companies(trial, n_records):
        # What is drawn may decide whether records are mixed.
        for seed in range(N_SEEDS if n_records == N_PROBES else 1):
            in_batch, in_others = logits(batch, others, seed, seed)
            if not _are_close(in_batch[::2], in_others[::2]):
                return True
    is_deterministic = are_equal(*logits(first, first, twins_seed=1))
    if not is_deterministic:
        return False
    in_first, in_few = logits(first, few)
    return not _are_close(in_first[:N_PROBES], in_few[:n_records])


def _companies(trial: Trial, n_records: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of batches that share every second record, the first one among them."""
    first = trial.first[:n_records]
    others = trial.others[:n_records]
    yield first, others

    def beside(shared: Tensor, company: Tensor) -> Tensor:
        batch = company.clone()
        batch[::2] = shared[::2]
        return batch

    yield first, beside(first, FAR * others)  # also what hardly mixes then shows
    yield first, beside(first, first.roll(1, dims=0))  # everybody twice
    low = -100 * first.abs()
    yield beside(low, low), beside(low, FAR * first.abs())  # limits set by the largest


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
    """Whether per-record gradients are just that; a frozen parameter needs none."""
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


def train_module(
    factory: ModuleFactory,
    data: TrainingData,
    model: Model,
    config: TrainConfig,
    *,
    secret: bytes = b"",
    device: str = "cpu",
) -> Float32Array:
    """Train one module by its streams and split; logits (record,) of all records."""
    from pcer.train.cpu import CpuDevice

    n_features = data.features.shape[1]
    table = record_table(data, [model.seed], config, CpuDevice())[:-1].to(device)
    features = table[:, :n_features].contiguous()
    labels = table[:, n_features + EXTRA_COLUMNS - 1]
    sampling = config.sampling(data.n_train)
    budget = f"epsilon {model.epsilon:g}" if model.is_private else "no privacy"
    fault = f"The module fails in the training of seed {model.seed} with {budget}"
    with one_thread(), failing_as(fault, quoted=False), _without_remarks():
        initial_seed = torch_seed(model, Purpose.INITIAL, secret)
        module = seeded_module(factory, n_features, initial_seed).to(device)
        optimizer = private_optimizer(module, model, config, sampling, secret)
        with seeded(torch_seed(model, Purpose.LAYERS, secret)):
            train_rows = torch.from_numpy(data.train_rows[model.seed])
            batches = batch_rows(model, sampling, secret)
            rows = (train_rows[batch].to(device) for batch in batches)
            _train(module, optimizer, features, labels, rows)
            with torch.no_grad():
                parts = [logits_of(module, x) for x in torch.split(features, CHUNK)]
    logits: Float32Array = torch.cat(parts).cpu().numpy().astype(np.float32)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def _train(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    labels: Tensor,
    batches: Iterator[Tensor],
) -> None:
    """Take a step for the rows of every batch; the module then predicts."""
    from opacus import GradSampleModule

    loss = nn.functional.binary_cross_entropy_with_logits
    hooked = GradSampleModule(module, loss_reduction="sum")
    for rows in batches:
        optimizer.zero_grad()
        if len(rows) > 0:
            logits = logits_of(hooked, features[rows])
            total = loss(logits, labels[rows], reduction="sum")
            total.backward()  # type: ignore[no-untyped-call]
        else:  # noise only: the gradients of no records, where Opacus keeps them
            for p in hooked.parameters():
                if p.requires_grad:
                    p.grad_sample = p.new_zeros(0, *p.shape)
        optimizer.step()
    hooked.to_standard_module().eval()


def torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    """Seed of a torch generator for one purpose of a model."""
    return int(model.stream(purpose, secret).random_raw()) >> 1


def batch_rows(model: Model, sampling: Sampling, secret: bytes) -> Iterator[Tensor]:
    """The Poisson batches of a model, as positions in its split; some may be empty."""
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
    """SGD that clips, adds the model's noise and divides by the expected batch."""
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
