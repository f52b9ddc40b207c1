"""``pcer train`` as a user meets it: large runs, estimators, torch modules."""

import functools
import importlib
import json
import os
import sys
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest

import pcer
from pcer.data import load, split
from pcer.errors import OutputError
from pcer.metrics import DEFAULT_SPLITS
from pcer.release.file import LIMITS
from pcer.sweep import run as sweep_module
from pcer.sweep.sweep import N_REPEATS, REPEATS_FROM
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds
from pcer.train import run as blocks
from tests.commands import MODULE, config, passed, refusal, start, write_people

RACE = ("train", "compas", "--attribute", "race")
QUICK = (
    "--epochs",
    "1",
    "--batch",
    "1000",
    "--hidden",
    "4",
    *config(engine={"jobs": 1}),
)
OWN = ("--label", "approved", "--positive", "yes", "--outcome", "benefit")


def test_what_is_too_large_for_a_reader_is_written_and_said(monkeypatch, tmp_path):
    monkeypatch.setitem(vars(LIMITS), "n_values", 200)  # two models of two groups
    sweep = (*RACE, "--budgets", "none", *QUICK, "-o", tmp_path, "--seeds")
    assert "--allow-large" not in passed(*sweep, 2).stderr
    path = tmp_path / "compas.race.release.json"
    path.unlink()
    for _ in range(2):  # the second run finds the release
        first = passed(*sweep, 3).stderr.splitlines()[0]
        assert first.endswith("its auditor will then need --allow-large.")
    assert "values, more than the 200" in refusal("audit", path)
    passed("audit", path, "--allow-large", path)


def of_tree(engine=None, **settings):
    tables = {"train": {"settings": settings}, "engine": {"jobs": 1, **(engine or {})}}
    return ("--estimator", "sklearn.tree:DecisionTreeClassifier", *config(**tables))


def test_an_own_table_gets_a_release_per_attribute(tmp_path):
    attributes = ("--attribute", "sex", "--attribute", "race")
    out = tmp_path / "out"
    people = write_people(tmp_path / "loans.csv")
    words = (
        "--people",
        "clerks",
        "--positive-means",
        "are paid",
        "--group-names",
        "x=Left,z=Up",
    )
    command = (
        "train",
        people,
        *OWN,
        *attributes,
        *of_tree(max_depth=4),
        *words,
        "-o",
        out,
    )
    assert f"next: pcer audit {out}" in passed(*command, "--seeds", "4").stdout
    found = [
        pcer.read_release(out / f"loans.{name}.release.json")
        for name in ("sex", "race")
    ]
    for name, release in zip(("sex", "race"), found, strict=True):
        assert release.subject.attribute == name
        assert len(release.runs) == 4
        assert release.disclosure.public_data is False
        assert release.provenance.data_digest.startswith("hmac-sha256:")
        model = release.training.config["models"]["Pipeline"]
        assert model["decisiontreeclassifier__max_depth"] == 4
        assert "random_state" not in release.training.config
        assert (release.subject.people, release.subject.positive_means) == (
            "clerks",
            "are paid",
        )
    assert [release.subject.groups for release in found] == [
        ["first", "second"],
        ["Left", "Up"],
    ]
    assert found[0].provenance.data_digest == found[1].provenance.data_digest
    assert not (out / "loans.scores").exists()
    assert "cooper" not in (out / "loans.sex.release.json").read_text()
    told = passed(*command, code=2).stderr
    assert "exists already; remove it, or choose another folder" in told


