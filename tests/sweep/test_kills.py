"""Sweeps that are killed: nothing is left running, and gone on with they end in the same bytes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import commands
from tests.processes import alive, descendants, marked, require_gone, until

TERM, HUP, KILL = signal.SIGTERM, signal.SIGHUP, signal.SIGKILL
CODES = {TERM: 143, HUP: 129, KILL: -KILL}
COMMAND = [
    *(sys.executable, "-m", "pcer", "train", "compas", "--attribute", "race"),
    *("--hidden", "8", "--batch", "512"),
]


def run_file(engine: str) -> tuple[str, str]:
    flags = {"jobs": 2, "block_size": 1, "engine": engine}
    return commands.config(train={"accountant": "rdp"}, engine=flags)


STARTS = 3
PATIENCE = 90
"""Seconds until nothing may be left, on a machine however busy."""


class Case(NamedTuple):
    """One kill."""

    number: signal.Signals
    engine: str = "local"
    is_group: bool = False
    """Whether the whole group of processes gets it, as from a terminal that is closed."""


class Sweeper:
    """Starts one sweep again and again, and kills it each time."""

    def __init__(self, folder: Path, temporary: str, size: list[str]) -> None:
        self.mark = f"PCER_TEST={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        own = {name: value, "TMPDIR": temporary}
        others = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.place = {**others, **own}
        self.folder, self.temporary, self.size = folder, Path(temporary), size

    def start(self, engine: str) -> subprocess.Popen[str]:
        """The sweep, in a group of its own."""
        return subprocess.Popen(
            [*COMMAND, *self.size, *run_file(engine), "-o", str(self.folder)],
            env=self.place,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self) -> bytes:
        """Go on to the end; gives the release."""
        running = self.start("local")
        said, _ = running.communicate()
        assert running.returncode == 0, said
        return (self.folder / "compas.race.release.json").read_bytes()

    def kept(self) -> set[str]:
        """Blocks that are finished, which are models here."""
        return {path.stem for path in (self.folder / "compas.scores").glob("block-*.json")}

    def trained_one_more(self, engine: str) -> subprocess.Popen[str]:
        """The sweep, running; a busy machine may miss the 30 seconds in which Ray must start."""
        before = self.kept()
        for _ in range(STARTS):
            running = self.start(engine)
            ended = running.poll
            until(lambda ended=ended: self.kept() - before or ended() is not None, running)
            if self.kept() - before:
                return running
            said, _ = running.communicate()
            assert "node timed out during startup" in said, said
        raise AssertionError(said)

    def kill(self, case: Case) -> None:
        """Kill a sweep when it has trained one model more; nothing may be left of it."""
        before = shared_memory()
        running = self.trained_one_more(case.engine)
        company = descendants(running.pid)
        assert len(company) > 2
        (os.killpg if case.is_group else os.kill)(running.pid, case.number)
        said, _ = running.communicate()
        require_gone(lambda: alive(company) | marked(self.mark), within=PATIENCE)
        assert running.returncode == CODES[case.number], said
        self.require_clean(case, said)
        if case.number != KILL:  # of the group, it ends those who would have cleared up
            own = re.compile(f".*[-_]{running.pid}[-_].*")
            assert not [*filter(own.match, shared_memory() - before)]

    def require_clean(self, case: Case, said: str) -> None:
        """One sentence, nothing half-written, nothing to be found by others."""
        if case.number == KILL:  # amid a write it leaves half a file, which the next start removes
            return
        work = self.folder / "compas.scores"
        assert {path.suffix for path in work.iterdir() if path.name != ".lock"} == {".json", ".npy"}
        last = said.splitlines()[-1]
        told = re.fullmatch(
            rf"pcer: stopped; (\d+) of (\d+) models are kept in {re.escape(str(self.folder))}; run "
            "the same command again to go on.",
            last,
        )
        assert told, said
        assert int(told[1]) <= len(self.kept()) <= int(told[2])
        assert len(self.kept()) - int(told[1]) <= 1  # written, and not yet counted
        assert not re.search("Traceback|SIGTERM received|Warning|leaked", said), said


def shared_memory() -> set[str]:
    """Names of semaphores and mapped arrays; also of killed groups, whose numbers come again."""
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def short() -> Iterator[str]:
    """A folder for temporary files with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        yield folder


QUICK = ["--budgets", "none,1", "--seeds", "16", "--epochs", "30"]
LOCAL = [
    Case(TERM),
    Case(KILL),
    Case(HUP),
    Case(TERM, is_group=True),
    Case(HUP, is_group=True),
    Case(KILL, is_group=True),
]
RAY = [Case(KILL, "ray"), Case(TERM, "ray"), Case(TERM, "ray", is_group=True)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The release of a sweep that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    return Sweeper(folder, tempfile.gettempdir(), QUICK).finish()


@pytest.mark.slow
@pytest.mark.parametrize("cases", [LOCAL, RAY], ids=["local", "ray"])
def test_a_killed_sweep_leaves_nothing_running_and_goes_on(tmp_path, short, whole, cases):
    sweeper = Sweeper(tmp_path / "out", short, QUICK)
    for case in cases:
        sweeper.kill(case)
    assert os.listdir(short) == []
    assert sweeper.finish() == whole
