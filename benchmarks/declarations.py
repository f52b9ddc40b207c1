"""How often are declarations contradicted, true ones and false ones? Simulated splits.

    python -m benchmarks.declarations [releases] [seed]

True: groups of 50 to 50,000, 1 to 20 splits, or 1 to 3 cross-validations. False: one split under
several names; the positive rate of one of two groups of 10,000 drifts by 5 points between the
parts; people with several records are kept together and nobody says so. "Capped" is the share of
releases with a contradiction that caps the verdict; the others are shares with that finding. Then
half as many of some kinds go through whole audits, with models that remember plainly: how many
have the verdict ``not_resolved`` for what the release says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from tests.simulate_nulls import NullRelease, release_of_claims
from tests.simulate_splits import (
    drifting_claims,
    fold_claims,
    person_claims,
    repeated_claims,
    true_claims,
)

from pcer import Plan, Verdict, audit
from pcer.auditing.claims import Claims
from pcer.auditing.declarations import check_declarations

World = Callable[[np.random.Generator], Claims]

TRUE: dict[str, World] = {
    "random, said so": partial(true_claims, strata="nothing", declared=True),
    "random, nothing said": partial(true_claims, strata="nothing", declared=False),
    "by label, said so": partial(true_claims, strata="label", declared=True),
    "by label, nothing said": partial(true_claims, strata="label", declared=False),
    "by group, said so": partial(true_claims, strata="group", declared=True),
    "by group, nothing said": partial(true_claims, strata="group", declared=False),
    "by both, said so": partial(true_claims, strata="both", declared=True),
    "folds, said so": partial(fold_claims, strata="nothing", declared=True),
    "folds by label, said so": partial(fold_claims, strata="label", declared=True),
    "folds by label, nothing said": partial(fold_claims, strata="label", declared=False),
    "by person, said so, 1 split": partial(person_claims, declared=True, n_splits=1),
    "by person, said so, 10 splits": partial(person_claims, declared=True, n_splits=10),
}
FALSE: dict[str, World] = {
    "one random split, 2 names": partial(repeated_claims, strata="nothing", n_names=2),
    "one random split, 5 names": partial(repeated_claims, strata="nothing", n_names=5),
    "one split by label, 2 names": partial(repeated_claims, strata="label", n_names=2),
    "one split by label, 3 names": partial(repeated_claims, strata="label", n_names=3),
    "drift from .2, 1 split": partial(drifting_claims, rate=0.2, drift=0.05, n_splits=1),
    "drift from .475, 1 split": partial(drifting_claims, rate=0.475, drift=0.05, n_splits=1),
    "drift from .475, 2 splits": partial(drifting_claims, rate=0.475, drift=0.05, n_splits=2),
    "drift from .475, 80/20, 1 split": partial(
        drifting_claims, rate=0.475, drift=0.05, n_splits=1, train_share=0.8
    ),
    "drift from .475, 80/20, 2 splits": partial(
        drifting_claims, rate=0.475, drift=0.05, n_splits=2, train_share=0.8
    ),
    "drift of 6 from .475, 80/20, 1 split": partial(
        drifting_claims, rate=0.475, drift=0.06, n_splits=1, train_share=0.8
    ),
    "by person, not said, 1 split": partial(person_claims, declared=False, n_splits=1),
    "by person, not said, 10 splits": partial(person_claims, declared=False, n_splits=10),
}


def shares(world: World, n: int, rng: np.random.Generator) -> dict[str, float]:
    found: dict[str, int] = {"capped": 0}
    for _ in range(n):
        findings = check_declarations(world(rng))
        found["capped"] += any(finding.caps_verdict for finding in findings)
        for check in {finding.check for finding in findings}:
            found[check] = found.get(check, 0) + 1
    return {check: count / n for check, count in sorted(found.items())}


WHOLE = (
    "random, said so",
    "by label, said so",
    "by both, said so",
    "folds by label, said so",
    "one random split, 2 names",
    "one split by label, 3 names",
    "drift from .2, 1 split",
    "drift from .475, 1 split",
)
PLAN = Plan(resamples=1, null_draws=1)


def capped_share(world: World, n: int, rng: np.random.Generator) -> float:
    """How many whole audits conclude nothing because of what the release says."""
    return float(np.mean([is_capped(usable_release(world, rng)) for _ in range(n)]))


def usable_release(world: World, rng: np.random.Generator) -> NullRelease:
    """One that has records of every group in every part, as a file must."""
    while not (drawn := release_of_claims(world(rng), rng)).is_usable:
        pass
    return drawn


def is_capped(drawn: NullRelease) -> bool:
    found = audit(drawn.release(), PLAN)
    capped = any(one.caps_verdict for one in found.declarations)
    assert capped == (found.verdict is Verdict.NOT_RESOLVED and found.told.reason is not None)
    return capped


def main(n: int = 2_000, seed: int = 1) -> None:
    results = {}
    for title, worlds in (("true", TRUE), ("false", FALSE)):
        print(f"{title} declarations, {n:,} releases each")
        for k, (name, world) in enumerate(worlds.items()):
            results[name] = shares(world, n, np.random.default_rng([seed, title == "true", k]))
            parts = [f"{check} {share:.2%}" for check, share in results[name].items()]
            print(f"  {name:<34} {', '.join(parts)}", flush=True)
    print(f"whole audits, {n // 2:,} each: not resolved for what the release says")
    for k, name in enumerate(WHOLE):
        share = capped_share({**TRUE, **FALSE}[name], n // 2, np.random.default_rng([seed, 2, k]))
        results[f"{name}, whole audit"] = {"capped": share}
        print(f"  {name:<34} {share:.2%}", flush=True)
    out = Path(__file__).parent / "results" / "declarations.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
