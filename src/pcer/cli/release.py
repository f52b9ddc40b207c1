"""How do tables become releases, or the data to train on?

The verbs ``pcer release`` and ``pcer datasets``, and ``load_data`` for ``pcer train``.
What an own table leaves open is asked at once, with a command that would do. Options of
``pcer release`` are called like the fields of ``PredictionColumns`` and
``ReleaseFacts`` that they fill. To add one: a field there and an option here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from pcer.cli import options as options_module
from pcer.cli import outputs
from pcer.cli.options import (
    Given,
    Texts,
    disclosure_rule,
    from_options,
    optional,
    place,
)
from pcer.cli.synthetic import Source, releases_of
from pcer.errors import InputError
from pcer.models.updates import people_of
from pcer.release.disclosure import LEAST_PEOPLE, Disclosure, Joint
from pcer.release.file import Release
from pcer.release.population import Attribute, Missing, renamed
from pcer.release.records import Outcome, SplitKind
from pcer.release.small_groups import releases_beside
from pcer.release.updates import Updates
from pcer.report.formats.terminal import wrapped
from pcer.report.table import Lines, Table
from pcer.report.tables.disclosed import leaving
from pcer.store.secret import SECRET_BYTES, keep_secret, read_secret, state_folder

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable

ATTRIBUTES_HELP = (
    "Column of a protected attribute, or several crossed ('sex & race'); repeatable."
)
PUBLIC_HELP = "Anybody may have the records: exact tables of groups of any size."
LEAST_PEOPLE_HELP = "Of one group, label and part; smaller groups are joined."
REPLACE_HELP = "Write over a release that is there already."
JOINT_HELP = "Tables that only together reveal a membership: refuse or coarsen."
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
MOST_VALUES = 5  # of a label, in a question
# Asked of a user's own table.
QUESTIONS = {
    "attributes": QUESTION["attributes"],
    "label": "which column is predicted (--label)?",
    "positive": "which value of {label} is positive (--positive): {values}?",
    "outcome": QUESTION["outcome"],
}
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
    membership_score: Given = optional(
        "Column of an attack's score, higher for members."
    ),
    record_id: Given = optional(
        "Column that names a record in all models: allows stronger attacks."
    ),
    person_id: Given = optional("Column of who has the record, if several."),
    subgroups: Given = optional("Columns searched for the subgroup hit hardest."),
    groups: Given = optional("Order of the groups, comma-separated."),
    group_names: Given = optional(**options_module.GROUP_NAMES),
    missing: Missing | None = optional(options_module.MISSING_HELP),
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
    joint: Joint = optional(JOINT_HELP, default="refuse"),
    replace_old: bool = optional(REPLACE_HELP, "--replace", default=False),
    secret_file: Path | None = optional(
        "Secret that keys the names of records and splits."
    ),
    backend: Given = optional("duckdb, pyspark, or an Ibis address with ://."),
    synthesizer: Given = optional(
        "Makes synthetic tables: make(real_part, seed); the table is real.",
        metavar="MODULE:NAME",
    ),
    synthetic: Given = optional(
        "A synthetic table; --split says who of the table it was made from.",
        metavar="TABLE",
    ),
    out: str = optional(
        "Folder, or a .json file; - is stdout.", "--out", "-o", default="."
    ),
) -> None:
    """Make a release per protected attribute from a table of predictions."""
    options_module.require_packages(options_module.TABLES)
    columns = {
        "attributes": attributes,
        "y_true": y_true,
        "y_pred": y_pred,
        "y_score": y_score,
        "threshold": threshold,
        "split": split,
        "epsilon": epsilon,
        "seed": seed,
        "membership_score": membership_score,
        "record_id": record_id,
        "person_id": person_id,
        "subgroups": tuple(subgroups.split(",")) if subgroups else subgroups,
    }
    facts = {
        "outcome": outcome,
        "split_kind": split_kind,
        "dataset": dataset or _stem(table),
        "positive_label": positive_label,
        "groups": groups.split(",") if groups else groups,
        "group_names": group_names,
        "missing": missing,
        "people": people,
        "positive_means": positive_means,
        "mechanism": mechanism,
        "dp_delta": dp_delta,
        "notes": notes,
    }
    disclosure = disclosure_rule(
        {
            "public_data": public_data,
            "least_people": least_people,
            "certain_cells": certain_cells,
            "joint": joint,
        },
        secret=given_secret(secret_file, is_needed=not public_data),
    )
    where = _Where(out=out, backend=backend, replaces=replace_old)
    source = Source(synthesizer, synthetic)
    if source.is_given:
        _release_synthetic(table, source, columns | facts, disclosure, where)
    else:
        _release_predictions(table, columns, facts, disclosure, where)


class _Where(NamedTuple):
    """Where releases go, and by what a table is read."""

    out: str
    backend: str | None
    replaces: bool  # whether releases that are there may be replaced


def _release_predictions(
    table: str,
    columns: Mapping[str, Any],
    facts: Mapping[str, Any],
    disclosure: Disclosure,
    where: _Where,
) -> None:
    """Make and write the releases of a table of predictions."""
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    _require_answers(table, {**columns, **facts}, where.backend)
    # A score stands instead of predicted labels.
    instead: dict[str, Any] = {} if columns["y_score"] is None else {"y_pred": None}
    read = from_options(PredictionColumns, columns, **instead)
    said = from_options(ReleaseFacts, facts, disclosure=disclosure)
    paths = _paths(columns["attributes"] or [], said.dataset, where.out)
    are_alone = disclosure.public_data or where.out == outputs.STDOUT
    beside = [] if are_alone else releases_beside(paths.values())
    updates = Updates(
        paths, disclosure.least_people, replaces=where.replaces, consent="--replace"
    )
    with outputs.working("Counting") as status:
        releases = releases_from_table(
            table,
            read,
            said,
            backend=where.backend,
            beside=beside,
            on_step=lambda doing: status.update(doing.capitalize()),
            on_rows=lambda rows, views: (
                None
                if are_alone
                else updates.compare(people_of(rows, views, disclosure.secret))
            ),
        )
    _write(releases, paths, where.out, updates)


def _release_synthetic(
    real: str,
    source: Source,
    options: Mapping[str, Any],
    disclosure: Disclosure,
    where: _Where,
) -> None:
    """Make and write the release of a synthetic table, or of what makes it."""
    releases = releases_of(
        real, source, {**options, "backend": where.backend}, disclosure
    )
    paths = _paths([*releases], options["dataset"], where.out)
    least = disclosure.least_people
    updates = Updates(paths, least, replaces=True, consent="--replace")
    _write(releases, paths, where.out, updates)


def _require_answers(
    table: str, answers: Mapping[str, Any], backend: str | None
) -> None:
    """Ask at once for all that is missing, and for columns that are not there."""
    from pcer.tables.predictions import open_predictions

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
    outputs.show([table, *notes])
    typer.echo(wrapped(CAUTION, outputs.columns()))
    typer.echo('In Python: pcer.data.load("compas").')


def _stem(table: str) -> str:
    """What a table is called: its file, or the folder of a pattern."""
    path = Path(table)
    is_pattern = any(mark in path.name for mark in "*?[") and not path.exists()
    return (path.parent if is_pattern else path).name.split(".")[0] or "predictions"


def given_secret(file: Path | None, *, is_needed: bool) -> bytes:
    """The secret of a file; else, where needed, the user's own, made once and kept."""
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
    releases: Mapping[str, Release],
    paths: Mapping[str, Path],
    out: str,
    updates: Updates,
) -> None:
    """Write all releases or none, and say on stderr what is in them."""
    texts = {name: release.to_json() for name, release in releases.items()}
    if updates.people:
        updates.require_none(texts)
    is_file = Path(out) in paths.values()
    contents = {str(paths[name]): text for name, text in texts.items()}
    with outputs.folder_for(None if is_file else out, parents=True):
        updates.keep(releases)
        outputs.give(contents)
    for name, release in releases.items():
        if out != outputs.STDOUT:
            outputs.note(f"{paths[name]}: {release.title}.")
            note_leaving(release)
    note_not_written(releases.values())


