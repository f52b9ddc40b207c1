"""Recompute an audit from its release and name the first number that differs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcer.auditing import SIGNIFICANT_DIGITS, audit, parse_plan, rounded
from pcer.errors import InputError
from pcer.files import read_text
from pcer.release import Release
from pcer.report.html import GENERATOR, read_payload, to_report

HALF_A_DIGIT = 0.51
"""Of the last digit: rounding may fall either way on another machine, but a changed digit is
always further off."""


SHOWN_BEFORE, SHOWN_AFTER = 40, 30
"""Characters of a page that are shown around a difference."""


class Difference(NamedTuple):
    """Where a file and its recomputation part: the path, what it says, what it should say."""

    path: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.path}: the file says {self.found!r}, recomputed {self.expected!r}"


def verify_audit(found: dict[str, Any], releases: Sequence[Release]) -> Difference | None:
    """Recompute one audit (plain objects) and return its first difference, or None.

    The release is found by its digest; with a single release a digest that does not
    fit is itself the difference.

    Raises:
        InputError: the plan cannot be read, or none of several releases has the digest.
    """
    plan = parse_plan(found.get("plan"), file="audit: plan")
    digest = found.get("release_sha256")
    fitting = [release for release in releases if release.sha256 == digest]
    if not fitting and len(releases) > 1:
        raise InputError(f"None of the releases has the digest {digest} that the audit names.")
    family = _family_of(found, releases) if fitting else []
    recomputed = audit(fitting[0] if fitting else releases[0], plan, family=family)
    return first_difference(found, recomputed.model_dump(), path="")


def _family_of(found: dict[str, Any], releases: Sequence[Release]) -> list[Release]:
    """The other releases that the audit was judged together with; all must be named."""
    known = {release.sha256: release for release in releases}
    named = found.get("family")
    digests = named if isinstance(named, list) else []
    for digest in digests:
        if digest not in known:
            raise InputError(
                f"The audit was judged in a family of {len(digests)} releases, and the one with "
                f"the digest {digest} is missing; name all of them."
            )
    return [known[digest] for digest in digests if digest != found.get("release_sha256")]


class PageDifference(NamedTuple):
    """Where a report and its fresh rendering part: the place, and both texts around it."""

    line: int
    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"at line {self.line}, in {self.place}: the page says {self.found!r}, rendered again "
            f"it says {self.expected!r}"
        )


def verify_report(
    path: str | os.PathLike[str], releases: Sequence[Release] = ()
) -> PageDifference | None:
    """Render a report again from the release and plan in it; where do the bytes differ?

    Args:
        path: the page.
        releases: read, to check that the page is about them; none are needed.

    Raises:
        InputError: the page carries no release, or was written by another version.
    """
    text = read_text(path)
    plan, carried, family = read_payload(text, file=str(path))
    _require_same(path, carried, releases)
    again = to_report(audit(carried, plan, family=family), carried, family)
    difference = _page_difference(text, again)
    if difference is None and Path(path).read_bytes() != again.encode():
        return PageDifference(1, "the head of the page", "a byte order mark", "none")
    if difference and f'content="{GENERATOR}"' not in text:
        raise InputError(
            f"{path} was not written by {GENERATOR}, whose bytes are all this command can compare; "
            "verify it with the version that it names."
        )
    return difference


def _require_same(
    path: str | os.PathLike[str], carried: Sequence[Release], releases: Sequence[Release]
) -> None:
    known = {release.sha256 for release in carried}
    for release in releases:
        if release.sha256 not in known:
            raise InputError(f"{path} does not carry the release with digest {release.sha256}.")


def _page_difference(found: str, expected: str) -> PageDifference | None:
    if found == expected:
        return None
    theirs, ours = found.split("\n"), expected.split("\n")
    shared = min(len(theirs), len(ours))
    line = next((k for k in range(shared) if theirs[k] != ours[k]), shared)
    one = theirs[line] if line < len(theirs) else ""
    other = ours[line] if line < len(ours) else ""
    letters = enumerate(zip(one, other, strict=False))
    at = next((k for k, (a, b) in letters if a != b), min(len(one), len(other)))
    before = "\n".join([*ours[:line], other[:at]])
    places = re.findall(r'\bid="([^"]+)"', before)
    around = slice(max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER)
    place = places[-1] if places else "the head of the page"
    return PageDifference(line + 1, place, one[around], other[around])


def first_difference(found: Any, expected: Any, *, path: str) -> Difference | None:
    """Compare plain objects, digit for digit, in the order of the file format."""
    if isinstance(expected, dict):
        return _in_dict(found, expected, path)
    if isinstance(expected, list | tuple):
        return _in_list(found, expected, path)
    if isinstance(expected, float) and _is_number(found):
        same = _same_digits(float(found), expected)
    else:
        same = type(found) is type(rounded(expected)) and found == rounded(expected)
    return None if same else Difference(path, found, rounded(expected))


def _in_dict(found: Any, expected: dict[str, Any], path: str) -> Difference | None:
    if not isinstance(found, dict):
        return Difference(path, found, "an object")
    for key, value in expected.items():
        below = f"{path}.{key}" if path else key
        if key not in found:
            return Difference(below, "nothing", rounded(value))
        difference = first_difference(found[key], value, path=below)
        if difference:
            return difference
    extra = next((key for key in found if key not in expected), None)
    return Difference(f"{path}.{extra}", found[extra], "nothing") if extra is not None else None


def _in_list(found: Any, expected: Sequence[Any], path: str) -> Difference | None:
    if not isinstance(found, list) or len(found) != len(expected):
        return Difference(path, found, rounded(list(expected)))
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        difference = first_difference(one, other, path=f"{path}[{index}]")
        if difference:
            return difference
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same_digits(found: float, expected: float) -> bool:
    """Whether ``found`` is ``expected`` rounded, allowing for another machine's last bit."""
    if found != rounded(found):
        return False
    exponent = int(f"{expected:e}".partition("e")[2])
    last_digit = 10.0 ** (exponent - SIGNIFICANT_DIGITS + 1)
    return bool(found == rounded(expected) or abs(found - expected) <= HALF_A_DIGIT * last_digit)
