"""All attacks on the models of one budget, for the groups of several attributes at once.

What a model says about a record does not depend on who asks: losses, paired differences and the
scores of LiRA and RMIA are computed once, and only ranks and sums are taken group by group. LiRA
alone shrinks towards what its own group shows, so its last step is made for each attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.epsilon import Guesses, count_guesses, total, yardstick
from pcer.attacks.lira import (
    LEAST_MODELS,
    RatioParts,
    blocks,
    offline_ratio,
    other_models,
    ratio_parts,
    rmia_ratio,
    shrunk_ratio,
    surplus_of,
    typical_difference,
)
from pcer.attacks.ranking import Ranked, Ranker
from pcer.attacks.single import (
    Advantage,
    AucPool,
    PooledAdvantage,
    confidence_of,
    loss_of,
    mean_difference,
    paired_differences,
    ranked_auc_advantage,
    ranked_loss_threshold,
    ranked_tpr_excess,
    true_label_logit,
)
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import proxies

SMALL_RATES = {proxies.TPR_AT_1_PERCENT.name: 0.01, proxies.TPR_AT_01_PERCENT.name: 0.001}
"""Proxies of the low end of the ROC curve, by false positive rate."""


@dataclass(frozen=True, kw_only=True)
class BudgetScores:
    """What all models of one budget say about every record, checked once.

    Attributes:
        logits: (seed, record) log odds of label 1, which is predicted from 0 on.
        labels: (record,) 0 or 1.
        member: (seed, record) whether the seed's model was trained on the record.
        group: (record,) position in ``group_names``; -1 where the group is not known.
        group_names: the groups, in the order of the release.
    """

    logits: npt.NDArray[np.floating[Any]]
    labels: IntArray
    member: BoolArray
    group: IntArray
    group_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise ValueError(fault)


class Views:
    """The same models beside several attributes.

    Args:
        scores: one for each attribute; logits, labels and membership are the same arrays.
    """

    def __init__(self, scores: Sequence[BudgetScores]) -> None:
        first = scores[0]
        for one in scores:
            if any(getattr(one, name) is not getattr(first, name) for name in SHARED):
                raise ValueError("All views must share their logits, labels and membership.")
        self.logits, self.labels, self.member = first.logits, first.labels, first.member
        self.group = [one.group for one in scores]
        self.n_groups = [len(one.group_names) for one in scores]

    @property
    def n_models(self) -> int:
        """Seeds of the budget."""
        return len(self.member)

    def ranker(self) -> Ranker:
        """Ranks scores that all views share."""
        return Ranker(self.group, self.n_groups)

    def scaled_logit(self, model: int | slice) -> FloatArray:
        """Log odds of the true label, (record,) or (model, record)."""
        return true_label_logit(self.logits[model], self.labels)


SHARED = ("logits", "labels", "member")

Found = dict[str, Advantage]
PooledFound = dict[str, PooledAdvantage]
ModelAttack = Callable[[Ranked, FloatArray], Advantage | None]


def single_model_attacks(views: Views) -> list[list[list[Found]]]:
    """For every view, model and group, the proxies of that model alone."""
    ranker = views.ranker()
    models = []
    for model, member in enumerate(views.member):
        logit = views.scaled_logit(model)
        loss = loss_of(logit)
        ranked = ranker.rank(logit, member)  # a loss falls as the log odds rise
        models.append([[_of_model(group, loss) for group in view] for view in ranked])
    return [list(view) for view in zip(*models, strict=True)]


def _of_model(ranked: Ranked, loss: FloatArray) -> Found:
    found = {name: attack(ranked, loss) for name, attack in MODEL_ATTACKS.items()}
    return {name: one for name, one in found.items() if one is not None}


def _at_rate(fpr: float) -> ModelAttack:
    return lambda ranked, loss: ranked_tpr_excess(ranked, fpr=fpr)


MODEL_ATTACKS: dict[str, ModelAttack] = {
    proxies.THRESHOLD.name: ranked_loss_threshold,
    proxies.AUC_ADVANTAGE.name: lambda ranked, loss: ranked_auc_advantage(ranked),
    **{name: _at_rate(fpr) for name, fpr in SMALL_RATES.items()},
}
"""By cost, what one model's ranking of one group and its losses give; None where nothing."""


def pooled_attacks(views: Views) -> list[list[PooledFound]]:
    """For every view and group, the proxies over all models; few models give paired costs only."""
    about = _about_records(views)
    found = [_paired_costs(about.paired, *both) for both in _divisions(views)]
    if about.calibrated is not None:
        for name, pools in _calibrated_pools(views, about.calibrated).items():
            for view, pool in zip(found, pools, strict=True):
                for group, result in zip(view, pool.results(), strict=True):
                    group[name] = result
    return found


