"""Is the new model worse than the old one? ``compare(old, new)``; of several, ``trend``.

Two releases of the same attribute and groups, setting by setting: whose exposure rose,
which gap of exposures or outcomes grew, beyond chance; and upper bounds of what could
have been missed.

Every change is about people like these. For the same splits, split error is estimated
from how the changes vary over splits (Student's t). The models may memorise the same
people or others: counts do not say which, so others are taken. `python -m
benchmarks.alarms comparisons` counts false alarms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from os import PathLike
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from pcer.auditing import measure
from pcer.auditing.audit import audit
from pcer.auditing.checks import Facts, check_release, is_random, stated_epsilon
from pcer.auditing.file import Audit, BudgetResult, Result
from pcer.auditing.measure import Exposed, Measured
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.planner import release_at
from pcer.auditing.variances import cost_in_tests, pooled_cost
from pcer.auditing.words import (
    Axis,
    capital,
    in_setting,
    listed,
    say,
    setting_called,
    setting_name,
    short_setting,
)
from pcer.errors import InputError, PlanError, door
from pcer.files import Record
from pcer.metrics import FloatArray, IntArray, quotient
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, carried_costs, panels
from pcer.release.proxies import GAP, Proxy, attack_named, proxy_named
from pcer.statistics import SIGNIFICANCE, holm

CONFIDENCE: Final = 0.95  # that all upper bounds of one kind hold together
LEAST_PAIRED: Final = (
    8  # splits from which on the spread of their changes is a reliable error
)
MOST_NAMED: Final = 3  # changes that a headline names
# Difference of the shares trained on from which on the account mentions it.
SHARES_DIFFER: Final = 0.01

Given = Release | str | PathLike[str]  # a release, its path, or a folder that has one
Wanted = str | float | Sequence[str | float] | None  # settings as users name them
Match = tuple[Panel, ...]  # a setting of the old release beside one of the new


class ChangeVerdict(StrEnum):
    """What can be said of a change."""

    WORSE = "worse"
    IMPROVED = "improved"
    CANNOT_BE_TOLD = "cannot_be_told"
    SAME_RELEASE = "same_release"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        is_open = self is ChangeVerdict.CANNOT_BE_TOLD
        return "no change shown" if is_open else self.value.replace("_", " ")

    @classmethod
    def strongest(cls, verdicts: Iterable[ChangeVerdict]) -> ChangeVerdict:
        """Worse before improved, and that before no change shown."""
        given = set(verdicts)
        return next(verdict for verdict in cls if verdict in given)


class ComparedRelease(Record):
    """One of the two releases."""

    title: str
    release_sha256: str
    data_digest: str | None


class ComparedSetting(Record):
    """A model and a budget; None is a model without a name, or without differential privacy."""

    model: str | None
    epsilon: float | None


class Change(Record):
    """One group's exposure, or the difference of two (first minus second), for people like these.

    Attributes:
        axis: exposure; or outcomes, of which only differences are tested.
        groups: one name, or two.
        change: new minus old; of a difference that of its size, positive where they
            grew apart.
        standard_error: of new minus old.
        most: most that it may have risen, or its size grown, all of a kind at once.
        p_worse: of "it rose", adjusted over all that is tested; ``p_worse_alone`` is
            not.
        p_improved: of "it fell", likewise.
    """

    axis: Axis
    groups: tuple[str, ...]
    old: float | None
    new: float | None
    change: float | None
    standard_error: float | None
    most: float | None
    p_worse: float | None
    p_worse_alone: float | None
    p_improved: float | None
    p_improved_alone: float | None
    verdict: ChangeVerdict


class SettingChange(Record):
    """One setting of the old release beside one of the new.

    Attributes:
        n_paired: splits that both have, change by change; None where errors are added
            instead.
    """

    old: ComparedSetting
    new: ComparedSetting
    n_paired: int | None
    groups: list[Change]
    pairs: list[Change]
    outcomes: list[Change]
    verdict: ChangeVerdict

    @property
    def name(self) -> str:
        """The setting; of two different ones, both."""
        old, new = (
            setting_name(side.model, side.epsilon) for side in (self.old, self.new)
        )
        return new if old == new else f"{old} → {new}"

    @property
    def rows(self) -> list[Change]:
        """Everything that was tested."""
        return [*self.groups, *self.pairs, *self.outcomes]


class Changes(Result):
    """The result of ``pcer.compare``.

    Attributes:
        cost: the attack that measures exposure in both.
        same_people: whether both releases say that they are of the same records.
        verdict: worse if anything is; else improved if anything is; or the same
            release.
        headline: what changed, in exposure and in outcomes.
        account: what it rests on.
        left_out: settings that only one of the two has.
    """

    format: Literal["pcer-comparison"] = "pcer-comparison"
    version: Literal[2] = 2
    old: ComparedRelease
    new: ComparedRelease
    attribute: str
    cost: str
    same_people: bool
    verdict: ChangeVerdict
    headline: str
    account: list[str]
    settings: list[SettingChange]
    left_out: list[str]

    @property
    def title(self) -> str:
        """Titles of the old and the new release, and the verdict."""
        return f"{self.old.title} → {self.new.title}: {self.verdict.words}"


@door()
def compare(
    old: Given,
    new: Given,
    *,
    cost: str | None = None,
    settings: Wanted = None,
) -> Changes:
    """Is the new model's exposure, or a difference between groups, worse beyond chance?

    Differences are those of exposures and of outcomes. Every test is one-sided, about
    people like these. Over everything tested the chance that anything is called worse
    where nothing got worse is at most 5% (Holm), and so for improved. Splits of both
    are paired, of the same data digest.

    Args:
        old: the release to compare with, or its path.
        new: the one that may be worse; of the same attribute, groups and outcome.
        cost: the attack; by default the strongest that both carry.
        settings: which to compare, such as "forest, none" or "0.5"; "A=B" is A of the
            old one with B of the new. By default those that both have, or the only one
            of each.

    Raises:
        InputError: the two cannot be compared; one sentence says why.
        PlanError: the attack is not in both.
    """
    old = release_at(old)
    new = release_at(new)
    _require_alike(old, new)
    matches, left_out = _matches(panels(old), panels(new), settings)
    proxy = _choose(matches, cost)
    inflation = (
        usable_inflation(old, "the old release"),
        usable_inflation(new, "the new release"),
    )
    before, after = (
        ComparedRelease(
            title=each.title,
            release_sha256=each.sha256,
            data_digest=each.provenance.data_digest,
        )
        for each in (old, new)
    )
    same_people = (
        before.data_digest is not None and before.data_digest == after.data_digest
    )
    compared = []
    for match in matches:
        measured = [
            measure.measure_panel(panel, Plan(), proxy.name, inflation=clumps)
            for panel, clumps in zip(match, inflation, strict=True)
        ]
        common = _common_splits(match, (old, new)) if same_people else None
        compared.append(_changed_rows(measured, common, n_settings=len(matches)))
    changes = _setting_changes(matches, compared)
    verdict = ChangeVerdict.strongest(setting.verdict for setting in changes)
    if old.sha256 == new.sha256 and all(each.old == each.new for each in changes):
        verdict = ChangeVerdict.SAME_RELEASE
    shares = [
        each.n_train.mean() / (each.n_train + each.n_test).mean() for each in matches[0]
    ]
    return Changes(
        old=before,
        new=after,
        attribute=old.subject.attribute,
        cost=proxy.name,
        same_people=same_people,
        verdict=verdict,
        headline=_headline(verdict, changes, proxy),
        account=list(_account(changes, proxy, same_people, shares)),
        settings=changes,
        left_out=left_out,
    )


# Who is compared with whom, and by which attack


def _require_alike(old: Release, new: Release) -> None:
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


def usable_inflation(release: Release, name: str) -> FloatArray | None:
    """Variance inflation by clustered records; refuses a release that no test can use."""
    if not is_random(release):
        raise InputError(
            f"{name} does not say that its splits are random (training.split_kind), which every "
            "test needs."
        )
    if against := [
        finding for finding in check_release(release) if finding.caps_verdict
    ]:
        raise InputError(
            f"the counts of {name} contradict what it says of its splits, so that nothing can "
            f"be compared: {against[0].sentence}"
        )
    return release.kept(Facts).inflation


def _matches(
    old: Sequence[Panel], new: Sequence[Panel], settings: Wanted
) -> tuple[list[Match], list[str]]:
    """Settings beside each other, and names of those left out; a name may itself hold an =."""
    sides = [
        {short_setting(p.model, stated_epsilon(p)): p for p in side}
        for side in (old, new)
    ]
    has = (listed([repr(name) for name in side]) for side in sides)
    here = "the old one has {}, the new one {}".format(*has)
    if settings is None and len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    keys = [
        [(each.model, stated_epsilon(each)) for each in side] for side in (old, new)
    ]
    asked = [settings] if isinstance(settings, str | int | float) else settings
    left_out = list[str]()
    if asked is None:
        asked = [name for name in sides[0] if name in sides[1]]
        for which, side in zip(("old", "new"), sides, strict=True):
            left_out += [f"{which}: {name}" for name in side if name not in asked]
    if not asked:
        raise InputError(
            f"no setting is in both releases: {here}; name two that belong together, such as 'A=B'."
        )
    found = list[Match]()
    for text in map(str, asked):
        halves = (
            (text[: at.start()], text[at.end() :]) for at in re.finditer("=", text)
        )
        places = (map(setting_called, both, keys) for both in [(text, text), *halves])
        present = [
            (old[a], new[b]) for a, b in places if a is not None and b is not None
        ]
        if not present:
            raise InputError(
                f"the setting {text!r} is not in both releases: {here}; write one of them, or "
                "'A=B' for A of the old and B of the new."
            )
        found += present[:1]
    return found, left_out


def _choose(matches: Sequence[Match], cost: str | None) -> Proxy:
    """The attack named, or the strongest comparable one that all carry for everyone."""
    sides = [*zip(*matches, strict=True)]
    sizes = (
        {(panel.n_splits, len(panel.seeds)) for panel in match} for match in matches
    )
    as_many = all(len(size) == 1 for size in sizes)
    if cost in (None, SHARPEST):
        for proxy in (
            *measure.ADVANTAGES[:2],
            *measure.PAIRED,
            *measure.ADVANTAGES[2:],
        ):
            is_fair = as_many or proxy not in proxies.BY_SHADOWS
            if is_fair and all(
                measure.is_carried(side, Plan(), proxy) for side in sides
            ):
                return proxy
        return GAP
    named = proxy_named(attack_named(str(cost), carried_costs(chain(*sides))))
    for n, side in enumerate(sides, 1):
        if not measure.is_carried(side, Plan(), named):
            raise PlanError(
                f"release {n} of {len(sides)} does not carry {named.name}, with an error, for "
                "every setting and group; name an attack that all have."
            )
    if named in proxies.BY_SHADOWS and not as_many:
        raise PlanError(
            f"{named.name} calibrates each record by the other models, and the releases have "
            "different numbers of them: more splits make a stronger attack, not a worse model; "
            "name another attack."
        )
    return named


def _common_splits(
    match: Match, releases: tuple[Release, Release]
) -> tuple[IntArray, IntArray]:
    """Positions, in the old setting and in the new, of the splits of the same name and sizes."""
    sides = []
    for panel, release in zip(match, releases, strict=True):
        runs = next(
            each.runs for each in release.kept(Facts).settings if each.panel is panel
        )
        sides.append(
            {
                (
                    run.split,
                    *(run.groups[name].train.n for name in match[0].group_names),
                ): split
                for run, split in zip(runs, panel.split, strict=True)
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

        ``way`` is -1 for the change and 1 for the sum; ``least``, old and new, are the
        least costs at which people's part is taken: of two alike, the one that came out
        low must not have the smaller error, neither beside the other group nor beside
        the other release.

        The same people add most to a change if others of them are remembered, and to a
        sum if the same are. With shares s and t remembered, the correlation of who it
        is, is at least -sqrt(s t / ((1 - s) (1 - t))) and at most 1.
        """
        old = self.old
        new = self.new
        middle = (old.value + new.value) / 2
        costs = [
            cost_in_tests(side.value, np.maximum(middle, floor))
            for side, floor in zip((old, new), least, strict=True)
        ]
        people = old.people_part(costs[0]), new.people_part(costs[1])
        shared: FloatArray | float = 0.0
        if self.same_people:
            s, t = (np.clip(cost / self.largest, 0.0, 1.0) for cost in costs)
            odds = quotient(s * t, (1 - s) * (1 - t), otherwise=1.0)
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
        n = len(per_split)
        value = np.asarray(per_split.mean(axis=0))
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
        return np.where(
            np.isfinite(self.value + error), stdtr(self.freedom, -scaled), np.nan
        )

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

    What records change about each other is not the same in two sweeps, so it counts
    here as in the interval of one group (``MUTUAL``); a difference of groups has what
    they do not share.
    """
    per_split, lasting = both.per_split_and_lasting(-1.0)
    mutual = measure.MUTUAL * (both.old.of_records + both.new.of_records)
    change = Contrast.of(per_split, np.fmax(lasting, mutual))
    values = both.old.value, both.new.value, change.value, np.sqrt(change.variance)
    most = np.maximum(change.value + change.half_width(tail), 0.0)
    return dict(
        zip(
            COLUMNS,
            (*values, most, change.upper_p(), change.upper_p(-1.0)),
            strict=True,
        )
    )


def pair_rows(both: BothExposed, *, tail: float) -> Rows:
    """The change of the differences between two groups; arrays of ``both`` are (side, pair)."""
    sides = (both.old, both.new)
    contrasts = []
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
    """Whether differences grew or shrank in size, whichever group is the more exposed.

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
    measured: Sequence[Measured],
    common: tuple[IntArray, IntArray] | None,
    *,
    n_settings: int,
) -> tuple[Rows, int | None]:
    """One setting's groups, pairs and outcomes, and how many splits were compared one by one.

    ``common`` are the splits that both releases have; None where people are not the
    same.
    """
    before, after = measured
    if before.exposed is None or after.exposed is None:
        which, silent = ("old", before) if before.exposed is None else ("new", after)
        raise PlanError(f"the {which} release cannot be compared: {silent.reason}.")
    names = before.panel.group_names
    order = np.array([after.panel.group_names.index(name) for name in names])
    old = before.exposed
    new = after.exposed
    is_paired = False
    by_split = before.exposed_by_split(), after.exposed_by_split()
    if (
        common is not None
        and len(common[0]) >= LEAST_PAIRED
        and by_split[0]
        and by_split[1]
    ):
        is_paired = True
        old = replace(by_split[0], per_split=by_split[0].per_split[common[0]])
        new = replace(by_split[1], per_split=by_split[1].per_split[common[1]])
    largest = before.proxy.scale.largest
    same_people = common is not None
    both = BothExposed(
        old, new.only(order), same_people, largest=largest, is_paired=is_paired
    )
    pairs = np.array(measure.pairs_of((before.panel,), Plan()), dtype=np.int64).T
    fails = (1 - CONFIDENCE) / n_settings
    of_groups = group_rows(both, tail=fails / len(names))
    of_pairs = pair_rows(both.only(pairs), tail=fails / len(pairs[0]))
    # Outcome rates in the form of exposures, with all of their error in one number.
    rates = [
        replace(
            side,
            per_split=at.received.mean(axis=0)[None],
            one_split=at.received_variance,
        )
        for at, side in zip(measured, (before.exposed, after.exposed), strict=True)
    ]
    old, new = (replace(rate, people=None) for rate in rates)
    served = BothExposed(
        old, new.only(order), same_people, largest=1.0, is_paired=False
    )
    of_outcomes = pair_rows(served.only(pairs), tail=fails / len(pairs[0]))
    enough = before.enough & after.enough[order]
    is_enough = np.concatenate(
        [enough, enough[pairs].all(axis=0), [True] * len(pairs[0])]
    )
    parts = (of_groups, of_pairs, of_outcomes)
    return {
        name: np.where(
            is_enough, np.concatenate([part[name] for part in parts]), np.nan
        )
        for name in COLUMNS
    }, both.old.n_splits if is_paired else None


