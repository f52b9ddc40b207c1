"""The nine rules by which claims are decided, and the numbers they are about.

    above        every number lies above a bound
    excludes_0   the interval of every number lies above 0
    larger       of every pair the first is the larger
    best         one of the named numbers is smaller (or larger) than every other
    flat         numbers differ by less than a share of the largest
    near         every number lies within a tolerance of what is printed
    at_least     of many questions so many are as claimed
    correlated   points correlate by so much
    none_apart   no number can be told from 0, or no interval excludes it

A rule makes parts that lie above 0 if it is as claimed (``judgement``). A part is no
extreme of several numbers: what is smallest or largest only by chance would pass for a
finding. Thresholds stand for words and are in ``thresholds.csv``; what the paper prints
is asked to its last digit.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import combinations

import numpy as np

from pcer.metrics import FloatArray
from pcer.wording import decimals, signed
from pcer_studies.claims.judgement import (
    ClaimPart,
    ClaimQuestion,
    Reply,
    Writer,
    strength,
)
from pcer_studies.claims.views import OurRun, View
from pcer_studies.numbers import INTERVAL_WIDTH
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    DEFAULT_FLOOR,
    NO_DP,
    Configuration,
    budget_label,
    configuration,
)
from pcer_studies.published import NotThere, text_figure

COMPAS = configuration("compas", "race")
ADULT_SEX = configuration("adult", "sex")
ADULT_RACE = configuration("adult", "race")
ACS_RACE = configuration("acs", "race")
ACS_SEX = configuration("acs", "sex")
BIOS = configuration("bios", "gender")

PRIVATE = tuple(epsilon for epsilon in BUDGETS if epsilon != NO_DP)
FROM_HALF = (0.5, 1.0, 5.0, 10.0)
FROM_1 = (1.0, 5.0, 10.0)
STRONGEST = 0.1
"""The smallest budget, which the paper calls floor-dominated."""
INFORMATIVE = tuple(epsilon for epsilon in BUDGETS if epsilon != STRONGEST)
"""The budgets that the paper ranks by disparity: it leaves the strongest out."""

FEW = 6
"""Numbers that are printed one by one; of more, the smallest and the largest."""

StudySetting = tuple[Configuration, float]
SETTINGS: tuple[StudySetting, ...] = tuple(
    (one, e) for one in CONFIGURATIONS for e in BUDGETS
)
CELLS = tuple((one, epsilon, group) for one, epsilon in SETTINGS for group in (0, 1))
"""Every group of every setting."""


# Numbers.


@dataclass(frozen=True, eq=False)
class ClaimNumber:
    """A number that a claim is about."""

    name: str
    of: Callable[[View], FloatArray]
    write: Writer
    about: tuple[Configuration, ...]
    interval: Callable[[View], tuple[float, float]] | None = None

    def told(self, view: View) -> str:
        """Name and value."""
        return f"{self.name} {self.write(float(self.of(view)[0]))}"

    def told_with_interval(self, view: View) -> str:
        """Name, value and interval."""
        low, high = self.ends(view)
        return f"{self.told(view)} [{self.write(low)}, {self.write(high)}]"

    def ends(self, view: View) -> tuple[float, float]:
        """Its 95 % interval: that of the tables, else by its error."""
        if self.interval is not None:
            return self.interval(view)
        drawn = self.of(view)
        reach = INTERVAL_WIDTH / 2 * float(drawn[1:].std(ddof=1))
        return float(drawn[0]) - reach, float(drawn[0]) + reach


def at(
    one: Configuration,
    epsilon: float,
    of: Callable[[View], FloatArray],
    write: Writer,
    after: str = "",
) -> ClaimNumber:
    """A number of one setting, named by it; ``after`` says more."""
    return ClaimNumber(
        f"{one.name}, {budget_words((epsilon,))}{after}", of, write, (one,)
    )


def gap_of(one: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """A group's mean gap."""
    name = f", {one.groups[group]}"
    return at(one, epsilon, lambda view: view.gap(one, epsilon, group), gap_words, name)


