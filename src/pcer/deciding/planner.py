"""What could an audit show, before anything is trained?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from pcer.auditing.record import Result
from pcer.auditing.sentences.advice import advice
from pcer.display import ShownOutlook
from pcer.errors import InputError, PlanError
from pcer.files import Record
from pcer.measuring import choose_attacks, measure
from pcer.measuring.checks.arrays import Facts, is_random, stated_epsilon
from pcer.measuring.evidence import decide
from pcer.measuring.exposure import Pair
from pcer.measuring.pair_tests import attack_tests
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
from pcer.release.attack_kinds import GAP, attack_named
from pcer.release.file import Release
from pcer.release.panel import panels
from pcer.release.reading import release_at
from pcer.wording import setting_called

ACCURACY: Final = 0.8
TEST_SIZE: Final = 0.3
N_SPLITS: Final = 20
SPLIT_GRID: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# An exposure or a difference; None where none would be shown.
Amount = Annotated[float, Field(ge=0)] | None


class OutlookRow(Record):
    """What could be shown of one group's exposure, or of a difference, whichever is the larger.

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
    """What would be shown with so many splits: exposures by group, differences as the pairs are."""

    n_splits: int
    exposure: dict[str, Amount]
    difference: list[Amount]


class Outlook(Result, ShownOutlook):
    """The result of ``pcer.detectable``: what could be shown, and what a target would take.

    Attributes:
        release_sha256: of the earlier release that it was made from; None: from sizes
            alone.
        subject: what the release is about; None without one.
        setting: the release's setting that it is about.
        cost: what exposure is measured by.
        n_settings: settings that are audited together.
        target: exposure or difference that should be shown; None where none was named.
        groups: the exposure of each group.
        pairs: the difference of each pair that an audit compares.
        over_splits: the curve over splits, people as they are.
        sentences: the answer in words.
    """

    format: Literal["pcer-outlook"] = "pcer-outlook"
    version: Literal[1] = 1
    release_sha256: str | None
    subject: str | None
    setting: str | None
    cost: str
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
        n = self.n_splits
        of = f" of {self.subject}" if self.subject else ""
        people = ", ".join(
            f"{row.groups[0]} {row.n_people[0]:,.0f}" for row in self.groups[:4]
        )
        more = (
            f" and {len(self.groups) - 4} more groups" if len(self.groups) > 4 else ""
        )
        return f"What {n:,} split{'s' if n > 1 else ''}{of} could show: {people}{more}"


