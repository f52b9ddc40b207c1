"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pcer.cli.parts import (
    STDOUT,
    TABLES,
    columns,
    disclosure_rule,
    folder_for,
    from_options,
    give,
    note,
    note_if_large,
    require_packages,
    show,
    show_table,
    with_defaults,
    working,
)
from pcer.errors import InputError
from pcer.metrics import NO_DP
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.report import Part, Table, wrapped
from pcer.store import SECRET_BYTES, keep_secret, read_secret, state_folder

if TYPE_CHECKING:
    from pcer.release.format import Release

CAUTION = (
    "These are records of real people who did not consent to this use, some of them about "
    "decisions over their lives. Use them to examine methods, never to judge a person."
)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    example = "pcer release predictions.parquet --attribute sex --outcome benefit"
    app.command(
        epilog=f"Example: {example} --split-kind random", cls=with_defaults(_release_settings)
    )(release)
    app.command(epilog="Example: pcer datasets")(datasets)


def release(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file, or a pattern in quotes.")],
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", help="Column of a protected attribute; repeatable."),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="A positive prediction is a benefit or a harm.")
    ] = None,
    split_kind: Annotated[
        str | None, typer.Option(help="random if train and test were drawn at random, else other.")
    ] = None,
    y_true: Annotated[
        str | None, typer.Option("--label", help="Column of the true labels.")
    ] = None,
    y_pred: Annotated[
        str | None, typer.Option("--prediction", help="Column of the predicted labels.")
    ] = None,
    y_score: Annotated[
        str | None,
        typer.Option("--score", help="Column of probabilities, instead of predicted labels."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Positive from here on, with --score.")
    ] = None,
    positive_label: Annotated[
        str | None,
        typer.Option("--positive", help="The positive label, unless labels are 0 and 1."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Column that says train or test.")] = None,
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
    mechanism: Annotated[str | None, typer.Option(help="How the models were trained.")] = None,
    dp_delta: Annotated[float | None, typer.Option(help="Delta of models with a budget.")] = None,
    notes: Annotated[
        list[str] | None,
        typer.Option("--note", help="Sentence that travels with the release; repeatable."),
    ] = None,
    public_data: Annotated[
        bool,
        typer.Option(
            "--public-data",
            help="Anybody may have the records: exact tables of groups of any size.",
        ),
    ] = False,
    least_people: Annotated[
        int,
        typer.Option(min=1, help="Of one group, label and part; smaller groups are not released."),
    ] = LEAST_PEOPLE,
    small_groups: Annotated[
        Literal["join", "withhold"],
        typer.Option(help="What becomes of groups with fewer people."),
    ] = "join",
    certain_cells: Annotated[
        bool,
        typer.Option(
            help="Release cells that tell someone's membership with certainty, or coarsen."
        ),
    ] = True,
    secret_file: Annotated[
        Path | None, typer.Option(help="Secret that keys splits' names, with --record-id.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="duckdb, pyspark, or an Ibis address with ://.")
    ] = None,
    out: Annotated[str, typer.Option(help="Folder, or a .json file; - is stdout.")] = ".",
) -> None:
    """Count a table of predictions, of any size, into a release per protected attribute."""
    options = _complete(locals())
    require_packages(TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    labels = {} if y_score is None else {"y_pred": None}
    columns = from_options(PredictionColumns, options, **labels)
    rule, secret = disclosure_rule(options), _secret(options)
    facts = from_options(ReleaseFacts, options, disclosure=rule, secret=secret)
    with working("Counting") as status:
        made = releases_from_table(
            table, columns, facts, backend=backend, on_step=lambda s: status.update(s.capitalize())
        )
    _write(made, out)


def datasets(
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="The list as JSON. - is stdout.")
    ] = None,
) -> None:
    """List the benchmark datasets: sizes, licences, which are here, and what they are about."""
    require_packages(TABLES)
    from pcer.data import describe_datasets

    rows = describe_datasets()
    if json_path is not None:
        give({json_path: json.dumps(rows, indent=2, ensure_ascii=False) + "\n"})
    else:
        _print_datasets(rows)


def _release_settings() -> Iterable[type[Any]]:
    from pcer.tables import PredictionColumns, ReleaseFacts

    return PredictionColumns, ReleaseFacts


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
    groups = options["groups"] and options["groups"].split(",")
    return {**options, "dataset": options["dataset"] or _stem(options["table"]), "groups": groups}


def _secret(options: Mapping[str, Any]) -> bytes:
    """What keys the names of splits: as given, or the user's own for tables, made once."""
    if options["secret_file"] is not None:
        return read_secret(options["secret_file"])
    return b"" if options["record_id"] is None or options["public_data"] else own_secret()


def own_secret() -> bytes:
    """The user's own secret for tables, made once."""
    path = state_folder() / "tables.secret"
    if not path.exists():
        keep_secret(token_bytes(SECRET_BYTES), path)
    return read_secret(path)


def _stem(table: str) -> str:
    """The file's name without endings; its folder's name where the file is a pattern."""
    path = Path(table)
    is_pattern = any(mark in path.name for mark in "*?[") and not path.exists()
    name = path.parent.name if is_pattern else path.name
    return name.split(".")[0] or "predictions"


def _write(made: Mapping[str, Release], out: str) -> None:
    """Write all releases or none, and say on stderr what is in them."""
    is_file = out == STDOUT or out.endswith(".json")
    if is_file and len(made) > 1:
        raise InputError("several attributes make several releases; give --out a folder.")
    releases = {
        out if is_file else str(Path(out, file_name(r.subject.dataset, r.subject.attribute))): r
        for r in made.values()
    }
    with folder_for(None if is_file else out, parents=True):
        give({path: release.to_json() for path, release in releases.items()})
    for path, release in releases.items():
        settings = {(run.model, run.epsilon) for run in release.runs}
        n_groups = len(release.subject.groups)
        note_if_large(n_runs=len(release.runs), n_settings=len(settings), n_groups=n_groups)
        if path != STDOUT:
            note(f"{path}: {_summary(release)}.")


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called.

    >>> file_name("my loans", "sex & age")
    'my-loans.sex-age.release.json'
    """
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
    return ".".join([*plain, "release", "json"])


def _summary(release: Release) -> str:
    budgets = sorted({NO_DP if run.epsilon is None else run.epsilon for run in release.runs})
    named = ", ".join("no-DP" if epsilon == NO_DP else f"{epsilon:g}" for epsilon in budgets)
    return (
        f"{len(release.runs)} models (epsilon {named}), up to {release.subject.n_records:,} "
        f"records each, groups {', '.join(release.subject.groups)}"
    )


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
    show_table(Table("Benchmark datasets", heads, cells, n_labels=2))
    for row in rows:
        lines = (f"{row['source']}.", f"Licence: {row['licence']}.", row["caution"])
        show([Part(row["name"], "\n".join(wrapped(line, columns(), indent=2) for line in lines))])
    typer.echo(wrapped(CAUTION, columns()))
    typer.echo('In Python: pcer.data.load("compas").')
