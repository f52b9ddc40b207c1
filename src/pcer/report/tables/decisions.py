"""How are comparisons, trends, outlooks and recommendations shown?

The command line and ``show`` call the view of each: what a terminal shows, in order. To
add a view: a function here, and a row of ``show.DISPLAYS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from pcer import wording
from pcer.auditing.record import GroupResult
from pcer.auditing.sentences.telling import Axis, answer_of
from pcer.deciding.candidates import EXPOSURE, SPENT, Checked
from pcer.deciding.compare import Change, Changes, ChangeVerdict
from pcer.deciding.planner import Outlook, OutlookPoint
from pcer.deciding.recommend import Recommendation, largest_number
from pcer.deciding.trend import Trend
from pcer.files import as_shown
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind
from pcer.report.pictures.looks import CIRCLE, SQUARE, UP, exposure_amount
from pcer.report.table import Lines, Part, Table
from pcer.wording import NOTHING, decimals, listed, say

SHORT_DIGEST = 12  # characters of a digest that a terminal shows; the file has all
# Shape and colour of each list of settings: colour is not needed.
LOOKS = {
    "holds": (CIRCLE, "series-0"),
    "open": (SQUARE, "series-4"),
    "breaks": (UP, "series-1"),
}


def outlook_view(outlook: Outlook) -> list[Part]:
    """The answer in words, who could be shown how much, and the curve over splits."""
    outlook = as_shown(outlook)
    heads = ("splits", "an exposure,\nin every group", "a difference,\nbetween any two")
    rows = []
    for point in outlook.over_splits:
        exposure, difference = hardest(point)
        rows.append((f"{point.n_splits:,}", _in_100(exposure), _in_100(difference)))
    splits = Table("With other numbers of splits, in points", heads, tuple(rows))
    return [Lines(outlook.title, outlook.sentences), _amounts(outlook), splits]


def _in_100(amount: float | None) -> str:
    """An exposure or difference in hundredths; a dash where none would be shown."""
    if amount is None:
        return NOTHING
    return "any" if amount == 0 else wording.two_digits(100 * amount)


def _amounts(outlook: Outlook) -> Table:
    """Groups, then pairs; a target adds two columns that say what it takes."""
    n_splits = f"{outlook.n_splits:,}\nsplit"
    if outlook.n_splits > 1:
        n_splits += "s"
    heads = ["", "people", f"with {n_splits}", "with any\nnumber"]
    if outlook.target is not None:
        target = _in_100(outlook.target)
        heads += [f"splits to\nshow {target}", f"people to\nshow {target}"]
    rows = []
    for row in (*outlook.groups, *outlook.pairs):
        cells = (
            quantity(row.groups),
            _counts(row.n_people),
            _in_100(row.smallest),
            _in_100(row.limit),
            _counts([row.splits_for_target]),
            _counts(row.people_for_target or [None]),
        )
        rows.append(cells[: len(heads)])
    title = "Smallest that would be seen 4 times in 5, in points"
    return Table(title, tuple(heads), tuple(rows), note=_note(outlook))


def _counts(numbers: Iterable[float | None]) -> str:
    return "\n".join(NOTHING if n is None else f"{n:,.0f}" for n in numbers)


def _note(outlook: Outlook) -> str:
    kind = outlook.attack_kind
    parts = [f"Exposure: {kind.label}, {kind.scale.unit}."]
    if outlook.setting is not None:
        parts.append(f"Setting: {outlook.setting}.")
    if outlook.n_settings > 1:
        parts.append(f"{outlook.n_settings} settings are audited together.")
    base = max((pair.base for pair in outlook.pairs), default=0.0)
    if base > 0:
        parts.append(f"The less exposed group has {_in_100(base)} points.")
    if kind.is_from_counts:
        parts.append(
            "An exposure is asked about these records, a difference about people like "
            "these."
        )
    else:
        parts.append(
            "Both are asked about people like these. For other numbers of splits these "
            "are upper bounds: a release does not say which part of its error splits "
            "cause."
        )
    parts.append("A dash: not even the largest there can be; or no number is enough.")
    return " ".join(parts)


def hardest(point: OutlookPoint) -> tuple[float | None, float | None]:
    """The largest exposure and difference; None where one is not to be had."""
    exposure = wording.largest([*point.exposure.values()])
    return exposure, wording.largest(point.difference)


def change_view(changes: Changes) -> list[Part]:
    """Both releases, the finding, the numbers, what it rests on."""
    changes = as_shown(changes)
    first = Lines(changes.title, [changes.headline])
    grounds = list(changes.account)
    if changes.left_out:
        grounds.append(f"Left out: {', '.join(changes.left_out)}.")
    for name, release in (("Old", changes.old), ("New", changes.new)):
        digest = release.release_sha256[:SHORT_DIGEST]
        grounds.append(f"{name}: {release.title}, SHA-256 {digest}…")
    if changes.verdict is ChangeVerdict.SAME_RELEASE:
        return [first, Lines("What it rests on", grounds[-2:])]
    return [first, _change_table(changes), Lines("What it rests on", grounds)]


def _change_table(changes: Changes) -> Table:
    has_many = len(changes.settings) > 1
    rows: list[tuple[str, ...]] = []
    for setting in changes.settings:
        label = (setting.name,) if has_many else ()
        rows += [(*label, *_change_cells(changes, row)) for row in setting.rows]
    numbers = ("old", "new", "change\n± error", "at most", "p, worse", "so")
    heads: tuple[str, ...] = ("", *numbers)
    title = f"Old and new: {changes.settings[0].name}"
    if has_many:
        heads = ("setting", *heads)
        title = "Old and new"
    scale = changes.attack_kind.scale
    unit = "of 100" if scale.per_unit != 1 else "in its unit"
    coin = " (coin: 50)" if scale.is_advantage else ""
    note = (
        f"Exposure: {changes.attack_kind.label}, {unit}{coin}; outcome gaps: points. "
        "Differences are first minus second; their change is that of their size. At "
        "most: that it may have risen or grown, 95% confidence, all of a kind "
        "together. p: Holm's."
    )
    return Table(title, heads, tuple(rows), 2 if has_many else 1, note)


def _change_cells(changes: Changes, row: Change) -> tuple[str, ...]:
    """Numbers in people of 100, in the attack's own unit, or as right answers."""
    scale = (
        changes.attack_kind.scale if row.axis == "exposure" else attack_kinds.ACCURACY
    )
    is_level = len(row.groups) == 1  # of one group, not a difference
    coin = 50 if is_level and scale.is_advantage else 0
    change = NOTHING
    verdict = "too few"
    if row.change is not None:
        change = _signed_amount(scale, row.change)
        verdict = row.verdict.words
        if row.standard_error is not None:
            change += f" ± {_amount(scale, row.standard_error)}"
    return (
        quantity(row.groups, row.axis),
        _amount(scale, row.old, coin),
        _amount(scale, row.new, coin),
        change,
        _signed_amount(scale, row.most),
        wording.p_value(row.p_worse),
        verdict,
    )


