"""What are the sums over groups of records, for many divisions at once?

``Groups`` are one division, for the numbers of real groups. ``Divisions`` are hundreds
of placebo groupings, whose sums are matrix products of whole numbers: exact in any
order of adding, as those of ``ExactSums``. To add a sum: a method of ``Groups`` and the
same of ``Divisions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft

from pcer.metrics import BoolArray, FloatArray, IntArray

# Bits of whole numbers in a float32: sums up to 2 to this are exact, in any order of
# adding.
WHOLE = 24
# Records added as float32, and bits of a word: so many 18-bit numbers add up exactly.
TILE = 64
# Sets, and tiles of records, that are summed at once: too small for BLAS to share among
# cores, which on a busy machine would mostly wait for each other.
SETS = 32
TILES = 64
FILLED = 4096  # records scaled at a time: few enough for the cache
# Of all divisions: records whose numbers are summed at once (whole tiles), words of 64
# flags that are counted at once, and multiplications of one product: too few for BLAS
# to share among cores.
AT_ONCE = 1024
WORDS = 1024
SMALL = 2**17
WHEEL_COLUMNS = 32  # columns that are transformed at once
TURNS_USED = 4  # one turn of a wheel in so many is used, at most


@dataclass(frozen=True, eq=False)
class Groups:
    """A division of the records into groups."""

    codes: IntArray  # (record,) a group's number, -1 for none
    n: int  # how many groups

    def __eq__(self, other: object) -> bool:
        """Whether both divide the records in the same way."""
        return isinstance(other, Groups) and self._key == other._key

    def __hash__(self) -> int:
        """Equal for equal divisions."""
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[int, bytes]:
        return self.n, self.codes.tobytes()

    @property
    def whole(self) -> Groups:
        """The groups themselves: ``Divisions`` are summed beside everybody."""
        return self

    @cached_property
    def inside(self) -> BoolArray:
        """(record,) who is in a group."""
        return np.asarray(self.codes >= 0)

    @cached_property
    def places(self) -> npt.NDArray[Any]:
        """(record,) a group's number, ``n`` for none; a small type is quick to sort."""
        places = np.where(self.inside, self.codes, self.n)
        return places.astype(np.min_scalar_type(self.n))

    @cached_property
    def _chosen(self) -> FloatArray:
        """(record, group) 1 where the record is in the group, else 0."""
        return np.equal(self.codes[:, None], np.arange(self.n)).astype(np.float64)

    @cached_property
    def sizes(self) -> FloatArray:
        """(group,) records in each."""
        return np.asarray(self._chosen.sum(axis=0))

    def sums(self, *rows: npt.NDArray[Any]) -> FloatArray:
        """(row, group) sums over the records of each; rows are blocks (row, record)."""
        return np.concatenate([block @ self._chosen for block in rows])

    def by_record(self, value: FloatArray, influence: FloatArray) -> FloatArray:
        """(record,) numbers with the groups' values as means; NaN without a group."""
        return np.where(self.inside, value[self.codes] + influence, np.nan)


class ExactSums:
    """Sums of finite rows (row, record), given in blocks, over any set of records.

    Every row is scaled by a power of 2 and rounded to whole numbers of at most 18 bits,
    whose sums are exact: the same on every machine.
    """

    def __init__(self, *rows: npt.NDArray[Any]) -> None:
        ends = np.cumsum([len(block) for block in rows])
        # (record, row) the whole numbers, in the unit of each row.
        self.columns = np.zeros((rows[0].shape[1], ends[-1]), dtype=np.float32)
        parts = np.split(self.columns, ends[:-1], axis=1)
        powers = [_fill(part, block) for part, block in zip(parts, rows, strict=True)]
        self._powers = np.concatenate(powers)
        self.total = self.columns.sum(axis=0, dtype=np.float64)

    def raw(self, chosen: BoolArray, records: slice = slice(None)) -> FloatArray:
        """(set, row) sums in the unit of each row; ``chosen`` is (set, record)."""
        columns = np.pad(self.columns[records], ((0, -chosen.shape[1] % TILE), (0, 0)))
        tiles = columns.reshape(-1, TILE, columns.shape[1])
        sums = np.zeros((len(chosen), columns.shape[1]))
        for start in range(0, len(chosen), SETS):
            sets = slice(start, start + SETS)
            for first in range(0, len(tiles), TILES):
                some = tiles[first : first + TILES]
                part = chosen[sets, first * TILE : (first + TILES) * TILE]
                inside = np.zeros((len(part), len(some) * TILE), dtype=np.float32)
                inside[:, : part.shape[1]] = part
                by_tile = inside.reshape(len(part), -1, TILE).transpose(1, 0, 2) @ some
                sums[sets] += by_tile.sum(axis=0, dtype=np.float64)
        return sums

    def scaled(self, raw: FloatArray) -> FloatArray:
        """Sums in the units that the rows were given in."""
        return np.ldexp(raw, -self._powers)