def note_leaving(release: Release) -> None:
    """Say what leaves with a release."""
    for line in leaving(release):
        outputs.note(f"  {line}")


def note_not_written(releases: Iterable[Release]) -> None:
    """Say which attributes have no release, and why."""
    reasons = chain.from_iterable(each.not_written.values() for each in releases)
    for reason in dict.fromkeys(reasons):
        outputs.note(f"pcer: not written: {reason}")


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called: ``my-loans.sex-age.release.json``."""
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])


# What ``pcer train`` trains on: networks, modules and estimators alike


def load_data(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """The data to train on, with people and groups called as the options say."""
    from pcer.data import load
    from pcer.data.benchmarks import names

    if source in names():
        dataset = load(source)
        _require_attributes(dataset, options["attributes"])
    elif Path(source).exists():
        dataset = _own_dataset(source, options)
    else:
        raise InputError(
            f"{source} is no dataset ({', '.join(names())}) and no file; check it."
        )
    changes: dict[str, Any] = {}
    for name in ("people", "positive_means"):
        if options[name]:
            changes[name] = options[name]
    if options["group_names"]:
        attributes = [dataset.attribute(name) for name in options["attributes"]]
        counted = [
            Attribute(a.name, a.group_names, a.codes, declared=a.declared)
            for a in attributes
        ]
        shown = renamed(counted, options["group_names"])
        changes["attributes"] = tuple(
            replace(attribute, group_names=new.groups, declared=new.declared)
            for attribute, new in zip(attributes, shown, strict=True)
        )
    return replace(dataset, **changes) if changes else dataset


def _require_attributes(
    dataset: GroupedDataset, attributes: Sequence[str] | None
) -> None:
    """Raise InputError unless a protected attribute of a benchmark is named."""
    if not attributes:
        flags = [f"--attribute {each.name}" for each in dataset.attributes]
        raise InputError(
            f"{dataset.name}: whom should be compared? Add {' or '.join(flags)}.",
            field="attributes",
        )


class _Open(NamedTuple):
    """What stands in the way of training on an own table."""

    faults: list[str]  # in words
    remedies: list[str]  # arguments that would do
    guesses: dict[str, Any]  # options, so that the table can be read all the same
    can_be_guessed: bool  # whether the remedies make a command that would do


def _own_dataset(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """A person's own table, whose columns are accounted for; all faults at once."""
    from pcer.data import TablePlan, read_table
    from pcer.data.own_table import TableFault

    missing = [name for name in QUESTIONS if not options[name]]
    marks = (*TablePlan.missing, *(options["missing"] or ()))
    public = bool(options["public_data"])
    with outputs.working("Reading"):
        faults, remedies, guesses, can_be_guessed = _open_questions(
            source, missing, options
        )
        plan = from_options(
            TablePlan, {**options, **guesses}, missing=marks, public=public
        )
        try:
            table = read_table(source, plan)
        except TableFault as fault:
            faults.append(str(fault).removeprefix(f"{source}: "))
            for column in fault.columns:
                remedies += ["--drop", column]
    if faults:
        raise options_module.unanswered(
            source,
            faults,
            remedies if can_be_guessed else [],
            missing[0] if missing else "drop",
        )
    outputs.show([account_table(table)], stderr=True)
    return table.dataset


