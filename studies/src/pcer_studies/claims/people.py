"""Who is easier to spot, who is worse served, and what does training allow?

The sections of ``findings.md`` about people, attribute by attribute. Called by
``findings``, whose opening uses the same sentences. To add a column of the table: a
head in ``setting_table`` and a cell in ``_cells``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pcer.measuring.plan import SETTING_VERDICTS, Verdict
from pcer.release import attack_kinds
from pcer.wording import listed
from pcer_studies.claims.charts import FIGURES, NORMAL_95, has_allowed
from pcer_studies.claims.facts import Background, GroupCell, SettingRow
from pcer_studies.claims.wording import budget_words
from pcer_studies.results import Study

HUNDRED = 100
UNKNOWN = "–"


def people_section(background: Background) -> list[str]:
    """One paragraph for each attribute, and the table that it rests on."""
    return [
        "## Who, attribute by attribute",
        "Exposure: of 100 pairs of a person who was trained on and one who was not, "
        "how many an attacker ranks right (coin: 50). At most: its upper bound, 95% "
        "for all numbers of an audit together. Made-up groups: how many of 200 groups "
        "drawn at random raised an alarm.",
        *(_paragraph(background, title) for title in background.titles),
        "### The numbers",
        setting_table(background),
    ]


def _paragraph(background: Background, title: str) -> str:
    rows = background.titled(title)
    sentences = [f"**{background.title_of(rows[0])}.** {rows[0].predicted}"]
    sentences += map(_verdict_sentence, by_answers(rows))
    unseen = _unseen_sentence(rows)
    if unseen:
        sentences.append(unseen)
    return " ".join(sentences)


def by_answers(rows: Sequence[SettingRow]) -> list[list[SettingRow]]:
    """Settings that have the same verdict and name the same groups, strongest first."""
    alike: dict[tuple[object, ...], list[SettingRow]] = {}
    for row in rows:
        answers = (row.verdict, row.easier, row.worse_served)
        alike.setdefault(answers, []).append(row)
    return sorted(
        alike.values(), key=lambda group: SETTING_VERDICTS.index(group[0].verdict)
    )


def _verdict_sentence(rows: Sequence[SettingRow]) -> str:
    """What the audit says at some budgets, with made-up groups."""
    first = rows[0]
    verdict = first.verdict.words
    if first.verdict is Verdict.RATIO_DIFFERS:
        verdict += f" (driven by {_drivers(rows)})"
    return (
        f"At {budgets_of(rows)}: {verdict}; {both_answers(first)}; made-up groups with "
        f"an alarm: {placebo_range(rows)}."
    )


def _drivers(rows: Sequence[SettingRow]) -> str:
    return listed(list(dict.fromkeys(row.driven_by for row in rows if row.driven_by)))


def budgets_of(rows: Iterable[SettingRow]) -> str:
    """The budgets of some settings, from the smallest on."""
    return budget_words(sorted(row.epsilon for row in rows))


def both_answers(row: SettingRow) -> str:
    """Both answers about a setting, in one clause."""
    if row.easier and row.easier == row.worse_served:
        return f"{row.easier} is easier to spot and worse served"
    nobody = "no group is shown to be"
    easier = f"{row.easier} is" if row.easier else nobody
    worse = f"{row.worse_served} is" if row.worse_served else nobody
    return f"{easier} easier to spot, and {worse} worse served"


def placebo_range(rows: Sequence[SettingRow]) -> str:
    """In how many made-up groups an alarm was raised, over some settings."""
    checks = sorted(row.placebo for row in rows if row.placebo is not None)
    if not checks:
        return "not given"
    fewest, n_draws = checks[0]
    most, _ = checks[-1]
    if fewest == most:
        return f"{fewest} of {n_draws}"
    return f"{fewest} to {most} of {n_draws}"


def largest_difference(rows: Iterable[SettingRow]) -> float | None:
    """The largest difference of exposures that the data allow, in points."""
    bounds = [points(row, row.difference) for row in rows if row.difference is not None]
    return max(bounds, default=None)


def points(row: SettingRow, value: float) -> float:
    """An exposure, or a difference of two, in right answers of 100; 0 is a coin's."""
    return (attack_kinds.attack_kind(row.attack).scale.per_success or HUNDRED) * value


def _unseen_sentence(rows: Sequence[SettingRow]) -> str | None:
    """The largest difference that could have gone unseen, with privacy and without."""
    with_privacy = largest_difference(row for row in rows if row.private)
    without = largest_difference(row for row in rows if not row.private)
    bounds = []
    if with_privacy is not None:
        bounds.append(f"{with_privacy:.1f} points with privacy")
    if without is not None:
        bounds.append(f"{without:.1f} points without privacy")
    if not bounds:
        return None
    return f"The two groups' exposures differ by at most {' and '.join(bounds)}."


