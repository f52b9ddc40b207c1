"""From planted data to the audit, through the real trainer: who was memorised is found.

What is asserted holds in every draw of the data, not in a chosen one. At epsilon 0.1 a
trace is left (an advantage of some .003 over many seeds), which one attack or another
resolves in some draws; but it never lies above what epsilon allows by more than its
error.
"""

import math

import numpy as np
import pytest

import pcer
from pcer.data import GroupedDataset
from pcer.sweep import Sweep, run_sweep
from pcer.train import EngineFlags, TrainConfig
from tests.attacks.test_pooled import ATTACKS
from tests.sweep.test_run import make_dataset

N = 600
N_FEATURES = 200
N_SEEDS = 24


def planted(draw: int = 1) -> GroupedDataset:
    """Random features, of which 20 tell the label; for one half it is shuffled."""
    rng = np.random.default_rng(draw)
    features = rng.normal(size=(N, N_FEATURES)).astype(np.float32)
    group = np.arange(N) % 2
    labels = rng.integers(0, 2, N)
    features[:, :20] += 0.6 * (2 * labels[:, None] - 1)
    labels[group == 1] = rng.permutation(labels[group == 1])
    return make_dataset("planted", features, labels, g=(("kept", "shuffled"), group))


def trained(dataset, folder, **flags):
    """The release of a sweep without privacy and at epsilon 0.1."""
    sweep = Sweep(
        dataset=dataset,
        attributes=("g",),
        budgets=(math.inf, 0.1),
        seeds=tuple(range(N_SEEDS)),
        config=TrainConfig(),
    )
    return pcer.read_release(run_sweep(sweep, folder, flags=EngineFlags(**flags))["g"])


def audited(release, attack):
    """Groups by budget."""
    plan = pcer.Plan(attack=attack, resamples=10, null_draws=10)
    return {
        setting.epsilon: setting.groups
        for setting in pcer.audit(release, plan).settings
    }


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return trained(planted(), tmp_path_factory.mktemp("planted"), jobs=1)


EPSILON = 0.1
BEYOND_CHANCE = 4.0
ALLOWED = math.expm1(EPSILON) / (math.exp(EPSILON) + 1)
"""Most that the true and false positive rates of any test can differ at that epsilon,
but for delta; every exposure here is such a difference, or half of one."""


@pytest.mark.parametrize("attack", ["overfitting_gap", *ATTACKS])
def test_the_shuffled_group_is_the_more_exposed_and_noise_hides_both(release, attack):
    """Both are remembered without privacy, the shuffled more; with it as promised."""
    found = audited(release, attack)
    open_ = found[None]
    private = found[EPSILON]
    assert open_["shuffled"].exposure.value > open_["kept"].exposure.value
    for name in ("kept", "shuffled"):
        assert open_[name].detected
        exposure = private[name].exposure
        assert exposure.value - BEYOND_CHANCE * exposure.standard_error <= ALLOWED
        assert exposure.value < open_[name].exposure.value
