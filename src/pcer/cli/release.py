"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``.

Options of ``pcer release`` are called like the fields of ``PredictionColumns`` and
``ReleaseFacts`` that they fill. To add one: a field there and an option here.
"""

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

ATTRIBUTES_HELP = (
    "Column of a protected attribute, or several crossed ('sex & race'); repeatable."
)
PUBLIC_HELP = "Anybody may have the records: exact tables of groups of any size."
LEAST_PEOPLE_HELP = "Of one group, label and part; smaller groups are joined."
CERTAIN_CELLS_HELP = (
    "Release cells that reveal a membership with certainty, or coarsen."
)
# What is asked where an option is missing, and columns that are likely to answer it.
QUESTION = {
    "attributes": "which column divides the people into groups (--attribute)?",
    "outcome": (
        "is a positive prediction good or bad for the person "
        "(--outcome benefit or harm)?"
    ),
    "split_kind": (
        "were train and test drawn at random (--split-kind random or other)?"
    ),
    "y_true": "which column holds the true labels (--label)?",
    "y_pred": "which column holds the predicted labels (--prediction; or --score)?",
    "split": "which column says train or test (--split)?",
}
LIKELY = {
    "y_true": ("label", "target", "y", "truth"),
    "y_pred": ("prediction", "predicted", "pred", "yhat", "y_hat"),
    "split": ("part", "set", "subset", "fold", "partition"),
}
LIKELY_CHOICE = {"outcome": "benefit", "split_kind": "random"}
# Where the name of an option is not that of its field.
FLAGS = {"attributes": "--attribute", "y_true": "--label", "y_pred": "--prediction"}
CAUTION = (
    "These are records of real people who did not consent to this use, some of them "
    "about decisions over their lives. Use them to examine methods, never to judge a "
    "person."
)


def release(
    table: str = typer.Argument(help="CSV or Parquet file, or a pattern in quotes."),
    attributes: Texts = optional(ATTRIBUTES_HELP, "--attribute"),
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
    """Make a release per protected attribute from a table of predictions."""
    options_module.require_packages(options_module.TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    columns = {
        "attributes": attributes,
        "y_true": y_true,
        "y_pred": y_pred,
        "y_score": y_score,
        "threshold": threshold,
        "split": split,
        "epsilon": epsilon,
        "seed": seed,
        "split_id": split_id,
        "membership_score": membership_score,
        "loss": loss,
        "record_id": record_id,
    }
    facts = {
        "outcome": outcome,
        "split_kind": split_kind,
        "dataset": dataset or _stem(table),
        "positive_label": positive_label,
        "groups": groups.split(",") if groups else groups,
        "group_names": group_names,
        "people": people,
        "positive_means": positive_means,
        "mechanism": mechanism,
        "dp_delta": dp_delta,
        "notes": notes,
    }
    _require_answers(table, columns | facts, backend)
    # A score stands instead of predicted labels.
    instead: dict[str, Any] = {} if y_score is None else {"y_pred": None}
    read = from_options(PredictionColumns, columns, **instead)
    secret = given_secret(secret_file, is_needed=not public_data)
    disclosure = disclosure_rule(
        {
            "public_data": public_data,
            "least_people": least_people,
            "certain_cells": certain_cells,
        },
        secret=secret,
    )
    said = from_options(ReleaseFacts, facts, disclosure=disclosure)
    paths = _paths(attributes or [], said.dataset, out)
    are_alone = public_data or out == outputs.STDOUT
    beside = [] if are_alone else releases_beside(paths.values())
    with progress.working("Counting") as status:
        releases = releases_from_table(
            table,
            read,
            said,
            backend=backend,
            beside=beside,
            on_step=lambda doing: status.update(doing.capitalize()),
        )
    _write(releases, paths, out)


def _require_answers(
    table: str, answers: Mapping[str, Any], backend: str | None
) -> None:
    """Ask at once for all that is missing, and for columns that are not there."""
    from pcer.tables.source import open_predictions

    predictions, *_ = open_predictions(table, backend=backend)
    columns = [*predictions.columns]
    there = {*columns} if answers["y_score"] is None else {*columns, "y_pred"}
    missing = [name for name in QUESTION if not answers[name] and name not in there]
    if not missing:
        return
    arguments: list[str] = []
    for name in missing:
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        arguments += [flag, _likely(name, columns)]
    questions = [QUESTION[name] for name in missing]
    raise options_module.unanswered(table, questions, arguments, missing[0])


def _likely(name: str, columns: Iterable[str]) -> str:
    """An answer to a question that would do: often a column, by what it is called."""
    from pcer.data.own_table import ATTRIBUTES

    if name in LIKELY_CHOICE:
        return LIKELY_CHOICE[name]
    usual = ATTRIBUTES if name == "attributes" else LIKELY[name]
    for column in columns:
        if column.lower() in usual:
            return column
    return "COLUMN"


def datasets(json_path: Given = place("The list as JSON.", "--json")) -> None:
    """List the benchmark datasets, with their licences and cautions."""
    options_module.require_packages(options_module.TABLES)
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        outputs.give({json_path: json.dumps(rows, indent=2, ensure_ascii=False) + "\n"})
        return
    _show_datasets(rows)


def _show_datasets(datasets: Sequence[Mapping[str, Any]]) -> None:
    """A table of the datasets, then source, licence and caution of each."""
    rows = []
    notes = []
    for dataset in datasets:
        n_records = dataset["n_records"]
        groups = [
            f"{name}: {len(groups)}" for name, groups in dataset["attributes"].items()
        ]
        rows.append(
            (
                dataset["name"],
                dataset["title"],
                f"{n_records:,}" if n_records else "not known yet",
                "\n".join(groups),
                dataset["outcome"],
                dataset["at_hand"],
            )
        )
        about = [
            f"{dataset['source']}.",
            f"Licence: {dataset['licence']}.",
            dataset["caution"],
        ]
        notes.append(Lines(dataset["name"], about))
    heads = ("name", "task", "records", "attributes: groups", "outcome", "where")
    table = Table("Benchmark datasets", heads, tuple(rows), n_labels=2)
    progress.show([table, *notes])
    typer.echo(wrapped(CAUTION, progress.columns()))
    typer.echo('In Python: pcer.data.load("compas").')


def _stem(table: str) -> str:
    """What a table is called: its file, or the folder of a pattern."""
    path = Path(table)
    is_pattern = any(mark in path.name for mark in "*?[") and not path.exists()
    return (path.parent if is_pattern else path).name.split(".")[0] or "predictions"


def given_secret(file: Path | None, *, is_needed: bool) -> bytes:
    """The secret of a file; else, where one is needed, the user's own for tables.

    That one is made once and kept.
    """
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


def _write(
    releases: Mapping[str, Release], paths: Mapping[str, Path], out: str
) -> None:
    """Write all releases or none, and say on stderr what is in them."""
    is_file = Path(out) in paths.values()
    contents = {
        str(paths[name]): release.to_json() for name, release in releases.items()
    }
    with outputs.folder_for(None if is_file else out, parents=True):
        outputs.give(contents)
    for name, release in releases.items():
        if out != outputs.STDOUT:
            groups = ", ".join(release.subject.groups)
            progress.note(f"{paths[name]}: {release.title}, groups {groups}.")
    note_not_written(releases.values())


def note_not_written(releases: Iterable[Release]) -> None:
    """Say which attributes have no release, and why."""
    reasons = chain.from_iterable(each.not_written.values() for each in releases)
    for reason in dict.fromkeys(reasons):
        progress.note(f"pcer: not written: {reason}")


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called: ``my-loans.sex-age.release.json``."""
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])
