"""How fast the engine trains, beside Opacus, and how long the paper's 1,200 models take.

    python -m benchmarks.engine ratios            one core: engine against Opacus, per model-step
    python -m benchmarks.engine study --share 0.1 two cores: a tenth of the study, and the whole
    python -m benchmarks.engine study --device cuda
    python -m benchmarks.engine study --device cuda --receipts held   the 1,000 private ones of them

Prints a table and writes JSON. Both sides of a ratio run in turns in one process, on one thread,
with the same network, batch size and data shape; times are CPU time per model and step (the time
on the clock of an idle core), the median over turns. Records are random (only shapes matter); the
noise multiplier is 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pcer.cli import peak_memory
from pcer.train import (
    Budget,
    EngineFlags,
    ReceiptMode,
    TrainConfig,
    TrainingData,
    cut_blocks,
    plan_models,
    run_blocks,
)
from pcer.train import engine as fleets
from pcer.train.config import NO_DP
from pcer.train.cpu import CpuDevice

SHAPES = {
    "adult": (46_033, 19),
    "compas": (6_172, 6),
    "acs": (50_000, 67),
    "bios": (37_900, 200),
}
"""Records and features of the paper's four datasets, as encoded here."""

BUDGETS = [
    Budget(epsilon=e, noise_multiplier=float(e != NO_DP), epsilon_by_accountant={})
    for e in (NO_DP, 0.1, 0.5, 1.0, 5.0, 10.0)
]
MODES = ("hooks", "functorch", "ew", "ghost")
Row = dict[str, Any]


def make_data(name: str, seeds: range) -> TrainingData:
    """Random records of a dataset's shape, with a label that can be learned in part."""
    n, n_features = SHAPES[name]
    generator = np.random.Generator(np.random.PCG64(0))
    features = generator.standard_normal((n, n_features), dtype=np.float32)
    labels = features[:, 0] + generator.standard_normal(n) > 0
    n_train = int(0.7 * n)
    rows = {s: generator.permutation(n)[:n_train] for s in seeds}
    return TrainingData.of(features, labels.astype(int), rows)


