"""How do attacks score records, to rank those that a model was trained on?

``attack.attack_models`` runs every row of ATTACKS: it takes the row's scores for all
models of a setting, ranks the records of each group within each model, and calls the
row's statistic with the ranks. Paired attacks compare models instead of ranking
records, and are in ``attack``.

To add an attack: a row in ``release/attack_kinds`` (its name, its scale, what it
needs), and a row of ATTACKS. Its scores may be of any float type; they are ranked as
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pcer.attacks import lira, single
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind

# Records whose models are compared at a time: memory does not grow with their number.
BLOCK = 2048


@dataclass(frozen=True, kw_only=True, eq=False)
class SettingScores:
    """Scores of every record by all models of one setting, checked once.

    Attributes:
        logits: (seed, record) log odds of label 1, which is predicted from 0 on.
        labels: (record,) 0 or 1.
        member: (seed, record) whether the seed's model was trained on the record.
        group: (record,) position in ``group_names``; -1 where the group is not known.
        group_names: the groups, in the order of the release.
        predicted: (seed, record) whether label 1 is predicted, where that does not
            follow from the log odds.
        reference: (seed, record) log odds of the true label minus those of reference
            models that never saw the record; None where there are none.
        from_probabilities: whether the log odds are ``log_odds`` of probabilities, some
            of which may be exactly 0 or 1: LiRA cuts those, and never log odds that
            models give directly.
        has_probabilities: whether the log odds mean anything beyond their sign; if not,
            only the paired gap can be measured.
        epsilon: the setting's budget; infinite without differential privacy.
        model: the model's name; None where there is only one.
    """

    logits: npt.NDArray[np.floating[Any]]
    labels: IntArray
    member: BoolArray
    group: IntArray
    group_names: tuple[str, ...]
    predicted: BoolArray | None = None
    reference: FloatArray | None = None
    from_probabilities: bool = False
    has_probabilities: bool = True
    epsilon: float = math.inf
    model: str | None = None

    def __post_init__(self) -> None:
        shape = self.logits.shape
        n = self.labels.size
        if self.logits.ndim != 2 or shape[1] != n or self.member.shape != shape:
            raise ValueError(
                "logits and member must both be (seed, record) over the "
                f"{n} records of labels, but their shapes are {shape} and "
                f"{self.member.shape}; transpose or select them."
            )
        self._require_codes()
        if not np.isfinite(self.logits).all():
            raise ValueError(
                "logits must be finite; a probability of exactly 0 or 1 has no log "
                "odds."
            )
        if self.member.dtype != np.bool_:
            raise ValueError("member must be boolean; convert it with member == 1.")
        beyond = np.zeros(shape) if self.reference is None else self.reference
        if beyond.shape != shape or not np.isfinite(beyond).all():
            raise ValueError(
                "reference must be finite and (seed, record), as logits are."
            )
        if self.answers.shape != shape or self.answers.dtype != np.bool_:
            raise ValueError(
                "predicted must be boolean and (seed, record), as member is."
            )

    def _require_codes(self) -> None:
        n_groups = len(self.group_names)
        has_all = self.group.shape == (self.labels.size,)
        if not has_all or self.group.max(initial=-1) >= n_groups:
            raise ValueError(
                "group must hold a position in group_names, or -1, for each record."
            )
        if not np.isin(self.labels, (0, 1)).all():
            raise ValueError(
                "labels must be 0 and 1; compare them with the positive label first."
            )

    @property
    def answers(self) -> BoolArray:
        """(seed, record) whether label 1 is predicted."""
        if self.predicted is not None:
            return self.predicted
        return np.asarray(self.logits >= 0)

    @cached_property
    def split(self) -> IntArray:
        """(seed,) the same number for models that were trained on the same records."""
        codes: dict[bytes, int] = {}
        of_models = []
        for member in self.member:
            of_models.append(codes.setdefault(member.tobytes(), len(codes)))
        return np.array(of_models)

    @property
    def n_splits(self) -> int:
        """Number of distinct splits."""
        return int(self.split.max(initial=-1)) + 1

    @property
    def released_epsilon(self) -> float | None:
        """The epsilon as a release writes it: None without differential privacy."""
        return None if math.isinf(self.epsilon) else self.epsilon


Scores = Callable[[SettingScores], FloatArray | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scorer:
    """How one attack scores records, and what it makes of their ranks.

    Attributes:
        kind: its row in ``release/attack_kinds``.
        scores: (model, record) scores of one setting, higher where a record seems a
            member, NaN where it cannot be scored; None where the setting does not allow
            the attack. Attacks with the same function share its scores and ranks.
        statistic: the attack's result from one model's ranks of one group, and from the
            (record,) scores of everybody. A result with each record's influence
            (``parts``) is also averaged over the models.
        scored: (record,) whom every model can score; None: those who are never NaN.
        is_error_at_least_chance: whether the error of one model's result is at least
            that of an AUC at chance.
    """

    kind: AttackKind
    scores: Scores
    statistic: single.Attack
    scored: Callable[[SettingScores], BoolArray] | None = None
    is_error_at_least_chance: bool = False


def scorers_by_scores(setting: SettingScores) -> list[tuple[Scores, list[Scorer]]]:
    """The attacks that a setting may allow: those that share their scores together."""
    if not setting.has_probabilities:
        return []
    shared: dict[Scores, list[Scorer]] = {}
    for scorer in ATTACKS:
        if setting.n_splits >= scorer.kind.least_models:
            shared.setdefault(scorer.scores, []).append(scorer)
    return list(shared.items())


def record_blocks(n_records: int) -> Iterator[slice]:
    """Blocks of records, one after the other."""
    for first in range(0, n_records, BLOCK):
        yield slice(first, first + BLOCK)


def true_label_logits(setting: SettingScores) -> FloatArray:
    """Log odds that each model gives the true label."""
    return single.true_label_logit(setting.logits, setting.labels)


def beyond_references(setting: SettingScores) -> FloatArray | None:
    """Log odds of the true label beyond those of models that never saw the record."""
    return setting.reference


def lira_scores(setting: SettingScores) -> FloatArray:
    """LiRA's likelihood ratios; NaN for a model whose others reveal who was out."""
    standing, difference = np.empty((2, *setting.member.shape))
    for block, logit in _cut_logits(setting):
        others = lira.other_models(logit, setting.member[:, block], setting.split)
        standing[:, block], difference[:, block] = lira.ratio_parts(logit, others)

    n_in = lira.of_others(setting.member, setting.split)
    n_out = lira.of_others(~setting.member, setting.split)
    scores: FloatArray = np.empty(standing.shape)
    for target, member in enumerate(setting.member):
        has_both = (n_in[target] > 0) & (n_out[target] > 0)
        if has_both[member].any() and has_both[~member].any():
            scores[target] = lira.shrunk_ratio(
                standing[target], difference[target], n_in[target], n_out[target]
            )
        else:  # folds: the other models reveal who was out
            scores[target] = np.nan
    return scores


