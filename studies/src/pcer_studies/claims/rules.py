"""How is a claim decided? By one of nine rules, or by several of them together.

    above        every number lies above a bound
    excludes_0   the interval of every number lies above 0
    larger       of every pair the first is the larger
    best         one of the named numbers is smaller (or larger) than every other
    flat         numbers differ by less than a share of the largest
    near         every number lies within a tolerance of what is printed
    at_least     of many questions so many are as claimed
    correlated   points correlate by so much
    none_apart   no number can be told from 0, or no interval excludes it

A rule takes numbers (``quantities``) and gives a question. Put to a view, the question
replies with parts that lie above 0 if the claim is right (``judgement``). A part is no
extreme of several numbers: what is smallest or largest only by chance would pass for a
finding. Thresholds stand for words and are in ``thresholds.csv``; what the paper prints
is asked to its last digit.

To add a rule: a function that returns a ``ClaimQuestion``, and its line above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np

from pcer.metrics import FloatArray
from pcer_studies.claims.judgement import ClaimPart, ClaimQuestion, Reply, strength
from pcer_studies.claims.our_run import OurRun
from pcer_studies.claims.quantities import (
    ClaimNumber,
    NumberPair,
    are_available,
    configurations_of,
    correlation,
    half_digit,
    printed,
    size,
)
from pcer_studies.claims.views import View
from pcer_studies.claims.wording import r_words

FEW = 6
"""Numbers that are printed one by one; of more, the smallest and the largest."""


def above(
    numbers: Sequence[ClaimNumber], bound: float = 0.0, *, sign: int = 1
) -> ClaimQuestion:
    """Every number lies above a bound; with sign -1, below it."""

    def ask(view: View) -> Reply:
        available = _available(numbers, view)
        parts = []
        for number in available:
            margin = np.asarray(sign * (number.draws(view) - bound))
            parts.append(_part(number, margin))

        limit = "0" if bound == 0 else available[0].write(bound)
        why = f"{_count_above_0(parts)} {_side(sign)} {limit}."
        return Reply(_figures(available, view), tuple(parts), why)

    return ask


def larger(pairs: Sequence[NumberPair]) -> ClaimQuestion:
    """Of every pair the first number is the larger."""

    def ask(view: View) -> Reply:
        available = [pair for pair in pairs if are_available(pair, view)]
        if not available:
            _available([*chain.from_iterable(pairs)], view)  # says what is missing
        parts = []
        for first, second in available:
            margin = first.draws(view) - second.draws(view)
            parts.append(_part_of_two(_versus(first, second), margin, first, second))

        by_name = {number.name: number for number in chain.from_iterable(available)}
        figures = _figures([*by_name.values()], view)
        why = f"The first is larger in {_count_above_0(parts)}."
        return Reply(figures, tuple(parts), why)

    return ask


def excludes_0(numbers: Sequence[ClaimNumber], *, sign: int = 1) -> ClaimQuestion:
    """The interval of every number lies above 0; with sign -1, below it."""

    def ask(view: View) -> Reply:
        available = _available(numbers, view)
        parts = [_part_by_interval(number, view, sign) for number in available]
        n_outside = sum(part.is_as_claimed for part in parts)

        figures = "; ".join(number.as_text_with_interval(view) for number in available)
        why = f"{n_outside} of {len(parts)} intervals lie {_side(sign)} 0."
        return Reply(figures, tuple(parts), why)

    return ask


def _part_by_interval(number: ClaimNumber, view: View, sign: int) -> ClaimPart:
    """A number and its interval, both mirrored at 0 where the sign is -1."""
    margin = np.asarray(sign * number.draws(view))
    low, high = number.interval_ends(view)[::sign]
    return replace(_part(number, margin), interval=(sign * low, sign * high))


def best(
    numbers: Sequence[ClaimNumber],
    named: Iterable[int],
    *,
    largest: bool = False,
    what: str,
) -> ClaimQuestion:
    """The best of those named by place is smaller (or larger) than every other."""
    chosen = set(named)
    sign = -1.0 if largest else 1.0
    word = "largest" if largest else "smallest"

    def ask(view: View) -> Reply:
        values = [sign * number.draws(view) for number in numbers]
        ranked = sorted(range(len(numbers)), key=lambda k: float(values[k][0]))
        winner = next(k for k in ranked if k in chosen)
        parts = []
        for rival in range(len(numbers)):
            if rival not in chosen:
                name = f"{what}: {_versus(numbers[rival], numbers[winner])}"
                margin = values[rival] - values[winner]
                part = _part_of_two(name, margin, numbers[winner], numbers[rival])
                parts.append(replace(part, n_tries=len(chosen)))

        in_print = dict.fromkeys((ranked[0], winner))  # one, if the best was named
        figures = "; ".join(numbers[k].as_text(view) for k in in_print)
        return Reply(f"{what}: {word} {figures}", tuple(parts))

    return ask


def flat(numbers: Sequence[ClaimNumber], share: float) -> ClaimQuestion:
    """Of every two numbers the smaller lacks less than a share of the larger."""

    def ask(view: View) -> Reply:
        ordered = sorted(numbers, key=lambda number: -abs(number.value(view)))
        parts = []
        for first, second in combinations(ordered, 2):
            least = (1 - share) * size(first.draws(view))
            margin = size(second.draws(view)) - least
            name = f"room to the limit: {_versus(second, first)}"
            parts.append(_part_of_two(name, margin, first, second))

        why = f"Flat: within {100 * share:.0f} % of the largest."
        return Reply(_figures(numbers, view), tuple(parts), why)

    return ask


def near(
    numbers: Sequence[ClaimNumber],
    ends: tuple[float, float],
    tolerance: float,
    *,
    exact: bool = False,
) -> ClaimQuestion:
    """Every number lies within a tolerance of a printed one, or of a printed range.

    The limit that is the nearer one decides, as in two one-sided tests. With ``exact``
    the numbers are read off the page and have no error but rounding.
    """

    def ask(view: View) -> Reply:
        available = _available(numbers, view)
        parts = []
        for number in available:
            draws = number.draws(view)
            if exact:
                draws = draws[:1]
            parts.append(_part(number, tolerance + _inside(draws, ends)))

        low, high = (available[0].write(end) for end in ends)
        asked = low if ends[0] == ends[1] else f"{low} to {high}"
        room = f"{tolerance:.6f}".rstrip("0").rstrip(".")
        why = f"Within {room} of {asked}." if tolerance else f"Asked: {asked}."
        return Reply(_figures(available, view), tuple(parts), why)

    return ask


def _inside(draws: FloatArray, ends: tuple[float, float]) -> FloatArray:
    """How far a number lies inside the end that is the nearer one, draw by draw."""
    low, high = ends
    return min(draws - low, high - draws, key=lambda room: float(room[0]))


def as_printed(
    number: ClaimNumber,
    name: str,
    rounding: float | None = None,
    *,
    exact: bool = False,
) -> ClaimQuestion:
    """A number is the one of the paper's text, to its last digit or to ``rounding``."""
    expected = printed(name)
    tolerance = half_digit(name) if rounding is None else rounding
    return near([number], (expected, expected), tolerance, exact=exact)


