"""How are the paper's models trained into a folder, so that a killed run goes on?

``pcer reproduce`` calls ``require_ready`` and ``train_study``. With
``sensitivity.run``, this module belongs to the trainer's half; the rest of the study
belongs to the auditor's. To add a dataset: its settings in ``protocol``, and a case of
``_dataset``.
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
from pcer_studies.protocol import (
    BUDGETS,
    CLOSEST,
    CLOSEST_READING,
    CONFIGURATIONS,
    FLOORS,
    NO_DP,
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
    """What to run of the paper's protocol.

    Attributes:
        datasets: which of ``SWEEPS``, in their order.
        named: whether the user asked for the datasets by name.
        n_seeds: seeds 0 to n_seeds - 1.
        config: how every model is trained.
    """

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
            "budgets": [None if epsilon == NO_DP else epsilon for epsilon in BUDGETS],
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
    """Train what is missing, and write releases and ``study.json``.

    ``on_note`` is told what a release will say about the versions that trained it.

    Returns:
        Where it ended.

    Raises:
        InputError: data that are not here, or a folder that holds a study of other
            settings.
        OutputError: something cannot be written.
    """
    require_ready(plan, folder)
    plan = plan_with_data(plan, on_note)
    record = _record(plan, folder)
    total = len(plan.datasets) * len(BUDGETS) * plan.n_seeds

    sweeps = []
    for name in plan.datasets:
        on_progress(Progress(what=f"reading {name}", done=0, total=total))
        sweeps.append(_sweep(plan, _dataset(name)))
    finished = [is_finished(sweep, folder) for sweep in sweeps]

    counter = _Counter(sweeps, finished, on_progress)
    for index, sweep in enumerate(sweeps):
        if not finished[index]:
            record = _with_environment(record, sweep, flags)
            _write(folder, record)
            on_progress(counter.now(f"calibrating {sweep.dataset.name}"))
        run_sweep(
            sweep,
            folder,
            flags=flags,
            on_progress=counter.on_models(index),
            on_step=counter.on_step(index),
            on_note=on_note,
        )
    return counter.last


def require_ready(plan: StudyPlan, folder: Path) -> None:
    """Raise InputError where the folder is another study's, or data are not here."""
    _record(plan, folder)
    _require_data(plan)


def plan_with_data(plan: StudyPlan, on_note: Callable[[str], None]) -> StudyPlan:
    """The plan without the second reading, if its files lack and nobody named it."""
    if plan.named or CLOSEST not in plan.datasets:
        return plan
    lacking = missing_files(CLOSEST_READING)
    if lacking is None:
        return plan
    on_note(f"{CLOSEST} is left out: {lacking}")
    datasets = tuple(name for name in plan.datasets if name != CLOSEST)
    return replace(plan, datasets=datasets)


def _dataset(name: str) -> GroupedDataset:
    """One of the paper's, or the second reading of one."""
    if name != CLOSEST:
        return load(name)
    dataset = load_reading(CLOSEST_READING)
    note = (
        f"Adult in another reading ({CLOSEST_READING}), whose figures come closest to "
        "the paper's."
    )
    return replace(dataset, name=CLOSEST, notes=(*dataset.notes, note))


