"""Is the last of several versions worse than the first?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal

from pcer.auditing.audit import audit
from pcer.auditing.record import Audit, BudgetResult, Result
from pcer.deciding.compare import (
    Changes,
    Given,
    compare,
    matched_settings,
    require_alike,
)
from pcer.errors import InputError
from pcer.measuring.checks.arrays import stated_epsilon
from pcer.measuring.choose_attacks import choose_attack
from pcer.release.panel import Panel, panels
from pcer.release.reading import release_at
from pcer.wording import short_setting


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
        require_alike(first, each)
        for old, new in matched_settings(panels(first), panels(each), setting)[0]:
            found.setdefault(old, [old]).append(new)
    in_all = [tuple(match) for match in found.values() if len(match) == len(given)]
    if not in_all:
        raise InputError(
            "no setting is in all releases; compare two of them.", field="setting"
        )
    match = max(in_all, key=lambda match: match[0].epsilon)
    names = [short_setting(panel.model, stated_epsilon(panel)) for panel in match]
    both = f"{names[0]}={names[-1]}"
    proxy = choose_attack([match], cost)
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
