"""Is the new model worse than the old one? ``compare(old, new)``.

Two releases of the same attribute and groups, setting by setting: whose exposure rose, which
difference between groups grew, beyond chance; and what could have been missed where nothing did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pcer.auditing.change_words import account, headline
from pcer.auditing.changed import (
    Changes,
    ChangeVerdict,
    ComparedRelease,
    ComparedSetting,
    GroupChange,
    PairChange,
    SettingChange,
    strongest,
)
from pcer.auditing.claims import claims_of
from pcer.auditing.costs import ADVANTAGES, PAIRED, is_carried
from pcer.auditing.declarations import check_declarations
from pcer.auditing.measure import Exposed, Measured, Pair, measure_panel, number, pairs_of
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.shifts import (
    LEAST_PAIRED,
    BothExposed,
    GroupShifts,
    PairShifts,
    group_shifts,
    pair_shifts,
)
from pcer.auditing.words import listed, short_setting
from pcer.errors import InputError, PlanError
from pcer.metrics import FloatArray, IntArray
from pcer.release import GAP, Panel, Proxy, Release, panels, proxies, proxy_named
from pcer.statistics import SIGNIFICANCE, holm

CONFIDENCE: Final = 0.95
"""Of the limits, all of one kind together."""
BY_SHADOWS: Final = (proxies.LIRA, proxies.LIRA_OFFLINE, proxies.RMIA)
"""Attacks that more splits make stronger: compared only where both have as many."""
NO_DP_WORDS: Final = ("none", "no-DP")


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
    for one in (old, new):
        if not isinstance(one, Release):
            raise InputError(f"compare takes two releases, not this {type(one).__name__}.")
    _require_alike(old, new)
    matches, left_out = _matches(panels(old), panels(new), settings)
    chosen = _choose(matches, cost)
    sides = _Side.of(old, "the old release"), _Side.of(new, "the new release")
    found = [_measured(match, sides, chosen) for match in matches]
    return _changes(sides, chosen, found, left_out)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A release that may be compared, and by how much its clumps of records widen errors."""

    release: Release
    inflation: FloatArray | None

    @classmethod
    def of(cls, release: Release, name: str) -> _Side:
        """Refuse what no test may rest on."""
        claims = claims_of(release)
        if not claims.random:
            raise InputError(
                f"{name} does not say that its splits are random (training.split_kind), and every "
                "test of a change rests on that."
            )
        against = [one for one in check_declarations(claims) if one.caps_verdict]
        if against:
            raise InputError(
                f"the counts of {name} contradict what it says of its splits, so that nothing can "
                f"be compared: {against[0].sentence}"
            )
        return cls(release=release, inflation=claims.inflation)

    @property
    def told(self) -> ComparedRelease:
        release = self.release
        return ComparedRelease(
            title=release.title,
            release_sha256=release.sha256,
            data_digest=release.provenance.data_digest,
        )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """One pair of settings with what was measured; groups in the order of the old release."""

    match: tuple[Panel, Panel]
    both: BothExposed
    told: np.ndarray[Any, np.dtype[np.bool_]]
    pairs: tuple[Pair, ...]
    groups: GroupShifts
    differences: PairShifts


def _require_alike(old: Release, new: Release) -> None:
    before, after = old.subject, new.subject
    for what, one, other in (
        ("attribute", before.attribute, after.attribute),
        ("groups", sorted(before.groups), sorted(after.groups)),
        ("outcome", before.outcome, after.outcome),
    ):
        if one != other:
            raise InputError(
                f"two releases are compared group by group, but their {what} differ: the old one "
                f"has {_listed(one)}, the new one {_listed(other)}."
            )


def _listed(value: str | list[str]) -> str:
    return value if isinstance(value, str) else listed(value)


Match = tuple[Panel, Panel]


def _matches(
    old: Sequence[Panel], new: Sequence[Panel], settings: str | Sequence[str] | None
) -> tuple[list[Match], list[str]]:
    """Settings beside each other, and the names of those that are left out."""
    if settings is not None:
        asked = [settings] if isinstance(settings, str) else list(settings)
        return [_asked(old, new, one) for one in asked], []
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    by_key = {(panel.model, panel.epsilon): panel for panel in new}
    both = [(one, by_key[key]) for one in old if (key := (one.model, one.epsilon)) in by_key]
    if not both:
        raise InputError(
            f"no setting is in both releases: the old one has {_names(old)}, the new one "
            f"{_names(new)}; name two that belong together, such as 'A=B'."
        )
    paired = {id(panel) for match in both for panel in match}
    alone = [(which, p) for which, ps in (("old", old), ("new", new)) for p in ps]
    left = [f"{which}: {_name(p)}" for which, p in alone if id(p) not in paired]
    return both, left


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
    """Settings by every way to write them."""
    out: dict[str, Panel] = {}
    for panel in settings:
        epsilon = _epsilon(panel)
        words = NO_DP_WORDS if epsilon is None else (f"{epsilon:g}",)
        own = [f"{panel.model}, {word}" if panel.model else word for word in words]
        for text in (*own, _name(panel), short_setting(panel.model, epsilon)):
            out[text] = panel
    return out


