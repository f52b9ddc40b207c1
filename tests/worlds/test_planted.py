from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds.planted import DEFAULT, WORLDS, audit_once, double_once

SURE = [
    "flipped labels, 1nn",
    "flipped labels, tree",
    "minority with a relation of its own, 1nn",
    pytest.param("flipped labels, forest", marks=pytest.mark.slow),
    pytest.param("noisier labels, forest", marks=pytest.mark.slow),
]
"""Worlds in which some attack names the right group in 95 % of audits."""


def counted(name: str, n: int) -> Counter:
    """Whom audits of one world name, by attack."""
    total = Counter()
    for k in range(n):
        total.update(audit_once(WORLDS[name], (7, k)))
    return total


@pytest.mark.parametrize("name", SURE)
def test_the_more_exposed_group_is_named(name):
    found = counted(name, 2)
    assert (found[DEFAULT, "group 1"], found[DEFAULT, "group 0"]) == (2, 0)


def test_a_true_double_disadvantage_with_equal_ratios_is_reported():
    """The check of ratios, which are equal, must not withdraw it."""
    assert double_once(0) == (True, True)


@pytest.mark.slow
def test_eighty_people_like_the_others_are_seldom_named():
    """Of 100 audits at 5 %, more than 13 have chance .001."""
    found = counted("80 people, 5nn", 100)
    for kind in ("disparity", "double"):
        assert found[DEFAULT, kind] <= 13
    assert found[DEFAULT, "group 0"] + found[DEFAULT, "group 1"] <= 13


@pytest.mark.slow
def test_a_double_disadvantage_is_reported_wherever_both_differences_are_significant():
    found = [double_once(seed) for seed in range(1, 16)]
    both = [said for is_both, said in found if is_both]
    assert len(both) >= 12
    assert sum(both) >= 0.8 * len(both)
