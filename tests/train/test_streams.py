import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from pcer.errors import InputError
from pcer.train import EngineFlags, fleet, train_seeds
from pcer.train.config import Sampling, TrainConfig
from pcer.train.streams import (
    Drawer,
    GapTable,
    Purpose,
    Widths,
    first_words,
    initial_weights,
    stream,
)
from tests import reference_train as slow
from tests.train_cases import make_data, sampled_positions


def key_of(bits):
    """The key of a stream, by which it differs from others."""
    return tuple(bits.state["state"]["key"].tolist())


def test_streams_of_different_names_have_different_keys():
    names = itertools.product((0, 1, 2**40), (0.1, 1.0, math.inf), Purpose, (b"", b"s"))
    keys = []
    for seed, epsilon, purpose, secret in names:
        bits = stream(seed=seed, epsilon=epsilon, purpose=purpose, secret=secret)
        keys.append(key_of(bits))
    assert len(set(keys)) == len(keys) == 90


def test_a_seed_is_not_negative():
    with pytest.raises(InputError) as refusal:
        stream(seed=-1, epsilon=1.0, purpose=Purpose.NOISE)
    assert refusal.value.field == "seed"


SECRET = b"0123456789abcdef"
ONE_STEP = TrainConfig(hidden=(), n_steps=1, expected_batch=40, accountant="rdp")


def one_step(monkeypatch, secret=SECRET, data=None, module=None, **changes):
    """Logits of one-step models, and the key of every stream that they draw from."""
    keys = set()

    def noted(**named):
        bits = stream(**named)
        keys.add(key_of(bits))
        return bits

    monkeypatch.setattr(fleet, "stream", noted)
    predictions = train_seeds(
        data or make_data(seeds=[0]),
        budgets=(0.1,),
        config=dataclasses.replace(ONE_STEP, **changes),
        flags=EngineFlags(jobs=1, block_size=9),
        secret=secret,
        module=module,
    )
    return predictions.logits[0, 0], keys


def altered(record=7):
    """The same records but for one person, who has another label."""
    labels = make_data().labels.astype(int)
    labels[record] ^= 1
    return make_data(seeds=[0], labels=labels)


