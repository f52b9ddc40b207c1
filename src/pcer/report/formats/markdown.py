"""How are views, tables and the auditor's opinion written as Markdown?

``pcer audit --markdown`` calls ``to_markdown_page``, ``--opinion`` and
``Audit.opinion`` ``to_opinion``; model cards and the study write tables with the rest.
To add a part of the opinion: a value in ``_opinion``, its place in
``templates/opinion.md``, its words in the section ``opinion`` of ``words.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.answers import Difference
from pcer.auditing.record import Audit
from pcer.auditing.sentences import Sentences, telling
from pcer.auditing.sentences.rows import Row, shortened
from pcer.files import as_shown
from pcer.release.attack_kinds import ACCURACY, Scale, attack_kind
from pcer.report.formats.terminal import without_marks
from pcer.report.pictures.looks import environment
from pcer.report.table import Lines, Part, Six, Table
from pcer.report.tables import background
from pcer.report.tables.finding import FEW_ROWS
from pcer.report.tables.settings import settings_table
from pcer.report.views import View, view_of

GENERATOR: Final = f"pcer {__version__}"
MOST_WORDS: Final = 400  # of a brief screen
MOST_OPINION_WORDS: Final = 650
MARKUP: Final = re.compile(r"\||-|#+|:?-+:?")  # of a table, a list or a title
MOST_SETTINGS: Final = 12  # of an opinion, with a row of findings each
ENTITIES: Final = {"&lt;": "\\<", "&gt;": "\\>", "&amp;": "\\&"}

_say = partial(wording.say, "opinion")


# Views and tables


def to_markdown_page(
    audits: Sequence[Audit], view: View = "short", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows.

    Args:
        audits: one after the other; in the short view each takes at most 400 words.
        view: what is shown of each.
        also: for each audit sentences that stand after its headline.
    """
    parts: list[str] = []
    for audit, lines in zip(map(as_shown, audits), also or repeat(()), strict=False):
        first, *rest = view_of(audit, view, lines)
        finding = cast("Lines", first)  # with which every view begins
        headline, *others = map(markdown_text, finding.sentences)
        parts += [f"## {markdown_text(finding.title)}\n", f"**{headline}**\n"]
        parts += [f"{sentence}\n" for sentence in others]
        digest = f"Release digest (SHA-256): `{audit.release_sha256}`\n"
        n_words = _n_words([*parts[-len(others) - 2 :], digest])
        parts += _rest_as_markdown(rest, n_words)
        parts.append(digest)
    return "\n".join(parts)


def _rest_as_markdown(shown: Sequence[Part], n_words: int) -> list[str]:
    """All below the headline; a brief screen has at most 400 words, those above in."""

    def written(rows: Sequence[Row]) -> list[str]:
        return [_part_as_markdown(part, rows) for part in shown]

    def fits(rows: Sequence[Row]) -> bool:
        return n_words + _n_words(written(rows)) <= MOST_WORDS

    rows: Sequence[Row] = ()
    for part in shown:
        if isinstance(part, Six):
            rows = shortened(part.rows, fits) if part.is_brief else part.rows
    return written(rows)


def _part_as_markdown(part: Part, rows: Sequence[Row]) -> str:
    """A part of a view; of the six answers ``rows``, which may be shorter."""
    if isinstance(part, Six):
        return _rows_as_markdown(rows)
    if isinstance(part, Table):
        return to_markdown(part)
    if part.title:
        items = "\n".join(f"- {markdown_text(line)}" for line in part.sentences)
        return f"### {markdown_text(part.title)}\n\n{items}\n"
    return "\n".join(f"{markdown_text(line)}\n" for line in part.sentences)


