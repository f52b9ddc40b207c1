"""What can be done: other settings, more splits, more people?

``conclude`` (account.py) asks for an audit's next steps; the planner takes its sentence
from ``advice``, too. More splits answer "is anything memorised about these records?";
"do the groups differ?" in the end takes more people. To add a sentence: a line in the
sections ``advice`` or ``plan`` of ``words.toml``, and a function here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.telling import (
    answers_of,
    largest_bound,
)
from pcer.measuring.evidence import Evidence
from pcer.measuring.exposure import Measured
from pcer.measuring.next_setting import NextSetting
from pcer.measuring.plan import Verdict
from pcer.measuring.power import (
    MOST_SPLITS,
    Design,
    Question,
    design_of_measured,
    people_for,
    smallest,
    splits_for,
)
from pcer.measuring.sizes import COIN
from pcer.measuring.tested import Tested
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import attack_kind
from pcer.wording import (
    capital,
    decimals,
    of_100,
    plural_ending,
    points,
    say,
    two_digits,
)

# Points of 100 by which a gap moves without being said to.
STAYS: Final = 0.02


def next_step(audit: Audit) -> str:
    """The one thing to do next, in at most three sentences."""
    answers = answers_of(audit.told)
    if answers.trust.contradictions:
        return say("next", "ask_contradiction")
    if audit.subject.split_kind != "random":
        return say("next", "ask_random")
    if answers.spotting.why == "stronger_attack" and audit.stronger_attack is not None:
        stronger = attack_kind(audit.stronger_attack).phrase
        return say("next", "ask_attack", stronger=stronger)
    if audit.next_setting is not None:
        return " ".join(_other_setting(audit, audit.next_setting))
    if not audit.told.is_detected:
        has_errors = answers.served.wrongly[0].answer == "differ"
        return say("next", "errors" if has_errors else "keep")
    if len(audit.settings) > 1:
        return say("next", "none")
    return say("next", "try_private")


def _other_setting(audit: Audit, found: NextSetting) -> Iterator[str]:
    """What another setting lowers, what it costs, and what no setting mends."""
    setting = audit.settings[found.place]
    told = audit.told
    is_stronger = setting.model == told.model and setting.budget < told.budget
    yield say(
        "next",
        "lowers" if is_stronger else "other_lowers",
        setting=setting.name.full,
        before=_highest(audit, told),
        after=_highest(audit, setting),
        attack=audit.attack_kind.label,
        price=_price(found.accuracy_lost),
        wrong=_wrong_words(audit, setting),
    )
    differ = []
    for other in audit.settings:
        if _is_useful(audit, other):
            pair = answers_of(other).served.wrongly[0]
            differ.append(pair.answer == "differ")
    if differ and all(differ):
        yield say("next", "none_mends")
    yield from choosing_command(audit)


def _is_useful(audit: Audit, setting: SettingResult) -> bool:
    """Whether it is clearly more often right than always guessing the majority."""
    accuracy = setting.accuracy.mean
    if accuracy is None or setting.majority is None:
        return False
    return 100 * (accuracy - setting.majority) >= audit.plan.outcome_margin


def _highest(audit: Audit, setting: SettingResult) -> str:
    """The most exposed group's, as an attacker's success or in the attack's unit."""
    scale = audit.attack_kind.scale
    value = setting.highest_exposure
    if scale.per_success is None:
        return scale.hundredths(value)
    return decimals(COIN + scale.per_success * value, 1)


def _price(lost: tuple[float, float]) -> str:
    """What accuracy loses, by its interval."""
    low, high = lost
    if low > 0:
        return say("next", "costs", low=two_digits(low), high=two_digits(high))
    if high < 0:
        return say("next", "gains", low=two_digits(-high), high=two_digits(-low))
    return say("next", "may_cost", high=two_digits(high))


def _wrong_words(audit: Audit, setting: SettingResult) -> str:
    """What becomes of the error that is shown to differ now; empty without one."""
    pair = answers_of(audit.told).served.wrongly[0]
    if pair.answer != "differ":
        return ""
    rates = []
    for place in (audit.told, setting):
        groups = {group.group: group for group in answers_of(place).served.groups}
        rates.append([groups[name].wrongly or 0.0 for name in pair.groups])
    before, after = rates
    one, two = of_100(*after)
    moved = abs((after[0] - after[1]) - (before[0] - before[1]))
    form = "stay" if moved < STAYS else "become"
    return say("next", form, one=one, two=two)


