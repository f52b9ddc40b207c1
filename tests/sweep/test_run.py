"""Sweeps: the same bytes however interrupted or upgraded, and no work is lost."""

import dataclasses
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import pcer
from pcer.data import GroupedDataset, ProtectedAttribute, split
from pcer.errors import InputError, OutputError
from pcer.store.blocks import file_digest, is_sealed, owned
from pcer.sweep import Sweep, is_finished, run_sweep
from pcer.sweep import run as sweep_module
from pcer.sweep.run import version_note
from pcer.train import Accountant, EngineFlags, TrainConfig, train_seeds
from pcer.train.accounting import calibrate
from pcer.train.devices import installed_versions
from pcer.train.fleet import TrainingData
from pcer.train.run import prepare

N = 300
FLAGS = EngineFlags(jobs=1, block_size=3)
CONFIG = TrainConfig(
    epochs=1, expected_batch=50, hidden=(4,), accountant=Accountant.RDP
)
MODELS_AFTER_BLOCKS = (0, 2, 5, 8)


def make_dataset(
    name: str, features: np.ndarray, labels: np.ndarray, **groups
) -> GroupedDataset:
    """Public records, with names and codes of each attribute's groups."""
    return GroupedDataset(
        public=True,
        name=name,
        features=features.astype(np.float32),
        feature_names=tuple(f"f{k}" for k in range(features.shape[1])),
        labels=labels.astype(np.int64),
        attributes=tuple(
            ProtectedAttribute(name=attribute, group_names=names, codes=codes)
            for attribute, (names, codes) in groups.items()
        ),
        outcome="benefit",
        positive_label="yes",
        record_ids=np.arange(len(labels)) + 10,
        notes=("Made for a test.",),
    )


def tiny(**changes: object) -> Sweep:
    """A sweep of eight models in three blocks."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, 3))
    labels = features[:, 0] + rng.normal(size=N) > 0
    sex = (("f", "m"), rng.integers(0, 2, N))
    age = (("old", "young"), rng.integers(-1, 2, N))
    is_7 = (("no", "yes"), np.eye(N, dtype=int)[7])
    settings = {
        "dataset": make_dataset("tiny", features, labels, sex=sex, age=age, is_7=is_7),
        "attributes": ("sex", "age"),
        "budgets": (math.inf, 1.0),
        "seeds": (0, 1, 2, 3),
        "config": CONFIG,
    }
    return Sweep(**{**settings, **changes})  # type: ignore[arg-type]


def train(
    folder: Path, sweep: Sweep | None = None, **how: object
) -> tuple[list[int], list[str]]:
    """Run a sweep; gives the models that were done at each time, and what was told."""
    done: list[int] = []
    notes: list[str] = []
    how = {
        "on_progress": lambda n, total: done.append(n),
        "on_note": notes.append,
        **how,
    }
    run_sweep(sweep or tiny(), folder, **{"flags": FLAGS, **how})  # type: ignore[arg-type]
    return done, notes


def refuse(
    folder: Path, sentence: str, sweep: Sweep | None = None, **how: object
) -> None:
    with pytest.raises(InputError, match=sentence):
        train(folder, sweep, **how)


def begin(folder: Path, n_blocks: int) -> None:
    """A sweep that was stopped after some blocks."""

    def stop(done: int, total: int) -> None:
        if done == MODELS_AFTER_BLOCKS[n_blocks]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(folder, on_progress=stop)


def contents(folder: Path) -> dict[str, bytes]:
    """The releases and receipts of a folder."""
    files = [*folder.glob("*.release.json"), *folder.glob("*.receipts/*")]
    return {path.name: path.read_bytes() for path in files}


def released(folder: Path, attribute: str = "sex") -> pcer.Release:
    return pcer.read_release(folder / f"tiny.{attribute}.release.json")


def without(pattern: str, source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target, ignore=shutil.ignore_patterns(pattern)))


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A finished sweep with its three blocks of scores; not to be written into."""
    folder = tmp_path_factory.mktemp("kept")
    steps = list[str]()
    train(folder, keep_scores=True, on_step=steps.append)
    assert steps == ["checking with made-up groups"]
    return folder


@pytest.fixture(scope="module")
def finished(kept, tmp_path_factory) -> Path:
    """The same without scores."""
    return without("*.scores", kept, tmp_path_factory.mktemp("whole") / "out")


@pytest.fixture(scope="module")
def whole(finished) -> dict[str, bytes]:
    """Its releases."""
    return contents(finished)


@pytest.fixture
def stopped(kept, tmp_path) -> Path:
    """The same sweep, killed before its releases were written."""
    return without("*.release.json", kept, tmp_path / "out")


