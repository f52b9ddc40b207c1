"""The verdict of one setting: the first that applies, and what was missing or spoke against it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pcer.auditing.file import DeclarationFinding, PairResult
from pcer.auditing.measure import LEAST_RECORDS
from pcer.auditing.results import Setting, floor_of
from pcer.auditing.verdict import BudgetVerdict, Verdict
from pcer.release.format import Outcome
from pcer.statistics import SIGNIFICANCE

NOT_RANDOM = "the release does not say that the split was random, which every test here needs"
NOTHING_VARIES = (
    "nobody was classified wrong, or everybody was, so that remembering a record would change "
    "nothing that was counted"
)
NO_BENEFIT = "what the groups receive is not given, so that no ratio can be formed"

Ruling = tuple[BudgetVerdict, str | None]


def judge(setting: Setting, findings: Sequence[DeclarationFinding], *, random: bool) -> Ruling:
    """The verdict of a setting, and its reason where something is missing or speaks against it."""
    unusable = _unusable(setting, findings, random=random)
    if unusable is not None:
        return unusable
    shown = setting.found.shown[setting.index]
    if (setting.found.double[setting.index] >= 0).any():
        return Verdict.DOUBLE_DISADVANTAGE, None
    if not shown.any() and _is_equal(setting):
        return Verdict.EQUAL_WITHIN_MARGIN, None
    if not setting.evidence.resolved.any():
        return Verdict.NOT_RESOLVED, None
    if setting.measured.largest_cost < floor_of(setting.measured, setting.plan):
        return Verdict.FLOOR_DOMINATED, None
    if shown.any():
        return Verdict.DISPARITY_SHOWN, None
    return Verdict.NO_DISPARITY_SHOWN, _why_capped(setting)


def worse_off(
    verdict: BudgetVerdict, pairs: Sequence[PairResult], twice: list[str], outcome: Outcome
) -> list[str]:
    """Whom the verdict says to be worse off, in the order of the pairs.

    Where positive predictions harm, a lower ratio may mean more exposure or less harm.
    """
    if verdict is Verdict.DOUBLE_DISADVANTAGE:
        return twice
    if verdict is not Verdict.DISPARITY_SHOWN or outcome == "harm":
        return []
    return list(dict.fromkeys(pair.lower_ratio for pair in pairs if pair.lower_ratio is not None))


def _unusable(
    setting: Setting, findings: Sequence[DeclarationFinding], *, random: bool
) -> Ruling | None:
    """Where no test can be made, or none may be believed."""
    one = setting.measured
    if one.exposed is None:
        return Verdict.INSUFFICIENT_DATA, one.reason
    if not random:
        return Verdict.NOT_RESOLVED, NOT_RANDOM
    contradicted = next((one.sentence for one in findings if one.caps_verdict), None)
    if contradicted is not None:
        return Verdict.NOT_RESOLVED, f"{contradicted[0].lower()}{contradicted[1:].rstrip('.')}"
    if not np.isfinite(setting.evidence.cost_p_alone).any():
        few = f"every group has fewer than {LEAST_RECORDS} records"
        return Verdict.INSUFFICIENT_DATA, NOTHING_VARIES if one.told.any() else few
    if one.received is None:
        return Verdict.INSUFFICIENT_DATA, NO_BENEFIT
    return None


def _is_equal(setting: Setting) -> bool:
    equal = setting.equivalence
    return equal is not None and bool((equal <= SIGNIFICANCE).all())


def _why_capped(setting: Setting) -> str | None:
    reasons = [why for (k, *_), why in setting.found.reasons.items() if k == setting.index]
    return reasons[0] if reasons else None
