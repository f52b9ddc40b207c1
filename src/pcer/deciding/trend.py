"""Is the last of several versions worse than the first?

Called by ``pcer.trend`` and ``pcer trend``. Every version is audited, in the setting
that all of them have; only the last is tested against the first, by ``compare``. To add
a number: a field of ``Trend``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pcer.auditing.audit import audit
from pcer.auditing.record import Audit, Result, SettingResult
from pcer.deciding.compare import Changes, Given, compare
from pcer.deciding.matching import matched_settings, name_of, require_alike
from pcer.errors import InputError
from pcer.measuring.choose_attacks import Match, choose_attack
from pcer.measuring.plan import Policy
from pcer.release.file import Release, release_at
from pcer.release.panel import Panel, panels


class Trend(Result):
    """The result of ``pcer.trend``: versions of one model, the oldest first.

    Attributes:
        attack: the one that measures exposure in all versions.
        change: from the first to the last; the steps between them are not tested.
        versions: the audit of each.
        positions: of the setting in each audit.
    """

    format: Literal["pcer-trend"] = "pcer-trend"
    version: Literal[2] = 2
    attack: str
    change: Changes
    versions: list[Audit]
    positions: list[int]

    @property
    def settings(self) -> list[SettingResult]:
        """The setting in every version."""
        pairs = zip(self.versions, self.positions, strict=True)
        return [audit.settings[position] for audit, position in pairs]

    @property
    def title(self) -> str:
        """How many versions of what, and the verdict."""
        of = self.change.old.title
        setting = self.change.settings[0].name
        verdict = self.change.verdict.words
        return f"{len(self.versions)} versions of {of}, {setting}: {verdict}"


def trend(
    *releases: Given | Sequence[Given],
    attack: str | None = None,
    setting: str | float | None = None,
    policy: Policy | None = None,
) -> Trend:
    """Audit versions of one model, the oldest first: is the last worse than the first?

    Args:
        releases: two or more, or their paths, or a list of them, in the order of time;
            of the same attribute, groups and outcome.
        attack: its name; by default the strongest that all carry.
        setting: one that all have, such as "0.5". By default the least private of
            these.
        policy: what the last must keep, and that it has every attack of the first.

    Raises:
        InputError: they cannot be compared; one sentence says why.
        PlanError: the attack is not in all.
    """
    versions = _versions(releases)
    match = _setting_in_all(versions, setting)
    kind = choose_attack([match], attack)
    change = compare(
        versions[0],
        versions[-1],
        attack=kind.name,
        settings=_both_names(match),
        policy=policy,
    )
    positions = [
        panels(version).index(panel)
        for version, panel in zip(versions, match, strict=True)
    ]
    return Trend(
        attack=kind.name,
        change=change,
        versions=_audits(versions, kind.name),
        positions=positions,
    )


def _versions(arguments: Iterable[Any]) -> list[Release]:
    """The releases, two or more, whether they come one by one or in lists."""
    versions: list[Release] = []
    for argument in arguments:
        if isinstance(argument, list | tuple):
            versions += map(release_at, argument)
        else:
            versions.append(release_at(argument))
    if len(versions) < 2:
        raise InputError(
            "a trend needs two or more releases, the oldest first.", field="releases"
        )
    return versions


def _setting_in_all(versions: Sequence[Release], setting: str | float | None) -> Match:
    """The least private setting that all have, or the one of that name, in each."""
    first, *later = versions
    matches: dict[Panel, list[Panel]] = {}
    for version in later:
        require_alike(first, version)
        pairs, _ = matched_settings(panels(first), panels(version), setting)
        for old, new in pairs:
            matches.setdefault(old, [old]).append(new)
    in_all = [match for match in matches.values() if len(match) == len(versions)]
    if not in_all:
        raise InputError(
            "no setting is in all releases; compare two of them.", field="setting"
        )
    least_private: list[Panel] = max(in_all, key=lambda match: match[0].epsilon)
    return tuple(least_private)


def _both_names(match: Match) -> str:
    """The setting as ``compare`` takes it: its name in the first and in the last."""
    names = [name_of(panel).short for panel in match]
    return f"{names[0]}={names[-1]}"


def _audits(versions: Sequence[Release], attack: str) -> list[Audit]:
    """The audit of each; by this attack, unless each audit takes it by itself."""
    audits = [audit(version) for version in versions]
    if all(audited.attack == attack for audited in audits):
        return audits
    # Numbers of another attack tell no trend.
    return [audit(version, attack=attack) for version in versions]
