"""Red releases, and structural edits of every field: deleted, emptied, replaced, scaled.

A field is a path through the file in which places of lists, names of groups and of
attacks count as one ("*"); an edit changes it in all its places. Numbers of an attack
are true or not, which no file can show: they are scaled only where runs or counts speak
against it.
"""

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

import pcer
from pcer.errors import PcerError
from pcer.release.file import parse_release
from tests.worlds.lies import FOREST
from tests.worlds.releases import World, simulate

Tree = dict[str, Any]
Path = tuple[str, ...]
ALARMS = ["double_disadvantage", "exposure_differs", "ratio_differs"]
# Fields whose keys are names.
NAMED = ("groups", "exposure", "effective_units", "quantiles", "not_computed")
# What says who is who: other words for it make another release, not a weaker one.
WORDS = ("format", "version", "provenance", "notes", "config", "dataset", "disclosure")
POLICIES: dict[str, Tree] = {
    "findings": {"strict": True, "fail_on": ALARMS},
    "guard": {
        "strict": True,
        "min_splits": 8,
        "required_attacks": ["lira_advantage"],
        "fail_on": ["double_disadvantage", "exposure_differs", "insufficient_data"],
    },
    "exposure": {"strict": True, "largest_exposure": 52},
    "difference": {"strict": True, "largest_difference": 1},
    "findings, not strict": {"fail_on": ALARMS},
}
QUICK = {"resamples": 10, "null_draws": 10}


# Red releases


def simulated() -> Tree:
    """Ten splits; every attack, and the counts, find more of group g1."""
    drawn = World(
        sizes=(3_000, 3_000),
        label_shares=(0.4, 0.4),
        right=[(0.8, 0.7)] * 2,
        gaps=(0.0, 0.08),
        n_seeds=10,
    )
    tree = json.loads(simulate(drawn, np.random.default_rng(2)).to_json())
    tree["subject"] |= {"n_records": 6_000, "n_missing_group": 0}
    tree["training"]["stratified_by"] = "label"
    found = {"paired_gap": 0.08, "paired_confidence": 0.08}
    found |= {"lira_advantage": 0.1, "rmia_advantage": 0.1}
    rows = []
    for attack, value in found.items():
        for group, own in (("g0", 0.01), ("g1", value)):
            row = {"epsilon": None, "group": group, "attack": attack, "value": own}
            row |= {"standard_error": 0.006, "null_error": 0.005}
            rows.append({**row, "n_records": 3_000, "n_excluded": 0})
            for run in tree["runs"]:
                single = {"value": own, "standard_error": 0.0115}
                exposure = run["groups"][group].setdefault("exposure", {})
                if not attack.startswith("paired"):
                    exposure[attack] = single
    return {**tree, "pooled_exposure": rows}


def people() -> Tree:
    """A tree fitted to people of one to three records; group b has random labels."""
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(1_000), rng.integers(1, 4, 1_000))
    group = (np.arange(1_000) % 2)[person]
    x = rng.normal(size=(len(person), 4))
    y = (x[:, 0] + np.where(group, 3.0, 0.3) * rng.normal(size=len(person)) > 0) * 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = pcer.release_from_estimator(
            DecisionTreeClassifier(min_samples_leaf=3, random_state=0),
            x,
            y,
            sensitive_features=np.array(["a", "b"])[group],
            outcome="benefit",
            person_id=person,
            n_splits=12,
            random_state=1,
            progress=False,
            disclosure=pcer.Disclosure(public_data=True),
        )
    return json.loads(release.to_json())


def forest() -> Tree:
    """A forest of eight splits with every attack and made-up groups."""
    return json.loads(FOREST.read_text())


RED: dict[str, Callable[[], Tree]] = {
    "simulated": simulated,
    "people": people,
    "forest": forest,
}


@cache
def red_text(name: str) -> str:
    """A red release, as text."""
    return json.dumps(RED[name]())


# Edits


class Edit(NamedTuple):
    """What is done to a field in all its places."""

    field: Path
    name: str
    change: Callable[[Any], Any] | None  # None: it is deleted


def fields(tree: Tree) -> list[Path]:
    """Every field of a release, but words that name it."""
    found = dict.fromkeys(_paths(tree, ()))
    return [path for path in found if path and path[0] not in WORDS]


def _paths(node: Any, path: Path) -> Iterator[Path]:
    if path and path[-1] in WORDS:
        return
    yield path
    if isinstance(node, dict):
        is_named = bool(path) and path[-1] in NAMED
        for key, value in node.items():
            yield from _paths(value, (*path, "*" if is_named else key))
    elif isinstance(node, list) and path[-1:] != ("groups",):
        for value in node:
            yield from _paths(value, (*path, "*"))


def edits_of(tree: Tree) -> list[Edit]:
    """Every edit of every field that it suits."""
    edits = []
    for field in fields(tree):
        if field[-1] == "*":
            continue
        edits += [Edit(field, "delete", None), Edit(field, "null", lambda _: None)]
        values = [*values_at(tree, field)]
        edits += [Edit(field, name, change) for name, change in _changes(values[0])]
    return edits


