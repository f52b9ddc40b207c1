"""Budgets x seeds -> release files (Part I of Algorithm 1): durable, resumable, one owner a folder.

A sweep works in ``DIR/NAME.scores``. Every finished block of models is one file there, written
whole or not at all; a killed sweep finds them and trains only what is missing. A model does not
depend on its block, so the release is the same bytes however often the sweep was interrupted.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.data.dataset import GroupedDataset, Split, column_widths, split
from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files
from pcer.release.disclosure import DisclosureRule
from pcer.release.format import read_release
from pcer.store import (
    SETTINGS,
    Key,
    finished_blocks,
    load_block,
    load_second,
    owned,
    require_same_settings,
    resume_folder,
    save_array,
    save_block,
    sealed,
    settings_digest,
)
from pcer.sweep.bounds import KeptArray, placed
from pcer.sweep.origin import version_note
from pcer.sweep.receipts import (
    ReceiptIndex,
    has_receipts,
    receipt_index,
    receipts_folder,
    write_receipts,
)
from pcer.sweep.releases import build_releases, config_of, release_config
from pcer.train import (
    NO_DP,
    Budget,
    EngineFlags,
    NamedModule,
    Predictions,
    ReceiptMode,
    TrainConfig,
    TrainingData,
    calibrate,
)
from pcer.train.config import ADDED_SETTINGS
from pcer.train.devices import installed_versions
from pcer.train.fleet import BlockResult, Model, cut_blocks, gather_predictions, plan_models
from pcer.train.run import prepare, require_engine, run_blocks

NO_MODULE: Mapping[str, Any] = {
    "module": None,
    "module_settings": None,
    "module_weights": None,
    "module_digest": None,
}
"""What stands for a module in a sweep of pcer's own networks."""

INDEX, MEMBERS = "index.json", "membership.npy"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to train: everything that can change a number.

    Args:
        dataset: the records.
        attributes: protected attributes; the models are trained once for all of them.
        budgets: epsilons; infinity for no privacy.
        seeds: one split and one model per budget each.
        config: the training settings.
        secret: mixed into every random stream, the splits and the digests; see
            ``pcer.train.train_seeds``. Records that are not public need one.
        disclosure: what a release may let out about few people, or about one.
        module: what makes the models, which Opacus then trains; None for pcer's own network.
        keep_people: keep what each person spent, in a file for its owner; if not, the bounds of
            groups in the releases are all that is left of it.
    """

    dataset: GroupedDataset
    attributes: tuple[str, ...]
    budgets: tuple[float, ...]
    seeds: tuple[int, ...]
    config: TrainConfig
    secret: bytes = b""
    disclosure: DisclosureRule = field(default_factory=DisclosureRule)
    module: NamedModule | None = None
    keep_people: bool = True

    def __post_init__(self) -> None:
        if not (self.secret or self.dataset.public):
            raise InputError(
                f"dataset {self.dataset.name!r} is not public, so its noise, splits and digests "
                "need a secret of 16 to 64 bytes; give one, or say that the records are public."
            )
        for name in self.attributes:
            self.dataset.attribute(name)
        for kind in ("attributes", "budgets", "seeds"):
            values = getattr(self, kind)
            if not values or len(set(values)) < len(values):
                raise InputError(f"{kind} must name each at least one, and none twice: {values}.")
        if self.module is not None:
            self._require_module(self.module)

    def _require_module(self, module: NamedModule) -> None:
        if self.config.rule != TrainConfig.rule or self.has_receipts:
            raise InputError(
                f"{module.name} is trained through Opacus, which clips all records at one norm and "
                "sees the norms of a batch only; use rule 'dp-sgd' and receipts 'none'."
            )
        module.require_private(self.dataset.features.shape[1])

    @property
    def has_receipts(self) -> bool:
        """Whether the privacy that each person spends is counted."""
        return self.config.receipts is not ReceiptMode.NONE

    @property
    def keeps_receipts(self) -> bool:
        """Whether each person's are kept, beside the bounds."""
        return self.keep_people and self.has_receipts

    @cached_property
    def module_settings(self) -> dict[str, Any]:
        """What the scores depend on if not on pcer's own network; empty for that."""
        if self.module is None:
            return {}
        return self.module.describe(self.dataset.features.shape[1])

    @property
    def settings(self) -> dict[str, Any]:
        """What the score files of this sweep depend on, besides seed and budget."""
        return {
            **NO_MODULE,
            **self.module_settings,
            "dataset": self.dataset.name,
            "data_digest": self.dataset.published_digest(self.secret).partition(":")[2],
            "secret_digest": hashlib.sha256(b"pcer secret " + self.secret).hexdigest(),
            "split_from_secret": bool(self.secret),
            **config_of(self),
        }

    @property
    def settings_digest(self) -> str:
        """What every block of the sweep carries, so that it counts for these settings only."""
        return settings_digest(self.settings, added=_added_settings())


