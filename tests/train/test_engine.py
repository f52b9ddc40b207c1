import dataclasses
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numba import njit

from pcer.data.dataset import standardise
from pcer.errors import InputError, PcerError
from pcer.train import (
    Budget,
    EngineFlags,
    TrainConfig,
    TrainingData,
    cpu_kernels,
    train_seeds,
)
from pcer.train import engine as fleets
from pcer.train.config import NO_DP
from pcer.train.cpu import CpuDevice
from pcer.train.fleet import Model, cut_blocks, plan_models
from pcer.train.schedule import Widths
from tests import train_cases as cases
from tests.train_cases import CONFIG, CPU, assemble, make_data, make_models, train_block


@pytest.mark.parametrize("mode", ["none", "refreshed", "held"])
def test_a_model_and_its_receipts_are_the_same_bit_for_bit_in_any_block(mode):
    config, data, models = (
        dataclasses.replace(CONFIG, receipts=mode),
        make_data(),
        make_models(),
    )
    threads = torch.get_num_threads()

    def train(models):
        found = fleets.train_block(
            data.only({m.seed for m in models}), models, config, device=CPU
        )
        return found.logits, found.logits if mode == "none" else found.receipts

    together, receipts = train(models)
    plain = train_block(data, models)
    for index, model in enumerate(models):
        assert np.array_equal(together[index], plain[index]) == (
            mode != "held" or not model.is_private
        )
        if mode != "none":
            assert np.isinf(receipts[index]).all() == (not model.is_private)
    assert mode == "none" or (receipts.dtype, receipts.shape) == (np.float32, (12, 210))
    backwards = [found[::-1] for found in train(models[::-1])]
    for size in (1, 3, 7):
        pieces = zip(
            *(train(models[i : i + size]) for i in range(0, 12, size)), strict=True
        )
        for whole, found, other in zip(
            (together, receipts), pieces, backwards, strict=True
        ):
            assert np.array_equal(np.concatenate(found), whole)
            assert np.array_equal(other, whole)
    assert (
        len({row.tobytes() for row in together}) == 12
    )  # and no two models are the same
    assert torch.get_num_threads() == threads


def test_a_batch_that_does_not_fit_is_an_error_when_the_schedule_is_made(monkeypatch):
    monkeypatch.setattr(Widths, "of", lambda sampling: Widths(32, 32))
    with pytest.raises(PcerError, match="records does not fit the 32 padded columns"):
        assemble(make_data(), make_models())


def test_predictions_are_those_of_the_plain_network():
    """More records than are predicted at a time, and not a multiple of that."""
    fleet = assemble(make_data(n=1300), make_models())
    with torch.no_grad():
        found, plain = (
            CPU.predict(fleet, fleet.start),
            cases.plain_logits(fleet, fleet.start),
        )
    np.testing.assert_allclose(found, plain, atol=1e-5)


@pytest.mark.parametrize("value", [-np.inf, 1e39])
def test_infinite_features_are_refused_even_where_missing_ones_are_allowed(value):
    features = make_data().features.astype(np.float64)
    features[[3, 8], 3], features[5, 1] = value, np.nan
    with pytest.raises(
        InputError, match=r"2 records are not \(the first is record 3\)"
    ):
        make_data(features=features, allow_missing=True)


@pytest.mark.parametrize("size", [2e15, 1e37])
def test_features_whose_squares_overflow_are_refused_before_training(size):
    features = make_data().features.copy()
    features[[7, 9], 2] = size
    large, config = (
        make_data(features=features),
        dataclasses.replace(CONFIG, standardise=False),
    )
    for device in (CPU, cases.PlainDevice([])):
        with pytest.raises(
            InputError, match=r"seed 0 are not \(the first is record 7\); scale"
        ):
            train_block(large, make_models(), config, device=device)
    assert np.isfinite(train_block(large, make_models())).all()


