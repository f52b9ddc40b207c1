"""Train the variants of what the paper leaves open into a folder; a killed run goes on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pcer.data import GroupedDataset, load, split, standardise
from pcer.errors import require_at_least
from pcer.files import write_files
from pcer.release.reading import read_release
from pcer.sweep import Sweep, is_finished, run_sweep
from pcer.train import Accountant, EngineFlags, TrainConfig, epsilon_spent
from pcer.train.accounting import NOISE_STEPS
from pcer_studies.protocol import TRAINING
from pcer_studies.run import Progress, environment
from pcer_studies.sensitivity.analysis import (
    Observed,
    Sensitivity,
    analyse,
    observe,
    read_sensitivity,
)
from pcer_studies.sensitivity.page import to_page
from pcer_studies.sensitivity.readings import READINGS, load_reading, missing_files
from pcer_studies.sensitivity.variants import VARIANTS, Noise, Variant

FOLDER = "sensitivity"
"""Where the variants' releases go, below the study's folder."""

JSON, PAGE = "sensitivity.json", "sensitivity.md"

SEEDS = {"adult": 10, "compas": 50}
"""Seeds of a run that asks for no number."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One variant, ready to train."""

    variant: Variant
    sweep: Sweep
    folder: Path

    @property
    def n_models(self) -> int:
        return len(self.sweep.budgets) * len(self.sweep.seeds)


def run_sensitivity(
    folder: Path,
    *,
    flags: EngineFlags,
    n_seeds: int | None = None,
    variants: tuple[Variant, ...] = VARIANTS,
    config: TrainConfig | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Sensitivity, Progress]:
    """Train what is missing; write ``sensitivity.json`` and ``sensitivity.md``; where it ended.

    Args:
        folder: of the study; the releases go to ``sensitivity/`` in it.
        flags: how fast.
        n_seeds: seeds 0 to n_seeds - 1 of every variant; default: ``SEEDS``.
        variants: what to train; baselines must be among them.
        config: settings of the baselines; default: the paper's.
        on_progress: told where it stands.

    Raises:
        InputError: the folder holds releases of other settings or of more models.
        OutputError: something cannot be written.
    """
    lacking = {one.name: _lacking(one) for one in variants}
    there = [one for one in variants if lacking[one.name] is None]
    total = sum(len(one.budgets) * _n_seeds(one, n_seeds) for one in there)
    parts = []
    for one in there:
        on_progress(Progress(what=f"preparing {one.name}", done=0, total=total))
        settings = _config(one, config or TrainConfig(**TRAINING))
        parts.append(_part(one, folder / FOLDER / one.name, n_seeds, settings))
    releases, ended = _train(parts, flags, on_progress)
    skipped = [(name, reason) for name, reason in lacking.items() if reason is not None]
    observed = [
        _observed(part, paths) for part, paths in zip(parts, releases, strict=True)
    ]
    found = analyse(
        observed, made_with=_made_with(folder, flags, ended), skipped=skipped
    )
    write_files({folder / JSON: found.to_json(), folder / PAGE: to_page(found)})
    return found, ended


def opacus_noise(epsilon: float, *, n_train: int, config: TrainConfig) -> float:
    """The noise multiplier that Opacus chooses for a target epsilon, in whole thousandths."""
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # Its first guess of the range remarks on Renyi orders and overflows to
        # infinity.
        warnings.filterwarnings(
            "ignore", message="Optimal order is the", category=UserWarning
        )
        found = get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=config.dp_delta,
            sample_rate=config.sampling(n_train).sample_rate,
            epochs=config.epochs,
            accountant="prv",
        )
    return math.ceil(float(found) * NOISE_STEPS) / NOISE_STEPS


def _train(
    parts: list[_Part], flags: EngineFlags, on_progress: Callable[[Progress], None]
) -> tuple[list[dict[str, Path]], Progress]:
    """The release files of every part, by attribute, and where it ended."""
    total = sum(part.n_models for part in parts)
    found = sum(part.n_models for part in parts if is_finished(part.sweep, part.folder))
    now = Progress(what="starting", done=0, found=found, total=total)
    releases: list[dict[str, Path]] = []
    for index, part in enumerate(parts):
        what = part.variant.name
        before = sum(one.n_models for one in parts[:index])

        def tell(models: int, _: int, what: str = what, before: int = before) -> None:
            nonlocal now
            now = Progress(what=what, done=before + models, found=found, total=total)
            on_progress(now)

        releases.append(
            run_sweep(part.sweep, part.folder, flags=flags, on_progress=tell)
        )
    return releases, now


def _lacking(one: Variant) -> str | None:
    return missing_files(one.name) if one.name in READINGS else None


def _n_seeds(one: Variant, asked: int | None) -> int:
    chosen = SEEDS[one.dataset] if asked is None else asked
    require_at_least(1, n_seeds=chosen)
    return chosen


def _part(
    one: Variant, folder: Path, n_seeds: int | None, config: TrainConfig
) -> _Part:
    dataset = _dataset(one)
    sweep = Sweep(
        dataset=dataset,
        attributes=one.attributes,
        budgets=_budgets(one, dataset, config),
        seeds=tuple(range(_n_seeds(one, n_seeds))),
        config=config,
    )
    return _Part(variant=one, sweep=sweep, folder=folder)


def _dataset(one: Variant) -> GroupedDataset:
    plain = load_reading(one.name) if one.name in READINGS else load(one.dataset)
    if one.scaled_outside:
        everyone = np.arange(plain.n_records)
        plain = replace(plain, features=standardise(plain.features, train=everyone))
    return replace(
        plain, name=one.name, notes=(*plain.notes, f"{one.title}: {one.change}")
    )


def _config(one: Variant, plain: TrainConfig) -> TrainConfig:
    scaled_before = one.scaled_outside or (
        one.name in READINGS and not READINGS[one.name].scale_indicators
    )
    calibrated_by = {Noise.PRV: Accountant.PRV, Noise.OPACUS: Accountant.PLD}
    return replace(
        plain,
        standardise=not scaled_before,
        accountant=calibrated_by.get(one.noise, plain.accountant),
    )


def _budgets(
    one: Variant, dataset: GroupedDataset, config: TrainConfig
) -> tuple[float, ...]:
    """The budgets to train: for Opacus' own search, what its noise really spends."""
    if one.noise is not Noise.OPACUS:
        return one.budgets
    n_train = len(split(dataset, seed=0).train)
    return tuple(
        epsilon_spent(
            opacus_noise(epsilon, n_train=n_train, config=config),
            n_train=n_train,
            config=config,
            accountant=Accountant.PLD,
        )
        for epsilon in one.budgets
    )


def _observed(part: _Part, paths: dict[str, Path]) -> Observed:
    releases = {name: read_release(path) for name, path in paths.items()}
    return observe(
        part.variant, releases, n_features=len(part.sweep.dataset.feature_names)
    )


def _made_with(
    folder: Path, flags: EngineFlags, ended: Progress
) -> list[dict[str, Any]]:
    """With what the models were trained: now, and before where some were found."""
    path = folder / JSON
    before = read_sensitivity(path).made_with if ended.found and path.exists() else []
    now = environment(flags)
    return before if ended.found == ended.total or now in before else [*before, now]
