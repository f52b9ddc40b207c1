"""The published figures: all of them, as printed, each with its place."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    N_MODELS,
    SETTINGS,
    TRAINING,
    configuration,
)
from pcer_studies.published import (
    TABLE_NAMES,
    TEXT_FIGURES,
    decimals_of,
    published_cells,
    text_figures,
)


def test_all_cells_are_there():
    cells = published_cells()
    assert len(cells) == 448
    assert Counter(cell.table_name for cell in cells) == {
        "Table 1": 36,
        "Table 2": 48,
        "Table 3": 36,
        "Table S1": 40,
        "Table S3": 36,
        "Table S4": 36,
        "Table S5": 108,
        "Table S6": 108,
    }


def test_a_cell_is_as_printed():
    (cell,) = published_cells(table="tab:compas-race", epsilon=5.0, quantity="pcer_disparity")
    assert (cell.value, cell.std, cell.ci_low, cell.ci_high, cell.digits) == (
        -169,
        229,
        -230,
        -106,
        0,
    )
    (cell,) = published_cells(
        table="tab:bios-gender", epsilon=math.inf, quantity="overfitting_gap", group="Male"
    )
    assert (cell.value, cell.std, cell.digits, cell.floor) == (0.0292, 0.0032, 4, None)


def test_cells_belong_to_the_protocol():
    known = {(one.dataset, one.attribute): one for one in CONFIGURATIONS}
    for cell in published_cells():
        one = known[cell.dataset, cell.attribute]
        assert cell.epsilon in BUDGETS
        assert cell.group is None or cell.group in one.groups
        assert (cell.floor is None) == (
            cell.quantity not in ("pcer_disparity", "pcer_disparity_auc", "n_positive_seeds")
        )


def test_no_cell_stands_twice():
    keys = [
        (c.table, c.dataset, c.attribute, c.epsilon, c.quantity, c.group, c.floor)
        for c in published_cells()
    ]
    assert len(set(keys)) == len(keys)


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="no field 'colour'"):
        published_cells(colour="red")
    with pytest.raises(TypeError, match="no field 'colour'"):
        text_figures(colour="red")


def test_text_figures_have_one_name_each_and_a_place():
    assert len({figure.key for figure in TEXT_FIGURES}) == len(TEXT_FIGURES)
    for figure in TEXT_FIGURES:
        assert figure.place
        assert figure.printed
        assert figure.over in ("each", "smallest", "largest", "mean", "all")
        assert (len(figure.budgets) == 1) == (figure.over == "each")
        assert set(figure.budgets) <= set(BUDGETS)
        if figure.dataset is not None:
            groups = configuration(figure.dataset, str(figure.attribute)).groups
            assert figure.group is None or figure.group in groups


def test_text_figures_hold_what_the_issue_names():
    assert text_figures(key="sign_agreements_without_0.1")[0].value == 26
    assert text_figures(key="compas_sign_test_p_0.1")[0].value == 0.82
    assert text_figures(key="median_ratio")[0].digits == 2
    assert len(text_figures(place="tab:summary")) == 18


def test_every_table_of_the_paper_has_its_number():
    assert list(TABLE_NAMES.values()) == [
        *(f"Table {k}" for k in (1, 2, 3)),
        *(f"Table S{k}" for k in range(1, 7)),
    ]


def test_decimals_of_a_whole_number():
    assert decimals_of("50") == 0


def test_the_protocol_is_the_papers():
    assert N_MODELS == 1_200
    assert [one.name for one in CONFIGURATIONS] == [
        "Adult (sex)",
        "Adult (race)",
        "COMPAS (race)",
        "ACS (race)",
        "ACS (sex)",
        "Bios (gender)",
    ]
    assert set(TRAINING) <= {setting.name for setting in SETTINGS}
    assert all(setting.section for setting in SETTINGS)


def test_the_protocol_is_what_training_does_by_default():
    train = pytest.importorskip("pcer.train")
    assert train.TrainConfig(**TRAINING) == train.TrainConfig()


def test_the_data_have_the_protocols_groups():
    data = pytest.importorskip("pcer.data")
    for task, _ in data.SOURCES:
        for one in CONFIGURATIONS:
            if one.dataset == task.name:
                rule = task.attributes[one.attribute]
                assert tuple(name for name, _ in rule.groups) == one.groups
                assert task.outcome == one.outcome


def test_an_unknown_configuration_is_refused():
    with pytest.raises(KeyError, match="no configuration compas sex"):
        configuration("compas", "sex")
