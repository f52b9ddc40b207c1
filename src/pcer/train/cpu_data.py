"""What a CPU draws and standardises before the first step, compiled."""

from __future__ import annotations

import numpy as np

from pcer.train.cpu_kernels import Array, compiled


@compiled
def fill_batches(
    words: Array, threshold: Array, alias: Array, bits: int, records: Array, batches: Array
) -> tuple[Array, bool]:
    """Draw one model's Poisson samples into ``batches`` and give their sizes.

    Args:
        words: uint64, from the model's stream.
        threshold: of the table of gaps; so are ``alias`` and ``bits``.
        alias: see ``streams.GapTable``.
        bits: see ``streams.GapTable``.
        records: table row of each training record.
        batches: (step, column), filled from the left.

    Returns:
        The size of every batch, also of one that does not fit; whether the words were enough.
    """
    n_steps, width = batches.shape
    sizes = np.zeros(n_steps, dtype=np.int64)
    column_mask, shift = np.uint64(2**bits - 1), np.uint64(bits)
    step, place = 0, np.int64(-1)
    for word in words:
        column = np.int64(word & column_mask)
        is_own = np.int64(word >> shift) < threshold[column]
        place += np.int64(column if is_own else alias[column]) + 1
        while place >= len(records):
            place -= len(records)
            step += 1
        if step >= n_steps:
            return sizes, True
        if sizes[step] < width:
            batches[step, sizes[step]] = records[place]
        sizes[step] += 1
    return sizes, False


@compiled
def scale_of(features: Array, train: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every feature over the training records, NaN left out.

    The mean is NaN where nothing is known, the deviation 1 where nothing differs.
    """
    n = features.shape[1]
    n_known, mean, spread = np.zeros(n), np.zeros(n), np.zeros(n)
    for row in train:
        record = features[row]
        for k in range(n):
            is_known = record[k] == record[k]
            n_known[k] += 1.0 if is_known else 0.0
            mean[k] += record[k] if is_known else 0.0
    mean /= n_known
    for row in train:
        record = features[row]
        for k in range(n):
            distance = record[k] - mean[k]
            spread[k] += distance * distance if distance == distance else 0.0
    for k in range(n):
        spread[k] = np.sqrt(spread[k] / n_known[k])
        spread[k] = spread[k] if spread[k] > 0 else 1.0
    return mean, spread


@compiled
def fill_table(features: Array, mean: Array, spread: Array, labels: Array, table: Array) -> None:
    """Standardised features, 1, squared norm and label of every record; what is missing is 0."""
    n = features.shape[1]
    for r in range(len(features)):
        record, row, square = features[r], table[r], 1.0
        for k in range(n):
            value = (record[k] - mean[k]) / spread[k]
            row[k] = value if value == value else 0.0
            square += row[k] * row[k]
        row[n], row[n + 1], row[n + 2] = 1.0, square, labels[r]
