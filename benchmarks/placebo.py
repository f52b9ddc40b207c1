"""Does an attribute drawn by coin flip get an alarm? Real models, every cost, 1 to 50 splits.

    python -m benchmarks.placebo                  all models; Bios and ACS where PCER_DATA has them
    python -m benchmarks.placebo forest tree --exact --flips 50

The records of real models are divided by lot, half and half and one in five, 200 times each, and
every division is audited: the share with any alarm (a disparity or a double disadvantage) should
be 5 %. Models are trained here and kept in benchmarks/results. Attacks that rank records are taken
to first order, as in a release; ``--exact`` attacks every division anew. Cells are held against
5 % by an exact binomial test, Bonferroni over the cells.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from benchmarks.sweeps import FOLDER, train
from pcer.attacks import (
    BudgetScores,
    Divisions,
    coin_panel,
    log_odds,
    placebo_groupings,
    pooled_attacks_of,
    run_attacks_of,
)
from pcer.auditing import Plan, alarms
from pcer.release import GAP, Panel, PooledExposures

SPLITS, SHARES, SEEDS = (1, 2, 5, 20, 50), (0.5, 0.2), range(50)
LEVEL, AVERAGE, EACH = 0.05, 0.055, 0.065
"""Alarms that should be; that may be on average over all cells, and for each model and cost."""
FIELDS = ("value", "standard_error", "null_error", "benefit_covariance", "n_records")

Models = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Log odds (model, record), labels, membership."""


class Cell(NamedTuple):
    """How many divisions alarmed."""

    model: str
    n_splits: int
    share: float
    cost: str
    n_alarms: int
    n_flips: int


def study(name: str, budget: float) -> Models:
    """The study's networks at one budget."""
    made = train(name, SEEDS, budgets=(budget,))
    return made["logits"][0], made["labels"], made["member"]


def trees(make: Callable[[int], object], features: np.ndarray, labels: np.ndarray) -> Models:
    """Models of scikit-learn on 50 random splits within labels."""
    from sklearn.model_selection import train_test_split

    ids, member = np.arange(len(labels)), np.zeros((len(SEEDS), len(labels)), dtype=bool)
    logits = np.empty(member.shape)
    for s in SEEDS:
        rows, _ = train_test_split(ids, train_size=0.7, stratify=labels, random_state=s)
        member[s, rows] = True
        fitted = make(s).fit(features[rows], labels[rows])
        logits[s] = log_odds(fitted.predict_proba(features)[:, 1])
    return logits, labels, member


def readme_forest() -> Models:
    from sklearn.ensemble import RandomForestClassifier

    from pcer.data import load

    data = load("compas")
    return trees(
        lambda s: RandomForestClassifier(n_estimators=100, min_samples_leaf=3, random_state=s),
        data.features,
        data.labels,
    )


def grown_forest() -> Models:
    from sklearn.ensemble import RandomForestClassifier

    from pcer.data import load

    data, some = load("adult"), np.random.default_rng(0).permutation(46_033)[:6_000]
    return trees(
        lambda s: RandomForestClassifier(n_estimators=50, random_state=s),
        data.features[some],
        data.labels[some],
    )


def random_tree() -> Models:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    return trees(
        lambda s: DecisionTreeClassifier(random_state=s),
        rng.normal(size=(4_000, 8)),
        rng.integers(0, 2, 4_000),
    )


MODELS: dict[str, Callable[[], Models]] = {
    "bios": lambda: study("bios", math.inf),
    "bios-10": lambda: study("bios", 10.0),
    "acs": lambda: study("acs", math.inf),
    "compas": lambda: study("compas", math.inf),
    "forest": readme_forest,
    "grown-forest": grown_forest,
    "tree": random_tree,
}


def models_of(name: str) -> Models:
    """Trained here, or read from where they were kept."""
    path = FOLDER / f"placebo-{name}.npz"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        np.savez(path, *MODELS[name]())
    with np.load(path) as kept:
        return kept["arr_0"], kept["arr_1"], kept["arr_2"]


