"""Is the new model worse than the old one?

Called by ``pcer.compare`` and ``pcer compare``; ``trend`` compares the last of several
versions with the first.

Two releases of the same attribute and groups are compared setting by setting: whose
exposure rose, and which gap of exposures or outcomes grew, beyond chance; and how large
a change could have been missed. Every change is about people like these. Of the same
splits the error is estimated from how the changes vary over splits (Student's t).
Counts do not say whether both models memorise the same people, so others are assumed
(``measuring/contrasts``). ``python -m benchmarks.alarms comparisons`` counts false
alarms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from pcer.auditing.record import Result
from pcer.auditing.sentences.telling import Axis
from pcer.deciding.matching import (
    Wanted,
    matched_settings,
    require_alike,
    usable_inflation,
)
from pcer.files import Record
from pcer.measuring import choose_attacks, exposure
from pcer.measuring.checks.arrays import (
    ReleaseArrays,
    SplitName,
    stated_epsilon,
)
from pcer.measuring.choose_attacks import Match, choose_attack
from pcer.measuring.contrasts import ChangedRows, changed_rows, joined
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray, IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind
from pcer.release.file import Release
from pcer.release.panel import Panel, panels
from pcer.release.reading import release_at
from pcer.statistics import SIGNIFICANCE, finite_or_none, holm
from pcer.wording import (
    SettingName,
    capital,
    listed,
    say,
)

MOST_NAMED: Final = 3  # changes that a headline names
# Difference of the shares trained on from which on the account mentions it.
SHARES_DIFFER: Final = 0.01
# A split by its name and the sizes of the groups' training parts.
SplitOfSizes = tuple[SplitName, tuple[int | None, ...]]
Given = Release | str | PathLike[str]  # a release, its path, or a folder that has one


class ChangeVerdict(StrEnum):
    """What can be said of a change."""

    WORSE = "worse"
    IMPROVED = "improved"
    CANNOT_BE_TOLD = "cannot_be_told"
    SAME_RELEASE = "same_release"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        if self is ChangeVerdict.CANNOT_BE_TOLD:
            return "no change shown"
        return self.value.replace("_", " ")

    @classmethod
    def strongest(cls, verdicts: Iterable[ChangeVerdict]) -> ChangeVerdict:
        """Worse before improved, and that before no change shown."""
        return min(verdicts, key=[*cls].index)


class ComparedRelease(Record):
    """One of the two releases."""

    title: str
    release_sha256: str
    data_digest: str | None


class ComparedSetting(Record):
    """A model and its epsilon.

    None stands for a model without a name, or one without differential privacy.
    """

    model: str | None
    epsilon: float | None

    @property
    def name(self) -> SettingName:
        """The setting's name in print."""
        return SettingName(self.model, self.epsilon)


