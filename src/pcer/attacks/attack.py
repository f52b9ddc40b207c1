"""All attacks on the models of one setting, for the groups of several attributes at once.

What a model says about a record does not depend on who asks: losses, paired differences and the
scores of LiRA and RMIA are computed once, and only ranks and sums are taken group by group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.attacks import lira, single
from pcer.attacks.pooled import (
    Groups,
    PairedPool,
    Pool,
    RankedPool,
    Rate,
    SharedLuck,
    Sides,
    luck_of,
    record_rates,
)
from pcer.attacks.ranking import Ranked
from pcer.attacks.sums import Divisions
from pcer.metrics import BoolArray, Counts, FloatArray, IntArray, accuracy, positive_rate
from pcer.release import proxies
from pcer.release.format import Exposure, PooledExposure
from pcer.release.panel import Panel, PooledExposures
from pcer.release.proxies import GAP

PAIRED = proxies.PAIRED_GAP.name, proxies.PAIRED_CONFIDENCE.name
LIRA, OFFLINE, RMIA = proxies.LIRA.name, proxies.LIRA_OFFLINE.name, proxies.RMIA.name
REFERENCE = proxies.REFERENCE.name

MODEL_ATTACKS: dict[str, Callable[[Ranked, FloatArray], single.Advantage | None]] = {
    proxies.THRESHOLD.name: single.loss_threshold,
    proxies.AUC_ADVANTAGE.name: lambda ranked, loss: single.auc_advantage(ranked),
    proxies.TPR_AT_1_PERCENT.name: lambda ranked, loss: single.tpr_excess(ranked, fpr=0.01),
    proxies.TPR_AT_01_PERCENT.name: lambda ranked, loss: single.tpr_excess(ranked, fpr=0.001),
}
"""By cost, what one model's ranking of one group and its losses give; None where nothing."""

BLOCK_MODELS = 16
"""Models whose predictions are counted at once."""

