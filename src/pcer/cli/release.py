"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import typer

from pcer.cli import parts
from pcer.cli.parts import Given, Texts, disclosure_rule, from_options, optional, place, required
from pcer.errors import InputError
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.format import Outcome, SplitKind
from pcer.report.table import Table, wrapped
from pcer.report.text import lines_part
from pcer.store.secret import SECRET_BYTES, keep_secret, read_secret, state_folder

if TYPE_CHECKING:
    from pcer.release.format import Release

PUBLIC_HELP = "Anybody may have the records: exact tables of groups of any size."
LEAST_PEOPLE_HELP = "Of one group, label and part; smaller groups are joined."
CERTAIN_CELLS_HELP = "Release cells that tell someone's membership with certainty, or coarsen."
CAUTION = (
    "These are records of real people who did not consent to this use, some of them about "
    "decisions over their lives. Use them to examine methods, never to judge a person."
)


def release(
    table: str = typer.Argument(help="CSV or Parquet file, or a pattern in quotes."),
    attributes: list[str] = required("Column of a protected attribute; repeatable.", "--attribute"),
    outcome: Outcome = required("A positive prediction is a benefit or a harm."),
    split_kind: SplitKind = required("random if train and test were drawn at random, else other."),
    y_true: Given = optional("Column of the true labels.", "--label"),
    y_pred: Given = optional("Column of the predicted labels.", "--prediction"),
    y_score: Given = optional("Column of probabilities, instead of predicted labels.", "--score"),
    threshold: float | None = optional("Positive from here on, with --score."),
    positive_label: Given = optional(
        "The positive label, unless labels are 0 and 1.", "--positive"
    ),
    split: Given = optional("Column that says train or test."),
    epsilon: Given = optional("Column of the budget (epsilon)."),
    seed: Given = optional("Column of the seed (seed)."),
    split_id: Given = optional("Column naming the split (split_id)."),
    membership_score: Given = optional("Column of an attack's score, higher for members."),
    loss: Given = optional("Column of the loss, lower for members."),
    record_id: Given = optional(
        "Column naming a record in all models, to compare it; with --score."
    ),
    groups: Given = optional("Order of the groups, with commas between."),
    dataset: Given = optional("Name of the data; the file's name."),
    mechanism: Given = optional("How the models were trained."),
    dp_delta: float | None = optional("Delta of models with a budget."),
    notes: Texts = optional("Sentence that travels with the release; repeatable.", "--note"),
    public_data: bool = optional(PUBLIC_HELP, "--public-data", default=False),
    least_people: int = optional(LEAST_PEOPLE_HELP, default=LEAST_PEOPLE, min=1),
    certain_cells: bool = optional(CERTAIN_CELLS_HELP, default=True),
    secret_file: Path | None = optional("Secret that keys splits' names, with --record-id."),
    backend: Given = optional("duckdb, pyspark, or an Ibis address with ://."),
    out: str = optional("Folder, or a .json file; - is stdout.", default="."),
) -> None:
    """Count a table of predictions, of any size, into a release per protected attribute."""
    options = locals()
    parts.require_packages(parts.TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    options |= {"dataset": dataset or _stem(table), "groups": groups and groups.split(",")}
    named = {} if y_score is None else {"y_pred": None}
    columns = from_options(PredictionColumns, options, **named)
    secret = given_secret(secret_file, is_needed=record_id is not None and not public_data)
    facts = from_options(ReleaseFacts, options, disclosure=disclosure_rule(options), secret=secret)
    with parts.working("Counting") as status:
        made = releases_from_table(
            table, columns, facts, backend=backend, on_step=lambda s: status.update(s.capitalize())
        )
    _write(made, out)


def datasets(json_path: Given = place("The list as JSON.", "--json")) -> None:
    """List the benchmark datasets: sizes, licences, which are here, and what they are about."""
    parts.require_packages(parts.TABLES)
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        parts.give({json_path: json.dumps(rows, indent=2, ensure_ascii=False) + "\n"})
        return
    _show_datasets(rows)


def _show_datasets(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = []
    for row in rows:
        n_records = f"{row['n_records']:,}" if row["n_records"] else "not known yet"
        groups = "\n".join(f"{name}: {len(groups)}" for name, groups in row["attributes"].items())
        whole = (row["name"], row["title"], n_records, groups, row["outcome"], row["at_hand"])
        cells.append(whole)
    heads = ("name", "task", "records", "attributes: groups", "outcome", "where")
    parts.show_table(Table("Benchmark datasets", heads, tuple(cells), n_labels=2))
    width = parts.columns()
    for row in rows:
        lines = (f"{row['source']}.", f"Licence: {row['licence']}.", row["caution"])
        parts.show([lines_part(row["name"], lines, width)])
    typer.echo(wrapped(CAUTION, width))
    typer.echo('In Python: pcer.data.load("compas").')


def _stem(table: str) -> str:
    """What a table is called: its file, or the folder of a pattern."""
    path = Path(table)
    is_pattern = any(mark in path.name for mark in "*?[") and not path.exists()
    return (path.parent if is_pattern else path).name.split(".")[0] or "predictions"


def given_secret(file: Path | None, *, is_needed: bool) -> bytes:
    """The secret of a file; else the user's own for tables, made once, where one is needed."""
    path = file or state_folder() / "tables.secret"
    if file is None and not is_needed:
        return b""
    if file is None and not path.exists():
        keep_secret(token_bytes(SECRET_BYTES), path)
    return read_secret(path)


def _write(made: Mapping[str, Release], out: str) -> None:
    """Write all releases or none, and say on stderr what is in them."""
    is_file = out == parts.STDOUT or out.endswith(".json")
    if is_file and len(made) > 1:
        raise InputError("several attributes make several releases; give --out a folder.")
    releases = {
        out if is_file else str(Path(out, file_name(r.subject.dataset, r.subject.attribute))): r
        for r in made.values()
    }
    with parts.folder_for(None if is_file else out, parents=True):
        parts.give({path: release.to_json() for path, release in releases.items()})
    for path, release in releases.items():
        if path != parts.STDOUT:
            parts.note(f"{path}: {release.title}, groups {', '.join(release.subject.groups)}.")


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called.

    >>> file_name("my loans", "sex & age")
    'my-loans.sex-age.release.json'
    """
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])
