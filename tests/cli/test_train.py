"""``pcer train`` as a user meets it: large runs, estimators, torch modules."""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pcer
from pcer.data import load, split
from pcer.errors import OutputError
from pcer.metrics import DEFAULT_SPLITS
from pcer.release.format import LIMITS
from pcer.sweep import run as sweep_module
from pcer.train import TrainConfig, TrainingData, train_seeds
from pcer.train import run as blocks
from tests.commands import config

RACE = ("train", "compas", "--attribute", "race")
ONE_JOB = config(engine={"jobs": 1})
QUICK = ("--epochs", "1", "--batch", "1000", "--hidden", "4")


@pytest.fixture
def small_limits():
    """A reader that takes four tables at most, which is two models of two groups."""
    before = LIMITS.n_tables
    object.__setattr__(LIMITS, "n_tables", 4)
    yield
    object.__setattr__(LIMITS, "n_tables", before)


@pytest.mark.usefixtures("small_limits")
def test_what_is_too_large_for_a_reader_is_written_and_said(run, tmp_path):
    sweep = (*RACE, "--budgets", "none", *QUICK, *ONE_JOB, "-o", tmp_path)
    code, _, err = run(*sweep, "--seeds", "2")
    assert (code, "--allow-large" in err) == (0, False), err
    (tmp_path / "compas.race.release.json").unlink()
    for _ in range(2):  # the second run finds the release
        code, _, err = run(*sweep, "--seeds", "3")
        assert code == 0, err
        assert err.startswith(
            "pcer: a release of 6 tables (models times groups) is more than the 4"
        )
        assert "whoever audits it will need --allow-large" in err.splitlines()[0]
    path = tmp_path / "compas.race.release.json"
    assert run("audit", path)[0] == 2
    assert run("audit", path, "--allow-large", path)[0] == 0


TREE = "sklearn.tree:DecisionTreeClassifier"
OWN = ("--label", "approved", "--positive", "yes", "--outcome", "benefit")


def of_tree(engine=None, **settings):
    return (
        *("--estimator", TREE),
        *config(train={"settings": settings}, engine={"jobs": 1, **(engine or {})}),
    )


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    age = rng.integers(18, 80, n).astype(float)
    age[:7] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "job": rng.choice(["cook", "clerk", "smith"], n),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["x", "z"], n),
            "approved": rng.choice(["yes", "no"], n),
        }
    )
    frame.to_csv(tmp_path / "loans.csv", index=False)
    return tmp_path / "loans.csv"


def test_an_own_table_gets_a_release_per_attribute(run, people, tmp_path):
    attributes = ("--attribute", "sex", "--attribute", "race")
    command = ("train", people, *OWN, *attributes, *of_tree(max_depth=4), "-o", tmp_path / "out")
    code, out, err = run(*command, "--seeds", "4")
    assert code == 0, err
    assert f"next: pcer audit {tmp_path / 'out'}" in out
    found = {
        name: pcer.read_release(tmp_path / "out" / f"loans.{name}.release.json")
        for name in ("sex", "race")
    }
    for name, release in found.items():
        assert release.subject.attribute == name
        assert len(release.runs) == 4
        assert release.disclosure.public_data is False
        assert release.provenance.data_digest.startswith("hmac-sha256:")
        model = release.training.config["models"]["Pipeline"]
        assert model["decisiontreeclassifier__max_depth"] == 4
        assert "random_state" not in release.training.config
    assert found["sex"].provenance.data_digest == found["race"].provenance.data_digest
    assert not (tmp_path / "out" / "loans.scores").exists()
    assert "cook" not in (tmp_path / "out" / "loans.sex.release.json").read_text()
    code, _, err = run(*command)
    assert code == 2
    assert "is there already; remove it, or choose another folder" in err


