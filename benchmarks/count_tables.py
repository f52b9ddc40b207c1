"""Count a large table of predictions: pcer beside plain DuckDB SQL and fairlearn's MetricFrame.

    python -m benchmarks.count_tables [--rows 100000000] [--folder somewhere]

Writes the table (Parquet, 20 files, six budgets times 50 seeds) into the folder if it is not there,
then prints rows per second and peak memory. pcer and two plain queries (by the table's keys, with
four FILTERs; by the same keys, label and answer) take turns in one process with two threads each:
one warm-up, then the median of five. On a machine that others use too, the ratio of processor times
tells more than the ratio by the clock. Memory is the peak of a process that does nothing else.
MetricFrame gets the largest table that it counts within 2 GB.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

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
    with duckdb.connect(config={"threads": THREADS, "memory_limit": "1GB"}) as connection:
        for part in range(N_FILES):
            path = folder / f"part-{part:02}.parquet"
            rows = f"range({part * step}, {min((part + 1) * step, n_rows)}) t(i)"
            if not path.exists():
                connection.execute(f"COPY (SELECT {COLUMNS} FROM {rows}) TO '{path}'")
    return str(folder / "*.parquet")


def count_with_pcer(pattern: str) -> dict[tuple, tuple]:
    import ibis

    from pcer.release import DisclosureRule
    from pcer.tables import ReleaseFacts, releases_from_table
    from pcer.tables.source import PredictionColumns

    release = releases_from_table(
        pattern,
        PredictionColumns(attributes=("sex",), epsilon="epsilon", seed="seed"),
        ReleaseFacts(
            disclosure=DisclosureRule(public=True),
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
    """Seconds for the counting alone; the table is in memory before the clock starts."""
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
    command = [sys.executable, __file__, "--alone", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def measure_alone(what: str, pattern: str, n_rows: int) -> None:
    start = time.perf_counter()
    if what == "fairlearn":
        threading.Thread(target=leave_when_too_large, daemon=True).start()
        seconds = count_with_fairlearn(pattern, n_rows)
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
    """Median seconds, by the clock and of processor time, of each way; all answers must agree."""
    first = [count(pattern) for count in WAYS.values()]
    assert first[0] == first[1] == first[2]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(5):
        for name, count in WAYS.items():
            start = (time.perf_counter(), time.process_time())
            count(pattern)
            times[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
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


def main(n_rows: int, folder: Path, *, with_fairlearn: bool) -> None:
    pattern = write_table(folder, n_rows)
    seconds = in_turns(pattern)
    memory = {what: alone(what, pattern, str(n_rows))["bytes"] for what in WAYS}
    print(f"{'':28}{'rows':>14}{'seconds':>10}{'rows/s':>16}{'peak MB':>12}")
    for what, title in TITLES.items():
        print(line(title, n_rows, seconds[what][0], memory[what]))
    for kind, name in enumerate(("clock", "processor time")):
        for plain in ("sql", "sql by answer"):
            ratio = seconds["pcer"][kind] / seconds[plain][kind]
            print(f"pcer / {TITLES[plain]}, {name}: {ratio:.2f}", flush=True)
    fairlearn = largest_for_fairlearn(pattern, n_rows) if with_fairlearn else None
    if fairlearn is not None:
        timed = (fairlearn["rows"], fairlearn["seconds"], fairlearn["bytes"])
        print(line("fairlearn MetricFrame", *timed))
    versions = {
        name: importlib.metadata.version(name)
        for name in ("duckdb", "ibis-framework", "fairlearn", "pandas")
    }
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    found = {
        "rows": n_rows,
        "seconds": seconds,
        "peak_bytes": memory,
        "fairlearn": fairlearn,
        "versions": versions,
        "machine": machine,
    }
    (results / "count_tables.json").write_text(json.dumps(found, indent=2) + "\n")
    print(machine, versions)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        measure_alone(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--rows", type=int, default=100_000_000)
        default = Path(tempfile.gettempdir()) / "pcer-count-tables"
        parser.add_argument("--folder", type=Path, default=default)
        parser.add_argument("--without-fairlearn", action="store_true")
        options = parser.parse_args()
        main(
            options.rows,
            options.folder / str(options.rows),
            with_fairlearn=not options.without_fairlearn,
        )
