"""What does an audit say of the people whom an attacker spots almost surely?

``audit`` calls ``tails_of`` once a release. It reads the rows of ``tail``, judges their
differences in a family of their own (Holm over settings and pairs), and gives every
setting that has rows its answer. The answer stands beside the verdict and enters none.
To add a figure: a field of ``TailGroup`` or ``TailPair`` (answers.py), filled here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pcer.auditing.answers import TailAnswer, TailGroup, TailPair
from pcer.measuring.judged import refutation
from pcer.release.file import Release
from pcer.release.records import TailRow
from pcer.statistics import SIGNIFICANCE, holm, interval_quantile

Setting = tuple[str | None, float | None]


def tails_of(release: Release) -> dict[Setting, TailAnswer]:
    """By model and epsilon, the answer of every setting that has one."""
    tested = [row for row in release.tail if row.p_value is not None]
    p_values = np.array([row.p_value for row in tested], dtype=np.float64)
    adjusted = dict(zip(map(id, tested), holm(p_values).tolist(), strict=True))
    by_setting: dict[Setting, list[TailRow]] = {}
    for row in release.tail:
        by_setting.setdefault((row.model, row.epsilon), []).append(row)

    answers = {}
    for setting, rows in by_setting.items():
        pairs = []
        for row in rows:
            if id(row) in adjusted:
                pairs.append(_pair(row, _other(rows, row), adjusted[id(row)]))
        pairs.sort(key=lambda pair: (pair.answer != "differs", pair.p_value))
        shown = [row for row in rows if row.is_shown]
        answers[setting] = TailAnswer(
            n_models=rows[0].n_models,
            threshold=rows[0].threshold,
            groups=[_group(row, len(shown)) for row in rows],
            pairs=pairs,
        )
    return answers


def _group(row: TailRow, n_groups: int) -> TailGroup:
    """A group as it is said, and whether its people are spotted beyond chance."""
    is_beyond_chance = False
    if row.right is not None and row.right_error is not None:
        z = interval_quantile(1 - SIGNIFICANCE / n_groups)
        is_beyond_chance = row.right - z * row.right_error > 0.5
    return TailGroup(
        group=row.group,
        picked=row.picked,
        picked_error=row.picked_error,
        by_chance=row.by_chance,
        right=row.right,
        right_error=row.right_error,
        is_beyond_chance=is_beyond_chance,
    )


def _other(rows: Sequence[TailRow], row: TailRow) -> TailRow:
    return next(other for other in rows if other.group == row.against)


def _pair(row: TailRow, against: TailRow, p_value: float) -> TailPair:
    """Two groups; the one with the larger surplus, picked (right - 1/2), first."""
    first, second = sorted((row, against), key=_surplus, reverse=True)
    reason = None
    is_shown = p_value <= SIGNIFICANCE
    if is_shown:
        reason = refutation(None, row.n_alarms, row.n_draws or 0)
    return TailPair(
        groups=(first.group, second.group),
        answer="differs" if is_shown and reason is None else "no_difference_shown",
        p_value=p_value,
        p_value_alone=1.0 if row.p_value is None else row.p_value,
        p_value_within_labels=row.p_value_within_labels,
        n_made_up=row.n_alarms,
        n_draws=row.n_draws,
        downgraded=reason,
    )


def _surplus(row: TailRow) -> float:
    if row.picked is None or row.right is None:
        return -math.inf
    return row.picked * (row.right - 0.5)
