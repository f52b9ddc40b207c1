"""Verbs that other distributions bring, found by their entry points and loaded when asked for.

A distribution names a function ``register(app: typer.Typer)`` under the group ``pcer.verbs``; the
entry point's name is the verb. One that cannot be loaded costs its own verb only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from pcer.errors import InputError

GROUP = "pcer.verbs"
ELSEWHERE = {
    "reproduce": (
        "pcer reproduce comes with the study, which is not installed; in a clone of the "
        'repository run: pip install ".[train]" ./studies'
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
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> Any:
    try:
        register: Callable[[typer.Typer], None] = point.load()
        app = typer.Typer(add_completion=False)
        register(app)
        return typer.main.get_command(app)
    except Exception as error:
        brought_by = point.dist.name if point.dist else point.value
        return _refusing(
            point.name,
            f"pcer {point.name} cannot be loaded from {brought_by} ({error}); install it again, or "
            "uninstall it.",
        )


def _refusing(verb: str, sentence: str) -> Any:
    """A verb that only says why it is not there."""
    app = typer.Typer(add_completion=False)

    @app.command(verb, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def refuse() -> NoReturn:
        """Not installed."""
        raise InputError(sentence)

    return typer.main.get_command(app)
