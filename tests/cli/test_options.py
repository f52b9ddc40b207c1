"""What all verbs share: the display, the run log, options and run files as settings."""

import ast
import inspect
import io
import re
from dataclasses import fields

import pytest
import typer
from rich.console import Console

from pcer.cli.app import SUCCESSORS, app
from pcer.cli.options import (
    TABLE_OF,
    TrainKeys,
    from_options,
    read_config,
)
from pcer.cli.outputs import KEPT, Display, log_run
from pcer.cli.train import NOT_FOR_MODULES, OF_NETWORKS, train
from pcer.data import TablePlan
from pcer.errors import InputError
from pcer.release.disclosure import Disclosure
from pcer.train import EngineFlags, TrainConfig
from pcer_studies.command import reproduce
from tests.commands import config, passed, refusal


class Terminal(Console):
    """A terminal that keeps what it is shown, with a clock that is set."""

    def __init__(self, width: int = 140) -> None:
        self.now = 0.0
        kept = io.StringIO()
        super().__init__(
            file=kept, width=width, force_terminal=True, get_time=lambda: self.now
        )

    def text(self) -> str:
        """All of it, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.file.getvalue())


def test_the_display_shows_models_and_time_left_and_the_log_has_a_line(tmp_path):
    """300 were there before; 50 more took 10 seconds, so that 850 will take 170."""
    for _ in range(2):
        terminal = Terminal()
        with Display("models", console=terminal) as shown:
            shown.tell("reading acs", done=0, total=1_200)
            for terminal.now, done in ((2.0, 300), (12.0, 350)):
                shown.tell("training acs", done=done, total=1_200, found=300)
        assert "training acs" in terminal.text()
        assert "350/1200 models 0:00:12 02:50 left" in terminal.text()
        log_run(tmp_path, "train x", shown, EngineFlags(jobs=3))
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert len(lines) == 2
    found = (
        r"1200 models, 300 of them found trained, in 12\.0 s; local, cpu, 3 processes"
    )
    with_these = r"python 3\.\S+, torch \S+, pcer \S+"
    when = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(f"{when} train x: {found}, {with_these}", lines[1])


def test_a_sweep_finds_training_and_attacking_apart_and_says_what_is_kept(tmp_path):
    terminal = Terminal()
    with Display("models", kept_in=tmp_path, console=terminal) as shown:
        shown.tell("calibrating tiny", done=0, total=300)
        assert shown.kept() == f"finished models are kept in {tmp_path}"
        tell = shown.counter("my [red]loans")
        for done in (100, 200, 300):  # 100 were found trained
            tell(done, 300)
            shown.refresh()
            assert KEPT[-1]() == f"{done} of 300 models are kept in {tmp_path}"
        shown.step("loans")("checking with made-up groups")
    for words in (
        "training my [red]loans",
        "attacking and counting",
        "with made-up groups loans",
    ):
        assert words in terminal.text()
    assert (shown.done, shown.found, shown.total, KEPT) == (300, 100, 300, [])


def test_a_display_that_does_not_last_leaves_nothing_in_a_file():
    text = io.StringIO()
    with Display("releases", lasting=False, console=Console(file=text)) as shown:
        shown.tell("auditing x", done=1, total=2)
        assert shown.kept() == text.getvalue() == ""


def test_options_become_settings_and_what_was_not_said_stays_default():
    said = {"epochs": 3, "hidden": [8, 4], "learning_rate": None, "out": "elsewhere"}
    made = from_options(TrainConfig, said, clip_norm=2.0)
    assert made == TrainConfig(epochs=3, hidden=(8, 4), clip_norm=2.0)
    given = {**read_config(None), "jobs": 0, "config": "run.toml"}
    for kind, options, words in (
        (TrainConfig, {"epochs": 0}, r"^epochs must be a whole number of at least 1"),
        (
            TrainConfig,
            {**given, "epochs": 0},
            r"^epochs must be",
        ),  # no value of the file
        (EngineFlags, given, r"^run\.toml \[engine\]: jobs must"),
        (EngineFlags, {"jobs": 0}, r"^jobs must"),
    ):
        with pytest.raises(InputError, match=words):
            from_options(kind, options)


WHOLE = {
    "train": {
        "dp_delta": 1e-6,
        "learning_rate": 0.1,
        "budget_per_person": 2,
        "settings": {"width": 16},
    },
    "table": {"drop": ["name"]},
    "disclosure": {"certain_cells": False},
}


def test_every_setting_is_an_option_or_a_key_and_heeded_or_refused():
    """What has neither option nor key: no run needs it, or another setting decides."""
    alone = {
        "momentum",
        "standardise",
        "split",
        "public",
        "attributes",
        "public_data",
        "secret",
        "settings",
    }
    kinds = (TrainConfig, EngineFlags, TablePlan, Disclosure)
    settings = {field.name for kind in kinds for field in fields(kind)}
    options = set(inspect.signature(train).parameters)
    assert settings - alone <= options | set(TABLE_OF)
    assert options & set(TABLE_OF) == {"drop"}  # both add up
    assert len(options) - 1 <= 24  # besides the table
    assert {*OF_NETWORKS, *NOT_FOR_MODULES} <= options | set(TABLE_OF)
    assert set(OF_NETWORKS) >= set(TrainKeys.model_fields) - {"settings"}


def own_options() -> dict[str, list[str]]:
    """Options of each verb, the study's too; --x/--no-x is one.

    Not counted are --help and --quiet, which every verb has, and options of pcer itself.
    """
    group = typer.main.get_command(app)
    found = {}
    for verb in group.list_commands(None):
        found[verb] = [
            option.opts[0]
            for option in group.get_command(None, verb).params
            if option.param_type_name == "option"
            and option.name not in ("help", "quiet")
        ]
    return found


def test_all_verbs_together_have_at_most_130_options():
    found = own_options()
    assert {"audit", "reproduce", "version"} <= found.keys()
    assert "--opinion" in found["audit"]
    assert sum(map(len, found.values())) <= 130


@pytest.mark.parametrize(("verb", "option"), SUCCESSORS)
def test_an_option_that_is_gone_is_refused_with_what_does_its_work(verb, option):
    assert f"--{option}" not in own_options()[verb]
    sentence = refusal(verb, f"--{option}", "1")
    use = SUCCESSORS[verb, option]
    assert sentence == f"pcer: pcer {verb} --{option} is gone; use {use}.\n"


def test_values_by_key_and_none_where_nothing_is_said():
    values = read_config(config(**WHOLE)[1])
    given = {key: value for table in WHOLE.values() for key, value in table.items()}
    assert {key: value for key, value in values.items() if value is not None} == given
    assert isinstance(values["budget_per_person"], float)
    assert set(read_config(None).values()) == {None}


@pytest.mark.parametrize(
    "verb", [info.callback for info in app.registered_commands] + [reproduce]
)
def test_a_verb_has_at_most_16_statements(verb):
    (function,) = ast.parse(inspect.getsource(verb)).body
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    assert len(statements) - 2 <= 16  # besides itself and its docstring


def test_help_shows_the_defaults_that_are_stated_elsewhere():
    of_train = ("25", "256", "64, 32", "dp-sgd", "cpu")
    of_release = ("y_true", "y_pred", "split", "0.5", "unknown")
    for verb, defaults in (("train", of_train), ("release", of_release)):
        shown = passed(verb, "--help", COLUMNS="200").stdout
        assert [one for one in defaults if f"[default: {one}]" not in shown] == []


def help_page() -> str:
    return " ".join(passed("--help", COLUMNS="200").stdout.replace("│", " ").split())


def test_the_study_is_listed_and_an_unknown_verb_is_refused():
    assert "reproduce Run the paper's whole study" in help_page()
    assert "--tables-only" in passed("reproduce", "--help", COLUMNS="200").stdout
    assert (
        "No such command 'nonsense'" in passed("nonsense", code=2, COLUMNS="200").stderr
    )


def test_without_the_study_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("pcer.cli.app.entry_points", lambda **of: ())
    sentence = refusal("reproduce", "--tables-only").removeprefix("pcer: ").rstrip("\n")
    assert sentence.endswith('pip install ".[train]" ./studies')
    assert sentence in help_page()
