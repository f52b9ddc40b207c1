"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcer.errors import InputError
from pcer.files import write_files
from pcer.report import Table, to_rich

if TYPE_CHECKING:
    from pcer.data import OwnTable
    from pcer.release import Release

NEEDED = ("duckdb", "ibis", "pooch", "pyarrow")
STDOUT = "-"
WIDTH = 100


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command(
        epilog="Example: pcer release predictions.parquet --attribute sex --outcome benefit "
        "--split-kind random"
    )(release)
    app.command(epilog="Example: pcer datasets")(datasets)


def release(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file, or a pattern in quotes.")],
    attribute: Annotated[
        list[str] | None, typer.Option(help="Column of a protected attribute; repeatable.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="A positive prediction is a benefit or a harm.")
    ] = None,
    split_kind: Annotated[
        str | None, typer.Option(help="random if train and test were drawn at random, else other.")
    ] = None,
    label: Annotated[str, typer.Option(help="Column of the true labels.")] = "y_true",
    prediction: Annotated[str, typer.Option(help="Column of the predicted labels.")] = "y_pred",
    score: Annotated[
        str | None, typer.Option(help="Column of probabilities, instead of predicted labels.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Positive from here on, with --score.")] = 0.5,
    positive: Annotated[
        str | None, typer.Option(help="The positive label, unless labels are 0 and 1.")
    ] = None,
    split: Annotated[str, typer.Option(help="Column that says train or test.")] = "split",
    epsilon: Annotated[str | None, typer.Option(help="Column of the budget (epsilon).")] = None,
    seed: Annotated[str | None, typer.Option(help="Column of the seed (seed).")] = None,
    split_id: Annotated[
        str | None, typer.Option(help="Column naming the split (split_id).")
    ] = None,
    membership_score: Annotated[
        str | None, typer.Option(help="Column of an attack's score, higher for members.")
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Column of the loss, lower for members.")] = None,
    record_id: Annotated[
        str | None,
        typer.Option(help="Column naming a record in all models, to compare it; with --score."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Order of the groups, with commas between.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the data; the file's name.")] = None,
    mechanism: Annotated[str, typer.Option(help="How the models were trained.")] = "unknown",
    dp_delta: Annotated[float | None, typer.Option(help="Delta of models with a budget.")] = None,
    note: Annotated[
        list[str] | None, typer.Option(help="Sentence that travels with the release; repeatable.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="duckdb, pyspark, or an Ibis address with ://.")
    ] = None,
    out: Annotated[str, typer.Option(help="Folder, or a .json file; - is stdout.")] = ".",
) -> None:
    """Count a table of predictions, of any size, into a release per protected attribute."""
    require_trainers_half()
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    columns = PredictionColumns(
        attributes=tuple(attribute or ()),
        y_true=label,
        y_pred=None if score else prediction,
        y_score=score,
        threshold=threshold,
        split=split,
        epsilon=epsilon,
        seed=seed,
        split_id=split_id,
        membership_score=membership_score,
        loss=loss,
        record_id=record_id,
    )
    facts: Any = {
        "dataset": dataset or _stem(table),
        "outcome": _said(outcome, "--outcome", "benefit", "harm", "what a positive prediction is"),
        "split_kind": _said(
            split_kind, "--split-kind", "random", "other", "how train and test were divided"
        ),
        "positive_label": positive,
        "groups": None if groups is None else groups.split(","),
        "mechanism": mechanism,
        "dp_delta": dp_delta,
        "notes": tuple(note or ()),
    }
    made = releases_from_table(table, columns, ReleaseFacts(**facts), backend=backend)
    _write(made, out)


def datasets(
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="The list as JSON. - is stdout.")
    ] = None,
) -> None:
    """List the benchmark datasets: sizes, licences, what is at hand, and what the data is."""
    require_trainers_half()
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        text = json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
        _give({json_path: text})
        return
    _print_datasets(rows)


def account_table(own: OwnTable) -> Table:
    """What became of every column of a person's own table, to be shown before training."""
    rows = tuple(
        (line.column, line.role, f"{line.n_values:,}", f"{line.n_missing:,}", line.remark)
        for line in own.account
    )
    heads = ("column", "taken as", "values", "missing", "remark")
    return Table(f"Columns of {own.dataset.name}", heads, rows, n_labels=2)


def require_trainers_half() -> None:
    """Raise InputError, with the command to type, unless the trainer's packages are installed."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            raise InputError(
                f"this verb belongs to the trainer's half, and {name} is not installed; "
                'pip install "pcer[train]".'
            )


def _said(value: str | None, option: str, first: str, second: str, what: str) -> str:
    if value in (first, second):
        return str(value)
    given = "was not said" if value is None else f"cannot be {value!r}"
    raise InputError(f"{what} {given}; add {option} {first} or {option} {second}.")


def _stem(table: str) -> str:
    """The file's name without endings; its folder's name where the file is a pattern."""
    path = Path(table)
    name = path.parent.name if any(mark in path.name for mark in "*?[") else path.name
    return name.split(".")[0] or "predictions"


def _write(made: Mapping[str, Release], out: str) -> None:
    if out == STDOUT or out.endswith(".json"):
        if len(made) > 1:
            raise InputError("several attributes make several releases; give --out a folder.")
        paths = dict.fromkeys(made, out)
    else:
        Path(out).mkdir(parents=True, exist_ok=True)
        paths = {name: str(Path(out) / _file_name(one)) for name, one in made.items()}
    _give({paths[name]: one.to_json() for name, one in made.items()})
    for name, path in paths.items():
        if path != STDOUT:
            typer.echo(f"{path}: {_summary(made[name])}.", err=True)


def _give(texts: dict[str, str]) -> None:
    write_files({path: text for path, text in texts.items() if path != STDOUT})
    for path, text in texts.items():
        if path == STDOUT:
            typer.echo(text, nl=False)


def _file_name(one: Release) -> str:
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (one.subject.dataset, one.subject.attribute))
    return ".".join([*plain, "release", "json"])


def _summary(one: Release) -> str:
    budgets = {run.epsilon for run in one.runs}
    named = ", ".join("no-DP" if value is None else f"{value:g}" for value in _ordered(budgets))
    return (
        f"{len(one.runs)} models (epsilon {named}), up to {one.subject.n_records:,} records each, "
        f"groups {', '.join(one.subject.groups)}"
    )


def _ordered(budgets: set[float | None]) -> list[float | None]:
    return sorted(budgets, key=lambda value: float("inf") if value is None else value)


def _print_datasets(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(width=WIDTH)
    cells = tuple(
        (
            row["name"],
            row["title"],
            f"{row['n_records']:,}" if row["n_records"] else "not known yet",
            "\n".join(f"{name}: {len(groups)}" for name, groups in row["attributes"].items()),
            row["outcome"],
            row["at_hand"],
        )
        for row in rows
    )
    heads = ("name", "task", "records", "attributes: groups", "outcome", "where")
    console.print(to_rich(Table("Benchmark datasets", heads, cells, n_labels=2)))
    for row in rows:
        console.print(Text(row["name"], style="bold"))
        for line in (f"{row['source']}.", f"Licence: {row['licence']}.", row["caution"]):
            console.print(Padding(Text(line), (0, 0, 0, 2)))
    console.print()
    console.print(
        Text(
            "These are records of real people who did not consent to this use, some of them about "
            "decisions over their lives. Use them to examine methods, never to judge a person."
        )
    )
    console.print(Text('In Python: pcer.data.load("compas").'))
