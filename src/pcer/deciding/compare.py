"""Is the new model worse than the old one?

Called by ``pcer.compare`` and ``pcer compare``; ``trend`` compares the last of several
versions with the first. Settings are matched by name, each measured by one attack in
both releases, and every change gets its error (``measuring.release_changes``), p-value,
verdict and sentence. ``python -m benchmarks.alarms comparisons`` counts false alarms.
To add a number of a change: a field of ``Change``, filled in ``_change``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from os import PathLike
from typing import Any, Final, Literal, get_args

import numpy as np

from pcer.auditing.audit import audit
from pcer.auditing.record import BrokenRule, Result
from pcer.auditing.sentences.telling import Axis
from pcer.deciding.matching import (
    Wanted,
    matched_settings,
    require_alike,
    usable_inflation,
)
from pcer.files import Record
from pcer.measuring import choose_attacks, exposure
from pcer.measuring.checks.arrays import ReleaseArrays, SplitName, stated_epsilon
from pcer.measuring.choose_attacks import Match, choose_attack
from pcer.measuring.plan import Plan, Policy
from pcer.measuring.release_changes import ChangedRows, changed_rows, joined
from pcer.metrics import IntArray
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind
from pcer.release.file import Release, release_at
from pcer.release.panel import Panel, panels
from pcer.statistics import SIGNIFICANCE, finite_or_none, holm
from pcer.wording import SettingName, capital, listed, say, some_of

MOST_NAMED: Final = 3  # changes that a headline names
# Difference of the shares trained on from which on the account mentions it.
SHARES_DIFFER: Final = 0.01
# A split by its name and the sizes of the groups' training parts.
SplitOfSizes = tuple[SplitName, tuple[int | None, ...]]
Given = Release | str | PathLike[str]  # a release, its path, or a folder that has one


class ChangeVerdict(StrEnum):
    """What can be said of a change."""

    WORSE = "worse"
    LESS_EVIDENCE = "less_evidence"  # an attack that the old release had is missing
    IMPROVED = "improved"
    CANNOT_BE_TOLD = "cannot_be_told"
    SAME_RELEASE = "same_release"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        if self is ChangeVerdict.CANNOT_BE_TOLD:
            return "no change shown"
        if self is ChangeVerdict.LESS_EVIDENCE:
            return "less evidence than before"
        return self.value.replace("_", " ")

    @classmethod
    def strongest(cls, verdicts: Iterable[ChangeVerdict]) -> ChangeVerdict:
        """Worse first, then less evidence, improved, and no change shown."""
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
        attack: the one that measures exposure in both.
        same_people: whether both releases say that they are of the same records.
        verdict: worse if anything is; else improved if anything is; or the same
            release.
        headline: what changed, in exposure and in outcomes.
        account: what it rests on.
        left_out: settings that only one of the two has.
        missing_attacks: of the old release, which the new one lacks: with less
            evidence nothing is called improved.
        policy: what the new release is held to; None: nothing is asked.
        broken_rules: of the policy; less evidence is one of them.
    """

    format: Literal["pcer-comparison"] = "pcer-comparison"
    version: Literal[3] = 3
    old: ComparedRelease
    new: ComparedRelease
    attribute: str
    attack: str
    same_people: bool
    verdict: ChangeVerdict
    headline: str
    account: list[str]
    settings: list[SettingChange]
    left_out: list[str]
    missing_attacks: list[str]
    policy: Policy | None
    broken_rules: list[BrokenRule]

    @property
    def title(self) -> str:
        """Titles of the old and the new release, and the verdict."""
        return f"{self.old.title} → {self.new.title}: {self.verdict.words}"


