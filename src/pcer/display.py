"""How do results show themselves in notebooks and terminals?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from pcer.files import Record


class Shown(Record):
    """A record that displays itself: HTML in notebooks, a few lines of text, one line in a list.

    The code that draws it is in the report room, which this room must not import.
    """

    # Loads the code that draws when the first record is displayed; set by the package.
    drawings: ClassVar[Callable[[], Any]]

    @property
    @abstractmethod
    def title(self) -> str:
        """What the record is about, in a few words."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        return str(Shown.drawings().to_plain(self))

    def _repr_html_(self) -> str:
        return str(Shown.drawings().to_notebook(self))

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": str(self)}
