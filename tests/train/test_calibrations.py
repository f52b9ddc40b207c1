"""Kept calibrations: the same answer, and never one that is damaged, foreign or too weak."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pcer.errors import InputError
from pcer.files import cache_folder
from pcer.train import accounting, calibrate
from pcer.train.accounting import Budget
from pcer.train.config import Accountant, TrainConfig

N_TRAIN = 2_000
CONFIG = TrainConfig(epochs=1, accountant="rdp")
REAL = TrainConfig(epochs=1, expected_batch=20)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "calibrations"


@pytest.fixture
def quick(monkeypatch) -> Iterator[None]:
    """Accountants that answer at once: what is spent is 3 / noise."""

    def spent(mechanism, noise, scale, coarse):
        return 3 / noise

    accounting._spent.cache_clear()
    monkeypatch.setattr(accounting, "_pld", spent)
    monkeypatch.setattr(accounting, "_ESTIMATE", dict.fromkeys(Accountant, spent))
    yield
    accounting._spent.cache_clear()


@pytest.fixture
def searches(monkeypatch) -> list[float]:
    """The epsilons for which noise was really searched."""
    found, search = [], accounting._least_noise

    def counted(mechanism, epsilon, accountant):
        found.append(epsilon)
        return search(mechanism, epsilon, accountant)

    monkeypatch.setattr(accounting, "_least_noise", counted)
    return found


def answer(epsilon: float = 2.0, config: TrainConfig = CONFIG) -> Budget:
    """What a new process would be told."""
    accounting._calibrated.cache_clear()
    return calibrate(epsilon, n_train=N_TRAIN, config=config)


def only(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


@pytest.mark.parametrize("accountant", ["pld", "prv", "rdp"])
def test_a_kept_answer_is_the_computed_one(cache, searches, accountant):
    config = replace(REAL, accountant=accountant)
    computed = answer(0.2, config)
    kept = answer(0.2, config)
    assert kept == computed
    assert list(kept.epsilon_by_accountant) == list(computed.epsilon_by_accountant)
    assert searches == [0.2]
    only(cache).unlink()
    assert answer(0.2, config) == computed
    assert searches == [0.2, 0.2]


@pytest.mark.parametrize("accountant", ["pld", "prv", "rdp"])
def test_noise_that_breaks_the_budget_is_not_used_whatever_the_file_says(accountant):
    """A whole file with a right digest, but written by something that was wrong."""
    mechanism = accounting._Mechanism(REAL.sampling(N_TRAIN), REAL.dp_delta)
    kept = {accountant: 0.2, str(accounting._SECOND[Accountant(accountant)]): 0.2}

    def is_used(noise):
        answer = Budget(epsilon=0.2, noise_multiplier=noise, epsilon_by_accountant=kept)
        return accounting._keeps_budget(answer, mechanism, Accountant(accountant))

    assert is_used(1.927)  # PLD, to the nearest thousandth
    assert is_used(2.5)
    assert not is_used(1.85)
    assert not is_used(0.5)


@pytest.mark.usefixtures("quick")
def test_another_question_is_another_file(cache, searches):
    answer()
    answer(3.0)
    answer(config=TrainConfig(epochs=2, accountant="rdp"))
    answer(config=TrainConfig(epochs=1, accountant="rdp", dp_delta=1e-6))
    assert len(list(cache.iterdir())) == len(searches) == 4


@pytest.mark.usefixtures("quick")
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


@pytest.mark.usefixtures("quick")
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


@pytest.mark.usefixtures("quick")
def test_the_answer_to_another_question_is_not_used(cache, searches):
    answer(8.0)
    generous = only(cache)
    computed = answer(0.5)
    (strict,) = set(cache.iterdir()) - {generous}
    strict.write_bytes(generous.read_bytes())
    assert answer(0.5) == computed
    assert searches == [8.0, 0.5, 0.5]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("noise", "spent"),
    [
        (1.0, {"rdp": 2.0, "pld": 2.0}),
        (1.5, {"rdp": 2.5, "pld": 2.0}),
        (1.5, {"pld": 2.0, "rdp": 2.0}),
        (1.5, {"rdp": 2.0}),
    ],
)
def test_a_whole_file_with_a_wrong_answer_is_not_used(searches, noise, spent):
    wrong = Budget(epsilon=2.0, noise_multiplier=noise, epsilon_by_accountant=spent)
    mechanism = accounting._Mechanism(CONFIG.sampling(N_TRAIN), CONFIG.dp_delta)
    question = accounting._question(mechanism, 2.0, CONFIG.accountant)
    accounting._keep_answer(question, wrong)
    assert accounting._kept_answer(question) == wrong
    assert answer().noise_multiplier == 1.5
    assert searches == [2.0]


@pytest.mark.usefixtures("quick")
def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path, monkeypatch, searches):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "file"))
    assert answer() == answer()
    assert searches == [2.0, 2.0]


@pytest.mark.usefixtures("quick")
def test_a_full_disk_only_costs_time(cache, monkeypatch, searches):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pcer.files.os.fsync", full)
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
