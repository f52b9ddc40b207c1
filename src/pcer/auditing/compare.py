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

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pcer.auditing import compare_words, measure
from pcer.auditing.checks import check_release, is_random, stated_epsilon, variance_inflation
from pcer.auditing.compare_words import Changes, ChangeVerdict, SettingChange
from pcer.auditing.measure import Exposed, Measured
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.variances import cost_in_tests, pooled_cost
from pcer.auditing.words import listed, short_setting
from pcer.errors import InputError, PlanError
from pcer.metrics import FloatArray, IntArray, quotient
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, panels
from pcer.release.proxies import GAP, Proxy, proxy_named
from pcer.statistics import SIGNIFICANCE, holm

CONFIDENCE: Final = 0.95  # that all upper bounds of one kind hold together
LEAST_PAIRED: Final = 8  # splits from which on the spread of their changes is an error to rely on
# Attacks that more splits make stronger: compared only where both have as many.
BY_SHADOWS: Final = (proxies.LIRA, proxies.LIRA_OFFLINE, proxies.RMIA)

Match = tuple[Panel, Panel]  # a setting of the old release beside one of the new


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
        measured = [
            measure.measure_panel(panel, Plan(), proxy.name, inflation=clumps)
            for panel, clumps in zip(match, inflation, strict=True)
        ]
        common = _common_splits(match, (old, new)) if same_people else None
        compared.append(_changed_rows(measured, common, n_settings=len(matches)))
    changes = _setting_changes(matches, compared)
    train_shares = [
        panel.n_train.mean() / (panel.n_train + panel.n_test).mean() for panel in matches[0]
    ]
    return Changes(
        old=compare_words.ComparedRelease.of(old),
        new=compare_words.ComparedRelease.of(new),
        attribute=old.subject.attribute,
        cost=proxy.name,
        same_people=same_people,
        verdict=ChangeVerdict.strongest(setting.verdict for setting in changes),
        headline=compare_words.headline(changes, proxy),
        account=list(compare_words.account(changes, proxy, same_people, train_shares)),
        settings=changes,
        left_out=left_out,
    )


# Who is compared with whom, and by which attack


def _require_alike(old: Release, new: Release) -> None:
    for release in (old, new):
        if not isinstance(release, Release):
            raise InputError(f"compare takes two releases, not this {type(release).__name__}.")
    for what in ("attribute", "groups", "outcome"):
        before, after = (getattr(release.subject, what) for release in (old, new))
        if what == "groups":
            before, after = (listed(sorted(names)) for names in (before, after))
        if before != after:
            raise InputError(
                f"two releases are compared group by group, but their {what} differ: the old one "
                f"has {before}, the new one {after}.",
                field=what,
            )


def _inflation(release: Release, name: str) -> FloatArray | None:
    """By how much clumps of records widen errors; refuses a release that no test may rest on."""
    if not is_random(release):
        raise InputError(
            f"{name} does not say that its splits are random (training.split_kind), and every "
            "test of a change rests on that."
        )
    against = [finding for finding in check_release(release) if finding.caps_verdict]
    if against:
        raise InputError(
            f"the counts of {name} contradict what it says of its splits, so that nothing can "
            f"be compared: {against[0].sentence}"
        )
    return variance_inflation(release)


def _matches(
    old: Sequence[Panel], new: Sequence[Panel], settings: str | Sequence[str] | None
) -> tuple[list[Match], list[str]]:
    """Settings beside each other, and the names of those that are left out.

    A name may itself hold an =, and "none" at its end is "no-DP".
    """
    sides = [{short_setting(p.model, stated_epsilon(p)): p for p in side} for side in (old, new)]
    names = [listed([repr(name) for name in side]) for side in sides]
    here = "the old one has {}, the new one {}".format(*names)
    if settings is None and len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    asked, left_out = [settings] if isinstance(settings, str) else settings, list[str]()
    if asked is None:
        asked = [name for name in sides[0] if name in sides[1]]
        for which, side in zip(("old", "new"), sides, strict=True):
            left_out += [f"{which}: {name}" for name in side if name not in asked]
    if not asked:
        raise InputError(
            f"no setting is in both releases: {here}; name two that belong together, such as 'A=B'."
        )
    found = []
    for text in asked:
        cuts = [at for at, letter in enumerate(text) if letter == "="]
        names_of = [(text, text), *((text[:at], text[at + 1 :]) for at in cuts)]
        keys = [[re.sub("none$", "no-DP", name.strip()) for name in both] for both in names_of]
        present = [key for key in keys if key[0] in sides[0] and key[1] in sides[1]]
        if not present:
            raise InputError(
                f"the setting {text!r} is not in both releases: {here}; write one of them, or "
                "'A=B' for A of the old and B of the new."
            )
        found.append((sides[0][present[0][0]], sides[1][present[0][1]]))
    return found, left_out