def compare(
    old: Given,
    new: Given,
    *,
    attack: str | None = None,
    settings: Wanted = None,
    policy: Policy | None = None,
) -> Changes:
    """Is the new model's exposure, or a difference between groups, worse beyond chance?

    Differences are those of exposures and of outcomes. Every test is one-sided, about
    people like these. Over everything tested the chance that anything is called worse
    where nothing got worse is at most 5% (Holm), and so for improved. Splits of both
    are paired, of the same data digest.

    Args:
        old: the release to compare with, or its path.
        new: the one that may be worse; of the same attribute, groups and outcome.
        attack: its name; by default the strongest that both carry.
        settings: which to compare, such as "forest, none" or "0.5"; "A=B" is A of the
            old one with B of the new. By default those that both have, or the only one
            of each.
        policy: what the new release must keep, and that it has every attack of the old
            one.

    Raises:
        InputError: the two cannot be compared; one sentence says why.
        PlanError: the attack is not in both.
    """
    old = release_at(old)
    new = release_at(new)
    require_alike(old, new)
    matches, left_out = matched_settings(panels(old), panels(new), settings)
    kind = choose_attack(matches, attack)
    digest = old.provenance.data_digest
    same_people = digest is not None and digest == new.provenance.data_digest
    compared = _compared(old, new, matches, kind, same_people=same_people)
    missing = _missing_attacks(matches)
    changes = _setting_changes(matches, compared, has_less_evidence=bool(missing))
    verdict = ChangeVerdict.strongest(setting.verdict for setting in changes)
    if old.sha256 == new.sha256 and all(each.old == each.new for each in changes):
        verdict = ChangeVerdict.SAME_RELEASE
    return Changes(
        old=_compared_release(old),
        new=_compared_release(new),
        attribute=old.subject.attribute,
        attack=kind.name,
        same_people=same_people,
        verdict=verdict,
        headline=" ".join(
            [*_less_evidence(missing), _headline(verdict, changes, kind)]
        ),
        account=[
            *_account_of_errors(changes, kind, same_people=same_people),
            *_account_of_shares(matches[0]),
        ],
        settings=changes,
        left_out=left_out,
        missing_attacks=missing,
        policy=policy,
        broken_rules=_broken_rules(new, policy, missing),
    )


def _missing_attacks(matches: Sequence[Match]) -> list[str]:
    """Attacks that the old release has in a setting and the new one lacks there.

    The strongest comes first.
    """
    missing: dict[str, None] = {}
    for old, new in matches:
        before = choose_attacks.with_values([old])
        after = choose_attacks.with_values([new])
        missing |= dict.fromkeys(name for name in before if name not in after)
    kinds = map(attack_kinds.attack_kind, missing)
    return [kind.name for kind in sorted(kinds, key=lambda kind: -kind.strength)]


def _less_evidence(missing: Sequence[str]) -> Iterator[str]:
    """Which attacks are missing, where some are."""
    if missing:
        named = [attack_kinds.attack_kind(name).phrase for name in missing]
        are = "is" if len(named) == 1 else "are"
        attacks = some_of(named, MOST_NAMED)
        yield say("compare", "less_evidence", attacks=attacks, are=are)


def _broken_rules(
    new: Release, policy: Policy | None, missing: Sequence[str]
) -> list[BrokenRule]:
    """What the new release breaks of a policy."""
    if policy is None:
        return []
    broken = list(audit(new, Plan(policy=policy)).broken_rules)
    for sentence in _less_evidence(missing):
        rule = ChangeVerdict.LESS_EVIDENCE.value
        broken.append(BrokenRule(rule=rule, sentence=f"{rule}: {sentence}"))
    return broken


def _compared_release(release: Release) -> ComparedRelease:
    return ComparedRelease(
        title=release.title,
        release_sha256=release.sha256,
        data_digest=release.provenance.data_digest,
    )


def _compared(
    old: Release,
    new: Release,
    matches: Sequence[Match],
    kind: AttackKind,
    *,
    same_people: bool,
) -> list[ChangedRows]:
    """Every match measured by one attack in both releases, and its changes."""
    inflations = (
        usable_inflation(old, "the old release"),
        usable_inflation(new, "the new release"),
    )
    compared = []
    for match in matches:
        measured = []
        for panel, inflation in zip(match, inflations, strict=True):
            measured.append(
                exposure.measure_panel(
                    panel, Plan(), kind.name, variance_inflation=inflation
                )
            )
        common = _common_splits(match, old, new) if same_people else None
        compared.append(changed_rows(measured, common, n_settings=len(matches)))
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
    matches: Sequence[Match],
    compared: Sequence[ChangedRows],
    *,
    has_less_evidence: bool,
) -> list[SettingChange]:
    """Every number, p-values adjusted over all settings, groups, pairs and axes."""
    columns = joined([setting.rows for setting in compared])._asdict()
    for name in ("p_worse", "p_improved"):
        columns[name] = holm(columns[f"{name}_alone"])
    rows = zip(*columns.values(), strict=True)
    named = (dict(zip(columns, map(finite_or_none, row), strict=True)) for row in rows)
    changes = []
    for match, setting in zip(matches, compared, strict=True):
        change = _setting_change(match, setting.n_paired, named)
        changes.append(_without_improvement(change) if has_less_evidence else change)
    return changes


