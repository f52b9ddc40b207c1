import json
import math
import os
import subprocess
import sys

import pytest
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from pcer.errors import InputError
from pcer.train.config import (
    ADDED_SETTINGS,
    Accountant,
    Engine,
    EngineFlags,
    Sampling,
    TrainConfig,
    parse_budgets,
    usable_cores,
)
from pcer.train.rules import RULES


def test_defaults_are_the_papers():
    config = TrainConfig()
    assert (config.hidden, config.epochs, config.expected_batch) == ((64, 32), 25, 256)
    assert (config.learning_rate, config.momentum, config.clip_norm) == (0.05, 0.9, 1.0)
    assert (config.dp_delta, config.accountant) == (1e-5, Accountant.PLD)


def test_config_survives_json():
    config = TrainConfig(hidden=(7,), accountant="rdp", momentum=0.0, split="given")
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_every_setting_survives_json():
    config = TrainConfig(
        adjacency="add-or-remove",
        sample_rate=1 / 49,
        n_steps=77,
        divisor=30,
        receipts="held",
        refresh_every=5,
        budget_per_person=2.5,
    )
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.sampling(1000) == Sampling(1000, 49, 77, 30)
    assert config.sampling(1000).expected_batch == 30


def test_receipts_that_are_held_need_their_own_rule(monkeypatch):
    monkeypatch.setitem(RULES, "other", RULES["dp-sgd"])
    with pytest.raises(InputError, match="under the rule 'held', but rule 'other' was given"):
        TrainConfig(receipts="held", rule="other")


def test_unknown_setting_is_refused_by_name():
    with pytest.raises(InputError, match="no setting 'epoch'; it has accountant, adjacency"):
        TrainConfig.from_dict({"epoch": 3})


def test_an_added_setting_says_what_older_versions_did():
    """Whoever adds one says so in ADDED_SETTINGS, or sweeps of older versions could not go on."""
    first = "hidden epochs expected_batch learning_rate momentum clip_norm dp_delta accountant"
    added = set(TrainConfig().to_dict()) - {*first.split(), "standardise", "split"}
    assert added == set(ADDED_SETTINGS)


def test_a_file_of_an_older_version_is_read_as_that_version_trained(monkeypatch):
    monkeypatch.setitem(ADDED_SETTINGS, "momentum", 0.5)  # as if it were new, with another default
    old = {name: value for name, value in TrainConfig().to_dict().items() if name != "momentum"}
    assert TrainConfig.from_dict(old).momentum == 0.5
    assert TrainConfig.from_dict({**old, "momentum": 0.2}).momentum == 0.2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, but 0 was given"),
        ({"expected_batch": 2.5}, "expected_batch must be a whole number"),
        ({"hidden": (64, 0)}, "hidden must be a whole number of at least 1, but 0"),
        ({"learning_rate": -1}, "learning_rate must be a finite number above 0"),
        ({"clip_norm": math.inf}, "clip_norm must be a finite number above 0, but inf"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), but 1.0"),
        ({"dp_delta": 0.0}, "dp_delta must lie strictly between 0 and 1"),
        ({"split": "by year"}, "split must be one of .*'given'.*, but 'by year' was given"),
        ({"sample_rate": 0.3}, "sample_rate must be one over a whole number, such as 1/100, but 0"),
        ({"sample_rate": 0.0}, "sample_rate must be one over a whole number, .* but 0.0 was given"),
        ({"n_steps": 0}, "n_steps must be a whole number of at least 1, but 0"),
        ({"divisor": 1.5}, "divisor must be a whole number of at least 1"),
        ({"refresh_every": 0}, "refresh_every must be a whole number of at least 1"),
        ({"adjacency": "replace"}, r"adjacency must be one of \['zero-out', 'add-or-remove'\]"),
        (
            {"adjacency": "add-or-remove", "n_steps": 9},
            "keeps the number of training records secret.*set sample_rate, divisor too",
        ),
        ({"rule": "lax"}, r"rule must be one of \['dp-sgd', 'held'\], but 'lax' was given"),
        ({"receipts": "all"}, r"receipts must be one of \['none', 'exact', 'refreshed', 'held'\]"),
        (
            {"receipts": "exact", "refresh_every": 5},
            "receipts 'exact' need the norms of every step, but refresh_every 5 was given",
        ),
        (
            {"budget_per_person": 1.0},
            "budget_per_person needs receipts 'held', .* but receipts 'none' was given",
        ),
        (
            {"budget_per_person": -1.0, "receipts": "held"},
            "budget_per_person must be a finite number above 0",
        ),
        ({"accountant": "gdp"}, r"accountant must be one of \['pld', 'prv', 'rdp'\], but 'gdp'"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        TrainConfig(**settings)


@pytest.mark.parametrize("flags", [{"device": "tpu"}, {"device": "cpu:1"}, {"device": "cuda:x"}])
def test_unknown_device_is_refused(flags):
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N', but"):
        EngineFlags(**flags)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"engine": "dask"}, r"engine must be one of \['local', 'ray'\], but 'dask' was given"),
        ({"address": "auto"}, "address is for engine 'ray' only, but 'auto' was given"),
        ({"engine": "ray", "device": "cuda:1"}, "device must be 'cuda', but 'cuda:1' was given"),
    ],
)
def test_unknown_engine_or_idle_address_is_refused(flags, sentence):
    with pytest.raises(ValueError, match=sentence):
        EngineFlags(**flags)


