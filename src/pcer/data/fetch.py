"""Find a dataset's file on this machine, or download it once, verify it, and cache it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
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
_WEB_PAGE_STARTS = (b"<!doctype", b"<html", b"<?xml", b"<head")


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a dataset."""

    name: str  # in the wheel, in the folder ``PCER_DATA`` and in the cache
    n_bytes: int | None = None  # shown to people; None where it is not known
    sha256: str | None = None  # None where the publisher promises no fixed bytes
    url: str | None = None  # where its publisher keeps it; None: it cannot be downloaded
    check: Callable[[Path], None] | None = None  # raises InputError for another shape


def locate(file: DataFile, *, folder: Path | None = None, cache: Path | None = None) -> Path | None:
    """Where the file lies: bundled, in ``folder`` (default ``PCER_DATA``), or in the cache.

    Returns None where it is in none of them. A file with a known digest is verified.
    """
    for place in _places(folder, cache):
        path = place / file.name
        if path.is_file():
            require_digest(file, path)
            return path
    return None


def _places(folder: Path | None, cache: Path | None) -> Iterator[Path]:
    yield BUNDLED
    if named := folder or os.environ.get(FOLDER_VARIABLE):
        yield Path(named)
    yield cache or cache_folder()  # last and only when asked for: it imports pooch


def download(file: DataFile, *, cache: Path | None = None, show_progress: bool = True) -> Path:
    """Download the file into the cache; it appears there whole and verified, or not at all.

    Raises:
        FetchError: what went wrong, and how to do without the download.
    """
    target = (cache or cache_folder()) / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:
        path = Path(folder) / file.name
        _transfer(file, path, show_progress=show_progress)
        os.replace(path, target)
    return target


def require_digest(file: DataFile, path: Path) -> None:
    """Raise InputError unless the file has its digest, where one is known."""
    if file.sha256 is not None and file_digest(path) != file.sha256:
        raise InputError(
            f"{path} is not the file that pcer knows: its SHA-256 digest should be {file.sha256}; "
            "replace it by an unaltered copy, or remove it."
        )


def _transfer(file: DataFile, path: Path, *, show_progress: bool) -> None:
    import requests
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    if file.url is None:
        raise FetchError(
            f"{file.name} cannot be downloaded; name the folder that holds it in {FOLDER_VARIABLE}."
        )
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    progress = Progress(*columns, console=Console(stderr=True), disable=not show_progress)
    try:
        with (
            requests.get(file.url, stream=True, timeout=TIMEOUT_SECONDS) as answer,
            path.open("wb") as stream,
            progress,
        ):
            answer.raise_for_status()
            n_bytes = int(answer.headers.get("Content-Length", 0))
            bar = progress.add_task(file.name, total=n_bytes or None)
            for block in answer.iter_content(BLOCK_BYTES):
                progress.advance(bar, stream.write(block))
    except (requests.RequestException, OSError) as error:
        raise _failure(file, f"the download broke off ({type(error).__name__})") from error
    with path.open("rb") as stream:
        if stream.read(64).lstrip().lower().startswith(_WEB_PAGE_STARTS):
            raise _failure(file, "the server answered with a web page")
    try:
        require_digest(file, path)
        if file.check is not None:
            file.check(path)
    except InputError as error:
        what = "not what the publisher described" if file.sha256 is None else "altered"
        raise _failure(file, f"it is {what}") from error


def _failure(file: DataFile, reason: str) -> FetchError:
    return FetchError(
        f"{file.name} could not be fetched from {file.url}: {reason}, and nothing was kept; try "
        f"again later, or download it yourself into a folder and name that in {FOLDER_VARIABLE}."
    )
