"""How does the paper rank budgets, and do parity and equalized odds rank them so?

``as_published`` is part of every audit: Algorithm 1 chooses the budget with the
smallest disparity, at every floor of a grid; the audit repeats it over the floors that
say something about exposures. ``comparisons`` and ``agreement`` are made of a finished
audit when they are asked for (``--paper``, the study, the report's tables).
Descriptive: seeds and budgets share records, so counts over settings are no independent
votes. To add a comparison: a field of ``Comparison``, filled in ``_comparison``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pcer import metrics
from pcer.measuring.checks.arrays import ReleaseArrays
from pcer.measuring.exposure import Measured, measure_attacks
from pcer.measuring.plan import GridVerdict, Verdict
from pcer.measuring.tested import Tested
from pcer.metrics import FloatArray
from pcer.paper import records
from pcer.paper.records import AsPublished, EquitableBudget
from pcer.release import panels
from pcer.release.attack_kinds import GAP, attack_kind
from pcer.statistics import SIGNIFICANCE, holm, upper_p

if TYPE_CHECKING:
    from pcer.auditing.record import Audit, PairResult, SettingResult

# Budgets whose values differ by less than this share are tied: rounding, not
# preference.
TIE_TOLERANCE = 1e-12
AS_PUBLISHED = "as published; not a recommendation"
DETECTED_CHOICE = "as published; every exposure at the chosen budgets is detected"


def as_published(
    tested: Tested, results: Sequence[records.PublishedSetting]
) -> list[AsPublished]:
    """Part II of the paper's Algorithm 1 for each model; budgets as in the release."""
    published = []
    for model in dict.fromkeys(panel.model for panel in tested.panels):
        settings = [k for k, panel in enumerate(tested.panels) if panel.model == model]
        of_model = [results[k] for k in settings]
        published.append(
            AsPublished(
                model=model,
                attack=GAP.name,
                settings=of_model,
                algorithm1=_algorithm1(tested, settings, of_model),
            )
        )
    return published


def _algorithm1(
    tested: Tested, settings: Sequence[int], results: Sequence[records.PublishedSetting]
) -> records.Algorithm1:
    """Over the whole grid, and again over the informative floors.

    Those are below the largest detected gap: a floor above every gap makes the
    disparities a copy of the differences of rates.
    """
    chosen = [
        _equitable_budget(results, number, floor)
        for number, floor in enumerate(tested.plan.floors)
    ]
    largest = _largest_detected(tested, settings)
    informative = [row for row in chosen if row.floor < largest]
    is_detected = _is_detected(tested, settings, results, _budgets_of(chosen))
    return records.Algorithm1(
        equitable_budget=chosen,
        verdict=_grid_verdict(chosen),
        informative_floors=[row.floor for row in informative],
        informative_verdict=_grid_verdict(informative),
        label=DETECTED_CHOICE if is_detected else AS_PUBLISHED,
    )


def _largest_detected(tested: Tested, settings: Sequence[int]) -> float:
    """The largest detected gap of these settings; minus infinity where none is."""
    detected = [-math.inf]
    for k in settings:
        exposed = tested.measured[GAP.name][k].exposed
        if exposed is not None:
            is_detected = tested.evidence[GAP.name,].detected[k]
            detected += exposed.value[is_detected].tolist()
    return max(detected)


def _equitable_budget(
    settings: Sequence[records.PublishedSetting], floor_index: int, floor: float
) -> EquitableBudget:
    """The budgets with the smallest disparity at one floor of the grid; ties stand.

    Where all gaps of all seeds are below the floor, disparities are differences of
    positive rates over the floor (Proposition 2): the ranking repeats demographic
    parity.
    """
    disparities = []
    repeats_parity = True
    for setting in settings:
        rows = [pair.floors[floor_index] for pair in setting.pairs]
        disparities.append(spread([row.mean for row in rows]))
        is_dominated = all(row.floor_dominated_share == 1.0 for row in rows)
        repeats_parity = repeats_parity and is_dominated
    return EquitableBudget(
        floor=floor,
        budgets=smallest([setting.epsilon for setting in settings], disparities),
        repeats_demographic_parity=repeats_parity,
    )


