"""How long an audit takes, how long the import, and how intervals compare with fairlearn.

One process, one core. Timings on a shared machine are noisy: the ratio to fairlearn is measured
in the same run; the absolute times are the best of several.

    python -m benchmarks.audit_speed
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fairlearn
import fairlearn.metrics as fl
import numpy as np
from tests.simulate import World, simulate

import pcer
from pcer.metrics import group_counts
from pcer.statistics import gap_intervals

ROWS = 50_000
OUR_RESAMPLES, THEIR_RESAMPLES = 5_000, 20


def seconds(job: Callable[[], object], *, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - start)
    return best


def time_audit() -> float:
    world = World(
        sizes=(32_000, 14_000),
        label_shares=(0.3, 0.11),
        right=[(0.93, 0.6)] * 2,
        gaps=(0.0, 0.0),
        n_seeds=50,
        budgets=(0.1, 0.5, 1.0, 5.0, 10.0, None),
    )
    release = simulate(world, np.random.default_rng(0))
    pcer.audit(release, pcer.Plan(resamples=10, null_draws=10))
    return seconds(lambda: pcer.audit(release), repeats=3)


def time_import() -> float:
    code = "import time; s = time.perf_counter(); import pcer; print(time.perf_counter() - s)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


def time_intervals() -> tuple[float, float]:
    """Seconds per resample for intervals of both gaps: ours, fairlearn's."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c"], ROWS)
    truth, guess = rng.integers(0, 2, (2, ROWS))

    def ours() -> object:
        counts = group_counts(truth, guess, sensitive_features=group).counts
        return gap_intervals(counts, resamples=OUR_RESAMPLES, rng=np.random.default_rng(1))

    def theirs() -> object:
        frame = fl.MetricFrame(
            metrics={
                "selection": fl.selection_rate,
                "tpr": fl.true_positive_rate,
                "fpr": fl.false_positive_rate,
            },
            y_true=truth,
            y_pred=guess,
            sensitive_features=group,
            n_boot=THEIR_RESAMPLES,
            ci_quantiles=[0.025, 0.975],
            random_state=1,
        )
        return frame.difference_ci()

    return (
        seconds(ours, repeats=3) / OUR_RESAMPLES,
        seconds(theirs, repeats=2) / THEIR_RESAMPLES,
    )


def main() -> None:
    audit, load = time_audit(), time_import()
    ours, theirs = time_intervals()
    results = {
        "audit_seconds": audit,
        "import_seconds": load,
        "our_seconds_per_resample": ours,
        "fairlearn_seconds_per_resample": theirs,
        "times_faster": theirs / ours,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "fairlearn": fairlearn.__version__,
    }
    print(f"audit, 6 budgets x 50 seeds x 2 groups: {audit:.2f} s (bar: 1 s)")
    print(f"import pcer, best of five:              {load:.2f} s (bar: 0.4 s)")
    print(f"intervals of both gaps, {ROWS:,} rows, per resample:")
    print(f"  pcer {ours * 1e6:,.1f} us, fairlearn {theirs * 1e6:,.0f} us: {theirs / ours:,.0f} x")
    out = Path(__file__).parent / "results" / "audit_speed.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
