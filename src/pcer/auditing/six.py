"""Which six answers does a setting give, each always, with what size?

``audit`` asks ``six_answers`` once a setting, when all numbers stand; the answers
are chosen here and put into words by ``sentences``. They read nothing but the audit, so
that every output and every reader of the file has the same. To add a figure: a field of
its record (answers.py), filled here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from pcer.auditing.answers import (
    AboutErrors,
    AboutPaper,
    Answers,
    BothAnswer,
    BothPair,
    EasierAnswer,
    EasierPair,
    Finding,
    FoundSize,
    MadeUp,
    PaperAnswer,
    PaperPair,
    Served,
    ServedAnswer,
    ServedPair,
    SizedAnswer,
    Spotted,
    SpottingAnswer,
    TrustAnswer,
    Withdrawn,
)
from pcer.auditing.record import Audit, GroupResult, PairResult, SettingResult
from pcer.measuring import sizes
from pcer.measuring.sizes import COIN, SOMEWHAT_FROM, Level, Size
from pcer.paper.records import PublishedPair
from pcer.release.attack_kinds import GAP
from pcer.statistics import SIGNIFICANCE
from pcer.wording import largest

Why = Literal["reason", "stronger_attack", "bound"]
# Where a finding stands among others that are as large.
LEVEL_RANKS: Final = {
    Level.BARELY: Size.SLIGHT.rank,
    Level.SOMEWHAT: Size.OPEN.rank,
    Level.OFTEN: Size.CLEAR.rank,
    Level.ALMOST_ALWAYS: Size.FAR.rank,
}


def six_answers(audit: Audit, setting: SettingResult) -> Answers:
    """The six answers of a setting, whose ``answers`` are not read."""
    spotting = _spotting(audit, setting)
    easier = _easier(audit, setting)
    served = _served(audit, setting)
    found = _found(spotting, easier, served)
    return Answers(
        spotting=spotting,
        easier=easier,
        served=served,
        both=_both(setting),
        paper=_paper(audit, setting),
        trust=_trust(audit, setting, found),
        found=found,
    )


# Can an attacker tell who was in the training data?


def _spotting(audit: Audit, setting: SettingResult) -> SpottingAnswer:
    per_success = audit.attack_kind.scale.per_success
    eligible = {name: one for name, one in setting.groups.items() if not one.too_few}
    groups = [_spotted(name, one, per_success) for name, one in eligible.items()]
    groups.sort(key=lambda group: group.success or COIN)
    intervals = [_interval_of(group) for group in groups]
    level = sizes.level_of(intervals, is_weak=audit.stronger_attack is not None)

    why: Literal["reason", "stronger_attack", "bound", "unit"] | None = None
    if not _is_told(audit, setting):
        why = "reason"
    elif per_success is None:
        why = "unit"
    elif level is Level.CANNOT_TELL:
        why = "bound" if audit.stronger_attack is None else "stronger_attack"
    return SpottingAnswer(
        answer=Level.CANNOT_TELL if why else level,
        why=why,
        attack=audit.attack,
        stronger_attack=audit.stronger_attack,
        groups=groups,
        is_ranked=any(pair.exposure.group for pair in setting.pairs),
        open_groups=[
            group.group
            for group, interval in zip(groups, intervals, strict=True)
            if not group.detected and not interval.high <= SOMEWHAT_FROM
        ],
        too_few=[name for name in setting.groups if name not in eligible],
    )


def _is_told(audit: Audit, setting: SettingResult) -> bool:
    """Whether exposures are tested, and nothing contradicts them."""
    is_tested = any(group.p_value is not None for group in setting.groups.values())
    return is_tested and not _contradictions(audit)


def _contradictions(audit: Audit) -> list[str]:
    return [found.sentence for found in audit.declarations if found.caps_verdict]


def _spotted(name: str, group: GroupResult, per_success: float | None) -> Spotted:
    """A group's exposure as an attacker's success."""
    success = interval = None
    if per_success is not None and group.exposure.value is not None:
        success = COIN + per_success * group.exposure.value
    if per_success is not None and group.exposure.interval is not None:
        low, high = group.exposure.interval
        interval = (COIN + per_success * low, COIN + per_success * high)
    return Spotted(
        group=name, success=success, interval=interval, detected=group.detected
    )


def _interval_of(group: Spotted) -> sizes.Spotted:
    low, high = group.interval or (math.nan, math.nan)
    return sizes.Spotted(is_detected=group.detected, low=low, high=high)


# Is one group easier to spot?


def _easier(audit: Audit, setting: SettingResult) -> EasierAnswer:
    given = {pair.exposure.answer for pair in setting.pairs}
    answer: Literal["yes", "no", "not_shown", "none_detected", "cannot_tell"]
    answer = "not_shown"
    if "differs" in given:
        answer = "yes"
    elif all(pair.equivalence and pair.equivalence.shown for pair in setting.pairs):
        answer = "no"
    elif given == {"cannot_tell"}:
        answer = "cannot_tell"
    elif "no_difference_shown" not in given:
        answer = "none_detected"
    return EasierAnswer(
        answer=answer,
        why=_why_open(audit, setting, answer),
        main_attack=audit.attack,
        pairs=[
            EasierPair(
                groups=_named_first(pair, pair.exposure),
                answer=pair.exposure.answer,
                size=pair.exposure.size,
                by_attack=pair.exposure.by_attack,
                p_value=pair.exposure.p_value,
                contradicted=pair.exposure.contradicted,
                downgraded=pair.exposure.downgraded,
            )
            for pair in _largest_first(setting.pairs, "exposure")
        ],
    )


def _why_open(audit: Audit, setting: SettingResult, answer: str) -> Why | None:
    """Why a difference that is not shown may still be there."""
    if answer == "cannot_tell":
        return "reason"
    if answer not in ("not_shown", "none_detected"):
        return None
    if audit.stronger_attack is not None:
        return "stronger_attack"
    if answer == "none_detected":
        bounds = [group.exposure.upper_bound for group in setting.groups.values()]
    else:
        bounds = [pair.exposure.difference.upper_bound for pair in setting.pairs]
    bound = largest(bounds)
    points = audit.attack_kind.scale.per_success or math.inf
    is_excluded = bound is not None and points * bound <= SOMEWHAT_FROM - COIN
    return None if is_excluded else "bound"


def _largest_first(pairs: Sequence[PairResult], name: str) -> list[PairResult]:
    """Those that differ first; of as large ones the widest difference."""

    def rank(pair: PairResult) -> tuple[int, float]:
        answer = _sized(pair, name)
        size = -1 if answer.size is None else answer.size.rank
        return size, abs(answer.difference.value or 0.0)

    return sorted(pairs, key=rank, reverse=True)


def _sized(pair: PairResult, name: str) -> SizedAnswer:
    by_name: dict[str, SizedAnswer] = {
        "exposure": pair.exposure,
        "outcomes": pair.outcomes,
        "wrongly": pair.wrongly,
        "missed": pair.missed,
    }
    return by_name[name]


def _named_first(pair: PairResult, answer: SizedAnswer) -> tuple[str, str]:
    first, second = pair.groups
    return (second, first) if answer.group == second else (first, second)


# Is one group worse served?


def _served(audit: Audit, setting: SettingResult) -> ServedAnswer:
    error = setting.pairs[0].wrongly.error
    is_harm = error == "false_positive_rate"
    other = "false_negative_rate" if is_harm else "false_positive_rate"
    groups = []
    for name, group in setting.groups.items():
        right = group.true_positive_rate.mean
        rates = {
            "false_positive_rate": group.false_positive_rate.mean,
            "false_negative_rate": None if right is None else 1 - right,
        }
        served = Served(
            group=name,
            wrongly=rates[error],
            missed=rates[other],
            rate=group.benefit.mean,
            positive_rate=group.positive_rate.mean,
            were=group.true_rate.mean,
            right=group.accuracy,
        )
        groups.append(served)
    return ServedAnswer(
        error=error,
        other_error=other,
        benefit=audit.plan.benefit,
        wrongly=[
            _served_pair(pair, pair.wrongly, pair.wrongly.answer)
            for pair in _largest_first(setting.pairs, "wrongly")
        ],
        missed=[
            _served_pair(pair, pair.missed, pair.missed.answer)
            for pair in _largest_first(setting.pairs, "missed")
        ],
        rates=[
            _served_pair(pair, pair.outcomes, pair.outcomes.answer)
            for pair in _largest_first(setting.pairs, "outcomes")
        ],
        groups=groups,
    )


def _served_pair(
    pair: PairResult, found: SizedAnswer, answer: AboutErrors
) -> ServedPair:
    return ServedPair(
        groups=_named_first(pair, found),
        answer=answer,
        size=found.size,
        difference=found.difference,
        p_value=found.p_value,
        downgraded=found.downgraded,
    )


# Is it the same group in both?

# Of several pairs the first of these that some pair has; "no" only where all have it.
BOTH_ORDER: Final = ("yes", "not_shown", "cannot_tell", "not_given", "no")


def _both(setting: SettingResult) -> BothAnswer:
    pairs = [_both_pair(pair) for pair in setting.pairs]
    pairs.sort(key=lambda pair: BOTH_ORDER.index(pair.answer))
    return BothAnswer(answer=pairs[0].answer, pairs=pairs)


def _both_pair(pair: PairResult) -> BothPair:
    exposure = pair.exposure
    outcomes = pair.outcomes
    group = pair.double_disadvantage.group
    halves: list[Literal["exposure", "outcomes"]] = []
    if exposure.group is None:
        halves.append("exposure")
    if outcomes.group is None:
        halves.append("outcomes")

    answer: Literal["yes", "no", "not_shown", "not_given", "cannot_tell"] = "not_shown"
    why: Literal["different_groups", "equal_within_margin"] | None = None
    if group is not None:
        answer = "yes"
    elif "cannot_tell" in (exposure.answer, outcomes.answer):
        answer = "cannot_tell"
    elif outcomes.answer == "not_given":
        answer = "not_given"
    elif not halves and exposure.group != outcomes.group:
        answer = "no"
        why = "different_groups"
    elif pair.equivalence is not None and pair.equivalence.shown:
        answer = "no"
        why = "equal_within_margin"
    return BothPair(
        groups=pair.groups,
        answer=answer,
        why=why,
        group=group,
        not_shown=halves,
        exposure_size=exposure.size,
        outcomes_size=outcomes.size,
        downgraded=pair.double_disadvantage.downgraded,
    )


# Does the paper's number add evidence about privacy?

PAPER_ORDER: Final[tuple[AboutPaper, ...]] = (
    "memorised_not_whose",
    "nothing_detected",
    "outcomes_alone",
    "cannot_tell",
    "not_defined",
)


def _paper(audit: Audit, setting: SettingResult) -> PaperAnswer:
    pairs = []
    for published in _published_pairs(audit, setting):
        disparity = published.pcer_disparity
        pairs.append(
            PaperPair(
                groups=published.groups,
                answer=_paper_answer(audit, setting, published),
                value=disparity.mean,
                interval=disparity.ci,
                null_mean=disparity.null_mean,
                null_interval=disparity.null_interval,
            )
        )
    answers = [pair.answer for pair in pairs]
    answer: AboutPaper = min(answers, key=PAPER_ORDER.index, default="not_defined")
    return PaperAnswer(answer=answer, attack=GAP.name, pairs=pairs)


def _published_pairs(audit: Audit, setting: SettingResult) -> Iterable[PublishedPair]:
    """The paper's numbers of a setting, by the paper's own cost."""
    for of_model in audit.published:
        for published in of_model.settings:
            if (of_model.model, published.epsilon) == (setting.model, setting.epsilon):
                yield from published.pairs


def _paper_answer(
    audit: Audit, setting: SettingResult, published: PublishedPair
) -> AboutPaper:
    """One rule: is it beyond its null, and is anybody detected?"""
    disparity = published.pcer_disparity
    if disparity.mean is None:
        return "not_defined"
    if disparity.is_beyond_null is None or not _is_told(audit, setting):
        return "cannot_tell"
    if not disparity.is_beyond_null:
        return "outcomes_alone"
    return "memorised_not_whose" if setting.is_detected else "nothing_detected"


# How far can this be trusted?


def _trust(
    audit: Audit, setting: SettingResult, found: Sequence[FoundSize]
) -> TrustAnswer:
    contradictions = _contradictions(audit)
    withdrawn = [*_withdrawn(setting)]
    made_up = _made_up(setting, found)
    answer: Literal[
        "contradicted", "downgraded", "chance_unlikely", "unchecked", "no_finding"
    ]
    answer = "unchecked"
    if contradictions:
        answer = "contradicted"
    elif not found:
        answer = "downgraded" if withdrawn else "no_finding"
    elif made_up is not None or found[0].finding == "spotting":
        answer = "chance_unlikely"
    on_word: list[Literal["random_splits", "nothing_left_out"]] = ["nothing_left_out"]
    if audit.subject.split_kind == "random":
        on_word.insert(0, "random_splits")
    return TrustAnswer(
        answer=answer,
        made_up=made_up,
        withdrawn=withdrawn,
        contradictions=contradictions,
        on_word=on_word,
    )


def _withdrawn(setting: SettingResult) -> Iterable[Withdrawn]:
    for pair in setting.pairs:
        for finding, answer in (*pair.answers.items(), ("wrongly", pair.wrongly)):
            reason = answer.downgraded
            if reason is not None:
                yield Withdrawn(finding=finding, groups=pair.groups, reason=reason)


def _made_up(setting: SettingResult, found: Sequence[FoundSize]) -> MadeUp | None:
    """The count of the first finding that has one; without a finding, of any alarm."""
    findings: list[Finding | Literal["any"]] = [*(one.finding for one in found), "any"]
    for finding in findings:
        counts = [*filter(None, (_count(pair, finding) for pair in setting.pairs))]
        if counts:
            return max(counts, key=lambda count: count.n)
    return None


def _count(pair: PairResult, finding: Finding | Literal["any"]) -> MadeUp | None:
    """Made-up groups that raise this finding, if it is about the pair."""
    attack: str | None = pair.exposure.attack
    check = pair.exposure.placebo
    n = n_draws = None
    if finding in ("wrongly", "outcomes"):
        rates = pair.wrongly if finding == "wrongly" else pair.outcomes
        attack = None
        if rates.group is not None:
            n = rates.n_made_up
            n_draws = rates.n_draws
    elif check is not None and (finding == "any" or pair.exposure.group is not None):
        n = {"any": check.n_any, "exposure": check.n_exposure}.get(finding)
        n_draws = check.n_draws
    if n is None or n_draws is None:
        return None
    return MadeUp(
        finding=finding,
        attack=attack,
        n=n,
        n_draws=n_draws,
        n_expected=math.ceil(SIGNIFICANCE * n_draws),
    )


# What is shown, the largest first


def _found(
    spotting: SpottingAnswer, easier: EasierAnswer, served: ServedAnswer
) -> list[FoundSize]:
    """Findings in the order of their size; of as large ones, errors first."""
    found: list[tuple[int, FoundSize]] = []

    def add(finding: Finding, pairs: Sequence[EasierPair | ServedPair]) -> None:
        first = pairs[0]
        if first.size is not None:
            is_alarm = first.size.is_clear and finding != "outcomes"
            one = FoundSize(
                finding=finding,
                group=first.groups[0],
                size=first.size,
                is_alarm=is_alarm,
            )
            found.append((first.size.rank, one))

    add("wrongly", served.wrongly)
    rank = LEVEL_RANKS.get(spotting.answer)
    if rank is not None:
        is_alarm = spotting.answer.is_alarm
        one = FoundSize(finding="spotting", group=None, size=None, is_alarm=is_alarm)
        found.append((rank, one))
    add("exposure", easier.pairs)
    add("outcomes", served.rates)
    found.sort(key=lambda ranked: (ranked[1].is_alarm, ranked[0]), reverse=True)
    return [one for _, one in found]
