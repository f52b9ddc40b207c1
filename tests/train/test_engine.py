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
    cpu,
    train_seeds,
)
from pcer.train import engine as fleets
from pcer.train.config import NO_DP
from pcer.train.cpu import CpuDevice
from pcer.train.fleet import Model, cut_blocks, plan_models
from pcer.train.streams import Widths
from tests import train_cases as cases
from tests.train_cases import CONFIG, CPU, assemble, make_data, make_models, train_block


def result_of(models, config):
    """Logits and receipts of a block of models."""
    data = make_data().only({model.seed for model in models})
    return fleets.train_block(data, models, config, device=CPU)


def other_blocks(models):
    """All models backwards, and cut into blocks of at most 1, 3 and 7."""
    blocks = [models[::-1]]
    for size in (1, 3, 7):
        blocks += cut_blocks(models, block_size=size)
    return blocks


@pytest.mark.parametrize("mode", ["none", "refreshed", "held"])
def test_a_model_and_its_receipts_are_the_same_bit_for_bit_in_any_block(mode):
    config = dataclasses.replace(CONFIG, receipts=mode)
    models = make_models()
    n_threads = torch.get_num_threads()
    together = result_of(models, config)
    assert len({row.tobytes() for row in together.logits}) == 12
    assert torch.get_num_threads() == n_threads
    for block in other_blocks(models):
        result = result_of(block, config)
        rows = [models.index(model) for model in block]
        assert np.array_equal(result.logits, together.logits[rows])
        if mode != "none":
            assert np.array_equal(result.receipts, together.receipts[rows])


@pytest.mark.parametrize("mode", ["refreshed", "held"])
def test_receipts_are_finite_of_private_models_and_only_the_rule_changes_models(mode):
    models = make_models()
    result = result_of(models, dataclasses.replace(CONFIG, receipts=mode))
    plain = train_block(make_data(), models)
    assert result.receipts.dtype == np.float32
    assert result.receipts.shape == (12, 210)
    for index, model in enumerate(models):
        assert np.isinf(result.receipts[index]).all() == (not model.is_private)
        is_same = np.array_equal(result.logits[index], plain[index])
        assert is_same == (mode != "held" or not model.is_private)


def test_a_batch_that_does_not_fit_is_an_error_when_the_schedule_is_made(monkeypatch):
    monkeypatch.setattr(Widths, "of", lambda sampling: Widths(32, 32))
    with pytest.raises(PcerError, match="records does not fit the 32 padded columns"):
        assemble(make_data(), make_models())


def test_predictions_are_those_of_the_plain_network():
    """More records than are predicted at a time, and not a multiple of that."""
    fleet = assemble(make_data(n=1300), make_models())
    with torch.no_grad():
        logits = CPU.predict(fleet, fleet.start)
        plain = cases.plain_logits(fleet, fleet.start)
    np.testing.assert_allclose(logits, plain, atol=1e-5)


@pytest.mark.parametrize("value", [-np.inf, 1e39])
def test_infinite_features_are_refused_even_where_missing_ones_are_allowed(value):
    features = make_data().features.astype(np.float64)
    features[[3, 8], 3] = value
    features[5, 1] = np.nan
    with pytest.raises(
        InputError, match=r"2 records are not \(the first is record 3\)"
    ):
        make_data(features=features, allow_missing=True)


@pytest.mark.parametrize("size", [2e15, 1e37])
def test_features_whose_squares_overflow_are_refused_before_training(size):
    features = make_data().features.copy()
    features[[7, 9], 2] = size
    large = make_data(features=features)
    config = dataclasses.replace(CONFIG, standardise=False)
    for device in (CPU, cases.PlainDevice([])):
        with pytest.raises(
            InputError, match=r"seed 0 are not \(the first is record 7\); scale"
        ):
            train_block(large, make_models(), config, device=device)
    assert np.isfinite(train_block(large, make_models())).all()


