"""Splits with a known truth, and releases of one model per split that memorised nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from pcer.release import Release, Training
from pcer.release.records import Confusion, GroupTables, Run, StratifiedBy, Subject

TRAIN_SHARES = (0.5, 0.7, 0.8, 0.9)
N_SPLITS = (1, 2, 3, 5, 10, 20)
ACCURACIES = (0.7, 0.9, 0.97, 0.99)


def draw_world(
    rng: np.random.Generator, *, least: int = 50, most: int = 50_000
) -> np.ndarray:
    """(group, label) records of 2 to 6 groups, 5 to 60 % of them positive."""
    n_groups = int(rng.integers(2, 7))
    people = np.exp(rng.uniform(np.log(least), np.log(most), n_groups)).astype(int)
    positive = np.clip(
        rng.binomial(people, rng.uniform(0.05, 0.6, n_groups)), 1, people - 1
    )
    return np.stack([people - positive, positive], axis=1)


def draw_split(
    total: np.ndarray, n_train: int, strata: StratifiedBy, rng: np.random.Generator
) -> np.ndarray:
    """(group, label) trained on: at random within strata."""
    share = n_train / total.sum()
    if strata == "both":
        return np.rint(share * total).astype(int)
    if strata == "nothing":
        return rng.multivariate_hypergeometric(total.ravel(), n_train).reshape(
            total.shape
        )
    if strata == "label":
        return draw_split(total.T, n_train, "group", rng).T
    sizes = [round(share * row.sum()) for row in total]
    return np.stack([*map(rng.multivariate_hypergeometric, total, sizes)])


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


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Splits: records (split, group, label) of both parts, and what is said of them."""

    train: np.ndarray
    test: np.ndarray
    stratified_by: StratifiedBy | None = None
    effective_units: np.ndarray | None = None
    """(group,) where records are said to be split by person."""
    names: list[str | int | None] | None = None
    accuracy: float = 0.8
    seed: int = 0
    more: dict[str, object] = field(default_factory=dict)
    """Further fields of ``training``."""

    @property
    def is_usable(self) -> bool:
        """Whether every group has records in both parts of every split."""
        return bool(self.train.sum(axis=2).all() and self.test.sum(axis=2).all())

    def release(self) -> Release:
        """As a file would hold it, unchecked, since there are thousands: a random split."""
        rng = np.random.default_rng(self.seed)
        total, trained = (
            part.astype(int) for part in (self.train + self.test, self.train)
        )
        correct = rng.binomial(total, self.accuracy)
        hits = rng.hypergeometric(correct, total - correct, trained)
        parts = {"train": (trained, hits), "test": (total - trained, correct - hits)}
        groups = [f"g{g}" for g in range(total.shape[1])]
        said: dict[str, object] = {
            "split_kind": "random",
            "stratified_by": self.stratified_by,
        }
        if self.effective_units is not None:
            units = dict(zip(groups, self.effective_units.tolist(), strict=True))
            said |= {"unit_of_split": "person", "effective_units": units}

        def tables(s: int, g: int) -> GroupTables:
            of_parts = {
                part: table(n[s, g], right[s, g]) for part, (n, right) in parts.items()
            }
            return GroupTables.model_construct(**of_parts)

        runs = []
        for s, name in enumerate(self.names or range(len(total))):
            by_group = {group: tables(s, g) for g, group in enumerate(groups)}
            runs.append(
                Run.model_construct(epsilon=None, seed=s, split=name, groups=by_group)
            )
        subject = {
            "dataset": "d",
            "attribute": "a",
            "outcome": "benefit",
            "n_missing_group": 0,
        }
        return Release.model_construct(
            subject=Subject.model_construct(groups=groups, **subject),
            training=Training.model_construct(**(said | self.more)),
            runs=runs,
        )


def table(n: np.ndarray, right: np.ndarray) -> Confusion:
    """The confusion table of (label,) records, of which so many are right."""
    (tn, tp), (fp, fn) = right.tolist(), (n - right).tolist()
    return Confusion.model_construct(tp=tp, fp=fp, tn=tn, fn=fn)


def kish(unit_sizes: np.ndarray) -> float:
    """Effective number of units that hold so many records each: (sum m)^2 / sum m^2."""
    return float(unit_sizes.sum() ** 2 / (unit_sizes**2).sum())


def drawn(total: np.ndarray, trained: list[np.ndarray], **fields: object) -> Drawn:
    """One data set, cut as often as one likes."""
    train = np.stack(trained).astype(float)
    return Drawn(train=train, test=total - train, **fields)  # type: ignore[arg-type]


