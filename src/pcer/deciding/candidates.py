"""Which settings can be chosen, what are their numbers, does each hold the limits?

Called by ``recommend``; the report names limits by the constants here. Numbers are of
100, except for epsilons, with the bounds of ``measuring.bounds``. The bound that must
be inside the limit fails with ``Levels.hold``, the one that must be outside for the
setting to break it with ``Levels.breaks``.

To add a limit: a field of ``Policy``, a name here and in ``LIMITS``, an argument of
``recommend``, its numbers in ``Candidate.numbers``, and its words in ``words.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, NamedTuple

import numpy as np

from pcer.deciding.matching import usable_inflation
from pcer.errors import InputError
from pcer.files import Record
from pcer.measuring import bounds, exposure, variances
from pcer.measuring.bounds import Bounds, Tails, normal_quantile, rows_of_setting
from pcer.measuring.checks.arrays import ReleaseArrays, Setting, SplitName
from pcer.measuring.plan import Plan
from pcer.measuring.release_changes import Contrast
from pcer.measuring.training_variance import difference_of
from pcer.metrics import FloatArray
from pcer.paper.disparity import disparity_bounds
from pcer.release.attack_kinds import GAP, attack_kind
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.statistics import POWER_QUANTILE, finite_or_none
from pcer.wording import SettingName, capital, decimals, listed, say

EXPOSURE: Final = "largest_exposure"
DIFFERENCE: Final = "largest_difference"
OUTCOMES: Final = "largest_outcome_gap"
ODDS: Final = "largest_odds_gap"
DISPARITY: Final = "largest_disparity"
SPENT: Final = "most_spent"
ACCURACY: Final = "least_accuracy"
# In the order in which outputs name them; the first two are held against every deciding
# attack.
LIMITS: Final = (EXPOSURE, DIFFERENCE, OUTCOMES, ODDS, DISPARITY, SPENT, ACCURACY)
# What would decide one of these is not worked out.
UNPLANNED: Final = (ODDS, DISPARITY)
Answer = Literal["holds", "breaks", "open"]


class Margin(NamedTuple):
    """How far inside its limit a number is; below 0 it is outside."""

    errors: float  # in standard errors
    share: float  # of the limit


UNKNOWN_MARGIN: Final = Margin(-math.inf, -math.inf)


class Checked(Record):
    """One number of a setting, its bounds and its limit.

    None stands for a number that is not known, and for a limit that is not asked for.
    The bound that must be inside the limit has the level to hold, the other that to
    break.
    """

    what: str
    groups: tuple[str, ...]
    attack: str | None
    value: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    limit: float | None

    @property
    def sign(self) -> int:
        """1 where the limit is the most that is allowed, -1 where it is the least."""
        return -1 if self.what == ACCURACY else 1

    @property
    def answer(self) -> Answer:
        """Whether the bound is inside the limit, or outside the other way."""
        if self.lower is None or self.upper is None:
            # Without privacy nothing bounds what is spent.
            is_boundless = self.what == SPENT and self.value is None
            return "breaks" if is_boundless else "open"
        limit = 0.0 if self.limit is None else self.limit
        beyond = [self.sign * (end - limit) for end in (self.lower, self.upper)]
        if max(beyond) <= 0:
            return "holds"
        if min(beyond) > 0:
            return "breaks"
        return "open"

    @property
    def inside(self) -> Margin:
        """How far inside its limit it is; farthest out where that is not known."""
        if self.value is None or self.standard_error is None or self.limit is None:
            return UNKNOWN_MARGIN
        margin = (self.limit - self.value) * self.sign
        error = max(self.standard_error, math.ulp(0.0))
        scale = 1.0 if self.limit == 0 else self.limit
        return Margin(margin / error, margin / scale)


def answer_of(numbers: Sequence[Checked]) -> Answer:
    """A setting breaks where any number does, and holds where every number does."""
    answers = {checked.answer for checked in numbers if checked.limit is not None}
    if "breaks" in answers:
        return "breaks"
    return "open" if "open" in answers else "holds"


class Levels(NamedTuple):
    """Chances that one bound fails, to hold and to break; the deciding attacks."""

    hold: float
    breaks: float
    attacks: Sequence[str]


def _checked(
    what: str,
    groups: Iterable[tuple[str, ...]],
    found: Bounds,
    attack: str | None = None,
) -> Iterator[Checked]:
    """Numbers as files have them, without a limit yet."""
    for of_groups, *numbers in zip(groups, *found, strict=True):
        value, error, lower, upper = map(finite_or_none, numbers)
        yield Checked(
            what=what,
            groups=of_groups,
            attack=attack,
            value=value,
            standard_error=error,
            lower=lower,
            upper=upper,
            limit=None,
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A setting of a release; accuracy is of 100, by the name of the split."""

    model: str | None
    epsilon: float | None
    release: Release
    panel: Panel
    variance_inflation: FloatArray | None
    accuracy: Mapping[SplitName, float]

    @property
    def name(self) -> SettingName:
        """The setting's name in print."""
        return SettingName(self.model, self.epsilon)

    def numbers(self, levels: Levels) -> list[Checked]:
        """Every number that a limit may be about; accuracy comes last."""
        groups = [(name,) for name in self.panel.group_names]
        pairs = tuple(combinations(range(len(groups)), 2))
        pair_names = [*combinations(self.panel.group_names, 2)]
        at_most = Tails(upper=levels.hold, lower=levels.breaks)
        by_attack = [self.measured(attack) for attack in levels.attacks]

        numbers: list[Checked] = []
        for attack, measured in zip(levels.attacks, by_attack, strict=True):
            exposures = bounds.exposure_bounds(measured, at_most)
            numbers += _checked(EXPOSURE, groups, exposures, attack)
            differences = bounds.difference_bounds(measured, pairs, at_most)
            numbers += _checked(DIFFERENCE, pair_names, differences, attack)
        # Outcomes are the same by every attack.
        gaps = bounds.outcome_bounds(by_attack[0], pairs, at_most)
        numbers += _checked(OUTCOMES, pair_names, gaps)
        odds = bounds.odds_bounds(self.panel, pairs, at_most, self.variance_inflation)
        numbers += _checked(ODDS, pair_names, odds)
        disparities = disparity_bounds(self.measured(GAP.name), pairs, at_most)
        numbers += _checked(DISPARITY, pair_names, disparities)
        spent = bounds.spent_bounds(self.release, self.panel, at_most)
        numbers += _checked(SPENT, groups, spent)
        at_least = Tails(upper=levels.breaks, lower=levels.hold)
        right = bounds.accuracy_bounds(self.panel, at_least)
        numbers += _checked(ACCURACY, [()], right)
        return numbers

    def measured(self, attack: str) -> exposure.Measured:
        """Exposure by one attack, and outcomes."""
        return exposure.measure_panel(
            self.panel, Plan(), attack, variance_inflation=self.variance_inflation
        )

    def mean_accuracy(self) -> Contrast:
        """Mean over splits, with the error of splits."""
        by_split = np.array([*self.accuracy.values()])
        return Contrast.of(by_split[:, None], np.zeros(1))

    def accuracy_above(self, other: Candidate) -> Contrast:
        """By how much this setting is more accurate than another.

        Split by split where both have two splits or more of the same names, so that
        what splits share cancels. Otherwise the errors of both are added.
        """
        shared = [split for split in self.accuracy if split in other.accuracy]
        if len(shared) < 2:
            own = self.mean_accuracy()
            theirs = other.mean_accuracy()
            variance = own.variance + theirs.variance
            return Contrast.of((own.value - theirs.value)[None], variance)
        by_split = np.array([self.accuracy[s] - other.accuracy[s] for s in shared])
        return Contrast.of(by_split[:, None], np.zeros(1))


