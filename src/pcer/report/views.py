"""What does a view of an audit show, in reading order?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pcer import wording
from pcer.auditing.record import Audit
from pcer.auditing.sentences import cards, certainty, headline, telling
from pcer.auditing.sentences import cards as cards_module
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.attack_kinds import GAP
from pcer.report.table import Lines, Table
from pcer.report.tables import background, finding, paper
from pcer.report.tables.attacks import costs_table
from pcer.report.tables.background import subject_name
from pcer.report.tables.paper import floors_table, paper_tables
from pcer.report.tables.tests import differences_table, pairs_table, resolution_table

View = Literal["summary", "brief", "short", "full", "paper"]


def view_of(
    audit: Audit, view: View = "short", also: Sequence[str] = ()
) -> list[Lines | Table]:
    """What a view of an audit shows, in reading order; what has nothing to say is left out.

    The short one stands wherever nobody asked for more. ``brief`` is a short one of few
    words, with bars for formats that have no picture; the paper's has the gap as
    exposure. ``also`` is said after the headline.
    """
    if view == "summary":
        return [Lines(background.subject_name(audit), [summary_line(audit)])]
    told = audit.told
    is_full = view == "full"
    is_brief = view == "brief"
    if view == "paper":
        above = [certainty.paper_words(audit), *background.left_out(audit), *also]
        first = Lines(f"The paper's view: {background.subject_name(audit)}", above)
        return [first, *paper.paper_tables(audit)]
    about = [
        *telling.subject_line(audit, told),
        wording.in_setting(told.model, told.epsilon),
    ]
    most_rows = finding.FEW_ROWS if is_brief else None if is_full else finding.MOST_ROWS
    against = [each.sentence for each in audit.declarations if each.caps_verdict]
    sure = [
        *cards.how_sure_card(audit, told).sentences,
        *against,
        *background.left_out(audit),
    ]
    shown: list[Lines | Table] = [
        Lines(
            " · ".join(about),
            [audit.headline, verdict_line(audit), *audit.policy_lines, *also],
        ),
        finding.finding_table(audit, most_rows=most_rows, bars=is_brief),
        paper.paper_strip(
            audit, most_rows=most_rows and min(most_rows, paper.MOST_STRIP_ROWS)
        ),
        Lines("How sure", sure if is_brief else [*audit.trust, audit.choice]),
        Lines("What can be done", audit.next_steps),
    ]
    if is_full:
        shown += [
            Lines("In plain words", audit.account),
            Lines("Every setting", background.advice(audit)),
            Lines("What was audited", background.facts(audit)),
            *tables(audit),
        ]
    return [each for each in shown if isinstance(each, Table) or each.sentences]


def verdict_line(audit: Audit) -> str:
    """The verdict in words, and its name for ``--fail-on`` and the docs."""
    return f"{headline.badge(audit, audit.told)} [{audit.verdict.value}]"


def summary_line(audit: Audit) -> str:
    """One line for chats: what was audited, both answers, the verdict."""
    where = wording.in_setting(audit.told.model, audit.told.epsilon)
    found = [audit.headline, *background.left_out(audit), verdict_line(audit)]
    return f"{background.subject_name(audit)}, {where}: {' '.join(found)}"


def setting_line(audit: Audit, called: str) -> str:
    """Both answers in one setting, which a user calls by any of its names."""
    settings = [(each.model, each.epsilon) for each in audit.budgets]
    if (place := wording.setting_called(called, settings)) is None:
        has = wording.listed(
            [repr(wording.short_setting(*setting)) for setting in settings]
        )
        what = (
            f"{background.subject_name(audit)} has no single setting called {called!r}"
        )
        raise InputError(f"{what}; it has {has}.", field="setting")
    at = audit.budgets[place]
    where = wording.capital(wording.in_setting(*settings[place]))
    return as_shown(
        f"{where}: {at.headline} {headline.badge(audit, at)} [{at.verdict.value}]"
    )


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    return {
        "Every test": [
            resolution_table(audit),
            pairs_table(audit),
            differences_table(audit),
        ],
        "Every attack": [costs_table(audit)] if len(audit.costs) > 1 else [],
        "The floor": [] if audit.cost == GAP.name else [floors_table(audit)],
        "As published": paper_tables(audit),
    }


def tables(audit: Audit) -> list[Table]:
    """All tables of an audit, in reading order."""
    return [table for group in table_groups(audit).values() for table in group]


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        cards = (cards_module.exposure_card, cards_module.outcomes_card)
        answers = [card(audit, audit.told).answer for card in cards]
        rows.append((subject_name(audit), *answers, audit.verdict.words))
    heads = ("release", "exposure", "outcomes", "verdict")
    return Table("All releases", heads, tuple(rows), len(heads))