OTHERS = {
    "clip norm": {"clip_norm": 2.0},
    "learning rate": {"learning_rate": 0.1},
    "rule": {"rule": "held"},
    "one person": {"data": altered()},
    "split": {"data": make_data(seeds=[0], train_rows={0: np.arange(1, 211)})},
    "module": {"module": lambda n: torch.nn.Sequential(torch.nn.Linear(n, 1))},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_two_trainings_under_one_secret_share_no_draw(monkeypatch, changes):
    """Of equal draws the difference of two models would keep gradients, no noise."""
    same = {"module": lambda n: torch.nn.Linear(n, 1)} if "module" in changes else {}
    logits, keys = one_step(monkeypatch, **same)
    _, other_keys = one_step(monkeypatch, **changes)
    again, _ = one_step(monkeypatch, **same)
    assert len(keys) >= 3
    assert not keys & other_keys
    assert logits.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", ["one person", "split"])
def test_without_a_secret_other_records_have_the_same_streams(monkeypatch, name):
    """Public sweeps keep their streams; noise has 38 times the norm of a gradient."""
    changes = OTHERS[name]
    logits, _ = one_step(monkeypatch)
    other, _ = one_step(monkeypatch, **changes)
    public, public_keys = one_step(monkeypatch, b"")
    other_public, other_public_keys = one_step(monkeypatch, b"", **changes)
    assert public_keys == other_public_keys
    distance = np.abs(logits - other).mean()
    assert distance > 10 * np.abs(public - other_public).mean()


class Power(list):
    """A list that is called."""

    def __call__(self, x):
        """Its first number times the argument."""
        return self[0] * x


class Scaled(torch.nn.Module):
    """Holds what it does not print."""

    def __init__(self, n, scale, link):
        super().__init__()
        self.layer = torch.nn.Linear(n, 1)
        self.scale = scale
        self.link = link

    def forward(self, x):
        """One logit."""
        return self.link(self.layer(x)) * self.scale


def test_modules_of_one_text_that_hold_different_values_share_no_draw(monkeypatch):
    held = [
        (1.0, torch.tanh),
        (3.0, torch.tanh),
        (1.0, torch.sin),
        (1.0, Power([1])),
        (1.0, Power([2])),
    ]

    def keys_of(values):
        _, keys = one_step(monkeypatch, module=lambda n: Scaled(n, *values))
        return keys

    keys = [keys_of(values) for values in held]
    for one, other in itertools.combinations(keys, 2):
        assert not one & other
    assert keys_of(held[0]) == keys[0]


def test_stream_digests_know_neither_budgets_nor_other_seeds():
    alone = fleet.stream_digests(make_data(seeds=[2]), ONE_STEP)
    digests = fleet.stream_digests(make_data(seeds=range(4)), ONE_STEP)
    assert alone == {2: digests[2]}
    assert len({*digests.values()}) == 4


def test_a_twin_has_its_own_noise():
    digests = fleet.stream_digests(make_data(seeds=[2]), ONE_STEP)
    keys = set()
    for number in range(3):
        twin = fleet.Model(2, 1.0, 2.0, f"{digests[2]}|twin {number}")
        keys.add(key_of(twin.stream(Purpose.NOISE, SECRET)))
    assert len(keys) == 3


def test_stream_is_philox_4x64_by_counter():
    bits = stream(seed=5, epsilon=0.5, purpose=Purpose.NOISE)
    key = key_of(bits)
    expected = []
    for counter in range(1, 26):
        expected += slow.philox_4x64(key, counter)
    assert bits.random_raw(100).tolist() == expected


@pytest.mark.parametrize("m", [1, 2, 17, 126])
def test_gap_table_is_the_geometric_law_to_the_last_of_64_bits(m):
    table = GapTable.of(m)
    capacity = 2 ** (64 - table.bits)
    words = [0] * 2**table.bits  # that give each gap
    for column, threshold in enumerate(table.threshold.tolist()):
        assert 0 <= threshold <= capacity
        words[column] += threshold
        words[table.alias[column]] += capacity - threshold
    assert sum(words) == 2**64
    chance = Fraction(1, m)
    for gap, n_words in enumerate(words[:1000], start=1):
        assert abs(n_words - chance * (1 - chance) ** (gap - 1) * 2**64) < 1
        assert abs(sum(words[gap:]) - (1 - chance) ** gap * 2**64) < 2


@pytest.mark.parametrize("steps", [1, 2, 10, 126])
def test_positions_follow_the_gaps_one_by_one(steps):
    """The last bits of a word name a column of the table, the others choose in it."""
    sampling = Sampling(n_train=50, steps_per_epoch=steps, n_steps=20 * steps)
    table = GapTable.of(steps)
    threshold = table.threshold.tolist()
    alias = table.alias.tolist()
    position = -1
    expected = []
    for word in np.random.Philox(key=7).random_raw(3000).tolist():
        rest, column = divmod(word, len(threshold))
        position += (column if rest < threshold[column] else alias[column]) + 1
        expected.append(position)
    words = first_words(np.random.Philox(key=7))
    positions = Drawer(sampling, torch.device("cpu")).positions(words).tolist()
    assert positions == [drawn for drawn in expected if drawn < 50 * 20 * steps]
    assert positions != expected


def test_a_training_that_needs_more_draws_goes_on_with_the_same_ones(monkeypatch):
    sampling = TrainConfig(expected_batch=60, epochs=40).sampling(600)
    samples = [sampled_positions(seed, 1.0, sampling) for seed in range(8)]
    seed = max(range(8), key=lambda s: len(samples[s]))
    monkeypatch.setattr("pcer.train.streams.SPARE_DRAWS", 0.02)
    source = first_words(stream(seed=seed, epsilon=1.0, purpose=Purpose.SAMPLING))
    requests = []

    def words(n_words):
        requests.append(n_words)
        return source(n_words)

    drawer = Drawer(sampling, torch.device("cpu"))
    assert drawer.positions(words).tolist() == samples[seed].tolist()
    assert len(requests) > 1


def test_padding_is_wide_enough_for_any_training():
    sampling = TrainConfig().sampling(32_223)
    widths = Widths.of(sampling)
    law = stats.binom(sampling.n_train, sampling.sample_rate)
    assert law.sf(widths.full) * sampling.n_steps <= 1e-12
    assert law.sf(widths.usual) <= 1e-4
    assert widths.usual % 32 == widths.full % 32 == 0


def test_initial_weights_are_those_of_a_torch_linear_layer_in_law():
    first, last = initial_weights(np.random.PCG64(0), sizes=(100, 300, 1))
    assert (first.shape, last.shape, first.dtype) == ((101, 300), (301, 1), np.float32)
    for values in (first[:-1].ravel(), first[-1]):
        assert stats.kstest(values, stats.uniform(-0.1, 0.2).cdf).pvalue > 1e-4
