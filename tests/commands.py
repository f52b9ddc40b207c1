"""The command line, in a process of its own or in this one; and who started which process."""

import csv
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pcer.cli import main
from pcer.cli.app import SIGNALS
from pcer.errors import printable

Done = subprocess.CompletedProcess[str]
SAMPLES = Path(__file__).parent / "releases"
GOOD = SAMPLES / "counts.release.json"
NAMES = [f"Alexandra Q{i:03}" for i in range(400)]
JOBS = ("falconer", "lamplighter", "cooper")
_run_files = tempfile.TemporaryDirectory(prefix="pcer-run-files-")


def config(**tables: dict[str, Any]) -> tuple[str, str]:
    """Options that name a run file with these tables."""
    lines = []
    for table, keys in tables.items():
        plain = {
            key: value for key, value in keys.items() if not isinstance(value, dict)
        }
        lines += [
            f"[{table}]",
            *(f"{key} = {json.dumps(value)}" for key, value in plain.items()),
        ]
        for name in keys.keys() - plain.keys():
            settings = keys[name].items()
            lines += [
                f"[{table}.{name}]",
                *(f"{k} = {json.dumps(v)}" for k, v in settings),
            ]
    text = "\n".join(lines) + "\n"
    path = Path(
        _run_files.name, f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.toml"
    )
    path.write_text(text, encoding="utf-8")
    return "--config", str(path)


def write_rows(path: Path, header: str, rows: list[list[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header.split(), *rows])
    return path


def write_people(
    path: Path, n: int = 400, *, small: int = 0, named: bool = False
) -> Path:
    """A table to train on; the first ``small`` are a group of their own, seven have no age."""
    rng, rows = random.Random(3), []
    for i in range(n):
        sex = "third" if i < small else rng.choice(["first", "second"])
        age = rng.randint(18, 80)
        approved = "yes" if rng.random() < age / 100 else "no"
        row = ["" if i < 7 else age, rng.choice(JOBS), sex, rng.choice("xz"), approved]
        rows.append([NAMES[i], *row] if named else row)
    return write_rows(path, "name " * named + "age job sex race approved", rows)


MODULE = """
from torch import nn


def make_net(n_features, width=4, act="relu"):
    last = nn.Linear(width, 1)
    return nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Dropout(0.1), last)


def mixing(n_features):
    return nn.Sequential(nn.BatchNorm1d(n_features), nn.Linear(n_features, 1))


number = 3
"""
"""A file of a user with torch modules: good, mixing records, and none."""


def start(*arguments: object, before: str | None = None, **env: str) -> Done:
    """Run pcer as a user does, or after some code of a test; bytes that are not UTF-8 stay."""
    code = f"{before}\nfrom pcer.cli import main\nmain()"
    program = ("-m", "pcer") if before is None else ("-c", code)
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        env={**os.environ, "PYTHONUTF8": "1", **env},
        check=False,
    )


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Whatever listens to signals inside, afterwards it is as before."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run(*arguments: object, **env: str) -> Done:
    """The same with the interpreter that is running, which has imported everything already.

    Signals, streams that are closed and exit codes of the interpreter's own need
    `start`.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    with handlers_kept(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pcer", *map(str, arguments)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        for name, value in env.items():
            patch.setenv(name, value)
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    for stream in (out, err):
        stream.seek(0)
    return Done(list(map(str, arguments)), code, out.read(), err.read())


def passed(*arguments: object, code: int = 0, **env: str) -> Done:
    """A command that ends with this exit code."""
    done = run(*arguments, **env)
    assert done.returncode == code, done.stderr
    return done


def refusal(*arguments: object) -> str:
    """The one sentence of a command that refuses, and writes nothing to stdout."""
    done = passed(*arguments, code=2)
    assert (done.stdout, done.stderr[:6], done.stderr[-1]) == ("", "pcer: ", "\n")
    assert done.stderr[:-1] == printable(
        done.stderr[:-1]
    )  # one line, and nothing unseen
    return done.stderr


# Processes as the kernel lists them: who started whom, and who is left.


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")  # every thread has its own
    below = {int(each) for path in threads for each in _read(path).split()}
    return below.union(*map(descendants, below))


def title(pid: int) -> str:
    """The command line; empty for a process that has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode()


def marked(mark: str) -> set[int]:
    """Living processes whose environment holds a text."""
    processes = [
        p for p in Path("/proc").glob("[0-9]*") if mark.encode() in _read(p / "environ")
    ]
    return alive({int(path.name) for path in processes})


def _read(path: Path) -> bytes:
    """A file of the kernel; nothing where its process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if title(pid)}


def until(found: Callable[[], object], running: subprocess.Popen[str]) -> object:
    """Wait for something while a process runs; ask often."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        assert running.poll() is None, running.communicate()[0]
        time.sleep(0.005)
    raise AssertionError("it never happened")


def require_gone(left: Callable[[], set[int]], *, within: float = 90) -> None:
    """Wait until no process is left."""
    deadline = time.monotonic() + within
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [title(pid) for pid in left()]
