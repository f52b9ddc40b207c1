"""How are comparisons, trends, outlooks and recommendations shown?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from pcer.auditing.sentences.telling import Axis, answer_of
from pcer.deciding.candidates import EXPOSURE, SPENT, Checked
from pcer.deciding.compare import Change, Changes, ChangeVerdict
from pcer.deciding.planner import Outlook, OutlookPoint
from pcer.deciding.recommend import Recommendation, largest_number
from pcer.deciding.trend import Trend
from pcer.files import as_shown
from pcer.release import attack_kinds
from pcer.report.pictures.axis import CIRCLE, SQUARE, UP
from pcer.report.pictures.exposure import exposure_words
from pcer.report.table import Lines, Table
from pcer.wording import NOTHING, decimals, largest, listed, of_100, p_value, say


def outlook_view(outlook: Outlook) -> list[Lines | Table]:
    """The answer in words, who could be shown how much, and the curve over splits."""
    outlook = as_shown(outlook)
    heads = ("splits", "an exposure,\nin every group", "a difference,\nbetween any two")
    curve = outlook.over_splits
    rows = tuple(
        (f"{point.n_splits:,}", *map(in_100, hardest(point))) for point in curve
    )
    splits = Table("With other numbers of splits, in points", heads, rows)
    return [Lines(outlook.title, outlook.sentences), _amounts(outlook), splits]


def in_100(amount: float | None) -> str:
    """An exposure or difference in hundredths; a dash where none would be shown.

    >>> in_100(0.01234), in_100(0.256), in_100(0.0), in_100(None)
    ('1.2', '26', 'any', '–')
    """
    if not amount:
        return NOTHING if amount is None else "any"
    value = 100 * amount
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _amounts(outlook: Outlook) -> Table:
    """Groups, then pairs; where a target is named, two more columns say what it takes."""

    def counts(numbers: Iterable[float | None]) -> str:
        return "\n".join(NOTHING if n is None else f"{n:,.0f}" for n in numbers)

    rows = [
        (
            quantity(row.groups),
            counts(row.n_people),
            in_100(row.smallest),
            in_100(row.limit),
            counts([row.splits_for_target]),
            counts(row.people_for_target or [None]),
        )
        for row in (*outlook.groups, *outlook.pairs)
    ]
    heads = [
        "",
        "people",
        f"with {outlook.n_splits:,}\nsplit{'s' if outlook.n_splits > 1 else ''}",
    ]
    heads.append("with any\nnumber")
    if outlook.target is not None:
        heads += [
            f"{what} to\nshow {in_100(outlook.target)}" for what in ("splits", "people")
        ]
    cells = tuple(row[: len(heads)] for row in rows)
    title = "Smallest that would be seen 4 times in 5, in points"
    return Table(title, tuple(heads), cells, note=_note(outlook))


def _note(outlook: Outlook) -> str:
    cost = f"Exposure: {outlook.proxy.label}, {outlook.proxy.scale.unit}."
    at = "" if outlook.setting is None else f" Setting: {outlook.setting}."
    family = outlook.n_settings
    tests = f" {family} settings are audited together." if family > 1 else ""
    base = max((pair.base for pair in outlook.pairs), default=0.0)
    lower = f" The less exposed group has {in_100(base)} points." if base > 0 else ""
    about = (
        "An exposure is asked about these records, a difference about people like these."
        if outlook.proxy.is_from_counts
        else "Both are asked about people like these. For other numbers of splits these are upper "
        "bounds: a release does not say which part of its error splits cause."
    )
    dash = "A dash: not even the largest there can be; or no number is enough."
    return f"{cost}{at}{tests}{lower} {about} {dash}"


def hardest(point: OutlookPoint) -> tuple[float | None, float | None]:
    """The largest exposure and difference; None where one is not to be had, or there is none."""
    return largest([*point.exposure.values()]), largest(point.difference)


SHORT_DIGEST = 12  # characters of a digest that a terminal shows; the file has all


def change_view(changes: Changes) -> list[Lines | Table]:
    """Both releases, the finding, the numbers, what it rests on."""
    changes = as_shown(changes)
    first = Lines(changes.title, [changes.headline])
    rest = _grounds(changes)
    if changes.verdict is ChangeVerdict.SAME_RELEASE:
        return [first, Lines("What it rests on", rest[-2:])]
    return [first, change_table(changes), Lines("What it rests on", rest)]


def change_table(changes: Changes) -> Table:
    """One row for every exposure and difference."""
    several = len(changes.settings) > 1
    rows = [
        ((setting.name,) if several else ()) + _row(changes, row)
        for setting in changes.settings
        for row in setting.rows
    ]
    proxy = changes.proxy
    chance = " (coin: 50)" if proxy.scale.is_advantage else ""
    unit = "of 100" if proxy.scale.per_unit != 1 else "in its unit"
    columns = ("", "old", "new", "change\n± error", "at most", "p, worse", "so")
    return Table(
        "Old and new" + ("" if several else f": {changes.settings[0].name}"),
        (*(("setting",) if several else ()), *columns),
        tuple(rows),
        n_labels=1 + several,
        note=(
            f"Exposure: {proxy.label}, {unit}{chance}; outcome gaps: points. Differences are first "
            "minus second; their change is that of their size. At most: that it may have risen or "
            "grown, 95% confidence, all of a kind together. p: Holm's."
        ),
    )


def _grounds(changes: Changes) -> list[str]:
    digests = [
        f"{name}: {release.title}, SHA-256 {release.release_sha256[:SHORT_DIGEST]}…"
        for name, release in (("Old", changes.old), ("New", changes.new))
    ]
    left = [f"Left out: {', '.join(changes.left_out)}."] if changes.left_out else []
    return [*changes.account, *left, *digests]


def _row(changes: Changes, row: Change) -> tuple[str, ...]:
    """Numbers in people of 100 or the cost's own unit; an attacker's level as right answers."""
    scale = changes.proxy.scale if row.axis == "exposure" else attack_kinds.ACCURACY
    base = 50 if len(row.groups) == 1 and scale.is_advantage else 0

    def amount(cost: float | None, *, base: float = 0, sign: bool = False) -> str:
        if cost is None:
            return NOTHING
        value = scale.per_unit * cost + base
        return "+" * (sign and value > 0) + decimals(value, 2)

    error = "" if row.standard_error is None else f" ± {amount(row.standard_error)}"
    return (
        quantity(row.groups, row.axis),
        amount(row.old, base=base),
        amount(row.new, base=base),
        NOTHING if row.change is None else amount(row.change, sign=True) + error,
        amount(row.most, sign=True),
        p_value(row.p_worse),
        row.verdict.words if row.change is not None else "too few",
    )


def quantity(groups: Sequence[str], axis: Axis = "exposure") -> str:
    """What a row of a table is about: one group's exposure, or a difference of two groups."""
    apart = "difference of" if axis == "exposure" else "outcome gap of"
    return f"{'exposure in' if len(groups) == 1 else apart} {listed(groups)}"


