"""Which benchmarks there are, where each can come from on this machine, and loading one.

A new dataset is one file beside this one, and one line in ``SOURCES``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pcer.data import acs, adult, bios, compas
from pcer.data.dataset import GroupedDataset
from pcer.data.fetch import BUNDLED, FOLDER_VARIABLE, download, locate
from pcer.data.task import Columns, DatasetTask, build
from pcer.errors import InputError
from pcer.files import cache_folder

# Best first for each task; the first source is the publisher's and can be fetched.
SOURCES: tuple[tuple[DatasetTask, Callable[[Sequence[Path]], Columns]], ...] = (
    (adult.ADULT, adult.read),
    (compas.COMPAS, compas.read),
    (acs.ACS_INCOME, acs.read),
    (acs.ACS_INCOME_COPY, acs.read_copy),
    (bios.BIOS, bios.read),
    (bios.BIOS_COPY, bios.read_copy),
)


def names() -> tuple[str, ...]:
    """Names of all benchmarks, in their order."""
    return tuple(dict.fromkeys(task.name for task, _ in SOURCES))


def load(
    name: str,
    *,
    folder: Path | None = None,
    cache: Path | None = None,
    show_progress: bool = True,
) -> GroupedDataset:
    """One of the benchmark tasks, from this machine or else from its publisher.

    Looked for in this order: in the package, in ``folder`` (default: the folder named by the
    environment variable ``PCER_DATA``), in the cache. Only then is anything downloaded.

    Args:
        name: ``adult``, ``compas``, ``acs`` or ``bios``.
        folder: a folder with copies of the files.
        cache: where downloads are kept; default: the user's cache folder.
        show_progress: draw a progress bar on standard error while downloading.

    Raises:
        InputError: no such task, or files that are not what they should be.
        FetchError: the files are not here and could not be downloaded.

    >>> load("compas").n_records
    6172
    """
    sources = [source for source in SOURCES if source[0].name == name]
    if not sources:
        raise InputError(f"there is no dataset {name!r}; choose one of: {', '.join(names())}.")
    for task, read in sources:
        paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        here = [path for path in paths if path is not None]
        if len(here) == len(paths):
            return build(task, read(here))
    task, read = sources[0]
    fetched = [
        locate(file, folder=folder, cache=cache)
        or download(file, cache=cache, show_progress=show_progress)
        for file in task.files
    ]
    return build(task, read(fetched))


def task_at_hand(
    name: str, *, folder: Path | None = None, cache: Path | None = None
) -> DatasetTask | None:
    """The source ``load`` would use without downloading anything; None where it would."""
    for task, _ in SOURCES:
        if task.name == name and all(locate(f, folder=folder, cache=cache) for f in task.files):
            return task
    return None


def describe_datasets(
    *, folder: Path | None = None, cache: Path | None = None
) -> list[dict[str, Any]]:
    """One plain entry per dataset, about the source that ``load`` would use."""
    return [_describe(*_source(name, folder, cache)) for name in names()]


def _describe(task: DatasetTask, where: str) -> dict[str, Any]:
    plain = ("outcome", "positive_label", "source", "licence", "caution")
    return {
        **{field: getattr(task, field) for field in ("name", "title", "n_records")},
        "attributes": {
            attribute: [group for group, _ in rule.groups]
            for attribute, rule in task.attributes.items()
        },
        **{field: getattr(task, field) for field in plain},
        "at_hand": where,
        "notes": list(task.notes),
    }


def _source(name: str, folder: Path | None, cache: Path | None) -> tuple[DatasetTask, str]:
    """The source that ``load`` would use, and in words where it lies and how large it is."""
    tasks = [task for task, _ in SOURCES if task.name == name]
    for task in tasks:
        try:
            paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        except InputError as error:
            return task, f"unusable: {error}"
        if (first := paths[0]) is not None and all(paths):
            return task, f"{_place(first.parent, cache)}, {_size(task)}"
    return tasks[0], f"to fetch, {_size(tasks[0])}"


def _place(folder: Path, cache: Path | None) -> str:
    if folder == (cache or cache_folder()):
        return "cached"
    if folder == BUNDLED:
        return "bundled"
    return f"in {FOLDER_VARIABLE}" if os.environ.get(FOLDER_VARIABLE) else "in the folder"


def _size(task: DatasetTask) -> str:
    """Size of the task's files; the publisher of the census files states none."""
    sizes = [file.n_bytes for file in task.files]
    if None in sizes:
        return f"{len(sizes)} files"
    total = sum(size for size in sizes if size is not None)
    return f"{total / 1e6:.1f} MB" if total > 1e6 else f"{total / 1e3:.0f} kB"
