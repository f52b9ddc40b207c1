"""Settings x seeds through training into releases: durable and resumable."""

from __future__ import annotations

from pcer.sweep.receipts import (
    ReceiptIndex,
    SettingReceipts,
    person_receipts,
    right_guesses,
)
from pcer.sweep.run import begun_with, is_finished, run_sweep
from pcer.sweep.sweep import Sweep

__all__ = [
    "ReceiptIndex",
    "SettingReceipts",
    "Sweep",
    "begun_with",
    "is_finished",
    "person_receipts",
    "right_guesses",
    "run_sweep",
]
