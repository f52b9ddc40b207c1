"""Which modules can be trained privately, and what is said of the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pcer.errors import InputError
from pcer.train.modules import constant_tensors, require_private

N = 5


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
    require_private(SOUND[name], N, name="mine:net")
    assert torch.equal(torch.random.get_rng_state(), before)


KEPT = nn.Linear(N, 1)
RANDOM = np.random.default_rng(0)


def with_own_numbers(n):
    module = nn.Linear(n, 1)
    with torch.no_grad():
        module.weight += float(RANDOM.normal())
    return module


REFUSED = {
    "returned str": lambda n: "net",
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
    with pytest.raises(InputError, match=sentence) as told:
        require_private(REFUSED[sentence], N, name="mine:net")
    assert str(told.value).startswith("mine:net ")
    assert str(told.value).endswith(".")


def test_weights_that_no_seed_changes_are_told_from_those_it_draws():
    def factory(n):
        module = nn.Sequential(nn.Linear(n, 2), nn.Linear(2, 1))
        with torch.no_grad():
            module[0].weight.fill_(0.5)
        return module

    assert list(constant_tensors(factory, N, name="")) == ["0.weight"]
