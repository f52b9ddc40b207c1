"""Is the new model worse than the old one? ``compare(old, new)``.

Two releases of the same attribute and groups, setting by setting: whose exposure rose, which
difference between groups grew, beyond chance; and what could have been missed where nothing did.

Every change is about people like these, as every comparison of an audit is. Of the same splits,
split error is that of each split's own change, seen from how changes vary over splits (Student's t
for the part that is estimated). Of the same people, who they are need not be the same error twice:
the models may remember the same of them, or others. Counts do not say which, so it is taken at its
worst, which is that they remember others; a change is then as uncertain as for two sets of people,
and a little more. `python -m benchmarks.comparisons` has the alarms where nothing got worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from pcer.auditing.checks import check_release, is_random, variance_inflation
from pcer.auditing.compare_words import (
    Changes,
    ChangeVerdict,
    ComparedRelease,
    ComparedSetting,
    GroupChange,
    PairChange,
    SettingChange,
    account,
    headline,
)
from pcer.auditing.measure import (
    ADVANTAGES,
    MUTUAL,
    PAIRED,
    Exposed,
    Measured,
    Pair,
    is_carried,
    measure_panel,
    number,
    pairs_of,
)
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.variances import cost_in_tests, pooled_cost
from pcer.auditing.words import listed, short_setting
from pcer.errors import InputError, PlanError
from pcer.metrics import FloatArray, IntArray
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, panels
from pcer.release.proxies import GAP, Proxy, proxy_named
from pcer.statistics import holm

CONFIDENCE: Final = 0.95
"""Of the upper bounds, all of one kind together."""
LEAST_PAIRED: Final = 8
"""Splits from which on the spread of their changes is an error to rely on."""
BY_SHADOWS: Final = (proxies.LIRA, proxies.LIRA_OFFLINE, proxies.RMIA)
"""Attacks that more splits make stronger: compared only where both have as many."""

Match = tuple[Panel, Panel]
"""A setting of the old release beside one of the new."""


def compare(
    old: Release,
    new: Release,
    *,
    cost: str | None = None,
    settings: str | Sequence[str] | None = None,
) -> Changes:
    """Is the new model's exposure, or its difference between groups, worse beyond chance?

    Every test is one-sided and about people like these. Over settings, groups and pairs the chance
    that anything is called worse where nothing got worse is at most 5 % (Holm), and so for
    improved. Splits that both releases have, of the same data digest, are compared with each other.

    Args:
        old: the release to compare with.
        new: the release that may be worse; of the same attribute, groups and outcome.
        cost: what exposure is measured by; by default the sharpest that both carry.
        settings: which to compare, such as "forest, none" or "0.5"; "A=B" is A of the old one with
            B of the new. By default those that both have, or the only one of each.

    Raises:
        InputError: the two cannot be compared; one sentence says why.
        PlanError: the cost is not in both.
    """
    _require_alike(old, new)
    matches, left_out = _matches(panels(old), panels(new), settings)
    proxy = _choose(matches, cost)
    inflation = _inflation(old, "the old release"), _inflation(new, "the new release")
    digest = old.provenance.data_digest
    same_people = digest is not None and digest == new.provenance.data_digest
    compared = []
    for match in matches:
        before, after = (
            measure_panel(panel, Plan(), proxy.name, inflation=clumps)
            for panel, clumps in zip(match, inflation, strict=True)
        )
        common = _common_splits(match, (old, new)) if same_people else None
        compared.append(_compared(before, after, common, n_settings=len(matches)))
    found = _setting_changes(compared)
    sides = [
        ComparedRelease(
            title=release.title,
            release_sha256=release.sha256,
            data_digest=release.provenance.data_digest,
        )
        for release in (old, new)
    ]
    train_shares = [
        float(panel.n_train.mean() / (panel.n_train + panel.n_test).mean()) for panel in matches[0]
    ]
    return Changes(
        old=sides[0],
        new=sides[1],
        attribute=old.subject.attribute,
        cost=proxy.name,
        same_people=same_people,
        verdict=ChangeVerdict.strongest(setting.verdict for setting in found),
        headline=headline(found, proxy),
        account=list(account(found, proxy, same_people=same_people, train_shares=train_shares)),
        settings=found,
        left_out=left_out,
    )


# Who is compared with whom, and by which attack


def _require_alike(old: Release, new: Release) -> None:
    for release in (old, new):
        if not isinstance(release, Release):
            raise InputError(f"compare takes two releases, not this {type(release).__name__}.")
    before, after = old.subject, new.subject
    for what, theirs, ours in (
        ("attribute", before.attribute, after.attribute),
        ("groups", listed(sorted(before.groups)), listed(sorted(after.groups))),
        ("outcome", before.outcome, after.outcome),
    ):
        if theirs != ours:
            raise InputError(
                f"two releases are compared group by group, but their {what} differ: the old one "
                f"has {theirs}, the new one {ours}."
            )


def _inflation(release: Release, name: str) -> FloatArray | None:
    """By how much clumps of records widen errors; refuses a release that no test may rest on."""
    if not is_random(release):
        raise InputError(
            f"{name} does not say that its splits are random (training.split_kind), and every "
            "test of a change rests on that."
        )
    against = [check for check in check_release(release) if check.caps_verdict]
    if against:
        raise InputError(
            f"the counts of {name} contradict what it says of its splits, so that nothing can "
            f"be compared: {against[0].sentence}"
        )
    return variance_inflation(release)


def _matches(
    old: Sequence[Panel], new: Sequence[Panel], settings: str | Sequence[str] | None
) -> tuple[list[Match], list[str]]:
    """Settings beside each other, and the names of those that are left out."""
    if settings is not None:
        asked = [settings] if isinstance(settings, str) else settings
        return [_asked(old, new, text) for text in asked], []
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    by_key = {(panel.model, panel.epsilon): panel for panel in new}
    both = [
        (panel, by_key[key]) for panel in old if (key := (panel.model, panel.epsilon)) in by_key
    ]
    if not both:
        raise InputError(
            f"no setting is in both releases: the old one has {_names(old)}, the new one "
            f"{_names(new)}; name two that belong together, such as 'A=B'."
        )
    matched = {(panel.model, panel.epsilon) for panel, _ in both}
    left_out = [
        f"{which}: {_name(panel)}"
        for which, side in (("old", old), ("new", new))
        for panel in side
        if (panel.model, panel.epsilon) not in matched
    ]
    return both, left_out


def _asked(old: Sequence[Panel], new: Sequence[Panel], text: str) -> Match:
    """The settings that a text names; a name may itself hold an =."""
    before, after = _by_text(old), _by_text(new)
    if text in before and text in after:
        return before[text], after[text]
    for at in (k for k, letter in enumerate(text) if letter == "="):
        first, second = text[:at].strip(), text[at + 1 :].strip()
        if first in before and second in after:
            return before[first], after[second]
    raise InputError(
        f"the setting {text!r} is not in both releases: the old one has {_names(old)}, the new "
        f"one {_names(new)}; write one of them, or 'A=B' for A of the old and B of the new."
    )


def _by_text(settings: Sequence[Panel]) -> dict[str, Panel]:
    """Settings by every way to write them: "forest, no-DP" is also "forest, none"."""
    names = {_name(panel): panel for panel in settings}
    without = {name: panel for name, panel in names.items() if math.isinf(panel.epsilon)}
    return names | {f"{name.removesuffix('no-DP')}none": p for name, p in without.items()}


def _epsilon(panel: Panel) -> float | None:
    return None if math.isinf(panel.epsilon) else panel.epsilon


def _name(panel: Panel) -> str:
    return short_setting(panel.model, _epsilon(panel))


def _names(settings: Sequence[Panel]) -> str:
    return listed([repr(_name(panel)) for panel in settings])


def _choose(matches: Sequence[Match], cost: str | None) -> Proxy:
    """The cost named, or the sharpest that both carry for everyone and that can be compared."""
    sides = [[match[side] for match in matches] for side in (0, 1)]
    as_many = all(old.n_splits == new.n_splits for old, new in matches)
    if cost in (None, SHARPEST):
        for proxy in (*ADVANTAGES[:2], *PAIRED, *ADVANTAGES[2:]):
            is_fair = as_many or proxy not in BY_SHADOWS
            if is_fair and all(is_carried(side, Plan(), proxy) for side in sides):
                return proxy
        return GAP
    named = GAP if cost == GAP.short else proxy_named(str(cost))
    for which, side in zip(("old", "new"), sides, strict=True):
        if not is_carried(side, Plan(), named):
            raise PlanError(
                f"the {which} release does not carry {named.name}, with an error, for every "
                "setting and group; name a cost that both have."
            )
    if named in BY_SHADOWS and not as_many:
        raise PlanError(
            f"{named.name} calibrates each record by the other splits, and the releases have "
            "different numbers of them: more splits make a stronger attack, not a worse model; "
            "name another cost."
        )
    return named


def _common_splits(match: Match, releases: tuple[Release, Release]) -> tuple[IntArray, IntArray]:
    """Positions, in the old setting and in the new, of the splits of the same name and sizes."""
    sides: list[dict[tuple[str | int | float, ...], int]] = []
    for panel, release in zip(match, releases, strict=True):
        setting = panel.model, panel.epsilon
        names = {run.seed: run.split for run in release.runs if (run.model, run.budget) == setting}
        order = [panel.group_names.index(name) for name in match[0].group_names]
        sides.append(
            {
                (name, *panel.n_train[row, order].tolist()): int(panel.split[row])
                for row, seed in enumerate(panel.seeds)
                if (name := names[seed]) is not None
            }
        )
    old, new = sides
    common = [split for split in old if split in new]
    return np.array([old[k] for k in common]), np.array([new[k] for k in common])


# Changes with their errors; arrays over the group or over the pair


@dataclass(frozen=True, kw_only=True)
class BothExposed:
    """One setting's exposure as audits measure it, old and new, the same groups in one order.

    Attributes:
        same_people: whether both are about the same records.
        largest: the most that such an exposure can be.
        is_paired: whether both have the same splits, in the same order.
    """

    old: Exposed
    new: Exposed
    same_people: bool
    largest: float
    is_paired: bool

    def only(self, groups: IntArray) -> BothExposed:
        """Some groups, or one side of every pair."""
        return replace(self, old=self.old.only(groups), new=self.new.only(groups))


class Contrast(NamedTuple):
    """A change, or a sum, with its error: Student's t, the normal where freedom is infinite."""

    value: FloatArray
    variance: FloatArray
    freedom: FloatArray

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0; 1 where the error is 0."""
        from scipy.special import stdtr

        error = np.sqrt(self.variance)
        without = np.full_like(error, -np.inf)
        scaled = np.divide(sign * self.value, error, out=without, where=error > 0)
        p = stdtr(self.freedom, -scaled)
        return np.where(np.isfinite(self.value + error), p, np.nan)

    def half_width(self, tail: float) -> FloatArray:
        """Distance from the value to an upper bound that fails with probability ``tail``."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.freedom, tail) * np.sqrt(self.variance))


