"""What things cost: an audit, attacks, counting a large table, refitting an estimator.

    python -m benchmarks.speed audit
    python -m benchmarks.speed audit_since OLD [repeats]
    python -m benchmarks.speed attacks                   Adult, 1 process
    python -m benchmarks.speed attacks --study --processes 16   all datasets
    python -m benchmarks.speed attacks --opacus          as many shadow models
    python -m benchmarks.speed tables [--rows 100000000] [--folder somewhere]
    python -m benchmarks.speed estimator [splits] [jobs] a forest on Adult, both ways

Imports stand in functions, since ``tables`` measures the memory of processes that do
nothing else.
"""

from __future__ import annotations

import cProfile
import importlib.metadata
import json
import math
import os
import platform
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks import RESULTS, parser_of, run_verb, with_numbers, write_results

if TYPE_CHECKING:
    import numpy as np

    from pcer.train import Predictions


MOST_TIMES = 2.0
OF_RUNS = ("attack_advantage", "auc_advantage", "tpr_excess_at_1_percent")
OF_MODELS = (
    "lira_advantage",
    "lira_offline_advantage",
    "paired_confidence",
    "paired_gap",
    "rmia_advantage",
)
WORKER = """
import sys, time, pcer
release = pcer.read_release(sys.argv[1])
for line in sys.stdin:
    start = time.perf_counter()
    pcer.audit(release.model_copy())
    print(time.perf_counter() - start, flush=True)
"""


