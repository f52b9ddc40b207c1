"""Any ``torch.nn.Module``: made by name, tried on made-up records, trained through Opacus.

Batches, budgets, normalisation and results are those of the engine; only the per-record
gradients come from Opacus, which knows most layers. Models train one after another.

Opacus rejects layers that it knows to mix records. Trials on made-up records find the
others: whether a record's logit or gradient depends on the rest of the batch, whether
the module keeps something of the records, and whether per-record gradients add up to
the total.
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
from pcer.train.schedule import Drawer, Widths
from pcer.train.streams import Purpose, first_words

ModuleFactory = Callable[[int], nn.Module]  # a fresh module for a number of features

N_PROBES = 6  # made-up records of the smallest batch
MORE_CALLS = 10  # of a trial, beyond those of two epochs
STEP = 0.01  # of trial steps, large enough to change every logit
TOLERANCE = 1e-3  # of float32 sums, relative to the largest; faults are far larger
LONGEST_FAULT = 300  # characters of an error that is not ours
SHIPPED = (
    "torch",
    "opacus",
)  # blocks note their versions instead of digests of their sources

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
            made: nn.Module = self.function()(n_features, **self.settings)
        return made

    def describe(self, n_features: int) -> dict[str, Any]:
        """What scores depend on, as plain JSON values for a release.

        Numeric arguments are named; texts may be values of a category.
        """
        module = seeded_module(self, n_features, 0)
        numbers = {
            k: x for k, x in self.settings.items() if isinstance(x, bool | int | float)
        }
        return {
            "module": self.name,
            "module_settings": {k: x for k, x in numbers.items() if math.isfinite(x)},
            "module_weights": sum(
                p.numel() for p in module.parameters() if p.requires_grad
            ),
            "module_digest": module_digest(self, n_features),
        }

    def function(self) -> Any:
        """What is called: the object of that name."""
        return object_named(self.name, folder=self.folder, example="mymodels:make_net")


def module_digest(factory: ModuleFactory, n_features: int) -> str:
    """Digest of a factory's arguments, layers, sources outside torch, and what any seed holds."""
    module, reseeded = (seeded_module(factory, n_features, seed) for seed in (0, 1))
    first = module.state_dict()
    second = reseeded.state_dict()
    constant = [
        key for key in first if key in second and _are_equal(first[key], second[key])
    ]
    named = factory if isinstance(factory, NamedModule) else None
    kinds = (named.function() if named else factory, *map(type, module.modules()))
    own = [
        x
        for x in kinds
        if getattr(x, "__module__", "").partition(".")[0] not in SHIPPED
    ]
    content = {
        "layers": str(module),
        "settings": {k: repr(x) for k, x in (named.settings if named else {}).items()},
        "sources": sorted({_source_digest(kind) for kind in own}),
        "constant": {
            k: sha256(first[k].numpy().tobytes()).hexdigest() for k in constant
        },
        "plain": sorted(
            _plain_values(module) & _plain_values(reseeded)
        ),  # not all are printed
    }
    return record_digest(content)


def _source_digest(kind: Any) -> str:
    """Digest of the file of a function or class, or of its text in a notebook; empty if unknown."""
    with suppress(OSError, TypeError):
        path = Path(inspect.getsourcefile(kind) or "")
        return (
            file_digest(path)
            if path.is_file()
            else record_digest({"": inspect.getsource(kind)})
        )
    return ""


def _plain_values(module: nn.Module) -> set[tuple[int, str, str]]:
    """What layers hold beside weights, as text: numbers, names, lists and records of such."""
    held = [
        (k, getattr(x, "__name__", x))
        for m in module.modules()
        for k, x in vars(m).items()
    ]
    own = [
        (n, k, repr(x))
        for n, (k, x) in enumerate(held)
        if k[0] != "_" and type(x) is not set
    ]
    return {each for each in own if " at 0x" not in each[2]}  # another in every process


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(
        first.nan_to_num(), second.nan_to_num()
    )


def _are_close(found: Tensor, expected: Tensor) -> bool:
    most = TOLERANCE * max(1.0, float(expected.nan_to_num().abs().max()))
    return torch.allclose(found, expected, rtol=TOLERANCE, atol=most, equal_nan=True)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's generators, which are one for each device, and restore them afterwards."""
    is_used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(
        devices=range(torch.cuda.device_count() if is_used else 0)
    ):
        torch.manual_seed(seed)
        yield


@contextmanager
def failing_as(words: str, *, quoted: bool = True) -> Iterator[None]:
    """Turn what a user's module raises into one sentence; its message may quote a record."""
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
    """A module whose random weights come from a seed; torch's generator is left alone."""
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
    """Log odds of the positive label, (record,): the only logit, or the second less the first."""
    output = module(features)
    n = len(features)
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape not in ((n,), (n, 1), (n, 2)):
        raise InputError(
            f"{name} must give one logit per record, or two, but gave {shape} for {n} records; "
            "end it with nn.Linear(..., 1)."
        )
    logits: Tensor = (
        output[:, 1] - output[:, 0] if shape == (n, 2) else output.reshape(-1)
    )
    return logits


