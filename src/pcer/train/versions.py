"""Which versions train a model here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from pcer._version import __version__

ARITHMETIC = ("numba", "numpy", "scipy", "torch")
"""Where the numbers of a training come from, besides pcer."""

CALIBRATION = ("dp-accounting", "opacus")
"""Where the noise that keeps a budget comes from."""


def installed_versions(packages: Iterable[str] = ARITHMETIC + CALIBRATION) -> dict[str, str]:
    """Of pcer and of what it trains with, by name; of builds such as 2.13.0+cpu, the version.

    >>> sorted(installed_versions(["numpy"]))
    ['numpy', 'pcer']
    """
    return {"pcer": __version__, **{name: _version(name) for name in packages}}


def _version(package: str) -> str:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:  # numba is for CPUs only
        return "(not installed)"