AVERAGED = proxies.THRESHOLD.name, proxies.AUC_ADVANTAGE.name
"""Those of them that are also averaged over the models, with what each record adds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BudgetScores:
    """What all models of one setting say about every record, checked once.

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
        has_probabilities: whether the log odds mean anything beyond their sign; if not, the
            paired gap is all that can be had.
        epsilon: the setting's budget; infinite without differential privacy.
        model: the setting's name; None where there is but one model.
    """

    logits: npt.NDArray[np.floating[Any]]
    labels: IntArray
    member: BoolArray
    group: IntArray
    group_names: tuple[str, ...]
    predicted: BoolArray | None = None
    reference: FloatArray | None = None
    from_probabilities: bool = False
    has_probabilities: bool = True
    epsilon: float = math.inf
    model: str | None = None

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise ValueError(fault)

    @property
    def answers(self) -> BoolArray:
        """(seed, record) whether label 1 is predicted."""
        return np.asarray(self.logits >= 0) if self.predicted is None else self.predicted

    @property
    def released_epsilon(self) -> float | None:
        """The budget as a release has it."""
        return None if math.isinf(self.epsilon) else self.epsilon


def _faults(scores: BudgetScores) -> Iterator[str]:
    shape, n = scores.logits.shape, scores.labels.size
    if scores.logits.ndim != 2 or shape[1] != n or scores.member.shape != shape:
        yield (
            f"logits and member must both be (seed, record) over the {n} records of labels, but "
            f"their shapes are {shape} and {scores.member.shape}; transpose or select them."
        )
    if scores.group.shape != (n,) or scores.group.max(initial=-1) >= len(scores.group_names):
        yield "group must hold a position in group_names, or -1, for each record."
    if not np.isin(scores.labels, (0, 1)).all():
        yield "labels must be 0 and 1; compare them with the positive label first."
    if not np.isfinite(scores.logits).all():
        yield "logits must be finite; a probability of exactly 0 or 1 has no log odds."
    if scores.member.dtype != np.bool_:
        yield "member must be boolean; convert it with member == 1."
    reference, predicted = scores.reference, scores.predicted
    if reference is not None and (reference.shape != shape or not np.isfinite(reference).all()):
        yield "reference must be finite and (seed, record), as logits are."
    if predicted is not None and (predicted.shape != shape or predicted.dtype != np.bool_):
        yield "predicted must be boolean and (seed, record), as member is."


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """What attacks find in the models of one setting, for the groups of one attribute.

    Attributes:
        runs: by model, group and proxy: ``exposure`` of a release.
        rows: over all models: ``pooled_exposure`` of a release. LiRA and RMIA need 8 models.
        exposure: by cost, (record,) numbers whose means over groups are the costs; NaN for records
            of no group. They never leave the trainer.
        benefit: (record,) the same of the positive rate on test records.
        positive_rate: (model, group) on test records.
        coins: what an audit would see of coin flips, where those were asked for: their groups one
            after the other.
        exact: by cost, LiRA and RMIA, each of the first coin flips attacked exactly.
    """

    runs: list[dict[str, dict[str, Exposure]]]
    rows: list[PooledExposure]
    exposure: dict[str, FloatArray]
    benefit: FloatArray
    positive_rate: FloatArray
    coins: Panel | None = None
    exact: Mapping[str, Sequence[PooledExposures]] = field(default_factory=dict)


def attack_models(
    scores: Sequence[BudgetScores], coins: Sequence[Divisions | None] = ()
) -> list[Attacked]:
    """Every cost that the models of one setting allow, for every attribute.

    Errors are those of records drawn anew. Where people have several, ``effective_units`` in the
    release says how far an audit has to widen them.

    Args:
        scores: one for each attribute; all but the groups are the same arrays.
        coins: for each attribute coin flips to look at too, or None.
    """
    models, coins = scores[0], list(coins) or [None] * len(scores)
    shared = ("logits", "labels", "member", "predicted", "reference")
    if any(getattr(one, name) is not getattr(models, name) for one in scores for name in shared):
        raise ValueError("All views must share their logits, labels and membership.")
    asked = [flips for flips in coins if flips is not None]
    masks = {(mask := np.where(one.inside, 0, -1)).tobytes(): mask for one in asked}
    views = (
        [Groups(one.group, len(one.group_names)) for one in scores],
        [Groups(mask, 1) for mask in masks.values()],
        [Groups(row.astype(np.int64), one.n_groups) for one in asked for row in one.exact],
    )
    runs, averaged = _single_models(models, views)
    over_models, separation = _several_models(models, views)
    pools, attacked, start = averaged | over_models, [], len(scores) + len(masks)
    for a, (one, flips) in enumerate(zip(scores, coins, strict=True)):
        groups = views[0][a]
        benefit, gap = record_rates(models.answers, models.labels, models.member, groups)
        rows = [
            row
            for names in (averaged, over_models)
            for row in _rows(one, {name: pools[name] for name in names}, a, benefit, separation[a])
        ]
        carried = {row.proxy for row in rows}
        shares = {name: pool.by_record(a) for name, pool in pools.items() if name in carried}
        end = start + (0 if flips is None else len(flips.exact))
        attacked.append(
            Attacked(
                runs=[_exposures(one.group_names, found) for found in runs[a]],
                rows=rows,
                exposure={GAP.name: groups.by_record(gap.value, gap.parts), **shares},
                benefit=groups.by_record(benefit.value, benefit.parts),
                positive_rate=benefit.by_model,
                coins=None if flips is None else coin_panel(models, flips, pools),
                exact={
                    name: [pools[name].exposures(v) for v in range(start, end)]
                    for name in (LIRA, RMIA)
                    if name in pools and end > start
                },
            )
        )
        start = end
    return attacked


Views = tuple[list[Groups], list[Groups], list[Groups]]
"""Divisions of the records: those of attributes, everybody as one group, and coin flips that meet
LiRA and RMIA themselves."""

ModelFound = dict[str, list[single.Advantage | None]]
"""What one model gives, by cost and group."""


def _single_models(
    models: BudgetScores, views: Views
) -> tuple[list[list[ModelFound]], dict[str, RankedPool]]:
    """For every attribute what single models give, and the costs that are means of those."""
    runs: list[list[ModelFound]] = [[] for _ in views[0]]
    if not models.has_probabilities:
        return [[{} for _ in models.member] for _ in runs], {}
    names = [*AVERAGED, *([] if models.reference is None else [REFERENCE])]
    costs = {name: RankedPool(views[0], views[1]) for name in names}
    ranker, everyone = costs[AVERAGED[0]].ranker, np.ones(len(models.labels), dtype=bool)
    for model, member in enumerate(models.member):
        logit = single.true_label_logit(models.logits[model], models.labels)
        loss = single.loss_of(logit)
        ranked = ranker.rank(logit, member)  # a loss falls as the log odds rise
        found: dict[str, list[list[single.Advantage | None]]] = {
            name: [[applied(group, loss) for group in groups] for groups in ranked]
            for name, applied in MODEL_ATTACKS.items()
        }
        for name in AVERAGED:
            costs[name].add(ranked, found[name], everyone)
        if models.reference is not None:
            ranked = ranker.rank(models.reference[model], member)
            found[REFERENCE] = [
                [single.reference_advantage(group) for group in one] for one in ranked
            ]
            costs[REFERENCE].add(ranked, found[REFERENCE], everyone)
        for v, run in enumerate(runs):
            run.append({name: of_views[v] for name, of_views in found.items()})
    return runs, costs


def _exposures(group_names: Sequence[str], found: ModelFound) -> dict[str, dict[str, Exposure]]:
    """One model's ``exposure`` of a release, by group and proxy."""
    return {
        group: {
            name: Exposure(
                value=advantage.value,
                standard_error=advantage.standard_error,
                n_members=advantage.n_members,
                n_nonmembers=advantage.n_nonmembers,
            )
            for name, of_groups in found.items()
            if (advantage := of_groups[k]) is not None and math.isfinite(advantage.value)
        }
        for k, group in enumerate(group_names)
    }


