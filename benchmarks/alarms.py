"""How often do audits, comparisons and checks alarm, where something is and where not?

    python -m benchmarks.alarms audits [releases] [seed]
    python -m benchmarks.alarms nulls [releases] [seed]
    python -m benchmarks.alarms lies [forgeries] [honest] [seed]
    python -m benchmarks.alarms declarations [releases] [seed]
    python -m benchmarks.alarms comparisons [draws] [seed] [part of a world's name]
    python -m benchmarks.alarms references [draws] [seed]
    python -m benchmarks.alarms signals [draws] [seed]
    python -m benchmarks.alarms apart|coins|planted [--help]

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import bdtrc, gammaln
from scipy.stats import hypergeom
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.worlds import fleets
from tests.worlds.lies import LIES, honest, honest_release, told
from tests.worlds.people import Kind, NullRelease, NullWorld, draw_null
from tests.worlds.references import OneModel, draw_model, scores_of
from tests.worlds.releases import World, simulate, totals
from tests.worlds.signals import draw_signals, signals_release
from tests.worlds.splits import (
    HONEST,
    Drawn,
    drifting_splits,
    folds,
    repeated_split,
    splits_by_person,
    true_splits,
)
from tests.worlds.two_models import TwoModels, draw_both, draw_fleets

import pcer
from benchmarks import run_verb, with_numbers, write_results
from benchmarks.worlds import apart
from benchmarks.worlds import planted as planted_worlds
from benchmarks.worlds.nulls import KINDS, Draw, attributes, unequal_rates
from pcer import Plan, Verdict, audit, read_release
from pcer.attacks import attack_models
from pcer.auditing.policy import is_contradiction
from pcer.measuring.checks import check_release
from pcer.measuring.choose_attacks import pairs_of
from pcer.measuring.evidence import Alarms, Evidence, alarms, decide
from pcer.measuring.exposure import measure_panel
from pcer.measuring.group_differences import attack_tests
from pcer.metrics import Counts
from pcer.release.attack_kinds import GAP
from pcer.release.file import Release, parse_release
from pcer.statistics import SIGNIFICANCE, holm, upper_p

AUDIT_PLAN = pcer.Plan(resamples=1_000, null_draws=1)
SIMULATED = ("nothing memorised", "one split", "equal ratio")
EQUAL_RATIO = World(
    sizes=(39_000, 6_500),
    label_shares=(0.25, 0.25),
    right=[(0.9, 0.6)] * 2,
    gaps=(0.02, 0.02),
    n_seeds=50,
)
SHARED_BY_SEEDS = 0.95
"""Of the records, whose fate is the same for every training seed on one split."""
POWER = ((0.03, 1), (0.005, 50))
"""Planted exposure, and splits."""


def naive(audit: pcer.Audit) -> bool:
    """Whether any interval of a disparity excludes 0."""
    intervals: list[tuple[float, float] | None] = []
    for setting in audit.settings:
        intervals += [pair.pcer_disparity.ci for pair in setting.pairs]
    return any(ci is not None and not ci[0] <= 0 <= ci[1] for ci in intervals)


def null_world(rng: np.random.Generator, **fixed: object) -> World:
    """A random world of the kind that audits meet, in which nothing is memorised."""
    n_groups = int(rng.integers(2, 6))
    drawn: dict[str, object] = {
        "sizes": [
            int(10 ** rng.uniform(np.log10(300), np.log10(40_000)))
            for _ in range(n_groups)
        ],
        "label_shares": rng.uniform(0.1, 0.6, n_groups).tolist()
        if rng.random() < 0.7
        else [float(rng.uniform(0.1, 0.6))] * n_groups,
        "right": [(float(rng.uniform(0.6, 0.97)), float(rng.uniform(0.5, 0.95)))]
        * n_groups,
        "gaps": [0.0] * n_groups,
        "n_seeds": int(rng.choice([1, 2, 3, 5, 10, 20, 50])),
        "budgets": [(None,), (1.0, None), (0.1, 0.5, 1.0, 5.0, 10.0, None)][
            int(rng.integers(3))
        ],
        "outcome": "benefit" if rng.random() < 0.5 else "harm",
    }
    return World(**{**drawn, **fixed})  # type: ignore[arg-type]


def reseeded(world: World, trained: np.ndarray, shared: np.ndarray, rng) -> np.ndarray:
    """Another training seed on the same split: most records keep their fate."""
    out = np.zeros_like(shared)
    for label, g, part in np.ndindex(out.shape):
        n = (
            trained[label, g]
            if part == 0
            else totals(world, label)[g] - trained[label, g]
        )
        kept = rng.binomial(shared[label, g, part], SHARED_BY_SEEDS)
        redrawn = rng.binomial(n, 1 - SHARED_BY_SEEDS)
        fresh = rng.binomial(redrawn, world.right[g][label])
        out[label, g, part] = min(n, kept + fresh)
    return out


def audit_alarms(
    kind: str, n: int, seed: int
) -> Iterator[tuple[bool, bool, bool, bool]]:
    """(exposure or ratio, double disadvantage, naive, has intervals) by release."""
    rng = np.random.default_rng([seed, len(kind)])
    for _ in range(n):
        world = (
            EQUAL_RATIO
            if kind == "equal ratio"
            else null_world(rng, reseed=reseeded if kind == "one split" else None)
        )
        audit = pcer.audit(simulate(world, rng), AUDIT_PLAN)
        found = audit.statements()
        differs = "exposure_differs" in found or "ratio_differs" in found
        yield differs, "double_disadvantage" in found, naive(audit), world.n_seeds > 1


def planted(exposure: float, n_splits: int, n_settings: int) -> NullWorld:
    """In one group a fifth is wrong, and right so often when trained on."""
    right = ((1, 1), (0, exposure / 0.2), (0, 0))
    kinds = [Kind(label, *chances) for label, chances in product((0, 1), right)]
    shares = np.array([[0.8, 0.2, 0.0], [0.8, 0.0, 0.2]])
    return NullWorld(
        sizes=(10_000, 10_000),
        kinds=kinds,
        shares=np.hstack([0.6 * shares, 0.4 * shares]),
        n_splits=n_splits,
        n_settings=n_settings,
    )


def exact_detected(drawn: NullRelease) -> np.ndarray:
    """(setting, group) by the exact test and Holm, settings as an audit orders them."""
    n_settings, _, n_groups = drawn.train.n.shape
    p = []
    for setting in reversed(range(n_settings)):
        p.append([exact_p(drawn, setting, group) for group in range(n_groups)])
    return holm(np.array(p)) <= SIGNIFICANCE


def exact_p(drawn: NullRelease, k: int, g: int) -> float:
    """P(U >= u): U is a sum of hypergeometric counts, one for each split and label."""
    tp, fp, tn, fn = (count[k, :, g].astype(int) for count in drawn.train)
    test_counts = (count[k, :, g].astype(int) for count in drawn.test)
    test_tp, test_fp, test_tn, test_fn = test_counts
    hits = np.concatenate([tp, tn])
    trained = np.concatenate([tp + fn, tn + fp])
    right = hits + np.concatenate([test_tp, test_tn])
    total = trained + np.concatenate([test_tp + test_fn, test_tn + test_fp])
    width = math.ceil(10 * hypergeom.std(total, right, trained).max() + 10)
    start = np.floor(hypergeom.mean(total, right, trained)).astype(int) - width
    counts = start[:, None] + np.arange(2 * width + 1)
    mass = _mass(counts, *(part[:, None] for part in (total, right, trained)))
    n = 2 ** math.ceil(math.log2(mass.size))
    whole = np.fft.irfft(np.fft.rfft(mass, n, axis=1).prod(axis=0), n)
    return float(whole[max(0, int(hits.sum() - start.sum())) :].sum())


def _mass(
    k: np.ndarray, total: np.ndarray, right: np.ndarray, trained: np.ndarray
) -> np.ndarray:
    """Hypergeometric probabilities from binomial coefficients; 0 if impossible."""
    ways = (right, k), (total - right, trained - k)
    possible = np.logical_and.reduce([(m >= 0) & (m <= n) for n, m in ways])
    logs = [
        gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
        for n, m in (*ways, (total, trained))
    ]
    return np.where(possible, np.exp(logs[0] + logs[1] - logs[2]), 0.0)


def power(
    exposure: float, n_splits: int, n_settings: int, n: int, seed: int
) -> dict[str, float]:
    rng = np.random.default_rng([seed, n_splits, n_settings])
    rows = []
    for _ in range(n):
        drawn = draw_null(planted(exposure, n_splits, n_settings), rng)
        found = evidence_of(drawn, AUDIT_PLAN)
        exact = exact_detected(drawn)
        alarm = (
            found.exposures_differ
            | found.ratios_differ
            | (found.double_disadvantage >= 0)
        )
        rows.append(
            (
                found.detected[:, 0].mean(),
                exact[:, 0].mean(),
                (found.detected != exact).any(),
                found.exposures_differ.mean(),
                alarm.mean(),
                alarm.any(),
            )
        )
    names = (
        "detected",
        "exact",
        "differ",
        "exposure_differs",
        "alarm",
        "alarm_in_any_setting",
    )
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def audits(n: int = 2_000, seed: int = 1) -> None:
    """How often does an audit cry wolf, and does it hear a real one?

    Releases are simulated.

    First, for worlds without any disparity, how often a whole audit raises an alarm,
    beside the naive rule ("the bootstrap interval of some disparity excludes zero").
    ``nulls`` has many more kinds of such worlds.

    Then power: of two groups of 10,000 with accuracy .8, split 70/30, the first is
    remembered. How often is it detected, how often does the exact Mantel-Haenszel test
    say so that is computed here from binomial coefficients, how often do the two
    differ, and how often does anything differ between the groups: that question is
    about people like these, and harder.
    """
    results: dict[str, dict[str, float]] = {}
    print(f"{'world':<58} {'releases':>8} {'differs':>10} {'double':>8} {'naive':>8}")
    for kind in SIMULATED:
        rows = np.array(
            list(audit_alarms(kind, n if kind != "equal ratio" else n // 4, seed))
        )
        many = rows[:, 3]
        rates = {
            "releases": len(rows),
            "differs": rows[:, 0].mean(),
            "double_disadvantage": rows[:, 1].mean(),
            "naive_of_those_with_intervals": rows[many, 2].mean(),
        }
        results[kind] = {key: float(value) for key, value in rates.items()}
        print(
            f"{kind:<58} {len(rows):>8} {rates['differs']:>10.2%} "
            f"{rates['double_disadvantage']:>8.2%} {rows[many, 2].mean():>8.1%}",
            flush=True,
        )
    for (exposure, n_splits), n_settings in product(POWER, (1, 6)):
        name = (
            f"{exposure} in one of two groups, {n_splits} splits, {n_settings} settings"
        )
        results[name] = found = power(exposure, n_splits, n_settings, n // 2, seed)
        told = ", ".join(f"{key} {value:.1%}" for key, value in found.items())
        print(f"{name}: {told}", flush=True)
    write_results("false_alarms", results)


BAR = 0.01
BENEFITS = ("positive_rate", "true_positive_rate", "precision")
PLANS = [Plan(benefit=benefit) for benefit in BENEFITS]
UNEQUAL = "unequal rates, remembered alike"
FAMILY = "10 attributes of 4 groups, one command"
OUTCOMES_DIFFER = (UNEQUAL, "2-20 groups of 50 to 50,000", "constants")


class Found(NamedTuple):
    """Which statements one release, or one command, makes."""

    exposure_differs: bool
    ratio_differs: bool
    double_disadvantage: bool
    outcomes_differ: bool  # a family of its own, and no alarm


def put_to(drawn: NullRelease, plan: Plan) -> Found:
    """What an audit of the counts alarms about."""
    by_setting = drawn.panels()
    found = alarms(
        by_setting,
        pairs_of(by_setting, plan),
        plan,
        attack=GAP.name,
        outcome=drawn.outcome,
        variance_inflation=drawn.variance_inflation,
    )
    return _any([found])


def put_together(family: Sequence[NullRelease], plan: Plan) -> Found:
    """The same of several attributes in one command, by Holm over all of them."""
    evidence = [evidence_of(one, plan) for one in family]
    exposures, outcomes = np.array([one.smallest_p for one in evidence]).T
    outcomes_p = holm(outcomes)
    is_shown = holm(exposures) <= SIGNIFICANCE
    found = _any([one for one, shown in zip(evidence, is_shown, strict=True) if shown])
    return found._replace(outcomes_differ=bool((outcomes_p <= SIGNIFICANCE).any()))


def evidence_of(drawn: NullRelease, plan: Plan) -> Evidence:
    """Every test of an audit of the counts."""
    by_setting = drawn.panels()
    measured = [
        measure_panel(
            panel, plan, GAP.name, variance_inflation=drawn.variance_inflation
        )
        for panel in by_setting
    ]
    pairs = pairs_of(by_setting, plan)
    return decide(
        [attack_tests(measured, pairs, random=True)], pairs, outcome=drawn.outcome
    )


def _any(found: Sequence[Alarms | Evidence]) -> Found:
    return Found(
        exposure_differs=any(bool(one.exposures_differ.any()) for one in found),
        ratio_differs=any(bool(one.ratios_differ.any()) for one in found),
        double_disadvantage=any(
            bool((one.double_disadvantage >= 0).any()) for one in found
        ),
        outcomes_differ=any(bool(one.benefits_differ.any()) for one in found),
    )


def chance(n_alarms: int, n: int) -> float:
    """Exact binomial p-value of so many alarms, or more, if 5 % of releases alarm."""
    return float(bdtrc(n_alarms - 1, n, SIGNIFICANCE)) if n_alarms else 1.0


def run(name: str, draw: Draw | None, n: int, seed: int) -> np.ndarray:
    """(release, statement)."""
    rng = np.random.default_rng([seed, *name.encode()])
    plans = [PLANS[k % len(PLANS)] for k in range(n)]
    if draw is None:
        return np.array([put_together(attributes(rng), plan) for plan in plans])
    return np.array([put_to(draw(rng), plan) for plan in plans])


def false_shares(name: str, found: np.ndarray) -> dict[str, np.ndarray]:
    """(release,) whether it makes a false statement: an alarm, or one about outcomes.

    Groups of unequal rates that are remembered alike have unequal ratios, and exposures
    alike.
    """
    is_alarm = (
        found[:, [0, 2]].any(axis=1) if name == UNEQUAL else found[:, :3].any(axis=1)
    )
    return {
        "alarm": is_alarm,
        **({} if name in OUTCOMES_DIFFER else {"outcomes": found[:, 3]}),
    }


def nulls(n: int = 2_000, seed: int = 1) -> None:
    """Does an audit make a false statement where no group differs? Simulated releases.

    Every kind of release is drawn anew (``benchmarks/worlds/nulls.py``): people, sizes,
    splits, settings. An alarm is ``exposure_differs``, ``ratio_differs`` or
    ``double_disadvantage`` in any setting and pair, before any downgrade; of groups
    with unequal rates that are remembered alike the ratios do differ, so there it is
    one of the other two. ``outcomes_differ`` is a family of its own, and counted where
    outcomes do not differ. Ten attributes of the same people are one command, and any
    statement about any of them counts. Beside each share stands the exact binomial
    p-value of so many at 5 %; the bar is .01. All is put to the three benefits in turn.
    """
    heads = (
        "exposure",
        "ratio",
        "double",
        "outcomes",
        "any alarm",
        "p",
        "outcomes p",
        "seconds",
    )
    print(f"{'kind':<44}{'releases':>9}" + "".join(f"{head:>11}" for head in heads))
    worlds: dict[str, Draw | None] = {**KINDS, UNEQUAL: unequal_rates, FAMILY: None}
    results: dict[str, dict[str, float]] = {}
    for name, draw in worlds.items():
        start = time.perf_counter()
        found = run(name, draw, n, seed)
        counted = false_shares(name, found)
        p = {what: chance(int(of.sum()), n) for what, of in counted.items()}
        shares = dict(zip(Found._fields, found.mean(axis=0).tolist(), strict=True))
        results[name] = {**shares, "alarms": float(counted["alarm"].mean()), **p}
        print(
            f"{name:<44}{n:>9,}"
            + "".join(
                f"{share:>11.2%}"
                for share in (*shares.values(), counted["alarm"].mean())
            )
            + f"{p['alarm']:>11.2f}{p.get('outcomes', math.nan):>11.2f}"
            f"{time.perf_counter() - start:>11.0f}"
            + ("  above the bar" if min(p.values()) < BAR else ""),
            flush=True,
        )
    write_results("nulls", results)


ROOT = Path(__file__).parents[1]
LEVEL = 0.01
ESTIMATED = 20
"""Releases of estimators; each is fitted ten times."""


def accused(release: Release) -> bool:
    return any(map(is_contradiction, check_release(release)))


def share_found(name: str, n: int, seed: int) -> float:
    checks = (
        {LIES[name][1], "split_names"} if "table under" in name else {LIES[name][1]}
    )
    hits = 0
    for k in range(n):
        release = parse_release(told(name, np.random.default_rng([seed, k])), file=name)
        hits += any(one.check in checks for one in check_release(release))
    return hits / n


DrawSplits = Callable[[np.random.Generator], Drawn]


def remembering(splits: Drawn, rng: np.random.Generator) -> NullRelease:
    """A release of these splits by models that remember plainly: 80 and 95 % right.

    So that whatever it cannot conclude is for its words, not for want of evidence.
    """
    train, test = (
        _labelled(np.moveaxis(part, 2, 0).astype(int)[:, None], right, rng)
        for part, right in ((splits.train, 0.95), (splits.test, 0.8))
    )
    return NullRelease(
        train=train,
        test=test,
        stratified_by=splits.stratified_by,
        effective_units=splits.effective_units,
    )


def _labelled(n: np.ndarray, right: float, rng: np.random.Generator) -> Counts:
    """Confusion tables of (label, setting, split, group) records."""
    hits = rng.binomial(n, right)
    cells = (hits[1], (n - hits)[0], hits[0], (n - hits)[1])
    return Counts(*(cell.astype(float) for cell in cells))


def usable_release(world: DrawSplits, rng: np.random.Generator) -> NullRelease:
    """One that has records of every group in every part, as a file must."""
    while not (drawn := remembering(world(rng), rng)).is_usable:
        pass
    return drawn


def lies(n_lies: int = 200, n_honest: int = 2_000, seed: int = 1) -> None:
    """How often are lies found, and honest releases accused, by all checks together?

    Lies are those of ``tests/worlds/lies.py``, of the sizes it states. Honest: the
    releases behind them, balanced by label and by both; splits of every shape (random,
    stratified, clustered and declared, folds) with models that remember plainly;
    estimators through ``release_from_estimator``; and pcer's own releases in the
    repository. An accusation is a contradiction, which breaks ``--strict``.
    """
    results: dict[str, object] = {}
    for name in LIES:
        results[name] = share = share_found(name, n_lies, seed)
        print(f"lie    {name:<32} found in {share:.1%} of {n_lies}", flush=True)
    of_lies = []
    for strata, k in product(("label", "both"), range(n_honest // 10)):
        tree = honest(np.random.default_rng([seed, 3, k]), strata=strata)
        of_lies.append(accused(parse_release(tree, file="h")))
    total = len(of_lies)
    wrong = sum(of_lies)
    print(f"honest {'behind the lies':<32} accused {wrong} of {total}", flush=True)
    for k, (name, world) in enumerate(HONEST.items()):
        rng = np.random.default_rng([seed, 4, k])
        n = n_honest // 10
        bad = sum(accused(usable_release(world, rng).release()) for _ in range(n))
        total = total + n
        wrong = wrong + bad
        print(f"honest {name:<32} accused {bad} of {n}", flush=True)
    for title, releases in (
        ("release_from_estimator", (honest_release(10, k) for k in range(ESTIMATED))),
        ("in the repository", map(read_release, own_releases())),
    ):
        flags = [accused(release) for release in releases]
        total = total + len(flags)
        wrong = wrong + sum(flags)
        print(f"honest {title:<32} accused {sum(flags)} of {len(flags)}", flush=True)
    p = stats.binomtest(wrong, total, LEVEL, alternative="greater").pvalue
    print(f"accused {wrong} of {total} honest releases; above {LEVEL:.0%}: p = {p:.3g}")
    results["honest"] = {"accused": wrong, "of": total, "p": p}
    write_results("lies", results)


def own_releases() -> list[Path]:
    places = ("studies/paper/*.release.json", "examples/*.release.json")
    paths: list[Path] = []
    for place in places:
        paths += ROOT.glob(place)
    return sorted(paths)


TRUE: dict[str, DrawSplits] = HONEST | {
    "by group, nothing said": partial(true_splits, strata="group", declared=False),
    "folds by label, nothing said": partial(folds, strata="label", declared=False),
    "by person, 1 split": partial(splits_by_person, declared=True, n_splits=1),
    "by person, 10 splits": partial(splits_by_person, declared=True, n_splits=10),
}
FALSE: dict[str, DrawSplits] = {
    "one random split, 2 names": partial(repeated_split, strata="nothing", n_names=2),
    "one random split, 5 names": partial(repeated_split, strata="nothing", n_names=5),
    "one split by label, 2 names": partial(repeated_split, strata="label", n_names=2),
    "one split by label, 3 names": partial(repeated_split, strata="label", n_names=3),
    "drift from .2, 1 split": partial(
        drifting_splits, rate=0.2, drift=0.05, n_splits=1
    ),
    "drift from .475, 1 split": partial(
        drifting_splits, rate=0.475, drift=0.05, n_splits=1
    ),
    "drift from .475, 2 splits": partial(
        drifting_splits, rate=0.475, drift=0.05, n_splits=2
    ),
    "drift from .475, 80/20, 1 split": partial(
        drifting_splits, rate=0.475, drift=0.05, n_splits=1, train_share=0.8
    ),
    "drift from .475, 80/20, 2 splits": partial(
        drifting_splits, rate=0.475, drift=0.05, n_splits=2, train_share=0.8
    ),
    "drift of 6 from .475, 80/20, 1 split": partial(
        drifting_splits, rate=0.475, drift=0.06, n_splits=1, train_share=0.8
    ),
    "by person, not said, 1 split": partial(
        splits_by_person, declared=False, n_splits=1
    ),
    "by person, not said, 10 splits": partial(
        splits_by_person, declared=False, n_splits=10
    ),
}


def finding_shares(
    world: DrawSplits, n: int, rng: np.random.Generator
) -> dict[str, float]:
    found: dict[str, int] = {"capped": 0}
    for _ in range(n):
        while not (splits := world(rng)).is_usable:
            pass
        findings = check_release(splits.release())
        found["capped"] += any(finding.caps_verdict for finding in findings)
        for check in {finding.check for finding in findings}:
            found[check] = found.get(check, 0) + 1
    return {check: count / n for check, count in sorted(found.items())}


WHOLE = (
    "random",
    "by label",
    "by both",
    "folds by label",
    "one random split, 2 names",
    "one split by label, 3 names",
    "drift from .2, 1 split",
    "drift from .475, 1 split",
)
COUNTS_PLAN = Plan(resamples=1, null_draws=1)


def capped_share(world: DrawSplits, n: int, rng: np.random.Generator) -> float:
    """How many whole audits conclude nothing because of what the release says."""
    return float(np.mean([is_capped(usable_release(world, rng)) for _ in range(n)]))


def is_capped(drawn: NullRelease) -> bool:
    found = audit(drawn.release(), COUNTS_PLAN)
    capped = any(one.caps_verdict for one in found.declarations)
    assert not capped or found.verdict is Verdict.INSUFFICIENT_DATA
    return capped


def declarations(n: int = 2_000, seed: int = 1) -> None:
    """How often are declarations contradicted, true ones and false ones?

    Splits are simulated.

    True: groups of 50 to 50,000, 1 to 20 splits, or 1 to 3 cross-validations. False:
    one split under several names; the positive rate of one of two groups of 10,000
    drifts by 5 points between the parts; people with several records are kept together
    and nobody says so. "Capped" is the share of releases with a contradiction that caps
    the verdict; the others are shares with that finding. Then half as many of some
    kinds go through whole audits, with models that remember plainly: how many have the
    verdict ``insufficient_data`` for what the release says.
    """
    results = {}
    for title, worlds in (("true", TRUE), ("false", FALSE)):
        print(f"{title} declarations, {n:,} releases each")
        for k, (name, world) in enumerate(worlds.items()):
            results[name] = finding_shares(
                world, n, np.random.default_rng([seed, title == "true", k])
            )
            parts = [f"{check} {share:.2%}" for check, share in results[name].items()]
            print(f"  {name:<34} {', '.join(parts)}", flush=True)
    print(f"whole audits, {n // 2:,} each: nothing told for what the release says")
    for k, name in enumerate(WHOLE):
        share = capped_share(
            {**TRUE, **FALSE}[name], n // 2, np.random.default_rng([seed, 2, k])
        )
        results[f"{name}, whole audit"] = {"capped": share}
        print(f"  {name:<34} {share:.2%}", flush=True)
    write_results("declarations", results)


TWO_MODELS = TwoModels(people=(500, 900), old=(0.06, 0.06), new=(0.06, 0.06))
NOTHING_REMEMBERED = replace(TWO_MODELS, old=(0.0, 0.0), new=(0.0, 0.0))
MUCH_REMEMBERED = replace(TWO_MODELS, old=(0.2, 0.2), new=(0.2, 0.2), right=0.6)
UNEQUAL_GROUPS = replace(TWO_MODELS, old=(0.03, 0.09), new=(0.03, 0.09))
BY_SHADOWS = {"LiRA": "lira_advantage", "RMIA": "rmia_advantage"}
NOT_WORSE = {
    "nothing remembered, same splits": NOTHING_REMEMBERED,
    "the same people remembered, same splits": TWO_MODELS,
    "people drawn anew remembered, same splits": replace(TWO_MODELS, remembered="anew"),
    "other people remembered, same splits": replace(TWO_MODELS, remembered="others"),
    "much remembered, other people": replace(MUCH_REMEMBERED, remembered="others"),
    "unequal groups, drawn anew": replace(UNEQUAL_GROUPS, remembered="anew"),
    "three groups, drawn anew": replace(
        TWO_MODELS,
        people=(400, 500, 900),
        old=(0.06,) * 3,
        new=(0.06,) * 3,
        remembered="anew",
    ),
    "8 splits, drawn anew": replace(TWO_MODELS, n_splits=8, remembered="anew"),
    "3 splits, not paired": replace(TWO_MODELS, n_splits=3, remembered="anew"),
    "the same people, other splits": replace(TWO_MODELS, same_splits=False),
    "other people, other splits": replace(
        TWO_MODELS, same_people=False, same_splits=False
    ),
    "every model as bad or better": replace(
        TWO_MODELS, new=(0.03, 0.05), remembered="anew"
    ),
    "paired gap, the same people": replace(TWO_MODELS, attack="paired_gap"),
    "paired gap, drawn anew": replace(
        TWO_MODELS, attack="paired_gap", remembered="anew"
    ),
    "paired gap, other people": replace(
        TWO_MODELS, attack="paired_gap", remembered="others"
    ),
    "paired gap, nothing remembered": replace(NOTHING_REMEMBERED, attack="paired_gap"),
    **{
        f"{name}, {what}": replace(world, attack=attack)
        for name, attack in BY_SHADOWS.items()
        for what, world in (
            ("nothing remembered", NOTHING_REMEMBERED),
            ("the same people", TWO_MODELS),
            ("drawn anew", replace(TWO_MODELS, remembered="anew")),
            ("other people", replace(TWO_MODELS, remembered="others")),
            (
                "much remembered, other people",
                replace(MUCH_REMEMBERED, remembered="others"),
            ),
            ("unequal groups, drawn anew", replace(UNEQUAL_GROUPS, remembered="anew")),
            (
                "8 splits, drawn anew",
                replace(TWO_MODELS, n_splits=8, remembered="anew"),
            ),
        )
    },
}
FORESTS = {
    "deep forests": RandomForestClassifier(15),
    "forests": RandomForestClassifier(15, min_samples_leaf=2),
    "shallow forests": RandomForestClassifier(15, min_samples_leaf=40),
    "trees": DecisionTreeClassifier(min_samples_leaf=5),
}
# Real models: alike, by the same columns or not; and new ones that memorise more.
REAL = {
    f"{label}, {name}, {'other' if apart else 'the same'} columns": partial(
        draw_fleets, model, attack=attack, apart=apart
    )
    for label, attack in BY_SHADOWS.items()
    for name, model in FORESTS.items()
    for apart in (False, True)
} | {
    f"{label}, forests grow from {old} to {new} people a "
    f"leaf{'' if by_run else ', not paired'}": (
        partial(
            draw_fleets,
            RandomForestClassifier(15, min_samples_leaf=old),
            new=RandomForestClassifier(15, min_samples_leaf=new),
            attack=attack,
            by_run=by_run,
        )
    )
    for label, attack in BY_SHADOWS.items()
    for old, new in ((40, 25), (3, 2))
    for by_run in (True, False)
}
WORSE = {
    "6 to 12 in 100 in both": replace(TWO_MODELS, new=(0.12, 0.12)),
    "6 to 12 in 100 in one": replace(TWO_MODELS, new=(0.06, 0.12)),
    "6 to 12 in 100 in one, other people and splits": replace(
        TWO_MODELS, new=(0.06, 0.12), same_people=False, same_splits=False
    ),
    "6 to 12 in 100 in one, by the paired gap": replace(
        TWO_MODELS, new=(0.06, 0.12), attack="paired_gap"
    ),
    "6 to 12 in 100 in one, by LiRA": replace(
        TWO_MODELS, new=(0.06, 0.12), attack="lira_advantage"
    ),
}


def verdict_shares(
    draw: Callable[[np.random.Generator], tuple[Release, Release]], n: int, seed: int
) -> dict[str, float]:
    """How often something is worse, differs or improved; errors of group changes.

    One in a hundred releases is refused, because its counts happen to contradict a
    random split: then nothing is said.
    """
    found = np.zeros((n, 3), dtype=bool)
    changes = []
    for k in range(n):
        both = draw(np.random.default_rng([seed, k]))
        with suppress(pcer.InputError):
            (one,) = pcer.compare(*both).settings
            verdicts = {str(row.verdict) for row in one.rows}
            of_pairs = {str(row.verdict) for row in one.pairs}
            found[k] = "worse" in verdicts, "worse" in of_pairs, "improved" in verdicts
            changes.append([(row.change, row.standard_error) for row in one.groups])
    shares = dict(
        zip(
            ("worse", "difference", "improved"),
            found.mean(axis=0).tolist(),
            strict=True,
        )
    )
    of_draws, errors = np.moveaxis(np.array(changes), 2, 0)
    return {
        **shares,
        "error": float(errors.mean()),
        "spread": float(of_draws.std(axis=0).mean()),
    }


def comparisons(n: int = 1_000, seed: int = 1, part: str = "") -> None:
    """How often does ``pcer.compare`` call a model worse, rightly and wrongly?

    Worlds are drawn record by record (``tests/worlds/two_models.py``). Nothing got
    worse in the first: old and new remember as many, the same people or others, on the
    same splits or not; or they are the same model. Real models follow, a fifth as
    often, on columns that are all alike. Of each the share with anything "worse" stands
    beside the exact binomial limit of 5 %, and the mean error of a group's change
    beside how much changes vary. In forests that grow, and in the last worlds, the new
    model remembers more.
    """
    worlds = {name: (n, partial(draw_both, world)) for name, world in NOT_WORSE.items()}
    worlds |= {name: (n // 5, draw) for name, draw in REAL.items()}
    worlds |= {name: (n, partial(draw_both, world)) for name, world in WORSE.items()}
    limits = [
        f"{stats.binom.ppf(0.99, own, 0.05) / own:.1%} of {own}" for own in (n, n // 5)
    ]
    print(f"at a true 5 % at most {' and '.join(limits)} with 99 % confidence")
    rows = {}
    for k, (name, (own, draw)) in enumerate(worlds.items()):
        if part not in name:
            continue
        rows[name] = found = verdict_shares(draw, own, seed + k)
        told = ", ".join(f"{what} {found[what]:.1%}" for what in [*found][:3])
        of_change = f"error {found['error']:.4f}, spread {found['spread']:.4f}"
        print(f"{name:<50} {own:>5} draws: {told}; {of_change}", flush=True)
    same = draw_both(TWO_MODELS, np.random.default_rng(seed))[0]
    print("identical releases:", pcer.compare(same, same).verdict.value)
    write_results("comparisons", rows)


ONE_MODEL = OneModel(n=2_000)
REFERENCE_WORLDS = {
    "nothing remembered, 4 references": ONE_MODEL,
    "nothing remembered, 1 reference": replace(ONE_MODEL, n_references=1),
    "nothing remembered, 300 records, 90 % trained on": replace(
        ONE_MODEL, n=300, train_share=0.9
    ),
    "0.2 remembered, 4 references": replace(ONE_MODEL, remembered=(0.0, 0.2)),
    "0.4 remembered, 1 reference": replace(
        ONE_MODEL, remembered=(0.0, 0.4), n_references=1
    ),
    "0.4 remembered, 4 references": replace(ONE_MODEL, remembered=(0.0, 0.4)),
    "0.4 remembered, 16 references": replace(
        ONE_MODEL, remembered=(0.0, 0.4), n_references=16
    ),
}
ATTACKS = ("auc_advantage", "reference_advantage")


def detected_shares(world: OneModel, n: int, seed: int) -> dict[str, float]:
    found = dict.fromkeys(ATTACKS, 0)
    for draw in range(n):
        scores = scores_of(draw_model(world, np.random.default_rng([seed, draw])))
        rows = attack_models([scores])[0].rows
        for attack in ATTACKS:
            of_attack = [row for row in rows if row.attack == attack]
            value = np.array([row.value for row in of_attack])
            error = np.array([row.null_error for row in of_attack])
            found[attack] += bool((holm(upper_p(value, error)) <= 0.05).any())
    return {attack: count / n for attack, count in found.items()}


def references(n: int = 1_000, seed: int = 1) -> None:
    """One model that cannot be retrained: what reference models add.

    Worlds are drawn by ``tests/worlds/references.py``: all models find the same records
    hard, each has its view, and training makes the model more confident of one group by
    an amount. Of each world the share in which something is detected, as an audit tests
    it: by the scores' AUC alone, and held against reference models; where nothing is
    memorised, how often that is wrong.
    """
    print(
        f"{n} draws each; at a true 5 % at most "
        f"{stats.binom.ppf(0.99, n, 0.05) / n:.1%}"
    )
    rows = {}
    for k, (name, world) in enumerate(REFERENCE_WORLDS.items()):
        rows[name] = detected_shares(world, n, seed + k)
        told = ", ".join(
            f"{attack} {share:.1%}" for attack, share in rows[name].items()
        )
        print(f"{name:<50} {told}", flush=True)
    write_results("references", rows)


SIGNAL_WORLDS: dict[str, dict[str, float]] = {
    "nobody memorised": {},
    "nobody memorised, 4 texts a person": {"n_people": 300},
    "one group memorised by .5": {"planted": 0.5},
    "one group memorised by .5, 4 texts a person": {"planted": 0.5, "n_people": 300},
}


def signals(n: int = 1_000, seed: int = 1) -> None:
    """Exposure by one reference: how often groups differ, or anybody is detected.

    Worlds are drawn by ``tests/worlds/signals.py``: 1,200 texts, target and reference
    alike but for what is memorised.
    """
    print(
        f"{n} draws each; at a true 5 % at most "
        f"{stats.binom.ppf(0.99, n, 0.05) / n:.1%}"
    )
    rows = {}
    for name, world in SIGNAL_WORLDS.items():
        shares = np.zeros(2)
        for k in range(n):
            (setting,) = audit(
                signals_release(draw_signals(seed + k, **world)), AUDIT_PLAN
            ).settings
            differs = setting.pairs[0].exposure.answer == "differs"
            shares += differs, any(group.detected for group in setting.groups.values())
        rows[name] = dict(
            zip(("exposure differs", "detected"), shares / n, strict=True)
        )
        told = ", ".join(f"{what} {share:.1%}" for what, share in rows[name].items())
        print(f"{name:<50} {told}", flush=True)
    write_results("signals", rows)


def _options(
    world: object, worlds: Collection[str], **defaults: int
) -> argparse.ArgumentParser:
    """Options of a world that is simulated in several processes."""
    parser = argparse.ArgumentParser(
        description=world.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", action="append", choices=worlds, help="default: all")
    for name, number in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    return parser


def groups_apart(words: Sequence[str]) -> None:
    """``benchmarks.worlds.apart``."""
    options = _options(apart, apart.WORLDS, draws=400, jobs=1).parse_args(words)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for name in options.world or apart.WORLDS:
            found = list(
                pool.map(partial(apart.draw, name), range(options.draws), chunksize=2)
            )
            alike = apart.WORLDS[name].is_alike
            own = apart.summary([one[0] for one in found], is_alike=alike)
            mixed = apart.summary([one[1] for one in found], is_alike=alike)
            separation = np.array([one[2] for one in found])
            print(
                f"\n{name}: separation {separation.mean():.2f} (sd "
                f"{separation.std():.2f})"
            )
            for attack, row in own.items():
                pairs = ((key, x, mixed[attack][key]) for key, x in row.items())
                cells = [f"{key} {x:.4g} ({y:.4g})" for key, x, y in pairs]
                print(f"  {attack:<18}" + "  ".join(cells), flush=True)


COIN_FLIPS, COIN_SPLITS = 10, 20
"""Attributes drawn for each fleet of so many models; models take most of the time."""

FLIPPED = (0.15, 0.15)
"""Labels of both groups: some people stand alone among the other label's neighbours."""


