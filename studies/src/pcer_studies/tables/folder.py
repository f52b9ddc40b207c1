"""``README.md`` of a study: what is there, how it was made, how to make it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
from pcer_studies.tables.cells import Compared, by_records, compare, to_csv, to_page
from pcer_studies.tables.figure import figure1
from pcer_studies.tables.layout import (
    paper_tables,
    to_latex_document,
    to_markdown_tables,
)

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


def to_readme(study: Study, comparisons: Sequence[Compared]) -> str:
    """The page."""
    parts = [
        "# The paper's study, run by pcer",
        f"{markdown_text(PAPER)}. {_size(study)} The folder holds statistics only, no "
        "records and nothing about any one person. All but releases, `study.json`, "
        "`sensitivity.*` and `run.log` follows from the releases.",
        "## What is there",
        "\n".join(
            ["| file | what |", "|---|---|", *(f"| {a} | {b} |" for a, b in FILES)]
        ),
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


def _size(study: Study) -> str:
    budgets, seeds = _numbers(study)
    trained = {one.dataset for one in study.configurations}
    models = (len(trained) + bool(study.second)) * budgets * max(seeds)
    told = (
        f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    )
    whole = "" if study.is_complete else f" of the paper's {len(CONFIGURATIONS)}"
    return (
        f"{len(study.configurations)}{whole} configurations, {budgets} budgets and "
        f"{told} {'seed' if told == '1' else 'seeds'}: {models:,} models."
    )


def _numbers(study: Study) -> tuple[int, list[int]]:
    """Budgets, and the numbers of seeds that occur."""
    seeds = {
        len({run.seed for run in release.runs if run.budget == epsilon})
        for release in study.releases.values()
        for epsilon in BUDGETS
    }
    return len(BUDGETS), sorted(seeds)


def _verdicts(study: Study) -> Table:
    rows = [
        (
            one.dataset,
            one.attribute,
            _records(study, one),
            _whose(study, one),
            study.verdicts[one.dataset, one.attribute].verdict.words,
        )
        for one in study.configurations
    ]
    return Table(
        "Configurations",
        ("dataset", "attribute", "records", "whose", "verdict"),
        (*rows, *_second_readings(study)),
        n_labels=5,
        note="The verdict of pcer audit with its defaults: the strongest attack in the releases, "
        "attributes of the same people as one family.",
    )


def _second_readings(study: Study) -> list[tuple[str, ...]]:
    if study.closest is None:
        return []
    read = "the paper's records; features in the reading whose figures come closest to the paper's"
    return [
        (
            CLOSEST,
            one.attribute,
            _records(study.closest, one),
            read,
            study.closest.verdicts[one.dataset, one.attribute].verdict.words,
        )
        for one in study.configurations
        if (one.dataset, one.attribute) in study.second
    ]


def _records(study: Study, one: Configuration) -> str:
    n = study.release(one.dataset, one.attribute).subject.n_records
    return "not said" if n is None else f"{n:,}"


def _whose(study: Study, one: Configuration) -> str:
    note = study.data_note(one.dataset, one.attribute)
    return note or OUR_READING.get(one.dataset, "the paper's records")


def _command(study: Study) -> str:
    trained = dict.fromkeys(one.dataset for one in study.configurations)
    named = (
        ""
        if tuple(trained) == DATASETS
        else "".join(f" --dataset {name}" for name in trained)
    )
    return f"pcer reproduce{named} --seeds {max(_numbers(study)[1])} -o FOLDER"


def _protocol(study: Study) -> Table:
    told = {"seeds": f"0 to {max(_numbers(study)[1]) - 1}"}
    rows = [
        (s.name, told.get(s.name, s.value), s.section, s.reading or "as stated")
        for s in SETTINGS
    ]
    return Table(
        "Protocol, with its place in the paper",
        ("setting", "here", "place", "our reading"),
        tuple(rows),
        n_labels=4,
    )


def _environments(study: Study) -> list[str]:
    """With what each dataset was trained; datasets of one environment share a line."""
    datasets: Mapping[str, Any] = (study.settings or {}).get("datasets", {})
    by_words: dict[str, list[str]] = {}
    for name, one in datasets.items():
        for made in one.get("made_with", []):
            by_words.setdefault(json.dumps(made), []).append(name)
    if not by_words:
        return ["Versions: not recorded."]
    lines = [
        f"- {', '.join(names)}: {_made(json.loads(text))}"
        for text, names in by_words.items()
    ]
    return ["### Versions", "\n".join(lines)]


def _made(made: Mapping[str, Any]) -> str:
    return _joined(
        f"{name.replace('_', ' ')} {markdown_text(str(value))}"
        for name, value in made.items()
        if value is not None
    )


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts) + "."


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
        there = [(one.dataset, one.attribute) for one in study.configurations]
        audits = [study.verdicts[key] for key in there]
        files[REPORT] = to_report(audits, [study.release(*key) for key in there])
    return files
