"""What does a view of an audit show, in reading order?

A view is a list of sentences (``Lines``) and tables, which each file of ``formats``
renders; the command line and ``show`` call this file, too. The sentences are the
audit's: both answers first, then one table, the paper's numbers, how sure, what can be
done. To add a view: its name in ``View``, and its parts in ``view_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pcer import wording
from pcer.auditing import sentences
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences import Sentences
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.attack_kinds import GAP
from pcer.report.table import Lines, Table
from pcer.report.tables import background, finding, paper
from pcer.report.tables.background import subject_name

View = Literal["summary", "brief", "short", "full", "paper"]


def view_of(
    audit: Audit, view: View = "short", also: Sequence[str] = ()
) -> list[Lines | Table]:
    """What a view of an audit shows; sentences ``also`` stand after the headline.

    ``brief`` is a short view of few words, with bars for formats that have no picture;
    ``paper`` has the gap as exposure. A part that has nothing to say is left out.
    """
    if view == "summary":
        return [Lines(subject_name(audit), [summary_line(audit)])]
    main = audit.told
    said = sentences.of(audit, main)
    if view == "paper":
        lines = [said.evidence, *background.left_out(audit), *also]
        title = f"The paper's view: {subject_name(audit)}"
        return [Lines(title, lines), *paper.paper_tables(audit)]
    title = " · ".join([*said.subject, main.name.in_sentence])
    answers = [said.headline, verdict_line(main, said), *said.policy, *also]
    parts: list[Lines | Table] = [
        Lines(title, answers),
        *_short_tables(audit, view),
        Lines("How sure", _certainty_lines(audit, said, view)),
        Lines("What can be done", audit.next_steps),
    ]
    if view == "full":
        parts += [
            Lines("In plain words", audit.account),
            Lines("Every setting", background.advice(audit)),
            Lines("What was audited", background.facts(audit)),
        ]
        for group in table_groups(audit).values():
            parts += group
    return [part for part in parts if isinstance(part, Table) or part.sentences]


def _short_tables(audit: Audit, view: View) -> list[Table]:
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


def _certainty_lines(audit: Audit, said: Sentences, view: View) -> list[str]:
    """What the finding rests on; in few words, what speaks against it."""
    if view != "brief":
        return [*audit.trust, audit.choice]
    contradictions = [
        declaration.sentence
        for declaration in audit.declarations
        if declaration.caps_verdict
    ]
    return [*said.how_sure.sentences, *contradictions, *background.left_out(audit)]


def verdict_line(setting: SettingResult, said: Sentences) -> str:
    """The verdict in words, and its name for ``--fail-on`` and the docs."""
    return f"{said.badge} [{setting.verdict.value}]"


def summary_line(audit: Audit) -> str:
    """One line for chats: what was audited, both answers, the verdict."""
    verdict = verdict_line(audit.told, sentences.of(audit, audit.told))
    lines = [audit.headline, *background.left_out(audit), verdict]
    place = f"{subject_name(audit)}, {audit.told.name.in_sentence}"
    return f"{place}: {' '.join(lines)}"


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
    verdict = verdict_line(setting, sentences.of(audit, setting))
    return as_shown(f"{where}: {setting.headline} {verdict}")


def table_groups(audit: Audit) -> dict[str, list[Table]]:
    """All tables of an audit in reading order, by the heading that they stand under."""
    has_several_attacks = len(audit.attacks) > 1
    is_by_gap = audit.attack == GAP.name
    return {
        "Every test": [
            finding.resolution_table(audit),
            finding.pairs_table(audit),
            finding.differences_table(audit),
        ],
        "Every attack": [finding.attacks_table(audit)] if has_several_attacks else [],
        "The floor": [] if is_by_gap else [paper.floors_table(audit)],
        "As published": paper.paper_tables(audit),
    }


def summary_table(audits: Sequence[Audit]) -> Table:
    """One line per release: for several at once."""
    rows = []
    for audit in audits:
        said = sentences.of(audit, audit.told)
        answers = (said.exposure.answer, said.outcomes.answer)
        rows.append((subject_name(audit), *answers, audit.verdict.words))
    heads = ("release", "exposure", "outcomes", "verdict")
    return Table("All releases", heads, tuple(rows), len(heads))