def _several_models(models: BudgetScores, views: Views) -> tuple[dict[str, Pool], list[FloatArray]]:
    """The costs that need several models, and how far the groups of each attribute live apart."""
    n_models, answers = len(models.member), models.answers
    names = PAIRED[: (1 + models.has_probabilities) if n_models > 1 else 0]
    paired = [PairedPool(views[0], n_models=n_models, keeps_models=bool(views[1])) for _ in names]
    luck = [SharedLuck(groups, n_models=n_models) for groups in views[0]]
    scores: list[FloatArray] = []
    if models.has_probabilities and n_models >= lira.LEAST_MODELS:
        scores = [np.empty(models.member.shape) for _ in (*lira.RatioParts._fields, OFFLINE, RMIA)]
        largest = lira.largest_log_odds(models.logits) if models.from_probabilities else math.inf
    for block, logits, member in lira.blocks(models.logits, models.member):
        logit, sides = single.true_label_logit(logits, models.labels[block]), Sides(member)
        confidence = single.confidence_of(logit)
        is_right = answers[:, block] == (models.labels[block] == 1)
        for pool, values in zip(paired, (is_right, confidence), strict=False):
            pool.add(block, values, sides)
        beyond = luck_of(confidence, sides)
        for of_groups in luck:
            of_groups.add(block, beyond)
        if scores:
            cut = logit if math.isinf(largest) else np.clip(logit, -largest, largest)
            others = lira.other_models(cut, member)
            parts = *lira.ratio_parts(cut, others), lira.offline_ratio(cut, others)
            for k, part in enumerate((*parts, lira.rmia_ratio(confidence, member))):
                scores[k][:, block] = part
    pools: dict[str, Pool] = dict(zip(names, paired, strict=True))
    if scores:
        pools |= _calibrated_pools(models, views, scores)
    return pools, [of_groups.separation() for of_groups in luck]


def _calibrated_pools(
    models: BudgetScores, views: Views, scores: Sequence[FloatArray]
) -> dict[str, RankedPool]:
    """LiRA and RMIA; scores are those of ``lira.RatioParts``, of offline LiRA and of RMIA."""
    *parts, offline, rmia = scores
    n_in = models.member.sum(axis=0)
    sizes = lira.typical_difference(lira.surplus_of(lira.RatioParts(*parts)))
    n_views = {LIRA: 3, OFFLINE: 2, RMIA: 3}
    costs = {name: RankedPool(*views[:n]) for name, n in n_views.items()}
    rankers = {name: costs[name].ranker for name in (LIRA, OFFLINE)}
    for model, member in enumerate(models.member):
        others_in = n_in - member
        is_told = (others_in > 0) & (others_in < len(models.member) - 1)
        ratio = lira.shrunk_ratio(lira.RatioParts(*(part[model] for part in parts)), sizes[model])
        if not (is_told[member].any() and is_told[~member].any()):
            ratio[:] = np.nan  # folds: the others know who was out
        costs[LIRA].add_auc(rankers[LIRA], ratio, member, is_told)
        costs[OFFLINE].add_auc(rankers[OFFLINE], offline[model], member)
        costs[RMIA].add_auc(rankers[LIRA], rmia[model], member)
    return costs


