"""Sweeps: the same bytes however interrupted, and never over somebody else's work."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pcer
from pcer.data import GroupedDataset, ProtectedAttribute, split
from pcer.errors import InputError, OutputError
from pcer.store.blocks import file_digest, is_sealed, owned
from pcer.sweep import Sweep, run_sweep
from pcer.sweep import run as sweep_module
from pcer.sweep.receipts import read_receipts
from pcer.train import Accountant, EngineFlags, TrainConfig, train_seeds
from pcer.train.accounting import calibrate, epsilon_spent, joint_epsilon
from pcer.train.fleet import TrainingData
from pcer.train.run import prepare
from tests import commands

N = 300
FLAGS = EngineFlags(jobs=1, block_size=3)
CONFIG = TrainConfig(epochs=1, expected_batch=50, hidden=(4,), accountant=Accountant.RDP)


def tiny_dataset() -> GroupedDataset:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, 3)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=N) > 0).astype(np.int64)
    sex = rng.integers(0, 2, N)
    return GroupedDataset(
        public=True,
        name="tiny",
        features=features,
        feature_names=("a", "b", "c"),
        labels=labels,
        attributes=(
            ProtectedAttribute(name="sex", group_names=("f", "m"), codes=sex),
            ProtectedAttribute(
                name="age", group_names=("old", "young"), codes=rng.integers(-1, 2, N)
            ),
        ),
        outcome="benefit",
        positive_label="yes",
        record_ids=np.arange(N) + 10,
        notes=("Made for a test.",),
    )


def tiny(**changes: object) -> Sweep:
    settings = {
        "dataset": tiny_dataset(),
        "attributes": ("sex", "age"),
        "budgets": (math.inf, 1.0),
        "seeds": (0, 1, 2, 3),
        "config": CONFIG,
    }
    return Sweep(**{**settings, **changes})  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    """The releases and receipts of a folder."""
    files = [*folder.glob("*.release.json"), *folder.glob("*.receipts/*")]
    return {path.name: path.read_bytes() for path in files}


def released(folder: Path, attribute: str = "sex") -> pcer.Release:
    return pcer.read_release(folder / f"tiny.{attribute}.release.json")


@pytest.mark.parametrize("attribute", ["sex", "age"])
def test_costs_have_rows_over_all_models_and_coin_flips_beside_them(finished, attribute):
    """A release says of every cost how it varies with the benefit, and how coin flips do."""
    release = released(finished, attribute)
    costs = {"attack_advantage", "auc_advantage", "paired_gap", "paired_confidence"}
    assert {row.proxy for row in release.pooled_exposure} == costs
    assert len(release.pooled_exposure) == 2 * 2 * len(costs)
    assert all(row.benefit_covariance is not None for row in release.pooled_exposure)
    assert len(release.placebo) == 2 * (1 + len(costs))
    assert {row.proxy for row in release.placebo} == {"overfitting_gap", *costs}
    assert {(row.n_draws, row.n_permutations) for row in release.placebo} == {(200, 9_999)}
    assert all(row.p_value is not None for row in release.placebo)
    group = release.subject.groups[0]
    assert {"auc_advantage", "attack_advantage"} <= set(release.runs[0].groups[group].exposure)


def test_counts_against_a_loop(finished):
    sweep, release = tiny(), released(finished, "age")
    dataset, codes = sweep.dataset, sweep.dataset.attribute("age").codes
    rows = {seed: split(dataset, seed=seed).train for seed in sweep.seeds}
    data = TrainingData.of(dataset.features, dataset.labels, rows)
    scores = train_seeds(data, budgets=(1.0, math.inf), config=CONFIG, flags=FLAGS)
    for run in release.runs:
        b, s = int(run.epsilon is None), run.seed
        for g, name in enumerate(("old", "young")):
            for table, member in ((run.groups[name].train, True), (run.groups[name].test, False)):
                rows = [r for r in range(N) if codes[r] == g and scores.member[s, r] == member]
                positive = [r for r in rows if scores.logits[b, s, r] >= 0]
                assert table.n == len(rows)
                assert table.tp == sum(dataset.labels[r] == 1 for r in positive)
                assert table.fp == sum(dataset.labels[r] == 0 for r in positive)
    assert release.subject.n_missing_group == int((codes < 0).sum()) > 0
    assert release.subject.notes[0] == "Made for a test."
    assert "the number of training records counts as public" in release.subject.notes[1]
    assert "LiRA and RMIA need at least 8 seeds" in release.subject.notes[2]


def test_a_release_says_how_it_was_trained(finished):
    release = released(finished)
    private = next(run for run in release.runs if run.epsilon == 1.0)
    budget = calibrate(1.0, n_train=211, config=CONFIG)
    assert private.noise_multiplier == budget.noise_multiplier
    assert private.epsilon_by_accountant["rdp"] <= 1.0
    training, joint = release.training, release.training.joint_privacy
    assert (training.split_kind, training.mechanism) == ("random", "dp-sgd")
    assert (training.config["epochs"], training.config["adjacency"]) == (1, "zero-out")
    assert (joint["private_models"], joint["models_without_privacy"]) == (4, 4)
    assert joint["adjacency"] == "zero-out"
    assert joint["epsilon_of_the_private_models"] > 1.0
    assert release.provenance.data_digest.startswith("sha256:")


def test_a_group_that_a_split_leaves_empty_is_one_sentence(tmp_path):
    codes = np.zeros(N, dtype=np.int64)
    codes[7] = 1
    lonely = ProtectedAttribute(name="team", group_names=("many", "one"), codes=codes)
    dataset = dataclasses.replace(tiny_dataset(), attributes=(lonely,))
    sweep = tiny(dataset=dataset, attributes=("team",), budgets=(math.inf,), seeds=(0,))
    with pytest.raises(InputError, match=r"tiny: runs\[0\]\.groups\.one\.\w+: the group is empty"):
        run_sweep(sweep, tmp_path, flags=FLAGS)


def test_joint_privacy_of_one_model_is_its_own():
    budget = calibrate(1.0, n_train=211, config=CONFIG)
    alone = epsilon_spent(
        budget.noise_multiplier, n_train=211, config=CONFIG, accountant=Accountant.RDP
    )
    one = joint_epsilon([budget.noise_multiplier], n_train=211, config=CONFIG)
    two = joint_epsilon([budget.noise_multiplier] * 2, n_train=211, config=CONFIG)
    assert one == pytest.approx(alone, rel=1e-12)
    assert one < two < 2 * one
    assert joint_epsilon([], n_train=211, config=CONFIG) == 0.0


def test_block_size_and_jobs_change_nothing(tmp_path, whole):
    run_sweep(tiny(), tmp_path, flags=EngineFlags(jobs=2, block_size=5))
    assert contents(tmp_path) == whole


MODELS_AFTER_BLOCKS = (0, 2, 5, 8)

KILLER = """
import os, signal, sys
from pathlib import Path
from pcer.store import blocks
from pcer.sweep import run as sweep
from tests.sweep.test_receipts import accounted
from tests.sweep.test_run import FLAGS, tiny

