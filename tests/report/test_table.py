"""Renderers: three rows each, and names of other people as text."""

from __future__ import annotations

import pytest
from rich.console import Console

from pcer.report.table import Table, latex_text, markdown_text, to_latex, to_markdown, to_rich

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


def test_terminal_keeps_every_character():
    console = Console(width=30)
    long = Table("Names", ("group", "n"), (("African-American-or-Other-People", "1"),))
    with console.capture() as captured:
        console.print(to_rich(long))
    letters = "".join(part for part in captured.get().split() if part not in ("1", "n"))
    assert "African-American-or-Other-People" in letters
    assert "…" not in letters


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
