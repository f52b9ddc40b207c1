"""Sweeps of tests are small: their splits are not trained on again, but where said."""

import pytest

from pcer.sweep import sweep


@pytest.fixture(scope="package", autouse=True)
def no_repeats():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "N_REPEATS", 0)
        yield
