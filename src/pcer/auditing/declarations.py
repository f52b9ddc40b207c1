"""What a release declares about its splits, checked against its own counts.

Every test of an audit rests on what the trainer says: the split was random, records were what was
split, these names are different splits. Counts can contradict it. Contradictions in logic need no
chance; all others share one level per release, so that a true release is rarely accused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pcer.auditing.claims import (
    RECORD,
    Claims,
    SplitName,
    SplitSpread,
    distinct_splits,
    runs_by_name,
)
from pcer.auditing.composition import (
    Composition,
    chance_of_repeats,
    chance_rounded,
    combine,
    first_alike,
    group_chances,
    is_rounded,
    label_chances,
    misses,
    n_fold_sets,
    n_repeats,
)
from pcer.auditing.evenness import (
    below_chances,
    chance_of_same_tables,
    even_margins,
    first_two_alike,
    steady_chances,
    table_cuts,
)
from pcer.auditing.exact import PLAIN_MEAN, SMALLEST_P, dispersion
from pcer.auditing.finding import (
    LEVELS_OF_ONE_SPLIT,
    LEVELS_OF_SEVERAL,
    Check,
    Finding,
    chance_words,
)
from pcer.auditing.promises import check_promises, check_runs
from pcer.auditing.stated import check_copies, check_placebos, check_totals
from pcer.auditing.words import listed
from pcer.metrics import FloatArray
from pcer.release.format import StratifiedBy
from pcer.statistics import holm

FINEST_DECIMALS: Final = 7
SINGLE_PRECISION: Final = 1e-7
"""What a rate may have lost where it was computed in single precision."""
DOUBLE_PRECISION: Final = 1e-12
"""The same in double precision."""


@dataclass(frozen=True, kw_only=True)
class _Splits:
    """The distinct splits of a release and what is said of them."""

    claims: Claims
    names: tuple[SplitName, ...]
    cuts: Composition
    inflation: FloatArray

    def once(self) -> _Splits:
        """Every cut once: names that are one split are not to count as several."""
        kept = sorted(set(first_alike(self.cuts)))
        names = tuple(self.names[s] for s in kept)
        return replace(self, names=names, cuts=self.cuts.only(kept))

    def level(self, check: Check) -> float:
        """The check's part of the level of all."""
        one = self.cuts.n_splits == 1
        return (LEVELS_OF_ONE_SPLIT if one else LEVELS_OF_SEVERAL)[check]

    @property
    def may_be_free(self) -> bool:
        """Whether nothing is declared to be balanced."""
        return self.claims.stratified_by in (None, "nothing")

    @property
    def told(self) -> list[SplitSpread]:
        """Settings of which some split tells every group's accuracy."""
        return [one for one in self.claims.spreads if one.strata.total.shape[1]]

    @property
    def over(self) -> str:
        return "" if self.cuts.n_splits == 1 else f" over {self.cuts.n_splits} splits"


def check_declarations(claims: Claims) -> tuple[Finding, ...]:
    """Everything the counts say against what is declared; nothing for most releases.

    Logic is always checked. Chance is only where the split is declared random, sizes are
    released, and the effective number of units is known; all of it at ``LEVEL`` together.
    """
    findings = [*_conflicting_names(claims), *_broken_numbers(claims)]
    for logic in (check_copies, check_runs, check_promises, check_placebos):
        findings += logic(claims)
    if not claims.random:
        return tuple(findings)
    findings += [*check_totals(claims), *_unit(claims)]
    found, inflation = distinct_splits(claims), claims.inflation
    if found is None or inflation is None:
        return tuple(findings)
    splits = _Splits(claims=claims, names=found[0], cuts=found[1], inflation=inflation)
    return (*findings, *_levelled(splits))


def _levelled(splits: _Splits) -> Iterator[Finding]:
    """What chance says; each with its part of the level of all."""
    several, repeated = splits, list(_repeated(splits))
    if repeated:
        splits = splits.once()
    found = repeated or list(_same_tables(splits))
    for check in (_balance, _label_mix, _group_mix, _too_even, _dispersion, _steady, _below):
        found += check(splits)
    for one in found:
        yield one if one.p_value is None else replace(one, level=several.level(one.check))


def assumed_strata(claims: Claims, cuts: Composition) -> StratifiedBy:
    """What repeats are judged within: as declared, else what is balanced but for rounding.

    Given its numbers in the strata a random split is random within them, so this is always fair.
    """
    if claims.stratified_by not in (None, "nothing"):
        return claims.stratified_by
    if cuts.has_labels and is_rounded(cuts, "label"):
        return "label"
    return "group" if cuts.has_labels and is_rounded(cuts, "group") else "nothing"


