"""What coin flips and permutations add to a sweep, both timed in one run.

    python -m benchmarks.placebo_cost                     COMPAS (race) and Adult (sex, race)
    python -m benchmarks.placebo_cost compas --seeds 20

A sweep of six budgets is trained, and its releases are made twice, with coin flips and without, in
this process. CPU seconds, which other programs on the machine hardly change; the share is of the
whole sweep without them: training, attacks and counts. It may be 12 % at most.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from unittest.mock import patch

from pcer.attacks import CoinDraws
from pcer.data import load, split
from pcer.metrics import DEFAULT_BUDGETS
from pcer.sweep import Sweep
from pcer.sweep import releases as made
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

SWEEPS = {"compas": ("race",), "adult": ("sex", "race")}
ALLOWED = 0.12


def measure(name: str, n_seeds: int) -> dict[str, float]:
    dataset, seeds = load(name), tuple(range(n_seeds))
    sweep = Sweep(
        dataset=dataset,
        attributes=SWEEPS[name],
        budgets=DEFAULT_BUDGETS,
        seeds=seeds,
        config=TrainConfig(),
    )
    splits = {seed: split(dataset, seed=seed) for seed in seeds}
    rows = {seed: part.train for seed, part in splits.items()}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    flags, budgets = EngineFlags(jobs=1), tuple(sorted(DEFAULT_BUDGETS))
    train_seeds(data, budgets=budgets[-1:], config=TrainConfig(epochs=1), flags=flags)  # compiled
    start = time.process_time()
    scores = train_seeds(data, budgets=budgets, config=sweep.config, flags=flags)
    trained = time.process_time()
    with patch.object(made, "draw_coins", lambda scores: CoinDraws(None, "left out")):
        made.build_releases(sweep, scores, splits)
    without = time.process_time()
    steps: list[float] = []
    made.build_releases(
        sweep, scores, splits, on_step=lambda doing: steps.append(time.process_time())
    )
    end = time.process_time()
    found = {
        "training": trained - start,
        "releases without": without - trained,
        "attacks and draws": steps[0] - without - (without - trained),
        "permutations and alarms": end - steps[0],
    }
    added = found["attacks and draws"] + found["permutations and alarms"]
    return {**found, "added": added, "share": added / (without - start)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SWEEPS)}; default: all")
    parser.add_argument("--seeds", type=int, default=50)
    options = parser.parse_args()
    results = {}
    for name in options.names or SWEEPS:
        results[name] = one = measure(name, options.seeds)
        parts = ", ".join(f"{what} {x:.1f}" for what, x in list(one.items())[:-1])
        print(f"  {name:<8}{parts} CPU s: {one['share']:.1%} (allowed {ALLOWED:.0%})", flush=True)
    out = Path(__file__).parent / "results" / "placebo_cost.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
