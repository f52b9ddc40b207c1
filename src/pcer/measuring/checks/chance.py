"""Which declarations of a release would its counts contradict only by rare chance?

Each check takes the distinct ``Splits`` of a release and its share of ``LEVEL``, and
yields a ``Finding`` where chance has at most that probability if the declarations are
true; over groups and settings p-values are adjusted by Holm, or Bonferroni. ``CHECKS``
in the front of this room lists them and says how to add one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from pcer.measuring import hypergeometric
from pcer.measuring.checks.arrays import (
    LABELS,
    RECORD,
    CorrectRecords,
    Finding,
    Setting,
    Splits,
    finding,
    split_words,
)
from pcer.measuring.exact import PLAIN_MEAN, SMALLEST_P, dispersion
from pcer.measuring.exposure import measure_attacks
from pcer.measuring.hypergeometric import SplitCounts
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AUC_ADVANTAGE, GAP, LIRA, SPENT, attack_kind
from pcer.release.records import StratifiedBy
from pcer.statistics import holm, upper_p
from pcer.wording import listed

# Share of the plain attack's advantage that LiRA keeps even where eight models
# calibrate it badly.
LEAST_LIRA: Final = 0.5
# By scale, how many times (p - q) / 2 an attack's mean can be: an AUC once, a
# difference twice.
ADVANTAGES: Final = {
    attack_kinds.AUC: 1,
    attack_kinds.ACCURACY: 2,
    attack_kinds.PROBABILITY: 2,
}


# Splits that are alike


def repeated_splits(splits: Splits, level: float) -> Iterator[Finding]:
    """Different random splits rarely cut every group and label alike."""
    if not splits.repeats or splits.repeats_p > level:
        return
    names = list(splits.arrays.runs_by_split)
    n = len(splits.names)
    again, first = next(iter(splits.repeats.items()))
    yield finding(
        "repeated_splits",
        splits.repeats_p,
        names=len(names),
        n=n,
        s="s" if n > 1 else "",
        first=names[first],
        again=names[again],
    )


def repeated_tables(splits: Splits, level: float) -> Iterator[Finding]:
    """Different splits rarely give the same confusion tables, even if cut alike.

    A model that is the same in all splits has the most equal tables: given its right
    and wrong records, those in training are hypergeometric within each label and group.
    """
    if splits.repeats or not splits.measured:
        return
    chances = [_chance_of_tables(splits, correct) for correct in splits.measured]
    p_values = holm(np.array(chances))
    for setting in np.flatnonzero(p_values <= level):
        correct = splits.measured[setting]
        p = p_values[setting]
        repeats = hypergeometric.repeats(_right_and_wrong(correct))
        first_repeat = next(iter(repeats.items()))  # a split, and the earlier one
        alike = [split_words(correct.splits[k]) for k in reversed(first_repeat)]
        yield finding("repeated_tables", p, at=correct.setting, alike=listed(alike))


def _chance_of_tables(splits: Splits, correct: CorrectRecords) -> float:
    n_labels = len(correct.strata.total)
    variance_inflation = np.tile(splits.variance_inflation, n_labels)
    return hypergeometric.chance_of_repeats(
        _right_and_wrong(correct), "group", variance_inflation
    )


def _right_and_wrong(correct: CorrectRecords) -> SplitCounts:
    """Records of every split by cell (label and group), and by wrong and right."""

    def by_split(part: FloatArray) -> FloatArray:
        return np.moveaxis(part, 1, 0).reshape(part.shape[1], -1)

    strata = correct.strata
    total = by_split(strata.total)
    trained = by_split(strata.trained)
    right = by_split(strata.correct)
    hits = by_split(strata.hits)
    train = np.stack([trained - hits, hits], axis=2)
    return SplitCounts(train, np.stack([total - right, right], axis=2) - train)


# What splits are balanced on


def balance(splits: Splits, level: float) -> Iterator[Finding]:
    """Declared strata must be balanced, and others may not be so in every split.

    Units of several records cannot be balanced exactly, so they are not checked; nor
    are labels where records without a group, or without labels, may balance the others.
    """
    strata = splits.stratified_by
    if splits.arrays.release.training.unit_of_split not in (None, RECORD):
        return
    if strata == "nothing":
        yield from _undeclared_balance(splits, level)
        return
    if strata == "label" and not (splits.cuts.has_labels and _n_missing(splits) == 0):
        return
    missed, allowed = hypergeometric.misses(splits.cuts, strata)
    if not (missed > allowed).any():
        return
    farthest = int((missed - allowed).argmax())
    split, stratum = np.unravel_index(farthest, missed.shape)
    yield finding(
        "not_balanced",
        by="label and group" if strata == "both" else strata,
        split=split_words(splits.names[split]),
        stratum=_stratum_words(splits, int(stratum)),
        n=f"{missed[split, stratum]:,.0f}",
    )


def _n_missing(splits: Splits) -> int | None:
    subject = splits.arrays.release.subject
    sizes = splits.arrays.sizes
    if subject.n_missing_group is not None:
        return subject.n_missing_group
    if subject.n_records is None or sizes is None:
        return None
    return subject.n_records - int(sizes.total[0].sum())


def _undeclared_balance(splits: Splits, level: float) -> Iterator[Finding]:
    cuts = splits.cuts
    possible: list[StratifiedBy] = ["label", "group"] if cuts.has_labels else ["group"]
    p_values = dict[StratifiedBy, float]()
    for strata in possible:
        if hypergeometric.is_rounded(cuts, strata):
            chance = hypergeometric.chance_rounded(cuts, strata)
            p_values[strata] = min(1.0, len(possible) * chance)
    balanced = [strata for strata, p in p_values.items() if p <= level]
    if not balanced:
        return
    p = max(p_values[strata] for strata in balanced)
    is_denied = splits.arrays.release.training.stratified_by is not None
    yield finding(
        "balance_denied" if is_denied else "balance_unsaid",
        p,
        n=len(cuts.train),
        by=" and ".join(balanced),
        declare=balanced[0] if len(balanced) == 1 else "both",
        caps_verdict=is_denied,
    )


def _stratum_words(splits: Splits, stratum: int) -> str:
    if splits.stratified_by == "label":
        return f"the {LABELS[stratum]}"
    n_labels = splits.cuts.train.shape[2] if splits.stratified_by == "both" else 1
    group, label = divmod(stratum, n_labels)
    name = f"group {splits.arrays.groups[group]!r}"
    return name if n_labels == 1 else f"{name} with the {LABELS[label]}"


# Mixes of labels and groups


def label_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts have the same mix of labels in every group, but for luck."""
    strata = splits.stratified_by
    if splits.cuts.has_labels and strata != "both":
        yield from _drifts(splits, level, splits.cuts, strata, "label_mix")


