"""The published figures: all of them, as printed, each with its place."""

from __future__ import annotations

import pytest

from pcer import metrics
from pcer.auditing.plan import Plan
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, FLOORS, SEEDS, TRAINING, configuration
from pcer_studies.published import figures_at, key_at, own_cell, published_figures

FLOORED = ("pcer_disparity", "pcer_disparity_auc", "n_positive_seeds")


def test_cells_belong_to_the_protocol():
    for key in (cell.key for cell in published_figures(in_table=True)):
        assert key.configuration in CONFIGURATIONS
        (epsilon,) = key.budgets
        assert epsilon in BUDGETS
        assert key.group is None or key.group in key.configuration.groups
        assert (key.floor is None) == (key.quantity not in FLOORED)


@pytest.mark.parametrize(
    ("dataset", "epsilon", "quantity", "floor", "own", "places"),
    [
        ("adult", 1.0, "pcer_disparity", 0.001, 58, ["Table S4", "Table S1", "Table S5"]),
        ("adult", 1.0, "pcer_disparity", 0.01, None, ["Table S1"]),
        (
            *("compas", 5.0, "pcer_disparity", 0.001, -169),
            ["Table 1", "Table S1", "Table S5", "Results, COMPAS: Race"],
        ),
        ("acs", 1.0, "equalized_odds_gap", 0.001, None, []),
    ],
)
def test_a_number_is_found_wherever_it_is_printed_its_own_table_first(
    dataset, epsilon, quantity, floor, own, places
):
    key = key_at(configuration(dataset, "race"), epsilon, quantity, floor=floor)
    assert [figure.place for figure in figures_at(key)] == places
    cell = own_cell(key)
    assert (cell and cell.value) == own


def test_text_figures_have_one_name_each_and_a_place():
    outside = published_figures(in_table=False)
    assert len({figure.name for figure in outside}) == len(outside)
    for figure in outside:
        key = figure.key
        assert figure.place
        assert figure.printed
        assert key.over in ("each", "smallest", "largest", "mean", "all")
        assert (len(key.budgets) == 1) == (key.over == "each")
        assert set(key.budgets) <= set(BUDGETS)
        if key.configuration is not None:
            assert key.group is None or key.group in key.configuration.groups


def test_the_library_asks_by_default_for_what_the_paper_did():
    train, data = pytest.importorskip("pcer.train"), pytest.importorskip("pcer.data.benchmarks")
    assert train.TrainConfig(**TRAINING) == train.TrainConfig()
    assert metrics.DEFAULT_BUDGETS == BUDGETS
    assert tuple(range(metrics.DEFAULT_SEEDS)) == SEEDS
    assert metrics.FLOOR_GRID == FLOORS == tuple(Plan().floors)
    assert Plan().floor == metrics.DEFAULT_FLOOR
    tasks = {task.name: task for task in data.SOURCES}
    for one in CONFIGURATIONS:
        task = tasks[one.dataset]
        assert tuple(name for name, _ in task.attributes[one.attribute].groups) == one.groups
        assert task.outcome == one.outcome
    with pytest.raises(KeyError, match="no configuration compas sex"):
        configuration("compas", "sex")
