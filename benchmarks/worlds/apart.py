"""Do errors of exposures and differences hold for groups that live apart, or do not?

    python -m benchmarks.alarms apart --draws 400 --jobs 16                  all worlds
    python -m benchmarks.alarms apart --draws 40 --world "knn 600" --world svm

Every draw takes new people, trains 20 models on random 70 % of them and attacks both
groups. In mirror worlds the groups have one distribution and are far apart in a feature
that means nothing, so that a model of neighbourhoods treats them as two data sets.
Control worlds have a real difference between groups that are mixed; their truth is the
mean over the draws.

Printed for each attack: coverage of 95 % intervals of exposures and of differences; the
standard deviation of differences over their errors (1 if these are right); alarms of
one attack alone, and of the two that decide an audit: exposures differ, ratios differ,
double disadvantage. In brackets the same with errors that take all groups for mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.worlds.fleets import exact_panel
from tests.worlds.sweeps import splits

from pcer import Plan
from pcer.attacks import SettingScores, log_odds
from pcer.measuring.evidence import decide
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import attack_tests
from pcer.release.panel import Panel

N_MODELS = 20
ATTACKS = ("paired_gap", "paired_confidence", "lira_advantage", "rmia_advantage")
DECIDING = ("rmia_advantage", "paired_confidence")
KINDS = ("exposures differ", "ratios differ", "double")
COVERED = 1.96


class World(NamedTuple):
    """How people are drawn and which models are trained on them."""

    people: Callable[
        [np.random.Generator, int], tuple[np.ndarray, ...]
    ]  # features, labels, groups
    model: Callable[[int], Any]  # from a seed, an estimator
    n: int
    is_alike: bool = True  # whether both groups have one distribution


def mirror(
    rng: np.random.Generator, n: int, apart: float = 6.0
) -> tuple[np.ndarray, ...]:
    """Two groups of one kind, ``apart`` standard deviations from each other."""
    group = np.arange(n) % 2
    features = rng.normal(size=(n, 5))
    chance = _logistic(2 * (features[:, 1] + features[:, 2] * features[:, 3]))
    labels = (rng.random(n) < chance).astype(np.int64)
    features[:, 0] += apart * group
    return features, labels, group


def heavy(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Features with three degrees of freedom; groups drawn at random."""
    features = rng.standard_t(3, size=(n, 20))
    chance = _logistic(0.5 * (features[:, 0] + features[:, 1]))
    return features, (rng.random(n) < chance).astype(np.int64), np.arange(n) % 2


def flipped(
    rng: np.random.Generator, n: int, n_features: int, share: float
) -> tuple[np.ndarray, ...]:
    """Mixed groups; of the second, a share has the wrong label."""
    group = np.arange(n) % 2
    features = rng.normal(size=(n, n_features))
    labels = (features[:, :4].sum(axis=1) + rng.normal(size=n) > 0).astype(np.int64)
    wrong = (group == 1) & (rng.random(n) < share)
    return features, np.where(wrong, 1 - labels, labels), group


def _logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


WORLDS = {
    "t(3) logistic": World(
        heavy, lambda seed: LogisticRegression(C=100.0, max_iter=300), 600
    ),
    "tree": World(
        mirror, lambda seed: DecisionTreeClassifier(random_state=seed), 1_000
    ),
    "knn 600": World(mirror, lambda seed: KNeighborsClassifier(5), 600),
    "knn 2000": World(mirror, lambda seed: KNeighborsClassifier(5), 2_000),
    "svm": World(mirror, lambda seed: SVC(), 1_500),
    "sharp svm": World(partial(mirror, apart=10.0), lambda seed: SVC(gamma=3.0), 1_500),
    "noisier labels, logistic": World(
        partial(flipped, n_features=20, share=0.3),
        lambda seed: LogisticRegression(max_iter=200),
        1_000,
        is_alike=False,
    ),
    "flipped labels, forest": World(
        partial(flipped, n_features=6, share=0.1),
        lambda seed: RandomForestClassifier(30, random_state=seed),
        1_000,
        is_alike=False,
    ),
    "mixed tree": World(
        partial(mirror, apart=0.0),
        lambda seed: DecisionTreeClassifier(random_state=seed),
        1_000,
    ),
    "mixed knn": World(
        partial(mirror, apart=0.0), lambda seed: KNeighborsClassifier(5), 1_000
    ),
}


