import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from pcer.train import EngineFlags, fleet, train_seeds
from pcer.train.config import Sampling, TrainConfig
from pcer.train.schedule import Drawer, Widths
from pcer.train.streams import GapTable, Purpose, first_words, initial_weights, stream
from tests import reference_train as slow
from tests.train_cases import make_data, sampled_positions


def test_streams_of_different_names_have_different_keys_and_a_seed_is_not_negative():
    names = itertools.product((0, 1, 2**40), (0.1, 1.0, math.inf), Purpose, (b"", b"s"))
    keys = [
        tuple(stream(seed=s, epsilon=e, purpose=p, secret=x).state["state"]["key"])
        for s, e, p, x in names
    ]
    assert len(set(keys)) == len(keys) == 90
    with pytest.raises(
        ValueError, match="seed must be a whole number of at least 0, but -1"
    ):
        stream(seed=-1, epsilon=1.0, purpose=Purpose.NOISE)


SECRET = b"0123456789abcdef"
ONE_STEP = TrainConfig(hidden=(), n_steps=1, expected_batch=40, accountant="rdp")


def one_step(monkeypatch, secret=SECRET, data=None, module=None, **changes):
    """Logits of one-step models, and the key of every stream that they draw from."""
    keys = []

    def noted(**named):
        keys.append(tuple(stream(**named).state["state"]["key"]))
        return stream(**named)

    monkeypatch.setattr(fleet, "stream", noted)
    config = dataclasses.replace(ONE_STEP, **changes)
    how = {
        "config": config,
        "flags": EngineFlags(jobs=1, block_size=9),
        "module": module,
    }
    found = train_seeds(
        data or make_data(seeds=[0]), budgets=(0.1,), secret=secret, **how
    )
    return found.logits[0, 0], set(keys)


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
    """Of equal draws the difference of two models would keep the gradients and no noise."""
    same = {"module": lambda n: torch.nn.Linear(n, 1)} if "module" in changes else {}
    (logits, keys), (other, others) = (
        one_step(monkeypatch, **it) for it in (same, changes)
    )
    assert len(keys) >= 3
    assert not keys & others
    assert logits.tobytes() == one_step(monkeypatch, **same)[0].tobytes()
    if "data" in changes:  # noise has 38 times the norm of a person's gradient
        (plain, common), (near, again) = (
            one_step(monkeypatch, b"", **it) for it in ({}, changes)
        )  # public sweeps keep their streams
        assert common == again
        assert np.abs(logits - other).mean() > 10 * np.abs(plain - near).mean()


class Power(list):
    """A list that is called."""

    def __call__(self, x):
        """Its first number times the argument."""
        return self[0] * x


class Scaled(torch.nn.Module):
    """Holds what it does not print."""

    def __init__(self, n, scale, link):
        super().__init__()
        self.layer, self.scale, self.link = torch.nn.Linear(n, 1), scale, link

    def forward(self, x):
        """One logit."""
        return self.link(self.layer(x)) * self.scale


def test_modules_of_one_text_that_hold_different_values_share_no_draw(monkeypatch):
    made = [
        (1.0, torch.tanh),
        (3.0, torch.tanh),
        (1.0, torch.sin),
        (1.0, Power([1])),
        (1.0, Power([2])),
    ]
    made += [(1.0, torch.tanh)]
    *keys, again = (
        one_step(monkeypatch, module=lambda n, own=own: Scaled(n, *own))[1]
        for own in made
    )
    assert all(not one & other for one, other in itertools.combinations(keys, 2))
    assert again == keys[0]


def test_stream_digests_know_neither_budgets_nor_other_seeds_and_a_twin_has_its_own_noise():
    many, one = (
        fleet.stream_digests(make_data(seeds=s), ONE_STEP) for s in (range(4), [2])
    )
    assert one == {2: many[2]}
    assert len({*many.values()}) == 4
    twins = [fleet.Model(2, 1.0, 2.0, f"{one[2]}|twin {k}") for k in range(3)]
    keys = [tuple(m.stream(Purpose.NOISE, SECRET).state["state"]["key"]) for m in twins]
    assert len(set(keys)) == 3


def test_stream_is_philox_4x64_by_counter():
    generator = stream(seed=5, epsilon=0.5, purpose=Purpose.NOISE)
    key = tuple(int(word) for word in generator.state["state"]["key"])
    blocks = [slow.philox_4x64(key, counter) for counter in range(1, 26)]
    assert generator.random_raw(100).tolist() == [
        word for block in blocks for word in block
    ]


@pytest.mark.parametrize("m", [1, 2, 17, 126])
def test_gap_table_is_the_geometric_law_to_the_last_of_64_bits(m):
    table = GapTable.of(m)
    capacity = 2 ** (64 - table.bits)
    words = [0] * 2**table.bits  # that give each gap
    for column, kept in enumerate(table.threshold.tolist()):
        assert 0 <= kept <= capacity
        words[column] += kept
        words[table.alias[column]] += capacity - kept
    assert sum(words) == 2**64
    chance = Fraction(1, m)
    for gap, found in enumerate(words[:1000], start=1):
        assert abs(found - chance * (1 - chance) ** (gap - 1) * 2**64) < 1
        assert abs(sum(words[gap:]) - (1 - chance) ** gap * 2**64) < 2


@pytest.mark.parametrize("steps", [1, 2, 10, 126])
def test_positions_follow_the_gaps_one_by_one(steps):
    """The last bits of a word name a column of the table, the others choose in it."""
    sampling = Sampling(n_train=50, steps_per_epoch=steps, n_steps=20 * steps)
    table, at, expected = GapTable.of(steps), -1, []
    threshold, alias = table.threshold.tolist(), table.alias.tolist()
    for word in np.random.Philox(key=7).random_raw(3000).tolist():
        rest, column = divmod(word, len(threshold))
        at += (column if rest < threshold[column] else alias[column]) + 1
        expected.append(at)
    found = Drawer(sampling, torch.device("cpu")).positions(
        first_words(np.random.Philox(key=7))
    )
    assert found.tolist() == [at for at in expected if at < 50 * 20 * steps] != expected


def test_a_training_that_needs_more_draws_goes_on_with_the_same_ones(monkeypatch):
    sampling = TrainConfig(expected_batch=60, epochs=40).sampling(600)
    samples = [sampled_positions(seed, 1.0, sampling) for seed in range(8)]
    seed = max(range(8), key=lambda s: len(samples[s]))
    monkeypatch.setattr("pcer.train.schedule.SPARE_DRAWS", 0.02)
    source, asked = (
        first_words(stream(seed=seed, epsilon=1.0, purpose=Purpose.SAMPLING)),
        [],
    )

    def words(n_words):
        asked.append(n_words)
        return source(n_words)

    drawer = Drawer(sampling, torch.device("cpu"))
    assert drawer.positions(words).tolist() == samples[seed].tolist()
    assert len(asked) > 1


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
