"""Kept calibrations: the same answer, and never one that is damaged, foreign or too weak."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcer.cache import cache_folder
from pcer.errors import InputError
from pcer.train import accounting, calibrate
from pcer.train.accounting import Budget
from pcer.train.calibrations import Answer, keep_answer, kept_answer
from pcer.train.config import TrainConfig

N_TRAIN = 2_000
QUICK = TrainConfig(epochs=1, accountant="rdp")
PLD = TrainConfig(epochs=1, accountant="pld")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "calibrations"


@pytest.fixture
def searches(monkeypatch) -> list[float]:
    """The epsilons for which noise was really searched."""
    found, search = [], accounting._least_noise

    def counted(mechanism, epsilon, accountant):
        found.append(epsilon)
        return search(mechanism, epsilon, accountant)

    monkeypatch.setattr(accounting, "_least_noise", counted)
    return found


def answer(epsilon: float = 2.0, config: TrainConfig = QUICK) -> Budget:
    """What a new process would be told."""
    accounting._calibrated.cache_clear()
    return calibrate(epsilon, n_train=N_TRAIN, config=config)


def only(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


@pytest.mark.parametrize("accountant", ["pld", "prv", "rdp"])
def test_a_kept_answer_is_the_computed_one(cache, searches, accountant):
    config = TrainConfig(epochs=1, accountant=accountant)
    computed = answer(config=config)
    assert answer(config=config) == computed
    assert list(answer(config=config).epsilon_by_accountant) == list(computed.epsilon_by_accountant)
    assert searches == [2.0]
    only(cache).unlink()
    assert answer(config=config) == computed
    assert searches == [2.0, 2.0]


def test_another_question_is_another_file(cache, searches):
    answer()
    answer(3.0)
    answer(config=TrainConfig(epochs=2, accountant="rdp"))
    answer(config=TrainConfig(epochs=1, accountant="rdp", dp_delta=1e-6))
    assert len(list(cache.iterdir())) == len(searches) == 4


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"answer": 1}',
        b"\xff\xfe",
        b'{"answer": {"noise_multiplier": NaN, "epsilon": {}}}',
        b" " * 20_000,
    ],
)
def test_a_damaged_file_is_passed_over_and_replaced(cache, searches, damage):
    computed, whole = answer(), only(cache).read_bytes()
    only(cache).write_bytes(damage)
    assert answer() == computed
    assert only(cache).read_bytes() == whole
    assert len(searches) == 2


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("format",), "pcer-release"),
        (("version",), 2),
        (("question", "n_train"), N_TRAIN + 1),
        (("question", "method"), "0"),
        (("question", "versions", "opacus"), "0.0.1"),
        (("answer", "noise_multiplier"), 0.001),
        (("answer", "noise_multiplier"), "1.0"),
        (("answer", "noise_multiplier"), -1.0),
        (("answer", "noise_multiplier"), True),
        (("answer", "epsilon", "rdp"), 1.0),
        (("answer", "extra"), 1.0),
        (("digest",), "0" * 64),
    ],
)
def test_an_altered_file_is_not_used(cache, searches, place, value):
    computed = answer()
    tree = json.loads(only(cache).read_text())
    inner = tree
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    only(cache).write_text(json.dumps(tree))
    assert answer() == computed
    assert len(searches) == 2


def test_the_answer_to_another_question_is_not_used(cache, searches):
    answer(8.0)
    generous = only(cache)
    computed = answer(0.5)
    (strict,) = set(cache.iterdir()) - {generous}
    strict.write_bytes(generous.read_bytes())
    assert answer(0.5) == computed
    assert searches == [8.0, 0.5, 0.5]


@pytest.mark.parametrize("config", [QUICK, PLD], ids=["rdp", "pld"])
def test_noise_that_breaks_the_budget_is_not_used_whatever_the_file_says(cache, searches, config):
    """A whole file with a right digest, but written by something that was wrong."""
    computed = answer(config=config)
    mechanism = accounting._Mechanism(config.sampling(N_TRAIN), config.dp_delta)
    question = accounting._question(mechanism, 2.0, config.accountant)
    for share in (0.5, 0.97):
        weak = Answer(computed.noise_multiplier * share, computed.epsilon_by_accountant)
        keep_answer(question, weak)
        assert kept_answer(question) == weak
        assert answer(config=config) == computed
    over = dict.fromkeys(computed.epsilon_by_accountant, 2.5)
    keep_answer(question, Answer(computed.noise_multiplier, over))
    assert answer(config=config) == computed
    keep_answer(question, Answer(computed.noise_multiplier, {"other": 1.0}))
    assert answer(config=config) == computed
    assert len(searches) == 5


def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path, monkeypatch, searches):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "file"))
    assert answer() == answer()
    assert searches == [2.0, 2.0]


def test_a_full_disk_only_costs_time(cache, monkeypatch, searches):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pcer.jsonfile.os.fsync", full)
    assert answer() == answer()
    assert list(cache.iterdir()) == []
    assert searches == [2.0, 2.0]


def test_bad_questions_are_refused_and_not_kept(cache):
    with pytest.raises(InputError):
        answer(-1.0)
    assert answer(float("inf")).noise_multiplier == 0.0
    assert not cache.exists()


def test_the_users_cache_folder_is_the_default(monkeypatch, tmp_path):
    monkeypatch.delenv("PCER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name == "pcer"
