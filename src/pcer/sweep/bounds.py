"""From what is kept of every record to what the people of a group spent: the bounds of a release.

Statistics of two numbers (``pcer.train.receipts``): the receipt, which is a bound, and the realised
epsilon, which papers print and which bounds nothing. They are exact, so they are a release of
training records outside the training epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pcer.data import ProtectedAttribute
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.format import Bound
from pcer.train import Budget, TrainConfig
from pcer.train.receipts import Terms, allowed_advantage, mu_of

KeptArray: TypeAlias = npt.NDArray[np.float32]
"""What ``pcer.train.fold`` keeps of records."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ACCOUNTANT = "rdp"
"""Of all numbers here: Renyi divergences, which carry the proof of a receipt."""
REALISED, RECEIPT = "realised", "receipt"
EXACT_NOTE = (
    "bounds hold exact statistics of what training records spent, outside the training epsilon; "
    "docs/receipts.md says what noise they would need."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SpentPrivacy:
    """What the people of one setting spent.

    Attributes:
        epsilon: as promised.
        mode: where the norms of gradients come from.
        nominal: the promise by the accountant of the receipts.
        dp_delta: of every epsilon here.
        by_kind: for both kinds (seed, record) epsilons; NaN where a model was not trained on them.
    """

    epsilon: float
    mode: str
    nominal: float
    dp_delta: float
    by_kind: Mapping[str, FloatArray]


def spent_privacy(
    kept: KeptArray,
    member: BoolArray,
    terms: Terms,
    *,
    epsilon: float,
    mode: str,
) -> SpentPrivacy:
    """What ``fold`` kept of a setting's models, as numbers in their places.

    Args:
        kept: (seed, training record), in the order of the data.
        member: (seed, record).
        terms: that it was folded by.
        epsilon: as promised.
        mode: where the norms of gradients come from.
    """
    whole = placed(kept, member)
    return SpentPrivacy(
        epsilon=epsilon,
        mode=mode,
        nominal=terms.nominal,
        dp_delta=terms.dp_delta,
        by_kind={RECEIPT: terms.receipt(whole), REALISED: terms.realised(whole)},
    )


def settings_spent(
    receipts: KeptArray,
    member: BoolArray,
    budgets: Sequence[Budget],
    config: TrainConfig,
) -> list[SpentPrivacy]:
    """For every private budget what its people spent.

    Args:
        receipts: (budget, seed, training record) as ``fold`` keeps them.
        member: (seed, record).
        budgets: along the first axis.
        config: how the models were trained.
    """
    return [
        spent_privacy(
            receipts[index],
            member,
            terms_of(budget, int(member[0].sum()), config),
            epsilon=budget.epsilon,
            mode=str(config.receipts),
        )
        for index, budget in enumerate(budgets)
        if not math.isinf(budget.epsilon)
    ]


def terms_of(budget: Budget, n_train: int, config: TrainConfig) -> Terms:
    """What is settled before training about every record."""
    sampling = config.sampling(n_train)
    return Terms(budget.noise_multiplier, sampling.sample_rate, sampling.n_steps, config.dp_delta)


def placed(kept: KeptArray, member: BoolArray) -> KeptArray:
    """(seed, record) from (seed, training record); NaN where a record was not trained on."""
    whole = np.full(member.shape, np.nan, dtype=np.float32)
    whole[member] = kept.ravel()
    return whole


def bounds_of(spent: SpentPrivacy, attribute: ProtectedAttribute, labels: IntArray) -> list[Bound]:
    """Rows of both kinds for every group, over all its people and by label."""
    return [
        _bound(spent, kind, values[:, chosen], group=name, label=label)
        for kind, values in spent.by_kind.items()
        for name, label, chosen in _parts(attribute, labels)
        if not np.isnan(values[:, chosen]).all()
    ]


def _parts(
    attribute: ProtectedAttribute, labels: IntArray
) -> Iterator[tuple[str, int | None, BoolArray]]:
    """Every group whole, then by label."""
    for code, name in enumerate(attribute.group_names):
        inside = attribute.codes == code
        yield name, None, inside
        for label in (0, 1):
            yield name, label, inside & (labels == label)


def _bound(
    spent: SpentPrivacy, kind: str, values: FloatArray, *, group: str, label: int | None
) -> Bound:
    there = values[~np.isnan(values)]
    shares = np.quantile(there, QUANTILES, method="inverted_cdf")  # levels stay levels
    return Bound.model_validate(
        {
            "epsilon": spent.epsilon,
            "group": group,
            "label": label,
            "kind": kind,
            "mode": spent.mode,
            "accountant": ACCOUNTANT,
            "mean": float(there.mean()),
            "standard_error": two_way_error(values),
            "quantiles": {f"{q:g}": float(v) for q, v in zip(QUANTILES, shares, strict=True)},
            "n_records": int((~np.isnan(values)).any(axis=0).sum()),
            "nominal": spent.nominal,
            "allowed_advantage": _allowed(spent, values) if kind == REALISED else None,
            "exact": True,
        }
    )


def _allowed(spent: SpentPrivacy, values: FloatArray) -> float:
    """Mean over models: an attack is on one of them."""
    mu = mu_of(values, dp_delta=spent.dp_delta)
    models = [one[~np.isnan(one)] for one in mu]
    return float(np.mean([allowed_advantage(one) for one in models if len(one)]))


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
