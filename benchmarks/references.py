"""One model that cannot be retrained: what reference models add, and how often they alarm wrongly.

Worlds are drawn by ``tests/simulate_references.py``: all models find the same records hard, each
has a view of its own, and training makes the model surer of one group by an amount. Of each world
the share in which something is resolved, as an audit tests it: by the scores' AUC alone, and held
against reference models.

    python -m benchmarks.references [draws] [seed]
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats
from tests.simulate_references import OneModel, draw_model, scores_of

from pcer.attacks import run_attacks_of
from pcer.statistics import holm, upper_p

WORLD = OneModel(n=2_000)
WORLDS = {
    "nothing remembered, 4 references": WORLD,
    "nothing remembered, 1 reference": replace(WORLD, n_references=1),
    "nothing remembered, 300 records, 90 % trained on": replace(WORLD, n=300, train_share=0.9),
    "0.2 remembered, 4 references": replace(WORLD, remembered=(0.0, 0.2)),
    "0.4 remembered, 1 reference": replace(WORLD, remembered=(0.0, 0.4), n_references=1),
    "0.4 remembered, 4 references": replace(WORLD, remembered=(0.0, 0.4)),
    "0.4 remembered, 16 references": replace(WORLD, remembered=(0.0, 0.4), n_references=16),
}
ATTACKS = ("auc_advantage", "reference_advantage")


def resolved(world: OneModel, n: int, seed: int) -> dict[str, float]:
    found = dict.fromkeys(ATTACKS, 0)
    for draw in range(n):
        scores = scores_of(draw_model(world, np.random.default_rng([seed, draw])))
        rows = run_attacks_of([scores], epsilon=math.inf)[0].rows
        for attack in ATTACKS:
            own = [one for one in rows if one.proxy == attack]
            value, error = (np.array([getattr(one, k) for one in own]) for k in FIELDS)
            found[attack] += bool((holm(upper_p(value, error)) <= 0.05).any())
    return {attack: count / n for attack, count in found.items()}


FIELDS = ("value", "null_error")


def main(n: int = 1_000, seed: int = 1) -> None:
    print(f"{n} draws each; at a true 5 % at most {stats.binom.ppf(0.99, n, 0.05) / n:.1%}")
    rows = {}
    for k, (name, world) in enumerate(WORLDS.items()):
        rows[name] = resolved(world, n, seed + k)
        told = ", ".join(f"{attack} {share:.1%}" for attack, share in rows[name].items())
        print(f"{name:<50} {told}", flush=True)
    out = Path(__file__).parent / "results" / "references.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
