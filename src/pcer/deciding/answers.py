"""Does a setting hold the limits, break one or leave it open, and what would decide it?

Called by ``recommend`` for every setting. The sentence of a setting is about one
number: the one that comes nearest to its limit, or that breaks it by most; of an open
setting the one that decides how much more data it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pcer.deciding.candidates import (
    ACCURACY,
    OUTCOMES,
    SPENT,
    Answer,
    Candidate,
    Checked,
    Levels,
    answer_of,
    normal_quantile,
)
from pcer.files import Record
from pcer.measuring import exposure, variances
from pcer.release.attack_kinds import attack_kind
from pcer.statistics import POWER_QUANTILE
from pcer.wording import SettingName, capital, decimals, listed, say


class SettingAnswer(Record):
    """One setting: its list, why, and every number that a limit could be about.

    Attributes:
        splits: how many would decide an open setting 4 times in 5; None where none
            would.
        people: of the groups in question, how many would where splits alone would not.
        allowed: success of an attacker who sees every training step, by receipts; None
            without.
    """

    model: str | None
    epsilon: float | None
    answer: Answer
    sentence: str
    n_splits: int
    splits: int | None
    people: float | None
    allowed: float | None
    numbers: list[Checked]

    @property
    def name(self) -> str:
        """The setting as it is printed."""
        return SettingName(self.model, self.epsilon).full


class Needed(NamedTuple):
    """How many splits, or people, would decide a number 4 times in 5; None if none."""

    splits: int | None
    people: float | None

    @property
    def effort(self) -> tuple[bool, float, int]:
        """Orders what is needed: splits, then people, then what nothing decides."""
        is_hopeless = self == NOTHING_HELPS
        return is_hopeless, self.people or 0.0, self.splits or 0


NOTHING_HELPS: Final = Needed(None, None)


class Standing(NamedTuple):
    """One number beside its limit, and what would decide it."""

    number: Checked
    needed: Needed


def answer_setting(
    setting: Candidate, numbers: list[Checked], levels: Levels
) -> SettingAnswer:
    """The list of the setting, and why."""
    answer = answer_of(numbers)
    decisive = _decisive(setting, numbers, levels)
    return SettingAnswer(
        model=setting.model,
        epsilon=setting.epsilon,
        answer=answer,
        sentence=_sentence(setting, answer, decisive),
        n_splits=setting.panel.n_splits,
        splits=decisive.needed.splits,
        people=decisive.needed.people,
        allowed=_allowed_success(setting),
        numbers=numbers,
    )


def _decisive(
    setting: Candidate, numbers: Sequence[Checked], levels: Levels
) -> Standing:
    """The number that the setting's sentence is about.

    Where the setting holds or breaks, the number with the least margin. Where it is
    open, one number outside decides it: the one that takes the least. If all are
    inside, all must be decided: the one that takes the most.
    """
    answer = answer_of(numbers)
    asked = [checked for checked in numbers if checked.limit is not None]
    standings = [
        Standing(checked, what_would_decide(setting, checked, levels))
        for checked in sorted(asked, key=lambda checked: checked.inside)
        if checked.answer == answer
    ]
    if answer != "open":
        return standings[0]
    standings.sort(key=lambda standing: standing.needed.effort, reverse=True)
    outside = [
        standing
        for standing in standings
        if -math.inf < standing.number.inside.errors < 0
    ]
    return outside[-1] if outside else standings[0]


def what_would_decide(setting: Candidate, checked: Checked, levels: Levels) -> Needed:
    """Splits that would decide an open number 4 times in 5; where none would, people.

    The number is decided where its bound, z errors away, is on the value's side of the
    limit. In 4 of 5 studies it is, where ``distance = (z + POWER_QUANTILE) error``, so
    that ``wanted = (distance / (z + POWER_QUANTILE))**2`` is the variance to reach.
    More splits lower the part of the variance above ``lasting``, and more people lower
    all of it.
    """
    is_open = checked.answer == "open"
    if not is_open or checked.value is None or checked.limit is None:
        return NOTHING_HELPS
    distance = abs(checked.limit - checked.value)
    error = checked.standard_error or 0.0
    if not distance * error > 0:
        return NOTHING_HELPS

    z = normal_quantile(levels.hold if checked.inside.errors > 0 else levels.breaks)
    wanted = (distance / (z + POWER_QUANTILE)) ** 2
    variance = error**2
    lasting = _lasting_variance(setting, checked, levels)
    n_splits = setting.panel.n_splits
    if wanted > lasting and lasting < variance:
        more = n_splits * (variance - lasting) / (wanted - lasting)
        return Needed(max(math.ceil(more), n_splits + 1), None)

    growth = max(1.0, variance / wanted)
    # No release says which part of the error of what is spent falls with splits.
    splits = math.ceil(growth * n_splits) if checked.what == SPENT else None
    n_people = setting.panel.mean_n[_positions(setting, checked)].sum()
    return Needed(splits, growth * float(n_people))


def _lasting_variance(setting: Candidate, checked: Checked, levels: Levels) -> float:
    """The part of a number's variance that more splits of the same people leave.

    Accuracy is of these records, so that nothing is left. Of what is spent no release
    says it, so all is taken.
    """
    if checked.what == ACCURACY:
        return 0.0
    variance = (checked.standard_error or 0.0) ** 2
    if checked.what == SPENT:
        return variance

    groups = _positions(setting, checked)
    measured = setting.measured(checked.attack or levels.attacks[0])
    if checked.what == OUTCOMES:
        return 100**2 * float(measured.received_lasting[groups].sum())
    exposed = measured.exposed
    assert exposed is not None  # it has a value
    scale = measured.proxy.scale
    people_part = exposure.PEOPLE_PARTS.get(scale, variances.people_part)
    cost = np.maximum(exposed.value[groups], 0.0)
    people = people_part(cost, exposed.n[groups])
    return min(variance, (scale.per_success or 0.0) ** 2 * float(people.sum()))


def _positions(setting: Candidate, checked: Checked) -> list[int]:
    """Where the number's groups stand in the setting's arrays."""
    return [setting.panel.group_names.index(name) for name in checked.groups]


def _sentence(setting: Candidate, answer: Answer, decisive: Standing) -> str:
    """Why the setting is on its list."""
    number, needed = decisive
    # The bound towards the limit: the lower one of an accuracy that is inside.
    is_least = (number.what == ACCURACY) == (number.inside.errors >= 0)
    digits = 2 if number.what == SPENT else 1
    end = number.lower if is_least else number.upper
    people = 0.0 if needed.people is None else needed.people
    sentence = say(
        "recommend",
        _form(answer, decisive),
        what=_subject(number),
        value=decimals(number.value, digits),
        bound="at least" if is_least else "at most",
        end=decimals(end, digits),
        limit=f"{number.limit:g}",
        why=_lack(setting, number) if number.value is None else "",
        splits=needed.splits,
        people=f"{float(f'{people:.2g}'):,.0f}",
        now=setting.panel.n_splits,
    )
    return capital(sentence)


def _form(answer: Answer, decisive: Standing) -> str:
    """Which sentence of ``words.toml`` says it."""
    number, needed = decisive
    if number.value is None:
        return f"{answer}_unknown"
    if answer == "open" and number.what == SPENT and not number.standard_error:
        return "open_promise"
    form = str(answer)
    if needed.people is not None:
        form += "_people"
    if needed.splits is not None:
        form += "_splits"
    return form


def _subject(number: Checked) -> str:
    """What a sentence calls the number."""
    attack = "" if number.attack is None else attack_kind(number.attack).label
    return say("recommend", number.what, groups=listed(number.groups), attack=attack)


def _lack(setting: Candidate, number: Checked) -> str:
    """Why a number is not known: too few people, or the release does not give it."""
    if number.attack is not None:
        is_enough = setting.measured(number.attack).has_enough_records
        if not is_enough.all():
            few = np.array(setting.panel.group_names)[~is_enough].tolist()
            least = exposure.LEAST_RECORDS
            return say("recommend", "few", groups=listed(few), least=least)
    return say("recommend", f"lacks_{number.what}")


def _allowed_success(setting: Candidate) -> float | None:
    """The most of 100 that an attacker who sees every step is right, by receipts."""
    allowed = [
        bound.allowed_advantage
        for bound in setting.bounds
        if bound.allowed_advantage is not None
    ]
    return 50 + 100 * max(allowed) if allowed else None
