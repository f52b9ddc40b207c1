"""Do placebo groups raise an alarm, and what does asking cost?

    python -m benchmarks.placebo                  all models; Bios, ACS by PCER_DATA
    python -m benchmarks.placebo forest tree --exact --flips 50
    python -m benchmarks.placebo cost             COMPAS (race), Adult (sex, race)
    python -m benchmarks.placebo cost compas --seeds 20
    python -m benchmarks.placebo permutations     time and memory, the study's shapes
    python -m benchmarks.placebo permutations --flips 200 compas:50   a real sweep

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.stats import binomtest
from tests.worlds.fleets import exact_panel

from benchmarks import RESULTS as FOLDER
from benchmarks import parser_of, write_results
from benchmarks.lira import Arrays, read, train
from pcer.attacks import (
    Divisions,
    SettingScores,
    attack_models,
    exposure_rows,
    log_odds,
    permutation_tests,
    placebo_groupings,
)
from pcer.data import load, split
from pcer.measuring.evidence import alarms
from pcer.measuring.plan import Plan
from pcer.measuring.wrongly import wrongly_alarms
from pcer.metrics import DEFAULT_BUDGETS
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel
from pcer.sweep import Sweep
from pcer.sweep import releases as made
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds

SPLITS = (1, 2, 5, 20, 50)
SHARES = (0.5, 0.2)
SEEDS = range(50)
LEVEL, AVERAGE, EACH = 0.05, 0.055, 0.065
"""Alarms that should be; that may be on average, and for each model and attack."""

OUTCOMES, WRONGLY = "outcomes", "wrongly"

Models = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Log odds (model, record), labels, membership."""


class Cell(NamedTuple):
    """How many divisions alarmed."""

    model: str
    n_splits: int
    share: float
    attack: str
    n_alarms: int
    n_flips: int


def study(name: str, budget: float) -> Models:
    """The study's networks at one budget."""
    made = train(name, SEEDS, budgets=(budget,))
    return made["logits"][0], made["labels"], made["member"]


def trees(
    make: Callable[[int], object], features: np.ndarray, labels: np.ndarray
) -> Models:
    """Models of scikit-learn on 50 random splits within labels."""
    from sklearn.model_selection import train_test_split

    ids = np.arange(len(labels))
    member = np.zeros((len(SEEDS), len(labels)), dtype=bool)
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
        lambda s: RandomForestClassifier(
            n_estimators=100, min_samples_leaf=3, random_state=s
        ),
        data.features,
        data.labels,
    )


def grown_forest() -> Models:
    from sklearn.ensemble import RandomForestClassifier

    from pcer.data import load

    data = load("adult")
    some = np.random.default_rng(0).permutation(46_033)[:6_000]
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


def panel_of(scores: SettingScores, codes: np.ndarray, *, exact: bool) -> Panel:
    """What an audit sees of every division."""
    if exact:
        return exact_panel(scores, codes)
    return attack_models([scores], [Divisions(codes, 2)])[0].coins


def cells_of(
    name: str, *, n_flips: int, splits: list[int], exact: bool
) -> Iterator[Cell]:
    logits, labels, member = models_of(name)
    for n_splits in splits:
        for share in SHARES:
            group = (np.arange(len(labels)) < share * len(labels)).astype(np.int64)
            scores = SettingScores(
                logits=logits[:n_splits],
                labels=labels,
                member=member[:n_splits],
                group=group,
                group_names=("a", "b"),
                from_probabilities="forest" in name or name == "tree",
            )
            rng = np.random.default_rng(
                [list(MODELS).index(name), n_splits, round(10 * share)]
            )
            codes = placebo_groupings(group, n_flips, rng)
            panel = panel_of(scores, codes, exact=exact)
            pairs = tuple((2 * k, 2 * k + 1) for k in range(n_flips))
            for attack in (GAP.name, *panel.pooled):
                found = alarms(
                    [panel],
                    pairs,
                    Plan(),
                    attack=attack,
                    outcome="harm",
                    n_families=n_flips,
                )
                alarm = (
                    found.exposures_differ
                    | found.ratios_differ
                    | (found.double_disadvantage >= 0)
                )
                yield Cell(name, n_splits, share, attack, int(alarm.sum()), n_flips)
                if (
                    attack == GAP.name
                ):  # outcomes are a family of their own, whatever the attack
                    n = int(found.benefits_differ.sum())
                    yield Cell(name, n_splits, share, OUTCOMES, n, n_flips)
                    wrong = wrongly_alarms([panel], pairs, "harm", n_families=n_flips)
                    n = int(wrong.sum())
                    yield Cell(name, n_splits, share, WRONGLY, n, n_flips)


