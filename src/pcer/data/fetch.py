"""Where does a dataset's file lie on this machine, or who publishes it?

``pcer.data.benchmarks`` locates every file of a dataset, or else downloads it once:
whole, verified and into the cache.
"""

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


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a dataset."""

    name: str  # in the wheel, in the folder ``PCER_DATA`` and in the cache
    sha256: str | None = None  # None where the publisher promises no fixed bytes
    url: str | None = None  # of its publisher; None: it cannot be downloaded
    check: Callable[[Path], None] | None = None  # raises InputError for another shape


def locate(
    file: DataFile, *, folder: Path | None = None, cache: Path | None = None
) -> Path | None:
    """The verified path of a file; None where it is not on this machine.

    Looked for in this order: among the bundled files, in ``folder`` (default: the one
    that ``PCER_DATA`` names), in the cache.
    """
    for place in _places(folder, cache):
        path = place / file.name
        if path.is_file():
            require_digest(file, path)
            return path
    return None


def _places(folder: Path | None, cache: Path | None) -> Iterator[Path]:
    """Folders in which a file may lie, best first."""
    yield BUNDLED
    named = folder or os.environ.get(FOLDER_VARIABLE)
    if named:
        yield Path(named)
    yield cache or cache_folder()


def download(
    file: DataFile, *, cache: Path | None = None, show_progress: bool = True
) -> Path:
    """Download the file into the cache, whole and verified.

    Raises:
        FetchError: it has no address, was not reached, or is not what it should be;
            nothing is kept.
    """
    if file.url is None:
        raise FetchError(
            f"{file.name} cannot be downloaded; name the folder that holds it in "
            f"{FOLDER_VARIABLE}."
        )
    target = (cache or cache_folder()) / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:
        path = Path(folder) / file.name
        try:
            _write_answer(file.url, path, show_progress=show_progress)
            require_digest(file, path)
            if file.check is not None:
                file.check(path)
        except InputError as error:
            reason = "the file is not the one that its publisher describes"
            raise _not_fetched(file, reason) from error
        except OSError as error:  # those of requests are among them
            reason = f"the download failed ({type(error).__name__})"
            raise _not_fetched(file, reason) from error
        os.replace(path, target)
    return target


def _write_answer(url: str, path: Path, *, show_progress: bool) -> None:
    """Write what an address holds into a file."""
    import requests
    from rich.console import Console
    from rich.progress import track

    with (
        requests.get(url, stream=True, timeout=TIMEOUT_SECONDS) as answer,
        path.open("wb") as stream,
    ):
        answer.raise_for_status()
        n_bytes = int(answer.headers.get("Content-Length", 0))
        blocks = track(
            answer.iter_content(BLOCK_BYTES),
            path.name,
            total=n_bytes / BLOCK_BYTES or None,
            console=Console(stderr=True),
            disable=not show_progress,
        )
        stream.writelines(blocks)


def _not_fetched(file: DataFile, reason: str) -> FetchError:
    return FetchError(
        f"{file.name} could not be fetched from {file.url}: {reason}, and nothing was "
        "kept; try again later, or download it yourself into a folder and name that in "
        f"{FOLDER_VARIABLE}."
    )


def require_digest(file: DataFile, path: Path) -> None:
    """Raise InputError unless the file has its digest, where one is known."""
    if file.sha256 is not None and file_digest(path) != file.sha256:
        raise InputError(
            f"{path} is not the file that pcer knows: its SHA-256 digest should be "
            f"{file.sha256}; replace it by an unaltered copy, or remove it."
        )


def require_count(path: Path, n_found: int, n_published: int, what: str) -> None:
    """Raise InputError unless a file holds the published number of records.

    For files whose publisher promises no fixed bytes.
    """
    if n_found != n_published:
        raise InputError(
            f"{path} holds {n_found:,} {what} instead of the {n_published:,} "
            "published; remove it and fetch it again."
        )
