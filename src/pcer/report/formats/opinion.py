"""The auditor's opinion: plain Markdown with headings, paragraphs and simple tables.

Word processors take it as it is (``pandoc opinion.md -o opinion.docx``). Every sentence
and number comes from the audit, so that both answers are those of every other output.
The template says what stands where; ``words.toml`` has the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pcer import wording
from pcer.auditing.record import Audit
from pcer.auditing.sentences import cards, certainty, telling
from pcer.files import as_shown
from pcer.release.attack_kinds import ACCURACY, proxy_named
from pcer.report.formats.markdown import markdown_text, pipe_table
from pcer.report.pictures.axis import environment
from pcer.report.tables import background, finding


def to_opinion(audits: Sequence[Audit]) -> str:
    """The opinion on each release, one after the other; at most about 500 words each."""
    page = environment().get_template("opinion.md")
    say = partial(wording.say, "opinion")
    parts = []
    rooms = {
        "answer_of": telling.answer_of,
        "listed": wording.listed,
        "NOTHING": wording.NOTHING,
        "sentence": wording.say,
        "how_sure": certainty.how_sure,
        "how_sure_card": cards.how_sure_card,
        "exposure_card": cards.exposure_card,
        "tables": background,
        "FEW_ROWS": finding.FEW_ROWS,
        "ACCURACY": ACCURACY,
        "proxy_named": proxy_named,
        "text": markdown_text,
    }
    for audit in map(as_shown, audits):
        note = say("table", attack=audit.proxy.label, coin=audit.proxy.scale.coin)
        numbers = replace(
            finding.finding_table(audit, most_rows=finding.FEW_ROWS), note=note
        )
        parts.append(
            page.render(audit=audit, say=say, numbers=pipe_table(numbers), **rooms)
        )
    text = "\n".join(parts)
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):  # no HTML
        text = text.replace(entity, f"\\{sign}")
    return text
