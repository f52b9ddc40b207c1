"""What permutation tests cost beside a sweep, and how often they find a coin flip guilty.

    python -m benchmarks.permutations                       time and memory, the study's shapes
    python -m benchmarks.permutations --flips 200 compas:50 coin-flip attributes on a real sweep

Time: 9,999 draws for one pair, 6 settings and 7 costs, made-up numbers; CPU seconds of this process
and its peak memory. Flips: attributes of the given share drawn at random among the records of a
sweep (without privacy), through all costs; the share with p <= .05 should be 5 %.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from benchmarks.sweeps import Arrays, read
from pcer.attacks import BudgetScores, Records, permutation_tests, pooled_attacks_of, run_attacks_of

STUDY = {"compas": (6_172, 2_997), "adult, sex": (46_033, 14_919), "adult, race": (46_033, 6_589)}
"""Records, and those of the smaller group."""
N_SETTINGS, N_COSTS, LEVEL = 6, 7, 0.05


def time_draws(n_records: int, size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    records = Records(
        exposure=rng.normal(size=(N_SETTINGS, N_COSTS, n_records)),
        benefit=(rng.random((N_SETTINGS, n_records)) < 0.4).astype(np.float64),
        group=(np.arange(n_records) < size).astype(np.int64),
    )
    cpu, clock = time.process_time(), time.perf_counter()
    permutation_tests(records, [(0, 1)], seed=0)
    return {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - clock}


def flip(arrays: Arrays, share: float, seed: int, n_draws: int) -> dict[str, list[float]]:
    """By cost, p-values of the difference of exposures and of the cross product."""
    n = len(arrays["labels"])
    group = (np.random.default_rng(seed).permutation(n) < share * n).astype(np.int64)
    scores = BudgetScores(
        logits=arrays["logits"][-1],
        labels=arrays["labels"],
        member=arrays["member"],
        group=group,
        group_names=("heads", "tails"),
    )
    (one,) = run_attacks_of([scores], epsilon=np.inf)
    (two,) = pooled_attacks_of([scores], epsilon=np.inf)
    exposure = one.records.exposure | two.records.exposure
    records = Records.stacked([exposure], [one.records.benefit], group, list(exposure))
    found = permutation_tests(records, [(0, 1)], seed=seed, n_draws=n_draws)
    return {c: [test.p_value[0, k, 0] for test in found] for k, c in enumerate(exposure)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="?", help="compas:50, or NAME.scores")
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--draws", type=int, default=999)
    options = parser.parse_args()
    results: dict[str, object] = {}
    if options.source is None:
        for name, (n_records, size) in STUDY.items():
            results[name] = one = time_draws(n_records, size)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"  {name:<14}{one['cpu_seconds']:6.1f} CPU s{one['seconds']:8.1f} s, {peak:.2f} GB"
            )
    else:
        arrays = read(options.source)
        draws = [flip(arrays, options.share, seed, options.draws) for seed in range(options.flips)]
        for cost in draws[0]:
            found = np.array([one[cost] for one in draws])
            shares = (found <= LEVEL).mean(axis=0).tolist()
            results[cost] = dict(zip(("exposure", "cross product"), shares, strict=True))
            print(f"  {cost:<24} exposure {shares[0]:.1%}  cross product {shares[1]:.1%}")
    out = Path(__file__).parent / "results" / "permutations.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
