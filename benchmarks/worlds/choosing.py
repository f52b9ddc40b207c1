"""Studies in which a setting is to be chosen: new people, many settings, 16 splits.

    python -m benchmarks.worlds.choosing records FILE
    python -m benchmarks.worlds.choosing studies FILE [--studies 200] \
        [--device cuda] [--records F]
    python -m benchmarks.worlds.choosing twins FILE [--draws 200] [--data compas] ...

Training takes a GPU some minutes; ``benchmarks.planner`` judges the files on any
machine. A file holds the counts and the two deciding attacks of every study, from which
``releases_in`` builds releases. ``records`` keeps what training reads of the datasets,
so that the machine that trains needs numpy, scipy, torch and pcer's source alone. A
range such as 100-149 resumes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from benchmarks import parser_of, run_verb
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.attack_kinds import PAIRED_CONFIDENCE, RMIA
from pcer.release.file import Release
from pcer.release.records import (
    Confusion,
    GroupTables,
    PooledExposure,
    Run,
    Subject,
    Training,
)
from pcer.renyi import epsilon_of, sampled_gaussian
from pcer.train import TrainConfig

N_SPLITS, N_PEOPLE, SHARE, TWINS = 16, 6_000, 0.7, 12
CHUNK = 10  # studies that a GPU trains together
ATTRIBUTES = {"adult": "sex", "compas": "race"}
ATTACKS = (RMIA.name, PAIRED_CONFIDENCE.name)
FIELDS = ("value", "standard_error", "null_error", "benefit_covariance", "separation")
COUNTS = ("n_records", "n_excluded")
CELLS = ("tp", "fp", "tn", "fn")

Grid = Mapping[str, tuple[TrainConfig, Sequence[float]]]
PAPER = TrainConfig(accountant="rdp")
# The paper's network; four times the clip norm at a quarter of the learning rate; four
# times as long; four times as fast; and at 0.1 a quarter as fast, as there the paper's
# learning rate alone costs 7 points of accuracy. Exposure spreads from 50 to 57 of 100.
GRID: Grid = {
    "paper": (PAPER, (math.inf, 10.0, 5.0, 1.0, 0.5)),
    "slow": (replace(PAPER, learning_rate=0.0125), (0.1,)),
    "clip 4": (
        replace(PAPER, clip_norm=4.0, learning_rate=0.0125),
        (10.0, 5.0, 1.0, 0.5),
    ),
    "long": (replace(PAPER, epochs=100), (math.inf, 10.0)),
    "fast": (replace(PAPER, learning_rate=0.2), (math.inf, 5.0)),
}


class Records(NamedTuple):
    """What training reads of a dataset."""

    features: FloatArray
    labels: IntArray
    group: IntArray
    names: tuple[str, ...]


class Study(NamedTuple):
    """Models of one draw of people: arrays (setting, split, person)."""

    logits: FloatArray
    labels: IntArray
    member: BoolArray  # (split, person)
    group: IntArray


def records_of(name: str, file: str | None = None) -> Records:
    """A dataset, from the package or from the file that ``records`` wrote."""
    if file is not None:
        kept = np.load(file)
        return Records(
            *(kept[f"{name}_{part}"] for part in ("features", "labels", "group")),
            names=tuple(kept[f"{name}_names"].tolist()),
        )
    from pcer.data import load

    dataset = load(name)
    attribute = dataset.attribute(ATTRIBUTES[name])
    return Records(
        dataset.features, dataset.labels, attribute.codes, attribute.group_names
    )


def noise_for(epsilon: float, config: TrainConfig, n_train: int) -> float:
    """Least noise multiplier that keeps the budget by Renyi divergences, rounded up."""
    if math.isinf(epsilon):
        return 0.0
    sampling = config.sampling(n_train)

    def beyond(noise: float) -> float:
        steps = sampling.n_steps * sampled_gaussian(
            np.array([noise]), sampling.sample_rate
        )
        return float(epsilon_of(steps, dp_delta=config.dp_delta)[0]) - epsilon

    return math.ceil(1000 * brentq(beyond, 0.3, 500.0, xtol=1e-4) + 0.1) / 1000


def drawn(records: Records, study: int, n_people: int) -> tuple[IntArray, IntArray]:
    """Rows of one study's people, and (split, training record) positions among them."""
    rng = np.random.default_rng([28, study])
    n = len(records.labels)
    rows = (
        np.sort(rng.choice(n, n_people, replace=False))
        if n_people < n
        else np.arange(n)
    )
    n_train = round(SHARE * len(rows))
    return rows, np.array(
        [np.sort(rng.permutation(len(rows))[:n_train]) for _ in range(N_SPLITS)]
    )