def _rows(
    scores: BudgetScores, pools: Mapping[str, Pool], a: int, benefit: Rate, separation: FloatArray
) -> list[PooledExposure]:
    """Rows of ``pooled_exposure``, group by group."""
    found = {name: pool.exposures(a, benefit) for name, pool in pools.items()}
    if REFERENCE in found and len(scores.member) == 1:  # see ``reference_advantage``
        groups, inside = pools[REFERENCE].divisions[a], scores.member[0]
        sides = zip(groups.sums(inside), groups.sums(~inside), strict=True)
        least = [single.error_at_chance(*both) if min(both) else math.nan for both in sides]
        costs = found[REFERENCE]
        found[REFERENCE] = replace(
            costs,
            standard_error=np.maximum(costs.standard_error, least),
            null_error=np.maximum(costs.null_error, least),
        )
    n_excluded = {name: pool.n_excluded(a) for name, pool in pools.items()}
    return [
        pooled_row(
            costs,
            k,
            model=scores.model,
            epsilon=scores.epsilon,
            group=group,
            proxy=name,
            n_excluded=n_excluded[name][k],
            separation=number_or_none(separation[k]),
        )
        for k, group in enumerate(scores.group_names)
        for name, costs in found.items()
        if math.isfinite(costs.value[k])
    ]


def pooled_row(
    costs: PooledExposures, k: int, *, epsilon: float, n_excluded: float, **key: Any
) -> PooledExposure:
    """The cost of group ``k`` as a row of a release; ``key`` names the group and the rest."""
    names = ("value", "standard_error", "null_error", "benefit_covariance")
    numbers: dict[str, Any] = {name: number_or_none(getattr(costs, name)[k]) for name in names}
    return PooledExposure(
        **numbers,
        **key,
        epsilon=None if math.isinf(epsilon) else epsilon,
        n_records=int(costs.n_records[k]),
        n_excluded=int(n_excluded),
    )


def number_or_none(value: float) -> float | None:
    """A number as a release has it: NaN is left out."""
    return None if math.isnan(value) else float(value)


def coin_panel(models: BudgetScores, coins: Divisions, costs: Mapping[str, Pool]) -> Panel:
    """What an audit would see of the groups of coin flips, one after the other."""
    train, test = _counts(models, coins)
    whole = Groups(np.where(coins.inside, 0, -1), 1)
    benefit, _ = record_rates(models.answers, models.labels, models.member, whole)
    by_size = benefit.parts * coins.inside.sum()
    found = {name: cost.divided(coins, by_size) for name, cost in costs.items()}
    splits: dict[bytes, int] = {}
    return Panel(
        epsilon=models.epsilon,
        model=models.model,
        seeds=tuple(range(len(models.member))),
        group_names=tuple(map(str, range(len(coins) * coins.n_groups))),
        split=np.array([splits.setdefault(row.tobytes(), len(splits)) for row in models.member]),
        train=train,
        test=test,
        train_accuracy=accuracy(train),
        test_accuracy=accuracy(test),
        positive_rate=positive_rate(test),
        n_train=train.n,
        n_test=test.n,
        exposure={},
        pooled={name: one for name, one in found.items() if one and np.isfinite(one.value).any()},
    )


def _counts(models: BudgetScores, coins: Divisions) -> list[Counts]:
    """Confusion tables (model, set) of training and of test."""
    positive, tables = models.labels == 1, []
    for first in range(0, len(models.member), BLOCK_MODELS):
        some = slice(first, first + BLOCK_MODELS)
        member, answers = models.member[some], models.answers[some]
        cells = (
            answers & positive,
            answers & ~positive,
            ~(answers | positive),
            ~answers & positive,
        )
        sums = coins.sums(*(side & cell for side in (member, ~member) for cell in cells))
        tables.append(sums.reshape(8, len(member), -1))
    whole = np.concatenate(tables, axis=1)
    return [Counts(*whole[:4]), Counts(*whole[4:])]
