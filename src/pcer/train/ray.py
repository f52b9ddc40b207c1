"""Blocks of models as tasks of a Ray cluster, or of one Ray node that is started for the sweep.

Records and secret go to the cluster once; a task is one block with its settings. A task
whose process or node dies is started again, and as a model depends on its streams only,
it gives the same bytes. A node that is started here listens on this machine only and
asks for a token.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch  # sets variables, and puts back what was there

import numpy as np

from pcer.errors import InputError, PcerError, not_installed
from pcer.train.config import EngineFlags, TrainConfig, usable_cores
from pcer.train.devices import ARITHMETIC, choose_device, installed_versions
from pcer.train.engine import train_block
from pcer.train.fleet import BlockResult, Model, TrainingData

MAX_RETRIES = 3  # restarts of a block after its process or node died

# Seconds for a machine to accept a connection, and for a cluster to let us in; Ray
# alone would try for many minutes.
KNOCK_SECONDS, CONNECT_SECONDS = 5, 15

LOCAL = "local"  # Ray's word for a new node on this machine
TOKEN = secrets.token_hex(
    32
)  # of our own nodes; one per process, since Ray reads it once

# No usage statistics; pcer reports errors itself, once.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}

# Connects once in a separate process, which a failed attempt may end.
_TRIAL = """
import logging, sys
from pcer.store.processes import die_with
die_with(int(sys.argv[2]))
import ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
except Exception as error:
    print((str(error).strip() or type(error).__name__).splitlines()[0])
    sys.exit(1)
"""

# Removes the folder of a node when the driver closes the pipe or ends in any way.
_SWEEPER = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@dataclass(frozen=True)
class Work:
    """What every task needs; its printed form has neither the secret nor the records."""

    data: TrainingData = field(repr=False)
    secret: bytes = field(repr=False)
    device: str
    versions: Mapping[
        str, str
    ]  # builds may differ, these not, for the bytes to be the same


def require_ray(flags: EngineFlags) -> None:
    """Raise InputError, with the remedy, unless Ray is installed and the address answers."""
    if find_spec("ray") is None:
        raise not_installed("ray", extra="ray", needed_by="engine 'ray'")
    address = flags.address
    if address is None or address == "auto":  # Ray itself resolves "auto"
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(
            f"address must be 'auto', HOST:PORT or ray://HOST:PORT of the Ray head, but "
            f"{address!r} was given."
        )
    try:
        socket.create_connection(
            (host.strip("[]"), int(port)), timeout=KNOCK_SECONDS
        ).close()
    except OSError as error:
        raise InputError(
            f"No Ray cluster can be reached at {address} ({error.strerror or error}); check the "
            "address, and that the head is running."
        ) from None


def train_on_ray(
    data: TrainingData,
    blocks: Sequence[Sequence[Model]],
    *,
    configs: Sequence[TrainConfig],
    flags: EngineFlags,
    secret: bytes,
) -> Iterator[BlockResult]:
    """Train blocks as Ray tasks and give each one's result as soon as it is there."""
    work = Work(data, secret, flags.device, installed_versions(ARITHMETIC))
    waiting = zip(map(tuple, blocks), configs, strict=True)
    running = list[Any]()
    processor, n_gpus = ("CPU", 0) if flags.device == "cpu" else ("GPU", 1)
    with _connected(flags) as is_ours:
        import ray

        if not _slots(processor):  # Ray would wait for ever
            raise InputError(
                f"device {flags.device!r} was asked for, but no node of the Ray cluster offers a "
                f"{processor}; start one that does, or choose another device."
            )
        # Without max_calls=0 a process on a GPU ends after one block; the next starts
        # from nothing.
        remote = ray.remote(
            max_retries=MAX_RETRIES, max_calls=0, num_cpus=1, num_gpus=n_gpus
        )
        task = remote(train_task)
        shared = ray.put(work)
        try:
            while True:
                most = flags.jobs or max(
                    1, 2 * _slots(processor)
                )  # so that no worker idles
                free = max(0, most - len(running))
                running += [
                    task.remote(shared, *block) for block in islice(waiting, free)
                ]
                if not running:
                    return
                (done,), running[:] = ray.wait(running, num_returns=1)
                yield _fetched(done)
        finally:
            # A connection of ours is closed, which ends its tasks; and to cancel one in
            # the moment in which it finishes can end this process
            # (ray-project/ray#54798 is one form of it).
            for reference in [] if is_ours else running:
                ray.cancel(reference, force=True)


def train_task(
    work: Work, block: tuple[Model, ...], config: TrainConfig
) -> BlockResult:
    """Train one block in a worker process."""
    import torch

    for name, here in installed_versions(ARITHMETIC).items():
        if here != (there := work.versions[name]):
            raise InputError(
                f"a worker of the Ray cluster has {name} {here}, but the sweep was started with "
                f"{name} {there}; install the same version on every node."
            )
    data = TrainingData(  # copied: what lies in the object store cannot be written to
        features=np.array(work.data.features),
        labels=np.array(work.data.labels),
        train_rows={m.seed: np.array(work.data.train_rows[m.seed]) for m in block},
        groups=work.data.groups,
    )
    device = choose_device(work.device)
    result = train_block(data, block, config, device=device, secret=work.secret)
    if work.device != "cpu":
        # the process lives on: leave the GPU's memory to others
        torch.cuda.empty_cache()
    return result