def _choose(matches: Sequence[Match], cost: str | None) -> Proxy:
    """The cost named, or the sharpest that both carry for everyone and that can be compared."""
    sides = [[match[side] for match in matches] for side in (0, 1)]
    as_many = all(old.n_splits == new.n_splits for old, new in matches)
    if cost in (None, SHARPEST):
        for proxy in (*measure.ADVANTAGES[:2], *measure.PAIRED, *measure.ADVANTAGES[2:]):
            is_fair = as_many or proxy not in BY_SHADOWS
            if is_fair and all(measure.is_carried(side, Plan(), proxy) for side in sides):
                return proxy
        return GAP
    named = GAP if cost == GAP.short else proxy_named(str(cost))
    for which, side in zip(("old", "new"), sides, strict=True):
        if not measure.is_carried(side, Plan(), named):
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
    sides = []
    for panel, release in zip(match, releases, strict=True):
        setting, order = (panel.model, panel.epsilon), match[0].group_names
        runs = [run for run in release.runs if (run.model, run.budget) == setting]
        sides.append(
            {
                (run.split, *(run.groups[name].train.n for name in order)): panel.split[row]
                for row, run in enumerate(sorted(runs, key=lambda run: run.seed))
                if run.split is not None
            }
        )
    old, new = sides
    common = [split for split in old if split in new]
    return np.array([old[k] for k in common]), np.array([new[k] for k in common])


# Changes with their errors; arrays over the group or over the pair


@dataclass(frozen=True)
class BothExposed:
    """One setting's exposure as audits measure it, old and new, the same groups in one order."""

    old: Exposed
    new: Exposed
    same_people: bool
    largest: float  # the most that such an exposure can be
    is_paired: bool  # whether both have the same splits, in the same order

    def only(self, groups: IntArray) -> BothExposed:
        """Some groups, or (side, pair) both sides of every pair."""
        return replace(self, old=self.old.only(groups), new=self.new.only(groups))

    def per_split_and_lasting(
        self, way: float, least: Sequence[FloatArray | float] = (0.0, 0.0)
    ) -> tuple[FloatArray, FloatArray]:
        """New plus ``way`` times old, (split, group), and the variance that splits do not show.

        ``way`` is -1 for the change and 1 for the sum; ``least``, old and new, are the least costs
        at which people's part is taken: of two alike, the one that came out low must not have the
        smaller error, neither beside the other group nor beside the other release.

        The same people add most to a change if others of them are remembered, and to a sum if the
        same are. With shares s and t remembered, the correlation of who it is, is at least
        -sqrt(s t / ((1 - s) (1 - t))) and at most 1.
        """
        old, new = self.old, self.new
        middle = (old.value + new.value) / 2
        costs = [
            cost_in_tests(side.value, np.maximum(middle, floor))
            for side, floor in zip((old, new), least, strict=True)
        ]
        people = old.people_part(costs[0]), new.people_part(costs[1])
        shared: FloatArray | float = 0.0
        if self.same_people:
            s, t = (np.clip(cost / self.largest, 0.0, 1.0) for cost in costs)
            others = (1 - s) * (1 - t)
            odds = quotient(s * t, others, otherwise=1.0)
            correlation = np.sqrt(np.minimum(1.0, odds)) if way < 0 else 1.0
            shared = 2 * correlation * np.sqrt(people[0] * people[1])
        if self.is_paired:
            return new.per_split + way * old.per_split, people[0] + people[1] + shared
        variance = old.variance_at(costs[0]) + new.variance_at(costs[1])
        return (new.value + way * old.value)[None], variance + shared


class Contrast(NamedTuple):
    """A change, or a sum, with its error: Student's t, the normal where freedom is infinite."""

    value: FloatArray
    variance: FloatArray
    freedom: FloatArray

    @classmethod
    def of(cls, per_split: FloatArray, lasting: FloatArray) -> Contrast:
        """Split error as (split, ...) varies, and as many degrees of freedom (Satterthwaite).

        One row has its split error in ``lasting`` already.
        """
        n, value = len(per_split), np.asarray(per_split.mean(axis=0))
        of_splits = per_split.var(axis=0, ddof=1) / n if n > 1 else np.zeros_like(value)
        variance = of_splits + lasting
        share = quotient(of_splits, variance, otherwise=0.0)
        freedom = quotient(n - 1.0, share**2, otherwise=np.inf)
        return cls(value, variance, freedom)

    def upper_p(self, sign: FloatArray | float = 1.0) -> FloatArray:
        """One-sided p-value of sign times value against 0; 1 where the error is 0."""
        from scipy.special import stdtr

        error = np.sqrt(self.variance)
        scaled = quotient(sign * self.value, error, otherwise=-np.inf)
        return np.where(np.isfinite(self.value + error), stdtr(self.freedom, -scaled), np.nan)

    def half_width(self, tail: float) -> FloatArray:
        """Distance to an upper bound that fails with probability ``tail``."""
        from scipy.special import stdtrit

        return np.asarray(-stdtrit(self.freedom, tail) * np.sqrt(self.variance))


COLUMNS: Final = (
    *("old", "new", "change", "standard_error", "most"),
    *("p_worse_alone", "p_improved_alone"),
)
# By the name of a field of ``Change``: what is said of each group, or of each pair.
Rows = dict[str, FloatArray]


