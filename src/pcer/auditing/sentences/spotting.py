"""Can an attacker tell who was in the training data, and is one group easier to spot?

The first two rows of every screen. Figures are an attacker's right answers of 100
where an attack's unit says that; each sentence names its attack, and the attack that
decided comes first. To add a sentence: a line of ``words.toml``, sections ``spotting``
or ``easier``, and where it is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pcer.auditing.answers import (
    AttackDifference,
    EasierPair,
    Spotted,
    SpottingAnswer,
)
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.rows import (
    Named,
    Points,
    Row,
    adverb,
    apart,
    by_size,
    more_or_less,
    turned,
)
from pcer.auditing.sentences.telling import answers_of, attacks_run, other_attacks
from pcer.measuring.sizes import COIN, Level, Size
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind, Basis, attack_kind
from pcer.statistics import SIGNIFICANCE
from pcer.wording import capital, decimals, listed, p_words, say, two_digits

MOST_NAMES = 3  # of groups in a sentence
# What an attacker has, by what the attack is run on.
KNOWS = {
    Basis.COUNTS: "knows_counts",
    Basis.MODEL: "knows_model",
    Basis.MODELS: "knows_models",
    Basis.REFERENCE: "knows_reference",
}


# Can an attacker tell?


def spotting_row(audit: Audit, setting: SettingResult) -> Row:
    """How well an attacker picks the training member out of two people of a group."""
    answer = answers_of(setting).spotting
    return Row(
        question=say("question", "spotting"),
        answer=say("level", answer.answer),
        figures=[*_spotting_figures(audit, setting, answer)],
        is_alarm="spotting" in answers_of(setting).alarms,
    )


def _spotting_figures(
    audit: Audit, setting: SettingResult, answer: SpottingAnswer
) -> Iterator[str]:
    kind = attack_kind(answer.attack)
    how = {"attack": kind.label}
    yield from _why_open(setting, answer, how)
    known = [group for group in answer.groups if group.success is not None]
    if known:
        in_words = success_range(known, is_ranked=answer.is_ranked)
        alike = _alike(known, is_ranked=answer.is_ranked)
        yield say("spotting", "picks", range=in_words, alike=alike, **how)
        if answer.answer is Level.SOMEWHAT:
            highs = [group.interval[1] for group in known if group.interval]
            yield say("spotting", "at_most", at_most=decimals(max(highs), 1), **how)
    elif kind.scale.per_success is None:
        amounts = _amounts(setting, kind)
        if amounts:
            yield say("spotting", "in_unit", range=amounts, **how)
    yield from _not_detected(answer, how)
    yield from _other_detections(audit, setting)
    if known and kind.basis in KNOWS:
        yield say("spotting", KNOWS[kind.basis])
    yield from _copied(setting)
    if answer.too_few:
        yield say("spotting", "too_few", names=_names(answer.too_few))


def _why_open(
    setting: SettingResult, answer: SpottingAnswer, how: dict[str, str]
) -> Iterator[str]:
    """Why nothing can be told, unless the figures say it."""
    if answer.why == "reason" and setting.reason is not None:
        reason = capital(setting.reason.rstrip("."))
        yield say("spotting", "reason", reason=reason)
    elif answer.why == "stronger_attack" and answer.stronger_attack is not None:
        stronger = attack_kind(answer.stronger_attack).phrase
        yield say("spotting", "weak", stronger=stronger, **how)


def success_range(groups: list[Spotted], *, is_ranked: bool) -> str:
    """The lowest and the highest success, each named where a difference is shown."""
    lowest, highest = groups[0], groups[-1]
    low = decimals(lowest.success, 1)
    high = decimals(highest.success, 1)
    if len(groups) == 1:
        return f"{low} ({lowest.group})"
    if low == high:
        return low
    if is_ranked:
        return f"{low} ({lowest.group}) to {high} ({highest.group})"
    return f"{low} to {high}"


def _alike(groups: list[Spotted], *, is_ranked: bool) -> str:
    """What follows a success that is not of one group alone."""
    if len(groups) < 2:
        return ""
    if not is_ranked:
        return say("spotting", "alike")
    prints_alike = decimals(groups[0].success, 1) == decimals(groups[-1].success, 1)
    return say("spotting", "either") if prints_alike else ""


def _amounts(setting: SettingResult, kind: AttackKind) -> str:
    """Exposures in the attack's own unit, by group."""
    amounts = []
    for name, group in setting.groups.items():
        if group.exposure.value is not None:
            amount = kind.scale.hundredths(group.exposure.value)
            amounts.append(f"{amount} {kind.scale.said} ({name})")
    return _names(amounts)


