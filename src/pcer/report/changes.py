"""A comparison of two releases for people and for machines: sentences, a table, JUnit."""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing.compare_words import Change, Changes, ChangeVerdict
from pcer.auditing.words import NOTHING, decimals, listed, p_value
from pcer.files import as_shown
from pcer.report.table import Table, to_markdown
from pcer.report.text import Case, Part, junit_text, lines_part, table_part

SHORT_DIGEST = 12  # characters of a digest that a terminal shows; the file has all


def change_parts(changes: Changes, width: int) -> list[Part]:
    """What a terminal shows: both releases, the finding, the numbers, what it rests on."""
    changes = as_shown(changes)
    return [
        lines_part(changes.title, [changes.headline], width, indent=0),
        table_part(change_table(changes), width),
        lines_part("What it rests on", _grounds(changes), width),
    ]


def change_table(changes: Changes) -> Table:
    """One row for every exposure and difference."""
    several = len(changes.settings) > 1
    rows = [
        ((setting.name,) if several else ()) + _row(changes, row)
        for setting in changes.settings
        for row in setting.rows
    ]
    proxy = changes.proxy
    chance = "; guessing gives 50" if proxy.scale.is_advantage else ""
    unit = "in 100" if proxy.scale.per_unit != 1 else "in its unit"
    columns = ("", "old", "new", "change\n± error", "at most", "p, worse", "so")
    return Table(
        "Old and new" + ("" if several else f": {changes.settings[0].name}"),
        (*(("setting",) if several else ()), *columns),
        tuple(rows),
        n_labels=1 + several,
        note=(
            f"Exposure: {proxy.label}, {unit}{chance}. Differences are first minus second; their "
            "change is that of their size. At most: that it may have risen or grown, 95 % "
            "confidence, all of a kind together. p: Holm's."
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
            cases.append(Case(suite, quantity(row.groups), failure, changes.headline))
    output = [changes.headline, *_grounds(changes), "", to_markdown(change_table(changes))]
    name = f"pcer compare {changes.old.title} and {changes.new.title}"
    return junit_text([(name, properties, cases, "\n".join(output))])


def _grounds(changes: Changes) -> list[str]:
    digests = [
        f"{name}: {release.title}, SHA-256 {release.release_sha256[:SHORT_DIGEST]}…"
        for name, release in (("Old", changes.old), ("New", changes.new))
    ]
    left = [f"Left out: {', '.join(changes.left_out)}."] if changes.left_out else []
    return [*changes.account, *left, *digests]


def _row(changes: Changes, row: Change) -> tuple[str, ...]:
    """Numbers in people of 100 or the cost's own unit; an attacker's level as right answers."""
    scale = changes.proxy.scale
    base = 50 if len(row.groups) == 1 and scale.is_advantage else 0

    def amount(cost: float | None, *, base: float = 0, sign: bool = False) -> str:
        if cost is None:
            return NOTHING
        value = scale.per_unit * cost + base
        return "+" * (sign and value > 0) + decimals(value, 2)

    error = "" if row.standard_error is None else f" ± {amount(row.standard_error)}"
    return (
        quantity(row.groups),
        amount(row.old, base=base),
        amount(row.new, base=base),
        NOTHING if row.change is None else amount(row.change, sign=True) + error,
        amount(row.most, sign=True),
        p_value(row.p_worse),
        row.verdict.words if row.change is not None else "too few",
    )


def quantity(groups: Sequence[str]) -> str:
    """What a row of a table is about: the exposure of one group, or the difference of two."""
    return f"{'exposure in' if len(groups) == 1 else 'difference of'} {listed(groups)}"
