"""A comparison of two releases for people and for machines: sentences, a table, JUnit."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as Xml

from pcer.auditing import (
    NOTHING,
    Changes,
    ChangeVerdict,
    GroupChange,
    PairChange,
    decimals,
    p_value,
)
from pcer.files import as_shown
from pcer.report.table import Table, table_body, to_markdown, wrapped
from pcer.report.terminal import Part

SHORT_DIGEST = 12
"""Characters of a digest that a terminal shows; the file has all."""


def change_parts(changes: Changes, width: int) -> list[Part]:
    """What a terminal shows: both releases, the finding, the numbers, what it rests on."""
    changes = as_shown(changes)
    table = change_table(changes)
    return [
        Part(wrapped(_title(changes), width), wrapped(changes.headline, width)),
        Part(wrapped(table.title, width), table_body(table, width)),
        Part("What it rests on", "\n".join(wrapped(x, width, indent=2) for x in _rests(changes))),
    ]


def change_table(changes: Changes) -> Table:
    """One row for every exposure and difference."""
    several = len(changes.settings) > 1
    rows = [
        ((one.name,) if several else ()) + _row(changes, row)
        for one in changes.settings
        for row in one.rows
    ]
    name = "" if several else f": {changes.settings[0].name}"
    return Table(
        f"Old and new{name}",
        (
            *(("setting",) if several else ()),
            "",
            "old",
            "new",
            "change\n± error",
            "at most",
            "p, worse",
            "so",
        ),
        tuple(rows),
        n_labels=1 + several,
        note=_note(changes),
    )


def changes_to_junit(changes: Changes) -> str:
    """One suite, one test for every exposure and difference; what is worse fails."""
    changes = as_shown(changes)
    rows = [(one, row) for one in changes.settings for row in one.rows]
    worse = sum(row.verdict is ChangeVerdict.WORSE for _, row in rows)
    root = Xml.Element("testsuites")
    counts = {"tests": str(len(rows)), "failures": str(worse), "errors": "0"}
    suite = Xml.SubElement(root, "testsuite", {"name": f"pcer compare {_name(changes)}", **counts})
    properties = Xml.SubElement(suite, "properties")
    for key, value in _properties(changes):
        Xml.SubElement(properties, "property", {"name": key, "value": value})
    for one, row in rows:
        case = {"classname": f"pcer compare {one.name}", "name": _what(row)}
        found = Xml.SubElement(suite, "testcase", case)
        if row.verdict is ChangeVerdict.WORSE:
            Xml.SubElement(found, "failure", {"message": "worse"}).text = changes.headline
    told = [changes.headline, *_rests(changes), "", to_markdown(change_table(changes))]
    Xml.SubElement(suite, "system-out").text = "\n".join(told)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _properties(changes: Changes) -> Iterator[tuple[str, str]]:
    yield "verdict", changes.verdict.value
    for name, one in (("old", changes.old), ("new", changes.new)):
        yield name, one.title
        yield f"{name} sha256", one.release_sha256


def _name(changes: Changes) -> str:
    return f"{changes.old.title} and {changes.new.title}"


def _title(changes: Changes) -> str:
    return f"{changes.old.title} → {changes.new.title}: {changes.verdict.words}"


def _rests(changes: Changes) -> list[str]:
    digests = [
        f"{name}: {one.title}, SHA-256 {one.release_sha256[:SHORT_DIGEST]}…"
        for name, one in (("Old", changes.old), ("New", changes.new))
    ]
    left = [f"Left out: {', '.join(changes.left_out)}."] if changes.left_out else []
    return [*changes.account, *left, *digests]


def _row(changes: Changes, row: GroupChange | PairChange) -> tuple[str, ...]:
    error = "" if row.standard_error is None else f" ± {_amount(changes, row.standard_error)}"
    change = NOTHING if row.change is None else f"{_amount(changes, row.change, sign=True)}{error}"
    is_level = isinstance(row, GroupChange)
    return (
        _what(row),
        _amount(changes, row.old, level=is_level),
        _amount(changes, row.new, level=is_level),
        change,
        NOTHING if row.most is None else _amount(changes, row.most, sign=True),
        p_value(row.p_worse),
        row.verdict.words if row.change is not None else "too few",
    )


def _what(row: GroupChange | PairChange) -> str:
    if isinstance(row, GroupChange):
        return f"exposure in {row.group}"
    return f"difference of {row.groups[0]} and {row.groups[1]}"


def _amount(
    changes: Changes, cost: float | None, *, level: bool = False, sign: bool = False
) -> str:
    """In people of 100 or the cost's own unit; an attacker's level as right answers of 100."""
    if cost is None:
        return NOTHING
    scale = changes.proxy.scale
    value = scale.per_unit * cost + (50 if level and scale.is_advantage else 0)
    text = decimals(value, 2)
    return f"+{text}" if sign and value > 0 else text


def _note(changes: Changes) -> str:
    proxy = changes.proxy
    chance = "; guessing gives 50" if proxy.scale.is_advantage else ""
    unit = "in 100" if proxy.scale.per_unit != 1 else "in its unit"
    return (
        f"Exposure: {proxy.label}, {unit}{chance}. Differences are first minus second; their "
        "change is that of their size. At most: that it may have risen or grown, 95 % confidence, "
        "all of a kind together. p: Holm's."
    )
