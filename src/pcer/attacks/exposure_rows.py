"""How do models' scores become the exposure rows of a release, for any kind of model?

Sweeps, fitted estimators, predictions and tables all come here (``add_exposures``), so
that all give the same attacks. A user's own scores are part of ``SettingScores``. To
add an attack: see ``scorers``; a note on them: one more line of ``weaker_notes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from pcer.attacks.attack import Attacked, attack_models
from pcer.attacks.placebo import (
    CHECKING,
    Drawn,
    Task,
    TaskRunner,
    check_with_coins,
    draw_coins,
    one_by_one,
)
from pcer.attacks.scorers import SettingScores
from pcer.attacks.subgroup_rows import as_one_group, subgroup_rows
from pcer.attacks.sums import Divisions
from pcer.attacks.tail_rows import TAIL, Picked, picked_in, tail_rows
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import (
    ATTACK_KINDS,
    AUC,
    AUC_ADVANTAGE,
    LIRA,
    PAIRED_GAP,
    RATE,
    SHADOWS,
    AttackKind,
    Basis,
)
from pcer.release.build import (
    Counted,
    CountedRun,
    Entries,
    ReleaseFacts,
    RunKey,
    count_entries,
)
from pcer.release.joint import Answered
from pcer.release.population import Attribute
from pcer.release.records import SubgroupSearch, TailRow
from pcer.wording import setting_name

PLACEBO = "placebo"  # the name of the made-up-groups check in ``not_computed``
# LiRA must be weaker than the loss attack by this many errors before a note says so.
WEAKER = 3.0
MOST_NAMED = 5  # groups and settings that a note names


def count_models(
    attribute: Attribute,
    settings: Sequence[SettingScores],
    models: Sequence[tuple[int, str]],
) -> Counted:
    """Counts of every setting's models, which have these seeds and splits.

    One model is counted at a time.
    """
    runs: list[CountedRun] = []
    for scores in settings:
        positive = scores.labels == 1
        by_model = zip(models, scores.member, scores.answers, strict=True)
        for model, member, predicted in by_model:
            entries = Entries(
                run=np.zeros_like(scores.labels),
                split=np.where(member, 0, 1),
                positive=positive,
                predicted=predicted,
            )
            key = RunKey(scores.released_epsilon, *model, scores.model)
            counted = count_entries(entries, [key], attribute)
            runs += counted.runs
    return replace(counted, runs=tuple(runs))


def answered_by(settings: Sequence[Sequence[SettingScores]]) -> Answered:
    """Whom every setting's models were trained on, and what they answer."""
    views = [by_attribute[0] for by_attribute in settings]
    parts = [(~view.member).astype(np.int8) for view in views]
    return Answered(
        positive=views[0].labels == 1,
        part=np.concatenate(parts),
        predicted=np.concatenate([view.answers for view in views]),
    )


def add_exposures(  # noqa: PLR0913 # front door of the room
    counted: Sequence[Counted],
    settings: Sequence[Sequence[SettingScores]],
    facts: ReleaseFacts,
    *,
    no_coin: str = "",
    without: Collection[str] = (),
    run: TaskRunner = one_by_one,
    on_step: Callable[[str], None] = lambda doing: None,
) -> list[Counted]:
    """Add to the counts every attack that models allow, and the made-up-groups check.

    Args:
        counted: by attribute; runs in the order of the settings, and of the models of
            each.
        settings: by setting and attribute; see ``attack_models``.
        facts: how the splits were drawn, and whether a positive prediction helps or
            harms.
        no_coin: why no placebo groups can be drawn; empty where they can.
        without: attacks that no row over several models is wanted of.
        run: calls tasks, perhaps in parallel, and gives their results in order.
        on_step: called with the name of each step after the attacks.
    """
    by_attribute = [*zip(*settings, strict=True)]
    drawn = [_drawn(views, facts, no_coin) for views in by_attribute]
    coins = [one.coins for one in drawn]
    attacked = list(run([(attack_models, (views, coins)) for views in settings]))
    picked = list(run([(picked_in, (views[0],)) for views in settings]))
    searches = _searches([views[0] for views in settings], facts, run)
    on_step(CHECKING)

    released = []
    for own, views, results, one in zip(
        counted, by_attribute, zip(*attacked, strict=True), drawn, strict=True
    ):
        remaining = [_left(result, without) for result in results]
        absent = not_computed(views, results) | _without_tail(picked)
        if one.reason:
            absent[PLACEBO] = one.reason
        placebo = []
        if one.coins is not None:
            placebo = check_with_coins(
                views, remaining, one.coins, outcome=facts.outcome or "benefit", run=run
            )
        whole = replace(
            _with_rows(own, views, remaining),
            placebo=placebo,
            tail=_tails(views, results, picked, one.coins, run),
            subgroups=searches,
            not_computed=absent,
        )
        released.append(whole)
    return released


def _with_rows(
    counted: Counted, views: Sequence[SettingScores], attacked: Sequence[Attacked]
) -> Counted:
    """The counts of one attribute with what attacks found, and notes on it."""
    exposures = chain(*[result.runs for result in attacked])
    by_run = zip(counted.runs, exposures, strict=True)
    runs = [replace(run, exposure=exposure) for run, exposure in by_run]
    notes = [*few_split_notes(views), *weaker_notes(views, attacked)]
    return replace(
        counted,
        runs=tuple(runs),
        pooled=list(chain(*[result.rows for result in attacked])),
        notes=[*counted.notes, *notes],
    )


