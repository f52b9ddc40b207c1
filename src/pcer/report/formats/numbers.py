"""Which numbers of an audit do other programs take, and under which names?

``to_metrics`` gives one flat dict (``Audit.metrics``, ``pcer audit --metrics``, model
cards), ``to_frame`` data frames, made with whichever library is installed. To add a
number: a ``yield`` in ``_setting_numbers``, and its name in ``docs/integrations.md``;
a frame: a function that yields its rows, and a row of ``FRAMES``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pcer.auditing.answers import ExposureAnswer, OutcomesAnswer
from pcer.auditing.record import (
    Audit,
    SettingResult,
    rounded,
)
from pcer.auditing.sentences.telling import answers_of
from pcer.errors import InputError
from pcer.measuring.plan import Verdict
from pcer.report.tables.background import published_by_setting
from pcer.wording import largest

PREFIX = "pcer_"
LONGEST = 60  # characters of a slug; MLflow takes 250 in a name
SHORT_DIGEST = 8  # digits that follow a slug, unless two share them
WHOLE_DIGEST = 64
# Slugs that would read as another number of the audit, or as a slug with its digest.
TAKEN = re.compile(r"max|gap|.*at_most|(.*_)?[0-9a-f]{8,}")
COIN = 50.0  # right answers of 100 by guessing
# What a frame can be made with; the first that is installed, unless another is named.
BACKENDS = ("pandas", "polars", "pyarrow")
# Records that not every row has; a frame has their columns where one row does.
OPTIONAL = {"null_gap", "allowed", "equivalence", "placebo"}

Number = tuple[str, float | None]  # its name, and its value if that is known
Fields = dict[str, Any]


# Metrics


class ExposureUnit(NamedTuple):
    """What exposures are called and counted in: ``coin`` and ``per_one`` of each 1."""

    name: str
    per_one: float
    coin: float

    def number(self, value: float | None) -> float | None:
        """An exposure in this unit, if it is known."""
        return None if value is None else self.coin + self.per_one * value


def to_metrics(audit: Audit) -> dict[str, float]:
    """Numbers by name; see ``Audit.metrics``."""
    group_slugs = slugs(audit.subject.groups)
    numbers = dict(_setting_numbers(audit, audit.told, group_slugs))
    numbers["alarm"] = int(bool(answers_of(audit.told).alarms))
    numbers["left_out"] = audit.subject.n_missing_group
    if audit.plan.policy is not None:
        numbers["broken_rules"] = len(audit.broken_rules)
    if len(audit.settings) > 1:
        names = []
        for setting in audit.settings:
            # With the whole epsilon: two may differ in its last digit.
            epsilon = setting.epsilon
            budget = "no-DP" if epsilon is None else f"epsilon {epsilon!r}"
            names.append(f"{setting.model or ''} {budget}".removesuffix(".0"))
        for setting, slug in zip(audit.settings, slugs(names).values(), strict=True):
            for name, value in _setting_numbers(audit, setting, group_slugs):
                numbers[f"{name}__{slug}"] = value
    return {
        f"{PREFIX}{name}": rounded(value)
        for name, value in numbers.items()
        if value is not None
    }


def by_release(audits: Sequence[Audit]) -> dict[str, Any]:
    """Numbers of one audit; of several by dataset and attribute of each."""
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

    A name that loses letters, is cut, reads as one of our own or shares its slug gets
    the first digits of its SHA-256: all of them where eight do not tell two apart.
    """
    plain = {name: _slug(name) for name in names}
    n_names = Counter(slug for slug, _ in plain.values())
    for n_digits in (SHORT_DIGEST, WHOLE_DIGEST):
        by_name = {}
        for name, (slug, is_whole) in plain.items():
            is_taken = TAKEN.fullmatch(slug) is not None
            by_name[name] = slug
            if not is_whole or is_taken or n_names[slug] > 1:
                text = name.encode("utf-8", "surrogatepass")
                digits = hashlib.sha256(text).hexdigest()[:n_digits]
                by_name[name] = f"{slug}_{digits}".lstrip("_")
        if len({*by_name.values()}) == len(by_name):
            break
    return by_name


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
    audit: Audit, setting: SettingResult, group_slugs: Mapping[str, str]
) -> Iterator[Number]:
    scale = audit.attack_kind.scale
    unit = ExposureUnit("other_exposure", scale.per_unit, 0.0)
    if scale.per_success is not None:  # its unit says how often an attacker is right
        unit = ExposureUnit("exposure", scale.per_success, COIN)
    for name, group in setting.groups.items():
        slug = group_slugs[name]
        yield f"{unit.name}_{slug}", unit.number(group.exposure.value)
        yield f"{unit.name}_{slug}_at_most", unit.number(group.exposure.upper_bound)
        yield f"outcome_{slug}", _times(100, group.benefit.mean)

    # The most exposed group with enough records; not known if one of these is not.
    levels = [group.exposure for group in setting.groups.values() if not group.too_few]
    bound = largest([exposure.upper_bound for exposure in levels])
    yield (
        f"{unit.name}_max",
        unit.number(largest([exposure.value for exposure in levels])),
    )
    yield f"{unit.name}_max_at_most", unit.number(bound)

    exposures = [pair.exposure for pair in setting.pairs]
    outcomes = [pair.outcomes for pair in setting.pairs]
    yield from _largest_difference(f"{unit.name}_gap", exposures, unit.per_one)
    yield from _largest_difference("outcome_gap", outcomes, 100)
    yield from _paper_numbers(audit, setting)
    yield "accuracy", _times(100, setting.accuracy.mean)


