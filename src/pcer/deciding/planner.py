"""What could an audit show, before anything is trained?

Called by ``pcer.detectable`` and ``pcer plan``, with sizes of groups or an earlier
release. A planned study is a ``Design`` (``measuring.power``): so many people, so many
splits, and the error of the exposure. Power is that of the audit's tests, at the first
step of Holm over its family. To add a number: a field of ``OutlookRow`` or
``OutlookPoint``, filled in ``_row`` or ``_curve``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from pydantic import Field

from pcer.auditing.record import Result
from pcer.auditing.sentences.advice import advice
from pcer.display import ShownOutlook
from pcer.errors import InputError, PlanError
from pcer.files import Record
from pcer.measuring import choose_attacks, exposure
from pcer.measuring.checks.arrays import ReleaseArrays, is_random, stated_epsilon
from pcer.measuring.evidence import decide
from pcer.measuring.exposure import Measured, Pair
from pcer.measuring.group_differences import attack_tests
from pcer.measuring.plan import SHARPEST, Plan
from pcer.measuring.power import (
    FEWEST_PEOPLE,
    MOST_PEOPLE,
    CountsError,
    Design,
    Question,
    design_of_measured,
    people_for,
    shown_amount,
    smallest,
    splits_for,
)
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import GAP, attack_named
from pcer.release.file import Release, release_at
from pcer.release.panel import Panel, carried_attacks, panels
from pcer.wording import setting_called

ACCURACY: Final = 0.8
TEST_SIZE: Final = 0.3
N_SPLITS: Final = 20
GROUPS_IN_TITLE: Final = 4
SPLIT_GRID: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# An exposure or a difference; None where none would be shown.
Amount = Annotated[float, Field(ge=0)] | None


class OutlookRow(Record):
    """What could be shown of one group's exposure, or of the difference of two.

    A difference must show whichever of the two is the more exposed.

    Attributes:
        groups: one name, or the two of a pair.
        n_people: of each of them, training and test together.
        base: exposure of the less exposed group of a pair.
        smallest: exposure or difference that would be shown; None where not even the
            largest would.
        limit: the smallest with any number of splits.
        splits_for_target: fewest that would show the target; None where none would.
        people_for_target: of each of them, all groups growing alike, with the splits as
            they are.
    """

    groups: tuple[str, ...]
    n_people: tuple[float, ...]
    base: float
    smallest: Amount
    limit: Amount
    splits_for_target: int | None
    people_for_target: tuple[float, ...] | None


class OutlookPoint(Record):
    """What would be shown with so many splits.

    Exposures are by group, differences in the order of the pairs.
    """

    n_splits: int
    exposure: dict[str, Amount]
    difference: list[Amount]


class Outlook(Result, ShownOutlook):
    """The result of ``pcer.detectable``: what could be shown, what a target takes.

    Attributes:
        release_sha256: of the earlier release that it was made from; None: from sizes
            alone.
        subject: what the release is about; None without one.
        setting: the release's setting that it is about.
        attack: what exposure is measured by.
        n_settings: settings that are audited together.
        target: exposure or difference that should be shown; None where none was named.
        groups: the exposure of each group.
        pairs: the difference of each pair that an audit compares.
        over_splits: the curve over splits, people as they are.
        sentences: the answer in words.
    """

    format: Literal["pcer-outlook"] = "pcer-outlook"
    version: Literal[2] = 2
    release_sha256: str | None
    subject: str | None
    setting: str | None
    attack: str
    n_splits: int
    n_settings: int
    target: float | None
    groups: list[OutlookRow]
    pairs: list[OutlookRow]
    over_splits: list[OutlookPoint]
    sentences: list[str]

    @property
    def title(self) -> str:
        """What would be audited."""
        splits = "split" if self.n_splits == 1 else "splits"
        subject = f" of {self.subject}" if self.subject else ""
        people = ", ".join(
            f"{row.groups[0]} {row.n_people[0]:,.0f}"
            for row in self.groups[:GROUPS_IN_TITLE]
        )
        n_more = len(self.groups) - GROUPS_IN_TITLE
        if n_more > 0:
            people += f" and {n_more} more groups"
        return f"What {self.n_splits:,} {splits}{subject} could show: {people}"


def detectable(  # noqa: PLR0913 # a front door
    of: Mapping[str, int] | Release | str | PathLike[str],
    *,
    accuracy: float | Mapping[str, float] | None = None,
    test_size: float | None = None,
    n_splits: int | None = None,
    n_settings: int | None = None,
    attack: str | None = None,
    exposure: float | None = None,
    target: float | None = None,
    setting: str | float | None = None,
) -> Outlook:
    """Smallest exposure and difference that an audit would show in 80% of such studies.

    Power is that of the audit's tests at the first step of Holm over their families.
    From sizes it is that of the gap, whose error follows from them. What a stronger
    attack can show depends on how stable the models are, which a release of a few
    splits reveals.

    Args:
        of: people in each group, training and test together; or an earlier release or
            its path, which gives the sizes, accuracies, splits and errors.
        accuracy: for people the model was not trained on; one number or one for each
            group (0.8).
        test_size: share of the records that a split holds out (0.3).
        n_splits: distinct splits (20, or as many as the release has).
        n_settings: models or budgets that are audited together (1, or as in the
            release).
        attack: "gap"; of a release any that it carries, by default the strongest.
        exposure: of the less exposed group of every pair (0, or what the release
            shows).
        target: exposure or difference to show; asks for splits and people.
        setting: of a release with several, the one to plan with; the first by default.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> sizes = {"women": 1200, "men": 3400}
    >>> round(detectable(sizes, n_splits=20).groups[0].smallest, 4)
    0.0156
    """
    _require_count(n_splits=n_splits, n_settings=n_settings)
    _require_share(test_size=test_size, target=target, exposure=exposure)
    if isinstance(of, Release | str | PathLike):
        if accuracy is not None or test_size is not None:
            raise InputError(
                "a release has its own accuracies and test size; leave yours out."
            )
        planned = _of_release(release_at(of), attack, setting, n_settings)
    else:
        if setting is not None:
            raise InputError(
                "setting chooses among those of a release; sizes have none."
            )
        planned = _of_sizes(
            of,
            accuracy=ACCURACY if accuracy is None else accuracy,
            test_size=test_size or TEST_SIZE,
            attack=attack,
            n_settings=n_settings or 1,
        )
    if n_splits is not None:
        design = replace(planned.design, n_splits=n_splits)
        planned = planned._replace(design=design)
    if exposure is not None:
        bases = dict.fromkeys(planned.bases, exposure)
        planned = planned._replace(bases=bases)
    return _outlook(planned, target)


class _Planned(NamedTuple):
    """A study that is planned."""

    design: Design
    bases: dict[Pair, float]  # the lower exposure of each pair
    about: dict[str, Any]  # further fields of ``Outlook``


def _require_count(**arguments: Any) -> None:
    """Raise InputError unless every argument is None or a whole number from 1 on."""
    for name, n in arguments.items():
        if n is not None and not (type(n) is int and 1 <= n <= MOST_PEOPLE):
            raise InputError(
                f"{name} must be a whole number from 1 to 10^15, not {n!r:.60}."
            )


def _require_share(**arguments: Any) -> None:
    """Raise InputError unless None or between 0 and 1; only an exposure may be 0."""
    for name, value in arguments.items():
        lowest = 0.0 if name == "exposure" else math.ulp(0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and lowest <= value < 1):
            raise InputError(f"{name} must be a number between 0 and 1, not {value!r}.")


def _of_sizes(
    groups: Any, *, accuracy: Any, test_size: float, attack: str | None, n_settings: int
) -> _Planned:
    """A study of the overfitting gap, whose error follows from sizes and accuracies."""
    _require_sizes(groups)
    if attack is not None and attack_named(attack) not in (SHARPEST, GAP.name):
        raise InputError(
            f"sizes alone tell what the {GAP.name} can show, but not what {attack!r} "
            "can; give a release of a few splits that carries it."
        )
    names = [*map(str, groups)]
    people = np.array([*groups.values()], dtype=np.float64)
    n_groups = len(names)
    reference = 0 if n_groups == 2 else int(np.argmax(people))
    bases = {(reference, g): 0.0 for g in range(n_groups) if g != reference}
    design = Design(
        group_names=tuple(names),
        people=people,
        n_splits=N_SPLITS,
        n_tests=(n_settings * n_groups, n_settings * len(bases)),
        error=CountsError(
            accuracy=_accuracy_by_group(accuracy, names), train_share=1 - test_size
        ),
    )
    about = {
        "release_sha256": None,
        "subject": None,
        "setting": None,
        "attack": GAP.name,
        "n_settings": n_settings,
    }
    return _Planned(design, bases, about)


def _require_sizes(groups: Any) -> None:
    """Raise InputError unless it names two groups or more with their people."""
    if not isinstance(groups, Mapping) or len(groups) < 2:
        raise InputError(
            "groups must name at least two groups with their people, such as "
            "{'women': 1200, 'men': 3400}; or give a release."
        )
    for name, n in groups.items():
        is_whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not is_whole or not FEWEST_PEOPLE <= n <= MOST_PEOPLE:
            raise InputError(
                f"group {str(name)!r} must have a whole number of people, at least "
                f"{FEWEST_PEOPLE}, not {n!r}."
            )


def _accuracy_by_group(accuracy: Any, names: Sequence[str]) -> FloatArray:
    """(group,) one accuracy for all groups, or that of each."""
    by_name = accuracy
    if not isinstance(accuracy, Mapping):
        by_name = dict.fromkeys(names, accuracy)
    named = [*map(str, by_name)]
    if set(named) != set(names):
        raise InputError(
            f"accuracy must be one number, or one for each of {', '.join(names)}; "
            f"it names {', '.join(named) or 'none'}."
        )
    _require_share(**{f"accuracy of {name}": share for name, share in by_name.items()})
    return np.array([float(by_name[name]) for name in names])


def _of_release(
    release: Release,
    attack_name: str | None,
    setting: str | float | None,
    n_settings: int | None,
) -> _Planned:
    """A study like an earlier one, by its strongest attack or the one that is named."""
    by_setting = panels(release)
    plan = choose_attacks.require_available(
        by_setting,
        carried_attacks(by_setting),
        Plan(attack=SHARPEST if attack_name is None else attack_name),
    )
    if not is_random(release):
        raise InputError(
            "the release does not say that its splits are random, so none can plan."
        )
    arrays = release.kept(ReleaseArrays)
    names = [facts.name for facts in arrays.settings]
    chosen = _chosen_setting(by_setting, setting, names)
    attacks = choose_attacks.deciding_attacks(by_setting, plan)
    by_attack = exposure.measure_attacks(
        by_setting, plan, variance_inflation=arrays.variance_inflation
    )
    measured = [by_attack[attack] for attack in attacks]
    pairs = choose_attacks.pairs_of(by_setting, plan)
    if n_settings is None:
        n_tests = _tests_of_audit(release, measured, pairs)
    else:
        n_tests = n_settings * len(release.subject.groups), n_settings * len(pairs)
    first = measured[0][chosen]
    design = design_of_measured(first, [len(attacks) * n for n in n_tests])
    if design is None or first.exposed is None:
        reason = first.reason or "nobody, or everybody, is right in some group"
        raise PlanError(
            f"{attacks[0]} of this release cannot be planned with: {reason}."
        )
    about = {
        "release_sha256": release.sha256,
        "subject": f"{release.subject.dataset} ({release.subject.attribute})",
        "setting": names[chosen] if len(names) > 1 else None,
        "attack": attacks[0],
        "n_settings": n_settings or len(names),
    }
    exposures = np.maximum(first.exposed.value, 0.0)
    return _Planned(
        design=design,
        bases={(i, j): float(min(exposures[i], exposures[j])) for i, j in pairs},
        about=about,
    )


def _chosen_setting(
    by_setting: Sequence[Panel], setting: str | float | None, names: Sequence[str]
) -> int:
    """Position of the setting that is named; the first where none is."""
    if setting is None:
        return 0
    keys = [(panel.model, stated_epsilon(panel)) for panel in by_setting]
    chosen = setting_called(setting, keys)
    if chosen is None:
        raise InputError(
            f"the release has no setting {setting!r}; it has {', '.join(names)}."
        )
    return chosen


def _tests_of_audit(
    release: Release, measured: Sequence[Sequence[Measured]], pairs: tuple[Pair, ...]
) -> tuple[int, int]:
    """How many exposures and how many differences the release's audit tests."""
    tests = [attack_tests(by_setting, pairs, random=True) for by_setting in measured]
    evidence = decide(tests, pairs, outcome=release.subject.prediction_is)
    return evidence.n_detection_tests, evidence.n_pair_tests