def group_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts take the same share of every group; by label see ``label_mix``."""
    cuts = splits.cuts
    strata = splits.stratified_by
    if strata == "nothing" or (strata == "label" and not cuts.has_labels):
        of_groups = [part.sum(axis=2, keepdims=True) for part in cuts]
        groups = SplitCounts(*of_groups)
        yield from _drifts(splits, level, groups, "label", "group_mix")


def _drifts(
    splits: Splits, level: float, cuts: SplitCounts, strata: StratifiedBy, form: str
) -> Iterator[Finding]:
    chances = hypergeometric.label_chances(cuts, strata, splits.variance_inflation)
    independent = hypergeometric.n_fold_sets(splits.cuts) == 0
    combined = [
        hypergeometric.combine(of_group, independent=independent)
        for of_group in chances
    ]
    p_values = holm(np.array(combined))
    n_splits = len(splits.names)
    for group in np.flatnonzero(p_values <= level).tolist():
        p = float(p_values[group])
        worst = int(chances[group].argmin()) * n_splits // len(chances[group])
        yield finding(
            form,
            p,
            group=splits.arrays.groups[group],
            split=split_words(splits.names[worst]),
            train=_percent(cuts.train[worst], group),
            test=_percent(cuts.test[worst], group),
            over=f" over {n_splits} splits" if n_splits > 1 else "",
        )


def _percent(part: FloatArray, group: int) -> float:
    """The last label's percent of a group, or without labels a group's percent of all.

    ``part`` is of one split, (group, label).
    """
    axis = 1 if part.shape[1] > 1 else 0
    shares = 100 * part / np.maximum(part.sum(axis=axis, keepdims=True), 1)
    return float(shares[group, -1])


def little_spread(splits: Splits, level: float) -> Iterator[Finding]:
    """Clumps that are declared spread the groups over splits; records spread less.

    Splits that are balanced on groups show nothing of it. Of two groups each moves as
    the other does.
    """
    unit = splits.arrays.release.training.unit_of_split
    clumps = splits.variance_inflation
    is_balanced = splits.stratified_by in ("group", "both")
    if unit in (None, RECORD) or is_balanced or len(splits.names) < 2:
        return
    chances = hypergeometric.little_spread_chances(
        splits.cuts, splits.stratified_by, clumps
    )
    n_tested = 1 if len(chances) == 2 else len(chances)
    p_values = holm(np.maximum(chances[:n_tested], SMALLEST_P))
    for group in np.flatnonzero(p_values <= level)[:1]:
        yield finding(
            "little_spread",
            float(p_values[group]),
            unit=unit,
            group=splits.arrays.groups[group],
            clump=clumps[group],
            n=len(splits.names),
        )


# Accuracies


def overdispersion(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracy differences that vary more over splits than random splits allow.

    Models that memorise unequally vary more, too: a significant mean explains it. Folds
    of one set are negatively correlated: K of them vary K / (K - 1) times as much.
    """
    several = [correct for correct in splits.measured if len(correct.splits) > 1]
    if not several:
        return
    p_values = holm(_spread_p(splits, several))
    for setting, group in np.argwhere(p_values <= level):
        correct = several[setting]
        p = p_values[setting, group]
        yield finding(
            "dispersion",
            p,
            unit=splits.arrays.release.training.unit_of_split or RECORD,
            at=correct.setting,
            group=splits.arrays.groups[group],
            n=len(correct.splits),
        )


