"""How fast does the engine train, beside Opacus, and what does counting norms add?

    python -m benchmarks.engine ratios            one core: engine and Opacus
    python -m benchmarks.engine study --share 0.1 two cores: a tenth, and the whole
    python -m benchmarks.engine study --device cuda
    python -m benchmarks.engine study --device cuda --receipts held   1,000 private
    python -m benchmarks.engine receipts
    python -m benchmarks.engine receipts --shapes compas --modes refreshed held exact
    python -m benchmarks.engine receipts --modes group-clip group-sample   no receipts
    python -m benchmarks.engine receipts --epochs 25 --accountant
    python -m benchmarks.engine receipts --device cuda --models 250 --epochs 25 \
        --accountant
    python -m benchmarks.engine modes
    python -m benchmarks.engine modes --every 17
    python -m benchmarks.engine modes --dataset adult --seeds 1 --budgets 0.1 1

Prints a table and writes JSON. Both sides of a ratio run in turns in one process, on
one thread, with the same network, batch size and data shape; times are CPU time per
model and step (the time on the clock of an idle core), the median over turns. Records
are random (only shapes matter); the noise multiplier is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.train_cases import steps_per_bin
from torch import nn

from benchmarks import parser_of, run_verb, write_results
from pcer.data import load, split
from pcer.sweep.receipts import terms_of
from pcer.train import (
    Budget,
    EngineFlags,
    ReceiptMode,
    TrainConfig,
    TrainingData,
    train_seeds,
)
from pcer.train import engine as fleets
from pcer.train.config import NO_DP
from pcer.train.cpu import CpuDevice
from pcer.train.devices import choose_device
from pcer.train.fleet import Model, cut_blocks, plan_models
from pcer.train.run import run_blocks

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
    groups = {"sex": np.where(generator.random(n) < 0.5, "m", "f")}
    return TrainingData.of(features, labels.astype(int), rows, groups=groups)


def engine_turn(name: str, n_models: int) -> Callable[[], float]:
    """Seconds per model-step of the engine, with the drawing of the schedule."""
    data = make_data(name, range(-(-n_models // len(BUDGETS))))
    models = plan_models(BUDGETS, data.seeds)[:n_models]
    company = sorted(models, key=lambda model: not model.is_private)
    config = TrainConfig(epochs=max(1, 2000 // data.n_train))
    n_steps = config.sampling(data.n_train).n_steps
    device = CpuDevice()

    @torch.no_grad()
    def turn() -> float:
        fleet = fleets.assemble(data, company, config, device=device, secret=b"")
        firsts = fleet.watch.firsts.tolist()
        start = time.process_time()
        fleets.draw_schedule(data, company, firsts, config, device, b"")
        device.fit(fleet)
        return (time.process_time() - start) / (n_steps * n_models)

    return turn


def opacus_turn(name: str, mode: str, loader: str, n_steps: int) -> Callable[[], float]:
    """Seconds per step of one model in Opacus, by its loader or by cut batches."""
    from opacus import PrivacyEngine

    data = make_data(name, range(1))
    rows = data.train_rows[0]
    features = torch.from_numpy(data.features[rows])
    labels = torch.from_numpy(data.labels[rows])
    units = (features.shape[1], 64, 32)
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(units):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    module: Any = nn.Sequential(*layers, nn.Linear(32, 1))
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
        "ratios": {
            who: _ratio(times[key], times["engine"]) for who, key in rivals.items()
        },
    }


def _ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def study(
    name: str, share: float, n_seeds: int, flags: EngineFlags, receipts: str
) -> Row:
    """Train a share of a dataset's models and say how long all of them take.

    With receipts, of those with privacy.
    """
    start = time.perf_counter()
    data = make_data(name, range(n_seeds))
    config = TrainConfig(receipts=receipts)
    budgets = BUDGETS
    if receipts != "none":
        budgets = [
            replace(budget, noise_multiplier=noise)
            for budget, noise in zip(BUDGETS[1:], NOISE[name], strict=True)
        ]
    models = plan_models(budgets, data.seeds)
    blocks = cut_blocks(models, block_size=flags.models_per_block(len(models)))
    chosen = blocks[: max(flags.n_processes, round(share * len(blocks)))]
    made = time.perf_counter()
    cpu = time.process_time()
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


def peak_memory() -> float | None:
    """MiB: the sum of the peaks of this process and of its children, alive or gone.

    An upper bound, since peaks need not coincide. Where the system lists no children,
    those that have ended count with the largest of them. None where the system does not
    tell (Windows).
    """
    try:
        import resource
    except ImportError:
        return None
    unit = 1024 if sys.platform != "darwin" else 1
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    gone = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    return float(own + max(_peak_below(os.getpid()), gone)) / 2**20


def _peak_below(pid: int) -> int:
    """Sum of the peaks of all processes below one, in bytes (Linux); 0 if gone."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in path.read_text("ascii").split()]
        except OSError:
            continue
        for child in children:
            try:
                lines = Path(f"/proc/{child}/status").read_text("utf-8").splitlines()
            except OSError:
                lines = []
            peaks = (
                int(line.split()[1]) for line in lines if line.startswith("VmHWM:")
            )
            total += 1024 * sum(peaks) + _peak_below(child)
    return total


