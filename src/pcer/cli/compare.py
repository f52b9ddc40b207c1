"""The verbs before and after a model is trained: ``pcer plan`` and ``pcer compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pcer.auditing import Changes, ChangeVerdict, Outlook, detectable
from pcer.auditing import compare as comparing
from pcer.cli.audit import AllowLarge, Outputs, read_releases
from pcer.cli.parts import MET, columns, folder_for, give, note, show, working
from pcer.errors import InputError, PcerError
from pcer.release.format import Release
from pcer.report import (
    OUTLOOK,
    change_parts,
    changes_to_junit,
    drawn,
    outlook_parts,
    outlook_spec,
)

EXAMPLE = "pcer plan --groups Women=1200,Men=3400 --accuracy 0.8 --splits 20 --target 0.01"


def register_plan(app: typer.Typer) -> None:
    """Add ``pcer plan`` to the command line."""
    app.command(epilog=f"Example: {EXAMPLE}")(plan)


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
    before, after = read_releases([old, new], allow_large or [])
    found = _compared(f"{old} and {new}", before, after, cost=cost, settings=setting)
    texts = {"json": found.to_json(), "junit": changes_to_junit(found)}
    give({path: texts[name] for name, path in outputs.paths.items()})
    if not outputs.uses_stdout:
        show(change_parts(found, columns()))
    if found.verdict is ChangeVerdict.WORSE:
        note(f"pcer: {new} is worse than {old}.")
        raise typer.Exit(MET)


def _compared(files: str, before: Release, after: Release, **options: Any) -> Changes:
    try:
        return comparing.compare(before, after, **options)
    except PcerError as error:
        raise type(error)(f"{files}: {error}") from None


def plan(
    release: Annotated[
        Path | None,
        typer.Argument(metavar="[RELEASE]", help="An earlier release; or give --groups."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="NAME=N,...", help="People of each group, training and test."),
    ] = None,
    accuracy: Annotated[
        str | None,
        typer.Option(metavar="A|NAME=A,...", help="For people not trained on; 0.8 unless given."),
    ] = None,
    test_size: Annotated[
        float | None, typer.Option(help="Share that a split holds out; 0.3 unless given.")
    ] = None,
    splits: Annotated[
        int | None, typer.Option(help="Distinct splits; 20, or those of the release.")
    ] = None,
    settings: Annotated[
        int | None, typer.Option(help="Models or budgets that are audited together.")
    ] = None,
    cost: Annotated[
        str | None, typer.Option(help="gap; of a release any cost in it, or the sharpest.")
    ] = None,
    exposure: Annotated[
        float | None, typer.Option(help="Of the less exposed group; 0, or as in the release.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="Exposure or difference that should be shown.")
    ] = None,
    setting: Annotated[
        str | None, typer.Option(help="Of a release with several, such as 'ε = 1'.")
    ] = None,
    json_path: Annotated[
        str | None, typer.Option("--json", metavar="PATH", help="Every number. - is stdout.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="The curve over splits as SVG, PNG and PDF.")
    ] = None,
    allow_large: AllowLarge = None,
) -> None:
    """Before anything is trained: what exposure, and what difference, could be shown."""
    outputs = Outputs(json=json_path, figures=figures)
    outputs.check([] if release is None else [release])
    options: dict[str, Any] = {"test_size": test_size, "n_splits": splits}
    options |= {"n_settings": settings, "cost": cost, "exposure": exposure, "target": target}
    options |= {"setting": setting, "accuracy": _accuracy(accuracy)}
    found = _outlook(release, groups, allow_large or [], options)
    _write(found, json_path, figures)
    if not outputs.uses_stdout:
        show(outlook_parts(found, columns()))
        outputs.print_places()


def _outlook(
    release: Path | None, groups: str | None, allow_large: list[Path], options: dict[str, Any]
) -> Outlook:
    if (release is None) == (groups is None):
        raise InputError(
            "pcer plan needs either a release or --groups with the people of each group, such as "
            "--groups Women=1200,Men=3400."
        )
    if release is None:
        return detectable(_named(str(groups), int, option="--groups"), **options)
    (known,) = read_releases([release], allow_large)
    try:
        return detectable(known, **options)
    except PcerError as error:
        raise type(error)(f"{release}: {error}") from None


def _write(found: Outlook, json_path: str | None, figures: str | None) -> None:
    with folder_for(figures) as folder:
        files: dict[str, str | bytes] = {} if json_path is None else {json_path: found.to_json()}
        if folder:
            with working("Drawing"):
                pictures = drawn(outlook_spec(found))
            files |= {
                str(Path(folder, f"{OUTLOOK}.{kind}")): data for kind, data in pictures.items()
            }
        give(files)


def _accuracy(text: str | None) -> float | dict[str, float] | None:
    """One number, or one for each group."""
    if text is None or "=" in text:
        return None if text is None else _named(text, float, option="--accuracy")
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--accuracy must be a number between 0 and 1, not {text!r}.") from None


def _named(text: str, number: Any, *, option: str) -> dict[str, Any]:
    """``NAME=NUMBER`` with commas between; the last = counts, so that names may have one."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, is_given, value = part.rpartition("=")
        try:
            if not is_given or not name.strip() or name.strip() in found:
                raise ValueError
            found[name.strip()] = number(value)
        except ValueError:
            what = "a whole number" if number is int else "a number"
            raise InputError(
                f"{option} must be names with {what} each, every name once, such as "
                f"Women=...,Men=..., but {part!r} is not."
            ) from None
    return found
