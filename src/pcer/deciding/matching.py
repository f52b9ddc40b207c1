"""Which settings of two releases belong together, and can be compared at all?

Asked by ``compare`` and ``trend``, before anything is measured. To add a condition: an
``InputError`` of ``require_alike``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pcer.errors import InputError
from pcer.measuring.checks import arrays, check_release
from pcer.measuring.checks.arrays import ReleaseArrays, stated_epsilon
from pcer.measuring.choose_attacks import Match
from pcer.metrics import FloatArray
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.wording import SettingName, listed, setting_called

Wanted = str | float | Sequence[str | float] | None  # settings as users name them


def require_alike(old: Release, new: Release) -> None:
    """Raise InputError unless both are of one attribute, its groups and one outcome."""
    before = old.subject
    after = new.subject
    shared = {
        "attribute": (before.attribute, after.attribute),
        "groups": (listed(sorted(before.groups)), listed(sorted(after.groups))),
        "outcome": (before.outcome, after.outcome),
    }
    for field, (theirs, own) in shared.items():
        if theirs != own:
            raise InputError(
                f"two releases are compared group by group, but their {field} differ: "
                f"the old one has {theirs}, the new one {own}.",
                field=field,
            )


def usable_inflation(release: Release, name: str) -> FloatArray | None:
    """Variance inflation (group,) or None; InputError where no test can be made."""
    if not arrays.is_random(release):
        raise InputError(
            f"{name} does not say that its splits are random (training.split_kind), "
            "which every test needs."
        )
    for finding in check_release(release):
        if finding.caps_verdict:
            raise InputError(
                f"the counts of {name} contradict what it says of its splits, so that "
                f"nothing can be compared: {finding.sentence}"
            )
    return release.kept(ReleaseArrays).variance_inflation


def matched_settings(
    old: Sequence[Panel], new: Sequence[Panel], settings: Wanted
) -> tuple[list[Match], list[str]]:
    """Settings beside each other, and names of those that only one release has."""
    if settings is None and len(old) == len(new) == 1:
        return [(old[0], new[0])], []
    # What a user may call the settings, each name once.
    old_names = [*dict.fromkeys(name_of(panel).short for panel in old)]
    new_names = [*dict.fromkeys(name_of(panel).short for panel in new)]
    left_out: list[str] = []
    if settings is None:
        wanted = [name for name in old_names if name in new_names]
        left_out += [f"old: {name}" for name in old_names if name not in wanted]
        left_out += [f"new: {name}" for name in new_names if name not in wanted]
    elif isinstance(settings, str | int | float):
        wanted = [str(settings)]
    else:
        wanted = [*map(str, settings)]
    in_old = listed([repr(name) for name in old_names])
    in_new = listed([repr(name) for name in new_names])
    there = f"the old one has {in_old}, the new one {in_new}"
    if not wanted:
        raise InputError(
            f"no setting is in both releases: {there}; name two that belong together, "
            "such as 'A=B'."
        )
    matches = []
    for text in wanted:
        match = _match_called(text, old, new)
        if match is None:
            raise InputError(
                f"the setting {text!r} is not in both releases: {there}; write one of "
                "them, or 'A=B' for A of the old and B of the new."
            )
        matches.append(match)
    return matches, left_out


def _match_called(
    text: str, old: Sequence[Panel], new: Sequence[Panel]
) -> Match | None:
    """The setting of that name in both, or A and B of "A=B".

    A name may itself hold an "=", so every one of them may be where A ends.
    """
    readings = [(text, text)]
    for sign in re.finditer("=", text):
        readings.append((text[: sign.start()], text[sign.end() :]))
    old_settings = [name_of(panel) for panel in old]
    new_settings = [name_of(panel) for panel in new]
    for name_in_old, name_in_new in readings:
        old_position = setting_called(name_in_old, old_settings)
        new_position = setting_called(name_in_new, new_settings)
        if old_position is not None and new_position is not None:
            return old[old_position], new[new_position]
    return None


def name_of(panel: Panel) -> SettingName:
    """The name of a release's setting in print."""
    return SettingName(panel.model, stated_epsilon(panel))
