"""The command line: each verb parses, calls one function and prints."""

from __future__ import annotations

import sys

import typer

from pcer.cli import audit, compare, plan, receipt, tables, train
from pcer.cli.machine import what_lacks
from pcer.cli.parts import UNUSABLE, say
from pcer.cli.plugins import VerbGroup
from pcer.cli.stop import Stopped, listen
from pcer.cli.streams import require_width, steady
from pcer.errors import PcerError

app = typer.Typer(
    name="pcer",
    cls=VerbGroup,
    help="Audit who pays for privacy: benefit and privacy cost per group, and whether the data "
    "can tell.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for add in (
    plan.register,
    audit.register,
    compare.register,
    audit.register_checks,
    tables.register,
    train.register,
    receipt.register,
):
    add(app)


def main() -> None:
    """Run the command line; anything pcer refuses is one sentence and exit code 2.

    So is a signal that stops it, with the code that shells give it.
    """
    sys.stdout, sys.stderr = steady(sys.stdout), steady(sys.stderr)
    require_width()
    try:
        listen()
        app()
    except PcerError as error:
        say(f"pcer: {error}", err=True)
        sys.exit(UNUSABLE)
    except Stopped as stopped:
        stopped.tell()
        sys.exit(stopped.exit_code)
    except Exception as error:
        if (lacking := what_lacks(error)) is None:
            raise
        say(
            f"pcer: this machine gives no more {lacking}; free some, raise the limit (ulimit), or "
            "ask for less at once.",
            err=True,
        )
        sys.exit(UNUSABLE)
