"""How do blocks of models train on a Ray cluster?

They are tasks of a cluster that somebody else has started, or of one Ray node of our
own for the sweep. A block whose process or node dies is started again, and gives the
same bytes. ``run`` calls ``require_ray`` before a sweep and ``train_on_ray`` for its
blocks. joblib's backend for Ray, which fits may use, is not enough here: it yields no
result before the slowest of a list (no ``return_as``), takes the signals of this
process, and where no cluster is, it waits for 200 s and ends the process. To add a
setting of the cluster: a field of ``EngineFlags``.
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
from pcer.train.config import EngineFlags, TrainConfig
from pcer.train.devices import ARITHMETIC, choose_device, installed_versions
from pcer.train.engine import train_block
from pcer.train.fleet import BlockResult, Model, TrainingData

MAX_RETRIES = 3  # restarts of a block after its process or node died

# For a machine to accept a connection, and for a cluster to let us in; Ray alone would
# try for many minutes.
KNOCK_SECONDS = 5
CONNECT_SECONDS = 15

LOCAL = "local"  # Ray's word for a new node on this machine

# Of our own nodes; one per process, since Ray reads it once.
TOKEN = secrets.token_hex(32)

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
_SWEEPER = """
import shutil, sys
sys.stdin.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


@dataclass(frozen=True)
class Work:
    """What every task needs; printed, it shows neither the secret nor the records."""

    data: TrainingData = field(repr=False)
    secret: bytes = field(repr=False)
    device: str
    # Builds may differ, these not, for the bytes to be the same.
    versions: Mapping[str, str]


def require_ray(flags: EngineFlags) -> None:
    """Raise InputError unless Ray is installed and the address answers."""
    if find_spec("ray") is None:
        raise not_installed("ray", extra="ray", needed_by="engine 'ray'")
    address = flags.address
    if address is None or address == "auto":  # Ray itself resolves "auto"
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(
            "address must be 'auto', HOST:PORT or ray://HOST:PORT of the Ray head, "
            f"but {address!r} was given."
        )
    place = (host.strip("[]"), int(port))
    try:
        socket.create_connection(place, timeout=KNOCK_SECONDS).close()
    except OSError as error:
        raise InputError(
            f"No Ray cluster can be reached at {address} ({error.strerror or error}); "
            "check the address, and that the head is running."
        ) from None


def train_on_ray(
    data: TrainingData,
    blocks: Sequence[Sequence[Model]],
    configs: Sequence[TrainConfig],
    *,
    flags: EngineFlags,
    secret: bytes,
) -> Iterator[BlockResult]:
    """Train blocks as Ray tasks; each one's result is given as soon as it is there."""
    work = Work(data, secret, flags.device, installed_versions(ARITHMETIC))
    waiting = zip(map(tuple, blocks), configs, strict=True)
    processor = "CPU" if flags.device == "cpu" else "GPU"
    running = list[Any]()
    with _connected(flags) as is_ours:
        import ray

        if _slots(processor) == 0:  # Ray would wait for ever
            raise InputError(
                f"device {flags.device!r} was asked for, but no node of the Ray "
                f"cluster offers a {processor}; start one that does, or choose another "
                "device."
            )
        # Without max_calls=0 a process on a GPU ends after one block.
        remote = ray.remote(
            max_retries=MAX_RETRIES,
            max_calls=0,
            num_cpus=1,
            num_gpus=int(processor == "GPU"),
        )
        task = remote(train_task)
        shared = ray.put(work)  # sent once
        try:
            while True:
                # Twice as many as can run, so that no worker idles.
                n_in_flight = flags.jobs or max(1, 2 * _slots(processor))
                for block in islice(waiting, max(0, n_in_flight - len(running))):
                    running.append(task.remote(shared, *block))
                if not running:
                    return
                (finished,), running = ray.wait(running, num_returns=1)
                yield _fetched(finished)
        finally:
            # To close a connection of ours ends its tasks. To cancel one in the moment
            # in which it finishes can end this process (ray-project/ray#54798).
            if not is_ours:
                for left in running:
                    ray.cancel(left, force=True)


def _slots(processor: str) -> int:
    """How many tasks the cluster can run now."""
    import ray

    return int(ray.cluster_resources().get(processor, 0))


