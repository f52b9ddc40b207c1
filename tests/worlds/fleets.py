"""Made-up people, and many models of them on random splits: what the worlds share."""

from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from pcer.attacks import Divisions, SettingScores, attack_models, log_odds
from pcer.attacks.attack import coin_panel
from pcer.release.panel import Panel, PooledExposures

SHARE = 0.7
"""Of the people, in training."""


class People(NamedTuple):
    """Arrays over the record; ``person`` is the same for all records of one person."""

    features: np.ndarray
    labels: np.ndarray
    group: np.ndarray
    person: np.ndarray


class Fleet(NamedTuple):
    """What models of random splits say: ``probability`` and ``member`` are (model, record)."""

    probability: np.ndarray
    member: np.ndarray
    labels: np.ndarray
    group: np.ndarray


def people(rng, n, *, flipped=(0.0, 0.0), apart=2.0, n_features=2) -> People:
    """Two clouds, one a label, and groups by coin; labels are flipped more often in one of them."""
    labels, group = rng.integers(0, 2, n), rng.integers(0, 2, n)
    features = rng.normal(size=(n, n_features))
    features[:, 0] += apart * (2 * labels - 1)
    labels = np.where(rng.random(n) < np.array(flipped)[group], 1 - labels, labels)
    return People(features, labels, group, np.arange(n))


def fleet(model, drawn: People, n_models: int, rng) -> Fleet:
    """Fit fresh copies of a model on random splits of the people."""
    persons = np.unique(drawn.person)
    member = np.zeros((n_models, len(drawn.labels)), dtype=bool)
    probability = np.empty(member.shape)
    for s, inside in enumerate(member):
        chosen = rng.permutation(persons)[: round(SHARE * len(persons))]
        inside[:] = np.isin(drawn.person, chosen)
        fresh = clone(model)
        if "random_state" in fresh.get_params():
            fresh.set_params(random_state=s)
        fitted = fresh.fit(drawn.features[inside], drawn.labels[inside])
        probability[s] = fitted.predict_proba(drawn.features)[:, 1]
    return Fleet(probability, member, drawn.labels, drawn.group)


def scores_of(
    made: Fleet, *, dtype=np.float64, from_probabilities=True
) -> SettingScores:
    """As an estimator's scores come to the attacks."""
    return SettingScores(
        logits=log_odds(made.probability).astype(dtype),
        labels=made.labels,
        member=made.member,
        group=made.group,
        group_names=("a", "b"),
        predicted=made.probability >= 0.5,
        from_probabilities=from_probabilities,
    )


def exact_panel(scores: SettingScores, codes) -> Panel:
    """What an audit would see of divisions (division, record), each attacked like a real one."""
    views = [replace(scores, group=row.astype(np.int64)) for row in codes]
    found: dict[str, list] = {}
    for one in attack_models(views):
        for row in sorted(one.rows, key=lambda row: row.group):
            found.setdefault(row.attack, []).append(row)
    pools, names = {}, [field.name for field in fields(PooledExposures)]
    for attack, rows in found.items():
        if len(rows) == 2 * len(codes):
            numbers = np.array(
                [[getattr(row, name) for row in rows] for name in names], np.float64
            )
            pools[attack] = PooledExposures(**dict(zip(names, numbers, strict=True)))
    return replace(coin_panel(scores, Divisions(codes, 2), {}), pooled=pools)
