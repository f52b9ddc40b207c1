"""Rows of the first screen: what is cut for room, and how groups are named by size."""

import numpy as np
import pytest

from pcer.auditing.sentences.rows import (
    MOST_DIFFERENCES,
    Named,
    Row,
    adverb,
    by_size,
    shortened,
)
from pcer.measuring.sizes import Size

SEEDS = range(40)


def drawn_rows(rng):
    """Rows with figures of some words each."""
    rows = []
    for number in range(6):
        figures = [
            " ".join(["word"] * int(rng.integers(1, 8)))
            for _ in range(int(rng.integers(0, 4)))
        ]
        rows.append(Row(f"question {number}", "answer", figures))
    return rows


def n_words(rows):
    return sum(len(row.text.split()) for row in rows)


def slow_shortened(rows, most):
    """Offer figure by figure, all first ones before all second ones."""
    n_kept = [0] * len(rows)
    for depth in range(10):
        for place, row in enumerate(rows):
            if n_kept[place] == depth < len(row.figures):
                n_kept[place] += 1
                total = 0
                for other, n in zip(rows, n_kept, strict=True):
                    cut = Row(other.question, other.answer, other.figures[:n])
                    total += len(cut.text.split())
                if total > most:
                    n_kept[place] -= 1
    return [[*row.figures[:n]] for row, n in zip(rows, n_kept, strict=True)]


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_are_kept_in_their_order_as_a_plain_loop_keeps_them(seed):
    rng = np.random.default_rng(seed)
    rows = drawn_rows(rng)
    least = n_words([row._replace(figures=()) for row in rows])
    most = least + int(rng.integers(0, 60))
    short = shortened(rows, lambda kept: n_words(kept) <= most)
    assert [[*row.figures] for row in short] == slow_shortened(rows, most)
    assert n_words(short) <= most
    assert [(row.question, row.answer) for row in short] == [
        (row.question, row.answer) for row in rows
    ]


def test_with_all_room_everything_stays_and_with_none_every_answer():
    rows = drawn_rows(np.random.default_rng(1))
    whole = shortened(rows, lambda _: True)
    assert [[*row.figures] for row in whole] == [[*row.figures] for row in rows]
    assert all(row.figures == () for row in shortened(rows, lambda _: False))


def slow_by_size(named, phrase):
    """Named groups by their adverb, at most three, then how many more."""
    shown = named[:3]
    text = ""
    sizes = []
    for one in shown:
        if one.size not in sizes:
            sizes.append(one.size)
    for size in sizes:
        names = [one.group for one in shown if one.size == size]
        together = names[0]
        if len(names) == 2:
            together = f"{names[0]} and {names[1]}"
        elif len(names) == 3:
            together = f"{names[0]}, {names[1]} and {names[2]}"
        if not text:
            text = phrase.replace("{size}", adverb(size)) + f": {together}"
        else:
            text += f"; {adverb(size).strip() or 'also'}: {together}"
    n_more = len(named) - len(shown)
    if n_more == 1:
        text += "; 1 more group"
    elif n_more > 1:
        text += f"; {n_more} more groups"
    return text[0].upper() + text[1:]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_named_by_size_as_a_plain_loop_names_them(seed):
    rng = np.random.default_rng(seed)
    sizes = sorted(
        (Size.FAR, Size.CLEAR, Size.OPEN, Size.SLIGHT),
        key=lambda size: size.rank,
        reverse=True,
    )
    drawn = sorted(rng.integers(0, len(sizes), size=int(rng.integers(1, 7))))
    named = [Named(f"group {k}", sizes[size]) for k, size in enumerate(drawn)]
    phrase = "wrongly predicted {size}more often"
    text = by_size(named, phrase)
    assert text == slow_by_size(named, phrase)
    assert sum(one.group in text for one in named) == min(len(named), MOST_DIFFERENCES)
