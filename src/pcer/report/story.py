"""The two screens of a release, for each of its costs: words, pictures and their numbers.

Every sentence is the audit's. The page shows the audit's own cost first; what it would show for
another is in it too, as text that is said once and referred to by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pcer.auditing import (
    Audit,
    BudgetResult,
    judge_tested,
    rounded,
    run_tests,
    setting_name,
    short_setting,
)
from pcer.release import Release
from pcer.report.exposures import exposures_svg
from pcer.report.glossary import explained
from pcer.report.hero import hero_svg
from pcer.report.rows import isolated

MOST_PICTURES = 120
"""Of settings and costs that a page carries; beyond, it shows the audit's own cost alone."""
MOST_ROWS = 400
"""Of settings, groups and costs, from which on the same holds: another cost is another audit."""
COLUMNS = (
    "setting",
    "group",
    "receives, of 100",
    "exposure, in 100",
    "low",
    "high",
    "at most",
    "shown",
)
"""Of the numbers behind the two pictures."""


@dataclass(frozen=True, kw_only=True)
class SettingView:
    """One setting: its name, in tables too, its verdict, advice in HTML, its picture."""

    name: str
    label: str
    verdict: str
    words: str
    advice: str
    hero: str


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What a reader sees of one cost; sentences are HTML with terms explained."""

    cost: str
    label: str
    phrase: str
    telling: int
    verdict: str
    words: str
    headline: str
    account: list[str]
    trust: list[str]
    next_steps: list[str]
    settings: list[SettingView]
    exposures: str
    rows: list[list[Any]]


def screens(audit: Audit, release: Release, family: Sequence[Release] | None) -> list[Screen]:
    """The audit's screen first; with a family, also those of every other cost, if they fit.

    Args:
        audit: what the page is about.
        release: what it audited.
        family: releases that were judged together with it; None: no other cost is asked for.
    """
    n_pictures = len(audit.costs) * len(audit.budgets)
    n_rows = n_pictures * len(audit.subject.groups)
    fits = n_pictures <= MOST_PICTURES and n_rows < MOST_ROWS
    others = other_audits(audit, release, family) if family is not None and fits else ()
    return [screen(one) for one in (audit, *others)]


def other_audits(audit: Audit, release: Release, family: Sequence[Release]) -> Iterator[Audit]:
    """Audits by every other carried cost: the same sentences, without pictures of chance."""
    others = [story.cost for story in audit.costs if not story.is_main]
    if not others:
        return
    plan = audit.plan.model_copy(update={"null_draws": 1, "resamples": 1})
    tested, *members = (run_tests(one, plan).without_chance() for one in (release, *family))
    for cost in others:
        named = plan.model_copy(update={"cost": cost})
        yield from judge_tested([tested.by(named)], [one.by(named) for one in members])


def screen(audit: Audit) -> Screen:
    """What a reader sees of one audit."""
    known: set[str] = set()

    def told(lines: Sequence[str]) -> list[str]:
        return [explained(with_isolated_names(line, audit), known) for line in lines]

    return Screen(
        cost=audit.cost,
        label=audit.proxy.label,
        phrase=audit.proxy.phrase,
        telling=audit.telling,
        verdict=audit.verdict.value,
        words=audit.verdict.words,
        headline=told([audit.headline])[0],
        account=told(audit.account),
        trust=told(audit.trust),
        next_steps=told(audit.next_steps),
        settings=[_setting(audit, k) for k in range(len(audit.budgets))],
        exposures=exposures_svg(audit),
        rows=rounded([*_rows(audit)]),
    )


def with_isolated_names(text: str, audit: Audit) -> str:
    """Keep names that run from right to left from turning the sentence around them."""
    subject = audit.subject
    for name in sorted({*subject.groups, subject.dataset, subject.attribute}, key=len):
        if isolated(name) != name:
            text = text.replace(name, isolated(name))
    return text


def _setting(audit: Audit, k: int) -> SettingView:
    one = audit.budgets[k]
    reason = f" Reason: {one.reason}." if one.reason else ""
    advice = "" if k == audit.telling else f"{one.advice}{reason}"
    return SettingView(
        name=isolated(setting_name(one.model, one.epsilon)),
        label=short_setting(one.model, one.epsilon),
        verdict=one.verdict.value,
        words=one.verdict.words,
        advice=explained(with_isolated_names(advice, audit), set()),
        hero=hero_svg(audit, setting=k),
    )


def _rows(audit: Audit) -> Iterator[list[Any]]:
    for one in audit.budgets:
        for name in audit.subject.groups:
            yield [setting_name(one.model, one.epsilon), name, *_numbers(audit, one, name)]


def _numbers(audit: Audit, one: BudgetResult, name: str) -> list[Any]:
    """In people of 100, as the pictures print them."""
    group, scale = one.groups[name], audit.proxy.scale
    base = 50 if scale.is_advantage else 0
    low, high = group.cost.interval or (None, None)
    benefit = group.benefit.mean
    costs = (group.cost.value, low, high, group.cost.upper_limit_together)
    return [
        None if benefit is None else round(100 * benefit, 4),
        *(None if cost is None else round(base + scale.per_unit * cost, 4) for cost in costs),
        "yes" if group.resolved else "no",
    ]


class TextPool:
    """Texts that are said once and referred to by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Of a text, new or known."""
        return self._numbers.setdefault(text, len(self._numbers))

    def lines(self, text: str) -> list[int]:
        """Of a text's lines."""
        return [self.number(line) for line in text.split("\n")]

    @property
    def texts(self) -> list[str]:
        """All of them, by number."""
        return list(self._numbers)


def story_tree(found: Sequence[Screen]) -> dict[str, Any]:
    """Every screen for the page's script, as plain objects."""
    pool = TextPool()
    trees = [_screen_tree(one, pool) for one in found]
    return {"columns": list(COLUMNS), "screens": trees, "texts": pool.texts}


def _screen_tree(one: Screen, pool: TextPool) -> dict[str, Any]:
    return {
        "cost": one.cost,
        "telling": one.telling,
        "verdict": one.verdict,
        "words": one.words,
        "headline": [pool.number(one.headline)],
        "account": [pool.number(line) for line in one.account],
        "trust": [pool.number(line) for line in one.trust],
        "next": [pool.number(line) for line in one.next_steps],
        "exposures": pool.lines(one.exposures),
        "settings": [
            {
                "name": view.name,
                "label": view.label,
                "verdict": view.verdict,
                "words": view.words,
                "advice": [pool.number(view.advice)],
                "hero": pool.lines(view.hero),
            }
            for view in one.settings
        ],
        "rows": one.rows,
    }
