"""A study's folder, read: releases, what was run, and audits of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pcer.auditing.audit import audit, judge_tested, run_tests
from pcer.auditing.record import Audit, BudgetResult
from pcer.errors import InputError
from pcer.files import read_json
from pcer.measuring.evidence import Tested
from pcer.measuring.plan import Plan
from pcer.release import attack_kinds
from pcer.release.file import Release
from pcer.release.panel import Panel, panels
from pcer.release.reading import read_release
from pcer.report.formats.markdown import markdown_text
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    NOT_THE_PAPERS_DATA,
    OUR_READING,
    PAPER_RECORDS,
    SECOND_READINGS,
    Configuration,
    configuration,
)

STUDY_FILE = "study.json"
NEARLY = 0.01
"""A dataset whose size is this close to the paper's, in proportion, is taken for the same."""

GAP = attack_kinds.GAP.name
AUC = attack_kinds.AUC_ADVANTAGE.name
"""The paper's two costs: the gap, and what its threshold attack finds."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Study:
    """The releases of a study; what is made of them is made when first asked for, and kept.

    Attributes:
        folder: where it lies.
        releases: by (dataset, attribute), in the paper's order.
        settings: what ``study.json`` says, or None without one.
        second: the second reading of some of the configurations, by the same keys.
    """

    folder: Path
    releases: Mapping[tuple[str, str], Release]
    settings: Mapping[str, Any] | None
    second: Mapping[tuple[str, str], Release] = field(default_factory=dict)
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Study:
        """Read the paper's configurations that a folder holds; other files are left alone.

        Raises:
            InputError: no folder, none of the configurations, or a file that is not
                what its name says.
        """
        place = Path(folder)
        if not place.is_dir():
            raise InputError(
                f"{place} is not a folder; name one that holds a study's releases."
            )
        found = _releases(place, CONFIGURATIONS)
        if not found:
            raise InputError(
                f"{place} holds no release of the study (such as "
                f"{CONFIGURATIONS[0].file_name}); run pcer reproduce first, or name "
                "another folder."
            )
        return cls(
            folder=place,
            releases=found,
            settings=_settings(place / STUDY_FILE),
            second=_second(place),
        )

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """What the study has, in the paper's order."""
        return tuple(
            one
            for one in CONFIGURATIONS
            if (one.dataset, one.attribute) in self.releases
        )

    @property
    def is_complete(self) -> bool:
        """Whether all six configurations are there."""
        return len(self.releases) == len(CONFIGURATIONS)

    @cached_property
    def closest(self) -> Study | None:
        """The study with Adult in its second reading; None where that was not trained."""
        if not self.second:
            return None
        return replace(
            self, releases={**self.releases, **self.second}, second={}, _kept={}
        )

    def has(self, dataset: str, attribute: str) -> bool:
        """Whether the study has this configuration."""
        return (dataset, attribute) in self.releases

    def release(self, dataset: str, attribute: str) -> Release:
        """The release of a configuration; InputError where the study has none."""
        try:
            return self.releases[dataset, attribute]
        except KeyError:
            raise InputError(
                f"{self.folder} has no release of {dataset} ({attribute}); run pcer "
                f"reproduce --dataset {dataset} into this folder."
            ) from None

    def audit(self, dataset: str, attribute: str, cost: str = GAP) -> Audit:
        """The audit of a configuration by the default plan, with another cost if asked for."""

        def make() -> Audit:
            tested = self._tested(self.release(dataset, attribute))
            plan = Plan(cost=cost)
            if cost not in tested.tests:
                return audit(tested.release, plan)  # which says that it is missing
            return next(judge_tested([replace(tested, plan=plan, attacks=(cost,))]))

        return self.keep(("audit", dataset, attribute, cost), make)

    @property
    def verdicts(self) -> Mapping[tuple[str, str], Audit]:
        """The audits as ``pcer audit`` makes them: one family for each dataset."""

        def make() -> dict[tuple[str, str], Audit]:
            keys = [(one.dataset, one.attribute) for one in self.configurations]
            tested = [self._tested(self.releases[key]) for key in keys]
            return dict(zip(keys, judge_tested(tested), strict=True))

        return self.keep("verdicts", make)

    def budget(
        self, dataset: str, attribute: str, epsilon: float, cost: str = GAP
    ) -> BudgetResult:
        """One budget of an audit; infinity is no differential privacy."""
        for found in self.audit(dataset, attribute, cost).budgets:
            if found.budget == epsilon:
                return found
        raise self._without_models(dataset, attribute, epsilon)

    def panel(self, dataset: str, attribute: str, epsilon: float) -> Panel:
        """All models of one budget as arrays; infinity is no differential privacy."""
        for panel in panels(self.release(dataset, attribute)):
            if panel.epsilon == epsilon:
                return panel
        raise self._without_models(dataset, attribute, epsilon)

    def _tested(self, release: Release) -> Tested:
        """A release by every test, which audits by all costs share."""
        return self.keep(("tested", release.sha256), lambda: run_tests(release, Plan()))

    def keep(self, name: Hashable, make: Callable[[], Kept]) -> Kept:
        """What ``make`` gives, made once."""
        if name not in self._kept:
            self._kept[name] = make()
        made: Kept = self._kept[name]
        return made

    def _without_models(
        self, dataset: str, attribute: str, epsilon: float
    ) -> InputError:
        return InputError(
            f"{self.folder}: the release of {dataset} ({attribute}) has no models of "
            f"epsilon {epsilon:g}; train all budgets of the paper."
        )

    def data_note(self, dataset: str, attribute: str) -> str | None:
        """How the records differ from the paper's; None where they are the paper's."""
        release = self.release(dataset, attribute)
        paper = PAPER_RECORDS[dataset]
        ours = release.subject.n_records
        if dataset == "bios" and ours is not None and abs(ours / paper - 1) <= NEARLY:
            return None
        return NOT_THE_PAPERS_DATA.get(dataset)

    def size_note(self, dataset: str, attribute: str) -> str:
        """Our number of records beside the paper's, in words."""
        ours = self.release(dataset, attribute).subject.n_records
        told = "an unknown number of" if ours is None else f"{ours:,}"
        paper = PAPER_RECORDS[dataset]
        title = configuration(dataset, attribute).title
        if ours == paper:
            return f"our {told} records of {title} are another draw than the paper's"
        return f"our {title} has {told} records, the paper's {paper:,}"


