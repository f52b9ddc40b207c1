"""Before anything is trained: what could be shown. ``detectable(sizes or release, ...)``.

The planner's front. It asks the planner for the smallest exposure of each group and the smallest
difference between two that would be shown, how both fall with more splits and with more people,
and what a target would take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from pcer.auditing.ahead import design_of_measured
from pcer.auditing.claims import claims_of
from pcer.auditing.costs import deciding_attacks
from pcer.auditing.file import rounded
from pcer.auditing.measure import Measured, Pair, measure_panel, pairs_of, require_available
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.planner import (
    POWER,
    CountsError,
    Design,
    DifferenceBetween,
    ExposureOf,
    Question,
    advice,
    people_for,
    smallest,
    splits_for,
)
from pcer.auditing.words import setting_name
from pcer.errors import InputError, PlanError
from pcer.files import Record, canonical_json
from pcer.metrics import FloatArray
from pcer.release import GAP, PROXIES, Panel, Proxy, Release, Shown, panels, proxy_named
from pcer.statistics import SIGNIFICANCE

FORMAT: Final = "pcer-outlook"
VERSION: Final = 1
ACCURACY: Final = 0.8
TEST_SIZE: Final = 0.3
N_SPLITS: Final = 20
SPLIT_GRID: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
GROWTH_GRID: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
FEWEST_PEOPLE: Final = 4
"""Of a group, so that there is someone to train on and someone to hold out."""
MOST_PEOPLE: Final = 10**15
NEGLIGIBLE: Final = 1e-12
"""So small an exposure is none: with endless splits any is shown."""

Amount = Annotated[float, Field(ge=0)] | None
"""An exposure or a difference; None where none would be shown."""


class GroupOutlook(Record):
    """What could be shown of one group.

    Attributes:
        group: its name.
        n_people: training and test together.
        accuracy: for people the model was not trained on; None where the cost does not need it.
        smallest: exposure that would be shown; None where not even the largest would.
        limit: the same with any number of splits.
        splits_for_target: fewest that would show the target; None where none would.
        people_for_target: of this group, all groups growing alike, with the splits as they are.
    """

    group: str
    n_people: float
    accuracy: float | None
    smallest: Amount
    limit: Amount
    splits_for_target: int | None
    people_for_target: float | None


class PairOutlook(Record):
    """What could be shown of a difference, whichever of the two is the more exposed.

    Attributes:
        groups: the pair.
        base: exposure of the less exposed.
        smallest: difference that would be shown, and so on as of a group.
        people_for_target: of the first group and of the second.
    """

    groups: tuple[str, str]
    base: float
    smallest: Amount
    limit: Amount
    splits_for_target: int | None
    people_for_target: tuple[float, float] | None


class OutlookPoint(Record):
    """One point of a curve: what would be shown with so many splits, or so many people.

    Attributes:
        n_splits: splits.
        growth: times as many people in every group.
        exposure: by group.
        difference: of the pairs, in their order.
    """

    n_splits: int
    growth: float
    exposure: dict[str, Amount]
    difference: list[Amount]


class Outlook(Shown):
    """The result of ``pcer.detectable``: what could be shown, and what a target would take.

    Attributes:
        release_sha256: of the earlier release that it was made from; None: from sizes alone.
        subject: what the release is about; None without one.
        setting: the release's setting that it is about.
        cost: what exposure is measured by.
        n_splits: splits.
        train_share: share of the records that models are trained on; None where not known.
        n_settings: settings that are audited together.
        power: how often "would be shown" is.
        level: of the tests, over the whole family.
        target: exposure or difference that should be shown; None where none was named.
        groups: each group.
        pairs: each pair that an audit compares.
        over_splits: the curve over splits, people as they are.
        over_people: the curve over people, splits as they are.
        sentences: the answer in words.
    """

    format: Literal["pcer-outlook"] = FORMAT
    version: Literal[1] = VERSION
    release_sha256: str | None
    subject: str | None
    setting: str | None
    cost: str
    n_splits: int
    train_share: float | None
    n_settings: int
    power: float = POWER
    level: float = SIGNIFICANCE
    target: float | None
    groups: list[GroupOutlook]
    pairs: list[PairOutlook]
    over_splits: list[OutlookPoint]
    over_people: list[OutlookPoint]
    sentences: list[str]

    @property
    def title(self) -> str:
        """What would be audited."""
        n = self.n_splits
        of = f" of {self.subject}" if self.subject else ""
        people = ", ".join(f"{one.group} {one.n_people:,.0f}" for one in self.groups[:4])
        more = f" and {len(self.groups) - 4} more groups" if len(self.groups) > 4 else ""
        return f"What {n:,} split{'s' if n > 1 else ''}{of} could show: {people}{more}"

    @property
    def proxy(self) -> Proxy:
        """What is known of the cost."""
        return proxy_named(self.cost)

    def to_tree(self) -> dict[str, Any]:
        """Plain objects, numbers rounded as they are written."""
        tree: dict[str, Any] = rounded(self.model_dump())
        return tree

    def to_json(self) -> str:
        """Canonical text: same question, same bytes."""
        return canonical_json(self.to_tree())

    def plot(self) -> Any:
        """Both curves as an Altair chart."""
        return Shown.drawings().to_chart(self, "outlook")


def detectable(
    of: Mapping[str, int] | Release,
    *,
    accuracy: float | Mapping[str, float] | None = None,
    test_size: float | None = None,
    n_splits: int | None = None,
    n_settings: int | None = None,
    cost: str | None = None,
    exposure: float | None = None,
    target: float | None = None,
    setting: str | None = None,
) -> Outlook:
    """Smallest exposure and difference that an audit would show in 80 % of such studies.

    Power is that of the audit's own tests at the first step of Holm over their families. From
    sizes it is that of the gap, whose error follows from them. What a sharper cost can show
    depends on how steady the models are: a release of a few splits tells it.

    Args:
        of: people in each group, training and test together; or an earlier release, which gives
            the sizes, accuracies, splits and errors.
        accuracy: for people the model was not trained on; one number or one for each group (0.8).
        test_size: share of the records that a split holds out (0.3).
        n_splits: distinct splits (20, or as many as the release has).
        n_settings: models or budgets that are audited together (1, or as in the release).
        cost: "gap"; of a release any cost that it carries, by default the sharpest.
        exposure: of the less exposed group of every pair (0, or what the release shows).
        target: exposure or difference that should be shown; asks for splits and people.
        setting: of a release with several, the one to plan with; the first by default.

    Raises:
        InputError: one sentence that names the argument and the remedy.

    >>> sizes = {"women": 1200, "men": 3400}
    >>> round(detectable(sizes, n_splits=20).groups[0].smallest, 4)
    0.0156
    """
    _require_numbers(n_splits=n_splits, n_settings=n_settings)
    _require_shares(test_size=test_size, target=target, exposure=exposure)
    if isinstance(of, Release):
        if accuracy is not None or test_size is not None:
            raise InputError("a release has its own accuracies and test size; leave yours out.")
        base = _of_release(of, cost, setting)
    else:
        if setting is not None:
            raise InputError("setting chooses among those of a release; sizes have none.")
        base = _of_sizes(of, _or(accuracy, ACCURACY), _or(test_size, TEST_SIZE), cost)
    return _outlook(base.with_options(n_splits, n_settings, exposure), target)


def outlook_schema() -> dict[str, Any]:
    """JSON Schema of what ``pcer plan`` writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Outlook.model_json_schema(),
        "title": f"pcer outlook, version {VERSION}",
        "required": list(Outlook.model_fields),
    }


