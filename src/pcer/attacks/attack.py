"""How exposed are groups, by every attack on the models of one setting?

``exposure_rows`` calls ``attack_models`` for every setting, with the groups of several
attributes at once: losses, paired differences and the scores of LiRA and RMIA do not
depend on groups. They are computed once; only ranks and sums are taken group by group.

Attacks that rank records within a model are in ``scorers``, which says how to add one.
Paired attacks compare models with a record and models without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from pcer.attacks import pooled, single
from pcer.attacks.pooled import Differences, PairedPool, Pool, RankedPool
from pcer.attacks.rates import Rate, record_rates
from pcer.attacks.scorers import (
    Scorer,
    SettingScores,
    record_blocks,
    scorers_by_scores,
    true_label_confidence,
    true_label_logits,
)
from pcer.attacks.single import rank
from pcer.attacks.sums import Divisions, Groups
from pcer.attacks.synthetic import own_ranks
from pcer.metrics import Counts, FloatArray, accuracy, positive_rate
from pcer.release.attack_kinds import GAP, OWN_AUC, PAIRED_CONFIDENCE, PAIRED_GAP
from pcer.release.panel import Panel, PooledExposures
from pcer.release.records import Exposure, PooledExposure
from pcer.statistics import finite_or_none

# What all views of the same models share.
SHARED = ("logits", "labels", "member", "predicted", "reference", "own")
# One model's results, by attack and group; None where there is none.
ModelResults = dict[str, list[single.Advantage | None]]
# The same by attack, division and group.
Found = dict[Scorer, dict[Groups, list[single.Advantage | None]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """Results of all attacks on one setting's models, for the groups of one attribute.

    Attributes:
        runs: by model, group and attack.
        rows: over all models.
        exposure: by attack, (record,) numbers whose group means are the exposures; NaN
            for records of no group. They never leave the trainer.
        benefit: the same for the positive rate on test records.
        positive_rate: (model, group) on test records.
        coins: what an audit would see of placebo groups, one after the other.
        exact: by attack that is tried exactly, the first placebo groupings attacked as
            the real one.
    """

    runs: list[dict[str, dict[str, Exposure]]]
    rows: list[PooledExposure]
    exposure: dict[str, FloatArray]
    benefit: FloatArray
    positive_rate: FloatArray
    coins: Panel | None = None
    exact: Mapping[str, Sequence[PooledExposures]] = field(default_factory=dict)


class View(NamedTuple):
    """The groups of one attribute, real and made-up."""

    scores: SettingScores
    groups: Groups
    placebos: Divisions | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Pools:
    """Every attack over all models of a setting, for every attribute."""

    ranked: dict[Scorer, RankedPool]  # those with a value for some group
    paired: dict[str, PairedPool]
    luck: FloatArray  # (model, record) see ``pooled.luck_of``
    differences: Differences

    @property
    def plain(self) -> dict[str, Pool]:
        """Attacks whose models do not calibrate each other, by name."""
        of_single: dict[str, Pool] = {}
        for scorer, pool in self.ranked.items():
            if not scorer.kind.is_calibrated:
                of_single[scorer.kind.name] = pool
        return of_single

    @property
    def by_name(self) -> dict[str, Pool]:
        """All attacks: plain ones first, then paired ones, then calibrated ones."""
        ranked = {scorer.kind.name: pool for scorer, pool in self.ranked.items()}
        return {**self.plain, **self.paired, **ranked}


def attack_models(
    scores: Sequence[SettingScores], coins: Sequence[Divisions | None] = ()
) -> list[Attacked]:
    """Run every attack that the models of one setting allow, for every attribute.

    Errors are for a new sample of records. Where people have several records,
    ``effective_units`` in the release says how far an audit has to widen them.

    Args:
        scores: one for each attribute; all but the groups are the same arrays.
        coins: for each attribute placebo groupings to attack as well, or None.
    """
    models = scores[0]
    views = []
    for one, placebos in zip(scores, coins or [None] * len(scores), strict=True):
        if any(getattr(one, name) is not getattr(models, name) for name in SHARED):
            raise ValueError(
                "All views must share their logits, labels and membership."
            )
        groups = Groups(one.group, len(one.group_names))
        views.append(View(one, groups, placebos))

    ranked, of_models = _ranked_pools(models, views)
    pools = _with_pairs(models, ranked)
    by_view = zip(views, of_models, strict=True)
    return [_attacked(view, pools, results) for view, results in by_view]


def _with_pairs(models: SettingScores, ranked: dict[Scorer, RankedPool]) -> Pools:
    """All pools: also the paired attacks that models allow, and the models' luck."""
    shape = models.member.shape
    moved, luck = np.empty((2, *shape))
    pools = {name: PairedPool(moved) for name in _paired_attacks(models)}
    differences = Differences(*np.empty((2, shape[1])))
    answers = models.answers
    for block in record_blocks(len(models.labels)):
        sides = pooled.Sides(models.member[:, block])
        moved[:, block] = sides.moved
        confidence = true_label_confidence(models, block)
        is_right = answers[:, block] == (models.labels[block] == 1)
        for name, pool in pools.items():
            values = {PAIRED_GAP.name: is_right, PAIRED_CONFIDENCE.name: confidence}
            if name == OWN_AUC.name:
                values[name] = own_ranks(true_label_logits(models, block))
            pool.add(block, values[name], sides)
        luck[:, block] = pooled.luck_of(confidence, sides)
        of_block = pooled.differences_of(confidence, luck[:, block], sides)
        differences.value[block], differences.noise[block] = of_block
    return Pools(ranked=ranked, paired=pools, luck=luck, differences=differences)


