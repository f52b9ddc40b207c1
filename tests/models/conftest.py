"""What the tests of models share."""

import functools

import pytest

from pcer.attacks import costs


@pytest.fixture
def few_permutations(monkeypatch):
    """The same checks with made-up groups and few permutations, which take most of the time."""
    few = functools.partial(costs.check_with_coins, n_permutations=19)
    monkeypatch.setattr(costs, "check_with_coins", few)