class Change(Record):
    """One number for people like these, old and new.

    The exposure of one group, or the difference of two groups, first minus second.

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
        old = self.old.name.full
        new = self.new.name.full
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
    changes = _setting_changes(matches, _compared(old, new, matches, proxy))
    verdict = ChangeVerdict.strongest(setting.verdict for setting in changes)
    if old.sha256 == new.sha256 and all(each.old == each.new for each in changes):
        verdict = ChangeVerdict.SAME_RELEASE
    same_people = _has_same_people(old, new)
    return Changes(
        old=_compared_release(old),
        new=_compared_release(new),
        attribute=old.subject.attribute,
        cost=proxy.name,
        same_people=same_people,
        verdict=verdict,
        headline=_headline(verdict, changes, proxy),
        account=[
            *_account_of_errors(changes, proxy, same_people=same_people),
            *_account_of_shares(matches[0]),
        ],
        settings=changes,
        left_out=left_out,
    )


def _has_same_people(old: Release, new: Release) -> bool:
    """Whether both releases say that they are of the same records."""
    digest = old.provenance.data_digest
    return digest is not None and digest == new.provenance.data_digest


def _compared_release(release: Release) -> ComparedRelease:
    return ComparedRelease(
        title=release.title,
        release_sha256=release.sha256,
        data_digest=release.provenance.data_digest,
    )


def _compared(
    old: Release, new: Release, matches: Sequence[Match], proxy: AttackKind
) -> list[ChangedRows]:
    """Every match measured by one attack in both releases, and its changes."""
    old_inflation = usable_inflation(old, "the old release")
    new_inflation = usable_inflation(new, "the new release")
    same_people = _has_same_people(old, new)
    compared = []
    for match in matches:
        measured = [
            exposure.measure_panel(
                panel, Plan(), proxy.name, variance_inflation=variance_inflation
            )
            for panel, variance_inflation in zip(
                match, (old_inflation, new_inflation), strict=True
            )
        ]
        common = _common_splits(match, old, new) if same_people else None
        rows = changed_rows(measured, common, n_settings=len(matches))
        compared.append(rows)
    return compared


def _common_splits(
    match: Match, old: Release, new: Release
) -> tuple[IntArray, IntArray]:
    """Positions, old and new, of the splits that both have by name and sizes."""
    groups = match[0].group_names
    old_splits = _positions_of_splits(match[0], old, groups)
    new_splits = _positions_of_splits(match[1], new, groups)
    common = [split for split in old_splits if split in new_splits]
    in_old = np.array([old_splits[split] for split in common])
    in_new = np.array([new_splits[split] for split in common])
    return in_old, in_new


def _positions_of_splits(
    panel: Panel, release: Release, groups: Sequence[str]
) -> dict[SplitOfSizes, int]:
    """Splits of one setting by their name and the sizes of their training parts."""
    (runs,) = (
        setting.runs
        for setting in release.kept(ReleaseArrays).settings
        if setting.panel is panel
    )
    positions: dict[SplitOfSizes, int] = {}
    for run, position in zip(runs, panel.split.tolist(), strict=True):
        if run.split is not None:
            sizes = tuple(run.groups[name].train.n for name in groups)
            positions[run.split, sizes] = position
    return positions


def _setting_changes(
    matches: Sequence[Match], compared: Sequence[ChangedRows]
) -> list[SettingChange]:
    """Every number, p-values adjusted over all settings, groups, pairs and axes."""
    columns = joined([setting.rows for setting in compared])._asdict()
    for name in ("p_worse", "p_improved"):
        columns[name] = holm(columns[f"{name}_alone"])
    rows = _rows_with_verdicts(columns)
    changes = []
    for match, setting in zip(matches, compared, strict=True):
        changes.append(_setting_change(match, setting.n_paired, rows))
    return changes


def _rows_with_verdicts(columns: Mapping[str, FloatArray]) -> Iterator[dict[str, Any]]:
    """The numbers and the verdict of each change in turn, as fields of ``Change``."""
    for numbers in zip(*columns.values(), strict=True):
        row: dict[str, Any] = dict(
            zip(columns, map(finite_or_none, numbers), strict=True)
        )
        row["verdict"] = _verdict(row["p_worse"], row["p_improved"])
        yield row


def _verdict(p_worse: float | None, p_improved: float | None) -> ChangeVerdict:
    """What the adjusted p-values of one change show."""
    if p_worse is not None and p_worse <= SIGNIFICANCE:
        return ChangeVerdict.WORSE
    if p_improved is not None and p_improved <= SIGNIFICANCE:
        return ChangeVerdict.IMPROVED
    return ChangeVerdict.CANNOT_BE_TOLD


def _setting_change(
    match: Match, n_paired: int | None, rows: Iterator[dict[str, Any]]
) -> SettingChange:
    """One setting's changes, which are the next of all: groups, pairs, outcomes."""
    old, new = match
    names = old.group_names
    positions = choose_attacks.pairs_of((old,), Plan())
    pairs = [(names[first], names[second]) for first, second in positions]
    of_groups = [_change("exposure", (name,), next(rows)) for name in names]
    of_pairs = [_change("exposure", pair, next(rows)) for pair in pairs]
    of_outcomes = [_change("outcomes", pair, next(rows)) for pair in pairs]
    changes = [*of_groups, *of_pairs, *of_outcomes]
    return SettingChange(
        old=ComparedSetting(model=old.model, epsilon=stated_epsilon(old)),
        new=ComparedSetting(model=new.model, epsilon=stated_epsilon(new)),
        n_paired=n_paired,
        groups=of_groups,
        pairs=of_pairs,
        outcomes=of_outcomes,
        verdict=ChangeVerdict.strongest(change.verdict for change in changes),
    )


def _change(axis: Axis, groups: tuple[str, ...], row: Mapping[str, Any]) -> Change:
    return Change(axis=axis, groups=groups, **row)


def _headline(
    verdict: ChangeVerdict, settings: Sequence[SettingChange], cost: AttackKind
) -> str:
    """What changed on each axis, the worse first; or the most that may be missed."""
    if verdict is ChangeVerdict.SAME_RELEASE:
        return say("compare", "same_release")
    severity = [*ChangeVerdict].index
    by_axis = [_axis_headline(axis, settings, cost) for axis in get_args(Axis)]
    by_axis.sort(key=lambda headline: severity(headline.verdict))
    return " ".join(headline.sentence for headline in by_axis)