def count_alarms(
    model: str,
    n_people: int,
    n_audits: int,
    seed: int,
    *,
    attack: str,
    minority: int | None,
) -> Counter:
    """How many audits of groups by coin alarm, by kind.

    Ten audits for every draw of people and models.

    ``minority`` is how many people are in the second group; about half if None.
    """
    rng = np.random.default_rng(seed)
    counted = Counter()
    for first in range(0, n_audits, COIN_FLIPS):
        drawn = fleets.people(rng, n_people, flipped=FLIPPED, apart=1.5)
        fitted = fleets.fleet(planted_worlds.MODELS[model], drawn, COIN_SPLITS, rng)
        scores = fleets.scores_of(fitted)
        n = min(COIN_FLIPS, n_audits - first)
        in_second = rng.binomial(n_people, 0.5) if minority is None else minority
        codes = np.tile(np.arange(n_people) < in_second, (n, 1)).astype(np.int64)
        panel = fleets.exact_panel(scores, rng.permuted(codes, axis=1))
        pairs = tuple((2 * k, 2 * k + 1) for k in range(n))
        found = alarms(
            [panel], pairs, Plan(), attack=attack, outcome="benefit", n_families=n
        )
        counted["exposure"] += int(found.exposures_differ.sum())
        counted["ratio"] += int(found.ratios_differ.sum())
        counted["double"] += int((found.double_disadvantage >= 0).sum())
        counted["outcomes"] += int(found.benefits_differ.sum())
    return counted


