"""Recompute an audit from its release and name the first number that differs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from pcer.auditing import SIGNIFICANT_DIGITS, Plan, parse_plan, rounded
from pcer.auditing.audit import audit
from pcer.errors import InputError, clipped
from pcer.files import canonical_json, parse_json, read_text
from pcer.release.format import Release
from pcer.report.page import GENERATOR, Payload, read_payload, to_report

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


class Mismatch(NamedTuple):
    """Something that is there and should not be, or the other way round; in words."""

    words: str

    def __str__(self) -> str:
        return self.words


def verify_audits(
    found: Sequence[dict[str, Any]],
    releases: Sequence[Release],
    *,
    family: Sequence[Release] = (),
    plan_sha256: str | None = None,
) -> Difference | Mismatch | None:
    """Recompute the audits of one file, which must be one for each named release.

    Args:
        found: audits as plain objects.
        releases: what was audited, all of it: an audit that was left out is a difference.
        family: further releases that the audits were judged together with.
        plan_sha256: digest that every plan must have.
    """
    if unmatched := _unmatched(found, releases):
        return unmatched
    for index, tree in enumerate(found):
        prefix = f"[{index}]." if len(found) > 1 else ""
        if mismatch := _another_plan(parse_plan(tree.get("plan"), file="audit: plan"), plan_sha256):
            return mismatch
        if difference := verify_audit(tree, [*releases, *family]):
            return difference._replace(path=f"{prefix}{difference.path}")
    return None


def _unmatched(found: Sequence[dict[str, Any]], releases: Sequence[Release]) -> Mismatch | None:
    """What is audited and not named, or named and not audited, or either twice."""
    audited = Counter(str(one.get("release_sha256")) for one in found)
    named = Counter(release.sha256 for release in releases)
    if len(found) == len(releases) == 1:
        return None  # a digest that does not fit is the difference itself
    for release in releases:
        if audited[release.sha256] < named[release.sha256]:
            return Mismatch(
                f"from what was named: it holds no audit of {release.title}, release "
                f"{release.sha256}"
            )
    for digest in audited:
        if audited[digest] > named[digest]:
            twice = "a second audit" if named[digest] else "an audit"
            return Mismatch(
                f"from what was named: it holds {twice} of release {digest}; name every release "
                "that it audits once"
            )
    return None


def _another_plan(plan: Plan, plan_sha256: str | None) -> Mismatch | None:
    if plan_sha256 is None or plan.sha256 == plan_sha256.lower():
        return None
    return Mismatch(f"from what was named: its plan has the digest {plan.sha256}")


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
    # A plan's numbers are written as given, not rounded as results are.
    said, written = found["plan"], parse_json(canonical_json(plan.model_dump()), file="plan")
    if said != written:
        return first_difference(said, written, path="plan") or Difference("plan", said, written)
    rest = {key: value for key, value in found.items() if key != "plan"}
    return first_difference(rest, recomputed.model_dump(exclude={"plan"}), path="")


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
    path: str | os.PathLike[str],
    releases: Sequence[Release] = (),
    *,
    family: Sequence[Release] = (),
    plan_sha256: str | None = None,
) -> PageDifference | Mismatch | None:
    """Render a report again from the release and plan in it; where do the bytes differ?

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
    mismatch = _uncarried(path, carried, releases, family)
    mismatch = mismatch or _another_plan(carried.plan, plan_sha256)
    if mismatch is None and (leaving := leaving_links(text)):
        line, target = leaving[0]
        mismatch = Mismatch(f"at line {line}: a link leaves the page, to {clipped(target)!r}")
    if mismatch is not None:
        return mismatch
    fresh = audit(carried.releases, carried.plan, family=carried.family)
    difference = _page_difference(text, to_report(fresh, carried.releases, carried.family))
    if difference is None and Path(path).read_bytes() != text.encode():
        return PageDifference(1, "the head of the page", "a byte order mark", "none")
    return difference


