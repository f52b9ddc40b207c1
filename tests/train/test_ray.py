"""Sweeps on Ray: the same bytes as here, whoever dies; nobody else gets in; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pcer.errors import InputError
from pcer.train import EngineFlags
from pcer.train import ray as ray_path
from tests.commands import config
from tests.processes import alive, descendants, require_gone, title, until

ROOT = Path(__file__).parents[2]
SWEEP = [
    *("compas", "--attribute", "race", "--budgets", "none,1", "--seeds", "4"),
    *("--epochs", "40"),
]


def run_file(**flags: object) -> tuple[str, str]:
    return config(train={"accountant": "rdp"}, engine=flags)


@pytest.fixture
def place(tmp_path) -> Iterator[dict[str, str]]:
    """An environment for Ray: a token of our own, and a short path, as sockets need."""
    token = tmp_path / "token"
    token.write_text("a token of the tests, and of nobody else")
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as short:
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "RAY_AUTH_TOKEN_PATH": str(token),
            "TMPDIR": short,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        }


def start(place: dict[str, str], out: Path, *more: str, **flags: str) -> subprocess.Popen[str]:
    settings = run_file(block_size=2, jobs=2, **flags)
    command = [sys.executable, "-m", "pcer", "train", *SWEEP, *settings, "-o", str(out), *more]
    return subprocess.Popen(
        command, env=place, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.fixture(scope="module")
def local_bytes(tmp_path_factory) -> bytes:
    """The release of the sweep on this machine."""
    out = tmp_path_factory.mktemp("local")
    running = start(dict(os.environ), out)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    return (out / "compas.race.release.json").read_bytes()


def listening(pids: set[int]) -> set[str]:
    """The addresses, in hexadecimal, on which processes listen."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.add(os.readlink(handle))
            except OSError:
                continue
    rows = [
        row.split()
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    ours = [row for row in rows if f"socket:[{row[9]}]" in inodes]
    return {row[1].split(":")[0] for row in ours if row[3] == "0A"}


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
def test_a_killed_worker_changes_no_byte(tmp_path, place, local_bytes):
    out = tmp_path / "out"
    running = start(place, out, engine="ray")
    until(lambda: list((out / "compas.scores").glob("block-*.json")), running)
    worker = until(lambda: stop_a_training_worker(running.pid), running)
    company = descendants(running.pid)
    (folder,) = Path(place["TMPDIR"]).iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    addresses = listening({running.pid, *company})
    assert addresses
    assert {each for each in addresses if not is_loopback(each)} == set()
    (head,) = [pid for pid in company if "gcs_server" in title(pid)]
    environment = Path(f"/proc/{head}/environ").read_bytes().split(b"\0")
    assert {b"RAY_AUTH_MODE=token", b"RAY_USAGE_STATS_ENABLED=0"} <= set(environment)
    os.kill(worker, signal.SIGKILL)
    said, _ = running.communicate()
    assert running.returncode == 0, said
    assert (out / "compas.race.release.json").read_bytes() == local_bytes
    assert "ray, cpu" in (out / "run.log").read_text()
    require_gone(lambda: alive(company))
    assert os.listdir(place["TMPDIR"]) == []


def is_loopback(address: str) -> bool:
    """Whether a hexadecimal address of /proc/net is 127.x.x.x, ::ffff:127.x.x.x or ::1."""
    return address.endswith("7F") or address == "0" * 24 + "01000000"


REFUSALS = {
    "given_up": ("PcerError", "given up after 2 attempts (WorkerCrashedError"),
    "missing": ("InputError", "Missing features need config.standardise, which fills them in."),
    "false_gpu": ("InputError", "no CUDA device can be used here"),
    "no_gpu": ("InputError", "no node of the Ray cluster offers a GPU"),
    "versions": ("InputError", "was started with pcer 0.0.0; install the same version"),
}


@pytest.mark.slow
def test_tasks_die_are_refused_and_wait_their_turn(tmp_path, place):
    done = subprocess.run(
        [sys.executable, "-m", "tests.ray_tasks", tmp_path],
        env=place,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name in ("same", "same_after_a_death", "still_connected", "closed", "logs"):
        assert found[name], name
    assert (found["deaths"], found["logs_with_secret"]) == (1, [])
    assert "secret" not in found["work"]
    for name in REFUSALS.keys() - ({"false_gpu"} if torch.cuda.is_available() else set()):
        error, sentence = REFUSALS[name]
        assert found[name][0] == error
        assert sentence in found[name][1]
    assert os.listdir(place["TMPDIR"]) == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:1", "ray://127.0.0.1:1", "nobody.invalid:6379", "head", "head:port", "head:99999"],
)
def test_an_address_where_nobody_is(address):
    began = time.monotonic()
    with pytest.raises(InputError, match=address):
        ray_path.require_ray(EngineFlags(engine="ray", address=address))
    assert time.monotonic() - began < 2 * ray_path.KNOCK_SECONDS


def test_somebody_who_is_not_ray(monkeypatch):
    monkeypatch.setattr(ray_path, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        flags = EngineFlags(engine="ray", address=address)
        ray_path.require_ray(flags)
        with (
            pytest.raises(InputError, match=f"at {address} cannot be used: no answer .* within 1"),
            ray_path._connected(flags),
        ):
            pass


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("print('Could not find any running Ray instance.'); exit(1)", "cannot be used: Could not"),
        ("import sys; sys.exit('RPC error: Unauthenticated: ...')", "does not accept our token"),
        ("import os; os.abort()", "it did not answer as Ray does"),
    ],
)
def test_a_cluster_that_does_not_let_us_in(monkeypatch, said, sentence):
    monkeypatch.setattr(ray_path, "_TRIAL", said)
    with pytest.raises(InputError, match=sentence):
        ray_path._require_entry("auto")


def test_the_folder_of_a_node_is_its_owners_and_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with ray_path._node_options(EngineFlags(engine="ray")) as options:
        (folder,) = tmp_path.iterdir()
        assert Path(options["_temp_dir"]).parent == folder
        modes = [path.stat().st_mode & 0o777 for path in (folder, folder / "token")]
        assert modes == [0o700, 0o600]
        assert os.environ["RAY_AUTH_TOKEN_PATH"] == str(folder / "token")
    assert list(tmp_path.iterdir()) == []
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ


def test_ray_does_not_answer_signals_for_us():
    """Neither after its start nor, where it raises SystemExit, during it."""
    seen: list[int] = []

    def ours(number: int, frame: object) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGTERM, ours)
    try:
        with ray_path._our_signals():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is ours
        with pytest.raises(SystemExit), ray_path._our_signals():
            sys.exit(15)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_worker_without_pcer_is_told_apart():
    error = ray_path._failure(ModuleNotFoundError("No module named 'torch'"))
    assert isinstance(error, InputError)
    assert "no module 'torch'" in str(error)


def test_without_ray_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ray_path, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"\.\[ray\]"):
        ray_path.require_ray(EngineFlags(engine="ray"))
