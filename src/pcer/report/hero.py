"""The picture of a finding: what each group receives, and how exposed it is. One SVG, no script.

The same in the page, in a notebook and beside Markdown. It can be read without colour: every
mark has its name and its value in words. Ink is ``currentColor`` and group colours are CSS
variables with a fallback, so it follows light and dark.
"""

from __future__ import annotations

from typing import NamedTuple

from pcer.auditing import Audit, BudgetResult, GroupResult, PairResult, Verdict, setting_name
from pcer.release import Proxy
from pcer.report.svg import (
    CLAIM_SIZE,
    NOTE_SIZE,
    TEXT_SIZE,
    WIDTH,
    Ends,
    Line,
    Tick,
    amount,
    colour,
    ends,
    exposure_ticks,
    few,
    lines,
    placing,
    short_name,
    template,
)

MOST_GROUPS = 5
ROW, TEXT_TO_MARK = 36, 13

RECEIVED = {
    "positive_rate": "who receive a positive prediction",
    "true_positive_rate": "who qualify and are predicted positive",
    "precision": "who are predicted positive and qualify",
}
UNEQUAL = {
    "positive_rate": "positive predictions",
    "true_positive_rate": "positive predictions for those who qualify",
    "precision": "right ones among positive predictions",
}


class Row(NamedTuple):
    """One group: its words, and where its marks lie."""

    name: str
    value: str
    told: str
    text_y: float
    y: float
    colour: str
    is_worse: bool
    is_shown: bool
    bar: float | None = None
    point: float | None = None
    span: tuple[float, float] | None = None
    limit: float | None = None
    allowed: float | None = None


class HeroPanel(NamedTuple):
    """A claim, what is measured, an axis and a row for each group."""

    claim: list[Line]
    words: list[Line]
    ticks: list[Tick]
    rows: list[Row]
    bottom: float
    axis_y: float


class Seen(NamedTuple):
    """One setting of an audit as the picture sees it."""

    audit: Audit
    told: BudgetResult
    allowed: dict[str, float]
    width: int

    @property
    def proxy(self) -> Proxy:
        """The cost."""
        return self.audit.proxy

    @property
    def names(self) -> list[str]:
        """Groups that are drawn."""
        return drawn_groups(self.audit, self.told)

    @property
    def concludes(self) -> bool:
        """Whether anything is said about who is more exposed."""
        return self.told.verdict not in (Verdict.NOT_RESOLVED, Verdict.INSUFFICIENT_DATA)


def drawn_groups(audit: Audit, told: BudgetResult) -> list[str]:
    """Groups in the subject's order; of too many those that the verdict names, then the first."""
    names = audit.subject.groups
    first = sorted(names, key=lambda name: name not in told.worse_off)[:MOST_GROUPS]
    return [name for name in names if name in first]


def hero_svg(audit: Audit, *, setting: int | None = None, width: int = WIDTH) -> str:
    """Draw one setting: same audit, same bytes.

    Args:
        audit: whose words and numbers are drawn, and what its training allows where it knows.
        setting: position in ``audit.budgets``; the one that the headline is about if None.
        width: in pixels that text is laid out for; the picture may be shown at any size.
    """
    told = audit.told if setting is None else audit.budgets[setting]
    seen = Seen(audit, told, allowed(audit, told), width)
    first = _received(seen)
    second = _exposed(seen, first.bottom + 22)
    notes = lines(_notes(seen), second.axis_y + 18, NOTE_SIZE, width)
    bottom = notes[-1].y if notes else second.axis_y
    return template("hero.svg").render(
        width=width,
        height=round(bottom + 6),
        title=picture_title(audit, told),
        told=" ".join(row.told + "." for panel in (first, second) for row in panel.rows),
        panels=[first, second],
        notes=notes,
    )


def picture_title(audit: Audit, told: BudgetResult) -> str:
    """What the picture shows, in one sentence: the headline where it is about this setting."""
    if told is audit.told:
        return audit.headline
    return f"{setting_name(told.model, told.epsilon)}: {told.verdict.words}. {exposure_claim(told)}"


def benefit_claim(audit: Audit, told: BudgetResult) -> str:
    """Who receives less, or is harmed more, beyond chance."""
    helps = audit.subject.outcome == "benefit"
    what = UNEQUAL[audit.plan.benefit]
    less = f"fewer {what}" if helps else f"more {what}"
    pairs = [pair for pair in told.pairs if pair.better_off is not None]
    worse = [_other(pair, pair.better_off) for pair in pairs]
    if not worse:
        return f"No group is shown to get {less}"
    return f"{few(worse)}: {less}"


def exposure_claim(told: BudgetResult) -> str:
    """Who is more exposed beyond chance, after every cap."""
    if told.verdict is Verdict.INSUFFICIENT_DATA or not any(
        group.resolved for group in told.groups.values()
    ):
        return "Nobody is shown to be recognised"
    if told.verdict is Verdict.NOT_RESOLVED:
        return "Nothing can be concluded about who is more exposed"
    higher = [pair.more_exposed for pair in told.pairs if pair.more_exposed]
    if not higher:
        return "No group is shown to be easier to recognise"
    return f"{few(higher)}: easier to recognise"


def allowed(audit: Audit, told: BudgetResult) -> dict[str, float]:
    """By group, the exposure that the training itself allows, where the audit knows it.

    It is told on the scale of an attacker who compares two people; on others there is none.
    """
    if not audit.proxy.scale.unit.startswith("AUC"):
        return {}
    bounds = {name: group.allowed for name, group in told.groups.items()}
    return {
        name: bound.advantage
        for name, bound in bounds.items()
        if bound is not None and bound.advantage is not None
    }


