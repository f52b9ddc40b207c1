"""Which records does ``pcer train`` train on: a benchmark, or a person's own table?

Called by ``pcer train``, for networks, modules and estimators alike. Everything that an
own table leaves open is asked at once, with a command that would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pcer.cli import options as options_module
from pcer.cli import progress
from pcer.cli.options import from_options
from pcer.cli.release import QUESTION
from pcer.errors import InputError
from pcer.release.small_groups import Attribute, renamed
from pcer.report.table import Table

if TYPE_CHECKING:
    from pcer.data import GroupedDataset, OwnTable

MOST_VALUES = 5  # of a label, in a question
# Asked of a user's own table.
QUESTIONS = {
    "attributes": QUESTION["attributes"],
    "label": "which column is predicted (--label)?",
    "positive": "which value of {label} is positive (--positive): {values}?",
    "outcome": QUESTION["outcome"],
}


def load_data(source: str, options: Mapping[str, Any]) -> GroupedDataset:
    """The data to train on, with people and groups called as the options say."""
    from pcer.data.benchmarks import names

    if source in names():
        dataset = _benchmark(source, options["attributes"])
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
        counted = [Attribute(a.name, a.group_names, a.codes) for a in attributes]
        shown = renamed(counted, options["group_names"])
        changes["attributes"] = tuple(
            replace(attribute, group_names=new.groups)
            for attribute, new in zip(attributes, shown, strict=True)
        )
    return replace(dataset, **changes) if changes else dataset


def _benchmark(name: str, attributes: Sequence[str] | None) -> GroupedDataset:
    """A benchmark, of which a protected attribute must be named."""
    from pcer.data import load

    dataset = load(name)
    if not attributes:
        flags = [f"--attribute {each.name}" for each in dataset.attributes]
        raise InputError(
            f"{name}: whom should be compared? Add {' or '.join(flags)}.",
            field="attributes",
        )
    return dataset


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
    with progress.working("Reading"):
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
    progress.show([account_table(table)], stderr=True)
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
