"""Do intervals, limits and tests keep their word? Known populations, and false splits.

    python -m benchmarks.coverage counts [releases] [seed]
    python -m benchmarks.coverage people     all worlds, 2, 5 and 20 models, 300 draws
    python -m benchmarks.coverage people trees --models 8 --draws 1000 \
        --records 2000 --jobs 2
    python -m benchmarks.coverage sweeps compas:50 --rotations 24 --jobs 2
    python -m benchmarks.coverage sweeps acs.scores --records acs.npz --fresh 8 \
        --jobs 16

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from itertools import product, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.worlds.people import (
    NullRelease,
    Population,
    Tables,
    certain,
    certain_positives,
    draw_people,
    draw_tables,
    measured,
    soft,
)
from tests.worlds.sweeps import splits

from benchmarks import parser_of, run_verb, with_numbers, write_results
from benchmarks.lira import (
    FOLDER,
    Arrays,
    attributes,
    budget_scores,
    epsilon_name,
    false_draws,
    name_of,
    read,
    splits_of,
)
from pcer import Plan, audit
from pcer.attacks import SettingScores, attack_models, log_odds
from pcer.measuring import variances
from pcer.measuring.exact import (
    PLAIN_MEAN,
    Strata,
    dispersion,
    memorised,
    strata_of_counts,
)
from pcer.measuring.exposure import MUTUAL
from pcer.measuring.group_differences import PairTests, compare_pairs
from pcer.measuring.variances import bonferroni_z
from pcer.metrics import Counts
from pcer.statistics import holm, interval_quantile

SPLITS = (1, 2, 5, 20)
SIZES = (11, 20, 31, 100, 300, 1_000, 10_000)
EXPOSURES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.26)
KINDS: dict[str, Callable[[float], Population]] = {
    "accuracy .7": certain,
    "accuracy .9": lambda exposure: certain(exposure, accuracy=min(0.9, 1 - exposure)),
    "accuracy .97": lambda exposure: certain(
        exposure, accuracy=min(0.97, 1 - exposure)
    ),
    "accuracy .99": lambda exposure: certain(
        exposure, accuracy=min(0.99, 1 - exposure)
    ),
    "positives only": certain_positives,
    "soft": lambda exposure: soft(min(exposure, 0.2)),
}
PLACEBOS = {
    "all or nothing, .26": certain(0.26),
    "all or nothing, .1": certain(0.1),
    "positives only, .25": certain_positives(0.25),
    "positives only, .1, accuracy .9": certain_positives(0.1, accuracy=0.9),
    "soft, .2": soft(0.2),
    "everybody right once trained on, .05": certain(0.05, accuracy=0.95),
}
GROUPS = ((1_000, 1_000), (1_600, 400), (10_000, 10_000))

INTERVAL = interval_quantile(0.95)
DOZEN = 12
TINY = 1e-12
Results = dict[str, object]


class Shares(NamedTuple):
    """How often intervals and limits hold the truth, of a cost and of a difference."""

    interval: float
    limit: float
    together: float
    """That all of a dozen such limits hold, each being as wide as that needs."""
    difference: float
    difference_limit: float


class Cell(NamedTuple):
    """One population of two groups, and what held there."""

    kind: str
    exposure: float
    other: float
    people: int
    splits: int
    shares: Shares
    plain_interval: float


@contextmanager
def nobody_added() -> Iterator[None]:
    """The errors by their plain formulas."""
    before = variances.ADDED
    variances.ADDED = 0.0
    try:
        yield
    finally:
        variances.ADDED = before


def draw_placebo_groups(
    population: Population, sizes: Sequence[int], n_releases, rng
) -> np.ndarray:
    """(release, group, kind): people are the same, groups alone are drawn."""
    share = np.array(population.share)
    people = rng.multinomial(sum(sizes), share / share.sum())
    first = rng.multivariate_hypergeometric(people, sizes[0], size=n_releases)
    return np.stack([first, people - first], axis=1)


def compared(tables: Tables, second: int = 1) -> PairTests:
    """The audit's tests of the first group against another, in every release."""
    n_releases, _, n_groups = tables.train.n.shape
    pairs = tuple((n_groups * r, n_groups * r + second) for r in range(n_releases))
    return compare_pairs(measured(tables), pairs)


