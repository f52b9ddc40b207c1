"""The errors pcer raises, and the checks of arguments that raise them.

Every message is one sentence that names the file or argument, the field and the remedy.
"""

from __future__ import annotations

import math


class PcerError(Exception):
    """Anything pcer refuses; the command line prints it as one sentence and exits with 2."""


class InputError(PcerError, ValueError):
    """A file or a table that was given cannot be used as it is."""


class FetchError(InputError):
    """A dataset could not be had from its publisher; the cache was left as it was."""


class PlanError(PcerError, ValueError):
    """The plan asks for something that this release does not carry."""


class OutputError(PcerError):
    """A result could not be written; nothing was left behind half-written."""


def not_installed(name: str, *, extra: str, needed_by: str) -> InputError:
    """One sentence with the command to type where a package of an extra is missing.

    >>> str(not_installed("torch", extra="train", needed_by="training"))
    'training needs torch, which is not installed; in a clone of pcer run: pip install ".[train]"'
    """
    return InputError(
        f"{needed_by} needs {name}, which is not installed; in a clone of pcer run: "
        f'pip install ".[{extra}]"'
    )


def require_positive(**arguments: float) -> None:
    """Raise ValueError unless every named argument is a finite number above 0."""
    for name, value in arguments.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a finite number above 0, but {value!r} was given.")


def require_open_unit(**arguments: float) -> None:
    """Raise ValueError unless every named argument lies strictly between 0 and 1."""
    for name, value in arguments.items():
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie strictly between 0 and 1, but {value!r} was given.")


def require_at_least(minimum: int, **arguments: int) -> None:
    """Raise ValueError unless every named argument is an integer of at least ``minimum``."""
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(
                f"{name} must be a whole number of at least {minimum}, but {value!r} was given."
            )
