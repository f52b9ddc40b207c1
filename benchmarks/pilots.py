"""Is a plan from an earlier release right? Attacks over all models, planned for as many splits.

Every study of a world is a pilot: from its errors the planner says how often the world's exposure
and difference would be found; the studies together count how often they are.

    python -m benchmarks.pilots [--draws 600] [--seed 1] [--fitted]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
from tests.worlds.pilots import ATTACKS, DRAWN, FITTED, answers, drawn_study, fitted_study

from pcer.release import Panel

QUESTIONS = ("exposure", "difference")


def drawn(draws: int, seed: int) -> Iterator[tuple[str, list[Panel]]]:
    for k, world in enumerate(DRAWN):
        rng = np.random.default_rng([seed, k])
        name = f"{world.people[0]:,} / {world.people[1]:,}, {world.n_splits} splits"
        yield name, [drawn_study(world, rng) for _ in range(draws)]


def fitted(draws: int) -> Iterator[tuple[str, list[Panel]]]:
    for name, model in FITTED.items():
        yield name, [fitted_study(model, draw) for draw in range(draws)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fitted", action="store_true", help="models of scikit-learn: slow")
    options = parser.parse_args(arguments)
    misses = []
    print(f"{'world':<24} {'attack':<18} question     amount predicted found")
    worlds = fitted(options.draws) if options.fitted else drawn(options.draws, options.seed)
    for name, studies in worlds:
        for attack in ATTACKS:
            for question, one in zip(QUESTIONS, answers(studies, attack), strict=True):
                misses.append(abs(one.predicted - one.found))
                print(
                    f"{name:<24} {attack:<18} {question:<10} {one.amount:>8.4f} "
                    f"{one.predicted:>9.1%} {one.found:>5.1%}",
                    flush=True,
                )
    print(f"largest miss {max(misses):.1%}, mean {np.mean(misses):.1%}")


if __name__ == "__main__":
    main()
