"""."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from pcer.deciding.compare import usable_inflation
from pcer.errors import InputError
from pcer.files import Record
from pcer.measuring import exposure, measure, variances
from pcer.measuring.checks.arrays import Facts
from pcer.measuring.contrasts import Contrast
from pcer.measuring.measure import number
from pcer.measuring.pair_tests import compare_pairs
from pcer.measuring.plan import Plan
from pcer.metrics import FloatArray
from pcer.release.attack_kinds import proxy_named
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.statistics import POWER_QUANTILE
from pcer.wording import capital, decimals, listed, say, setting_name

# In the order in which outputs name them; the first two are held against every deciding
# attack.
EXPOSURE, DIFFERENCE, OUTCOMES, SPENT, ACCURACY = LIMITS = (
    *("largest_exposure", "largest_difference", "largest_outcome_gap"),
    *("most_spent", "least_accuracy"),
)
NUMBERS: Final = ("value", "standard_error", "lower", "upper")
Answer = Literal["holds", "breaks", "open"]


class Checked(Record):
    """One number of a setting, its bounds and its limit; None where unknown, or not asked for.

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
    def answer(self) -> Answer:
        """Whether the bound is inside the limit, or outside the other way."""
        sign = -1 if self.what == ACCURACY else 1
        limit = self.limit or 0.0
        ends = [
            sign * (end - limit) for end in (self.lower, self.upper) if end is not None
        ]
        if len(ends) < 2:  # without privacy nothing bounds what is spent
            return "breaks" if self.what == SPENT and self.value is None else "open"
        return "holds" if max(ends) <= 0 else "breaks" if min(ends) > 0 else "open"

    @property
    def inside(self) -> tuple[float, float]:
        """How far inside its limit it is, in errors, then as a share; farthest out if unknown."""
        if self.value is None or self.standard_error is None or self.limit is None:
            return -math.inf, -math.inf
        inside = (self.limit - self.value) * (-1 if self.what == ACCURACY else 1)
        return inside / (self.standard_error or math.ulp(0.0)), inside / (
            self.limit or 1.0
        )


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
        return setting_name(self.model, self.epsilon)


class Levels(NamedTuple):
    """Chances that one bound fails, to hold and to break; the deciding attacks."""

    hold: float
    breaks: float
    attacks: Sequence[str]