def trained(
    records: Records,
    studies: Sequence[int],
    grid: Grid,
    *,
    n_people: int,
    device: str,
    secrets: Sequence[bytes] = (b"",),
) -> Iterator[tuple[int, Study]]:
    """Train some studies together; every secret gives another model of each setting."""
    from pcer.train import Budget, EngineFlags, TrainingData, fleet
    from pcer.train.run import run_blocks

    people = {study: drawn(records, study, n_people) for study in studies}
    union = np.unique(np.concatenate([rows for rows, _ in people.values()]))
    at = {study: np.searchsorted(union, rows) for study, (rows, _) in people.items()}
    rows = {
        study * N_SPLITS + k: at[study][own]
        for study, (_, splits) in people.items()
        for k, own in enumerate(splits)
    }
    data = TrainingData.of(records.features[union], records.labels[union], rows)
    flags = EngineFlags(device=device)
    found = []
    for config, epsilons in grid.values():
        noises = [noise_for(epsilon, config, data.n_train) for epsilon in epsilons]
        budgets = [
            Budget(epsilon=epsilon, noise_multiplier=noise, epsilon_by_accountant={})
            for epsilon, noise in zip(epsilons, noises, strict=True)
        ]
        models = fleet.plan_models(budgets, data.seeds)
        blocks = fleet.cut_blocks(
            models, block_size=flags.models_per_block(len(models))
        )
        for secret in secrets:
            results = run_blocks(
                data, blocks, config=config, flags=flags, secret=secret
            )
            whole = fleet.gather_predictions(
                results, budgets=budgets, seeds=data.seeds, member=data.member
            )
            found.append(whole.logits)
    for k, study in enumerate(studies):
        own = slice(k * N_SPLITS, (k + 1) * N_SPLITS)
        logits = np.concatenate([part[:, own][..., at[study]] for part in found])
        labels, group = (
            part[people[study][0]] for part in (records.labels, records.group)
        )
        yield study, Study(logits, labels, data.member[own][:, at[study]], group)


def measured(study: Study, names: tuple[str, ...]) -> dict[str, FloatArray]:
    """Counts and deciding attacks of one study, as its release has them."""
    from pcer.attacks import SettingScores, attack_models

    counts = []
    pooled = []
    positive = study.labels == 1
    groups = [study.group == g for g in range(len(names))]
    for logits in study.logits:
        predicted = logits >= 0
        cells = [predicted & positive, predicted & ~positive]
        cells += [~predicted & ~positive, ~predicted & positive]
        counts.append(
            [
                [[(cell & side & own).sum(axis=1) for cell in cells] for own in groups]
                for side in (study.member, ~study.member)
            ]
        )
        scores = SettingScores(
            logits=logits,
            labels=study.labels,
            member=study.member,
            group=study.group,
            group_names=names,
        )
        rows = {(row.attack, row.group): row for row in attack_models([scores])[0].rows}
        pooled.append(
            [
                [
                    [getattr(rows[attack, name], key) for key in FIELDS + COUNTS]
                    for name in names
                ]
                for attack in ATTACKS
            ]
        )
    # (setting, part, group, cell, split) and (setting, attack, group, field)
    return {
        "counts": np.array(counts, np.int16),
        "pooled": np.array(pooled, np.float64),
    }


def run_and_keep(
    path: Path,
    records: Records,
    studies: Sequence[int],
    grid: Grid,
    facts: Mapping[str, Any],
    *,
    jobs: int,
    **options: Any,
) -> None:
    """Train and measure studies, and keep what is done after every chunk."""
    begun = time.perf_counter()
    futures = dict[int, Future[dict[str, FloatArray]]]()
    size = CHUNK if options["device"] != "cpu" else 1
    n_train = round(SHARE * min(options["n_people"], len(records.labels)))
    settings = [
        {
            "model": name,
            "epsilon": None if math.isinf(epsilon) else epsilon,
            "noise_multiplier": noise_for(epsilon, config, n_train),
            "config": config.to_dict(),
        }
        for name, (config, epsilons) in grid.items()
        for epsilon in epsilons
    ]
    whole = {**facts, "settings": settings, "groups": records.names}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for first in range(0, len(studies), size):
            for study, models in trained(
                records, studies[first : first + size], grid, **options
            ):
                futures[study] = pool.submit(measured, models, records.names)
            print(
                f"{len(futures)} trained, {time.perf_counter() - begun:.0f} s",
                flush=True,
            )
            is_last = len(futures) == len(studies)
            done = [k for k, future in futures.items() if is_last or future.done()]
            if done:
                found = [futures[k].result() for k in done]
                arrays = {
                    key: np.stack([each[key] for each in found]) for key in found[0]
                }
                part = path.with_name(
                    f"{path.stem}.part.npz"
                )  # a kill must not leave half a file
                np.savez_compressed(
                    part, studies=done, facts=json.dumps(whole), **arrays
                )
                part.replace(path)
    print(f"{len(futures)} studies in {path}, {time.perf_counter() - begun:.0f} s")


