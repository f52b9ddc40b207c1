"""Worlds in which one group is more exposed, or none is: whom do audits name?

    python -m benchmarks.alarms planted --audits 200 --jobs 16
    python -m benchmarks.alarms planted --world "flipped labels, 1nn" --audits 20
    python -m benchmarks.alarms oracle [DRAWS] [SEED]

Each audit has people of its own and 20 models of random splits, attacked and decided as
a release would be, before any downgrade. ``default`` is what an audit says, by two
attacks; every other row is one attack alone. The truth of a planted world is the group
with the higher mean memorisation (rise of the probability of the true label); it was
found by 120 models of 20 draws of people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.worlds.fleets import (
    Fleet,
    People,
    exact_panel,
    fleet,
    people,
    scores_of,
)

import pcer
from pcer.measuring.choose_attacks import deciding_attacks
from pcer.measuring.evidence import Evidence, decide
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import attack_tests
from pcer.measuring.plan import Plan
from pcer.release.panel import Panel

MODELS = {
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(),
    "forest": RandomForestClassifier(n_estimators=30),
    "extra trees": ExtraTreesClassifier(n_estimators=30),
    "boosting": HistGradientBoostingClassifier(max_iter=30),
    "1nn": KNeighborsClassifier(1),
    "5nn": KNeighborsClassifier(5),
    "15nn": KNeighborsClassifier(15),
}

N_SPLITS, N_PEOPLE, N_ORACLE = 20, 1_000, 60
SURE = 1.959964  # errors from which on the oracle finds a difference
DEFAULT = "default"
PAIRS = ((0, 1),)


class World(NamedTuple):
    """How people are drawn, and by which model they are learnt."""

    draw: Callable[[np.random.Generator], People]
    model: str  # of ``MODELS``
    more_exposed: int | None = 1
    outcome: str = "benefit"


def flipped(
    rng: np.random.Generator, *, shares: tuple[float, float] = (0.0, 0.3)
) -> People:
    """Labels of one group are flipped more often, three times in ten or a little."""
    return people(rng, N_PEOPLE, flipped=shares)


def noisier(
    rng: np.random.Generator, *, noise: tuple[float, float] = (0.5, 3.0)
) -> People:
    """Many weak features, and labels that follow them loosely in one group."""
    features = rng.normal(size=(N_PEOPLE, 20))
    group = rng.integers(0, 2, N_PEOPLE)
    luck = rng.logistic(size=N_PEOPLE) * np.array(noise)[group]
    labels = (features[:, :5].sum(axis=1) + luck > 0).astype(np.int64)
    return People(features, labels, group, np.arange(N_PEOPLE))


def minority(rng: np.random.Generator) -> People:
    """A tenth of the people, with a relation of their own that is hard to learn."""
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
    """A harm task; one group has about 1.5 times the other's rate, and its exposure.

    Its labels follow the features more loosely, and more of its people have label 1.
    The ratios of rate to exposure are the same.
    """
    n = 2 * N_PEOPLE
    features = rng.normal(size=(n, 40))
    group = rng.integers(0, 2, n)
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
        f"hardly more flipped labels, {model}": World(
            partial(flipped, shares=(0.1, 0.2)), model
        )
        for model in ("1nn", "tree", "forest", "extra trees", "boosting", "15nn")
    },
    **{
        f"noisier labels, {model}": World(noisier, model)
        for model in ("forest", "logistic")
    },
    **{
        f"hardly noisier labels, {model}": World(
            partial(noisier, noise=(1.0, 2.0)), model
        )
        for model in ("forest", "logistic", "boosting")
    },
    "double disadvantage in a harm task, logistic": World(
        harmed, "logistic", 1, "harm"
    ),
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
    panel = exact_panel(scores, drawn.group[None])
    counted = Counter()
    chosen = {DEFAULT: deciding_attacks([panel], Plan())}
    for name, attacks in (
        chosen | {attack: (attack,) for attack in panel.pooled}
    ).items():
        found = evidence_of(panel, attacks, outcome=world.outcome)
        differs = bool(found.exposures_differ[0, 0])
        counted[name, f"group {found.more_exposed[0, 0]}"] += differs
        counted[name, "ratio"] += bool(found.ratios_differ[0, 0])
        counted[name, "double"] += bool(found.double_disadvantage[0, 0] >= 0)
        counted[name, "both"] += differs and bool(found.benefits_differ[0, 0])
        counted[name, "contradicted"] += bool(found.contradicted[0, 0])
    return counted


class Beside(NamedTuple):
    """Which group an oracle and an audit of the same people find more exposed."""

    by_oracle: int | None  # None where it finds no difference
    by_audit: int | None


def memorisation_of(made: Fleet) -> np.ndarray:
    """(record,) rise of the true label's probability by training on the record."""
    of_truth = np.where(made.labels == 1, made.probability, 1 - made.probability)
    inside = np.where(made.member, of_truth, np.nan)
    outside = np.where(made.member, np.nan, of_truth)
    return np.asarray(np.nanmean(inside, axis=0) - np.nanmean(outside, axis=0))


def oracle_once(world: World, seed: tuple[int, ...]) -> Beside:
    """What 60 more models would show of the people of one audit.

    The oracle compares the groups' mean memorisation with its error over records: it
    measures better than 20 models, not otherwise, and so bounds what can be found.
    """
    rng = np.random.default_rng(seed)
    drawn = world.draw(rng)
    model = MODELS[world.model]
    scores = scores_of(fleet(model, drawn, N_SPLITS, rng))
    memory = memorisation_of(fleet(model, drawn, N_ORACLE, rng))
    of_groups = [memory[drawn.group == k] for k in (0, 1)]
    difference = of_groups[1].mean() - of_groups[0].mean()
    error = np.sqrt(sum(one.var(ddof=1) / len(one) for one in of_groups))

    panel = exact_panel(scores, drawn.group[None])
    chosen = deciding_attacks([panel], Plan())
    found = evidence_of(panel, chosen, outcome=world.outcome)
    differs = bool(found.exposures_differ[0, 0])
    return Beside(
        by_oracle=int(difference > 0) if abs(difference) > SURE * error else None,
        by_audit=int(found.more_exposed[0, 0]) if differs else None,
    )


def double_once(seed: int) -> tuple[bool, bool]:
    """Whether both differences of the harm task are significant, and are said together.

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
        n_jobs=1,
        disclosure=pcer.Disclosure(public_data=True),
    )
    found = pcer.audit(release, pcer.Plan(resamples=1, null_draws=1)).settings[0]
    (pair,) = found.pairs
    is_beyond = (
        pair.exposure.answer == "differs" or pair.exposure.downgraded is not None
    )
    return (
        is_beyond and pair.outcomes.answer == "differ",
        pair.double_disadvantage.group == "b",
    )