@dataclass(frozen=True, kw_only=True)
class _Study:
    """A design, who is compared with whom, and where it comes from."""

    design: Design
    pairs: tuple[Pair, ...]
    bases: tuple[float, ...]
    """For each pair, the exposure of the less exposed."""
    cost: str
    n_settings: int
    release: Release | None = None
    setting: str | None = None

    def with_options(
        self, n_splits: int | None, n_settings: int | None, exposure: float | None
    ) -> _Study:
        """The same with what was asked for."""
        settings = _or(n_settings, self.n_settings)
        design = replace(
            self.design,
            n_splits=_or(n_splits, self.design.n_splits),
            n_cost_tests=settings * len(self.design.people),
            n_pair_tests=settings * len(self.pairs),
        )
        bases = self.bases if exposure is None else (exposure,) * len(self.pairs)
        return replace(self, design=design, n_settings=settings, bases=bases)


def _of_sizes(groups: Any, accuracy: Any, test_size: float, cost: str | None) -> _Study:
    people = _sizes(groups)
    if cost not in (None, SHARPEST, GAP.name, GAP.short):
        known = ", a sharper one" if cost in PROXIES else ", which is no cost of pcer's own"
        raise InputError(
            f"sizes alone tell what the {GAP.name} can show, but not what {cost!r} can{known}; "
            "give a release of a few splits that carries it."
        )
    design = Design(
        group_names=tuple(people),
        people=np.array([*people.values()], dtype=np.float64),
        n_splits=N_SPLITS,
        n_cost_tests=1,
        n_pair_tests=1,
        error=CountsError(accuracy=_accuracies(people, accuracy), train_share=1 - test_size),
    )
    sizes = [*people.values()]
    reference = 0 if len(sizes) == 2 else sizes.index(max(sizes))
    pairs = tuple((reference, g) for g in range(len(sizes)) if g != reference)
    return _Study(
        design=design, pairs=pairs, bases=(0.0,) * len(pairs), cost=GAP.name, n_settings=1
    )