def _epsilon(panel: Panel) -> float | None:
    return None if math.isinf(panel.epsilon) else panel.epsilon


def _name(panel: Panel) -> str:
    return short_setting(panel.model, _epsilon(panel))


def _names(settings: Sequence[Panel]) -> str:
    return listed([repr(_name(panel)) for panel in settings])


def _choose(matches: Sequence[Match], cost: str | None) -> Proxy:
    """The cost named, or the sharpest that both carry for everyone and that can be compared."""
    sides: list[list[Panel]] = [list(side) for side in zip(*matches, strict=True)]
    if cost not in (None, SHARPEST):
        named = GAP if cost == GAP.short else proxy_named(str(cost))
        for which, side in zip(("old", "new"), sides, strict=True):
            if not is_carried(side, Plan(), named):
                raise PlanError(
                    f"the {which} release does not carry {named.name}, with an error, for every "
                    "setting and group; name a cost that both have."
                )
        if not _is_fair(matches, named):
            raise PlanError(
                f"{named.name} calibrates each record by the other splits, and the releases have "
                "different numbers of them: more splits make a stronger attack, not a worse model; "
                "name another cost."
            )
        return named
    return next(
        (
            one
            for one in (*ADVANTAGES[:2], *PAIRED, *ADVANTAGES[2:])
            if _is_fair(matches, one) and all(is_carried(side, Plan(), one) for side in sides)
        ),
        GAP,
    )


def _is_fair(matches: Sequence[Match], cost: Proxy) -> bool:
    same = all(old.n_splits == new.n_splits for old, new in matches)
    return cost not in BY_SHADOWS or same


def _measured(match: Match, sides: tuple[_Side, _Side], cost: Proxy) -> _Found:
    before, after = (
        measure_panel(panel, Plan(), cost.name, inflation=side.inflation)
        for panel, side in zip(match, sides, strict=True)
    )
    order = [match[1].group_names.index(name) for name in match[0].group_names]
    same, by_split = _same_people(*sides), _is_by_split(before) and _is_by_split(after)
    both = BothExposed(
        old=_exposed(before, "old"),
        new=_exposed(after, "new").only(np.array(order)),
        same_people=same,
        largest=cost.scale.largest,
        matched=_matched(match, sides, order) if same and by_split else None,
    )
    pairs = pairs_of((match[0],), Plan())
    first, second = (both.only(np.array(side)) for side in zip(*pairs, strict=True))
    return _Found(
        match=match,
        both=both,
        told=before.told & after.told[order],
        pairs=pairs,
        groups=group_shifts(both),
        differences=pair_shifts(first, second),
    )


def _is_by_split(measured: Measured) -> bool:
    """Whether the cost has a value for each split, and not one over all."""
    exposed = measured.exposed
    return exposed is not None and exposed.n_splits == measured.panel.n_splits


def _exposed(measured: Measured, which: str) -> Exposed:
    if measured.exposed is None:
        raise PlanError(f"the {which} release cannot be compared: {measured.reason}.")
    return measured.exposed


def _same_people(old: _Side, new: _Side) -> bool:
    digests = [side.release.provenance.data_digest for side in (old, new)]
    return digests[0] is not None and digests[0] == digests[1]


def _matched(
    match: Match, sides: tuple[_Side, _Side], order: Sequence[int]
) -> tuple[IntArray, IntArray] | None:
    """Positions of the splits of the same name and sizes; None where they are too few."""
    before, after = (
        _split_sizes(panel, side.release) for panel, side in zip(match, sides, strict=True)
    )
    common = [
        name
        for name, (_, sizes) in before.items()
        if name in after and np.array_equal(sizes, after[name][1][order])
    ]
    if len(common) < LEAST_PAIRED:
        return None
    first, second = (np.array([one[name][0] for name in common]) for one in (before, after))
    return first, second


def _split_sizes(panel: Panel, release: Release) -> dict[str | int, tuple[int, FloatArray]]:
    """By the name of a split, its number and how many of each group it trains on."""
    names = {run.seed: run.split for run in release.runs if _is_of(run.model, run.budget, panel)}
    out: dict[str | int, tuple[int, FloatArray]] = {}
    for row, seed in enumerate(panel.seeds):
        if (name := names[seed]) is not None:
            out.setdefault(name, (int(panel.split[row]), panel.n_train[row]))
    return out


def _is_of(model: str | None, budget: float, panel: Panel) -> bool:
    return (model, budget) == (panel.model, panel.epsilon)


