"""Bounds by hand: exposures, differences, outcomes, what is spent, accuracy."""

import math

import numpy as np
import pytest
from scipy import stats

from pcer.measuring.bounds import (
    Tails,
    accuracy_bounds,
    difference_bounds,
    exposure_bounds,
    outcome_bounds,
    spent_bounds,
)
from pcer.measuring.exposure import measure_panel
from pcer.measuring.plan import Plan
from pcer.release.panel import panels
from tests.deciding.grid import GRID, SPLITS, N, released, tree

TAILS = Tails(upper=0.05, lower=0.01)
Z_UPPER = stats.norm.isf(0.05)
Z_LOWER = stats.norm.isf(0.01)
PAIR = ((0, 1),)
A = 0  # the setting's position: men .010, women .012, error .004


def measured(made: dict | None = None):
    return measure_panel(panels(released(made))[A], Plan(), "rmia_advantage")


def test_exposures_and_their_difference_are_right_answers_of_100():
    bounds = exposure_bounds(measured(), TAILS)
    assert bounds.value == pytest.approx([51.0, 51.2])
    assert bounds.error == pytest.approx([0.4, 0.4])
    assert bounds.lower == pytest.approx(bounds.value - 0.4 * Z_LOWER)
    assert bounds.upper == pytest.approx(bounds.value + 0.4 * Z_UPPER)
    apart = difference_bounds(measured(), PAIR, TAILS)
    error = 0.4 * math.sqrt(2)
    assert [*np.ravel(apart)] == pytest.approx(
        [0.2, error, 0.2 - error * Z_LOWER, 0.2 + error * Z_UPPER]
    )


def test_no_difference_is_larger_than_there_can_be():
    wild = tree(a=(*GRID["a"][:5], 0.9))
    assert difference_bounds(measured(wild), PAIR, TAILS).upper == [100.0]
    made = tree()
    for run in made["runs"]:
        for table in run["groups"].values():
            table["test"]["n"] = 1
            table["test"]["accuracy"] = 1.0
            table["train"] = {"n": 1, "accuracy": 1.0}
    outcomes = outcome_bounds(measured(made), PAIR, Tails(upper=1e-6, lower=0.01))
    assert [*outcomes.value, *outcomes.upper] == [0.0, 100.0]


def test_too_few_records_bound_nothing():
    made = tree()
    for row in made["pooled_exposure"]:
        row["n_records"] = 49 if row["group"] == "women" else N
    assert np.isnan(np.array(exposure_bounds(measured(made), TAILS))[:, 1]).all()
    assert np.isnan(difference_bounds(measured(made), PAIR, TAILS).upper).all()


def test_what_is_spent_is_by_receipts_and_at_most_the_promise():
    """Epsilon 5, of which a rule promises men 3; receipts of women by another mode."""
    made = tree()
    row = {"model": "a", "epsilon": 5.0, "accountant": "rdp", "mode": "held"}
    of_men = {**row, "group": "men"}
    made["bounds"] = [
        {**of_men, "kind": "promise", "mean": 3.0},
        {**of_men, "kind": "receipt", "mean": 2.0, "standard_error": 0.1},
        {**row, "group": "women", "kind": "receipt", "mean": 2.0, "mode": "refreshed"},
    ]
    release = released(made)
    spent = spent_bounds(release, panels(release)[A], TAILS)
    assert spent.value == pytest.approx([2.0, 5.0])
    assert spent.upper == pytest.approx([2.0 + 0.1 * Z_UPPER, 5.0])
    made["bounds"][1]["mean"] = 2.99
    release = released(made)
    assert spent_bounds(release, panels(release)[A], TAILS).upper[0] == 3.0


def test_accuracy_varies_over_splits_and_not_over_the_seeds_of_one():
    panel = panels(released())[A]
    right = panel.test_accuracy[:, 0] * 100
    error = right.std(ddof=1) / math.sqrt(SPLITS)
    bounds = accuracy_bounds(panel, TAILS)
    expected = [
        right.mean(),
        error,
        right.mean() - stats.t.isf(0.01, SPLITS - 1) * error,
        right.mean() + stats.t.isf(0.05, SPLITS - 1) * error,
    ]
    assert [*np.ravel(bounds)] == pytest.approx(expected)

    made = tree()
    again = [{**run, "seed": run["seed"] + SPLITS} for run in made["runs"]]
    made["runs"] += again
    twice = accuracy_bounds(panels(released(made))[A], TAILS)
    assert [*np.ravel(twice)] == pytest.approx(expected)
    made["runs"] = [run for run in made["runs"] if run["split"] == "s0"]
    one_split = accuracy_bounds(panels(released(made))[A], TAILS)
    assert np.isnan(np.array(one_split)).all()
