"""The command line: its verbs, the study's among them, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from pcer.cli import audit, compare, release, train
from pcer.cli.parts import UNUSABLE, note
from pcer.cli.process import Stopped, listen, require_width, steady, what_lacks
from pcer.errors import InputError, PcerError

STUDY = "reproduce"
NO_STUDY = (
    "pcer reproduce comes with the study, which is not installed; in a clone of pcer run: "
    'pip install ".[train]" ./studies'
)


class VerbGroup(TyperGroup):
    """The command line's own verbs, and below them the study's, which is a distribution apart."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help page."""
        return [*super().list_commands(ctx), STUDY]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb by name; None where there is none."""
        if cmd_name != STUDY:
            return super().get_command(ctx, cmd_name)
        points = entry_points(group="pcer.verbs", name=STUDY)
        if not points:
            takes_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
            return TyperCommand(
                STUDY, callback=_refuse, help=escape(NO_STUDY), context_settings=takes_anything
            )
        study = typer.Typer(add_completion=False)
        points[STUDY].load()(study)
        return typer.main.get_command(study)


def _refuse() -> NoReturn:
    raise InputError(NO_STUDY)


class Verb(TyperCommand):
    """A verb whose help shows also the defaults of settings that are slow to import."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Look the defaults up, then write the help."""
        module, *names = SETTINGS.get(str(self.name), ("pcer",))
        kinds = [getattr(import_module(module), name) for name in names]
        defaults = {field.name: field.default for kind in kinds for field in fields(kind)}
        for option in self.params:
            default = defaults.get(str(option.name), MISSING)
            option.default = option.default if default is MISSING else default
        super().format_help(ctx, formatter)


# Every verb in the order of the help page, with an example.
VERBS: dict[Callable[..., None], str] = {
    compare.plan: "plan --groups Women=1200,Men=3400 --accuracy 0.8 --splits 20 --target 0.01",
    audit.audit: "audit compas.release.json --json - --fail-on disparity_shown",
    compare.compare: "compare old.release.json new.release.json --json -",
    audit.verify: "verify compas.audit.json compas.release.json",
    audit.schema: "schema release > release.schema.json",
    audit.version: "version",
    release.release: (
        "release predictions.parquet --attribute sex --outcome benefit --split-kind random"
    ),
    release.datasets: "datasets",
    train.train: "train compas --attribute race --budgets none,0.5,5 --seeds 20 -o out",
    train.demo: "demo -o pcer-demo",
    train.receipt: "receipt out --record 1234",
}
# By verb, the module and the settings that its options fill.
SETTINGS = {
    "release": ("pcer.tables", "PredictionColumns", "ReleaseFacts"),
    "train": ("pcer.train", "TrainConfig", "EngineFlags"),
}


def made_of(verbs: Mapping[Callable[..., None], str]) -> typer.Typer:
    """The command line of verbs with their examples."""
    made = typer.Typer(
        name="pcer",
        cls=VerbGroup,
        help="Audit who pays for privacy: benefit and privacy cost per group, and whether the data "
        "can tell.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for verb, example in verbs.items():
        made.command(epilog=f"Example: pcer {example}", cls=Verb)(verb)
    return made


app = made_of(VERBS)


def main() -> None:
    """Run the command line; anything pcer refuses is one sentence and exit code 2.

    So is a signal that stops it, with the code that shells give it.
    """
    sys.stdout, sys.stderr = steady(sys.stdout), steady(sys.stderr)
    require_width()
    try:
        listen()
        app(prog_name="pcer")
    except PcerError as error:
        _end(f"{error}")
    except Stopped as stopped:
        stopped.tell()
        sys.exit(stopped.exit_code)
    except Exception as error:
        if (lacking := what_lacks(error)) is None:
            raise
        free = "free some, raise the limit (ulimit), or ask for less at once"
        _end(f"this machine gives no more {lacking}; {free}.")


def _end(sentence: str) -> NoReturn:
    note(f"pcer: {sentence}")
    sys.exit(UNUSABLE)
