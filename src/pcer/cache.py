"""Where pcer keeps what it can fetch or compute again."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "PCER_CACHE"
"""Environment variable that names another folder."""


def cache_folder() -> Path:
    """The folder named by ``PCER_CACHE``, or the user's cache folder of this operating system."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    import pooch

    return Path(pooch.os_cache("pcer"))