def full_release() -> dict[str, Any]:
    """6 settings, 50 seeds, 2 groups, every attack of a sweep; as plain objects."""
    import numpy as np
    from tests.worlds.releases import World, simulate

    rng = np.random.default_rng(0)
    world = World(
        sizes=(32_000, 14_000),
        label_shares=(0.3, 0.11),
        right=[(0.93, 0.6)] * 2,
        gaps=(0.01, 0.02),
        n_seeds=50,
        budgets=(0.1, 0.5, 1.0, 5.0, 10.0, None),
    )
    tree = json.loads(simulate(world, rng).to_json())
    for run in tree["runs"]:
        for cell in run["groups"].values():
            cell["exposure"] = {name: _value(rng) for name in OF_RUNS}
    tree["pooled_exposure"] = [
        {"epsilon": epsilon, "group": group, "attack": attack, **_value(rng)}
        for epsilon in world.budgets
        for group in tree["subject"]["groups"]
        for attack in OF_MODELS
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


def measure_in_turn(
    old: Path, release: Path, repeats: int
) -> list[tuple[float, float]]:
    """(earlier, today's) seconds, in turn."""
    import pcer

    sources = [(old / "src").resolve(), Path(pcer.__file__).parents[1]]
    auditors = [Auditor(source, release) for source in sources]
    try:
        return [(auditors[0].seconds(), auditors[1].seconds()) for _ in range(repeats)]
    finally:
        for auditor in auditors:
            auditor.close()


def hot_spots(tree: dict[str, Any], n: int = 12) -> list[tuple[str, float]]:
    """Functions of pcer by their share of the audit's time, with what they call."""
    import pcer
    from pcer.release.file import parse_release

    release = parse_release(tree, file="x")
    profile = cProfile.Profile()
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


def best_of(job: Callable[[], object], *, repeats: int = 3) -> float:
    """Seconds of the quickest."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def time_import() -> float:
    code = (
        "import time; s = time.perf_counter(); import pcer; "
        "print(time.perf_counter() - s)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


def audit() -> None:
    """How long an audit takes, the report after it, and the import.

    One process, one core, of a release just read. Timings on a shared machine are
    noisy: the times are the best of several.
    """
    import pcer
    from pcer.release.file import parse_release
    from pcer.report import to_report

    release = parse_release(full_release(), file="made up")
    to_report([pcer.audit(release)], [release])

    def page() -> str:
        fresh = release.model_copy()
        return to_report([pcer.audit(fresh)], [fresh])

    found = {
        "audit": best_of(lambda: pcer.audit(release.model_copy())),
        "audit and report": best_of(page),
        "import pcer": time_import(),
    }
    for name, spent in found.items():
        print(f"{name:<20}{spent:.2f} s")
    write_results("audit_speed", {**found, "python": platform.python_version()})


def audit_since(old: str, repeats: str = "15") -> None:
    """What does today's audit cost against an earlier commit's? Both in one run.

        git worktree add --detach OLD COMMIT

    A release of 6 settings, 50 seeds and 2 groups with every attack of a sweep (of
    every run, and of all models) is audited by both, in turn, each in a process of its
    own that has audited once before. Printed are the best and the median time of each,
    the median of the ratios, which is what a shared machine allows to compare, and
    where today's goes.
    """
    tree = full_release()
    path = RESULTS / "audit_time.release.json"
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(tree))
    pairs = measure_in_turn(Path(old), path, int(repeats))
    earlier, today = zip(*pairs, strict=True)
    ratio = statistics.median(now / before for before, now in pairs)
    for name, seconds in (("earlier", earlier), ("today", today)):
        print(
            f"{name:<8} best {min(seconds):.3f} s, median "
            f"{statistics.median(seconds):.3f} s"
        )
    best = min(today) / min(earlier)
    print(f"median ratio {ratio:.2f}, ratio of best {best:.2f} (bar: {MOST_TIMES:g})")
    spots = hot_spots(tree)
    for name, share in spots:
        print(f"  {share:>6.1%}  {name}")
    results = {
        "earlier": earlier,
        "today": today,
        "median_ratio": ratio,
        "hot_spots": spots,
    }
    write_results("audit_time", results)


N_SEEDS, N_FEATURES = 50, 19
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, math.inf)
STUDY_SHAPES = {
    "adult": (46_033, 2),
    "acs": (50_000, 2),
    "compas": (6_172, 1),
    "bios": (37_900, 1),
}
"""Records and protected attributes of each dataset."""
BATCH, STEPS_PER_MODEL, TIMED_STEPS = 256, 3_150, 200


def made_up(n_records: int, n_attributes: int) -> tuple[SimpleNamespace, Predictions]:
    """A sweep of that shape and its scores: levels of records, noise, no memory."""
    import numpy as np

    from pcer.train import Predictions, TrainConfig
    from pcer.train.accounting import Budget

    rng = np.random.default_rng(0)
    member = rng.random((N_SEEDS, n_records)) < 0.7
    level = rng.normal(size=n_records)
    noise = (0.3 * rng.normal(size=member.shape).astype(np.float32) for _ in BUDGETS)
    attributes = {
        f"attribute {k}": SimpleNamespace(
            codes=(rng.random(n_records) < 0.3).astype(np.int64), groups=("a", "b")
        )
        for k in range(n_attributes)
    }
    dataset = SimpleNamespace(
        labels=rng.integers(0, 2, n_records), attribute=attributes.get
    )
    sweep = SimpleNamespace(
        dataset=dataset, attributes=tuple(attributes), config=TrainConfig()
    )
    return sweep, Predictions(
        budgets=tuple(
            Budget(epsilon=e, noise_multiplier=0.0, epsilon_by_accountant={})
            for e in BUDGETS
        ),
        seeds=tuple(range(N_SEEDS)),
        logits=np.stack([level.astype(np.float32) + part for part in noise]),
        member=member,
    )


def time_attacks(name: str, n_processes: int) -> dict[str, float]:
    from pcer.attacks import attack_models
    from pcer.store.processes import run_tasks
    from pcer.sweep.releases import _settings

    sweep, scores = made_up(*STUDY_SHAPES[name])
    cpu = time.process_time()
    clock = time.perf_counter()
    attributes = [sweep.dataset.attribute(one) for one in sweep.attributes]
    settings = _settings(sweep, {None: scores}, attributes)
    tasks = [(attack_models, (views,)) for views in settings]
    list(run_tasks(tasks, n_processes=n_processes))
    return {
        "cpu_seconds": time.process_time() - cpu,
        "seconds": time.perf_counter() - clock,
    }


def opacus_step() -> float:
    """CPU seconds of one DP-SGD step of one model with Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from torch import nn

    torch.set_num_threads(1)
    layers = [
        nn.Linear(N_FEATURES, 64),
        nn.ReLU(),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 1),
    ]
    model = GradSampleModule(nn.Sequential(*layers))
    plain = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = DPOptimizer(
        plain, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=BATCH
    )
    features = torch.randn(BATCH, N_FEATURES)
    labels = torch.rand(BATCH, 1).round()
    loss = nn.BCEWithLogitsLoss()
    for step in range(TIMED_STEPS + 20):
        if step == 20:
            start = time.process_time()
        optimizer.zero_grad()
        loss(model(features), labels).backward()
        optimizer.step()
    return (time.process_time() - start) / TIMED_STEPS