def test_a_benchmark_gives_what_python_gives_by_default(tmp_path):
    """Splits, their number and every byte of the release."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    passed(*RACE, *of_tree(engine={"keep_scores": True}, max_depth=2), "-o", tmp_path)
    compas = load("compas")
    race = compas.attribute("race")
    tree = DecisionTreeClassifier(max_depth=2)
    made = pcer.release_from_estimator(
        make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), tree),
        np.array(compas.features),
        np.array(compas.labels),
        sensitive_features={"race": np.array(race.group_names)[race.codes]},
        outcome="harm",
        positive_label=1,
        progress=False,
        about=pcer.About(
            dataset="compas",
            groups=race.group_names,
            people="defendants",
            positive_means="are predicted to be charged again",
            model=(
                "A DecisionTreeClassifier trained on the COMPAS data (not the COMPAS "
                "score)"
            ),
            membership_means=compas.membership_means,
            notes=compas.notes,
        ),
        disclosure=pcer.Disclosure(public_data=True),
    )
    assert (tmp_path / "compas.race.release.json").read_text() == made.to_json()
    assert (
        len(list((tmp_path / "compas.scores").glob("block-*.npy")))
        == DEFAULT_SPLITS
        == 20
    )


def test_an_estimator_of_ones_own_folder(tmp_path, monkeypatch):
    write_people(tmp_path / "loans.csv")
    (tmp_path / "mine_for_pcer.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n"
        "def make(smoothing, priors):\n"
        "    assert priors is None\n    return GaussianNB(var_smoothing=smoothing)\n"
    )
    monkeypatch.chdir(tmp_path)
    settings = config(train={"settings": {"smoothing": 0.5, "priors": "None"}})
    command = (
        "train",
        "loans.csv",
        *OWN,
        "--attribute",
        "sex",
        "--seeds",
        "2",
        "-o",
        "out",
    )
    passed(*command, "--estimator", "mine_for_pcer:make", *settings)
    release = pcer.read_release(tmp_path / "out" / "loans.sex.release.json")
    assert (
        release.training.config["models"]["Pipeline"]["gaussiannb__var_smoothing"]
        == 0.5
    )


COMPAS = (
    *RACE,
    "--epochs",
    "2",
    "--batch",
    "512",
    "--budgets",
    "none,1",
    "--seeds",
    "3",
)
RDP = config(train={"accountant": "rdp"})
NET = ("--module", "nets_for_pcer:make_net")


def mine(act="relu", **engine):
    train = {"accountant": "rdp", "settings": {"width": 5, "act": act}}
    return (*NET, *config(train=train, engine={"jobs": 1, **engine}))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the user, with a file of theirs in it."""
    (tmp_path / "nets_for_pcer.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("nets_for_pcer", None)


def test_a_sweep_of_modules_gives_a_release_like_every_other(here):
    """Scores are those of ``train_seeds``; no other module resumes in its folder."""
    done = passed(*COMPAS, *mine(keep_scores=True), "-o", "out")
    assert "next: pcer audit out" in done.stdout
    assert str(here) not in sys.path
    release = pcer.read_release("out/compas.race.release.json")
    keys = [(one.epsilon, one.seed) for one in release.runs]
    assert keys == [(epsilon, seed) for epsilon in (1.0, None) for seed in range(3)]
    assert {row.attack for row in release.pooled_exposure} >= {
        "paired_gap",
        "paired_confidence",
    }
    made = release.training.config
    expected = {"module": NET[1], "module_settings": {"width": 5}, "module_weights": 41}
    assert expected.items() <= made.items()
    assert "hidden" not in made
    assert release.runs[0].epsilon_by_accountant["rdp"] <= 1.0
    assert release.training.mechanism == "dp-sgd"
    check_scores(here / "out" / "compas.scores")
    for arguments, sentence in (
        (RDP, "was made with module 'nets_for_pcer:make_net', but None is asked for"),
        ((*NET, *RDP), "was made with module_settings {'width': 5}"),
        (mine(act="tanh"), "was made with module_digest"),
        (mine(), "was made with module_digest"),
    ):
        if arguments == mine():  # the same name, and another network behind it
            (here / "nets_for_pcer.py").write_text(MODULE.replace("nn.ReLU", "nn.Tanh"))
            sys.modules.pop("nets_for_pcer")
            os.utime(here / "nets_for_pcer.py", (1, 1))
        told = passed(*COMPAS, *arguments, "-o", "out", code=2).stderr
        assert sentence in " ".join(told.split())


def check_scores(folder: Path) -> None:
    make_net = importlib.import_module("nets_for_pcer").make_net
    compas = load("compas")
    rows = {seed: split(compas, seed=seed).train for seed in range(3)}
    rows |= {REPEATS_FROM + k: rows[0] for k in range(N_REPEATS)}
    found = train_seeds(
        TrainingData.of(compas.features, compas.labels, rows, allow_missing=True),
        budgets=(np.inf, 1.0),
        config=TrainConfig(epochs=2, expected_batch=512, accountant="rdp"),
        flags=EngineFlags(jobs=1),
        module=functools.partial(make_net, width=5),
    )
    index = json.loads((folder / "index.json").read_text())
    assert len(index["blocks"]) == 6 + 2 * N_REPEATS
    for block in index["blocks"]:
        for scores, model in zip(
            np.load(folder / block["scores"]), block["models"], strict=True
        ):
            at = (0 if model["epsilon"] is None else 1, [*rows].index(model["seed"]))
            assert np.array_equal(scores, found.logits[at])


@pytest.mark.usefixtures("here")
def test_stopped_and_gone_on_with_it_ends_in_the_same_bytes(monkeypatch):
    """After two models; all others are trained, repeats too, and no more."""
    save = Mock(wraps=sweep_module.save_block)
    train_one = Mock(wraps=blocks.train_module)
    monkeypatch.setattr(sweep_module, "save_block", save)
    monkeypatch.setattr(blocks, "train_module", train_one)
    save.side_effect = [DEFAULT, DEFAULT, OutputError("the disk is full.")]
    assert (
        "the disk is full" in passed(*COMPAS, *mine(), "-o", "stopped", code=2).stderr
    )
    save.side_effect = None
    texts = set()
    n_models = 6 + 2 * N_REPEATS
    for folder, n in (("stopped", n_models - 2), ("whole", n_models)):
        train_one.reset_mock()
        passed(*COMPAS, *mine(), "-o", folder)
        assert train_one.call_count == n
        texts.add(Path(folder, "compas.race.release.json").read_bytes())
    assert len(texts) == 1


@pytest.mark.slow
def test_the_demo_ends_with_the_finding_a_table_and_the_page(tmp_path):
    out = tmp_path / "demo"
    done = start("demo", "--seeds", 2, "-o", out)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    audit = json.loads((out / "compas.audit.json").read_text(encoding="utf-8"))
    assert (len(lines) <= 70, max(map(len, lines[:-2])) <= 80) == (True, True)
    assert audit["headline"] in " ".join(lines)
    what = "A network trained by the demo on the COMPAS data (not the COMPAS score)"
    assert audit["subject"]["model"] == what
    assert sum(line.startswith("What each setting gives") for line in lines) == 1
    assert lines[-1] == f"Report: {out / 'report.html'}"
    assert (out / "report.html").exists()
