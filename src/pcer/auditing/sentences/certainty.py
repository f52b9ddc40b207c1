"""How sure is a finding, and what speaks against it?

``how_sure`` is about one setting, ``trust_sentences`` about a whole audit; cards take
single doubts. ``paper_words`` and ``paper_note`` stand above and below the paper's
numbers. To add a sentence: a line in the sections ``how_sure`` or ``paper`` of
``words.toml``, and where it is said here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from pcer.auditing.record import AttackStory, Audit, PairResult, SettingResult
from pcer.auditing.sentences.telling import (
    Telling,
    answer_of,
    attacks_run,
    lacks_sizes,
)
from pcer.measuring.plan import Verdict
from pcer.release.attack_kinds import attack_kind
from pcer.release.population import left_out_sentence
from pcer.statistics import SIGNIFICANCE
from pcer.wording import (
    SettingName,
    capital,
    listed,
    number_range,
    p_words,
    plural_ending,
    say,
)

# The answer whose false alarms count, by verdict; of all others any alarm counts.
ALARMS: Final[Mapping[Verdict, str]] = {
    Verdict.DOUBLE_DISADVANTAGE: "double_disadvantage",
    Verdict.EXPOSURE_DIFFERS: "exposure",
    Verdict.RATIO_DIFFERS: "ratio",
}


def how_sure(audit: Audit, setting: SettingResult) -> list[str]:
    """All sentences of certainty about one setting, each naming its finding.

    First false alarms, outcomes and splits; then what each check says of each pair.
    """
    sentences = [_alarm_sentence(setting)]
    gap = answer_of(setting, "outcomes")
    if gap in ("differ", "no_difference_shown"):
        telling = Telling(audit, setting, "outcomes")
        sentences.append(telling.say("how_sure", f"outcomes_{gap}"))
        sentences += _limits_of_outcomes(setting)

    is_random = audit.subject.split_kind == "random"
    form = "splits" if is_random else "splits_not_random"
    ending = plural_ending(setting.n_splits)
    splits = say("how_sure", form, n=setting.n_splits, s=ending)
    whom = say("how_sure", "no_sizes" if lacks_sizes(setting) else "people")
    sentences.append(f"{splits} {whom}")

    for pair in setting.pairs:
        for answer in pair.answers:
            sentences += _downgraded(pair, answer)
            sentences += _within_labels(pair, answer)
        sentences += _disagreements(audit, pair)
    return sentences


# Splits below which the error of what training moves is itself very uncertain.
ENOUGH_SPLITS: Final = 5


def _limits_of_outcomes(setting: SettingResult) -> Iterator[str]:
    """Whom the outcomes are about, where not people like these; what widens errors."""
    outcomes = setting.pairs[0].outcomes
    if outcomes.lack is not None:
        n = setting.n_seeds
        models = "this model" if n == 1 else f"these {n} models"
        why = say("lack", outcomes.lack)
        yield say("how_sure", "outcomes_about_models", models=models, why=why)
        return
    if setting.n_splits < ENOUGH_SPLITS:
        yield say("how_sure", "outcomes_few_splits", n=setting.n_splits)
    if not outcomes.is_noise_known:
        yield say("how_sure", "outcomes_with_noise")


class FalseAlarms(NamedTuple):
    """How many of the made-up groups raised the alarm."""

    n: int
    n_draws: int


def false_alarms(setting: SettingResult) -> FalseAlarms | None:
    """The count that decides about the verdict, of the worst pair; None if unknown."""
    alarm = ALARMS.get(setting.verdict, "any")
    counts = []
    for pair in setting.pairs:
        if alarm != "any" and pair.answers[alarm].group is None:
            continue
        check = pair.ratio.placebo if alarm == "ratio" else pair.exposure.placebo
        if check is None:
            continue
        n_by_alarm = {
            "double_disadvantage": check.n_double,
            "exposure": check.n_exposure,
            "ratio": check.n_ratio,
            "any": check.n_any,
        }
        n = n_by_alarm[alarm]
        if n is not None:
            counts.append(FalseAlarms(n, check.n_draws))
    return max(counts, default=None)


def _alarm_sentence(setting: SettingResult) -> str:
    alarms = false_alarms(setting)
    if alarms is None:
        return say("how_sure", "lacking")
    times = "once" if alarms.n == 1 else f"{alarms.n} times"
    return say(
        "how_sure",
        ALARMS.get(setting.verdict, "any"),
        n=alarms.n,
        times=times,
        n_draws=alarms.n_draws,
        most=math.ceil(SIGNIFICANCE * alarms.n_draws),
    )


def _downgraded(pair: PairResult, answer: str) -> Iterator[str]:
    """Why a difference that was shown does not count."""
    reason = pair.answers[answer].downgraded
    if reason is not None:
        what = say("how_sure", f"the_{answer}")
        groups = listed(pair.groups)
        why = reason.rstrip(".")
        sentence = say("how_sure", "downgraded", what=what, pair=groups, reason=why)
        yield capital(sentence)


def _within_labels(pair: PairResult, answer: str) -> Iterator[str]:
    """Whether a difference also shows among people with the same label."""
    p = _p_within_labels(pair, answer)
    if pair.answers[answer].group is not None and p is not None:
        form = "not_within" if p > SIGNIFICANCE else "also_within"
        what = say("how_sure", f"the_{answer}")
        groups = listed(pair.groups)
        yield say("how_sure", form, what=what, pair=groups, p=p_words(p))


def _p_within_labels(pair: PairResult, answer: str) -> float | None:
    if answer == "exposure" and pair.exposure.placebo is not None:
        return pair.exposure.placebo.exposure_p_within_labels
    if answer == "ratio" and pair.ratio.placebo is not None:
        return pair.ratio.placebo.ratio_p_within_labels
    return None


def _disagreements(audit: Audit, pair: PairResult) -> Iterator[str]:
    """Exposures that differ undetected, and attacks that contradict each other."""
    groups = listed(pair.groups)
    exposure = pair.exposure
    p = exposure.p_value
    is_open = exposure.answer in ("no_difference_shown", "none_detected")
    if is_open and exposure.downgraded is None and p is not None and p <= SIGNIFICANCE:
        yield say("how_sure", "undetected", pair=groups, p=p_words(p))
    if exposure.contradicted:  # by the other deciding attack; they are the first two
        deciding = [story.attack for story in audit.attacks[:2]]
        others = [attack_kind(name) for name in deciding if name != exposure.attack]
        one = attack_kind(exposure.attack).phrase
        other = listed([attack.phrase for attack in others])
        yield say("how_sure", "contradicted", pair=groups, one=one, other=other)


def trust_sentences(audit: Audit) -> list[str]:
    """How sure the audit is of the whole release, beside what its rows say."""
    groups = audit.told.groups
    is_random = audit.subject.split_kind == "random"
    n_splits = audit.told.n_splits
    ending = plural_ending(n_splits)
    form = "splits" if is_random else "splits_not_random"
    splits = say("how_sure", form, n=n_splits, s=ending)
    whom = say("how_sure", "no_sizes" if lacks_sizes(audit.told) else "people")
    sentences = [f"{splits} {whom}"]
    if audit.declarations:
        sentences += [finding.sentence for finding in audit.declarations]
    elif any(group.n_test is not None for group in groups.values()):
        sentences.append(say("how_sure", "consistent"))
    else:
        sentences.append(say("how_sure", "no_counts"))

    sentences += _attack_sentences(audit)
    if audit.family_p is not None:
        p = p_words(audit.family_p)
        p_of_outcomes = p_words(audit.family_p_outcomes)
        sentences.append(say("how_sure", "family", p=p, of_outcomes=p_of_outcomes))
    too_few = [name for name, group in groups.items() if group.too_few]
    if too_few:
        sentences.append(say("how_sure", "too_few", names=listed(too_few)))
    subject = audit.subject
    left_out = left_out_sentence(subject.left_out, subject.n_missing_group)
    if left_out:
        sentences.append(left_out)
    return sentences


def _attack_sentences(audit: Audit) -> Iterator[str]:
    """How many attacks detect memorisation, and whom they find easier to recognise."""
    stories = attacks_run(audit)
    n = len(stories)
    n_detecting = sum(bool(story.detected_in) for story in stories)
    is_tested = n_detecting > 0 or audit.verdict is not Verdict.INSUFFICIENT_DATA
    if n < 2 or not is_tested:
        return
    if n_detecting == n:
        yield say("how_sure", "attacks_all", n=n)
    elif n_detecting == 0:
        yield say("how_sure", "attacks_none", n=n)
    else:
        ending = "s" if n_detecting == 1 else ""  # of the verb
        yield say("how_sure", "attacks_some", n=n, k=n_detecting, s=ending)
    yield _differences(audit, stories)


def _differences(audit: Audit, stories: Sequence[AttackStory]) -> str:
    """Which attacks find whom easier to recognise, corrected for their number."""
    n = len(stories)
    attacks_by_groups: dict[tuple[str, ...], list[str]] = {}
    for story in stories:
        if "exposure_differs" in story.statements:
            attacks = attacks_by_groups.setdefault(tuple(story.more_exposed), [])
            attacks.append(attack_kind(story.attack).short)
    if attacks_by_groups:
        found = _who_finds_whom(audit, attacks_by_groups)
        return say("how_sure", "attacks_differ", n=n, found=found)

    by_ratio = [story for story in stories if "ratio_differs" in story.statements]
    if by_ratio:
        attacks = [attack_kind(story.attack).short for story in by_ratio]
        return say("how_sure", "attacks_ratio", n=n, attacks=listed(attacks))
    return say("how_sure", "attacks_same", n=n)


def _who_finds_whom(
    audit: Audit, attacks_by_groups: Mapping[tuple[str, ...], Sequence[str]]
) -> str:
    clauses: list[str] = []
    for groups, attacks in attacks_by_groups.items():
        form = "attacks_find_others" if clauses else "attacks_find"
        ending = "s" if len(attacks) == 1 else ""  # of the verb
        names = listed(groups)
        clause = say("how_sure", form, attacks=listed(attacks), s=ending, names=names)
        clauses.append(clause)
    text = "; ".join(clauses)

    n_named = len({*chain(*attacks_by_groups)})
    both_are_named = len(audit.subject.groups) == n_named == 2
    if both_are_named and len(attacks_by_groups) >= 2:
        text += say("how_sure", "attacks_contradict")
    return text


# The paper's numbers


def paper_words(audit: Audit) -> str:
    """Above the table: is its difference of ratios evidence, and what is its sign?"""
    pairs = audit.told.pairs
    form = "sign" if len(pairs) == 1 else "signs"
    first, second = pairs[0].groups
    return f"{_evidence_words(audit)} {say('paper', form, one=first, two=second)}"


def _evidence_words(audit: Audit) -> str:
    """Whether the paper's numbers are beyond their null, and memorisation detected."""
    # By setting and pair; None where there is no null.
    marks = dict[SettingName, list[bool | None]]()
    for published in audit.published:
        for result in published.settings:
            name = SettingName(published.model, result.epsilon)
            disparities = [pair.pcer_disparity for pair in result.pairs]
            marks[name] = [disparity.is_beyond_null for disparity in disparities]
    if {*chain(*marks.values())} <= {None}:
        return say("paper", "unknown")
    if audit.verdict is Verdict.INSUFFICIENT_DATA:
        return say("paper", "contradicted")

    detected = {setting.name for setting in audit.settings if setting.is_detected}
    beyond = [name for name, of_pairs in marks.items() if True in of_pairs]
    shown = [name for name in beyond if name in detected]
    if len(shown) == len(marks):
        return say("paper", "evidence")
    if shown:
        return say("paper", "some_evidence", settings=_in_settings(shown))
    return say("paper", "undetected" if beyond else "no_evidence")


def _in_settings(settings: Sequence[SettingName]) -> str:
    """Settings as part of a sentence: "at ε = 1 and 5 and without privacy"."""
    if any(setting.model is not None for setting in settings):
        return listed([setting.in_sentence for setting in settings])
    private = [setting for setting in settings if setting.epsilon is not None]
    parts = []
    if private:
        parts.append(f"at ε = {listed([setting.short for setting in private])}")
    if len(private) < len(settings):
        parts.append("without privacy")
    return listed(parts)


def paper_note(audit: Audit, which: str = "note") -> str:
    """Below the table: its symbols; in a ``strip``'s title the shortest of them."""
    seeds = sorted({setting.n_seeds for setting in audit.settings})
    noun = "seed" if seeds == [1] else "seeds"
    pairs = audit.told.pairs
    pair = f": {', '.join(pairs[0].groups)}" if len(pairs) == 1 else ""
    return say(
        "paper",
        which,
        floor=f"{audit.plan.floor:g}".lstrip("0"),
        seeds=f"{number_range(seeds)} {noun}",
        level=f"{100 * audit.plan.confidence_level:g}%",
        received=audit.plan.benefit_kind.share,
        pair=pair,
    )
