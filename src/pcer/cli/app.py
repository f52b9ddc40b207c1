"""The command line: its verbs, with that of the study, and its exit codes."""

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

from pcer.cli import audit, compare, progress, release, train
from pcer.cli.options import optional
from pcer.cli.outputs import UNUSABLE
from pcer.cli.process import Stopped, listen, require_width, steady, what_lacks
from pcer.cli.progress import QUIET
from pcer.errors import InputError, PcerError

STUDY = "reproduce"
NO_STUDY = (
    "pcer reproduce comes with the study, which is not installed; in a clone of pcer run: "
    'pip install ".[train]" ./studies'
)


class VerbGroup(TyperGroup):
    """pcer's verbs, and the study's, which is a separate distribution."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help page."""
        names = super().list_commands(ctx)
        at = names.index("demo") if "demo" in names else len(names)
        return [*names[:at], STUDY, *names[at:]]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb by name, which is quiet where it is asked to be; None where there is none."""
        verb = (
            self._study() if cmd_name == STUDY else super().get_command(ctx, cmd_name)
        )
        quiet = [option for option in self.params if option.name == "quiet"]
        if verb is not None and verb.params[-1:] != quiet:
            verb.params += quiet
        return verb

    def _study(self) -> Any:
        study = typer.Typer(add_completion=False)
        if points := entry_points(group="pcer.verbs", name=STUDY):
            points[STUDY].load()(study)
        else:
            takes_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
            study.command(
                STUDY, help=escape(NO_STUDY), context_settings=takes_anything
            )(_refuse)
        return typer.main.get_command(study)


def _refuse() -> NoReturn:
    raise InputError(NO_STUDY)


class Verb(TyperCommand):
    """A verb whose help has the common options first, and defaults that are slow to import."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Sort the options and look their defaults up, then write the help."""
        module, *names = SETTINGS.get(str(self.name), ("pcer",))
        kinds = [getattr(import_module(module), name) for name in names]
        defaults = {
            field.name: field.default for kind in kinds for field in fields(kind)
        }
        options: list[Any] = [
            one for one in self.params if one.param_type_name == "option"
        ]
        for n, option in enumerate(options):
            default = defaults.get(str(option.name), MISSING)
            option.default = option.default if default is MISSING else default
            panel = option.rich_help_panel or "More options"
            option.rich_help_panel = None if n < MOST_COMMON else panel
        super().format_help(ctx, formatter)


FOREST, LOGISTIC = (
    f"examples/compas-{name}.release.json" for name in ("forest", "logistic")
)
# Every verb in the order of the help page, with an example that runs in a clone of
# pcer.
VERBS: dict[Callable[..., None], str] = {
    compare.plan: "plan --groups Women=1200,Men=3400 --accuracy 0.8 --splits 20 --target 0.01",
    train.train: "train compas --attribute race --budgets none,1 --seeds 8 --receipts held -o out",
    release.release: "release loans.csv --attribute sex --outcome benefit --split-kind random",
    audit.audit: f"audit {FOREST} --html report.html",
    compare.compare: f"compare {LOGISTIC} {FOREST}",
    compare.trend: f"trend {LOGISTIC} {FOREST} --html trend.html",
    compare.recommend: "recommend out --largest-exposure 53 --least-accuracy 60",
    audit.verify: "verify report.html",
    train.demo: "demo --seeds 10",
    release.datasets: "datasets",
    audit.schema: "schema release > release.schema.json",
    train.receipt: "receipt out --record 1234",
    audit.version: "version",
}
MORE = ("datasets", "schema", "receipt", "version")  # verbs that are listed apart
# What an argument that the library asks for is called here.
FLAGS = {"positive_label": "--positive", "limits": "--largest-exposure 52"}
MOST_COMMON = (
    5  # options that a help page shows first: the first of the verb's function
)
QUIETLY = {
    "default": False,
    "expose_value": False,
    "callback": lambda on: on and QUIET.set(True),
}
# What to do next, for somebody who types pcer alone.
START = """A release file?     pcer audit m.release.json --html report.html
A model or a table? pcer train --help; pcer release --help
Nothing yet?        pcer demo, or pcer plan --help
Every verb:         pcer --help"""
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
        help="Audit who pays for privacy: who is easier to recognise, who is worse served, and "
        "whether the data can tell.",
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    made.callback(invoke_without_command=True)(_start)
    for verb, example in verbs.items():
        panel = "More" if verb.__name__ in MORE else None
        made.command(
            epilog=f"Example: pcer {example}", cls=Verb, rich_help_panel=panel
        )(verb)
    return made


def _start(
    ctx: typer.Context,
    version: bool = optional("Print the version.", "--version", default=False),
    quiet: bool = optional("No progress and no notes.", "--quiet", "-q", **QUIETLY),
) -> None:
    if version:
        audit.version()
    elif ctx.invoked_subcommand is None:
        typer.echo(START)


app = made_of(VERBS)


def main() -> None:
    """Run the command line; an error of pcer, or a signal, is one sentence and an exit code."""
    sys.stdout = steady(sys.stdout)
    sys.stderr = steady(sys.stderr)
    require_width()
    QUIET.set(False)
    try:
        listen()
        sys.exit(app(prog_name="pcer", standalone_mode=False))
    except PcerError as error:
        flag = FLAGS.get(error.field or "")
        sentence = str(error) + ("" if flag is None else f" Here that is {flag}.")
    except Stopped as stopped:
        stopped.tell()
        sys.exit(stopped.exit_code)
    except Exception as error:
        if hasattr(error, "format_message"):  # of the parser
            told = " ".join(error.format_message().split())
            ctx = getattr(error, "ctx", None)
            example = ctx and told.startswith("Missing") and ctx.command.epilog
            hint = example or f"Help: {ctx.command_path if ctx else app.info.name} -h"
            sentence = f"{told.replace('Value error, ', '').rstrip('.')} ({hint})."
        elif (lacking := what_lacks(error)) is None:
            raise
        else:
            free = "free some, raise the limit (ulimit), or ask for less at once"
            sentence = f"this machine gives no more {lacking}; {free}."
    progress.say(f"pcer: {sentence}", err=True)
    sys.exit(UNUSABLE)
