"""Is the planner right, and are choices? Predictions beside simulated studies.

    python -m benchmarks.planner counts [studies per world] [seed]
    python -m benchmarks.planner pilots [--draws 600] [--seed 1] [--fitted]
    python -m benchmarks.planner choices FILE...   ``worlds.choosing studies`` writes
    python -m benchmarks.planner twins FILE...     ``worlds.choosing twins`` writes

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.stats import binom
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from tests.worlds.lies import fitted_release
from tests.worlds.releases import panel_of

from benchmarks import parser_of, run_verb, with_numbers, write_results
from benchmarks.worlds.choosing import releases_in
from pcer.attacks import SettingScores, attack_models
from pcer.deciding.candidates import Candidate, Checked, Levels, answer_of, candidates
from pcer.deciding.recommend import choose, held_against, recommend
from pcer.errors import InputError
from pcer.measuring.choose_attacks import deciding_attacks
from pcer.measuring.evidence import alarms
from pcer.measuring.exact import Strata, memorised
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import PairDifference, compare_pairs
from pcer.measuring.plan import Plan
from pcer.measuring.power import CountsError, Design, Question, design_of_measured
from pcer.metrics import Counts
from pcer.release.attack_kinds import GAP
from pcer.release.file import Release
from pcer.release.panel import Panel, PooledExposures, panels
from pcer.statistics import EXPOSURE_SHARE, SIGNIFICANCE, holm
from pcer.wording import setting_name

N_WORLDS = 20


FITTED: dict[str, ClassifierMixin] = {
    "logistic": LogisticRegression(C=10.0),
    "forest": RandomForestClassifier(20, min_samples_leaf=10, random_state=0),
}
NOISE = (0.1, 0.3)
"""Share of labels that are wrong, in each group of a fitted world."""


def fitted_study(
    model: ClassifierMixin, draw: int, *, n: int = 800, n_splits: int = 20
) -> Panel:
    """A study of a fitted model; the second group's labels are noisier."""
    rng = np.random.default_rng([24, draw])
    x = rng.normal(size=(n, 20))
    group = rng.integers(0, 2, n)
    y = (x[:, 0] + x[:, 1] > 0) ^ (rng.random(n) < np.array(NOISE)[group])
    release = fitted_release(
        model, x, y.astype(int), group=group, n_splits=n_splits, draw=draw
    )
    return panels(release)[0]


def draw(rng: np.random.Generator) -> Design:
    n_settings = int(rng.choice([1, 2, 6]))
    return Design(
        group_names=("first", "second"),
        people=np.rint(10 ** rng.uniform(np.log10(200), np.log10(50_000), 2)),
        n_splits=int(rng.choice([1, 2, 5, 20, 50])),
        n_tests=(2 * n_settings, n_settings),
        error=CountsError(
            accuracy=rng.uniform(0.6, 0.97, 2),
            train_share=float(rng.choice([0.5, 0.7, 0.8, 0.9])),
        ),
    )


def draw_alike(rng: np.random.Generator) -> Design:
    """Two groups of the same accuracy, so that they receive the same."""
    study = draw(rng)
    return replace(
        study, error=replace(study.error, accuracy=study.error.accuracy[[0, 0]])
    )


def amount(study: Design, question: Question, power: float) -> float | None:
    """What the planner says is found with that power; None if nothing is."""
    largest = question.largest(study)
    if question.power(study, largest) < power:
        return None
    return float(brentq(lambda c: question.power(study, c) - power, 0.0, largest))


def exposure(
    study: Design, power: float, n: int, rng: np.random.Generator
) -> tuple | None:
    question = Question(groups=(0,))
    if (exposure := amount(study, question, power)) is None:
        return None
    exposure = planted(study, 0, exposure)
    found = detected_share(study, 0, exposure, n=n, rng=rng)
    return exposure, question.power(study, exposure), found


def difference(
    study: Design, power: float, n: int, rng: np.random.Generator
) -> tuple | None:
    base = float(rng.choice([0.0, 0.01]))
    question = Question(groups=(0, 1), base=base)
    if (exposure := amount(study, question, power)) is None:
        return None
    exposures = (base, base + exposure)
    found = shown_share(study, exposures, n=n, rng=rng)
    return exposure, question.power(study, exposure), found