class Shifts(NamedTuple):
    """What a comparison says of each group, or of each pair: see ``GroupChange``."""

    old: FloatArray
    new: FloatArray
    change: FloatArray
    standard_error: FloatArray
    most: FloatArray
    p_worse_alone: FloatArray
    p_improved_alone: FloatArray


def group_shifts(both: BothExposed, *, tail: float) -> Shifts:
    """The change of every group's exposure.

    What records change about each other is not the same in two sweeps, so it counts here as in
    the interval of one group (``MUTUAL``); a difference of groups has what they do not share.
    """
    per_split, lasting = _parts(both, (0.0, 0.0), -1.0)
    mutual = MUTUAL * (both.old.of_records + both.new.of_records)
    change = _contrast(per_split, np.fmax(lasting, mutual))
    return Shifts(
        old=both.old.value,
        new=both.new.value,
        change=change.value,
        standard_error=np.sqrt(change.variance),
        most=np.maximum(change.value + change.half_width(tail), 0.0),
        p_worse_alone=change.upper_p(),
        p_improved_alone=change.upper_p(-1.0),
    )


def pair_shifts(first: BothExposed, second: BothExposed, *, tail: float) -> Shifts:
    """The change of the differences between two groups, ``first`` minus ``second``."""
    versions = (first.old, second.old), (first.new, second.new)
    pooled = [pooled_cost(i.value, j.value, i.n, j.n) for i, j in versions]
    contrasts = []
    for way in (-1.0, 1.0):
        (ours, lasting), (theirs, others) = (_parts(side, pooled, way) for side in (first, second))
        contrasts.append(_contrast(ours - theirs, lasting + others))  # what splits share cancels
    old, new = (i.value - j.value for i, j in versions)
    return size_shifts(old, new, *contrasts, tail=tail)


