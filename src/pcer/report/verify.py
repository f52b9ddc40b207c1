"""Does a file say what its release gives, and where does it differ first?

``pcer verify`` calls this file. An audit's JSON is recomputed and compared field by
field; a page is rendered again from what it carries, a picture from the release that is
named, and compared byte by byte. Nothing that a file says is trusted but its plan, and
the releases of a page. To let it check another file:
a function that gives the first difference, and the verb.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pcer.auditing.audit import audit
from pcer.auditing.record import SIGNIFICANT_DIGITS, parse_plan, rounded
from pcer.errors import InputError, clipped
from pcer.files import canonical_json, parse_json, read_text
from pcer.measuring.plan import Plan
from pcer.release.file import Release
from pcer.report.page import GENERATOR, Payload, read_payload, to_report
from pcer.report.pictures.card import picture_of, read_source

# Units of the last digit: rounding may fall either way on another machine, but a
# changed digit is always further off.
HALF_A_DIGIT = 0.51
# Characters of a page that are shown around a difference.
SHOWN_BEFORE = 40
SHOWN_AFTER = 30
HEAD = "the head of the page"
PICTURE = "the picture"
OTHER_PLAN = "from what was named: its plan has the digest {plan.sha256}"


class Difference(NamedTuple):
    """Where a file and its recomputation part, and what each of them says there."""

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
    # Of one audit and one release, a digest that does not fit is the difference itself.
    if len(found) > 1 or len(releases) > 1:
        unmatched = _unmatched(found, releases)
        if unmatched is not None:
            return unmatched
    for index, tree in enumerate(found):
        plan = parse_plan(tree.get("plan"), file="audit: plan")
        if _is_other_plan(plan, plan_sha256):
            return OTHER_PLAN.format(plan=plan)
        difference = verify_audit(tree, releases, family=family)
        if difference is not None:
            prefix = f"[{index}]." if len(found) > 1 else ""
            return f"at {prefix}{difference}"
    return None


def _unmatched(
    found: Sequence[dict[str, Any]], releases: Sequence[Release]
) -> str | None:
    """The first release without its audit, or audit without its release."""
    audited = Counter(str(tree.get("release_sha256")) for tree in found)
    named = Counter(release.sha256 for release in releases)
    not_audited = named - audited
    for release in releases:
        if release.sha256 in not_audited:
            name = f"{release.title}, release {release.sha256}"
            return f"from what was named: it holds no audit of {name}"
    for digest in audited - named:
        problem = f"it holds an audit of release {digest}"
        remedy = "name every release that it audits once"
        return f"from what was named: {problem}; {remedy}"
    return None


def _is_other_plan(plan: Plan, plan_sha256: str | None) -> bool:
    return plan_sha256 is not None and plan.sha256 != plan_sha256.lower()


def verify_audit(
    found: dict[str, Any],
    releases: Sequence[Release],
    *,
    family: Sequence[Release] = (),
) -> Difference | None:
    """Recompute one audit (plain objects) and return its first difference, or None.

    All releases that were named count as its family, whatever the audit says itself.
    """
    plan = parse_plan(found.get("plan"), file="audit: plan")
    release = _audited_release(found, releases, family)
    digest = release.provenance.data_digest
    same_data = [
        other for other in releases if digest and other.provenance.data_digest == digest
    ]
    recomputed = audit(release, plan, family=[*same_data, *family])
    # A plan's numbers are written as given, not rounded as results are.
    as_written = parse_json(canonical_json(plan.model_dump()), file="plan")
    if found["plan"] != as_written:
        difference = first_difference(found["plan"], as_written, path="plan")
        if difference is None:  # digits beyond those that results are rounded to
            return Difference("plan", found["plan"], as_written)
        return difference
    rest = {key: value for key, value in found.items() if key != "plan"}
    return first_difference(rest, recomputed.model_dump(exclude={"plan"}), path="")


def _audited_release(
    found: dict[str, Any], releases: Sequence[Release], family: Sequence[Release]
) -> Release:
    """The release that an audit names; of a single one, that one, whatever it names."""
    digest = str(found.get("release_sha256"))
    by_digest = {release.sha256: release for release in (*releases, *family)}
    if digest not in by_digest:
        if len(by_digest) > 1:
            raise InputError(
                f"None of the releases has the digest {digest} that the audit names."
            )
        return releases[0]
    named_family = found.get("family")
    if isinstance(named_family, list):
        members = [str(member) for member in named_family]
        missing = [member for member in members if member not in by_digest]
        if missing:
            raise InputError(
                f"The audit was judged in a family of {len(members)} releases, and "
                f"the one with the digest {missing[0]} is missing; name all of them."
            )
    return by_digest[digest]


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
    named = [release.sha256 for release in (*releases, *family)]
    on_page = [release.sha256 for release in (*carried.releases, *carried.family)]
    for digest in named:
        if digest not in on_page:
            raise InputError(f"{path} does not carry the release with digest {digest}.")
    other_release = _other_release(carried, named if releases else None)
    if other_release is not None:
        return other_release
    if _is_other_plan(carried.plan, plan_sha256):
        return OTHER_PLAN.format(plan=carried.plan)
    audits = audit(carried.releases, carried.plan, family=carried.family)
    rendered = to_report(audits, carried.releases, carried.family)
    difference = _page_difference(text, rendered)
    if difference is None and Path(path).read_bytes() != text.encode():
        return _at(1, HEAD, "a byte order mark", "none")
    return difference


def verify_picture(
    path: str | os.PathLike[str],
    releases: Sequence[Release],
    *,
    family: Sequence[Release] = (),
    plan_sha256: str | None = None,
) -> str | None:
    """Draw a card or a badge again; where do the bytes differ first?

    Args:
        path: the picture.
        releases: the one that it is of.
        family: further releases that it was judged together with.
        plan_sha256: digest that the plan must have.

    Raises:
        InputError: the picture was not written by pcer, or is of another release.
    """
    text = read_text(path)
    source = read_source(text, file=str(path))
    if _is_other_plan(source.plan, plan_sha256):
        return OTHER_PLAN.format(plan=source.plan)
    named = {release.sha256: release for release in (*releases, *family)}
    for digest in (source.release_sha256, *source.family):
        if digest not in named:
            raise InputError(
                f"{path} was made from the release with digest {digest}; name it, or "
                "as family what the audit was judged together with."
            )
    release = named.pop(source.release_sha256)
    audited = audit(release, source.plan, family=[*named.values()])
    drawn = picture_of(audited, source.kind)
    if text == drawn:
        return None
    same = os.path.commonprefix([text, drawn])  # noqa: RUF071 — texts, not paths
    line = same.count("\n") + 1
    return _at(line, PICTURE, _around(text, same), _around(drawn, same))


def _other_release(carried: Payload, allowed: Sequence[str] | None) -> str | None:
    """The first release of a page that is there twice, or whose digest is not named."""
    on_page = [*carried.releases, *carried.family]
    counts = Counter(release.sha256 for release in on_page)
    for release in on_page:
        if counts[release.sha256] > 1:
            return f"from a page of pcer: it holds release {release.sha256} twice"
        if allowed is not None and release.sha256 not in allowed:
            name = f"{release.title}, release {release.sha256}"
            return f"from what was named: it also holds {name}"
    return None


def _page_difference(found: str, expected: str) -> str | None:
    if found == expected:
        return None
    if f'content="{GENERATOR}"' not in found:  # pages are compared within a version
        meta = re.search(r'<meta name="generator" content="([^"]*)"', found)
        if meta is None:
            return _at(1, HEAD, "no generator", GENERATOR)
        line = found.count("\n", 0, meta.start()) + 1
        return _at(line, HEAD, clipped(meta[1]), GENERATOR)
    same = os.path.commonprefix([found, expected])  # noqa: RUF071 — texts, not paths
    ids = re.findall(r'\bid="([^"]+)"', same)
    where = ids[-1] if ids else HEAD
    line = same.count("\n") + 1
    return _at(line, where, _around(found, same), _around(expected, same))


def _around(page: str, same: str) -> str:
    """The line of a page in which ``same`` ends, from a little before that place."""
    start_of_line = same.rfind("\n") + 1
    start = max(start_of_line, len(same) - SHOWN_BEFORE)
    return page[start : len(same) + SHOWN_AFTER].split("\n")[0]


def _at(line: int, where: str, found: str, expected: str) -> str:
    says = f"the file says {found!r}, rendered again it says {expected!r}"
    return f"at line {line}, in {where}: {says}"


def first_difference(found: Any, expected: Any, *, path: str) -> Difference | None:
    """Compare plain objects, digit for digit, in the order of the file format."""
    if isinstance(expected, dict):
        return _object_difference(found, expected, path)
    if isinstance(expected, list | tuple):
        return _list_difference(found, expected, path)
    if _is_same_value(found, expected):
        return None
    return Difference(path, found, rounded(expected))


def _object_difference(
    found: Any, expected: dict[str, Any], path: str
) -> Difference | None:
    if not isinstance(found, dict):
        return Difference(path, found, "an object")
    for key in {**expected, **found}:
        if key not in expected:
            return Difference(f"{path}.{key}", found[key], "nothing")
        below = f"{path}.{key}" if path else key
        if key not in found:
            return Difference(below, "nothing", rounded(expected[key]))
        difference = first_difference(found[key], expected[key], path=below)
        if difference is not None:
            return difference
    return None


def _list_difference(
    found: Any, expected: Sequence[Any], path: str
) -> Difference | None:
    if not isinstance(found, list) or len(found) != len(expected):
        return Difference(path, found, rounded(list(expected)))
    for index, pair in enumerate(zip(found, expected, strict=True)):
        difference = first_difference(*pair, path=f"{path}[{index}]")
        if difference is not None:
            return difference
    return None


def _is_same_value(found: Any, expected: Any) -> bool:
    """Type and all; a number is rounded, give or take a machine's last bit."""
    if not isinstance(expected, float) or type(found) not in (int, float):
        printed = rounded(expected)
        return bool(type(found) is type(printed) and found == printed)
    if abs(found) > sys.float_info.max or float(found) != rounded(float(found)):
        return False
    exponent = int(f"{expected:e}".partition("e")[2])
    last_digit = 10.0 ** (exponent - SIGNIFICANT_DIGITS + 1)
    is_near = abs(float(found) - expected) <= HALF_A_DIGIT * last_digit
    return bool(float(found) == rounded(expected) or is_near)