def not_whole(value: FloatArray, n: FloatArray) -> npt.NDArray[np.bool_]:
    """Where a rate, as finely as it is printed, is no whole number out of n.

    A rate that is not given, or not of a known number, is never at fault.

    >>> not_whole(np.array([0.67, 0.66, 0.6667]), np.array([3.0, 3.0, 4.0])).tolist()
    [False, True, True]
    """
    known = np.isfinite(value) & np.isfinite(n) & (n > 0)
    value, n = np.where(known, value, 0.0), np.where(known, n, 1.0)
    nearest = np.rint(value * n) / n
    return np.asarray(known & (np.abs(value - nearest) > _half_unit(value)))


def _half_unit(value: FloatArray) -> FloatArray:
    """Half a unit in the last decimal that is printed, or what single precision loses."""
    half = np.full(value.shape, SINGLE_PRECISION)
    for decimals in range(FINEST_DECIMALS, 0, -1):
        is_rounded_here = np.abs(value - np.round(value, decimals)) < DOUBLE_PRECISION
        half[is_rounded_here] = 0.5 * 10.0**-decimals + DOUBLE_PRECISION
    return np.asarray(np.maximum(half, SINGLE_PRECISION))


def _conflicting_names(claims: Claims) -> Iterator[Finding]:
    """One name, two cuts: the same split cannot have both."""
    tables = [table for table in (claims.runs, claims.sizes) if table is not None]
    by_name = runs_by_name(claims.split_names).items()
    for name, runs in ((name, runs) for name, runs in by_name if len(runs) > 1):
        n_cuts = max((_n_cuts(table, runs) for table in tables), default=1)
        if n_cuts > 1:
            yield _two_cuts(name, len(runs), n_cuts)


def _n_cuts(table: Composition, runs: list[int]) -> int:
    """Different tables among runs; one that does not give every number is left out."""
    parts = np.stack([table.train[runs], table.test[runs]], axis=1).reshape(len(runs), -1)
    return len(np.unique(parts[np.isfinite(parts).all(axis=1)], axis=0))


def _two_cuts(name: SplitName, n_runs: int, n_cuts: int) -> Finding:
    if name is None:
        return Finding(
            check="split_names",
            declared=f"{n_runs} runs name no split and count as one",
            found=f"they cut the groups in {n_cuts} different ways",
            remedy="name the split of every run (runs[].split), so that each counts",
            p_value=None,
            caps_verdict=False,
        )
    return Finding(
        check="split_names",
        declared=f"{n_runs} runs name split {name!r}",
        found=f"they cut the groups in {n_cuts} different ways, and one split has one",
        remedy="give every split a name of its own",
        p_value=None,
        caps_verdict=True,
    )


def _broken_numbers(claims: Claims) -> Iterator[Finding]:
    """A share of n people is a whole number out of n."""
    for rates in claims.rates:
        broken = not_whole(rates.value, rates.n)
        if not broken.any():
            continue
        run, group = np.argwhere(broken)[0]
        value, n = rates.value[run, group], rates.n[run, group]
        yield Finding(
            check="whole_numbers",
            declared=(
                f"at {rates.setting} the {rates.what} of group {claims.group_names[group]!r} is "
                f"{value:.12g} of {n:,.0f} records"
            ),
            found=(
                f"that is {value * n:.6g} records, no whole number within rounding (so for "
                f"{int(broken.sum())} of {broken.size} such rates)"
            ),
            remedy="give every run its own rates, and the number of records they are of",
            p_value=None,
            caps_verdict=True,
        )


def _unit(claims: Claims) -> Iterator[Finding]:
    """Units that are not records need their effective number in every group."""
    unit, records = claims.unit_of_split, claims.records
    if unit == RECORD or records is None:
        return
    if claims.effective_units is None:
        yield Finding(
            check="unit_of_split",
            declared=f"the unit of the split is the {unit}",
            found="the release does not say how many of them each group's records come from",
            remedy=(
                "give each group's effective number (training.effective_units): (Σm)²/Σm² over "
                "its units of m records"
            ),
            p_value=None,
            caps_verdict=True,
        )
        return
    for g in np.flatnonzero(claims.effective_units > records * (1 + SINGLE_PRECISION)):
        yield Finding(
            check="unit_of_split",
            declared=(
                f"group {claims.group_names[g]!r} is said to be worth "
                f"{claims.effective_units[g]:,.6g} units ({unit})"
            ),
            found=f"it has only {records[g]:,.0f} records",
            remedy="give Kish's effective number, (Σm)²/Σm² over units of m records",
            p_value=None,
            caps_verdict=True,
        )


