"""What the content of a folder or file depends on, so that no two jobs mix theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files

SETTINGS = "settings.json"

Settings = Mapping[str, Any]
"""Names and plain JSON values."""


def keep_settings(folder: Path, settings: Settings, *, added: Settings) -> None:
    """Write the settings of a new folder; refuse a folder that was begun with others."""
    path = folder / SETTINGS
    if not path.exists():
        write_files({path: canonical_json(settings)})
        return
    before = read_json(path)
    if not isinstance(before, dict):
        raise InputError(f"{path} must be an object; remove its folder and run again.")
    require_same_settings(before, settings, added=added, where=folder)


def require_same_settings(
    before: Settings, settings: Settings, *, added: Settings, where: Path
) -> None:
    """Raise InputError, naming the first that differs, unless both say the same.

    Args:
        before: with what ``where`` was made, perhaps by another version.
        settings: what is asked for now.
        added: for each setting that is younger than some folders, what stood for it before.
        where: the folder or file that the sentence names.
    """
    known = {**{name: added[name] for name in added if name in settings}, **before}
    for name in (*settings, *known):
        if name not in settings:
            fault = "a setting that this version of pcer does not have; go on with the version that"
            raise InputError(
                f"{where} was made with {name} {known[name]!r}, {fault} began it, or choose "
                "another folder."
            )
        if name not in known:
            raise InputError(
                f"{where} does not say with which {name} it was made, and {settings[name]!r} is "
                "asked for; choose another folder, or remove it."
            )
        if known[name] != settings[name]:
            raise InputError(
                f"{where} was made with {name} {known[name]!r}, but {settings[name]!r} is asked "
                "for; choose another folder, or remove it."
            )