def told(cells: list[Cell]) -> None:
    """The tables of docs/placebo.md."""
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    names = list(dict.fromkeys(cell.model for cell in cells))
    print("| attack | " + " | ".join(names) + " | all |")
    print("|---|" + "---:|" * (len(names) + 1))
    for attack in [*attacks, "all"]:
        of_attack = [
            c
            for c in cells
            if c.attack == attack
            or (attack == "all" and c.attack not in (OUTCOMES, WRONGLY))
        ]
        row = [
            average([c for c in of_attack if name in (c.model, "all")])
            for name in [*names, "all"]
        ]
        print(f"| `{attack}` | " + " | ".join(row) + " |")
    p = [
        binomtest(c.n_alarms, c.n_flips, LEVEL, alternative="greater").pvalue
        * len(cells)
        for c in cells
    ]
    worst = cells[int(np.argmin(p))]
    print(
        f"\n{len(cells)} cells; worst: {worst.model}, {worst.attack}, {worst.n_splits} "
        f"splits, {worst.share:.0%}: {worst.n_alarms} of {worst.n_flips}, p = "
        f"{min(1.0, *p):.3g} over all"
    )


def average(cells: list[Cell]) -> str:
    shares = [c.n_alarms / c.n_flips for c in cells]
    return f"{np.mean(shares):.1%} ({max(shares):.0%})" if shares else ""


def flips(words: Sequence[str]) -> None:
    """Do placebo groups raise an alarm? Real models, every attack, 1 to 50 splits.

    The records of real models are divided at random, half and half and one in five, 200
    times each, and every division is audited: the share with any alarm (exposures or
    ratios differ, or a double disadvantage) should be at most 5 %, and so should the
    shares whose outcomes differ, or whose wrong judgements do. Models are trained here
    and kept in benchmarks/results. Attacks that rank records are taken to first order,
    as in a release; ``--exact`` attacks every division anew. Cells are held against 5 %
    by an exact binomial test, Bonferroni over the cells.
    """
    parser = parser_of(flips)
    parser.add_argument(
        "models", nargs="*", help=f"of {', '.join(MODELS)}; default: all"
    )
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--splits", type=int, nargs="+", default=list(SPLITS))
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args(words)
    cells: list[Cell] = []
    for name in options.models or MODELS:
        for cell in cells_of(
            name, n_flips=options.flips, splits=options.splits, exact=options.exact
        ):
            cells.append(cell)
            print(
                f"  {cell.model:<14}{cell.n_splits:>3} splits {cell.share:.0%}  "
                f"{cell.attack:<24}{cell.n_alarms / cell.n_flips:6.1%}",
                flush=True,
            )
    told(cells)
    write_results("placebo", [cell._asdict() for cell in cells])


SWEEPS = {"compas": ("race",), "adult": ("sex", "race")}
ALLOWED = 0.12


def measure_cost(name: str, n_seeds: int) -> dict[str, float]:
    dataset = load(name)
    seeds = tuple(range(n_seeds))
    sweep = Sweep(
        dataset=dataset,
        attributes=SWEEPS[name],
        budgets=DEFAULT_BUDGETS,
        seeds=seeds,
        config=TrainConfig(),
    )
    splits = {seed: split(dataset, seed=seed) for seed in seeds}
    rows = {seed: part.train for seed, part in splits.items()}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    flags = EngineFlags(jobs=1)
    budgets = tuple(sorted(DEFAULT_BUDGETS))
    train_seeds(
        data, budgets=budgets[-1:], config=TrainConfig(epochs=1), flags=flags
    )  # compiled
    start = time.process_time()
    scores = train_seeds(data, budgets=budgets, config=sweep.config, flags=flags)
    trained = time.process_time()
    allowed = made.allowed_attributes(sweep)
    with patch.object(exposure_rows, "draw_coins", lambda scores: (None, "left out")):
        made.build_releases(sweep, {None: scores}, allowed)
    without = time.process_time()
    steps: list[float] = []
    made.build_releases(
        sweep,
        {None: scores},
        allowed,
        on_step=lambda doing: steps.append(time.process_time()),
    )
    end = time.process_time()
    found = {
        "training": trained - start,
        "releases without": without - trained,
        "attacks and draws": steps[0] - without - (without - trained),
        "permutations and alarms": end - steps[0],
    }
    added = found["attacks and draws"] + found["permutations and alarms"]
    return {**found, "added": added, "share": added / (without - start)}