def run_sweep(
    sweep: Sweep,
    folder: Path,
    *,
    flags: EngineFlags,
    keep_scores: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[str], None] = lambda doing: None,
    on_note: Callable[[str], None] = lambda sentence: None,
    on_scores: Callable[[Predictions], None] = lambda scores: None,
) -> dict[str, Path]:
    """Train what is missing and write one release per attribute.

    Args:
        sweep: what to train.
        folder: where the releases go.
        flags: how fast.
        keep_scores: keep the models' scores of every record, for attacks; they are about persons.
        on_progress: called with (models done, models in all).
        on_step: called with what is done next, after the attacks.
        on_note: called, before training, with a sentence for the reader: that blocks which are
            damaged, or of other settings, are trained again; that blocks of an older version
            get digests; and, which the releases carry too, that not one version of pcer and its
            packages trained all models.
        on_scores: called with what all models say of every record, and with the receipts, before
            the releases are written; they are about persons.

    Returns:
        The release files by attribute.

    Raises:
        InputError: the folder holds a sweep with other settings, or is in use.
        OutputError: something cannot be written.
    """
    require_engine(flags, sweep.module)
    paths, work = _paths(sweep, folder), _work(sweep, folder)
    if not keep_scores and is_finished(sweep, folder):
        on_progress(len(sweep.budgets) * len(sweep.seeds), len(sweep.budgets) * len(sweep.seeds))
        return paths
    with owned(work):
        _checked_releases(sweep, paths)
        splits = {
            seed: split(sweep.dataset, seed=seed, secret=sweep.secret) for seed in sweep.seeds
        }
        data = _training_data(sweep.dataset, splits)
        faults = _resumed(sweep, work, data)
        budgets = _calibrated(sweep, data.n_train)
        notes = _version_notes(work, plan_models(budgets, sweep.seeds))
        for note in (*faults, *notes):
            on_note(note)
        _train_missing(sweep, work, data, budgets, flags=flags, on_progress=on_progress)
        scores = _collect(work, data, budgets, has_receipts=sweep.has_receipts)
        on_scores(scores)
        if sweep.keeps_receipts:
            write_receipts(_receipts(sweep, folder), *_kept_receipts(sweep, scores))
        releases = build_releases(
            sweep, scores, splits, notes=notes, n_processes=flags.n_attackers, on_step=on_step
        )
        write_files({paths[name]: release.to_json() for name, release in releases.items()})
        if keep_scores:
            _write_index(sweep, work, splits, data)
        else:
            shutil.rmtree(work)
    return paths


def is_finished(sweep: Sweep, folder: Path) -> bool:
    """Whether a folder holds all releases of this sweep, and nothing half done.

    Raises:
        InputError: it holds a release of other settings or data, or with more models.
    """
    if _work(sweep, folder).exists() or not _is_done(sweep, _paths(sweep, folder)):
        return False
    return not sweep.keeps_receipts or has_receipts(
        _receipts(sweep, folder),
        data_digest=sweep.dataset.published_digest(sweep.secret),
        mode=str(sweep.config.receipts),
        epsilons=[epsilon for epsilon in sweep.budgets if epsilon != NO_DP],
        seeds=sweep.seeds,
    )


