"""Tables in terminals of any width, and names of other people as text."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.cells import cell_len

import pcer
from pcer.report import to_latex_tables
from pcer.report.formats.latex import latex_text
from pcer.report.formats.markdown import markdown_text
from pcer.report.formats.terminal import terminal_text
from pcer.report.table import Table, isolated
from tests.pages import ROOT

WIDE = Table(
    "Wide",
    ("setting", "group", "first\nnumber", "second", "third", "words"),
    (
        (
            "ε = 0.5",
            "African-American",
            "−12,345.678 ± 1.5",
            "0.0034\n[0.0002, 0.0066]",
            "7",
            "so",
        ),
        (
            "ε = 0.5",
            "مجموعة 🙂",
            "1.0 ± 0.5",
            "0.5\n[0.1, 0.9]",
            "<.001",
            "double disadvantage",
        ),
    ),
    n_labels=2,
    note="The note of 12,345 words.",
)


@pytest.mark.parametrize("width", range(20, 101, 8))
def test_a_table_folds_and_no_number_breaks(width):
    text = terminal_text([WIDE], width)
    assert max(map(cell_len, text.splitlines())) <= width
    for number in ("−12,345.678", "[0.0002,", "0.0066]", "<.001", "12,345"):
        assert number in text.split()


def test_a_table_too_wide_stands_in_two_parts_and_then_as_lists():
    whole = terminal_text([WIDE], 100).splitlines()
    halves = terminal_text([WIDE], 72).splitlines()
    lists = terminal_text([WIDE], 40).splitlines()
    assert sum("group" in line for line in whole) == 1
    assert sum("group" in line for line in halves) == 2
    assert lists[1:4] == [
        "ε = 0.5, African-American",
        "  first number: −12,345.678 ± 1.5",
        "  second: 0.0034 [0.0002, 0.0066]",
    ]
    long = Table("Names", ("group", "n"), (("African-American-or-Other-People", "1"),))
    letters = "".join(
        part for part in terminal_text([long], 30).split() if part not in ("1", "n")
    )
    assert "African-American-or-Other-People" in letters
    # A setting is named once in a table and always in a list.
    assert "\n".join(whole).count("ε = 0.5") == 1
    assert "\n".join(lists).count("ε = 0.5") == 2


def test_names_are_text_in_markdown_and_latex():
    for hostile in (
        "<script>",
        '"onload=',
        "{{7*7}}",
        "a|b",
        "[x](javascript:1)",
        "`c`",
        "$x$",
    ):
        safe = markdown_text(hostile)
        assert "<" not in safe
        for sign in "|[]`*_{}$":
            assert safe.count(sign) == safe.count("\\" + sign)
    safe = latex_text(r"\input{secret} $x$ 100% a_b #1 ~^ <>")
    assert r"\input" not in safe
    for sign in "%_#{}&$":
        assert sign not in safe.replace("\\" + sign, "").replace("{}", "")


def test_names_that_turn_the_text_are_isolated():
    assert isolated("abc") == "abc"
    assert isolated("مجموعة") == "\u2068مجموعة\u2069"
    assert isolated("a\u202eb") == "\u2068a\u202eb\u2069"
    assert latex_text(isolated("مجموعة")) == "مجموعة"


def complaints(folder: Path, name: str) -> list[str]:
    """Errors, missing characters and lines wider than the page."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    log = (folder / name).with_suffix(".log").read_text(errors="replace")
    return re.findall(
        r"^!.*|^Missing character.*|^Overfull \\hbox.*", log, flags=re.MULTILINE
    )


@pytest.mark.skipif(
    None in map(shutil.which, ("pdflatex", "kpsewhich"))
    or not subprocess.run(
        ["kpsewhich", "multirow.sty"], capture_output=True, check=False
    ).stdout,
    reason="needs pdflatex with multirow",
)
def test_tables_are_typeset_without_a_complaint(tmp_path):
    """Those of the paper, and those of audits."""
    for name in ("tables.tex", "figure1.png"):
        shutil.copy(ROOT / "studies" / "paper" / name, tmp_path)
    paths = [
        *ROOT.glob("examples/*.release.json"),
        ROOT / "studies/paper/acs.race.release.json",
    ]
    audits = to_latex_tables([pcer.audit(pcer.read_release(path)) for path in paths])
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\n"
        "\\usepackage[T1]{fontenc}\n"
        "\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{audits}\n\\end{{document}}\n"
    )
    assert complaints(tmp_path, "tables.tex") == []
    assert complaints(tmp_path, "page.tex") == []
