"""Sweeps that are killed: nothing is left running, and they end in the same bytes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import (
    alive,
    config,
    descendants,
    marked,
    require_gone,
    title,
    until,
)

TERM = signal.SIGTERM
HUP = signal.SIGHUP
KILL = signal.SIGKILL
CODES = {TERM: 143, HUP: 129, KILL: -KILL}


# The study's own verb, of networks and blocks that are small enough to be killed now
# and then.
REPRODUCE = """
from dataclasses import replace
from pcer.cli.app import main
from pcer_studies import command, protocol
protocol.TRAINING.update(hidden=(8,), expected_batch=512, accountant="rdp")
flags = command._flags
command._flags = lambda *options: replace(flags(*options), block_size=1)
main()
"""


class Sweeper:
    """Starts one sweep again and again, to kill it or not."""

    def __init__(self, folder: Path, temporary: str, size: str) -> None:
        mark = str(uuid.uuid4())
        self.mark = f"PCER_TEST={mark}"
        self.folder = folder
        self.size = size.split()
        others = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.place = {**others, "PCER_TEST": mark, "TMPDIR": temporary}
        # 15 by default: on a busy machine workers would wait.
        self.place["RAY_worker_niceness"] = "0"

    def start(self, engine: str) -> subprocess.Popen[str]:
        """The sweep, in a group of its own."""
        flags = {"jobs": 2, "block_size": 1, "engine": engine}
        settings = config(train={"accountant": "rdp"}, engine=flags)
        sweep = (
            "train",
            "compas",
            "--attribute",
            "race",
            "--budgets",
            "none,1",
            *self.size,
        )
        command = ["-m", "pcer", *sweep, *settings]
        if engine == "reproduce":
            command = [
                "-c",
                REPRODUCE,
                engine,
                "--dataset",
                "compas",
                "--no-report",
                *self.size,
            ]
        return subprocess.Popen(
            [sys.executable, *command, "-o", str(self.folder)],
            env=self.place,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(
        self, running: subprocess.Popen[str] | None = None, engine: str = "local"
    ) -> bytes:
        """Go on to the end; gives the release."""
        running = running or self.start(engine)
        said, _ = running.communicate()
        assert running.returncode == 0, said
        return (self.folder / "compas.race.release.json").read_bytes()

    def kept(self) -> set[str]:
        """Blocks that are finished, which are models here."""
        return {
            path.stem for path in (self.folder / "compas.scores").glob("block-*.json")
        }

    def trained_one_more(self, engine: str) -> subprocess.Popen[str]:
        """The sweep, running; a busy machine may miss Ray's 30 seconds to start."""
        before = self.kept()
        for _ in range(3):
            running = self.start(engine)
            ended = running.poll
            until(
                lambda ended=ended: self.kept() - before or ended() is not None, running
            )
            if self.kept() - before:
                return running
            said, _ = running.communicate()
            assert "node timed out during startup" in said, said
        raise AssertionError(said)

    def kill(
        self, number: signal.Signals, engine: str = "local", *, is_group: bool = False
    ):
        """Kill a sweep when it has trained one model more; nothing may be left of it.

        A group of processes gets the signal as from a terminal that is closed.
        """
        before = shared_memory()
        running = self.trained_one_more(engine)
        company = descendants(running.pid)
        assert len(company) > 2
        (os.killpg if is_group else os.kill)(running.pid, number)
        said, _ = running.communicate()
        require_gone(lambda: alive(company) | marked(self.mark))
        assert running.returncode == CODES[number], said
        if number == KILL:
            # It leaves half a file, and of a group nobody is left to clear up.
            return
        own = re.compile(f".*[-_]{running.pid}[-_].*")
        assert not [*filter(own.match, shared_memory() - before)]
        work = self.folder / "compas.scores"
        assert {path.suffix for path in work.iterdir() if path.name != ".lock"} == {
            ".json",
            ".npy",
        }
        stopped = re.fullmatch(
            r"pcer: stopped; (\d+) of (\d+) models are kept in "
            rf"{re.escape(str(self.folder))}; run the same command again to resume.",
            said.splitlines()[-1],
        )
        assert stopped, said
        n_counted, n_models = map(int, stopped.groups())
        assert n_counted <= len(self.kept()) <= n_models
        assert len(self.kept()) - n_counted <= 1  # written, and not yet counted
        assert not re.search("Traceback|SIGTERM received|Warning|leaked", said), said


