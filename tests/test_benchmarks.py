"""Every benchmark that a page quotes is there, and runs with small arguments."""

import re
import subprocess
import sys

import pytest

from tests.pages import ROOT

QUOTED = re.compile(r"python -m benchmarks\.([\w.]+) ([a-z_]+)")
IN_README = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)
# Small arguments of commands that need no data but their own.
SMALL = (
    "alarms lies 1 1",
    "alarms declarations 2",
    "alarms references 1",
    "alarms signals 1",
    "bars rows 400",
    "bars start",
    "edits honest 2",
    "joint time 400 1",
    "receipts canaries 2 1",
    "speed tables --rows 50000 --without-fairlearn",
)


def quoted() -> set[tuple[str, str]]:
    """Modules and verbs of the pages, and of the benchmarks' own list."""
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = {pair for page in pages for pair in QUOTED.findall(page.read_text())}
    listed = IN_README.findall((ROOT / "benchmarks" / "README.md").read_text())
    for commands in listed:
        found |= set(re.findall(r"`([a-z_]+) ([a-z_]+)", commands))
    return found


def test_what_is_quoted_is_there():
    for module, verb in sorted(quoted()):
        source = ROOT / "benchmarks" / f"{module.replace('.', '/')}.py"
        text = source.read_text(encoding="utf-8")
        assert re.search(rf"\b{verb}\b", text), (module, verb)


@pytest.mark.slow
@pytest.mark.parametrize("command", SMALL)
def test_a_quoted_command_runs_with_small_arguments(command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", *f"benchmarks.{command}".split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout
