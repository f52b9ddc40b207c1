"""Adding one of each, as CONTRIBUTING.md says: its code runs as printed, in a copy."""

import os
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
    assert len(page.splitlines()) <= 92
    assert max(map(len, page.splitlines())) <= 120


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
