"""Is the new model worse than the old one?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from os import PathLike
from typing import Final, Literal, get_args

import numpy as np

from pcer.auditing.record import Result
from pcer.auditing.sentences.telling import Axis
from pcer.errors import InputError
from pcer.files import Record
from pcer.measuring import measure
from pcer.measuring.checks.arrays import Facts, is_random, stated_epsilon
from pcer.measuring.checks.table import check_release
from pcer.measuring.choose_attacks import Match, choose_attack
from pcer.measuring.contrasts import ChangedRows, changed_rows, joined
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray, IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import Proxy
from pcer.release.file import Release
from pcer.release.panel import Panel, panels
from pcer.release.reading import release_at
from pcer.statistics import SIGNIFICANCE, holm
from pcer.wording import (
    capital,
    in_setting,
    listed,
    say,
    setting_called,
    setting_name,
    short_setting,
)

MOST_NAMED: Final = 3  # changes that a headline names
# Difference of the shares trained on from which on the account mentions it.
SHARES_DIFFER: Final = 0.01
Given = Release | str | PathLike[str]  # a release, its path, or a folder that has one
Wanted = str | float | Sequence[str | float] | None  # settings as users name them


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
    require_alike(old, new)
    matches, left_out = matched_settings(panels(old), panels(new), settings)
    proxy = choose_attack(matches, cost)
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
        compared.append(changed_rows(measured, common, n_settings=len(matches)))
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


def require_alike(old: Release, new: Release) -> None:
    """Raise InputError unless both are of one attribute, its groups and one outcome."""
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


def matched_settings(
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


def _setting_changes(
    matches: Sequence[Match], compared: Sequence[ChangedRows]
) -> list[SettingChange]:
    """Every number, the p-values adjusted over all settings, groups, pairs and both axes."""
    columns = joined([changed.rows for changed in compared])._asdict()
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
    scale = cost.scale if row.axis == "exposure" else attack_kinds.ACCURACY
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
        amount = attack_kinds.ACCURACY.difference(max(gaps, default=0.0))
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