def panel_of(scores: BudgetScores, codes: np.ndarray, *, exact: bool) -> Panel:
    """What an audit sees of every division."""
    divisions = Divisions(codes, 2)
    if exact:
        return coin_panel(scores, divisions, anew(scores, codes), epsilon=math.inf)
    (one,) = run_attacks_of([scores], epsilon=math.inf, coins=[divisions])
    (two,) = pooled_attacks_of([scores], epsilon=math.inf, coins=[divisions])
    return coin_panel(scores, divisions, one.coins | two.coins, epsilon=math.inf)


def anew(scores: BudgetScores, codes: np.ndarray) -> dict[str, PooledExposures]:
    """Every division attacked as if it were the attribute."""
    rows: dict[str, list[list[float]]] = {}
    for grouping in codes.astype(np.int64):
        one = BudgetScores(**{**vars(scores), "group": grouping})
        (single,) = run_attacks_of([one], epsilon=math.inf)
        (pooled,) = pooled_attacks_of([one], epsilon=math.inf)
        found = sorted([*single.rows, *pooled.rows], key=lambda row: row.group)
        for row in found:
            told = [getattr(row, name) for name in FIELDS]
            rows.setdefault(row.proxy, []).append([math.nan if x is None else x for x in told])
    return {
        cost: PooledExposures(**dict(zip(FIELDS, np.array(found, dtype=float).T, strict=True)))
        for cost, found in rows.items()
    }


def cells_of(name: str, *, n_flips: int, splits: list[int], exact: bool) -> Iterator[Cell]:
    logits, labels, member = models_of(name)
    for n_splits in splits:
        for share in SHARES:
            group = (np.arange(len(labels)) < share * len(labels)).astype(np.int64)
            scores = BudgetScores(
                logits=logits[:n_splits],
                labels=labels,
                member=member[:n_splits],
                group=group,
                group_names=("a", "b"),
                from_probabilities="forest" in name or name == "tree",
            )
            rng = np.random.default_rng([list(MODELS).index(name), n_splits, round(10 * share)])
            codes = np.array(list(placebo_groupings(group, n_flips, rng)), dtype=np.int16)
            panel = panel_of(scores, codes, exact=exact)
            pairs = tuple((2 * k, 2 * k + 1) for k in range(n_flips))
            for cost in (GAP.name, *panel.pooled):
                found = alarms(
                    [panel], pairs, Plan(), cost=cost, outcome="harm", n_families=n_flips
                )
                n = int((found.shown | found.differ | (found.double >= 0)).sum())
                yield Cell(name, n_splits, share, cost, n, n_flips)


def told(cells: list[Cell]) -> None:
    """The tables of docs/method.md."""
    costs, names = (
        list(dict.fromkeys(x)) for x in ([c.cost for c in cells], [c[0] for c in cells])
    )
    print("| cost | " + " | ".join(names) + " | all |")
    print("|---|" + "---:|" * (len(names) + 1))
    for cost in [*costs, "all"]:
        row = [
            average([c for c in cells if cost in (c.cost, "all") and name in (c.model, "all")])
            for name in [*names, "all"]
        ]
        print(f"| `{cost}` | " + " | ".join(row) + " |")
    p = [
        binomtest(c.n_alarms, c.n_flips, LEVEL, alternative="greater").pvalue * len(cells)
        for c in cells
    ]
    worst = cells[int(np.argmin(p))]
    print(
        f"\n{len(cells)} cells; worst: {worst.model}, {worst.cost}, {worst.n_splits} splits, "
        f"{worst.share:.0%}: {worst.n_alarms} of {worst.n_flips}, p = {min(1.0, *p):.3g} over all"
    )


def average(cells: list[Cell]) -> str:
    shares = [c.n_alarms / c.n_flips for c in cells]
    return f"{np.mean(shares):.1%} ({max(shares):.0%})" if shares else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--splits", type=int, nargs="+", default=list(SPLITS))
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    cells: list[Cell] = []
    for name in options.models or MODELS:
        for cell in cells_of(
            name, n_flips=options.flips, splits=options.splits, exact=options.exact
        ):
            cells.append(cell)
            print(
                f"  {cell.model:<14}{cell.n_splits:>3} splits {cell.share:.0%}  {cell.cost:<24}"
                f"{cell.n_alarms / cell.n_flips:6.1%}",
                flush=True,
            )
    told(cells)
    out = Path(__file__).parent / "results" / "placebo.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps([cell._asdict() for cell in cells], indent=1) + "\n")


if __name__ == "__main__":
    main()