def groups_by_coin(words: Sequence[str]) -> None:
    """How often does an audit by one exact attack alarm, of groups by coin?

        python -m benchmarks.alarms coins --audits 400
        python -m benchmarks.alarms coins --people 1000 --minority 80 \
            --attack rmia_advantage

    Alarms are counted before anything downgrades them. A sound test alarms in at most 5
    %: of 400 audits, more than 31 have chance .01 of it.
    """
    parser = _options(groups_by_coin, (), people=2_000, audits=400, seed=0)
    parser.add_argument("--model", choices=planted_worlds.MODELS, default="15nn")
    parser.add_argument("--attack", default="lira_advantage")
    parser.add_argument(
        "--minority", type=int, help="people in the second group; default: half"
    )
    given = parser.parse_args(words)
    how = {"attack": given.attack, "minority": given.minority}
    counted = count_alarms(given.model, given.people, given.audits, given.seed, **how)
    what = ("exposure", "ratio", "double", "outcomes")
    kinds = ", ".join(f"{kind} {counted[kind]}" for kind in what)
    print(
        f"{given.model}, {given.people:,} people, {given.attack}: {kinds} of "
        f"{given.audits}"
    )


def _audited(task: tuple[str, int]) -> Counter:
    name, k = task
    worlds = planted_worlds.WORLDS
    return planted_worlds.audit_once(worlds[name], (24, list(worlds).index(name), k))


