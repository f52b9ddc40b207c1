"""How many splits are enough, and that the answer looks at nothing that a verdict looks at."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pcer.auditing.planner import CountsError, Design, Question, smallest
from pcer.models.precision import enough_splits, smallest_gap
from tests.models.worlds import Ignorant, release, world

pytestmark = pytest.mark.usefixtures("few_permutations")


def arrays(n_splits: int = 6, n: int = 4_000):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, n)
    right = rng.random((n_splits, n)) < np.array([0.7, 0.8, 0.85, 0.9])[cells]
    return right, rng.random((n_splits, n)) < 0.7, cells


def test_the_smallest_gap_is_the_planners():
    right, member, cells = arrays()
    found = smallest_gap([right], member, cells, inflation=np.ones(2))
    sizes = np.bincount(cells).reshape(2, 2)
    rates = np.array([right[:, cells == k].mean() for k in range(4)]).reshape(2, 2)
    design = Design(
        group_names=("a", "b"),
        people=sizes.sum(axis=1).astype(float),
        n_splits=6,
        n_cost_tests=2,
        n_pair_tests=1,
        error=CountsError(
            accuracy=rates, train_share=0.7, label_share=sizes / sizes.sum(axis=1, keepdims=True)
        ),
    )
    wanted = max(smallest(design, Question(groups=(group,))) for group in (0, 1))
    assert found == pytest.approx(wanted, rel=0.05)


def test_who_is_in_training_does_not_matter_but_for_how_many():
    right, member, cells = arrays()
    found = smallest_gap([right], member, cells, inflation=np.ones(2))
    mixed = np.random.default_rng(1).permuted(member, axis=1)
    assert smallest_gap([right], mixed, cells, inflation=np.ones(2)) == pytest.approx(found, 1e-9)


def test_the_worst_setting_and_group_count_and_so_do_people_of_many_records():
    right, member, cells = arrays()
    alone = smallest_gap([right], member, cells, inflation=np.ones(2))
    perfect = np.ones_like(right)
    assert smallest_gap([perfect], member, cells, inflation=np.ones(2)) > 0
    assert smallest_gap([right, perfect], member, cells, inflation=np.ones(2)) > alone
    fewer = smallest_gap([right], member, cells, inflation=np.full(2, 4.0))
    assert fewer == pytest.approx(2 * alone)
    assert smallest_gap(
        [right], member, np.where(cells > 1, -1, cells), inflation=np.ones(1)
    ) == pytest.approx(alone, rel=0.2)


def test_four_times_the_splits_see_half_as_much():
    assert enough_splits(10, 0.02, target=0.01) == 40
    assert enough_splits(10, 0.01, target=0.01) == 10


def test_splits_are_added_until_a_small_exposure_would_show():
    model = Ignorant(random_state=0)
    made = release(model, until_detectable=0.08, max_splits=40)
    n = len(made.runs)
    assert 3 < n < 40
    assert f"after {n} splits the smallest is 0.0" in " ".join(made.subject.notes)
    fixed = release(model, n_splits=n)
    assert made.runs == fixed.runs
    assert made.pooled_exposure == fixed.pooled_exposure
    assert release(model, until_detectable=0.08, max_splits=40).to_json() == made.to_json()


def test_the_most_splits_are_not_exceeded():
    made = release(Ignorant(random_state=0), until_detectable=0.001, max_splits=5)
    assert len(made.runs) == 5
    assert "but not far enough that an overfitting gap of 0.001" in " ".join(made.subject.notes)


def test_enough_from_the_start_is_enough():
    assert len(release(GaussianNB(), world(), until_detectable=0.5).runs) == 3
