"""Which setting holds the user's limits, and what does choosing it cost? ``recommend(releases)``.

A setting holds where each bound is inside its limit, at 5% over the settings: all must
hold, so groups and limits need no correction. It breaks where some bound is outside the
other way, at 5% over settings, groups (or pairs, where these are asked for and more)
and limits (one of exposure counts for each deciding attack); else it is open. Point
estimates are never compared with a limit: `python -m benchmarks.planner choices` counts
how often either is wrong. Exposure and outcomes are about people like these; accuracy
is of these records. Numbers are of 100, but for epsilons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np

from pcer.auditing import measure, variances
from pcer.auditing.audit import Path, releases_at
from pcer.auditing.checks import Facts
from pcer.auditing.compare import (
    CONFIDENCE,
    ComparedSetting,
    Contrast,
    usable_inflation,
)
from pcer.auditing.file import Result
from pcer.auditing.measure import number
from pcer.auditing.plan import Plan, Policy
from pcer.auditing.tests import compare_pairs
from pcer.auditing.words import capital, decimals, listed, say, setting_name
from pcer.errors import InputError, door
from pcer.files import Record, parse_record
from pcer.metrics import FloatArray
from pcer.release.format import Release
from pcer.release.panel import Panel
from pcer.release.proxies import proxy_named
from pcer.statistics import (
    ORDERS,
    POWER_QUANTILE,
    SIGNIFICANCE,
    epsilon_of,
    sampled_gaussian,
)

# In the order in which outputs name them; the first two are held against every deciding
# attack.
EXPOSURE, DIFFERENCE, OUTCOMES, SPENT, ACCURACY = LIMITS = (
    *("largest_exposure", "largest_difference", "largest_outcome_gap"),
    *("most_spent", "least_accuracy"),
)
TIE_ERRORS: Final = (
    1.64  # of the paired difference: settings that are nearer to the best are tied
)
SHAPES: Final = tuple(k / 10 for k in range(11))  # eta of the negative binomial law
JOINT: Final = (
    "epsilon_of_the_private_models"  # of all models of a release, as it says itself
)
NUMBERS: Final = ("value", "standard_error", "lower", "upper")
Answer = Literal["holds", "breaks", "open"]
Law = Literal["poisson", "negative_binomial"]  # of the number of runs


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


class Price(Record):
    """What reading and choosing cost, by Renyi divergences; None: no promise, or not known.

    Attributes:
        together: epsilon of all models that were read, ``n_without`` of them not
            private.
        fresh: epsilon of a fresh private selection over the private settings: runs with
            a setting drawn at random each, their number drawn by the law, ``mean_runs``
            on average.
    """

    together: float | None
    n_models: int
    n_without: int
    fresh: float | None
    law: Law | None
    eta: float | None
    mean_runs: int
    dp_delta: float | None
    sentences: list[str]


class Recommendation(Result):
    """The result of ``pcer.recommend``.

    Attributes:
        choice: the setting to train; None where none is shown to hold every limit.
        nearest: without a choice, the setting that comes nearest, in standard errors.
        cost: the first of the attacks that exposure is held against.
    """

    format: Literal["pcer-recommendation"] = "pcer-recommendation"
    version: Literal[1] = 1
    choice: ComparedSetting | None
    settings: list[SettingAnswer]
    nearest: ComparedSetting | None
    limits: dict[str, float]
    cost: str
    headline: str
    account: list[str]
    price: Price
    release_sha256: list[str]

    @property
    def title(self) -> str:
        """How many settings hold, break and are open."""
        given = [str(setting.answer) for setting in self.settings]
        n_hold, n_break, n_open = map(given.count, ("holds", "breaks", "open"))
        return f"Which of {len(given)} settings? Hold: {n_hold}, break: {n_break}, open: {n_open}"


@door()
def recommend(
    releases: Release | Path | Sequence[Release | Path],
    *,
    policy: Policy | None = None,
    largest_exposure: float | None = None,
    largest_difference: float | None = None,
    largest_outcome_gap: float | None = None,
    most_spent: float | None = None,
    least_accuracy: float | None = None,
) -> Recommendation:
    """Say which setting to train: the most accurate of those whose bounds hold every limit.

    Settings that are not shown to be less accurate are tied with it. Of these the one
    with the smallest epsilon is chosen, then the one whose people spend least, then the
    most accurate.

    Args:
        releases: of one attribute of the same records, or their paths; two or more
            settings.
        policy: limits from a policy file; those named here replace them.
        largest_exposure: most that an attacker may be right, of 100 (coin: 50), in any
            group.
        largest_difference: most by which that may differ between two groups, in points.
        largest_outcome_gap: most by which outcomes of two groups may differ, in points
            of 100.
        most_spent: most epsilon that a group's people may spend on average, by receipts
            or promise.
        least_accuracy: least accuracy on test records, of 100.

    Raises:
        InputError: no limit, one that no release can answer, or a single setting.
    """
    limits = (
        largest_exposure,
        largest_difference,
        largest_outcome_gap,
        most_spent,
        least_accuracy,
    )
    given = {name: x for name, x in zip(LIMITS, limits, strict=True) if x is not None}
    own = parse_record(Policy, given, file="the limits").model_dump(include={*given})
    asked = Policy(**dict(policy or {})).model_dump(
        include={*LIMITS}, exclude_none=True
    )
    if not (asked := asked | own):
        raise InputError(
            "name a limit to choose by, such as largest_exposure=52.", field="limits"
        )
    settings = candidates([*releases_at(releases)])
    attacks = measure.deciding_attacks([each.panel for each in settings], Plan())
    n_groups = len(settings[0].panel.group_names)
    n_pairs = max(n_groups, math.comb(n_groups, 2))
    k = len(attacks)
    n_cells = {EXPOSURE: k * n_groups, DIFFERENCE: k * n_pairs, OUTCOMES: n_pairs}
    n_breaks = len(settings) * sum(n_cells.get(name, n_groups) for name in asked)
    levels = Levels(SIGNIFICANCE / len(settings), SIGNIFICANCE / n_breaks, attacks)
    numbers = [held_against(asked, each.numbers(levels)) for each in settings]
    for name in asked:
        if all(x.upper is None for row in numbers for x in row if x.what == name):
            lacks = say("recommend", f"lacks_{name}")
            raise InputError(f"no release can answer {name}; {lacks}.", field=name)
    answers = [
        each.answered(row, levels) for each, row in zip(settings, numbers, strict=True)
    ]
    return _concluded(settings, answers, asked, attacks)


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
            people_part = measure.PEOPLE_PARTS.get(scale, variances.people_part)
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
                zip(splits, measure.by_split(100 * right, panel.split), strict=True)
            )
            found[key] = Candidate(*key, release, panel, inflation, accuracy)
    if len(found) < 2:
        raise InputError(
            "there is one setting only; give several to choose among.", field="runs"
        )
    return [*found.values()]


def held_against(
    limits: Mapping[str, float], numbers: Iterable[Checked]
) -> list[Checked]:
    """The numbers of a setting beside the limits."""
    return [x.model_copy(update={"limit": limits.get(x.what)}) for x in numbers]


def answer_of(numbers: Sequence[Checked]) -> Answer:
    """The list of a setting: it breaks where anything does, and holds where everything does."""
    answers = {x.answer for x in numbers if x.limit is not None}
    return "breaks" if "breaks" in answers else "open" if "open" in answers else "holds"


def largest(
    numbers: Sequence[Checked], what: str, attack: str | None = None
) -> Checked | None:
    """The number of one kind with the largest value; None where none is known."""
    own = [
        x
        for x in numbers
        if (x.what, x.attack) == (what, attack) and x.value is not None
    ]
    return max(own, key=lambda x: x.value or 0.0, default=None)


def preference(
    setting: Candidate, numbers: Sequence[Checked]
) -> tuple[float, float, float]:
    """What decides among tied settings, the lowest first: epsilon, spent, then accuracy."""
    spent = largest(numbers, SPENT)
    epsilon = setting.epsilon or math.inf
    return (
        epsilon,
        epsilon if spent is None else spent.value or 0.0,
        -setting.versus().value[0],
    )


def choose(
    settings: Sequence[Candidate], numbers: Sequence[Sequence[Checked]]
) -> list[int]:
    """Positions of settings that hold and are tied with the most accurate, the choice first."""
    holding = [k for k, own in enumerate(numbers) if answer_of(own) == "holds"]
    best = max(holding, key=lambda k: settings[k].versus().value[0], default=0)
    behind = {k: settings[best].versus(settings[k]) for k in holding}
    tied = [
        k
        for k, x in behind.items()
        if x.value[0] <= TIE_ERRORS * math.sqrt(x.variance[0])
    ]
    return sorted(tied, key=lambda k: preference(settings[k], numbers[k]))


def _concluded(
    settings: Sequence[Candidate],
    answers: list[SettingAnswer],
    limits: dict[str, float],
    attacks: Sequence[str],
) -> Recommendation:
    """The choice among settings that hold, or the nearest; and the price."""
    account = list[str]()
    tied = choose(settings, [each.numbers for each in answers])

    def inside(
        k: int,
    ) -> tuple[float, float]:  # what is not known is neither near nor far
        own = [x for x in answers[k].numbers if x.limit is not None]
        known = (x.inside for x in own if (x.value, x.answer) != (None, "open"))
        return min(known, default=(-math.inf, -math.inf))

    at, form = (
        (tied[0], "chosen") if tied else (max(range(len(answers)), key=inside), "none")
    )
    told = answers[at]
    why = answers[at].sentence
    if len(tied) > 1:
        first, second = (preference(settings[k], answers[k].numbers) for k in tied[:2])
        reason = (
            "epsilon"
            if first[0] < second[0]
            else "spent"
            if first[1] < second[1]
            else "right"
        )
        form = "tied"
        why = say("recommend", f"tied_{reason}")
    if tied and at > 0:
        lower = settings[0].versus(settings[at])
        end = math.ceil(100 * (lower.value + lower.half_width(1 - CONFIDENCE))[0]) / 100
        size = f"{abs(end):g} point{'s' * (abs(end) != 1)}"
        facts = {"points": size, "first": answers[0].name}
        account.append(say("recommend", "lower" if end > 0 else "higher", **facts))
    phrases = listed([proxy_named(attack).phrase for attack in attacks])
    setting = ComparedSetting(model=told.model, epsilon=told.epsilon)
    return Recommendation(
        choice=setting if tied else None,
        settings=answers,
        nearest=None if tied else setting,
        limits=limits,
        cost=attacks[0],
        headline=say("recommend", form, name=told.name, n=len(tied), why=why),
        account=[*account, say("recommend", "about", attacks=phrases)],
        price=_price(settings),
        release_sha256=[*dict.fromkeys(each.release.sha256 for each in settings)],
    )


def _price(settings: Sequence[Candidate]) -> Price:
    """Costs of all models that were read, and of a fresh private selection."""
    private = [each for each in settings if each.epsilon is not None]
    counts = [len(each.panel.seeds) for each in private]
    k = len(private)
    n_models = sum(len(each.panel.seeds) for each in settings)
    n_without = n_models - sum(counts)
    together = None
    fresh = cast(Any, (None, None, None))
    known = [each for each in map(_divergence, private) if each is not None]
    delta = min((delta for _, delta in known), default=None)
    if delta is not None and len(known) == k:
        one = np.array([each for each, _ in known])
        if not n_without:  # as the release says, but no less than its own noise allows
            stated = cast(Any, settings[0].release.training.joint_privacy).get(JOINT)
            together = float(epsilon_of(np.array(counts) @ one, dp_delta=delta))
            together = max(
                together, float(stated if isinstance(stated, int | float) else 0.0)
            )
        if k > 1:
            fresh = selection_epsilon(one.max(axis=0), mean=k, dp_delta=delta)
    form = (
        "no_promise" if n_without else "not_known" if together is None else "together"
    )
    facts = {"n": n_models, "others": n_without, "delta": f"{delta or 0:g}", "k": k}
    sentences = [say("recommend", form, epsilon=f"{together or 0:.3g}", **facts)]
    if fresh[0] is not None:
        law = say("recommend", fresh[1], eta=f"{fresh[2] or 0:g}", k=k)
        sentences.append(
            say("recommend", "fresh", epsilon=f"{fresh[0]:.3g}", law=law, **facts)
        )
    fields: dict[str, Any] = dict(zip(("fresh", "law", "eta"), fresh, strict=True))
    fields |= {"together": together, "n_models": n_models, "n_without": n_without}
    return Price(**fields, mean_runs=k, dp_delta=delta, sentences=sentences)


def _divergence(setting: Candidate) -> tuple[FloatArray, float] | None:
    """One training's divergence and delta; None where the release does not say all it takes."""
    joint: Any = setting.release.training.joint_privacy
    own = setting.model, setting.epsilon
    noises: Any = {
        x.noise_multiplier for x in setting.release.runs if (x.model, x.epsilon) == own
    }
    try:
        steps = joint["trainings"][setting.model or ""]
        delta = joint["dp_delta"]
        (noise,) = noises
        rate = steps["sample_rate"]
        n = steps["n_steps"]
        is_one = (
            0.01 <= noise <= 1e6 and 0 < rate <= 1 <= n <= 1e9 and 0 < delta < 1
        )  # a training
        return (
            (n * sampled_gaussian(np.array([noise]), rate)[0], delta)
            if is_one
            else None
        )
    except (KeyError, TypeError, ValueError):  # any JSON may stand there
        return None


