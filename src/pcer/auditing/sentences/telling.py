"""What can sentences about one answer name, and which answer is it?

``Telling`` fills the templates of ``words.toml``; every file of this room makes one for
an answer, and asks the questions below it: which answer, which pair, is the file weak?
To add a place of templates: a line of one of the tables of ``Telling``. A place that
only one sentence has is given to ``Telling.say`` by name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pcer.auditing.answers import Answers, ExposureAnswer, OutcomesAnswer
from pcer.auditing.record import (
    AttackStory,
    Audit,
    PairResult,
    SettingResult,
)
from pcer.release import attack_kinds
from pcer.release.attack_kinds import Scale, attack_kind
from pcer.wording import (
    NOTHING,
    decimals,
    largest,
    listed,
    of_100,
    p_words,
    points,
    say,
    templates,
)

MOST_GROUPS_IN_A_SENTENCE = 4
# Right answers of 100 beyond a coin that a file must exclude to clear a model.
WEAK = 5.0
# A difference of outcomes is "far" more where its interval's nearer end is this large.
FAR = 0.1
NOUNS = ("women", "men", "girls", "boys")  # names that are no adjectives of people
Axis = Literal["exposure", "outcomes"]
# What pairs can answer on either axis, strongest first.
ANSWERS = (
    "differs",
    "differ",
    "no_difference_shown",
    "none_detected",
    "cannot_tell",
    "not_given",
)


@dataclass(frozen=True)
class Telling:
    """What sentences about one answer, that of ``widest_pair``, may name."""

    audit: Audit
    setting: SettingResult
    axis: Axis
    is_plain: bool = False  # leaves out what the release calls people and outcomes

    def say(self, section: str, form: str, /, **once: str) -> str:
        """A sentence of ``words.toml``; places that it alone has are given."""
        return self.fill(templates()[section][form], **once)

    def fill(self, template: str, /, **once: str) -> str:
        """A template that stands elsewhere, such as a benefit's, filled in."""
        return template.format_map({**self.places, **once})

    @cached_property
    def places(self) -> dict[str, str]:
        """What any template may name, by its place."""
        return {
            **self._of_people(),
            **self._of_amounts(),
            **self._of_differences(),
            **self._of_attacks(),
        }

    @cached_property
    def pair(self) -> PairResult:
        """The two groups that the sentence is about."""
        return widest_pair(self.setting, self.axis)

    @property
    def names(self) -> tuple[str, str]:
        """The group that the answer names first, and the one it is compared with."""
        first, second, *_ = in_order(self.setting, self.axis)
        return first, second

    @property
    def means(self) -> str:
        """What becomes of people: "are predicted to be charged again"."""
        means = None if self.is_plain else self.audit.subject.positive_means
        return means or say("outcomes", self.audit.subject.outcome)

    @property
    def scale(self) -> Scale:
        """The unit of the amounts."""
        if self.axis == "exposure":
            return self.audit.attack_kind.scale
        return attack_kinds.ACCURACY

    def _of_people(self) -> dict[str, str]:
        name, other = self.names
        people = None if self.is_plain else self.audit.subject.people
        reference = beside = between = ""
        they = "They"
        if len(self.setting.pairs) > 1:  # it must be said which two groups are meant
            they = listed(self.pair.groups)
            reference = f" in {other}"
            beside = f" ({other})"
            between = f" between {they}"
        n_more = len(differing_pairs(self.setting, self.axis)) - 1
        more = "1 more pair differs" if n_more == 1 else f"{n_more} more pairs differ"
        return {
            "name": name,
            "other": other,
            "who": people_of(people, name),
            "people": people or "people",
            "means": self.means,
            "reference": reference,
            "beside": beside,
            "between": between,
            "they": they,
            "named": named_groups(self.setting, self.axis),  # in any pair
            "more": f", and {more}" if n_more > 0 else "",
        }

    def _of_amounts(self) -> dict[str, str]:
        """Exposures or outcome rates as they are printed, and their bounds."""
        levels = self._levels()
        rates = [group.benefit.mean for group in self.setting.groups.values()]
        known = [rate for rate in rates if rate is not None] or [0.0]
        largest_exposure = largest_bound(self.setting)
        at_most = NOTHING
        bounded = "no bound is known"
        if largest_exposure is not None:
            at_most = self.scale.hundredths(largest_exposure)
            bounded = self.scale.most.format(amount=at_most)
        return {
            "high": levels[0],  # of ``name``
            "low": levels[1],  # of ``other``
            "range": " to ".join(dict.fromkeys(of_100(min(known), max(known)))),
            "unit": self.scale.said,  # follows an amount
            "coin": self.scale.coin,  # how often it is right; empty without a coin
            "at_most": at_most,  # exposure in any group, by the data
            "bounded": bounded,
        }

    def _levels(self) -> list[str]:
        groups = [self.setting.groups[name] for name in self.names]
        if self.axis == "outcomes":
            return of_100(*(group.benefit.mean or 0.0 for group in groups))
        exposures = [group.exposure.value for group in groups]
        hundredths = self.scale.hundredths
        return [
            NOTHING if exposure is None else hundredths(exposure)
            for exposure in exposures
        ]

    def _of_differences(self) -> dict[str, str]:
        answer = answer_on(self.pair, self.axis)
        value = answer.difference.value or 0.0
        low, high = answer.difference.interval or (0.0, 0.0)
        sign = math.copysign(1.0, value)
        start, end = sorted((sign * low, sign * high))

        plan = self.audit.plan
        is_harm = plan.outcome_of(self.audit.subject.outcome) == "harm"
        often = "more often" if is_harm else "less often"
        most = largest_difference(self.setting, self.axis)
        unit = self.scale.points
        return {
            "difference": f"{self._amount(abs(value))} {unit}",
            "start": self._amount(start),  # the nearer end of its interval
            "end": self._amount(end),
            "level": f"{100 * plan.confidence_level:g}%",
            "p": p_words(answer.p_value),
            "often": f"far {often}" if start >= FAR else often,
            # The largest difference that the data allow between any two groups.
            "apart": NOTHING
            if most is None
            else f"{self.scale.difference(most)} {unit}",
            "margin": points((plan.equal_within or 0.0) / 100),
        }

    def _amount(self, value: float) -> str:
        if self.axis == "exposure":
            return self.scale.difference(value)
        return decimals(100 * value, 1)  # rates that are printed whole hide as much

    def _of_attacks(self) -> dict[str, str]:
        """The attack whose numbers people see, and the one that decided."""
        exposure = self.pair.exposure
        decided = attack_kind(exposure.attack)
        size = abs(exposure.attack_difference or 0.0)
        is_main = decided.name == self.audit.attack
        return {
            "main": self.audit.attack_kind.phrase,
            "attack": decided.phrase,
            "whose": "" if is_main else f" by {decided.phrase}",
            "by_attack": f"{decided.scale.difference(size)} {decided.scale.points}",
        }