def group_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of every group's exposure.

    What records change about each other is not the same in two sweeps, so it counts here as in
    the interval of one group (``MUTUAL``); a difference of groups has what they do not share.
    """
    per_split, lasting = both.per_split_and_lasting(-1.0)
    mutual = measure.MUTUAL * (both.old.of_records + both.new.of_records)
    change = Contrast.of(per_split, np.fmax(lasting, mutual))
    values = both.old.value, both.new.value, change.value, np.sqrt(change.variance)
    most = np.maximum(change.value + change.half_width(tail), 0.0)
    return dict(zip(COLUMNS, (*values, most, change.upper_p(), change.upper_p(-1.0)), strict=True))


def pair_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of the differences between two groups; arrays of ``both`` are (side, pair)."""
    sides, contrasts = (both.old, both.new), []
    pooled = [pooled_cost(side.value, side.n) for side in sides]
    for way in (-1.0, 1.0):
        per_split, lasting = both.per_split_and_lasting(way, pooled)
        apart = per_split[:, 0] - per_split[:, 1]  # what splits share cancels
        contrasts.append(Contrast.of(apart, lasting.sum(axis=0)))
    old, new = (side.value[0] - side.value[1] for side in sides)
    return size_rows(old, new, *contrasts, tail=tail)


def size_rows(
    old: FloatArray, new: FloatArray, change: Contrast, total: Contrast, *, tail: float
) -> Rows:
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

    values = old, new, np.abs(new) - np.abs(old), np.sqrt(change.variance)
    most = np.maximum(np.maximum(same, turned), 0.0)
    p_values = p(np.sign(new), 1.0), p(np.sign(old), -1.0)
    return dict(zip(COLUMNS, (*values, most, *p_values), strict=True))


# Over all settings: tests, bounds and the record


def _changed_rows(
    measured: Sequence[Measured], common: tuple[IntArray, IntArray] | None, *, n_settings: int
) -> tuple[Rows, int | None]:
    """One setting's groups and then its pairs, and how many splits were compared one by one.

    ``common`` are the splits that both releases have; None where people are not the same.
    """
    before, after = measured
    if before.exposed is None or after.exposed is None:
        which, silent = ("old", before) if before.exposed is None else ("new", after)
        raise PlanError(f"the {which} release cannot be compared: {silent.reason}.")
    names = before.panel.group_names
    order = np.array([after.panel.group_names.index(name) for name in names])
    old, new = before.exposed, after.exposed.only(order)
    by_split = old.n_splits == before.panel.n_splits and new.n_splits == after.panel.n_splits
    is_paired = common is not None and by_split and len(common[0]) >= LEAST_PAIRED
    if common is not None and is_paired:
        old = replace(old, per_split=old.per_split[common[0]])
        new = replace(new, per_split=new.per_split[common[1]])
    largest, same_people = before.proxy.scale.largest, common is not None
    both = BothExposed(old, new, same_people=same_people, largest=largest, is_paired=is_paired)
    pairs = np.array(measure.pairs_of((before.panel,), Plan()), dtype=np.int64).T
    fails = (1 - CONFIDENCE) / n_settings
    of_groups = group_rows(both, tail=fails / len(names))
    of_pairs = pair_rows(both.only(pairs), tail=fails / len(pairs[0]))
    enough = before.enough & after.enough[order]
    is_enough = np.concatenate([enough, enough[pairs].all(axis=0)])
    return {
        name: np.where(is_enough, np.concatenate([of_groups[name], of_pairs[name]]), np.nan)
        for name in of_groups
    }, old.n_splits if is_paired else None


def _setting_changes(
    matches: Sequence[Match], compared: Sequence[tuple[Rows, int | None]]
) -> list[SettingChange]:
    """Every number, the p-values adjusted over all settings, groups and pairs."""
    columns = {
        name: np.concatenate([rows[name] for rows, _ in compared]) for name in compared[0][0]
    }
    columns |= {name: holm(columns[f"{name}_alone"]) for name in ("p_worse", "p_improved")}
    shown = np.where(columns["p_improved"] <= SIGNIFICANCE, "improved", "cannot_be_told")
    verdicts = map(ChangeVerdict, np.where(columns["p_worse"] <= SIGNIFICANCE, "worse", shown))
    numbers = zip(*(map(measure.number, column) for column in columns.values()), strict=True)
    fields = (dict(zip(columns, row, strict=True)) for row in numbers)
    changes = []
    for (old, new), (_, n_paired) in zip(matches, compared, strict=True):
        names = old.group_names
        pairs = [(names[i], names[j]) for i, j in measure.pairs_of((old,), Plan())]
        rows = [
            compare_words.Change(groups=groups, verdict=next(verdicts), **next(fields))
            for groups in [*((name,) for name in names), *pairs]
        ]
        changes.append(
            SettingChange(
                old=compare_words.ComparedSetting(model=old.model, epsilon=stated_epsilon(old)),
                new=compare_words.ComparedSetting(model=new.model, epsilon=stated_epsilon(new)),
                n_paired=n_paired,
                groups=rows[: len(names)],
                pairs=rows[len(names) :],
                verdict=ChangeVerdict.strongest(row.verdict for row in rows),
            )
        )
    return changes
