"""Noise that keeps a budget; kept answers, and never one that is damaged, foreign or too weak."""

from __future__ import annotations

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
from pcer.train.accounting import Budget, calibrate, epsilon_spent
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


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_budget_must_be_above_zero(epsilon):
    with pytest.raises(InputError):
        calibrate(epsilon, n_train=COMPAS, config=TrainConfig())


def test_a_generous_budget_still_gets_noise_that_keeps_it():
    budget = calibrate(200.0, n_train=1_000, config=TrainConfig(epochs=1))
    assert budget.noise_multiplier > 0
    assert budget.epsilon_by_accountant["pld"] <= 200.0


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


DAMAGED = [
    b"",
    b"[]",
    b'{"answer": {"noise_multiplier": 1.0, "epsilon": []}}',
    b"\xff\xfe",
    b" " * 20_000,
    ("format", "pcer-release"),
    ("version", 2),
    ("question", "n_train", N_TRAIN + 1),
    ("question", "method", "0"),
    ("question", "versions", "opacus", "0.0.1"),
    ("answer", "noise_multiplier", 0.001),
    ("answer", "noise_multiplier", "1.0"),
    ("answer", "noise_multiplier", -1.0),
    ("answer", "noise_multiplier", True),
    ("answer", "epsilon", "rdp", 1.0),
    ("answer", "extra", 1.0),
    ("sha256", "0" * 64),
]


@pytest.mark.usefixtures("quick", "cache")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_or_altered_file_is_passed_over_and_replaced(cache, searches, damage):
    """By other bytes, or another value at a place of the record."""
    computed, whole = answer(), only(cache).read_bytes()
    if isinstance(damage, tuple):
        *names, last, value = damage
        tree = json.loads(whole)
        reduce(getitem, names, tree)[last] = value
        damage = json.dumps(tree).encode()
    only(cache).write_bytes(damage)
    assert answer() == computed
    assert only(cache).read_bytes() == whole
    assert len(searches) == 2


@pytest.mark.usefixtures("quick", "cache")
@pytest.mark.parametrize(
    ("noise", "spent"),
    [
        (1.0, {"rdp": 2.0, "pld": 2.0}),
        (1.5, {"rdp": 2.5, "pld": 2.0}),
        (1.5, {"pld": 2.0, "rdp": 2.0}),
        (1.5, {"rdp": 2.0}),
    ],
)
def test_a_whole_file_with_a_wrong_answer_is_not_used(cache, searches, noise, spent):
    answer()
    question = json.loads(only(cache).read_text())["question"]
    wrong = Budget(epsilon=2.0, noise_multiplier=noise, epsilon_by_accountant=spent)
    only(cache).write_text(json.dumps(accounting._record(question, wrong)))
    assert accounting._kept_answer(only(cache), question) == wrong
    assert answer().noise_multiplier == 1.5
    assert searches == [2.0, 2.0]


@pytest.mark.usefixtures("quick", "cache")
def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path, monkeypatch, searches):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "file"))
    assert answer() == answer()
    assert searches == [2.0, 2.0]
