"""Is the planner right? Its predicted power beside that of simulated studies.

    python -m benchmarks.planner counts [studies per world] [seed]
    python -m benchmarks.planner pilots [--draws 600] [--seed 1] [--fitted]

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from tests.worlds.honest import fitted_release
from tests.worlds.power import (
    ATTACKS,
    DRAWN,
    audited_shares,
    drawn_study,
    planted,
    resolved_share,
    shown_share,
)
from tests.worlds.power import answers as pilot_answers

from benchmarks import parser_of, run_verb, with_numbers, write_results
from pcer.auditing.planner import CountsError, Design, Question
from pcer.release.panel import Panel, panels

N_WORLDS = 20


FITTED: dict[str, ClassifierMixin] = {
    "logistic": LogisticRegression(C=10.0),
    "forest": RandomForestClassifier(20, min_samples_leaf=10, random_state=0),
}
NOISE = (0.1, 0.3)
"""Share of labels that are wrong, in each group of a fitted world."""


def fitted_study(model: ClassifierMixin, draw: int, *, n: int = 800, n_splits: int = 20) -> Panel:
    """A study of a fitted model; the second group's labels are noisier."""
    rng = np.random.default_rng([24, draw])
    x, group = rng.normal(size=(n, 20)), rng.integers(0, 2, n)
    y = (x[:, 0] + x[:, 1] > 0) ^ (rng.random(n) < np.array(NOISE)[group])
    release = fitted_release(model, x, y.astype(int), group=group, n_splits=n_splits, draw=draw)
    return panels(release)[0]


def draw(rng: np.random.Generator) -> Design:
    n_settings = int(rng.choice([1, 2, 6]))
    return Design(
        group_names=("first", "second"),
        people=np.rint(10 ** rng.uniform(np.log10(200), np.log10(50_000), 2)),
        n_splits=int(rng.choice([1, 2, 5, 20, 50])),
        n_cost_tests=2 * n_settings,
        n_pair_tests=n_settings,
        error=CountsError(
            accuracy=rng.uniform(0.6, 0.97, 2), train_share=float(rng.choice([0.5, 0.7, 0.8, 0.9]))
        ),
    )


def draw_alike(rng: np.random.Generator) -> Design:
    """Two groups of the same accuracy, so that they receive the same."""
    study = draw(rng)
    return replace(study, error=replace(study.error, accuracy=study.error.accuracy[[0, 0]]))


def amount(study: Design, question: Question, power: float) -> float | None:
    """What the planner says is found with that power; None if nothing is."""
    largest = question.largest(study)
    if question.power(study, largest) < power:
        return None
    return float(brentq(lambda c: question.power(study, c) - power, 0.0, largest))


def exposure(study: Design, power: float, n: int, rng: np.random.Generator) -> tuple | None:
    question = Question(groups=(0,))
    if (cost := amount(study, question, power)) is None:
        return None
    cost = planted(study, 0, cost)
    found = resolved_share(study, 0, cost, n=n, rng=rng)
    return cost, question.power(study, cost), found


def difference(study: Design, power: float, n: int, rng: np.random.Generator) -> tuple | None:
    base = float(rng.choice([0.0, 0.01]))
    question = Question(groups=(0, 1), base=base)
    if (cost := amount(study, question, power)) is None:
        return None
    costs = (base, base + cost)
    found = shown_share(study, costs, n=n, rng=rng)
    return cost, question.power(study, cost), found


def through_audit(study: Design, power: float, n: int, rng: np.random.Generator) -> dict:
    """By question, the amount, the power predicted for exposures, and how often it was found."""
    question = Question(groups=(0, 1))
    if (cost := amount(study, question, power)) is None:
        return {}
    predicted = question.power(study, cost)
    found = audited_shares(study, (0.0, cost), n=n, rng=rng)
    return {name: (cost, predicted, one) for name, one in zip(AUDITED, found, strict=True)}


QUESTIONS = {"exposure": exposure, "difference": difference}
AUDITED = ("audit", "verdict")


