"""The one place where models' scores are attacked: every exposure row of a release from any model.

Whoever has scores of records (fitted estimators, predictions) comes here, so that what one of them
gives, all give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pcer.attacks import BudgetScores, RecordShares, pooled_attacks_of, run_attacks_of
from pcer.metrics import FloatArray, IntArray
from pcer.models.splits import effective_units
from pcer.release import Exposure, PooledExposure, Proxy, proxies

FROM_ANSWERS = {proxies.PAIRED_GAP.name}
"""What can be had of models that give answers without probabilities."""

MEASURED = tuple(
    one
    for one in proxies.PROXIES.values()
    if not one.is_from_counts and one.scale is not proxies.RATE
)
"""What is measured wherever it can be; a small rate also needs thousands of people in a group."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredSetting:
    """All models of one setting.

    Attributes:
        model: its name; None where there is but one.
        epsilon: its budget; infinite without differential privacy.
        scores: what its models say.
        has_probabilities: whether the log odds mean anything beyond their sign.
    """

    model: str | None
    epsilon: float
    scores: BudgetScores
    has_probabilities: bool


class SettingCosts(NamedTuple):
    """What attacks found for one setting.

    Attributes:
        runs: by model, group and proxy.
        pooled: rows of ``pooled_exposure``.
        records: who is behind them, which never leaves the trainer.
    """

    runs: list[dict[str, dict[str, Exposure]]]
    pooled: list[PooledExposure]
    records: RecordShares


def attacked(
    settings: Sequence[ScoredSetting], *, persons: IntArray | None = None
) -> list[SettingCosts]:
    """Every cost that the models allow, setting by setting.

    Args:
        settings: all of one attribute and of the same records.
        persons: (record,) who has the record, where people have several: errors are then those of
            people drawn anew, not of records.
    """
    return [_of_setting(one, persons) for one in settings]


def _of_setting(setting: ScoredSetting, persons: IntArray | None) -> SettingCosts:
    scores, epsilon = setting.scores, setting.epsilon
    pooled = pooled_attacks_of([scores], epsilon=epsilon)[0]
    if not setting.has_probabilities:
        rows = [row for row in pooled.rows if row.proxy in FROM_ANSWERS]
        found = SettingCosts([{} for _ in scores.member], rows, pooled.records)
    else:
        single = run_attacks_of([scores], epsilon=epsilon)[0]
        exposure = {**single.records.exposure, **pooled.records.exposure}
        records = RecordShares(exposure, pooled.records.benefit)
        found = SettingCosts(single.runs, [*single.rows, *pooled.rows], records)
    if persons is not None:
        found = _of_people(found, scores, persons)
    named = [row.model_copy(update={"model": setting.model}) for row in found.pooled]
    return found._replace(pooled=named)


def _of_people(found: SettingCosts, scores: BudgetScores, persons: IntArray) -> SettingCosts:
    """The same with errors of people drawn anew."""
    rows = []
    for row in found.pooled:
        chosen = scores.group == scores.group_names.index(row.group)
        numbers = found.records.exposure[row.proxy][chosen]
        error = person_error(row.standard_error, numbers, persons[chosen])
        rows.append(row.model_copy(update={"standard_error": error}))
    units = effective_units(persons, scores.group, scores.group_names)
    sizes = np.bincount(scores.group[scores.group >= 0], minlength=len(scores.group_names))
    factor = {
        name: math.sqrt(float(n) / units[name])
        for name, n in zip(scores.group_names, sizes, strict=True)
        if name in units
    }
    return found._replace(runs=[_widened(run, factor) for run in found.runs], pooled=rows)


def person_error(error: float | None, numbers: FloatArray, persons: IntArray) -> float | None:
    """A record-clustered error, with what people add who have several records.

    What a person's records add to a mean is summed before it is squared; never less than before.

    Args:
        error: of the mean, records drawn anew.
        numbers: (record,) whose mean it is.
        persons: (record,) who has the record.

    >>> person_error(0.0, np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1]))
    0.816496580927726
    """
    n, n_persons = len(numbers), len(np.unique(persons))
    if error is None or n_persons < 2:
        return None
    parts = (numbers - numbers.mean()) / n
    of_records = float((parts**2).sum()) * n / (n - 1)
    of_persons = float((np.bincount(persons, parts) ** 2).sum()) * n_persons / (n_persons - 1)
    return math.sqrt(error**2 + max(0.0, of_persons - of_records))


def _widened(
    run: dict[str, dict[str, Exposure]], factor: dict[str, float]
) -> dict[str, dict[str, Exposure]]:
    """Errors of one model as if all records of a person were alike."""
    return {
        group: {name: _wider(one, factor.get(group, 1.0)) for name, one in found.items()}
        for group, found in run.items()
    }


def _wider(one: Exposure, factor: float) -> Exposure:
    if one.standard_error is None:
        return one
    return one.model_copy(update={"standard_error": one.standard_error * factor})


def not_computed(
    settings: Sequence[ScoredSetting], found: Sequence[SettingCosts]
) -> dict[str, str]:
    """By proxy, why some setting does not have it."""
    reasons: dict[str, str] = {}
    for setting, costs in zip(settings, found, strict=True):
        carried = {row.proxy for row in costs.pooled}
        for proxy in MEASURED:
            if proxy.name not in carried and proxy.name not in reasons:
                which = "" if setting.model is None else f"{setting.model}: "
                reasons[proxy.name] = which + _reason(setting, proxy)
    return reasons


def _reason(setting: ScoredSetting, proxy: Proxy) -> str:
    n_models = len(setting.scores.member)
    if not setting.has_probabilities and proxy.name not in FROM_ANSWERS:
        return (
            "the models give no probabilities (predict_proba, y_score), and scores of another kind "
            "do not compare between models"
        )
    if n_models < proxy.least_models:
        return f"it needs at least {proxy.least_models} splits, and there are {n_models}"
    return "no group has records that enough models trained on and enough others held out"
