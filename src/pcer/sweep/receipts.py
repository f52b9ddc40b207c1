"""Privacy spent: bounds of groups in a release, and the private file of everybody's receipts.

Both hold two numbers (``pcer.train.receipts``): the receipt, which is a bound, and the
realised epsilon, which papers print and which is none. Those in a release are exact
statistics of training records, outside the training epsilon. ``NAME.receipts`` beside
the releases is about persons: only its owner can read it, and nothing in it is for
publication.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pcer.errors import InputError, refused_as
from pcer.files import (
    Record,
    canonical_json,
    parse_record,
    read_json,
    require_format,
    write_files,
)
from pcer.metrics import NO_DP, BoolArray, FloatArray
from pcer.release.records import Bound
from pcer.release.small_groups import Attribute
from pcer.store.blocks import file_digest, is_sealed, make_private, save_array, sealed
from pcer.sweep.sweep import Sweep
from pcer.train import Budget, Predictions, TrainConfig
from pcer.train.accounting import promised
from pcer.train.fleet import Float32Array
from pcer.train.receipts import Terms, allowed_advantage, mu_of, unfolded

FORMAT: Literal["pcer-receipts"] = "pcer-receipts"
VERSION: Literal[1] = 1
INDEX, ARRAY = "receipts.json", "receipts.npy"
ANEW = "train again to make them again"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# all numbers here use Renyi divergences, on which the proof of a receipt rests
ACCOUNTANT = "rdp"
EXACT_NOTE = (
    "bounds hold exact statistics of what training records spent, outside the training epsilon; "
    "docs/training.md says what noise they would need."
)


class ReceiptSetting(Record):
    """The models of one privacy budget, and of one configuration where there are several."""

    model: str | None = None
    epsilon: float  # as promised
    epsilon_by_accountant: dict[str, float]
    noise_multiplier: float
    # Epsilons of the ladder's rungs; the promise by the same accountant last.
    ladder: list[float]
    promises: list[float] | None = (
        None  # by record, where a rule promises groups different ones
    )


class ReceiptIndex(Record):
    """What the array of receipts holds, (setting, seed, record)."""

    format: Literal["pcer-receipts"] = FORMAT
    version: Literal[1] = VERSION
    dataset: str
    data_digest: str  # keyed where the records are private
    mode: Literal[
        "exact", "refreshed", "held"
    ]  # where the norms of gradients come from
    accountant: str  # of every ladder
    dp_delta: float
    clip_norm: float | None = None  # None where models differ in it
    standardised: (
        bool  # whether features were scaled by statistics of the training records
    )
    has_models_without_privacy: bool
    settings: list[ReceiptSetting]
    seeds: list[int]
    record_ids: list[int]
    array_sha256: str = ""
    sha256: str = ""


class SettingReceipts(NamedTuple):
    """What one person spent in the models of one budget that were trained on them."""

    setting: ReceiptSetting  # the budget
    realised: FloatArray  # (model,) epsilons that describe
    receipt: FloatArray  # (model,) epsilons that bound
    nominal: float  # the promise to this person, by the accountant of the receipts


def group_bounds(
    sweep: Sweep, scores: Predictions, attribute: Attribute, model: str | None = None
) -> list[Bound]:
    """Rows of every private budget: both kinds for every group, over its people and by label."""
    labels = sweep.dataset.labels
    config = sweep.configurations[model].config
    parts = [
        (name, label, (attribute.codes == code) & ((labels == label) | (label is None)))
        for code, name in enumerate(attribute.groups)
        for label in (None, 0, 1)
    ]
    rows: list[Bound] = []
    own: Any = {"n_train": int(scores.member[0].sum()), "config": config}
    shares = config.training_rule.shares(sweep.groups)
    for k, budget in enumerate(scores.budgets):
        if budget.epsilon == NO_DP:
            continue
        by = str(config.accountant)
        same: dict[str, Any] = {"model": model, "epsilon": budget.epsilon}
        if (most := promised(budget, shares, **own, by=by)) is not None:
            fixed = {"mode": "exact", "kind": "promise", "accountant": by}
            same |= {"nominal": budget.epsilon_by_accountant[by]}
            rows += [
                Bound.model_validate(
                    {**same, **fixed, "group": name, "mean": most[chosen].max()}
                )
                for name, label, chosen in parts
                if label is None and chosen.any()
            ]
        if scores.receipts is None:
            continue
        terms = terms_of(budget, **own)
        most = promised(budget, shares, **own, by=ACCOUNTANT)
        most = np.full(len(labels), terms.nominal) if most is None else most
        spent = unfolded(placed(scores.receipts[k], scores.member), terms.ladder)
        realised, receipt = (np.minimum(values, most) for values in spent)
        rows += [
            Bound.model_validate(
                {
                    **same,
                    "group": name,
                    "label": label,
                    "kind": kind,
                    "mode": str(config.receipts),
                }
                | _statistics(values[:, chosen], terms, kind)
                | {"nominal": float(most[chosen].max())}
            )
            for kind, values in (("receipt", receipt), ("realised", realised))
            for name, label, chosen in parts
            if not np.isnan(values[:, chosen]).all()
        ]
    return rows


def _statistics(values: FloatArray, terms: Terms, kind: str) -> dict[str, object]:
    """The numbers of one row; (seed, record) values are NaN where a model did not train on it."""
    there = values[~np.isnan(values)]
    shares = np.quantile(there, QUANTILES, method="inverted_cdf")  # levels stay levels
    allowed = None
    if kind == "realised":  # mean over models, as an attack is on one of them
        models = [mu[~np.isnan(mu)] for mu in mu_of(values, dp_delta=terms.dp_delta)]
        allowed = float(np.mean([allowed_advantage(mu) for mu in models if len(mu)]))
    return {
        "accountant": ACCOUNTANT,
        "mean": float(there.mean()),
        "standard_error": two_way_error(values),
        "quantiles": {
            f"{q:g}": float(v) for q, v in zip(QUANTILES, shares, strict=True)
        },
        "n_records": int((~np.isnan(values)).any(axis=0).sum()),
        "allowed_advantage": allowed,
        "exact": True,
    }


def terms_of(budget: Budget, n_train: int, config: TrainConfig) -> Terms:
    """Promise and levels of every record, fixed before training."""
    sampling = config.sampling(n_train)
    return Terms(
        budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, config.dp_delta
    )


def placed(kept: Float32Array, member: BoolArray) -> Float32Array:
    """(seed, record) from (seed, training record); NaN where a record was not trained on."""
    whole = np.full(member.shape, np.nan, dtype=np.float32)
    whole[member] = kept.ravel()
    return whole


def two_way_error(values: FloatArray) -> float | None:
    """Standard error of the mean over people and seeds of (seed, record); None for one person."""
    # Two-way clusters: people are in several models, and a model is about many people
    # (Cameron, Gelbach and Miller 2011); never less than the part of people.
    there = ~np.isnan(values)
    n = int(there.sum())
    (n_seeds, n_people) = (int(there.any(axis=k).sum()) for k in (1, 0))
    if n_people < 2:
        return None
    off = np.where(there, values - values[there].mean(), 0.0) / n
    people = (off.sum(axis=0) ** 2).sum() * n_people / (n_people - 1)
    if n_seeds < 2:
        return math.sqrt(people)
    seeds = (off.sum(axis=1) ** 2).sum() * n_seeds / (n_seeds - 1)
    return math.sqrt(people + max(0.0, seeds - (off**2).sum()))


def sweep_receipts(
    sweep: Sweep, scores: Mapping[str | None, Predictions]
) -> tuple[ReceiptIndex, Float32Array]:
    """An index without digests, and (setting, seed, record) folded receipts of private models."""
    settings = list[ReceiptSetting]()
    kept = list[Float32Array]()
    for name, found in scores.items():
        assert found.receipts is not None
        config = sweep.configurations[name].config
        n_train = int(found.member[0].sum())
        for budget, own in zip(found.budgets, found.receipts, strict=True):
            if budget.epsilon != NO_DP:
                kept.append(placed(own, found.member))
                same: Any = {"n_train": n_train, "config": config}
                shares = config.training_rule.shares(sweep.groups)
                most = promised(budget, shares, **same, by=ACCOUNTANT)
                settings.append(
                    ReceiptSetting(
                        promises=None if most is None else most.tolist(),
                        model=name,
                        epsilon=budget.epsilon,
                        epsilon_by_accountant=dict(budget.epsilon_by_accountant),
                        noise_multiplier=budget.noise_multiplier,
                        ladder=terms_of(budget, n_train, config).ladder.tolist(),
                    )
                )
    clips = {own.config.clip_norm for own in sweep.configurations.values()}
    index = ReceiptIndex(
        dataset=sweep.dataset.name,
        data_digest=sweep.dataset.published_digest(sweep.secret),
        mode=str(sweep.config.receipts),  # type: ignore[arg-type]  # one of the three
        accountant=ACCOUNTANT,
        dp_delta=sweep.config.dp_delta,
        clip_norm=clips.pop() if len(clips) == 1 else None,
        standardised=sweep.config.standardise,
        has_models_without_privacy=NO_DP in sweep.budgets,
        settings=settings,
        seeds=list(sweep.seeds),
        record_ids=sweep.dataset.record_ids.tolist(),
    )
    return index, np.array(kept, np.float32).reshape(len(kept), *found.member.shape)


def write_receipts(folder: Path, index: ReceiptIndex, kept: Float32Array) -> None:
    """Write receipts for their owner only; moved into place, so that a kill leaves no part."""
    make_private(folder)
    stage = folder.with_suffix(".scores") / "receipts"
    shutil.rmtree(stage, ignore_errors=True)
    make_private(stage)
    digest = save_array(stage / ARRAY, kept)
    whole = index.model_copy(update={"array_sha256": digest})
    record = whole.model_dump(exclude={"sha256"}, exclude_none=True)
    write_files({stage / INDEX: canonical_json(sealed(record))}, private=True)
    with refused_as(f"{folder} cannot be replaced", "remove it and run again"):
        shutil.rmtree(folder)
        stage.rename(folder)


def read_receipts(folder: Path) -> tuple[ReceiptIndex, Float32Array]:
    """The index and the array; InputError where they are absent or altered."""
    path = folder / INDEX
    array = folder / ARRAY
    data = read_json(path, max_bytes=None)
    require_format(data, file=str(path), name=FORMAT, version=VERSION)
    index = parse_record(ReceiptIndex, data, file=str(path))
    if (
        not is_sealed(data)
        or not array.exists()
        or file_digest(array) != index.array_sha256
    ):
        raise InputError(f"{folder} is not as it was written; {ANEW}.")
    return index, np.load(array, mmap_mode="r", allow_pickle=False)


def has_receipts(folder: Path, sweep: Sweep) -> bool:
    """Whether a folder holds the receipts of these models; reads only the index."""
    try:
        index = parse_record(
            ReceiptIndex, read_json(folder / INDEX, max_bytes=None), file=""
        )
    except InputError:
        return False
    digest = sweep.dataset.published_digest(sweep.secret)
    mode = str(sweep.config.receipts)
    is_same = (index.data_digest, index.mode, index.seeds) == (
        digest,
        mode,
        list(sweep.seeds),
    )
    there = {(setting.model, setting.epsilon) for setting in index.settings}
    named = {
        (name, e) for name, own in sweep.configurations.items() for e in own.budgets
    }
    wanted = {setting for setting in named if setting[1] != NO_DP}
    return is_same and there == wanted and (folder / ARRAY).exists()


def find_receipts(folder: Path) -> Path:
    """The receipts in a folder, or the folder itself; InputError where there are several."""
    if (folder / INDEX).exists():
        return folder
    found = sorted(path.parent for path in folder.glob(f"*.receipts/{INDEX}"))
    if not found:
        raise InputError(
            f"{folder} holds no receipts; train with receipts 'held' to have them."
        )
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(
            f"{folder} holds receipts of several sweeps; name one of: {names}."
        )
    return found[0]


def person_receipts(
    folder: Path, record: str
) -> tuple[ReceiptIndex, Sequence[SettingReceipts]]:
    """Privacy that one record spent, for every budget.

    Args:
        folder: of a sweep, or of its receipts.
        record: its id.

    Raises:
        InputError: there is no such record, or there are no receipts.
    """
    index, kept = read_receipts(find_receipts(folder))
    if record not in (ids := [*map(str, index.record_ids)]):
        raise InputError(
            f"{folder} has no receipt of a record {record!r}; give the id that the dataset "
            f"{index.dataset!r} has for it."
        )
    at = ids.index(record)
    rows = []
    for setting, values in zip(index.settings, np.array(kept[:, :, at]), strict=True):
        most = setting.promises[at] if setting.promises else setting.ladder[-1]
        pair = unfolded(values[~np.isnan(values)], np.minimum(setting.ladder, most))
        rows.append(SettingReceipts(setting, *pair, most))
    return index, rows


def right_guesses(epsilon: float, dp_delta: float) -> float:
    """Largest share of correct guesses, at even odds, that (epsilon, delta) allows an attacker.

    True and false positive rates satisfy TPR <= e^epsilon FPR + delta, and so do the
    negative ones; the best sum of both is reached where the two lines meet.

    >>> right_guesses(0.0, 0.0), round(right_guesses(1.0, 1e-5), 4)
    (0.5, 0.7311)
    """
    share = 0.5 * (1 + math.tanh(epsilon / 2)) + dp_delta / (
        1 + math.exp(min(epsilon, 700.0))
    )
    return min(1.0, share)