def test_training_that_diverges_is_named_and_nothing_is_given_even_if_the_predictions_are_numbers():
    config = dataclasses.replace(CONFIG, learning_rate=1e30, clip_norm=1e30)
    for which, epsilon in (("without privacy", NO_DP), ("at epsilon 2", 2.0)):
        sentence = rf"seed 3 {which} and 1 more diverged: .* lower learning_rate \(now 1e\+30\)"
        with pytest.raises(InputError, match=sentence):
            train_block(make_data(), make_models([3, 1], ((epsilon, 0.0),)), config)

    class Broken(CpuDevice):
        def fit(self, fleet):
            state = super().fit(fleet)
            state.weights[1, 0] = math.nan
            return state

        def predict(self, fleet, state):
            return np.zeros(
                (len(state.weights), fleet.watch.n_records), dtype=np.float32
            )

    with pytest.raises(InputError, match="training of seed 2 without privacy diverged"):
        train_block(
            make_data(), make_models([2], ((2.0, 1.0), (NO_DP, 0.0))), device=Broken()
        )


def test_blocks_hold_every_model_once_and_few_splits():
    budgets = [
        Budget(epsilon=e, noise_multiplier=1.0, epsilon_by_accountant={})
        for e in range(1, 7)
    ]
    blocks = cut_blocks(plan_models(budgets, range(50)), block_size=24)
    assert len(blocks) == 13
    assert {len(block) for block in blocks} == {23, 24}
    assert sorted(m.seed for block in blocks for m in block) == sorted([*range(50)] * 6)
    assert max(len({m.seed for m in block}) for block in blocks) <= 5
    assert cut_blocks([], block_size=24) == ()


def test_predictions_and_receipts_are_ordered_by_budget_seed_and_record():
    config = TrainConfig(hidden=(8,), epochs=2, expected_batch=70, receipts="held")
    data, flags = make_data(), EngineFlags(jobs=1, block_size=3)
    found = train_seeds(data, budgets=(NO_DP, 2.0), config=config, flags=flags)
    assert found.logits.shape == (2, 4, 300)
    assert found.receipts.shape == (2, 4, 210)
    assert (found.member.sum(axis=1) == 210).all()
    assert [b.epsilon for b in found.budgets] == [NO_DP, 2.0]
    assert found.budgets[1].epsilon_by_accountant["pld"] <= 2.0
    for (i, budget), seed in itertools.product(enumerate(found.budgets), range(4)):
        model = Model(seed, budget.epsilon, budget.noise_multiplier)
        alone = fleets.train_block(data, [model], config, device=CPU)
        assert np.array_equal(found.logits[i, seed], alone.logits[0])
        assert np.array_equal(found.receipts[i, seed], alone.receipts[0])


@pytest.mark.parametrize(
    "change",
    [
        *({"features": bad} for bad in (np.zeros(5), np.full((300, 2), np.nan))),
        *({"labels": bad} for bad in (np.full(300, 2), np.zeros(7))),
        *(
            {"train_rows": bad}
            for bad in ({}, {0: [1, 1]}, {3: [1, 300]}, {0: [1], 1: [1, 2]})
        ),
    ],
)
def test_bad_data_is_refused_by_name(change):
    with pytest.raises(InputError, match=next(iter(change))):
        make_data(**change)


