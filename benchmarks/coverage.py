"""Do the audit's errors and tests from counts keep their word in a population that is known?

People are drawn anew for every release, split at random and classified by models that memorise
as much as asked (tests/simulate_people.py). Prints, and writes as JSON:

* coverage: how many 95 % intervals of a cost hold the truth, how many one-sided limits do, the same
  of the difference of two groups, and the first again without the four people that errors add;
* what audits print: the same from the audit file, and whether all limits of an audit hold together;
* coin flips: how often two halves of one population are told apart;
* small groups in which nothing is memorised: alarms of the whole rule, the exact test included;
* spread over splits: contradictions where there is nothing wrong, and where persons were split;
* power and size of the exact test.

    python -m benchmarks.coverage [releases] [seed]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.simulate_nulls import NullRelease
from tests.simulate_people import (
    Population,
    Tables,
    certain,
    certain_positives,
    draw_coin_flips,
    draw_people,
    draw_tables,
    soft,
)
from tests.weigh_people import weigh

from pcer import Plan, audit
from pcer.auditing import people as errors
from pcer.auditing.exact import Strata, dispersion, memorised, strata_of_counts
from pcer.auditing.inference import compare_pairs
from pcer.auditing.measure import Measured, measure_panel
from pcer.auditing.people import difference_limit, limit_quantile
from pcer.metrics import Counts
from pcer.release import GAP
from pcer.statistics import holm, interval_quantile

SPLITS = (1, 2, 5, 20)
SIZES = (11, 20, 31, 100, 300, 1_000, 10_000)
COSTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.26)
KINDS: dict[str, Callable[[float], Population]] = {
    "accuracy .7": certain,
    "accuracy .9": lambda cost: certain(cost, accuracy=min(0.9, 1 - cost)),
    "accuracy .97": lambda cost: certain(cost, accuracy=min(0.97, 1 - cost)),
    "accuracy .99": lambda cost: certain(cost, accuracy=min(0.99, 1 - cost)),
    "positives only": certain_positives,
    "soft": lambda cost: soft(min(cost, 0.2)),
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

INTERVAL, DOZEN = interval_quantile(0.95), 12
TINY = 1e-12
Results = dict[str, object]


class Shares(NamedTuple):
    """How often the truth is held: by intervals and limits of a cost, and of a difference."""

    interval: float
    limit: float
    together: float
    """That all of a dozen such limits hold, each being as wide as that needs."""
    difference: float
    difference_limit: float


class Cell(NamedTuple):
    """One population of two groups, and what held there."""

    kind: str
    cost: float
    other: float
    people: int
    splits: int
    shares: Shares
    plain_interval: float


@contextmanager
def nobody_added() -> Iterator[None]:
    """The errors by their plain formulas."""
    before, errors.ADDED = errors.ADDED, 0.0
    try:
        yield
    finally:
        errors.ADDED = before


def releases_as_groups(tables: Tables, group: int = 0) -> Strata:
    train, test = (Counts(*(part[..., group].T for part in counts)) for counts in tables)
    return strata_of_counts(train, test)


def usable(tables: Tables) -> Tables:
    """Only releases that have records of every group in every part."""
    full = ((tables.train.n > 0) & (tables.test.n > 0)).all(axis=(1, 2))
    return Tables(*(Counts(*(part[full] for part in one)) for one in tables))


def joined(first: Tables, second: Tables) -> Tables:
    """Groups of two populations side by side."""
    return Tables(
        *(
            Counts(*(np.concatenate(parts, axis=2) for parts in zip(a, b, strict=True)))
            for a, b in zip(first, second, strict=True)
        )
    )


def measured(tables: Tables) -> Measured:
    """All groups of all releases as one setting of an audit: group g of release r is r G + g."""
    train, test = (
        Counts(*(np.moveaxis(part, 1, 0).reshape(1, part.shape[1], -1) for part in one))
        for one in tables
    )
    return measure_panel(NullRelease(train=train, test=test).panels()[0], Plan(), GAP.name)


def covered(tables: Tables, truth: Sequence[float]) -> Shares:
    """Shares of intervals and limits that hold the truth, of a cost and of a difference."""
    one, n = measured(tables), len(tables.train.n)
    assert one.exposed is not None
    pairs = tuple((2 * r, 2 * r + 1) for r in range(n))
    value, error = one.exposed.value, np.sqrt(one.exposed.variance)
    exposure = compare_pairs(one, pairs).exposure
    costs, difference = np.tile(truth, n), truth[1] - truth[0]
    fails = [_share(_limits(one, n_limits=m) < costs - TINY) for m in (1, DOZEN)]
    at_most = difference_limit(exposure.value, exposure.error, z=limit_quantile())
    return Shares(
        interval=_share(np.abs(value - costs) <= INTERVAL * error + TINY),
        limit=1 - fails[0],
        together=(1 - fails[1]) ** DOZEN,
        difference=_share(np.abs(exposure.value - difference) <= INTERVAL * exposure.error + TINY),
        difference_limit=_share(at_most >= abs(difference) - TINY),
    )


def _limits(one: Measured, *, n_limits: int) -> np.ndarray:
    """Largest costs that the data allow, one or several at once."""
    assert one.exposed is not None
    limit = one.exposed.limit(z=limit_quantile(n_limits=n_limits))
    return np.asarray(np.fmax(limit, one.hidden_limit(1 - 0.05 / n_limits)))


def _share(holds: np.ndarray) -> float:
    return float(holds.mean())


def coverage(n: int, rng: np.random.Generator) -> Results:
    """Two groups of one size; the second is of another cost in half of the cells."""
    cells: list[Cell] = []
    for (kind, make), k, size, n_splits in product(KINDS.items(), range(len(COSTS)), SIZES, SPLITS):
        other = COSTS[k // 2 if k % 2 else k]
        populations = make(COSTS[k]), make(other)
        tables = joined(
            *(
                draw_tables(one, draw_people(one, [size], n, rng), n_splits=n_splits, rng=rng)
                for one in populations
            )
        )
        tables, truth = usable(tables), [one.cost for one in populations]
        with nobody_added():
            plain = covered(tables, truth).interval
        cells.append(Cell(kind, truth[0], truth[1], size, n_splits, covered(tables, truth), plain))
    print(f"\ncoverage of 95 % intervals, {n} releases a cell; lowest (mean) over costs and models")
    print(f"{'people':>8}" + "".join(f"{f'{s} splits':>18}" for s in SPLITS))
    for size in SIZES:
        row = [[c.shares.interval for c in cells if c[3:5] == (size, s)] for s in SPLITS]
        shown = [f"{min(shares):.1%} ({np.mean(shares):.1%})" for shares in row]
        print(f"{size:>8}" + "".join(f"{text:>18}" for text in shown))
    for least, name in product((300, 0), Shares._fields):
        told = [c for c in cells if c.people >= least]
        _summarise(f"{name}, {least or 11} people or more", told, name)
    _summarise("interval, nobody added", cells, None)
    return {"coverage": [cell._asdict() | {"shares": cell.shares._asdict()} for cell in cells]}


def _summarise(title: str, cells: Sequence[Cell], name: str | None) -> None:
    values = np.array(
        [c.plain_interval if name is None else getattr(c.shares, name) for c in cells]
    )
    worst = cells[int(values.argmin())]
    print(
        f"{title:<40} lowest {values.min():.1%} ({worst.kind}, costs {worst.cost:g} and "
        f"{worst.other:g}, {worst.people} people, {worst.splits} splits), mean "
        f"{values.mean():.1%}, below 93 %: {(values < 0.93).sum()} of {len(values)}"
    )


def printed(n: int, rng: np.random.Generator) -> Results:
    """The same from the audit file: what is printed, and whether all limits hold together."""
    n_groups, n_audits = 8, max(1, n // 40)
    print(f"\nas audits print it: {n_audits} audits of {n_groups} groups each; limits together")
    rows = {}
    for name, size, n_splits in product(
        ("accuracy .7", "accuracy .97", "soft"), (300, 3_000), (1, 5)
    ):
        costs = [COSTS[k % len(COSTS)] for k in range(n_groups)]
        populations = [KINDS[name](cost) for cost in costs]
        told = [_audited(populations, size, n_splits, rng) for _ in range(n_audits)]
        held = [np.concatenate([one[k] for one in told]) for k in range(4)]
        shares = [_share(part) for part in held[:3]]
        shares += [float(np.mean([one[k].all() for one in told])) for k in (3, 4)]
        rows[f"{name}, {size} people, {n_splits} splits"] = shares
        print(
            f"{name:<13}{size:>6} people{n_splits:>3} splits: interval {shares[0]:.1%}, limit "
            f"{shares[1]:.1%}, difference {shares[2]:.1%}; all limits of an audit {shares[3]:.1%}, "
            f"all of differences {shares[4]:.1%}"
        )
    return {"printed": rows}


def _audited(
    populations: Sequence[Population], size: int, n_splits: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Of one audit: intervals, limits, differences, limits together, differences together."""
    parts = [
        draw_tables(one, draw_people(one, [size], 1, rng), n_splits=n_splits, rng=rng)
        for one in populations
    ]
    tables = reduce(joined, parts)
    drawn = NullRelease(train=tables.train, test=tables.test)
    budget = audit(drawn.release(), Plan(resamples=1, null_draws=1)).budgets[0]
    truth = dict(zip(budget.groups, (one.cost for one in populations), strict=True))
    costs = [(group.cost, truth[name]) for name, group in budget.groups.items()]
    pairs = [(one.exposure, truth[one.groups[0]] - truth[one.groups[1]]) for one in budget.pairs]
    return [
        np.array([one.interval[0] - TINY <= c <= one.interval[1] + TINY for one, c in costs]),
        np.array([one.upper_limit >= c - TINY for one, c in costs]),
        np.array([one.interval[0] - TINY <= d <= one.interval[1] + TINY for one, d in pairs]),
        np.array([one.upper_limit_together >= c - TINY for one, c in costs]),
        np.array([one.upper_limit_together >= abs(d) - TINY for one, d in pairs]),
    ]


