"""What LaTeX says of the tables, where there is a LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pcer.cli.app import app

ROOT = Path(__file__).parents[2]


def missing(package: str) -> bool:
    """Whether pdflatex, or a package that it needs, is not here."""
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return True
    return not subprocess.run(["kpsewhich", package], capture_output=True, check=False).stdout


pytestmark = pytest.mark.skipif(missing("multirow.sty"), reason="needs pdflatex with multirow")


def complaints(folder: Path, name: str) -> list[str]:
    """Errors, missing characters and lines wider than the page."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name]
    subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    log = (folder / name).with_suffix(".log").read_text(errors="replace")
    return re.findall(r"^!.*|^Missing character.*|^Overfull \\hbox.*", log, flags=re.MULTILINE)


def test_the_papers_tables_are_typeset_without_a_complaint(tmp_path):
    for name in ("tables.tex", "figure1.png"):
        shutil.copy(ROOT / "studies" / "paper" / name, tmp_path)
    assert complaints(tmp_path, "tables.tex") == []


def test_audits_are_typeset_without_a_complaint(tmp_path):
    sources = [str(ROOT / "examples"), str(ROOT / "studies" / "paper" / "acs.race.release.json")]
    done = CliRunner().invoke(app, ["audit", *sources, "--latex", str(tmp_path / "audit.tex")])
    assert done.exit_code == 0, done.output
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs,graphicx}\n"
        "\\begin{document}\n\\input{audit.tex}\n\\end{document}\n"
    )
    assert complaints(tmp_path, "page.tex") == []