def test_kernels_need_a_compiler_and_no_folder_for_their_code(monkeypatch):
    def no_folder(**settings):
        if settings.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**settings)

    monkeypatch.setattr(cpu_kernels, "njit", no_folder)
    assert cpu_kernels.compiled(lambda x: x + 1)(2) == 3
    monkeypatch.setattr("pcer.train.devices.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'needs numba, .* pip install "\.\[train\]"'):
        train_seeds(make_data(), budgets=(NO_DP,), config=CONFIG)


@pytest.mark.slow  # it compiles
def test_no_room_for_compiled_code_is_told(tmp_path):
    code = (
        "import resource\n"
        "from pcer.train import EngineFlags\n"
        "from pcer.train.run import prepare\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n"
        "    prepare(EngineFlags())\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.startswith("OutputError ")
    assert "(File too large); make room, or name another folder" in done.stdout


@pytest.mark.slow  # it compiles
def test_after_preparing_nothing_is_left_to_compile():
    code = (
        "from pcer.train import EngineFlags, NO_DP, train_seeds\n"
        "from pcer.train.run import prepare\n"
        "from pcer.train import cpu_kernels\n"
        "from tests.train_cases import CONFIG, make_data\n"
        "every = vars(cpu_kernels).values()\n"
        "kernels = [k for k in every if hasattr(k, 'signatures')]\n"
        "prepare(EngineFlags())\n"
        "before = [list(k.signatures) for k in kernels]\n"
        "train_seeds(make_data(), budgets=(NO_DP, 2.0), config=CONFIG, flags=EngineFlags(jobs=1))\n"
        "assert len(kernels) > 10\n"
        "assert [list(k.signatures) for k in kernels] == before\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2]
    )


def test_standardising_is_that_of_the_data_room():
    generator = np.random.Generator(np.random.PCG64(1))
    features = generator.normal(1e3, [1e-2, 1, 1e4, 1, 1], (200, 5)).astype(np.float32)
    features[generator.random((200, 5)) < 0.1] = np.nan
    features[:, 3] = 7
    train = np.arange(0, 200, 2)
    features[train, 4] = np.nan
    expected = standardise(features, train=train)
    plain = fleets.standardised(torch.from_numpy(features), torch.from_numpy(train))
    np.testing.assert_allclose(plain, expected, rtol=1e-6, atol=1e-6)
    data = TrainingData.of(features, np.arange(200) % 2, {0: train}, allow_missing=True)
    table = fleets.record_table(data, [0], CONFIG, CPU).numpy()[:-1]
    np.testing.assert_allclose(table[:, :5], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        table[:, 6], 1 + np.square(expected).sum(axis=1), rtol=1e-6
    )
    assert (table[:, 5] == 1).all()
    assert np.array_equal(table[:, 7], np.arange(200) % 2)
    with pytest.raises(InputError, match=r"config\.standardise"):
        fleets.record_table(data, [0], TrainConfig(standardise=False), CPU)
    raw = fleets.record_table(make_data(), [0], TrainConfig(standardise=False), CPU)[
        :-1
    ]
    assert np.array_equal(raw[:, :9].numpy(), make_data().features)


USUAL = TrainConfig(hidden=(32, 16), epochs=4, expected_batch=64, momentum=0.0)
FIXED = dataclasses.replace(
    USUAL, adjacency="add-or-remove", sample_rate=1 / 4, n_steps=16, divisor=64
)
N, NOISE, EPSILON = 256, 40.0, 0.5
"""The noise makes a gradient invisible: 16 steps at rate 1/4 spend far less than this epsilon."""


def right_guesses(config, n_seeds=16):
    """How often an observer of how far the weights walked tells two neighbours apart."""
    spread = np.empty((n_seeds, 2))
    for seed, more in np.ndindex(spread.shape):
        data = make_data(n=400, seeds=[seed], share=(N + more) / 400)
        assert data.n_train == N + more
        fleet = assemble(data, [Model(seed, EPSILON, NOISE)], config)
        with torch.no_grad():
            moved = CPU.fit(fleet).weights - fleet.start.weights
        parts = [layer.flatten() for layer in fleet.layout.layers(moved)]
        spread[seed, more] = torch.cat(parts).std()
    right = ((spread >= np.median(spread)) == [False, True]).mean()
    return max(right, 1 - right)


def test_with_n_secret_rate_steps_and_divisor_must_be_fixed_or_one_person_is_given_away():
    """256 records make 4 steps an epoch, 257 make 5, and each is divided by another number.

    The epsilon is of sums that differ by one gradient; it covers no change of
    everybody's steps.
    """
    few, more = (USUAL.sampling(n) for n in (N, N + 1))
    assert (few.n_steps, few.expected_batch, more.n_steps, more.expected_batch) == (
        16,
        64,
        20,
        51,
    )
    assert right_guesses(USUAL) == 1.0  # pure EPSILON-DP would allow an observer 0.622
    assert FIXED.sampling(N + 1) == dataclasses.replace(
        FIXED.sampling(N), n_train=N + 1
    )
    assert (
        right_guesses(FIXED) < 0.8
    )  # 32 guesses of a fair coin: 3.4 standard deviations
