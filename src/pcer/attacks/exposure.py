"""From the scores of a sweep, or of any attack tool, to the exposure rows of a release.

The trainer's side: nothing that audits imports this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.divisions import Divisions, divided_costs
from pcer.attacks.groups import (
    AUC,
    LIRA,
    Found,
    KeptParts,
    Pooled,
    Views,
    pooled_attacks,
    single_model_attacks,
)
from pcer.attacks.groups import BudgetScores as BudgetScores
from pcer.attacks.lira import LEAST_MODELS
from pcer.attacks.pooled import PooledAdvantage, clustered_auc
from pcer.attacks.single import Advantage, auc_advantage
from pcer.auditing import setting_name
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.columns import column_of, named_columns, numbers_of, required_column
from pcer.release.format import Exposure, PooledExposure
from pcer.release.panel import Panel, PooledExposures

WEAKER = 3.0
"""Errors of the difference by which LiRA must fall short of the loss attack before that is said."""

MOST_NAMED = 5
"""Groups and settings that a note names."""

RunExposures = list[dict[str, dict[str, Exposure]]]
Coins = dict[str, PooledExposures]


class _Rows(NamedTuple):
    """A table of scores, checked; groups as positions in their names, -1 where missing."""

    record: IntArray
    group: IntArray
    group_names: list[str]
    member: BoolArray
    score: FloatArray


class RecordShares(NamedTuple):
    """Numbers of single records whose means over a group are what its release says.

    Attributes:
        exposure: by cost, (record,); NaN for records of no group.
        benefit: (record,) the same for the positive rate on test records.
    """

    exposure: dict[str, FloatArray]
    benefit: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ExposedSetting:
    """The models of one setting beside one attribute, and what attacks found.

    Attributes:
        model: the setting's name; None where there is but one model.
        epsilon: its budget; infinite without differential privacy.
        scores: what its models say of every record.
        exposure: by cost, (record,) numbers whose means over groups are the costs: those that
            the release carries, and the gap.
        benefit: (record,) the same of the positive rate.
        panel: ``coin_panel`` of the coin flips, if it was made with the attacks.
        exact: with it, by cost the first coin flips as they are attacked exactly.
    """

    model: str | None = None
    epsilon: float
    scores: BudgetScores
    exposure: Mapping[str, FloatArray]
    benefit: FloatArray
    panel: Panel | None = None
    exact: Mapping[str, PooledExposures] = field(default_factory=dict)


class PooledAttacks(NamedTuple):
    """Rows of ``pooled_exposure``, and who is behind them, which never leaves the trainer.

    Attributes:
        rows: by group and cost.
        records: who is behind them.
        coins: by cost, the same of the groups of coin flips, where those were asked for.
        exact: by cost, LiRA and RMIA, the same of the first of them, attacked exactly.
    """

    rows: list[PooledExposure]
    records: RecordShares
    coins: Coins
    exact: Coins


class RunAttacks(NamedTuple):
    """What single models tell, and their means.

    Attributes:
        runs: ``exposure`` of every run.
        rows: of the costs that are means of those.
        records: who is behind the rows.
        coins: as of ``PooledAttacks``.
    """

    runs: RunExposures
    rows: list[PooledExposure]
    records: RecordShares
    coins: Coins


def run_exposures(scores: BudgetScores) -> RunExposures:
    """For every seed and group name, the proxies of single models: ``exposure`` of a release."""
    return run_exposures_of([scores])[0]


def run_exposures_of(scores: Sequence[BudgetScores]) -> list[RunExposures]:
    """The same for several attributes of the same models, at little more than the price of one."""
    return [one.runs for one in run_attacks_of(scores, epsilon=math.inf)]


def run_attacks_of(
    scores: Sequence[BudgetScores], *, epsilon: float, coins: Sequence[Divisions | None] = ()
) -> list[RunAttacks]:
    """The same, and the costs that are means over the models, from one pass over them.

    Args:
        scores: one for each attribute.
        epsilon: the budget.
        coins: for each attribute coin flips to look at too, or None.
    """
    views, flipped = _with_everybody(scores, coins)
    found = single_model_attacks(views)
    kept = flipped([one.pooled.kept for one in found])
    return [
        RunAttacks(
            [_of_groups(one, model) for model in of_view.models],
            *_told(one, of_view.pooled, epsilon),
            costs,
        )
        for one, of_view, costs in zip(scores, found, kept, strict=False)
    ]


def pooled_exposures(scores: BudgetScores, *, epsilon: float) -> list[PooledExposure]:
    """For every group, the proxies over all seeds: rows of ``pooled_exposure``.

    With fewer than 8 seeds only the paired costs; ``pooled_notes`` says so in words.

    Args:
        scores: all models of the budget.
        epsilon: the budget; infinite without differential privacy.
    """
    return pooled_exposures_of([scores], epsilon=epsilon)[0]


def pooled_exposures_of(
    scores: Sequence[BudgetScores], *, epsilon: float
) -> list[list[PooledExposure]]:
    """The same for several attributes of the same models."""
    return [one.rows for one in pooled_attacks_of(scores, epsilon=epsilon)]


def pooled_attacks_of(
    scores: Sequence[BudgetScores], *, epsilon: float, coins: Sequence[Divisions | None] = ()
) -> list[PooledAttacks]:
    """The same, and who is behind the rows; arguments as of ``run_attacks_of``."""
    drawn = [[] if one is None else one.exact for one in coins] or [[]] * len(scores)
    views, flipped = _with_everybody(scores, coins, [codes for one in drawn for codes in one])
    found = pooled_attacks(views)
    kept, exact = flipped([one.kept for one in found]), iter(found[len(views.own) :])
    return [
        PooledAttacks(*_told(one, of_view, epsilon), costs, _stacked([*islice(exact, len(own))]))
        for one, of_view, costs, own in zip(scores, found, kept, drawn, strict=False)
    ]


def _with_everybody(
    scores: Sequence[BudgetScores],
    coins: Sequence[Divisions | None],
    drawn: Sequence[tuple[IntArray, int]] = (),
) -> tuple[Views, Callable[[Sequence[KeptParts | None]], list[Coins]]]:
    """Views of the attributes and of everybody in one; and what makes coin flips of the latter."""
    masks = [np.where(one.group >= 0, 0, -1).astype(np.int64) for one in scores]
    asked = list(coins) or [None] * len(scores)
    whole = {
        mask.tobytes(): mask for mask, one in zip(masks, asked, strict=True) if one is not None
    }

    def flipped(kept: Sequence[KeptParts | None]) -> list[Coins]:
        own = dict(zip(whole, filter(None, kept), strict=True))
        return [
            {} if one is None else divided_costs(own[mask.tobytes()], one)
            for mask, one in zip(masks, asked, strict=True)
        ]

    return Views(scores, list(whole.values()), drawn), flipped


def _stacked(found: Sequence[Pooled]) -> Coins:
    """By cost, the groups of all divisions one after the other, as ``divided_costs`` has them."""
    groups = [group for one in found for group in one.groups]
    return {
        cost: PooledExposures(
            **{
                part.name: np.array([getattr(one[cost], part.name) for one in groups], np.float64)
                for part in fields(PooledExposures)
            }
        )
        for cost in (groups[0] if groups else ())
    }


def pooled_notes(n_seeds: int) -> list[str]:
    """What a release of so few seeds must tell its reader; empty if there are enough."""
    if n_seeds >= LEAST_MODELS:
        return []
    return [
        f"LiRA and RMIA need at least {LEAST_MODELS} seeds per budget and there are {n_seeds}; "
        "they were not run."
    ]


def weaker_notes(settings: Sequence[ExposedSetting]) -> list[str]:
    """Where LiRA finds less than the plain loss attack, beyond 3 errors of their difference."""
    weaker = [
        f"{name!r} at {setting_name(one.model, None if math.isinf(one.epsilon) else one.epsilon)} "
        f"(by {-difference:.3f} ± {error:.3f})"
        for one in settings
        for name, difference, error in _beyond_loss(one)
        if difference < -WEAKER * error
    ]
    if not weaker:
        return []
    more = f" and {len(weaker) - MOST_NAMED} more" if len(weaker) > MOST_NAMED else ""
    return [
        "LiRA finds less than the plain loss attack and understates exposure of "
        f"{'; '.join(weaker[:MOST_NAMED])}{more}."
    ]


def _beyond_loss(setting: ExposedSetting) -> Iterator[tuple[str, float, float]]:
    """Of every group its name, LiRA's exposure less that of the loss attack, and the error."""
    if not {LIRA, AUC} <= setting.exposure.keys():
        return
    beyond = setting.exposure[LIRA] - setting.exposure[AUC]
    for k, name in enumerate(setting.scores.group_names):
        own = beyond[setting.scores.group == k]
        if len(own) > 1 and np.isfinite(own).all():
            yield name, float(own.mean()), float(own.std(ddof=1)) / math.sqrt(len(own))