stage, block, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
seen = 0
save, write = sweep.save_block, sweep.write_files

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def save_block(*arguments, **more):
    global seen
    seen += 1
    if stage == "before" and seen == block:
        die()
    save(*arguments, **more)
    if stage == "after" and seen == block:
        die()

def write_files(texts, **how):
    names = [Path(path).name for path in texts]
    if stage == "between" and seen == block and names[0].endswith(".json"):
        die()
    if stage == "release" and any(name.endswith(".release.json") for name in names):
        die()
    write(texts, **how)

sweep.save_block = save_block
sweep.write_files = blocks.write_files = write_files
sweep.run_sweep({sweep}, folder, flags=FLAGS)
"""


def kill(sweep: str, stage: str, block: int, folder: Path) -> None:
    """Run a sweep that is killed at a stage."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLER.replace("{sweep}", sweep), stage, str(block), folder],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not list(folder.glob("*.release.json"))


def and_more(*cases: tuple[object, ...]) -> list[object]:
    """The first case, and the others where time does not matter."""
    return [cases[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in cases[1:])]


@pytest.mark.parametrize(
    ("stage", "block"),
    and_more(("between", 1), ("release", 0), ("before", 1), ("after", 1), ("between", 3)),
)
def test_a_killed_sweep_resumes_to_the_same_bytes(tmp_path, whole, stage, block):
    kill("tiny()", stage, block, tmp_path)
    trained: list[int] = []
    run_sweep(tiny(), tmp_path, flags=FLAGS, on_progress=lambda done, total: trained.append(done))
    assert contents(tmp_path) == whole
    done = {"before": block - 1, "between": block - 1, "after": block, "release": 3}[stage]
    assert trained[0] == MODELS_AFTER_BLOCKS[done]
    assert {path.name for path in tmp_path.iterdir()} == set(whole)


