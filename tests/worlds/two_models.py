"""Two releases, old and new, with a known truth: drawn record by record.

A record is right anyway, remembered (right when trained on), or wrong. Both models may
be about the same people or not, be trained on the same splits or not, and remember the
same people, people drawn anew, or others. Retraining turns the answer for some records
in every split.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from pcer.attacks import SettingScores, attack_models, log_odds
from pcer.release.file import Release
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
    agreement: float = (
        0.8  # records that are not remembered, whose answer both models share
    )
    flips: float = 0.02  # of the records, whose answer a retraining turns
    same_people: bool = True
    same_splits: bool = True
    attack: str | None = (
        None  # carried besides counts: paired_gap, lira_advantage, rmia_advantage
    )


def draw_both(world: TwoModels, rng: np.random.Generator) -> tuple[Release, Release]:
    """The old release and the new one."""
    n = sum(world.people)
    group = np.repeat(np.arange(len(world.people)), world.people)
    label, right, lot = rng.random(n) < 0.4, rng.random(n) < world.right, rng.random(n)
    old = _kinds(world, world.old, group, right, lot)
    splits = _splits(n, world.n_splits, rng)
    before = _release(world, group, label, old, splits, "split", rng)
    if not world.same_people:
        label, right, lot = (
            rng.random(n) < 0.4,
            rng.random(n) < world.right,
            rng.random(n),
        )
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


def _kinds(world: TwoModels, exposures, group, right, lot) -> np.ndarray:
    """0 right anyway, 1 remembered (chance by cost among those wrong otherwise), 2 wrong."""
    remembered = lot < np.array(exposures)[group] / (1 - world.right)
    return np.where(right, 0, np.where(remembered, 1, 2))


def _splits(n: int, n_splits: int, rng: np.random.Generator) -> np.ndarray:
    trained = np.zeros((n_splits, n), dtype=bool)
    for row in trained:
        row[rng.permutation(n)[: round(TRAIN_SHARE * n)]] = True
    return trained


def _release(world: TwoModels, group, label, kinds, splits, name: str, rng) -> Release:
    corrects = ((kinds == 0) | ((kinds == 1) & splits)).astype(bool)
    corrects ^= (kinds != 1) & (rng.random(splits.shape) < world.flips)
    scores = np.where(corrects, 1.0, -1.0)
    if world.attack not in (
        None,
        "paired_gap",
    ):  # how sure the model is of the true label
        scores = rng.normal(size=len(label)) + rng.normal(size=splits.shape)
        scores += 3.0 * ((kinds == 1) & splits)
    digest = "sha256:same" if world.same_people else f"sha256:{rng.integers(1 << 60)}"
    return released(
        Sweep(scores, corrects, splits, label, group),
        world.attack,
        name=name,
        digest=digest,
    )


class Sweep(NamedTuple):
    """One model of every split: scores of the true label and whether right, (split, record)."""

    scores: np.ndarray
    corrects: np.ndarray
    splits: np.ndarray
    label: np.ndarray
    group: np.ndarray


def released(
    sweep: Sweep,
    attack: str | None,
    *,
    name: str,
    digest: str,
    by_run: bool = True,
    **more,
) -> Release:
    """Counts, and one attack over all models and in each; ``more`` says what scores are."""
    n_groups, label = int(sweep.group.max()) + 1, sweep.label
    names = [f"g{g}" for g in range(n_groups)]
    parts = [
        count_records(side, sweep.corrects, label.astype(bool), sweep.group, n_groups)
        for side in (sweep.splits, ~sweep.splits)
    ]
    runs, rows = runs_of(*parts, split=f"{name} "), []
    if attack is not None:
        scores = SettingScores(
            logits=np.where(label == 1, sweep.scores, -sweep.scores),
            labels=label.astype(np.int64),
            member=sweep.splits,
            group=sweep.group,
            group_names=tuple(names),
            predicted=sweep.corrects == (label == 1),
            has_probabilities=attack != "paired_gap",
            **more,
        )
        (found,) = attack_models([scores])
        rows = [
            row.model_dump(exclude_none=True)
            for row in found.rows
            if row.attack == attack
        ]
        for run, own in zip(runs, found.runs if by_run else (), strict=by_run):
            for g, by_attack in own.items():
                kept = [
                    (k, x.model_dump(exclude_none=True)) for k, x in by_attack.items()
                ]
                run["groups"][g]["exposure"] = {k: x for k, x in kept if k == attack}
    return written(
        runs,
        names,
        training={"stratified_by": "nothing"},
        pooled_exposure=[row | {"epsilon": None} for row in rows],
        provenance={"data_digest": digest},
    )


def draw_fleets(
    model,
    rng: np.random.Generator,
    *,
    attack: str,
    apart=False,
    new=None,
    by_run=True,
    n=600,
) -> tuple[Release, Release]:
    """Real models on the same 16 splits, old and new; of one kind, unless there is a ``new`` one.

    All columns are alike, so neither of one kind is worse in truth. With ``apart`` the
    new models see other columns of the same people and memorise other people; else only
    seeds differ.
    """
    label, group = rng.integers(0, 2, n), np.arange(n) % 2
    columns = rng.normal(size=(n, 8)) + 0.5 * (2 * label - 1)[:, None]
    label = np.where(rng.random(n) < 0.15, 1 - label, label)
    splits = _splits(n, 16, rng)
    releases = []
    for kind, own in (
        (model, columns[:, :4]),
        (model if new is None else new, columns[:, 4 * apart :][:, :4]),
    ):
        probability = np.empty(splits.shape)
        for s, inside in enumerate(splits):
            fresh = clone(kind).set_params(random_state=int(rng.integers(1 << 30)))
            fitted = fresh.fit(own[inside], label[inside])
            probability[s] = fitted.predict_proba(own)[:, 1]
        sure, corrects = log_odds(probability), (probability >= 0.5) == (label == 1)
        sweep = Sweep(np.where(label == 1, sure, -sure), corrects, splits, label, group)
        how = {"name": "split", "digest": "sha256:same", "from_probabilities": True}
        releases.append(released(sweep, attack, **how, by_run=by_run))
    return releases[0], releases[1]
