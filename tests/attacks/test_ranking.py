"""One packed sort against stable sorts of groups, and pairs counted one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcer.attacks.single import rank
from pcer.attacks.sums import Groups
from tests import reference_attacks as slow

NEAR_ONE = st.integers(0, 6).map(lambda k: 1.0 + k * 2.0**-52)
"""Scores that differ in their last digits only, which do not fit into a key."""
SCORES = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1e300, -1e-300, np.inf, -np.inf]),
    NEAR_ONE,
)
ROW = st.tuples(st.one_of(SCORES, st.just(np.nan)), st.booleans(), st.integers(-1, 2))


@settings(max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=40))
def test_ranks_are_those_of_a_stable_sort_within_groups(rows):
    score, member, group = (np.array(column) for column in zip(*rows, strict=True))
    divisions = [Groups(group, 3), Groups(0 * group, 1)]
    found = rank(score.astype(float), member, divisions)
    for groups in divisions:
        for k, ranked in enumerate(found[groups]):
            mine = np.flatnonzero((groups.codes == k) & ~np.isnan(score))
            order = mine[np.argsort(score[mine], kind="stable")]
            np.testing.assert_array_equal(ranked.order, order)
            np.testing.assert_array_equal(ranked.member, member[order])
            check_counts(ranked, score[order], member[order])


def check_counts(ranked, score, member):
    n = len(score)
    assert (ranked.n_members, ranked.n_nonmembers) == (member.sum(), n - member.sum())
    for place in range(n + 1):
        assert ranked.above(place) == (member[place:].sum(), (~member[place:]).sum())
    for number, threshold in enumerate(score[~member]):
        assert ranked.end_of_tie(number) == (score <= threshold).sum()
    assert ranked.is_onesided == (member.all() or not member.any())
    if not ranked.is_onesided:
        assert ranked.auc == pytest.approx(slow.auc(score, member), abs=1e-14)
        placements = [
            np.mean(
                [slow.beats(*((s, t) if m else (t, s))) for t in score[member != m]]
            )
            for s, m in zip(score, member, strict=True)
        ]
        sides = np.where(member, ranked.n_members, ranked.n_nonmembers)
        expected = (np.array(placements) - ranked.auc) / sides
        np.testing.assert_allclose(ranked.parts(), expected, atol=1e-14)


def test_many_groups_and_records_leave_the_order_exact():
    """Keys keep fewer digits of a score the more records and groups there are."""
    rng = np.random.default_rng(0)
    n, n_groups = 70_000, 200
    score = 1 + rng.integers(0, 2**30, n) * 2.0**-52
    member = rng.random(n) < 0.7
    group = rng.integers(-1, n_groups, n)
    (found,) = rank(score, member, [Groups(group, n_groups)]).values()
    for k in (0, 77, 199):
        mine = np.flatnonzero(group == k)
        order = mine[np.argsort(score[mine], kind="stable")]
        np.testing.assert_array_equal(found[k].order, order)
        np.testing.assert_array_equal(found[k].member, member[order])
