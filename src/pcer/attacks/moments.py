"""Means, variances and covariances over many sets of records, by exact products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.metrics import BoolArray, FloatArray, IntArray

WHOLE = 24
"""Bits of a float32's whole numbers: sums up to 2 to this are exact, in any order of adding."""

ROUNDING = 1e-12
"""Numbers that vary by less than this share of their size do not vary."""

TILE = 64
"""Records that are added as float32: their sums of 18-bit numbers are exact."""

SETS, TILES = 32, 64
"""Sets, and tiles of records, that are summed at once. Products so small are not shared among
cores by BLAS libraries, which on a busy machine would wait for each other more than they work."""


FILLED = 4096
"""Records that are scaled at a time: few enough to stay near the processor."""


class GroupMeans(NamedTuple):
    """Means over sets of records, their variances and covariances; NaN with fewer than two.

    Attributes:
        exposure: (..., setting, cost) mean.
        exposure_variance: of that mean.
        benefit: (..., setting) mean.
        benefit_variance: of that mean.
        covariance: (..., setting, cost) of both means.
    """

    exposure: FloatArray
    exposure_variance: FloatArray
    benefit: FloatArray
    benefit_variance: FloatArray
    covariance: FloatArray


class ExactSums:
    """Sums of numbers over any set of records, the same in whatever order a machine adds.

    Every row is scaled by a power of 2 and rounded to whole numbers so small that their sums are
    exact. That leaves numbers 18 bits below the largest of their row: what is compared is compared
    as rounded, everywhere alike.

    Args:
        rows: blocks of rows, each (row, record) finite.

    Attributes:
        total: (row,) sums over all records, as ``raw`` gives them.
        columns: (record, row) the whole numbers, in units of each row's own.
    """

    def __init__(self, *rows: npt.NDArray[Any]) -> None:
        n, ends = rows[0].shape[1], np.cumsum([len(part) for part in rows])
        columns = np.zeros((-(-n // TILE) * TILE, ends[-1]), dtype=np.float32)
        parts = np.split(columns[:n], ends[:-1], axis=1)
        powers = [_fill(part, kind) for part, kind in zip(parts, rows, strict=True)]
        self._powers = np.concatenate(powers)
        self._padded = columns
        self.columns = columns[:n]
        self.total = columns.sum(axis=0, dtype=np.float64)

    def raw(self, chosen: BoolArray) -> FloatArray:
        """(set, row) sums over every set of records, in units of each row's own."""
        return _sums(chosen, self._padded)

    def raw_among(self, records: slice, chosen: BoolArray) -> FloatArray:
        """The same; ``chosen`` is about some of the records alone."""
        part = self.columns[records]
        return _sums(chosen, np.pad(part, ((0, -len(part) % TILE), (0, 0))))

    def scaled(self, raw: FloatArray) -> FloatArray:
        """Sums in the units that the rows were given in."""
        return np.ldexp(raw, -self._powers)


class Moments:
    """Sums that tell means and variances over any set of records.

    Args:
        exposure: (setting, cost, record) finite.
        benefit: (setting, record) finite.

    Attributes:
        exact: the sums, as ``means`` takes them.
        total: those over all records.
    """

    def __init__(self, exposure: FloatArray, benefit: FloatArray) -> None:
        self._shape, n = exposure.shape[:2], exposure.shape[2]
        self._centre = exposure.mean(axis=-1), benefit.mean(axis=-1)
        e = _centred(exposure, self._centre[0]).reshape(-1, n)
        b = _centred(benefit, self._centre[1])
        beside = np.repeat(b, exposure.shape[1], axis=0)
        self._ends = np.cumsum([len(e)] * 3 + [len(b)])
        self.exact = ExactSums(e, e**2, e * beside, b, b**2)
        self.total = self.exact.total

    def sums(self, chosen: BoolArray) -> FloatArray:
        """(set, column) exact sums over every set of records; ``chosen`` is (set, record)."""
        return self.exact.raw(chosen)

    def means(self, sums: FloatArray, n: IntArray) -> GroupMeans:
        """Means and variances from sums over sets of ``n`` (set,) records."""
        size = n.astype(np.float64)[:, None]
        found = np.split(self.exact.scaled(sums) / size, self._ends, axis=1)
        e, e2, eb = (one.reshape(-1, *self._shape) for one in found[:3])
        b, b2 = found[3:]
        freedom = np.where(size > 1, size - 1, np.nan)
        return GroupMeans(
            exposure=self._centre[0] + e,
            exposure_variance=np.maximum(e2 - e**2, 0.0) / freedom[:, None],
            benefit=self._centre[1] + b,
            benefit_variance=np.maximum(b2 - b**2, 0.0) / freedom,
            covariance=(eb - e * b[..., None]) / freedom[:, None],
        )


def _sums(chosen: BoolArray, columns: npt.NDArray[np.float32]) -> FloatArray:
    """(set, column); columns are filled up to whole tiles."""
    tiles = columns.reshape(-1, TILE, columns.shape[1])
    out = np.zeros((len(chosen), columns.shape[1]))
    for first in range(0, len(chosen), SETS):
        sets = slice(first, first + SETS)
        for tile in range(0, len(tiles), TILES):
            records = slice(tile * TILE, (tile + TILES) * TILE)
            out[sets] += _product(chosen[sets, records], tiles[tile : tile + TILES])
    return out


def _product(chosen: BoolArray, tiles: npt.NDArray[np.float32]) -> FloatArray:
    """(set, column) sums over the records of some tiles, the last of which may not be full."""
    n_tiles, tile, _ = tiles.shape
    sets = chosen.astype(np.float32)
    if chosen.shape[1] < n_tiles * tile:
        sets = np.pad(sets, ((0, 0), (0, n_tiles * tile - chosen.shape[1])))
    by_tile = sets.reshape(len(chosen), n_tiles, tile).transpose(1, 0, 2)
    return np.asarray((by_tile @ tiles).sum(axis=0, dtype=np.float64))


def _fill(columns: npt.NDArray[np.float32], rows: npt.NDArray[Any]) -> IntArray:
    """Set columns to rows as whole numbers whose sums are exact; the powers of 2 they took."""
    if rows.dtype == np.bool_:
        columns[:] = rows.T
        return np.zeros(len(rows), dtype=np.int64)
    _, exponents = np.frexp(np.abs(rows).max(axis=1))
    powers: IntArray = WHOLE - (TILE - 1).bit_length() - exponents.astype(np.int64)
    scale = np.ldexp(1.0, powers)[:, None].astype(rows.dtype)
    if not np.isfinite(scale).all():
        return _fill(columns, rows.astype(np.float64))
    for first in range(0, len(columns), FILLED):
        some = slice(first, first + FILLED)
        part = rows[:, some] * scale
        columns[some] = np.rint(part, out=part).T
    return powers


def _centred(values: FloatArray, mean: FloatArray) -> FloatArray:
    """Distances from the mean; exactly 0 throughout where they are only rounding."""
    out = values - mean[..., None]
    varies = np.abs(out).max(axis=-1) > ROUNDING * np.abs(values).max(axis=-1)
    return np.where(varies[..., None], out, 0.0)
