"""What an epsilon allows: an advantage, and the delta of one step of DP-SGD."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from pcer.measuring.checks.chance import largest_advantage
from pcer.measuring.checks.logic import delta_of_one_step


def farthest(aim: np.ndarray, pairs: list, epsilon: float, delta: float) -> float:
    """Linear program: most of a sum of chances of one event, by neighbours' epsilon."""
    one = np.eye(len(aim))
    grow = np.exp(epsilon)
    rows = [(one[s] - grow * one[t], delta) for s, t in pairs]
    rows += [(-row, delta + grow - 1) for row, _ in rows]  # of its opposite
    left, right = zip(*rows, strict=True)
    return float(-linprog(-aim, A_ub=left, b_ub=right, bounds=(0, 1)).fun)


def most_apart(epsilon: float, delta: float, n_steps: int) -> float:
    """Half of the most by which chances differ at the ends of a chain of neighbours."""
    one = np.eye(n_steps + 1)
    pairs = []
    for k in range(n_steps):
        pairs += [(k, k + 1), (k + 1, k)]
    return farthest(one[0] - one[-1], pairs, epsilon, delta) / 2


def largest_auc(epsilon: float, delta: float, *, by_label: bool) -> float:
    """Linear program over mechanisms: the best AUC - 1/2 of people of different labels.

    Two of four people are trained on, of either label one where splits are balanced on
    it, and neighbours replace a record. The output says which person of the group, the
    first two, one of each label, looks more like a member.
    """
    halves = [who for who in itertools.product((0, 1), repeat=4) if sum(who) == 2]
    ins = np.array(halves)
    ins = ins[ins[:, 0] != ins[:, 2]] if by_label else ins
    n_exchanged = np.abs(ins[:, None] - ins).sum(axis=2)
    first = ins[:, 0] - ins[:, 1]
    aim = first / np.abs(first).sum()
    return farthest(aim, np.argwhere(n_exchanged == 2).tolist(), epsilon, delta)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05, 0.999])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
def test_what_an_epsilon_allows_against_linear_programs(epsilon, delta):
    for n_steps in (1, 2, 3, 4):
        bound = largest_advantage(epsilon, delta, n_steps=n_steps)
        assert bound == pytest.approx(most_apart(epsilon, delta, n_steps), abs=1e-9)
    # reached: one exchange, or two where splits are balanced on labels and these differ
    for by_label in (False, True):
        most = largest_advantage(epsilon, delta, n_steps=1 + by_label)
        assert largest_auc(epsilon, delta, by_label=by_label) == pytest.approx(
            most, abs=1e-9
        )
    # area above the diagonal of the curve of two models, one with a person and one
    # without
    q = np.linspace(0, 1, 20_001)
    curve = np.minimum(
        np.exp(epsilon) * q + delta, 1 - np.exp(-epsilon) * (1 - q - delta)
    )
    area = float(np.trapezoid(np.minimum(curve, 1), q)) - 0.5
    assert area <= most + 1e-9
    if delta == 0:
        one = largest_advantage(epsilon, 0.0, n_steps=1)
        assert one == pytest.approx(np.tanh(epsilon / 2) / 2)
        assert area == pytest.approx(one, abs=1e-6)
    assert largest_advantage(np.inf, delta, n_steps=2) == 0.5


@pytest.mark.parametrize(
    ("epsilon", "noise", "rate"), [(0.1, 2.0, 0.5), (3, 0.3, 0.01), (1, 1, 1)]
)
def test_the_delta_of_one_step_against_a_sum_over_outcomes(epsilon, noise, rate):
    x = np.linspace(-20, 21, 400_001)
    without = stats.norm.pdf(x, 0, noise)
    moved = stats.norm.pdf(x, 1, noise)
    more = rate * moved + (1 - rate) * without - np.exp(epsilon) * without
    least = np.trapezoid(np.maximum(more, 0), x)
    assert delta_of_one_step(epsilon, noise, rate) == pytest.approx(least, rel=1e-4)
