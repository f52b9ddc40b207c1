"""What all verbs share: the display, the run log, options as settings."""

from __future__ import annotations

import ast
import inspect
import io
import re

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from pcer.auditing.plan import Plan
from pcer.cli.app import app
from pcer.cli.parts import display, from_options, log_run, parse_list
from pcer.errors import InputError
from pcer.train import EngineFlags, TrainConfig
from pcer_studies.command import reproduce


def plain(text: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())


class Terminal(Console):
    """A terminal that keeps what it is shown, with a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(
            file=io.StringIO(), width=140, force_terminal=True, get_time=lambda: self.now
        )


def test_the_display_shows_models_speed_and_time_left():
    """300 were there before; 50 more took 10 seconds, so that 850 will take 170."""
    terminal = Terminal()
    with display("models", console=terminal) as shown:
        shown.tell("reading acs", done=0, total=1_200)
        terminal.now = 2.0
        shown.tell("training acs", done=300, total=1_200, found=300)
        terminal.now = 12.0
        shown.tell("training acs", done=350, total=1_200, found=300)
    assert "training acs" in plain(terminal.file)
    assert "350/1200 models, 5.0 a second 0:00:12 02:50 left" in plain(terminal.file)
    assert shown.seconds == 12


def test_a_sweep_finds_training_and_attacking_apart():
    terminal = Terminal()
    with display("models", console=terminal) as shown:
        tell = shown.counter("my [red]loans")
        for done in (100, 200):  # 100 were found trained
            tell(done, 300)
        shown._progress.refresh()
        tell(300, 300)
        shown._progress.refresh()
        assert (shown.done, shown.found, shown.total) == (300, 100, 300)
        shown.step("loans")("checking with coin flips")
    assert "training my [red]loans" in plain(terminal.file)
    assert "attacking and counting" in plain(terminal.file)
    assert "checking with coin flips loans" in plain(terminal.file)
    assert (shown.done, shown.found, shown.total) == (300, 100, 300)


def test_a_display_that_does_not_last_leaves_nothing_in_a_file():
    text = io.StringIO()
    with display("releases", lasting=False, console=Console(file=text)) as shown:
        shown.tell("auditing x", done=1, total=2)
    assert text.getvalue() == ""


def test_one_line_a_run_in_the_log(tmp_path):
    for _ in range(2):
        terminal = Terminal()
        with display("models", console=terminal) as shown:
            terminal.now = 4.0
            shown.tell("training x", done=6, total=6, found=2)
        log_run(tmp_path, "train x", shown, EngineFlags(jobs=3))
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert len(lines) == 2
    assert re.match(
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ train x: 6 models, 2 of them found trained, in "
        r"4\.0 s; local, cpu, 3 processes, python 3\.\S+, torch \S+, pcer \S+$",
        lines[1],
    )


def test_options_become_settings_and_what_was_not_said_stays_default():
    said = {"epochs": 3, "hidden": [8, 4], "learning_rate": None, "out": "elsewhere"}
    made = from_options(TrainConfig, said, clip_norm=2.0)
    assert made == TrainConfig(epochs=3, hidden=(8, 4), clip_norm=2.0)
    with pytest.raises(InputError, match="epochs must be a whole number of at least 1"):
        from_options(TrainConfig, {"epochs": 0})


def test_lists_of_numbers():
    assert parse_list("64, 32", int, option="--hidden", what="") == [64, 32]
    assert parse_list("", int, option="--hidden", what="") == []
    with pytest.raises(InputError, match=r"^--x must be numbers, not '1,,2'"):
        parse_list("1,,2", int, option="--x", what="numbers")


def own_verbs() -> list[typer.models.CommandInfo]:
    return app.registered_commands


@pytest.mark.parametrize("verb", [info.callback for info in own_verbs()] + [reproduce])
def test_a_verb_is_under_15_lines_besides_its_signature(verb):
    (function,) = ast.parse(inspect.getsource(verb)).body
    body = function.body[1:]
    assert body[-1].end_lineno - body[0].lineno + 1 < 15


def test_help_shows_the_defaults_that_are_stated_elsewhere():
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    for default in ("25", "256", "0.05", "64, 32", "dp-sgd", "cpu"):
        assert f"[default: {default}]" in shown
    shown = CliRunner().invoke(app, ["release", "--help"], env={"COLUMNS": "200"}).output
    for default in ("y_true", "y_pred", "split", "0.5", "unknown"):
        assert f"[default: {default}]" in shown
    shown = CliRunner().invoke(app, ["audit", "--help"], env={"COLUMNS": "200"}).output
    for default in (Plan().cost, Plan().benefit, Plan().floor, Plan().resamples, Plan().rng):
        assert f"[default: {default}]" in shown