def attacks(words: Sequence[str]) -> None:
    """What do all attacks on a sweep cost?

    6 budgets x 50 seeds, made-up scores of the study's shapes.

    Only the work matters, not the values. Seconds are CPU seconds of the first process
    (all of them, if it is the only one) and seconds on the clock; memory is that
    process's peak. The price of ordinary LiRA is a measured step of Opacus (hooks, its
    default; network 19-64-32-1, batch 256) times 3,150 steps times 300 models: the
    trained sweep itself needs no shadow models.
    """
    parser = parser_of(attacks)
    parser.add_argument("--study", action="store_true", help="all four datasets")
    parser.add_argument("--processes", type=int, default=1, help="default: 1")
    parser.add_argument("--opacus", action="store_true", help="price of ordinary LiRA")
    options = parser.parse_args(words)
    print(f"{len(BUDGETS)} x {N_SEEDS} models a dataset, {options.processes} processes")
    found = {}
    for name in STUDY_SHAPES if options.study else ["adult"]:
        found[name] = one = time_attacks(name, options.processes)
        print(
            f"  {name:<8}{one['cpu_seconds']:8.1f} CPU s {one['seconds']:8.1f} s on "
            "the clock"
        )
    total = sum(one["cpu_seconds"] for one in found.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    clock = sum(one["seconds"] for one in found.values())
    print(
        f"  {'all':<8}{total:8.1f} CPU s {clock:8.1f} s on the clock, peak {peak:.2f} "
        "GB"
    )
    results = {
        "processes": options.processes,
        "cores": os.cpu_count(),
        "peak_gb": peak,
        **found,
    }
    if options.opacus:
        step = opacus_step()
        price = step * STEPS_PER_MODEL * len(BUDGETS) * N_SEEDS
        results |= {"opacus_step_seconds": step, "ordinary_lira_seconds": price}
        print(
            f"  ordinary LiRA: 300 shadow models with Opacus at {1e3 * step:.2f} ms a "
            "step:"
        )
        print(
            f"  {'':<8}{price:8.0f} CPU s, "
            f"{price / found['adult']['cpu_seconds']:,.0f} times"
        )
    results |= {
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
    }
    write_results("attacks", results)


N_FILES = 20
THREADS = 2
MEMORY_LIMIT = 2 * 1024**3
FAIRLEARN_ROWS = (32, 16, 8, 6, 5, 4, 2, 1)  # millions, the largest that fits is timed
COLUMNS = """
    ([0.1, 0.5, 1.0, 5.0, 10.0, NULL][1 + (i % 6)::INT])::DOUBLE AS epsilon,
    ((i // 6) % 50)::INTEGER AS seed,
    CASE WHEN hash(i) % 10 < 7 THEN 'train' ELSE 'test' END AS split,
    CASE WHEN hash(i + 1) % 3 = 0 THEN 'Female' ELSE 'Male' END AS sex,
    (hash(i + 2) % 4 = 0)::TINYINT AS y_true,
    (hash(i + 3) % 5 = 0)::TINYINT AS y_pred
"""
PLAIN = """
    SELECT epsilon, seed, split, sex,
        count(*) FILTER (y_true = 1 AND y_pred = 1) AS tp,
        count(*) FILTER (y_true = 0 AND y_pred = 1) AS fp,
        count(*) FILTER (y_true = 0 AND y_pred = 0) AS tn,
        count(*) FILTER (y_true = 1 AND y_pred = 0) AS fn
    FROM read_parquet('{pattern}')
    GROUP BY epsilon, seed, split, sex
"""
PLAIN_BY_ANSWER = """
    SELECT epsilon, seed, split, sex, y_true, y_pred, count(*) AS n
    FROM read_parquet('{pattern}')
    GROUP BY epsilon, seed, split, sex, y_true, y_pred
"""
CELLS = ((1, 1), (0, 1), (0, 0), (1, 0))  # tp, fp, tn, fn as (label, answer)


def write_table(folder: Path, n_rows: int) -> str:
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    step = -(-n_rows // N_FILES)
    with duckdb.connect(
        config={"threads": THREADS, "memory_limit": "1GB"}
    ) as connection:
        for part in range(N_FILES):
            path = folder / f"part-{part:02}.parquet"
            rows = f"range({part * step}, {min((part + 1) * step, n_rows)}) t(i)"
            if not path.exists():
                connection.execute(f"COPY (SELECT {COLUMNS} FROM {rows}) TO '{path}'")
    return str(folder / "*.parquet")


def count_with_pcer(pattern: str) -> dict[tuple, tuple]:
    import ibis

    from pcer.release.disclosure import Disclosure
    from pcer.tables import ReleaseFacts, releases_from_table
    from pcer.tables.predictions import PredictionColumns

    release = releases_from_table(
        pattern,
        PredictionColumns(attributes=("sex",), epsilon="epsilon", seed="seed"),
        ReleaseFacts(
            disclosure=Disclosure(public_data=True),
            dataset="made up",
            outcome="benefit",
            split_kind="random",
        ),
        backend=ibis.duckdb.connect(threads=THREADS),
    )["sex"]
    return {
        (run.epsilon, run.seed, split, name): (table.tp, table.fp, table.tn, table.fn)
        for run in release.runs
        for name, tables in run.groups.items()
        for split, table in (("train", tables.train), ("test", tables.test))
    }


def count_with_sql(pattern: str) -> dict[tuple, tuple]:
    return {row[:4]: row[4:] for row in fetched(PLAIN, pattern)}


def count_with_sql_by_answer(pattern: str) -> dict[tuple, tuple]:
    rows = {row[:6]: row[6] for row in fetched(PLAIN_BY_ANSWER, pattern)}
    keys = {key[:4] for key in rows}
    return {key: tuple(rows.get((*key, *cell), 0) for cell in CELLS) for key in keys}


def fetched(query: str, pattern: str) -> list[tuple]:
    import duckdb

    with duckdb.connect(config={"threads": THREADS}) as connection:
        return connection.execute(query.format(pattern=pattern)).fetchall()


def count_with_fairlearn(pattern: str, n_rows: int) -> float:
    """Seconds for the counting alone; the table is in memory before."""
    import numpy as np
    import pandas as pd
    import pyarrow.dataset as ds
    from fairlearn.metrics import MetricFrame

    table = ds.dataset(str(Path(pattern).parent)).head(n_rows)
    frame = table.to_pandas(strings_to_categorical=True, self_destruct=True)
    frame["epsilon"] = frame["epsilon"].fillna(np.inf)
    metrics = {
        "tp": lambda y_true, y_pred: int(np.sum((y_true == 1) & (y_pred == 1))),
        "fp": lambda y_true, y_pred: int(np.sum((y_true == 0) & (y_pred == 1))),
        "tn": lambda y_true, y_pred: int(np.sum((y_true == 0) & (y_pred == 0))),
        "fn": lambda y_true, y_pred: int(np.sum((y_true == 1) & (y_pred == 0))),
    }
    start = time.perf_counter()
    found = MetricFrame(
        metrics=metrics,
        y_true=frame["y_true"],
        y_pred=frame["y_pred"],
        sensitive_features=frame["sex"],
        control_features=frame[["epsilon", "seed", "split"]],
    ).by_group
    seconds = time.perf_counter() - start
    assert int(pd.DataFrame(found).sum().sum()) == n_rows
    return seconds


def leave_when_too_large() -> None:
    """End this process as soon as it has used more memory than is allowed."""
    while peak_memory() <= MEMORY_LIMIT:
        time.sleep(0.2)
    os._exit(3)


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(*arguments: str) -> dict[str, float] | None:
    """Run one measurement in a process of its own; None where it fails."""
    command = [sys.executable, "-m", "benchmarks.speed", "alone", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def measure_alone(what: str, pattern: str, n_rows: str) -> None:
    start = time.perf_counter()
    if what == "fairlearn":
        threading.Thread(target=leave_when_too_large, daemon=True).start()
        seconds = count_with_fairlearn(pattern, int(n_rows))
    else:
        WAYS[what](pattern)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "bytes": peak_memory()}))


