"""Splits with a known truth, as the claims that a release would make about them.

Only what the checks of declarations read is drawn: how many records of each group and label are
trained on, and how many of those a model that memorised nothing gets right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcer.auditing.claims import Claims, SplitSpread, kish
from pcer.auditing.composition import Composition, StratifiedBy
from pcer.auditing.exact import Strata

TRAIN_SHARES = (0.5, 0.7, 0.8, 0.9)
N_SPLITS = (1, 2, 3, 5, 10, 20)
ACCURACIES = (0.7, 0.9, 0.97, 0.99)


def draw_world(rng: np.random.Generator, *, least: int = 50, most: int = 50_000) -> np.ndarray:
    """(group, label) records of 2 to 6 groups, 5 to 60 % of them positive."""
    n_groups = int(rng.integers(2, 7))
    people = np.exp(rng.uniform(np.log(least), np.log(most), n_groups)).astype(int)
    positive = np.clip(rng.binomial(people, rng.uniform(0.05, 0.6, n_groups)), 1, people - 1)
    return np.stack([people - positive, positive], axis=1)


def draw_split(
    total: np.ndarray, n_train: int, strata: StratifiedBy, rng: np.random.Generator
) -> np.ndarray:
    """(group, label) trained on: at random within strata."""
    share = n_train / total.sum()
    if strata == "both":
        return np.rint(share * total).astype(int)
    if strata == "nothing":
        drawn = rng.multivariate_hypergeometric(total.ravel(), n_train)
        return drawn.reshape(total.shape)
    if strata == "label":
        return draw_split(total.T, n_train, "group", rng).T
    return np.stack(
        [rng.multivariate_hypergeometric(row, round(share * row.sum())) for row in total]
    )


def draw_folds(
    total: np.ndarray, n_folds: int, strata: StratifiedBy, rng: np.random.Generator
) -> list[np.ndarray]:
    """What each fold of one cross-validation trains on."""
    left, trained = total.copy(), []
    for folds_left in range(n_folds, 0, -1):
        n = round(left.sum() / folds_left)
        tested = left if folds_left == 1 else draw_split(left, n, strata, rng)
        trained.append(total - tested)
        left = left - tested
    return trained


def claims_about(
    total: np.ndarray,
    trained: list[np.ndarray],
    rng: np.random.Generator,
    *,
    stratified_by: StratifiedBy | None = None,
    accuracy: float = 0.8,
) -> Claims:
    """What a release of one model per split claims: random, every split under its own name."""
    train = np.stack(trained).astype(float)
    test = total - train
    return Claims(
        random=True,
        stratified_by=stratified_by,
        unit_of_split="record",
        effective_units=None,
        is_complete=True,
        group_names=tuple(f"g{g}" for g in range(len(total))),
        split_names=tuple(range(len(train))),
        runs=Composition(train=train, test=test),
        sizes=Composition(train=train.sum(axis=2)[..., None], test=test.sum(axis=2)[..., None]),
        rates=(),
        spreads=(_spread(train, test, accuracy, rng),),
    )


def true_claims(rng: np.random.Generator, strata: StratifiedBy, *, declared: bool) -> Claims:
    """A random world, split as is said."""
    total = draw_world(rng)
    n_train = round(float(rng.choice(TRAIN_SHARES)) * total.sum())
    trained = [draw_split(total, n_train, strata, rng) for _ in range(int(rng.choice(N_SPLITS)))]
    return claims_about(
        total,
        trained,
        rng,
        stratified_by=strata if declared else None,
        accuracy=float(rng.choice(ACCURACIES)),
    )


def fold_claims(rng: np.random.Generator, strata: StratifiedBy, *, declared: bool) -> Claims:
    """One to three cross-validations of 2 to 10 folds."""
    total, n_folds = draw_world(rng), int(rng.choice([2, 3, 5, 10]))
    sets = [draw_folds(total, n_folds, strata, rng) for _ in range(int(rng.integers(1, 4)))]
    trained = [fold for folds in sets for fold in folds]
    return claims_about(total, trained, rng, stratified_by=strata if declared else None)


def person_claims(rng: np.random.Generator, *, declared: bool, n_splits: int) -> Claims:
    """People of one label with one record or many, split by person."""
    group = np.repeat(np.arange(2), np.exp(rng.uniform(np.log(200), np.log(3000), 2)).astype(int))
    label = rng.binomial(1, rng.uniform(0.1, 0.6, 2)[group])
    n_records = rng.geometric(1 / 3, len(group))
    n_train = round(0.7 * len(group))

    def table(people: np.ndarray) -> np.ndarray:
        cells = np.bincount(2 * group[people] + label[people], n_records[people], minlength=4)
        return cells.reshape(2, 2).astype(int)

    everybody = np.arange(len(group))
    trained = [table(rng.permutation(everybody)[:n_train]) for _ in range(n_splits)]
    claims = claims_about(table(everybody), trained, rng)
    if not declared:
        return claims
    units = np.array([kish(n_records[group == g].astype(float)) for g in range(2)])
    return replace(claims, unit_of_split="person", effective_units=units)


def repeated_claims(rng: np.random.Generator, strata: StratifiedBy, *, n_names: int) -> Claims:
    """One split under several names, undeclared; groups of 300 to 40,000."""
    total = draw_world(rng, least=300, most=40_000)
    trained = draw_split(total, round(0.7 * total.sum()), strata, rng)
    return claims_about(total, [trained] * n_names, rng)


def drifting_claims(
    rng: np.random.Generator, *, rate: float, drift: float, n_splits: int, train_share: float = 0.7
) -> Claims:
    """Two groups of 10,000; in the second the positive rate of the test part is higher."""
    n_train = round(train_share * 10_000)
    sizes, parts = (n_train, 10_000 - n_train), []
    for n, rates in zip(sizes, ((rate, rate), (rate, rate + drift)), strict=True):
        positive = rng.binomial(n, rates, (n_splits, 2))
        parts.append(np.stack([n - positive, positive], axis=2).astype(float))
    train, test = parts
    claims = claims_about(train[0] + test[0], list(train), rng)
    return replace(claims, runs=Composition(train=train, test=test))


def _spread(
    train: np.ndarray, test: np.ndarray, accuracy: float, rng: np.random.Generator
) -> SplitSpread:
    total, trained = ((np.moveaxis(part, 2, 0)).astype(int) for part in (train + test, train))
    correct = rng.binomial(total, accuracy)
    hits = rng.hypergeometric(correct, total - correct, trained)
    parts = (part.astype(float) for part in (total, trained, correct, hits))
    return SplitSpread(setting="no-DP", strata=Strata(*parts))
