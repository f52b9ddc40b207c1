"""The command line for tests that look at its exit code and at what it said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import commands


@pytest.fixture
def run() -> Callable[..., tuple[int, str, str]]:
    """A command in this process."""

    def pcer(*arguments: object) -> tuple[int, str, str]:
        done = commands.run(*arguments)
        return done.returncode, done.stdout, done.stderr

    return pcer