@pytest.mark.parametrize(
    ("budget", "epsilon"), [("without privacy", NO_DP), ("at epsilon 2", 2.0)]
)
def test_training_that_diverges_is_named_and_nothing_is_given(budget, epsilon):
    config = dataclasses.replace(CONFIG, learning_rate=1e30, clip_norm=1e30)
    models = make_models([3, 1], ((epsilon, 0.0),))
    sentence = rf"seed 3 {budget} and 1 more diverged: .* \(now 1e\+30\)"
    with pytest.raises(InputError, match=sentence):
        train_block(make_data(), models, config)


def test_weights_that_are_no_numbers_are_refused_even_if_the_predictions_are():
    class Broken(CpuDevice):
        def fit(self, fleet):
            state = super().fit(fleet)
            state.weights[1, 0] = math.nan
            return state

        def predict(self, fleet, state):
            shape = (len(state.weights), fleet.watch.n_records)
            return np.zeros(shape, dtype=np.float32)

    models = make_models([2], ((2.0, 1.0), (NO_DP, 0.0)))
    with pytest.raises(InputError, match="training of seed 2 without privacy diverged"):
        train_block(make_data(), models, device=Broken())


def test_blocks_hold_every_model_once_and_few_splits():
    budgets = [
        Budget(epsilon=e, noise_multiplier=1.0, epsilon_by_accountant={})
        for e in range(1, 7)
    ]
    models = plan_models(budgets, range(50))
    blocks = cut_blocks(models, block_size=24)
    assert len(blocks) == 13
    assert {len(block) for block in blocks} == {23, 24}
    assert [*itertools.chain(*blocks)] == models
    assert len(set(models)) == 300
    for block in blocks:
        assert len({model.seed for model in block}) <= 5
    assert cut_blocks([], block_size=24) == ()


def test_predictions_and_receipts_are_ordered_by_budget_seed_and_record():
    config = TrainConfig(hidden=(8,), epochs=2, expected_batch=70, receipts="held")
    flags = EngineFlags(jobs=1, block_size=3)
    predictions = train_seeds(
        make_data(), budgets=(NO_DP, 2.0), config=config, flags=flags
    )
    assert predictions.logits.shape == (2, 4, 300)
    assert predictions.receipts.shape == (2, 4, 210)
    assert (predictions.member.sum(axis=1) == 210).all()
    assert [budget.epsilon for budget in predictions.budgets] == [NO_DP, 2.0]
    assert predictions.budgets[1].epsilon_by_accountant["pld"] <= 2.0
    for index, seed in np.ndindex(2, 4):
        budget = predictions.budgets[index]
        model = Model(seed, budget.epsilon, budget.noise_multiplier)
        alone = result_of([model], config)
        assert np.array_equal(predictions.logits[index, seed], alone.logits[0])
        assert np.array_equal(predictions.receipts[index, seed], alone.receipts[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", np.zeros(5)),
        ("features", np.full((300, 2), np.nan)),
        ("labels", np.full(300, 2)),
        ("labels", np.zeros(7)),
        ("train_rows", {}),
        ("train_rows", {0: [1, 1]}),
        ("train_rows", {3: [1, 300]}),
        ("train_rows", {0: [1], 1: [1, 2]}),
        ("groups", {"sex": ["f"]}),
    ],
)
def test_bad_data_is_refused_by_name(name, value):
    with pytest.raises(InputError, match=name):
        make_data(**{name: value})


def test_kernels_need_a_compiler_and_no_folder_for_their_code(monkeypatch):
    def no_folder(**settings):
        if settings.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**settings)

    monkeypatch.setattr(cpu, "njit", no_folder)
    assert cpu.compiled(lambda x: x + 1)(2) == 3
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
        "from pcer.train import cpu\n"
        "from tests.train_cases import CONFIG, make_data\n"
        "every = vars(cpu).values()\n"
        "kernels = [k for k in every if hasattr(k, 'signatures')]\n"
        "prepare(EngineFlags())\n"
        "before = [list(k.signatures) for k in kernels]\n"
        "flags = EngineFlags(jobs=1)\n"
        "train_seeds(make_data(), budgets=(NO_DP, 2.0), config=CONFIG, flags=flags)\n"
        "assert len(kernels) > 10\n"
        "assert [list(k.signatures) for k in kernels] == before\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2]
    )


