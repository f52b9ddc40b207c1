"""Which settings may one sweep vary, and which models does a grid of them stand for?

``pcer train --grid`` reads a grid with ``parse_grid``; ``Sweep`` asks for its
``configurations``, and states them in its files. To let a grid vary one more setting:
a row of ``KEYS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, NoReturn

from pcer.errors import InputError
from pcer.metrics import NO_DP
from pcer.train import TrainConfig, parse_hidden

Grid = Mapping[str, Sequence[Any]]  # values by setting of ``TrainConfig``


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


class Configuration(NamedTuple):
    """The settings of one model of a sweep, and the budgets it is trained at."""

    config: TrainConfig
    budgets: tuple[float, ...]


def parse_grid(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """A grid from texts such as "clip-norm=1,2".

    Raises:
        InputError: a text cannot be read, or a setting is named twice.
    """
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, _, listed = (part.strip() for part in text.partition("="))
        varied = KEYS.get(key)
        if varied is None or varied.setting in grid:
            keys = ", ".join(KEYS)
            _refuse(f"takes {keys}, each once, as in clip-norm=1,2, not {text!r}")
        try:
            grid[varied.setting] = _values(varied.read, listed)
        except ValueError:
            _refuse(
                "must list values such as clip-norm=1,2 or hidden=64-32,none, "
                f"not {text!r}"
            )
    return grid


def _values(read: Callable[[str], Any], listed: str) -> tuple[Any, ...]:
    """The values of a list such as "64-32, none"; ValueError if one cannot be read."""
    words = [word.strip() for word in re.split(BETWEEN, listed)]
    if "" in words:
        raise ValueError("a value is empty")
    return tuple(read(word) for word in words)


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
            changes["learning_rate"] = _rate_at(changes["clip_norm"])
        yield name, replace(config, **changes)


def _rate_at(clip_norm: float) -> float:
    """The default learning rate, in proportion for another clip norm."""
    return TrainConfig.learning_rate * TrainConfig.clip_norm / clip_norm


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


def stated(grid: Grid, models: Mapping[str | None, Configuration]) -> dict[str, Any]:
    """The training settings as plain JSON values.

    Of a grid: what all models share, the grid, and of every model what differs.
    """
    settings_of = {str(name): own.config.to_dict() for name, own in models.items()}
    if not grid:
        (settings,) = settings_of.values()
        return settings
    shared = _shared([*settings_of.values()], grid)
    differing = {}
    for name, settings in settings_of.items():
        differing[name] = {key: settings[key] for key in settings if key not in shared}
    plain_grid = json.loads(json.dumps(dict(grid)))
    return {**shared, "grid": plain_grid, "models": differing}


def _shared(settings: Sequence[Mapping[str, Any]], grid: Grid) -> dict[str, Any]:
    """What all models have in common, and the grid does not vary."""
    first, *others = settings
    shared = {}
    for key, value in first.items():
        is_same = all(value == other[key] for other in others)
        if is_same and key not in grid:
            shared[key] = value
    return shared


def _name(changes: Mapping[str, Any]) -> str:
    """A configuration in words: "clip 2, hidden none"."""
    parts = [f"{WORDS[key]} {_printed(key, value)}" for key, value in changes.items()]
    return ", ".join(parts) or PLAIN


def _printed(setting: str, value: Any) -> str:
    if setting == "hidden":
        return "-".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def _refuse(fault: str) -> NoReturn:
    raise InputError(f"grid {fault}.", field="grid") from None
