"""Modules of the user's own: which can be trained privately, and that they are."""

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
from tests import reference_train as slow
from tests.train_cases import make_data

N = 5
SHAPE = (300, N)  # of all features
CONFIG = TrainConfig(epochs=3, expected_batch=40, clip_norm=0.4)


class Acting(nn.Module):
    """Some weights and layers, and what is done with them."""

    def __init__(self, act, **parts):
        super().__init__()
        self.act = act
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        """What is done."""
        return self.act(self, x)


def counting():
    """Keeps the largest value that it saw, in a buffer, and does nothing else."""

    def look(module, x):
        module.largest = torch.maximum(module.largest, x.max())
        return x

    module = Acting(look)
    module.register_buffer("largest", torch.zeros(()))
    return module


def own_weights(**more):
    """Weights of its own, which Opacus has no rule for."""
    weight = nn.Parameter(torch.linspace(-1, 1, N))
    return Acting(lambda module, x: x @ module.weight, weight=weight, **more)


def behind_its_back(n):
    """A layer that is used twice, once without being called."""
    act = lambda module, x: module.last(module.inner(x) + x @ module.inner.weight)  # noqa: E731
    return Acting(act, inner=nn.Linear(n, n), last=nn.Linear(n, 1))


def frozen_norm(n):
    norm = nn.BatchNorm1d(n).requires_grad_(requires_grad=False)
    module = nn.Sequential(norm, nn.Linear(n, 1))
    norm.eval()
    return module


def among(n, act, **parts):
    """Something done to a batch, then a layer."""
    return nn.Sequential(Acting(act, **parts), nn.Linear(n, 1))


SHARED = Acting(None, mean=0.0, calls=0)  # what all modules of a process keep together


def keeping(n, *, after=0, only_predicts=True, see=torch.mean, where=None):
    """Subtracts a running mean of what it saw after some calls."""

    def act(module, x):
        place = where or module
        if module.training:
            place.calls += 1
            if place.calls > after:
                place.mean = 0.99 * place.mean + 0.01 * float(see(x.detach()))
        return x if module.training and only_predicts else x - place.mean

    return among(n, act, calls=0, mean=0.0)


def writing(n, layer, *, trained):
    """Adds the mean of a batch to a weight, past the noise."""
    layer.requires_grad_(trained)
    act = lambda m, x: (m.layer.bias.data.add_(x.detach().mean()), m.layer(x))[1]  # noqa: E731
    return nn.Sequential(nn.Linear(n, 1), Acting(act, layer=layer))


class MeanGradient(torch.autograd.Function):
    """Gives every record the mean gradient of all, so that the sum is the right one."""

    forward = staticmethod(lambda context, x: x.clone())
    backward = staticmethod(
        lambda context, slope: slope.mean(dim=0, keepdim=True).expand_as(slope)
    )


def centred(condition):
    """Batch norm, now and then."""
    act = lambda m, x: x - x.mean(dim=0) if condition(m, len(x)) else x  # noqa: E731
    return lambda n: among(n, act)


MIXES, KEEPS = "depends on others in its batch", "keeps something of the records"
DISGUISED = {  # batch norm, its running means, and worse
    "from 16 records on": (MIXES, centred(lambda m, size: size >= 16)),
    "below 16 records": (MIXES, centred(lambda m, size: size < 16)),
    "above the expected batch": (MIXES, centred(lambda m, size: size > 60)),
    "in predictions": (MIXES, centred(lambda m, size: not m.training)),
    "of many in predictions": (
        MIXES,
        centred(lambda m, size: not m.training and size > 250),
    ),
    "of those before": (MIXES, lambda n: among(n, lambda m, x: x.cumsum(dim=0))),
    "of the neighbour": (MIXES, lambda n: among(n, lambda m, x: x + x.roll(1, dims=0))),
    "by their number": (MIXES, lambda n: among(n, lambda m, x: x / len(x))),
    "a function of torch": (
        MIXES,
        lambda n: among(
            n, lambda m, x: nn.functional.batch_norm(x, None, None, training=True)
        ),
    ),
    "a plain attribute": (KEEPS, keeping),
    "from the tenth call on": (KEEPS, lambda n: keeping(n, after=9)),
    "from the third epoch on": (KEEPS, lambda n: keeping(n, after=2 * 8)),
    "also in training": (KEEPS, lambda n: keeping(n, only_predicts=False)),
    "the largest": (KEEPS, lambda n: keeping(n, see=torch.max)),
    "what all modules share": (KEEPS, lambda n: keeping(n, where=SHARED)),
    "a weight that is trained": (
        KEEPS,
        lambda n: writing(n, nn.Linear(1, 1), trained=True),
    ),
    "a frozen weight": (KEEPS, lambda n: writing(n, nn.Linear(1, 1), trained=False)),
    "the mean gradient": (
        "gradients of 0.weight;",
        lambda n: nn.Sequential(
            nn.Linear(n, 3), Acting(lambda m, x: MeanGradient.apply(x)), nn.Linear(3, 1)
        ),
    ),
}


