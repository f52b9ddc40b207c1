"""Which declarations of a release would its counts contradict only by rare chance?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from pcer.measuring import hypergeometric
from pcer.measuring.checks.arrays import LABELS, RECORD, Finding, Splits, split_words
from pcer.measuring.exact import PLAIN_MEAN, SMALLEST_P, dispersion
from pcer.measuring.hypergeometric import SplitCounts
from pcer.measuring.measure import measure_costs
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AUC_ADVANTAGE, GAP, LIRA, SPENT, proxy_named
from pcer.release.records import StratifiedBy
from pcer.statistics import holm, upper_p
from pcer.wording import listed, say

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


def repeated_splits(splits: Splits, level: float) -> Iterator[Finding]:
    """Different random splits rarely cut every group and label alike."""
    if splits.repeats and splits.repeats_p <= level:
        names = list(splits.facts.runs_by_split)
        n = len(splits.names)
        p = splits.repeats_p
        again, first = next(iter(splits.repeats.items()))
        found = {"names": len(names), "n": n, "s": "s" * (n > 1), "chance": _chance(p)}
        found |= {"first": names[first], "again": names[again]}
        yield Finding(say("checks", "repeated_splits", **found), p)


def repeated_tables(splits: Splits, level: float) -> Iterator[Finding]:
    """Different splits rarely give the same confusion tables, even where they cut groups alike.

    A model that is the same in all splits has the most equal tables: given its right
    and wrong records, those in training are hypergeometric within each label and group.
    """
    if splits.repeats or not splits.measured:
        return
    every = []
    p_values = []
    for _, strata, _ in splits.measured:
        by_split = (
            np.moveaxis(part, 1, 0).reshape(part.shape[1], -1) for part in strata
        )
        total, trained, correct, hits = by_split
        train = np.stack([trained - hits, hits], axis=2)
        every.append(
            SplitCounts(train, np.stack([total - correct, correct], axis=2) - train)
        )
        inflation = np.tile(splits.inflation, len(strata.total))
        p_values.append(hypergeometric.chance_of_repeats(every[-1], "group", inflation))
    adjusted = holm(np.array(p_values))
    for (name, _, names), p, tables in zip(
        splits.measured, adjusted, every, strict=True
    ):
        if p <= level:
            again, first = next(iter(hypergeometric.repeats(tables).items()))
            alike = listed([split_words(names[split]) for split in (first, again)])
            found = {"at": name, "alike": alike, "chance": _chance(p)}
            yield Finding(say("checks", "repeated_tables", **found), p)


def balance(splits: Splits, level: float) -> Iterator[Finding]:
    """Declared strata must be balanced, and others may not be so in every split.

    Units of several records cannot be balanced exactly, so they are not checked; nor
    are labels where records without a group, or without labels, may balance the others.
    """
    facts = splits.facts
    cuts = splits.cuts
    strata = splits.stratified_by
    subject = facts.release.subject
    sizes = facts.sizes
    if facts.release.training.unit_of_split not in (None, RECORD):
        return
    if strata == "nothing":
        yield from _undeclared_balance(splits, level)
        return
    n_missing = subject.n_missing_group
    if n_missing is None and subject.n_records is not None and sizes is not None:
        n_missing = subject.n_records - int(sizes.total[0].sum())
    if strata != "label" or (cuts.has_labels and n_missing == 0):
        missed, allowed = hypergeometric.misses(cuts, strata)
        if (missed > allowed).any():
            s, stratum = np.unravel_index(
                int((missed - allowed).argmax()), missed.shape
            )
            found = {
                "split": split_words(splits.names[s]),
                "n": f"{missed[s, stratum]:,.0f}",
            }
            found |= {"stratum": _stratum_words(splits, int(stratum))}
            by = "label and group" if strata == "both" else strata
            yield Finding(say("checks", "not_balanced", **found, by=by))


def _undeclared_balance(splits: Splits, level: float) -> Iterator[Finding]:
    cuts = splits.cuts
    possible: tuple[StratifiedBy, ...] = (
        ("label", "group") if cuts.has_labels else ("group",)
    )
    p_values = {
        strata: min(1.0, len(possible) * hypergeometric.chance_rounded(cuts, strata))
        for strata in possible
        if hypergeometric.is_rounded(cuts, strata)
    }
    if balanced := [strata for strata, p in p_values.items() if p <= level]:
        p = max(p_values[strata] for strata in balanced)
        is_denied = splits.facts.release.training.stratified_by is not None
        found = {
            "n": len(cuts.train),
            "by": " and ".join(balanced),
            "chance": _chance(p),
        }
        found |= {"declare": balanced[0] if len(balanced) == 1 else "both"}
        form = "balance_denied" if is_denied else "balance_unsaid"
        yield Finding(say("checks", form, **found), p, caps_verdict=is_denied)


def _stratum_words(splits: Splits, stratum: int) -> str:
    if splits.stratified_by == "label":
        return f"the {LABELS[stratum]}"
    n_labels = splits.cuts.train.shape[2] if splits.stratified_by == "both" else 1
    group, label = divmod(stratum, n_labels)
    name = f"group {splits.facts.groups[group]!r}"
    return name if n_labels == 1 else f"{name} with the {LABELS[label]}"


def label_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts have the same mix of labels in every group, but for luck."""
    cuts = splits.cuts
    strata = splits.stratified_by
    if cuts.has_labels and strata != "both":
        yield from _drifts(splits, level, cuts, strata, "label_mix")


