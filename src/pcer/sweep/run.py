"""Budgets x seeds -> release files (Part I of Algorithm 1): durable, resumable, one owner a folder.

A sweep works in ``DIR/NAME.scores``. Every finished block of models is one file there, written
whole or not at all; a killed sweep finds them and trains only what is missing. A model does not
depend on its block, so the release is the same bytes however often the sweep was interrupted.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pcer.data.dataset import GroupedDataset, Split, column_widths, split
from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files
from pcer.release.format import read_release
from pcer.store import blocks
from pcer.store.blocks import Key, finished_blocks, load_block, require_same_settings, save_block
from pcer.sweep.receipts import has_receipts, sweep_receipts, write_receipts
from pcer.sweep.releases import build_releases
from pcer.sweep.sweep import NO_MODULE, Sweep
from pcer.train import Budget, EngineFlags, Predictions, TrainingData, calibrate
from pcer.train.devices import installed_versions
from pcer.train.fleet import BlockResult, Model, cut_blocks, gather_predictions, plan_models
from pcer.train.run import prepare, require_engine, run_blocks

INDEX, MEMBERS = "index.json", "membership.npy"


def run_sweep(
    sweep: Sweep,
    folder: Path,
    *,
    flags: EngineFlags,
    keep_scores: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[str], None] = lambda doing: None,
    on_note: Callable[[str], None] = lambda sentence: None,
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
            damaged, or of other settings, are trained again; and, which the releases carry too,
            that not one version of pcer and its packages trained all models.

    Returns:
        The release files by attribute.

    Raises:
        InputError: the folder holds a sweep with other settings, or is in use.
        OutputError: something cannot be written.
    """
    require_engine(flags, sweep.module)
    dataset, work = sweep.dataset, _beside(folder, sweep.dataset, "scores")
    paths = _paths(folder, dataset, sweep.attributes)
    if not keep_scores and is_finished(sweep, folder):
        n_models = len(sweep.budgets) * len(sweep.seeds)
        on_progress(n_models, n_models)
        return paths
    with blocks.owned(work):
        for path in paths.values():
            _released_models(sweep, path)
        splits = {s: split(dataset, seed=s, secret=sweep.secret) for s in sweep.seeds}
        rows = {seed: part.train for seed, part in splits.items()}
        data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
        notes = blocks.resume_folder(
            work,
            sweep.settings,
            added=sweep.added_settings,
            n_columns=data.n_records,
            n_second=data.n_train if sweep.has_receipts else None,
        )
        budgets = [
            calibrate(e, n_train=data.n_train, config=sweep.config) for e in sorted(sweep.budgets)
        ]
        before = {key: block.made_with for block in finished_blocks(work) for key in block.keys}
        now, models = installed_versions(), plan_models(budgets, sweep.seeds)
        of_versions = version_note([before.get(_key(model), now) for model in models], now)
        for note in (*notes, *of_versions):
            on_note(note)
        _train_missing(sweep, work, data, models, flags=flags, on_progress=on_progress)
        scores = _collected(work, data, budgets, has_receipts=sweep.has_receipts)
        if sweep.keeps_receipts:
            write_receipts(_beside(folder, dataset, "receipts"), *sweep_receipts(sweep, scores))
        releases = build_releases(
            sweep, scores, splits, notes=of_versions, n_processes=flags.n_attackers, on_step=on_step
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
    paths = list(_paths(folder, sweep.dataset, sweep.attributes).values())
    if _beside(folder, sweep.dataset, "scores").exists() or not all(map(Path.exists, paths)):
        return False
    if any(_released_models(sweep, path) != _models(sweep) for path in paths):
        return False
    receipts = _beside(folder, sweep.dataset, "receipts")
    return not sweep.keeps_receipts or has_receipts(receipts, sweep)


def begun_with(folder: Path, dataset: GroupedDataset, attributes: Sequence[str]) -> str | None:
    """The name of the secret that a folder's sweep was begun with; None where none was.

    A name that is empty says that it was begun without a secret.
    """
    with suppress(InputError, AttributeError):  # lost or damaged, it names none
        settings = read_json(_beside(folder, dataset, "scores") / blocks.SETTINGS)
        return str(settings.get("secret_digest", ""))
    for path in _paths(folder, dataset, attributes).values():
        if path.exists():
            config = read_release(path, limits=None).training.config or {}
            return str(config.get("secret_name", ""))
    return None


def version_note(trained: Iterable[Mapping[str, str]], now: Mapping[str, str]) -> list[str]:
    """One sentence for the reader of a release; none if this version trained every model.

    Args:
        trained: for each model the versions, by package, that trained it, or are about to.
        now: the versions that go on, and that write the release.

    >>> old, new = {"pcer": "0.1.0", "torch": "2.12.0"}, {"pcer": "0.1.0", "torch": "2.13.0"}
    >>> version_note([old, new, new], new)
    ['Not all models are trained by the versions that write this release: 1 by torch 2.12.0; \
trained by one version, some numbers could differ slightly.']
    >>> version_note([new, new], new)
    []
    """
    others = Counter(
        " and ".join(
            f"{name} {versions.get(name, '(not noted)')}"
            for name in sorted(now)
            if versions.get(name) != now[name]
        )
        for versions in trained
    )
    parts = [f"{n} by {versions}" for versions, n in sorted(others.items()) if versions]
    sentence = (
        "Not all models are trained by the versions that write this release: "
        f"{', '.join(parts)}; trained by one version, some numbers could differ slightly."
    )
    return [sentence] if parts else []


def _train_missing(
    sweep: Sweep,
    work: Path,
    data: TrainingData,
    models: Sequence[Model],
    *,
    flags: EngineFlags,
    on_progress: Callable[[int, int], None],
) -> None:
    done = {key for block in finished_blocks(work) for key in block.keys}
    missing = [model for model in models if _key(model) not in done]
    n_done = len(models) - len(missing)
    if missing:
        prepare(flags)
    on_progress(n_done, len(models))
    if not missing:
        return
    made_with = installed_versions()
    # Modules do not step together.
    size = flags.models_per_block(len(models)) if sweep.module is None else 1
    trained = run_blocks(
        data,
        cut_blocks(missing, block_size=size),
        config=sweep.config,
        flags=flags,
        secret=sweep.secret,
        module=sweep.module,
    )
    with closing(trained):
        for result in trained:
            save_block(
                work,
                [_key(model) for model in result.models],
                result.logits,
                made_with=made_with,
                settings=sweep.settings_digest,
                second=result.receipts,
            )
            n_done += len(result.models)
            on_progress(n_done, len(models))


def _key(model: Model) -> Key:
    return float(model.epsilon).hex(), model.seed


def _collected(
    work: Path, data: TrainingData, budgets: Sequence[Budget], *, has_receipts: bool
) -> Predictions:
    """What every model says, from the finished blocks; those may hold other models too."""
    wanted = {_key(model): model for model in plan_models(budgets, data.seeds)}

    def results() -> Iterator[BlockResult]:
        for block in finished_blocks(work):
            rows = [row for row, key in enumerate(block.keys) if key in wanted]
            models = tuple(wanted[block.keys[row]] for row in rows)
            logits = load_block(block, data.n_records)[rows]
            second = load_block(block, data.n_train, is_second=True) if has_receipts else None
            yield BlockResult(models, logits, None if second is None else second[rows])

    scores = gather_predictions(results(), budgets=budgets, seeds=data.seeds, member=data.member)
    if not np.isfinite(scores.logits).all():
        raise InputError(f"{work} holds scores that are not numbers; remove it and train again.")
    return scores


def _models(sweep: Sweep) -> set[tuple[float, int]]:
    return {(budget, seed) for budget in sweep.budgets for seed in sweep.seeds}


def _released_models(sweep: Sweep, path: Path) -> set[tuple[float, int]]:
    """Budgets and seeds of the release that is there, none without one.

    One of other settings, other data or more models is refused: it would be overwritten.
    """
    if not path.exists():
        return set()
    release = read_release(path, limits=None)
    config: dict[str, Any] = dict(release.training.config or {})
    if isinstance(names := config.pop("features", None), list):  # version 1 named every feature
        config["columns"] = column_widths(map(str, names))
    digest = sweep.dataset.published_digest(sweep.secret)
    require_same_settings(
        {"data_digest": release.provenance.data_digest, **config},
        {**NO_MODULE, **sweep.release_config, "data_digest": digest},
        added=sweep.added_settings,
        where=path,
    )
    models = {(run.budget, run.seed) for run in release.runs}
    if dropped := len(models - _models(sweep)):
        raise InputError(
            f"{path} holds {dropped} models that this sweep would drop; choose another folder, "
            "or name their budgets and seeds too."
        )
    return models


def _write_index(sweep: Sweep, work: Path, splits: Mapping[int, Split], data: TrainingData) -> None:
    """What the kept score files hold: budget and seed of every row, the record ids, digests."""
    kept = [
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
        "blocks": kept,
        "membership": MEMBERS,
        "membership_sha256": blocks.save_array(work / MEMBERS, data.member),
        "seeds": list(sweep.seeds),
        "splits": [splits[seed].id for seed in sweep.seeds],
        "record_ids": sweep.dataset.record_ids.tolist(),
    }
    write_files({work / INDEX: canonical_json(blocks.sealed(index))}, private=True)


def _paths(folder: Path, dataset: GroupedDataset, attributes: Sequence[str]) -> dict[str, Path]:
    """Where the release of each attribute lies."""
    return {name: _beside(folder, dataset, f"{_slug(name)}.release.json") for name in attributes}


def _beside(folder: Path, dataset: GroupedDataset, ending: str) -> Path:
    return folder / f"{_slug(dataset.name)}.{ending}"


def _slug(name: str) -> str:
    """A name that every file system takes."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name.lower())
    return kept.strip("-") or "data"
