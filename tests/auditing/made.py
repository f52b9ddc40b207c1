"""Releases for tests of audits: drawn with a known truth, by hand, and changed."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from pcer.release.file import Release, parse_release
from tests.worlds.releases import World, simulate, written

Pair = tuple[float, float]


def drawn(
    sizes: Sequence[int],
    label_shares: Sequence[float],
    gaps: Sequence[float],
    *,
    right: Pair = (0.9, 0.6),
    rng: int = 0,
    **fields: object,
) -> Release:
    """One release in which exactly these gaps are memorised; groups g0, g1, ..."""
    groups = {
        "sizes": sizes,
        "label_shares": label_shares,
        "right": [right] * len(sizes),
    }
    world = World(**groups, gaps=gaps, **{"n_seeds": 10, **fields})
    return simulate(world, np.random.default_rng(rng))


def of_rates(
    settings: Mapping[float | None, tuple[Pair, Pair]],
    groups: Sequence[str] = ("a", "b"),
    *,
    n: Pair | None = None,
    accuracy: float = 0.8,
    **said: object,
) -> Release:
    """Gaps and positive rates of two groups by budget, one seed each.

    ``n`` is the size of training and test.
    """
    sizes = [{}, {}] if n is None else [{"n": part} for part in n]
    runs = []
    for epsilon, pair in settings.items():
        tables = {}
        for name, gap, rate in zip(groups, *pair, strict=True):
            test = {"accuracy": accuracy, "positive_rate": rate, **sizes[1]}
            tables[name] = {
                "train": {"accuracy": accuracy + gap, **sizes[0]},
                "test": test,
            }
        runs.append({"epsilon": epsilon, "seed": 0, "split": "s", "groups": tables})
    outcome = str(said.pop("outcome", "benefit"))
    return written(runs, groups, outcome=outcome, training=said)


def changed(release: Release, **fields: object) -> Release:
    """A release with other fields, as version 3."""
    return parse_release({**json.loads(release.to_json()), **fields}, file="changed")


def attacked(
    release: Release, attack: str, values: Sequence[float], error: float
) -> Release:
    """With an attack on every run, the same value in each for a group."""
    tree = json.loads(release.to_json())
    for run in tree["runs"]:
        for tables, value in zip(run["groups"].values(), values, strict=True):
            found = {"value": value, "standard_error": error}
            tables["exposure"] = {**tables.get("exposure", {}), attack: found}
    return parse_release(tree, file="attacked")


def pooled(
    release: Release,
    attack: str,
    values: Sequence[float],
    error: float,
    epsilons: Sequence[float | None] = (None,),
    **fields: object,
) -> Release:
    """With an attack over all models of a setting."""
    tree = json.loads(release.to_json())
    rows = []
    for epsilon in epsilons:
        for name, value in zip(release.subject.groups, values, strict=True):
            row = {"epsilon": epsilon, "group": name, "attack": attack, **fields}
            rows.append({**row, "value": value, "standard_error": error})
    return changed(release, pooled_exposure=[*tree.get("pooled_exposure", []), *rows])