def engine_turn(name: str, n_models: int) -> Callable[[], float]:
    """Seconds per model-step of the engine: drawing the schedule and every step of an epoch."""
    data = make_data(name, range(-(-n_models // len(BUDGETS))))
    models = plan_models(BUDGETS, data.seeds)[:n_models]
    company = sorted(models, key=lambda model: not model.is_private)
    config = TrainConfig(epochs=max(1, 2000 // data.n_train))
    n_steps = config.sampling(data.n_train).n_steps
    device = CpuDevice()

    @torch.no_grad()
    def turn() -> float:
        fleet = fleets.assemble(data, company, config, device=device, secret=b"")
        slots = fleet.slots.tolist()
        start = time.process_time()
        fleets.draw_schedule(data, company, slots, config, device, b"")
        device.fit(fleet)
        return (time.process_time() - start) / (n_steps * n_models)

    return turn


def opacus_turn(name: str, mode: str, loader: str, n_steps: int) -> Callable[[], float]:
    """Seconds per step of one model in Opacus, with its own loader or batches cut by index."""
    from opacus import PrivacyEngine

    data = make_data(name, range(1))
    rows = data.train_rows[0]
    features, labels = torch.from_numpy(data.features[rows]), torch.from_numpy(data.labels[rows])
    units = (features.shape[1], 64, 32)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(units)]
    module: Any = nn.Sequential(*(part for layer in layers for part in layer), nn.Linear(32, 1))
    criterion: Any = nn.BCEWithLogitsLoss()
    dataset = torch.utils.data.TensorDataset(features, labels)
    private = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), 0.05, 0.9),
        criterion=criterion,
        data_loader=torch.utils.data.DataLoader(dataset, batch_size=256),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
    )
    module, optimizer, *criteria, batches = private
    criterion = criteria[0] if criteria else criterion

    def batch() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            if loader == "own":
                yield from batches
            else:
                yield from ((features[i], labels[i]) for i in batches.batch_sampler)

    source = batch()

    def turn() -> float:
        start = time.process_time()
        for _ in range(n_steps):
            x, y = next(source)
            optimizer.zero_grad()
            criterion(module(x)[:, 0], y).backward()
            optimizer.step()
        return (time.process_time() - start) / n_steps

    return turn


def ratios(name: str, n_models: int, n_turns: int, n_steps: int) -> Row:
    """Time the engine and every mode of Opacus in turns."""
    turns = {"engine": engine_turn(name, n_models)}
    for mode in MODES:
        for loader in ("own", "index"):
            turns[f"{mode}/{loader}"] = opacus_turn(name, mode, loader, n_steps)
    times: dict[str, list[float]] = {key: [] for key in turns}
    for index in range(n_turns + 1):
        for key, turn in turns.items():
            seconds = turn()
            if index:  # the first turn warms up
                times[key].append(seconds)
    median = {key: statistics.median(values) for key, values in times.items()}
    rivals = {
        "hooks": "hooks/own",
        "fastest": min((f"{mode}/own" for mode in MODES), key=median.__getitem__),
        "by_index": min((f"{mode}/index" for mode in MODES), key=median.__getitem__),
    }
    return {
        "shape": name,
        "median_us": {key: 1e6 * value for key, value in median.items()},
        "rivals": rivals,
        "ratios": {who: _ratio(times[key], times["engine"]) for who, key in rivals.items()},
    }


def _ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def study(name: str, share: float, n_seeds: int, flags: EngineFlags, receipts: str) -> Row:
    """Train a share of a dataset's models and say how long all of them take.

    With receipts, of those with privacy.
    """
    start = time.perf_counter()
    data = make_data(name, range(n_seeds))
    config, budgets = TrainConfig(receipts=receipts), BUDGETS
    if receipts != "none":
        from benchmarks.receipts_cost import NOISE

        budgets = [
            replace(budget, noise_multiplier=noise)
            for budget, noise in zip(BUDGETS[1:], NOISE[name], strict=True)
        ]
    models = plan_models(budgets, data.seeds)
    blocks = cut_blocks(models, block_size=flags.models_per_block(len(models)))
    chosen = blocks[: max(flags.n_processes, round(share * len(blocks)))]
    made, cpu = time.perf_counter(), time.process_time()
    results = run_blocks(data, chosen, config=config, flags=flags)
    n_models = sum(len(result.models) for result in results)
    seconds = time.perf_counter() - made
    total = n_seeds * len(budgets)
    return {
        "shape": name,
        "models": n_models,
        "data_s": made - start,
        "train_s": seconds,
        "cpu_s": time.process_time() - cpu,  # of this process: all of it with --jobs 1
        "all_models": total,
        "all_train_s": seconds * total / n_models,
        "peak_mib": peak_memory(),
    }


def print_ratios(rows: list[Row]) -> None:
    print("CPU time per model-step; Opacus with hooks, its fastest mode, and its fastest mode with")
    print("batches cut by index instead of by its data loader")
    for row in rows:
        us = row["median_us"]
        parts = [
            f"{us[key]:6.0f} us {row['ratios'][who]:5.1f}x ({key})"
            for who, key in row["rivals"].items()
        ]
        print(f"{row['shape']:7} engine {us['engine']:5.0f} us", *parts, sep=" | ")


def print_study(rows: list[Row]) -> None:
    print(f"{'shape':8}{'models':>8}{'train s':>9}{'cpu s':>9}{'all':>7}{'all s':>9}")
    for row in rows:
        print(
            f"{row['shape']:8}{row['models']:8}{row['train_s']:9.1f}{row['cpu_s']:9.1f}"
            f"{row['all_models']:7}{row['all_train_s']:9.1f}"
        )
    print(f"whole study: {sum(row['all_train_s'] for row in rows):.1f} s of training")
    print(f"peak memory: {max(row['peak_mib'] for row in rows):,.0f} MiB over all processes")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("ratios", "study"))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--turns", type=int, default=5, help="timed turns of each side")
    parser.add_argument("--steps", type=int, default=20, help="steps of Opacus in a turn")
    parser.add_argument("--models", type=int, default=24, help="models of the engine's block")
    parser.add_argument("--share", type=float, default=1.0, help="share of the study to train")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--block-size", type=int, default=None, help="models that step together")
    parser.add_argument("--receipts", default="none", choices=list(ReceiptMode))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/engine.json"))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")  # Opacus and torch remark on what is meant here
    start = time.perf_counter()
    if options.part == "ratios":
        with fleets.one_thread():
            rows = [ratios(s, options.models, options.turns, options.steps) for s in options.shapes]
        print_ratios(rows)
    else:
        flags = EngineFlags(device=options.device, jobs=options.jobs, block_size=options.block_size)
        if options.device != "cpu":  # imports and the device's context are not training
            import pcer.train.cuda  # noqa: F401

            torch.zeros(1, device=options.device)
        rows = [
            study(s, options.share, options.seeds, flags, options.receipts) for s in options.shapes
        ]
        print_study(rows)
    machine = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    settings = {key: str(value) for key, value in vars(options).items()}
    report = {**machine, "settings": settings, "rows": rows, "seconds": time.perf_counter() - start}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
