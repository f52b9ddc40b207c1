"""Which setting holds the user's limits and should be trained?

Called by ``pcer.recommend`` and ``pcer recommend``.

A setting holds where each bound is inside its limit, at 5% over the settings: all must
hold, so groups and limits need no correction. It breaks where some bound is outside the
other way, at 5% over settings, groups (or pairs, where these are asked for and more)
and limits (one of exposure counts for each deciding attack); else it is open. Point
estimates are never compared with a limit: ``python -m benchmarks.planner choices``
counts how often either is wrong.

The numbers of each setting, their bounds and what they show are in ``candidates``, the
price of choosing in ``price``. To add a limit: see ``candidates``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pcer.auditing.audit import Path
from pcer.auditing.record import Result
from pcer.deciding.candidates import (
    ACCURACY,
    DIFFERENCE,
    DISPARITY,
    EXPOSURE,
    LIMITS,
    ODDS,
    OUTCOMES,
    SPENT,
    UNKNOWN_MARGIN,
    Candidate,
    Checked,
    Levels,
    Margin,
    SettingAnswer,
    answer_of,
    answer_setting,
    candidates,
)
from pcer.deciding.compare import ComparedSetting
from pcer.deciding.price import Price, price_of
from pcer.errors import InputError
from pcer.files import parse_record
from pcer.measuring import choose_attacks
from pcer.measuring.plan import Plan, Policy
from pcer.measuring.release_changes import CONFIDENCE
from pcer.release.attack_kinds import attack_kind
from pcer.release.file import Release, releases_at
from pcer.statistics import SIGNIFICANCE
from pcer.wording import listed, say

# Errors of the paired difference: settings that are nearer to the best are tied.
TIE_ERRORS: Final = 1.64


class Recommendation(Result):
    """The result of ``pcer.recommend``.

    Attributes:
        choice: the setting to train; None where none is shown to hold every limit.
        nearest: without a choice, the setting that comes nearest, in standard errors.
        attack: the first of those that exposure is held against.
    """

    format: Literal["pcer-recommendation"] = "pcer-recommendation"
    version: Literal[2] = 2
    choice: ComparedSetting | None
    settings: list[SettingAnswer]
    nearest: ComparedSetting | None
    limits: dict[str, float]
    attack: str
    headline: str
    account: list[str]
    price: Price
    release_sha256: list[str]

    @property
    def title(self) -> str:
        """How many settings hold all limits, break one, or are open."""
        n_settings = len(self.settings)
        answers = [setting.answer for setting in self.settings]
        n_hold = answers.count("holds")
        n_break = answers.count("breaks")
        n_open = answers.count("open")
        counts = f"Hold: {n_hold}, break: {n_break}, open: {n_open}"
        return f"Which of {n_settings} settings? {counts}"


def recommend(  # noqa: PLR0913 # a front door
    releases: Release | Path | Sequence[Release | Path],
    *,
    policy: Policy | None = None,
    largest_exposure: float | None = None,
    largest_difference: float | None = None,
    largest_outcome_gap: float | None = None,
    largest_odds_gap: float | None = None,
    largest_disparity: float | None = None,
    most_spent: float | None = None,
    least_accuracy: float | None = None,
) -> Recommendation:
    """Say which setting to train: the most accurate of those that hold every limit.

    A setting holds a limit where all its bounds are inside. Settings that are not shown
    to be less accurate are tied with it. Of these the one with the smallest epsilon is
    chosen, then the one whose people spend least, then the most accurate.

    Args:
        releases: of one attribute of the same records, or their paths; two or more
            settings.
        policy: limits from a policy file; those named here replace them.
        largest_exposure: most that an attacker may be right, of 100 (coin: 50), in any
            group.
        largest_difference: most by which that may differ between two groups, in points.
        largest_outcome_gap: most by which outcomes of two groups may differ, in points
            of 100.
        largest_odds_gap: the same among people with the same true outcome: of true and
            of false positive rates, the larger difference.
        largest_disparity: most that the size of the paper's Delta PCER may be, by the
            overfitting gap; a setting whose gaps are not detected stays open.
        most_spent: most epsilon that a group's people may spend on average, by receipts
            or promise.
        least_accuracy: least accuracy on test records, of 100.

    Raises:
        InputError: no limit, one that no release can answer, or a single setting.
    """
    limits = _limits(
        policy,
        {
            EXPOSURE: largest_exposure,
            DIFFERENCE: largest_difference,
            OUTCOMES: largest_outcome_gap,
            ODDS: largest_odds_gap,
            DISPARITY: largest_disparity,
            SPENT: most_spent,
            ACCURACY: least_accuracy,
        },
    )
    settings = candidates([*releases_at(releases)])
    levels = _levels(settings, limits)
    numbers = [held_against(limits, setting.numbers(levels)) for setting in settings]
    _require_answerable(limits, numbers)
    answers = [
        answer_setting(setting, of_setting, levels)
        for setting, of_setting in zip(settings, numbers, strict=True)
    ]
    tied = choose(settings, numbers)
    position = tied[0] if tied else _nearest(numbers)
    named = ComparedSetting(
        model=settings[position].model, epsilon=settings[position].epsilon
    )
    if tied:
        headline = _headline(tied, settings, numbers)
    else:
        why = answers[position].sentence
        headline = say("recommend", "none", name=named.name.full, why=why)
    return Recommendation(
        choice=named if tied else None,
        settings=answers,
        nearest=None if tied else named,
        limits=limits,
        attack=levels.attacks[0],
        headline=headline,
        account=_account(tied, settings, levels.attacks),
        price=price_of(settings),
        release_sha256=[*dict.fromkeys(each.release.sha256 for each in settings)],
    )


def _limits(
    policy: Policy | None, arguments: Mapping[str, float | None]
) -> dict[str, float]:
    """The limits of the policy, replaced by those named in the call; one at least."""
    named = {name: limit for name, limit in arguments.items() if limit is not None}
    checked = parse_record(Policy, named, file="the limits")
    of_call = checked.model_dump(include={*named})
    whole_policy = Policy() if policy is None else Policy(**dict(policy))
    of_policy = whole_policy.model_dump(include={*LIMITS}, exclude_none=True)
    limits = of_policy | of_call
    if not limits:
        raise InputError(
            "name a limit to choose by, such as largest_exposure=52.", field="limits"
        )
    return limits


def _levels(settings: Sequence[Candidate], limits: Iterable[str]) -> Levels:
    """Chances of an error, divided over all bounds; two groups count as two pairs."""
    attacks = choose_attacks.deciding_attacks(
        [setting.panel for setting in settings], Plan()
    )
    n_attacks = len(attacks)
    n_groups = len(settings[0].panel.group_names)
    n_pairs = max(n_groups, math.comb(n_groups, 2))
    n_bounds = {
        EXPOSURE: n_attacks * n_groups,
        DIFFERENCE: n_attacks * n_pairs,
        OUTCOMES: n_pairs,
        ODDS: 2 * n_pairs,  # of either rate
        DISPARITY: n_pairs,
        SPENT: n_groups,
        ACCURACY: n_groups,
    }
    n_breaks = len(settings) * sum(n_bounds[name] for name in limits)
    return Levels(
        hold=SIGNIFICANCE / len(settings),
        breaks=SIGNIFICANCE / n_breaks,
        attacks=attacks,
    )


def held_against(
    limits: Mapping[str, float], numbers: Iterable[Checked]
) -> list[Checked]:
    """The numbers of a setting beside the limits."""
    return [
        checked.model_copy(update={"limit": limits.get(checked.what)})
        for checked in numbers
    ]


def _require_answerable(
    limits: Iterable[str], numbers: Sequence[Sequence[Checked]]
) -> None:
    """Raise InputError where no setting has a bound that a limit is about."""
    bounded = set()
    for of_setting in numbers:
        bounded |= {each.what for each in of_setting if each.upper is not None}
    for name in limits:
        if name not in {*bounded, DISPARITY}:  # which data may not show anywhere
            lack = say("recommend", f"lacks_{name}")
            raise InputError(f"no release can answer {name}; {lack}.", field=name)


def largest_number(
    numbers: Sequence[Checked], what: str, attack: str | None = None
) -> Checked | None:
    """The number of one kind with the largest value; None where none is known."""
    known = [
        checked
        for checked in numbers
        if (checked.what, checked.attack) == (what, attack)
        and checked.value is not None
    ]
    return max(known, key=lambda checked: checked.value or 0.0, default=None)


class Preference(NamedTuple):
    """What decides among tied settings, the lowest first."""

    epsilon: float
    spent: float
    minus_accuracy: float


def preference(setting: Candidate, numbers: Sequence[Checked]) -> Preference:
    """A setting's rank among tied ones; what is spent is its epsilon where unknown."""
    epsilon = math.inf if setting.epsilon is None else setting.epsilon
    spent = largest_number(numbers, SPENT)
    return Preference(
        epsilon=epsilon,
        spent=epsilon if spent is None else spent.value or 0.0,
        minus_accuracy=-setting.mean_accuracy().value[0],
    )


