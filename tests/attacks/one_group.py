"""Attacks on one group alone, as its records would be attacked without any other group."""

from __future__ import annotations

import numpy as np

from pcer.attacks.pooled import PairedPool, PooledAdvantage, Sides, paired
from pcer.attacks.ranking import Ranker
from pcer.attacks.single import Advantage, ranked_tpr_excess


def paired_cost(values, member) -> PooledAdvantage:
    """Mean of the paired differences; both arguments are (model, record)."""
    n_models, n_records = values.shape
    pool = PairedPool(np.zeros(n_records, dtype=np.int64), 1, n_models=n_models)
    pool.add(slice(None), paired(values, Sides(member)))
    return pool.results()[0]


def tpr_excess(score, member, *, fpr) -> Advantage | None:
    """``ranked_tpr_excess`` of scores (record,)."""
    whole = np.zeros(len(score), dtype=np.int64)
    ranked = Ranker([whole], [1]).rank(np.asarray(score, dtype=np.float64), member)[0][0]
    return ranked_tpr_excess(ranked, fpr=fpr)
