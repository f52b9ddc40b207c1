"""Are the errors of the pooled proxies honest? False splits on a real sweep.

    python -m benchmarks.honest_errors compas:50 --rotations 24 --jobs 2
    python -m benchmarks.honest_errors acs.scores --records acs.npz --fresh 8 --jobs 16

Rotated: the split of seed s + k beside the model of seed s. Nothing can be learned, so every
pooled proxy should be at chance, and its 95 % intervals should hold 0 in about 95 % of (budget,
group) cells. Fresh: the same with splits that no model was trained on.

Rotations of one sweep are not independent of each other: they share models and splits, and over
all k, the true one included, the paired differences of a record sum to 0, so that the rotated ones
lean to the other side of a strong true effect: by 1/(seeds - 1) of it. So the chance value of a
rotated cell is not 0 but -effect/(seeds - 1), exactly so for the paired costs, and "of what
rotation expects" is the share of intervals that hold that. Beside each share stands the range in
which it would lie in 99 % of cases if the cells were independent and the coverage exactly 95 %; a
share outside is marked. Cells that depend on each other scatter more than that. The null error,
which holds no luck of models and decides whether anything is remembered, is put to the same test.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.sweeps import (
    FOLDER,
    Arrays,
    attributes,
    budget_scores,
    epsilon_name,
    false_draws,
    name_of,
    read,
    splits_of,
)
from pcer.attacks.exposure import pooled_exposures

COVERED, ALARM, NOMINAL, RANGE = 1.96, 1.645, 0.95, 0.99

Task = tuple[str, int, int]
Cell = dict[str, object]
_SHARED: dict[str, Arrays] = {}
"""What the workers inherit: the arrays of the sweep, before the pool is made."""


def measure(task: Task) -> list[Cell]:
    """Value over error of every proxy and group, for one false split of one budget."""
    kind, draw, budget = task
    arrays = _SHARED["sweep"]
    member = splits_of(arrays, slice(None), kind, draw)
    epsilon = float(arrays["budgets"][budget])
    cells = []
    for attribute in arrays["attributes"].tolist():
        scores = budget_scores(arrays, attribute, member, budget=budget)
        for row in pooled_exposures(scores, epsilon=epsilon):
            if row.standard_error:
                cell = {"kind": kind, "draw": draw, "epsilon": epsilon_name(epsilon)}
                cell |= {"attribute": attribute, "group": row.group, "proxy": row.proxy}
                cell |= {"n_records": row.n_records, "z": row.value / row.standard_error}
                cell |= {"value": row.value, "error": row.standard_error}
                cell |= {"null_z": row.value / row.null_error}
                cells.append(cell)
    return cells


def run(tasks: list[Task], jobs: int) -> Iterator[Cell]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for number, cells in enumerate(pool.map(measure, tasks)):
            print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr)
            yield from cells
    print(file=sys.stderr)


def told(z: np.ndarray) -> dict[str, object]:
    """Coverage of some cells, and whether it can be luck."""
    from scipy.stats import binom

    n_covered = int((np.abs(z) <= COVERED).sum())
    low, high = (binom.ppf(q, len(z), NOMINAL) for q in ((1 - RANGE) / 2, (1 + RANGE) / 2))
    return {
        "cells": len(z),
        "covered": n_covered / len(z),
        "range": [float(low) / len(z), float(high) / len(z)],
        "within_range": bool(low <= n_covered <= high),
        "above": float((z > ALARM).mean()),
        "mean_z": float(z.mean()),
        "sd_z": float(z.std(ddof=1)) if len(z) > 1 else None,
    }


def place(cell: Cell) -> tuple[object, ...]:
    return tuple(cell[name] for name in ("epsilon", "attribute", "group", "proxy"))


def against_expected(cells: list[Cell], effects: dict[tuple[object, ...], float]) -> np.ndarray:
    """Distance of every rotated value from what rotation expects, in errors.

    Args:
        cells: of rotated splits.
        effects: 1/(seeds - 1) of the value with the true splits, by place.
    """
    return np.array([(c["value"] + effects[place(c)]) / c["error"] for c in cells])


def by(cells: list[Cell], *names: str) -> dict[tuple[object, ...], np.ndarray]:
    found: dict[tuple[object, ...], list[float]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in names), []).append(float(str(cell["z"])))
    return {key: np.array(z) for key, z in found.items()}


def show(name: str, one: dict[str, object]) -> None:
    low, high = one["range"]
    print(
        f"  {name:<32}{one['cells']:>6} cells  covered {one['covered']:>6.1%} "
        f"({low:.1%} to {high:.1%}{'' if one['within_range'] else ', OUTSIDE'})  "
        f"above {ALARM}: {one['above']:>5.1%}  z {one['mean_z']:+.2f} +- {one['sd_z']:.2f}"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="compas:50, or NAME.scores of pcer train --keep-scores")
    parser.add_argument("--records", help="labels and groups, from benchmarks.sweeps records")
    parser.add_argument("--attribute", action="append", help="repeatable; default: all")
    parser.add_argument("--seeds", type=int, help="only so many of the sweep's seeds")
    parser.add_argument("--rotations", type=int, default=12)
    parser.add_argument("--fresh", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="JSON file; default in benchmarks/results")
    options = parser.parse_args(arguments)
    arrays = _SHARED["sweep"] = read(options.source, records=options.records)
    arrays["logits"] = arrays["logits"][:, : options.seeds]
    arrays["member"] = arrays["member"][: options.seeds]
    arrays["attributes"] = np.array(options.attribute or attributes(arrays))
    n_budgets, n_seeds, _ = arrays["logits"].shape
    draws = false_draws(n_seeds, rotations=options.rotations, fresh=options.fresh)
    draws["true"] = [0]
    tasks = [(k, d, b) for k, found in draws.items() for d, b in product(found, range(n_budgets))]
    cells = list(run(tasks, options.jobs))
    true = {place(c): float(str(c["value"])) for c in cells if c["kind"] == "true"}
    effects = {key: value / (n_seeds - 1) for key, value in true.items()}
    cells = [c for c in cells if c["kind"] != "true"]
    results = {}
    print(f"{name_of(options.source)}, {n_seeds} seeds: 95 % intervals that hold chance")
    for (kind, proxy), z in by(cells, "kind", "proxy").items():
        chosen = [c for c in cells if (c["kind"], c["proxy"]) == (kind, proxy)]
        results[f"{kind} {proxy}"] = whole = told(z)
        show(f"{kind} {proxy}", whole)
        whole["null_error"] = told(np.array([float(str(c["null_z"])) for c in chosen]))
        show("    by the null error", whole["null_error"])
        if kind == "rotated":
            whole["of_expected"] = told(against_expected(chosen, effects))
            show("    of what rotation expects", whole["of_expected"])
        whole["by_budget"] = {eps: told(part) for (eps,), part in by(chosen, "epsilon").items()}
        for epsilon, part in whole["by_budget"].items():
            show(f"    eps {epsilon}", part)
    out = options.out or FOLDER / f"honest_errors-{name_of(options.source)}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**results, "cells": cells}) + "\n", encoding="utf-8")
    print(f"wrote {out}")


if __name__ == "__main__":
    main(sys.argv[1:])
