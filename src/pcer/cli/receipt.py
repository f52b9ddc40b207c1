"""The verb for one person: ``pcer receipt``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pcer.cli.parts import TRAINING, columns, require_packages, required, show_table
from pcer.report.table import Table, wrapped

if TYPE_CHECKING:
    from pcer.sweep import ReceiptIndex, SettingReceipts

MODES = {
    "exact": "Norms of your gradient were computed at every step, so the receipt is a bound.",
    "held": (
        "At every step your gradient was clipped at its last computed norm, so that what is "
        "accounted is what happened, and the receipt is a bound."
    ),
    "refreshed": (
        "Norms of your gradient were computed now and then and taken as unchanged in between, so "
        "the receipt is an estimate and not a bound."
    ),
}
"""What the norms mean for the receipt."""

ALL_BARE = "All models of {0} were trained without privacy: no bound exists."
NOT_TRAINED_ON = "No private model of {0} was trained on record {1}: nothing was spent."


def receipt(
    folder: Path = typer.Argument(metavar="FOLDER", help="Of a sweep with receipts."),
    record: str = required("Id of the record; in your own table its row, from 0."),
) -> None:
    """Print what was promised to one person, what was spent, and what it allows; for them only."""
    require_packages(TRAINING)
    from pcer.sweep import person_receipts

    index, rows = person_receipts(folder, record)
    if not any(len(row.receipt) for row in rows):
        is_bare = index.has_models_without_privacy and not index.settings
        typer.echo((ALL_BARE if is_bare else NOT_TRAINED_ON).format(index.dataset, record))
        return
    show_table(receipt_table(index, rows, record))
    for sentence in receipt_words(index, rows):
        typer.echo(wrapped(sentence, columns(), hanging=2))


def receipt_table(index: ReceiptIndex, rows: Sequence[SettingReceipts], record: str) -> Table:
    """One line for each budget; the numbers are of the models that were trained on the person."""
    from pcer.sweep import right_guesses

    cells = []
    for row in rows:
        if len(row.receipt):
            most = float(row.receipt.max())
            # In whole numbers, rounded up; who never had a gradient cannot be told from a coin.
            guesses = math.ceil(100 * right_guesses(most, index.dp_delta)) if most else 50
            spent = (row.realised.mean(), row.realised.max(), most)
            models = f"{len(row.receipt)}"
            first = (f"{row.setting.epsilon:g}", f"{row.nominal:.3f}", models)
            cells.append((*first, *(f"{epsilon:.3f}" for epsilon in spent), f"{guesses}"))
    columns = (
        *("promised\nepsilon", f"the same\nby {index.accountant}", "models\nwith you"),
        *("spent,\nmean", "spent,\nmost", "receipt,\nmost", "guesses right\nof 100, at most"),
    )
    return Table(f"Receipt of record {record} of {index.dataset}", columns, tuple(cells))


def receipt_words(index: ReceiptIndex, rows: Sequence[SettingReceipts]) -> list[str]:
    """What the numbers say, and what they do not."""
    several = any(len(row.receipt) > 1 for row in rows) or len(rows) > 1
    outside = [
        "the mean and the deviation of each feature, which the training records gave"
        * index.standardised,
        "models that were trained without privacy, for which no bound exists"
        * index.has_models_without_privacy,
    ]
    return [
        "Promised: by one such model nobody's odds that you were trained on change by more than a "
        f"factor of e^epsilon, but for a chance of {index.dp_delta:g}. That holds for everybody.",
        "Spent: the same for your own gradients in these runs, as papers print it; it describes "
        "and bounds nothing.",
        "Receipt: what was spent, rounded up to levels that were fixed before training, so that it "
        f"holds after the fact, with the chance {index.dp_delta:g} shared among levels.",
        MODES[index.mode],
        "Guesses: who knows everything else, sees every step and guesses whether you were trained "
        "on is right at most so often; a coin is right in 50 of 100.",
        *(["Every line is about one model; whoever sees several can add them up."] * several),
        *([f"Outside of it: {'; and '.join(filter(None, outside))}."] if any(outside) else []),
        "Keep it to yourself: many people's receipts together tell more than each.",
    ]
