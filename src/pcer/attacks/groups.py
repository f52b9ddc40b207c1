"""All attacks on the models of one budget, for the groups of several attributes at once.

What a model says about a record does not depend on who asks: losses, paired differences and the
scores of LiRA and RMIA are computed once, and only ranks and sums are taken group by group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.lira import (
    LEAST_MODELS,
    RatioParts,
    blocks,
    largest_log_odds,
    offline_ratio,
    other_models,
    ratio_parts,
    rmia_ratio,
    shrunk_ratio,
    surplus_of,
    typical_difference,
)
from pcer.attacks.pooled import (
    AUC_CHANCE,
    Influences,
    KeptPairedPool,
    KeptPool,
    PairedInfluences,
    PairedPool,
    Pool,
    PooledAdvantage,
    SharedLuck,
    Shares,
    Sides,
    add_auc,
    paired,
)
from pcer.attacks.ranking import Ranked, Ranker
from pcer.attacks.rates import RecordRates, everybodys_benefit, record_rates
from pcer.attacks.single import (
    Advantage,
    Influence,
    auc_influence,
    confidence_of,
    error_at_chance,
    loss_of,
    ranked_auc_advantage,
    ranked_loss_threshold,
    ranked_reference_advantage,
    ranked_tpr_excess,
    threshold_influence,
    true_label_logit,
)
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import proxies

GAP, THRESHOLD, AUC = proxies.GAP.name, proxies.THRESHOLD.name, proxies.AUC_ADVANTAGE.name
PAIRED = proxies.PAIRED_GAP.name, proxies.PAIRED_CONFIDENCE.name
LIRA, OFFLINE, RMIA = proxies.LIRA.name, proxies.LIRA_OFFLINE.name, proxies.RMIA.name
REFERENCE = proxies.REFERENCE.name

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
        predicted: (seed, record) whether label 1 is predicted, where that does not follow from
            the log odds: another threshold, or a model that decides in a way of its own.
        reference: (seed, record) log odds of the true label beyond those that models give which
            never saw the record; None where there are none.
        from_probabilities: whether the log odds are ``log_odds`` of probabilities, some of which
            may be exactly 0 or 1: LiRA cuts those, and never log odds that models give themselves.
    """

    logits: npt.NDArray[np.floating[Any]]
    labels: IntArray
    member: BoolArray
    group: IntArray
    group_names: tuple[str, ...]
    predicted: BoolArray | None = None
    reference: FloatArray | None = None
    from_probabilities: bool = False

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise ValueError(fault)


class Views:
    """The same models beside several attributes.

    Args:
        scores: one for each attribute; all but the groups are the same arrays.
        whole: views of everybody as one group, (record,) 0, or -1 for none, which come after those
            of the attributes: what each record adds is kept, to be summed over any groups.
        drawn: placebo groups, (record,) and their number, which come last: they meet LiRA and RMIA
            alone.
    """

    def __init__(
        self,
        scores: Sequence[BudgetScores],
        whole: Sequence[IntArray] = (),
        drawn: Sequence[tuple[IntArray, int]] = (),
    ) -> None:
        first = scores[0]
        for one in scores:
            if any(getattr(one, name) is not getattr(first, name) for name in SHARED):
                raise ValueError("All views must share their logits, labels and membership.")
        self.logits, self.labels, self.member = first.logits, first.labels, first.member
        self.predicted = first.logits >= 0 if first.predicted is None else first.predicted
        self.reference = first.reference
        self.from_probabilities = first.from_probabilities
        both = [(one.group, len(one.group_names)) for one in scores]
        both += [*((one, 1) for one in whole), *drawn]
        self.group, self.n_groups = [codes for codes, _ in both], [n for _, n in both]
        self.n_drawn = len(drawn)
        self.is_whole = [0 <= v - len(scores) < len(whole) for v in range(len(both))]

    @property
    def n_models(self) -> int:
        """Seeds of the budget."""
        return len(self.member)

    @property
    def own(self) -> range:
        """The views that are not placebo groups."""
        return range(len(self.group) - self.n_drawn)

    def ranker(self, n_views: int | None = None) -> Ranker:
        """Ranks scores that all views share, or the first of them."""
        return Ranker(self.group[:n_views], self.n_groups[:n_views])

    def rates(self, view: int) -> RecordRates:
        """The benefit and the gap of every group of a view, and who is behind them."""
        codes, n_groups = self.group[view], self.n_groups[view]
        return record_rates(self.predicted, self.labels, self.member, codes, n_groups=n_groups)

    def separation(self, view: int) -> list[float | None]:
        """Of every group of a view, see ``SharedLuck``; None where it was not measured."""
        luck = SharedLuck(self.group[view], self.n_groups[view], n_models=self.n_models)
        for block, logits, member in blocks(self.logits, self.member):
            confidence = confidence_of(true_label_logit(logits, self.labels[block]))
            luck.add(block, confidence, Sides(member))
        return [None if np.isnan(one) else float(one) for one in luck.separation()]

    def scaled_logit(self, model: int | slice) -> FloatArray:
        """Log odds of the true label, (record,) or (model, record)."""
        return true_label_logit(self.logits[model], self.labels)