def size_shifts(
    old: FloatArray, new: FloatArray, change: Contrast, total: Contrast, *, tail: float
) -> Shifts:
    """Whether differences grew or shrank in size, whoever is the more exposed.

    |new| > |old| says two things: with the sign of the new, it is above the old and above its
    opposite. Both must be shown, and either sign could have come: twice the larger p-value.
    The bound: |new| - |old| is at most the larger of (new - t old) and (-new - t old) for either
    sign t; the old difference's own sign is taken, and both signs are paid for.
    """
    sign = np.where(old < 0, -1.0, 1.0)
    same = sign * (new - old) + change.half_width(tail / 2)
    turned = -sign * (new + old) + total.half_width(tail / 2)

    def p(sign: FloatArray, way: float) -> FloatArray:
        both = np.maximum(change.upper_p(sign * way), total.upper_p(sign))
        return np.asarray(np.minimum(1.0, 2 * both))

    return Shifts(
        old=old,
        new=new,
        change=np.abs(new) - np.abs(old),
        standard_error=np.sqrt(change.variance),
        most=np.maximum(np.maximum(same, turned), 0.0),
        p_worse_alone=p(np.sign(new), 1.0),
        p_improved_alone=p(np.sign(old), -1.0),
    )


def _contrast(per_split: FloatArray, lasting: FloatArray) -> Contrast:
    """Split error as (split, ...) varies, and as many degrees of freedom (Satterthwaite).

    One row has its split error in ``lasting`` already.
    """
    n, value = len(per_split), np.asarray(per_split.mean(axis=0))
    of_splits = per_split.var(axis=0, ddof=1) / n if n > 1 else np.zeros_like(value)
    variance = of_splits + lasting
    share = np.divide(of_splits, variance, out=np.zeros_like(of_splits), where=variance > 0)
    freedom = np.divide(n - 1.0, share**2, out=np.full_like(of_splits, np.inf), where=share > 0)
    return Contrast(value, variance, freedom)


