"""Several configurations in one sweep: what a grid may vary, and the settings it stands for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, NoReturn

from pcer.errors import InputError
from pcer.metrics import NO_DP
from pcer.train import TrainConfig, parse_hidden

Grid = Mapping[
    str, Sequence[Any]
]  # values to train with, by setting of ``TrainConfig``
# What a grid may vary: the setting by its option's name, how a value is read, its word
# in names.
KEYS: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "clip-norm": ("clip_norm", float, "clip"),
    "hidden": ("hidden", parse_hidden, "hidden"),
    "learning-rate": ("learning_rate", float, "rate"),
    "momentum": ("momentum", float, "momentum"),
    "batch": ("expected_batch", int, "batch"),
    "epochs": ("epochs", int, "epochs"),
    "rule": ("rule", str, "rule"),
}
WORDS = {setting: word for setting, _, word in KEYS.values()}
BETWEEN = (
    r",(?=\s*group-|[^=,]*(?:,|$))"  # a comma between values, not one within a rule
)
OF_PRIVACY = ("clip_norm", "rule")  # without privacy these change nothing
PLAIN = "sgd"  # name of what is left of a configuration without them
LONGEST_NAME = 200  # characters that a release allows


class Configuration(NamedTuple):
    """The training settings of one model of a sweep, and the budgets it is trained with."""

    config: TrainConfig
    budgets: tuple[float, ...]


def parse_grid(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """A grid from texts such as "clip-norm=1,2"; InputError, naming one, if it cannot be read."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, _, listed = (part.strip() for part in text.partition("="))
        setting, read, _ = KEYS.get(key, ("", str, ""))
        if not setting or setting in grid:
            _refuse(
                f"takes {', '.join(KEYS)}, each once, as in clip-norm=1,2, not {text!r}"
            )
        words = [word.strip() for word in re.split(BETWEEN, listed)]
        try:
            grid[setting] = tuple(read(word) for word in words)
        except ValueError:
            words = [""]
        if "" in words:
            _refuse(
                f"must list values such as clip-norm=1,2 or hidden=64-32,none, not {text!r}"
            )
    return grid


def configurations(
    config: TrainConfig, budgets: Sequence[float], grid: Grid
) -> dict[str | None, Configuration]:
    """Every combination of a grid's values by its name; without a grid one, which has none.

    The learning rate is divided by the clip norm relative to the default's, unless the
    grid or the config gives another. What only privacy needs makes no further models
    without privacy.
    """
    if not grid:
        return {None: Configuration(config, tuple(budgets))}
    for setting, values in grid.items():
        if setting not in WORDS:
            _refuse(f"has no setting {setting!r}; it takes {', '.join(WORDS)}")
        if len({replace(config, **{setting: value}) for value in values}) < max(
            1, len(values)
        ):
            _refuse(
                f"must have one value of {setting} or several different ones, not {values!r}"
            )
    found: dict[str | None, Configuration] = {}
    private, bare = (
        [e for e in budgets if (e == NO_DP) is is_bare] for is_bare in (False, True)
    )
    has_rate = (
        "learning_rate" in grid or config.learning_rate != TrainConfig.learning_rate
    )
    for own, left_out in ((private, ()), (bare, OF_PRIVACY)):
        varied = {
            setting: values
            for setting, values in grid.items()
            if setting not in left_out
        }
        for chosen in product(*varied.values()) if own else ():
            changes = dict(zip(varied, chosen, strict=True))
            several = {
                key: value for key, value in changes.items() if len(grid[key]) > 1
            }
            name = _name(several or changes)
            if "clip_norm" in changes and not has_rate:
                rate = (
                    TrainConfig.learning_rate
                    * TrainConfig.clip_norm
                    / changes["clip_norm"]
                )
                changes["learning_rate"] = rate
            whole = replace(config, **changes)
            if (
                name in found and found[name].config != whole
            ):  # one value of what privacy needs
                name = f"{name}, {PLAIN}"
            before = found[name].budgets if name in found else ()
            found[name] = Configuration(whole, (*before, *own))
    if max(len(str(name)) for name in found) > LONGEST_NAME:
        _refuse(f"gives models names of more than {LONGEST_NAME} characters; vary less")
    return found


def stated(grid: Grid, found: Mapping[str | None, Configuration]) -> dict[str, Any]:
    """The training settings as plain JSON values; what a grid varies is said of every model."""
    models = {str(name): own.config.to_dict() for name, own in found.items()}
    first, *others = models.values()
    if not grid:
        return first
    same = {
        k: v
        for k, v in first.items()
        if k not in grid and all(v == o[k] for o in others)
    }
    varied = {
        name: {k: own[k] for k in own if k not in same} for name, own in models.items()
    }
    return {**same, "grid": json.loads(json.dumps(dict(grid))), "models": varied}


def _name(changes: Mapping[str, Any]) -> str:
    """A configuration in words: "clip 2, hidden none"."""
    parts = []
    for setting, value in changes.items():
        shown = f"{value:.12g}" if isinstance(value, float) else str(value)
        if setting == "hidden":
            shown = "-".join(map(str, value)) or "none"
        parts.append(f"{WORDS[setting]} {shown}")
    return ", ".join(parts) or PLAIN


def _refuse(fault: str) -> NoReturn:
    raise InputError(f"grid {fault}.", field="grid")
