"""Any ``torch.nn.Module``: made by its name, tried on made-up records, trained through Opacus.

Batches, budgets, normalisation and results are those of the engine; only the per-record gradients
come from Opacus, which knows most layers. Use it for models the engine does not have, one after
another.

Opacus names layers that it knows to mix records. What it does not know is found by trying: whether
a record's answer depends on who else is in the batch, whether something is kept of the records
without noise, and whether gradients of single records add up to that of all.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
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

N_PROBES = 6  # made-up records of a batch
TOLERANCE = 1e-3  # of float32 sums, relative to the largest; what is wrong is wrong by far more
LONGEST_FAULT = 300  # characters of an error that is not ours
SHIPPED = ("torch", "opacus")  # every block notes their versions; no digest covers their sources

# Clip norm without privacy: above any gradient, and finite, since Opacus multiplies it by the noise
# multiplier 0.
UNBOUNDED_CLIP = 1e30
CHUNK = 4096  # records predicted at a time


@dataclass(frozen=True, kw_only=True)
class NamedModule:
    """What makes the torch modules of a sweep.

    Attributes:
        name: ``package.module:function``, called with the number of features; it returns a fresh
            ``torch.nn.Module`` that gives one logit per record.
        folder: looked into first for the package.
        settings: further arguments, by name; plain values.
    """

    name: str
    folder: Path = field(default_factory=Path.cwd)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, n_features: int) -> nn.Module:
        """A fresh module for a number of features, wherever it is called."""
        with folder_first(self.folder), failing_as(f"{self.name} fails"):
            made: nn.Module = self._make()(n_features, **self.settings)
        return made

    def describe(self, n_features: int) -> dict[str, Any]:
        """What scores depend on, as plain JSON values for a release.

        Of the arguments, numbers; texts may be values of a category. The digest covers all of them,
        the layers, the source of every class among them that does not come with torch, that of the
        function, and weights that no seed changes.
        """
        module, reseeded = (seeded_module(self, n_features, seed) for seed in (0, 1))
        first, second = module.state_dict(), reseeded.state_dict()
        constant = [key for key in first if key in second and _are_equal(first[key], second[key])]
        content = {
            "layers": str(module),
            "settings": {key: repr(value) for key, value in self.settings.items()},
            "sources": sorted(_sources((self._make(), *map(type, module.modules())))),
            "constant": {k: sha256(first[k].numpy().tobytes()).hexdigest() for k in constant},
        }
        return {
            "module": self.name,
            "module_settings": {
                key: value
                for key, value in self.settings.items()
                if isinstance(value, bool | int | float) and math.isfinite(value)
            },
            "module_weights": sum(p.numel() for p in module.parameters() if p.requires_grad),
            "module_digest": record_digest(content),
        }

    def _make(self) -> Any:
        return object_named(self.name, folder=self.folder, example="mymodels:make_net")


def _sources(objects: Iterable[Any]) -> set[str]:
    """Digests of the files that define some classes and functions."""
    own = [x for x in objects if getattr(x, "__module__", "").partition(".")[0] not in SHIPPED]
    paths = [inspect.getsourcefile(each) for each in own]
    return {file_digest(Path(path)) if path else "" for path in paths}


def _are_equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Whatever draws from torch's generator draws from this seed's; afterwards it is as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def failing_as(words: str, *, quoted: bool = True) -> Iterator[None]:
    """Tell in one sentence what a user's module raises; its own message may quote a record."""
    try:
        yield
    except PcerError:
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}" if quoted else type(error).__name__
        raise InputError(f"{words} ({clipped(fault, LONGEST_FAULT)}); try it in Python.") from error


def name_of(factory: ModuleFactory) -> str:
    """How sentences call it."""
    return factory.name if isinstance(factory, NamedModule) else "The module"


def seeded_module(factory: ModuleFactory, n_features: int, seed: int) -> nn.Module:
    """A module whose random weights come from a seed; torch's own generator is left alone."""
    with seeded(seed):
        module = factory(n_features)
    if not isinstance(module, nn.Module):
        kind = type(module).__name__
        raise InputError(f"{name_of(factory)} must return a torch.nn.Module, not {kind}.")
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError(f"{name_of(factory)} returns a module that has no weights to train.")
    return module