def through_audit(
    study: Design, power: float, n: int, rng: np.random.Generator
) -> dict:
    """By question: the amount, the power predicted, and the share found."""
    question = Question(groups=(0, 1))
    if (exposure := amount(study, question, power)) is None:
        return {}
    predicted = question.power(study, exposure)
    found = audited_shares(study, (0.0, exposure), n=n, rng=rng)
    return {
        name: (exposure, predicted, one)
        for name, one in zip(AUDITED, found, strict=True)
    }


QUESTIONS = {"exposure": exposure, "difference": difference}
AUDITED = ("audit", "verdict")


def answers(world: int, n: int, rng: np.random.Generator) -> tuple[Design, dict]:
    if world >= N_WORLDS:
        study = draw_alike(rng)
        return study, through_audit(study, float(rng.uniform(0.5, 0.9)), n, rng)
    study = draw(rng)
    power = float(rng.uniform(0.5, 0.9))
    found = {name: ask(study, power, n, rng) for name, ask in QUESTIONS.items()}
    return study, {name: one for name, one in found.items() if one is not None}


def counts(n: int = 2_000, seed: int = 1) -> None:
    """Is the planner right? Predicted power and that of simulated studies, by world.

    Worlds are drawn: two groups of 200 to 50,000 people, accuracies of 0.6 to 0.97, a
    train share of 0.5 to 0.9, 1 to 50 splits, 1 to 6 settings. In each the planner
    names the exposure and the difference that it says would be found with a power
    between 0.5 and 0.9; as many people are then memorised, and the audit's tests count
    how often it is found.

    Then twenty further worlds, whose two groups are predicted alike, go through the
    audit itself: its measurements, its tests, its families. "audit" is how often it
    says that one group is more exposed, which is what ``pcer plan`` promises; "verdict"
    is how often its verdict names the group, which also has the error of what groups
    receive.
    """
    rows = []
    print(
        f"{'people':>15} {'splits':>6} {'tests':>5}  question    {'amount':>7} "
        "predicted found"
    )
    for world in range(2 * N_WORLDS):
        study, found = answers(world, n, np.random.default_rng([seed, world]))
        people = [int(one) for one in study.people]
        for name, answer in found.items():
            rows.append([people, study.n_splits, study.n_tests[0], name, *answer])
            print(
                f"{people[0]:>7,} {people[1]:>7,} {study.n_splits:>6} "
                f"{study.n_tests[0]:>5}  {name:<10} {answer[0]:>8.4f} "
                f"{answer[1]:>9.1%} {answer[2]:>5.1%}",
                flush=True,
            )
    for name in (*QUESTIONS, *AUDITED):
        misses = np.array([abs(row[-2] - row[-1]) for row in rows if row[3] == name])
        largest = misses.max()
        mean = misses.mean()
        print(
            f"{name}: largest miss {largest:.1%}, mean {mean:.1%}, of {len(misses)} "
            "worlds"
        )
    write_results("planner", rows)


ASKED = ("exposure", "difference")


def drawn_worlds(draws: int, seed: int) -> Iterator[tuple[str, list[Panel]]]:
    for k, world in enumerate(DRAWN):
        rng = np.random.default_rng([seed, k])
        name = f"{world.people[0]:,} / {world.people[1]:,}, {world.n_splits} splits"
        yield name, [drawn_study(world, rng) for _ in range(draws)]


def fitted_worlds(draws: int) -> Iterator[tuple[str, list[Panel]]]:
    for name, model in FITTED.items():
        yield name, [fitted_study(model, draw) for draw in range(draws)]


