"""How often do outcomes differ, falsely, where two groups of one truth live apart?

    python -m benchmarks.mirror outcomes [DRAWS] [SEED]

Groups have one distribution but for a feature that means nothing, in which they are far
apart: reflecting that feature swaps them, so that their rates differ by 0 in truth. A
model of neighbourhoods learns them as two data sets, and a group's own training records
move its rate. Each draw has new people and 20 models of random 70 % of them; fewer
splits are the first of these. In coin worlds groups are drawn at random.

Printed for each world and number of splits: the standard deviation of differences over
the draws, the error from people and test parts alone, the error with the training part
(``measuring.variances``), and how many of the draws each of the two calls
different at 5 %. Kept in ``benchmarks/rates/mirror.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks import run_verb, with_numbers
from pcer.measuring.training_variance import (
    SplitRates,
    difference_of,
    training_part,
    two_part_p,
)
from pcer.measuring.variances import benefit_variance, rate_variance
from pcer.statistics import SIGNIFICANCE, interval_quantile

RATES = Path(__file__).parent / "rates" / "mirror.json"
N_PEOPLE, SHARE, MOST_SPLITS = 800, 0.7, 20
N_SPLITS = (3, 5, 10, 20)
APART = 6.0  # standard deviations between the groups
DIFFERENCE = difference_of(np.array([[1], [0]]))  # the first rate minus the second

MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: LogisticRegression(),
    "15nn": lambda seed: KNeighborsClassifier(15),
    "tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "forest": lambda seed: RandomForestClassifier(30, random_state=seed),
}


class People(NamedTuple):
    """Arrays over the record."""

    features: np.ndarray
    labels: np.ndarray
    group: np.ndarray


class Found(NamedTuple):
    """What one draw shows at one number of splits."""

    difference: float
    error_now: float
    error: float
    differs_now: bool
    differs: bool


def drawn_people(rng: np.random.Generator, *, apart: float) -> People:
    """Two groups of one kind; labels follow features that are not ``apart``."""
    group = np.arange(N_PEOPLE) % 2
    features = rng.normal(size=(N_PEOPLE, 5))
    features[:, 0] += apart * (group - 0.5)
    score = 2 * (features[:, 1] + features[:, 2] * features[:, 3])
    labels = (rng.random(N_PEOPLE) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return People(features, labels, group)


def drawn_split(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(record,) who is trained on: 70 % of each label."""
    trained = np.zeros(len(labels), dtype=bool)
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(labels == label))
        trained[rows[: round(SHARE * len(rows))]] = True
    return trained


def drawn_rates(
    model: str, people: People, rng: np.random.Generator
) -> tuple[SplitRates, np.ndarray]:
    """Positive rates of every split, and (group,) mean numbers of test records."""
    tested, everybody, n_test = np.zeros((3, MOST_SPLITS, 2))
    for s in range(MOST_SPLITS):
        trained = drawn_split(people.labels, rng)
        fitted = MODELS[model](int(rng.integers(2**31)))
        fitted.fit(people.features[trained], people.labels[trained])
        positive = fitted.predict(people.features)
        for g in (0, 1):
            inside = people.group == g
            tested[s, g] = positive[inside & ~trained].mean()
            everybody[s, g] = positive[inside].mean()
            n_test[s, g] = (inside & ~trained).sum()
    return SplitRates(tested, everybody), n_test.mean(axis=0)


def found_at(rates: SplitRates, n_test: np.ndarray, n_splits: int) -> Found:
    """The test of outcomes on the first splits, without and with the training part."""
    first = SplitRates(rates.tested[:n_splits], rates.everybody[:n_splits])
    rate = first.tested.mean(axis=0)
    n = np.full(2, N_PEOPLE / 2)
    now = benefit_variance(rate, n=n, n_test=n_test, n_splits=n_splits).sum()
    by_split = DIFFERENCE.of(first.tested)[:, 0]
    spread = rate_variance(rate, n).sum() + by_split.var(ddof=1) / n_splits
    v_now = max(now, spread)
    part = training_part(first, np.arange(n_splits), share_trained=SHARE)
    v_train = part.variance(DIFFERENCE)[0]
    difference = float(DIFFERENCE.of(rate)[0])
    p = two_part_p(
        np.array(difference), v_now, v_train, degrees_of_freedom=n_splits - 1
    )
    z = interval_quantile(1 - SIGNIFICANCE)
    return Found(
        difference=difference,
        error_now=float(np.sqrt(now)),
        error=float(np.sqrt(v_now + v_train)),
        differs_now=bool(abs(difference) > z * np.sqrt(now)),
        differs=bool(p <= SIGNIFICANCE),
    )


def summary(found: list[Found]) -> dict[str, float | int]:
    """Over the draws of one world and number of splits."""
    columns = Found(*np.array(found, dtype=np.float64).T)
    return {
        "sd": round(float(columns.difference.std(ddof=1)), 4),
        "error_now": round(float(columns.error_now.mean()), 4),
        "error": round(float(columns.error.mean()), 4),
        "differs_now": int(columns.differs_now.sum()),
        "differs": int(columns.differs.sum()),
    }


def outcomes(n_draws: int = 200, seed: int = 1) -> None:
    """Count false alarms of outcomes in mirror and coin worlds."""
    kept: dict[str, Any] = {"command": f"outcomes {n_draws} {seed}", "draws": n_draws}
    print(
        f"{n_draws} draws; of each: sd | error now, with training | differs now, with"
    )
    for world, apart in (("apart", APART), ("coins", 0.0)):
        for model in MODELS:
            rng = np.random.default_rng([seed, *f"{world} {model}".encode()])
            draws = []
            for _ in range(n_draws):
                people = drawn_people(rng, apart=apart)
                draws.append(drawn_rates(model, people, rng))
            for n_splits in N_SPLITS:
                row = summary([found_at(*draw, n_splits) for draw in draws])
                kept[f"{world}, {model}, {n_splits} splits"] = row
                print(
                    f"{world:6} {model:9} {n_splits:3} splits  {row['sd']:.3f} | "
                    f"{row['error_now']:.3f} {row['error']:.3f} | "
                    f"{row['differs_now']:3} {row['differs']:3}",
                    flush=True,
                )
    RATES.parent.mkdir(exist_ok=True)
    RATES.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    run_verb({"outcomes": with_numbers(outcomes)})
