"""What an audit can be turned into for people: a page, charts, data frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, Self

from pcer.release.format import Release, Shown

FrameOf = Literal["groups", "pairs", "settings", "costs"]


class ShownAudit(Shown):
    """An audit that remembers the release it is of, so that it can draw itself."""

    @cached_property
    def sources(self) -> list[Release]:
        """The release, then those that were judged together with it; empty where not known."""
        return []

    def with_sources(self, release: Release, family: Sequence[Release] = ()) -> Self:
        """The audit, which now knows what it is of; nothing in its file changes."""
        self.sources[:] = [release, *family]
        return self

    def to_frame(self, what: FrameOf = "groups", *, backend: str | None = None) -> Any:
        """The numbers as a data frame, a row for each of what is asked for.

        Nested fields are joined by ``_`` (``cost_value``, ``cost_interval_low``); no differential
        privacy is an infinite epsilon; lists of groups are joined by commas.

        Args:
            what: "groups" (in every setting), "pairs" (in every setting), "settings" or "costs".
            backend: "pandas", "polars" or "pyarrow"; the first of them that is installed if None.
        """
        return Shown.drawings().to_frame(self, what, backend)

    def plot(self, name: str) -> Any:
        """One chart of the page as an Altair chart; another name than one of them lists all."""
        return Shown.drawings().to_chart(self, name)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page, as ``pcer audit --html`` does: self-contained, and it can be verified."""
        Shown.drawings().save_page(self, path)