def pilots(arguments: Sequence[str]) -> None:
    """Is a plan from an earlier release right?

    Attacks are over all models, planned for as many splits.

    Every study of a world is a pilot: from its errors the planner says how often the
    world's exposure and difference would be found; the studies together count how often
    they are.
    """
    parser = parser_of(pilots)
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--fitted", action="store_true", help="models of scikit-learn: slow"
    )
    options = parser.parse_args(arguments)
    misses = []
    print(f"{'world':<24} {'attack':<18} question     amount predicted found")
    worlds = (
        fitted_worlds(options.draws)
        if options.fitted
        else drawn_worlds(options.draws, options.seed)
    )
    for name, studies in worlds:
        for attack in ATTACKS:
            for question, one in zip(
                ASKED, pilot_answers(studies, attack), strict=True
            ):
                misses.append(abs(one.predicted - one.found))
                print(
                    f"{name:<24} {attack:<18} {question:<10} {one.amount:>8.4f} "
                    f"{one.predicted:>9.1%} {one.found:>5.1%}",
                    flush=True,
                )
    print(f"largest miss {max(misses):.1%}, mean {np.mean(misses):.1%}")


# Choices. What is true of a setting is the mean over all studies, whose people are
# drawn anew.

CHOICE_LEVEL = 0.05


class Study(NamedTuple):
    """One study's settings with every number that a limit may be about."""

    settings: list[Candidate]
    numbers: list[list[Checked]]

    def exposures(self) -> np.ndarray:
        """(setting, cell) values by attack and group."""
        values = []
        for row in self.numbers:
            values.append([x.value for x in row if x.what == "largest_exposure"])
        return np.array(values)

    def accuracies(self) -> np.ndarray:
        """(setting,) values."""
        return np.array([row[-1].value for row in self.numbers])


def study_of(release: Release) -> Study | None:
    """As ``recommend`` has it; None if refused, as 1 in 100 honest releases is."""
    try:
        settings = candidates([release])
    except InputError:
        return None
    attacks = deciding_attacks([one.panel for one in settings], Plan())
    levels = Levels(
        SIGNIFICANCE / len(settings), SIGNIFICANCE / len(settings) / 4, attacks
    )
    return Study(settings, [[*one.numbers(levels)] for one in settings])


def _chosen(study: Study | None, limits: dict[str, float]) -> int:
    """The choice of ``recommend``; -1 for none."""
    if study is None:
        return -1
    found = choose(study.settings, [held_against(limits, row) for row in study.numbers])
    return found[0] if found else -1


def _by_points(study: Study | None, limits: dict[str, float]) -> int:
    """The most accurate setting whose estimates are inside the limits; -1 for none."""
    if study is None:
        return -1
    inside = study.exposures().max(axis=1) <= limits["largest_exposure"]
    inside &= study.accuracies() >= limits.get("least_accuracy", 0.0)
    return (
        int(np.argmax(np.where(inside, study.accuracies(), -1.0)))
        if inside.any()
        else -1
    )


def choices(arguments: Sequence[str]) -> None:
    """Does the chosen setting hold its limit in truth, and what accuracy is given up?

    Least favourable limits lie just below the true exposure of a setting. The uniform
    grid goes from the lowest true exposure of a setting to the highest in 20 steps.
    """
    parser = parser_of(choices)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    releases = [release for _, release in releases_in(options.files)]
    studies = Parallel(options.jobs)(delayed(study_of)(release) for release in releases)
    sound = [one for one in studies if one is not None]
    exposure = np.mean([one.exposures() for one in sound], axis=0).max(axis=1)
    accuracy = np.mean([one.accuracies() for one in sound], axis=0)
    print(f"{len(studies)} studies, {len(studies) - len(sound)} refused")
    print(f"{'setting':<18} exposure accuracy")
    for one, x, y in zip(sound[0].settings, exposure, accuracy, strict=True):
        print(f"{setting_name(one.model, one.epsilon):<18} {x:8.2f} {y:8.2f}")
    for release, study in [*zip(releases, studies, strict=True)][
        :3
    ]:  # nothing else is judged
        asked = {"largest_exposure": float(np.median(exposure))}
        choice = recommend(release, **asked).choice if study is not None else None
        one = None if choice is None else study.settings[_chosen(study, asked)]
        assert choice is None or (choice.model, choice.epsilon) == (
            one.model,
            one.epsilon,
        )
    kinds: dict[str, list[dict[str, float]]] = {
        "just below a setting": [
            {"largest_exposure": float(x) - 0.01} for x in exposure
        ],
        "uniform": [
            {"largest_exposure": x}
            for x in np.linspace(exposure.min(), exposure.max(), 20)
        ],
    }
    for less in (0.5, 1.0, 2.0):  # points below the best that holds in truth
        kinds[f"uniform, accuracy {less:g} below"] = [
            one | {"least_accuracy": _best(accuracy, exposure, one) - less}
            for one in kinds["uniform"]
        ]
    results: dict[str, object] = {"n_studies": len(studies)}
    for kind, asked in kinds.items():
        chosen, points = (
            np.array([[way(one, limits) for limits in asked] for one in studies])
            for way in (_chosen, _by_points)
        )
        limits = np.array([one["largest_exposure"] for one in asked])
        best = np.array([_best(accuracy, exposure, one) for one in asked])
        results[kind] = {
            way: _judged(picked, limits, best, exposure, accuracy)
            for way, picked in (("bounds", chosen), ("points", points))
        }
        for way, row in results[kind].items():
            print(
                f"{kind:<30} {way:<7}",
                "  ".join(f"{k} {v:.3g}" for k, v in row.items()),
                flush=True,
            )
    write_results("choices", results)