def _open_questions(
    source: str, missing: Sequence[str], options: Mapping[str, Any]
) -> _Open:
    """Questions about the options that are missing, and likely answers."""
    from pcer.data.own_table import guessed

    if not missing:
        return _Open(faults=[], remedies=[], guesses={}, can_be_guessed=True)
    attributes = options["attributes"] or ()
    likely, values = guessed(source, options["label"], attributes)
    label_values = " or ".join(values[:MOST_VALUES])
    faults = []
    remedies = []
    for name in missing:
        remedies += [f"--{name.rstrip('s')}", likely[name]]
        # A label of too many values cannot be answered by naming one.
        if values or name != "positive":
            question = QUESTIONS[name]
            faults.append(question.format(label=likely["label"], values=label_values))
    guesses: dict[str, Any] = {name: likely[name] for name in missing}
    guesses["attributes"] = options["attributes"] or [likely["attributes"]]
    return _Open(faults, remedies, guesses, bool(values))


def account_table(own: OwnTable) -> Table:
    """What became of every column of a person's own table, shown before training."""
    from pcer.data.own_table import alike_as_one

    rows = []
    for line, n_columns in alike_as_one(own.account):
        if n_columns > 1:
            columns = f"{n_columns:,} columns"
            rows.append((columns, line.role, "", "", line.remark))
            continue
        counts = (f"{line.n_values:,}", f"{line.n_missing:,}")
        rows.append((line.column, line.role, *counts, line.remark))
    heads = ("column", "taken as", "values", "missing", "remark")
    title = f"Columns of {own.dataset.name}"
    return Table(title, heads, tuple(rows), n_labels=2)