def releases_in(paths: Sequence[str]) -> Iterator[tuple[int, Release]]:
    """The release of every study in some files."""
    for path in paths:
        kept = np.load(path)
        facts = json.loads(str(kept["facts"]))
        arrays = zip(
            kept["studies"].tolist(), kept["counts"], kept["pooled"], strict=True
        )
        for study, counts, pooled in arrays:
            yield study, _release(facts, study, counts, pooled)


def _release(
    facts: Mapping[str, Any], study: int, counts: IntArray, pooled: FloatArray
) -> Release:
    names = facts["groups"]
    runs = []
    rows = []
    settings = facts["settings"]
    if "twins" in facts:
        settings = [
            settings[0] | {"model": f"twin {k:02}"} for k in range(facts["twins"])
        ]
    for k, setting in enumerate(settings):
        key = {"model": setting["model"], "epsilon": setting["epsilon"]}
        for split in range(N_SPLITS):
            parts = [
                [
                    Confusion(**dict(zip(CELLS, cells.tolist(), strict=True)))
                    for cells in part
                ]
                for part in counts[k, ..., split]
            ]
            groups = {
                name: GroupTables(train=train, test=test)
                for name, train, test in zip(names, *parts, strict=True)
            }
            noise = setting["noise_multiplier"] or None
            runs.append(
                Run(
                    **key,
                    seed=split,
                    split=str(split),
                    noise_multiplier=noise,
                    groups=groups,
                )
            )
        for attack, of_groups in zip(ATTACKS, pooled[k], strict=True):
            for name, values in zip(names, of_groups.tolist(), strict=True):
                fields = dict(zip(FIELDS + COUNTS, values, strict=True))
                fields |= {count: int(fields[count]) for count in COUNTS}
                rows.append(PooledExposure(**key, group=name, attack=attack, **fields))
    data = facts["data"]
    subject = Subject(
        dataset=f"{data} {study}",
        attribute=ATTRIBUTES[data],
        groups=names,
        outcome="harm" if data == "compas" else "benefit",
    )
    training = Training(
        mechanism="dp-sgd",
        split_kind="random",
        stratified_by="nothing",
        config=settings[0]["config"],
    )
    return Release(subject=subject, training=training, runs=runs, pooled_exposure=rows)


def records(arguments: Sequence[str]) -> None:
    """Keep what training reads of the datasets in one small file."""
    parser = parser_of(records)
    parser.add_argument("file")
    path = parser.parse_args(arguments).file
    kept = {}
    for name in ATTRIBUTES:
        own = records_of(name)
        kept |= {f"{name}_{part}": getattr(own, part) for part in Records._fields}
    np.savez_compressed(path, **kept)


def studies(arguments: Sequence[str]) -> None:
    """Train studies of 6,000 people from Adult, 14 settings and 16 splits each."""
    options = _options(studies, "--studies", arguments)
    facts = {"data": "adult", "n_people": N_PEOPLE}
    _run(options, options.studies, "adult", GRID, facts)


def twins(arguments: Sequence[str]) -> None:
    """Train 12 models of one setting that differ in random streams alone, 16 splits."""
    options = _options(twins, "--draws", arguments)
    epsilon = float(options.epsilon)
    grid: Grid = {"paper": (PAPER, (epsilon,))}
    facts = {"data": options.data, "n_people": N_PEOPLE, "twins": TWINS}
    secrets = [f"twin {k:02} of one setting".encode() for k in range(TWINS)]
    _run(options, options.draws, options.data, grid, facts, secrets=secrets)


def _options(verb: Any, number: str, arguments: Sequence[str]) -> Any:
    parser = parser_of(verb)
    parser.add_argument("file")
    parser.add_argument(
        number, default="200", help="how many, or a range such as 100-149"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument(
        "--records", help="what `records` wrote; default: the package's data"
    )
    parser.add_argument("--data", default="adult", choices=ATTRIBUTES)
    parser.add_argument("--epsilon", default="5")
    return parser.parse_args(arguments)


def _run(
    options: Any,
    given: str,
    data: str,
    grid: Grid,
    facts: Mapping[str, Any],
    **more: Any,
) -> None:
    first, last = given.split("-") if "-" in given else (0, int(given) - 1)
    chosen = range(int(first), int(last) + 1)
    kept = records_of(data, options.records)
    more = {**more, "n_people": N_PEOPLE, "device": options.device}
    run_and_keep(
        Path(options.file), kept, chosen, grid, facts, jobs=options.jobs, **more
    )


if __name__ == "__main__":
    run_verb({"records": records, "studies": studies, "twins": twins})
