"""A command's process: signals, closed pipes, full disks, narrow encodings, systems."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

import pcer
from pcer.cli import app, main
from pcer.cli import app as cli
from pcer.cli.app import Stopped, listen, require_width, what_lacks
from pcer.report import to_report
from pcer_studies.protocol import CONFIGURATIONS
from tests.commands import GOOD, handlers_kept, start
from tests.release.test_file import release_of
from tests.worlds.studies import write_study

VERB = """
import sys, time
import typer
from pcer.cli import app
app.GRACE_SECONDS = 0.5
{before}

@app.app.command()
def wait() -> None:
    app.KEPT.append(lambda: "3 of 8 models are kept in out")
    print("ready", flush=True)
    {work}

sys.argv = ["pcer", "wait"]
app.main()
"""


def stopped(number: signal.Signals, work: str, before: str = "") -> tuple[int, str]:
    """Exit code and stderr of a verb that is stopped amid its work."""
    code = VERB.format(work=work, before=before)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        _, said = running.communicate()
    return running.returncode, said


SENTENCE = (
    "pcer: stopped; 3 of 8 models are kept in out; run the same command again to "
    "resume.\n"
)
STUBBORN = """
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""


@pytest.mark.parametrize(
    "work", ["time.sleep(600)", STUBBORN.strip()], ids=["plain", "stubborn"]
)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_is_one_sentence_and_the_code_of_shells(number, code, work):
    assert stopped(number, work) == (code, SENTENCE)


def test_a_signal_that_we_are_to_ignore_stays_ignored_and_ctrl_c_is_as_ever():
    """As under nohup."""
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert stopped(signal.SIGHUP, "time.sleep(1)", before) == (0, "")
    assert stopped(signal.SIGINT, "time.sleep(600)") == (130, "")


def test_it_comes_once_and_a_second_signal_changes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(app, "_leave", lambda stopped: None)
    monkeypatch.setattr(app, "KEPT", [lambda: "outer", lambda: "inner"])
    with handlers_kept():
        for number in app.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        listen()
        with pytest.raises(Stopped) as caught:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    assert caught.value.exit_code == 143
    for _ in range(2):
        caught.value.tell()
    Stopped(signal.SIGHUP).tell()
    assert capsys.readouterr().err == (
        "pcer: stopped; inner; run the same command again to resume.\npcer: stopped.\n"
    )