class _Counter:
    """Adds up the models of all datasets for one display.

    Attributes:
        n_done: trained models by dataset, found ones among them.
        n_found: models by dataset that were there before; None until its sweep says.
        last: the last progress that was told.
    """

    def __init__(
        self,
        sweeps: list[Sweep],
        finished: list[bool],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.names = [sweep.dataset.name for sweep in sweeps]
        self.total = sum(sweep.n_trained for sweep in sweeps)
        self.on_progress = on_progress
        self.n_done = []
        self.n_found: list[int | None] = []
        for sweep, is_done in zip(sweeps, finished, strict=True):
            self.n_done.append(sweep.n_trained if is_done else 0)
            self.n_found.append(sweep.n_trained if is_done else None)
        self.last = self.now("starting")

    def on_models(self, index: int) -> Callable[[int, int], None]:
        """What one dataset's sweep calls; its first call says what was there before."""

        def tell(done: int, total: int) -> None:
            if self.n_found[index] is None:
                self.n_found[index] = done
            self.n_done[index] = done
            doing = "training" if done < total else "attacking and counting"
            self._tell(doing, index)

        return tell

    def on_step(self, index: int) -> Callable[[str], None]:
        """What one dataset's sweep calls with what it does after its attacks."""
        return lambda doing: self._tell(doing, index)

    def now(self, what: str) -> Progress:
        """Where the whole run stands."""
        n_found = sum(number or 0 for number in self.n_found)
        return Progress(
            what=what, done=sum(self.n_done), total=self.total, found=n_found
        )

    def _tell(self, doing: str, index: int) -> None:
        self.last = self.now(f"{doing} {self.names[index]}")
        self.on_progress(self.last)


def environment(flags: EngineFlags) -> dict[str, Any]:
    """What trains on this machine: versions, commit and kind of processor.

    It holds no time and no name of a machine, so that equal machines give equal files.
    """
    commit, dirty = source_state()
    packages: tuple[str, ...] = PACKAGES
    if flags.device == "cpu":
        packages += CPU_PACKAGES
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
    """The kind of processor; Linux alone knows its name in full."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    """A package's version; None where it is not installed.

    A stored calibration, for one, needs no accountant.
    """
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
    """``study.json`` as it is, or a new one; InputError where its settings differ."""
    path = folder / STUDY_FILE
    if not path.exists():
        return {
            "format": FORMAT,
            "version": VERSION,
            "protocol": plan.protocol,
            "datasets": {},
        }
    record = read_json(path)
    require_format(record, file=str(path), name=FORMAT, version=VERSION)
    _require_protocol(record.get("protocol"), plan, path)
    if not isinstance(record.get("datasets"), dict):
        raise InputError(
            f"{path}: datasets must be an object; remove the file and run again."
        )
    return dict(record)


def _require_protocol(before: Any, plan: StudyPlan, path: Path) -> None:
    """Refuse a folder whose protocol is not the plan's."""
    for name, value in plan.protocol.items():
        had = before.get(name) if isinstance(before, Mapping) else before
        if not isinstance(before, Mapping) or had != value:
            raise InputError(
                f"{path} is of a study with {name} {had!r}, but {value!r} is asked "
                "for; choose another folder, or remove this one."
            )


def _require_data(plan: StudyPlan) -> None:
    """Refuse to download what nobody named, before anything is trained."""
    papers = [name for name in plan.datasets if name not in SECOND_READINGS]
    missing = [name for name in papers if not at_hand(name)[1]]
    if plan.named or not missing:
        return
    verb = "is" if len(missing) == 1 else "are"
    download = _dataset_options(papers)
    run_here = _dataset_options([name for name in papers if name not in missing])
    raise InputError(
        f"{' and '.join(missing)} {verb} not on this machine; name a folder that holds "
        "the files in the environment variable PCER_DATA, or let them be downloaded "
        f"with{download}, or run what is here with{run_here}."
    )


def _dataset_options(names: list[str]) -> str:
    return "".join(f" --dataset {name}" for name in names)


def _sweep(plan: StudyPlan, dataset: GroupedDataset) -> Sweep:
    papers = SECOND_READINGS.get(dataset.name, dataset.name)
    attributes = [
        known.attribute for known in CONFIGURATIONS if known.dataset == papers
    ]
    return Sweep(
        dataset=dataset,
        attributes=tuple(attributes),
        budgets=BUDGETS,
        seeds=tuple(range(plan.n_seeds)),
        config=plan.config,
        keep_people=False,
    )


def _with_environment(
    record: dict[str, Any], sweep: Sweep, flags: EngineFlags
) -> dict[str, Any]:
    """The record with what trains this dataset now, after what trained it before."""
    name = sweep.dataset.name
    now = environment(flags)
    before = record["datasets"].get(name, {}).get("made_with", [])
    entry = {
        "attributes": list(sweep.attributes),
        "n_records": sweep.dataset.n_records,
        "data_digest": f"sha256:{sweep.dataset.digest}",
        "made_with": before if now in before else [*before, now],
    }
    entries = {**record["datasets"], name: entry}
    ordered = {known: entries[known] for known in SWEEPS if known in entries}
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