def group_mix(splits: Splits, level: float) -> Iterator[Finding]:
    """Random parts take the same share of every group; by label, that is in the label mix."""
    cuts = splits.cuts
    strata = splits.stratified_by
    if strata == "nothing" or (strata == "label" and not cuts.has_labels):
        groups = SplitCounts(*(part.sum(axis=2, keepdims=True) for part in cuts))
        yield from _drifts(splits, level, groups, "label", "group_mix")


def _drifts(
    splits: Splits, level: float, cuts: SplitCounts, strata: StratifiedBy, form: str
) -> Iterator[Finding]:
    chances = hypergeometric.label_chances(cuts, strata, splits.inflation)
    whole = (
        2 if cuts.has_labels else 1
    )  # of what the shares are: a group, or all groups
    shares = [
        100 * part / np.maximum(part.sum(axis=whole, keepdims=True), 1) for part in cuts
    ]
    n = len(splits.names)
    independent = hypergeometric.n_fold_sets(splits.cuts) == 0
    combined = [hypergeometric.combine(own, independent=independent) for own in chances]
    p_values = holm(np.array(combined))
    over = f" over {n} splits" if n > 1 else ""
    for g in np.flatnonzero(p_values <= level).tolist():
        # worst split
        p = float(p_values[g])
        s = int(chances[g].argmin()) * n // len(chances[g])
        found = {
            "group": splits.facts.groups[g],
            "split": split_words(splits.names[s]),
        }
        found |= dict(
            zip(("train", "test"), (part[s, g, -1] for part in shares), strict=True)
        )
        yield Finding(say("checks", form, **found, chance=_chance(p), over=over), p)


