"""A comparison of two releases in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pcer.auditing.changed import (
    ChangeVerdict,
    GroupChange,
    PairChange,
    SettingChange,
    strongest,
)
from pcer.auditing.words import in_setting
from pcer.release import Proxy

APART: Final = 0.01
"""Difference of the shares trained on from which on a reader is told."""


def headline(settings: Sequence[SettingChange], cost: Proxy) -> str:
    """Whose exposure rose and which difference grew; or fell; or the most that may be missed."""
    verdict = strongest(one.verdict for one in settings)
    if verdict is ChangeVerdict.CANNOT_BE_TOLD:
        return _missed(settings, cost)
    parts = [
        _told(one, row, cost, several=len(settings) > 1)
        for one in settings
        for row in one.rows
        if row.verdict is verdict
    ]
    word = "Worse" if verdict is ChangeVerdict.WORSE else "Improved"
    more = f"; and {len(parts) - MOST_TOLD} more" if len(parts) > MOST_TOLD else ""
    return f"{word}: {'; '.join(parts[:MOST_TOLD])}{more}."


MOST_TOLD: Final = 3
"""Findings that a headline names."""


def _told(
    setting: SettingChange, row: GroupChange | PairChange, cost: Proxy, *, several: bool
) -> str:
    where = f" {in_setting(setting.new.model, setting.new.epsilon)}" if several else ""
    old, new = row.old or 0.0, row.new or 0.0
    if isinstance(row, GroupChange):
        amounts = f"{cost.scale.hundredths(new)} (before: {cost.scale.hundredths(old)})"
        words = cost.scale.short.format(found=amounts, label=cost.label)
        return f"in {row.group}{where} {words}"
    grew = "grew" if abs(new) > abs(old) else "shrank"
    return (
        f"the difference between {row.groups[0]} and {row.groups[1]}{where} {grew} from "
        f"{hundredths(abs(old), cost)} to {hundredths(abs(new), cost)}"
    )


def hundredths(amount: float, cost: Proxy) -> str:
    """A change or difference of a cost, in people of 100 or its own unit, as part of a sentence."""
    value = cost.scale.per_unit * amount
    number = f"{value:z.2g}" if abs(value) < 10 else f"{value:z.0f}"
    return f"{number} in 100" if cost.scale.per_unit != 1.0 else number


def _missed(settings: Sequence[SettingChange], cost: Proxy) -> str:
    risen = [row.most for one in settings for row in one.groups if row.most is not None]
    grown = [row.most for one in settings for row in one.pairs if row.most is not None]
    if not risen:
        return "Whether it is worse cannot be told: no group has people enough for this cost."
    apart = (
        f", and no difference between groups has grown by more than {hundredths(max(grown), cost)}"
        if grown
        else ""
    )
    return (
        f"Not shown to be worse or better: no group's exposure has risen by more than "
        f"{hundredths(max(risen), cost)}{apart}, with 95 % confidence."
    )


def account(
    cost: Proxy,
    settings: Sequence[SettingChange],
    *,
    same_people: bool,
    shares: tuple[float, float],
) -> Iterator[str]:
    """What it rests on, in sentences.

    Args:
        cost: in both.
        settings: everything that was tested.
        same_people: whether both are of the same records.
        shares: of the records that old and new models were trained on.
    """
    if strongest(one.verdict for one in settings) is not ChangeVerdict.CANNOT_BE_TOLD:
        yield _missed(settings, cost).replace("Not shown to be worse or better: no", "In all, no")
    yield f"Exposure is measured by {cost.phrase} in both, for people like these."
    yield _errors(settings, same_people=same_people)
    if abs(shares[0] - shares[1]) > APART:
        yield (
            f"The old models were trained on {100 * shares[0]:.0f} of 100 records and the new ones "
            f"on {100 * shares[1]:.0f}: part of a change may come from that."
        )


def _errors(settings: Sequence[SettingChange], *, same_people: bool) -> str:
    paired = [one.n_paired for one in settings if one.n_paired is not None]
    if paired:
        return (
            f"Both are of the same records and share {min(paired)} splits, which are compared with "
            "each other; whom the models remember of these people is taken as differently as it "
            "can be."
        )
    if same_people:
        return (
            "Both are of the same records, but what is compared has too few splits in common, or "
            "one error over all of them: the errors of both are added."
        )
    return (
        "The releases do not say that they are of the same records (provenance.data_digest), so "
        "the errors of both are added."
    )
