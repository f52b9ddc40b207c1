"""Attacks on one group alone, and sweeps whose truth is known."""

from types import SimpleNamespace

import numpy as np
from benchmarks.lira import clustered_auc

from pcer.attacks import SettingScores, attack_models
from pcer.attacks.pooled import PairedPool, Sides
from pcer.attacks.single import Ranked, rank
from pcer.attacks.sums import Groups
from pcer.release.panel import PooledExposures
from tests.worlds.sweeps import scaled_logits, splits


def ranked(score, member) -> Ranked:
    """The ranks of one group, scores (record,)."""
    whole = one_group(len(score))
    return rank(np.asarray(score, dtype=np.float64), member, [whole])[whole][0]


def one_group(n_records) -> Groups:
    return Groups(np.zeros(n_records, dtype=np.int64), 1)


def first_of(found: PooledExposures, **more) -> SimpleNamespace:
    """The numbers of the first group."""
    names = ("value", "standard_error", "null_error", "n_records")
    return SimpleNamespace(
        **{name: float(getattr(found, name)[0]) for name in names}, **more
    )


def paired_exposure(values, member) -> SimpleNamespace:
    """Mean of the paired differences; both arguments are (model, record)."""
    sides = Sides(member)
    pool = PairedPool(sides.moved)
    whole = one_group(values.shape[1])
    pool.add(slice(None), values, sides)
    return first_of(pool.exposures(whole), n_excluded=pool.n_excluded(whole)[0])


def pooled_auc(scores, member) -> SimpleNamespace:
    """``clustered_auc`` as numbers."""
    n_excluded = np.isnan(scores).any(axis=0).sum()
    return first_of(clustered_auc(scores, member), n_excluded=n_excluded)


def sweep(
    rng, *, n_models=10, n_records=300, n_groups=2, shift=1.0, missing=0.0, **changes
) -> SettingScores:
    """Models that remember records of group k by ``shift``, one number or by group."""
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
    return SettingScores(**(given | changes))


def rows_of(scores: SettingScores) -> dict:
    """Pooled rows by attack and group."""
    return {(row.attack, row.group): row for row in attack_models([scores])[0].rows}
