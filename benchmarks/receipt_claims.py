"""Two claims of Yu et al. (2023, arXiv 2206.02617) about each person's own epsilon, on our data.

    python -m benchmarks.receipt_claims
    python -m benchmarks.receipt_claims compas --budgets 0.5 1 5 10 --seeds 20

1. A person's realised epsilon goes with the person's loss at the end of training.
2. The group with the worst accuracy pays the most.

Norms are computed once an epoch, more often at first, and change no model (``refreshed``). Loss is
the cross-entropy of the trained model on its training records; r is Pearson's, of epsilon with the
loss and with its logarithm, and Spearman's, within each model. Groups are compared by accuracy on
test records: how much more the group with the lower one (by the mean over seeds) spent on average.
Labels are groups as well, as in the paper, where groups were classes. Errors are over seeds, which
share their people: they are about splits and training.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import pearsonr, spearmanr

from pcer.attacks.single import loss_of, true_label_logit
from pcer.data import GroupedDataset, load, split
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.sweep.bounds import settings_spent
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

DATASETS = ("compas", "adult")
Pair = tuple[float, float]
Row = dict[str, Any]


def mean_and_error(values: FloatArray) -> Pair:
    """Over seeds."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def correlations(spent: FloatArray, loss: FloatArray, member: BoolArray) -> dict[str, Pair]:
    """Of every person's epsilon with the loss, within each model; arrays (seed, record)."""
    kinds = {"loss": pearsonr, "log loss": pearsonr, "rank": spearmanr}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for own, end, inside in zip(spent, loss, member, strict=True):
        for kind, measure in kinds.items():
            seen = np.log(end[inside]) if kind == "log loss" else end[inside]
            found[kind].append(float(measure(own[inside], seen).statistic))
    return {kind: mean_and_error(np.array(values)) for kind, values in found.items()}


def group_means(values: FloatArray, chosen: BoolArray, codes: IntArray) -> FloatArray:
    """(seed, group) means over the chosen of (seed, record)."""
    return np.array(
        [
            [row[inside & (codes == k)].mean() for k in range(codes.max() + 1)]
            for row, inside in zip(values, chosen, strict=True)
        ]
    )


def payers(
    spent: FloatArray, right: BoolArray, member: BoolArray, codes: IntArray, names: tuple[str, ...]
) -> Row:
    """Who is predicted worst, who spends most, and by how much more than the best predicted."""
    accuracy = group_means(right, ~member & (codes >= 0), codes)
    paid = group_means(spent, member & (codes >= 0), codes)
    worst, best = (int(pick(accuracy.mean(axis=0))) for pick in (np.argmin, np.argmax))
    return {
        "worst": names[worst],
        "best": names[best],
        "pays most": names[int(np.argmax(paid.mean(axis=0)))],
        "accuracy less": mean_and_error(accuracy[:, best] - accuracy[:, worst]),
        "paid by the worst": mean_and_error(paid[:, worst]),
        "paid by the best": mean_and_error(paid[:, best]),
        "worst over best": mean_and_error(paid[:, worst] / paid[:, best]),
        "seeds in which the worst pays more": int((paid[:, worst] > paid[:, best]).sum()),
    }


def groupings(dataset: GroupedDataset) -> Iterator[tuple[str, IntArray, tuple[str, ...]]]:
    """The label, every attribute of two groups, and both together."""
    yield "label", dataset.labels, ("label 0", "label 1")
    for attribute in dataset.attributes:
        if len(attribute.group_names) == 2:
            yield attribute.name, attribute.codes, attribute.group_names
            both = [f"{name}, label {label}" for name in attribute.group_names for label in (0, 1)]
            known = attribute.codes >= 0
            codes = np.where(known, 2 * attribute.codes + dataset.labels, -1)
            yield f"{attribute.name} and label", codes, tuple(both)


def measure(name: str, budgets: list[float], n_seeds: int, mode: str) -> list[Row]:
    """A row for each budget."""
    dataset = load(name)
    rows = {seed: split(dataset, seed=seed).train for seed in range(n_seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    config = replace(TrainConfig(), receipts=mode)
    found = train_seeds(
        data,
        budgets=tuple(budgets),
        config=config,
        flags=EngineFlags(jobs=1),
    )
    spent = settings_spent(found.receipts, found.member, found.budgets, config)
    return [
        budget_row(dataset, one.by_kind["realised"], one.nominal, logits, found.member)
        | {"dataset": name, "epsilon": one.epsilon, "n_seeds": n_seeds}
        for one, logits in zip(spent, found.logits, strict=True)
    ]


def budget_row(
    dataset: GroupedDataset,
    spent: FloatArray,
    nominal: float,
    logits: FloatArray,
    member: BoolArray,
) -> Row:
    loss = loss_of(true_label_logit(logits, dataset.labels))
    right = (logits >= 0) == (dataset.labels == 1)
    return {
        "nominal": nominal,
        "mean": mean_and_error(np.nanmean(spent, axis=1)),
        "share at the promise": mean_and_error((spent >= nominal).sum(axis=1) / member.sum(axis=1)),
        "r": correlations(spent, loss, member),
        "groups": {
            name: payers(spent, right, member, codes, names)
            for name, codes, names in groupings(dataset)
        },
    }


def shown(pair: Pair, digits: int = 3) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def print_row(row: Row) -> None:
    r = "  ".join(f"{kind} {shown(pair)}" for kind, pair in row["r"].items())
    print(f"{row['dataset']} at {row['epsilon']:g} ({row['nominal']:.3f} by rdp): r with {r}")
    print(f"  mean {shown(row['mean'])}, at the promise {shown(row['share at the promise'])}")
    for name, one in row["groups"].items():
        print(
            f"  {name:15} worst predicted: {one['worst']} (by {shown(one['accuracy less'])}), "
            f"spends {shown(one['paid by the worst'])} against {shown(one['paid by the best'])} of "
            f"{one['best']}: x{shown(one['worst over best'])}, more in "
            f"{one['seeds in which the worst pays more']} of {row['n_seeds']} seeds; "
            f"most: {one['pays most']}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="*", help=f"of {', '.join(DATASETS)}; default: both")
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.5, 1.0, 5.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--mode", default="refreshed", choices=("refreshed", "held", "exact"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/receipt_claims.json"))
    options = parser.parse_args()
    found = []
    for name in options.datasets or DATASETS:
        for row in measure(name, options.budgets, options.seeds, options.mode):
            found.append(row)
            print_row(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
