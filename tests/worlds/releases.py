"""Releases with a known truth: the split is random, and exactly as much is memorised as asked.

For each group and label a model is right about a set of records; a random split then
decides which of them were trained on. Memorisation makes the model right about further
training records. Nothing is approximated: without memorisation membership is
exchangeable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pcer.metrics import Counts, accuracy, positive_rate
from pcer.release.file import VERSION, Release, parse_release
from pcer.release.panel import Panel

TRAIN_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class World:
    """What to simulate; per group: sizes, label shares, accuracies by label, memorised gaps."""

    sizes: Sequence[int]
    label_shares: Sequence[float]
    right: Sequence[
        tuple[float, float]
    ]  # chance to be right on label 0, and on label 1
    gaps: Sequence[float]
    n_seeds: int
    budgets: Sequence[float | None] = (None,)
    reseed: Callable[..., np.ndarray] | None = (
        None  # what another seed on one split gets right
    )
    outcome: str = "benefit"


def simulate(world: World, rng: np.random.Generator) -> Release:
    """Draw one release."""
    runs, trained = [], None
    for seed in range(world.n_seeds):
        if trained is None or world.reseed is None:
            trained = _split(world, rng)
            shared = [_luck(world, trained, rng) for _ in world.budgets]
        for k, budget in enumerate(world.budgets):
            correct = shared[k]
            if world.reseed is not None:
                correct = world.reseed(world, trained, correct, rng)
            runs.append(_run(world, budget, seed, trained, correct, rng))
    names = [f"g{g}" for g in range(len(world.sizes))]
    return written(runs, names, outcome=world.outcome)


def written(
    runs: Sequence[object],
    groups: Sequence[str],
    *,
    outcome: str = "benefit",
    training: Mapping[str, object] | None = None,
    **fields: object,
) -> Release:
    """A release of these runs, by random splits unless something else is said."""
    subject = {"dataset": "simulated", "attribute": "group", "groups": [*groups]}
    tree = {"format": "pcer-release", "version": VERSION, "runs": [*runs], **fields}
    tree |= {"subject": {**subject, "outcome": outcome}}
    return parse_release(
        {**tree, "training": {"split_kind": "random", **(training or {})}}, file="x"
    )


def runs_of(
    train: Counts,
    test: Counts,
    epsilons: Sequence[float | None] = (None,),
    *,
    split: str = "",
) -> list[dict[str, object]]:
    """Runs of counts (setting, split, group), a seed for every split; groups g0, g1, ..."""

    def tables(k: int, s: int, g: int) -> dict[str, dict[str, int]]:
        parts = {"train": train, "test": test}.items()
        return {
            name: {c: int(n[k, s, g]) for c, n in part._asdict().items()}
            for name, part in parts
        }

    runs = []
    for k, s in np.ndindex(train.n.shape[:2]):
        groups = {f"g{g}": tables(k, s, g) for g in range(train.n.shape[-1])}
        runs.append(
            {
                "epsilon": epsilons[k],
                "seed": s,
                "split": f"{split}{s}",
                "groups": groups,
            }
        )
    return runs


def totals(world: World, label: int) -> np.ndarray:
    """(group,) records of a label."""
    positive = np.rint(np.multiply(world.sizes, world.label_shares)).astype(int)
    return positive if label else np.array(world.sizes) - positive


def _split(world: World, rng: np.random.Generator) -> np.ndarray:
    """(label, group) how many records are trained on: 70/30, stratified by label alone."""
    both = [totals(world, label) for label in (0, 1)]
    sizes = [round(TRAIN_SHARE * total.sum()) for total in both]
    return np.stack([*map(rng.multivariate_hypergeometric, both, sizes)])


def _luck(world: World, trained: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(label, group, 2) how many of the trained, and of the others, the model gets right."""
    out = np.zeros((2, len(world.sizes), 2), dtype=int)
    for label, g in np.ndindex(out.shape[:2]):
        total = totals(world, label)[g]
        good = rng.binomial(total, world.right[g][label])
        out[label, g, 0] = rng.hypergeometric(good, total - good, trained[label, g])
        out[label, g, 1] = good - out[label, g, 0]
    return out


def _run(
    world: World, budget: float | None, seed: int, trained, correct, rng
) -> dict[str, object]:
    groups = {}
    for g in range(len(world.sizes)):
        tables: dict[str, dict[str, int]] = {"train": {}, "test": {}}
        for label, (hit, miss) in enumerate((("tn", "fp"), ("tp", "fn"))):
            n_train = int(trained[label, g])
            n_test = int(totals(world, label)[g]) - n_train
            right = int(correct[label, g, 0])
            if world.gaps[g]:
                chance = min(1.0, world.gaps[g] / (1 - world.right[g][label]))
                right += int(rng.binomial(n_train - right, chance))
            tables["train"] |= {hit: right, miss: n_train - right}
            held = int(correct[label, g, 1])
            tables["test"] |= {hit: held, miss: n_test - held}
        groups[f"g{g}"] = tables
    split = "only" if world.reseed else f"split {seed}"
    return {"epsilon": budget, "seed": seed, "split": split, "groups": groups}


def panel_of(train: Counts, test: Counts, *, epsilon: float) -> Panel:
    """What an audit sees of counts (split, group): a split for every seed, groups g0, g1, ..."""
    n_splits, n_groups = train.n.shape
    names = tuple(f"g{g}" for g in range(n_groups))
    runs = {
        "seeds": tuple(range(n_splits)),
        "split": np.arange(n_splits),
        "group_names": names,
    }
    rates = {"train_accuracy": accuracy(train), "test_accuracy": accuracy(test)}
    sizes = {"n_train": train.n, "n_test": test.n, "positive_rate": positive_rate(test)}
    counts = {"train": train, "test": test, "exposure": {}, "pooled": {}}
    return Panel(epsilon=epsilon, **runs, **rates, **sizes, **counts)
