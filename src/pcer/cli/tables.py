"""The trainer's verbs on data: ``pcer release`` and ``pcer datasets``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.status import Status

from pcer.cli.parts import (
    STDOUT,
    TABLES,
    CertainCells,
    LeastPeople,
    PublicData,
    SmallGroupsRule,
    columns,
    disclosure_rule,
    folder_for,
    from_options,
    give,
    require_packages,
    say,
    show,
    show_table,
    with_defaults,
    working,
)
from pcer.errors import InputError
from pcer.release import LEAST_PEOPLE
from pcer.report import Part, Table, wrapped
from pcer.store import SECRET_BYTES, keep_secret, read_secret, state_folder

if TYPE_CHECKING:
    from pcer.release import Release

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
    public_data: PublicData = False,
    least_people: LeastPeople = LEAST_PEOPLE,
    small_groups: SmallGroupsRule = "join",
    certain_cells: CertainCells = True,
    secret_file: Annotated[
        Path | None, typer.Option(help="Secret that keys splits' names, with --record-id.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="duckdb, pyspark, or an Ibis address with ://.")
    ] = None,
    out: Annotated[str, typer.Option(help="Folder, or a .json file; - is stdout.")] = ".",
) -> None:
    """Count a table of predictions, of any size, into a release per protected attribute."""
    said = _complete(locals())
    require_packages(TABLES)
    from pcer.tables import PredictionColumns, ReleaseFacts, releases_from_table

    labels = {} if y_score is None else {"y_pred": None}
    columns = from_options(PredictionColumns, said, **labels)
    facts = from_options(ReleaseFacts, said, disclosure=disclosure_rule(said), secret=_secret(said))
    with working("Counting") as shown:
        made = releases_from_table(table, columns, facts, backend=backend, on_step=_teller(shown))
    _write(made, out)


def _teller(shown: Status) -> Callable[[str], None]:
    """What the counting calls with what it does next."""
    return lambda doing: shown.update(doing.capitalize())


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


def _complete(said: dict[str, Any]) -> dict[str, Any]:
    """The options with what they leave to the table's name, and nothing left unsaid."""
    _require_said(said["outcome"], "--outcome", "benefit", "harm", "what a positive prediction is")
    kind, how = said["split_kind"], "how train and test were divided"
    _require_said(kind, "--split-kind", "random", "other", how)
    if not said["attributes"]:
        raise InputError("name at least one column with --attribute.")
    groups = said["groups"] and said["groups"].split(",")
    return {**said, "dataset": said["dataset"] or _stem(said["table"]), "groups": groups}


def _secret(said: Mapping[str, Any]) -> bytes:
    """What keys the names of splits: as given, or the user's own for tables, made once."""
    if said["secret_file"] is not None:
        return read_secret(said["secret_file"])
    if said["record_id"] is None or said["public_data"]:
        return b""
    return own_secret()


def own_secret() -> bytes:
    """The user's own secret for tables, made once."""
    path = state_folder() / "tables.secret"
    if not path.exists():
        keep_secret(token_bytes(SECRET_BYTES), path)
    return read_secret(path)


def _require_said(value: str | None, option: str, first: str, second: str, what: str) -> None:
    if value not in (first, second):
        given = "was not said" if value is None else f"cannot be {value!r}"
        raise InputError(f"{what} {given}; add {option} {first} or {option} {second}.")


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
    paths = {
        name: out if is_file else str(Path(out, _release_name(one))) for name, one in made.items()
    }
    with folder_for(None if is_file else out, parents=True):
        give({paths[name]: one.to_json() for name, one in made.items()})
    for name, path in paths.items():
        if path != STDOUT:
            say(f"{path}: {_summary(made[name])}.", err=True)


def _release_name(one: Release) -> str:
    return file_name(one.subject.dataset, one.subject.attribute)


def file_name(dataset: str, attribute: str) -> str:
    """What a release is called.

    >>> file_name("my loans", "sex & age")
    'my-loans.sex-age.release.json'
    """
    plain = (re.sub(r"[^\w-]+", "-", part) for part in (dataset, attribute))
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