def groups_planted(words: Sequence[str]) -> None:
    """``benchmarks.worlds.planted``."""
    worlds = planted_worlds.WORLDS
    given = _options(
        planted_worlds, worlds, audits=200, jobs=os.cpu_count() or 1
    ).parse_args(words)
    kinds = ("group 0", "group 1", "ratio", "double", "both", "contradicted")
    with ProcessPoolExecutor(given.jobs) as pool:
        for name in given.world or worlds:
            counted = Counter()
            for audited in pool.map(
                _audited, [(name, k) for k in range(given.audits)], chunksize=5
            ):
                counted.update(audited)
            print(
                f"\n{name} (true: {worlds[name].more_exposed}), of {given.audits}",
                flush=True,
            )
            print(f"  {'attack':<26}" + "".join(f"{kind:>13}" for kind in kinds))
            for attack in dict.fromkeys(key[0] for key in counted):
                row = "".join(f"{counted[attack, kind]:>13}" for kind in kinds)
                print(f"  {attack:<26}{row}")


def oracle(n: int = 20, seed: int = 1) -> None:
    """Of every planted world, in how many draws could be found what audits find?"""
    print(f"{n} draws; names the more exposed group: oracle, audit, both; wrong: audit")
    worlds = planted_worlds.WORLDS
    for k, (name, world) in enumerate(worlds.items()):
        truth = world.more_exposed
        found = [planted_worlds.oracle_once(world, (seed, k, d)) for d in range(n)]
        by_oracle = np.array([one.by_oracle == truth for one in found])
        by_audit = np.array([one.by_audit == truth for one in found])
        wrong = sum(one.by_audit not in (None, truth) for one in found)
        both = int((by_oracle & by_audit).sum())
        counts = f"{by_oracle.sum():4}{by_audit.sum():4}{both:4}{wrong:4}"
        print(f"{name:52}{counts}", flush=True)


if __name__ == "__main__":
    run_verb(
        {
            "audits": with_numbers(audits),
            "nulls": with_numbers(nulls),
            "lies": with_numbers(lies),
            "declarations": with_numbers(declarations),
            "comparisons": lambda words: comparisons(*map(int, words[:2]), *words[2:]),
            "references": with_numbers(references),
            "signals": with_numbers(signals),
            "apart": groups_apart,
            "coins": groups_by_coin,
            "planted": groups_planted,
            "oracle": with_numbers(oracle),
        }
    )
