"""Rates of groups as an audit has them, and each record's part in them as a derivative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pcer.attacks.rates import everybodys_benefit

from pcer.attacks.pooled import record_rates
from pcer.auditing.exact import strata_of_counts
from pcer.auditing.variances import split_luck
from pcer.metrics import Counts, accuracy, positive_rate
from tests import reference_attacks as slow

N_RECORDS, N_MODELS = 60, 3


def records(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, N_RECORDS)
    member = rng.random((N_MODELS, N_RECORDS)) < 0.6
    predicted = rng.random(member.shape) < 0.3 + 0.3 * labels + 0.1 * member
    codes = rng.integers(-1, 2, N_RECORDS)
    return predicted, labels, member, codes


def table(weight, predicted, labels, chosen):
    cells = [(1, 1), (1, 0), (0, 0), (0, 1)]
    sums = [(weight * chosen * (predicted == p) * (labels == y)).sum() for p, y in cells]
    return Counts(*(np.array([one]) for one in sums))


def rates(weight, predicted, labels, member, chosen):
    """Mean over models of what an audit computes from counts, and of the positive rate."""
    gaps, benefits = [], []
    for one, inside in zip(predicted, member, strict=True):
        train = table(weight, one, labels, chosen & inside)
        test = table(weight, one, labels, chosen & ~inside)
        luck = split_luck(strata_of_counts(train, test)).mean
        gaps.append((accuracy(train) - accuracy(test) - luck)[0])
        benefits.append(positive_rate(test)[0])
    return np.mean(gaps), np.mean(benefits)


@given(st.integers(0, 1_000))
def test_values_are_those_of_an_audit(seed):
    predicted, labels, member, codes = records(seed)
    found = record_rates(predicted, labels, member, codes, n_groups=2)
    for k in range(2):
        gap, benefit = rates(np.ones(N_RECORDS), predicted, labels, member, codes == k)
        assert found.gap.value[k] == pytest.approx(gap, abs=1e-12)
        assert found.benefit.value[k] == pytest.approx(benefit, abs=1e-12)
        for shares in found:
            assert shares.parts[codes == k].sum() == pytest.approx(0, abs=1e-12)
            assert not shares.parts[codes < 0].any()


def test_parts_are_derivatives_up_to_degrees_of_freedom():
    """With many records beside one another the degrees of freedom make no difference."""
    predicted, labels, member, codes = (np.repeat(one, 30, axis=-1) for one in records(3))
    found = record_rates(predicted, labels, member, codes, n_groups=2)
    chosen = codes == 1
    for r in np.flatnonzero(chosen)[::97]:
        for shares, which in ((found.gap, 0), (found.benefit, 1)):
            expected = slow.derivative(
                lambda w, which=which: rates(w, predicted, labels, member, chosen)[which],
                len(codes),
                r,
            )
            assert shares.parts[r] == pytest.approx(expected, rel=0.02, abs=1e-8)


def test_a_group_that_nobody_was_held_out_of_has_no_rates():
    member = np.array([[True, True, False, True]])
    predicted = np.array([[True, False, True, False]])
    found = record_rates(predicted, np.ones(4, int), member, np.array([0, 0, 1, 1]), n_groups=2)
    assert np.isnan(found.benefit.value[0])
    assert np.isnan(found.gap.value[0])
    assert found.benefit.value[1] == 1.0


def test_everybodys_benefit_is_that_of_one_group():
    predicted, labels, member, codes = records(5)
    member[0, codes >= 0] = True
    member[0, np.flatnonzero(codes >= 0)[:1]] = False  # one held out
    whole = np.where(codes >= 0, 0, -1)
    expected = record_rates(predicted, labels, member, whole, n_groups=1).benefit
    found = everybodys_benefit(predicted, member, whole)
    assert found.value == pytest.approx(expected.value, abs=1e-15)
    assert found.parts == pytest.approx(expected.parts, abs=1e-15)
    nobody = everybodys_benefit(predicted, np.ones_like(member), whole)
    assert np.isnan(nobody.value)
    assert not nobody.parts.any()