def _changes(value: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    if isinstance(value, bool):
        yield "replace", lambda old: not old
    elif isinstance(value, int | float):
        for number in (0, 1, 49):
            yield f"replace by {number}", lambda old, number=number: number
        for factor in (0.1, 0.5, 3, 10):
            yield f"scale by {factor}", lambda old, factor=factor: _scaled(old, factor)
    elif isinstance(value, str):
        for word in ("other", "group", "nothing", "household"):
            yield f"replace by {word}", lambda old, word=word: word
    elif isinstance(value, list | dict):
        yield "empty", lambda old: type(old)()


def _scaled(old: Any, factor: float) -> Any:
    if isinstance(old, bool) or not isinstance(old, int | float):
        return old
    return type(old)(old * factor)


def values_at(node: Any, field: Path) -> Iterator[Any]:
    """The field's value in each of its places."""
    for holder, key in _holders(node, field):
        yield holder[key]


def _holders(node: Any, field: Path) -> Iterator[tuple[Any, Any]]:
    first, *rest = field
    keys: Sequence[Any] = [first]
    if first == "*":
        keys = list(node) if isinstance(node, dict) else range(len(node or ()))
    for key in keys:
        is_there = first == "*" or (isinstance(node, dict) and key in node)
        if not is_there:
            continue
        if rest:
            yield from _holders(node[key], tuple(rest))
        else:
            yield node, key


def edited(tree: Tree, edits: Sequence[Edit]) -> Tree:
    """A copy with these edits made, one after the other."""
    tree = copy.deepcopy(tree)
    for edit in edits:
        for holder, key in [*_holders(tree, edit.field)]:
            if edit.change is None:
                del holder[key]
            else:
                holder[key] = edit.change(holder[key])
    return tree


# What an edit does


def audits(tree: Tree) -> dict[str, pcer.Audit] | None:
    """By policy, the audit; None for a file that is refused."""
    try:
        release = parse_release(tree, file="x")
        return {
            name: pcer.audit(release, pcer.Plan(**QUICK, policy=pcer.Policy(**policy)))
            for name, policy in POLICIES.items()
        }
    except PcerError:
        return None


def faults(tree: Tree) -> list[str]:
    """Policies that an edited red release passes without a word of what is missing."""
    by_policy = audits(tree) or {}
    return [
        name
        for name, audit in by_policy.items()
        if not audit.broken_rules and not is_said(audit, is_strict="not" not in name)
    ]


def is_said(audit: pcer.Audit, *, is_strict: bool) -> bool:
    """Whether a green audit says that something is missing or contradicted.

    Under strictness by a finding; else on the first screen.
    """
    if is_strict:
        return bool(audit.declarations)
    screen = " ".join(str(audit).split())
    return any(words in screen for words in SAID)


SAID = ("less evidence than the splits allow", "annot tell", "withdrawn")


# Honest releases

N_SPLITS = (1, 2, 3, 5, 8, 10, 20)
MODELS = (
    DecisionTreeClassifier(min_samples_leaf=3),
    LogisticRegression(),
    KNeighborsClassifier(10),
    RandomForestClassifier(8),
    MLPClassifier((6,), max_iter=12),
)
# How many records each of ``n`` people has.
RECORDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "records": lambda rng, n: np.ones(n, dtype=int),
    "people, equal": lambda rng, n: np.full(n, int(rng.integers(2, 6))),
    "people, unequal": lambda rng, n: rng.geometric(0.4, n),
    "people, very unequal": lambda rng, n: np.minimum(
        np.ceil(rng.lognormal(0, 1.2, n)).astype(int), 15
    ),
}


def accusations(seed: int, draw: int) -> tuple[str, list[str]]:
    """What kind of honest release one draw is, and what is said against it."""
    rng = np.random.default_rng([41, seed, draw])
    kind = str(rng.choice([*RECORDS]))
    release = honest_release(rng, kind)
    audit = pcer.audit(release, pcer.Plan(**QUICK, policy=pcer.Policy(strict=True)))
    said = [finding.sentence for finding in audit.declarations]
    said += [one.sentence for one in audit.broken_rules if one.rule != "min_splits"]
    return kind, said


def honest_release(rng: np.random.Generator, kind: str) -> pcer.Release:
    """A release of a fitted model of 400 to 1,200 records of two groups."""
    n = int(np.exp(rng.uniform(np.log(400), np.log(1_200))))
    person = np.repeat(np.arange(n), RECORDS[kind](rng, n))[:n]
    group = (rng.random(n) < rng.uniform(0.25, 0.5)).astype(int)[person]
    x = rng.normal(size=(n, 4))
    x[:, 0] += rng.choice([0.0, 1.5]) * group
    noise = rng.choice([0.5, 1.5]) * (1 + rng.choice([0, 1]) * group)
    y = (x[:, 0] + noise * rng.normal(size=n) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pcer.release_from_estimator(
            MODELS[int(rng.integers(len(MODELS)))],
            x,
            y,
            sensitive_features=np.array(["a", "b"])[group],
            outcome="benefit",
            person_id=None if kind == "records" else person,
            n_splits=int(rng.choice(N_SPLITS)),
            test_size=float(rng.choice([0.2, 0.3, 0.5])),
            random_state=int(rng.integers(2**31)),
            progress=False,
            n_jobs=1,
            disclosure=pcer.Disclosure(public_data=True),
        )
