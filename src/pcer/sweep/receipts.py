"""The private file of receipts: what every record spent in every model, for its person alone.

``NAME.receipts`` beside the releases of a sweep holds one array and an index. Both are about
persons, so only their owner can read them; nothing in them is for publication.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pcer.data import GroupedDataset
from pcer.errors import InputError, OutputError
from pcer.files import Record, canonical_json, parse_record, read_json, require_format, write_files
from pcer.metrics import FloatArray
from pcer.store import file_digest, is_sealed, save_array, sealed
from pcer.sweep.bounds import ACCOUNTANT, KeptArray, terms_of
from pcer.train import Budget, TrainConfig
from pcer.train.receipts import realised_of, receipt_of

FORMAT: Literal["pcer-receipts"] = "pcer-receipts"
VERSION: Literal[1] = 1
SUFFIX = ".receipts"
INDEX, ARRAY = "receipts.json", "receipts.npy"
OWNERS_ONLY = 0o700
ANEW = "train again, and they are made anew"
ASK = "train with receipts 'held' to have them"


class ReceiptSetting(Record):
    """The models of one privacy budget.

    Attributes:
        epsilon: as promised.
        epsilon_by_accountant: the promise, by each accountant that was asked.
        noise_multiplier: of the training.
        ladder: what the rungs of the receipts are worth; the promise by their accountant last.
    """

    epsilon: float
    epsilon_by_accountant: dict[str, float]
    noise_multiplier: float
    ladder: list[float]


class ReceiptIndex(Record):
    """What the array of receipts holds, (setting, seed, record).

    Attributes:
        format: of the file.
        version: of the format.
        dataset: what was trained on.
        data_digest: of it, keyed where the records are private.
        mode: where the norms of gradients come from.
        accountant: of every ladder.
        dp_delta: of every epsilon.
        clip_norm: largest norm that one record's gradient keeps.
        standardised: whether features were scaled by statistics of the training records.
        has_models_without_privacy: whether others were trained on the same people.
        settings: along the first axis.
        seeds: along the second.
        record_ids: along the third.
        array_sha256: digest of the array's file.
        sha256: digest of all this.
    """

    format: Literal["pcer-receipts"] = FORMAT
    version: Literal[1] = VERSION
    dataset: str
    data_digest: str
    mode: Literal["exact", "refreshed", "held"]
    accountant: str
    dp_delta: float
    clip_norm: float
    standardised: bool
    has_models_without_privacy: bool
    settings: list[ReceiptSetting]
    seeds: list[int]
    record_ids: list[int]
    array_sha256: str = ""
    sha256: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class SettingReceipts:
    """What one person spent in the models of one budget that were trained on them.

    Attributes:
        setting: the budget.
        realised: (model,) epsilons that describe.
        receipt: (model,) epsilons that bound.
    """

    setting: ReceiptSetting
    realised: FloatArray
    receipt: FloatArray

    @property
    def nominal(self) -> float:
        """The promise, by the accountant of the receipts."""
        return self.setting.ladder[-1]


def receipts_folder(folder: Path, name: str) -> Path:
    """Where the receipts of a sweep lie; ``name`` as in the names of its other files."""
    return folder / f"{name}{SUFFIX}"


def receipt_index(
    dataset: GroupedDataset,
    config: TrainConfig,
    *,
    data_digest: str,
    budgets: Sequence[Budget],
    seeds: Sequence[int],
    n_train: int,
) -> ReceiptIndex:
    """The index of a sweep's receipts, without digests."""
    private = [budget for budget in budgets if not math.isinf(budget.epsilon)]
    return ReceiptIndex(
        dataset=dataset.name,
        data_digest=data_digest,
        mode=str(config.receipts),  # type: ignore[arg-type]  # one of the three, which is checked
        accountant=ACCOUNTANT,
        dp_delta=config.dp_delta,
        clip_norm=config.clip_norm,
        standardised=config.standardise,
        has_models_without_privacy=len(private) < len(budgets),
        settings=[_setting(one, n_train, config) for one in private],
        seeds=list(seeds),
        record_ids=dataset.record_ids.tolist(),
    )


