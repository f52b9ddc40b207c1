"""Which releases are judged together, and what does that make of their p-values?

Releases of the same records are one family: in five attributes of the same people an
alarm by chance is five times as likely as in one. ``audit`` asks for the family of
each release, and ``judge`` (measuring/tested.py) withdraws what does not
stand in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pcer.measuring.tested import Tested
from pcer.statistics import holm


class FamilyP(NamedTuple):
    """A release's smallest p-values, Holm over all releases of its family."""

    exposures: float  # and ratios
    outcomes: float


def families(
    tested: Sequence[Tested], named: Sequence[Tested]
) -> list[dict[str, Tested]]:
    """For each release those that it is judged with, itself among them, by digest.

    They are those of the same records, and those that the caller named as the family.
    """
    by_digest = {member.digest: member for member in (*tested, *named)}
    of_all = {member.digest for member in named}
    by_data: dict[str, set[str]] = {}
    for digest, member in by_digest.items():
        data_digest = member.release.provenance.data_digest
        if data_digest is not None:
            by_data.setdefault(data_digest, set()).add(digest)

    judged_with = []
    for member in tested:
        digests = {member.digest} | of_all
        data_digest = member.release.provenance.data_digest
        if data_digest is not None:
            digests |= by_data[data_digest]
        judged_with.append({digest: by_digest[digest] for digest in sorted(digests)})
    return judged_with


def family_p(
    tested: Tested, family: Mapping[str, Tested], attack: str | None = None
) -> FamilyP | None:
    """By one attack, or by those that decide in each release; None for one alone.

    A release that does not carry the attack counts with p-values of 1.
    """
    if len(family) < 2:
        return None
    smallest = []
    for member in family.values():
        attacks = member.attacks if attack is None else (attack,)
        evidence = member.evidence.get(attacks)
        smallest.append((1.0, 1.0) if evidence is None else evidence.smallest_p)
    exposures, outcomes = np.array(smallest).T
    place = list(family).index(tested.digest)
    return FamilyP(float(holm(exposures)[place]), float(holm(outcomes)[place]))
