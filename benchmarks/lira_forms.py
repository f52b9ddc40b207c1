"""Which form of LiRA has the best power at an honest error, on seeds it was not chosen on?

    python -m benchmarks.lira_forms compas.scores --skip 50 --jobs 16 [--records compas.npz]

The seeds of one long sweep are cut into sets; every set is a sweep of its own. For each form,
budget and group: the mean over sets of AUC - 1/2, the claimed error, the spread between sets
(honest if it is the claimed error), and in how many sets the audit would resolve it (one-sided,
Holm over budgets and groups). Then the same where the truth is 0: ``rotated``, the split of seed
s + k beside the model of seed s of the same set, which leans a little to the other side of a true
effect; and ``fresh``, splits drawn anew that no model was trained on, which lean nowhere.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.lira_scores import Form, lira_scores, rmia_scores
from benchmarks.sweeps import (
    FOLDER,
    Arrays,
    attributes,
    epsilon_name,
    false_draws,
    name_of,
    read,
    splits_of,
)
from pcer.attacks.lira import Others, other_models
from pcer.attacks.pooled import clustered_auc
from pcer.attacks.single import confidence_of, true_label_logit
from pcer.statistics import SIGNIFICANCE, holm, upper_p

COVERED, ALARM = 1.96, 1.645


def centred_scores(logit: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The shrunk form when no difference is seen: distance from the others' mean, in deviations."""
    return _standing(logit, other_models(logit, member))


def hard_scores(logit: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The same times the others' mean doubt: a step of training moves a record by its doubt."""
    return _doubt(logit) * centred_scores(logit, member)


def _standing(logit: np.ndarray, others: Others) -> np.ndarray:
    n = others.n_in + others.n_out
    centre = (others.n_in * others.mean_in + others.n_out * others.mean_out) / n
    return (logit - centre) / others.deviation


def _doubt(logit: np.ndarray) -> np.ndarray:
    """One minus the mean confidence of the other models, (target, record)."""
    doubt = 1 - confidence_of(logit)
    return (doubt.sum(axis=0) - doubt) / (len(doubt) - 1)


FORMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    **{str(form): partial(lira_scores, form=form) for form in Form},
    "centred": centred_scores,
    "hard": hard_scores,
    "rmia": lambda logit, member: rmia_scores(confidence_of(logit), member),
}


class Task(NamedTuple):
    """One budget of one set of seeds, with its true splits (draw 0 of "true") or false ones."""

    rows: tuple[int, int]
    kind: str
    draw: int
    budget: int


_SHARED: dict[str, Arrays] = {}
"""What the workers inherit: the arrays of the sweep, before the pool is made."""


def measure(task: Task) -> list[dict[str, object]]:
    """Value and error of every form and group."""
    arrays = _SHARED["sweep"]
    seeds = slice(*task.rows)
    member = splits_of(arrays, seeds, task.kind, task.draw)
    logits = arrays["logits"][task.budget, seeds]
    found = []
    for attribute in arrays["attributes"].tolist():
        for k, group in enumerate(arrays[f"names_{attribute}"].tolist()):
            rows = np.flatnonzero(arrays[f"group_{attribute}"] == k)
            logit = true_label_logit(logits[:, rows], arrays["labels"][rows])
            inside = member[:, rows]
            for form, score in FORMS.items():
                one = clustered_auc(score(logit, inside), inside)
                cell = {"attribute": attribute, "group": group, "form": form}
                found.append({**cell, "value": one.value, "error": one.standard_error})
    return found


def tasks_of(n_seeds: int, n_budgets: int, options: argparse.Namespace) -> Iterator[Task]:
    starts = range(options.skip, n_seeds - options.set_size + 1, options.set_size)
    false = false_draws(options.set_size, rotations=options.rotations, fresh=options.fresh)
    draws = {"true": [0], **false}
    for first in starts:
        for kind, numbers in draws.items():
            for draw in numbers:
                for budget in range(n_budgets):
                    yield Task((first, first + options.set_size), kind, draw, budget)


def run(tasks: list[Task], jobs: int) -> Iterator[dict[str, object]]:
    context = get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for number, (task, cells) in enumerate(zip(tasks, pool.map(measure, tasks), strict=True)):
            print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr)
            epsilon = epsilon_name(float(_SHARED["sweep"]["budgets"][task.budget]))
            origin = {"set": task.rows[0], "kind": task.kind, "draw": task.draw}
            yield from ({**origin, "epsilon": epsilon, **cell} for cell in cells)


def mark_resolved(cells: list[dict[str, object]]) -> None:
    """What the audit of each set would resolve: Holm over budgets and groups of an attribute."""
    families: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for cell in cells:
        key = tuple(cell[name] for name in ("set", "kind", "draw", "attribute", "form"))
        families.setdefault(key, []).append(cell)
    for family in families.values():
        value, error = (np.array([c[name] for c in family], float) for name in ("value", "error"))
        for cell, p in zip(family, holm(upper_p(value, error)), strict=True):
            cell["resolved"] = bool(p <= SIGNIFICANCE)


