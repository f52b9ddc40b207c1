"""Which setting should be trained?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pcer.auditing.audit import Path
from pcer.auditing.record import Result
from pcer.deciding.candidates import (
    DIFFERENCE,
    EXPOSURE,
    LIMITS,
    OUTCOMES,
    SPENT,
    Candidate,
    Checked,
    Levels,
    SettingAnswer,
    answer_of,
    candidates,
)
from pcer.deciding.compare import ComparedSetting
from pcer.deciding.price import Price, price_of
from pcer.errors import InputError
from pcer.files import parse_record
from pcer.measuring import choose_attacks
from pcer.measuring.contrasts import CONFIDENCE
from pcer.measuring.plan import Plan, Policy
from pcer.release.attack_kinds import proxy_named
from pcer.release.file import Release
from pcer.release.reading import releases_at
from pcer.statistics import SIGNIFICANCE
from pcer.wording import listed, say

TIE_ERRORS: Final = (
    1.64  # of the paired difference: settings that are nearer to the best are tied
)


class Recommendation(Result):
    """The result of ``pcer.recommend``.

    Attributes:
        choice: the setting to train; None where none is shown to hold every limit.
        nearest: without a choice, the setting that comes nearest, in standard errors.
        cost: the first of the attacks that exposure is held against.
    """

    format: Literal["pcer-recommendation"] = "pcer-recommendation"
    version: Literal[1] = 1
    choice: ComparedSetting | None
    settings: list[SettingAnswer]
    nearest: ComparedSetting | None
    limits: dict[str, float]
    cost: str
    headline: str
    account: list[str]
    price: Price
    release_sha256: list[str]

    @property
    def title(self) -> str:
        """How many settings hold, break and are open."""
        given = [str(setting.answer) for setting in self.settings]
        n_hold, n_break, n_open = map(given.count, ("holds", "breaks", "open"))
        return f"Which of {len(given)} settings? Hold: {n_hold}, break: {n_break}, open: {n_open}"


def recommend(
    releases: Release | Path | Sequence[Release | Path],
    *,
    policy: Policy | None = None,
    largest_exposure: float | None = None,
    largest_difference: float | None = None,
    largest_outcome_gap: float | None = None,
    most_spent: float | None = None,
    least_accuracy: float | None = None,
) -> Recommendation:
    """Say which setting to train: the most accurate of those whose bounds hold every limit.

    Settings that are not shown to be less accurate are tied with it. Of these the one
    with the smallest epsilon is chosen, then the one whose people spend least, then the
    most accurate.

    Args:
        releases: of one attribute of the same records, or their paths; two or more
            settings.
        policy: limits from a policy file; those named here replace them.
        largest_exposure: most that an attacker may be right, of 100 (coin: 50), in any
            group.
        largest_difference: most by which that may differ between two groups, in points.
        largest_outcome_gap: most by which outcomes of two groups may differ, in points
            of 100.
        most_spent: most epsilon that a group's people may spend on average, by receipts
            or promise.
        least_accuracy: least accuracy on test records, of 100.

    Raises:
        InputError: no limit, one that no release can answer, or a single setting.
    """
    limits = (
        largest_exposure,
        largest_difference,
        largest_outcome_gap,
        most_spent,
        least_accuracy,
    )
    given = {name: x for name, x in zip(LIMITS, limits, strict=True) if x is not None}
    own = parse_record(Policy, given, file="the limits").model_dump(include={*given})
    asked = Policy(**dict(policy or {})).model_dump(
        include={*LIMITS}, exclude_none=True
    )
    if not (asked := asked | own):
        raise InputError(
            "name a limit to choose by, such as largest_exposure=52.", field="limits"
        )
    settings = candidates([*releases_at(releases)])
    attacks = choose_attacks.deciding_attacks([each.panel for each in settings], Plan())
    n_groups = len(settings[0].panel.group_names)
    n_pairs = max(n_groups, math.comb(n_groups, 2))
    k = len(attacks)
    n_cells = {EXPOSURE: k * n_groups, DIFFERENCE: k * n_pairs, OUTCOMES: n_pairs}
    n_breaks = len(settings) * sum(n_cells.get(name, n_groups) for name in asked)
    levels = Levels(SIGNIFICANCE / len(settings), SIGNIFICANCE / n_breaks, attacks)
    numbers = [held_against(asked, each.numbers(levels)) for each in settings]
    for name in asked:
        if all(x.upper is None for row in numbers for x in row if x.what == name):
            lacks = say("recommend", f"lacks_{name}")
            raise InputError(f"no release can answer {name}; {lacks}.", field=name)
    answers = [
        each.answered(row, levels) for each, row in zip(settings, numbers, strict=True)
    ]
    return _concluded(settings, answers, asked, attacks)


def held_against(
    limits: Mapping[str, float], numbers: Iterable[Checked]
) -> list[Checked]:
    """The numbers of a setting beside the limits."""
    return [x.model_copy(update={"limit": limits.get(x.what)}) for x in numbers]


def largest_number(
    numbers: Sequence[Checked], what: str, attack: str | None = None
) -> Checked | None:
    """The number of one kind with the largest value; None where none is known."""
    own = [
        x
        for x in numbers
        if (x.what, x.attack) == (what, attack) and x.value is not None
    ]
    return max(own, key=lambda x: x.value or 0.0, default=None)


def preference(
    setting: Candidate, numbers: Sequence[Checked]
) -> tuple[float, float, float]:
    """What decides among tied settings, the lowest first: epsilon, spent, then accuracy."""
    spent = largest_number(numbers, SPENT)
    epsilon = setting.epsilon or math.inf
    return (
        epsilon,
        epsilon if spent is None else spent.value or 0.0,
        -setting.versus().value[0],
    )


def choose(
    settings: Sequence[Candidate], numbers: Sequence[Sequence[Checked]]
) -> list[int]:
    """Positions of settings that hold and are tied with the most accurate, the choice first."""
    holding = [k for k, own in enumerate(numbers) if answer_of(own) == "holds"]
    best = max(holding, key=lambda k: settings[k].versus().value[0], default=0)
    behind = {k: settings[best].versus(settings[k]) for k in holding}
    tied = [
        k
        for k, x in behind.items()
        if x.value[0] <= TIE_ERRORS * math.sqrt(x.variance[0])
    ]
    return sorted(tied, key=lambda k: preference(settings[k], numbers[k]))


def _concluded(
    settings: Sequence[Candidate],
    answers: list[SettingAnswer],
    limits: dict[str, float],
    attacks: Sequence[str],
) -> Recommendation:
    """The choice among settings that hold, or the nearest; and the price."""
    account = list[str]()
    tied = choose(settings, [each.numbers for each in answers])

    def inside(
        k: int,
    ) -> tuple[float, float]:  # what is not known is neither near nor far
        own = [x for x in answers[k].numbers if x.limit is not None]
        known = (x.inside for x in own if (x.value, x.answer) != (None, "open"))
        return min(known, default=(-math.inf, -math.inf))

    at, form = (
        (tied[0], "chosen") if tied else (max(range(len(answers)), key=inside), "none")
    )
    told = answers[at]
    why = answers[at].sentence
    if len(tied) > 1:
        first, second = (preference(settings[k], answers[k].numbers) for k in tied[:2])
        reason = (
            "epsilon"
            if first[0] < second[0]
            else "spent"
            if first[1] < second[1]
            else "right"
        )
        form = "tied"
        why = say("recommend", f"tied_{reason}")
    if tied and at > 0:
        lower = settings[0].versus(settings[at])
        end = math.ceil(100 * (lower.value + lower.half_width(1 - CONFIDENCE))[0]) / 100
        size = f"{abs(end):g} point{'s' * (abs(end) != 1)}"
        facts = {"points": size, "first": answers[0].name}
        account.append(say("recommend", "lower" if end > 0 else "higher", **facts))
    phrases = listed([proxy_named(attack).phrase for attack in attacks])
    setting = ComparedSetting(model=told.model, epsilon=told.epsilon)
    return Recommendation(
        choice=setting if tied else None,
        settings=answers,
        nearest=None if tied else setting,
        limits=limits,
        cost=attacks[0],
        headline=say("recommend", form, name=told.name, n=len(tied), why=why),
        account=[*account, say("recommend", "about", attacks=phrases)],
        price=price_of(settings),
        release_sha256=[*dict.fromkeys(each.release.sha256 for each in settings)],
    )