def setting_table(background: Background) -> str:
    """Every setting: both answers, what was found, what is allowed, made-up groups."""
    lines = [
        "| | ε | verdict | easier to spot | worse served | outcome, of 100 | "
        "exposure, of 100 (coin: 50) | at most | difference at most, points | allowed, "
        "of 100 | spent, of promised ε | made-up groups with an alarm |",
        "|---|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for title in background.titles:
        for row in background.titled(title):
            lines.append(f"| {' | '.join(_cells(background, row))} |")
    return "\n".join(lines)


def _cells(background: Background, row: SettingRow) -> tuple[str, ...]:
    first, second = row.groups
    verdict = row.verdict.words
    if row.downgraded:
        verdict += " (an alarm was downgraded)"
    difference = UNKNOWN
    if row.difference is not None:
        difference = f"{points(row, row.difference):.1f}"
    return (
        background.title_of(row),
        budget_words((row.epsilon,)).removeprefix("ε "),
        verdict,
        row.easier or UNKNOWN,
        row.worse_served or UNKNOWN,
        f"{HUNDRED * first.outcome:.0f} / {HUNDRED * second.outcome:.0f}",
        f"{_exposure(row, first)} / {_exposure(row, second)}",
        _exposures(row, first.at_most, second.at_most),
        difference,
        _exposures(row, first.allowed, second.allowed),
        _spent(row),
        placebo_range([row]).replace("not given", UNKNOWN),
    )


def _exposure(row: SettingRow, group: GroupCell) -> str:
    """What was found, with its error."""
    return f"{50 + points(row, group.found):.1f} ± {points(row, group.error):.1f}"


def _exposures(row: SettingRow, first: float | None, second: float | None) -> str:
    if first is None or second is None:
        return UNKNOWN
    return f"{50 + points(row, first):.1f} / {50 + points(row, second):.1f}"


def _spent(row: SettingRow) -> str:
    first, second = row.groups
    if first.spent is None or second.spent is None or first.promised is None:
        return UNKNOWN
    return f"{first.spent:.2f} / {second.spent:.2f} of {first.promised:.2f}"


# What was found, and what training allows.


class _Compared(NamedTuple):
    """What was found in a group of a setting, and what training allows there."""

    epsilon: float
    found: float
    error: float
    allowed: float

    @property
    def is_above(self) -> bool:
        """Whether more was found than is allowed."""
        return self.found > self.allowed

    @property
    def is_above_beyond_error(self) -> bool:
        """Whether the lower end of what was found is more than is allowed."""
        return self.found - NORMAL_95 * self.error > self.allowed


def allowed_section(background: Background) -> list[str]:
    """Found and allowed on one axis, for all private settings."""
    rows = [row for row in background.settings if has_allowed(row)]
    if not rows:
        return ["## Found and allowed", "These releases carry no receipts."]
    n_apart = sum(_spends_apart(background.study, row) for row in rows)
    n_unequal = sum(row.easier is not None for row in rows)
    return [
        "## Found and allowed",
        "An attack gives a lower bound: a better one may find more. Training with "
        "privacy gives the other side: how much each person's own gradients let "
        "through "
        "([receipts.md]"
        "(../../docs/training.md#receipts-the-privacy-that-each-person-spent)).",
        "![Found and allowed in every private setting]"
        f"({FIGURES}/findings-allowed.svg)",
        "*What LiRA finds (circles, with 95% intervals) and what the training allows "
        "an attacker who sees every step (triangles), on one axis, for every group and "
        "private setting.*",
        _below_sentences(_compared(rows)),
        "What the two groups spent on average differs beyond its error in "
        f"{n_apart} of {len(rows)} private settings, where the audit finds unequal "
        f"exposures in {n_unequal}. Receipts see small differences that no attack "
        "shows; they are estimates here (norms computed now and then), and no verdict "
        "rests on them.",
    ]


def _compared(rows: Iterable[SettingRow]) -> list[_Compared]:
    compared = []
    for row in rows:
        for group in row.groups:
            if group.allowed is not None:
                compared.append(
                    _Compared(row.epsilon, group.found, group.error, group.allowed)
                )
    return compared


def _below_sentences(compared: Sequence[_Compared]) -> str:
    """In how many groups and settings less is found than allowed, and how much less."""
    n_above = sum(group.is_above for group in compared)
    n_sure = sum(group.is_above_beyond_error for group in compared)
    n_below = len(compared) - n_above
    below = (
        f"Found is below allowed in {n_below} of {len(compared)} groups and settings"
    )
    if n_above > 0:
        below += f"; in {n_sure} it is above beyond its error"
    return f"{below}. {_share_sentence(compared)}"


def _share_sentence(compared: Iterable[_Compared]) -> str:
    """Budget by budget, the largest share of what is allowed that was found."""
    shares: dict[float, list[float]] = {}
    for group in compared:
        if group.allowed != 0:
            share = group.found / group.allowed
            shares.setdefault(group.epsilon, []).append(share)
    largest = [
        f"{HUNDRED * max(shares[epsilon]):.0f}% at {budget_words((epsilon,))}"
        for epsilon in sorted(shares)
    ]
    return f"Of what is allowed, at most this share is found: {', '.join(largest)}."


def _spends_apart(study: Study, row: SettingRow) -> bool:
    """Whether the groups' mean receipts differ by more than 1.96 of their errors."""
    source = study.closest if row.closest and study.closest is not None else study
    configuration = row.configuration
    release = source.release(configuration.dataset, configuration.attribute)
    receipts = {
        bound.group: bound
        for bound in release.bounds
        if bound.kind == "receipt"
        and bound.label is None
        and bound.epsilon == row.epsilon
    }
    first, second = (receipts.get(name) for name in configuration.groups)
    if first is None or second is None:
        return False
    error = math.hypot(first.standard_error or 0.0, second.standard_error or 0.0)
    return abs(first.mean - second.mean) > NORMAL_95 * error
