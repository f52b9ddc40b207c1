"""Releases in which no group is worse off, drawn in every shape that an audit may meet.

People come in kinds, as in ``people``, and every group mixes the kinds in its own way; a
person may have several records, which are kept together. Splits are drawn at random within strata
or as folds. Settings share splits, as budgets do. What is said of a release is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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

    @property
    def is_by_person(self) -> bool:
        """Whether someone has several records."""
        return any(kind.n_records > 1 for kind in self.kinds)


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
        parts = [
            [Counts(*(part[k] for part in one)) for one in (self.train, self.test)]
            for k in range(len(self.train.n))
        ]
        return tuple(
            panel_of(*both, epsilon=epsilon)
            for both, epsilon in reversed([*zip(parts, BUDGETS, strict=False)])
        )

    def release(self, *, data_digest: str | None = None) -> Release:
        """As a file holds it."""
        names, units = self.group_names, self.effective_units
        said: dict[str, object] = {"split_kind": "random", "stratified_by": self.stratified_by}
        if units is not None:
            named = dict(zip(names, units.tolist(), strict=True))
            said |= {"unit_of_split": "person", "effective_units": named}
        subject = {"dataset": "null", "attribute": "group", "groups": names}
        return parse_release(
            {
                "format": "pcer-release",
                "version": 2,
                "subject": {**subject, "groups": list(names), "outcome": self.outcome},
                "training": said,
                "runs": list(self._runs()),
                "provenance": {"data_digest": data_digest},
            },
            file="null",
        )

    def _runs(self) -> Iterator[dict[str, object]]:
        for k, split in np.ndindex(self.train.n.shape[:2]):
            groups = {
                name: {
                    part: {cell: int(getattr(one, cell)[k, split, g]) for cell in Counts._fields}
                    for part, one in (("train", self.train), ("test", self.test))
                }
                for g, name in enumerate(self.group_names)
            }
            epsilon = None if math.isinf(BUDGETS[k]) else BUDGETS[k]
            yield {"epsilon": epsilon, "seed": split, "split": split, "groups": groups}


def draw_null(world: NullWorld, rng: np.random.Generator) -> NullRelease:
    """Draw people and splits anew until every group has records in every part."""
    while True:
        people = _people(world, rng)
        drawn = _classified(world, people, _trained(world, people, rng), rng)
        if drawn.is_usable:
            return drawn


def _people(world: NullWorld, rng: np.random.Generator) -> np.ndarray:
    """(group, kind) persons, as many as give each group about its number of records."""
    shares = world.shares / world.shares.sum(axis=1, keepdims=True)
    mean = shares @ [kind.n_records for kind in world.kinds]
    persons = np.maximum(2, np.rint(np.array(world.sizes) / mean)).astype(int)
    if world.are_twins:
        return np.tile(rng.multinomial(persons[0], shares[0]), (len(persons), 1))
    return rng.multinomial(persons, shares)


def _strata(world: NullWorld) -> np.ndarray:
    """(group, kind) number of the stratum that a person is split in."""
    group = np.arange(len(world.sizes))[:, None] * np.ones(len(world.kinds), dtype=int)
    label = np.array([kind.label for kind in world.kinds]) + 0 * group
    parts = {"nothing": 0 * group, "label": label, "group": group, "both": 2 * group + label}
    return parts[world.stratified_by]


def _trained(world: NullWorld, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(split, group, kind) persons that are trained on."""
    trained = np.zeros((world.n_splits, *people.shape), dtype=int)
    strata = _strata(world)
    for stratum in np.unique(strata):
        inside = strata == stratum
        trained[:, inside] = _split(world, people[inside], rng)
    return trained


