"""Find a dataset's file on this machine, or download it once, verify it, and cache it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from pcer.errors import FetchError, InputError
from pcer.files import cache_folder
from pcer.store.blocks import file_digest

FOLDER_VARIABLE = "PCER_DATA"
BUNDLED = Path(str(package_files("pcer.data") / "files"))
TIMEOUT_SECONDS = 60
BLOCK_BYTES = 2**16


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a dataset."""

    name: str  # in the wheel, in the folder ``PCER_DATA`` and in the cache
    sha256: str | None = None  # None where the publisher promises no fixed bytes
    url: str | None = (
        None  # where its publisher keeps it; None: it cannot be downloaded
    )
    check: Callable[[Path], None] | None = None  # raises InputError for another shape


def locate(
    file: DataFile, *, folder: Path | None = None, cache: Path | None = None
) -> Path | None:
    """Verified path: bundled, in ``folder`` (default ``PCER_DATA``) or in the cache; or None."""
    named = folder or os.environ.get(FOLDER_VARIABLE)
    for place in (BUNDLED, *([Path(named)] if named else []), cache):
        path = (place or cache_folder()) / file.name
        if path.is_file():
            require_digest(file, path)
            return path
    return None


def download(
    file: DataFile, *, cache: Path | None = None, show_progress: bool = True
) -> Path:
    """Download the file into the cache, whole and verified, or raise FetchError with a remedy."""
    import requests
    from rich.console import Console
    from rich.progress import track

    if file.url is None:
        raise FetchError(
            f"{file.name} cannot be downloaded; name the folder that holds it in {FOLDER_VARIABLE}."
        )
    target = (cache or cache_folder()) / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:
        path = Path(folder) / file.name
        try:
            with (
                requests.get(file.url, stream=True, timeout=TIMEOUT_SECONDS) as answer,
                path.open("wb") as stream,
            ):
                answer.raise_for_status()
                blocks = track(
                    answer.iter_content(BLOCK_BYTES),
                    file.name,
                    total=int(answer.headers.get("Content-Length", 0)) / BLOCK_BYTES
                    or None,
                    console=Console(stderr=True),
                    disable=not show_progress,
                )
                stream.writelines(blocks)
            require_digest(file, path)
            if file.check is not None:
                file.check(path)
        except (OSError, InputError) as error:  # those of requests are among the former
            broke_off = f"the download failed ({type(error).__name__})"
            other = "the file is not the one that its publisher describes"
            raise FetchError(
                f"{file.name} could not be fetched from {file.url}: "
                f"{other if isinstance(error, InputError) else broke_off}, and nothing was kept; "
                "try again later, or download it yourself into a folder and name that in "
                f"{FOLDER_VARIABLE}."
            ) from error
        os.replace(path, target)
    return target


def require_digest(file: DataFile, path: Path) -> None:
    """Raise InputError unless the file has its digest, where one is known."""
    if file.sha256 is not None and file_digest(path) != file.sha256:
        raise InputError(
            f"{path} is not the file that pcer knows: its SHA-256 digest should be {file.sha256}; "
            "replace it by an unaltered copy, or remove it."
        )


def require_count(path: Path, found: int, published: int, what: str) -> None:
    """Raise InputError unless a file without a digest holds as many records as is published."""
    if found != published:
        raise InputError(
            f"{path} holds {found:,} {what} instead of the {published:,} published; remove it and "
            "fetch it again."
        )
