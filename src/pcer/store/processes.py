"""How do tasks run in worker processes of this machine?

Training (``pcer.train.run``), fits and attacks give theirs to ``run_tasks``. A worker
holds records and perhaps a secret: however its parent ends, it is gone in a second. To
run something else in workers: hand it to ``run_tasks``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import FrameType
from typing import Any

Task = tuple[Callable[..., Any], tuple[Any, ...]]  # what to call, and with what

# From <sys/prctl.h>: which signal the kernel sends when the parent is gone.
PR_SET_PDEATHSIG = 1

# Often sent to a parent and to all its workers at once.
FOR_THE_PARENT = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGINT")
    if hasattr(signal, name)
]

# How often a worker checks for its parent where the kernel sends no signal.
LOOK_SECONDS = 0.5


def run_tasks(
    tasks: Sequence[Task], *, n_processes: int, in_order: bool = False
) -> Generator[Any, None, None]:
    """Yield each task's result as soon as it is ready; one process is this one.

    Workers stay for further tasks; closing the generator ends them.
    """
    n_processes = min(n_processes, len(tasks))
    if n_processes <= 1:
        yield from (function(*arguments) for function, arguments in tasks)
        return
    from joblib import Parallel, delayed

    _start_tracker()
    # Large arguments travel through a pipe (max_nbytes=None), not through pickle files.
    pool = Parallel(
        n_processes,
        return_as="generator" if in_order else "generator_unordered",
        max_nbytes=None,
        batch_size=1,
        initializer=die_with,
        initargs=(os.getpid(), threading.current_thread() is threading.main_thread()),
    )
    results = pool(delayed(function)(*arguments) for function, arguments in tasks)
    try:
        for result in results:  # noqa: UP028 ("yield from" would close them by itself)
            yield result
    finally:
        with warnings.catch_warnings():  # joblib warns about abandoned tasks
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def die_with(parent: int, is_from_main_thread: bool = True) -> None:
    """End this process when its parent, that process number, has ended; not before."""
    # The kernel's signal is about the thread that started us, so it is requested only
    # where that thread lives as long as the parent. Signals to the whole group are left
    # to the parent: it would wait for ever for the rest of a result if a worker died
    # while sending it.
    for number in FOR_THE_PARENT:
        signal.signal(number, partial(_pass_by, os.getpid()))
    if is_from_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before we could ask
        os._exit(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _pass_by(worker: int, number: int, frame: FrameType | None) -> None:
    """Ignore the signal in a worker, but not in processes that it forks."""
    if os.getpid() != worker:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def _watch(parent: int) -> None:
    """End with the parent on systems that send no signal when it ends."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _start_tracker() -> None:
    """Start joblib's helper, which removes semaphores after a kill."""
    # It must not end with a closing terminal: joblib complains if it ends before us.
    from joblib.externals.loky.backend.resource_tracker import ensure_running

    if not hasattr(signal, "pthread_sigmask"):  # Windows has neither this nor SIGHUP
        return
    # A child inherits what is blocked here.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    sys.warnoptions.append("ignore:resource_tracker")
    try:
        ensure_running()  # which passes these options on
    finally:
        sys.warnoptions.remove("ignore:resource_tracker")
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