def print_ratios(rows: list[Row]) -> None:
    print(
        "CPU time per model-step; Opacus with hooks, its fastest mode, and its fastest "
        "mode with"
    )
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
    print(
        f"peak memory: {max(row['peak_mib'] for row in rows):,.0f} MiB over all "
        "processes"
    )


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(timed)
    parser.add_argument("part", choices=("ratios", "study"))
    parser.add_argument(
        "--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES)
    )
    parser.add_argument("--turns", type=int, default=5, help="timed turns of each side")
    parser.add_argument(
        "--steps", type=int, default=20, help="steps of Opacus in a turn"
    )
    parser.add_argument(
        "--models", type=int, default=24, help="models of the engine's block"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the study to train"
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument(
        "--block-size", type=int, default=None, help="models that step together"
    )
    parser.add_argument("--receipts", default="none", choices=list(ReceiptMode))
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/engine.json")
    )
    return parser.parse_args(words)


def timed(words: Sequence[str]) -> None:
    options = arguments(words)
    warnings.simplefilter("ignore")  # Opacus and torch remark on what is meant here
    start = time.perf_counter()
    if options.part == "ratios":
        with fleets.one_thread():
            rows = [
                ratios(s, options.models, options.turns, options.steps)
                for s in options.shapes
            ]
        print_ratios(rows)
    else:
        flags = EngineFlags(
            device=options.device, jobs=options.jobs, block_size=options.block_size
        )
        if options.device != "cpu":  # imports and the device's context are not training
            import pcer.train.cuda  # noqa: F401

            torch.zeros(1, device=options.device)
        rows = [
            study(s, options.share, options.seeds, flags, options.receipts)
            for s in options.shapes
        ]
        print_study(rows)
    machine = {
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
    }
    settings = {key: str(value) for key, value in vars(options).items()}
    report = {
        **machine,
        "settings": settings,
        "rows": rows,
        "seconds": time.perf_counter() - start,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")


PRIVATE_BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
NOISE = {
    "adult": (13.776, 3.24, 1.83, 0.749, 0.597),
    "compas": (37.378, 8.632, 4.654, 1.333, 0.91),
    "acs": (13.216, 3.114, 1.765, 0.736, 0.589),
    "bios": (15.154, 3.551, 1.989, 0.78, 0.615),
}
"""Noise multipliers that ``calibrate`` finds for 25 epochs; they refresh norms."""
RECEIPT_MODES = ("refreshed", "held")
RULES = {"group-clip": "group-clip:sex:m=0.8", "group-sample": "group-sample:sex:m=0.5"}


def make_turn(
    name: str, mode: str, epochs: int, options: argparse.Namespace
) -> Callable[[], tuple[float, float]]:
    """Seconds per model-step, and how many of them were spent after the last step."""
    device = choose_device(options.device)
    n_models = options.models
    data = make_data(name, range(-(-n_models // len(PRIVATE_BUDGETS))))
    budgets = list(zip(PRIVATE_BUDGETS, NOISE[name], strict=True))
    wanted = [(seed, *budget) for seed, budget in product(data.seeds, budgets)]
    models = [Model(*one) for one in wanted[:n_models]]
    settings = {"rule": RULES[mode]} if mode in RULES else {"receipts": mode}
    config = replace(TrainConfig(epochs=epochs), **settings)
    with_draws = {*RULES} & {
        *options.modes
    }  # of these rules, drawing the batches is a part
    n_steps = config.sampling(data.n_train).n_steps
    clock = time.process_time if options.device == "cpu" else time.perf_counter

    @torch.no_grad()
    def turn() -> tuple[float, float]:
        before = clock()
        fleet = fleets.assemble(data, models, config, device=device, secret=b"")
        start = before if with_draws else clock()
        device.fit(fleet)
        trained = clock()
        if options.accountant:
            fleets.folded(fleet.watch, models, on_host=options.device == "cpu")
        elif fleet.watch.has_book:  # the counts alone
            for index in range(n_models):
                steps_per_bin(fleet.watch, index)
        end = clock()
        return (end - start) / (n_steps * n_models), (end - trained) / (
            n_steps * n_models
        )

    return turn


def receipt_ratios(name: str, options: argparse.Namespace) -> Row:
    """Time training alone and every mode in turns."""
    epochs = options.epochs or max(1, -(-20_000 // SHAPES[name][0]))
    turns = {
        mode: make_turn(name, mode, epochs, options)
        for mode in ("none", *options.modes)
    }
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
        "n_steps": TrainConfig(epochs=epochs)
        .sampling(int(0.7 * SHAPES[name][0]))
        .n_steps,
        "median_us": {
            mode: 1e6 * statistics.median(found) for mode, found in times.items()
        },
        "fold_us": {
            mode: 1e6 * statistics.median(found) for mode, found in after.items()
        },
        "ratios": {
            mode: statistics.median(a / b for a, b in both)
            for mode, both in zip(options.modes, beside, strict=True)
        },
    }


def receipt_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(receipts)
    parser.add_argument(
        "--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES)
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        default=RECEIPT_MODES,
        choices=(*RECEIPT_MODES, "exact", *RULES),
    )
    parser.add_argument("--turns", type=int, default=5, help="timed turns of each mode")
    parser.add_argument(
        "--models", type=int, default=10, help="private models of the block"
    )
    parser.add_argument(
        "--epochs", type=int, default=None, help="default: a few, by shape"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--accountant", action="store_true", help="fold the counts too")
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/receipts_cost.json")
    )
    return parser.parse_args(words)


def receipts(words: Sequence[str]) -> None:
    """What does it cost to count each person's norms while models train?

    Prints a table and writes JSON. All modes run in turns in one process, on one core
    or one GPU, with the same private models, a fifth for each of the paper's budgets,
    schedules and records (random: only shapes matter); times are CPU time (on a GPU,
    time on the clock) of the steps and of handing the counts over, the median over
    turns. With --accountant what is made of the counts is in it too; with group-clip or
    group-sample (half of the people, no receipts) the drawing of the batches is, on
    both sides. Bars for these: 1.10 and 1.15.
    """
    options = receipt_arguments(words)
    with fleets.one_thread():
        rows = [receipt_ratios(name, options) for name in options.shapes]
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
        print(
            f"{len(rows) * options.models:,} models, {mode}: "
            f"{options.models * total:.2f} s"
        )
    machine = {
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
    }
    settings = {key: str(value) for key, value in vars(options).items()}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({**machine, "settings": settings, "rows": rows}, indent=1)
    )


LEAST_R, MOST_ERROR = 0.999, 0.02


def mode_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(modes)
    parser.add_argument("--dataset", default="compas")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument(
        "--every", type=int, default=None, help="steps; default: as training does"
    )
    parser.add_argument("--budgets", type=float, nargs="+", default=PRIVATE_BUDGETS)
    return parser.parse_args(words)


def modes(words: Sequence[str]) -> None:
    """Receipts from norms of every step, beside norms of every so many.

    ``exact`` and ``refreshed`` change no bit of a model, so both are counted for the
    same one: how far is the estimate off? Printed for each budget: steps from one
    computation of norms to the next, the correlation over records and models of
    ``realised``, its mean error as a share, and how many receipts lie on another level.
    Bars: r at least .999, mean error at most 2 %.
    """
    options = mode_arguments(words)
    dataset = load(options.dataset)
    rows = {seed: split(dataset, seed=seed).train for seed in range(options.seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    flags = EngineFlags(jobs=1)
    found = {}
    for mode, steps in (("exact", None), ("refreshed", options.every)):
        config = replace(TrainConfig(), receipts=mode, refresh_every=steps)
        found[mode] = train_seeds(
            data, budgets=options.budgets, config=config, flags=flags
        )
    assert np.array_equal(found["exact"].logits, found["refreshed"].logits)
    results = {}
    print(f"{options.dataset}, {options.seeds} models a budget")
    print("  epsilon  every        r  mean error    bias  other level")
    for k, budget in enumerate(found["exact"].budgets):
        terms = terms_of(budget, data.n_train, TrainConfig())
        kept = [found[mode].receipts[k].ravel() for mode in ("exact", "refreshed")]
        exact, near = map(terms.realised, kept)
        moved = float((terms.receipt(kept[0]) != terms.receipt(kept[1])).mean())
        r = float(np.corrcoef(exact, near)[0, 1])
        error = float(np.abs(near - exact).mean() / exact.mean())
        bias = float((near - exact).mean() / exact.mean())
        every = config.refresh_steps(data.n_train, budget.noise_multiplier)
        results[budget.epsilon] = {
            "every": every,
            "r": r,
            "mean_error": error,
            "bias": bias,
            "moved": moved,
        }
        verdict = "kept" if r >= LEAST_R and error <= MOST_ERROR else "MISSED"
        shares = f"{error:>11.2%} {bias:>+7.2%} {moved:>12.1%}"
        print(f"  {budget.epsilon:>7g} {every:>6} {r:>8.5f} {shares}  {verdict}")
    write_results("receipt_modes", results)


if __name__ == "__main__":
    run_verb(
        {
            "ratios": lambda words: timed(["ratios", *words]),
            "study": lambda words: timed(["study", *words]),
            "receipts": receipts,
            "modes": modes,
        }
    )
