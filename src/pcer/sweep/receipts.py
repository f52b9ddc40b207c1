"""How much privacy did the training spend, of each group and of each person?

``group_bounds`` makes rows of a release (``releases``); ``sweep_receipts`` and
``write_receipts`` the folder ``NAME.receipts`` beside it (``run``), which
``person_receipts`` reads (``pcer receipt``). Both hold the receipt, which is a bound,
and the realised epsilon, which papers print and which is no bound. Those in a release
are exact statistics of training records, outside the training epsilon; the folder is
about persons: only its owner can read it, and nothing in it is for publication. To add
a number for one person: a field of ``SettingReceipts``.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

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
from pcer.release.population import Attribute
from pcer.release.records import Bound
from pcer.store.blocks import file_digest, is_sealed, make_private, save_array, sealed
from pcer.sweep.sweep import Sweep
from pcer.train import Budget, Predictions, TrainConfig
from pcer.train.accounting import promised
from pcer.train.fleet import Float32Array
from pcer.train.receipts import Terms, allowed_advantage, mu_of, unfolded

FORMAT: Literal["pcer-receipts"] = "pcer-receipts"
VERSION: Literal[1] = 1
INDEX = "receipts.json"
ARRAY = "receipts.npy"
ANEW = "train again to make them again"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# All numbers here use Renyi divergences, on which the proof of a receipt rests.
ACCOUNTANT = "rdp"
EXACT_NOTE = (
    "bounds hold exact statistics of what training records spent, outside the "
    "training epsilon; docs/training.md says what noise they would need."
)


class ReceiptSetting(Record):
    """The models of one privacy budget."""

    model: str | None = None  # their configuration, where there are several
    epsilon: float  # as promised
    epsilon_by_accountant: dict[str, float]
    noise_multiplier: float
    # Epsilons of the ladder's rungs; the promise by the same accountant last.
    ladder: list[float]
    # By record, where a rule promises groups different ones.
    promises: list[float] | None = None


class ReceiptIndex(Record):
    """What the array of receipts holds, (setting, seed, record)."""

    format: Literal["pcer-receipts"] = FORMAT
    version: Literal[1] = VERSION
    dataset: str
    data_digest: str  # keyed where the records are private
    # Where the norms of gradients come from.
    mode: Literal["exact", "refreshed", "held"]
    accountant: str  # of every ladder
    dp_delta: float
    clip_norm: float | None = None  # None where models differ in it
    # Whether features were scaled by statistics of the training records.
    standardised: bool
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


class PrivateModels(NamedTuple):
    """The models of one configuration that were trained at one privacy budget."""

    name: str | None  # of the configuration, where there are several
    config: TrainConfig
    budget: Budget
    terms: Terms  # promise and levels of every record
    n_train: int
    # Clip bound and sample rate of each record; see the rules.
    shares: FloatArray | None
    receipts: Float32Array | None  # (seed, record) as kept; None if not counted

    def promises(self, accountant: str) -> FloatArray | None:
        """(record,) epsilons, where a rule promises groups different ones."""
        return promised(
            self.budget,
            self.shares,
            n_train=self.n_train,
            config=self.config,
            by=accountant,
        )


class Part(NamedTuple):
    """Records that one row of a release is about."""

    group: str
    label: int | None  # None for everybody of the group
    records: BoolArray  # (record,) whether each is among them


def group_bounds(
    sweep: Sweep, scores: Predictions, attribute: Attribute, model: str | None = None
) -> list[Bound]:
    """Rows of every private budget of one configuration, for a release.

    The promise to each group, where a rule promises groups different ones; and what
    each group spent, over its people and by label, where receipts were counted.
    """
    parts = []
    for code, group in enumerate(attribute.groups):
        is_in_group = attribute.codes == code
        parts.append(Part(group, None, is_in_group))
        for label in (0, 1):
            has_label = sweep.dataset.labels == label
            parts.append(Part(group, label, is_in_group & has_label))
    rows: list[Bound] = []
    for models in private_models(sweep, scores, model):
        rows += _promise_rows(models, parts)
        if models.receipts is not None:
            rows += _spent_rows(models, models.receipts, parts)
    return rows


def private_models(
    sweep: Sweep, scores: Predictions, name: str | None
) -> Iterator[PrivateModels]:
    """The private budgets of one configuration, one at a time."""
    config = sweep.configurations[name].config
    n_train = int(scores.member[0].sum())
    shares = config.training_rule.shares(sweep.groups)
    for budget_index, budget in enumerate(scores.budgets):
        if budget.epsilon == NO_DP:
            continue
        receipts = None
        if scores.receipts is not None:
            receipts = placed(scores.receipts[budget_index], scores.member)
        terms = terms_of(budget, n_train, config)
        yield PrivateModels(name, config, budget, terms, n_train, shares, receipts)


def _promise_rows(models: PrivateModels, parts: Sequence[Part]) -> list[Bound]:
    accountant = str(models.config.accountant)
    promises = models.promises(accountant)
    if promises is None:
        return []
    rows = []
    for part in parts:
        if part.label is not None or not part.records.any():
            continue
        row = Bound(
            model=models.name,
            epsilon=models.budget.epsilon,
            group=part.group,
            kind="promise",
            mode="exact",
            accountant=accountant,
            mean=promises[part.records].max(),
            nominal=models.budget.epsilon_by_accountant[accountant],
        )
        rows.append(row)
    return rows


def _spent_rows(
    models: PrivateModels, receipts: Float32Array, parts: Sequence[Part]
) -> list[Bound]:
    terms = models.terms
    promises = models.promises(ACCOUNTANT)
    if promises is None:
        promises = np.full(receipts.shape[1], terms.nominal)
    realised, receipt = unfolded(receipts, terms.ladder)
    kinds = {
        "receipt": np.minimum(receipt, promises),
        "realised": np.minimum(realised, promises),
    }
    rows = []
    for kind, epsilons in kinds.items():
        for part in parts:
            values = epsilons[:, part.records]
            if np.isnan(values).all():
                continue
            row = {
                "model": models.name,
                "epsilon": models.budget.epsilon,
                "group": part.group,
                "label": part.label,
                "kind": kind,
                "mode": str(models.config.receipts),
                "nominal": float(promises[part.records].max()),
                **_statistics(values, terms, kind),
            }
            rows.append(Bound.model_validate(row))
    return rows


def _statistics(values: FloatArray, terms: Terms, kind: str) -> dict[str, object]:
    """The numbers of one row, from (seed, record) epsilons; NaN: not trained on."""
    is_known = ~np.isnan(values)
    known = values[is_known]
    levels = np.quantile(known, QUANTILES, method="inverted_cdf")  # levels stay levels
    quantiles = {}
    for share, level in zip(QUANTILES, levels, strict=True):
        quantiles[f"{share:g}"] = float(level)
    allowed = None
    if kind == "realised":  # a mean over models, since an attack is on one of them
        advantages = []
        for model in mu_of(values, dp_delta=terms.dp_delta):
            mu = model[~np.isnan(model)]
            if len(mu):
                advantages.append(allowed_advantage(mu))
        allowed = float(np.mean(advantages))
    return {
        "accountant": ACCOUNTANT,
        "mean": float(known.mean()),
        "standard_error": two_way_error(values),
        "quantiles": quantiles,
        "n_records": int(is_known.any(axis=0).sum()),
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
    """(seed, record) from (seed, training record); NaN: not trained on."""
    whole = np.full(member.shape, np.nan, dtype=np.float32)
    whole[member] = kept.ravel()
    return whole


def two_way_error(values: FloatArray) -> float | None:
    """Standard error of the mean of values x of (seed, record); None for one person.

    Two-way clusters (Cameron, Gelbach and Miller 2011), as a person is in several
    models and a model is about many people. Of n known values, of S seeds and P people,
    with deviations d = (x - mean) / n:

        people = P / (P - 1) * sum over people of (sum over their seeds of d)^2
        seeds  = S / (S - 1) * sum over seeds of (sum over their people of d)^2
        error  = sqrt(people + max(0, seeds - sum of d^2))

    The error is never less than the part of people.
    """
    is_known = ~np.isnan(values)
    n = int(is_known.sum())
    n_seeds = int(is_known.any(axis=1).sum())
    n_people = int(is_known.any(axis=0).sum())
    if n_people < 2:
        return None
    d = np.where(is_known, values - values[is_known].mean(), 0.0) / n
    people = (d.sum(axis=0) ** 2).sum() * n_people / (n_people - 1)
    if n_seeds < 2:
        return math.sqrt(people)
    seeds = (d.sum(axis=1) ** 2).sum() * n_seeds / (n_seeds - 1)
    return math.sqrt(people + max(0.0, seeds - (d**2).sum()))


def sweep_receipts(
    sweep: Sweep, scores: Mapping[str | None, Predictions]
) -> tuple[ReceiptIndex, Float32Array]:
    """An index without digests, and (setting, seed, record) receipts as kept."""
    settings: list[ReceiptSetting] = []
    kept: list[Float32Array] = []
    for name, predictions in scores.items():
        for models in private_models(sweep, predictions, name):
            assert models.receipts is not None
            kept.append(models.receipts)
            promises = models.promises(ACCOUNTANT)
            setting = ReceiptSetting(
                model=name,
                epsilon=models.budget.epsilon,
                epsilon_by_accountant=dict(models.budget.epsilon_by_accountant),
                noise_multiplier=models.budget.noise_multiplier,
                ladder=models.terms.ladder.tolist(),
                promises=None if promises is None else promises.tolist(),
            )
            settings.append(setting)
    dataset = sweep.dataset
    clips = {own.config.clip_norm for own in sweep.configurations.values()}
    index = ReceiptIndex(
        dataset=dataset.name,
        data_digest=sweep.data_digest,
        mode=str(sweep.config.receipts),  # type: ignore[arg-type]  # one of the three
        accountant=ACCOUNTANT,
        dp_delta=sweep.config.dp_delta,
        clip_norm=clips.pop() if len(clips) == 1 else None,
        standardised=sweep.config.standardise,
        has_models_without_privacy=NO_DP in sweep.budgets,
        settings=settings,
        seeds=list(sweep.seeds),
        record_ids=dataset.record_ids.tolist(),
    )
    shape = (len(kept), len(sweep.seeds), dataset.n_records)
    return index, np.array(kept, np.float32).reshape(shape)


def write_receipts(folder: Path, index: ReceiptIndex, kept: Float32Array) -> None:
    """Write receipts for their owner only: whole, or not at all if killed."""
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
    is_whole = is_sealed(data) and array.exists()
    if not is_whole or file_digest(array) != index.array_sha256:
        raise InputError(f"{folder} is not as it was written; {ANEW}.")
    return index, np.load(array, mmap_mode="r", allow_pickle=False)


def has_receipts(folder: Path, sweep: Sweep) -> bool:
    """Whether a folder holds the receipts of these models; reads only the index."""
    try:
        data = read_json(folder / INDEX, max_bytes=None)
        index = parse_record(ReceiptIndex, data, file="")
    except InputError:
        return False
    if (
        index.data_digest != sweep.data_digest
        or index.mode != str(sweep.config.receipts)
        or index.seeds != list(sweep.seeds)
    ):
        return False
    kept = {(setting.model, setting.epsilon) for setting in index.settings}
    wanted = set[tuple[str | None, float]]()
    for name, configuration in sweep.configurations.items():
        wanted |= {(name, e) for e in configuration.budgets if e != NO_DP}
    return kept == wanted and (folder / ARRAY).exists()


def find_receipts(folder: Path) -> Path:
    """The receipts in a folder, or the folder itself."""
    if (folder / INDEX).exists():
        return folder
    folders = sorted(path.parent for path in folder.glob(f"*.receipts/{INDEX}"))
    if not folders:
        raise InputError(
            f"{folder} holds no receipts; train with receipts 'held' to have them."
        )
    if len(folders) > 1:
        names = ", ".join(path.name for path in folders)
        raise InputError(
            f"{folder} holds receipts of several sweeps; name one of: {names}."
        )
    return folders[0]


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
    record_ids = [str(record_id) for record_id in index.record_ids]
    if record not in record_ids:
        raise InputError(
            f"{folder} has no receipt of a record {record!r}; give the id that the "
            f"dataset {index.dataset!r} has for it."
        )
    place = record_ids.index(record)
    rows = []
    for setting, receipts in zip(index.settings, kept, strict=True):
        rows.append(_setting_receipts(setting, np.array(receipts[:, place]), place))
    return index, rows


def _setting_receipts(
    setting: ReceiptSetting, receipts: Float32Array, place: int
) -> SettingReceipts:
    """What the record at a position spent, from its (seed,) receipts as kept."""
    promise = setting.ladder[-1]
    if setting.promises is not None:
        promise = setting.promises[place]
    levels = np.minimum(setting.ladder, promise)
    realised, receipt = unfolded(receipts[~np.isnan(receipts)], levels)
    return SettingReceipts(setting, realised, receipt, promise)


def right_guesses(epsilon: float, dp_delta: float) -> float:
    """Largest share of right guesses that (epsilon, delta) allows, at even odds.

    Definition: TPR <= e^epsilon FPR + delta, and so for the negative rates. The mean of
    TPR and TNR is largest where both lines meet:

        (1 + tanh(epsilon / 2)) / 2 + delta / (1 + e^epsilon), and at most 1

    >>> right_guesses(0.0, 0.0), round(right_guesses(1.0, 1e-5), 4)
    (0.5, 0.7311)
    """
    without_delta = 0.5 * (1 + math.tanh(epsilon / 2))
    of_delta = dp_delta / (1 + math.exp(min(epsilon, 700.0)))  # beyond 700: overflow
    return min(1.0, without_delta + of_delta)
