"""Releases in which no group is worse off, drawn in every shape that an audit may meet.

People come in kinds, as in ``people``, and every group mixes the kinds in its own way; a
person may have several records, which are kept together. Splits are drawn at random within strata
or as folds. Settings share splits, as budgets do. What is said of a release is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from pcer.metrics import Counts
from pcer.release import Release, parse_release
from pcer.release.format import Outcome, StratifiedBy
from pcer.release.panel import Panel
from tests.worlds.releases import panel_of
from tests.worlds.splits import kish

BUDGETS = (math.inf, 10.0, 5.0, 1.0, 0.5, 0.1)
N_SPLITS = (1, 2, 3, 5, 10, 20, 50)
TRAIN_SHARES = (0.5, 0.7, 0.8, 0.9)


class Kind(NamedTuple):
    """People alike: label, chance to be right out of and in training, records of each."""

    label: int
    right_out: float
    right_in: float
    n_records: int = 1


@dataclass(frozen=True, kw_only=True)
class NullWorld:
    """What to draw from. ``shares`` are (group, kind)."""

    sizes: Sequence[int]
    kinds: Sequence[Kind]
    shares: np.ndarray
    n_splits: int = 1
    n_settings: int = 1
    train_share: float = 0.7
    stratified_by: StratifiedBy = "nothing"
    n_folds: int | None = None
    outcome: Outcome = "benefit"
    are_twins: bool = False
    """Whether every group holds the same people."""


@dataclass(frozen=True, kw_only=True)
class NullRelease:
    """Confusion tables, arrays (setting, split, group), and what is said beside them."""

    train: Counts
    test: Counts
    outcome: Outcome = "benefit"
    stratified_by: StratifiedBy | None = None
    effective_units: np.ndarray | None = None
    """(group,) where records were split by person."""

    @property
    def is_usable(self) -> bool:
        """Whether every group has records in both parts of every split."""
        return bool((self.train.n > 0).all() and (self.test.n > 0).all())

    @property
    def group_names(self) -> tuple[str, ...]:
        """From g0 on."""
        return tuple(f"g{g}" for g in range(self.train.n.shape[-1]))

    @property
    def inflation(self) -> np.ndarray | None:
        """(group,) by how much clumps multiply variances; None where there are none."""
        if self.effective_units is None:
            return None
        return np.maximum(1.0, (self.train.n + self.test.n)[0, 0] / self.effective_units)

    def panels(self) -> tuple[Panel, ...]:
        """As an audit sees it, in the order of its settings."""
        found = []
        for k in reversed(range(len(self.train.n))):
            both = [Counts(*(part[k] for part in one)) for one in (self.train, self.test)]
            found.append(panel_of(*both, epsilon=BUDGETS[k]))
        return tuple(found)

    def release(self, *, data_digest: str | None = None) -> Release:
        """As a file holds it."""
        names, units = self.group_names, self.effective_units
        said: dict[str, object] = {"split_kind": "random", "stratified_by": self.stratified_by}
        if units is not None:
            named = dict(zip(names, units.tolist(), strict=True))
            said |= {"unit_of_split": "person", "effective_units": named}
        runs = []
        for k, split in np.ndindex(self.train.n.shape[:2]):
            groups = {
                name: {
                    part: {cell: int(getattr(one, cell)[k, split, g]) for cell in Counts._fields}
                    for part, one in (("train", self.train), ("test", self.test))
                }
                for g, name in enumerate(names)
            }
            epsilon = None if math.isinf(BUDGETS[k]) else BUDGETS[k]
            runs.append({"epsilon": epsilon, "seed": split, "split": split, "groups": groups})
        subject = {"dataset": "null", "attribute": "group", "groups": [*names]}
        tree = {"format": "pcer-release", "version": 2, "training": said, "runs": runs}
        tree |= {"subject": {**subject, "outcome": self.outcome}}
        return parse_release({**tree, "provenance": {"data_digest": data_digest}}, file="null")


def draw_null(world: NullWorld, rng: np.random.Generator) -> NullRelease:
    """Draw people and splits anew until every group has records in every part."""
    shares = world.shares / world.shares.sum(axis=1, keepdims=True)
    mean = shares @ [kind.n_records for kind in world.kinds]
    persons = np.maximum(2, np.rint(np.array(world.sizes) / mean)).astype(int)
    while True:  # (group, kind) persons, as many as give each group about its number of records
        people = rng.multinomial(persons, shares)
        if world.are_twins:
            people = np.tile(people[0], (len(persons), 1))
        drawn = _classified(world, people, _trained(world, people, rng), rng)
        if drawn.is_usable:
            return drawn


People = list[tuple[float, ...]]
Draw = Callable[[np.random.Generator], NullRelease]


def _trained(world: NullWorld, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(split, group, kind) persons that are trained on, drawn within each stratum."""
    trained = np.zeros((world.n_splits, *people.shape), dtype=int)
    group = np.arange(len(world.sizes))[:, None] * np.ones(len(world.kinds), dtype=int)
    label = np.array([kind.label for kind in world.kinds]) + 0 * group
    parts = {"nothing": 0 * group, "label": label, "group": group, "both": 2 * group + label}
    strata = parts[world.stratified_by]
    for inside in (strata == stratum for stratum in np.unique(strata)):
        cells = people[inside]
        if world.n_folds is None:
            n_train = round(world.train_share * cells.sum())
            trained[:, inside] = rng.multivariate_hypergeometric(cells, n_train, world.n_splits)
            continue
        for split in range(world.n_splits):  # each cross-validation deals everybody out once
            folds_left = world.n_folds - split % world.n_folds
            if folds_left == world.n_folds:
                left = cells
            tested = rng.multivariate_hypergeometric(left, round(left.sum() / folds_left))
            trained[split, inside], left = cells - tested, left - tested
    return trained