def releases_as_groups(tables: Tables, group: int = 0) -> Strata:
    train = Counts(*(count[..., group].T for count in tables.train))
    test = Counts(*(count[..., group].T for count in tables.test))
    return strata_of_counts(train, test)


def usable(tables: Tables) -> Tables:
    """Only releases that have records of every group in every part."""
    full = ((tables.train.n > 0) & (tables.test.n > 0)).all(axis=(1, 2))
    train = Counts(*(count[full] for count in tables.train))
    test = Counts(*(count[full] for count in tables.test))
    return Tables(train, test)


def joined(first: Tables, second: Tables) -> Tables:
    """Groups of two populations side by side."""
    train = _joined_counts(first.train, second.train)
    return Tables(train, _joined_counts(first.test, second.test))


def _joined_counts(first: Counts, second: Counts) -> Counts:
    both = zip(first, second, strict=True)
    return Counts(*(np.concatenate(counts, axis=2) for counts in both))


def covered(tables: Tables, truth: Sequence[float]) -> Shares:
    """Shares of intervals and limits that hold the truth."""
    one = measured(tables)
    n = len(tables.train.n)
    assert one.exposed is not None
    pairs = tuple((2 * r, 2 * r + 1) for r in range(n))
    value = one.exposed.value
    error = np.sqrt(one.exposed.variance)
    exposure = compare_pairs(one, pairs).exposure
    exposures = np.tile(truth, n)
    difference = truth[1] - truth[0]
    fails = [
        _share(one.upper_limit(level=0.95, n_limits=m) < exposures - TINY)
        for m in (1, DOZEN)
    ]
    at_most = np.abs(exposure.value) + bonferroni_z() * exposure.error
    return Shares(
        interval=_share(np.abs(value - exposures) <= INTERVAL * error + TINY),
        limit=1 - fails[0],
        together=(1 - fails[1]) ** DOZEN,
        difference=_share(
            np.abs(exposure.value - difference) <= INTERVAL * exposure.error + TINY
        ),
        difference_limit=_share(at_most >= abs(difference) - TINY),
    )


def _share(holds: np.ndarray) -> float:
    return float(holds.mean())


