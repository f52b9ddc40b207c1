"""Signals of synthetic tables, each against loops that one can check by reading."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from pcer.attacks.synthetic import (
    Neighbourhood,
    Space,
    bandwidths,
    density_signals,
    nearest_distances,
    one_table_residual,
    own_auc,
)
from pcer.errors import InputError

RNG = np.random.default_rng(20)
REAL = RNG.normal(size=(70, 3))
TABLE = RNG.normal(size=(40, 3))


def distance(first: Any, second: Any) -> float:
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))


def others_of(place: int, real: Any) -> list[Any]:
    return [row for index, row in enumerate(real) if index != place]


def slow_width(place: int, real: Any) -> float:
    near = sorted(distance(real[place], other) for other in others_of(place, real))
    return near[4] / 2


def slow_density(at: Any, centres: Any, width: float) -> float:
    kernels = [math.exp(-(distance(at, y) ** 2) / (2 * width**2)) for y in centres]
    return math.log(sum(kernels) / len(kernels))


def slow_signals(real: Any, table: Any) -> list[float]:
    widths = [slow_width(place, real) for place in range(len(real))]
    floor = sorted(widths)[len(widths) // 2 - 1 : len(widths) // 2 + 1]
    widths = [max(width, 0.1 * sum(floor) / 2) for width in widths]
    signals = []
    for place, width in enumerate(widths):
        of_table = slow_density(real[place], table, width)
        of_people = slow_density(real[place], others_of(place, real), width)
        signals.append(of_table - of_people)
    return signals


def slow_own_auc(signals: Any, member: Any) -> list[float]:
    found = []
    for person in range(signals.shape[1]):
        wins = []
        for inside in signals[member[:, person], person]:
            for outside in signals[~member[:, person], person]:
                wins.append((inside > outside) + 0.5 * (inside == outside))
        found.append(sum(wins) / len(wins) - 0.5 if wins else math.nan)
    return found


def slow_log_mean(at: Any, others: Any, n: int) -> float:
    near = sorted(distance(at, other) for other in others)[:n]
    return math.log(sum(near) / n)


def overall_ranks(signals: Any) -> Any:
    return rankdata(signals).reshape(signals.shape)


def test_signals_are_those_of_double_loops() -> None:
    found = density_signals(REAL, TABLE)
    np.testing.assert_allclose(found, slow_signals(REAL, TABLE), atol=2e-4)


def test_signals_far_from_a_table_are_finite() -> None:
    found = density_signals(REAL, TABLE + 1e3)
    assert np.isfinite(found).all()
    assert (found < -1e3).all()


def test_bandwidths_follow_the_fifth_other_record() -> None:
    expected = [slow_width(place, REAL) for place in range(len(REAL))]
    np.testing.assert_allclose(bandwidths(REAL), expected)


def test_twins_have_a_floor_instead_of_no_bandwidth() -> None:
    real = np.concatenate([np.repeat(REAL[:1], 6, axis=0), REAL])
    widths = bandwidths(real)
    assert widths[:6].tolist() == [0.1 * np.median(widths)] * 6
    assert (bandwidths(np.ones((9, 2))) == 1).all()
    mostly_twins = np.concatenate([np.repeat(REAL[:1], 60, axis=0), REAL[:20]])
    assert np.isfinite(density_signals(mostly_twins, TABLE)).all()


def test_nearest_distances_of_few_and_of_twins() -> None:
    assert nearest_distances(REAL[:3], REAL[:3], 5, is_own=True).shape == (3, 2)
    assert (nearest_distances(REAL, REAL, 1) == 0).all()


def test_own_auc_counts_wins_within_a_person() -> None:
    member = RNG.random((9, 40)) < 0.5
    member[:, 0] = True
    member[:, 1] = False
    signals = RNG.normal(size=(9, 40)).round(1)
    found = own_auc(signals, member)
    np.testing.assert_allclose(found, slow_own_auc(signals, member), atol=1e-15)
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2:]).all()


@pytest.mark.parametrize("change", [np.exp, np.arctan, lambda x: x**3, overall_ranks])
def test_own_auc_does_not_change_with_an_increasing_function(change: Any) -> None:
    member = RNG.random((16, 300)) < 0.5
    signals = RNG.normal(size=(16, 300))
    found = own_auc(signals, member)
    assert own_auc(change(signals), member).tobytes() == found.tobytes()


def test_a_full_copy_is_found() -> None:
    real = RNG.normal(size=(400, 4))
    neighbours = Neighbourhood.of(real)
    member = np.zeros((12, 400), dtype=bool)
    for split in member:
        split[RNG.permutation(400)[:200]] = True
    signals = np.array([neighbours.signals(real[split]) for split in member])
    assert np.nanmean(own_auc(signals, member)) > 0.93 - 0.5
    residual = one_table_residual(real, real[member[0]])
    assert residual[member[0]].mean() > residual[~member[0]].mean()


def test_residuals_are_those_of_a_regression_by_loops() -> None:
    rows = []
    answers = []
    for place, record in enumerate(REAL):
        near = slow_log_mean(record, others_of(place, REAL), 5)
        wide = slow_log_mean(record, others_of(place, REAL), 20)
        rows.append([1, near, near**2, wide, wide**2])
        answers.append(slow_log_mean(record, TABLE, 5))
    design = np.array(rows)
    normal = np.linalg.solve(design.T @ design, design.T @ np.array(answers))
    expected = design @ normal - np.array(answers)
    np.testing.assert_allclose(one_table_residual(REAL, TABLE), expected, atol=1e-9)
    assert (one_table_residual(np.ones((9, 2)), np.ones((9, 2))) == 0).all()


def test_a_space_scales_numbers_and_parts_categories() -> None:
    X = {
        "age": [20.0, 40.0, None, 60.0],
        "job": ["cook", None, "nurse", "cook"],
        "one": [7, 7, 7, 7],
    }
    space = Space.from_people(X)
    real = space.encode(X)
    deviation = np.std([20, 40, 60])
    squares = [[distance(first, second) ** 2 for second in real] for first in real]
    assert squares[0][1] == pytest.approx((20 / deviation) ** 2 + 1)
    assert squares[0][2] == pytest.approx((20 / deviation) ** 2 + 2)
    assert squares[0][3] == pytest.approx((40 / deviation) ** 2)

    table = {"one": [9], "job": ["pilot"], "age": [20.0]}  # nobody here is a pilot
    other = space.encode(table)[0]
    assert distance(other, real[0]) == pytest.approx(1)
    assert distance(other, real[1]) ** 2 == pytest.approx((20 / deviation) ** 2 + 1)


def test_tables_of_any_library_are_encoded_alike() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    X = {
        "age": [20.5, 40.0, 61.0],
        "sex": ["f", "m", "f"],
        "is_new": [True, False, True],
    }
    expected = Space.from_people(X).encode(X)
    for library in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        table = library(X)
        assert Space.from_people(table).encode(table).tolist() == expected.tolist()
        assert Space.from_people(X).encode(table).tolist() == expected.tolist()
    numbers = np.array([[1.0, 2.0], [3.0, 5.0]])
    frame = pandas.DataFrame(numbers, columns=["a", "b"])
    expected = Space.from_people(numbers).encode(numbers)
    assert Space.from_people(frame).encode(numbers).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"age": [], "sex": []}, "is empty"),
        ({"age": [1]}, "lacks sex"),
        ({"age": [1, 2], "sex": ["f"]}, "differ in length"),
        ({"age": ["old"], "sex": ["f"]}, "must hold numbers"),
        ({"age": [math.inf], "sex": ["f"]}, "must be finite"),
        (np.ones((3, 5)), "has 5 columns and X has 2"),
        (None, "must be a table"),
        ([1, 2], "must be a table"),
    ],
)
def test_a_wrong_table_is_one_sentence(table: Any, sentence: str) -> None:
    space = Space.from_people({"age": [30, 40], "sex": ["f", "m"]})
    with pytest.raises(InputError, match=sentence) as caught:
        space.encode(table)
    assert str(caught.value).count("\n") == 0
