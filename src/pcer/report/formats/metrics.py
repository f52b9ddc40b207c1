"""An audit as one flat dict of numbers, under names that MLflow, DVC and Prometheus take."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pcer.auditing.record import Audit, BudgetResult, rounded
from pcer.measuring.verdict import Verdict
from pcer.wording import largest

PREFIX = "pcer_"
LONGEST = 60  # characters of a slug; MLflow takes 250 in a name
# Slugs that would read as another number of the audit, or as a slug with its digest.
TAKEN = re.compile(r"max|gap|.*at_most|(.*_)?[0-9a-f]{8,}")


def to_metrics(audit: Audit) -> dict[str, float]:
    """Numbers by name; see ``Audit.metrics``."""
    by_group = slugs(audit.subject.groups)
    found = dict(_numbers(audit, audit.told, by_group))
    found["alarm"] = int(audit.verdict.severity == "red")
    found["left_out"] = audit.subject.n_missing_group
    if audit.plan.policy is not None:
        found["broken_rules"] = len(audit.broken_rules)
    if len(audit.budgets) > 1:
        # The whole epsilon, since two may differ in the last digit only.
        names = [
            f"{one.model or ''} {'no-DP' if one.epsilon is None else f'epsilon {one.epsilon!r}'}"
            for one in audit.budgets
        ]
        by_setting = slugs(name.removesuffix(".0") for name in names)
        for each, slug in zip(audit.budgets, by_setting.values(), strict=True):
            numbers = _numbers(audit, each, by_group)
            found |= {f"{name}__{slug}": value for name, value in numbers}
    return {
        f"{PREFIX}{name}": rounded(value)
        for name, value in found.items()
        if value is not None
    }


def by_release(audits: Sequence[Audit]) -> dict[str, Any]:
    """Numbers of one audit; of several by the slug of each, with its digest if two share a name."""
    if len(audits) == 1:
        return to_metrics(audits[0])
    names = [f"{audit.subject.dataset} {audit.subject.attribute}" for audit in audits]
    keys = [
        name if names.count(name) == 1 else f"{name} {audit.release_sha256}"
        for name, audit in zip(names, audits, strict=True)
    ]
    by_key = slugs(keys)
    return {
        by_key[key]: to_metrics(audit) for key, audit in zip(keys, audits, strict=True)
    }


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Each name in ASCII letters, digits and single underscores, no two alike.

    A name that loses letters, is cut, reads as one of our own names, or shares its slug
    with another gets the first digits of its SHA-256: all of them where eight do not
    tell two apart.
    """
    plain = {name: _slug(name) for name in names}
    shared = Counter(slug for slug, _ in plain.values())
    for n_digits in (8, 64):
        found = {}
        for name, (slug, is_whole) in plain.items():
            digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[
                :n_digits
            ]
            is_clear = is_whole and shared[slug] == 1 and not TAKEN.fullmatch(slug)
            found[name] = slug if is_clear else f"{slug}_{digits}".lstrip("_")
        if len({*found.values()}) == len(found):
            break
    return found


def _slug(name: str) -> tuple[str, bool]:
    """A name in lower case without accents, and whether all of its letters and digits are there."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    kept = [each for each in letters if each.isalnum() or not each.isascii()]
    is_whole = all(
        each.isascii() or unicodedata.category(each) in ("Mn", "Zs") for each in kept
    )
    slug = re.sub("[^a-z0-9]+", "_", re.sub("[\u0300-\u036f]", "", letters)).strip("_")
    return slug[:LONGEST].rstrip("_"), is_whole and 0 < len(slug) <= LONGEST


def _numbers(
    audit: Audit, setting: BudgetResult, by_group: dict[str, str]
) -> Iterator[tuple[str, float | None]]:
    """Numbers of a setting; None where one is not known."""
    scale = audit.proxy.scale
    # right answers of 100 where the attack's unit says how many, or the page's unit
    what = "exposure"
    coin = 50.0
    unit = scale.per_success
    if unit is None:
        what = "other_exposure"
        coin = 0.0
        unit = scale.per_unit
    for name, group in setting.groups.items():
        yield f"{what}_{by_group[name]}", _in(unit, group.cost.value, coin)
        yield (
            f"{what}_{by_group[name]}_at_most",
            _in(unit, group.cost.upper_bound, coin),
        )
        yield f"outcome_{by_group[name]}", _in(100, group.benefit.mean)
    # where one number is not known, neither is the largest
    costs = [group.cost for group in setting.groups.values() if not group.too_few]
    yield f"{what}_max", _in(unit, largest([cost.value for cost in costs]), coin)
    yield (
        f"{what}_max_at_most",
        _in(unit, largest([cost.upper_bound for cost in costs]), coin),
    )
    for gap, axis, times in (
        (f"{what}_gap", "exposure", unit),
        ("outcome_gap", "outcomes", 100),
    ):
        answers = [getattr(pair, axis) for pair in setting.pairs]
        tested = [each.difference for each in answers if each.p_value is not None]
        sizes = [None if each.value is None else abs(each.value) for each in tested]
        yield gap, _in(times, largest(sizes))
        yield (
            f"{gap}_at_most",
            _in(times, largest([each.upper_bound for each in tested])),
        )
    paper = {
        (each.model, one.epsilon): one
        for each in audit.published
        for one in each.budgets
    }
    disparities = [
        pair.pcer_disparity for pair in paper[setting.model, setting.epsilon].pairs
    ]
    widest = max(disparities, key=lambda each: abs(each.mean or 0.0))
    if widest.null_mean is not None:  # the number alone would pass for a finding
        yield "disparity", widest.mean
        yield "disparity_null", widest.null_mean
        is_beyond = any(each.is_beyond_null for each in disparities)
        is_detected = any(group.resolved for group in setting.groups.values())
        is_told = audit.verdict is not Verdict.INSUFFICIENT_DATA
        yield "disparity_is_evidence", int(is_beyond and is_detected and is_told)
    yield "accuracy", _in(100, setting.accuracy.mean)


def _in(unit: float, value: float | None, start: float = 0.0) -> float | None:
    return None if value is None else start + unit * value
