"""Whose records shine through synthetic tables, in worlds where that is known?

    python -m benchmarks.synthetic null [DRAWS] [SEED] [JOBS]
    python -m benchmarks.synthetic power [DRAWS] [SEED] [JOBS]
    python -m benchmarks.synthetic one_table [DRAWS] [SEED] [JOBS]
    python -m benchmarks.synthetic dcr [DRAWS] [SEED] [JOBS]
    python -m benchmarks.synthetic densities [DRAWS] [SEED] [JOBS]
    python -m benchmarks.synthetic white [DRAWS] [SEED] [JOBS]

People are drawn from UCI Adult: 11 columns from the folder that ``PCER_DATA`` names, or
9 of the package. Each of 16 tables is made from a random half of them. ``null`` counts
false alarms where groups are treated alike: drawn at random, of which one has half or a
tenth of the people; and mirror images of each other in every number. ``power`` plants a
tenth of the people whom the generator remembers better, and counts audits that name
them. ``one_table`` does so with one table and held-out people. ``dcr`` counts whom the
distance to the closest record names under a generator of other people; ``densities``
which group is named where one lives twice as thinly and SMOTE makes the table; and
``white`` which attacks name White people, or others, where trees make it. Kept in
``benchmarks/rates/synthetic.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from tests.worlds.fleets import exact_panel
from tests.worlds.synthetic import (
    BLUR,
    HALF_OF_WIDE,
    QUARTER,
    Generator,
    People,
    adult,
    by_trees,
    closest_record_difference,
    gaussian,
    mirrored,
    random_halves,
    smote,
    spread_twice,
    standardised,
    twice,
)

import pcer
from benchmarks import run_verb, with_numbers
from pcer.attacks import SettingScores
from pcer.attacks.synthetic import Neighbourhood, own_auc
from pcer.measuring.evidence import decide
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import attack_tests
from pcer.measuring.plan import Plan
from pcer.release.panel import Panel

RATES = Path(__file__).parent / "rates" / "synthetic.json"
N_SPLITS, N_NULL, N_POWER, N_WHITE = 16, 600, 800, 1_000
PAIRS = ((0, 1),)
PLANTED = 0.1
CLEAR = 1.96
RMIA, OWN_AUC, PAIRED = "rmia_advantage", "own_auc_advantage", "paired_confidence"
# Attacks that decide, each alone and as the audit takes them.
JUDGED = {"RMIA": (RMIA,), "own AUC": (OWN_AUC,), "audit": (RMIA, OWN_AUC)}
GENERATORS: dict[str, Generator] = {
    "blind": BLUR,
    "gaussian": gaussian,
    "blur": BLUR,
    "SMOTE": smote,
    "trees": by_trees,
}
PLANTING: dict[str, Generator] = {
    "quarter": QUARTER,
    "half of a wide bandwidth": HALF_OF_WIDE,
    "trees, twice": twice(by_trees),
}


class World(NamedTuple):
    """Whom the tables are made of, and who else lives like them."""

    people: People
    others: People  # as many
    is_white: np.ndarray  # (person,)


class Answer(NamedTuple):
    """What an audit of two groups says."""

    named: int  # the group that is easier to spot; -1 where none is shown to be
    detected: bool  # whether some group is exposed


def drawn_world(n: int, rng: np.random.Generator) -> World:
    """People of Adult, none of them twice."""
    everybody, is_white = adult()
    rows = rng.permutation(everybody.n)[: 2 * n]
    people, others = everybody.at(rows[:n]), everybody.at(rows[n:])
    return World(people, others, is_white[rows[:n]])


def made_tables(
    source: People,
    member: np.ndarray,
    generator: Generator,
    planted: np.ndarray,
    rng: np.random.Generator,
) -> list[People]:
    """A table from the half of each split."""
    return [generator(source.at(half), planted[half], rng) for half in member]


def signals_of(people: People, tables: list[People]) -> np.ndarray:
    """(table, person) in the coordinates of ``Space``, without a table of texts."""
    near = Neighbourhood.of(standardised(people, people))
    return np.array([near.signals(standardised(one, people)) for one in tables])


def nearest_of(people: People, tables: list[People]) -> np.ndarray:
    """(table, person) minus the distance to the closest record of each table."""
    at = standardised(people, people)
    distances = [cdist(at, standardised(one, people)).min(axis=1) for one in tables]
    return -np.array(distances)


def answers_of(
    signals: np.ndarray, member: np.ndarray, group: np.ndarray
) -> dict[str, Answer]:
    """What the audit says of two groups, and each attack alone."""
    scores = scores_of(signals, member, group, of_tables=True)
    panel = exact_panel(scores, group[None])
    return {name: answer_of(panel, attacks) for name, attacks in JUDGED.items()}


def scores_of(
    signals: np.ndarray, member: np.ndarray, group: np.ndarray, *, of_tables: bool
) -> SettingScores:
    """Signals as if they were log odds of a model."""
    return SettingScores(
        logits=signals,
        labels=np.ones(signals.shape[1], dtype=np.int64),
        member=member,
        group=group,
        group_names=("a", "b"),
        of_tables=of_tables,
    )


def answer_of(panel: Panel, attacks: tuple[str, ...]) -> Answer:
    """What some attacks say together."""
    measured = [[measure_panel(panel, Plan(), attack)] for attack in attacks]
    tests = [attack_tests(one, PAIRS, random=True) for one in measured]
    evidence = decide(tests, PAIRS, outcome="benefit")
    named = -1
    if evidence.exposures_differ[0, 0]:
        named = int(evidence.more_exposed[0, 0])
    return Answer(named, bool(evidence.detected.any()))


def in_parallel(task: Callable[[int], Any], n_draws: int, n_jobs: int) -> list[Any]:
    """The draws of one cell, in order."""
    if n_jobs == 1:
        return [task(draw) for draw in range(n_draws)]
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(task, range(n_draws)))


def keep(part: str, found: dict[str, Any]) -> None:
    """Write one verb's counts beside those of the others."""
    kept = json.loads(RATES.read_text()) if RATES.exists() else {}
    RATES.parent.mkdir(exist_ok=True)
    RATES.write_text(json.dumps({**kept, part: found}, indent=1) + "\n")


