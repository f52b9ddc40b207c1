"""What a terminal shows of every release in the repository: it fits, and no number breaks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

import pcer
from pcer.auditing.file import Audit
from pcer.report import tables as summary
from pcer.report.tables import MOST_ROWS, finding_table
from pcer.report.terminal import (
    brief_parts,
    finding,
    full_parts,
    overview_part,
    short_parts,
    to_terminal,
)
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks

ROOT = Path(__file__).parents[2]
SMALL = ("counts", "rates", "by-hand")
SAMPLES = [
    *sorted(ROOT.glob("examples/*.release.json")),
    *sorted(ROOT.glob("studies/paper/*.release.json")),
    *(ROOT / "tests" / "releases" / f"{name}.release.json" for name in SMALL),
]
WIDTHS = (80, 60, 40)
RAW = re.compile(r"(?<![\d.])0?\.00\d")
"""A rate where people out of 100 are meant."""


@cache
def audited(path: Path) -> Audit:
    return pcer.audit(pcer.read_release(path), QUICK)


def text_of(parts) -> str:
    return "\n\n".join(map(str, parts))


def numbers(text: str) -> set[str]:
    """Numbers as words of their own; a number that is broken gives two others."""
    return {word.strip(",:;.") for word in text.split() if re.search(r"\d", word)}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_everything_fits_and_no_number_is_split(path):
    audit = audited(path)
    for parts in (short_parts, full_parts):
        wide = numbers(text_of(parts(audit, 10_000)))
        for width in WIDTHS:
            text = text_of(parts(audit, width))
            assert max(map(cell_len, text.splitlines())) <= width
            assert numbers(text) <= wide


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_the_finding_is_the_audits_own_and_counts_people(path):
    audit = audited(path)
    first, second, third = finding(audit)
    assert first.startswith(f"{audit.subject.dataset} ({audit.subject.attribute}): ")
    assert audit.verdict.words in first
    assert all(name in first for name in audit.worse_off)
    assert second == audit.headline
    assert all(sentence in audit.trust for sentence in [third.split(". ")[0] + "."])
    assert RAW.search(text_of(short_parts(audit, 80))) is None


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_the_sharp_table_says_what_the_audit_says(path):
    audit = audited(path)
    base = 50 if audit.proxy.scale.is_advantage else 0
    rows = iter(finding_table(audit).rows)
    for budget in audit.budgets:
        for name, group in budget.groups.items():
            *_, called, received, exposure, most, shown = next(rows)
            value, low, high = (
                float(part.replace("−", "-")) for part in re.findall(r"[−\d.]+", exposure)
            )
            near = pytest.approx(100 * group.cost.value + base, abs=0.05)
            assert (called, int(received), value) == (name, round(100 * group.benefit.mean), near)
            assert low <= value <= high
            assert float(most) == pytest.approx(100 * group.cost.upper_limit + base, abs=0.05)
            unsure = budget.verdict in (pcer.Verdict.NOT_RESOLVED, pcer.Verdict.INSUFFICIENT_DATA)
            assert shown.startswith("yes") == (group.resolved and not unsure)
            assert ("worse off" in shown) <= (name in budget.worse_off)
    assert next(rows, None) is None


def test_what_is_read_unasked_is_short():
    for path in SAMPLES:
        assert len(text_of(brief_parts(audited(path), 80)).splitlines()) <= 32
        assert len(text_of(short_parts(audited(path), 80)).splitlines()) <= 60


def test_worse_off_groups_are_marked():
    audit = pcer.audit(mixed_release(), QUICK)
    assert audit.worse_off == ["women"]
    (told,) = [row for row in finding_table(audit).rows if row[:2] == ("no-DP", "women")]
    twice = audit.verdict is pcer.Verdict.DOUBLE_DISADVANTAGE
    assert told[-1] == ("yes, doubly disadvantaged" if twice else "yes, worse off")


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


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_other_people_fit(width):
    release = many_groups(HOSTILE, dataset="x" * 60, attribute="[red]a[/red]")
    audit = pcer.audit(release, QUICK)
    for parts in (short_parts, full_parts):
        text = text_of(parts(audit, width))
        assert max(map(cell_len, text.splitlines())) <= width
        assert "[red]a[/red]" in text.replace("\n", "")


def test_the_paper_s_numbers_are_the_gap_s_whatever_the_cost():
    audit = pcer.audit(with_attacks(mixed_release()), QUICK, cost="attack_advantage")
    plain = pcer.audit(mixed_release(), QUICK, cost="overfitting_gap")
    shown, gap = summary.published_table(audit), summary.published_table(plain)
    assert [row[2:] for row in shown.rows] == [row[2:] for row in gap.rows]
    floors = [row[2:] for row in summary.published_floors_table(audit).rows]
    assert floors == [row[2:] for row in summary.floors_table(plain).rows]
    assert floors != [row[2:] for row in summary.floors_table(audit).rows]
    titles = [table.title for table in summary.tables(plain)]
    assert not any(title.startswith("Floor sensitivity as published") for title in titles)


def test_differences_are_those_of_the_pairs():
    audit = pcer.audit(mixed_release(), QUICK)
    table = summary.differences_table(audit)
    for row, budget in zip(table.rows, audit.budgets, strict=True):
        value = float(row[1].split("\n")[0].replace("−", "-"))
        assert value == pytest.approx(100 * budget.pairs[0].exposure.value, abs=5e-3)


def test_several_releases_end_with_one_row_each():
    audits = [pcer.audit(mixed_release(), QUICK), audited(SAMPLES[0])]
    text = str(overview_part(audits, 80))
    assert "Loans" in text
    assert text.count("disadvantage") == 2
    assert all(name in text for one in audits for name in one.worse_off)


def test_plain_text():
    text = to_terminal(audited(SAMPLES[0]))
    assert text == text_of(brief_parts(audited(SAMPLES[0]), 80))