def begun_with(folder: Path, dataset: GroupedDataset, attributes: Sequence[str]) -> str | None:
    """The name of the secret that a folder's sweep was begun with; None where none was.

    A name that is empty says that it was begun without a secret.
    """
    settings = folder / f"{_slug(dataset.name)}.scores" / SETTINGS
    with suppress(InputError, AttributeError):  # lost or damaged, it names none
        return str(read_json(settings).get("secret_digest", ""))
    for attribute in attributes:
        path = folder / _file_name(dataset.name, attribute)
        if path.exists():
            return str(
                (read_release(path, limits=None).training.config or {}).get("secret_name", "")
            )
    return None


def _added_settings() -> dict[str, Any]:
    """What stood for younger settings in folders and releases of older versions."""
    return {**NO_MODULE, **ADDED_SETTINGS, "split_from_secret": False}


def _paths(sweep: Sweep, folder: Path) -> dict[str, Path]:
    return {name: folder / _file_name(sweep.dataset.name, name) for name in sweep.attributes}


def _work(sweep: Sweep, folder: Path) -> Path:
    return folder / f"{_slug(sweep.dataset.name)}.scores"


def _receipts(sweep: Sweep, folder: Path) -> Path:
    return receipts_folder(folder, _slug(sweep.dataset.name))


def _kept_receipts(sweep: Sweep, scores: Predictions) -> tuple[ReceiptIndex, KeptArray]:
    """Every record's receipts in every private model, and the index of them."""
    assert scores.receipts is not None
    private = [k for k, budget in enumerate(scores.budgets) if budget.epsilon != NO_DP]
    shape = (len(private), *scores.member.shape)
    kept = np.array([placed(scores.receipts[k], scores.member) for k in private], np.float32)
    index = receipt_index(
        sweep.dataset,
        sweep.config,
        data_digest=sweep.dataset.published_digest(sweep.secret),
        budgets=scores.budgets,
        seeds=scores.seeds,
        n_train=int(scores.member[0].sum()),
    )
    return index, kept.reshape(shape)


def _resumed(sweep: Sweep, work: Path, data: TrainingData) -> list[str]:
    return resume_folder(
        work,
        sweep.settings,
        added=_added_settings(),
        n_columns=data.n_records,
        n_second=data.n_train if sweep.has_receipts else None,
    )


def _training_data(dataset: GroupedDataset, splits: Mapping[int, Split]) -> TrainingData:
    rows = {seed: part.train for seed, part in splits.items()}
    return TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)


def _calibrated(sweep: Sweep, n_train: int) -> tuple[Budget, ...]:
    ordered = sorted(sweep.budgets)
    return tuple(calibrate(e, n_train=n_train, config=sweep.config) for e in ordered)


def _version_notes(work: Path, models: Sequence[Model]) -> list[str]:
    """A sentence if not this version alone trained the models that are there, or will be."""
    now = installed_versions()
    before = {key: block.made_with for block in finished_blocks(work) for key in block.keys}
    note = version_note([before.get(_key(model), now) for model in models], now)
    return [] if note is None else [note]


def _train_missing(
    sweep: Sweep,
    work: Path,
    data: TrainingData,
    budgets: Sequence[Budget],
    *,
    flags: EngineFlags,
    on_progress: Callable[[int, int], None],
) -> None:
    done = {key for block in finished_blocks(work) for key in block.keys}
    every = plan_models(budgets, sweep.seeds)
    missing = [model for model in every if _key(model) not in done]
    total = len(every)
    if missing:
        prepare(flags)
    on_progress(total - len(missing), total)
    if not missing:
        return
    count, made_with = total - len(missing), installed_versions()
    size = flags.models_per_block(total) if sweep.module is None else 1  # they do not step together
    blocks = cut_blocks(missing, block_size=size)
    trained = run_blocks(
        data,
        blocks,
        config=sweep.config,
        flags=flags,
        secret=sweep.secret,
        module=sweep.module,
    )
    with closing(trained):
        for result in trained:
            keys = [_key(model) for model in result.models]
            save_block(
                work,
                keys,
                result.logits,
                made_with=made_with,
                settings=sweep.settings_digest,
                second=result.receipts,
            )
            count += len(result.models)
            on_progress(count, total)


def _key(model: Model) -> Key:
    return float(model.epsilon).hex(), model.seed


