"""Groups by coin, each attacked exactly: how often does an audit by one attack raise an alarm?

    python -m benchmarks.alarms coins --audits 400
    python -m benchmarks.alarms coins --people 1000 --minority 80 --attack rmia_advantage

Alarms are counted before anything downgrades them. A sound test alarms in at most 5 %: of 400
audits, more than 31 have chance .01 of it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from tests.worlds.fleets import exact_panel, fleet, people, scores_of

from benchmarks.worlds.planted import MODELS
from pcer.auditing.plan import Plan
from pcer.auditing.tests import alarms

FLIPS = 10
"""Attributes drawn for each fleet; models take most of the time."""

FLIPPED = (0.15, 0.15)
"""Labels, in both groups: some people stand alone among others, and 15 nearest give them away."""

N_SPLITS = 20


def count_alarms(
    model: str,
    n_people: int,
    n_audits: int,
    seed: int,
    *,
    attack: str = "lira_advantage",
    minority: int | None = None,
) -> Counter:
    """How many audits of groups by coin alarm, by kind; ten for every draw of people and models.

    ``minority`` is how many people are in the second group; about half if None.
    """
    rng, counted = np.random.default_rng(seed), Counter()
    for first in range(0, n_audits, FLIPS):
        drawn = people(rng, n_people, flipped=FLIPPED, apart=1.5)
        scores = scores_of(fleet(MODELS[model], drawn, N_SPLITS, rng))
        n = min(FLIPS, n_audits - first)
        in_second = rng.binomial(n_people, 0.5) if minority is None else minority
        codes = np.tile(np.arange(n_people) < in_second, (n, 1)).astype(np.int64)
        panel = exact_panel(scores, rng.permuted(codes, axis=1))
        pairs = tuple((2 * k, 2 * k + 1) for k in range(n))
        found = alarms([panel], pairs, Plan(), cost=attack, outcome="benefit", n_families=n)
        counted["disparity"] += int(found.shown.sum())
        counted["double"] += int((found.double >= 0).sum())
        counted["more exposed"] += int(found.differ.sum())
    return counted