def choosing_command(audit: Audit) -> Iterator[str]:
    """The command that chooses a setting, at half of the exposure found.

    Or at more, where no setting is shown to hold that.
    """
    if len(audit.settings) < 2 or audit.told.accuracy.mean is None:
        return
    bounds = []
    for setting in audit.settings:
        bound = largest_bound(setting)
        is_too_small = any(group.too_few for group in setting.groups.values())
        if bound is not None and not is_too_small:
            bounds.append(bound)
    per_success = audit.attack_kind.scale.per_success
    if not bounds or per_success is None:
        return
    exposure = per_success * max(audit.told.highest_exposure / 2, min(bounds))
    next_half_point = math.ceil(100 + 2 * exposure) / 2
    yield say("next", "choose", exposure=f"{max(next_half_point, 50.5):g}")


# Where a difference may be there.
OPEN: Final = (Verdict.NO_DIFFERENCE_SHOWN, Verdict.FLOOR_DOMINATED)


def more_would_show(
    tested: Tested, evidence: Evidence, setting_index: int, setting: SettingResult
) -> str | None:
    """How many more splits or people would show how much; None where unknown."""
    measured = tested.measured[tested.attack][setting_index]
    if setting.reason is not None:
        return None
    question = _open_question(
        measured, setting.verdict, evidence.exposure.value[setting_index], tested.pairs
    )
    if question is None:
        return None
    n_attacks = len(tested.attacks)
    n_tests = [
        n_attacks * evidence.n_detection_tests,
        n_attacks * evidence.n_pair_tests,
    ]
    design = design_of_measured(measured, n_tests)
    return None if design is None else advice(design, question)


def _open_question(
    measured: Measured,
    verdict: Verdict,
    differences: FloatArray,
    pairs: tuple[tuple[int, int], ...],
) -> Question | None:
    """What the audit did not show: an exposure, or the widest difference (pair,)."""
    exposed = measured.exposed
    if exposed is None:
        return None
    if verdict is Verdict.NONE_DETECTED:
        return Question(groups=(int(np.argmax(exposed.null_variance)),))
    if verdict not in OPEN or not np.isfinite(differences).any():
        return None
    widest = pairs[int(np.nanargmax(np.abs(differences)))]
    lower, higher = sorted(widest, key=lambda group: float(exposed.value[group]))
    base = max(0.0, float(exposed.value[lower]))
    return Question(groups=(lower, higher), base=base)


def advice(design: Design, question: Question, *, target: float | None = None) -> str:
    """What it would take to show the target; by default half of what shows now."""
    now = smallest(design, question)
    most = question.largest(design)
    if math.isnan(now) and (target is None or target > most):
        return say("plan", "impossible", what=question.words(design, most))

    wanted = now / 2 if target is None else target
    what = question.words(design, wanted)
    if wanted >= now:
        return say("plan", "already", what=capital(what))

    n_splits = splits_for(design, question, wanted)
    if n_splits is None:
        hidden = _splits_do_not_help(design, question, wanted)
        return f"{hidden} {_people_needed(design, question, wanted)}"
    n_more = int(n_splits - design.n_splits)
    shown_now = "" if math.isnan(now) else say("plan", "now", points=points(now))
    return say(
        "plan",
        "splits",
        n=f"{n_more:,}",
        s=plural_ending(n_more),
        what=what,
        now=shown_now,
    )


def _smallest_group(design: Design, question: Question) -> int:
    return min(question.groups, key=lambda group: float(design.people[group]))


def _splits_do_not_help(design: Design, question: Question, wanted: float) -> str:
    group = _smallest_group(design, question)
    limit = smallest(replace(design, n_splits=math.inf), question)
    return say(
        "plan",
        "hidden" if limit >= wanted else "hopeless",
        things="exposures" if len(question.groups) == 1 else "differences",
        limit=points(limit),
        n=f"{MOST_SPLITS:,}",
        group=design.group_names[group],
        people=f"{design.people[group]:,.0f}",
    )


def _people_needed(design: Design, question: Question, wanted: float) -> str:
    what = question.words(design, wanted)
    people = people_for(design, question, wanted)
    if people is None:
        return say("plan", "stronger", what=what)
    group = _smallest_group(design, question)
    n_people = f"{_two_digits_upwards(people[group]):,.0f}"
    name = design.group_names[group]
    return say("plan", "people", what=what, people=n_people, group=name)


def _two_digits_upwards(number: float) -> float:
    """The next larger number of two digits.

    >>> _two_digits_upwards(1234.0), _two_digits_upwards(7.2)
    (1300.0, 8.0)
    """
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