def _is_detected(
    tested: Tested,
    settings: Sequence[int],
    results: Sequence[records.PublishedSetting],
    chosen: set[float | None],
) -> bool:
    detected = tested.evidence[GAP.name,].detected
    at_chosen = [
        detected[k].all()
        for k, setting in zip(settings, results, strict=True)
        if setting.epsilon in chosen
    ]
    return bool(at_chosen) and all(at_chosen)


def _grid_verdict(chosen: Sequence[EquitableBudget]) -> GridVerdict | None:
    """Robust if one budget is chosen at all of these floors; None if none is."""
    n_budgets = len(_budgets_of(chosen))
    if n_budgets == 0:
        return None
    return Verdict.FLOOR_ROBUST if n_budgets == 1 else Verdict.FLOOR_SENSITIVE


def _budgets_of(chosen: Sequence[EquitableBudget]) -> set[float | None]:
    return set().union(*[row.budgets for row in chosen])


def spread(disparities: Sequence[float | None]) -> float | None:
    """How far apart groups are, of their disparities to the first; None: not known."""
    values = [value for value in disparities if value is not None]
    if len(values) < len(disparities):
        return None
    return max(0.0, *values) - min(0.0, *values)


def smallest(
    budgets: Sequence[float | None], values: Sequence[float | None]
) -> list[float | None]:
    """All budgets tied for the smallest value; those without a value are left out."""
    ranked = [
        (value, epsilon)
        for value, epsilon in zip(values, budgets, strict=True)
        if value is not None
    ]
    slack = TIE_TOLERANCE * max((abs(value) for value, _ in ranked), default=0.0)
    least = min((value for value, _ in ranked), default=0.0)
    return [epsilon for value, epsilon in ranked if value <= least + slack]


# Beside parity and equalized odds


class Ranking(NamedTuple):
    """Budgets from smallest to largest gap, by one measure; several may be best."""

    measure: str
    budgets: list[float | None]
    best: list[float | None]


class EqualGapClaim(NamedTuple):
    """What passing both audits claims (Proposition 3): equal exposures. Refuted?"""

    epsilon: float | None
    groups: tuple[str, str]
    exposure_difference: float
    refuted: bool


class Sweep(NamedTuple):
    """Budgets to correlate over."""

    name: str
    least: float  # epsilon
    has_no_dp: bool

    def has(self, epsilon: float | None) -> bool:
        """Whether a budget is one of them."""
        return self.has_no_dp if epsilon is None else epsilon >= self.least


# The paper counts 5 points of its six budgets, and 4 from epsilon 1 on: so the first of
# its two correlations leaves training without privacy out, and the second has it.
SWEEPS = (
    Sweep("private budgets", 0.0, has_no_dp=False),
    Sweep("all budgets", 0.0, has_no_dp=True),
    Sweep("ε ≥ 1 and no DP", 1.0, has_no_dp=True),
)


class Correlation(NamedTuple):
    """Pearson's r of disparity and rate difference over some budgets: descriptive."""

    over: str  # which budgets: the name of one of ``SWEEPS``
    r: float | None  # None below three points, and where one of both is constant
    n_points: int


class Comparison(NamedTuple):
    """PCER beside demographic parity and equalized odds, over one model's budgets."""

    model: str | None
    rankings: list[Ranking]
    ranking_disagreement: dict[str, bool | None]
    # Budgets and pairs whose disparity and rate difference have opposite signs.
    opposite: list[tuple[float | None, tuple[str, str]]]
    equal_gap_claims: list[EqualGapClaim]
    correlations: dict[tuple[str, str], list[Correlation]]


class _Point(NamedTuple):
    """A pair at one budget: the disparity beside what parity looks at."""

    epsilon: float | None
    groups: tuple[str, str]
    disparity: float
    rate_difference: float  # first minus second, as the disparity


def comparisons(audit: Audit) -> list[Comparison]:
    """PCER by the gap beside parity and odds, for each model of an audit."""
    compared = []
    for published in audit.published:
        settings = [each for each in audit.settings if each.model == published.model]
        compared.append(_comparison(settings, published))
    return compared