def _not_detected(answer: SpottingAnswer, how: dict[str, str]) -> Iterator[str]:
    """Groups in which nobody is detected, and the most that they may be exposed."""
    closed = []
    for group in answer.groups:
        if group.detected or group.interval is None:
            continue
        if group.group in answer.open_groups:
            most = decimals(group.interval[1], 1)
            yield say("spotting", "cannot_tell", name=group.group, at_most=most, **how)
        else:
            closed.append(group)
    if closed and answer.answer is not Level.CANNOT_TELL:
        most = decimals(max(group.interval[1] for group in closed if group.interval), 1)
        names = _names([group.group for group in closed])
        yield say("spotting", "undetected", names=names, at_most=most, **how)


def _other_detections(audit: Audit, setting: SettingResult) -> Iterator[str]:
    """How many attacks detect somebody where the deciding ones do not."""
    stories = attacks_run(audit)
    if setting.is_detected or len(stories) < 2:
        return
    place = audit.settings.index(setting)
    n_detecting = sum(place in story.detected_in for story in stories)
    if n_detecting:
        yield say("spotting", "by_others", n=n_detecting, of=len(stories))


def _copied(setting: SettingResult) -> Iterator[str]:
    """How many real records stand in a synthetic table verbatim, by group and part."""
    if not setting.copies:
        return
    if not any(row.share for row in setting.copies):
        yield say("spotting", "not_copied")
        return
    by_part: dict[str, list[str]] = {"train": [], "test": []}
    for row in setting.copies:
        by_part[row.part].append(f"{decimals(100 * row.share, 1)} ({row.group})")
    inside, outside = (_names(shares) for shares in by_part.values())
    yield say("spotting", "copied", inside=inside, outside=outside)


def _names(names: list[str]) -> str:
    n_more = len(names) - MOST_NAMES
    if n_more <= 0:
        return listed(names)
    return f"{', '.join(names[:MOST_NAMES])} and {n_more} more"


# Is one group easier to spot?


def easier_row(audit: Audit, setting: SettingResult) -> Row:
    """Who is easier to spot, by which attack, and by how much."""
    answer = answers_of(setting).easier
    pair = answer.pairs[0]
    return Row(
        question=say("question", "easier"),
        answer=_easier_answer(audit, setting),
        figures=[*_easier_figures(audit, setting, pair)],
        is_alarm="exposure" in answers_of(setting).alarms,
        points=_points(setting, pair),
    )


def _easier_answer(audit: Audit, setting: SettingResult) -> str:
    answer = answers_of(setting).easier
    differing = [pair for pair in answer.pairs if pair.answer == "differs"]
    if not differing:
        form = {"not_shown": "no_difference_shown", "no": "equal"}
        margin = two_digits(audit.plan.equal_within or 0.0)
        key = form.get(answer.answer, answer.answer)
        return say("easier", key, margin=margin)

    named = [Named(pair.groups[0], pair.size) for pair in differing]
    sizes = {one.size for one in named}
    phrase = adverb(named[0].size).strip() or "yes"
    text = by_size(named, phrase)
    if len(differing[0].by_attack) > 1 and is_by_one(differing[0]):
        text += say("easier", "by_one")
    if Size.NEAR_CERTAINTY in sizes:
        text += say("easier", "near_certainty")
    return text


def is_by_one(pair: EasierPair) -> bool:
    """Whether only one of two attacks shows the difference."""
    return sum(found.shown for found in pair.by_attack) == 1 < len(pair.by_attack)


def _easier_figures(
    audit: Audit, setting: SettingResult, pair: EasierPair
) -> Iterator[str]:
    if pair.answer == "cannot_tell":
        reason = setting.reason
        if reason is not None:
            yield say("spotting", "reason", reason=capital(reason.rstrip(".")))
        return
    place = setting.pair_of(pair.groups)
    is_first = place.groups[0] == pair.groups[0]
    drawn = answers_of(setting).spotting.attack
    for found in pair.by_attack:
        is_drawn = found.attack == drawn
        words = AttackWords(found, pair, is_first=is_first, is_drawn=is_drawn)
        yield words.sentence(is_brief=_is_said_above(setting, words))
    yield from _within(pair)
    yield from _doubts(pair)
    if pair.answer != "differs":
        others = other_attacks(audit, setting)
        if others and setting.is_detected:
            n = len(attacks_run(audit))
            yield capital(say("easier", "others", n=n, **others))


def _is_said_above(setting: SettingResult, words: AttackWords) -> bool:
    """Whether the first row has both exposures, and another attack was said first."""
    spotting = answers_of(setting).spotting
    names = {group.group for group in spotting.groups if group.success is not None}
    is_later = words.found is not words.pair.by_attack[0]
    return is_later and words.is_drawn and names == {*words.pair.groups}


