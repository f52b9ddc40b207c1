"""What the tests of models share."""

import functools

import pytest

from pcer.attacks import exposure_rows


@pytest.fixture
def few_permutations(monkeypatch):
    """The same checks with few permutations, which take most of the time."""
    few = functools.partial(exposure_rows.check_with_coins, n_permutations=19)
    monkeypatch.setattr(exposure_rows, "check_with_coins", few)