def trend_view(trend: Trend) -> list[Lines | Table]:
    """What changed from the first to the last, both answers of every version, the grounds."""
    trend = as_shown(trend)
    rows = list[tuple[str, ...]]()
    for n, setting in enumerate(trend.settings, 1):
        answers = [
            answer_of(setting, axis).replace("_", " ") for axis in get_args(Axis)
        ]
        for name, group in setting.groups.items():
            rate = group.benefit.mean
            served = NOTHING if rate is None else of_100(rate)[0]
            rows.append(
                (str(n), name, exposure_words(trend.proxy, group), served, *answers)
            )
            answers = ["", ""]  # stand once for a version
    scale = trend.proxy.scale
    changes = trend.change
    heads = ("version", "group", scale.column, "outcome,\nof 100", *get_args(Axis))
    note = say("trend", "note", attack=trend.proxy.label, coin=scale.coin)
    digests = [
        f"Version {n}: SHA-256 {a.release_sha256}"
        for n, a in enumerate(trend.versions, 1)
    ]
    table = Table("Versions", heads, tuple(rows), 2, note)
    rest = [*changes.account, *digests]
    return [
        Lines(trend.title, [changes.headline]),
        table,
        Lines("What it rests on", rest),
    ]


# Shape and colour of each list: colour is not needed.
LOOKS = {
    "holds": (CIRCLE, "series-0"),
    "open": (SQUARE, "series-4"),
    "breaks": (UP, "series-1"),
}


def choice_view(found: Recommendation) -> list[Lines | Table]:
    """The choice, every setting with its numbers, why each is in its list, and the price."""
    found = as_shown(found)
    why = [
        f"{k}. {s.name}: {s.answer}. {s.sentence}"
        for k, s in enumerate(found.settings, 1)
    ]
    return [
        Lines(found.title, [found.headline, *found.account]),
        choice_table(found),
        Lines("Why", why),
        Lines("The price of choosing", found.price.sentences),
    ]


def choice_table(found: Recommendation) -> Table:
    """One row for every setting, in the order of the files."""
    rows = []
    for k, setting in enumerate(found.settings, 1):
        exposed = largest_number(setting.numbers, EXPOSURE, found.cost)
        spent = largest_number(setting.numbers, SPENT)
        both = map(value_and_error, (setting.numbers[-1], exposed))
        amounts = [" ± ".join(decimals(x, 1) for x in each) for each in both]
        most = NOTHING if exposed is None else decimals(exposed.upper, 1)
        own = NOTHING
        if spent is not None:  # a promise has no error
            own = "≤ " * (not spent.standard_error) + decimals(spent.value, 2)
        row = (f"{k}. {setting.name}", setting.answer, *amounts, most)
        rows.append((*row, decimals(setting.allowed, 1), own))
    heads = (
        "accuracy",
        "exposure\nfound",
        "at\nmost",
        "exposure\nallowed",
        "epsilon\nspent",
    )
    note = say("recommend", "note")
    return Table(
        "Settings", ("setting", "limits", *heads), tuple(rows), n_labels=2, note=note
    )


def value_and_error(found: Checked | None) -> list[float]:
    """Value and error; nothing where unknown."""
    return [] if found is None else [found.value or 0.0, found.standard_error or 0.0]