# False alarms.


def null_once(cell: str, name: str, seed: int, draw: int) -> dict[str, dict]:
    """By kind of groups, what audits of one draw say."""
    rng = np.random.default_rng([seed, draw, *f"{cell} {name}".encode()])
    world = drawn_world(N_NULL, rng)
    halves = (rng.random(N_NULL) < 0.5).astype(np.int64)
    tenth = (rng.random(N_NULL) < PLANTED).astype(np.int64)
    groups = {"coin 50/50": halves, "coin 10/90": tenth}
    people = world.people
    if cell == "apart":
        groups = {"apart": halves}
        people = mirrored(people, halves)
    member = random_halves(N_NULL, N_SPLITS, rng)
    source = world.others if name == "blind" else people
    planted = np.zeros(N_NULL, dtype=bool)
    tables = made_tables(source, member, GENERATORS[name], planted, rng)
    signals = signals_of(people, tables)
    return {one: answers_of(signals, member, group) for one, group in groups.items()}


def null(n_draws: int = 200, seed: int = 1, n_jobs: int = 1) -> None:
    """Count false alarms by kind of groups, generator and attack."""
    found: dict[str, Any] = {"command": f"null {n_draws} {seed}"}
    print(f"false alarms: {', '.join(JUDGED)}; audits that detect; draws")
    for cell in ("coin", "apart"):
        for name in GENERATORS:
            task = partial(null_once, cell, name, seed)
            draws = in_parallel(task, n_draws, n_jobs)
            for kind in draws[0]:
                counts = alarms([draw[kind] for draw in draws])
                found[f"{kind}, {name}"] = counts
                told = "".join(f"{count:6}" for count in counts.values())
                print(f"{kind:12}{name:10}{told}", flush=True)
    keep("null", found)


def alarms(draws: list[dict[str, Answer]]) -> dict[str, int]:
    """How many name a group, by attack, and how many audits detect anything."""
    counts = {way: sum(draw[way].named >= 0 for draw in draws) for way in JUDGED}
    counts["detected"] = sum(draw["audit"].detected for draw in draws)
    counts["draws"] = len(draws)
    return counts


# Power.


def power_once(name: str, seed: int, draw: int) -> dict[str, Answer]:
    """What audits say of people whom the generator remembers better: group 1."""
    rng = np.random.default_rng([seed, draw, *name.encode()])
    world = drawn_world(N_POWER, rng)
    planted = rng.random(N_POWER) < PLANTED
    member = random_halves(N_POWER, N_SPLITS, rng)
    tables = made_tables(world.people, member, PLANTING[name], planted, rng)
    signals = signals_of(world.people, tables)
    return answers_of(signals, member, planted.astype(np.int64))


def power(n_draws: int = 60, seed: int = 1, n_jobs: int = 1) -> None:
    """Count audits that name the planted group, and the other one."""
    found: dict[str, Any] = {"command": f"power {n_draws} {seed}", "draws": n_draws}
    print(f"of {n_draws} draws, right (wrong): {', '.join(JUDGED)}")
    for name in PLANTING:
        draws = in_parallel(partial(power_once, name, seed), n_draws, n_jobs)
        counts = {}
        for way in JUDGED:
            named = Counter(draw[way].named for draw in draws)
            counts[way] = {"right": named[1], "wrong": named[0]}
        found[name] = counts
        told = "".join(f"{one['right']:6} ({one['wrong']})" for one in counts.values())
        print(f"{name:26}{told}", flush=True)
    keep("power", found)


# One finished table.