def shared_memory() -> set[str]:
    """Names of semaphores and mapped arrays.

    Those of killed groups are among them, and process numbers come again.
    """
    return set(os.listdir("/dev/shm"))


@pytest.fixture
def short() -> Iterator[str]:
    """A folder for temporary files with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        yield folder


QUICK = "--hidden 8 --batch 512 --seeds 16 --epochs 30"
KILLS = {
    "local": [
        *[(TERM, False), (KILL, False), (HUP, False)],
        *[(TERM, True), (KILL, True), (HUP, True)],
    ],
    "ray": [(KILL, False), (TERM, False), (TERM, True)],
}


@pytest.mark.slow
def test_a_killed_study_goes_on_to_the_same_files(tmp_path):
    """``pcer reproduce``, with receipts and all that follows from the releases."""
    found = []
    for kills in ([(TERM, True), (KILL, False)], []):
        size = "--seeds 2 --jobs 2"
        sweeper = Sweeper(tmp_path / str(len(kills)), tempfile.gettempdir(), size)
        for number, is_group in kills:
            sweeper.kill(number, "reproduce", is_group=is_group)
        sweeper.finish(engine="reproduce")
        files = [path for path in sweeper.folder.rglob("*") if path.is_file()]
        found.append(
            {path.name: path.read_bytes() for path in files if path.name != "run.log"}
        )
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The release of a sweep that nobody stops."""
    return Sweeper(
        tmp_path_factory.mktemp("whole"), tempfile.gettempdir(), QUICK
    ).finish()


@pytest.mark.slow
@pytest.mark.parametrize("engine", KILLS)
def test_a_killed_sweep_leaves_nothing_running_and_goes_on(
    tmp_path, short, whole, engine
):
    sweeper = Sweeper(tmp_path / "out", short, QUICK)
    for number, is_group in KILLS[engine]:
        sweeper.kill(number, engine, is_group=is_group)
    assert os.listdir(short) == []
    assert sweeper.finish() == whole


def listening(pids: set[int]) -> set[str]:
    """The addresses, in hexadecimal, on which processes listen."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(handle))
            except OSError:
                continue
    addresses = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            row = line.split()
            listens = row[3] == "0A"
            if listens and f"socket:[{row[9]}]" in inodes:
                addresses.add(row[1].split(":")[0])
    return addresses


def require_loopback(addresses: set[str]) -> None:
    """127.x.x.x, ::ffff:127.x.x.x or ::1."""
    assert addresses
    for address in addresses:
        assert address.endswith("7F") or address == "0" * 24 + "01000000"


def stop_a_training_worker(driver: int) -> int | None:
    """Stop a worker amid a block; None if none could be caught there."""
    for pid in descendants(driver):
        if title(pid).startswith("ray::train_task"):
            os.kill(pid, signal.SIGSTOP)
            if title(pid).startswith("ray::train_task"):
                return pid
            os.kill(pid, signal.SIGCONT)
    return None


@pytest.mark.slow
def test_a_killed_worker_of_a_node_that_nobody_else_can_reach_changes_no_byte(
    tmp_path, short
):
    sweeper = Sweeper(tmp_path / "out", short, "--seeds 4 --epochs 80")
    running = sweeper.trained_one_more("ray")
    worker = until(lambda: stop_a_training_worker(running.pid), running)
    company = descendants(running.pid)
    (folder,) = Path(short).iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    require_loopback(listening({running.pid, *company}))
    (head,) = [pid for pid in company if "gcs_server" in title(pid)]
    environment = Path(f"/proc/{head}/environ").read_bytes().split(b"\0")
    assert {b"RAY_AUTH_MODE=token", b"RAY_USAGE_STATS_ENABLED=0"} <= set(environment)
    os.kill(worker, KILL)
    found = sweeper.finish(running)
    assert "ray, cpu" in (tmp_path / "out" / "run.log").read_text()
    require_gone(lambda: alive(company))
    assert os.listdir(short) == []
    whole = Sweeper(tmp_path / "whole", tempfile.gettempdir(), "--seeds 4 --epochs 80")
    assert found == whole.finish()