def _without_improvement(setting: SettingChange) -> SettingChange:
    """With less evidence than before, what improved is not called so."""
    less = {"verdict": ChangeVerdict.LESS_EVIDENCE}

    def told(rows: Sequence[Change]) -> list[Change]:
        improved = ChangeVerdict.IMPROVED
        return [
            row.model_copy(update=less) if row.verdict is improved else row
            for row in rows
        ]

    is_worse = setting.verdict is ChangeVerdict.WORSE
    return setting.model_copy(
        update={
            "groups": told(setting.groups),
            "pairs": told(setting.pairs),
            "outcomes": told(setting.outcomes),
            "verdict": ChangeVerdict.WORSE if is_worse else less["verdict"],
        }
    )


def _setting_change(
    match: Match, n_paired: int | None, rows: Iterator[Mapping[str, Any]]
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
    """One change, and what its adjusted p-values show."""
    p_worse = row["p_worse"]
    p_improved = row["p_improved"]
    verdict = ChangeVerdict.CANNOT_BE_TOLD
    if p_worse is not None and p_worse <= SIGNIFICANCE:
        verdict = ChangeVerdict.WORSE
    elif p_improved is not None and p_improved <= SIGNIFICANCE:
        verdict = ChangeVerdict.IMPROVED
    return Change(axis=axis, groups=groups, verdict=verdict, **row)


def _headline(
    verdict: ChangeVerdict, settings: Sequence[SettingChange], attack: AttackKind
) -> str:
    """What changed on each axis, the worse first; or the most that may be missed."""
    if verdict is ChangeVerdict.SAME_RELEASE:
        return say("compare", "same_release")
    severity = [*ChangeVerdict].index
    verdicts = {}
    for axis in get_args(Axis):
        rows = _changes_on(axis, settings)
        verdicts[axis] = ChangeVerdict.strongest(row.verdict for _, row in rows)
    axes = sorted(verdicts, key=lambda axis: severity(verdicts[axis]))
    sentences = [_said_of(axis, verdicts[axis], settings, attack) for axis in axes]
    return " ".join(sentences)


def _said_of(
    axis: Axis,
    verdict: ChangeVerdict,
    settings: Sequence[SettingChange],
    attack: AttackKind,
) -> str:
    """What changed on one axis, a few changes by name; or what may have been missed."""
    if verdict in (ChangeVerdict.CANNOT_BE_TOLD, ChangeVerdict.LESS_EVIDENCE):
        if axis == "exposure":
            return _missed_exposure(settings, attack)
        return _missed_outcomes(settings)
    changes = [
        worded(row, setting.new, attack, len(settings) > 1)
        for setting, row in _changes_on(axis, settings)
        if row.verdict is verdict
    ]
    sentence = f"{capital(verdict.words)}: {'; '.join(changes[:MOST_NAMED])}"
    if len(changes) > MOST_NAMED:
        sentence += f"; and {len(changes) - MOST_NAMED} more"
    return f"{sentence}."


def _changes_on(
    axis: Axis, settings: Sequence[SettingChange]
) -> list[tuple[SettingChange, Change]]:
    """Every change on one axis, beside its setting."""
    changes: list[tuple[SettingChange, Change]] = []
    for setting in settings:
        changes += [(setting, row) for row in setting.rows if row.axis == axis]
    return changes


def worded(row: Change, at: ComparedSetting, attack: AttackKind, several: bool) -> str:
    """One change; where ``several`` settings are compared, it names the setting."""
    old = row.old or 0.0
    new = row.new or 0.0
    groups = listed(row.groups)
    where = f" {at.name.in_sentence}" if several else ""
    scale = attack.scale if row.axis == "exposure" else attack_kinds.ACCURACY
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
    settings: Sequence[SettingChange],
    attack: AttackKind,
    start: str = "No change shown",
) -> str:
    """By how much exposure may have risen, and its differences may have grown."""
    risen = _largest(setting.groups for setting in settings)
    grown = _largest(setting.pairs for setting in settings)
    if risen is None:
        return say("compare", "too_few")
    scale = attack.scale
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
    settings: Sequence[SettingChange], attack: AttackKind, *, same_people: bool
) -> Iterator[str]:
    """What was measured how, and which error the changes have."""
    if any(setting.verdict is not ChangeVerdict.CANNOT_BE_TOLD for setting in settings):
        yield _missed_exposure(settings, attack, "In all settings")
    yield say("compare", "measured", attack=attack.phrase)
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
