"""Renderers: three rows each, and names of other people as text."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from pcer.report.table import (
    Table,
    isolated,
    latex_text,
    markdown_text,
    to_html,
    to_latex,
    to_markdown,
    to_text,
)

SMALL = Table(
    "Gaps",
    ("ε", "gap\nA & B"),
    (("0.1", "−64 ± 220\n[−128, −5]"), ("no-DP", "–")),
    note="Mean ± std.",
)


def test_markdown():
    assert to_markdown(SMALL) == (
        "### Gaps\n\n"
        "| ε | gap A &amp; B |\n"
        "| :-- | --: |\n"
        "| 0.1 | −64 ± 220 \\[−128, −5\\] |\n"
        "| no-DP | – |\n\n"
        "Mean ± std.\n"
    )


def test_latex():
    assert to_latex(SMALL).splitlines() == [
        r"\begin{table*}[t]",
        r"\caption{Gaps. Mean $\pm$ std.}",
        r"\small\centering",
        r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%",
        r"\begin{tabular}{lc}",
        r"\toprule",
        r"$\varepsilon$ & gap A \& B \\",
        r"\midrule",
        r"0.1 & $-$64 $\pm$ 220 [$-$128, $-$5] \\",
        r"no-DP & -- \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table*}",
    ]


def test_terminal():
    assert to_text(SMALL, 80).splitlines() == [
        "Gaps",
        "              gap",
        "ε           A & B",
        "─────────────────",
        "0.1     −64 ± 220",
        "       [−128, −5]",
        "no-DP           –",
        "Mean ± std.",
    ]


def test_terminal_keeps_every_character():
    long = Table("Names", ("group", "n"), (("African-American-or-Other-People", "1"),))
    letters = "".join(part for part in to_text(long, 30).split() if part not in ("1", "n"))
    assert "African-American-or-Other-People" in letters
    assert "…" not in letters


WIDE = Table(
    "Wide",
    ("setting", "group", "first\nnumber", "second", "third", "words"),
    (
        ("ε = 0.5", "African-American", "−12,345.678 ± 1.5", "0.0034\n[0.0002, 0.0066]", "7", "so"),
        ("ε = 0.5", "مجموعة 🙂", "1.0 ± 0.5", "0.5\n[0.1, 0.9]", "<.001", "double disadvantage"),
    ),
    n_labels=2,
    note="The note of 12,345 words.",
)


@pytest.mark.parametrize("width", range(20, 101, 4))
def test_a_table_folds_and_no_number_breaks(width):
    text = to_text(WIDE, width)
    assert max(map(cell_len, text.splitlines())) <= width
    for number in ("−12,345.678", "[0.0002,", "0.0066]", "<.001", "12,345"):
        assert number in text.split()


def test_a_table_too_wide_stands_in_two_parts_and_then_as_lists():
    whole, halves, lists = (to_text(WIDE, width).splitlines() for width in (100, 72, 40))
    assert sum("group" in line for line in whole) == 1
    assert sum("group" in line for line in halves) == 2
    assert lists[1:4] == [
        "ε = 0.5, African-American",
        "  first number: −12,345.678 ± 1.5",
        "  second: 0.0034 [0.0002, 0.0066]",
    ]


def test_a_setting_is_named_once_in_a_table_and_always_in_a_list():
    assert to_text(WIDE, 100).count("ε = 0.5") == 1
    assert to_text(WIDE, 40).count("ε = 0.5") == 2


def test_rows_must_fit():
    with pytest.raises(ValueError, match="must have 2 cells"):
        Table("x", ("a", "b"), (("1",),))


@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", '"onload=', "{{7*7}}", "a|b", "[x](javascript:1)", "`c`", "$x$"],
)
def test_markdown_shows_names_as_text(hostile):
    safe = markdown_text(hostile)
    assert "<" not in safe
    for sign in "|[]`*_{}$":
        assert safe.count(sign) == safe.count("\\" + sign)


def test_latex_shows_names_as_text():
    safe = latex_text(r"\input{secret} $x$ 100% a_b #1 ~^ <>")
    assert r"\input" not in safe
    for sign in "%_#{}&$":
        bare = safe.replace("\\" + sign, "")
        assert sign not in bare.replace("{}", "")


def test_html_table():
    table = Table("A & B", ("ε", "group", "x\ny"), (("1", "<b>", "not resolved"),), 2, "n < 3")
    assert to_html(table, id="t", marks={"not resolved": "badge"}) == (
        '<div class="table" role="region" tabindex="0" aria-labelledby="t">\n'
        '<table><caption id="t">A &amp; B</caption>\n'
        '<thead><tr><th scope="col" class="label">ε</th><th scope="col" class="label">group</th>'
        '<th scope="col">x<br>y</th></tr></thead>\n'
        '<tbody>\n<tr><th scope="row">1</th><td class="label">&lt;b&gt;</td>'
        '<td><span class="badge">not resolved</span></td></tr>\n</tbody></table>\n'
        '</div>\n<p class="note">n &lt; 3</p>'
    )


def test_names_that_turn_the_text_are_isolated():
    assert isolated("abc") == "abc"
    assert isolated("مجموعة") == "\u2068مجموعة\u2069"
    assert isolated("a\u202eb") == "\u2068a\u202eb\u2069"
    assert latex_text(isolated("مجموعة")) == "مجموعة"
