"""The charts of an audit as SVG, PNG and PDF files, for papers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pcer.auditing import Audit
from pcer.errors import not_installed
from pcer.files import as_shown
from pcer.release import Release
from pcer.report.charts import charts
from pcer.report.marks import PALETTE, Spec, config
from pcer.report.rows import chart_data

VEGA_LITE = "6.4"
"""The Vega-Lite that specifications are written for, in vl-convert's spelling."""

WIDTH = 380
SCALE = 2.0
LONGEST_NAME = 60
COLOUR_FIELD = re.compile(r"(?i)(range|color|fill|stroke)$")
VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")


def draw_figures(audits: Sequence[Audit], releases: Sequence[Release]) -> dict[str, bytes]:
    """File contents by file name; same input, same bytes."""
    files: dict[str, bytes] = {}
    pairs = zip(map(as_shown, audits), map(as_shown, releases), strict=True)
    for number, (audit, release) in enumerate(pairs, start=1):
        prefix = f"{number:02d}-" if len(audits) > 1 else ""
        for name, spec in figure_specs(audit, release).items():
            stem = f"{prefix}{file_name(audit)}-{name}"
            files |= {f"{stem}.{kind}": data for kind, data in drawn(spec).items()}
    return files


def figure_specs(audit: Audit, release: Release) -> dict[str, Spec]:
    """Complete specifications by name; the first two charts stand side by side as one figure."""
    rows = chart_data(audit, release)
    single = {chart.name: _sized(chart.spec) for chart in charts(audit, rows)}
    params = single["disparity"].pop("params")
    apart = {"scale": {"color": "independent", "shape": "independent", "xOffset": "independent"}}
    halves = [single["disparity"], single.pop("outcomes")]
    pair: Spec = {"hconcat": halves, "params": params, "resolve": apart}
    for part in pair["hconcat"]:
        part.pop("params", None)
    named = {
        "figure1": pair,
        **{name: spec for name, spec in single.items() if name != "disparity"},
    }
    return {name: complete(spec, rows) for name, spec in named.items()}


def file_name(audit: Audit) -> str:
    """Dataset and attribute in letters that any file system takes.

    >>> re.sub(r"[^a-z0-9]+", "-", "COMPAS, forest race".lower())
    'compas-forest-race'
    """
    words = f"{audit.subject.dataset} {audit.subject.attribute}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:LONGEST_NAME] or "release"


def _sized(spec: Spec) -> Spec:
    fixed = {key: value for key, value in spec.items() if key not in ("background", "autosize")}
    return {**fixed, "width": WIDTH} if spec.get("width") == "container" else fixed


def complete(spec: Spec, rows: dict[str, Any]) -> Spec:
    """Add the rows, and write the light colours for the page's variables."""
    look = _light(config())
    return {**_light(spec), "config": look, "background": "white", "datasets": rows}


def _light(tree: Any, *, field: str = "") -> Any:
    """The tree with light colours for variables, where a colour stands: a group may be named so."""
    if isinstance(tree, dict):
        return {name: _light(value, field=name) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_light(value, field=field) for value in tree]
    is_colour = isinstance(tree, str) and COLOUR_FIELD.search(field)
    named = VARIABLE.fullmatch(tree) if is_colour else None
    return PALETTE[named[1]][0] if named else tree


def drawn(spec: Spec) -> dict[str, bytes]:
    """The figure in every format, by its ending."""
    try:
        import vl_convert
    except ImportError:
        raise not_installed("vl-convert", extra="figures", needed_by="drawing figures") from None
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return {
        "svg": svg.encode(),
        "png": vl_convert.svg_to_png(svg, scale=SCALE),
        "pdf": vl_convert.svg_to_pdf(svg),
    }
