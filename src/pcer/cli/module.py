"""``pcer train --module``: torch modules of one's own, trained privately through Opacus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcer.cli.estimator import settings_given
from pcer.errors import InputError

if TYPE_CHECKING:
    from pcer.train import NamedModule

NORMS = (
    "the norms of all training records, and Opacus, which trains what --module makes, sees those "
    "of a batch only; leave it out"
)
LOCAL = "--module is imported from the folder you are in and trained on this machine's cores"
NOT_FOR_MODULES = {
    "hidden": "--hidden is about pcer's own network; --module makes its layers itself.",
    "receipts": f"--receipts needs {NORMS}.",
    "refresh_every": f"--refresh-every is about {NORMS}.",
    "budget_per_person": f"--budget-per-person needs {NORMS}.",
    "device": f"{LOCAL}; leave --device out.",
    "block_size": "--block-size: models of --module train one after another; leave it out.",
    "engine": f"{LOCAL}; leave --engine out.",
    "address": f"{LOCAL}; leave --address out.",
    "estimator": "--estimator and --module both say what to train; give one of them.",
}
"""Options that a module has no use for, each with its sentence."""
SAME_ANYWAY = {"device": "cpu", "engine": "local"}


def module_named(said: Mapping[str, Any]) -> NamedModule | None:
    """What the options say that makes the models; None for pcer's own network."""
    if said["module"] is None:
        return None
    for name, sentence in NOT_FOR_MODULES.items():
        if said[name] not in (None, SAME_ANYWAY.get(name)):
            raise InputError(sentence)
    from pcer.train import NamedModule

    settings = settings_given(said["settings"] or [], example="width=64")
    return NamedModule(name=said["module"], folder=Path.cwd(), settings=settings)
