"""Which alarms do made-up groups, the family or the floor refute?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pcer.measuring.evidence import Evidence, PlaceboCheck, Statement, Tested, decide
from pcer.measuring.exposure import Pair
from pcer.measuring.measure import measure_panel
from pcer.measuring.pair_tests import PairDifference, PairTests, stacked_tests
from pcer.measuring.plan import Plan
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.panel import Panel
from pcer.release.records import Outcome
from pcer.statistics import SIGNIFICANCE, holm
from pcer.wording import p_words

# Placebo groups are too many where alarms of 5 % have at most this chance: from 19 of
# 200 on.
TOO_MANY = 0.01
TOGETHER = (
    "within chance when judged together with the other attributes of the same records"
)


class Alarms(NamedTuple):
    """What would be said about pairs: arrays (setting, pair)."""

    exposures_differ: BoolArray
    benefits_differ: BoolArray
    ratios_differ: BoolArray
    double: IntArray  # the doubly disadvantaged group, -1 for none


def downgrade(
    tested: Tested,
    attacks: tuple[str, ...],
    *,
    family_p: tuple[float, float] | None = None,
) -> Evidence:
    """The evidence of some attacks without alarms that placebos, the family or the floor refute.

    ``family_p`` is of the release's strongest comparison of exposures or ratios, and of
    benefits, among all releases of the same records; None for one release alone.
    """
    strict = (
        tested.plan.policy is not None and tested.plan.policy.strict
    )  # believes no placebo
    evidence = tested.evidence[attacks]
    reasons = dict[tuple[int, int, Statement], str]()
    double = evidence.double.copy()
    differ: dict[Statement, BoolArray] = {
        "exposure": evidence.exposures_differ.copy(),
        "outcomes": evidence.benefits_differ.copy(),
        "ratio": evidence.ratios_differ.copy(),
    }
    within: list[str | None] = [
        None if p <= SIGNIFICANCE else f"{TOGETHER} ({p_words(p)})"
        for p in family_p or (0.0, 0.0)
    ]
    for key in zip(*np.nonzero(np.any([*differ.values()], axis=0)), strict=True):
        k = int(key[0])
        pair = int(key[1])
        by = attacks[evidence.decided_by[key]], attacks[0]
        exposure, ratio = (
            None if strict else tested.placebo(k, name, pair) for name in by
        )
        against: dict[Statement, str | None] = {
            "exposure": within[0] or _reason(exposure, "exposure_p", "n_exposure"),
            "outcomes": within[1],
            "ratio": within[0] or _reason(ratio, "ratio_p", "n_ratio"),
        }
        against = {what: against[what] for what in differ if differ[what][key]}
        if double[key] >= 0:  # it stands only where both answers do
            own = _reason(exposure, "exposure_p", "n_double")
            against["double"] = (
                against.get("exposure") or against.get("outcomes") or own
            )
        reasons |= {
            (k, pair, what): why for what, why in against.items() if why is not None
        }
        for what, of_pairs in differ.items():
            of_pairs[key] &= against.get(what) is None
        if tested.measured[attacks[0]][k].is_below_floor(tested.pairs[pair]):
            differ["ratio"][key] = False
        if against.get("double") is not None:
            double[key] = -1
    return replace(
        evidence,
        exposures_differ=differ["exposure"],
        benefits_differ=differ["outcomes"],
        ratios_differ=differ["ratio"],
        double=double,
        reasons=reasons,
    )


def _reason(check: PlaceboCheck | None, p_name: str, n_name: str) -> str | None:
    """Why an alarm does not count by the release's placebo groups; None if it does."""
    from scipy.special import bdtrc

    if check is None:
        return None
    p_value = getattr(check, p_name)
    n_alarms = getattr(check, n_name)
    if p_value is not None and p_value > SIGNIFICANCE:
        return f"randomly drawn groups differ as much (permutation {p_words(p_value)})"
    # the chance of so many alarms, or more, if each has the chance of 5 % that a test
    # may have
    if n_alarms and float(bdtrc(n_alarms - 1, check.n_draws, SIGNIFICANCE)) < TOO_MANY:
        return f"{n_alarms} of {check.n_draws} made-up groups raise this alarm, too"
    return None


def alarms(
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    plan: Plan,
    *,
    cost: str,
    outcome: Outcome,
    n_families: int = 1,
    inflation: FloatArray | None = None,
) -> Alarms:
    """What audits of each family of pairs, in equal blocks, would say by one attack: fast."""
    outcome = plan.outcome_of(outcome)
    measured = [
        measure_panel(panel, plan, cost, inflation=inflation) for panel in panels
    ]
    tests = stacked_tests(measured, pairs)
    raised = Alarms(
        *(np.full(tests.cross.value.shape, what) for what in (False, False, False, -1))
    )
    n_pairs = len(pairs) // n_families
    for first in range(0, len(pairs), n_pairs):
        own = slice(first, first + n_pairs)
        raised.benefits_differ[:, own] = (
            holm(tests.benefit.p_alone[:, own]) <= SIGNIFICANCE
        )
    # A family in which no p-value passes Bonferroni says nothing, so its exact p-values
    # of memorisation, which take long, are not needed.
    hopeful = np.zeros(n_families, dtype=np.bool_)
    for kind in (tests.exposure, tests.cross):
        by_family = kind.p_alone.reshape(len(panels), n_families, n_pairs)
        n = np.maximum(np.isfinite(by_family).sum(axis=(0, 2)), 1)
        hopeful |= (by_family <= (SIGNIFICANCE / n)[:, None]).any(axis=(0, 2))
    for start in np.flatnonzero(hopeful) * n_pairs:
        family = slice(start, start + n_pairs)
        groups, inverse = np.unique(np.array(pairs[family]), return_inverse=True)
        kept = (PairDifference(*(part[:, family] for part in kind)) for kind in tests)
        memorised = np.stack([each.memorised_p(groups) for each in measured])
        numbered = tuple((int(i), int(j)) for i, j in inverse.reshape(-1, 2))
        found = decide([(memorised, PairTests(*kept))], numbered, outcome=outcome)
        raised.exposures_differ[:, family] = found.exposures_differ
        raised.ratios_differ[:, family] = found.ratios_differ
        raised.double[:, family] = np.where(found.double >= 0, groups[found.double], -1)
    return raised
