"""All attacks on the models of one setting, for the groups of several attributes at once.

Losses, paired differences and the scores of LiRA and RMIA do not depend on groups. They
are computed once; only ranks and sums are taken group by group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.attacks import lira, pooled, single
from pcer.attacks.pooled import PairedPool, Pool, RankedPool, Rate
from pcer.attacks.ranking import rank
from pcer.attacks.sums import Divisions, Groups
from pcer.measuring.measure import finite_or_none
from pcer.metrics import (
    BoolArray,
    Counts,
    FloatArray,
    IntArray,
    accuracy,
    positive_rate,
)
from pcer.release import attack_kinds
from pcer.release.panel import Panel, PooledExposures
from pcer.release.records import Exposure, PooledExposure

PAIRED = attack_kinds.PAIRED_GAP.name, attack_kinds.PAIRED_CONFIDENCE.name
LIRA = attack_kinds.LIRA.name
OFFLINE = attack_kinds.LIRA_OFFLINE.name
RMIA = attack_kinds.RMIA.name
CALIBRATED = {proxy.name for proxy in attack_kinds.BY_SHADOWS}
EXACTLY = LIRA, RMIA  # attacks that the first placebo groupings also meet exactly
REFERENCE = attack_kinds.REFERENCE.name
# records whose models are compared at a time: memory does not grow with their number
BLOCK = 2048
# By attack, its result from one model's ranking of one group and its losses; None where
# there is none. Results with ``parts`` (each record's influence) are also averaged over
# the models.
MODEL_ATTACKS: dict[str, single.Attack] = {
    attack_kinds.THRESHOLD.name: single.loss_threshold,
    attack_kinds.AUC_ADVANTAGE.name: single.auc_advantage,
    attack_kinds.TPR_AT_1_PERCENT.name: lambda ranked, loss: single.tpr_excess(
        ranked, fpr=0.01
    ),
    attack_kinds.TPR_AT_01_PERCENT.name: lambda ranked, loss: single.tpr_excess(
        ranked, fpr=0.001
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class BudgetScores:
    """Scores of every record by all models of one setting, checked once.

    Attributes:
        logits: (seed, record) log odds of label 1, which is predicted from 0 on.
        labels: (record,) 0 or 1.
        member: (seed, record) whether the seed's model was trained on the record.
        group: (record,) position in ``group_names``; -1 where the group is not known.
        group_names: the groups, in the order of the release.
        predicted: (seed, record) whether label 1 is predicted, where that does not
            follow from the log odds.
        reference: (seed, record) log odds of the true label minus those of reference
            models that never saw the record; None where there are none.
        from_probabilities: whether the log odds are ``log_odds`` of probabilities, some
            of which may be exactly 0 or 1: LiRA cuts those, and never log odds that
            models give directly.
        has_probabilities: whether the log odds mean anything beyond their sign; if not,
            only the paired gap can be measured.
        epsilon: the setting's budget; infinite without differential privacy.
        model: the model's name; None where there is only one.
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
        shape = self.logits.shape
        n = self.labels.size
        if self.logits.ndim != 2 or shape[1] != n or self.member.shape != shape:
            raise ValueError(
                f"logits and member must both be (seed, record) over the {n} records of labels, "
                f"but their shapes are {shape} and {self.member.shape}; transpose or select them."
            )
        beyond = np.zeros(shape) if self.reference is None else self.reference
        answers = self.answers
        codes = self.group
        must = {
            "group must hold a position in group_names, or -1, for each record.": (
                codes.shape == (n,) and codes.max(initial=-1) < len(self.group_names)
            ),
            "labels must be 0 and 1; compare them with the positive label first.": (
                np.isin(self.labels, (0, 1)).all()
            ),
            "logits must be finite; a probability of exactly 0 or 1 has no log odds.": (
                np.isfinite(self.logits).all()
            ),
            "member must be boolean; convert it with member == 1.": self.member.dtype
            == np.bool_,
            "reference must be finite and (seed, record), as logits are.": (
                beyond.shape == shape and np.isfinite(beyond).all()
            ),
            "predicted must be boolean and (seed, record), as member is.": (
                answers.shape == shape and answers.dtype == np.bool_
            ),
        }
        for sentence, holds in must.items():
            if not holds:
                raise ValueError(sentence)

    @property
    def answers(self) -> BoolArray:
        """(seed, record) whether label 1 is predicted."""
        return (
            np.asarray(self.logits >= 0) if self.predicted is None else self.predicted
        )

    @cached_property
    def split(self) -> IntArray:
        """(seed,) the same number for models that were trained on the same records."""
        codes: dict[bytes, int] = {}
        return np.array(
            [codes.setdefault(row.tobytes(), len(codes)) for row in self.member]
        )

    @property
    def n_splits(self) -> int:
        """Number of distinct splits."""
        return int(self.split.max(initial=-1)) + 1

    @property
    def released_epsilon(self) -> float | None:
        """The epsilon as a release writes it: None without differential privacy."""
        return None if math.isinf(self.epsilon) else self.epsilon


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """Results of all attacks on the models of one setting, for the groups of one attribute."""

    runs: list[dict[str, dict[str, Exposure]]]  # by model, group and proxy
    rows: list[PooledExposure]  # over all models
    # By attack, (record,) numbers whose group means are the exposures; then the same
    # for the positive rate on test records. NaN for records of no group. They never
    # leave the trainer.
    exposure: dict[str, FloatArray]
    benefit: FloatArray
    positive_rate: FloatArray  # (model, group) on test records
    coins: Panel | None = (
        None  # what an audit would see of placebo groups, one after the other
    )
    # By attack, LiRA and RMIA, each of the first placebo groupings attacked exactly.
    exact: Mapping[str, Sequence[PooledExposures]] = field(default_factory=dict)