# Which answer it is


def answers_of(setting: SettingResult) -> Answers:
    """The six answers of a setting, which every finished audit has."""
    if setting.answers is None:
        raise ValueError("the six answers of this audit are not made yet.")
    return setting.answers


def answer_on(pair: PairResult, axis: Axis) -> ExposureAnswer | OutcomesAnswer:
    """What the audit says of two groups on one of the two axes."""
    return pair.exposure if axis == "exposure" else pair.outcomes


def answer_of(setting: SettingResult, axis: Axis) -> str:
    """The strongest answer of the pairs; equality only where all of them have it."""
    answers = {answer_on(pair, axis).answer for pair in setting.pairs}
    answer = min(answers, key=ANSWERS.index)
    if axis == "outcomes" or answer not in ("no_difference_shown", "none_detected"):
        return answer
    are_equal = all(
        pair.equivalence is not None and pair.equivalence.shown
        for pair in setting.pairs
    )
    return "equal_within_margin" if are_equal else answer


def is_weak(audit: Audit, setting: SettingResult) -> bool:
    """Whether a setting that shows nothing is too weak to clear the model.

    It is where a stronger attack is absent without a reason, or where exposure, or the
    difference if exposure is detected, may exceed 55 of 100: a gap of 10 points.
    """
    answer = answer_of(setting, "exposure")
    if answer == "none_detected":
        bound = largest_bound(setting)
    elif answer == "no_difference_shown":
        bound = largest_difference(setting, "exposure")
    else:
        return False
    if audit.stronger_attack is not None or bound is None:
        return True
    per_success = audit.attack_kind.scale.per_success or 0.0
    return per_success * bound > WEAK


