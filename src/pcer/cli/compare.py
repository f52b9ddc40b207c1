"""The verbs before and after a model is trained: ``pcer plan`` and ``pcer compare``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from pcer.auditing import compare as comparing
from pcer.auditing.compare_words import ChangeVerdict
from pcer.auditing.planner import Outlook, detectable
from pcer.cli import parts
from pcer.cli.audit import read_releases
from pcer.cli.parts import ALLOW_LARGE, Files, Given, Outputs, Texts, optional, place
from pcer.errors import InputError
from pcer.report.changes import change_parts, changes_to_junit
from pcer.report.outlooks import outlook_parts


def compare(
    old: Path = typer.Argument(metavar="OLD", help="Release to compare with."),
    new: Path = typer.Argument(metavar="NEW", help="Release that may be worse."),
    cost: Given = optional("A cost that both carry; the sharpest unless given."),
    setting: Texts = optional(
        "Compare this setting, such as 'forest, none' or 0.5; repeatable.", metavar="NAME|OLD=NEW"
    ),
    json_path: Given = place("Every number.", "--json"),
    junit: Given = place("JUnit XML for CI."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Is the new model's exposure, or its difference between groups, worse? Exit 1 if so."""
    outputs = Outputs([old, new], json=json_path, junit=junit)
    before, after = read_releases([old, new], allow_large or [])
    with parts.about(f"{old} and {new}"):
        found = comparing.compare(before, after, cost=cost, settings=setting)
    outputs.write({"json": found.to_json, "junit": lambda: changes_to_junit(found)})
    if not outputs.uses_stdout:
        parts.show(change_parts(found, parts.columns()))
    if found.verdict is ChangeVerdict.WORSE:
        parts.note(f"pcer: {new} is worse than {old}.")
        raise typer.Exit(parts.MET)


def plan(
    release: Path | None = typer.Argument(
        None, metavar="[RELEASE]", help="An earlier release; or give --groups."
    ),
    groups: Given = optional("People of each group, training and test.", metavar="NAME=N,..."),
    accuracy: Given = optional(
        "For people not trained on; 0.8 unless given.", metavar="A|NAME=A,..."
    ),
    test_size: float | None = optional("Share that a split holds out; 0.3 unless given."),
    n_splits: int | None = optional("Distinct splits; 20, or those of the release.", "--splits"),
    n_settings: int | None = optional("Models or budgets that are audited together.", "--settings"),
    cost: Given = optional("gap; of a release any cost in it, or the sharpest."),
    exposure: float | None = optional("Of the less exposed group; 0, or as in the release."),
    target: float | None = optional("Exposure or difference that should be shown."),
    setting: Given = optional("Of a release with several, such as 'ε = 1'."),
    json_path: Given = place("Every number.", "--json"),
    figures: Given = optional("The curve over splits as SVG, PNG and PDF.", metavar="DIR"),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Before anything is trained: what exposure, and what difference, could be shown."""
    given = locals()
    outputs = Outputs([] if release is None else [release], json=json_path, figures=figures)
    found = _outlook(given)
    outputs.write({"json": found.to_json, "figures": lambda: parts.drawing("draw_outlook", found)})
    if not outputs.uses_stdout:
        parts.show(outlook_parts(found, parts.columns()))
        outputs.print_places()


def _outlook(options: Mapping[str, Any]) -> Outlook:
    release, groups, accuracy = options["release"], options["groups"], options["accuracy"]
    names = ("test_size", "n_splits", "n_settings", "cost", "exposure", "target", "setting")
    asked = {name: options[name] for name in names}
    if accuracy is not None:  # one number, or one for each group
        try:
            asked["accuracy"] = float(accuracy)
        except ValueError:
            asked["accuracy"] = _named(accuracy, float, option="--accuracy")
    if (release is None) == (groups is None):
        raise InputError(
            "pcer plan needs either a release or --groups with the people of each group, such as "
            "--groups Women=1200,Men=3400."
        )
    if release is None:
        return detectable(_named(groups, int, option="--groups"), **asked)
    (earlier,) = read_releases([release], options["allow_large"] or [])
    with parts.about(release):
        return detectable(earlier, **asked)


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
