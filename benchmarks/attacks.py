"""What all attacks on a sweep cost: 6 budgets x 50 seeds x 46,033 records, the shape of Adult.

    python -m benchmarks.attacks            made-up scores of that shape: only the work matters
    python -m benchmarks.attacks opacus     beside it: training that many shadow models with Opacus

Seconds are CPU seconds of one process (the clock of an idle core); memory is the process's peak.
The price of ordinary LiRA is a measured step of Opacus (hooks, its default; network 19-64-32-1,
batch 256) times 3,150 steps times 300 models: the trained sweep itself needs no shadow models.
"""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np

from pcer.exposure import BudgetScores, epsilon_bounds, pooled_exposures, run_exposures

N_BUDGETS, N_SEEDS, N_RECORDS, N_FEATURES = 6, 50, 46_033, 19
BATCH, STEPS_PER_MODEL, TIMED_STEPS = 256, 3_150, 200


def made_up(rng: np.random.Generator) -> BudgetScores:
    member = rng.random((N_SEEDS, N_RECORDS)) < 0.7
    logits = rng.normal(size=N_RECORDS) + 0.3 * rng.normal(size=member.shape)
    return BudgetScores(
        logits=logits.astype(np.float32),
        labels=rng.integers(0, 2, N_RECORDS),
        member=member,
        group=(rng.random(N_RECORDS) < 0.3).astype(np.int64),
        group_names=("a", "b"),
    )


def time_attacks() -> dict[str, float]:
    rng = np.random.default_rng(0)
    seconds = {"single models": 0.0, "paired, LiRA and RMIA": 0.0, "epsilon alarm": 0.0}
    for _ in range(N_BUDGETS):
        scores = made_up(rng)
        jobs = (
            lambda s=scores: run_exposures(s),
            lambda s=scores: pooled_exposures(s, epsilon=1.0),
            lambda s=scores: epsilon_bounds(s, epsilon=1.0, dp_delta=1e-5),
        )
        for name, job in zip(seconds, jobs, strict=True):
            start = time.process_time()
            job()
            seconds[name] += time.process_time() - start
    return seconds


def opacus_step() -> float:
    """CPU seconds of one DP-SGD step of one model with Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    torch.set_num_threads(1)
    layers = [nn.Linear(N_FEATURES, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)]
    model = GradSampleModule(nn.Sequential(*layers))
    plain = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = DPOptimizer(
        plain, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=BATCH
    )
    features, labels = torch.randn(BATCH, N_FEATURES), torch.rand(BATCH, 1).round()
    loss = nn.BCEWithLogitsLoss()
    for step in range(TIMED_STEPS + 20):
        if step == 20:
            start = time.process_time()
        optimizer.zero_grad()
        loss(model(features), labels).backward()
        optimizer.step()
    return (time.process_time() - start) / TIMED_STEPS


def main(*options: str) -> None:
    seconds = time_attacks()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    results = {"seconds": seconds, "total_seconds": sum(seconds.values()), "peak_gb": peak}
    print(f"{N_BUDGETS} x {N_SEEDS} models x {N_RECORDS:,} records")
    for name, value in seconds.items():
        print(f"  {name:<24} {value:8.1f} s")
    print(f"  {'all attacks':<24} {sum(seconds.values()):8.1f} s, peak {peak:.2f} GB (bar: 2 GB)")
    if "opacus" in options:
        step = opacus_step()
        price = step * STEPS_PER_MODEL * N_BUDGETS * N_SEEDS
        results |= {"opacus_step_seconds": step, "ordinary_lira_seconds": price}
        print(f"  ordinary LiRA: 300 shadow models with Opacus at {1e3 * step:.2f} ms a step")
        print(f"  {'':<24} {price:8.0f} s: {price / sum(seconds.values()):,.0f} x")
    results |= {"python": platform.python_version(), "numpy": np.__version__}
    out = Path(__file__).parent / "results" / "attacks.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