def _classified(
    world: NullWorld, people: np.ndarray, trained: np.ndarray, rng: np.random.Generator
) -> NullRelease:
    """What each setting's models say; a person's records are right or wrong together."""
    shape = (world.n_settings, *trained.shape)
    label, right_out, right_in, records = map(np.array, zip(*world.kinds, strict=True))
    tables, units = [], None
    for n, chance in ((trained, right_in), (people - trained, right_out)):
        right = rng.binomial(n, chance, size=shape) * records
        wrong, yes = n * records - right, label == 1
        cells = (right[..., yes], wrong[..., ~yes], right[..., ~yes], wrong[..., yes])
        tables.append(Counts(*(cell.sum(axis=-1).astype(float) for cell in cells)))
    if records.max() > 1:
        units = np.array([kish(np.repeat(records, row).astype(float)) for row in people])
    return NullRelease(
        train=tables[0],
        test=tables[1],
        outcome=world.outcome,
        stratified_by=world.stratified_by,
        effective_units=units,
    )


def memorising(cost: float, accuracy: float, *, spread: float = 1.0) -> People:
    """(share, right out, right in) of people who are remembered alike in every group.

    Accuracy is out of training. A spread of 1: everybody is right, wrong, or wrong until trained
    on; of 0: all are alike.
    """
    certain = [(accuracy, 1, 1), (cost, 0, 1), (1 - accuracy - cost, 0, 0)]
    parts = [(spread * share, *rest) for share, *rest in certain]
    return [row for row in (*parts, (1 - spread, accuracy, accuracy + cost)) if row[0] > 0]


def world_of(
    sizes: Sequence[int],
    base_rates: Sequence[float],
    people: Sequence[tuple[float, ...]],
    **fields: object,
) -> NullWorld:
    """Groups that differ in size and in their share of positive labels, and in nothing else."""
    kinds = [Kind(label, out, into) for label in (0, 1) for _, out, into in people]
    shares = [
        [rate * share for rate in (1 - base, base) for share, _, _ in people] for base in base_rates
    ]
    return NullWorld(sizes=sizes, kinds=kinds, shares=np.array(shares), **fields)  # type: ignore[arg-type]


def _nothing(rng: np.random.Generator, accuracy: float | None = None) -> People:
    right = float(rng.choice([0.6, 0.8, 0.9, 0.97])) if accuracy is None else accuracy
    return memorising(0.0, right, spread=float(rng.choice([0.0, 0.5, 1.0])))


def _something(rng: np.random.Generator) -> People:
    cost = float(rng.choice([0.01, 0.03, 0.1, 0.26]))
    accuracy = min(float(rng.choice([0.7, 0.9])), 1 - cost)
    return memorising(cost, accuracy, spread=float(rng.choice([0.3, 1.0])))


def _strongly(rng: np.random.Generator) -> People:
    return memorising(float(rng.choice([0.1, 0.26])), 0.7, spread=float(rng.choice([0.5, 1.0])))


def _either(rng: np.random.Generator) -> People:
    return _something(rng) if rng.random() < 0.5 else _nothing(rng)


def any_world(
    rng: np.random.Generator,
    *,
    n_groups: tuple[int, int] = (2, 7),
    sizes: tuple[int, int] = (100, 20_000),
    rates: tuple[float, float] | None = None,
    people: Callable[[np.random.Generator], People] = _either,
    **fixed: object,
) -> NullWorld:
    """Groups of any number below the second, any size, and rates between these or one rate."""
    n = int(rng.integers(*n_groups))
    shares = [float(rng.uniform(0.1, 0.6))] * n if rates is None else rng.uniform(*rates, n)
    records = np.rint(np.exp(rng.uniform(*np.log(sizes), n))).astype(int).tolist()
    shape = {
        "n_splits": int(rng.choice(N_SPLITS)),
        "n_settings": int(rng.choice([1, 1, 2, 6])),
        "train_share": float(rng.choice(TRAIN_SHARES)),
        "outcome": str(rng.choice(["benefit", "harm"])),
    }
    return world_of(records, list(shares), people(rng), **{**shape, **fixed})


def drawn_as(**fields: object) -> Draw:
    """Releases of such worlds."""
    return lambda rng: draw_null(any_world(rng, **fields), rng)  # type: ignore[arg-type]