def _slots(processor: str) -> int:
    """How many tasks the cluster can run now."""
    import ray

    return int(ray.cluster_resources().get(processor, 0))


def _fetched(reference: Any) -> BlockResult:
    """A task's result, copied out of the store; what the worker refused is raised as it is."""
    import ray
    from ray.exceptions import RayError

    try:
        result: BlockResult = ray.get(reference)
    except RayError as error:
        raise _failure(getattr(error, "cause", None) or error) from error
    receipts = None if result.receipts is None else np.array(result.receipts)
    return BlockResult(result.models, np.array(result.logits), receipts)


def _failure(cause: Exception) -> Exception:
    """What went wrong in the worker, or a sentence about the worker itself."""
    from ray.exceptions import RayError

    if missing := re.search(r"No module named '([\w.]+)'", str(cause)):
        return InputError(
            f"a worker of the Ray cluster has no module {missing[1]!r}; install the same pcer "
            'there: in a clone, pip install ".[ray]"'
        )
    if not isinstance(cause, RayError):
        return cause
    return PcerError(
        f"a block of models was given up after {MAX_RETRIES + 1} attempts "
        f"({type(cause).__name__}: its process or its node died, or ran out of memory); finished "
        "blocks are kept, so run the same command again, perhaps with a smaller block_size."
    )


@contextmanager
def _connected(flags: EngineFlags) -> Iterator[bool]:
    """A connection to Ray; yields whether it is ours, which is closed at the end."""
    # A connection of the caller is used and left open. To import Ray is to set it up.
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield False
        return
    if flags.address is not None:
        _require_entry(flags.address)
    with _node_options(flags) as options:
        import ray

        try:
            _start(options)
            yield True
        finally:
            ray.shutdown()


def _require_entry(address: str) -> None:
    """Connect once in another process: a failed attempt of Ray cannot be interrupted."""
    command = [sys.executable, "-c", _TRIAL, address, str(os.getpid())]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=CONNECT_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            return
        log = done.stderr
        reason = done.stdout.strip() or "it did not answer as Ray does"
    except subprocess.TimeoutExpired as error:
        log = str(error.stderr or "")
        reason = f"no answer as of Ray within {CONNECT_SECONDS} s"
    if "Unauthenticated" in log:
        reason = "it does not accept our token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    raise InputError(
        f"The Ray cluster at {address} cannot be used: {reason.rstrip('.')}."
    )


def _start(options: Mapping[str, Any]) -> None:
    """Start a node or connect, silently; refuse if our node could be reached by others."""
    import ray

    try:
        with _our_signals():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        reason = (
            (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        )
        raise InputError(
            f"Ray cannot be started or joined ({reason}); try engine 'local'."
        ) from error
    here = ray.util.get_node_ip_address()
    if options["address"] == LOCAL and not ip_address(here).is_loopback:
        raise InputError(
            f"Ray would listen on {here}, as it was imported before pcer could bind it to this "
            "machine; call ray.init yourself before training, and pcer uses that connection."
        )


@contextmanager
def _our_signals() -> Iterator[None]:
    """Keep our signal handlers: Ray would print a stack and exit with another code."""
    # Processes started meanwhile ignore the signals. Sent to our whole group they would
    # end the node first, and Ray's threads would then end this process with code 1
    # before it can answer.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "pthread_sigmask"):  # Windows has none
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
    try:
        yield
    except SystemExit:  # Ray's answer, while it starts
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)  # heard once the mask is lifted
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _node_options(flags: EngineFlags) -> Iterator[dict[str, Any]]:
    """Options of ``ray.init``, with the environment and the folder that it needs."""
    if flags.address is not None:
        with patch.dict(os.environ, QUIET):
            yield {"address": flags.address}
        return
    folder = Path(
        mkdtemp(prefix="pcer-ray-")
    )  # for its owner only; sockets need short names
    sweeper = subprocess.Popen(  # in a new session, which our signals do not reach
        [sys.executable, "-ISc", _SWEEPER, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    # Ray has no plain option to stay on this machine: without clusters it takes the
    # loopback.
    protection = {
        **QUIET,
        "RAY_AUTH_MODE": "token",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN, encoding="ascii")
        protection["RAY_AUTH_TOKEN_PATH"] = str(token)
    try:
        with patch.dict(os.environ, protection):
            yield {
                "address": LOCAL,
                "num_cpus": flags.jobs or usable_cores(),
                "include_dashboard": False,
                "_temp_dir": str(folder / "node"),  # which Ray opens to all users
            }
    finally:
        sweeper.communicate()