class _AxisHeadline(NamedTuple):
    """The strongest verdict on one axis, and its sentence."""

    verdict: ChangeVerdict
    sentence: str


def _axis_headline(
    axis: Axis, settings: Sequence[SettingChange], cost: AttackKind
) -> _AxisHeadline:
    """What changed on one axis, a few changes by name; or what may have been missed."""
    verdicts = []
    for setting in settings:
        verdicts += [row.verdict for row in setting.rows if row.axis == axis]
    verdict = ChangeVerdict.strongest(verdicts)
    if verdict is ChangeVerdict.CANNOT_BE_TOLD:
        if axis == "exposure":
            return _AxisHeadline(verdict, _missed_exposure(settings, cost))
        return _AxisHeadline(verdict, _missed_outcomes(settings))
    changes = []
    for setting in settings:
        for row in setting.rows:
            if row.axis == axis and row.verdict is verdict:
                changes.append(worded(row, setting.new, cost, len(settings) > 1))
    sentence = f"{capital(verdict.words)}: {'; '.join(changes[:MOST_NAMED])}"
    if len(changes) > MOST_NAMED:
        sentence += f"; and {len(changes) - MOST_NAMED} more"
    return _AxisHeadline(verdict, f"{sentence}.")


def worded(row: Change, at: ComparedSetting, cost: AttackKind, several: bool) -> str:
    """One change: an exposure that rose or fell, or a difference that grew or shrank.

    Where ``several`` settings are compared, the sentence names the setting ``at``.
    """
    old = row.old or 0.0
    new = row.new or 0.0
    groups = listed(row.groups)
    where = f" {at.name.in_sentence}" if several else ""
    scale = cost.scale if row.axis == "exposure" else attack_kinds.ACCURACY
    if len(row.groups) == 1:
        return say(
            "compare",
            "rose" if new > old else "fell",
            groups=groups,
            where=where,
            old=scale.hundredths(old),
            new=scale.hundredths(new),
            unit=scale.said + scale.coin,
        )
    return say(
        "compare",
        "grew" if abs(new) > abs(old) else "shrank",
        what=say("compare", f"the_{row.axis}"),
        groups=groups,
        where=where,
        old=scale.difference(abs(old)),
        new=scale.difference(abs(new)),
        unit=scale.points,
    )


def _missed_exposure(
    settings: Sequence[SettingChange], cost: AttackKind, start: str = "No change shown"
) -> str:
    """By how much exposure may have risen, and its differences may have grown."""
    risen = _largest(setting.groups for setting in settings)
    grown = _largest(setting.pairs for setting in settings)
    if risen is None:
        return say("compare", "too_few")
    scale = cost.scale
    return say(
        "compare",
        "missed_groups" if grown is None else "missed",
        start=start,
        risen=scale.difference(risen),
        grown=scale.difference(0.0 if grown is None else grown),
        unit=scale.points,
    )


def _missed_outcomes(settings: Sequence[SettingChange]) -> str:
    """By how much outcome gaps may have grown."""
    grown = _largest(setting.outcomes for setting in settings)
    if grown is None:
        return say("compare", "no_outcomes")
    return say(
        "compare", "missed_outcomes", grown=attack_kinds.ACCURACY.difference(grown)
    )


def _largest(by_setting: Iterable[Sequence[Change]]) -> float | None:
    """The most that any of these may have grown; None where no bound is known."""
    known = [row.most for row in chain(*by_setting) if row.most is not None]
    return max(known, default=None)


def _account_of_errors(
    settings: Sequence[SettingChange], cost: AttackKind, *, same_people: bool
) -> Iterator[str]:
    """What was measured how, and which error the changes have."""
    if any(setting.verdict is not ChangeVerdict.CANNOT_BE_TOLD for setting in settings):
        yield _missed_exposure(settings, cost, "In all settings")
    yield say("compare", "measured", attack=cost.phrase)
    paired = [setting.n_paired for setting in settings if setting.n_paired is not None]
    if not paired:
        yield say("compare", "people" if same_people else "nothing")
        return
    yield say("compare", "splits", n=min(paired))
    if len(paired) < len(settings):
        yield say("compare", "not_all", n=len(paired), of=len(settings))


def _account_of_shares(match: Match) -> Iterator[str]:
    """That old and new models were trained on different shares of the records."""
    old, new = (
        panel.n_train.mean() / (panel.n_train + panel.n_test).mean() for panel in match
    )
    if abs(old - new) > SHARES_DIFFER:
        yield say("compare", "shares", old=f"{100 * old:.0f}", new=f"{100 * new:.0f}")
