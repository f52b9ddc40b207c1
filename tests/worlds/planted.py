"""Worlds in which one group is more exposed, or none is: whom do audits name?

    python -m tests.worlds.planted --audits 200 --jobs 16
    python -m tests.worlds.planted --world "flipped labels, 1nn" --audits 20

Each audit has people of its own and 20 models of random splits, attacked and decided as a release
would be, before any downgrade. ``default`` is what an audit says, by two attacks; every other row
is one attack alone. The truth of a planted world is the group with the higher mean memorisation
(rise of the probability of the true label) over 120 models of 20 draws of people.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pcer
from pcer.auditing.measure import deciding_attacks, measure_panel
from pcer.auditing.plan import Plan
from pcer.auditing.tests import Evidence, attack_tests, decide
from pcer.release.panel import Panel
from tests.worlds.fleets import MODELS, Fleet, People, exact_panel, fleet, people, scores_of

N_SPLITS, N_PEOPLE = 20, 1_000
DEFAULT = "default"
PAIRS = ((0, 1),)
CHUNK = 5
"""Audits of one task."""


class World(NamedTuple):
    """How people are drawn, and by which model they are learnt.

    Attributes:
        draw: people from a generator.
        model: of ``fleets.MODELS``.
        more_exposed: group 0 or 1; None where neither is.
        outcome: of a positive prediction.
    """

    draw: Callable[[np.random.Generator], People]
    model: str
    more_exposed: int | None = 1
    outcome: str = "benefit"


def flipped(rng: np.random.Generator, *, share: float = 0.3) -> People:
    """Labels of one group are flipped three times in ten."""
    return people(rng, N_PEOPLE, flipped=(0.0, share))


def hardly_flipped(rng: np.random.Generator) -> People:
    """Labels of both groups are flipped, of one a little more often."""
    return people(rng, N_PEOPLE, flipped=(0.1, 0.2))


def noisier(rng: np.random.Generator, *, noise: tuple[float, float] = (0.5, 3.0)) -> People:
    """Many weak features, and labels that follow them loosely in one group."""
    features, group = rng.normal(size=(N_PEOPLE, 20)), rng.integers(0, 2, N_PEOPLE)
    luck = rng.logistic(size=N_PEOPLE) * np.array(noise)[group]
    labels = (features[:, :5].sum(axis=1) + luck > 0).astype(np.int64)
    return People(features, labels, group, np.arange(N_PEOPLE))


def hardly_noisier(rng: np.random.Generator) -> People:
    """The same with less of a difference."""
    return noisier(rng, noise=(1.0, 2.0))


def minority(rng: np.random.Generator) -> People:
    """A tenth of the people, with a relation of their own that the model can hardly learn."""
    features = rng.normal(size=(N_PEOPLE, 4))
    group = (rng.random(N_PEOPLE) < 0.1).astype(np.int64)
    sides = np.where(group == 1, -features[:, 1], features[:, 0])
    labels = (sides + 0.3 * rng.normal(size=N_PEOPLE) > 0).astype(np.int64)
    return People(features, labels, group, np.arange(N_PEOPLE))


def few(rng: np.random.Generator) -> People:
    """Eighty people of a thousand, like the others."""
    drawn = people(rng, N_PEOPLE, flipped=(0.15, 0.15))
    group = np.zeros(N_PEOPLE, dtype=np.int64)
    group[rng.choice(N_PEOPLE, 80, replace=False)] = 1
    return drawn._replace(group=group)


def harmed(rng: np.random.Generator) -> People:
    """A harm task in which one group has about 1.5 times the rate, and the exposure, of the other.

    Its labels follow the features more loosely, and more of its people have label 1. The ratios
    of rate to exposure are the same.
    """
    n = 2 * N_PEOPLE
    features, group = rng.normal(size=(n, 40)), rng.integers(0, 2, n)
    luck = rng.logistic(size=n) * np.array([0.4, 2.0])[group]
    middle = np.array([-0.95, -0.7])[group]
    labels = (features[:, :4].sum(axis=1) + luck + middle > 0).astype(np.int64)
    return People(np.column_stack([features, group]), labels, group, np.arange(n))


WORLDS = {
    **{
        f"flipped labels, {model}": World(flipped, model)
        for model in ("1nn", "tree", "forest", "extra trees")
    },
    **{
        f"minority with a relation of its own, {model}": World(minority, model)
        for model in ("forest", "boosting", "1nn")
    },
    **{
        f"hardly more flipped labels, {model}": World(hardly_flipped, model)
        for model in ("1nn", "tree", "forest", "extra trees", "boosting", "15nn")
    },
    **{f"noisier labels, {model}": World(noisier, model) for model in ("forest", "logistic")},
    **{
        f"hardly noisier labels, {model}": World(hardly_noisier, model)
        for model in ("forest", "logistic", "boosting")
    },
    "double disadvantage in a harm task, logistic": World(harmed, "logistic", 1, "harm"),
    "80 people, 5nn": World(few, "5nn", None),
}


def evidence_of(panel: Panel, attacks: tuple[str, ...], *, outcome: str) -> Evidence:
    """What an audit of one setting decides by some attacks."""
    measured = ([measure_panel(panel, Plan(), attack)] for attack in attacks)
    tests = [attack_tests(one, PAIRS, random=True) for one in measured]
    return decide(tests, PAIRS, outcome=outcome)


def audit_once(world: World, seed: tuple[int, ...]) -> Counter:
    """Whom the default audit, and each attack alone, names; keys (attack, what)."""
    rng = np.random.default_rng(seed)
    drawn = world.draw(rng)
    scores = scores_of(fleet(MODELS[world.model], drawn, N_SPLITS, rng))
    panel, counted = exact_panel(scores, drawn.group[None]), Counter()
    chosen = {DEFAULT: deciding_attacks([panel], Plan())}
    for name, attacks in (chosen | {attack: (attack,) for attack in panel.pooled}).items():
        found = evidence_of(panel, attacks, outcome=world.outcome)
        differs = bool(found.exposures_differ[0, 0])
        counted[name, f"group {found.more_exposed[0, 0]}"] += differs
        counted[name, "disparity"] += bool(found.shown[0, 0])
        counted[name, "double"] += bool(found.double[0, 0] >= 0)
        counted[name, "both"] += differs and bool(found.benefits_differ[0, 0])
        counted[name, "contradicted"] += bool(found.contradicted[0, 0])
    return counted


def double_once(seed: int) -> tuple[bool, bool]:
    """Whether both differences of the harm task are significant, and a double disadvantage said.

    With everything that a release carries and an audit looks at, downgrades included.
    """
    drawn = harmed(np.random.default_rng((26, seed)))
    release = pcer.release_from_estimator(
        MODELS["logistic"],
        drawn.features,
        drawn.labels,
        sensitive_features={"group": np.array(["a", "b"])[drawn.group]},
        outcome="harm",
        random_state=seed,
        progress=False,
        options=pcer.Options(public_data=True, n_jobs=1),
    )
    found = pcer.audit(release, pcer.Plan(resamples=1, null_draws=1)).budgets[0]
    (pair,) = found.pairs
    answer = pair.exposure_answer
    is_beyond = answer.answer == "differs" or answer.downgraded is not None
    return is_beyond and pair.better_off is not None, found.double_disadvantage == ["b"]


def memorisation(made: Fleet) -> np.ndarray:
    """Mean rise of the probability of the true label by training on a person, of both groups."""
    right = np.where(made.labels == 1, made.probability, 1 - made.probability)
    inside = np.where(made.member, right, np.nan)
    rise = np.nanmean(inside, axis=0) - np.nanmean(np.where(made.member, np.nan, right), axis=0)
    return np.array([np.nanmean(rise[made.group == k]) for k in range(2)])


def truth_once(world: World, seed: tuple[int, ...]) -> np.ndarray:
    """Memorisation of both groups, by 120 models of one draw of people."""
    rng = np.random.default_rng(seed)
    return memorisation(fleet(MODELS[world.model], world.draw(rng), 120, rng))


def _task(task: tuple[str, int, int]) -> Counter:
    name, first, n = task
    number, counted = list(WORLDS).index(name), Counter()
    for k in range(first, first + n):
        counted.update(audit_once(WORLDS[name], (24, number, k)))
    return counted


def _truth(name: str) -> np.ndarray:
    number = list(WORLDS).index(name)
    return np.mean([truth_once(WORLDS[name], (25, number, k)) for k in range(20)], axis=0)


def tasks(names: list[str], n_audits: int) -> Iterator[tuple[str, int, int]]:
    for name in names:
        for first in range(0, n_audits, CHUNK):
            yield name, first, min(CHUNK, n_audits - first)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--world", action="append", choices=WORLDS)
    parser.add_argument("--truth", action="store_true", help="only the memorisation of each world")
    parser.add_argument("--double", action="store_true", help="whole releases of the harm task")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = given.world or list(WORLDS)
    with ProcessPoolExecutor(given.jobs) as pool:
        if given.truth:
            for name, found in zip(names, pool.map(_truth, names), strict=True):
                print(f"{name:<48}{found[0]:9.4f}{found[1]:9.4f}", flush=True)
            return
        counted: dict[str, Counter] = {name: Counter() for name in names}
        if given.double:
            found = np.array(list(pool.map(double_once, range(given.audits))))
            both, said = found[:, 0].sum(), (found[:, 0] & found[:, 1]).sum()
            print(
                f"double disadvantage: both significant in {both} of {given.audits}, said in {said}"
            )
            return
        chunks = list(tasks(names, given.audits))
        for (name, *_), found in zip(chunks, pool.map(_task, chunks), strict=True):
            counted[name].update(found)
    for name in names:
        print(f"\n{name} (true: {WORLDS[name].more_exposed}), of {given.audits}", flush=True)
        kinds = ("group 0", "group 1", "disparity", "double", "both", "contradicted")
        print(f"  {'attack':<26}" + "".join(f"{kind:>13}" for kind in kinds))
        for attack in dict.fromkeys(key[0] for key in counted[name]):
            row = "".join(f"{counted[name][attack, kind]:>13}" for kind in kinds)
            print(f"  {attack:<26}{row}")
    if given.json:
        found = {n: {" | ".join(k): v for k, v in c.items()} for n, c in counted.items()}
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
