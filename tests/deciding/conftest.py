"""Two releases of one world, the second with more memorised about one group."""

import numpy as np
import pytest

import pcer
from pcer.release.file import Release
from tests.deciding.changed import WORLD
from tests.worlds.two_models import draw_both


@pytest.fixture(scope="module")
def both() -> tuple[Release, Release]:
    return draw_both(WORLD, np.random.default_rng(3))


@pytest.fixture(scope="module")
def changes(both) -> pcer.Changes:
    return pcer.compare(*both)
