"""Noise that keeps a budget; cached answers, and none damaged, foreign or too weak."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad

from pcer.errors import InputError
from pcer.train import accounting, fleet
from pcer.train.accounting import (
    Budget,
    calibrate,
    epsilon_spent,
    joint_epsilon,
    promised,
)
from pcer.train.config import Accountant, TrainConfig
from tests.train_cases import make_data

ADULT = 32_223
COMPAS = 4_320
N_TRAIN = 2_000
CONFIG = TrainConfig(epochs=1, accountant="rdp")
REAL = TrainConfig(epochs=1, expected_batch=20)

# PLD noise multipliers at batch 256, 25 epochs, delta 1e-5, to the nearest thousandth,
# from dp-accounting 0.6.0 (value_discretization_interval=1e-4) by bisection.
REFERENCE = [
    (ADULT, 1, 1.829),
    (COMPAS, 0.5, 8.632),
    pytest.param(ADULT, 0.1, 13.776, marks=pytest.mark.slow),
    pytest.param(COMPAS, 5, 1.333, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("n_train", "epsilon", "noise"), REFERENCE)
def test_noise_keeps_the_budget_and_is_near_the_reference(n_train, epsilon, noise):
    budget = calibrate(epsilon, n_train=n_train, config=TrainConfig())
    assert noise <= budget.noise_multiplier <= noise + 0.002
    assert budget.epsilon_by_accountant["pld"] <= epsilon
    assert budget.epsilon_by_accountant["rdp"] > budget.epsilon_by_accountant["pld"]


def crossing(way: float, reach: float) -> float:
    """Chance that a way carries two normal numbers out of a reach, by quadrature."""

    def share_of_directions(radius: float) -> float:
        cosine = (reach**2 - radius**2 - way**2) / (2 * radius * way)
        return math.acos(max(-1.0, min(1.0, cosine))) / math.pi

    def density(radius: float) -> float:
        return radius * math.exp(-radius * radius / 2) * share_of_directions(radius)

    nearest = max(reach - way, 1e-9)
    chance, _ = quad(density, nearest, reach, epsabs=0, epsrel=1e-8, limit=200)
    return chance


@pytest.mark.parametrize("reach", [3.0, fleet.NOISE_REACH])
@pytest.mark.parametrize("noise", [0.4, 0.6, 1.0, 5.0, 40.0])
def test_no_gradient_shows_more_at_the_end_of_the_noise_than_is_said(
    monkeypatch, noise, reach
):
    """Spread evenly over some of the pairs, or over many and one: within a factor."""
    monkeypatch.setattr(fleet, "NOISE_REACH", reach)
    said = fleet.noise_tail(noise, n_weights=2 * 900, inclusions=1.0)
    even = [m * crossing(1 / noise / math.sqrt(m), reach) for m in (1, 2, 5, 30, 900)]
    mixed = [
        crossing(math.sqrt(share) / noise, reach)
        + 899 * crossing(math.sqrt((1 - share) / 899) / noise, reach)
        for share in (0.1, 0.3, 0.5, 0.7, 0.9)
    ]
    assert max(even + mixed) <= said <= 3 * max(even + mixed)
    if reach == 3.0:  # the quadrature itself, by drawing
        pairs = np.random.default_rng(0).normal(size=(2, 200_000))
        inside = np.hypot(*pairs) <= reach
        is_carried_out = inside & (np.hypot(pairs[0] + 1 / noise, pairs[1]) > reach)
        error = abs(is_carried_out.mean() - even[0])
        assert error < 4.5 * math.sqrt(even[0] / 200_000) + 1e-5


def test_a_delta_that_the_noise_cannot_keep_is_refused_with_one_that_it_can(
    monkeypatch,
):
    def calibrated(epsilon, **_):
        noise = 5 / epsilon
        return Budget(epsilon=epsilon, noise_multiplier=noise, epsilon_by_accountant={})

    monkeypatch.setattr(fleet, "calibrate", calibrated)
    data = make_data()
    config = TrainConfig(epochs=3, expected_batch=40)
    strict = replace(config, dp_delta=1e-12)
    sufficient = {}
    for epsilon in (0.1, 1.0, 30.0):
        fleet.calibrated([epsilon, math.inf], data, config)  # the default is taken
        numpy_noise = "numpy's noise, which reaches further"
        fleet.calibrated([epsilon], data, strict, module=numpy_noise)
        with pytest.raises(InputError) as refusal:
            fleet.calibrated([math.inf, epsilon], data, strict)
        assert refusal.value.field == "dp_delta"
        delta = re.search(r"at least (\S+) here", str(refusal.value))[1]
        sufficient[epsilon] = float(delta)
    assert 1e-10 < sufficient[0.1] < sufficient[1.0] < 1e-6
    assert 1e-6 < sufficient[30.0] <= 1e-5
    fleet.calibrated([1.0], data, replace(config, dp_delta=2 * sufficient[1.0]))
    fleet.calibrated([math.inf], data, strict)


def test_one_full_batch_step_is_the_gaussian_mechanism():
    """Of one step without sampling the answer is known (Balle and Wang 2018)."""
    config = TrainConfig(epochs=1, expected_batch=50)
    spent = epsilon_spent(2.0, n_train=50, config=config, accountant=Accountant.PLD)

    def delta(epsilon):
        upper = math.erfc((2 * epsilon - 0.25) / math.sqrt(2)) / 2
        lower = math.erfc((2 * epsilon + 0.25) / math.sqrt(2)) / 2
        return upper - math.exp(epsilon) * lower

    assert delta(spent) <= config.dp_delta <= delta(spent - 0.001)


def test_a_budget_is_above_zero_and_a_generous_one_still_gets_noise_that_keeps_it():
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(InputError):
            calibrate(epsilon, n_train=COMPAS, config=TrainConfig())
    for noise, accountant in product((0.0, 1e-300, 1e300), Accountant):
        with pytest.raises(InputError) as refusal:
            epsilon_spent(noise, n_train=1_000, config=CONFIG, accountant=accountant)
        assert refusal.value.field == "noise_multiplier"
    budget = calibrate(200.0, n_train=1_000, config=TrainConfig(epochs=1))
    assert budget.noise_multiplier > 0
    assert budget.epsilon_by_accountant["pld"] <= 200.0


def joint(*models):
    return joint_epsilon(models, n_train=N_TRAIN)


def test_joint_privacy_of_one_model_is_its_own():
    spent = epsilon_spent(
        2.0, n_train=N_TRAIN, config=CONFIG, accountant=Accountant.RDP
    )
    one = joint((2.0, CONFIG))
    assert one == pytest.approx(spent, rel=1e-12)
    assert one < joint((2.0, CONFIG), (2.0, CONFIG)) < 2 * one
    assert joint() == 0


def test_joint_privacy_of_several_configurations_is_dp_accounting_s():
    other = replace(CONFIG, expected_batch=500, epochs=3)  # as in a grid
    accountant = RdpAccountant()
    for noise, rate, n_steps in ((2.0, 1 / 8, 8), (2.0, 1 / 8, 8), (3.0, 1 / 4, 12)):
        step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
        accountant.compose(step, n_steps)
    epsilon = joint((2.0, CONFIG), (3.0, other), (2.0, CONFIG))
    assert epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_a_group_s_own_epsilon_is_dp_accounting_s(name):
    """Clipped at a share c: noise of sigma/c; sampled at a share s: a rate of s q."""
    config = replace(CONFIG, accountant="pld", epochs=5)
    budget = calibrate(2.0, n_train=N_TRAIN, config=config)
    shares = np.array([[1.0, 0.8, 1.0, 0.35, 0.8], [1.0, 1.0, 0.5, 0.2, 1.0]])
    epsilons = promised(budget, shares, n_train=N_TRAIN, config=config, by=name)
    expected = []
    for clip, share in shares.T:
        accountant = RdpAccountant()
        if name == "pld":
            accountant = PLDAccountant(value_discretization_interval=1e-4)
        step = GaussianDpEvent(budget.noise_multiplier / clip)
        accountant.compose(PoissonSampledDpEvent(share / 8, step), 40)
        expected.append(accountant.get_epsilon(1e-5))
    assert epsilons == pytest.approx(expected, abs=1e-6)
    assert epsilons[0] == budget.epsilon_by_accountant[name]
    assert (epsilons[1:] < epsilons[0]).all()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("PCER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "calibrations"


@pytest.fixture
def quick(monkeypatch) -> Iterator[None]:
    """Accountants that answer at once: what is spent is 3 / noise."""

    def spent(training, expected_epsilon, coarseness):
        return 3 / training.noise_multiplier

    accounting._spent.cache_clear()
    monkeypatch.setattr(accounting, "_pld", spent)
    monkeypatch.setattr(accounting, "_ESTIMATES", dict.fromkeys(Accountant, spent))
    yield
    accounting._spent.cache_clear()


@pytest.fixture
def searches(monkeypatch) -> list[float]:
    """The epsilons for which noise was really searched."""
    epsilons = []
    search = accounting._least_noise

    def counted(question):
        epsilons.append(question.epsilon)
        return search(question)

    monkeypatch.setattr(accounting, "_least_noise", counted)
    return epsilons


def answer(epsilon: float = 2.0, config: TrainConfig = CONFIG) -> Budget:
    """What a new process would be told."""
    accounting._calibrated.cache_clear()
    return calibrate(epsilon, n_train=N_TRAIN, config=config)


def question_of(epsilon: float, config: TrainConfig) -> accounting._Question:
    sampling = config.sampling(N_TRAIN)
    return accounting._Question(epsilon, sampling, config.dp_delta, config.accountant)


def only(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


@pytest.mark.parametrize(
    ("name", "second"), [("pld", "rdp"), ("prv", "pld"), ("rdp", "pld")]
)
def test_the_least_noise_that_keeps_the_budget_is_found_once(
    cache, searches, name, second
):
    config = replace(REAL, accountant=name)
    computed = answer(0.2, config)
    cached = answer(0.2, config)
    assert cached == computed
    assert list(cached.epsilon_by_accountant) == [name, second]
    assert searches == [0.2]
    assert cached.epsilon_by_accountant[name] <= 0.2
    less = cached.noise_multiplier - 0.001
    accountant = Accountant(name)
    spent = epsilon_spent(less, n_train=N_TRAIN, config=config, accountant=accountant)
    assert spent > 0.2


@pytest.mark.parametrize("name", ["pld", "prv", "rdp"])
def test_a_cached_noise_that_is_too_weak_is_searched_again(cache, searches, name):
    """Whatever the file says that it spends."""
    config = replace(REAL, accountant=name)
    computed = answer(0.2, config)
    weak = 0.7 * computed.noise_multiplier
    wrong_answer = replace(computed, noise_multiplier=weak)
    question = question_of(0.2, config)
    whole = accounting._cache_record(question, wrong_answer)
    only(cache).write_text(json.dumps(whole))
    assert answer(0.2, config) == computed
    assert searches == [0.2, 0.2]


def wrong(noise: float, **spent: float) -> Budget:
    return Budget(epsilon=2.0, noise_multiplier=noise, epsilon_by_accountant=spent)


# Other bytes; another value at a place of the file; a whole file of a wrong answer.
DAMAGED = [
    b"",
    b"[]",
    b'{"answer": {"noise_multiplier": 1.0, "epsilon": []}}',
    b"\xff\xfe",
    b" " * 20_000,
    ("format", "pcer-release"),
    ("version", 2),
    ("sha256", "0" * 64),
    ("question", "n_train", N_TRAIN + 1),
    ("question", "method", "0"),
    ("question", "versions", "opacus", "0.0.1"),
    *(("answer", "noise_multiplier", value) for value in (0.001, "1.0", -1.0, True)),
    ("answer", "epsilon", "rdp", 1.0),
    ("answer", "extra", 1.0),
    wrong(1.0, rdp=2.0, pld=2.0),
    wrong(1.5, rdp=2.5, pld=2.0),
    wrong(1.5, pld=2.0, rdp=2.0),
    wrong(1.5, rdp=2.0),
]


def damaged(whole: bytes, damage: bytes | tuple | Budget) -> bytes:
    """The bytes of a cached file, after a damage."""
    if isinstance(damage, bytes):
        return damage
    record = json.loads(whole)
    if isinstance(damage, Budget):
        record = accounting._cache_record(question_of(2.0, CONFIG), damage)
    else:
        *names, last, value = damage
        reduce(getitem, names, record)[last] = value
    return json.dumps(record).encode()


@pytest.mark.usefixtures("quick", "cache")
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_altered_or_wrong_file_is_passed_over_and_replaced(
    cache, searches, damage
):
    computed = answer()
    whole = only(cache).read_bytes()
    only(cache).write_bytes(damaged(whole, damage))
    # A whole file is read, and only its noise or its accountants give it away.
    read = damage if isinstance(damage, Budget) else None
    assert accounting._cached_answer(question_of(2.0, CONFIG)) == read
    assert answer() == computed
    assert computed.noise_multiplier == 1.5
    assert only(cache).read_bytes() == whole
    assert searches == [2.0, 2.0]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("bytes_more", [0, 1])
def test_a_file_as_large_and_an_answer_as_coarse_as_allowed_are_taken(
    cache, searches, monkeypatch, bytes_more
):
    computed = answer()
    path = only(cache)
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