def test_a_benchmark_gives_what_python_gives_by_default(run, tmp_path):
    """Splits, their number and every byte of the release."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    keep = of_tree(engine={"keep_scores": True}, max_depth=2)
    code, _, err = run(*RACE, *keep, "-o", tmp_path)
    assert code == 0, err
    compas = load("compas")
    race = compas.attribute("race")
    made = pcer.release_from_estimator(
        make_pipeline(
            SimpleImputer(keep_empty_features=True),
            StandardScaler(),
            DecisionTreeClassifier(max_depth=2),
        ),
        np.array(compas.features),
        np.array(compas.labels),
        sensitive_features={"race": np.array(race.group_names)[race.codes]},
        outcome="harm",
        positive_label=1,
        progress=False,
        options=pcer.Options(
            groups=race.group_names, dataset="compas", notes=compas.notes, public_data=True
        ),
    )
    assert (tmp_path / "compas.race.release.json").read_text() == made.to_json()
    assert len(list((tmp_path / "compas.scores").glob("block-*.npy"))) == DEFAULT_SPLITS == 20


def test_an_estimator_of_ones_own_folder(run, people, tmp_path, monkeypatch):
    (tmp_path / "mine_for_pcer.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n"
        "def make(smoothing, priors):\n"
        "    assert priors is None\n    return GaussianNB(var_smoothing=smoothing)\n"
    )
    monkeypatch.chdir(tmp_path)
    settings = config(train={"settings": {"smoothing": 0.5, "priors": "None"}})
    code, _, err = run(
        *("train", people, *OWN, "--attribute", "sex", "--seeds", "2", "-o", "out"),
        *("--estimator", "mine_for_pcer:make", *settings),
    )
    assert code == 0, err
    release = pcer.read_release(tmp_path / "out" / "loans.sex.release.json")
    assert release.training.config["models"]["Pipeline"]["gaussiannb__var_smoothing"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--estimator", "RandomForest"), "must be package.module:Name"),
        (("--estimator", "nowhere.at.all:X"), "nowhere.at.all cannot be imported"),
        (("--estimator", "sklearn.tree:Oak"), "sklearn.tree has no Oak"),
        (of_tree(depth=3), "DecisionTreeClassifier does not take this"),
        (("--estimator", TREE, "--epochs", "3"), "--epochs is about pcer's own networks"),
        (("--estimator", TREE, "--budgets", "1"), "--budgets is about pcer's own networks"),
        (
            ("--estimator", TREE, *config(train={"accountant": "rdp"})),
            "[train]: accountant is about pcer's own networks",
        ),
        (config(train={"settings": {"a": 1}}), "name one with --estimator"),
        ((*of_tree(), "--attribute", "hair"), "hair"),
        (("--estimator", "sklearn.linear_model:LinearRegression"), "is a regressor"),
    ],
)
def test_what_an_estimator_cannot_be_gets_one_sentence(run, people, tmp_path, arguments, message):
    code, out, err = run(
        "train", people, *OWN, "--attribute", "sex", *arguments, "-o", tmp_path / "out"
    )
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""


SOURCE = """
from torch import nn


def make_net(n_features, width=4, act="relu"):
    last = nn.Linear(width, 1)
    return nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Dropout(0.1), last)


def mixing(n_features):
    return nn.Sequential(nn.BatchNorm1d(n_features), nn.Linear(n_features, 1))


