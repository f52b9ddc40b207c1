"""Verbs of other distributions: one that is missing or broken costs its own verb only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = ROOT / "tests" / "releases" / "counts.release.json"

WITHOUT_STUDY = """
import importlib.metadata as metadata
every = metadata.distributions
metadata.distributions = lambda **rest: (d for d in every(**rest) if d.name != "pcer-studies")
"""
RUN = """
import sys
from pcer.cli import main
sys.argv[0] = "pcer"
try:
    main()
finally:
    loaded = [name for name in sys.modules if name.split(".")[0] in ("toy", "pcer_studies")]
    print("loaded:", loaded, file=sys.stderr)
"""

BROKEN = {
    "import": ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
    "exit": ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    "syntax": ("def register(\n", "SyntaxError: "),
    "two-lines": ("raise RuntimeError('a [bold]b[/x]\\nc')\n", "RuntimeError: a [bold]b[/x] c"),
    "no-function": ("register = 'nonsense'\n", "TypeError: 'str' object is not callable"),
    "missing": ("", "AttributeError: "),
    "nothing": ("def register(app): pass\n", "RuntimeError: "),
    "nonsense": (
        "def register(app): app.registered_commands.append('nonsense')\n",
        "AttributeError: 'str' object has no attribute",
    ),
}

WHOLE = """
import typer

def register(app):
    @app.command()
    def toy(size: int = 3):
        \"\"\"Plays.\"\"\"
        typer.echo(f"toy {size}")
"""


def run(*arguments: object, path: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    paths = [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-X", "utf8", "-c", before + RUN, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
        check=False,
    )


def install(folder: Path, code: str, *, verb: str = "toy", points: str | None = None) -> None:
    """A distribution as an installer leaves it: a module, and metadata beside it."""
    (folder / "toy.py").write_text(code)
    info = folder / "toy_verbs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-verbs\nVersion: 1.0\n")
    lines = f"[pcer.verbs]\n{verb} = toy:register\n" if points is None else points
    (info / "entry_points.txt").write_text(lines)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error, without the line of this test."""
    return done.stderr.rpartition("loaded:")[0]


def test_a_verb_is_found_listed_and_run(tmp_path):
    install(tmp_path, WHOLE)
    assert " Plays." in run("--help", path=tmp_path).stdout
    done = run("toy", "--size", 4, path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "toy 4\n")
    assert run("toy", "--sise", 4, path=tmp_path).returncode == 2


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_verb_is_one_sentence_and_costs_only_itself(tmp_path, name):
    code, reason = BROKEN[name]
    install(tmp_path, code)
    arguments = ("anything", "--at", "all") if name == "import" else ()
    done = run("toy", *arguments, path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done).startswith(f"pcer: pcer toy cannot be loaded from toy-verbs ({reason}")
    assert said(done).endswith("; install it again, or uninstall it.\n")
    assert said(done).count("\n") == 1
    listed = run("--help", path=tmp_path)
    assert listed.returncode == 0
    shown = " ".join(listed.stdout.replace("│", " ").split())
    assert f"toy pcer toy cannot be loaded from toy-verbs ({reason}" in shown
    assert "reproduce Run the paper's whole study" in shown


def test_an_audit_loads_no_verb_of_others(tmp_path):
    install(tmp_path, BROKEN["exit"][0])
    done = run("audit", GOOD, path=tmp_path)
    assert done.returncode == 0
    assert "toy (letter): no disparity shown" in done.stdout
    assert done.stderr == "loaded: []\n"


@pytest.mark.parametrize("verb", ["audit", "version"])
def test_no_verb_of_ours_can_be_replaced(tmp_path, verb):
    install(tmp_path, WHOLE, verb=verb)
    done = run(verb, "--help", path=tmp_path)
    assert "Plays" not in done.stdout
    assert done.stderr == "loaded: []\n"
    assert "Plays" not in run("--help", path=tmp_path).stdout


def test_metadata_that_cannot_be_read_hides_nothing_else(tmp_path):
    install(tmp_path, WHOLE, points="[pcer.verbs]\nthis is no entry point\n")
    assert run("version", path=tmp_path).returncode == 0
    listed = run("--help", path=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "Run the paper's whole study" in listed.stdout


def test_without_the_study_one_sentence_says_how_to_install_it(tmp_path):
    sentence = (
        "pcer reproduce comes with the study, which is not installed; in a clone of pcer run: "
        'pip install ".[train]" ./studies'
    )
    done = run("reproduce", "--tables-only", path=tmp_path, before=WITHOUT_STUDY)
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done) == f"pcer: {sentence}\n"
    shown = run("--help", path=tmp_path, before=WITHOUT_STUDY).stdout
    assert sentence in " ".join(shown.replace("│", " ").split())


def test_nobody_brings_a_verb(tmp_path):
    done = run("nonsense", path=tmp_path)
    assert done.returncode == 2
    assert "No such command 'nonsense'" in done.stderr
