"""Modules of the user's own: which can be trained privately, and that they are."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from pcer.errors import InputError
from pcer.train import TrainConfig, train_seeds
from pcer.train.config import NO_DP
from pcer.train.fleet import Model
from pcer.train.opacus import (
    batch_rows,
    private_optimizer,
    require_private,
    seeded_module,
    torch_seed,
    train_module,
)
from pcer.train.streams import Purpose, stream
from tests.train_cases import make_data

N = 5
CONFIG = TrainConfig(hidden=(16, 8), epochs=3, expected_batch=40, clip_norm=0.4)


def initial_seed(model: Model) -> int:
    return torch_seed(model, Purpose.INITIAL, b"")


class Centred(nn.Module):
    """A norm that nobody knows by name."""

    def forward(self, x):
        """Subtract the mean of the batch."""
        return x - x.mean(dim=0)


class Counting(nn.Module):
    """Keeps the largest value that it saw, in a buffer, and does nothing else."""

    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.zeros(()))

    def forward(self, x):
        """Look, and give it back."""
        self.largest = torch.maximum(self.largest, x.max())
        return x


class Elsewhere(nn.Module):
    """Uses the weight of a layer without calling the layer."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(N, N)
        self.last = nn.Linear(N, 1)

    def forward(self, x):
        """The inner layer twice, once behind its back."""
        return self.last(self.inner(x) + x @ self.inner.weight)


class OwnWeights(nn.Module):
    """Weights of its own, which Opacus has no rule for."""

    def __init__(self, *, spare: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, N))
        if spare:
            self.spare = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        """One product."""
        return x @ self.weight


class Both(nn.Linear):
    """Says two things at once."""

    def forward(self, x):
        """A logit, and what it was asked."""
        return super().forward(x), x


def frozen_norm(n):
    norm = nn.BatchNorm1d(n).requires_grad_(False)
    module = nn.Sequential(norm, nn.Linear(n, 1))
    norm.eval()
    return module