def folds(rng: np.random.Generator) -> NullRelease:
    """One to four cross-validations of 5 folds; something or nothing remembered."""
    n_splits, strata = 5 * int(rng.integers(1, 5)), str(rng.choice(["nothing", "label"]))
    return draw_null(any_world(rng, n_splits=n_splits, n_folds=5, stratified_by=strata), rng)


def constants(rng: np.random.Generator) -> NullRelease:
    """Models that say one thing to all, or to everyone in a group, or are always right."""
    drawn = drawn_as(sizes=(50, 20_000), rates=(0.05, 0.6), people=_nothing)(rng)
    n = len(drawn.group_names)
    kind = str(rng.choice(["positive", "negative", "right", "some groups"]))
    where = rng.random(n) < 0.5 if kind == "some groups" else np.ones(n, dtype=bool)
    say = kind if kind != "some groups" else str(rng.choice(["positive", "negative", "right"]))

    def said(counts: Counts) -> Counts:
        """The same people with a constant answer in some groups."""
        positive, negative, none = counts.tp + counts.fn, counts.fp + counts.tn, 0 * counts.tp
        told = {
            "positive": Counts(tp=positive, fp=negative, tn=none, fn=none),
            "negative": Counts(tp=none, fp=none, tn=negative, fn=positive),
            "right": Counts(tp=positive, fp=none, tn=negative, fn=none),
        }[say]
        return Counts(*(np.where(where, new, old) for new, old in zip(told, counts, strict=True)))

    return replace(drawn, train=said(drawn.train), test=said(drawn.test))


def duplicates(rng: np.random.Generator) -> NullRelease:
    """People with 1 to 10 records each, split by person, which is said."""
    one = any_world(rng, n_groups=(2, 5), sizes=(500, 20_000))
    many, weight = (1, 2, 3, 5, 10), np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    kinds = [kind._replace(n_records=m) for kind in one.kinds for m in many]
    shares = (one.shares[:, :, None] * weight).reshape(len(one.sizes), -1)
    return draw_null(replace(one, kinds=kinds, shares=shares), rng)


unequal_rates = drawn_as(sizes=(300, 20_000), rates=(0.05, 0.7), people=_something)
"""2 to 6 groups of unequal rates that are remembered alike: ratios differ, costs do not."""


def attributes(
    rng: np.random.Generator, *, n_attributes: int = 10, n_groups: int = 4
) -> list[NullRelease]:
    """The same people and models, divided by coin flips in several ways."""
    n, n_splits = int(rng.choice([1_000, 4_000])), int(rng.choice([1, 3, 10]))
    rows = _something(rng) if rng.random() < 0.7 else _nothing(rng)
    share, right_out, right_in = map(np.array, zip(*rows, strict=True))
    kind = rng.choice(len(rows), n, p=share / share.sum())
    label = rng.random(n) < rng.uniform(0.2, 0.6)
    member = np.stack([rng.permutation(n) < 0.7 * n for _ in range(n_splits)])
    right = rng.random((n_splits, n)) < np.where(member, right_in[kind], right_out[kind])
    codes = rng.integers(0, n_groups, (n_attributes, n))
    outcome: Outcome = "benefit" if rng.random() < 0.5 else "harm"
    return [
        NullRelease(
            train=_counted(member, right, label, code, n_groups),
            test=_counted(~member, right, label, code, n_groups),
            outcome=outcome,
            stratified_by="nothing",
        )
        for code in codes
    ]


def _counted(
    inside: np.ndarray, right: np.ndarray, label: np.ndarray, code: np.ndarray, n_groups: int
) -> Counts:
    """(1, split, group) of records that are inside each split's part."""
    cells = []
    for is_right, is_positive in ((True, True), (False, False), (True, False), (False, True)):
        chosen = inside & (right == is_right) & (label == is_positive)
        cells.append(np.stack([np.bincount(code[row], minlength=n_groups) for row in chosen]))
    return Counts(*(cell[None].astype(float) for cell in cells))


MANY = {"n_groups": (2, 21), "sizes": (50, 50_000)}
SIX = {"n_groups": (6, 7), "sizes": (100, 100), "rates": (0.4, 0.4), "train_share": 0.9}
TWINS = {"n_groups": (2, 3), "sizes": (100, 5_000), "people": _strongly, "are_twins": True}

KINDS: dict[str, Draw] = {
    "2-20 groups of 50 to 50,000": drawn_as(**MANY, rates=(0.05, 0.6), people=_nothing),
    "the same, remembered alike": drawn_as(**MANY, people=_something),
    **{
        f"six groups of 100, 90/10, accuracy {accuracy}": drawn_as(
            **SIX, people=partial(_nothing, accuracy=accuracy)
        )
        for accuracy in (0.9, 0.97, 0.99)
    },
    "twins, one split": drawn_as(**TWINS, n_splits=1),
    "twins, 1 to 50 splits": drawn_as(**TWINS),
    **{f"stratified by {by}": drawn_as(stratified_by=by) for by in ("label", "group", "both")},
    "5-fold cross-validation": folds,
    "constants": constants,
    "duplicates by person": duplicates,
}
"""Worlds without any disparity, by name."""
