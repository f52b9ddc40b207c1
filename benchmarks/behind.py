"""Behind the average: how often are the tail and the search for a subgroup wrong?

    python -m benchmarks.behind nulls [AUDITS] [SEED]
    python -m benchmarks.behind worlds [DRAWS] [SEED]
    python -m benchmarks.behind right [DRAWS] [SEED]
    python -m benchmarks.behind subgroups [DRAWS] [SEED]
    python -m benchmarks.behind named [DRAWS] [SEED]

``nulls``: scores of nine sets of 16 fitted models, memberships drawn anew (so that
nobody is memorised) and made-up groups: how often tails are called different, with the
exact 95 % upper bound. ``worlds``: simulated scores with nothing to find (four records
a person, one group's scores three times as wide, ties), and with 2 against 6 % of
people memorised at equal means. ``right``: how often an attacker is right, beside 20
further models. ``subgroups``: how often a subgroup is named where none is; ``named``:
how often the planted one is, and whether its bound is true. Counts are kept in
``benchmarks/rates/behind.json``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import pcer
from benchmarks import run_verb, with_numbers
from pcer.attacks import pooled
from pcer.attacks.subgroups import worst_subgroup
from pcer.attacks.sums import Groups
from pcer.attacks.tail import tail, tail_of_groups, tail_test
from pcer.statistics import SIGNIFICANCE

RATES = Path(__file__).parent / "rates" / "behind.json"
N_MODELS, N_FURTHER, N_PEOPLE = 16, 20, 1_000
N_DRAWS = 999  # permutations
NULL_PEOPLE, NULL_DRAWS = 500, 199  # of real scores, of which there are many audits
GROUPINGS = 20  # made-up groups of one membership
SUBGROUP_DRAWS = 199
MODELS: dict[str, Callable[[int], Any]] = {
    "tree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "1nn": lambda seed: KNeighborsClassifier(1),
    "forest": lambda seed: RandomForestClassifier(30, random_state=seed),
    "mlp": lambda seed: MLPClassifier((32,), max_iter=60, random_state=seed),
    "logistic": lambda seed: LogisticRegression(max_iter=300),
}
SOURCES = [f"compas {name}" for name in MODELS] + [
    f"made {name}" for name in MODELS if name != "logistic"
]


def keep(name: str, found: dict[str, Any]) -> None:
    """Write one command's counts beside those of the others, and print them."""
    kept = json.loads(RATES.read_text()) if RATES.exists() else {}
    kept[name] = found
    RATES.write_text(json.dumps(kept, indent=1) + "\n")
    for key, value in found.items():
        print(f"{key}: {value}", flush=True)


def upper_bound(n: int, of: int) -> float:
    """Exact one-sided 95 % upper bound of a rate, in per cent."""
    return round(100 * float(betaincinv(n + 1, of - n, 0.95)), 1) if n < of else 100.0


# Fitted models


