"""What do the tables of many settings on one split give away, and what does that cost?

    python -m benchmarks.joint time [PEOPLE] [SPLITS]
    python -m benchmarks.joint settings [PEOPLE]

``time``: processor seconds of a release of six settings with all attacks, and of the
search for people whom its tables give away together. ``settings``: releases of 12 to
120 settings, each refused or solved by linear programs that share nothing with pcer
(``tests/release/test_people_worked_out.py``), which count who is certain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import numpy as np

import pcer
from benchmarks import run_verb, with_numbers, write_results
from pcer.models import arrays
from pcer.release import joint
from pcer.release.disclosure import Joint

N_SETTINGS = 6
SETTINGS = (12, 20, 30, 60, 120)


def timed(n_people: int = 4_000, n_splits: int = 20) -> None:
    """Processor seconds, of the second of two releases: the first loads packages."""
    table = scored(n_people, n_splits)
    spent = [0.0]
    joint.guarded = counting(joint.guarded, spent)  # type: ignore[assignment]
    arrays.same_people.aligned = counting(arrays.same_people.aligned, spent)
    for _ in range(2):
        spent[0] = 0.0
        start = time.process_time()
        pcer.release_from_predictions(**table)
        whole = time.process_time() - start
    rest = whole - spent[0]
    share = f"{100 * spent[0] / rest:.1f}%"
    print(f"{n_people:,} people: {rest:.2f} s, and {spent[0]:.3f} s more ({share})")
    write_results("joint-time", {"rest": rest, "joint": spent[0]})


def scored(n_people: int, n_splits: int) -> dict[str, Any]:
    """Arguments of a release: answers are right by chance, each model for itself."""
    rng = np.random.default_rng(0)
    n_models = n_splits * N_SETTINGS
    label = rng.integers(0, 2, n_people)
    is_right = rng.random((n_models, n_people)) < 0.8
    answers = np.where(is_right, label, 1 - label)
    member = rng.permuted([np.arange(n_people) < 0.7 * n_people] * n_splits, axis=1)
    model = np.repeat(np.arange(n_models), n_people)
    return {
        "y_true": np.tile(label, n_models),
        "y_score": (0.3 + 0.3 * answers + 0.1 * rng.random(answers.shape)).ravel(),
        "sensitive_features": {
            "group": np.tile(rng.integers(0, 2, n_people), n_models)
        },
        "split": np.repeat(member, N_SETTINGS, axis=0).ravel(),
        "split_kind": "random",
        "outcome": "benefit",
        "seed": model // N_SETTINGS,
        "epsilon": 1.0 + model % N_SETTINGS,
        "dp_delta": 1e-5,
        "record_id": np.tile(np.arange(n_people), n_models),
    }


def counting(function: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The same function, whose processor time is added up."""

    def counted(*arguments: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            spent[0] += time.process_time() - start

    return counted


def settings(n_people: int = 400) -> None:
    """Who is certain by the equations of all settings together."""
    from tests.release.test_people_worked_out import made_or_refused, n_certain, people

    rows = []
    for n, certain_cells, rule in product(SETTINGS, (True, False), get_args(Joint)):
        known = people(n_people, n)
        made = made_or_refused(known, certain_cells=certain_cells, joint=rule)
        told = "refused"
        if not isinstance(made, str):
            n_coarse = made.disclosure.n_coarse_tables
            told = f"{n_certain(made, known)} certain, {n_coarse} of {2 * n} coarse"
        rows.append([n, certain_cells, rule, told])
        print(f"{n} settings, certain_cells={certain_cells}, {rule}: {told}")
    write_results("joint-settings", rows)


if __name__ == "__main__":
    run_verb({"time": with_numbers(timed), "settings": with_numbers(settings)})