def _best(
    accuracy: np.ndarray, exposure: np.ndarray, limits: dict[str, float]
) -> float:
    """Accuracy of the best setting that holds the limit in truth."""
    return float(
        accuracy[exposure <= limits["largest_exposure"] + 1e-9].max(initial=-np.inf)
    )


def _judged(
    chosen: np.ndarray,
    limits: np.ndarray,
    best: np.ndarray,
    exposure: np.ndarray,
    accuracy: np.ndarray,
) -> dict[str, float]:
    """Rates over studies (first axis) and limits; the worst, with its exact p-value."""
    is_made = chosen >= 0
    broken = is_made & (exposure[chosen] > limits + 1e-9)
    right = is_made & ~broken
    worst = int(broken.sum(axis=0).max())
    given_up = (best - accuracy[chosen])[right]
    return {
        "recommends": float(is_made.mean()),
        "breaks the limit": float(broken.mean()),
        "at the worst limit": worst / len(chosen),
        "p": float(binom.sf(worst - 1, len(chosen), CHOICE_LEVEL)),
        "points given up": float(given_up.mean()) if right.any() else math.nan,
    }


def twins(arguments: Sequence[str]) -> None:
    """Does one of 12 twins hold a limit that another breaks? At the worst limit.

    That is the lowest upper bound of a twin: it holds, and others break most easily.
    """
    parser = parser_of(twins)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    for path in options.files:
        releases = [release for _, release in releases_in([path])]
        found = Parallel(options.jobs)(
            delayed(_contradicts)(release) for release in releases
        )
        contradicted = sum(found)
        n = len(found)
        p = float(binom.sf(contradicted - 1, n, CHOICE_LEVEL))
        print(
            f"{path}: {contradicted} of {n} draws contradict themselves (p = {p:.3g})",
            flush=True,
        )


def _contradicts(release: Release) -> bool:
    study = study_of(release)
    if study is None:
        return False
    largest = []
    for row in study.numbers:
        largest.append(max(x.upper for x in row if x.what == "largest_exposure"))
    limit = {"largest_exposure": min(largest)}
    answers = {answer_of(held_against(limit, row)) for row in study.numbers}
    return {"holds", "breaks"} <= answers


# Planted studies: a record is right anyway, right only when trained on (memorised), or
# wrong. A random split decides who is trained on; what is found is up to the audit's
# own tests.

SHOWN = SIGNIFICANCE * EXPOSURE_SHARE
"""Level of all differences of exposures together."""


def planted(design: Design, group: int, exposure: float) -> float:
    """The exposure nearest to ``exposure`` that so many people can have."""
    kinds = _kinds(design, group, exposure)
    return float(kinds[1] / kinds.sum())