def count_all_guesses(views: Views) -> list[list[Guesses]]:
    """For every view and group, the guesses of the epsilon alarm; needs 8 models."""
    half, ranker = views.n_models // 2, views.ranker()
    first = slice(0, half)
    stick = yardstick(views.scaled_logit(first), views.member[first], n_models=views.n_models)
    counted = []
    for model in range(half, views.n_models):
        ranked = ranker.rank(stick.score(views.scaled_logit(model)), views.member[model])
        counted.append([[count_guesses(group) for group in view] for view in ranked])
    return [
        [total(group) for group in zip(*view, strict=True)] for view in zip(*counted, strict=True)
    ]


class _Calibrated(NamedTuple):
    """Scores (model, record) that the models give each other; LiRA's before its last step."""

    evidence: RatioParts
    offline: FloatArray
    rmia: FloatArray


class _AboutRecords(NamedTuple):
    paired: dict[str, FloatArray]
    """(record,) differences between the models that trained on it and the others."""
    calibrated: _Calibrated | None


def _about_records(views: Views) -> _AboutRecords:
    """One pass over the records, a few at a time."""
    shape = views.member.shape
    paired = {
        one.name: np.empty(shape[1]) for one in (proxies.PAIRED_GAP, proxies.PAIRED_CONFIDENCE)
    }
    calibrated = None
    if len(views.member) >= LEAST_MODELS:
        parts = (np.empty(shape) for _ in RatioParts._fields)
        calibrated = _Calibrated(RatioParts(*parts), np.empty(shape), np.empty(shape))
    for block, logits, member in blocks(views.logits, views.member):
        logit = true_label_logit(logits, views.labels[block])
        confidence = confidence_of(logit)
        correct = (logits >= 0) == (views.labels[block] == 1)
        paired[proxies.PAIRED_GAP.name][block] = paired_differences(correct, member)
        paired[proxies.PAIRED_CONFIDENCE.name][block] = paired_differences(confidence, member)
        if calibrated is not None:
            others = other_models(logit, member)
            for whole, part in zip(calibrated.evidence, ratio_parts(logit, others), strict=True):
                whole[:, block] = part
            calibrated.offline[:, block] = offline_ratio(logit, others)
            calibrated.rmia[:, block] = rmia_ratio(confidence, member)
    return _AboutRecords(paired, calibrated)


def _divisions(views: Views) -> list[tuple[IntArray, int]]:
    return list(zip(views.group, views.n_groups, strict=True))


def _paired_costs(
    paired: dict[str, FloatArray], group: IntArray, n_groups: int
) -> list[PooledFound]:
    return [
        {name: mean_difference(values[group == k]) for name, values in paired.items()}
        for k in range(n_groups)
    ]


def _calibrated_pools(views: Views, scores: _Calibrated) -> dict[str, list[AucPool]]:
    surplus = surplus_of(scores.evidence)
    pools = {
        proxies.LIRA.name: [
            _lira_pool(views, scores.evidence, surplus, *division) for division in _divisions(views)
        ]
    }
    ranker = views.ranker()
    for name, shared in (
        (proxies.LIRA_OFFLINE.name, scores.offline),
        (proxies.RMIA.name, scores.rmia),
    ):
        pools[name] = [AucPool(group, n_groups=n) for group, n in _divisions(views)]
        for score, member in zip(shared, views.member, strict=True):
            for pool, ranked in zip(pools[name], ranker.rank(score, member), strict=True):
                pool.add(score, ranked)
    return pools


def _lira_pool(
    views: Views, evidence: RatioParts, surplus: FloatArray, group: IntArray, n_groups: int
) -> AucPool:
    sizes = np.zeros((views.n_models, n_groups + 1))  # the last is for records of no group
    for k in range(n_groups):
        sizes[:, k] = typical_difference([surplus[:, np.flatnonzero(group == k)]])
    ranker, pool = Ranker([group], [n_groups]), AucPool(group, n_groups=n_groups)
    for model, member in enumerate(views.member):
        score = shrunk_ratio(RatioParts(*(part[model] for part in evidence)), sizes[model][group])
        pool.add(score, ranker.rank(score, member)[0])
    return pool


def _faults(scores: BudgetScores) -> Sequence[str]:
    shape, n = scores.logits.shape, scores.labels.size
    if scores.logits.ndim != 2 or shape[1] != n or scores.member.shape != shape:
        return [
            f"logits and member must both be (seed, record) over the {n} records of labels, but "
            f"their shapes are {shape} and {scores.member.shape}; transpose or select them."
        ]
    if scores.group.shape != (n,) or scores.group.max(initial=-1) >= len(scores.group_names):
        return ["group must hold a position in group_names, or -1, for each record."]
    if not np.isin(scores.labels, (0, 1)).all():
        return ["labels must be 0 and 1; compare them with the positive label first."]
    if not np.isfinite(scores.logits).all():
        return ["logits must be finite; a probability of exactly 0 or 1 has no log odds."]
    if scores.member.dtype != np.bool_:
        return ["member must be boolean; convert it with member == 1."]
    return []