def lacks_sizes(setting: SettingResult) -> bool:
    """Whether rates come without the numbers of people, so that nothing has an error.

    Such is what the paper's auditor gets: three rates a group and budget.
    """
    sizes = [(group.n_train, group.n_test) for group in setting.groups.values()]
    has_rates = all(group.benefit.mean is not None for group in setting.groups.values())
    return has_rates and (None, None) in sizes


def largest_bound(setting: SettingResult) -> float | None:
    """The largest exposure that the data allow in groups of eligible size."""
    groups = setting.groups.values()
    return largest(
        [group.exposure.upper_bound for group in groups if not group.too_few]
    )


def largest_difference(setting: SettingResult, axis: Axis) -> float | None:
    """The largest difference that the data allow between groups that are compared."""
    answers = [answer_on(pair, axis) for pair in setting.pairs]
    compared = [answer for answer in answers if answer.p_value is not None]
    return largest([answer.difference.upper_bound for answer in compared])


# Which groups are named


def widest_pair(setting: SettingResult, axis: Axis) -> PairResult:
    """The widest of the pairs with a double disadvantage, or that differ, or of all."""
    pairs = differing_pairs(setting, axis) or setting.pairs
    if axis == "exposure":
        doubled = [p for p in setting.pairs if p.double_disadvantage.group is not None]
        pairs = doubled or pairs
    return max(
        pairs, key=lambda pair: abs(answer_on(pair, axis).difference.value or 0.0)
    )


def differing_pairs(setting: SettingResult, axis: Axis) -> list[PairResult]:
    """Pairs that are shown to differ."""
    return [p for p in setting.pairs if answer_on(p, axis).group is not None]


def in_order(setting: SettingResult, axis: Axis) -> list[str]:
    """Groups as an answer names them: the pair that it is about, then the others."""
    pair = widest_pair(setting, axis)
    names = pair.groups
    if answer_on(pair, axis).group == names[1]:
        names = names[::-1]
    return list(dict.fromkeys([*names, *setting.groups]))


def people_of(people: str | None, name: str) -> str:
    """A group's people as a sentence names them.

    >>> people_of("defendants", "White"), people_of(None, "2"), people_of(None, "Women")
    ('White defendants', 'people in group 2', 'Women')
    """
    if name.lower() in NOUNS:
        return name
    if people is None or re.search(r"\d", name):
        return f"{people or 'people'} in group {name}"
    return f"{name} {people}"


def named_groups(setting: SettingResult, answer: str) -> str:
    """The groups that an answer names in any pair; of many, how many."""
    names = setting.named_by(answer)
    if len(names) > MOST_GROUPS_IN_A_SENTENCE:
        return f"{len(names)} groups"
    return listed(names)


# Which attacks say otherwise


def other_attacks(audit: Audit, setting: SettingResult) -> dict[str, str]:
    """Other attacks that detect somebody, or a difference, where the answer does not.

    As the places ``others`` and ``do`` of a sentence; empty where there are none.
    """
    answer = answer_of(setting, "exposure")
    place = audit.settings.index(setting)
    stories = [story for story in attacks_run(audit) if story.attack != audit.attack]
    if answer == "none_detected":
        stories = [story for story in stories if place in story.detected_in]
    elif answer == "no_difference_shown":
        stories = [story for story in stories if place in story.differs_in]
    else:
        stories = []
    if not stories:
        return {}
    if len(stories) > 2:
        return {"others": f"{len(stories)} other attacks", "do": "do"}
    names = listed([attack_kind(story.attack).phrase for story in stories])
    return {"others": names, "do": "does" if len(stories) == 1 else "do"}


def attacks_run(audit: Audit) -> list[AttackStory]:
    """Every attack that was run; what training spent is none."""
    return [story for story in audit.attacks if story.attack != attack_kinds.SPENT.name]
