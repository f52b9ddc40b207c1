"""A threshold of their own for everybody: who is found if each person's false alarms are rare.

One threshold for a whole group lets most false alarms fall on the few people whose scores are high
anyway. Here each person is measured against the models that did not have the person, the target
left out: under a Gaussian the target's distance from their mean, in deviations, is Student's, so
every person's rate of false alarms is the one that was asked for, with any number of models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pcer.attacks.groups import BudgetScores
from pcer.attacks.lira import offline_ratio, other_models
from pcer.attacks.pooled import PooledAdvantage, paired_cost
from pcer.attacks.single import true_label_logit
from pcer.errors import require_open_unit
from pcer.metrics import BoolArray, FloatArray
from pcer.release import PooledExposure

LEAST_OUT = 3
"""Models without a person that make a threshold; whichever is the target, two others remain."""


class PersonalAlarms(NamedTuple):
    """Whom an attacker names who sets each person's own threshold.

    Attributes:
        raised: (model, record) whether the record is named as a member.
        known: (record,) whether enough models were without it; no other is ever named.
    """

    raised: BoolArray
    known: BoolArray


def personal_alarms(scaled_logit: FloatArray, member: BoolArray, *, fpr: float) -> PersonalAlarms:
    """Name a record where models without it would score so high with chance ``fpr`` only.

    Args:
        scaled_logit: (model, record) log odds of the true label.
        member: (model, record).
        fpr: every record's own rate of false alarms, between 0 and 1.
    """
    from scipy.stats import t

    require_open_unit(fpr=fpr)
    others = other_models(scaled_logit, member)
    known = (~member).sum(axis=0) >= LEAST_OUT
    n_out = np.maximum(others.n_out, LEAST_OUT - 1)
    with np.errstate(invalid="ignore"):
        distance = offline_ratio(scaled_logit, others) / np.sqrt(1 + 1 / n_out)
        raised = distance > t.isf(fpr, n_out - 1)
    return PersonalAlarms(raised & known, known)


def personal_tpr_excess(
    scaled_logit: FloatArray, member: BoolArray, *, fpr: float
) -> PooledAdvantage:
    """How much more often people are named by models that had them than by models that did not.

    The mean over people of their own true positive rate, minus that of their own false positive
    rate as it was seen: 0 at chance whatever the scores' distribution. Its error is that of paired
    costs.

    Args:
        scaled_logit: (model, record) log odds of the true label, records of one group.
        member: (model, record).
        fpr: as of ``personal_alarms``.
    """
    raised, known = personal_alarms(scaled_logit, member, fpr=fpr)
    found = paired_cost(raised[:, known].astype(np.float64), member[:, known])
    return found._replace(n_excluded=found.n_excluded + int((~known).sum()))


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
    logit = true_label_logit(scores.logits, scores.labels)
    rows = []
    for k, name in enumerate(scores.group_names):
        chosen = scores.group == k
        found = personal_tpr_excess(logit[:, chosen], scores.member[:, chosen], fpr=fpr)
        if found.n_records > 0:
            rows.append(
                PooledExposure(
                    epsilon=None if math.isinf(epsilon) else epsilon,
                    group=name,
                    proxy=f"personal_tpr_excess_at_{100 * fpr:g}_percent",
                    value=found.value,
                    standard_error=found.standard_error,
                    n_records=found.n_records,
                    n_excluded=found.n_excluded,
                )
            )
    return rows