def _parts(
    both: BothExposed, beside: Sequence[FloatArray | float], way: float
) -> tuple[FloatArray, FloatArray]:
    """New plus ``way`` times old, (split, group), and the variance that splits do not show.

    ``way`` is -1 for the change and 1 for the sum; ``beside``, old and new, are the least costs at
    which people's part is taken. Where two are alike, the one that came out low must not have the
    smaller error: not beside the other group, and not beside the other release.

    The same people add most to a change if others of them are remembered, and to a sum if the same
    are. With shares s and t remembered, the correlation of who it is, is at least
    -sqrt(s t / ((1 - s) (1 - t))) and at most 1.
    """
    old, new = both.old, both.new
    middle = (old.value + new.value) / 2
    costs = [
        cost_in_tests(side.value, np.maximum(middle, least))
        for side, least in zip((old, new), beside, strict=True)
    ]
    people = old.people_part(costs[0]), new.people_part(costs[1])
    shared: FloatArray | float = 0.0
    if both.same_people:
        s, t = (np.clip(cost / both.largest, 0.0, 1.0) for cost in costs)
        others = (1 - s) * (1 - t)
        odds = np.divide(s * t, others, out=np.ones_like(s), where=others > 0)
        correlation = np.sqrt(np.minimum(1.0, odds)) if way < 0 else 1.0
        shared = 2 * correlation * np.sqrt(people[0] * people[1])
    if both.is_paired:
        return new.per_split + way * old.per_split, people[0] + people[1] + shared
    variance = old.variance_at(costs[0]) + new.variance_at(costs[1])
    return (new.value + way * old.value)[None], variance + shared