def true_splits(
    rng: np.random.Generator, strata: StratifiedBy, *, declared: bool
) -> Drawn:
    """A random world, split as is said."""
    total = draw_world(rng)
    n_train = round(float(rng.choice(TRAIN_SHARES)) * total.sum())
    trained = [
        draw_split(total, n_train, strata, rng)
        for _ in range(int(rng.choice(N_SPLITS)))
    ]
    accuracy, seed = float(rng.choice(ACCURACIES)), int(rng.integers(2**31))
    said = strata if declared else None
    return drawn(total, trained, stratified_by=said, accuracy=accuracy, seed=seed)


def folds(rng: np.random.Generator, strata: StratifiedBy, *, declared: bool) -> Drawn:
    """One to three cross-validations of 2 to 10 folds."""
    total, n_folds = draw_world(rng), int(rng.choice([2, 3, 5, 10]))
    rounds = [
        draw_folds(total, n_folds, strata, rng) for _ in range(int(rng.integers(1, 4)))
    ]
    trained, seed = [fold for one in rounds for fold in one], int(rng.integers(2**31))
    return drawn(total, trained, stratified_by=strata if declared else None, seed=seed)


def splits_by_person(
    rng: np.random.Generator, *, declared: bool, n_splits: int
) -> Drawn:
    """People of one label with one record or many, split by person."""
    group = np.repeat(
        np.arange(2), np.exp(rng.uniform(np.log(200), np.log(3000), 2)).astype(int)
    )
    label = rng.binomial(1, rng.uniform(0.1, 0.6, 2)[group])
    n_records = rng.geometric(1 / 3, len(group))
    n_train = round(0.7 * len(group))

    def cells_of(people: np.ndarray) -> np.ndarray:
        cells = np.bincount(
            2 * group[people] + label[people], n_records[people], minlength=4
        )
        return cells.reshape(2, 2).astype(int)

    everybody = np.arange(len(group))
    trained = [cells_of(rng.permutation(everybody)[:n_train]) for _ in range(n_splits)]
    made = drawn(cells_of(everybody), trained, seed=int(rng.integers(2**31)))
    if not declared:
        return made
    units = np.array([kish(n_records[group == g].astype(float)) for g in range(2)])
    return replace(made, effective_units=units)


def splits_of_pairs(rng: np.random.Generator, *, n_people: int, n_splits: int) -> Drawn:
    """People with one record of each label, split by person: labels never vary."""
    group = rng.integers(0, 2, n_people)

    def cells_of(people: np.ndarray) -> np.ndarray:
        of_groups = np.bincount(group[people], minlength=2)
        return np.stack([of_groups, of_groups], axis=1)

    n_train = round(0.7 * n_people)
    trained = [cells_of(rng.permutation(n_people)[:n_train]) for _ in range(n_splits)]
    made = drawn(
        cells_of(np.arange(n_people)),
        trained,
        stratified_by="nothing",
        seed=int(rng.integers(2**31)),
    )
    return replace(made, effective_units=np.bincount(group, minlength=2).astype(float))


def repeated_split(
    rng: np.random.Generator, strata: StratifiedBy, *, n_names: int
) -> Drawn:
    """One split under several names, undeclared; groups of 300 to 40,000."""
    total = draw_world(rng, least=300, most=40_000)
    trained = draw_split(total, round(0.7 * total.sum()), strata, rng)
    return drawn(total, [trained] * n_names, seed=int(rng.integers(2**31)))


def drifting_splits(
    rng: np.random.Generator,
    *,
    rate: float,
    drift: float,
    n_splits: int,
    train_share: float = 0.7,
) -> Drawn:
    """Two groups of 10,000; in the second the positive rate of the test part is higher."""
    n_train = round(train_share * 10_000)
    sizes, parts = (n_train, 10_000 - n_train), []
    for n, rates in zip(sizes, ((rate, rate), (rate, rate + drift)), strict=True):
        positive = rng.binomial(n, rates, (n_splits, 2))
        parts.append(np.stack([n - positive, positive], axis=2).astype(float))
    return Drawn(train=parts[0], test=parts[1], seed=int(rng.integers(2**31)))


HONEST: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "random": partial(true_splits, strata="nothing", declared=True),
    "random, nothing said": partial(true_splits, strata="nothing", declared=False),
    "by label": partial(true_splits, strata="label", declared=True),
    "by label, nothing said": partial(true_splits, strata="label", declared=False),
    "by group": partial(true_splits, strata="group", declared=True),
    "by both": partial(true_splits, strata="both", declared=True),
    "folds": partial(folds, strata="nothing", declared=True),
    "folds by label": partial(folds, strata="label", declared=True),
    "by person": partial(splits_by_person, declared=True, n_splits=5),
}
"""Splits that are what they say."""