def _repeated(splits: _Splits) -> Iterator[Finding]:
    """Different random splits rarely cut every group and label alike."""
    if splits.cuts.n_splits == 1:
        return
    strata = assumed_strata(splits.claims, splits.cuts)
    p = max(SMALLEST_P, chance_of_repeats(splits.cuts, strata, inflation=splits.inflation))
    if p > splits.level("split_names"):
        return
    n_names, first = len(splits.names), first_alike(splits.cuts)
    n_ways = n_names - n_repeats(splits.cuts)
    again = next(s for s, earlier in enumerate(first) if earlier != s)
    yield Finding(
        check="split_names",
        declared=f"the release names {n_names} different random splits",
        found=(
            f"they cut the groups and labels in only {n_ways} way{'s' if n_ways > 1 else ''} "
            f"({splits.names[first[again]]!r} and {splits.names[again]!r} alike), which has "
            f"chance {chance_words(p)}"
        ),
        remedy=(
            "give one split one name, or declare training.stratified_by if groups and labels "
            "were balanced"
        ),
        p_value=p,
        caps_verdict=True,
    )


def _balance(splits: _Splits) -> Iterator[Finding]:
    """Declared strata must be balanced, and others may not be so in every split.

    Units of several records cannot be divided to the last one, so of those nothing is asked.
    """
    claims, cuts = splits.claims, splits.cuts
    if claims.unit_of_split != RECORD:
        return
    if splits.may_be_free:
        yield from _undeclared(splits)
    elif claims.stratified_by != "label" or (claims.is_complete and cuts.has_labels):
        yield from _unbalanced(splits)


def _undeclared(splits: _Splits) -> Iterator[Finding]:
    claims, cuts = splits.claims, splits.cuts
    possible: tuple[StratifiedBy, ...] = ("label", "group") if cuts.has_labels else ("group",)
    p_values = {
        strata: min(1.0, len(possible) * chance_rounded(cuts, strata))
        for strata in possible
        if is_rounded(cuts, strata)
    }
    balanced = [strata for strata, p in p_values.items() if p <= splits.level("stratified_by")]
    if not balanced:
        return
    p = max(SMALLEST_P, *(p_values[strata] for strata in balanced))
    said = claims.stratified_by is not None
    yield Finding(
        check="stratified_by",
        declared=(
            "the split is said to be balanced on nothing"
            if said
            else "the release does not say what its random splits were balanced on"
        ),
        found=(
            f"all {cuts.n_splits} are balanced by {' and '.join(balanced)} to the last record, "
            f"which has chance {chance_words(p)}"
        ),
        remedy=f'declare training.stratified_by "{balanced[0] if len(balanced) == 1 else "both"}"',
        p_value=p,
        caps_verdict=said,
    )


def _unbalanced(splits: _Splits) -> Iterator[Finding]:
    strata = splits.claims.stratified_by
    if strata is None:
        return
    missed, allowed = misses(splits.cuts, strata)
    if (missed <= allowed).all():
        return
    s, stratum = np.unravel_index(int((missed - allowed).argmax()), missed.shape)
    yield Finding(
        check="stratified_by",
        declared=(
            f"the split is said to be balanced by "
            f"{'label and group' if strata == 'both' else strata}"
        ),
        found=(
            f"{_split_words(splits.names[s])} misses the training share of "
            f"{_stratum_words(splits, strata, int(stratum))} by {missed[s, stratum]:,.0f} records, "
            "which rounding cannot"
        ),
        remedy="declare what the split was balanced on",
        p_value=None,
        caps_verdict=True,
    )


def _label_mix(splits: _Splits) -> Iterator[Finding]:
    """Random parts have the same mix of labels in every group, but for luck."""
    cuts, strata = splits.cuts, splits.claims.stratified_by or "nothing"
    if not cuts.has_labels or strata == "both":
        return
    chances = label_chances(cuts, strata, inflation=splits.inflation)
    for g, p in _unlikely(cuts, chances, splits.level("label_mix")):
        s = int(chances[g].argmin()) * cuts.n_splits // len(chances[g])
        train, test = cuts.train[s, g], cuts.test[s, g]
        found = (
            f"{_percent(train[-1], train.sum())} of the training records of group "
            f"{splits.claims.group_names[g]!r} have a positive label in "
            f"{_split_words(splits.names[s])} and {_percent(test[-1], test.sum())} of its test "
            f"records, which has chance {chance_words(p)}{splits.over}"
        )
        yield _mix_finding("label_mix", found, p)