def train_task(
    work: Work, block: tuple[Model, ...], config: TrainConfig
) -> BlockResult:
    """Train one block in a worker process."""
    import torch

    for name, version in installed_versions(ARITHMETIC).items():
        expected = work.versions[name]
        if version != expected:
            raise InputError(
                f"a worker of the Ray cluster has {name} {version}, but the sweep was "
                f"started with {name} {expected}; install the same version on every "
                "node."
            )
    # Arrays are copied: what lies in the object store cannot be written to.
    data = TrainingData(
        features=np.array(work.data.features),
        labels=np.array(work.data.labels),
        train_rows={m.seed: np.array(work.data.train_rows[m.seed]) for m in block},
        groups=work.data.groups,
    )
    device = choose_device(work.device)
    result = train_block(data, block, config, device=device, secret=work.secret)
    if work.device != "cpu":
        # The process lives on: leave the GPU's memory to others.
        torch.cuda.empty_cache()
    return result


def _fetched(task: Any) -> BlockResult:
    """A task's result, copied out of the store; what the worker refused is raised."""
    import ray
    from ray.exceptions import RayError

    try:
        result: BlockResult = ray.get(task)
    except RayError as error:
        raise _failure(getattr(error, "cause", None) or error) from error
    receipts = None if result.receipts is None else np.array(result.receipts)
    return BlockResult(result.models, np.array(result.logits), receipts)


def _failure(cause: Exception) -> Exception:
    """What went wrong in the worker, or a sentence about the worker itself."""
    from ray.exceptions import RayError

    missing = re.search(r"No module named '([\w.]+)'", str(cause))
    if missing is not None:
        return InputError(
            f"a worker of the Ray cluster has no module {missing[1]!r}; install the "
            'same pcer there: in a clone, pip install ".[ray]"'
        )
    if not isinstance(cause, RayError):
        return cause
    return PcerError(
        f"a block of models was given up after {MAX_RETRIES + 1} attempts "
        f"({type(cause).__name__}: its process or its node died, or ran out of "
        "memory); finished blocks are kept, so run the same command again, perhaps "
        "with a smaller block_size."
    )


@contextmanager
def _connected(flags: EngineFlags) -> Iterator[bool]:
    """Whether the connection is ours, which is closed at the end."""
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
    """Connect once in another process, as a failed attempt cannot be interrupted."""
    command = [sys.executable, "-c", _TRIAL, address, str(os.getpid())]
    try:
        trial = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=CONNECT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        log = str(error.stderr or "")
        reason = f"no answer as of Ray within {CONNECT_SECONDS} s"
    else:
        if trial.returncode == 0:
            return
        log = trial.stderr
        reason = trial.stdout.strip() or "it did not answer as Ray does"
    if "Unauthenticated" in log:
        reason = (
            "it does not accept our token; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH"
        )
    raise InputError(
        f"The Ray cluster at {address} cannot be used: {reason.rstrip('.')}."
    )


def _start(options: Mapping[str, Any]) -> None:
    """Start a node or connect, silently; refuse a node that others could reach."""
    import ray

    try:
        with _our_signals():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        message = str(error).strip() or type(error).__name__
        reason = message.splitlines()[0].rstrip(".")
        raise InputError(
            f"Ray cannot be started or joined ({reason}); try engine 'local'."
        ) from error
    address = ray.util.get_node_ip_address()
    if options["address"] == LOCAL and not ip_address(address).is_loopback:
        raise InputError(
            f"Ray would listen on {address}, as it was imported before pcer could bind "
            "it to this machine; call ray.init yourself before training, and pcer uses "
            "that connection."
        )


@contextmanager
def _our_signals() -> Iterator[None]:
    """Keep our signal handlers: Ray's print a stack and exit with another code.

    Processes that are started meanwhile ignore the signals: sent to our whole group
    they would end the node first, and Ray's threads then end this process with code 1.
    """
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
    with _swept_folder() as folder, patch.dict(os.environ, _protection(folder)):
        yield {
            "address": LOCAL,
            "num_cpus": flags.n_attackers,
            "include_dashboard": False,
            "_temp_dir": str(folder / "node"),  # which Ray opens to all users
        }


@contextmanager
def _swept_folder() -> Iterator[Path]:
    """A folder for its owner only, which goes however this process ends."""
    folder = Path(mkdtemp(prefix="pcer-ray-"))  # sockets need short names
    sweeper = subprocess.Popen(
        [sys.executable, "-ISc", _SWEEPER, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,  # which our signals do not reach
    )
    try:
        yield folder
    finally:
        sweeper.communicate()


def _protection(folder: Path) -> dict[str, str]:
    """Environment of a node that others cannot reach; its token is in the folder."""
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
    return protection