def _comparison(
    settings: Sequence[SettingResult], published: AsPublished
) -> Comparison:
    rankings = _rankings(settings, published)
    points = _points(settings, published)
    claims = []
    for setting in settings:
        for pair in setting.pairs:
            claims += _claims(setting, pair)
    return Comparison(
        model=published.model,
        rankings=rankings,
        ranking_disagreement=_disagreement(rankings),
        opposite=[
            (point.epsilon, point.groups)
            for point in points
            if point.disparity * point.rate_difference < 0
        ],
        equal_gap_claims=claims,
        correlations=_correlations(points),
    )


def _correlations(
    points: Sequence[_Point],
) -> dict[tuple[str, str], list[Correlation]]:
    """By pair, over each of ``SWEEPS`` with other points than those before."""
    correlations: dict[tuple[str, str], list[Correlation]] = {}
    for groups in dict.fromkeys(point.groups for point in points):
        of_pair = [point for point in points if point.groups == groups]
        by_points: dict[tuple[float | None, ...], Correlation] = {}
        for sweep in SWEEPS:
            inside = [point for point in of_pair if sweep.has(point.epsilon)]
            places = tuple(point.epsilon for point in inside)
            by_points.setdefault(places, _correlation(sweep.name, inside))
        correlations[groups] = [*by_points.values()]
    return correlations


def _correlation(over: str, points: Sequence[_Point]) -> Correlation:
    return Correlation(
        over=over,
        r=pearson(
            np.array([point.disparity for point in points]),
            np.array([point.rate_difference for point in points]),
        ),
        n_points=len(points),
    )


def _rankings(
    settings: Sequence[SettingResult], published: AsPublished
) -> list[Ranking]:
    """By disparity and by its null, of the gap; and by the gaps of outcomes."""
    disparity = []
    null = []
    for setting in published.settings:
        disparities = [pair.pcer_disparity for pair in setting.pairs]
        disparity.append(spread([each.mean for each in disparities]))
        null.append(spread([each.null_mean for each in disparities]))
    parity = [setting.demographic_parity_gap.mean for setting in settings]
    odds = [setting.equalized_odds_gap.mean for setting in settings]
    return [
        _ranking("pcer_disparity", settings, disparity),
        _ranking("pcer_disparity_null", settings, null),
        _ranking("demographic_parity_gap", settings, parity),
        _ranking("equalized_odds_gap", settings, odds),
    ]


def _ranking(
    measure: str, settings: Sequence[SettingResult], values: Sequence[float | None]
) -> Ranking:
    ranked = sorted(
        (value, setting.budget, setting.epsilon)
        for value, setting in zip(values, settings, strict=True)
        if value is not None
    )
    best = smallest([setting.epsilon for setting in settings], values)
    return Ranking(measure, [epsilon for *_, epsilon in ranked], best)


def _disagreement(rankings: Sequence[Ranking]) -> dict[str, bool | None]:
    """By measure, whether it shares no best budget with the first; None: not known."""
    first, *others = rankings
    best = set(first.best)
    disagreement: dict[str, bool | None] = {}
    for other in others:
        is_known = best and other.best
        disagreement[other.measure] = best.isdisjoint(other.best) if is_known else None
    return disagreement


def _points(settings: Sequence[SettingResult], published: AsPublished) -> list[_Point]:
    """Every pair at every budget where its numbers are known."""
    points = []
    for setting, of_paper in zip(settings, published.settings, strict=True):
        for pair, paper_pair in zip(setting.pairs, of_paper.pairs, strict=True):
            first, second = (setting.groups[name].benefit.mean for name in pair.groups)
            disparity = paper_pair.pcer_disparity.mean
            if disparity is not None and first is not None and second is not None:
                points.append(
                    _Point(setting.epsilon, pair.groups, disparity, first - second)
                )
    return points


def _claims(setting: SettingResult, pair: PairResult) -> list[EqualGapClaim]:
    """The claim of a pair at a budget; none where exposures were not compared."""
    difference = pair.exposure.difference.value
    if pair.exposure.p_value is None or difference is None:
        return []
    refuted = bool(pair.exposure.group)
    return [EqualGapClaim(setting.epsilon, pair.groups, difference, refuted)]


