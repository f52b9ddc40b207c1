"""The published figures: all of them, as printed, each with its place."""

from __future__ import annotations

import pytest

from pcer import metrics
from pcer.auditing.plan import Plan
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    FLOORS,
    SEEDS,
    TRAINING,
    configuration,
)
from pcer_studies.published import (
    figures_at,
    key_at,
    own_cell,
    published_figures,
)

CELLS = published_figures(in_table=True)
OUTSIDE = published_figures(in_table=False)


def test_cells_belong_to_the_protocol():
    for key in (cell.key for cell in CELLS):
        assert key.configuration in CONFIGURATIONS
        (epsilon,) = key.budgets
        assert epsilon in BUDGETS
        assert key.group is None or key.group in key.configuration.groups
        assert (key.floor is None) == (
            key.quantity not in ("pcer_disparity", "pcer_disparity_auc", "n_positive_seeds")
        )


def test_a_number_is_found_wherever_it_is_printed_its_own_table_first():
    key = key_at(configuration("adult", "race"), 1.0, "pcer_disparity")
    assert [figure.place for figure in figures_at(key)] == ["Table S4", "Table S1", "Table S5"]
    assert own_cell(key).value == 58
    key = key_at(configuration("compas", "race"), 5.0, "pcer_disparity")
    assert [figure.place for figure in figures_at(key)][-1] == "Results, COMPAS: Race"
    key = key_at(configuration("adult", "race"), 1.0, "pcer_disparity", floor=0.01)
    assert own_cell(key) is None
    assert [figure.place for figure in figures_at(key)] == ["Table S1"]
    assert figures_at(key_at(configuration("acs", "race"), 1.0, "equalized_odds_gap")) == ()


def test_a_key_has_a_floor_only_where_the_number_depends_on_one():
    for key in (figure.key for figure in published_figures(over="each")):
        floor = 0.5 if key.floor is None else key.floor
        (epsilon,) = key.budgets
        made = key_at(key.configuration, epsilon, key.quantity, group=key.group, floor=floor)
        assert made == key


def test_text_figures_have_one_name_each_and_a_place():
    assert len({figure.name for figure in OUTSIDE}) == len(OUTSIDE)
    for figure in OUTSIDE:
        assert figure.place
        assert figure.printed
        key = figure.key
        assert key.over in ("each", "smallest", "largest", "mean", "all")
        assert (len(key.budgets) == 1) == (key.over == "each")
        assert set(key.budgets) <= set(BUDGETS)
        if key.configuration is not None:
            assert key.group is None or key.group in key.configuration.groups


def test_the_library_asks_by_default_for_what_the_paper_did():
    train = pytest.importorskip("pcer.train")
    assert train.TrainConfig(**TRAINING) == train.TrainConfig()
    assert metrics.DEFAULT_BUDGETS == BUDGETS
    assert tuple(range(metrics.DEFAULT_SEEDS)) == SEEDS
    assert metrics.FLOOR_GRID == FLOORS == tuple(Plan().floors)
    assert Plan().floor == metrics.DEFAULT_FLOOR


def test_the_data_have_the_protocols_groups():
    data = pytest.importorskip("pcer.data.benchmarks")
    for task in data.SOURCES:
        for one in CONFIGURATIONS:
            if one.dataset == task.name:
                rule = task.attributes[one.attribute]
                assert tuple(name for name, _ in rule.groups) == one.groups
                assert task.outcome == one.outcome


def test_an_unknown_configuration_is_refused():
    with pytest.raises(KeyError, match="no configuration compas sex"):
        configuration("compas", "sex")
