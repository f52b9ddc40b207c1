"""What a terminal shows of every release in the repository: it fits, and no number breaks."""

import re
from xml.etree import ElementTree as Xml

import pytest
from rich.cells import cell_len

import pcer
from pcer.paper.comparisons import comparisons
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report, views
from pcer.report.formats.terminal import terminal_text
from pcer.report.table import Table
from pcer.report.tables.background import least_private_first
from pcer.report.tables.finding import MOST_ROWS, finding_table
from pcer.report.tables.paper import MOST_STRIP_ROWS, paper_strip
from pcer.report.views import summary_line, view_of
from tests.pages import (
    QUICK,
    SAMPLES,
    audited,
    hostile_audit,
    many_groups,
    mixed_audit,
    mixed_release,
)

WIDTHS = (80, 60, 40)


def numbers(text: str) -> set[str]:
    """Numbers as words of their own; a number that is broken gives two others."""
    return {word.strip(",:;.") for word in text.split() if re.search(r"\d", word)}


@pytest.mark.parametrize(
    "path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json")
)
def test_everything_fits_and_says_what_the_audit_says(path):
    audit = audited(path)
    for view in ("short", "full", "paper"):
        wide = numbers(terminal_text(view_of(audit, view), 10_000))
        for width in WIDTHS:
            text = terminal_text(view_of(audit, view), width)
            assert max(map(cell_len, text.splitlines())) <= width
            assert numbers(text) <= wide
    first, *parts = view_of(audit)
    assert first.sentences[0] == audit.headline
    assert first.sentences[1].endswith(f"[{audit.verdict.value}]")
    assert [part.title.partition(" ")[0] for part in parts][:3] == [
        "Outcomes",
        "The",
        "How",
    ]
    assert all(
        part.rows if isinstance(part, Table) else part.sentences for part in parts
    )
    assert len(terminal_text(view_of(audit)).splitlines()) <= 66
    markdown = to_markdown_page([audit])
    assert len(markdown.split()) <= 400
    assert "data:" not in markdown
    assert "\n" not in summary_line(audit)
    base = 50 if audit.proxy.scale.is_advantage else 0
    rows = iter(finding_table(audit).rows)
    for budget in least_private_first(audit):
        for name, group in budget.groups.items():
            *_, called, received, exposure, most, detected = next(rows)
            found = re.findall(r"[−\d.]+", exposure)
            value, low, high = (float(part.replace("−", "-")) for part in found)
            near = pytest.approx(100 * group.cost.value + base, abs=0.05)
            assert (called, int(received), value) == (
                name,
                round(100 * group.benefit.mean),
                near,
            )
            assert low <= value <= high
            assert float(most) == pytest.approx(
                100 * group.cost.upper_bound + base, abs=0.05
            )
            assert (detected == "yes") == group.resolved
    assert next(rows, None) is None


@pytest.mark.parametrize("n_missing", [0, 1_234])
def test_people_without_a_group_are_counted_in_every_output(n_missing):
    audit = pcer.audit(mixed_release(n_missing_group=n_missing), QUICK)
    texts = [summary_line(audit), str(audit), str(audit.paper()), audit._repr_html_()]
    texts += [
        to_markdown_page([audit]),
        to_latex_tables([audit]),
        to_junit([audit], []),
    ]
    texts += [to_latex_tables([audit], "paper"), to_report([audit], audit.sources)]
    for text in texts:
        assert (
            "without a recorded group, left out: 1,234." in " ".join(text.split())
        ) == bool(n_missing)


def test_every_rule_is_one_case_in_the_units_of_the_page():
    rules = {
        "strict": True,
        "min_splits": 1,
        "largest_difference": 100,
        "largest_detectable": 100,
    }
    rules |= {"largest_outcome_gap": 100, "required_costs": ["gap"]}
    release = mixed_release()
    for policy, kept in (
        (
            rules,
            {
                "min_splits": "min_splits: limit 1 split, kept.",
                "required_costs": "gap released",
            },
        ),
        (
            {"largest_outcome_gap": 100},
            {"largest_outcome_gap": "limit 100 points, kept."},
        ),
        (
            {"largest_detectable": 100},
            {"largest_detectable": "limit 100 of 100, kept."},
        ),
    ):
        audit = pcer.audit(
            release, QUICK.model_copy(update={"policy": pcer.Policy(**policy)})
        )
        cases = [*Xml.fromstring(to_junit([audit], ["ratio_differs"])).iter("testcase")]
        names = sorted(case.get("name") for case in cases)
        assert names == sorted(
            ["fail_on: ratio_differs", *(f"policy: {rule}" for rule in policy)]
        )
        said = {
            c.get("name").removeprefix("policy: "): c.findtext("system-out")
            for c in cases
        }
        assert all(words in said[rule] for rule, words in kept.items()), said
    bare = pcer.audit(release, QUICK)
    told = [
        each.text
        for each in Xml.fromstring(to_junit([bare], [])).findall(".//testcase/*")
    ]
    assert told == [budget.headline for budget in bare.budgets]