def _setting_changes(
    matches: Sequence[Match], compared: Sequence[tuple[Rows, int | None]]
) -> list[SettingChange]:
    """Every number, the p-values adjusted over all settings, groups, pairs and both axes."""
    columns = {
        name: np.concatenate([rows[name] for rows, _ in compared]) for name in COLUMNS
    }
    columns |= {
        name: holm(columns[f"{name}_alone"]) for name in ("p_worse", "p_improved")
    }
    shown = np.where(
        columns["p_improved"] <= SIGNIFICANCE, "improved", "cannot_be_told"
    )
    verdicts = map(
        ChangeVerdict, np.where(columns["p_worse"] <= SIGNIFICANCE, "worse", shown)
    )
    numbers = zip(
        *(map(measure.number, column) for column in columns.values()), strict=True
    )
    fields = (dict(zip(columns, row, strict=True)) for row in numbers)
    changes = []
    for (old, new), (_, n_paired) in zip(matches, compared, strict=True):
        names = old.group_names
        pairs = [(names[i], names[j]) for i, j in measure.pairs_of((old,), Plan())]
        about: list[tuple[Axis, tuple[str, ...]]] = [
            ("exposure", (name,)) for name in names
        ]
        about += [(axis, pair) for axis in get_args(Axis) for pair in pairs]
        rows = [
            Change(axis=axis, groups=groups, verdict=next(verdicts), **next(fields))
            for axis, groups in about
        ]
        changes.append(
            SettingChange(
                old=ComparedSetting(model=old.model, epsilon=stated_epsilon(old)),
                new=ComparedSetting(model=new.model, epsilon=stated_epsilon(new)),
                n_paired=n_paired,
                groups=rows[: len(names)],
                pairs=rows[len(names) : -len(pairs)],
                outcomes=rows[-len(pairs) :],
                verdict=ChangeVerdict.strongest(row.verdict for row in rows),
            )
        )
    return changes


