"""The two claims of ``benchmarks/receipts.py``, on people whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.receipts import correlations, payers


def people(rng, n_seeds=3, n_records=40):
    member = rng.random((n_seeds, n_records)) < 0.6
    member[:, :4], member[:, -4:] = True, False
    loss = rng.gamma(1.0, size=member.shape)
    return member, loss


def test_correlations_are_those_of_people_in_training():
    member, loss = people(np.random.default_rng(0))
    spent = np.where(member, np.log(loss), np.nan)  # who was not trained on spent nothing
    found = correlations(spent, loss, member)
    assert found["log loss"] == pytest.approx((1.0, 0.0), abs=1e-12)
    assert found["rank"] == pytest.approx((1.0, 0.0), abs=1e-12)
    by_hand = [np.corrcoef(np.log(x[m]), x[m])[0, 1] for x, m in zip(loss, member, strict=True)]
    mean, error = np.mean(by_hand), np.std(by_hand, ddof=1) / np.sqrt(3)
    assert found["loss"] == pytest.approx((mean, error))


def test_the_worst_predicted_group_and_what_it_spends_by_hand():
    member = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 1, 0]], dtype=bool)
    codes = np.array([0, 0, 1, 1, -1, -1])
    right = np.array([[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]], dtype=bool)
    spent = np.array([[1.0, 9, 2, 9, 9, 9], [9, 2.0, 9, 3, 9, 9]])
    found = payers(spent, right, member, codes, ("a", "b"))
    assert (found["best"], found["worst"], found["pays most"]) == ("a", "b", "b")
    assert found["accuracy less"] == pytest.approx((0.5, 0.5))  # 1 - 0 and 1 - 1
    assert found["paid by the worst"] == pytest.approx((2.5, 0.5))
    assert found["worst over best"] == pytest.approx((1.75, 0.25))  # 2/1 and 3/2
    assert found["seeds in which the worst pays more"] == 2
