"""Which form of LiRA is best, and RMIA beside it? Real sweeps, and planted truth.

    python -m benchmarks.lira train compas 50       arrays to benchmarks/results
    python -m benchmarks.lira train compas 450-649  the same with these seeds
    python -m benchmarks.lira records compas FILE   labels and groups, as a small .npz
    python -m benchmarks.lira forms compas.scores --skip 50 --jobs 16 \
        [--records compas.npz]
    python -m benchmarks.lira planted draws 16    draws of the data, each with 24 seeds
    python -m benchmarks.lira planted sets 100    one draw, so many sets of 24 at 0.1
    python -m benchmarks.lira planted trace 1200  one draw, so many seeds at 0.1

Wherever a benchmark asks for a source, it takes ``compas:50`` or ``compas:450-649``
(train it here, or use what was kept) or a folder ``NAME.scores`` that ``pcer train
--keep-scores`` left. Labels and groups of such a folder come from the dataset, or from
the file that ``records`` wrote, so that the machine that runs the benchmark needs no
more than numpy and pcer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from enum import StrEnum
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks import RESULTS as FOLDER
from benchmarks import parser_of, run_verb
from pcer.attacks import SettingScores, attack_models
from pcer.attacks.pooled import RankedPool
from pcer.attacks.scorers import (
    BLOCK,
    Others,
    offline_ratio,
    other_models,
    ratio_parts,
    rmia_ratio,
    shrunk_ratio,
    variance_of,
)
from pcer.attacks.single import auc_advantage, confidence_of, rank, true_label_logit
from pcer.attacks.sums import Groups
from pcer.metrics import BoolArray, FloatArray, quotient
from pcer.release.panel import PooledExposures
from pcer.statistics import SIGNIFICANCE, holm, upper_p

if TYPE_CHECKING:
    from pcer.data import GroupedDataset
    from pcer.train import Predictions

Arrays = dict[str, np.ndarray]

BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, math.inf)


def read(source: str, *, records: str | None = None) -> Arrays:
    """Logits (budget, seed, record), membership, labels and groups by attribute."""
    name, _, seeds = source.rpartition(":")
    if name and seeds.replace("-", "").isdigit():
        return sweep(name, seeds)
    return kept(Path(source), records=records)


def name_of(source: str) -> str:
    """A short name for files of results."""
    return Path(source).name.removesuffix(".scores").split(":")[0]


def sweep(name: str, seeds: str) -> Arrays:
    """Trained here, or read from a file; ``seeds``: a number or from-to."""
    path = FOLDER / f"sweep-{name}-{seeds}.npz"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        first, _, last = seeds.rpartition("-")
        wanted = range(int(first), int(last) + 1) if first else range(int(last))
        np.savez(path, **train(name, wanted))
    with np.load(path) as arrays:
        return dict(arrays)


def trained(
    dataset: GroupedDataset, seeds: range, budgets: tuple[float, ...]
) -> Predictions:
    """One model of the defaults per budget and seed."""
    from pcer.data import split
    from pcer.train import TrainingData, train_seeds

    rows = {seed: split(dataset, seed=seed).train for seed in seeds}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    return train_seeds(data, budgets=budgets)


def train(name: str, seeds: range, *, budgets: tuple[float, ...] = BUDGETS) -> Arrays:
    from pcer.data import load

    start = time.perf_counter()
    found = trained(load(name), seeds, budgets)
    return {
        "logits": found.logits,
        "member": found.member,
        "budgets": np.array(budgets),
        "seeds": np.array(seeds),
        "seconds": np.array(time.perf_counter() - start),
        **records_of(name),
    }


def kept(folder: Path, *, records: str | None = None) -> Arrays:
    """The scores that ``pcer train --keep-scores`` left in a folder, of all budgets."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    rows = {seed: row for row, seed in enumerate(index["seeds"])}
    found = set()
    for block in index["blocks"]:
        found.update(map(_budget, block["models"]))
    budgets = sorted(found)
    member = np.load(folder / index["membership"], allow_pickle=False)
    logits = np.full((len(budgets), *member.shape), np.nan, dtype=np.float32)
    for block in index["blocks"]:
        values = np.load(folder / block["scores"], mmap_mode="r", allow_pickle=False)
        for model, row in zip(block["models"], values, strict=True):
            if model["seed"] in rows:
                logits[budgets.index(_budget(model)), rows[model["seed"]]] = row
    if np.isnan(logits).any():
        raise SystemExit(
            f"{folder} does not hold every budget for every seed; train it again."
        )
    return {
        "logits": logits,
        "member": member,
        "budgets": np.array(budgets),
        "seeds": np.array(index["seeds"]),
        **_people(folder, records, member.shape[1]),
    }


