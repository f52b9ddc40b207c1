"""How do attacks score records, to rank those that a model was trained on?

``attack.attack_models`` runs every row of ATTACKS, and a user's own attack: it takes
the row's scores for all models of a setting, ranks the records of each group within
each model, and calls the row's statistic with the ranks. LiRA and RMIA calibrate a
score by the setting's other models, never by the target itself, which would leak its
membership. No score depends on groups. Paired attacks do not rank: they are in
``attack``.

To add an attack: a row in ``release/attack_kinds`` (its name, its scale, what it
needs), and a row of ATTACKS. Its scores may be of any float type; they are ranked as
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks import single
from pcer.attacks.single import log_odds
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind, attack_kind

# Records whose models are compared at a time: memory does not grow with their number.
BLOCK = 2048
NO_SCORES: Final[Mapping[str, FloatArray]] = {}  # one object: views share it
# A sum of squares below this share of its terms is rounding, not spread.
ROUNDING = 1e-12
EQUAL = 1e-9  # relative distance of scores that count as equal
# Relative error of log odds that were kept in single precision.
SINGLE_PRECISION = 1e-6
TRIMMED = 0.05  # share of records trimmed at either end for the typical difference
DECIMALS = 6  # of a score; scores that differ by less share a rank
# Of distances from 0 or 1: twice the distance at which probabilities are cut.
CUT_QUANTILE = 0.01
CUT_WITHOUT = 0.02  # the same where every probability is 0 or 1


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
        own: (seed, record) scores of a user's own attacks by name, higher for likely
            members, NaN where there is none. One called as ours replaces it.
        of_tables: whether the log odds are signals of synthetic tables, ``predicted``
            what models that were trained on the tables predict: of paired attacks only
            own AUC is run, which sees no more than the order of a person's signals.
            Without probabilities there are no signals, and no attack.
        epsilon: the setting's budget; infinite without differential privacy.
        model: the model's name; None where there is only one.
        person: (record,) the same number for records of one person; None where a record
            is a person.
        traits: (record,) values of attributes by name, whose subgroups are searched.
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
    own: Mapping[str, FloatArray] = field(default_factory=lambda: NO_SCORES)
    of_tables: bool = False
    epsilon: float = math.inf
    model: str | None = None
    person: IntArray | None = None
    traits: Mapping[str, npt.NDArray[np.str_]] = field(default_factory=dict)

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
        beyond = self.logits if self.reference is None else self.reference
        if beyond.shape != shape or not np.isfinite(beyond).all():
            raise ValueError(
                "reference must be finite and (seed, record), as logits are."
            )
        if self.answers.shape != shape or self.answers.dtype != np.bool_:
            raise ValueError(
                "predicted must be boolean and (seed, record), as member is."
            )
        for name, scores in self.own.items():
            if scores.shape != shape:
                raise ValueError(f"{name} must be (seed, record), as logits are.")

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
    shared: dict[Scores, list[Scorer]] = {}
    for scorer in ATTACKS if setting.has_probabilities else ():
        is_possible = setting.n_splits >= scorer.kind.least_models
        if setting.of_tables and scorer.kind.scale is not attack_kinds.AUC:
            is_possible = False  # a signal has no scale that all people share
        if is_possible and scorer.kind.name not in setting.own:
            shared.setdefault(scorer.scores, []).append(scorer)
    for name in setting.own:
        scorer = _own_scorer(name)
        shared[scorer.scores] = [scorer]
    return list(shared.items())


def _own_scorer(name: str) -> Scorer:
    """A user's own attack, by the AUC of its scores."""
    return Scorer(
        kind=attack_kind(name),
        scores=lambda setting: setting.own[name],
        statistic=single.auc_advantage,
    )


def record_blocks(n_records: int) -> Iterator[slice]:
    """Blocks of records, one after the other."""
    for first in range(0, n_records, BLOCK):
        yield slice(first, first + BLOCK)


def true_label_logits(setting: SettingScores, block: slice = slice(None)) -> FloatArray:
    """Log odds that each model gives the true label, of all records or a block."""
    return single.true_label_logit(setting.logits[:, block], setting.labels[block])


def lira_scores(setting: SettingScores) -> FloatArray:
    """LiRA's likelihood ratios; NaN for a model whose others reveal who was out."""
    standing, difference = np.empty((2, *setting.member.shape))
    for block, logit in _cut_logits(setting):
        others = other_models(logit, setting.member[:, block], setting.split)
        standing[:, block], difference[:, block] = ratio_parts(logit, others)

    n_in = of_others(setting.member, setting.split, np.int32)
    n_out = of_others(~setting.member, setting.split, np.int32)
    scores = standing  # replaced target by target: one large array less
    for target, member in enumerate(setting.member):
        has_both = (n_in[target] > 0) & (n_out[target] > 0)
        if (has_both & member).any() and (has_both & ~member).any():
            scores[target] = shrunk_ratio(
                standing[target], difference[target], n_in[target], n_out[target]
            )
        else:  # folds: the other models reveal who was out
            scores[target] = np.nan
    return np.asarray(scores)


