"""Do models of one sweep, as each other's shadow models, make people look more exposed?

    python -m benchmarks.fleet_bias --quick       a few minutes on one core
    python -m benchmarks.fleet_bias --jobs 16     all of it
    python -m benchmarks.fleet_bias --rates       only what is found at small rates

A population is known, so the truth is. Each draw takes 400 people from it, 3 in 4 of
group a, and trains a fleet as pcer does: random splits of a fixed size, 70 % of each
label. Beside it:

    same people       400 more models on other splits of the same people: what
                      somebody can tell who knows all candidates. The fleet should
                      say the same.
    other people      200 models for every person on people drawn anew, the person
                      in half of them: what somebody can tell who knows the
                      population, but not who the others are.
    by coins          a fleet in which a coin decides about each person for itself,
                      so that a person who is out is missed and not replaced.

Kinds of models: logistic regression on 30 features, the same with noise on its weights,
trees, votes of the 7 nearest, and a network whose hidden layer is drawn anew for each
model. Groups are alike, or labels of group b are mostly chance, so that its people are
remembered more.

Printed, with errors over draws: LiRA by number of models, and paired confidence;
a person's own AUC (the chance that a model with the person in scores the person higher
than one without): its mean, spread and largest; what a fixed size changes; and the
share of people found at a small rate of false alarms, with one threshold for all and
with one for each.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from scipy.stats import norm, rankdata
from sklearn.tree import DecisionTreeClassifier
from tests.worlds.sweeps import splits

from benchmarks import mean_and_error
from benchmarks.lira import clustered_auc, lira_scores
from benchmarks.personal import personal_alarms
from pcer.attacks import SettingScores, attack_models
from pcer.attacks.scorers import Others, ratio_parts, shrunk_ratio
from pcer.metrics import BoolArray, FloatArray, IntArray

FEATURES, TELLING, GROUP_B = 30, 5, 0.25
SHARE, BATCH = 0.7, 20
RATE = 0.05
"""False alarms of the learners' part; 200 models tell no smaller share."""
TIE = 1e-9
"""Far below any difference of scores."""
ATTACKS = (
    "lira_advantage",
    "lira_offline_advantage",
    "rmia_advantage",
    "paired_confidence",
)
NAMES = ("a", "b")
Found = dict[str, float]


class People(NamedTuple):
    """Drawn from the population."""

    features: FloatArray
    labels: IntArray
    group: IntArray


class Size(NamedTuple):
    """How much is drawn."""

    n_people: int
    n_models: int
    """In the fleet, and as many shadow models of each other kind."""
    fleets: tuple[int, ...]
    """Sizes of fleets that are looked at, disjoint parts of the whole one."""


FULL = Size(400, 200, (8, 16, 50, 100, 200))
QUICK = Size(400, 100, (8, 20, 50, 100))


def people(rng: np.random.Generator, n: int, differ: bool) -> People:
    features = rng.normal(size=(n, FEATURES))
    group = (rng.random(n) < GROUP_B).astype(np.int64)
    noise = rng.normal(size=n) * np.where(differ & (group == 1), 6.0, 1.0)
    return People(
        features,
        (features[:, :TELLING].sum(axis=1) + noise > 0).astype(np.int64),
        group,
    )


def logistic(
    x: FloatArray, y: IntArray, at: FloatArray, rng: np.random.Generator
) -> FloatArray:
    return at @ _logistic_weights(x, y)


def noisy(
    x: FloatArray, y: IntArray, at: FloatArray, rng: np.random.Generator
) -> FloatArray:
    weights = _logistic_weights(x, y)
    return at @ (weights + rng.normal(0, 0.3, len(weights)))