def _split(world: NullWorld, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(split, cell) trained on, of one stratum's cells."""
    if world.n_folds is None:
        n_train = round(world.train_share * people.sum())
        return rng.multivariate_hypergeometric(people, n_train, size=world.n_splits)
    rounds = [_folds(people, world.n_folds, rng) for _ in range(world.n_splits // world.n_folds)]
    return people - np.concatenate(rounds)


def _folds(people: np.ndarray, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """(fold, cell) tested on, of one cross-validation."""
    left, tested = people, []
    for folds_left in range(n_folds, 0, -1):
        tested.append(rng.multivariate_hypergeometric(left, round(left.sum() / folds_left)))
        left = left - tested[-1]
    return np.stack(tested)


def _classified(
    world: NullWorld, people: np.ndarray, trained: np.ndarray, rng: np.random.Generator
) -> NullRelease:
    """What each setting's models say; a person's records are right or wrong together."""
    shape = (world.n_settings, *trained.shape)
    label, right_out, right_in, records = map(np.array, zip(*world.kinds, strict=True))
    parts = (trained, right_in), (people - trained, right_out)
    train, test = (
        _table(n * records, rng.binomial(n, right, size=shape) * records, label == 1)
        for n, right in parts
    )
    units = None
    if world.is_by_person:
        units = np.array([kish(np.repeat(records, row).astype(float)) for row in people])
    return NullRelease(
        train=train,
        test=test,
        outcome=world.outcome,
        stratified_by=world.stratified_by,
        effective_units=units,
    )


def _table(n: np.ndarray, right: np.ndarray, positive: np.ndarray) -> Counts:
    wrong = n - right
    cells = (right[..., positive], wrong[..., ~positive], right[..., ~positive])
    return Counts(*(one.sum(axis=-1).astype(float) for one in (*cells, wrong[..., positive])))


def memorising(cost: float, accuracy: float, *, spread: float = 1.0) -> list[tuple[float, ...]]:
    """(share, right out, right in) of people who are remembered alike in every group.

    Args:
        cost: what is remembered, in all.
        accuracy: out of training.
        spread: 1: everybody is right, wrong, or wrong until trained on; 0: all are alike.
    """
    certain = [(accuracy, 1, 1), (cost, 0, 1), (1 - accuracy - cost, 0, 0)]
    alike = [(1.0, accuracy, accuracy + cost)]
    parts = [(spread * share, *rest) for share, *rest in certain]
    return [row for row in parts + [((1 - spread) * s, *r) for s, *r in alike] if row[0] > 0]


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


def _shape(rng: np.random.Generator) -> dict[str, object]:
    """Splits, settings and outcome of any release."""
    return {
        "n_splits": int(rng.choice(N_SPLITS)),
        "n_settings": int(rng.choice([1, 1, 2, 6])),
        "train_share": float(rng.choice(TRAIN_SHARES)),
        "outcome": str(rng.choice(["benefit", "harm"])),
    }


def _sizes(rng: np.random.Generator, low: int, high: int, n_groups: int) -> list[int]:
    return np.exp(rng.uniform(np.log(low), np.log(high), n_groups)).astype(int).tolist()


def _nothing(rng: np.random.Generator, accuracy: float | None = None) -> list[tuple[float, ...]]:
    right = float(rng.choice([0.6, 0.8, 0.9, 0.97])) if accuracy is None else accuracy
    return memorising(0.0, right, spread=float(rng.choice([0.0, 0.5, 1.0])))


def _something(rng: np.random.Generator) -> list[tuple[float, ...]]:
    cost = float(rng.choice([0.01, 0.03, 0.1, 0.26]))
    accuracy = min(float(rng.choice([0.7, 0.9])), 1 - cost)
    return memorising(cost, accuracy, spread=float(rng.choice([0.3, 1.0])))


def many_groups(rng: np.random.Generator) -> NullRelease:
    """2 to 20 groups of 50 to 50,000, rates unequal, nothing remembered."""
    n = int(rng.integers(2, 21))
    rates = rng.uniform(0.05, 0.6, n).tolist()
    return draw_null(world_of(_sizes(rng, 50, 50_000, n), rates, _nothing(rng), **_shape(rng)), rng)


def remembered_alike(rng: np.random.Generator) -> NullRelease:
    """2 to 20 groups of 50 to 50,000 from one population, which is remembered."""
    n, rate = int(rng.integers(2, 21)), float(rng.uniform(0.1, 0.6))
    sizes = _sizes(rng, 50, 50_000, n)
    return draw_null(world_of(sizes, [rate] * n, _something(rng), **_shape(rng)), rng)


def six_hundreds(rng: np.random.Generator, *, accuracy: float) -> NullRelease:
    """Six groups of 100, split 90/10."""
    shape = _shape(rng) | {"train_share": 0.9}
    return draw_null(world_of([100] * 6, [0.4] * 6, _nothing(rng, accuracy), **shape), rng)


def twins(rng: np.random.Generator, *, n_splits: int | None = None) -> NullRelease:
    """Two groups of the same people, strongly remembered."""
    n, rate = int(rng.choice([100, 300, 1_000, 5_000])), float(rng.uniform(0.2, 0.6))
    people = memorising(float(rng.choice([0.1, 0.26])), 0.7, spread=float(rng.choice([0.5, 1.0])))
    shape = _shape(rng) | ({} if n_splits is None else {"n_splits": n_splits})
    world = world_of([n, n], [rate] * 2, people, are_twins=True, **shape)
    return draw_null(world, rng)


def stratified(rng: np.random.Generator, *, strata: StratifiedBy) -> NullRelease:
    """2 to 6 groups, split within strata; something or nothing remembered."""
    n, rate = int(rng.integers(2, 7)), float(rng.uniform(0.1, 0.6))
    people = _something(rng) if rng.random() < 0.5 else _nothing(rng)
    sizes = _sizes(rng, 100, 20_000, n)
    return draw_null(world_of(sizes, [rate] * n, people, stratified_by=strata, **_shape(rng)), rng)


def folds(rng: np.random.Generator) -> NullRelease:
    """One to four cross-validations of 5 folds; something or nothing remembered."""
    n, rate = int(rng.integers(2, 7)), float(rng.uniform(0.1, 0.6))
    people = _something(rng) if rng.random() < 0.5 else _nothing(rng)
    strata = str(rng.choice(["nothing", "label"]))
    shape = _shape(rng) | {"n_splits": 5 * int(rng.integers(1, 5)), "n_folds": 5}
    sizes = _sizes(rng, 100, 20_000, n)
    return draw_null(world_of(sizes, [rate] * n, people, stratified_by=strata, **shape), rng)


def constants(rng: np.random.Generator) -> NullRelease:
    """Models that say one thing to all, or to everyone in a group, or are always right."""
    n = int(rng.integers(2, 7))
    drawn = draw_null(
        world_of(
            _sizes(rng, 50, 20_000, n), rng.uniform(0.05, 0.6, n), _nothing(rng), **_shape(rng)
        ),
        rng,
    )
    kind = str(rng.choice(["positive", "negative", "right", "some groups"]))
    where = rng.random(n) < 0.5 if kind == "some groups" else np.ones(n, dtype=bool)
    say = kind if kind != "some groups" else str(rng.choice(["positive", "negative", "right"]))
    train, test = (_said(one, say, where) for one in (drawn.train, drawn.test))
    return replace(drawn, train=train, test=test)


def _said(counts: Counts, say: str, where: np.ndarray) -> Counts:
    """The same people with a constant answer in some groups."""
    positive, negative, none = counts.tp + counts.fn, counts.fp + counts.tn, 0 * counts.tp
    told = {
        "positive": Counts(tp=positive, fp=negative, tn=none, fn=none),
        "negative": Counts(tp=none, fp=none, tn=negative, fn=positive),
        "right": Counts(tp=positive, fp=none, tn=negative, fn=none),
    }[say]
    return Counts(*(np.where(where, new, old) for new, old in zip(told, counts, strict=True)))


def duplicates(rng: np.random.Generator) -> NullRelease:
    """People with 1 to 10 records each, split by person, which is said."""
    n, rate = int(rng.integers(2, 5)), float(rng.uniform(0.1, 0.6))
    people = _something(rng) if rng.random() < 0.5 else _nothing(rng)
    one = world_of(_sizes(rng, 500, 20_000, n), [rate] * n, people, **_shape(rng))
    many, weight = (1, 2, 3, 5, 10), np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    kinds = [kind._replace(n_records=m) for kind in one.kinds for m in many]
    shares = (one.shares[:, :, None] * weight).reshape(n, -1)
    return draw_null(replace(one, kinds=kinds, shares=shares), rng)


def unequal_rates(rng: np.random.Generator) -> NullRelease:
    """2 to 6 groups of unequal rates that are remembered alike: ratios differ, costs do not."""
    n = int(rng.integers(2, 7))
    rates = rng.uniform(0.05, 0.7, n).tolist()
    return draw_null(
        world_of(_sizes(rng, 300, 20_000, n), rates, _something(rng), **_shape(rng)), rng
    )


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

    def cell(is_right: bool, is_positive: bool) -> np.ndarray:
        chosen = inside & (right == is_right) & (label == is_positive)
        rows = [np.bincount(code[row], minlength=n_groups) for row in chosen]
        return np.stack(rows)[None].astype(float)

    return Counts(
        tp=cell(True, True), fp=cell(False, False), tn=cell(True, False), fn=cell(False, True)
    )


Draw = Callable[[np.random.Generator], NullRelease]

KINDS: dict[str, Draw] = {
    "2-20 groups of 50 to 50,000": many_groups,
    "the same, remembered alike": remembered_alike,
    **{
        f"six groups of 100, 90/10, accuracy {accuracy}": partial(six_hundreds, accuracy=accuracy)
        for accuracy in (0.9, 0.97, 0.99)
    },
    "twins, one split": partial(twins, n_splits=1),
    "twins, 1 to 50 splits": twins,
    **{
        f"stratified by {strata}": partial(stratified, strata=strata)
        for strata in ("label", "group", "both")
    },
    "5-fold cross-validation": folds,
    "constants": constants,
    "duplicates by person": duplicates,
}
"""Worlds without any disparity, by name."""