def selection_epsilon(
    divergence: FloatArray, *, mean: float, dp_delta: float
) -> tuple[float, Law, float | None]:
    """Epsilon of the best of a random number of runs, the law that costs least, and its eta.

    Papernot and Steinke (2022): Theorem 6 (Poisson) and Theorem 2 (truncated negative
    binomial, eta from 0 to 1). Other runs stay secret, and the score is public or
    within the divergence.
    """
    from scipy.optimize import brentq

    once = divergence + math.log(mean) / (ORDERS - 1)
    laws = list[tuple[float, Law, float | None]]()
    # Theorem 6 takes the delta of one run at this epsilon, for each order.
    hat = np.log1p(1 / (ORDERS - 1))[:, None]
    log_delta = (ORDERS - 1) * (divergence - hat + np.log1p(-1 / ORDERS)) - np.log(
        ORDERS
    )
    apart = (
        np.log(np.maximum(-np.expm1(-divergence), math.ulp(0.0))) / 2
    )  # by total variation
    delta = np.exp(np.minimum(np.minimum(log_delta, apart).min(axis=1), 0.0))
    laws.append(
        (float(epsilon_of(once + mean * delta, dp_delta=dp_delta)), "poisson", None)
    )
    for eta in SHAPES:

        def beyond(log_gamma: float, eta: float = eta) -> float:
            spread = -log_gamma if eta == 0 else -math.expm1(eta * log_gamma) / eta
            return math.expm1(-log_gamma) / spread - mean

        log_gamma = brentq(beyond, -50.0, -1e-9)
        more = (1 + eta) * ((1 - 1 / ORDERS) * divergence - log_gamma / ORDERS).min()
        cost = float(epsilon_of(once + more, dp_delta=dp_delta))
        laws.append((cost, "negative_binomial", eta))
    return min(laws, key=lambda law: law[0])