def one_table_once(name: str, seed: int, draw: int) -> Answer:
    """What an audit of one table and held-out people says."""
    rng = np.random.default_rng([seed, draw, *f"one {name}".encode()])
    world = drawn_world(N_POWER, rng)
    planted = rng.random(N_POWER) < PLANTED
    member = random_halves(N_POWER, 1, rng)
    generator, source = QUARTER, world.people
    if name == "blind":
        generator, source = BLUR, world.others
    (table,) = made_tables(source, member, generator, planted, rng)
    release = pcer.release_from_synthetic(
        table.frame(),
        world.people.frame(),
        member=member[0],
        split_kind="random",
        sensitive_features={"group": planted.astype(np.int64)},
        disclosure=pcer.Disclosure(public_data=True),
    )
    (found,) = pcer.audit(release, pcer.Plan(resamples=1, null_draws=1)).settings
    (pair,) = found.pairs
    named = -1
    if pair.exposure.group is not None:
        named = int(pair.exposure.group)
    return Answer(named, any(group.detected for group in found.groups.values()))


def one_table(n_draws: int = 60, seed: int = 1, n_jobs: int = 1) -> None:
    """Count audits of one table that detect anything, or name a group."""
    found: dict[str, Any] = {"command": f"one_table {n_draws} {seed}"}
    for name in ("quarter", "blind"):
        draws = in_parallel(partial(one_table_once, name, seed), n_draws, n_jobs)
        named = Counter(draw.named for draw in draws)
        detected = sum(draw.detected for draw in draws)
        counts = {"draws": n_draws, "detected": detected}
        counts |= {"right": named[1], "wrong": named[0]}
        found[name] = counts
        print(name, counts, flush=True)
    keep("one_table", found)


# What distance alone says.


def dcr_once(seed: int, draw: int) -> dict[str, int]:
    """Whom each measure names under a generator of other people: 1 is White."""
    rng = np.random.default_rng([seed, draw, *b"dcr"])
    world = drawn_world(N_POWER, rng)
    white = world.is_white.astype(np.int64)
    member = random_halves(N_POWER, N_SPLITS, rng)
    nobody = np.zeros(N_POWER, dtype=bool)
    tables = made_tables(world.others, member, BLUR, nobody, rng)
    answers = answers_of(signals_of(world.people, tables), member, white)
    z = closest_record_difference(world.people, tables[0], white).z
    by_distance = -1 if abs(z) <= CLEAR else int(z > 0)
    return {"DCR": by_distance, **{way: one.named for way, one in answers.items()}}


def densities_once(seed: int, draw: int) -> dict[str, int]:
    """Whom audits name, and whom nearest records find less exposed: 1 lives thinly."""
    rng = np.random.default_rng([seed, draw, *b"densities"])
    group = (rng.random(N_POWER) < 0.5).astype(np.int64)
    people = spread_twice(drawn_world(N_POWER, rng).people, group)
    member = random_halves(N_POWER, N_SPLITS, rng)
    nobody = np.zeros(N_POWER, dtype=bool)
    tables = made_tables(people, member, smote, nobody, rng)
    answers = answers_of(signals_of(people, tables), member, group)
    exposed = own_auc(nearest_of(people, tables), member)
    less = int(np.nanmean(exposed[group == 1]) < np.nanmean(exposed[group == 0]))
    return {"less by nearest": less, **{way: a.named for way, a in answers.items()}}


def white_once(seed: int, draw: int) -> dict[str, int]:
    """Which attacks name White people (1), or others (0), under trees."""
    rng = np.random.default_rng([seed, draw, *b"white"])
    world = drawn_world(N_WHITE, rng)
    member = random_halves(N_WHITE, N_SPLITS, rng)
    nobody = np.zeros(N_WHITE, dtype=bool)
    tables = made_tables(world.people, member, by_trees, nobody, rng)
    white = world.is_white.astype(np.int64)
    signals = signals_of(world.people, tables)
    answers = answers_of(signals, member, white)
    as_models = scores_of(signals, member, white, of_tables=False)
    panel = exact_panel(as_models, white[None])
    answers["paired confidence"] = answer_of(panel, (PAIRED,))
    return {way: one.named for way, one in answers.items()}


def count_named(
    part: str, once: Callable[[int, int], dict[str, int]]
) -> Callable[..., None]:
    """A verb that counts whom each measure names."""

    def verb(n_draws: int = 20, seed: int = 1, n_jobs: int = 1) -> None:
        draws = in_parallel(partial(once, seed), n_draws, n_jobs)
        found: dict[str, Any] = {"command": f"{part} {n_draws} {seed}"}
        found["draws"] = n_draws
        for way in draws[0]:
            named = Counter(draw[way] for draw in draws)
            found[way] = {"group 0": named[0], "group 1": named[1]}
            print(f"{part}: {way:20}{found[way]}", flush=True)
        if part == "densities":
            found["audit names whom nearest records find less exposed"] = sum(
                draw["audit"] == draw["less by nearest"] for draw in draws
            )
        keep(part, found)

    return verb


VERBS = {
    "null": null,
    "power": power,
    "one_table": one_table,
    "dcr": count_named("dcr", dcr_once),
    "densities": count_named("densities", densities_once),
    "white": count_named("white", white_once),
}

if __name__ == "__main__":
    run_verb({name: with_numbers(verb) for name, verb in VERBS.items()})
