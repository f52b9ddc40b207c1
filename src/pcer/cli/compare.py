"""The verb for a new model beside the old one: ``pcer compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pcer.auditing import Changes, ChangeVerdict
from pcer.auditing import compare as compare_releases
from pcer.cli.audit import AllowLarge, Outputs, read_releases
from pcer.cli.parts import MET, columns, give, say, show
from pcer.errors import PcerError
from pcer.report import change_parts, changes_to_junit


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog="Example: pcer compare old.release.json new.release.json --json -")(compare)


def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Release to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Release that may be worse.")],
    cost: Annotated[
        str | None, typer.Option(help="A cost that both carry; the sharpest unless given.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|OLD=NEW",
            help="Compare this setting, such as 'forest, none' or 0.5; repeatable.",
        ),
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Every number. - is stdout.")
    ] = None,
    junit: Annotated[
        str | None, typer.Option(metavar="PATH", help="JUnit XML for CI. - is stdout.")
    ] = None,
    allow_large: AllowLarge = None,
) -> None:
    """Is the new model's exposure, or its difference between groups, worse? Exit 1 if so."""
    outputs = Outputs(json=json_path, junit=junit)
    outputs.check([old, new])
    found = _compared(old, new, allow_large or [], cost, setting)
    give(
        {
            path: found.to_json() if name == "json" else changes_to_junit(found)
            for name, path in outputs.paths.items()
        }
    )
    if not outputs.uses_stdout:
        show(change_parts(found, columns()))
    if found.verdict is ChangeVerdict.WORSE:
        say(f"pcer: {new} is worse than {old}.", err=True)
        raise typer.Exit(MET)


def _compared(
    old: Path, new: Path, allow_large: list[Path], cost: str | None, settings: list[str] | None
) -> Changes:
    before, after = read_releases([old, new], allow_large)
    try:
        return compare_releases(before, after, cost=cost, settings=settings)
    except PcerError as error:
        raise type(error)(f"{old} and {new}: {error}") from None
