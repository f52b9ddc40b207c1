"""What a terminal shows of every release here: it fits, and no number breaks."""

import re
from itertools import chain
from xml.etree import ElementTree as Xml

import pytest
from rich.cells import cell_len

import pcer
from pcer.auditing import sentences
from pcer.cli.audit import print_audits
from pcer.paper.rankings import comparisons
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report, views
from pcer.report.formats.terminal import terminal_text
from pcer.report.table import Six, Table
from pcer.report.tables.background import least_private_first
from pcer.report.tables.settings import MOST_SETTINGS, settings_table
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


def tables_of(audit: pcer.Audit) -> list[Table]:
    return [*chain(*views.table_groups(audit).values())]


def numbers(text: str) -> set[str]:
    """Numbers as words of their own; a number that is broken gives two others."""
    return {word.strip(",:;.") for word in text.split() if re.search(r"\d", word)}


EVERY_SAMPLE = pytest.mark.parametrize(
    "path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json")
)


@EVERY_SAMPLE
@pytest.mark.parametrize("view", ["short", "full", "paper"])
def test_every_view_fits_and_breaks_no_number(path, view):
    parts = view_of(audited(path), view)
    whole = [
        part._replace(is_brief=False) if isinstance(part, Six) else part
        for part in parts
    ]
    wide = numbers(terminal_text(whole, 10_000))
    for width in WIDTHS:
        text = terminal_text(parts, width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert numbers(text) <= wide


@EVERY_SAMPLE
def test_the_first_screen_has_at_most_32_lines_and_400_words(path, capsys):
    """With the hint that follows it right below."""
    audit = audited(path)
    text = terminal_text(view_of(audit))
    said = sentences.of(audit, audit.told)
    plain = " ".join(text.split())
    places = [plain.index(" · ".join(said.header)), plain.index(said.headline)]
    places += [plain.index(f"{row.question} {row.answer}.") for row in said.rows]
    places += [plain.index("What each setting gives"), plain.index("Next: ")]
    places.append(plain.index("If you may be in this data: "))
    assert places == sorted(places)
    if len(audit.settings) <= 6 and len(audit.subject.groups) <= 4:
        print_audits([audit])
        *lines, last = capsys.readouterr().out.splitlines()
        assert len(lines) <= 31
        assert lines == text.splitlines()
        assert last.startswith("More: --full ")
    markdown = to_markdown_page([audit])
    words = [
        word for word in markdown.split() if not re.fullmatch(r"\||-|#+|:?-+:?", word)
    ]
    assert len(words) <= 400
    assert "data:" not in re.sub("(this|training) data:", "", markdown)
    assert "\n" not in summary_line(audit)


@EVERY_SAMPLE
def test_what_each_setting_gives_has_the_audits_numbers(path):
    audit = audited(path)
    table = settings_table(audit)
    order = table.title.removeprefix("What each setting gives: ").split(" / ")
    rows = iter(table.rows)
    for setting in least_private_first(audit):
        _, exposures, rates, *_ = next(rows)
        groups = [setting.groups[name] for name in order]
        shown = [float(number) for number in numbers_with_sign(rates)]
        assert shown == pytest.approx(
            [100 * group.benefit.mean for group in groups], abs=0.5
        )
        if not any(group.detected for group in groups):
            most = max(g.interval[1] for g in setting.answers.spotting.groups)
            assert exposures == f"not detected, at most {most:.1f}"
            continue
        per_one = audit.attack_kind.scale.per_success
        success = [50 + per_one * group.exposure.value for group in groups]
        assert numbers_with_sign(exposures) == pytest.approx(success, abs=0.05)
    assert list(rows) == []


def numbers_with_sign(text: str) -> list[float]:
    found = re.findall(r"[−\d.]+", text)
    return [float(number.replace("−", "-")) for number in found]


@pytest.mark.parametrize("n_missing", [0, 1_234])
def test_people_without_a_group_are_counted_in_every_output(n_missing):
    audit = pcer.audit(mixed_release(n_missing_group=n_missing), QUICK)
    texts = [
        summary_line(audit),
        str(audit),
        str(audit.paper()),
        audit._repr_html_(),
        to_markdown_page([audit]),
        to_latex_tables([audit]),
        to_latex_tables([audit], "paper"),
        to_report([audit], audit.sources),
    ]
    sentence = "People in no table, left out: 1,234."
    for text in texts:
        is_said = sentence in " ".join(text.split())
        assert is_said == bool(n_missing)


MANY_RULES = {
    "strict": True,
    "min_splits": 1,
    "largest_difference": 100,
    "largest_detectable": 100,
    "largest_outcome_gap": 100,
    "required_attacks": ["gap"],
}


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (
            MANY_RULES,
            {
                "min_splits": "min_splits: limit 1 split, kept.",
                "required_attacks": "gap released",
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
    ],
)
def test_every_rule_is_one_case_in_the_units_of_the_page(rules, kept):
    plan = QUICK.model_copy(update={"policy": pcer.Policy(**rules)})
    audit = pcer.audit(mixed_release(), plan)
    cases = [*Xml.fromstring(to_junit([audit], ["ratio_differs"])).iter("testcase")]
    names = sorted(case.get("name") for case in cases)
    expected = ["fail_on: ratio_differs", *(f"policy: {rule}" for rule in rules)]
    assert names == sorted(expected)
    said = {case.get("name"): case.findtext("system-out") for case in cases}
    for rule, words in kept.items():
        assert words in said[f"policy: {rule}"]


def test_without_rules_every_setting_is_a_case_with_its_headline():
    audit = pcer.audit(mixed_release(), QUICK)
    texts = Xml.fromstring(to_junit([audit], [])).findall(".//testcase/*")
    headlines = [setting.headline for setting in audit.settings]
    assert [text.text for text in texts] == headlines


def test_of_many_groups_the_lowest_and_the_highest_stand_for_all():
    names = [f"group {k}" for k in range(30)]
    audit = pcer.audit(many_groups(names), QUICK)
    table = settings_table(audit)
    assert "lowest to highest of 30 groups" in table.title
    rates = [100 * audit.settings[-1].groups[name].benefit.mean for name in names]
    low, high = numbers_with_sign(table.rows[0][2])
    assert (low, high) == pytest.approx((min(rates), max(rates)), abs=0.5)


def test_of_many_settings_those_of_the_main_model_stand_and_the_rest_is_counted():
    audit = mixed_audit()
    many = [
        setting.model_copy(update={"model": name})
        for name in ("a", "b", "c")
        for setting in audit.settings
    ]
    published = [
        audit.published[0].model_copy(update={"model": name}) for name in "abc"
    ]
    audit = audit.model_copy(update={"settings": many, "published": published})
    table = settings_table(audit, most_rows=MOST_SETTINGS)
    assert len(table.rows) == 6
    assert table.note == "12 more rows: full table."


def test_names_of_other_people_fit():
    audit = hostile_audit()
    subject = audit.subject.model_copy(update={"attribute": "[red]a[/red]"})
    audit = audit.model_copy(update={"subject": subject})
    for view, width in (("short", 40), ("full", 60), ("paper", 60)):
        text = terminal_text(view_of(audit, view), width)
        assert max(map(cell_len, text.splitlines())) <= width
        assert "[red]a[/red]" in text.replace("\n", "")


def test_the_paper_s_numbers_are_the_gap_s_whatever_the_attack():
    audit = pcer.audit(mixed_audit().sources[0], QUICK, attack="attack_advantage")
    plain = pcer.audit(audit.sources[0], QUICK, attack="overfitting_gap")

    def cells(audit: pcer.Audit, title: str) -> list[list[tuple[str, ...]]]:
        rows_by_table = []
        for table in tables_of(audit):
            if table.title.startswith(title):
                rows_by_table.append([row[2:] for row in table.rows])
        return rows_by_table

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
    audit = pcer.audit(mixed_audit().sources[0], QUICK, attack="attack_advantage")
    (compared,) = comparisons(audit)
    chosen = {
        row.floor: row.budgets for row in audit.published[0].algorithm1.equitable_budget
    }
    assert compared.rankings[0].best == chosen[audit.plan.floor]


def test_the_comparison_names_a_budget_once_however_many_pairs_it_is_about():
    audit = pcer.audit(many_groups([f"group {k}" for k in range(8)]), QUICK)
    (compared,) = comparisons(audit)
    budgets = {epsilon for epsilon, _ in compared.opposite}
    (table,) = (t for t in tables_of(audit) if t.title.startswith("Comparison"))
    named = re.search(r"rate difference at: (.*?)\. ", table.note)[1].split(", ")
    assert len(named) == len(budgets) < len(compared.opposite)
    assert "-" not in re.sub("no-DP|outcome-only", "", table.note)
