"""What is a sweep: everything that can change a number, and how do files state it?

``pcer train`` and the studies make one and hand it to ``pcer.sweep.run``; a grid of
settings is read by ``parse_grid``. To let a grid vary one more setting: a row of KEYS.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pcer.data.dataset import GroupedDataset, Split, split
from pcer.errors import InputError
from pcer.measuring.training_variance import LEAST_SPLITS
from pcer.metrics import NO_DP
from pcer.release.disclosure import Disclosure
from pcer.store.secret import secret_name
from pcer.train import NamedModule, ReceiptMode, TrainConfig, parse_hidden
from pcer.train.opacus import require_private
from pcer.train.rules import Names
from pcer.train.streams import KEYED_STREAMS

Grid = Mapping[str, Sequence[Any]]  # values by setting of ``TrainConfig``

# Stand for the module in a sweep of pcer's networks, and for the grid in a sweep of a
# single configuration.
NOT_GIVEN: Mapping[str, Any] = dict.fromkeys(
    ("module", "module_settings", "module_weights", "module_digest", "grid", "models")
)
KEYED = {"streams": KEYED_STREAMS}  # said where there is a secret


class Varied(NamedTuple):
    """A training setting that a grid may vary."""

    setting: str  # of ``TrainConfig``
    read: Callable[[str], Any]  # a value from its text; ValueError for any other text
    word: str  # for the setting, in names of models


# By the option's name.
KEYS: Mapping[str, Varied] = {
    "clip-norm": Varied("clip_norm", float, "clip"),
    "hidden": Varied("hidden", parse_hidden, "hidden"),
    "learning-rate": Varied("learning_rate", float, "rate"),
    "momentum": Varied("momentum", float, "momentum"),
    "batch": Varied("expected_batch", int, "batch"),
    "epochs": Varied("epochs", int, "epochs"),
    "rule": Varied("rule", str, "rule"),
}
WORDS = {varied.setting: varied.word for varied in KEYS.values()}
# A comma between values, not one within a rule.
BETWEEN = r",(?=\s*group-|[^=,]*(?:,|$))"
OF_PRIVACY = ("clip_norm", "rule")  # without privacy these change nothing
PLAIN = "sgd"  # name of what is left of a configuration without them
LONGEST_NAME = 200  # characters that a release allows
# Further trainings of the first split, whose spread is training noise; and from where
# their seeds are, which nobody gives.
N_REPEATS = 8
REPEATS_FROM = 2**40


class Configuration(NamedTuple):
    """The settings of one model of a sweep, and the budgets it is trained at."""

    config: TrainConfig
    budgets: tuple[float, ...]


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
            see ``configurations``.
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
        named = {
            "attributes": self.attributes,
            "budgets": self.budgets,
            "seeds": self.seeds,
        }
        for name, values in named.items():
            if not values or len(set(values)) < len(values):
                raise InputError(
                    f"{name} must name each at least one, and none twice: {values}."
                )
        if self.module is not None and "hidden" in self.grid:
            sentence = "grid cannot vary hidden layers of a module."
            raise InputError(sentence, field="grid")
        configs = [config for config, _ in self.configurations.values()]
        groups = self.groups
        for attribute in self.attributes:
            self.dataset.attribute(attribute)  # refuses those that are not there
        for config in configs:
            config.training_rule.shares(groups)  # refuses groups that are not there
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

    @cached_property
    def splits(self) -> dict[int, Split]:
        """Who is trained on, by seed."""
        return {
            seed: split(
                self.dataset,
                seed=seed,
                secret=self.secret,
                attributes=self.attributes,
            )
            for seed in self.seeds
        }

    @cached_property
    def repeat_seeds(self) -> tuple[int, ...]:
        """Seeds of further trainings of the first seed's split.

        None below three splits, where nothing is said of what training moves.
        """
        if len(self.seeds) < LEAST_SPLITS:
            return ()
        first = REPEATS_FROM + N_REPEATS * self.seeds[0]
        return tuple(range(first, first + N_REPEATS))

    @property
    def n_settings(self) -> int:
        """Configurations times their budgets."""
        return sum(len(own.budgets) for own in self.configurations.values())

    @property
    def n_models(self) -> int:
        """Models of the release."""
        return self.n_settings * len(self.seeds)

    @property
    def n_trained(self) -> int:
        """Models to train: those of the release, and the repeats."""
        return self.n_models + self.n_settings * len(self.repeat_seeds)

    @property
    def has_receipts(self) -> bool:
        """Whether the privacy that each person spends is counted."""
        return self.config.receipts is not ReceiptMode.NONE

    @cached_property
    def data_digest(self) -> str:
        """The digest of the records as files hold it."""
        return self.dataset.published_digest(self.secret)

    @cached_property
    def trained_by(self) -> dict[str, Any]:
        """The training settings; a module's description replaces the hidden layers."""
        config = _stated(self.grid, self.configurations)
        if self.module is None:
            return config
        del config["hidden"]
        return {**self.module.describe(self.dataset.features.shape[1]), **config}

    @property
    def settings(self) -> dict[str, Any]:
        """What the score files of this sweep depend on, besides seed and budget."""
        return {
            **NOT_GIVEN,
            "dataset": self.dataset.name,
            "data_digest": self.data_digest.partition(":")[2],
            "secret_digest": hashlib.sha256(b"pcer secret " + self.secret).hexdigest(),
            "split_from_secret": bool(self.secret),
            **(KEYED if self.secret else {}),
            **self._population,
            **self.trained_by,
        }

    @property
    def _population(self) -> dict[str, Any]:
        """The attributes that say who is divided apart, where anybody is."""
        if not self.dataset.is_apart(self.attributes).any():
            return {}
        return {"population": sorted(self.attributes)}

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
            **self._population,
        }
        if self.secret:
            config |= {"secret_name": secret_name(self.secret), **KEYED}
        return config


