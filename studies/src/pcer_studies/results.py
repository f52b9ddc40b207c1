"""What does a study's folder hold, and what do its audits say?

``Study`` reads the releases and ``study.json``, and audits when first asked; tables,
claims and pages all take their numbers from it. ``origin`` and ``data_notes`` say in
words what was run and on whose records. To add what is read: a method of ``Study``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pcer.auditing.audit import audit, judge_tested
from pcer.auditing.record import Audit, SettingResult
from pcer.errors import InputError
from pcer.files import read_json
from pcer.measuring.plan import Plan
from pcer.measuring.tested import Tested, run_tests
from pcer.release import attack_kinds
from pcer.release.file import Release, read_release
from pcer.release.panel import Panel, panels
from pcer.report.formats.markdown import markdown_text
from pcer_studies import protocol
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    NOT_THE_PAPERS_DATA,
    OUR_READING,
    PAPER_RECORDS,
    SECOND_READINGS,
    Configuration,
)

STUDY_FILE = "study.json"
NEARLY = 0.01
"""A dataset is taken for the paper's if their sizes differ by this share at most."""

GAP = attack_kinds.GAP.name
AUC = attack_kinds.AUC_ADVANTAGE.name
"""The paper's two costs: the gap, and what its threshold attack finds."""

Cached = TypeVar("Cached")


@dataclass(frozen=True)
class Study:
    """The releases of a study.

    What follows from them is made when first asked for, and kept.

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
    _cached: dict[Hashable, Any] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Study:
        """Read the paper's configurations that a folder holds.

        Other files are left alone.

        Raises:
            InputError: no folder, none of the configurations, or a file that is not
                what its name says.
        """
        path = Path(folder)
        if not path.is_dir():
            raise InputError(
                f"{path} is not a folder; name one that holds a study's releases."
            )
        releases = _releases(path, CONFIGURATIONS)
        if not releases:
            raise InputError(
                f"{path} holds no release of the study (such as "
                f"{CONFIGURATIONS[0].file_name}); run pcer reproduce first, or name "
                "another folder."
            )
        return cls(
            folder=path,
            releases=releases,
            settings=_settings(path / STUDY_FILE),
            second=_second_readings(path),
        )

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """What the study has, in the paper's order."""
        return tuple(known for known in CONFIGURATIONS if known.key in self.releases)

    @property
    def is_complete(self) -> bool:
        """Whether all six configurations are there."""
        return len(self.releases) == len(CONFIGURATIONS)

    @cached_property
    def closest(self) -> Study | None:
        """The study with Adult in its second reading; None where not trained."""
        if not self.second:
            return None
        releases = {**self.releases, **self.second}
        return replace(self, releases=releases, second={}, _cached={})

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

    def audit(self, dataset: str, attribute: str, attack: str = GAP) -> Audit:
        """The audit of a configuration by the default plan and one attack."""

        def make() -> Audit:
            tested = self._tested(self.release(dataset, attribute))
            plan = Plan(attack=attack)
            if attack not in tested.tests:
                return audit(tested.release, plan)  # which says that it is missing
            return next(judge_tested([replace(tested, plan=plan, attacks=(attack,))]))

        return self.keep(("audit", dataset, attribute, attack), make)

    @property
    def verdicts(self) -> Mapping[tuple[str, str], Audit]:
        """The audits as ``pcer audit`` makes them: one family for each dataset."""

        def make() -> dict[tuple[str, str], Audit]:
            keys = [configuration.key for configuration in self.configurations]
            tested = [self._tested(self.releases[key]) for key in keys]
            return dict(zip(keys, judge_tested(tested), strict=True))

        return self.keep("verdicts", make)

    def setting(
        self, dataset: str, attribute: str, epsilon: float, attack: str = GAP
    ) -> SettingResult:
        """One budget of an audit; infinity is no differential privacy."""
        for result in self.audit(dataset, attribute, attack).settings:
            if result.budget == epsilon:
                return result
        raise self._without_models(dataset, attribute, epsilon)

    def panel(self, dataset: str, attribute: str, epsilon: float) -> Panel:
        """All models of one budget as arrays; infinity is no differential privacy."""
        for panel in panels(self.release(dataset, attribute)):
            if panel.epsilon == epsilon:
                return panel
        raise self._without_models(dataset, attribute, epsilon)

    def _tested(self, release: Release) -> Tested:
        """A release by every test, which audits by all attacks share."""
        return self.keep(("tested", release.sha256), lambda: run_tests(release, Plan()))

    def keep(self, name: Hashable, make: Callable[[], Cached]) -> Cached:
        """What ``make`` gives, made once."""
        if name not in self._cached:
            self._cached[name] = make()
        cached: Cached = self._cached[name]
        return cached

    def _without_models(
        self, dataset: str, attribute: str, epsilon: float
    ) -> InputError:
        return InputError(
            f"{self.folder}: the release of {dataset} ({attribute}) has no models of "
            f"epsilon {epsilon:g}; train all budgets of the paper."
        )

    def data_note(self, dataset: str, attribute: str) -> str | None:
        """How the records differ from the paper's; None where they are the paper's."""
        n_ours = self.release(dataset, attribute).subject.n_records
        n_papers = PAPER_RECORDS[dataset]
        is_same_size = n_ours is not None and abs(n_ours / n_papers - 1) <= NEARLY
        if dataset == "bios" and is_same_size:
            return None
        return NOT_THE_PAPERS_DATA.get(dataset)

    def size_note(self, dataset: str, attribute: str) -> str:
        """Our number of records beside the paper's, in words."""
        n_ours = self.release(dataset, attribute).subject.n_records
        size = "an unknown number of" if n_ours is None else f"{n_ours:,}"
        n_papers = PAPER_RECORDS[dataset]
        title = protocol.configuration(dataset, attribute).title
        if n_ours == n_papers:
            return f"our {size} records of {title} are another draw than the paper's"
        return f"our {title} has {size} records, the paper's {n_papers:,}"