def _rows_as_markdown(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        figures = markdown_text(" ".join(row.figures))
        question = markdown_text(row.question)
        lines.append(f"- {question} **{markdown_text(row.answer)}.** {figures}".strip())
    return "\n".join(lines) + "\n"


def _n_words(parts: Sequence[str]) -> int:
    """Words of what is shown, split at white space; signs of Markdown are none."""
    words = " ".join(parts).split()
    return sum(not MARKUP.fullmatch(word) for word in words)


def to_markdown(table: Table) -> str:
    """The table as a Markdown pipe table under a heading."""
    return f"### {markdown_text(table.title)}\n\n{pipe_table(table)}"


def pipe_table(table: Table) -> str:
    """The table in Markdown without its title, its note below it."""
    n_numbers = len(table.columns) - table.n_labels
    sides = [":--"] * table.n_labels + ["--:"] * n_numbers
    rows = [_pipe_row(row) for row in table.rows]
    lines = [_pipe_row(table.columns), f"| {' | '.join(sides)} |", *rows]
    note = f"\n\n{markdown_text(table.note)}" if table.note else ""
    return "\n".join(lines) + note + "\n"


def _pipe_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def markdown_text(text: str) -> str:
    """Text that Markdown (and the HTML inside it) shows as it is."""
    no_html = without_marks(text).replace("&", "&amp;")
    no_html = no_html.replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|#~$!{}])", r"\\\1", no_html)
    return escaped.replace("\n", " ")


# The opinion


def to_opinion(audits: Sequence[Audit]) -> str:
    """One opinion after the other; some 650 words at most each."""
    text = "\n".join(_one_opinion(audit) for audit in map(as_shown, audits))
    for entity, escaped in ENTITIES.items():  # no HTML, which Word would show
        text = text.replace(entity, escaped)
    return text


def _one_opinion(audit: Audit) -> str:
    """The opinion, with as many figures of its rows as it has room for."""
    page = environment().get_template("opinion.md")
    parts = _opinion(audit)

    def written(rows: Sequence[Row]) -> str:
        places = {**parts, "rows": rows}
        return page.render(**places, say=_say, text=markdown_text)

    def fits(rows: Sequence[Row]) -> bool:
        return _n_words([written(rows)]) <= MOST_OPINION_WORDS

    return written(shortened(parts["rows"], fits))


def _opinion(audit: Audit) -> dict[str, Any]:
    """What the template places, in its order: sentences, and rows of its tables."""
    said = sentences.of(audit, audit.told)
    caps_verdict = any(declaration.caps_verdict for declaration in audit.declarations)
    scale = audit.attack_kind.scale
    beside = [one for one in audit.family if one != audit.release_sha256]
    bounds = []  # the most by which two groups may differ
    for pair in audit.told.pairs[:FEW_ROWS]:
        exposure = _bound(pair.exposure.difference, scale)
        outcomes = _bound(pair.outcomes.difference, ACCURACY)
        groups = wording.listed(pair.groups)
        bounds.append({"groups": groups, "exposure": exposure, "outcomes": outcomes})
    return {
        "title": _say("title", subject=background.subject_name(audit)),
        "scope": _scope(audit, said),
        "release_sha256": audit.release_sha256,
        "beside": beside,
        "plan_sha256": audit.plan_sha256,
        "program": GENERATOR,
        "checked": [_say("computed"), *_checks(audit)],
        "taken_on_trust": _taken_on_trust(audit, said),
        "headline": said.headline,
        "rows": said.rows,
        "numbers": pipe_table(settings_table(audit, most_rows=MOST_SETTINGS)).strip(),
        "bounds": bounds,
        "bound_note": _say("no_bounds" if caps_verdict else "bound_note"),
        "limits": [
            audit.choice,
            *background.left_out(audit),
            wording.say("account", "not_measured"),
        ],
        "to_ask": _to_ask(audit, said),
    }


def _scope(audit: Audit, said: Sentences) -> list[str]:
    subject = audit.subject
    groups = wording.listed(subject.groups)
    settings = ", ".join(background.setting_labels(audit))
    return [
        f"{' · '.join(said.header)}.",
        _say("subject", about=subject, groups=groups),
        _say("settings", settings=settings),
    ]


def _checks(audit: Audit) -> list[str]:
    """Contradictions; without any, what is said of counts that agree or are absent."""
    if audit.declarations:
        return [declaration.sentence for declaration in audit.declarations]
    agreements = [wording.say("how_sure", name) for name in ("consistent", "no_counts")]
    return [sentence for sentence in agreements if sentence in audit.trust]


def _taken_on_trust(audit: Audit, said: Sentences) -> list[str]:
    """What no number of the release can show, the check with made-up groups too."""
    on_trust = [_say("counts"), _say("random" if _is_random(audit) else "not_random")]
    if any(setting.epsilon is not None for setting in audit.settings):
        on_trust.append(_say("epsilon"))
    if _has_placebo(audit):
        on_trust.append(said.rows[-1].figures[0])
    return [*on_trust, _say("nothing_left_out")]


def _is_random(audit: Audit) -> bool:
    return audit.subject.split_kind == "random"


def _bound(difference: Difference, scale: Scale) -> str:
    bound = difference.upper_bound
    if bound is None:
        return wording.NOTHING
    return f"{scale.difference(bound)} {scale.points}"


def _to_ask(audit: Audit, said: Sentences) -> list[str]:
    """What would prove what rests on the trainer's word, then what is missing."""
    questions = []
    if audit.declarations:
        questions.append(_say("ask_contradiction"))
    questions.append(_say("ask_counts"))
    questions.append(_say("ask_splits" if _is_random(audit) else "ask_random"))
    if any(setting.epsilon is not None for setting in audit.settings):
        questions.append(_say("ask_epsilon"))
    if not _has_placebo(audit):
        questions.append(_say("ask_placebo"))
    if audit.stronger_attack is not None:
        attack = attack_kind(audit.stronger_attack)
        questions.append(_say("ask_attack", attack=attack.label))
    return [*questions, _say("ask_who"), said.next_step, *audit.next_steps[1:]]


def _has_placebo(audit: Audit) -> bool:
    """Whether the finding was checked with made-up groups."""
    return telling.answers_of(audit.told).trust.made_up is not None