def records_of(name: str) -> Arrays:
    """Labels, groups and names of groups of a dataset."""
    from pcer.data import load

    dataset = load(name)
    groups = {f"group_{a.name}": a.codes for a in dataset.attributes}
    names = {f"names_{a.name}": np.array(a.group_names) for a in dataset.attributes}
    return {"labels": dataset.labels, **groups, **names}


def attributes(arrays: Arrays) -> list[str]:
    return [key.removeprefix("group_") for key in arrays if key.startswith("group_")]


def splits_of(arrays: Arrays, rows: slice, kind: str, draw: int) -> np.ndarray:
    """Membership (seed, record) of some seeds: "true", or independent of the models.

    "rotated" puts the split of seed s + draw beside the model of seed s. "fresh" draws
    new splits within labels, which no model was trained on.
    """
    member = arrays["member"][rows]
    if kind == "rotated":
        return np.roll(member, -draw, axis=0)
    if kind == "fresh":
        rng = np.random.default_rng([rows.start or 0, draw])
        return np.array([_redrawn(row, arrays["labels"], rng) for row in member])
    return member


def false_draws(n_seeds: int, *, rotations: int, fresh: int) -> dict[str, list[int]]:
    """Which rotations and fresh draws to make of so many seeds."""
    steps = np.linspace(1, n_seeds - 1, rotations).astype(int)
    return {"rotated": np.unique(steps).tolist(), "fresh": list(range(fresh))}


def budget_scores(
    arrays: Arrays, attribute: str, member: np.ndarray, *, budget: int
) -> SettingScores:
    """What an attack on one budget gets to see."""
    return SettingScores(
        logits=arrays["logits"][budget],
        labels=arrays["labels"],
        member=member,
        group=arrays[f"group_{attribute}"],
        group_names=tuple(arrays[f"names_{attribute}"].tolist()),
    )


def epsilon_name(budget: float) -> str:
    return "no-DP" if math.isinf(budget) else f"{budget:g}"


