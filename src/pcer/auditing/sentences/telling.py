"""Which answers does a setting have, and which other attacks say otherwise?

Every file of this room asks it; tables and other rooms ask for ``answers_of``. To add a
question about answers: a function here.
"""

from __future__ import annotations

from typing import Final, Literal

from pcer.auditing.answers import Answers
from pcer.auditing.record import AttackStory, Audit, SettingResult
from pcer.release import attack_kinds
from pcer.release.attack_kinds import attack_kind
from pcer.wording import largest, listed

MOST_GROUPS_IN_A_SENTENCE: Final = 4
Axis = Literal["exposure", "outcomes"]
# What pairs can answer on either axis, strongest first.
ANSWERS: Final = (
    "differs",
    "differ",
    "no_difference_shown",
    "none_detected",
    "cannot_tell",
    "not_given",
)


def answers_of(setting: SettingResult) -> Answers:
    """The six answers of a setting, which every finished audit has."""
    if setting.answers is None:
        raise ValueError("the six answers of this audit are not made yet.")
    return setting.answers


def answer_of(setting: SettingResult, axis: Axis) -> str:
    """The strongest answer of the pairs; equality only where all of them have it."""
    answers: set[str] = {pair.exposure.answer for pair in setting.pairs}
    if axis == "outcomes":
        answers = {pair.outcomes.answer for pair in setting.pairs}
    answer = min(answers, key=ANSWERS.index)
    if axis == "outcomes" or answer not in ("no_difference_shown", "none_detected"):
        return answer
    are_equal = all(
        pair.equivalence is not None and pair.equivalence.shown
        for pair in setting.pairs
    )
    return "equal_within_margin" if are_equal else answer


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
