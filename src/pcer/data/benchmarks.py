"""Which benchmarks are there, and where does each come from on this machine?

``load`` is for users, ``pcer train`` and the studies; ``describe_datasets`` is what
``pcer datasets`` lists. To add a dataset: one file beside this one, and one line in
``SOURCES``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcer.data import acs, adult, bios, compas
from pcer.data.dataset import GroupedDataset
from pcer.data.fetch import BUNDLED, FOLDER_VARIABLE, download, locate
from pcer.data.task import DatasetTask, build
from pcer.errors import InputError
from pcer.files import cache_folder

# Sources of each name, best first; those of the first come from the publisher.
SOURCES: tuple[DatasetTask, ...] = (
    adult.ADULT,
    compas.COMPAS,
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