def _setting(budget: Budget, n_train: int, config: TrainConfig) -> ReceiptSetting:
    return ReceiptSetting(
        epsilon=budget.epsilon,
        epsilon_by_accountant=dict(budget.epsilon_by_accountant),
        noise_multiplier=budget.noise_multiplier,
        ladder=terms_of(budget, n_train, config).ladder.tolist(),
    )


def write_receipts(folder: Path, index: ReceiptIndex, kept: KeptArray) -> None:
    """The array first, then the index that makes it count; both whole, for their owner only.

    Args:
        folder: from ``receipts_folder``.
        index: without digests.
        kept: (setting, seed, record) as ``fold`` keeps it; NaN where a model was not trained on
            a record.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=OWNERS_ONLY)
        folder.chmod(OWNERS_ONLY)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made ({error.strerror}); choose a folder that you may write to."
        ) from None
    digest = save_array(folder / ARRAY, kept)
    told = index.model_copy(update={"array_sha256": digest}).model_dump(exclude={"sha256"})
    write_files({folder / INDEX: canonical_json(sealed(told))}, private=True)


def read_receipts(folder: Path) -> tuple[ReceiptIndex, KeptArray]:
    """The index and the array, as they were written.

    Raises:
        InputError: there are none, or they are not as they were written.
    """
    path, array = folder / INDEX, folder / ARRAY
    data = read_json(path, max_bytes=None)
    require_format(data, file=str(path), name=FORMAT, version=VERSION)
    index = parse_record(ReceiptIndex, data, file=str(path))
    if not is_sealed(data) or not array.exists() or file_digest(array) != index.array_sha256:
        raise InputError(f"{folder} is not as it was written; {ANEW}.")
    return index, np.load(array, mmap_mode="r", allow_pickle=False)


def has_receipts(
    folder: Path, *, data_digest: str, mode: str, epsilons: Collection[float], seeds: Sequence[int]
) -> bool:
    """Whether a folder holds the receipts of these models; nothing but the index is read."""
    try:
        found = parse_record(ReceiptIndex, read_json(folder / INDEX, max_bytes=None), file="")
    except InputError:
        return False
    same = (found.data_digest, found.mode, found.seeds) == (data_digest, mode, list(seeds))
    budgets = {setting.epsilon for setting in found.settings}
    return same and budgets == set(epsilons) and (folder / ARRAY).exists()


def find_receipts(folder: Path) -> Path:
    """The only receipts in a folder, which may be their own.

    Raises:
        InputError: there are none, or those of several sweeps.
    """
    if (folder / INDEX).exists():
        return folder
    found = sorted(path.parent for path in folder.glob(f"*{SUFFIX}/{INDEX}"))
    if not found:
        raise InputError(f"{folder} holds no receipts; {ASK}.")
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
    if record not in (ids := [str(one) for one in index.record_ids]):
        raise InputError(
            f"{folder} has no receipt of a record {record!r}; give the id that the dataset "
            f"{index.dataset!r} has for it."
        )
    own = np.array(kept[:, :, ids.index(record)])
    there = ~np.isnan(own)
    return index, [
        SettingReceipts(
            setting=setting,
            realised=realised_of(own[k][there[k]], np.array(setting.ladder)),
            receipt=receipt_of(own[k][there[k]], np.array(setting.ladder)),
        )
        for k, setting in enumerate(index.settings)
    ]


def right_guesses(epsilon: float, dp_delta: float) -> float:
    """Share of right guesses, at even odds, that (epsilon, delta) allows anybody who sees all.

    True and false positive rates satisfy TPR <= e^epsilon FPR + delta, and so do the negative
    ones; the best sum of both is reached where the two lines meet.

    >>> right_guesses(0.0, 0.0), round(right_guesses(1.0, 1e-5), 4)
    (0.5, 0.7311)
    """
    share = 0.5 * (1 + math.tanh(epsilon / 2)) + dp_delta / (1 + math.exp(min(epsilon, 700.0)))
    return min(1.0, share)
