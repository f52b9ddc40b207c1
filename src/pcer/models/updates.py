"""Who is in a table, so that an update by few people can be found?

By attribute and kind (a group and a label): how many people there are, and digests of
them, which nobody can read without the secret. ``release.updates`` holds them against
those of earlier releases. ``arrays`` and ``cli`` ask for predictions, ``estimator`` and
``pcer train`` for records. To add what names a person: a digest of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.metrics import BoolArray, IntArray
from pcer.models.rows import Rows
from pcer.release import columns as convert
from pcer.release.population import Attribute
from pcer.release.updates import Kind, People

DIGITS = 16  # of a digest: one in 10^19 pairs is equal by chance
Texts = npt.NDArray[np.str_]


def people_of(rows: Rows, views: Mapping[str, Sequence[str]], secret: bytes) -> People:
    """Who is in predictions: named by record ids, else only counted."""
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


def people_of_records(
    X: Any, positive: BoolArray, attributes: Sequence[Attribute], secret: bytes
) -> People:
    """Who is trained on: named by what is in an array X, else only counted."""
    ids = None
    if isinstance(X, np.ndarray) and X.ndim == 2:
        ids = _digests(X, secret)
    people: People = {}
    for attribute in attributes:
        kinds = people.setdefault(attribute.name, {})
        for code, group in enumerate(attribute.groups):
            for label in (False, True):
                chosen = (attribute.codes == code) & (positive == label)
                key = _keyed(secret, "kind", attribute.name, group, str(label))
                known = None if ids is None else sorted(ids[chosen].tolist())
                kinds[key] = Kind(int(chosen.sum()), known)
    return people


def _digests(X: npt.NDArray[Any], secret: bytes) -> Texts:
    """(record,) a digest of each row; of equal rows each has its own."""
    names = []
    seen: dict[str, int] = {}
    for row in X:
        content = str(row.tolist())
        seen[content] = seen.get(content, 0) + 1
        names.append(_keyed(secret, "row", content, str(seen[content])))
    return np.array(names)


def _keyed(secret: bytes, *texts: str) -> str:
    content = json.dumps(["pcer rows", *texts]).encode()
    return hmac.new(secret, content, hashlib.sha256).hexdigest()[:DIGITS]