def _releases(
    place: Path, configurations: Iterable[Configuration]
) -> dict[tuple[str, str], Release]:
    """The releases that are there."""
    return {
        (one.dataset, one.attribute): _release(place / one.file_name, one)
        for one in configurations
        if (place / one.file_name).exists()
    }


def _second(place: Path) -> dict[tuple[str, str], Release]:
    """Releases of second readings, under the keys in whose place they can be read."""
    wanted = [
        replace(one, dataset=name)
        for name, papers in SECOND_READINGS.items()
        for one in CONFIGURATIONS
        if one.dataset == papers
    ]
    found = _releases(place, wanted)
    return {
        (SECOND_READINGS[name], attribute): one
        for (name, attribute), one in found.items()
    }


def _release(path: Path, expected: Configuration) -> Release:
    release = read_release(path)
    subject = release.subject
    found = (subject.dataset, subject.attribute, tuple(subject.groups))
    if found != (expected.dataset, expected.attribute, expected.groups):
        raise InputError(
            f"{path}: subject must be {expected.dataset} ({expected.attribute}) with "
            f"the groups {', '.join(expected.groups)} in this order, but is "
            f"{subject.dataset} ({subject.attribute}) with "
            f"{', '.join(subject.groups)}; put the right release there."
        )
    if release.training.split_kind != "random":
        raise InputError(
            f"{path}: training.split_kind must be 'random', as in the paper's "
            f"protocol, but is {release.training.split_kind!r}; put a release there "
            "that pcer reproduce trained."
        )
    return release


def _settings(path: Path) -> Mapping[str, Any] | None:
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found, dict):
        raise InputError(
            f"{path} must hold one object; write it again with pcer reproduce."
        )
    if not isinstance(found.get("datasets", {}), dict):
        raise InputError(
            f"{path}: datasets must be an object; write it with pcer reproduce."
        )
    return found


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
    others = {}
    readings = {}
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
        json.dumps(made): made
        for one in datasets.values()
        for made in one.get("made_with", [])
    }
    if not environments:
        return sorted({_provenance(study, key) for key in study.releases})
    return [_environment(made) for made in environments.values()]


def _provenance(study: Study, key: tuple[str, str]) -> str:
    found = study.releases[key].provenance
    return _commit(found.pcer_version, found.source_commit, found.source_dirty)


def _environment(made: Mapping[str, Any]) -> str:
    own = ("pcer", "source_commit", "source_dirty")
    rest = [
        f"{name} {value}" for name, value in made.items() if name not in own and value
    ]
    first = _commit(
        made.get("pcer"), made.get("source_commit"), made.get("source_dirty")
    )
    return ", ".join([first, *map(markdown_text, rest)])


def _commit(version: Any, commit: Any, dirty: Any) -> str:
    named = f"pcer {version}" if version else "a pcer of unknown version"
    if not commit:
        return markdown_text(f"{named}, commit not recorded")
    state = ", with changes not committed" if dirty else ""
    return markdown_text(f"{named}, commit {str(commit)[:SHORT_COMMIT]}{state}")