def require_private(
    factory: ModuleFactory, shape: tuple[int, int], config: TrainConfig
) -> None:
    """Raise InputError unless what the factory makes, for features of a shape, can be private."""
    name = name_of(factory)
    (n_records, n_features) = shape
    if config.rule != DpSgd.name or config.receipts is not ReceiptMode.NONE:
        # those need norms of all training records, or bounds of single ones
        raise InputError(
            f"{name} is trained through Opacus, which clips all records at one norm and sees the "
            f"norms of a batch only, but rule {config.rule!r} and receipts {str(config.receipts)!r}"
            " were given; use rule 'dp-sgd' and receipts 'none'."
        )
    sampling = config.sampling(n_records)
    sizes = (
        N_PROBES,
        max(1, n_records // sampling.steps_per_epoch),
        Widths.of(sampling).full,
    )
    calls = islice(cycle(sizes), 2 * sampling.steps_per_epoch + MORE_CALLS)
    fresh = partial(seeded_module, factory, n_features, 0)
    generator = torch.Generator().manual_seed(0)
    first, others = torch.randn(2, max(CHUNK, *sizes), n_features, generator=generator)
    others.mul_(2).add_(3)[::2] = first[
        ::2
    ]  # every other record is the same, the rest far away
    with (
        one_thread(),
        failing_as(f"{name} fails on made-up records of {n_features} features"),
    ):
        module = fresh()
        twin = fresh()
        for fault in chain(
            _what_is_not_fresh(module, twin),
            _layers_that_mix(module),
            _what_is_kept(fresh, first, others, tuple(calls), name),
            _what_depends_on_others(module, twin, first, others, (*sizes, CHUNK)),
            *(_gradients_of_nobody(fresh, first[:n], others[:n]) for n in sizes[::2]),
        ):
            raise InputError(f"{name} {fault}.")


def _what_is_not_fresh(module: nn.Module, twin: nn.Module) -> Iterator[str]:
    """Different seeds must give different models, and one seed always the same."""
    if {id(p) for p in module.parameters()} & {id(p) for p in twin.parameters()}:
        yield "returns the same weights again; make a fresh module in every call"
    first = module.state_dict()
    second = twin.state_dict()
    if first.keys() != second.keys() or not all(
        _are_equal(first[k], second[k]) for k in first
    ):
        yield (
            "gives other weights for the same torch seed, so nothing could be repeated; draw "
            "initial weights only through torch"
        )


def _layers_that_mix(module: nn.Module) -> Iterator[str]:
    """Layers that are known to mix records, by their names."""
    from opacus import GradSampleModule
    from opacus.validators import ModuleValidator

    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            yield (
                "cannot be trained with per-record gradients: its layer "
                f"{repr(path) if path else 'of all'} ({type(layer).__name__}) mixes the records of "
                "a batch; use nn.GroupNorm there, or opacus.validators.ModuleValidator.fix"
            )
    for problem in (
        *ModuleValidator.validate(module),
        *GradSampleModule.validate(module),
    ):
        yield (
            "cannot be trained with per-record gradients "
            f"({clipped(str(problem).rstrip('. '), LONGEST_FAULT)}); replace that layer, for "
            "example by opacus.validators.ModuleValidator.fix"
        )


def _what_is_kept(
    fresh: Callable[[], nn.Module],
    first: Tensor,
    others: Tensor,
    sizes: tuple[int, ...],
    name: str,
) -> Iterator[str]:
    """Two copies see different records and take the same steps; they must end up equal."""
    # Different steps would also change what is computed from weights, which the noise
    # hides. One copy runs before the other sees anything, as they might share state.
    found = list[dict[str, Tensor]]()
    for batch in (first, others):
        module = fresh()
        generator = torch.Generator().manual_seed(0)
        with seeded(0):
            for size in sizes:
                logits = logits_of(module, batch[:size], name=name)
                logits.square().sum().backward()  # type: ignore[no-untyped-call]
                for p in module.parameters():
                    p.data += (
                        p.requires_grad
                        * STEP
                        * torch.randn(p.shape, generator=generator)
                    )
        left = {key: value.clone() for key, value in module.state_dict().items()}
        with seeded(0), torch.no_grad():
            left["training"] = logits_of(module, first[: max(sizes)])
            left["prediction"] = logits_of(module.eval(), first[: max(sizes)])
        found.append(left)
    for key, value in found[0].items():
        if key not in found[1] or not _are_equal(value, found[1][key]):
            yield (
                "cannot be trained privately: it keeps something of the records it sees, without "
                f"noise (see its {key}); leave that out (track_running_stats=False)"
            )


def _what_depends_on_others(
    module: nn.Module,
    twin: nn.Module,
    first: Tensor,
    others: Tensor,
    sizes: tuple[int, ...],
) -> Iterator[str]:
    """A record's logit must not depend on the others, in training and in predictions."""

    def said(one: Tensor, other: Tensor, seed: int = 0) -> Iterator[Tensor]:
        for mine, batch, drawn in ((module, one, 0), (twin, other, seed)):
            with torch.no_grad(), seeded(drawn):
                yield logits_of(mine, batch)

    for call, n in enumerate(sizes + sizes):
        if call == len(sizes):  # from here on in prediction mode
            module = module.eval()
            twin = twin.eval()
        here, there = said(first[:n], others[:n])
        depends = not _are_close(here[::2], there[::2])
        if _are_equal(
            *said(first[:n], first[:n], seed=1)
        ):  # the module is deterministic
            here, there = said(first[:n], first[:N_PROBES])
            depends |= not _are_close(here[:N_PROBES], there[:n])
        if depends:
            yield (
                "cannot be trained privately: a record's logit depends on others in its batch; "
                "compute nothing over the first axis (use nn.GroupNorm as a norm)"
            )


def _gradients_of_nobody(
    fresh: Callable[[], nn.Module], first: Tensor, others: Tensor
) -> Iterator[str]:
    """Opacus' per-record gradients must be independent and add up to torch's gradient."""
    from opacus import GradSampleModule

    found = list[Any]()
    for batch in (first, others):
        module = fresh()
        hooked = GradSampleModule(module, loss_reduction="sum")
        with _without_remarks(), seeded(0):
            logits_of(hooked, batch).square().sum().backward()  # type: ignore[no-untyped-call]
        found.append(module.named_parameters())
    for (key, p), (_, beside) in zip(*found, strict=True):
        single = getattr(p, "grad_sample", None)
        is_theirs = not p.requires_grad
        if (
            p.grad is not None
            and isinstance(single, Tensor)
            and len(single) == len(first)
        ):
            is_theirs |= _are_close(single.sum(dim=0), p.grad)
            is_theirs &= _are_close(single[::2], beside.grad_sample[::2])
        if not is_theirs:
            yield (
                f"cannot be trained privately: Opacus has no per-record gradients of {key}; "
                "use every weight only in its own layer, or freeze it (requires_grad=False)"
            )


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
    """Train one module: its logits (record,) on all records, by its streams and split only."""
    from opacus import GradSampleModule

    from pcer.train.cpu import CpuDevice

    table = record_table(data, [model.seed], config, CpuDevice())[:-1].to(device)
    n = data.features.shape[1]
    sampling = config.sampling(data.n_train)
    features = table[:, :n].contiguous()
    labels = table[:, n + EXTRA_COLUMNS - 1]
    train = torch.from_numpy(data.train_rows[model.seed]).to(device)
    budget = f"epsilon {model.epsilon:g}" if model.is_private else "no privacy"
    where = f"The module fails in the training of seed {model.seed} with {budget}"
    with one_thread(), failing_as(where, quoted=False), _without_remarks():
        module = seeded_module(
            factory, n, torch_seed(model, Purpose.INITIAL, secret)
        ).to(device)
        optimizer = private_optimizer(module, model, config, sampling, secret)
        hooked = GradSampleModule(module, loss_reduction="sum")
        with seeded(torch_seed(model, Purpose.LAYERS, secret)):
            for rows in batch_rows(model, sampling, secret):
                chosen = train[rows.to(device)]
                _step(hooked, optimizer, features[chosen], labels[chosen])
            hooked.to_standard_module().eval()
            with torch.no_grad():
                parts = [
                    logits_of(module, part) for part in torch.split(features, CHUNK)
                ]
    logits: Float32Array = torch.cat(parts).cpu().numpy().astype(np.float32)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def _step(
    hooked: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor
) -> None:
    """One step; an empty batch gives noise only, without calling the module."""
    optimizer.zero_grad()
    if len(x):
        logits = logits_of(hooked, x)
        loss = nn.functional.binary_cross_entropy_with_logits
        loss(logits, y, reduction="sum").backward()  # type: ignore[no-untyped-call]
    for p in () if len(x) else hooked.parameters():
        if p.requires_grad:  # the gradients of no records, where Opacus keeps them
            p.grad_sample = p.new_zeros(0, *p.shape)  # type: ignore[attr-defined]
    optimizer.step()


def torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    """Seed of a torch generator for one purpose of a model."""
    return int(model.stream(purpose, secret).random_raw()) >> 1


def batch_rows(model: Model, sampling: Sampling, secret: bytes) -> Iterator[Tensor]:
    """The Poisson batches of a model, as positions in its training split; some may be empty."""
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
    """SGD that clips, adds noise from the model's stream and divides by the expected batch."""
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
