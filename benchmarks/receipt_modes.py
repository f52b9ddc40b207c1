"""Receipts from norms of every step against norms of every so many, for the same models.

``exact`` and ``refreshed`` change no bit of a model, so both are counted for the same one: how far
is the estimate off? Printed for each budget: steps from one computation of norms to the next, the
correlation over records and models of ``realised``, its mean error as a share, and how many
receipts lie on another level. Bars: r at least .999, mean error at most 2 %.

    .venv/bin/python benchmarks/receipt_modes.py
    .venv/bin/python benchmarks/receipt_modes.py --every 17
    .venv/bin/python benchmarks/receipt_modes.py --dataset adult --seeds 1 --budgets 0.1 1
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from pcer.data import load, split
from pcer.sweep.bounds import terms_of
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
LEAST_R, MOST_ERROR = 0.999, 0.02


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="compas")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--every", type=int, default=None, help="steps; default: as training does")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    dataset = load(options.dataset)
    rows = {seed: split(dataset, seed=seed).train for seed in range(options.seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    flags, found = EngineFlags(jobs=1), {}
    for mode, steps in (("exact", None), ("refreshed", options.every)):
        config = replace(TrainConfig(), receipts=mode, refresh_every=steps)
        found[mode] = train_seeds(data, budgets=options.budgets, config=config, flags=flags)
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
    out = Path(__file__).parent / "results" / "receipt_modes.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