# In words


def _headline(
    verdict: ChangeVerdict, settings: Sequence[SettingChange], cost: Proxy
) -> str:
    """What changed on each axis, the worse one first; or the most that may be missed."""
    if verdict is ChangeVerdict.SAME_RELEASE:
        return say("compare", "same_release")
    found: list[tuple[int, str]] = []
    for axis in get_args(Axis):
        rows = [
            (each, row) for each in settings for row in each.rows if row.axis == axis
        ]
        told = ChangeVerdict.strongest(row.verdict for _, row in rows)
        several = len(settings) > 1
        sentence = _missed(settings, cost, axis)
        if told is not ChangeVerdict.CANNOT_BE_TOLD:
            at = [
                worded(row, each.new, cost, several)
                for each, row in rows
                if row.verdict is told
            ]
            more = f"; and {len(at) - MOST_NAMED} more" if len(at) > MOST_NAMED else ""
            sentence = f"{capital(told.words)}: {'; '.join(at[:MOST_NAMED])}{more}."
        found.append(([*ChangeVerdict].index(told), sentence))
    return " ".join(sentence for _, sentence in sorted(found, key=lambda each: each[0]))


def _account(
    settings: Sequence[SettingChange],
    cost: Proxy,
    same_people: bool,
    train_shares: Sequence[float],
) -> Iterator[str]:
    """What it rests on, in sentences; ``train_shares`` of the records of old and new models."""
    if any(setting.verdict is not ChangeVerdict.CANNOT_BE_TOLD for setting in settings):
        yield _missed(settings, cost, "exposure", "In all settings")
    yield say("compare", "measured", attack=cost.phrase)
    paired = [setting.n_paired for setting in settings if setting.n_paired is not None]
    shared = "splits" if paired else "people" if same_people else "nothing"
    yield say("compare", shared, n=min(paired, default=0))
    if paired and len(paired) < len(settings):
        yield say("compare", "not_all", n=len(paired), of=len(settings))
    old, new = train_shares
    if abs(old - new) > SHARES_DIFFER:
        yield say("compare", "shares", old=f"{100 * old:.0f}", new=f"{100 * new:.0f}")