def coin_flips(n: int, rng: np.random.Generator) -> Results:
    print(f"\nalarms of coin-flip groups, {n} each: difference of costs / cross product / double")
    many = (1, 2, 5, 20, 50)
    print(f"{'':<38}" + "".join(f"{f'{s} splits':>20}" for s in many))
    rows = []
    for (name, population), sizes in product(PLACEBOS.items(), GROUPS):
        alarms = []
        for n_splits in many:
            flips = [draw_coin_flips(population, sizes, 20, rng) for _ in range(n // 20)]
            tables = draw_tables(population, np.concatenate(flips), n_splits=n_splits, rng=rng)
            found = weigh(tables)
            both = np.maximum(found.cost_p, found.benefit_p)
            alarms.append([float((p <= 0.05).mean()) for p in (found.cost_p, found.cross_p, both)])
            rows.append({"kind": name, "groups": sizes, "splits": n_splits, "alarms": alarms[-1]})
        text = "".join(f"{' / '.join(f'{a:.1%}' for a in one):>20}" for one in alarms)
        print(f"{name:<38}{sizes!s}\n{'':<38}{text}")
    for k, name in enumerate(("difference of costs", "cross product", "double")):
        values = np.array([row["alarms"][k] for row in rows])
        print(f"{name:<24} mean {values.mean():.1%}, highest {values.max():.1%}")
    return {"coin_flips": rows}


def small_groups(n: int, rng: np.random.Generator) -> Results:
    """Six groups of 100, 90/10, nothing memorised: each pair against the first, Holm throughout."""
    print(f"\nsix groups of 100, 90/10, nothing memorised, {n} releases: any alarm")
    rows = {}
    for accuracy, n_splits in product((0.9, 0.97, 0.99), (1, 5)):
        nothing = certain(0.0, accuracy=accuracy)
        drawn = draw_people(nothing, [100] * 6, n, rng)
        tables = usable(draw_tables(nothing, drawn, n_splits=n_splits, rng=rng, train_share=0.9))
        p = np.stack([memorised(releases_as_groups(tables, g)).p_value for g in range(6)], axis=1)
        resolved = np.stack([holm(row) <= 0.05 for row in p])
        pairs = [
            weigh(Tables(*(Counts(*(x[..., [0, g]] for x in one)) for one in tables)))
            for g in range(1, 6)
        ]
        crossed = np.stack([holm(row) for row in np.stack([w.cross_p for w in pairs], axis=1)])
        sign = np.stack(
            [w.benefit[:, 0] * w.cost[:, 1] - w.benefit[:, 1] * w.cost[:, 0] for w in pairs], axis=1
        )
        worse = np.where(sign > 0, resolved[:, 1:], resolved[:, [0]])
        shown = ((crossed <= 0.05) & worse).any(axis=1)
        name = f"accuracy {accuracy}, {n_splits} splits"
        rows[name] = {
            "resolved": float(resolved.any(axis=1).mean()),
            "shown": float(shown.mean()),
            "shown without the exact test": float((crossed <= 0.05).any(axis=1).mean()),
        }
        print(f"{name:<28}" + ", ".join(f"{key} {value:.1%}" for key, value in rows[name].items()))
    return {"small_groups": rows}


def spread(n: int, rng: np.random.Generator) -> Results:
    print("\nspread over splits: contradictions among random splits of records, and by person")
    rows = {}
    kinds = {
        "nothing memorised": certain(0.0),
        "nothing, accuracy .97": certain(0.0, accuracy=0.97),
        "memorised .25": certain(0.25),
        "soft .2": soft(0.2),
    }
    for (name, population), size, n_splits in product(kinds.items(), (100, 1_000), (2, 5, 20, 50)):
        drawn = draw_people(population, [size], n, rng)
        records = releases_as_groups(draw_tables(population, drawn, n_splits=n_splits, rng=rng))
        of_records = dispersion(records)
        by_person = dispersion(Strata(*(5 * part for part in records)))
        rows[f"{name}, {size} people, {n_splits} splits"] = row = {
            "below_.001": float((of_records.p_value < 0.001).mean()),
            "below_.05": float((of_records.p_value < 0.05).mean()),
            "five records a person": float(by_person.contradicts.mean()),
        }
        print(
            f"{name:<24}{size:>6} people{n_splits:>4} splits: p < .001 {row['below_.001']:.2%}, "
            f"p < .05 {row['below_.05']:.1%}; five records a person flagged "
            f"{row['five records a person']:.1%}"
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
    print(f"\nexact test, 10,000 records, accuracy .8, 70/30, {n} releases: resolved at .05 alone,")
    print("and with Holm over six settings of that group and of one that is not memorised")
    rows = {}
    for gap, n_splits in ((0.0, 1), (0.0, 50), (0.03, 1), (0.005, 50)):
        p = np.stack([exact_p(one, n, n_splits, rng) for one in [gap] * 6 + [0.0] * 6], axis=1)
        adjusted = np.stack([holm(row) for row in p])
        found = [float((one[:, :6] <= 0.05).mean()) for one in (p, adjusted)]
        rows[f"gap {gap}, {n_splits} splits"] = found
        print(f"gap {gap:<6} {n_splits:>3} splits: {found[0]:.1%}, {found[1]:.1%}")
    return {"power": rows}


def exact_p(gap: float, n: int, n_splits: int, rng: np.random.Generator) -> np.ndarray:
    drawn = draw_people(planted(gap), [10_000], n, rng)
    tables = draw_tables(planted(gap), drawn, n_splits=n_splits, rng=rng)
    return memorised(releases_as_groups(tables)).p_value


def main(n: int = 4_000, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    results: Results = {"releases": n, "seed": seed}
    for part in (coverage, printed, coin_flips, small_groups, spread, power):
        results |= part(n, rng)
    out = Path(__file__).parent / "results" / "coverage.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwrote {out.name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