# Over all settings: tests, bounds and the record


class _Compared(NamedTuple):
    """One setting's changes: arrays over its groups and then its pairs."""

    match: Match
    pairs: tuple[Pair, ...]
    n_paired: int | None
    shifts: Shifts


def _compared(
    before: Measured,
    after: Measured,
    common: tuple[IntArray, IntArray] | None,
    *,
    n_settings: int,
) -> _Compared:
    """One setting; ``common`` are the splits that both have, None where people are not the same."""
    if before.exposed is None or after.exposed is None:
        which, silent = ("old", before) if before.exposed is None else ("new", after)
        raise PlanError(f"the {which} release cannot be compared: {silent.reason}.")
    names, pairs = before.panel.group_names, pairs_of((before.panel,), Plan())
    order = np.array([after.panel.group_names.index(name) for name in names])
    old, new = before.exposed, after.exposed.only(order)
    by_split = old.n_splits == before.panel.n_splits and new.n_splits == after.panel.n_splits
    is_paired = common is not None and by_split and len(common[0]) >= LEAST_PAIRED
    if common is not None and is_paired:
        old = replace(old, per_split=old.per_split[common[0]])
        new = replace(new, per_split=new.per_split[common[1]])
    both = BothExposed(
        old=old,
        new=new,
        same_people=common is not None,
        largest=before.proxy.scale.largest,
        is_paired=is_paired,
    )
    first, second = np.array(pairs, dtype=np.int64).T
    fails = (1 - CONFIDENCE) / n_settings
    parts = (
        group_shifts(both, tail=fails / len(names)),
        pair_shifts(both.only(first), both.only(second), tail=fails / len(pairs)),
    )
    told = before.told & after.told[order]
    is_told = np.concatenate([told, told[first] & told[second]])
    shifts = (
        np.where(is_told, np.concatenate(kinds), np.nan) for kinds in zip(*parts, strict=True)
    )
    match = before.panel, after.panel
    return _Compared(match, pairs, old.n_splits if is_paired else None, Shifts(*shifts))


def _setting_changes(compared: Sequence[_Compared]) -> list[SettingChange]:
    """Every number, the p-values adjusted over all settings, groups and pairs."""
    n_rows = np.cumsum([len(setting.shifts.old) for setting in compared])
    adjusted = (
        np.split(holm(np.concatenate(p)), n_rows[:-1])
        for p in zip(*(setting.shifts[-2:] for setting in compared), strict=True)
    )
    return [_setting_change(*each) for each in zip(compared, *adjusted, strict=True)]


def _setting_change(setting: _Compared, worse: FloatArray, improved: FloatArray) -> SettingChange:
    rows: list[dict[str, Any]] = [
        {name: number(values[k]) for name, values in setting.shifts._asdict().items()}
        | {"p_worse": number(worse[k]), "p_improved": number(improved[k])}
        | {"verdict": ChangeVerdict.of(worse[k], improved[k])}
        for k in range(len(worse))
    ]
    names = setting.match[0].group_names
    old, new = (
        ComparedSetting(model=panel.model, epsilon=_epsilon(panel)) for panel in setting.match
    )
    return SettingChange(
        old=old,
        new=new,
        n_paired=setting.n_paired,
        groups=[GroupChange(group=name, **row) for name, row in zip(names, rows, strict=False)],
        pairs=[
            PairChange(groups=(names[i], names[j]), **row)
            for (i, j), row in zip(setting.pairs, rows[len(names) :], strict=True)
        ],
        verdict=ChangeVerdict.strongest(row["verdict"] for row in rows),
    )
