"""What can sentences about one answer name, and which answer is it?

``Telling`` fills the templates of ``words.toml``; every file of this room makes one for
an answer, and asks the questions below it: which answer, which pair, is the file weak?
To add a place of templates: a property of ``Telling``. A place that only one sentence
has is given to ``Telling.say`` by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

from pcer.auditing.record import (
    Audit,
    BudgetResult,
    CostStory,
    ExposureAnswer,
    OutcomesAnswer,
    PairResult,
)
from pcer.release import attack_kinds
from pcer.release.attack_kinds import AttackKind, Scale, attack_kind
from pcer.wording import (
    NOTHING,
    decimals,
    largest,
    listed,
    of_100,
    p_words,
    plural,
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
    setting: BudgetResult
    axis: Axis
    is_plain: bool = False  # leaves out what the release calls people and outcomes
    places: Mapping[str, str] = field(default_factory=dict)  # of one sentence only

    def say(self, section: str, form: str, /, **places: str) -> str:
        """A sentence of ``words.toml``; only the places that it has are computed."""
        telling = self
        if places:
            telling = replace(self, places={**self.places, **places})
        return templates()[section][form].format_map(telling)

    def __getitem__(self, place: str) -> str:
        if place in self.places:
            return self.places[place]
        text: str = getattr(self, place)
        return text

    # What the places are made of

    @cached_property
    def pair(self) -> PairResult:
        """The two groups that the sentence is about."""
        return widest_pair(self.setting, self.axis)

    @property
    def answer(self) -> ExposureAnswer | OutcomesAnswer:
        """What the audit says of them."""
        return answer_on(self.pair, self.axis)

    @property
    def has_pairs(self) -> bool:
        """Whether there are several, so that sentences say which two are meant."""
        return len(self.setting.pairs) > 1

    @property
    def scale(self) -> Scale:
        """The unit of the amounts."""
        if self.axis == "exposure":
            return self.audit.proxy.scale
        return attack_kinds.ACCURACY

    @property
    def attack_that_decided(self) -> AttackKind:
        """It need not be the one whose numbers people see."""
        return attack_kind(self.pair.exposure.attack)

    @cached_property
    def levels(self) -> list[str]:
        """Exposures or outcome rates of the two groups, as they are printed."""
        groups = [self.setting.groups[self.name], self.setting.groups[self.other]]
        if self.axis == "outcomes":
            return of_100(*(group.benefit.mean or 0.0 for group in groups))
        levels = []
        for group in groups:
            cost = group.cost.value
            levels.append(NOTHING if cost is None else self.scale.hundredths(cost))
        return levels

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The interval of the difference's size."""
        difference = self.answer.difference
        sign = math.copysign(1.0, difference.value or 0.0)
        low, high = difference.interval or (0.0, 0.0)
        start, end = sorted((sign * low, sign * high))
        return start, end

    def amount(self, value: float) -> str:
        """A difference in the unit of the answer, without the unit's name."""
        if self.axis == "exposure":
            return self.scale.difference(value)
        return decimals(100 * value, 1)  # rates that are printed whole hide as much

    # Places: the two groups

    @property
    def name(self) -> str:
        """The group that the answer names first."""
        return in_order(self.setting, self.axis)[0]

    @property
    def other(self) -> str:
        """The group that it is compared with."""
        return in_order(self.setting, self.axis)[1]

    @property
    def who(self) -> str:
        """Its people as a sentence names them: "White defendants"."""
        people = None if self.is_plain else self.audit.subject.people
        return people_of(people, self.name)

    @property
    def people(self) -> str:
        """What the release calls people."""
        people = None if self.is_plain else self.audit.subject.people
        return people or "people"

    @property
    def reference(self) -> str:
        """With whom it is compared, where that does not go without saying."""
        return f" in {self.other}" if self.has_pairs else ""

    @property
    def beside(self) -> str:
        """With whom it is compared, in brackets."""
        return f" ({self.other})" if self.has_pairs else ""

    @property
    def between(self) -> str:
        """Between whom the difference is, likewise."""
        return f" between {listed(self.pair.groups)}" if self.has_pairs else ""

    @property
    def they(self) -> str:
        """Both groups, as the subject of a sentence."""
        return listed(self.pair.groups) if self.has_pairs else "They"

    @property
    def named(self) -> str:
        """All groups that this answer names in any pair."""
        return named_groups(self.setting, self.axis)

    @property
    def more(self) -> str:
        """How many further pairs differ."""
        n_more = len(differing_pairs(self.setting, self.axis)) - 1
        if n_more < 1:
            return ""
        if n_more == 1:
            return ", and 1 more pair differs"
        return f", and {n_more} more pairs differ"

    # Places: amounts

    @property
    def high(self) -> str:
        """The exposure or outcome rate of ``name``."""
        return self.levels[0]

    @property
    def low(self) -> str:
        """The exposure or outcome rate of ``other``."""
        return self.levels[1]

    @property
    def unit(self) -> str:
        """What follows an amount."""
        return self.scale.said

    @property
    def coin(self) -> str:
        """How often a coin would be right; empty where the unit has no coin."""
        return self.scale.coin

    @property
    def difference(self) -> str:
        """By how much the two groups differ."""
        size = abs(self.answer.difference.value or 0.0)
        return f"{self.amount(size)} {self.scale.points}"

    @property
    def start(self) -> str:
        """The nearer end of its interval."""
        return self.amount(self.ends[0])

    @property
    def end(self) -> str:
        """The farther end."""
        return self.amount(self.ends[1])

    @property
    def level(self) -> str:
        """The level of intervals."""
        return f"{100 * self.audit.plan.confidence_level:g}%"

    @property
    def p(self) -> str:
        """The p-value of the difference."""
        return p_words(self.answer.p_value)

    @property
    def apart(self) -> str:
        """The largest difference that the data allow between any two groups."""
        most = largest_difference(self.setting, self.axis)
        if most is None:
            return NOTHING
        return f"{self.scale.difference(most)} {self.scale.points}"

    @property
    def margin(self) -> str:
        """The difference up to which groups count as equal."""
        return points(self.audit.plan.margin or 0.0)

    @property
    def at_most(self) -> str:
        """The largest exposure that the data allow in any group."""
        bound = largest_bound(self.setting)
        return NOTHING if bound is None else self.scale.hundredths(bound)

    @property
    def bounded(self) -> str:
        """The largest exposure as a clause."""
        if largest_bound(self.setting) is None:
            return "no bound is known"
        return self.scale.most.format(amount=self.at_most)

    # Places: outcomes

    @property
    def means(self) -> str:
        """What becomes of people: "are predicted to be charged again"."""
        means = None if self.is_plain else self.audit.subject.positive_means
        return means or say("outcomes", self.audit.subject.outcome)

    @property
    def often(self) -> str:
        """How a rate compares: "far more often" where the nearer end is large."""
        is_harm = self.audit.plan.outcome_of(self.audit.subject.outcome) == "harm"
        often = "more often" if is_harm else "less often"
        return f"far {often}" if self.ends[0] >= FAR else often

    @property
    def range(self) -> str:
        """The smallest and the largest outcome rate; one if they print alike."""
        means = [group.benefit.mean for group in self.setting.groups.values()]
        rates = [mean for mean in means if mean is not None] or [0.0]
        return " to ".join(dict.fromkeys(of_100(min(rates), max(rates))))

    # Places: attacks

    @property
    def main(self) -> str:
        """The attack whose numbers people see."""
        return self.audit.proxy.phrase

    @property
    def attack(self) -> str:
        """The attack that decided."""
        return self.attack_that_decided.phrase

    @property
    def whose(self) -> str:
        """By which attack a p-value is, where it is not the one people see."""
        is_main = self.attack_that_decided.name == self.audit.cost
        return "" if is_main else f" by {self.attack}"

    @property
    def by_attack(self) -> str:
        """By how much the two groups differ by the attack that decided."""
        size = abs(self.pair.exposure.attack_difference or 0.0)
        scale = self.attack_that_decided.scale
        return f"{scale.difference(size)} {scale.points}"


