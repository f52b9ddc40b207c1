"""Where each benchmark can come from, and loading one.

A new dataset is one file beside this one, and one line in ``SOURCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pcer.data import acs, adult, bios, compas
from pcer.data.dataset import GroupedDataset
from pcer.data.fetch import download, locate
from pcer.data.task import Columns, DatasetTask, build
from pcer.errors import InputError

# Where each task can come from, best first; the first is the publisher's and can be fetched.
SOURCES: tuple[tuple[DatasetTask, Callable[[Sequence[Path]], Columns]], ...] = (
    (adult.ADULT, adult.read),
    (compas.COMPAS, compas.read),
    (acs.ACS_INCOME, acs.read),
    (acs.ACS_INCOME_COPY, acs.read_copy),
    (bios.BIOS, bios.read),
    (bios.BIOS_COPY, bios.read_copy),
)
TASKS = tuple(dict.fromkeys(task.name for task, _ in SOURCES))


def load(
    name: str,
    *,
    folder: Path | None = None,
    cache: Path | None = None,
    show_progress: bool = True,
) -> GroupedDataset:
    """One of the four benchmark tasks, from this machine or else from its publisher.

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
        raise InputError(f"there is no dataset {name!r}; choose one of: {', '.join(TASKS)}.")
    for task, read in sources:
        paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        found = [path for path in paths if path is not None]
        if len(found) == len(paths):
            return build(task, read(found))
    task, read = sources[0]
    return build(task, read(_obtain(task, folder=folder, cache=cache, show=show_progress)))


def task_at_hand(
    name: str, *, folder: Path | None = None, cache: Path | None = None
) -> DatasetTask | None:
    """The source ``load`` would use without downloading anything; None where it would."""
    for task, _ in SOURCES:
        if task.name == name and all(locate(f, folder=folder, cache=cache) for f in task.files):
            return task
    return None


def _obtain(
    task: DatasetTask, *, folder: Path | None, cache: Path | None, show: bool
) -> list[Path]:
    return [
        locate(file, folder=folder, cache=cache) or download(file, cache=cache, show_progress=show)
        for file in task.files
    ]