def summarise(cells: list[dict[str, object]]) -> dict[str, float]:
    """One row of the tables: sets (and draws) of one form, budget and group."""
    value, error = (np.array([c[name] for c in cells], float) for name in ("value", "error"))
    first = np.array([c["set"] for c in cells])
    per_set = np.array([value[first == s].mean() for s in np.unique(first)])
    z, claimed = value / error, float(np.sqrt((error**2).mean()))
    several = len(value) > 1
    return {
        "n": len(value),
        "mean": float(value.mean()),
        "mean_error": claimed / math.sqrt(len(value)),
        "mean_error_over_sets": _spread(per_set) / math.sqrt(len(per_set)),
        "claimed": claimed,
        "spread": _spread(value) if several else math.nan,
        "mean_z": float(z.mean()),
        "covered": float((np.abs(z) <= COVERED).mean()),
        "above": float((z > ALARM).mean()),
        "resolved": float(np.mean([bool(c["resolved"]) for c in cells])),
    }


def _spread(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def table(cells: list[dict[str, object]], kind: str, names: tuple[str, ...]) -> list[dict]:
    """Rows by the given names, in the order in which they first occur."""
    rows: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for cell in cells:
        if cell["kind"] == kind:
            rows.setdefault(tuple(cell[name] for name in names), []).append(cell)
    return [dict(zip(names, key, strict=True)) | summarise(found) for key, found in rows.items()]


HEAD = (
    f"{'form':<9}{'attribute':<11}{'group':<18}{'eps':<6}{'n':>5}{'mean':>9} {'+-':<7}"
    f"{'claimed':>8}{'spread':>8}{'ratio':>6}{'mean z':>8}"
    f"{'covered':>9}{'>1.645':>8}{'resolved':>9}"
)


def show(rows: list[dict], title: str) -> None:
    print(f"\n{title}\n{HEAD}")
    for row in sorted(rows, key=lambda r: (r.get("attribute", ""), r.get("group", ""))):
        print(
            f"{row['form']:<9}{row.get('attribute', 'all'):<11.10}{row.get('group', 'all'):<18.17}"
            f"{row.get('epsilon', 'all'):<6}{row['n']:>5}{row['mean']:>+9.5f} "
            f"{row['mean_error']:<7.5f}{row['claimed']:>8.5f}{row['spread']:>8.5f}"
            f"{row['spread'] / row['claimed']:>6.2f}{row['mean_z']:>+8.2f}{row['covered']:>9.1%}"
            f"{row['above']:>8.1%}{row['resolved']:>9.1%}"
        )


TITLES = {
    "true": "As trained (n: sets). Resolved: by the audit of that set alone.",
    "rotated": "Rotated within the set (n: sets x rotations): truth 0, leans against effects.",
    "fresh": "Fresh splits (n: sets x draws): truth 0.",
}


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="NAME.scores of pcer train --keep-scores, or compas:50")
    parser.add_argument("--records", help="labels and groups, from benchmarks.sweeps records")
    parser.add_argument("--attribute", action="append", help="repeatable; default: all")
    parser.add_argument("--set-size", type=int, default=50, help="seeds per set (default 50)")
    parser.add_argument("--skip", type=int, default=50, help="first seeds left out (default 50)")
    parser.add_argument("--rotations", type=int, default=20, help="per set (default 20)")
    parser.add_argument("--fresh", type=int, default=20, help="draws per set (default 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--out", type=Path, help="JSON file; default in benchmarks/results")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    options = parsed(arguments)
    arrays = _SHARED["sweep"] = read(options.source, records=options.records)
    arrays["attributes"] = np.array(options.attribute or attributes(arrays))
    n_budgets, n_seeds, n_records = arrays["logits"].shape
    tasks = list(tasks_of(n_seeds, n_budgets, options))
    if not tasks:
        raise SystemExit(f"{n_seeds} seeds are too few for --skip and --set-size.")
    cells = list(run(tasks, options.jobs))
    mark_resolved(cells)
    sets = sorted({task.rows for task in tasks})
    print(
        f"{name_of(options.source)}: {n_budgets} budgets, {n_records:,} records, {len(sets)} sets "
        f"of {options.set_size} seeds, from seed {arrays['seeds'][sets[0][0]]} on"
    )
    results = {}
    for kind, title in TITLES.items():
        if any(cell["kind"] == kind for cell in cells):
            whole = ("form", "attribute", "group", "epsilon")
            results[kind] = table(cells, kind, whole)
            show(results[kind], title)
            results[f"{kind}_by_budget"] = table(cells, kind, ("form", "attribute", "epsilon"))
            show(results[f"{kind}_by_budget"], f"{title} All groups together.")
    out = options.out or FOLDER / f"lira_forms-{name_of(options.source)}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**results, "cells": cells}) + "\n", encoding="utf-8")
    print(f"\nwrote {out}")


if __name__ == "__main__":
    main(sys.argv[1:])
