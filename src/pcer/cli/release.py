"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from secrets import token_bytes
from typing import Any

import typer

from pcer.cli import options as options_module
from pcer.cli import outputs, progress
from pcer.cli.options import (
    Given,
    Texts,
    disclosure_rule,
    from_options,
    optional,
    place,
)
from pcer.errors import InputError
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.file import Release
from pcer.release.records import Outcome, SplitKind
from pcer.release.small_groups import releases_beside
from pcer.report.formats.terminal import wrapped
from pcer.report.table import Lines, Table
from pcer.store.secret import SECRET_BYTES, keep_secret, read_secret, state_folder

PUBLIC_HELP = "Anybody may have the records: exact tables of groups of any size."
LEAST_PEOPLE_HELP = "Of one group, label and part; smaller groups are joined."
CERTAIN_CELLS_HELP = (
    "Release cells that reveal a membership with certainty, or coarsen."
)
# What is asked where an option is missing, and columns that are likely to answer it.
QUESTION = {
    "attributes": "which column divides the people into groups (--attribute)?",
    "outcome": "is a positive prediction good or bad for the person (--outcome benefit or harm)?",
    "split_kind": "were train and test drawn at random (--split-kind random or other)?",
    "y_true": "which column holds the true labels (--label)?",
    "y_pred": "which column holds the predicted labels (--prediction; or --score)?",
    "split": "which column says train or test (--split)?",
}
LIKELY = {
    "y_true": ("label", "target", "y", "truth"),
    "y_pred": ("prediction", "predicted", "pred", "yhat", "y_hat"),
    "split": ("part", "set", "subset", "fold", "partition"),
}
NO_ANSWER = {"y_pred": None}  # where a score is given instead
CAUTION = (
    "These are records of real people who did not consent to this use, some of them about "
    "decisions over their lives. Use them to examine methods, never to judge a person."
)