def _paired_attacks(models: SettingScores) -> list[str]:
    """Attacks that compare models with a record and without it."""
    if len(models.member) < 2:
        return []
    if models.of_tables:
        return [OWN_AUC.name] if models.has_probabilities else []
    if not models.has_probabilities:
        return [PAIRED_GAP.name]
    return [PAIRED_GAP.name, PAIRED_CONFIDENCE.name]


def _ranked_pools(
    models: SettingScores, views: Sequence[View]
) -> tuple[dict[Scorer, RankedPool], list[list[ModelResults]]]:
    """Attacks that rank records: over all models, and by attribute and model."""
    pools: dict[Scorer, RankedPool] = {}
    of_models: list[list[ModelResults]] = []
    for _ in views:
        of_models.append([{} for _ in models.member])
    for scores_of, scorers in scorers_by_scores(models):
        scores = scores_of(models)
        if scores is None:
            continue
        added = {scorer: _empty_pool(scorer, models, views) for scorer in scorers}
        for model in range(len(models.member)):
            found = _add_model(added, models, scores, model)
            for view, results in zip(views, of_models, strict=True):
                of_view = {one.kind.name: found[one][view.groups] for one in found}
                results[model] |= of_view
        pools |= {scorer: pool for scorer, pool in added.items() if pool.has_values}

    for scorer, pool in pools.items():
        if scorer.scored is not None:
            pool.is_complete = scorer.scored(models)
    return pools, of_models


def _empty_pool(
    scorer: Scorer, models: SettingScores, views: Sequence[View]
) -> RankedPool:
    """A pool for real groups, for all placebo groups at once, and for exact ones."""
    divisions = [view.groups for view in views]
    whole = []
    for view in views:
        if view.placebos is not None:
            whole.append(view.placebos.whole)
            if scorer.kind.is_tried_exactly:
                divisions += view.placebos.exact
    return RankedPool(divisions, len(models.member), whole)


def _add_model(
    pools: Mapping[Scorer, RankedPool],
    models: SettingScores,
    scores: FloatArray,
    model: int,
) -> Found:
    """Rank one model's records once for attacks that share their scores."""
    divisions: dict[Groups, None] = {}
    for pool in pools.values():
        divisions |= dict.fromkeys(pool.found)
    ranked = rank(scores[model], models.member[model], list(divisions))
    return {
        scorer: pool.add(model, ranked, scorer.statistic, scores[model])
        for scorer, pool in pools.items()
    }


def _attacked(view: View, pools: Pools, of_models: Sequence[ModelResults]) -> Attacked:
    """The results of all attacks for the groups of one attribute."""
    models = view.scores
    groups = view.groups
    benefit, gap = record_rates(models.answers, models.labels, models.member, groups)
    rows = _rows(view, pools, benefit)
    rows.sort(key=lambda row: row.attack not in pools.plain)
    carried = {row.attack for row in rows}

    exposure = {GAP.name: groups.by_record(gap.value, gap.own)}
    for name, pool in pools.by_name.items():
        if name in carried:
            exposure[name] = pool.by_record(groups)
    coins = None
    if view.placebos is not None:
        coins = coin_panel(models, view.placebos, pools.by_name)
    return Attacked(
        runs=[_exposures(view, results) for results in of_models],
        rows=rows,
        exposure=exposure,
        benefit=groups.by_record(benefit.value, benefit.own),
        positive_rate=benefit.by_model,
        coins=coins,
        exact=_exact(pools, view.placebos),
    )


