"""Signals that stop a command: a sentence and the code that shells give it, however busy it is."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from rich.console import Console

from pcer.cli import display
from pcer.cli import stop as stop_module
from pcer.cli.parts import Display
from pcer.cli.stop import Stopped, keeping, listen

VERB = """
import sys, time
import typer
from pcer.cli import app, stop
stop.GRACE_SECONDS = 0.5
{before}

@app.app.command()
def wait() -> None:
    with stop.keeping(lambda: "3 of 8 models are kept in out"):
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


def test_a_signal_that_we_are_to_ignore_stays_ignored():
    """As under nohup."""
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert stopped(signal.SIGHUP, "time.sleep(1)", before) == (0, "")


def test_ctrl_c_is_as_ever():
    code, said = stopped(signal.SIGINT, "time.sleep(600)")
    assert code == 130
    assert said == ""


@pytest.fixture
def handlers():
    """The signals as they are, put back afterwards."""
    before = {number: signal.getsignal(number) for number in stop_module.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_it_comes_once_and_a_second_signal_changes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(stop_module, "_leave", lambda stopped: None)
    for number in stop_module.SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    listen()
    with keeping(lambda: "outer"), keeping(lambda: "inner"), pytest.raises(Stopped) as caught:
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    assert caught.value.exit_code == 143
    for _ in range(2):
        caught.value.tell()
    assert capsys.readouterr().err == (
        "pcer: stopped; inner; run the same command again to go on.\n"
    )


def test_who_keeps_nothing_says_so_shortly(capsys):
    Stopped(signal.SIGHUP).tell()
    assert capsys.readouterr().err == "pcer: stopped.\n"


def test_a_display_knows_what_is_kept(tmp_path):
    with display("models", kept_in=tmp_path, console=Console(quiet=True)) as shown:
        assert isinstance(shown, Display)
        tell = shown.sweep("tiny", 8)
        assert shown.kept(tmp_path) == f"finished models are kept in {tmp_path}"
        tell(2, 8)
        assert stop_module._kept[-1]() == f"2 of 8 models are kept in {tmp_path}"
        assert shown.kept(None) == ""
    assert stop_module._kept == []
