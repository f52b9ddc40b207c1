"""Are the errors of the pooled proxies honest? Membership rotated on a real sweep.

The split of seed s + k beside the model of seed s: nothing can be learned, so every pooled proxy
should be at chance, and its 95 % intervals should hold 0 in about 95 % of (budget, group) cells.

    python -m benchmarks.honest_errors compas 50 [rotations]

Rotations of one sweep are not independent of each other (they share models and splits, and over
all k, the true one included, the paired differences of a record sum to 0, so that the rotated ones
lean a little to the other side of a strong true effect): the coverage is itself uncertain by a few
per cent.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict

import numpy as np

from benchmarks.sweeps import FOLDER, attributes, budget_scores, sweep
from pcer.exposure import pooled_exposures


def rotated(name: str, n_seeds: int, n_rotations: int) -> dict[str, dict[str, list[float]]]:
    """Value over error by proxy and budget."""
    arrays = sweep(name, n_seeds)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for k in np.unique(np.linspace(1, n_seeds - 1, n_rotations).astype(int)):
        for attribute in attributes(arrays):
            for epsilon, scores in budget_scores(arrays, attribute, rotate=int(k)):
                for row in pooled_exposures(scores, epsilon=epsilon):
                    if row.standard_error:
                        found[row.proxy][f"{epsilon:g}"].append(row.value / row.standard_error)
    return found


def main(name: str = "compas", n_seeds: str = "50", n_rotations: str = "12") -> None:
    results = {}
    print(f"{name}, {n_seeds} seeds: share of 95 % intervals that hold chance, by budget")
    for proxy, by_budget in rotated(name, int(n_seeds), int(n_rotations)).items():
        cells = np.concatenate(list(by_budget.values()))
        shares = {eps: float(np.mean(np.abs(z) <= 1.96)) for eps, z in by_budget.items()}
        results[proxy] = {
            "cells": len(cells),
            "covered": float(np.mean(np.abs(cells) <= 1.96)),
            "false_alarms_one_sided": float(np.mean(cells > 1.645)),
            "by_budget": shares,
        }
        told = "  ".join(f"{eps} {100 * share:.0f} %" for eps, share in shares.items())
        print(
            f"{proxy:<24} {len(cells):>5} cells  {results[proxy]['covered']:.1%}  "
            f"above 1.645: {results[proxy]['false_alarms_one_sided']:.1%}  ({told})"
        )
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"honest_errors-{name}.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