def people_of(
    source: str, rng: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of people drawn from COMPAS, or made up with noisy labels."""
    if source == "compas":
        data = pcer.data.load("compas")
        rows = rng.choice(data.n_records, n, replace=False)
        return np.asarray(data.features, dtype=float)[rows], data.labels[rows]
    features = rng.normal(size=(n, 5))
    score = features[:, 0] + features[:, 1] * features[:, 2] + rng.normal(size=n)
    return features, (score > 0).astype(int)


def fitted(
    source: str, n_models: int, rng: np.random.Generator, n: int = N_PEOPLE
) -> tuple[np.ndarray, np.ndarray]:
    """(model, record) confidence in the true label, and who was trained on."""
    data, name = source.split()
    features, labels = people_of(data, rng, n)
    scores = np.empty((n_models, len(labels)))
    member = rng.random(scores.shape) < 0.5
    for m, trained in enumerate(member):
        with warnings.catch_warnings(action="ignore"):  # of what has not converged
            model = MODELS[name](m).fit(features[trained], labels[trained])
        chances = model.predict_proba(features)
        scores[m] = chances[np.arange(len(labels)), labels]
    return scores, member


def halves(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two made-up groups of one size."""
    return rng.permutation(np.arange(n) % 2)


def differs(
    found: Any, codes: np.ndarray, separation: float = 0.0, **more: Any
) -> bool:
    """Whether tails of two groups are called different at 5 %."""
    more = {"n_draws": N_DRAWS} | more
    p = tail_test(found, codes, (0, 1), separation=separation, **more)
    return p <= SIGNIFICANCE


def nulls(n_audits: int = 1_600, seed: int = 1) -> None:
    """Fresh memberships on real scores, and made-up groups."""
    found: dict[str, Any] = {"command": f"nulls {n_audits} {seed}"}
    splits = np.arange(N_MODELS)
    for source in SOURCES:
        rng = np.random.default_rng([seed, *source.encode()])
        scores, _ = fitted(source, N_MODELS, rng, NULL_PEOPLE)
        n = 0
        for _ in range(n_audits // GROUPINGS):
            member = rng.random(scores.shape) < 0.5
            picked = tail(scores, member, splits)
            for _ in range(GROUPINGS):
                codes = halves(rng, NULL_PEOPLE)
                n += differs(picked, codes, n_draws=NULL_DRAWS)
        found[source] = f"{n} of {n_audits}, at most {upper_bound(n, n_audits)} %"
        print(source, found[source], flush=True)
    keep("nulls", found)


# Simulated scores


def in_people(
    rng: np.random.Generator, n_people: int, per_person: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of records that nobody memorised, and memberships by person."""
    n = n_people * per_person
    owner = np.repeat(np.arange(n_people), per_person)
    # What a model thinks of a person is alike in all of that person's records.
    scores = rng.normal(size=(N_MODELS, n_people))[:, owner]
    scores += 0.3 * rng.normal(size=(N_MODELS, n))
    member = (rng.random((N_MODELS, n_people)) < 0.5)[:, owner]
    return scores, member


def measured_separation(scores: np.ndarray, member: np.ndarray, codes: Any) -> float:
    """As a release measures it."""
    luck = pooled.luck_of(scores, pooled.Sides(member))
    return float(np.nan_to_num(pooled.separation(luck, Groups(codes, 2))).max())


def own_auc(scores: np.ndarray, member: np.ndarray) -> np.ndarray:
    """(record,) share of pairs of models in which the one with the record is higher."""
    wins = np.zeros(scores.shape[1])
    pairs = np.zeros(scores.shape[1])
    for one in range(len(scores)):
        higher = (scores[one] > scores) + 0.5 * (scores[one] == scores)
        is_pair = member[one] & ~member
        wins += (higher * is_pair).sum(axis=0)
        pairs += is_pair.sum(axis=0)
    return np.where(pairs > 0, wins / np.maximum(pairs, 1), 0.5)


def means_differ(scores: np.ndarray, member: np.ndarray, codes: np.ndarray) -> bool:
    """The test of means: own AUC of two groups."""
    sides = [own_auc(scores, member)[codes == side] for side in (0, 1)]
    error = np.sqrt(sum(side.var(ddof=1) / len(side) for side in sides))
    return bool(abs(sides[0].mean() - sides[1].mean()) > 1.96 * error)


def unequal_tails(
    rng: np.random.Generator, shares: tuple[float, float], n: int = 4_000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some people of each group memorised far, the others so that means are equal."""
    codes = np.arange(n) % 2
    member = rng.random((N_MODELS, n)) < 0.5
    is_far = rng.random(n) < np.array(shares)[codes]
    # A shift d lifts the AUC to Phi(d / sqrt 2), by about .282 d; far ones by .5.
    missing = 0.5 * (max(shares) - np.array(shares)) / 0.282
    shift = np.where(is_far, 6.0, missing[codes])
    return rng.normal(size=member.shape) + shift * member, member, codes


def worlds(n_draws: int = 200, seed: int = 1) -> None:
    """Simulated worlds without and with unequal tails."""
    counts = dict.fromkeys(
        (
            "four records, by person",
            "four records, by record",
            "three times as wide",
            "ties",
            "power, separation 0",
            "power, separation as measured",
            "power of means",
            "saturated, right group",
            "saturated, other group",
        ),
        0,
    )
    splits = np.arange(N_MODELS)
    for draw in range(n_draws):
        rng = np.random.default_rng([seed, draw])
        scores, member = in_people(rng, 500, 4)
        codes = np.repeat(halves(rng, 500), 4)
        found = tail(scores, member, splits)
        person = np.repeat(np.arange(500), 4)
        counts["four records, by person"] += differs(found, codes, person=person)
        counts["four records, by record"] += differs(found, codes)

        scores, member = in_people(rng, 2_000)
        codes = halves(rng, 2_000)
        wide = tail(scores * (1 + 2 * codes), member, splits)
        counts["three times as wide"] += differs(wide, codes)
        counts["ties"] += differs(tail(np.round(scores), member, splits), codes)

        scores, member, codes = unequal_tails(rng, (0.02, 0.06))
        found = tail(scores, member, splits)
        rho = measured_separation(scores, member, codes)
        counts["power, separation 0"] += differs(found, codes)
        counts["power, separation as measured"] += differs(found, codes, rho)
        counts["power of means"] += means_differ(scores, member, codes)

        codes = halves(rng, 2_000)
        member = rng.random((N_MODELS, 2_000)) < 0.5
        lift = np.where(codes == 0, 3.0, 4.0)
        scores = rng.normal(size=member.shape) + lift * member
        found = tail(scores, member, splits)
        groups = tail_of_groups(found, codes, 2, separation=np.zeros(2))
        surplus = groups.picked * (groups.right - 0.5)
        if differs(found, codes):
            side = "right" if surplus[1] > surplus[0] else "other"
            counts[f"saturated, {side} group"] += 1
        if draw % 20 == 19:
            print(draw + 1, counts, flush=True)
    keep("worlds", {"command": f"worlds {n_draws} {seed}", **counts})


def right(n_draws: int = 3, seed: int = 1) -> None:
    """How often picks are right, beside 20 further models of the same people."""
    found: dict[str, Any] = {"command": f"right {n_draws} {seed}"}
    for name in MODELS:
        for draw in range(n_draws):
            rng = np.random.default_rng([seed, draw, *name.encode()])
            scores, member = fitted(f"made {name}", N_MODELS + N_FURTHER, rng)
            picked = tail(scores[:N_MODELS], member[:N_MODELS], np.arange(N_MODELS))
            codes = np.zeros(N_PEOPLE, dtype=int)
            group = tail_of_groups(picked, codes, 1, separation=np.zeros(1))
            truth = own_auc(scores[N_MODELS:], member[N_MODELS:])
            pairs = picked.is_pair.sum(axis=0)
            says = 100 * float(group.right[0])
            is_so = 100 * float((truth * pairs).sum() / max(pairs.sum(), 1))
            error = 100 * float(group.right_error[0])
            holds = abs(says - is_so) <= max(2.5, 2 * error)
            n = int(group.n_pairs[0])
            found[f"{name} {draw}"] = (
                f"{says:.1f} ± {error:.1f}, truth {is_so:.1f}, {n} pairs, "
                f"{'holds' if holds else 'FAILS'}"
            )
    keep("right", found)


# Subgroups


def attributes_of(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Four attributes, two of which go together."""
    first = rng.integers(0, 3, n)
    second = np.where(rng.random(n) < 0.7, first, rng.integers(0, 3, n))
    third = rng.integers(0, 2, n)
    fourth = rng.integers(0, 4, n)
    columns = (first, second, third, fourth)
    return {
        name: column.astype(str) for name, column in zip("abcd", columns, strict=False)
    }


def null_numbers(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if kind == "normal":
        return rng.normal(size=n)
    if kind == "skewed":
        return rng.exponential(size=n) ** 2
    return (rng.random(n) < 0.1).astype(float)


def local_numbers(
    name: str, attributes: dict[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Paired confidence of a local model whose features are the attributes, truth 0."""
    columns = [np.eye(len(np.unique(c)))[c.astype(int)] for c in attributes.values()]
    features = np.concatenate(columns, axis=1)
    n = len(features)
    features = features + 0.05 * rng.normal(size=features.shape)
    labels = rng.integers(0, 2, n)
    model = {
        "1nn": lambda: KNeighborsClassifier(1),
        "9nn": lambda: KNeighborsClassifier(9),
        "forest": lambda: RandomForestClassifier(
            20, min_samples_leaf=5, random_state=0
        ),
    }[name]
    into = np.zeros((2, n))
    sums = np.zeros((2, n))
    for _ in range(12):
        trained = rng.random(n) < 0.5
        chances = (
            model().fit(features[trained], labels[trained]).predict_proba(features)
        )
        confidence = chances[np.arange(n), labels]
        for side, chosen in enumerate((~trained, trained)):
            sums[side] += confidence * chosen
            into[side] += chosen
    means = sums / np.maximum(into, 1)
    return np.where((into > 0).all(axis=0), means[1] - means[0], np.nan)


def subgroups(n_draws: int = 300, seed: int = 1) -> None:
    """How often a search at 5 % names somebody where everybody is alike."""
    found: dict[str, Any] = {"command": f"subgroups {n_draws} {seed}"}
    for kind in ("normal", "skewed", "binary"):
        for depth in (2, 3):
            n_named = 0
            for draw in range(n_draws):
                rng = np.random.default_rng([seed, draw, depth, *kind.encode()])
                search = _search(null_numbers(kind, rng, 2_000), rng, depth, factor=1.0)
                n_named += bool(search.conditions)
            found[f"{kind}, depth {depth}, factor 1"] = f"{n_named} of {n_draws}"
            print(kind, depth, n_named, flush=True)
    n_plain, n_within = 0, 0
    for draw in range(n_draws):
        rng = np.random.default_rng([seed, draw, 77])
        attributes = attributes_of(rng, 2_000)
        label = (rng.random(2_000) < 0.2 + 0.2 * attributes["a"].astype(int)).astype(
            int
        )
        values = rng.normal(size=2_000) + 0.5 * label
        plain, within = (
            worst_subgroup(
                values, attributes, factor=1.0, draws=SUBGROUP_DRAWS, level=0.05, **more
            )
            for more in ({}, {"strata": label})
        )
        n_plain += bool(plain.conditions)
        n_within += bool(within.conditions)
    found["label drives exposure, plain"] = f"{n_plain} of {n_draws}"
    found["label drives exposure, within labels"] = f"{n_within} of {n_draws}"
    for name in ("1nn", "9nn", "forest"):
        n_one, n_two = 0, 0
        for draw in range(min(n_draws, 200)):
            rng = np.random.default_rng([seed, draw, *name.encode()])
            attributes = attributes_of(rng, 1_500)
            values = local_numbers(name, attributes, rng)
            one, two = (
                worst_subgroup(
                    values, attributes, factor=f, draws=SUBGROUP_DRAWS, level=0.05
                )
                for f in (1.0, 2.0)
            )
            n_one += bool(one.conditions)
            n_two += bool(two.conditions)
        of = min(n_draws, 200)
        found[f"{name} on the attributes"] = f"factor 1: {n_one}, 2: {n_two} of {of}"
        print(name, n_one, n_two, flush=True)
    keep("subgroups", found)


def _search(values: Any, rng: Any, depth: int, factor: float) -> Any:
    return worst_subgroup(
        values,
        attributes_of(rng, len(values)),
        depth=depth,
        factor=factor,
        draws=SUBGROUP_DRAWS,
        level=0.05,
    )


def planted(rng: np.random.Generator, z: float, n: int = 5_000) -> Iterator[Any]:
    """Two attributes' values that 3 % of people share, lifted by z errors."""
    attributes = attributes_of(rng, n)
    attributes["c"] = (rng.random(n) < 0.18).astype(int).astype(str)
    attributes["d"] = rng.integers(0, 6, n).astype(str)
    inside = (attributes["c"] == "1") & (attributes["d"] == "2")
    m = inside.sum()
    lift = z * np.sqrt(1 / m + 1 / (n - m))
    values = rng.normal(size=n)
    other = 0.7 * values + np.sqrt(1 - 0.7**2) * rng.normal(size=n)
    yield attributes
    yield values + lift * inside
    yield other + lift * inside
    yield lift


def named(n_draws: int = 200, seed: int = 1) -> None:
    """Whether the planted subgroup is named exactly, and whether bounds are true."""
    wanted = (("c", "1"), ("d", "2"))
    found: dict[str, Any] = {"command": f"named {n_draws} {seed}"}
    for z, factor in ((5.5, 1.0), (7.8, 2.0)):
        n_exact = 0
        for draw in range(n_draws):
            rng = np.random.default_rng([seed, draw, int(10 * z)])
            attributes, values, _, _ = planted(rng, z)
            search = worst_subgroup(
                values, attributes, factor=factor, draws=SUBGROUP_DRAWS
            )
            n_exact += search.conditions == wanted
        found[f"named exactly, z {z}, factor {factor:g}"] = f"{n_exact} of {n_draws}"
        print(z, n_exact, flush=True)
    n_named, n_true = 0, 0
    for draw in range(5 * n_draws // 2):
        rng = np.random.default_rng([seed, draw, 9])
        attributes, first, second, lift = planted(rng, 7.0)
        searches = [
            worst_subgroup(values, attributes, draws=SUBGROUP_DRAWS)
            for values in (first, second)
        ]
        best = min(searches, key=lambda one: one.p_value)
        if best.conditions:
            n_named += 1
            n_true += best.lower_bound <= _truth(attributes, best.conditions, lift)
    found["bounds true, both attacks, factor 2"] = f"{n_true} of {n_named} named"
    keep("named", found)


def _truth(attributes: dict[str, np.ndarray], conditions: Any, lift: float) -> float:
    """Mean lift of a rule's people, minus that of everybody else."""
    lifted = (attributes["c"] == "1") & (attributes["d"] == "2")
    inside = np.all([attributes[name] == value for name, value in conditions], axis=0)
    return float(lift * (lifted[inside].mean() - lifted[~inside].mean()))


if __name__ == "__main__":
    run_verb(
        {
            "nulls": with_numbers(nulls),
            "worlds": with_numbers(worlds),
            "right": with_numbers(right),
            "subgroups": with_numbers(subgroups),
            "named": with_numbers(named),
        }
    )