def _logistic_weights(x: FloatArray, y: IntArray, penalty: float = 3.0) -> FloatArray:
    """Newton's method; 7 steps from 0 are enough for the penalty."""
    weights = np.zeros(x.shape[1])
    for _ in range(7):
        chance = expit(x @ weights)
        slope = x.T @ (y - chance) - penalty * weights
        bend = (x * (chance * (1 - chance))[:, None]).T @ x + penalty * np.eye(
            len(weights)
        )
        weights += np.linalg.solve(bend, slope)
    return weights


def tree(
    x: FloatArray, y: IntArray, at: FloatArray, rng: np.random.Generator
) -> FloatArray:
    grown = DecisionTreeClassifier(
        min_samples_leaf=5, random_state=int(rng.integers(2**31))
    )
    leaves = grown.fit(x, y).apply(at)
    ones = grown.tree_.value[leaves, 0, 1] * grown.tree_.n_node_samples[leaves]
    return np.log((ones + 0.5) / (grown.tree_.n_node_samples[leaves] - ones + 0.5))


def nearest(
    x: FloatArray, y: IntArray, at: FloatArray, rng: np.random.Generator
) -> FloatArray:
    far = (x**2).sum(axis=1) - 2 * at @ x.T
    ones = y[np.argpartition(far, 7, axis=1)[:, :7]].sum(axis=1)
    return np.log((ones + 0.5) / (7 - ones + 0.5))


