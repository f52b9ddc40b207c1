"""The verb of the study, which is a distribution apart: found, listed, or said how to get."""

from __future__ import annotations

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
    print("loaded:", [name for name in sys.modules if "pcer_studies" in name], file=sys.stderr)
"""


def help_page() -> str:
    return " ".join(passed("--help", COLUMNS="200").stdout.replace("│", " ").split())


def test_the_study_is_listed_and_an_unknown_verb_is_refused():
    assert "reproduce Run the paper's whole study" in help_page()
    assert "--tables-only" in passed("reproduce", "--help", COLUMNS="200").stdout
    assert "No such command 'nonsense'" in passed("nonsense", code=2, COLUMNS="200").stderr


@pytest.mark.parametrize("arguments", [("audit", GOOD), ("version",)])
def test_our_own_verbs_load_nothing_of_it(arguments):
    command = [sys.executable, "-X", "utf8", "-c", RUN, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=os.environ, check=False
    )
    assert (done.returncode, done.stderr) == (0, "loaded: []\n")


def test_without_the_study_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("pcer.cli.app.entry_points", lambda **of: ())
    sentence = refusal("reproduce", "--tables-only").removeprefix("pcer: ").rstrip("\n")
    assert sentence.endswith('pip install ".[train]" ./studies')
    assert sentence in help_page()
