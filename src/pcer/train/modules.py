"""A torch module of the user's own: made by its name, and tried before anything is trained.

Opacus names layers that it knows to mix records. What it does not know is found by trying on a few
made-up records: whether a record's answer depends on who else is in the batch, whether something
is kept of the records without noise, and whether gradients of single records add up to that of all.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pcer.errors import InputError, PcerError, clipped
from pcer.models import folder_first, object_named
from pcer.store import record_digest

ModuleFactory = Callable[[int], nn.Module]
"""Makes a fresh module for a number of features; it gives one logit per record."""

N_PROBES = 6
TOLERANCE = 1e-3
"""Of sums of float32 gradients, relative to the largest; what is wrong is wrong by far more."""

LONGEST_FAULT = 300
SHIPPED = ("torch", "opacus")
"""Packages whose versions every block notes; their sources are no part of a digest."""


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

    @property
    def factory(self) -> ModuleFactory:
        """What makes a module for a number of features, wherever it is called."""
        make = partial(self._make(), **self.settings)

        def factory(n_features: int) -> nn.Module:
            with folder_first(self.folder), failing_as(f"{self.name} fails"):
                made: nn.Module = make(n_features)
            return made

        return factory

    def require_private(self, n_features: int) -> None:
        """Raise InputError unless it makes modules that can be trained privately."""
        require_private(self.factory, n_features, name=self.name)

    def describe(self, n_features: int) -> dict[str, Any]:
        """What scores depend on, as plain JSON values for a release.

        Of the arguments, numbers; texts may be values of a category. The digest covers all of them,
        the layers, the source of every class among them that does not come with torch, that of the
        function, and weights that no seed changes.
        """
        module = seeded_module(self.factory, n_features, 0, name=self.name)
        trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
        constant = constant_tensors(self.factory, n_features, name=self.name)
        content = {
            "layers": str(module),
            "settings": {key: repr(value) for key, value in self.settings.items()},
            "sources": sorted(_sources((self._make(), *map(type, module.modules())))),
            "constant": {key: _digest(value.numpy().tobytes()) for key, value in constant.items()},
        }
        return {
            "module": self.name,
            "module_settings": {k: v for k, v in self.settings.items() if _is_number(v)},
            "module_weights": trained,
            "module_digest": record_digest(content),
        }

    def _make(self) -> Any:
        return object_named(self.name, folder=self.folder, example="mymodels:make_net")


def _sources(objects: Iterable[Any]) -> set[str]:
    """Digests of the files that define some classes and functions."""
    own = [x for x in objects if getattr(x, "__module__", "").partition(".")[0] not in SHIPPED]
    paths = [inspect.getsourcefile(each) for each in own]
    return {_digest(Path(path).read_bytes()) if path else "" for path in paths}


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def require_private(factory: ModuleFactory, n_features: int, *, name: str) -> None:
    """Raise InputError, with a remedy, unless what the factory makes can be trained privately."""
    with failing_as(f"{name} fails on {N_PROBES} made-up records of {n_features} features"):
        one, same = (seeded_module(factory, n_features, 0, name=name) for _ in range(2))
        _require_fresh(one, same, name)
        require_known_layers(one, name=name)
        first, others = _probes(n_features)
        _require_alone(one, same, first, others, name)
        _require_gradients(one, first, name)


def seeded_module(factory: ModuleFactory, n_features: int, seed: int, *, name: str) -> nn.Module:
    """A module whose random weights come from a seed; torch's own generator is left alone."""
    with seeded(seed):
        module = factory(n_features)
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{name} must return a torch.nn.Module, but returned {type(module).__name__}."
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise InputError(f"{name} returns a module that has no weights to train.")
    return module


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Whatever draws from torch's generator draws from this seed's."""
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
        told = f"{type(error).__name__}: {error}" if quoted else type(error).__name__
        raise InputError(f"{words} ({clipped(told, LONGEST_FAULT)}); try it in Python.") from error


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


def require_known_layers(module: nn.Module, *, name: str = "The module") -> None:
    """Raise InputError, naming the layer, for layers that are known to mix records."""
    from opacus import GradSampleModule
    from opacus.validators import ModuleValidator

    for path, layer in module.named_modules():
        where = repr(path) if path else "of all"
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            raise InputError(
                f"{name} cannot be trained with per-record gradients: its layer {where} "
                f"({type(layer).__name__}) mixes the records of a batch; use nn.GroupNorm there, "
                "or opacus.validators.ModuleValidator.fix."
            )
    problems = (*ModuleValidator.validate(module), *GradSampleModule.validate(module))
    for problem in problems:
        raise InputError(
            f"{name} cannot be trained with per-record gradients "
            f"({clipped(str(problem).rstrip('. '), LONGEST_FAULT)}); replace that layer, for "
            "example by opacus.validators.ModuleValidator.fix."
        )


def constant_tensors(factory: ModuleFactory, n_features: int, *, name: str) -> dict[str, Tensor]:
    """Weights and buffers that no seed changes, such as those that were trained before."""
    one, other = (seeded_module(factory, n_features, seed, name=name) for seed in (0, 1))
    first, second = one.state_dict(), other.state_dict()
    return {k: first[k] for k in first if k in second and _are_equal(first[k], second[k])}


def _probes(n_features: int) -> tuple[Tensor, Tensor]:
    """Two batches whose first records are the same, and all others different."""
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(N_PROBES, n_features, generator=generator)
    others = torch.randn(N_PROBES, n_features, generator=generator)
    others[0] = first[0]
    return first, others


def _require_fresh(one: nn.Module, same: nn.Module, name: str) -> None:
    """A seed gives a model of its own, and always the same."""
    shared = {id(p) for p in one.parameters()} & {id(p) for p in same.parameters()}
    if one is same or shared:
        raise InputError(
            f"{name} returns the same weights again; make a fresh module in every call."
        )
    first, second = one.state_dict(), same.state_dict()
    if first.keys() != second.keys() or not all(_are_equal(first[k], second[k]) for k in first):
        raise InputError(
            f"{name} gives other weights for the same torch seed, so that nothing could be "
            "repeated; draw initial weights through torch alone."
        )


def _require_alone(
    one: nn.Module, same: nn.Module, first: Tensor, others: Tensor, name: str
) -> None:
    """What is said of a record, and what is kept, must not depend on the others of a batch."""
    with torch.no_grad():
        with seeded(0):
            alone = logits_of(one, first, name=name)[0]
        with seeded(0):
            beside = logits_of(same, others, name=name)[0]
    if not torch.allclose(alone, beside, rtol=TOLERANCE, atol=TOLERANCE):
        raise InputError(
            f"{name} cannot be trained privately: what it says of a record depends on who else is "
            "in the batch; compute nothing over the first axis (nn.GroupNorm is a norm that does "
            "not)."
        )
    kept, other = dict(one.named_buffers()), dict(same.named_buffers())
    for key in kept:
        if key not in other or not _are_equal(kept[key], other[key]):
            raise InputError(
                f"{name} cannot be trained privately: its buffer {key} keeps something of the "
                "records it sees, without noise; leave that out (track_running_stats=False)."
            )


def _require_gradients(module: nn.Module, features: Tensor, name: str) -> None:
    """Gradients of single records, as Opacus finds them, add up to the one that torch finds."""
    from opacus import GradSampleModule

    hooked = GradSampleModule(module, loss_reduction="sum")
    with without_remarks(), seeded(0):
        logits_of(hooked, features).square().sum().backward()  # type: ignore[no-untyped-call]
    for key, p in module.named_parameters():
        if p.requires_grad and not _adds_up(p, len(features)):
            raise InputError(
                f"{name} cannot be trained privately: the gradient of {key} cannot be told for "
                "single records; use every weight, in the layer that it belongs to and no other, "
                "or freeze it (requires_grad=False)."
            )
    hooked.to_standard_module()


def _adds_up(p: nn.Parameter, n_records: int) -> bool:
    single: Any = getattr(p, "grad_sample", None)
    if p.grad is None or not isinstance(single, Tensor) or len(single) != n_records:
        return False
    largest = max(1.0, float(p.grad.abs().max()))
    return torch.allclose(single.sum(dim=0), p.grad, rtol=TOLERANCE, atol=TOLERANCE * largest)


@contextmanager
def without_remarks() -> Iterator[None]:
    """Torch remarks that inputs need no gradient: they do not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook", category=UserWarning)
        yield


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