def test_a_finished_sweep_is_not_trained_again(finished, whole, monkeypatch):
    monkeypatch.setattr(sweep_module, "run_blocks", None)
    run_sweep(tiny(), finished, flags=FLAGS)
    assert contents(finished) == whole


def test_more_seeds_extend_a_sweep_and_fewer_are_refused(tmp_path, whole):
    run_sweep(tiny(seeds=(0, 1)), tmp_path, flags=FLAGS)
    run_sweep(tiny(), tmp_path, flags=FLAGS)
    assert contents(tmp_path) == whole
    with pytest.raises(InputError, match="holds 4 models that this sweep would drop"):
        run_sweep(tiny(seeds=(0, 1)), tmp_path, flags=FLAGS)


def test_two_sweeps_on_one_folder(tmp_path):
    with owned(tmp_path / "tiny.scores"), pytest.raises(InputError, match="in use"):
        run_sweep(tiny(), tmp_path, flags=FLAGS)


def test_changed_settings_refuse_a_folder_and_a_release(finished, tmp_path):
    other = tiny(config=dataclasses.replace(CONFIG, epochs=2))
    begin(tmp_path, 1)
    with pytest.raises(InputError, match=r"tiny\.scores was made with epochs 1, but 2 is asked"):
        run_sweep(other, tmp_path, flags=FLAGS)
    with pytest.raises(InputError, match=r"release\.json was made with epochs 1, but 2 is asked"):
        run_sweep(other, finished, flags=FLAGS)
    with pytest.raises(InputError, match="secret"):
        run_sweep(tiny(secret=b"0123456789abcdef"), finished, flags=FLAGS)


def begin(folder: Path, n_blocks: int) -> None:
    """A sweep that was stopped after some blocks of three models."""
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) > n_blocks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(tiny(), folder, flags=FLAGS, on_progress=stop)


def test_a_secret_changes_every_private_model(tmp_path, finished):
    run_sweep(tiny(secret=b"0123456789abcdef", attributes=("sex",)), tmp_path, flags=FLAGS)
    ours, theirs = (
        [run.groups for run in released(folder).runs if run.epsilon == 1.0]
        for folder in (tmp_path, finished)
    )
    assert all(one != other for one, other in zip(ours, theirs, strict=True))


