"""Run a sweep (Part I of Algorithm 1): train, resume, write release files.

A sweep works in ``DIR/NAME.scores``, which one process owns. Every finished block of
models is one file there, written whole or not at all; a killed sweep resumes with what
is missing. A model does not depend on its block, so the release has the same bytes
however often it was interrupted.
"""

from __future__ import annotations

import itertools
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
from pcer.release.file import Release
from pcer.release.reading import read_release
from pcer.release.small_groups import require_no_others
from pcer.store import blocks
from pcer.store.blocks import (
    Key,
    finished_blocks,
    load_block,
    require_same_settings,
    save_block,
)
from pcer.sweep.receipts import has_receipts, sweep_receipts, write_receipts
from pcer.sweep.releases import allowed_attributes, build_releases
from pcer.sweep.sweep import NOT_GIVEN, Sweep
from pcer.train import Budget, EngineFlags, Predictions, TrainingData, fleet
from pcer.train.devices import installed_versions
from pcer.train.fleet import (
    BlockResult,
    Model,
    cut_blocks,
    gather_predictions,
    plan_models,
)
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
        keep_scores: keep the models' scores of every record, for attacks; they are
            about persons.
        on_progress: called with (models done, models in all).
        on_step: called with the name of each step after the attacks.
        on_note: called before training with sentences for the reader: which damaged
            blocks are trained again, and whether several versions of packages train the
            models (which the releases note too).

    Returns:
        The release files by attribute.

    Raises:
        InputError: the folder holds a sweep with other settings, or is in use.
        OutputError: something cannot be written.
    """
    require_engine(flags, sweep.module)
    dataset = sweep.dataset
    work = _beside(folder, sweep.dataset, "scores")
    paths = _paths(folder, dataset, sweep.attributes)
    if not keep_scores and is_finished(sweep, folder):
        on_progress(sweep.n_models, sweep.n_models)
        return {name: path for name, path in paths.items() if path.exists()}
    # What cannot be trained is refused before anything is written.
    splits = {s: split(dataset, seed=s, secret=sweep.secret) for s in sweep.seeds}
    rows = {seed: part.train for seed, part in splits.items()}
    data = TrainingData.of(
        dataset.features, dataset.labels, rows, allow_missing=True, groups=sweep.groups
    )
    budgets = {
        name: fleet.calibrated(
            sorted(own.budgets), data, own.config, module=sweep.module
        )
        for name, own in sweep.configurations.items()
    }
    with blocks.owned(work):
        _there(sweep, folder)
        if not dataset.public:
            require_no_others(paths.values(), dataset.name)
        allowed = allowed_attributes(sweep, splits)
        notes = blocks.resume_folder(
            work,
            sweep.settings,
            added=sweep.added_settings,
            n_columns=data.n_records,
            n_second=data.n_train if sweep.has_receipts else None,
        )
        before = {
            key: block.made_with
            for block in finished_blocks(work)
            for key in block.keys
        }
        now = installed_versions()
        models = _planned(sweep, data, budgets)
        of_versions = version_note(
            [before.get(_key(model), now) for model in models], now
        )
        for note in (*allowed.not_written.values(), *notes, *of_versions):
            on_note(note)
        missing = [model for model in models if _key(model) not in before]
        on_progress(len(models) - len(missing), len(models))
        if missing:
            _train(sweep, work, data, missing, len(models), flags, on_progress)
        scores = {
            name: _collected(work, data, own, name, has_receipts=sweep.has_receipts)
            for name, own in budgets.items()
        }
        if sweep.keeps_receipts:
            write_receipts(
                _beside(folder, dataset, "receipts"), *sweep_receipts(sweep, scores)
            )
        releases = build_releases(
            sweep, scores, splits, allowed, of_versions, flags.n_attackers, on_step
        )
        write_files(
            {paths[name]: release.to_json() for name, release in releases.items()}
        )
        if keep_scores:
            _write_index(sweep, work, splits, data)
        else:
            shutil.rmtree(work)
    return {name: paths[name] for name in releases}


def is_finished(sweep: Sweep, folder: Path) -> bool:
    """Whether a folder holds all releases of this sweep, and no unfinished work.

    Raises:
        InputError: it holds a release of other settings or data, or with more models.
    """
    if _beside(folder, sweep.dataset, "scores").exists():
        return False
    there = _there(sweep, folder)
    left_out = [name for release in there.values() for name in release.not_written]
    is_whole = all(len(release.runs) == sweep.n_models for release in there.values())
    if {*there, *left_out} != {*sweep.attributes} or not is_whole:
        return False
    receipts = _beside(folder, sweep.dataset, "receipts")
    return not sweep.keeps_receipts or has_receipts(receipts, sweep)


def begun_with(
    folder: Path, dataset: GroupedDataset, attributes: Sequence[str]
) -> str | None:
    """The name of the secret of a folder's sweep; None where no sweep was begun.

    An empty name means that it was begun without a secret.
    """
    with suppress(InputError, AttributeError):  # a lost or damaged file names none
        settings = read_json(_beside(folder, dataset, "scores") / blocks.SETTINGS)
        return str(settings.get("secret_digest", ""))
    for path in _paths(folder, dataset, attributes).values():
        if path.exists():
            config = read_release(path, limits=None).training.config or {}
            return str(config.get("secret_name", ""))
    return None


def version_note(
    trained: Iterable[Mapping[str, str]], now: Mapping[str, str]
) -> list[str]:
    """One sentence for the reader of a release; none if this version trained every model."""
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


def _planned(
    sweep: Sweep, data: TrainingData, budgets: Mapping[str | None, Sequence[Budget]]
) -> list[Model]:
    """All models of a sweep, one configuration after another."""
    module = sweep.trained_by.get("module_digest", "")
    models = list[Model]()
    for name, (config, _) in sweep.configurations.items():
        digests = (
            fleet.stream_digests(data, config, module=module) if sweep.secret else {}
        )
        models += plan_models(budgets[name], sweep.seeds, digests, name)
    return models


def _train(
    sweep: Sweep,
    work: Path,
    data: TrainingData,
    missing: Sequence[Model],
    n_models: int,
    flags: EngineFlags,
    on_progress: Callable[[int, int], None],
) -> None:
    """Train the models that are missing, and keep every block that is finished."""
    prepare(flags)
    # Modules do not step together.
    size = flags.models_per_block(n_models) if sweep.module is None else 1
    alike = itertools.groupby(missing, key=lambda model: model.name)
    blocks = [
        block for _, own in alike for block in cut_blocks([*own], block_size=size)
    ]
    trained = run_blocks(
        data,
        blocks,
        config=[sweep.configurations[block[0].name].config for block in blocks],
        flags=flags,
        secret=sweep.secret,
        module=sweep.module,
    )
    n_done = n_models - len(missing)
    with closing(trained):
        for result in trained:
            save_block(
                work,
                [_key(model) for model in result.models],
                result.logits,
                made_with=installed_versions(),
                settings=sweep.settings_digest,
                second=result.receipts,
            )
            n_done += len(result.models)
            on_progress(n_done, n_models)


def _key(model: Model) -> Key:
    """The name of a model's row in a block; it ends with the budget."""
    budget = float(model.epsilon).hex()
    return budget if model.name is None else f"{model.name}, {budget}", model.seed


