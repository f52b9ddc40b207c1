"""Adding one of each, as CONTRIBUTING.md says: its code runs as printed, in a copy."""

import ast
import os
import re
import subprocess
import sys

import pytest

from tests.recipes import RECIPES, ROOT, follow

EIGHT = {
    "dataset",
    "attack",
    "benefit",
    "chart",
    "output format",
    "verb",
    "policy rule",
    "training rule",
}


def test_the_page_has_all_recipes_and_fits_on_a_screen():
    assert {*RECIPES} == EIGHT
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 90
    assert max(map(len, page.splitlines())) <= 101


def test_what_every_recipe_adds_works_where_it_must(tmp_path):
    follow(tmp_path / "pcer")
    paths = [tmp_path, ROOT / "studies" / "src"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/added.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(done.stdout + done.stderr)


def test_every_file_begins_with_its_question_and_how_one_adds_to_it():
    lacking = []
    for folder in (ROOT / "src" / "pcer", ROOT / "studies" / "src"):
        for path in folder.rglob("*.py"):
            if path.name.startswith("_"):  # fronts say what is in a room
                continue
            head = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            question, *_ = head.split("\n\n")
            says_how = re.search(
                r"\bto\s(add|log|let|run)\b|\bcomes\sin by", head, re.IGNORECASE
            )
            if "?" not in question or not says_how:
                lacking.append(path.relative_to(ROOT).as_posix())
    assert lacking == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_that_a_page_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    named = re.findall(r"`([\w./-]+\.(?:py|toml|lock|cff|txt|yml))`", prose)
    named += re.findall(r"`((?:scripts|tests|docs|benchmarks)/[\w./-]*)`", prose)
    known = {path.name for path in ROOT.rglob("src/pcer/**/*.py")}
    places = (ROOT, ROOT / "src" / "pcer")
    lost = []
    for name in named:
        is_there = any((place / name).exists() for place in places)
        if not is_there and name not in known:
            lost.append(name)
    assert len(named) > 3
    assert lost == []
