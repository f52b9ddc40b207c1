"""What was spent of one person? The verb ``pcer receipt``, for those who trained.

Called by ``cli.app``; the numbers are from ``sweep.receipts``. To add a sentence: a
``yield`` of ``receipt_words``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli.options import optional
from pcer.report.formats.terminal import wrapped
from pcer.report.table import Table

if TYPE_CHECKING:
    from pcer.sweep import ReceiptIndex, SettingReceipts

# What the norms mean for the receipt.
MODES = {
    "exact": (
        "Norms of your gradient were computed at every step, so the receipt is a bound."
    ),
    "held": (
        "At every step your gradient was clipped at its last computed norm, so the "
        "accounting is exact and the receipt is a bound."
    ),
    "refreshed": (
        "Norms of your gradient were computed at some steps and assumed constant in "
        "between, so the receipt is an estimate, not a bound."
    ),
}
ALL_BARE = "All models of {0} were trained without privacy, so there is no bound."
NOT_TRAINED_ON = "No private model of {0} was trained on record {1}: nothing was spent."


def receipt(
    folder: Path = typer.Argument(metavar="FOLDER", help="Of a sweep with receipts."),
    record: str = optional(
        "Id of the record; in your own table its row, from 0.", default=...
    ),
) -> None:
    """Print one person's receipt: the promise, what was spent, what it allows."""
    options_module.require_packages(options_module.TRAINING)
    from pcer.sweep import person_receipts

    index, rows = person_receipts(folder, record)
    if not any(len(row.receipt) for row in rows):
        is_bare = index.has_models_without_privacy and not index.settings
        sentence = ALL_BARE if is_bare else NOT_TRAINED_ON
        typer.echo(sentence.format(index.dataset, record))
        return
    outputs_module.show([receipt_table(index, rows, record)])
    for sentence in receipt_words(index, rows):
        typer.echo(wrapped(sentence, outputs_module.columns(), hanging=2))


def receipt_table(
    index: ReceiptIndex, rows: Sequence[SettingReceipts], record: str
) -> Table:
    """One line for each budget, over the models that were trained on the person."""
    has_models = any(row.setting.model for row in rows)
    heads = (
        *(("model",) if has_models else ()),
        "promised\nepsilon",
        f"the same\nby {index.accountant}",
        "models\nwith you",
        "spent,\nmean",
        "spent,\nmost",
        "receipt,\nmost",
        "guesses right\nof 100, at most",
    )
    cells = []
    for row in rows:
        if len(row.receipt):
            cells.append(_row(row, index.dp_delta))
    return Table(f"Receipt of record {record} of {index.dataset}", heads, tuple(cells))


def _row(row: SettingReceipts, dp_delta: float) -> tuple[str, ...]:
    """One budget's numbers; the model comes first where models have names."""
    from pcer.sweep import right_guesses

    most = float(row.receipt.max())
    guesses = 50  # without any gradient a guess is a coin's
    if most > 0:
        guesses = math.ceil(100 * right_guesses(most, dp_delta))
    model = row.setting.model
    return (
        *(() if model is None else (model,)),
        f"{row.setting.epsilon:g}",
        f"{row.nominal:.3f}",
        f"{len(row.receipt)}",
        f"{row.realised.mean():.3f}",
        f"{row.realised.max():.3f}",
        f"{most:.3f}",
        f"{guesses}",
    )


def receipt_words(index: ReceiptIndex, rows: Sequence[SettingReceipts]) -> list[str]:
    """What the numbers say, and what they do not."""
    sentences = [
        "Promised: one such model changes anybody's odds that you were trained on by "
        "at most a factor of e^epsilon, except with probability "
        f"{index.dp_delta:g}. It holds for everyone.",
        "Spent: the same for your gradients in these runs, as papers print it. It is a "
        "description, not a bound.",
        "Receipt: what was spent, rounded up to levels that were fixed before "
        "training. It is a bound after the fact, except with probability "
        f"{index.dp_delta:g}.",
        MODES[index.mode],
        "Guesses: an attacker who knows everything else and sees every step guesses "
        "whether you were trained on, and is right at most this often (coin: 50 of "
        "100).",
    ]
    if len(rows) > 1 or any(len(row.receipt) > 1 for row in rows):
        sentences.append(
            "Every line is about one model; losses to several models add up."
        )
    not_covered = _not_covered(index)
    if not_covered:
        sentences.append(f"Not covered: {'; and '.join(not_covered)}.")
    sentences.append(
        "Keep your receipt private: many receipts together reveal more than each alone."
    )
    return sentences


def _not_covered(index: ReceiptIndex) -> list[str]:
    """What was computed from the person's record outside the accounting."""
    not_covered = []
    if index.standardised:
        not_covered.append(
            "the mean and the deviation of each feature, computed from the training "
            "records"
        )
    if index.has_models_without_privacy:
        not_covered.append(
            "models that were trained without privacy, which have no bound"
        )
    return not_covered
