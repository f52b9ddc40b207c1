"""Verbs that other distributions bring, found by their entry points and loaded when asked for.

A distribution names a function ``register(app: typer.Typer)`` under the group ``pcer.verbs``; the
entry point's name is the verb. One that cannot be loaded costs its own verb only, and none can
take the place of a verb of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint, distributions
from typing import Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperGroup

from pcer.errors import InputError

GROUP = "pcer.verbs"
ELSEWHERE = {
    "reproduce": (
        "pcer reproduce comes with the study, which is not installed; in a clone of pcer run: "
        'pip install ".[train]" ./studies'
    )
}
"""Verbs of our own distributions, and what to do where they are missing."""


class VerbGroup(TyperGroup):
    """The command line's own verbs, and below them those of other distributions."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help page."""
        own = list(super().list_commands(ctx))
        return own + [name for name in sorted({*_found(), *ELSEWHERE}) if name not in own]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb by name; None where nobody brings it."""
        if own := super().get_command(ctx, cmd_name):
            return own
        if point := _found().get(cmd_name):
            return _loaded(point)
        return _refusing(cmd_name, ELSEWHERE[cmd_name]) if cmd_name in ELSEWHERE else None


def _found() -> dict[str, EntryPoint]:
    """Entry points by verb; of two the first on the path, and none of unreadable metadata."""
    found: dict[str, EntryPoint] = {}
    for one in distributions():
        with suppress(Exception):
            for point in one.entry_points.select(group=GROUP):
                found.setdefault(point.name, point)
    return found


def _loaded(point: EntryPoint) -> Any:
    """The verb of an entry point; one that only says why, where it cannot be loaded."""
    try:
        register: Callable[[typer.Typer], None] = point.load()
        app = typer.Typer(add_completion=False)
        register(app)
        return typer.main.get_command(app)
    except (Exception, SystemExit) as error:
        brought_by = point.dist.name if point.dist else point.value
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return _refusing(
            point.name,
            f"pcer {point.name} cannot be loaded from {brought_by} ({reason}); install it again, "
            "or uninstall it.",
        )


def _refusing(verb: str, sentence: str) -> Any:
    """A verb that only says why it is not there."""
    app = typer.Typer(add_completion=False)

    @app.command(
        verb,
        help=escape(sentence),
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def refuse() -> NoReturn:
        raise InputError(sentence)

    return typer.main.get_command(app)
