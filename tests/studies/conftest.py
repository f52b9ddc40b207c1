"""Studies that several files look at; no test may change them."""

import pytest

from pcer_studies import Study
from pcer_studies.claims.quantities import ADULT_RACE, COMPAS
from tests.worlds.studies import Truth, all_planted, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Study:
    """All six configurations with four seeds, group 1 remembered."""
    return Study.read(write_study(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="session")
def remembered(tmp_path_factory) -> Study:
    """Group 1 is remembered more and receives less; every attack shows it."""
    folder = tmp_path_factory.mktemp("remembered")
    return all_planted(
        folder, Truth(gaps=(0.07, 0.14), exposure=(0.01, 0.05), n_seeds=12)
    )


@pytest.fixture(scope="session")
def forgotten(tmp_path_factory) -> Study:
    """Nobody is remembered; only the positive rates differ."""
    folder = tmp_path_factory.mktemp("forgotten")
    return all_planted(
        folder, Truth(label_shares=(0.8, 0.1), n_seeds=30), [ADULT_RACE, COMPAS]
    )