def cell_coverage(n: int, rng: np.random.Generator) -> Results:
    """Two groups of one size; in half of the cells the second is exposed otherwise."""
    cells: list[Cell] = []
    for (kind, make), k, size, n_splits in product(
        KINDS.items(), range(len(EXPOSURES)), SIZES, SPLITS
    ):
        other = EXPOSURES[k // 2 if k % 2 else k]
        populations = make(EXPOSURES[k]), make(other)
        tables = joined(
            *(
                draw_tables(
                    one, draw_people(one, [size], n, rng), n_splits=n_splits, rng=rng
                )
                for one in populations
            )
        )
        tables = usable(tables)
        truth = [one.exposure for one in populations]
        with nobody_added():
            plain = covered(tables, truth).interval
        cells.append(
            Cell(
                kind, truth[0], truth[1], size, n_splits, covered(tables, truth), plain
            )
        )
    print(
        f"\ncoverage of 95 % intervals, {n} releases a cell; lowest (mean) over "
        "exposures and models"
    )
    print(f"{'people':>8}" + "".join(f"{f'{s} splits':>18}" for s in SPLITS))
    for size in SIZES:
        row = [
            [c.shares.interval for c in cells if c[3:5] == (size, s)] for s in SPLITS
        ]
        shown = [f"{min(shares):.1%} ({np.mean(shares):.1%})" for shares in row]
        print(f"{size:>8}" + "".join(f"{text:>18}" for text in shown))
    for least, name in product((300, 0), Shares._fields):
        told = [c for c in cells if c.people >= least]
        _summarise(f"{name}, {least or 11} people or more", told, name)
    _summarise("interval, nobody added", cells, None)
    return {
        "coverage": [
            cell._asdict() | {"shares": cell.shares._asdict()} for cell in cells
        ]
    }


def _summarise(title: str, cells: Sequence[Cell], name: str | None) -> None:
    values = np.array(
        [c.plain_interval if name is None else getattr(c.shares, name) for c in cells]
    )
    worst = cells[int(values.argmin())]
    print(
        f"{title:<40} lowest {values.min():.1%} ({worst.kind}, exposures "
        f"{worst.exposure:g} and {worst.other:g}, {worst.people} people, "
        f"{worst.splits} splits), mean "
        f"{values.mean():.1%}, below 93 %: {(values < 0.93).sum()} of {len(values)}"
    )


def printed(n: int, rng: np.random.Generator) -> Results:
    """The same as an audit file prints it, and whether all limits hold together."""
    n_groups = 8
    n_audits = max(1, n // 40)
    print(
        f"\nas audits print it: {n_audits} audits of {n_groups} groups each; limits "
        "together"
    )
    rows = {}
    for name, size, n_splits in product(
        ("accuracy .7", "accuracy .97", "soft"), (300, 3_000), (1, 5)
    ):
        exposures = [EXPOSURES[k % len(EXPOSURES)] for k in range(n_groups)]
        populations = [KINDS[name](exposure) for exposure in exposures]
        told = [_audited(populations, size, n_splits, rng) for _ in range(n_audits)]
        interval, limit, difference, limits, differences = zip(*told, strict=True)
        shares = [_share(np.concatenate(h)) for h in (interval, limit, difference)]
        shares.append(float(np.mean([held.all() for held in limits])))
        shares.append(float(np.mean([held.all() for held in differences])))
        rows[f"{name}, {size} people, {n_splits} splits"] = shares
        print(
            f"{name:<13}{size:>6} people{n_splits:>3} splits: interval "
            f"{shares[0]:.1%}, limit {shares[1]:.1%}, difference {shares[2]:.1%}; all "
            f"limits of an audit {shares[3]:.1%}, all of differences {shares[4]:.1%}"
        )
    return {"printed": rows}


def _audited(
    populations: Sequence[Population],
    size: int,
    n_splits: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Of one audit: intervals, bounds, differences, and bounds with differences."""
    parts = [
        draw_tables(one, draw_people(one, [size], 1, rng), n_splits=n_splits, rng=rng)
        for one in populations
    ]
    tables = reduce(joined, parts)
    drawn = NullRelease(train=tables.train, test=tables.test)
    setting = audit(drawn.release(), Plan(resamples=1, null_draws=1)).settings[0]
    truth = dict(
        zip(setting.groups, (one.exposure for one in populations), strict=True)
    )
    exposures = [
        (group.exposure, truth[name]) for name, group in setting.groups.items()
    ]
    pairs = [
        (one.exposure.difference, truth[one.groups[0]] - truth[one.groups[1]])
        for one in setting.pairs
    ]
    return [
        np.array(
            [
                one.interval[0] - TINY <= c <= one.interval[1] + TINY
                for one, c in exposures
            ]
        ),
        np.array([one.upper_bound_pointwise >= c - TINY for one, c in exposures]),
        np.array(
            [one.interval[0] - TINY <= d <= one.interval[1] + TINY for one, d in pairs]
        ),
        np.array([one.upper_bound >= c - TINY for one, c in exposures]),
        np.array([one.upper_bound >= abs(d) - TINY for one, d in pairs]),
    ]


def placebo_groups(n: int, rng: np.random.Generator) -> Results:
    print(
        f"\nalarms of placebo groups, {n} each: exposures differ / cross product / "
        "double"
    )
    many = (1, 2, 5, 20, 50)
    print(f"{'':<38}" + "".join(f"{f'{s} splits':>20}" for s in many))
    rows = []
    for (name, population), sizes in product(PLACEBOS.items(), GROUPS):
        alarms = []
        for n_splits in many:
            flips = [
                draw_placebo_groups(population, sizes, 20, rng)
                for _ in range(-(-n // 20))
            ]
            tables = draw_tables(
                population, np.concatenate(flips), n_splits=n_splits, rng=rng
            )
            exposure, benefit, cross = (one.p_value for one in compared(tables))
            both = np.maximum(exposure, benefit)
            alarms.append([float((p <= 0.05).mean()) for p in (exposure, cross, both)])
            rows.append(
                {
                    "kind": name,
                    "groups": sizes,
                    "splits": n_splits,
                    "alarms": alarms[-1],
                }
            )
        text = "".join(f"{' / '.join(f'{a:.1%}' for a in one):>20}" for one in alarms)
        print(f"{name:<38}{sizes!s}\n{'':<38}{text}")
    for k, name in enumerate(("difference of exposures", "cross product", "double")):
        values = np.array([row["alarms"][k] for row in rows])
        print(f"{name:<24} mean {values.mean():.1%}, highest {values.max():.1%}")
    return {"placebo_groups": rows}


def small_groups(n: int, rng: np.random.Generator) -> Results:
    """Six groups of 100, 90/10, nothing memorised: pairs with the first group, Holm."""
    print(f"\nsix groups of 100, 90/10, nothing memorised, {n} releases: any alarm")
    rows = {}
    for accuracy, n_splits in product((0.9, 0.97, 0.99), (1, 5)):
        nothing = certain(0.0, accuracy=accuracy)
        drawn = draw_people(nothing, [100] * 6, n, rng)
        tables = usable(
            draw_tables(nothing, drawn, n_splits=n_splits, rng=rng, train_share=0.9)
        )
        p = np.stack(
            [memorised(releases_as_groups(tables, g)).p_value for g in range(6)], axis=1
        )
        detected = np.stack([holm(row) <= 0.05 for row in p])
        crosses = [compared(tables, g).cross for g in range(1, 6)]
        crosses_p = np.stack([cross.p_value for cross in crosses], axis=1)
        crossed = np.stack([holm(row) for row in crosses_p])
        sign = np.stack([c.value for c in crosses], axis=1)
        worse = np.where(sign > 0, detected[:, 1:], detected[:, [0]])
        shown = ((crossed <= 0.05) & worse).any(axis=1)
        name = f"accuracy {accuracy}, {n_splits} splits"
        rows[name] = {
            "detected": float(detected.any(axis=1).mean()),
            "shown": float(shown.mean()),
            "shown without the exact test": float((crossed <= 0.05).any(axis=1).mean()),
        }
        print(
            f"{name:<28}"
            + ", ".join(f"{key} {value:.1%}" for key, value in rows[name].items())
        )
    return {"small_groups": rows}


def spread(n: int, rng: np.random.Generator) -> Results:
    print(
        "\nspread over splits: contradictions among random splits of records, and by "
        "person"
    )
    rows = {}
    kinds = {
        "nothing memorised": certain(0.0),
        "nothing, accuracy .97": certain(0.0, accuracy=0.97),
        "memorised .25": certain(0.25),
        "soft .2": soft(0.2),
    }
    for (name, population), size, n_splits in product(
        kinds.items(), (100, 1_000), (2, 5, 20, 50)
    ):
        drawn = draw_people(population, [size], n, rng)
        records = releases_as_groups(
            draw_tables(population, drawn, n_splits=n_splits, rng=rng)
        )
        of_records = dispersion(records)
        by_person = dispersion(Strata(*(5 * part for part in records)))
        rows[f"{name}, {size} people, {n_splits} splits"] = row = {
            "below_.001": float((of_records.p_value < 0.001).mean()),
            "below_.05": float((of_records.p_value < 0.05).mean()),
            "five records a person": float(
                (
                    (by_person.p_value < 0.001) & ~(by_person.mean_p_value < PLAIN_MEAN)
                ).mean()
            ),
        }
        print(
            f"{name:<24}{size:>6} people{n_splits:>4} splits: p < .001 "
            f"{row['below_.001']:.2%}, p < .05 {row['below_.05']:.1%}; five records a "
            f"person flagged {row['five records a person']:.1%}"
        )
    return {"spread": rows}


def planted(gap: float) -> Population:
    """Accuracy .8; of those who are wrong, enough are right once trained on."""
    return Population(
        share=[0.48, 0.12, 0.32, 0.08],
        label=[0, 0, 1, 1],
        right_out=[1, 0, 1, 0],
        right_in=[1, gap / 0.2, 1, gap / 0.2],
    )


def power(n: int, rng: np.random.Generator) -> Results:
    print(
        f"\nexact test, 10,000 records, accuracy .8, 70/30, {n} releases: detected at "
        ".05 alone,"
    )
    print(
        "and with Holm over six settings of that group and of one that is not memorised"
    )
    rows = {}
    for gap, n_splits in ((0.0, 1), (0.0, 50), (0.03, 1), (0.005, 50)):
        p = np.stack(
            [exact_p(one, n, n_splits, rng) for one in [gap] * 6 + [0.0] * 6], axis=1
        )
        adjusted = np.stack([holm(row) for row in p])
        found = [float((one[:, :6] <= 0.05).mean()) for one in (p, adjusted)]
        rows[f"gap {gap}, {n_splits} splits"] = found
        print(f"gap {gap:<6} {n_splits:>3} splits: {found[0]:.1%}, {found[1]:.1%}")
    return {"power": rows}


def exact_p(gap: float, n: int, n_splits: int, rng: np.random.Generator) -> np.ndarray:
    drawn = draw_people(planted(gap), [10_000], n, rng)
    tables = draw_tables(planted(gap), drawn, n_splits=n_splits, rng=rng)
    return memorised(releases_as_groups(tables)).p_value


def counts(n: int = 4_000, seed: int = 1) -> None:
    """Do the audit's errors and tests from counts hold in a known population?

    People are drawn anew for every release, split at random and classified by models
    that memorise as much as asked (``tests/worlds/people.py``). Prints, and writes as
    JSON:

    * coverage: how many 95 % intervals hold the truth, how many one-sided
      limits do, the same of the difference of two groups, and the first without the
      four people that errors add;
    * what audits print: the same from the audit file, and whether all of an audit's
      limits hold;
    * placebo groups: how often two halves of one population differ;
    * small groups in which nothing is memorised: alarms of the whole rule, the exact
      test included;
    * spread over splits: contradictions where there is nothing wrong, and where persons
      were split;
    * power and size of the exact test.
    """
    rng = np.random.default_rng(seed)
    results: Results = {"releases": n, "seed": seed}
    for part in (cell_coverage, printed, placebo_groups, small_groups, spread, power):
        results |= part(n, rng)
    write_results("coverage", results)


NORMAL_95, MIN_PROBABILITY = 1.96, 0.01
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Row = tuple[float, float, float, float, float, float]
"""Of one group: cost, its error, that of records, covariance, benefit, its variance."""


def made_up(
    rng: np.random.Generator, n: int, n_models: int, luck: float = 0.2
) -> Drawn:
    labels = (rng.random(n) < 0.4).astype(np.int64)
    group = rng.integers(0, 2, n)
    member = splits(labels, n_models, rng)
    level = rng.normal(0.5, 1.5, n) + rng.normal(0, 0.5, (n_models, 2))[:, labels]
    memory = 0.5 * rng.gamma(1.0, size=n) * (1 + group) * member
    memory = memory * np.exp(luck * rng.normal(size=(n_models, 1)))
    return (
        (level + rng.normal(size=member.shape) + memory) * (2 * labels - 1),
        labels,
        member,
        group,
    )


def ridge(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    features = rng.normal(size=(n, 100))
    group = rng.integers(0, 2, n)
    noise = (1 + group) * rng.normal(size=n)
    labels = (0.5 * features[:, :10].sum(axis=1) + noise > 0).astype(np.int64)
    member = splits(labels, n_models, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        own = features[row]
        target = 2.0 * labels[row] - 1
        weights = np.linalg.solve(own.T @ own + 5 * np.eye(100), own.T @ target)
        logits[s] = 3 * features @ weights
    return logits, labels, member, group


def trees(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    from sklearn.tree import DecisionTreeClassifier

    return _fitted(rng, n, n_models, lambda: DecisionTreeClassifier(min_samples_leaf=5))


def forests(rng: np.random.Generator, n: int, n_models: int) -> Drawn:
    from sklearn.ensemble import RandomForestClassifier

    return _fitted(rng, n, n_models, lambda: RandomForestClassifier(15))


def _fitted(
    rng: np.random.Generator, n: int, n_models: int, make: Callable[[], object]
) -> Drawn:
    features, labels, group = _adult()
    rows = rng.choice(len(labels), n, replace=False)
    features = features[rows]
    labels = labels[rows]
    group = group[rows]
    member = splits(labels, n_models, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        model = make().set_params(random_state=int(rng.integers(2**31)))
        chance = model.fit(features[row], labels[row]).predict_proba(features)[:, 1]
        logits[s] = log_odds(np.clip(chance, MIN_PROBABILITY, 1 - MIN_PROBABILITY))
    return logits, labels, member, group


@cache
def _adult() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from pcer.data import load

    dataset = load("adult")
    return dataset.features, dataset.labels, dataset.attribute("sex").codes


WORLDS = {"made up": made_up, "ridge": ridge, "trees": trees, "forests": forests}


def measure_draw(world: str, n: int, n_models: int, seed: int) -> dict[str, list[Row]]:
    """By attack, what one draw says of both groups."""
    drawn = WORLDS[world](np.random.default_rng([seed, n, n_models]), n, n_models)
    logits, labels, member, group = drawn
    scores = SettingScores(
        logits=logits, labels=labels, member=member, group=group, group_names=("a", "b")
    )
    (found,) = attack_models([scores])
    rows: dict[str, list[Row]] = {}
    for k, name in enumerate(scores.group_names):
        inside = group == k
        benefit = float(found.benefit[inside].mean())
        size = int(inside.sum())
        held_out = float((~member[:, inside]).sum(axis=1).mean())
        spread = 1 / size + (1 / held_out - 1 / size) / n_models
        for row in found.rows:
            if row.group == name:
                numbers = (
                    row.value,
                    row.standard_error,
                    row.null_error,
                    row.benefit_covariance,
                )
                own = (*numbers, benefit, benefit * (1 - benefit) * spread)
                rows.setdefault(row.attack, []).append(own)
    return rows


def coverage_of_exposure(rows: np.ndarray) -> dict[str, float]:
    """Coverage of one attack; ``rows`` are (draw, group, what a row holds)."""
    value, error, alone, covariance, benefit, spread = np.moveaxis(rows, -1, 0)
    c = value.T
    r = benefit.T
    v = error.T**2
    cross = r[0] * c[1] - r[1] * c[0]
    variance = r[0] ** 2 * v[1] + r[1] ** 2 * v[0]
    variance += c[1] ** 2 * spread[:, 0] + c[0] ** 2 * spread[:, 1]
    variance -= 2 * c[1] * r[1] * covariance[:, 0] + 2 * r[0] * c[0] * covariance[:, 1]
    printed = np.maximum(error, math.sqrt(MUTUAL) * alone)
    needed = np.quantile(np.abs(value - value.mean(axis=0)), 0.95, axis=0) / NORMAL_95
    return {
        "a": float(c[0].mean()),
        "b": float(c[1].mean()),
        "records alone": share_covered(value, alone),
        "with models": share_covered(value, error),
        "printed": share_covered(value, printed),
        "width": float(np.median(printed / needed)),
        "difference, records alone": share_covered(c[0] - c[1], np.hypot(*alone.T)),
        "difference": share_covered(c[0] - c[1], np.sqrt(v.sum(axis=0))),
        "cross product": share_covered(cross, np.sqrt(variance)),
    }


def share_covered(value: np.ndarray, error: np.ndarray) -> float:
    return float((np.abs(value - value.mean(axis=0)) <= NORMAL_95 * error).mean())


def people(arguments: Sequence[str]) -> None:
    """Do the intervals of pooled exposures hold for people like these?

    Records are drawn anew each time.

    Every draw takes new records from a population, trains new models on random splits
    of them and measures both groups by all attacks. The truth is the mean over all
    draws. Worlds:

        made up   scores of a record's own level, a model's mood and memory; some
                  remember more
        ridge     least squares on 100 features, of which 10 tell the label; half of
                  people noisier
        trees     decision trees on records of Adult, groups by sex
        forests   15 trees each, grown to the end

    Printed are the shares of 95 % intervals that hold the truth: of each group's cost
    with the error of records alone, with the models' luck, and as an audit prints it;
    of the difference between groups with the first two, and of R_i c_j - R_j c_i with
    the error that the audit gives it; and how wide the printed intervals are beside
    what would have held 95 % (median over draws). 300 draws tell 95 % from 92.5 or 97.5
    %.
    """
    parser = parser_of(people)
    parser.add_argument(
        "worlds", nargs="*", help=f"of {', '.join(WORLDS)}; default: all"
    )
    parser.add_argument("--models", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    results = {}
    for world in options.worlds or WORLDS:
        for n_models in options.models:
            start = time.perf_counter()
            n = options.records
            with ProcessPoolExecutor(
                options.jobs, mp_context=get_context("fork")
            ) as pool:
                several = (
                    repeat(world),
                    repeat(n),
                    repeat(n_models),
                    range(options.draws),
                )
                found = list(pool.map(measure_draw, *several, chunksize=4))
            seconds = time.perf_counter() - start
            print(
                f"{world}, {n} records, {n_models} models: {options.draws} draws, "
                f"{seconds:.0f} s"
            )
            for attack in found[0]:
                one = coverage_of_exposure(np.array([draw[attack] for draw in found]))
                results[f"{world} {n} {n_models} {attack}"] = one
                told_of = [
                    (k, f"{x:.2f}" if k == "width" else f"{x:.1%}")
                    for k, x in one.items()
                ]
                cells = "  ".join(f"{name} {share}" for name, share in told_of[2:])
                print(
                    f"  {attack:<24}{one['a']:+.3f} {one['b']:+.3f}  {cells}",
                    flush=True,
                )
    write_results("people", results)


ALARM, NOMINAL, RANGE = 1.645, 0.95, 0.99

FalseSplit = tuple[str, int, int]
SweepCell = dict[str, object]
_SHARED: dict[str, Arrays] = {}
"""What the workers inherit: the arrays of the sweep, before the pool is made."""


def measure_false_split(task: FalseSplit) -> list[SweepCell]:
    """Value over error of every attack and group, for one false split of one budget."""
    kind, draw, budget = task
    arrays = _SHARED["sweep"]
    member = splits_of(arrays, slice(None), kind, draw)
    epsilon = float(arrays["budgets"][budget])
    cells = []
    for attribute in arrays["attributes"].tolist():
        scores = budget_scores(arrays, attribute, member, budget=budget)
        for row in attack_models([scores])[0].rows:
            if row.standard_error:
                cell = {"kind": kind, "draw": draw, "epsilon": epsilon_name(epsilon)}
                cell |= {
                    "attribute": attribute,
                    "group": row.group,
                    "attack": row.attack,
                }
                cell |= {
                    "n_records": row.n_records,
                    "z": row.value / row.standard_error,
                }
                cell |= {"value": row.value, "error": row.standard_error}
                cell |= {"null_z": row.value / row.null_error}
                cells.append(cell)
    return cells


def run_tasks(tasks: list[FalseSplit], jobs: int) -> Iterator[SweepCell]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        for number, cells in enumerate(pool.map(measure_false_split, tasks)):
            print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr)
            yield from cells
    print(file=sys.stderr)


def coverage_of_cells(z: np.ndarray) -> dict[str, object]:
    """Coverage of some cells, and whether it can be luck."""
    from scipy.stats import binom

    n_covered = int((np.abs(z) <= NORMAL_95).sum())
    low, high = (
        binom.ppf(q, len(z), NOMINAL) for q in ((1 - RANGE) / 2, (1 + RANGE) / 2)
    )
    return {
        "cells": len(z),
        "covered": n_covered / len(z),
        "range": [float(low) / len(z), float(high) / len(z)],
        "within_range": bool(low <= n_covered <= high),
        "above": float((z > ALARM).mean()),
        "mean_z": float(z.mean()),
        "sd_z": float(z.std(ddof=1)) if len(z) > 1 else None,
    }


def place(cell: SweepCell) -> tuple[object, ...]:
    return tuple(cell[name] for name in ("epsilon", "attribute", "group", "attack"))


def against_expected(
    cells: list[SweepCell], effects: dict[tuple[object, ...], float]
) -> np.ndarray:
    """Distance of every rotated value from what rotation expects, in errors.

    Args:
        cells: of rotated splits.
        effects: 1/(seeds - 1) of the value with the true splits, by place.
    """
    return np.array([(c["value"] + effects[place(c)]) / c["error"] for c in cells])


def grouped(
    cells: list[SweepCell], *names: str
) -> dict[tuple[object, ...], np.ndarray]:
    found: dict[tuple[object, ...], list[float]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in names), []).append(
            float(str(cell["z"]))
        )
    return {key: np.array(z) for key, z in found.items()}


def show_coverage(name: str, one: dict[str, object]) -> None:
    low, high = one["range"]
    print(
        f"  {name:<32}{one['cells']:>6} cells  covered {one['covered']:>6.1%} "
        f"({low:.1%} to {high:.1%}{'' if one['within_range'] else ', OUTSIDE'})  above "
        f"{ALARM}: {one['above']:>5.1%}  z {one['mean_z']:+.2f} +- {one['sd_z']:.2f}"
    )


def sweeps(arguments: Sequence[str]) -> None:
    """Are the errors of the pooled attacks honest? False splits on a real sweep.

    Rotated: the split of seed s + k beside the model of seed s. Nothing can be learned,
    so every pooled attack should be at chance, and its 95 % intervals should hold 0 in
    about 95 % of (budget, group) cells. Fresh: the same with splits that no model was
    trained on.

    Rotations of one sweep are not independent of each other: they share models and
    splits, and over all k, the true one included, the paired differences of a record
    sum to 0, so that the rotated ones lean to the other side of a strong true effect:
    by 1/(seeds - 1) of it. So the chance value of a rotated cell is not 0 but
    -effect/(seeds - 1), exactly so for paired ones, and "of what rotation expects"
    is the share of intervals that hold that. Beside each share stands the range in
    which it would lie in 99 % of cases if the cells were independent and the coverage
    exactly 95 %; a share outside is marked. Cells that depend on each other scatter
    more than that. The null error, which holds no luck of models and decides whether
    anything is remembered, is put to the same test.
    """
    parser = parser_of(sweeps)
    parser.add_argument(
        "source", help="compas:50, or NAME.scores of pcer train --keep-scores"
    )
    parser.add_argument(
        "--records", help="labels and groups, from benchmarks.lira records"
    )
    parser.add_argument("--attribute", action="append", help="repeatable; default: all")
    parser.add_argument("--seeds", type=int, help="only so many of the sweep's seeds")
    parser.add_argument("--rotations", type=int, default=12)
    parser.add_argument("--fresh", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--out", type=Path, help="JSON file; default in benchmarks/results"
    )
    options = parser.parse_args(arguments)
    arrays = _SHARED["sweep"] = read(options.source, records=options.records)
    arrays["logits"] = arrays["logits"][:, : options.seeds]
    arrays["member"] = arrays["member"][: options.seeds]
    arrays["attributes"] = np.array(options.attribute or attributes(arrays))
    n_budgets, n_seeds, _ = arrays["logits"].shape
    draws = false_draws(n_seeds, rotations=options.rotations, fresh=options.fresh)
    draws["true"] = [0]
    tasks: list[tuple[str, int, int]] = []
    for kind, drawn in draws.items():
        tasks += product([kind], drawn, range(n_budgets))
    cells = list(run_tasks(tasks, options.jobs))
    true = {place(c): float(str(c["value"])) for c in cells if c["kind"] == "true"}
    effects = {key: value / (n_seeds - 1) for key, value in true.items()}
    cells = [c for c in cells if c["kind"] != "true"]
    results = {}
    print(
        f"{name_of(options.source)}, {n_seeds} seeds: 95 % intervals that hold chance"
    )
    for (kind, attack), z in grouped(cells, "kind", "attack").items():
        chosen = [c for c in cells if (c["kind"], c["attack"]) == (kind, attack)]
        results[f"{kind} {attack}"] = whole = coverage_of_cells(z)
        show_coverage(f"{kind} {attack}", whole)
        whole["null_error"] = coverage_of_cells(
            np.array([float(str(c["null_z"])) for c in chosen])
        )
        show_coverage("    by the null error", whole["null_error"])
        if kind == "rotated":
            whole["of_expected"] = coverage_of_cells(against_expected(chosen, effects))
            show_coverage("    of what rotation expects", whole["of_expected"])
        whole["by_budget"] = {
            eps: coverage_of_cells(part)
            for (eps,), part in grouped(chosen, "epsilon").items()
        }
        for epsilon, part in whole["by_budget"].items():
            show_coverage(f"    eps {epsilon}", part)
    out = options.out or FOLDER / f"honest_errors-{name_of(options.source)}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**results, "cells": cells}) + "\n", encoding="utf-8")
    print(f"wrote {out}")


if __name__ == "__main__":
    run_verb({"counts": with_numbers(counts), "people": people, "sweeps": sweeps})
