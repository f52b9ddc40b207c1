"""What a release says of its privacy and of its runs, held against its own numbers.

No chance is needed: a promise with noise 0, a delta above one over the number of people, more spent
than promised, runs that are missing. None of it touches the tests of the audit, so nothing here
takes a verdict back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from pcer.auditing.claims import Claims, SettingClaims, SplitName
from pcer.auditing.finding import Check, Finding
from pcer.auditing.spent import epsilon_of_steps
from pcer.auditing.words import listed

TOLERANCE = 0.02
"""Share by which a computed epsilon may exceed the promise; own computations are nearer."""
ROUNDED = 1e-6
"""The same for numbers that stand in one file."""
NO_MECHANISM = "none"
SAMPLED = "dp-sgd"
"""The mechanism whose epsilon follows from noise, rate and steps."""
MOST_NAMED = 5
"""Of what is missing, in a sentence."""


def check_promises(claims: Claims) -> Iterator[Finding]:
    """Everything that contradicts an epsilon."""
    private = [one for one in claims.settings if math.isfinite(one.epsilon)]
    if private and claims.mechanism == NO_MECHANISM:
        yield _finding(
            "epsilon",
            f"the release promises {private[0].name}",
            'the mechanism is said to be "none"',
            "name the mechanism (training.mechanism), or write null for a model without privacy",
        )
    for one in private:
        yield from _no_noise(one)
        yield from _overspent(one, claims)
        yield from _large_delta(one, claims)


def check_runs(claims: Claims) -> Iterator[Finding]:
    """Seeds and splits that are left out, and settings with fewer runs than others."""
    for one in claims.settings:
        for what, numbers in (("seed", one.seeds), ("split", split_numbers(one.splits))):
            if gone := missing_numbers(numbers):
                first, last = min(numbers), max(numbers)
                yield _finding(
                    "missing_runs",
                    f"at {one.name} runs are numbered by {what} from {first} to {last}",
                    f"{_named(what, gone)} missing",
                    "release every run that was made, or say why one is left out (subject.notes)",
                )
                break
    yield from _fewer_runs(claims.settings)


def missing_numbers(numbers: Iterable[int]) -> list[int]:
    """Numbers left out of a series; none where fewer than half are there, which is no series.

    >>> missing_numbers([0, 1, 3, 4]), missing_numbers([7, 1234])
    ([2], [])
    """
    known = set(numbers)
    if len(known) < 2 or max(known) - min(known) + 1 > 2 * len(known):
        return []
    return [k for k in range(min(known), max(known) + 1) if k not in known]


def split_numbers(names: Sequence[SplitName]) -> list[int]:
    """Numbers of splits that are named by numbers behind one word; else none.

    >>> split_numbers(["split 1", "split 3"]), split_numbers(["a1", "b2"])
    ([1, 3], [])
    """
    found = [re.fullmatch(r"(\D*)(\d{1,9})", str(name)) for name in names]
    words = {match[1] for match in found if match}
    return [int(match[2]) for match in found if match] if all(found) and len(words) == 1 else []


def steps_of(one: SettingClaims, claims: Claims) -> tuple[float, int] | None:
    """Sampling rate and steps by the trainer's settings; None where they do not tell."""
    config = claims.config
    if claims.mechanism not in (SAMPLED, config.get("rule")):
        return None
    rate, steps = _number(config.get("sample_rate")), _number(config.get("n_steps"))
    epochs, batch = _number(config.get("epochs")), _number(config.get("expected_batch"))
    if rate is None and batch and claims.is_complete and batch <= one.n_train:
        rate = 1 / math.ceil(one.n_train / batch)
    if rate is None or not 0 < rate <= 1 or (steps is None and epochs is None):
        return None
    n_steps = steps if steps is not None else round((epochs or 0) / rate)
    return (rate, int(n_steps)) if 1 <= n_steps < 10**9 else None


def _no_noise(one: SettingClaims) -> Iterator[Finding]:
    if one.noise and one.noise[0] == 0:
        yield _finding(
            "epsilon",
            f"the release promises {one.name}",
            "the noise multiplier is 0, with which no epsilon holds",
            "state the noise that was added, or write null for a model without privacy",
        )


def _overspent(one: SettingClaims, claims: Claims) -> Iterator[Finding]:
    named = claims.config.get("accountant")
    by_named = one.spent.get(named) if isinstance(named, str) else None
    said = by_named if by_named is not None else min(one.spent.values(), default=0.0)
    if said > one.epsilon * (1 + ROUNDED):
        who = f"by the accountant that its config names ({named})" if by_named else "by its own"
        yield _finding(
            "epsilon",
            f"the release promises {one.name}",
            f"{who} the training spent {said:.4g}",
            "state the epsilon that was spent",
        )
        return
    sampling = steps_of(one, claims)
    if sampling is None or not one.noise or not one.dp_delta or one.noise[0] == 0:
        return
    spent = epsilon_of_steps(one.noise[0], *sampling, one.dp_delta[-1])
    if spent > one.epsilon * (1 + TOLERANCE):
        yield _finding(
            "epsilon",
            f"the release promises {one.name}",
            f"noise {one.noise[0]:g} over {sampling[1]:,} steps at a sampling rate of "
            f"{sampling[0]:.3g} spends {spent:.4g} at delta {one.dp_delta[-1]:g}",
            "state the epsilon that was spent",
        )


def _large_delta(one: SettingClaims, claims: Claims) -> Iterator[Finding]:
    known = one.n_train if math.isfinite(one.n_train) else claims.n_records
    if one.dp_delta and known and one.dp_delta[-1] > (1 + ROUNDED) / known:
        yield _finding(
            "epsilon",
            f"the release promises {one.name} at delta {one.dp_delta[-1]:g}",
            f"that is more than one over the {known:,.0f} records it was trained on, with which a "
            "mechanism may publish somebody's record whole",
            "state an epsilon at a smaller delta",
        )


def _fewer_runs(settings: Sequence[SettingClaims]) -> Iterator[Finding]:
    every = {seed for one in settings for seed in one.seeds}
    short = [one for one in settings if len(one.seeds) < len(every)]
    most = max((len(one.seeds) for one in settings), default=0)
    fewer = [one for one in short if len(one.seeds) < most]
    if not fewer:
        return
    yield _finding(
        "missing_runs",
        f"the release holds up to {most} runs for a setting",
        f"{listed([f'{one.name} has {len(one.seeds)}' for one in fewer[:MOST_NAMED]])}"
        f"{f' (and {len(fewer) - MOST_NAMED} more)' if len(fewer) > MOST_NAMED else ''}",
        "release as many for each, or say why runs are left out (subject.notes)",
    )


def _named(what: str, gone: Sequence[int]) -> str:
    """Which are missing, with its verb."""
    if len(gone) == 1:
        return f"{what} {gone[0]} is"
    if len(gone) > MOST_NAMED:
        return f"{len(gone)} of them ({what}s {', '.join(map(str, gone[:MOST_NAMED]))}, ...) are"
    return f"{what}s {listed([str(k) for k in gone])} are"


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e15 else None  # type: ignore[operator, arg-type]


def _finding(check: Check, declared: str, found: str, remedy: str) -> Finding:
    return Finding(check=check, declared=declared, found=found, remedy=remedy, caps_verdict=False)
