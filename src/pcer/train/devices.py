"""What does this machine train with: which device, and which versions of what?

``run`` asks for the device. The sweep writes the versions beside its numbers, and the
machines of a cluster compare them. To add a device: a case in ``choose_device``, and a
subclass of ``engine.Device``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from pcer._version import __version__
from pcer.errors import InputError, not_installed

if TYPE_CHECKING:
    from pcer.train.engine import Device

# Packages that compute the numbers of a training, and the noise that keeps a budget.
ARITHMETIC = ("numba", "numpy", "scipy", "torch")
CALIBRATION = ("dp-accounting", "opacus")


def choose_device(name: str) -> Device:
    """The device "cpu", "cuda" or "cuda:N"; InputError unless it can be used here."""
    if name == "cpu":
        if find_spec("numba") is None:
            raise not_installed("numba", extra="train", needed_by="training on a CPU")
        from pcer.train.cpu import CpuDevice

        return CpuDevice()
    if not torch.cuda.is_available():
        raise InputError(
            f"device {name!r} was asked for, but no CUDA device can be used here; use "
            "'cpu'."
        )
    from pcer.train.cuda import CudaDevice

    return CudaDevice(name)


def installed_versions(
    packages: Iterable[str] = ARITHMETIC + CALIBRATION,
) -> dict[str, str]:
    """Versions of pcer and of what it trains with; of a build 2.13.0+cpu only 2.13.0.

    >>> sorted(installed_versions(["numpy"]))
    ['numpy', 'pcer']
    """
    versions = {"pcer": __version__}
    for name in packages:
        try:
            versions[name] = version(name).partition("+")[0]
        except PackageNotFoundError:  # numba is for CPUs only
            versions[name] = "(not installed)"
    return versions