def _collect(
    work: Path, data: TrainingData, budgets: Sequence[Budget], *, has_receipts: bool
) -> Predictions:
    """What every model says, from the finished blocks; those may hold other models too."""
    wanted = {_key(model): model for model in plan_models(budgets, data.seeds)}

    def results() -> Iterator[BlockResult]:
        for block in finished_blocks(work):
            values = load_block(block, data.n_records)
            people = load_second(block, data.n_train) if has_receipts else None
            for row, key in enumerate(block.keys):
                if key in wanted:
                    kept = None if people is None else people[row : row + 1]
                    yield BlockResult((wanted[key],), values[row : row + 1], kept)

    found = gather_predictions(results(), budgets=budgets, seeds=data.seeds, member=data.member)
    if not np.isfinite(found.logits).all():
        raise InputError(f"{work} holds scores that are not numbers; remove it and train again.")
    return found


def _is_done(sweep: Sweep, paths: dict[str, Path]) -> bool:
    """Whether every release is there already, of the same settings, data and models."""
    if not all(path.exists() for path in paths.values()):
        return False
    wanted = _wanted(sweep)
    return all(old.models == wanted for old in _checked_releases(sweep, paths))


class _OldRelease(NamedTuple):
    """What a release must have in common with the sweep that would write it again."""

    settings: dict[str, Any]
    models: set[tuple[float, int]]


def _checked_releases(sweep: Sweep, paths: dict[str, Path]) -> list[_OldRelease]:
    """The releases that are there; never overwrite one of other settings, data or more models."""
    digest = sweep.dataset.published_digest(sweep.secret)
    wanted = {**NO_MODULE, **release_config(sweep), "data_digest": digest}
    found = {path: _read_old(path) for path in paths.values() if path.exists()}
    for path, old in found.items():
        require_same_settings(old.settings, wanted, added=_added_settings(), where=path)
        if dropped := len(old.models - _wanted(sweep)):
            raise InputError(
                f"{path} holds {dropped} models that this sweep would drop; choose another folder, "
                "or name their budgets and seeds too."
            )
    return list(found.values())


def _read_old(path: Path) -> _OldRelease:
    state = path.stat()
    return _read_state(path, (state.st_ino, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=64)
def _read_state(path: Path, state: tuple[int, ...]) -> _OldRelease:
    """A release is large and asked for before, at and after the start: read it once as it is."""
    release = read_release(path, limits=None)
    config: dict[str, Any] = dict(release.training.config or {})
    if isinstance(names := config.pop("features", None), list):  # version 1 named every feature
        config["columns"] = column_widths(map(str, names))
    settings = {"data_digest": release.provenance.data_digest, **config}
    return _OldRelease(settings, {(run.budget, run.seed) for run in release.runs})


def _wanted(sweep: Sweep) -> set[tuple[float, int]]:
    return {(budget, seed) for budget in sweep.budgets for seed in sweep.seeds}


def _write_index(sweep: Sweep, work: Path, splits: Mapping[int, Split], data: TrainingData) -> None:
    """What the kept score files hold: budget and seed of every row, the record ids, digests."""
    blocks = [
        {
            "scores": block.array.name,
            "sha256": block.array_digest,
            "models": [
                {"epsilon": None if epsilon == "inf" else float.fromhex(epsilon), "seed": seed}
                for epsilon, seed in block.keys
            ],
        }
        for block in finished_blocks(work)
    ]
    index = {
        "format": "pcer-scores",
        "version": 1,
        "blocks": blocks,
        "membership": MEMBERS,
        "membership_sha256": save_array(work / MEMBERS, data.member),
        "seeds": list(sweep.seeds),
        "splits": [splits[seed].id for seed in sweep.seeds],
        "record_ids": sweep.dataset.record_ids.tolist(),
    }
    write_files({work / INDEX: canonical_json(sealed(index))}, private=True)


def _file_name(dataset: str, attribute: str) -> str:
    return f"{_slug(dataset)}.{_slug(attribute)}.release.json"


def _slug(name: str) -> str:
    """A name that every file system takes."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name.lower())
    return kept.strip("-") or "data"
