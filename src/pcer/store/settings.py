"""What the content of a folder or file depends on, so that no two jobs mix theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files
from pcer.store.blocks import check_blocks, has_block_of
from pcer.store.seals import record_digest

SETTINGS = "settings.json"

Settings = Mapping[str, Any]
"""Names and plain JSON values."""


def resume_folder(
    folder: Path,
    settings: Settings,
    *,
    added: Settings,
    n_columns: int,
    n_second: int | None = None,
) -> list[str]:
    """Begin or go on in a folder; what is left of it then is what these settings made.

    A settings file that is lost, cannot be read, or says other than a sealed block of these very
    settings, is written again; until then every block speaks for itself.

    Args:
        folder: whose owner the caller is.
        settings: what its blocks depend on.
        added: as for ``require_same_settings``.
        n_columns: of every block.
        n_second: columns of the second array of every block; None where they need none.

    Returns:
        Sentences for the reader, about blocks that do not count and old ones that do.

    Raises:
        InputError: it was begun with other settings.
    """
    path, digest = folder / SETTINGS, settings_digest(settings, added=added)
    before = _read(path)
    try:
        require_same_settings(
            settings if before is None else before, settings, added=added, where=folder
        )
    except InputError:
        if not has_block_of(folder, digest):
            raise
        before = None
    notes = check_blocks(
        folder,
        settings=digest,
        has_settings=before is not None,
        n_columns=n_columns,
        n_second=n_second,
    )
    if before is None:
        write_files({path: canonical_json(settings)}, private=True)
    return notes


def settings_digest(settings: Settings, *, added: Settings) -> str:
    """A digest that stays the same when a later version adds a setting and it is left as it was.

    Args:
        settings: names and values.
        added: as for ``require_same_settings``.

    >>> before, now = {"epochs": 3}, {"epochs": 3, "dropout": 0.0}
    >>> settings_digest(before, added={}) == settings_digest(now, added={"dropout": 0.0})
    True
    """
    told = {k: v for k, v in settings.items() if not (k in added and added[k] == v)}
    return record_digest(told)


def _read(path: Path) -> Settings | None:
    """What a folder says of itself; None where that is lost or is not what we write."""
    try:
        before = read_json(path)
    except InputError:
        return None
    return before if isinstance(before, dict) else None


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