def _of_release(release: Release, cost: str | None, setting: str | None) -> _Study:
    name = GAP.name if cost == GAP.short else cost
    plan, by_setting = Plan(cost=_or(name, SHARPEST)), panels(release)
    require_available(by_setting, plan)
    if release.training.split_kind != "random":
        raise InputError("the release does not say that its splits are random, so none can plan.")
    panel = _chosen(by_setting, setting)
    attacks = deciding_attacks(by_setting, plan)
    proxy = proxy_named(attacks[0])
    measured = measure_panel(panel, plan, proxy.name, inflation=claims_of(release).inflation)
    pairs = pairs_of(by_setting, plan)
    design = design_of_measured(measured, n_cost_tests=1, n_pair_tests=1, n_attacks=len(attacks))
    if design is None:
        reason = measured.reason or "nobody, or everybody, is right in some group"
        raise PlanError(f"{proxy.name} of this release cannot be planned with: {reason}.")
    return _Study(
        design=design,
        pairs=pairs,
        bases=tuple(_lower(measured, pair) for pair in pairs),
        cost=proxy.name,
        n_settings=len(by_setting),
        release=release,
        setting=setting_name(panel.model, _epsilon(panel)) if len(by_setting) > 1 else None,
    )


def _lower(measured: Measured, pair: Pair) -> float:
    """Exposure of the less exposed, at least 0."""
    assert measured.exposed is not None
    return max(0.0, float(measured.exposed.value[list(pair)].min()))


def _outlook(study: _Study, target: float | None) -> Outlook:
    design = study.design
    questions = [_harder(study, k) for k in range(len(study.pairs))]
    known = design.error.accuracy if isinstance(design.error, CountsError) else None
    release = study.release
    return Outlook(
        release_sha256=None if release is None else release.sha256,
        subject=None
        if release is None
        else f"{release.subject.dataset} ({release.subject.attribute})",
        setting=study.setting,
        cost=study.cost,
        n_splits=int(design.n_splits),
        train_share=None if known is None else _share(design),
        n_settings=study.n_settings,
        target=target,
        groups=[_group(study, g, target) for g in range(len(design.people))],
        pairs=[_pair(study, k, questions[k], target) for k in range(len(questions))],
        over_splits=[
            _point(study, questions, n_splits=n) for n in _grid(SPLIT_GRID, int(design.n_splits))
        ],
        over_people=[_point(study, questions, growth=growth) for growth in _growths(design)],
        sentences=list(_sentences(study, questions, target)),
    )


def _share(design: Design) -> float:
    assert isinstance(design.error, CountsError)
    return design.error.train_share


def _group(study: _Study, g: int, target: float | None) -> GroupOutlook:
    design, question = study.design, ExposureOf(group=g)
    people = None if target is None else people_for(design, question, target)
    return GroupOutlook(
        group=design.group_names[g],
        n_people=float(design.people[g]),
        accuracy=_accuracy(design, g),
        smallest=_amount(design, question),
        limit=_amount(replace(design, n_splits=math.inf), question),
        splits_for_target=None if target is None else splits_for(design, question, target),
        people_for_target=None if people is None else float(people[g]),
    )


def _pair(study: _Study, k: int, question: DifferenceBetween, target: float | None) -> PairOutlook:
    design, pair = study.design, study.pairs[k]
    people = None if target is None else people_for(design, question, target)
    return PairOutlook(
        groups=(design.group_names[pair[0]], design.group_names[pair[1]]),
        base=study.bases[k],
        smallest=_amount(design, question),
        limit=_amount(replace(design, n_splits=math.inf), question),
        splits_for_target=None if target is None else splits_for(design, question, target),
        people_for_target=None
        if people is None
        else (float(people[pair[0]]), float(people[pair[1]])),
    )