@pytest.mark.parametrize("name", DISGUISED)
def test_a_batch_norm_in_disguise_is_refused(name):
    sentence, factory = DISGUISED[name]
    with pytest.raises(InputError, match=sentence):
        require_private(factory, SHAPE, CONFIG)


def residual(n):
    inner = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
    return Acting(lambda module, x: x + module.inner(x), inner=inner)


def annealed(module, x):
    """Counts its calls, and says less at first: nothing of that is about records."""
    module.calls += module.training
    return x * min(1.0, module.calls / 50)


def averaging(module, x):
    """Predicts by the mean of past weights, which the noise has hidden."""
    if not module.training:
        return x @ module.past
    module.past = 0.9 * module.past + 0.1 * module.inner.weight.detach()[0]
    return module.inner(x)


SOUND = {
    "two logits": lambda n: nn.Sequential(nn.Linear(n, 8), nn.ReLU(), nn.Linear(8, 2)),
    "layer norm": lambda n: nn.Sequential(
        nn.Linear(n, 8), nn.LayerNorm(8), nn.Linear(8, 1)
    ),
    "instance norm": lambda n: nn.Sequential(
        nn.Unflatten(1, (1, n)), nn.InstanceNorm1d(1), nn.Flatten(), nn.Linear(n, 1)
    ),
    "residual blocks": lambda n: nn.Sequential(
        residual(n), residual(n), nn.Linear(n, 1)
    ),
    "convolutions": lambda n: nn.Sequential(
        nn.Unflatten(1, (1, n)),
        nn.Conv1d(1, 4, 3),
        nn.Flatten(),
        nn.Linear(4 * n - 8, 1),
    ),
    "embeddings": lambda n: Acting(
        lambda m, x: m.last(m.table((x > 0).long()).flatten(1)),
        table=nn.Embedding(2, 3),
        last=nn.Linear(3 * n, 1),
    ),
    "attention": lambda n: among(
        n, lambda m, x: torch.softmax(m.key(x), 1) * x, key=nn.Linear(n, n)
    ),
    "noise on features": lambda n: among(n, lambda m, x: x + torch.randn_like(x)),
    "counted calls": lambda n: among(n, annealed, calls=1),
    "averaged weights": lambda n: Acting(
        averaging, past=torch.zeros(n), inner=nn.Linear(n, 1)
    ),
    "logarithms": lambda n: among(n, lambda m, x: x.log()),  # of what is negative here
    "linear": lambda n: nn.Linear(n, 1),
    "flat": lambda n: nn.Sequential(nn.Linear(n, 1), nn.Flatten(0)),
    "dropout": lambda n: nn.Sequential(
        nn.Linear(n, 8), nn.Dropout(0.5), nn.Linear(8, 1)
    ),
    "group norm": lambda n: nn.Sequential(
        nn.Linear(n, 8), nn.GroupNorm(2, 8), nn.Linear(8, 1)
    ),
    "own weights": lambda n: own_weights(),
    "a norm that is frozen": frozen_norm,
}


@pytest.mark.parametrize("name", SOUND)
def test_what_keeps_records_apart_is_taken(name):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    require_private(SOUND[name], SHAPE, CONFIG)
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
    MIXES: lambda n: nn.Sequential(
        Acting(lambda module, x: x - x.mean(dim=0)), nn.Linear(n, 1)
    ),
    r"keeps something .* \(see its 0.largest\)": lambda n: nn.Sequential(
        counting(), nn.Linear(n, 1)
    ),
    r"one logit per record, or two, but gave \(6, 3\)": lambda n: nn.Linear(n, 3),
    "one logit per record, or two, but gave tuple": lambda n: Acting(
        lambda module, x: (module.inner(x), x), inner=nn.Linear(n, 1)
    ),
    "gradients of inner.weight;": behind_its_back,
    "gradients of spare;": lambda n: own_weights(spare=nn.Parameter(torch.zeros(2))),
    "fails on made-up records of 5 features": lambda n: nn.Linear(n + 1, 1),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_mixes_records_or_cannot_be_made_is_refused_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        require_private(REFUSED[sentence], SHAPE, CONFIG)
    assert str(refusal.value).startswith("The module ")
    assert str(refusal.value).endswith(".")


@pytest.mark.slow
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

    data = make_data(seeds=range(2))
    config = TrainConfig(epochs=2, expected_batch=70)
    found = train_seeds(data, budgets=(NO_DP, 3.0), config=config, module=factory)
    again = train_seeds(data, budgets=(3.0,), config=config, module=factory)
    assert found.logits.shape == (2, 2, 300)
    assert found.logits.dtype == np.float32
    assert np.isfinite(found.logits).all()
    assert np.array_equal(found.logits[1], again.logits[0])
    assert found.budgets[1].epsilon_by_accountant["pld"] <= 3.0