def subject_line(audit: Audit, setting: BudgetResult) -> list[str]:
    """What the audit is about, in parts: data, attribute, people, splits."""
    subject = audit.subject
    parts = [subject.dataset, subject.attribute]
    if subject.n_records:
        parts.append(f"{subject.n_records:,} {subject.people or 'people'}")
    split = "random split" if subject.split_kind == "random" else "split"
    parts.append(plural(setting.n_splits, split))
    return parts


# Which answer it is


def answer_on(pair: PairResult, axis: Axis) -> ExposureAnswer | OutcomesAnswer:
    """What the audit says of two groups on one of the two axes."""
    return pair.exposure if axis == "exposure" else pair.outcomes


def answer_of(setting: BudgetResult, axis: Axis) -> str:
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


def is_weak(audit: Audit, setting: BudgetResult) -> bool:
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
    per_success = audit.proxy.scale.per_success or 0.0
    return per_success * bound > WEAK


def largest_bound(setting: BudgetResult) -> float | None:
    """The largest exposure that the data allow in groups of eligible size."""
    groups = setting.groups.values()
    return largest([group.cost.upper_bound for group in groups if not group.too_few])


def largest_difference(setting: BudgetResult, axis: Axis) -> float | None:
    """The largest difference that the data allow between groups that are compared."""
    answers = [answer_on(pair, axis) for pair in setting.pairs]
    compared = [answer for answer in answers if answer.p_value is not None]
    return largest([answer.difference.upper_bound for answer in compared])


