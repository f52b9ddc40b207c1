"""Attacks on one group alone, and sweeps whose truth is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pcer.attacks import BudgetScores, attack_models
from pcer.attacks.pooled import Groups, PairedPool, Pool, Sides, clustered_auc
from pcer.attacks.ranking import Ranked, Ranker
from tests.worlds.sweeps import scaled_logits, splits


def ranked(score, member) -> Ranked:
    """The ranks of one group, scores (record,)."""
    whole = np.zeros(len(score), dtype=np.int64)
    return Ranker([whole], [1]).rank(np.asarray(score, dtype=np.float64), member)[0][0]


def first_of(pool: Pool) -> SimpleNamespace:
    """The numbers of a pool's first group."""
    found = pool.exposures(0)
    names = ("value", "standard_error", "null_error", "n_records")
    numbers = {name: float(getattr(found, name)[0]) for name in names}
    return SimpleNamespace(**numbers, n_excluded=int(pool.n_excluded(0)[0]))


def paired_cost(values, member) -> SimpleNamespace:
    """Mean of the paired differences; both arguments are (model, record)."""
    n_models, n_records = values.shape
    pool = PairedPool([Groups(np.zeros(n_records, dtype=np.int64), 1)], n_models=n_models)
    pool.add(slice(None), values, Sides(member))
    return first_of(pool)


def pooled_auc(scores, member) -> SimpleNamespace:
    """``clustered_auc`` as numbers."""
    return first_of(clustered_auc(scores, member))


def sweep(
    rng, *, n_models=10, n_records=300, n_groups=2, shift=1.0, missing=0.0, **changes
) -> BudgetScores:
    """Models whose records of group k are remembered by ``shift`` (one number, or by group)."""
    labels = rng.integers(0, 2, n_records)
    group = rng.integers(0, n_groups, n_records)
    member = splits(labels, n_models, rng)
    own = np.broadcast_to(shift, n_groups)[group]
    logit = scaled_logits(member, rng, shift=own, labels=labels)
    group[rng.random(n_records) < missing] = -1
    given = {
        "logits": logit * (2 * labels - 1),
        "labels": labels,
        "member": member,
        "group": group,
        "group_names": tuple("abcd"[:n_groups]),
    }
    return BudgetScores(**(given | changes))


def rows_of(scores: BudgetScores) -> dict:
    """Pooled rows by cost and group."""
    return {(row.proxy, row.group): row for row in attack_models([scores])[0].rows}