def disparity_of(
    one: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
) -> ClaimNumber:
    """A mean disparity."""
    name = "" if floor == DEFAULT_FLOOR else f", floor {floor:g}"
    found = at(
        one, epsilon, lambda view: view.disparity(one, epsilon, floor), signed, name
    )
    return replace(found, interval=lambda view: view.interval(one, epsilon, floor))


def size_of(one: Configuration, epsilon: float) -> ClaimNumber:
    """The size of a mean disparity."""
    return at(
        one,
        epsilon,
        lambda view: size(view.disparity(one, epsilon)),
        lambda v: decimals(v, 1),
    )


def size(drawn: FloatArray) -> FloatArray:
    """A number without its sign.

    Draws keep theirs: folded at 0 their error would be too small.
    """
    return np.asarray(drawn * np.sign(drawn[0]))


def parity_of(one: Configuration, epsilon: float) -> ClaimNumber:
    """A mean demographic parity gap."""
    return at(one, epsilon, lambda view: view.parity(one, epsilon), rate_words)


def odds_of(one: Configuration, epsilon: float) -> ClaimNumber:
    """A mean equalized odds gap."""
    return at(one, epsilon, lambda view: view.odds(one, epsilon), rate_words)


def rate_of(one: Configuration, epsilon: float, group: int) -> ClaimNumber:
    """A group's mean positive rate."""
    name = f", {one.groups[group]}"
    return at(
        one, epsilon, lambda view: view.rate(one, epsilon, group), rate_words, name
    )


def negative_share(one: Configuration, epsilon: float) -> ClaimNumber:
    """Share of seeds below 0, minus one half; half a seed nearer to it, since seeds are whole."""

    def ask(view: View) -> FloatArray:
        off = view.n_negative(one, epsilon) - view.n_seeds / 2
        return np.asarray((off - 0.5 * np.sign(off[0])) / view.n_seeds)

    return at(one, epsilon, ask, share_words, ", negative seeds − ½")


def made(
    name: str, of: Callable[[View], FloatArray], write: Writer, *about: Configuration
) -> ClaimNumber:
    """A number that is computed from others."""
    return ClaimNumber(name, of, write, about)


def extreme(numbers: Sequence[ClaimNumber], end: str, what: str) -> ClaimNumber:
    """The smallest (``low``) or largest (``high``) of several."""
    choose, word = (np.min, "smallest") if end == "low" else (np.max, "largest")
    return made(
        f"{word} {what}",
        lambda view: np.asarray(choose([n.of(view) for n in numbers], axis=0)),
        numbers[0].write,
        *dict.fromkeys(one for n in numbers for one in n.about),
    )


# The nine rules.


def above(
    numbers: Sequence[ClaimNumber], bound: float = 0.0, *, sign: int = 1
) -> ClaimQuestion:
    """Every number lies above a bound; with sign -1, below it."""

    def ask(view: View) -> Reply:
        there = _there(numbers, view)
        parts = [
            ClaimPart(n.name, np.asarray(sign * (n.of(view) - bound)), n.write, n.about)
            for n in there
        ]
        side = "above" if sign > 0 else "below"
        told = f" {side} {there[0].write(bound)}" if bound else f" {side} 0"
        return Reply(_figures(there, view), tuple(parts), f"{_count(parts)}{told}.")

    return ask


def larger(pairs: Sequence[tuple[ClaimNumber, ClaimNumber]]) -> ClaimQuestion:
    """Of every pair the first number is the larger."""

    def ask(view: View) -> Reply:
        there = [pair for pair in pairs if all(_known(n, view) for n in pair)]
        if not there:
            _there([n for pair in pairs for n in pair], view)
        parts = [
            ClaimPart(
                _versus(a, b), a.of(view) - b.of(view), a.write, (*a.about, *b.about)
            )
            for a, b in there
        ]
        shown = list({n.name: n for pair in there for n in pair}.values())
        return Reply(
            _figures(shown, view),
            tuple(parts),
            f"The first is larger in {_count(parts)}.",
        )

    return ask