@pytest.mark.parametrize("attribute", ["sex", "age"])
def test_attacks_have_rows_over_all_models_and_made_up_groups_beside_them(
    finished, attribute
):
    """Each says how it varies with the benefit, and how made-up groups do."""
    release = released(finished, attribute)
    attacks = {"attack_advantage", "auc_advantage", "paired_gap", "paired_confidence"}
    assert {row.attack for row in release.pooled_exposure} == attacks
    assert len(release.pooled_exposure) == 2 * 2 * len(attacks)
    assert all(row.benefit_covariance is not None for row in release.pooled_exposure)
    assert len(release.placebo) == 2 * (1 + len(attacks))
    assert {row.attack for row in release.placebo} == {"overfitting_gap", *attacks}
    assert {(row.n_draws, row.n_permutations) for row in release.placebo} == {
        (200, 9_999)
    }
    assert all(row.p_value is not None for row in release.placebo)
    group = release.subject.groups[0]
    assert {"auc_advantage", "attack_advantage"} <= set(
        release.runs[0].groups[group].exposure
    )


def test_counts_against_a_loop(finished):
    sweep = tiny()
    release = released(finished, "age")
    dataset = sweep.dataset
    codes = sweep.dataset.attribute("age").codes
    rows = {seed: split(dataset, seed=seed).train for seed in sweep.seeds}
    data = TrainingData.of(dataset.features, dataset.labels, rows)
    scores = train_seeds(data, budgets=(1.0, math.inf), config=CONFIG, flags=FLAGS)
    for run in release.runs:
        b = int(run.epsilon is None)
        s = run.seed
        for g, name in enumerate(("old", "young")):
            for table, member in (
                (run.groups[name].train, True),
                (run.groups[name].test, False),
            ):
                rows = [
                    r
                    for r in range(N)
                    if codes[r] == g and scores.member[s, r] == member
                ]
                positive = [r for r in rows if scores.logits[b, s, r] >= 0]
                assert table.n == len(rows)
                assert table.tp == sum(dataset.labels[r] == 1 for r in positive)
                assert table.fp == sum(dataset.labels[r] == 0 for r in positive)
    assert release.subject.n_missing_group == int((codes < 0).sum()) > 0
    assert release.subject.notes[0] == "Made for a test."
    assert "the number of training records counts as public" in release.subject.notes[1]
    assert "LiRA and RMIA need at least 8 splits" in release.subject.notes[2]


def test_a_release_says_how_it_was_trained(finished):
    release = released(finished)
    private = next(run for run in release.runs if run.epsilon == 1.0)
    budget = calibrate(1.0, n_train=211, config=CONFIG)
    assert private.noise_multiplier == budget.noise_multiplier
    assert private.epsilon_by_accountant["rdp"] <= 1.0
    training = release.training
    joint = release.training.joint_privacy
    assert (training.split_kind, training.mechanism) == ("random", "dp-sgd")
    assert (training.config["epochs"], training.config["adjacency"]) == (1, "zero-out")
    assert (joint["private_models"], joint["models_without_privacy"]) == (4, 4)
    assert joint["adjacency"] == "zero-out"
    assert joint["epsilon_of_the_private_models"] > 1.0
    assert release.provenance.data_digest.startswith("sha256:")


KILLER = """
import os, signal, sys
from pathlib import Path
from pcer.store import blocks
from pcer.sweep import receipts, run, sweep
from tests.sweep.test_grid import grid_sweep
from tests.sweep.test_receipts import accounted
from tests.sweep.test_run import FLAGS, tiny

left, write = [None] * int(sys.argv[1]), blocks.write_files

def write_files(texts, **how):
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left.pop()
    write(texts, **how)

blocks.write_files = receipts.write_files = run.write_files = write_files
sweep.N_REPEATS = 0
run.run_sweep({sweep}, Path(sys.argv[2]), flags=FLAGS)
"""


