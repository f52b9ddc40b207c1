"""Does what a release declares agree with its own counts?

Every test of exposure rests on what the trainer declares: the split was random, its
unit was the record, these names are different splits. Logical contradictions need no
test (``logic``); all others (``chance``) share one level per release, so that a true
release is rarely accused. Audits and comparisons call ``check_release``.

To add a check: a function in ``logic`` (of ``ReleaseArrays``) or ``chance`` (of
``Splits`` and a level) that yields a ``Finding`` for each contradiction, its sentence
in ``words.toml``, and a row of ``CHECKS``; shares of the level of all checks make 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pcer.files import Record
from pcer.measuring.checks import attack_rows, chance, logic
from pcer.measuring.checks.arrays import (
    LEVEL,
    SHARE_OF_REPEATS,
    Finding,
    ReleaseArrays,
    Splits,
    is_random,
    named_cuts,
)
from pcer.measuring.exact import SMALLEST_P
from pcer.release import Release


class Shares(NamedTuple):
    """What a check of chance has of ``LEVEL``."""

    one_split: float
    several_splits: float


class Check(NamedTuple):
    """A name as in ``declarations[].check``, and a test.

    The test takes ``ReleaseArrays``; by chance it takes ``Splits`` and its level.
    """

    name: str
    test: Callable[..., Iterable[Finding]]
    shares: Shares | None = None  # None where logic decides
    caps_verdict: bool = True


class Contradiction(NamedTuple):
    """A finding of one check, which has this share of the level."""

    check: Check
    finding: Finding
    share: float


class DeclarationFinding(Record):
    """Something that the release says and its own numbers contradict, or call for.

    The p-value is of numbers like these if the release's words are true, held against
    .01; None where logic decides.
    """

    check: str
    sentence: str
    p_value: float | None  # adjusted over all checks
    p_value_alone: float | None  # adjusted within the check only
    caps_verdict: bool  # it leaves the audit's tests without ground


def check_release(release: Release) -> list[DeclarationFinding]:
    """All contradictions between numbers and declarations; none for most releases.

    Logic is always checked; chance only where the split is declared random, sizes are
    released and the effective number of units is known, all at ``LEVEL`` together.
    """
    arrays = release.kept(ReleaseArrays)
    cuts = named_cuts(arrays)
    splits = None
    if (
        is_random(release)
        and cuts is not None
        and arrays.variance_inflation is not None
    ):
        splits = Splits(arrays, cuts, arrays.variance_inflation)
    contradictions = list[Contradiction]()
    for check in CHECKS:
        contradictions += _contradictions(check, arrays, splits)
    adjusted = adjusted_over_checks(contradictions)
    return [
        _declaration_finding(contradiction, p)
        for contradiction, p in zip(contradictions, adjusted, strict=True)
    ]


def _contradictions(
    check: Check, arrays: ReleaseArrays, splits: Splits | None
) -> list[Contradiction]:
    if check.shares is None:
        return [Contradiction(check, finding, 1.0) for finding in check.test(arrays)]
    if splits is None:
        return []
    has_several = len(arrays.runs_by_split) > 1
    shares = check.shares
    share = shares.several_splits if has_several else shares.one_split
    findings = check.test(splits, share * LEVEL)
    return [Contradiction(check, finding, share) for finding in findings]


def _declaration_finding(
    contradiction: Contradiction, adjusted: float | None
) -> DeclarationFinding:
    check = contradiction.check
    sentence, p, caps_verdict = contradiction.finding
    return DeclarationFinding(
        check=check.name,
        sentence=sentence,
        p_value=adjusted,
        p_value_alone=None if p is None else max(SMALLEST_P, float(p)),
        caps_verdict=check.caps_verdict if caps_verdict is None else caps_verdict,
    )


def adjusted_over_checks(
    contradictions: Sequence[Contradiction],
) -> list[float | None]:
    """Each p-value adjusted over all checks: Holm's steps, weighted by checks' shares.

    Compared with ``LEVEL``. The first step divides by the check's share of the level; a
    finding leaves its share to the others. None where logic decides.
    """
    weighted = dict[int, float]()  # by position
    for k, contradiction in enumerate(contradictions):
        p = contradiction.finding.p_value
        if p is not None:
            weighted[k] = max(SMALLEST_P, p) / contradiction.share
    adjusted: list[float | None] = [None] * len(contradictions)
    left = 1.0
    largest = 0.0
    left_to = dict[str, float]()  # by check, the share that is left at its first step
    for k in sorted(weighted, key=lambda k: weighted[k]):
        name = contradictions[k].check.name
        if name not in left_to:
            left_to[name] = left
            left = max(0.0, left - contradictions[k].share)
        largest = max(largest, min(1.0, weighted[k] * left_to[name]))
        adjusted[k] = largest
    return adjusted


# Every check, in the order of findings. With one split most of the level goes to the
# drift of a group's labels, for which it has the least evidence; from two splits on
# drift is easy to find, and two names for one split of small groups are not. Invented
# numbers are easier still.
CHECKS: Final = (
    Check("split_names", logic.conflicting_names),
    Check("whole_numbers", logic.broken_numbers),
    Check("same_tables", logic.copied_tables, caps_verdict=False),
    Check("missing_runs", logic.missing_runs, caps_verdict=False),
    Check("epsilon", logic.broken_promises, caps_verdict=False),
    Check("placebo_exact", logic.far_placebos, caps_verdict=False),
    Check("totals", logic.changed_totals),
    Check("attack_rows", attack_rows.unlikely_rows, caps_verdict=False),
    Check("unit_of_split", logic.unit_without_number),
    Check("split_names", chance.repeated_splits, shares=Shares(0.0, SHARE_OF_REPEATS)),
    Check("same_tables", chance.repeated_tables, shares=Shares(0.0, 0.01)),
    Check("stratified_by", chance.balance, shares=Shares(0.02, 0.05)),
    Check("label_mix", chance.label_mix, shares=Shares(0.94, 0.36)),
    Check("group_mix", chance.group_mix, shares=Shares(0.02, 0.05)),
    Check("unit_of_split", chance.little_spread, shares=Shares(0.0, 0.10)),
    Check("dispersion", chance.overdispersion, shares=Shares(0.0, 0.08)),
    Check("below_zero", chance.below_zero, shares=Shares(0.01, 0.01)),
    Check(
        "attacks",
        chance.impossible_attacks,
        shares=Shares(0.01, 0.02),
        caps_verdict=False,
    ),
)