WAYS = {
    "pcer": count_with_pcer,
    "sql": count_with_sql,
    "sql by answer": count_with_sql_by_answer,
}
TITLES = {
    "pcer": "pcer, release and all",
    "sql": "DuckDB, four FILTERs",
    "sql by answer": "DuckDB, by label and answer",
}


def in_turns(pattern: str) -> dict[str, tuple[float, float]]:
    """Median seconds, by clock and processor, of each way; all answers must agree."""
    first = [count(pattern) for count in WAYS.values()]
    assert first[0] == first[1] == first[2]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(5):
        for name, count in WAYS.items():
            start = (time.perf_counter(), time.process_time())
            count(pattern)
            times[name].append(
                (time.perf_counter() - start[0], time.process_time() - start[1])
            )
    return {
        name: tuple(statistics.median(column) for column in zip(*values, strict=True))
        for name, values in times.items()
    }


def largest_for_fairlearn(pattern: str, n_rows: int) -> dict[str, float] | None:
    for millions in FAIRLEARN_ROWS:
        rows = millions * 1_000_000
        result = alone("fairlearn", pattern, str(rows)) if rows <= n_rows else None
        if result is not None:
            return {**result, "rows": rows}
    return None


def line(name: str, rows: float, seconds: float, n_bytes: float) -> str:
    memory = f"{n_bytes / 1024**2:,.0f}"
    return f"{name:28}{rows:14,.0f}{seconds:10.2f}{rows / seconds:16,.0f}{memory:>12}"