def _harder(study: _Study, k: int) -> DifferenceBetween:
    """The difference of a pair in the direction that is harder to show."""
    (i, j), base = study.pairs[k], study.bases[k]
    both = [DifferenceBetween(lower=a, higher=b, base=base) for a, b in ((i, j), (j, i))]
    return max(both, key=lambda one: _or(_amount(study.design, one), math.inf))


def _point(
    study: _Study,
    questions: Sequence[DifferenceBetween],
    *,
    n_splits: int | None = None,
    growth: float = 1.0,
) -> OutlookPoint:
    splits = int(_or(n_splits, study.design.n_splits))
    at = replace(study.design, n_splits=splits, people=study.design.people * growth)
    return OutlookPoint(
        n_splits=splits,
        growth=growth,
        exposure={name: _amount(at, ExposureOf(group=g)) for g, name in enumerate(at.group_names)},
        difference=[_amount(at, question) for question in questions],
    )


def _sentences(
    study: _Study, questions: Sequence[DifferenceBetween], target: float | None
) -> Iterator[str]:
    """What the target takes, or half of what would be shown now: the hardest of each kind."""
    design = study.design
    exposures = [ExposureOf(group=g) for g in range(len(design.people))]
    kinds: tuple[Sequence[Question], ...] = (exposures, questions)
    for asked in kinds:
        hardest = max(asked, key=lambda one: _or(_amount(design, one), math.inf))
        yield advice(design, hardest, target=target)


def _amount(design: Design, question: Question) -> float | None:
    """The smallest that would be shown; 0 where any would, None where none would."""
    found = smallest(design, question)
    return None if math.isnan(found) else found if found > NEGLIGIBLE else 0.0


def _accuracy(design: Design, g: int) -> float | None:
    error = design.error
    if not isinstance(error, CountsError):
        return None
    if error.label_share is None:
        return float(error.accuracy[g])
    return float((error.label_share[g] * error.accuracy[g]).sum())


def _grid(places: Sequence[int], own: int) -> list[int]:
    return sorted({*places, own})


def _growths(design: Design) -> list[float]:
    """Times as many people, as far as some are left."""
    least = FEWEST_PEOPLE / float(design.people.min())
    return [growth for growth in GROWTH_GRID if growth >= min(least, 1.0)]


def _chosen(by_setting: Sequence[Panel], name: str | None) -> Panel:
    names = [setting_name(panel.model, _epsilon(panel)) for panel in by_setting]
    if name is None:
        return by_setting[0]
    if name not in names:
        raise InputError(f"the release has no setting {name!r}; it has {', '.join(names)}.")
    return by_setting[names.index(name)]


def _epsilon(panel: Panel) -> float | None:
    return None if math.isinf(panel.epsilon) else panel.epsilon


def _sizes(groups: Any) -> dict[str, int]:
    """Names and sizes, checked."""
    if not isinstance(groups, Mapping):
        raise InputError(
            "groups must say how many people each has, such as {'women': 1200, 'men': 3400}; or "
            "give a release."
        )
    if len(groups) < 2:
        raise InputError("groups must name at least two groups, each with its number of people.")
    for name, n in groups.items():
        is_whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
        if not is_whole or not FEWEST_PEOPLE <= n <= MOST_PEOPLE:
            raise InputError(
                f"group {str(name)!r} must have a whole number of people, at least "
                f"{FEWEST_PEOPLE}, not {n!r}."
            )
    return {str(name): int(n) for name, n in groups.items()}


def _accuracies(people: Mapping[str, int], accuracy: Any) -> FloatArray:
    """(group,) each strictly between 0 and 1."""
    given = accuracy if isinstance(accuracy, Mapping) else dict.fromkeys(people, accuracy)
    if set(map(str, given)) != set(people):
        raise InputError(
            f"accuracy must be one number, or one for each of {', '.join(people)}; it names "
            f"{', '.join(map(str, given)) or 'none'}."
        )
    for name, value in given.items():
        _require_shares(**{f"accuracy of {name}": value})
    return np.array([float(given[name]) for name in people])


def _require_numbers(**given: int | None) -> None:
    for name, n in given.items():
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
            raise InputError(f"{name} must be a whole number of at least 1, not {n!r}.")


def _require_shares(**given: Any) -> None:
    for name, value in given.items():
        lowest = 0.0 if name == "exposure" else math.ulp(0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and lowest <= value < 1):
            raise InputError(f"{name} must be a number between 0 and 1, not {value!r}.")


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