def worded(row: Change, at: ComparedSetting, cost: Proxy, several: bool) -> str:
    """One change: an exposure that rose or fell, or a difference that grew or shrank."""
    old = row.old or 0.0
    new = row.new or 0.0
    scale = cost.scale if row.axis == "exposure" else proxies.ACCURACY
    where = f" {in_setting(at.model, at.epsilon)}" if several else ""
    facts = {
        "groups": listed(row.groups),
        "where": where,
        "unit": scale.said + scale.coin,
    }
    if len(row.groups) == 1:
        sizes = {"old": scale.hundredths(old), "new": scale.hundredths(new)}
        return say("compare", "rose" if new > old else "fell", **facts, **sizes)
    sizes = {"old": scale.difference(abs(old)), "new": scale.difference(abs(new))}
    facts |= {"unit": scale.points, "what": say("compare", f"the_{row.axis}")}
    return say("compare", "grew" if abs(new) > abs(old) else "shrank", **facts, **sizes)


def _missed(
    settings: Sequence[SettingChange],
    cost: Proxy,
    axis: Axis,
    start: str = "No change shown",
) -> str:
    """By how much exposure may have risen, and differences may have grown."""
    risen, grown, gaps = (
        [
            row.most
            for setting in settings
            for row in getattr(setting, kind)
            if row.most is not None
        ]
        for kind in ("groups", "pairs", "outcomes")
    )
    if axis == "outcomes":
        amount = proxies.ACCURACY.difference(max(gaps, default=0.0))
        return say(
            "compare", "missed_outcomes" if gaps else "no_outcomes", grown=amount
        )
    if not risen:
        return say("compare", "too_few")
    most, apart = (
        cost.scale.difference(max(each, default=0.0)) for each in (risen, grown)
    )
    facts = {"start": start, "risen": most, "grown": apart, "unit": cost.scale.points}
    return say("compare", "missed" if grown else "missed_groups", **facts)


