"""What the blocks of a folder depend on, so that no two jobs mix theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files

SETTINGS = "settings.json"


def require_same_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a new folder; refuse a folder that was begun with others."""
    path = folder / SETTINGS
    if not path.exists():
        write_files({path: canonical_json(settings)})
        return
    before = read_json(path)
    for name, value in settings.items():
        if before.get(name) != value:
            raise InputError(
                f"{folder} was made with {name} {before.get(name)!r}, but {value!r} is asked for; "
                "choose another folder, or remove this one."
            )
