"""Trees of one form many times over, written once as the form and then as rows of their leaves.

A release says the same names for every model; packed it takes a third of the room, and stays
plain JSON with one spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pcer.files import MAX_VALUES

FORMS, ROWS, OURS = "pcer:forms", "pcer:rows", "pcer:"
"""Names of our own, and how they begin; a name of the tree that begins so gets it once more."""
LEAST = 2
"""Trees that are worth packing."""


def pack(tree: Any) -> Any:
    """Pack every list of objects, the outermost first; ``unpack`` gives the tree back.

    >>> pack([{"a": 1}, {"a": 2}])
    {'pcer:forms': [{'a': 0}], 'pcer:rows': [[0, 1], [0, 2]]}
    """
    if isinstance(tree, dict):
        return {_escaped(key): pack(value) for key, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    if len(tree) < LEAST or not all(isinstance(one, dict) for one in tree):
        return [pack(one) for one in tree]
    return _packed(tree)


def unpack(tree: Any) -> Any:
    """The tree that was packed.

    Raises:
        ValueError: a row does not fit its form.
    """
    if isinstance(tree, list):
        return [unpack(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {FORMS, ROWS}:
        sizes = [_n_values(form) for form in tree[FORMS]]
        if sum(sizes[row[0]] for row in tree[ROWS]) > MAX_VALUES:
            raise ValueError("unpacked it would hold more values than are read")
        return [_filled(tree[FORMS], row) for row in tree[ROWS]]
    return {_plain(key): unpack(value) for key, value in tree.items()}


Form = tuple[Any, ...] | Literal[0]
"""Keys with what is under them, 0 for every leaf; as a tuple it can be looked up."""


def _packed(trees: list[dict[str, Any]]) -> dict[str, Any]:
    forms: dict[Form, int] = {}
    rows = []
    for one in trees:
        leaves: list[Any] = []
        form = _taken(one, leaves)
        rows.append([forms.setdefault(form, len(forms)), *leaves])
    return {FORMS: [_written(form) for form in forms], ROWS: rows}


def _taken(tree: Any, leaves: list[Any]) -> Form:
    """The form of a tree, whose leaves go to the end of the list; lists are leaves."""
    if not (isinstance(tree, dict) and tree):
        leaves.append(tree)
        return 0
    return tuple([(key, _taken(value, leaves)) for key, value in tree.items()])


def _written(form: Form) -> Any:
    return {key: _written(value) for key, value in form} if form else 0


def _n_values(form: Any) -> int:
    return 1 + sum(map(_n_values, form.values())) if isinstance(form, dict) else 1


def _escaped(key: str) -> str:
    return OURS + key if key.startswith(OURS) else key


def _plain(key: str) -> str:
    return key.removeprefix(OURS) if key.startswith(OURS + OURS) else key


def _filled(forms: list[Any], row: list[Any]) -> Any:
    number, *leaves = row
    left = iter(leaves)
    tree = _with_leaves(forms[number], left)
    if next(left, left) is not left:
        raise ValueError("a row has more leaves than its form")
    return tree


def _with_leaves(form: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(form, dict):
        return {key: _with_leaves(value, leaves) for key, value in form.items()}
    found = next(leaves, leaves)
    if found is leaves:
        raise ValueError("a row has fewer leaves than its form")
    return found