def _changes(
    sides: tuple[_Side, _Side], cost: Proxy, found: Sequence[_Found], left_out: list[str]
) -> Changes:
    settings = _settings(found)
    same = _same_people(*sides)
    rows = [row for one in settings for row in one.rows]
    return Changes(
        old=sides[0].told,
        new=sides[1].told,
        attribute=sides[0].release.subject.attribute,
        cost=cost.name,
        same_people=same,
        verdict=strongest(row.verdict for row in rows),
        headline=headline(settings, cost),
        account=list(account(cost, settings, same_people=same, shares=_shares(found[0].match))),
        settings=settings,
        left_out=left_out,
    )


def _shares(match: Match) -> tuple[float, float]:
    """Of the records that old and new models were trained on."""
    old, new = (
        float(panel.n_train.mean() / (panel.n_train + panel.n_test).mean()) for panel in match
    )
    return old, new


def _settings(found: Sequence[_Found]) -> list[SettingChange]:
    """Every number, the p-values adjusted over all of them."""
    alone = [_alone(one) for one in found]
    worse, improved = (holm(np.concatenate([p[k] for p in alone])) for k in range(2))
    n_groups = sum(len(one.told) for one in found)
    n_pairs = sum(len(one.pairs) for one in found)
    tails = (1 - CONFIDENCE) / n_groups, (1 - CONFIDENCE) / n_pairs
    out, at = [], 0
    for one, p in zip(found, alone, strict=True):
        n = len(p[0])
        adjusted = worse[at : at + n], improved[at : at + n]
        out.append(_setting(one, p, adjusted, tails))
        at += n
    return out


Ps = tuple[FloatArray, FloatArray]
"""p-values of "worse" and of "improved", over the groups and then the pairs of a setting."""


def _alone(one: _Found) -> Ps:
    first, second = np.array(one.pairs, dtype=np.int64).T
    told = np.concatenate([one.told, one.told[first] & one.told[second]])
    shifts = one.groups, one.differences
    worse = np.concatenate([shift.p_worse for shift in shifts])
    improved = np.concatenate([shift.p_improved for shift in shifts])
    return np.where(told, worse, np.nan), np.where(told, improved, np.nan)


def _setting(one: _Found, alone: Ps, adjusted: Ps, tails: tuple[float, float]) -> SettingChange:
    groups = [_group(one, g, alone, adjusted, tails[0]) for g in range(len(one.told))]
    pairs = [_pair(one, k, alone, adjusted, tails[1]) for k in range(len(one.pairs))]
    verdicts = [*(row.verdict for row in groups), *(row.verdict for row in pairs)]
    old, new = (ComparedSetting(model=panel.model, epsilon=_epsilon(panel)) for panel in one.match)
    matched = one.both.matched
    return SettingChange(
        old=old,
        new=new,
        n_paired=None if matched is None else len(matched[0]),
        groups=groups,
        pairs=pairs,
        verdict=strongest(verdicts),
    )


def _group(one: _Found, g: int, alone: Ps, adjusted: Ps, tail: float) -> GroupChange:
    shifts, told = one.groups, bool(one.told[g])
    return GroupChange(
        group=one.match[0].group_names[g],
        old=number(shifts.old[g]) if told else None,
        new=number(shifts.new[g]) if told else None,
        change=number(shifts.change.value[g]) if told else None,
        standard_error=number(np.sqrt(shifts.change.variance[g])) if told else None,
        most=number(shifts.most(tail)[g]) if told else None,
        **_tested(alone, adjusted, g),
    )


def _pair(one: _Found, k: int, alone: Ps, adjusted: Ps, tail: float) -> PairChange:
    shifts, names = one.differences, one.match[0].group_names
    i, j = one.pairs[k]
    told = bool(one.told[i] and one.told[j])
    return PairChange(
        groups=(names[i], names[j]),
        old=number(shifts.old[k]) if told else None,
        new=number(shifts.new[k]) if told else None,
        change=number(abs(shifts.new[k]) - abs(shifts.old[k])) if told else None,
        standard_error=number(np.sqrt(shifts.change.variance[k])) if told else None,
        most=number(shifts.most(tail)[k]) if told else None,
        **_tested(alone, adjusted, len(one.told) + k),
    )


def _tested(alone: Ps, adjusted: Ps, at: int) -> dict[str, Any]:
    """The p-values of one row and what follows from them."""
    worse, improved = (bool(p[at] <= SIGNIFICANCE) for p in adjusted)
    return {
        "p_worse": number(adjusted[0][at]),
        "p_worse_alone": number(alone[0][at]),
        "p_improved": number(adjusted[1][at]),
        "p_improved_alone": number(alone[1][at]),
        "verdict": ChangeVerdict.WORSE
        if worse
        else ChangeVerdict.IMPROVED
        if improved
        else ChangeVerdict.CANNOT_BE_TOLD,
    }