def excludes_0(numbers: Sequence[ClaimNumber], *, sign: int = 1) -> ClaimQuestion:
    """The interval of every number lies above 0; with sign -1, below it."""

    def ask(view: View) -> Reply:
        there = _there(numbers, view)
        parts = []
        for n in there:
            margin = np.asarray(sign * n.of(view))
            low, high = n.ends(view)[::sign]
            interval = (sign * low, sign * high)
            parts.append(ClaimPart(n.name, margin, n.write, n.about, interval=interval))
        side = "above" if sign > 0 else "below"
        found = sum(part.is_as_claimed for part in parts)
        told = "; ".join(n.told_with_interval(view) for n in there)
        return Reply(
            told, tuple(parts), f"{found} of {len(parts)} intervals lie {side} 0."
        )

    return ask


def best(
    numbers: Sequence[ClaimNumber],
    named: Iterable[int],
    *,
    largest: bool = False,
    what: str,
) -> ClaimQuestion:
    """The best of those named by place is smaller (or larger) than every other."""
    chosen = set(named)

    def ask(view: View) -> Reply:
        sign, word = (-1.0, "largest") if largest else (1.0, "smallest")
        values = [sign * n.of(view) for n in numbers]
        ranked = sorted(range(len(numbers)), key=lambda k: float(values[k][0]))
        ours = next(k for k in ranked if k in chosen)
        parts = [
            ClaimPart(
                f"{what}: {_versus(numbers[k], numbers[ours])}",
                values[k] - values[ours],
                numbers[k].write,
                (*numbers[ours].about, *numbers[k].about),
                n_tries=len(chosen),
            )
            for k in range(len(numbers))
            if k not in chosen
        ]
        shown = "; ".join(
            numbers[k].told(view) for k in dict.fromkeys((ranked[0], ours))
        )
        return Reply(f"{what}: {word} {shown}", tuple(parts))

    return ask


def flat(numbers: Sequence[ClaimNumber], share: float) -> ClaimQuestion:
    """Of every two numbers the smaller lacks less than a share of the larger."""

    def ask(view: View) -> Reply:
        ordered = sorted(numbers, key=lambda n: -abs(float(n.of(view)[0])))
        parts = [
            ClaimPart(
                f"room to the limit: {_versus(b, a)}",
                size(b.of(view)) - (1 - share) * size(a.of(view)),
                a.write,
                (*a.about, *b.about),
            )
            for a, b in combinations(ordered, 2)
        ]
        return Reply(
            _figures(numbers, view),
            tuple(parts),
            f"Flat: within {100 * share:.0f} % of the largest.",
        )

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
        there = _there(numbers, view)
        (low, high) = ends
        parts = []
        for n in there:
            value = n.of(view)[:1] if exact else n.of(view)
            inside = min(value - low, high - value, key=lambda side: float(side[0]))
            parts.append(ClaimPart(n.name, tolerance + inside, n.write, n.about))
        write = there[0].write
        told = write(low) if low == high else f"{write(low)} to {write(high)}"
        room = f"{tolerance:.6f}".rstrip("0").rstrip(".")
        asked = f"Within {room} of {told}." if tolerance else f"Asked: {told}."
        return Reply(_figures(there, view), tuple(parts), asked)

    return ask


def as_printed(
    number: ClaimNumber,
    name: str,
    rounding: float | None = None,
    *,
    exact: bool = False,
) -> ClaimQuestion:
    """A number is the one of the paper's text, to its last digit unless rounding says more."""
    told = printed(name)
    last = half_digit(name)
    return near(
        [number], (told, told), last if rounding is None else rounding, exact=exact
    )