def lira_scored(setting: SettingScores) -> BoolArray:
    """(record,) whether every target has other models with it in, and with it out."""
    first_of_split = np.unique(setting.split, return_index=True)[1]
    n_in = setting.member[first_of_split].sum(axis=0)
    return np.asarray((n_in > 1) & (n_in < setting.n_splits - 1))


def offline_lira_scores(setting: SettingScores) -> FloatArray:
    """Distances from the other models without the record, see ``offline_ratio``."""
    scores = np.empty(setting.member.shape)
    for block, logit in _cut_logits(setting):
        others = other_models(logit, setting.member[:, block], setting.split)
        scores[:, block] = offline_ratio(logit, others)
    return scores


def rmia_scores(setting: SettingScores) -> FloatArray:
    """Probabilities of the true label over other models', see ``rmia_ratio``."""
    scores = np.empty(setting.member.shape)
    for block in record_blocks(len(setting.labels)):
        confidence = true_label_confidence(setting, block)
        others = other_models(confidence, setting.member[:, block], setting.split)
        scores[:, block] = rmia_ratio(confidence, others)
    return scores


def true_label_confidence(setting: SettingScores, block: slice) -> FloatArray:
    """(model, record) probabilities of the true label, for a block of records."""
    return single.confidence_of(true_label_logits(setting, block))


def _cut_logits(setting: SettingScores) -> Iterator[tuple[slice, FloatArray]]:
    """By block of records, log odds of the true label, cut where LiRA cuts them."""
    largest = math.inf
    if setting.from_probabilities:
        largest = largest_log_odds(setting.logits)
    for block in record_blocks(len(setting.labels)):
        logit = true_label_logits(setting, block)
        yield block, np.clip(logit, -largest, largest)


class Others(NamedTuple):
    """What the other models of a target score: arrays (target, record)."""

    n_in: FloatArray  # models that were trained on the record
    n_out: FloatArray  # the others
    mean_in: FloatArray
    mean_out: FloatArray
    squares_in: FloatArray  # sums of squared deviations from the mean
    squares_out: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation common to in and out; NaN where it is unknown or 0."""
        squares = self.squares_in + self.squares_out
        return np.sqrt(variance_of(squares, self.n_in + self.n_out - 1))


def rmia_ratio(confidence: FloatArray, others: Others) -> FloatArray:
    """RMIA's p / ((mean_in + mean_out)/2), where in and out weigh alike."""
    # Zarifzadeh et al. rank it among other records: within one model the AUC is equal.
    return quotient(confidence, (others.mean_in + others.mean_out) / 2)


def largest_log_odds(values: npt.NDArray[np.floating[Any]]) -> float:
    """Where LiRA cuts the log odds of one setting's probabilities.

    A large number in place of a 1's log odds would dominate a record's variance: all
    are cut to those of [h/2, 1 - h/2], with h the 1% quantile of distances from 0 or 1
    of those neither 0 nor 1. Infinite if none is 0 or 1.

    >>> round(largest_log_odds(log_odds(np.array([0.0, 0.5, 1.0]))), 6)
    1.098612
    """
    from scipy.special import expit

    size = np.abs(values)
    is_sure = size >= log_odds(np.ones(1)) * (1 - SINGLE_PRECISION)
    if not is_sure.any():
        return math.inf
    inner = expit(-size[~is_sure].astype(np.float64))
    h = np.quantile(inner, CUT_QUANTILE) if inner.size else CUT_WITHOUT
    return float(log_odds(np.asarray(1 - h / 2)))


def other_models(values: FloatArray, member: BoolArray, split: IntArray) -> Others:
    """Counts, means (NaN of nothing) and squared deviations, by models of other splits.

    Models of the target's own split resemble it where it had a record in: a leak.
    """
    centred = values - values[0]  # a shift per record: constant scores become exactly 0
    inside = _without_own(centred, member, split)
    outside = _without_own(centred, ~member, split)
    shift = values - centred
    return Others(
        n_in=inside.n,
        n_out=outside.n,
        mean_in=inside.mean + shift,
        mean_out=outside.mean + shift,
        squares_in=inside.squares,
        squares_out=outside.squares,
    )


def of_others(
    values: npt.NDArray[Any], split: IntArray, kind: type = np.float64
) -> npt.NDArray[Any]:
    """(model, record) sums over the models of other splits."""
    if len(np.unique(split)) == len(split):
        sums = values.sum(axis=0, dtype=None if kind == np.float64 else kind)
        return np.asarray(np.subtract(sums, values, dtype=kind))
    of_targets = [values[split != of_target].sum(axis=0) for of_target in split]
    return np.array(of_targets, dtype=kind)


