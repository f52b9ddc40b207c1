"""A size or a level is said only where the printed interval bears it."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pcer.measuring.sizes import Level, Size, Spotted, level_of, size_of, tail_of
from pcer.statistics import holm, two_sided_p

points = st.floats(-100, 100)
intervals = st.tuples(points, points).map(sorted)


@given(intervals, st.floats(0.1, 100))
def test_a_size_word_is_borne_by_every_number_of_the_interval(interval, margin):
    low, high = interval
    size = size_of(low, high, margin=margin)
    if size is Size.SLIGHT:
        assert all(abs(end) <= margin for end in interval)
    elif size.is_clear:
        assert low >= margin * (2 if size is Size.FAR else 1)
    else:
        assert size is Size.OPEN
        assert low < margin < max(abs(low), abs(high))


def test_without_an_interval_no_size_is_said():
    assert size_of(math.nan, math.nan, margin=1) is Size.OPEN


@given(
    st.lists(st.tuples(st.booleans(), intervals), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_level_is_what_the_intervals_of_detected_groups_bear(groups, is_weak):
    spotted = [Spotted(detected, *interval) for detected, interval in groups]
    level = level_of(spotted, is_weak=is_weak)
    detected = [group for group in spotted if group.is_detected]
    if not detected:
        told = not is_weak and all(group.high <= 55 for group in spotted)
        assert level is (Level.NOT_DETECTED if told else Level.CANNOT_TELL)
        return
    most = max(group.low for group in detected)
    by_loop = Level.BARELY
    for group in detected:
        if group.high > 55:
            by_loop = Level.SOMEWHAT
    for least, name in ((60, Level.OFTEN), (90, Level.ALMOST_ALWAYS)):
        if most >= least:
            by_loop = name
    assert level is by_loop
    assert level.is_alarm == (most >= 60)


@given(st.lists(st.floats(-6, 6), min_size=1, max_size=12), st.floats(0.5, 0.999))
def test_an_interval_without_0_implies_that_holm_rejects(z, confidence_level):
    tail = tail_of(confidence_level, len(z))
    adjusted = holm(two_sided_p(np.array(z), np.ones(len(z))))
    for value, p in zip(z, adjusted, strict=True):
        excludes_0 = abs(value) > stats.norm.isf(tail) + 1e-9
        assert not excludes_0 or p <= 0.05