def at_least(
    questions: Sequence[ClaimQuestion], least: int, *, what: str
) -> ClaimQuestion:
    """At least so many of several questions are as claimed: a partial conjunction.

    Of n answers, ordered by their weakest part, the one at place ``least`` decides. It
    was picked from n - least + 1 where it is as claimed, and from ``least`` where it is
    not (Benjamini and Heller, 2008). A count of signs would take luck for agreement.
    """

    def ask(view: View) -> Reply:
        replies = sorted(
            (question(view).parts for question in questions), key=strength
        )[::-1]
        n = len(replies)
        picked = replies[least - 1]
        parts = [
            replace(
                part,
                n_tries=part.n_tries * (n - least + 1 if part.estimate > 0 else least),
            )
            for part in picked
        ]
        found = sum(all(part.is_as_claimed for part in reply) for reply in replies)
        return Reply(
            f"{what}: {found} of {n}",
            tuple(parts),
            f"Number {least}, the clearest first, decides.",
        )

    return ask


def both_signs(numbers: Sequence[ClaimNumber]) -> ClaimQuestion:
    """Some of the numbers lie above 0 and some below."""
    return together(
        at_least([above([n]) for n in numbers], 1, what="above 0"),
        at_least([above([n], sign=-1) for n in numbers], 1, what="below 0"),
    )


def correlated(
    points: Sequence[tuple[ClaimNumber, ClaimNumber]],
    least: float,
    *,
    sign: int = 1,
    what: str,
) -> ClaimQuestion:
    """The points correlate by more than ``least`` (with sign -1: by less)."""

    def ask(view: View) -> Reply:
        r = correlation(points, view)
        about = tuple(
            dict.fromkeys(one for pair in points for n in pair for one in n.about)
        )
        part = ClaimPart(what, sign * (r - least), r_words, about)
        side = "above" if sign > 0 else "below"
        return Reply(
            f"{what}: r = {r_words(float(r[0]))}", (part,), f"Asked: {side} {least:g}."
        )

    return ask


def none_apart(numbers: Sequence[ClaimNumber]) -> ClaimQuestion:
    """No number can be told from 0: where tables have its interval, that holds 0."""

    def ask(view: View) -> Reply:
        there = _there(numbers, view)
        parts = [
            ClaimPart(
                n.name,
                n.of(view),
                n.write,
                n.about,
                is_zero=True,
                interval=n.interval and n.interval(view),
            )
            for n in there
        ]
        n = sum(part.is_as_claimed for part in parts)
        return Reply(
            _figures(there, view),
            tuple(parts),
            f"{n} of {len(parts)} cannot be told from 0, which is no proof that they are 0.",
        )

    return ask


def together(*questions: ClaimQuestion) -> ClaimQuestion:
    """All of several rules."""

    def ask(view: View) -> Reply:
        replies = [question(view) for question in questions]
        return Reply(
            "; ".join(dict.fromkeys(reply.figure for reply in replies)),
            tuple(part for reply in replies for part in reply.parts),
            " ".join(dict.fromkeys(reply.why for reply in replies if reply.why)),
        )

    return ask


def printed(name: str) -> float:
    """A number of the paper's text, by its name.

    >>> printed("sign_agreements")
    32.0
    """
    value = text_figure(name).value
    if value is None:
        raise NotThere(f"{name} is not a number")
    return value


def half_digit(name: str) -> float:
    """How far rounding may have moved a number of the paper's text.

    >>> half_digit("advantage_mean")
    5e-05
    """
    return text_figure(name).half_digit


def correlation(
    points: Sequence[tuple[ClaimNumber, ClaimNumber]], view: View
) -> FloatArray:
    """(1 + draws,) Pearson's r; NotThere for few points, or where one side does not vary."""
    there = [pair for pair in points if all(_known(n, view) for n in pair)]
    x, y = (np.array([pair[k].of(view) for pair in there]) for k in (0, 1))
    if len(there) < 3 or not (np.ptp(x[:, 0]) and np.ptp(y[:, 0])):
        raise NotThere("a correlation needs three points, and variation on both sides")
    x = x - x.mean(axis=0)
    y = y - y.mean(axis=0)
    return np.asarray((x * y).sum(0) / np.sqrt((x * x).sum(0) * (y * y).sum(0)))