def logits_of(module: nn.Module, features: Tensor, *, name: str = "The module") -> Tensor:
    """One logit per record, (record,)."""
    output = module(features)
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if shape not in ((len(features),), (len(features), 1)):
        raise InputError(
            f"{name} must give one logit per record, but gave {shape} for {len(features)} records; "
            "end it with nn.Linear(..., 1)."
        )
    logits: Tensor = output.reshape(-1)
    return logits


def require_private(factory: ModuleFactory, n_features: int, config: TrainConfig) -> None:
    """Raise InputError, with a remedy, unless what the factory makes can be trained privately."""
    name = name_of(factory)
    if config.rule != DpSgd.name or config.receipts is not ReceiptMode.NONE:
        raise InputError(  # those need norms of all training records, or bounds of single ones
            f"{name} is trained through Opacus, which clips all records at one norm and sees the "
            f"norms of a batch only, but rule {config.rule!r} and receipts {str(config.receipts)!r}"
            " were given; use rule 'dp-sgd' and receipts 'none'."
        )
    with failing_as(f"{name} fails on {N_PROBES} made-up records of {n_features} features"):
        module, twin = (seeded_module(factory, n_features, 0) for _ in range(2))
        generator = torch.Generator().manual_seed(0)
        first, others = (torch.randn(N_PROBES, n_features, generator=generator) for _ in range(2))
        others[0] = first[0]  # two batches whose first records are the same, and no others
        for fault in chain(
            _what_is_not_fresh(module, twin),
            _layers_that_mix(module),
            _what_depends_on_others(module, twin, first, others, name),
            _gradients_of_nobody(module, first),
        ):
            raise InputError(f"{name} {fault}.")