def _amount(scale: attack_kinds.Scale, exposure: float | None, coin: float = 0) -> str:
    return (
        NOTHING if exposure is None else decimals(scale.per_unit * exposure + coin, 2)
    )


def _signed_amount(scale: attack_kinds.Scale, exposure: float | None) -> str:
    if exposure is not None and scale.per_unit * exposure > 0:
        return f"+{_amount(scale, exposure)}"
    return _amount(scale, exposure)


def quantity(groups: Sequence[str], axis: Axis = "exposure") -> str:
    """What a row of a table is about: one group's exposure, or a difference of two."""
    if len(groups) == 1:
        return f"exposure in {groups[0]}"
    what = "difference of" if axis == "exposure" else "outcome gap of"
    return f"{what} {listed(groups)}"


def trend_view(trend: Trend) -> list[Part]:
    """What changed from the first to the last, every version, the grounds."""
    trend = as_shown(trend)
    changes = trend.change
    grounds = list(changes.account)
    for number, version in enumerate(trend.versions, 1):
        grounds.append(f"Version {number}: SHA-256 {version.release_sha256}")
    return [
        Lines(trend.title, [changes.headline]),
        _versions_table(trend),
        Lines("What it rests on", grounds),
    ]


def _versions_table(trend: Trend) -> Table:
    """A row for every version and group; both answers stand once for a version."""
    scale = trend.attack_kind.scale
    axes = get_args(Axis)
    rows: list[tuple[str, ...]] = []
    for number, setting in enumerate(trend.settings, 1):
        answers = [answer_of(setting, axis).replace("_", " ") for axis in axes]
        for name, group in setting.groups.items():
            rate = group.benefit.mean
            outcome = NOTHING if rate is None else wording.of_100(rate)[0]
            exposure = _exposure_words(trend.attack_kind, group)
            rows.append((str(number), name, exposure, outcome, *answers))
            answers = ["", ""]
    heads = ("version", "group", scale.column, "outcome,\nof 100", *axes)
    note = say("trend", "note", attack=trend.attack_kind.label, coin=scale.coin)
    return Table("Versions", heads, tuple(rows), 2, note)


