"""Find a dataset's file on this machine, or download it once, verify it, and cache it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from pcer.errors import FetchError, InputError
from pcer.files import cache_folder

FOLDER_VARIABLE = "PCER_DATA"
TIMEOUT_SECONDS = 60
_WEB_PAGE_STARTS = (b"<!doctype", b"<html", b"<?xml", b"<head")


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a dataset.

    Args:
        name: file name, in the wheel, in the folder ``PCER_DATA`` and in the cache.
        n_bytes: its size, shown to people; None where it is not known.
        sha256: digest of the file; None where the publisher promises no fixed bytes.
        url: where its publisher keeps it; None for a file that cannot be downloaded.
        check: raises InputError unless the file has the promised shape.
    """

    name: str
    n_bytes: int | None = None
    sha256: str | None = None
    url: str | None = None
    check: Callable[[Path], None] | None = None


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
        _accept(file, path)
        os.replace(path, target)
    return target


def require_digest(file: DataFile, path: Path) -> None:
    """Raise InputError unless the file has its digest, where one is known."""
    if file.sha256 is not None and _sha256(path) != file.sha256:
        raise InputError(
            f"{path} is not the file that pcer knows: its SHA-256 digest should be {file.sha256}; "
            "replace it by an unaltered copy, or remove it."
        )


def _places(folder: Path | None, cache: Path | None) -> Iterator[Path]:
    yield Path(str(package_files("pcer.data") / "files"))
    named = os.environ.get(FOLDER_VARIABLE)
    if folder is not None or named:
        yield folder or Path(str(named))
    yield cache or cache_folder()


def _transfer(file: DataFile, path: Path, *, show_progress: bool) -> None:
    import pooch
    from requests import RequestException

    if file.url is None:
        raise FetchError(
            f"{file.name} cannot be downloaded; name the folder that holds it in {FOLDER_VARIABLE}."
        )
    try:
        with _progress(file.name, show_progress) as progress, ExitStack() as opened:
            downloader = pooch.HTTPDownloader(
                progressbar=progress,
                timeout=TIMEOUT_SECONDS,
                hooks={"response": lambda response, **_: opened.enter_context(closing(response))},
            )
            downloader(file.url, str(path), None)
    except (RequestException, OSError) as error:
        raise _failure(file, f"the download broke off ({type(error).__name__})") from error


def _accept(file: DataFile, path: Path) -> None:
    """Raise FetchError unless the download is what was asked for."""
    with path.open("rb") as stream:
        start = stream.read(64).lstrip().lower()
    if start.startswith(_WEB_PAGE_STARTS):
        raise _failure(file, "the server answered with a web page")
    try:
        require_digest(file, path)
        if file.check is not None:
            file.check(path)
    except InputError as error:
        reason = (
            "it is not what the publisher described" if file.sha256 is None else "it is altered"
        )
        raise _failure(file, reason) from error


def _failure(file: DataFile, reason: str) -> FetchError:
    return FetchError(
        f"{file.name} could not be fetched from {file.url}: {reason}, and nothing was kept; try "
        f"again later, or download it yourself into a folder and name that in {FOLDER_VARIABLE}."
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Bar:
    """The little that pooch asks of a progress bar, drawn by rich on standard error."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task
        self.total = 0

    def update(self, n: int) -> None:
        self._progress.update(self._task, total=self.total or None, advance=n)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()


@contextmanager
def _progress(name: str, show: bool) -> Iterator[Any]:
    if not show:
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Bar(progress, progress.add_task(name, total=None))