def overdispersion(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracy differences that vary more over splits than random splits of such units do.

    Models that memorise unequally vary more, too: a significant mean explains it. Folds
    of one set are negatively correlated: K of them vary K / (K - 1) times as much.
    """
    n = len(splits.cuts.train)
    sets = hypergeometric.n_fold_sets(splits.cuts)
    inflation = splits.inflation * (n / (n - sets))
    several = [
        (name, strata) for name, strata, names in splits.measured if len(names) > 1
    ]
    spreads = [dispersion(strata, inflation=inflation) for _, strata in several]
    if not spreads:
        return
    is_plain = np.stack([spread.mean_p_value for spread in spreads]) < PLAIN_MEAN
    p_values = holm(
        np.where(is_plain, 1, np.stack([spread.p_value for spread in spreads]))
    )
    for k, g in np.argwhere(p_values <= level):
        (name, strata) = several[k]
        p = p_values[k, g]
        unit = splits.facts.release.training.unit_of_split or RECORD
        found = {
            "at": name,
            "group": splits.facts.groups[g],
            "n": strata.total.shape[1],
        }
        yield Finding(
            say("checks", "dispersion", **found, unit=unit, chance=_chance(p)), p
        )


def below_zero(splits: Splits, level: float) -> Iterator[Finding]:
    """Accuracies that are far lower in training than out of it, which memorisation only raises."""
    every = [strata for _, strata, _ in splits.measured]
    tails = [hypergeometric.lower_tails(strata, splits.inflation) for strata in every]
    p_values = holm(np.array(tails))
    if (p_values <= level).any():
        k, g = np.unravel_index(int(np.nanargmin(p_values)), p_values.shape)
        at = splits.measured[k][0]
        group = splits.facts.groups[g]
        p = p_values[k, g]
        yield Finding(
            say("checks", "below_zero", at=at, group=group, chance=_chance(p)), p
        )


def impossible_attacks(splits: Splits, level: float) -> Iterator[Finding]:
    """Attacks below chance, LiRA far below the plain attack, and more than an epsilon allows.

    Attacks differ in strength, so that no other two contradict each other. Splits have
    fixed sizes: to exchange a record is one step between neighbours that replace one,
    else two. An AUC compares two people, who in splits balanced on labels need two
    exchanges if their labels differ.
    """
    facts = splits.facts
    rows = list[tuple[str, FloatArray, FloatArray]]()
    training = facts.release.training
    replaces = str((training.config or {}).get("adjacency")).startswith("replace")
    by_label = training.stratified_by not in ("nothing", "group")
    measured = measure_costs(
        [s.panel for s in facts.settings], Plan(), inflation=splits.inflation
    )
    cells = {
        (cost, k): (
            np.where(each.enough, exposed.value, np.nan),
            np.sqrt(exposed.alone),
        )
        for cost, by_setting in measured.items()
        for k, each in enumerate(by_setting)
        if (exposed := each.exposed) is not None and cost != SPENT.name
    }
    for (cost, k), (value, error) in cells.items():
        proxy = proxy_named(cost)
        (name, panel, runs) = facts.settings[k]
        finds = f"At {name} {proxy.phrase} finds"
        times = ADVANTAGES.get(proxy.scale)
        if proxy is not GAP:  # which has an exact check
            rows.append(
                (f"{finds} members less often than a coin would", -value, error)
            )
        if proxy is LIRA and (AUC_ADVANTAGE.name, k) in cells:
            plain, more = (LEAST_LIRA * part for part in cells[AUC_ADVANTAGE.name, k])
            less = f"{finds} less than half of what the plain AUC of losses shows"
            rows.append((less, plain - value, np.hypot(error, more)))
        if times and facts.protects_unit:
            delta = max(run.dp_delta or 0.0 for run in runs)
            n = 1 if replaces else 2
            n *= 2 if by_label and proxy.scale is attack_kinds.AUC else 1
            most = times * largest_advantage(panel.epsilon, delta, n_steps=n)
            allowed = f"more than such an epsilon allows ({proxy.scale.hundredths(most)} of 100)"
            rows.append((f"{finds} {allowed}", value - most, error))
    excess, error = (np.array([row[k] for row in rows]) for k in (1, 2))
    p_values = holm(
        np.maximum(upper_p(excess, np.maximum(error, SMALLEST_P)), SMALLEST_P)
    )
    for k, g in np.argwhere(p_values <= level)[:1]:
        found = {"what": rows[k][0], "group": facts.groups[g]}
        p = p_values[k, g]
        yield Finding(say("checks", "impossible", **found, chance=_chance(p)), p)


def largest_advantage(epsilon: float, delta: float, *, n_steps: int) -> float:
    """Half of the most by which chances p and q of one event differ, so many neighbours apart.

    Proved: a step gives p <= min(e^epsilon q + delta, 1 - e^-epsilon (1 - q - delta)).
    That is its own mirror image, so p - q is largest where p = 1 - q: half of the steps
    lead up to 1/2.
    """
    shrink = math.exp(-epsilon)
    q = (1 - delta) * shrink / (1 + shrink) if n_steps % 2 else 0.5
    for _ in range(n_steps // 2):
        q = (q - delta) * shrink
    return 0.5 - max(q, 0.0)


def _chance(p: float) -> str:
    return f"below {SMALLEST_P:g}" if p <= SMALLEST_P else f"{p:.2g}"