def _group_mix(splits: _Splits) -> Iterator[Finding]:
    """Random parts take the same share of every group, but for luck.

    Balanced by label, groups are part of the label mix, unless labels are not released.
    """
    unlabelled = splits.claims.stratified_by == "label" and not splits.cuts.has_labels
    if not (splits.may_be_free or unlabelled):
        return
    cuts = splits.cuts
    chances = group_chances(cuts, inflation=float(splits.inflation.max()))
    for g, p in _unlikely(cuts, chances, splits.level("group_mix")):
        s = int(chances[g].argmin())
        train, test = cuts.train[s].sum(axis=1), cuts.test[s].sum(axis=1)
        found = (
            f"group {splits.claims.group_names[g]!r} is {_percent(train[g], train.sum())} of the "
            f"training records in {_split_words(splits.names[s])} and "
            f"{_percent(test[g], test.sum())} of the test records, which has chance "
            f"{chance_words(p)}{splits.over}"
        )
        yield _mix_finding("group_mix", found, p)


def _unlikely(
    cuts: Composition, chances: list[FloatArray], level: float
) -> Iterator[tuple[int, float]]:
    """Groups whose splits are less likely than the level, with Holm-adjusted p-values."""
    independent = n_fold_sets(cuts) == 0
    adjusted = holm(np.array([combine(one, independent=independent) for one in chances]))
    for g in np.flatnonzero(adjusted <= level):
        yield int(g), max(SMALLEST_P, float(adjusted[g]))


def _mix_finding(check: Check, found: str, p: float) -> Finding:
    return Finding(
        check=check,
        declared="the split is said to be random",
        found=found,
        remedy=(
            'declare training.split_kind "other" if the parts differ by time or place, or '
            "training.unit_of_split if records of one person were kept together"
        ),
        p_value=p,
        caps_verdict=True,
    )


def _dispersion(splits: _Splits) -> Iterator[Finding]:
    """Accuracy differences that vary more over splits than random splits of such units do."""
    spreads = [one for one in splits.claims.spreads if one.strata.total.shape[1] > 1]
    if not spreads:
        return
    p_values = holm(np.stack([_spread_p(splits, one) for one in spreads]))
    for k, g in np.argwhere(p_values <= LEVELS_OF_SEVERAL["dispersion"]):
        p = max(SMALLEST_P, float(p_values[k, g]))
        yield Finding(
            check="dispersion",
            declared=f"the unit of the split is said to be the {splits.claims.unit_of_split}",
            found=(
                f"at {spreads[k].setting} the accuracy difference of group "
                f"{splits.claims.group_names[g]!r} varies more over "
                f"{spreads[k].strata.total.shape[1]} splits than such splits allow (chance "
                f"{chance_words(p)})"
            ),
            remedy=(
                "declare training.unit_of_split and training.effective_units if records of one "
                "person, household or place were kept together"
            ),
            p_value=p,
            caps_verdict=True,
        )


def _same_tables(splits: _Splits) -> Iterator[Finding]:
    """Different splits rarely give the same confusion tables, even where they cut groups alike."""
    spreads = splits.told
    chances = [_chance_alike(splits, one) for one in spreads]
    p_values = holm(np.array([p for p, _ in chances])) if chances else np.empty(0)
    for spread, p, (_, two) in zip(spreads, p_values, chances, strict=True):
        if two is None or p > splits.level("same_tables"):
            continue
        yield Finding(
            check="same_tables",
            declared=f"at {spread.setting} every split is said to be another random one",
            found=(
                f"models of {listed([_split_words(name) for name in two])} have the same confusion "
                f"tables to the last record, which has chance {chance_words(p)}"
            ),
            remedy="release the tables that each model gave",
            p_value=max(SMALLEST_P, float(p)),
            caps_verdict=True,
        )


def _chance_alike(
    splits: _Splits, spread: SplitSpread
) -> tuple[float, tuple[SplitName, SplitName] | None]:
    cuts = table_cuts(spread.strata)
    two = first_two_alike(cuts)
    if two is None or len(spread.splits) != cuts.n_splits:
        return 1.0, None
    p = chance_of_same_tables(cuts, inflation=splits.inflation)
    return p, (spread.splits[two[0]], spread.splits[two[1]])


