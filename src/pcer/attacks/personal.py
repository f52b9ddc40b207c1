"""A threshold of their own for everybody: who is found if each person's false alarms are rare.

One threshold for a whole group lets most false alarms fall on the few people whose scores are high
anyway. Here each person is measured against the models that did not have the person. Every such
model in turn is left out, and the others set a threshold that it should exceed with the rate that
was asked for: under a Gaussian its distance from their mean, in deviations, is Student's. Models
that had the person meet the same thresholds, so that at chance both are named equally often,
whatever the distribution; a threshold from one model more would name them more often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcer.attacks.exposure import pooled_row
from pcer.attacks.groups import BudgetScores, Views
from pcer.attacks.lira import blocks, other_models, variance_of
from pcer.attacks.pooled import PairedPool, PooledAdvantage, Sides, paired
from pcer.attacks.single import true_label_logit
from pcer.errors import require_open_unit
from pcer.metrics import BoolArray, FloatArray
from pcer.release.format import PooledExposure

LEAST_OUT = 3
"""Models without a person that make a threshold; whichever is left out, two others remain."""


class PersonalAlarms(NamedTuple):
    """Whom an attacker names who sets each person's own threshold.

    Attributes:
        raised: (model, record) share of the thresholds at which the model's score names the record
            as a member: 0 or 1 for a model without the record, which meets only that of the others.
        known: (record,) whether enough models were without it; no other is ever named.
    """

    raised: FloatArray
    known: BoolArray


def personal_alarms(scaled_logit: FloatArray, member: BoolArray, *, fpr: float) -> PersonalAlarms:
    """Name a record where models without it would score so high with chance ``fpr`` only.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        fpr: every record's own rate of false alarms, between 0 and 1.
    """
    require_open_unit(fpr=fpr)
    raised, n_out = np.zeros(member.shape), (~member).sum(axis=0)
    for block, values, inside in blocks(scaled_logit, member):
        raised[:, block] = _raised(values, inside, _thresholds(values, inside, fpr))
    known = n_out >= LEAST_OUT
    return PersonalAlarms(raised * known, known)


def _thresholds(values: FloatArray, member: BoolArray, fpr: float) -> FloatArray:
    """(model, record) what the other models without the record set; NaN where they cannot."""
    from scipy.stats import t

    others = other_models(values, member)
    n = np.maximum(others.n_out, LEAST_OUT - 1)
    spread = np.sqrt(variance_of(others.squares_out, others.n_out) * (1 + 1 / n))
    return np.asarray(others.mean_out + t.isf(fpr, n - 1) * spread)


def _raised(values: FloatArray, member: BoolArray, thresholds: FloatArray) -> FloatArray:
    shares = np.zeros(values.shape)
    for threshold, inside in zip(thresholds, member, strict=True):
        shares += (values > threshold) & ~inside
    shares /= np.maximum((~member).sum(axis=0), 1)
    return np.where(member, shares, values > thresholds)


def personal_tpr_excess(scores: BudgetScores, *, fpr: float) -> list[PooledAdvantage]:
    """How much more often people are named by models that had them than by models that did not.

    The mean over a group's people of their own true positive rate, minus that of their own false
    positive rate as it was seen: at chance its mean is 0 whatever the scores' distribution. Its
    error is that of paired costs.

    Args:
        scores: all models of a budget.
        fpr: as of ``personal_alarms``.
    """
    logit, member = true_label_logit(scores.logits, scores.labels), scores.member
    raised, known = personal_alarms(logit, member, fpr=fpr)
    n_groups = len(scores.group_names)
    pool = PairedPool(np.where(known, scores.group, -1), n_groups, n_models=len(member))
    for block, share, inside in blocks(raised, member):
        pool.add(block, paired(share, Sides(inside)))
    unknown = np.bincount(scores.group[~known & (scores.group >= 0)], minlength=n_groups)
    return [
        found._replace(n_excluded=found.n_excluded + int(n))
        for found, n in zip(pool.results(Views([scores]).rates(0).benefit), unknown, strict=True)
    ]


def personal_exposures(
    scores: BudgetScores, *, epsilon: float, fpr: float = 0.01
) -> list[PooledExposure]:
    """For every group, ``personal_tpr_excess`` as a row of ``pooled_exposure``.

    No release has it by itself. An audit takes it as any cost that it does not know by name.

    Args:
        scores: all models of the budget.
        epsilon: the budget; infinite without differential privacy.
        fpr: every person's own rate of false alarms, between 0 and 1.
    """
    proxy = f"personal_tpr_excess_at_{100 * fpr:g}_percent"
    found = zip(scores.group_names, personal_tpr_excess(scores, fpr=fpr), strict=True)
    return [pooled_row(epsilon, name, proxy, one) for name, one in found if one.n_records > 0]