def _known(number: ClaimNumber, view: View) -> bool:
    try:
        number.of(view)
    except NotThere:
        return False
    return True


def _there(numbers: Sequence[ClaimNumber], view: View) -> list[ClaimNumber]:
    """The numbers that a view has; those that are not printed make no claim.

    At least one.
    """
    found = [n for n in numbers if _known(n, view)]
    if not found:
        numbers[0].of(view)
    if isinstance(view, OurRun) and len(found) < len(numbers):
        next(n for n in numbers if n not in found).of(view)
    return found


def _figures(numbers: Sequence[ClaimNumber], view: View) -> str:
    """Few numbers one by one, of many the ends."""
    if len(numbers) <= FEW:
        return "; ".join(n.told(view) for n in numbers)
    values = [float(n.of(view)[0]) for n in numbers]
    ends = numbers[values.index(min(values))], numbers[values.index(max(values))]
    return f"{len(numbers)} numbers, from {ends[0].told(view)} to {ends[1].told(view)}"


def _count(parts: Sequence[ClaimPart]) -> str:
    return f"{sum(part.estimate > 0 for part in parts)} of {len(parts)}"


def _versus(first: ClaimNumber, second: ClaimNumber) -> str:
    return f"{first.name} − {second.name}"


# Words.


def budget_words(budgets: Iterable[float]) -> str:
    """Budgets in print.

    >>> budget_words((5.0, 10.0)), budget_words((NO_DP,))
    ('ε 5, 10', 'no-DP')
    """
    names = [budget_label(epsilon) for epsilon in budgets]
    return (
        ("ε " if names and names[0] != "no-DP" else "") + ", ".join(names)
        if names
        else "no budget"
    )


def gap_words(*values: float) -> str:
    """Gaps as the paper writes them.

    >>> gap_words(0.0074, 0.0099)
    '.0074/.0099'
    """
    return "/".join(decimals(value, 4).replace("0.", ".", 1) for value in values)


def rate_words(value: float) -> str:
    """A rate or an outcome gap as the paper writes it.

    >>> rate_words(0.127)
    '.127'
    """
    return decimals(value, 3).replace("0.", ".", 1)


def share_words(value: float) -> str:
    """A share in per cent.

    >>> share_words(0.14)
    '+14 %'
    """
    return f"{100 * value:+.0f} %".replace("-", "−")


def r_words(value: float) -> str:
    """A correlation, or another plain number, in print.

    >>> r_words(-0.8)
    '−0.80'
    """
    return f"{value:+.2f}".replace("-", "−")


def range_words(values: Sequence[float], write: Writer) -> str:
    """Smallest to largest, or the one value that all share.

    >>> range_words((0.228, 0.229), rate_words)
    '.228 to .229'
    """
    low = write(min(values))
    high = write(max(values))
    return low if low == high else f"{low} to {high}"


def threshold(name: str) -> float:
    """A number that stands for a word such as "flat"; KeyError for a name that is not there.

    >>> threshold("flat")
    0.1
    """
    return _thresholds()[name][0]


def threshold_meanings() -> dict[str, tuple[float, str]]:
    """Every threshold with its meaning, in the file's order."""
    return dict(_thresholds())


@cache
def _thresholds() -> dict[str, tuple[float, str]]:
    text = (
        resources.files("pcer_studies.claims")
        .joinpath("thresholds.csv")
        .read_text(encoding="utf-8")
    )
    rows = csv.DictReader(text.splitlines())
    return {row["name"]: (float(row["value"]), row["meaning"]) for row in rows}
