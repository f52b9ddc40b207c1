"""Whom does an attacker spot almost surely?

A seventh row, where a release has the numbers: how many of 100 people of each group are
singled out, how often that is right, and whether groups differ by more than chance. The
row of means stays above it, and no verdict rests on it. To add a sentence: a line of
``words.toml``, section ``tail``, and where it is said here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pcer.auditing.answers import TailAnswer, TailGroup, TailPair
from pcer.auditing.record import SettingResult
from pcer.auditing.sentences.rows import Dots, Row
from pcer.statistics import SIGNIFICANCE
from pcer.wording import decimals, listed, p_words, say

MOST: Final = 0.99  # a share that is released so is that or more
SMALL: Final = 0.0995  # a share below it has a decimal
MOST_GROUPS: Final = 3  # that an answer names; of more the highest and the lowest


def tail_row(setting: SettingResult) -> Row | None:
    """The row of a setting; None where the release says nothing of it."""
    tail = setting.tail
    if tail is None:
        return None
    named = _named(tail)
    is_found = any(group.is_beyond_chance for group in named)
    return Row(
        question=say("question", "tail"),
        answer=_answer_words(tail, named),
        figures=[*_figures(tail, named)],
        dots=[Dots(one.group, 100 * (one.picked or 0.0)) for one in named],
        n_open=1 if is_found else 0,
    )


def _named(tail: TailAnswer) -> list[TailGroup]:
    """Groups with numbers, the one with most people first."""
    shown = [group for group in tail.groups if group.picked is not None]
    shown.sort(key=lambda group: -(group.picked or 0.0))
    return shown if len(shown) <= MOST_GROUPS else [shown[0], shown[-1]]


def _answer_words(tail: TailAnswer, named: Sequence[TailGroup]) -> str:
    if not named:
        return say("tail", "too_few")
    if not any(group.is_beyond_chance for group in named):
        return say("tail", "nobody")
    first, *rest = [(_share(group.picked), group.group) for group in named]
    numbers = [say("tail", "first", n=first[0], group=first[1])]
    numbers += [say("tail", "further", n=n, group=group) for n, group in rest]
    differing = [pair.groups[0] for pair in tail.pairs if pair.answer == "differs"]
    counts = ", ".join(numbers)
    if differing:
        return say("tail", "differs", counts=counts, groups=listed([*set(differing)]))
    if tail.pairs:
        return say("tail", "no_difference", counts=counts)
    return counts


def _figures(tail: TailAnswer, named: Sequence[TailGroup]) -> Iterator[str]:
    """Each group's numbers, what chance gives, and the test."""
    for place, group in enumerate(named):
        yield say(
            "tail",
            "of_first" if place == 0 else "of_further",
            group=group.group,
            picked=_share(group.picked),
            right=_share(group.right),
        )
    if named:
        chances = [group.by_chance or 0.0 for group in named]
        most = math.ceil(1000 * max(chances)) / 10
        yield say("tail", "by_chance", n=decimals(most, 1))
    for pair in tail.pairs[:1]:
        yield from _test(pair)
    few = [group.group for group in tail.groups if group.picked is None]
    if few and named:
        yield say("tail", "few", groups=listed(few))
    yield say("tail", "beside")


def _test(pair: TailPair) -> Iterator[str]:
    first, second = pair.groups
    values = {"first": first, "second": second, "p": p_words(pair.p_value)}
    if pair.downgraded is not None:
        yield say("tail", "downgraded", reason=pair.downgraded, **values)
        return
    if pair.answer != "differs":
        yield say("tail", "not_shown", **values)
        return
    within = pair.p_value_within_labels
    is_within = within is not None and within <= SIGNIFICANCE
    form = "shown_within" if is_within else "shown"
    yield say("tail", form, within=p_words(within), **values)


def _share(share: float | None) -> str:
    """A share of 1 as a number of 100.

    >>> _share(0.434), _share(0.006), _share(0.99)
    ('43', '0.6', '99 or more')
    """
    if share is None:
        return say("tail", "unknown")
    if share >= MOST:
        return say("tail", "most")
    return decimals(100 * share, 1 if share < SMALL else 0)
