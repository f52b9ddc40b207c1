"""What leaves with a release, in at most six lines?

A printed release has them, and so does what ``pcer release`` and ``pcer train`` say
when they have written files. The field ``disclosure`` of the file holds the same. To
add a line: a function of the release in LINES, and its words in ``leaves`` of
``auditing/words.toml``.
"""

from __future__ import annotations

from collections.abc import Callable

from pcer.release.file import Release
from pcer.release.population import left_out_sentence
from pcer.wording import listed, plural, say


def leaving(release: Release) -> list[str]:
    """Groups, who was joined and left out, certain memberships, splits, models."""
    lines = [line(release) for line in LINES]
    return [line for line in lines if line]


def _groups(release: Release) -> str:
    groups = release.subject.groups
    return say(
        "leaves",
        "groups",
        attribute=release.subject.attribute,
        groups=", ".join(groups),
        tables=plural(len(groups) * len(release.runs), "table"),
    )


def _joined(release: Release) -> str:
    parts = []
    for row in release.disclosure.joined if release.disclosure else ():
        groups = plural(row.n_groups, "group")
        part = say("leaves", "block", group=row.group, groups=groups, n=row.n_people)
        parts.append(part)
    return say("leaves", "joined", blocks=listed(parts)) if parts else ""


def _left_out(release: Release) -> str:
    return left_out_sentence(release.subject.left_out, release.subject.n_missing_group)


def _memberships(release: Release) -> str:
    disclosed = release.disclosure
    if disclosed is None or disclosed.memberships is None:
        return say("leaves", "not_counted")
    n = disclosed.memberships - (disclosed.only_together or 0)
    if not n:
        return say("leaves", "none_certain")
    return say("leaves", "certain", n=n, most=disclosed.most_in_one_model)


def _splits(release: Release) -> str:
    disclosed = release.disclosure
    if disclosed is None or disclosed.splits is None or disclosed.public_data:
        return ""
    return say("leaves", f"splits_{disclosed.splits}")


def _models(release: Release) -> str:
    if len(release.runs) < 2:
        return ""
    disclosed = release.disclosure
    n = None if disclosed is None else disclosed.only_together
    if n is None:
        return say("leaves", "models", n=len(release.runs))
    if n == 0:
        return say("leaves", "none_together")
    return say("leaves", "together", n=n)


LINES: tuple[Callable[[Release], str], ...] = (
    _groups,
    _joined,
    _left_out,
    _memberships,
    _splits,
    _models,
)
