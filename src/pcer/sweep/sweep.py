"""What is a sweep: everything that can change a number, and how do files state it?

``pcer train`` and the studies make one and hand it to ``pcer.sweep.run``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pcer.data.dataset import GroupedDataset, column_widths
from pcer.errors import InputError
from pcer.release.disclosure import Disclosure
from pcer.store.blocks import record_digest
from pcer.store.secret import secret_name
from pcer.sweep.grid import Configuration, Grid, configurations, stated
from pcer.train import NamedModule, ReceiptMode, TrainConfig
from pcer.train.opacus import require_private
from pcer.train.rules import Names
from pcer.train.streams import KEYED_STREAMS

# Stand for the module in a sweep of pcer's networks, and for the grid in a sweep of a
# single configuration.
NOT_GIVEN: Mapping[str, Any] = dict.fromkeys(
    ("module", "module_settings", "module_weights", "module_digest", "grid", "models")
)
KEYED = {"streams": KEYED_STREAMS}  # said where there is a secret


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to train: everything that can change a number.

    Args:
        dataset: the records.
        attributes: protected attributes; the models are trained once for all of them.
        budgets: epsilons; infinity for no privacy.
        seeds: one split and one model per budget each.
        config: the training settings.
        grid: values of settings that replace those of ``config``, by their names: every
            combination is trained, on the same splits, and is a model of the release;
            see ``pcer.sweep.grid.configurations``.
        secret: mixed into every random stream, the splits and the digests; see
            ``pcer.train.train_seeds``. Records that are not public need one.
        disclosure: what a release may let out about few people, or about one.
        module: what makes the models, which Opacus then trains; None for pcer's own
            network.
        keep_people: keep each person's receipts in a private file; if not, only the
            bounds of groups in the releases remain.
    """

    dataset: GroupedDataset
    attributes: tuple[str, ...]
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    config: TrainConfig
    grid: Grid = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    disclosure: Disclosure = field(default_factory=Disclosure)
    module: NamedModule | None = None
    keep_people: bool = True

    def __post_init__(self) -> None:
        if not (self.secret or self.dataset.public):
            raise InputError(
                f"dataset {self.dataset.name!r} is not public, so its noise, splits "
                "and digests need a secret of 16 to 64 bytes; give one, or say that "
                "the records are public."
            )
        for name in self.attributes:
            self.dataset.attribute(name)  # refuses those that are not there
        _require_distinct(
            attributes=self.attributes, budgets=self.budgets, seeds=self.seeds
        )
        if self.module is not None and "hidden" in self.grid:
            sentence = "grid cannot vary hidden layers of a module."
            raise InputError(sentence, field="grid")
        for config, _ in self.configurations.values():
            # Refuses groups that are not there.
            config.training_rule.shares(self.groups)
            if self.module is not None:
                require_private(self.module, self.dataset.features.shape, config)

    @cached_property
    def configurations(self) -> dict[str | None, Configuration]:
        """What is trained, by its name in the release; None for a single model."""
        return configurations(self.config, self.budgets, self.grid)

    @cached_property
    def groups(self) -> dict[str, Names]:
        """By attribute that a rule names, each record's group; "" where it has none."""
        groups = {}
        for config, _ in self.configurations.values():
            name = config.training_rule.attribute
            if name is not None:
                attribute = self.dataset.attribute(name)
                names = np.array([*attribute.group_names, ""])
                groups[name] = names[attribute.codes]
        return groups

    @property
    def n_models(self) -> int:
        """Models to train."""
        n_settings = sum(len(own.budgets) for own in self.configurations.values())
        return n_settings * len(self.seeds)

    @property
    def has_receipts(self) -> bool:
        """Whether the privacy that each person spends is counted."""
        return self.config.receipts is not ReceiptMode.NONE

    @property
    def keeps_receipts(self) -> bool:
        """Whether each person's receipt is kept, beside the bounds of groups."""
        return self.keep_people and self.has_receipts

    @cached_property
    def trained_by(self) -> dict[str, Any]:
        """The training settings; a module's description replaces the hidden layers."""
        config = stated(self.grid, self.configurations)
        if self.module is None:
            return config
        del config["hidden"]
        return {**self.module.describe(self.dataset.features.shape[1]), **config}

    @property
    def settings(self) -> dict[str, Any]:
        """What the score files of this sweep depend on, besides seed and budget."""
        data_digest = self.dataset.published_digest(self.secret)
        return {
            **NOT_GIVEN,
            "dataset": self.dataset.name,
            "data_digest": data_digest.partition(":")[2],
            "secret_digest": hashlib.sha256(b"pcer secret " + self.secret).hexdigest(),
            "split_from_secret": bool(self.secret),
            **(KEYED if self.secret else {}),
            **self.trained_by,
        }

    @property
    def settings_digest(self) -> str:
        """Digest of the settings, which every block of the sweep carries."""
        return record_digest(self.settings)

    @property
    def release_config(self) -> dict[str, Any]:
        """The settings as a release states them.

        Columns are stated by their width; of a secret, its name.
        """
        config = {
            **self.trained_by,
            "columns": column_widths(self.dataset.feature_names),
            "noise_from_secret": bool(self.secret),
            "split_from_secret": bool(self.secret),
        }
        if self.secret:
            config |= {"secret_name": secret_name(self.secret), **KEYED}
        return config


def _require_distinct(**settings: Sequence[Any]) -> None:
    """Raise InputError unless each of them names at least one thing, and none twice."""
    for name, values in settings.items():
        if not values or len(set(values)) < len(values):
            raise InputError(
                f"{name} must name each at least one, and none twice: {values}."
            )