def tables(words: Sequence[str]) -> None:
    """Count a large table of predictions: pcer, DuckDB's SQL, fairlearn's MetricFrame.

    Writes the table (Parquet, 20 files, six budgets times 50 seeds) into the folder if
    it is not there, then prints rows per second and peak memory. pcer and two plain
    queries (by the table's keys, with four FILTERs; by the same keys, label and answer)
    take turns in one process with two threads each: one warm-up, then the median of
    five. On a machine that others use too, the ratio of processor times tells more than
    the ratio by the clock. Memory is the peak of a process that does nothing else.
    MetricFrame gets the largest table that it counts within 2 GB.
    """
    parser = parser_of(tables)
    parser.add_argument("--rows", type=int, default=100_000_000)
    default = Path(tempfile.gettempdir()) / "pcer-count-tables"
    parser.add_argument("--folder", type=Path, default=default)
    parser.add_argument("--without-fairlearn", action="store_true")
    options = parser.parse_args(words)
    n_rows = options.rows
    pattern = write_table(options.folder / str(n_rows), n_rows)
    seconds = in_turns(pattern)
    memory = {what: alone(what, pattern, str(n_rows))["bytes"] for what in WAYS}
    print(f"{'':28}{'rows':>14}{'seconds':>10}{'rows/s':>16}{'peak MB':>12}")
    for what, title in TITLES.items():
        print(line(title, n_rows, seconds[what][0], memory[what]))
    for kind, name in enumerate(("clock", "processor time")):
        for plain in ("sql", "sql by answer"):
            ratio = seconds["pcer"][kind] / seconds[plain][kind]
            print(f"pcer / {TITLES[plain]}, {name}: {ratio:.2f}", flush=True)
    fairlearn = (
        largest_for_fairlearn(pattern, n_rows)
        if not options.without_fairlearn
        else None
    )
    if fairlearn is not None:
        timed = (fairlearn["rows"], fairlearn["seconds"], fairlearn["bytes"])
        print(line("fairlearn MetricFrame", *timed))
    versions = {
        name: importlib.metadata.version(name)
        for name in ("duckdb", "ibis-framework", "fairlearn", "pandas")
    }
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )
    found = {
        "rows": n_rows,
        "seconds": seconds,
        "peak_bytes": memory,
        "fairlearn": fairlearn,
        "versions": versions,
        "machine": machine,
    }
    write_results("count_tables", found)
    print(machine, versions)


