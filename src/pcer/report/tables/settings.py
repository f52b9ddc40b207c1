"""What does each setting give: exposure, predictions, errors, accuracy?

``settings_table`` stands below the six answers of every output: a row a setting, both
groups beside each other, of more the lowest and the highest. To add a column: a line of
``_columns``, its head and what makes a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pcer import wording
from pcer.auditing.answers import Served
from pcer.auditing.record import Audit, GroupResult, SettingResult
from pcer.auditing.sentences.predicted import Predicted, error_name, predicted_in
from pcer.auditing.sentences.telling import answers_of
from pcer.measuring.plan import POSITIVE_RATE
from pcer.report.table import Table
from pcer.report.tables.background import further_rows, least_private_first
from pcer.wording import decimals, say

LONGEST_HEAD = 34  # letters of what is predicted, above a column
MOST_SETTINGS = 12  # in a table that is read without asking for everything
HUNDRED = 100.0

Cell = Callable[[SettingResult], str]
Column = tuple[str, Cell]


def settings_table(
    audit: Audit, *, most_rows: int | None = None, is_brief: bool = False
) -> Table:
    """Every setting, the least private first; of too many the main one's model's.

    A brief table leaves out what training spent.
    """
    settings = least_private_first(audit)
    n_all = len(settings)
    if most_rows is not None and n_all > most_rows:
        of_model = [one for one in settings if one.model == audit.told.model]
        start = max(0, of_model.index(audit.told) + 1 - most_rows)
        settings = of_model[start : start + most_rows]
    columns = [*_columns(audit, is_brief=is_brief)]
    rows = []
    for setting in settings:
        rows.append(tuple(cell(setting) for _, cell in columns))
    heads = tuple(head for head, _ in columns)
    note = further_rows(n_all - len(rows)).strip()
    title = say("settings", "title", groups=_order(audit))
    return Table(title, heads, tuple(rows), 1, note)


def _order(audit: Audit) -> str:
    """Whose numbers a cell has, in its order."""
    pair = _pair(audit)
    if pair is not None:
        return " / ".join(pair)
    n = len(audit.subject.groups)
    return say("settings", "many", n=n)


def _pair(audit: Audit) -> tuple[str, str] | None:
    """Both groups, as the first screen names them; None of more than two."""
    if len(audit.subject.groups) != 2:
        return None
    answers = answers_of(audit.told)
    if answers.served.wrongly[0].answer == "differ":
        return answers.served.wrongly[0].groups
    if answers.served.rates[0].answer == "differ":
        return answers.served.rates[0].groups
    return answers.easier.pairs[0].groups


def _columns(audit: Audit, *, is_brief: bool) -> Iterator[Column]:
    said = predicted_in(audit)
    pair = _pair(audit)
    scale = audit.attack_kind.scale
    yield say("settings", "setting"), lambda setting: setting.name.full
    head = say("settings", "success")
    if scale.per_success is None:
        head = scale.column
    form = "at_most" if is_brief else "not_detected"
    yield head, partial(_exposures, audit, pair, form)
    yield _rate_head(audit, said), partial(_rates, pair, "rate")
    is_harm = audit.subject.prediction_is == "harm"
    for rate, of_true in (("wrongly", not is_harm), ("missed", is_harm)):
        yield error_name(said, of_true=of_true), partial(_rates, pair, rate)
    yield _accuracy_head(audit), _accuracy
    if not is_brief and any(_spent(setting) for setting in audit.settings):
        yield say("settings", "spent"), _spent


def _rate_head(audit: Audit, said: Predicted) -> str:
    kind = audit.plan.benefit_kind
    if kind.name != POSITIVE_RATE or len(said.positive) > LONGEST_HEAD:
        return kind.head
    return said.positive


def _accuracy_head(audit: Audit) -> str:
    majority = audit.told.majority
    if majority is None:
        return say("settings", "accuracy")
    return say("settings", "accuracy_beside", majority=decimals(HUNDRED * majority, 0))


# Cells


class _Known(NamedTuple):
    """A group's number as it is printed."""

    group: str
    value: float


def _together(pair: Sequence[str] | None, known: list[_Known], digits: int) -> str:
    """Both groups' numbers, or the lowest and the highest."""
    if not known:
        return wording.NOTHING
    if pair is not None:
        by_name = {one.group: decimals(one.value, digits) for one in known}
        return " / ".join(by_name.get(name, wording.NOTHING) for name in pair)
    values = sorted(one.value for one in known)
    ends = dict.fromkeys([decimals(values[0], digits), decimals(values[-1], digits)])
    return " to ".join(ends)


def _exposures(
    audit: Audit, pair: Sequence[str] | None, form: str, setting: SettingResult
) -> str:
    """How often an attacker is right; where nobody is detected, at most how often."""
    groups = answers_of(setting).spotting.groups
    if audit.attack_kind.scale.per_success is None:
        return _in_unit(audit, setting)
    known = [
        _Known(group.group, group.success)
        for group in groups
        if group.success is not None
    ]
    if any(group.detected for group in groups) or not known:
        return _together(pair, known, 1)
    highs = [group.interval[1] for group in groups if group.interval is not None]
    if not highs:
        return _together(pair, known, 1)
    return say("settings", form, at_most=decimals(max(highs), 1))


def _in_unit(audit: Audit, setting: SettingResult) -> str:
    hundredths = audit.attack_kind.scale.hundredths
    amounts = []
    for group in setting.groups.values():
        if group.exposure.value is not None:
            amounts.append(group.exposure.value)
    if not amounts:
        return wording.NOTHING
    ends = dict.fromkeys([hundredths(min(amounts)), hundredths(max(amounts))])
    return " to ".join(ends)


def _rates(pair: Sequence[str] | None, rate: str, setting: SettingResult) -> str:
    known = []
    for group in answers_of(setting).served.groups:
        value = _rate_of(group, rate)
        if value is not None:
            known.append(_Known(group.group, HUNDRED * value))
    return _together(pair, known, 0)


def _rate_of(group: Served, rate: str) -> float | None:
    values = {"rate": group.rate, "wrongly": group.wrongly, "missed": group.missed}
    return values[rate]


def _accuracy(setting: SettingResult) -> str:
    mean = setting.accuracy.mean
    return decimals(None if mean is None else HUNDRED * mean, 0)


def _spent(setting: SettingResult) -> str:
    """The highest mean epsilon that training spent on a group's people."""
    spent = [_spent_by(group) for group in setting.groups.values()]
    known = [one for one in spent if one is not None]
    return f"{max(known):.2g}" if known else ""


def _spent_by(group: GroupResult) -> float | None:
    return None if group.allowed is None else group.allowed.spent
