"""The long run, by hand.

``python -m tests.fuzz --releases 1000000 --audits 20000 --commands 2000`` prints what came out.
``--batches 100`` does as much a hundred times, each in a process of its own from another seed: one
that dies without a word is named with its seed and its signal.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import time
import warnings

from tests.fuzz.targets import MEGABYTES, Findings, fuzz

TARGETS = {"releases": 10_000, "audits": 300, "commands": 50, "pages": 300, "tables": 100}


def main() -> int:
    """Print what came out; 1 if anything should not have."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in TARGETS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=1)
    said = vars(parser.parse_args())
    if (n_batches := said.pop("batches")) > 1:
        return run_batches(said, n_batches)
    warnings.simplefilter("error", RuntimeWarning)  # an overflow is a failure, as in the tests
    findings = fuzz(said, said["seed"], _teller())
    for kind, count in sorted(findings.counts.items()):
        print(f"{kind:24} {count:>10,}")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"slowest {findings.slowest:.2f} s; memory at most {megabytes:,.0f} MB")
    for failure in findings.failures[:50]:
        print(failure)
    print(f"{len(findings.failures)} failures")
    return int(bool(findings.failures) or megabytes > MEGABYTES)


def run_batches(said: dict[str, int], n_batches: int) -> int:
    """One process after the other; 1 if any found something or did not end by itself."""
    bad = []
    for seed in range(said["seed"], said["seed"] + n_batches):
        options = [f"--{name}={value}" for name, value in (said | {"seed": seed}).items()]
        code = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", *options], check=False
        ).returncode
        print(f"batch of seed {seed}: {told(code)}", flush=True)
        bad += [seed] if code else []
    print(f"{n_batches} batches, {len(bad)} bad: {bad}")
    return int(bool(bad))


def told(code: int) -> str:
    """How a process ended."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


def _teller():
    """A line on stderr every half minute."""
    last = time.monotonic()

    def tell(findings: Findings) -> None:
        nonlocal last
        if time.monotonic() - last > 30:
            last = time.monotonic()
            total, failed = sum(findings.counts.values()), len(findings.failures)
            print(f"{total:,} inputs, {failed} failures", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
