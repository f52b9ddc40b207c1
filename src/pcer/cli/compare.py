"""How does one ask what to choose? ``plan``, ``compare``, ``trend``, ``recommend``.

Each reads releases, asks one function of ``pcer.deciding``, and shows or writes the
answer. To add such a verb: its function here, and a row of ``VERBS`` in ``cli.app``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from pcer.auditing.policy import read_policy
from pcer.cli import options as options_module
from pcer.cli import outputs as outputs_module
from pcer.cli.options import ALLOW_LARGE, Files, Given, Texts, optional, place
from pcer.cli.outputs import ExitCode, Outputs
from pcer.deciding import compare as compare_module
from pcer.deciding import recommend as recommend_module
from pcer.deciding import trend as trend_module
from pcer.deciding.compare import Changes, ChangeVerdict
from pcer.deciding.planner import detectable
from pcer.errors import InputError
from pcer.measuring.plan import Policy
from pcer.release.file import read_releases, release_file, release_files
from pcer.report.formats.junit import changes_to_junit
from pcer.report.page import to_choice_page
from pcer.report.show import trend_page
from pcer.report.tables.decisions import (
    change_view,
    choice_view,
    outlook_view,
    trend_view,
)

NEWEST = "Hold the newest to this policy, and to every attack of the oldest."


def compare(
    old: Path = typer.Argument(
        metavar="OLD", help="Release to compare with, or its folder."
    ),
    new: Path = typer.Argument(metavar="NEW", help="Release that may be worse."),
    attack: Given = optional("An attack that both carry; default: the strongest."),
    setting: Texts = optional(
        "Compare this setting, such as 'forest, none' or 0.5; repeatable.",
        metavar="NAME|OLD=NEW",
    ),
    json_path: Given = place("Every number.", "--json"),
    junit: Given = place("JUnit XML for CI."),
    policy: Path | None = optional(NEWEST, metavar="FILE"),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Is the new model worse: higher exposure, or a larger gap between groups?"""
    old = release_file(old)
    new = release_file(new)
    outputs = Outputs([old, new], json=json_path, junit=junit)
    before, after = read_releases([old, new], allow_large or [])
    with options_module.about(f"{old} and {new}"):
        changes = compare_module.compare(
            before, after, attack=attack, settings=setting, policy=_limits(policy)
        )
    outputs.give(
        change_view(changes),
        json=changes.to_json,
        junit=lambda: changes_to_junit(changes),
    )
    _exit_if_worse(changes, old, new)


def recommend(
    releases: list[Path] = typer.Argument(
        metavar="RELEASE|FOLDER...",
        help="Of one attribute, with several settings together.",
    ),
    largest_exposure: float | None = optional(
        "Most that an attacker is right, of 100 (coin: 50)."
    ),
    least_accuracy: float | None = optional("On test records, of 100."),
    policy: Path | None = optional(
        "These limits, and five more, from a file: docs/choosing.md.", metavar="FILE"
    ),
    json_path: Given = place("Every number.", "--json"),
    html: Given = place("A page with the chart."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Which setting to train: the most accurate one that holds your limits."""
    files = release_files(releases)
    limits = _limits(policy)
    outputs = Outputs(files, json=json_path, html=html)
    read = read_releases(files, allow_large or [])
    with options_module.about(", ".join(map(str, files))):
        recommended = recommend_module.recommend(
            read,
            policy=limits,
            largest_exposure=largest_exposure,
            least_accuracy=least_accuracy,
        )
    outputs.give(
        choice_view(recommended),
        json=recommended.to_json,
        html=lambda: to_choice_page(recommended),
    )
    if recommended.choice is None:
        outputs_module.note("pcer: no setting is shown to hold every limit.")
        raise typer.Exit(ExitCode.FINDING)


def trend(
    releases: list[Path] = typer.Argument(
        metavar="OLDEST... NEWEST", help="Releases of one model, in the order of time."
    ),
    attack: Given = optional("An attack that all carry; default: the strongest."),
    setting: Given = optional(
        "One that all have, such as 0.5; default: the least private."
    ),
    json_path: Given = place("Every number.", "--json"),
    html: Given = place("One offline page: the chart and the table."),
    policy: Path | None = optional(NEWEST, metavar="FILE"),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Versions of one model: both answers of each; is the last one worse?"""
    files = [release_file(path) for path in releases]
    outputs = Outputs(files, json=json_path, html=html)
    read = read_releases(files, allow_large or [])
    with outputs_module.working("Auditing"):
        versions = trend_module.trend(
            read, attack=attack, setting=setting, policy=_limits(policy)
        )
    outputs.give(
        trend_view(versions),
        json=versions.to_json,
        html=lambda: trend_page(versions),
    )
    _exit_if_worse(versions.change, files[0], files[-1])


def _limits(file: Path | None) -> Policy | None:
    return None if file is None else read_policy(file)


def _exit_if_worse(changes: Changes, old: Path, new: Path) -> None:
    """Exit with a finding where the new release is worse, or breaks the policy."""
    notes = [f"policy: {rule.sentence}" for rule in changes.broken_rules]
    if changes.verdict is ChangeVerdict.WORSE:
        notes.append(f"{new} is worse than {old}.")
    for note in notes:
        outputs_module.note(f"pcer: {note}")
    if notes:
        raise typer.Exit(ExitCode.FINDING)


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
    attack: Given = optional(
        "gap; from a release any attack in it; default: the strongest."
    ),
    setting: Given = optional("One of several in a release, such as 'ε = 1'."),
    allow_large: Files = ALLOW_LARGE,
) -> None:
    """Before training: how small an exposure or difference an audit could show."""
    file = None if release is None else release_file(release)
    outputs = Outputs([] if file is None else [file], json=json_path)
    asked: dict[str, Any] = {
        "accuracy": _accuracy(accuracy),
        "test_size": test_size,
        "n_splits": n_splits,
        "n_settings": n_settings,
        "attack": attack,
        "target": target,
        "setting": setting,
    }
    if (file is None) == (groups is None):
        raise InputError(
            "pcer plan needs either a release or --groups, such as --groups "
            "Women=1200,Men=3400."
        )
    if file is None:
        sizes = options_module.parse_named(groups, int, option="--groups")
        outlook = detectable(sizes, **asked)
    else:
        (earlier,) = read_releases([file], allow_large or [])
        with options_module.about(file):
            outlook = detectable(earlier, **asked)
    outputs.give(outlook_view(outlook), json=outlook.to_json)


def _accuracy(text: str | None) -> float | dict[str, Any] | None:
    """One number, or one for each group."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return options_module.parse_named(text, float, option="--accuracy")