def test_ray_takes_an_address_or_none():
    assert EngineFlags().engine is Engine.LOCAL
    assert EngineFlags(engine="ray").engine is Engine.RAY
    assert EngineFlags(engine="ray", address="auto", device="cuda").address == "auto"


@pytest.mark.parametrize("name", ["block_size", "jobs"])
def test_flags_count_from_one(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, but 0"):
        EngineFlags(**{name: 0})


def test_block_size_suits_the_device():
    assert EngineFlags(jobs=2).models_per_block(300) == 25
    assert EngineFlags(jobs=16).models_per_block(300) == 19  # 16 blocks: no core is idle
    assert EngineFlags(jobs=2).models_per_block(120) == 20  # 6 blocks, 3 for each core
    assert EngineFlags(jobs=64).models_per_block(6) == 1
    assert EngineFlags(device="cuda").models_per_block(300) == 512
    assert EngineFlags(block_size=5).models_per_block(300) == 5
    assert EngineFlags(device="cuda", jobs=8).n_processes == 1
    assert EngineFlags().n_processes >= 1


def test_cores_are_counted_as_the_system_allows(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "process_cpu_count", lambda: 4, raising=False)
    assert usable_cores() == 4
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert EngineFlags().n_processes == 2
    monkeypatch.setattr(os, "cpu_count", lambda: None)  # it does not know
    assert EngineFlags().n_attackers == 1


def test_budgets_are_read_from_text():
    assert parse_budgets("none, 0.1,5") == (math.inf, 0.1, 5.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0", "an epsilon above 0 or 'none', but 0.0 was given"),
        ("-1", "an epsilon above 0 or 'none', but -1.0 was given"),
        ("nan", "an epsilon above 0 or 'none', but nan was given"),
        ("0.1,lots", "an epsilon above 0 or 'none', but 'lots' was given"),
        ("1,1.0", "budgets must name each one once, but '1,1.0' names one twice"),
    ],
)
def test_bad_budgets_are_refused_in_a_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_budgets(text)


def test_batch_larger_than_the_data_is_refused():
    with pytest.raises(InputError, match="at most the 100 training records, but 256 was given"):
        TrainConfig().sampling(100)


@pytest.mark.filterwarnings("ignore:Secure RNG turned off")  # Opacus, of its own generator
@pytest.mark.parametrize("n_train", [4_320, 32_223, 257, 256])
def test_sampling_and_normalisation_are_those_of_opacus(n_train):
    sampling = TrainConfig().sampling(n_train)
    module = torch.nn.Linear(1, 1)
    _, optimizer, loader = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), 0.1),
        data_loader=DataLoader(TensorDataset(torch.zeros(n_train, 1)), batch_size=256),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    assert sampling.expected_batch == optimizer.expected_batch_size
    assert sampling.sample_rate == loader.sample_rate
    assert sampling.steps_per_epoch == len(loader)


def test_importing_pcer_does_not_import_torch():
    code = "import sys, pcer; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
