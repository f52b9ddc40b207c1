"""What ``package.module:Name`` names: an estimator, or what makes a torch module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pcer.errors import InputError, clipped


@contextmanager
def folder_first(folder: Path) -> Iterator[None]:
    """Import from a folder before all others, as ``python -m`` does with the one it runs in."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def object_named(name: str, *, folder: Path, example: str) -> Any:
    """The callable that a name stands for.

    Args:
        name: ``package.module:Name``, installed or in the folder.
        folder: looked into first.
        example: a name as it should be, for who wrote another.

    Raises:
        InputError: there is no such module, it cannot be imported, or has nothing to call.

    >>> object_named("math:sqrt", folder=Path(), example="a:b")(9.0)
    3.0
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(f"the name must be package.module:Name, such as {example}, not {name!r}.")
    found = getattr(_module(module, folder), attribute, None)
    if found is None:
        raise InputError(f"{module} has no {attribute}; check the name after the colon.")
    if not callable(found):
        raise InputError(
            f"{name} is {type(found).__name__} and cannot be called; name a class or a function."
        )
    return found


def _module(name: str, folder: Path) -> Any:
    """What is imported may be anybody's code, and may fail in any way."""
    importlib.invalidate_caches()  # the folder may have been written to a moment ago
    try:
        with folder_first(folder):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        fault = clipped(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"{name} cannot be imported ({fault}); install it, or go to its folder, and check that "
            "it can be imported in Python."
        ) from error