SHARED = ("logits", "labels", "member", "predicted", "reference", "from_probabilities")

Found = dict[str, Advantage]
PooledFound = dict[str, PooledAdvantage]
ModelAttack = Callable[[Ranked, FloatArray], Advantage | None]


class KeptParts(NamedTuple):
    """Attacks on everybody as one group: what each record adds, to be summed over any groups.

    Attributes:
        benefit: the positive rate on test records, and who is behind it.
        ranked: by cost, of attacks that rank records within each model.
        paired: by cost, of records beside themselves.
    """

    benefit: Shares
    ranked: dict[str, Influences]
    paired: dict[str, PairedInfluences]


class Pooled(NamedTuple):
    """What the models of a budget say together, for the groups of one view.

    Attributes:
        groups: for every group, the costs over all models; of placebo groups nothing else.
        exposure: by cost, (record,) numbers whose means over groups are those costs, see
            ``Shares.by_record``; NaN for records of no group.
        benefit: (record,) the same for the positive rate on test records.
        kept: of a view of everybody, who is behind its one group; the rest is left out there.
    """

    groups: list[PooledFound]
    exposure: dict[str, FloatArray]
    benefit: FloatArray
    kept: KeptParts | None = None


class SingleAttacks(NamedTuple):
    """For one view: by model and group the proxies of that model alone, and their means."""

    models: list[list[Found]]
    pooled: Pooled


def single_model_attacks(views: Views) -> list[SingleAttacks]:
    """For every view, the proxies of single models, and the costs that are means of those."""
    ranker, everyone = views.ranker(), np.ones(len(views.labels), dtype=bool)
    names = [*INFLUENCES, *([] if views.reference is None else [REFERENCE])]
    pools = [
        {name: _pool(views, v, chance=CHANCE.get(name, 0.0)) for name in names}
        for v in range(len(views.group))
    ]
    models: list[list[list[Found]]] = [[] for _ in pools]
    for model, member in enumerate(views.member):
        logit = views.scaled_logit(model)
        loss = loss_of(logit)
        # a loss falls as the log odds rise
        for v, ranked in enumerate(ranker.rank(logit, member)):
            attacks = {} if views.is_whole[v] else MODEL_ATTACKS
            found = [_of_model(group, loss, attacks) for group in ranked]
            models[v].append([one.proxies for one in found])
            for name in INFLUENCES:
                pools[v][name].add(ranked, [one.influence.get(name) for one in found], everyone)
        if views.reference is not None:
            score = views.reference[model]
            for v, ranked in enumerate(ranker.rank(score, member)):
                add_auc(pools[v][REFERENCE], score, ranked)
                if not views.is_whole[v]:
                    for of_group, group in zip(models[v][-1], ranked, strict=True):
                        of_group[REFERENCE] = ranked_reference_advantage(group)
    return [SingleAttacks(found, _pooled(views, v, pools[v])) for v, found in enumerate(models)]


