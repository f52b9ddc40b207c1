"""What makes the user's own torch modules, and what do their scores depend on?

A factory is any function of the number of features; ``NamedModule`` is one that has a
name and settings, so that worker processes and releases can name it. ``opacus`` tries
and trains the modules; ``run`` and sweeps write down what ``module_digest`` and
``NamedModule.describe`` say.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pcer.errors import InputError, PcerError, clipped
from pcer.models import folder_first, object_named
from pcer.store.blocks import file_digest, record_digest

ModuleFactory = Callable[[int], nn.Module]  # a fresh module for a number of features

LONGEST_FAULT = 300  # characters of an error that is not ours

# Of these packages, blocks note the versions instead of digests of the sources.
SHIPPED = ("torch", "opacus")


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
        """What scores depend on, as plain JSON values for a release.

        Numeric arguments are named; texts may be values of a category.
        """
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
    """Digest of everything about a factory's modules but their random weights.

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
    """Digests of the sources of a factory and its layers, without torch and Opacus."""
    function = factory.function() if isinstance(factory, NamedModule) else factory
    digests = set()
    for kind in (function, *map(type, module.modules())):
        package = getattr(kind, "__module__", "").partition(".")[0]
        if package not in SHIPPED:
            digests.add(_source_digest(kind))
    return sorted(digests)


def _source_digest(kind: Any) -> str:
    """Digest of the file that has a function or class; empty if it is unknown.

    In a notebook there is no file, and its text is taken.
    """
    with suppress(OSError, TypeError):
        path = Path(inspect.getsourcefile(kind) or "")
        if path.is_file():
            return file_digest(path)
        return record_digest({"": inspect.getsource(kind)})
    return ""


def _constant_tensors(module: nn.Module, reseeded: nn.Module) -> dict[str, str]:
    """Digests of the weights and buffers that two seeds have in common, by name."""
    others = reseeded.state_dict()
    digests = {}
    for name, value in module.state_dict().items():
        if name in others and are_equal(value, others[name]):
            digests[name] = sha256(value.numpy().tobytes()).hexdigest()
    return digests


def _plain_values(module: nn.Module) -> set[tuple[int, str, str]]:
    """What layers hold beside weights: position, name, and value as text.

    Texts that differ between processes are left out: sets, whose order may change, and
    objects that print their address.
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
    """Turn what a user's module raises into one sentence.

    Its message may quote a record, and is left out unless ``quoted``.
    """
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
    """Log odds of the positive label, (record,).

    They are the module's only logit, or its second less its first.
    """
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