def features_with_gaps():
    """Some missing at random, a constant, and one that is missing in training."""
    generator = np.random.Generator(np.random.PCG64(1))
    features = generator.normal(1e3, [1e-2, 1, 1e4, 1, 1], (200, 5)).astype(np.float32)
    features[generator.random((200, 5)) < 0.1] = np.nan
    features[:, 3] = 7
    train = np.arange(0, 200, 2)
    features[train, 4] = np.nan
    return features, train


def test_standardising_is_that_of_the_data_room():
    features, train = features_with_gaps()
    expected = standardise(features, train=train)
    plain = fleets.standardised(torch.from_numpy(features), torch.from_numpy(train))
    np.testing.assert_allclose(plain, expected, rtol=1e-6, atol=1e-6)
    labels = np.arange(200) % 2
    data = TrainingData.of(features, labels, {0: train}, allow_missing=True)
    table = fleets.record_table(data, [0], CONFIG, CPU).numpy()[:-1]
    squares = np.square(expected).sum(axis=1)
    np.testing.assert_allclose(table[:, :5], expected, rtol=1e-6, atol=1e-6)
    assert (table[:, 5] == 1).all()
    np.testing.assert_allclose(table[:, 6], 1 + squares, rtol=1e-6)
    assert np.array_equal(table[:, 7], labels)


def test_without_standardising_features_stay_and_none_may_be_missing():
    config = TrainConfig(standardise=False)
    raw = fleets.record_table(make_data(), [0], config, CPU)[:-1]
    assert np.array_equal(raw[:, :9].numpy(), make_data().features)
    features, train = features_with_gaps()
    labels = np.arange(200) % 2
    data = TrainingData.of(features, labels, {0: train}, allow_missing=True)
    with pytest.raises(InputError, match=r"config\.standardise"):
        fleets.record_table(data, [0], config, CPU)


USUAL = TrainConfig(hidden=(32, 16), epochs=4, expected_batch=64, momentum=0.0)
FIXED = dataclasses.replace(
    USUAL, adjacency="add-or-remove", sample_rate=1 / 4, n_steps=16, divisor=64
)
N_TRAIN = 256
# The noise makes a gradient invisible: 16 steps at rate 1/4 spend far less than this
# epsilon.
NOISE = 40.0
EPSILON = 0.5


def distance_walked(n_train, seed, config):
    """The deviation of the weights of a model from where they started."""
    data = make_data(n=400, seeds=[seed], share=n_train / 400)
    assert data.n_train == n_train
    fleet = assemble(data, [Model(seed, EPSILON, NOISE)], config)
    with torch.no_grad():
        moved = CPU.fit(fleet).weights - fleet.start.weights
    parts = [layer.flatten() for layer in fleet.layout.layers(moved)]
    return torch.cat(parts).std()


def right_guesses(config, n_seeds=16):
    """How often the distance walked tells an observer two neighbours apart."""
    distances = np.empty((n_seeds, 2))
    for seed, more in np.ndindex(distances.shape):
        distances[seed, more] = distance_walked(N_TRAIN + more, seed, config)
    guesses = distances >= np.median(distances)
    right = (guesses == [False, True]).mean()
    return max(right, 1 - right)


def test_with_n_secret_rate_steps_and_divisor_must_be_fixed_or_one_person_shows():
    """256 records make 4 steps an epoch, 257 make 5, and another number divides them.

    The epsilon is of sums that differ by one gradient; it covers no change of
    everybody's steps.
    """
    few = USUAL.sampling(N_TRAIN)
    more = USUAL.sampling(N_TRAIN + 1)
    assert (few.n_steps, few.expected_batch) == (16, 64)
    assert (more.n_steps, more.expected_batch) == (20, 51)
    assert right_guesses(USUAL) == 1.0  # pure EPSILON-DP would allow an observer 0.622
    fixed = FIXED.sampling(N_TRAIN)
    assert FIXED.sampling(N_TRAIN + 1) == dataclasses.replace(fixed, n_train=257)
    # 32 guesses of a fair coin: 3.4 standard deviations.
    assert right_guesses(FIXED) < 0.8