def _uncarried(
    path: str | os.PathLike[str],
    carried: Payload,
    releases: Sequence[Release],
    family: Sequence[Release],
) -> Mismatch | None:
    """A release that the page holds twice, or holds though it was not named.

    Raises:
        InputError: one that was named is not in the page.
    """
    held = Counter(release.sha256 for release in (*carried.releases, *carried.family))
    for release in (*releases, *family):
        if release.sha256 not in held:
            raise InputError(f"{path} does not carry the release with digest {release.sha256}.")
    named = {release.sha256 for release in releases}
    for release in carried.releases:
        if held[release.sha256] > 1:
            return Mismatch(f"from a page of pcer: it holds release {release.sha256} twice")
        if releases and release.sha256 not in named:
            return Mismatch(
                f"from what was named: it also holds {release.title}, release {release.sha256}"
            )
    return None


LINKS = frozenset(
    (
        *("href", "xlink:href", "src", "srcset", "action", "formaction", "data", "poster", "ping"),
        *("background", "cite", "manifest", "longdesc", "codebase", "classid", "profile", "usemap"),
    )
)
"""Attributes that name something to open or to load."""
OUTSIDE = re.compile(r"url\(\s*['\"]?(?!#|data:)[^)]*|@import[^;]*", re.IGNORECASE)
"""What a style may load from elsewhere."""


class _Links(HTMLParser):
    """Collects what leaves a page: (line, target)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_style = tag == "style"
        told = dict(attrs)
        if tag == "base" or (told.get("http-equiv") or "").lower() == "refresh":
            self.found.append((self.getpos()[0], tag))
        for name, value in attrs:
            target = (value or "").strip()
            if name in LINKS and target and not target.startswith("#"):
                self.found.append((self.getpos()[0], target))
            if name == "style":
                self._styled(target)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.in_style = False

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self._styled(data)

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False

    def _styled(self, text: str) -> None:
        self.found += [(self.getpos()[0], found) for found in OUTSIDE.findall(text)]


def leaving_links(page: str) -> list[tuple[int, str]]:
    """Links, forms, images and styles of a page that lead out of it, each with its line.

    >>> leaving_links('<a href="#top">up</a><a href="https://example.org">out</a>')
    [(1, 'https://example.org')]
    """
    parser = _Links()
    parser.feed(page)
    parser.close()
    return parser.found


def _page_difference(found: str, expected: str) -> PageDifference | None:
    if found == expected:
        return None
    if f'content="{GENERATOR}"' not in found:
        # Pages are compared within one version; another one is the first thing to name.
        meta = re.search(r'<meta name="generator" content="([^"]*)"', found)
        at_line = found.count("\n", 0, meta.start()) + 1 if meta else 1
        generator = clipped(meta[1]) if meta else "no generator"
        return PageDifference(at_line, "the head of the page", generator, GENERATOR)
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
    if isinstance(expected, float) and type(found) in (int, float):
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
        if difference := first_difference(found[key], value, path=below):
            return difference
    extra = next((key for key in found if key not in expected), None)
    return Difference(f"{path}.{extra}", found[extra], "nothing") if extra is not None else None


def _in_list(found: Any, expected: Sequence[Any], path: str) -> Difference | None:
    if not isinstance(found, list) or len(found) != len(expected):
        return Difference(path, found, rounded(list(expected)))
    for index, (item, wanted) in enumerate(zip(found, expected, strict=True)):
        if difference := first_difference(item, wanted, path=f"{path}[{index}]"):
            return difference
    return None


def _same_digits(found: float, expected: float) -> bool:
    """Whether ``found`` is ``expected`` rounded, allowing for another machine's last bit."""
    if found != rounded(found):
        return False
    exponent = int(f"{expected:e}".partition("e")[2])
    last_digit = 10.0 ** (exponent - SIGNIFICANT_DIGITS + 1)
    return bool(found == rounded(expected) or abs(found - expected) <= HALF_A_DIGIT * last_digit)