def at_least(
    questions: Sequence[ClaimQuestion], least: int, *, what: str
) -> ClaimQuestion:
    """At least so many of several questions are as claimed: a partial conjunction.

    Of n answers, ordered by their weakest part, the one at place ``least`` decides. It
    was picked from n - least + 1 where it is as claimed, and from ``least`` where it is
    not (Benjamini and Heller, 2008). A count of signs would take luck for agreement.
    """

    def ask(view: View) -> Reply:
        answers = [question(view).parts for question in questions]
        answers = sorted(answers, key=strength)[::-1]  # clearest first
        parts = []
        for part in answers[least - 1]:
            n_picked_from = len(answers) - least + 1 if part.estimate > 0 else least
            parts.append(replace(part, n_tries=part.n_tries * n_picked_from))

        n_as_claimed = sum(map(_are_as_claimed, answers))
        figure = f"{what}: {n_as_claimed} of {len(answers)}"
        why = f"Number {least}, the clearest first, decides."
        return Reply(figure, tuple(parts), why)

    return ask


def _are_as_claimed(parts: Iterable[ClaimPart]) -> bool:
    return all(part.is_as_claimed for part in parts)


def both_signs(numbers: Sequence[ClaimNumber]) -> ClaimQuestion:
    """Some of the numbers lie above 0 and some below."""
    positive = [above([number]) for number in numbers]
    negative = [above([number], sign=-1) for number in numbers]
    return together(
        at_least(positive, 1, what="above 0"), at_least(negative, 1, what="below 0")
    )