def detected_share(
    design: Design, group: int, exposure: float, *, n: int, rng: np.random.Generator
) -> float:
    """How often an exposure of these very records is detected, in n studies."""
    p = memorised(
        _strata(design, np.tile(_kinds(design, group, exposure), (n, 1)), rng)
    ).p_value
    return float((p * design.n_tests[0] <= SIGNIFICANCE).mean())


def shown_share(
    design: Design, exposures: tuple[float, float], *, n: int, rng: np.random.Generator
) -> float:
    """How often two exposures differ, people drawn anew in each of n studies."""
    test = _compared(_panel(design, exposures, 0, n, rng), n)
    return float(
        ((test.value > 0) & (test.p_value * design.n_tests[1] <= SHOWN)).mean()
    )


def audited_shares(
    design: Design, exposures: tuple[float, float], *, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    """How often an audit says, in n studies, that the second group is more exposed.

    And how often its verdict names that group, which must be detected, too. Nothing of
    the audit is written again: counts go through its measurements, its tests and its
    families. In all settings but the first nothing is memorised.
    """
    seen = [exposures] + [(0.0, 0.0)] * (design.n_tests[0] // 2 - 1)
    panels = [_panel(design, one, k, n, rng) for k, one in enumerate(seen)]
    found = alarms(
        panels, _pairs(n), Plan(), attack=GAP.name, outcome="benefit", n_families=n
    )
    tests = [_compared(panel, n) for panel in panels]
    p_alone = np.stack([one.p_value for one in tests])
    p = np.stack([holm(of_study) for of_study in p_alone.T])
    second = tests[0].value > 0
    return float(((p[:, 0] <= SHOWN) & second).mean()), float(
        (found.exposures_differ[0] & second).mean()
    )


def _pairs(n: int) -> tuple[tuple[int, int], ...]:
    return tuple((2 * k, 2 * k + 1) for k in range(n))


def _compared(panel: Panel, n: int) -> PairDifference:
    return compare_pairs(measure_panel(panel, Plan(), GAP.name), _pairs(n)).exposure


def _panel(
    design: Design,
    exposures: tuple[float, float],
    setting: int,
    n: int,
    rng: np.random.Generator,
) -> Panel:
    """Studies of two groups each, n of them, as one setting; people are drawn anew."""
    people = (
        rng.multinomial(int(design.people[g]), _shares(design, g, exposure), size=n)
        for g, exposure in enumerate(exposures)
    )
    drawn = zip(*(_strata(design, kinds, rng) for kinds in people), strict=True)
    total, trained, correct, hits = (
        np.stack(both, axis=-1).reshape(-1, 2 * n) for both in drawn
    )
    train = _tables(trained, hits)
    test = _tables(total - trained, correct - hits)
    return panel_of(train, test, epsilon=1.0 + setting)


def _tables(n: np.ndarray, right: np.ndarray) -> Counts:
    """Everybody has a positive label."""
    return Counts(tp=right, fn=n - right, tn=0 * right, fp=0 * right)


def _shares(design: Design, group: int, exposure: float) -> np.ndarray:
    """Shares of those right anyway, memorised, and wrong."""
    right = design.error.accuracy[group]
    return np.array([right, exposure, 1 - right - exposure])


def _kinds(design: Design, group: int, exposure: float) -> np.ndarray:
    return np.rint(design.people[group] * _shares(design, group, exposure)).astype(int)


def _strata(design: Design, kinds: np.ndarray, rng: np.random.Generator) -> Strata:
    """Counts of every split of n studies (study, kind) as n groups of one label."""
    (right, known, _) = kinds.T
    total = kinds.sum(axis=1)
    shape = (1, int(design.n_splits), len(kinds))
    trained = np.broadcast_to(
        np.rint(design.error.train_share * total).astype(int), shape
    )
    right_in = rng.hypergeometric(right, total - right, trained, size=shape)
    known_in = rng.hypergeometric(
        known, total - right - known, trained - right_in, size=shape
    )
    parts = (
        np.broadcast_to(total, shape),
        trained,
        right + known_in,
        right_in + known_in,
    )
    return Strata(*(np.asarray(part, dtype=float) for part in parts))


# Attacks over all models. The log odds of a record's true label are its own, what a
# model remembers of it if it was trained on it, and luck. How much there is to remember
# varies within each group, and is more on average in the second. Every study is also a
# pilot from which others are planned.

ATTACKS = ("paired_gap", "paired_confidence", "lira_advantage")
FIELDS = ("value", "standard_error", "null_error", "benefit_covariance", "n_records")


class DrawnWorld(NamedTuple):
    """Two groups, and what can be remembered of their people: means, in log odds."""

    people: tuple[int, int]
    n_splits: int
    memory: tuple[float, float]


DRAWN = (
    DrawnWorld((600, 900), 20, (0.05, 0.13)),
    DrawnWorld((1_500, 400), 20, (0.04, 0.14)),
    DrawnWorld((400, 500), 12, (0.08, 0.24)),
    DrawnWorld((2_000, 1_500), 8, (0.06, 0.17)),
    DrawnWorld((800, 800), 50, (0.03, 0.08)),
)


class Answer(NamedTuple):
    """An amount, the power that pilots predict for it, and how often it was found."""

    amount: float
    predicted: float
    found: float


def drawn_study(world: DrawnWorld, rng: np.random.Generator) -> Panel:
    """New people, new splits, new models."""
    n = sum(world.people)
    group = np.repeat([0, 1], world.people)
    own = rng.normal(1.0, 1.5, n)
    memory = rng.exponential(np.array(world.memory)[group])
    member = np.array(
        [rng.permutation(n) < round(0.7 * n) for _ in range(world.n_splits)]
    )
    logits = own + memory * member + rng.normal(size=member.shape)
    parts = [
        [
            np.stack([x[:, group == g].sum(axis=1) for g in (0, 1)], axis=1)
            for x in (side, right)
        ]
        for side, right in ((m, m & (logits > 0)) for m in (member, ~member))
    ]
    panel = panel_of(
        *(_tables(*map(np.float64, part)) for part in parts), epsilon=math.inf
    )
    labels = np.ones(n, dtype=np.int64)
    scores = SettingScores(
        logits=logits,
        labels=labels,
        member=member,
        group=group,
        group_names=panel.group_names,
    )
    rows = attack_models([scores])[0].rows
    pooled = {}
    for name in ATTACKS:
        own_rows = [row for row in rows if row.attack == name]
        columns = {
            field: np.array([getattr(row, field) for row in own_rows])
            for field in FIELDS
        }
        pooled[name] = PooledExposures(**columns)
    return replace(panel, pooled=pooled)


def pilot_answers(
    studies: Sequence[Panel], attack: str, *, n_attacks: int = 1
) -> tuple[Answer, Answer]:
    """Of the first group's exposure and of the difference, at their mean sizes.

    Tests are the audit's own, at the first step of Holm over two groups, or one pair,
    and so many attacks that decide together.
    """
    measured = [measure_panel(one, Plan(), attack) for one in studies]
    low, high = np.mean([one.exposed.value for one in measured], axis=0).tolist()
    group = Question(groups=(0,))
    pair = Question(groups=(0, 1), base=low)
    power = np.zeros((2, len(measured)))
    found = np.zeros((2, len(measured)))
    for k, one in enumerate(measured):
        test = compare_pairs(one, ((0, 1),)).exposure
        design = design_of_measured(one, (2 * n_attacks, n_attacks))
        power[:, k] = group.power(design, low), pair.power(design, high - low)
        p = 2 * one.memorised_p()[0], test.p_value[0] if test.value[0] > 0 else 1.0
        found[:, k] = np.array(p) * n_attacks <= SIGNIFICANCE
    exposure, difference = zip(power.mean(axis=1), found.mean(axis=1), strict=True)
    return Answer(low, *exposure), Answer(high - low, *difference)


if __name__ == "__main__":
    run_verb(
        {
            "counts": with_numbers(counts),
            "pilots": pilots,
            "choices": choices,
            "twins": twins,
        }
    )
