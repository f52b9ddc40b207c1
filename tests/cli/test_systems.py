"""The auditor's half on Windows and macOS: what those lack is taken away here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pcer
from pcer_studies.protocol import CONFIGURATIONS
from tests.worlds.studies import write_study

GOOD = Path(__file__).parents[1] / "releases" / "counts.release.json"

WINDOWS = """
import os, signal, sys
import numpy  # asks Linux, where it is on Linux, for its version
sys.modules |= dict.fromkeys("fcntl grp pty pwd resource syslog termios tty".split())
missing = (
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW chown fchmod fchown fork forkpty getegid geteuid getgid "
    "getloadavg getuid killpg lchown mkfifo nice pread pwrite register_at_fork sched_getaffinity "
    "sched_setaffinity setsid statvfs sysconf uname"
)
for name in missing.split():
    delattr(os, name)
for name in "SIGALRM SIGHUP SIGKILL SIGPIPE SIGUSR1 alarm setitimer".split():
    delattr(signal, name)
linking = os.link
def link(source, target, *, follow_symlinks=True):
    if not follow_symlinks:
        raise NotImplementedError("link: follow_symlinks unavailable on this platform")
    linking(source, target)
os.link = link
"""
"""What Python lacks there; macOS lacks some of it."""

RUN = "\nimport sys\nfrom pcer.cli import main\nsys.argv[0] = 'pcer'\nmain()\n"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "utf8", "-c", WINDOWS + RUN, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
def test_an_audit_needs_nothing_of_linux(tmp_path):
    outputs = {name: tmp_path / f"a.{name}" for name in ("json", "html", "junit", "markdown")}
    options = [part for name, path in outputs.items() for part in (f"--{name}", path)]
    for path in list(outputs.values())[:2]:
        path.write_text("old")
    done = run("audit", GOOD, *options, "--figures", tmp_path / "figures")
    assert (done.returncode, done.stderr) == (0, "")
    assert "toy (letter): no disparity shown" in done.stdout
    audit = pcer.audit(pcer.read_release(GOOD))
    assert json.loads(outputs["json"].read_text(encoding="utf-8")) == audit.to_tree()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"figures", *(path.name for path in outputs.values())}
    good = run("verify", outputs["html"])
    assert (good.returncode, "every byte agrees" in good.stdout) == (0, True), good.stderr


@pytest.mark.slow
def test_the_study_writes_its_tables_there(tmp_path):
    write_study(tmp_path, n_seeds=2, configurations=CONFIGURATIONS[2:3])
    done = run("reproduce", "--tables-only", "--no-report", "-o", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| compas |" in (tmp_path / "cells.md").read_text(encoding="utf-8")
