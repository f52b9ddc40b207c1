"""Two releases, or versions of a model, for people and for machines: tables, JUnit, a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pcer.auditing import words
from pcer.auditing.compare import Change, Changes, ChangeVerdict, Trend, worded
from pcer.auditing.words import (
    NOTHING,
    Axis,
    answer_of,
    decimals,
    listed,
    of_100,
    p_value,
    say,
)
from pcer.files import as_shown
from pcer.release import proxies
from pcer.report.pictures import exposure_words
from pcer.report.table import Table
from pcer.report.text import UNBROKEN, Case, Lines, junit_text, terminal_text

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


def changes_to_junit(changes: Changes) -> str:
    """One suite, one test for every exposure and difference; what is worse fails."""
    changes = as_shown(changes)
    properties = {"verdict": changes.verdict.value}
    for name, release in (("old", changes.old), ("new", changes.new)):
        properties |= {name: release.title, f"{name} sha256": release.release_sha256}
    cases = []
    for setting in changes.settings:
        for row in setting.rows:
            failure = "worse" if row.verdict is ChangeVerdict.WORSE else None
            suite = f"pcer compare {setting.name}"
            text = row.verdict.words
            if failure:
                text = (
                    f"{words.capital(worded(row, setting.new, changes.proxy, False))}."
                )
            cases.append(Case(suite, quantity(row.groups, row.axis), failure, text))
    name = f"pcer compare {changes.old.title} and {changes.new.title}"
    return junit_text(
        [(name, properties, cases, terminal_text(change_view(changes), UNBROKEN))]
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
    scale = changes.proxy.scale if row.axis == "exposure" else proxies.ACCURACY
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