def pearson(x: FloatArray, y: FloatArray) -> float | None:
    """Pearson's r where both are known; None of fewer than three, or of a constant."""
    is_known = np.isfinite(x) & np.isfinite(y)
    if is_known.sum() < 3:
        return None
    columns = (x[is_known], y[is_known])
    for column in columns:
        if np.ptp(column) <= TIE_TOLERANCE * np.abs(column).max():
            return None
    return float(np.corrcoef(*columns)[0, 1])


class Exceeding(NamedTuple):
    """Proposition 1 as a measurement: cells (setting, group) of an advantage."""

    n_above: int  # where it is above the gap
    n_beyond_errors: int  # of those, beyond the errors of both (one-sided, Holm)
    n_cells: int


class AttackAgreement(NamedTuple):
    """One attack beside the overfitting gap: correlations, and counts over settings."""

    attack: str
    correlation: float | None
    n_settings: int
    n_same_sign: int
    n_larger_disparity: int
    disparity_correlation: float | None
    exceeding: Exceeding | None  # None for an attack that is no advantage


class _OverSettings(NamedTuple):
    """One attack's numbers, (setting, group) or (setting, pair)."""

    exposure: FloatArray  # mean over seeds
    error: FloatArray
    disparity: FloatArray  # mean over seeds; NaN where there is none by seed


def agreement(audit: Audit) -> list[AttackAgreement]:
    """Every attack that the audited release has beside the gap.

    Pairs go by the audit's own names, which may be spelt otherwise than in the release.
    """
    release = audit.sources[0]
    names = audit.subject.groups
    pairs = []
    for pair in audit.settings[0].pairs:
        pairs.append([names.index(name) for name in pair.groups])
    variance_inflation = release.kept(ReleaseArrays).variance_inflation
    by_attack = measure_attacks(
        panels(release), audit.plan, variance_inflation=variance_inflation
    )
    gap = _over_settings(by_attack.pop(GAP.name), pairs)
    return [
        _agreement_of(name, _over_settings(by_attack[name], pairs), gap)
        for name in sorted(by_attack)
    ]


def _agreement_of(
    name: str, attack: _OverSettings, gap: _OverSettings
) -> AttackAgreement:
    ours = gap.disparity
    theirs = attack.disparity
    exceeding = None
    if attack_kind(name).scale.is_advantage:
        excess = attack.exposure - gap.exposure
        p = holm(upper_p(excess, np.hypot(attack.error, gap.error)))
        exceeding = Exceeding(
            n_above=int((excess > 0).sum()),
            n_beyond_errors=int((p <= SIGNIFICANCE).sum()),
            n_cells=int(np.isfinite(excess).sum()),
        )
    return AttackAgreement(
        attack=name,
        correlation=pearson(gap.exposure, attack.exposure),
        n_settings=int(np.isfinite(ours * theirs).sum()),
        n_same_sign=int((ours * theirs > 0).sum()),
        n_larger_disparity=int((np.abs(theirs) >= np.abs(ours)).sum()),
        disparity_correlation=pearson(ours, theirs),
        exceeding=exceeding,
    )


def _over_settings(
    measured: Sequence[Measured], pairs: Sequence[Sequence[int]]
) -> _OverSettings:
    rows = [_of_setting(setting, pairs) for setting in measured]
    columns = zip(*rows, strict=True)
    return _OverSettings(*[np.stack(column) for column in columns])


def _of_setting(measured: Measured, pairs: Sequence[Sequence[int]]) -> _OverSettings:
    """One setting's row: the gap is clipped as published, all else signed."""
    first, second = np.array(pairs).T
    exposure = measured.exposure
    if measured.attack_kind == GAP:
        exposure = np.maximum(exposure, 0.0)
    error = np.full(exposure.shape[1], np.nan)
    if measured.exposed is not None:
        error = np.sqrt(measured.exposed.variance)
    by_seed = metrics.pcer(measured.benefit, measured.exposure, floor=measured.floor)
    ratio = by_seed.mean(axis=0)
    difference = ratio[first] - ratio[second]
    disparity = np.where(measured.is_pooled, np.nan, difference)
    return _OverSettings(exposure.mean(axis=0), error, disparity)