def _releases(
    folder: Path, wanted: Iterable[Configuration]
) -> dict[tuple[str, str], Release]:
    """The wanted releases that the folder holds."""
    releases = {}
    for expected in wanted:
        path = folder / expected.file_name
        if path.exists():
            releases[expected.key] = _release(path, expected)
    return releases


def _second_readings(folder: Path) -> dict[tuple[str, str], Release]:
    """Releases of second readings, under the keys in whose place they can be read."""
    releases = {}
    for reading, papers in SECOND_READINGS.items():
        wanted = [
            replace(known, dataset=reading)
            for known in CONFIGURATIONS
            if known.dataset == papers
        ]
        for (_, attribute), release in _releases(folder, wanted).items():
            releases[papers, attribute] = release
    return releases


def _release(path: Path, expected: Configuration) -> Release:
    """The release at a path; InputError where it is not what its name says."""
    release = read_release(path)
    subject = release.subject
    described = (subject.dataset, subject.attribute, tuple(subject.groups))
    if described != (*expected.key, expected.groups):
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
    """What ``study.json`` holds; None where there is none."""
    if not path.exists():
        return None
    record = read_json(path)
    if not isinstance(record, dict):
        raise InputError(
            f"{path} must hold one object; write it again with pcer reproduce."
        )
    if not isinstance(record.get("datasets", {}), dict):
        raise InputError(
            f"{path}: datasets must be an object; write it with pcer reproduce."
        )
    return record


SHORT_COMMIT = 12
OTHER_DATA, OTHER_FEATURES = "†", "‡"
"""Marks of figures from records, or from features, that may not be the paper's."""


def origin(study: Study) -> str:
    """What was run, and with what, in a paragraph of Markdown."""
    n_missing = len(CONFIGURATIONS) - len(study.releases)
    missing = f" ({n_missing} of the paper's are missing)" if n_missing else ""
    size = (
        f"{len(study.releases)} configurations{missing}, {len(BUDGETS)} budgets, "
        f"{_seeds_of_releases(study)} seeds each"
    )
    return f"The study: {size}; {'; '.join(_made_with(study))}."


def data_notes(study: Study) -> list[str]:
    """Whose records and features they are, a line each where not surely the paper's."""
    data_lines = {}
    feature_lines = {}
    for configuration in study.configurations:
        title = configuration.title
        note = study.data_note(*configuration.key)
        if note is not None:
            data_lines[title] = f"{OTHER_DATA} {title}: {note}."
        elif configuration.dataset in OUR_READING:
            reading = OUR_READING[configuration.dataset]
            feature_lines[title] = f"{OTHER_FEATURES} {title}: {reading}."
    return [*data_lines.values(), *feature_lines.values()]


def _seeds_of_releases(study: Study) -> str:
    """How many seeds a release has, as ``50``, or as ``10 to 50`` where they differ."""
    numbers = set()
    for release in study.releases.values():
        numbers.add(len({run.seed for run in release.runs}))
    fewest = min(numbers)
    most = max(numbers)
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def _made_with(study: Study) -> list[str]:
    """The environments that trained the study, each once; without them the commits."""
    datasets: Mapping[str, Any] = (study.settings or {}).get("datasets", {})
    environments = {}
    for dataset in datasets.values():
        for environment in dataset.get("made_with", []):
            environments[json.dumps(environment)] = environment
    if environments:
        return [_environment_words(made) for made in environments.values()]

    commits = set()
    for release in study.releases.values():
        made = release.provenance
        commits.add(
            _commit_words(made.pcer_version, made.source_commit, made.source_dirty)
        )
    return sorted(commits)


def _environment_words(environment: Mapping[str, Any]) -> str:
    of_commit = ("pcer", "source_commit", "source_dirty")
    words = [_commit_words(*(environment.get(name) for name in of_commit))]
    for name, value in environment.items():
        if name not in of_commit and value:
            words.append(markdown_text(f"{name} {value}"))
    return ", ".join(words)


def _commit_words(version: Any, commit: Any, dirty: Any) -> str:
    named = f"pcer {version}" if version else "a pcer of unknown version"
    if not commit:
        return markdown_text(f"{named}, commit not recorded")
    state = ", with changes not committed" if dirty else ""
    return markdown_text(f"{named}, commit {str(commit)[:SHORT_COMMIT]}{state}")
