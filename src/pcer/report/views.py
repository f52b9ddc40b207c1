"""What does a view of an audit show, in reading order?

A view is a list of sentences (``Lines``) and tables, which each file of ``formats``
renders: terminal, Markdown, LaTeX, JUnit and notebooks all show what is listed here.
The sentences are the audit's: both answers first, then one table, the paper's numbers,
how sure, what can be done. The command line calls this file too.

To add a view: its name in ``View``, and its parts in ``view_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pcer import wording
from pcer.auditing.record import Audit, BudgetResult
from pcer.auditing.sentences import cards, certainty, headline, telling
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.attack_kinds import GAP
from pcer.report.table import Lines, Table
from pcer.report.tables import background, finding, paper
from pcer.report.tables.attacks import costs_table
from pcer.report.tables.background import subject_name
from pcer.report.tables.tests import differences_table, pairs_table, resolution_table

View = Literal["summary", "brief", "short", "full", "paper"]


def view_of(
    audit: Audit, view: View = "short", also: Sequence[str] = ()
) -> list[Lines | Table]:
    """What a view of an audit shows, in reading order.

    The short view stands wherever nobody asked for more. ``brief`` is a short one of
    few words, with bars for formats that have no picture; ``paper`` has the gap as
    exposure. A part that has nothing to say is left out.

    Args:
        audit: whose sentences and numbers are shown.
        view: how much of them.
        also: sentences that stand after the headline.
    """
    if view == "summary":
        return [Lines(subject_name(audit), [summary_line(audit)])]
    if view == "paper":
        return [_paper_lines(audit, also), *paper.paper_tables(audit)]
    parts: list[Lines | Table] = [
        Lines(_subject_title(audit), _answers(audit, also)),
        *_short_tables(audit, view),
        Lines("How sure", _certainty_lines(audit, view)),
        Lines("What can be done", audit.next_steps),
    ]
    if view == "full":
        parts += [
            Lines("In plain words", audit.account),
            Lines("Every setting", background.advice(audit)),
            Lines("What was audited", background.facts(audit)),
            *tables(audit),
        ]
    return [part for part in parts if isinstance(part, Table) or part.sentences]


def _paper_lines(audit: Audit, also: Sequence[str]) -> Lines:
    sentences = [certainty.paper_words(audit), *background.left_out(audit), *also]
    return Lines(f"The paper's view: {subject_name(audit)}", sentences)


def _subject_title(audit: Audit) -> str:
    """What was audited, and the setting that the headline is about."""
    subject = telling.subject_line(audit, audit.told)
    return " · ".join([*subject, _in_setting(audit.told)])


def _answers(audit: Audit, also: Sequence[str]) -> list[str]:
    return [audit.headline, verdict_line(audit), *audit.policy_lines, *also]


def _short_tables(audit: Audit, view: View) -> list[Table]:
    """The finding and the paper's numbers, as long as a view has room for."""
    most_rows: int | None = finding.MOST_ROWS
    most_strip_rows: int | None = paper.MOST_STRIP_ROWS
    if view == "brief":
        most_rows = finding.FEW_ROWS
        most_strip_rows = finding.FEW_ROWS
    elif view == "full":
        most_rows = None
        most_strip_rows = None
    return [
        finding.finding_table(audit, most_rows=most_rows, bars=view == "brief"),
        paper.paper_strip(audit, most_rows=most_strip_rows),
    ]


def _certainty_lines(audit: Audit, view: View) -> list[str]:
    """What the finding rests on; in few words, what speaks against it."""
    if view != "brief":
        return [*audit.trust, audit.choice]
    contradictions = [
        declaration.sentence
        for declaration in audit.declarations
        if declaration.caps_verdict
    ]
    card = cards.how_sure_card(audit, audit.told)
    return [*card.sentences, *contradictions, *background.left_out(audit)]


def verdict_line(audit: Audit) -> str:
    """The verdict in words, and its name for ``--fail-on`` and the docs."""
    return f"{headline.badge(audit, audit.told)} [{audit.verdict.value}]"


def summary_line(audit: Audit) -> str:
    """One line for chats: what was audited, both answers, the verdict."""
    sentences = [audit.headline, *background.left_out(audit), verdict_line(audit)]
    place = f"{subject_name(audit)}, {_in_setting(audit.told)}"
    return f"{place}: {' '.join(sentences)}"


def setting_line(audit: Audit, called: str) -> str:
    """Both answers in one setting, which a user calls by any of its names."""
    keys = [(setting.model, setting.epsilon) for setting in audit.budgets]
    place = wording.setting_called(called, keys)
    if place is None:
        names = [repr(wording.SettingName(*key).short) for key in keys]
        problem = f"{subject_name(audit)} has no single setting called {called!r}"
        raise InputError(f"{problem}; it has {wording.listed(names)}.", field="setting")
    setting = audit.budgets[place]
    where = wording.capital(_in_setting(setting))
    badge = headline.badge(audit, setting)
    return as_shown(f"{where}: {setting.headline} {badge} [{setting.verdict.value}]")


def _in_setting(setting: BudgetResult) -> str:
    return wording.SettingName(setting.model, setting.epsilon).in_sentence


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    has_several_attacks = len(audit.costs) > 1
    is_by_gap = audit.cost == GAP.name
    return {
        "Every test": [
            resolution_table(audit),
            pairs_table(audit),
            differences_table(audit),
        ],
        "Every attack": [costs_table(audit)] if has_several_attacks else [],
        "The floor": [] if is_by_gap else [paper.floors_table(audit)],
        "As published": paper.paper_tables(audit),
    }


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    in_order: list[Table] = []
    for group in table_groups(audit).values():
        in_order += group
    return in_order


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        exposure = cards.exposure_card(audit, audit.told).answer
        outcomes = cards.outcomes_card(audit, audit.told).answer
        rows.append((subject_name(audit), exposure, outcomes, audit.verdict.words))
    heads = ("release", "exposure", "outcomes", "verdict")
    return Table("All releases", heads, tuple(rows), len(heads))