def fit_by_hand(
    estimator: Any, X: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int
) -> Any:
    from sklearn.base import clone

    model = clone(estimator).set_params(random_state=seed).fit(X[rows], y[rows])
    return model.predict_proba(X)[:, 1].astype("float32")


def estimator(n_splits: int = 20, n_jobs: int = 2) -> None:
    """What pcer adds to fitting an estimator by hand, a forest on Adult.

    By hand: the same splits, seeds and processes with joblib alone, fitting and asking
    every model for its probabilities. Both in one run, after the processes have
    started. With one job the processor's time is counted too, which other work on the
    machine does not change.
    """
    import numpy as np
    from joblib import Parallel, delayed
    from sklearn.ensemble import RandomForestClassifier

    import pcer
    from pcer.data import load
    from pcer.models.splits import random_splits

    adult = load("adult")
    X = np.asarray(adult.features)
    y = np.asarray(adult.labels)
    sex = adult.attribute("sex")
    groups = np.array([*sex.group_names, ""], dtype=object)[sex.codes]
    forest = RandomForestClassifier()
    splits = random_splits(n_splits, len(y), None, test_size=0.3, random_state=0)
    calls = [(rows, k) for k, rows in enumerate(splits.train)]

    def by_hand(some: Sequence[tuple[Any, int]] = calls) -> None:
        Parallel(n_jobs)(delayed(fit_by_hand)(forest, X, y, *call) for call in some)

    def by_pcer() -> None:
        pcer.release_from_estimator(
            forest,
            X,
            y,
            sensitive_features={"sex": groups},
            outcome="benefit",
            n_splits=n_splits,
            progress=False,
            n_jobs=n_jobs,
            disclosure=pcer.Disclosure(public_data=True),
        )

    by_hand(calls[:n_jobs])
    clocks = {"on the wall": time.perf_counter, "of the processor": time.process_time}
    spent = []
    for run in (by_hand, by_pcer):
        began = [clock() for clock in clocks.values()]
        run()
        spent.append(
            [clock() - then for clock, then in zip(clocks.values(), began, strict=True)]
        )
    for name, hand, ours in [*zip(clocks, *spent, strict=True)][
        : 2 if n_jobs == 1 else 1
    ]:
        print(
            f"seconds {name}: by hand {hand:.1f}, by pcer {ours:.1f}, ratio "
            f"{ours / hand:.3f}"
        )


if __name__ == "__main__":
    run_verb(
        {
            "audit": with_numbers(audit),
            "audit_since": lambda words: audit_since(*words),
            "attacks": attacks,
            "tables": tables,
            "alone": lambda words: measure_alone(*words),
            "estimator": with_numbers(estimator),
        }
    )
