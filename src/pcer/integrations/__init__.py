"""pcer where people already work: model cards and MLflow.

Nothing is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["card", "mlflow"]  # noqa: F822 # modules, loaded when asked for


def __getattr__(name: str) -> Any:
    """Load a module of this room on first use."""
    if name in __all__:
        return importlib.import_module(f"pcer.integrations.{name}")
    raise AttributeError(f"module 'pcer.integrations' has no attribute {name!r}")
