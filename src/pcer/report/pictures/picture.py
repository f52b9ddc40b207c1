"""How does a picture show itself, and how is it saved as SVG, PNG or PDF?

``Audit.plot`` and ``Outlook.plot`` return a ``Picture``; ``--figures`` writes
``files_of``. PNG and PDF need vl-convert (extra ``figures``), everything else nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pcer.errors import InputError, not_installed
from pcer.files import write_files
from pcer.report.pictures.axis import LIGHT

FORMATS = ("svg", "png", "pdf")
PNG_SCALE = 2.0  # pixels of the PNG for one of the picture
# Attributes only: in a text every quotation mark is escaped.
ROLE = re.compile(r'="var\(--[a-z0-9-]+, (#[0-9a-f]+)\)"')
STYLE = re.compile(r"<style>.*?</style>\n")
WHITE = '<rect width="100%" height="100%" fill="#fff"/>\n'


class Picture:
    """An SVG that displays itself, and can be saved."""

    def __init__(self, title: str, svg: str, name: str) -> None:
        self.title = title
        self.name = name
        self._svg = svg

    def __repr__(self) -> str:
        return f"<Picture: {self.title}; save('{self.name}.svg') writes it>"

    def _repr_svg_(self) -> str:
        return self._svg

    _repr_html_ = _repr_svg_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as ``*.svg``, ``*.png`` or ``*.pdf``; the last two on white."""
        kind = Path(path).suffix.lower().removeprefix(".")
        if kind not in FORMATS:
            raise InputError(
                f"{os.fspath(path)}: a picture is an SVG, a PNG or a PDF; name it "
                "*.svg, *.png or *.pdf.",
                field="path",
            )
        if kind == "svg":
            write_files({path: self._svg})
        else:
            write_files({path: _converted(printable_svg(self._svg), kind)})


def files_of(stem: str, svg: str) -> dict[str, bytes]:
    """A picture for papers in every format, by file name."""
    plain = printable_svg(svg)
    return {
        f"{stem}.svg": plain.encode(),
        f"{stem}.png": _converted(plain, "png"),
        f"{stem}.pdf": _converted(plain, "pdf"),
    }


def printable_svg(svg: str) -> str:
    """A picture in plain light colours on white, for programs without style sheets.

    >>> printable_svg('<title>a</title><path fill="var(--ink, #1f2933)"/>')
    '<title>a</title><path fill="#1f2933"/>'
    """
    plain = ROLE.sub(r'="\1"', svg)
    plain = plain.replace('="currentColor"', f'="{LIGHT["ink"]}"')
    plain = plain.replace('font-weight="650"', 'font-weight="700"')
    return STYLE.sub(WHITE, plain, count=1)


def _converted(svg: str, kind: str) -> bytes:
    """The picture as PNG or PDF."""
    try:
        import vl_convert
    except ImportError:
        raise not_installed(
            "vl-convert", extra="figures", needed_by=f"a picture as {kind.upper()}"
        ) from None
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
