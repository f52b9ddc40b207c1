"""Which numbers of an audit do other programs take, and under which names?

An audit as one flat dict, for MLflow, DVC and Prometheus. ``pcer audit --metrics``,
``Audit.metrics`` and model cards call this file; ``docs/integrations.md`` lists names.

To add a number: a ``yield`` in ``_setting_numbers`` or a function that it calls, or for
one that is no setting's a row in ``to_metrics``.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pcer.auditing.record import Audit, BudgetResult, Difference, rounded
from pcer.measuring.plan import Verdict
from pcer.release.attack_kinds import Scale
from pcer.report.tables.background import published_by_setting
from pcer.wording import largest

PREFIX = "pcer_"
LONGEST = 60  # characters of a slug; MLflow takes 250 in a name
SHORT_DIGEST = 8  # digits that follow a slug, unless two share them
WHOLE_DIGEST = 64
# Slugs that would read as another number of the audit, or as a slug with its digest.
TAKEN = re.compile(r"max|gap|.*at_most|(.*_)?[0-9a-f]{8,}")
COIN = 50.0  # right answers of 100 by guessing

Number = tuple[str, float | None]  # its name, and its value if that is known


class ExposureUnit(NamedTuple):
    """What exposures are called and counted in: ``coin`` and ``per_one`` of each 1."""

    name: str
    per_one: float
    coin: float


def to_metrics(audit: Audit) -> dict[str, float]:
    """Numbers by name; see ``Audit.metrics``."""
    group_slugs = slugs(audit.subject.groups)
    numbers = dict(_setting_numbers(audit, audit.told, group_slugs))
    numbers["alarm"] = int(audit.verdict.severity == "red")
    numbers["left_out"] = audit.subject.n_missing_group
    if audit.plan.policy is not None:
        numbers["broken_rules"] = len(audit.broken_rules)
    if len(audit.budgets) > 1:
        by_setting = slugs(_setting_text(setting) for setting in audit.budgets)
        for setting, slug in zip(audit.budgets, by_setting.values(), strict=True):
            for name, value in _setting_numbers(audit, setting, group_slugs):
                numbers[f"{name}__{slug}"] = value
    return {
        f"{PREFIX}{name}": rounded(value)
        for name, value in numbers.items()
        if value is not None
    }


def _setting_text(setting: BudgetResult) -> str:
    """A setting's name with its whole epsilon: two may differ in its last digit."""
    epsilon = setting.epsilon
    budget = "no-DP" if epsilon is None else f"epsilon {epsilon!r}"
    return f"{setting.model or ''} {budget}".removesuffix(".0")


