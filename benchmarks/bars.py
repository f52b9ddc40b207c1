"""What do pcer's own parts cost, as ratios in one run that other machines can repeat?

    python -m benchmarks.bars rows [ROWS ...]   estimator audits beside them by hand
    python -m benchmarks.bars start             starting up, beside ``import numpy``

Processor time, both sides in turn, three times; medians are printed.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import run_verb, write_results

REPEATS = 3
N_SPLITS = 20
N_FEATURES = 12
SIZES = (5_000, 50_000, 200_000)
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
RELEASE = Path(__file__).parents[1] / "examples" / "compas-logistic.release.json"


def processor_seconds(command: Sequence[str]) -> float:
    """Of a process, which must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=ONE_THREAD, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_mb() -> float:
    """Of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made_table(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels by a logistic law, and two groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    weights = rng.normal(size=N_FEATURES) / np.sqrt(N_FEATURES)
    y = (X @ weights + rng.logistic(size=n) > 0).astype(int)
    return X, y, np.where(rng.random(n) < 0.4, "a", "b")


def attack_by_hand(X: np.ndarray, y: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(who, split) the AUC of everybody's and each group's confidence, by hand."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    from pcer.models.splits import random_splits

    splits = random_splits(N_SPLITS, len(y), None, test_size=0.3, random_state=0)
    everybody = [np.ones(len(y), dtype=bool), group == "a", group == "b"]
    found = []
    for rows in splits.train:
        model = LogisticRegression().fit(X[rows], y[rows])
        probability = model.predict_proba(X)[:, 1]
        confidence = np.where(y == 1, probability, 1 - probability)
        member = np.zeros(len(y), dtype=bool)
        member[rows] = True
        found.append([roc_auc_score(member[w], confidence[w]) for w in everybody])
    return np.array(found).T


def attack_by_pcer(X: np.ndarray, y: np.ndarray, group: np.ndarray) -> object:
    """The release: every attack that 20 splits allow, and made-up groups."""
    from sklearn.linear_model import LogisticRegression

    import pcer

    return pcer.release_from_estimator(
        LogisticRegression(),
        X,
        y,
        sensitive_features={"group": group},
        outcome="benefit",
        n_splits=N_SPLITS,
        progress=False,
        n_jobs=1,
        disclosure=pcer.Disclosure(public_data=True),
    )


def one_size(words: Sequence[str]) -> None:
    """In a process of one thread: seconds of both ways in turn, and the peak memory."""
    small = made_table(500)
    attack_by_hand(*small)
    attack_by_pcer(*small)
    table = made_table(int(words[0]))
    pairs = []
    for _ in range(REPEATS):
        began = time.process_time()
        attack_by_hand(*table)
        between = time.process_time()
        attack_by_pcer(*table)
        pairs.append((between - began, time.process_time() - between))
    print(json.dumps({"pairs": pairs, "peak_mb": peak_mb()}))


def measured_alone(*words: str) -> dict[str, Any]:
    """What a verb of this module prints from a process of its own, with one thread."""
    command = [sys.executable, "-m", "benchmarks.bars", *words]
    done = subprocess.run(
        command, env=ONE_THREAD, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(words: Sequence[str]) -> None:
    """What does an estimator audit cost beside a threshold attack by hand?

    Logistic regression on 12 made features, 20 splits, one thread. By hand: fit,
    ``predict_proba``, and the AUC of the confidence in the true label of everybody and
    of each of two groups. Bars: 2.5 at 5,000 rows, else 2.0; 800 MB at 200,000.
    """
    results = {}
    for n in [int(word) for word in words] or SIZES:
        found = measured_alone("one_size", str(n))
        ratios = [ours / hand for hand, ours in found["pairs"]]
        sides = zip(*found["pairs"], strict=True)
        hand, ours = (statistics.median(side) for side in sides)
        print(
            f"{n:>9,} rows: by hand {hand:.2f} s, pcer {ours:.2f} s, ratios "
            f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}; peak "
            f"{found['peak_mb']:.0f} MB"
        )
        results[str(n)] = {**found, "ratios": ratios}
    write_results("bars_rows", results)


def start(words: Sequence[str]) -> None:
    """What does starting up cost, beside ``import numpy`` in the same run?

    Bars: ``import pcer`` 2.5, ``pcer --help`` 3.5, ``pcer audit FILE`` 6.
    """
    python = sys.executable
    command = str(Path(python).with_name("pcer"))
    ways = {
        "import numpy": [python, "-c", "import numpy"],
        "import pcer": [python, "-c", "import pcer"],
        "pcer --help": [command, "--help"],
        "pcer audit FILE": [command, "audit", words[0] if words else str(RELEASE)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(1 + REPEATS):
        for name, way in ways.items():
            seconds[name].append(processor_seconds(way))
    numpy = seconds["import numpy"]
    for name, of_way in seconds.items():
        # The first run reads files from the disk.
        pairs = zip(of_way[1:], numpy[1:], strict=True)
        ratios = [one / other for one, other in pairs]
        print(
            f"{name:<16} {statistics.median(of_way[1:]):.2f} s, "
            f"{statistics.median(ratios):.1f} times import numpy"
        )
    write_results("bars_start", seconds)


if __name__ == "__main__":
    run_verb({"rows": rows, "start": start, "one_size": one_size})