def column_widths(feature_names: Iterable[str]) -> dict[str, int]:
    """Number of features of each column, by the name before ``=``.

    >>> column_widths(["age", "job=clerk", "job=cook"])
    {'age': 1, 'job': 2}
    """
    return dict(Counter(name.partition("=")[0] for name in feature_names))


def parse_grid(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """A grid from texts such as "clip-norm=1,2"."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, _, listed = (part.strip() for part in text.partition("="))
        varied = KEYS.get(key)
        if varied is None or varied.setting in grid:
            keys = ", ".join(KEYS)
            _refuse(f"takes {keys}, each once, as in clip-norm=1,2, not {text!r}")
        words = [word.strip() for word in re.split(BETWEEN, listed)]
        try:
            if "" in words:
                raise ValueError("a value is empty")
            grid[varied.setting] = tuple(map(varied.read, words))
        except ValueError:
            _refuse(
                "must list values such as clip-norm=1,2 or hidden=64-32,none, "
                f"not {text!r}"
            )
    return grid


def configurations(
    config: TrainConfig, budgets: Sequence[float], grid: Grid
) -> dict[str | None, Configuration]:
    """Every combination of a grid's values, by its name; None without a grid.

    The learning rate is divided by the clip norm relative to the default's, unless the
    grid or the config gives another. What only privacy needs makes no further models
    without privacy.
    """
    if not grid:
        return {None: Configuration(config, tuple(budgets))}
    for setting, values in grid.items():
        _require_values(config, setting, values)
    models: dict[str | None, Configuration] = {}
    for is_private in (True, False):
        trained_at = [e for e in budgets if (e != NO_DP) is is_private]
        if trained_at:
            for name, changed in _combinations(config, grid, is_private=is_private):
                _add(models, name, Configuration(changed, tuple(trained_at)))
    if max(len(str(name)) for name in models) > LONGEST_NAME:
        _refuse(f"gives models names of more than {LONGEST_NAME} characters; vary less")
    return models


def _require_values(config: TrainConfig, setting: str, values: Sequence[Any]) -> None:
    """Raise InputError unless the setting may vary, and all its values differ."""
    if setting not in WORDS:
        _refuse(f"has no setting {setting!r}; it takes {', '.join(WORDS)}")
    different = {replace(config, **{setting: value}) for value in values}
    if not values or len(different) < len(values):
        _refuse(
            f"must have one value of {setting} or several different ones, "
            f"not {values!r}"
        )


def _combinations(
    config: TrainConfig, grid: Grid, *, is_private: bool
) -> Iterator[tuple[str, TrainConfig]]:
    """Names and settings of the models with privacy, or of those without."""
    left_out = () if is_private else OF_PRIVACY
    varied = {key: values for key, values in grid.items() if key not in left_out}
    has_rate = config.learning_rate != TrainConfig.learning_rate
    for values in product(*varied.values()):
        changes = dict(zip(varied, values, strict=True))
        several = {key: value for key, value in changes.items() if len(grid[key]) > 1}
        name = _name(several or changes)
        if "clip_norm" in changes and "learning_rate" not in grid and not has_rate:
            # The default learning rate, in proportion for another clip norm.
            default = TrainConfig.learning_rate * TrainConfig.clip_norm
            changes["learning_rate"] = default / changes["clip_norm"]
        yield name, replace(config, **changes)


def _name(changes: Mapping[str, Any]) -> str:
    """A configuration in words: "clip 2, hidden none"."""
    parts = []
    for setting, value in changes.items():
        text = str(value)
        if setting == "hidden":
            text = "-".join(map(str, value)) or "none"
        elif isinstance(value, float):
            text = f"{value:.12g}"
        parts.append(f"{WORDS[setting]} {text}")
    return ", ".join(parts) or PLAIN


def _add(
    models: dict[str | None, Configuration], name: str, added: Configuration
) -> None:
    """Add a model; one of the same name and settings gets its budgets instead."""
    # Of one value of what only privacy needs, models with privacy and without share
    # their name but not their settings.
    if name in models and models[name].config != added.config:
        name = f"{name}, {PLAIN}"
    before = models[name].budgets if name in models else ()
    models[name] = Configuration(added.config, (*before, *added.budgets))


def _stated(grid: Grid, models: Mapping[str | None, Configuration]) -> dict[str, Any]:
    """The training settings as plain JSON values.

    Of a grid: what all models share, the grid, and of every model what differs.
    """
    settings_of = {str(name): own.config.to_dict() for name, own in models.items()}
    first, *others = settings_of.values()
    if not grid:
        return first
    shared = {}
    for key, value in first.items():
        is_same = all(value == other[key] for other in others)
        if is_same and key not in grid:
            shared[key] = value
    differing = {}
    for name, settings in settings_of.items():
        differing[name] = {key: settings[key] for key in settings if key not in shared}
    plain_grid = json.loads(json.dumps(dict(grid)))
    return {**shared, "grid": plain_grid, "models": differing}


def _refuse(fault: str) -> NoReturn:
    raise InputError(f"grid {fault}.", field="grid") from None