def choose(
    settings: Sequence[Candidate], numbers: Sequence[Sequence[Checked]]
) -> list[int]:
    """Positions of those that hold and are tied with the best, the choice first."""
    holding = [
        position
        for position, of_setting in enumerate(numbers)
        if answer_of(of_setting) == "holds"
    ]
    if not holding:
        return []
    best = max(holding, key=lambda k: settings[k].mean_accuracy().value[0])
    tied = []
    for position in holding:
        behind = settings[best].accuracy_above(settings[position])
        if behind.value[0] <= TIE_ERRORS * math.sqrt(behind.variance[0]):
            tied.append(position)
    return sorted(tied, key=lambda k: preference(settings[k], numbers[k]))


def _nearest(numbers: Sequence[Sequence[Checked]]) -> int:
    """Position of the setting whose least margin is the largest."""
    margins = [_nearness(of_setting) for of_setting in numbers]
    return margins.index(max(margins))


def _nearness(numbers: Sequence[Checked]) -> Margin:
    """The least margin of a setting; what is not known is neither near nor far."""
    known = []
    for checked in numbers:
        is_unknown = checked.value is None and checked.answer == "open"
        if checked.limit is not None and not is_unknown:
            known.append(checked.inside)
    return min(known, default=UNKNOWN_MARGIN)