class _OfModel(NamedTuple):
    """One group of one model; no influence where all its records are on one side."""

    proxies: Found
    influence: dict[str, Influence]


def _of_model(ranked: Ranked, loss: FloatArray, attacks: Mapping[str, ModelAttack]) -> _OfModel:
    found = {name: attack(ranked, loss) for name, attack in attacks.items()}
    parts = {} if ranked.is_onesided else INFLUENCES
    return _OfModel(
        {name: one for name, one in found.items() if one is not None},
        {name: influence(ranked, loss) for name, influence in parts.items()},
    )


def _at_rate(fpr: float) -> ModelAttack:
    return lambda ranked, loss: ranked_tpr_excess(ranked, fpr=fpr)


MODEL_ATTACKS: dict[str, ModelAttack] = {
    THRESHOLD: ranked_loss_threshold,
    AUC: lambda ranked, loss: ranked_auc_advantage(ranked),
    **{name: _at_rate(fpr) for name, fpr in SMALL_RATES.items()},
}
"""By cost, what one model's ranking of one group and its losses give; None where nothing."""

INFLUENCES: dict[str, Callable[[Ranked, FloatArray], Influence]] = {
    THRESHOLD: threshold_influence,
    AUC: lambda ranked, loss: auc_influence(ranked),
}
"""Those of them that are also averaged over the models, with what each record adds."""

CHANCE = {AUC: AUC_CHANCE, REFERENCE: AUC_CHANCE}
"""What they are where nothing can be told, if not 0."""


def pooled_attacks(views: Views) -> list[Pooled]:
    """For every view, the proxies over all models; few models give paired costs only."""
    about = _about_records(views)
    pools: list[dict[str, PairedPool | Pool]] = [{**of_view} for of_view in about.paired]
    if about.calibrated is not None:
        for name, calibrated in _calibrated_pools(views, about.calibrated).items():
            for of_view, pool in zip(pools, calibrated, strict=False):
                of_view[name] = pool
    return [_pooled(views, v, of_view) for v, of_view in enumerate(pools)]


def _pooled(views: Views, v: int, pools: Mapping[str, PairedPool | Pool]) -> Pooled:
    group = views.group[v]
    if views.is_whole[v]:
        benefit = everybodys_benefit(views.predicted, views.member, group)
        return Pooled([], {}, benefit.by_record(group), _kept(benefit, pools))
    rates = views.rates(v) if v in views.own else None
    benefits = None if rates is None else rates.benefit
    results = {name: pool.results(benefits) for name, pool in pools.items()}
    if REFERENCE in results and views.n_models == 1:
        results[REFERENCE] = [
            _at_least_chance(one, views.member[0][group == k])
            for k, one in enumerate(results[REFERENCE])
        ]
    apart = views.separation(v) if v in views.own else [None] * views.n_groups[v]
    groups = [
        {name: one[k]._replace(separation=share) for name, one in results.items()}
        for k, share in enumerate(apart)
    ]
    if rates is None:
        return Pooled(groups, {}, np.empty(0))
    shares = {GAP: rates.gap, **{name: pool.shares() for name, pool in pools.items()}}
    return Pooled(
        groups=groups,
        exposure={name: one.by_record(group) for name, one in shares.items()},
        benefit=rates.benefit.by_record(group),
    )


def _at_least_chance(found: PooledAdvantage, member: BoolArray) -> PooledAdvantage:
    """With errors as of ``ranked_reference_advantage``."""
    if found.standard_error is None or found.null_error is None:
        return found
    least = error_at_chance(int(member.sum()), int((~member).sum()))
    return found._replace(
        standard_error=max(found.standard_error, least), null_error=max(found.null_error, least)
    )


def _kept(benefit: Shares, pools: Mapping[str, PairedPool | Pool]) -> KeptParts:
    ranked = {name: pool for name, pool in pools.items() if isinstance(pool, KeptPool)}
    paired = {name: pool for name, pool in pools.items() if isinstance(pool, KeptPairedPool)}
    return KeptParts(
        benefit,
        {name: pool.influences() for name, pool in ranked.items()},
        {name: pool.influences() for name, pool in paired.items()},
    )