def exposure_from_scores(table: Any) -> dict[str, Exposure]:
    """Bring your own scores: one model's table of (record, group, member, score), per group.

    The value is AUC minus 1/2 with DeLong's error. Put it into a run's ``exposure`` under a name
    that says which attack it was.

    Args:
        table: a dataframe of any library, or a dict of columns, with the columns ``record`` (each
            once), ``group`` (records without one are left out), ``member`` (True or 1 for those
            the model was trained on) and ``score`` (higher means more likely a member).

    >>> found = exposure_from_scores(
    ...     {"record": "abcd", "group": "xxyy", "member": [1, 0, 1, 0], "score": [3, 1, 2, 1]}
    ... )
    >>> found["x"].value
    0.5
    """
    rows = _read(table)
    if len(np.unique(rows.record)) < len(rows.record):
        raise InputError(
            "record must name each record once, but one appears twice; give one model at a time, "
            "or several with a column model to pooled_exposure_from_scores."
        )
    found = {
        name: auc_advantage(rows.score[rows.group == k], rows.member[rows.group == k])
        for k, name in enumerate(rows.group_names)
    }
    return {name: _exposure(one) for name, one in found.items() if math.isfinite(one.value)}


def pooled_exposure_from_scores(table: Any, *, epsilon: float, proxy: str) -> list[PooledExposure]:
    """The same for several models of one budget, with an error clustered by record.

    Args:
        table: as for ``exposure_from_scores``, with a column ``model``; a record has one row for
            each model that scored it.
        epsilon: the budget; infinite without differential privacy.
        proxy: the name that the attack gets in the release.
    """
    rows = _read(table)
    model = required_column(_column(table, "model"), name="model").codes
    _require_lengths(record=rows.record, model=model)
    found = []
    for k, name in enumerate(rows.group_names):
        pooled = clustered_auc(*_spread_out(rows, model, rows.group == k))
        if math.isfinite(pooled.value):
            found.append(pooled_row(epsilon, name, proxy, pooled))
    return found