def _fill(columns: npt.NDArray[np.float32], rows: npt.NDArray[Any]) -> IntArray:
    """Fill columns with rows as whole numbers; returns the powers of 2 that scale."""
    powers = _powers(rows)
    if rows.dtype == np.bool_:
        columns[:] = rows.T
        return powers
    scale = np.ldexp(1.0, powers)[:, None]
    for first in range(0, len(columns), FILLED):
        some = slice(first, first + FILLED)
        part = rows[:, some] * scale
        columns[some] = np.rint(part, out=part).T
    return powers


def _powers(rows: npt.NDArray[Any]) -> IntArray:
    """(row,) powers of 2 that make the largest number one of 18 bits; 1 of 0/1."""
    if rows.dtype == np.bool_:
        return np.zeros(len(rows), dtype=np.int64)
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    _, exponents = np.frexp(largest)
    powers: IntArray = WHOLE - (TILE - 1).bit_length() - exponents.astype(np.int64)
    return powers


@dataclass(frozen=True, eq=False)
class Divisions:
    """Several divisions of the same records; their groups, in sequence, are sets.

    Args:
        codes: (division, record) a group's number; -1 for none, the same records in
            all.
        n_groups: how many groups each has; group g of division d is set d x n_groups +
            g.
        n_exact: how many, from the first, are also attacked exactly.
    """

    codes: npt.NDArray[np.integer[Any]]
    n_groups: int
    n_exact: int = 0

    def __len__(self) -> int:
        """Number of divisions."""
        return len(self.codes)

    @cached_property
    def exact(self) -> list[Groups]:
        """The divisions that are also attacked exactly."""
        return [
            Groups(row.astype(np.int64), self.n_groups)
            for row in self.codes[: self.n_exact]
        ]

    @cached_property
    def inside(self) -> BoolArray:
        """(record,) who is in a group."""
        return np.asarray(self.codes[0] >= 0)

    @cached_property
    def whole(self) -> Groups:
        """Everybody who is in a group, as one group."""
        return Groups(np.where(self.inside, 0, -1), 1)

    @cached_property
    def sizes(self) -> FloatArray:
        """(set,) records in each."""
        return np.asarray(self.sums(self.inside[None])[0])

    def sums(self, *rows: npt.NDArray[Any]) -> FloatArray:
        """(row, set) sums over the records of every set, exact as in ``ExactSums``.

        A block that is given twice is summed once.
        """
        distinct = {id(block): block for block in rows}
        found = {}
        for key, block in distinct.items():
            if block.dtype == np.bool_:
                found[key] = self._with_last(self._counts(block)).T
        numbers = {key: block for key, block in distinct.items() if key not in found}
        for key, (sums, powers) in self._of_numbers(numbers).items():
            found[key] = np.ldexp(self._with_last(sums), -powers).T
        return np.concatenate([found[id(block)] for block in rows])

    def _counts(self, flags: BoolArray) -> FloatArray:
        """(set, row) how many records of each set have a flag, by counting bits."""
        counts = np.zeros((self._n_chosen, len(flags)))
        for column, flag in enumerate(_packed(flags)):
            for first in range(0, len(flag), WORDS):
                some = slice(first, first + WORDS)
                bits = np.bitwise_count(self._bits[:, some] & flag[some])
                counts[:, column] += bits.sum(axis=1, dtype=np.int64)
        return counts

    @cached_property
    def _bits(self) -> npt.NDArray[np.uint64]:
        """(set, 64 records) ``_chosen`` of all records, as bits."""
        bits = np.empty((self._n_chosen, _filled(self.codes.shape[1]) // TILE), "u8")
        for first in range(0, self.codes.shape[1], AT_ONCE):
            chosen = self._chosen(slice(first, first + AT_ONCE), bool)
            places = slice(first // TILE, (first + chosen.shape[1]) // TILE)
            bits[:, places] = _packed(chosen)
        return bits

    def _of_numbers(
        self, blocks: Mapping[int, npt.NDArray[Any]]
    ) -> dict[int, tuple[FloatArray, IntArray]]:
        """Sums (set, row) of every block, and the powers that scale them."""
        found = {}
        for key, block in blocks.items():
            found[key] = (np.zeros((self._n_chosen, len(block))), _powers(block))
        starts = range(0, self.codes.shape[1], AT_ONCE) if blocks else ()
        for first in starts:
            records = slice(first, first + AT_ONCE)
            chosen = self._chosen(records, np.float32)
            for key, block in blocks.items():
                sums, powers = found[key]
                _add_products(sums, chosen, _whole(block[:, records], powers))
        return found

    @property
    def _n_chosen(self) -> int:
        return 1 + len(self) * (self.n_groups - 1)

    def _chosen(self, records: slice, kind: type) -> npt.NDArray[Any]:
        """(set, record) 1 inside: everybody in a group, and all groups but the last.

        Columns of zeros fill the last tile.
        """
        codes = self.codes[:, records]
        n = codes.shape[1]
        chosen: npt.NDArray[Any] = np.zeros((self._n_chosen, _filled(n)), dtype=kind)
        chosen[0, :n] = self.inside[records]
        for group in range(self.n_groups - 1):
            chosen[1 + group :: self.n_groups - 1, :n] = codes == group
        return chosen

    def _with_last(self, total: FloatArray) -> FloatArray:
        """(set, row) sums of all groups: everybody's less the others' is the last's."""
        others = total[1:].reshape(len(self), self.n_groups - 1, -1)
        last = total[0] - others.sum(axis=1)  # whole numbers: exact as well
        every = np.concatenate([others, last[:, None]], axis=1)
        return every.reshape(len(self) * self.n_groups, -1)


def _filled(n: int) -> int:
    """Records with those that fill the last tile."""
    return -(-n // TILE) * TILE


def _packed(flags: BoolArray) -> npt.NDArray[np.uint64]:
    """(row, 64 records) bits."""
    packed = np.zeros((len(flags), _filled(flags.shape[1]) // 8), dtype=np.uint8)
    bits = np.packbits(flags, axis=1)
    packed[:, : bits.shape[1]] = bits
    return packed.view(np.uint64)


def _whole(rows: npt.NDArray[Any], powers: IntArray) -> npt.NDArray[np.float32]:
    """(tile, record, row) rows as whole numbers; zeros fill the last tile."""
    n = rows.shape[1]
    whole = np.zeros((len(rows), _filled(n)), dtype=np.float32)
    scaled = rows * np.ldexp(1.0, powers)[:, None]
    whole[:, :n] = np.rint(scaled, out=scaled)
    return whole.reshape(len(rows), -1, TILE).transpose(1, 2, 0)


def _add_products(
    sums: FloatArray,
    chosen: npt.NDArray[np.float32],
    whole: npt.NDArray[np.float32],
) -> None:
    """Add to (set, row) sums those of a few records, (tile, record, row)."""
    tiles = chosen.reshape(len(chosen), -1, TILE).transpose(1, 0, 2)
    n_sets = max(1, SMALL // whole[0].size)
    for first in range(0, len(chosen), n_sets):
        sets = slice(first, first + n_sets)
        sums[sets] += (tiles[:, sets] @ whole).sum(axis=0, dtype=np.float64)


def turned_sums(
    columns: npt.NDArray[np.float32],
    inside: BoolArray,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """(draw, column) exact sums over the first of two groups, redrawn by wheels.

    Records are laid on a wheel in random order; a rotation gives every record the group
    of another. Rotations are a group of permutations, so a test against random ones is
    as exact as one against random permutations (Hemerik and Goeman, Exact testing with
    random permutations, TEST 27, 2018). All sums of whole numbers of at most 2 to the
    18 are one exact convolution. Rotations of one wheel depend on each other, so at
    most a quarter of them are used.
    """
    drawn = np.zeros((n_draws, columns.shape[1]))
    most = max(1, len(inside) // TURNS_USED)
    for first in range(0, n_draws, most):
        sums = drawn[first : first + most]
        order = rng.permutation(len(inside))
        for wheel in np.split(order, np.cumsum(wheel_sizes(len(inside)))[:-1]):
            turns = _turns(len(wheel), len(sums), rng)
            for column in range(0, columns.shape[1], WHEEL_COLUMNS):
                some = slice(column, column + WHEEL_COLUMNS)
                sums[:, some] += all_turns(columns[wheel, some], inside[wheel])[turns]
    return drawn


def _turns(size: int, n: int, rng: np.random.Generator) -> IntArray:
    """Rotations of one wheel, never by 0; of a large one each at most once."""
    if size > n:
        return 1 + rng.choice(size - 1, n, replace=False)
    return rng.integers(0, size, n)


def wheel_sizes(n: int) -> list[int]:
    """Sizes of one large wheel, and small ones for the rest, with fast transforms."""
    sizes: list[int] = []
    while n > sum(sizes):
        sizes.append(fft.prev_fast_len(n - sum(sizes), real=True))
    return sizes


def all_turns(columns: npt.NDArray[np.float32], inside: BoolArray) -> FloatArray:
    """(rotation, column) sums over the records that it puts into the first group."""
    places = fft.rfft(inside.astype(np.float64))
    values = fft.rfft(columns.T.astype(np.float64))
    sums = fft.irfft(np.conj(values) * places, n=len(inside))
    return np.asarray(np.rint(sums).T)  # sums of whole numbers
