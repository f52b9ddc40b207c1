"""What LaTeX says of the tables, where there is a LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pcer
from pcer.report import to_latex_tables
from tests.pages import ROOT


def missing(package: str) -> bool:
    """Whether pdflatex, or a package that it needs, is not here."""
    if None in map(shutil.which, ("pdflatex", "kpsewhich")):
        return True
    return not subprocess.run(["kpsewhich", package], capture_output=True, check=False).stdout


pytestmark = pytest.mark.skipif(missing("multirow.sty"), reason="needs pdflatex with multirow")


def complaints(folder: Path, name: str) -> list[str]:
    """Errors, missing characters and lines wider than the page."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    log = (folder / name).with_suffix(".log").read_text(errors="replace")
    return re.findall(r"^!.*|^Missing character.*|^Overfull \\hbox.*", log, flags=re.MULTILINE)


def test_tables_are_typeset_without_a_complaint(tmp_path):
    """Those of the paper, and those of audits."""
    for name in ("tables.tex", "figure1.png"):
        shutil.copy(ROOT / "studies" / "paper" / name, tmp_path)
    paths = [*ROOT.glob("examples/*.release.json"), ROOT / "studies/paper/acs.race.release.json"]
    audits = to_latex_tables([pcer.audit(pcer.read_release(path)) for path in paths])
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,graphicx}\n"
        f"\\begin{{document}}\n{audits}\n\\end{{document}}\n"
    )
    assert [complaints(tmp_path, name) for name in ("tables.tex", "page.tex")] == [[], []]
