"""The device that a flag names: the one place where it is chosen."""

from __future__ import annotations

from importlib.util import find_spec

import torch

from pcer.errors import InputError, not_installed
from pcer.train.engine import Device


def choose_device(name: str) -> Device:
    """The device "cpu", "cuda" or "cuda:N"; InputError unless it can be used here."""
    require_device(name)
    if name == "cpu":
        from pcer.train.cpu import CpuDevice

        return CpuDevice()
    from pcer.train.cuda import CudaDevice

    return CudaDevice(torch.device(name))


def require_device(name: str) -> None:
    """Raise InputError unless the device can be used here."""
    if name == "cpu" and find_spec("numba") is None:
        raise not_installed("numba", extra="train", needed_by="training on a CPU")
    if name != "cpu" and not torch.cuda.is_available():
        raise InputError(
            f"device {name!r} was asked for, but no CUDA device can be used here; use 'cpu'."
        )