def attack_models(
    scores: Sequence[BudgetScores], coins: Sequence[Divisions | None] = ()
) -> list[Attacked]:
    """Run every attack that the models of one setting allow, for every attribute.

    Errors are for a new sample of records. Where people have several records,
    ``effective_units`` in the release says how far an audit has to widen them.

    Args:
        scores: one for each attribute; all but the groups are the same arrays.
        coins: for each attribute placebo groupings to attack as well, or None.
    """
    models = scores[0]
    coins = list(coins) or [None] * len(scores)
    shared = ("logits", "labels", "member", "predicted", "reference")
    if any(
        getattr(view, name) is not getattr(models, name)
        for view in scores
        for name in shared
    ):
        raise ValueError("All views must share their logits, labels and membership.")
    divisions = [Groups(view.group, len(view.group_names)) for view in scores]
    paired, luck, calibrated = _several_models(models)
    runs, ranked = _ranked_pools(
        models, calibrated, divisions, [flips for flips in coins if flips]
    )
    of_runs = {name: pool for name, pool in ranked.items() if name not in CALIBRATED}
    pools: dict[str, Pool] = {**of_runs, **paired, **ranked}
    attacked = []
    for a, (view, groups, flips) in enumerate(
        zip(scores, divisions, coins, strict=True)
    ):
        benefit, gap = pooled.record_rates(
            models.answers, models.labels, models.member, groups
        )
        rows = _rows(view, groups, pools, benefit, pooled.separation(luck, groups))
        rows.sort(key=lambda row: row.proxy not in of_runs)
        carried = {row.proxy for row in rows}
        shares = {
            name: pool.by_record(groups)
            for name, pool in pools.items()
            if name in carried
        }
        exact = flips.exact if flips else []
        attacked.append(
            Attacked(
                runs=[_exposures(view.group_names, run) for run in runs[a]],
                rows=rows,
                exposure={
                    attack_kinds.GAP.name: groups.by_record(gap.value, gap.own),
                    **shares,
                },
                benefit=groups.by_record(benefit.value, benefit.own),
                positive_rate=benefit.by_model,
                coins=coin_panel(models, flips, pools) if flips else None,
                exact={
                    name: [pools[name].exposures(division) for division in exact]
                    for name in EXACTLY
                    if exact and name in pools
                },
            )
        )
    return attacked


