"""What does a view of an audit show, in reading order?

A view is a list of sentences (``Lines``), answers (``Six``) and tables, which each file
of ``formats`` renders; the command line and ``show`` call this file, too. Every view
but the paper's begins with the same first screen. To add a view: its name in ``View``,
and its parts in ``view_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pcer import wording
from pcer.auditing import sentences
from pcer.auditing.record import Audit
from pcer.auditing.sentences import Sentences
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.attack_kinds import GAP
from pcer.report.table import Lines, Part, Six, Table
from pcer.report.tables import background, finding, paper, settings
from pcer.report.tables.background import subject_name

View = Literal["summary", "short", "full", "paper"]
PUBLISHED: Final = "As published"
PAPER_ROW: Final = 4  # of the six, that about Delta PCER
N_SUMMED: Final = 3  # of the six, in a table of several releases


def view_of(audit: Audit, view: View = "short", also: Sequence[str] = ()) -> list[Part]:
    """What a view of an audit shows; sentences ``also`` stand after the headline.

    ``paper`` has the gap as exposure. A part that has nothing to say is left out.
    """
    if view == "summary":
        return [Lines(subject_name(audit), [summary_line(audit)])]
    said = sentences.of(audit, audit.told)
    if view == "paper":
        lines = [said.rows[PAPER_ROW].text, *background.left_out(audit), *also]
        title = f"The paper's view: {subject_name(audit)}"
        return [Lines(title, lines), *paper.paper_tables(audit)]
    parts = first_screen(audit, said, also, is_brief=view == "short")
    if view == "full":
        if audit.subject.published is None:
            parts.append(paper.paper_numbers(audit))
        parts += [
            Lines("How sure", [*audit.trust, audit.choice]),
            Lines("What more would show", audit.next_steps[1:]),
            Lines("In plain words", audit.account),
            Lines("Every setting", background.advice(audit)),
            Lines("What was audited", background.facts(audit)),
        ]
        for heading, group in table_groups(audit).items():
            parts += group[1:] if heading == PUBLISHED else group
    return [part for part in parts if not isinstance(part, Lines) or part.sentences]


def first_screen(
    audit: Audit, said: Sentences, also: Sequence[str], *, is_brief: bool
) -> list[Part]:
    """Header, headline, the six answers, settings, next step, and people in the data.

    Every output begins so, in this order.
    """
    most_rows = settings.MOST_SETTINGS if is_brief else None
    answers = [*said.less, said.headline, *said.policy, *also]
    return [
        Lines(" · ".join(said.header), answers),
        Six(said.rows, is_brief),
        settings.settings_table(audit, most_rows=most_rows, is_brief=is_brief),
        Lines("", closing_lines(audit, said)),
    ]


def closing_lines(audit: Audit, said: Sentences) -> list[str]:
    """The next step, whom the numbers leave out, and people in the data."""
    return [
        wording.say("next", "lead", step=said.next_step),
        *background.left_out(audit),
        said.if_in_data,
    ]


def summary_line(audit: Audit) -> str:
    """One line for chats: what was audited, the headline, the verdict's name."""
    place = f"{subject_name(audit)}, {audit.told.name.in_sentence}"
    less = sentences.of(audit, audit.told).less
    lines = [*less, audit.headline, *background.left_out(audit)]
    return f"{place}: {' '.join(lines)} [{audit.verdict.value}]"


def setting_line(audit: Audit, called: str) -> str:
    """Both answers in one setting, which a user calls by any of its names."""
    names = [setting.name for setting in audit.settings]
    place = wording.setting_called(called, names)
    if place is None:
        short = [repr(name.short) for name in names]
        problem = f"{subject_name(audit)} has no single setting called {called!r}"
        raise InputError(f"{problem}; it has {wording.listed(short)}.", field="setting")
    setting = audit.settings[place]
    where = wording.capital(setting.name.in_sentence)
    return as_shown(f"{where}: {setting.headline} [{setting.verdict.value}]")


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    has_several_attacks = len(audit.attacks) > 1
    has_ratios = audit.subject.published is None
    has_floor = has_ratios and audit.attack != GAP.name
    tests = [finding.resolution_table(audit)]
    if has_ratios:
        tests.append(finding.pairs_table(audit))
    return {
        "Every test": [*tests, finding.differences_table(audit)],
        "Every attack": [finding.attacks_table(audit)] if has_several_attacks else [],
        "The floor": [paper.floors_table(audit)] if has_floor else [],
        PUBLISHED: paper.paper_tables(audit) if has_ratios else [],
    }


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        said = sentences.of(audit, audit.told)
        answers = [row.answer for row in said.rows[:N_SUMMED]]
        rows.append((subject_name(audit), *answers))
    heads = ("release", "spotted?", "easier to spot?", "worse served?")
    return Table("All releases", heads, tuple(rows), len(heads))
