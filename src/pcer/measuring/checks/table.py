"""Which checks are there, and what do they find in a release?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pcer.files import Record
from pcer.measuring.checks.arrays import (
    LEVEL,
    SHARE_OF_REPEATS,
    Facts,
    Finding,
    Splits,
    is_random,
    named_cuts,
)
from pcer.measuring.checks.chance import (
    balance,
    below_zero,
    group_mix,
    impossible_attacks,
    label_mix,
    overdispersion,
    repeated_splits,
    repeated_tables,
)
from pcer.measuring.checks.logic import (
    broken_numbers,
    broken_promises,
    changed_totals,
    conflicting_names,
    copied_tables,
    far_placebos,
    missing_runs,
    unit_without_number,
)
from pcer.measuring.exact import SMALLEST_P
from pcer.release import Release


class Check(NamedTuple):
    """A name as in ``declarations[].check``, and a test of ``Facts`` or, by chance, of ``Splits``.

    ``shares`` are those of ``LEVEL``, with one split and with several; None where logic
    decides.
    """

    name: str
    test: Callable[..., Iterable[Finding]]
    shares: tuple[float, float] | None = None
    caps_verdict: bool = True


def check_release(release: Release) -> list[DeclarationFinding]:
    """All contradictions between numbers and declarations; none for most releases.

    Logic is always checked; chance only where the split is declared random, sizes are
    released and the effective number of units is known, all at ``LEVEL`` together.
    """
    facts = release.kept(Facts)
    rows = list[tuple[Check, Finding, float]]()
    cuts = named_cuts(facts)
    inflation = facts.inflation
    splits = None
    if is_random(release) and cuts is not None and inflation is not None:
        splits = Splits(facts, cuts, inflation)
    for check in CHECKS:
        if check.shares is None:
            rows += [(check, finding, 1.0) for finding in check.test(facts)]
        elif splits is not None:
            share = check.shares[len(facts.runs_by_split) > 1]
            rows += [
                (check, finding, share) for finding in check.test(splits, share * LEVEL)
            ]
    return [
        DeclarationFinding(
            check=check.name,
            sentence=sentence,
            p_value=adjusted,
            p_value_alone=None if p is None else max(SMALLEST_P, float(p)),
            caps_verdict=check.caps_verdict if caps is None else caps,
        )
        for (check, (sentence, p, caps), _), adjusted in zip(
            rows, adjusted_over_checks(rows), strict=True
        )
    ]


def adjusted_over_checks(
    rows: Sequence[tuple[Check, Finding, float]],
) -> list[float | None]:
    """Each p-value adjusted over all checks: Holm's steps, weighted by the checks' shares.

    Compared with ``LEVEL``. The first step divides by the check's share of the level; a
    finding leaves its share to the others. A row is a check, its finding and its share.
    """
    adjusted: list[float | None] = [None] * len(rows)
    weighed = {
        k: max(SMALLEST_P, finding.p_value) / share
        for k, (_, finding, share) in enumerate(rows)
        if finding.p_value is not None
    }
    left = 1.0
    largest = 0.0
    open_to = dict[str, float]()
    for k in sorted(weighed, key=lambda k: weighed[k]):
        name = rows[k][0].name
        share = rows[k][2]
        if name not in open_to:
            open_to[name] = left
            left = max(0.0, left - share)
        adjusted[k] = largest = max(largest, min(1.0, weighed[k] * open_to[name]))
    return adjusted


# Every check, in the order of findings. With one split most of the level goes to the
# drift of a group's labels, for which it has the least evidence; from two splits on
# drift is easy to find, and two names for one split of small groups are not. Invented
# numbers are easier still.
CHECKS: Final = (
    Check("split_names", conflicting_names),
    Check("whole_numbers", broken_numbers),
    Check("same_tables", copied_tables, caps_verdict=False),
    Check("missing_runs", missing_runs, caps_verdict=False),
    Check("epsilon", broken_promises, caps_verdict=False),
    Check("placebo_exact", far_placebos, caps_verdict=False),
    Check("totals", changed_totals),
    Check("unit_of_split", unit_without_number),
    Check("split_names", repeated_splits, shares=(0.0, SHARE_OF_REPEATS)),
    Check("same_tables", repeated_tables, shares=(0.0, 0.01)),
    Check("stratified_by", balance, shares=(0.02, 0.05)),
    Check("label_mix", label_mix, shares=(0.94, 0.41)),
    Check("group_mix", group_mix, shares=(0.02, 0.05)),
    Check("dispersion", overdispersion, shares=(0.0, 0.08)),
    Check("below_zero", below_zero, shares=(0.01, 0.01)),
    Check("attacks", impossible_attacks, shares=(0.01, 0.02), caps_verdict=False),
)


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
