"""How does a sweep train, resume and write its releases (Part I of Algorithm 1)?

``run_sweep`` is what ``pcer train`` and the studies call. A sweep works in
``DIR/NAME.scores``, which one process owns. Every finished block of models is one file
there, written whole or not at all; a killed sweep resumes with what is missing. A model
does not depend on its block, so the release has the same bytes however often it was
interrupted. To add a file beside the release: its name in ``_paths``.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.data.dataset import GroupedDataset
from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files
from pcer.release.file import Release, read_release
from pcer.release.small_groups import require_no_others
from pcer.store import blocks
from pcer.store.blocks import (
    Key,
    StoredBlock,
    finished_blocks,
    load_block,
    require_same_settings,
    save_block,
)
from pcer.sweep.receipts import has_receipts, sweep_receipts, write_receipts
from pcer.sweep.releases import Scores, Trained, allowed_attributes, build_releases
from pcer.sweep.sweep import NOT_GIVEN, Sweep, column_widths
from pcer.train import Budget, EngineFlags, TrainingData, fleet
from pcer.train.devices import installed_versions
from pcer.train.fleet import (
    BlockResult,
    Model,
    cut_blocks,
    gather_predictions,
    plan_models,
)
from pcer.train.run import prepare, require_engine, run_blocks

INDEX = "index.json"
MEMBERS = "membership.npy"


class Training(NamedTuple):
    """What a sweep trains, whether it is begun or resumed."""

    data: TrainingData
    budgets: Mapping[str | None, Sequence[Budget]]  # with noise, by configuration
    models: Mapping[Key, Model]  # one configuration after another, repeats too
    versions: Mapping[str, str]  # of the packages that would train now
    settings: blocks.Settings  # that every model depends on
    n_watched: int | None  # records of each model with receipts; None: not counted


def run_sweep(  # noqa: PLR0913 # a front door
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
    paths = _paths(folder, sweep.dataset, sweep.attributes)
    if not keep_scores and is_finished(sweep, folder):
        on_progress(sweep.n_trained, sweep.n_trained)
        return {name: path for name, path in paths.items() if path.exists()}

    if not sweep.dataset.public:
        require_no_others(paths.values(), sweep.dataset.name)
    allowed = allowed_attributes(sweep)
    training = _training(sweep)
    work = _beside(folder, sweep.dataset, "scores")
    with blocks.owned(work):
        # Once more, as nobody else can write now: none may be lost or added to.
        _existing_releases(sweep, folder)
        if not sweep.dataset.public:
            require_no_others(paths.values(), sweep.dataset.name)
        made_again = blocks.resume_folder(
            work,
            training.settings,
            n_columns=sweep.dataset.n_records,
            n_second=training.n_watched,
        )
        missing, versions = _missing(training, finished_blocks(work))
        for note in (*allowed.not_written.values(), *made_again, *versions):
            on_note(note)
        _train(sweep, work, training, missing, flags, on_progress)

        scores, repeats = _scores(sweep, work, training)
        if sweep.keep_people and sweep.has_receipts:
            write_receipts(
                _beside(folder, sweep.dataset, "receipts"),
                *sweep_receipts(sweep, scores),
            )
        trained = Trained(scores, repeats)
        releases = build_releases(
            sweep, trained, allowed, versions, flags.n_attackers, on_step
        )
        write_files(
            {paths[name]: release.to_json() for name, release in releases.items()}
        )
        if keep_scores:
            _write_index(sweep, work, training)
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
    existing = _existing_releases(sweep, folder)
    accounted_for = {*existing}
    for release in existing.values():
        if len(release.runs) != sweep.n_models:
            return False
        if sweep.repeat_seeds and not release.training_noise:
            return False
        accounted_for |= {*release.not_written}
    if accounted_for != {*sweep.attributes}:
        return False
    receipts = _beside(folder, sweep.dataset, "receipts")
    keeps_receipts = sweep.keep_people and sweep.has_receipts
    return not keeps_receipts or has_receipts(receipts, sweep)


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
    """A sentence for readers of a release; none if these versions trained all models.

    Args:
        trained: versions by package, of every model.
        now: those of the process that writes the release.
    """
    n_models = Counter[str]()
    for versions in trained:
        different = [name for name in sorted(now) if versions.get(name) != now[name]]
        named = [f"{name} {versions.get(name, '(not noted)')}" for name in different]
        n_models[" and ".join(named)] += 1
    del n_models[""]
    if not n_models:
        return []
    parts = [f"{n} by {versions}" for versions, n in sorted(n_models.items())]
    return [
        "Not all models are trained by the versions that write this release: "
        f"{', '.join(parts)}; trained by one version, some numbers could differ "
        "slightly."
    ]


def _training(sweep: Sweep) -> Training:
    """Data, noise and models; what cannot be trained is refused before any writing."""
    has_receipts = sweep.has_receipts
    settings = sweep.settings
    rows = {seed: part.train for seed, part in sweep.splits.items()}
    repeated = rows[sweep.seeds[0]]
    rows |= dict.fromkeys(sweep.repeat_seeds, repeated)
    data = TrainingData.of(
        sweep.dataset.features,
        sweep.dataset.labels,
        rows,
        allow_missing=True,
        groups=sweep.groups,
    )
    budgets = {}
    for name, (config, epsilons) in sweep.configurations.items():
        budgets[name] = fleet.calibrated(
            sorted(epsilons), data, config, module=sweep.module
        )
    versions = installed_versions()
    models = {}
    for name, (config, _) in sweep.configurations.items():
        digests = {}
        if sweep.secret:
            module = settings["module_digest"] or ""
            digests = fleet.stream_digests(data, config, module=module)
        for model in plan_models(budgets[name], data.seeds, digests, name):
            models[model.key] = model
    n_watched = data.n_train if has_receipts else None
    return Training(data, budgets, models, versions, settings, n_watched)


def _existing_releases(sweep: Sweep, folder: Path) -> dict[str, Release]:
    """Releases of this sweep in the folder, by attribute.

    Raises:
        InputError: one has other settings or more models, and is not overwritten.
    """
    releases = {}
    for name, path in _paths(folder, sweep.dataset, sweep.attributes).items():
        if path.exists():
            release = read_release(path, limits=None)
            _require_same_sweep(sweep, release, path)
            _require_no_more_models(sweep, release, path)
            releases[name] = release
    return releases


def _require_same_sweep(sweep: Sweep, release: Release, path: Path) -> None:
    """Raise InputError unless a release has the data and settings of the sweep."""
    config: dict[str, Any] = dict(release.training.config or {})
    features = config.pop("features", None)
    if isinstance(features, list):  # version 1 named every feature
        config["columns"] = column_widths(map(str, features))
    before = {
        **NOT_GIVEN,
        "data_digest": release.provenance.data_digest,
        "people": release.subject.people,
        "positive_means": release.subject.positive_means,
        **config,
    }
    dataset = sweep.dataset
    now = {
        **NOT_GIVEN,
        **sweep.release_config,
        "people": dataset.people,
        "positive_means": dataset.positive_means,
        "data_digest": sweep.data_digest,
    }
    require_same_settings(before, now, where=path)


def _require_no_more_models(sweep: Sweep, release: Release, path: Path) -> None:
    """Raise InputError if the sweep lacks models of a release."""
    wanted = set[tuple[str | None, float, int]]()
    for name, configuration in sweep.configurations.items():
        for epsilon, seed in itertools.product(configuration.budgets, sweep.seeds):
            wanted.add((name, epsilon, seed))
    n_dropped = len(
        {(run.model, run.budget, run.seed) for run in release.runs} - wanted
    )
    if n_dropped:
        raise InputError(
            f"{path} holds {n_dropped} models that this sweep would drop; choose "
            "another folder, or name their budgets and seeds too."
        )


def _missing(
    training: Training, finished: Iterable[StoredBlock]
) -> tuple[list[Model], list[str]]:
    """Models that no finished block has, and the note on versions for readers."""
    made_with: dict[Key, Mapping[str, str]] = {}  # versions by model
    for block in finished:
        made_with |= dict.fromkeys(block.keys, block.made_with)
    missing = []
    trained_by = []
    for key, model in training.models.items():
        if key not in made_with:
            missing.append(model)
        trained_by.append(made_with.get(key, training.versions))
    return missing, version_note(trained_by, training.versions)


def _train(
    sweep: Sweep,
    work: Path,
    training: Training,
    missing: Sequence[Model],
    flags: EngineFlags,
    on_progress: Callable[[int, int], None],
) -> None:
    """Train the models that are missing, if any, and keep every finished block."""
    n_done = sweep.n_trained - len(missing)
    on_progress(n_done, sweep.n_trained)
    if not missing:
        return
    settings = blocks.record_digest(training.settings)
    prepare(flags)
    # Modules do not step together.
    size = 1 if sweep.module is not None else flags.models_per_block(sweep.n_trained)
    planned: list[tuple[Model, ...]] = []
    for _, models in itertools.groupby(missing, key=lambda model: model.name):
        planned += cut_blocks([*models], block_size=size)
    trained = run_blocks(
        training.data,
        planned,
        config=[sweep.configurations[block[0].name].config for block in planned],
        flags=flags,
        secret=sweep.secret,
        module=sweep.module,
    )
    with closing(trained):
        for result in trained:
            save_block(
                work,
                [model.key for model in result.models],
                result.logits,
                made_with=training.versions,
                settings=settings,
                second=result.receipts,
            )
            n_done += len(result.models)
            on_progress(n_done, sweep.n_trained)


def _scores(sweep: Sweep, work: Path, training: Training) -> tuple[Scores, Scores]:
    """Scores from the finished blocks, by configuration: all models, and repeats."""
    scores = {}
    repeats = {}
    n_seeds = len(sweep.seeds)
    for name, budgets in training.budgets.items():
        own = {key: one for key, one in training.models.items() if one.name == name}
        predictions = gather_predictions(
            _results(work, own, training.data, has_receipts=sweep.has_receipts),
            budgets=budgets,
            seeds=training.data.seeds,
            member=training.data.member,
        )
        if not np.isfinite(predictions.logits).all():
            raise InputError(
                f"{work} holds scores that are not numbers; remove it and train again."
            )
        scores[name] = predictions.at(slice(n_seeds))
        repeats[name] = predictions.at(slice(n_seeds, None))
    return scores, repeats


def _results(
    work: Path, wanted: Mapping[Key, Model], data: TrainingData, *, has_receipts: bool
) -> Iterator[BlockResult]:
    """Results of these models, from blocks that may hold others too."""
    for block in finished_blocks(work):
        rows = [row for row, key in enumerate(block.keys) if key in wanted]
        if not rows:
            continue
        logits = load_block(block, data.n_records)[rows]
        receipts = None
        if has_receipts:
            receipts = load_block(block, data.n_train, is_second=True)[rows]
        of_rows = tuple(wanted[block.keys[row]] for row in rows)
        yield BlockResult(of_rows, logits, receipts)


def _write_index(sweep: Sweep, work: Path, training: Training) -> None:
    """Write the index of kept scores: the model of every row, record ids, digests."""
    kept = []
    for block in finished_blocks(work):
        models = []
        for setting, seed in block.keys:
            name, _, budget = setting.rpartition(", ")
            epsilon = None if budget == "inf" else float.fromhex(budget)
            of_name = {"model": name} if name else {}
            models.append({**of_name, "epsilon": epsilon, "seed": seed})
        entry = {
            "scores": block.array.name,
            "sha256": block.array_digest,
            "models": models,
        }
        kept.append(entry)
    splits = [sweep.splits[seed].id for seed in sweep.seeds]
    members_digest = blocks.save_array(work / MEMBERS, training.data.member)
    index = {
        "format": "pcer-scores",
        "version": 1,
        "blocks": kept,
        "membership": MEMBERS,
        "membership_sha256": members_digest,
        "seeds": list(training.data.seeds),
        "splits": [*splits, *[splits[0]] * len(sweep.repeat_seeds)],
        "record_ids": sweep.dataset.record_ids.tolist(),
    }
    write_files({work / INDEX: canonical_json(blocks.sealed(index))}, private=True)


def _paths(
    folder: Path, dataset: GroupedDataset, attributes: Sequence[str]
) -> dict[str, Path]:
    """Where the release of each attribute lies."""
    paths = {}
    for name in attributes:
        paths[name] = _beside(folder, dataset, f"{_slug(name)}.release.json")
    return paths


def _beside(folder: Path, dataset: GroupedDataset, ending: str) -> Path:
    return folder / f"{_slug(dataset.name)}.{ending}"


def _slug(name: str) -> str:
    """A name that every file system takes."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name.lower())
    return kept.strip("-") or "data"
