"""How often are lies found, and honest releases accused, by all checks together?

    python -m benchmarks.lies [forgeries] [honest] [seed]

Lies are those of ``tests/simulate_lies.py``, of the sizes it states. Honest: the releases behind
them, balanced by label and by both; splits of every shape (random, stratified, clustered and
declared, folds) with models that remember plainly; estimators through ``release_from_estimator``;
and pcer's own releases in the repository. An accusation is a finding that caps the verdict.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats
from tests.simulate_lies import LIES, honest, told
from tests.simulate_nulls import release_of_claims
from tests.simulate_splits import fold_claims, person_claims, true_claims
from tests.worlds.honest import honest_release

from pcer import read_release
from pcer.auditing.claims import claims_of
from pcer.auditing.declarations import check_declarations
from pcer.release import Release, parse_release

ROOT = Path(__file__).parents[1]
LEVEL = 0.01
ESTIMATED = 20
"""Releases of estimators; each is fitted ten times."""


def accused(release: Release) -> bool:
    return any(one.caps_verdict for one in check_declarations(claims_of(release)))


def found(name: str, n: int, seed: int) -> float:
    checks = {LIES[name][1], "split_names"} if "table under" in name else {LIES[name][1]}
    hits = 0
    for k in range(n):
        release = parse_release(told(name, np.random.default_rng([seed, k])), file=name)
        hits += any(one.check in checks for one in check_declarations(claims_of(release)))
    return hits / n


WORLDS: dict[str, Callable[[np.random.Generator], object]] = {
    "random": lambda g: true_claims(g, "nothing", declared=True),
    "random, nothing said": lambda g: true_claims(g, "nothing", declared=False),
    "by label": lambda g: true_claims(g, "label", declared=True),
    "by label, nothing said": lambda g: true_claims(g, "label", declared=False),
    "by group": lambda g: true_claims(g, "group", declared=True),
    "by both": lambda g: true_claims(g, "both", declared=True),
    "folds": lambda g: fold_claims(g, "nothing", declared=True),
    "folds by label": lambda g: fold_claims(g, "label", declared=True),
    "by person": lambda g: person_claims(g, declared=True, n_splits=5),
}


def drawn(name: str, rng: np.random.Generator) -> Release:
    while True:
        made = release_of_claims(WORLDS[name](rng), rng)  # type: ignore[arg-type]
        if made.is_usable:
            return made.release()


def main(n_lies: int = 200, n_honest: int = 2_000, seed: int = 1) -> None:
    results: dict[str, object] = {}
    for name in LIES:
        results[name] = share = found(name, n_lies, seed)
        print(f"lie    {name:<32} found in {share:.1%} of {n_lies}", flush=True)
    of_lies = [
        accused(parse_release(honest(np.random.default_rng([seed, 3, k]), strata=strata), file="h"))
        for strata in ("label", "both")
        for k in range(n_honest // 10)
    ]
    total, wrong = len(of_lies), sum(of_lies)
    print(f"honest {'behind the lies':<32} accused {wrong} of {total}", flush=True)
    for k, name in enumerate(WORLDS):
        rng, n = np.random.default_rng([seed, 4, k]), n_honest // 10
        bad = sum(accused(drawn(name, rng)) for _ in range(n))
        total, wrong = total + n, wrong + bad
        print(f"honest {name:<32} accused {bad} of {n}", flush=True)
    for title, releases in (
        ("release_from_estimator", (honest_release(10, k) for k in range(ESTIMATED))),
        ("in the repository", map(read_release, _ours())),
    ):
        flags = [accused(release) for release in releases]
        total, wrong = total + len(flags), wrong + sum(flags)
        print(f"honest {title:<32} accused {sum(flags)} of {len(flags)}", flush=True)
    p = stats.binomtest(wrong, total, LEVEL, alternative="greater").pvalue
    print(f"accused {wrong} of {total} honest releases; above {LEVEL:.0%}: p = {p:.3g}")
    results["honest"] = {"accused": wrong, "of": total, "p": p}
    out = ROOT / "benchmarks" / "results" / "lies.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


def _ours() -> list[Path]:
    places = ("studies/paper/*.release.json", "examples/*.release.json")
    return sorted(path for place in places for path in ROOT.glob(place))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