def network(
    x: FloatArray, y: IntArray, at: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """A hidden layer of 60 drawn at random, the layer above it by least squares."""
    drawn = rng.normal(size=(x.shape[1], 60))
    shift = rng.normal(size=60)
    hidden, seen = (
        np.maximum(z @ drawn / math.sqrt(x.shape[1]) + shift, 0) for z in (x, at)
    )
    weights = np.linalg.solve(hidden.T @ hidden + np.eye(60), hidden.T @ (2.0 * y - 1))
    return 3 * seen @ weights


Learner = Callable[[FloatArray, IntArray, FloatArray, np.random.Generator], FloatArray]
LEARNERS: dict[str, Learner] = {
    "logistic": logistic,
    "noisy logistic": noisy,
    "tree": tree,
    "nearest 7": nearest,
    "network": network,
}


def scores(
    learner: Learner, drawn: People, member: BoolArray, rng: np.random.Generator
):
    """(model, person) log odds of the true label, by a model of each split."""
    x, y, _ = drawn
    found = [learner(x[row], y[row], x, rng) for row in member]
    return np.array(found) * (2 * y - 1)


def stranger_scores(
    learner: Learner,
    drawn: People,
    n_models: int,
    differ: bool,
    rng: np.random.Generator,
) -> tuple[FloatArray, BoolArray]:
    """Scores and membership (model, person); other people are new for every model.

    People are taken 20 at a time: a coin puts each of them in, strangers fill the
    training set up. The other 19 recur from model to model, which holds back 1 or 2 %
    of the variance.
    """
    n = len(drawn.labels)
    n_train = round(SHARE * n)
    member = rng.random((n_models, n)) < 0.5
    found = np.empty((n_models, n))
    for own in np.array_split(rng.permutation(n), max(n // BATCH, 1)):
        for s in range(n_models):
            rows = own[member[s, own]]
            x, y, _ = people(rng, n_train - len(rows), differ)
            x = np.vstack([x, drawn.features[rows]])
            y = np.append(y, drawn.labels[rows])
            found[s, own] = learner(x, y, drawn.features[own], rng)
    return found * (2 * drawn.labels - 1), member


def personal_auc(values: FloatArray, member: BoolArray) -> FloatArray:
    """(person,) share of pairs of models that the one with the person wins."""
    n_in = member.sum(axis=0)
    wins = (rankdata(values, axis=0) * member).sum(axis=0) - n_in * (n_in + 1) / 2
    pairs = n_in * (len(member) - n_in)
    return np.divide(wins, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def lira_by_others(
    values: FloatArray, shadow: FloatArray, inside: BoolArray
) -> FloatArray:
    """(target, person) the library's ratio, by shadow models that are no targets."""
    moments = [_moments(shadow, side, len(values)) for side in (inside, ~inside)]
    others = Others(*(part for pair in zip(*moments, strict=True) for part in pair))
    return shrunk_ratio(*ratio_parts(values, others), others.n_in, others.n_out)


def _moments(values: FloatArray, side: BoolArray, n_targets: int) -> list[FloatArray]:
    n = side.sum(axis=0).astype(np.float64)
    mean = (values * side).sum(axis=0) / np.maximum(n, 1)
    squares = ((values - mean) ** 2 * side).sum(axis=0)
    return [np.tile(part, (n_targets, 1)) for part in (n, mean, squares)]


def group_exposures(
    values: FloatArray, member: BoolArray, drawn: People
) -> dict[str, FloatArray]:
    """By attack, what pcer says of both groups."""
    scores = SettingScores(
        logits=values * (2 * drawn.labels - 1),
        labels=drawn.labels,
        member=member,
        group=drawn.group,
        group_names=NAMES,
    )
    found = {
        (row.attack, row.group): row.value for row in attack_models([scores])[0].rows
    }
    return {
        attack: np.array([found[attack, name] for name in NAMES]) for attack in ATTACKS
    }


def by_group(number: FloatArray, drawn: People) -> FloatArray:
    return np.array([np.nanmean(number[drawn.group == k]) for k in range(len(NAMES))])


def pooled_auc(score: FloatArray, member: BoolArray, drawn: People) -> FloatArray:
    parts = [drawn.group == k for k in range(len(NAMES))]
    return np.array(
        [clustered_auc(score[:, part], member[:, part]).value[0] for part in parts]
    )


def paired_confidence(
    values: FloatArray, member: BoolArray, drawn: People
) -> FloatArray:
    sure = expit(values)
    known = member.any(axis=0) & ~member.all(axis=0)
    mean = [_moments(sure, side, 1)[1][0] for side in (member, ~member)]
    return by_group(np.where(known, mean[0] - mean[1], np.nan), drawn)


def parts_of(n_models: int, size: int) -> Iterator[slice]:
    """Fleets of that size in a larger one that share no model."""
    return (slice(k, k + size) for k in range(0, n_models - size + 1, size))


def halves_spread(values: FloatArray, member: BoolArray) -> float:
    """Deviation of people's AUC beyond noise, from two halves of the models."""
    half = len(values) // 2
    first, second = (
        personal_auc(values[part], member[part])
        for part in (slice(half), slice(half, None))
    )
    known = np.isfinite(first + second)
    return math.sqrt(max(0.0, float(np.cov(first[known], second[known])[0, 1])))


def persons(values: FloatArray, member: BoolArray, truth: FloatArray) -> Found:
    """Spread of people's AUC, as seen and beyond noise; the largest, and its truth."""
    found = personal_auc(values, member)
    top = int(np.nanargmax(found))
    return {
        "spread": float(np.nanstd(found)),
        "spread beyond noise": halves_spread(values, member),
        "largest": float(found[top]) - 0.5,
        "largest, in truth": float(truth[top]) - 0.5,
    }


def one_more(
    learner: Learner, drawn: People, differ: bool, n: int, rng: np.random.Generator
):
    """What one more stranger in training adds to people's confidence, by group."""
    n_train = round(SHARE * len(drawn.labels))
    more = n_train // 5
    total = np.zeros(len(drawn.labels))
    for _ in range(n):
        x, y, _ = people(rng, n_train + more, differ)
        for sign, rows in ((1, slice(None)), (-1, slice(n_train))):
            logit = learner(x[rows], y[rows], drawn.features, rng) * (
                2 * drawn.labels - 1
            )
            total += sign * expit(logit) / more / n
    return by_group(total, drawn)


def above(score: FloatArray, member: BoolArray, rate: float) -> float:
    """Share of members above one threshold that so many of all non-members exceed."""
    known = np.isfinite(score)
    cut = np.quantile(score[known & ~member], 1 - rate)
    return float((score[known & member] > cut).mean())


def above_own(values: FloatArray, member: BoolArray, rate: float) -> float:
    """Mean over people of the share of members above a threshold of their own.

    Distribution-free: with n models without the person, the k-th lowest score is
    exceeded by one more such model with chance 1 - k/(n + 1); between two such ranks
    their shares are mixed.
    """
    out = np.sort(np.where(member, np.inf, values), axis=0)
    n_out = (~member).sum(axis=0)
    rank = (1 - rate) * (n_out + 1)
    found = [_above_rank(values, member, out, np.floor(rank) + step) for step in (0, 1)]
    part = rank - np.floor(rank)
    return float(((1 - part) * found[0] + part * found[1]).mean())


def _above_rank(
    values: FloatArray, member: BoolArray, out: FloatArray, rank: FloatArray
) -> FloatArray:
    """(person,) share of models with the person above that rank's score without."""
    cut = np.take_along_axis(out, rank.astype(np.int64)[None] - 1, axis=0)
    return ((values > cut) & member).sum(axis=0) / np.maximum(member.sum(axis=0), 1)


def small_rates(
    values: FloatArray,
    member: BoolArray,
    shadow: FloatArray,
    inside: BoolArray,
    rng: np.random.Generator,
) -> Found:
    """People found at a small rate of false alarms: one threshold, and one for each.

    Votes and leaves have few values; in truth, the lot decides between equal ones.
    """
    tie = TIE * rng.normal(size=shadow.shape)
    in_truth = {"own thresholds, in truth": above_own(shadow + tie, inside, RATE)}
    return found_at(values, member, RATE) | in_truth


def found_at(values: FloatArray, member: BoolArray, rate: float) -> Found:
    """People found at this rate of false alarms."""
    alarms = personal_alarms(values, member, fpr=rate)
    return {
        "one threshold, loss": above(values, member, rate),
        "one threshold, LiRA": above(lira_scores(values, member), member, rate),
        "own thresholds": float(alarms.raised[member].mean()),
        "own thresholds, false alarms": float(alarms.raised[~member].mean()),
    }


def measure_rates(name: str, differ: bool, draw: int, size: Size) -> dict[str, object]:
    """The part about small rates alone."""
    rng = np.random.default_rng([draw, list(LEARNERS).index(name), differ, 2])
    learner = LEARNERS[name]
    drawn = people(rng, size.n_people, differ)
    n = size.n_models
    sets = [splits(drawn.labels, models, rng, share=SHARE) for models in (n, 2 * n)]
    (values, fleet), (shadow, same) = (
        (scores(learner, drawn, one, rng), one) for one in sets
    )
    return {"rates": small_rates(values, fleet, shadow, same, rng)}


def measure(name: str, differ: bool, draw: int, size: Size) -> dict[str, object]:
    """One draw of people, all its models, and what each way of looking says."""
    rng = np.random.default_rng([draw, list(LEARNERS).index(name), differ])
    learner = LEARNERS[name]
    drawn = people(rng, size.n_people, differ)
    n = size.n_models
    fleet = splits(drawn.labels, n, rng, share=SHARE)
    values = scores(learner, drawn, fleet, rng)
    same = splits(drawn.labels, 2 * n, rng, share=SHARE)
    shadow = scores(learner, drawn, same, rng)
    coins = rng.random((n, size.n_people)) < SHARE
    by_coins = scores(learner, drawn, coins, rng)
    strange, inside = stranger_scores(learner, drawn, n, differ, rng)
    truth = {
        "same people": personal_auc(shadow, same),
        "other people": personal_auc(strange, inside),
    }
    attacks = {
        "same people": lira_by_others(values, shadow[:n], same[:n]),
        "other people": lira_by_others(values, strange, inside),
    }
    found: dict[str, FloatArray] = {
        **{
            f"lira, {who}": pooled_auc(one, fleet, drawn)
            for who, one in attacks.items()
        },
        **{f"own auc, {who}": by_group(one, drawn) - 0.5 for who, one in truth.items()},
        "paired, same people": paired_confidence(shadow, same, drawn),
        "paired, other people": paired_confidence(strange, inside, drawn),
        "own auc, by coins": by_group(personal_auc(by_coins, coins), drawn) - 0.5,
        "one more": one_more(learner, drawn, differ, n, rng),
        "deviation": by_group(
            _deviation(values, fleet) / _deviation(strange, inside), drawn
        ),
    }
    found |= {
        f"{k}, by coins": v for k, v in group_exposures(by_coins, coins, drawn).items()
    }
    spread: dict[str, Found] = {
        "other people": {"spread beyond noise": halves_spread(strange, inside)},
        "same people": {"spread beyond noise": halves_spread(shadow, same)},
    }
    for models in size.fleets:
        sets = [(values[part], fleet[part]) for part in parts_of(n, models)]
        exposures = [group_exposures(*one, drawn) for one in sets]
        own = [by_group(personal_auc(*one), drawn) - 0.5 for one in sets]
        each = [persons(*one, truth["same people"]) for one in sets]
        found |= {
            f"{attack}, {models}": np.mean([c[attack] for c in exposures], axis=0)
            for attack in ATTACKS
        }
        found[f"own auc, {models}"] = np.mean(own, axis=0)
        spread[str(models)] = {
            key: float(np.mean([e[key] for e in each])) for key in each[0]
        }
    rates = small_rates(values, fleet, shadow, same, rng)
    told = {key: list(map(float, values)) for key, values in found.items()}
    return {"exposures": told, "people": spread, "rates": rates}


def measure_in_time(
    how: Callable[..., dict], end: float, name: str, differ: bool, draw: int, size: Size
) -> dict | None:
    return None if time.monotonic() > end else how(name, differ, draw, size)


def _deviation(values: FloatArray, member: BoolArray) -> FloatArray:
    """(person,) standard deviation of the scores of models without the person."""
    n, _, squares = (part[0] for part in _moments(values, ~member, 1))
    known = (n > 1) & (squares > 0)
    return np.sqrt(np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=known))


class Kind(NamedTuple):
    """Made-up people for the part about small rates: everything about them is known."""

    level: FloatArray
    """Score without the person, on average."""
    shift: FloatArray
    """What training on the person adds, in standard deviations, which are 1."""


def kinds(rng: np.random.Generator, n: int = 4000) -> dict[str, Kind]:
    few = np.where(rng.random(n) < 0.05, 3.0, 0.2)
    return {
        "all alike": Kind(np.zeros(n), np.full(n, 1.0)),
        "some easier": Kind(rng.normal(0, 2, n), np.full(n, 1.0)),
        "few exposed": Kind(rng.normal(0, 2, n), few),
        "few exposed, and easy": Kind(np.where(few > 1, 4.0, rng.normal(0, 2, n)), few),
    }


def known_rates(kind: Kind, rate: float = 0.01) -> Found:
    """Shares of members found, worked out; ratios are the true ones."""
    own = norm.sf(norm.isf(rate) - kind.shift)

    def one_threshold(score: Callable[[FloatArray, float], FloatArray]) -> float:
        low = -60.0
        high = 60.0
        for _ in range(80):
            middle = (low + high) / 2
            too_many = score(np.zeros_like(kind.shift), middle).mean() > rate
            low, high = (middle, high) if too_many else (low, middle)
        return float(score(kind.shift, high).mean())

    return {
        "own thresholds": float(own.mean()),
        "one threshold, loss": one_threshold(lambda d, t: norm.sf(t - kind.level - d)),
        "one threshold, distance": one_threshold(lambda d, t: norm.sf(t - d)),
        "one threshold, LiRA": one_threshold(
            lambda d, t: norm.sf(t / kind.shift + kind.shift / 2 - d)
        ),
    }


def seen_rates(
    kind: Kind, n_models: int, rng: np.random.Generator, rate: float = 0.01
) -> Found:
    """The same from a fleet of models."""
    n = len(kind.level)
    member = splits(np.zeros(n, dtype=np.int64), n_models, rng, share=SHARE)
    values = kind.level + rng.normal(size=member.shape) + kind.shift * member
    return found_at(values, member, rate)


def ratio_and_error(over: FloatArray, under: FloatArray) -> tuple[float, float]:
    """Ratio of means over draws, to first order."""
    ratio = float(over.mean() / under.mean())
    return ratio, mean_and_error((over - ratio * under) / under.mean())[1]


MEASURES = {
    "lira": "lira_advantage",
    "own auc": "own auc",
    "paired": "paired_confidence",
}
"""What has a truth: its name there, and in a fleet."""


def summary(draws: list[dict], size: Size) -> dict[str, object]:
    """Means and errors over draws: of groups, their difference, bias, and people."""
    exposures = {}
    told = {}
    for key in draws[0]["exposures"]:
        by_group = _of_groups(np.array([draw["exposures"][key] for draw in draws]))
        exposures[key] = by_group
        told[key] = {name: mean_and_error(v) for name, v in by_group.items()}
    ratios = {}
    bias = {}
    for known, fleet in MEASURES.items():
        same, other = (exposures[f"{known}, {who} people"] for who in ("same", "other"))
        ratios[known] = {k: ratio_and_error(same[k], other[k]) for k in NAMES}
        for models in size.fleets:
            seen = exposures[f"{fleet}, {models}"]
            bias[f"{known}, {models}, same people"] = {
                k: mean_and_error(seen[k] - same[k]) for k in same
            }
            bias[f"{known}, {models}, other people"] = {
                k: mean_and_error(seen[k] - other[k]) for k in same
            }
    people_told = {
        who: {
            key: mean_and_error([d["people"][who][key] for d in draws]) for key in one
        }
        for who, one in draws[0]["people"].items()
    }
    coins_less = {
        k: mean_and_error(
            exposures["own auc, by coins"][k]
            - exposures[f"own auc, {size.fleets[-1]}"][k]
        )
        for k in (*NAMES, "b-a")
    }
    return {
        "exposures": told,
        "bias": bias,
        "same over other": ratios,
        "by coins less by size": coins_less,
        "people": people_told,
        "rates": rates_of(draws),
        "n_draws": len(draws),
    }


def rates_of(draws: list[dict]) -> dict[str, tuple[float, float]]:
    rates = {}
    for key in draws[0]["rates"]:
        rates[key] = mean_and_error([draw["rates"][key] for draw in draws])
    return rates


def _of_groups(values: FloatArray) -> dict[str, FloatArray]:
    """By group, and of their difference; ``values`` are (draw, group)."""
    return {"a": values[:, 0], "b": values[:, 1], "b-a": values[:, 1] - values[:, 0]}


def shown(pair: tuple[float, float]) -> str:
    return f"{pair[0]:+.4f}±{pair[1]:.4f}"


def print_world(title: str, told: dict, size: Size) -> None:
    exposures = told["exposures"]
    who = told["people"]
    print(f"\n{title}, {told['n_draws']} draws")
    columns = ["other people", "same people", *map(str, size.fleets), "by coins"]
    print(f"{'':18}" + "".join(f"{column:>16}" for column in columns))
    for known, fleet in MEASURES.items():
        for name in (*NAMES, "b-a"):
            keys = [f"{known}, {c}" for c in columns[:2]] + [
                f"{fleet}, {c}" for c in columns[2:]
            ]
            print(
                f"{known:12}{name:6}"
                + "".join(f"{shown(exposures[k][name]):>16}" for k in keys)
            )
    for truth in ("same people", "other people"):
        for known, name in product(MEASURES, (*NAMES, "b-a")):
            cells = [
                shown(told["bias"][f"{known}, {n}, {truth}"][name]) for n in size.fleets
            ]
            label = f"{known} {name} less that of {truth}"
            print(f"{label:50}" + "".join(f"{cell:>16}" for cell in cells))
    for key in ("spread", "spread beyond noise", "largest", "largest, in truth"):
        cells = [
            shown(who[c][key]) if key in who.get(c, {}) else "" for c in columns[:-1]
        ]
        print(f"{key:18.18}" + "".join(f"{cell:>16}" for cell in cells))
    for known, one in told["same over other"].items():
        print(
            f"{known}, same over other people:", {g: shown(v) for g, v in one.items()}
        )
    print("own auc, by coins less by size:", _shown(told["by coins less by size"]))
    print("one more stranger:", _shown(exposures["one more"]))
    print("deviation, same over other people:", _shown(exposures["deviation"]))
    print(f"found at {RATE:.0%}:", _shown(told["rates"]), flush=True)


def _shown(told: dict[str, tuple[float, float]]) -> dict[str, str]:
    return {key: shown(pair) for key, pair in told.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "learners", nargs="*", help=f"of {', '.join(LEARNERS)}; default: all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 draws, 100 models a fleet"
    )
    parser.add_argument(
        "--rates", action="store_true", help="only the part about small rates"
    )
    parser.add_argument("--draws", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="start no draw after that"
    )
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/fleet_bias.json")
    )
    options = parser.parse_args()
    size, n_draws = (QUICK, 3) if options.quick else (FULL, 80)
    results = small_rates_told()
    start = time.monotonic()
    worlds = list(product(options.learners or LEARNERS, (False, True)))
    how = measure_rates if options.rates else measure
    tasks = list(product(range(options.draws or n_draws), worlds))

    found = Parallel(n_jobs=options.jobs)(
        delayed(measure_in_time)(how, start + options.seconds, *world, d, size)
        for d, world in tasks
    )
    for world in worlds:
        title = f"{world[0]}, groups {'differ' if world[1] else 'alike'}"
        both = zip(tasks, found, strict=True)
        draws = [one for (_, of), one in both if of == world and one is not None]
        if options.rates:
            results[title] = {"rates": rates_of(draws), "n_draws": len(draws)}
            print(
                f"{title}, {len(draws)} draws, found at {RATE:.0%}: "
                f"{_shown(rates_of(draws))}"
            )
        else:
            results[title] = summary(draws, size)
            print_world(title, results[title], size)
    print(f"{time.monotonic() - start:.0f} s")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"size": size._asdict(), **results}, indent=1) + "\n"
    )


def small_rates_told() -> dict[str, object]:
    """Print and return what is known, and what fleets see, of made-up people."""
    rng = np.random.default_rng(7)
    told = {}
    print(
        "made-up people, share found at 1 % false alarms: worked out, seen by 20, 50, "
        "200 models"
    )
    for name, kind in kinds(rng).items():
        seen = {n: seen_rates(kind, n, rng) for n in (20, 50, 200)}
        told[name] = {"known": known_rates(kind), "seen": seen}
        for key in ("own thresholds", "one threshold, LiRA", "one threshold, loss"):
            cells = "  ".join(f"{seen[n][key]:.3f}" for n in seen)
            print(f"  {name:24}{key:22}{told[name]['known'][key]:.3f}  {cells}")
        false = "  ".join(
            f"{one['own thresholds, false alarms']:.4f}" for one in seen.values()
        )
        print(f"  {name:24}{'false alarms, own':27}  {false}", flush=True)
    return {"made up": told}


if __name__ == "__main__":
    from benchmarks import (
        fleet_bias,
    )  # by its name, so that other processes find its functions

    fleet_bias.main()
