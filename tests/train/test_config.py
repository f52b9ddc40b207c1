import json
import math
import os

import pytest
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from pcer.errors import InputError
from pcer.train.config import (
    EngineFlags,
    Sampling,
    TrainConfig,
    parse_budgets,
)
from pcer.train.rules import RULES


def test_defaults_are_those_of_the_paper():
    config = TrainConfig()
    assert config.hidden == (64, 32)
    assert (config.epochs, config.expected_batch) == (25, 256)
    assert (config.learning_rate, config.momentum) == (0.05, 0.9)
    assert (config.clip_norm, config.dp_delta) == (1.0, 1e-5)


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
    assert TrainConfig(**json.loads(json.dumps(config.to_dict()))) == config
    assert config.sampling(1000) == Sampling(1000, 49, 77, 30)
    assert config.sampling(1000).expected_batch == 30


def test_receipts_that_are_held_need_their_own_rule(monkeypatch):
    monkeypatch.setitem(RULES, "other", RULES["dp-sgd"])
    with pytest.raises(
        InputError, match="under the rule 'held', but rule 'other' was given"
    ):
        TrainConfig(receipts="held", rule="other")


BAD_SETTINGS = [
    {"epochs": 0},
    {"epochs": 10**7},
    {"expected_batch": 2.5},
    {"hidden": (64, 0)},
    {"hidden": (10**5, 10**5)},
    {"learning_rate": -1},
    {"clip_norm": math.inf},
    {"momentum": 1.0},
    {"dp_delta": 0.0},
    {"dp_delta": 0.2},
    {"split": "by year"},
    {"sample_rate": 0.3},
    {"sample_rate": 0.0},
    {"n_steps": 0},
    {"n_steps": 10**10},
    {"divisor": 1.5},
    {"refresh_every": 0},
    {"adjacency": "replace"},
    {"adjacency": "add-or-remove", "n_steps": 9},
    {"rule": "lax"},
    {"accountant": "gdp"},
    {"receipts": "all"},
    {"receipts": "exact", "refresh_every": 5},
    {"budget_per_person": 1.0},
    {"budget_per_person": -1.0, "receipts": "held"},
]
BAD_FLAGS = [
    {"device": "tpu"},
    {"device": "cpu:1"},
    {"device": "cuda:x"},
    {"device": "cuda:1", "engine": "ray"},
    {"engine": "dask"},
    {"address": "auto"},
    {"block_size": 0},
    {"jobs": 0},
]


@pytest.mark.parametrize("settings", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        TrainConfig(**settings)


@pytest.mark.parametrize("flags", BAD_FLAGS, ids=str)
def test_bad_flags_are_refused_by_name(flags):
    with pytest.raises(ValueError, match=next(iter(flags))):
        EngineFlags(**flags)


def test_block_size_suits_the_device():
    assert EngineFlags(jobs=2).models_per_block(300) == 25
    # 16 blocks, so that no core is idle; then 6 blocks, 3 for each core.
    assert EngineFlags(jobs=16).models_per_block(300) == 19
    assert EngineFlags(jobs=2).models_per_block(120) == 20
    assert EngineFlags(jobs=64).models_per_block(6) == 1
    assert EngineFlags(device="cuda").models_per_block(300) == 512
    assert EngineFlags(block_size=5).models_per_block(300) == 5
    assert EngineFlags(device="cuda", jobs=8).n_processes == 1
    assert EngineFlags().n_processes >= 1


def test_cores_are_counted_as_the_system_allows(monkeypatch):
    for name, answer, n_cores in (
        ("sched_getaffinity", lambda pid: {0, 3, 5}, 3),
        ("process_cpu_count", lambda: 4, 4),
        ("cpu_count", lambda: 2, 2),
        ("cpu_count", lambda: None, 1),  # it does not know
    ):
        monkeypatch.setattr(os, name, answer, raising=False)
        assert EngineFlags().n_attackers == n_cores
        if name != "cpu_count":
            monkeypatch.delattr(os, name)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1e-9", "1e9", "0.1,lots", "1,1.0"])
def test_bad_budgets_are_refused(text):
    with pytest.raises(InputError, match="budget"):
        parse_budgets(text)


# Opacus warns of its own generator.
@pytest.mark.filterwarnings("ignore:Secure RNG turned off")
@pytest.mark.parametrize("n_train", [4_320, 257, 256])
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
