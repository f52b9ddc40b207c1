"""Who is wrongly judged more often, with which errors and p-values?

The third quantity beside exposure and outcomes: the false positive rate where a
positive prediction harms, the false negative rate where it is a benefit. It has the
errors of rates with their own denominators (``outcomes``), and settings x pairs are
one more family; it depends on no attack and enters no verdict. The other error, of the
``OPPOSITE`` outcome, is tested likewise in a separate family, so that nobody reads
one direction as both. ``tested.run_tests`` asks for both once an audit,
``attacks.placebo`` for made-up groups. To add an error rate: its
row in ``plan.BENEFITS`` and a line of ``ERROR_OF``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pcer.measuring.exposure import Pair
from pcer.measuring.group_differences import PairDifference, rate_differences
from pcer.measuring.outcomes import Benefit, Received, received_of, share_of
from pcer.measuring.plan import BENEFIT_KINDS, BenefitKind
from pcer.measuring.variances import by_split
from pcer.metrics import BoolArray, FloatArray
from pcer.release.panel import Panel
from pcer.release.records import Outcome
from pcer.statistics import SIGNIFICANCE, holm

# The error that harms people, by what a positive prediction is for them.
ERROR_OF: Final[dict[Outcome, BenefitKind]] = {
    "harm": BENEFIT_KINDS["false_positive_rate"],
    "benefit": BENEFIT_KINDS["false_negative_rate"],
}
# Whose error is the other one: people missed by a harm, or given a benefit wrongly.
OPPOSITE: Final[dict[Outcome, Outcome]] = {"harm": "benefit", "benefit": "harm"}
LEAST_PEOPLE: Final = 50  # among whom a group's errors are counted
LEAST_ERRORS: Final = 10  # over the splits, and as many who are judged rightly


class Wrongly(NamedTuple):
    """Errors of all settings, tested."""

    kind: BenefitKind
    received: Sequence[Received]  # by setting
    has_enough: BoolArray  # (setting, group)
    difference: PairDifference  # (setting, pair) NaN where not given, or too few

    @property
    def smallest_p(self) -> float:
        """The smallest adjusted p-value; 1 where there is none."""
        return float(np.nanmin([*np.ravel(self.difference.p_value), 1.0]))


def wrongly_tests(
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    outcome: Outcome,
    *,
    variance_inflation: FloatArray | None = None,
) -> Wrongly:
    """Compare the error rates of every pair in every setting, after Holm.

    ``variance_inflation`` (group,) is as in ``received_of``; None: 1.
    """
    kind = ERROR_OF[outcome]
    if variance_inflation is None:
        variance_inflation = np.ones(len(panels[0].group_names))
    received = []
    has_enough = []
    for panel in panels:
        errors = share_of(panel, kind)
        received.append(received_of(panel, errors, variance_inflation))
        has_enough.append(_has_enough(panel, errors))
    enough = np.stack(has_enough)
    difference = rate_differences(received, pairs, among=enough)
    tested = difference._replace(p_value=holm(difference.p_alone))
    return Wrongly(kind, received, enough, tested)


def wrongly_alarms(
    panels: Sequence[Panel],
    pairs: tuple[Pair, ...],
    outcome: Outcome,
    *,
    n_families: int,
) -> BoolArray:
    """(setting, pair) whose error rates differ, each family of pairs tested alone.

    ``pairs`` are of all families, in blocks of equal size.
    """
    found = wrongly_tests(panels, pairs, outcome).difference.p_alone
    by_family = np.split(found, n_families, axis=1)
    adjusted = np.concatenate([holm(p) for p in by_family], axis=1)
    return np.asarray(adjusted <= SIGNIFICANCE)


def _has_enough(panel: Panel, errors: Benefit) -> BoolArray:
    """(group,) at least 50 people, 10 errors and 10 right over the distinct splits."""
    n_errors = by_split(errors.rate * errors.n_test, panel.split).sum(axis=0)
    n_judged = by_split(errors.n_test, panel.split).sum(axis=0)
    fewest = np.minimum(n_errors, n_judged - n_errors)
    few = (errors.n.mean(axis=0) < LEAST_PEOPLE) | (fewest < LEAST_ERRORS)
    return np.asarray(~few)
