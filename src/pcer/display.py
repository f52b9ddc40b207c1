"""How do results show themselves in notebooks, terminals and files?

Releases, audits and every other result inherit from ``Shown``; audits also from
``ShownAudit``. The code that draws is in the room ``report``, which stands below all
that it draws. So this is the one file that imports downwards, and only inside methods:
``import pcer`` loads nothing that draws.

To let a new kind of result show itself, inherit from ``Shown`` and add its view to
``report/show.py``.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

from pcer.files import Record

if TYPE_CHECKING:
    from pcer.auditing.record import Audit

FrameOf = Literal["groups", "pairs", "settings", "attacks"]


class Shown(Record):
    """A record that displays itself: HTML in notebooks, text, one line in a list."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What the record is about, in a few words."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def __str__(self) -> str:
        from pcer.report import to_plain

        return to_plain(self)

    def _repr_html_(self) -> str:
        from pcer.report import to_notebook

        return to_notebook(self)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": str(self)}


class ShownOutlook(Shown):
    """An outlook, which also draws its curve."""

    def plot(self) -> Any:
        """The curve over splits, a picture as ``Audit.plot`` returns."""
        from pcer.report import to_chart

        return to_chart(cast("Any", self), "outlook")


class ShownAudit(Shown):
    """An audit in every other form: frames, numbers, cards, pictures, pages."""

    def to_frame(
        self,
        what: FrameOf = "groups",
        *,
        backend: str | None = None,
        full: bool = False,
    ) -> Any:
        """The numbers as a data frame, a row for each of what is asked for.

        Nested fields are joined by ``_`` (``exposure_value``,
        ``exposure_interval_low``); no differential privacy is an infinite epsilon;
        lists of groups are joined by commas.

        Args:
            what: "groups" (in every setting), "pairs" (in every setting), "settings" or
                "attacks".
            backend: "pandas", "polars" or "pyarrow"; the first of them that is
                installed if None.
            full: every number; otherwise the ten columns that most need.
        """
        from pcer.report import to_frame

        return to_frame(self._audit, what, backend, full=full)

    def metrics(self) -> dict[str, float]:
        """Flat numbers for MLflow, DVC or Prometheus; docs/integrations.md has names.

        ``pcer_exposure_max`` is the attacker's success of 100 (coin: 50) in the most
        exposed group of the setting that the headline is about. What is not known is
        left out.
        """
        from pcer.report import to_metrics

        return to_metrics(self._audit)

    def card(
        self, *, model: str | None = None, task: str = "tabular-classification"
    ) -> str:
        """Sections of a Hugging Face model card, with results as YAML front matter.

        Args:
            model: name of the model; by default the audit's, or the dataset's.
            task: the task by its name on the Hub.
        """
        from pcer.integrations.card import to_card

        return to_card(self._audit, model=model, task=task)

    def plot(self, name: str | None = None) -> Any:
        """Its card: headline, six answers, pictures; it has ``save(path)``.

        A picture is an SVG. It saves as ``*.svg``, and with the extra ``figures`` as
        ``*.png`` and ``*.pdf``.

        Args:
            name: "figure1" (the paper's, by the gap) or "attacks" (exposure by every
                attack) instead; an unknown name lists them.
        """
        from pcer.report import to_chart

        return to_chart(self._audit, name)

    def paper(self) -> Any:
        """The paper's view alone, by the overfitting gap, with ``to_latex()``."""
        from pcer.report import PaperView

        return PaperView(self._audit)

    def norms(self) -> Any:
        """Which setting each norm of fairness prefers: ``docs/norms.md``.

        A list of norms, each with ``key``, ``name``, ``numbers`` (one for each
        setting), ``answer``, ``settings`` and ``why``; shows itself as one table.
        """
        from pcer.report import NormsView

        return NormsView(self._audit)

    def opinion(
        self,
        *,
        date: str | None = None,
        auditor: str | None = None,
        addressee: str | None = None,
    ) -> str:
        """The auditor's opinion as Markdown, as ``pcer audit --opinion`` writes it.

        Args:
            date: such as "2026-11-19"; no clock is read.
            auditor: who gives the opinion.
            addressee: whom it is for.
        """
        from pcer.report import signed_by, to_opinion

        return to_opinion([self._audit], signed_by(date, auditor, addressee))

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page, as ``pcer audit --html`` does: self-contained, verifiable."""
        from pcer.report import save_page

        save_page(self._audit, path)

    @property
    def _audit(self) -> Audit:
        """The audit that this is a part of: ``Audit`` inherits from it."""
        return cast("Audit", self)
