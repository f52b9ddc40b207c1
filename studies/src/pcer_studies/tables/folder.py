"""Which files follow from a study's releases, and what does its ``README.md`` say?

``pcer reproduce`` writes what ``study_files`` gives. The README says what is there, how
it was made and how to make it again.

To add a file: an entry of ``study_files``, and a row of ``FILES``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pcer.report import to_report
from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.table import Table
from pcer_studies.protocol import (
    BUDGETS,
    CLOSEST,
    CONFIGURATIONS,
    DATASETS,
    OUR_READING,
    PAPER,
    SETTINGS,
    Configuration,
)
from pcer_studies.results import Study
from pcer_studies.tables.cells import by_records, to_csv, to_page
from pcer_studies.tables.comparison import Comparison, compare
from pcer_studies.tables.figure import figure1
from pcer_studies.tables.layout import paper_tables
from pcer_studies.tables.typeset import to_latex_document, to_markdown_tables

FILES = (
    (
        "`*.release.json`",
        "what was trained: counts per model, group and split; attack results; made-up "
        "groups; what groups spent",
    ),
    ("`study.json`", "protocol as run, and the versions that trained each dataset"),
    (
        "`cells.md`, `cells.csv`",
        "every published figure beside ours, and how many agree",
    ),
    (
        "`tables.md`, `tables.tex`",
        "the paper's Tables 1-3 and S1-S6, in its layout, our numbers",
    ),
    ("`figure1.svg`, `figure1.png`", "the paper's Figure 1, our numbers"),
    (
        "`sensitivity.md`, `.json`",
        "what the paper leaves open, trained in several readings (`pcer reproduce "
        "--sensitivity`)",
    ),
    ("`report.html`", "one page of all audits; may be left out, since it is large"),
    ("`run.log`", "when, how long, how much memory, on what machine; may be left out"),
)


def to_readme(study: Study, comparisons: Sequence[Comparison]) -> str:
    """The page: findings, how it was made, and the protocol."""
    parts = [
        "# The paper's study, run by pcer",
        f"{markdown_text(PAPER)}. {_size(study)} The folder holds statistics only, no "
        "records and nothing about any one person. All but releases, `study.json`, "
        "`sensitivity.*` and `run.log` follows from the releases.",
        "## What is there",
        _file_list(),
        to_markdown(_verdicts(study)),
        to_markdown(by_records(comparisons)),
        "## How it was made",
        f"```console\n$ {_command(study)}   # trains what is missing, then writes "
        "every file\n$ pcer reproduce --tables-only -o FOLDER   # writes every file "
        "again from the releases\n$ pcer audit FOLDER   # the same models, by the "
        "strongest attack\n```",
        "The same commit, versions and kind of processor give the same releases; "
        "another kind may differ in rounding, and with it in single predictions.",
        to_markdown(_protocol(study)),
        *_environments(study),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _file_list() -> str:
    lines = ["| file | what |", "|---|---|"]
    lines += [f"| {name} | {content} |" for name, content in FILES]
    return "\n".join(lines)


def _size(study: Study) -> str:
    """How much was run, in a sentence."""
    seeds = _seed_counts(study)
    fewest = min(seeds)
    most = max(seeds)
    if most == fewest:
        n_seeds = f"{most} seed" if most == 1 else f"{most} seeds"
    else:
        n_seeds = f"{fewest} to {most} seeds"

    n_sweeps = len({one.dataset for one in study.configurations})
    if study.second:
        n_sweeps += 1
    n_models = n_sweeps * len(BUDGETS) * most
    whole = "" if study.is_complete else f" of the paper's {len(CONFIGURATIONS)}"
    return (
        f"{len(study.configurations)}{whole} configurations, {len(BUDGETS)} budgets "
        f"and {n_seeds}: {n_models:,} models."
    )


def _seed_counts(study: Study) -> set[int]:
    """How many seeds a release has at a budget."""
    counts = set()
    for release in study.releases.values():
        for epsilon in BUDGETS:
            seeds = {run.seed for run in release.runs if run.budget == epsilon}
            counts.add(len(seeds))
    return counts


def _verdicts(study: Study) -> Table:
    """A row for every configuration, and for those of second readings."""
    rows = [
        _verdict_row(study, configuration, configuration.dataset)
        for configuration in study.configurations
    ]
    return Table(
        "Configurations",
        ("dataset", "attribute", "records", "whose", "verdict"),
        (*rows, *_second_readings(study)),
        n_labels=5,
        note="The verdict of pcer audit with its defaults: the strongest attack in the "
        "releases, attributes of the same people as one family.",
    )


def _second_readings(study: Study) -> list[tuple[str, ...]]:
    if study.closest is None:
        return []
    whose = (
        "the paper's records; features in the reading whose figures come closest to "
        "the paper's"
    )
    return [
        _verdict_row(study.closest, configuration, CLOSEST, whose=whose)
        for configuration in study.configurations
        if configuration.key in study.second
    ]


def _verdict_row(
    study: Study, configuration: Configuration, name: str, *, whose: str | None = None
) -> tuple[str, ...]:
    return (
        name,
        configuration.attribute,
        _records(study, configuration),
        _whose(study, configuration) if whose is None else whose,
        study.verdicts[configuration.key].verdict.words,
    )


def _records(study: Study, configuration: Configuration) -> str:
    n_records = study.release(*configuration.key).subject.n_records
    return "not said" if n_records is None else f"{n_records:,}"


def _whose(study: Study, configuration: Configuration) -> str:
    note = study.data_note(*configuration.key)
    return note or OUR_READING.get(configuration.dataset, "the paper's records")


def _command(study: Study) -> str:
    """The command that runs this study again."""
    datasets = tuple(dict.fromkeys(one.dataset for one in study.configurations))
    options = ""
    if datasets != DATASETS:
        options = "".join(f" --dataset {name}" for name in datasets)
    return f"pcer reproduce{options} --seeds {max(_seed_counts(study))} -o FOLDER"


def _protocol(study: Study) -> Table:
    """The protocol as it was run; only the number of seeds may differ."""
    as_run = {"seeds": f"0 to {max(_seed_counts(study)) - 1}"}
    rows = []
    for setting in SETTINGS:
        value = as_run.get(setting.name, setting.value)
        reading = setting.reading or "as stated"
        rows.append((setting.name, value, setting.section, reading))
    return Table(
        "Protocol, with its place in the paper",
        ("setting", "here", "place", "our reading"),
        tuple(rows),
        n_labels=4,
    )


def _environments(study: Study) -> list[str]:
    """What trained each dataset; datasets of one environment share a line."""
    datasets: Mapping[str, Any] = (study.settings or {}).get("datasets", {})
    names_by_environment: dict[str, list[str]] = {}
    for name, dataset in datasets.items():
        for environment in dataset.get("made_with", []):
            names = names_by_environment.setdefault(json.dumps(environment), [])
            names.append(name)
    if not names_by_environment:
        return ["Versions: not recorded."]
    lines = []
    for text, names in names_by_environment.items():
        lines.append(f"- {', '.join(names)}: {_environment_words(json.loads(text))}")
    return ["### Versions", "\n".join(lines)]


def _environment_words(environment: Mapping[str, Any]) -> str:
    words = []
    for name, value in environment.items():
        if value is not None:
            words.append(f"{name.replace('_', ' ')} {markdown_text(str(value))}")
    return ", ".join(words) + "."


REPORT = "report.html"


def study_files(study: Study, *, report: bool = True) -> dict[str, str | bytes]:
    """File contents by name, besides the releases and ``study.json``.

    Args:
        study: what was run.
        report: whether to make the page of all releases, which is large.
    """
    comparisons = compare(study)
    tables = paper_tables(study)
    figures = figure1(study)
    files: dict[str, str | bytes] = {
        "README.md": to_readme(study, comparisons),
        "cells.csv": to_csv(comparisons),
        "cells.md": to_page(comparisons),
        "tables.md": to_markdown_tables(tables, figure=bool(figures)),
        "tables.tex": to_latex_document(tables, figure=bool(figures)),
        **figures,
    }
    if report:
        keys = [configuration.key for configuration in study.configurations]
        audits = [study.verdicts[key] for key in keys]
        files[REPORT] = to_report(audits, [study.release(*key) for key in keys])
    return files
