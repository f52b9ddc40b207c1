"""``pcer train --module`` as a user meets it."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pcer
from pcer.cli.module import NOT_FOR_MODULES
from pcer.cli.train import train
from pcer.data import load, split
from pcer.errors import OutputError
from pcer.sweep import run as sweep_module
from pcer.train import TrainConfig, TrainingData, opacus
from pcer.train.opacus import train_modules

SOURCE = """
from torch import nn


def make_net(n_features, width=4, act="relu"):
    last = nn.Linear(width, 1)
    return nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Dropout(0.1), last)


def mixing(n_features):
    return nn.Sequential(nn.BatchNorm1d(n_features), nn.Linear(n_features, 1))


number = 3
"""
QUICK = ("--epochs", "2", "--batch", "512", "--accountant", "rdp", "--budgets", "none,1")
COMPAS = ("train", "compas", "--attribute", "race", *QUICK, "--seeds", "3")
MINE = ("--module", "nets_for_pcer:make_net", "--set", "width=5", "--set", "act=relu")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the user, with a file of theirs in it."""
    (tmp_path / "nets_for_pcer.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("nets_for_pcer", None)


SHARED = {
    *("source", "attributes", "out", "budgets", "seeds", "jobs", "keep_scores", "settings"),
    *("epochs", "expected_batch", "learning_rate", "clip_norm", "dp_delta", "accountant"),
    *("adjacency", "sample_rate", "n_steps", "divisor", "secret_file", "label", "positive"),
    *("outcome", "drop", "categories", "missing", "max_categories", "identifiers", "public_data"),
    *("least_people", "small_groups", "certain_cells", "module"),
}
"""Options that mean the same for networks and modules."""


def test_every_option_is_heeded_or_refused():
    assert set(inspect.signature(train).parameters) - SHARED == set(NOT_FOR_MODULES)


def test_a_sweep_of_modules_gives_a_release_like_every_other(run, here):
    code, out, err = run(*COMPAS, *MINE, "--jobs", "1", "--keep-scores", "-o", "out")
    assert code == 0, err
    assert "next: pcer audit out" in out
    assert str(here) not in sys.path
    release = pcer.read_release("out/compas.race.release.json")
    assert [(one.epsilon, one.seed) for one in release.runs] == [
        *((1.0, seed) for seed in range(3)),
        *((None, seed) for seed in range(3)),
    ]
    assert {row.proxy for row in release.pooled_exposure} >= {"paired_gap", "paired_confidence"}
    assert {row.n_draws for row in release.placebo} == {200}
    config = release.training.config
    assert config["module"] == "nets_for_pcer:make_net"
    assert config["module_settings"] == {"width": 5}
    assert config["module_weights"] == 6 * 5 + 5 + 5 + 1
    assert "hidden" not in config
    assert config["epochs"] == 2
    private = release.runs[0]
    assert private.noise_multiplier > 0
    assert private.epsilon_by_accountant["rdp"] <= 1.0
    assert release.training.mechanism == "dp-sgd"
    assert "torch" not in json.dumps(release.model_dump(mode="json")["training"]["config"])
    assert (here / "out" / "compas.scores" / "index.json").exists()
    assert len(pcer.audit(release).budgets) == 2


def test_the_scores_are_those_of_train_modules(run, here):
    code, _, err = run(*COMPAS, *MINE, "--jobs", "1", "--keep-scores", "-o", "out")
    assert code == 0, err
    import importlib

    make_net = importlib.import_module("nets_for_pcer").make_net
    compas = load("compas")
    rows = {seed: split(compas, seed=seed).train for seed in range(3)}
    data = TrainingData.of(compas.features, compas.labels, rows, allow_missing=True)
    config = TrainConfig(epochs=2, expected_batch=512, accountant="rdp")
    found = train_modules(
        lambda n: make_net(n, width=5), data, budgets=(np.inf, 1.0), config=config
    )
    index = json.loads((here / "out" / "compas.scores" / "index.json").read_text())
    assert len(index["blocks"]) == 6
    for block in index["blocks"]:
        kept = np.load(here / "out" / "compas.scores" / block["scores"])
        for scores, model in zip(kept, block["models"], strict=True):
            place = (0 if model["epsilon"] is None else 1, model["seed"])
            assert np.array_equal(scores, found.logits[place])


def test_stopped_and_gone_on_with_it_ends_in_the_same_bytes(run, here, monkeypatch):
    """After two of six models; the other four are trained, and no more."""
    saved: list[object] = []
    save = sweep_module.save_block

    def save_two(*given, **named):
        if len(saved) == 2:
            raise OutputError("the disk is full.")
        saved.append(given)
        save(*given, **named)

    monkeypatch.setattr(sweep_module, "save_block", save_two)
    code, _, err = run(*COMPAS, *MINE, "--jobs", "1", "-o", "stopped")
    assert (code, "the disk is full" in err) == (2, True)
    monkeypatch.setattr(sweep_module, "save_block", save)
    trained: list[int] = []
    train_one = opacus.train_module
    monkeypatch.setattr(
        opacus, "train_module", lambda *a, **k: trained.append(1) or train_one(*a, **k)
    )
    for folder, n in (("stopped", 4), ("whole", 6)):
        code, _, err = run(*COMPAS, *MINE, "--jobs", "1", "-o", folder)
        assert code == 0, err
        assert len(trained) == n
        trained.clear()
    name = "compas.race.release.json"
    assert (here / "stopped" / name).read_bytes() == (here / "whole" / name).read_bytes()


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_in_the_same_bytes(run, here):
    """In two processes until a kill -9, then in one."""
    size = ("--seeds", "4", "--epochs", "10")
    command = [sys.executable, "-m", "pcer", *COMPAS, *MINE, *size, "--jobs", "2", "-o", "killed"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    work = here / "killed" / "compas.scores"
    while running.poll() is None and not list(work.glob("block-*.json")):
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    kept = len(list(work.glob("block-*.json")))
    assert 0 < kept < 8
    for folder in ("killed", "whole"):
        code, _, err = run(*COMPAS, *MINE, *size, "--jobs", "1", "-o", folder)
        assert code == 0, err
    name = "compas.race.release.json"
    assert (here / "killed" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_another_module_in_the_same_folder_is_refused(run, here):
    code, _, err = run(*COMPAS, *MINE, "--jobs", "1", "-o", "out")
    assert code == 0, err
    for arguments, sentence in (
        ((), "was made with module 'nets_for_pcer:make_net', but None is asked for"),
        (("--module", "nets_for_pcer:make_net"), "was made with module_settings {'width': 5}"),
        ((*MINE[:-1], "act=tanh"), "was made with module_digest"),
    ):
        code, _, err = run(*COMPAS, *arguments, "-o", "out")
        assert code == 2
        assert sentence in " ".join(err.split())
    (here / "nets_for_pcer.py").write_text(SOURCE.replace("nn.ReLU", "nn.Tanh"))
    sys.modules.pop("nets_for_pcer")
    os.utime(here / "nets_for_pcer.py", (1, 1))
    code, _, err = run(*COMPAS, *MINE, "-o", "out")
    assert code == 2
    assert "was made with module_digest" in " ".join(err.split())


def test_a_private_table_keeps_its_secret(run, here, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(18, 80)},{rng.choice(['f', 'm'])},{rng.integers(2)}" for _ in range(400)
    ]
    (here / "loans.csv").write_text("\n".join(["age,sex,approved", *rows]))
    own = ("--label", "approved", "--positive", "1", "--outcome", "benefit", "--attribute", "sex")
    said = ("train", "loans.csv", *own, *MINE, *QUICK, "--batch", "64", "--seeds", "2")
    code, _, err = run(*said, "--jobs", "1", "-o", "out")
    assert code == 0, err
    release = pcer.read_release("out/loans.sex.release.json")
    assert release.training.config["noise_from_secret"] is True
    assert release.provenance.data_digest.startswith("hmac-sha256:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--module", "make_net"), "must be package.module:Name, such as mymodels:make_net"),
        (("--module", "nowhere:make_net"), "nowhere cannot be imported"),
        (("--module", "nets_for_pcer:oak"), "nets_for_pcer has no oak"),
        (("--module", "nets_for_pcer:number"), "is int and cannot be called"),
        (("--module", "nets_for_pcer:mixing"), "layer '0' (BatchNorm1d) mixes the records"),
        (("--module", "nets_for_pcer:make_net", "--set", "depth=3"), "argument 'depth'"),
        ((*MINE, "--set", "3"), "--set must be name=value, such as width=64"),
        ((*MINE, "--receipts", "held"), "--receipts needs the norms of all training records"),
        ((*MINE, "--hidden", "8"), "--hidden is about pcer's own network"),
        ((*MINE, "--engine", "ray"), "leave --engine out"),
        ((*MINE, "--device", "cuda"), "leave --device out"),
        ((*MINE, "--block-size", "2"), "train one after another"),
        ((*MINE, "--estimator", "sklearn.tree:DecisionTreeClassifier"), "give one of them"),
        (("--set", "width=5"), "name one with --estimator or --module"),
    ],
)
def test_what_cannot_be_gets_one_sentence(run, here, arguments, message):
    code, out, err = run(*COMPAS, *arguments, "-o", "out")
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""
    assert not (here / "out").exists()