number = 3
"""
SOME = ("--epochs", "2", "--batch", "512", "--budgets", "none,1")
COMPAS = (*RACE, *SOME, "--seeds", "3")
NET = ("--module", "nets_for_pcer:make_net")


def mine(act="relu", train=(), **engine):
    settings = {"width": 5, "act": act}
    train = {"accountant": "rdp", "settings": settings, **dict(train)}
    return (*NET, *config(train=train, engine={"jobs": 1, **engine}))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the user, with a file of theirs in it."""
    (tmp_path / "nets_for_pcer.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("nets_for_pcer", None)


def test_a_sweep_of_modules_gives_a_release_like_every_other(run, here):
    """Its scores are those of ``train_seeds``, and no other module goes on in its folder."""
    code, out, err = run(*COMPAS, *mine(keep_scores=True), "-o", "out")
    assert code == 0, err
    assert "next: pcer audit out" in out
    assert str(here) not in sys.path
    release = pcer.read_release("out/compas.race.release.json")
    assert [(one.epsilon, one.seed) for one in release.runs] == [
        *((1.0, seed) for seed in range(3)),
        *((None, seed) for seed in range(3)),
    ]
    assert {row.proxy for row in release.pooled_exposure} >= {"paired_gap", "paired_confidence"}
    made = release.training.config
    expected = {"module": NET[1], "module_settings": {"width": 5}, "module_weights": 41}
    assert expected.items() <= made.items()
    assert "hidden" not in made
    assert release.runs[0].epsilon_by_accountant["rdp"] <= 1.0
    assert release.training.mechanism == "dp-sgd"
    check_scores(here / "out" / "compas.scores")
    rdp = config(train={"accountant": "rdp"})
    for arguments, sentence in (
        (rdp, "was made with module 'nets_for_pcer:make_net', but None is asked for"),
        ((*NET, *rdp), "was made with module_settings {'width': 5}"),
        (mine(act="tanh"), "was made with module_digest"),
    ):
        code, _, err = run(*COMPAS, *arguments, "-o", "out")
        assert (code, sentence in " ".join(err.split())) == (2, True)
    (here / "nets_for_pcer.py").write_text(SOURCE.replace("nn.ReLU", "nn.Tanh"))
    sys.modules.pop("nets_for_pcer")
    os.utime(here / "nets_for_pcer.py", (1, 1))
    code, _, err = run(*COMPAS, *mine(), "-o", "out")
    assert (code, "was made with module_digest" in " ".join(err.split())) == (2, True)


def check_scores(folder: Path) -> None:
    make_net = importlib.import_module("nets_for_pcer").make_net
    compas = load("compas")
    rows = {seed: split(compas, seed=seed).train for seed in range(3)}
    data = TrainingData.of(compas.features, compas.labels, rows, allow_missing=True)
    config = TrainConfig(epochs=2, expected_batch=512, accountant="rdp")
    net = functools.partial(make_net, width=5)
    found = train_seeds(data, budgets=(np.inf, 1.0), config=config, module=net)
    index = json.loads((folder / "index.json").read_text())
    assert len(index["blocks"]) == 6
    for block in index["blocks"]:
        kept = np.load(folder / block["scores"])
        for scores, model in zip(kept, block["models"], strict=True):
            at = (0 if model["epsilon"] is None else 1, model["seed"])
            assert np.array_equal(scores, found.logits[at])


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
    code, _, err = run(*COMPAS, *mine(), "-o", "stopped")
    assert (code, "the disk is full" in err) == (2, True)
    monkeypatch.setattr(sweep_module, "save_block", save)
    trained: list[int] = []
    train_one = blocks.train_module
    monkeypatch.setattr(
        blocks, "train_module", lambda *a, **k: trained.append(1) or train_one(*a, **k)
    )
    for folder, n in (("stopped", 4), ("whole", 6)):
        code, _, err = run(*COMPAS, *mine(), "-o", folder)
        assert code == 0, err
        assert len(trained) == n
        trained.clear()
    name = "compas.race.release.json"
    assert (here / "stopped" / name).read_bytes() == (here / "whole" / name).read_bytes()


@pytest.mark.slow
def test_killed_and_gone_on_with_it_ends_in_the_same_bytes(run, here):
    """In two processes until a kill -9, then in one."""
    size = ("--seeds", "4", "--epochs", "10")
    command = [sys.executable, "-m", "pcer", *COMPAS, *mine(jobs=2), *size, "-o", "killed"]
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
        code, _, err = run(*COMPAS, *mine(), *size, "-o", folder)
        assert code == 0, err
    name = "compas.race.release.json"
    assert (here / "killed" / name).read_bytes() == (here / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--module", "make_net"), "must be package.module:Name, such as mymodels:make_net"),
        (("--module", "nowhere:make_net"), "nowhere cannot be imported"),
        (("--module", "nets_for_pcer:oak"), "nets_for_pcer has no oak"),
        (("--module", "nets_for_pcer:number"), "is int and cannot be called"),
        (("--module", "nets_for_pcer:mixing"), "layer '0' (BatchNorm1d) mixes the records"),
        ((*NET, *config(train={"settings": {"depth": 3}})), "argument 'depth'"),
        ((*NET, "--receipts", "held"), "--receipts is not for modules"),
        ((*NET, "--hidden", "8"), "--hidden is not for modules"),
        (mine(engine="ray"), "[engine]: engine is not for modules"),
        ((*NET, "--device", "cuda"), "--device is not for modules"),
        (mine(block_size=2), "one after another"),
        (mine(train={"refresh_every": 2}), "[train]: refresh_every is not for modules"),
        ((*NET, "--estimator", TREE), "give one of them"),
    ],
)
def test_what_a_module_cannot_be_gets_one_sentence(run, here, arguments, message):
    code, out, err = run(*COMPAS, *arguments, "-o", "out")
    assert code == 2
    assert message in " ".join(err.split())
    assert out == ""
    assert not (here / "out").exists()