def answers(world: int, n: int, rng: np.random.Generator) -> tuple[Design, dict]:
    if world >= N_WORLDS:
        study = draw_alike(rng)
        return study, through_audit(study, float(rng.uniform(0.5, 0.9)), n, rng)
    study, power = draw(rng), float(rng.uniform(0.5, 0.9))
    found = {name: ask(study, power, n, rng) for name, ask in QUESTIONS.items()}
    return study, {name: one for name, one in found.items() if one is not None}


def counts(n: int = 2_000, seed: int = 1) -> None:
    """Is the planner right? Its predicted power beside that of simulated studies, world by world.

    Worlds are drawn: two groups of 200 to 50,000 people, accuracies of 0.6 to 0.97, a
    train share of 0.5 to 0.9, 1 to 50 splits, 1 to 6 settings. In each the planner names the
    exposure and the difference that it says would be found with a power between 0.5 and 0.9; as
    many people are then memorised, and the audit's tests count how often it is found.

    Then twenty further worlds, whose two groups are predicted alike, go through the audit itself:
    its measurements, its tests, its families. "audit" is how often it says that one group is more
    exposed, which is what ``pcer plan`` promises; "verdict" is how often its verdict names the
    group, which also has the error of what groups receive.
    """
    rows = []
    print(f"{'people':>15} {'splits':>6} {'tests':>5}  question    {'amount':>7} predicted found")
    for world in range(2 * N_WORLDS):
        study, found = answers(world, n, np.random.default_rng([seed, world]))
        people = [int(one) for one in study.people]
        for name, answer in found.items():
            rows.append([people, study.n_splits, study.n_cost_tests, name, *answer])
            print(
                f"{people[0]:>7,} {people[1]:>7,} {study.n_splits:>6} {study.n_cost_tests:>5}  "
                f"{name:<10} {answer[0]:>8.4f} {answer[1]:>9.1%} {answer[2]:>5.1%}",
                flush=True,
            )
    for name in (*QUESTIONS, *AUDITED):
        misses = np.array([abs(row[-2] - row[-1]) for row in rows if row[3] == name])
        largest, mean = misses.max(), misses.mean()
        print(f"{name}: largest miss {largest:.1%}, mean {mean:.1%}, of {len(misses)} worlds")
    write_results("planner", rows)


ASKED = ("exposure", "difference")


def drawn_worlds(draws: int, seed: int) -> Iterator[tuple[str, list[Panel]]]:
    for k, world in enumerate(DRAWN):
        rng = np.random.default_rng([seed, k])
        name = f"{world.people[0]:,} / {world.people[1]:,}, {world.n_splits} splits"
        yield name, [drawn_study(world, rng) for _ in range(draws)]


def fitted_worlds(draws: int) -> Iterator[tuple[str, list[Panel]]]:
    for name, model in FITTED.items():
        yield name, [fitted_study(model, draw) for draw in range(draws)]


def pilots(arguments: Sequence[str]) -> None:
    """Is a plan from an earlier release right? Attacks over all models, planned for as many splits.

    Every study of a world is a pilot: from its errors the planner says how often the world's
    exposure and difference would be found; the studies together count how often they are.
    """
    parser = parser_of(pilots)
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fitted", action="store_true", help="models of scikit-learn: slow")
    options = parser.parse_args(arguments)
    misses = []
    print(f"{'world':<24} {'attack':<18} question     amount predicted found")
    worlds = (
        fitted_worlds(options.draws)
        if options.fitted
        else drawn_worlds(options.draws, options.seed)
    )
    for name, studies in worlds:
        for attack in ATTACKS:
            for question, one in zip(ASKED, pilot_answers(studies, attack), strict=True):
                misses.append(abs(one.predicted - one.found))
                print(
                    f"{name:<24} {attack:<18} {question:<10} {one.amount:>8.4f} "
                    f"{one.predicted:>9.1%} {one.found:>5.1%}",
                    flush=True,
                )
    print(f"largest miss {max(misses):.1%}, mean {np.mean(misses):.1%}")


if __name__ == "__main__":
    run_verb({"counts": with_numbers(counts), "pilots": pilots})