def _exposure_words(kind: AttackKind, group: GroupResult) -> str:
    """A group's exposure in few words: its value and interval."""
    exposure = group.exposure
    if group.too_few:
        return say("chart", "too_few")
    if exposure.value is None:
        return say("chart", "not_known")
    value = exposure_amount(kind, exposure.value)
    if exposure.interval is None:
        return value
    ends = [exposure_amount(kind, end) for end in exposure.interval]
    has_minus = any("−" in end for end in ends)
    between = " to " if has_minus else "–"
    return f"{value} ({between.join(ends)})"


def choice_view(found: Recommendation) -> list[Part]:
    """The choice, every setting with its numbers and its reason, and the price."""
    found = as_shown(found)
    reasons = []
    for number, setting in enumerate(found.settings, 1):
        reason = f"{setting.name}: {setting.answer}. {setting.sentence}"
        reasons.append(f"{number}. {reason}")
    return [
        Lines(found.title, [found.headline, *found.account]),
        choice_table(found),
        Lines("Why", reasons),
        Lines("The price of choosing", found.price.sentences),
    ]


def choice_table(found: Recommendation) -> Table:
    """One row for every setting, in the order of the files."""
    rows = []
    for number, setting in enumerate(found.settings, 1):
        exposed = largest_number(setting.numbers, EXPOSURE, found.attack)
        rows.append(
            (
                f"{number}. {setting.name}",
                setting.answer,
                _with_error(setting.numbers[-1]),
                _with_error(exposed),
                NOTHING if exposed is None else decimals(exposed.upper, 1),
                decimals(setting.allowed, 1),
                _spent(largest_number(setting.numbers, SPENT)),
            )
        )
    numbers = ("accuracy", "exposure\nfound", "at\nmost", "exposure\nallowed")
    heads = ("setting", "limits", *numbers, "epsilon\nspent")
    return Table("Settings", heads, tuple(rows), 2, say("recommend", "note"))


def _with_error(found: Checked | None) -> str:
    return " ± ".join(decimals(value, 1) for value in value_and_error(found))


def _spent(spent: Checked | None) -> str:
    """What training spent; a promise has no error and is an upper bound."""
    if spent is None:
        return NOTHING
    value = decimals(spent.value, 2)
    return value if spent.standard_error else f"≤ {value}"


def value_and_error(found: Checked | None) -> list[float]:
    """Value and error; nothing where unknown."""
    return [] if found is None else [found.value or 0.0, found.standard_error or 0.0]
