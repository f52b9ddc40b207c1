"""Is a table an update of one that was released, but for few people?

The release of last month less that of this month is about those who came or left. So
beside a private release lies a file for its owner alone: by attribute and kind (a group
and a label) how many people there are, and keyed digests of their record ids. ``cli``
keeps it by ``Updates``, and asks before it writes another release into the folder. To
add what people are compared by: a field of ``Kind``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files
from pcer.metrics import IntArray
from pcer.models.rows import Rows
from pcer.release import columns as convert
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release

ENDING = ".rows"  # of the files' names
FORMAT = "pcer-rows"
DIGITS = 16  # of a digest: one in 10^19 pairs is equal by chance


class Kind(NamedTuple):
    """The people of one group and label."""

    n: int
    people: list[str] | None  # keyed digests of their record ids, where there are any


People = dict[str, dict[str, Kind]]  # by attribute and keyed digest of the kind


def people_of(rows: Rows, views: Mapping[str, Sequence[str]], secret: bytes) -> People:
    """Who is in a table; nothing in it can be read without the secret."""
    ids = None
    if rows.record is not None:
        names = [_keyed(secret, "id", name) for name in rows.record.names]
        ids = np.array(names)[rows.record.codes]
    people: People = {}
    for attribute, parts in views.items():
        groups = convert.cross([rows.attributes[part] for part in parts])
        kinds = people.setdefault(attribute, {})
        for code, group in enumerate(groups.names):
            for label in (False, True):
                chosen = (groups.codes == code) & (rows.entries.positive == label)
                key = _keyed(secret, "kind", attribute, group, str(label))
                known = None if ids is None else np.unique(ids[chosen]).tolist()
                kinds[key] = Kind(_number(rows, chosen, known), known)
    return people


def _number(rows: Rows, chosen: Any, known: Sequence[str] | None) -> int:
    """How many people were chosen: the most in any model."""
    if known is not None:
        return len(known)
    n: IntArray | None = None if rows.entries.n is None else rows.entries.n[chosen]
    return int(np.bincount(rows.entries.run[chosen], n, minlength=1).max())


def _keyed(secret: bytes, *texts: str) -> str:
    content = json.dumps(["pcer rows", *texts]).encode()
    return hmac.new(secret, content, hashlib.sha256).hexdigest()[:DIGITS]


class Updates:
    """What a command keeps of the people in its releases, and holds against others."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        rule: Disclosure,
        *,
        replaces: bool,
        consent: str,
    ) -> None:
        """``paths`` are by attribute; ``replaces``: releases there may be replaced.

        ``consent`` is what the caller's user says to have them replaced.
        """
        self.paths = paths
        self.rule = rule
        self.replaces = replaces
        self.consent = consent
        self.people: People = {}

    def see(self, rows: Rows, views: Mapping[str, Sequence[str]]) -> None:
        """Take note of the people; InputError if few of them differ from released ones.

        Few are refused even if an old release may be replaced: it may have been read.
        """
        self.people = people_of(rows, views, self.rule.secret)
        least = self.rule.least_people
        for others in self._before():
            for attribute in self.people.keys() & others.keys():
                if _is_update(others[attribute], self.people[attribute], least):
                    raise InputError(
                        f"a release by {attribute!r} in that folder is of these people "
                        f"but for fewer than {least} of one group and label, whom one "
                        "table less the other would show, however it is written; "
                        "wait until more have changed.",
                        field="out",
                    )

    def _before(self) -> list[People]:
        """Who is in the releases that are there."""
        folder = next(iter(self.paths.values())).parent
        return [read_people(path) for path in sorted(folder.glob(f"*{ENDING}"))]

    def require_none(self, releases: Mapping[str, Release]) -> None:
        """Raise InputError where another release would be written over unasked."""
        if not self.people or self.replaces:
            return
        for name, release in releases.items():
            path = self.paths[name]
            if not path.is_file() or path.read_text("utf-8") == release.to_json():
                continue
            doubt = ""
            if not any(name in others for others in self._before()):
                doubt = ", and how many people differ cannot be checked"
            raise InputError(
                f"{path} is there already with other numbers{doubt}; to write over it, "
                f"say {self.consent}.",
                field="out",
            )

    def keep(self, releases: Mapping[str, Release]) -> None:
        """Write who is in the releases, for their owner alone."""
        if not self.people:
            return
        first = next(iter(self.paths.values()))
        path = first.with_name(first.name.partition(".")[0] + ENDING)
        written = {name: self.people[name] for name in releases}
        write_files({path: to_text(read_people(path) | written)}, private=True)


def _is_update(old: Mapping[str, Kind], new: Mapping[str, Kind], least: int) -> bool:
    """Whether two tables differ in few people of a kind, being of the same people.

    Without record ids they are taken to be where few differ in every kind.
    """
    none = Kind(0, [])
    differences = []
    has_ids = True
    for key in old.keys() | new.keys():
        first = old.get(key, none)
        second = new.get(key, none)
        if first.people is None or second.people is None:
            has_ids = False
            differences.append(abs(first.n - second.n))
        else:
            differences.append(len(set(first.people) - set(second.people)))
            differences.append(len(set(second.people) - set(first.people)))
    is_few = any(0 < n < least for n in differences)
    return is_few and (has_ids or max(differences) < least)


def read_people(path: Path) -> People:
    """Who is in the releases beside which a file lies; nobody where it is damaged."""
    people: People = {}
    with suppress(InputError, AttributeError, KeyError, TypeError, ValueError):
        content = read_json(path)
        for attribute, kinds in content["people"].items():
            people[attribute] = {
                key: Kind(int(kind["n"]), kind["people"]) for key, kind in kinds.items()
            }
    return people


def to_text(people: People) -> str:
    """The content of the file that lies beside releases."""
    plain = {
        attribute: {key: kind._asdict() for key, kind in kinds.items()}
        for attribute, kinds in people.items()
    }
    return canonical_json({"format": FORMAT, "version": 1, "people": plain})
