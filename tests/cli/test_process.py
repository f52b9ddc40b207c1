"""A command's process: signals, pipes that close early, full disks, narrow encodings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import pcer
from pcer.cli import process
from pcer.cli.process import Stopped, listen, require_width
from pcer.report import to_report

VERB = """
import sys, time
import typer
from pcer.cli import app, process
process.GRACE_SECONDS = 0.5
{before}

@app.app.command()
def wait() -> None:
    process.KEPT.append(lambda: "3 of 8 models are kept in out")
    print("ready", flush=True)
    {work}

sys.argv = ["pcer", "wait"]
app.main()
"""


def stopped(number: signal.Signals, work: str, before: str = "") -> tuple[int, str]:
    """Exit code and stderr of a verb that is stopped amid its work."""
    code = VERB.format(work=work, before=before)
    with subprocess.Popen(
        [sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        _, said = running.communicate()
    return running.returncode, said


SENTENCE = "pcer: stopped; 3 of 8 models are kept in out; run the same command again to go on.\n"
STUBBORN = """
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""


@pytest.mark.parametrize(
    "work", ["time.sleep(600)", STUBBORN.strip()], ids=["plain", "what does not let go"]
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_one_sentence_and_the_code_of_shells(number, code, work):
    assert stopped(number, work) == (code, SENTENCE)


def test_a_signal_that_we_are_to_ignore_stays_ignored_and_ctrl_c_is_as_ever():
    """As under nohup."""
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert stopped(signal.SIGHUP, "time.sleep(1)", before) == (0, "")
    assert stopped(signal.SIGINT, "time.sleep(600)") == (130, "")


def test_it_comes_once_and_a_second_signal_changes_nothing(monkeypatch, capsys):
    before = {number: signal.getsignal(number) for number in process.SIGNALS}
    monkeypatch.setattr(process, "_leave", lambda stopped: None)
    monkeypatch.setattr(process, "KEPT", [lambda: "outer", lambda: "inner"])
    try:
        for number in process.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        listen()
        with pytest.raises(Stopped) as caught:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert caught.value.exit_code == 143
    for _ in range(2):
        caught.value.tell()
    Stopped(signal.SIGHUP).tell()
    assert capsys.readouterr().err == (
        "pcer: stopped; inner; run the same command again to go on.\npcer: stopped.\n"
    )


GOOD = Path(__file__).parents[1] / "releases" / "counts.release.json"
PCER = f'"{sys.executable}" -m pcer'
MET = "--fail-on no_disparity_shown"


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command of a shell that fails where any part of a pipe does, as CI is set up."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"audit '{GOOD}' --html - {MET} | head -c 1", 1),
        (f"audit '{GOOD}' --json a.json {MET} 2>/dev/null | true", 1),
        (f"audit '{GOOD}' --json a.json {MET} >&-", 1),
        (f"audit '{GOOD}' {MET} 2>&1 | true", 1),
        ("audit nowhere.release.json 2>&1 | true", 2),
        ("--help | true", 0),
        (f"audit '{GOOD}' >&-", 0),
        (f"audit '{GOOD}' {MET} >&- 2>&-", 1),
    ],
)
def test_nobody_listening_is_not_a_failed_guard_and_files_are_written(tmp_path, command, code):
    done = shell(f"cd '{tmp_path}'; {PCER} {command}")
    met = "pcer: --fail-on is met: toy (letter): no_disparity_shown.\n"
    is_told = MET in command and "2>" not in command
    assert (done.returncode, done.stderr) == (code, met if is_told else "")
    if "a.json" in command:
        audit = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
        assert audit["format"] == "pcer-audit"


def test_progress_is_on_stderr_and_stdout_holds_the_result_alone(tmp_path):
    """Even where stderr is a terminal, and the progress is drawn over and over."""
    master, slave = os.openpty()
    command = [sys.executable, "-m", "pcer", "audit", GOOD, GOOD, "--json", "-"]
    env = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, env=env, check=True)
    os.close(slave)
    assert [one["format"] for one in json.loads(done.stdout)] == ["pcer-audit"] * 2
    shown = b""
    with suppress(OSError):  # the end, as a terminal says it
        while more := os.read(master, 100_000):
            shown += more
    shown = shown.decode()
    assert "auditing counts.release.json" in shown
    assert "releases" in shown
    assert "Rendering" in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--latex a.tex >&-", "standard output is closed; name a file instead of -."),
        (
            "> /dev/full",
            "standard output cannot be written (No space left on device); name a file on a disk "
            "with room.",
        ),
    ],
)
def test_a_full_disk_or_a_closed_stdout_is_one_sentence(tmp_path, options, sentence):
    done = shell(f"cd '{tmp_path}'; {PCER} audit '{GOOD}' --json - {options}")
    assert (done.returncode, done.stderr) == (2, f"pcer: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_a_narrow_encoding_keeps_every_digit_and_sign_and_results_are_utf_8(encoding):
    """The same words and numbers, with - for the minus sign and e for epsilon; lines differ."""
    whole = spelt(audit_in("utf-8", "--full").decode())
    assert spelt(audit_in(encoding, "--full").decode(encoding)) == whole
    assert any(word.startswith("-") for word in whole)
    release = pcer.read_release(GOOD)
    page = to_report([pcer.audit(release)], [release])
    assert audit_in(encoding, "--html", "-") == page.encode()


def spelt(text: str) -> list[str]:
    """Its words in plain letters, without the lines of tables."""
    signs = {"−": "-", "–": "-", "—": "-", "±": "+-", "ε": "e", "─": "-", "|": " "}
    words = "".join(signs.get(letter, letter) for letter in text).split()
    return [word for word in words if set(word) - set("+-")]


def audit_in(encoding: str, *options: str) -> bytes:
    command = [sys.executable, "-m", "pcer", "audit", GOOD, *options]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("width", ["0", "-5", "wide", "", "9" * 30, "7"])
def test_a_width_that_no_terminal_has_is_forgotten(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    require_width()
    assert "COLUMNS" not in os.environ
    monkeypatch.setenv("COLUMNS", "80")
    require_width()
    assert os.environ["COLUMNS"] == "80"
