"""Kinds of releases in which groups differ by chance only: what audits may meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from tests.worlds.people import (
    NullRelease,
    NullWorld,
    People,
    count_records,
    draw_null,
    memorising,
    world_of,
)

from pcer.metrics import Counts
from pcer.release.records import Outcome

N_SPLITS = (1, 2, 3, 5, 10, 20, 50)
TRAIN_SHARES = (0.5, 0.7, 0.8, 0.9)

Draw = Callable[[np.random.Generator], NullRelease]


def _nothing(rng: np.random.Generator, accuracy: float | None = None) -> People:
    right = float(rng.choice([0.6, 0.8, 0.9, 0.97])) if accuracy is None else accuracy
    return memorising(0.0, right, spread=float(rng.choice([0.0, 0.5, 1.0])))


def _something(rng: np.random.Generator) -> People:
    exposure = float(rng.choice([0.01, 0.03, 0.1, 0.26]))
    accuracy = min(float(rng.choice([0.7, 0.9])), 1 - exposure)
    return memorising(exposure, accuracy, spread=float(rng.choice([0.3, 1.0])))


def _strongly(rng: np.random.Generator) -> People:
    return memorising(
        float(rng.choice([0.1, 0.26])), 0.7, spread=float(rng.choice([0.5, 1.0]))
    )


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
    """Fewer groups than the second number, of any size; rates between these, or one."""
    n = int(rng.integers(*n_groups))
    shares = (
        [float(rng.uniform(0.1, 0.6))] * n if rates is None else rng.uniform(*rates, n)
    )
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
    n_splits = 5 * int(rng.integers(1, 5))
    strata = str(rng.choice(["nothing", "label"]))
    return draw_null(
        any_world(rng, n_splits=n_splits, n_folds=5, stratified_by=strata), rng
    )


def constants(rng: np.random.Generator) -> NullRelease:
    """Models that say one thing to all, or to all of a group, or are always right."""
    drawn = drawn_as(sizes=(50, 20_000), rates=(0.05, 0.6), people=_nothing)(rng)
    n = len(drawn.group_names)
    kind = str(rng.choice(["positive", "negative", "right", "some groups"]))
    where = rng.random(n) < 0.5 if kind == "some groups" else np.ones(n, dtype=bool)
    say = (
        kind
        if kind != "some groups"
        else str(rng.choice(["positive", "negative", "right"]))
    )

    def said(counts: Counts) -> Counts:
        """The same people with a constant answer in some groups."""
        positive = counts.tp + counts.fn
        negative = counts.fp + counts.tn
        none = 0 * counts.tp
        told = {
            "positive": Counts(tp=positive, fp=negative, tn=none, fn=none),
            "negative": Counts(tp=none, fp=none, tn=negative, fn=positive),
            "right": Counts(tp=positive, fp=none, tn=negative, fn=none),
        }[say]
        return Counts(
            *(np.where(where, new, old) for new, old in zip(told, counts, strict=True))
        )

    return replace(drawn, train=said(drawn.train), test=said(drawn.test))


def duplicates(rng: np.random.Generator) -> NullRelease:
    """People with 1 to 10 records each, split by person, which is said."""
    one = any_world(rng, n_groups=(2, 5), sizes=(500, 20_000))
    many = (1, 2, 3, 5, 10)
    weight = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    kinds = [kind._replace(n_records=m) for kind, m in product(one.kinds, many)]
    shares = (one.shares[:, :, None] * weight).reshape(len(one.sizes), -1)
    return draw_null(replace(one, kinds=kinds, shares=shares), rng)


unequal_rates = drawn_as(sizes=(300, 20_000), rates=(0.05, 0.7), people=_something)
"""2 to 6 groups of unequal rates, remembered alike: ratios differ, costs do not."""


def attributes(
    rng: np.random.Generator, *, n_attributes: int = 10, n_groups: int = 4
) -> list[NullRelease]:
    """The same people and models, divided at random in several ways."""
    n = int(rng.choice([1_000, 4_000]))
    n_splits = int(rng.choice([1, 3, 10]))
    rows = _something(rng) if rng.random() < 0.7 else _nothing(rng)
    share, right_out, right_in = map(np.array, zip(*rows, strict=True))
    kind = rng.choice(len(rows), n, p=share / share.sum())
    label = rng.random(n) < rng.uniform(0.2, 0.6)
    member = np.stack([rng.permutation(n) < 0.7 * n for _ in range(n_splits)])
    right = rng.random((n_splits, n)) < np.where(
        member, right_in[kind], right_out[kind]
    )
    codes = rng.integers(0, n_groups, (n_attributes, n))
    outcome: Outcome = "benefit" if rng.random() < 0.5 else "harm"
    return [
        NullRelease(
            train=count_records(member, right, label, code, n_groups),
            test=count_records(~member, right, label, code, n_groups),
            outcome=outcome,
            stratified_by="nothing",
        )
        for code in codes
    ]


MANY = {"n_groups": (2, 21), "sizes": (50, 50_000)}
SIX = {"n_groups": (6, 7), "sizes": (100, 100), "rates": (0.4, 0.4), "train_share": 0.9}
TWINS = {
    "n_groups": (2, 3),
    "sizes": (100, 5_000),
    "people": _strongly,
    "are_twins": True,
}

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
    **{
        f"stratified by {by}": drawn_as(stratified_by=by)
        for by in ("label", "group", "both")
    },
    "5-fold cross-validation": folds,
    "constants": constants,
    "duplicates by person": duplicates,
}
"""Worlds without any disparity, by name."""