def cost(words: Sequence[str]) -> None:
    """What placebo groups and permutations add to a sweep, both timed in one run.

    A sweep of six budgets is trained, and its releases are made twice in this process,
    with placebo groups and without. CPU seconds, which other programs on the machine
    hardly change; the share is of the whole sweep without them: training, attacks and
    counts. It may be 15 % at most.
    """
    parser = parser_of(cost)
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(SWEEPS)}; default: all"
    )
    parser.add_argument("--seeds", type=int, default=50)
    options = parser.parse_args(words)
    results = {}
    for name in options.names or SWEEPS:
        results[name] = one = measure_cost(name, options.seeds)
        parts = ", ".join(f"{what} {x:.1f}" for what, x in list(one.items())[:-1])
        print(
            f"  {name:<8}{parts} CPU s: {one['share']:.1%} (allowed {ALLOWED:.0%})",
            flush=True,
        )
    write_results("placebo_cost", results)


STUDY_SHAPES = {
    "compas": (6_172, 2_997),
    "adult, sex": (46_033, 14_919),
    "adult, race": (46_033, 6_589),
}
"""Records, and those of the smaller group."""
N_SETTINGS, N_ATTACKS, LEVEL = 6, 7, 0.05


def time_draws(n_records: int, size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    exposure = rng.normal(size=(N_SETTINGS, N_ATTACKS, n_records))
    benefit = (rng.random((N_SETTINGS, n_records)) < 0.4).astype(np.float64)
    group = (np.arange(n_records) < size).astype(np.int64)
    cpu = time.process_time()
    clock = time.perf_counter()
    permutation_tests(exposure, benefit, group, (0, 1))
    return {
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - clock,
    }


def flip(
    arrays: Arrays, share: float, seed: int, n_draws: int
) -> dict[str, list[float]]:
    """By attack, p-values of the difference of exposures and of the cross product."""
    n = len(arrays["labels"])
    group = (np.random.default_rng(seed).permutation(n) < share * n).astype(np.int64)
    scores = SettingScores(
        logits=arrays["logits"][-1],
        labels=arrays["labels"],
        member=arrays["member"],
        group=group,
        group_names=("heads", "tails"),
    )
    (one,) = attack_models([scores])
    how = {"seed": seed, "n_draws": n_draws}
    return {
        attack: [
            p.item()
            for p in permutation_tests(
                exposure[None, None], one.benefit[None], group, (0, 1), **how
            )
        ]
        for attack, exposure in one.exposure.items()
    }


def permutations(words: Sequence[str]) -> None:
    """What do permutation tests cost, and how often is a placebo group found guilty?

    Time: 9,999 draws for one pair, 6 settings, 7 attacks, made-up numbers; CPU seconds
    of this process and its peak memory. Flips: attributes of the given share drawn at
    random among the records of a sweep (without privacy), by all attacks; the share
    with p <= .05 should be 5 %.
    """
    parser = parser_of(permutations)
    parser.add_argument("source", nargs="?", help="compas:50, or NAME.scores")
    parser.add_argument("--flips", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--draws", type=int, default=999)
    options = parser.parse_args(words)
    results: dict[str, object] = {}
    if options.source is None:
        for name, (n_records, size) in STUDY_SHAPES.items():
            results[name] = one = time_draws(n_records, size)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"  {name:<14}{one['cpu_seconds']:6.1f} CPU s{one['seconds']:8.1f} s, "
                f"{peak:.2f} GB"
            )
    else:
        arrays = read(options.source)
        draws = [
            flip(arrays, options.share, seed, options.draws)
            for seed in range(options.flips)
        ]
        for attack in draws[0]:
            found = np.array([one[attack] for one in draws])
            shares = (found <= LEVEL).mean(axis=0).tolist()
            results[attack] = dict(
                zip(("exposure", "cross product"), shares, strict=True)
            )
            print(
                f"  {attack:<24} exposure {shares[0]:.1%}  "
                f"cross product {shares[1]:.1%}"
            )
    write_results("permutations", results)


if __name__ == "__main__":
    verb = {"cost": cost, "permutations": permutations}.get(" ".join(sys.argv[1:2]))
    flips(sys.argv[1:]) if verb is None else verb(sys.argv[2:])
