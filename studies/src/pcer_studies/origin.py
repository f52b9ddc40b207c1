"""From which study a page was made: size, commit, versions, whose data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pcer.report import markdown_text
from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, OUR_READING
from pcer_studies.results import Study

SHORT_COMMIT = 12
OTHER_DATA, OTHER_FEATURES = "†", "‡"
"""Marks of figures from records, or from features, that may not be the paper's."""


def origin(study: Study) -> str:
    """What was run, and with what, in a paragraph of Markdown."""
    seeds = sorted({len({r.seed for r in one.runs}) for one in study.releases.values()})
    told = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    missing = len(CONFIGURATIONS) - len(study.releases)
    part = f" ({missing} of the paper's are missing)" if missing else ""
    size = f"{len(study.releases)} configurations{part}, {len(BUDGETS)} budgets, {told} seeds each"
    return f"The study: {size}; {'; '.join(_made_with(study))}."


def data_notes(study: Study) -> list[str]:
    """Whose records and features they are, where not certainly the paper's, one line each."""
    others, readings = {}, {}
    for one in study.configurations:
        if note := study.data_note(one.dataset, one.attribute):
            others[one.title] = note
        elif one.dataset in OUR_READING:
            readings[one.title] = OUR_READING[one.dataset]
    return [
        *(f"{OTHER_DATA} {title}: {note}." for title, note in others.items()),
        *(f"{OTHER_FEATURES} {title}: {note}." for title, note in readings.items()),
    ]


def _made_with(study: Study) -> list[str]:
    datasets: Mapping[str, Any] = (study.settings or {}).get("datasets", {})
    environments = {
        json.dumps(made): made for one in datasets.values() for made in one.get("made_with", [])
    }
    if not environments:
        return sorted({_provenance(study, key) for key in study.releases})
    return [_environment(made) for made in environments.values()]


def _provenance(study: Study, key: tuple[str, str]) -> str:
    found = study.releases[key].provenance
    return _commit(found.pcer_version, found.source_commit, found.source_dirty)


def _environment(made: Mapping[str, Any]) -> str:
    own = ("pcer", "source_commit", "source_dirty")
    rest = [f"{name} {value}" for name, value in made.items() if name not in own and value]
    first = _commit(made.get("pcer"), made.get("source_commit"), made.get("source_dirty"))
    return ", ".join([first, *map(markdown_text, rest)])


def _commit(version: Any, commit: Any, dirty: Any) -> str:
    named = f"pcer {version}" if version else "a pcer of unknown version"
    if not commit:
        return markdown_text(f"{named}, commit not recorded")
    state = ", with changes not committed" if dirty else ""
    return markdown_text(f"{named}, commit {str(commit)[:SHORT_COMMIT]}{state}")
