"""What an epsilon compares: the number of records is public, or nothing follows from it."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from pcer.train import Accountant, Model, TrainConfig, epsilon_spent
from pcer.train import engine as fleets
from pcer.train.cpu import CpuDevice
from tests.train_cases import make_data

CPU = CpuDevice()
USUAL = TrainConfig(hidden=(32, 16), epochs=4, expected_batch=64, momentum=0.0)
FIXED = dataclasses.replace(
    USUAL, adjacency="add-or-remove", sample_rate=1 / 4, n_steps=16, divisor=64
)
N, NOISE, EPSILON = 256, 40.0, 0.5
"""The noise makes a gradient invisible: 16 steps at rate 1/4 spend far less than this epsilon."""


def spread_of_weights(config, n_train, seed):
    """How far the weights of a published model have walked from their start."""
    data = make_data(n=400, seeds=[seed], share=n_train / 400)
    assert data.n_train == n_train
    with torch.no_grad():
        fleet = fleets.assemble(data, [Model(seed, EPSILON, NOISE)], config, device=CPU, secret=b"")
        moved = CPU.fit(fleet).weights - fleet.start.weights
    parts = [layer.matrix.flatten() for layer in fleet.layout.layers(moved)]
    return float(torch.cat(parts).std())


def guesses(config, *, n_seeds=24):
    """Which of two neighbours an observer of the weights takes each model for, and which it is."""
    both = np.array(
        [[spread_of_weights(config, n, seed) for n in (N, N + 1)] for seed in range(n_seeds)]
    )
    line = np.median(both)
    found = np.array([both[:, 0] < line, both[:, 1] >= line])
    return max(found.mean(), 1 - found.mean())


def test_with_n_secret_a_rate_that_follows_from_n_gives_one_person_away():
    """256 records make 4 steps an epoch, 257 make 5, and each is divided by another number.

    The epsilon is of sums that differ by one gradient; it covers no change of everybody's steps.
    """
    few, more = (USUAL.sampling(n) for n in (N, N + 1))
    assert (few.n_steps, few.expected_batch) == (16, 64)
    assert (more.n_steps, more.expected_batch) == (20, 51)
    most = math.exp(EPSILON) / (
        1 + math.exp(EPSILON)
    )  # what pure EPSILON-DP lets an observer reach
    assert most == pytest.approx(0.622, abs=1e-3)
    assert guesses(USUAL) == 1.0


def test_with_rate_steps_and_divisor_fixed_the_same_observer_learns_nothing():
    assert FIXED.sampling(N + 1) == dataclasses.replace(FIXED.sampling(N), n_train=N + 1)
    assert guesses(FIXED) < 0.75  # 48 guesses of a fair coin: 3.5 standard deviations


def test_a_zeroed_record_changes_no_other_gradient_and_no_sum_by_more_than_the_clip():
    """The adjacency that is kept: n stays, batches stay, one gradient becomes zero."""
    config = TrainConfig(hidden=(5,), epochs=2, expected_batch=40, clip_norm=0.3)
    data = make_data(seeds=[0])
    with torch.no_grad():
        fleet = fleets.assemble(data, [Model(0, EPSILON, 1.0)], config, device=CPU, secret=b"")
        rows = fleet.schedule.rows[0]
        total = fleets.batch_sum(fleet, fleet.start.weights, rows)
        for column in range(int(fleet.schedule.sizes[0, 0])):
            zeroed = rows.clone()
            zeroed[0, column] = len(fleet.table) - 1  # joins the batch with nothing
            change = fleets.batch_sum(fleet, fleet.start.weights, zeroed) - total
            assert 0 < change.norm() <= 0.3 + 1e-6


def test_fixed_settings_reach_the_accountant():
    one, other = (
        epsilon_spent(2.0, n_train=n, config=FIXED, accountant=Accountant.RDP) for n in (300, 9_000)
    )
    assert one == other
    usual = [
        epsilon_spent(2.0, n_train=n, config=USUAL, accountant=Accountant.RDP) for n in (300, 9_000)
    ]
    assert usual[0] != usual[1]


def test_a_fixed_rate_may_be_larger_than_a_batch_would_allow():
    sampling = TrainConfig(sample_rate=0.5, n_steps=7, divisor=3).sampling(10)
    assert (sampling.steps_per_epoch, sampling.n_steps, sampling.expected_batch) == (2, 7, 3)
    assert TrainConfig(sample_rate=1 / 64).sampling(10).expected_batch == 1