def release(
    table: str = typer.Argument(help="CSV or Parquet file, or a pattern in quotes."),
    attributes: Texts = optional(
        "Column of a protected attribute, or several crossed ('sex & race'); repeatable.",
        "--attribute",
    ),
    outcome: Outcome | None = optional(
        "Is a positive prediction good or bad for the person?"
    ),
    split_kind: SplitKind | None = optional(
        "random if train and test were drawn at random, else other."
    ),
    y_true: Given = optional("Column of the true labels.", "--label"),
    y_pred: Given = optional("Column of the predicted labels.", "--prediction"),
    y_score: Given = optional(
        "Column of probabilities, instead of predicted labels.", "--score"
    ),
    threshold: float | None = optional(
        "Positive from this probability on, with --score."
    ),
    positive_label: Given = optional(
        "The positive label, unless labels are 0 and 1.", "--positive"
    ),
    split: Given = optional("Column that says train or test."),
    epsilon: Given = optional("Column of the budget (epsilon)."),
    seed: Given = optional("Column of the seed (seed)."),
    split_id: Given = optional("Column naming the split (split_id)."),
    membership_score: Given = optional(
        "Column of an attack's score, higher for members."
    ),
    loss: Given = optional("Column of the loss, lower for members."),
    record_id: Given = optional(
        "Column that names a record in all models: allows stronger attacks."
    ),
    groups: Given = optional("Order of the groups, comma-separated."),
    group_names: Given = optional(**options_module.GROUP_NAMES),
    people: Given = optional(**options_module.PEOPLE),
    positive_means: Given = optional(**options_module.POSITIVE_MEANS),
    dataset: Given = optional("Name of the data; default: the file's."),
    mechanism: Given = optional("How the models were trained."),
    dp_delta: float | None = optional("Delta of models with a budget."),
    notes: Texts = optional(
        "Sentence that travels with the release; repeatable.", "--note"
    ),
    public_data: bool = optional(PUBLIC_HELP, "--public-data", default=False),
    least_people: int = optional(LEAST_PEOPLE_HELP, default=LEAST_PEOPLE, min=1),
    certain_cells: bool = optional(CERTAIN_CELLS_HELP, default=True),
    secret_file: Path | None = optional(
        "Secret that keys the names of records and splits."
    ),
    backend: Given = optional("duckdb, pyspark, or an Ibis address with ://."),
    out: str = optional(
        "Folder, or a .json file; - is stdout.", "--out", "-o", default="."
    ),
) -> None:
    """Make a release per protected attribute from a table of predictions of any size."""
    options_module.require_packages(options_module.TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    _require_answers(table, options := locals())
    options |= {
        "dataset": dataset or _stem(table),
        "groups": groups and groups.split(","),
    }
    columns = from_options(
        PredictionColumns, options, **({} if y_score is None else NO_ANSWER)
    )
    secret = given_secret(secret_file, is_needed=not public_data)
    disclosure = disclosure_rule(options, secret=secret)
    facts = from_options(ReleaseFacts, options, disclosure=disclosure)
    paths = _paths(attributes or [], options["dataset"], out)
    beside = (
        [] if public_data or out == outputs.STDOUT else releases_beside(paths.values())
    )
    with progress.working("Counting") as status:
        how: Any = {
            "backend": backend,
            "on_step": lambda doing: status.update(doing.capitalize()),
        }
        made = releases_from_table(table, columns, facts, beside=beside, **how)
    _write(made, paths, out)


def _require_answers(table: str, options: Mapping[str, Any]) -> None:
    """Ask at once for all that is missing, and for columns that are not there."""
    from pcer.data.own_table import ATTRIBUTES
    from pcer.tables.source import open_predictions

    columns = [*open_predictions(table, backend=options["backend"])[0].columns]
    there = {*columns} if options["y_score"] is None else {*columns, "y_pred"}
    if asked := [name for name in QUESTION if not options[name] and name not in there]:
        likely = {
            name: next(
                (column for column in columns if column.lower() in names), "COLUMN"
            )
            for name, names in (LIKELY | {"attributes": ATTRIBUTES}).items()
        } | {"outcome": "benefit", "split_kind": "random"}
        flags = {
            "attributes": "--attribute",
            "y_true": "--label",
            "y_pred": "--prediction",
        }
        given = ((flags.get(n, f"--{n.replace('_', '-')}"), likely[n]) for n in asked)
        raise options_module.unanswered(
            table, map(QUESTION.__getitem__, asked), [*chain(*given)], asked[0]
        )


def datasets(json_path: Given = place("The list as JSON.", "--json")) -> None:
    """List the benchmark datasets: sizes, licences, cautions, and which are on this machine."""
    options_module.require_packages(options_module.TABLES)
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        outputs.give({json_path: json.dumps(rows, indent=2, ensure_ascii=False) + "\n"})
        return
    _show_datasets(rows)


def _show_datasets(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = []
    for row in rows:
        n_records = f"{row['n_records']:,}" if row["n_records"] else "not known yet"
        groups = "\n".join(
            f"{name}: {len(groups)}" for name, groups in row["attributes"].items()
        )
        cells.append(
            (
                row["name"],
                row["title"],
                n_records,
                groups,
                row["outcome"],
                row["at_hand"],
            )
        )
    heads = ("name", "task", "records", "attributes: groups", "outcome", "where")
    about = (
        Lines(
            row["name"],
            [f"{row['source']}.", f"Licence: {row['licence']}.", row["caution"]],
        )
        for row in rows
    )
    progress.show(
        [Table("Benchmark datasets", heads, tuple(cells), n_labels=2), *about]
    )
    typer.echo(wrapped(CAUTION, progress.columns()))
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


def _paths(attributes: Sequence[str], dataset: str, out: str) -> dict[str, Path]:
    """Where each release goes; "-" is standard output."""
    if out == outputs.STDOUT or out.endswith(".json"):
        if len(attributes) > 1:
            raise InputError(
                "several attributes make several releases; give --out a folder."
            )
        return {attributes[0]: Path(out)}
    return {name: Path(out, file_name(dataset, name)) for name in attributes}


def _write(made: Mapping[str, Release], paths: Mapping[str, Path], out: str) -> None:
    """Write all releases or none, and say on stderr what is in them."""
    is_file = Path(out) in paths.values()
    with outputs.folder_for(None if is_file else out, parents=True):
        outputs.give(
            {str(paths[name]): release.to_json() for name, release in made.items()}
        )
    for name, release in made.items():
        if out != outputs.STDOUT:
            groups = ", ".join(release.subject.groups)
            progress.note(f"{paths[name]}: {release.title}, groups {groups}.")
    note_not_written(made.values())


def note_not_written(releases: Iterable[Release]) -> None:
    """Say which attributes have no release, and why."""
    for reason in {r: 0 for each in releases for r in each.not_written.values()}:
        progress.note(f"pcer: not written: {reason}")


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called: ``my-loans.sex-age.release.json``."""
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])
