"""How are views, tables and the auditor's opinion written as Markdown?

``pcer audit --markdown`` calls ``to_markdown_page``, ``--opinion`` and
``Audit.opinion`` ``to_opinion``; model cards and the study write tables with the rest.
To add a part of the opinion: a value in ``_opinion``, its place in
``templates/opinion.md``, its words in the section ``opinion`` of ``words.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

from pcer import wording
from pcer.auditing import sentences
from pcer.auditing.answers import Difference
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences import Sentences, telling
from pcer.auditing.sentences.telling import Axis
from pcer.files import as_shown
from pcer.release.attack_kinds import ACCURACY, Scale, attack_kind
from pcer.report.formats.terminal import without_marks
from pcer.report.pictures.looks import environment
from pcer.report.table import Lines, Table
from pcer.report.tables import background
from pcer.report.tables.finding import FEW_ROWS, finding_table
from pcer.report.views import View, view_of

MOST_SETTINGS: Final = 12  # of an opinion, with a row of findings each
SPLIT_NOTE: Final = "train/test split"  # stands among the limits, not the findings
ENTITIES: Final = {"&lt;": "\\<", "&gt;": "\\>", "&amp;": "\\&"}

_say = partial(wording.say, "opinion")


# Views and tables


def to_markdown_page(
    audits: Sequence[Audit], view: View = "brief", also: Sequence[Sequence[str]] = ()
) -> str:
    """Audits as one Markdown page that GitHub shows.

    Args:
        audits: one after the other; in the brief view each takes at most 400 words.
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
        for part in rest:
            if isinstance(part, Table):
                parts.append(to_markdown(part))
                continue
            items = "\n".join(f"- {markdown_text(line)}" for line in part.sentences)
            parts.append(f"### {part.title}\n\n{items}\n")
        parts.append(f"Release digest (SHA-256): `{audit.release_sha256}`\n")
    return "\n".join(parts)


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
    """One opinion after the other; some 500 words at most each."""
    page = environment().get_template("opinion.md")
    parts = []
    for audit in map(as_shown, audits):
        parts.append(page.render(**_opinion(audit), say=_say, text=markdown_text))
    text = "\n".join(parts)
    for entity, escaped in ENTITIES.items():  # no HTML, which Word would show
        text = text.replace(entity, escaped)
    return text


def _opinion(audit: Audit) -> dict[str, Any]:
    """What the template places, in its order: sentences, and rows of its tables."""
    said = sentences.of(audit, audit.told)
    settings = background.least_private_first(audit)[:MOST_SETTINGS]
    caps_verdict = any(declaration.caps_verdict for declaration in audit.declarations)
    scale = audit.attack_kind.scale
    table = finding_table(audit, most_rows=FEW_ROWS)
    note = _say("table", attack=audit.attack_kind.label, coin=scale.coin)
    beside = [one for one in audit.family if one != audit.release_sha256]
    bounds = []  # the most by which two groups may differ
    for pair in audit.told.pairs[:FEW_ROWS]:
        exposure = _bound(pair.exposure.difference, scale)
        outcomes = _bound(pair.outcomes.difference, ACCURACY)
        groups = wording.listed(pair.groups)
        bounds.append({"groups": groups, "exposure": exposure, "outcomes": outcomes})
    return {
        "title": _say("title", subject=background.subject_name(audit)),
        "scope": _scope(audit),
        "release_sha256": audit.release_sha256,
        "beside": beside,
        "plan_sha256": audit.plan_sha256,
        "checked": [_say("computed"), *_checks(audit)],
        "taken_on_trust": _taken_on_trust(audit, said),
        "answers": list(map(_answers, settings)),
        "numbers": pipe_table(replace(table, note=note)).strip(),
        "findings": _findings(audit, said),
        "bounds": bounds,
        "bound_note": _say("no_bounds" if caps_verdict else "bound_note"),
        "limits": [
            *(sentence for sentence in said.certainty if SPLIT_NOTE in sentence),
            audit.choice,
            *background.left_out(audit),
            wording.say("account", "not_measured"),
        ],
        "to_ask": _to_ask(audit, said) or [_say("ask_nothing")],
    }


def _scope(audit: Audit) -> list[str]:
    subject = audit.subject
    groups = wording.listed(subject.groups)
    scope = [_say("subject", about=subject, groups=groups)]
    if subject.n_audited is not None:
        who = subject.people or "people"
        scope.append(_say("people", n=f"{subject.n_audited:,}", who=who))
    settings = ", ".join(background.setting_labels(audit))
    return [*scope, _say("settings", settings=settings)]


def _checks(audit: Audit) -> list[str]:
    """Contradictions; without any, what is said of counts that agree or are absent."""
    if audit.declarations:
        return [declaration.sentence for declaration in audit.declarations]
    agreements = [wording.say("how_sure", name) for name in ("consistent", "no_counts")]
    return [sentence for sentence in agreements if sentence in audit.trust]


def _taken_on_trust(audit: Audit, said: Sentences) -> list[str]:
    on_trust = [_say("counts"), _say("random" if _is_random(audit) else "not_random")]
    if any(setting.epsilon is not None for setting in audit.settings):
        on_trust.append(_say("epsilon"))
    if _has_placebo(said):
        on_trust.append(_say("placebo", checked=said.how_sure.answer))
    return on_trust


def _is_random(audit: Audit) -> bool:
    return audit.subject.split_kind == "random"


def _has_placebo(said: Sentences) -> bool:
    """Whether the finding was checked with made-up groups."""
    return said.how_sure.answer != wording.say("how_sure_card", "unchecked")


def _answers(setting: SettingResult) -> dict[str, str]:
    return {
        "setting": setting.name.full,
        "exposure": _answer(setting, "exposure"),
        "outcomes": _answer(setting, "outcomes"),
        "verdict": setting.verdict.words,
    }


def _answer(setting: SettingResult, axis: Axis) -> str:
    """An answer, with the groups that it is about, as Markdown."""
    answer = telling.answer_of(setting, axis).replace("_", " ")
    groups = setting.named_by(axis)
    if not groups:
        return answer
    return f"{answer}: {markdown_text(wording.listed(groups))}".strip()


def _findings(audit: Audit, said: Sentences) -> list[str]:
    """What the cards say beside their answers and what stands elsewhere."""
    exposure = said.exposure.sentences
    is_detected = any(group.detected for group in audit.told.groups.values())
    if is_detected and telling.answer_of(audit.told, "exposure") != "cannot_tell":
        exposure = exposure[1:]
    elsewhere = [declaration.sentence for declaration in audit.declarations]
    return [
        sentence
        for sentence in (*exposure, *said.how_sure.sentences[1:])
        if sentence not in elsewhere and SPLIT_NOTE not in sentence
    ]


def _bound(difference: Difference, scale: Scale) -> str:
    bound = difference.upper_bound
    if bound is None:
        return wording.NOTHING
    return f"{scale.difference(bound)} {scale.points}"


def _to_ask(audit: Audit, said: Sentences) -> list[str]:
    questions = []
    if audit.declarations:
        questions.append(_say("ask_contradiction"))
    if not _is_random(audit):
        questions.append(_say("ask_random"))
    if not _has_placebo(said):
        questions.append(_say("ask_placebo"))
    if audit.stronger_attack is not None:
        attack = attack_kind(audit.stronger_attack)
        questions.append(_say("ask_attack", attack=attack.label))
    return [*questions, *audit.next_steps]
