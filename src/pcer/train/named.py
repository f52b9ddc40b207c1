"""A torch module by the name of what makes it, so that any process can make it again."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from pcer.models import folder_first, object_named
from pcer.store import record_digest
from pcer.train.probe import (
    ModuleFactory,
    constant_tensors,
    failing_as,
    require_private,
    seeded_module,
)

EXAMPLE = "mymodels:make_net"
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
        return object_named(self.name, folder=self.folder, example=EXAMPLE)


def _sources(made_by: Iterable[Any]) -> set[str]:
    """Digests of the files that define these."""
    found = set()
    for one in made_by:
        if getattr(one, "__module__", "").partition(".")[0] not in SHIPPED:
            path = inspect.getsourcefile(one)
            found.add(_digest(Path(path).read_bytes()) if path else "")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
