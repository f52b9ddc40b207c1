"""What does group clipping reach, and at what accuracy? The page of that study.

The paper leaves open whether training can lower the disparity ("Limitations").
``python -m pcer_studies.clipping studies/clipping studies/docs`` audits the releases of
the first folder, which ``pcer train`` made with a grid of rules, and writes
``group-clipping.md`` into the second. To add a dataset: its release in the folder.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

import pcer
from pcer.auditing.record import Audit, SettingResult
from pcer.files import write_files
from pcer.measuring.plan import Plan
from pcer.paper.norms import Norm
from pcer.report.formats.markdown import to_markdown
from pcer.report.table import Table
from pcer.wording import decimals, listed, signed

PAGE = "group-clipping.md"
PLAIN = "dp-sgd"
RULE = "rule "  # how a grid names the models of a rule


@dataclass(frozen=True)
class Point:
    """One setting: its accuracy of 100, and how far it is from 0 by two norms."""

    setting: SettingResult
    accuracy: float
    apart: float  # exposures
    disparity: float

    @property
    def rule(self) -> str:
        """What was clipped."""
        model = self.setting.model or PLAIN
        return model.removeprefix(RULE).removeprefix("group-clip:").split(":")[-1]


def main(arguments: Sequence[str]) -> int:
    """Write the page: from the first folder into the second."""
    source, target = map(Path, arguments)
    write_files({target / PAGE: clipping_page(source)})
    return 0


def clipping_page(folder: Path) -> str:
    """The page of all releases of a folder: the same releases give the same bytes."""
    texts = _texts()
    parts = [texts["introduction"].strip()]
    for path in sorted(folder.glob("*.release.json")):
        parts += _section(pcer.audit(pcer.read_release(path), Plan()))
    parts.append(texts["conclusion"].strip())
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _texts() -> dict[str, str]:
    file = resources.files("pcer_studies").joinpath("clipping.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _section(audit: Audit) -> list[str]:
    norms = {norm.key: norm for norm in audit.norms()}
    points = _points(audit, norms)
    title = f"## {audit.subject.dataset}: {audit.subject.attribute}"
    table = to_markdown(_table(audit, norms, points))
    return [title, _account(points, norms), table]


def _points(audit: Audit, norms: dict[str, Norm]) -> list[Point]:
    apart = norms["attack_apart"].numbers
    disparity = norms["compensation"].numbers
    points = []
    for number, setting in enumerate(audit.settings):
        points.append(
            Point(
                setting=setting,
                accuracy=100 * (setting.accuracy.mean or 0.0),
                apart=abs(apart[number].value or 0.0),
                disparity=abs(disparity[number].value or 0.0),
            )
        )
    return points


def on_front(points: Sequence[Point], measure: str) -> list[bool]:
    """Whether no other point is at least as good in both, and better in one."""
    good = np.array([(-point.accuracy, getattr(point, measure)) for point in points])
    is_as_good = (good[:, None] <= good[None]).all(axis=2)
    is_better = (good[:, None] < good[None]).any(axis=2)
    is_beaten: list[bool] = np.any(is_as_good & is_better, axis=0).tolist()
    return [not beaten for beaten in is_beaten]


def _table(audit: Audit, norms: dict[str, Norm], points: Sequence[Point]) -> Table:
    first, second = audit.subject.groups
    fronts = {
        "exposure": on_front(points, "apart"),
        "Δ PCER": on_front(points, "disparity"),
    }
    rows = []
    for number, point in enumerate(points):
        exposures = [group.exposure.value for group in point.setting.groups.values()]
        rows.append(
            (
                point.rule,
                point.setting.name.short.split(", ")[-1],
                _with_spread(point.setting),
                " / ".join(decimals(100 * (value or 0.0), 2) for value in exposures),
                _interval(norms["attack_apart"], number),
                _interval(norms["parity"], number),
                _signed_interval(norms["compensation"], number),
                listed([name for name, inside in fronts.items() if inside[number]]),
            )
        )
    heads = (
        "clipped",
        "ε",
        "accuracy, of 100",
        f"exposure, {first} / {second}",
        "exposures apart",
        "outcomes apart, points",
        "Δ PCER",
        "on the front of",
    )
    return Table("Every setting", heads, tuple(rows), 2)


def _with_spread(setting: SettingResult) -> str:
    accuracy = setting.accuracy
    return f"{100 * (accuracy.mean or 0.0):.2f} ± {100 * (accuracy.std or 0.0):.2f}"


def _interval(norm: Norm, number: int) -> str:
    found = norm.numbers[number]
    if found.value is None or found.interval is None:
        return "–"
    low, high = (decimals(100 * end, 2) for end in found.interval)
    return f"{decimals(100 * found.value, 2)} [{low}, {high}]"


def _signed_interval(norm: Norm, number: int) -> str:
    found = norm.numbers[number]
    if found.value is None or found.interval is None:
        return "–"
    low, high = map(signed, found.interval)
    return f"{signed(found.value)} [{low}, {high}]"


def _account(points: Sequence[Point], norms: dict[str, Norm]) -> str:
    """Which rule brings exposures nearest at each epsilon, and what it costs."""
    sentences = []
    for epsilon in sorted({point.setting.budget for point in points}):
        here = [point for point in points if point.setting.budget == epsilon]
        if len(here) > 1:
            sentences.append(_best_of(here))
    for key in ("attack_apart", "compensation"):
        norm = norms[key]
        if norm.answer == "cannot_tell":
            answer = "cannot be asked"
        else:
            answer = f"{norm.answer}: {listed([x.full for x in norm.settings])}"
        sentences.append(f"Norm “{norm.name}”, {norm.measure}: {answer}.")
    return " ".join(sentences)


def _best_of(points: Sequence[Point]) -> str:
    (plain,) = [point for point in points if point.rule == PLAIN]
    nearest = min(points, key=lambda point: point.apart)
    lowest = min(points, key=lambda point: point.disparity)
    cost = plain.accuracy - nearest.accuracy
    return (
        f"At ε = {plain.setting.budget:g} exposures are nearest with {nearest.rule} "
        f"({100 * nearest.apart:.2f} apart, {100 * plain.apart:.2f} by DP-SGD), at "
        f"{cost:.2f} points less accuracy; |Δ PCER| is smallest with {lowest.rule} "
        f"({lowest.disparity:.0f}, {plain.disparity:.0f} by DP-SGD), at "
        f"{plain.accuracy - lowest.accuracy:.2f} points less."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