def _headline(
    tied: Sequence[int],
    settings: Sequence[Candidate],
    numbers: Sequence[Sequence[Checked]],
) -> str:
    """Which setting to train, and what sets it apart from the next that is tied."""
    name = settings[tied[0]].name.full
    if len(tied) == 1:
        return say("recommend", "chosen", name=name)
    first, second = (preference(settings[k], numbers[k]) for k in tied[:2])
    reason = "tied_right"
    if first.epsilon < second.epsilon:
        reason = "tied_epsilon"
    elif first.spent < second.spent:
        reason = "tied_spent"
    why = say("recommend", reason)
    return say("recommend", "tied", name=name, n=len(tied), why=why)


def _account(
    tied: Sequence[int], settings: Sequence[Candidate], attacks: Sequence[str]
) -> list[str]:
    """What is given up, and what the numbers are about."""
    account = []
    if tied and tied[0] > 0:
        account.append(_beside_first(settings[0], settings[tied[0]]))
    phrases = [attack_kind(attack).phrase for attack in attacks]
    account.append(say("recommend", "about", attacks=listed(phrases)))
    return account


def _beside_first(first: Candidate, chosen: Candidate) -> str:
    """By how much the choice is less accurate than the first setting, at most."""
    lower = first.accuracy_above(chosen)
    most = (lower.value + lower.half_width(1 - CONFIDENCE))[0]
    rounded_up = math.ceil(100 * most) / 100
    unit = "point" if abs(rounded_up) == 1 else "points"
    return say(
        "recommend",
        "lower" if rounded_up > 0 else "higher",
        points=f"{abs(rounded_up):g} {unit}",
        first=first.name.full,
    )
