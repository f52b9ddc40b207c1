"""Modules that mix the records of a batch where no probe looks; each breaks privacy."""

import pytest
import torch

from pcer.errors import InputError
from pcer.train.opacus import require_private
from tests.train.test_opacus import CONFIG, MIXES, SHAPE, among


def centred_at_random(module, x):
    """Batch norm in one of ten calls."""
    return x - x.mean(dim=0) if torch.rand(()) < 0.1 else x


def centred_in_few(module, x):
    """Batch norm in batches of 2 to 5 records, which are smaller than a probe."""
    return x - x.mean(dim=0) if 2 <= len(x) <= 5 else x


def weighted_by_twins(module, x):
    """A record counts as often as it occurs in the batch."""
    is_twin = x[:, :1] == x[:, 0]
    return x * is_twin.sum(dim=1, keepdim=True)


def slightly_centred(module, x):
    """Batch norm of a size that passes for rounding."""
    return x - 5e-5 * x.mean(dim=0)


def clamped(module, x):
    """Far values end at a limit that the largest value of the batch sets."""
    return x.clamp(min=-2 * x.max())


@pytest.mark.parametrize(
    "act",
    [centred_at_random, centred_in_few, weighted_by_twins, slightly_centred, clamped],
)
def test_a_module_that_seldom_or_hardly_mixes_is_refused(act):
    with pytest.raises(InputError, match=MIXES):
        require_private(lambda n: among(n, act), SHAPE, CONFIG)
