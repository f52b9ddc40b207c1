"""The one place where models' scores are attacked: every exposure row of a release from any model.

Whoever has scores of records (fitted estimators, predictions) comes here, so that what one of them
gives, all give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pcer.attacks.coins import CheckedCoins, check_with_coins, no_coins
from pcer.attacks.exposure import (
    BudgetScores,
    ExposedSetting,
    RecordShares,
    pooled_attacks_of,
    pooled_notes,
    run_attacks_of,
    weaker_notes,
)
from pcer.release import proxies
from pcer.release.build import Counted, ReleaseFacts
from pcer.release.format import Exposure, PooledExposure
from pcer.release.proxies import GAP, Proxy

FROM_ANSWERS = {proxies.PAIRED_GAP.name}
"""What can be had of models that give answers without probabilities."""

MEASURED = tuple(
    one
    for one in proxies.PROXIES.values()
    if one.basis in (proxies.Basis.MODEL, proxies.Basis.MODELS) and one.scale is not proxies.RATE
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


def with_costs(
    counted: Counted, settings: Sequence[ScoredSetting], facts: ReleaseFacts, *, no_coin: str = ""
) -> Counted:
    """The counts with every cost that the models allow, and what coin flips say of alarms.

    Args:
        counted: runs in the order of the settings, and of the models of each.
        settings: all of one attribute and of the same groups.
        facts: how the splits were drawn, and what a positive prediction is.
        no_coin: why no coin can be flipped for the records; empty where one can.
    """
    costs = attacked(settings)
    exposed = [_exposed(*both) for both in zip(settings, costs, strict=True)]
    coins = _checked(exposed, facts, no_coin)
    found = [run for one in costs for run in one.runs]
    few = (note for one in settings for note in pooled_notes(len(one.scores.member)))
    notes = [*dict.fromkeys(few), *weaker_notes(exposed)]
    return replace(
        counted,
        runs=tuple(
            replace(run, exposure=one) for run, one in zip(counted.runs, found, strict=True)
        ),
        pooled=[row for one in costs for row in one.pooled],
        placebo=coins.rows,
        not_computed={**not_computed(settings, costs), **coins.not_computed},
        notes=[*counted.notes, *notes],
    )


def _checked(exposed: Sequence[ExposedSetting], facts: ReleaseFacts, no_coin: str) -> CheckedCoins:
    """Coin flips through the audit, where splits are random and records stand for themselves."""
    if facts.split_kind != "random":
        return CheckedCoins([], {})
    if no_coin:
        return no_coins(no_coin)
    return check_with_coins(exposed, outcome=facts.outcome)


def _exposed(setting: ScoredSetting, found: SettingCosts) -> ExposedSetting:
    carried = {GAP.name, *(row.proxy for row in found.pooled)}
    exposure = found.records.exposure.items()
    return ExposedSetting(
        model=setting.model,
        epsilon=setting.epsilon,
        scores=setting.scores,
        exposure={name: numbers for name, numbers in exposure if name in carried},
        benefit=found.records.benefit,
    )


def attacked(settings: Sequence[ScoredSetting]) -> list[SettingCosts]:
    """Every cost that the models allow, setting by setting; all of one attribute and its records.

    Errors are those of records drawn anew. Where people have several, ``effective_units`` in the
    release says how far an audit has to widen them.
    """
    return [_of_setting(one) for one in settings]


def _of_setting(setting: ScoredSetting) -> SettingCosts:
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
    named = [row.model_copy(update={"model": setting.model}) for row in found.pooled]
    return found._replace(pooled=named)


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