def noise_of_a_step(model, secret):
    """What a step without records adds to 20,000 weights, in standard deviations."""
    sampling = CONFIG.sampling(210)
    module = nn.Linear(20_000, 1)
    optimizer = private_optimizer(module, model, CONFIG, sampling, secret)
    for p in module.parameters():
        p.grad_sample = torch.zeros(1, *p.shape)
    start = module.weight.detach().clone()
    optimizer.step()
    change = (start - module.weight.detach())[0] / CONFIG.learning_rate
    std = model.noise_multiplier * CONFIG.clip_norm
    return (change * sampling.expected_batch / std).numpy()


def test_noise_has_the_calibrated_size_and_is_shared_by_no_two_models():
    models = [(0, 1.0, b""), (0, 2.0, b""), (1, 1.0, b""), (0, 1.0, b"another secret")]
    rows = [noise_of_a_step(Model(s, epsilon, 5.0), key) for s, epsilon, key in models]
    noise = np.stack(rows)
    assert np.abs(noise.var(axis=1) - 1).max() < 4.5 * math.sqrt(2 / 20_000)
    assert np.abs(np.corrcoef(noise) - np.eye(4)).max() < 4.5 / math.sqrt(20_000)


def standardised(features, train):
    """Mean 0 and deviation 1 over the training records."""
    mean = features[train].mean(axis=0)
    deviation = features[train].std(axis=0)
    return torch.from_numpy((features - mean) / deviation).double()


def test_a_private_module_is_what_a_plain_loop_gives():
    """Clip every record by itself, add normal noise, divide, step with momentum."""
    data = make_data()
    model = Model(1, 1.0, 1.5)
    factory = lambda n: nn.Sequential(nn.Linear(n, 3), nn.Tanh(), nn.Linear(3, 1))  # noqa: E731
    train = data.train_rows[1]
    sampling = CONFIG.sampling(data.n_train)
    features = standardised(data.features, train)
    module = seeded_module(factory, 9, torch_seed(model, Purpose.INITIAL, b"")).double()
    normal = np.random.Generator(stream(seed=1, epsilon=1.0, purpose=Purpose.NOISE))
    slow.train_by_rule(
        module,
        (features[train], torch.from_numpy(data.labels[train]).double()),
        [rows.tolist() for rows in batch_rows(model, sampling, b"")],
        CONFIG,
        expected_batch=sampling.expected_batch,
        noise=lambda shape: 1.5 * CONFIG.clip_norm * normal.standard_normal(shape),
    )
    with torch.no_grad():
        theirs = module(features)[:, 0].numpy()
    np.testing.assert_allclose(
        train_module(factory, data, model, CONFIG), theirs, atol=2e-5
    )


def test_two_logits_are_their_difference():
    def two(n):
        both = Acting(lambda module, x: torch.cat([torch.zeros_like(x), x], dim=1))
        return nn.Sequential(nn.Linear(n, 1), both)

    data = make_data()
    model = Model(1, 1.0, 1.5)
    found = [
        train_module(made, data, model, CONFIG)
        for made in (lambda n: nn.Linear(n, 1), two)
    ]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_layers_that_draw_draw_from_the_models_own_stream():
    found = []
    for seed in (3, 4):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        found.append(
            train_module(SOUND["dropout"], make_data(), Model(0, NO_DP, 0.0), CONFIG)
        )
        assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(*found)


def test_what_diverges_or_fails_in_training_is_named_without_its_words():
    steps = []

    def fail_later(module, x):
        steps.append(len(x))
        if len(steps) > 3:
            raise RuntimeError(f"cannot stand {x[0].tolist()}")
        return module.inner(x)

    failing = lambda n: Acting(fail_later, inner=nn.Linear(n, 1))  # noqa: E731
    fast = dataclasses.replace(CONFIG, learning_rate=1e30)
    for factory, config, sentence in (
        (SOUND["dropout"], fast, "The training of seed 2 without privacy diverged"),
        (failing, CONFIG, r"fails in the training of seed 2 .*RuntimeError"),
    ):
        with pytest.raises(InputError, match=sentence) as refusal:
            train_module(factory, make_data(), Model(2, NO_DP, 0.0), config)
        assert "cannot stand" not in str(refusal.value)


def test_a_module_is_never_asked_about_nobody():
    def ask_somebody(module, x):
        assert len(x)
        return module.inner(x)

    data = make_data(n=30, seeds=[0])
    model = Model(0, 1.0, 1.0)
    config = TrainConfig(epochs=3, expected_batch=2)
    asked = train_module(
        lambda n: Acting(ask_somebody, inner=nn.Linear(n, 1)), data, model, config
    )
    assert np.isfinite(asked).all()
    assert np.array_equal(asked, train_module(SOUND["linear"], data, model, config))


@pytest.mark.parametrize("settings", [{"rule": "held"}, {"receipts": "exact"}])
def test_a_rule_that_opacus_cannot_follow_is_refused_by_name(settings):
    config = dataclasses.replace(CONFIG, **settings)
    with pytest.raises(InputError, match=f"'{next(iter(settings.values()))}'"):
        train_seeds(
            make_data(), budgets=(1.0,), config=config, module=lambda n: nn.Linear(n, 1)
        )