def candidates(releases: Sequence[Release]) -> list[Candidate]:
    """Settings in the order of the files; InputError unless all can be compared."""
    found: dict[SettingName, Candidate] = {}
    for release in releases:
        variance_inflation = usable_inflation(release, release.title)
        _require_same_subject(releases[0], release)
        for name, setting in _settings_of(release).items():
            if name in found:
                raise _unusable(
                    name, "is in two releases; give one another runs[].model"
                )
            accuracy = _accuracy_by_split(name, setting)
            found[name] = Candidate(
                *name, release, setting.panel, variance_inflation, accuracy
            )
    if len(found) < 2:
        raise InputError(
            "there is one setting only; give several to choose among.", field="runs"
        )
    return [*found.values()]


def _require_same_subject(first: Release, release: Release) -> None:
    """Raise InputError unless both are about the same groups of the same records."""
    own = release.subject
    theirs = first.subject
    is_shared = {
        "subject.attribute": own.attribute == theirs.attribute,
        "subject.groups": own.groups == theirs.groups,
        "provenance.data_digest": (
            release.provenance.data_digest == first.provenance.data_digest
        ),
    }
    for field, shared in is_shared.items():
        if not shared:
            raise InputError(
                f"releases to choose among must share {field}.", field=field
            )


def _settings_of(release: Release) -> dict[SettingName, Setting]:
    """A release's settings by name, in the order in which its runs come."""
    settings = {}
    for setting in release.kept(ReleaseArrays).settings:
        name = SettingName(setting.panel.model, setting.runs[0].epsilon)
        settings[name] = setting
    names = dict.fromkeys(SettingName(run.model, run.epsilon) for run in release.runs)
    return {name: settings[name] for name in names}


def _accuracy_by_split(name: SettingName, setting: Setting) -> dict[SplitName, float]:
    """Accuracy of 100 on the test records of each split; InputError where one lacks."""
    panel = setting.panel
    if panel.n_splits < 2:
        fault = "has one split; train on several, to know its luck"
        raise _unusable(name, fault, field="runs.split")
    accuracy = bounds.accuracy_by_split(panel)
    if not np.isfinite(accuracy).all():
        fault = (
            "lacks accuracies or sizes of test records, by which settings are chosen"
        )
        raise _unusable(name, fault, field="runs.groups.test.accuracy")
    splits = dict.fromkeys(run.split for run in setting.runs)
    return dict(zip(splits, accuracy, strict=True))


def _unusable(name: SettingName, fault: str, *, field: str = "runs") -> InputError:
    """A setting that cannot be chosen among, and why."""
    return InputError(f"{name.full} {fault}.", field=field)


# What the numbers of a setting show


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
    is_open = checked.answer == "open" and checked.what not in UNPLANNED
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
        pair = difference_of(np.array(groups)[:, None])
        lasting = 100**2 * float(measured.received.variance_lasting(pair)[0])
        return min(variance, lasting)
    exposed = measured.exposed
    assert exposed is not None  # it has a value
    scale = measured.attack_kind.scale
    people_part = exposure.PEOPLE_PARTS.get(scale, variances.people_part)
    own_exposure = np.maximum(exposed.value[groups], 0.0)
    people = people_part(own_exposure, exposed.n[groups])
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
        for bound in rows_of_setting(setting.release, setting.panel)
        if bound.allowed_advantage is not None
    ]
    return 50 + 100 * max(allowed) if allowed else None