def _spread_p(splits: Splits, several: Sequence[CorrectRecords]) -> FloatArray:
    """p-values (setting, group) of the spread; 1 where a plain mean explains it."""
    n_splits = len(splits.cuts.train)
    n_sets = hypergeometric.n_fold_sets(splits.cuts)
    variance_inflation = splits.variance_inflation * (n_splits / (n_splits - n_sets))
    p_values = []
    for correct in several:
        spread = dispersion(correct.strata, variance_inflation=variance_inflation)
        is_plain = spread.mean_p_value < PLAIN_MEAN
        p_values.append(np.where(is_plain, 1, spread.p_value))
    return np.stack(p_values)


def below_zero(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracies that are far lower in training: memorisation only raises them."""
    tails = [
        hypergeometric.lower_tails(correct.strata, splits.variance_inflation)
        for correct in splits.measured
    ]
    p_values = holm(np.array(tails))
    if not (p_values <= level).any():
        return
    setting, group = np.unravel_index(int(np.nanargmin(p_values)), p_values.shape)
    p = p_values[setting, group]
    yield finding(
        "below_zero",
        p,
        at=splits.measured[setting].setting,
        group=splits.arrays.groups[group],
    )


# Attacks


class _Claim(NamedTuple):
    """Something that no attack can find, and by how much one exceeds it, (group,)."""

    words: str
    excess: FloatArray
    error: FloatArray


class _Exposure(NamedTuple):
    """One attack's exposure in one setting, (group,); NaN of too small a group."""

    value: FloatArray
    error: FloatArray


def impossible_attacks(splits: Splits, level: float) -> Iterator[Finding]:
    """Attacks below chance, LiRA far below the plain attack, more than epsilon allows.

    Attacks differ in strength, so that no other two contradict each other.
    """
    arrays = splits.arrays
    claims = list[_Claim]()
    exposures = _exposures(splits)
    for (attack, k), exposure in exposures.items():
        plain = exposures.get((AUC_ADVANTAGE.name, k))
        claims += _claims(splits, arrays.settings[k], attack, exposure, plain)
    excess = np.array([claim.excess for claim in claims])
    error = np.array([claim.error for claim in claims])
    p = upper_p(excess, np.maximum(error, SMALLEST_P))
    p_values = holm(np.maximum(p, SMALLEST_P))
    for row, group in np.argwhere(p_values <= level)[:1]:
        yield finding(
            "impossible",
            p_values[row, group],
            what=claims[row].words,
            group=arrays.groups[group],
        )


def _exposures(splits: Splits) -> dict[tuple[str, int], _Exposure]:
    """By attack and setting, where they are known; not those that training counted."""
    panels = [setting.panel for setting in splits.arrays.settings]
    by_attack = measure_attacks(
        panels, Plan(), variance_inflation=splits.variance_inflation
    )
    by_attack.pop(SPENT.name, None)
    exposures = {}
    for attack, by_setting in by_attack.items():
        for k, measured in enumerate(by_setting):
            if measured.exposed is not None:
                exposures[attack, k] = _Exposure(
                    np.where(
                        measured.has_enough_records, measured.exposed.value, np.nan
                    ),
                    np.sqrt(measured.exposed.interval_variance),
                )
    return exposures


def _claims(
    splits: Splits,
    setting: Setting,
    attack: str,
    exposure: _Exposure,
    plain: _Exposure | None,
) -> Iterator[_Claim]:
    """What one attack cannot find in one setting; ``plain`` is of the AUC of losses."""
    kind = attack_kind(attack)
    value, error = exposure
    finds = f"At {setting.name} {kind.phrase} finds"
    if kind is not GAP:  # which has an exact check
        words = f"{finds} members less often than a coin would"
        yield _Claim(words, -value, error)
    if kind is LIRA and plain is not None:
        words = f"{finds} less than half of what the plain AUC of losses shows"
        excess = LEAST_LIRA * plain.value - value
        yield _Claim(words, excess, np.hypot(error, LEAST_LIRA * plain.error))
    if kind.scale in ADVANTAGES and splits.arrays.protects_unit:
        most = _most_allowed(splits, setting, kind.scale)
        allowed = kind.scale.hundredths(most)
        words = f"{finds} more than such an epsilon allows ({allowed} of 100)"
        yield _Claim(words, value - most, error)


def _most_allowed(splits: Splits, setting: Setting, scale: attack_kinds.Scale) -> float:
    """The largest exposure that a setting's epsilon and delta allow.

    Splits have fixed sizes: to exchange a record is one step between neighbours that
    replace one, else two. An AUC compares two people, who in splits balanced on labels
    need two exchanges if their labels differ.
    """
    training = splits.arrays.release.training
    replaces = str((training.config or {}).get("adjacency")).startswith("replace")
    is_by_label = training.stratified_by not in ("nothing", "group")
    n_steps = 1 if replaces else 2
    if is_by_label and scale is attack_kinds.AUC:
        n_steps *= 2
    delta = max(run.dp_delta or 0.0 for run in setting.runs)
    advantage = largest_advantage(setting.panel.epsilon, delta, n_steps=n_steps)
    return ADVANTAGES[scale] * advantage


def largest_advantage(epsilon: float, delta: float, *, n_steps: int) -> float:
    """Half of the most by which chances p and q of one event differ.

    They are ``n_steps`` neighbours apart. Proved: a step gives
    p <= min(e^epsilon q + delta, 1 - e^-epsilon (1 - q - delta)). That is its own
    mirror image, so p - q is largest where p = 1 - q: half of the steps lead up to 1/2.
    """
    shrink = math.exp(-epsilon)
    q = (1 - delta) * shrink / (1 + shrink) if n_steps % 2 else 0.5
    for _ in range(n_steps // 2):
        q = (q - delta) * shrink
    return 0.5 - max(q, 0.0)