def _z(tail: float) -> float:
    return variances.limit_quantile(confidence_level=1 - tail)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A setting of a release; accuracy is by the name of the split."""

    model: str | None
    epsilon: float | None
    release: Release
    panel: Panel
    inflation: FloatArray | None
    accuracy: Mapping[Any, float]

    def versus(self, other: Candidate | None = None) -> Contrast:
        """Accuracy, or minus that of another setting split by split; the error is of splits."""
        common = [
            split for split in self.accuracy if other is None or split in other.accuracy
        ]
        if other is not None and len(common) < 2:  # the errors of both are added
            own = self.versus()
            theirs = other.versus()
            return Contrast.of(
                (own.value - theirs.value)[None], own.variance + theirs.variance
            )
        base = [0.0 if other is None else other.accuracy[split] for split in common]
        apart = np.array([self.accuracy[split] for split in common]) - base
        return Contrast.of(apart[:, None], np.zeros(1))

    def measured(self, attack: str) -> measure.Measured:
        """Exposure by one attack, and outcomes."""
        return measure.measure_panel(
            self.panel, Plan(), attack, inflation=self.inflation
        )

    def numbers(self, levels: Levels) -> Iterator[Checked]:
        """Every number that a limit may be about; accuracy comes last."""
        names = self.panel.group_names
        pairs = tuple(combinations(range(len(names)), 2))
        apart = [*combinations(names, 2)]
        z_hold = _z(levels.hold)
        z_break = _z(levels.breaks)

        def checked(
            what: str, groups: Any, attack: str | None, *numbers: Any
        ) -> Checked:
            value, error, *ends = map(float, numbers)
            ends = ends or [value - z_break * error, value + z_hold * error]
            fields: dict[str, Any] = {"what": what, "groups": groups, "attack": attack}
            fields |= zip(NUMBERS, map(number, (value, error, *ends)), strict=True)
            return Checked(**fields, limit=None)

        for attack in levels.attacks:
            measured = self.measured(attack)
            per: Any = measured.proxy.scale.per_success  # every deciding attack has it
            tests = compare_pairs(measured, pairs)
            exposed = measured.exposed
            most = measured.upper_limit(level=1 - levels.hold, n_limits=1)
            for g, name in enumerate(names):
                found = (math.nan,) * 4
                if exposed is not None and measured.enough[g]:
                    value = 50 + per * exposed.value[g]
                    error = per * math.sqrt(exposed.alone[g])
                    found = value, error, value - z_break * error, 50 + per * most[g]
                yield checked(EXPOSURE, (name,), attack, *found)
            for sides, value, error in zip(apart, *tests.exposure[:2], strict=True):
                yield checked(DIFFERENCE, sides, attack, per * abs(value), per * error)
        for sides, value, error in zip(apart, *tests.benefit[:2], strict=True):
            yield checked(OUTCOMES, sides, None, 100 * abs(value), 100 * error)
        # Receipts, up to the promise to a group or to all; an estimate bounds nothing.
        spent = {
            x.group: x
            for x in self.bounds
            if x.kind == "receipt" and x.mode != "refreshed"
        }
        promised = {x.group: x.mean for x in self.bounds if x.kind == "promise"}
        for name in names:
            bound = min(self.epsilon or math.inf, promised.get(name, math.inf))
            found = bound, 0.0, 0.0, bound
            if (row := spent.get(name)) is not None:
                value = min(row.mean, bound)
                error = row.standard_error or 0.0
                found = (
                    value,
                    error,
                    value - z_break * error,
                    min(value + z_hold * error, bound),
                )
            yield checked(SPENT, (name,), None, *found)
        right = self.versus()
        value = right.value[0]
        error = math.sqrt(right.variance[0])
        low, high = (right.half_width(tail)[0] for tail in (levels.hold, levels.breaks))
        yield checked(ACCURACY, (), None, value, error, value - low, value + high)

    @property
    def bounds(self) -> list[Any]:
        """What training says of the setting's groups."""
        own = self.model, self.epsilon, None
        return [x for x in self.release.bounds if (x.model, x.epsilon, x.label) == own]

    def answered(self, numbers: list[Checked], levels: Levels) -> SettingAnswer:
        """The list of the setting, and why."""
        asked = sorted(
            (x for x in numbers if x.limit is not None), key=lambda x: x.inside
        )
        answer = answer_of(numbers)
        each = [(x, *self.needed(x, levels)) for x in asked if x.answer == answer]
        if (
            answer == "open"
        ):  # the least that a number outside takes, or the most of all inside
            each.sort(
                key=lambda x: (x[1:] == (None, None), x[2] or 0, x[1] or 0),
                reverse=True,
            )
            each = [x for x in each if -math.inf < x[0].inside[0] < 0][-1:] or each
        told, splits, people = each[0]
        form = str(answer) + "_people" * bool(people) + "_splits" * bool(splits)
        why = ""
        if told.value is None:  # without privacy, of too few people, or not released
            form = f"{answer}_unknown"
            why = say("recommend", f"lacks_{told.what}")
            if told.attack and not (enough := self.measured(told.attack).enough).all():
                few = listed(np.array(self.panel.group_names)[~enough].tolist())
                why = say("recommend", "few", groups=few, least=measure.LEAST_RECORDS)
        elif answer == "open" and told.what == SPENT and not told.standard_error:
            form = "open_promise"
        at_least = (told.what == ACCURACY) == (
            told.inside[0] >= 0
        )  # the end towards its limit
        digits = 2 if told.what == SPENT else 1
        attack = proxy_named(told.attack or "").label
        end = told.lower if at_least else told.upper
        facts = {
            "value": decimals(told.value, digits),
            "end": decimals(end, digits),
            "why": why,
        }
        facts |= {
            "bound": "at least" if at_least else "at most",
            "limit": f"{told.limit:g}",
        }
        facts |= {
            "splits": str(splits),
            "people": f"{float(f'{people or 0:.2g}'):,.0f}",
        }
        what = say("recommend", told.what, groups=listed(told.groups), attack=attack)
        sentence = say("recommend", form, what=what, now=self.panel.n_splits, **facts)
        allowed = [
            x.allowed_advantage for x in self.bounds if x.allowed_advantage is not None
        ]
        return SettingAnswer(
            model=self.model,
            epsilon=self.epsilon,
            answer=answer,
            sentence=capital(sentence),
            n_splits=self.panel.n_splits,
            splits=splits,
            people=people,
            allowed=50 + 100 * max(allowed) if allowed else None,
            numbers=numbers,
        )

    def needed(self, told: Checked, levels: Levels) -> tuple[int | None, float | None]:
        """Splits that would decide a number 4 times in 5; where none would, people.

        More splits lower what is above the people's part: of what is spent, no release
        says it.
        """
        away = abs((told.limit or 0.0) - (told.value or 0.0))
        error = told.standard_error or 0.0
        if told.answer != "open" or told.value is None or not away * error > 0:
            return None, None
        z = _z(levels.hold if told.inside[0] > 0 else levels.breaks)
        panel = self.panel
        wanted = (away / (z + POWER_QUANTILE)) ** 2
        now = error**2
        groups = [panel.group_names.index(name) for name in told.groups]
        lasting = 0.0 if told.what == ACCURACY else now
        measured = self.measured(told.attack or levels.attacks[0])
        if told.what == OUTCOMES:
            lasting = 100**2 * float(measured.received_lasting[groups].sum())
        if told.attack is not None:
            exposed = measured.exposed
            scale = measured.proxy.scale
            assert exposed is not None  # it has a value
            people_part = exposure.PEOPLE_PARTS.get(scale, variances.people_part)
            at = np.maximum(exposed.value[groups], 0.0)
            n = exposed.n[groups]
            lasting = min(
                now, (scale.per_success or 0.0) ** 2 * float(people_part(at, n).sum())
            )
        if wanted > lasting < now:
            more = panel.n_splits * (now - lasting) / (wanted - lasting)
            return max(math.ceil(more), panel.n_splits + 1), None
        more = max(1.0, now / wanted)
        splits = math.ceil(more * panel.n_splits) if told.what == SPENT else None
        return splits, more * float(panel.mean_n[groups].sum())