def _outlook(planned: _Planned, target: float | None) -> Outlook:
    """What the study could show, and what the target would take."""
    design = planned.design
    names = design.group_names
    exposures = [Question(groups=(group,)) for group in range(len(names))]
    differences = [
        _harder_direction(design, pair, base) for pair, base in planned.bases.items()
    ]
    hardest = [_hardest(design, exposures), _hardest(design, differences)]
    return Outlook(
        n_splits=int(design.n_splits),
        target=target,
        groups=[_row(design, each, each.groups, target) for each in exposures],
        pairs=[
            _row(design, question, pair, target)
            for question, pair in zip(differences, planned.bases, strict=True)
        ],
        over_splits=_curve(design, exposures, differences),
        sentences=[advice(design, question, target=target) for question in hardest],
        **planned.about,
    )


def _row(
    design: Design, question: Question, groups: tuple[int, ...], target: float | None
) -> OutlookRow:
    """What could be shown of a group or a pair, named in the order of ``groups``."""
    endless = replace(design, n_splits=math.inf)
    splits = None
    people = None
    if target is not None:
        splits = splits_for(design, question, target)
        needed = people_for(design, question, target)
        people = None if needed is None else tuple(needed[[*groups]].tolist())
    return OutlookRow(
        groups=tuple(design.group_names[group] for group in groups),
        n_people=tuple(design.people[[*groups]].tolist()),
        base=question.base,
        smallest=shown_amount(design, question),
        limit=shown_amount(endless, question),
        splits_for_target=splits,
        people_for_target=people,
    )


def _curve(
    design: Design, exposures: Sequence[Question], differences: Sequence[Question]
) -> list[OutlookPoint]:
    """What would be shown with the splits of the grid and those of the design."""
    points = []
    for n_splits in sorted({*SPLIT_GRID, int(design.n_splits)}):
        planned = replace(design, n_splits=n_splits)
        shown = [shown_amount(planned, question) for question in exposures]
        point = OutlookPoint(
            n_splits=n_splits,
            exposure=dict(zip(design.group_names, shown, strict=True)),
            difference=[shown_amount(planned, question) for question in differences],
        )
        points.append(point)
    return points


def _harder_direction(design: Design, pair: Pair, base: float) -> Question:
    """The question of a pair, for whichever more exposed group is harder to show."""
    directions = [Question(groups=groups, base=base) for groups in (pair, pair[::-1])]
    return _hardest(design, directions)


def _hardest(design: Design, questions: Sequence[Question]) -> Question:
    """The question that shows only the largest amounts, or none at all."""

    def difficulty(question: Question) -> float:
        amount = smallest(design, question)
        return math.inf if math.isnan(amount) else amount

    return max(questions, key=difficulty)
