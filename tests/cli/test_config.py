"""The run file of ``pcer train``: what it takes, and one sentence for what it does not."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from pcer.cli.parts import KEYS, TABLE_OF, from_options, read_config
from pcer.cli.train import NOT_FOR_MODULES, OF_NETWORKS, train
from pcer.data import TablePlan
from pcer.errors import InputError
from pcer.release.disclosure import DisclosureRule
from pcer.train import EngineFlags, TrainConfig
from tests.commands import config, refusal

WHOLE = {
    "train": {"dp_delta": 1e-6, "budget_per_person": 2, "settings": {"width": 16}},
    "table": {"drop": ["name"]},
    "disclosure": {"certain_cells": False},
}


def test_every_setting_is_an_option_or_a_key_and_heeded_or_refused():
    """What has neither option nor key: no run needs it, or another setting decides."""
    alone = {"momentum", "standardise", "split", "public", "attributes", "public_data", "settings"}
    kinds = (TrainConfig, EngineFlags, TablePlan, DisclosureRule)
    settings = {field.name for kind in kinds for field in fields(kind)}
    options = set(inspect.signature(train).parameters)
    assert settings - alone <= options | set(TABLE_OF)
    assert not options & set(TABLE_OF)
    assert len(options) - 1 <= 20  # besides the table
    assert {*OF_NETWORKS, *NOT_FOR_MODULES} <= options | set(TABLE_OF)
    assert set(OF_NETWORKS) >= set(KEYS["train"]) - {"settings"}


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
        ("[train", ("is not TOML",)),
        ("[train]\ndp_delta = 0.999", ("[train]", "dp_delta must be at most 0.1")),
        ("[train]\naccountant = 'mine'", ("[train]", "accountant must be one of")),
        ("[engine]\nblock_size = 0", ("[engine]", "block_size must be a whole number of at le")),
        ("[disclosure]\nleast_people = 0", ("[disclosure]", "least_people must be")),
        (None, ("cannot be read",)),
    ],
)
def test_what_cannot_be_is_one_sentence_with_file_and_key(tmp_path, text, words):
    path, out = tmp_path / "run.toml", tmp_path / "out"
    if text is not None:
        path.write_text(text)
    told = refusal("train", "compas", "--attribute", "race", "--config", path, "-o", out)
    assert told.startswith(f"pcer: {path}")
    assert [word for word in words if word not in told] == []
    assert not out.exists()


def test_only_values_of_the_file_are_blamed_on_it():
    options = {**read_config(None), "jobs": 0, "config": "run.toml"}
    with pytest.raises(InputError, match=r"^epochs must be"):
        from_options(TrainConfig, {**options, "epochs": 0})
    with pytest.raises(InputError, match=r"^run\.toml \[engine\]: jobs must"):
        from_options(EngineFlags, options)
    with pytest.raises(InputError, match=r"^jobs must"):
        from_options(EngineFlags, {"jobs": 0})
