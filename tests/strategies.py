"""Generated inputs for property tests."""

import copy
import functools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pcer.release.file import Release, parse_release
from tests.conftest import make_plain_release

rates = st.floats(0.01, 1.0)
exposures = st.floats(0.0, 0.5)
floors = st.sampled_from([1e-4, 1e-3, 1e-2, 1e-1])


def arrays(
    elements: st.SearchStrategy[float], *, n_groups: int
) -> st.SearchStrategy[np.ndarray]:
    return st.lists(elements, min_size=n_groups, max_size=n_groups).map(np.array)


@st.composite
def confusions(draw: st.DrawFn) -> dict[str, int]:
    cells = {name: draw(st.integers(0, 400)) for name in ("tp", "fp", "tn", "fn")}
    return {**cells, "tn": cells["tn"] + 1}


@st.composite
def releases(draw: st.DrawFn) -> Release:
    """Small valid releases of counts; every run has a split of its own."""
    tree = make_plain_release()
    names = [f"g{k}" for k in range(draw(st.integers(2, 3)))]
    budgets = draw(
        st.lists(st.sampled_from([0.1, 1.0, 10.0, None]), min_size=1, unique=True)
    )
    tree["subject"] |= {
        "groups": names,
        "outcome": draw(st.sampled_from(["benefit", "harm"])),
    }
    tree["training"] = {"split_kind": "random"}
    cells = st.fixed_dictionaries({"train": confusions(), "test": confusions()})
    tree["runs"] = [
        {"epsilon": budget, "seed": seed, "split": f"{budget}-{seed}"}
        | {"groups": {name: draw(cells) for name in names}}
        for seed in range(draw(st.integers(1, 4)))
        for budget in budgets
    ]
    return parse_release(tree, file="generated")


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside a tree of plain objects."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def holder_of(tree: Any, place: tuple[Any, ...]) -> Any:
    """What holds a place of a tree."""
    return functools.reduce(operator.getitem, place[:-1], tree)


def put(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy of the tree with another value in one place."""
    changed = copy.deepcopy(tree)
    holder_of(changed, place)[place[-1]] = value
    return changed