MET = "--fail-on no_difference_shown"
SAID = "pcer: --fail-on is met: toy (letter): no_difference_shown.\n"
CLOSED = "pcer: standard output is closed; name a file instead of -.\n"
ROOM = "name a file on a disk with room"
FULL = f"pcer: standard output cannot be written ({os.strerror(28)}); {ROOM}.\n"


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (f"audit '{GOOD}' --html - {MET} | head -c 1", 1, SAID),
        (f"audit '{GOOD}' --json a.json {MET} 2>/dev/null | true", 1, ""),
        (f"audit '{GOOD}' --json a.json {MET} >&-", 1, SAID),
        (f"audit '{GOOD}' {MET} 2>&1 | true", 1, ""),
        ("audit nowhere.release.json 2>&1 | true", 2, ""),
        ("--help | true", 0, ""),
        (f"audit '{GOOD}' >&-", 0, ""),
        (f"audit '{GOOD}' {MET} >&- 2>&-", 1, ""),
        (f"audit '{GOOD}' --json - --latex a.tex >&-", 2, CLOSED),
        (f"audit '{GOOD}' --json - > /dev/full", 2, FULL),
    ],
)
def test_nobody_listening_is_no_failed_guard_and_a_full_disk_one_sentence(
    tmp_path, command, code, told
):
    """In a shell that fails where any part of a pipe does, as CI is set up.

    Files are written.
    """
    whole = ["bash", "-o", "pipefail", "-c", f'"{sys.executable}" -m pcer {command}']
    done = subprocess.run(
        whole, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (code, told)
    texts = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert list(texts) == ["a.json"] * ("a.json" in command)
    assert all(json.loads(text)["format"] == "pcer-audit" for text in texts.values())


def test_progress_is_on_stderr_and_stdout_holds_the_result_alone():
    """Even where stderr is a terminal, and the progress is drawn over and over."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "pcer", "audit", GOOD, GOOD, "--json", "-"]
    env = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=slave, env=env, check=True
    )
    os.close(slave)
    assert [one["format"] for one in json.loads(done.stdout)] == ["pcer-audit"] * 2
    shown = b""
    with suppress(OSError):  # the end, as a terminal says it
        while more := os.read(master, 100_000):
            shown += more
    for words in (b"auditing counts.release.json", b"releases", b"Rendering"):
        assert words in shown


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_a_narrow_encoding_keeps_every_digit_and_sign_and_results_are_utf_8(encoding):
    """Words and numbers stay, with - for the minus sign and e for epsilon."""
    whole = spelt(audit_in("utf-8", "--full").decode())
    assert spelt(audit_in(encoding, "--full").decode(encoding)) == whole
    assert any(word.startswith("-") for word in whole)
    release = pcer.read_release(GOOD)
    page = to_report([pcer.audit(release)], [release])
    assert audit_in(encoding, "--html", "-") == page.encode()


def spelt(text: str) -> list[str]:
    """Its words in plain letters, without the lines of tables."""
    signs = {"−": "-", "–": "-", "—": "-", "±": "+-", "ε": "e", "─": "-", "|": " "}
    signs |= {"Δ": "D", "δ": "d", "·": "-"}
    words = text.translate(str.maketrans(signs)).split()
    return [word for word in words if set(word) - set("+-")]


def audit_in(
    encoding: str, *options: object, of: object = GOOD, code: int = 0
) -> bytes:
    done = start("audit", of, *options, PYTHONIOENCODING=encoding)
    assert (done.returncode, bool(done.stderr)) == (code, code > 0)
    assert "Traceback" not in done.stderr
    return done.stdout.encode("utf-8", "surrogateescape")


def test_a_file_name_that_is_not_utf_8_and_a_narrow_encoding(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/latin\xff\xe9.release.json")
    Path(path).write_text(json.dumps(release_of()))
    audit_in("latin-1", "--json", tmp_path / "a.json", of=path)
    audit_in("latin-1", "--exposure-margin", "700", of=path, code=2)


@pytest.mark.parametrize("width", ["0", "-5", "wide", "", "9" * 30, "7"])
def test_a_width_that_no_terminal_has_is_forgotten(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    require_width()
    assert "COLUMNS" not in os.environ
    monkeypatch.setenv("COLUMNS", "80")
    require_width()
    assert os.environ["COLUMNS"] == "80"


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            "memory",
        ),
        (
            ImportError("libtorch_cpu.so: failed to map segment from shared object"),
            "memory",
        ),
        (OSError(24, "Too many open files"), "open files"),
        (RuntimeError("can't start new thread"), "processes or threads"),
        (KeyError("x"), None),
    ],
)
def test_what_a_machine_lacks_is_said(error, what, monkeypatch, capsys):
    assert what_lacks(error) == what
    monkeypatch.setattr("pcer.cli.app.app", Mock(side_effect=error))
    with pytest.raises(SystemExit if what else KeyError) as caught:
        main()
    if what:
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith(
            f"pcer: this machine gives no more {what}; "
        )


LOADED = """
import atexit, sys
found = lambda: [name for name in sys.modules if "pcer_studies" in name]
atexit.register(lambda: print("loaded:", found(), file=sys.stderr))
"""


@pytest.mark.parametrize("arguments", [("audit", GOOD), ("version",)])
def test_our_own_verbs_load_nothing_of_the_study(arguments):
    done = start(*arguments, before=LOADED)
    assert (done.returncode, done.stderr) == (0, "loaded: []\n")


WINDOWS = """
import os, signal, sys
import numpy  # asks Linux, where it is on Linux, for its version
sys.modules |= dict.fromkeys("fcntl grp pty pwd resource syslog termios tty".split())
missing = (
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW chown fchmod fchown fork forkpty getegid "
    "geteuid getgid "
    "getloadavg getuid killpg lchown mkfifo nice pread pwrite register_at_fork "
    "sched_getaffinity "
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


@pytest.mark.slow
def test_an_audit_needs_nothing_of_linux(tmp_path):
    outputs = {
        name: tmp_path / f"a.{name}" for name in ("json", "html", "junit", "markdown")
    }
    options = [part for name, path in outputs.items() for part in (f"--{name}", path)]
    for path in list(outputs.values())[:2]:
        path.write_text("old")
    done = start(
        "audit", GOOD, *options, "--figures", tmp_path / "figures", before=WINDOWS
    )
    assert (done.returncode, done.stderr) == (0, "")
    audit = pcer.audit(pcer.read_release(GOOD))
    assert audit.headline in " ".join(done.stdout.split())
    assert json.loads(outputs["json"].read_text(encoding="utf-8")) == audit.to_tree()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"figures", *(path.name for path in outputs.values())}
    good = start("verify", outputs["html"], before=WINDOWS)
    assert (good.returncode, "every byte agrees" in good.stdout) == (0, True), (
        good.stderr
    )


@pytest.mark.slow
def test_the_study_writes_its_tables_there(tmp_path):
    write_study(tmp_path, n_seeds=2, configurations=CONFIGURATIONS[2:3])
    done = start(
        "reproduce", "--tables-only", "--no-report", "-o", tmp_path, before=WINDOWS
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "| compas |" in (tmp_path / "cells.md").read_text(encoding="utf-8")


def test_a_signal_that_a_library_makes_an_error_of_is_one_sentence(monkeypatch, capsys):
    """DuckDB turns what interrupts a query into an error of its own."""

    def query(**words):
        try:
            raise Stopped(signal.SIGTERM)
        except Stopped as stopped:
            raise RuntimeError("Query interrupted") from stopped

    monkeypatch.setattr(cli, "app", query)
    monkeypatch.setattr(cli, "listen", lambda: None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "pcer: stopped.\n"