def _exposures(view: View, results: ModelResults) -> dict[str, dict[str, Exposure]]:
    """One model's ``exposure`` of a release, by group and attack."""
    names = view.scores.group_names
    by_group: dict[str, dict[str, Exposure]] = {name: {} for name in names}
    for attack, advantages in results.items():
        is_own = attack in view.scores.own
        for name, n, found in zip(names, view.groups.sizes, advantages, strict=True):
            if found is None or not math.isfinite(found.value):
                continue
            error = found.standard_error
            n_scored = found.n_members + found.n_nonmembers
            by_group[name][attack] = Exposure(
                value=float(found.value),
                standard_error=None if error is None else float(error),
                n_members=found.n_members,
                n_nonmembers=found.n_nonmembers,
                n_excluded=int(n) - n_scored if is_own else None,
            )
    return by_group


def _rows(view: View, pools: Pools, benefit: Rate) -> list[PooledExposure]:
    """Rows of ``pooled_exposure``, group by group."""
    scores = view.scores
    found = _pooled_exposures(view, pools, benefit)
    separation = pooled.separation(pools.luck, view.groups)
    reliability = pooled.reliability(
        pools.differences, view.groups, n_models=len(pools.luck)
    )
    rows = []
    for k, group in enumerate(scores.group_names):
        for name, exposures in found.items():
            if not math.isfinite(exposures.value[k]):
                continue
            row = PooledExposure(
                model=scores.model,
                epsilon=scores.released_epsilon,
                group=group,
                attack=name,
                value=float(exposures.value[k]),
                standard_error=finite_or_none(exposures.standard_error[k]),
                null_error=finite_or_none(exposures.null_error[k]),
                benefit_covariance=finite_or_none(exposures.benefit_covariance[k]),
                n_records=int(exposures.n_records[k]),
                n_excluded=int(pools.by_name[name].n_excluded(view.groups)[k]),
                separation=finite_or_none(separation[k]),
                reliability=finite_or_none(reliability[k]),
            )
            rows.append(row)
    return rows


def _pooled_exposures(
    view: View, pools: Pools, benefit: Rate
) -> dict[str, PooledExposures]:
    """By attack, the exposures of one attribute's groups over all models."""
    scores = view.scores
    found = {}
    for name, pool in pools.by_name.items():
        found[name] = pool.exposures(view.groups, benefit)
    if len(scores.member) > 1:
        return found

    sizes = view.groups.sums(scores.member, ~scores.member)
    least = single.error_at_chance(*sizes)
    for scorer in pools.ranked:
        if scorer.is_error_at_least_chance:  # see ``single.reference_advantage``
            alone = found[scorer.kind.name]
            found[scorer.kind.name] = replace(
                alone,
                standard_error=np.maximum(alone.standard_error, least),
                null_error=np.maximum(alone.null_error, least),
            )
    return found


def _exact(
    pools: Pools, placebos: Divisions | None
) -> dict[str, list[PooledExposures]]:
    """By attack that is tried exactly, the first placebo groupings attacked alone."""
    if placebos is None or not placebos.exact:
        return {}
    exact = {}
    for scorer, pool in pools.ranked.items():
        if scorer.kind.is_tried_exactly:
            name = scorer.kind.name
            exact[name] = [pool.exposures(division) for division in placebos.exact]
    return exact


def coin_panel(
    models: SettingScores, coins: Divisions, pools: Mapping[str, Pool]
) -> Panel:
    """What an audit would see of all made-up groups, division after division.

    Groups of a division are drawn at random, as by a coin. Runs are the models.
    """
    train, test = _counts(models, coins)
    benefit, _ = record_rates(models.answers, models.labels, models.member, coins.whole)
    exposed = {}
    found = pooled.exposures_together([*pools.values()], coins, benefit)
    for name, exposures in zip(pools, found, strict=True):
        if np.isfinite(exposures.value).any():
            exposed[name] = exposures
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
        pooled=exposed,
    )


def _counts(models: SettingScores, coins: Divisions) -> tuple[Counts, Counts]:
    """Confusion counts (model, placebo group), of each model's records and of others.

    Whom a model trained on is counted; the others are the rest of all.
    """
    member = models.member
    answers = models.answers
    positive = models.labels == 1
    are_right = answers & positive
    everybody = np.ones((1, len(positive)), dtype=bool)
    trained = (member, member & positive, member & answers, member & are_right)
    every = (everybody, positive[None], answers, are_right)
    sums = coins.sums(*trained, *every)

    n_models = len(member)
    of_trained = sums[: 4 * n_models].reshape(4, n_models, -1)
    n, n_positive = sums[4 * n_models :][:2]
    of_answers = sums[4 * n_models + 2 :].reshape(2, n_models, -1)
    of_all = np.stack(np.broadcast_arrays(n, n_positive, *of_answers))
    return _cells(*of_trained), _cells(*(of_all - of_trained))


def _cells(
    n: FloatArray, positive: FloatArray, answered: FloatArray, both: FloatArray
) -> Counts:
    """Counts from those of records, of labels, of positive answers and of both."""
    rest = n - positive - answered + both
    return Counts(both, answered - both, rest, positive - both)
