"""How often does ``pcer.compare`` call a model worse that is not, and find one that is?

Worlds are drawn record by record (``tests/worlds/two_models.py``). Nothing got worse in the first:
old and new remember as many, the same people or others, on the same splits or not; or they are the
same model. Of each the share with anything "worse" stands beside the exact binomial limit of 5 %.
In the last worlds the new model remembers more of one group.

    python -m benchmarks.comparisons [draws] [seed] [only worlds whose name has this]
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats
from tests.worlds.two_models import TwoModels, draw_both

import pcer

WORLD = TwoModels(people=(500, 900), old=(0.06, 0.06), new=(0.06, 0.06))
NOTHING = replace(WORLD, old=(0.0, 0.0), new=(0.0, 0.0))
LARGE = replace(WORLD, old=(0.2, 0.2), new=(0.2, 0.2), right=0.6)
UNEQUAL = replace(WORLD, old=(0.03, 0.09), new=(0.03, 0.09))
NULLS = {
    "nothing remembered, same splits": NOTHING,
    "the same people remembered, same splits": WORLD,
    "people drawn anew remembered, same splits": replace(WORLD, remembered="anew"),
    "other people remembered, same splits": replace(WORLD, remembered="others"),
    "much remembered, other people": replace(LARGE, remembered="others"),
    "unequal groups, drawn anew": replace(UNEQUAL, remembered="anew"),
    "three groups, drawn anew": replace(
        WORLD, people=(400, 500, 900), old=(0.06,) * 3, new=(0.06,) * 3, remembered="anew"
    ),
    "8 splits, drawn anew": replace(WORLD, n_splits=8, remembered="anew"),
    "3 splits, not paired": replace(WORLD, n_splits=3, remembered="anew"),
    "the same people, other splits": replace(WORLD, same_splits=False),
    "other people, other splits": replace(WORLD, same_people=False, same_splits=False),
    "every model as bad or better": replace(WORLD, new=(0.03, 0.05), remembered="anew"),
    "paired gap, the same people": replace(WORLD, with_paired_gap=True),
    "paired gap, drawn anew": replace(WORLD, with_paired_gap=True, remembered="anew"),
    "paired gap, other people": replace(WORLD, with_paired_gap=True, remembered="others"),
    "paired gap, nothing remembered": replace(NOTHING, with_paired_gap=True),
}
WORSE = {
    "6 to 12 in 100 in both": replace(WORLD, new=(0.12, 0.12)),
    "6 to 12 in 100 in one": replace(WORLD, new=(0.06, 0.12)),
    "6 to 12 in 100 in one, other people and splits": replace(
        WORLD, new=(0.06, 0.12), same_people=False, same_splits=False
    ),
    "6 to 12 in 100 in one, by the paired gap": replace(
        WORLD, new=(0.06, 0.12), with_paired_gap=True
    ),
}


def shares(world: TwoModels, n: int, seed: int) -> dict[str, float]:
    """How often something is worse, a difference is, something improved.

    One in a hundred releases is refused, because its counts happen to contradict a random split:
    then nothing is said.
    """
    found = np.zeros((n, 3), dtype=bool)
    for draw in range(n):
        both = draw_both(world, np.random.default_rng([seed, draw]))
        with suppress(pcer.InputError):
            (one,) = pcer.compare(*both).settings
            groups, pairs = ({str(row.verdict) for row in rows} for rows in (one.groups, one.pairs))
            found[draw] = "worse" in groups | pairs, "worse" in pairs, "improved" in groups | pairs
    return dict(zip(("worse", "difference", "improved"), found.mean(axis=0).tolist(), strict=True))


def main(n: int = 1_000, seed: int = 1, part: str = "") -> None:
    limit = stats.binom.ppf(0.99, n, 0.05) / n
    print(f"{n} draws each; at a true 5 % at most {limit:.1%} with 99 % confidence")
    rows = {}
    for k, (name, world) in enumerate({**NULLS, **WORSE}.items()):
        if part not in name:
            continue
        rows[name] = shares(world, n, seed + k)
        told = ", ".join(f"{what} {share:.1%}" for what, share in rows[name].items())
        print(f"{name:<50} {told}", flush=True)
    same = draw_both(WORLD, np.random.default_rng(seed))[0]
    print("identical releases:", pcer.compare(same, same).verdict.value)
    out = Path(__file__).parent / "results" / "comparisons.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