def test_rows_of_the_paper_fold_and_say_so():
    """Twelve rows stand in a terminal; of more only those of the setting that is told."""
    strip = paper_strip(mixed_audit(), most_rows=MOST_STRIP_ROWS)
    assert (len(strip.rows), "further rows" in strip.note) == (6, False)
    audit = pcer.audit(many_groups([f"group {k}" for k in range(8)]), QUICK)
    strip = paper_strip(audit, most_rows=MOST_STRIP_ROWS)
    assert [row[1] for row in strip.rows] == audit.subject.groups
    assert strip.note.endswith("8 more rows: full table.")
    assert "further rows" not in terminal_text(view_of(audit, "full"), 80)


def test_many_groups_leave_the_told_setting_and_say_what_is_missing():
    names = [f"group {k}" for k in range(30)]
    audit = pcer.audit(many_groups(names), QUICK)
    short, everything = finding_table(audit, most_rows=MOST_ROWS), finding_table(audit)
    assert len(everything.rows) == 60
    assert len(short.rows) == MOST_ROWS
    assert f"{60 - MOST_ROWS} more rows: full table." in short.note
    assert "ε = 1" in short.title or "no-DP" in short.title
    shown, worse = {row[0] for row in short.rows}, set(audit.told.named)
    assert shown <= worse or worse <= shown


def test_names_of_other_people_fit():
    audit = hostile_audit()
    subject = audit.subject.model_copy(update={"attribute": "[red]a[/red]"})
    audit = audit.model_copy(update={"subject": subject})
    for view, width in (("short", 40), ("full", 60), ("paper", 60)):
        text = terminal_text(view_of(audit, view), width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert "[red]a[/red]" in text.replace("\n", "")


def test_the_paper_s_numbers_are_the_gap_s_whatever_the_cost():
    audit = pcer.audit(mixed_audit().sources[0], QUICK, cost="attack_advantage")
    plain = pcer.audit(audit.sources[0], QUICK, cost="overfitting_gap")

    def cells(audit: pcer.Audit, title: str) -> list[list[tuple[str, ...]]]:
        found = [
            table for table in views.tables(audit) if table.title.startswith(title)
        ]
        return [[row[2:] for row in table.rows] for table in found]

    for title in (
        "The paper's",
        "As published",
        "Floor sensitivity as published",
        "Comparison",
    ):
        assert cells(audit, title) == cells(plain, title) != []
    assert (
        cells(audit, "Floor sensitivity, by")
        != cells(plain, "Floor sensitivity, by")
        == []
    )


def test_one_budget_is_named_by_algorithm_1_and_by_the_ranking():
    """Also where the attack that decides would rank the budgets otherwise."""
    audit = pcer.audit(mixed_audit().sources[0], QUICK, cost="attack_advantage")
    (compared,) = comparisons(audit)
    chosen = {
        row.floor: row.budgets for row in audit.published[0].algorithm1.equitable_budget
    }
    assert compared.rankings[0].best == chosen[audit.plan.floor]


def test_the_comparison_names_a_budget_once_however_many_pairs_it_is_about():
    audit = pcer.audit(many_groups([f"group {k}" for k in range(8)]), QUICK)
    (compared,) = comparisons(audit)
    budgets = {epsilon for epsilon, _ in compared.opposite}
    (table,) = (t for t in views.tables(audit) if t.title.startswith("Comparison"))
    named = re.search(r"rate difference at: (.*?)\. ", table.note)[1].split(", ")
    assert len(named) == len(budgets) < len(compared.opposite)
    assert "-" not in re.sub("no-DP|outcome-only", "", table.note)
