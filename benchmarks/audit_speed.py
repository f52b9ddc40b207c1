"""How long an audit takes, the report after it, and the import.

One process, one core. Timings on a shared machine are noisy: the times are the best of several.

    python -m benchmarks.audit_speed
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.simulate import World, simulate

import pcer
from pcer.report import to_report


def seconds(job: Callable[[], object], *, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - start)
    return best


def time_audit() -> tuple[float, float]:
    """Seconds of an audit, and of an audit with its page; each of a release just read."""
    world = World(
        sizes=(32_000, 14_000),
        label_shares=(0.3, 0.11),
        right=[(0.93, 0.6)] * 2,
        gaps=(0.0, 0.0),
        n_seeds=50,
        budgets=(0.1, 0.5, 1.0, 5.0, 10.0, None),
    )
    release = simulate(world, np.random.default_rng(0))
    to_report([pcer.audit(release)], [release])

    def page() -> str:
        fresh = release.model_copy()
        return to_report([pcer.audit(fresh)], [fresh])

    audit = seconds(lambda: pcer.audit(release.model_copy()), repeats=3)
    return audit, seconds(page, repeats=3)


def time_import() -> float:
    code = "import time; s = time.perf_counter(); import pcer; print(time.perf_counter() - s)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    (audit, page), load = time_audit(), time_import()
    results = {
        "audit_seconds": audit,
        "audit_and_report_seconds": page,
        "import_seconds": load,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    print(f"audit, 6 budgets x 50 seeds x 2 groups: {audit:.2f} s (bar: 1 s)")
    print(f"audit and report:                       {page:.2f} s")
    print(f"import pcer, best of five:              {load:.2f} s (bar: 0.4 s)")
    out = Path(__file__).parent / "results" / "audit_speed.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