SOUND = {
    "linear": lambda n: nn.Linear(n, 1),
    "flat": lambda n: nn.Sequential(nn.Linear(n, 1), nn.Flatten(0)),
    "dropout": lambda n: nn.Sequential(nn.Linear(n, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
    "group norm": lambda n: nn.Sequential(nn.Linear(n, 8), nn.GroupNorm(2, 8), nn.Linear(8, 1)),
    "own weights": lambda n: OwnWeights(),
    "a norm that is frozen": frozen_norm,
}


@pytest.mark.parametrize("name", SOUND)
def test_what_keeps_records_apart_is_taken(name):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    require_private(SOUND[name], N, CONFIG)
    assert torch.equal(torch.random.get_rng_state(), before)


KEPT = nn.Linear(N, 1)
RANDOM = np.random.default_rng(0)


def with_own_numbers(n):
    module = nn.Linear(n, 1)
    with torch.no_grad():
        module.weight += float(RANDOM.normal())
    return module


REFUSED = {
    "not str": lambda n: "net",
    "has no weights to train": lambda n: nn.ReLU(),
    "make a fresh module in every call": lambda n: KEPT,
    "other weights for the same torch seed": with_own_numbers,
    r"layer '1' \(BatchNorm1d\) mixes .* use nn.GroupNorm": lambda n: nn.Sequential(
        nn.Linear(n, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)
    ),
    r"layer '0' \(BatchNorm1d\) mixes": lambda n: nn.Sequential(
        nn.BatchNorm1d(n, affine=False), nn.Linear(n, 1)
    ),
    "per-record gradients .* replace that layer": lambda n: nn.Sequential(
        nn.Unflatten(1, (n, 1)), nn.LSTM(1, 1)
    ),
    "depends on who else is in the batch": lambda n: nn.Sequential(Centred(), nn.Linear(n, 1)),
    "its buffer 0.largest keeps": lambda n: nn.Sequential(Counting(), nn.Linear(n, 1)),
    r"one logit per record, but gave \(6, 2\)": lambda n: nn.Linear(n, 2),
    "one logit per record, but gave tuple": lambda n: Both(n, 1),
    "gradient of inner.weight cannot be told": lambda n: Elsewhere(),
    "gradient of spare cannot be told": lambda n: OwnWeights(spare=True),
    "fails on 6 made-up records of 5 features": lambda n: nn.Linear(n + 1, 1),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_mixes_records_or_cannot_be_made_is_refused_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        require_private(REFUSED[sentence], N, CONFIG)
    assert str(refusal.value).startswith("The module ")
    assert str(refusal.value).endswith(".")


def test_any_module_gives_the_same_outputs():
    def factory(n_features):
        return nn.Sequential(
            nn.Unflatten(1, (1, n_features)),
            nn.Conv1d(1, 4, 3),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
            nn.Linear(4 * (n_features - 2), 1),
            nn.Flatten(0),
        )

    data, config = make_data(seeds=range(2)), TrainConfig(epochs=2, expected_batch=70)
    found = train_seeds(data, budgets=(NO_DP, 3.0), config=config, module=factory)
    again = train_seeds(data, budgets=(3.0,), config=config, module=factory)
    assert found.logits.shape == (2, 2, 300)
    assert found.logits.dtype == np.float32
    assert np.isfinite(found.logits).all()
    assert np.array_equal(found.logits[1], again.logits[0])
    assert found.budgets[1].epsilon_by_accountant["pld"] <= 3.0


def test_a_module_whose_training_diverges_is_named():
    config = TrainConfig(epochs=2, expected_batch=70, learning_rate=1e30)
    with pytest.raises(InputError, match="The training of seed 2 without privacy diverged"):
        train_module(SOUND["dropout"], make_data(), Model(2, NO_DP, 0.0), config)


def test_noise_has_the_calibrated_size_and_is_shared_by_no_two_models():
    sampling, noise = CONFIG.sampling(210), []
    models = [(0, 1.0, b""), (0, 2.0, b""), (1, 1.0, b""), (0, 1.0, b"another secret")]
    for seed, epsilon, secret in models:
        module = nn.Linear(20_000, 1)
        optimizer = private_optimizer(module, Model(seed, epsilon, 5.0), CONFIG, sampling, secret)
        for p in module.parameters():
            p.grad_sample = torch.zeros(1, *p.shape)
        start = module.weight.detach().clone()
        optimizer.step()
        change = (start - module.weight.detach())[0] / CONFIG.learning_rate
        noise.append((change * sampling.expected_batch / (5.0 * CONFIG.clip_norm)).numpy())
    rows = np.stack(noise)
    assert np.abs(rows.var(axis=1) - 1).max() < 4.5 * math.sqrt(2 / 20_000)
    assert np.abs(np.corrcoef(rows) - np.eye(4)).max() < 4.5 / math.sqrt(20_000)


def test_a_private_module_is_what_a_plain_loop_gives():
    """Clip every record by itself, add normal noise, divide, step: with noise and momentum."""
    data, model = make_data(), Model(1, 1.0, 1.5)
    factory = lambda n: nn.Sequential(nn.Linear(n, 3), nn.Tanh(), nn.Linear(3, 1))  # noqa: E731
    ours = train_module(factory, data, model, CONFIG)
    train, sampling = data.train_rows[1], CONFIG.sampling(data.n_train)
    mean, std = data.features[train].mean(axis=0), data.features[train].std(axis=0)
    features = torch.from_numpy((data.features - mean) / std).double()
    module = seeded_module(factory, features.shape[1], initial_seed(model)).double()
    parameters = list(module.parameters())
    speed = [torch.zeros_like(p) for p in parameters]
    noise = np.random.Generator(stream(seed=1, epsilon=1.0, purpose=Purpose.NOISE))
    for rows in batch_rows(model, sampling, b""):
        total = [torch.zeros_like(p) for p in parameters]
        for row in train[rows.numpy()]:
            label = torch.tensor(float(data.labels[row])).double()
            logit = module(features[row])[0]
            loss = nn.functional.binary_cross_entropy_with_logits(logit, label)
            own = torch.autograd.grad(loss, parameters)
            norm = math.sqrt(sum(float(g.square().sum()) for g in own))
            for t, g in zip(total, own, strict=True):
                t += g * min(1.0, CONFIG.clip_norm / (norm + 1e-6))
        for p, t, v in zip(parameters, total, speed, strict=True):
            drawn = torch.from_numpy(noise.standard_normal(tuple(p.shape)))
            v *= CONFIG.momentum
            v += (t + 1.5 * CONFIG.clip_norm * drawn) / sampling.expected_batch
            p.data -= CONFIG.learning_rate * v
    with torch.no_grad():
        theirs = module(features)[:, 0].numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_layers_that_draw_draw_from_the_models_own_stream():
    factory = lambda n: nn.Sequential(nn.Linear(n, 8), nn.Dropout(0.5), nn.Linear(8, 1))  # noqa: E731
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one = train_module(factory, make_data(), Model(0, NO_DP, 0.0), CONFIG)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(4)
    assert np.array_equal(train_module(factory, make_data(), Model(0, NO_DP, 0.0), CONFIG), one)


def test_what_fails_in_training_is_named_without_its_words():
    class Fails(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inner, self.steps = nn.Linear(n, 1), 0

        def forward(self, x):
            self.steps += 1
            if self.steps > 3:
                raise RuntimeError(f"cannot stand {x[0].tolist()}")
            return self.inner(x)

    with pytest.raises(
        InputError, match=r"fails in the training of seed 2 .*RuntimeError"
    ) as refusal:
        train_module(Fails, make_data(), Model(2, NO_DP, 0.0), CONFIG)
    assert "cannot stand" not in str(refusal.value)


def test_a_module_is_never_asked_about_nobody():
    class Somebody(nn.Linear):
        def forward(self, x):
            assert len(x)
            return super().forward(x)

    data = make_data(n=30, seeds=[0])
    config = TrainConfig(epochs=3, expected_batch=2)
    found = [
        train_module(lambda n, kind=kind: kind(n, 1), data, Model(0, 1.0, 1.0), config)
        for kind in (Somebody, nn.Linear)
    ]
    assert np.isfinite(found[0]).all()
    assert np.array_equal(*found)


@pytest.mark.parametrize("settings", [{"rule": "held"}, {"receipts": "exact"}])
def test_a_rule_that_opacus_cannot_follow_is_refused_by_name(settings):
    config = dataclasses.replace(CONFIG, **settings)
    with pytest.raises(InputError, match=f"'{next(iter(settings.values()))}'"):
        train_seeds(make_data(), budgets=(1.0,), config=config, module=lambda n: nn.Linear(n, 1))