def _largest_difference(
    name: str, answers: Sequence[ExposureAnswer | OutcomesAnswer], per_one: float
) -> Iterator[Number]:
    """The largest of tested differences; not known if one of them is not."""
    tested = [answer.difference for answer in answers if answer.p_value is not None]
    sizes = [None if one.value is None else abs(one.value) for one in tested]
    bound = largest([one.upper_bound for one in tested])
    yield name, _times(per_one, largest(sizes))
    yield f"{name}_at_most", _times(per_one, bound)


def _paper_numbers(audit: Audit, setting: SettingResult) -> Iterator[Number]:
    """The widest disparity of PCER, its null, and whether it is evidence."""
    published = published_by_setting(audit)[setting.model, setting.epsilon]
    disparities = [pair.pcer_disparity for pair in published.pairs]
    widest = max(disparities, key=lambda disparity: abs(disparity.mean or 0.0))
    if widest.null_mean is None:  # the number alone would pass for a finding
        return
    is_beyond_null = any(disparity.is_beyond_null for disparity in disparities)
    is_detected = any(group.detected for group in setting.groups.values())
    has_finding = audit.verdict is not Verdict.INSUFFICIENT_DATA
    yield "disparity", widest.mean
    yield "disparity_null", widest.null_mean
    yield "disparity_is_evidence", int(is_beyond_null and is_detected and has_finding)


def _times(per_one: float, value: float | None) -> float | None:
    return None if value is None else per_one * value


# Data frames


class Frame(NamedTuple):
    """The rows of a data frame, and the ten of their columns that most need."""

    rows: Callable[[Audit], Iterator[Fields]]
    few: str  # their names, with spaces between


def to_frame(audit: Audit, what: str, backend: str | None, *, full: bool) -> Any:
    """A native data frame, a row for each of ``what``; see ``Audit.to_frame``."""
    import narwhals as nw

    if what not in FRAMES:
        raise InputError(
            f"to_frame gives {', '.join(FRAMES)}, and nothing called {what!r}."
        )
    frame = FRAMES[what]
    chosen_backend: Any = _installed(backend)
    rows = [dict(_flat("", row)) for row in frame.rows(audit)]
    every: dict[str, None] = {}
    for row in rows:  # one may lack what is optional
        every |= dict.fromkeys(row)
    names = list(every)
    if not full:
        names = [name for name in frame.few.split() if name in every] or names
    columns = {}
    for name in names:
        columns[name] = [row.get(name) for row in rows]
    return nw.from_dict(columns, backend=chosen_backend).to_native()


def _installed(backend: str | None) -> str:
    installed = []
    for name in BACKENDS:
        if importlib.util.find_spec(name) is not None:
            installed.append(name)
    if backend is None and installed:
        return installed[0]
    wanted = "pandas, polars or pyarrow" if backend is None else backend
    if wanted not in installed:
        raise InputError(
            f"to_frame needs {wanted} as backend, which is not installed or not one of "
            f"{', '.join(BACKENDS)}; install one, or read the same numbers with "
            "to_tree().",
            field="backend",
        )
    return wanted


def _group_rows(audit: Audit) -> Iterator[Fields]:
    for setting in audit.settings:
        for name, group in setting.groups.items():
            yield {**_key_of(setting), "group": name, **group.model_dump()}


def _pair_rows(audit: Audit) -> Iterator[Fields]:
    # Fields that have columns of their own, or whose columns another field has already.
    left_out: Any = {"groups": True, "floors": True, "exposure": {"placebo"}}
    for setting in audit.settings:
        for pair in setting.pairs:
            first, second = pair.groups
            names = {"first": first, "second": second}
            yield {**_key_of(setting), **names, **pair.model_dump(exclude=left_out)}


def _setting_rows(audit: Audit) -> Iterator[Fields]:
    left_out = {"model", "epsilon", "groups", "pairs"}
    for setting in audit.settings:
        fields = setting.model_dump(exclude=left_out)
        fields["verdict"] = setting.verdict.value
        yield {**_key_of(setting), "groups": setting.named, **fields}


def _key_of(setting: SettingResult) -> Fields:
    return {"model": setting.model, "epsilon": setting.budget}


def _attack_rows(audit: Audit) -> Iterator[Fields]:
    for story in audit.attacks:
        yield story.model_dump()


def _flat(prefix: str, fields: Fields) -> Iterator[tuple[str, Any]]:
    """Nested fields under joined names, intervals as two numbers, lists as text."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if value is None and key in OPTIONAL:
            continue
        if isinstance(value, dict):
            yield from _flat(f"{name}_", value)
        elif key.endswith(("interval", "ci")):
            low, high = (None, None) if value is None else value
            yield f"{name}_low", low
            yield f"{name}_high", high
        elif isinstance(value, list):
            yield name, ", ".join(map(str, value))
        else:
            yield name, value


FRAMES = {
    "groups": Frame(
        _group_rows,
        "model epsilon group n_train positive_rate_mean exposure_value "
        "exposure_upper_bound detectable p_value detected",
    ),
    "pairs": Frame(
        _pair_rows,
        "model epsilon first second verdict exposure_answer exposure_difference_value "
        "exposure_p_value outcomes_answer outcomes_difference_value",
    ),
    "settings": Frame(
        _setting_rows,
        "model epsilon groups n_splits accuracy_mean demographic_parity_gap_mean "
        "equalized_odds_gap_mean pcer_spread_mean verdict headline",
    ),
    "attacks": Frame(
        _attack_rows,
        "attack n_cells n_detected more_exposed lower_ratio double_disadvantage "
        "p_value p_value_over_attacks ratio_p_over_attacks detected_in",
    ),
}
