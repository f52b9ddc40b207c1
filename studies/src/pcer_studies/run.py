"""Part I of the study: train the paper's models into a folder; a killed run goes on.

The only file of the study that belongs to the trainer's half.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pcer._version import __version__
from pcer.data import GroupedDataset, load
from pcer.data.benchmarks import at_hand
from pcer.errors import InputError, OutputError
from pcer.files import canonical_json, read_json, require_format, write_files
from pcer.release.build import source_state
from pcer.sweep import Sweep, is_finished, run_sweep
from pcer.train import EngineFlags, ReceiptMode, TrainConfig
from pcer.train.config import ADDED_SETTINGS
from pcer_studies.protocol import (
    BUDGETS,
    CLOSEST,
    CLOSEST_READING,
    CONFIGURATIONS,
    FLOORS,
    RECEIPTS,
    SECOND_READINGS,
    SEEDS,
    SWEEPS,
    TRAINING,
)
from pcer_studies.results import STUDY_FILE
from pcer_studies.sensitivity.readings import load_reading, missing_files

FORMAT, VERSION = "pcer-study", 1
PACKAGES = ("torch", "numpy", "scikit-learn", "dp-accounting", "opacus")
CPU_PACKAGES = ("numba", "scipy")
"""What the products and loops of a CPU come from besides."""


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What to run of the paper's protocol."""

    datasets: tuple[str, ...] = SWEEPS
    named: bool = False
    n_seeds: int = len(SEEDS)
    config: TrainConfig = field(
        default_factory=lambda: TrainConfig(**TRAINING, receipts=ReceiptMode(RECEIPTS))
    )

    def __post_init__(self) -> None:
        for name in self.datasets:
            if name not in SWEEPS:
                raise InputError(
                    f"the paper's study has no dataset {name!r}; choose from "
                    f"{', '.join(SWEEPS)}."
                )

    @property
    def protocol(self) -> dict[str, Any]:
        """What a study's folder must not mix."""
        return {
            "budgets": [
                None if epsilon == float("inf") else epsilon for epsilon in BUDGETS
            ],
            "seeds": self.n_seeds,
            "floors": list(FLOORS),
            "training": self.config.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run stands."""

    what: str
    done: int
    total: int
    found: int | None = None


def train_study(
    plan: StudyPlan,
    folder: Path,
    *,
    flags: EngineFlags,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_note: Callable[[str], None] = lambda sentence: None,
) -> Progress:
    """Train what is missing and write releases and ``study.json``; gives where it ended.

    ``on_note`` is told what a release will say about the versions that trained it.

    Raises:
        InputError: data that are not here, or a folder that holds a study of other
            settings.
        OutputError: something cannot be written.
    """
    require_ready(plan, folder)
    plan = _with_data(plan, on_note)
    record = _record(plan, folder)
    total = len(plan.datasets) * len(BUDGETS) * plan.n_seeds
    sweeps = []
    for name in plan.datasets:
        on_progress(Progress(what=f"reading {name}", done=0, total=total))
        sweeps.append(_sweep(plan, _dataset(name)))
    count = _Count(
        sweeps, [is_finished(sweep, folder) for sweep in sweeps], total, on_progress
    )
    for index, sweep in enumerate(sweeps):
        if not count.finished[index]:
            record = _noted(record, sweep, flags)
            _write(folder, record)
            on_progress(count.now(f"calibrating {sweep.dataset.name}"))
        run_sweep(
            sweep,
            folder,
            flags=flags,
            on_progress=count.of(index),
            on_step=count.step(index),
            on_note=on_note,
        )
    return count.last


def require_ready(plan: StudyPlan, folder: Path) -> None:
    """Raise InputError where the folder is another study's, or data are not here."""
    _record(plan, folder)
    _require_data(plan)


def _with_data(plan: StudyPlan, on_note: Callable[[str], None]) -> StudyPlan:
    """The plan without a second reading that nobody asked for by name and that is not here."""
    if plan.named or CLOSEST not in plan.datasets:
        return plan
    if (lacking := missing_files(CLOSEST_READING)) is None:
        return plan
    on_note(f"{CLOSEST} is left out: {lacking}")
    return replace(
        plan, datasets=tuple(name for name in plan.datasets if name != CLOSEST)
    )


def _dataset(name: str) -> GroupedDataset:
    """One of the paper's, or the second reading of one."""
    if name != CLOSEST:
        return load(name)
    told = f"Adult in another reading ({CLOSEST_READING}), whose figures come closest to the paper's."
    found = load_reading(CLOSEST_READING)
    return replace(found, name=CLOSEST, notes=(*found.notes, told))


class _Count:
    """Adds up the models of all datasets for one display."""

    def __init__(
        self,
        sweeps: list[Sweep],
        finished: list[bool],
        total: int,
        tell: Callable[[Progress], None],
    ) -> None:
        self.names = [sweep.dataset.name for sweep in sweeps]
        self.finished = finished
        self.total = total
        self.tell = tell
        self.each = total // len(sweeps)
        self.done = [self.each if one else 0 for one in finished]
        self.found: list[int | None] = [self.each if one else None for one in finished]
        self.last = self.now("starting")

    def of(self, index: int) -> Callable[[int, int], None]:
        """What one dataset's sweep calls; its first call says what was there before."""

        def tell(done: int, total: int) -> None:
            if self.found[index] is None:
                self.found[index] = done
            self.done[index] = done
            doing = "training" if done < total else "attacking and counting"
            self.last = self.now(f"{doing} {self.names[index]}")
            self.tell(self.last)

        return tell

    def step(self, index: int) -> Callable[[str], None]:
        """What one dataset's sweep calls with what it does after its attacks."""

        def tell(doing: str) -> None:
            self.last = self.now(f"{doing} {self.names[index]}")
            self.tell(self.last)

        return tell

    def now(self, what: str) -> Progress:
        """Where the whole run stands."""
        found = sum(one or 0 for one in self.found)
        return Progress(what=what, done=sum(self.done), total=self.total, found=found)


def environment(flags: EngineFlags) -> dict[str, Any]:
    """What trained a dataset: versions, commit, kind of processor; no clock, no machine's name."""
    commit, dirty = source_state()
    packages = PACKAGES + CPU_PACKAGES * (flags.device == "cpu")
    return {
        "pcer": __version__,
        "source_commit": commit,
        "source_dirty": dirty,
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
        "device": _device(flags.device),
        "processor": _processor(),
    }


def _processor() -> str:
    """The kind of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return named[0] if named else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    """None where it is not installed: a kept calibration needs no accountant."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device(device: str) -> str:
    if device == "cpu":
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


def _record(plan: StudyPlan, folder: Path) -> dict[str, Any]:
    """``study.json`` as it is, or a new one; InputError where it is of other settings."""
    path = folder / STUDY_FILE
    if not path.exists():
        return {
            "format": FORMAT,
            "version": VERSION,
            "protocol": plan.protocol,
            "datasets": {},
        }
    found = read_json(path)
    require_format(found, file=str(path), name=FORMAT, version=VERSION)
    before = found.get("protocol")
    if isinstance(before, Mapping) and isinstance(before.get("training"), Mapping):
        before = {**before, "training": {**ADDED_SETTINGS, **before["training"]}}
    for name, value in plan.protocol.items():
        if not isinstance(before, Mapping) or before.get(name) != value:
            had = before.get(name) if isinstance(before, Mapping) else before
            raise InputError(
                f"{path} is of a study with {name} {had!r}, but {value!r} is asked "
                "for; choose another folder, or remove this one."
            )
    if not isinstance(found.get("datasets"), dict):
        raise InputError(
            f"{path}: datasets must be an object; remove the file and run again."
        )
    return dict(found)


def _require_data(plan: StudyPlan) -> None:
    """Refuse before anything is trained where data would have to be downloaded unasked."""
    papers = [name for name in plan.datasets if name not in SECOND_READINGS]
    missing = [name for name in papers if not at_hand(name)[1]]
    if plan.named or not missing:
        return
    here = "".join(f" --dataset {name}" for name in papers if name not in missing)
    raise InputError(
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this "
        "machine; name a folder that holds the files in the environment variable "
        "PCER_DATA, or let them be downloaded "
        f"with{''.join(f' --dataset {name}' for name in papers)}, or run what is here "
        f"with{here}."
    )


def _sweep(plan: StudyPlan, dataset: GroupedDataset) -> Sweep:
    papers = SECOND_READINGS.get(dataset.name, dataset.name)
    attributes = [one.attribute for one in CONFIGURATIONS if one.dataset == papers]
    return Sweep(
        dataset=dataset,
        attributes=tuple(attributes),
        budgets=BUDGETS,
        seeds=tuple(range(plan.n_seeds)),
        config=plan.config,
        keep_people=False,
    )


def _noted(record: dict[str, Any], sweep: Sweep, flags: EngineFlags) -> dict[str, Any]:
    """The record with what trains this dataset now; several environments are all kept."""
    name = sweep.dataset.name
    now = environment(flags)
    before = record["datasets"].get(name, {}).get("made_with", [])
    entry = {
        "attributes": list(sweep.attributes),
        "n_records": sweep.dataset.n_records,
        "data_digest": f"sha256:{sweep.dataset.digest}",
        "made_with": before if now in before else [*before, now],
    }
    every = {**record["datasets"], name: entry}
    ordered = {known: every[known] for known in SWEEPS if known in every}
    return {**record, "datasets": ordered}


def _write(folder: Path, record: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made ({error.strerror}); choose a folder that you may "
            "write to."
        ) from None
    write_files({folder / STUDY_FILE: canonical_json(record)})