def _received(seen: Seen) -> HeroPanel:
    audit = seen.audit
    claim = lines(benefit_claim(audit, seen.told), CLAIM_SIZE, CLAIM_SIZE, seen.width)
    words = f"People of 100 {RECEIVED[audit.plan.benefit]} (a {audit.subject.outcome})"
    told = lines(words, claim[-1].y + 18, TEXT_SIZE, seen.width)
    top = told[-1].y + 8
    rows = [_received_row(seen, name, top + k * ROW) for k, name in enumerate(seen.names)]
    bottom = top + ROW * len(rows)
    return HeroPanel(claim, told, [], rows, bottom, bottom)


def _received_row(seen: Seen, name: str, top: float) -> Row:
    mean = seen.told.groups[name].benefit.mean
    value = "not known" if mean is None else f"{round(100 * mean)} of 100"
    said = f"{short_name(name)}: {value} {RECEIVED[seen.audit.plan.benefit]}"
    bar = None if mean is None else round(mean * seen.width, 1)
    return _row(seen, name, top)._replace(value=value, told=said, bar=bar, is_shown=True)


def _exposed(seen: Seen, top: float) -> HeroPanel:
    claim = lines(exposure_claim(seen.told), top + CLAIM_SIZE, CLAIM_SIZE, seen.width)
    words = lines(_measured(seen), claim[-1].y + 18, TEXT_SIZE, seen.width)
    top = words[-1].y + 8
    reach = _ends(seen)
    rows = [_exposed_row(seen, name, top + k * ROW, reach) for k, name in enumerate(seen.names)]
    bottom = top + ROW * len(rows)
    ticks = exposure_ticks(seen.proxy, reach, 0, seen.width)
    return HeroPanel(claim, words, ticks, rows, bottom, bottom + 14)


def _exposed_row(seen: Seen, name: str, top: float, reach: Ends) -> Row:
    group = seen.told.groups[name]
    x = placing(reach, 0, seen.width)
    cost, limit = group.cost, group.cost.upper_limit_together
    is_shown = group.resolved and seen.concludes
    value = exposure_words(seen.proxy, group, is_shown=is_shown)
    at_most = seen.allowed.get(name)
    told = f"{short_name(name)}: {value}" + (
        "" if at_most is None else f"; the training allows about {amount(seen.proxy, at_most)}"
    )
    return _row(seen, name, top)._replace(
        value=value,
        told=told,
        is_shown=is_shown,
        point=None if cost.value is None else x(cost.value),
        span=None if cost.interval is None else (x(cost.interval[0]), x(cost.interval[1])),
        limit=None if is_shown or limit is None else x(limit),
        allowed=None if at_most is None else x(at_most),
    )


def _row(seen: Seen, name: str, top: float) -> Row:
    is_worse = name in seen.told.worse_off
    return Row(
        name=short_name(name) + (f" ({_worse(seen)})" if is_worse else ""),
        value="",
        told="",
        text_y=top + 12,
        y=top + 12 + TEXT_TO_MARK,
        colour=colour(seen.audit.subject.groups.index(name)),
        is_worse=is_worse,
        is_shown=False,
    )


def _worse(seen: Seen) -> str:
    """What the verdict says of the groups it names; a lower ratio of harms is no disadvantage."""
    doubled = seen.told.verdict is Verdict.DOUBLE_DISADVANTAGE
    return "worse off" if doubled or seen.audit.subject.outcome == "benefit" else "lower ratio"


def exposure_words(proxy: Proxy, group: GroupResult, *, is_shown: bool) -> str:
    """A group's exposure in few words: its value and interval, or the most it can be."""
    cost = group.cost
    if group.too_few:
        return "too few people to tell"
    if cost.value is None:
        return "not known"
    if not is_shown:
        limit = cost.upper_limit_together
        return "not shown" + ("" if limit is None else f"; at most {amount(proxy, limit)}")
    if cost.interval is None:
        return amount(proxy, cost.value)
    low, high = (amount(proxy, end) for end in cost.interval)
    return f"{amount(proxy, cost.value)} ({low} to {high})"


def _measured(seen: Seen) -> str:
    """What the exposures count, from the scale's own words."""
    return seen.proxy.scale.counted.format(label=seen.proxy.label)


def _notes(seen: Seen) -> str:
    hidden = len(seen.audit.subject.groups) - len(seen.names)
    level = f"{100 * seen.audit.plan.confidence_level:g}"
    parts = [f"Line: {level} % interval, for people like these."]
    hollow = [name for name in seen.names if not seen.told.groups[name].resolved]
    parts += ["Open point: not shown. Tick: the most it can be."] if hollow else []
    parts += ["Bracket: what the training allows, an estimate."] if seen.allowed else []
    parts += [f"{hidden} further groups are in the tables."] if hidden else []
    return " ".join(parts)


def _ends(seen: Seen) -> Ends:
    marks: list[float | None] = [*seen.allowed.values()]
    for name in seen.names:
        cost = seen.told.groups[name].cost
        marks += [cost.value, cost.upper_limit_together, *(cost.interval or ())]
    return ends(marks)


def _other(pair: PairResult, name: str | None) -> str:
    first, second = pair.groups
    return second if name == first else first
