"""Recompute an audit and name the first difference."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from pcer.auditing.audit import audit
from pcer.auditing.record import SIGNIFICANT_DIGITS, parse_plan, rounded
from pcer.errors import InputError, clipped
from pcer.files import canonical_json, parse_json, read_text
from pcer.measuring.plan import Plan
from pcer.release.file import Release
from pcer.report.page import GENERATOR, read_payload, to_report

# Units of the last digit: rounding may fall either way on another machine, but a
# changed digit is always further off.
HALF_A_DIGIT = 0.51
SHOWN_BEFORE, SHOWN_AFTER = (
    40,
    30,
)  # characters of a page that are shown around a difference


class Difference(NamedTuple):
    """Where a file and its recomputation part: the path, what it says, what it should say."""

    path: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        return (
            f"{self.path}: the file says {self.found!r}, recomputed {self.expected!r}"
        )


def verify_audits(
    found: Sequence[dict[str, Any]],
    releases: Sequence[Release],
    *,
    family: Sequence[Release] = (),
    plan_sha256: str | None = None,
) -> str | None:
    """Recompute the audits of one file, which must be one for each named release.

    Returns where it differs first, in words; None where all agrees.

    Args:
        found: audits as plain objects.
        releases: what was audited, all of it: an audit that was left out is a
            difference.
        family: further releases that the audits were judged together with.
        plan_sha256: digest that every plan must have.
    """
    audited = Counter(str(tree.get("release_sha256")) for tree in found)
    named = Counter(release.sha256 for release in releases)
    # Of one audit and one release, a digest that does not fit is the difference itself.
    if len(found) > 1 or len(releases) > 1:
        for release in releases:
            if release.sha256 in named - audited:
                name = f"{release.title}, release {release.sha256}"
                return f"from what was named: it holds no audit of {name}"
        for digest in audited - named:
            return (
                f"from what was named: it holds an audit of release {digest}; name every release "
                "that it audits once"
            )
    for index, tree in enumerate(found):
        prefix = f"[{index}]." if len(found) > 1 else ""
        plan = parse_plan(tree.get("plan"), file="audit: plan")
        if another := _another_plan(plan, plan_sha256):
            return another
        if difference := verify_audit(tree, releases, family=family):
            return f"at {prefix}{difference}"
    return None


def _another_plan(plan: Plan, plan_sha256: str | None) -> str | None:
    if plan_sha256 is None or plan.sha256 == plan_sha256.lower():
        return None
    return f"from what was named: its plan has the digest {plan.sha256}"


def verify_audit(
    found: dict[str, Any],
    releases: Sequence[Release],
    *,
    family: Sequence[Release] = (),
) -> Difference | None:
    """Recompute one audit (plain objects) and return its first difference, or None.

    What was named counts as its family, whatever it says itself.
    """
    plan = parse_plan(found.get("plan"), file="audit: plan")
    digest = str(found.get("release_sha256"))
    by_digest = {release.sha256: release for release in (*releases, *family)}
    if digest not in by_digest and len(by_digest) > 1:
        raise InputError(
            f"None of the releases has the digest {digest} that the audit names."
        )
    named = found.get("family")
    members = (
        [*map(str, named)] if isinstance(named, list) and digest in by_digest else []
    )
    if missing := [member for member in members if member not in by_digest]:
        raise InputError(
            f"The audit was judged in a family of {len(members)} releases, and the one with "
            f"the digest {missing[0]} is missing; name all of them."
        )
    own = by_digest.get(digest, releases[0])
    data = own.provenance.data_digest
    same = [each for each in releases if data and each.provenance.data_digest == data]
    recomputed = audit(own, plan, family=[*same, *family])
    # A plan's numbers are written as given, not rounded as results are.
    both = found["plan"], parse_json(canonical_json(plan.model_dump()), file="plan")
    if both[0] != both[1]:
        return first_difference(*both, path="plan") or Difference("plan", *both)
    rest = {key: value for key, value in found.items() if key != "plan"}
    return first_difference(rest, recomputed.model_dump(exclude={"plan"}), path="")


def verify_report(
    path: str | os.PathLike[str],
    releases: Sequence[Release] = (),
    *,
    family: Sequence[Release] = (),
    plan_sha256: str | None = None,
) -> str | None:
    """Render a report again from the release and plan in it; where do the bytes differ?

    Returns the first difference in words; None where every byte agrees.

    Args:
        path: the page.
        releases: where some are named, the page must be about all of them and no other.
        family: further releases that the page was judged together with.
        plan_sha256: digest that the plan must have.

    Raises:
        InputError: the page carries no release, or not one that was named.
    """
    text = read_text(path)
    carried = read_payload(text, file=str(path))
    held = Counter(release.sha256 for release in (*carried.releases, *carried.family))
    for release in (*releases, *family):
        if release.sha256 not in held:
            raise InputError(
                f"{path} does not carry the release with digest {release.sha256}."
            )
    named = {release.sha256 for release in (*releases, *family)}
    for release in (*carried.releases, *carried.family):
        if held[release.sha256] > 1:
            return f"from a page of pcer: it holds release {release.sha256} twice"
        if releases and release.sha256 not in named:
            also = f"{release.title}, release {release.sha256}"
            return f"from what was named: it also holds {also}"
    if another := _another_plan(carried.plan, plan_sha256):
        return another
    fresh = audit(carried.releases, carried.plan, family=carried.family)
    difference = _page_difference(
        text, to_report(fresh, carried.releases, carried.family)
    )
    if difference is None and Path(path).read_bytes() != text.encode():
        return _at(1, "the head of the page", "a byte order mark", "none")
    return difference


def _at(line: int, where: str, found: str, expected: str) -> str:
    says = f"the page says {found!r}, rendered again it says {expected!r}"
    return f"at line {line}, in {where}: {says}"


def _page_difference(found: str, expected: str) -> str | None:
    if found == expected:
        return None
    if f'content="{GENERATOR}"' not in found:
        # Pages are compared within one version; another one is the first thing to name.
        meta = re.search(r'<meta name="generator" content="([^"]*)"', found)
        at_line = found.count("\n", 0, meta.start()) + 1 if meta else 1
        generator = clipped(meta[1]) if meta else "no generator"
        return _at(at_line, "the head of the page", generator, GENERATOR)
    at = next(k for k, (a, b) in enumerate(zip_longest(found, expected)) if a != b)
    same = expected[:at]
    start = same.rfind("\n") + 1
    places = re.findall(r'\bid="([^"]+)"', same)
    # Both lines from a little before the difference, so that it is seen.
    their, our = (
        text[max(start, at - SHOWN_BEFORE) : at + SHOWN_AFTER]
        for text in (found, expected)
    )
    where = places[-1] if places else "the head of the page"
    return _at(same.count("\n") + 1, where, their.split("\n")[0], our.split("\n")[0])


def first_difference(found: Any, expected: Any, *, path: str) -> Difference | None:
    """Compare plain objects, digit for digit, in the order of the file format."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return Difference(path, found, "an object")
        for key in {**expected, **found}:
            below = f"{path}.{key}" if path else key
            if key not in expected:
                return Difference(f"{path}.{key}", found[key], "nothing")
            if key not in found:
                return Difference(below, "nothing", rounded(expected[key]))
            if difference := first_difference(found[key], expected[key], path=below):
                return difference
        return None
    if isinstance(expected, list | tuple):
        if not isinstance(found, list) or len(found) != len(expected):
            return Difference(path, found, rounded(list(expected)))
        pairs = enumerate(zip(found, expected, strict=True))
        differences = (
            first_difference(a, b, path=f"{path}[{k}]") for k, (a, b) in pairs
        )
        return next(filter(None, differences), None)
    if isinstance(expected, float) and type(found) in (int, float):
        same = abs(found) <= sys.float_info.max and _same_digits(float(found), expected)
    else:
        same = type(found) is type(rounded(expected)) and found == rounded(expected)
    return None if same else Difference(path, found, rounded(expected))


def _same_digits(found: float, expected: float) -> bool:
    """Whether ``found`` is ``expected`` rounded, allowing for another machine's last bit."""
    if found != rounded(found):
        return False
    exponent = int(f"{expected:e}".partition("e")[2])
    last_digit = 10.0 ** (exponent - SIGNIFICANT_DIGITS + 1)
    return bool(
        found == rounded(expected) or abs(found - expected) <= HALF_A_DIGIT * last_digit
    )
