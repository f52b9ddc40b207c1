"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pcer.cli import parts
from pcer.cli.parts import Given, option, place
from pcer.errors import InputError
from pcer.metrics import NO_DP
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.report.table import Table, wrapped
from pcer.report.text import lines_part
from pcer.store.secret import SECRET_BYTES, keep_secret, read_secret, state_folder

if TYPE_CHECKING:
    from pcer.release.format import Release

PUBLIC_HELP = "Anybody may have the records: exact tables of groups of any size."
CAUTION = (
    "These are records of real people who did not consent to this use, some of them about "
    "decisions over their lives. Use them to examine methods, never to judge a person."
)


def release(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file, or a pattern in quotes.")],
    attributes: Annotated[
        list[str] | None, option("Column of a protected attribute; repeatable.", "--attribute")
    ] = None,
    outcome: Annotated[Given, option("A positive prediction is a benefit or a harm.")] = None,
    split_kind: Annotated[
        Given, option("random if train and test were drawn at random, else other.")
    ] = None,
    y_true: Annotated[Given, option("Column of the true labels.", "--label")] = None,
    y_pred: Annotated[Given, option("Column of the predicted labels.", "--prediction")] = None,
    y_score: Annotated[
        Given, option("Column of probabilities, instead of predicted labels.", "--score")
    ] = None,
    threshold: Annotated[float | None, option("Positive from here on, with --score.")] = None,
    positive_label: Annotated[
        Given, option("The positive label, unless labels are 0 and 1.", "--positive")
    ] = None,
    split: Annotated[Given, option("Column that says train or test.")] = None,
    epsilon: Annotated[Given, option("Column of the budget (epsilon).")] = None,
    seed: Annotated[Given, option("Column of the seed (seed).")] = None,
    split_id: Annotated[Given, option("Column naming the split (split_id).")] = None,
    membership_score: Annotated[
        Given, option("Column of an attack's score, higher for members.")
    ] = None,
    loss: Annotated[Given, option("Column of the loss, lower for members.")] = None,
    record_id: Annotated[
        Given, option("Column naming a record in all models, to compare it; with --score.")
    ] = None,
    groups: Annotated[Given, option("Order of the groups, with commas between.")] = None,
    dataset: Annotated[Given, option("Name of the data; the file's name.")] = None,
    mechanism: Annotated[Given, option("How the models were trained.")] = None,
    dp_delta: Annotated[float | None, option("Delta of models with a budget.")] = None,
    notes: Annotated[
        list[str] | None, option("Sentence that travels with the release; repeatable.", "--note")
    ] = None,
    public_data: Annotated[bool, option(PUBLIC_HELP, "--public-data")] = False,
    least_people: Annotated[
        int, option("Of one group, label and part; smaller groups are not released.", min=1)
    ] = LEAST_PEOPLE,
    small_groups: Annotated[
        Literal["join", "withhold"], option("What becomes of groups with fewer people.")
    ] = "join",
    certain_cells: Annotated[
        bool, option("Release cells that tell someone's membership with certainty, or coarsen.")
    ] = True,
    secret_file: Annotated[
        Path | None, option("Secret that keys splits' names, with --record-id.")
    ] = None,
    backend: Annotated[Given, option("duckdb, pyspark, or an Ibis address with ://.")] = None,
    out: Annotated[str, option("Folder, or a .json file; - is stdout.")] = ".",
) -> None:
    """Count a table of predictions, of any size, into a release per protected attribute."""
    options = _complete(locals())
    parts.require_packages(parts.TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    labels = {} if y_score is None else {"y_pred": None}
    columns = parts.from_options(PredictionColumns, options, **labels)
    rule = parts.disclosure_rule(options)
    secret = given_secret(secret_file, is_needed=record_id is not None and not public_data)
    facts = parts.from_options(ReleaseFacts, options, disclosure=rule, secret=secret)
    with parts.working("Counting") as status:
        made = releases_from_table(
            table, columns, facts, backend=backend, on_step=lambda s: status.update(s.capitalize())
        )
    _write(made, out)


def datasets(json_path: Annotated[Given, place("The list as JSON.", "--json")] = None) -> None:
    """List the benchmark datasets: sizes, licences, which are here, and what they are about."""
    parts.require_packages(parts.TABLES)
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        parts.give({json_path: json.dumps(rows, indent=2, ensure_ascii=False) + "\n"})
    else:
        _print_datasets(rows)


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """The options with what they leave to the table's name, and nothing left unsaid."""
    for name, choices, what in (
        ("outcome", ("benefit", "harm"), "what a positive prediction is"),
        ("split_kind", ("random", "other"), "how train and test were divided"),
    ):
        if (value := options[name]) not in choices:
            given = "was not said" if value is None else f"cannot be {value!r}"
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{what} {given}; add {flag} {choices[0]} or {flag} {choices[1]}.")
    if not options["attributes"]:
        raise InputError("name at least one column with --attribute.")
    path, groups = Path(options["table"]), options["groups"]
    is_pattern = any(mark in path.name for mark in "*?[") and not path.exists()
    stem = (path.parent if is_pattern else path).name.split(".")[0] or "predictions"
    named = {"dataset": options["dataset"] or stem, "groups": groups and groups.split(",")}
    return options | named


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
        runs, subject = release.runs, release.subject
        n_settings, n_groups = len({(run.model, run.epsilon) for run in runs}), len(subject.groups)
        parts.note_if_large(n_runs=len(runs), n_settings=n_settings, n_groups=n_groups)
        budgets = sorted({NO_DP if run.epsilon is None else run.epsilon for run in runs})
        named = ", ".join("no-DP" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in budgets)
        if path != parts.STDOUT:
            parts.note(
                f"{path}: {len(runs)} models (epsilon {named}), up to {subject.n_records:,} "
                f"records each, groups {', '.join(subject.groups)}."
            )


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called.

    >>> file_name("my loans", "sex & age")
    'my-loans.sex-age.release.json'
    """
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])


def _print_datasets(rows: list[dict[str, Any]]) -> None:
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
    parts.show_table(Table("Benchmark datasets", heads, cells, n_labels=2))
    width = parts.columns()
    for row in rows:
        lines = (f"{row['source']}.", f"Licence: {row['licence']}.", row["caution"])
        parts.show([lines_part(row["name"], lines, width)])
    typer.echo(wrapped(CAUTION, width))
    typer.echo('In Python: pcer.data.load("compas").')
