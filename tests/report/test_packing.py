"""Packed trees come back as they were, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer.report.packing import FORMS, ROWS, pack, unpack

ROOT = Path(__file__).parents[2]
NAMES = st.sampled_from(["a", "b", "c", FORMS, ROWS, "pcer:", "pcer:pcer:forms", ""])
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=20,
)


@given(TREES)
def test_what_is_packed_comes_back(tree):
    assert json.dumps(unpack(json.loads(json.dumps(pack(tree))))) == json.dumps(tree)


def test_a_release_takes_less_than_half_of_the_room():
    text = (ROOT / "studies" / "paper" / "compas.race.release.json").read_text(encoding="utf-8")
    tree = json.loads(text)
    packed = json.dumps(pack(tree), separators=(",", ":"))
    assert len(packed) < len(json.dumps(tree, separators=(",", ":"))) / 2
    assert unpack(json.loads(packed)) == tree


@pytest.mark.parametrize("row", [[0], [0, 1, 2], [1, 1], []])
def test_a_row_that_does_not_fit_is_refused(row):
    with pytest.raises((ValueError, LookupError)):
        unpack({FORMS: [{"a": 0}], ROWS: [row]})


@pytest.mark.parametrize(
    "form", [{str(k): {} for k in range(5_000)}, {"a": {"b": {"c": {"d": {"e": 0}}}}}]
)
def test_what_would_unpack_to_far_more_than_it_is_refused_before(form):
    """Two thousand rows of a few bytes, each of thousands of empty objects."""
    rows = [[0]] * 2_000 if len(form) > 1 else [[0, 1]] * 400_000
    with pytest.raises(ValueError, match="more values than are read"):
        unpack({FORMS: [form], ROWS: rows})
