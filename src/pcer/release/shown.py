"""Records that people look at: what a notebook and a terminal show of them.

What draws them lies in a room below, which this room must not know. The package knows both, and
says with ``Shown.drawn_by`` how to load the drawing; nothing is loaded before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pcer.files import Record


class Drawings(Protocol):
    """What draws: the front of the report."""

    def to_notebook(self, shown: Any) -> str:
        """Small HTML."""

    def to_plain(self, shown: Any) -> str:
        """A few lines."""

    def to_chart(self, audit: Any, name: str) -> Any:
        """One chart of an audit, or that of an outlook."""

    def to_frame(self, audit: Any, what: str, backend: str | None) -> Any:
        """Numbers of an audit as a data frame."""

    def save_page(self, audit: Any, path: Any) -> None:
        """The page of an audit, as a file."""


class Shown(Record):
    """A record with a face: small HTML in notebooks, a few lines elsewhere, one line in a list."""

    drawings: ClassVar[Callable[[], Drawings]]
    """Loads what draws."""

    @staticmethod
    def drawn_by(load: Callable[[], Drawings]) -> None:
        """Say how to load what draws, once for all such records."""
        Shown.drawings = load

    @property
    def title(self) -> str:
        """What it is, in few words; they are other people's."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        return Shown.drawings().to_plain(self)

    def _repr_html_(self) -> str:
        return Shown.drawings().to_notebook(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": str(self)}
