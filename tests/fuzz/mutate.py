"""Structure-aware mutation: trees of plain objects, their JSON text, tables as text, pages."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.strategies import holder_of, places

NAMES = [
    *("", " ", "\u200b", "a", "A", "ﬁ", "fi", "epsilon", "groups", "config", "x" * 201),
    *("x" * 5_000, "\u202eabc", "\x1b[31m", "a\nb", "a\u2028b", "\uffff", "\ud800", "💥"),
    *("\U000e0041", "مجموعة", "</script>", "{{7*7}}", "var(--evil)", "var(--ink)", r"\u202e"),
    *("'", '"', "`|*_", "%s", "../x", "[bold]x[/bold]", "NaN", "null", "__proto__"),
    *("overfitting_gap", "paired_gap", "lira_advantage"),
]
NUMBERS = [
    *(0, 1, -1, 2, 3, 10, 199, 200, 201, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 10**15, 10**16),
    *(0.0, -0.0, 0.5, 1.0, 1e-9, 1e-300, 5e-324, 1e16, 1e300, 1.7e308, -1e300, 0.1, 1.5, 10**400),
]
VALUES: list[Any] = [
    *(None, True, False, [], {}, [None], [[]], {"a": 1}, "random", "other", "benefit", "harm"),
    *("counts", "both", "label", "train", "test", {"value": 0.1}),
    *({"tp": 1, "fp": 1, "tn": 1, "fn": 1}, {"accuracy": 0.5}, {"accuracy": 0.5, "n": 9}),
    {"accuracy": 0.5, "positive_rate": 0.5, "n": 9},
]
TOKENS = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-0", "1e-999", "9" * 400, "9" * 5_000),
    '"\\ud800"',
]


def mutated(tree: Any, chance: random.Random) -> Any:
    """The tree with one to four changes."""
    changed = copy.deepcopy(tree)
    for _ in range(1 + chance.randrange(4) // 2):
        if found := list(places(changed)):
            _change(changed, chance.choice(found), chance)
    return changed


def mutated_text(tree: Any, chance: random.Random) -> str:
    """JSON of the changed tree, now and then with a change that only a text can have."""
    text = json.dumps(mutated(tree, chance), ensure_ascii=chance.random() < 0.5)
    return broken(text, chance) if chance.random() < 0.15 else text


def broken(text: str, chance: random.Random) -> str:
    """Text with a piece cut out, doubled, replaced or put in."""
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.choice([0, 1, 1, 2, 10, 300]))
    hostile = chance.choice(TOKENS), chance.choice(NAMES)
    piece = chance.choice(["", text[at:end] * 2, *hostile, '"seed": 0,', "[" * 3_000])
    return text[:at] + piece + text[end:] if chance.random() < 0.8 else text[:at]


def _change(tree: Any, place: tuple[Any, ...], chance: random.Random) -> None:
    """Change one place in one of eight ways."""
    holder, key = holder_of(tree, place), place[-1]
    value, is_list = holder[key], isinstance(holder, list)
    kind = chance.choice(KINDS)
    if kind == "replace":
        holder[key] = copy.deepcopy(chance.choice(chance.choice([NAMES, NUMBERS, VALUES])))
    elif kind == "nudge" and isinstance(value, str):
        holder[key] = value + chance.choice(["", " ", "x", "\u00ad", "é"])
    elif kind == "nudge" and type(value) in (int, float):  # mostly plausible: these get far
        near = [value + 1, value - 1, value * 2, value * 10, 0, abs(value) + 3]
        holder[key] = chance.choice(near)
    elif kind == "remove":
        del holder[key]
    elif kind == "repeat":
        holder.insert(key, copy.deepcopy(value)) if is_list else holder.update(
            {chance.choice(NAMES): copy.deepcopy(value)}
        )
    elif kind == "rename":
        chance.shuffle(holder) if is_list else holder.update(
            {chance.choice(NAMES): holder.pop(key)}
        )
    elif kind == "move":  # a copy of another part
        other = chance.choice(list(places(tree)))
        holder[key] = copy.deepcopy(holder_of(tree, other)[other[-1]])
    elif kind == "rename everywhere":
        _rename_group(tree, chance)


def _rename_group(tree: Any, chance: random.Random) -> None:
    """Another name for a group, as honest files would have it: it gets through to every output."""
    try:
        groups = tree["subject"]["groups"]
        old, new = chance.choice(groups), chance.choice(NAMES)
        groups[groups.index(old)] = new
        for run in tree["runs"]:
            run["groups"][new] = run["groups"].pop(old)
    except (AttributeError, IndexError, KeyError, TypeError):
        return  # an earlier change was there


KINDS = [*["replace"] * 2, *["nudge"] * 3, "remove", "repeat", "rename", "move"]
KINDS += ["rename everywhere"]


def mutated_table(text: str, chance: random.Random) -> str:
    """A table as text with other cells, headers, separators or bytes."""
    lines = text.splitlines()
    for _ in range(1 + chance.randrange(4)):
        row = chance.randrange(len(lines))
        cells = lines[row].split(",")
        at = chance.randrange(len(cells))
        change = chance.randrange(6)
        if change < 3:
            hostile = chance.choice([chance.choice(NAMES), str(chance.choice(NUMBERS)), "", "nan"])
            cells[at] = hostile if change < 2 else f'"{hostile}"'
        elif change == 3:
            cells.insert(at, cells[at])
        elif change == 4 and len(cells) > 1:
            del cells[at]
        lines[row] = ",".join(cells)
        if change == 5:
            lines[row:row] = [lines[row]] * chance.choice([1, 30])
    joined = chance.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(lines) + "\n"
    return broken(joined, chance) if chance.random() < 0.2 else joined
