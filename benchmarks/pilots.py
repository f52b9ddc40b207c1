"""Is a plan from an earlier release right? The paired gap, planned from a pilot of as many splits.

Models are unsteady: each record is right with a chance of its own in every training. A pilot is
drawn, ``pcer.auditing.planner`` says from its errors what is found 4 times in 5 or how often the
pilot's own amount is, and further studies of the same world count how often it is found.

    python -m benchmarks.pilots [studies per world] [seed]
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from pcer.attacks import BudgetScores, pooled_attacks_of
from pcer.auditing.planner import (
    Design,
    DifferenceBetween,
    ExposureOf,
    MeasuredError,
    smallest,
)
from pcer.statistics import SIGNIFICANCE, two_sided_p, upper_p

RIGHT = 0.8
N_PILOTS = 20


class PilotWorld(NamedTuple):
    """Two groups; ``steadiness`` is large where all records are as likely to be right."""

    people: tuple[int, int]
    n_splits: int
    train_share: float
    steadiness: float


WORLDS = (
    PilotWorld((400, 700), 4, 0.7, 1.0),
    PilotWorld((400, 700), 12, 0.7, 1.0),
    PilotWorld((1_000, 1_500), 8, 0.5, 5.0),
    PilotWorld((300, 300), 20, 0.8, 3.0),
    PilotWorld((2_000, 500), 6, 0.7, 2.0),
)


class PairedGaps(NamedTuple):
    """Of both groups."""

    value: np.ndarray
    error: np.ndarray


def study(world: PilotWorld, cost: float, rng: np.random.Generator) -> PairedGaps:
    """Paired gaps of one study in which the first group has that exposure, the second none."""
    n, group = sum(world.people), np.repeat([0, 1], world.people)
    right = rng.beta(RIGHT * world.steadiness, (1 - RIGHT) * world.steadiness, n)
    known = (group == 0) & (rng.random(n) < cost / (1 - RIGHT))
    trained = round(world.train_share * n)
    member = np.array([rng.permutation(n) < trained for _ in range(world.n_splits)])
    correct = (rng.random(member.shape) < right) | (known & member)
    scores = BudgetScores(
        logits=np.where(correct, 1.0, -1.0),
        labels=np.ones(n, dtype=np.int64),
        member=member,
        group=group,
        group_names=("first", "second"),
    )
    rows = pooled_attacks_of([scores], epsilon=math.inf)[0].rows
    own = [row for row in rows if row.proxy == "paired_gap"]
    return PairedGaps(
        np.array([row.value for row in own]), np.array([row.standard_error for row in own])
    )


def planned(world: PilotWorld, pilot: PairedGaps) -> Design:
    people = np.array(world.people, dtype=float)
    return Design(
        group_names=("first", "second"),
        people=people,
        n_splits=world.n_splits,
        n_cost_tests=2,
        n_pair_tests=1,
        error=MeasuredError(
            standard_error=pilot.error,
            cost=pilot.value,
            n_people=people,
            n_splits=world.n_splits,
        ),
    )


def found(gaps: PairedGaps, question: ExposureOf | DifferenceBetween) -> bool:
    if isinstance(question, ExposureOf):
        return bool(2 * upper_p(gaps.value, gaps.error)[0] <= SIGNIFICANCE)
    difference, error = gaps.value[0] - gaps.value[1], math.hypot(*gaps.error)
    return bool(difference > 0 and two_sided_p(difference, error) <= SIGNIFICANCE)


def main(n: int = 400, seed: int = 1) -> None:
    print(f"{'people':>13} {'splits':>6}  question    amount predicted found")
    for k, world in enumerate(WORLDS):
        rng = np.random.default_rng([seed, k])
        for question in (ExposureOf(group=0), DifferenceBetween(lower=1, higher=0)):
            cost = smallest(planned(world, study(world, 0.0, rng)), question)
            pilots = [planned(world, study(world, cost, rng)) for _ in range(N_PILOTS)]
            predicted = float(np.mean([question.power(one, cost) for one in pilots]))
            share = float(np.mean([found(study(world, cost, rng), question) for _ in range(n)]))
            name = "exposure" if isinstance(question, ExposureOf) else "difference"
            print(
                f"{world.people[0]:>6,} {world.people[1]:>6,} {world.n_splits:>6}  {name:<10} "
                f"{cost:>7.4f} {predicted:>9.0%} {share:>5.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