# Several versions


class Trend(Result):
    """The result of ``pcer.trend``: versions of one model, the oldest first.

    Attributes:
        cost: the attack that measures exposure in all versions.
        change: from the first to the last; the steps between them are not tested.
        versions: the audit of each.
        positions: of the setting in each audit.
    """

    format: Literal["pcer-trend"] = "pcer-trend"
    version: Literal[1] = 1
    cost: str
    change: Changes
    versions: list[Audit]
    positions: list[int]

    @property
    def settings(self) -> list[BudgetResult]:
        """The setting in every version."""
        pairs = zip(self.versions, self.positions, strict=True)
        return [audit.budgets[position] for audit, position in pairs]

    @property
    def title(self) -> str:
        """How many versions of what, and the verdict."""
        of = self.change.old.title
        setting = self.change.settings[0].name
        return f"{len(self.versions)} versions of {of}, {setting}: {self.change.verdict.words}"


@door()
def trend(
    *releases: Given | Sequence[Given],
    cost: str | None = None,
    setting: str | float | None = None,
) -> Trend:
    """Audit versions of one model, the oldest first: is the last worse than the first?

    Args:
        releases: two or more, or their paths, or a list of them, in the order of time;
            of the same attribute, groups and outcome.
        cost: the attack; by default the strongest that all carry.
        setting: one that all have, such as "0.5". By default the least private of
            these.

    Raises:
        InputError: they cannot be compared; one sentence says why.
        PlanError: the attack is not in all.
    """
    lists = (each if isinstance(each, list | tuple) else [each] for each in releases)
    given = [release_at(each) for each in chain(*lists)]
    if len(given) < 2:
        raise InputError(
            "a trend needs two or more releases, the oldest first.", field="releases"
        )
    (first, *later) = given
    found = dict[Panel, list[Panel]]()
    for each in later:
        _require_alike(first, each)
        for old, new in _matches(panels(first), panels(each), setting)[0]:
            found.setdefault(old, [old]).append(new)
    in_all = [tuple(match) for match in found.values() if len(match) == len(given)]
    if not in_all:
        raise InputError(
            "no setting is in all releases; compare two of them.", field="setting"
        )
    match = max(in_all, key=lambda match: match[0].epsilon)
    names = [short_setting(panel.model, stated_epsilon(panel)) for panel in match]
    both = f"{names[0]}={names[-1]}"
    proxy = _choose([match], cost)
    change = compare(first, later[-1], cost=proxy.name, settings=both)
    audits = [audit(release) for release in given]
    if {each.cost for each in audits} != {
        proxy.name
    }:  # numbers of another attack tell no trend
        audits = [audit(release, cost=proxy.name) for release in given]
    positions = [
        panels(each).index(panel) for each, panel in zip(given, match, strict=True)
    ]
    return Trend(cost=proxy.name, change=change, versions=audits, positions=positions)
