"""Shared fixtures: small releases as plain objects."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from pcer.release.file import Release, parse_release

settings.register_profile("pcer", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("pcer")


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory) -> Iterator[None]:
    """Tests neither use nor fill the cache and the secrets of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def cells(tp: int, fp: int, tn: int, fn: int) -> dict[str, int]:
    return {"tp": tp, "fp": fp, "tn": tn, "fn": fn}


TABLES = {
    "Other": {"train": cells(50, 10, 120, 20), "test": cells(20, 8, 50, 12)},
    "African-American": {"train": cells(90, 20, 80, 10), "test": cells(30, 15, 35, 14)},
}


@pytest.fixture
def plain_release() -> dict[str, Any]:
    """A valid release, as plain objects."""
    return make_plain_release()


@pytest.fixture
def rates_release(plain_release) -> Release:
    """The same as rates without sizes, so that no exposure is known."""
    for run in plain_release["runs"]:
        for tables in run["groups"].values():
            tables["train"] = {"accuracy": 0.8}
            tables["test"] = {"accuracy": 0.75, "positive_rate": 0.3}
    return parse_release(plain_release, file="rates")


def make_plain_release() -> dict[str, Any]:
    """Two budgets and three seeds, as plain objects."""
    runs = []
    for epsilon in (None, 1.0):
        for seed in range(3):
            groups = copy.deepcopy(TABLES)
            groups["Other"]["train"]["tp"] += seed
            runs.append(
                {
                    "epsilon": epsilon,
                    "seed": seed,
                    "split": f"s{seed}",
                    "groups": groups,
                }
            )
    subject = {
        "dataset": "compas",
        "attribute": "race",
        "groups": [*TABLES],
        "outcome": "harm",
    }
    training = {"mechanism": "none", "split_kind": "random"}
    tree = {
        "format": "pcer-release",
        "version": 4,
        "subject": subject,
        "training": training,
    }
    return {**tree, "runs": runs}