def _too_even(splits: _Splits) -> Iterator[Finding]:
    """Sizes that vary less over splits than random ones do, and are not balanced either."""
    cuts = splits.cuts
    if cuts.n_splits == 1 or n_fold_sets(cuts) or (cuts.has_labels and is_rounded(cuts, "both")):
        return
    margins = even_margins(cuts, assumed_strata(splits.claims, cuts))
    if not margins:
        return
    p_values = holm(np.array([one.chance for one in margins]))
    k = int(p_values.argmin())
    if p_values[k] > splits.level("too_even"):
        return
    p, one = max(SMALLEST_P, float(p_values[k])), margins[k]
    label = {None: "", 0: " with a negative label", 1: " with a positive label"}[one.label]
    yield Finding(
        check="too_even",
        declared="the splits are said to be random",
        found=(
            f"the number of training records of group {splits.claims.group_names[one.group]!r}"
            f"{label} varies less over {cuts.n_splits} splits than random ones give, and is not "
            f"balanced either (chance {chance_words(p)})"
        ),
        remedy="release the sizes that the splits had",
        p_value=p,
        caps_verdict=True,
    )


def _steady(splits: _Splits) -> Iterator[Finding]:
    """Accuracy differences that vary less over splits than those of any model."""
    if not splits.told or splits.cuts.n_splits == 1:
        return
    p_values = holm(np.stack([steady_chances(one.strata) for one in splits.told]))
    yield from _by_cell(splits, p_values, "too_steady")


def _below(splits: _Splits) -> Iterator[Finding]:
    """Accuracies that are far lower in training than out of it."""
    found = [below_chances(one.strata, inflation=splits.inflation) for one in splits.told]
    if found:
        yield from _by_cell(splits, holm(np.stack(found)), "below_zero")


CELL_WORDS: Final = {
    "too_steady": (
        "the accuracy difference of group {group} at {setting} is said to be of {n} splits",
        "it varies less than any model's would (chance {chance})",
        "release the tables that each model gave",
    ),
    "below_zero": (
        "the split is said to be random",
        "at {setting} the models are less often right about group {group} in training than out of "
        "it, by more than chance gives (chance {chance}), and memory only adds",
        "check that the parts are not exchanged, and that the tables are of the same models",
    ),
}


def _by_cell(splits: _Splits, p_values: FloatArray, check: Check) -> Iterator[Finding]:
    """Of (setting, group) chances, the smallest that is below the level."""
    if not (p_values <= splits.level(check)).any():
        return
    k, g = np.unravel_index(int(np.nanargmin(p_values)), p_values.shape)
    p = max(SMALLEST_P, float(p_values[k, g]))
    spread = splits.told[k]
    words = {
        "group": repr(splits.claims.group_names[g]),
        "setting": spread.setting,
        "n": spread.strata.total.shape[1],
        "chance": chance_words(p),
    }
    declared, found, remedy = (part.format(**words) for part in CELL_WORDS[check])
    yield Finding(
        check=check,
        declared=declared,
        found=found,
        remedy=remedy,
        p_value=p,
        caps_verdict=True,
    )


def _spread_p(splits: _Splits, spread: SplitSpread) -> FloatArray:
    """Chance (group,) of so large a spread; 1 where models that memorise unequally explain it."""
    wider = splits.inflation * _fold_factor(splits.cuts)
    found = dispersion(spread.strata, inflation=wider)
    return np.where(found.mean_p_value < PLAIN_MEAN, 1.0, found.p_value)


def _fold_factor(cuts: Composition) -> float:
    """Folds of one set repel each other: K of them spread K / (K - 1) times as much."""
    sets = n_fold_sets(cuts)
    return cuts.n_splits / (cuts.n_splits - sets) if sets else 1.0


def _stratum_words(splits: _Splits, strata: StratifiedBy, stratum: int) -> str:
    n_labels = splits.cuts.train.shape[2]
    labels = ("the negative label", "the positive label")
    if strata == "label":
        return labels[stratum]
    group, label = (stratum, None) if strata == "group" else divmod(stratum, n_labels)
    name = f"group {splits.claims.group_names[group]!r}"
    return name if label is None or n_labels == 1 else f"{name} with {labels[label]}"


def _split_words(name: SplitName) -> str:
    return "the unnamed split" if name is None else f"split {name!r}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
