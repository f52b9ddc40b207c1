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
from pcer.cli.process import peak_memory
from pcer.errors import InputError
from pcer.train import EngineFlags, TrainConfig
from pcer_studies.command import reproduce


def plain(text: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())


def ticks(*times: float):
    return iter(times).__next__


def test_the_display_shows_models_rate_and_time_left():
    """300 were there before; 50 more, a tenth of the work, took 10 seconds: 90 are left."""
    text = io.StringIO()
    console = Console(file=text, width=140, force_terminal=True)
    with display("models", console=console, clock=ticks(0.0, 2.0, 12.0, 13.0)) as shown:
        shown.tell("reading", "acs", done=0, total=1_200)
        shown.tell("training", "acs", done=300, total=1_200, found=300, work=0.0)
        shown.tell("training", "acs", done=350, total=1_200, found=300, work=0.1)
    assert "training acs" in plain(text)
    assert "350/1200 models, 5.0 a second" in plain(text)
    assert "1:30 left" in plain(text)
    assert shown.seconds == {"reading": 2.0, "training": 11.0}
    assert str(shown) == "13.0 s (reading 2.0 s, training 11.0 s)"


def test_a_sweep_finds_training_and_attacking_apart():
    text = io.StringIO()
    console = Console(file=text, width=140, force_terminal=True)
    with display("models", console=console, clock=ticks(0, 1, 11, 12)) as shown:
        tell = shown.counter("my [red]loans", total=300)
        for done in (100, 200):  # 100 were found trained
            tell(done, 300)
    assert "training my [red]loans" in plain(text)
    assert "200/300 models, 10.0 a second" in plain(text)
    assert "0:10 left" in plain(text)
    with display("models", console=console, clock=ticks(0, 1, 11, 31, 36, 41)) as shown:
        tell = shown.counter("loans", total=300)
        for done in (100, 200, 300):
            tell(done, 300)
        shown.step("loans")("checking with coin flips")
    seconds = {"calibrating": 1, "training": 30, "attacking and counting": 5}
    assert shown.seconds == {**seconds, "checking with coin flips": 5}
    assert (shown.done, shown.found, shown.total) == (300, 100, 300)
    assert "checking with coin flips loans" in plain(text)


def test_a_display_that_does_not_last_leaves_nothing_in_a_file():
    text = io.StringIO()
    with display("releases", lasting=False, console=Console(file=text)) as shown:
        shown.tell("auditing", "x", done=1, total=2, work=0.5)
    assert text.getvalue() == ""


def test_one_line_a_run_in_the_log(tmp_path):
    for _ in range(2):
        with display("models", console=Console(file=io.StringIO()), clock=ticks(0, 4)) as shown:
            shown.tell("training", "x", done=6, total=6, found=2)
        log_run(tmp_path, "train x", shown, EngineFlags(jobs=3))
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert len(lines) == 2
    assert re.match(
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ train x: 6 models, 2 of them found trained, in "
        r"4\.0 s \(training 4\.0 s\); memory at most [\d,]+ MiB over all processes; local, cpu, "
        r"3 processes, .+, \d+ cores, .+, python 3\.\S+, torch \S+, pcer \S+$",
        lines[1],
    )


def test_a_log_that_cannot_be_written_is_said_and_no_more(tmp_path, capsys):
    (tmp_path / "run.log").mkdir()
    with display("models", console=Console(file=io.StringIO())) as shown:
        shown.tell("training", "x", done=6, total=6)
    log_run(tmp_path, "train x", shown, EngineFlags(jobs=1))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"pcer: {tmp_path / 'run.log'} cannot be written (Is a directory), so time and machine are "
        "not noted; the results are complete.\n"
    )


def test_memory_is_a_number_of_this_process():
    assert 20 < peak_memory() < 100_000


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
