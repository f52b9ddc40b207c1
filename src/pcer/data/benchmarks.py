"""Which benchmarks are there, and where does each come from on this machine?

``load`` is for users, ``pcer train`` and the studies: it finds every file of a dataset,
or else downloads it once, whole and verified. ``describe_datasets`` is what ``pcer
datasets`` lists. To add a dataset: one file beside this one, and one line in SOURCES.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np

from pcer.data import acs, bios
from pcer.data.bundled import ADULT, COMPAS
from pcer.data.dataset import GroupedDataset
from pcer.data.task import DataFile, DatasetTask, build
from pcer.errors import FetchError, InputError
from pcer.files import cache_folder

FOLDER_VARIABLE = "PCER_DATA"
BUNDLED = Path(str(package_files("pcer.data") / "files"))
TIMEOUT_SECONDS = 60
BLOCK_BYTES = 2**16

# Sources of each name, best first; those of the first come from the publisher.
SOURCES: tuple[DatasetTask, ...] = (
    ADULT,
    COMPAS,
    acs.ACS_INCOME,
    acs.ACS_INCOME_COPY,
    bios.BIOS,
    bios.BIOS_COPY,
)


def names() -> tuple[str, ...]:
    """Names of all benchmarks, in their order."""
    return tuple(dict.fromkeys(task.name for task in SOURCES))


def load(
    name: str,
    *,
    folder: Path | None = None,
    cache: Path | None = None,
    show_progress: bool = True,
) -> GroupedDataset:
    """Load a benchmark task from this machine, or else from its publisher.

    Looked for in this order: in the package, in ``folder`` (default: the folder named
    by the environment variable ``PCER_DATA``), in the cache. Only then is anything
    downloaded.

    Args:
        name: as ``pcer datasets`` lists them: ``adult``, ``compas``, ``acs``, ``bios``.
        folder: a folder with copies of the files.
        cache: where downloads are kept; default: the user's cache folder.
        show_progress: draw a progress bar on standard error while downloading.

    Raises:
        InputError: no such task, or files that are not what they should be.
        FetchError: the files are not here and could not be downloaded.

    >>> load("compas").n_records
    6172
    """
    if name not in names():
        raise InputError(
            f"there is no dataset {name!r}; choose one of: {', '.join(names())}."
        )
    task, paths = at_hand(name, folder, cache)
    if not paths:
        paths = [
            locate(file, folder=folder, cache=cache)
            or download(file, cache=cache, show_progress=show_progress)
            for file in task.files
        ]
    tables = [task.read(path, task.columns) for path in paths]
    columns = {}
    for column in task.columns:
        columns[column] = np.concatenate([table[column] for table in tables])
    return build(task, columns)


def describe_datasets(
    *, folder: Path | None = None, cache: Path | None = None
) -> list[dict[str, Any]]:
    """One plain entry per dataset, about the source that ``load`` would use."""
    return [_described(name, folder, cache) for name in names()]


def _described(name: str, folder: Path | None, cache: Path | None) -> dict[str, Any]:
    try:
        task, paths = at_hand(name, folder, cache)
        where = _where(task, paths, cache)
    except InputError as error:
        task = _sources(name)[0]
        where = f"unusable: {error}"
    attributes = {}
    for attribute, rule in task.attributes.items():
        attributes[attribute] = [group for group, _ in rule.groups]
    return {
        "name": task.name,
        "title": task.title,
        "n_records": task.n_records,
        "attributes": attributes,
        "outcome": task.outcome,
        "positive_label": task.positive_label,
        "source": task.source,
        "licence": task.licence,
        "caution": task.caution,
        "at_hand": where,
        "notes": list(task.notes),
    }


def _where(task: DatasetTask, paths: Sequence[Path], cache: Path | None) -> str:
    """Where the files lie, and how large they are: "bundled, 242 kB"."""
    if not paths:
        return f"to fetch, {len(task.files)} files"
    is_set = bool(os.environ.get(FOLDER_VARIABLE))
    place = f"in {FOLDER_VARIABLE}" if is_set else "in the folder"
    if paths[0].parent == BUNDLED:
        place = "bundled"
    elif paths[0].parent == (cache or cache_folder()):
        place = "cached"
    n_bytes = sum(path.stat().st_size for path in paths)
    if n_bytes > 1e6:
        return f"{place}, {n_bytes / 1e6:.1f} MB"
    return f"{place}, {n_bytes / 1e3:.0f} kB"


def at_hand(
    name: str, folder: Path | None = None, cache: Path | None = None
) -> tuple[DatasetTask, list[Path]]:
    """The best source whose files are all here, and their paths.

    Where files of every source are missing: the publisher's, without paths.
    """
    sources = _sources(name)
    for task in sources:
        paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        here = [path for path in paths if path is not None]
        if len(here) == len(paths):
            return task, here
    return sources[0], []


def _sources(name: str) -> list[DatasetTask]:
    """Sources of one dataset, best first."""
    return [task for task in SOURCES if task.name == name]


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
            _require_digest(file, path)
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
    """Download the file into the cache, whole and verified; or keep nothing of it."""
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
            _require_digest(file, path)
            if file.check is not None:
                file.check(path)
        except (InputError, OSError) as error:  # errors of requests are OSErrors
            reason = f"the download failed ({type(error).__name__})"
            if isinstance(error, InputError):
                reason = "the file is not the one that its publisher describes"
            raise FetchError(
                f"{file.name} could not be fetched from {file.url}: {reason}, and "
                "nothing was kept; try again later, or download it yourself into a "
                f"folder and name that in {FOLDER_VARIABLE}."
            ) from error
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


def _require_digest(file: DataFile, path: Path) -> None:
    """Raise InputError unless the file has its digest, where one is known."""
    if file.sha256 is None:
        return
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != file.sha256:
        raise InputError(
            f"{path} is not the file that pcer knows: its SHA-256 digest should be "
            f"{file.sha256}; replace it by an unaltered copy, or remove it."
        )
