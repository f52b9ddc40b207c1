"""How do releases take a third of their room in a page?

``page`` packs what it carries and unpacks what it reads. A release says the same names
for every model: packed, the form of such objects stands once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pcer.files import MAX_VALUES

# Packed lists of objects have two keys of ours, which begin with this.
OURS = "pcer:"
FORMS = "pcer:forms"
ROWS = "pcer:rows"


def pack(tree: Any) -> Any:
    """Plain JSON, in which a list of objects is their forms and rows of their leaves.

    A key of the tree that begins as our own do gets that beginning once more.

    >>> pack([{"a": 1}, {"a": 2}])
    {'pcer:forms': [{'a': 0}], 'pcer:rows': [[0, 1], [0, 2]]}
    """
    if isinstance(tree, dict):
        packed = {}
        for key, value in tree.items():
            safe_key = OURS + key if key.startswith(OURS) else key
            packed[safe_key] = pack(value)
        return packed
    if not isinstance(tree, list):
        return tree
    if len(tree) > 1 and all(isinstance(item, dict) for item in tree):
        return _pack_rows(tree)
    return [pack(item) for item in tree]


def _pack_rows(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Objects as their forms, and for each the number of its form and its leaves."""
    number_of_form: dict[str, int] = {}
    rows = []
    for item in objects:
        leaves: list[Any] = []
        form = json.dumps(_form_of(item, leaves))
        number = number_of_form.setdefault(form, len(number_of_form))
        rows.append([number, *leaves])
    return {FORMS: [json.loads(form) for form in number_of_form], ROWS: rows}


def _form_of(tree: Any, leaves: list[Any]) -> Any:
    """A tree with 0 for every leaf; the leaves are added to ``leaves``.

    Lists and empty objects are leaves.
    """
    if isinstance(tree, dict) and tree:
        return {key: _form_of(value, leaves) for key, value in tree.items()}
    leaves.append(tree)
    return 0


def unpack(tree: Any) -> Any:
    """The tree that was packed.

    Raises:
        ValueError: unpacked it would be too large, or a row has too many leaves.
        LookupError: a row has too few leaves, or its form is not there.
    """
    if isinstance(tree, list):
        return [unpack(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {FORMS, ROWS}:
        return _unpack_rows(tree[FORMS], tree[ROWS])
    unpacked = {}
    for key, value in tree.items():
        is_marked = key.startswith(OURS * 2)
        unpacked[key.removeprefix(OURS) if is_marked else key] = unpack(value)
    return unpacked


def _unpack_rows(forms: Any, rows: Any) -> list[Any]:
    # Every value of a form has a colon before it, so this counts at least its values.
    n_values = [1 + str(form).count(":") for form in forms]
    if sum(n_values[row[0]] for row in rows) > MAX_VALUES:
        raise ValueError("unpacked it would hold more values than are read")
    objects = []
    for number, *leaves in rows:
        last_first = leaves[::-1]
        objects.append(_filled(forms[number], last_first))
        if last_first:
            raise ValueError("a row has more leaves than its form")
    return objects


def _filled(form: Any, last_first: list[Any]) -> Any:
    """A form with leaves, which are taken from the end of their list."""
    if isinstance(form, dict):
        return {key: _filled(value, last_first) for key, value in form.items()}
    return last_first.pop()
