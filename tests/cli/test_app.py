"""Verbs of other distributions: one that is missing or broken costs its own verb only."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import passed, refusal

GOOD = Path(__file__).parents[1] / "releases" / "counts.release.json"
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


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A distribution as an installer leaves it: a module, and metadata beside it."""

    def made(code: str, *, points: str = "[pcer.verbs]\ntoy = toy:register\n") -> None:
        (tmp_path / "toy.py").write_text(code)
        info = tmp_path / "toy_verbs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-verbs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(tmp_path)

    yield made
    sys.modules.pop("toy", None)


def help_page() -> str:
    return " ".join(passed("--help", COLUMNS="200").stdout.replace("│", " ").split())


def test_a_verb_is_found_listed_and_run(install):
    install(WHOLE)
    assert " Plays." in help_page()
    assert passed("toy", "--size", 4).stdout == "toy 4\n"
    passed("toy", "--sise", 4, code=2)
    assert "No such command 'nonsense'" in passed("nonsense", code=2, COLUMNS="200").stderr


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_verb_is_one_sentence_and_costs_only_itself(install, name):
    code, reason = BROKEN[name]
    install(code)
    sentence = f"pcer toy cannot be loaded from toy-verbs ({reason}"
    told = refusal("toy", *(("anything", "--at", "all") if name == "import" else ()))
    assert told.startswith(f"pcer: {sentence}")
    listed = help_page()
    assert f"toy {sentence}" in listed
    assert "reproduce Run the paper's whole study" in listed


@pytest.mark.parametrize("arguments", [("audit", GOOD), ("version",)])
def test_our_own_verbs_load_none_of_others_and_cannot_be_replaced(install, tmp_path, arguments):
    points = "".join(f"{verb} = toy:register\n" for verb in ("toy", "audit", "version"))
    install(BROKEN["exit"][0], points=f"[pcer.verbs]\n{points}")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", RUN, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "loaded: []\n")


def test_metadata_that_cannot_be_read_hides_nothing_else(install):
    install(WHOLE, points="[pcer.verbs]\nthis is no entry point\n")
    passed("version")
    assert "Run the paper's whole study" in help_page()


def test_without_the_study_one_sentence_says_how_to_install_it(monkeypatch):
    others = [d for d in importlib.metadata.distributions() if d.name != "pcer-studies"]
    monkeypatch.setattr("pcer.cli.app.distributions", lambda: others)
    sentence = refusal("reproduce", "--tables-only").removeprefix("pcer: ").rstrip("\n")
    assert sentence.endswith('pip install ".[train]" ./studies')
    assert sentence in help_page()
