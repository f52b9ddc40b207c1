"""What people spent: bounds of groups in a release, and the private file of everybody's receipts.

Both are of two numbers (``pcer.train.receipts``): the receipt, which is a bound, and the realised
epsilon, which papers print and which bounds nothing. Those in a release are exact statistics, so
they are a release of training records outside the training epsilon. ``NAME.receipts`` beside the
releases holds one array and an index about persons: only their owner can read them, and nothing in
them is for publication.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pcer.data import ProtectedAttribute
from pcer.errors import InputError
from pcer.files import Record, canonical_json, parse_record, read_json, require_format, write_files
from pcer.metrics import NO_DP, BoolArray, FloatArray, IntArray
from pcer.release.format import Bound
from pcer.store.blocks import file_digest, is_sealed, make_private, save_array, sealed
from pcer.sweep.sweep import Sweep
from pcer.train import Budget, Predictions, TrainConfig
from pcer.train.fleet import Float32Array
from pcer.train.receipts import Terms, allowed_advantage, mu_of, unfolded

FORMAT: Literal["pcer-receipts"] = "pcer-receipts"
VERSION: Literal[1] = 1
INDEX, ARRAY = "receipts.json", "receipts.npy"
ANEW = "train again, and they are made anew"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ACCOUNTANT = "rdp"  # all numbers here are by Renyi divergences, which carry the proof of a receipt
EXACT_NOTE = (
    "bounds hold exact statistics of what training records spent, outside the training epsilon; "
    "docs/training.md says what noise they would need."
)


class ReceiptSetting(Record):
    """The models of one privacy budget."""

    epsilon: float  # as promised
    epsilon_by_accountant: dict[str, float]
    noise_multiplier: float
    # What the rungs of receipts are worth; the promise by their accountant last.
    ladder: list[float]


class ReceiptIndex(Record):
    """What the array of receipts holds, (setting, seed, record)."""

    format: Literal["pcer-receipts"] = FORMAT
    version: Literal[1] = VERSION
    dataset: str
    data_digest: str  # keyed where the records are private
    mode: Literal["exact", "refreshed", "held"]  # where the norms of gradients come from
    accountant: str  # of every ladder
    dp_delta: float
    clip_norm: float
    standardised: bool  # whether features were scaled by statistics of the training records
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

    @property
    def nominal(self) -> float:
        """The promise, by the accountant of the receipts."""
        return self.setting.ladder[-1]


def group_bounds(
    scores: Predictions, config: TrainConfig, attribute: ProtectedAttribute, labels: IntArray
) -> list[Bound]:
    """Rows of every private budget: both kinds for every group, over all its people and by label.

    None where nobody counted.
    """
    if scores.receipts is None:
        return []
    parts = [
        (name, label, (attribute.codes == code) & ((labels == label) | (label is None)))
        for code, name in enumerate(attribute.group_names)
        for label in (None, 0, 1)
    ]
    rows: list[Bound] = []
    for budget, kept in zip(scores.budgets, scores.receipts, strict=True):
        if budget.epsilon == NO_DP:
            continue
        whole = placed(kept, scores.member)
        terms = terms_of(budget, int(scores.member[0].sum()), config)
        same = {"epsilon": budget.epsilon, "mode": str(config.receipts)}
        realised, receipt = unfolded(whole, terms.ladder)
        rows += [
            Bound.model_validate(
                {**same, "group": name, "label": label, "kind": kind}
                | _statistics(values[:, chosen], terms, kind)
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
        "quantiles": {f"{q:g}": float(v) for q, v in zip(QUANTILES, shares, strict=True)},
        "n_records": int((~np.isnan(values)).any(axis=0).sum()),
        "nominal": terms.nominal,
        "allowed_advantage": allowed,
        "exact": True,
    }


def terms_of(budget: Budget, n_train: int, config: TrainConfig) -> Terms:
    """What is settled before training about every record."""
    sampling = config.sampling(n_train)
    return Terms(budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, config.dp_delta)


def placed(kept: Float32Array, member: BoolArray) -> Float32Array:
    """(seed, record) from (seed, training record); NaN where a record was not trained on."""
    whole = np.full(member.shape, np.nan, dtype=np.float32)
    whole[member] = kept.ravel()
    return whole


def two_way_error(values: FloatArray) -> float | None:
    """Standard error of the mean over people and seeds of (seed, record); None for one person.

    People are in several models, and a model is about many people: clusters of people, plus what
    models differ by beyond their own people (Cameron, Gelbach and Miller 2011); never less than the
    part of people.
    """
    there = ~np.isnan(values)
    n, (n_seeds, n_people) = int(there.sum()), (int(there.any(axis=k).sum()) for k in (1, 0))
    if n_people < 2:
        return None
    off = np.where(there, values - values[there].mean(), 0.0) / n
    people = (off.sum(axis=0) ** 2).sum() * n_people / (n_people - 1)
    if n_seeds < 2:
        return math.sqrt(people)
    seeds = (off.sum(axis=1) ** 2).sum() * n_seeds / (n_seeds - 1)
    return math.sqrt(people + max(0.0, seeds - (off**2).sum()))


def sweep_receipts(sweep: Sweep, scores: Predictions) -> tuple[ReceiptIndex, Float32Array]:
    """An index without digests, and (setting, seed, record) what ``fold`` kept of private models.

    NaN where a model was not trained on a record.
    """
    assert scores.receipts is not None
    n_train = int(scores.member[0].sum())
    private = [k for k, budget in enumerate(scores.budgets) if budget.epsilon != NO_DP]
    index = ReceiptIndex(
        dataset=sweep.dataset.name,
        data_digest=sweep.dataset.published_digest(sweep.secret),
        mode=str(sweep.config.receipts),  # type: ignore[arg-type]  # one of the three
        accountant=ACCOUNTANT,
        dp_delta=sweep.config.dp_delta,
        clip_norm=sweep.config.clip_norm,
        standardised=sweep.config.standardise,
        has_models_without_privacy=len(private) < len(scores.budgets),
        settings=[
            ReceiptSetting(
                epsilon=budget.epsilon,
                epsilon_by_accountant=dict(budget.epsilon_by_accountant),
                noise_multiplier=budget.noise_multiplier,
                ladder=terms_of(budget, n_train, sweep.config).ladder.tolist(),
            )
            for budget in (scores.budgets[k] for k in private)
        ],
        seeds=list(scores.seeds),
        record_ids=sweep.dataset.record_ids.tolist(),
    )
    kept = np.array([placed(scores.receipts[k], scores.member) for k in private], np.float32)
    return index, kept.reshape(len(private), *scores.member.shape)


def write_receipts(folder: Path, index: ReceiptIndex, kept: Float32Array) -> None:
    """The array first, then the index that makes it count; both whole, for their owner only."""
    make_private(folder)
    digest = save_array(folder / ARRAY, kept)
    record = index.model_copy(update={"array_sha256": digest}).model_dump(exclude={"sha256"})
    write_files({folder / INDEX: canonical_json(sealed(record))}, private=True)


def read_receipts(folder: Path) -> tuple[ReceiptIndex, Float32Array]:
    """The index and the array; InputError where there are none, or not as they were written."""
    path, array = folder / INDEX, folder / ARRAY
    data = read_json(path, max_bytes=None)
    require_format(data, file=str(path), name=FORMAT, version=VERSION)
    index = parse_record(ReceiptIndex, data, file=str(path))
    if not is_sealed(data) or not array.exists() or file_digest(array) != index.array_sha256:
        raise InputError(f"{folder} is not as it was written; {ANEW}.")
    return index, np.load(array, mmap_mode="r", allow_pickle=False)


def has_receipts(folder: Path, sweep: Sweep) -> bool:
    """Whether a folder holds the receipts of these models; nothing but the index is read."""
    try:
        index = parse_record(ReceiptIndex, read_json(folder / INDEX, max_bytes=None), file="")
    except InputError:
        return False
    digest, mode = sweep.dataset.published_digest(sweep.secret), str(sweep.config.receipts)
    is_same = (index.data_digest, index.mode, index.seeds) == (digest, mode, list(sweep.seeds))
    epsilons = {setting.epsilon for setting in index.settings}
    return is_same and epsilons == {*sweep.budgets} - {NO_DP} and (folder / ARRAY).exists()


def find_receipts(folder: Path) -> Path:
    """The only receipts in a folder, which may be their own; InputError where there are others."""
    if (folder / INDEX).exists():
        return folder
    found = sorted(path.parent for path in folder.glob(f"*.receipts/{INDEX}"))
    if not found:
        raise InputError(f"{folder} holds no receipts; train with receipts 'held' to have them.")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(f"{folder} holds receipts of several sweeps; name one of: {names}.")
    return found[0]


def person_receipts(folder: Path, record: str) -> tuple[ReceiptIndex, Sequence[SettingReceipts]]:
    """What one record spent, for every budget.

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
    own = np.array(kept[:, :, ids.index(record)])
    rows = []
    for setting, values in zip(index.settings, own, strict=True):
        pair = unfolded(values[~np.isnan(values)], np.array(setting.ladder))
        rows.append(SettingReceipts(setting, *pair))
    return index, rows


def right_guesses(epsilon: float, dp_delta: float) -> float:
    """Share of right guesses, at even odds, that (epsilon, delta) allows anybody who sees all.

    True and false positive rates satisfy TPR <= e^epsilon FPR + delta, and so do the negative
    ones; the best sum of both is reached where the two lines meet.

    >>> right_guesses(0.0, 0.0), round(right_guesses(1.0, 1e-5), 4)
    (0.5, 0.7311)
    """
    share = 0.5 * (1 + math.tanh(epsilon / 2)) + dp_delta / (1 + math.exp(min(epsilon, 700.0)))
    return min(1.0, share)
