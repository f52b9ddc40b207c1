"""The one way from models' scores to the exposure rows of a release, for any kind of model.

Sweeps, fitted estimators, predictions and tables all come here, so that all give the
same attacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pcer.attacks.attack import Attacked, attack_models, pooled_row
from pcer.attacks.lira import LEAST_MODELS
from pcer.attacks.placebo import (
    CHECKING,
    TaskRunner,
    check_with_coins,
    draw_coins,
    one_by_one,
)
from pcer.attacks.pooled import clustered_auc
from pcer.attacks.scorers import BudgetScores
from pcer.attacks.sums import Divisions
from pcer.errors import InputError
from pcer.release.attack_kinds import (
    AUC_ADVANTAGE,
    LIRA,
    PAIRED_GAP,
    PROXIES,
    RATE,
    Basis,
    Proxy,
)
from pcer.release.build import (
    Counted,
    CountedRun,
    Entries,
    ReleaseFacts,
    RunKey,
    count_entries,
)
from pcer.release.columns import column_of, named_columns, numbers_of, required_column
from pcer.release.records import PooledExposure
from pcer.release.small_groups import Attribute
from pcer.wording import setting_name

PLACEBO = "placebo"  # the name of the made-up-groups check in ``not_computed``
# LiRA must be weaker than the loss attack by this many errors before a note says so
WEAKER = 3.0
MOST_NAMED = 5  # groups and settings that a note names


def count_models(
    attribute: Attribute,
    settings: Sequence[BudgetScores],
    models: Sequence[tuple[int, str]],
) -> Counted:
    """Counts of every setting's models, which have these seeds and splits; one at a time."""
    runs: list[CountedRun] = []
    for scores in settings:
        positive = scores.labels == 1
        answers = scores.answers
        for model, member, predicted in zip(
            models, scores.member, answers, strict=True
        ):
            key = RunKey(scores.released_epsilon, *model, scores.model)
            split = np.where(member, 0, 1)
            run = np.zeros_like(scores.labels)
            entries = Entries(
                run=run, split=split, positive=positive, predicted=predicted
            )
            counted = count_entries(entries, [key], attribute)
            runs += counted.runs
    return replace(counted, runs=tuple(runs))


def with_costs(
    counted: Sequence[Counted],
    settings: Sequence[Sequence[BudgetScores]],
    facts: ReleaseFacts,
    *,
    no_coin: str = "",
    without: Collection[str] = (),
    run: TaskRunner = one_by_one,
    on_step: Callable[[str], None] = lambda doing: None,
) -> list[Counted]:
    """Add to the counts every attack that the models allow, and the made-up-groups check.

    Args:
        counted: by attribute; runs in the order of the settings, and of the models of
            each.
        settings: by setting and attribute; see ``attack_models``.
        facts: how the splits were drawn, and whether a positive prediction helps or
            harms.
        no_coin: why no placebo groups can be drawn; empty where they can.
        without: attacks that the release has from elsewhere.
        run: calls tasks, perhaps in parallel, and gives their results in order.
        on_step: called with the name of each step after the attacks.
    """
    by_attribute = [*zip(*settings, strict=True)]
    drawn: list[tuple[Divisions | None, str]] = [(None, "")] * len(counted)
    if facts.split_kind == "random":
        drawn = [
            (None, no_coin) if no_coin else draw_coins(views) for views in by_attribute
        ]
    coins = [flips for flips, _ in drawn]
    found = list(run([(attack_models, (views, coins)) for views in settings]))
    on_step(CHECKING)
    released = []
    for own, scores, whole, (flips, reason) in zip(
        counted, by_attribute, zip(*found, strict=True), drawn, strict=True
    ):
        absent = not_computed(scores, whole)
        attacked = [
            replace(
                setting,
                runs=[
                    {
                        g: {k: x for k, x in of.items() if k not in without}
                        for g, of in own.items()
                    }
                    for own in setting.runs
                ],
                rows=[row for row in setting.rows if row.proxy not in without],
                exposure={
                    k: x for k, x in setting.exposure.items() if k not in without
                },
            )
            for setting in whole
        ]
        placebo = []
        if flips is not None:
            placebo = check_with_coins(
                scores, attacked, flips, outcome=facts.outcome, run=run
            )
        exposures = (exposure for setting in attacked for exposure in setting.runs)
        few = {
            f"LiRA and RMIA need at least {LEAST_MODELS} splits per budget and there are "
            f"{view.n_splits}; they were not run.": None
            for view in scores
            if view.n_splits < LEAST_MODELS
        }
        released.append(
            replace(
                own,
                runs=tuple(
                    replace(model, exposure=exposure)
                    for model, exposure in zip(own.runs, exposures, strict=True)
                ),
                pooled=[row for setting in attacked for row in setting.rows],
                placebo=placebo,
                not_computed=absent | ({PLACEBO: reason} if reason else {}),
                notes=[*own.notes, *few, *weaker_notes(scores, attacked)],
            )
        )
    return released


def not_computed(
    settings: Sequence[BudgetScores], attacked: Sequence[Attacked]
) -> dict[str, str]:
    """By attack, why some setting does not have it."""
    reasons: dict[str, str] = {}
    for setting, result in zip(settings, attacked, strict=True):
        of_runs = (found.keys() for run in result.runs for found in run.values())
        carried = set(result.exposure).union(*of_runs)
        for proxy in _expected():
            if proxy.name not in carried and proxy.name not in reasons:
                which = "" if setting.model is None else f"{setting.model}: "
                reasons[proxy.name] = which + _reason(setting, proxy)
    return reasons