def _collected(
    work: Path,
    data: TrainingData,
    budgets: Sequence[Budget],
    name: str | None,
    *,
    has_receipts: bool,
) -> Predictions:
    """Scores of a configuration's models, from the finished blocks, which may hold others too."""
    wanted = {
        _key(model): model for model in plan_models(budgets, data.seeds, name=name)
    }

    def results() -> Iterator[BlockResult]:
        for block in finished_blocks(work):
            if not (
                rows := [row for row, key in enumerate(block.keys) if key in wanted]
            ):
                continue
            models = tuple(wanted[block.keys[row]] for row in rows)
            logits = load_block(block, data.n_records)[rows]
            second = (
                load_block(block, data.n_train, is_second=True)
                if has_receipts
                else None
            )
            yield BlockResult(models, logits, None if second is None else second[rows])

    scores = gather_predictions(
        results(), budgets=budgets, seeds=data.seeds, member=data.member
    )
    if not np.isfinite(scores.logits).all():
        raise InputError(
            f"{work} holds scores that are not numbers; remove it and train again."
        )
    return scores


def _there(sweep: Sweep, folder: Path) -> dict[str, Release]:
    """Releases that are there, by attribute; InputError for one that must not be overwritten."""
    there = {}
    paths = _paths(folder, sweep.dataset, sweep.attributes)
    dataset = sweep.dataset
    words = ("people", "positive_means")
    now = {name: getattr(dataset, name) for name in words}
    for name, path in paths.items():
        if not path.exists():
            continue
        release = there[name] = read_release(path, limits=None)
        config: dict[str, Any] = dict(release.training.config or {})
        if isinstance(
            names := config.pop("features", None), list
        ):  # version 1 named every feature
            config["columns"] = column_widths(map(str, names))
        before = {name: getattr(release.subject, name) for name in words}
        digest = dataset.published_digest(sweep.secret)
        require_same_settings(
            {"data_digest": release.provenance.data_digest, **before, **config},
            {**NOT_GIVEN, **sweep.release_config, **now, "data_digest": digest},
            added=sweep.added_settings,
            where=path,
        )
        wanted = {
            (model, *of)
            for model, own in sweep.configurations.items()
            for of in itertools.product(own.budgets, sweep.seeds)
        }
        if dropped := len(
            {(run.model, run.budget, run.seed) for run in release.runs} - wanted
        ):
            raise InputError(
                f"{path} holds {dropped} models that this sweep would drop; choose another folder, "
                "or name their budgets and seeds too."
            )
    return there


def _named(setting: str, seed: int) -> dict[str, Any]:
    """A model of the index, from the name of its row."""
    name, _, budget = setting.rpartition(", ")
    epsilon = None if budget == "inf" else float.fromhex(budget)
    return {**({"model": name} if name else {}), "epsilon": epsilon, "seed": seed}


def _write_index(
    sweep: Sweep, work: Path, splits: Mapping[int, Split], data: TrainingData
) -> None:
    """Write the index of kept scores: budget and seed of every row, record ids, digests."""
    kept = [
        {
            "scores": block.array.name,
            "sha256": block.array_digest,
            "models": [_named(*key) for key in block.keys],
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


def _paths(
    folder: Path, dataset: GroupedDataset, attributes: Sequence[str]
) -> dict[str, Path]:
    """Where the release of each attribute lies."""
    return {
        name: _beside(folder, dataset, f"{_slug(name)}.release.json")
        for name in attributes
    }


def _beside(folder: Path, dataset: GroupedDataset, ending: str) -> Path:
    return folder / f"{_slug(dataset.name)}.{ending}"


def _slug(name: str) -> str:
    """A name that every file system takes."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name.lower())
    return kept.strip("-") or "data"
