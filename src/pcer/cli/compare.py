"""The verbs before training and between settings and versions: ``pcer plan`` and more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from pcer.auditing.policy import read_policy
from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli import progress
from pcer.cli.audit import read_releases
from pcer.cli.options import ALLOW_LARGE, Files, Given, Texts, optional, place
from pcer.cli.outputs import Outputs
from pcer.deciding import candidates
from pcer.deciding import compare as compare_module
from pcer.deciding import recommend as recommend_module
from pcer.deciding import trend as trend_module
from pcer.deciding.compare import ChangeVerdict
from pcer.deciding.planner import Outlook, detectable
from pcer.errors import InputError
from pcer.release.reading import release_file, release_files
from pcer.report.formats.junit import changes_to_junit
from pcer.report.page import to_choice_page
from pcer.report.show import trend_page
from pcer.report.tables.decisions import (
    change_view,
    choice_view,
    outlook_view,
    trend_view,
)


def compare(
    old: Path = typer.Argument(
        metavar="OLD", help="Release to compare with, or its folder."
    ),
    new: Path = typer.Argument(metavar="NEW", help="Release that may be worse."),
    cost: Given = optional("An attack that both carry; default: the strongest."),
    setting: Texts = optional(
        "Compare this setting, such as 'forest, none' or 0.5; repeatable.",
        metavar="NAME|OLD=NEW",
    ),
    json_path: Given = place("Every number.", "--json"),
    junit: Given = place("JUnit XML for CI."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Is the new model worse: higher exposure, or a larger gap between groups? Exit 1 if so."""
    old, new = files = [release_file(old), release_file(new)]
    outputs = Outputs(files, json=json_path, junit=junit)
    before, after = read_releases(files, allow_large or [])
    with options_module.about(f"{old} and {new}"):
        found = compare_module.compare(before, after, cost=cost, settings=setting)
    outputs.give(
        change_view(found), json=found.to_json, junit=lambda: changes_to_junit(found)
    )
    if found.verdict is ChangeVerdict.WORSE:
        progress.note(f"pcer: {new} is worse than {old}.")
        raise typer.Exit(outputs_module.MET)


def recommend(
    releases: list[Path] = typer.Argument(
        metavar="RELEASE|FOLDER...",
        help="Of one attribute, with several settings together.",
    ),
    largest_exposure: float | None = optional(
        "Most that an attacker is right, of 100 (coin: 50)."
    ),
    largest_difference: float | None = optional(
        "Of that between two groups, in points."
    ),
    largest_outcome_gap: float | None = optional(
        "Of outcomes of two groups, in points of 100."
    ),
    most_spent: float | None = optional(
        "Epsilon that a group spends on average, by receipts."
    ),
    least_accuracy: float | None = optional("On test records, of 100."),
    policy: Path | None = optional(
        "Limits from a policy file: docs/reports.md.", metavar="FILE"
    ),
    json_path: Given = place("Every number.", "--json"),
    html: Given = place("A page with the chart."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Which setting to train: the most accurate one that holds your limits.

    Exit 1 if none does.
    """
    limits = {
        name: value for name, value in locals().items() if name in candidates.LIMITS
    }
    files = release_files(releases)
    named = None if policy is None else read_policy(policy)
    outputs = Outputs(files, json=json_path, html=html)
    read = read_releases(files, allow_large or [])
    with options_module.about(", ".join(map(str, files))):
        found = recommend_module.recommend(read, policy=named, **limits)
    outputs.give(
        choice_view(found), json=found.to_json, html=lambda: to_choice_page(found)
    )
    if found.choice is None:
        progress.note("pcer: no setting is shown to hold every limit.")
        raise typer.Exit(outputs_module.MET)


def trend(
    releases: list[Path] = typer.Argument(
        metavar="OLDEST... NEWEST", help="Releases of one model, in the order of time."
    ),
    cost: Given = optional("An attack that all carry; default: the strongest."),
    setting: Given = optional(
        "One that all have, such as 0.5; default: the least private."
    ),
    json_path: Given = place("Every number.", "--json"),
    html: Given = place("One offline page: the chart and the table."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Versions of one model: both answers of each.

    Exit 1 if the last is worse than the first.
    """
    outputs = Outputs(
        releases := [*map(release_file, releases)], json=json_path, html=html
    )
    read = read_releases(releases, allow_large or [])
    with progress.working("Auditing"):
        found = trend_module.trend(read, cost=cost, setting=setting)
    outputs.give(trend_view(found), json=found.to_json, html=lambda: trend_page(found))
    if found.change.verdict is ChangeVerdict.WORSE:
        progress.note(f"pcer: {releases[-1]} is worse than {releases[0]}.")
        raise typer.Exit(outputs_module.MET)


def plan(
    release: Path | None = typer.Argument(
        None, metavar="[RELEASE]", help="An earlier release; or give --groups."
    ),
    groups: Given = optional(
        "People of each group, training and test.", metavar="NAME=N,..."
    ),
    accuracy: Given = optional(
        "On test records; default: 0.8.", metavar="A|NAME=A,..."
    ),
    n_splits: int | None = optional(
        "Distinct splits; default: 20, or the release's.", "--splits"
    ),
    target: float | None = optional("Exposure or difference to detect."),
    json_path: Given = place("Every number.", "--json"),
    test_size: float | None = optional("Share that a split holds out; default: 0.3."),
    n_settings: int | None = optional(
        "Models or budgets that are audited together.", "--settings"
    ),
    cost: Given = optional(
        "gap; from a release any attack in it; default: the strongest."
    ),
    exposure: float | None = optional(
        "Of the less exposed group; default: 0, or the release's."
    ),
    setting: Given = optional("One of several in a release, such as 'ε = 1'."),
    figures: Given = optional(
        "The curve over splits as SVG, PNG and PDF.", metavar="DIR"
    ),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Before training: how small an exposure or difference an audit could show."""
    given = locals() | {"release": release and release_file(release)}
    outputs = Outputs(filter(None, [given["release"]]), json=json_path, figures=figures)
    found = _outlook(given)
    pictures = partial(outputs_module.drawing, "draw_outlook", found)
    outputs.give(outlook_view(found), json=found.to_json, figures=pictures)


def _outlook(options: Mapping[str, Any]) -> Outlook:
    release = options["release"]
    groups = options["groups"]
    accuracy = options["accuracy"]
    names = (
        "test_size",
        "n_splits",
        "n_settings",
        "cost",
        "exposure",
        "target",
        "setting",
    )
    asked = {name: options[name] for name in names}
    if accuracy is not None:  # one number, or one for each group
        try:
            asked["accuracy"] = float(accuracy)
        except ValueError:
            asked["accuracy"] = options_module.parse_named(
                accuracy, float, option="--accuracy"
            )
    if (release is None) == (groups is None):
        raise InputError(
            "pcer plan needs either a release or --groups, such as --groups Women=1200,Men=3400."
        )
    if release is None:
        return detectable(
            options_module.parse_named(groups, int, option="--groups"), **asked
        )
    (earlier,) = read_releases([release], options["allow_large"] or [])
    with options_module.about(release):
        return detectable(earlier, **asked)
