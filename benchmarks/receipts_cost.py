"""What it costs to count each person's norms while models train, beside training alone.

    python -m benchmarks.receipts_cost
    python -m benchmarks.receipts_cost --shapes compas --modes refreshed held exact
    python -m benchmarks.receipts_cost --epochs 25 --accountant
    python -m benchmarks.receipts_cost --device cuda --models 250 --epochs 25 --accountant

Prints a table and writes JSON. All modes run in turns in one process, on one core or one GPU, with
the same private models, a fifth for each of the paper's budgets, schedules and records (random:
only shapes matter); times are CPU time (on a GPU, time on the clock) of the steps and of handing
the counts over, the median over turns. With --accountant what is made of the counts is in it too.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.engine import SHAPES, make_data
from pcer.train import Model, TrainConfig
from pcer.train import engine as fleets
from pcer.train.run import choose_device

BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
NOISE = {
    "adult": (13.776, 3.24, 1.83, 0.749, 0.597),
    "compas": (37.378, 8.632, 4.654, 1.333, 0.91),
    "acs": (13.216, 3.114, 1.765, 0.736, 0.589),
    "bios": (15.154, 3.551, 1.989, 0.78, 0.615),
}
"""Noise multipliers as ``calibrate`` finds them for 25 epochs: by them norms are refreshed."""
MODES = ("refreshed", "held")
Row = dict[str, Any]


def make_turn(
    name: str, mode: str, epochs: int, options: argparse.Namespace
) -> Callable[[], tuple[float, float]]:
    """Seconds per model-step, and how many of them were spent after the last step."""
    device, n_models = choose_device(options.device), options.models
    data = make_data(name, range(-(-n_models // len(BUDGETS))))
    budgets = list(zip(BUDGETS, NOISE[name], strict=True))
    models = [Model(s, e, noise) for s in data.seeds for e, noise in budgets][:n_models]
    config = replace(TrainConfig(epochs=epochs), receipts=mode)
    n_steps = config.sampling(data.n_train).n_steps
    clock = time.process_time if options.device == "cpu" else time.perf_counter

    @torch.no_grad()
    def turn() -> tuple[float, float]:
        fleet = fleets.assemble(data, models, config, device=device, secret=b"")
        start = clock()
        device.fit(fleet)
        trained = clock()
        if options.accountant:
            fleets.folded(fleet.watch, models, config, on_host=options.device == "cpu")
        elif fleet.watch.has_book:  # the counts alone
            for index in range(n_models):
                fleet.watch.steps_per_bin(index)
        end = clock()
        return (end - start) / (n_steps * n_models), (end - trained) / (n_steps * n_models)

    return turn


def ratios(name: str, options: argparse.Namespace) -> Row:
    """Time training alone and every mode in turns."""
    epochs = options.epochs or max(1, -(-20_000 // SHAPES[name][0]))
    turns = {mode: make_turn(name, mode, epochs, options) for mode in ("none", *options.modes)}
    times: dict[str, list[float]] = {mode: [] for mode in turns}
    after: dict[str, list[float]] = {mode: [] for mode in turns}
    for index in range(options.turns + 1):
        for mode, turn in turns.items():
            seconds, folding = turn()
            if index:  # the first turn warms up
                times[mode].append(seconds)
                after[mode].append(folding)
    beside = [zip(times[mode], times["none"], strict=True) for mode in options.modes]
    return {
        "shape": name,
        "epochs": epochs,
        "n_steps": TrainConfig(epochs=epochs).sampling(int(0.7 * SHAPES[name][0])).n_steps,
        "median_us": {mode: 1e6 * statistics.median(found) for mode, found in times.items()},
        "fold_us": {mode: 1e6 * statistics.median(found) for mode, found in after.items()},
        "ratios": {
            mode: statistics.median(a / b for a, b in both)
            for mode, both in zip(options.modes, beside, strict=True)
        },
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=(*MODES, "exact"))
    parser.add_argument("--turns", type=int, default=5, help="timed turns of each mode")
    parser.add_argument("--models", type=int, default=10, help="private models of the block")
    parser.add_argument("--epochs", type=int, default=None, help="default: a few, by shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--accountant", action="store_true", help="fold the counts too")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/receipts_cost.json"))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with fleets.one_thread():
        rows = [ratios(name, options) for name in options.shapes]
    print("time per model-step, and as a multiple of training alone")
    for row in rows:
        us = row["median_us"]
        parts = [
            f"{mode} {us[mode]:6.1f} us {row['ratios'][mode]:5.2f}x (folding "
            f"{row['fold_us'][mode]:.1f} us)"
            for mode in options.modes
        ]
        print(
            f"{row['shape']:7} {row['epochs']:3} epochs  alone {us['none']:5.1f} us",
            *parts,
            sep=" | ",
        )
    for mode in ("none", *options.modes):
        total = sum(1e-6 * row["median_us"][mode] * row["n_steps"] for row in rows)
        print(f"{len(rows) * options.models:,} models, {mode}: {options.models * total:.2f} s")
    machine = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    settings = {key: str(value) for key, value in vars(options).items()}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({**machine, "settings": settings, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
