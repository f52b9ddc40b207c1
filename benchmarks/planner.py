"""Is the planner right? Its predicted power beside that of simulated studies, world by world.

Worlds are drawn: two groups of 200 to 50,000 people, accuracies of 0.6 to 0.97 (by label in every
other world), a train share of 0.5 to 0.9, 1 to 50 splits, 1 to 6 settings. In each the planner
names the exposure and the difference that it says would be found with a power between 0.5 and
0.9; as many people are then memorised, and the audit's tests count how often it is found.

Then twenty further worlds, whose two groups are predicted alike, go through the audit itself: its
measurements, its tests, its families. "audit" is how often it says that one group is more exposed,
which is what ``pcer plan`` promises; "verdict" is how often its verdict names the group, which also
has the error of what groups receive.

    python -m benchmarks.planner [studies per world] [seed]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from tests.worlds.power import audited_shares, planted, resolved_share, shown_share

from pcer.auditing.planner import CountsError, Design, Question

N_WORLDS = 20


def draw(rng: np.random.Generator, *, by_label: bool) -> Design:
    positive = rng.uniform(0.2, 0.6, 2)
    n_settings = int(rng.choice([1, 2, 6]))
    return Design(
        group_names=("first", "second"),
        people=np.rint(10 ** rng.uniform(np.log10(200), np.log10(50_000), 2)),
        n_splits=int(rng.choice([1, 2, 5, 20, 50])),
        n_cost_tests=2 * n_settings,
        n_pair_tests=n_settings,
        error=CountsError(
            accuracy=rng.uniform(0.6, 0.97, (2, 2 if by_label else 1)),
            train_share=float(rng.choice([0.5, 0.7, 0.8, 0.9])),
            label_share=np.stack([1 - positive, positive], axis=1) if by_label else np.ones((2, 1)),
        ),
    )


def draw_alike(rng: np.random.Generator) -> Design:
    """Two groups of the same labels and accuracies, so that they receive the same."""
    design = draw(rng, by_label=True)
    error = design.error
    assert isinstance(error, CountsError)
    alike = replace(
        error,
        accuracy=np.tile(error.accuracy[:1], (2, 1)),
        label_share=np.tile(error.label_share[:1], (2, 1)),
    )
    return replace(design, error=alike)


def amount(design: Design, question: Question, power: float) -> float | None:
    """What the planner says is found with that power; None if nothing is."""
    largest = question.largest(design)
    if question.power(design, largest) < power:
        return None
    return float(brentq(lambda c: question.power(design, c) - power, 0.0, largest))


def exposure(design: Design, power: float, n: int, rng: np.random.Generator) -> tuple | None:
    question = Question(groups=(0,))
    if (cost := amount(design, question, power)) is None:
        return None
    cost = planted(design, 0, cost)
    found = resolved_share(design, 0, cost, n=n, rng=rng)
    return cost, question.power(design, cost), found


def difference(design: Design, power: float, n: int, rng: np.random.Generator) -> tuple | None:
    base = float(rng.choice([0.0, 0.01]))
    question = Question(groups=(0, 1), base=base)
    if (cost := amount(design, question, power)) is None:
        return None
    costs = (base, base + cost)
    found = shown_share(design, (0, 1), costs, n=n, rng=rng)
    return cost, question.power(design, cost), found


def through_audit(design: Design, power: float, n: int, rng: np.random.Generator) -> dict:
    """By question, the amount, the power predicted for exposures, and how often it was found."""
    question = Question(groups=(0, 1))
    if (cost := amount(design, question, power)) is None:
        return {}
    predicted = question.power(design, cost)
    found = audited_shares(design, (0.0, cost), n=n, rng=rng)
    return {name: (cost, predicted, one) for name, one in zip(AUDITED, found, strict=True)}


QUESTIONS = {"exposure": exposure, "difference": difference}
AUDITED = ("audit", "verdict")


def answers(world: int, n: int, rng: np.random.Generator) -> tuple[Design, dict]:
    if world >= N_WORLDS:
        design = draw_alike(rng)
        return design, through_audit(design, float(rng.uniform(0.5, 0.9)), n, rng)
    design, power = draw(rng, by_label=world % 2 == 1), float(rng.uniform(0.5, 0.9))
    found = {name: ask(design, power, n, rng) for name, ask in QUESTIONS.items()}
    return design, {name: one for name, one in found.items() if one is not None}


def main(n: int = 2_000, seed: int = 1) -> None:
    rows = []
    print(f"{'people':>15} {'splits':>6} {'tests':>5}  question    {'amount':>7} predicted found")
    for world in range(2 * N_WORLDS):
        design, found = answers(world, n, np.random.default_rng([seed, world]))
        people = [int(one) for one in design.people]
        for name, answer in found.items():
            rows.append([people, design.n_splits, design.n_cost_tests, name, *answer])
            print(
                f"{people[0]:>7,} {people[1]:>7,} {design.n_splits:>6} {design.n_cost_tests:>5}  "
                f"{name:<10} {answer[0]:>8.4f} {answer[1]:>9.1%} {answer[2]:>5.1%}",
                flush=True,
            )
    for name in (*QUESTIONS, *AUDITED):
        misses = np.array([abs(row[-2] - row[-1]) for row in rows if row[3] == name])
        largest, mean = misses.max(), misses.mean()
        print(f"{name}: largest miss {largest:.1%}, mean {mean:.1%}, of {len(misses)} worlds")
    out = Path(__file__).parent / "results" / "planner.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