def lira_scored(setting: SettingScores) -> BoolArray:
    """(record,) whether every target has other models with it in, and with it out."""
    first_of_split = np.unique(setting.split, return_index=True)[1]
    n_in = setting.member[first_of_split].sum(axis=0)
    return np.asarray((n_in > 1) & (n_in < setting.n_splits - 1))


def offline_lira_scores(setting: SettingScores) -> FloatArray:
    """Distances from the other models without the record."""
    scores = np.empty(setting.member.shape)
    for block, logit in _cut_logits(setting):
        others = lira.other_models(logit, setting.member[:, block], setting.split)
        scores[:, block] = lira.offline_ratio(logit, others)
    return scores


def rmia_scores(setting: SettingScores) -> FloatArray:
    """Probabilities of the true label over the average of the other models."""
    scores = np.empty(setting.member.shape)
    for block in record_blocks(len(setting.labels)):
        confidence = true_label_confidence(setting, block)
        others = lira.other_models(confidence, setting.member[:, block], setting.split)
        scores[:, block] = lira.rmia_ratio(confidence, others)
    return scores


def true_label_confidence(setting: SettingScores, block: slice) -> FloatArray:
    """(model, record) probabilities of the true label, for a block of records."""
    logit = single.true_label_logit(setting.logits[:, block], setting.labels[block])
    return single.confidence_of(logit)


def _cut_logits(setting: SettingScores) -> Iterator[tuple[slice, FloatArray]]:
    """By block of records, log odds of the true label, cut where LiRA cuts them."""
    largest = math.inf
    if setting.from_probabilities:
        largest = lira.largest_log_odds(setting.logits)
    for block in record_blocks(len(setting.labels)):
        logit = single.true_label_logit(setting.logits[:, block], setting.labels[block])
        is_cut = math.isfinite(largest)
        yield block, np.clip(logit, -largest, largest) if is_cut else logit


ATTACKS: Final = (
    Scorer(
        kind=attack_kinds.THRESHOLD,
        scores=true_label_logits,
        statistic=single.loss_attack,
    ),
    Scorer(
        kind=attack_kinds.AUC_ADVANTAGE,
        scores=true_label_logits,
        statistic=single.auc_advantage,
    ),
    Scorer(
        kind=attack_kinds.TPR_AT_1_PERCENT,
        scores=true_label_logits,
        statistic=partial(single.tpr_excess, fpr=0.01),
    ),
    Scorer(
        kind=attack_kinds.TPR_AT_01_PERCENT,
        scores=true_label_logits,
        statistic=partial(single.tpr_excess, fpr=0.001),
    ),
    Scorer(
        kind=attack_kinds.REFERENCE,
        scores=beyond_references,
        statistic=single.reference_advantage,
        is_error_at_least_chance=True,
    ),
    Scorer(
        kind=attack_kinds.LIRA,
        scores=lira_scores,
        statistic=single.auc_advantage,
        scored=lira_scored,
    ),
    Scorer(
        kind=attack_kinds.LIRA_OFFLINE,
        scores=offline_lira_scores,
        statistic=single.auc_advantage,
    ),
    Scorer(
        kind=attack_kinds.RMIA,
        scores=rmia_scores,
        statistic=single.auc_advantage,
    ),
)
