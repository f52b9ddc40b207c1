"""The run file of ``pcer train``: what it takes, and one sentence for what it does not."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from pcer.cli.config import TABLE_OF, TrainKeys, file_named, read_config
from pcer.cli.train import NOT_FOR_MODULES, OF_NETWORKS, train
from pcer.data import TablePlan
from pcer.errors import InputError
from pcer.release.disclosure import DisclosureRule
from pcer.train import EngineFlags, TrainConfig
from tests.commands import config, run

WHOLE = {
    "train": {"dp_delta": 1e-6, "budget_per_person": 2, "settings": {"width": 16}},
    "table": {"drop": ["name"]},
    "disclosure": {"certain_cells": False},
}


def test_every_setting_is_an_option_or_a_key_and_heeded_or_refused():
    """What has neither option nor key: no run needs it, or another setting decides."""
    alone = {"momentum", "standardise", "split", "public", "attributes", "public_data", "settings"}
    settings = {
        field.name
        for kind in (TrainConfig, EngineFlags, TablePlan, DisclosureRule)
        for field in fields(kind)
    }
    options = set(inspect.signature(train).parameters)
    assert settings - alone <= options | set(TABLE_OF)
    assert not options & set(TABLE_OF)
    assert len(options) - 1 <= 20  # besides the table
    assert {*OF_NETWORKS, *NOT_FOR_MODULES} <= options | set(TABLE_OF)
    assert set(OF_NETWORKS) >= set(TrainKeys.model_fields) - {"settings"}


def test_values_by_key_and_none_where_nothing_is_said():
    values = read_config(config(**WHOLE)[1])
    given = {key: value for table in WHOLE.values() for key, value in table.items()}
    assert {key: value for key, value in values.items() if value is not None} == given
    assert isinstance(values["budget_per_person"], float)
    assert set(read_config(None).values()) == {None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nepochs = 3", ("train.epochs", "is not a field")),
        ("[tables]\ndrop = []", ("tables", "is not a field")),
        ("jobs = 1", ("jobs", "is not a field")),
        ("[train]\ndp_delta = 'x'", ("train.dp_delta", "valid number")),
        ("[engine]\njobs = 1.5", ("engine.jobs", "valid integer", "1.5")),
        ("[engine]\njobs = true", ("engine.jobs", "valid integer")),
        ("[engine]\nkeep_scores = 1", ("engine.keep_scores", "valid boolean")),
        ("[table]\ndrop = 'name'", ("table.drop", "valid list")),
        ("[table]\ndrop = [1]", ("table.drop[0]", "valid string")),
        ("[train]\nsettings = 3", ("train.settings", "valid dictionary")),
        ("[disclosure]\nsmall_groups = 'hide'", ("small_groups", "'join' or 'withhold'")),
        ("[train", ("is not TOML",)),
        ("[train]\ndp_delta = 0.999", ("[train]", "dp_delta must be at most 0.1")),
        ("[train]\naccountant = 'mine'", ("[train]", "accountant must be one of")),
        ("[engine]\nblock_size = 0", ("[engine]", "block_size must be a whole number of at le")),
        ("[disclosure]\nleast_people = 0", ("[disclosure]", "least_people must be")),
    ],
)
def test_what_cannot_be_is_one_sentence_with_file_and_key(tmp_path, text, words):
    path = tmp_path / "run.toml"
    path.write_text(text)
    done = run("train", "compas", "--attribute", "race", "--config", path, "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"pcer: {path}")
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there(tmp_path):
    done = run("train", "compas", "--attribute", "race", "--config", "no.toml", "-o", tmp_path)
    assert (done.returncode, "no.toml cannot be read" in done.stderr) == (2, True)


def test_only_values_of_the_file_are_blamed_on_it():
    options = {**read_config(None), "jobs": 1, "config": "run.toml"}
    with pytest.raises(InputError, match=r"^epochs must be"), file_named(options):
        raise InputError("epochs must be at least 1.")
    with pytest.raises(InputError, match=r"\.toml \[engine\]: jobs must"), file_named(options):
        raise InputError("jobs must be at least 1.")
