"""Is a table an update of one that was released, but for few people?

The release of last month less that of this month is about those who came or left. So
beside a private release lies a file for its owner alone: by attribute and kind (a group
and a label) how many people there are, and keyed digests of them. ``models.updates``
makes these; ``cli`` and ``write_release`` hold them against those in the folder before
they write. To add what people are compared by: a field of ``Kind``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain, starmap
from pathlib import Path
from typing import NamedTuple

from pcer.errors import InputError
from pcer.files import canonical_json, read_json, write_files

ENDING = ".rows"  # of the files' names
FORMAT = "pcer-rows"


class Kind(NamedTuple):
    """The people of one group and label."""

    n: int
    people: list[str] | None  # keyed digests, where something names them


People = dict[str, dict[str, Kind]]  # by attribute and keyed digest of the kind


class Updates:
    """What a command keeps of the people in its releases, and holds against others."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        least_people: int,
        *,
        replaces: bool,
        consent: str,
    ) -> None:
        """``paths`` are by attribute; ``replaces``: releases there may be replaced.

        ``consent`` is what the caller's user says to have them replaced.
        """
        self.paths = paths
        self.least_people = least_people
        self.replaces = replaces
        self.consent = consent
        self.people: People = {}

    def compare(self, people: People) -> None:
        """Take note of the people; InputError if few of them differ from released ones.

        Few are refused even if an old release may be replaced: it may have been read.
        """
        self.people = people
        least = self.least_people
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

    def require_none(self, contents: Mapping[str, str]) -> None:
        """Raise InputError where another release would be written over unasked.

        ``contents``: the new releases by attribute, as text.
        """
        if self.replaces:
            return
        for name, text in contents.items():
            path = self.paths[name]
            if not path.is_file() or path.read_text("utf-8", "replace") == text:
                continue
            doubt = ""
            is_known = name in self.people
            if not is_known or not any(name in others for others in self._before()):
                doubt = ", and how many people differ cannot be checked"
            raise InputError(
                f"{path} is there already with other numbers{doubt}; to write over it, "
                f"say {self.consent}.",
                field="out",
            )

    def keep(self, names: Iterable[str]) -> None:
        """Write who is in the releases by these attributes, for their owner alone."""
        if not self.people:
            return
        first = next(iter(self.paths.values()))
        path = first.with_name(first.name.partition(".")[0] + ENDING)
        written = {name: self.people[name] for name in names}
        write_files({path: to_text(read_people(path) | written)}, private=True)


def _is_update(old: Mapping[str, Kind], new: Mapping[str, Kind], least: int) -> bool:
    """Whether two tables differ in few people of a kind, being of the same people.

    They are where digests agree in some of them. Where none do, or there are none, they
    are taken to be where few differ in every kind.
    """
    none = Kind(0, [])
    pairs = [
        (old.get(key, none), new.get(key, none)) for key in old.keys() | new.keys()
    ]
    differences = [*chain.from_iterable(starmap(_by_names, pairs))]
    if any(_n_in_both(*pair) for pair in pairs):
        return any(0 < n < least for n in differences)
    numbers = [abs(first.n - second.n) for first, second in pairs]
    return any(0 < n < least for n in numbers) and max(numbers, default=0) < least


def _by_names(first: Kind, second: Kind) -> list[int]:
    """How many people only one of two tables has: by digests, or by numbers."""
    if first.people is None or second.people is None:
        return [abs(first.n - second.n)]
    one = set(first.people)
    other = set(second.people)
    return [len(one - other), len(other - one)]


def _n_in_both(first: Kind, second: Kind) -> int:
    return len(set(first.people or ()) & set(second.people or ()))


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
