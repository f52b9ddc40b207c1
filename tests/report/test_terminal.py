"""What a terminal shows of every release in the repository: it fits, and no number breaks."""

import re

import pytest
from rich.cells import cell_len

import pcer
from pcer.report import tables as summary
from pcer.report.tables import MOST_ROWS, finding_table
from pcer.report.text import brief_parts, finding, full_parts, short_parts
from tests.pages import QUICK, SAMPLES, audited, hostile_audit, many_groups, mixed_audit

WIDTHS = (80, 60, 40)
RAW = re.compile(r"(?<![\d.])0?\.00\d")
"""A rate where people out of 100 are meant."""


def text_of(parts) -> str:
    return "\n\n".join(map(str, parts))


def numbers(text: str) -> set[str]:
    """Numbers as words of their own; a number that is broken gives two others."""
    return {word.strip(",:;.") for word in text.split() if re.search(r"\d", word)}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_everything_fits_and_says_what_the_audit_says(path):
    audit = audited(path)
    for parts in (short_parts, full_parts):
        wide = numbers(text_of(parts(audit, 10_000)))
        for width in WIDTHS:
            text = text_of(parts(audit, width))
            assert max(map(cell_len, text.splitlines())) <= width
            assert numbers(text) <= wide
    first, second, _ = finding(audit)
    assert audit.verdict.words in first
    assert all(name in first for name in audit.worse_off)
    assert second == audit.headline
    short = text_of(short_parts(audit, 80))
    assert RAW.search(short) is None
    assert len(short.splitlines()) <= 60
    assert len(text_of(brief_parts(audit, 80)).splitlines()) <= 32
    base = 50 if audit.proxy.scale.is_advantage else 0
    rows = iter(finding_table(audit).rows)
    for budget in audit.budgets:
        for name, group in budget.groups.items():
            *_, called, received, exposure, most, shown = next(rows)
            found = re.findall(r"[−\d.]+", exposure)
            value, low, high = (float(part.replace("−", "-")) for part in found)
            near = pytest.approx(100 * group.cost.value + base, abs=0.05)
            assert (called, int(received), value) == (name, round(100 * group.benefit.mean), near)
            assert low <= value <= high
            assert float(most) == pytest.approx(100 * group.cost.upper_limit + base, abs=0.05)
            unsure = budget.verdict in (pcer.Verdict.NOT_RESOLVED, pcer.Verdict.INSUFFICIENT_DATA)
            assert shown.startswith("yes") == (group.resolved and not unsure)
            assert ("worse off" in shown) <= (name in budget.worse_off)
    assert next(rows, None) is None


def test_many_groups_leave_the_told_setting_and_say_what_is_missing():
    names = [f"group {k}" for k in range(30)]
    audit = pcer.audit(many_groups(names), QUICK)
    short, everything = finding_table(audit, most_rows=MOST_ROWS), finding_table(audit)
    assert len(everything.rows) == 60
    assert len(short.rows) == MOST_ROWS
    assert f"{60 - MOST_ROWS} further rows are in the full table." in short.note
    assert "ε = 1" in short.title or "no-DP" in short.title
    shown, worse = {row[0] for row in short.rows}, set(audit.told.worse_off)
    assert shown <= worse or worse <= shown


def test_names_of_other_people_fit():
    audit = hostile_audit()
    subject = audit.subject.model_copy(update={"attribute": "[red]a[/red]"})
    audit = audit.model_copy(update={"subject": subject})
    for parts, width in [(short_parts, 40), (full_parts, 60)]:
        text = text_of(parts(audit, width))
        assert max(map(cell_len, text.splitlines())) <= width
        assert "[red]a[/red]" in text.replace("\n", "")


def test_the_paper_s_numbers_are_the_gap_s_whatever_the_cost():
    audit = pcer.audit(mixed_audit().sources[0], QUICK, cost="attack_advantage")
    plain = pcer.audit(audit.sources[0], QUICK, cost="overfitting_gap")

    def cells(audit: pcer.Audit, title: str) -> list[list[tuple[str, ...]]]:
        found = [table for table in summary.tables(audit) if table.title.startswith(title)]
        return [[row[2:] for row in table.rows] for table in found]

    assert cells(audit, "As published") == cells(plain, "As published")
    assert cells(audit, "Floor sensitivity as published") == cells(plain, "Floor sensitivity, by")
    assert cells(audit, "Floor sensitivity, by") != cells(plain, "Floor sensitivity, by")
    assert cells(plain, "Floor sensitivity as published") == []