class AttackWords(NamedTuple):
    """What one attack says of two groups, as a sentence.

    In right answers of 100, as the picture has them; of an attack that is not drawn in
    its own unit, so that nobody takes one for the other.
    """

    found: AttackDifference
    pair: EasierPair
    is_first: bool  # whether the pair's first group is the reference
    is_drawn: bool  # whether the picture shows this attack

    def sentence(self, *, is_brief: bool) -> str:
        """Both exposures, their difference by its interval, and whether it is shown.

        A brief one leaves out exposures that are right answers of 100.
        """
        kind = attack_kind(self.found.attack)
        first, second = self.pair.groups
        is_shown = self.is_shown
        words = {
            "how": self._how(kind),
            "first": first,
            "shown": say("easier", "shown" if is_shown else "not_shown"),
        }
        form = self._form(kind)
        ends = self._ends(kind)
        if form == "success" and is_brief:
            words["apart"] = more_or_less(ends)
            return capital(say("easier", "compared", **words))
        unit = "of 100" if form == "success" else "points"
        one, two = self._exposures(kind)
        sentence = say(
            "easier",
            form,
            one=one,
            two=two,
            second=second,
            apart=apart(ends, is_shown=is_shown, unit=unit),
            attack=kind.label,
            p=p_words(self.found.p_value),
            **words,
        )
        return capital(sentence)

    def _form(self, kind: AttackKind) -> str:
        if kind.scale.per_success is None:
            return "in_unit"
        if kind.scale == attack_kinds.PROBABILITY and not self.is_drawn:
            return "paired_confidence"
        return "success"

    def _how(self, kind: AttackKind) -> str:
        if kind.basis is Basis.MODELS:
            return f"by comparing with similar models ({kind.label})"
        if kind.basis is Basis.TABLES:
            return f"shown a table that has the person and one without ({kind.label})"
        return f"by {kind.phrase}"

    @property
    def is_shown(self) -> bool:
        """Whether this attack shows the difference that stands."""
        return self.found.shown and self.pair.answer == "differs"

    def _exposures(self, kind: AttackKind) -> tuple[str, str]:
        values = self.found.exposures
        if not self.is_first:
            values = values[::-1]
        one, two = (self._amount(kind, value) for value in values)
        return one, two

    def _amount(self, kind: AttackKind, value: float | None) -> str:
        """An exposure in the unit in which the sentence has it."""
        if value is None:
            return "–"
        if self._form(kind) == "success":
            return decimals(COIN + (kind.scale.per_success or 0.0) * value, 1)
        return kind.scale.hundredths(value)

    def _ends(self, kind: AttackKind) -> tuple[float, float] | None:
        """In the unit in which the exposures are printed."""
        per_one = kind.scale.per_unit
        if self._form(kind) == "success":
            per_one = kind.scale.per_success or 0.0
        interval = self.found.difference.interval
        return turned(interval, is_first=self.is_first, per_one=per_one)


def _within(pair: EasierPair) -> Iterator[str]:
    """Whether it holds among people with the same true outcome; both if they differ."""
    if pair.answer != "differs":
        return
    shown = [found for found in pair.by_attack if found.shown] or pair.by_attack[:1]
    said: list[bool] = []
    for found in shown:
        p = found.p_value_within_labels
        if p is None or (p > SIGNIFICANCE) in said:
            continue
        said.append(p > SIGNIFICANCE)
        form = "not_within" if p > SIGNIFICANCE else "within"
        attack = attack_kind(found.attack).label
        yield say("easier", form, attack=attack, p=p_words(p))


def _doubts(pair: EasierPair) -> Iterator[str]:
    """Why a difference that an attack finds does not count."""
    groups = listed(pair.groups)
    if pair.downgraded is not None:
        reason = pair.downgraded.rstrip(".")
        yield say("easier", "downgraded", reason=reason, groups=groups)
        return
    p = pair.p_value
    if pair.answer != "differs" and p is not None and p <= SIGNIFICANCE:
        attack = attack_kind(pair.by_attack[0].attack).phrase
        yield say("easier", "undetected", attack=attack, p=p_words(p))
    if pair.contradicted:
        one, other = [attack_kind(found.attack).phrase for found in pair.by_attack[:2]]
        yield capital(say("easier", "contradicted", one=one, other=other))


def _points(setting: SettingResult, pair: EasierPair) -> Points | None:
    """What the picture shows: the attack of the first row, and its difference."""
    spotting = answers_of(setting).spotting
    success = {
        group.group: group.success
        for group in spotting.groups
        if group.success is not None
    }
    if not success:
        return None
    found = next((one for one in pair.by_attack if one.attack == spotting.attack), None)
    kind = attack_kind(spotting.attack)
    interval = None if found is None else found.difference.interval
    is_first = setting.pair_of(pair.groups).groups[0] == pair.groups[0]
    return Points(
        attack=kind.label,
        success=success,
        groups=pair.groups,
        difference=turned(
            interval, is_first=is_first, per_one=kind.scale.per_success or 0.0
        ),
    )
