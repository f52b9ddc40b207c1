"""How are the variants of what the paper leaves open trained and compared?

``pcer reproduce --sensitivity`` calls ``run_sensitivity``; a killed run goes on. With
``run``, this module belongs to the trainer's half. To add a variant: a row of
``variants.VARIANTS``.
"""

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
from pcer.release.file import read_release
from pcer.sweep import Sweep, is_finished, run_sweep
from pcer.train import Accountant, EngineFlags, TrainConfig, epsilon_spent
from pcer.train.accounting import NOISE_STEPS
from pcer_studies.protocol import TRAINING
from pcer_studies.run import Progress, environment
from pcer_studies.sensitivity.analysis import analyse
from pcer_studies.sensitivity.observed import Observed, observe
from pcer_studies.sensitivity.page import to_page
from pcer_studies.sensitivity.readings import READINGS, load_reading, missing_files
from pcer_studies.sensitivity.records import Sensitivity, read_sensitivity
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
    """Train what is missing, and write ``sensitivity.json`` and ``sensitivity.md``.

    Args:
        folder: of the study; the releases go to ``sensitivity/`` in it.
        flags: how fast.
        n_seeds: seeds 0 to n_seeds - 1 of every variant; default: ``SEEDS``.
        variants: what to train; baselines must be among them.
        config: settings of the baselines; default: the paper's.
        on_progress: told where it stands.

    Returns:
        What was found, and where it ended.

    Raises:
        InputError: the folder holds releases of other settings or of more models.
        OutputError: something cannot be written.
    """
    skipped = []
    wanted = []
    for variant in variants:
        reason = _lacking(variant)
        if reason is None:
            wanted.append(variant)
        else:
            skipped.append((variant.name, reason))

    total = sum(len(one.budgets) * _n_seeds(one, n_seeds) for one in wanted)
    baseline = TrainConfig(**TRAINING) if config is None else config
    parts = []
    for variant in wanted:
        on_progress(Progress(what=f"preparing {variant.name}", done=0, total=total))
        path = folder / FOLDER / variant.name
        parts.append(_part(variant, path, n_seeds, _config(variant, baseline)))

    counter = _Counter(parts, on_progress)
    observed = _train(parts, flags, counter)
    made_with = _made_with(folder, flags, counter.last)
    sensitivity = analyse(observed, made_with=made_with, skipped=skipped)
    page = to_page(sensitivity)
    write_files({folder / JSON: sensitivity.to_json(), folder / PAGE: page})
    return sensitivity, counter.last


def opacus_noise(epsilon: float, *, n_train: int, config: TrainConfig) -> float:
    """The noise multiplier that Opacus chooses for a target epsilon.

    In whole thousandths, rounded up.
    """
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # Its first guess of the range remarks on Renyi orders and overflows to
        # infinity.
        warnings.filterwarnings(
            "ignore", message="Optimal order is the", category=UserWarning
        )
        noise = get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=config.dp_delta,
            sample_rate=config.sampling(n_train).sample_rate,
            epochs=config.epochs,
            accountant="prv",
        )
    return math.ceil(float(noise) * NOISE_STEPS) / NOISE_STEPS


class _Counter:
    """Adds up the models of all variants for one display.

    Attributes:
        last: where the whole run stands.
    """

    def __init__(
        self, parts: list[_Part], on_progress: Callable[[Progress], None]
    ) -> None:
        self.on_progress = on_progress
        n_models = 0
        n_found = 0
        for part in parts:
            n_models += part.n_models
            if is_finished(part.sweep, part.folder):
                n_found += part.n_models
        self.last = Progress(what="starting", done=0, found=n_found, total=n_models)

    def on_models(self, name: str, n_before: int) -> Callable[[int, int], None]:
        """What one variant's sweep calls; ``n_before`` models come before its own."""

        def tell(done: int, _: int) -> None:
            self.last = replace(self.last, what=name, done=n_before + done)
            self.on_progress(self.last)

        return tell


def _train(parts: list[_Part], flags: EngineFlags, counter: _Counter) -> list[Observed]:
    """What every part gave; all parts are trained before the first is read."""
    paths = []
    n_before = 0
    for part in parts:
        tell = counter.on_models(part.variant.name, n_before)
        paths.append(run_sweep(part.sweep, part.folder, flags=flags, on_progress=tell))
        n_before += part.n_models
    return [_observed(*trained) for trained in zip(parts, paths, strict=True)]


def _lacking(variant: Variant) -> str | None:
    """What a variant lacks on this machine, in a sentence; None if nothing."""
    return missing_files(variant.name) if variant.name in READINGS else None


def _n_seeds(variant: Variant, asked: int | None) -> int:
    n_seeds = SEEDS[variant.dataset] if asked is None else asked
    require_at_least(1, n_seeds=n_seeds)
    return n_seeds


def _part(
    variant: Variant, folder: Path, n_seeds: int | None, config: TrainConfig
) -> _Part:
    dataset = variant_dataset(variant)
    sweep = Sweep(
        dataset=dataset,
        attributes=variant.attributes,
        budgets=_budgets(variant, dataset, config),
        seeds=tuple(range(_n_seeds(variant, n_seeds))),
        config=config,
    )
    return _Part(variant=variant, sweep=sweep, folder=folder)


def variant_dataset(variant: Variant) -> GroupedDataset:
    """The variant's features of its dataset."""
    is_reading = variant.name in READINGS
    dataset = load_reading(variant.name) if is_reading else load(variant.dataset)
    if variant.scaled_outside:
        everyone = np.arange(dataset.n_records)
        scaled = standardise(dataset.features, train=everyone)
        dataset = replace(dataset, features=scaled)
    note = f"{variant.title}: {variant.change}"
    return replace(dataset, name=variant.name, notes=(*dataset.notes, note))


def _config(variant: Variant, baseline: TrainConfig) -> TrainConfig:
    """How the variant is trained, where its baseline is trained so."""
    reading = READINGS.get(variant.name)
    is_scaled = variant.scaled_outside
    if reading is not None and not reading.scale_indicators:
        is_scaled = True
    calibrated_by = {Noise.PRV: Accountant.PRV, Noise.OPACUS: Accountant.PLD}
    return replace(
        baseline,
        standardise=not is_scaled,
        accountant=calibrated_by.get(variant.noise, baseline.accountant),
    )


def _budgets(
    variant: Variant, dataset: GroupedDataset, config: TrainConfig
) -> tuple[float, ...]:
    """The budgets to train: for Opacus' own search, what its noise really spends."""
    if variant.noise is not Noise.OPACUS:
        return variant.budgets
    n_train = len(split(dataset, seed=0).train)
    spent = []
    for epsilon in variant.budgets:
        noise = opacus_noise(epsilon, n_train=n_train, config=config)
        spent.append(
            epsilon_spent(
                noise, n_train=n_train, config=config, accountant=Accountant.PLD
            )
        )
    return tuple(spent)


def _observed(part: _Part, paths: dict[str, Path]) -> Observed:
    releases = {attribute: read_release(path) for attribute, path in paths.items()}
    n_features = len(part.sweep.dataset.feature_names)
    return observe(part.variant, releases, n_features=n_features)


def _made_with(
    folder: Path, flags: EngineFlags, ended: Progress
) -> list[dict[str, Any]]:
    """With what the models were trained: now, and before where some were found."""
    path = folder / JSON
    before: list[dict[str, Any]] = []
    if ended.found and path.exists():
        before = read_sensitivity(path).made_with
    now = environment(flags)
    if ended.found == ended.total or now in before:
        return before
    return [*before, now]