def candidates(releases: Sequence[Release]) -> list[Candidate]:
    """Settings in the order of the files; InputError unless all can be compared."""
    found: dict[tuple[str | None, float | None], Candidate] = {}
    for release in releases:
        first = releases[0]
        inflation = usable_inflation(release, release.title)
        for what in ("subject.attribute", "subject.groups", "provenance.data_digest"):
            part, name = what.split(".")
            if (
                len(
                    {
                        str(getattr(getattr(each, part), name))
                        for each in (first, release)
                    }
                )
                > 1
            ):
                raise InputError(
                    f"releases to choose among must share {what}.", field=what
                )
        own = {
            (s.panel.model, s.runs[0].epsilon): s for s in release.kept(Facts).settings
        }
        for key in dict.fromkeys((run.model, run.epsilon) for run in release.runs):
            fault = None
            field = "runs"
            panel = own[key].panel
            right = (panel.test_accuracy * panel.n_test).sum(axis=1) / panel.n_test.sum(
                axis=1
            )
            if key in found:
                fault = "is in two releases; give one another runs[].model"
            elif panel.n_splits < 2:
                fault, field = (
                    "has one split; train on several, to know its luck",
                    "runs.split",
                )
            elif not np.isfinite(right).all():
                fault = "lacks accuracies or sizes of test records, by which settings are chosen"
                field = "runs.groups.test.accuracy"
            if fault is not None:
                raise InputError(f"{setting_name(*key)} {fault}.", field=field)
            splits = dict.fromkeys(run.split for run in own[key].runs)
            accuracy = dict(
                zip(splits, exposure.by_split(100 * right, panel.split), strict=True)
            )
            found[key] = Candidate(*key, release, panel, inflation, accuracy)
    if len(found) < 2:
        raise InputError(
            "there is one setting only; give several to choose among.", field="runs"
        )
    return [*found.values()]


def answer_of(numbers: Sequence[Checked]) -> Answer:
    """The list of a setting: it breaks where anything does, and holds where everything does."""
    answers = {x.answer for x in numbers if x.limit is not None}
    return "breaks" if "breaks" in answers else "open" if "open" in answers else "holds"