def detectable(
    of: Mapping[str, int] | Release | str | PathLike[str],
    *,
    accuracy: float | Mapping[str, float] | None = None,
    test_size: float | None = None,
    n_splits: int | None = None,
    n_settings: int | None = None,
    cost: str | None = None,
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
        cost: "gap"; of a release any attack that it carries, by default the strongest.
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
    for name, n in (("n_splits", n_splits), ("n_settings", n_settings)):
        if n is not None and not (type(n) is int and 1 <= n <= MOST_PEOPLE):
            raise InputError(
                f"{name} must be a whole number from 1 to 10^15, not {n!r:.60}."
            )
    _require_share(test_size=test_size, target=target, exposure=exposure)
    if isinstance(of, Release | str | PathLike):
        if accuracy is not None or test_size is not None:
            raise InputError(
                "a release has its own accuracies and test size; leave yours out."
            )
        design, bases, about = _of_release(release_at(of), cost, setting, n_settings)
    else:
        if setting is not None:
            raise InputError(
                "setting chooses among those of a release; sizes have none."
            )
        given = ACCURACY if accuracy is None else accuracy
        design, bases, about = _of_sizes(
            of, given, test_size or TEST_SIZE, cost, n_settings or 1
        )
    if exposure is not None:
        bases = dict.fromkeys(bases, exposure)
    return _outlook(
        replace(design, n_splits=n_splits or design.n_splits), bases, target, about
    )


# With the lower exposure of each pair, and further fields of ``Outlook``.
Planned = tuple[Design, dict[Pair, float], dict[str, Any]]


def _of_sizes(
    groups: Any, accuracy: Any, test_size: float, cost: str | None, n_settings: int
) -> Planned:
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
    if cost is not None and attack_named(cost) not in (SHARPEST, GAP.name):
        raise InputError(
            f"sizes alone tell what the {GAP.name} can show, but not what {cost!r} can; give a "
            "release of a few splits that carries it."
        )
    names = [*map(str, groups)]
    people = np.array([*groups.values()], dtype=np.float64)
    given = (
        accuracy if isinstance(accuracy, Mapping) else dict.fromkeys(names, accuracy)
    )
    if set(map(str, given)) != set(names):
        raise InputError(
            f"accuracy must be one number, or one for each of {', '.join(names)}; it names "
            f"{', '.join(map(str, given)) or 'none'}."
        )
    _require_share(**{f"accuracy of {name}": value for name, value in given.items()})
    right = np.array([float(given[name]) for name in names])
    reference = 0 if len(people) == 2 else int(np.argmax(people))
    bases = {(reference, g): 0.0 for g in range(len(people)) if g != reference}
    design = Design(
        group_names=tuple(names),
        people=people,
        n_splits=N_SPLITS,
        n_tests=(n_settings * len(people), n_settings * len(bases)),
        error=CountsError(accuracy=right, train_share=1 - test_size),
    )
    about = dict.fromkeys(("release_sha256", "subject", "setting"))
    return design, bases, about | {"cost": GAP.name, "n_settings": n_settings}


def _of_release(
    release: Release,
    cost: str | None,
    setting: str | float | None,
    n_settings: int | None,
) -> Planned:
    by_setting = panels(release)
    plan = measure.require_available(
        by_setting, Plan(cost=SHARPEST if cost is None else cost)
    )
    if not is_random(release):
        raise InputError(
            "the release does not say that its splits are random, so none can plan."
        )
    facts = release.kept(Facts)
    names = [each.name for each in facts.settings]
    keys = [(panel.model, stated_epsilon(panel)) for panel in by_setting]
    chosen = 0 if setting is None else setting_called(setting, keys)
    if chosen is None:
        raise InputError(
            f"the release has no setting {setting!r}; it has {', '.join(names)}."
        )
    pairs = measure.pairs_of(by_setting, plan)
    attacks = choose_attacks.deciding_attacks(by_setting, plan)
    by_cost = measure.measure_costs(by_setting, plan, inflation=facts.inflation)
    measured = [by_cost[attack] for attack in attacks]
    if n_settings is not None:
        n_tests = n_settings * len(release.subject.groups), n_settings * len(pairs)
    else:  # the family of the audit's tests
        tests = [attack_tests(each, pairs, random=True) for each in measured]
        evidence = decide(tests, pairs, outcome=release.subject.outcome)
        n_tests = evidence.n_cost_tests, evidence.n_pair_tests
    first = measured[0][chosen]
    design = design_of_measured(first, [len(attacks) * n for n in n_tests])
    if design is None or first.exposed is None:
        reason = first.reason or "nobody, or everybody, is right in some group"
        raise PlanError(
            f"{attacks[0]} of this release cannot be planned with: {reason}."
        )
    value = np.maximum(first.exposed.value, 0.0)
    about = {
        "release_sha256": release.sha256,
        "subject": f"{release.subject.dataset} ({release.subject.attribute})",
        "setting": names[chosen] if len(names) > 1 else None,
        "cost": attacks[0],
        "n_settings": n_settings or len(names),
    }
    return design, {(i, j): float(min(value[i], value[j])) for i, j in pairs}, about


def _require_share(**given: Any) -> None:
    for name, value in given.items():
        lowest = 0.0 if name == "exposure" else math.ulp(0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and lowest <= value < 1):
            raise InputError(f"{name} must be a number between 0 and 1, not {value!r}.")


def _outlook(
    design: Design,
    bases: Mapping[Pair, float],
    target: float | None,
    about: Mapping[str, Any],
) -> Outlook:
    names = design.group_names
    exposures = [Question(groups=(g,)) for g in range(len(names))]
    differences = [
        _hardest(
            design,
            [Question(groups=groups, base=base) for groups in (pair, pair[::-1])],
        )
        for pair, base in bases.items()
    ]
    rows = []
    for groups, question in zip(
        [*((g,) for g in range(len(names))), *bases],
        exposures + differences,
        strict=True,
    ):
        needed = None if target is None else people_for(design, question, target)
        rows.append(
            OutlookRow(
                groups=tuple(names[g] for g in groups),
                n_people=tuple(design.people[[*groups]].tolist()),
                base=question.base,
                smallest=shown_amount(design, question),
                limit=shown_amount(replace(design, n_splits=math.inf), question),
                splits_for_target=None
                if target is None
                else splits_for(design, question, target),
                people_for_target=None
                if needed is None
                else tuple(needed[[*groups]].tolist()),
            )
        )
    curve = [
        replace(design, n_splits=n) for n in sorted({*SPLIT_GRID, int(design.n_splits)})
    ]
    return Outlook(
        n_splits=int(design.n_splits),
        target=target,
        groups=rows[: len(names)],
        pairs=rows[len(names) :],
        over_splits=[
            OutlookPoint(
                n_splits=int(at.n_splits),
                exposure={
                    names[g]: shown_amount(at, question)
                    for g, question in enumerate(exposures)
                },
                difference=[shown_amount(at, question) for question in differences],
            )
            for at in curve
        ],
        sentences=[
            advice(design, _hardest(design, questions), target=target)
            for questions in (exposures, differences)
        ],
        **about,
    )


def _hardest(design: Design, questions: Sequence[Question]) -> Question:
    return max(
        questions, key=lambda asked: np.nan_to_num(smallest(design, asked), nan=np.inf)
    )
