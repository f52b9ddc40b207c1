"""A release names a commit only if it is pcer's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pcer.release.build import PACKAGE, SourceState, source_state

WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(folder: Path, *, name: str | None, package: str = "src/pcer") -> Path:
    """A repository of one commit with a package in it; the package's folder."""
    inside = folder / package
    inside.mkdir(parents=True)
    (inside / "__init__.py").write_text('"""A package."""\n')
    if name is not None:
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, *WHO, "commit", "-q", "-m", "First")
    return inside


def test_pcers_own_checkout_has_a_commit(tmp_path):
    package = repository(tmp_path, name="pcer")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert source_state(package) == SourceState(head, False)
    (tmp_path / "README.md").write_text("Not of the package.")
    assert source_state(package) == SourceState(head, False)
    (package / "__init__.py").write_text('"""Changed."""\n')
    assert source_state(package) == SourceState(head, True)


def test_a_worktree_of_it_has_one_too(tmp_path):
    repository(tmp_path / "first", name="pcer")
    git(tmp_path / "first", "worktree", "add", "-q", str(tmp_path / "second"))
    head = git(tmp_path / "first", "rev-parse", "HEAD")
    assert source_state(tmp_path / "second" / "src" / "pcer") == SourceState(head, False)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("host", "vendor/pcer"),
        ("host", "src/pcer"),
        (None, "src/pcer"),
        ("pcer", "pcer"),
        ("pcer", "vendor/pcer/src/pcer"),
    ],
)
def test_a_copy_in_another_repository_has_none(tmp_path, name, package):
    assert source_state(repository(tmp_path, name=name, package=package)) == SourceState()


def test_a_copy_that_git_does_not_keep_has_none(tmp_path):
    package = repository(tmp_path, name="pcer", package="src/other").parent / "pcer"
    package.mkdir()
    (package / "__init__.py").touch()
    assert source_state(package) == SourceState()


def test_no_repository_no_git_no_commit(tmp_path, monkeypatch):
    assert source_state(tmp_path) == SourceState()
    package = repository(tmp_path / "own", name="pcer")
    monkeypatch.setenv("PATH", "")
    assert source_state(package) == SourceState()


def test_a_vendored_pcer_does_not_take_the_commit_of_its_host(tmp_path):
    repository(tmp_path, name="host", package="src/host")
    unneeded = shutil.ignore_patterns("__pycache__", "*.gz", "*.zst", "*.js")
    shutil.copytree(PACKAGE, tmp_path / "src" / "pcer", ignore=unneeded)
    git(tmp_path, "add", "-A")
    git(tmp_path, *WHO, "commit", "-q", "-m", "Second")
    code = "import pcer.release.build as r; print(r.__file__); print(*r.source_state())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    where, state = done.stdout.splitlines()
    assert where.startswith(str(tmp_path))
    assert state == "None None"
