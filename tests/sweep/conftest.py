"""One trained sweep for all tests of the room; not to be written into."""

import shutil
from pathlib import Path

import pytest

from pcer.sweep import run_sweep
from tests.sweep.test_run import FLAGS, contents, tiny


@pytest.fixture(scope="session")
def kept(tmp_path_factory) -> Path:
    """A finished sweep with its three blocks of scores."""
    folder, steps = tmp_path_factory.mktemp("kept"), list[str]()
    run_sweep(tiny(), folder, flags=FLAGS, keep_scores=True, on_step=steps.append)
    assert steps == ["checking with coin flips"]
    return folder


@pytest.fixture(scope="session")
def finished(kept, tmp_path_factory) -> Path:
    """The same without scores."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    return Path(shutil.copytree(kept, folder, ignore=shutil.ignore_patterns("*.scores")))


@pytest.fixture(scope="session")
def whole(finished) -> dict[str, bytes]:
    """Its releases."""
    return contents(finished)
