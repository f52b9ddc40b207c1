"""Three identical records a person in one group: the forest remembers those people better.

All records of a person are in training, or none is, and the audit is told so. Which group does each
attack call the more exposed one?
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pcer.auditing.plan import Plan
from pcer.auditing.tests import alarms
from tests.worlds.fleets import MODELS, People, exact_panel, fleet, people, scores_of

ATTACKS = ("auc_advantage", "rmia_advantage", "paired_confidence", "lira_advantage")
COPIES = 3
N_SPLITS = 20


def count_named(
    n_people: int, n_audits: int, seed: int, *, model: str = "forest"
) -> dict[str, Counter]:
    """By attack: how often each group is called the more exposed one, or "none" is."""
    rng = np.random.default_rng(seed)
    named = {attack: Counter() for attack in ATTACKS}
    clumps = np.array([1.0, COPIES])
    for _ in range(n_audits):
        drawn = people(rng, n_people, apart=0.5, n_features=5)
        times = np.where(drawn.group == 1, COPIES, 1)
        drawn = People(*(np.repeat(part, times, axis=0) for part in drawn))
        scores = scores_of(fleet(MODELS[model], drawn, N_SPLITS, rng))
        panel = exact_panel(scores, scores.group[None])
        for attack in ATTACKS:
            found = alarms(
                [panel], ((0, 1),), Plan(), cost=attack, outcome="harm", inflation=clumps
            )
            without, twice = panel.pooled[attack].value
            group = "copies" if twice > without else "no copies"
            named[attack][group if found.differ[0, 0] else "none"] += 1
    return named