def _redrawn(
    row: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    drawn = np.empty_like(row)
    for label in (0, 1):
        drawn[labels == label] = rng.permutation(row[labels == label])
    return drawn


def _budget(model: dict[str, float | None]) -> float:
    return math.inf if model["epsilon"] is None else model["epsilon"]


def _people(folder: Path, records: str | None, n_records: int) -> Arrays:
    if records is None:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        people = records_of(settings["dataset"])
    else:
        with np.load(records) as arrays:
            people = dict(arrays)
    if len(people["labels"]) != n_records:
        raise SystemExit(
            f"{folder} is about {n_records} records, not those of {records}."
        )
    return people


# LiRA in four forms, and RMIA, for all records of a group at once: what the forms are
# compared by, and what tests hold the library's attacks against.


Ratio = Callable[[FloatArray, Others], FloatArray]
"""The score of a block of records, (target, record), from what the other models say."""


class Form(StrEnum):
    """Which likelihood ratio is taken; all are LiRA."""

    SHRUNK = "shrunk"
    """In and out Gaussians; the difference is shrunk to its size over records."""
    PLAIN = "plain"
    """In and out Gaussians as each record's other models give them (Carlini et al.)."""
    FIXED = "fixed"
    """The same with one variance in and one out for all, as advised for few models."""
    OFFLINE = "offline"
    """Only the out Gaussian: how far above it the target lies."""


def blocks(
    values: FloatArray, member: BoolArray
) -> Iterator[tuple[slice, FloatArray, BoolArray]]:
    """Records a few at a time: which, their values, their membership."""
    for first in range(0, values.shape[1], BLOCK):
        block = slice(first, first + BLOCK)
        yield block, np.asarray(values[:, block], dtype=np.float64), member[:, block]


def all_others(values: FloatArray, member: BoolArray) -> Others:
    """``other_models`` where every model has a split of its own."""
    return other_models(values, member, np.arange(len(values)))


def lira_scores(
    scaled_logit: FloatArray, member: BoolArray, *, form: Form = Form.SHRUNK
) -> FloatArray:
    """Log likelihood ratio of "was trained on" for every (target model, record).

    NaN marks a pair that is left out: a record that the other models all had in
    training, or all had not, or on which they do not differ at all, is not guessed.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        form: which ratio.

    """
    if form is Form.SHRUNK:  # its typical difference is that of all records
        others = all_others(scaled_logit, member)
        return shrunk_ratio(
            *ratio_parts(scaled_logit, others), others.n_in, others.n_out
        )
    ratio = _ratio(scaled_logit, member, form)
    scores = np.empty(scaled_logit.shape)
    for block, values, inside in blocks(scaled_logit, member):
        scores[:, block] = ratio(values, all_others(values, inside))
    return scores


def rmia_scores(confidence: FloatArray, member: BoolArray) -> FloatArray:
    """``rmia_ratio`` of all records.

    Args:
        confidence: (model, record) probability of the true label.
        member: (model, record).
    """
    scores = np.empty(confidence.shape)
    for block, values, inside in blocks(confidence, member):
        scores[:, block] = rmia_ratio(values, all_others(values, inside))
    return scores


def _ratio(values: FloatArray, member: BoolArray, form: Form) -> Ratio:
    """How one form scores a block; what all records share is taken beforehand."""
    if form is Form.FIXED:
        spread_in, spread_out = _common_variances(values, member)
        return partial(_fixed_ratio, spread_in=spread_in, spread_out=spread_out)
    return _plain_ratio if form is Form.PLAIN else offline_ratio


def _common_variances(
    values: FloatArray, member: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """(target, 1) variances of other models around each record's mean, in and out."""
    squares = np.zeros((2, len(values)))
    freedom = np.zeros((2, len(values)))
    for _, part, inside in blocks(values, member):
        others = all_others(part, inside)
        for side, (square, n) in enumerate(
            ((others.squares_in, others.n_in), (others.squares_out, others.n_out))
        ):
            squares[side] += square.sum(axis=1)
            freedom[side] += np.maximum(n - 1, 0).sum(axis=1)
    variance = quotient(squares, np.where(squares > 0, freedom, 0))
    return variance[0][:, None], variance[1][:, None]


def _plain_ratio(values: FloatArray, others: Others) -> FloatArray:
    spread_in = variance_of(others.squares_in, others.n_in)
    spread_out = variance_of(others.squares_out, others.n_out)
    inside = _log_density(values, others.mean_in, spread_in)
    return inside - _log_density(values, others.mean_out, spread_out)


def _fixed_ratio(
    values: FloatArray, others: Others, spread_in: FloatArray, spread_out: FloatArray
) -> FloatArray:
    inside = _log_density(values, others.mean_in, spread_in)
    ratio = inside - _log_density(values, others.mean_out, spread_out)
    return np.where(others.squares_in + others.squares_out > 0, ratio, np.nan)


def _log_density(
    values: FloatArray, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    return np.asarray(-0.5 * (np.log(variance) + (values - mean) ** 2 / variance))


COVERED, ALARM = 1.96, 1.645


def centred_scores(logit: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The shrunk form without a difference: distance from the others' mean, scaled."""
    return _standing(logit, all_others(logit, member))


def hard_scores(logit: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The same times the others' mean doubt: training moves a record by its doubt."""
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
    """One budget of one set of seeds: true splits (draw 0 of "true") or false ones."""

    rows: tuple[int, int]
    kind: str
    draw: int
    budget: int


_SHARED: dict[str, Arrays] = {}
"""What the workers inherit: the arrays of the sweep, before the pool is made."""


def clustered_auc(scores: FloatArray, member: BoolArray) -> PooledExposures:
    """AUC minus 1/2 of one group, averaged over models; errors clustered by record."""
    everybody = Groups(np.zeros(scores.shape[1], dtype=np.int64), 1)
    pool = RankedPool([everybody], len(scores))
    for model, (score, inside) in enumerate(zip(scores, member, strict=True)):
        pool.add(model, rank(score, inside, [everybody]), auc_advantage, score)
    return pool.exposures(everybody)


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
                found.append(
                    {**cell, "value": one.value[0], "error": one.standard_error[0]}
                )
    return found


def tasks_of(
    n_seeds: int, n_budgets: int, options: argparse.Namespace
) -> Iterator[Task]:
    starts = range(options.skip, n_seeds - options.set_size + 1, options.set_size)
    false = false_draws(
        options.set_size, rotations=options.rotations, fresh=options.fresh
    )
    draws = {"true": [0], **false}
    for first in starts:
        for kind, numbers in draws.items():
            for draw in numbers:
                for budget in range(n_budgets):
                    yield Task((first, first + options.set_size), kind, draw, budget)


def run(tasks: list[Task], jobs: int) -> Iterator[dict[str, object]]:
    context = get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for number, (task, cells) in enumerate(
            zip(tasks, pool.map(measure, tasks), strict=True)
        ):
            print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr)
            epsilon = epsilon_name(float(_SHARED["sweep"]["budgets"][task.budget]))
            origin = {"set": task.rows[0], "kind": task.kind, "draw": task.draw}
            yield from ({**origin, "epsilon": epsilon, **cell} for cell in cells)


def mark_detected(cells: list[dict[str, object]]) -> None:
    """What each set's audit would detect: Holm over budgets and groups."""
    families: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for cell in cells:
        key = tuple(cell[name] for name in ("set", "kind", "draw", "attribute", "form"))
        families.setdefault(key, []).append(cell)
    for family in families.values():
        value = np.array([cell["value"] for cell in family], float)
        error = np.array([cell["error"] for cell in family], float)
        for cell, p in zip(family, holm(upper_p(value, error)), strict=True):
            cell["detected"] = bool(p <= SIGNIFICANCE)


def summarise(cells: list[dict[str, object]]) -> dict[str, float]:
    """One row of the tables: sets (and draws) of one form, budget and group."""
    value = np.array([cell["value"] for cell in cells], float)
    error = np.array([cell["error"] for cell in cells], float)
    first = np.array([c["set"] for c in cells])
    per_set = np.array([value[first == s].mean() for s in np.unique(first)])
    z = value / error
    claimed = float(np.sqrt((error**2).mean()))
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
        "detected": float(np.mean([bool(c["detected"]) for c in cells])),
    }


def _spread(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def table(
    cells: list[dict[str, object]], kind: str, names: tuple[str, ...]
) -> list[dict]:
    """Rows by the given names, in the order in which they first occur."""
    rows: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for cell in cells:
        if cell["kind"] == kind:
            rows.setdefault(tuple(cell[name] for name in names), []).append(cell)
    return [
        dict(zip(names, key, strict=True)) | summarise(found)
        for key, found in rows.items()
    ]


HEAD = (
    f"{'form':<9}{'attribute':<11}{'group':<18}{'eps':<6}{'n':>5}{'mean':>9} {'+-':<7}"
    f"{'claimed':>8}{'spread':>8}{'ratio':>6}{'mean z':>8}"
    f"{'covered':>9}{'>1.645':>8}{'detected':>9}"
)


def show(rows: list[dict], title: str) -> None:
    print(f"\n{title}\n{HEAD}")
    for row in sorted(rows, key=lambda r: (r.get("attribute", ""), r.get("group", ""))):
        print(
            f"{row['form']:<9}{row.get('attribute', 'all'):<11.10}"
            f"{row.get('group', 'all'):<18.17}"
            f"{row.get('epsilon', 'all'):<6}{row['n']:>5}{row['mean']:>+9.5f} "
            f"{row['mean_error']:<7.5f}{row['claimed']:>8.5f}{row['spread']:>8.5f}"
            f"{row['spread'] / row['claimed']:>6.2f}{row['mean_z']:>+8.2f}"
            f"{row['covered']:>9.1%}"
            f"{row['above']:>8.1%}{row['detected']:>9.1%}"
        )


TITLES = {
    "true": "As trained (n: sets). Detected: by the audit of that set alone.",
    "rotated": (
        "Rotated within the set (n: sets x rotations): truth 0, leans against effects."
    ),
    "fresh": "Fresh splits (n: sets x draws): truth 0.",
}


def form_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(forms)
    parser.add_argument(
        "source", help="NAME.scores of pcer train --keep-scores, or compas:50"
    )
    parser.add_argument(
        "--records", help="labels and groups, from benchmarks.lira records"
    )
    parser.add_argument("--attribute", action="append", help="repeatable; default: all")
    parser.add_argument(
        "--set-size", type=int, default=50, help="seeds per set (default 50)"
    )
    parser.add_argument(
        "--skip", type=int, default=50, help="first seeds left out (default 50)"
    )
    parser.add_argument(
        "--rotations", type=int, default=20, help="per set (default 20)"
    )
    parser.add_argument(
        "--fresh", type=int, default=20, help="draws per set (default 20)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument(
        "--out", type=Path, help="JSON file; default in benchmarks/results"
    )
    return parser.parse_args(arguments)


def forms(arguments: Sequence[str]) -> None:
    """Which form of LiRA has the best power at an honest error?

    The seeds are not those that it was chosen on.

    The seeds of one long sweep are cut into sets; every set is a sweep of its own. For
    each form, budget and group: the mean over sets of AUC - 1/2, the claimed error, the
    spread between sets (honest if it is the claimed error), and in how many sets the
    audit would detect it (one-sided, Holm over budgets and groups). Then the same
    where the truth is 0: ``rotated``, the split of seed s + k beside the model of seed
    s of the same set, which leans a little to the other side of a true effect; and
    ``fresh``, splits drawn anew that no model was trained on, which lean nowhere.
    """
    options = form_arguments(arguments)
    arrays = _SHARED["sweep"] = read(options.source, records=options.records)
    arrays["attributes"] = np.array(options.attribute or attributes(arrays))
    n_budgets, n_seeds, n_records = arrays["logits"].shape
    tasks = list(tasks_of(n_seeds, n_budgets, options))
    if not tasks:
        raise SystemExit(f"{n_seeds} seeds are too few for --skip and --set-size.")
    cells = list(run(tasks, options.jobs))
    mark_detected(cells)
    sets = sorted({task.rows for task in tasks})
    print(
        f"{name_of(options.source)}: {n_budgets} budgets, {n_records:,} records, "
        f"{len(sets)} sets of {options.set_size} seeds, from seed "
        f"{arrays['seeds'][sets[0][0]]} on"
    )
    results = {}
    for kind, title in TITLES.items():
        if any(cell["kind"] == kind for cell in cells):
            whole = ("form", "attribute", "group", "epsilon")
            results[kind] = table(cells, kind, whole)
            show(results[kind], title)
            results[f"{kind}_by_budget"] = table(
                cells, kind, ("form", "attribute", "epsilon")
            )
            show(results[f"{kind}_by_budget"], f"{title} All groups together.")
    out = options.out or FOLDER / f"lira_forms-{name_of(options.source)}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**results, "cells": cells}) + "\n", encoding="utf-8")
    print(f"\nwrote {out}")


EPSILON = 0.1
DRAW = {"sets": 3, "trace": 7}
"""Which draw of the data each part looks at."""


def draws(n: int) -> None:
    from tests.sweep import test_planted_truth as truth

    right = dict.fromkeys(truth.ATTACKS, 0)
    alarms = dict.fromkeys(truth.ATTACKS, 0)
    for draw in range(n):
        with tempfile.TemporaryDirectory() as folder:
            release = truth.trained(truth.planted(draw), Path(folder))
        for attack in truth.ATTACKS:
            found = truth.audited(release, attack)
            kept = found[None]["kept"]
            shuffled = found[None]["shuffled"]
            is_found = kept.detected and shuffled.detected
            right[attack] += is_found and shuffled.exposure.value > kept.exposure.value
            alarms[attack] += any(group.detected for group in found[EPSILON].values())
    for attack in truth.ATTACKS:
        print(
            f"{attack:24} found {right[attack]:3} of {n}, "
            f"at 0.1 {alarms[attack]:3} of {n}"
        )


def planted_models(part: str, n_seeds: int) -> dict[str, np.ndarray]:
    from tests.sweep import test_planted_truth as truth

    dataset = truth.planted(DRAW[part])
    found = trained(dataset, range(n_seeds), (EPSILON,))
    return {
        "logits": found.logits[0],
        "member": found.member,
        "labels": dataset.labels,
        "group": dataset.attribute("g").codes,
    }


def exposures(arrays: dict[str, np.ndarray], rows: slice, kind: str):
    scores = SettingScores(
        logits=arrays["logits"][rows],
        labels=arrays["labels"],
        member=splits_of(arrays, rows, kind, 5),
        group=arrays["group"],
        group_names=("kept", "shuffled"),
    )
    return attack_models([scores])[0].rows


def sets(n: int) -> None:
    from tests.sweep import test_planted_truth as truth

    arrays = planted_models("sets", n * truth.N_SEEDS)
    for kind in ("true", "fresh"):
        found: dict[tuple[str, str], list[float]] = {}
        for first in range(0, n * truth.N_SEEDS, truth.N_SEEDS):
            for row in exposures(arrays, slice(first, first + truth.N_SEEDS), kind):
                z = row.value / row.standard_error
                found.setdefault((row.group, row.attack), []).append(z)
        for (group, attack), values in found.items():
            z = np.array(values)
            print(
                f"{kind:6}{group:9} {attack:24} {z.mean():+.2f} +- "
                f"{z.std(ddof=1):.2f}, above 1.96: {(z > 1.96).mean():.2f}"
            )


def trace(n: int) -> None:
    for row in exposures(planted_models("trace", n), slice(0, n), "true"):
        print(
            f"{row.group:9} {row.attack:24} {row.value:+.4f} +- "
            f"{row.standard_error:.4f}"
        )


def planted(words: Sequence[str]) -> None:
    """Planted truth: what is found without privacy, and what epsilon 0.1 leaves.

    The data are those of ``tests/sweep/test_planted_truth.py``. "draws" counts, for
    each attack, the draws in which the shuffled group is detected and the more exposed
    one without privacy, and those in which any group is detected at epsilon 0.1. "sets"
    gives the mean and spread of value over error, with the true splits and with fresh
    ones, and the share above 1.96.
    """
    parts = {"draws": draws, "sets": sets, "trace": trace}
    parser = parser_of(planted)
    parser.add_argument("part", choices=parts)
    parser.add_argument("n", type=int)
    options = parser.parse_args(words)
    parts[options.part](options.n)


if __name__ == "__main__":
    run_verb(
        {
            "train": lambda words: sweep(*words),
            "records": lambda words: np.savez_compressed(
                words[1], **records_of(words[0])
            ),
            "forms": forms,
            "planted": planted,
        }
    )
