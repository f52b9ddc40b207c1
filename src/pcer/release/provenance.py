"""The source that pcer runs from, as a release names it: a commit only if it is pcer's own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]


class SourceState(NamedTuple):
    """The commit that pcer runs from, and whether the package was changed since."""

    commit: str | None = None
    dirty: bool | None = None


def source_state(package: Path = PACKAGE) -> SourceState:
    """What git says of pcer's own checkout, if the package lies in one.

    Nothing is known of an installed package, nor of a copy inside another repository, whose
    commit would say nothing about pcer.

    Args:
        package: the folder of the package.
    """
    commit = _git(package, "rev-parse", "HEAD") if _is_own_checkout(package) else None
    if commit is None:
        return SourceState()
    status = _git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return SourceState(commit, None if status is None else bool(status))


def _is_own_checkout(package: Path) -> bool:
    """Whether git keeps this very folder as ``src/pcer`` of a project named pcer."""
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or (Path(top) / "src" / "pcer").resolve() != package.resolve():
        return False
    tracked = _git(package, "ls-files", "--error-unmatch", "--", "__init__.py")
    return tracked is not None and _project_name(Path(top) / "pyproject.toml") == "pcer"


def _project_name(path: Path) -> str | None:
    import tomllib

    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return None
    return str(project.get("name"))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder; None where it, or a repository, is not there."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