ModelFound = dict[
    str, list[single.Advantage | None]
]  # one model's results, by attack and group


def _several_models(
    models: BudgetScores,
) -> tuple[dict[str, PairedPool], FloatArray, dict[str, FloatArray]]:
    """Paired attacks, luck of models (``luck_of``), scores by attack (model, record), if any."""
    shape = models.member.shape
    answers = models.answers
    names = PAIRED[: (1 + models.has_probabilities) if shape[0] > 1 else 0]
    paired = {name: PairedPool(*shape) for name in names}
    luck = np.empty(shape)
    is_calibrated = models.has_probabilities and models.n_splits >= lira.LEAST_MODELS
    standing, difference, offline, rmia = np.empty((4, *shape))
    largest = (
        lira.largest_log_odds(models.logits) if models.from_probabilities else math.inf
    )
    for first in range(0, shape[1], BLOCK):
        block = slice(first, first + BLOCK)
        member = models.member[:, block]
        labels = models.labels[block]
        logit = single.true_label_logit(models.logits[:, block], labels)
        confidence = single.confidence_of(logit)
        sides = pooled.Sides(member)
        is_right = answers[:, block] == (labels == 1)
        for pool, values in zip(paired.values(), (is_right, confidence), strict=False):
            pool.add(block, values, sides)
        luck[:, block] = pooled.luck_of(confidence, sides)
        if is_calibrated:
            cut = logit if math.isinf(largest) else np.clip(logit, -largest, largest)
            others = lira.other_models(cut, member, models.split)
            standing[:, block], difference[:, block] = lira.ratio_parts(cut, others)
            offline[:, block] = lira.offline_ratio(cut, others)
            others = lira.other_models(confidence, member, models.split)
            rmia[:, block] = lira.rmia_ratio(confidence, others)
    if not is_calibrated:
        return paired, luck, {}
    inside, outside = (
        lira.of_others(x, models.split) for x in (models.member, ~models.member)
    )
    for target, (n_in, n_out) in enumerate(zip(inside, outside, strict=True)):
        member = models.member[target]
        has_both = (n_in > 0) & (n_out > 0)
        if has_both[member].any() and has_both[~member].any():
            parts = standing[target], difference[target]
            standing[target] = lira.shrunk_ratio(*parts, n_in, n_out)
        else:  # folds: the other models reveal who was out
            standing[target] = np.nan
    return paired, luck, {LIRA: standing, OFFLINE: offline, RMIA: rmia}


def _ranked_pools(
    models: BudgetScores,
    calibrated: Mapping[str, FloatArray],
    divisions: Sequence[Groups],
    coins: Sequence[Divisions],
) -> tuple[list[list[ModelFound]], dict[str, RankedPool]]:
    """For every attribute the results of single models, and the means over models."""
    # Scores (model, record) to rank records by, each with the attacks that use the
    # ranks.
    columns: list[tuple[list[str], FloatArray]] = []
    if models.has_probabilities:
        columns.append(
            ([*MODEL_ATTACKS], single.true_label_logit(models.logits, models.labels))
        )
        if models.reference is not None:
            columns.append(([REFERENCE], models.reference))
    columns += [([name], scores) for name, scores in calibrated.items()]
    n_models = len(models.member)
    whole = [flips.whole for flips in coins]
    every = [*divisions, *(division for flips in coins for division in flips.exact)]
    pools = {
        name: RankedPool(every if name in EXACTLY else divisions, n_models, whole)
        for names, _ in columns
        for name in names
    }
    runs: list[list[ModelFound]] = [[] for _ in divisions]
    for model, member in enumerate(models.member):
        found: dict[str, dict[Groups, list[single.Advantage | None]]] = {}
        for names, scores in columns:
            ranked = rank(scores[model], member, [*pools[names[0]].found])
            is_loss = names[0] in MODEL_ATTACKS
            of_scores = (
                single.reference_advantage
                if REFERENCE in names
                else single.auc_advantage
            )
            score = single.loss_of(scores[model]) if is_loss else scores[model]
            for name in names:
                attack = MODEL_ATTACKS.get(name, of_scores)
                found[name] = pools[name].add(model, ranked, attack, score)
        for run, groups in zip(runs, divisions, strict=True):
            run.append({name: own[groups] for name, own in found.items()})
    if (
        LIRA in pools
    ):  # no ratio where a target's other models all had the record in, or all out
        n_in = models.member[np.unique(models.split, return_index=True)[1]].sum(axis=0)
        pools[LIRA].is_complete = (n_in > 1) & (n_in < models.n_splits - 1)
    return runs, {name: pool for name, pool in pools.items() if pool.has_values}