def _pool(views: Views, v: int, *, chance: float) -> Pool:
    kind = KeptPool if views.is_whole[v] else Pool
    return kind(views.group[v], views.n_groups[v], chance=chance)


def _paired_pool(views: Views, v: int) -> PairedPool:
    kind = KeptPairedPool if views.is_whole[v] else PairedPool
    return kind(views.group[v], views.n_groups[v], n_models=views.n_models)


class _Calibrated(NamedTuple):
    """Scores (model, record) that the models give each other; LiRA's before its last step."""

    evidence: RatioParts
    offline: FloatArray
    rmia: FloatArray


class _AboutRecords(NamedTuple):
    paired: list[dict[str, PairedPool]]
    """For every view, by cost."""
    calibrated: _Calibrated | None


def _about_records(views: Views) -> _AboutRecords:
    """One pass over the records, a few at a time."""
    pools: list[dict[str, PairedPool]] = [
        {name: _paired_pool(views, v) for name in PAIRED if v in views.own}
        for v in range(len(views.group))
    ]
    calibrated = None
    if views.n_models >= LEAST_MODELS:
        parts = (np.empty(views.member.shape) for _ in range(len(RatioParts._fields) + 2))
        *evidence, offline, rmia = parts
        calibrated = _Calibrated(RatioParts(*evidence), offline, rmia)
        largest = largest_log_odds(views.logits) if views.from_probabilities else math.inf
    for block, logits, member in blocks(views.logits, views.member):
        logit = true_label_logit(logits, views.labels[block])
        confidence = confidence_of(logit)
        correct = views.predicted[:, block] == (views.labels[block] == 1)
        sides = Sides(member)
        for name, values in zip(PAIRED, (correct, confidence), strict=True):
            found = paired(values, sides)
            for of_view in filter(None, pools):
                of_view[name].add(block, found)
        if calibrated is not None:
            cut = logit if math.isinf(largest) else np.clip(logit, -largest, largest)
            others = other_models(cut, member)
            for whole, part in zip(calibrated.evidence, ratio_parts(cut, others), strict=True):
                whole[:, block] = part
            calibrated.offline[:, block] = offline_ratio(cut, others)
            calibrated.rmia[:, block] = rmia_ratio(confidence, member)
    return _AboutRecords(pools, calibrated)


def _calibrated_pools(views: Views, scores: _Calibrated) -> dict[str, list[Pool]]:
    inside, sizes = views.member.sum(axis=0), typical_difference(surplus_of(scores.evidence))
    n_views = {LIRA: len(views.group), OFFLINE: len(views.own), RMIA: len(views.group)}
    rankers = {name: views.ranker(n) for name, n in n_views.items()}
    pools = {
        name: [_pool(views, v, chance=AUC_CHANCE) for v in range(n)] for name, n in n_views.items()
    }
    for model, member in enumerate(views.member):
        evidence = RatioParts(*(part[model] for part in scores.evidence))
        others_in = inside - member
        told = (others_in > 0) & (others_in < views.n_models - 1)
        lira = shrunk_ratio(evidence, sizes[model])
        if not (told[member].any() and told[~member].any()):  # folds: the others know who was out
            lira[:] = np.nan
        of_model = (
            (LIRA, lira, told),
            (OFFLINE, scores.offline[model], None),
            (RMIA, scores.rmia[model], None),
        )
        for name, score, known in of_model:
            for pool, ranked in zip(pools[name], rankers[name].rank(score, member), strict=True):
                add_auc(pool, score, ranked, known)
    return pools


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
    if scores.reference is not None and (
        scores.reference.shape != shape or not np.isfinite(scores.reference).all()
    ):
        return ["reference must be finite and (seed, record), as logits are."]
    if scores.predicted is not None and (
        scores.predicted.shape != shape or scores.predicted.dtype != np.bool_
    ):
        return ["predicted must be boolean and (seed, record), as member is."]
    return []