class Side(NamedTuple):
    """What some other models of a target score: arrays (target, record)."""

    n: FloatArray
    mean: FloatArray
    squares: FloatArray


def _without_own(values: FloatArray, chosen: BoolArray, split: IntArray) -> Side:
    """The chosen models of other splits."""
    of_chosen = values * chosen
    n = of_others(chosen, split)
    mean = quotient(of_others(of_chosen, split), n)
    of_chosen *= of_chosen
    squares = of_others(of_chosen, split)
    rounding = ROUNDING * squares.max(axis=0)
    squares -= n * mean**2
    return Side(n, mean, np.where(squares > rounding, squares, 0.0))


class RatioParts(NamedTuple):
    """What a record's log likelihood ratio is made of: arrays (target, record)."""

    standing: FloatArray
    difference: FloatArray


def ratio_parts(values: FloatArray, others: Others) -> RatioParts:
    """The target's position, and the difference between in and out, both in deviations.

    With the other models' common deviation s, the difference is d = (mean_in -
    mean_out)/s, and the position z = (value - m)/s, where m is their overall mean. The
    difference is NaN where the others do not vary, or all had the record in, or all
    out. The position then is the score itself: infinite where in and out are two
    different constants, else 0.
    """
    n_in, n_out, mean_in, mean_out = others[:4]
    deviation = others.deviation
    apart = mean_in - mean_out
    difference = apart / deviation
    mean = (n_in * mean_in + n_out * mean_out) / (n_in + n_out)
    standing = (values - mean) / deviation
    certain = _certain(values, apart, others)
    return RatioParts(np.where(np.isnan(difference), certain, standing), difference)


def _certain(values: FloatArray, apart: FloatArray, others: Others) -> FloatArray:
    """The score if in and out are constants: infinite, above 0 on the side of in."""
    beyond = values - (others.mean_in + others.mean_out) / 2
    largest = np.abs(values) + np.abs(others.mean_in) + np.abs(others.mean_out)
    differs = np.minimum(np.abs(apart), np.abs(beyond)) > EQUAL * largest  # not of NaN
    return np.where(differs, np.copysign(np.inf, apart * beyond), 0.0)


def shrunk_ratio(
    standing: FloatArray,
    difference: FloatArray,
    n_in: npt.NDArray[Any],
    n_out: npt.NDArray[Any],
) -> FloatArray:
    """Log likelihood ratio over the typical difference of each target.

    With tens of models a record's difference is mostly noise, and the plain ratio
    spends its power on guessing its sign. The prior gives differences a mean and a
    spread equal to their typical size D over all records, noise removed. With z and d
    of ``ratio_parts``, the variance of noise v = 1/n_in + 1/n_out and the weight w = (D
    d + v)/(D^2 + v), the score is w (z - D w (1/2 - n_in/(n_in + n_out))). With many
    models the plain ratio remains.
    """
    noise = quotient(np.ones(1), n_in) + quotient(np.ones(1), n_out)
    # Over an estimated deviation a difference is Student's: its variance grows by this
    # factor.
    freedom = n_in + n_out - 2
    surplus = difference**2 - noise * (freedom / (freedom - 2))
    typical = [typical_difference(row) for row in np.atleast_2d(surplus)]
    size = np.reshape(typical, (*surplus.shape[:-1], 1))
    weight = (size * difference + noise) / (size**2 + noise)
    score = weight * (standing - size * weight * (0.5 - n_in / (n_in + n_out)))
    return np.where(np.isnan(difference), standing, score.round(DECIMALS))


def typical_difference(surplus: FloatArray) -> float:
    """Root of the mean surplus, trimmed by 5% at either end; 0 of nothing or less."""
    finite = surplus[np.isfinite(surplus)]
    n = len(finite)
    if not n:
        return 0.0
    n_cut = int(TRIMMED * n)
    middle = np.partition(finite, (n_cut, n - 1 - n_cut))[n_cut : n - n_cut]
    return math.sqrt(max(middle.mean(), 0.0))


def offline_ratio(values: FloatArray, others: Others) -> FloatArray:
    """(value - mean_out)/deviation_out; where these agree exactly, infinite or 0."""
    deviation = np.sqrt(variance_of(others.squares_out, others.n_out))
    beyond = values - others.mean_out
    score = np.asarray(beyond / deviation)
    do_agree = np.isnan(score) & (others.n_out > 1)
    differs = np.abs(beyond) > EQUAL * (np.abs(values) + np.abs(others.mean_out))
    certain = np.where(differs, np.copysign(np.inf, beyond), 0.0)
    return np.where(do_agree, certain, score)


def variance_of(squares: FloatArray, n: FloatArray) -> FloatArray:
    """squares/(n - 1); NaN without any, or without spread."""
    return quotient(squares, np.where(squares > 0, n - 1, 0))


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
        scores=attrgetter("reference"),
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
