"""The paper's protocol as the study states it, beside the library's defaults."""

from __future__ import annotations

from pcer.auditing.plan import Plan
from pcer.metrics import DEFAULT_BUDGETS, DEFAULT_FLOOR, DEFAULT_SEEDS, FLOOR_GRID
from pcer.train import TrainConfig
from pcer_studies.protocol import BUDGETS, FLOORS, SEEDS, TRAINING


def test_the_library_asks_by_default_for_what_the_paper_did():
    assert DEFAULT_BUDGETS == BUDGETS
    assert tuple(range(DEFAULT_SEEDS)) == SEEDS
    assert FLOORS == FLOOR_GRID == tuple(Plan().floors)
    assert Plan().floor == DEFAULT_FLOOR
    assert TrainConfig() == TrainConfig(**TRAINING)
