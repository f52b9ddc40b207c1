"""Noise that keeps a budget; kept answers, and never one that is damaged, foreign or too weak."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from pcer.errors import InputError
from pcer.train import accounting
from pcer.train.accounting import Budget, calibrate, epsilon_spent, joint_epsilon
from pcer.train.config import Accountant, TrainConfig

ADULT, COMPAS = 32_223, 4_320

# PLD noise multipliers at batch 256, 25 epochs, delta 1e-5, to the nearest thousandth, from
# dp-accounting 0.6.0 (value_discretization_interval=1e-4) by bisection.
REFERENCE = [
    *((ADULT, 1, 1.829), (COMPAS, 0.5, 8.632)),
    pytest.param(ADULT, 0.1, 13.776, marks=pytest.mark.slow),
    pytest.param(COMPAS, 5, 1.333, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("n_train", "epsilon", "noise"), REFERENCE)
def test_noise_keeps_the_budget_and_is_near_the_reference(n_train, epsilon, noise):
    budget = calibrate(epsilon, n_train=n_train, config=TrainConfig())
    assert noise <= budget.noise_multiplier <= noise + 0.002
    assert budget.epsilon_by_accountant["pld"] <= epsilon
    assert budget.epsilon_by_accountant["rdp"] > budget.epsilon_by_accountant["pld"]


def test_one_full_batch_step_is_the_gaussian_mechanism():
    """Without sampling and with one step the exact answer is known (Balle and Wang 2018)."""
    config = TrainConfig(epochs=1, expected_batch=50)
    spent = epsilon_spent(2.0, n_train=50, config=config, accountant=Accountant.PLD)

    def delta(epsilon):
        upper, lower = (math.erfc((2 * epsilon + d) / math.sqrt(2)) / 2 for d in (-0.25, 0.25))
        return upper - math.exp(epsilon) * lower

    assert delta(spent) <= config.dp_delta <= delta(spent - 0.001)


def test_a_budget_is_above_zero_and_a_generous_one_still_gets_noise_that_keeps_it():
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(InputError):
            calibrate(epsilon, n_train=COMPAS, config=TrainConfig())
    budget = calibrate(200.0, n_train=1_000, config=TrainConfig(epochs=1))
    assert budget.noise_multiplier > 0
    assert budget.epsilon_by_accountant["pld"] <= 200.0


def test_joint_privacy_of_one_model_is_its_own():
    alone = epsilon_spent(2.0, n_train=N_TRAIN, config=CONFIG, accountant=Accountant.RDP)
    none, one, two = (joint_epsilon([2.0] * n, n_train=N_TRAIN, config=CONFIG) for n in range(3))
    assert one == pytest.approx(alone, rel=1e-12)
    assert one < two < 2 * one
    assert none == 0


N_TRAIN = 2_000
CONFIG = TrainConfig(epochs=1, accountant="rdp")
REAL = TrainConfig(epochs=1, expected_batch=20)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "calibrations"


@pytest.fixture
def quick(monkeypatch) -> Iterator[None]:
    """Accountants that answer at once: what is spent is 3 / noise."""

    def spent(sampling, delta, noise, scale, coarse):
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

    def counted(sampling, delta, epsilon, accountant):
        found.append(epsilon)
        return search(sampling, delta, epsilon, accountant)

    monkeypatch.setattr(accounting, "_least_noise", counted)
    return found


def answer(epsilon: float = 2.0, config: TrainConfig = CONFIG) -> Budget:
    """What a new process would be told."""
    accounting._calibrated.cache_clear()
    return calibrate(epsilon, n_train=N_TRAIN, config=config)


def only(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


@pytest.mark.parametrize(("accountant", "second"), [("pld", "rdp"), ("prv", "pld"), ("rdp", "pld")])
def test_the_least_noise_that_keeps_the_budget_is_found_once(cache, searches, accountant, second):
    config = replace(REAL, accountant=accountant)
    computed, kept = answer(0.2, config), answer(0.2, config)
    assert kept == computed
    assert list(kept.epsilon_by_accountant) == [accountant, second]
    assert searches == [0.2]
    assert kept.epsilon_by_accountant[accountant] <= 0.2
    less, who = kept.noise_multiplier - 0.001, Accountant(accountant)
    assert epsilon_spent(less, n_train=N_TRAIN, config=config, accountant=who) > 0.2
    weak = replace(kept, noise_multiplier=0.7 * kept.noise_multiplier)  # whatever the file says
    assert not accounting._keeps_budget(weak, config.sampling(N_TRAIN), config.dp_delta, who)


def wrong(noise: float, **spent: float) -> Budget:
    return Budget(epsilon=2.0, noise_multiplier=noise, epsilon_by_accountant=spent)


DAMAGED = [
    *(b"", b"[]", b'{"answer": {"noise_multiplier": 1.0, "epsilon": []}}'),
    *(b"\xff\xfe", b" " * 20_000),
    *(("format", "pcer-release"), ("version", 2), ("sha256", "0" * 64)),
    *(("question", "n_train", N_TRAIN + 1), ("question", "method", "0")),
    ("question", "versions", "opacus", "0.0.1"),
    *(("answer", "noise_multiplier", value) for value in (0.001, "1.0", -1.0, True)),
    *(("answer", "epsilon", "rdp", 1.0), ("answer", "extra", 1.0)),
    wrong(1.0, rdp=2.0, pld=2.0),
    wrong(1.5, rdp=2.5, pld=2.0),
    wrong(1.5, pld=2.0, rdp=2.0),
    wrong(1.5, rdp=2.0),
]


@pytest.mark.usefixtures("quick", "cache")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_altered_or_wrong_file_is_passed_over_and_replaced(cache, searches, damage):
    """By other bytes, another value at a place of it, or a whole record of a wrong answer."""
    computed, whole = answer(), only(cache).read_bytes()
    tree, content = json.loads(whole), damage
    question, is_whole = tree["question"], isinstance(damage, Budget)
    if isinstance(damage, tuple):
        *names, last, value = damage
        reduce(getitem, names, tree)[last] = value
        content = json.dumps(tree).encode()
    elif is_whole:
        content = json.dumps(accounting._record(question, damage)).encode()
    only(cache).write_bytes(content)
    assert accounting._kept_answer(only(cache), question) == (damage if is_whole else None)
    assert answer() == computed
    assert computed.noise_multiplier == 1.5
    assert only(cache).read_bytes() == whole
    assert searches == [2.0, 2.0]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("bytes_more", [0, 1])
def test_a_file_as_large_and_an_answer_as_coarse_as_allowed_are_taken(
    cache, searches, monkeypatch, bytes_more
):
    computed, path = answer(), only(cache)
    path.write_bytes(path.read_bytes().ljust(10_000 + bytes_more))
    monkeypatch.setattr(accounting, "_pld", lambda *_: 2.0 * 1.01)
    assert answer() == computed
    assert searches == [2.0] * (1 + bytes_more)


@pytest.mark.usefixtures("quick", "cache")
def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path, monkeypatch, searches):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "file"))
    assert answer() == answer()
    assert searches == [2.0, 2.0]