def draw_panel(world: World, rng: np.random.Generator) -> Panel:
    """New people, and what an audit sees of models trained on parts of them."""
    features, labels, group = world.people(rng, world.n)
    member = splits(labels, N_MODELS, rng)
    logits = np.empty(member.shape)
    for s, row in enumerate(member):
        model = world.model(int(rng.integers(2**31))).fit(features[row], labels[row])
        if hasattr(model, "predict_proba"):
            logits[s] = log_odds(model.predict_proba(features)[:, 1])
        else:
            logits[s] = 2 * model.decision_function(features)
    scores = SettingScores(
        logits=logits, labels=labels, member=member, group=group, group_names=("a", "b")
    )
    return exact_panel(scores, group[None])


class Draw(NamedTuple):
    """One audit."""

    value: np.ndarray  # (attack, group)
    alone: np.ndarray  # (attack, group) error of one group's exposure
    difference_error: np.ndarray  # (attack,)
    alarms: (
        np.ndarray
    )  # (attack, kind) of each alone; the last row is of the two that decide


def audited(panel: Panel) -> Draw:
    """What an audit says of one setting with two groups."""
    pairs = ((0, 1),)
    measured = {attack: measure_panel(panel, Plan(), attack) for attack in ATTACKS}
    tests = {
        attack: attack_tests([one], pairs, random=True)
        for attack, one in measured.items()
    }
    said = [[tests[attack]] for attack in ATTACKS]
    said.append([tests[attack] for attack in DECIDING])
    found = [decide(attacks, pairs, outcome="benefit") for attacks in said]
    exposed = [measured[attack].exposed for attack in ATTACKS]
    return Draw(
        value=np.array([one.value for one in exposed]),
        alone=np.array([np.sqrt(one.interval_variance) for one in exposed]),
        difference_error=np.array(
            [tests[attack][1].exposure.error.item() for attack in ATTACKS]
        ),
        alarms=np.array(
            [
                [
                    one.exposures_differ.item(),
                    one.ratios_differ.item(),
                    one.double_disadvantage.item() >= 0,
                ]
                for one in found
            ]
        ),
    )


def draw(name: str, seed: int) -> tuple[Draw, Draw, float]:
    """An audit, the same with groups taken for mixed, and the separation."""
    panel = draw_panel(WORLDS[name], np.random.default_rng([seed, *name.encode()]))
    mixed = {
        attack: replace(one, separation=np.zeros(2))
        for attack, one in panel.pooled.items()
    }
    separation = float(panel.pooled[ATTACKS[0]].separation[0])
    return audited(panel), audited(replace(panel, pooled=mixed)), separation


def summary(draws: list[Draw], *, is_alike: bool) -> dict[str, dict[str, Any]]:
    """By attack, and for the two that decide: coverage of intervals, z and alarms."""
    value, alone, error, alarms = (np.array(part) for part in zip(*draws, strict=True))
    difference = value[..., 1] - value[..., 0]
    truth = value.mean(axis=(0, 2) if is_alike else 0, keepdims=True)
    expected = 0.0 if is_alike else difference.mean(axis=0)
    held = np.abs(value - truth) <= COVERED * alone
    z = (difference - expected) / error
    found: dict[str, dict[str, Any]] = {
        attack: {
            "exposures": float(held[:, a].mean()),
            "differences": float((np.abs(z[:, a]) <= COVERED).mean()),
            "sd of z": float(z[:, a].std()),
        }
        for a, attack in enumerate(ATTACKS)
    }
    found["two attacks"] = {}
    for a, row in enumerate(found.values()):
        row |= {kind: int(alarms[:, a, k].sum()) for k, kind in enumerate(KINDS)}
    return found