def correlated(
    points: Sequence[NumberPair], least: float, *, sign: int = 1, what: str
) -> ClaimQuestion:
    """The points correlate by more than ``least`` (with sign -1: by less)."""
    about = configurations_of(chain.from_iterable(points))

    def ask(view: View) -> Reply:
        r = correlation(points, view)
        part = ClaimPart(what, sign * (r - least), r_words, about)
        figure = f"{what}: r = {r_words(float(r[0]))}"
        return Reply(figure, (part,), f"Asked: {_side(sign)} {least:g}.")

    return ask


def none_apart(numbers: Sequence[ClaimNumber]) -> ClaimQuestion:
    """No number can be told from 0: where tables have its interval, that holds 0."""

    def ask(view: View) -> Reply:
        available = _available(numbers, view)
        parts = []
        for number in available:
            interval = None if number.interval is None else number.interval(view)
            part = _part(number, number.draws(view))
            parts.append(replace(part, is_zero=True, interval=interval))

        n_as_claimed = sum(part.is_as_claimed for part in parts)
        why = (
            f"{n_as_claimed} of {len(parts)} cannot be told from 0, which is no proof "
            "that they are 0."
        )
        return Reply(_figures(available, view), tuple(parts), why)

    return ask


def together(*questions: ClaimQuestion) -> ClaimQuestion:
    """All of several rules."""

    def ask(view: View) -> Reply:
        replies = [question(view) for question in questions]
        figures = dict.fromkeys(reply.figure for reply in replies)
        parts = chain.from_iterable(reply.parts for reply in replies)
        reasons = dict.fromkeys(reply.why for reply in replies if reply.why)
        return Reply("; ".join(figures), tuple(parts), " ".join(reasons))

    return ask


# Parts and sentences that rules share.


def _part(number: ClaimNumber, margin: FloatArray) -> ClaimPart:
    return ClaimPart(number.name, margin, number.write, number.about)


def _part_of_two(
    name: str, margin: FloatArray, first: ClaimNumber, second: ClaimNumber
) -> ClaimPart:
    return ClaimPart(name, margin, first.write, (*first.about, *second.about))


def _available(numbers: Sequence[ClaimNumber], view: View) -> list[ClaimNumber]:
    """The numbers that a view has; NotThere where it has none.

    What the paper does not print makes no claim. Our run must have every number.
    """
    missing = [number for number in numbers if not number.is_available(view)]
    if len(missing) == len(numbers):
        numbers[0].draws(view)  # raises NotThere
    if missing and isinstance(view, OurRun):
        missing[0].draws(view)  # raises NotThere
    return [number for number in numbers if number not in missing]


def _figures(numbers: Sequence[ClaimNumber], view: View) -> str:
    """Few numbers one by one, of many the ends."""
    if len(numbers) <= FEW:
        return "; ".join(number.as_text(view) for number in numbers)
    values = [number.value(view) for number in numbers]
    smallest = numbers[values.index(min(values))].as_text(view)
    largest = numbers[values.index(max(values))].as_text(view)
    return f"{len(numbers)} numbers, from {smallest} to {largest}"


def _count_above_0(parts: Sequence[ClaimPart]) -> str:
    return f"{sum(part.estimate > 0 for part in parts)} of {len(parts)}"


def _side(sign: int) -> str:
    return "above" if sign > 0 else "below"


def _versus(first: ClaimNumber, second: ClaimNumber) -> str:
    return f"{first.name} − {second.name}"