def by_release(audits: Sequence[Audit]) -> dict[str, Any]:
    """Numbers of one audit; of several by the slug of each.

    A slug is made of dataset and attribute, and of the digest if two share these.
    """
    if len(audits) == 1:
        return to_metrics(audits[0])
    names = [f"{audit.subject.dataset} {audit.subject.attribute}" for audit in audits]
    keys = []
    for name, audit in zip(names, audits, strict=True):
        is_shared = names.count(name) > 1
        keys.append(f"{name} {audit.release_sha256}" if is_shared else name)
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
    n_names = Counter(slug for slug, _ in plain.values())
    for n_digits in (SHORT_DIGEST, WHOLE_DIGEST):
        by_name = {}
        for name, (slug, is_whole) in plain.items():
            is_taken = TAKEN.fullmatch(slug) is not None
            by_name[name] = slug
            if not is_whole or is_taken or n_names[slug] > 1:
                digits = _digest(name)[:n_digits]
                by_name[name] = f"{slug}_{digits}".lstrip("_")
        if len({*by_name.values()}) == len(by_name):
            break
    return by_name


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _slug(name: str) -> tuple[str, bool]:
    """A name in lower case without accents; whether no letter or digit is lost."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    meant = [letter for letter in letters if letter.isalnum() or not letter.isascii()]
    is_ascii = all(
        letter.isascii() or unicodedata.category(letter) in ("Mn", "Zs")
        for letter in meant
    )
    no_accents = re.sub("[\u0300-\u036f]", "", letters)
    slug = re.sub("[^a-z0-9]+", "_", no_accents).strip("_")
    is_whole = is_ascii and 0 < len(slug) <= LONGEST
    return slug[:LONGEST].rstrip("_"), is_whole


def _setting_numbers(
    audit: Audit, setting: BudgetResult, group_slugs: Mapping[str, str]
) -> Iterator[Number]:
    """Numbers of a setting; None where one is not known."""
    unit = _exposure_unit(audit.proxy.scale)
    yield from _group_numbers(setting, unit, group_slugs)
    yield from _largest_exposure(setting, unit)
    exposures = [
        pair.exposure.difference
        for pair in setting.pairs
        if pair.exposure.p_value is not None
    ]
    outcomes = [
        pair.outcomes.difference
        for pair in setting.pairs
        if pair.outcomes.p_value is not None
    ]
    yield from _largest_difference(f"{unit.name}_gap", exposures, unit.per_one)
    yield from _largest_difference("outcome_gap", outcomes, 100)
    yield from _paper_numbers(audit, setting)
    yield "accuracy", _times(100, setting.accuracy.mean)


def _exposure_unit(scale: Scale) -> ExposureUnit:
    """Right answers of 100 if the attack's unit says how many; else the page's unit."""
    if scale.per_success is None:
        return ExposureUnit("other_exposure", scale.per_unit, 0.0)
    return ExposureUnit("exposure", scale.per_success, COIN)


def _group_numbers(
    setting: BudgetResult, unit: ExposureUnit, group_slugs: Mapping[str, str]
) -> Iterator[Number]:
    for name, group in setting.groups.items():
        slug = group_slugs[name]
        exposure = f"{unit.name}_{slug}"
        yield exposure, _exposure(unit, group.cost.value)
        yield f"{exposure}_at_most", _exposure(unit, group.cost.upper_bound)
        yield f"outcome_{slug}", _times(100, group.benefit.mean)


def _largest_exposure(setting: BudgetResult, unit: ExposureUnit) -> Iterator[Number]:
    """The most exposed group with enough records; not known if one of these is not."""
    costs = [group.cost for group in setting.groups.values() if not group.too_few]
    value = largest([cost.value for cost in costs])
    bound = largest([cost.upper_bound for cost in costs])
    yield f"{unit.name}_max", _exposure(unit, value)
    yield f"{unit.name}_max_at_most", _exposure(unit, bound)


def _largest_difference(
    name: str, differences: Sequence[Difference], per_one: float
) -> Iterator[Number]:
    """The largest of tested differences; not known if one of them is not."""
    sizes = [
        None if difference.value is None else abs(difference.value)
        for difference in differences
    ]
    bound = largest([difference.upper_bound for difference in differences])
    yield name, _times(per_one, largest(sizes))
    yield f"{name}_at_most", _times(per_one, bound)


def _paper_numbers(audit: Audit, setting: BudgetResult) -> Iterator[Number]:
    """The widest disparity of PCER, its null, and whether it is evidence.

    Without a null it is left out: the number alone would pass for a finding.
    """
    published = published_by_setting(audit)[setting.model, setting.epsilon]
    disparities = [pair.pcer_disparity for pair in published.pairs]
    widest = max(disparities, key=lambda disparity: abs(disparity.mean or 0.0))
    if widest.null_mean is None:
        return
    is_beyond_null = any(disparity.is_beyond_null for disparity in disparities)
    is_detected = any(group.resolved for group in setting.groups.values())
    has_finding = audit.verdict is not Verdict.INSUFFICIENT_DATA
    yield "disparity", widest.mean
    yield "disparity_null", widest.null_mean
    yield "disparity_is_evidence", int(is_beyond_null and is_detected and has_finding)


def _exposure(unit: ExposureUnit, value: float | None) -> float | None:
    return None if value is None else unit.coin + unit.per_one * value


def _times(per_one: float, value: float | None) -> float | None:
    return None if value is None else per_one * value