def _expected() -> list[Proxy]:
    """Attacks that every release should have.

    TPR at a small FPR is not among them: it needs thousands of people in a group.
    """
    of_scores = (Basis.MODEL, Basis.MODELS)
    kinds = [kind for kind in PROXIES.values() if kind.basis in of_scores]
    return [kind for kind in kinds if kind.scale is not RATE]


def _reason(setting: BudgetScores, proxy: Proxy) -> str:
    if not setting.has_probabilities and proxy is not PAIRED_GAP:
        return (
            "the models give no probabilities (predict_proba, y_score), and other scores are not "
            "comparable between models"
        )
    if setting.n_splits < proxy.least_models:
        return f"it needs at least {proxy.least_models} splits, and there are {setting.n_splits}"
    return (
        "no group has records that enough models trained on and enough others held out"
    )


def weaker_notes(
    settings: Sequence[BudgetScores], attacked: Sequence[Attacked]
) -> list[str]:
    """A note where LiRA is weaker than the plain loss attack by more than 3 errors."""
    weaker = []
    for setting, result in zip(settings, attacked, strict=True):
        if not {LIRA.name, AUC_ADVANTAGE.name} <= result.exposure.keys():
            continue
        short = result.exposure[AUC_ADVANTAGE.name] - result.exposure[LIRA.name]
        for k, name in enumerate(setting.group_names):
            own = short[setting.group == k]
            if len(own) < 2 or not np.isfinite(own).all():
                continue
            error = own.std(ddof=1) / math.sqrt(len(own))
            if own.mean() > WEAKER * error:
                where = setting_name(setting.model, setting.released_epsilon)
                weaker.append(
                    f"{name!r} at {where} (by {own.mean():.3f} ± {error:.3f})"
                )
    if not weaker:
        return []
    more = f" and {len(weaker) - MOST_NAMED} more" if len(weaker) > MOST_NAMED else ""
    return [
        "LiRA finds less than the plain loss attack and understates exposure of "
        f"{'; '.join(weaker[:MOST_NAMED])}{more}."
    ]


def exposure_from_scores(
    table: Any, *, epsilon: float, proxy: str
) -> list[PooledExposure]:
    """Turn the scores of any attack tool into rows of ``pooled_exposure``, by group.

    The value is AUC minus 1/2, averaged over the models, with an error clustered by
    record.

    Args:
        table: a dataframe of any library, or a dict of columns, with the columns
            ``record``, ``group`` (records without one are left out), ``member`` (True
            or 1 for those the model was trained on) and ``score`` (higher means more
            likely a member). For several models also ``model``, with one row for each
            record and model.
        epsilon: the budget; infinite without differential privacy.
        proxy: the name of the attack in the release.

    >>> table = {"record": "abcd", "group": "xxyy", "member": [1, 0, 1, 0], "score": [3, 1, 2, 1]}
    >>> [row.value for row in exposure_from_scores(table, epsilon=1.0, proxy="mine")]
    [0.5, 0.5]
    """
    columns = named_columns(table, None)
    for name in ("record", "group", "member", "score"):
        if name not in columns:
            raise InputError(
                f"The table of scores has no column {name!r}; it has {', '.join(columns)}: rename "
                "it."
            )
    record = required_column(columns["record"], name="record").codes
    group = column_of(columns["group"], "group")
    score, member = (
        numbers_of(columns[x], len(record), name=x) for x in ("score", "member")
    )
    model = np.zeros(len(record), dtype=np.int64)
    if "model" in columns:
        model = required_column(columns["model"], name="model").codes
    lengths = {len(column) for column in (record, group.codes, score, member, model)}
    if len(lengths) > 1:
        raise InputError(
            f"All columns must have one length, but they have {sorted(lengths)}."
        )
    if not np.isfinite(score).all():
        raise InputError(
            "score must be finite, but some are not; leave those records out."
        )
    if not np.isin(member, (0, 1)).all():
        raise InputError(
            "member must be True or False (1 or 0) for every record; recode it."
        )
    rows = []
    for k, name in enumerate(group.names):
        chosen = group.codes == k
        models, row = np.unique(model[chosen], return_inverse=True)
        records, place = np.unique(record[chosen], return_inverse=True)
        scores = np.full((len(models), len(records)), np.nan)
        inside = np.zeros(scores.shape, dtype=bool)
        scores[row, place] = score[chosen]
        inside[row, place] = member[chosen] == 1
        if int(np.isfinite(scores).sum()) < int(chosen.sum()):
            raise InputError(
                "A record appears twice for one model; give every model its own name in a column "
                "model."
            )
        found = clustered_auc(scores, inside)
        n_excluded = int(np.isnan(scores).any(axis=0).sum())
        if math.isfinite(found.value[0]):
            budget = None if math.isinf(epsilon) else epsilon
            key = {
                "epsilon": budget,
                "group": name,
                "proxy": proxy,
                "n_excluded": n_excluded,
            }
            rows.append(pooled_row(found, 0, **key))
    return rows
