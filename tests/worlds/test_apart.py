from __future__ import annotations

import numpy as np
import pytest

from tests.worlds.apart import WORLDS, draw, draw_panel, summary


@pytest.mark.parametrize(
    ("world", "least", "most"),
    [("knn 600", 0.8, 1.0), ("mixed knn", 0.0, 0.35), ("t(3) logistic", 0.0, 0.05)],
)
def test_separation_tells_groups_that_live_apart_from_mixed_ones(world, least, most):
    found = [
        draw_panel(WORLDS[world], np.random.default_rng(seed)).pooled["paired_gap"].separation
        for seed in range(4)
    ]
    assert least <= np.mean(found) <= most


@pytest.mark.slow
@pytest.mark.parametrize("world", ["tree", "knn 600"])
def test_mirror_groups_are_told_apart_no_more_often_than_by_chance(world):
    """With errors that take groups for mixed, 10 to 17 in 100 were (differences, paired gap)."""
    found = summary([draw(world, seed)[0] for seed in range(150)], is_alike=True)
    for attack in ("paired_gap", "paired_confidence", "lira_advantage", "rmia_advantage"):
        # 92 %, less two errors of a share among 150
        assert found[attack]["exposures"] >= 0.88
        assert found[attack]["differences"] >= 0.88
    assert max(found["two attacks"].values()) <= 17
