"""What does the audit of today cost against that of an earlier commit? Both in one run.

    git worktree add --detach OLD COMMIT
    python -m benchmarks.audit_time OLD [repeats]

A release of 6 settings, 50 seeds and 2 groups with every cost of a sweep (of every run, and of
all models) is audited by both, in turn, each in a process of its own that has audited once
before. Printed are the best and the median time of each, the median of the ratios, which is what
a shared machine allows to compare, and where today's goes.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.simulate import World, simulate

import pcer

BAR = 2.0
OF_RUNS = ("attack_advantage", "auc_advantage", "tpr_excess_at_1_percent")
OF_MODELS = (
    "lira_advantage",
    "lira_offline_advantage",
    "paired_confidence",
    "paired_gap",
    "rmia_advantage",
)
WORLD = World(
    sizes=(32_000, 14_000),
    label_shares=(0.3, 0.11),
    right=[(0.93, 0.6)] * 2,
    gaps=(0.01, 0.02),
    n_seeds=50,
    budgets=(0.1, 0.5, 1.0, 5.0, 10.0, None),
)
WORKER = """
import sys, time, pcer
release = pcer.read_release(sys.argv[1])
for line in sys.stdin:
    start = time.perf_counter()
    pcer.audit(release.model_copy())
    print(time.perf_counter() - start, flush=True)
"""


def full_release(rng: np.random.Generator) -> dict[str, Any]:
    """With every cost that a sweep writes, as plain objects."""
    tree = json.loads(simulate(WORLD, rng).to_json())
    for run in tree["runs"]:
        for cell in run["groups"].values():
            cell["exposure"] = {name: _value(rng) for name in OF_RUNS}
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": group, "proxy": proxy, **_value(rng)}
        for epsilon in WORLD.budgets
        for group in tree["subject"]["groups"]
        for proxy in OF_MODELS
    ]
    return tree


def _value(rng: np.random.Generator) -> dict[str, float]:
    return {"value": float(rng.normal(0.02, 0.005)), "standard_error": 0.005}


class Auditor:
    """A process with one version of pcer, which audits when asked."""

    def __init__(self, source: Path, release: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(release)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd=source,
        )
        self.seconds()

    def seconds(self) -> float:
        """Of one more audit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(old: Path, release: Path, repeats: int) -> list[tuple[float, float]]:
    """(earlier, today's) seconds, in turn."""
    sources = [(old / "src").resolve(), Path(pcer.__file__).parents[1]]
    auditors = [Auditor(source, release) for source in sources]
    try:
        return [(auditors[0].seconds(), auditors[1].seconds()) for _ in range(repeats)]
    finally:
        for auditor in auditors:
            auditor.close()


def hot_spots(tree: dict[str, Any], n: int = 12) -> list[tuple[str, float]]:
    """Functions of pcer by the share of the audit's time inside them and what they call."""
    release, profile = pcer.release.parse_release(tree, file="x"), cProfile.Profile()
    pcer.audit(release.model_copy())
    start = time.perf_counter()
    profile.runcall(pcer.audit, release.model_copy())
    total = time.perf_counter() - start
    rows = [
        (f"{Path(file).stem}.{name}", spent[3] / total)
        for (file, _, name), spent in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
        if "pcer" in file
    ]
    return sorted(rows, key=lambda row: -row[1])[:n]


def main(old: str, repeats: str = "15") -> None:
    tree, out = full_release(np.random.default_rng(0)), Path(__file__).parent / "results"
    out.mkdir(exist_ok=True)
    path = out / "audit_time.release.json"
    path.write_text(json.dumps(tree))
    pairs = measure(Path(old), path, int(repeats))
    earlier, today = zip(*pairs, strict=True)
    ratio = statistics.median(now / before for before, now in pairs)
    for name, seconds in (("earlier", earlier), ("today", today)):
        print(f"{name:<8} best {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s")
    print(f"median ratio {ratio:.2f}, ratio of best {min(today) / min(earlier):.2f} (bar: {BAR:g})")
    spots = hot_spots(tree)
    for name, share in spots:
        print(f"  {share:>6.1%}  {name}")
    results = {"earlier": earlier, "today": today, "median_ratio": ratio, "hot_spots": spots}
    (out / "audit_time.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