# Which groups are named


def widest_pair(setting: BudgetResult, axis: Axis) -> PairResult:
    """The widest of the pairs with a double disadvantage, or that differ, or of all."""
    pairs = differing_pairs(setting, axis) or setting.pairs
    if axis == "exposure":
        doubled = [p for p in setting.pairs if p.double_disadvantage.group is not None]
        pairs = doubled or pairs
    return max(
        pairs, key=lambda pair: abs(answer_on(pair, axis).difference.value or 0.0)
    )


def differing_pairs(setting: BudgetResult, axis: Axis) -> list[PairResult]:
    """Pairs that are shown to differ."""
    return [p for p in setting.pairs if answer_on(p, axis).group is not None]


def in_order(setting: BudgetResult, axis: Axis) -> list[str]:
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


def named_groups(setting: BudgetResult, answer: str) -> str:
    """The groups that an answer names in any pair; of many, how many."""
    names = setting.named_by(answer)
    if len(names) > MOST_GROUPS_IN_A_SENTENCE:
        return f"{len(names)} groups"
    return listed(names)


# Which attacks say otherwise


class OtherAttacks(NamedTuple):
    """Attacks that show what the answer does not, as a sentence names them."""

    others: str
    do: str  # "does" of one attack, "do" of several


def other_attacks(audit: Audit, setting: BudgetResult) -> OtherAttacks | None:
    """Other attacks that detect somebody, or a difference, where it does not."""
    answer = answer_of(setting, "exposure")
    place = audit.budgets.index(setting)
    stories = [story for story in attacks_run(audit) if story.cost != audit.cost]
    if answer == "none_detected":
        stories = [story for story in stories if place in story.detected_in]
    elif answer == "no_difference_shown":
        stories = [story for story in stories if place in story.differs_in]
    else:
        return None

    if not stories:
        return None
    if len(stories) > 2:
        return OtherAttacks(f"{len(stories)} other attacks", "do")
    names = listed([attack_kind(story.cost).phrase for story in stories])
    return OtherAttacks(names, "does" if len(stories) == 1 else "do")


def attacks_run(audit: Audit) -> list[CostStory]:
    """Every attack that was run; what training spent is none."""
    return [story for story in audit.costs if story.cost != attack_kinds.SPENT.name]
