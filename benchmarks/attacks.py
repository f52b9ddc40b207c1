"""What all attacks on a sweep cost: 6 budgets x 50 seeds, made-up scores of the study's shapes.

    python -m benchmarks.attacks                     Adult (46,033 records, sex and race), 1 process
    python -m benchmarks.attacks --study --processes 16  all four datasets, six releases
    python -m benchmarks.attacks --opacus            beside it: that many shadow models with Opacus

Only the work matters, not the values. Seconds are CPU seconds of the first process (all of them, if
it is the only one) and seconds on the clock; memory is that process's peak. The price of ordinary
LiRA is a measured step of Opacus (hooks, its default; network 19-64-32-1, batch 256) times 3,150
steps times 300 models: the trained sweep itself needs no shadow models.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from pcer.sweep.releases import attack_models
from pcer.train import Predictions
from pcer.train.accounting import Budget
from pcer.train.config import TrainConfig

N_SEEDS, N_FEATURES = 50, 19
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, math.inf)
STUDY = {"adult": (46_033, 2), "acs": (50_000, 2), "compas": (6_172, 1), "bios": (37_900, 1)}
"""Records and protected attributes of each dataset."""
BATCH, STEPS_PER_MODEL, TIMED_STEPS = 256, 3_150, 200


def made_up(n_records: int, n_attributes: int) -> tuple[SimpleNamespace, Predictions]:
    """A sweep of that shape, and its scores: records of their own level, noise, no memory."""
    rng = np.random.default_rng(0)
    member = rng.random((N_SEEDS, n_records)) < 0.7
    level = rng.normal(size=n_records)
    noise = (0.3 * rng.normal(size=member.shape).astype(np.float32) for _ in BUDGETS)
    attributes = {
        f"attribute {k}": SimpleNamespace(
            codes=(rng.random(n_records) < 0.3).astype(np.int64), group_names=("a", "b")
        )
        for k in range(n_attributes)
    }
    dataset = SimpleNamespace(labels=rng.integers(0, 2, n_records), attribute=attributes.get)
    sweep = SimpleNamespace(dataset=dataset, attributes=tuple(attributes), config=TrainConfig())
    return sweep, Predictions(
        budgets=tuple(
            Budget(epsilon=e, noise_multiplier=0.0, epsilon_by_accountant={}) for e in BUDGETS
        ),
        seeds=tuple(range(N_SEEDS)),
        logits=np.stack([level.astype(np.float32) + part for part in noise]),
        member=member,
    )


def time_attacks(name: str, n_processes: int) -> dict[str, float]:
    sweep, scores = made_up(*STUDY[name])
    cpu, clock = time.process_time(), time.perf_counter()
    attack_models(sweep, scores, n_processes=n_processes)
    return {
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - clock,
    }


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", action="store_true", help="all four datasets")
    parser.add_argument("--processes", type=int, default=1, help="default: 1")
    parser.add_argument("--opacus", action="store_true", help="price of ordinary LiRA")
    options = parser.parse_args()
    print(f"{len(BUDGETS)} x {N_SEEDS} models a dataset, {options.processes} processes")
    found = {}
    for name in STUDY if options.study else ["adult"]:
        found[name] = one = time_attacks(name, options.processes)
        print(f"  {name:<8}{one['cpu_seconds']:8.1f} CPU s {one['seconds']:8.1f} s on the clock")
    total = sum(one["cpu_seconds"] for one in found.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    clock = sum(one["seconds"] for one in found.values())
    print(f"  {'all':<8}{total:8.1f} CPU s {clock:8.1f} s on the clock, peak {peak:.2f} GB")
    results = {"processes": options.processes, "cores": os.cpu_count(), "peak_gb": peak, **found}
    if options.opacus:
        step = opacus_step()
        price = step * STEPS_PER_MODEL * len(BUDGETS) * N_SEEDS
        results |= {"opacus_step_seconds": step, "ordinary_lira_seconds": price}
        print(f"  ordinary LiRA: 300 shadow models with Opacus at {1e3 * step:.2f} ms a step:")
        print(f"  {'':<8}{price:8.0f} CPU s, {price / found['adult']['cpu_seconds']:,.0f} times")
    results |= {"python": platform.python_version(), "numpy": np.__version__}
    out = Path(__file__).parent / "results" / "attacks.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