def _told(
    scores: BudgetScores, found: Pooled, epsilon: float
) -> tuple[list[PooledExposure], RecordShares]:
    rows = [
        pooled_row(epsilon, name, proxy, one)
        for name, group in zip(scores.group_names, found.groups, strict=True)
        for proxy, one in group.items()
        if math.isfinite(one.value)
    ]
    return rows, RecordShares(found.exposure, found.benefit)


def _of_groups(scores: BudgetScores, found: Sequence[Found]) -> dict[str, dict[str, Exposure]]:
    return {name: _exposures(one) for name, one in zip(scores.group_names, found, strict=True)}


def _exposures(found: Found) -> dict[str, Exposure]:
    return {name: _exposure(one) for name, one in found.items() if math.isfinite(one.value)}


def _exposure(found: Advantage) -> Exposure:
    return Exposure(
        value=found.value,
        standard_error=found.standard_error,
        n_members=found.n_members,
        n_nonmembers=found.n_nonmembers,
    )


def pooled_row(epsilon: float, group: str, proxy: str, found: PooledAdvantage) -> PooledExposure:
    """What was found over all models of a budget, as a release has it."""
    return PooledExposure(
        epsilon=None if math.isinf(epsilon) else epsilon,
        group=group,
        proxy=proxy,
        value=found.value,
        standard_error=found.standard_error,
        null_error=found.null_error,
        benefit_covariance=found.benefit_covariance,
        n_records=found.n_records,
        n_excluded=found.n_excluded,
        separation=found.separation,
    )


def _read(table: Any) -> _Rows:
    """The columns of a table, checked."""
    record = required_column(_column(table, "record"), name="record").codes
    group = column_of(_column(table, "group"), "group")
    score = numbers_of(_column(table, "score"), len(record), name="score")
    member = numbers_of(_column(table, "member"), len(record), name="member")
    _require_lengths(record=record, group=group.codes, member=member, score=score)
    if not np.isfinite(score).all():
        raise InputError("score must be finite, but some are not; leave those records out.")
    if not np.isin(member, (0, 1)).all():
        raise InputError("member must be True or False (1 or 0) for every record; recode it.")
    return _Rows(record, group.codes, group.names, member == 1, score)


def _column(table: Any, name: str) -> Any:
    columns = named_columns(table, None)
    if name not in columns:
        raise InputError(
            f"The table of scores has no column {name!r}; it has {', '.join(columns)}: rename it."
        )
    return columns[name]


def _spread_out(rows: _Rows, model: IntArray, chosen: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Chosen rows as arrays (model, record); NaN where a model has no score for a record."""
    models, row = np.unique(model[chosen], return_inverse=True)
    records, column = np.unique(rows.record[chosen], return_inverse=True)
    scores = np.full((len(models), len(records)), np.nan)
    member = np.zeros(scores.shape, dtype=bool)
    scores[row, column], member[row, column] = rows.score[chosen], rows.member[chosen]
    if int(np.isfinite(scores).sum()) < int(chosen.sum()):
        raise InputError("A record appears twice for one model; give every model its own name.")
    return scores, member


def _require_lengths(**columns: npt.NDArray[Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"All columns must have one length, but they have {lengths}.")