def test_kept_scores_are_indexed(kept):
    work = kept / "tiny.scores"
    index = json.loads((work / "index.json").read_text())
    assert index["record_ids"] == list(range(10, N + 10))
    models = {(m["epsilon"], m["seed"]) for block in index["blocks"] for m in block["models"]}
    assert models == {(e, s) for e in (None, 1.0) for s in range(4)}
    for block in index["blocks"]:
        scores = np.load(work / block["scores"], allow_pickle=False)
        assert scores.shape == (len(block["models"]), N)
        assert scores.dtype == np.float32
        assert file_digest(work / block["scores"]) == block["sha256"]
    member = np.load(work / index["membership"], allow_pickle=False)
    assert member.sum(axis=1).tolist() == [211] * 4
    assert file_digest(work / index["membership"]) == index["membership_sha256"]
    assert is_sealed(index)


def test_no_room_on_the_disk(tmp_path):
    """A file may not grow beyond two kilobytes: the first block does not fit."""
    import resource

    prepare(FLAGS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"\.npy cannot be written \(File too.* make room"):
            run_sweep(tiny(), tmp_path, flags=FLAGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "tiny.scores").glob("*.npy"))
    assert not list((tmp_path / "tiny.scores").glob(".block*"))


def test_a_sweep_names_what_it_cannot_do():
    with pytest.raises(InputError, match="no attribute 'height'"):
        tiny(attributes=("height",))
    for empty in ({"budgets": ()}, {"seeds": (1, 1)}):
        with pytest.raises(InputError, match=next(iter(empty))):
            tiny(**empty)


def test_training_an_own_table_from_the_command_line(tmp_path):
    rng, own_table, out = np.random.default_rng(1), tmp_path / "loans.csv", tmp_path / "out"
    lines = [
        f"{k % 13},{'xyz'[k % 3]},{'fm'[k % 2]},{rng.choice(['yes', 'no'])}" for k in range(400)
    ]
    own_table.write_text("\n".join(["income,region,sex,approved", *lines]))
    said = ("--label", "approved", "--positive", "yes", "--outcome", "benefit")
    quick = (
        *("--budgets", "none,2", "--seeds", 2, "--epochs", 1, "--batch", 64),
        *("--receipts", "held"),
        *commands.config(train={"accountant": "rdp"}, engine={"jobs": 1}),
    )
    done = commands.start("train", own_table, "--attribute", "sex", *said, *quick, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "next: pcer audit" in done.stdout
    assert "income" in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "made a secret" in line)
    secret = Path(line.partition(": made")[0])
    assert secret.stat().st_mode & 0o077 == 0
    assert out.resolve() not in secret.resolve().parents
    release = pcer.read_release(out / "loans.sex.release.json")
    assert release.training.config["noise_from_secret"] is True
    assert len(release.runs) == 4
    log = (out / "run.log").read_text()
    assert re.search(r"Z train loans: 4 models, 0 of them found trained, in [\d.]+ s; local", log)
    assert commands.run("audit", out).returncode == 0
    assert release.bounds
    assert f"pcer receipt {out} --record ID" in done.stdout
    somebody = read_receipts(out / "loans.receipts")[0].record_ids[0]
    assert commands.run("receipt", out, "--record", somebody).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compas", "--budgets", "-1"), "an epsilon between 0.0001 and 10000, .* or 'none'"),
        (("compas", "--budgets", "tight"), "'tight' was given"),
        (("compas", "--batch", "9999"), "expected_batch must be at most"),
        (("compas", "--device", "cuda"), "no CUDA device|cuda"),
        (("compas", "--device", "tpu"), "device must be"),
        (("compas", "--clip-norm", "0"), "clip_norm must be"),
        (("compas", "--hidden", "a"), "--hidden must be whole numbers"),
        (("compas", "--budgets", "1,1"), "budgets must name each one once"),
        (("nowhere.csv",), "neither a dataset"),
    ],
)
def test_bad_training_input(tmp_path, arguments, message):
    done = commands.run(
        "train", *arguments, "--attribute", "race", "--seeds", 1, "-o", tmp_path / "out"
    )
    assert done.returncode == 2
    assert re.search(message, done.stderr.splitlines()[-1]), done.stderr
    assert not list((tmp_path).rglob("*.release.json"))
