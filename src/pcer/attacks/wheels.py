"""Divisions of many records in two, drawn by turning a wheel: their sums come all at once.

Records are laid on a wheel in random order. Turning it gives every record the place, in or out of
the first group, of another. Turns are a group of permutations, so that a test against turns drawn
at random is as exact as one against permutations drawn at random (Hemerik and Goeman, Exact testing
with random permutations, TEST 27, 2018). What all turns sum to is one convolution, which Fourier
transforms give. Two turns of one wheel have nearly nothing to do with each other, but all of them
together do, so no more than a quarter are used before the records are laid out anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import fft

from pcer.metrics import BoolArray, FloatArray, IntArray

COLUMNS = 32
"""Columns that are transformed at once."""

USED = 4
"""One turn in so many is used, at most."""


def turned_sums(
    columns: npt.NDArray[np.float32], inside: BoolArray, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """(draw, column) sums over the first group, divided anew; exact.

    Args:
        columns: (record, column) whole numbers of at most 2 to the 18.
        inside: (record,) who is in the first group.
        n_draws: how many.
        rng: where wheels and turns are drawn from.
    """
    found = np.zeros((n_draws, columns.shape[1]))
    most = max(1, len(inside) // USED)
    for first in range(0, n_draws, most):
        _add_layout(found[first : first + most], columns, inside, rng)
    return found


def _add_layout(
    found: FloatArray,
    columns: npt.NDArray[np.float32],
    inside: BoolArray,
    rng: np.random.Generator,
) -> None:
    """Lay the records out, and add turns to ``found``, which is (draw, column)."""
    order = rng.permutation(len(inside))
    ends = np.cumsum([*wheel_sizes(len(inside))])
    for wheel in np.split(order, ends[:-1]):
        turns = _turns(len(wheel), len(found), rng)
        for first in range(0, columns.shape[1], COLUMNS):
            some = slice(first, first + COLUMNS)
            found[:, some] += all_turns(columns[wheel, some], inside[wheel])[turns]


def _turns(size: int, n: int, rng: np.random.Generator) -> IntArray:
    """Where a wheel may come to rest: of a large one somewhere else each time, and never as it is.

    The real division is counted once already; seen again, it would make no p-value small.
    """
    return 1 + rng.choice(size - 1, n, replace=False) if size > n else rng.integers(0, size, n)


def wheel_sizes(n: int) -> Iterator[int]:
    """One large wheel, and small ones for the rest, in sizes whose transforms are fast.

    >>> list(wheel_sizes(46_033))
    [45000, 1024, 9]
    """
    while n:
        size = fft.prev_fast_len(n, real=True)
        yield size
        n -= size


def all_turns(columns: npt.NDArray[np.float32], inside: BoolArray) -> FloatArray:
    """(turn, column) sums over records that get the place of the one so many places on."""
    places = fft.rfft(inside.astype(np.float64))
    values = fft.rfft(columns.T.astype(np.float64))
    sums = fft.irfft(np.conj(values) * places, n=len(inside))
    return np.asarray(np.rint(sums).T)  # sums of whole numbers