def kill(sweep: str, n_writes: int, folder: Path) -> None:
    """Run a sweep that is killed after it has written so many times."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLER.replace("{sweep}", sweep), str(n_writes), folder],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not list(folder.glob("*.release.json"))


# Settings are written first; then an array and its names for every block; then the
# releases.
@pytest.mark.parametrize(
    "n_writes", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 6, 7))]
)
def test_a_killed_sweep_resumes_to_the_same_bytes(tmp_path, whole, n_writes):
    kill("tiny()", n_writes, tmp_path)
    done, _ = train(tmp_path)
    assert contents(tmp_path) == whole
    assert done[0] == MODELS_AFTER_BLOCKS[(n_writes - 1) // 2]
    assert {path.name for path in tmp_path.iterdir()} == set(whole)


def test_more_seeds_extend_a_sweep_whatever_its_flags_and_fewer_are_refused(
    tmp_path, whole
):
    train(tmp_path, tiny(seeds=(0, 1)))
    train(tmp_path, flags=EngineFlags(jobs=2, block_size=5))
    assert contents(tmp_path) == whole
    refuse(tmp_path, "holds 4 models that this sweep would drop", tiny(seeds=(0, 1)))


def test_changed_settings_and_a_folder_in_use_are_refused(finished, tmp_path):
    other = tiny(config=dataclasses.replace(CONFIG, epochs=2))
    begin(tmp_path, 1)
    refuse(tmp_path, r"tiny\.scores was made with epochs 1, but 2 is asked", other)
    refuse(finished, r"release\.json was made with epochs 1, but 2 is asked", other)
    named = dataclasses.replace(tiny().dataset, people="clerks")
    refuse(
        finished,
        r"release\.json was made with people None, but 'clerks'",
        tiny(dataset=named),
    )
    refuse(finished, "secret", tiny(secret=b"0123456789abcdef"))
    with owned(tmp_path / "tiny.scores"):
        refuse(tmp_path, "in use")


def test_a_secret_changes_every_private_model(tmp_path, finished):
    sweep = tiny(secret=b"0123456789abcdef", attributes=("sex",))
    assert "0123456789" not in repr(sweep)
    train(tmp_path, sweep)
    ours = [run.groups for run in released(tmp_path).runs if run.epsilon == 1.0]
    theirs = [run.groups for run in released(finished).runs if run.epsilon == 1.0]
    assert all(one != other for one, other in zip(ours, theirs, strict=True))


def test_a_secret_sweep_is_extended_unless_its_streams_had_other_names(tmp_path):
    sweep = tiny(secret=b"0123456789abcdef", attributes=("sex",))
    train(tmp_path / "whole", sweep, keep_scores=True)
    fewer = dataclasses.replace(sweep, seeds=(1, 3), budgets=(1.0,))
    train(tmp_path / "out", fewer)
    train(tmp_path / "out", sweep)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    for path in (
        "tiny.sex.release.json",
        "tiny.scores/settings.json",
    ):  # as an older version wrote
        older = tmp_path / "whole" / path
        tree = json.loads(older.read_text())
        del (tree.get("training", {}).get("config") or tree)["streams"]
        older.write_text(json.dumps(tree))
        for block in older.parent.glob("block-*.json"):
            block.unlink()
        refuse(
            tmp_path / "whole", r"was made with streams not given, but 'pcer/2'", sweep
        )
        older.unlink()


def test_nobody_is_found_by_tables_of_a_folder_and_nothing_is_trained_for_nothing(
    tmp_path,
):
    public = tiny().dataset
    few = np.where(np.arange(N) < 3, -1, public.attribute("age").codes % 2)
    codes = {"sex": public.attribute("sex").codes, "age": few}
    attributes = tuple(
        ProtectedAttribute(name=name, group_names=("a", "b"), codes=own)
        for name, own in codes.items()
    )
    private = dataclasses.replace(public, public=False, attributes=attributes)
    sweep = tiny(dataset=private, secret=b"x" * 16, budgets=(math.inf,), seeds=(0,))
    notes = train(tmp_path, sweep)[1]
    assert (
        "attribute 'age': fewer than two groups are left" in notes[0]
    )  # three have no age
    assert [path.name for path in tmp_path.glob("*.json")] == ["tiny.sex.release.json"]
    assert is_finished(sweep, tmp_path)
    assert train(tmp_path, sweep) == ([1], [])
    alone = dataclasses.replace(sweep, attributes=("age",))
    with pytest.raises(InputError, match="fewer than two groups are left"):
        train(tmp_path / "new", alone, on_progress=pytest.fail)
    with pytest.raises(InputError, match="name all attributes in one command"):
        train(tmp_path, alone)


def test_kept_scores_are_indexed_for_their_owner_and_releases_are_for_all(stopped):
    work = stopped / "tiny.scores"
    before = os.umask(0o022)
    work.chmod(0o755)
    try:
        train(stopped, keep_scores=True)
    finally:
        os.umask(before)
    assert work.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    modes = {path.stat().st_mode & 0o777 for path in stopped.glob("*.release.json")}
    assert modes == {0o644}
    index = json.loads((work / "index.json").read_text())
    assert index["record_ids"] == list(range(10, N + 10))
    models = []
    for block in index["blocks"]:
        models += [(model["epsilon"], model["seed"]) for model in block["models"]]
    assert set(models) == set(product((None, 1.0), range(4)))
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
    prepare(FLAGS)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, limits[1]))
    try:
        with pytest.raises(
            OutputError, match=r"\.npy cannot be written \(File too.* free space"
        ):
            train(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "tiny.scores").glob("*.npy"))
    assert not list((tmp_path / "tiny.scores").glob(".block*"))


def test_a_sweep_names_what_it_cannot_do(tmp_path):
    for sentence, changes in (
        ("no attribute 'height'", {"attributes": ("height",)}),
        ("budgets", {"budgets": ()}),
        ("seeds", {"seeds": (1, 1)}),
    ):
        with pytest.raises(InputError, match=sentence):
            tiny(**changes)
    large = tiny(config=dataclasses.replace(CONFIG, expected_batch=9999))
    refuse(tmp_path / "large", "expected_batch must be at most", large)
    assert not (tmp_path / "large").exists()
    alone = tiny(attributes=("is_7",), budgets=(math.inf,), seeds=(0,))
    refuse(tmp_path, r"tiny: runs\[0\]\.groups\.yes\.\w+: the group is empty", alone)


def flip(path: Path, place: float) -> None:
    """One bit, at a share of the file."""
    content = bytearray(path.read_bytes())
    bit = int(place * 8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


@pytest.mark.parametrize(("suffix", "place"), [(".npy", 0.9), (".json", 0.5)])
def test_a_damaged_block_is_found_and_trained_again(stopped, whole, suffix, place):
    path = sorted((stopped / "tiny.scores").glob(f"block-*{suffix}"))[1]
    flip(path, place)
    done, (note,) = train(stopped)
    assert contents(stopped) == whole
    assert done[0] in (5, 6)  # blocks of 3, 3 and 2 models
    assert f"{path.stem} (damaged)" in note


def test_lost_settings_let_25_epochs_not_pass_for_1(tmp_path, whole):
    train(
        tmp_path, tiny(config=dataclasses.replace(CONFIG, epochs=25)), keep_scores=True
    )
    for path in (
        *tmp_path.glob("*.release.json"),
        tmp_path / "tiny.scores" / "settings.json",
    ):
        path.unlink()
    done, (note,) = train(tmp_path)
    assert contents(tmp_path) == whole
    assert done[0] == 0
    assert note.count("(made with other settings)") == 3


def test_a_block_that_is_damaged_while_others_train_is_not_read(stopped):
    """After the check at the start: the sweep ends in a sentence; the next heals it."""
    path = min((stopped / "tiny.scores").glob("block-*.npy"))
    sentence = "is not as it was written; run again to make it again"
    refuse(stopped, sentence, on_progress=lambda done, total: flip(path, 0.5))
    assert not list(stopped.glob("*.release.json"))


def upgrade(monkeypatch, **versions: str) -> None:
    """From now on other versions are installed."""
    now = {**installed_versions(), **versions}
    monkeypatch.setattr(sweep_module, "installed_versions", lambda: now)


def test_an_upgrade_between_two_parts_is_told_and_written_into_the_release(
    tmp_path, monkeypatch
):
    begin(tmp_path, 1)
    before = installed_versions()
    upgrade(monkeypatch, pcer="99.1", torch="99.2")
    _, (sentence,) = train(tmp_path)
    old = f"pcer {before['pcer']} and torch {before['torch']}"
    assert f"write this release: 2 by {old}; trained by one" in sentence
    for attribute in ("sex", "age"):
        assert (
            released(tmp_path, attribute).subject.notes[1] == sentence
        )  # after the dataset's own


def test_models_that_are_not_of_this_sweep_are_not_named(tmp_path, monkeypatch):
    train(tmp_path, tiny(seeds=(2, 3)), keep_scores=True)
    for path in tmp_path.glob("*.release.json"):
        path.unlink()
    upgrade(monkeypatch, numba="99.0")
    _, notes = train(
        tmp_path, tiny(seeds=(0, 1), attributes=("sex",)), keep_scores=True
    )
    assert notes == []
    assert not any("versions" in note for note in released(tmp_path).subject.notes)


def test_versions_are_counted_by_what_differs_from_today_s():
    now = {"numpy": "2.4.0", "pcer": "0.2.0", "torch": "2.13.0"}
    old = {**now, "pcer": "0.1.0", "torch": "2.12.0"}
    less = {"numpy": "2.4.0", "pcer": "0.2.0"}
    assert version_note([now, dict(reversed(now.items()))], now) == []
    (sentence,) = version_note([old, now, less, old], now)
    parts = "release: 2 by pcer 0.1.0 and torch 2.12.0, 1 by torch (not noted); trained"
    assert parts in sentence
