"""What is a row of the first screen, and how large is a difference in words?

Every setting has six rows, each with a question, its answer in a few words, and
sentences with the figures; where a release says whom an attacker spots almost surely, a
seventh stands before the last. ``spotting``, ``serving``, ``paper_answers``, ``tails``
and ``trust`` make them of the setting's ``answers``; ``sentences.of`` gives all.
Outputs that have little room leave out figures (``shortened``), never an answer. To add
a row: a function that gives a ``Row``, and its place in ``sentences.of``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pcer.auditing.answers import Interval
from pcer.measuring.sizes import Size
from pcer.wording import capital, listed, plural_ending, say, two_digits

MOST_DIFFERENCES = 3  # that an answer names; of more it says how many there are


class Bar(NamedTuple):
    """A group's rate of 100, and what was true of its people."""

    group: str
    of_100: float
    was: float | None = None


class Bars(NamedTuple):
    """Rates of groups that have one title."""

    title: str
    bars: Sequence[Bar]


class Dots(NamedTuple):
    """How many of 100 people of a group are singled out: dark among 100 dots."""

    group: str
    of_100: float


class Points(NamedTuple):
    """How often of 100 an attack spots each group, and by how much two differ."""

    attack: str
    success: dict[str, float]
    groups: tuple[str, str]
    difference: Interval | None  # of the first group over the second, in points


class Row(NamedTuple):
    """A question, its answer, its figures, and what a picture shows."""

    question: str
    answer: str
    figures: Sequence[str]
    is_alarm: bool = False
    aside: str = ""  # the end of an alarming answer that has no alarm colour itself
    points: Points | None = None
    bars: Sequence[Bars] = ()
    dots: Sequence[Dots] = ()
    n_open: int | None = None  # figures that a page shows unfolded; None: all

    @property
    def main(self) -> str:
        """The answer without its aside, which alone may have the alarm colour."""
        return self.answer.removesuffix(self.aside).strip()

    @property
    def text(self) -> str:
        """The row as running text."""
        return " ".join([self.question, f"{self.answer}.", *self.figures])


def shortened(rows: Sequence[Row], fits: Callable[[Sequence[Row]], bool]) -> list[Row]:
    """Rows with as many of their figures as fit, in their order; answers stay.

    First the first figure of every row is tried, then the second of those that have
    one so far, and so on.
    """
    kept = [row._replace(figures=()) for row in rows]
    for depth in range(max(len(row.figures) for row in rows)):
        for place, row in enumerate(rows):
            short = kept[place]
            if len(short.figures) != depth or depth >= len(row.figures):
                continue
            kept[place] = row._replace(figures=row.figures[: depth + 1])
            if not fits(kept):
                kept[place] = short
    return kept


# Differences in words


class Named(NamedTuple):
    """A group that an answer names, and how large its difference is."""

    group: str
    size: Size | None


def adverb(size: Size | None) -> str:
    """What stands before "easier" or "more often", with the space after it."""
    return "" if size is None else say("size", size)


def by_size(named: Sequence[Named], phrase: str) -> str:
    """Groups that differ, largest first: "far more often: A; slightly: B; 1 more".

    The first adverb fills the place ``{size}`` of the phrase; of ``named`` the largest
    come first. A size that an interval leaves open has no adverb.
    """
    shown = named[:MOST_DIFFERENCES]
    parts: list[str] = []
    for size in dict.fromkeys(one.size for one in shown):
        groups = listed([one.group for one in shown if one.size == size])
        how = adverb(size).strip()
        if not parts:
            parts.append(f"{phrase.format(size=adverb(size))}: {groups}")
        else:
            parts.append(f"{how or say('easier', 'also')}: {groups}")
    n_more = len(named) - len(shown)
    if n_more > 0:
        parts.append(f"{n_more} more group{plural_ending(n_more)}")
    return capital("; ".join(parts))


def apart(ends: Interval | None, *, is_shown: bool, unit: str = "points") -> str:
    """By how many points one group has more than the other, by the interval.

    >>> apart((0.24, 1.21), is_shown=True), apart((-0.14, 1.4), is_shown=False)
    ('apart by 0.24 to 1.2 points', '0.14 less to 1.4 points more')
    >>> apart((-0.14, 1.4), is_shown=True), apart((-3.0, -1.0), is_shown=False)
    ('apart, by at most 1.4 points', '1 to 3 points less')
    """
    if ends is None:
        return "no interval is known"
    low, high = ends
    least, most = sorted(map(abs, ends))
    if low <= 0 <= high:
        if is_shown:
            return f"apart, by at most {two_digits(most)} {unit}"
        return f"{two_digits(-low)} less to {two_digits(high)} {unit} more"
    how_much = f"{two_digits(least)} to {two_digits(most)} {unit}"
    if is_shown:
        return f"apart by {how_much}"
    return f"{how_much} {'less' if high < 0 else 'more'}"


def more_or_less(ends: Interval | None) -> str:
    """How much more one group has than the other, where "apart" would not fit.

    >>> more_or_less((0.24, 1.21)), more_or_less((-0.14, 1.4)), more_or_less((-3, -1))
    ('0.24 to 1.2 more', '0.14 less to 1.4 more', '1 to 3 less')
    """
    if ends is None:
        return "more or less (no interval is known)"
    low, high = ends
    if low < 0 < high:
        return f"{two_digits(-low)} less to {two_digits(high)} more"
    least, most = sorted(map(abs, ends))
    way = "less" if high <= 0 else "more"
    return f"{two_digits(least)} to {two_digits(most)} {way}"


def turned(ends: Interval | None, *, is_first: bool, per_one: float) -> Interval | None:
    """An interval of first minus second in points, or of second minus first."""
    if ends is None:
        return None
    low, high = per_one * ends[0], per_one * ends[1]
    return (low, high) if is_first else (-high, -low)
