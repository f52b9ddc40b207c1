"""Tasks in processes: the same results, and workers that never outlive their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pcer.store.processes import run_tasks
from tests.commands import alive, descendants, require_gone, title, until

ROOT = Path(__file__).parents[2]


def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def fail() -> None:
    raise KeyError("no such thing")


def test_results_come_in_order_or_as_they_are_done_also_after_one_that_failed():
    tasks = [(pow, (number, 2)) for number in range(5)]
    assert list(run_tasks(tasks, n_processes=2, in_order=True)) == [0, 1, 4, 9, 16]
    with pytest.raises(KeyError, match="no such thing"):
        list(run_tasks([tasks[0], (fail, ())], n_processes=2))
    assert sorted(run_tasks(tasks, n_processes=2)) == [0, 1, 4, 9, 16]


def test_one_task_or_one_process_needs_no_other():
    assert list(run_tasks([(os.getpid, ())], n_processes=8)) == [os.getpid()]
    assert set(run_tasks([(os.getpid, ())] * 3, n_processes=1)) == {os.getpid()}
    assert list(run_tasks([], n_processes=2)) == []
    assert os.getpid() not in set(run_tasks([(os.getpid, ())] * 3, n_processes=2))


def test_workers_of_a_thread_that_ends_are_not_killed_for_it():
    """The kernel's signal is about the thread that started a worker."""
    found: list[int] = []

    def work() -> None:
        found.extend(run_tasks([(nap, (0.2,))] * 4, n_processes=2))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert alive(set(found)) == set(found)
    assert (
        len(set(found)) == 2
    )  # the second thread's tasks found the first one's workers
    assert len(list(run_tasks([(nap, (0.2,))] * 4, n_processes=2))) == 4


def test_closing_early_ends_the_workers():
    tasks = run_tasks([(nap, (0.0,)), (nap, (600.0,)), (nap, (600.0,))], n_processes=2)
    next(tasks)
    before = descendants(os.getpid())
    tasks.close()
    require_gone(lambda: {pid for pid in alive(before) if is_worker(pid)})


def is_worker(pid: int) -> bool:
    return "popen_loky" in title(pid)


PARENT = """
import threading, sys
from pcer.store.processes import run_tasks
from tests.store.test_processes import nap

def work():
    tasks = [(nap, (seconds,)) for seconds in (0.0, 0.0, 600.0, 600.0)]
    for _ in run_tasks(tasks, n_processes=2, in_order=True):
        print("ready", flush=True)

if sys.argv[1] == "thread":
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
"""


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process in a group of its own, whose streams are one."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, start_new_session=True, **streams
    )


@pytest.mark.parametrize("where", ["main", "thread"])
def test_workers_die_with_their_parent(where):
    """By the kernel's signal, and where that cannot be used by their own watch."""
    parent = started(PARENT, where)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        until(lambda: sum(map(is_worker, descendants(parent.pid))) == 2, parent)
        company = descendants(parent.pid)
    finally:
        parent.kill()
        said, _ = parent.communicate()
    said = said.replace("ready\n", "")
    assert (parent.returncode, said) == (
        -signal.SIGKILL,
        "",
    )  # joblib removes what is left
    require_gone(lambda: alive(company))


STOPPED = """
import os
from pcer.cli.app import Stopped, listen
from pcer.store.processes import run_tasks

listen()
try:
    for done in run_tasks([(bytes, (3_000_000,))] * 10_000, n_processes=2):
        # at once: a signal can come between two writes of a print
        os.write(1, b"ready\\n")
except (Stopped, KeyboardInterrupt):
    print("on the way out", flush=True)
"""


@pytest.mark.slow
def test_a_signal_to_the_group_amid_results_ends_the_parent_at_once_in_silence():
    """A worker that died amid a result kept its parent waiting, in 6 of 15 runs."""
    signals = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    for number in signals * 3:
        parent = started(STOPPED)
        assert parent.stdout is not None
        for _ in range(20):  # by now both workers send
            parent.stdout.readline()
        company = descendants(parent.pid)
        os.killpg(parent.pid, number)
        said, _ = parent.communicate(timeout=60)
        assert (parent.returncode, said.replace("ready\n", "")) == (
            0,
            "on the way out\n",
        ), said
        require_gone(lambda company=company: alive(company))


def test_what_a_worker_forks_hears_signals_as_anywhere_else():
    code = (
        "import multiprocessing, os, signal, time; "
        "from pcer.store.processes import die_with; "
        "die_with(os.getppid()); signal.raise_signal(signal.SIGTERM); "
        "fork = multiprocessing.get_context('fork'); runs = fork.Event(); "
        "child = fork.Process(target=lambda: (runs.set(), time.sleep(60))); "
        "child.start(); runs.wait(); child.terminate(); child.join(); "
        "print(child.exitcode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"-15\n")


def test_a_worker_whose_parent_is_gone_already_ends_at_once():
    code = "from pcer.store.processes import die_with; die_with(1 << 30); "
    code += "print('still here')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
