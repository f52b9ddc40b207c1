"""Does an edit turn a red release green without a word, and is an honest one accused?

    python -m benchmarks.edits gates [PAIRS] [SEED]
    python -m benchmarks.edits honest [RELEASES] [SEED]

``gates``: every field of three red releases deleted, emptied, replaced and scaled, and
so many random pairs of such edits, under five policies (``tests/worlds/edits.py``). At
fault is a green result under strictness without any finding, and another one whose
first screen does not say what is missing. ``honest``: true releases of five models with
1 to 20 splits, of records or of people with as many records each, or unequally many;
counted are those that a check accuses, or a strict policy refuses for anything but too
few splits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import numpy as np
from tests.worlds.edits import (
    RED,
    Edit,
    accusations,
    edited,
    edits_of,
    faults,
    red_text,
)

from benchmarks import run_verb, with_numbers, write_results


def gates(n_pairs: int = 1_100, seed: int = 1) -> None:
    """All single edits, and random pairs."""
    rng = np.random.default_rng(seed)
    counted = Counter[str]()
    at_fault = []
    for name in RED:
        tree = json.loads(red_text(name))
        for edits in _chosen(edits_of(tree), -(-n_pairs // len(RED)), rng):
            found = faults(edited(tree, edits))
            counted[f"{name}, {len(edits)}"] += 1
            if found:
                named = [f"{'.'.join(edit.field)}: {edit.name}" for edit in edits]
                at_fault.append([name, *named, *found])
                print(f"at fault: {name}; {'; '.join(named)}; {', '.join(found)}")
    for what, n in counted.items():
        print(f"{what} edits at once: {n:,}")
    print(f"{len(at_fault)} of {counted.total():,} at fault")
    write_results("edits-gates", {"edits": counted, "at_fault": at_fault})


def _chosen(
    edits: list[Edit], n_pairs: int, rng: np.random.Generator
) -> Iterator[list[Edit]]:
    yield from ([edit] for edit in edits)
    for _ in range(n_pairs):
        yield [edits[k] for k in rng.choice(len(edits), 2, replace=False)]


def honest(n_releases: int = 300, seed: int = 1) -> None:
    """Accusations of honest releases, by what they are of."""
    drawn = Counter[str]()
    accused = []
    for draw in range(n_releases):
        kind, said = accusations(seed, draw)
        drawn[kind] += 1
        if said:
            accused.append([kind, *said])
            print(f"accused: {kind}; {'; '.join(said)}")
    for kind, n in sorted(drawn.items()):
        print(f"{kind}: {n:,}")
    print(f"{len(accused)} of {n_releases:,} accused")
    write_results("edits-honest", {"releases": drawn, "accused": accused})


if __name__ == "__main__":
    run_verb({"gates": with_numbers(gates), "honest": with_numbers(honest)})