def _what_is_not_fresh(module: nn.Module, twin: nn.Module) -> Iterator[str]:
    """A seed must give a model of its own, and always the same."""
    if {id(p) for p in module.parameters()} & {id(p) for p in twin.parameters()}:
        yield "returns the same weights again; make a fresh module in every call"
    first, second = module.state_dict(), twin.state_dict()
    if first.keys() != second.keys() or not all(_are_equal(first[k], second[k]) for k in first):
        yield (
            "gives other weights for the same torch seed, so that nothing could be repeated; draw "
            "initial weights through torch alone"
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
    for problem in (*ModuleValidator.validate(module), *GradSampleModule.validate(module)):
        yield (
            "cannot be trained with per-record gradients "
            f"({clipped(str(problem).rstrip('. '), LONGEST_FAULT)}); replace that layer, for "
            "example by opacus.validators.ModuleValidator.fix"
        )


def _what_depends_on_others(
    module: nn.Module, twin: nn.Module, first: Tensor, others: Tensor, name: str
) -> Iterator[str]:
    """Neither the answer for a record, nor what is kept, may depend on the others of a batch."""
    answers = []
    for mine, batch in ((module, first), (twin, others)):
        with torch.no_grad(), seeded(0):
            answers.append(logits_of(mine, batch, name=name)[0])
    if not torch.allclose(answers[0], answers[1], rtol=TOLERANCE, atol=TOLERANCE):
        yield (
            "cannot be trained privately: what it says of a record depends on who else is in the "
            "batch; compute nothing over the first axis (nn.GroupNorm is a norm that does not)"
        )
    kept, other = dict(module.named_buffers()), dict(twin.named_buffers())
    for key in kept:
        if key not in other or not _are_equal(kept[key], other[key]):
            yield (
                f"cannot be trained privately: its buffer {key} keeps something of the records it "
                "sees, without noise; leave that out (track_running_stats=False)"
            )


def _gradients_of_nobody(module: nn.Module, features: Tensor) -> Iterator[str]:
    """Gradients of single records, by Opacus, must add up to the one that torch finds."""
    from opacus import GradSampleModule

    hooked = GradSampleModule(module, loss_reduction="sum")
    with _without_remarks(), seeded(0):
        logits_of(hooked, features).square().sum().backward()  # type: ignore[no-untyped-call]
    for key, p in module.named_parameters():
        single: Any = getattr(p, "grad_sample", None)
        adds_up = not p.requires_grad
        if p.grad is not None and isinstance(single, Tensor) and len(single) == len(features):
            most = TOLERANCE * max(1.0, float(p.grad.abs().max()))
            adds_up |= torch.allclose(single.sum(dim=0), p.grad, rtol=TOLERANCE, atol=most)
        if not adds_up:
            yield (
                f"cannot be trained privately: the gradient of {key} cannot be told for single "
                "records; use every weight, in the layer that it belongs to and no other, or "
                "freeze it (requires_grad=False)"
            )
    hooked.to_standard_module()


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Torch remarks that inputs need no gradient: they do not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook", category=UserWarning)
        yield


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
    from opacus import GradSampleModule

    from pcer.train.cpu import CpuDevice

    table = record_table(data, [model.seed], config, CpuDevice())[:-1]
    n, sampling = data.features.shape[1], config.sampling(data.n_train)
    features, labels = table[:, :n].contiguous(), table[:, n + EXTRA_COLUMNS - 1]
    train = torch.from_numpy(data.train_rows[model.seed])
    budget = f"epsilon {model.epsilon:g}" if model.is_private else "no privacy"
    where = f"The module fails in the training of seed {model.seed} with {budget}"
    with one_thread(), failing_as(where, quoted=False), _without_remarks():
        module = seeded_module(factory, n, torch_seed(model, Purpose.INITIAL, secret))
        optimizer = private_optimizer(module, model, config, sampling, secret)
        hooked = GradSampleModule(module, loss_reduction="sum")
        with seeded(torch_seed(model, Purpose.LAYERS, secret)):
            for rows in batch_rows(model, sampling, secret):
                _step(hooked, optimizer, features[train[rows]], labels[train[rows]])
            hooked.to_standard_module().eval()
            with torch.no_grad():
                parts = [logits_of(module, part) for part in torch.split(features, CHUNK)]
    logits: Float32Array = torch.cat(parts).numpy().astype(np.float32)
    require_sound([model], np.array([np.isfinite(logits).all()]), config)
    return logits


def _step(hooked: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """One step; that of an empty batch is noise alone, and the module is not asked."""
    optimizer.zero_grad()
    if len(x):
        logits, loss = logits_of(hooked, x), nn.functional.binary_cross_entropy_with_logits
        loss(logits, y, reduction="sum").backward()  # type: ignore[no-untyped-call]
    for p in () if len(x) else hooked.parameters():
        if p.requires_grad:  # the gradients of no records, where Opacus keeps them
            p.grad_sample = torch.zeros(0, *p.shape)  # type: ignore[attr-defined]
    optimizer.step()


def torch_seed(model: Model, purpose: Purpose, secret: bytes) -> int:
    """What seeds a generator of torch for one purpose of a model."""
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
    module: nn.Module, model: Model, config: TrainConfig, sampling: Sampling, secret: bytes
) -> torch.optim.Optimizer:
    """SGD that clips, adds noise from the model's stream and divides by the expected batch.

    It is Opacus' optimizer with other noise. A generator of torch is seeded with 32 bits on a CPU,
    whatever the seed: two models would share their noise now and then, and who knows all but one
    record could try all seeds. The key of a stream has 128 bits.
    """
    from opacus.optimizers import DPOptimizer

    normal = np.random.Generator(model.stream(Purpose.NOISE, secret))

    class StreamedNoise(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
        def add_noise(self) -> None:
            std = self.noise_multiplier * self.max_grad_norm
            for p in self.params:
                p.grad = p.summed_grad.view_as(p)
                if self.noise_multiplier:
                    drawn = torch.from_numpy(std * normal.standard_normal(p.shape))
                    p.grad = p.grad + drawn.to(p.dtype)

    return StreamedNoise(
        torch.optim.SGD(module.parameters(), config.learning_rate, config.momentum),
        noise_multiplier=model.noise_multiplier,
        max_grad_norm=config.clip_norm if model.is_private else UNBOUNDED_CLIP,
        expected_batch_size=sampling.expected_batch,
        loss_reduction="mean",
    )
