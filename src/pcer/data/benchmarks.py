"""The benchmarks, where each can come from on this machine, and loading one.

A new dataset is one file beside this one, and one line in ``SOURCES``.
"""

from __future__ import annotations

import os
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
    paths = paths or [
        locate(file, folder=folder, cache=cache)
        or download(file, cache=cache, show_progress=show_progress)
        for file in task.files
    ]
    tables = [task.read(path, task.columns) for path in paths]
    return build(
        task, {c: np.concatenate([table[c] for table in tables]) for c in task.columns}
    )


def describe_datasets(
    *, folder: Path | None = None, cache: Path | None = None
) -> list[dict[str, Any]]:
    """One plain entry per dataset, about the source that ``load`` would use."""
    listed = []
    for name in names():
        try:
            task, paths = at_hand(name, folder, cache)
            named = (
                f"in {FOLDER_VARIABLE}"
                if os.environ.get(FOLDER_VARIABLE)
                else "in the folder"
            )
            places = {cache or cache_folder(): "cached", BUNDLED: "bundled"}
            where = f"to fetch, {len(task.files)} files"
            if paths:
                n_bytes = sum(path.stat().st_size for path in paths)
                size = (
                    f"{n_bytes / 1e6:.1f} MB"
                    if n_bytes > 1e6
                    else f"{n_bytes / 1e3:.0f} kB"
                )
                where = f"{places.get(paths[0].parent, named)}, {size}"
        except InputError as error:
            task = next(task for task in SOURCES if task.name == name)
            where = f"unusable: {error}"
        groups = {
            own: [group for group, _ in rule.groups]
            for own, rule in task.attributes.items()
        }
        first = {word: getattr(task, word) for word in ("name", "title", "n_records")}
        words = ("outcome", "positive_label", "source", "licence", "caution")
        said = {word: getattr(task, word) for word in words}
        notes = {"at_hand": where, "notes": list(task.notes)}
        listed.append(first | {"attributes": groups} | said | notes)
    return listed


def at_hand(
    name: str, folder: Path | None = None, cache: Path | None = None
) -> tuple[DatasetTask, list[Path]]:
    """The best source whose files are all here, and they; else the publisher's, and none."""
    tasks = [task for task in SOURCES if task.name == name]
    for task in tasks:
        paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        here = [path for path in paths if path is not None]
        if len(here) == len(paths):
            return task, here
    return tasks[0], []
