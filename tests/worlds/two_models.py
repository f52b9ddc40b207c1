"""Two releases, old and new, with a known truth: drawn record by record.

A record is right anyway, remembered (right when trained on), or wrong. Both models may be about
the same people or not, be trained on the same splits or not, and remember the same people, people
drawn anew, or others. Retraining turns the answer for some records in every split.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pcer.attacks import BudgetScores, attack_models
from pcer.release.format import Release
from tests.worlds.people import count_records
from tests.worlds.releases import runs_of, written

TRAIN_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class TwoModels:
    """What to simulate; per group: people, share remembered by the old and by the new model."""

    people: tuple[int, ...]
    old: tuple[float, ...]
    new: tuple[float, ...]
    right: float = 0.75
    n_splits: int = 20
    remembered: Literal["same", "anew", "others"] = "same"
    agreement: float = 0.8  # records that are not remembered, whose answer both models share
    flips: float = 0.02  # of the records, whose answer a retraining turns
    same_people: bool = True
    same_splits: bool = True
    with_paired_gap: bool = False  # each record compared with itself, one number over all splits


def draw_both(world: TwoModels, rng: np.random.Generator) -> tuple[Release, Release]:
    """The old release and the new one."""
    n = sum(world.people)
    group = np.repeat(np.arange(len(world.people)), world.people)
    label, right, lot = rng.random(n) < 0.4, rng.random(n) < world.right, rng.random(n)
    old = _kinds(world, world.old, group, right, lot)
    splits = _splits(n, world.n_splits, rng)
    before = _release(world, group, label, old, splits, "split", rng)
    if not world.same_people:
        label, right, lot = rng.random(n) < 0.4, rng.random(n) < world.right, rng.random(n)
    else:
        turned = rng.random(n) < 1 - world.agreement
        right = np.where(turned, rng.random(n) < world.right, right)
        if world.remembered != "same":
            lot = rng.random(n) if world.remembered == "anew" else 1 - lot
    new = _kinds(world, world.new, group, right, lot)
    if not (world.same_people and world.same_splits):
        splits = _splits(n, world.n_splits, rng)
    name = "split" if world.same_splits else "other"
    return before, _release(world, group, label, new, splits, name, rng)


def _kinds(world: TwoModels, costs, group, right, lot) -> np.ndarray:
    """0 right anyway, 1 remembered (chance by cost among those wrong otherwise), 2 wrong."""
    remembered = lot < np.array(costs)[group] / (1 - world.right)
    return np.where(right, 0, np.where(remembered, 1, 2))


def _splits(n: int, n_splits: int, rng: np.random.Generator) -> np.ndarray:
    trained = np.zeros((n_splits, n), dtype=bool)
    for row in trained:
        row[rng.permutation(n)[: round(TRAIN_SHARE * n)]] = True
    return trained


def _release(world: TwoModels, group, label, kinds, splits, name: str, rng) -> Release:
    corrects = ((kinds == 0) | ((kinds == 1) & splits)).astype(bool)
    corrects ^= (kinds != 1) & (rng.random(splits.shape) < world.flips)
    n_groups, names = len(world.people), [f"g{g}" for g in range(len(world.people))]
    parts = [count_records(side, corrects, label, group, n_groups) for side in (splits, ~splits)]
    digest = "sha256:same" if world.same_people else f"sha256:{rng.integers(1 << 60)}"
    paired = _paired_gaps(group, label, corrects, splits) if world.with_paired_gap else []
    return written(
        runs_of(*parts, split=f"{name} "),
        names,
        version=3,
        training={"stratified_by": "nothing"},
        pooled_exposure=paired,
        provenance={"data_digest": digest},
    )


def _paired_gaps(group, label, corrects, splits) -> list[dict[str, object]]:
    scores = BudgetScores(
        logits=np.where(corrects == label, 1.0, -1.0),
        labels=label.astype(np.int64),
        member=splits,
        group=group,
        group_names=tuple(f"g{g}" for g in range(int(group.max()) + 1)),
        has_probabilities=False,
    )
    rows = attack_models([scores])[0].rows
    return [row.model_dump(exclude_none=True) | {"epsilon": None} for row in rows]