def _without_tail(picked: Sequence[Picked]) -> dict[str, str]:
    """Why no setting has a tail, or some setting has none."""
    reasons = [one.reason for one in picked if one.reason]
    return {TAIL: reasons[0]} if reasons else {}


def _tails(
    views: Sequence[SettingScores],
    attacked: Sequence[Attacked],
    picked: Sequence[Picked],
    coins: Divisions | None,
    run: TaskRunner,
) -> list[TailRow]:
    """Rows of ``tail`` of one attribute, setting by setting."""
    tasks: list[Task] = []
    for view, result, one in zip(views, attacked, picked, strict=True):
        if one.found is not None:
            tasks.append((tail_rows, (view, one.found, result.rows, coins)))
    return list(chain(*run(tasks)))


def _searches(
    views: Sequence[SettingScores], facts: ReleaseFacts, run: TaskRunner
) -> list[SubgroupSearch]:
    """What is said of subgroups, where attributes for them were named."""
    if not views[0].traits:
        return []
    everybody = [as_one_group(view) for view in views]
    attacked = run([(attack_models, ([view],)) for view in everybody])
    outcome = facts.outcome or "benefit"
    return subgroup_rows(everybody, list(chain(*attacked)), outcome)


def _drawn(views: Sequence[SettingScores], facts: ReleaseFacts, no_coin: str) -> Drawn:
    """Placebo groupings of one attribute, where the splits are random."""
    if facts.split_kind != "random":
        return Drawn(None, "")
    if no_coin:
        return Drawn(None, no_coin)
    return draw_coins(views)


def _left(attacked: Attacked, without: Collection[str]) -> Attacked:
    """The results of one setting over all its models, without those of some attacks."""
    rows = [row for row in attacked.rows if row.attack not in without]
    remaining = [name for name in attacked.exposure if name not in without]
    exposure = {name: attacked.exposure[name] for name in remaining}
    return replace(attacked, rows=rows, exposure=exposure)


def not_computed(
    settings: Sequence[SettingScores], attacked: Sequence[Attacked]
) -> dict[str, str]:
    """By attack, why some setting does not have it."""
    kinds = _expected_kinds(settings[0])
    reasons: dict[str, str] = {}
    for setting, result in zip(settings, attacked, strict=True):
        if setting.of_tables and not setting.has_probabilities:
            continue  # outcomes alone
        carried = set(result.exposure)
        for by_group in result.runs:
            carried.update(*by_group.values())
        which = "" if setting.model is None else f"{setting.model}: "
        for kind in kinds:
            if kind.name not in carried and kind.name not in reasons:
                reasons[kind.name] = which + _reason(setting, kind)
    return reasons


def _expected_kinds(setting: SettingScores) -> list[AttackKind]:
    """Attacks that enough splits of such models or tables allow."""
    expected = []
    for kind in ATTACK_KINDS.values():
        if kind.scale is RATE:
            continue  # TPR at a small FPR needs thousands of people in a group
        is_of_tables = kind.scale is AUC or kind.basis is Basis.TABLES
        if setting.of_tables and not is_of_tables:
            continue
        bases = [Basis.MODEL, Basis.MODELS]
        if setting.of_tables:
            bases.append(Basis.TABLES)
        if kind.basis in bases:
            expected.append(kind)
    return expected


def _reason(setting: SettingScores, kind: AttackKind) -> str:
    """Why a setting has no such attack."""
    if not setting.has_probabilities and kind is not PAIRED_GAP:
        return (
            "the models give no probabilities (predict_proba, y_score), and other "
            "scores are not comparable between models"
        )
    if setting.n_splits < kind.least_models:
        return (
            f"it needs at least {kind.least_models} splits, and there are "
            f"{setting.n_splits}"
        )
    return (
        "no group has records that enough models trained on and enough others held out"
    )


def few_split_notes(settings: Sequence[SettingScores]) -> list[str]:
    """A note for each number of splits that is too small for LiRA and RMIA."""
    few = {view.n_splits: None for view in settings if view.n_splits < SHADOWS}
    return [
        f"LiRA and RMIA need at least {SHADOWS} splits per budget and there are {n}; "
        "they were not run."
        for n in few
    ]


def weaker_notes(
    settings: Sequence[SettingScores], attacked: Sequence[Attacked]
) -> list[str]:
    """A note where LiRA is weaker than the plain loss attack by more than 3 errors."""
    weaker: list[str] = []
    for setting, result in zip(settings, attacked, strict=True):
        exposure = result.exposure
        if LIRA.name in exposure and AUC_ADVANTAGE.name in exposure:
            difference = exposure[AUC_ADVANTAGE.name] - exposure[LIRA.name]
            weaker += _weaker_groups(setting, difference)
    if not weaker:
        return []
    named = "; ".join(weaker[:MOST_NAMED])
    if len(weaker) > MOST_NAMED:
        named += f" and {len(weaker) - MOST_NAMED} more"
    return [
        "LiRA finds less than the plain loss attack and understates exposure of "
        f"{named}."
    ]


def _weaker_groups(setting: SettingScores, difference: FloatArray) -> list[str]:
    """Groups of one setting whose mean (record,) difference is far above its error."""
    weaker = []
    for k, name in enumerate(setting.group_names):
        of_group = difference[setting.group == k]
        if len(of_group) < 2 or not np.isfinite(of_group).all():
            continue
        mean = of_group.mean()
        error = of_group.std(ddof=1) / math.sqrt(len(of_group))
        if mean > WEAKER * error:
            where = setting_name(setting.model, setting.released_epsilon)
            weaker.append(f"{name!r} at {where} (by {mean:.3f} ± {error:.3f})")
    return weaker
