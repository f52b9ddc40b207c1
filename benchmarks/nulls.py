"""Does an audit alarm where no group is worse off? Simulated releases of many shapes.

    python -m benchmarks.nulls [releases] [seed]

Every kind of release is drawn anew (tests/simulate_nulls.py): people, sizes, splits, settings. An
alarm is ``disparity_shown``, ``double_disadvantage`` or "more exposed" in any setting, before any
downgrade; of groups with unequal rates that are remembered alike the ratios do differ,
so there only a double disadvantage is one. Ten attributes of the same people are one command, and
any alarm of any of them counts. The last column is the exact binomial p-value of so many alarms
at 5 %; the bar is .01. Everything is put to the three benefits in turn.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc
from tests.simulate_nulls import KINDS, Draw, NullRelease, attributes, unequal_rates

from pcer import Plan
from pcer.auditing import Alarms, alarms
from pcer.auditing.inference import Evidence, make_tests
from pcer.auditing.measure import measure_panel, pairs_of
from pcer.release import GAP
from pcer.statistics import SIGNIFICANCE, holm

BAR = 0.01
BENEFITS = ("positive_rate", "true_positive_rate", "precision")
PLANS = [Plan(benefit=benefit) for benefit in BENEFITS]
UNEQUAL = "unequal rates, remembered alike: double"
FAMILY = "10 attributes of 4 groups, one command"


class Found(NamedTuple):
    """Which alarms one release, or one command, raises."""

    shown: bool
    double: bool
    differ: bool


def put_to(drawn: NullRelease, plan: Plan) -> Found:
    """What an audit of the counts alarms about."""
    by_setting = drawn.panels()
    found = alarms(
        by_setting,
        pairs_of(by_setting, plan),
        plan,
        cost=GAP.name,
        outcome=drawn.outcome,
        inflation=drawn.inflation,
    )
    return _any([found])


def put_together(family: Sequence[NullRelease], plan: Plan) -> Found:
    """The same of several attributes in one command, which stand or fall by Holm over them."""
    evidence = [evidence_of(one, plan) for one in family]
    p = holm(np.array([one.smallest_p for one in evidence]))
    kept = [one for one, own in zip(evidence, p, strict=True) if own <= SIGNIFICANCE]
    return _any([Alarms(one.shown, one.double, one.exposures_differ) for one in kept])


def evidence_of(drawn: NullRelease, plan: Plan) -> Evidence:
    """Every test of an audit of the counts."""
    by_setting = drawn.panels()
    measured = [
        measure_panel(panel, plan, GAP.name, inflation=drawn.inflation) for panel in by_setting
    ]
    return make_tests(measured, pairs_of(by_setting, plan), outcome=drawn.outcome, random=True)


def _any(found: Sequence[Alarms]) -> Found:
    return Found(
        shown=any(bool(one.shown.any()) for one in found),
        double=any(bool((one.double >= 0).any()) for one in found),
        differ=any(bool(one.differ.any()) for one in found),
    )


def chance(n_alarms: int, n: int) -> float:
    """Exact binomial p-value of so many alarms, or more, if each has a chance of 5 %."""
    return float(bdtrc(n_alarms - 1, n, SIGNIFICANCE)) if n_alarms else 1.0


def run(name: str, draw: Draw | None, n: int, seed: int) -> np.ndarray:
    """(release, kind of alarm)."""
    rng = np.random.default_rng([seed, *name.encode()])
    plans = [PLANS[k % len(PLANS)] for k in range(n)]
    if draw is None:
        return np.array([put_together(attributes(rng), plan) for plan in plans])
    return np.array([put_to(draw(rng), plan) for plan in plans])


def main(n: int = 2_000, seed: int = 1) -> None:
    print(
        f"{'kind':<44}{'releases':>9}{'shown':>8}{'double':>8}{'differ':>8}{'any':>8}{'p':>7}{'seconds':>9}"
    )
    worlds: dict[str, Draw | None] = {**KINDS, UNEQUAL: unequal_rates, FAMILY: None}
    results: dict[str, dict[str, float]] = {}
    for name, draw in worlds.items():
        start = time.perf_counter()
        found = run(name, draw, n, seed)
        counted = found[:, 1] if name == UNEQUAL else found.any(axis=1)
        p, seconds = chance(int(counted.sum()), n), time.perf_counter() - start
        kinds = dict(zip(Found._fields, found.mean(axis=0).tolist(), strict=True))
        results[name] = {**kinds, "alarms": float(counted.mean()), "p": p}
        beyond = "  above the bar" if p < BAR else ""
        print(
            f"{name:<44}{n:>9,}"
            + "".join(f"{share:>8.2%}" for share in (*kinds.values(), counted.mean()))
            + f"{p:>7.2f}"
            f"{seconds:>9.0f}{beyond}",
            flush=True,
        )
    out = Path(__file__).parent / "results" / "nulls.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
