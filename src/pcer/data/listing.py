"""What datasets there are, and where each would come from on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pcer.data.benchmarks import SOURCES, TASKS
from pcer.data.fetch import FOLDER_VARIABLE, locate
from pcer.data.task import DatasetTask
from pcer.errors import InputError
from pcer.files import cache_folder


def describe_datasets(
    *, folder: Path | None = None, cache: Path | None = None
) -> list[dict[str, Any]]:
    """One plain entry per dataset, about the source that ``load`` would use."""
    return [_describe(name, folder, cache) for name in TASKS]


def _describe(name: str, folder: Path | None, cache: Path | None) -> dict[str, Any]:
    task, where = _found(name, folder, cache)
    return {
        "name": task.name,
        "title": task.title,
        "n_records": task.n_records,
        "attributes": {
            attribute: [group for group, _ in rule.groups]
            for attribute, rule in task.attributes.items()
        },
        "outcome": task.outcome,
        "positive_label": task.positive_label,
        "source": task.source,
        "licence": task.licence,
        "caution": task.caution,
        "at_hand": where,
        "notes": list(task.notes),
    }


def _found(name: str, folder: Path | None, cache: Path | None) -> tuple[DatasetTask, str]:
    sources = [task for task, _ in SOURCES if task.name == name]
    for task in sources:
        try:
            paths = [locate(file, folder=folder, cache=cache) for file in task.files]
        except InputError as error:
            return task, f"unusable: {error}"
        if all(paths):
            return task, f"{_place(paths[0], cache)}, {_size(task)}"
    return sources[0], f"to fetch, {_size(sources[0])}"


def _place(path: Path | None, cache: Path | None) -> str:
    if path is not None and path.parent == (cache or cache_folder()):
        return "cached"
    named = os.environ.get(FOLDER_VARIABLE)
    in_package = path is not None and path.parent == Path(__file__).parent / "files"
    return "bundled" if in_package else f"in {FOLDER_VARIABLE}" if named else "in the folder"


def _size(task: DatasetTask) -> str:
    """Size of the task's files; the publisher of the census files states none."""
    sizes = [file.n_bytes for file in task.files]
    known = sum(size for size in sizes if size is not None)
    if None in sizes:
        return f"{len(sizes)} files"
    return f"{known / 1e6:.1f} MB" if known > 1e6 else f"{known / 1e3:.0f} kB"
