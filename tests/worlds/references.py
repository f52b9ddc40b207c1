"""One model with a known truth, and reference models that never saw its records.

Every record is as hard for all models; beyond that each model has its own view of it. A
model that was trained on a record may be surer of its label.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pcer.attacks import SettingScores, beyond_reference, log_odds

GROUPS = ("men", "women")


@dataclass(frozen=True, kw_only=True)
class OneModel:
    """What to simulate: records, how much surer training makes of each group (log odds)."""

    n: int
    remembered: tuple[float, float] = (0.0, 0.0)
    hardness: float = 2.0  # spread of what all models find hard
    view: float = 0.7  # spread of what one model alone thinks
    n_references: int = 4
    train_share: float = 0.5


class DrawnModel(NamedTuple):
    """Arrays over the record; ``reference`` is (record, model)."""

    label: np.ndarray
    score: np.ndarray
    reference: np.ndarray
    group: np.ndarray
    member: np.ndarray


def draw_model(world: OneModel, rng: np.random.Generator) -> DrawnModel:
    """One model and its references, by a random split."""
    n = world.n
    label, group = rng.random(n) < 0.4, (rng.random(n) < 0.4).astype(np.int64)
    member = np.zeros(n, dtype=bool)
    member[rng.permutation(n)[: round(world.train_share * n)]] = True
    usual = 1 + rng.normal(0, world.hardness, n)
    own = (
        usual
        + rng.normal(0, world.view, n)
        + np.array(world.remembered)[group] * member
    )
    others = usual[:, None] + rng.normal(0, world.view, (n, world.n_references))
    sign = np.where(label, 1.0, -1.0)
    return DrawnModel(
        label, expit(own * sign), expit(others * sign[:, None]), group, member
    )


def scores_of(drawn: DrawnModel) -> SettingScores:
    """The same as attacks take it."""
    logits = log_odds(drawn.score)
    held = beyond_reference(
        np.where(drawn.label, logits, -logits), drawn.reference, drawn.label
    )
    return SettingScores(
        logits=logits[None],
        labels=drawn.label.astype(np.int64),
        member=drawn.member[None],
        group=drawn.group,
        group_names=GROUPS,
        reference=held[None],
    )