def _exposures(
    group_names: Sequence[str], found: ModelFound
) -> dict[str, dict[str, Exposure]]:
    """One model's ``exposure`` of a release, by group and proxy."""
    return {
        group: {
            name: advantage.exposure()
            for name, of_groups in found.items()
            if (advantage := of_groups[k]) is not None
            and math.isfinite(advantage.value)
        }
        for k, group in enumerate(group_names)
    }


def _rows(
    scores: BudgetScores,
    groups: Groups,
    pools: Mapping[str, Pool],
    benefit: Rate,
    apart: FloatArray,
) -> list[PooledExposure]:
    """Rows of ``pooled_exposure``, group by group."""
    found = {name: pool.exposures(groups, benefit) for name, pool in pools.items()}
    if REFERENCE in found and len(scores.member) == 1:  # see ``reference_advantage``
        sides = groups.sums(scores.member, ~scores.member).T
        least = [
            single.error_at_chance(*both) if both.all() else math.nan for both in sides
        ]
        errors = found[REFERENCE].standard_error, found[REFERENCE].null_error
        error, null = np.maximum(errors, least)
        found[REFERENCE] = replace(
            found[REFERENCE], standard_error=error, null_error=null
        )
    return [
        pooled_row(
            costs,
            k,
            model=scores.model,
            epsilon=scores.released_epsilon,
            group=group,
            proxy=name,
            n_excluded=int(pools[name].n_excluded(groups)[k]),
            separation=finite_or_none(apart[k]),
        )
        for k, group in enumerate(scores.group_names)
        for name, costs in found.items()
        if math.isfinite(costs.value[k])
    ]


def pooled_row(costs: PooledExposures, k: int, **key: Any) -> PooledExposure:
    """The exposure of group ``k`` as a row of a release; ``key`` names group and setting."""
    names = ("value", "standard_error", "null_error", "benefit_covariance")
    numbers: dict[str, Any] = {
        name: finite_or_none(getattr(costs, name)[k]) for name in names
    }
    return PooledExposure(**numbers, **key, n_records=int(costs.n_records[k]))


def coin_panel(
    models: BudgetScores, coins: Divisions, costs: Mapping[str, Pool]
) -> Panel:
    """What an audit would see of all placebo groups, one after the other."""
    positive = models.labels == 1
    answers = models.answers
    cells = (
        answers & positive,
        answers & ~positive,
        ~(answers | positive),
        ~answers & positive,
    )
    train, test = (
        Counts(*coins.sums(*(side & cell for cell in cells)).reshape(4, len(side), -1))
        for side in (models.member, ~models.member)
    )
    benefit, _ = pooled.record_rates(
        models.answers, models.labels, models.member, coins.whole
    )
    found = {name: cost.exposures(coins, benefit) for name, cost in costs.items()}
    return Panel(
        epsilon=models.epsilon,
        model=models.model,
        seeds=tuple(range(len(models.member))),
        group_names=tuple(map(str, range(len(coins) * coins.n_groups))),
        split=models.split,
        train=train,
        test=test,
        train_accuracy=accuracy(train),
        test_accuracy=accuracy(test),
        positive_rate=positive_rate(test),
        n_train=train.n,
        n_test=test.n,
        exposure={},
        pooled={
            name: cost for name, cost in found.items() if np.isfinite(cost.value).any()
        },
    )
